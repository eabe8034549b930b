/* The part of cuBLASLt that weft calls: products with a row added, on the stand-in's streams (blas_products.h). Stricter than the real
 * one: what a plan was not made for is refused. */
#include <cublasLt.h>

#include <cstdlib>
#include <new>

#include "blas_products.h"

struct cublasLtContext {
    int device;
};

namespace
{

struct description {
    cublasComputeType_t arithmetic;
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    cudaDataType bias_type;
    const void *bias;
};

struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
};

struct preference {
    uint64_t workspace;
    uint32_t sums, alignment[4];
};

/* Within cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t magic, workspace;
    uint32_t alignment[4];
    uint64_t m, n, k; /* of the product that it was chosen for */
};

enum : uint64_t { MAGIC = 0x17a190, WORKSPACE = 4096 };

template <typename Own, typename Handle> Own *own(Handle handle)
{
    return reinterpret_cast<Own *>(handle);
}

template <typename T> bool take(T *to, const void *value, size_t size)
{
    if (size != sizeof(*to)) {
        return false;
    }
    std::memcpy(static_cast<void *>(to), value, size);
    return true;
}

cublasStatus_t status_of(bool good)
{
    return good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* Sizes as op() has them: C is m x n. */
bool agree(const description &d, const layout &a, const layout &b, const layout &c)
{
    const uint64_t m = d.a == CUBLAS_OP_T ? a.columns : a.rows, k = d.a == CUBLAS_OP_T ? a.rows : a.columns;
    const uint64_t l = d.b == CUBLAS_OP_T ? b.columns : b.rows, n = d.b == CUBLAS_OP_T ? b.rows : b.columns;
    return k == l && c.rows == m && c.columns == n && a.stride >= static_cast<int64_t>(a.rows) && b.stride >= static_cast<int64_t>(b.rows) &&
           c.stride >= static_cast<int64_t>(c.rows) && m > 0 && n > 0 && k > 0;
}

/* The types of which cuBLASLt adds a row: that of C, which is that of A and B, or single precision. */
bool is_known(const description &d, const layout &a, const layout &b, const layout &c)
{
    const bool narrow = a.type == CUDA_R_16BF || a.type == CUDA_R_16F;
    const bool tf32 = d.arithmetic == CUBLAS_COMPUTE_32F_FAST_TF32;
    return (d.arithmetic == CUBLAS_COMPUTE_32F || tf32) && a.type == b.type && d.epilogue == CUBLASLT_EPILOGUE_BIAS && d.bias_type == c.type &&
           (c.type == CUDA_R_32F ? a.type == CUDA_R_32F || narrow : narrow && c.type == a.type);
}

bool is_on_device(const void *memory, int device)
{
    cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess && attributes.type == cudaMemoryTypeDevice &&
           attributes.device == device;
}

}

/* ---- descriptions -------------------------------------------------------------------------------------- */

EXPORTED cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    const char *fails = std::getenv("STAND_IN_NO_CUBLAS");
    int device;
    if ((fails != nullptr && fails[0] == '1') || cudaGetDevice(&device) != cudaSuccess) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = new cublasLtContext{ device };
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t arithmetic, cudaDataType_t scale)
{
    description *d = new description{ arithmetic, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_8I, nullptr };
    *product = own<cublasLtMatmulDescOpaque_t>(d);
    return status_of(scale == CUDA_R_32F);
}

