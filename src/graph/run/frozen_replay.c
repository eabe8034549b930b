/* Replays of frozen graphs: runs that are filled in without their function. */
#include <string.h>

#include "codelets/random.h"
#include "graph/run/frozen.h"
#include "tensor/ghosts.h"
#include "tensor/promised.h"
#include "tensor/state.h"

/* The number's value in this run. False: its possible sources disagree. */
static bool find_value(const weft_number *n, const double scalars[], double *value)
{
    bool agree = true, found = !n->changed;
    *value = n->value;
    if (n->counts) {
        agree = !found;
        *value = n->value + 1;
        found = true;
    }
    int i = 0;
    for (uint64_t left = n->entries; left != 0; left >>= 1, i++) {
        if (left & 1) {
            agree = agree && (!found || weft_same_bits(*value, scalars[i]));
            *value = scalars[i];
            found = true;
        }
    }
    return agree && found;
}

/* Numbers the inputs. False: they are not like those that were observed; `why`: the first difference in words. */
static bool number_inputs(const struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[], char *why, size_t size)
{
    for (int i = 0; i < f->num_inputs; i++) {
        weft_tensor_impl *tensor = weft_tensor_get(inputs[i]);
        int at = f->input_numbers[i];
        const weft_graph_value *value = at < 0 ? NULL : weft_trace_value(f->trace, at);
        bool alike = value == NULL || (value->layout == tensor->layout && value->is_fake != weft_has_values(tensor) &&
                                       value->ghosts == weft_ghosted_digest(tensor));
        if (!alike || f->input_gradients[i] != weft_frozen_gradient_state(tensor)) {
            snprintf(why, size, "inputs[%d] %s", i, alike ? "requires or has a gradient, or did" : "has another layout");
            return false;
        }
        if (at >= 0 && tensor->graph_run == run->deferral.number && tensor->number != at) {
            snprintf(why, size, "inputs[%d] is the same tensor as another one, and was not", i);
            return false;
        }
        if (at >= 0) {
            weft_run_set_number(run, tensor, at);
        }
    }
    for (int i = 0; i < f->num_inputs; i++) { /* those that were the same tensor */
        for (int k = 0; k < i && f->input_numbers[i] >= 0; k++) {
            if (f->input_numbers[k] == f->input_numbers[i] && inputs[k] != inputs[i]) {
                snprintf(why, size, "inputs[%d] and inputs[%d] were the same tensor", k, i);
                return false;
            }
        }
    }
    return true;
}

/* NULL: it was freed. */
static weft_tensor_impl *tensor_of(const weft_source *s, weft_tensor *const inputs[])
{
    return weft_tensor_get(s->kind == OF_INPUT ? inputs[s->index] : s->handle);
}

/* A tensor of the program's may not be an input as well, and requires and has a gradient as ever. */
static weft_status check_program_tensors(const struct weft_frozen *f, const weft_graph_run *run, bool *alike)
{
    for (int i = 0; i < (int)f->bound.count; i++) {
        const weft_source *s = (const weft_source *)f->bound.items + i;
        weft_tensor_impl *tensor = s->kind == OF_PROGRAM ? weft_tensor_get(s->handle) : NULL;
        if (s->kind == OF_PROGRAM && tensor == NULL) {
            return weft_fail(WEFT_ERR_STATE, "weft_graph_call",
                             "graph %s is frozen, and a tensor that was bound to it, %%%d in its listing, has been freed",
                             run->graph->name, i);
        }
        if (tensor != NULL && weft_trace_value(f->trace, i)->is_input) {
            *alike = *alike && (tensor->graph_run != run->deferral.number || tensor->number == i) &&
                     s->gradient == weft_frozen_gradient_state(tensor);
            weft_run_set_number(run, tensor, i);
        }
    }
    return WEFT_OK;
}

