/* A body is built: the passes, in their order, then clusters, memory and the order of calls. */
#include <stdlib.h>
#include <string.h>

#include "graph/fuse/cluster.h"
#include "graph/fuse/lifetimes.h"
#include "graph/passes/body.h"
#include "graph/passes/order.h"
#include "graph/passes/pass.h"
#include "graph/passes/pass_expand.h"
#include "graph/shard/shard.h"
#include "tensor/state.h"

/* In the order in which they are made. Clusters are built over the body that these leave. */
static const struct {
    unsigned passes; /* weft_graph_pass: if one of them is on */
    weft_graph_pass_function *run;
} passes[] = {
    { WEFT_PASS_DEAD | WEFT_PASS_BUCKET, weft_pass_unread },
    { WEFT_PASS_REDUNDANT | WEFT_PASS_BUCKET, weft_pass_moves },
    { WEFT_PASS_REDUNDANT, weft_pass_redundant },
    { WEFT_PASS_COMMON, weft_pass_common },
    { WEFT_PASS_DEAD, weft_pass_dead },
    { WEFT_PASS_FUSE, weft_pass_stencil },
    { WEFT_PASS_FUSE | WEFT_PASS_CLUSTER, weft_pass_expand },
    { WEFT_PASS_BUCKET, weft_pass_bucket },
};

static bool has_passes(unsigned chosen)
{
    bool any = false;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(passes) && !any; i++) {
        any = (chosen & passes[i].passes) != 0;
    }
    return any;
}

/* A copy of the recorded trace, which shares its calls. NULL: no memory. */
static weft_graph_trace *copy_trace(const weft_graph_trace *recorded, const bool wanted[])
{
    weft_graph_trace *copy = weft_trace_new();
    bool done = copy != NULL;
    for (size_t i = 0; i < recorded->values.count && done; i++) {
        done = weft_trace_add_like(copy, weft_trace_value(recorded, (int)i));
        if (done) {
            weft_trace_value(copy, (int)i)->is_promised = wanted[i];
        }
    }
    for (size_t i = 0; i < recorded->nodes.count && done; i++) {
        done = weft_trace_share_node(copy, recorded, i);
    }
    if (!done) {
        weft_trace_free(copy);
        return NULL;
    }
    weft_trace_finish(copy);
    return copy;
}

static bool run_passes(weft_graph_body *body)
{
    body->trace = copy_trace(body->recorded, body->wanted);
    bool done = body->trace != NULL && weft_pass_shard(body) && weft_body_apply(body);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(passes) && done; i++) {
        if ((body->passes & passes[i].passes) != 0) {
            done = passes[i].run(body) && weft_body_apply(body);
        }
    }
    return done;
}

/* A digest of everything that messages depend on. */
static uint64_t digest_of(const weft_graph_body *body)
{
    uint64_t digest = weft_trace_digest(body->trace, NULL) ^ body->passes;
    return weft_hash_bytes(body->wanted, body->recorded->values.count * sizeof(bool), digest);
}

static bool make(weft_graph_body *body, const bool wanted[])
{
    size_t count = body->recorded->values.count;
    body->wanted = malloc((count + 1) * sizeof(bool));
    body->values = malloc((count + 1) * sizeof(int));
    if (body->wanted == NULL || body->values == NULL) {
        return false;
    }
    memcpy(body->wanted, wanted, count * sizeof(bool));
    for (size_t i = 0; i < count; i++) {
        body->values[i] = (int)i;
    }
    bool own = has_passes(body->passes) || body->recorded->sharding != NULL;
    if (own && !run_passes(body)) {
        return false;
    }
    body->trace = own ? body->trace : (weft_graph_trace *)body->recorded;
    size_t num_values = body->trace->values.count;
    body->is_promised = malloc((num_values + 1) * sizeof(bool));
    for (size_t i = 0; i < num_values && body->is_promised != NULL; i++) {
        body->is_promised[i] = own ? weft_trace_value(body->trace, (int)i)->is_promised : wanted[i];
    }
    body->digest = digest_of(body);
    body->bytes = sizeof(*body) + count * (sizeof(bool) + sizeof(int)) + num_values + (own ? body->trace->bytes : 0);
    return body->is_promised != NULL;
}

/* False with the error kept. */
static bool find_memory(weft_graph_body *body)
{
    size_t bytes = (body->trace->values.count + 1) * sizeof(int);
    bool takes = (body->passes & WEFT_PASS_MEMORY) != 0, done = true;
    if (takes) {
        body->takes = malloc(bytes);
        done = body->takes != NULL;
        body->bytes += bytes;
    }
    if (takes && done) {
        memset(body->takes, -1, bytes);
    }
    if (done) {
        body->peak_bytes = weft_trace_peak(body->trace, body->is_promised, body->clusters, body->takes);
        done = body->peak_bytes >= 0;
    }
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for passes over captured calls");
    }
    return done;
}

/* False with the error kept. */
static bool find_order(weft_graph_body *body)
{
    if (!(body->passes & WEFT_PASS_ORDER)) {
        return true;
    }
    bool done = weft_pass_order(body);
    body->bytes += body->places == NULL ? 0 : body->trace->nodes.count * sizeof(*body->places);
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for passes over captured calls");
    }
    return done;
}

weft_graph_body *weft_body_build(const weft_graph_trace *recorded, const bool wanted[], const weft_deferred_call calls[],
                                 unsigned chosen)
{
    weft_graph_body *body = calloc(1, sizeof(*body));
    bool done = body != NULL;
    if (done) {
        body->recorded = recorded;
        body->passes = chosen;
        body->calls = calls;
        done = make(body, wanted);
    }
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for passes over captured calls");
    } else if ((chosen & (WEFT_PASS_CLUSTER | WEFT_PASS_FUSE)) != 0) {
        body->clusters = weft_clusters_build("weft_graph_call", body->trace, body->is_promised, chosen);
        done = body->clusters != NULL;
    }
    if (done) {
        done = find_memory(body) && find_order(body);
    }
    if (!done) {
        weft_body_free(body);
        return NULL;
    }
    body->calls = NULL;
    return body;
}
