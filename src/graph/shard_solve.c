/* All calls of a trace together: the problem, its solution, and what follows for the trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/shard.h"

/* A value of the trace in the problem. */
typedef struct value_state {
    int unit, slot; /* that gives it; -1: an input, or it stays as it was recorded */
    int num_uses;
    bool bound;     /* in a tensor of the program's, changed in place or not: the layout stays */
    bool wanted;    /* the program gets it, in the recorded layout */
    bool views;     /* it may share the memory of the call's input */
    bool pinned;
    int variable;   /* of its layout; -1: that of the unit alone */
    weft_vec layouts; /* const weft_layout *: choices of the variable */
} value_state;

typedef struct solving {
    const weft_shard_request *request;
    const weft_graph_trace *trace;
    weft_shard_world *world;
    weft_assign *problem;
    weft_vec units; /* weft_shard_unit */
    value_state *values;
    int num_variables;
    int *choices, *start; /* by variable */
    int widest_node;      /* where most bytes are live */
    bool out_of_memory;
} solving;

static weft_shard_unit *unit_at(const solving *s, int number)
{
    return (weft_shard_unit *)s->units.items + number;
}

static const weft_layout *recorded_layout(const solving *s, int value)
{
    return weft_trace_value(s->trace, value)->layout;
}

static const weft_layout *layout_at(const value_state *v, int choice)
{
    return ((const weft_layout *const *)v->layouts.items)[choice];
}

/* The value of a unit's slot; -1: none. */
static int value_of(const solving *s, const weft_shard_unit *unit, int slot)
{
    return weft_trace_node(s->trace, (size_t)unit->node)->inputs[unit->slots[slot]];
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static void find_bound(const solving *s)
{
    for (size_t v = 0; v < s->trace->values.count; v++) {
        const weft_graph_value *value = weft_trace_value(s->trace, (int)v);
        s->values[v] = (value_state){ .unit = -1, .variable = -1, .bound = value->is_input };
        s->values[v].wanted = s->trace->wanted == NULL ? value->last_use < 0 : s->trace->wanted[v];
    }
    for (size_t i = 0; i < s->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(s->trace, i);
        for (int o = 0; o < node->num_outputs; o++) {
            bool changes = node->outputs[o] >= 0 && weft_call_changes(node->call, o);
            if (changes && s->values[node->inputs[o]].bound) {
                s->values[node->outputs[o]].bound = true;
            }
            if (node->outputs[o] >= 0 && node->call->operation != NULL) {
                s->values[node->outputs[o]].views = node->call->operation->views;
            }
        }
    }
}

static void find_producers(const solving *s)
{
    for (int u = 0; u < (int)s->units.count; u++) {
        const weft_shard_unit *unit = unit_at(s, u);
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = value_of(s, unit, slot);
            if (value < 0) {
                continue;
            }
            if (slot < unit->num_inputs) {
                s->values[value].num_uses++;
            } else if (unit->is_move || !weft_trace_value(s->trace, value)->is_input) {
                /* An output that is an input as it is keeps the number. */
                bool own = true;
                for (int i = 0; i < unit->num_inputs; i++) {
                    own &= value_of(s, unit, i) != value;
                }
                s->values[value].unit = own ? u : s->values[value].unit;
                s->values[value].slot = own ? slot : s->values[value].slot;
            }
        }
    }
}

static bool add_layout(solving *s, value_state *v, const weft_layout *layout)
{
    for (size_t i = 0; i < v->layouts.count; i++) {
        if (layout_at(v, (int)i) == layout) {
            return true;
        }
    }
    const weft_layout **added = weft_vec_push(&v->layouts, sizeof(*added));
    if (added == NULL) {
        s->out_of_memory = true;
        return false;
    }
    *added = layout;
    return true;
}

static bool fulfils_pins(const solving *s, int value, const weft_layout *layout)
{
    bool right = true;
    for (int i = 0; i < s->request->num_pins; i++) {
        const weft_shard_pin *pin = &s->request->pins[i];
        for (int m = 0; m < layout->mesh->ndim && pin->value == value; m++) {
            bool concerned = pin->mesh_dim < 0 || pin->mesh_dim == m;
            right &= !concerned || weft_placement_equal(layout->placements[m], pin->placement);
        }
    }
    return right;
}

/* Values that more than one call reads, that the program gets, or that are pinned, are brought to one layout once. */
static bool has_own_variable(const value_state *v)
{
    return v->unit < 0 || v->pinned || (v->num_uses > 0 && (v->num_uses > 1 || v->wanted)) || v->bound;
}

