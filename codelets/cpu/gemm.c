/* Matrix products: CBLAS, one thread each (StarPU's workers are the threads), and loops for integers. */
#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/cpu/clones.h"
#include "codelets/cpu/onednn.h"
#include "codelets/convert.h"
#include "codelets/problems.h"
#include "codelets/products.h"

/* OpenBLAS only; other BLAS libraries have environment variables. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

void weft_blas_use_one_thread(void)
{
    if (openblas_set_num_threads != NULL) {
        openblas_set_num_threads(1);
    }
}

/* ---- floating types ------------------------------------------------------------------------------------ */

static CBLAS_TRANSPOSE transposed(bool yes)
{
    return yes ? CblasTrans : CblasNoTrans;
}

/* y = alpha op(M) x + beta y; M is rows x columns as stored. */
static void multiply_vector(const weft_gemm *g, bool transpose, int64_t rows, int64_t columns,
                            const void *matrix, int64_t ld, const void *x, int64_t x_step, void *y,
                            int64_t y_step)
{
    CBLAS_TRANSPOSE t = transposed(transpose);
    if (g->dtype == WEFT_F64) {
        cblas_dgemv(CblasRowMajor, t, (int)rows, (int)columns, g->alpha, matrix, (int)ld, x, (int)x_step,
                    g->beta, y, (int)y_step);
    } else {
        cblas_sgemv(CblasRowMajor, t, (int)rows, (int)columns, (float)g->alpha, matrix, (int)ld, x,
                    (int)x_step, (float)g->beta, y, (int)y_step);
    }
}

/* m or n is 1. */
static void multiply_as_vector(const weft_gemm *g, const void *a, const void *b, void *c)
{
    if (g->n == 1) {
        multiply_vector(g, g->transpose_a, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, a,
                        g->lda, b, g->transpose_b ? 1 : g->ldb, c, g->ldc);
    } else {
        multiply_vector(g, !g->transpose_b, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, b,
                        g->ldb, a, g->transpose_a ? g->lda : 1, c, 1);
    }
}

static void multiply_matrices(const weft_gemm *g, const void *a, const void *b, void *c)
{
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    CBLAS_TRANSPOSE ta = transposed(g->transpose_a), tb = transposed(g->transpose_b);
    if (g->dtype == WEFT_C128) {
        const double alpha[] = { g->alpha, 0 }, beta[] = { g->beta, 0 };
        cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    } else if (g->dtype == WEFT_C64) {
        const float alpha[] = { (float)g->alpha, 0 }, beta[] = { (float)g->beta, 0 };
        cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    } else if (g->dtype == WEFT_F64) {
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, g->alpha, a, lda, b, ldb, g->beta, c, ldc);
    } else {
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, (float)g->alpha, a, lda, b, ldb, (float)g->beta, c, ldc);
    }
}

/* ---- integers ------------------------------------------------------------------------------------------ */

