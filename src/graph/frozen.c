/* Frozen graphs: a trace is executed without its function, once checked runs have shown where its numbers and tensors come
 * from.
 *
 * Each scalar of a recorded call is a NUMBER. Two observed replays of the trace, and two values of each entry of scalars[], leave
 * of its possible sources those that agreed with it every time: a constant, entries, a count of runs. A number without any is
 * refused. Scalars that weft derives from other numbers (weft_derivation) are derived again from these. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "codelets/random.h"
#include "graph/graph.h"
#include "tensor/promised.h"
#include "tensor/state.h"

/* A number and its possible sources. */
typedef struct number {
    double value;     /* in the newest run */
    uint64_t entries; /* bit i: equal to scalars[i] in all runs observed */
    bool changed;     /* it is no constant */
    bool counts;      /* one more in each run; of numbers that may alone */
} number;

/* A call whose scalars are derived. */
typedef struct derived_call {
    size_t node;
    const weft_derivation *derivation;
    number origins[WEFT_MAX_SCALARS];
} derived_call;

typedef enum source_kind { NO_TENSOR, OF_INPUT, OF_PROGRAM, OF_CALLS } source_kind;

/* Where a tensor comes from. */
typedef struct source {
    source_kind kind;
    int index;           /* of the input, or the value's number */
    int same_as;         /* OF_CALLS: the first output that is the same tensor */
    weft_tensor *handle; /* OF_PROGRAM */
} source;

struct weft_frozen {
    int num_inputs, num_scalars, num_outputs;
    const weft_graph_trace *trace; /* NULL: nothing has been observed */
    int observations;
    uint64_t varied;  /* bit i: scalars[i] has had two values */
    double *scalars;  /* the newest ones */
    number *numbers;  /* WEFT_MAX_SCALARS for each call */
    weft_vec live;    /* size_t: numbers that are no constants */
    weft_vec derived; /* derived_call */
    weft_vec bound;   /* source: of each value that is bound to a tensor */
    source *outputs;
    int *input_numbers;     /* of the values that inputs are; -1: no call reads it */
    bool *input_requires;   /* a gradient */
    weft_tape_regions regions;
    int implicit_replications;
    uint64_t replays; /* since the newest observation */
    bool refused;
    char why[320];
};

struct weft_frozen *weft_frozen_new(const weft_graph_impl *graph)
{
    struct weft_frozen *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return NULL;
    }
    *f = (struct weft_frozen){ .num_inputs = graph->num_inputs, .num_scalars = graph->num_scalars, .num_outputs = graph->num_outputs };
    f->scalars = calloc((size_t)f->num_scalars + 1, sizeof(double));
    f->outputs = calloc((size_t)f->num_outputs + 1, sizeof(source));
    f->input_numbers = calloc((size_t)f->num_inputs + 1, sizeof(int));
    f->input_requires = calloc((size_t)f->num_inputs + 1, sizeof(bool));
    if (f->scalars == NULL || f->outputs == NULL || f->input_numbers == NULL || f->input_requires == NULL) {
        weft_frozen_free(f);
        return NULL;
    }
    return f;
}

/* Observation begins again. */
static void forget(struct weft_frozen *f)
{
    f->trace = NULL;
    f->observations = 0;
    f->varied = 0;
    f->replays = 0;
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
    free(f->input_requires);
    free(f);
}

void weft_frozen_forget(struct weft_frozen *f, const weft_graph_trace *trace)
{
    if (f->trace == trace) {
        forget(f);
    }
}

static uint64_t all_entries(const struct weft_frozen *f)
{
    return f->num_scalars == 64 ? ~UINT64_C(0) : (UINT64_C(1) << f->num_scalars) - 1;
}

bool weft_frozen_is_ready(const struct weft_frozen *f, const char **why)
{
    bool ready = !f->refused && f->observations >= 2 && f->varied == all_entries(f);
    *why = f->refused                  ? f->why
           : ready                     ? ""
           : f->observations < 2       ? "two replays of one trace in turn are observed before"
                                       : "an entry of scalars[] has had one value only";
    return ready;
}

/* ---- learning where numbers come from ---------------------------------------------------------------------- */

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static uint64_t equal_entries(const struct weft_frozen *f, const double scalars[], double value)
{
    uint64_t entries = 0;
    for (int i = 0; i < f->num_scalars; i++) {
        entries |= (uint64_t)same_bits(scalars[i], value) << i;
    }
    return entries;
}

