/* Softmax along one dimension, numbers[0], and what it is put together from where that is sharded: kernels as
 * weft/kernel.h has them. Rows are whole in the first four. The largest value is taken from all others before
 * the exponential; sums are in double precision. */
#ifndef WEFT_CODELETS_SOFTMAX_H
#define WEFT_CODELETS_SOFTMAX_H

#include <weft/kernel.h>

void weft_kernel_softmax(const weft_kernel_call *call);
void weft_kernel_log_softmax(const weft_kernel_call *call);
/* Input 0: the gradient, input 1: what the function returned. */
void weft_kernel_softmax_backward(const weft_kernel_call *call);
void weft_kernel_log_softmax_backward(const weft_kernel_call *call);

/* Of parts of rows; the output has the dimension with size 1, and takes contracted rows piece by piece: sums
 * of e^(input 0 - input 1), input 1 as large as the output; sums of input 0, times input 1 where there is
 * one. */
void weft_kernel_sum_exp(const weft_kernel_call *call);
void weft_kernel_sum_product(const weft_kernel_call *call);

#endif
