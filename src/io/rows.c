#include "io/rows.h"

#include "io/crc32c.h"

const weft_layout *weft_rows_layout(const char *function, const weft_layout *layout)
{
    const weft_mesh_impl *mesh = layout->mesh;
    weft_placement placements[WEFT_MAX_DIMS];
    if (layout->ndim == 0) {
        const int64_t one = 1;
        const int first = weft_mesh_rank_at(mesh, 0);
        mesh = weft_mesh_obtain(function, 1, &one, &first, NULL);
    }
    for (int m = 0; mesh != NULL && m < mesh->ndim; m++) {
        placements[m] = layout->ndim == 0 ? weft_replicate() : weft_shard(0);
    }
    return mesh == NULL
               ? NULL
               : weft_check_layout(function, mesh, placements, layout->ndim, layout->shape, layout->dtype);
}

weft_rows_piece weft_rows_piece_at(const weft_layout *rows, int64_t index)
{
    weft_rows_piece piece = { .rank = weft_mesh_rank_at(rows->mesh, index) };
    const weft_shard_info shard = weft_layout_shard(rows, piece.rank);
    int64_t element = (int64_t)weft_dtype_size(rows->dtype);
    if (shard.count > 0) {
        int64_t row = rows->ndim == 0 ? 0 : shard.box.offset[0];
        piece.begin = row * weft_row_elements(rows->ndim, &shard.box) * element;
        piece.bytes = shard.count * element;
    }
    return piece;
}

uint32_t weft_join_checksums(const weft_layout *rows, const int64_t all[], int64_t count, int64_t place)
{
    uint32_t crc = 0;
    for (int64_t index = 0; index < rows->mesh->num_ranks; index++) {
        weft_rows_piece piece = weft_rows_piece_at(rows, index);
        int process = weft_process_of(piece.rank);
        int local_rank = piece.rank - weft_runtime.first_rank_of[process];
        if (piece.bytes > 0) {
            crc = weft_crc32c_join(crc, (uint32_t)all[process * count + place + local_rank], piece.bytes);
        }
    }
    return crc;
}

/* A tensor of its own with the same values, in memory of its own. */
static weft_tensor_impl *copy_of(const char *function, weft_tensor_impl *tensor)
{
    weft_tensor_impl *copy = weft_tensor_new(function, tensor->layout);
    return copy != NULL && weft_tensor_copy_into(function, copy, tensor) ? copy : NULL;
}

weft_tensor_impl *weft_snapshot(const char *function, weft_tensor_impl *tensor)
{
    bool viewable = true;
    for (int i = 0; i < tensor->num_shards; i++) {
        viewable &= tensor->shards[i].count == 0 || !tensor->shards[i].buffer->borrowed;
    }
    return viewable ? weft_tensor_view(function, tensor, 0, tensor->layout) : copy_of(function, tensor);
}

weft_tensor_impl *weft_rows_snapshot(const char *function, weft_tensor_impl *tensor)
{
    const weft_layout *layout = weft_rows_layout(function, tensor->layout);
    weft_tensor_impl *rows = layout == NULL ? NULL : weft_tensor_to_layout(function, tensor, layout);
    return rows != tensor ? rows : weft_snapshot(function, tensor); /* else new, or a view; NULL: no memory */
}

char *weft_rows_memory(const weft_local_shard *shard)
{
    return shard->count == 0 ? NULL : (char *)shard->buffer->memory + shard->offset;
}

void weft_rows_await(const weft_local_shard *shard, bool write)
{
    enum starpu_data_access_mode mode = write ? STARPU_RW : STARPU_R;
    for (int64_t i = 0; i < shard->num_panels; i++) {
        starpu_data_handle_t handle = shard->panels[i].handle;
        if (i == 0 || handle != shard->panels[i - 1].handle) {
            starpu_data_acquire_on_node(handle, STARPU_MAIN_RAM, mode);
            starpu_data_release_on_node(handle, STARPU_MAIN_RAM);
        }
    }
}
