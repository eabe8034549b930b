/* Bodies: building one by passes, and whether it fits a run. */
#include "passes/body.h"

#include <stdlib.h>
#include <string.h>

#include "autoshard/shard.h"
#include "call/interposer.h"
#include "clusters/cluster.h"
#include "clusters/lifetimes.h"
#include "dispatch/cache.h"
#include "passes/bucket.h"
#include "passes/order.h"
#include "passes/pass.h"
#include "passes/pass_expand.h"
#include "tensor/state.h"

/* ---- changes --------------------------------------------------------------------------------------------- */

typedef struct insertion {
    size_t before, number; /* number: of the insertion */
    weft_graph_node node;
} insertion;

int weft_body_add_value(weft_graph_body *body, const weft_layout *layout)
{
    weft_graph_trace *trace = body->trace;
    if (!weft_trace_add_value(trace, layout, false)) {
        return -1;
    }
    int number = (int)trace->values.count - 1;
    weft_trace_value(trace, number)->recorded = -1;
    return number;
}

/* A call on tensors without data is not executed: neither are those that read what it would make. */
static bool is_without_data(const weft_graph_body *body, const weft_call *call, const int inputs[])
{
    bool without = weft_runtime.world == WEFT_WORLD_FAKE;
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        without |= inputs[i] >= 0 && weft_trace_value(body->trace, inputs[i])->is_fake;
    }
    return without;
}

bool weft_body_insert(weft_graph_body *body, size_t before, const weft_call *call, const int inputs[], int num_outputs,
                      const int outputs[])
{
    insertion added = { .before = before, .number = body->inserted.count };
    if (!weft_node_make(&added.node, call, inputs, num_outputs, outputs)) {
        return false;
    }
    added.node.implicit = false;
    added.node.without_data = is_without_data(body, call, inputs);
    for (int i = 0; i < num_outputs && added.node.without_data; i++) {
        if (outputs[i] >= 0) {
            weft_trace_value(body->trace, outputs[i])->is_fake = true;
        }
    }
    insertion *place = weft_vec_push(&body->inserted, sizeof(added));
    if (place == NULL) {
        weft_node_free(&added.node);
        return false;
    }
    *place = added;
    body->trace->bytes += weft_node_bytes(&added.node);
    return true;
}

bool weft_body_insert_step(weft_graph_body *body, size_t before, int source, const weft_call *call, const int inputs[],
                           int num_outputs, const int outputs[])
{
    if (!weft_body_insert(body, before, call, inputs, num_outputs, outputs)) {
        return false;
    }
    weft_graph_node *node = &((insertion *)body->inserted.items)[body->inserted.count - 1].node;
    node->source = source;
    node->is_step = true;
    return true;
}

bool weft_body_fix_scalars(weft_graph_body *body, int source)
{
    weft_fixed_scalars *fixed = weft_vec_push(&body->fixed_scalars, sizeof(*fixed));
    if (fixed != NULL) {
        fixed->call = source;
        memcpy(fixed->scalars, body->calls[source].scalars, sizeof(fixed->scalars));
    }
    return fixed != NULL;
}

bool weft_body_move(weft_graph_body *body, size_t number, size_t before)
{
    weft_graph_node *node = weft_trace_node(body->trace, number);
    insertion *place = weft_vec_push(&body->inserted, sizeof(*place));
    if (place == NULL) {
        return false;
    }
    *place = (insertion){ .before = before, .number = body->inserted.count - 1, .node = *node };
    *node = (weft_graph_node){ .removed = true };
    return true;
}

bool weft_body_add_bucket(weft_graph_body *body, struct weft_bucket *bucket)
{
    weft_bucket **place = weft_vec_push(&body->buckets, sizeof(*place));
    if (place == NULL) {
        weft_bucket_release(bucket);
        return false;
    }
    *place = bucket;
    return true;
}

void weft_body_replace(weft_graph_body *body, int value, int by)
{
    weft_graph_value *replaced = weft_trace_value(body->trace, value);
    replaced->replaced = by;
    weft_trace_value(body->trace, by)->is_promised |= replaced->is_promised;
}

static int compare_insertions(const void *a, const void *b)
{
    const insertion *one = a, *other = b;
    if (one->before != other->before) {
        return one->before < other->before ? -1 : 1;
    }
    return one->number < other->number ? -1 : 1;
}

/* The nodes that are left and the inserted ones, in their order. False: no memory. */
static bool merge_nodes(weft_graph_body *body)
{
    weft_vec merged = { 0 };
    weft_vec *nodes = &body->trace->nodes;
    insertion *inserted = body->inserted.items;
    if (!weft_vec_reserve(&merged, nodes->count + body->inserted.count, sizeof(weft_graph_node))) {
        return false;
    }
    if (body->inserted.count > 1) {
        qsort(inserted, body->inserted.count, sizeof(*inserted), compare_insertions);
    }
    weft_graph_node *to = merged.items;
    size_t next = 0;
    for (size_t i = 0; i <= nodes->count; i++) {
        while (next < body->inserted.count && inserted[next].before == i) {
            to[merged.count++] = inserted[next++].node;
        }
        weft_graph_node *node = i < nodes->count ? weft_trace_node(body->trace, i) : NULL;
        if (node != NULL && node->removed) {
            weft_node_free(node);
        } else if (node != NULL) {
            to[merged.count++] = *node;
        }
    }
    weft_vec_free(nodes);
    *nodes = merged;
    body->inserted.count = 0;
    return true;
}

