#include "codelets/cuda/lt.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/blas_library.h"

/* Addresses are multiples of ALIGNMENT: kernels that load 16 bytes at once need no more. */
enum { PLANS = 64, ALIGNMENT = 16 };

/* The numbers by which a plan is found. */
enum { TRANSPOSE_A, TRANSPOSE_B, M, N, K, LDA, LDB, LDC, INPUT, OUTPUT, TF32, NUM_KEYS };

/* How products of one kind are computed. */
typedef struct plan {
    int64_t key[NUM_KEYS];
    bool possible; /* false: cuBLASLt has no kernel for it */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c; /* as cuBLASLt has them: column-major */
    cublasLtMatmulAlgo_t algorithm;
} plan;

struct weft_lt {
    weft_lt_library library;
    cublasLtHandle_t handle;
    plan plans[PLANS];
    int num_plans, oldest;
    int64_t runs;
};

weft_lt *weft_lt_new(void)
{
    weft_lt *lt = calloc(1, sizeof(*lt));
    if (lt == NULL || !weft_lt_load(&lt->library)) {
        free(lt);
        return NULL;
    }
    if (lt->library.Create(&lt->handle) != CUBLAS_STATUS_SUCCESS) {
        weft_blas_close(&lt->library.handle);
        free(lt);
        return NULL;
    }
    return lt;
}

static void plan_end(const weft_lt_library *library, plan *p)
{
    cublasLtMatrixLayout_t layouts[] = { p->a, p->b, p->c };
    for (int i = 0; i < 3; i++) {
        if (layouts[i] != NULL) {
            library->MatrixLayoutDestroy(layouts[i]);
        }
    }
    if (p->product != NULL) {
        library->MatmulDescDestroy(p->product);
    }
}

void weft_lt_free(weft_lt *lt)
{
    if (lt == NULL) {
        return;
    }
    for (int i = 0; i < lt->num_plans; i++) {
        plan_end(&lt->library, &lt->plans[i]);
    }
    lt->library.Destroy(lt->handle);
    weft_blas_close(&lt->library.handle);
    free(lt);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

static cudaDataType type_of(int64_t type)
{
    return type == WEFT_F32 ? CUDA_R_32F : type == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* A matrix as stored: row-major, which is its transpose for cuBLASLt. */
static bool describe_matrix(const weft_lt_library *library, cublasLtMatrixLayout_t *matrix, int64_t type, int64_t rows, int64_t columns,
                            int64_t stride)
{
    return library->MatrixLayoutCreate(matrix, type_of(type), (uint64_t)columns, (uint64_t)rows, stride) == CUBLAS_STATUS_SUCCESS;
}

/* cuBLASLt's matrices are column-major: it computes the transpose, C^T = op(B)^T op(A)^T, to whose columns the row is added. */
static bool describe(const weft_lt_library *library, plan *p, const void *bias)
{
    const int64_t *k = p->key;
    const cublasOperation_t first = k[TRANSPOSE_B] ? CUBLAS_OP_T : CUBLAS_OP_N, second = k[TRANSPOSE_A] ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int type = (int)type_of(k[OUTPUT]);
    const cublasComputeType_t arithmetic = k[TF32] ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
#define SET(attribute, value) \
    (library->MatmulDescSetAttribute(p->product, attribute, &(value), sizeof(value)) == CUBLAS_STATUS_SUCCESS)
    return library->MatmulDescCreate(&p->product, arithmetic, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           SET(CUBLASLT_MATMUL_DESC_TRANSA, first) && SET(CUBLASLT_MATMUL_DESC_TRANSB, second) &&
           SET(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) && SET(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type) &&
           SET(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias) &&
           describe_matrix(library, &p->a, k[INPUT], k[TRANSPOSE_B] ? k[N] : k[K], k[TRANSPOSE_B] ? k[K] : k[N], k[LDB]) &&
           describe_matrix(library, &p->b, k[INPUT], k[TRANSPOSE_A] ? k[K] : k[M], k[TRANSPOSE_A] ? k[M] : k[K], k[LDA]) &&
           describe_matrix(library, &p->c, k[OUTPUT], k[M], k[N], k[LDC]);
#undef SET
}

/* The first proposal for this workspace. Sums of parts over k are added in an order of their own, in the workspace, so equal calls have
 * equal bits. */
static bool choose(const weft_lt *lt, plan *p, size_t workspace_bytes)
{
    const weft_lt_library *library = &lt->library;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    cublasLtMatmulPreference_t wanted;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    if (library->MatmulPreferenceCreate(&wanted) != CUBLAS_STATUS_SUCCESS) {
        return false;
    }
#define SET(attribute, value) \
    (library->MatmulPreferenceSetAttribute(wanted, attribute, &(value), sizeof(value)) == CUBLAS_STATUS_SUCCESS)
    bool done = SET(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes) && SET(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sums) &&
                SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) && SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
                SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) && SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment) &&
                library->MatmulAlgoGetHeuristic(lt->handle, p->product, p->a, p->b, p->c, p->c, wanted, 1, &found, &count) ==
                    CUBLAS_STATUS_SUCCESS &&
                count == 1 && found.state == CUBLAS_STATUS_SUCCESS;
#undef SET
    library->MatmulPreferenceDestroy(wanted);
    if (done) {
        p->algorithm = found.algo;
    }
    return done;
}

