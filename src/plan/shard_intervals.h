/* How a layout cuts one tensor dimension: the intervals that intersect a given one, found by descending
 * through the mesh dimensions that shard it, only into parts that intersect. So the time of a plan grows
 * with a rank's peers, not with the number of ranks. */
#ifndef WEFT_SRC_PLAN_SHARD_INTERVALS_H
#define WEFT_SRC_PLAN_SHARD_INTERVALS_H

#include "plan/plan.h"

/* A part of a tensor dimension: begin <= i < end, and its contribution to the mesh index. */
typedef struct weft_shard_interval {
    int64_t begin, end, index;
} weft_shard_interval;

/* Mesh dimensions with a given coordinate: entry m, or -1 for any. */
typedef struct weft_fixed {
    int64_t coordinate[WEFT_MAX_DIMS];
} weft_fixed;

weft_fixed weft_fixed_none(void);

/* Row-major strides of a mesh: index = sum of coordinate[m] * stride[m]. */
void weft_mesh_strides(const weft_mesh_impl *mesh, int64_t stride[]);

/* The parts of dimension `dim` that intersect [begin, end), clipped to it, in order; appended to
 * `segments` (weft_shard_interval). A dimension that is not sharded is one part. False: no memory. */
bool weft_shard_intervals(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                          const weft_fixed *fixed, weft_vec *intervals);

/* Their number and total length, without a list: the innermost cut is a division. */
typedef struct weft_coverage {
    int64_t count, length;
} weft_coverage;
weft_coverage weft_shard_intervals_measure(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                                           const weft_fixed *fixed);

#endif
