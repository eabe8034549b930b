/* The search for the best combination of strategies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/types.h"
#include "sharding/candidates.h"

/* Whether the strategy of a mesh dimension leaves all inputs as they are along it. */
static bool keeps_inputs(const weft_searcher *s, const weft_strategy *strategy, int mesh_dim)
{
    for (int i = 0; i < s->binding->num_inputs; i++) {
        if (!weft_placement_equal(strategy->inputs[i], s->inputs[i]->placements[mesh_dim])) {
            return false;
        }
    }
    return true;
}

/* ---- a combination of strategies ----------------------------------------------------------------------- */

typedef struct combination {
    int strategy[WEFT_MAX_DIMS];
    weft_sharding sharding;
    int64_t cost;
    int changed;
    double work; /* index points of the loop nest on the busiest rank */
} combination;

/* The mesh dimensions in the order in which they cut factors. */
static void order_of(const weft_searcher *s, const combination *c, int order[])
{
    weft_placement cuts[WEFT_MAX_DIMS];
    for (int d = 0; d < s->mesh->ndim; d++) {
        cuts[d] = s->strategies[d][c->strategy[d]].cut;
    }
    weft_cut_order(s->mesh->ndim, cuts, order);
}

static double work_of(const weft_searcher *s, const combination *c)
{
    int64_t sizes[WEFT_MAX_FACTORS];
    int order[WEFT_MAX_DIMS];
    for (int f = 0; f < s->binding->num_factors; f++) {
        sizes[f] = s->binding->factors[f].size;
    }
    order_of(s, c, order);
    for (int i = 0; i < s->mesh->ndim; i++) {
        int d = order[i];
        const weft_strategy *strategy = &s->strategies[d][c->strategy[d]];
        if (strategy->factor >= 0) {
            int64_t *size = &sizes[strategy->factor];
            weft_part_largest(strategy->cut, *size, s->mesh->shape[d], size);
        }
    }
    double work = 1;
    for (int f = 0; f < s->binding->num_factors; f++) {
        work *= (double)sizes[f];
    }
    return work;
}

/* Placements of an operand in the layouts that the strategies of `c` lead to; its compound dimensions have `compounds`. False: no
 * placements say it. */
static bool place(const weft_searcher *s, const combination *c, int ndim, const weft_compound compounds[], weft_placement placements[])
{
    int factors[WEFT_MAX_DIMS];
    weft_placement cuts[WEFT_MAX_DIMS];
    bool possible = true;
    for (int m = 0; m < s->mesh->ndim; m++) {
        factors[m] = s->strategies[m][c->strategy[m]].factor;
        cuts[m] = s->strategies[m][c->strategy[m]].cut;
    }
    for (int d = 0; d < ndim && possible; d++) {
        possible = compounds[d].count == 0 ||
                   weft_compound_place(s->binding, &compounds[d], d, s->mesh, factors, cuts, placements);
    }
    return possible;
}

static bool place_input(const weft_searcher *s, const combination *c, int i, weft_placement placements[])
{
    for (int m = 0; m < s->mesh->ndim; m++) {
        placements[m] = s->strategies[m][c->strategy[m]].inputs[i];
    }
    return place(s, c, s->binding->input_ndim[i], s->binding->input_compound[i], placements);
}

static bool place_output(const weft_searcher *s, const combination *c, int o, weft_placement placements[])
{
    for (int m = 0; m < s->mesh->ndim; m++) {
        placements[m] = s->strategies[m][c->strategy[m]].outputs[o];
    }
    return place(s, c, s->binding->outputs[o].ndim, s->binding->outputs[o].compound, placements);
}

/* The future cost of a Partial output. It is free along a mesh dimension whose inputs lie so already: the
 * program asked for it. If inputs move to get there, its reduction counts: otherwise products would move a
 * small operand and leave a huge Partial one. False: impossible. */