static bool list_value_layouts(solving *s, int number)
{
    value_state *v = &s->values[number];
    const weft_layout *recorded = recorded_layout(s, number);
    bool done = add_layout(s, v, recorded);
    if (v->unit < 0 && s->request->movable != NULL && s->request->movable[number]) {
        weft_vec all = { 0 };
        done = done && weft_shard_list_layouts(recorded, false, &all);
        for (size_t i = 0; i < all.count && done; i++) {
            done = add_layout(s, v, ((const weft_layout **)all.items)[i]);
        }
        weft_vec_free(&all);
    }
    for (int u = 0; u < (int)s->units.count && v->unit >= 0; u++) {
        const weft_shard_unit *unit = unit_at(s, u);
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            bool concerned = slot < unit->num_inputs ? true : u == v->unit && slot == v->slot;
            if (!concerned || value_of(s, unit, slot) != number) {
                continue;
            }
            for (int c = 0; c < unit->num_choices && done; c++) {
                done = add_layout(s, v, weft_shard_unit_layout(unit, c, slot));
            }
        }
    }
    return done;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* Whether a value is in memory while a node runs. */
static bool is_live(const solving *s, int value, int node)
{
    const value_state *v = &s->values[value];
    const weft_graph_value *recorded = weft_trace_value(s->trace, value);
    if (recorded->is_input) {
        return true;
    }
    if (v->unit < 0 || v->bound || v->views) {
        return false; /* memory of an input, or a share */
    }
    return unit_at(s, v->unit)->node <= node && (recorded->last_use >= node || v->wanted);
}

