/* Gather and scatter. numbers[0]: the dimension of `a` that is indexed; numbers[1]: 1 if the indices have
 * only that dimension, and are shared by all other positions. Indices (WEFT_I64 or WEFT_I32) are global;
 * one out of range is reported. */
#ifndef WEFT_CODELETS_INDEXING_H
#define WEFT_CODELETS_INDEXING_H

#include <weft/kernel.h>
#include <weft/placement.h>

enum { WEFT_INDEXED_DIM, WEFT_INDEXED_TOGETHER, WEFT_SCATTER_OP, WEFT_SCATTER_NUMBERS };

/* Inputs: a, indices. Each output element is the indexed element of `a`; 0 if that is outside the given
 * part of `a`, or out of range. */
void weft_kernel_lookup(const weft_kernel_call *call);

/* Input: indices, reported if outside [0, numbers[0]). Output: whether they are inside; WEFT_BOOL. */
void weft_kernel_check_indices(const weft_kernel_call *call);

/* Inputs: source, indices. Combines elements of the source with the indexed output elements, in index order;
 * numbers[2]: by which weft_reduce_op, not WEFT_AVG; without elements its neutral value. Elements outside the
 * output's part are skipped. Accumulates. The output has the source's type, or WEFT_F32 for 16 bits. */
void weft_kernel_scatter(const weft_kernel_call *call);

/* Input: indices. The output has one more dimension, the last: 1 at the index, else 0. WEFT_I64. */
void weft_kernel_one_hot(const weft_kernel_call *call);

#endif
