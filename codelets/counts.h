/* Counting. */
#ifndef WEFT_CODELETS_COUNTS_H
#define WEFT_CODELETS_COUNTS_H

#include <weft/kernel.h>

enum { WEFT_COUNT_INDICES, WEFT_COUNT_NUMBERS };
enum { WEFT_COUNT_LOW, WEFT_COUNT_HIGH };
enum { WEFT_COUNT_MOST = 1 << 30 }; /* bins */

/* Input: values, in any dimensions. Output, WEFT_I64 [bins], of which the task has all: how many values have each number. numbers[0]: 1: they
 * are whole, and their numbers themselves; those that are out of range are reported. 0: the number of the equal interval from
 * scalars[0] to scalars[1] that they lie in, found in double precision; the last interval includes its upper bound, and values
 * outside are not counted, nor NaN. At most WEFT_COUNT_MOST bins. Accumulates. */
void weft_kernel_count(const weft_kernel_call *call);

#endif
