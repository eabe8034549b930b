/* Operations of a program's own that read dimensions with halos, with the public headers alone: in random layouts and
 * with panels of several heights against plain loops. */
#include "dispatch/dispatch.h"

#include "halo_values.h"
#include "operand.h"

#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* A part has no more than its halo, so that a kernel that uses all that it is given is right. */
static void check_extents(const weft_kernel_call *call, int input, int dim, int64_t radius)
{
    const weft_view *in = &call->inputs[input], *out = &call->output;
    int64_t begin = out->offset[dim] - radius, end = out->offset[dim] + out->extent[dim] + radius;
    begin = begin < 0 ? 0 : begin;
    end = end > in->shape[dim] ? in->shape[dim] : end;
    if (begin < end && (in->offset[dim] != begin || in->extent[dim] != end - begin)) {
        weft_kernel_fail(call, WEFT_ERR_INTERNAL, "dimension %d has %lld + %lld, expected %lld to %lld", dim,
                         (long long)in->offset[dim], (long long)in->extent[dim], (long long)begin,
                         (long long)end);
    }
}

static int64_t clamp(int64_t i, int64_t size)
{
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Weights that tell all neighbours apart. */
static double weight(int64_t dy, int64_t dx)
{
    return (double)(1 + (dy + 3) * 7 + (dx + 3));
}

/* The sum over all neighbours within `radius`; beyond the border zeros, or (`edges`) the nearest element. */
static double stencil(reader read, const void *context, const int64_t shape[2], int64_t y, int64_t x,
                      const int64_t radius[2], bool edges)
{
    double sum = 0;
    for (int64_t dy = -radius[0]; dy <= radius[0]; dy++) {
        for (int64_t dx = -radius[1]; dx <= radius[1]; dx++) {
            int64_t row = y + dy, column = x + dx;
            bool inside = row >= 0 && row < shape[0] && column >= 0 && column < shape[1];
            if (edges || inside) {
                sum += weight(dy, dx) * read(context, clamp(row, shape[0]), clamp(column, shape[1]));
            }
        }
    }
    return sum;
}

/* "x~->x", numbers[0]: the radius. */
static void line_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    const int64_t shape[] = { in->shape[0], 1 }, radius[] = { call->numbers[0], 0 };
    check_extents(call, 0, 0, radius[0]);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        set(out, weft_view_row(out, row, NULL), 0,
            stencil(read_part, &(part){ call, in }, shape, out->offset[0] + row, 0, radius, false));
    }
}

/* "h~w~->hw", numbers[0], [1]: the radii, [2]: whether the border is continued. */
static void plane_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    check_extents(call, 0, 0, call->numbers[0]);
    check_extents(call, 0, 1, call->numbers[1]);
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            set(out, target, c,
                stencil(read_part, &(part){ call, in }, in->shape, out->offset[0] + row, out->offset[1] + c,
                        call->numbers, call->numbers[2] != 0));
        }
    }
}

/* "hw,h~w->hw": a += the row before and the row after of b, in place. */
static void relax_kernel(const weft_kernel_call *call)
{
    const weft_view *b = &call->inputs[0], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        int64_t y = out->offset[0] + row;
        for (int64_t c = 0; c < out->extent[1]; c++) {
            int64_t x = out->offset[1] + c;
            double sum =
                (y > 0 ? at(call, b, y - 1, x) : 0) + (y + 1 < b->shape[0] ? 2 * at(call, b, y + 1, x) : 0);
            set(out, target, c, get(out, target, c) + sum);
        }
    }
}

/* "Abx~->Abx,A" of three dimensions, the last two indices together: differences, and their sums. */
static void slope_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->outputs[0], *sums = &call->outputs[1];
    for (int64_t row = 0; row < weft_view_rows(sums); row++) {
        set(sums, weft_view_row(sums, row, NULL), 0, 0);
    }
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        const void *from = weft_view_row(in, row, NULL);
        void *target = weft_view_row(out, row, NULL), *sum = weft_view_row(sums, row, NULL);
        for (int64_t b = 0; b < out->extent[1]; b++) {
            for (int64_t c = 0; c < out->extent[2]; c++) {
                int64_t x = out->offset[2] + c,
                        place = b * in->strides[1] + (x - in->offset[2]) * in->strides[2];
                double value = get(in, from, place) - (x > 0 ? get(in, from, place - in->strides[2]) : 0);
                set(out, target, b * out->strides[1] + c, value);
                set(sums, sum, 0, get(sums, sum, 0) + value);
            }
        }
    }
}

