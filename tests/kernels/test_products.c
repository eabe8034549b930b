/* Products by oneDNN: against sums in f64, and which products it is given. */
#include "kernel_support.h"

#include <math.h>

#include "codelets/convert.h"
#include "codelets/cpu/onednn.h"
#include "onednn_support.h"

enum { MOST = 160, SPACE = 3 };

/* A matrix in memory that is larger than its rows: the rest stays as it is. */
typedef struct matrix {
    weft_dtype dtype;
    int64_t rows, columns, stride;
    void *memory;
    double *values; /* of all of the memory */
} matrix;

static int64_t elements(const matrix *x)
{
    return x->rows * x->stride;
}

static matrix new_matrix(prng *random, weft_dtype dtype, int64_t rows, int64_t columns)
{
    matrix x = { dtype, rows, columns, columns + prng_below(random, SPACE), NULL, NULL };
    x.memory = malloc((size_t)elements(&x) * weft_dtype_size(dtype));
    x.values = malloc((size_t)elements(&x) * sizeof(double));
    assert_non_null(x.memory);
    assert_non_null(x.values);
    for (int64_t i = 0; i < elements(&x); i++) {
        float value = (float)number(random);
        weft_store(dtype, (char *)x.memory + (size_t)i * weft_dtype_size(dtype), 1, WEFT_F32, &value, 1);
        x.values[i] = read_as(dtype, x.memory, i);
    }
    return x;
}

static void free_matrix(matrix *x)
{
    free(x->memory);
    free(x->values);
}

static double at(const matrix *x, bool transposed, int64_t i, int64_t j)
{
    return x->values[transposed ? j * x->stride + i : i * x->stride + j];
}

static void assert_product(const weft_gemm *g, const matrix *a, const matrix *b, const matrix *c)
{
    const float *got = c->memory;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < c->stride; j++) {
            double expected = c->values[i * c->stride + j], size = fabs(expected);
            if (j < g->n) {
                double sum = 0;
                size *= fabs(g->beta);
                for (int64_t k = 0; k < g->k; k++) {
                    double product = at(a, g->transpose_a, i, k) * at(b, g->transpose_b, k, j);
                    sum += product;
                    size += fabs(g->alpha * product);
                }
                expected = g->alpha * sum + (g->beta == 0 ? 0 : g->beta * expected);
            }
            double bound = j < g->n ? 1e-6 * size : 0;
            assert_true(fabs(got[i * c->stride + j] - expected) <= bound);
        }
    }
}

static int64_t some_size(prng *random)
{
    return 2 + prng_below(random, MOST - 1);
}

static weft_product_types types_of(weft_dtype input, weft_dtype output)
{
    return (weft_product_types){ input, output };
}

/* Whether a result of 16 bits is the other one, rounded once: with the same bits. */
static void assert_rounded(const weft_gemm *g, weft_dtype dtype, const matrix *c, const matrix *rounded)
{
    uint16_t expected[MOST];
    for (int64_t i = 0; i < g->m; i++) {
        weft_store(dtype, expected, 1, WEFT_F32, (const float *)c->memory + i * c->stride, g->n);
        assert_memory_equal((const uint16_t *)rounded->memory + i * rounded->stride, expected, (size_t)g->n * sizeof *expected);
    }
}

