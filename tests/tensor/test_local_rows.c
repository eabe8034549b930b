/* Local regions by rows, on tensors that they change, and with random numbers. A function that works by global index
 * must write the same bits for the whole shard as for its rows, whatever the panels. */
#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "local_constant.h"

enum { RANKS = 4, MAX_ROWS = 13, MAX_COLUMNS = 5 };

static prng source;
static _Atomic int calls, wrong;

static int64_t below(int64_t n)
{
    return prng_below(&source, n);
}

static void start_with(const char *panel_rows)
{
    if (panel_rows != NULL) {
        setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    }
    WORLD(RANKS, .seed = 9);
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- the function ---------------------------------------------------------------------------------------- */

/* Whether a part has the output's rows, or the rank's all. */
static void check_part(const weft_local_tensor *part, const weft_local_tensor *output, bool whole)
{
    int64_t count = 1;
    for (int d = 0; d < part->ndim; d++) {
        count *= part->extent[d];
    }
    bool right = part->count == count && (part->count == 0) == (part->data == NULL);
    right = right && (whole || (part->offset[0] == output->offset[0] && part->extent[0] == output->extent[0]));
    wrong += !right;
}

/* Inputs: a and b [n, columns of their own], c of any shape, whole. Outputs: y [n, columns] f64, z [n] f32. y is the rank's
 * sums of a row of a and of b, plus that of c, plus the element's number and a random one; z the row and the first element of b. */
static void combine(const weft_local_call *call)
{
    const weft_local_tensor *a = &call->inputs[0], *b = &call->inputs[1], *c = &call->inputs[2], *y = &call->outputs[0],
                            *z = &call->outputs[1];
    const double factor = ((const constant *)call->context)->value;
    double sum_of_c = 0;
    calls++;
    check_part(a, y, false);
    check_part(b, y, false);
    check_part(c, y, true);
    check_part(z, y, false);
    for (int64_t i = 0; i < c->count; i++) {
        sum_of_c += ((const double *)c->data)[i];
    }
    for (int64_t row = 0; row < y->extent[0]; row++) {
        double sum = 0;
        int64_t wide = a->count > 0 ? a->extent[1] : 0, narrow = b->count > 0 ? b->extent[1] : 0;
        for (int64_t k = 0; k < wide; k++) {
            sum += ((const double *)a->data)[row * wide + k];
        }
        for (int64_t k = 0; k < narrow; k++) {
            sum += (double)((const float *)b->data)[row * narrow + k];
        }
        for (int64_t k = 0; k < y->extent[1] && y->count > 0; k++) {
            uint64_t number = weft_local_number(y, row * y->extent[1] + k);
            double drawn = call->random.seed == 0 ? 0 : weft_random_uniform(&call->random, number);
            ((double *)y->data)[row * y->extent[1] + k] = factor * sum + sum_of_c + (double)number + drawn;
        }
        if (z->count > 0) {
            ((float *)z->data)[row] = (float)(z->offset[0] + row) + (narrow > 0 ? ((const float *)b->data)[row * narrow] : 0);
        }
    }
}

/* ---- random layouts ---------------------------------------------------------------------------------------- */

/* Placements with the row cuts of others. */
static void with_rows_of(const weft_mesh *mesh, const weft_placement rows[], int ndim, bool partial, weft_placement out[])
{
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        int64_t kind = below(partial ? 3 : 2);
        bool cut = rows[m].kind == WEFT_SHARD && rows[m].dim == 0;
        out[m] = cut ? rows[m] : kind == 2 ? weft_partial(WEFT_SUM) : kind == 1 && ndim > 1 ? weft_shard(1) : weft_replicate();
    }
}

static void copy_part(const weft_local_call *call)
{
    const weft_local_tensor *y = &call->outputs[0];
    if (y->count > 0) {
        memcpy(y->data, call->inputs[0].data, (size_t)y->count * weft_dtype_size(y->dtype));
    }
}

static weft_tensor *random_tensor(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh, const weft_placement placements[])
{
    weft_placement whole[WEFT_MAX_DIMS];
    bool partial = false;
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        partial |= placements[m].kind == WEFT_PARTIAL;
        whole[m] = placements[m].kind == WEFT_PARTIAL ? weft_replicate() : placements[m];
    }
    weft_tensor *drawn = weft_randint(dtype == WEFT_F64 ? WEFT_I64 : WEFT_I32, -9, 10, ndim, shape, mesh, whole);
    weft_tensor *tensor = weft_to_type(drawn, dtype);
    const weft_local_output addends = { dtype, ndim, shape, placements, false };
    if (partial) {
        assert_int_equal(weft_local_map(copy_part, 1, (weft_tensor *[]){ tensor }, 1, &addends, NULL, &tensor), WEFT_OK);
    }
    return tensor;
}

