/* Frozen graphs: a trace is executed without its function, once checked runs have shown where its numbers and tensors come
 * from.
 *
 * Each scalar of a recorded call is a NUMBER. Two observed replays of the trace, and two values of each entry of scalars[], leave
 * of its possible sources those that agreed with it every time: a constant, entries, a count of runs. A number without any is
 * refused. Scalars that weft derives from other numbers (weft_derivation) are derived again from these. */
#include "graph/run/frozen.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/state.h"

struct weft_freezing *weft_freezing_new(void)
{
    return calloc(1, sizeof(struct weft_freezing));
}

void weft_graph_unfreeze(weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->segments.count; i++) {
        const weft_graph_segment *segment = (const weft_graph_segment *)graph->segments.items + i;
        for (weft_graph_trace *trace = segment->newest; trace != NULL; trace = trace->older) {
            weft_frozen_free(trace->frozen);
            trace->frozen = NULL;
        }
    }
    free(graph->freezing);
    graph->freezing = NULL;
}

/* Nothing is known of a trace of the graph. NULL: no memory. */
static struct weft_frozen *frozen_new(const weft_graph_impl *graph)
{
    struct weft_frozen *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return NULL;
    }
    *f = (struct weft_frozen){ .of = graph->freezing, .num_inputs = graph->num_inputs,
                                .num_scalars = graph->num_scalars + graph->num_derived, .num_derived = graph->num_derived,
                                .num_outputs = graph->num_outputs };
    f->scalars = calloc((size_t)f->num_scalars + 1, sizeof(double));
    f->outputs = calloc((size_t)f->num_outputs + 1, sizeof(weft_source));
    f->input_numbers = calloc((size_t)f->num_inputs + 1, sizeof(int));
    f->input_gradients = calloc((size_t)f->num_inputs + 1, sizeof(weft_gradient_state));
    if (f->scalars == NULL || f->outputs == NULL || f->input_numbers == NULL || f->input_gradients == NULL) {
        weft_frozen_free(f);
        return NULL;
    }
    return f;
}

/* Observation begins again. */
static void forget(struct weft_frozen *f)
{
    f->observations = 0;
    f->varied = 0;
    f->derived.count = f->bound.count = f->live.count = 0;
    free(f->numbers);
    f->numbers = NULL;
}

void weft_frozen_free(struct weft_frozen *f)
{
    if (f == NULL) {
        return;
    }
    forget(f);
    weft_vec_free(&f->live);
    weft_vec_free(&f->derived);
    weft_vec_free(&f->bound);
    free(f->scalars);
    free(f->outputs);
    free(f->input_numbers);
    free(f->input_gradients);
    free(f);
}

void weft_freezing_miss(weft_graph_impl *graph)
{
    if (graph->freezing != NULL) {
        graph->freezing->newest = NULL;
    }
}

void weft_freezing_forget(struct weft_freezing *freezing, const weft_graph_trace *trace)
{
    if (freezing->newest == trace->frozen) {
        freezing->newest = NULL;
    }
}

/* The entries that must have varied: those that the program gives. A derived one may have one value for long, unless the function counts,
 * since it could not be called once more when that changes. */
static uint64_t entries_to_vary(const struct weft_frozen *f)
{
    int given = f->num_scalars - (weft_frozen_counts(f) ? 0 : f->num_derived);
    return given == 64 ? ~UINT64_C(0) : (UINT64_C(1) << given) - 1;
}

/* What is still to be observed; NULL: nothing. */
static const char *missing(const struct weft_frozen *f)
{
    return f == NULL || f->observations < 2 ? "two replays of one trace must be observed first"
           : (entries_to_vary(f) & ~f->varied) != 0 ? "an entry of scalars[] has had one value only"
                                            : NULL;
}

bool weft_frozen_is_ready(const struct weft_frozen *f)
{
    return missing(f) == NULL;
}

