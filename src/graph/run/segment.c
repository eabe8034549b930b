/* Segments of a run: which trace one is compared with, and what becomes of it at its end. */
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "comm/check_spmd.h"
#include "graph/run/graph.h"
#include "tensor/promised.h"
#include "tensor/state.h"

weft_status weft_run_fail_memory(weft_graph_run *run)
{
    run->failed = WEFT_ERR_NOMEM;
    return weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for a call of graph %s", run->graph->name);
}

bool weft_run_begin_capture(weft_graph_run *run, int former_values)
{
    if (run->captured == NULL) {
        run->captured = run->replayed == NULL
                            ? weft_trace_new()
                            : weft_trace_begin_like(run->replayed, run->calls.count, former_values);
        run->replayed = NULL;
    }
    return run->captured != NULL;
}

/* Numbers of an ended segment mean nothing. */
static void begin_segment(weft_graph_run *run)
{
    run->deferral.number = ++weft_runtime.graphs->segments;
    run->num_values = 0;
    run->calls.count = 0;
    run->derived.count = 0;
    run->captured = NULL;
    run->replayed = NULL;
    if (run->position < run->graph->segments.count) {
        run->replayed = weft_segment_find(weft_run_segment(run), run->graph->inputs_hash);
    }
}

static void release_bound(weft_graph_run *run)
{
    for (size_t i = 0; i < run->bound.count; i++) {
        if (*weft_run_bound(run, (int)i) != NULL) {
            weft_tensor_unreference(*weft_run_bound(run, (int)i));
        }
    }
    run->bound.count = 0;
}

static weft_graph_segment *obtain_segment(weft_graph_run *run)
{
    if (run->position == run->graph->segments.count) {
        weft_graph_segment *added = weft_vec_push(&run->graph->segments, sizeof(*added));
        if (added == NULL) {
            return NULL;
        }
        memset(added, 0, sizeof(*added));
    }
    return weft_run_segment(run);
}

static weft_status compare_captured(const weft_graph_run *run, const weft_graph_trace *trace)
{
    int process = 0;
    weft_status status = weft_run_tell(WEFT_RUN_CAPTURES) ? weft_run_compare((int64_t)trace->digest, &process) : weft_latest_status();
    if (status == WEFT_OK && process > 0) {
        status = weft_fail(WEFT_ERR_MISMATCH, "weft_graph_call",
                           "graph %s: process %d has captured other calls than process 0", run->graph->name, process);
    }
    return status;
}

/* All processes have captured the same calls: the first trace of a template is compared, which BLOCKS. */
static weft_status check_same(const weft_graph_run *run, weft_graph_trace *trace)
{
    trace->digest = weft_trace_digest(trace, &trace->template);
    if (run->alone) {
        return WEFT_OK;
    }
    uint64_t template = weft_digest_add(trace->template, run->position);
    if (weft_graph_has_agreed(run->graph, template)) {
        return weft_run_tell(trace->digest) ? WEFT_OK : weft_latest_status();
    }
    weft_status status = compare_captured(run, trace);
    if (status == WEFT_OK) {
        run->graph->info.templates++;
        status = weft_graph_agree(run->graph, template) ? WEFT_OK
                                                         : weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for a template");
    }
    return status;
}

/* Keeps the captured trace. A status with the error kept. */
static weft_status keep_captured(weft_graph_run *run)
{
    weft_graph_segment *segment = obtain_segment(run);
    weft_trace_finish(run->captured);
    if (segment == NULL || !weft_trace_find_prefixes(run->captured)) {
        return weft_run_fail_memory(run);
    }
    bool added = weft_segment_add(run->graph, segment, run->captured);
    run->replayed = run->captured;
    run->captured = NULL;
    if (!added) {
        return weft_run_fail_memory(run);
    }
    run->graph->info.captures++;
    return WEFT_OK;
}

