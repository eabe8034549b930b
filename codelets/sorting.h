/* The order of values along a dimension. */
#ifndef WEFT_CODELETS_SORTING_H
#define WEFT_CODELETS_SORTING_H

#include <weft/kernel.h>

/* numbers[0]: the dimension, which the task has all of; numbers[1]: 1 for the largest first. The output,
 * WEFT_I64, has the first places of the sorted order: as many as its size in that dimension. Equal values
 * keep their order; NaN is larger than all else, and equal to itself. */
void weft_kernel_order(const weft_kernel_call *call);
/* The same with two outputs: the values at these places, bit for bit, and the places. */
void weft_kernel_sort(const weft_kernel_call *call);

#endif
