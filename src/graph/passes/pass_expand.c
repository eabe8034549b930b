/* Composites become their calls, so that these are clustered and fused with others. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/expansion.h"
#include "graph/passes/pass_expand.h"
#include "tensor/state.h"

/* A composite while it is expanded. */
typedef struct expanding {
    weft_graph_body *body;
    size_t number; /* of the node */
    const weft_graph_node *node;
    const weft_expansion *expansion;
    weft_tensor_impl **tensors; /* by number in the expansion: without data */
    int *values;                /* the value of the body that it is now */
    int *last_writers;          /* the last step that makes or changes it; -1: none */
} expanding;

static const weft_step *step_at(const expanding *x, size_t number)
{
    return (const weft_step *)x->expansion->steps.items + number;
}

/* ---- which ones ------------------------------------------------------------------------------------------ */

static bool may_expand(const weft_graph_body *body, const weft_graph_node *node)
{
    const weft_call *call = node->call;
    bool may = call->operation->expand != NULL && !node->implicit && !node->without_data &&
               node->source >= 0 && !weft_trace_node(body->recorded, (size_t)node->source)->scalars_vary;
    for (int i = 0; i < node->num_inputs && may; i++) {
        may = node->inputs[i] >= 0;
    }
    for (int i = 0; i < call->num_inputs && may; i++) {
        may = call->access_map[i] == NULL;
    }
    return may;
}

/* Calls of operations, and redistributions. */
static bool has_known_steps(const expanding *x)
{
    bool known = true;
    int draws = 0;
    for (size_t s = 0; s < x->expansion->steps.count && known; s++) {
        const weft_call *call = step_at(x, s)->call;
        draws += call->operation->draws;
        known = !weft_call_is_action(call) ? call->details == NULL : weft_call_does(call, WEFT_MOVES) && call->num_inputs == 1;
        for (int i = 0; i < call->num_inputs && known; i++) {
            known = call->access_map[i] == NULL;
        }
    }
    return known && draws == x->node->draws;
}

static bool changes(const weft_step *step, int output)
{
    return weft_operation_changes(step->call->operation, output);
}

/* An input of the composite is changed at most once, and is then an output, so that each value has a number. */
static bool has_known_changes(const expanding *x)
{
    bool known = true;
    for (size_t s = 0; s < x->expansion->steps.count && known; s++) {
        const weft_step *step = step_at(x, s);
        for (int i = 0; i < step->num_outputs && known; i++) {
            int tensor = step->outputs[i];
            if (tensor < x->expansion->num_inputs && changes(step, i)) {
                known = x->last_writers[tensor] < 0 && tensor < x->node->num_outputs &&
                        x->expansion->outputs[tensor] == tensor && x->node->outputs[tensor] >= 0;
            }
            x->last_writers[tensor] = tensor >= x->expansion->num_inputs || changes(step, i) ? (int)s : x->last_writers[tensor];
        }
    }
    return known;
}

