/* Shared by the tests of layouts and plans: random meshes, layouts and topologies, from the internal
 * headers only, and torch.chunk written from its documentation. */
#ifndef WEFT_TESTS_PLAN_SUPPORT_H
#define WEFT_TESTS_PLAN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "prng.h"
#include "rows.h"

/* Asserts that it is valid. The caller deletes it. */
weft_mesh_impl *mesh_of(int ndim, const int64_t shape[], const int ranks[]);
/* 1 to 3 dimensions, up to `max_ranks` of the world's ranks: all from 0 on, or shifted, or any in any
 * order. */
weft_mesh_impl *drawn_mesh(prng *random, int world_size, int max_ranks);

/* Placements for a tensor of `ndim` dimensions; `partial`: some may be Partial, of any operations. */
void drawn_placements(prng *random, const weft_mesh_impl *mesh, int ndim, bool partial,
                       weft_placement out[]);
/* Lists sizes, in place of some shards, where no other mesh dimension cuts before. */
void drawn_sizes(prng *random, const weft_mesh_impl *mesh, int ndim, const int64_t shape[], weft_placement placements[]);
/* Cyclic, zigzag and periodic cuts in place of some others, in half of the layouts. */
void drawn_runs(prng *random, const weft_mesh_impl *m, weft_placement placements[]);
bool lists_sizes(const weft_layout *layout);
/* Up to `max_ndim` sizes of 0 .. max, whose product is at most `max_count`; about one in eight is 0 or 1
 * on purpose. */
int drawn_shape(prng *random, int max_ndim, int64_t max, int64_t max_count, int64_t shape[]);

enum { MAX_WORLD = 144 };

/* One process, one rank per process (first_rank NULL or written out), or processes of any numbers of
 * ranks. */
typedef struct placed_world {
    weft_topology topology;
    int first_rank[MAX_WORLD + 1];
} placed_world;
/* Fills in place: the topology points into it. */
void random_topology(prng *random, int world_size, placed_world *world);

/* The canonical layout of a text such as "S0,R"; asserts that it is valid. */
const weft_layout *layout_of(weft_layout_table *table, const weft_mesh_impl *mesh, const char *placements,
                             int ndim, const int64_t shape[], weft_dtype dtype);

/* A layout of this table, of a random tensor on a random mesh, which the caller deletes. */
const weft_layout *random_layout(prng *random, weft_layout_table *table, weft_mesh_impl **mesh);

/* One table of layouts, and the meshes that a test makes: set up anew for each test. */
enum { MAX_MESHES = 32 };
typedef struct fixture {
    weft_layout_table *table;
    weft_mesh_impl *meshes[MAX_MESHES];
    int num_meshes;
    weft_cost_model cost;
} fixture;
int fixture_new(void **state);
int fixture_free(void **state);
/* A mesh of the fixture, of the ranks from 0 on. */
const weft_mesh_impl *mesh(fixture *f, int ndim, const int64_t shape[]);
weft_topology one_rank_each(const weft_mesh_impl *m);
/* The plan between two texts of placements on one mesh, of f32, with one rank per process; asserts that
 * there is one. */
weft_plan plan_between(fixture *f, const weft_mesh_impl *m, int ndim, const int64_t shape[], const char *from,
                       const char *to);

/* torch.chunk: pieces of ceil(n / parts), or of `block` if it is not 0, until nothing is left; pieces that are missing are empty. */
void reference_chunk(int64_t n, int64_t parts, int64_t block, int64_t index, int64_t *offset, int64_t *extent);
/* The box of a mesh position. Its count is right where it is empty, its offsets are then of no interest. */
weft_box reference_box(const weft_layout *layout, int64_t index);

/* Row-major number of an element of the global tensor, and back. */
int64_t element_number(int ndim, const int64_t shape[], const int64_t element[]);
/* Counts `element` on through the box, the last dimension fastest; false after the last one. Starts at
 * box->offset. */
bool next_element(int ndim, const weft_box *box, int64_t element[]);

/* The text of a case, for messages of tests that fail; static storage. */
const char *describe_plan(const weft_layout *from, const weft_layout *to, const weft_topology *topology);

#endif
