/* Operations with several outputs, with public headers only: outputs of other shapes and types, and
 * outputs that are inputs changed in place, in random layouts, with panels of several heights, against
 * plain loops. */
#include "layout/layout.h"
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* WEFT_F32 or WEFT_F64. */
static double value_at(const weft_view *view, int64_t row, int64_t column)
{
    const void *at = weft_view_row(view, row, NULL);
    return view->dtype == WEFT_F64 ? ((const double *)at)[column] : (double)((const float *)at)[column];
}

static void set(const weft_view *view, int64_t row, int64_t column, double value)
{
    void *at = weft_view_row(view, row, NULL);
    switch (view->dtype) {
    case WEFT_F64:
        ((double *)at)[column] = value;
        break;
    case WEFT_F32:
        ((float *)at)[column] = (float)value;
        break;
    case WEFT_I64:
        ((int64_t *)at)[column] = (int64_t)value;
        break;
    default:
        ((bool *)at)[column] = value != 0;
        break;
    }
}

/* "nc->nc,nc,n": the doubled values, whether they are negative, and how many of a row are. */
static void signs(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *doubled = &call->outputs[0], *negative = &call->outputs[1],
                    *count = &call->outputs[2];
    for (int64_t row = 0; row < doubled->extent[0]; row++) {
        int64_t found = 0;
        for (int64_t c = 0; c < doubled->extent[1]; c++) {
            double value = value_at(a, row, c);
            set(doubled, row, c, 2 * value);
            set(negative, row, c, value < 0);
            found += value < 0;
        }
        set(count, row, 0, (double)found);
    }
}

/* "nc->n,c,": sums of rows, of columns, and of all. A rank may have none of the rows that an output has. */
static void sums(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *rows = &call->outputs[0], *columns = &call->outputs[1];
    double all = 0;
    for (int64_t n = 0; n < rows->extent[0]; n++) {
        set(rows, n, 0, 0);
    }
    for (int64_t c = 0; c < columns->extent[0]; c++) {
        set(columns, c, 0, 0);
    }
    for (int64_t n = 0; n < weft_view_rows(a); n++) {
        for (int64_t c = 0; c < a->extent[1]; c++) {
            double value = value_at(a, n, c);
            set(rows, n, 0, value_at(rows, n, 0) + value);
            set(columns, c, 0, value_at(columns, c, 0) + value);
            all += value;
        }
    }
    set(&call->outputs[2], 0, 0, all);
}

/* "A,A,A->A,A,A": a += s c, b -= c, and a new one: the a and b before, multiplied. Reads a, b and c. */
static void exchange(const weft_kernel_call *call)
{
    const weft_view *a = &call->outputs[0], *b = &call->outputs[1], *product = &call->outputs[2],
                    *c = &call->inputs[0];
    int64_t width = a->ndim == 0 ? 1 : a->row_elements;
    for (int64_t row = 0; row < weft_view_rows(a); row++) {
        for (int64_t i = 0; i < width; i++) {
            double x = value_at(a, row, i), y = value_at(b, row, i), z = value_at(c, row, i);
            set(product, row, i, x * y);
            set(a, row, i, x + call->scalars[0] * z);
            set(b, row, i, y - z);
        }
    }
}

/* ---- registered ---------------------------------------------------------------------------------------- */

static const weft_operation *op_signs, *op_sums, *op_exchange;

static void register_all(const char *variable, const char *value)
{
    const weft_operation_input a = { "a", WEFT_TYPES_WIDE, false }, b = { "b", WEFT_TYPES_WIDE, false },
                               c = { "c", WEFT_TYPES_WIDE, true };
    start_world(variable, value);
    op_signs = weft_operation_register(&(weft_operation_description){
        .name = "signs",
        .rule = "n[c]->n[c],n[c],n",
        .inputs = { a },
        .outputs = { { 0 }, { .type = WEFT_TYPE_BOOL }, { .type = WEFT_TYPE_INDEX } },
        .kernel = signs });
    const weft_linearity linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS };
    op_sums = weft_operation_register(&(weft_operation_description){
        .name = "sums",
        .rule = "nc->n,c,",
        .inputs = { a },
        .outputs = { { .linear = linear }, { .linear = linear }, { .linear = linear } },
        .kernel = sums });
    op_exchange = weft_operation_register(
        &(weft_operation_description){ .name = "exchange",
                                       .rule = "A,A,A->A,A,A",
                                       .inputs = { a, b, c },
                                       .outputs = { { .in_place = true }, { .in_place = true } },
                                       .kernel = exchange });
    assert_no_error();
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void case_signs(void)
{
    int64_t shape[] = { any_size(), any_size() };
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    double *doubled = calloc((size_t)a.count + 1, sizeof(double)),
           *negative = calloc((size_t)a.count + 1, sizeof(double)),
           *count = calloc((size_t)shape[0] + 1, sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        doubled[i] = 2 * a.dense[i];
        negative[i] = a.dense[i] < 0;
        count[i / shape[1]] += a.dense[i] < 0;
    }
    if (!a.exact) { /* signs of values that were rounded are not known */
        release(&a);
        free(doubled), free(negative), free(count);
        return;
    }
    weft_tensor *out[3];
    assert_int_equal(weft_apply_all(op_signs, 1, &a.tensor, NULL, 3, out), WEFT_OK);
    check(out[0], a.dtype, 2, shape, doubled, 0, 20, describe_operand(&a));
    check(out[1], WEFT_BOOL, 2, shape, negative, 0, 1, describe_operand(&a));
    check(out[2], WEFT_I64, 1, shape, count, 0, 20, describe_operand(&a));
    free(doubled), free(negative), free(count);
    release(&a);
}

