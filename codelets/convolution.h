/* Convolutions of samples [n, c, h, w], or [n, c, w], with weights [o, c / groups, i, j], or [o, c / groups,
 * j]. */
#ifndef WEFT_CODELETS_CONVOLUTION_H
#define WEFT_CODELETS_CONVOLUTION_H

#include <weft/kernel.h>

/* Indices into a call's numbers; members with two entries are for h and w. */
enum {
    WEFT_CONVOLUTION_STRIDE = 0,
    WEFT_CONVOLUTION_PADDING = 2,
    WEFT_CONVOLUTION_DILATION = 4,
    WEFT_CONVOLUTION_GROUPS = 6,
    WEFT_CONVOLUTION_ADDS = 7, /* the bias is an input, and this rank adds it */
    WEFT_CONVOLUTION_TAPS = 8, /* i and j; kernels take them from shapes */
    WEFT_CONVOLUTION_WIDE = 10, /* the output, a gradient, stays in WEFT_F32: a kernel must not round it */
    WEFT_CONVOLUTION_NUMBERS = 11
};

/* By oneDNN's kernels where these are faster; else one matrix product per sample and block of rows, on columns copied from the
 * image (im2col). Inputs of 16
 * bits give an output of WEFT_F32; else all are of one type, WEFT_F32 or WEFT_F64. A part of a spatial
 * dimension must include the halo of its part of the output. */

/* Inputs: x, weight and, if it is added, bias [o]. */
void weft_kernel_convolution(const weft_kernel_call *call);
/* Inputs: gradient [n, o, y, z] and weight; the output: [n, c, h, w]. */
void weft_kernel_convolution_backward_input(const weft_kernel_call *call);
/* Inputs: gradient [n, o, y, z] and x; accumulates over pieces of n. Output: [o, c / groups, i, j]. */
void weft_kernel_convolution_backward_weight(const weft_kernel_call *call);

#endif
