/* The part of cuBLAS that weft calls, and the functions by which some StarPUs are linked to it: products on the stand-in's
 * streams (blas_products.h). */
#include <cublas_v2.h>

#include <cstdlib>

#include "blas_products.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct cublasContext {
    int device;
    cudaStream_t stream;
    void *workspace;
    int mode;
};

namespace
{

/* The combinations that cuBLAS has, of those that weft uses. */
bool is_known(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t arithmetic)
{
    bool narrow = a == CUDA_R_16BF || a == CUDA_R_16F;
    return a == b && ((arithmetic == CUBLAS_COMPUTE_64F && a == CUDA_R_64F && c == CUDA_R_64F) ||
                      (arithmetic == CUBLAS_COMPUTE_32F && ((c == CUDA_R_32F && (a == CUDA_R_32F || narrow)) || (narrow && c == a))));
}

int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

}

/* ---- handles ------------------------------------------------------------------------------------------- */

EXPORTED cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    const char *fails = std::getenv("STAND_IN_NO_CUBLAS");
    int device;
    if (fails != nullptr && fails[0] == '1') {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    if (cudaGetDevice(&device) != cudaSuccess) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = new cublasContext{ device, nullptr, nullptr, CUBLAS_DEFAULT_MATH };
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* Takes the workspace away, as cuBLAS does. */
EXPORTED cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t)
{
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, workspace);
    if (attributes.type != cudaMemoryTypeDevice || attributes.device != handle->device ||
        reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED const char *cublasGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

EXPORTED cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t a_operation,
                                                      cublasOperation_t b_operation, int64_t m, int64_t n, int64_t k,
                                                      const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
                                                      long long a_step, const void *b, cudaDataType b_type, int64_t ldb,
                                                      long long b_step, const void *beta, void *c, cudaDataType c_type,
                                                      int64_t ldc, long long c_step, int64_t count,
                                                      cublasComputeType_t arithmetic, cublasGemmAlgo_t)
{
    if (handle == nullptr || handle->workspace == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED; /* one that cuBLAS would allocate by itself is not wanted */
    }
    if (!is_known(a_type, b_type, c_type, arithmetic)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    bool ta = a_operation == CUBLAS_OP_T, tb = b_operation == CUBLAS_OP_T;
    if (m < 0 || n < 0 || k < 0 || count < 0 || lda < most(1, ta ? k : m) || ldb < most(1, tb ? n : k) || ldc < most(1, m) ||
        a_step < 0 || b_step < 0 || (count > 1 && c_step < ldc * (n - 1) + m)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    bool wide = arithmetic == CUBLAS_COMPUTE_64F;
    products p = { ta,
                   tb,
                   (handle->mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH,
                   m,
                   n,
                   k,
                   count,
                   wide ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha),
                   wide ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta),
                   { a, a_type, lda, a_step },
                   { b, b_type, ldb, b_step },
                   { c, c_type, ldc, c_step },
                   {} };
    int failed = stand_in_launch(run_products, all_products, &p, sizeof(p), 1, 1, handle->stream);
    return failed == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* ---- of StarPU's, called by programs that use its handles ---------------------------------------------- */

EXPORTED cublasStatus_t cublasInit(void)
{
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

EXPORTED cublasStatus_t cublasShutdown(void)
{
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

EXPORTED cublasStatus_t cublasSetKernelStream(cudaStream_t)
{
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
