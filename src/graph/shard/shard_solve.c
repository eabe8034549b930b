/* All calls of a trace together: the problem, its solution, and what follows for the trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/shard/shard_problem.h"

/* ---- values ---------------------------------------------------------------------------------------------- */

static void find_bound(const weft_shard_problem *s)
{
    for (size_t v = 0; v < s->trace->values.count; v++) {
        const weft_graph_value *value = weft_trace_value(s->trace, (int)v);
        s->values[v] = (weft_shard_value){ .unit = -1, .variable = -1, .bound = value->is_input };
        s->values[v].wanted = s->trace->wanted == NULL ? value->last_use < 0 : s->trace->wanted[v];
    }
    for (size_t i = 0; i < s->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(s->trace, i);
        for (int o = 0; o < node->num_outputs; o++) {
            bool changes = node->outputs[o] >= 0 && weft_call_changes(node->call, o);
            if (changes && s->values[node->inputs[o]].bound) {
                s->values[node->outputs[o]].bound = true;
            }
            if (node->outputs[o] >= 0 && !weft_call_is_action(node->call)) {
                s->values[node->outputs[o]].views = node->call->operation->views;
            }
        }
    }
}

static void find_producers(const weft_shard_problem *s)
{
    for (int u = 0; u < (int)s->units.count; u++) {
        const weft_shard_unit *unit = weft_shard_unit_at(s, u);
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = weft_shard_value_of(s, unit, slot);
            if (value < 0) {
                continue;
            }
            if (slot < unit->num_inputs) {
                s->values[value].num_uses++;
            } else if (unit->is_move || !weft_trace_value(s->trace, value)->is_input) {
                /* An output that is an input as it is keeps the number. */
                bool own = true;
                for (int i = 0; i < unit->num_inputs; i++) {
                    own &= weft_shard_value_of(s, unit, i) != value;
                }
                s->values[value].unit = own ? u : s->values[value].unit;
                s->values[value].slot = own ? slot : s->values[value].slot;
            }
        }
    }
}

