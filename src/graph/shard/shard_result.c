/* Results of a solution: layouts of calls and values, bytes, alternatives. */
#include <stdlib.h>

#include "graph/shard/shard_problem.h"

int64_t weft_shard_peak(const weft_shard_problem *s, const weft_layout *const layouts[], int *where)
{
    size_t num_nodes = s->trace->nodes.count;
    int64_t *change = calloc(num_nodes + 2, sizeof(int64_t)), live = 0, most = 0;
    *where = 0;
    if (change == NULL) {
        return 0;
    }
    for (size_t v = 0; v < s->trace->values.count; v++) {
        const weft_graph_value *recorded = weft_trace_value(s->trace, (int)v);
        const weft_shard_value *state = &s->values[v];
        int64_t bytes = weft_shard_bytes(layouts[v]);
        if (recorded->is_input) {
            change[0] += bytes;
        } else if (state->unit >= 0 && !state->bound && !state->views) {
            int first = weft_shard_unit_at(s, state->unit)->node;
            int last = state->wanted ? (int)num_nodes : recorded->last_use > first ? recorded->last_use : first;
            change[first] += bytes;
            change[last + 1] -= bytes;
        }
    }
    for (size_t i = 0; i < num_nodes; i++) {
        live += change[i];
        if (live > most) {
            most = live;
            *where = (int)i;
        }
    }
    free(change);
    return most;
}

/* ---- results --------------------------------------------------------------------------------------------- */

void weft_trace_sharding_free(weft_trace_sharding *sharding)
{
    if (sharding != NULL) {
        free(sharding->inputs);
        free(sharding->first_input);
        free(sharding->values);
        free(sharding->passed);
        free(sharding->alternatives);
        free(sharding->is_passed);
        free(sharding);
    }
}

void weft_trace_sharding_meet_layouts(const weft_trace_sharding *sharding, const weft_graph_trace *trace)
{
    for (size_t v = 0; v < sharding->num_values; v++) {
        weft_meet_layout(sharding->values[v]);
        weft_meet_layout(sharding->passed[v]);
    }
    for (size_t i = 0; i < sharding->num_nodes; i++) {
        for (int k = 0; k < weft_trace_node(trace, i)->num_inputs; k++) {
            weft_meet_layout(sharding->inputs[sharding->first_input[i] + k]);
        }
    }
}

/* The recorded layouts. NULL: no memory. */
static weft_trace_sharding *new_sharding(const weft_graph_trace *trace)
{
    weft_trace_sharding *new = calloc(1, sizeof(*new));
    size_t count = 0;
    for (size_t i = 0; i < trace->nodes.count; i++) {
        count += (size_t)weft_trace_node(trace, i)->num_inputs;
    }
    if (new == NULL) {
        return NULL;
    }
    new->num_nodes = trace->nodes.count;
    new->num_values = trace->values.count;
    new->inputs = malloc((count + 1) * sizeof(*new->inputs));
    new->first_input = malloc((new->num_nodes + 1) * sizeof(int));
    new->values = malloc((new->num_values + 1) * sizeof(*new->values));
    new->passed = malloc((new->num_values + 1) * sizeof(*new->passed));
    new->alternatives = malloc((new->num_values + 1) * sizeof(int64_t));
    new->is_passed = calloc(new->num_nodes + 1, sizeof(bool));
    if (new->inputs == NULL || new->first_input == NULL || new->values == NULL || new->passed == NULL ||
        new->alternatives == NULL || new->is_passed == NULL) {
        weft_trace_sharding_free(new);
        return NULL;
    }
    for (size_t v = 0; v < new->num_values; v++) {
        new->values[v] = new->passed[v] = weft_trace_value(trace, (int)v)->layout;
    }
    int at = 0;
    for (size_t i = 0; i < new->num_nodes; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        new->first_input[i] = at;
        for (int k = 0; k < node->num_inputs; k++) {
            new->inputs[at++] = node->inputs[k] < 0 ? NULL : new->values[node->inputs[k]];
        }
    }
    return new;
}

static bool can_move(const weft_shard_problem *s, const weft_layout *from, const weft_layout *to)
{
    return from == to || weft_shard_move_cost(s->world, from, to) < WEFT_ASSIGN_IMPOSSIBLE;
}

/* Whether a node of several units can have these outputs: where it changes or returns an input, they lie as that; the others
 * can be brought to the layouts that they are passed on in. */
static bool fits_outputs(const weft_shard_problem *s, const weft_trace_sharding *to, const weft_graph_node *node,
                         const weft_layout *const inputs[], const weft_layout *const outputs[])
{
    bool fit = true;
    for (int o = 0; o < node->num_outputs; o++) {
        int number = node->outputs[o], returned = weft_shard_returned_input(node, o);
        if (number < 0) {
            continue;
        }
        fit &= returned >= 0            ? outputs[o] == inputs[returned]
               : s->values[number].bound ? outputs[o] == inputs[o]
                                         : can_move(s, outputs[o], to->passed[number]);
    }
    return fit;
}

