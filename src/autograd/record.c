/* The interposer: a node for each public call on values that require a gradient. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "dispatch/cache.h"
#include "ops/ops.h"
#include "tensor/regions.h"

/* A call while it is made. */
typedef struct recording {
    weft_tape_node *node; /* NULL: it is not recorded */
    int refused;          /* 1 + the number of the input that it must not change; 0: none */
    bool failed;          /* no memory to record it */
    bool fills_omitted;   /* its gradient reads outputs that the program has not asked for */
    bool attached;        /* its outputs are values already */
} recording;

static bool is_floating(const weft_tensor_impl *tensor)
{
    return weft_dtype_has_gradient(tensor->layout->dtype);
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
    return !weft_call_is_action(call) ? !call->operation->gradient.steps
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
    if (weft_call_is_action(call) || call->attributes.omitted == 0) {
        return false;
    }
    unsigned asked = (1u << (WEFT_MAX_INPUTS + num_outputs - (int)call->attributes.omitted)) - 1;
    return (reads_of(call) & ~asked) != 0;
}

/* Whether the call may reduce an input: it has a Partial one, and chooses layouts itself. */
static bool may_reduce(const weft_tape *tape, const weft_call *call)
{
    bool any = false;
    if (weft_call_is_action(call)) {
        return false;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_tensor_impl *tensor = input_of(call, i);
        if (tensor == NULL || tensor->layout->mesh != input_of(call, 0)->layout->mesh) {
            return false;
        }
        any |= tensor->layout->has_partial;
    }
    return any && tape->no_grad == 0 && is_of_interest(call) && !weft_is_strict() && any_requires(call) &&
           weft_operation_in_use(call->operation) == call->operation && !weft_call_expands(call);
}

/* A release is a call too, before which this runs again. */
static void drop_reduced(weft_tape *tape)
{
    while (tape->num_reduced > 0) {
        weft_tensor *handle = tape->reduced[--tape->num_reduced]->handle;
        weft_tensor_release_own(handle);
    }
}

/* Which input before this one is the same tensor, and has been reduced to the same layout. -1: none. */
static int reduced_before(const weft_call *own, weft_tensor_impl *const tensors[], const weft_sharding *sharding, int input)
{
    for (int i = 0; i < input; i++) {
        if (tensors[i] == tensors[input] && sharding->inputs[i] == sharding->inputs[input] && weft_tensor_get(own->inputs[i]) != tensors[i]) {
            return i;
        }
    }
    return -1;
}

/* A Partial input that the call reduces is reduced by a call of its own: the backward pass would reduce saved addends again, and the
 * gradient of a product, which is needed whole there, is gathered once. NULL with the error kept. */
static const weft_call *reduce_inputs(weft_tape *tape, const weft_call *call, weft_call *own)
{
    weft_tensor_impl *tensors[WEFT_MAX_INPUTS];
    weft_tensor_impl *reduced[WEFT_MAX_INPUTS];
    int num_reduced = 0;
    weft_sharding found;
    weft_cached_call *cached;
    int guessed;
    drop_reduced(tape); /* for a call that was prepared and not made */
    if (!may_reduce(tape, call)) {
        return call;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        tensors[i] = input_of(call, i);
    }
    const weft_sharding *sharding = weft_obtain_layouts(call, tensors, &found, &guessed, &cached);
    unsigned reads = reads_of(call);
    for (int i = 0; call != NULL && i < call->num_inputs && sharding != NULL; i++) {
        const weft_layout *to = sharding->inputs[i];
        bool changes = i < weft_call_num_outputs(call) && weft_call_changes(call, i);
        bool matters = tensors[i]->tape != NULL || (reads & WEFT_READS_INPUT(i)) != 0;
        if (!tensors[i]->layout->has_partial || to == tensors[i]->layout || !matters || changes) {
            continue;
        }
        if (call != own) {
            *own = *call;
            call = own;
        }
        int same = reduced_before(own, tensors, sharding, i);
        if (same >= 0) {
            own->inputs[i] = own->inputs[same];
            continue;
        }
        own->inputs[i] = weft_in_layout(call->function, tensors[i]->handle, to);
        call = own->inputs[i] == NULL ? NULL : call;
        reduced[num_reduced] = call == NULL ? NULL : weft_tensor_get(own->inputs[i]);
        num_reduced += call != NULL && reduced[num_reduced]->caller_references > 0; /* else it is a scope's */
    }
    weft_cache_release(cached);
    tape->reduced_for = call;
    tape->num_reduced = num_reduced;
    memcpy(tape->reduced, reduced, (size_t)num_reduced * sizeof(reduced[0]));
    if (call == NULL) {
        drop_reduced(tape);
    }
    return call; /* a call without layouts fails by itself */
}

