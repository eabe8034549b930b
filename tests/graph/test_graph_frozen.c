/* Frozen graphs: replayed without their function, or refused with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frozen_calls.h"

/* ---- training steps ----------------------------------------------------------------------------------------------- */

typedef struct training {
    weft_tensor *parameters[2], *first[2], *second[2];
    int64_t step, calls;
} training;

static training begin_training(const weft_placement *placements)
{
    training t = { .parameters = { numbers(3, 3, placements), numbers(4, 3, NULL) } };
    for (int i = 0; i < 2; i++) {
        t.first[i] = weft_zeros_like(t.parameters[i]);
        t.second[i] = weft_zeros_like(t.parameters[i]);
        assert_int_equal(weft_set_requires_grad(t.parameters[i], true), WEFT_OK);
    }
    return t;
}

/* scalars[0]: the rate; scalars[1]: a factor. Outputs: the loss, twice; the input; the first parameter; what was drawn. */
static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    training *t = context;
    t->calls++;
    weft_tensor *h = weft_tanh(weft_matmul(inputs[0], t->parameters[0]));
    weft_tensor *dropped = weft_dropout(h, 0.25, true, NULL);
    weft_tensor *y = weft_add_scaled(weft_matmul(dropped, t->parameters[1]), inputs[0], scalars[1]);
    weft_tensor *loss = weft_mean(weft_mul(y, y), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradients[] = { weft_grad(t->parameters[0]), weft_grad(t->parameters[1]) };
    weft_adam_options options;
    weft_adamw_options_init(&options);
    options.learning_rate = scalars[0];
    if (status == WEFT_OK) {
        status = weft_adamw(2, t->parameters, gradients, t->first, t->second, ++t->step, &options);
    }
    if (status == WEFT_OK) {
        status = weft_zero_grad(2, t->parameters);
    }
    outputs[0] = outputs[1] = weft_detach(loss);
    outputs[2] = inputs[0];
    outputs[3] = t->parameters[0];
    outputs[4] = weft_detach(dropped);
    return status;
}

static void compare_training(weft_graph *graph, training *captured, training *eager, int steps)
{
    for (int step = 0; step < steps; step++) {
        weft_scope_begin();
        weft_tensor *x = numbers(10 + (uint64_t)step, 8, &(weft_placement){ .kind = WEFT_SHARD }), *outputs[5], *expected[5];
        double scalars[] = { 0.01 / (1 + step), 0.5 + step };
        weft_random_state before;
        weft_random_state_get(NULL, &before);
        assert_int_equal(weft_graph_call(graph, &x, scalars, outputs), WEFT_OK);
        weft_random_state_set(NULL, before);
        assert_int_equal(train(eager, &x, scalars, expected), WEFT_OK);
        assert_ptr_equal(outputs[0], outputs[1]);
        assert_ptr_equal(outputs[2], x);
        assert_ptr_equal(outputs[3], captured->parameters[0]);
        assert_same_tensors(outputs[0], expected[0], "loss");
        assert_same_shards(outputs[4], expected[4], "dropout");
        for (int i = 0; i < 2; i++) {
            assert_same_shards(captured->parameters[i], eager->parameters[i], "parameter");
            assert_same_shards(captured->second[i], eager->second[i], "moment");
        }
        weft_scope_end();
    }
}