bool weft_freezing_is_ready(const struct weft_freezing *freezing, const char **why)
{
    const char *lacks = freezing->refused ? freezing->why : missing(freezing->newest);
    *why = lacks == NULL ? "" : lacks;
    return lacks == NULL;
}

/* ---- learning where numbers come from ---------------------------------------------------------------------- */

static uint64_t equal_entries(const struct weft_frozen *f, const double scalars[], double value)
{
    uint64_t entries = 0;
    for (int i = 0; i < f->num_scalars; i++) {
        entries |= (uint64_t)weft_same_bits(scalars[i], value) << i;
    }
    return entries;
}

/* False: the number has no source. */
static bool learn(const struct weft_frozen *f, weft_number *n, double value, const double scalars[], bool may_count)
{
    uint64_t entries = equal_entries(f, scalars, value);
    if (f->observations == 0) {
        *n = (weft_number){ .value = value, .entries = entries, .counts = may_count };
        return true;
    }
    n->entries &= entries;
    n->counts = n->counts && weft_same_bits(value, n->value + 1);
    n->changed = n->changed || !weft_same_bits(value, n->value);
    n->value = value;
    return !n->changed || n->counts || n->entries != 0;
}

static void refuse(const struct weft_frozen *f, size_t node, const char *what)
{
    f->of->refused = true;
    snprintf(f->of->why, sizeof(f->of->why), "call %zu, %s: %s", node, weft_trace_node(f->trace, node)->call->function, what);
}

static bool is_derived(const struct weft_frozen *f, size_t node)
{
    const weft_call_details *details = weft_trace_node(f->trace, node)->call->details;
    return details != NULL && details->derivation != NULL;
}

static void learn_scalars(struct weft_frozen *f, const weft_graph_run *run, const double scalars[])
{
    for (size_t i = 0; i < run->calls.count && !f->of->refused; i++) {
        const weft_deferred_call *call = (const weft_deferred_call *)run->calls.items + i;
        for (int k = 0; k < WEFT_MAX_SCALARS && !is_derived(f, i) && !f->of->refused; k++) {
            if (!learn(f, &f->numbers[i * WEFT_MAX_SCALARS + (size_t)k], call->scalars[k], scalars, false)) {
                char what[160];
                snprintf(what, sizeof(what), "its number %d has changed to %.17g, and is no entry of scalars[]", k, call->scalars[k]);
                refuse(f, i, what);
            }
        }
    }
}

static void learn_origins(struct weft_frozen *f, const weft_graph_run *run, const double scalars[])
{
    for (size_t i = 0; i < run->derived.count && !f->of->refused; i++) {
        const weft_derived_call *call = (const weft_derived_call *)run->derived.items + i;
        weft_frozen_derived *derived = (weft_frozen_derived *)f->derived.items + i;
        const weft_derivation *derivation = weft_trace_node(f->trace, call->node)->call->details->derivation;
        derived->node = call->node;
        derived->derivation = derivation;
        for (int k = 0; k < derivation->num_origins && !f->of->refused; k++) {
            if (!learn(f, &derived->origins[k], call->origins[k], scalars, k == derivation->counter)) {
                char what[160];
                snprintf(what, sizeof(what), "an argument has changed to %.17g, and is no entry of scalars[]%s", call->origins[k],
                         k == derivation->counter ? ", nor one more than before" : "");
                refuse(f, call->node, what);
            }
        }
    }
}

/* False: no memory. */
static bool list_live(struct weft_frozen *f)
{
    f->live.count = 0;
    for (size_t i = 0; i < f->trace->nodes.count * WEFT_MAX_SCALARS; i++) {
        if (f->numbers[i].entries != 0) {
            size_t *place = weft_vec_push(&f->live, sizeof(*place));
            if (place == NULL) {
                return false;
            }
            *place = i;
        }
    }
    return true;
}

/* ---- learning where tensors come from ---------------------------------------------------------------------- */

static bool same_source(const weft_source *a, const weft_source *b)
{
    return a->kind == b->kind && a->index == b->index && a->same_as == b->same_as && a->handle == b->handle &&
           a->gradient == b->gradient;
}

