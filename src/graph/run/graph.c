/* The public functions of graphs. */
#include "call/context.h"
#include "graph/fuse/cluster.h"
#include "graph/passes/body.h"
#include "graph/run/graph.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/explained.h"
#include "tensor/regions.h"
#include "tensor/state.h"

static void delete_graph(weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->segments.count; i++) {
        weft_segment_free((weft_graph_segment *)graph->segments.items + i);
    }
    weft_vec_free(&graph->agreed);
    free(graph->freezing);
    weft_graph_forget_constants(graph);
    weft_graph_free_shapes(graph);
    weft_graph_forget_tested(graph);
    weft_vec_free(&graph->tested);
    free(graph->donated);
    free(graph->output_places);
    weft_handle_remove(&weft_runtime.handles.graphs, graph->handle);
    weft_vec_free(&graph->segments);
    weft_vec_free(&graph->spare_bound);
    weft_vec_free(&graph->spare_calls);
    free(graph->name);
    free(graph);
}

static void meet_layouts(const weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->segments.count; i++) {
        const weft_graph_segment *segment = (const weft_graph_segment *)graph->segments.items + i;
        for (const weft_graph_trace *trace = segment->newest; trace != NULL; trace = trace->older) {
            weft_graph_trace_meet_layouts(trace);
        }
    }
    for (int i = 0; i < graph->num_inputs && graph->input_layouts != NULL; i++) {
        weft_meet_layout(graph->input_layouts[i]);
    }
    weft_meet_layout(graph->guard.before);
    weft_meet_layout(graph->guard.now);
}

void weft_graphs_meet_layouts(void)
{
    const weft_vec *slots = &weft_runtime.handles.graphs.slots;
    for (size_t i = 0; i < slots->count; i++) {
        const weft_graph_impl *graph = ((weft_handle_slot *)slots->items)[i].object;
        if (graph != NULL) {
            meet_layouts(graph);
        }
    }
}

weft_status weft_graphs_start(void)
{
    weft_joined_start();
    weft_runtime.graphs = calloc(1, sizeof(*weft_runtime.graphs));
    return weft_runtime.graphs != NULL ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory for the state of graphs");
}

void weft_graphs_stop(void)
{
    const weft_vec *slots = &weft_runtime.handles.graphs.slots;
    for (size_t i = 0; i < slots->count; i++) {
        weft_graph_impl *graph = ((weft_handle_slot *)slots->items)[i].object;
        if (graph != NULL) {
            delete_graph(graph);
        }
    }
    free(weft_runtime.graphs);
    weft_runtime.graphs = NULL;
}

static bool check_numbers(const char *function, int num_inputs, int num_scalars, int num_outputs)
{
    const char *wrong = num_inputs < 0 ? "num_inputs" : num_scalars < 0 ? "num_scalars" : num_outputs < 0 ? "num_outputs" : NULL;
    if (wrong != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is negative", wrong);
    }
    return wrong == NULL;
}

weft_graph *weft_graph_create(const char *name, weft_graph_function run, void *context, int num_inputs, int num_scalars,
                           int num_outputs)
{
    static const char function[] = "weft_graph_create";
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (name == NULL || run == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", name == NULL ? "name" : "function");
        return NULL;
    }
    if (!check_numbers(function, num_inputs, num_scalars, num_outputs)) {
        return NULL;
    }
    weft_graph_impl *graph = calloc(1, sizeof(*graph));
    if (graph != NULL) {
        *graph = (weft_graph_impl){ .function = run, .context = context, .num_inputs = num_inputs,
                                    .num_scalars = num_scalars, .num_outputs = num_outputs,
                                    .passes = weft_runtime.graph_passes };
        graph->name = strdup(name);
        graph->output_places = calloc(2 * (size_t)num_outputs + 1, sizeof(int));
        graph->handle = weft_handle_add(&weft_runtime.handles.graphs, WEFT_HANDLE_GRAPH, graph);
    }
    if (graph == NULL || graph->name == NULL || graph->output_places == NULL || graph->handle == NULL) {
        if (graph != NULL) {
            delete_graph(graph);
        }
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a graph");
        return NULL;
    }
    return graph->handle;
}

