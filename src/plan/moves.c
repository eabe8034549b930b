/* Stages that move: candidates, compared by predicted cost. */
#include "plan/paths.h"

#include <math.h>
#include <string.h>

#include "plan/positions.h"
#include "plan/traffic.h"

/* ---- chains -------------------------------------------------------------------------------------------- */

void weft_chain_add(const weft_planner *p, weft_chain *c, weft_stage stage)
{
    weft_stage_load load;
    c->us += weft_stage_choose(&stage, p->topology, p->cost, &load);
    c->bytes += load.bytes;
    c->messages = fmax(c->messages, load.messages);
    c->stages[c->num_stages++] = stage;
}

void weft_chain_add_move(const weft_planner *p, weft_chain *c, const weft_layout *from, const weft_layout *to)
{
    if (from != to) {
        weft_chain_add(p, c, (weft_stage){ .from = from, .to = to, .scale = 1.0 });
    }
}

const weft_layout *weft_layout_on_mesh(const weft_planner *p, const weft_layout *like, const weft_mesh_impl *mesh,
                                       const weft_placement *placements)
{
    return weft_layout_intern(p->table, mesh, placements, like->ndim, like->shape, like->dtype);
}

static const weft_layout *with_placements(const weft_planner *p, const weft_layout *like,
                                          const weft_placement *placements)
{
    return weft_layout_on_mesh(p, like, like->mesh, placements);
}

void weft_chain_append(weft_chain *c, const weft_chain *more)
{
    for (int i = 0; i < more->num_stages; i++) {
        c->stages[c->num_stages++] = more->stages[i];
    }
    c->us += more->us;
    c->bytes += more->bytes;
}

/* Without fewer bytes it has to save time, by more than predictions are accurate. */
bool weft_chain_is_better(const weft_chain *c, const weft_chain *best)
{
    const double accuracy = 0.02;
    return c->us < best->us && (c->bytes < best->bytes || c->us < (1 - accuracy) * best->us);
}

/* ---- moves --------------------------------------------------------------------------------------------- */

static bool keeps_partial(const weft_layout *from, const weft_layout *to)
{
    return from->has_partial && to->has_partial;
}

bool weft_route_factor(const weft_planner *p, const weft_factored_mesh *factored, const weft_layout *from, const weft_layout *to,
                       weft_route *r, bool *possible)
{
    bool exact[] = { weft_factored_is_exact(factored, from), weft_factored_is_exact(factored, to) };
    *r = (weft_route){ .from = from, .to = to, .mesh = factored->fine };
    weft_factored_placements(factored, from, r->first);
    weft_factored_placements(factored, to, r->last);
    *possible = (exact[0] && exact[1]) || !keeps_partial(from, to);
    if (*possible && exact[0]) {
        r->from = weft_layout_on_mesh(p, from, r->mesh, r->first);
    }
    if (*possible && exact[1]) {
        r->to = weft_layout_on_mesh(p, to, r->mesh, r->last);
    }
    return *possible && r->from != NULL && r->to != NULL;
}

static int changes_of(const weft_route *r)
{
    int changes = 0;
    for (int m = 0; m < r->mesh->ndim; m++) {
        changes += !weft_placement_equal(r->first[m], r->last[m]);
    }
    return changes;
}

/* Changes one mesh dimension at a time. Fewer peers per stage, but more stages. It ends early where it takes `most_us` or more.
 * False: no memory. */
static bool move_by_dimension(const weft_planner *p, const weft_route *r, bool last_first, double most_us, weft_chain *c)
{
    int ndim = r->mesh->ndim, changes = changes_of(r);
    const weft_layout *current = r->from;
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(placements, r->first, sizeof(placements));
    for (int i = 0; i < ndim && c->us < most_us; i++) {
        int m = last_first ? ndim - 1 - i : i;
        if (weft_placement_equal(r->first[m], r->last[m])) {
            continue;
        }
        placements[m] = r->last[m];
        const weft_layout *next = --changes == 0 ? r->to : weft_layout_on_mesh(p, r->to, r->mesh, placements);
        if (next == NULL) {
            return false;
        }
        if (!weft_layouts_number_all_alike(next, r->from)) {
            c->us = INFINITY; /* such a stage is never one of several */
            return true;
        }
        weft_chain_add_move(p, c, current, next);
        current = next;
    }
    return true;
}