/* False: the number has no source. */
static bool learn(const struct weft_frozen *f, number *n, double value, const double scalars[], bool may_count)
{
    uint64_t entries = equal_entries(f, scalars, value);
    if (f->observations == 0) {
        *n = (number){ .value = value, .entries = entries, .counts = may_count };
        return true;
    }
    n->entries &= entries;
    n->counts = n->counts && same_bits(value, n->value + 1);
    n->changed = n->changed || !same_bits(value, n->value);
    n->value = value;
    return !n->changed || n->counts || n->entries != 0;
}

/* What the number is now. False: its possible sources disagree. */
static bool find_value(const number *n, const double scalars[], double *value)
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
            agree = agree && (!found || same_bits(*value, scalars[i]));
            *value = scalars[i];
            found = true;
        }
    }
    return agree && found;
}

static void refuse(struct weft_frozen *f, size_t node, const char *what)
{
    f->refused = true;
    snprintf(f->why, sizeof(f->why), "call %zu, %s: %s", node, weft_trace_node(f->trace, node)->call->function, what);
}

static bool is_derived(const struct weft_frozen *f, size_t node)
{
    const weft_call_details *details = weft_trace_node(f->trace, node)->call->details;
    return details != NULL && details->derivation != NULL;
}

static void learn_scalars(struct weft_frozen *f, const weft_graph_run *run, const double scalars[])
{
    for (size_t i = 0; i < run->calls.count && !f->refused; i++) {
        const weft_deferred_call *call = (const weft_deferred_call *)run->calls.items + i;
        for (int k = 0; k < WEFT_MAX_SCALARS && !is_derived(f, i) && !f->refused; k++) {
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
    for (size_t i = 0; i < run->derived.count && !f->refused; i++) {
        const weft_derived_call *call = (const weft_derived_call *)run->derived.items + i;
        derived_call *derived = (derived_call *)f->derived.items + i;
        const weft_derivation *derivation = weft_trace_node(f->trace, call->node)->call->details->derivation;
        derived->node = call->node;
        derived->derivation = derivation;
        for (int k = 0; k < derivation->num_origins && !f->refused; k++) {
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

static bool same_source(const source *a, const source *b)
{
    return a->kind == b->kind && a->index == b->index && a->same_as == b->same_as && a->handle == b->handle;
}

/* A tensor from before the run. */
static source source_of(const struct weft_frozen *f, const weft_tensor_impl *tensor, weft_tensor *const inputs[])
{
    for (int i = 0; i < f->num_inputs; i++) {
        if (inputs[i] == tensor->handle) {
            return (source){ .kind = OF_INPUT, .index = i };
        }
    }
    return (source){ .kind = OF_PROGRAM, .handle = tensor->handle };
}

static source source_of_output(const struct weft_frozen *f, const weft_graph_run *run, const weft_tensor *handle,
                               weft_tensor *const inputs[])
{
    const weft_tensor_impl *tensor = weft_tensor_get(handle);
    bool is_new = tensor->promised && tensor->graph_run == run->number && *weft_run_bound(run, tensor->number) != tensor;
    return is_new ? (source){ .kind = OF_CALLS, .index = tensor->number } : source_of(f, tensor, inputs);
}

/* Stores a source, or compares it with that of the run before. */
static bool agree_on(const struct weft_frozen *f, source *known, source found)
{
    bool same = f->observations == 0 || same_source(known, &found);
    *known = found;
    return same;
}

static void refuse_value(struct weft_frozen *f, int value, const char *what)
{
    f->refused = true;
    snprintf(f->why, sizeof(f->why), "%%%d in the listing %s", value, what);
}

static void learn_bound(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[])
{
    for (int i = 0; i < (int)run->bound.count && !f->refused; i++) {
        const weft_tensor_impl *tensor = *weft_run_bound(run, i);
        const weft_graph_value *value = weft_trace_value(f->trace, i);
        source found = tensor == NULL ? (source){ .kind = NO_TENSOR } : source_of(f, tensor, inputs);
        if (value->is_memory) {
            refuse_value(f, i, "is memory that the function passes to weft_from_local()");
        } else if (found.kind == OF_PROGRAM && found.handle == NULL) {
            refuse_value(f, i, "is a value that a backward pass has saved outside the graph");
        } else if (!agree_on(f, (source *)f->bound.items + i, found)) {
            refuse_value(f, i, "is another tensor in each run, and no input");
        }
    }
}

static void learn_outputs(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[],
                          weft_tensor *const outputs[])
{
    for (int i = 0; i < f->num_outputs && !f->refused; i++) {
        source found = source_of_output(f, run, outputs[i], inputs);
        while (found.kind == OF_CALLS && outputs[found.same_as] != outputs[i]) {
            found.same_as++;
        }
        bool same = agree_on(f, &f->outputs[i], found);
        if (!same || (found.kind == OF_CALLS && weft_tensor_get(outputs[i])->tape != NULL)) {
            f->refused = true;
            snprintf(f->why, sizeof(f->why), same ? "outputs[%d] requires gradients" : "outputs[%d] is made in another way in each run",
                     i);
        }
    }
}

/* New tensors that are still there, and no outputs. */
static void find_left_behind(struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const outputs[])
{
    for (const weft_tensor_impl *p = weft_runtime.tensors->promised; p != NULL && !f->refused; p = p->next_promised) {
        bool known = *weft_run_bound(run, p->number) == p;
        for (int i = 0; i < f->num_outputs && !known; i++) {
            known = outputs[i] == p->handle && p->handle != NULL;
        }
        if (!known) {
            refuse_value(f, p->number, "outlives the function, and is no output");
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
        same = same && (f->observations == 0 || (f->input_numbers[i] == found && f->input_requires[i] == (tensor->tape != NULL)));
        f->input_numbers[i] = found;
        f->input_requires[i] = tensor->tape != NULL;
    }
    return same;
}

/* ---- observing --------------------------------------------------------------------------------------------- */

static bool in_same_regions(const struct weft_frozen *f)
{
    weft_tape_regions now = weft_tape_regions_open();
    return now.no_grad == f->regions.no_grad && now.casts == f->regions.casts && now.cast == f->regions.cast &&
           weft_runtime.implicit_replications == f->implicit_replications;
}

/* False: no memory. */
static bool begin(struct weft_frozen *f, const weft_graph_run *run)
{
    forget(f);
    f->trace = run->replayed;
    f->numbers = calloc(run->calls.count * WEFT_MAX_SCALARS + 1, sizeof(number));
    bool done = f->numbers != NULL;
    for (size_t i = 0; i < run->derived.count && done; i++) {
        done = weft_vec_push(&f->derived, sizeof(derived_call)) != NULL;
    }
    for (size_t i = 0; i < run->bound.count && done; i++) {
        done = weft_vec_push(&f->bound, sizeof(source)) != NULL;
    }
    f->regions = weft_tape_regions_open();
    f->implicit_replications = weft_runtime.implicit_replications;
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
        f->varied |= (uint64_t)(f->observations > 0 && !same_bits(f->scalars[i], scalars[i])) << i;
        f->scalars[i] = scalars[i];
    }
    f->observations++;
}

void weft_frozen_observe(weft_graph_run *run, weft_tensor *const inputs[], const double scalars[],
                         weft_tensor *const outputs[])
{
    struct weft_frozen *f = run->graph->frozen;
    if (run->at_once != NULL) {
        f->refused = true;
        snprintf(f->why, sizeof(f->why), "%s inside is no call of the graph", run->at_once);
        return;
    }
    if (run->replayed == NULL || run->calls.count != run->replayed->nodes.count || run->bound.count != run->replayed->values.count) {
        forget(f);
        return;
    }
    bool goes_on = f->trace == run->replayed && in_same_regions(f);
    if (!goes_on && !begin(f, run)) {
        forget(f);
        return;
    }
    if (!learn_inputs(f, run, inputs)) { /* other inputs are alike */
        if (!begin(f, run)) {
            forget(f);
            return;
        }
    }
    learn_run(f, run, inputs, scalars, outputs);
    if (!list_live(f)) {
        forget(f);
    }
}

/* ---- replaying ----------------------------------------------------------------------------------------------- */

/* Numbers the inputs. False: they are not like those that were observed; `why`: the first difference in words. */
static bool number_inputs(const struct weft_frozen *f, const weft_graph_run *run, weft_tensor *const inputs[], char *why, size_t size)
{
    for (int i = 0; i < f->num_inputs; i++) {
        weft_tensor_impl *tensor = weft_tensor_get(inputs[i]);
        int at = f->input_numbers[i];
        const weft_graph_value *value = at < 0 ? NULL : weft_trace_value(f->trace, at);
        bool alike = value == NULL || (value->layout == tensor->layout && value->is_fake == tensor->fake);
        if (!alike || f->input_requires[i] != (tensor->tape != NULL)) {
            snprintf(why, size, "inputs[%d] %s", i, alike ? "requires a gradient, or did" : "has another layout");
            return false;
        }
        if (at >= 0 && tensor->graph_run == run->number && tensor->number != at) {
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
static weft_tensor_impl *tensor_of(const source *s, weft_tensor *const inputs[])
{
    return weft_tensor_get(s->kind == OF_INPUT ? inputs[s->index] : s->handle);
}

/* A tensor of the program's may not be an input as well. */
static weft_status check_program_tensors(const struct weft_frozen *f, const weft_graph_run *run, bool *alike)
{
    for (int i = 0; i < (int)f->bound.count; i++) {
        const source *s = (const source *)f->bound.items + i;
        weft_tensor_impl *tensor = s->kind == OF_PROGRAM ? weft_tensor_get(s->handle) : NULL;
        if (s->kind == OF_PROGRAM && tensor == NULL) {
            return weft_fail(WEFT_ERR_STATE, "weft_graph_call",
                             "graph %s is frozen, and a tensor that was bound to it, %%%d in its listing, has been freed",
                             run->graph->name, i);
        }
        if (tensor != NULL && weft_trace_value(f->trace, i)->is_input) {
            *alike = *alike && (tensor->graph_run != run->number || tensor->number == i);
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
        const derived_call *derived = (const derived_call *)f->derived.items + i;
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
        const source *s = (const source *)f->bound.items + i;
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
        const source *s = &f->outputs[i];
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
static void count(struct weft_frozen *f)
{
    for (size_t i = 0; i < f->derived.count; i++) {
        derived_call *derived = (derived_call *)f->derived.items + i;
        for (int k = 0; k < derived->derivation->num_origins; k++) {
            derived->origins[k].value += derived->origins[k].counts;
        }
    }
    f->replays++;
}

static bool counts(const struct weft_frozen *f)
{
    bool any = false;
    for (size_t i = 0; i < f->derived.count; i++) {
        const derived_call *derived = (const derived_call *)f->derived.items + i;
        for (int k = 0; k < derived->derivation->num_origins; k++) {
            any |= derived->origins[k].counts && derived->origins[k].entries == 0;
        }
    }
    return any;
}

/* The run is complete: its calls are executed. */
static weft_status execute(struct weft_frozen *f, weft_graph_run *run, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    draw(f, run);
    weft_status status = bind(f, run, inputs) ? make_outputs(f, run, inputs, outputs) : weft_run_fail_memory(run);
    run->failed = status;
    weft_status ended = weft_run_end_segment(run);
    run->graph->num_newest = run->position;
    if (ended == WEFT_OK) {
        run->graph->info.frozen_replays++;
        count(f);
    }
    return ended;
}

/* True: *status is that of the call. False: it is to be checked, because of `why`. */
static bool replay(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[],
                   weft_status *status, char *why, size_t size)
{
    struct weft_frozen *f = graph->frozen;
    weft_graph_run run;
    weft_run_begin(&run, graph);
    run.replayed = (weft_graph_trace *)f->trace;
    bool alike = in_same_regions(f), taken = true;
    snprintf(why, size, "it is called in other regions");
    alike = alike && number_inputs(f, &run, inputs, why, size);
    bool apart = true;
    *status = alike ? check_program_tensors(f, &run, &apart) : WEFT_OK;
    if (alike && !apart) {
        snprintf(why, size, "an input is a tensor that is bound to the graph");
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

weft_status weft_frozen_call(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                             weft_tensor *outputs[])
{
    static const char function[] = "weft_graph_call";
    struct weft_frozen *f = graph->frozen;
    const char *unused;
    if (f->refused) {
        return weft_fail(WEFT_ERR_STATE, function, "graph %s cannot be frozen: %s", graph->name, f->why);
    }
    if (weft_frozen_is_ready(f, &unused)) {
        char why[160];
        weft_status status;
        if (replay(graph, inputs, scalars, outputs, &status, why, sizeof(why))) {
            return status;
        }
        if (f->replays > 0 && counts(f)) {
            return weft_fail(WEFT_ERR_STATE, function,
                             "graph %s is frozen, and its function would have to be called again (%s), but it counts its calls itself",
                             graph->name, why);
        }
    }
    return weft_graph_run_checked(graph, inputs, scalars, outputs);
}
