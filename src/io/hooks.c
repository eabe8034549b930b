/* What a writer of checkpoints asks a tensor: which parts to write, which parts it has, who has an element. */
#include <weft/checkpoint.h>

#include "io/rows.h"

/* No addends: an element has one value, which ranks have. NULL with the error kept. */
static const weft_layout *check_tensor(const char *function, const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor != NULL && tensor->layout->has_partial) {
        char text[160];
        weft_fail(WEFT_ERR_LAYOUT, function, "tensor is %s: no rank has its values, only addends",
                  weft_layout_format(tensor->layout, text, sizeof(text)));
        return NULL;
    }
    if (tensor != NULL && !weft_check_boxes(function, "tensor", tensor->layout)) {
        return NULL;
    }
    return tensor == NULL ? NULL : tensor->layout;
}

static weft_checkpoint_chunk chunk_of(const weft_layout *layout, int rank)
{
    const weft_shard_info shard = weft_layout_shard(layout, rank);
    int local_rank = weft_hosts(rank) ? rank - weft_runtime.first_rank : -1;
    weft_checkpoint_chunk chunk = { .rank = rank, .local_rank = local_rank };
    for (int d = 0; d < layout->ndim; d++) {
        chunk.offset[d] = shard.box.offset[d];
        chunk.extent[d] = shard.box.extent[d];
    }
    chunk.bytes = shard.count * (int64_t)weft_dtype_size(layout->dtype);
    return chunk;
}

/* The rank is first among its replicas: at coordinate 0 of all dimensions that replicate. */
static bool is_first_replica(const weft_layout *layout, int rank)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(layout->mesh, weft_mesh_index_of(layout->mesh, rank), coordinate);
    bool first = true;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        first &= layout->placements[m].kind != WEFT_REPLICATE || coordinate[m] == 0;
    }
    return first;
}

/* A rank that this process hosts before has the same box. */
static bool is_repeated(const weft_layout *layout, int rank)
{
    const weft_shard_info shard = weft_layout_shard(layout, rank);
    for (int other = weft_runtime.first_rank; other < rank; other++) {
        const weft_shard_info before = weft_layout_shard(layout, other);
        if (before.count > 0 && weft_box_equal(layout->ndim, &before.box, &shard.box)) {
            return true;
        }
    }
    return false;
}

typedef bool (*chunk_filter)(const weft_layout *layout, int rank);

static bool is_not_repeated(const weft_layout *layout, int rank)
{
    return !is_repeated(layout, rank);
}

static int list(const char *function, const weft_tensor *tensor, int max, weft_checkpoint_chunk chunks[],
                chunk_filter wanted)
{
    const weft_layout *layout = check_tensor(function, tensor);
    if (layout == NULL) {
        return -1;
    }
    if (max < 0 || (max > 0 && chunks == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "max is %d%s", max, chunks == NULL ? " and the list is NULL" : "");
        return -1;
    }
    int count = 0;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int rank = weft_runtime.first_rank + i;
        if (weft_layout_shard_count(layout, rank) > 0 && wanted(layout, rank)) {
            if (count < max) {
                chunks[count] = chunk_of(layout, rank);
            }
            count++;
        }
    }
    return count;
}

int weft_tensor_write_items(const weft_tensor *tensor, int max, weft_checkpoint_chunk items[])
{
    return list("weft_tensor_write_items", tensor, max, items, is_first_replica);
}

int weft_tensor_chunks(const weft_tensor *tensor, int max, weft_checkpoint_chunk chunks[])
{
    return list("weft_tensor_chunks", tensor, max, chunks, is_not_repeated);
}

static bool contains(const weft_layout *layout, int rank, const int64_t index[])
{
    weft_box box;
    bool inside = weft_layout_shard_box(layout, rank, &box);
    for (int d = 0; d < layout->ndim && inside; d++) {
        inside = index[d] >= box.offset[d] && index[d] < box.offset[d] + box.extent[d];
    }
    return inside;
}

/* A hosted rank that has the element, else the first one of the mesh. */
static int find_rank(const weft_layout *layout, const int64_t index[])
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        if (contains(layout, weft_runtime.first_rank + i, index)) {
            return weft_runtime.first_rank + i;
        }
    }
    for (int64_t at = 0; at < layout->mesh->num_ranks; at++) {
        int rank = weft_mesh_rank_at(layout->mesh, at);
        if (contains(layout, rank, index)) {
            return rank;
        }
    }
    return -1;
}

weft_status weft_tensor_shard_at(const weft_tensor *tensor, const int64_t index[], weft_checkpoint_chunk *chunk)
{
    static const char function[] = "weft_tensor_shard_at";
    const weft_layout *layout = check_tensor(function, tensor);
    if (layout == NULL) {
        return weft_latest_status();
    }
    if (chunk == NULL || (index == NULL && layout->ndim > 0)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", chunk == NULL ? "chunk" : "index");
    }
    for (int d = 0; d < layout->ndim; d++) {
        if (index[d] < 0 || index[d] >= layout->shape[d]) {
            return weft_fail(WEFT_ERR_INVALID, function, "index[%d] is %lld, expected 0 to %lld", d,
                             (long long)index[d], (long long)layout->shape[d] - 1);
        }
    }
    *chunk = chunk_of(layout, find_rank(layout, index));
    return WEFT_OK;
}