/* Whether oneDNN computed it. */
static bool product_case(prng *random, weft_dtype dtype, double alpha, double beta)
{
    weft_gemm g = { .dtype = WEFT_F32,
                    .transpose_a = prng_below(random, 2),
                    .transpose_b = prng_below(random, 2),
                    .m = prng_below(random, 8) == 0 ? 1 : some_size(random),
                    .n = some_size(random),
                    .k = some_size(random),
                    .alpha = alpha,
                    .beta = beta };
    matrix a = g.transpose_a ? new_matrix(random, dtype, g.k, g.m) : new_matrix(random, dtype, g.m, g.k);
    matrix b = g.transpose_b ? new_matrix(random, dtype, g.n, g.k) : new_matrix(random, dtype, g.k, g.n);
    matrix c = new_matrix(random, WEFT_F32, g.m, g.n);
    g.lda = a.stride;
    g.ldb = b.stride;
    g.ldc = c.stride;
    size_t bytes = (size_t)elements(&c) * sizeof(float);
    void *first = malloc(bytes), *again = malloc(bytes);
    assert_non_null(first);
    assert_non_null(again);
    memcpy(first, c.memory, bytes);
    memcpy(again, c.memory, bytes);
    bool computed = weft_onednn_multiply(&g, types_of(dtype, WEFT_F32), a.memory, b.memory, first);
    if (!computed) {
        assert_memory_equal(first, again, bytes); /* C is as it was */
        assert_true(weft_multiply_from(&g, dtype, a.memory, b.memory, c.memory));
    } else {
        assert_true(weft_onednn_multiply(&g, types_of(dtype, WEFT_F32), a.memory, b.memory, again));
        assert_memory_equal(first, again, bytes);
        memcpy(c.memory, first, bytes);
        if (dtype == WEFT_BF16) {
            matrix rounded = new_matrix(random, dtype, g.m, g.n);
            weft_gemm own = g;
            own.ldc = rounded.stride;
            assert_int_equal(weft_onednn_multiply(&own, types_of(dtype, dtype), a.memory, b.memory, rounded.memory), beta == 0);
            if (beta == 0) {
                assert_rounded(&g, dtype, &c, &rounded);
            }
            free_matrix(&rounded);
        }
    }
    assert_product(&g, &a, &b, &c);
    free(first);
    free(again);
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
    return computed;
}

/* The same with a packed B; parts: as B's panels are packed, each into its place. Whether oneDNN packs it. */
static bool packed_case(prng *random, weft_dtype dtype, double alpha, double beta)
{
    weft_gemm g = { .dtype = WEFT_F32,
                    .transpose_b = prng_below(random, 2),
                    .m = 1 + prng_below(random, 90),
                    .n = some_size(random),
                    .k = 60 + some_size(random),
                    .alpha = alpha,
                    .beta = beta };
    matrix a = new_matrix(random, dtype, g.m, g.k);
    matrix b = g.transpose_b ? new_matrix(random, dtype, g.n, g.k) : new_matrix(random, dtype, g.k, g.n);
    matrix c = new_matrix(random, WEFT_F32, g.m, g.n);
    g.lda = a.stride;
    g.ldb = b.stride;
    g.ldc = c.stride;
    weft_gemm order = g;
    order.m = 100 + prng_below(random, 100); /* panels of other heights are multiplied by the same B */
    int64_t bytes = weft_packed_bytes(&order, dtype), rows = b.rows;
    if (bytes > 0) {
        void *packed = malloc((size_t)bytes);
        assert_non_null(packed);
        assert_true(bytes >= g.n * g.k * (int64_t)weft_dtype_size(dtype));
        int64_t most = g.transpose_b || prng_below(random, 2) ? rows : WEFT_PACKED_ROWS;
        for (int64_t first = 0; first < rows; first += most) {
            const char *from = (const char *)b.memory + (size_t)(first * b.stride) * weft_dtype_size(dtype);
            assert_true(weft_onednn_pack(&order, dtype, first, first + most < rows ? most : rows - first, from, packed));
        }
        assert_true(weft_onednn_multiply_packed(&g, types_of(dtype, WEFT_F32), order.m, a.memory, packed, c.memory));
        assert_product(&g, &a, &b, &c);
        if (dtype == WEFT_BF16) {
            matrix rounded = new_matrix(random, dtype, g.m, g.n);
            weft_gemm own = g;
            own.ldc = rounded.stride;
            bool done = weft_onednn_multiply_packed(&own, types_of(dtype, dtype), order.m, a.memory, packed, rounded.memory);
            assert_true(!done || beta == 0);
            if (done) {
                assert_rounded(&g, dtype, &c, &rounded);
            }
            free_matrix(&rounded);
        }
        free(packed);
    }
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
    return bytes > 0;
}

static const double alphas[] = { 1, 1, 0.125, -1.5 }, betas[] = { 0, 1, 0.5 };

/* Whether oneDNN is given large products of a type. */
static bool is_given(weft_dtype dtype)
{
    enum { SIZE = 128 };
    static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
    const weft_gemm g = { .dtype = WEFT_F32, .m = SIZE, .n = SIZE, .k = SIZE, .lda = SIZE, .ldb = SIZE, .ldc = SIZE, .alpha = 1 };
    return weft_onednn_multiply(&g, types_of(dtype, WEFT_F32), a, b, c);
}

