/* The stages that turn one layout into another: candidates, compared by predicted cost. All of it is a
 * function of layouts, topology and cost model, so every rank decides alike. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codelets/complex.h"
#include "plan/moves.h"

/* ---- reductions ---------------------------------------------------------------------------------------- */

static bool is_additive(weft_reduce_op op)
{
    return op == WEFT_SUM || op == WEFT_AVG;
}

/* Reductions that may be done together, in any order. */
static bool ops_agree(weft_reduce_op a, weft_reduce_op b)
{
    return a == b || (is_additive(a) && is_additive(b));
}

static bool is_kept(const weft_layout *from, const weft_layout *to, int m)
{
    return from->mesh == to->mesh && to->placements[m].kind == WEFT_PARTIAL;
}

/* More addends than this are reduced in several stages, mesh dimension by mesh dimension: a rank then
 * exchanges with n1 + n2 others instead of n1 * n2; a single dimension of more ranks is factored for it.
 * This does not depend on the cost model, because it determines the order of floating-point additions,
 * which must not depend on how ranks are spread over processes. */
static const int64_t max_addends = 64;

/* A dimension of more ranks is factored twice: n^(1/2) addends at once would be very many. */
static const int64_t max_addends_split_once = (int64_t)1 << 16;

/* Moves the reduction of a Partial dimension of many ranks to a factored mesh: both ends if possible, else
 * the source alone. Depends only on the layouts. False: no memory. */
static bool factor_reduction(const weft_planner *p, const weft_layout **from, const weft_layout **to)
{
    bool marked[WEFT_MAX_DIMS] = { false };
    int64_t largest = 0;
    for (int m = 0; m < (*from)->mesh->ndim; m++) {
        marked[m] = (*from)->placements[m].kind == WEFT_PARTIAL && !is_kept(*from, *to, m);
        largest = marked[m] ? weft_max_i64(largest, (*from)->mesh->shape[m]) : largest;
    }
    weft_factored_mesh factored;
    int rounds = largest > max_addends_split_once ? 2 : 1;
    if (largest <= max_addends) {
        return true;
    }
    if (!weft_factor_mesh(p->table, (*from)->mesh, marked, max_addends, rounds, &factored)) {
        return false;
    }
    if ((*from)->mesh == (*to)->mesh) {
        weft_route r;
        bool possible, done = weft_route_factor(p, &factored, *from, *to, &r, &possible);
        *from = done ? r.from : *from;
        *to = done ? r.to : *to;
        return done || !possible;
    }
    /* Only Partial dimensions are factored, so that the source's boxes stay the same. */
    weft_placement placements[WEFT_MAX_DIMS];
    weft_factored_placements(&factored, *from, placements);
    *from = weft_layout_on_mesh(p, *from, factored.fine, placements);
    return *from != NULL;
}

/* The mesh dimensions that one reduce stage reduces: from the last Partial one to the left, while their
 * ops are equal. */
typedef struct group {
    bool member[WEFT_MAX_DIMS];
    int size;
    int64_t addends;
    weft_reduce_op op;
    double scale;
} group;

static group last_group(const weft_layout *current, const weft_layout *to)
{
    group g = { .addends = 1, .scale = 1.0 };
    for (int m = current->mesh->ndim - 1; m >= 0; m--) {
        weft_placement placement = current->placements[m];
        if (placement.kind != WEFT_PARTIAL || is_kept(current, to, m)) {
            continue;
        }
        bool fits = ops_agree(g.op, placement.op) && g.addends * current->mesh->shape[m] <= max_addends;
        if (g.size > 0 && !fits) {
            break;
        }
        g.member[m] = true;
        g.size++;
        g.addends *= current->mesh->shape[m];
        g.op = placement.op == WEFT_AVG ? WEFT_SUM : placement.op;
        g.scale /= placement.op == WEFT_AVG ? (double)current->mesh->shape[m] : 1.0;
    }
    return g;
}

static weft_stage reduce_stage(const weft_layout *from, const weft_layout *to, const group *g)
{
    return (weft_stage){ .from = from, .to = to, .reduces = true, .op = g->op, .scale = g->scale };
}

/* Reduces the group into `middle`, then continues to `to` if nothing is left to reduce; keeps the chain if
 * it is the cheapest. */
static bool try_middle(const weft_planner *p, const weft_layout *current, const weft_layout *middle,
                       const weft_layout *to, const group *g, bool last, weft_chain *best)
{
    if (middle == NULL || !weft_layouts_number_all_alike(middle, current)) {
        return middle != NULL;
    }
    weft_chain c = { .algorithm = middle == to ? "reduce" : "reduce+move" };
    weft_chain_add(p, &c, reduce_stage(current, middle, g));
    const double left = best->num_stages == 0 ? INFINITY : best->us - c.us;
    weft_chain rest = { .num_stages = 0 };
    if (left <= 0) {
        return true;
    }
    if (last && !weft_best_move(p, middle, to, left, &rest)) {
        return false;
    }
    weft_chain_append(&c, &rest);
    if (best->num_stages == 0 || weft_chain_is_better(&c, best)) {
        *best = c;
    }
    return true;
}