weft_gradient_state weft_frozen_gradient_state(const weft_tensor_impl *tensor)
{
    return tensor->tape == NULL ? REQUIRES_NONE : weft_tape_has_gradient(tensor) ? HAS_GRADIENT : REQUIRES_GRADIENT;
}

/* A tensor from before the run. */
static weft_source source_of(const struct weft_frozen *f, const weft_tensor_impl *tensor, weft_tensor *const inputs[])
{
    for (int i = 0; i < f->num_inputs; i++) {
        if (inputs[i] == tensor->handle) {
            return (weft_source){ .kind = OF_INPUT, .index = i };
        }
    }
    return (weft_source){ .kind = OF_PROGRAM, .handle = tensor->handle, .gradient = weft_frozen_gradient_state(tensor) };
}

static weft_source source_of_output(const struct weft_frozen *f, const weft_graph_run *run, const weft_tensor *handle,
                               weft_tensor *const inputs[])
{
    const weft_tensor_impl *tensor = weft_tensor_get(handle);
    bool is_new = tensor->promised && tensor->graph_run == run->deferral.number && *weft_run_bound(run, tensor->number) != tensor;
    return is_new ? (weft_source){ .kind = OF_CALLS, .index = tensor->number } : source_of(f, tensor, inputs);
}

/* Stores a source, or compares it with that of the run before. */
static bool agree_on(const struct weft_frozen *f, weft_source *known, weft_source found)
{
    bool same = f->observations == 0 || same_source(known, &found);
    *known = found;
    return same;
}

static void refuse_value(struct weft_frozen *f, int value, const char *what)
{
    f->of->refused = true;
    snprintf(f->of->why, sizeof(f->of->why), "%%%d in the listing %s", value, what);
}

static void learn_bound(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[])
{
    for (int i = 0; i < (int)run->bound.count && !f->of->refused; i++) {
        const weft_tensor_impl *tensor = *weft_run_bound(run, i);
        const weft_graph_value *value = weft_trace_value(f->trace, i);
        weft_source found = tensor == NULL ? (weft_source){ .kind = NO_TENSOR } : source_of(f, tensor, inputs);
        if (value->is_memory) {
            refuse_value(f, i, "is memory that the function passes to weft_from_local()");
        } else if (found.kind == OF_PROGRAM && found.handle == NULL) {
            refuse_value(f, i, "is a value that a backward pass has saved outside the graph");
        } else if (found.kind == OF_PROGRAM && tensor->replaced) {
            char what[160];
            snprintf(what, sizeof(what), "was %s in a module, where weft_module_set_tensor() has replaced it",
                     tensor->name == NULL ? "a tensor" : tensor->name);
            refuse_value(f, i, what);
        } else if (!agree_on(f, (weft_source *)f->bound.items + i, found)) {
            refuse_value(f, i, "is another tensor in each run, and no input");
        }
    }
}

static void learn_outputs(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[],
                          weft_tensor *const outputs[])
{
    for (int i = 0; i < f->num_outputs && !f->of->refused; i++) {
        weft_source found = source_of_output(f, run, outputs[i], inputs);
        while (found.kind == OF_CALLS && outputs[found.same_as] != outputs[i]) {
            found.same_as++;
        }
        bool same = agree_on(f, &f->outputs[i], found);
        if (!same || (found.kind == OF_CALLS && weft_tensor_get(outputs[i])->tape != NULL)) {
            f->of->refused = true;
            snprintf(f->of->why, sizeof(f->of->why), same ? "outputs[%d] requires gradients" : "outputs[%d] is made in another way in each run",
                     i);
        }
    }
}

/* It has become another output on the tape, which only its function can record. Leaves stay leaves. */
static bool is_recorded(const weft_tensor_impl *tensor)
{
    return tensor->tape != NULL && weft_tape_leaf_of(tensor->tape) == NULL;
}

