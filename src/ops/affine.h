/* Copies from one tensor to another in which each index of the target is one of the source times a whole
 * number, plus another: what slices, permutations, flips, repeated dimensions and concatenations are. A map
 * names the loops of such a copy; its rule, its windows and its tasks follow from it. */
#ifndef WEFT_SRC_OPS_AFFINE_H
#define WEFT_SRC_OPS_AFFINE_H

#include "dispatch/dispatch.h"

typedef enum weft_loop_kind {
    WEFT_LOOP_SAME = 0, /* index i of both sides: may be sharded */
    WEFT_LOOP_ACCESS,   /* other indices on the two sides: the source is seen through windows */
    WEFT_LOOP_TAKEN,    /* of the source alone: must not be sharded */
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

/* Every dimension of both sides has one loop; along one with windows the target's step is at least 1. */
typedef struct weft_affine {
    int input; /* of the operation: the source */
    int num_loops;
    weft_affine_loop loops[WEFT_MAX_DIMS]; /* in the order of the target's dimensions */
} weft_affine;

/* What most loops are: dimension `source` becomes dimension `target`, whole. */
weft_affine_loop weft_affine_same(int64_t extent, int source, int target);

/* "ab~c->abc", with a source for each map. `in_place`: input 0 is the target. The maps have the same kinds of
 * loops; of dimensions with windows the target's sizes are given, in the order in which the rule names them.
 */
void weft_affine_rule(int num_maps, const weft_affine maps[], bool in_place, char *text, size_t size);

/* Which of the source's indices some of the target's rows are made of, along a dimension of the source that
 * is seen through windows: all but the size. */
weft_window weft_affine_window(const weft_affine *map, int dim);

/* Submits the tasks that copy from the maps' inputs to the present shard of the output, panel to panel. The
 * maps do not overlap in the target; what they leave out of it stays. */
bool weft_lower_affine(const weft_lowering *lowering, int num_maps, const weft_affine maps[]);

#endif
