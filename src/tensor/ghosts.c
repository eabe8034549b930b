#include "tensor/ghosts.h"

#include <stdlib.h>

#include "tensor/state.h"

/* ---- life ---------------------------------------------------------------------------------------------- */

/* The arrays as a tensor without a handle, with one reference. NULL with the error kept. */
static weft_tensor_impl *borrow_arrays(const char *function, const weft_layout *padded, void *const arrays[])
{
    weft_tensor_impl *array = weft_tensor_allocate(function, padded);
    for (int i = 0; array != NULL && i < array->num_shards; i++) {
        weft_local_shard *shard = &array->shards[i];
        if (shard->count > 0 &&
            !weft_shard_attach(shard, weft_buffer_borrow(weft_runtime.pool, weft_shard_cut(padded, shard), arrays[i], STARPU_MAIN_RAM))) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for an array of %lld elements", (long long)shard->count);
            weft_tensor_delete(array);
            return NULL;
        }
    }
    if (array != NULL) {
        array->references = 1;
        array->borrowed = true;
        array->is_array = true;
    }
    return array;
}

/* A tensor with ghosts and without an array, which is not registered yet. NULL with the error kept. */
static weft_tensor_impl *allocate_ghosted(const char *function, const weft_layout *layout, const weft_ghosts *ghosts)
{
    weft_ghosted *ghosted = calloc(1, sizeof(*ghosted));
    weft_tensor_impl *tensor = ghosted == NULL ? NULL : weft_tensor_allocate_fake(function, layout);
    if (ghosted == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a tensor");
    }
    if (tensor == NULL) {
        free(ghosted);
        return NULL;
    }
    tensor->ghosted = ghosted;
    ghosted->ghosts = *ghosts;
    ghosted->digest = weft_ghosts_digest(layout->ndim, ghosts) | 1;
    weft_ghosts_map(layout, ghosts, &ghosted->map);
    return tensor;
}

/* NULL with the error kept. */
static weft_tensor_impl *register_or_delete(const char *function, weft_tensor_impl *tensor)
{
    if (!weft_tensor_register(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor;
}

weft_tensor_impl *weft_ghosted_new(const char *function, const weft_layout *layout, const weft_layout *padded,
                                   const weft_ghosts *ghosts, void *const arrays[])
{
    weft_tensor_impl *tensor = allocate_ghosted(function, layout, ghosts);
    if (tensor == NULL) {
        return NULL;
    }
    tensor->ghosted->array = borrow_arrays(function, padded, arrays); /* newer than the tensor, which ends it: weft_tensors_stop() */
    if (tensor->ghosted->array == NULL) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return register_or_delete(function, tensor);
}

weft_tensor_impl *weft_ghosted_twin(const char *function, const weft_tensor_impl *tensor)
{
    weft_tensor_impl *twin = allocate_ghosted(function, tensor->layout, &tensor->ghosted->ghosts);
    if (twin != NULL && tensor->ghosted->has_gaps) {
        weft_ghosted_set_gaps(twin);
    }
    return twin == NULL ? NULL : register_or_delete(function, twin);
}

void weft_ghosted_set_gaps(weft_tensor_impl *tensor)
{
    tensor->ghosted->has_gaps = true;
    tensor->ghosted->digest ^= UINT64_C(1) << 63;
}

void weft_ghosted_drop(weft_tensor_impl *tensor)
{
    weft_ghosted *ghosted = tensor->ghosted;
    if (ghosted->array != NULL) {
        weft_tensor_unreference(ghosted->array);
    }
    weft_exchange_free(ghosted->fill);
    weft_exchange_free(ghosted->to_dense);
    weft_exchange_free(ghosted->to_array);
    free(ghosted);
    tensor->ghosted = NULL;
}

/* ---- exchanges ----------------------------------------------------------------------------------------- */

static weft_exchange *finish(const char *function, weft_exchange *exchange, bool done, weft_vec *sends, weft_vec *receives)
{
    done = done && weft_exchange_lower_moves(exchange, sends, receives);
    weft_vec_free(sends);
    weft_vec_free(receives);
    if (!done) {
        weft_exchange_free(exchange);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the transfers of ghosts");
    }
    return done ? exchange : NULL;
}

static weft_exchange *allocate(const weft_layout *from, const weft_layout *to)
{
    const weft_stage stage = { .from = from, .to = to, .scale = 1.0 };
    weft_exchange *exchange = weft_exchange_allocate(&stage);
    if (exchange != NULL) {
        exchange->of_boxes = true;
    }
    return exchange;
}

/* Leaves out the moves between hosted ranks: they are among what these receive. */
static void keep_sent(weft_vec *sends)
{
    weft_ghost_move *all = sends->items;
    size_t kept = 0;
    for (size_t i = 0; i < sends->count; i++) {
        if (!weft_hosts(all[i].target)) {
            all[kept++] = all[i];
        }
    }
    sends->count = kept;
}

static weft_exchange *new_fill(const char *function, const weft_tensor_impl *tensor)
{
    const weft_layout *layout = tensor->layout, *padded = tensor->ghosted->array->layout;
    const weft_ghosts *ghosts = &tensor->ghosted->ghosts;
    weft_exchange *exchange = allocate(padded, padded);
    weft_vec sends = { 0 }, receives = { 0 };
    bool done = exchange != NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int rank = weft_runtime.first_rank + i;
        done = weft_ghosts_fill(layout, padded, ghosts, rank, false, &sends) &&
               weft_ghosts_fill(layout, padded, ghosts, rank, true, &receives);
    }
    keep_sent(&sends);
    return finish(function, exchange, done, &sends, &receives);
}

/* Between the elements of the dense copy and those inside of the array. */
static weft_exchange *new_copy(const char *function, const weft_tensor_impl *tensor, bool into_array)
{
    const weft_layout *layout = tensor->layout, *padded = tensor->ghosted->array->layout;
    weft_exchange *exchange = allocate(into_array ? layout : padded, into_array ? padded : layout);
    weft_vec none = { 0 }, moves = { 0 };
    bool done = exchange != NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        weft_ghost_move move;
        if (weft_ghosts_inside(layout, padded, &tensor->ghosted->ghosts, weft_runtime.first_rank + i, into_array, &move)) {
            weft_ghost_move *added = weft_vec_push(&moves, sizeof(*added));
            done = added != NULL;
            if (done) {
                *added = move;
            }
        }
    }
    return finish(function, exchange, done, &none, &moves);
}

