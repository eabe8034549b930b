/* Segments that are computed again in the backward pass. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

/* After a node of WEFT_TAPE_SEGMENT; its first inputs are the function's, the others are values that the function
 * uses beside them. */
typedef struct segment {
    weft_segment_function function;
    void *context;
    size_t context_size;
    weft_dtype cast; /* of the region of mixed precision; WEFT_F32: none */
    int num_inputs;  /* of the function */
    weft_tape_input *inputs; /* as before the first run; the node takes them over */
    /* All states of random numbers as before the first run, and the one in use. */
    size_t num_states, state_in_use;
    weft_random_state *states;
    char *bytes; /* of the context */
} segment;

static weft_named_state *named_states(void)
{
    return weft_runtime.tensors->random_states.items;
}

static weft_differentiate differentiate;

/* ---- the first run --------------------------------------------------------------------------------------- */

/* A value may be returned without having been used in a call: a leaf. */
static bool note_outputs(weft_tape *tape, const char *function, int num_outputs, weft_tensor *const outputs[])
{
    bool done = true;
    for (int i = 0; i < num_outputs && done; i++) {
        done = weft_tape_use(tape, function, outputs[i]);
    }
    return done;
}

void weft_tape_forget_used(weft_tape *tape)
{
    weft_tape_value **used = tape->used.items;
    for (size_t i = 0; i < tape->used.count; i++) {
        weft_tape_node_release(used[i]->node);
    }
    tape->used.count = 0;
}

static weft_dtype cast_in_use(const weft_tape *tape)
{
    return tape->casts.count == 0 ? WEFT_F32 : ((const weft_dtype *)tape->casts.items)[tape->casts.count - 1];
}

/* Saves what the second run begins with. False with the error kept. */
static bool save_start(const char *function, segment *s, weft_tensor *const inputs[])
{
    s->num_states = weft_runtime.tensors->random_states.count;
    s->state_in_use = weft_runtime.tensors->random_in_use;
    s->inputs = calloc((size_t)s->num_inputs + 1, sizeof(*s->inputs));
    s->states = calloc(s->num_states, sizeof(*s->states));
    if (s->inputs == NULL || s->states == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a segment");
        return false;
    }
    for (size_t i = 0; i < s->num_states; i++) {
        s->states[i] = named_states()[i].state;
    }
    bool done = true;
    for (int i = 0; i < s->num_inputs && done; i++) {
        weft_tensor_impl *tensor = weft_tensor_get(inputs[i]);
        s->inputs[i] = (weft_tape_input){ .value = tensor->tape, .layout = tensor->layout };
        if (tensor->tape != NULL) {
            tensor->tape->node->references++;
        }
        done = weft_save(function, tensor, &s->inputs[i].saved);
    }
    return done;
}

static void forget_start(segment *s)
{
    for (int i = 0; i < s->num_inputs && s->inputs != NULL; i++) {
        weft_saved_release(&s->inputs[i].saved);
        if (s->inputs[i].value != NULL) {
            weft_tape_node_release(s->inputs[i].value->node);
        }
    }
    free(s->inputs);
    free(s->states);
}

/* The node: inputs of the function, then the other values used. NULL with the error kept. */
static weft_tape_node *make_node(const char *function, segment *s, int num_outputs)
{
    weft_tape *tape = weft_runtime.tape;
    size_t states = s->num_states * sizeof(*s->states);
    void *room;
    weft_tape_node *node = weft_tape_node_new(function, WEFT_TAPE_SEGMENT, s->num_inputs + (int)tape->used.count,
                                              num_outputs, sizeof(*s) + states + s->context_size, &room);
    if (node == NULL) {
        return NULL;
    }
    node->differentiate = differentiate;
    node->no_second = "it runs again without recording";
    segment *own = room;
    *own = *s;
    own->states = memcpy(own + 1, s->states, states);
    own->bytes = (char *)(own + 1) + states;
    own->inputs = NULL;
    if (s->context_size > 0) {
        memcpy(own->bytes, s->context, s->context_size);
    }
    node->segment = own;
    memcpy(node->inputs, s->inputs, (size_t)s->num_inputs * sizeof(*s->inputs));
    memset(s->inputs, 0, (size_t)s->num_inputs * sizeof(*s->inputs));
    weft_tape_value **used = tape->used.items;
    for (size_t i = 0; i < tape->used.count; i++) {
        node->inputs[s->num_inputs + (int)i].value = used[i]; /* with its reference */
        node->inputs[s->num_inputs + (int)i].layout = used[i]->layout;
    }
    tape->used.count = 0;
    return node;
}

static bool any_value(const weft_tape *tape, const segment *s)
{
    bool any = tape->used.count > 0;
    for (int i = 0; i < s->num_inputs; i++) {
        any |= s->inputs[i].value != NULL;
    }
    return any;
}

