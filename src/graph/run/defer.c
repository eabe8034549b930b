/* Runs: which calls are deferred, how their tensors are numbered, and what they are compared with. */
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "codelets/random.h"
#include "dispatch/dispatch.h"
#include "graph/run/graph.h"
#include "tensor/actions.h"
#include "tensor/explained.h"
#include "tensor/ghosts.h"
#include "tensor/promised.h"
#include "tensor/state.h"

enum { FEW = 16 };

/* Tensors of the call being taken. */
typedef struct taking {
    const weft_call *call;
    int num_inputs, num_outputs;
    weft_tensor_impl **inputs; /* NULL: none was given */
    int *numbers;              /* of the inputs; -1: none was given */
    int former_values;         /* number of values before the call */
    bool has_fake;             /* an input has no data, so the outputs have none */
    weft_tensor_impl *few_inputs[FEW];
    int few_numbers[FEW];
} taking;

/* ---- which calls are deferred ---------------------------------------------------------------------------- */

bool weft_is_deferrable(const weft_call *call)
{
    if (call->details != NULL && call->details->memory != NULL) {
        return false;
    }
    bool has_layout = call->details != NULL && call->details->layout != NULL;
    return !weft_call_is_action(call) ? weft_call_num_tensors(call) > 0 || has_layout
                                   : weft_call_does(call, WEFT_CHANGES) || (weft_call_does(call, WEFT_MAKES) && has_layout);
}

/* A tensor without data cannot change one with data. */
static bool changes_data(const taking *t)
{
    bool changes = false;
    for (int i = 0; i < t->num_outputs; i++) {
        changes |= weft_call_changes(t->call, i) && weft_has_values(t->inputs[i]);
    }
    return changes;
}

/* False: a tensor is not live, is gathered when it is used, or lacks data: the call is executed as ever, which says so. */
static bool find_inputs(taking *t)
{
    for (int i = 0; i < t->num_inputs; i++) {
        const weft_tensor *handle = weft_call_tensor(t->call, i);
        weft_tensor_impl *input = handle == NULL ? NULL : weft_tensor_get(handle);
        if (input == NULL || (input->fake && input->gathering != NULL)) {
            return false;
        }
        t->inputs[i] = input;
        t->has_fake |= !weft_has_values(input);
    }
    return !t->has_fake || !changes_data(t);
}

/* ---- numbers --------------------------------------------------------------------------------------------- */

int weft_run_add_value(weft_graph_run *run, weft_tensor_impl *tensor)
{
    weft_tensor_impl **place = weft_vec_push(&run->bound, sizeof(*place));
    if (place == NULL) {
        return -1;
    }
    *place = tensor;
    if (tensor != NULL) {
        tensor->references++;
    }
    return run->num_values++;
}

/* The number of the tensor that the input is a copy of, if that has one, and the same value still; else -1. */
static int number_of_original(const weft_graph_run *run, const weft_tensor_impl *input)
{
    bool is_own = input->saved_in == run->deferral.number; /* else the program may have written to it since */
    const weft_tensor_impl *original = is_own && input->saved_from != NULL ? weft_tensor_get(input->saved_from) : NULL;
    bool same = original != NULL && original->graph_run == run->deferral.number && original->version == input->saved_version &&
                input->version == 0;
    return same ? original->number : -1;
}

/* False: no memory. */
static bool number_inputs(weft_graph_run *run, taking *t)
{
    t->former_values = run->num_values;
    for (int i = 0; i < t->num_inputs; i++) {
        weft_tensor_impl *input = t->inputs[i];
        if (input->graph_run != run->deferral.number) {
            int number = number_of_original(run, input);
            number = number >= 0 ? number : weft_run_add_value(run, input);
            if (number < 0) {
                return false;
            }
            weft_run_set_number(run, input, number);
        }
        t->numbers[i] = input->number;
    }
    return true;
}

/* The call is refused: its tensors have no numbers from it. */
static void forget_inputs(weft_graph_run *run, const taking *t)
{
    for (int i = 0; i < t->num_inputs; i++) {
        if (t->numbers[i] >= t->former_values) {
            t->inputs[i]->graph_run = 0;
        }
    }
    while (run->num_values > t->former_values) {
        weft_tensor_unreference(*weft_run_bound(run, --run->num_values));
        run->bound.count--;
    }
}

/* ---- comparing with a trace ------------------------------------------------------------------------------ */

/* Whether a tensor that is met now can be a recorded input. */
static bool is_like(const weft_graph_run *run, const weft_graph_value *value, const weft_tensor_impl *input)
{
    return value->layout == input->layout && value->is_fake != weft_has_values(input) && value->ghosts == weft_ghosted_digest(input) &&
           value->is_memory == (input->imported_in == run->deferral.number);
}

