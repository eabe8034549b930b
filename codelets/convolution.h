/* Convolutions of samples [n, c, h, w], or [n, c, w], with weights [o, c / groups, i, j], or [o, c / groups,
 * j]. */
#ifndef WEFT_CODELETS_CONVOLUTION_H
#define WEFT_CODELETS_CONVOLUTION_H

#include <weft/kernel.h>

/* Where a call's numbers are; those of two dimensions are for h and w. */
enum {
    WEFT_CONVOLUTION_STRIDE = 0,
    WEFT_CONVOLUTION_PADDING = 2,
    WEFT_CONVOLUTION_DILATION = 4,
    WEFT_CONVOLUTION_GROUPS = 6,
    WEFT_CONVOLUTION_ADDS = 7, /* there is a bias, and this rank adds it */
    WEFT_CONVOLUTION_TAPS = 8, /* i and j; kernels read them from shapes */
    WEFT_CONVOLUTION_NUMBERS = 10
};

/* Each is a product of matrices per sample and block of rows, for which what lies under the weights is copied
 * to columns (im2col). Inputs of 16 bits give an output of WEFT_F32; else all are of one type, WEFT_F32 or
 * WEFT_F64. A part of a spatial dimension must have all that is needed of it for the part of the output. */

/* Inputs: x, weight and, where it is added, bias [o]. */
void weft_kernel_convolution(const weft_kernel_call *call);
/* Inputs: gradient [n, o, y, z] and weight; the output: [n, c, h, w]. */
void weft_kernel_convolution_backward_input(const weft_kernel_call *call);
/* Inputs: gradient [n, o, y, z] and x, piece by piece of n; the output: [o, c / groups, i, j]. */
void weft_kernel_convolution_backward_weight(const weft_kernel_call *call);

#endif
