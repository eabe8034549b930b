/* Matrix products. */
#ifndef WEFT_CODELETS_LINEAR_H
#define WEFT_CODELETS_LINEAR_H

#include <weft/kernel.h>

#include "codelets/args.h"

/* C = alpha op(A) op(B) + beta C, of one type: WEFT_F64 and WEFT_F32 by CBLAS, one thread; WEFT_I64, WEFT_I32
 * and WEFT_U8 by loops, which wrap around. A, B as they lie, row-major: A is m x k, or k x m with
 * transpose_a; B is k x n, or n x k with transpose_b. Strides from row to row in elements, at least 1. Any of
 * m, n, k may be 0. With beta 0, C is not read. */
typedef struct weft_gemm {
    weft_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    double alpha, beta;
} weft_gemm;

/* The largest part of a product whose sizes and strides BLAS, which counts with int, can be given: single
 * rows where rows lie too far apart; the product itself where it can be given that. */
weft_gemm weft_gemm_part(const weft_gemm *gemm);

void weft_multiply(const weft_gemm *gemm, const void *a, const void *b, void *c);

/* The same for A and B of `input_type`, which may be of 16 bits: then gemm->dtype is WEFT_F32, and blocks are
 * converted. False: no memory, and C is set to zero. */
bool weft_multiply_from(const weft_gemm *gemm, weft_dtype input_type, const void *a, const void *b, void *c);

/* Operand 0: C (W when it is not read, else RW). Operands 1, 2: A and B, of input_type, where k is not 0. The
 * last one, where `adds`: an m x n matrix X of input_type, whose strides may be 0; then C = alpha op(A) op(B)
 * + beta X. */
typedef struct weft_gemm_args {
    weft_task_args base; /* dtype: of gemm */
    weft_gemm gemm;
    weft_dtype input_type;
    bool adds;
    int64_t addend_row_stride, addend_column_stride; /* elements */
    bool scaled; /* alpha, and beta of X, are the call's scalars */
} weft_gemm_args;
enum { WEFT_GEMM_ALPHA, WEFT_GEMM_BETA };
void weft_cpu_matmul(const weft_task_run *run);
uint32_t weft_matmul_footprint(const weft_task_run *run);

/* Products of the last two dimensions for every index of those before, which the output has all of and the
 * inputs may repeat. numbers[0]: 1 for a transposed input 0, plus 2 for a transposed input 1. An input of one
 * dimension is a vector: the output lacks the dimension that it has not. Inputs of 16 bits give an output of
 * WEFT_F32. */
void weft_kernel_bmm(const weft_kernel_call *call);

/* Keeps the BLAS library from starting threads of its own: StarPU's workers are the threads. */
void weft_blas_use_one_thread(void);

#endif