/* A graph to be changed, whose function does not run. NULL with the error kept. */
static weft_graph_impl *check_at_rest(const char *function, weft_graph *handle)
{
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL) {
        return NULL;
    }
    weft_deferral_note(function);
    if (graph->running > 0) {
        weft_fail(WEFT_ERR_STATE, function, "called from within the function of graph %s", graph->name);
        return NULL;
    }
    return graph;
}

weft_status weft_graph_destroy(weft_graph *handle)
{
    static const char function[] = "weft_graph_destroy";
    weft_graph_impl *graph = check_at_rest(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    delete_graph(graph);
    return WEFT_OK;
}

void weft_graph_forget_bodies(weft_graph_impl *graph, weft_graph_trace *trace)
{
    graph->info.bytes -= trace->bytes;
    weft_bodies_drop(trace);
    graph->info.bytes += trace->bytes;
}

weft_status weft_graph_set_passes(weft_graph *handle, unsigned passes)
{
    static const char function[] = "weft_graph_set_passes";
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    weft_deferral_note(function);
    if ((passes & ~(unsigned)WEFT_PASS_ALL) != 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "passes is %#x, which has bits of no weft_graph_pass", passes);
    }
    if (graph->running > 0) {
        return weft_fail(WEFT_ERR_STATE, function, "called from within the function of graph %s", graph->name);
    }
    graph->passes = passes;
    for (size_t i = 0; i < graph->segments.count; i++) {
        const weft_graph_segment *segment = (const weft_graph_segment *)graph->segments.items + i;
        for (weft_graph_trace *trace = segment->newest; trace != NULL; trace = trace->older) {
            weft_graph_forget_bodies(graph, trace);
        }
    }
    return WEFT_OK;
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

/* False with the error kept. */
static bool check_arguments(const weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                            weft_tensor *outputs[])
{
    static const char function[] = "weft_graph_call";
    const char *missing = graph->num_inputs > 0 && inputs == NULL      ? "inputs"
                          : graph->num_scalars > 0 && scalars == NULL ? "scalars"
                          : graph->num_outputs > 0 && outputs == NULL ? "outputs"
                                                                       : NULL;
    if (missing != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", missing);
        return false;
    }
    for (int i = 0; i < graph->num_inputs; i++) {
        if (weft_check_entry(function, "inputs", i, inputs[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Calls the function. A status with the error kept. */
static weft_status call_function(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                 weft_tensor *outputs[])
{
    static const char function[] = "weft_graph_call";
    weft_visit visit;
    if (graph->running == 1) {
        weft_graph_forget_tested(graph);
    }
    weft_visit_begin(&visit);
    weft_status status = graph->function(graph->context, inputs, scalars, outputs);
    weft_visit_end(&visit);
    if (status != WEFT_OK) {
        return weft_fail(status, function, "the function of graph %s returned: %s", graph->name,
                         weft_status_string(status));
    }
    for (int i = 0; i < graph->num_outputs; i++) {
        char name[48];
        if (outputs[i] != NULL && weft_tensor_get(outputs[i]) != NULL) {
            continue;
        }
        snprintf(name, sizeof(name), "outputs[%d] of the function", i);
        if (weft_check_tensor(function, name, outputs[i]) == NULL) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

/* In a scope of its own, which hands the outputs to the scope around it. */
static weft_status call_in_scope(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                 weft_tensor *outputs[])
{
    if (!weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    weft_status status = call_function(graph, inputs, scalars, outputs);
    bool kept = weft_scope_end_keeping(status == WEFT_OK ? graph->num_outputs : 0, outputs, NULL, NULL);
    return status == WEFT_OK && !kept ? weft_latest_status() : status;
}

/* Calls the function, its calls being deferred. */
static weft_status call_deferred(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                 weft_tensor *outputs[])
{
    weft_graph_run run;
    weft_run_begin(&run, graph);
    run.inputs = inputs;
    run.deferral.take = weft_run_take;
    const weft_context outer = weft_context_enter(weft_context_deferred(&run.deferral));
    weft_status status = call_in_scope(graph, inputs, scalars, outputs);
    if (graph->freezing != NULL && status == WEFT_OK) {
        weft_frozen_observe(&run, inputs, scalars, outputs);
    } else {
        weft_freezing_miss(graph);
    }
    if (status == WEFT_OK && !weft_run_donate(&run, inputs, outputs)) {
        status = weft_run_fail_memory(&run);
    }
    if (status == WEFT_OK) {
        weft_run_note_outputs(&run, outputs);
    }
    weft_status ended = weft_run_end_segment(&run, NULL);
    weft_context_leave(outer);
    graph->num_newest = run.position;
    if (status == WEFT_OK && ended == WEFT_OK) {
        weft_run_keep_outputs(&run);
    }
    weft_run_free(&run);
    return status == WEFT_OK ? ended : status;
}

/* A frozen graph is replayed without its function, where it can be. */
static weft_status call_or_replay(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                  weft_tensor *outputs[])
{
    weft_status status;
    bool replayed = graph->freezing != NULL && weft_frozen_replay(graph, inputs, scalars, outputs, &status);
    return replayed ? status : call_deferred(graph, inputs, scalars, outputs);
}

/* A function that calls its own graph again and again is stopped before the stack ends. */
enum { MOST_NESTED = 64 };

/* Whether a call of a graph is that of its function. Regions and explanations are about calls where they are made; calls of a
 * graph within a graph belong to that. */
static bool is_called_through(void)
{
    return weft_runtime.context.deferral != NULL || weft_runtime.context.steps != NULL || weft_in_region() || weft_is_explaining();
}

static weft_status call_graph(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                weft_tensor *outputs[])
{
    for (int i = 0; i < graph->num_outputs; i++) {
        outputs[i] = NULL;
    }
    graph->info.runs++;
    graph->info.peak_bytes = graph->info.foreseen_bytes = 0;
    graph->running++;
    bool at_once = is_called_through();
    weft_deferral *implicit = weft_deferral_set_implicit(NULL); /* a graph's calls are not observed */
    weft_status status = at_once ? weft_frozen_check_call(graph, "within a region or another graph") : WEFT_OK;
    if (at_once && status == WEFT_OK) {
        weft_freezing_miss(graph);
    }
    status = status != WEFT_OK        ? status
             : at_once                ? call_in_scope(graph, inputs, scalars, outputs)
                             : call_or_replay(graph, inputs, scalars, outputs);
    weft_deferral_set_implicit(implicit);
    graph->running--;
    if (weft_runtime.graphs->has_run != NULL && status == WEFT_OK && !at_once) {
        status = weft_runtime.graphs->has_run(graph);
    }
    for (int i = 0; i < graph->num_outputs && status != WEFT_OK; i++) {
        outputs[i] = NULL;
    }
    return status;
}

/* Inputs and outputs in one array: inputs[] is to stay as it is while the function writes its outputs. */
static weft_status call_with_copy(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[],
                                  weft_tensor *outputs[])
{
    size_t bytes = (size_t)graph->num_inputs * sizeof(*inputs);
    weft_tensor **copy = malloc(bytes);
    if (copy == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for %d inputs", graph->num_inputs);
    }
    memcpy(copy, inputs, bytes);
    weft_status status = call_graph(graph, copy, scalars, outputs);
    free(copy);
    return status;
}

weft_status weft_graph_call(weft_graph *handle, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_graph_impl *graph = weft_check_graph("weft_graph_call", handle);
    if (graph != NULL && graph->running > 0 && !(is_called_through() && graph->running < MOST_NESTED)) {
        return weft_fail(WEFT_ERR_STATE, "weft_graph_call", "called from within the function of graph %s%s", graph->name,
                         graph->running < MOST_NESTED ? "" : ", too many times");
    }
    if (graph == NULL || (weft_runtime.context.deferral == NULL && !weft_deferral_finish("weft_graph_call"))) {
        return weft_latest_status();
    }
    if (!check_arguments(graph, inputs, scalars, outputs) || !weft_graph_check_donated(graph, inputs) ||
        !weft_graph_check_shapes_of(graph, inputs)) {
        return weft_latest_status();
    }
    double all[WEFT_MAX_FROZEN_SCALARS];
    if (graph->derive != NULL) {
        memcpy(all, scalars, (size_t)graph->num_scalars * sizeof(*scalars));
        graph->derive(graph->derive_context, all, all + graph->num_scalars);
        scalars = all;
    }
    uintptr_t in = (uintptr_t)inputs, out = (uintptr_t)outputs;
    bool overlap = in < out + (size_t)graph->num_outputs * sizeof(*outputs) && out < in + (size_t)graph->num_inputs * sizeof(*inputs);
    return (overlap ? call_with_copy : call_graph)(graph, inputs, scalars, outputs);
}

weft_status weft_graph_donate(weft_graph *handle, int input, bool on)
{
    static const char function[] = "weft_graph_donate";
    weft_graph_impl *graph = check_at_rest(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (input < 0 || input >= graph->num_inputs) {
        return weft_fail(WEFT_ERR_INVALID, function, "input is %d, but graph %s has %d inputs", input, graph->name,
                         graph->num_inputs);
    }
    if (graph->donated == NULL) {
        graph->donated = calloc((size_t)graph->num_inputs, sizeof(bool));
    }
    if (graph->donated == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d inputs", graph->num_inputs);
    }
    graph->donated[input] = on;
    return WEFT_OK;
}

weft_status weft_graph_derive_numbers(weft_graph *handle, weft_graph_numbers_function derive, void *context, int num_derived)
{
    static const char function[] = "weft_graph_derive_numbers";
    weft_graph_impl *graph = check_at_rest(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (num_derived < 0 || (derive == NULL) != (num_derived == 0)) {
        return weft_fail(WEFT_ERR_INVALID, function, "num_derived is %d, and function is %s", num_derived,
                         derive == NULL ? "NULL" : "not NULL");
    }
    if (derive != NULL && num_derived > WEFT_MAX_FROZEN_SCALARS - graph->num_scalars) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "graph %s has %d scalars, expected at most %d with the derived ones",
                         graph->name, graph->num_scalars, WEFT_MAX_FROZEN_SCALARS);
    }
    bool freezes = graph->freezing != NULL;
    struct weft_freezing *again = freezes ? weft_freezing_new() : NULL;
    if (freezes && again == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to freeze a graph");
    }
    weft_graph_unfreeze(graph);
    graph->freezing = again;
    graph->derive = derive;
    graph->derive_context = context;
    graph->num_derived = num_derived;
    return WEFT_OK;
}

weft_status weft_graph_freeze(weft_graph *handle, bool on)
{
    static const char function[] = "weft_graph_freeze";
    weft_graph_impl *graph = check_at_rest(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (on && graph->num_scalars > WEFT_MAX_FROZEN_SCALARS) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "graph %s has %d scalars, expected at most %d", graph->name,
                         graph->num_scalars, WEFT_MAX_FROZEN_SCALARS);
    }
    if (on && graph->freezing == NULL) {
        graph->freezing = weft_freezing_new();
        return graph->freezing == NULL ? weft_fail(WEFT_ERR_NOMEM, function, "no memory to freeze a graph") : WEFT_OK;
    }
    if (!on) {
        weft_graph_unfreeze(graph);
    }
    return WEFT_OK;
}

/* ---- reading --------------------------------------------------------------------------------------------- */

static const weft_graph_trace *newest_trace(const weft_graph_impl *graph, size_t position)
{
    return ((const weft_graph_segment *)graph->segments.items)[position].newest;
}

static void add_counts(weft_graph_info *info, const weft_body_counts *counts)
{
    info->redundant += counts->redundant;
    info->common += counts->common;
    info->dead += counts->dead;
    info->explicit_moves += counts->explicit_moves;
    info->bucketed += counts->bucketed;
    info->buckets += counts->buckets;
}

weft_status weft_graph_get_info(const weft_graph *handle, weft_graph_info *given, size_t size)
{
    static const char function[] = "weft_graph_get_info";
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    weft_graph_info own = graph->info, *info = &own;
    info->failed_guard = weft_graph_failed_guard(graph);
    info->frozen = graph->freezing != NULL && weft_freezing_is_ready(graph->freezing, &info->not_frozen);
    info->not_frozen = info->not_frozen == NULL ? "" : info->not_frozen;
    for (size_t i = 0; i < graph->num_newest; i++) {
        const weft_graph_trace *trace = newest_trace(graph, i);
        info->num_calls += (int)trace->nodes.count;
        info->digest = weft_digest_add(info->digest, trace->digest);
        info->num_body_calls += (int)(trace->executed == NULL ? trace : trace->executed->trace)->nodes.count;
        if (trace->executed != NULL) {
            add_counts(info, &trace->executed->counts);
        }
    }
    return weft_give_struct(function, "info", given, size, info, sizeof(*info)) ? WEFT_OK : weft_latest_status();
}

/* A trace of an earlier call says nothing about these sizes. */
static void print_relations(const weft_graph_impl *graph, FILE *file)
{
    for (size_t i = 0; i < graph->num_newest && graph->shapes != NULL; i++) {
        const weft_graph_segment *segment = (const weft_graph_segment *)graph->segments.items + i;
        if (segment->newest->inputs == graph->inputs_hash) {
            weft_graph_print_derived(graph, segment->newest, file);
        }
    }
}

static weft_status print_traces(const weft_graph_impl *graph, bool bodies, FILE *file)
{
    fprintf(file, "graph %s:\n", graph->name);
    weft_graph_print_shapes(graph, file);
    print_relations(graph, file);
    for (size_t i = 0; i < graph->num_newest; i++) {
        const weft_graph_trace *trace = newest_trace(graph, i);
        if (i > 0) {
            const char *by = ((const weft_graph_segment *)graph->segments.items)[i - 1].ended_by;
            fprintf(file, "  ---- values are read by %s ----\n", by);
        }
        bool body = bodies && trace->executed != NULL;
        weft_trace_print(body ? trace->executed->trace : trace, body ? NULL : weft_frozen_add_numbers, file);
    }
    if (!bodies) {
        weft_graph_print_outputs(graph, file);
    }
    return WEFT_OK;
}

static weft_status print_dot(const weft_graph_impl *graph, FILE *file)
{
    fprintf(file, "digraph \"");
    for (const char *c = graph->name; *c != '\0'; c++) {
        fprintf(file, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fprintf(file, "\" {\n");
    for (size_t i = 0; i < graph->num_newest; i++) {
        weft_trace_print_dot(((weft_graph_segment *)graph->segments.items)[i].newest, i, file);
    }
    fprintf(file, "}\n");
    return WEFT_OK;
}

weft_status weft_graph_print(const weft_graph *handle, weft_graph_format format, FILE *file)
{
    static const char function[] = "weft_graph_print";
    const weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    if (format != WEFT_GRAPH_RECORDED && format != WEFT_GRAPH_BODY && format != WEFT_GRAPH_DOT) {
        return weft_fail(WEFT_ERR_INVALID, function, "format is %d, which is no weft_graph_format", (int)format);
    }
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    return format == WEFT_GRAPH_DOT ? print_dot(graph, file) : print_traces(graph, format == WEFT_GRAPH_BODY, file);
}
