/* Sorting along a dimension. */
#ifndef WEFT_CODELETS_SORTING_H
#define WEFT_CODELETS_SORTING_H

#include <weft/kernel.h>

/* numbers[0]: the dimension, of which the task has all; numbers[1]: 1: descending. Output, WEFT_I64: the
 * first indices of the sorted order, as many as its size in that dimension. Stable; NaN is larger than all
 * other values, and equal to itself. */
void weft_kernel_order(const weft_kernel_call *call);
/* Two outputs: the values at these indices, bit for bit, and, if wanted, the indices. */
void weft_kernel_sort(const weft_kernel_call *call);

#endif
