/* Matrix products by CBLAS, one thread each: StarPU's workers are the threads. */
#include <cblas.h>
#include <limits.h>
#include <string.h>

#include "codelets/linear.h"

/* OpenBLAS only; another BLAS is told through its own environment variables. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

void weft_blas_use_one_thread(void)
{
    if (openblas_set_num_threads != NULL) {
        openblas_set_num_threads(1);
    }
}

static CBLAS_TRANSPOSE transposed(bool yes)
{
    return yes ? CblasTrans : CblasNoTrans;
}

/* C = beta C, for a product of nothing (k = 0), which BLAS implementations treat differently. */
static void scale_rows(const weft_gemm_args *args, char *c, size_t size)
{
    for (int64_t i = 0; i < args->m && args->beta == 0.0; i++) {
        memset(c + (size_t)(i * args->ldc) * size, 0, (size_t)args->n * size);
    }
}

static void multiply(const weft_gemm_args *args, const void *a, const void *b, void *c)
{
    int m = (int)args->m, n = (int)args->n, k = (int)args->k;
    int lda = (int)args->lda, ldb = (int)args->ldb, ldc = (int)args->ldc;
    CBLAS_TRANSPOSE ta = transposed(args->transpose_a), tb = transposed(args->transpose_b);
    if (args->base.dtype == WEFT_F64) {
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, a, lda, b, ldb, args->beta, c, ldc);
    } else {
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, (float)args->beta, c, ldc);
    }
}

static void gemm_cpu(void *buffers[], void *argument)
{
    const weft_gemm_args *args = argument;
    size_t size = weft_dtype_size(args->base.dtype);
    char *c = weft_task_pointer(buffers, &args->base, 0);
    const char *a = weft_task_pointer(buffers, &args->base, 1);
    const char *b = weft_task_pointer(buffers, &args->base, 2);
    if (args->m == 0 || args->n == 0) {
        return;
    }
    for (int64_t i = 0; i < args->batch; i++) {
        char *target = c + (size_t)(i * args->batch_stride_c) * size;
        if (args->k == 0) {
            scale_rows(args, target, size);
        } else {
            multiply(args, a + (size_t)(i * args->batch_stride_a) * size,
                     b + (size_t)(i * args->batch_stride_b) * size, target);
        }
    }
}

struct starpu_codelet weft_codelet_gemm = {
    .cpu_funcs = { gemm_cpu },
    .cpu_funcs_name = { "gemm_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_gemm",
    .color = WEFT_COLOR_PRODUCT,
};
