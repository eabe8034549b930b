/* Redistributions that need not be made: to the layout that a value has; to one that it has been brought to before; back to
 * where it came from; and through a layout that nothing else needs.
 *
 * Without Partial placements values only move. A reduction adds in an order that follows from the mesh alone
 * (docs/plan.md), so that Partial -> B -> C and Partial -> C give equal bits on one mesh, where B has no Partial left. */
#include <stdlib.h>

#include "base/map.h"
#include "graph/passes/pass.h"
#include "tensor/state.h"

enum { NONE = -1, GONE = -2 };

/* A value in another layout. */
typedef struct known_move {
    int from, to;
} known_move;

typedef struct finding {
    weft_graph_body *body;
    weft_pass_sharing sharing;
    int *makers;        /* by value: the redistribution that makes it; NONE, or GONE: that was removed */
    int *uses;          /* by value: how often calls read it */
    known_move *moves;  /* as many as are known */
    size_t num_moves;
    weft_map by_ends;   /* known_move, by value and layout */
} finding;

static uint64_t hash_of(int from, const weft_layout *to)
{
    return weft_hash_u64(weft_hash_pointer(to) ^ (uint64_t)from);
}

/* The value in another layout; -1: unknown. */
static int find(const finding *f, int from, const weft_layout *to)
{
    weft_map_slot *slot = weft_map_first(&f->by_ends, hash_of(from, to));
    for (; slot != NULL; slot = weft_map_next(&f->by_ends, slot)) {
        const known_move *move = slot->value;
        if (move->from == from && weft_trace_layout(f->body->trace, move->to) == to && f->makers[move->to] != GONE) {
            return move->to;
        }
    }
    return -1;
}

/* There is room. */
static void add(finding *f, int from, int to)
{
    known_move *move = &f->moves[f->num_moves++];
    *move = (known_move){ from, to };
    weft_map_add(&f->by_ends, hash_of(from, weft_trace_layout(f->body->trace, to)), move);
}

static bool replaces(finding *f, weft_graph_node *node, int by)
{
    int output = node->outputs[0];
    if (by < 0 || !weft_pass_may_replace(&f->sharing, f->body->trace, output, by)) {
        return false;
    }
    f->uses[weft_body_value(f->body, node->inputs[0])]--;
    f->uses[by] += f->uses[output];
    weft_body_replace(f->body, output, by);
    weft_body_remove(node);
    f->body->counts.redundant++;
    return true;
}

/* Through a layout that nothing else needs: the former redistribution goes, and this one begins where that began. */
static void shorten(finding *f, weft_graph_node *node)
{
    weft_graph_trace *trace = f->body->trace;
    int middle = weft_body_value(f->body, node->inputs[0]), maker = f->makers[middle];
    if (maker < 0 || f->uses[middle] != 1 || weft_trace_value(trace, middle)->is_promised) {
        return;
    }
    weft_graph_node *former = weft_trace_node(trace, (size_t)maker);
    int begin = weft_body_value(f->body, former->inputs[0]);
    const weft_layout *from = weft_trace_layout(trace, begin), *through = weft_trace_layout(trace, middle);
    const weft_layout *to = weft_trace_layout(trace, node->outputs[0]);
    bool simple = from->mesh == through->mesh && through->mesh == to->mesh && !through->has_partial &&
                  !f->sharing.changed[begin] && !f->sharing.changed[middle];
    if (!simple) {
        return;
    }
    double direct = weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to);
    double first = weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, through);
    double second = weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, through, to);
    if (direct < 0 || direct > first + second) {
        return;
    }
    weft_body_remove(former);
    f->makers[middle] = GONE;
    node->inputs[0] = begin;
    f->body->counts.redundant++;
}

static void examine(finding *f, int number)
{
    weft_graph_trace *trace = f->body->trace;
    weft_graph_node *node = weft_trace_node(trace, (size_t)number);
    if (node->outputs[0] == node->inputs[0]) {
        weft_body_remove(node); /* the value itself */
        f->body->counts.redundant++;
        return;
    }
    int input = weft_body_value(f->body, node->inputs[0]), output = node->outputs[0];
    const weft_layout *to = weft_trace_layout(f->body->trace, output);
    if (replaces(f, node, weft_trace_layout(f->body->trace, input) == to ? input : find(f, input, to))) {
        return;
    }
    shorten(f, node);
    input = weft_body_value(f->body, node->inputs[0]);
    f->makers[output] = number;
    add(f, input, output);
    if (!to->has_partial && !weft_trace_layout(f->body->trace, input)->has_partial) {
        add(f, output, input);
    }
}

static void count_uses(const finding *f)
{
    const weft_graph_trace *trace = f->body->trace;
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_inputs; k++) {
            f->uses[node->inputs[k]]++;
        }
    }
}

bool weft_pass_redundant(weft_graph_body *body)
{
    const weft_graph_trace *trace = body->trace;
    finding f = { .body = body };
    size_t num_values = trace->values.count, num_nodes = trace->nodes.count;
    f.makers = malloc((num_values + 1) * sizeof(int));
    f.uses = calloc(num_values + 1, sizeof(int));
    f.moves = malloc((2 * num_nodes + 1) * sizeof(*f.moves));
    bool done = weft_pass_sharing_make(&f.sharing, trace) && f.makers != NULL && f.uses != NULL && f.moves != NULL &&
                weft_map_reserve(&f.by_ends, 2 * num_nodes);
    for (size_t i = 0; i < num_values && done; i++) {
        f.makers[i] = NONE;
    }
    if (done) {
        count_uses(&f);
    }
    for (int i = 0; i < (int)num_nodes && done; i++) {
        if (weft_pass_is_move(weft_trace_node(trace, (size_t)i))) {
            examine(&f, i);
        }
    }
    weft_pass_sharing_free(&f.sharing);
    weft_map_free(&f.by_ends);
    free(f.makers);
    free(f.uses);
    free(f.moves);
    return done;
}
