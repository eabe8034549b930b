/* Affine copies: along each dimension the indices of source and target are affine functions of one loop
 * index, as in slices, permutations, flips, repeated dimensions and concatenations. A map lists these
 * loops; rule, windows and tasks follow from it. */
#ifndef WEFT_SRC_OPS_AFFINE_H
#define WEFT_SRC_OPS_AFFINE_H

#include "dispatch/dispatch.h"

typedef enum weft_loop_kind {
    WEFT_LOOP_SAME = 0, /* equal indices on both sides: may be sharded */
    WEFT_LOOP_ACCESS,   /* different indices: the source is read through an access map */
    WEFT_LOOP_TAKEN,    /* only in the source: must not be sharded */
    WEFT_LOOP_REPEATED, /* only in the target: the source has size 1, or no such dimension */
    WEFT_LOOP_ONE       /* size 1; one side may have no such dimension */
} weft_loop_kind;

/* Index i of the loop, 0 .. extent - 1, is index first + step * i of dimension `dim`. */
typedef struct weft_affine_side {
    int dim; /* -1: none */
    int64_t first, step;
} weft_affine_side;

typedef struct weft_affine_loop {
    weft_loop_kind kind;
    int64_t extent;
    weft_affine_side source, target;
} weft_affine_loop;

/* Every dimension of both sides has one loop; in a loop with an access map the target's step is at least
 * 1. */
typedef struct weft_affine {
    int input; /* number of the source among the inputs */
    int num_loops;
    weft_affine_loop loops[WEFT_MAX_DIMS]; /* in the order of the target's dimensions */
} weft_affine;

/* The usual loop: dimension `source` becomes dimension `target`, whole. */
weft_affine_loop weft_affine_same(int64_t extent, int source, int target);

/* Writes a rule such as "ab~c->a*bc*", with a source for each map. `in_place`: input 0 is the target. The
 * maps have the same kinds of loops; the call gives the target's sizes of dimensions with access maps, in
 * the order in which the rule names them. */
void weft_affine_rule(int num_maps, const weft_affine maps[], bool in_place, char *text, size_t size);

/* The source indices that rows of the target read, along a dimension of the source with an access map;
 * without its size. */
weft_window weft_affine_window(const weft_affine *map, int dim);

/* Appends the tasks that copy from the maps' inputs to the current shard of the output, panel to panel.
 * The maps do not overlap in the target; elements outside of them keep their values. */
bool weft_lower_affine(const weft_lowering *lowering, int num_maps, const weft_affine maps[]);

#endif
