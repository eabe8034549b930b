/* Operations of a program's own with periodic halos: in random layouts, with panels of several heights, over parts that are
 * smaller than the halo, on one rank that wraps onto itself, in place, accumulated, in graphs; and refused. */
#include "halo_values.h"
#include "operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t modulo(int64_t i, int64_t size)
{
    return ((i % size) + size) % size;
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

enum { BEFORE, AFTER, PERIODIC, EACH }; /* numbers of a letter */

/* A part has no more than its halo. */
static void check_extents(const weft_kernel_call *call, int dim, const int64_t *n)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    int64_t begin = out->offset[dim] - n[BEFORE], end = out->offset[dim] + out->extent[dim] + n[AFTER];
    if (n[PERIODIC] == 0) {
        begin = begin < 0 ? 0 : begin;
        end = end > in->shape[dim] ? in->shape[dim] : end;
    }
    if (begin < end && (in->offset[dim] != begin || in->extent[dim] != end - begin || in->shape[dim] != out->shape[dim])) {
        weft_kernel_fail(call, WEFT_ERR_INTERNAL, "dimension %d has %lld + %lld, expected %lld to %lld", dim,
                         (long long)in->offset[dim], (long long)in->extent[dim], (long long)begin, (long long)end);
    }
}

static double weight(int64_t dy, int64_t dx)
{
    return (double)(1 + (dy + 20) * 3 + (dx + 20));
}

static double stencil(reader read, const void *context, const int64_t shape[2], int64_t y, int64_t x, const int64_t *n)
{
    const int64_t *of_y = n, *of_x = n + EACH;
    double sum = 0;
    for (int64_t dy = -of_y[BEFORE]; dy <= of_y[AFTER]; dy++) {
        for (int64_t dx = -of_x[BEFORE]; dx <= of_x[AFTER]; dx++) {
            bool there = (of_y[PERIODIC] || (y + dy >= 0 && y + dy < shape[0])) &&
                         (of_x[PERIODIC] || (x + dx >= 0 && x + dx < shape[1]));
            sum += there ? weight(dy, dx) * read(context, y + dy, x + dx) : 0;
        }
    }
    return sum;
}

/* "h~w~->hw", and "hw,h~w~->hw" in place: what it has is added. */
static void plane_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    check_extents(call, 0, call->numbers);
    check_extents(call, 1, call->numbers + EACH);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            double sum =
                stencil(read_part, &(part){ call, in }, in->shape, out->offset[0] + row, out->offset[1] + c, call->numbers);
            set(out, target, c, sum + (call->numbers[2 * EACH] ? get(out, target, c) : 0));
        }
    }
}

/* "x~->x" by numbers before, after, times, over; the sum of the indices read, weighted by their distance from the first. */
static void gather_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    const int64_t *n = call->numbers;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t i = out->offset[0] + row;
        double sum = 0;
        for (int64_t k = -in->shape[0]; k < 2 * in->shape[0]; k++) {
            bool reads = k * n[3] >= i * n[2] - n[0] && k * n[3] <= i * n[2] + n[1];
            sum += reads ? (double)(k + 100) * at(call, in, k, 0) : 0;
        }
        set(out, weft_view_row(out, row, NULL), 0, sum);
    }
}

/* "yd,y~c->dc", piece by piece: each place times the next row of the other input, the first one after the last. */
static void correlate_kernel(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            double sum = call->first ? 0 : get(out, target, c);
            for (int64_t y = 0; y < weft_view_rows(a); y++) {
                sum += row_value(a, y, out->offset[0] + row - a->offset[1]) * at(call, b, a->offset[0] + y + 1, out->offset[1] + c);
            }
            set(out, target, c, sum);
        }
    }
}

/* ---- registered ---------------------------------------------------------------------------------------- */

static const weft_operation *op_plane, *op_add, *op_gather, *op_correlate;

static void by_numbers(weft_halo *halo, const int64_t numbers[])
{
    const int64_t *n = numbers + (halo->letter == 'w' ? EACH : 0);
    halo->before = n[BEFORE];
    halo->after = n[AFTER];
    halo->periodic = n[PERIODIC] != 0;
}

