/* Kernels that reduce some dimensions of one input. */
#ifndef WEFT_CODELETS_REDUCTIONS_H
#define WEFT_CODELETS_REDUCTIONS_H

#include <weft/kernel.h>

/* Values of a run that are reduced together, before they join the result: as they lie in memory, or converted block by block. So
 * the groups of a long run can be reduced at once. */
enum { WEFT_REDUCED_RUN = 8192, WEFT_REDUCED_BLOCK = 512 };

/* numbers[0]: bit d: dimension d of the input is reduced; the output keeps such dimensions with size 1
 * (numbers[1] 1) or drops them (0). A call's first piece sets the output, later ones
 * accumulate, and the last one multiplies it by scalars[0] unless that is 0. Without elements the result
 * is the identity. Floating types are computed in double precision and rounded once per piece, integers in
 * 64 bits; in index order, in 32 interleaved parts if the last dimension is reduced. */
void weft_kernel_sum(const weft_kernel_call *call);
void weft_kernel_prod(const weft_kernel_call *call);
void weft_kernel_max(const weft_kernel_call *call); /* NaN if there is one */
void weft_kernel_min(const weft_kernel_call *call);
void weft_kernel_any(const weft_kernel_call *call); /* WEFT_BOOL */
void weft_kernel_all(const weft_kernel_call *call);
void weft_kernel_sum_abs(const weft_kernel_call *call);
void weft_kernel_sum_square(const weft_kernel_call *call);
void weft_kernel_max_abs(const weft_kernel_call *call);
void weft_kernel_sum_pow(const weft_kernel_call *call); /* of the absolute values to the power scalars[1] */
/* Squared differences from input 1, which has the output's shape with reduced dimensions of size 1. */
void weft_kernel_sum_square_difference(const weft_kernel_call *call);
/* Like sum_square and sum_pow, of the values multiplied by input 1, which has that shape too: a power of two that keeps the
 * squares and powers in the range of double precision. */
void weft_kernel_sum_square_scaled(const weft_kernel_call *call);
void weft_kernel_sum_pow_scaled(const weft_kernel_call *call);
/* The first place that has the value of input 1, which has that shape too, and the input's type: places are
 * numbered in the row-major order of the reduced dimensions of the whole tensor. NaN is found as NaN.
 * INT64_MAX where there is none. */
void weft_kernel_place(const weft_kernel_call *call);
/* The largest value of whole rows, and its first index if there is a second output. */
void weft_kernel_max_with_indices(const weft_kernel_call *call);
void weft_kernel_min_with_indices(const weft_kernel_call *call);

#endif