static bool add_reduction(weft_searcher *s, combination *c, int o)
{
    weft_placement output[WEFT_MAX_DIMS];
    bool counts = false;
    if (!place_output(s, c, o, output)) {
        return false;
    }
    for (int d = 0; d < s->mesh->ndim; d++) {
        const weft_strategy *strategy = &s->strategies[d][c->strategy[d]];
        if (output[d].kind == WEFT_PARTIAL && keeps_inputs(s, strategy, d)) {
            output[d] = weft_replicate();
        }
        counts |= output[d].kind == WEFT_PARTIAL;
    }
    const weft_candidate *reduction = counts ? weft_output_candidate(s, o, output) : NULL;
    if (counts && (reduction == NULL || reduction->cost < 0)) {
        return false;
    }
    c->cost += counts ? reduction->cost : 0;
    return true;
}

static bool add_reductions(weft_searcher *s, combination *c)
{
    bool possible = true;
    for (int o = 0; o < s->binding->num_outputs && possible; o++) {
        possible = add_reduction(s, c, o);
    }
    return possible;
}

static bool add_way_to_wish(weft_searcher *s, combination *c)
{
    weft_placement output[WEFT_MAX_DIMS];
    if (s->search->wish == 0) {
        return true;
    }
    const weft_candidate *way = place_output(s, c, 0, output) ? weft_wished_candidate(s, output) : NULL;
    c->cost += way == NULL ? 0 : way->cost;
    return way != NULL && way->cost >= 0;
}

/* Fills in the layouts that the strategies of `c` lead to. False: impossible. */
static bool evaluate(weft_searcher *s, combination *c)
{
    c->cost = 0;
    c->changed = 0;
    for (int i = 0; i < s->binding->num_inputs; i++) {
        weft_placement placements[WEFT_MAX_DIMS];
        const weft_candidate *input = place_input(s, c, i, placements) ? weft_input_candidate(s, i, placements) : NULL;
        if (input == NULL || input->cost < 0) {
            return false;
        }
        c->sharding.inputs[i] = input->layout;
        c->cost += input->cost;
        c->changed += input->layout != s->inputs[i];
    }
    c->work = work_of(s, c);
    return add_reductions(s, c) && add_way_to_wish(s, c);
}

static bool better(const combination *a, const combination *b)
{
    if (a->cost != b->cost) {
        return a->cost < b->cost;
    }
    if (a->changed != b->changed) {
        return a->changed < b->changed;
    }
    return a->work < b->work;
}

/* Advances `c` to the next combination, the last mesh dimension fastest. False after the last one. */
static bool advance(const weft_searcher *s, combination *c)
{
    for (int d = s->mesh->ndim - 1; d >= 0; d--) {
        if (++c->strategy[d] < s->num_strategies[d]) {
            return true;
        }
        c->strategy[d] = 0;
    }
    return false;
}

static bool find_best(weft_searcher *s, combination *best)
{
    combination c = { .cost = 0 };
    bool found = false;
    do {
        bool possible = evaluate(s, &c);
        if (s->search->record != NULL) {
            weft_considered figures = { .us = (double)c.cost * 1e-6, .changed = c.changed, .work = c.work };
            memcpy(figures.inputs, c.sharding.inputs, sizeof(figures.inputs));
            weft_search_note(s, c.strategy, possible ? &figures : NULL);
        }
        if (possible && (!found || better(&c, best))) {
            *best = c;
            found = true;
        }
    } while (!s->out_of_memory && advance(s, &c));
    return found && !s->out_of_memory;
}

static bool is_forced(const weft_searcher *s)
{
    return s->search->forced != NULL && s->search->forced->active;
}

