/* weft_custom_gradient(): functions with a gradient of their own, which save tensors and bytes for it; eager, captured, replayed,
 * frozen; and what is refused. */
#include <math.h>
#include <stdlib.h>

#include "autograd_support.h"
#include "graph_support.h"

#include "runtime/pool.h"
#include "tensor/state.h"

/* ---- x^p, whose exponent is saved as bytes ----------------------------------------------------------------------- */

typedef enum saved_form { SAVES_INPUT, SAVES_MIDDLE, SAVES_NOTHING } saved_form;

typedef struct power {
    int64_t exponent;
    saved_form form;
    int forwards, backwards;
} power;

typedef struct power_bytes {
    int64_t exponent;
    double factor;
} power_bytes;

static power *counted; /* the context that the test looks at; the functions may get a copy */

static weft_status raise_to_power(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    const power *p = context;
    assert_int_equal(num_inputs, 1);
    assert_int_equal(num_outputs, 1);
    counted->forwards++;
    power_bytes bytes = { p->exponent, (double)p->exponent };
    weft_tensor *middle = weft_pow_scalar(inputs[0], (double)p->exponent - 1);
    outputs[0] = weft_mul(middle, inputs[0]);
    assert_int_equal(weft_save_for_backward(1, &middle, "another", 8), WEFT_OK); /* replaced by the next one */
    weft_tensor *const *saved = p->form == SAVES_INPUT ? inputs : &middle;
    weft_status status = p->form == SAVES_NOTHING ? weft_save_for_backward(0, NULL, NULL, 0)
                                                  : weft_save_for_backward(1, saved, &bytes, sizeof(bytes));
    bytes.exponent = -1;
    return outputs[0] == NULL ? weft_last_status() : status;
}

static weft_status power_gradient(void *context, const weft_custom_request *request, weft_tensor *gradients[])
{
    const power *p = context;
    counted->backwards++;
    assert_int_equal(request->num_inputs, 1);
    assert_int_equal(request->num_outputs, 1);
    assert_true(request->wanted[0]);
    if (p->form == SAVES_NOTHING) {
        assert_int_equal(request->num_saved, 0);
        assert_null(request->bytes);
        return WEFT_OK; /* zero */
    }
    const power_bytes *bytes = request->bytes;
    assert_int_equal(request->num_saved, 1);
    assert_int_equal(request->num_bytes, sizeof(*bytes));
    assert_int_equal(bytes->exponent, p->exponent);
    weft_tensor *raised = p->form == SAVES_INPUT ? weft_pow_scalar(request->saved[0], (double)bytes->exponent - 1) : request->saved[0];
    gradients[0] = weft_scale(weft_mul(request->output_gradients[0], raised), bytes->factor);
    return gradients[0] == NULL ? weft_last_status() : WEFT_OK;
}

/* With a context of the program's, or a copy of it that is gone. */
static weft_tensor *apply_power(power *p, weft_tensor *x, bool copy)
{
    weft_tensor *y;
    power other = *p;
    counted = p;
    if (weft_custom_gradient(raise_to_power, power_gradient, copy ? &other : p, copy ? sizeof(other) : 0, 1, &x, 1, &y) != WEFT_OK) {
        assert_null(y);
    }
    memset(&other, 0xff, sizeof(other));
    return y;
}

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

static weft_tensor *twos(const weft_placement *placements, int64_t rows)
{
    weft_tensor *x = weft_full(WEFT_F64, 2, 2, (int64_t[]){ rows, 3 }, line(), placements);
    assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
    return x;
}

static const weft_placement *layout(int number)
{
    static weft_placement layouts[3];
    layouts[0] = weft_replicate();
    layouts[1] = weft_shard(0);
    layouts[2] = weft_shard(1);
    return &layouts[number];
}

