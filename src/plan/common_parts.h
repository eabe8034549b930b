/* Stages between layouts that number the rows of a dimension otherwise: what two shards have in common there. */
#ifndef WEFT_SRC_PLAN_COMMON_PARTS_H
#define WEFT_SRC_PLAN_COMMON_PARTS_H

#include "plan/shard_intervals.h"

/* The parts of dimension `dim` that have rows in common with those of `other` at a coordinate: from 0 to the number of these rows
 * each, in the order of the mesh; appended to `intervals` (weft_shard_interval). Takes time for each run of both layouts' parts.
 * False: no memory. */
bool weft_common_parts(const weft_layout *layout, int dim, const weft_fixed *fixed, const weft_layout *other,
                       const int64_t other_coordinate[], weft_vec *intervals);
/* What the shards at two coordinates have in common: along a dimension that both number alike an interval of these numbers, along
 * others from 0 to the number of common rows. Nothing, and *out_of_memory, without memory. */
void weft_common_box(const weft_layout *from, const int64_t source[], const weft_layout *to, const int64_t target[], weft_box *box,
                     bool *out_of_memory);

#endif
