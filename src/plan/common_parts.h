/* The rows that two shards have in common, in a stage between layouts that number them differently. */
#ifndef WEFT_SRC_PLAN_COMMON_PARTS_H
#define WEFT_SRC_PLAN_COMMON_PARTS_H

#include "plan/shard_intervals.h"

/* Appends to `intervals` (weft_shard_interval) the parts of dimension `dim` that have rows in common with those of `other` at a
 * coordinate: each from 0 to the number of these rows, in the order of the mesh. Takes time for each run of them, however many parts
 * there are. False: no memory. */
bool weft_common_parts(const weft_layout *layout, int dim, const weft_fixed *fixed, const weft_layout *other,
                       const int64_t other_coordinate[], weft_vec *intervals);
/* Finds the box that the shards at two coordinates have in common: an interval of row numbers along a dimension that both layouts
 * number alike, and from 0 to the number of common rows along others. Without memory the box is empty, and *out_of_memory is set. */
void weft_common_box(const weft_layout *from, const int64_t source[], const weft_layout *to, const int64_t target[], weft_box *box,
                     bool *out_of_memory);

#endif
