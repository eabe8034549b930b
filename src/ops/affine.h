/* Copies from one tensor to another in which each index of the target is one of the source times a whole
 * number, plus another: what slices, permutations, flips, repeated dimensions and concatenations are. A map
 * names the loops of such a copy; its rule and its tasks both follow from it. */
#ifndef WEFT_SRC_OPS_AFFINE_H
#define WEFT_SRC_OPS_AFFINE_H

#include "dispatch/dispatch.h"

typedef enum weft_loop_kind {
    WEFT_LOOP_SAME = 0, /* index i of both sides: may be sharded */
    WEFT_LOOP_WHOLE,    /* the same indices in another order: must not be sharded */
    WEFT_LOOP_RESIZED,  /* other indices on both sides: must not be sharded */
    WEFT_LOOP_REPEATED, /* of the target alone: the source has size 1 there, or no dimension */
    WEFT_LOOP_ONE       /* of size 1, and on one side perhaps no dimension */
} weft_loop_kind;

/* Index i of the loop, 0 .. extent - 1, is index first + step * i of a dimension on either side. */
typedef struct weft_affine_side {
    int dim; /* -1: none */
    int64_t first, step;
} weft_affine_side;

typedef struct weft_affine_loop {
    weft_loop_kind kind;
    int64_t extent;
    weft_affine_side source, target;
} weft_affine_loop;

/* Every dimension of both sides has one loop. */
typedef struct weft_affine {
    int num_loops;
    weft_affine_loop loops[WEFT_MAX_DIMS]; /* in the order of the target's dimensions */
} weft_affine;

/* What most loops are: dimension `source` becomes dimension `target`, whole. */
weft_affine_loop weft_affine_same(int64_t extent, int source, int target);

/* "a[b]c->a[d]c". `in_place`: of the target and the source, into the target. */
void weft_affine_rule(const weft_affine *map, bool in_place, char *text, size_t size);

/* Submits the tasks that copy from an input to the present shard of the output, panel to panel. The maps do
 * not overlap in the target; what they leave out of it stays. */
bool weft_lower_affine(const weft_lowering *lowering, int input, int num_maps, const weft_affine maps[]);

#endif