static void test_frozen_training(void **state)
{
    (void)state;
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int l = 0; l < 3; l++) {
        weft_scope_begin();
        training eager = begin_training(&layouts[l]), captured = begin_training(&layouts[l]);
        weft_graph *graph = weft_graph_create("train", train, &captured, 1, 2, 5);
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        assert_false(info_of(graph).frozen);
        assert_non_null(strstr(info_of(graph).not_frozen, "two replays"));
        compare_training(graph, &captured, &eager, 9);
        assert_true(info_of(graph).frozen);
        assert_string_equal(info_of(graph).not_frozen, "");
        assert_int_equal(captured.calls, 3);
        assert_int_equal(info_of(graph).frozen_replays, 6);
        assert_int_equal(info_of(graph).captures, 1);
        assert_int_equal(info_of(graph).replays, 8);

        /* The function counts its steps itself, so that another batch cannot be captured now. */
        weft_tensor *x = numbers(1, 9, NULL), *outputs[5];
        double scalars[] = { 0.1, 0.2 };
        assert_int_equal(weft_graph_call(graph, &x, scalars, outputs), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "would have to be called again (inputs[0] has another layout), but it counts its calls itself");
        assert_int_equal(captured.calls, 3);

        /* Back to the function, which has to count on. */
        assert_int_equal(weft_graph_freeze(graph, false), WEFT_OK);
        captured.step = eager.step;
        compare_training(graph, &captured, &eager, 2);
        assert_int_equal(captured.calls, 5);
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- what cannot be frozen ------------------------------------------------------------------------------------------ */

typedef struct scene {
    int what;
    weft_tensor *parameter, *kept;
    double number;
    int calls;
} scene;

static weft_status act(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    scene *s = context;
    double value;
    void *locals[64] = { NULL };
    static double memory[64][3];
    s->calls++;
    weft_tensor *x = weft_mul(inputs[0], s->parameter);
    switch (s->what) {
    case 1:
        x = weft_add_scalar(x, 2 * scalars[0]);
        break;
    case 2:
        if (weft_tensor_item(weft_sum(x, WEFT_ALL_DIMS, false), &value) != WEFT_OK) {
            return weft_last_status();
        }
        break;
    case 3:
        for (int i = 0; i < weft_local_ranks(); i++) {
            locals[i] = memory[i];
        }
        x = weft_add(x, weft_from_local(WEFT_F64, 2, (int64_t[]){ weft_world_size(), 3 }, locals, line(), NULL, WEFT_COPY));
        break;
    case 4:
        if (s->kept != NULL) {
            weft_tensor_release(s->kept);
        }
        s->kept = weft_neg(x);
        weft_tensor_retain(s->kept);
        break;
    case 5:
        x = weft_add_scalar(x, ++s->number);
        break;
    case 6:
        weft_random_seed(3);
        break;
    default:
        break;
    }
    outputs[0] = weft_add_scaled(x, inputs[0], scalars[0]);
    return WEFT_OK;
}

static void test_frozen_refusals(void **state)
{
    (void)state;
    static const char *const reasons[] = { "",
                                           "call 1, weft_add_scalar: its number 0 has changed to 2, and is no entry of scalars[]",
                                           "weft_tensor_item inside is no call of the graph",
                                           "weft_from_local inside is no call of the graph",
                                           "outlives the function, and is no output",
                                           "call 1, weft_add_scalar: its number 0 has changed to 3",
                                           "weft_random_seed inside is no call of the graph",
                                           "outputs[0] requires gradients" };
    for (int what = 1; what < 8; what++) {
        weft_scope_begin();
        scene s = { .what = what, .parameter = numbers(3, weft_world_size(), NULL) };
        weft_graph *graph = weft_graph_create("scene", act, &s, 1, 1, 1);
        weft_tensor *x = numbers(4, weft_world_size(), NULL), *output;
        if (what == 7) {
            assert_int_equal(weft_set_requires_grad(s.parameter, true), WEFT_OK);
        }
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        weft_status status = WEFT_OK;
        int run = 0;
        for (; run < 6 && status == WEFT_OK; run++) {
            double number = 0.5 * run;
            status = weft_graph_call(graph, &x, &number, &output);
        }
        assert_int_equal(status, WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "weft_graph_call: graph scene cannot be frozen: ");
        assert_non_null(strstr(info_of(graph).not_frozen, reasons[what]));
        assert_int_equal(s.calls, run - 1);
        assert_false(info_of(graph).frozen);
        double number = 7;
        assert_int_equal(weft_graph_freeze(graph, false), WEFT_OK);
        assert_int_equal(weft_graph_call(graph, &x, &number, &output), WEFT_OK);
        if (s.kept != NULL) {
            weft_tensor_release(s.kept);
        }
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

static weft_status scale_input(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars, (void)outputs;
    ++*(int *)context;
    return weft_scale_inplace(inputs[0], 3) == NULL ? weft_last_status() : WEFT_OK;
}

/* An input that was computed from a leaf and is changed in place has another gradient, which the function alone records. */
static void test_frozen_changes_of_recorded_inputs(void **state)
{
    (void)state;
    int calls = 0;
    weft_graph *graph = weft_graph_create("changes", scale_input, &calls, 1, 0, 0);
    weft_scope_begin();
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int run = 0; run < 6; run++) {
        weft_scope_begin();
        weft_tensor *leaf = leaf_of(line(), NULL, 4), *x = weft_scale(leaf, 2);
        weft_status status = weft_graph_call(graph, &x, NULL, NULL);
        if (status != WEFT_OK) {
            assert_error(WEFT_ERR_STATE, "is changed in place, and requires gradients");
            assert_int_equal(calls, run);
            assert_int_equal(weft_graph_freeze(graph, false), WEFT_OK);
            assert_int_equal(weft_graph_call(graph, &x, NULL, NULL), WEFT_OK);
        }
        assert_all(x, 6);
        assert_int_equal(weft_backward(weft_sum(x, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        assert_all(weft_grad(leaf), 6);
        weft_scope_end();
    }
    assert_int_equal(calls, 6);
    assert_int_equal(info_of(graph).frozen_replays, 0);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* Other layouts call the function; so do numbers of two possible sources, and inputs that become one tensor. */
static weft_status combine(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    scene *s = context;
    s->calls++;
    outputs[0] = weft_add_scalar(weft_mul(inputs[0], s->parameter), scalars[0]);
    outputs[1] = weft_add_scaled(inputs[1], inputs[0], scalars[1]);
    outputs[2] = weft_add_inplace(inputs[1], inputs[0], scalars[2]);
    return WEFT_OK;
}

static void combine_once(weft_graph *graph, scene *s, weft_tensor *a, weft_tensor *b, const double scalars[])
{
    weft_scope_begin();
    weft_tensor *copy = weft_copy_inplace(weft_zeros_like(b), b), *outputs[3], *expected[3];
    scene eager = *s;
    assert_int_equal(combine(&eager, (weft_tensor *[]){ a == b ? copy : a, copy }, scalars, expected), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ a, b }, scalars, outputs), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        assert_same_shards(outputs[i], expected[i], "output");
    }
    assert_ptr_equal(outputs[2], b);
    weft_scope_end();
}

static void test_frozen_and_called_again(void **state)
{
    (void)state;
    weft_scope_begin();
    const weft_placement rows = weft_shard(0);
    scene s = { .parameter = numbers(3, 6, &rows) };
    weft_graph *graph = weft_graph_create("combine", combine, &s, 2, 3, 3);
    weft_tensor *a = numbers(4, 6, &rows), *b = numbers(5, 6, &rows), *c = numbers(6, 6, NULL);
    weft_graph_freeze(graph, true);
    for (int run = 0; run < 5; run++) { /* entries 0 and 1 are equal */
        combine_once(graph, &s, a, b, (double[]){ run, run, -run });
    }
    assert_true(info_of(graph).frozen);
    assert_int_equal(s.calls, 3);
    combine_once(graph, &s, a, b, (double[]){ 4, 5, 6 }); /* which of them? */
    assert_int_equal(s.calls, 4);
    combine_once(graph, &s, a, b, (double[]){ 6, 5, 4 });
    combine_once(graph, &s, b, a, (double[]){ 6, 5, 3 });
    assert_int_equal(s.calls, 4);
    combine_once(graph, &s, a, a, (double[]){ 6, 5, 3 }); /* one tensor: another trace */
    assert_int_equal(s.calls, 5);
    combine_once(graph, &s, a, c, (double[]){ 6, 5, 2 }); /* another layout: another trace */
    assert_int_equal(s.calls, 6);
    for (int run = 0; run < 5; run++) {
        combine_once(graph, &s, a, b, (double[]){ run, 2 * run, -run });
    }
    assert_true(info_of(graph).frozen);
    assert_int_equal(s.calls, 8);

    /* A parameter that is gone. */
    weft_scope_end();
    weft_scope_begin();
    weft_tensor *outputs[3], *inputs[] = { numbers(4, 6, &rows), numbers(5, 6, &rows) };
    assert_int_equal(weft_graph_call(graph, inputs, (double[]){ 1, 2, 3 }, outputs), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "graph combine is frozen, and a tensor that was bound to it, %1 in its listing, has been freed");
    assert_same_shards(inputs[1], numbers(5, 6, &rows), "input");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* A donated input: its memory goes to each run, and copies keep their values. */
static weft_status change_and_combine(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_add_inplace(inputs[0], inputs[1], scalars[0]);
    outputs[0] = weft_exp(weft_mul(inputs[0], inputs[1]));
    return WEFT_OK;
}

static void test_frozen_with_donated_input(void **state)
{
    (void)state;
    const weft_placement rows = weft_shard(0);
    weft_graph *graph = weft_graph_create("donated", change_and_combine, NULL, 2, 1, 1);
    weft_graph_donate(graph, 0, true);
    weft_graph_freeze(graph, true);
    for (int run = 0; run < 7; run++) {
        weft_scope_begin();
        double number = 0.1 * run;
        weft_tensor *a = numbers(4, 9, &rows), *b = numbers(5, 9, &rows), *same = numbers(4, 9, &rows), *copy = weft_detach(a);
        weft_tensor *output, *expected;
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ a, b }, &number, &output), WEFT_OK);
        assert_int_equal(change_and_combine(NULL, (weft_tensor *[]){ same, b }, &number, &expected), WEFT_OK);
        assert_same_shards(output, expected, "output");
        assert_same_shards(copy, numbers(4, 9, &rows), "copy");
        assert_null(weft_neg(a));
        assert_error(WEFT_ERR_INVALID, "donated to a graph");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).frozen_replays, 4);
    weft_graph_destroy(graph);
    assert_no_error();
}

static void test_freeze_arguments(void **state)
{
    (void)state;
    scene s = { 0 };
    weft_graph *graph = weft_graph_create("many", act, &s, 0, 65, 0);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_graph_freeze: graph many has 65 scalars, expected at most 64");
    weft_graph_destroy(graph);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_freeze: graph is not a live graph");
}

/* Regions call the function, which counts its steps. Behind them graphs are replayed again. */
static void test_frozen_within_a_region(void **state)
{
    (void)state;
    weft_scope_begin();
    training eager = begin_training(NULL), captured = begin_training(NULL);
    weft_graph *graph = weft_graph_create("train", train, &captured, 1, 2, 5);
    weft_graph_freeze(graph, true);
    compare_training(graph, &captured, &eager, 5);
    assert_true(info_of(graph).frozen);
    weft_tensor *x = numbers(1, 8, &(weft_placement){ .kind = WEFT_SHARD }), *outputs[5];
    const double scalars[] = { 0.1, 0.2 };
    assert_int_equal(weft_region_begin("around", 0), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &x, scalars, outputs), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "within a region or another graph");
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &x, scalars, outputs), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "within a region or another graph");
    assert_int_equal(weft_explain_end(), WEFT_OK);
    assert_int_equal(captured.calls, 3);
    compare_training(graph, &captured, &eager, 2);
    assert_int_equal(captured.calls, 3);
    weft_graph_destroy(graph);
    weft_scope_end();
}