static weft_status call_function(const segment *s, void *context, int no_grad, weft_tensor *const inputs[],
                                 int num_outputs, weft_tensor *outputs[])
{
    weft_tape_visit visit;
    weft_tape_visit_begin(&visit, no_grad);
    weft_status status = s->function(context, s->num_inputs, inputs, num_outputs, outputs);
    weft_tape_visit_end(&visit);
    return status;
}

static weft_status run_unrecorded(const segment *s, weft_tensor *const inputs[], int num_outputs,
                                  weft_tensor *outputs[])
{
    weft_tape *tape = weft_runtime.tape;
    tape->in_first_run = true;
    weft_status status = call_function(s, s->context, tape->no_grad + 1, inputs, num_outputs, outputs);
    tape->in_first_run = false;
    return status;
}

static bool check_outputs(const char *function, int num_outputs, weft_tensor *const outputs[])
{
    bool right = true;
    for (int i = 0; i < num_outputs && right; i++) {
        char name[32];
        snprintf(name, sizeof(name), "outputs[%d]", i);
        right = weft_check_tensor(function, name, outputs[i]) != NULL;
    }
    return right;
}

bool weft_tape_attach_shares(weft_tape_node *node, weft_tensor *outputs[])
{
    bool done = true;
    for (int i = 0; i < node->num_outputs && done; i++) {
        weft_runtime.tape->no_grad++;
        outputs[i] = weft_detach(outputs[i]);
        weft_runtime.tape->no_grad--;
        weft_tensor_impl *tensor = outputs[i] == NULL ? NULL : weft_tensor_get(outputs[i]);
        done = tensor != NULL;
        if (done && weft_dtype_has_gradient(tensor->layout->dtype)) {
            node->outputs[i].layout = tensor->layout;
            weft_tape_set(tensor, &node->outputs[i]);
        }
    }
    return done;
}

static weft_status record(const char *function, segment *s, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[])
{
    weft_tape *tape = weft_runtime.tape;
    if (!save_start(function, s, inputs)) {
        forget_start(s);
        return weft_latest_status();
    }
    weft_status status = run_unrecorded(s, inputs, num_outputs, outputs);
    if (status == WEFT_OK &&
        !(check_outputs(function, num_outputs, outputs) && note_outputs(tape, function, num_outputs, outputs))) {
        status = weft_latest_status();
    }
    if (status == WEFT_OK && any_value(tape, s)) {
        weft_tape_node *node = make_node(function, s, num_outputs);
        status = node != NULL && weft_tape_attach_shares(node, outputs) ? WEFT_OK : weft_latest_status();
        if (node != NULL) {
            weft_tape_node_release(node);
        }
    }
    weft_tape_forget_used(tape);
    forget_start(s);
    return status;
}

weft_status weft_recompute(weft_segment_function run, void *context, size_t context_size, int num_inputs,
                           weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    static const char function[] = "weft_recompute";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (run == NULL || num_inputs < 0 || num_outputs < 1 || (num_inputs > 0 && inputs == NULL) || outputs == NULL) {
        return run == NULL        ? weft_fail(WEFT_ERR_INVALID, function, "function is NULL")
               : num_inputs < 0   ? weft_fail(WEFT_ERR_INVALID, function, "num_inputs is %d", num_inputs)
               : num_outputs < 1  ? weft_fail(WEFT_ERR_INVALID, function, "num_outputs is %d, expected at least 1", num_outputs)
               : outputs == NULL ? weft_fail(WEFT_ERR_INVALID, function, "outputs is NULL")
                                  : weft_fail(WEFT_ERR_INVALID, function, "inputs is NULL");
    }
    for (int i = 0; i < num_inputs; i++) {
        char name[32];
        snprintf(name, sizeof(name), "inputs[%d]", i);
        if (weft_check_tensor(function, name, inputs[i]) == NULL) {
            return weft_latest_status();
        }
    }
    weft_tape *tape = weft_runtime.tape;
    if (tape == NULL || tape->no_grad > 0) { /* nothing is recorded; within another segment, that one's */
        const segment unrecorded = { .function = run, .num_inputs = num_inputs };
        return call_function(&unrecorded, context, tape == NULL ? 0 : tape->no_grad, inputs, num_outputs, outputs);
    }
    segment s = { .function = run,
                  .context = context,
                  .context_size = context_size,
                  .cast = cast_in_use(tape),
                  .num_inputs = num_inputs };
    return record(function, &s, inputs, num_outputs, outputs);
}

/* ---- the second run -------------------------------------------------------------------------------------- */

/* The state of a pass in a value that another pass uses within. */
typedef struct aside {
    weft_partial_sum first;
    int chosen, expected;
} aside;

static void put_aside(weft_tape_value *value, aside *a)
{
    weft_tape_leaf *leaf = weft_tape_leaf_of(value);
    *a = (aside){ value->first, value->chosen, leaf == NULL ? 0 : leaf->expected };
    value->first = (weft_partial_sum){ .sum = NULL };
    value->chosen = 0;
    if (leaf != NULL) {
        leaf->expected = 0;
    }
}

