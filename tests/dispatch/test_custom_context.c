/* User-defined operations with a context, and those that draw random numbers: in random layouts, with panels of several
 * heights, in captured and frozen graphs, with gradients, and refused. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ------------------------------------------------------------------------------------------- */

typedef struct line {
    double factor, addend;
} line;

/* b = factor a + addend, all from the context: "A->A". */
static void follow_line(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *out = &call->output;
    const line *l = call->context;
    int64_t width = out->ndim == 0 ? 1 : out->row_elements;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        const double *from = weft_view_row(a, row, NULL);
        double *to = weft_view_row(out, row, NULL);
        for (int64_t i = 0; i < width; i++) {
            to[i] = l->factor * from[i] + l->addend;
        }
    }
}

/* 1 where it has no context: "A->A", in place of weft's. */
static void has_none(const weft_kernel_call *call)
{
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        double *to = weft_view_row(&call->output, row, NULL);
        for (int64_t i = 0; i < (call->output.ndim == 0 ? 1 : call->output.row_elements); i++) {
            to[i] = call->context == NULL && call->random.seed == 0;
        }
    }
}

/* Uniform numbers (scalars[0] 0), normal ones (1); scalars[3] times them is added to a. */
static void add_noise(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *out = &call->output;
    int64_t width = out->ndim == 0 ? 1 : out->row_elements;
    bool normal = call->scalars[0] > 0;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        const void *from = weft_view_row(a, row, NULL);
        void *to = weft_view_row(out, row, NULL);
        for (int64_t i = 0; i < width; i++) {
            uint64_t number = weft_view_number(out, row, i);
            if (out->dtype == WEFT_F64) {
                double drawn = normal ? weft_random_normal(&call->random, number) : weft_random_uniform(&call->random, number);
                ((double *)to)[i] = ((const double *)from)[i] + call->scalars[3] * drawn;
            } else {
                float drawn =
                    normal ? weft_random_normal_f32(&call->random, number) : weft_random_uniform_f32(&call->random, number);
                ((float *)to)[i] = ((const float *)from)[i] + (float)call->scalars[3] * drawn;
            }
        }
    }
}

static const weft_operation *op_line, *op_noise;
static double factor_of_gradient;

static weft_status gradient_of_line(const weft_gradient_request *request, weft_tensor *gradients[])
{
    const line *l = request->options->context;
    factor_of_gradient = l->factor;
    gradients[0] = weft_scale(request->output_gradients[0], l->factor);
    return gradients[0] == NULL ? WEFT_ERR_INVALID : WEFT_OK;
}

/* Of a + s noise: the gradient itself, if the scalars are the program's. */
static weft_status gradient_of_noise(const weft_gradient_request *request, weft_tensor *gradients[])
{
    gradients[0] = weft_scale(request->output_gradients[0], request->options->scalars[3]);
    return request->options->num_scalars == WEFT_MAX_RANDOM_SCALARS ? WEFT_OK : WEFT_ERR_INVALID;
}

static void register_all(void)
{
    const weft_operation_input a = { "a", WEFT_TYPE_BIT(WEFT_F64), false }, wide = { "a", WEFT_TYPES_WIDE, false };
    op_line = weft_operation_register(&(weft_operation_description){
        .name = "line", .rule = "A->A", .inputs = { a }, .kernel = follow_line, .gradient = gradient_of_line });
    op_noise = weft_operation_register(&(weft_operation_description){
        .name = "noise", .rule = "A->A", .inputs = { wide }, .kernel = add_noise, .random = true, .gradient = gradient_of_noise });
    assert_no_error();
}

static void start_registered(const char *variable, const char *value)
{
    start_seeded_world(variable, value, 0x123456789abcdefu);
    register_all();
}

static weft_tensor *apply_line(weft_tensor *a, line *l, bool copied)
{
    weft_apply_options options = { .context = l, .context_size = copied ? sizeof(*l) : 0 };
    return weft_apply(op_line, 1, &a, &options);
}