/* Bytes of a rank by node, where values lie as given; the most, and where. */
static int64_t find_peak(const solving *s, const weft_layout *const layouts[], int *where)
{
    size_t num_nodes = s->trace->nodes.count;
    int64_t *change = calloc(num_nodes + 2, sizeof(int64_t)), live = 0, most = 0;
    *where = 0;
    if (change == NULL) {
        return 0;
    }
    for (size_t v = 0; v < s->trace->values.count; v++) {
        const weft_graph_value *recorded = weft_trace_value(s->trace, (int)v);
        const value_state *state = &s->values[v];
        int64_t bytes = weft_shard_bytes(layouts[v]);
        if (recorded->is_input) {
            change[0] += bytes;
        } else if (state->unit >= 0 && !state->bound && !state->views) {
            int first = unit_at(s, state->unit)->node;
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

/* ---- variables ------------------------------------------------------------------------------------------- */

static bool note_variable(solving *s, int variable, int *place)
{
    *place = variable;
    s->num_variables += variable >= 0;
    s->out_of_memory |= variable < 0;
    return variable >= 0;
}

static bool add_value_variable(solving *s, int number)
{
    value_state *v = &s->values[number];
    const weft_layout *recorded = recorded_layout(s, number);
    if (!list_value_layouts(s, number)) {
        return false;
    }
    size_t count = v->layouts.count;
    int64_t *cost = malloc(2 * count * sizeof(int64_t)), *memory = cost == NULL ? NULL : cost + count;
    for (size_t i = 0; cost != NULL && i < count; i++) {
        const weft_layout *layout = layout_at(v, (int)i);
        cost[i] = !fulfils_pins(s, number, layout) ? WEFT_ASSIGN_IMPOSSIBLE
                  : v->wanted && !v->bound         ? weft_shard_move_cost(s->world, layout, recorded)
                                                    : 0;
        memory[i] = is_live(s, number, s->widest_node) ? weft_shard_bytes(layout) : 0;
    }
    bool done = cost != NULL && note_variable(s, weft_assign_add_variable(s->problem, (int)count, cost, memory), &v->variable);
    free(cost);
    s->out_of_memory |= !done;
    return done;
}

/* The cost of bringing outputs that the program alone reads to their recorded layouts; their memory. */
static bool add_unit_variable(solving *s, weft_shard_unit *unit)
{
    size_t count = (size_t)unit->num_choices;
    int64_t *cost = malloc(2 * count * sizeof(int64_t)), *memory = cost == NULL ? NULL : cost + count;
    for (size_t c = 0; cost != NULL && c < count; c++) {
        cost[c] = unit->cost[c];
        memory[c] = 0;
        for (int slot = unit->num_inputs; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = value_of(s, unit, slot);
            const weft_layout *layout = weft_shard_unit_layout(unit, (int)c, slot);
            const value_state *v = value < 0 ? NULL : &s->values[value];
            if (v == NULL || layout == NULL || v->unit < 0 || unit_at(s, v->unit) != unit || has_own_variable(v)) {
                continue;
            }
            int64_t last = v->wanted ? weft_shard_move_cost(s->world, layout, recorded_layout(s, value)) : 0;
            cost[c] = cost[c] + last < WEFT_ASSIGN_IMPOSSIBLE ? cost[c] + last : WEFT_ASSIGN_IMPOSSIBLE;
            memory[c] += is_live(s, value, s->widest_node) ? weft_shard_bytes(layout) : 0;
        }
    }
    bool done =
        cost != NULL && note_variable(s, weft_assign_add_variable(s->problem, (int)count, cost, memory), &unit->variable);
    free(cost);
    s->out_of_memory |= !done;
    return done;
}

/* ---- pairs ----------------------------------------------------------------------------------------------- */

/* A list of layouts by choice. */
typedef struct side {
    const value_state *value; /* or NULL */
    const weft_shard_unit *unit;
    int slot;
} side;

static int side_variable(const side *of)
{
    return of->value != NULL ? of->value->variable : of->unit->variable;
}

static int side_count(const side *of)
{
    return of->value != NULL ? (int)of->value->layouts.count : of->unit->num_choices;
}

static const weft_layout *side_layout(const side *of, int choice)
{
    return of->value != NULL ? layout_at(of->value, choice) : weft_shard_unit_layout(of->unit, choice, of->slot);
}

/* Redistributions from one side to the other; `equal`: none is allowed. False: no memory. */
static bool add_pair(solving *s, side from, side to, bool equal)
{
    size_t rows = (size_t)side_count(&from), columns = (size_t)side_count(&to);
    int64_t *cost = malloc(rows * columns * sizeof(int64_t));
    for (size_t i = 0; cost != NULL && i < rows; i++) {
        for (size_t k = 0; k < columns; k++) {
            const weft_layout *a = side_layout(&from, (int)i), *b = side_layout(&to, (int)k);
            cost[i * columns + k] = a == b  ? 0
                                    : equal ? WEFT_ASSIGN_IMPOSSIBLE
                                            : weft_shard_move_cost(s->world, a, b);
        }
    }
    bool done = cost != NULL && weft_assign_add_pair(s->problem, side_variable(&from), side_variable(&to), cost);
    free(cost);
    s->out_of_memory |= !done;
    return done;
}

static side value_side(const solving *s, int value)
{
    const value_state *v = &s->values[value];
    return v->variable >= 0 ? (side){ .value = v } : (side){ .unit = unit_at(s, v->unit), .slot = v->slot };
}

/* Whether an input of the unit is changed in place, in a tensor of the program's. */
static bool must_stay(const solving *s, const weft_shard_unit *unit, int slot)
{
    const weft_graph_node *node = weft_trace_node(s->trace, (size_t)unit->node);
    int input = unit->slots[slot];
    return input < node->num_outputs && node->outputs[input] >= 0 && weft_call_changes(node->call, input) &&
           s->values[node->inputs[input]].bound;
}

static bool add_pairs_of_unit(solving *s, const weft_shard_unit *unit)
{
    bool done = true;
    for (int slot = 0; slot < unit->num_inputs && done; slot++) {
        int value = value_of(s, unit, slot);
        if (value >= 0) {
            done = add_pair(s, value_side(s, value), (side){ .unit = unit, .slot = slot }, must_stay(s, unit, slot));
        }
    }
    return done;
}

static bool add_pairs(solving *s)
{
    bool done = true;
    for (int v = 0; v < (int)s->trace->values.count && done; v++) {
        const value_state *value = &s->values[v];
        if (value->unit >= 0 && value->variable >= 0) {
            done = add_pair(s, (side){ .unit = unit_at(s, value->unit), .slot = value->slot }, (side){ .value = value },
                            value->bound);
        }
    }
    for (int u = 0; u < (int)s->units.count && done; u++) {
        done = add_pairs_of_unit(s, unit_at(s, u));
    }
    return done;
}

/* ---- the problem ----------------------------------------------------------------------------------------- */

static bool make_problem(solving *s)
{
    s->num_variables = 0;
    s->problem = weft_assign_new();
    bool done = s->problem != NULL;
    for (int v = 0; v < (int)s->trace->values.count && done; v++) {
        s->values[v].layouts.count = 0;
        s->values[v].variable = -1;
        done = !has_own_variable(&s->values[v]) || add_value_variable(s, v);
    }
    for (int u = 0; u < (int)s->units.count && done; u++) {
        done = add_unit_variable(s, unit_at(s, u));
    }
    return done && add_pairs(s);
}

/* The choice whose layouts are the recorded ones, or nearest to them. */
static int recorded_choice(const solving *s, const weft_shard_unit *unit)
{
    int best = 0, most = -1;
    for (int c = 0; c < unit->num_choices; c++) {
        int equal = 0;
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = value_of(s, unit, slot);
            bool same = value < 0 || weft_shard_unit_layout(unit, c, slot) == recorded_layout(s, value);
            equal += same ? 1 + (unit->is_move && slot == 1) : 0;
        }
        best = equal > most ? c : best;
        most = equal > most ? equal : most;
    }
    return best;
}

static bool find_start(solving *s)
{
    s->start = calloc((size_t)s->num_variables + 1, sizeof(int));
    s->choices = calloc((size_t)s->num_variables + 1, sizeof(int));
    for (int u = 0; u < (int)s->units.count && s->start != NULL; u++) {
        s->start[unit_at(s, u)->variable] = recorded_choice(s, unit_at(s, u));
    }
    return s->start != NULL && s->choices != NULL; /* the first layout of a value is the recorded one */
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

/* Asks each node that has more than one unit, or none, what its outputs will be. One that refuses the layouts keeps those of
 * the capture. */
static bool settle_lists(const solving *s, weft_trace_sharding *to)
{
    for (size_t i = 0; i < s->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(s->trace, i);
        const weft_layout **inputs = to->inputs + to->first_input[i];
        if (node->call->details == NULL || node->call->details->num_tensors == 0) {
            continue;
        }
        const weft_layout **outputs = calloc((size_t)node->num_outputs + 1, sizeof(*outputs));
        int64_t cost;
        bool right = outputs != NULL && weft_shard_ask(s->world, node, inputs, outputs, &cost);
        for (int o = 0; o < node->num_outputs && right; o++) {
            bool bound = node->outputs[o] >= 0 && s->values[node->outputs[o]].bound;
            right = !bound || outputs[o] == inputs[o];
        }
        for (int k = 0; k < node->num_inputs && !right; k++) {
            inputs[k] = recorded_layout(s, node->inputs[k]);
        }
        for (int o = 0; o < node->num_outputs; o++) {
            if (node->outputs[o] >= 0) {
                to->values[node->outputs[o]] = right ? outputs[o] : recorded_layout(s, node->outputs[o]);
            }
        }
        free(outputs);
    }
    return true;
}

static weft_trace_sharding *read_solution(const solving *s)
{
    weft_trace_sharding *to = new_sharding(s->trace);
    for (int u = 0; u < (int)s->units.count && to != NULL; u++) {
        weft_shard_unit *unit = unit_at(s, u);
        unit->chosen = s->choices[unit->variable];
        to->is_passed[unit->node] = unit->is_move;
        for (int slot = 0; slot < unit->num_inputs; slot++) {
            to->inputs[to->first_input[unit->node] + unit->slots[slot]] = weft_shard_unit_layout(unit, unit->chosen, slot);
        }
    }
    for (int v = 0; v < (int)s->trace->values.count && to != NULL; v++) {
        const value_state *value = &s->values[v];
        if (value->unit >= 0) {
            const weft_shard_unit *unit = unit_at(s, value->unit);
            to->values[v] = to->passed[v] = weft_shard_unit_layout(unit, unit->chosen, value->slot);
        }
        if (value->variable >= 0) {
            to->passed[v] = layout_at(value, s->choices[value->variable]);
        }
        if (value->unit < 0) {
            to->values[v] = to->passed[v];
            to->has_moved_inputs |= to->values[v] != recorded_layout(s, v);
        }
    }
    if (to != NULL) {
        settle_lists(s, to);
    }
    return to;
}

/* What the best other layout of a value alone would cost more. */
static int64_t alternative(const solving *s, int number, const weft_trace_sharding *solution)
{
    const value_state *v = &s->values[number];
    const weft_shard_unit *unit = v->unit >= 0 ? unit_at(s, v->unit) : NULL;
    bool by_unit = v->variable < 0;
    int variable = by_unit ? unit->variable : v->variable, count = by_unit ? unit->num_choices : (int)v->layouts.count;
    int64_t best = WEFT_ASSIGN_IMPOSSIBLE;
    for (int c = 0; c < count; c++) {
        const weft_layout *layout = by_unit ? weft_shard_unit_layout(unit, c, v->slot) : layout_at(v, c);
        if (layout != solution->passed[number]) {
            int64_t change = weft_assign_change(s->problem, s->choices, variable, c);
            best = change < best ? change : best;
        }
    }
    return best >= WEFT_ASSIGN_IMPOSSIBLE ? -1 : best;
}

static bool describe(const solving *s, weft_trace_sharding *solution)
{
    int unused;
    const weft_layout **recorded = malloc((solution->num_values + 1) * sizeof(*recorded));
    for (int v = 0; v < (int)solution->num_values && recorded != NULL; v++) {
        recorded[v] = recorded_layout(s, v);
        solution->alternatives[v] = alternative(s, v, solution);
    }
    solution->cost = solution->search.cost;
    solution->recorded_cost = weft_assign_cost(s->problem, s->start);
    solution->recorded_peak = recorded == NULL ? 0 : find_peak(s, recorded, &unused);
    solution->peak = find_peak(s, solution->passed, &unused);
    free(recorded);
    return recorded != NULL;
}

/* ---- solving --------------------------------------------------------------------------------------------- */

static weft_status prepare(solving *s)
{
    bool done = true;
    const weft_layout **recorded = malloc((s->trace->values.count + 1) * sizeof(*recorded));
    s->values = calloc(s->trace->values.count + 1, sizeof(*s->values));
    if (recorded == NULL || s->values == NULL) {
        free(recorded);
        return WEFT_ERR_NOMEM;
    }
    find_bound(s);
    for (size_t i = 0; i < s->trace->nodes.count && done; i++) {
        done = weft_shard_list_units(s->world, s->trace, (int)i, &s->units);
    }
    find_producers(s);
    for (int i = 0; i < s->request->num_pins; i++) {
        s->values[s->request->pins[i].value].pinned = true;
    }
    for (int v = 0; v < (int)s->trace->values.count; v++) {
        recorded[v] = recorded_layout(s, v);
    }
    find_peak(s, recorded, &s->widest_node);
    free(recorded);
    return done && make_problem(s) && find_start(s) ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* The bound holds where most bytes are live in the layouts of the capture; where the result has more elsewhere, the bound is
 * lowered by the difference. */
static weft_status solve_within(solving *s, weft_trace_sharding **solution, char *why, size_t why_size)
{
    enum { TRIES = 5 };
    int64_t bound = s->request->max_bytes > 0 ? s->request->max_bytes : -1;
    bool possible = weft_assign_cost(s->problem, s->start) < WEFT_ASSIGN_IMPOSSIBLE;
    weft_status status = WEFT_OK;
    for (int i = 0; i < TRIES; i++) {
        weft_assign_options options = { .max_memory = bound, .start = possible ? s->start : NULL };
        int unused;
        weft_assignment found;
        status = weft_assign_solve(s->problem, &options, s->choices, &found, why, why_size);
        if (status != WEFT_OK) {
            return status;
        }
        *solution = read_solution(s);
        if (*solution == NULL) {
            return WEFT_ERR_NOMEM;
        }
        (*solution)->search = found;
        int64_t peak = find_peak(s, (*solution)->passed, &unused);
        if (bound < 0 || peak <= s->request->max_bytes) {
            return WEFT_OK;
        }
        weft_trace_sharding_free(*solution);
        *solution = NULL;
        bound -= peak - s->request->max_bytes;
        snprintf(why, why_size, "no layouts were found within %lld bytes: the nearest need %lld",
                 (long long)s->request->max_bytes, (long long)peak);
    }
    return WEFT_ERR_INVALID;
}

static void end(solving *s)
{
    for (size_t v = 0; s->values != NULL && v < s->trace->values.count; v++) {
        weft_vec_free(&s->values[v].layouts);
    }
    weft_assign_free(s->problem);
    weft_shard_units_free(&s->units);
    free(s->values);
    free(s->choices);
    free(s->start);
}

weft_status weft_shard_solve(const weft_shard_request *request, weft_trace_sharding **solution, char *why,
                             size_t why_size)
{
    solving s = { .request = request, .trace = request->trace, .world = request->world };
    *solution = NULL;
    weft_status status = prepare(&s);
    status = status == WEFT_OK ? solve_within(&s, solution, why, why_size) : status;
    status = status == WEFT_OK && !describe(&s, *solution) ? WEFT_ERR_NOMEM : status;
    if (status != WEFT_OK) {
        weft_trace_sharding_free(*solution);
        *solution = NULL;
    }
    end(&s);
    return status;
}
