/* Kernels that take and put elements where indices say. numbers[0]: the dimension of `a` that the indices are
 * of; numbers[1]: 1 where indices have that dimension alone, and say it for all other places together.
 * Indices (WEFT_I64 or WEFT_I32) are global; one that is out of range is reported. */
#ifndef WEFT_CODELETS_INDEXING_H
#define WEFT_CODELETS_INDEXING_H

#include <weft/kernel.h>

enum { WEFT_INDEXED_DIM, WEFT_INDEXED_TOGETHER };

/* Inputs: a, indices. The output's element is that of `a` that its index says; 0 where that is not in the
 * part of `a` that is given, or out of range. */
void weft_kernel_lookup(const weft_kernel_call *call);

/* Input: indices, which are reported where they are not in 0 .. numbers[0] - 1. The output: whether they are;
 * WEFT_BOOL. */
void weft_kernel_check_indices(const weft_kernel_call *call);

/* Inputs: source, indices. Elements of the source are added to the output where their indices say, in the
 * index's order; those that belong outside the output's part are left out. Accumulates. The output has the
 * source's type, or WEFT_F32 where that is of 16 bits. */
void weft_kernel_scatter(const weft_kernel_call *call);

/* Input: indices. The output has one more dimension, the last one: 1 where its number is the index, else 0.
 * WEFT_I64. */
void weft_kernel_one_hot(const weft_kernel_call *call);

#endif
