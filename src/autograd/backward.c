/* The public functions of backward passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

/* False with the error kept. */
static bool check_outside_pass(const char *function)
{
    bool inside = weft_runtime.tape != NULL && weft_runtime.tape->in_pass;
    if (inside) {
        weft_fail(WEFT_ERR_STATE, function, "called from a hook: a backward pass is in progress");
    }
    return !inside;
}

/* A tensor's value on the tape. NULL with the error kept. */
static weft_tape_value *check_value(const char *function, const char *argument, const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor(function, argument, handle);
    if (tensor != NULL && weft_is_deferred(tensor) && !weft_gather_now(tensor)) {
        return NULL;
    }
    if (tensor != NULL && tensor->tape == NULL) {
        weft_fail(WEFT_ERR_STATE, function, "%s requires no gradient: it was not computed from leaves", argument);
    }
    return tensor == NULL ? NULL : tensor->tape;
}

/* The gradient that a pass begins with: the program's, or one. NULL with the error kept. */
static weft_tensor *seed(const char *function, const char *argument, const char *gradient_argument,
                         weft_tensor *output, weft_tensor *gradient)
{
    const weft_layout *layout = weft_layout_of(output);
    if (gradient == NULL) {
        if (weft_tensor_num_elements(output) != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "%s has %lld elements: a non-scalar output needs a gradient argument, and %s is NULL",
                      argument, (long long)weft_tensor_num_elements(output), gradient_argument);
            return NULL;
        }
        if (weft_dtype_is_complex(layout->dtype)) {
            weft_fail(WEFT_ERR_DTYPE, function, "%s is %s: a complex output needs a gradient argument, and %s is NULL", argument,
                      weft_dtype_name(layout->dtype), gradient_argument);
            return NULL;
        }
        return weft_tensor_is_fake(output) && weft_runtime.world != WEFT_WORLD_FAKE
                   ? weft_tensor_handle(weft_tensor_fake(function, layout))
                   : weft_ones_like(output);
    }
    const weft_tensor_impl *tensor = weft_check_tensor(function, gradient_argument, gradient);
    if (tensor == NULL) {
        return NULL;
    }
    if (tensor->layout->ndim != layout->ndim ||
        memcmp(tensor->layout->shape, layout->shape, (size_t)layout->ndim * sizeof(layout->shape[0])) != 0) {
        char given[160], expected[160];
        weft_fail(WEFT_ERR_SHAPE, function, "%s is %s, expected the shape of %s, %s", gradient_argument,
                  weft_layout_format(tensor->layout, given, sizeof(given)), argument,
                  weft_layout_format(layout, expected, sizeof(expected)));
        return NULL;
    }
    if (tensor->layout->dtype != layout->dtype) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected the type of %s, %s", gradient_argument,
                  weft_dtype_name(tensor->layout->dtype), argument, weft_dtype_name(layout->dtype));
        return NULL;
    }
    const bool alone = weft_tensor_is_layout_alone(tensor);
    if (alone != weft_tensor_is_layout_alone(weft_tensor_get(output))) {
        weft_fail(WEFT_ERR_STATE, function, "%s has %s data, and %s has %s", gradient_argument, alone ? "no" : "", argument,
                  alone ? "some" : "none");
        return NULL;
    }
    return tensor->layout->mesh == layout->mesh
               ? gradient
               : weft_redistribute(gradient, layout->mesh->handle, NULL);
}

weft_status weft_backward(weft_tensor *loss, const weft_backward_options *given)
{
    static const char function[] = "weft_backward";
    weft_backward_options options = { .size = 0 };
    if (weft_require_init(function) != WEFT_OK || !check_outside_pass(function) ||
        (given != NULL && !WEFT_TAKE_OPTIONS(function, &options, given))) {
        return weft_latest_status();
    }
    weft_tape_value *value = check_value(function, "loss", loss);
    if (value == NULL || !weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    weft_pass pass = { .function = function,
                       .retain = options.retain || options.create_graph,
                       .create_graph = options.create_graph,
                       .accumulates = true };
    weft_tape *tape = weft_runtime.tape;
    tape->no_grad += !options.create_graph;
    weft_tensor *gradient = seed(function, "loss", "output_gradient", loss, options.output_gradient);
    tape->no_grad -= !options.create_graph;
    bool done = gradient != NULL && weft_pass_run(&pass, 1, &value, &gradient);
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return done ? WEFT_OK : weft_latest_status();
}

/* ---- chosen gradients ------------------------------------------------------------------------------------ */

typedef struct request {
    weft_pass pass;
    int num_outputs, num_inputs;
    weft_tensor *const *outputs, *const *inputs;
    weft_tensor *const *output_gradients; /* may be NULL */
    weft_tensor **gradients;
    weft_tape_value **values; /* of the outputs */
    weft_tensor **seeds;
} request;

static bool check_arguments(request *r)
{
    const char *function = r->pass.function;
    if (r->num_outputs < 1 || r->num_inputs < 1) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d, expected at least 1",
                  r->num_outputs < 1 ? "num_outputs" : "num_inputs", r->num_outputs < 1 ? r->num_outputs : r->num_inputs);
        return false;
    }
    if (r->outputs == NULL || r->inputs == NULL || r->gradients == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL",
                  r->outputs == NULL  ? "outputs"
                  : r->inputs == NULL ? "inputs"
                                      : "gradients");
        return false;
    }
    char name[32];
    bool right = true;
    for (int i = 0; i < r->num_outputs && right; i++) {
        snprintf(name, sizeof(name), "outputs[%d]", i);
        right = check_value(function, name, r->outputs[i]) != NULL;
    }
    for (int i = 0; i < r->num_inputs && right; i++) {
        snprintf(name, sizeof(name), "inputs[%d]", i);
        right = check_value(function, name, r->inputs[i]) != NULL;
    }
    return right;
}