static void case_sums(void)
{
    int64_t shape[] = { any_size(), any_size() };
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    double *rows = calloc((size_t)shape[0] + 1, sizeof(double)),
           *columns = calloc((size_t)shape[1] + 1, sizeof(double)), all = 0;
    for (int64_t i = 0; i < a.count; i++) {
        rows[i / shape[1]] += a.dense[i];
        columns[i % shape[1]] += a.dense[i];
        all += a.dense[i];
    }
    weft_tensor *out[3];
    assert_int_equal(weft_apply_all(op_sums, 1, &a.tensor, NULL, 3, out), WEFT_OK);
    for (int m = 0; m < weft_mesh_ndim(a.mesh); m++) { /* each output contracts its own factors */
        weft_placement from = a.placements[m];
        bool passes = from.kind == WEFT_PARTIAL && from.op <= WEFT_AVG;
        if (from.kind == WEFT_SHARD) {
            assert_int_equal(weft_tensor_placements(out[from.dim])[m].kind, WEFT_SHARD);
            assert_int_equal(weft_tensor_placements(out[1 - from.dim])[m].kind, WEFT_PARTIAL);
        }
        if (from.kind == WEFT_SHARD || passes) {
            assert_int_equal(weft_tensor_placements(out[2])[m].kind, WEFT_PARTIAL);
        }
    }
    check(out[0], a.dtype, 1, shape, rows, a.exact ? 0 : 64, 90, describe_operand(&a));
    check(out[1], a.dtype, 1, shape + 1, columns, a.exact ? 0 : 64, 90, describe_operand(&a));
    check(out[2], a.dtype, 0, shape, &all, a.exact ? 0 : 500, 1500, describe_operand(&a));
    free(rows), free(columns);
    release(&a);
}

/* b lies anywhere, and is brought to nothing: it is changed, so it must lie as a does. */
static void case_exchange(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    operand a = make_operand(mesh, any_float(), ndim, shape, WHOLE, 0);
    operand b = make_operand(mesh, any_float(), ndim, shape, WHOLE, 0);
    operand c = make_operand(mesh, a.dtype, ndim, shape, WHOLE, 0);
    bool same = true;
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        same &= weft_placement_equal(weft_tensor_placements(a.tensor)[m], weft_tensor_placements(b.tensor)[m]);
    }
    bool reads_target = below(4) == 0;
    operand *read = reads_target ? &a : &c;
    weft_tensor *inputs[] = { a.tensor, b.tensor, read->tensor }, *out[3] = { NULL, NULL, NULL };
    weft_apply_options options = { .num_scalars = 1, .scalars = { 3 } };
    weft_status status = weft_apply_all(op_exchange, 3, inputs, &options, 3, out);
    if (!same || any_partial(&a)) {
        assert_int_equal(status, WEFT_ERR_LAYOUT);
        assert_null(out[0]);
        assert_error(WEFT_ERR_LAYOUT, "exchange: cannot change the target");
        check(a.tensor, a.dtype, ndim, shape, a.dense, a.exact ? 0 : 32, 10, "unchanged");
    } else {
        double *product = calloc((size_t)a.count + 1, sizeof(double));
        for (int64_t i = 0; i < a.count; i++) {
            double z = read->dense[i], x = a.dense[i];
            product[i] = a.dense[i] * b.dense[i];
            b.dense[i] -= z;
            a.dense[i] = x + 3 * z;
        }
        assert_int_equal(status, WEFT_OK);
        assert_ptr_equal(out[0], a.tensor);
        assert_ptr_equal(out[1], b.tensor);
        check(a.tensor, a.dtype, ndim, shape, a.dense, read->exact ? 0 : 64, 50, describe_operand(&a));
        check(b.tensor, b.dtype, ndim, shape, b.dense, read->exact ? 0 : 64, 50, describe_operand(&b));
        check(out[2], a.dtype, ndim, shape, product, 32, 50, "the new one");
        free(product);
    }
    release(&a);
    release(&b);
    release(&c);
}