/* ---- what the function asks weft for ------------------------------------------------------------------------------ */

typedef enum change_kind { CHANGE_TENSOR, CHANGE_TENSOR_LISTED, CHANGE_FORWARD, CHANGE_HOOK, CHANGE_OPERATION, CHANGE_GRAD_HOOK,
                           CHANGE_MESH, NUM_CHANGES } change_kind;

typedef struct changing {
    change_kind kind;
    weft_module *module;
    weft_tensor *leaf;
    int calls;
} changing;

static weft_status times_parameter(weft_module *module, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                   weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs;
    weft_tensor *product = weft_mul(inputs[0], weft_module_parameter(module, "w"));
    outputs[0] = context == NULL ? product : weft_neg(product);
    return WEFT_OK;
}

static weft_status negate_outputs(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)module, (void)mesh, (void)num_tensors, (void)context;
    tensors[0] = weft_neg(tensors[0]);
    return WEFT_OK;
}

static weft_status negate_gradient(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    (void)leaf, (void)context;
    return weft_scale_inplace(gradient, -1) == NULL ? weft_last_status() : WEFT_OK;
}

static weft_status ask(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    changing *c = context;
    weft_tensor *listed;
    c->calls++;
    switch (c->kind) {
    case CHANGE_TENSOR:
        outputs[0] = weft_mul(inputs[0], weft_module_parameter(c->module, "w"));
        break;
    case CHANGE_TENSOR_LISTED:
        weft_module_parameters(c->module, 1, NULL, &listed);
        outputs[0] = weft_mul(inputs[0], listed);
        break;
    case CHANGE_OPERATION:
        outputs[0] = weft_exp(inputs[0]);
        break;
    case CHANGE_GRAD_HOOK:
        weft_backward(weft_sum(weft_mul(c->leaf, inputs[0]), WEFT_ALL_DIMS, false), NULL);
        outputs[0] = weft_detach(weft_grad(c->leaf));
        return weft_zero_grad(1, &c->leaf);
    case CHANGE_MESH:
        outputs[0] = weft_zeros(WEFT_F64, 0, NULL, NULL, NULL);
        break;
    default:
        outputs[0] = weft_module_call(c->module, inputs[0]);
        break;
    }
    outputs[0] = weft_detach(outputs[0]);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void twice_kernel(const weft_kernel_call *call)
{
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        double *to = weft_view_row(&call->output, row, NULL), *from = weft_view_row(&call->inputs[0], row, NULL);
        for (int64_t i = 0; i < call->output.row_elements; i++) {
            to[i] = 2 * from[i];
        }
    }
}