static void compare_case(void)
{
    weft_scope_begin();
    const int64_t n = below(MAX_ROWS + 1);
    weft_mesh *mesh = random_mesh(&source, weft_world_size() < RANKS ? weft_world_size() : RANKS);
    weft_placement rows[WEFT_MAX_DIMS], of[4][WEFT_MAX_DIMS];
    random_placements(&source, mesh, 1, false, rows);
    random_cut_sizes(&source, mesh, 1, &n, rows);
    const int64_t shape_a[] = { n, below(MAX_COLUMNS + 1) }, shape_b[] = { n, below(MAX_COLUMNS + 1) },
                  shape_y[] = { n, 1 + below(MAX_COLUMNS) };
    int64_t shape_c[WEFT_MAX_DIMS];
    const int ndim_c = random_shape(&source, 2, 6, shape_c);
    with_rows_of(mesh, rows, 2, true, of[0]);
    with_rows_of(mesh, rows, 2, false, of[1]);
    with_rows_of(mesh, rows, 2, false, of[2]);
    random_placements(&source, mesh, ndim_c, false, of[3]);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) { /* replicas must be equal: the ranks' shards differ along this dimension */
        bool differs = of[0][m].kind != WEFT_REPLICATE || of[1][m].kind != WEFT_REPLICATE || of[3][m].kind != WEFT_REPLICATE;
        bool cut = rows[m].kind == WEFT_SHARD;
        of[2][m] = differs && !cut ? weft_partial(WEFT_SUM) : of[2][m];
        rows[m] = differs && !cut ? weft_partial(WEFT_SUM) : rows[m];
    }
    weft_tensor *inputs[] = { random_tensor(WEFT_F64, 2, shape_a, mesh, of[0]), random_tensor(WEFT_F32, 2, shape_b, mesh, of[1]),
                              random_tensor(WEFT_F64, ndim_c, shape_c, mesh, of[3]) };
    assert_no_error();
    const weft_local_output described[] = { { WEFT_F64, 2, shape_y, of[2], false }, { WEFT_F32, 1, shape_y, rows, false } };
    constant factor = { (double)below(5) };
    const bool whole[] = { false, false, true };
    weft_local_map_options options = { .mesh = mesh, .context = &factor, .context_size = sizeof(factor), .random = below(2) };
    weft_tensor *expected[2], *found[2];
    weft_random_state before, after;
    assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
    wrong = 0;
    assert_int_equal(weft_local_map(combine, 3, inputs, 2, described, &options, expected), WEFT_OK);
    assert_int_equal(weft_random_state_get(NULL, &after), WEFT_OK);
    assert_true(after.offset == before.offset + options.random);
    assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
    options.by_rows = true;
    options.whole_inputs = whole;
    assert_int_equal(weft_local_map(combine, 3, inputs, 2, described, &options, found), WEFT_OK);
    factor.value = 1e30;
    const char *what = describe(mesh, of[0], 2, shape_a);
    assert_same_shards(found[0], expected[0], what);
    assert_same_shards(found[1], expected[1], what);
    assert_int_equal(wrong, 0);
    weft_scope_end();
}