static bool make_seeds(request *r)
{
    r->values = calloc((size_t)r->num_outputs, sizeof(*r->values));
    r->seeds = calloc((size_t)r->num_outputs, sizeof(*r->seeds));
    if (r->values == NULL || r->seeds == NULL) {
        weft_fail(WEFT_ERR_NOMEM, r->pass.function, "no memory for %d outputs", r->num_outputs);
        return false;
    }
    bool done = true;
    for (int i = 0; i < r->num_outputs && done; i++) {
        char name[32], gradient_name[40];
        snprintf(name, sizeof(name), "outputs[%d]", i);
        snprintf(gradient_name, sizeof(gradient_name), "output_gradients[%d]", i);
        r->values[i] = weft_tensor_get(r->outputs[i])->tape;
        r->seeds[i] = seed(r->pass.function, name, gradient_name, r->outputs[i],
                           r->output_gradients == NULL ? NULL : r->output_gradients[i]);
        done = r->seeds[i] != NULL;
    }
    return done;
}

/* Chosen values keep their node, which the pass may release. */
static void choose(request *r)
{
    for (int i = 0; i < r->num_inputs; i++) {
        weft_tape_value *value = weft_tensor_get(r->inputs[i])->tape;
        value->chosen = value->chosen == 0 ? 1 + i : value->chosen;
        value->node->references++;
    }
}

static bool take_chosen(request *r, bool done)
{
    for (int i = 0; i < r->num_inputs; i++) {
        weft_tape_value *value = weft_tensor_get(r->inputs[i])->tape;
        const weft_layout *layout =
            done ? weft_gradient_layout(r->pass.function, value) : NULL;
        weft_tensor *sum = NULL;
        int first = value->chosen - 1; /* of the same inputs */
        if (first == i) {
            done = layout != NULL && weft_sums_take(&r->pass, value, layout, &sum);
        } else {
            sum = r->gradients[first];
        }
        if (done && sum != NULL) {
            weft_tensor_impl *own = weft_own_gradient(&r->pass, weft_tensor_get(sum));
            r->gradients[i] = weft_tensor_handle(own);
            done = own != NULL;
        }
        if (r->gradients[i] != NULL) {
            weft_tensor_unreference(weft_tensor_get(r->gradients[i])); /* the scope has a reference */
        }
    }
    for (int i = 0; i < r->num_inputs; i++) {
        weft_tape_value *value = weft_tensor_get(r->inputs[i])->tape;
        weft_sums_drop(value);
        value->chosen = 0;
        weft_tape_node_release(value->node);
    }
    return done;
}

weft_status weft_gradients(int num_outputs, weft_tensor *const outputs[], weft_tensor *const output_gradients[],
                           int num_inputs, weft_tensor *const inputs[], bool create_graph, weft_tensor *gradients[])
{
    static const char function[] = "weft_gradients";
    request r = { .pass = { .function = function, .retain = create_graph, .create_graph = create_graph },
                  .num_outputs = num_outputs,
                  .num_inputs = num_inputs,
                  .outputs = outputs,
                  .inputs = inputs,
                  .output_gradients = output_gradients,
                  .gradients = gradients };
    for (int i = 0; gradients != NULL && i < num_inputs; i++) {
        gradients[i] = NULL;
    }
    if (weft_require_init(function) != WEFT_OK || !check_outside_pass(function) || !check_arguments(&r) ||
        !weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    weft_tape *tape = weft_runtime.tape;
    int no_grad = tape->no_grad;
    tape->no_grad = create_graph ? 0 : no_grad + 1;
    bool done = make_seeds(&r);
    if (done) {
        choose(&r);
        done = weft_pass_run(&r.pass, num_outputs, r.values, r.seeds);
        done = take_chosen(&r, done);
    }
    tape->no_grad = no_grad;
    done = weft_scope_end_keeping(done ? num_inputs : 0, gradients, NULL, NULL) && done;
    for (int i = 0; i < num_inputs && !done; i++) {
        gradients[i] = NULL;
    }
    free(r.values);
    free(r.seeds);
    return done ? WEFT_OK : weft_latest_status();
}
