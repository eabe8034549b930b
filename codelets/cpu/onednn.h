/* Matrix products by oneDNN, where it was found. */
#ifndef WEFT_CODELETS_CPU_ONEDNN_H
#define WEFT_CODELETS_CPU_ONEDNN_H

#include "codelets/linear.h"

/* Types of a product whose sums are WEFT_F32: of A and B, and of C, which is WEFT_F32 too, or that of A, rounded once. */
typedef struct weft_product_types {
    weft_dtype input, output;
} weft_product_types;

/* One thread. False, with C as it was: oneDNN is not there, or BLAS is the better choice for these types, these sizes or
 * this processor. The choice depends on nothing else, so equal products have equal bits. */
bool weft_onednn_multiply(const weft_gemm *gemm, weft_product_types types, const void *a, const void *b, void *c);

/* The same with a B that was packed for products of `rows` rows. False, with C as it was: no memory, or C cannot be rounded. */
bool weft_onednn_multiply_packed(const weft_gemm *gemm, weft_product_types types, int64_t rows, const void *a, const void *packed,
                                 void *c);
/* Packs rows of B as stored, `count` from `first` on, for products of gemm->m rows. False: no memory. */
bool weft_onednn_pack(const weft_gemm *gemm, weft_dtype input_type, int64_t first, int64_t count, const void *b, void *packed);

#endif
