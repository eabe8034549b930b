/* Calls that were made before: the same operation with the same attributes on the same values. Calls that draw random
 * numbers or change tensors are left alone, and those of the program's operations.
 *
 * Scalars may differ from run to run. Calls are taken for equal if their scalars are equal in the run that builds the body,
 * which then is for runs where they are (weft_graph_body.equal_scalars); scalars are equal on all processes. */
#include <stdlib.h>

#include "base/map.h"
#include "graph/passes/pass.h"

typedef struct finding {
    weft_graph_body *body;
    weft_pass_sharing sharing;
    weft_map calls; /* 1 + number of a node, by hash */
} finding;

static bool is_plain(const weft_graph_node *node)
{
    return !weft_call_is_action(node->call) && !node->draws && node->num_inputs > 0 && !weft_pass_leaves_alone(node) &&
           !weft_node_changes_inputs(node);
}

static uint64_t hash_of(const finding *f, const weft_graph_node *node)
{
    uint64_t hash = weft_hash_pointer(node->call->operation);
    for (int i = 0; i < node->num_inputs; i++) {
        hash = weft_hash_u64(hash ^ (uint64_t)weft_body_value(f->body, node->inputs[i]));
    }
    return hash;
}

static bool equal(const finding *f, const weft_graph_node *a, const weft_graph_node *b)
{
    bool same = a->num_inputs == b->num_inputs && a->num_outputs == b->num_outputs && a->implicit == b->implicit &&
                weft_call_is_like(a->call, b->call) && weft_body_has_equal_scalars(f->body, a, b);
    for (int i = 0; i < a->num_inputs && same; i++) {
        same = weft_body_value(f->body, a->inputs[i]) == weft_body_value(f->body, b->inputs[i]);
    }
    for (int i = 0; i < a->num_outputs && same; i++) {
        int one = a->outputs[i], other = b->outputs[i];
        same = (one < 0 && other < 0) ||
               (one >= 0 && other >= 0 && weft_trace_value(f->body->trace, one)->layout == weft_trace_value(f->body->trace, other)->layout &&
                weft_pass_may_replace(&f->sharing, f->body->trace, other, one));
        for (int k = 0; k < b->num_inputs && same; k++) {
            same = other < 0 || other != b->inputs[k]; /* an input as it is */
        }
    }
    return same;
}

/* The number of an equal node before; -1: none. */
static int find(const finding *f, const weft_graph_node *node, uint64_t hash)
{
    weft_map_slot *slot = weft_map_first(&f->calls, hash);
    for (; slot != NULL; slot = weft_map_next(&f->calls, slot)) {
        int number = (int)((uintptr_t)slot->value - 1);
        if (equal(f, weft_trace_node(f->body->trace, (size_t)number), node)) {
            return number;
        }
    }
    return -1;
}

/* False: no memory. */
static bool examine(finding *f, int number)
{
    weft_graph_node *node = weft_trace_node(f->body->trace, (size_t)number);
    uint64_t hash = hash_of(f, node);
    int former = find(f, node, hash);
    if (former < 0) {
        return weft_map_add(&f->calls, hash, (void *)((uintptr_t)number + 1));
    }
    const weft_graph_node *equal_one = weft_trace_node(f->body->trace, (size_t)former);
    for (int i = 0; i < node->num_outputs; i++) {
        if (node->outputs[i] >= 0) {
            weft_body_replace(f->body, node->outputs[i], equal_one->outputs[i]);
        }
    }
    weft_body_remove(node);
    f->body->counts.common++;
    return weft_body_add_equal_scalars(f->body, equal_one->source, node->source);
}

bool weft_pass_common(weft_graph_body *body)
{
    const weft_graph_trace *trace = body->trace;
    finding f = { .body = body };
    bool done = weft_pass_sharing_make(&f.sharing, trace);
    for (int i = 0; i < (int)trace->nodes.count && done; i++) {
        done = !is_plain(weft_trace_node(trace, (size_t)i)) || examine(&f, i);
    }
    weft_pass_sharing_free(&f.sharing);
    weft_map_free(&f.calls);
    return done;
}