static bool find_scalars(struct weft_frozen *f, const weft_graph_run *run, const double scalars[])
{
    bool found = true;
    weft_deferred_call *calls = run->calls.items;
    for (size_t i = 0; i < f->live.count && found; i++) {
        size_t at = ((const size_t *)f->live.items)[i];
        found = find_value(&f->numbers[at], scalars, &calls[at / WEFT_MAX_SCALARS].scalars[at % WEFT_MAX_SCALARS]);
    }
    for (size_t i = 0; i < f->derived.count && found; i++) {
        const weft_frozen_derived *derived = (const weft_frozen_derived *)f->derived.items + i;
        double origins[WEFT_MAX_SCALARS];
        for (int k = 0; k < derived->derivation->num_origins && found; k++) {
            found = find_value(&derived->origins[k], scalars, &origins[k]);
        }
        if (found) {
            derived->derivation->derive(origins, calls[derived->node].scalars);
        }
    }
    return found;
}

/* One call for each node, with the constants. False: no memory. */
static bool add_calls(const struct weft_frozen *f, weft_graph_run *run)
{
    for (size_t i = 0; i < f->trace->nodes.count; i++) {
        weft_deferred_call *call = weft_vec_push(&run->calls, sizeof(*call));
        if (call == NULL) {
            return false;
        }
        for (int k = 0; k < WEFT_MAX_SCALARS; k++) {
            call->scalars[k] = f->numbers[i * WEFT_MAX_SCALARS + (size_t)k].value;
        }
    }
    return true;
}

/* As if the calls were made now. */
static void draw(const struct weft_frozen *f, const weft_graph_run *run)
{
    for (size_t i = 0; i < f->trace->nodes.count; i++) {
        if (weft_trace_node(f->trace, i)->draws) {
            weft_random_state *state = weft_random_in_use();
            ((weft_deferred_call *)run->calls.items)[i].random = *state;
            state->offset++;
        }
    }
}

static bool bind(const struct weft_frozen *f, weft_graph_run *run, weft_tensor *const inputs[])
{
    for (int i = 0; i < (int)f->bound.count; i++) {
        const weft_source *s = (const weft_source *)f->bound.items + i;
        weft_tensor_impl *tensor = s->kind == NO_TENSOR ? NULL : tensor_of(s, inputs);
        if (weft_run_add_value(run, tensor) < 0) {
            return false;
        }
        if (tensor != NULL && !weft_trace_value(f->trace, i)->is_input) {
            weft_run_set_changed(run, tensor, i);
        }
    }
    return true;
}

static weft_tensor_impl *promise_output(const struct weft_frozen *f, const weft_graph_run *run, int output)
{
    const weft_graph_value *value = weft_trace_value(f->trace, f->outputs[output].index);
    weft_tensor_impl *tensor = weft_tensor_promise("weft_graph_call", value->layout, value->is_fake);
    if (tensor != NULL) {
        weft_run_set_number(run, tensor, f->outputs[output].index);
    }
    return tensor;
}

static weft_status make_outputs(const struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[],
                                weft_tensor *outputs[])
{
    for (int i = 0; i < f->num_outputs; i++) {
        const weft_source *s = &f->outputs[i];
        weft_tensor_impl *tensor;
        if (s->kind == OF_CALLS) {
            tensor = s->same_as < i ? weft_tensor_share(weft_tensor_get(outputs[s->same_as])) : promise_output(f, run, i);
        } else if (tensor_of(s, inputs) != NULL) {
            tensor = weft_tensor_share(tensor_of(s, inputs));
        } else {
            return weft_fail(WEFT_ERR_STATE, "weft_graph_call", "graph %s is frozen, and outputs[%d] has been freed",
                             run->graph->name, i);
        }
        if (tensor == NULL) {
            return weft_latest_status();
        }
        outputs[i] = weft_tensor_handle(tensor);
    }
    return WEFT_OK;
}

/* Counts go on. */
static void count(const struct weft_frozen *f)
{
    for (size_t i = 0; i < f->derived.count; i++) {
        weft_frozen_derived *derived = (weft_frozen_derived *)f->derived.items + i;
        for (int k = 0; k < derived->derivation->num_origins; k++) {
            derived->origins[k].value += derived->origins[k].counts;
        }
    }
}