/* In both orders. */
static bool try_route(const weft_planner *p, const weft_route *r, const char *algorithm, weft_chain *best)
{
    for (int i = 0; i < 2; i++) {
        weft_chain staged = { .algorithm = algorithm };
        if (!move_by_dimension(p, r, i == 0, best->us, &staged)) {
            return false;
        }
        if (weft_chain_is_better(&staged, best)) {
            *best = staged;
        }
    }
    return true;
}

static void mark_changed(const weft_layout *from, const weft_layout *to, bool changed[])
{
    for (int m = 0; m < from->mesh->ndim; m++) {
        changed[m] = !weft_placement_equal(from->placements[m], to->placements[m]);
    }
}

/* A mesh dimension of fewer ranks is not worth another stage; with fewer messages a rank has none to save. */
enum { MIN_FACTORED = 16, MAX_ROUNDS = 2 };

static bool is_worth_factoring(const weft_chain *direct, const bool changed[])
{
    const weft_mesh_impl *mesh = direct->stages[0].from->mesh;
    int64_t largest = 0;
    for (int m = 0; m < mesh->ndim; m++) {
        largest = changed[m] ? weft_max_i64(largest, mesh->shape[m]) : largest;
    }
    return largest >= MIN_FACTORED && direct->messages >= MIN_FACTORED;
}

/* Moves on factored meshes: each dimension that changes in two factors, and in four. */
static bool try_factored(const weft_planner *p, const weft_layout *from, const weft_layout *to,
                         const bool changed[], weft_chain *best)
{
    const weft_mesh_impl *former = from->mesh;
    for (int rounds = 1; rounds <= MAX_ROUNDS; rounds++) {
        weft_factored_mesh factored;
        weft_route r;
        bool possible;
        if (!weft_factor_mesh(p->table, from->mesh, changed, MIN_FACTORED - 1, rounds, &factored)) {
            return false;
        }
        if (factored.fine == former) {
            return true;
        }
        former = factored.fine;
        bool done = weft_route_factor(p, &factored, from, to, &r, &possible);
        if (possible && !(done && try_route(p, &r, "factored", best))) {
            return false;
        }
    }
    return true;
}

/* In one stage; without a stage if the layouts are one. */
static weft_chain direct_chain(const weft_planner *p, const weft_layout *from, const weft_layout *to)
{
    weft_chain direct = { .num_stages = 0 };
    weft_chain_add_move(p, &direct, from, to);
    direct.algorithm = weft_algorithm_name(direct.stages[0].algorithm);
    return direct;
}

/* The cheapest route without reductions, scatter+gather and slices. `direct`: in one stage. */
static bool best_unsliced(const weft_planner *p, const weft_layout *from, const weft_layout *to, const weft_chain *direct,
                          weft_chain *best)
{
    bool changed[WEFT_MAX_DIMS];
    *best = *direct;
    if (from == to || from->mesh != to->mesh) {
        return true;
    }
    weft_route r = { .from = from, .to = to, .mesh = from->mesh };
    memcpy(r.first, from->placements, sizeof(r.first));
    memcpy(r.last, to->placements, sizeof(r.last));
    if (changes_of(&r) > 1 && !try_route(p, &r, "staged", best)) {
        return false;
    }
    mark_changed(from, to, changed);
    return !is_worth_factoring(direct, changed) || try_factored(p, from, to, changed, best);
}

/* To `middle` first, and from there to the end. Taken if it is better than `best` and takes less than `most_us`. */
static bool try_below(const weft_planner *p, const weft_layout *from, const weft_layout *middle, const weft_layout *to,
                      const char *algorithm, double most_us, weft_chain *best)
{
    weft_chain c = { .algorithm = algorithm }, rest;
    if (middle != NULL && !weft_layouts_number_all_alike(middle, to)) {
        return true;
    }
    if (middle == NULL) {
        return false;
    }
    weft_chain_add_move(p, &c, from, middle);
    if (c.us >= fmin(most_us, best->us)) {
        return true;
    }
    const weft_chain direct = direct_chain(p, middle, to);
    if (!best_unsliced(p, middle, to, &direct, &rest)) {
        return false;
    }
    weft_chain_append(&c, &rest);
    if (c.us < most_us && weft_chain_is_better(&c, best)) {
        *best = c;
    }
    return true;
}

