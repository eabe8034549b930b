/* Matrix products. */
#ifndef WEFT_CODELETS_LINEAR_H
#define WEFT_CODELETS_LINEAR_H

#include <weft/kernel.h>

#include "codelets/args.h"

/* C = alpha op(A) op(B) + beta C, of one type: WEFT_F64 and WEFT_F32 by oneDNN or CBLAS, complex types by CBLAS, one thread;
 * integers by loops, which wrap around. A, B as stored, row-major: A is m x k, or k x m with
 * transpose_a; B is k x n, or n x k with transpose_b. Strides from row to row in elements, at least 1. Any
 * of m, n, k may be 0. With beta 0, C is not read. */
typedef struct weft_gemm {
    weft_dtype dtype;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    double alpha, beta;
} weft_gemm;

/* The largest part of a product whose sizes and strides fit BLAS' int: single rows if rows are too far
 * apart; the whole product if it fits. */
weft_gemm weft_gemm_part(const weft_gemm *gemm);

void weft_multiply(const weft_gemm *gemm, const void *a, const void *b, void *c);

/* For A and B of `input_type`, also of 16 bits: gemm->dtype is WEFT_F32 then, and blocks are converted.
 * False: no memory, and C is set to zero. */
bool weft_multiply_from(const weft_gemm *gemm, weft_dtype input_type, const void *a, const void *b, void *c);

/* Operand 0: C (W if it is not read, else RW). Operands 1, 2: A and B, which may be packed, of input_type, unless k is 0. Next
 * operand, if `adds`: an m x n matrix X of input_type, whose strides may be 0: C = alpha op(A) op(B) +
 * beta X. */
typedef struct weft_gemm_args {
    weft_task_args base; /* dtype: of C; gemm's, or an input_type of 16 bits, to which the product is rounded once */
    weft_gemm gemm;
    weft_dtype input_type;
    bool adds;
    int64_t addend_row_stride, addend_column_stride; /* elements */
    bool scaled; /* alpha, and beta for X, are the call's scalars */
    bool rounds; /* one more operand (W), the last: C, which has all of its sums now, rounded to input_type, without gaps */
    int64_t packed_rows; /* not 0: B is packed, in the order for products of so many rows */
} weft_gemm_args;
enum { WEFT_GEMM_ALPHA, WEFT_GEMM_BETA };
void weft_cpu_matmul(const weft_task_run *run);
uint32_t weft_matmul_footprint(const weft_task_run *run);

/* Bytes of a B of `input_type` in the order that is best for products of g->m rows, at least those of B: made once, it
 * saves all panels of A's rows from ordering B again. 0: such products want B as it is stored. */
int64_t weft_packed_bytes(const weft_gemm *g, weft_dtype input_type);

/* Rows of B as stored, `count` from `first` on, are packed into operand 0 (W; RW after other rows). Operand 1: these rows.
 * Several packs have parts of B only if each but the last has a multiple of WEFT_PACKED_ROWS, and B is not transposed. */
enum { WEFT_PACKED_ROWS = 64 };
typedef struct weft_pack_args {
    weft_task_args base; /* dtype: of B */
    weft_gemm gemm;      /* of the whole product; m: the rows for which B is packed */
    int64_t first, count;
} weft_pack_args;
void weft_cpu_pack(const weft_task_run *run);
uint32_t weft_pack_footprint(const weft_task_run *run);

/* One product of the last two dimensions for every index of the others; inputs may broadcast along these.
 * numbers[0]: 1 for a transposed input 0, plus 2 for a transposed input 1. A one-dimensional input is a
 * vector, whose missing dimension the output lacks too. Inputs of 16 bits give an output of WEFT_F32. */
void weft_kernel_bmm(const weft_kernel_call *call);

/* Sets BLAS to one thread: StarPU's workers are the threads. */
void weft_blas_use_one_thread(void);

#endif
