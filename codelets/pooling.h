/* Pooling over the last one to three dimensions; the first dimension of all operands is another one. Sums are made in
 * double precision, in the order of the elements, and rounded once. A part of a pooled dimension must include the halo of
 * its part of the output. */
#ifndef WEFT_CODELETS_POOLING_H
#define WEFT_CODELETS_POOLING_H

#include <weft/kernel.h>

/* Indices into a call's numbers; members with three entries are for the last three dimensions. Dimensions
 * that are not pooled have kernel and stride 1. */
enum {
    WEFT_POOLING_AXES = 3,
    WEFT_POOLING_KERNEL = 0, /* 0: adaptive, windows follow from the sizes */
    WEFT_POOLING_STRIDE = 3,
    WEFT_POOLING_PADDING = 6,
    WEFT_POOLING_DILATION = 9,
    WEFT_POOLING_DIMS = 12,    /* how many dimensions are pooled */
    WEFT_POOLING_DIVISOR = 13, /* of averages; 0: the window's elements, -1: those inside the image */
    WEFT_POOLING_NUMBERS = 14
};

/* Input: the image. Outputs: the largest values, and, if there is a second one, their indices: row-major in the image, -1
 * for none. */
void weft_kernel_max_pool(const weft_kernel_call *call);
/* Inputs: the gradient and the indices. Output: the image's gradient. */
void weft_kernel_max_pool_backward(const weft_kernel_call *call);
/* Inputs: the image and the indices. Output: the elements at the indices, 0 for -1. */
void weft_kernel_max_pool_pick(const weft_kernel_call *call);
/* Input: the image. */
void weft_kernel_avg_pool(const weft_kernel_call *call);
/* Input: the gradient. Output: the image's gradient. */
void weft_kernel_avg_pool_backward(const weft_kernel_call *call);

#endif