static bool try_through(const weft_planner *p, const weft_layout *from, const weft_layout *middle, const weft_layout *to,
                        const char *algorithm, weft_chain *best)
{
    return try_below(p, from, middle, to, algorithm, INFINITY, best);
}

/* By way of other layouts, of which slices of replicas need no message, in less than `most_us`. On large meshes each stage may be a
 * chain of its own. */
static bool try_path(const weft_planner *p, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *best)
{
    weft_chain path, all = { .num_stages = 0 }, next;
    bool found;
    if (!weft_find_path(p, from, to, fmin(best->us, most_us), &path, &found)) {
        return false;
    }
    for (int i = 0; found && i < path.num_stages; i++) {
        const weft_stage *stage = &path.stages[i];
        const weft_chain direct = direct_chain(p, stage->from, stage->to);
        if (!best_unsliced(p, stage->from, stage->to, &direct, &next)) {
            return false;
        }
        if (all.num_stages + next.num_stages > WEFT_MAX_STAGES) {
            return true;
        }
        weft_chain_append(&all, &next);
    }
    if (found && weft_chain_is_better(&all, best)) {
        all.algorithm = path.slices ? "sliced" : "staged";
        *best = all;
    }
    return true;
}

/* The cheapest route without reductions and without scatter+gather. */
static bool best_exchange(const weft_planner *p, const weft_layout *from, const weft_layout *to, const weft_chain *direct,
                          double most_us, weft_chain *best)
{
    if (!best_unsliced(p, from, to, direct, best)) {
        return false;
    }
    bool moves = from->mesh == to->mesh && best->bytes > 0;
    return !moves || p->estimates || try_path(p, from, to, most_us, best);
}

/* Scatter and gather use each link twice, and need memory for the layout in between. So they must be twice
 * as fast as forwarding. */
static const double min_gain = 2.0;

/* Instead of forwarding whole boxes: each rank of a group receives a part, and the ranks exchange parts. */
static bool try_scattered(const weft_planner *p, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *best)
{
    for (int d = 0; d < to->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int m = 0; m < to->mesh->ndim; m++) {
            bool has = from->mesh == to->mesh && from->placements[m].kind == WEFT_REPLICATE;
            bool copies = to->placements[m].kind == WEFT_REPLICATE && !has;
            placements[m] = copies ? weft_shard(d) : to->placements[m];
        }
        const weft_layout *middle = with_placements(p, to, placements);
        if (!try_below(p, from, middle, to, "scatter+gather", most_us, best)) {
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
static bool try_other_mesh(const weft_planner *p, const weft_layout *from, const weft_layout *to, weft_chain *best)
{
    for (int d = 0; d < to->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int m = 0; m < to->mesh->ndim; m++) {
            placements[m] = weft_shard(d);
        }
        const weft_layout *middle = is_sharded(from, d) ? with_placements(p, to, placements) : to;
        if (middle != to && !try_through(p, from, middle, to, "staged", best)) {
            return false;
        }
    }
    return true;
}

/* The cheapest route without reductions. */
bool weft_best_move(const weft_planner *p, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *best)
{
    const weft_chain direct = direct_chain(p, from, to);
    if (!best_exchange(p, from, to, &direct, most_us, best)) {
        return false;
    }
    if (from->mesh != to->mesh && direct.messages >= MIN_FACTORED && !try_other_mesh(p, from, to, best)) {
        return false;
    }
    bool forwards = from != to && direct.stages[0].algorithm != WEFT_DIRECT && p->cost->algorithm == WEFT_ALGORITHM_AUTO;
    return !forwards || try_scattered(p, from, to, direct.us / min_gain, best);
}