/* Asks each node of several units what its outputs will be. One that refuses the layouts keeps those of the capture. */
static void settle_lists(const weft_shard_problem *s, weft_trace_sharding *to)
{
    for (size_t i = 0; i < s->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(s->trace, i);
        const weft_layout **inputs = to->inputs + to->first_input[i];
        if (node->call->details == NULL || node->call->details->num_tensors == 0) {
            continue;
        }
        const weft_layout **outputs = calloc((size_t)node->num_outputs + 1, sizeof(*outputs));
        int64_t cost;
        bool right = outputs != NULL && weft_shard_ask(s->world, node, inputs, outputs, &cost) &&
                     fits_outputs(s, to, node, inputs, outputs);
        for (int k = 0; k < node->num_inputs && !right; k++) {
            inputs[k] = node->inputs[k] < 0 ? NULL : weft_trace_layout(s->trace, node->inputs[k]);
        }
        for (int o = 0; o < node->num_outputs; o++) {
            if (node->outputs[o] >= 0 && weft_shard_returned_input(node, o) < 0) {
                to->values[node->outputs[o]] = right ? outputs[o] : weft_trace_layout(s->trace, node->outputs[o]);
            }
        }
        free(outputs);
    }
}

bool weft_shard_can_be_made(const weft_shard_problem *s, const weft_trace_sharding *of)
{
    bool can = true;
    for (int v = 0; v < (int)s->trace->values.count; v++) {
        can &= can_move(s, of->values[v], of->passed[v]);
        can &= of->has_moved_inputs || !s->values[v].wanted || s->values[v].bound ||
               can_move(s, of->passed[v], weft_trace_layout(s->trace, v));
    }
    for (size_t i = 0; i < s->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(s->trace, i);
        for (int k = 0; k < node->num_inputs; k++) {
            can &= node->inputs[k] < 0 || of->is_passed[i] || can_move(s, of->passed[node->inputs[k]], of->inputs[of->first_input[i] + k]);
        }
    }
    return can;
}

weft_trace_sharding *weft_shard_read_solution(const weft_shard_problem *s)
{
    weft_trace_sharding *to = new_sharding(s->trace);
    for (int u = 0; u < (int)s->units.count && to != NULL; u++) {
        weft_shard_unit *unit = weft_shard_unit_at(s, u);
        unit->chosen = s->choices[unit->variable];
        to->is_passed[unit->node] = unit->is_move;
        for (int slot = 0; slot < unit->num_inputs; slot++) {
            to->inputs[to->first_input[unit->node] + unit->slots[slot]] = weft_shard_unit_layout(unit, unit->chosen, slot);
        }
    }
    for (int v = 0; v < (int)s->trace->values.count && to != NULL; v++) {
        const weft_shard_value *value = &s->values[v];
        if (value->unit >= 0) {
            const weft_shard_unit *unit = weft_shard_unit_at(s, value->unit);
            to->values[v] = to->passed[v] = weft_shard_unit_layout(unit, unit->chosen, value->slot);
        }
        if (value->variable >= 0) {
            to->passed[v] = weft_shard_layout_at(value, s->choices[value->variable]);
        }
        if (value->unit < 0) {
            to->values[v] = to->passed[v];
            to->has_moved_inputs |= to->values[v] != weft_trace_layout(s->trace, v);
        }
    }
    if (to != NULL) {
        settle_lists(s, to);
    }
    return to;
}

typedef int64_t change_function(const weft_assign *problem, const int choices[], int variable, int choice);

/* Extra cost of the best other layout of one value. */
static int64_t least_change(const weft_shard_problem *s, int number, const weft_trace_sharding *solution, change_function *change)
{
    const weft_shard_value *v = &s->values[number];
    const weft_shard_unit *unit = v->unit >= 0 ? weft_shard_unit_at(s, v->unit) : NULL;
    bool by_unit = v->variable < 0;
    int variable = by_unit ? unit->variable : v->variable, count = by_unit ? unit->num_choices : (int)v->layouts.count;
    int64_t best = WEFT_ASSIGN_IMPOSSIBLE;
    for (int c = 0; c < count; c++) {
        const weft_layout *layout = by_unit ? weft_shard_unit_layout(unit, c, v->slot) : weft_shard_layout_at(v, c);
        if (layout != solution->passed[number]) {
            int64_t cost = change(s->problem, s->choices, variable, c);
            best = cost < best ? cost : best;
        }
    }
    return best;
}

/* Of the value alone, or with the tensors that must lie as it does. */
static int64_t alternative(const weft_shard_problem *s, int number, const weft_trace_sharding *solution)
{
    int64_t best = least_change(s, number, solution, weft_assign_change);
    best = best >= WEFT_ASSIGN_IMPOSSIBLE ? least_change(s, number, solution, weft_assign_change_tied) : best;
    return best >= WEFT_ASSIGN_IMPOSSIBLE ? -1 : best;
}

bool weft_shard_describe(const weft_shard_problem *s, weft_trace_sharding *solution)
{
    int unused;
    const weft_layout **recorded = malloc((solution->num_values + 1) * sizeof(*recorded));
    for (int v = 0; v < (int)solution->num_values && recorded != NULL; v++) {
        recorded[v] = weft_trace_layout(s->trace, v);
        solution->alternatives[v] = alternative(s, v, solution);
    }
    solution->cost = solution->search.cost;
    solution->recorded_cost = weft_assign_cost(s->problem, s->start);
    solution->recorded_peak = recorded == NULL ? 0 : weft_shard_peak(s, recorded, &unused);
    solution->peak = weft_shard_peak(s, solution->passed, &unused);
    free(recorded);
    return recorded != NULL;
}
