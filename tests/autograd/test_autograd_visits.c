/* Functions of the program that the library calls: hooks of gradients, segments, gradients of operations, forward
 * functions. Whatever they call, the pass goes on or ends with an error, and the next one is right. */
#include "autograd_support.h"

#include <stdio.h>

#include "runtime/pool.h"
#include "tensor/state.h"

/* What a function does beside its work. */
typedef enum deed {
    NOTHING,
    BACKWARD,
    GRADIENTS,
    FINALIZE,
    CLOSE_SCOPE,
    OPEN_SCOPE,
    END_NO_GRAD,
    END_AUTOCAST,
    BEGIN_AUTOCAST,
    BEGIN_NO_GRAD,
    RELEASE_OTHER,
    CONSTANT_OTHER,
    CONSTANT_OWN,
    DROP_OWN,
    CALLS,
    BAD_CALL,
    FAIL,
    NUM_DEEDS
} deed;

typedef struct visitor {
    deed deed;
    int visits;
    weft_tensor *own, *other; /* leaves; `other` gets its gradient later */
} visitor;

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

static void expect_refused(weft_status status, const char *text)
{
    assert_int_equal(status, WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, text);
}

static void call_library(weft_tensor *a)
{
    double values[64];
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *b = weft_redistribute(weft_detach(a), NULL, &rows);
    assert_int_equal(weft_to_host(weft_softmax(b, 1), values, sizeof(values)), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_scope_end();
}

static weft_status act(visitor *v)
{
    weft_tensor *gradient;
    v->visits++;
    switch (v->deed) {
    case BACKWARD:
        assert_int_not_equal(weft_backward(v->other, NULL), WEFT_OK);
        weft_clear_error();
        break;
    case GRADIENTS:
        assert_int_not_equal(weft_gradients(1, &v->other, NULL, 1, &v->other, true, &gradient), WEFT_OK);
        weft_clear_error();
        break;
    case FINALIZE:
        expect_refused(weft_finalize(), "called from within");
        break;
    case CLOSE_SCOPE:
        expect_refused(weft_scope_end(), "no scope is open");
        break;
    case OPEN_SCOPE:
        weft_scope_begin();
        weft_scope_begin();
        break;
    case END_NO_GRAD:
        weft_no_grad_end();
        expect_refused(weft_last_status(), "no weft_no_grad_begin() is open");
        break;
    case END_AUTOCAST:
        expect_refused(weft_autocast_end(), "no weft_autocast_begin() is open");
        break;
    case BEGIN_AUTOCAST:
        assert_int_equal(weft_autocast_begin(WEFT_F16), WEFT_OK);
        break;
    case BEGIN_NO_GRAD:
        weft_no_grad_begin();
        break;
    case RELEASE_OTHER:
        assert_int_equal(weft_tensor_release(v->other), WEFT_OK);
        break;
    case CONSTANT_OTHER:
        assert_int_equal(weft_set_requires_grad(v->other, false), WEFT_OK);
        break;
    case CONSTANT_OWN:
        assert_int_equal(weft_set_requires_grad(v->own, false), WEFT_OK);
        break;
    case DROP_OWN:
        assert_int_equal(weft_zero_grad(1, &v->own), WEFT_OK);
        break;
    case CALLS:
        call_library(v->own);
        break;
    case BAD_CALL:
        assert_null(weft_reshape(v->own, 1, (int64_t[]){ 5 }));
        return weft_last_status();
    case FAIL:
        return WEFT_ERR_IO;
    default:
        break;
    }
    return WEFT_OK;
}

/* ---- hooks ------------------------------------------------------------------------------------------------ */

static weft_status hook(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    (void)leaf;
    (void)gradient;
    return act(context);
}

static weft_tensor *kept_leaf(void)
{
    weft_tensor *leaf = weft_ones(WEFT_F64, 2, (int64_t[]){ 2, 3 }, line(), NULL);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    return leaf;
}

static void expect_pass(deed d, weft_status status)
{
    if (d == FAIL || d == BAD_CALL) {
        assert_int_equal(status, d == FAIL ? WEFT_ERR_IO : WEFT_ERR_SHAPE);
        assert_int_equal(weft_last_status(), status);
        weft_clear_error();
    }
    assert_int_equal(status, weft_last_status() == WEFT_OK && d != FAIL && d != BAD_CALL ? WEFT_OK : status);
    assert_no_error();
}

static void check_hook(deed d)
{
    size_t live = weft_runtime.handles.tensors.num_objects;
    weft_tensor *own = kept_leaf(), *other = kept_leaf();
    visitor v = { .deed = d, .own = own, .other = other };
    weft_set_grad_hook(own, hook, &v);
    weft_scope_begin();
    size_t scopes = weft_runtime.tensors->scopes.count;
    weft_tensor *loss = sum_all(weft_mul(own, weft_exp(weft_scale(other, 0))));
    weft_autocast_begin(WEFT_BF16);
    expect_pass(d, weft_backward(loss, NULL));
    assert_int_equal(weft_autocast_end(), WEFT_OK);
    expect_refused(weft_autocast_end(), "no weft_autocast_begin() is open");
    assert_int_equal(v.visits, 1);
    assert_int_equal(weft_runtime.tensors->scopes.count, scopes);
    if (d != CONSTANT_OWN && d != DROP_OWN) {
        assert_all(weft_grad(own), 1);
    }
    if (d != RELEASE_OTHER && d != CONSTANT_OTHER && d != FAIL && d != BAD_CALL) {
        assert_all(weft_grad(other), 0);
    }
    /* The next pass, which is recorded again. */
    weft_tensor *next = kept_leaf(), *product = weft_mul(next, weft_tanh(next));
    assert_true(weft_requires_grad(product));
    assert_int_equal(weft_backward(sum_all(weft_scale(next, 3)), NULL), WEFT_OK);
    assert_all(weft_grad(next), 3);
    weft_scope_end();
    weft_tensor_release(own);
    if (d != RELEASE_OTHER) {
        weft_tensor_release(other);
    }
    weft_wait();
    assert_no_error();
    assert_int_equal(weft_runtime.handles.tensors.num_objects, live);
}

static void test_hooks(void **state)
{
    (void)state;
    for (deed d = NOTHING; d < NUM_DEEDS; d++) {
        check_hook(d);
    }
}

/* ---- segments --------------------------------------------------------------------------------------------- */

static weft_status segment(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    visitor *v = context;
    assert_true(num_inputs == 1 && num_outputs == 1);
    outputs[0] = weft_square(inputs[0]);
    return v->visits + 1 < 2 && (v->deed == FAIL || v->deed == BAD_CALL) ? (v->visits++, WEFT_OK) : act(v);
}

/* Deeds on leaves are those of hooks alone. */
static void check_segment(deed d)
{
    size_t live = weft_runtime.handles.tensors.num_objects;
    weft_scope_begin();
    size_t scopes = weft_runtime.tensors->scopes.count;
    weft_tensor *a = leaf_of(line(), NULL, 2), *in[] = { weft_scale(a, 2) }, *out[1];
    visitor v = { .deed = d, .own = a, .other = a };
    weft_autocast_begin(WEFT_BF16);
    assert_int_equal(weft_recompute(segment, &v, 0, 1, in, 1, out), WEFT_OK);
    assert_no_error();
    assert_int_equal(weft_runtime.tensors->scopes.count, scopes);
    expect_pass(d, weft_backward(sum_all(out[0]), NULL));
    assert_int_equal(weft_autocast_end(), WEFT_OK);
    expect_refused(weft_autocast_end(), "no weft_autocast_begin() is open");
    assert_int_equal(v.visits, 2);
    assert_int_equal(weft_runtime.tensors->scopes.count, scopes);
    if (d != FAIL && d != BAD_CALL) {
        assert_all(weft_grad(a), 8);
    }
    assert_true(weft_requires_grad(weft_exp(a)));
    weft_no_grad_begin();
    assert_false(weft_requires_grad(weft_exp(a)));
    weft_no_grad_end();
    weft_scope_end();
    weft_wait();
    assert_no_error();
    assert_int_equal(weft_runtime.handles.tensors.num_objects, live);
}

static void test_segments(void **state)
{
    (void)state;
    for (deed d = NOTHING; d < NUM_DEEDS; d++) {
        if (d < RELEASE_OTHER || d > DROP_OWN) {
            check_segment(d);
        }
    }
}

/* ---- other functions ---------------------------------------------------------------------------------------- */

static weft_status forward(weft_module *module, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    (void)module;
    assert_true(num_inputs == 1 && num_outputs == 1);
    outputs[0] = weft_square(inputs[0]);
    return act(context);
}

static void test_forward_functions(void **state)
{
    (void)state;
    weft_scope_begin();
    visitor v = { .deed = FINALIZE };
    weft_module *module = weft_module_create("square");
    assert_int_equal(weft_module_set_forward(module, forward, &v), WEFT_OK);
    weft_tensor *y = weft_module_call(module, leaf_of(line(), NULL, 2));
    assert_all(y, 1);
    assert_int_equal(v.visits, 1);
    weft_module_destroy(module);
    weft_scope_end();
    assert_no_error();
}

static weft_status graph_function(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    outputs[0] = weft_square(inputs[0]);
    return act(context);
}

static void test_graphs(void **state)
{
    (void)state;
    visitor v = { .deed = FINALIZE };
    weft_graph *graph = weft_graph_create("square", graph_function, &v, 1, 0, 1);
    weft_scope_begin();
    for (int i = 0; i < 3; i++) {
        weft_tensor *in[] = { leaf_of(line(), NULL, 2) }, *out[1];
        assert_int_equal(weft_graph_call(graph, in, NULL, out), WEFT_OK);
        assert_all(out[0], 1);
    }
    assert_true(v.visits > 0);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_forward_functions),
        cmocka_unit_test(test_graphs),
    };
    return RUN_ON_RANKS(tests);
}