static void all_by_numbers(weft_halo *halo, const int64_t numbers[])
{
    halo->before = numbers[0];
    halo->after = numbers[1];
    halo->times = numbers[2];
    halo->over = numbers[3];
}

static void start_registered(const char *variable, const char *value)
{
    const weft_operation_input a = { "a", WEFT_TYPES_WIDE, false }, b = { "b", WEFT_TYPES_WIDE, true };
    start_world(variable, value);
    op_plane = weft_operation_register(&(weft_operation_description){ .name = "plane",
                                                                      .rule = "h~w~->hw",
                                                                      .inputs = { a },
                                                                      .halos = { { .letter = 'w' }, { .letter = 'h' } },
                                                                      .halo = by_numbers,
                                                                      .kernel = plane_kernel });
    op_add = weft_operation_register(
        &(weft_operation_description){ .name = "add_plane",
                                       .rule = "hw,h~w~->hw",
                                       .inputs = { a, b },
                                       .halos = { { .input = 1, .letter = 'w' }, { .input = 1, .letter = 'h' } },
                                       .halo = by_numbers,
                                       .outputs[0].in_place = true,
                                       .kernel = plane_kernel });
    op_gather = weft_operation_register(&(weft_operation_description){ .name = "gather",
                                                                       .rule = "x~->x",
                                                                       .inputs = { a },
                                                                       .halos = { { .letter = 'x', .periodic = true } },
                                                                       .halo = all_by_numbers,
                                                                       .kernel = gather_kernel });
    op_correlate = weft_operation_register(&(weft_operation_description){
        .name = "correlate",
        .rule = "yd,y~c->dc",
        .inputs = { a, b },
        .halos = { { .input = 1, .letter = 'y', .before = -1, .after = 1, .periodic = true } },
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 3, .ops = WEFT_LINEAR_OPS },
        .accumulates = true,
        .kernel = correlate_kernel });
    assert_no_error();
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static double read_dense(const void *context, int64_t row, int64_t column)
{
    const operand *a = context;
    return a->dense[modulo(row, a->shape[0]) * a->shape[1] + modulo(column, a->shape[1])];
}

/* Halos that the dimension may have, at times as wide as it. */
static void any_halo(int64_t size, int64_t *n)
{
    n[PERIODIC] = below(3) > 0;
    int64_t most = n[PERIODIC] == 0 || below(4) == 0 ? size : size < 3 ? size : 3;
    n[BEFORE] = below(most + 1);
    n[AFTER] = below(most + 1);
}

static weft_apply_options plane_options(const int64_t shape[], const int64_t numbers[], bool adds)
{
    weft_apply_options options = { .num_numbers = 2 * EACH + 1, .num_sizes = adds ? 0 : 2, .sizes = { shape[0], shape[1] } };
    memcpy(options.numbers, numbers, 2 * EACH * sizeof(numbers[0]));
    options.numbers[2 * EACH] = adds;
    return options;
}

static void case_plane(void)
{
    int64_t shape[] = { any_size(), any_size() }, numbers[2 * EACH];
    any_halo(shape[0], numbers);
    any_halo(shape[1], numbers + EACH);
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = stencil(read_dense, &a, shape, i / shape[1], i % shape[1], numbers);
    }
    weft_apply_options options = plane_options(shape, numbers, false);
    char what[600];
    snprintf(what, sizeof(what), "%s, halos %lld %lld %lld, %lld %lld %lld", describe_operand(&a), (long long)numbers[0],
             (long long)numbers[1], (long long)numbers[2], (long long)numbers[3], (long long)numbers[4], (long long)numbers[5]);
    check(weft_apply(op_plane, 1, &a.tensor, &options), a.dtype, 2, shape, expected, a.exact ? 0 : 4096, 1e5, what);
    free(expected);
    release(&a);
}

