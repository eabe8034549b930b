/* Windows: who needs what of a tensor whose dimensions are looked at through windows. See weft_windows. */
#ifndef WEFT_SRC_PLAN_WINDOWS_H
#define WEFT_SRC_PLAN_WINDOWS_H

#include "plan/segments.h"

/* Row-major places of the layout's parts of dimension `dim` that need something of [begin, end) of the
 * source: appended to `segments`, each with what it needs of it. False: no memory. */
bool weft_window_segments(const weft_windows *windows, int dim, int64_t begin, int64_t end,
                          const weft_fixed *fixed, weft_vec *segments);

#endif
