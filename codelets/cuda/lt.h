/* Products to which a row is added, by cuBLASLt: one launch, where cuBLAS needs the row in each row of the result first. */
#ifndef WEFT_CODELETS_CUDA_LT_H
#define WEFT_CODELETS_CUDA_LT_H

#include "codelets/cuda/products.h"

WEFT_BEGIN_DECLS

typedef struct weft_lt weft_lt;

/* Opens the library, for the current device. NULL: there is none, or no memory. */
weft_lt *weft_lt_new(void);
/* NULL: nothing. */
void weft_lt_free(weft_lt *lt);
/* C = alpha op(A) op(B) + bias for one product, where `bias` has n numbers of C's type, added before C is rounded. On the queue's
 * stream, in its workspace. False: nothing was launched, because cuBLASLt does not compute this, or is not there (NULL). */
bool weft_lt_multiply(weft_lt *lt, const weft_device_products *product, const void *bias, const weft_cuda_queue *queue);
/* Products that it has launched so far. NULL: 0. */
int64_t weft_lt_count_runs(const weft_lt *lt);

WEFT_END_DECLS

#endif