/* Changes what the function asks for, as programs do between calls. The former tensor stays alive. */
static void make_change(const changing *c)
{
    const weft_operation_description twice = { .name = "exp", .kernel = twice_kernel };
    switch (c->kind) {
    case CHANGE_TENSOR:
    case CHANGE_TENSOR_LISTED:
        assert_int_equal(weft_module_set_tensor(c->module, "w", weft_full_like(weft_module_parameter(c->module, "w"), 5)), WEFT_OK);
        break;
    case CHANGE_FORWARD:
        assert_int_equal(weft_module_set_forward(c->module, times_parameter, (void *)c), WEFT_OK);
        break;
    case CHANGE_HOOK:
        assert_int_equal(weft_module_add_hook(c->module, WEFT_AFTER_FORWARD, negate_outputs, NULL), WEFT_OK);
        break;
    case CHANGE_OPERATION:
        assert_int_equal(weft_operation_replace(&twice), WEFT_OK);
        break;
    case CHANGE_GRAD_HOOK:
        assert_int_equal(weft_set_grad_hook(c->leaf, negate_gradient, NULL), WEFT_OK);
        break;
    default:
        assert_int_equal(weft_mesh_push(weft_mesh_slice(weft_mesh_create(2, (int64_t[]){ 1, weft_world_size() },
                                                                         (const char *const[]){ "one", "all" }), "all")), WEFT_OK);
        break;
    }
}