/* Also of one tensor that is both. */
static void case_in_place(void)
{
    int64_t shape[] = { any_size(), any_size() }, numbers[2 * EACH];
    any_halo(shape[0], numbers);
    any_halo(shape[1], numbers + EACH);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    bool same = below(3) == 0;
    operand a = make_operand(mesh, type, 2, shape, WHOLE, 0), b = make_operand(mesh, type, 2, shape, WHOLE, 0);
    const operand *other = same ? &a : &b;
    weft_tensor *inputs[] = { a.tensor, other->tensor };
    weft_apply_options options = plane_options(shape, numbers, true);
    weft_tensor *result = weft_apply(op_add, 2, inputs, &options);
    if (any_partial(&a)) {
        assert_null(result);
        assert_error(WEFT_ERR_LAYOUT, "add_plane: cannot change the target");
    } else {
        double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
        for (int64_t i = 0; i < a.count; i++) {
            expected[i] = a.dense[i] + stencil(read_dense, other, shape, i / shape[1], i % shape[1], numbers);
        }
        check(result, type, 2, shape, expected, a.exact && b.exact ? 0 : 4096, 1e5, describe_operand(&a));
        free(expected);
    }
    release(&a);
    release(&b);
}

static void case_gather(void)
{
    int64_t size = 1 + below(MAX_SIZE);
    const int64_t kinds[][5] = { { 1, 1, 1, 1, size },                  /* a halo */
                                 { 1, 1, 2, 1, size / 2 },              /* coarser */
                                 { 0, 1, 1, 2, 2 * size },              /* finer */
                                 { 1, -1, 1, 1, size },                 /* the one before */
                                 { size, size, 1, 1, size },            /* all of it, on both sides */
                                 { 1 - size, size - 1, -1, 1, size },   /* in the other direction */
                                 { 2 - size, size, -1, 1, size },       /* and beyond both ends */
                                 { -2, 4, 1, 1, size > 3 ? size : 0 },  /* ahead */
                                 { 5, -4, 1, 1, size > 4 ? size : 0 } };
    const int64_t *n = kinds[below(9)];
    operand a = make_operand(any_mesh(), any_float(), 1, &size, WHOLE, 0);
    double *expected = calloc((size_t)n[4] + 1, sizeof(double));
    for (int64_t i = 0; i < n[4]; i++) {
        for (int64_t k = -size; k < 2 * size; k++) {
            bool reads = k * n[3] >= i * n[2] - n[0] && k * n[3] <= i * n[2] + n[1];
            expected[i] += reads ? (double)(k + 100) * a.dense[modulo(k, size)] : 0;
        }
    }
    weft_apply_options options = { .num_numbers = 4, .num_sizes = 1, .sizes = { n[4] } };
    memcpy(options.numbers, n, 4 * sizeof(n[0]));
    check(weft_apply(op_gather, 1, &a.tensor, &options), a.dtype, 1, &n[4], expected, a.exact ? 0 : 4096, 1e5,
          describe_operand(&a));
    free(expected);
    release(&a);
}

static void case_correlate(void)
{
    int64_t y = 1 + below(MAX_SIZE), of_a[] = { y, any_size() }, of_b[] = { y, any_size() }, shape[] = { of_a[1], of_b[1] };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    operand a = make_operand(mesh, type, 2, of_a, WHOLE, 0), b = make_operand(mesh, type, 2, of_b, WHOLE, 0);
    double *expected = calloc((size_t)(shape[0] * shape[1]) + 1, sizeof(double));
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        for (int64_t k = 0; k < y; k++) {
            expected[i] += a.dense[k * shape[0] + i / shape[1]] * b.dense[(k + 1) % y * shape[1] + i % shape[1]];
        }
    }
    weft_tensor *inputs[] = { a.tensor, b.tensor };
    check(weft_apply(op_correlate, 2, inputs, NULL), type, 2, shape, expected, a.exact && b.exact ? 0 : 64, 500,
          describe_operand(&a));
    free(expected);
    release(&a);
    release(&b);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

/* A ring of rows goes round, on any number of ranks, in a captured and in a frozen graph too. */
static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    const int64_t *shape = context;
    const int64_t numbers[] = { 1, 1, 1, 2, 0, 1 };
    weft_apply_options options = plane_options(shape, numbers, false);
    weft_tensor *x = weft_apply(op_plane, 1, &inputs[0], &options);
    x = x == NULL ? NULL : weft_scale(x, 1.0 / 1024);
    outputs[0] = x == NULL ? NULL : weft_apply(op_plane, 1, &x, &options);
    return outputs[0] == NULL ? WEFT_ERR_INVALID : WEFT_OK;
}