/* "x~->x" by weft_halo: numbers before, after, times, over; the sum of the indices read. */
static void gather_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    const int64_t *n = call->numbers;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t i = out->offset[0] + row;
        double sum = 0;
        for (int64_t k = 0; k < in->shape[0]; k++) {
            bool reads = k * n[3] >= i * n[2] - n[0] && k * n[3] <= i * n[2] + n[1];
            sum += reads ? (double)(k + 1) * at(call, in, k, 0) : 0;
        }
        set(out, weft_view_row(out, row, NULL), 0, sum);
    }
}

/* "x~,x->": each place times the next one of the other input, added up. */
static void product_kernel(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *b = &call->inputs[1];
    double sum = 0;
    for (int64_t row = 0; row < weft_view_rows(b); row++) {
        int64_t next = b->offset[0] + row + 1;
        sum += next < a->shape[0] ? row_value(b, row, 0) * at(call, a, next, 0) : 0;
    }
    set(&call->output, weft_view_row(&call->output, 0, NULL), 0, sum);
}

/* "yd,y~c->dc", piece by piece: each place times the next row of the other input, added up over y. */
static void correlate_kernel(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            double sum = call->first ? 0 : get(out, target, c);
            for (int64_t y = 0; y < weft_view_rows(a); y++) {
                int64_t next = a->offset[0] + y + 1;
                sum += next < b->shape[0] ? row_value(a, y, out->offset[0] + row - a->offset[1]) *
                                                at(call, b, next, out->offset[1] + c)
                                          : 0;
            }
            set(out, target, c, sum);
        }
    }
}

/* ---- registered ---------------------------------------------------------------------------------------- */

static const weft_operation *op_line, *op_plane, *op_relax, *op_slope, *op_gather, *op_product, *op_correlate;

static void by_numbers(weft_halo *halo, const int64_t numbers[])
{
    halo->before = halo->after = numbers[halo->letter == 'w'];
}

static void all_by_numbers(weft_halo *halo, const int64_t numbers[])
{
    halo->before = numbers[0];
    halo->after = numbers[1];
    halo->times = numbers[2];
    halo->over = numbers[3];
}

static const weft_linearity linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS };

static void start_registered(const char *variable, const char *value)
{
    const weft_operation_input a = { "a", WEFT_TYPES_WIDE, false }, b = { "b", WEFT_TYPES_WIDE, true };
    start_world(variable, value);
    op_line = weft_operation_register(&(weft_operation_description){ .name = "line",
                                                                     .rule = "x~->x",
                                                                     .inputs = { a },
                                                                     .halos = { { .letter = 'x' } },
                                                                     .halo = by_numbers,
                                                                     .outputs[0].linear = linear,
                                                                     .kernel = line_kernel });
    op_plane = weft_operation_register(
        &(weft_operation_description){ .name = "plane",
                                       .rule = "h~w~->hw",
                                       .inputs = { a },
                                       .halos = { { .letter = 'w' }, { .letter = 'h' } },
                                       .halo = by_numbers,
                                       .kernel = plane_kernel });
    op_relax = weft_operation_register(
        &(weft_operation_description){ .name = "relax",
                                       .rule = "hw,h~w->hw",
                                       .inputs = { a, b },
                                       .halos = { { .input = 1, .letter = 'h', .before = 1, .after = 1 } },
                                       .outputs[0].in_place = true,
                                       .kernel = relax_kernel });
    op_slope = weft_operation_register(
        &(weft_operation_description){ .name = "slope",
                                       .rule = "Abx~->Abx,A",
                                       .inputs = { a },
                                       .halos = { { .letter = 'x', .before = 1 } },
                                       .outputs = { { .linear = linear }, { .linear = linear } },
                                       .kernel = slope_kernel });
    op_gather = weft_operation_register(&(weft_operation_description){ .name = "gather",
                                                                       .rule = "x~->x",
                                                                       .inputs = { a },
                                                                       .halos = { { .letter = 'x' } },
                                                                       .halo = all_by_numbers,
                                                                       .kernel = gather_kernel });
    op_product = weft_operation_register(&(weft_operation_description){
        .name = "product",
        .rule = "x~,x->",
        .inputs = { a, b },
        .halos = { { .letter = 'x', .before = -1, .after = 1 } },
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 3, .ops = WEFT_LINEAR_OPS },
        .kernel = product_kernel });
    op_correlate = weft_operation_register(&(weft_operation_description){
        .name = "correlate",
        .rule = "yd,y~c->dc",
        .inputs = { a, b },
        .halos = { { .input = 1, .letter = 'y', .before = -1, .after = 1 } },
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 3, .ops = WEFT_LINEAR_OPS },
        .accumulates = true,
        .kernel = correlate_kernel });
    assert_no_error();
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static double read_dense(const void *context, int64_t row, int64_t column)
{
    const operand *a = context;
    return a->dense[row * (a->ndim > 1 ? a->shape[1] : 1) + column];
}

