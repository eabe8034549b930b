/* Values that follow from their indices. */
#ifndef WEFT_CODELETS_RANGES_H
#define WEFT_CODELETS_RANGES_H

#include <weft/kernel.h>

/* Scalars of a range of one dimension: index i is first + i step before index `turn`, and last - (size - 1 - i) step from
 * there on. Computed in double precision and rounded once; integers in WEFT_I64. */
enum { WEFT_RANGE_FIRST, WEFT_RANGE_STEP, WEFT_RANGE_LAST, WEFT_RANGE_TURN };
void weft_kernel_range(const weft_kernel_call *call);

/* Two dimensions: 1 where both indices are equal, else 0. */
void weft_kernel_eye(const weft_kernel_call *call);

#endif