/* The run is complete: its calls are executed. */
static weft_status execute(struct weft_frozen *f, weft_graph_run *run, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    draw(f, run);
    weft_status status = bind(f, run, inputs) ? make_outputs(f, run, inputs, outputs) : weft_run_fail_memory(run);
    if (status == WEFT_OK && !weft_run_donate(run, inputs, outputs)) {
        status = weft_run_fail_memory(run);
    }
    run->failed = status;
    weft_status ended = weft_run_end_segment(run, NULL);
    run->graph->num_newest = run->position;
    if (ended == WEFT_OK) {
        run->graph->info.frozen_replays++;
        weft_graph_forget_tested(run->graph);
        count(f);
        f->of->newest = f;
        f->of->counted = f->of->counted || weft_frozen_counts(f);
    }
    return ended;
}

/* A derived number that has had one value only: numbers that follow from it have looked like constants. */
static bool derived_changes(const struct weft_frozen *f, const double scalars[])
{
    bool changes = false;
    for (int i = f->num_scalars - f->num_derived; i < f->num_scalars; i++) {
        changes |= (f->varied >> i & 1) == 0 && !weft_same_bits(scalars[i], f->scalars[i]);
    }
    return changes;
}

/* True: *status is that of the call. False: it is to be checked, because of `why`. */
static bool replay(weft_graph_impl *graph, struct weft_frozen *f, weft_tensor *const inputs[], const double scalars[],
                   weft_tensor *outputs[], weft_status *status, char *why, size_t size)
{
    weft_graph_run run;
    weft_run_begin(&run, graph);
    run.replayed = (weft_graph_trace *)f->trace;
    bool alike = weft_frozen_in_same_regions(f), taken = true;
    snprintf(why, size, "it is called in other regions");
    if (alike && f->changes != weft_runtime.changes) {
        snprintf(why, size, "%s has changed what it uses", weft_runtime.changed_by);
        alike = false;
    }
    alike = alike && number_inputs(f, &run, inputs, why, size);
    if (alike && f->inputs_hash != graph->inputs_hash) { /* its function may look at the sizes of one */
        snprintf(why, size, "an input that no call reads has another layout");
        alike = false;
    }
    if (alike && derived_changes(f, scalars)) {
        snprintf(why, size, "a derived number has another value for the first time");
        alike = false;
    }
    if (alike && weft_frozen_counts(f) && f->of->newest != f) {
        snprintf(why, size, "calls of other sizes may have counted, too");
        alike = false;
    }
    bool apart = true;
    *status = alike ? check_program_tensors(f, &run, &apart) : WEFT_OK;
    if (alike && !apart) {
        snprintf(why, size, "a tensor that is bound to the graph is an input, or requires or has a gradient, or did");
    }
    if (*status == WEFT_OK && alike && apart) {
        *status = add_calls(f, &run) ? WEFT_OK : weft_run_fail_memory(&run);
        taken = *status != WEFT_OK || find_scalars(f, &run, scalars);
        snprintf(why, size, "entries of scalars[] that were always equal are not");
        *status = taken && *status == WEFT_OK ? execute(f, &run, inputs, outputs) : *status;
    } else {
        taken = *status != WEFT_OK;
    }
    weft_run_free(&run);
    return taken;
}

weft_status weft_frozen_check_call(const weft_graph_impl *graph, const char *why)
{
    if (graph->freezing == NULL || !graph->freezing->counted) {
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_STATE, "weft_graph_call",
                     "graph %s is frozen, and its function would have to be called again (%s), but it counts its calls itself",
                     graph->name, why);
}

bool weft_frozen_replay(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[],
                        weft_status *status)
{
    static const char function[] = "weft_graph_call";
    const weft_graph_trace *trace = graph->segments.count == 0 ? NULL : weft_segment_find(graph->segments.items, graph->inputs_hash);
    char why[160] = "calls with these sizes have not been observed twice";
    if (graph->freezing->refused) {
        *status = weft_fail(WEFT_ERR_STATE, function, "graph %s cannot be frozen: %s", graph->name, graph->freezing->why);
        return true;
    }
    if (trace != NULL && weft_frozen_is_ready(trace->frozen) &&
        replay(graph, trace->frozen, inputs, scalars, outputs, status, why, sizeof(why))) {
        return true;
    }
    *status = weft_frozen_check_call(graph, why);
    return *status != WEFT_OK;
}