static void case_line(void)
{
    int64_t size = any_size(), radius[] = { 1 + below(3), 0 }, shape[] = { size, 1 };
    operand a = make_operand(any_mesh(), any_float(), 1, &size, WHOLE, 0);
    double *expected = malloc(((size_t)size + 1) * sizeof(double));
    for (int64_t i = 0; i < size; i++) {
        expected[i] = stencil(read_dense, &a, shape, i, 0, radius, false);
    }
    weft_apply_options options = {
        .num_numbers = 1, .numbers = { radius[0] }, .num_sizes = 1, .sizes = { size }
    };
    check(weft_apply(op_line, 1, &a.tensor, &options), a.dtype, 1, &size, expected, a.exact ? 0 : 32, 2000,
          describe_operand(&a));
    free(expected);
    release(&a);
}

static void case_plane(void)
{
    int64_t shape[] = { any_size(), any_size() }, numbers[] = { below(3), below(3), below(2) };
    operand a = make_operand(any_mesh(), any_float(), 2, shape, WHOLE, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = stencil(read_dense, &a, shape, i / shape[1], i % shape[1], numbers, numbers[2] != 0);
    }
    weft_apply_options options = { .num_numbers = 3, .num_sizes = 2, .sizes = { shape[0], shape[1] } };
    memcpy(options.numbers, numbers, sizeof(numbers));
    check(weft_apply(op_plane, 1, &a.tensor, &options), a.dtype, 2, shape, expected, a.exact ? 0 : 64, 5000,
          describe_operand(&a));
    free(expected);
    release(&a);
}

/* Also of one tensor that is both. */
static void case_relax(void)
{
    int64_t shape[] = { any_size(), any_size() };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    bool same = below(3) == 0;
    operand a = make_operand(mesh, type, 2, shape, WHOLE, 0),
            b = make_operand(mesh, type, 2, shape, WHOLE, 0);
    const operand *other = same ? &a : &b;
    weft_tensor *inputs[] = { a.tensor, other->tensor };
    weft_tensor *result = weft_apply(op_relax, 2, inputs, NULL);
    if (any_partial(&a)) { /* the target would have to change its layout */
        assert_null(result);
        assert_error(WEFT_ERR_LAYOUT, "relax: cannot change the target");
    } else {
        double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
        for (int64_t i = 0; i < a.count; i++) {
            int64_t row = i / shape[1];
            expected[i] = a.dense[i] + (row > 0 ? other->dense[i - shape[1]] : 0) +
                          (row + 1 < shape[0] ? 2 * other->dense[i + shape[1]] : 0);
        }
        assert_ptr_equal(result, a.tensor);
        check(result, type, 2, shape, expected, other->exact ? 0 : 32, 50, describe_operand(other));
        free(expected);
    }
    release(&a);
    release(&b);
}

static void case_slope(void)
{
    int64_t shape[] = { any_size(), below(4), any_size() };
    operand a = make_operand(any_mesh(), any_float(), 3, shape, WHOLE, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double)), sums[MAX_SIZE + 1] = { 0 };
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = a.dense[i] - (i % shape[2] > 0 ? a.dense[i - 1] : 0);
        sums[i / (shape[1] * shape[2])] += expected[i];
    }
    weft_apply_options options = { .num_sizes = 1, .sizes = { shape[2] } };
    weft_tensor *outputs[2];
    assert_int_equal(weft_apply_all(op_slope, 1, &a.tensor, &options, 2, outputs), WEFT_OK);
    check(outputs[0], a.dtype, 3, shape, expected, a.exact ? 0 : 32, 50, describe_operand(&a));
    check(outputs[1], a.dtype, 1, shape, sums, a.exact ? 0 : 64, 500, describe_operand(&a));
    free(expected);
    release(&a);
}