/* The layouts that a group can be reduced into: the destination itself; each tensor dimension sharded if
 * the destination does not say which (the scatter of a reduce-scatter); Replicate. The other placements
 * stay. */
static bool best_reduction(const weft_planner *p, const weft_layout *current, const weft_layout *to,
                           const group *g, bool last, weft_chain *best)
{
    *best = (weft_chain){ .num_stages = 0 };
    bool same_mesh = current->mesh == to->mesh;
    if (last && same_mesh && !try_middle(p, current, to, to, g, last, best)) {
        return false;
    }
    for (int d = -1; d < current->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        memcpy(placements, current->placements, sizeof(placements));
        for (int m = 0; m < current->mesh->ndim; m++) {
            if (!g->member[m]) {
                continue;
            }
            bool wanted = same_mesh && to->placements[m].kind == WEFT_SHARD;
            placements[m] = wanted ? to->placements[m] : d < 0 ? weft_replicate() : weft_shard(d);
        }
        const weft_layout *middle = weft_layout_on_mesh(p, current, current->mesh, placements);
        if (middle != to && !try_middle(p, current, middle, to, g, last, best)) {
            return false;
        }
    }
    return true;
}

/* Partial dimensions that `current` has and `to` has not, without those of the group. */
static bool reductions_left(const weft_layout *current, const weft_layout *to, const group *g)
{
    for (int m = 0; m < current->mesh->ndim; m++) {
        if (current->placements[m].kind == WEFT_PARTIAL && !is_kept(current, to, m) && !g->member[m]) {
            return true;
        }
    }
    return false;
}

/* ---- the plan ------------------------------------------------------------------------------------------ */

static bool is_floating(weft_dtype dtype)
{
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16 || weft_dtype_is_complex(dtype);
}

static weft_status check_partials(const weft_layout *from, const weft_layout *to, char *why, size_t why_size)
{
    for (int m = 0; m < to->mesh->ndim; m++) {
        if (to->placements[m].kind != WEFT_PARTIAL) {
            continue;
        }
        if (from->mesh != to->mesh || !weft_placement_equal(from->placements[m], to->placements[m])) {
            char there[40];
            snprintf(why, why_size,
                     "placement %d is Partial, and the tensor%s is %s there: nothing is redistributed to Partial, only to Shard "
                     "or Replicate",
                     m, from->mesh != to->mesh ? ", on another mesh," : "",
                     m < from->mesh->ndim ? weft_placements_text(&from->placements[m], 1, there, sizeof(there)) : "not cut");
            return WEFT_ERR_LAYOUT;
        }
        for (int outer = 0; outer < m; outer++) {
            bool reduced = from->placements[outer].kind == WEFT_PARTIAL && !is_kept(from, to, outer);
            if (reduced && !ops_agree(from->placements[outer].op, to->placements[m].op)) {
                snprintf(why, why_size,
                         "placement %d stays Partial(%s), but placement %d is reduced after it: the last one "
                         "comes first",
                         m, weft_reduce_op_name(to->placements[m].op), outer);
                return WEFT_ERR_LAYOUT;
            }
        }
    }
    for (int m = 0; m < from->mesh->ndim; m++) {
        weft_placement p = from->placements[m];
        if (p.kind == WEFT_PARTIAL && !is_kept(from, to, m) && weft_dtype_is_stored(from->dtype)) {
            snprintf(why, why_size, "Partial(%s) of %s cannot be reduced: the type has no arithmetic", weft_reduce_op_name(p.op),
                     weft_dtype_name(from->dtype));
            return WEFT_ERR_DTYPE;
        }
        if (p.kind == WEFT_PARTIAL && p.op == WEFT_AVG && !is_kept(from, to, m) &&
            !is_floating(from->dtype)) {
            snprintf(why, why_size, "Partial(avg) of %s cannot be reduced: an average needs a floating type",
                     weft_dtype_name(from->dtype));
            return WEFT_ERR_DTYPE;
        }
        if (p.kind == WEFT_PARTIAL && (p.op == WEFT_MIN || p.op == WEFT_MAX) && !is_kept(from, to, m) &&
            weft_dtype_is_complex(from->dtype)) {
            snprintf(why, why_size, "Partial(%s) of %s cannot be reduced: complex numbers have no order",
                     weft_reduce_op_name(p.op), weft_dtype_name(from->dtype));
            return WEFT_ERR_DTYPE;
        }
    }
    return WEFT_OK;
}

/* The source without the Partial placements that `to` has not, before its rows are numbered differently: sharded, if that changes no
 * numbers, or else replicated. NULL: no memory. */
