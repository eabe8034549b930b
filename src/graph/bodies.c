/* Bodies of a run's traces: which one is executed, the same on all processes. */
#include <string.h>

#include "autoshard/shard.h"
#include "comm/check_spmd.h"
#include "dispatch/cache.h"
#include "graph/graph.h"
#include "passes/body.h"

void weft_graph_trace_free(weft_graph_trace *trace)
{
    if (trace != NULL) {
        weft_bodies_drop(trace);
        weft_trace_sharding_free(trace->sharding);
    }
    weft_trace_free(trace);
}

/* All processes have built the same body. BLOCKS. */
static weft_status check_same(const weft_graph_run *run, const weft_graph_body *body)
{
    static const char function[] = "weft_graph_call";
    int process = 0;
    weft_status status = weft_run_compare((int64_t)body->digest, &process);
    if (status == WEFT_OK && process > 0) {
        status = weft_fail(WEFT_ERR_MISMATCH, function,
                           "graph %s: process %d needs other values of its calls than process 0, or has other passes: have "
                           "processes released different tensors?",
                           run->graph->name, process);
    }
    return status;
}

/* Messages from here on match those of processes alone that execute the same body. False with the error kept. */
static bool tell(const weft_graph_body *body)
{
    return weft_check_spmd_number("weft_graph_call", body->digest, true);
}

static weft_status build(weft_graph_run *run, weft_graph_trace *trace, const bool wanted[], weft_graph_body **built)
{
    weft_graph_body *body = weft_body_build(trace, wanted, run->calls.items, run->graph->passes);
    /* The first body is every process's first one: a difference harms nothing. A process that builds another one alone
     * waits for messages of the others, who then find that its calls differ. */
    bool first = trace->num_bodies == 0, told = body != NULL && (first || tell(body));
    weft_status status = told ? check_same(run, body) : weft_latest_status();
    status = status == WEFT_OK && first && !tell(body) ? weft_latest_status() : status;
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
    trace->run_number = run->number;
    if (trace->runs++ == 0) {
        return WEFT_OK;
    }
    /* WEFT_CHECK compares calls, and forced layouts are for single calls. */
    if ((run->graph->passes == 0 && trace->sharding == NULL) || weft_runtime.check || weft_runtime.replaced.count > 0 ||
        weft_forced()->active) {
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    *body = find(trace, wanted, run->calls.items);
    if (*body != NULL) {
        status = tell(*body) ? WEFT_OK : weft_latest_status();
    } else if (trace->num_bodies < WEFT_MAX_BODIES) {
        status = build(run, trace, wanted, body);
    }
    trace->executed = *body;
    return status;
}