/* The difference of such a tensor from the recorded one, in words; layouts that differ are left to weft_graph_failed_guard(). */
static void compare_inputs(const weft_graph_run *run, const weft_graph_trace *trace, const taking *t, int input, char *why,
                           size_t size)
{
    const weft_graph_value *value = weft_trace_value(trace, t->numbers[input]);
    const weft_tensor_impl *tensor = t->inputs[input];
    if (value->is_fake == weft_has_values(tensor)) {
        snprintf(why, size, "%s: tensor %d had %s, has %s", t->call->function, input, tensor->fake ? "data" : "no data",
                 tensor->fake ? "none" : "data");
    } else if (value->ghosts != weft_ghosted_digest(tensor)) {
        snprintf(why, size, "%s: tensor %d was %s, is %s", t->call->function, input, value->ghosts != 0 ? "in ghosted arrays" : "in none",
                 tensor->ghosted != NULL ? "in other ones" : "in none");
    } else if (value->is_memory != (tensor->imported_in == run->deferral.number)) {
        snprintf(why, size, "%s: tensor %d was %s, is %s", t->call->function, input,
                 value->is_memory ? "of weft_from_local()" : "an input", value->is_memory ? "an input" : "of weft_from_local()");
    } else {
        snprintf(why, size, "%s: tensor %d was ", t->call->function, input);
        run->graph->guard.before = value->layout;
        run->graph->guard.now = tensor->layout;
    }
}

/* Whether the call is the trace's node; `why`: the difference in words, or NULL. */
static bool matches(const weft_graph_run *run, const weft_graph_trace *trace, const taking *t, char *why, size_t size)
{
    size_t next = run->calls.count;
    if (next >= trace->nodes.count) {
        if (why != NULL) {
            snprintf(why, size, "recorded the end, came %s", t->call->function);
        }
        return false;
    }
    const weft_graph_node *node = weft_trace_node(trace, next);
    if (!weft_node_is(node, t->call, why, size)) {
        return false;
    }
    for (int i = 0; i < t->num_inputs; i++) {
        int number = t->numbers[i];
        /* A copy that has its original's number is like that, but for where it comes from. */
        bool is_new = number >= t->former_values && *weft_run_bound(run, number) == t->inputs[i];
        if (number != node->inputs[i]) {
            if (why != NULL) {
                snprintf(why, size, "%s: tensor %d was value %%%d, is %%%d", t->call->function, i, node->inputs[i], number);
            }
            return false;
        }
        if (is_new && !is_like(run, weft_trace_value(trace, number), t->inputs[i])) {
            if (why != NULL) {
                compare_inputs(run, trace, t, i, why, size);
            }
            return false;
        }
    }
    return true;
}

/* Another trace that agrees with all calls so far and with this one; NULL: none. */
static weft_graph_trace *find_other(const weft_graph_run *run, const taking *t)
{
    const weft_map *known = &weft_run_segment(run)->by_calls;
    uint64_t prefix = run->calls.count == 0 ? 0 : run->replayed->prefixes[run->calls.count - 1];
    prefix = weft_prefix_call(prefix, t->call, weft_runtime.implicit_replications > 0);
    for (int i = 0; i < t->num_inputs; i++) {
        const weft_tensor_impl *input = t->inputs[i];
        prefix = weft_prefix_input(prefix, t->numbers[i], t->numbers[i] >= t->former_values ? input->layout : NULL, !weft_has_values(input),
                                   input->imported_in == run->deferral.number, weft_ghosted_digest(input));
    }
    for (weft_map_slot *slot = weft_map_first(known, prefix); slot != NULL; slot = weft_map_next(known, slot)) {
        weft_graph_trace *trace = slot->value;
        if (trace != run->replayed && matches(run, trace, t, NULL, 0) &&
            weft_trace_begins_like(trace, run->replayed, run->calls.count)) {
            return trace;
        }
    }
    return NULL;
}

static void note_failed_guard(const weft_graph_run *run, const taking *t)
{
    weft_graph_impl *graph = run->graph;
    if (run->replayed == NULL) {
        return;
    }
    graph->info.guards_failed++;
    graph->guard = (weft_failed_guard){ .here = weft_runtime.here, .here_line = weft_runtime.here_line };
    int used = snprintf(graph->failed_guard, sizeof(graph->failed_guard), "call %zu: ", run->calls.count);
    matches(run, run->replayed, t, graph->failed_guard + used, sizeof(graph->failed_guard) - (size_t)used);
}

