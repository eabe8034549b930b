/* Index lists and whole tensors, for tests. */
#ifndef WEFT_TESTS_INDEX_LIST_SCENE_H
#define WEFT_TESTS_INDEX_LIST_SCENE_H

#include "support.h"

enum { MAX_RANKS = 8, MAX_SIZE = 200, MAX_NAMED = 200 };

/* A list of all ranks, the same on each process. */
typedef struct scene {
    weft_mesh *mesh;
    int mesh_dim;
    int64_t parts, size, total;
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t counts[MAX_RANKS], first[MAX_RANKS]; /* by part */
    int64_t indices[MAX_RANKS][MAX_NAMED];
    weft_index_list *list;
} scene;

/* The rank's part; -1: it is outside the mesh. */
int64_t scene_part_of(const scene *s, int rank);
/* Makes the list of its indices. */
void scene_create(scene *s);
/* The index of each row that the ranks name, by part. */
int64_t scene_index_of(const scene *s, int64_t row);

/* A whole tensor. 16-bit types: in WEFT_F32. */
typedef struct dense {
    weft_dtype dtype;
    int ndim;
    int64_t shape[4];
    void *values;
} dense;

/* Element i as a number; complex ones have their number as both parts. */
double element(weft_dtype dtype, const void *values, int64_t i);
void set_element(weft_dtype dtype, void *values, int64_t i, double value);
/* A shard_writer of a dense tensor, and a shard_judge that expects it. */
void write_dense(const hosted_shard *shard, const void *dense);
bool is_dense(const hosted_shard *shard, const void *expected, char *text, size_t size);

#endif
