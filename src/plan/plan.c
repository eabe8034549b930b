/* The stages that turn one layout into another: candidates, compared by predicted cost. All of it is a
 * function of layouts, topology and cost model, so every rank decides alike. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/factor_mesh.h"
#include "plan/positions.h"
#include "plan/traffic.h"

typedef struct planner {
    weft_layout_table *table;
    const weft_topology *topology;
    const weft_cost_model *cost;
} planner;

/* A candidate: a list of stages. */
typedef struct chain {
    int num_stages;
    weft_stage stages[WEFT_MAX_STAGES];
    double us;
    double bytes; /* into the busiest rank of each stage */
    const char *algorithm;
} chain;

/* ---- chains -------------------------------------------------------------------------------------------- */

static void chain_add(const planner *p, chain *c, weft_stage stage)
{
    double bytes;
    c->us += weft_stage_choose(&stage, p->topology, p->cost, &bytes);
    c->bytes += bytes;
    c->stages[c->num_stages++] = stage;
}

static void chain_add_move(const planner *p, chain *c, const weft_layout *from, const weft_layout *to)
{
    if (from != to) {
        chain_add(p, c, (weft_stage){ .from = from, .to = to, .scale = 1.0 });
    }
}

static const weft_layout *on_mesh(const planner *p, const weft_layout *like, const weft_mesh_impl *mesh,
                                  const weft_placement *placements)
{
    return weft_layout_intern(p->table, mesh, placements, like->ndim, like->shape, like->dtype);
}

static const weft_layout *with_placements(const planner *p, const weft_layout *like,
                                          const weft_placement *placements)
{
    return on_mesh(p, like, like->mesh, placements);
}

static void chain_append(chain *c, const chain *more)
{
    for (int i = 0; i < more->num_stages; i++) {
        c->stages[c->num_stages++] = more->stages[i];
    }
    c->us += more->us;
    c->bytes += more->bytes;
}

/* Without fewer bytes it has to save time, by more than predictions are accurate. */
static bool is_better(const chain *c, const chain *best)
{
    const double accuracy = 0.02;
    return c->us < best->us && (c->bytes < best->bytes || c->us < (1 - accuracy) * best->us);
}

/* ---- moves --------------------------------------------------------------------------------------------- */

/* A move on a mesh that may be factored. If a rank's box is another one on the factored mesh, the layout
 * itself is the end, and only the layouts in between are on the factored mesh. */
typedef struct route {
    const weft_layout *from, *to;
    const weft_mesh_impl *mesh;
    weft_placement first[WEFT_MAX_DIMS], last[WEFT_MAX_DIMS]; /* on that mesh */
} route;

static bool keeps_partial(const weft_layout *from, const weft_layout *to)
{
    return from->has_partial && to->has_partial;
}

/* False, with *possible true: no memory. A Partial that stays needs one mesh from end to end. */
static bool route_factor(const planner *p, const weft_factored_mesh *factored, const weft_layout *from,
                         const weft_layout *to, route *r, bool *possible)
{
    bool exact[] = { weft_factored_is_exact(factored, from), weft_factored_is_exact(factored, to) };
    *r = (route){ .from = from, .to = to, .mesh = factored->fine };
    weft_factored_placements(factored, from, r->first);
    weft_factored_placements(factored, to, r->last);
    *possible = (exact[0] && exact[1]) || !keeps_partial(from, to);
    if (*possible && exact[0]) {
        r->from = on_mesh(p, from, r->mesh, r->first);
    }
    if (*possible && exact[1]) {
        r->to = on_mesh(p, to, r->mesh, r->last);
    }
    return *possible && r->from != NULL && r->to != NULL;
}

