/* Small redistributions of one kind become one (bucket.h), after the last of them. Calls that need their results are made
 * after it too, if nothing that moves between ranks depends on them (the update of a parameter): these are its TAIL. A call
 * outside the tail that needs a result ends the group of redistributions that are collected; the order of everything
 * else stays. */
#include <stdlib.h>
#include <string.h>

#include "graph/passes/bucket.h"
#include "graph/passes/pass.h"
#include "tensor/state.h"

enum { NONE = -1 };

/* Redistributions that travel together. */
typedef struct collected {
    int group;
    int64_t bytes;
    weft_vec nodes; /* int, in their order */
} collected;

typedef struct collecting {
    weft_graph_body *body;
    bool *is_tail;    /* by node */
    int *waits_for;   /* by node: it is in the tail of this group; or NONE */
    int *late;        /* by value: it is computed after this group; or NONE */
    int group;        /* that is open */
    weft_vec buckets; /* collected: those of one group follow each other */
} collecting;

static bool is_candidate(const collecting *c, const weft_graph_node *node)
{
    return weft_pass_is_move(node) && node->inputs[0] != node->outputs[0] &&
           weft_bucket_takes(weft_trace_layout(c->body->trace, node->inputs[0]), weft_trace_layout(c->body->trace, node->outputs[0]));
}

/* ---- tails ----------------------------------------------------------------------------------------------- */

/* Whether a call moves nothing between ranks. *done false: an error is kept. */
static bool is_quiet(const collecting *c, const weft_graph_node *node, bool *done)
{
    const weft_layout *layouts[WEFT_MAX_INPUTS];
    weft_sharding sharding;
    if (weft_pass_leaves_alone(node) || node->num_inputs > WEFT_MAX_INPUTS) {
        return false;
    }
    for (int i = 0; i < node->num_inputs; i++) {
        layouts[i] = weft_trace_layout(c->body->trace, node->inputs[i]);
    }
    return weft_pass_layouts(node, layouts, &sharding, done) &&
           memcmp(layouts, sharding.inputs, (size_t)node->num_inputs * sizeof(layouts[0])) == 0;
}

/* False with an error kept, or without one: no memory. */
static bool find_tails(const collecting *c)
{
    const weft_graph_trace *trace = c->body->trace;
    bool *moves_later = calloc(trace->values.count + 1, sizeof(bool)), done = moves_later != NULL;
    for (size_t i = trace->nodes.count; i-- > 0 && done;) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        bool tail = is_quiet(c, node, &done);
        for (int k = 0; k < node->num_outputs && tail; k++) {
            tail = node->outputs[k] < 0 || !moves_later[node->outputs[k]];
        }
        c->is_tail[i] = tail;
        for (int k = 0; k < node->num_inputs; k++) {
            moves_later[node->inputs[k]] |= !tail;
        }
    }
    free(moves_later);
    return done;
}

/* ---- groups ---------------------------------------------------------------------------------------------- */

/* The open bucket of a redistribution's kind; a new one if there is none. NULL: no memory. */
static collected *find_bucket(collecting *c, const weft_graph_node *node)
{
    const weft_layout *from = weft_trace_layout(c->body->trace, node->inputs[0]), *to = weft_trace_layout(c->body->trace, node->outputs[0]);
    collected *all = c->buckets.items;
    for (size_t i = c->buckets.count; i-- > 0 && all[i].group == c->group;) {
        const weft_graph_node *first = weft_trace_node(c->body->trace, (size_t)((int *)all[i].nodes.items)[0]);
        const weft_graph_trace *trace = c->body->trace;
        if (weft_bucket_takes_both(weft_trace_layout(trace, first->inputs[0]), weft_trace_layout(trace, first->outputs[0]), from, to)) {
            return &all[i];
        }
    }
    collected *added = weft_vec_push(&c->buckets, sizeof(*added));
    if (added != NULL) {
        added->group = c->group;
    }
    return added;
}

static bool waits(const collecting *c, const weft_graph_node *node)
{
    bool waiting = false;
    for (int i = 0; i < node->num_inputs && !waiting; i++) {
        waiting = node->inputs[i] >= 0 && c->late[node->inputs[i]] == c->group;
    }
    return waiting;
}

static void set_late(const collecting *c, const weft_graph_node *node)
{
    for (int i = 0; i < node->num_outputs; i++) {
        if (node->outputs[i] >= 0) {
            c->late[node->outputs[i]] = c->group;
        }
    }
}

/* False: no memory. */
static bool collect(collecting *c, int number)
{
    const weft_graph_node *node = weft_trace_node(c->body->trace, (size_t)number);
    const weft_graph_trace *trace = c->body->trace;
    int64_t bytes = weft_bucket_bytes(weft_trace_layout(trace, node->inputs[0]), weft_trace_layout(trace, node->outputs[0]));
    collected *bucket = find_bucket(c, node);
    if (bucket != NULL && bucket->bytes + bytes > WEFT_BUCKET_BYTES) {
        c->group++;
        bucket = find_bucket(c, node);
    }
    int *place = bucket == NULL ? NULL : weft_vec_push(&bucket->nodes, sizeof(int));
    if (place == NULL) {
        return false;
    }
    *place = number;
    bucket->bytes += bytes;
    set_late(c, node);
    return true;
}

