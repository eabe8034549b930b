/* Sums and products of all that comes before, along one dimension. */
#ifndef WEFT_CODELETS_SCANS_H
#define WEFT_CODELETS_SCANS_H

#include <weft/kernel.h>

/* numbers[0]: the dimension, of which the task has all. The output has the input's type. Floating types
 * are computed in double precision and rounded once per element; integers in 64 bits, which wrap around. */
void weft_kernel_cumsum(const weft_kernel_call *call);
void weft_kernel_cumprod(const weft_kernel_call *call);

/* numbers[0]: the dimension, of which the task has all; numbers[1]: 1 for the largest, 0 for the smallest. The output, WEFT_I64,
 * has the place of the largest (smallest) element up to each: the last among equals; NaN counts as larger, or smaller. */
void weft_kernel_cumulative_place(const weft_kernel_call *call);

#endif