/* Unsigned, because these wrap around; signed sums have the same bits. W: in which products do, as int does not. */
#define INTEGERS(T, W)                                                                                        \
    WEFT_CLONES static void add_scaled_##T(T *c, T factor, const T *b, int64_t n)                            \
    {                                                                                                        \
        for (int64_t j = 0; j < n; j++) { /* vectorised */                                                   \
            c[j] = (T)(c[j] + (T)((W)factor * b[j]));                                                           \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static T dot_##T(const T *a, int64_t step, const T *b, int64_t n)                            \
    {                                                                                                        \
        T sum = 0;                                                                                           \
        for (int64_t j = 0; j < n; j++) { /* vectorised */                                                   \
            sum = (T)(sum + (T)((W)a[j * step] * b[j]));                                                        \
        }                                                                                                    \
        return sum;                                                                                          \
    }                                                                                                        \
    static void multiply_##T(const weft_gemm *g, const void *a_, const void *b_, void *c_)                   \
    {                                                                                                        \
        enum { DEPTH = 64, WIDTH = 1024 };                                                                   \
        T alpha = (T)(int64_t)g->alpha;                                                                      \
        int64_t row = g->transpose_a ? 1 : g->lda, step = g->transpose_a ? g->lda : 1;                       \
        for (int64_t j = 0, n; j < g->n; j += n) {                                                           \
            n = g->n - j < WIDTH ? g->n - j : WIDTH;                                                         \
            for (int64_t l = 0, k; l < g->k; l += k) {                                                       \
                k = g->k - l < DEPTH ? g->k - l : DEPTH;                                                     \
                for (int64_t i = 0; i < g->m; i++) {                                                         \
                    const T *a = (const T *)a_ + i * row + l * step, *b = b_;                                \
                    T *c = (T *)c_ + i * g->ldc + j;                                                         \
                    for (int64_t x = 0; g->transpose_b && x < n; x++) {                                      \
                        c[x] = (T)(c[x] + (T)((W)alpha * dot_##T(a, step, b + (j + x) * g->ldb + l, k)));       \
                    }                                                                                        \
                    for (int64_t x = 0; !g->transpose_b && x < k; x++) {                                     \
                        add_scaled_##T(c, (T)((W)alpha * a[x * step]), b + (l + x) * g->ldb + j, n);            \
                    }                                                                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

INTEGERS(uint64_t, uint64_t)
INTEGERS(uint32_t, uint32_t)
INTEGERS(uint16_t, uint32_t)
INTEGERS(uint8_t, uint32_t)

/* ---- all types ----------------------------------------------------------------------------------------- */

static void scale_row(weft_dtype dtype, void *row, double factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        switch (dtype) {
        case WEFT_F64:
            ((double *)row)[i] *= factor;
            break;
        case WEFT_F32:
            ((float *)row)[i] *= (float)factor;
            break;
        case WEFT_C64:
            ((weft_c64 *)row)[i] *= (float)factor;
            break;
        case WEFT_C128:
            ((weft_c128 *)row)[i] *= factor;
            break;
        case WEFT_I64:
        case WEFT_U64:
            ((uint64_t *)row)[i] *= (uint64_t)(int64_t)factor;
            break;
        case WEFT_I32:
        case WEFT_U32:
            ((uint32_t *)row)[i] *= (uint32_t)(int64_t)factor;
            break;
        case WEFT_I16:
        case WEFT_U16:
            ((uint16_t *)row)[i] = (uint16_t)((uint32_t)((uint16_t *)row)[i] * (uint32_t)(int64_t)factor);
            break;
        default:
            ((uint8_t *)row)[i] = (uint8_t)(((uint8_t *)row)[i] * (uint8_t)(int64_t)factor);
            break;
        }
    }
}

/* C = beta C: for k = 0, which BLAS implementations treat differently, and before loops that add. */
static void scale_rows(const weft_gemm *g, void *c)
{
    size_t size = weft_dtype_size(g->dtype);
    for (int64_t i = 0; i < g->m && g->beta != 1; i++) {
        char *row = (char *)c + (size_t)(i * g->ldc) * size;
        if (g->beta == 0) {
            memset(row, 0, (size_t)g->n * size);
        } else {
            scale_row(g->dtype, row, g->beta, g->n);
        }
    }
}

/* ---- sizes that BLAS has no numbers for ---------------------------------------------------------------- */

static bool fits(int64_t size)
{
    return size <= INT_MAX;
}

weft_gemm weft_gemm_part(const weft_gemm *g)
{
    enum { MOST = 1 << 30 };
    weft_gemm part = *g;
    bool single_m = !fits(g->ldc) || (!fits(g->lda) && !g->transpose_a);
    bool single_n = !fits(g->ldb) && g->transpose_b;
    bool single_k = (!fits(g->lda) && g->transpose_a) || (!fits(g->ldb) && !g->transpose_b);
    part.m = single_m ? 1 : g->m < MOST ? g->m : MOST;
    part.n = single_n ? 1 : g->n < MOST ? g->n : MOST;
    part.k = single_k ? 1 : g->k < MOST ? g->k : MOST;
    /* the stride of a single row is unused */
    part.lda = fits(g->lda) ? g->lda : MOST;
    part.ldb = fits(g->ldb) ? g->ldb : MOST;
    part.ldc = fits(g->ldc) ? g->ldc : MOST;
    return part;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* beta C is added by the first part over k. */
static void multiply_parts(const weft_gemm *g, const char *a, const char *b, char *c)
{
    const weft_gemm most = weft_gemm_part(g);
    weft_gemm part = most;
    size_t size = weft_dtype_size(g->dtype);
    for (int64_t i = 0; i < g->m; i += most.m) {
        part.m = smaller(most.m, g->m - i);
        for (int64_t j = 0; j < g->n; j += most.n) {
            part.n = smaller(most.n, g->n - j);
            for (int64_t l = 0; l < g->k; l += most.k) {
                part.k = smaller(most.k, g->k - l);
                part.beta = l == 0 ? g->beta : 1;
                int64_t in_a = g->transpose_a ? l * g->lda + i : i * g->lda + l;
                int64_t in_b = g->transpose_b ? j * g->ldb + l : l * g->ldb + j;
                weft_multiply(&part, a + (size_t)in_a * size, b + (size_t)in_b * size,
                              c + (size_t)(i * g->ldc + j) * size);
            }
        }
    }
}

static bool all_fit(const weft_gemm *g)
{
    return fits(g->m) && fits(g->n) && fits(g->k) && fits(g->lda) && fits(g->ldb) && fits(g->ldc);
}

/* ---- any product --------------------------------------------------------------------------------------- */

void weft_multiply(const weft_gemm *g, const void *a, const void *b, void *c)
{
    bool is_complex = weft_dtype_is_complex(g->dtype);
    bool floating = g->dtype == WEFT_F64 || g->dtype == WEFT_F32 || is_complex;
    bool vectors = !is_complex && (g->m == 1 || g->n == 1);
    if (g->m == 0 || g->n == 0) {
        return;
    }
    if (floating && g->k > 0 && !all_fit(g)) {
        multiply_parts(g, a, b, c);
        return;
    }
    if (floating && g->k > 0 && !vectors) {
        if (is_complex || !weft_onednn_multiply(g, (weft_product_types){ g->dtype, g->dtype }, a, b, c)) {
            multiply_matrices(g, a, b, c);
        }
        return;
    }
    scale_rows(g, c);
    if (g->k == 0) {
        return;
    }
    weft_gemm onto = *g;
    onto.beta = 1;
    switch (g->dtype) {
    case WEFT_F64:
    case WEFT_F32:
        multiply_as_vector(&onto, a, b, c);
        break;
    case WEFT_I64:
    case WEFT_U64:
        multiply_uint64_t(g, a, b, c);
        break;
    case WEFT_I32:
    case WEFT_U32:
        multiply_uint32_t(g, a, b, c);
        break;
    case WEFT_I16:
    case WEFT_U16:
        multiply_uint16_t(g, a, b, c);
        break;
    default:
        multiply_uint8_t(g, a, b, c);
        break;
    }
}

/* ---- 16 bits ------------------------------------------------------------------------------------------- */

/* Block of B for conversion: 512 KB, which stay in the cache. */
enum { BLOCK_DEPTH = 256, BLOCK_WIDTH = 512 };

static void convert_rows(float *target, weft_dtype type, const void *source, int64_t stride, int64_t rows,
                         int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        weft_load(WEFT_F32, target + i * columns, type,
                  (const char *)source + (size_t)(i * stride) * weft_dtype_size(type), 1, columns);
    }
}

/* Rows l .. l + k - 1 and columns j .. j + n - 1 of B, as stored. */
static void convert_block(const weft_gemm *g, float *target, weft_dtype type, const void *b, int64_t l,
                          int64_t k, int64_t j, int64_t n)
{
    int64_t first = g->transpose_b ? j * g->ldb + l : l * g->ldb + j;
    convert_rows(target, type, (const char *)b + (size_t)first * weft_dtype_size(type), g->ldb,
                 g->transpose_b ? n : k, g->transpose_b ? k : n);
}

/* A is converted as a whole: it is the smaller one, a panel of rows. */
static void multiply_blocks(const weft_gemm *g, weft_dtype type, const float *a, const void *b, float *block,
                            float *c)
{
    for (int64_t j = 0, n; j < g->n; j += n) {
        n = g->n - j < BLOCK_WIDTH ? g->n - j : BLOCK_WIDTH;
        for (int64_t l = 0, k; l < g->k; l += k) {
            k = g->k - l < BLOCK_DEPTH ? g->k - l : BLOCK_DEPTH;
            weft_gemm part = *g;
            part.n = n;
            part.k = k;
            part.lda = g->transpose_a ? g->m : g->k;
            part.ldb = g->transpose_b ? k : n;
            part.beta = l == 0 ? g->beta : 1;
            convert_block(g, block, type, b, l, k, j, n);
            weft_multiply(&part, a + (g->transpose_a ? l * g->m : l), block, c + j);
        }
    }
}

static void set_to_zero(const weft_gemm *g, void *c)
{
    weft_gemm nothing = *g;
    nothing.k = 0;
    nothing.beta = 0;
    weft_multiply(&nothing, NULL, NULL, c);
}

bool weft_multiply_from(const weft_gemm *g, weft_dtype input_type, const void *a, const void *b, void *c)
{
    if (input_type == g->dtype || g->k == 0 || g->m == 0 || g->n == 0) {
        weft_multiply(g, a, b, c);
        return true;
    }
    if (weft_onednn_multiply(g, (weft_product_types){ input_type, g->dtype }, a, b, c)) {
        return true;
    }
    size_t count = (size_t)(g->m * g->k);
    int64_t width = g->n < BLOCK_WIDTH ? g->n : BLOCK_WIDTH, depth = g->k < BLOCK_DEPTH ? g->k : BLOCK_DEPTH;
    float *scratch = malloc((count + (size_t)(width * depth)) * sizeof(*scratch));
    if (scratch == NULL) {
        set_to_zero(g, c);
        return false;
    }
    convert_rows(scratch, input_type, a, g->lda, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k);
    multiply_blocks(g, input_type, scratch, b, scratch + count, c);
    free(scratch);
    return true;
}

/* ---- the task of one block ----------------------------------------------------------------------------- */

/* C = beta X */
static void start_from_addend(const weft_gemm_args *args, const weft_gemm *g, const void *addend, void *c)
{
    bool floating = g->dtype == WEFT_F64 || g->dtype == WEFT_F32 || weft_dtype_is_complex(g->dtype);
    size_t size = weft_dtype_size(g->dtype), addend_size = weft_dtype_size(args->input_type);
    for (int64_t i = 0; i < g->m; i++) {
        char *row = (char *)c + (size_t)(i * g->ldc) * size;
        const char *from = (const char *)addend + (size_t)(i * args->addend_row_stride) * addend_size;
        if (floating) {
            weft_load(g->dtype, row, args->input_type, from, args->addend_column_stride, g->n);
        } else {
            for (int64_t j = 0; j < g->n; j++) {
                memcpy(row + (size_t)j * size, from + (size_t)(j * args->addend_column_stride) * size, size);
            }
        }
        if (g->beta != 1) {
            scale_row(g->dtype, row, g->beta, g->n);
        }
    }
}

/* C = alpha A B + beta X; addend NULL: + beta C. False: no memory, and C is set to zero. */
static bool multiply_block(const weft_gemm_args *args, const weft_gemm *g, const void *a, const void *b, const void *addend, void *c)
{
    weft_gemm own = *g;
    if (addend != NULL) {
        start_from_addend(args, g, addend, c);
        own.beta = 1;
    }
    if (args->packed_rows == 0) {
        return weft_multiply_from(&own, args->input_type, a, b, c);
    }
    const weft_product_types types = { args->input_type, g->dtype };
    bool done = weft_onednn_multiply_packed(&own, types, args->packed_rows, a, b, c);
    if (!done) {
        set_to_zero(&own, c);
    }
    return done;
}

/* C of the product, in f32, to rows of a type of 16 bits that are `stride` elements apart. */
static void round_rows(const weft_gemm *g, const float *c, weft_dtype type, void *rounded, int64_t stride)
{
    for (int64_t i = 0; i < g->m; i++) {
        weft_store(type, (char *)rounded + (size_t)(i * stride) * weft_dtype_size(type), 1, WEFT_F32, c + i * g->ldc, g->n);
    }
}

/* multiply_block() for a C of 16 bits. */
static bool multiply_rounded(const weft_gemm_args *args, const weft_gemm *g, const void *a, const void *b, const void *addend, void *c)
{
    const weft_product_types types = { args->input_type, args->base.dtype };
    if (addend == NULL && g->k > 0 &&
        (args->packed_rows > 0 ? weft_onednn_multiply_packed(g, types, args->packed_rows, a, b, c)
                               : weft_onednn_multiply(g, types, a, b, c))) {
        return true;
    }
    weft_gemm own = *g;
    own.ldc = g->n;
    float *sums = malloc((size_t)(g->m * g->n) * sizeof *sums + 1);
    bool done = sums != NULL && multiply_block(args, &own, a, b, addend, sums);
    if (done) {
        round_rows(&own, sums, types.output, c, g->ldc);
    }
    for (int64_t i = 0; i < g->m && !done; i++) {
        memset((char *)c + 2 * (size_t)(i * g->ldc), 0, 2 * (size_t)g->n);
    }
    free(sums);
    return done;
}

void weft_cpu_matmul(const weft_task_run *run)
{
    const weft_gemm_args *args = run->arguments;
    weft_gemm gemm = args->gemm;
    if (args->scaled) {
        gemm.alpha = run->scalars[WEFT_GEMM_ALPHA];
        gemm.beta = args->adds ? run->scalars[WEFT_GEMM_BETA] : gemm.beta;
    }
    const void *a = gemm.k == 0 ? NULL : run->operands[1];
    const void *b = gemm.k == 0 ? NULL : run->operands[2];
    const void *addend = args->adds && gemm.beta != 0 ? run->operands[run->num_operands - 1 - args->rounds] : NULL;
    bool into_c = args->base.dtype != gemm.dtype;
    if (!(into_c ? multiply_rounded : multiply_block)(args, &gemm, a, b, addend, run->operands[0])) {
        weft_problem_memory(run->error, WEFT_PROBLEM_BLOCK_OF_PRODUCT, 0);
    }
    if (args->rounds) {
        round_rows(&gemm, run->operands[0], args->input_type, run->operands[run->num_operands - 1], gemm.n);
    }
}

void weft_cpu_pack(const weft_task_run *run)
{
    const weft_pack_args *args = run->arguments;
    if (!weft_onednn_pack(&args->gemm, args->base.dtype, args->first, args->count, run->operands[1], run->operands[0])) {
        weft_problem_memory(run->error, WEFT_PROBLEM_BLOCK_OF_PRODUCT, 0);
    }
}

/* ---- many products: a kernel on views ------------------------------------------------------------------ */

/* A side, and a copy of its matrix if that is in several panels. */
typedef struct side {
    weft_product_side side;
    void *memory;
} side;

/* Concatenates the panels of an input without further dimensions. False: no memory. */
static bool gather(side *s)
{
    const weft_view *view = s->side.view;
    int64_t together = 0, rows = weft_view_rows(view);
    if (s->side.batch_dims > 0 || rows == 0 || (weft_view_row(view, 0, &together) != NULL && together >= rows)) {
        return true;
    }
    size_t row_bytes = (size_t)view->row_elements * weft_dtype_size(view->dtype);
    s->memory = malloc((size_t)rows * row_bytes + 1);
    for (int64_t row = 0; s->memory != NULL && row < rows; row += together) {
        const void *from = weft_view_row(view, row, &together);
        memcpy((char *)s->memory + (size_t)row * row_bytes, from, (size_t)together * row_bytes);
    }
    return s->memory != NULL;
}

/* The matrix for an index (global) of the output's batch. */
static const void *matrix_at(const side *s, const weft_view *output, int output_batch_dims,
                             const int64_t index[])
{
    const weft_product_side *own = &s->side;
    if (s->memory != NULL) {
        return s->memory;
    }
    if (own->rows == 0 || own->columns == 0) {
        return NULL;
    }
    int64_t row, number;
    weft_product_place(own, output, output_batch_dims, index, &row, &number);
    return (const char *)weft_view_row(own->view, row, NULL) +
           (size_t)(number * own->rows * own->columns) * weft_dtype_size(own->view->dtype);
}

/* All products of one row of the output. False: no memory for one of them, which is set to zero. */
static bool multiply_row(const weft_gemm *g, const side *a, const side *b, const weft_view *output,
                         int batch_dims, int64_t row)
{
    size_t size = (size_t)(g->m * g->n) * weft_dtype_size(output->dtype);
    char *target = weft_view_row(output, row, NULL);
    int64_t count = output->row_elements / (g->m * g->n), index[WEFT_MAX_DIMS];
    bool done = true;
    for (int64_t i = 0; i < count; i++, target += size) {
        weft_product_index(output, batch_dims, row, i, index);
        done &= weft_multiply_from(g, a->side.view->dtype, matrix_at(a, output, batch_dims, index),
                                   matrix_at(b, output, batch_dims, index), target);
    }
    return done;
}

void weft_kernel_bmm(const weft_kernel_call *call)
{
    const weft_view *output = &call->output;
    side a = { weft_product_side_of(&call->inputs[0], true), NULL };
    side b = { weft_product_side_of(&call->inputs[1], false), NULL };
    weft_gemm g = weft_product_gemm(&a.side, &b.side, call->numbers[0], output->dtype);
    int batch_dims = output->ndim - (a.side.view->ndim > 1) - (b.side.view->ndim > 1);
    bool done = gather(&a) && gather(&b);
    if (!done) {
        g.k = 0;
    }
    for (int64_t row = 0; row < weft_view_rows(output); row++) { /* none where matrices have no elements */
        done &= multiply_row(&g, &a, &b, output, batch_dims, row);
    }
    if (!done) {
        weft_problem_memory(call->error, WEFT_PROBLEM_PRODUCT, 0);
    }
    free(a.memory);
    free(b.memory);
}
