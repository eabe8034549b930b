/* Redistributions within calls become calls, where other passes can use them: a value that several calls bring to one
 * layout is then moved once, and small ones travel together. The call itself finds its inputs where it works on them. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "graph/passes/bucket.h"
#include "graph/passes/pass.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* A redistribution within a call. */
typedef struct inner_move {
    int node, input, value;
    const weft_layout *to;
} inner_move;

static uint64_t hash_of(int value, const weft_layout *to)
{
    return weft_hash_u64(weft_hash_pointer(to) ^ (uint64_t)value);
}

/* How often a value is brought to a layout, by calls of this trace. */
typedef struct counted_move {
    int value;
    const weft_layout *to;
    int count;
} counted_move;

static counted_move *find(const weft_map *counts, int value, const weft_layout *to)
{
    weft_map_slot *slot = weft_map_first(counts, hash_of(value, to));
    for (; slot != NULL; slot = weft_map_next(counts, slot)) {
        counted_move *found = slot->value;
        if (found->value == value && found->to == to) {
            return found;
        }
    }
    return NULL;
}

/* False: no memory. */
static bool count_move(weft_map *counts, int value, const weft_layout *to)
{
    counted_move *known = find(counts, value, to);
    if (known == NULL) {
        known = malloc(sizeof(*known));
        if (known == NULL || !weft_map_add(counts, hash_of(value, to), known)) {
            free(known);
            return false;
        }
        *known = (counted_move){ value, to, 0 };
    }
    known->count++;
    return true;
}

static void free_counts(weft_map *counts)
{
    for (weft_map_slot *slot = NULL; (slot = weft_map_each(counts, slot)) != NULL;) {
        free(slot->value);
    }
    weft_map_free(counts);
}

/* Whether the call works on these layouts where its inputs have them. *done false: no memory. */
static bool keeps_layouts(const weft_graph_trace *trace, const weft_graph_node *node, const weft_sharding *wanted,
                          bool *done)
{
    weft_sharding sharding;
    bool known = weft_pass_layouts(node, wanted->inputs, &sharding, done);
    bool same = known && memcmp(sharding.inputs, wanted->inputs, (size_t)node->num_inputs * sizeof(wanted->inputs[0])) == 0;
    for (int i = 0; i < node->num_outputs && same; i++) {
        same = node->outputs[i] < 0 || sharding.outputs[i] == weft_trace_value(trace, node->outputs[i])->layout;
    }
    return same;
}

/* The redistributions within one call. False: no memory. */
static bool find_in_node(const weft_graph_trace *trace, int number, weft_vec *moves)
{
    const weft_graph_node *node = weft_trace_node(trace, (size_t)number);
    const weft_layout *layouts[WEFT_MAX_INPUTS];
    weft_sharding sharding;
    bool done = true, moves_any = false;
    if (node->num_inputs > WEFT_MAX_INPUTS) {
        return true;
    }
    for (int i = 0; i < node->num_inputs; i++) {
        layouts[i] = weft_trace_value(trace, node->inputs[i])->layout;
    }
    if (!weft_pass_layouts(node, layouts, &sharding, &done)) {
        return done;
    }
    for (int i = 0; i < node->num_inputs; i++) {
        const weft_layout *to = sharding.inputs[i];
        bool is_move = to != layouts[i];
        if (is_move && (weft_call_changes(node->call, i) || to->dtype != layouts[i]->dtype || to->mesh != layouts[i]->mesh)) {
            return true;
        }
        moves_any |= is_move;
    }
    if (!moves_any || !keeps_layouts(trace, node, &sharding, &done)) {
        return done;
    }
    for (int i = 0; i < node->num_inputs; i++) {
        inner_move *added = sharding.inputs[i] == layouts[i] ? NULL : weft_vec_push(moves, sizeof(*added));
        if (sharding.inputs[i] != layouts[i] && added == NULL) {
            return false;
        }
        if (added != NULL) {
            *added = (inner_move){ number, i, node->inputs[i], sharding.inputs[i] };
        }
    }
    return true;
}

/* Finds all redistributions, and counts them with those that are calls. False: no memory. */
static bool find_all(const weft_graph_trace *trace, weft_vec *moves, weft_map *counts)
{
    bool done = true;
    for (int i = 0; i < (int)trace->nodes.count && done; i++) {
        const weft_graph_node *node = weft_trace_node(trace, (size_t)i);
        if (weft_pass_is_move(node)) {
            done = count_move(counts, node->inputs[0], weft_trace_value(trace, node->outputs[0])->layout);
        } else if (!weft_pass_leaves_alone(node)) {
            done = find_in_node(trace, i, moves);
        }
    }
    const inner_move *all = moves->items;
    for (size_t i = 0; i < moves->count && done; i++) {
        done = count_move(counts, all[i].value, all[i].to);
    }
    return done;
}

static bool insert(weft_graph_body *body, const inner_move *move)
{
    weft_graph_node *node = weft_trace_node(body->trace, (size_t)move->node);
    int value = weft_body_add_value(body, move->to);
    if (value < 0 || !weft_pass_insert_move(body, (size_t)move->node, move->value, value)) {
        return false;
    }
    node->inputs[move->input] = value;
    body->counts.explicit_moves++;
    return true;
}

static bool is_useful(const weft_graph_body *body, const weft_map *counts, const inner_move *move)
{
    const weft_layout *from = weft_trace_value(body->trace, move->value)->layout;
    bool shared = (body->passes & WEFT_PASS_REDUNDANT) != 0 && find(counts, move->value, move->to)->count > 1;
    return shared || ((body->passes & WEFT_PASS_BUCKET) != 0 && weft_bucket_takes(from, move->to));
}

/* All redistributions within a call, or none: with some it might work on other layouts. */
bool weft_pass_moves(weft_graph_body *body)
{
    weft_vec moves = { 0 };
    weft_map counts = { 0 };
    bool done = find_all(body->trace, &moves, &counts);
    const inner_move *all = moves.items;
    for (size_t begin = 0, end; begin < moves.count && done; begin = end) {
        bool useful = false;
        for (end = begin; end < moves.count && all[end].node == all[begin].node; end++) {
            useful |= is_useful(body, &counts, &all[end]);
        }
        for (size_t i = begin; i < end && useful && done; i++) {
            done = insert(body, &all[i]);
        }
    }
    free_counts(&counts);
    weft_vec_free(&moves);
    return done;
}
