/* Bodies of a run's traces: which one is executed, the same on all processes. */
#include <string.h>

#include "comm/check_spmd.h"
#include "dispatch/cache.h"
#include "graph/passes/body.h"
#include "graph/run/graph.h"
#include "graph/shard/shard.h"

void weft_graph_trace_free(weft_graph_trace *trace)
{
    if (trace != NULL) {
        weft_bodies_drop(trace);
        weft_trace_sharding_free(trace->sharding);
    }
    weft_trace_free(trace);
}

void weft_graph_trace_meet_layouts(const weft_graph_trace *trace)
{
    weft_trace_meet_layouts(trace);
    for (int i = 0; i < trace->num_bodies; i++) {
        weft_body_meet_layouts(trace->bodies[i]);
    }
    if (trace->sharding != NULL) {
        weft_trace_sharding_meet_layouts(trace->sharding, trace);
    }
}

static weft_status fail_differs(const weft_graph_run *run, int process, const char *what)
{
    return weft_fail(WEFT_ERR_MISMATCH, "weft_graph_call", "graph %s: process %d %s", run->graph->name, process, what);
}

/* All processes execute the same in the trace's place: this body, or the trace (NULL). BLOCKS. */
static weft_status check_same(const weft_graph_run *run, weft_graph_trace *trace, const weft_graph_body *body)
{
    int process = 0;
    weft_status status = weft_run_compare(body == NULL ? 0 : (int64_t)body->digest, &process);
    trace->compared = status == WEFT_OK && process == 0;
    if (status != WEFT_OK || process == 0) {
        return status;
    }
    int other_passes = 0; /* all have found a difference, and look for its cause */
    status = weft_run_compare(run->graph->passes, &other_passes);
    return status != WEFT_OK  ? status
           : other_passes > 0 ? fail_differs(run, other_passes,
                                             "has other passes than process 0: weft_graph_set_passes() and WEFT_GRAPH_PASSES "
                                             "must be the same on all processes")
                              : fail_differs(run, process,
                                             "needs other values of its calls than process 0: have processes released different "
                                             "tensors?");
}

/* Messages from here on match those of processes alone that execute the same. False with the error kept. */
static bool tell(uint64_t digest)
{
    return weft_check_spmd_number("weft_graph_call", digest, true);
}

static bool tell_recorded(weft_graph_trace *trace)
{
    if (weft_runtime.comm != NULL && trace->digest == 0) {
        trace->digest = weft_trace_digest(trace);
    }
    return tell(trace->digest);
}

static weft_status build(weft_graph_run *run, weft_graph_trace *trace, const bool wanted[], weft_graph_body **built)
{
    weft_graph_body *body = weft_body_build(trace, wanted, run->calls.items, run->graph->passes);
    /* The first body is every process's first one: a difference harms nothing. A process that builds another one alone
     * waits for messages of the others, who then find that its calls differ. */
    bool first = trace->num_bodies == 0;
    bool told = body != NULL && (first ? weft_run_tell(WEFT_RUN_BUILDS) : tell(body->digest));
    weft_status status = told ? check_same(run, trace, body) : weft_latest_status();
    if (status != WEFT_OK) {
        weft_body_free(body);
        return status;
    }
    trace->bodies[trace->num_bodies++] = *built = body;
    trace->bytes += body->bytes;
    run->graph->info.bytes += body->bytes;
    return WEFT_OK;
}

/* The trace is executed as it was recorded. The first time since the choice of passes, processes compare that. */
static weft_status execute_recorded(const weft_graph_run *run, weft_graph_trace *trace)
{
    bool first = !trace->compared;
    bool told = first ? weft_run_tell(WEFT_RUN_BUILDS) : tell_recorded(trace);
    weft_status status = told ? WEFT_OK : weft_latest_status();
    return status == WEFT_OK && first ? check_same(run, trace, NULL) : status;
}

/* The body for these values and scalars; NULL: none is known. */
static weft_graph_body *find(const weft_graph_trace *trace, const bool wanted[], const weft_deferred_call calls[])
{
    for (int i = 0; i < trace->num_bodies; i++) {
        if (memcmp(trace->bodies[i]->wanted, wanted, trace->values.count * sizeof(bool)) == 0 &&
            weft_body_fits(trace->bodies[i], calls)) {
            return trace->bodies[i];
        }
    }
    return NULL;
}

weft_status weft_body_obtain(weft_graph_run *run, weft_graph_trace *trace, const bool wanted[], weft_graph_body **body)
{
    *body = trace->executed = NULL;
    trace->run_number = run->deferral.number;
    if (trace->runs++ == 0) {
        return WEFT_OK;
    }
    /* WEFT_CHECK compares calls, and forced layouts are for single calls. */
    if ((run->graph->passes == 0 && trace->sharding == NULL) || weft_runtime.check || weft_runtime.replaced.count > 0 ||
        weft_forced()->active) {
        return execute_recorded(run, trace);
    }
    weft_status status = WEFT_OK;
    *body = find(trace, wanted, run->calls.items);
    if (*body != NULL) {
        status = tell((*body)->digest) ? WEFT_OK : weft_latest_status();
    } else if (trace->num_bodies < WEFT_MAX_BODIES) {
        status = build(run, trace, wanted, body);
    } else {
        status = tell_recorded(trace) ? WEFT_OK : weft_latest_status();
    }
    trace->executed = *body;
    return status;
}
