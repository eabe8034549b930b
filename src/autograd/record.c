/* The recorder: a node for each public call on values that require a gradient. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

static bool is_floating(const weft_tensor_impl *tensor)
{
    return weft_dtype_is_floating(tensor->layout->dtype);
}

static weft_tensor_impl *input_of(const weft_call *call, int input)
{
    const weft_tensor *handle = weft_call_tensor(call, input);
    return handle == NULL ? NULL : weft_tensor_get(handle);
}

static bool any_requires(const weft_call *call)
{
    for (int i = 0, n = weft_call_num_tensors(call); i < n; i++) {
        const weft_tensor_impl *tensor = input_of(call, i);
        if (tensor != NULL && tensor->tape != NULL) {
            return true;
        }
    }
    return false;
}

/* Steps of optimisers change leaves; so may releases and the like be called on them. */
static bool is_of_interest(const weft_call *call)
{
    return call->operation != NULL ? !call->operation->gradient.steps
                                   : weft_call_does(call, WEFT_MOVES) || call->details != NULL;
}

/* 1 + the number of an input that is a leaf and would be changed, or that was computed from leaves and would be
 * written to by the program; 0: none. */
static int changed_against_rules(const weft_call *call)
{
    const weft_tensor_impl *lent = weft_call_does(call, WEFT_LENDS) ? input_of(call, 0) : NULL;
    if (lent != NULL && lent->tape != NULL && weft_tape_leaf_of(lent->tape) == NULL) {
        return 1;
    }
    for (int i = 0; i < weft_call_num_outputs(call); i++) {
        const weft_tensor_impl *tensor = weft_call_changes(call, i) ? input_of(call, i) : NULL;
        if (tensor != NULL && tensor->tape != NULL && weft_tape_leaf_of(tensor->tape) != NULL) {
            return 1 + i;
        }
    }
    return 0;
}

static unsigned reads_of(const weft_call *call)
{
    bool wanted[WEFT_MAX_INPUTS] = { false };
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_tensor_impl *tensor = input_of(call, i);
        wanted[i] = tensor != NULL && tensor->tape != NULL;
    }
    return weft_call_gradient_reads(call, wanted);
}

/* A leaf that is to be gathered again: the redistribution keeps its values, from which its result is made again. */
static bool regathers(const weft_call *call)
{
    const weft_tensor_impl *tensor = weft_is_gather(call) ? input_of(call, 0) : NULL;
    const weft_tape_leaf *leaf = tensor == NULL || tensor->tape == NULL ? NULL : weft_tape_leaf_of(tensor->tape);
    return leaf != NULL && leaf->regathers;
}

/* Without data there is nothing to save, but a graph's calls tell the values apart. */
static bool is_saved(const weft_tensor_impl *tensor)
{
    return !tensor->fake || weft_runtime.context.deferral != NULL;
}

static bool save_inputs(weft_tape_node *node, const weft_call *call)
{
    unsigned reads = reads_of(call) | (regathers(call) ? WEFT_READS_INPUT(0) : 0);
    bool all = weft_call_gradient_reads_all(call), done = true;
    for (int i = 0; i < node->num_inputs && done; i++) {
        weft_tape_input *input = &node->inputs[i];
        weft_tensor_impl *tensor = input_of(call, i);
        if (tensor == NULL) {
            continue;
        }
        input->layout = tensor->layout;
        if (tensor->tape != NULL) {
            input->value = tensor->tape;
            input->value->node->references++;
        }
        bool read = all || (i < call->num_inputs && (reads & WEFT_READS_INPUT(i)) != 0);
        done = !read || !is_saved(tensor) || weft_save(call->function, tensor, &input->saved);
    }
    return done;
}

/* Whether the gradient reads outputs that the program has not asked for. */
static bool reads_omitted(const weft_call *call, int num_outputs)
{
    if (call->operation == NULL || call->attributes.omitted == 0) {
        return false;
    }
    unsigned asked = (1u << (WEFT_MAX_INPUTS + num_outputs - (int)call->attributes.omitted)) - 1;
    return (reads_of(call) & ~asked) != 0;
}

static const weft_call *prepare(weft_recorder *self, const weft_call *call, weft_call *own)
{
    return weft_autocast((weft_tape *)self, call, own);
}

static void begin(weft_recorder *self, const weft_call *call, int num_outputs)
{
    weft_tape *tape = (weft_tape *)self;
    tape->pending = (weft_tape_pending){ .node = NULL };
    if (tape->in_first_run && is_of_interest(call)) {
        tape->pending.failed = !weft_segment_note(tape, call);
    }
    if (tape->no_grad > 0 || !is_of_interest(call) || !any_requires(call)) {
        return;
    }
    tape->pending.refused = changed_against_rules(call);
    if (tape->pending.refused > 0 || weft_call_no_gradient(call) != NULL) {
        return;
    }
    size_t bytes = weft_call_copy_bytes(call);
    void *room;
    weft_tape_node *node = weft_tape_node_new(call->function, WEFT_TAPE_CALL, weft_call_num_tensors(call),
                                              num_outputs, bytes, &room);
    tape->pending.failed = node == NULL || !save_inputs(node, call);
    if (tape->pending.failed) {
        if (node != NULL) {
            weft_tape_node_release(node);
        }
        return;
    }
    weft_call *copy = weft_call_copy_to(room, call);
    if (reads_omitted(call, num_outputs)) {
        tape->pending.fills_omitted = true;
        copy->attributes.omitted = 0;
    }
    node->call = copy;
    tape->pending.node = node;
}