/* Changes one mesh dimension at a time: fewer peers per stage, but more stages. False: no memory. */
static bool move_by_dimension(const planner *p, const route *r, bool last_first, chain *c)
{
    int ndim = r->mesh->ndim, changes = 0;
    for (int m = 0; m < ndim; m++) {
        changes += !weft_placement_equal(r->first[m], r->last[m]);
    }
    const weft_layout *current = r->from;
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, r->first, sizeof(placements));
    for (int i = 0; i < ndim; i++) {
        int m = last_first ? ndim - 1 - i : i;
        if (weft_placement_equal(r->first[m], r->last[m])) {
            continue;
        }
        placements[m] = r->last[m];
        const weft_layout *next = --changes == 0 ? r->to : on_mesh(p, r->to, r->mesh, placements);
        if (next == NULL) {
            return false;
        }
        if (!weft_layouts_number_all_alike(next, r->from)) {
            c->us = INFINITY; /* such a stage is never one of several */
            return true;
        }
        chain_add_move(p, c, current, next);
        current = next;
    }
    return true;
}

static bool try_route(const planner *p, const route *r, const char *algorithm, chain *best)
{
    for (int last_first = 1; last_first >= 0; last_first--) {
        chain staged = { .algorithm = algorithm };
        if (!move_by_dimension(p, r, last_first, &staged)) {
            return false;
        }
        if (is_better(&staged, best)) {
            *best = staged;
        }
    }
    return true;
}

static int placements_changed(const weft_layout *from, const weft_layout *to, bool changed[])
{
    int count = 0;
    for (int m = 0; m < from->mesh->ndim; m++) {
        changed[m] = !weft_placement_equal(from->placements[m], to->placements[m]);
        count += changed[m];
    }
    return count;
}

/* A mesh dimension of fewer ranks is not worth another stage; with fewer messages a rank has none to save. */
enum { MIN_FACTORED = 16, MAX_ROUNDS = 2 };

static int64_t max_messages(const weft_stage *stage)
{
    const weft_mesh_impl *meshes[] = { stage->from->mesh, stage->to->mesh };
    int64_t messages = 0;
    for (int k = 0; k < (meshes[0] == meshes[1] ? 1 : 2); k++) {
        weft_positions positions = weft_stage_positions(stage, meshes[k]);
        for (int64_t i = 0; i < positions.count; i++) {
            int rank = weft_mesh_rank_at(meshes[k], weft_position_index(&positions, i));
            weft_traffic traffic = weft_stage_traffic(stage, rank);
            messages = weft_max_i64(messages, weft_max_i64(traffic.messages_in, traffic.messages_out));
        }
    }
    return messages;
}

static bool is_worth_factoring(const weft_stage *direct, const bool changed[])
{
    int64_t largest = 0;
    for (int m = 0; m < direct->from->mesh->ndim; m++) {
        largest = changed[m] ? weft_max_i64(largest, direct->from->mesh->shape[m]) : largest;
    }
    return largest >= MIN_FACTORED && max_messages(direct) >= MIN_FACTORED;
}

/* Moves on factored meshes: each dimension that changes in two factors, and in four. */
static bool try_factored(const planner *p, const weft_layout *from, const weft_layout *to,
                         const bool changed[], chain *best)
{
    const weft_mesh_impl *former = from->mesh;
    for (int rounds = 1; rounds <= MAX_ROUNDS; rounds++) {
        weft_factored_mesh factored;
        route r;
        bool possible;
        if (!weft_factor_mesh(p->table, from->mesh, changed, MIN_FACTORED - 1, rounds, &factored)) {
            return false;
        }
        if (factored.fine == former) {
            return true;
        }
        former = factored.fine;
        bool done = route_factor(p, &factored, from, to, &r, &possible);
        if (possible && !(done && try_route(p, &r, "factored", best))) {
            return false;
        }
    }
    return true;
}

