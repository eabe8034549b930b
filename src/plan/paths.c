/* The cheapest way between two layouts of one mesh: Dijkstra's algorithm over layouts, whose edges are single stages. PyTorch's
 * DTensor plans over a graph of placements as well; here layouts are nodes, with their levels. */
#include "plan/paths.h"

#include <math.h>
#include <stdlib.h>

enum {
    MAX_NODES = 128,   /* as many stages are compared as the square of this */
    MAX_OPTIONS = 2 * WEFT_MAX_DIMS + 3
};

typedef struct node {
    const weft_layout *layout;
    double us, bytes; /* from the first layout; us < 0: not known */
    double rest;      /* the way on takes at least this time */
    weft_box ends[2]; /* what the first and the last rank have: they represent all, as in cost.c */
    int before; /* the node that the best way comes from */
    bool settled;
    weft_stage stage; /* from there */
} node;

typedef struct paths {
    const weft_planner *planner;
    const weft_layout *from, *to;
    double most_us; /* ways that take longer are of no use */
    double latency_us, message_us, byte_us; /* of a message, at least */
    int count;
    bool failed;
    node nodes[MAX_NODES];
} paths;

/* The placements that a mesh dimension may have on the way: copies, those of both ends, and cuts of the given tensor dimensions outside
 * and inside of all other cuts. */
static int list_options(const paths *p, int m, const bool used[], weft_placement options[])
{
    int count = 0;
    options[count++] = p->to->placements[m];
    if (p->from->mesh->shape[m] == 1) {
        return count;
    }
    options[count++] = p->from->placements[m];
    options[count++] = weft_replicate();
    for (int d = 0; d < p->from->ndim; d++) {
        for (int level = 0; level <= WEFT_MAX_DIMS && used[d]; level += WEFT_MAX_DIMS) {
            options[count] = weft_shard(d);
            options[count++].level = level;
        }
    }
    return count;
}

/* A lower bound of the time between two layouts, by any way: what the first or the last rank lacks has to come. */
static double least_us(const paths *p, const node *from, const node *to)
{
    int ndim = from->layout->ndim;
    double least = 0, size = (double)weft_dtype_size(from->layout->dtype);
    for (int i = 0; i < 2 && from->layout != to->layout; i++) {
        weft_box common;
        double held = (double)weft_box_count(ndim, &to->ends[i]), missing = held;
        if (weft_box_intersect(ndim, &from->ends[i], &to->ends[i], &common)) {
            missing -= (double)weft_box_count(ndim, &common);
        }
        double us = held * size * p->planner->cost->local_byte_us;
        us += missing > 0 ? p->latency_us + p->message_us + missing * size * p->byte_us : 0;
        least = fmax(least, us);
    }
    return least;
}

static void set_rates(paths *p)
{
    const weft_cost_model *c = p->planner->cost;
    const weft_topology *topology = p->planner->topology;
    bool remote = topology->num_processes == topology->num_ranks && topology->num_ranks > 1;
    p->latency_us = remote ? c->remote_latency_us : fmin(c->local_latency_us, c->remote_latency_us);
    p->message_us = remote ? c->remote_message_us : fmin(c->local_message_us, c->remote_message_us);
    p->byte_us = remote ? c->remote_byte_us : fmin(c->local_byte_us, c->remote_byte_us);
}

static void add_node(paths *p, const weft_layout *layout)
{
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].layout == layout) {
            return;
        }
    }
    if (p->count < MAX_NODES && weft_layouts_number_all_alike(layout, p->to)) {
        node *new = &p->nodes[p->count++];
        *new = (node){ .layout = layout, .us = -1, .before = -1 };
        weft_layout_shard_box(layout, weft_mesh_rank_at(layout->mesh, 0), &new->ends[0]);
        weft_layout_shard_box(layout, weft_mesh_rank_at(layout->mesh, layout->mesh->num_ranks - 1), &new->ends[1]);
        new->rest = p->count > 1 ? least_us(p, new, &p->nodes[1]) : 0;
    }
}

