/* Windows: who needs what of a tensor whose dimensions are looked at through windows. See weft_access_map. */
#ifndef WEFT_SRC_PLAN_ACCESS_MAP_H
#define WEFT_SRC_PLAN_ACCESS_MAP_H

#include "plan/shard_intervals.h"

/* Row-major places of the layout's parts of dimension `dim` that need something of [begin, end) of the
 * source: appended to `segments`, each with what it needs of it. False: no memory. */
bool weft_access_map_intervals(const weft_access_map *access_map, int dim, int64_t begin, int64_t end,
                          const weft_fixed *fixed, weft_vec *intervals);

#endif
