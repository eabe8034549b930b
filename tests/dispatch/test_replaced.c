/* A built-in rule or kernel can be replaced by name, and put back. */
#include "operand.h"
#include "view_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* Never called: it is refused. */
static int on_device(const weft_kernel_call *call, void *stream)
{
    return call == NULL || stream == NULL;
}

/* "...->...": -2 a. */
static void minus_two(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        const void *from = weft_view_row(in, row, NULL);
        void *to = weft_view_row(out, row, NULL);
        for (int64_t i = 0; i < (out->ndim == 0 ? 1 : out->row_elements); i++) {
            set(out, to, i, -2 * get(in, from, i));
        }
    }
}

static void minus_three(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    minus_two(call);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        const void *from = weft_view_row(in, row, NULL);
        void *to = weft_view_row(out, row, NULL);
        for (int64_t i = 0; i < (out->ndim == 0 ? 1 : out->row_elements); i++) {
            set(out, to, i, get(out, to, i) - get(in, from, i));
        }
    }
}

/* A product that is twice as large; numbers[0]: bit 0: a is transposed, bit 1: b is (codelets/linear.h). */
static void twice_the_product(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->output;
    bool of_a = call->numbers[0] & 1, of_b = call->numbers[0] & 2;
    int64_t first = of_a ? a->offset[0] : a->offset[1], last = first + (of_a ? a->extent[0] : a->extent[1]);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *to = weft_view_row(out, row, NULL);
        int64_t m = out->offset[0] + row;
        for (int64_t j = 0; j < out->extent[1]; j++) {
            int64_t n = out->offset[1] + j;
            double sum = 0;
            for (int64_t k = first; k < last; k++) {
                double x = of_a ? row_value(a, k - a->offset[0], m - a->offset[1])
                                : row_value(a, m - a->offset[0], k - a->offset[1]);
                double y = of_b ? row_value(b, n - b->offset[0], k - b->offset[1])
                                : row_value(b, k - b->offset[0], n - b->offset[1]);
                sum += x * y;
            }
            set(out, to, j, 2 * sum);
        }
    }
}

