/* Which stages turn one layout into another: candidates, compared by predicted cost. Everything here is a
 * function of layouts, topology and cost model alone, so that every rank decides alike. */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

typedef struct planner {
    weft_layout_table *table;
    const weft_topology *topology;
    const weft_cost_model *cost;
} planner;

/* A list of stages under consideration. */
typedef struct chain {
    int num_stages;
    weft_stage stages[WEFT_MAX_STAGES];
    double us;
    const char *algorithm;
} chain;

/* ---- chains -------------------------------------------------------------------------------------------- */

static void chain_add(const planner *p, chain *c, weft_stage stage)
{
    c->us += weft_stage_cost(&stage, p->topology, p->cost);
    c->stages[c->num_stages++] = stage;
}

static void chain_add_move(const planner *p, chain *c, const weft_layout *from, const weft_layout *to)
{
    if (from != to) {
        chain_add(p, c, (weft_stage){ .from = from, .to = to, .scale = 1.0 });
    }
}

static const weft_layout *with_placements(const planner *p, const weft_layout *like,
                                          const weft_placement *placements)
{
    return weft_layout_intern(p->table, like->mesh, placements, like->ndim, like->shape, like->dtype);
}

/* ---- moves --------------------------------------------------------------------------------------------- */

/* Changes one mesh dimension at a time: fewer peers per stage, at the price of more stages. False: no
 * memory. */
static bool move_by_dimension(const planner *p, const weft_layout *from, const weft_layout *to,
                              bool last_first, chain *c)
{
    int ndim = from->mesh->ndim;
    const weft_layout *current = from;
    for (int i = 0; i < ndim; i++) {
        int m = last_first ? ndim - 1 - i : i;
        if (weft_placement_equal(current->placements[m], to->placements[m])) {
            continue;
        }
        weft_placement placements[WEFT_MAX_DIMS];
        memcpy(placements, current->placements, sizeof(placements));
        placements[m] = to->placements[m];
        const weft_layout *next = with_placements(p, from, placements);
        if (next == NULL) {
            return false;
        }
        chain_add_move(p, c, current, next);
        current = next;
    }
    c->algorithm = "staged";
    return true;
}

static int placements_changed(const weft_layout *from, const weft_layout *to)
{
    int changed = 0;
    for (int m = 0; m < from->mesh->ndim; m++) {
        changed += !weft_placement_equal(from->placements[m], to->placements[m]);
    }
    return changed;
}

/* The cheapest way without reductions. */
static bool best_move(const planner *p, const weft_layout *from, const weft_layout *to, chain *best)
{
    *best = (chain){ .algorithm = "direct" };
    chain_add_move(p, best, from, to);
    if (from == to || from->mesh != to->mesh || placements_changed(from, to) < 2) {
        return true;
    }
    for (int last_first = 1; last_first >= 0; last_first--) {
        chain staged = { .num_stages = 0 };
        if (!move_by_dimension(p, from, to, last_first, &staged)) {
            return false;
        }
        if (staged.us < best->us) {
            *best = staged;
        }
    }
    return true;
}

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
 * talks to n1 + n2 others instead of n1 * n2. Not left to the cost model, for sums of floating-point
 * numbers depend on it: they are to be the same however the ranks are spread over processes. */
static const int64_t most_addends = 64;

/* The mesh dimensions that one reduce stage reduces: from the last Partial one leftwards, as long as their
 * ops agree. */
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
        bool fits = ops_agree(g.op, placement.op) && g.addends * current->mesh->shape[m] <= most_addends;
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

/* Reduces the group into `middle`, then goes on to `to` if nothing is left to reduce; keeps the chain if
 * it is the best. */
static bool try_middle(const planner *p, const weft_layout *current, const weft_layout *middle,
                       const weft_layout *to, const group *g, bool last, chain *best)
{
    if (middle == NULL) {
        return false;
    }
    chain c = { .algorithm = middle == to ? "reduce" : "reduce+move" };
    chain_add(p, &c, reduce_stage(current, middle, g));
    chain rest = { .num_stages = 0 };
    if (last && !best_move(p, middle, to, &rest)) {
        return false;
    }
    for (int i = 0; i < rest.num_stages; i++) {
        c.stages[c.num_stages++] = rest.stages[i];
    }
    c.us += rest.us;
    if (best->num_stages == 0 || c.us < best->us) {
        *best = c;
    }
    return true;
}

/* The layouts that a group can be reduced into: the destination itself; each tensor dimension sharded
 * where the destination does not say which (the scatter of a reduce-scatter); Replicate there. The other
 * placements stay. */
static bool best_reduction(const planner *p, const weft_layout *current, const weft_layout *to,
                           const group *g, bool last, chain *best)
{
    *best = (chain){ .num_stages = 0 };
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
        const weft_layout *middle = with_placements(p, current, placements);
        if (middle != to && !try_middle(p, current, middle, to, g, last, best)) {
            return false;
        }
    }
    return true;
}

/* Partial dimensions that `current` has and `to` has not, except those of the group. */
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
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

static weft_status check_partials(const weft_layout *from, const weft_layout *to, char *why, size_t why_size)
{
    for (int m = 0; m < to->mesh->ndim; m++) {
        if (to->placements[m].kind != WEFT_PARTIAL) {
            continue;
        }
        if (from->mesh != to->mesh || !weft_placement_equal(from->placements[m], to->placements[m])) {
            snprintf(
                why, why_size,
                "placement %d is Partial, which the tensor is not there: nothing is redistributed to Partial",
                m);
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
        if (p.kind == WEFT_PARTIAL && p.op == WEFT_AVG && !is_kept(from, to, m) &&
            !is_floating(from->dtype)) {
            snprintf(why, why_size, "Partial(avg) of %s cannot be reduced: an average needs a floating type",
                     weft_dtype_name(from->dtype));
            return WEFT_ERR_DTYPE;
        }
    }
    return WEFT_OK;
}

static bool build(const planner *p, const weft_layout *from, const weft_layout *to, chain *all)
{
    const weft_layout *current = from;
    *all = (chain){ .algorithm = "identity" };
    while (current != to) {
        chain next;
        group g = last_group(current, to);
        bool last = !reductions_left(current, to, &g);
        bool done =
            g.size > 0 ? best_reduction(p, current, to, &g, last, &next) : best_move(p, current, to, &next);
        if (!done) {
            return false;
        }
        for (int i = 0; i < next.num_stages; i++) {
            all->stages[all->num_stages++] = next.stages[i];
        }
        all->us += next.us;
        all->algorithm = next.algorithm;
        current = next.stages[next.num_stages - 1].to;
    }
    return true;
}

weft_status weft_plan_make(weft_layout_table *table, const weft_topology *topology,
                           const weft_cost_model *cost, const weft_layout *from, const weft_layout *to,
                           weft_plan *plan, char *why, size_t why_size)
{
    why_size = why == NULL ? 0 : why_size;
    weft_status status = check_partials(from, to, why, why_size);
    if (status != WEFT_OK) {
        return status;
    }
    planner p = { table, topology, cost };
    chain all;
    if (!build(&p, from, to, &all)) {
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

double weft_plan_cost(weft_layout_table *table, const weft_topology *topology, const weft_cost_model *cost,
                      const weft_layout *from, const weft_layout *to)
{
    weft_plan plan;
    return weft_plan_make(table, topology, cost, from, to, &plan, NULL, 0) == WEFT_OK ? plan.predicted_us
                                                                                      : -1.0;
}
