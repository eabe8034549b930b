/* The collective that a stage is, from its placements, one mesh dimension at a time. */
#include "plan/positions.h"

#include <string.h>

const char *weft_stage_kind_name(weft_stage_kind kind)
{
    static const char *const names[] = {
        [WEFT_STAGE_GENERAL] = "general",       [WEFT_STAGE_LOCAL] = "local",
        [WEFT_STAGE_ALL_GATHER] = "all-gather", [WEFT_STAGE_REDUCE_SCATTER] = "reduce-scatter",
        [WEFT_STAGE_ALL_REDUCE] = "all-reduce", [WEFT_STAGE_ALL_TO_ALL] = "all-to-all",
        [WEFT_STAGE_BROADCAST] = "broadcast",   [WEFT_STAGE_SCATTER] = "scatter",
        [WEFT_STAGE_GATHER] = "gather",         [WEFT_STAGE_REDUCE] = "reduce",
        [WEFT_STAGE_SHIFT] = "shift",           [WEFT_STAGE_HALO] = "halo",
    };
    return names[kind];
}

static bool all_are(const weft_layout *layout, weft_placement_kind kind)
{
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (layout->placements[m].kind != kind && layout->mesh->shape[m] > 1) {
            return false;
        }
    }
    return true;
}

/* The kind along mesh dimension m, which ranks exchange along. If it cuts the same dimension in the same way before and after,
 * another one has changed the parts that it cuts, and ranks that differ along that one alone cannot do with each other. */
static weft_stage_kind kind_along(const weft_stage *stage, int m)
{
    weft_placement from = stage->from->placements[m], to = stage->to->placements[m];
    if (from.kind == WEFT_SHARD && to.kind == WEFT_SHARD && from.dim == to.dim && weft_same_cut(from, to)) {
        return WEFT_STAGE_GENERAL;
    }
    switch (from.kind) {
    case WEFT_REPLICATE:
        return WEFT_STAGE_LOCAL;
    case WEFT_SHARD:
        return to.kind == WEFT_REPLICATE ? WEFT_STAGE_ALL_GATHER : WEFT_STAGE_ALL_TO_ALL;
    default:
        return to.kind == WEFT_REPLICATE ? WEFT_STAGE_ALL_REDUCE : WEFT_STAGE_REDUCE_SCATTER;
    }
}

/* All dimensions that change are of one kind. Two all-to-alls at once are not one: a rank then exchanges with
 * ranks along both. */
static weft_stage_kind kind_on_one_mesh(const weft_stage *stage, bool along[])
{
    weft_stage_kind kind = WEFT_STAGE_LOCAL;
    bool exchanges[WEFT_MAX_DIMS];
    int changes = 0;
    weft_stage_exchanges(stage, exchanges);
    for (int m = 0; m < stage->from->mesh->ndim; m++) {
        if (!exchanges[m] || stage->from->mesh->shape[m] == 1) {
            continue;
        }
        weft_stage_kind here = kind_along(stage, m);
        bool mixed = changes > 0 && (here != kind || here == WEFT_STAGE_ALL_TO_ALL);
        kind = mixed ? WEFT_STAGE_GENERAL : here;
        changes = mixed ? 2 : changes + 1;
        along[m] = true;
        if (kind == WEFT_STAGE_GENERAL) {
            break;
        }
    }
    return kind;
}

/* One rank has all, before or after. */
static weft_stage_kind kind_with_root(const weft_stage *stage)
{
    const weft_layout *from = stage->from, *to = stage->to;
    bool one_source = from->mesh->num_ranks == 1, one_target = to->mesh->num_ranks == 1;
    if (one_source && !stage->reduces) {
        return all_are(to, WEFT_REPLICATE) ? WEFT_STAGE_BROADCAST
               : all_are(to, WEFT_SHARD)   ? WEFT_STAGE_SCATTER
                                           : WEFT_STAGE_GENERAL;
    }
    if (one_target) {
        return stage->reduces ? (all_are(from, WEFT_PARTIAL) ? WEFT_STAGE_REDUCE : WEFT_STAGE_GENERAL)
               : all_are(from, WEFT_SHARD) ? WEFT_STAGE_GATHER
                                           : WEFT_STAGE_GENERAL;
    }
    return WEFT_STAGE_GENERAL;
}

/* A window of parts of `times` indices each, by their numbers: the last indices before the part, or the first after it. */
static bool is_beside_part(const weft_access_map *map, int d)
{
    const weft_window *w = &map->of[d];
    return map->cut->shape[d] == weft_layout_parts(map->cut, d) && weft_ceil_div(w->size, w->times) <= map->cut->shape[d] &&
           ((w->before > 0 && w->after == -1) || (w->before == -w->times && w->after >= w->times));
}

/* A window that is the part itself, or reaches over its borders, or only what is beside it. */
static bool is_halo(const weft_access_map *map)
{
    bool halo = true;
    for (int d = 0; d < map->cut->ndim; d++) {
        const weft_window *w = &map->of[d];
        halo = halo && (!map->has[d] || (w->over == 1 && w->times >= 1 &&
                                         ((w->times == 1 && w->before >= 0 && w->after >= 0) || is_beside_part(map, d))));
    }
    return halo;
}

static weft_stage_kind kind_of_access(const weft_access_map *map, bool along[])
{
    bool turns = false, widens = false;
    for (int m = 0; m < map->cut->mesh->ndim; m++) {
        along[m] = map->turn[m] != 0;
        turns = turns || along[m];
    }
    for (int d = 0; d < map->cut->ndim; d++) {
        widens = widens || (map->has[d] && (map->of[d].before != 0 || map->of[d].after != 0));
    }
    if (!is_halo(map) || (turns && widens)) {
        return WEFT_STAGE_GENERAL;
    }
    for (int m = 0; m < map->cut->mesh->ndim && !turns; m++) {
        weft_placement p = map->cut->placements[m];
        along[m] = p.kind == WEFT_SHARD && map->has[p.dim];
    }
    return turns ? WEFT_STAGE_SHIFT : widens ? WEFT_STAGE_HALO : WEFT_STAGE_LOCAL;
}

static bool is_reduction(weft_stage_kind kind)
{
    return kind == WEFT_STAGE_REDUCE_SCATTER || kind == WEFT_STAGE_ALL_REDUCE || kind == WEFT_STAGE_REDUCE;
}

weft_stage_kind weft_stage_kind_of(const weft_stage *stage, bool along[])
{
    weft_stage_kind kind;
    memset(along, 0, WEFT_MAX_DIMS * sizeof(along[0]));
    if (weft_stage_renumbers(stage)) {
        kind = WEFT_STAGE_GENERAL;
    } else if (stage->access_map != NULL) {
        kind = kind_of_access(stage->access_map, along);
    } else if (stage->from->mesh == stage->to->mesh) {
        kind = kind_on_one_mesh(stage, along);
    } else {
        kind = kind_with_root(stage);
    }
    if (stage->reduces != is_reduction(kind)) {
        kind = WEFT_STAGE_GENERAL; /* one addend alone, along a mesh dimension of one rank */
    }
    if (kind == WEFT_STAGE_GENERAL) {
        memset(along, 0, WEFT_MAX_DIMS * sizeof(along[0]));
    }
    return kind;
}