/* A changed tensor is a new value; of a call without a gradient, a constant. */
static void forget_changed(const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    for (int i = 0; i < num_outputs && i < weft_call_num_outputs(call); i++) {
        weft_tensor_impl *tensor =
            outputs[i] != NULL && weft_call_changes(call, i) ? weft_tensor_get(outputs[i]) : NULL;
        if (tensor != NULL && tensor->tape != NULL && weft_tape_leaf_of(tensor->tape) == NULL) {
            weft_tape_set(tensor, NULL);
        }
    }
}

/* An output that is an input, unchanged (a conversion to the same type), needs no node: it remains a leaf if it is one. */
static bool is_identity(const weft_call *call, weft_tensor *const outputs[])
{
    return call->num_inputs > 0 && outputs[0] == call->inputs[0] && !weft_call_changes(call, 0);
}

static bool is_changed(const weft_call *call, const weft_tensor *handle)
{
    bool changed = false;
    for (int i = 0; i < weft_call_num_outputs(call); i++) {
        changed |= weft_call_changes(call, i) && weft_call_tensor(call, i) == handle;
    }
    return changed;
}

/* Inputs were saved before the call, in which a graph has numbered them: the saved ones are the same values. */
static void number_saved(const weft_tape_node *node, const weft_call *call)
{
    for (int i = 0; i < node->num_inputs; i++) {
        const weft_saved *saved = &node->inputs[i].saved;
        const weft_tensor_impl *tensor = saved->tensor == NULL ? NULL : input_of(call, i);
        if (tensor != NULL && tensor->graph_run != 0 && saved->gathered == NULL && !tensor->borrowed &&
            !is_changed(call, weft_call_tensor(call, i))) {
            saved->tensor->number = tensor->number;
            saved->tensor->graph_run = tensor->graph_run;
        }
    }
}

/* Makes the outputs values of the node. False with the error kept. */
static bool attach(weft_tape_node *node, const weft_call *call, weft_tensor *const outputs[])
{
    unsigned reads = reads_of(node->call);
    bool done = true;
    number_saved(node, call);
    for (int i = 0; i < node->num_outputs && done; i++) {
        weft_tensor_impl *tensor = outputs[i] == NULL ? NULL : weft_tensor_get(outputs[i]);
        if (tensor == NULL) {
            continue;
        }
        weft_tape_value *value = &node->outputs[i];
        bool listed = i >= WEFT_MAX_OUTPUTS;
        value->layout = tensor->layout;
        if (!listed && (reads & WEFT_READS_OUTPUT(i)) != 0 && is_saved(tensor)) {
            done = weft_save(call->function, tensor, &value->saved);
        }
    }
    for (int i = 0; i < node->num_outputs && done; i++) {
        weft_tensor_impl *tensor = outputs[i] == NULL ? NULL : weft_tensor_get(outputs[i]);
        if (tensor != NULL && is_floating(tensor)) {
            weft_tape_set(tensor, &node->outputs[i]);
        }
    }
    return done;
}

/* With the outputs that the program has not asked for: these are saved alone. */
static weft_status execute_whole(weft_tape_pending *pending, const weft_call *call, int num_outputs, weft_tensor *outputs[])
{
    int asked = num_outputs - (int)call->attributes.omitted;
    weft_call whole = *call;
    whole.attributes.omitted = 0;
    if (!weft_scope_open_unrecorded()) {
        return weft_latest_status();
    }
    weft_status status = weft_invoke(&whole, outputs);
    if (status == WEFT_OK) {
        attach(pending->node, call, outputs);
        weft_tape_node_release(pending->node);
        pending->node = NULL;
        pending->attached = true;
    }
    bool kept = weft_scope_close_keeping(status == WEFT_OK ? asked : 0, outputs, NULL, NULL);
    for (int i = asked; i < num_outputs; i++) {
        outputs[i] = NULL;
    }
    return status == WEFT_OK && !kept ? weft_latest_status() : status;
}

static weft_status refuse(const weft_call *call, int input)
{
    static const char *const between = "between weft_no_grad_begin() and weft_no_grad_end()";
    if (weft_call_does(call, WEFT_LENDS)) {
        return weft_fail(WEFT_ERR_STATE, call->function,
                         "tensor was computed from leaves: it can be written to %s; weft_detach() gives its values "
                         "as a constant",
                         between);
    }
    return weft_fail(WEFT_ERR_STATE, call->function, "%s is a leaf that requires a gradient: it can be changed %s",
                     call->operation != NULL && input < call->num_inputs ? call->operation->inputs[input].name
                                                                          : "a changed tensor",
                     between);
}

static bool execute(weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *outputs[],
                    weft_status *status)
{
    weft_tape_pending *pending = &((weft_tape *)self)->pending;
    if (pending->refused > 0) {
        *status = refuse(call, pending->refused - 1);
        return true;
    }
    if (pending->failed) {
        *status = weft_latest_status();
        return true;
    }
    if (pending->fills_omitted) {
        *status = execute_whole(pending, call, num_outputs, outputs);
        return true;
    }
    return false;
}

static void end(weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[],
                weft_status status)
{
    weft_tape *tape = (weft_tape *)self;
    weft_tape_node *node = tape->pending.node;
    bool attached = tape->pending.attached;
    tape->pending.node = NULL;
    if (status == WEFT_OK && node != NULL && !is_identity(call, outputs)) {
        attach(node, call, outputs);
    } else if (status == WEFT_OK && node == NULL && !attached && tape->no_grad == 0 && is_of_interest(call)) {
        forget_changed(call, num_outputs, outputs);
    }
    if (node != NULL) {
        weft_tape_node_release(node);
    }
}

void weft_tape_record_with(weft_recorder *recorder)
{
    *recorder = (weft_recorder){ .prepare = prepare, .begin = begin, .execute = execute, .end = end };
}
