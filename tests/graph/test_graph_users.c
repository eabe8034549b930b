/* Graphs as programs use them: arrays for inputs and outputs alike, copies of weights, gradients that are there already. */
#include <string.h>

#include "graph_support.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"

static weft_tensor *numbers_of(uint64_t seed, int ndim, const int64_t shape[], weft_placement placement)
{
    weft_random_state before;
    weft_random_state_get(NULL, &before);
    weft_random_seed(seed);
    weft_tensor *made = weft_randn(WEFT_F64, ndim, shape, line(), &placement);
    weft_random_state_set(NULL, before);
    return made;
}

static weft_tensor *matrix(uint64_t seed)
{
    return numbers_of(seed, 2, (int64_t[]){ 5, 3 }, weft_shard(0));
}

/* ---- arguments ---------------------------------------------------------------------------------------------- */

static weft_status advance(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_add_scaled(inputs[0], inputs[1], scalars[0]);
    outputs[1] = weft_mul(inputs[0], inputs[1]);
    return WEFT_OK;
}

static void test_outputs_in_the_array_of_inputs(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        weft_scope_begin();
        weft_tensor *expected[3] = { matrix(1), matrix(2), NULL }, *all[3] = { expected[0], expected[1], NULL };
        weft_graph *graph = weft_graph_create("advance", advance, NULL, 2, 1, 2);
        weft_graph_freeze(graph, frozen);
        for (int round = 0; round < 6; round++) {
            int shift = round % 2; /* the arrays overlap in a part */
            double scalar = 0.1 * round;
            weft_tensor *next[2];
            assert_int_equal(weft_graph_call(graph, all, &scalar, all + shift), WEFT_OK);
            assert_int_equal(advance(NULL, expected, &scalar, next), WEFT_OK);
            memcpy(expected + shift, next, sizeof(next));
            for (int i = 0; i < 2 + shift; i++) {
                assert_same_shards(all[i], expected[i], "state");
            }
        }
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- frozen graphs ------------------------------------------------------------------------------------------ */

static weft_status combine(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor **teacher = context;
    outputs[0] = weft_add_scaled(inputs[0], teacher == NULL ? inputs[1] : *teacher, scalars[0]);
    return WEFT_OK;
}

/* A copy that had its original's value in the runs that were observed has another one later. */
static void test_frozen_copies_of_weights(void **state)
{
    (void)state;
    for (int by_context = 0; by_context < 2; by_context++) {
        weft_scope_begin();
        weft_tensor *weight = matrix(1), *teacher = weft_detach(weight), *inputs[2] = { weight, teacher }, *output;
        weft_graph *graph = weft_graph_create("combine", combine, by_context ? &teacher : NULL, by_context ? 1 : 2, 1, 1);
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        for (int round = 0; round < 6; round++) {
            double scalar = 1 + round;
            weft_tensor *expected;
            if (round == 4) {
                weft_add_inplace(weight, weight, 1);
            }
            weft_status status = weft_graph_call(graph, inputs, &scalar, &output);
            assert_int_equal(combine(by_context ? &teacher : NULL, inputs, &scalar, &expected), WEFT_OK);
            assert_int_equal(status, WEFT_OK);
            assert_same_shards(output, expected, "output");
        }
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
    assert_no_error();
}

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor **weight = context;
    weft_tensor *loss = weft_sum(weft_mul(*weight, inputs[0]), WEFT_ALL_DIMS, false), *gradient;
    weft_backward(loss, NULL);
    gradient = weft_grad(*weight);
    weft_sgd_options options;
    weft_sgd_options_init(&options);
    options.learning_rate = scalars[0];
    weft_no_grad_begin();
    weft_sgd(1, weight, &gradient, &options, NULL);
    weft_no_grad_end();
    outputs[0] = weft_detach(loss);
    return weft_zero_grad(1, weight);
}

static void add_gradient(weft_tensor *weight)
{
    assert_int_equal(weft_backward(weft_sum(weft_mul(weight, weight), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
}

/* A gradient that is there before the run is added to, although it was not there in the runs that were observed. */
static void test_frozen_gradients_from_outside(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *mine = matrix(1), *theirs = matrix(1), *batch = matrix(2), *loss, *expected;
    weft_set_requires_grad(mine, true);
    weft_set_requires_grad(theirs, true);
    weft_graph *graph = weft_graph_create("train", train, &mine, 1, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int round = 0; round < 9; round++) {
        double rate = 0.1 / (1 + round);
        if (round == 4) {
            add_gradient(mine);
            add_gradient(theirs);
        }
        assert_int_equal(weft_graph_call(graph, &batch, &rate, &loss), WEFT_OK);
        assert_int_equal(train(&theirs, &batch, &rate, &expected), WEFT_OK);
        assert_same_shards(loss, expected, "loss");
        assert_same_shards(weft_detach(mine), weft_detach(theirs), "weight");
        assert_null(weft_grad(mine));
    }
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_true(info.frozen && info.frozen_replays == 3);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

/* ---- fused calls --------------------------------------------------------------------------------------------- */

/* Tensors of the same rows, of which ranks have other columns. */
static weft_status add_each(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *narrow = weft_add(inputs[0], inputs[0]), *wide = weft_add(inputs[1], inputs[1]);
    outputs[0] = narrow;
    outputs[1] = weft_mul(wide, inputs[1]);
    outputs[2] = weft_mul(narrow, inputs[0]);
    return WEFT_OK;
}

/* A rank may have no elements of the first. */
static weft_status compare_then_scale(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_lt(inputs[0], inputs[1]);
    outputs[2] = weft_atan2(inputs[1], inputs[2]);
    outputs[1] = weft_mul(outputs[2], inputs[1]);
    return WEFT_OK;
}

/* The vector is read by a call of other rows before it is changed. */
static weft_status read_then_change(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *vector = weft_sum(inputs[0], 0, false), *twice = weft_add(inputs[2], inputs[2]);
    outputs[1] = weft_add(inputs[0], vector);
    weft_tensor *negative = weft_neg(vector);
    outputs[2] = weft_add_inplace(vector, negative, 0.5);
    outputs[0] = weft_mul(negative, twice);
    return WEFT_OK;
}

static void compare_fused(weft_graph_function function, weft_tensor *const inputs[])
{
    weft_graph *graph = weft_graph_create("fused", function, NULL, 3, 0, 3);
    assert_int_equal(weft_graph_set_passes(graph, WEFT_PASS_FUSE), WEFT_OK);
    for (int round = 0; round < 3; round++) {
        weft_tensor *outputs[3], *expected[3];
        assert_int_equal(weft_graph_call(graph, inputs, NULL, outputs), WEFT_OK);
        assert_int_equal(function(NULL, inputs, NULL, expected), WEFT_OK);
        for (int i = 0; i < 3; i++) {
            assert_same_shards(outputs[i], expected[i], "output");
        }
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
}

static void test_f9_other_columns(void **state)
{
    (void)state;
    weft_scope_begin();
    for (int narrow = 0; narrow < 2; narrow++) {
        int64_t shape[] = { 5, 6 };
        compare_fused(add_each, (weft_tensor *[]){ numbers_of(1, 2, shape, narrow ? weft_replicate() : weft_shard(1)),
                                                   numbers_of(2, 2, shape, narrow ? weft_shard(1) : weft_replicate()),
                                                   numbers_of(3, 2, shape, weft_replicate()) });
    }
    weft_tensor *one = numbers_of(1, 4, (int64_t[]){ 1, 1, 1, 1 }, weft_replicate());
    compare_fused(compare_then_scale, (weft_tensor *[]){ numbers_of(2, 4, (int64_t[]){ 1, 1, 1, 2 }, weft_shard(3)), one,
                                                         numbers_of(3, 4, (int64_t[]){ 1, 1, 1, 1 }, weft_replicate()) });
    weft_tensor *a = numbers_of(1, 1, (int64_t[]){ 6 }, weft_replicate()), *b = numbers_of(2, 1, (int64_t[]){ 6 }, weft_replicate());
    compare_fused(read_then_change, (weft_tensor *[]){ numbers_of(3, 2, (int64_t[]){ 5, 6 }, weft_replicate()), a, b });
    weft_scope_end();
    assert_no_error();
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

static weft_status change_copy(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *product = weft_mul(inputs[0], inputs[1]), *copy = weft_detach(inputs[0]);
    weft_scale_inplace(copy, scalars[0]);
    outputs[0] = weft_mul(copy, product);
    outputs[1] = copy;
    return WEFT_OK;
}

/* The copy is changed, not the original; the memory that both had is left to the original alone. */
static void test_f9_copies_that_are_changed(void **state)
{
    (void)state;
    static const unsigned passes[] = { WEFT_PASS_ALL, WEFT_PASS_CLUSTER, WEFT_PASS_FUSE, WEFT_PASS_NONE };
    for (int i = 0; i < 4; i++) {
        weft_scope_begin();
        weft_tensor *inputs[] = { matrix(1), matrix(2) };
        weft_graph *graph = weft_graph_create("change", change_copy, NULL, 2, 1, 2);
        assert_int_equal(weft_graph_set_passes(graph, passes[i]), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        int64_t bytes = weft_pool_bytes_in_use(weft_runtime.pool);
        for (int round = 0; round < 5; round++) {
            double scalar = 2 + round;
            weft_tensor *outputs[2], *expected[2];
            weft_scope_begin();
            assert_int_equal(weft_graph_call(graph, inputs, &scalar, outputs), WEFT_OK);
            assert_int_equal(change_copy(NULL, inputs, &scalar, expected), WEFT_OK);
            assert_same_shards(outputs[0], expected[0], "product");
            assert_same_shards(outputs[1], expected[1], "copy");
            assert_same_shards(inputs[0], matrix(1), "original");
            weft_scope_end();
        }
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_true(weft_pool_bytes_in_use(weft_runtime.pool) == bytes);
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- functions that are wrong ------------------------------------------------------------------------------- */

typedef struct wrong {
    weft_graph *graph;
    bool opaque, closes, recurses, forgets;
} wrong;

static weft_status double_or_not(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    const wrong *w = context;
    outputs[0] = w->forgets ? NULL : weft_scale(inputs[0], 2);
    weft_tensor *again;
    double scalar = 1;
    weft_status status = w->closes     ? weft_scope_end()
                         : w->recurses ? weft_graph_call(w->graph, inputs, &scalar, &again)
                                       : WEFT_OK;
    assert_int_equal(status, w->closes || w->recurses ? WEFT_ERR_STATE : WEFT_OK); /* for ever, if it were not refused */
    return status;
}

static weft_status wrong_function(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    const wrong *w = context;
    return w->opaque ? weft_graph_opaque("double", WEFT_OPAQUE_CALLED, double_or_not, context, 1, inputs, 1, outputs)
                     : double_or_not(context, inputs, outputs);
}

/* The call is refused with a message that names the cause; the program's scope and its tensors are left. */
static void test_functions_that_are_wrong(void **state)
{
    (void)state;
    static const char *const parts[] = { "no scope is open that was opened in this function", "called from within the function",
                                         "outputs[0] of the function is NULL" };
    weft_scope_begin();
    weft_tensor *input = matrix(1), *output, *expected = weft_scale(input, 2);
    for (int i = 0; i < 6; i++) {
        int kind = i % 3;
        wrong w = { .opaque = i > 2, .closes = kind == 0, .recurses = kind == 1, .forgets = kind == 2 };
        double scalar = 1;
        w.graph = weft_graph_create("wrong", wrong_function, &w, 1, 1, 1);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(weft_graph_call(w.graph, &input, &scalar, &output), kind < 2 ? WEFT_ERR_STATE : WEFT_ERR_INVALID);
            assert_non_null(strstr(weft_last_error(), parts[kind]));
            assert_null(output);
            weft_clear_error();
        }
        w.closes = w.recurses = w.forgets = false;
        assert_int_equal(weft_graph_call(w.graph, &input, &scalar, &output), WEFT_OK);
        assert_same_shards(output, expected, "after errors");
        assert_int_equal(weft_graph_destroy(w.graph), WEFT_OK);
    }
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs_in_the_array_of_inputs),
        cmocka_unit_test(test_frozen_copies_of_weights),
        cmocka_unit_test(test_frozen_gradients_from_outside),
        cmocka_unit_test(test_f9_other_columns),
        cmocka_unit_test(test_f9_copies_that_are_changed),
        cmocka_unit_test(test_functions_that_are_wrong),
    };
    return RUN_ON_RANKS(tests);
}