/* New tensors that are still there, and no outputs; and tensors from before the run that it changes. */
static void find_left_behind(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const outputs[])
{
    for (const weft_tensor_impl *p = weft_runtime.tensors->promised; p != NULL && !f->of->refused; p = p->next_promised) {
        bool changed = *weft_run_bound(run, p->number) == p, known = changed;
        for (int i = 0; i < f->num_outputs && !known; i++) {
            known = outputs[i] == p->handle && p->handle != NULL;
        }
        if (!known) {
            refuse_value(f, p->number, "outlives the function, and is no output");
        } else if (changed && is_recorded(p)) {
            refuse_value(f, p->number, "is changed in place, and requires gradients");
        }
    }
}

/* Inputs that a call reads have a number. */
static bool learn_inputs(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[])
{
    bool same = true;
    for (int i = 0; i < f->num_inputs; i++) {
        const weft_tensor_impl *tensor = weft_tensor_get(inputs[i]);
        int found = -1;
        for (int k = 0; k < (int)run->bound.count && found < 0; k++) {
            found = *weft_run_bound(run, k) == tensor && weft_trace_value(f->trace, k)->is_input ? k : -1;
        }
        weft_gradient_state gradient = weft_frozen_gradient_state(tensor);
        same = same && (f->observations == 0 || (f->input_numbers[i] == found && f->input_gradients[i] == gradient));
        f->input_numbers[i] = found;
        f->input_gradients[i] = gradient;
    }
    return same;
}

/* ---- observing --------------------------------------------------------------------------------------------- */

bool weft_frozen_in_same_regions(const struct weft_frozen *f)
{
    weft_tape_regions now = weft_tape_regions_open();
    return now.no_grad == f->regions.no_grad && now.casts == f->regions.casts && now.cast == f->regions.cast &&
           weft_runtime.implicit_replications == f->implicit_replications && weft_mesh_stack_top() == f->mesh;
}

/* False: no memory. */
static bool begin(struct weft_frozen *f, const weft_graph_run *run)
{
    forget(f);
    f->trace = run->replayed;
    f->inputs_hash = run->graph->inputs_hash;
    f->numbers = calloc(run->calls.count * WEFT_MAX_SCALARS + 1, sizeof(weft_number));
    bool done = f->numbers != NULL;
    for (size_t i = 0; i < run->derived.count && done; i++) {
        done = weft_vec_push(&f->derived, sizeof(weft_frozen_derived)) != NULL;
    }
    for (size_t i = 0; i < run->bound.count && done; i++) {
        done = weft_vec_push(&f->bound, sizeof(weft_source)) != NULL;
    }
    f->regions = weft_tape_regions_open();
    f->implicit_replications = weft_runtime.implicit_replications;
    f->mesh = weft_mesh_stack_top();
    f->changes = weft_runtime.changes;
    return done;
}

static void learn_run(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[], const double scalars[],
                      weft_tensor *const outputs[])
{
    learn_scalars(f, run, scalars);
    learn_origins(f, run, scalars);
    learn_bound(f, run, inputs);
    learn_outputs(f, run, inputs, outputs);
    find_left_behind(f, run, outputs);
    for (int i = 0; i < f->num_scalars; i++) {
        f->varied |= (uint64_t)(f->observations > 0 && !weft_same_bits(f->scalars[i], scalars[i])) << i;
        f->scalars[i] = scalars[i];
    }
    f->observations++;
}

/* Another function than those of calls has been called inside. */
static bool is_refused(weft_graph_run *run, struct weft_freezing *freezing)
{
    if (run->at_once == NULL && weft_runtime.mesh_stack.count != run->num_meshes) {
        run->at_once = weft_runtime.mesh_stack.count > run->num_meshes ? "weft_mesh_push" : "weft_mesh_pop";
    }
    if (run->at_once != NULL) {
        freezing->refused = true;
        snprintf(freezing->why, sizeof(freezing->why), "%s inside is no call of the graph", run->at_once);
    }
    return run->at_once != NULL;
}