/* Each output of the composite is made, or changed, by a step of its own. */
static bool has_known_outputs(const expanding *x)
{
    bool known = x->expansion->num_outputs == x->node->num_outputs;
    for (int i = 0; i < x->node->num_outputs && known; i++) {
        int tensor = x->expansion->outputs[i];
        known = (tensor < 0) == (x->node->outputs[i] < 0) && (tensor < 0 || x->last_writers[tensor] >= 0);
        for (int k = 0; k < i && known; k++) {
            known = tensor < 0 || x->expansion->outputs[k] != tensor;
        }
    }
    return known;
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* The step on tensors without data: the layouts of its outputs. False with the error kept. */
static bool run_without_data(const expanding *x, const weft_step *step)
{
    weft_call call = *step->call;
    weft_tensor *outputs[WEFT_MAX_STEP_OUTPUTS] = { NULL };
    for (int i = 0; i < call.num_inputs; i++) {
        call.inputs[i] = x->tensors[step->inputs[i]]->handle;
    }
    bool done = true;
    if (!weft_call_is_action(&call)) {
        done = weft_dispatch_itself_all(&call, outputs);
    } else if (x->tensors[step->outputs[0]] == NULL) {
        outputs[0] = weft_tensor_handle(weft_tensor_fake(call.function, call.details->layout));
        done = outputs[0] != NULL;
    }
    for (int i = 0; i < step->num_outputs && done; i++) {
        weft_tensor_impl **place = &x->tensors[step->outputs[i]];
        *place = *place != NULL ? *place : weft_tensor_get(outputs[i]);
    }
    return done;
}

/* The value that a step's output is: the composite's, if no later step changes it. -1: no memory. */
static int value_of(const expanding *x, size_t number, int tensor)
{
    for (int i = 0; i < x->node->num_outputs; i++) {
        if (x->expansion->outputs[i] == tensor && x->last_writers[tensor] == (int)number) {
            return x->node->outputs[i];
        }
    }
    return weft_body_add_value(x->body, x->tensors[tensor]->layout);
}

/* False: no memory, or with the error kept. */
static bool add_step(const expanding *x, size_t number)
{
    const weft_step *step = step_at(x, number);
    int inputs[WEFT_MAX_INPUTS], outputs[WEFT_MAX_STEP_OUTPUTS];
    for (int i = 0; i < step->call->num_inputs; i++) {
        inputs[i] = x->values[step->inputs[i]];
    }
    bool done = run_without_data(x, step);
    bool itself = weft_call_is_action(step->call) && step->num_outputs == 1 && step->outputs[0] == step->inputs[0];
    for (int i = 0; i < step->num_outputs && done && !itself; i++) {
        outputs[i] = value_of(x, number, step->outputs[i]);
        done = outputs[i] >= 0;
        x->values[step->outputs[i]] = outputs[i];
    }
    int num_outputs = step->num_outputs;
    for (int64_t i = 0; i < step->call->attributes.omitted && !weft_call_is_action(step->call); i++) {
        outputs[num_outputs++] = -1;
    }
    return done && (itself || weft_body_insert_step(x->body, x->number, x->node->source, step->call, inputs, num_outputs,
                                                    outputs));
}

/* ---- all ------------------------------------------------------------------------------------------------- */

/* False: no memory, or with the error kept. */
static bool add_steps(const expanding *x, weft_tensor_impl *const inputs[])
{
    bool done = x->node->call->operation->passes_scalars || weft_body_fix_scalars(x->body, x->node->source);
    for (int i = 0; i < x->node->num_inputs; i++) {
        x->tensors[i] = inputs[i];
        x->values[i] = x->node->inputs[i];
    }
    for (size_t s = 0; s < x->expansion->steps.count && done; s++) {
        done = add_step(x, s);
    }
    weft_body_remove(weft_trace_node(x->body->trace, x->number));
    return done;
}

static bool expand_known(expanding *x, weft_tensor_impl *const inputs[])
{
    int count = x->expansion->num_tensors + 1;
    x->tensors = calloc((size_t)count, sizeof(*x->tensors));
    x->values = malloc((size_t)count * 2 * sizeof(int));
    bool done = x->tensors != NULL && x->values != NULL;
    if (done) {
        x->last_writers = x->values + count;
        memset(x->last_writers, -1, (size_t)count * sizeof(int));
        bool known = has_known_steps(x) && has_known_changes(x) && has_known_outputs(x);
        done = !known || add_steps(x, inputs);
    }
    free(x->tensors);
    free(x->values);
    return done;
}

/* Inputs without data for the call; those of a list too. False with the error kept. */
static bool make_inputs(const weft_graph_body *body, const weft_graph_node *node, weft_tensor_impl *inputs[], weft_tensor *handles[])
{
    bool done = true;
    for (int i = 0; i < node->num_inputs && done; i++) {
        int same = 0;
        while (node->inputs[same] != node->inputs[i]) {
            same++;
        }
        inputs[i] = same < i ? inputs[same]
                             : weft_tensor_fake(node->call->function, weft_trace_value(body->trace, node->inputs[i])->layout);
        done = inputs[i] != NULL;
        handles[i] = weft_tensor_handle(inputs[i]);
    }
    return done;
}

static bool expand_node(weft_graph_body *body, size_t number)
{
    const weft_graph_node *node = weft_trace_node(body->trace, number);
    weft_own_call own;
    weft_tensor_impl **inputs = calloc((size_t)node->num_inputs + 1, sizeof(*inputs));
    weft_tensor **handles = calloc((size_t)node->num_inputs + 1, sizeof(*handles));
    bool done = inputs != NULL && handles != NULL && make_inputs(body, node, inputs, handles);
    if (done) {
        weft_call_on(&own, node->call, handles);
        memcpy(own.call.scalars, body->calls[node->source].scalars, sizeof(own.call.scalars));
    }
    if (done && weft_call_expands(&own.call)) {
        expanding x = { .body = body, .number = number, .node = node };
        weft_expansion *expansion = weft_expansion_obtain(&own.call, inputs);
        x.expansion = expansion;
        done = expansion != NULL && expand_known(&x, inputs);
        weft_expansion_release(expansion);
    }
    free(inputs);
    free(handles);
    return done;
}

bool weft_pass_expand(weft_graph_body *body)
{
    bool done = true;
    size_t count = body->trace->nodes.count;
    for (size_t i = 0; i < count && done; i++) {
        if (may_expand(body, weft_trace_node(body->trace, i))) {
            done = weft_scope_begin_unrecorded() && expand_node(body, i);
            weft_scope_end_keeping(0, NULL, NULL, NULL);
        }
    }
    return done;
}
