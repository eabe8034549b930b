/* Bodies of a run's traces: which one is executed, the same on all processes. */
#include <string.h>

#include "dispatch/cache.h"
#include "graph/passes/body.h"
#include "graph/run/graph.h"
#include "graph/shard/shard.h"

void weft_graph_trace_free(weft_graph_trace *trace)
{
    if (trace != NULL) {
        weft_bodies_drop(trace);
        weft_frozen_free(trace->frozen);
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

/* BLOCKS. */
static weft_status compare(const weft_graph_run *run, uint64_t digest)
{
    int process = 0;
    weft_status status = weft_run_tell(WEFT_RUN_BUILDS) ? weft_run_compare((int64_t)digest, &process) : weft_latest_status();
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

static weft_status tell(const weft_graph_run *run, uint64_t digest)
{
    return run->alone || weft_run_tell(digest) ? WEFT_OK : weft_latest_status();
}

/* All processes execute the same in the trace's place: a body, or the trace (NULL), with this digest. They compare that once for
 * each template, passes and promised values, and BLOCK; else they tell it, so that messages from here on match those of
 * processes alone that execute the same. */
static weft_status check_same(const weft_graph_run *run, const weft_graph_trace *trace, const weft_graph_body *body, uint64_t digest)
{
    if (run->alone) {
        return WEFT_OK;
    }
    uint64_t what = weft_digest_add(trace->template, (uint64_t)run->position << 32 | (body == NULL ? 0 : body->passes) | 1U << 31);
    what = body == NULL ? what : weft_hash_bytes(body->wanted, trace->values.count * sizeof(bool), what);
    what = trace->sharding == NULL ? what : weft_digest_add(what, 1);
    if (weft_graph_has_agreed(run->graph, what)) {
        return tell(run, digest);
    }
    weft_status status = compare(run, digest);
    return status != WEFT_OK || weft_graph_agree(run->graph, what)
               ? status
               : weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for a body");
}

static weft_status build(weft_graph_run *run, weft_graph_trace *trace, const bool wanted[], weft_graph_body **built)
{
    weft_graph_body *body = weft_body_build(trace, wanted, run->calls.items, run->graph->passes);
    weft_status status = body == NULL ? weft_latest_status() : check_same(run, trace, body, body->digest);
    if (status != WEFT_OK) {
        weft_body_free(body);
        return status;
    }
    trace->bodies[trace->num_bodies++] = *built = body;
    trace->bytes += body->bytes;
    run->graph->info.bytes += body->bytes;
    return WEFT_OK;
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
        return check_same(run, trace, NULL, trace->digest);
    }
    weft_status status = WEFT_OK;
    *body = find(trace, wanted, run->calls.items);
    if (*body != NULL) {
        status = tell(run, (*body)->digest);
    } else if (trace->num_bodies < WEFT_MAX_BODIES) {
        status = build(run, trace, wanted, body);
    } else {
        status = tell(run, trace->digest);
    }
    trace->executed = *body;
    return status;
}