static const weft_call *prepare(weft_interposer *self, const weft_call *call, weft_call *own)
{
    call = weft_autocast((weft_tape *)self, call, own);
    return call == NULL ? NULL : reduce_inputs((weft_tape *)self, call, own);
}

/* False with the error kept. */
static bool note_used(weft_tape *tape, const weft_call *call)
{
    bool done = true;
    for (int i = 0; i < weft_call_num_tensors(call) && done; i++) {
        done = weft_tape_use(tape, call->function, weft_call_tensor(call, i));
    }
    return done;
}

static recording begin(weft_tape *tape, const weft_call *call, int num_outputs)
{
    recording r = { .node = NULL };
    if (tape->in_first_run && is_of_interest(call)) {
        r.failed = !note_used(tape, call);
    }
    if (tape->no_grad > 0 || !is_of_interest(call) || !any_requires(call)) {
        return r;
    }
    r.refused = changed_against_rules(call);
    if (r.refused > 0 || weft_call_no_gradient(call) != NULL) {
        return r;
    }
    size_t bytes = weft_call_copy_bytes(call);
    void *room;
    weft_tape_node *node = weft_tape_node_new(call->function, WEFT_TAPE_CALL, weft_call_num_tensors(call),
                                              num_outputs, bytes, &room);
    r.failed = node == NULL || !save_inputs(node, call);
    if (r.failed) {
        if (node != NULL) {
            weft_tape_node_release(node);
        }
        return r;
    }
    weft_call *copy = weft_call_copy_to(room, call);
    if (reads_omitted(call, num_outputs)) {
        r.fills_omitted = true;
        copy->attributes.omitted = 0;
    }
    node->call = copy;
    r.node = node;
    return r;
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
static weft_status make_whole(recording *r, weft_call_frame *frame)
{
    const weft_call *call = frame->call;
    weft_tensor **outputs = frame->outputs;
    int asked = frame->num_outputs - (int)call->attributes.omitted;
    weft_call whole = *call;
    whole.attributes.omitted = 0;
    if (!weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    frame->call = &whole;
    weft_status status = weft_call_next(frame);
    frame->call = call;
    if (status == WEFT_OK) {
        attach(r->node, call, outputs);
        weft_tape_node_release(r->node);
        r->node = NULL;
        r->attached = true;
    }
    bool kept = weft_scope_end_keeping(status == WEFT_OK ? asked : 0, outputs, NULL, NULL);
    for (int i = asked; i < frame->num_outputs; i++) {
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
                     !weft_call_is_action(call) && input < call->num_inputs ? call->operation->inputs[input].name
                                                                          : "a changed tensor",
                     between);
}

/* Makes the call, if it may be made. */
static weft_status make(recording *r, weft_call_frame *frame)
{
    return r->refused > 0       ? refuse(frame->call, r->refused - 1)
           : r->failed          ? weft_latest_status()
           : r->fills_omitted ? make_whole(r, frame)
                                : weft_call_next(frame);
}

/* The inputs that reduce_inputs() has made for the call. */
static int take_reduced(weft_tape *tape, const weft_call *call, weft_tensor_impl *reduced[])
{
    int count = tape->reduced_for == call ? tape->num_reduced : 0;
    memcpy(reduced, tape->reduced, (size_t)count * sizeof(reduced[0]));
    tape->num_reduced -= count;
    return count;
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    weft_tape *tape = (weft_tape *)self;
    const weft_call *call = frame->call;
    weft_tensor_impl *reduced[WEFT_MAX_INPUTS];
    int num_reduced = take_reduced(tape, call, reduced);
    recording r = begin(tape, call, frame->num_outputs);
    weft_status status = make(&r, frame);
    if (status == WEFT_OK && r.node != NULL && !is_identity(call, frame->outputs)) {
        attach(r.node, call, frame->outputs);
    } else if (status == WEFT_OK && r.node == NULL && !r.attached && tape->no_grad == 0 && is_of_interest(call)) {
        forget_changed(call, frame->num_outputs, frame->outputs);
    }
    if (r.node != NULL) {
        weft_tape_node_release(r.node);
    }
    for (int i = 0; i < num_reduced; i++) {
        weft_tensor_release_own(reduced[i]->handle);
    }
    return status;
}

weft_interposer weft_tape_interposer(void)
{
    return (weft_interposer){ .order = WEFT_TAPE, .prepare = prepare, .around = around };
}