/* Strided, mirrored, repeated, shifted, and arbitrary. */
static void case_gather(void)
{
    int64_t size = any_size();
    const int64_t kinds[][5] = { { 0, 1, 2, 1, size / 2 },               /* pairs */
                                 { -(size - 1), size - 1, -1, 1, size }, /* backwards */
                                 { 1, 0, 1, 2, 2 * size },               /* each one twice */
                                 { 1, -1, 1, 1, size + 1 },              /* the one before */
                                 { -3, 5, 1, 1, size },                  /* a halo on one side */
                                 { below(9) - 4, below(9) - 4, below(2) ? 1 + below(3) : -1 - below(3),
                                   1 + below(3), below(MAX_SIZE + 1) } };
    const int64_t *n = kinds[below(6)];
    operand a = make_operand(any_mesh(), any_float(), 1, &size, WHOLE, 0);
    double *expected = calloc((size_t)n[4] + 1, sizeof(double));
    for (int64_t i = 0; i < n[4]; i++) {
        for (int64_t k = 0; k < size; k++) {
            bool reads = k * n[3] >= i * n[2] - n[0] && k * n[3] <= i * n[2] + n[1];
            expected[i] += reads ? (double)(k + 1) * a.dense[k] : 0;
        }
    }
    weft_apply_options options = { .num_numbers = 4, .num_sizes = 1, .sizes = { n[4] } };
    memcpy(options.numbers, n, 4 * sizeof(n[0]));
    check(weft_apply(op_gather, 1, &a.tensor, &options), a.dtype, 1, &n[4], expected, a.exact ? 0 : 32, 1000,
          describe_operand(&a));
    free(expected);
    release(&a);
}

static void case_product(void)
{
    int64_t size = any_size();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    operand a = make_operand(mesh, type, 1, &size, WHOLE, 0),
            b = make_operand(mesh, type, 1, &size, WHOLE, 0);
    double expected = 0;
    for (int64_t i = 0; i + 1 < size; i++) {
        expected += b.dense[i] * a.dense[i + 1];
    }
    weft_tensor *inputs[] = { a.tensor, b.tensor };
    check(weft_apply(op_product, 2, inputs, NULL), type, 0, NULL, &expected, a.exact && b.exact ? 0 : 64, 500,
          describe_operand(&a));
    release(&a);
    release(&b);
}

static void case_correlate(void)
{
    int64_t y = any_size(), of_a[] = { y, any_size() }, of_b[] = { y, any_size() },
            shape[] = { of_a[1], of_b[1] };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float();
    operand a = make_operand(mesh, type, 2, of_a, WHOLE, 0), b = make_operand(mesh, type, 2, of_b, WHOLE, 0);
    double *expected = calloc((size_t)(shape[0] * shape[1]) + 1, sizeof(double));
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        for (int64_t k = 0; k + 1 < y; k++) {
            expected[i] += a.dense[k * shape[0] + i / shape[1]] * b.dense[(k + 1) * shape[1] + i % shape[1]];
        }
    }
    weft_tensor *inputs[] = { a.tensor, b.tensor };
    check(weft_apply(op_correlate, 2, inputs, NULL), type, 2, shape, expected, a.exact && b.exact ? 0 : 64,
          500, describe_operand(&a));
    free(expected);
    release(&a);
    release(&b);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

/* Sharded along the stencil's dimension, the output stays so, and each rank gets its neighbours' rows
 * alone. */
