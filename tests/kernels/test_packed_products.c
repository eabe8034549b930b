/* Which products pack their right side: as the explanation of a call counts its tasks, and as they are run. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onednn_support.h"
#include "printed.h"
#include "runtime/runtime.h"

typedef struct product {
    const char *name, *panel_rows;
    weft_dtype dtype;
    bool transpose_a, transpose_b, adds; /* adds: weft_linear() */
    int64_t m, n, k;
    int64_t packs, products; /* tasks of all ranks; packs 0: one each for the panels of B where that is not packed */
} product;

enum { RANKS = 2 };

static int64_t rows_of(const product *p, bool of_b)
{
    return of_b ? (p->transpose_b ? p->n : p->k) : p->transpose_a ? p->k : p->m;
}

static int64_t columns_of(const product *p, bool of_b)
{
    return of_b ? (p->transpose_b ? p->k : p->n) : p->transpose_a ? p->m : p->k;
}

/* Whole numbers of -4 to 4: of sums in any order no digit is lost. */
static double value(int64_t row, int64_t column)
{
    return (double)((row * 7 + column * 5 + row * column) % 9 - 4);
}

static weft_tensor *make_matrix(const product *p, weft_mesh *mesh, bool of_b)
{
    int64_t shape[2] = { rows_of(p, of_b), columns_of(p, of_b) };
    float *values = malloc((size_t)(shape[0] * shape[1]) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        values[i] = (float)value(i / shape[1], i % shape[1]);
    }
    const weft_placement rows = weft_shard(0), whole = weft_replicate();
    weft_tensor *made = weft_distribute(WEFT_F32, 2, shape, values, mesh, of_b || p->transpose_a ? &whole : &rows);
    weft_tensor *typed = p->dtype == WEFT_F32 ? made : weft_to_type(made, p->dtype);
    assert_non_null(typed);
    free(values);
    return typed;
}

static double factor(const product *p, bool of_b, int64_t i, int64_t j)
{
    bool transposed = of_b ? p->transpose_b : p->transpose_a;
    return value(transposed ? j : i, transposed ? i : j);
}

static void assert_result(const product *p, weft_tensor *result)
{
    size_t bytes = (size_t)(p->m * p->n) * sizeof(double);
    double *got = malloc(bytes);
    assert_non_null(got);
    assert_int_equal(weft_to_host(weft_to_type(result, WEFT_F64), got, bytes), WEFT_OK);
    double precision = p->dtype == WEFT_BF16 ? 0x1p-8 : p->dtype == WEFT_F16 ? 0x1p-11 : 0;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->adds;
            for (int64_t k = 0; k < p->k; k++) {
                sum += factor(p, false, i, k) * factor(p, true, k, j);
            }
            if (!(fabs(got[i * p->n + j] - sum) <= precision * fabs(sum))) {
                fail_msg("%s: [%lld, %lld] is %g, expected %g", p->name, (long long)i, (long long)j, got[i * p->n + j], sum);
            }
        }
    }
    free(got);
}

/* Tasks of a kernel in an explanation: the sum of the numbers in front of its name. */
static int64_t tasks_of(const char *text, const char *kernel)
{
    int64_t all = 0;
    size_t length = strlen(kernel);
    for (const char *line = text; (line = strstr(line, "tasks of this process: ")) != NULL; line++) {
        for (const char *at = strchr(line, '('); at != NULL && *at != ')';) {
            char *name;
            int64_t count = strtoll(at + 1, &name, 10);
            size_t own = strcspn(name + 1, ",)");
            all += own == length && strncmp(name + 1, kernel, own) == 0 ? count : 0;
            at = name + 1 + own + (name[1 + own] == ',');
        }
    }
    return all;
}

/* `packs`: whether it must. */
static void check_product(const product *p, bool packs)
{
    static char text[1 << 16];
    start_with_panels(RANKS, p->panel_rows);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *a = make_matrix(p, mesh, false), *b = make_matrix(p, mesh, true);
    weft_tensor *bias = p->adds ? weft_ones(p->dtype, 1, (int64_t[]){ p->n }, mesh, NULL) : NULL;
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    weft_tensor *result = p->adds ? weft_linear(a, b, bias) : weft_matmul_ex(a, p->transpose_a, b, p->transpose_b);
    assert_int_equal(weft_explain_end(), WEFT_OK);
    assert_no_error();
    assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
    PRINT_INTO(text, weft_explain(file));
    int64_t num_packs = tasks_of(text, "pack"), products = tasks_of(text, "matmul");
    bool one = weft_num_processes() == 1;
    if (num_packs != (packs && one ? p->packs : 0) || (one && packs && products != p->products) || products == 0) {
        fail_msg("%s: %lld packs and %lld products, expected %lld and %lld, in: %s", p->name, (long long)num_packs,
                 (long long)products, (long long)(packs ? p->packs : 0), (long long)p->products, text);
    }
    if (one && packs && p->dtype == WEFT_F32) { /* they are run */
        assert_int_equal(after.tasks - before.tasks, num_packs + products);
    }
    assert_result(p, result);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
}