/* "x~->x": the neighbours' sum. */
static void neighbours(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t i = out->offset[0] + row;
        double sum = i > 0 ? row_value(in, i - 1 - in->offset[0], 0) : 0;
        sum += i + 1 < in->shape[0] ? row_value(in, i + 1 - in->offset[0], 0) : 0;
        set(out, weft_view_row(out, row, NULL), 0, sum);
    }
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void replace(weft_operation_description description)
{
    if (weft_operation_replace(&description) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
}

static void restore(const char *name)
{
    assert_int_equal(weft_operation_restore(name), WEFT_OK);
}

static void expect_scaled(weft_tensor *result, operand *a, double factor)
{
    double *expected = malloc(((size_t)a->count + 1) * sizeof(double));
    for (int64_t i = 0; i < a->count; i++) {
        expected[i] = factor == 0 ? exp(a->dense[i]) : factor * a->dense[i];
    }
    check(result, a->dtype, a->ndim, a->shape, expected, 64, 200, describe_operand(a));
    free(expected);
}

/* An elementwise kernel: replaced, replaced again, put back. */
static void case_elementwise(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    operand a = make_operand(any_mesh(), any_float(), ndim, shape, WHOLE, 0);
    weft_tensor *before = weft_exp(a.tensor);
    replace((weft_operation_description){ .name = "exp", .kernel = minus_two });
    expect_scaled(weft_exp(a.tensor), &a, -2);
    expect_scaled(weft_exp(a.tensor), &a, -2);
    replace((weft_operation_description){ .name = "exp", .kernel = minus_three });
    expect_scaled(weft_exp(a.tensor), &a, -3);
    restore("exp");
    check_repeats(before, weft_exp(a.tensor));
    expect_scaled(before, &a, 0);
    release(&a);
}

static void case_matmul(void)
{
    const int64_t m = any_size(), k = any_size(), n = any_size();
    bool of_a = below(2), of_b = below(2);
    const int64_t of[][2] = { { of_a ? k : m, of_a ? m : k }, { of_b ? n : k, of_b ? k : n }, { m, n } };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    operand a = make_operand(mesh, type, 2, of[0], WHOLE, 0),
            b = make_operand(mesh, type, 2, of[1], WHOLE, 0);
    double *expected = calloc((size_t)(m * n) + 1, sizeof(double));
    for (int64_t i = 0; i < m * n; i++) {
        for (int64_t c = 0; c < k; c++) {
            expected[i] += 2 * a.dense[of_a ? c * m + i / n : i / n * k + c] *
                           b.dense[of_b ? i % n * k + c : c * n + i % n];
        }
    }
    weft_tensor *before = weft_matmul_ex(a.tensor, of_a, b.tensor, of_b);
    replace((weft_operation_description){ .name = "matmul", .kernel = twice_the_product });
    check(weft_matmul_ex(a.tensor, of_a, b.tensor, of_b), type, 2, of[2], expected,
          a.exact && b.exact ? 0 : 64, 2000, describe_operand(&a));
    restore("matmul");
    check_repeats(before, weft_matmul_ex(a.tensor, of_a, b.tensor, of_b));
    free(expected);
    release(&a);
    release(&b);
}

/* A kernel with a rule of its own, which has a halo. */
static void case_halo(void)
{
    int64_t size = any_size();
    operand a = make_operand(any_mesh(), any_float(), 1, &size, WHOLE, 0);
    double *expected = calloc((size_t)size + 1, sizeof(double));
    for (int64_t i = 0; i < size; i++) {
        expected[i] = (i > 0 ? a.dense[i - 1] : 0) + (i + 1 < size ? a.dense[i + 1] : 0);
    }
    weft_tensor *before = weft_tanh(a.tensor);
    replace((weft_operation_description){ .name = "tanh",
                                          .rule = "x~->x",
                                          .halos = { { .letter = 'x', .before = 1, .after = 1 } },
                                          .kernel = neighbours });
    check(weft_tanh(a.tensor), a.dtype, 1, &size, expected, a.exact ? 0 : 32, 30, describe_operand(&a));
    restore("tanh");
    check_repeats(before, weft_tanh(a.tensor));
    free(expected);
    release(&a);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

static weft_mesh *line(int64_t ranks)
{
    return weft_mesh_create(1, &ranks, NULL);
}

static void expect_all(weft_tensor *tensor, double value)
{
    double values[64];
    assert_no_error();
    assert_non_null(tensor);
    weft_tensor *wide = weft_to_type(tensor, WEFT_F64);
    assert_int_equal(weft_to_host(wide, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        if (fabs(values[i] - value) > 1e-5) {
            fail_msg("%g at %d, expected %g", values[i], (int)i, value);
        }
    }
}

/* Calls that are made of others, and kept, take the new part from the next call on, and the old one again. */
static void test_parts_of_composites(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    const weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 2 }, line(4), &rows);
    for (int i = 0; i < 3; i++) {
        expect_all(weft_log_softmax(a, 0), -log(8));
    }
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    expect_all(weft_log_softmax(a, 0), -log(8));
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.expansion_misses, before.expansion_misses);
    replace((weft_operation_description){ .name = "log_softmax_step", .kernel = minus_two });
    expect_all(weft_log_softmax(a, 0), -2);
    restore("log_softmax_step");
    expect_all(weft_log_softmax(a, 0), -log(8));
    /* The whole: it is not made of others any more. */
    replace((weft_operation_description){ .name = "log_softmax", .kernel = minus_three });
    expect_all(weft_log_softmax(a, 0), -3);
    expect_all(weft_softmax(a, 0), 0.125);
    restore("log_softmax");
    expect_all(weft_log_softmax(a, 0), -log(8));
    /* Its rule alone: the same parts. */
    replace((weft_operation_description){ .name = "log_softmax", .rule = "[n]c->[n]c" });
    expect_all(weft_log_softmax(a, 0), -log(8));
    replace((weft_operation_description){ .name = "softmax", .rule = "[n]c->[n]c" });
    expect_all(weft_softmax(a, 0), 0.125);
    restore("softmax");
    restore("log_softmax");
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A rule alone: the same kernel, in other layouts. */
static void test_rule(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    const weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *a = weft_zeros(WEFT_F32, 2, (int64_t[]){ 8, 8 }, line(4), &rows);
    weft_counters before, between, after;
    weft_get_counters(&before, sizeof(before));
    assert_memory_equal(weft_tensor_placements(weft_exp(a)), &rows, sizeof(rows));
    weft_get_counters(&between, sizeof(between));
    assert_int_equal(before.stages, between.stages);
    replace((weft_operation_description){ .name = "exp", .rule = "[r]c->[r]c" });
    weft_tensor *result = weft_exp(a);
    weft_get_counters(&after, sizeof(after));
    assert_memory_equal(weft_tensor_placements(result), &columns, sizeof(columns));
    assert_int_equal(after.stages, between.stages + 1);
    expect_all(result, 1);
    assert_null(weft_exp(weft_zeros(WEFT_F32, 1, (int64_t[]){ 8 }, NULL, NULL)));
    weft_clear_error();
    restore("exp");
    assert_memory_equal(weft_tensor_placements(weft_exp(a)), &rows, sizeof(rows));
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Calls are kept for the operation in use: hits after the first one. */
static void test_caches(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    const weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 2 }, line(4), &rows);
    replace((weft_operation_description){ .name = "exp", .kernel = minus_two });
    expect_all(weft_exp(a), -2);
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *result = weft_exp(a);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.dispatch_misses, before.dispatch_misses);
    assert_int_equal(after.dispatch_hits, before.dispatch_hits + 1);
    expect_all(result, -2);
    /* The next world has the library's own. */
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_world(NULL, NULL);
    weft_scope_begin();
    expect_all(weft_exp(weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 2 }, line(4), &rows)), exp(1));
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void assert_refused(weft_operation_description description, const char *words)
{
    assert_int_equal(weft_operation_replace(&description), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, words);
}