static void test_gradients_from_what_is_saved(void **state)
{
    (void)state;
    for (int form = 0; form < 12; form++) {
        power p = { .exponent = 3, .form = form % 2 == 0 ? SAVES_INPUT : SAVES_MIDDLE };
        for (int64_t rows = 0; rows < 6; rows += 5) {
            weft_scope_begin();
            weft_tensor *x = twos(layout(form % 3), rows), *y = apply_power(&p, x, form >= 6);
            assert_true(weft_requires_grad(y) && !weft_is_leaf(y));
            assert_int_equal(weft_backward(sum_all(weft_scale(y, 2)), NULL), WEFT_OK);
            assert_all(y, 8);
            assert_all(weft_grad(x), 24);
            weft_scope_end();
        }
        assert_int_equal(p.forwards, 2);
        assert_int_equal(p.backwards, 2);
    }
    assert_no_error();
}

/* Saved values stay when their tensor is written to. */
static void test_saved_values_stay(void **state)
{
    (void)state;
    power p = { .exponent = 3 };
    weft_scope_begin();
    weft_tensor *x = twos(layout(1), 5), *y = apply_power(&p, x, false);
    weft_no_grad_begin();
    assert_non_null(weft_scale_inplace(x, 5));
    weft_no_grad_end();
    const weft_backward_options retain = { .retain = true };
    weft_tensor *loss = sum_all(y);
    assert_int_equal(weft_backward(loss, &retain), WEFT_OK);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_all(weft_grad(x), 24);
    assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_custom_gradient");
    weft_scope_end();
    assert_no_error();
}

static void test_second_gradients(void **state)
{
    (void)state;
    for (int l = 0; l < 3; l++) {
        power p = { .exponent = 3 };
        weft_scope_begin();
        weft_tensor *x = twos(layout(l), 5), *loss = sum_all(apply_power(&p, x, false)), *first, *second, *third;
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, true, &first), WEFT_OK);
        assert_all(first, 12);
        loss = sum_all(weft_square(first));
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, true, &second), WEFT_OK); /* 36 x^3 */
        assert_all(second, 288);
        loss = sum_all(second);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, false, &third), WEFT_OK);
        assert_all(third, 432);
        p.form = SAVES_MIDDLE;
        loss = sum_all(apply_power(&p, x, false));
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, true, &first), WEFT_ERR_UNSUPPORTED);
        assert_error(WEFT_ERR_UNSUPPORTED, "no input or output");
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, false, &first), WEFT_OK);
        assert_all(first, 12);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- exp(x), whose output is saved; and what an integer tensor selects -------------------------------------------- */

static weft_status raise_e(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)context, (void)num_inputs;
    outputs[0] = weft_exp(inputs[0]);
    outputs[num_outputs - 1] = num_outputs > 1 ? weft_gt_scalar(inputs[0], 0) : outputs[0];
    return weft_save_for_backward(num_outputs, outputs, NULL, 0);
}

static weft_status gradient_of_e(void *context, const weft_custom_request *request, weft_tensor *gradients[])
{
    (void)context;
    gradients[0] = weft_mul(request->output_gradients[0], request->saved[0]);
    return gradients[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void test_outputs_are_saved(void **state)
{
    (void)state;
    for (int num_outputs = 1; num_outputs < 3; num_outputs++) {
        weft_scope_begin();
        weft_tensor *x = twos(layout(1), 5), *y[2], *first, *second;
        assert_int_equal(weft_custom_gradient(raise_e, gradient_of_e, NULL, 0, 1, &x, num_outputs, y), WEFT_OK);
        assert_true(num_outputs == 1 || !weft_requires_grad(y[1]));
        weft_tensor *loss = sum_all(y[0]);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, true, &first), WEFT_OK);
        assert_all(first, exp(2));
        loss = sum_all(first);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, false, &second), WEFT_OK);
        assert_all(second, exp(2));
        weft_scope_end();
    }
    assert_no_error();
}