static void test_graphs(void **state)
{
    (void)state;
    start_registered("WEFT_PANEL_ROWS", "2");
    unsetenv("WEFT_PANEL_ROWS");
    int64_t shape[] = { 13, 6 };
    const weft_placement layouts[] = { weft_shard(0), weft_shard(1), weft_replicate() };
    for (int i = 0; i < 3; i++) {
        weft_scope_begin();
        operand a = { .mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL), .dtype = WEFT_F64, .ndim = 2, .shape = { 13, 6 } };
        double values[78];
        for (int k = 0; k < 78; k++) {
            values[k] = k * 7 % 11;
        }
        weft_tensor *x = weft_distribute(WEFT_F64, 2, shape, values, a.mesh, &layouts[i]), *found, *expected;
        assert_int_equal(step(shape, &x, NULL, &expected), WEFT_OK);
        weft_graph *graph = weft_graph_create("step", step, shape, 1, 0, 1);
        for (int run = 0; run < 5; run++) {
            if (run == 3) {
                assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
            }
            assert_int_equal(weft_graph_call(graph, &x, NULL, &found), WEFT_OK);
            assert_same_shards(found, expected, "a step in a graph");
        }
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void expect_refused(weft_tensor *a, const int64_t numbers[], const char *text)
{
    weft_apply_options options = { .num_numbers = 7 };
    memcpy(options.numbers, numbers, 2 * EACH * sizeof(numbers[0]));
    assert_null(weft_apply(op_plane, 1, &a, &options));
    assert_error(WEFT_ERR_INVALID, text);
}

static void test_refused(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 5, 3 }, mesh, &rows);
    expect_refused(a, (int64_t[]){ 6, 0, 1, 0, 0, 0 }, "the periodic halo of a in dimension 0 (before 6, after 0, times 1, over 1) is "
                                                       "wider than the dimension, 5");
    expect_refused(a, (int64_t[]){ 0, 0, 1, 0, 4, 1 }, "the periodic halo of a in dimension 1");
    /* Larger than the input: rows beyond the second image. */
    weft_tensor *line = weft_ones(WEFT_F32, 1, (int64_t[]){ 5 }, mesh, &rows);
    weft_tensor *none = weft_ones(WEFT_F32, 1, (int64_t[]){ 0 }, mesh, &rows);
    weft_apply_options options = { .num_numbers = 4, .numbers = { 0, 0, 1, 1 }, .num_sizes = 1, .sizes = { 11 } };
    assert_null(weft_apply(op_gather, 1, &line, &options));
    assert_error(WEFT_ERR_INVALID, "the periodic halo of a in dimension 0");
    options.sizes[0] = 2;
    assert_null(weft_apply(op_gather, 1, &none, &options));
    assert_error(WEFT_ERR_INVALID, "is wider than the dimension, 0");
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* In a strict region, a rank that wraps onto itself reads nobody else's. */
static void test_strict(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const int64_t shape[] = { 6, 4 }, numbers[] = { 1, 1, 1, 1, 1, 1 };
    weft_placement layouts[] = { weft_replicate(), weft_shard(0) };
    weft_apply_options options = plane_options(shape, numbers, false);
    assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_tensor *a = weft_ones(WEFT_F32, 2, shape, mesh, &layouts[i]), *b = weft_apply(op_plane, 1, &a, &options);
        assert_true((b != NULL) == (i == 0));
        if (b == NULL) {
            assert_error(WEFT_ERR_LAYOUT, "WEFT_REGION_ALLOW_HALOS");
        }
    }
    assert_int_equal(weft_region_end(), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "plane", case_plane },
    { "in_place", case_in_place },
    { "gather", case_gather },
    { "correlate", case_correlate },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, start_registered };

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_graphs), cmocka_unit_test(test_refused), cmocka_unit_test(test_strict) };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