const char *weft_graph_failed_guard(weft_graph_impl *graph)
{
    const weft_failed_guard *guard = &graph->guard;
    size_t used = strlen(graph->failed_guard), size = sizeof(graph->failed_guard) - used;
    char before[200], now[200];
    if (guard->before != NULL) {
        snprintf(graph->failed_guard + used, size, "%s, is %s", weft_layout_format(guard->before, before, sizeof(before)),
                 weft_layout_format(guard->now, now, sizeof(now)));
    }
    used = strlen(graph->failed_guard);
    if (guard->here != NULL) {
        snprintf(graph->failed_guard + used, sizeof(graph->failed_guard) - used, " at %s:%d", guard->here, guard->here_line);
    }
    graph->guard = (weft_failed_guard){ .before = NULL };
    return graph->failed_guard;
}

/* The run was shorter than the replayed trace: its calls are a trace of their own. */
static weft_status capture_end(weft_graph_run *run)
{
    weft_graph_impl *graph = run->graph;
    const weft_graph_segment *segment = weft_run_segment(run);
    for (weft_graph_trace *trace = segment->newest; trace != NULL; trace = trace->older) {
        if (trace->nodes.count == run->calls.count && weft_trace_begins_like(trace, run->replayed, run->calls.count)) {
            run->replayed = trace;
            return WEFT_OK;
        }
    }
    graph->info.guards_failed++;
    graph->guard = (weft_failed_guard){ .before = NULL };
    snprintf(graph->failed_guard, sizeof(graph->failed_guard), "call %zu: recorded %s, came the end", run->calls.count,
             weft_trace_node(run->replayed, run->calls.count)->call->function);
    return weft_run_begin_capture(run, run->num_values) ? WEFT_OK : weft_run_fail_memory(run);
}

static weft_status finish_trace(weft_graph_run *run, weft_graph_trace **trace)
{
    weft_status status = WEFT_OK;
    if (run->replayed != NULL && run->calls.count < run->replayed->nodes.count) {
        status = capture_end(run);
    }
    if (status == WEFT_OK && run->captured != NULL) {
        status = check_same(run, run->captured);
        status = status == WEFT_OK ? keep_captured(run) : status;
    } else {
        run->graph->info.replays += status == WEFT_OK;
    }
    if (status == WEFT_OK) {
        *trace = run->replayed;
        weft_segment_use(weft_run_segment(run), *trace, run->graph->inputs_hash, run->graph->info.runs);
    }
    return status;
}

weft_status weft_run_end_segment(weft_graph_run *run, const char *function)
{
    weft_graph_trace *trace = NULL;
    weft_status status = run->failed;
    if (run->calls.count > 0 && status == WEFT_OK) {
        const weft_context outer = weft_context_enter(weft_context_undeferred());
        status = finish_trace(run, &trace);
        status = status == WEFT_OK && !weft_run_take_donated(run) ? weft_latest_status() : status;
        status = status == WEFT_OK ? weft_run_execute(run, trace) : status;
        weft_context_leave(outer);
        if (trace != NULL) {
            weft_run_segment(run)->ended_by = function;
            run->position++;
        }
    } else if (status == WEFT_OK && !weft_run_take_donated(run)) {
        status = weft_latest_status();
    }
    if (status != WEFT_OK) {
        run->failed = status;
        weft_promised_break_all();
    }
    weft_graph_trace_free(run->captured);
    release_bound(run);
    begin_segment(run);
    return status;
}

static void note(weft_deferral *self, const char *function)
{
    weft_graph_run *run = (weft_graph_run *)self;
    run->at_once = run->at_once == NULL ? function : run->at_once;
}

static weft_status finish(weft_deferral *self, const char *function)
{
    note(self, function);
    return weft_run_end_segment((weft_graph_run *)self, function);
}

void weft_run_begin(weft_graph_run *run, weft_graph_impl *graph)
{
    *run = (weft_graph_run){ .deferral = { .finish = finish, .note = note }, .graph = graph, .bound = graph->spare_bound,
                             .calls = graph->spare_calls, .num_meshes = weft_runtime.mesh_stack.count };
    graph->spare_bound = graph->spare_calls = (weft_vec){ 0 };
    begin_segment(run);
}

void weft_run_free(weft_graph_run *run)
{
    weft_graph_trace_free(run->captured);
    release_bound(run);
    weft_vec_free(&run->graph->spare_bound);
    weft_vec_free(&run->graph->spare_calls);
    run->graph->spare_bound = run->bound;
    run->graph->spare_calls = run->calls;
    weft_vec_free(&run->derived);
    weft_vec_free(&run->donated);
}
