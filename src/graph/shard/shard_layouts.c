/* The layouts that a tensor could have. */
#include "graph/shard/shard.h"
#include "runtime/runtime.h"

enum { MAX_LAYOUTS = 256 };

/* Along a mesh dimension of one rank all placements are the same: the tensor keeps its own. */
static bool is_own(const weft_layout *like, int mesh_dim, weft_placement placement)
{
    weft_placement own = like->placements[mesh_dim];
    return own.kind == WEFT_SHARD ? weft_placement_equal(placement, own) : placement.kind == WEFT_REPLICATE;
}

/* Whether a tensor dimension has at least as many rows as the ranks that would share them. */
static bool fits(const weft_layout *like, const weft_placement placements[])
{
    int64_t parts[WEFT_MAX_DIMS];
    bool fit = true;
    for (int d = 0; d < like->ndim; d++) {
        parts[d] = 1;
    }
    for (int m = 0; m < like->mesh->ndim; m++) {
        if (placements[m].kind == WEFT_SHARD) {
            parts[placements[m].dim] *= like->mesh->shape[m];
        }
        fit &= like->mesh->shape[m] > 1 || is_own(like, m, placements[m]);
    }
    for (int d = 0; d < like->ndim && fit; d++) {
        fit = parts[d] == 1 || parts[d] <= like->shape[d];
    }
    return fit;
}

/* Placement number i along a mesh dimension: Replicate, Shard of each dimension, Partial(sum). */
static weft_placement placement_number(const weft_layout *like, int i)
{
    return i == 0             ? (weft_placement){ WEFT_REPLICATE, 0, WEFT_SUM }
           : i <= like->ndim ? (weft_placement){ WEFT_SHARD, i - 1, WEFT_SUM }
                              : (weft_placement){ WEFT_PARTIAL, 0, WEFT_SUM };
}

bool weft_shard_list_layouts(const weft_layout *like, bool sums, weft_vec *layouts)
{
    int count = 1 + like->ndim + sums, number[WEFT_MAX_DIMS] = { 0 }, m = 0;
    bool done = true;
    while (m >= 0 && done && layouts->count < MAX_LAYOUTS) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int d = 0; d < like->mesh->ndim; d++) {
            placements[d] = placement_number(like, number[d]);
        }
        if (fits(like, placements)) {
            const weft_layout **added = weft_vec_push(layouts, sizeof(*added));
            const weft_layout *layout =
                weft_layout_intern(weft_runtime.layouts, like->mesh, placements, like->ndim, like->shape, like->dtype);
            done = added != NULL && layout != NULL;
            if (added != NULL) {
                *added = layout;
            }
        }
        for (m = like->mesh->ndim - 1; m >= 0 && ++number[m] == count; m--) {
            number[m] = 0;
        }
    }
    return done;
}