bool weft_body_apply(weft_graph_body *body)
{
    weft_graph_trace *trace = body->trace;
    if (!merge_nodes(body)) {
        return false;
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_inputs; k++) {
            node->inputs[k] = weft_body_value(body, node->inputs[k]);
        }
    }
    for (size_t i = 0; i < body->recorded->values.count; i++) {
        body->values[i] = weft_body_value(body, body->values[i]);
        if (body->values[i] >= 0) {
            weft_trace_value(trace, body->values[i])->is_promised |= body->wanted[i];
        }
    }
    for (size_t i = 0; i < trace->values.count; i++) {
        weft_trace_value(trace, (int)i)->last_use = -1;
        weft_trace_value(trace, (int)i)->replaced = -1;
    }
    weft_trace_finish(trace);
    return true;
}

bool weft_node_changes_inputs(const weft_graph_node *node)
{
    bool changes = false;
    for (int i = 0; i < node->num_outputs && !changes; i++) {
        changes = weft_call_changes(node->call, i);
    }
    return changes;
}

/* ---- scalars --------------------------------------------------------------------------------------------- */

static bool equal_scalars(const weft_deferred_call calls[], int one, int other)
{
    return memcmp(calls[one].scalars, calls[other].scalars, sizeof(calls[one].scalars)) == 0;
}

bool weft_body_has_equal_scalars(const weft_graph_body *body, const weft_graph_node *a, const weft_graph_node *b)
{
    bool may = a->source >= 0 && b->source >= 0 && !weft_trace_node(body->recorded, (size_t)b->source)->scalars_differ;
    return may && equal_scalars(body->calls, a->source, b->source);
}

bool weft_body_add_equal_scalars(weft_graph_body *body, int one, int other)
{
    weft_equal_scalars *added = weft_vec_push(&body->equal_scalars, sizeof(*added));
    if (added != NULL) {
        *added = (weft_equal_scalars){ one, other };
    }
    return added != NULL;
}

/* ---- building -------------------------------------------------------------------------------------------- */

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
        const weft_graph_value *value = weft_trace_value(recorded, (int)i);
        done = weft_trace_add_value(copy, value->layout, value->is_input);
        if (done) {
            weft_graph_value *added = weft_trace_value(copy, (int)i);
            added->is_fake = value->is_fake;
            added->is_memory = value->is_memory;
            added->is_promised = wanted[i];
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
    uint64_t digest = weft_trace_digest(body->trace) ^ body->passes;
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
        body->clusters = weft_clusters_build(body->trace, body->is_promised, chosen);
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

void weft_body_free(weft_graph_body *body)
{
    if (body == NULL) {
        return;
    }
    weft_clusters_free(body->clusters);
    insertion *left = body->inserted.items;
    for (size_t i = 0; i < body->inserted.count; i++) {
        weft_node_free(&left[i].node);
    }
    weft_vec_free(&body->inserted);
    weft_vec_free(&body->fixed_scalars);
    weft_vec_free(&body->equal_scalars);
    for (size_t i = 0; i < body->buckets.count; i++) {
        weft_bucket_release(((weft_bucket **)body->buckets.items)[i]);
    }
    weft_vec_free(&body->buckets);
    if (body->trace != body->recorded) {
        weft_trace_free(body->trace);
    }
    free(body->wanted);
    free(body->takes);
    free(body->places);
    free(body->values);
    free(body->is_promised);
    free(body);
}

void weft_body_meet_layouts(const weft_graph_body *body)
{
    weft_trace_meet_layouts(body->trace);
    for (size_t i = 0; i < body->buckets.count; i++) {
        weft_bucket_meet_layouts(((weft_bucket **)body->buckets.items)[i]);
    }
}

void weft_bodies_drop(weft_graph_trace *trace)
{
    for (int i = 0; i < trace->num_bodies; i++) {
        trace->bytes -= trace->bodies[i]->bytes;
        weft_body_free(trace->bodies[i]);
    }
    trace->num_bodies = 0;
    trace->executed = NULL;
    trace->compared = false;
}

bool weft_body_fits(const weft_graph_body *body, const weft_deferred_call calls[])
{
    bool has = true;
    const weft_fixed_scalars *fixed = body->fixed_scalars.items;
    for (size_t i = 0; i < body->fixed_scalars.count; i++) {
        bool same = memcmp(fixed[i].scalars, calls[fixed[i].call].scalars, sizeof(fixed[i].scalars)) == 0;
        weft_trace_node(body->recorded, (size_t)fixed[i].call)->scalars_vary |= !same;
        has = has && same;
    }
    const weft_equal_scalars *pairs = body->equal_scalars.items;
    for (size_t i = 0; i < body->equal_scalars.count; i++) {
        bool same = equal_scalars(calls, pairs[i].one, pairs[i].other);
        weft_trace_node(body->recorded, (size_t)pairs[i].other)->scalars_differ |= !same;
        has = has && same;
    }
    return has;
}