/* Nothing that a call saves stays when its output is released, or after the backward pass. */
static void test_memory(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = twos(layout(1), 5);
    power p = { .exponent = 3, .form = SAVES_MIDDLE };
    weft_wait();
    size_t live = weft_runtime.handles.tensors.num_objects;
    int64_t bytes = (int64_t)weft_pool_bytes_in_use(weft_runtime.pool);
    for (int i = 0; i < 20; i++) {
        weft_scope_begin();
        weft_tensor *y = apply_power(&p, x, i % 2 == 0);
        if (i % 3 == 0) {
            assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_OK);
            assert_int_equal(weft_zero_grad(1, &x), WEFT_OK);
        }
        weft_scope_end();
        weft_wait();
        assert_int_equal(weft_runtime.handles.tensors.num_objects, live);
        assert_int_equal(weft_pool_bytes_in_use(weft_runtime.pool), bytes);
    }
    weft_scope_end();
    assert_no_error();
}

/* ---- where nothing is recorded ------------------------------------------------------------------------------------ */

static weft_status call_inside(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)num_inputs, (void)num_outputs;
    outputs[0] = apply_power(context, inputs[0], false);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static weft_status call_inside_and_save(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    power_bytes bytes = { ((power *)context)->exponent, 3 };
    assert_int_equal(weft_save_for_backward(1, inputs, &bytes, sizeof(bytes)), WEFT_OK);
    return call_inside(context, num_inputs, inputs, num_outputs, outputs);
}

static void test_without_recording(void **state)
{
    (void)state;
    power p = { .exponent = 3 };
    weft_scope_begin();
    weft_tensor *constant = weft_full(WEFT_F64, 2, 2, (int64_t[]){ 5, 3 }, line(), layout(1));
    assert_false(weft_requires_grad(apply_power(&p, constant, false)));
    weft_tensor *x = twos(layout(1), 5), *y;
    weft_no_grad_begin();
    assert_false(weft_requires_grad(apply_power(&p, x, false)));
    weft_no_grad_end();
    /* Computed again in the backward pass: its own forward function too. */
    assert_int_equal(weft_recompute(call_inside, &p, 0, 1, &x, 1, &y), WEFT_OK);
    assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_OK);
    assert_all(weft_grad(x), 12);
    assert_int_equal(p.forwards, 4);
    assert_int_equal(p.backwards, 1);
    /* One within another: the inner one saves for itself. */
    assert_int_equal(weft_custom_gradient(call_inside_and_save, power_gradient, &p, 0, 1, &x, 1, &y), WEFT_OK);
    assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_OK);
    assert_all(weft_grad(x), 24);
    weft_scope_end();
    assert_no_error();
}

/* ---- in graphs ---------------------------------------------------------------------------------------------------- */

typedef struct model {
    weft_tensor *w;
    power p;
    bool reads, custom;
    double read;
} model;

/* The step of a model w^3 - x, by SGD; in `reads` the forward function reads a value that decides the exponent. */
static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    if (m->reads) {
        weft_tensor *largest = weft_redistribute(weft_max(weft_square(inputs[0]), WEFT_ALL_DIMS, false), NULL, NULL);
        if (weft_tensor_item(largest, &m->read) != WEFT_OK) {
            return weft_last_status();
        }
        m->p.exponent = m->read > 4 ? 2 : 3;
    }
    weft_tensor *cube = m->custom ? apply_power(&m->p, m->w, true)
                                  : weft_mul(weft_pow_scalar(m->w, (double)m->p.exponent - 1), m->w);
    weft_tensor *loss = sum_all(weft_square(weft_sub(cube, inputs[0])));
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradient = weft_grad(m->w);
    const weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(1, &m->w, &gradient, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(1, &m->w) : status;
    outputs[0] = weft_redistribute(weft_detach(loss), NULL, NULL);
    return status;
}

enum { STEPS = 7 };