/* The plan of these keys, which is new if there is none: then it takes the oldest one's place, if there are too many. */
static plan *plan_of(weft_lt *lt, const int64_t key[NUM_KEYS], const void *bias, size_t workspace_bytes)
{
    for (int i = 0; i < lt->num_plans; i++) {
        if (memcmp(lt->plans[i].key, key, sizeof(lt->plans[i].key)) == 0) {
            return &lt->plans[i];
        }
    }
    plan *p = &lt->plans[lt->num_plans < PLANS ? lt->num_plans : lt->oldest];
    if (lt->num_plans < PLANS) {
        lt->num_plans++;
    } else {
        plan_end(&lt->library, p);
        lt->oldest = (lt->oldest + 1) % PLANS;
    }
    memset(p, 0, sizeof(*p));
    memcpy(p->key, key, sizeof(p->key));
    p->possible = describe(&lt->library, p, bias) && choose(lt, p, workspace_bytes);
    return p;
}

/* ---- products ------------------------------------------------------------------------------------------ */

static bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % ALIGNMENT == 0;
}

bool weft_lt_multiply(weft_lt *lt, const weft_device_products *product, const void *bias, const weft_cuda_queue *queue)
{
    const weft_gemm *g = &product->gemm;
    const weft_dtype output = product->rounds ? product->input_type : g->dtype;
    if (lt == NULL || output == WEFT_F64 || !is_aligned(product->a) || !is_aligned(product->b) || !is_aligned(product->c) ||
        !is_aligned(bias)) {
        return false;
    }
    const int64_t key[NUM_KEYS] = { g->transpose_a, g->transpose_b, g->m, g->n, g->k, g->lda, g->ldb, g->ldc,
                                    (int64_t)product->input_type, (int64_t)output, queue->tf32 };
    plan *p = plan_of(lt, key, bias, queue->workspace_bytes);
    const float alpha = (float)g->alpha, beta = 0;
    if (!p->possible) {
        return false;
    }
    p->possible =
        lt->library.MatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)) == CUBLAS_STATUS_SUCCESS &&
        lt->library.Matmul(lt->handle, p->product, &alpha, product->b, p->a, product->a, p->b, &beta, product->c, p->c, product->c, p->c,
                           &p->algorithm, queue->workspace, queue->workspace_bytes, (cudaStream_t)queue->stream) == CUBLAS_STATUS_SUCCESS;
    if (p->possible) {
        lt->runs++;
    } else {
        cudaGetLastError(); /* else the next launch would have it */
    }
    return p->possible;
}

int64_t weft_lt_count_runs(const weft_lt *lt)
{
    return lt == NULL ? 0 : lt->runs;
}