static void test_rows_as_shards(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "2", "3" };
    source = prng_start(4);
    for (int i = 0; i < 4; i++) {
        start_with(heights[i]);
        for (int k = 0, cases = over_processes() ? 15 : 60; k < cases; k++) {
            compare_case();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* Outputs whose panels have other heights: tasks write parts of panels, or several. Inputs of other heights too. */
static void test_other_heights(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_BYTES", "128", 1);
    WORLD(RANKS);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    weft_placement rows = weft_shard(0);
    for (int order = 0; order < 2; order++) {
        const int64_t n = 301, wide[] = { n, 16 }, flat[] = { n, 1 };
        weft_tensor *a = random_tensor(WEFT_F64, 2, order ? wide : flat, mesh, &rows),
                    *b = random_tensor(WEFT_F32, 2, order ? flat : wide, mesh, &rows), *c = weft_ones(WEFT_F64, 0, NULL, mesh, NULL);
        const weft_local_output described[] = { { WEFT_F64, 2, order ? flat : wide, &rows, false }, { WEFT_F32, 1, flat, &rows, false } };
        constant factor = { 2 };
        weft_local_map_options options = { .context = &factor };
        weft_tensor *inputs[] = { a, b, c }, *expected[2], *found[2];
        wrong = 0;
        assert_int_equal(weft_local_map(combine, 3, inputs, 2, described, &options, expected), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        int before = calls;
        options.by_rows = true; /* c has no rows: it is whole */
        assert_int_equal(weft_local_map(combine, 3, inputs, 2, described, &options, found), WEFT_OK);
        assert_same_shards(found[0], expected[0], "panels of several heights");
        assert_same_shards(found[1], expected[1], "panels of several heights");
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_true(calls > before + 1);
        assert_int_equal(wrong, 0);
    }
    weft_scope_end();
    unsetenv("WEFT_PANEL_BYTES");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- random numbers ---------------------------------------------------------------------------------------- */

static void fill_random(const weft_local_call *call)
{
    const weft_local_tensor *y = &call->outputs[0];
    for (int64_t i = 0; i < y->count; i++) {
        ((double *)y->data)[i] = weft_random_normal(&call->random, weft_local_number(y, i));
    }
}

/* Those of weft_randn() from the same state, in every layout, with or without rows, and in a graph. */
static const int64_t shape_of_numbers[] = { 11, 6 };

static weft_status draw_twice(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs;
    (void)scalars;
    weft_mesh *mesh = context;
    weft_placement rows = weft_shard(0);
    const weft_local_output described = { WEFT_F64, 2, shape_of_numbers, &rows, false };
    const weft_local_map_options options = { .mesh = mesh, .by_rows = true, .random = true };
    weft_tensor *own = NULL, *first = weft_randn(WEFT_F64, 2, shape_of_numbers, mesh, &rows);
    weft_status status = weft_local_map(fill_random, 0, NULL, 1, &described, &options, &own);
    outputs[0] = weft_sub(weft_randn(WEFT_F64, 2, shape_of_numbers, mesh, &rows), weft_mul(own, first));
    return status;
}

static void test_random(void **state)
{
    (void)state;
    start_with("2");
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int i = 0; i < 6; i++) {
        const weft_local_output described = { WEFT_F64, 2, shape_of_numbers, &layouts[i % 3], false };
        const weft_local_map_options options = { .mesh = mesh, .by_rows = i > 2, .random = true };
        weft_random_state before;
        weft_tensor *found = NULL;
        assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
        assert_int_equal(weft_local_map(fill_random, 0, NULL, 1, &described, &options, &found), WEFT_OK);
        assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
        assert_same_shards(found, weft_randn(WEFT_F64, 2, shape_of_numbers, mesh, &layouts[i % 3]), "random numbers of a region");
    }
    weft_graph *graph = weft_graph_create("draw", draw_twice, mesh, 0, 0, 1);
    for (int run = 0; run < 3; run++) {
        weft_tensor *found, *expected;
        weft_random_state before;
        assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
        assert_int_equal(weft_graph_call(graph, NULL, NULL, &found), WEFT_OK);
        assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
        assert_int_equal(draw_twice(mesh, NULL, NULL, &expected), WEFT_OK);
        assert_same_shards(found, expected, "random numbers of a region in a graph");
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- changed in place -------------------------------------------------------------------------------------- */

/* x += the sum of all of the other input; both inputs' x is the output. */
static void add_all(const weft_local_call *call)
{
    const weft_local_tensor *x = &call->outputs[0], *other = &call->inputs[1];
    double sum = 0;
    wrong += call->inputs[0].data != x->data || call->inputs[0].count != x->count;
    for (int64_t i = 0; i < other->count; i++) {
        sum += ((const double *)other->data)[i];
    }
    for (int64_t i = 0; i < x->count; i++) {
        ((double *)x->data)[i] += sum;
    }
}

static void test_in_place(void **state)
{
    (void)state;
    start_with("1");
    weft_scope_begin();
    const int64_t shape[] = { 9, 3 };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    const weft_local_output described = { .in_place = true };
    for (int i = 0; i < 8; i++) {
        weft_placement placement = i % 2 ? weft_shard(0) : weft_replicate(), everywhere = weft_replicate();
        const bool whole[] = { false, true }, by_rows = i / 2 % 2, itself = i / 4;
        const weft_placement *const in[] = { NULL, &everywhere };
        const weft_local_map_options options = { .by_rows = by_rows, .whole_inputs = by_rows ? whole : NULL, .in_placements = in };
        double values[27], found[27], sum = 0;
        for (int k = 0; k < 27; k++) {
            sum += values[k] = k;
        }
        weft_tensor *x = weft_distribute(WEFT_F64, 2, shape, values, mesh, &placement), *kept = weft_detach(x), *changed = NULL;
        weft_tensor *other = itself ? x : weft_redistribute(x, mesh, &everywhere), *inputs[] = { x, other };
        wrong = 0;
        assert_int_equal(weft_local_map(add_all, 2, inputs, 1, &described, &options, &changed), WEFT_OK);
        assert_ptr_equal(changed, x);
        assert_int_equal(weft_to_host(x, found, sizeof(found)), WEFT_OK);
        for (int k = 0; k < 27; k++) {
            assert_true(found[k] == values[k] + sum);
        }
        assert_int_equal(weft_to_host(kept, found, sizeof(found)), WEFT_OK);
        assert_memory_equal(found, values, sizeof(values));
        assert_int_equal(wrong, 0);
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- gradients --------------------------------------------------------------------------------------------- */

/* y = x (x + w), w [columns] whole if there are two inputs. */
static void square(const weft_local_call *call)
{
    const double *x = call->inputs[0].data, *w = call->num_inputs > 1 ? call->inputs[1].data : NULL;
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        ((double *)call->outputs[0].data)[i] = x[i] * (x[i] + (w == NULL ? 0 : w[i % 3]));
    }
}

static void square_back(const weft_local_call *call)
{
    const int others = call->num_inputs - 2;
    const weft_local_tensor *of_x = &call->outputs[0];
    const double *x = call->inputs[0].data, *w = others > 0 ? call->inputs[1].data : NULL, *of_y = call->inputs[1 + others].data;
    wrong += call->inputs[1 + others].count != of_x->count;
    calls++;
    for (int64_t i = 0; i < of_x->count; i++) {
        ((double *)of_x->data)[i] = of_y[i] * (2 * x[i] + (w == NULL ? 0 : w[i % 3]));
    }
    if (others > 0) {
        double *of_w = call->outputs[1].data;
        memset(of_w, 0, 3 * sizeof(*of_w));
        for (int64_t i = 0; i < of_x->count; i++) {
            of_w[i % 3] += of_y[i] * x[i];
        }
    }
}

static void test_gradients(void **state)
{
    (void)state;
    start_with("1");
    weft_scope_begin();
    const int64_t shape[] = { 9, 3 };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    const weft_placement rows = weft_shard(0), addends = weft_partial(WEFT_SUM), *const of[] = { &rows, &addends };
    const weft_local_output like_x = { WEFT_F64, 2, shape, &rows, false };
    const bool whole[] = { false, true };
    for (int n = 1; n <= 2; n++) {
        double values[27], found[27];
        for (int k = 0; k < 27; k++) {
            values[k] = k % 5;
        }
        weft_tensor *x = weft_distribute(WEFT_F64, 2, shape, values, mesh, &rows), *y = NULL;
        weft_tensor *w = weft_ones(WEFT_F64, 1, shape + 1, mesh, NULL), *inputs[] = { x, w };
        assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
        assert_int_equal(weft_set_requires_grad(w, true), WEFT_OK);
        const weft_local_map_options options = {
            .by_rows = true, .whole_inputs = n > 1 ? whole : NULL, .gradient = square_back, .grad_placements = of };
        assert_int_equal(weft_local_map(square, n, inputs, 1, &like_x, &options, &y), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        calls = wrong = 0;
        assert_int_equal(weft_backward(weft_sum(y, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        assert_int_equal(weft_to_host(weft_grad(x), found, sizeof(found)), WEFT_OK);
        for (int k = 0; k < 27; k++) {
            assert_true(found[k] == 2 * values[k] + (n > 1));
        }
        if (n > 1) {
            assert_int_equal(weft_to_host(weft_grad(w), found, 3 * sizeof(double)), WEFT_OK);
            for (int c = 0; c < 3; c++) {
                double sum = 0;
                for (int k = c; k < 27; k += 3) {
                    sum += values[k];
                }
                assert_true(found[c] == sum);
            }
        }
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_int_equal(wrong, 0);
        assert_true(over_processes() || calls == (n == 1 ? 9 : RANKS)); /* once per row, or per rank: w's rows are others */
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- refused ----------------------------------------------------------------------------------------------- */

static void expect_refused(weft_status status, const char *text, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           const weft_local_output described[], weft_local_map_options options)
{
    weft_tensor *outputs[2];
    weft_random_state before, after;
    options.random = true;
    assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
    assert_int_equal(weft_local_map(combine, num_inputs, inputs, num_outputs, described, &options, outputs), status);
    assert_error(status, text);
    assert_int_equal(weft_random_state_get(NULL, &after), WEFT_OK);
    assert_true(after.offset == before.offset);
    assert_null(outputs[0]);
}

static void test_refused(void **state)
{
    (void)state;
    start_with(NULL);
    weft_scope_begin();
    const int64_t shape[] = { 8, 4 }, more[] = { 9, 4 };
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    const weft_placement rows = weft_shard(0), columns = weft_shard(1), *const moved[] = { &columns };
    const weft_local_output by_rows = { WEFT_F64, 2, shape, &rows, false }, scalar = { WEFT_F64, 0, NULL, NULL, false },
                            longer = { WEFT_F64, 2, more, &rows, false }, changed = { .in_place = true };
    const bool whole[] = { true, true };
    weft_tensor *x = weft_ones(WEFT_F64, 2, shape, mesh, &rows), *same[] = { x, x }, *tall = weft_ones(WEFT_F64, 2, more, mesh, &rows);
    const weft_local_map_options split = { .by_rows = true, .mesh = mesh };
    expect_refused(WEFT_ERR_INVALID, "options.whole_inputs is given, but options.by_rows is false", 1, same, 1, &by_rows,
                   (weft_local_map_options){ .whole_inputs = whole });
    expect_refused(WEFT_ERR_SHAPE, "descriptions[0] has no dimensions, and options.by_rows needs rows", 0, NULL, 1, &scalar, split);
    expect_refused(WEFT_ERR_LAYOUT, "descriptions[1] is f64[9, 4]", 0, NULL, 2, (weft_local_output[]){ by_rows, longer }, split);
    expect_refused(WEFT_ERR_LAYOUT, "inputs[0] is f64[9, 4]", 1, &tall, 1, &by_rows, split);
    if (weft_world_size() > 1) {
        expect_refused(WEFT_ERR_LAYOUT, "their rows must be cut alike, or name the input in options.whole_inputs", 1, same, 1, &by_rows,
                       (weft_local_map_options){ .by_rows = true, .in_placements = moved });
    }
    expect_refused(WEFT_ERR_INVALID, "descriptions[1].in_place, but not that of descriptions[0]", 2, same, 2,
                   (weft_local_output[]){ by_rows, changed }, split);
    expect_refused(WEFT_ERR_INVALID, "descriptions[0].in_place, but there are 0 inputs", 0, NULL, 1, &changed, split);
    expect_refused(WEFT_ERR_INVALID, "inputs[0] and inputs[1] are one tensor, and both are changed", 2, same, 2,
                   (weft_local_output[]){ changed, changed }, split);
    expect_refused(WEFT_ERR_INVALID, "options.whole_inputs[0] is true, but the input is an output", 1, same, 1, &changed,
                   (weft_local_map_options){ .by_rows = true, .whole_inputs = whole });
    expect_refused(WEFT_ERR_INVALID, "a region that changes an input has no gradient", 1, same, 1, &changed,
                   (weft_local_map_options){ .gradient = combine });
    if (weft_world_size() > 1) {
        expect_refused(WEFT_ERR_LAYOUT, "options.in_placements[0] are not those of inputs[0], which is changed in place", 1, same, 1,
                       &changed, (weft_local_map_options){ .in_placements = moved });
    }
    weft_tensor *leaf = weft_ones(WEFT_F64, 2, shape, mesh, &rows);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    expect_refused(WEFT_ERR_STATE, "leaf", 1, &leaf, 1, &changed, split);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_as_shards), cmocka_unit_test(test_other_heights), cmocka_unit_test(test_random),
        cmocka_unit_test(test_in_place),       cmocka_unit_test(test_gradients),     cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