static void put_back(weft_tape_value *value, const aside *a)
{
    weft_tape_leaf *leaf = weft_tape_leaf_of(value);
    value->first = a->first;
    value->chosen = a->chosen;
    if (leaf != NULL) {
        leaf->expected = a->expected;
    }
}

/* Inputs of the second run: leaves with the saved values. */
static bool restore_inputs(const weft_pass *pass, weft_tape_node *node, const bool wanted[], weft_tensor *inputs[])
{
    bool done = true;
    for (int i = 0; i < node->segment->num_inputs && done; i++) {
        weft_tensor_impl *tensor = weft_saved_restore(pass->function, &node->inputs[i].saved, !pass->retain);
        inputs[i] = weft_tensor_handle(tensor);
        done = inputs[i] != NULL && (!wanted[i] || weft_set_requires_grad(inputs[i], true) == WEFT_OK);
    }
    return done;
}

/* Runs the function as it was run first. */
static bool run_again(const weft_pass *pass, const weft_tape_node *node, weft_tensor *const inputs[],
                      weft_tensor *outputs[])
{
    weft_tape *tape = weft_runtime.tape;
    const segment *s = node->segment;
    bool in_segment = tape->in_segment;
    void *context = s->context_size > 0 ? s->bytes : s->context;
    size_t in_use = weft_runtime.tensors->random_in_use;
    weft_random_state *now = malloc(s->num_states * sizeof(*now));
    if (now == NULL) {
        weft_fail(WEFT_ERR_NOMEM, pass->function, "no memory for a segment's gradients");
        return false;
    }
    if (weft_autocast_begin(s->cast) != WEFT_OK) {
        free(now);
        return false;
    }
    for (size_t i = 0; i < s->num_states; i++) {
        now[i] = named_states()[i].state;
        named_states()[i].state = s->states[i];
    }
    weft_runtime.tensors->random_in_use = s->state_in_use;
    tape->in_segment = true;
    weft_status status = call_function(s, context, 0, inputs, node->num_outputs, outputs);
    tape->in_segment = in_segment;
    for (size_t i = 0; i < s->num_states; i++) {
        named_states()[i].state = now[i];
    }
    free(now);
    weft_runtime.tensors->random_in_use = in_use;
    weft_autocast_end();
    if (status != WEFT_OK) {
        weft_fail(status, pass->function, "the function of weft_recompute() returned an error in the backward pass");
    }
    return status == WEFT_OK && check_outputs(pass->function, node->num_outputs, outputs);
}

/* The gradients of the second run's inputs, and of the other values used, by a pass over it alone. */
static bool pass_back(const weft_pass *outer, weft_tape_node *node, const bool wanted[], weft_tensor *const inputs[],
                      weft_tensor *const outputs[], weft_tensor *const output_gradients[], uint64_t oldest,
                      weft_tensor *gradients[])
{
    int total = node->num_inputs, own = node->segment->num_inputs;
    weft_tape_value **values = calloc((size_t)(total + node->num_outputs), sizeof(*values)), **ends = values == NULL ? NULL : values + total;
    aside *asides = calloc((size_t)total + 1, sizeof(*asides));
    bool done = values != NULL && asides != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, outer->function, "no memory for a segment's gradients");
    }
    for (int i = 0; i < total && done; i++) {
        values[i] = !wanted[i] ? NULL : i < own ? weft_tensor_get(inputs[i])->tape : node->inputs[i].value;
        if (values[i] != NULL) {
            put_aside(values[i], &asides[i]);
            values[i]->chosen = 1 + i;
        }
    }
    for (int i = 0; i < node->num_outputs && done; i++) {
        ends[i] = output_gradients[i] == NULL ? NULL : weft_tensor_get(outputs[i])->tape;
    }
    weft_pass inner = { .function = outer->function, .oldest = oldest };
    done = done && weft_pass_run(&inner, node->num_outputs, ends, output_gradients);
    for (int i = 0; i < total && values != NULL && asides != NULL; i++) {
        if (values[i] != NULL) {
            done = done && weft_sums_take(&inner, values[i], NULL, &gradients[i]);
            weft_sums_drop(values[i]);
            put_back(values[i], &asides[i]);
        }
    }
    free(values);
    free(asides);
    return done;
}

static bool differentiate(const weft_pass *pass, weft_tape_node *node, const bool wanted[], weft_tensor *const output_gradients[],
                          weft_tensor *gradients[])
{
    weft_tensor **inputs = calloc((size_t)node->num_inputs + (size_t)node->num_outputs, sizeof(*inputs)),
                **outputs = inputs == NULL ? NULL : inputs + node->num_inputs;
    if (inputs == NULL) {
        weft_fail(WEFT_ERR_NOMEM, pass->function, "no memory for a segment's gradients");
        return false;
    }
    uint64_t oldest = weft_runtime.tape->numbers;
    bool done = restore_inputs(pass, node, wanted, inputs) && run_again(pass, node, inputs, outputs) &&
                pass_back(pass, node, wanted, inputs, outputs, output_gradients, oldest, gradients);
    free(inputs);
    return done;
}