/* Bit for bit. */
static void assert_same_values(weft_tensor *a, weft_tensor *b)
{
    size_t bytes = weft_tensor_bytes(a);
    unsigned char *first = calloc(2, bytes + 1), *second = first + bytes + 1;
    assert_int_equal(weft_tensor_bytes(b), bytes);
    assert_int_equal(weft_to_host(a, first, bytes), WEFT_OK);
    assert_int_equal(weft_to_host(b, second, bytes), WEFT_OK);
    assert_memory_equal(first, second, bytes);
    free(first);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

static void test_wrong_calls(void **state)
{
    (void)state;
    register_all(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 4, 3 }, size = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    weft_tensor *a = weft_full(WEFT_F32, 2, 2, shape, mesh, NULL),
                *b = weft_ones(WEFT_F32, 2, shape, mesh, NULL);
    weft_tensor *same[] = { a, a, b }, *other[] = { a, weft_ones(WEFT_F32, 1, shape, mesh, NULL), b };
    weft_tensor *out[4] = { a, a, a, a };
    assert_int_equal(weft_apply_all(op_exchange, 3, same, NULL, 3, out), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "a and b are one tensor");
    assert_null(out[0]);
    assert_int_equal(weft_apply_all(op_exchange, 3, other, NULL, 3, out), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "b has 1 dimension");
    assert_int_equal(weft_apply_all(op_exchange, 3, same, NULL, 2, out), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_outputs is 2, expected 3");
    assert_int_equal(weft_apply_all(op_exchange, 3, same, NULL, 3, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "outputs is NULL");
    assert_null(weft_apply(op_exchange, 3, same, NULL));
    assert_error(WEFT_ERR_INVALID, "num_outputs is 1, expected 3");
    double value = 0;
    assert_int_equal(weft_tensor_item(weft_sum(a, WEFT_ALL_DIMS, false), &value), WEFT_OK);
    assert_true(value == 24);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_wrong_descriptions(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    const weft_operation_input a = { "a", WEFT_TYPES_WIDE, false };
    const struct {
        const char *rule;
        weft_operation_output outputs[4];
        const char *says;
    } wrong[] = {
        { "n->n", { { 0 }, { .in_place = true } }, "outputs[1] is described, but the rule has 1 output" },
        { "n->n,n", { { 0 }, { .in_place = true } }, "outputs[1].in_place" },
        { "nc->n,nc", { { .in_place = true } }, "outputs[0].in_place" },
        { "n->n,n", { { 0 }, { .type = (weft_output_type)99 } }, "outputs[1].type is 99" },
        { "n->n,n", { { 0 }, { .linear = { .contracts = WEFT_AVG } } }, "outputs[1].linear" },
        { "n->n,n,n,n,n", { { 0 } }, "more than 4 outputs" },
        { "n->n,m~", { { 0 } }, "at character 7" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        weft_operation_description d = {
            .name = "f", .rule = wrong[i].rule, .inputs = { a }, .kernel = signs
        };
        memcpy(d.outputs, wrong[i].outputs, sizeof(d.outputs));
        assert_null(weft_operation_register(&d));
        assert_error(WEFT_ERR_INVALID, wrong[i].says);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Ranks outside the mesh get empty outputs of the right types. */
static void test_ranks_outside(void **state)
{
    (void)state;
    register_all(NULL, NULL);
    weft_scope_begin();
    int64_t size = 1, shape[] = { 4, 3 };
    int last = weft_world_size() - 1;
    weft_mesh *mesh = weft_mesh_of_ranks(1, &size, &last, NULL);
    weft_tensor *a = weft_full(WEFT_F32, -2, 2, shape, mesh, NULL), *out[3];
    assert_int_equal(weft_apply_all(op_signs, 1, &a, NULL, 3, out), WEFT_OK);
    const weft_dtype types[] = { WEFT_F32, WEFT_BOOL, WEFT_I64 };
    const size_t bytes[] = { 48, 12, 32 };
    for (int o = 0; o < 3; o++) {
        assert_int_equal(weft_tensor_dtype(out[o]), types[o]);
        for (int i = 0; i < weft_local_ranks(); i++) {
            unsigned char room[64];
            bool inside = weft_first_rank() + i == last;
            assert_int_equal(weft_local_bytes(out[o], i), inside ? bytes[o] : 0);
            assert_int_equal(weft_local_to_host(out[o], i, room, sizeof(room)), WEFT_OK);
        }
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A step of an optimiser is one task for each panel, and reads and writes all in it. */
static void test_optimizers_take_one_task(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "3");
    weft_scope_begin();
    int64_t size = weft_world_size(), shape[] = { 3 * size * 4, 5 };
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = weft_ones(WEFT_F32, 2, shape, mesh, &rows);
    }
    weft_wait();
    weft_adam_options adam = WEFT_ADAM_DEFAULT;
    weft_sgd_options sgd = { .learning_rate = 0.1, .momentum = 0.9, .nesterov = true };
    for (int which = 0; which < 2; which++) {
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        assert_int_equal(which == 0 ? weft_adam(1, &t[0], &t[1], &t[2], &t[3], 1, &adam)
                                    : weft_sgd(1, &t[0], &t[1], &sgd, &t[2]),
                         WEFT_OK);
        weft_get_counters(&after, sizeof(after));
        assert_int_equal(after.tasks - before.tasks, 4 * weft_local_ranks());
    }
    weft_scope_end();
    unsetenv("WEFT_PANEL_ROWS");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Values and indices come from one task for each panel of whole rows; a call that drops one, or rows in
 * parts, give the same by other calls. */
static void test_extrema_take_one_task(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    int64_t size = weft_world_size(), shape[] = { 2 * size, 5 };
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *a = weft_randn(WEFT_F32, 2, shape, mesh, &rows), *indices = NULL, *other = NULL;
    weft_wait();
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *values = weft_max_with_indices(a, 1, false, &indices);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.tasks - before.tasks, weft_local_ranks());
    assert_same_values(values, weft_max(a, 1, false));
    assert_same_values(indices, weft_argmax(a, 1, false));
    assert_same_values(weft_max_with_indices(weft_redistribute(a, mesh, &columns), 1, false, &other), values);
    assert_same_values(other, indices);
    assert_same_values(weft_min_with_indices(a, 1, true, NULL), weft_min(a, 1, true));
    assert_same_values(weft_min_with_indices(a, 0, false, NULL), weft_min(a, 0, false));
    weft_tensor *whole = weft_redistribute(a, mesh, NULL);
    assert_same_values(weft_max_with_indices(whole, 0, false, NULL), weft_max(a, 0, false));
    indices = a;
    assert_null(weft_max_with_indices(a, 2, false, &indices));
    assert_null(indices);
    assert_error(WEFT_ERR_INVALID, "weft_max_with_indices: dim");
    weft_tensor *empty = weft_zeros(WEFT_F32, 2, (int64_t[]){ 3, 0 }, mesh, NULL);
    assert_null(weft_min_with_indices(empty, 1, false, NULL));
    assert_error(WEFT_ERR_SHAPE, "weft_min_with_indices: a has size 0 in dimension 1");
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "signs", case_signs },
    { "sums", case_sums },
    { "exchange", case_exchange },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 7, register_all };

/* Ranks with fewer columns of values work by the same rows as the others: their log-sums are equal bit by bit. */
static void test_log_sums_of_uneven_columns(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_BYTES", "48", 1);
    WORLD(MAX_RANKS, .seed = 5);
    unsetenv("WEFT_PANEL_BYTES");
    weft_mesh *mesh = weft_mesh_of_ranks(1, (int64_t[]){ 3 }, (int[]){ 0, 1, 2 }, NULL);
    const weft_placement columns = weft_shard(1);
    for (int i = 0; i < 30; i++) {
        weft_scope_begin();
        weft_tensor *q = weft_to_type(weft_randn(WEFT_F32, 2, (int64_t[]){ 5, 6 }, mesh, NULL), WEFT_F16);
        weft_tensor *k = weft_to_type(weft_randn(WEFT_F32, 2, (int64_t[]){ 519, 6 }, mesh, NULL), WEFT_F16);
        weft_tensor *v = weft_to_type(weft_randn(WEFT_F32, 2, (int64_t[]){ 519, 5 }, mesh, &columns), WEFT_F16);
        weft_attention_options options = { .causal = true };
        weft_tensor *log_sums;
        assert_non_null(weft_attention_with_log_sums(q, k, v, &options, &log_sums));
        assert_int_equal(weft_tensor_placements(log_sums)[0].kind, WEFT_REPLICATE);
        assert_shards(log_sums, NULL, NULL, "log-sums");
        weft_scope_end();
    }
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_wrong_descriptions),
        cmocka_unit_test(test_ranks_outside),
        cmocka_unit_test(test_optimizers_take_one_task),
        cmocka_unit_test(test_extrema_take_one_task),
    };
    const struct CMUnitTest own_world[] = { cmocka_unit_test(test_log_sums_of_uneven_columns) };
    int failed = run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
    return failed + cmocka_run_group_tests_name("small panels", own_world, NULL, NULL);
}
