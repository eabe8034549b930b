/* Placements that the program wants gradients of computed tensors in (PyTorch: grad_placements of to_local and full_tensor). */
#include <string.h>

#include "graph_support.h"

enum { ROWS = 5, COLUMNS = 3, COUNT = ROWS * COLUMNS, LAYOUTS = 3 };

static const weft_placement layouts[LAYOUTS] = { { .kind = WEFT_REPLICATE },
                                                 { .kind = WEFT_SHARD },
                                                 { .kind = WEFT_SHARD, .dim = 1 } };

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

/* rows x 3: 1, 2, ...; a leaf. */
static weft_tensor *counted(int64_t rows, const weft_placement *placement)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i + 1;
    }
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (int64_t[]){ rows, COLUMNS }, values, line(), placement);
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    return a;
}

static bool is_placed(const weft_tensor *tensor, const weft_placement *placement)
{
    const weft_placement *own = weft_tensor_placements(tensor);
    return own[0].kind == placement->kind && (own[0].kind != WEFT_SHARD || own[0].dim == placement->dim);
}

/* Element i is factor * (i + 1) ^ power. */
static void assert_powers(weft_tensor *tensor, double factor, int power)
{
    double values[COUNT];
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, "gradient");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        double expected = factor;
        for (int n = 0; n < power; n++) {
            expected *= (double)(i + 1);
        }
        assert_true(values[i] == expected);
    }
}

/* ---- the gradient flows back as asked ----------------------------------------------------------------------- */

/* A copy whose gradient is seen by the program: it must have these placements. */
static const weft_placement *expected_placement;
static int seen;

static void copy(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->outputs[0];
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        const double *from = weft_view_row(in, i, NULL);
        double *to = weft_view_row(out, i, NULL);
        for (int64_t j = 0; j < out->extent[1]; j++) {
            to[j * out->strides[1]] = from[j * in->strides[1]];
        }
    }
}

static weft_status look_at_gradient(const weft_gradient_request *request, weft_tensor *gradients[])
{
    assert_true(is_placed(request->output_gradients[0], expected_placement));
    seen++;
    gradients[0] = weft_scale(request->output_gradients[0], 1);
    return weft_last_status();
}

static const weft_operation *watching;

static weft_tensor *watched(weft_tensor *a)
{
    return weft_apply(watching, 1, &a, NULL);
}

/* sum (x^2 in another layout)^2: 4 x^3, and 12 x^2. */
static void check_flow(int64_t rows, int from, int to, int wanted)
{
    weft_scope_begin();
    weft_tensor *a = counted(rows, &layouts[from]), *of_full, *first, *second;
    weft_tensor *full = weft_redistribute(weft_square(a), NULL, &layouts[to]), *h = watched(full);
    assert_int_equal(weft_set_grad_placements(h, &layouts[wanted]), WEFT_OK);
    assert_int_equal(weft_set_grad_placements(full, &layouts[wanted]), WEFT_OK);
    expected_placement = &layouts[wanted];
    seen = 0;
    weft_tensor *loss = sum_all(weft_square(h));
    assert_int_equal(weft_backward(loss, &(weft_backward_options){ .retain = true }), WEFT_OK);
    assert_powers(weft_grad(a), 4, 3);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &full, true, &of_full), WEFT_OK);
    assert_int_equal(seen, 2);
    assert_true(is_placed(of_full, &layouts[wanted]));
    assert_powers(of_full, 2, 2);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, true, &first), WEFT_OK);
    assert_powers(first, 4, 3);
    loss = sum_all(first);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &second), WEFT_OK);
    assert_powers(second, 12, 2);
    weft_scope_end();
    assert_no_error();
}

/* Uneven shards, and empty ones. */
static void test_computed_tensors(void **state)
{
    (void)state;
    for (int n = 0; n < LAYOUTS * LAYOUTS * LAYOUTS; n++) {
        check_flow(5, n % 3, n / 3 % 3, n / 9);
        check_flow(1, n % 3, n / 3 % 3, n / 9);
    }
}