/* The combination of a given number, in the order of advance(). False: impossible. */
static bool find_forced(weft_searcher *s, combination *c)
{
    weft_forced_sharding *forced = s->search->forced;
    int64_t count = 1;
    for (int d = 0; d < s->mesh->ndim; d++) {
        count *= s->num_strategies[d];
    }
    forced->most = count > forced->most ? count : forced->most;
    int64_t number = forced->combination % count;
    for (int d = s->mesh->ndim - 1; d >= 0; d--) {
        c->strategy[d] = (int)(number % s->num_strategies[d]);
        number /= s->num_strategies[d];
    }
    return evaluate(s, c);
}

/* ---- which strategies come into question --------------------------------------------------------------- */

/* Whether the Partial placement of `mesh_dim` can stay while all others are reduced. Reductions nest, the
 * last mesh dimension innermost: one that stays must not be inside one of another kind. Sums and averages
 * commute. */
static bool can_stay_partial(const weft_layout *layout, int mesh_dim)
{
    weft_reduce_op op = layout->placements[mesh_dim].op;
    for (int d = 0; d < mesh_dim; d++) {
        weft_placement outer = layout->placements[d];
        bool linear = op <= WEFT_AVG && outer.op <= WEFT_AVG;
        if (outer.kind == WEFT_PARTIAL && outer.op != op && !linear) {
            return false;
        }
    }
    return true;
}

/* Whether addends may be reduced after their conversion to an output's type instead of before. Integers
 * wrap around only in their own type; conversion to fewer bits loses the order, and products of values
 * that are out of range. Sums of floating numbers are as exact as their target type. */
static bool converts(const weft_searcher *s, int input, int output, weft_reduce_op op)
{
    weft_dtype type = s->inputs[input]->dtype, to = s->outputs[output].dtype;
    bool wider = weft_dtype_size(to) > weft_dtype_size(type) || type == WEFT_BOOL;
    int64_t least = 0, least_to = 0;
    uint64_t most;
    if (type == to) {
        return true;
    }
    if (weft_dtype_is_stored(to)) {
        return false; /* no Partial */
    }
    if (weft_whole_range(to, &least_to, &most) && weft_whole_range(type, &least, &most)) {
        wider &= least_to <= least;
    }
    if (WEFT_TYPES_COMPLEX & (WEFT_TYPE_BIT(type) | WEFT_TYPE_BIT(to))) {
        return op <= WEFT_AVG && ((WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX) & WEFT_TYPE_BIT(type)); /* no order, and other products */
    }
    if (WEFT_TYPES_FLOAT & WEFT_TYPE_BIT(type)) {
        return op != WEFT_PROD || wider;
    }
    return (op == WEFT_MIN || op == WEFT_MAX) && (wider || (WEFT_TYPES_FLOAT & WEFT_TYPE_BIT(to)));
}

static bool converts_to_all(const weft_searcher *s, int input, weft_reduce_op op)
{
    bool all = true;
    for (int o = 0; o < s->binding->num_outputs; o++) {
        all &= converts(s, input, o, op);
    }
    return all;
}

/* No redistribution makes a tensor Partial; in place, targets keep their layouts. */
static bool is_possible(const weft_searcher *s, const weft_strategy *strategy, int mesh_dim)
{
    for (int i = 0; i < s->binding->num_inputs; i++) {
        weft_placement now = s->inputs[i]->placements[mesh_dim], wanted = strategy->inputs[i];
        bool changed = i < s->binding->num_outputs && s->outputs[i].in_place;
        if ((wanted.kind == WEFT_PARTIAL || changed) && !weft_placement_equal(now, wanted)) {
            return false;
        }
        if (wanted.kind == WEFT_PARTIAL &&
            (!can_stay_partial(s->inputs[i], mesh_dim) || !converts_to_all(s, i, wanted.op))) {
            return false;
        }
        if (changed && !weft_placement_equal(strategy->outputs[i], wanted)) {
            return false;
        }
    }
    return true;
}

