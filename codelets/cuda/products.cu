/* Products: cuBLAS on the queue's stream, and kernels for integers and addends. */
#include "codelets/cuda/products.h"

#include <stdlib.h>

#include "codelets/cuda/blas_library.h"
#include "codelets/cuda/convert.h"
#include "codelets/cuda/lt.h"

extern "C" {
#include "codelets/elementwise.h"
}

namespace
{

/* ---- the handle ---------------------------------------------------------------------------------------- */

/* The cuBLAS of a queue. */
struct queue_blas {
    weft_blas_library library;
    cublasHandle_t handle;
    weft_lt *lt; /* of fast queues; NULL: there is none */
};

int of_status(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? 0 : WEFT_CUDA_CUBLAS + (int)status;
}

/* One block: cuBLAS' workspace, and after it weft's scratch memory, of equal sizes. */
int allocate_workspace(weft_cuda_queue *queue)
{
    const size_t least = 64 << 10, most = 32 << 20;
    size_t unused, total;
    if (queue->workspace != NULL) {
        return 0;
    }
    cudaError_t failed = cudaMemGetInfo(&unused, &total);
    if (failed == cudaSuccess) {
        size_t part = total / 64 / 256 * 256;
        queue->workspace_bytes = part < least ? least : part > most ? most : part;
        failed = cudaMalloc(&queue->workspace, 2 * queue->workspace_bytes);
    }
    if (failed != cudaSuccess) {
        cudaGetLastError(); /* else the next launch would have it */
    }
    return (int)failed;
}

/* Opens the library and creates the handle. */
int create(weft_cuda_queue *queue)
{
    queue_blas *blas = (queue_blas *)calloc(1, sizeof(*blas));
    if (blas == NULL || !weft_blas_load(&blas->library)) {
        free(blas);
        return WEFT_CUDA_NO_CUBLAS;
    }
    cudaGetDevice(&queue->device);
    int failed = of_status(blas->library.Create_v2(&blas->handle));
    if (failed != 0) {
        weft_blas_close(&blas->library.handle);
        free(blas);
        return failed;
    }
    queue->blas = blas;
    blas->lt = queue->fast ? weft_lt_new() : NULL;
    /* Single precision is single precision, unless TF32 is wanted; sums of 16-bit types are not rounded between. */
    int mode = (queue->tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH) | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    return of_status(blas->library.SetMathMode(blas->handle, (cublasMath_t)mode));
}

/* Creates the handle for the first product. Setting a stream takes the workspace away, so both are set together, once. */
int begin(weft_cuda_queue *queue)
{
    int failed = allocate_workspace(queue);
    if (failed == 0 && queue->blas == NULL) {
        failed = create(queue);
    }
    if (failed == 0 && queue->blas_stream != queue->stream) {
        const queue_blas *blas = (const queue_blas *)queue->blas;
        failed = of_status(blas->library.SetStream_v2(blas->handle, (cudaStream_t)queue->stream));
        failed = failed != 0 ? failed : of_status(blas->library.SetWorkspace_v2(blas->handle, queue->workspace, queue->workspace_bytes));
        queue->blas_stream = failed == 0 ? queue->stream : NULL;
    }
    return failed;
}

/* ---- floating types ------------------------------------------------------------------------------------ */

weft_dtype type_of_c(const weft_device_products *p)
{
    return p->rounds ? p->input_type : p->gemm.dtype;
}

cudaDataType type_of(weft_dtype type)
{
    return type == WEFT_F64 ? CUDA_R_64F : type == WEFT_F32 ? CUDA_R_32F : type == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

cublasOperation_t operation_of(bool transpose)
{
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/* Stride of a matrix's rows (`rows` of `columns` elements); cuBLAS checks that of a single row, too, without using it. */
int64_t stride_of(int64_t stride, int64_t rows, int64_t columns)
{
    return rows == 1 && stride < columns ? columns : stride;
}

/* The product with strides that cuBLAS takes. */
weft_gemm with_strides(weft_gemm g)
{
    g.lda = stride_of(g.lda, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k);
    g.ldb = stride_of(g.ldb, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n);
    g.ldc = stride_of(g.ldc, g.m, g.n);
    return g;
}

/* cuBLAS' matrices are column-major: it computes the transpose, C^T = op(B)^T op(A)^T. */
int multiply_floating(const weft_device_products *p, weft_cuda_queue *queue)
{
    const weft_gemm strided = with_strides(p->gemm), *g = &strided;
    int failed = begin(queue);
    if (failed != 0) {
        return failed;
    }
    const queue_blas *blas = (const queue_blas *)queue->blas;
    float alpha = (float)g->alpha, beta = (float)g->beta;
    bool wide = g->dtype == WEFT_F64;
    const void *scales[] = { wide ? (const void *)&g->alpha : &alpha, wide ? (const void *)&g->beta : &beta };
    cudaDataType inputs = type_of(p->input_type), output = type_of(type_of_c(p));
    cublasComputeType_t arithmetic = wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    return of_status(blas->library.GemmStridedBatchedEx_64(
        blas->handle, operation_of(g->transpose_b), operation_of(g->transpose_a), g->n, g->m, g->k, scales[0], p->b, inputs, g->ldb,
        p->b_step, p->a, inputs, g->lda, p->a_step, scales[1], p->c, output, g->ldc, p->c_step, p->count, arithmetic, CUBLAS_GEMM_DEFAULT));
}

/* ---- integers ------------------------------------------------------------------------------------------ */

/* Unsigned, because these wrap around; signed sums have the same bits. */
template <typename T> __global__ void run_whole(const weft_device_products p)
{
    const weft_gemm &g = p.gemm;
    const int64_t matrix = g.m * g.n;
    const int64_t a_row = g.transpose_a ? 1 : g.lda, a_step = g.transpose_a ? g.lda : 1;
    const int64_t b_column = g.transpose_b ? g.ldb : 1, b_step = g.transpose_b ? 1 : g.ldb;
    for (int64_t index = weft_first_index(); index < p.count * matrix; index += weft_index_step()) {
        int64_t number = index / matrix, i = index % matrix / g.n, j = index % g.n;
        const T *a = (const T *)p.a + number * p.a_step + i * a_row, *b = (const T *)p.b + number * p.b_step + j * b_column;
        T sum = 0;
        for (int64_t l = 0; l < g.k; l++) {
            sum = (T)(sum + (T)(a[l * a_step] * b[l * b_step]));
        }
        T *c = (T *)p.c + number * p.c_step + i * g.ldc + j;
        *c = (T)((T)((T)(int64_t)g.alpha * sum) + (g.beta == 0 ? (T)0 : (T)((T)(int64_t)g.beta * *c)));
    }
}

/* ---- addends ------------------------------------------------------------------------------------------- */

/* C = beta X, for each product. */
struct addend_work {
    weft_dtype type, from_type;
    int64_t m, n, ldc, count, c_step;
    int64_t row_stride, column_stride, step; /* of X */
    double beta;
    const void *from;
    void *c;
};

static __device__ inline float scaled(float value, double beta)
{
    return beta == 1 ? value : value * (float)beta;
}

static __device__ inline double scaled(double value, double beta)
{
    return beta == 1 ? value : value * beta;
}

static __device__ inline int64_t scaled(int64_t value, double beta)
{
    return (int64_t)((uint64_t)value * (uint64_t)(int64_t)beta);
}

/* The low bits of a product of integers are those of its factors' low bits. */
static __device__ inline void store_whole(weft_dtype type, void *c, int64_t place, int64_t value)
{
    if (type == WEFT_I64) {
        ((int64_t *)c)[place] = value;
    } else if (type == WEFT_I32) {
        ((uint32_t *)c)[place] = (uint32_t)(uint64_t)value;
    } else {
        ((uint8_t *)c)[place] = (uint8_t)(uint64_t)value;
    }
}

static __device__ inline void store_scaled(weft_dtype type, void *c, int64_t place, float value)
{
    weft_store_from(type, c, place, value);
}

static __device__ inline void store_scaled(weft_dtype, void *c, int64_t place, double value)
{
    ((double *)c)[place] = value;
}

static __device__ inline void store_scaled(weft_dtype type, void *c, int64_t place, int64_t value)
{
    store_whole(type, c, place, value);
}

template <typename T> __global__ void run_addend(const addend_work work)
{
    const int64_t matrix = work.m * work.n;
    for (int64_t index = weft_first_index(); index < work.count * matrix; index += weft_index_step()) {
        int64_t number = index / matrix, i = index % matrix / work.n, j = index % work.n;
        int64_t from = number * work.step + i * work.row_stride + j * work.column_stride;
        T value = work.beta == 0 ? (T)0 : scaled(weft_load_as(T(), work.from_type, work.from, from), work.beta);
        store_scaled(work.type, work.c, number * work.c_step + i * work.ldc + j, value);
    }
}

int launch_addend(const addend_work &work, weft_cuda_queue *queue)
{
    int64_t count = work.count * work.m * work.n;
    return count == 0 ? 0
                      : weft_launch(work.type == WEFT_F64   ? run_addend<double>
                                    : weft_dtype_is_whole(work.type) ? run_addend<int64_t>
                                                            : run_addend<float>,
                                    count, queue->stream, work);
}

/* C = beta C */
int scale(const weft_device_products *p, weft_cuda_queue *queue)
{
    const weft_gemm *g = &p->gemm;
    const weft_dtype type = type_of_c(p);
    const addend_work work = { type, type, g->m, g->n, g->ldc, p->count, p->c_step, g->ldc, 1, p->c_step, g->beta, p->c, p->c };
    return g->beta == 1 ? 0 : launch_addend(work, queue);
}

}

/* ---- any product --------------------------------------------------------------------------------------- */

int weft_cuda_multiply(const weft_device_products *p, weft_cuda_queue *queue)
{
    const weft_gemm *g = &p->gemm;
    int64_t elements = p->count * g->m * g->n;
    if (elements == 0) {
        return 0;
    }
    if (g->k == 0) {
        return scale(p, queue);
    }
    switch (g->dtype) {
    case WEFT_F64:
    case WEFT_F32:
        return multiply_floating(p, queue);
    case WEFT_I64:
        return weft_launch(run_whole<uint64_t>, elements, queue->stream, *p);
    case WEFT_I32:
        return weft_launch(run_whole<uint32_t>, elements, queue->stream, *p);
    default:
        return weft_launch(run_whole<uint8_t>, elements, queue->stream, *p);
    }
}

/* The sums in C, rounded into the last operand, which has no gaps. */
static int round_sums(const weft_task_run *run, const weft_gemm *g, weft_cuda_queue *queue)
{
    const weft_gemm_args *args = (const weft_gemm_args *)run->arguments;
    weft_elementwise_args rounding = {};
    weft_task_run own = {};
    rounding.base.dtype = rounding.common = rounding.types[1] = WEFT_F32;
    rounding.types[0] = args->input_type;
    rounding.ndim = 2;
    rounding.extent[0] = g->m;
    rounding.extent[1] = rounding.stride[0][0] = g->n;
    rounding.stride[1][0] = g->ldc;
    rounding.stride[0][1] = rounding.stride[1][1] = 1;
    void *operands[2] = { run->operands[run->num_operands - 1], run->operands[0] };
    own.kernel = WEFT_KERNEL_convert;
    own.arguments = &rounding;
    own.num_operands = 2;
    own.operands = operands;
    return weft_cuda_elementwise(&own, queue);
}

/* Whether the addend is the same row for all rows of C, whose type it has, and no other sum is to be added. */
static bool adds_a_row(const weft_gemm_args *args, const weft_device_products *p)
{
    const weft_gemm *g = &p->gemm;
    return args->adds && g->beta == 1 && !args->rounds && args->input_type == type_of_c(p) && args->addend_row_stride == 0 &&
           args->addend_column_stride == 1 && g->m > 0 && g->n > 0 && g->k > 0 && g->dtype == WEFT_F32;
}

/* By cuBLASLt, if it is there and computes it. */
static bool multiply_and_add_row(const weft_device_products *p, const void *row, weft_cuda_queue *queue)
{
    if (!queue->fast || begin(queue) != 0) {
        return false;
    }
    weft_device_products product = *p;
    product.gemm = with_strides(p->gemm);
    return weft_lt_multiply(((const queue_blas *)queue->blas)->lt, &product, row, queue);
}

int weft_cuda_matmul(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_gemm_args *args = (const weft_gemm_args *)run->arguments;
    const bool rounds = args->base.dtype != args->gemm.dtype;
    weft_device_products p = { args->gemm, args->input_type, rounds, NULL, NULL, run->operands[0], 1, 0, 0, 0 };
    weft_gemm *g = &p.gemm;
    if (args->scaled) {
        g->alpha = run->scalars[WEFT_GEMM_ALPHA];
        g->beta = args->adds ? run->scalars[WEFT_GEMM_BETA] : g->beta;
    }
    if (g->k > 0) {
        p.a = run->operands[1];
        p.b = run->operands[2];
    }
    int failed = 0;
    if (adds_a_row(args, &p) && multiply_and_add_row(&p, run->operands[run->num_operands - 1], queue)) {
        return 0;
    }
    if (args->adds && g->beta != 0) {
        /* Into 16 bits as it is, so that the sum is rounded once. */
        const addend_work work = { args->base.dtype, args->input_type, g->m, g->n, g->ldc, 1, 0, args->addend_row_stride,
                                   args->addend_column_stride, 0, rounds ? 1 : g->beta, run->operands[run->num_operands - 1 - args->rounds], p.c };
        failed = launch_addend(work, queue);
        g->beta = rounds ? g->beta : 1;
    }
    failed = failed != 0 ? failed : weft_cuda_multiply(&p, queue);
    return failed != 0 || !args->rounds ? failed : round_sums(run, g, queue);
}

int64_t weft_cuda_count_rows_added(const weft_cuda_queue *queue)
{
    return queue->blas == NULL ? 0 : weft_lt_count_runs(((const queue_blas *)queue->blas)->lt);
}

void weft_cuda_products_start(weft_cuda_queue *queue)
{
    begin(queue);
}

int weft_cuda_scratch(weft_cuda_queue *queue, void **scratch, size_t *bytes)
{
    int failed = allocate_workspace(queue);
    *scratch = (char *)queue->workspace + queue->workspace_bytes;
    *bytes = queue->workspace_bytes;
    return failed;
}

void weft_cuda_products_free(weft_cuda_queue *queue)
{
    queue_blas *blas = (queue_blas *)queue->blas;
    int before = 0;
    if (blas != NULL && cudaGetDevice(&before) == cudaSuccess) {
        cudaSetDevice(queue->device);
        weft_lt_free(blas->lt);
        blas->library.Destroy_v2(blas->handle);
        cudaSetDevice(before);
        weft_blas_close(&blas->library.handle);
    }
    free(blas);
    cudaFree(queue->workspace); /* no memory: nothing */
}