static void compare_with_eager(weft_graph *graph, changing *c, weft_tensor *x, const char *when)
{
    weft_scope_begin();
    weft_tensor *output, *expected;
    changing eager = *c;
    if (weft_graph_call(graph, &x, NULL, &output) != WEFT_OK) {
        fail_msg("change %d, %s: %s", (int)c->kind, when, weft_last_error());
    }
    assert_int_equal(ask(&eager, &x, NULL, &expected), WEFT_OK);
    assert_ptr_equal(weft_tensor_mesh(output), weft_tensor_mesh(expected));
    assert_same_shards(output, expected, when);
    weft_scope_end();
}

/* A frozen graph keeps no parameter, hook, function, kernel or mesh that the program has replaced since. */
static void test_frozen_and_changed_outside(void **state)
{
    (void)state;
    for (int kind = 0; kind < NUM_CHANGES; kind++) {
        weft_scope_begin();
        changing c = { .kind = kind, .module = weft_module_create("scale"), .leaf = leaf_of(line(), NULL, 2) };
        weft_tensor *x = numbers(4, weft_world_size(), NULL);
        weft_tensor *former = weft_full_like(x, 2);
        assert_int_equal(weft_module_add_parameter(c.module, "w", former), WEFT_OK);
        assert_int_equal(weft_module_set_forward(c.module, times_parameter, NULL), WEFT_OK);
        if (kind == CHANGE_GRAD_HOOK) {
            x = weft_full_like(c.leaf, 3);
        }
        weft_mesh_push(line());
        weft_graph *graph = weft_graph_create("asks", ask, &c, 1, 0, 1);
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        for (int run = 0; run < 5; run++) {
            compare_with_eager(graph, &c, x, "before");
        }
        assert_int_equal(info_of(graph).frozen_replays, 2);
        make_change(&c);
        for (int run = 0; run < 6; run++) {
            compare_with_eager(graph, &c, x, "after");
        }
        assert_true(info_of(graph).frozen);
        assert_int_equal(info_of(graph).frozen_replays + (uint64_t)c.calls, 11);
        assert_in_range(info_of(graph).frozen_replays, 4, 6);
        while (weft_mesh_current() != NULL) {
            assert_int_equal(weft_mesh_pop(), WEFT_OK);
        }
        if (kind == CHANGE_OPERATION) {
            assert_int_equal(weft_operation_restore("exp"), WEFT_OK);
            compare_with_eager(graph, &c, x, "restored");
        }
        weft_graph_destroy(graph);
        weft_module_destroy(c.module);
        weft_scope_end();
    }
    assert_no_error();
}