/* The cheapest route without reductions and without scatter+gather. */
static bool best_exchange(const planner *p, const weft_layout *from, const weft_layout *to, chain *best)
{
    *best = (chain){ .num_stages = 0 };
    chain_add_move(p, best, from, to);
    best->algorithm = weft_algorithm_name(best->stages[0].algorithm);
    if (from == to || from->mesh != to->mesh) {
        return true;
    }
    bool changed[WEFT_MAX_DIMS];
    int changes = placements_changed(from, to, changed);
    weft_stage direct = best->stages[0];
    if (changes > 1) {
        route r = { .from = from, .to = to, .mesh = from->mesh };
        memcpy(r.first, from->placements, sizeof(r.first));
        memcpy(r.last, to->placements, sizeof(r.last));
        if (!try_route(p, &r, "staged", best)) {
            return false;
        }
    }
    return !is_worth_factoring(&direct, changed) || try_factored(p, from, to, changed, best);
}

/* To `middle` first, and from there to the end. Taken if it costs less than `best` by the given factor. */
static bool try_through(const planner *p, const weft_layout *from, const weft_layout *middle,
                        const weft_layout *to, const char *algorithm, double gain, chain *best)
{
    chain c = { .algorithm = algorithm }, rest;
    if (middle != NULL && !weft_layouts_number_all_alike(middle, to)) {
        return true;
    }
    if (middle == NULL || !best_exchange(p, middle, to, &rest)) {
        return false;
    }
    chain_add_move(p, &c, from, middle);
    chain_append(&c, &rest);
    if (c.us * gain < best->us) {
        *best = c;
    }
    return true;
}

/* Scatter and gather use each link twice, and need memory for the layout in between. So they must be twice
 * as fast. */
static const double min_gain = 2.0;

/* Instead of forwarding whole boxes: each rank of a group receives a part, and the ranks exchange parts. */
static bool try_scattered(const planner *p, const weft_layout *from, const weft_layout *to, chain *best)
{
    for (int d = 0; d < to->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int m = 0; m < to->mesh->ndim; m++) {
            bool has = from->mesh == to->mesh && from->placements[m].kind == WEFT_REPLICATE;
            bool copies = to->placements[m].kind == WEFT_REPLICATE && !has;
            placements[m] = copies ? weft_shard(d) : to->placements[m];
        }
        const weft_layout *middle = with_placements(p, to, placements);
        if (!try_through(p, from, middle, to, "scatter+gather", min_gain, best)) {
            return false;
        }
    }
    return true;
}

static bool is_sharded(const weft_layout *layout, int dim)
{
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (weft_layout_shards(layout, m, dim)) {
            return true;
        }
    }
    return false;
}

/* To another mesh in few messages, with the layout cut there as it is here; then on that mesh. */
static bool try_other_mesh(const planner *p, const weft_layout *from, const weft_layout *to, chain *best)
{
    for (int d = 0; d < to->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int m = 0; m < to->mesh->ndim; m++) {
            placements[m] = weft_shard(d);
        }
        const weft_layout *middle = is_sharded(from, d) ? with_placements(p, to, placements) : to;
        if (middle != to && !try_through(p, from, middle, to, "staged", 1.0, best)) {
            return false;
        }
    }
    return true;
}

