/* Which indices of a tensor dimension each part of an access map reads. See weft_access_map. */
#ifndef WEFT_SRC_PLAN_ACCESS_MAP_H
#define WEFT_SRC_PLAN_ACCESS_MAP_H

#include "plan/shard_intervals.h"

/* Parts of dimension `dim` that read an index in [begin, end) of the source: appended to `segments` with
 * the intersection, `index` being the part's row-major position. False: no memory. */
bool weft_access_map_intervals(const weft_access_map *access_map, int dim, int64_t begin, int64_t end,
                               const weft_fixed *fixed, weft_vec *intervals);

#endif
