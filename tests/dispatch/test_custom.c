/* User-defined operations, with public headers only: in random layouts, with panels of several heights,
 * against plain loops. */
#include "operand.h"
#include "view_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* max(s (a + bias), 0): "nc,c->nc". The bias lies in panels of its own. */
static void bias_scale_relu(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *bias = &call->inputs[1];
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        void *out = weft_view_row(&call->output, row, NULL);
        for (int64_t c = 0; c < call->output.extent[1]; c++) {
            double value = call->scalars[0] * (row_value(a, row, c) + row_value(bias, c, 0));
            set(&call->output, out, c, value > 0 ? value : 0);
        }
    }
}

/* Sums of squares of the columns, piece by piece of the rows: "nc->c". */
static void column_squares(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *out = &call->output;
    for (int64_t c = 0; c < out->extent[0]; c++) {
        double sum = call->first ? 0 : row_value(out, c, 0);
        for (int64_t row = 0; row < weft_view_rows(a); row++) {
            double value = row_value(a, row, out->offset[0] - a->offset[1] + c);
            sum += value * value;
        }
        set(out, weft_view_row(out, c, NULL), 0, sum);
    }
}

/* a += s (100 row + column), global numbers, in place: "nc->nc". */
static void add_place(const weft_kernel_call *call)
{
    weft_view view = call->output;
    for (int64_t row = 0; row < weft_view_rows(&view); row++) {
        void *out = weft_view_row(&view, row, NULL);
        for (int64_t c = 0; c < view.extent[1]; c++) {
            double place = (double)(100 * (view.offset[0] + row) + view.offset[1] + c);
            set(&view, out, c, get(&view, out, c) + call->scalars[0] * place);
        }
    }
}

/* 1 at the column that the index says: "n->nv", in the type given. */
static void one_hot(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t index = *(const int64_t *)weft_view_row(&call->inputs[0], row, NULL);
        void *target = weft_view_row(out, row, NULL);
        if (index < 0 || index >= out->shape[1]) {
            weft_kernel_fail(call, WEFT_ERR_INVALID, "index has %lld", (long long)index);
        }
        for (int64_t v = 0; v < out->extent[1]; v++) {
            set(out, target, v, out->offset[1] + v == index);
        }
    }
}

/* numbers[0] times each element: "A->A". */
static void multiply(const weft_kernel_call *call)
{
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        void *out = weft_view_row(&call->output, row, NULL);
        int64_t width = call->output.ndim == 0 ? 1 : call->output.row_elements;
        for (int64_t i = 0; i < width; i++) {
            set(&call->output, out, i, (double)call->numbers[0] * row_value(&call->inputs[0], row, i));
        }
    }
}

/* a += the sum of b, in place: "n,[m]->n". */
static void add_sum(const weft_kernel_call *call)
{
    double sum = 0;
    for (int64_t row = 0; row < weft_view_rows(&call->inputs[0]); row++) {
        sum += row_value(&call->inputs[0], row, 0);
    }
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        void *out = weft_view_row(&call->output, row, NULL);
        set(&call->output, out, 0, get(&call->output, out, 0) + sum);
    }
}

/* Column c becomes column c + 1 of b, in place, from the last on: "n[c],n[c]->n[c]". */
static void shift_columns(const weft_kernel_call *call)
{
    int64_t width = call->output.extent[1];
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        void *out = weft_view_row(&call->output, row, NULL);
        for (int64_t c = width - 1; c >= 0; c--) {
            set(&call->output, out, c, row_value(&call->inputs[0], row, (c + 1) % width));
        }
    }
}

/* ---- registered ---------------------------------------------------------------------------------------- */

static const weft_operation *op_relu, *op_squares, *op_place, *op_one_hot, *op_multiply, *op_add_sum,
    *op_shift;