/* Another module's tensors are none of the graph's. */
static void test_frozen_beside_another_module(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *other = weft_module_create("other");
    weft_tensor *x = numbers(4, weft_world_size(), NULL);
    changing c = { .kind = CHANGE_TENSOR, .module = weft_module_create("scale") };
    assert_int_equal(weft_module_add_parameter(c.module, "w", weft_full_like(x, 2)), WEFT_OK);
    assert_int_equal(weft_module_add_parameter(other, "w", weft_full_like(x, 3)), WEFT_OK);
    weft_graph *graph = weft_graph_create("asks", ask, &c, 1, 0, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int run = 0; run < 8; run++) {
        compare_with_eager(graph, &c, x, "run");
        assert_int_equal(weft_module_set_tensor(other, "w", weft_full_like(x, run)), WEFT_OK);
    }
    assert_int_equal(c.calls, 3);
    weft_graph_destroy(graph);
    weft_module_destroy(c.module);
    weft_module_destroy(other);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_training),
        cmocka_unit_test(test_frozen_refusals),
        cmocka_unit_test(test_frozen_changes_of_recorded_inputs),
        cmocka_unit_test(test_frozen_and_called_again),
        cmocka_unit_test(test_frozen_within_a_region),
        cmocka_unit_test(test_frozen_with_donated_input),
        cmocka_unit_test(test_freeze_arguments),
        cmocka_unit_test(test_frozen_and_changed_outside),
        cmocka_unit_test(test_frozen_beside_another_module),
        cmocka_unit_test(test_every_function_inside_a_frozen_graph),
    };
    return RUN_ON_RANKS(tests);
}