/* ---- capturing ------------------------------------------------------------------------------------------- */

/* Inputs without data in place of the call's. False with the error kept. */
static bool make_twins(const taking *t, weft_tensor *twins[])
{
    for (int i = 0; i < t->num_inputs; i++) {
        twins[i] = NULL;
        for (int k = 0; k < i && twins[i] == NULL; k++) {
            twins[i] = t->inputs[k] == t->inputs[i] ? twins[k] : NULL;
        }
        if (twins[i] == NULL) {
            twins[i] = weft_tensor_handle(t->inputs[i]->ghosted != NULL ? weft_ghosted_twin(t->call->function, t->inputs[i])
                                                                        : weft_tensor_fake(t->call->function, t->inputs[i]->layout));
        }
        if (twins[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* An output of a call as found without data. */
typedef struct foreseen {
    const weft_layout *layout; /* NULL: not asked for */
    int input;                 /* it is this input; -1: a new tensor */
} foreseen;

static foreseen foresee_output(const taking *t, weft_tensor *const twins[], const weft_tensor *output)
{
    foreseen result = { .input = -1 };
    if (output == NULL) {
        return result;
    }
    result.layout = weft_layout_of(output);
    for (int i = t->num_inputs; i-- > 0;) {
        result.input = twins[i] == output ? i : result.input;
    }
    return result;
}

/* Makes the call on tensors without data: it is checked as ever, and tells the layouts of its outputs. */
static weft_status foresee(const taking *t, foreseen results[])
{
    if (t->num_inputs == 0) {
        results[0] = (foreseen){ .layout = t->call->details->layout, .input = -1 };
        return WEFT_OK;
    }
    weft_tensor **twins = calloc((size_t)(t->num_inputs + t->num_outputs), sizeof(weft_tensor *));
    if (twins == NULL || !weft_scope_begin_unrecorded()) {
        free(twins);
        return weft_fail(WEFT_ERR_NOMEM, t->call->function, "no memory for %d tensors", t->num_inputs);
    }
    weft_tensor **outputs = twins + t->num_inputs;
    const weft_context outer = weft_context_enter(weft_context_undeferred());
    weft_own_call own;
    weft_status status = make_twins(t, twins) ? WEFT_OK : weft_latest_status();
    if (status == WEFT_OK) {
        status = weft_invoke(weft_call_on(&own, t->call, twins), outputs);
    }
    for (int i = 0; i < t->num_outputs && status == WEFT_OK; i++) {
        results[i] = foresee_output(t, twins, outputs[i]);
    }
    weft_context_leave(outer);
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    free(twins);
    return status;
}

/* Its number among the graph's inputs; -1: it is none. */
static int argument_of(const weft_graph_run *run, const weft_tensor_impl *input)
{
    int i = 0;
    while (i < run->graph->num_inputs && run->inputs[i] != input->handle) {
        i++;
    }
    return i < run->graph->num_inputs ? i : -1;
}

/* False: no memory. */
static bool add_traced_input(const weft_graph_run *run, weft_graph_trace *trace, const weft_tensor_impl *input)
{
    const weft_graph_value value = { .layout = input->layout,
                                     .is_input = true,
                                     .is_fake = !weft_has_values(input),
                                     .is_memory = input->imported_in == run->deferral.number,
                                     .argument = argument_of(run, input),
                                     .constant = weft_graph_constant_of(run->graph, input),
                                     .ghosts = weft_ghosted_digest(input) };
    return weft_trace_add_like(trace, &value);
}

static bool add_traced_output(weft_graph_trace *trace, const taking *t, int output, const weft_layout *layout)
{
    const weft_graph_value value = { .layout = layout,
                                     .is_fake = t->has_fake,
                                     .argument = -1,
                                     .constant = -1,
                                     .ghosts = weft_call_changes(t->call, output) ? weft_ghosted_digest(t->inputs[output]) : 0 };
    return weft_trace_add_like(trace, &value);
}

static bool add_traced_node(weft_graph_trace *trace, const taking *t, const int outputs[])
{
    bool done = weft_trace_add_node(trace, t->call, t->numbers, t->num_outputs, outputs);
    if (done) {
        weft_graph_node *node = weft_trace_node(trace, trace->nodes.count - 1);
        node->here = weft_runtime.here;
        node->here_line = weft_runtime.here_line;
        node->draws = node->draws && !t->has_fake;
        node->without_data = t->has_fake || weft_runtime.world == WEFT_WORLD_FAKE;
    }
    return done;
}

/* Records the call with the outputs that are foreseen, after the calls that agreed with the replayed trace. False: no
 * memory. */
static bool record(weft_graph_run *run, const taking *t, const foreseen results[], int numbers[])
{
    if (!weft_run_begin_capture(run, t->former_values)) {
        return false;
    }
    weft_graph_trace *trace = run->captured;
    bool done = true;
    for (int i = 0; i < t->num_inputs && done; i++) {
        bool known = t->numbers[i] < (int)trace->values.count;
        done = known || add_traced_input(run, trace, t->inputs[i]);
    }
    for (int i = 0; i < t->num_outputs && done; i++) {
        bool itself = results[i].input >= 0 && !weft_call_changes(t->call, i);
        numbers[i] = results[i].layout == NULL ? -1
                     : itself                  ? t->numbers[results[i].input]
                                               : (int)trace->values.count;
        done = numbers[i] < (int)trace->values.count || add_traced_output(trace, t, i, results[i].layout);
    }
    return done && add_traced_node(trace, t, numbers);
}

/* A replayed call is explained as when it was captured. A status with the error kept. */
static weft_status explain(const taking *t)
{
    foreseen *results = malloc((size_t)(t->num_outputs + 1) * sizeof(*results));
    weft_status status = results == NULL ? weft_fail(WEFT_ERR_NOMEM, t->call->function, "no memory for an explanation")
                                         : foresee(t, results);
    free(results);
    return status;
}

/* Captures the call, unless it is refused. A status with the error kept. */
static weft_status capture(weft_graph_run *run, const taking *t)
{
    foreseen few[FEW], *results = few;
    int few_numbers[FEW], *numbers = few_numbers;
    bool many = t->num_outputs > FEW;
    if (many) {
        results = malloc((size_t)t->num_outputs * sizeof(*results));
        numbers = malloc((size_t)t->num_outputs * sizeof(*numbers));
    }
    weft_status status = results == NULL || numbers == NULL ? weft_run_fail_memory(run) : foresee(t, results);
    if (status == WEFT_OK) {
        note_failed_guard(run, t);
        status = record(run, t, results, numbers) ? WEFT_OK : weft_run_fail_memory(run);
    }
    if (many) {
        free(results);
        free(numbers);
    }
    return status;
}

/* ---- outputs --------------------------------------------------------------------------------------------- */

void weft_run_set_changed(const weft_graph_run *run, weft_tensor_impl *tensor, int number)
{
    weft_run_set_number(run, tensor, number);
    tensor->version++;
    if (!tensor->promised) {
        weft_promised_add(tensor);
    }
}

/* A call that changes a tensor gives it a new number, bound to it if it has memory: the call is to change that. False: no
 * memory. */
static bool change(weft_graph_run *run, weft_tensor_impl *tensor, int number)
{
    bool has_memory = !tensor->promised || *weft_run_bound(run, tensor->number) == tensor;
    if (weft_run_add_value(run, has_memory ? tensor : NULL) < 0) {
        return false;
    }
    weft_run_set_changed(run, tensor, number);
    return true;
}

/* A new tensor. NULL: no memory. */
static weft_tensor_impl *promise(weft_graph_run *run, const weft_graph_trace *trace, const weft_call *call, int number)
{
    const weft_graph_value *value = weft_trace_value(trace, number);
    weft_tensor_impl *tensor = weft_tensor_promise(call->function, value->layout, value->is_fake);
    if (tensor == NULL || weft_run_add_value(run, NULL) < 0) {
        return NULL;
    }
    weft_run_set_number(run, tensor, number);
    return tensor;
}

/* False: no memory. */
static bool promise_output(weft_graph_run *run, const weft_graph_trace *trace, const taking *t, int output, int number,
                           weft_tensor **handle)
{
    if (number < 0) {
        *handle = NULL;
        return true;
    }
    if (number < run->num_values) { /* an input as it is */
        int i = 0;
        while (t->numbers[i] != number) {
            i++;
        }
        *handle = weft_tensor_handle(weft_tensor_share(t->inputs[i]));
        return *handle != NULL;
    }
    weft_tensor_impl *tensor = t->inputs[output];
    if (!weft_call_changes(t->call, output)) {
        tensor = promise(run, trace, t->call, number);
    } else if (!change(run, tensor, number)) {
        tensor = NULL;
    }
    *handle = weft_tensor_handle(tensor);
    return tensor != NULL;
}

/* False: no memory. */
static bool add_derived(weft_graph_run *run, const weft_call_details *details)
{
    weft_derived_call *derived = run->graph->freezing == NULL ? NULL : weft_vec_push(&run->derived, sizeof(*derived));
    if (derived != NULL) {
        derived->node = run->calls.count - 1;
        memcpy(derived->origins, details->origins, (size_t)details->derivation->num_origins * sizeof(double));
    }
    return derived != NULL || run->graph->freezing == NULL;
}

/* The deferred call's own arguments. The random state moves on as if it were executed. False: no memory. */
static bool add_call(weft_graph_run *run, const weft_graph_node *node, const weft_call *call)
{
    weft_deferred_call *deferred = weft_vec_push(&run->calls, sizeof(*deferred));
    if (deferred == NULL) {
        return false;
    }
    memcpy(deferred->scalars, call->scalars, sizeof(deferred->scalars));
    deferred->number = weft_runtime.call_number;
    deferred->digest = weft_runtime.digest;
    if (call->details != NULL && call->details->derivation != NULL && !add_derived(run, call->details)) {
        return false;
    }
    if (node->draws) {
        weft_random_state *state = weft_random_in_use();
        deferred->random = *state;
        state->offset++;
    }
    return true;
}

static weft_status defer(weft_graph_run *run, const taking *t, weft_tensor *outputs[])
{
    const weft_graph_trace *trace = run->replayed != NULL ? run->replayed : run->captured;
    const weft_graph_node *node = weft_trace_node(trace, run->calls.count);
    bool done = add_call(run, node, t->call);
    for (int i = 0; i < node->num_outputs && done; i++) {
        done = promise_output(run, trace, t, i, node->outputs[i], &outputs[i]);
    }
    return done ? WEFT_OK : weft_run_fail_memory(run);
}

/* ---- taking a call --------------------------------------------------------------------------------------- */

static weft_status take_tensors(weft_graph_run *run, taking *t, weft_tensor *outputs[])
{
    if (!number_inputs(run, t)) {
        return weft_run_fail_memory(run);
    }
    bool matched = run->replayed != NULL && matches(run, run->replayed, t, NULL, 0);
    weft_graph_trace *other = matched || run->replayed == NULL ? NULL : find_other(run, t);
    if (other != NULL) {
        run->replayed = other;
    }
    weft_status status = !matched && other == NULL ? capture(run, t) : weft_is_explaining() ? explain(t) : WEFT_OK;
    if (status != WEFT_OK) {
        forget_inputs(run, t);
        return status;
    }
    return defer(run, t, outputs);
}

/* Whether its inputs are all from before the segment, which has not changed them up to now. */
static bool reads_from_before(const weft_call *call)
{
    bool from_before = weft_call_does(call, WEFT_ONLY_READS);
    for (int i = 0; i < weft_call_num_tensors(call) && from_before; i++) {
        const weft_tensor *handle = weft_call_tensor(call, i);
        const weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
        from_before = tensor != NULL && !tensor->promised && !tensor->fake;
    }
    return from_before;
}

/* A call that is executed now ends the segment, unless it leaves values alone, or reads some that wait for none of its calls. */
static bool pass(weft_graph_run *run, const weft_call *call, weft_status *status)
{
    if (!weft_call_does(call, WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED)) {
        run->deferral.note(&run->deferral, call->function);
    }
    if (weft_call_does(call, WEFT_LEAVES_VALUES) || reads_from_before(call)) {
        return false;
    }
    *status = weft_run_end_segment(run, call->function);
    return *status != WEFT_OK;
}

bool weft_run_take(weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status)
{
    weft_graph_run *run = (weft_graph_run *)self;
    if (weft_runtime.context.steps != NULL) {
        return false;
    }
    bool leaves_values = weft_call_does(call, WEFT_LEAVES_VALUES);
    if (run->failed != WEFT_OK && !leaves_values) {
        *status = weft_fail(run->failed, call->function, "calls before it in graph %s have failed", run->graph->name);
        return true;
    }
    if (!weft_is_deferrable(call)) {
        return pass(run, call, status);
    }
    taking t = { .call = call, .num_inputs = weft_call_num_tensors(call), .num_outputs = weft_call_num_outputs(call) };
    bool many = t.num_inputs > FEW;
    t.inputs = many ? malloc((size_t)t.num_inputs * sizeof(weft_tensor_impl *)) : t.few_inputs;
    t.numbers = many ? malloc((size_t)t.num_inputs * sizeof(int)) : t.few_numbers;
    bool taken = true;
    if (t.inputs == NULL || t.numbers == NULL) {
        *status = weft_run_fail_memory(run);
    } else if (!find_inputs(&t)) {
        taken = pass(run, call, status);
    } else {
        *status = take_tensors(run, &t, outputs);
    }
    if (many) {
        free(t.inputs);
        free(t.numbers);
    }
    return taken;
}