static void register_all(void)
{
    const weft_operation_input a = { "a", WEFT_TYPES_WIDE, false }, bias = { "bias", WEFT_TYPES_WIDE, true };
    op_relu = weft_operation_register(&(weft_operation_description){
        .name = "bias_scale_relu", .rule = "nc,c->nc", .inputs = { a, bias }, .kernel = bias_scale_relu });
    op_squares = weft_operation_register(&(weft_operation_description){ .name = "column_squares",
                                                                        .rule = "nc->c",
                                                                        .inputs = { a },
                                                                        .accumulates = true,
                                                                        .kernel = column_squares });
    op_place = weft_operation_register(&(weft_operation_description){
        .name = "add_place", .rule = "nc->nc", .inputs = { a }, .outputs[0].in_place = true, .kernel = add_place });
    op_one_hot = weft_operation_register(
        &(weft_operation_description){ .name = "one_hot",
                                       .rule = "n->nv",
                                       .inputs = { { "indices", WEFT_TYPE_BIT(WEFT_I64), false } },
                                       .outputs[0].type = WEFT_TYPE_GIVEN,
                                       .kernel = one_hot });
    const weft_operation_input b = { "b", WEFT_TYPES_WIDE, true };
    op_add_sum = weft_operation_register(&(weft_operation_description){
        .name = "add_sum", .rule = "n,[m]->n", .inputs = { a, b }, .outputs[0].in_place = true, .kernel = add_sum });
    op_shift = weft_operation_register(&(weft_operation_description){ .name = "shift_columns",
                                                                      .rule = "n[c],n[c]->n[c]",
                                                                      .inputs = { a, b },
                                                                      .outputs[0].in_place = true,
                                                                      .kernel = shift_columns });
    char name[] = "multiply", rule[] = "A->A", input[] = "a"; /* copied */
    op_multiply = weft_operation_register(
        &(weft_operation_description){ .name = name,
                                       .rule = rule,
                                       .inputs = { { input, WEFT_TYPES_WIDE, false } },
                                       .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
                                       .kernel = multiply });
    memset(name, 'x', sizeof(name) - 1);
    memset(rule, '(', sizeof(rule) - 1);
    memset(input, 'x', sizeof(input) - 1);
    assert_no_error();
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void case_bias_scale_relu(void)
{
    int64_t shape[] = { any_size(), any_size() };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    operand a = make_operand(mesh, type, 2, shape, WHOLE, 0),
            bias = make_operand(mesh, type, 1, shape + 1, WHOLE, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = fmax(0, 0.5 * (a.dense[i] + bias.dense[i % shape[1]]));
    }
    weft_tensor *inputs[] = { a.tensor, bias.tensor };
    weft_apply_options options = { .num_scalars = 1, .scalars = { 0.5 } };
    check(weft_apply(op_relu, 2, inputs, &options), type, 2, shape, expected, a.exact && bias.exact ? 0 : 32,
          20, describe_operand(&a));
    free(expected);
    release(&a);
    release(&bias);
}

static void case_column_squares(void)
{
    int64_t shape[] = { any_size(), any_size() };
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    double *expected = calloc((size_t)shape[1] + 1, sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i % shape[1]] += a.dense[i] * a.dense[i];
    }
    check(weft_apply(op_squares, 1, &a.tensor, NULL), a.dtype, 1, shape + 1, expected, a.exact ? 0 : 64, 500,
          describe_operand(&a));
    free(expected);
    release(&a);
}

static void case_add_place(void)
{
    int64_t shape[] = { any_size(), any_size() };
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    weft_apply_options options = { .num_scalars = 1, .scalars = { 2 } };
    if (any_partial(&a)) { /* not linear: the target would have to change its layout */
        assert_null(weft_apply(op_place, 1, &a.tensor, &options));
        assert_error(WEFT_ERR_LAYOUT, "add_place: cannot change the target");
        release(&a);
        return;
    }
    weft_tensor *view = weft_reshape(a.tensor, 2, shape);
    assert_ptr_equal(weft_apply(op_place, 1, &a.tensor, &options), a.tensor);
    check(view, a.dtype, 2, shape, a.dense, 0, 10, "what shared the memory");
    for (int64_t i = 0; i < a.count; i++) {
        a.dense[i] += 2 * (double)(100 * (i / shape[1]) + i % shape[1]);
    }
    check(a.tensor, a.dtype, 2, shape, a.dense, 0, 10, describe_operand(&a));
    release(&a);
}

/* The target is the other input too, itself or a view of it: its values before the call are meant. */
static void case_target_is_read(void)
{
    int64_t shape[] = { any_size(), any_size() };
    bool sums = below(2);
    int ndim = sums ? 1 : 2;
    operand a = make_operand(any_mesh(), any_float(), ndim, shape, WHOLE, 0);
    weft_tensor *inputs[] = { a.tensor, below(2) ? a.tensor : weft_reshape(a.tensor, ndim, shape) };
    const weft_operation *op = sums ? op_add_sum : op_shift;
    weft_placement now[3];
    memcpy(now, a.placements, sizeof(now));
    bool moves = any_partial(&a);
    for (int m = 0; m < weft_mesh_ndim(a.mesh); m++) {
        moves |= now[m].kind == WEFT_SHARD && now[m].dim == 1;
    }
    if (moves) {
        assert_null(weft_apply(op, 2, inputs, NULL));
        assert_error(WEFT_ERR_LAYOUT, "the target");
        release(&a);
        return;
    }
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double)), sum = 0;
    for (int64_t i = 0; i < a.count; i++) {
        sum += a.dense[i];
    }
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] =
            sums ? a.dense[i] + sum : a.dense[i / shape[1] * shape[1] + (i % shape[1] + 1) % shape[1]];
    }
    assert_ptr_equal(weft_apply(op, 2, inputs, NULL), a.tensor);
    check(a.tensor, a.dtype, ndim, shape, expected, 0, 100, describe_operand(&a));
    free(expected);
    release(&a);
}