/* The cost of a strategy for one mesh dimension with the others unchanged; an estimate for ranking. */
static int64_t cost_alone(weft_searcher *s, const weft_strategy *strategy, int mesh_dim)
{
    int64_t cost = 0;
    for (int i = 0; i < s->binding->num_inputs; i++) {
        weft_placement placements[WEFT_MAX_DIMS];
        memcpy(placements, s->inputs[i]->placements, sizeof(placements));
        placements[mesh_dim] = strategy->inputs[i];
        const weft_candidate *input = weft_input_candidate(s, i, placements);
        if (input == NULL || input->cost < 0) {
            return INT64_MAX;
        }
        cost += input->cost;
    }
    return cost;
}

/* Keeps the `keep` cheapest strategies of a mesh dimension, in their order. All Replicate, the last one,
 * stays: it is always possible. */
static void prune(weft_searcher *s, int mesh_dim, int keep)
{
    weft_strategy *all = s->strategies[mesh_dim];
    int count = s->num_strategies[mesh_dim];
    int64_t cost[WEFT_MAX_STRATEGIES];
    for (int i = 0; i < count; i++) {
        cost[i] = i == count - 1 ? -1 : cost_alone(s, &all[i], mesh_dim);
    }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int cheaper = 0;
        for (int j = 0; j < count; j++) {
            cheaper += cost[j] < cost[i] || (cost[j] == cost[i] && j < i);
        }
        if (cheaper < keep) {
            all[kept++] = all[i];
        }
    }
    s->num_strategies[mesh_dim] = kept;
}

/* If every mesh dimension has strategies that leave the inputs as they are, and these fit together,
 * nothing that moves an input can be better: keeps these alone. False: there are none. */
static bool drop_needless_moves(weft_searcher *s)
{
    for (int d = 0; d < s->mesh->ndim; d++) {
        int i = 0;
        while (i < s->num_strategies[d] && !keeps_inputs(s, &s->strategies[d][i], d)) {
            i++;
        }
        if (i == s->num_strategies[d]) {
            return false;
        }
    }
    for (int d = 0; d < s->mesh->ndim; d++) {
        int count = 0;
        for (int i = 0; i < s->num_strategies[d]; i++) {
            if (keeps_inputs(s, &s->strategies[d][i], d)) {
                s->strategies[d][count++] = s->strategies[d][i];
            }
        }
        s->num_strategies[d] = count;
    }
    return true;
}

/* At most this many combinations are compared: about as many microseconds on a cache miss. */
enum { MAX_COMBINATIONS = 4096 };

static void prune_all(weft_searcher *s)
{
    double combinations = 1;
    for (int d = 0; d < s->mesh->ndim; d++) {
        combinations *= s->num_strategies[d];
    }
    if (combinations <= MAX_COMBINATIONS) {
        return;
    }
    int keep = 1;
    while (pow(keep + 1, s->mesh->ndim) <= MAX_COMBINATIONS) {
        keep++;
    }
    for (int d = 0; d < s->mesh->ndim; d++) {
        prune(s, d, keep);
    }
}

static const weft_layout *first_target(const weft_searcher *s)
{
    int target = 0;
    while (target + 1 < s->binding->num_outputs && !s->outputs[target].in_place) {
        target++;
    }
    return s->inputs[target];
}

/* False with why: a mesh dimension has no strategy at all, which happens in place only. */
static bool list_possible(weft_searcher *s, char *why, size_t why_size)
{
    for (int d = 0; d < s->mesh->ndim; d++) {
        weft_strategy all[WEFT_MAX_STRATEGIES];
        int count = weft_strategy_list(s->binding, s->outputs, s->mesh, s->inputs, d, all);
        s->num_strategies[d] = 0;
        for (int i = 0; i < count; i++) {
            if (is_possible(s, &all[i], d)) {
                s->strategies[d][s->num_strategies[d]++] = all[i];
            }
        }
        if (s->num_strategies[d] == 0) {
            char text[160];
            snprintf(why, why_size,
                     "cannot change the target %s in place: no layout of the other inputs fits it in mesh dimension %d; redistribute the target first",
                     weft_layout_format(first_target(s), text, sizeof(text)), d);
            return false;
        }
    }
    return true;
}

