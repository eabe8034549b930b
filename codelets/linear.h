/* Matrix products and sums over a dimension. */
#ifndef WEFT_CODELETS_LINEAR_H
#define WEFT_CODELETS_LINEAR_H

#include "codelets/args.h"

/* Operand 0: C (W when beta is 0, else RW), m x n with row stride ldc. Operands 1, 2: A and B as they lie,
 * row-major: A is m x k, or k x m with transpose_a; B is k x n, or n x k with transpose_b. C = op(A) op(B) +
 * beta C. Strides in elements, at least 1. Any of m, n, k may be 0 (k = 0: C = beta C). f32, f64: CBLAS, one
 * thread. `batch` products (at least 1) at distances batch_stride_* (elements) from each other. */
typedef struct weft_gemm_args {
    weft_task_args base;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t batch;
    int64_t batch_stride_a, batch_stride_b, batch_stride_c;
    double beta;
} weft_gemm_args;
extern struct starpu_codelet weft_codelet_gemm;

/* Keeps the BLAS library from starting threads of its own: StarPU's workers are the threads. */
void weft_blas_use_one_thread(void);

#endif
