/* Products of matrices in device memory: floating types by cuBLAS, integers by a kernel. */
#ifndef WEFT_CODELETS_CUDA_PRODUCTS_H
#define WEFT_CODELETS_CUDA_PRODUCTS_H

#include "codelets/cuda/kernels.h"
#include "codelets/linear.h"

WEFT_BEGIN_DECLS

/* `count` products of equal sizes: number i takes its matrices i steps after the first. A step of 0: all take the same
 * one, of A and B only. Addresses are the device's. */
typedef struct weft_device_products {
    weft_gemm gemm;        /* row-major, as linear.h has it */
    weft_dtype input_type; /* of A and B: gemm.dtype, or 16 bits with WEFT_F32; accumulated in gemm.dtype */
    bool rounds;           /* C has input_type, of 16 bits, to which each element is rounded once */
    const void *a, *b;
    void *c;
    int64_t count, a_step, b_step, c_step; /* elements */
} weft_device_products;

/* Puts them on the queue's stream. Without elements of C nothing is done, without terms C = beta C. Returns what a
 * weft_cuda_run does. */
int weft_cuda_multiply(const weft_device_products *products, weft_cuda_queue *queue);

/* Products of the queue to which cuBLASLt has added a row. */
int64_t weft_cuda_count_rows_added(const weft_cuda_queue *queue);

/* Device memory for values between a task's kernels: the same for all tasks of the queue, as these follow each other. Kernels that
 * can be fused (src/graph/fuse/fuse.c) do not use it: a fused task keeps its own values there.
 * At least 64 KB, and no more than 32 MB or a 64th of the device's memory. */
int weft_cuda_scratch(weft_cuda_queue *queue, void **scratch, size_t *bytes);

WEFT_END_DECLS

#endif