/* Each rank has panels of 64 rows of A and of the result. */
static const product packed[] = {
    { "B has one panel", "64", WEFT_F32, .m = 384, .n = 320, .k = 64, .packs = 2, .products = 6 },
    { "B has panels along k", "64", WEFT_F32, .m = 256, .n = 160, .k = 192, .packs = 6, .products = 4 },
    { "B has a low panel along k", "64", WEFT_F32, .m = 256, .n = 160, .k = 160, .packs = 6, .products = 4 },
    { "B has panels along n", "64", WEFT_F32, .transpose_b = true, .m = 256, .n = 128, .k = 320, .packs = 4, .products = 8 },
    { "linear", "64", WEFT_F32, .transpose_b = true, .adds = true, .m = 256, .n = 64, .k = 320, .packs = 2, .products = 4 },
    { "panels of 40 rows", "40", WEFT_F32, .transpose_b = true, .m = 160, .n = 80, .k = 800, .packs = 4, .products = 8 },
    { "the lowest panels", "32", WEFT_F32, .transpose_b = true, .m = 128, .n = 32, .k = 1280, .packs = 2, .products = 4 },
    { "bf16", "64", WEFT_BF16, .m = 256, .n = 160, .k = 192, .packs = 6, .products = 4 },
};

static const product not_packed[] = {
    { "the result has one panel", "256", WEFT_F32, .m = 256, .n = 160, .k = 192 },
    { "low panels", "31", WEFT_F32, .transpose_b = true, .m = 124, .n = 62, .k = 1280 },
    { "parts between those of a pack", "40", WEFT_F32, .m = 160, .n = 160, .k = 200 },
    { "transposed A", "64", WEFT_F32, .transpose_a = true, .m = 256, .n = 160, .k = 192 },
    { "the bias has panels along n", "64", WEFT_F32, .transpose_b = true, .adds = true, .m = 256, .n = 128, .k = 320 },
    { "a small product", "64", WEFT_F32, .m = 256, .n = 20, .k = 64 },
    { "f64", "64", WEFT_F64, .m = 256, .n = 160, .k = 192 },
    { "f16", "64", WEFT_F16, .m = 256, .n = 160, .k = 192 },
};

/* Whether right sides of a type may be packed here; else says why not. */
static bool may_pack(weft_dtype dtype)
{
    start_with_panels(RANKS, NULL);
    bool on_devices = weft_runtime.cuda_queues != NULL;
    assert_int_equal(weft_finalize(), WEFT_OK);
    const char *why = on_devices                          ? "the devices have an order of their own"
                      : !onednn_has_instructions(dtype) ? "the build is without oneDNN, or the processor without its instructions"
                      : onednn_is_limited()             ? "oneDNN is kept from its instructions, or has threads of its own"
                                                        : NULL;
    if (why != NULL) {
        print_message("# %s is not packed: %s\n", weft_dtype_name(dtype), why);
    }
    return why == NULL;
}

static void check_packed(weft_dtype dtype)
{
    bool packs = may_pack(dtype), certain = packs || !onednn_has_instructions(dtype);
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]) && certain; i++) {
        if (packed[i].dtype == dtype) {
            check_product(&packed[i], packs);
        }
    }
    if (!packs) {
        skip();
    }
}

static void test_packed(void **state)
{
    (void)state;
    check_packed(WEFT_F32);
}

static void test_packed_of_16_bits(void **state)
{
    (void)state;
    check_packed(WEFT_BF16);
}

static void test_not_packed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(not_packed) / sizeof(not_packed[0]); i++) {
        bool has_products = not_packed[i].dtype == WEFT_F16 && onednn_has_instructions(WEFT_F16) && !onednn_is_limited();
        check_product(&not_packed[i], has_products); /* oneDNN 3 has products of f16 for some processors */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_packed_of_16_bits),
        cmocka_unit_test(test_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
