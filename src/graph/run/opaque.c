/* Functions of the program within a graph that are not captured. */
#include "graph/run/graph.h"

#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "tensor/state.h"

/* A function that was declared safe, and its results, with references. */
typedef struct constant {
    weft_opaque_function function;
    void *context;
    int num_outputs;
    weft_tensor_impl **outputs;
} constant;

static void forget(constant *c)
{
    for (int i = 0; i < c->num_outputs; i++) {
        weft_tensor_unreference(c->outputs[i]);
    }
    free(c->outputs);
    *c = (constant){ .num_outputs = 0 };
}

void weft_graph_forget_constants(weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->constants.count; i++) {
        forget((constant *)graph->constants.items + i);
    }
    weft_vec_free(&graph->constants);
}

int weft_graph_constant_of(const weft_graph_impl *graph, const weft_tensor_impl *tensor)
{
    for (size_t i = 0; i < graph->constants.count; i++) {
        const constant *c = (const constant *)graph->constants.items + i;
        for (int k = 0; k < c->num_outputs; k++) {
            if (c->outputs[k] == tensor) {
                return (int)i;
            }
        }
    }
    return -1;
}

/* As any other code of the program's, not deferred. A status with the error kept. */
static weft_status call(const char *name, weft_opaque_function function, void *context, weft_tensor *const inputs[], int num_outputs,
                        weft_tensor *outputs[])
{
    static const char caller[] = "weft_graph_opaque";
    const weft_context outer = weft_context_enter(weft_context_undeferred());
    weft_visit visit;
    weft_visit_begin(&visit);
    weft_status status = function(context, inputs, outputs);
    weft_visit_end(&visit);
    weft_context_leave(outer);
    if (status != WEFT_OK) {
        return weft_fail(status, caller, "function %s returned: %s", name, weft_status_string(status));
    }
    for (int i = 0; i < num_outputs; i++) {
        char text[48];
        snprintf(text, sizeof(text), "outputs[%d] of the function", i);
        if (weft_check_tensor(caller, text, outputs[i]) == NULL) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

/* The place of the run's next constant. NULL: no memory. */
static constant *next_constant(weft_graph_run *run)
{
    weft_vec *constants = &run->graph->constants;
    if (run->num_constants == constants->count) {
        constant *added = weft_vec_push(constants, sizeof(constant));
        if (added == NULL) {
            return NULL;
        }
        *added = (constant){ .num_outputs = 0 };
    }
    return (constant *)constants->items + run->num_constants++;
}

static weft_status keep(constant *c, weft_opaque_function function, void *context, int num_outputs, weft_tensor *const outputs[])
{
    forget(c);
    c->outputs = malloc(((size_t)num_outputs + 1) * sizeof(*c->outputs));
    if (c->outputs == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_opaque", "no memory for %d tensors", num_outputs);
    }
    c->function = function;
    c->context = context;
    c->num_outputs = num_outputs;
    for (int i = 0; i < num_outputs; i++) {
        c->outputs[i] = weft_tensor_get(outputs[i]);
        c->outputs[i]->references++;
    }
    return WEFT_OK;
}

static weft_status give_again(const constant *c, weft_tensor *outputs[])
{
    for (int i = 0; i < c->num_outputs; i++) {
        outputs[i] = weft_tensor_handle(weft_tensor_share(c->outputs[i]));
        if (outputs[i] == NULL) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

/* Called once: its results are constants of the graph. */
static weft_status call_once(weft_graph_run *run, const char *name, weft_opaque_function function, void *context, int num_inputs,
                             weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    for (int i = 0; i < num_inputs; i++) {
        if (weft_tensor_get(inputs[i])->promised) {
            return weft_fail(WEFT_ERR_STATE, "weft_graph_opaque",
                             "inputs[%d] is computed in the graph, and the results of %s are constants", i, name);
        }
    }
    constant *c = next_constant(run);
    if (c == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_opaque", "no memory for the results of %s", name);
    }
    if (c->outputs != NULL && c->function == function && c->context == context && c->num_outputs == num_outputs) {
        return give_again(c, outputs);
    }
    weft_status status = call(name, function, context, inputs, num_outputs, outputs);
    return status == WEFT_OK ? keep(c, function, context, num_outputs, outputs) : status;
}

static weft_status check_arguments(const char *name, weft_opaque_kind kind, weft_opaque_function run, int num_inputs,
                                   weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    static const char function[] = "weft_graph_opaque";
    weft_status status = weft_require_init(function);
    if (status != WEFT_OK) {
        return status;
    }
    const char *missing = name == NULL                           ? "name"
                          : run == NULL                          ? "function"
                          : num_inputs > 0 && inputs == NULL    ? "inputs"
                          : num_outputs > 0 && outputs == NULL ? "outputs"
                                                                 : NULL;
    if (missing != NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", missing);
    }
    if (num_inputs < 0 || num_outputs < 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is negative", num_inputs < 0 ? "num_inputs" : "num_outputs");
    }
    if (kind != WEFT_OPAQUE_CONSTANT && kind != WEFT_OPAQUE_CALLED) {
        return weft_fail(WEFT_ERR_INVALID, function, "kind is %d, expected WEFT_OPAQUE_CONSTANT or WEFT_OPAQUE_CALLED", (int)kind);
    }
    for (int i = 0; i < num_inputs; i++) {
        char text[32];
        snprintf(text, sizeof(text), "inputs[%d]", i);
        if (weft_check_tensor(function, text, inputs[i]) == NULL) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

weft_status weft_graph_opaque(const char *name, weft_opaque_kind kind, weft_opaque_function function, void *context,
                              int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    weft_status status = check_arguments(name, kind, function, num_inputs, inputs, num_outputs, outputs);
    if (status != WEFT_OK) {
        return status;
    }
    for (int i = 0; i < num_outputs; i++) {
        outputs[i] = NULL;
    }
    weft_graph_run *run = (weft_graph_run *)weft_runtime.context.deferral; /* NULL: in no graph */
    if (run != NULL && kind == WEFT_OPAQUE_CONSTANT) {
        status = call_once(run, name, function, context, num_inputs, inputs, num_outputs, outputs);
    } else {
        if (run != NULL) {
            run->at_once = "weft_graph_opaque";
            status = weft_run_end_segment(run, "weft_graph_opaque");
        }
        status = status == WEFT_OK ? call(name, function, context, inputs, num_outputs, outputs) : status;
    }
    for (int i = 0; i < num_outputs && status != WEFT_OK; i++) {
        outputs[i] = NULL;
    }
    return status;
}
