/* Graphs under attack: whatever a function does, it gives what it gives without a graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "runtime/runtime.h"
#include "tensor/tensor.h"

/* A function that is run in a graph, several times, and without one. */
typedef struct attack {
    weft_graph_function function;
    int num_outputs;
    weft_status expected;
    int rounds;
} attack;

/* What a function changes; it may keep tensors from run to run. */
typedef struct state {
    weft_tensor *parameter, *kept[3];
    int round;
} state;

static state begin_state(int64_t rows, const weft_placement *placements)
{
    state s = { .parameter = numbers(3, rows, placements) };
    return s;
}

static void end_state(state *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->kept[i] != NULL) {
            weft_tensor_release(s->kept[i]);
        }
    }
}

static void run_attack(const attack *a, int64_t rows, const weft_placement *placements)
{
    weft_scope_begin();
    state eager = begin_state(rows, placements), captured = begin_state(rows, placements);
    weft_tensor *x = numbers(4, rows, placements), *inputs[] = { x, x };
    weft_graph *graph = weft_graph_create("attack", a->function, &captured, 2, 1, a->num_outputs);
    for (int round = 0; round < a->rounds; round++) {
        double scalar = 0.5 + round;
        weft_tensor *outputs[2] = { NULL }, *expected[2] = { NULL };
        eager.round = captured.round = round;
        weft_status status = weft_graph_call(graph, inputs, &scalar, outputs);
        assert_int_equal(status, a->expected);
        weft_scope_begin();
        assert_int_equal(a->function(&eager, inputs, &scalar, expected), status);
        weft_clear_error();
        for (int i = 0; i < a->num_outputs && status == WEFT_OK; i++) {
            assert_same_tensors(outputs[i], expected[i], "output");
        }
        assert_same_tensors(captured.parameter, eager.parameter, "parameter");
        for (int i = 0; i < 3; i++) {
            assert_same_tensors(captured.kept[i], eager.kept[i], "kept");
        }
        weft_scope_end();
    }
    end_state(&eager);
    end_state(&captured);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void run_on_layouts(const attack *a)
{
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    static const int64_t rows[] = { 5, 1, 0 };
    for (int l = 0; l < 3; l++) {
        for (int i = 0; i < 3; i++) {
            run_attack(a, rows[i], &layouts[l]);
        }
    }
}

/* ---- reads ------------------------------------------------------------------------------------------------- */

/* The comparison makes calls of its own, which are not deferred. */
static weft_status compare_inside(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    state *s = context;
    bool equal = true, close = false;
    weft_tensor *doubled = weft_add(inputs[0], inputs[1]), *more = weft_add_scalar(doubled, scalars[0]);
    assert_int_equal(weft_equal(doubled, more, &equal), WEFT_OK);
    assert_int_equal(weft_allclose(doubled, weft_add_scalar(more, -scalars[0]), 1e-6, 1e-6, false, &close), WEFT_OK);
    assert_true(close && equal == (weft_tensor_num_elements(doubled) == 0));
    outputs[0] = weft_mul(more, s->parameter);
    return WEFT_OK;
}

static void test_comparing_inside(void **unused)
{
    (void)unused;
    run_on_layouts(&(attack){ compare_inside, 1, WEFT_OK, 3 });
}

/* The layout of a norm depends on its order. */
static weft_status norm_inside(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    static const double orders[] = { 1, 2, 0, 3, (double)INFINITY, 1, 1.5 };
    const state *s = context;
    (void)scalars;
    outputs[0] = weft_norm(inputs[0], orders[s->round], 1, true);
    outputs[1] = s->round % 2 == 0 ? weft_norm(weft_add(inputs[0], s->parameter), orders[s->round], 1, false)
                                   : weft_var(inputs[0], 1, s->round == 1 ? 1 : 5, false);
    return WEFT_OK;
}

static void test_norms(void **unused)
{
    (void)unused;
    run_on_layouts(&(attack){ norm_inside, 2, WEFT_OK, 7 });
}

/* ---- references -------------------------------------------------------------------------------------------- */

/* Tensors go from run to run, and are freed in the next but two. */
static weft_status keep_inside(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    state *s = context;
    int place = s->round % 3;
    weft_tensor *sum = weft_add_scaled(inputs[0], s->parameter, scalars[0]);
    for (int i = 0; i < 3; i++) {
        sum = s->kept[i] == NULL ? sum : weft_add(sum, s->kept[i]);
    }
    if (s->kept[place] != NULL) {
        weft_scale_inplace(s->kept[place], 3);
        outputs[1] = weft_neg(s->kept[place]);
        weft_tensor_release(s->kept[place]);
    } else {
        outputs[1] = inputs[1];
    }
    s->kept[place] = weft_mul(sum, sum);
    weft_tensor_retain(s->kept[place]);
    weft_tensor_retain(s->kept[place]);
    weft_tensor_release(s->kept[place]);
    weft_scope_begin();
    weft_tensor *inner = weft_scope_keep(weft_neg(sum));
    weft_add_inplace(inner, s->kept[place], 1);
    weft_scope_end();
    weft_copy_inplace(s->parameter, inner);
    outputs[0] = inner;
    return WEFT_OK;
}

static void test_tensors_kept_from_run_to_run(void **unused)
{
    (void)unused;
    run_on_layouts(&(attack){ keep_inside, 2, WEFT_OK, 9 });
}

/* Inputs that are outputs, changed in place; one tensor as two inputs. */
static weft_status alias(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    state *s = context;
    weft_tensor *copy = weft_add_scalar(inputs[0], 0), *view = weft_detach(copy);
    outputs[0] = weft_add_inplace(copy, inputs[1], scalars[0]);
    outputs[1] = s->round % 2 == 0 ? copy : view;
    weft_add_inplace(s->parameter, s->parameter, 1);
    weft_add_inplace(s->parameter, view, 1);
    return WEFT_OK;
}

static void test_aliases(void **unused)
{
    (void)unused;
    run_on_layouts(&(attack){ alias, 2, WEFT_OK, 6 });
}

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Calls until an error are executed as they would have been without a graph. */
static weft_status fail_midway(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    state *s = context;
    (void)outputs;
    weft_add_inplace(s->parameter, inputs[0], scalars[0]);
    if (s->kept[0] == NULL) {
        s->kept[0] = weft_mul(s->parameter, inputs[1]);
        weft_tensor_retain(s->kept[0]);
    }
    assert_null(weft_reshape(s->parameter, 1, (int64_t[]){ 1000 }));
    weft_scale_inplace(s->kept[0], 2);
    weft_scope_begin();
    weft_tensor *lost = weft_exp(s->kept[0]);
    assert_null(weft_add(lost, NULL));
    return WEFT_ERR_IO;
}

static void test_errors_midway(void **unused)
{
    (void)unused;
    for (int l = 0; l < 2; l++) {
        const weft_placement layout = l == 0 ? weft_replicate() : weft_shard(0);
        weft_scope_begin();
        state eager = begin_state(5, &layout), captured = begin_state(5, &layout);
        weft_tensor *x = numbers(4, 5, &layout), *inputs[] = { x, x }, *output;
        weft_graph *graph = weft_graph_create("fails", fail_midway, &captured, 2, 1, 1);
        for (int round = 0; round < 4; round++) {
            double scalar = round;
            assert_int_equal(weft_graph_call(graph, inputs, &scalar, &output), WEFT_ERR_IO);
            assert_null(output);
            assert_int_equal(fail_midway(&eager, inputs, &scalar, &output), WEFT_ERR_IO);
            weft_scope_end();
            weft_clear_error();
            assert_same_shards(captured.parameter, eager.parameter, "parameter");
            assert_same_shards(captured.kept[0], eager.kept[0], "kept");
        }
        end_state(&eager);
        end_state(&captured);
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- regions, and functions that call functions ---------------------------------------------------------------- */

static weft_status square(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)context, (void)num_inputs, (void)num_outputs;
    outputs[0] = weft_mul(weft_dropout(inputs[0], 0.25, true, NULL), inputs[0]);
    return WEFT_OK;
}

static weft_status inner_function(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_add_scalar(inputs[0], scalars[0]);
    outputs[1] = inputs[0];
    return WEFT_OK;
}

static weft_status nest(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    state *s = context;
    for (int i = 0; i < 200; i++) {
        weft_scope_begin();
    }
    weft_tensor *deep = weft_neg(inputs[0]);
    for (int i = 0; i < 200; i++) {
        deep = weft_scope_keep(deep);
        weft_scope_end();
    }
    weft_graph *graph = weft_graph_create("inner", inner_function, NULL, 1, 1, 2);
    weft_tensor *inside[2];
    assert_int_equal(weft_graph_call(graph, &deep, scalars, inside), WEFT_OK);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_tensor *leaf = weft_detach(inside[0]), *squared;
    weft_set_requires_grad(leaf, true);
    assert_int_equal(weft_recompute(square, NULL, 0, 1, &leaf, 1, &squared), WEFT_OK);
    assert_int_equal(weft_backward(weft_sum(squared, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    weft_no_grad_begin();
    weft_add_inplace(s->parameter, weft_grad(leaf), -scalars[0]);
    weft_no_grad_end();
    weft_autocast_begin(WEFT_BF16);
    weft_tensor *product = weft_matmul(weft_to_type(inputs[0], WEFT_F32), weft_to_type(weft_transpose(inputs[1], 0, 1), WEFT_F32));
    weft_autocast_end();
    outputs[0] = weft_to_type(product, WEFT_F64);
    outputs[1] = weft_detach(squared);
    return WEFT_OK;
}

/* The random states of both roads go on alike. */
static weft_status nest_seeded(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_random_seed(11);
    weft_scope_begin();
    weft_tensor *own[2];
    weft_status status = nest(context, inputs, scalars, own);
    outputs[0] = weft_scope_keep(own[0]);
    outputs[1] = weft_scope_keep(own[1]);
    weft_scope_end();
    return status;
}

static void test_regions_and_nesting(void **unused)
{
    (void)unused;
    run_on_layouts(&(attack){ nest_seeded, 2, WEFT_OK, 3 });
}

/* ---- nothing is left over ------------------------------------------------------------------------------------- */

static void test_thousand_replays(void **unused)
{
    (void)unused;
    const weft_placement rows = weft_shard(0);
    weft_scope_begin();
    state captured = begin_state(6, &rows);
    weft_tensor *x = numbers(4, 6, &rows), *inputs[] = { x, x };
    weft_graph *graph = weft_graph_create("flat", keep_inside, &captured, 2, 1, 2);
    size_t tensors = 0, memory = 0;
    int64_t bytes = 0;
    weft_graph_info info;
    for (int round = 0; round < 1000; round++) {
        weft_tensor *outputs[2];
        double scalar = 1e-3 * round;
        captured.round = round;
        weft_scope_begin();
        weft_fill_inplace(captured.parameter, 0.5);
        assert_int_equal(weft_graph_call(graph, inputs, &scalar, outputs), WEFT_OK);
        weft_fill_inplace(captured.kept[round % 3], 0.25);
        weft_scope_end();
        if (round % 100 == 0) {
            assert_int_equal(weft_wait(), WEFT_OK);
        }
        if (round == 500) {
            tensors = weft_runtime.handles.tensors.num_objects;
            bytes = weft_pool_bytes_in_use(weft_runtime.pool);
            assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
            memory = info.bytes;
        }
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_runtime.handles.tensors.num_objects, tensors);
    assert_true(weft_pool_bytes_in_use(weft_runtime.pool) <= bytes);
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_true(info.bytes == memory && info.num_traces < 16);
    end_state(&captured);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparing_inside),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_tensors_kept_from_run_to_run),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_errors_midway),
        cmocka_unit_test(test_regions_and_nesting),
        cmocka_unit_test(test_thousand_replays),
    };
    return RUN_ON_RANKS(tests);
}