EXPORTED cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    delete own<description>(product);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                                       const void *value, size_t size)
{
    description *d = own<description>(product);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return status_of(take(&d->a, value, size));
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return status_of(take(&d->b, value, size));
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return status_of(take(&d->epilogue, value, size));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return status_of(take(&d->bias_type, value, size));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return status_of(take(&d->bias, value, size));
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matrix, cudaDataType type, uint64_t rows, uint64_t columns,
                                                   int64_t stride)
{
    *matrix = own<cublasLtMatrixLayoutOpaque_t>(new layout{ type, rows, columns, stride });
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix)
{
    delete own<layout>(matrix);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- plans --------------------------------------------------------------------------------------------- */

EXPORTED cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wanted)
{
    *wanted = own<cublasLtMatmulPreferenceOpaque_t>(new preference{ 0, CUBLASLT_REDUCTION_SCHEME_MASK, { 256, 256, 256, 256 } });
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wanted)
{
    delete own<preference>(wanted);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wanted, cublasLtMatmulPreferenceAttributes_t attribute,
                                                             const void *value, size_t size)
{
    preference *p = own<preference>(wanted);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return status_of(take(&p->workspace, value, size));
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return status_of(take(&p->sums, value, size));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return status_of(take(&p->alignment[0], value, size));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return status_of(take(&p->alignment[1], value, size));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return status_of(take(&p->alignment[2], value, size));
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return status_of(take(&p->alignment[3], value, size));
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* A proposal wants some workspace, and has sums in an order that is not fixed if that is allowed. C of one row: none. */
EXPORTED cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                       cublasLtMatmulPreference_t wanted, int most_results,
                                                       cublasLtMatmulHeuristicResult_t results[], int *count)
{
    const description *described = own<description>(product);
    const layout *la = own<layout>(a), *lb = own<layout>(b), *lc = own<layout>(c);
    const preference *p = own<preference>(wanted);
    *count = 0;
    if (handle == nullptr || c != d || most_results < 1 || !agree(*described, *la, *lb, *lc)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!is_known(*described, *la, *lb, *lc) || lc->rows == 1 || p->workspace < WORKSPACE || p->sums != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    algorithm chosen = { MAGIC, WORKSPACE, {}, lc->rows, lc->columns, described->a == CUBLAS_OP_T ? la->rows : la->columns };
    std::memcpy(chosen.alignment, p->alignment, sizeof(chosen.alignment));
    static_assert(sizeof(chosen) <= sizeof(results[0].algo), "an algorithm fits");
    std::memcpy(static_cast<void *>(&results[0].algo), &chosen, sizeof(chosen));
    results[0].workspaceSize = WORKSPACE;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ------------------------------------------------------------------------------------------ */

EXPORTED cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,
                                       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const description *described = own<description>(product);
    const layout *la = own<layout>(a_layout), *lb = own<layout>(b_layout), *lc = own<layout>(c_layout);
    algorithm how;
    std::memcpy(static_cast<void *>(&how), chosen, sizeof(how));
    const int64_t k = static_cast<int64_t>(described->a == CUBLAS_OP_T ? la->rows : la->columns);
    const void *operands[] = { a, b, c, d };
    bool good = handle != nullptr && how.magic == MAGIC && how.m == lc->rows && how.n == lc->columns && static_cast<int64_t>(how.k) == k &&
                c == d && c_layout == d_layout && agree(*described, *la, *lb, *lc) && is_known(*described, *la, *lb, *lc) &&
                workspace_bytes >= how.workspace && reinterpret_cast<uintptr_t>(workspace) % 256 == 0 &&
                is_on_device(workspace, handle->device) && is_on_device(described->bias, handle->device);
    for (int i = 0; i < 4; i++) {
        good = good && is_on_device(operands[i], handle->device) && reinterpret_cast<uintptr_t>(operands[i]) % how.alignment[i] == 0;
    }
    if (!good) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const char *fails = std::getenv("STAND_IN_FAILING_LT");
    if (fails != nullptr && fails[0] == '1') {
        cudaSetDevice(-1);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    products p = { described->a == CUBLAS_OP_T,
                   described->b == CUBLAS_OP_T,
                   described->arithmetic == CUBLAS_COMPUTE_32F_FAST_TF32,
                   static_cast<int64_t>(lc->rows),
                   static_cast<int64_t>(lc->columns),
                   k,
                   1,
                   *static_cast<const float *>(alpha),
                   *static_cast<const float *>(beta),
                   { a, la->type, la->stride, 0 },
                   { b, lb->type, lb->stride, 0 },
                   { d, lc->type, lc->stride, 0 },
                   { described->bias, described->bias_type, 0, 0 } };
    int failed = stand_in_launch(run_products, all_products, &p, sizeof(p), 1, 1, stream);
    return failed == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