/* Where oneDNN is, they are its if the processor has instructions for the type, and is not kept from them. */
static void assert_given(weft_dtype dtype)
{
    assert_true(onednn_is_limited() || is_given(dtype) == onednn_has_instructions(dtype));
}

static void test_products(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16 };
    prng random = prng_start(31);
    for (int d = 0; d < 3; d++) {
        int computed = 0;
        for (int i = 0; i < 60; i++) {
            computed += product_case(&random, dtypes[d], alphas[i % 4], betas[i % 3]);
        }
        assert_given(dtypes[d]);
        assert_int_equal(computed > 0, is_given(dtypes[d]));
        assert_true(computed < 60); /* small ones are BLAS' */
    }
}

static void test_packed(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = { WEFT_F32, WEFT_BF16, WEFT_F16 };
    prng random = prng_start(47);
    for (int d = 0; d < 3; d++) {
        int packed = 0;
        for (int i = 0; i < 60; i++) {
            packed += packed_case(&random, dtypes[d], alphas[i % 4], betas[i % 3]);
        }
        assert_int_equal(packed > 0, is_given(dtypes[d]));
    }
}

/* A packed B whose products can be rounded by oneDNN, with the bits of a product that is rounded afterwards. */
static void test_rounded(void **state)
{
    (void)state;
    enum { ROWS = 96, COLUMNS = 128, DEPTH = 1536 };
    prng random = prng_start(53);
    const weft_gemm g = { .dtype = WEFT_F32, .m = ROWS, .n = COLUMNS, .k = DEPTH, .lda = DEPTH, .ldb = COLUMNS, .ldc = COLUMNS, .alpha = 1 };
    int64_t bytes = weft_packed_bytes(&g, WEFT_BF16);
    uint16_t *a = malloc(sizeof *a * ROWS * DEPTH), *b = malloc(sizeof *b * DEPTH * COLUMNS);
    uint16_t rounded[ROWS * COLUMNS], expected[ROWS * COLUMNS];
    float sums[ROWS * COLUMNS];
    void *packed = malloc((size_t)bytes + 1);
    assert_true(a != NULL && b != NULL && packed != NULL);
    for (int i = 0; i < DEPTH * COLUMNS; i++) {
        float values[] = { (float)number(&random), (float)number(&random) };
        weft_store(WEFT_BF16, &b[i], 1, WEFT_F32, &values[0], 1);
        weft_store(WEFT_BF16, &a[i % (ROWS * DEPTH)], 1, WEFT_F32, &values[1], 1);
    }
    assert_int_equal(bytes > 0, is_given(WEFT_BF16));
    if (bytes > 0) {
        assert_true(weft_onednn_pack(&g, WEFT_BF16, 0, DEPTH, b, packed));
        assert_true(weft_onednn_multiply_packed(&g, types_of(WEFT_BF16, WEFT_F32), ROWS, a, packed, sums));
        assert_true(weft_onednn_multiply_packed(&g, types_of(WEFT_BF16, WEFT_BF16), ROWS, a, packed, rounded));
        weft_store(WEFT_BF16, expected, 1, WEFT_F32, sums, ROWS * COLUMNS);
        assert_memory_equal(rounded, expected, sizeof expected);
    }
    free(packed);
    free(a);
    free(b);
}

/* C is not read with beta 0, and what is not a number stays in its row. */
static void test_special_values(void **state)
{
    (void)state;
    enum { SIZE = 128 };
    static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = b[i] = 1;
        c[i] = NAN;
    }
    a[5 * SIZE + 3] = NAN;
    a[7 * SIZE + 100] = INFINITY;
    weft_gemm g = { .dtype = WEFT_F32, .m = SIZE, .n = SIZE, .k = SIZE, .lda = SIZE, .ldb = SIZE, .ldc = SIZE, .alpha = 1 };
    weft_multiply(&g, a, b, c);
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            float got = c[i * SIZE + j];
            assert_true(i == 5 ? isnan(got) : i == 7 ? isinf(got) : got == SIZE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_rounded),
        cmocka_unit_test(test_special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
