/* Shared by the tests of the whole library: random layouts, and dense references. */
#ifndef WEFT_TESTS_SUPPORT_H
#define WEFT_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "prng.h"
#include "rows.h"

/* A random mesh of up to 3 dimensions and up to `max_ranks` ranks of the world, which may be any, in any
 * order. */
weft_mesh *random_mesh(prng *random, int max_ranks);
/* Random placements for a tensor of `ndim`; with_partial: some may be Partial, then with one op for all. */
void random_placements(prng *random, const weft_mesh *mesh, int ndim, bool with_partial,
                       weft_placement out[]);
/* Lists sizes, in place of some shards, where no other mesh dimension cuts before. */
void random_cut_sizes(prng *random, const weft_mesh *mesh, int ndim, const int64_t shape[], weft_placement placements[]);
/* Makes listed sizes balanced, for another shape. */
void forget_sizes(int count, weft_placement placements[]);
/* Random sizes 0 .. max; about one in eight is 0 or 1 on purpose. */
int random_shape(prng *random, int max_ndim, int64_t max, int64_t shape[]);

int64_t shape_count(int ndim, const int64_t shape[]);

/* The text of a case, for messages of tests that fail. */
const char *describe(weft_mesh *mesh, const weft_placement *placements, int ndim, const int64_t shape[]);

/* ---- worlds -------------------------------------------------------------------------------------------- */

/* Starts the library with so many ranks, those of this process or, started by mpirun, of all; further fields of weft_config may
 * follow: WORLD(4, .seed = 7). In a test or its set-up, which ends by world_stop(), also as its tear-down: no error is left. */
#define WORLD(...) world_start(&(weft_config){ .ranks = __VA_ARGS__ })
/* Ranks without data. */
#define FAKE_WORLD(ranks) world_start(&(weft_config){ .world = WEFT_WORLD_FAKE, .fake_size = (ranks) })
int world_start(const weft_config *config);
int world_stop(void **state);
/* Whether mpirun has started this process. */
bool over_processes(void);
/* Runs the tests in one world: of 4 ranks, or started by mpirun with one in each process. A main program's status. */
#define RUN_ON_RANKS(tests) run_on_ranks(tests, sizeof(tests) / sizeof((tests)[0]))
int run_on_ranks(const struct CMUnitTest tests[], size_t num_tests);
/* Starts the library with this number of ranks, and this height of panels (NULL: by default). */
void start_with_panels(int ranks, const char *panel_rows);

/* Asserts that no error is kept; prints it when there is one. */
void assert_no_error(void);
/* Asserts that the first error has this status and that its message contains the text; clears it. */
void assert_error(weft_status status, const char *text);

/* How often a word stands in a text. */
int count_in(const char *text, const char *word);

/* ---- what every rank holds ----------------------------------------------------------------------------- */

/* A hosted rank's part of a tensor, copied. */
typedef struct hosted_shard {
    int rank;
    int64_t coordinate[WEFT_MAX_DIMS]; /* of the rank in the tensor's mesh */
    int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS], count;
    int64_t *places[WEFT_MAX_DIMS]; /* global indices, where a cut is of several runs; NULL: the box above */
    void *values; /* `count` elements, row-major */
} hosted_shard;

/* Whether a shard is as it should be; else writes why to `text`. */
typedef bool (*shard_judge)(const hosted_shard *s, const void *expected, char *text, size_t size);

/* Looks at the shards of all ranks: each hosted one must lie where weft_shard_box() says and satisfy `judge`
 * (NULL: none), and ranks that differ along Replicate dimensions alone must hold the same bits: hosted ones
 * are compared directly, others by digests (but for floating numbers with WEFT_TEST_ROUNDING=differs). Of a tensor with Partial the shards are addends. Every process
 * calls it, and gets the same answer; false: with why in `text`. */
bool shards_are_right(weft_tensor *tensor, shard_judge judge, const void *expected, char *text, size_t size);
/* Fails the test on every process where they are not. */
void assert_shards(weft_tensor *tensor, shard_judge judge, const void *expected, const char *what);
/* Fails it where two tensors have not one layout, or not the same bits on every rank. */
void assert_same_shards(weft_tensor *tensor, weft_tensor *expected, const char *what);
/* The tensor with its addends reduced, and no other placement changed: itself where nothing is Partial. */
weft_tensor *without_partial(weft_tensor *tensor);

/* ---- tensors of given shards --------------------------------------------------------------------------- */

/* Writes the elements of a hosted rank's shard to s->values. */
typedef void (*shard_writer)(const hosted_shard *s, const void *context);
/* Shards for weft_from_local(), filled by the writer for each hosted rank of the mesh; NULL for other
 * hosted ranks. */
void make_locals(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                 const weft_placement placements[], shard_writer write, const void *context, void *locals[]);
void free_locals(void *locals[]);
/* A tensor of a copy of these. */
weft_tensor *make_of_shards(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                            const weft_placement placements[], shard_writer write, const void *context);

/* The row-major number, in a tensor of `shape`, of element i of a shard. */
int64_t shard_element(const hosted_shard *s, int ndim, const int64_t shape[], int64_t i);
/* The row-major number, in a tensor of `shape`, of element i of a box. */
int64_t dense_index(int ndim, const int64_t shape[], const int64_t offset[], const int64_t extent[],
                    int64_t i);
/* Copies the box of `dense` (row-major, of `shape`) into `box`, row-major. */
void copy_box_out(int ndim, const int64_t shape[], size_t element_size, const void *dense,
                  const int64_t offset[], const int64_t extent[], void *box);

#endif