static void test_arguments(void **state)
{
    (void)state;
    assert_int_equal(weft_operation_restore("exp"), WEFT_ERR_STATE);
    weft_clear_error();
    start_world(NULL, NULL);
    assert_int_equal(weft_operation_replace(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "description is NULL");
    assert_refused((weft_operation_description){ .kernel = minus_two }, "name is NULL");
    assert_refused((weft_operation_description){ .name = "expo", .kernel = minus_two },
                   "\"expo\", and weft has no such");
    assert_refused((weft_operation_description){ .name = "exp" }, "rule and kernel are both NULL");
    assert_refused((weft_operation_description){ .name = "exp", .rule = "a,,b" }, "weft_operation_replace");
    assert_refused((weft_operation_description){ .name = "exp", .rule = "a,a->a" },
                   "2 inputs and 1 outputs, and exp");
    assert_refused((weft_operation_description){ .name = "exp", .rule = "a->a,a" },
                   "1 inputs and 2 outputs, and exp");
    assert_refused((weft_operation_description){ .name = "exp", .rule = "a~->a" }, "halos has 0 entries");
    assert_refused(
        (weft_operation_description){ .name = "exp", .kernel = minus_two, .halos = { { .letter = 'a' } } },
        "halos are given, and no rule");
    assert_refused((weft_operation_description){ .name = "exp", .rule = "a->a", .size = sizeof(weft_operation_description),
                                                 .cuda = on_device },
                   "cuda is given, and no kernel");
    assert_refused((weft_operation_description){ .name = "add_scaled_inplace", .rule = "a,b->b" }, "");
    assert_refused((weft_operation_description){ .name = "exp", .kernel = minus_two, .gradient_reads = 1 },
                   "gradient is given");
    /* Other dimensions than those of the kernel that stays: found when a call has some. */
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 64 }, line(1), NULL);
    replace((weft_operation_description){ .name = "relu", .rule = "ab->ba" });
    assert_null(weft_relu(a));
    assert_error(WEFT_ERR_INVALID, "other dimensions");
    restore("relu");
    replace((weft_operation_description){ .name = "matmul", .rule = "mk,kn->mn" });
    assert_non_null(weft_matmul(a, a));
    assert_null(weft_linear(a, a, NULL));
    assert_error(WEFT_ERR_INVALID, "other dimensions");
    assert_null(weft_matmul_ex(a, true, a, false));
    assert_error(WEFT_ERR_INVALID, "other dimensions");
    weft_tensor *half = weft_to_type(a, WEFT_BF16);
    assert_non_null(weft_matmul(half, half));
    assert_null(weft_linear(half, half, NULL));
    assert_error(WEFT_ERR_INVALID, "other dimensions");
    restore("matmul");
    assert_non_null(weft_linear(half, half, NULL));
    assert_int_equal(weft_operation_restore(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "name is NULL");
    assert_int_equal(weft_operation_restore("expo"), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "\"expo\", and weft has no such");
    assert_int_equal(weft_operation_restore("exp"), WEFT_OK); /* nothing to put back */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "elementwise", case_elementwise },
    { "matmul", case_matmul },
    { "halo", case_halo },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 20, 1, NULL };

/* A program's kernel gets parts of several runs of rows only if its own rule says so. */
static void test_cuts_in_runs(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    const struct {
        weft_operation_description description;
        bool kept;
    } cases[] = {
        { { .name = "softmax", .kernel = minus_two }, false },
        { { .name = "softmax", .kernel = minus_two, .rule = "ab->ab" }, false },
        { { .name = "softmax", .kernel = minus_two, .rule = "a*b->ab" }, true },
        { { .name = "matmul", .rule = "mk,kn->mn" }, false }, /* the library's kernel */
        { { .name = "matmul", .rule = "m*k,kn->mn" }, true },
    };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    const weft_placement blocks = { .kind = WEFT_SHARD, .cut = WEFT_CUT_CYCLIC, .block = 2 };
    weft_tensor *a = weft_randn(WEFT_F64, 2, (int64_t[]){ 11, 4 }, mesh, &blocks),
                *b = weft_randn(WEFT_F64, 2, (int64_t[]){ 4, 4 }, mesh, NULL);
    double expected[44], found[44];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool product = strcmp(cases[i].description.name, "matmul") == 0;
        assert_int_equal(weft_to_host(product ? weft_matmul(a, b) : weft_scale(a, -2), expected, sizeof(expected)), WEFT_OK);
        replace(cases[i].description);
        weft_tensor *result = product ? weft_matmul(a, b) : weft_softmax(a, 1);
        assert_non_null(result);
        assert_int_equal(weft_tensor_placements(result)[0].cut == WEFT_CUT_CYCLIC, cases[i].kept);
        assert_int_equal(weft_to_host(result, found, sizeof(found)), WEFT_OK);
        for (int j = 0; j < 44; j++) {
            assert_true(fabs(found[j] - expected[j]) < 1e-13);
        }
        restore(cases[i].description.name);
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_composites),
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_cuts_in_runs),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_arguments),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
