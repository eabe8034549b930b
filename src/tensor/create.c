/* New tensors, views of others, and unsharing of memory before writes. */
#include <stdlib.h>

#include "call/deferral.h"
#include "tensor/promised.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* Registers a complete tensor; deletes it on failure. */
static weft_tensor_impl *finish(const char *function, weft_tensor_impl *tensor)
{
    if (weft_tensor_register(function, tensor)) {
        return tensor;
    }
    weft_tensor_delete(tensor);
    return NULL;
}

weft_tensor_impl *weft_tensor_new(const char *function, const weft_layout *layout)
{
    weft_tensor_impl *tensor = weft_tensor_allocate(function, layout);
    if (tensor != NULL && !weft_tensor_give_memory(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor == NULL ? NULL : finish(function, tensor);
}

bool weft_shard_may_be_viewed(const weft_local_shard *shard)
{
    weft_runtime.counters.views_copied += shard->buffer->borrowed;
    return !shard->buffer->borrowed;
}

weft_tensor_impl *weft_tensor_view(const char *function, weft_tensor_impl *source, int64_t first_row,
                                   const weft_layout *layout)
{
    const weft_layout *from_layout = source->layout;
    weft_tensor_impl *tensor = weft_tensor_allocate(function, layout);
    for (int i = 0; tensor != NULL && i < tensor->num_shards; i++) {
        const weft_local_shard *from = &source->shards[i];
        weft_local_shard *shard = &tensor->shards[i];
        int64_t skipped = first_row * weft_row_elements(from_layout->ndim, &from->box);
        int64_t size = (int64_t)weft_dtype_size(layout->dtype), from_size = (int64_t)weft_dtype_size(from_layout->dtype);
        bool fits = shard->member == from->member &&
                    (shard->count == 0 || shard->count * size <= (from->count - skipped) * from_size);
        if (fits && shard->count > 0) {
            int64_t offset = skipped * from_size;
            fits = weft_shard_may_be_viewed(from) && weft_shard_view(layout, shard, source, from, offset);
        }
        if (!fits) {
            weft_tensor_delete(tensor);
            return NULL;
        }
    }
    return tensor == NULL ? NULL : finish(function, tensor);
}

bool weft_shard_share(const weft_layout *layout, weft_local_shard *shard, const weft_tensor_impl *source,
                      const weft_local_shard *from)
{
    if (from->panels != from->buffer->panels) {
        return weft_shard_view(layout, shard, source, from, 0);
    }
    weft_buffer_retain(from->buffer);
    return weft_shard_attach(shard, from->buffer);
}

static weft_tensor_impl *allocate_like(const char *function, const weft_tensor_impl *tensor)
{
    return tensor->fake ? weft_tensor_allocate_fake(function, tensor->layout)
                        : weft_tensor_allocate(function, tensor->layout);
}

/* Another promise of the same value. */
static weft_tensor_impl *save_promised(const char *function, const weft_tensor_impl *tensor)
{
    weft_tensor_impl *saved = allocate_like(function, tensor);
    if (saved != NULL) {
        saved->references = 1;
        weft_promised_add(saved);
    }
    return saved;
}

weft_tensor_impl *weft_tensor_save(const char *function, const weft_tensor_impl *tensor)
{
    weft_tensor_impl *saved =
        tensor->promised ? save_promised(function, tensor) : weft_tensor_save_memory(function, tensor);
    if (saved != NULL) { /* the same value in a graph, too */
        saved->number = tensor->number;
        saved->graph_run = tensor->graph_run;
        saved->saved_from = tensor->handle != NULL ? tensor->handle : tensor->saved_from;
        saved->saved_version = tensor->handle != NULL ? tensor->version : tensor->saved_version;
        saved->saved_in = weft_deferral_number();
    }
    return saved;
}

weft_tensor_impl *weft_tensor_save_memory(const char *function, const weft_tensor_impl *tensor)
{
    weft_tensor_impl *saved = allocate_like(function, tensor);
    for (int i = 0; saved != NULL && i < saved->num_shards; i++) {
        if (saved->shards[i].count > 0 &&
            !weft_shard_share(tensor->layout, &saved->shards[i], tensor, &tensor->shards[i])) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a share of a tensor");
            weft_tensor_delete(saved);
            return NULL;
        }
    }
    if (saved != NULL) {
        saved->references = 1;
    }
    return saved;
}

static bool has_memory_alone(const weft_tensor_impl *tensor)
{
    bool alone = tensor->references == 1 && !tensor->borrowed;
    for (int i = 0; i < tensor->num_shards && alone; i++) {
        const weft_buffer *buffer = tensor->shards[i].buffer;
        alone = buffer == NULL || (buffer->references == 1 && !buffer->borrowed && tensor->shards[i].hold == NULL);
    }
    return alone;
}

weft_tensor_impl *weft_tensor_new_over(const char *function, weft_tensor_impl *dying)
{
    if (!has_memory_alone(dying)) {
        return weft_tensor_new(function, dying->layout);
    }
    weft_tensor_impl *tensor = weft_tensor_save_memory(function, dying);
    bool registered = tensor != NULL && weft_tensor_register(function, tensor);
    if (tensor != NULL) {
        weft_tensor_unreference(tensor); /* the scope has one */
    }
    return registered ? tensor : NULL;
}

bool weft_tensor_give_data(const char *function, weft_tensor_impl *tensor, const weft_tensor_impl *source)
{
    weft_tensor_impl *shared = weft_tensor_save(function, source);
    if (shared == NULL) {
        return false;
    }
    tensor->fake = false;
    tensor->num_shards = shared->num_shards;
    for (int i = 0; i < shared->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        bool own_view = shared->shards[i].panels == &shared->shards[i].view_panel;
        *shard = shared->shards[i];
        shard->panels = own_view ? &shard->view_panel : shard->panels;
    }
    shared->num_shards = 0; /* the tensor has them now */
    if (shared->promised) {
        tensor->number = shared->number;
        tensor->graph_run = shared->graph_run;
        weft_promised_add(tensor);
    }
    weft_tensor_unreference(shared);
    return true;
}

bool weft_shard_detach(const char *function, weft_tensor_impl *tensor, weft_local_shard *shard, bool keep)
{
    weft_local_shard old = *shard;
    if (!weft_shard_attach(shard,
                           weft_buffer_new(weft_runtime.pool, weft_shard_cut(tensor->layout, shard)))) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a copy of a shared shard");
        return false;
    }
    if (weft_runtime.trace != NULL) {
        weft_tensor_trace_renamed(tensor);
    }
    bool done = true;
    for (int i = 0; i < (int)shard->num_panels && keep && done; i++) {
        int64_t bytes = weft_cut_end(&shard->buffer->cut, i) - weft_cut_start(&shard->buffer->cut, i);
        done = weft_task_copy_panel(&shard->panels[i], &old.panels[i], bytes);
    }
    weft_buffer_release(old.buffer);
    free(old.view_panels);
    return done;
}