/* Losses of some steps; `graph` NULL: without one. */
static void run_steps(weft_graph *graph, model *m, double losses[])
{
    weft_scope_begin();
    m->w = twos(layout(1), 5);
    for (int i = 0; i < STEPS; i++) {
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F64, 1 + (double)(i % 3), 2, (int64_t[]){ 5, 3 }, line(), layout(1)), *loss;
        double rate = 0.001 * (1 + i);
        weft_status status = graph == NULL ? step(m, &x, &rate, &loss) : weft_graph_call(graph, &x, &rate, &loss);
        if (status != WEFT_OK) {
            fail_msg("step %d: %s", i, weft_last_error());
        }
        assert_int_equal(weft_tensor_item(loss, &losses[i]), WEFT_OK);
        weft_scope_end();
    }
    m->w = NULL;
    weft_scope_end();
    assert_no_error();
}

static void assert_same_losses(const double losses[], const double expected[])
{
    for (int i = 0; i < STEPS; i++) {
        assert_true(losses[i] == expected[i] || fabs(losses[i] - expected[i]) < 1e-11 * fabs(expected[i]));
    }
}

/* Captured once, then replayed: forward and backward function run each time, and their calls are those of the record. */
static void test_captured(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        double expected[STEPS], eager[STEPS], losses[STEPS];
        model own = { .p.exponent = 3 }, m = { .p.exponent = 3, .custom = true };
        run_steps(NULL, &own, expected);
        run_steps(NULL, &m, eager);
        assert_same_losses(eager, expected);
        m.p.forwards = m.p.backwards = 0;
        weft_graph *graph = weft_graph_create("step", step, &m, 1, 1, 1);
        assert_int_equal(weft_graph_freeze(graph, frozen), WEFT_OK);
        run_steps(graph, &m, losses);
        assert_memory_equal(losses, eager, sizeof(losses));
        weft_graph_info info = info_of(graph);
        assert_int_equal(info.captures, 1);
        assert_int_equal(info.replays, STEPS - 1);
        assert_int_equal(m.p.forwards, STEPS - (int)info.frozen_replays);
        assert_int_equal(m.p.backwards, m.p.forwards);
        assert_true(frozen == 0 || info.frozen_replays >= 3);
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    }
}

/* A forward function that reads a value: the graph ends a segment there, says so, and is not frozen. */
static void test_not_captured(void **state)
{
    (void)state;
    double eager[STEPS], losses[STEPS];
    model m = { .p.exponent = 3, .custom = true, .reads = true };
    run_steps(NULL, &m, eager);
    weft_graph *graph = weft_graph_create("step", step, &m, 1, 1, 1);
    run_steps(graph, &m, losses);
    assert_memory_equal(losses, eager, sizeof(losses));
    char *text = listing_of(graph);
    assert_non_null(strstr(text, "values are read by weft_tensor_item"));
    free(text);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    weft_scope_begin();
    m.w = twos(layout(1), 5);
    weft_tensor *x = weft_ones_like(m.w), *loss;
    double rate = 0.1;
    assert_int_equal(weft_graph_call(graph, &x, &rate, &loss), WEFT_OK); /* observed */
    assert_int_equal(weft_graph_call(graph, &x, &rate, &loss), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_tensor_item inside is no call of the graph");
    weft_scope_end();
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
}

/* ---- what is refused ----------------------------------------------------------------------------------------------- */

typedef enum mistake { OTHER_LEAF, RETURNED_LEAF, CHANGES_INPUT, NO_OUTPUT, OWN_ERROR, WRONG_SHAPE, WRONG_TYPE, BACKWARD_ERROR, NUM_MISTAKES } mistake;

typedef struct wrong {
    mistake mistake;
    weft_tensor *leaf;
} wrong;

static weft_status wrong_forward(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)num_inputs, (void)num_outputs;
    wrong *w = context;
    outputs[0] = weft_square(w->mistake == OTHER_LEAF ? w->leaf : inputs[0]);
    if (w->mistake == RETURNED_LEAF) {
        outputs[0] = w->leaf;
    } else if (w->mistake == CHANGES_INPUT) {
        weft_scale_inplace(inputs[0], 1);
    } else if (w->mistake == NO_OUTPUT) {
        outputs[0] = NULL;
    }
    return w->mistake == OWN_ERROR ? WEFT_ERR_IO : WEFT_OK;
}

