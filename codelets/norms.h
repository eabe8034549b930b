/* Normalisation of vectors: a tensor's elements along its last dimensions, from dimension
 * numbers[WEFT_NORM_FIRST] on (kernels on views). normal(x) = (x - mean) / sqrt(variance + scalars[0]); if
 * not centred, with mean 0 and the mean of squares. */
#ifndef WEFT_CODELETS_NORMS_H
#define WEFT_CODELETS_NORMS_H

#include <weft/kernel.h>

enum { WEFT_NORM_FIRST, WEFT_NORM_CENTRED, WEFT_NORM_PARTS, WEFT_NORM_NUMBERS };
/* numbers[WEFT_NORM_PARTS]: optional inputs after the first one or two, in this order. */
enum {
    WEFT_NORM_HAS_STATISTICS =
        1,                  /* of sharded vectors: the mean (if centred) and the variance */
    WEFT_NORM_HAS_SUMS = 2, /* the result of weft_kernel_norm_sums() */
    WEFT_NORM_HAS_GAIN = 4, /* of a vector's size */
    WEFT_NORM_HAS_BIAS = 8,
    WEFT_NORM_IN_PARTS = 16, /* the statistics and the sums are there because vectors are sharded */
    WEFT_NORM_HAS_RSTD = 32  /* in the place of the variance, 1 / sqrt(variance + epsilon) */
};

/* normal(a) gain + bias; and, where there are further outputs, 1 / sqrt(variance + epsilon) and the mean, in WEFT_F64,
 * with size 1 along vectors. Input 0: a. */
void weft_kernel_norm(const weft_kernel_call *call);
/* The gradient of a, from input 0: a, input 1: the gradient of the result. */
void weft_kernel_norm_backward(const weft_kernel_call *call);
/* From the same inputs, or the rank's parts of them: per vector the sum of gradient * gain, and of that
 * times normal(a). The output has the vectors' dimensions with size 1, but the last one with 2.
 * Accumulates. */
void weft_kernel_norm_sums(const weft_kernel_call *call);
/* From the same inputs: the gradient of the gain, gradient * normal(a) summed over all vectors. The output
 * has the size of a vector, after dimensions of size 1. Accumulates. */
void weft_kernel_norm_gain_backward(const weft_kernel_call *call);

#endif
