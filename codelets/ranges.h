/* Values that follow from their indices. */
#ifndef WEFT_CODELETS_RANGES_H
#define WEFT_CODELETS_RANGES_H

#include <weft/kernel.h>

#include <weft/base.h>
#include "codelets/scalars.h"

/* Scalars of a range of one dimension: index i is first + i step before index `turn`, and last - (size - 1 - i) step from
 * there on. Computed in double precision and rounded once; integers in WEFT_I64, first and step with their rests (weft_exact). */
enum { WEFT_RANGE_FIRST, WEFT_RANGE_STEP, WEFT_RANGE_LAST, WEFT_RANGE_TURN };
void weft_kernel_range(const weft_kernel_call *call);

/* Element i of a range: floating types, and integers. */
WEFT_INLINE double weft_range_real(const double scalars[], int64_t size, int64_t i)
{
    return (double)i < scalars[WEFT_RANGE_TURN] ? scalars[WEFT_RANGE_FIRST] + scalars[WEFT_RANGE_STEP] * (double)i
                                                : scalars[WEFT_RANGE_LAST] - scalars[WEFT_RANGE_STEP] * (double)(size - 1 - i);
}

WEFT_INLINE uint64_t weft_range_number(const double scalars[], int i)
{
    return (uint64_t)(int64_t)scalars[i] + (uint64_t)(int64_t)scalars[WEFT_SCALAR_RESTS + i];
}

WEFT_INLINE int64_t weft_range_whole(const double scalars[], int64_t i)
{
    return (int64_t)(weft_range_number(scalars, WEFT_RANGE_FIRST) + weft_range_number(scalars, WEFT_RANGE_STEP) * (uint64_t)i);
}

/* Two dimensions: 1 where both indices are equal, else 0. */
void weft_kernel_eye(const weft_kernel_call *call);

#endif