/* Cuts of compound dimensions may not fit together without a move. */
static bool find_among_all(weft_searcher *s, combination *best)
{
    bool complete = s->search->record != NULL && s->search->record->complete;
    /* An input that moves may save the output a longer way to where it is wished. */
    if (!complete && s->search->wish == 0 && drop_needless_moves(s)) {
        prune_all(s);
        if (find_best(s, best) && best->changed == 0) {
            return true;
        }
        list_possible(s, NULL, 0);
    }
    prune_all(s);
    return find_best(s, best);
}

static void note_windows(const weft_binding *binding, weft_sharding *sharding)
{
    sharding->has_access_maps = false;
    for (int i = 0; i < binding->num_inputs; i++) {
        for (int d = 0; d < WEFT_MAX_DIMS; d++) {
            sharding->window_rows[i][d] = weft_rows_of_access(binding, i, d);
            sharding->has_access_maps |= sharding->window_rows[i][d] >= 0;
        }
    }
}

static void note_cuts(const weft_searcher *s, const combination *best, weft_sharding *sharding)
{
    sharding->has_cuts = true;
    for (int d = 0; d < s->mesh->ndim; d++) {
        sharding->cuts[d] = s->strategies[d][best->strategy[d]].cut;
    }
}

/* False: no memory. */
static bool note_outputs(const weft_searcher *s, const combination *best, weft_sharding *sharding)
{
    bool all = true;
    sharding->num_outputs = s->binding->num_outputs;
    for (int o = 0; o < s->binding->num_outputs; o++) {
        weft_placement placements[WEFT_MAX_DIMS];
        place_output(s, best, o, placements);
        sharding->outputs[o] = weft_searched_output(s, o, placements);
        sharding->output_rows[o] = weft_binding_output_rows(s->binding, o);
        all &= sharding->outputs[o] != NULL;
    }
    return all;
}

weft_status weft_strategy_search(const weft_search *search, const weft_binding *binding,
                                 const weft_output_kind outputs[], const weft_layout *const inputs[],
                                 weft_sharding *sharding, char *why, size_t why_size)
{
    weft_searcher space, *s = &space; /* free() of so much memory would put the allocator's small blocks together, each time */
    memset(s, 0, offsetof(weft_searcher, strategies));
    s->search = search;
    s->binding = binding;
    s->inputs = inputs;
    s->mesh = inputs[0]->mesh;
    s->outputs = outputs;
    weft_status status = WEFT_ERR_LAYOUT;
    combination best = { .cost = 0 };
    if (list_possible(s, why, why_size)) {
        if (is_forced(s) ? find_forced(s, &best) : find_among_all(s, &best)) {
            *sharding = best.sharding;
            for (int i = 0; i < binding->num_inputs; i++) {
                sharding->rows[i] = weft_binding_rows(binding, i);
            }
            note_windows(binding, sharding);
            note_cuts(s, &best, sharding);
            int first = binding->outputs[0].ndim > 0 ? binding->outputs[0].factor_of[0] : -1;
            sharding->whole_rows = first >= 0 && binding->factors[first].whole;
            status = note_outputs(s, &best, sharding) ? WEFT_OK : WEFT_ERR_NOMEM;
        } else {
            snprintf(why, why_size, "its inputs cannot be redistributed to any layout that it can work on");
        }
    }
    status = s->out_of_memory ? WEFT_ERR_NOMEM : status;
    for (int i = 0; i < binding->num_inputs; i++) {
        weft_vec_free(&s->candidates[i]);
    }
    for (int o = 0; o < binding->num_outputs; o++) {
        weft_vec_free(&s->reductions[o]);
    }
    weft_vec_free(&s->wished);
    return status;
}