static void add_number(weft_text *text, const weft_number *n)
{
    int entry = 0;
    while (n->changed && entry < WEFT_MAX_FROZEN_SCALARS - 1 && (n->entries >> entry & 1) == 0) {
        entry++;
    }
    if (!n->changed) {
        weft_text_add(text, "%.17g", n->value);
    } else if (n->entries != 0) {
        weft_text_add(text, "scalars[%d]", entry);
    } else {
        weft_text_add(text, "a count");
    }
}

/* Numbers at the end that are 0 are none of the call's. */
void weft_frozen_add_numbers(weft_text *text, const weft_graph_trace *trace, size_t node)
{
    const struct weft_frozen *f = trace->frozen;
    if (!weft_frozen_is_ready(f)) {
        return;
    }
    const weft_number *numbers = &f->numbers[node * WEFT_MAX_SCALARS];
    int count = WEFT_MAX_SCALARS;
    for (size_t i = 0; i < f->derived.count; i++) {
        const weft_frozen_derived *derived = (const weft_frozen_derived *)f->derived.items + i;
        if (derived->node == node) {
            numbers = derived->origins;
            count = derived->derivation->num_origins;
        }
    }
    while (count > 0 && !numbers[count - 1].changed && numbers[count - 1].value == 0) {
        count--;
    }
    for (int k = 0; k < count; k++) {
        weft_text_add(text, k == 0 ? " scalars=" : ",");
        add_number(text, &numbers[k]);
    }
}

bool weft_frozen_counts(const struct weft_frozen *f)
{
    bool any = false;
    for (size_t i = 0; i < f->derived.count; i++) {
        const weft_frozen_derived *derived = (const weft_frozen_derived *)f->derived.items + i;
        for (int k = 0; k < derived->derivation->num_origins; k++) {
            any |= derived->origins[k].counts && derived->origins[k].entries == 0;
        }
    }
    return any;
}

/* Whether another trace has run on the same inputs since: then something else than layouts decides which one runs. */
static bool alternates(const struct weft_frozen *f, const weft_graph_run *run)
{
    const weft_graph_segment *segment = weft_run_segment(run);
    bool other = false;
    for (weft_map_slot *slot = weft_map_first(&segment->by_inputs, f->inputs_hash); slot != NULL;
         slot = weft_map_next(&segment->by_inputs, slot)) {
        const weft_graph_trace *trace = slot->value;
        other |= trace != f->trace && trace->last_run > f->trace->last_run;
    }
    return other;
}

/* Whether the run adds to what is known. Counts go on where no other trace has run between, which may have counted too. */
static bool goes_on(const struct weft_frozen *f, const weft_graph_run *run)
{
    return f->observations > 0 && f->inputs_hash == run->graph->inputs_hash && weft_frozen_in_same_regions(f) &&
           f->changes == weft_runtime.changes && !alternates(f, run) && (!weft_frozen_counts(f) || f->of->newest == f);
}

void weft_frozen_observe(weft_graph_run *run, weft_tensor *const inputs[], const double scalars[],
                         weft_tensor *const outputs[])
{
    struct weft_freezing *freezing = run->graph->freezing;
    weft_graph_trace *trace = run->replayed;
    if (is_refused(run, freezing)) {
        return;
    }
    if (trace == NULL || run->calls.count != trace->nodes.count || run->bound.count != trace->values.count) {
        freezing->newest = NULL;
        return;
    }
    struct weft_frozen *f = trace->frozen = trace->frozen == NULL ? frozen_new(run->graph) : trace->frozen;
    bool done = f != NULL && (goes_on(f, run) || begin(f, run));
    if (done && !learn_inputs(f, run, inputs)) { /* other inputs are alike */
        done = begin(f, run);
    }
    if (done) {
        learn_run(f, run, inputs, scalars, outputs);
    }
    if (f != NULL && (!done || !list_live(f))) {
        forget(f);
    }
    freezing->newest = f;
}