bool weft_tensor_make_writable(const char *function, weft_tensor_impl *tensor, bool keep)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        if (shard->count > 0 && weft_buffer_is_shared(shard->buffer) &&
            !weft_shard_detach(function, tensor, shard, keep)) {
            return false;
        }
    }
    return true;
}

/* No view of memory that the program lent or acquired, because the program reads the values there; and no
 * small view that keeps a large buffer alive. */
static bool may_take(const weft_layout *layout, const weft_local_shard *target,
                     const weft_local_shard *source)
{
    return target->count == 0 ||
           (target->hold == NULL && !target->buffer->borrowed && !source->buffer->borrowed &&
            source->buffer->cut.total <= 2 * source->count * (int64_t)weft_dtype_size(layout->dtype));
}

bool weft_tensor_take(weft_tensor_impl *target, weft_tensor_impl *source)
{
    if (target == source) {
        return true;
    }
    bool possible = target->layout == source->layout;
    for (int i = 0; i < target->num_shards && possible; i++) {
        possible = may_take(target->layout, &target->shards[i], &source->shards[i]);
    }
    for (int i = 0; i < target->num_shards && possible; i++) {
        weft_local_shard *shard = &target->shards[i], old = *shard;
        if (shard->count == 0) {
            continue;
        }
        possible = weft_shard_view(target->layout, shard, source, &source->shards[i], 0);
        if (possible) {
            weft_buffer_release(old.buffer);
            free(old.view_panels);
        }
    }
    target->version += possible;
    if (possible && weft_runtime.trace != NULL) {
        weft_tensor_trace_renamed(target);
    }
    return possible;
}
