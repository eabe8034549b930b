#include "sharding/candidates.h"

#include <math.h>
#include <string.h>

static const weft_candidate *find_candidate(const weft_searcher *s, const weft_vec *known,
                                            const weft_placement placements[])
{
    const weft_candidate *items = known->items;
    for (size_t i = 0; i < known->count; i++) {
        if (weft_placements_equal(items[i].placements, placements, s->mesh->ndim)) {
            return &items[i];
        }
    }
    return NULL;
}

static int64_t picoseconds(double us)
{
    return (int64_t)llround(fmin(us, 1e11) * 1e6);
}

/* NULL: no memory. */
static weft_candidate *add_candidate(weft_searcher *s, weft_vec *known, const weft_placement placements[],
                                     const weft_layout *layout, const weft_layout *from,
                                     const weft_layout *to)
{
    weft_candidate *new = from == NULL || to == NULL ? NULL : weft_vec_push(known, sizeof(*new));
    if (new == NULL) {
        s->out_of_memory = true;
        return NULL;
    }
    double us =
        from == to ? 0 : weft_plan_estimate(s->search->table, s->search->topology, s->search->cost, from, to);
    memcpy(new->placements, placements, (size_t)s->mesh->ndim * sizeof(*placements));
    new->layout = layout;
    new->cost = us < 0 ? -1 : picoseconds(us);
    return new;
}

int64_t weft_rows_of_access(const weft_binding *binding, int input, int dim)
{
    bool access_map = dim < binding->input_ndim[input] && binding->input_access[input][dim];
    return access_map ? binding->factors[binding->input_factor_of[input][dim]].size : -1;
}

/* The cost of an input's access maps in a layout: picoseconds. */
static int64_t cost_of_windows(weft_searcher *s, int input, const weft_layout *layout, const weft_placement placements[])
{
    int64_t rows[WEFT_MAX_DIMS];
    bool any = false;
    for (int d = 0; d < layout->ndim; d++) {
        rows[d] = weft_rows_of_access(s->binding, input, d);
        any |= rows[d] >= 0;
    }
    weft_access_map access_map;
    if (!any) {
        return 0;
    }
    if (!weft_access_map_make(s->search->table, layout, rows, s->search->access_map[input], placements, &access_map)) {
        s->out_of_memory = true;
        return 0;
    }
    return access_map.cut == NULL
               ? 0
               : picoseconds(weft_access_map_cost(s->search->topology, s->search->cost, layout, &access_map));
}

const weft_candidate *weft_input_candidate(weft_searcher *s, int input, const weft_placement placements[])
{
    const weft_candidate *known = find_candidate(s, &s->candidates[input], placements);
    if (known != NULL) {
        return known;
    }
    const weft_layout *from = s->inputs[input];
    const weft_layout *to =
        weft_layout_intern(s->search->table, s->mesh, placements, from->ndim, from->shape, from->dtype);
    weft_candidate *new = add_candidate(s, &s->candidates[input], placements, to, from, to);
    if (new != NULL && new->cost >= 0) {
        new->cost += cost_of_windows(s, input, to, placements);
    }
    return new;
}

const weft_layout *weft_searched_output(const weft_searcher *s, int output, const weft_placement placements[])
{
    const weft_bound_output *bound = &s->binding->outputs[output];
    return weft_layout_intern(s->search->table, s->mesh, placements, bound->ndim, bound->shape,
                              s->outputs[output].dtype);
}

const weft_candidate *weft_output_candidate(weft_searcher *s, int output, const weft_placement placements[])
{
    const weft_candidate *known = find_candidate(s, &s->reductions[output], placements);
    if (known != NULL) {
        return known;
    }
    weft_placement reduced[WEFT_MAX_DIMS];
    for (int d = 0; d < s->mesh->ndim; d++) {
        reduced[d] = placements[d];
        if (placements[d].kind == WEFT_PARTIAL) {
            bool has_rows = s->binding->outputs[output].ndim > 0;
            reduced[d] = has_rows ? weft_shard(0) : weft_replicate();
        }
    }
    const weft_layout *from = weft_searched_output(s, output, placements);
    return add_candidate(s, &s->reductions[output], placements, from, from,
                         weft_searched_output(s, output, reduced));
}

/* ---- where an output is wished ------------------------------------------------------------------------- */

enum { WISH_BITS = 4, WISH_WHOLE = 15 }; /* for each mesh dimension; a Shard: its dimension + 1; 0: none */

int64_t weft_wish(const weft_layout *layout)
{
    int64_t wish = 0;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        /* No rule cuts a factor that no input has into anything but chunks. */
        bool chunks = p.kind == WEFT_SHARD && weft_cut_is_chunks(p) && p.level == 0;
        int64_t along = p.kind != WEFT_SHARD ? WISH_WHOLE : chunks ? p.dim + 1 : 0;
        wish |= along << (m * WISH_BITS);
    }
    return wish;
}

void weft_wished_placements(int64_t wish, const weft_layout *output, weft_placement wished[])
{
    for (int m = 0; m < output->mesh->ndim; m++) {
        int along = (int)(wish >> (m * WISH_BITS)) & WISH_WHOLE;
        wished[m] = along == WISH_WHOLE                      ? weft_replicate()
                    : along > 0 && along <= output->ndim ? weft_shard(along - 1)
                                                         : output->placements[m];
    }
}

const weft_candidate *weft_wished_candidate(weft_searcher *s, const weft_placement placements[])
{
    const weft_candidate *known = find_candidate(s, &s->wished, placements);
    if (known != NULL) {
        return known;
    }
    weft_placement wished[WEFT_MAX_DIMS];
    const weft_layout *from = weft_searched_output(s, 0, placements);
    if (from == NULL) {
        s->out_of_memory = true;
        return NULL;
    }
    weft_wished_placements(s->search->wish, from, wished);
    return add_candidate(s, &s->wished, placements, from, from, weft_searched_output(s, 0, wished));
}