/* ---- uses ---------------------------------------------------------------------------------------------- */

/* Whether ranks get elements of others: the same on every process. */
static bool crosses_ranks(const weft_tensor_impl *tensor)
{
    const weft_ghosts *ghosts = &tensor->ghosted->ghosts;
    bool crosses = false;
    for (int d = 0; d < tensor->layout->ndim; d++) {
        crosses |= weft_layout_parts(tensor->layout, d) > 1 && (ghosts->before[d] > 0 || ghosts->after[d] > 0);
    }
    return crosses;
}

bool weft_ghosted_fill(const char *function, weft_tensor_impl *tensor)
{
    weft_ghosted *ghosted = tensor->ghosted;
    ghosted->fill = ghosted->fill == NULL ? new_fill(function, tensor) : ghosted->fill;
    if (ghosted->fill == NULL || !weft_exchange_run(function, ghosted->fill, ghosted->array, ghosted->array, false)) {
        return false;
    }
    ghosted->is_filled = true;
    weft_runtime.counters.stages += crosses_ranks(tensor);
    return true;
}

bool weft_ghosted_read(const char *function, weft_tensor_impl *tensor, weft_tensor_impl *into)
{
    weft_ghosted *ghosted = tensor->ghosted;
    ghosted->to_dense = ghosted->to_dense == NULL ? new_copy(function, tensor, false) : ghosted->to_dense;
    bool done = ghosted->to_dense != NULL && weft_exchange_run(function, ghosted->to_dense, ghosted->array, into, false);
    weft_runtime.counters.views_copied += done;
    return done;
}

bool weft_ghosted_write(const char *function, weft_tensor_impl *tensor, weft_tensor_impl *from)
{
    weft_ghosted *ghosted = tensor->ghosted;
    ghosted->to_array = ghosted->to_array == NULL ? new_copy(function, tensor, true) : ghosted->to_array;
    ghosted->is_filled = false;
    return ghosted->to_array != NULL && weft_exchange_run(function, ghosted->to_array, from, ghosted->array, false);
}

bool weft_ghosted_make_dense(const char *function, weft_tensor_impl *tensor)
{
    if (!tensor->fake || tensor->ghosted->array == NULL) {
        return true;
    }
    if (!weft_tensor_give_memory(function, tensor)) {
        return false;
    }
    bool done = weft_ghosted_read(function, tensor, tensor);
    if (!done) {
        weft_tensor_drop_memory(tensor);
    }
    tensor->ghosted->version = tensor->version;
    return done;
}

bool weft_ghosted_write_back(const char *function, weft_tensor_impl *tensor)
{
    if (tensor->fake || tensor->ghosted->version == tensor->version) {
        return true;
    }
    tensor->ghosted->version = tensor->version;
    return weft_ghosted_write(function, tensor, tensor);
}

void weft_ghosted_array_changed(weft_tensor_impl *tensor)
{
    weft_tensor_drop_memory(tensor);
    tensor->version++;
    tensor->ghosted->is_filled = false;
}