/* All layouts that the mesh dimensions' options lead to. False: too many, or no memory. */
static bool list_nodes(paths *p, const bool used[])
{
    weft_placement options[WEFT_MAX_DIMS][MAX_OPTIONS], placements[WEFT_MAX_DIMS];
    int count[WEFT_MAX_DIMS], chosen[WEFT_MAX_DIMS] = { 0 }, ndim = p->from->mesh->ndim, m;
    double combinations = 1;
    for (m = 0; m < ndim; m++) {
        count[m] = p->from->placements[m].kind == WEFT_PARTIAL ? 1 : list_options(p, m, used, options[m]);
        options[m][0] = count[m] == 1 ? p->to->placements[m] : options[m][0];
        combinations *= count[m];
    }
    p->count = 0;
    add_node(p, p->from);
    add_node(p, p->to);
    if (least_us(p, &p->nodes[0], &p->nodes[1]) >= p->most_us) {
        return true; /* no way is shorter */
    }
    while (combinations <= 16 * MAX_NODES && !p->failed) {
        for (m = 0; m < ndim; m++) {
            placements[m] = options[m][chosen[m]];
        }
        const weft_layout *layout =
            weft_layout_intern(p->planner->table, p->from->mesh, placements, p->from->ndim, p->from->shape, p->from->dtype);
        p->failed = layout == NULL;
        if (layout != NULL) {
            add_node(p, layout);
        }
        if (p->count == MAX_NODES) {
            return false;
        }
        for (m = ndim - 1; m >= 0 && ++chosen[m] == count[m]; m--) {
            chosen[m] = 0;
        }
        if (m < 0) {
            return !p->failed && p->count < MAX_NODES;
        }
    }
    return false;
}

/* Tensor dimensions that an end cuts, or all. */
static void mark_used(const paths *p, bool all, bool used[])
{
    for (int d = 0; d < p->from->ndim; d++) {
        used[d] = all;
        for (int m = 0; m < p->from->mesh->ndim; m++) {
            used[d] |= weft_layout_shards(p->from, m, d) || weft_layout_shards(p->to, m, d);
        }
    }
}

static int nearest(const paths *p)
{
    int found = -1;
    for (int i = 0; i < p->count; i++) {
        bool known = p->nodes[i].us >= 0 && !p->nodes[i].settled;
        found = known && (found < 0 || p->nodes[i].us < p->nodes[found].us) ? i : found;
    }
    return found;
}

/* Ways by way of node i. */
static void extend(paths *p, int i)
{
    const node *at = &p->nodes[i];
    for (int k = 0; k < p->count; k++) {
        node *next = &p->nodes[k];
        double most = p->nodes[1].us < 0 ? p->most_us : p->nodes[1].us; /* it is below */
        if (next->settled || at->us + next->rest >= most) {
            continue;
        }
        double least = at->us + least_us(p, at, next);
        if (least + next->rest >= most || (next->us >= 0 && next->us <= least)) {
            continue;
        }
        weft_stage stage = { .from = at->layout, .to = next->layout, .scale = 1.0 };
        weft_stage_load load;
        double us = at->us + weft_stage_choose(&stage, p->planner->topology, p->planner->cost, &load);
        if (us < most && (next->us < 0 || us < next->us)) {
            next->us = us;
            next->bytes = at->bytes + load.bytes;
            next->before = i;
            next->stage = stage;
        }
    }
}

/* The way to node 1, as a chain. False: none, or one of too many stages. */
static bool take(const paths *p, weft_chain *chain)
{
    int stages = 0;
    for (int i = 1; i != 0 && i >= 0; i = p->nodes[i].before) {
        stages++;
    }
    if (p->nodes[1].us < 0 || stages > WEFT_MAX_DIMS) {
        return false;
    }
    *chain = (weft_chain){ .num_stages = stages, .us = p->nodes[1].us, .bytes = p->nodes[1].bytes };
    for (int i = 1; i != 0; i = p->nodes[i].before) {
        chain->stages[--stages] = p->nodes[i].stage;
    }
    const weft_stage *first = &chain->stages[0];
    for (int i = 1; i < p->count; i++) {
        chain->slices |= p->nodes[i].before == 0 && p->nodes[i].layout == first->to && p->nodes[i].bytes == 0;
    }
    return true;
}

bool weft_find_path(const weft_planner *planner, const weft_layout *from, const weft_layout *to, double most_us, weft_chain *chain,
                    bool *found)
{
    bool used[WEFT_MAX_DIMS];
    paths *p = malloc(sizeof(*p));
    *found = false;
    if (p == NULL) {
        return false;
    }
    *p = (paths){ .planner = planner, .from = from, .to = to, .most_us = most_us };
    set_rates(p);
    mark_used(p, true, used);
    bool few = list_nodes(p, used);
    if (!few && !p->failed) {
        mark_used(p, false, used);
        few = list_nodes(p, used);
    }
    p->nodes[0].us = 0;
    for (int i = few ? 0 : -1; i >= 0 && i != 1; i = nearest(p)) {
        p->nodes[i].settled = true;
        extend(p, i);
    }
    *found = few && take(p, chain);
    bool done = !p->failed;
    free(p);
    return done;
}
