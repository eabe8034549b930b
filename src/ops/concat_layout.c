#include "ops/concat_layout.h"

#include <string.h>

/* Whether a mesh dimension's Partial placement may stay: all tensors have it, and the mesh dimensions
 * before it reduce by the same op, or both are sums or averages, which commute. */
static bool partial_stays(int n, weft_tensor *const tensors[], int mesh_dim)
{
    weft_placement common = weft_layout_of(tensors[0])->placements[mesh_dim];
    for (int i = 0; i < n; i++) {
        const weft_placement *placements = weft_layout_of(tensors[i])->placements;
        if (!weft_placement_equal(placements[mesh_dim], common)) {
            return false;
        }
        for (int d = 0; d < mesh_dim; d++) {
            bool linear = common.op <= WEFT_AVG && placements[d].op <= WEFT_AVG;
            if (placements[d].kind == WEFT_PARTIAL && placements[d].op != common.op && !linear) {
                return false;
            }
        }
    }
    return true;
}

/* A tensor's placements, with `instead` for those that cannot stay; `shards`: shards of the dimension can. */
static void placements_like(const weft_row_of_tensors *row, int like, bool shards, weft_placement instead,
                            weft_placement placements[])
{
    const weft_layout *layout = weft_layout_of(row->tensors[like]);
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        bool stays = p.kind == WEFT_PARTIAL ? partial_stays(row->n, row->tensors, m)
                                            : shards || p.kind != WEFT_SHARD || p.dim != row->dim;
        placements[m] = !stays ? instead : weft_cut_has_runs(p) && p.dim == row->dim ? weft_shard(p.dim) : p;
    }
}

static const weft_layout *with_placements(const weft_layout *layout, const weft_placement placements[])
{
    return weft_layout_intern(weft_runtime.layouts, layout->mesh, placements, layout->ndim, layout->shape,
                              layout->dtype);
}

/* Predicted microseconds of a redistribution to this layout; negative: impossible. */
static double cost_of_move(const weft_layout *from, const weft_layout *to)
{
    return to == NULL ? -1
           : to == from
               ? 0
               : weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to);
}

/* The same, and of the copy to indices [start, ...) of dimension `dim` of size `rows`. */
static double cost_of_place(const weft_layout *layout, int dim, int64_t start, int64_t rows)
{
    int64_t of_dim[WEFT_MAX_DIMS];
    weft_window access_map[WEFT_MAX_DIMS] = { { 0 } };
    for (int d = 0; d < layout->ndim; d++) {
        of_dim[d] = d == dim ? rows : -1;
    }
    access_map[dim] = (weft_window){ .times = 1, .over = 1, .before = start, .after = -start };
    weft_access_map made;
    if (!weft_access_map_make(weft_runtime.layouts, layout, of_dim, access_map, NULL, &made)) {
        return -1;
    }
    return made.cut == NULL ? 0
                            : weft_access_map_cost(&weft_runtime.topology, &weft_runtime.cost, layout, &made);
}

/* Predicted microseconds of joining all in these placements; negative: impossible. Neighbours often have
 * equal layouts, whose cost is computed once. */
static double cost_of(const weft_row_of_tensors *row, const weft_placement placements[])
{
    double cost = 0, one = 0;
    int64_t start = 0;
    for (int i = 0; i < row->n; i++) {
        const weft_layout *from = weft_layout_of(row->tensors[i]), *to = with_placements(from, placements);
        if (i == 0 || from != weft_layout_of(row->tensors[i - 1])) {
            one = cost_of_move(from, to);
        }
        double place = one < 0 ? -1 : cost_of_place(to, row->dim, start, row->rows);
        if (place < 0) {
            return -1;
        }
        cost += one + place;
        start += from->shape[row->dim];
    }
    return cost;
}

/* Whether all have the same placements, and these can stay. */
static bool lie_alike(const weft_row_of_tensors *row)
{
    const weft_layout *first = weft_layout_of(row->tensors[0]);
    for (int m = 0; m < first->mesh->ndim; m++) {
        for (int i = 1; i < row->n; i++) {
            if (!weft_placement_equal(weft_layout_of(row->tensors[i])->placements[m], first->placements[m])) {
                return false;
            }
        }
        if (first->placements[m].kind == WEFT_PARTIAL && !partial_stays(row->n, row->tensors, m)) {
            return false;
        }
    }
    return true;
}

/* Compares the placements of one tensor with the best so far. */
static void try_like(const weft_row_of_tensors *row, int like, bool shards, double *least, weft_placement best[])
{
    for (int dim = -1; dim < weft_layout_of(row->tensors[like])->ndim; dim++) {
        weft_placement candidate[WEFT_MAX_DIMS];
        if (dim == row->dim) {
            continue;
        }
        placements_like(row, like, shards, dim < 0 ? weft_replicate() : weft_shard(dim), candidate);
        double cost = cost_of(row, candidate);
        if (cost >= 0 && (*least < 0 || cost < *least)) {
            *least = cost;
            memcpy(best, candidate, sizeof(candidate));
        }
    }
}

void weft_choose_row_placements(const weft_row_of_tensors *row, bool shards, weft_placement best[])
{
    enum { MAX_TRIED = 4 }; /* limit of different layouts compared */
    const weft_layout *first = weft_layout_of(row->tensors[0]);
    if (lie_alike(row) && !first->has_runs && (shards || weft_layout_parts(first, row->dim) == 1)) {
        memcpy(best, first->placements, sizeof(first->placements));
        return;
    }
    double least = -1;
    int tried = 0;
    for (int like = 0; like < row->n && tried < MAX_TRIED; like++) {
        const weft_layout *layout = weft_layout_of(row->tensors[like]);
        if (like > 0 && layout == weft_layout_of(row->tensors[like - 1])) {
            continue;
        }
        tried++;
        if (shards && weft_layout_parts(layout, row->dim) > 1) {
            try_like(row, like, true, &least, best);
        }
        try_like(row, like, false, &least, best);
    }
    for (int m = 0; least < 0 && m < first->mesh->ndim; m++) {
        best[m] = weft_replicate();
    }
}
