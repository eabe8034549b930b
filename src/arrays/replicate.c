/* Copies the values of the first replica, at coordinate 0 of the Replicate mesh dimensions, to the others. */
#include <stdlib.h>

#include "arrays/arrays.h"
#include "tensor/state.h"

/* A part of a mesh: the dimensions `kept` whole, one coordinate of each other one. */
typedef struct submesh {
    bool kept[WEFT_MAX_DIMS];
    int64_t at[WEFT_MAX_DIMS];
} submesh;

/* The layout of the tensor's shards on these ranks, cut into the same panels: dimensions that are not kept
 * shard nothing. NULL with the error kept. */
static const weft_layout *layout_there(const char *function, const weft_layout *layout, const submesh *there)
{
    const weft_mesh_impl *mesh = layout->mesh;
    int64_t shape[WEFT_MAX_DIMS] = { 1 }, count = 1;
    weft_placement placements[WEFT_MAX_DIMS] = { weft_replicate() };
    int kept[WEFT_MAX_DIMS], ndim = 0;
    for (int m = 0; m < mesh->ndim; m++) {
        if (there->kept[m]) {
            kept[ndim] = m;
            placements[ndim] = layout->placements[m];
            shape[ndim++] = mesh->shape[m];
            count *= mesh->shape[m];
        }
    }
    int *ranks = malloc((size_t)count * sizeof(*ranks));
    if (ranks == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld ranks", (long long)count);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t coordinate[WEFT_MAX_DIMS], rest = i;
        for (int m = 0; m < mesh->ndim; m++) {
            coordinate[m] = there->at[m];
        }
        for (int k = ndim - 1; k >= 0; k--) {
            coordinate[kept[k]] = rest % shape[k];
            rest /= shape[k];
        }
        ranks[i] = weft_mesh_rank_at(mesh, weft_mesh_ravel(mesh, coordinate));
    }
    const weft_mesh_impl *found = weft_mesh_obtain(function, ndim == 0 ? 1 : ndim, shape, ranks, NULL);
    free(ranks);
    return found == NULL
               ? NULL
               : weft_check_layout(function, found, placements, layout->ndim, layout->shape, layout->dtype);
}

/* The tensor's shards in this layout, on its memory; belongs to the innermost scope. NULL with the error kept. */
static weft_tensor_impl *view_as(const char *function, weft_tensor_impl *tensor, const weft_layout *layout)
{
    weft_tensor_impl *part = layout == NULL ? NULL : weft_tensor_allocate(function, layout);
    bool done = part != NULL;
    for (int i = 0; done && i < part->num_shards; i++) {
        done = part->shards[i].count == 0 ||
               weft_shard_view(layout, &part->shards[i], tensor, &tensor->shards[i], 0);
        if (!done) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a view of the replicas");
        }
    }
    if (done && weft_tensor_register(function, part)) {
        return part;
    }
    if (part != NULL) {
        weft_tensor_delete(part);
    }
    return NULL;
}

/* The tensor's shards on these ranks, likewise. */
static weft_tensor_impl *part_there(const char *function, weft_tensor_impl *tensor, const submesh *there)
{
    return view_as(function, tensor, layout_there(function, tensor->layout, there));
}

/* The replicas of one addend; `there`: all ranks that have it. */
static bool replicate_there(const char *function, weft_tensor_impl *tensor, const submesh *there)
{
    submesh first = *there;
    for (int m = 0; m < tensor->layout->mesh->ndim; m++) {
        first.kept[m] = tensor->layout->placements[m].kind == WEFT_SHARD;
    }
    weft_tensor_impl *source = part_there(function, tensor, &first);
    weft_tensor_impl *target = source == NULL ? NULL : part_there(function, tensor, there);
    return target != NULL && weft_plan_move(function, NULL, source, target);
}

weft_tensor_impl *weft_tensor_first_replicas(const char *function, weft_tensor_impl *tensor)
{
    const weft_layout *layout = tensor->layout;
    submesh first = { .at = { 0 } };
    bool repeats = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        first.kept[m] = layout->placements[m].kind != WEFT_REPLICATE;
        repeats |= !first.kept[m] && layout->mesh->shape[m] > 1;
    }
    return repeats ? part_there(function, tensor, &first) : tensor;
}

weft_tensor_impl *weft_tensor_replicas_as_addends(const char *function, weft_tensor_impl *tensor, weft_reduce_op op)
{
    const weft_layout *layout = tensor->layout;
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool repeats = layout->placements[m].kind == WEFT_REPLICATE && layout->mesh->shape[m] > 1;
        placements[m] = repeats ? weft_partial(op) : layout->placements[m];
    }
    return view_as(function, tensor,
                   weft_check_layout(function, layout->mesh, placements, layout->ndim, layout->shape, layout->dtype));
}

/* Addends differ, so each coordinate of the Partial dimensions is a mesh of its own. */
bool weft_tensor_replicate_first(const char *function, weft_tensor_impl *tensor)
{
    const weft_layout *layout = tensor->layout;
    submesh there = { .at = { 0 } };
    int64_t addends = 1, replicas = 1;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement_kind kind = layout->placements[m].kind;
        there.kept[m] = kind != WEFT_PARTIAL;
        addends *= kind == WEFT_PARTIAL ? layout->mesh->shape[m] : 1;
        replicas *= kind == WEFT_REPLICATE ? layout->mesh->shape[m] : 1;
    }
    bool done = true;
    for (int64_t i = 0; i < addends && replicas > 1 && done; i++) {
        int64_t rest = i;
        for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
            there.at[m] = there.kept[m] ? 0 : rest % layout->mesh->shape[m];
            rest /= there.kept[m] ? 1 : layout->mesh->shape[m];
        }
        weft_scope_begin();
        done = replicate_there(function, tensor, &there);
        weft_scope_end_own();
    }
    return done;
}