/* False: no memory. */
static bool examine(collecting *c, int number)
{
    const weft_graph_node *node = weft_trace_node(c->body->trace, (size_t)number);
    bool late = waits(c, node);
    if (late && c->is_tail[number]) {
        c->waits_for[number] = c->group;
        set_late(c, node);
        return true;
    }
    c->group += late;
    return !is_candidate(c, node) || collect(c, number);
}

/* ---- changes --------------------------------------------------------------------------------------------- */

static const int *nodes_of(const collected *bucket)
{
    return bucket->nodes.items;
}

/* One call in place of the bucket's, after the last of them. False: no memory. */
static bool insert_bucket(weft_graph_body *body, const collected *collection)
{
    size_t count = collection->nodes.count;
    const weft_layout **layouts = malloc(2 * count * sizeof(*layouts));
    int *values = malloc(2 * count * sizeof(int));
    weft_tensor **no_tensors = calloc(count, sizeof(weft_tensor *));
    weft_bucket *bucket = NULL;
    bool done = layouts != NULL && values != NULL && no_tensors != NULL;
    for (size_t i = 0; i < count && done; i++) {
        const weft_graph_node *node = weft_trace_node(body->trace, (size_t)nodes_of(collection)[i]);
        values[i] = node->inputs[0];
        values[count + i] = node->outputs[0];
        layouts[i] = weft_trace_value(body->trace, values[i])->layout;
        layouts[count + i] = weft_trace_value(body->trace, values[count + i])->layout;
    }
    bucket = done ? weft_bucket_new((int)count, layouts, layouts + count) : NULL;
    done = bucket != NULL && weft_body_add_bucket(body, bucket);
    if (done) {
        weft_call_details details = { .num_outputs = (int)count, .num_tensors = (int)count, .tensors = no_tensors,
                                      .layout = bucket->flat_to, .memory = bucket };
        weft_call call = { .function = "weft_redistribute", .operation = &weft_action_bucket, .details = &details };
        int last = nodes_of(collection)[count - 1];
        done = weft_body_insert(body, (size_t)last + 1, &call, values, (int)count, values + count);
    }
    for (size_t i = 0; i < count && done; i++) {
        weft_body_remove(weft_trace_node(body->trace, (size_t)nodes_of(collection)[i]));
    }
    body->counts.bucketed += done ? (int)count : 0;
    body->counts.buckets += done;
    free(layouts);
    free(values);
    free(no_tensors);
    return done;
}

/* The buckets [begin, end) of one group, and after the last of them those of its tail that were before it. False: no
 * memory. */
static bool place_group(collecting *c, size_t begin, size_t end)
{
    const collected *all = c->buckets.items;
    int last = NONE;
    bool done = true;
    for (size_t i = begin; i < end && done; i++) {
        size_t count = all[i].nodes.count;
        if (count > 1) {
            int own = nodes_of(&all[i])[count - 1];
            last = own > last ? own : last;
            done = insert_bucket(c->body, &all[i]);
        }
    }
    for (int i = begin < end ? nodes_of(&all[begin])[0] : 0; i < last && done; i++) {
        done = c->waits_for[i] != all[begin].group || weft_body_move(c->body, (size_t)i, (size_t)last + 1);
    }
    return done;
}

static bool place_all(collecting *c)
{
    const collected *all = c->buckets.items;
    bool done = true;
    for (size_t begin = 0, end; begin < c->buckets.count && done; begin = end) {
        end = begin + 1;
        while (end < c->buckets.count && all[end].group == all[begin].group) {
            end++;
        }
        done = place_group(c, begin, end);
    }
    return done;
}

bool weft_pass_bucket(weft_graph_body *body)
{
    size_t num_nodes = body->trace->nodes.count, num_values = body->trace->values.count;
    collecting c = { .body = body };
    c.is_tail = calloc(num_nodes + 1, sizeof(bool));
    c.waits_for = malloc((num_nodes + 1) * sizeof(int));
    c.late = malloc((num_values + 1) * sizeof(int));
    bool done = c.is_tail != NULL && c.waits_for != NULL && c.late != NULL;
    for (size_t i = 0; i < num_nodes && done; i++) {
        c.waits_for[i] = NONE;
    }
    for (size_t i = 0; i < num_values && done; i++) {
        c.late[i] = NONE;
    }
    done = done && find_tails(&c);
    for (int i = 0; i < (int)num_nodes && done; i++) {
        done = examine(&c, i);
    }
    done = done && place_all(&c);
    collected *all = c.buckets.items;
    for (size_t i = 0; i < c.buckets.count; i++) {
        weft_vec_free(&all[i].nodes);
    }
    weft_vec_free(&c.buckets);
    free(c.is_tail);
    free(c.waits_for);
    free(c.late);
    return done;
}
