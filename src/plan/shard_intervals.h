/* How one tensor dimension of a layout is cut: the intervals that meet a given interval, found by
 * descending through the mesh dimensions that shard it, only into parts that meet. The reason why a plan
 * costs what it has of peers, not of ranks. */
#ifndef WEFT_SRC_PLAN_SHARD_INTERVALS_H
#define WEFT_SRC_PLAN_SHARD_INTERVALS_H

#include "plan/plan.h"

/* A part of a tensor dimension: begin <= i < end, and what the coordinates that hold it add to a mesh
 * index. */
typedef struct weft_shard_interval {
    int64_t begin, end, index;
} weft_shard_interval;

/* Mesh dimensions whose coordinate is given: entry m, or -1 for any. */
typedef struct weft_fixed {
    int64_t coordinate[WEFT_MAX_DIMS];
} weft_fixed;

weft_fixed weft_fixed_none(void);

/* Row-major strides of a mesh: index = sum of coordinate[m] * stride[m]. */
void weft_mesh_strides(const weft_mesh_impl *mesh, int64_t stride[]);

/* The parts of dimension `dim` that meet [begin, end), clipped to it, in order; appended to `segments`
 * (weft_shard_interval). A dimension that nothing shards is one part. False: no memory. */
bool weft_shard_intervals(const weft_layout *layout, int dim, int64_t begin, int64_t end, const weft_fixed *fixed,
                   weft_vec *intervals);

/* Their number and their total length, without listing them: the innermost cut is a division. */
typedef struct weft_coverage {
    int64_t count, length;
} weft_coverage;
weft_coverage weft_shard_intervals_measure(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                                    const weft_fixed *fixed);

#endif