static void test_halos_alone_move(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 64, 10 }, ranks = 4;
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, mesh, &rows);
    weft_apply_options options = {
        .num_numbers = 2, .numbers = { 2, 1 }, .num_sizes = 2, .sizes = { 64, 10 }
    };
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *result = weft_apply(op_plane, 1, &a, &options);
    assert_int_equal(weft_tensor_placements(result)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    if (weft_local_ranks() >= 4 &&
        weft_first_rank() == 0) { /* the counters are this process's: 6 borders, 2 rows of 40 bytes each */
        assert_int_equal(after.bytes_moved - before.bytes_moved, 6 * 2 * 40);
    }
    weft_get_counters(&before, sizeof(before));
    assert_non_null(weft_apply(op_plane, 1, &a, &options));
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.dispatch_misses, before.dispatch_misses);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Every way to share the operation out, on a mesh of two dimensions. */
static void test_all_strategies(void **state)
{
    (void)state;
    start_registered("WEFT_PANEL_ROWS", "2");
    unsetenv("WEFT_PANEL_ROWS");
    const int64_t shape[] = { 11, 7 }, numbers[] = { 2, 1, 0 };
    weft_apply_options options = { .num_numbers = 3, .numbers = { 2, 1, 0 } };
    int64_t count = 1, possible = 0;
    for (int64_t c = 0; c < count; c++) {
        weft_scope_begin();
        operand a =
            make_operand(weft_mesh_create(2, (int64_t[]){ 2, 3 }, NULL), WEFT_F64, 2, shape, WHOLE, 0);
        double expected[77];
        for (int64_t i = 0; i < 77; i++) {
            expected[i] = stencil(read_dense, &a, shape, i / 7, i % 7, numbers, false);
        }
        weft_dispatch_force(c);
        weft_tensor *result = weft_apply(op_plane, 1, &a.tensor, &options);
        int64_t most = weft_dispatch_force(-1);
        count = most > count ? most : count;
        if (result == NULL) {
            weft_clear_error();
        } else {
            check(result, WEFT_F64, 2, shape, expected, a.exact ? 0 : 64, 5000, describe_operand(&a));
            possible++;
        }
        release(&a);
        weft_scope_end();
    }
    assert_in_range(possible, 9, count); /* h, w or nothing along each mesh dimension */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void assert_refused(weft_operation_description description, const char *words)
{
    assert_null(weft_operation_register(&description));
    assert_error(WEFT_ERR_INVALID, words);
}

static void test_halos_that_do_not_fit(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    const weft_operation_description good = {
        .name = "f", .rule = "h~w->hw", .inputs = { { "a", WEFT_TYPES_ALL, false } }, .kernel = plane_kernel
    };
    weft_operation_description d = good;
    assert_refused(d, "halos has 0 entries, and rule \"h~w->hw\" has 1 \"~\"");
    d.halos[0] = (weft_halo){ 0, 'w', 1, 1, 0, 0 };
    assert_refused(d, "halos[0] is of input 0 and letter 'w'");
    d.halos[0] = (weft_halo){ 1, 'h', 1, 1, 0, 0 };
    assert_refused(d, "halos[0] is of input 1");
    d.halos[0] = (weft_halo){ 0, 'h', 1, 1, 0, -1 };
    assert_refused(d, "halos[0].over is -1");
    d.halos[0] = d.halos[1] = (weft_halo){ 0, 'h', 1, 1, 0, 0 };
    assert_refused(d, "halos[0] and halos[1]");
    d.halos[1] = (weft_halo){ 0 };
    d.outputs[0].in_place = true;
    assert_refused(d, "outputs[0].in_place");
    d.outputs[0].in_place = false;
    assert_non_null(weft_operation_register(&d));
    d.rule = "Ah~B->hAB";
    assert_refused(d, "beside two runs");

    weft_scope_begin();
    int64_t size = 4, ranks = 2;
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 1, &size, weft_mesh_create(1, &ranks, NULL), &rows);
    weft_apply_options options = {
        .num_numbers = 4, .numbers = { 1, 1, 1, -1 }, .num_sizes = 1, .sizes = { 4 }
    };
    assert_null(weft_apply(op_gather, 1, &a, &options));
    assert_error(WEFT_ERR_INVALID, "gather: the halo of a in dimension 0");
    options.numbers[3] = 1;
    options.numbers[0] = INT64_MAX;
    assert_null(weft_apply(op_gather, 1, &a, &options));
    assert_error(WEFT_ERR_INVALID, "gather: the halo of a in dimension 0");
    options.numbers[0] = 1;
    options.numbers[2] = INT64_MIN;
    assert_null(weft_apply(op_gather, 1, &a, &options));
    assert_error(WEFT_ERR_INVALID, "gather: the halo of a in dimension 0");
    options.numbers[2] = 1;
    options.sizes[0] = -1;
    assert_null(weft_apply(op_gather, 1, &a, &options));
    assert_error(WEFT_ERR_INVALID, "gather: no size is given for x");
    options.num_sizes = 0; /* as large as the input */
    assert_int_equal(weft_tensor_size(weft_apply(op_gather, 1, &a, &options), 0), 4);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "line", case_line },           { "plane", case_plane },   { "relax", case_relax },
    { "slope", case_slope },         { "gather", case_gather }, { "product", case_product },
    { "correlate", case_correlate },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, start_registered };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halos_alone_move),
        cmocka_unit_test(test_all_strategies),
        cmocka_unit_test(test_halos_that_do_not_fit),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
