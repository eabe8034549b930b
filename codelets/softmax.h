/* Softmax along dimension numbers[0], and the statistics and last steps of its sharded form (kernels on
 * views). The first four take whole rows. The maximum is subtracted before exponentials; sums are in
 * double precision. */
#ifndef WEFT_CODELETS_SOFTMAX_H
#define WEFT_CODELETS_SOFTMAX_H

#include <weft/kernel.h>

void weft_kernel_softmax(const weft_kernel_call *call);
void weft_kernel_log_softmax(const weft_kernel_call *call);
/* Input 0: the gradient, input 1: the function's result. */
void weft_kernel_softmax_backward(const weft_kernel_call *call);
void weft_kernel_log_softmax_backward(const weft_kernel_call *call);

/* For parts of rows; the output has the dimension with size 1; accumulate over pieces of contracted rows:
 * sums of e^(input 0 - input 1), input 1 of the output's shape; sums of input 0, times input 1 if given. */
void weft_kernel_sum_exp(const weft_kernel_call *call);
void weft_kernel_sum_product(const weft_kernel_call *call);

#endif