static weft_status wrong_backward(void *context, const weft_custom_request *request, weft_tensor *gradients[])
{
    const wrong *w = context;
    weft_tensor *g = request->output_gradients[0];
    gradients[0] = w->mistake == WRONG_SHAPE ? weft_transpose(g, 0, 1) : w->mistake == WRONG_TYPE ? weft_to_type(g, WEFT_I64) : g;
    return w->mistake == BACKWARD_ERROR ? WEFT_ERR_IO : WEFT_OK;
}

static void test_refusals(void **state)
{
    (void)state;
    static const weft_status expected[] = { WEFT_ERR_STATE, WEFT_ERR_STATE, WEFT_ERR_STATE, WEFT_ERR_INVALID, WEFT_ERR_IO,
                                            WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_IO };
    static const char *const words[] = { "is no input",  "is no input", "changed inputs[0]", "outputs[0]",       "the forward function",
                                         "gradients[0]", "gradients[0]",      "backward function" };
    for (int m = 0; m < NUM_MISTAKES; m++) {
        weft_scope_begin();
        weft_tensor *x = twos(layout(1), 5), *y;
        wrong w = { m, twos(layout(1), 5) };
        weft_status status = weft_custom_gradient(wrong_forward, wrong_backward, &w, 0, 1, &x, 1, &y);
        if (status == WEFT_OK) {
            weft_tensor *loss = sum_all(y);
            status = weft_backward(loss, NULL);
        } else {
            assert_null(y);
        }
        assert_int_equal(status, expected[m]);
        assert_error(expected[m], words[m]);
        /* Nothing is left of it. */
        power p = { .exponent = 3 };
        y = apply_power(&p, x, false);
        assert_int_equal(weft_zero_grad(1, &x), WEFT_OK);
        assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_OK);
        assert_all(weft_grad(x), 12);
        weft_scope_end();
    }
    assert_no_error();
}

static void test_arguments(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = twos(NULL, 5), *y = NULL, *none = NULL;
    power p = { .exponent = 3 };
    assert_int_equal(weft_custom_gradient(NULL, power_gradient, &p, 0, 1, &x, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "forward is NULL");
    assert_int_equal(weft_custom_gradient(raise_to_power, NULL, &p, 0, 1, &x, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "backward is NULL");
    assert_int_equal(weft_custom_gradient(raise_to_power, power_gradient, NULL, 1, 1, &x, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "context is NULL");
    assert_int_equal(weft_custom_gradient(raise_to_power, power_gradient, &p, 0, -1, &x, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_inputs is -1");
    assert_int_equal(weft_custom_gradient(raise_to_power, power_gradient, &p, 0, 1, &x, 0, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_outputs is 0");
    assert_int_equal(weft_custom_gradient(raise_to_power, power_gradient, &p, 0, 1, NULL, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "inputs is NULL");
    assert_int_equal(weft_custom_gradient(raise_to_power, power_gradient, &p, 0, 1, &none, 1, &y), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "inputs[0]");
    assert_int_equal(weft_save_for_backward(1, &x, NULL, 0), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "no forward function");
    assert_int_equal(weft_save_for_backward(-1, &x, NULL, 0), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_tensors is -1");
    assert_int_equal(weft_save_for_backward(1, NULL, NULL, 0), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensors is NULL");
    assert_int_equal(weft_save_for_backward(0, NULL, NULL, 4), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "bytes is NULL");
    assert_int_equal(weft_save_for_backward(1, &none, NULL, 0), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensors[0]");
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_from_what_is_saved),
        cmocka_unit_test(test_saved_values_stay),
        cmocka_unit_test(test_second_gradients),
        cmocka_unit_test(test_outputs_are_saved),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_without_recording),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_not_captured),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_arguments),
    };
    return RUN_ON_RANKS(tests);
}