/* The cheapest route without reductions. */
static bool best_move(const planner *p, const weft_layout *from, const weft_layout *to, chain *best)
{
    if (!best_exchange(p, from, to, best)) {
        return false;
    }
    weft_stage direct = best->stages[0];
    if (from->mesh != to->mesh && max_messages(&direct) >= MIN_FACTORED &&
        !try_other_mesh(p, from, to, best)) {
        return false;
    }
    bool is_tree = best->num_stages == 1 && best->stages[0].algorithm != WEFT_DIRECT;
    return !is_tree || p->cost->algorithm != WEFT_ALGORITHM_AUTO || try_scattered(p, from, to, best);
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
 * exchanges with n1 + n2 others instead of n1 * n2; a single dimension of more ranks is factored for it.
 * This does not depend on the cost model, because it determines the order of floating-point additions,
 * which must not depend on how ranks are spread over processes. */
static const int64_t max_addends = 64;

/* A dimension of more ranks is factored twice: n^(1/2) addends at once would be very many. */
static const int64_t max_addends_split_once = (int64_t)1 << 16;

/* Moves the reduction of a Partial dimension of many ranks to a factored mesh: both ends if possible, else
 * the source alone. Depends only on the layouts. False: no memory. */
static bool factor_reduction(const planner *p, const weft_layout **from, const weft_layout **to)
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
        route r;
        bool possible, done = route_factor(p, &factored, *from, *to, &r, &possible);
        *from = done ? r.from : *from;
        *to = done ? r.to : *to;
        return done || !possible;
    }
    /* Only Partial dimensions are factored, so that the source's boxes stay the same. */
    weft_placement placements[WEFT_MAX_DIMS];
    weft_factored_placements(&factored, *from, placements);
    *from = on_mesh(p, *from, factored.fine, placements);
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
static bool try_middle(const planner *p, const weft_layout *current, const weft_layout *middle,
                       const weft_layout *to, const group *g, bool last, chain *best)
{
    if (middle == NULL || !weft_layouts_number_all_alike(middle, current)) {
        return middle != NULL;
    }
    chain c = { .algorithm = middle == to ? "reduce" : "reduce+move" };
    chain_add(p, &c, reduce_stage(current, middle, g));
    chain rest = { .num_stages = 0 };
    if (last && !best_move(p, middle, to, &rest)) {
        return false;
    }
    chain_append(&c, &rest);
    if (best->num_stages == 0 || is_better(&c, best)) {
        *best = c;
    }
    return true;
}

/* The layouts that a group can be reduced into: the destination itself; each tensor dimension sharded if
 * the destination does not say which (the scatter of a reduce-scatter); Replicate. The other placements
 * stay. */
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
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
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
        if (p.kind == WEFT_PARTIAL && p.op == WEFT_AVG && !is_kept(from, to, m) &&
            !is_floating(from->dtype)) {
            snprintf(why, why_size, "Partial(avg) of %s cannot be reduced: an average needs a floating type",
                     weft_dtype_name(from->dtype));
            return WEFT_ERR_DTYPE;
        }
    }
    return WEFT_OK;
}

/* The source without the Partial placements that `to` has not, before its rows are numbered differently: sharded, if that changes no
 * numbers, or else replicated. NULL: no memory. */
static const weft_layout *reduced(const planner *p, const weft_layout *from, const weft_layout *to, bool sharded)
{
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, from->placements, sizeof(placements));
    for (int m = 0; m < from->mesh->ndim; m++) {
        if (from->placements[m].kind == WEFT_PARTIAL && !is_kept(from, to, m)) {
            bool like = from->mesh == to->mesh && to->placements[m].kind == WEFT_SHARD;
            placements[m] = sharded && from->ndim > 0 ? weft_shard(like ? to->placements[m].dim : 0) : weft_replicate();
        }
    }
    const weft_layout *middle = with_placements(p, from, placements);
    bool fits = middle == NULL || !sharded || weft_layouts_number_all_alike(from, middle);
    return fits ? middle : reduced(p, from, to, false);
}

static bool build(const planner *p, const weft_layout *from, const weft_layout *to, chain *all)
{
    *all = (chain){ .algorithm = "identity" };
    if (from == to) {
        return true;
    }
    if (!weft_layouts_number_all_alike(from, to)) {
        const weft_layout *middle = reduced(p, from, to, true);
        bool done = middle != NULL && build(p, from, middle, all);
        if (done) {
            chain_add_move(p, all, middle, to);
            all->algorithm = middle == from ? "renumber" : "reduce+renumber";
        }
        return done;
    }
    if (!factor_reduction(p, &from, &to)) {
        return false;
    }
    const weft_layout *current = from;
    for (bool last = false; !last;) {
        chain next;
        group g = last_group(current, to);
        last = !reductions_left(current, to, &g);
        bool done =
            g.size > 0 ? best_reduction(p, current, to, &g, last, &next) : best_move(p, current, to, &next);
        if (!done) {
            return false;
        }
        chain_append(all, &next);
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