static bool add_layout(weft_shard_problem *s, weft_shard_value *v, const weft_layout *layout)
{
    for (size_t i = 0; i < v->layouts.count; i++) {
        if (weft_shard_layout_at(v, (int)i) == layout) {
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

static bool fulfils_pins(const weft_shard_problem *s, int value, const weft_layout *layout)
{
    bool right = true;
    for (int i = 0; i < s->request->num_pins; i++) {
        const weft_shard_pin *pin = &s->request->pins[i];
        for (int m = 0; m < layout->mesh->ndim && pin->value == value; m++) {
            bool concerned = pin->mesh_dim < 0 || pin->mesh_dim == m;
            right &= !concerned || weft_layout_lies_as(layout, m, pin->placement);
        }
    }
    return right;
}

/* Values that more than one call reads, that the program gets, or that are pinned, are brought to one layout once. */
static bool has_own_variable(const weft_shard_value *v)
{
    return v->unit < 0 || v->pinned || (v->num_uses > 0 && (v->num_uses > 1 || v->wanted)) || v->bound;
}

static bool list_value_layouts(weft_shard_problem *s, int number)
{
    weft_shard_value *v = &s->values[number];
    const weft_layout *recorded = weft_trace_layout(s->trace, number);
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
        const weft_shard_unit *unit = weft_shard_unit_at(s, u);
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            bool concerned = slot < unit->num_inputs ? true : u == v->unit && slot == v->slot;
            if (!concerned || weft_shard_value_of(s, unit, slot) != number) {
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
static bool is_live(const weft_shard_problem *s, int value, int node)
{
    const weft_shard_value *v = &s->values[value];
    const weft_graph_value *recorded = weft_trace_value(s->trace, value);
    if (recorded->is_input) {
        return true;
    }
    if (v->unit < 0 || v->bound || v->views) {
        return false; /* memory of an input, or a share */
    }
    return weft_shard_unit_at(s, v->unit)->node <= node && (recorded->last_use >= node || v->wanted);
}

/* ---- variables ------------------------------------------------------------------------------------------- */

static bool note_variable(weft_shard_problem *s, int variable, int *place)
{
    *place = variable;
    s->num_variables += variable >= 0;
    s->out_of_memory |= variable < 0;
    return variable >= 0;
}

static bool add_value_variable(weft_shard_problem *s, int number)
{
    weft_shard_value *v = &s->values[number];
    const weft_layout *recorded = weft_trace_layout(s->trace, number);
    if (!list_value_layouts(s, number)) {
        return false;
    }
    size_t count = v->layouts.count;
    int64_t *cost = malloc(2 * count * sizeof(int64_t)), *memory = cost == NULL ? NULL : cost + count;
    for (size_t i = 0; cost != NULL && i < count; i++) {
        const weft_layout *layout = weft_shard_layout_at(v, (int)i);
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
static bool add_unit_variable(weft_shard_problem *s, weft_shard_unit *unit)
{
    size_t count = (size_t)unit->num_choices;
    int64_t *cost = malloc(2 * count * sizeof(int64_t)), *memory = cost == NULL ? NULL : cost + count;
    for (size_t c = 0; cost != NULL && c < count; c++) {
        cost[c] = unit->cost[c];
        memory[c] = 0;
        for (int slot = unit->num_inputs; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = weft_shard_value_of(s, unit, slot);
            const weft_layout *layout = weft_shard_unit_layout(unit, (int)c, slot);
            const weft_shard_value *v = value < 0 ? NULL : &s->values[value];
            if (v == NULL || layout == NULL || v->unit < 0 || weft_shard_unit_at(s, v->unit) != unit || has_own_variable(v)) {
                continue;
            }
            int64_t last = v->wanted ? weft_shard_move_cost(s->world, layout, weft_trace_layout(s->trace, value)) : 0;
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
    const weft_shard_value *value; /* or NULL */
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
    return of->value != NULL ? weft_shard_layout_at(of->value, choice) : weft_shard_unit_layout(of->unit, choice, of->slot);
}

/* Redistributions from one side to the other; `equal`: none is allowed. False: no memory. */
static bool add_pair(weft_shard_problem *s, side from, side to, bool equal)
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

static side value_side(const weft_shard_problem *s, int value)
{
    const weft_shard_value *v = &s->values[value];
    return v->variable >= 0 ? (side){ .value = v } : (side){ .unit = weft_shard_unit_at(s, v->unit), .slot = v->slot };
}

/* Whether an input of the unit is an output of the call as it is. */
static bool is_returned(const weft_graph_node *node, int input)
{
    bool returned = false;
    for (int o = 0; o < node->num_outputs; o++) {
        int found = weft_shard_returned_input(node, o);
        returned |= found >= 0 && node->inputs[found] == node->inputs[input];
    }
    return returned;
}

/* Whether an input of the unit is changed in place, in a tensor of the program's, or is an output too: it lies as its value does. */
static bool must_stay(const weft_shard_problem *s, const weft_shard_unit *unit, int slot)
{
    const weft_graph_node *node = weft_trace_node(s->trace, (size_t)unit->node);
    int input = unit->slots[slot];
    if (!unit->is_move && is_returned(node, input)) {
        return true;
    }
    return input < node->num_outputs && node->outputs[input] >= 0 && weft_call_changes(node->call, input) &&
           s->values[node->inputs[input]].bound;
}

static bool add_pairs_of_unit(weft_shard_problem *s, const weft_shard_unit *unit)
{
    bool done = true;
    for (int slot = 0; slot < unit->num_inputs && done; slot++) {
        int value = weft_shard_value_of(s, unit, slot);
        if (value >= 0) {
            done = add_pair(s, value_side(s, value), (side){ .unit = unit, .slot = slot }, must_stay(s, unit, slot));
        }
    }
    return done;
}

static bool add_pairs(weft_shard_problem *s)
{
    bool done = true;
    for (int v = 0; v < (int)s->trace->values.count && done; v++) {
        const weft_shard_value *value = &s->values[v];
        if (value->unit >= 0 && value->variable >= 0) {
            done = add_pair(s, (side){ .unit = weft_shard_unit_at(s, value->unit), .slot = value->slot }, (side){ .value = value },
                            value->bound);
        }
    }
    for (int u = 0; u < (int)s->units.count && done; u++) {
        done = add_pairs_of_unit(s, weft_shard_unit_at(s, u));
    }
    return done;
}

/* ---- the problem ----------------------------------------------------------------------------------------- */

static bool make_problem(weft_shard_problem *s)
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
        done = add_unit_variable(s, weft_shard_unit_at(s, u));
    }
    return done && add_pairs(s);
}

/* The choice whose layouts are the recorded ones, or nearest to them. */
static int recorded_choice(const weft_shard_problem *s, const weft_shard_unit *unit)
{
    int best = 0, most = -1;
    for (int c = 0; c < unit->num_choices; c++) {
        int equal = 0;
        for (int slot = 0; slot < unit->num_inputs + unit->num_outputs; slot++) {
            int value = weft_shard_value_of(s, unit, slot);
            bool same = value < 0 || weft_shard_unit_layout(unit, c, slot) == weft_trace_layout(s->trace, value);
            equal += same ? 1 + (unit->is_move && slot == 1) : 0;
        }
        best = equal > most ? c : best;
        most = equal > most ? equal : most;
    }
    return best;
}

static bool find_start(weft_shard_problem *s)
{
    s->start = calloc((size_t)s->num_variables + 1, sizeof(int));
    s->choices = calloc((size_t)s->num_variables + 1, sizeof(int));
    for (int u = 0; u < (int)s->units.count && s->start != NULL; u++) {
        s->start[weft_shard_unit_at(s, u)->variable] = recorded_choice(s, weft_shard_unit_at(s, u));
    }
    return s->start != NULL && s->choices != NULL; /* the first layout of a value is the recorded one */
}

/* ---- solving --------------------------------------------------------------------------------------------- */

static weft_status prepare(weft_shard_problem *s)
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
        recorded[v] = weft_trace_layout(s->trace, v);
    }
    weft_shard_peak(s, recorded, &s->widest_node);
    free(recorded);
    return done && make_problem(s) && find_start(s) ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* The layouts found. A call on a list of tensors that refuses its own keeps those of the capture, to which other calls may have
 * left no way: then all stay as they were recorded, if the pins let them. A status with why. */
static weft_status read_solution(weft_shard_problem *s, bool can_stay, weft_assignment *found, weft_trace_sharding **solution,
                                 char *why, size_t why_size)
{
    *solution = weft_shard_read_solution(s);
    if (*solution != NULL && !weft_shard_can_be_made(s, *solution)) {
        weft_trace_sharding_free(*solution);
        *solution = NULL;
        if (!can_stay) {
            snprintf(why, why_size, "no layouts were found that fit the pins and the calls on lists of tensors");
            return WEFT_ERR_INVALID;
        }
        memcpy(s->choices, s->start, (size_t)s->num_variables * sizeof(int));
        found->cost = weft_assign_cost(s->problem, s->start);
        found->proved = false;
        *solution = weft_shard_read_solution(s);
    }
    if (*solution == NULL) {
        return WEFT_ERR_NOMEM;
    }
    (*solution)->search = *found;
    return WEFT_OK;
}

/* The bound holds where most bytes are live in the layouts of the capture; where the result has more elsewhere, the bound is
 * lowered by the difference. */
static weft_status solve_within(weft_shard_problem *s, weft_trace_sharding **solution, char *why, size_t why_size)
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
        status = read_solution(s, possible, &found, solution, why, why_size);
        if (status != WEFT_OK) {
            return status;
        }
        int64_t peak = weft_shard_peak(s, (*solution)->passed, &unused);
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

static void end(weft_shard_problem *s)
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
    weft_shard_problem s = { .request = request, .trace = request->trace, .world = request->world };
    *solution = NULL;
    weft_status status = prepare(&s);
    status = status == WEFT_OK ? solve_within(&s, solution, why, why_size) : status;
    status = status == WEFT_OK && !weft_shard_describe(&s, *solution) ? WEFT_ERR_NOMEM : status;
    if (status != WEFT_OK) {
        weft_trace_sharding_free(*solution);
        *solution = NULL;
    }
    end(&s);
    return status;
}
