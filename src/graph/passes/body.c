/* Bodies: how passes change one, and whether it fits a run. */
#include "graph/passes/body.h"

#include <stdlib.h>
#include <string.h>

#include "call/interposer.h"
#include "dispatch/cache.h"
#include "graph/fuse/cluster.h"
#include "graph/fuse/lifetimes.h"
#include "graph/passes/bucket.h"
#include "graph/passes/order.h"
#include "graph/passes/pass.h"
#include "graph/passes/pass_expand.h"
#include "graph/shard/shard.h"
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
    if (before < body->trace->nodes.count) { /* messages name the line of the call that it stands for, or serves */
        added.node.here = weft_trace_node(body->trace, before)->here;
        added.node.here_line = weft_trace_node(body->trace, before)->here_line;
    }
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