static void case_one_hot(void)
{
    int64_t shape[] = { any_size(), 1 + below(MAX_SIZE) };
    operand indices = make_operand(any_mesh(), WEFT_I64, 1, shape, INDEX, shape[1]);
    double *expected = calloc((size_t)(shape[0] * shape[1]) + 1, sizeof(double));
    for (int64_t i = 0; i < shape[0]; i++) {
        expected[i * shape[1] + (int64_t)indices.dense[i]] = 1;
    }
    weft_apply_options options = { .num_sizes = 1, .sizes = { shape[1] }, .type = any_float() };
    check(weft_apply(op_one_hot, 1, &indices.tensor, &options), options.type, 2, shape, expected, 0, 1,
          describe_operand(&indices));
    free(expected);
    release(&indices);
}

static void case_multiply(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    operand a = make_operand(any_mesh(), any_float(), ndim, shape, WHOLE, 0);
    for (int64_t i = 0; i < a.count; i++) {
        a.dense[i] *= -3;
    }
    weft_apply_options options = { .num_numbers = 1, .numbers = { -3 } };
    weft_tensor *result = weft_apply(op_multiply, 1, &a.tensor, &options);
    check(result, a.dtype, ndim, shape, a.dense, a.exact ? 0 : 32, 30, describe_operand(&a));
    for (int m = 0; m < weft_mesh_ndim(a.mesh); m++) {
        bool passes = a.placements[m].kind == WEFT_PARTIAL && a.placements[m].op <= WEFT_AVG;
        assert_true(!passes || weft_tensor_placements(result)[m].kind == WEFT_PARTIAL);
    }
    release(&a);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

static void start_registered(const char *variable, const char *value)
{
    start_world(variable, value);
    register_all();
}

/* Layouts are remembered, and nothing moves that need not. */
static void test_layouts_are_remembered(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 8, 6 }, ranks[] = { 4 };
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, weft_mesh_create(1, ranks, NULL), &rows);
    weft_apply_options options = { .num_numbers = 1, .numbers = { 2 } };
    assert_non_null(weft_apply(op_multiply, 1, &a, &options));
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    assert_non_null(weft_apply(op_multiply, 1, &a, &options));
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.dispatch_misses, before.dispatch_misses);
    assert_int_equal(after.dispatch_hits, before.dispatch_hits + 1);
    assert_int_equal(after.transfers, before.transfers);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_kernels_can_fail(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 3 }, ranks[] = { weft_world_size() };
    float values[12];
    weft_tensor *far = weft_full(WEFT_I64, 9, 1, shape, weft_mesh_create(1, ranks, NULL), NULL);
    weft_apply_options options = { .num_sizes = 1, .sizes = { 4 }, .type = WEFT_F32 };
    weft_status status = weft_to_host(weft_apply(op_one_hot, 1, &far, &options), values, sizeof(values));
    if (weft_first_rank() == 0) { /* others may have no part of the output */
        assert_int_equal(status, WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "one_hot: index has 9");
    }
    weft_wait(); /* other ranks may meet it later */
    weft_clear_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A task with a panel for each of many rows, and one with too many. */
static void test_many_panels(void **state)
{
    (void)state;
    start_registered("WEFT_PANEL_ROWS", "1");
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    const int64_t sizes[] = { 40000, 70000 };
    int tried = weft_num_processes() > 1 ? 1 : 2; /* the second breaks a world of several */
    for (int i = 0; i < tried; i++) {
        weft_tensor *b = weft_ones(WEFT_F32, 1, &sizes[i], mesh, NULL);
        weft_tensor *inputs[] = { weft_ones(WEFT_F32, 1, (int64_t[]){ 1 }, mesh, NULL), b };
        weft_tensor *sum = weft_apply(op_add_sum, 2, inputs, NULL);
        double value = 0;
        if (i == 0) {
            assert_int_equal(weft_tensor_item(sum, &value), WEFT_OK);
            assert_true(value == 40001);
        } else {
            assert_null(sum);
            assert_error(WEFT_ERR_UNSUPPORTED, "70001 panels");
        }
    }
    weft_scope_end();
    unsetenv("WEFT_PANEL_ROWS");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A handle ends with the world; the next world knows nothing of it. */
static void test_handles_end(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    const weft_operation *old = op_multiply;
    assert_int_equal(weft_finalize(), WEFT_OK);
    weft_operation_description description = { .name = "f", .rule = "a->a", .inputs = { { "a", WEFT_TYPES_ALL, false } },
                                               .kernel = multiply };
    assert_null(weft_operation_register(&description));
    assert_error(WEFT_ERR_STATE, "weft_operation_register");
    assert_null(weft_apply(old, 0, NULL, NULL));
    assert_error(WEFT_ERR_STATE, "weft_apply");
    weft_config config = WEFT_CONFIG_DEFAULT;
    assert_int_equal(weft_init(&config), WEFT_OK);
    assert_null(weft_apply(old, 0, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "operation");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "bias_scale_relu", case_bias_scale_relu },
    { "column_squares", case_column_squares },
    { "add_place", case_add_place },
    { "target_is_read", case_target_is_read },
    { "one_hot", case_one_hot },
    { "multiply", case_multiply },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 1, start_registered };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_are_remembered),
        cmocka_unit_test(test_kernels_can_fail),
        cmocka_unit_test(test_many_panels),
        cmocka_unit_test(test_handles_end),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