static weft_tensor *apply_noise(weft_tensor *a, bool normal, double scale)
{
    weft_apply_options options = { .num_scalars = 4, .scalars = { normal, 0, 0, scale } };
    return weft_apply(op_noise, 1, &a, &options);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static line kept_line = { 2, -1 };

static void case_context(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    operand a = make_operand(any_mesh(), WEFT_F64, ndim, shape, WHOLE, 0);
    bool copied = below(2);
    line own = { (double)below(9), (double)below(9) }, *used = copied ? &own : &kept_line;
    for (int64_t i = 0; i < a.count; i++) {
        a.dense[i] = used->factor * a.dense[i] + used->addend;
    }
    weft_tensor *b = apply_line(a.tensor, used, copied);
    own = (line){ 1e9, 1e9 };
    check(b, WEFT_F64, ndim, shape, a.dense, a.exact ? 0 : 32, 100, describe_operand(&a));
    release(&a);
}

/* The values of weft_rand() and weft_randn(), whatever the layout. */
static void case_random(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    weft_dtype type = below(2) ? WEFT_F64 : WEFT_F32;
    operand a = make_operand(any_mesh(), type, ndim, shape, INDEX, 1);
    bool normal = below(2);
    weft_random_state before, after;
    assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
    weft_tensor *drawn = apply_noise(a.tensor, normal, 1);
    assert_int_equal(weft_random_state_get(NULL, &after), WEFT_OK);
    assert_true(after.seed == before.seed && after.offset == before.offset + 1);
    assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
    weft_tensor *expected = (normal ? weft_randn : weft_rand)(type, ndim, shape, a.mesh, NULL);
    double *values = malloc(((size_t)a.count + 1) * sizeof(double));
    assert_int_equal(weft_to_host(weft_to_type(expected, WEFT_F64), values, (size_t)a.count * sizeof(double)), WEFT_OK);
    check(drawn, type, ndim, shape, values, 0, 1, describe_operand(&a));
    free(values);
    release(&a);
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

/* Mean, variance, and no correlation of neighbours, at a distance of 1 to 5, nor of states that follow each other. */
static void expect_independent(double (*draw)(const weft_random_state *state, uint64_t number), double mean, double variance)
{
    enum { COUNT = 200000 };
    double sums[6] = { 0 }, others = 0, sum = 0, last[6] = { 0 };
    weft_random_state state = { 77, 3 }, next = { 77, 4 };
    for (uint64_t i = 0; i < COUNT; i++) {
        double value = draw(&state, i) - mean;
        sum += value;
        others += value * (draw(&next, i) - mean);
        for (int d = 5; d > 0; d--) {
            last[d] = last[d - 1];
        }
        last[0] = value;
        for (int d = 0; d <= 5; d++) {
            sums[d] += value * last[d];
        }
    }
    const double bound = 5 / sqrt(COUNT); /* of five deviations, in units of the variance */
    assert_true(fabs(sum / COUNT) < bound * sqrt(variance));
    assert_true(fabs(sums[0] / COUNT - variance) < 2 * bound * variance);
    assert_true(fabs(others / COUNT) < bound * variance);
    for (int d = 1; d <= 5; d++) {
        assert_true(fabs(sums[d] / COUNT) < bound * variance);
    }
}

static double uniform(const weft_random_state *state, uint64_t number)
{
    double value = weft_random_uniform(state, number);
    assert_true(value >= 0 && value < 1);
    return value;
}

static double narrow_uniform(const weft_random_state *state, uint64_t number)
{
    float value = weft_random_uniform_f32(state, number);
    assert_true(value >= 0 && value < 1);
    return (double)value;
}

static double narrow_normal(const weft_random_state *state, uint64_t number)
{
    return (double)weft_random_normal_f32(state, number);
}

static void test_statistics(void **state)
{
    (void)state;
    expect_independent(uniform, 0.5, 1.0 / 12);
    expect_independent(narrow_uniform, 0.5, 1.0 / 12);
    expect_independent(weft_random_normal, 0, 1);
    expect_independent(narrow_normal, 0, 1);
}

static weft_tensor *ramp(int64_t count)
{
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    weft_tensor *a = weft_empty(WEFT_F64, 1, &count, mesh, &rows);
    return weft_scale(weft_ones_like(a), 3);
}

static void expect_all(weft_tensor *tensor, int64_t count, double value)
{
    double *values = malloc((size_t)count * sizeof(double));
    assert_int_equal(weft_to_host(tensor, values, (size_t)count * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == value);
    }
    free(values);
}

enum { COUNT = 37 };

static void test_gradients(void **state)
{
    (void)state;
    start_registered("WEFT_PANEL_ROWS", "1");
    weft_scope_begin();
    weft_tensor *x = ramp(COUNT);
    assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
    line l = { 5, 1 };
    weft_tensor *y = apply_line(x, &l, true);
    l.factor = 0;
    assert_int_equal(weft_backward(weft_sum(apply_noise(y, false, 2), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_true(factor_of_gradient == 5);
    expect_all(weft_grad(x), COUNT, 10);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A segment that is computed again draws the same numbers. */
static weft_status noisy_square(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    weft_tensor *noise = apply_noise(weft_zeros_like(inputs[0]), true, 1);
    outputs[0] = weft_mul(weft_mul(inputs[0], noise), noise);
    return outputs[0] == NULL ? WEFT_ERR_INVALID : WEFT_OK;
}

static void test_recomputed(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    weft_tensor *gradients[2];
    for (int i = 0; i < 2; i++) {
        weft_tensor *x = ramp(COUNT), *y = NULL;
        assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
        assert_int_equal(weft_random_seed(5), WEFT_OK);
        if (i == 0) {
            assert_int_equal(noisy_square(NULL, 1, &x, 1, &y), WEFT_OK);
        } else {
            assert_int_equal(weft_recompute(noisy_square, NULL, 0, 1, &x, 1, &y), WEFT_OK);
        }
        assert_non_null(weft_rand_like(x)); /* moves the state on */
        assert_int_equal(weft_backward(weft_sum(y, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        gradients[i] = weft_grad(x);
    }
    assert_same_shards(gradients[1], gradients[0], "the gradient of a segment that is computed again");
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- graphs ---------------------------------------------------------------------------------------------- */

static line of_graph;
static bool copies;

static weft_status noisy_line(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    line own = of_graph;
    weft_tensor *y = apply_line(inputs[0], copies ? &own : &of_graph, copies);
    weft_tensor *z = weft_scale(apply_noise(y, true, scalars[0]), 2);
    outputs[0] = weft_add(apply_noise(z, false, 1), weft_dropout(y, 0.5, true, NULL));
    return outputs[0] == NULL ? WEFT_ERR_INVALID : WEFT_OK;
}

static void run_graph(bool copied, bool frozen)
{
    weft_scope_begin();
    copies = copied;
    of_graph = (line){ 2, 1 };
    weft_tensor *x = ramp(COUNT), *outputs[1], *expected[1];
    weft_graph *graph = weft_graph_create("noisy_line", noisy_line, NULL, 1, 1, 1);
    for (int run = 0; run < 6; run++) {
        if (run == 3 && frozen) {
            assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        }
        if (run == 4 && !frozen) {
            of_graph.factor = 7; /* another context is another trace, if it is copied */
        }
        double scale = run;
        weft_random_state before;
        assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
        assert_int_equal(weft_graph_call(graph, &x, &scale, outputs), WEFT_OK);
        assert_int_equal(weft_random_state_set(NULL, before), WEFT_OK);
        assert_int_equal(noisy_line(NULL, &x, &scale, expected), WEFT_OK);
        assert_same_shards(outputs[0], expected[0], copied ? "a graph with a copied context" : "a graph with a context");
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

/* Contexts that take turns are two traces, each found again. */
static void test_contexts_in_turn(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    copies = true;
    weft_tensor *x = ramp(COUNT), *output;
    weft_graph *graph = weft_graph_create("noisy_line", noisy_line, NULL, 1, 1, 1);
    for (int run = 0; run < 20; run++) {
        of_graph = (line){ run % 2, 1 };
        assert_int_equal(weft_graph_call(graph, &x, &(double){ 1 }, &output), WEFT_OK);
    }
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_int_equal(info.captures, 2);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_graphs(void **state)
{
    (void)state;
    for (int tall = 0; tall < 2; tall++) {
        start_registered(tall ? NULL : "WEFT_PANEL_ROWS", "1");
        for (int i = 0; i < 4; i++) {
            run_graph(i % 2, i / 2);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* ---- refused --------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    weft_tensor *x = ramp(COUNT);
    weft_random_state before, after;
    assert_int_equal(weft_random_state_get(NULL, &before), WEFT_OK);
    assert_null(weft_apply(op_line, 1, &x, &(weft_apply_options){ .context_size = 1 }));
    assert_error(WEFT_ERR_INVALID, "options.context is NULL, but options.context_size is not 0");
    assert_null(weft_apply(op_line, 1, &x, &(weft_apply_options){ .context = &kept_line, .context_size = (1 << 20) + 1 }));
    assert_error(WEFT_ERR_INVALID, "options.context_size is 1048577, expected at most 1048576");
    assert_null(weft_apply(op_noise, 1, &x, &(weft_apply_options){ .num_scalars = 5 }));
    assert_error(WEFT_ERR_INVALID, "num_scalars is 5, expected 0 to 4");
    assert_null(weft_apply(op_noise, 2, &x, NULL));
    assert_error(WEFT_ERR_INVALID, "num_tensors");
    assert_int_equal(weft_random_state_get(NULL, &after), WEFT_OK);
    assert_true(before.offset == after.offset);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The largest context that is copied reaches many tasks. */
static void test_large_context(void **state)
{
    (void)state;
    start_registered("WEFT_PANEL_ROWS", "1");
    weft_scope_begin();
    static line large[(1 << 20) / sizeof(line)];
    weft_tensor *x = ramp(200), *y = x;
    for (int i = 0; i < 30; i++) {
        large[0] = (line){ 1, i };
        y = weft_apply(op_line, 1, &y, &(weft_apply_options){ .context = large, .context_size = sizeof(large) });
    }
    expect_all(y, 200, 3 + 29 * 30 / 2);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A kernel in place of weft's has neither. */
static void test_replaced(void **state)
{
    (void)state;
    start_registered(NULL, NULL);
    weft_scope_begin();
    weft_tensor *x = ramp(COUNT);
    assert_int_equal(weft_operation_replace(&(weft_operation_description){ .name = "tanh", .kernel = has_none, .random = true }),
                     WEFT_OK);
    expect_all(weft_tanh(x), COUNT, 1);
    assert_int_equal(weft_operation_restore("tanh"), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static const family families[] = {
    { "context", case_context },
    { "random", case_random },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 1, start_registered };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics), cmocka_unit_test(test_gradients),     cmocka_unit_test(test_recomputed),
        cmocka_unit_test(test_graphs),     cmocka_unit_test(test_refused),       cmocka_unit_test(test_large_context),
        cmocka_unit_test(test_contexts_in_turn),
        cmocka_unit_test(test_replaced),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