static const weft_layout *reduced(const weft_planner *p, const weft_layout *from, const weft_layout *to, bool sharded)
{
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, from->placements, sizeof(placements));
    for (int m = 0; m < from->mesh->ndim; m++) {
        if (from->placements[m].kind == WEFT_PARTIAL && !is_kept(from, to, m)) {
            bool like = from->mesh == to->mesh && to->placements[m].kind == WEFT_SHARD;
            placements[m] = sharded && from->ndim > 0 ? weft_shard(like ? to->placements[m].dim : 0) : weft_replicate();
        }
    }
    const weft_layout *middle = weft_layout_on_mesh(p, from, from->mesh, placements);
    bool fits = middle == NULL || !sharded || weft_layouts_number_all_alike(from, middle);
    return fits ? middle : reduced(p, from, to, false);
}

/* The layout with its rows in the order of their numbers: each cut is a plain one. NULL: no memory. */
static const weft_layout *in_order(const weft_planner *p, const weft_layout *layout)
{
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, layout->placements, sizeof(placements));
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (placements[m].kind == WEFT_SHARD) {
            placements[m] = weft_shard(placements[m].dim);
        }
    }
    return weft_layout_on_mesh(p, layout, layout->mesh, placements);
}

static bool build(const weft_planner *p, const weft_layout *from, const weft_layout *to, weft_chain *all);

/* Between layouts that number rows differently, without a Partial that is reduced: in one stage, in which each rank may need all
 * others; or by way of rows in order at both ends, between which stages with few peers lead. At most `room` stages. */
static bool renumber(const weft_planner *p, const weft_layout *from, const weft_layout *to, int room, weft_chain *all)
{
    const weft_layout *first = in_order(p, from), *last = in_order(p, to);
    weft_chain longer = { .num_stages = 0 }, middle;
    weft_chain_add_move(p, all, from, to);
    if (first == NULL || last == NULL) {
        return false;
    }
    if (first == last || !weft_layouts_number_all_alike(first, last)) {
        return true;
    }
    if (!build(p, first, last, &middle)) {
        return false;
    }
    if (middle.num_stages + 2 > room) {
        return true;
    }
    weft_chain_add_move(p, &longer, from, first);
    weft_chain_append(&longer, &middle);
    weft_chain_add_move(p, &longer, last, to);
    if (weft_chain_is_better(&longer, all)) {
        *all = longer;
    }
    return true;
}

static bool build(const weft_planner *p, const weft_layout *from, const weft_layout *to, weft_chain *all)
{
    *all = (weft_chain){ .algorithm = "identity" };
    if (from == to) {
        return true;
    }
    if (!weft_layouts_number_all_alike(from, to)) {
        const weft_layout *middle = reduced(p, from, to, true);
        weft_chain last = { .num_stages = 0 };
        bool done = middle != NULL && build(p, from, middle, all) && renumber(p, middle, to, WEFT_MAX_STAGES - all->num_stages, &last);
        weft_chain_append(all, &last);
        all->algorithm = middle == from ? "renumber" : "reduce+renumber";
        return done;
    }
    if (!factor_reduction(p, &from, &to)) {
        return false;
    }
    const weft_layout *current = from;
    for (bool last = false; !last;) {
        weft_chain next;
        group g = last_group(current, to);
        last = !reductions_left(current, to, &g);
        bool done =
            g.size > 0 ? best_reduction(p, current, to, &g, last, &next) : weft_best_move(p, current, to, INFINITY, &next);
        if (!done) {
            return false;
        }
        weft_chain_append(all, &next);
        all->algorithm = next.algorithm;
        current = next.stages[next.num_stages - 1].to;
    }
    return true;
}

static weft_status make(const weft_planner *p, const weft_layout *from, const weft_layout *to, weft_plan *plan, char *why,
                        size_t why_size)
{
    why_size = why == NULL ? 0 : why_size;
    weft_status status = check_partials(from, to, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    weft_chain all;
    if (!build(p, from, to, &all)) {
        snprintf(why, why_size, "no memory for a layout");
        return WEFT_ERR_NOMEM;
    }
    *plan = (weft_plan){
        .from = from,
        .to = to,
        .num_stages = all.num_stages,
        .algorithm = all.algorithm,
        .predicted_us = all.us,
    };
    memcpy(plan->stages, all.stages, (size_t)all.num_stages * sizeof(all.stages[0]));
    return WEFT_OK;
}

weft_status weft_plan_make(weft_layout_table *table, const weft_topology *topology,
                           const weft_cost_model *cost, const weft_layout *from, const weft_layout *to,
                           weft_plan *plan, char *why, size_t why_size)
{
    return make(&(weft_planner){ table, topology, cost, false }, from, to, plan, why, why_size);
}

static double cost_of_plan(const weft_planner *p, const weft_layout *from, const weft_layout *to)
{
    weft_plan plan;
    return make(p, from, to, &plan, NULL, 0) == WEFT_OK ? plan.predicted_us : -1.0;
}

double weft_plan_cost(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                      const weft_layout *from, const weft_layout *to)
{
    return cost_of_plan(&(weft_planner){ table, topology, cost, false }, from, to);
}

double weft_plan_estimate(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                          const weft_layout *from, const weft_layout *to)
{
    return cost_of_plan(&(weft_planner){ table, topology, cost, true }, from, to);
}