/* A leaf's: weft_gradients() gives what weft_grad() gives. */
static void test_leaves(void **state)
{
    (void)state;
    for (int n = 0; n < LAYOUTS * LAYOUTS; n++) {
        weft_scope_begin();
        weft_tensor *a = counted(5, &layouts[n % 3]), *gradient, *loss;
        assert_int_equal(weft_set_grad_placements(a, &layouts[n / 3]), WEFT_OK);
        loss = sum_all(weft_square(a));
        assert_int_equal(weft_backward(loss, &(weft_backward_options){ .retain = true }), WEFT_OK);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &gradient), WEFT_OK);
        assert_true(is_placed(weft_grad(a), &layouts[n / 3]) && is_placed(gradient, &layouts[n / 3]));
        assert_powers(weft_grad(a), 2, 1);
        assert_powers(gradient, 2, 1);
        assert_int_equal(weft_zero_grad(1, &a), WEFT_OK);
        assert_int_equal(weft_set_grad_placements(a, NULL), WEFT_OK);
        assert_int_equal(weft_backward(sum_all(weft_square(a)), NULL), WEFT_OK);
        assert_true(is_placed(weft_grad(a), &layouts[n % 3]));
        weft_scope_end();
        assert_no_error();
    }
}

/* Several gradients of one value; addends of an output that is Partial. */
static void test_sums(void **state)
{
    (void)state;
    for (int n = 0; n < LAYOUTS * LAYOUTS; n++) {
        weft_scope_begin();
        weft_tensor *a = counted(5, &layouts[n % 3]), *h = weft_square(a), *one = counted(3, &layouts[1]);
        assert_int_equal(weft_set_grad_placements(h, &layouts[n / 3]), WEFT_OK);
        expected_placement = &layouts[n / 3];
        weft_tensor *product = weft_matmul(weft_redistribute(h, NULL, &layouts[2]), one);
        assert_int_equal(weft_set_grad_placements(product, &layouts[n / 3]), WEFT_OK);
        weft_tensor *loss =
            weft_add(sum_all(weft_scale(product, 0)),
                     sum_all(weft_add(h, weft_scale(weft_redistribute(h, NULL, &layouts[1]), 2))));
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        assert_powers(weft_grad(a), 6, 1);
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- segments, graphs ----------------------------------------------------------------------------------------- */

static weft_status square_watched(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                  weft_tensor *outputs[])
{
    (void)num_inputs;
    (void)num_outputs;
    weft_tensor *h = watched(weft_square(inputs[0]));
    weft_status status = weft_set_grad_placements(h, context);
    outputs[0] = weft_square(h);
    return outputs[0] == NULL ? weft_last_status() : status;
}

static void test_segments(void **state)
{
    (void)state;
    for (int n = 0; n < LAYOUTS * LAYOUTS; n++) {
        weft_scope_begin();
        weft_placement wanted = layouts[n / 3];
        weft_tensor *a = counted(5, &layouts[n % 3]), *in[] = { weft_scale(a, 1) }, *out;
        expected_placement = &wanted;
        seen = 0;
        assert_int_equal(weft_recompute(square_watched, &wanted, sizeof(wanted), 1, in, 1, &out), WEFT_OK);
        assert_int_equal(weft_backward(sum_all(out), NULL), WEFT_OK);
        assert_int_equal(seen, 1);
        assert_powers(weft_grad(a), 4, 3);
        weft_scope_end();
        assert_no_error();
    }
}

typedef struct step {
    weft_tensor *leaf;
    int wanted, calls;
} step;

static weft_status take_step(void *context, weft_tensor *const inputs[], const double scalars[],
                             weft_tensor *outputs[])
{
    step *s = context;
    (void)scalars;
    s->calls++;
    weft_tensor *full = weft_redistribute(weft_mul(s->leaf, inputs[0]), NULL, NULL);
    weft_status status = weft_set_grad_placements(full, &layouts[s->wanted]);
    weft_tensor *loss = sum_all(weft_square(full));
    status = status == WEFT_OK ? weft_gradients(1, &loss, NULL, 1, &full, false, &outputs[0]) : status;
    loss = sum_all(weft_square(full));
    return status == WEFT_OK ? weft_gradients(1, &loss, NULL, 1, &s->leaf, false, &outputs[1]) : status;
}

/* 2 x y with y the input: captured, replayed, and frozen. */
static void test_graphs(void **state)
{
    (void)state;
    for (int n = 0; n < LAYOUTS * LAYOUTS; n++) {
        weft_scope_begin();
        step s = { .leaf = counted(5, &layouts[n % 3]), .wanted = n / 3 };
        weft_graph *graph = weft_graph_create("placements", take_step, &s, 1, 0, 2);
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        for (int i = 0; i < 6; i++) {
            weft_scope_begin();
            weft_tensor *x = weft_full(WEFT_F64, 1 + i, 2, (int64_t[]){ 5, 3 }, line(), &layouts[n % 3]),
                        *outputs[2];
            assert_int_equal(weft_graph_call(graph, &x, NULL, outputs), WEFT_OK);
            assert_true(is_placed(outputs[0], &layouts[s.wanted]));
            assert_powers(outputs[0], 2 * (1 + i), 1);
            assert_powers(outputs[1], 2 * (1 + i) * (1 + i), 1);
            weft_scope_end();
        }
        assert_true(info_of(graph).frozen);
        assert_true(s.calls < 6);
        weft_graph_destroy(graph);
        weft_scope_end();
        assert_no_error();
    }
}

/* Sets the placements of a tensor from outside the graph: a frozen replay, which does not run this function, would lose them. */
static weft_status set_outside(void *context, weft_tensor *const inputs[], const double scalars[],
                               weft_tensor *outputs[])
{
    (void)scalars;
    const step *s = context;
    outputs[0] = weft_scale(inputs[0], 2);
    return weft_set_grad_placements(s->leaf, &layouts[s->wanted]);
}

static void test_graphs_that_set_others(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = counted(5, &layouts[0]), *x = weft_ones_like(a), *output;
    step s = { .leaf = weft_square(a), .wanted = 1 };
    weft_graph *graph = weft_graph_create("outside", set_outside, &s, 1, 0, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
    s.wanted = 2;
    assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "cannot be frozen: weft_set_grad_placements inside is no call of the graph");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* The gradient of a sum is cut as its input is: nothing moves from one cut to another. */
static void test_gradients_of_sums_move_nothing(void **state)
{
    (void)state;
    static const weft_cut_kind cuts[] = { WEFT_CUT_BALANCED, WEFT_CUT_CYCLIC, WEFT_CUT_ZIGZAG };
    for (int l = 0; l < 3; l++) {
        weft_scope_begin();
        weft_placement placement = { .kind = WEFT_SHARD, .cut = cuts[l], .block = 1 };
        weft_tensor *a = counted(5, &placement), *all = sum_all(a), *mean = weft_mean(a, 1, false), *nansum = weft_nansum(a, 1, true);
        weft_tensor *loss = weft_add(all, weft_add(sum_all(mean), sum_all(nansum)));
        weft_counters before, after;
        assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
        bool equals_chunks = weft_tensor_placements(a)[0].cut == WEFT_CUT_CHUNKS; /* on three ranks balanced rows do */
        assert_true(equals_chunks || after.bytes_moved == before.bytes_moved);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = counted(5, &layouts[1]), *h = weft_square(a), *constant = weft_ones_like(a);
    const weft_placement addends = weft_partial(WEFT_SUM), beyond = weft_shard(2);
    assert_int_equal(weft_set_grad_placements(h, &addends), WEFT_ERR_LAYOUT);
    assert_error(WEFT_ERR_LAYOUT, "placements[0] is Partial: gradients are whole");
    assert_int_equal(weft_set_grad_placements(h, &beyond), WEFT_ERR_LAYOUT);
    weft_clear_error();
    assert_int_equal(weft_set_grad_placements(constant, &layouts[0]), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor requires no gradient");
    assert_int_equal(weft_set_grad_placements(NULL, &layouts[0]), WEFT_ERR_INVALID);
    weft_clear_error();
    weft_no_grad_begin();
    assert_int_equal(weft_set_grad_placements(weft_square(a), &layouts[0]), WEFT_OK);
    assert_int_equal(weft_set_grad_placements(weft_square(a), &addends), WEFT_ERR_LAYOUT);
    weft_clear_error();
    weft_no_grad_end();
    assert_int_equal(weft_backward(sum_all(h), NULL), WEFT_OK);
    assert_int_equal(weft_set_grad_placements(a, &layouts[2]), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_zero_grad() drops it");
    assert_int_equal(weft_set_grad_placements(a, &layouts[1]), WEFT_OK);
    assert_powers(weft_grad(a), 2, 1);
    weft_scope_end();
    assert_no_error();
}

static void test_watching(void **state)
{
    (void)state;
    const weft_operation_description description = { .name = "watched",
                                                     .rule = "ab->ab",
                                                     .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
                                                     .gradient = look_at_gradient,
                                                     .kernel = copy };
    watching = weft_operation_register(&description);
    assert_non_null(watching);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watching),
        cmocka_unit_test(test_computed_tensors),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_graphs_that_set_others),
        cmocka_unit_test(test_gradients_of_sums_move_nothing),
        cmocka_unit_test(test_refusals),
    };
    return RUN_ON_RANKS(tests);
}
