/* Parts of a tensor: shards, their buffers and panels. */
#include <stdlib.h>
#include <string.h>

#include "tensor/promised.h"
#include "tensor/ghosts.h"
#include "tensor/state.h"

weft_tensor_impl *weft_check_tensor(const char *function, const char *argument, const weft_tensor *tensor)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (tensor == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", argument);
        return NULL;
    }
    weft_tensor_impl *alive = weft_tensor_get(tensor);
    if (alive == NULL) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "%s (%p) is not a live tensor: released, donated to a graph, or its scope was closed", argument,
                  (const void *)tensor);
    }
    return alive;
}

weft_tensor_impl *weft_check_entry(const char *function, const char *list, int i, const weft_tensor *tensor)
{
    char name[64];
    weft_tensor_impl *alive = tensor == NULL || weft_require_init(function) != WEFT_OK ? NULL : weft_tensor_get(tensor);
    if (alive == NULL) {
        snprintf(name, sizeof(name), "%s[%d]", list, i);
        return weft_check_tensor(function, name, tensor);
    }
    return alive;
}

/* ---- shards -------------------------------------------------------------------------------------------- */

/* Bytes of the panels before global row `row`. */
static int64_t row_offset(const weft_layout *layout, const weft_box *box, int64_t row)
{
    int64_t rows = layout->ndim == 0 ? 0 : row - box->offset[0];
    return rows * weft_row_elements(layout->ndim, box) * (int64_t)weft_dtype_size(layout->dtype);
}

/* The panels beside margins, and the last one: those that are not of panel_rows, or rest rows before others. */
static void cut_margins(const weft_layout *layout, const weft_local_shard *shard, weft_cut *cut)
{
    int leading, trailing;
    weft_panel_margins(layout, &shard->box, &leading, &trailing);
    for (int64_t i = 1; i < shard->num_panels; i++) {
        int64_t first, last, begin = shard->box.offset[0], at = i - (shard->num_panels - trailing);
        weft_panel_range(layout, &shard->box, i, &first, &last);
        int64_t bytes = row_offset(layout, &shard->box, begin + last - first);
        if (i < leading) {
            cut->second = bytes;
        } else if (at >= 0) {
            cut->trailing[at] = bytes;
        }
    }
}

weft_cut weft_shard_cut(const weft_layout *layout, const weft_local_shard *shard)
{
    int64_t total = shard->count * (int64_t)weft_dtype_size(layout->dtype);
    if (shard->num_panels == 1) {
        return (weft_cut){ .total = total, .first = total, .step = total };
    }
    int64_t first, last;
    weft_panel_range(layout, &shard->box, 0, &first, &last);
    const int64_t rows = weft_min_i64(layout->panel_rows, shard->box.extent[0]);
    weft_cut cut = { .total = total,
                     .first = row_offset(layout, &shard->box, last),
                     .step = row_offset(layout, &shard->box, shard->box.offset[0] + rows) };
    if (weft_layout_has_margins(layout)) {
        cut_margins(layout, shard, &cut);
    }
    return cut;
}

bool weft_shard_attach(weft_local_shard *shard, weft_buffer *buffer)
{
    if (buffer == NULL) {
        return false;
    }
    shard->panels = buffer->panels;
    shard->view_panels = NULL;
    shard->buffer = buffer;
    shard->offset = 0;
    return true;
}

/* The panel of `source` that contains the bytes [begin, end) of that shard; -1: no single one does. */
static int64_t panel_holding(const weft_layout *layout, const weft_local_shard *source, int64_t begin,
                             int64_t end, int64_t *panel_begin)
{
    int64_t row_bytes = row_offset(layout, &source->box, 1 + (layout->ndim == 0 ? 0 : source->box.offset[0]));
    int64_t row = layout->ndim == 0 ? 0 : source->box.offset[0] + begin / row_bytes;
    int64_t first, last;
    int64_t panel = weft_panel_of_row(layout, &source->box, row);
    weft_panel_range(layout, &source->box, panel, &first, &last);
    *panel_begin = row_offset(layout, &source->box, first);
    int64_t panel_end = layout->ndim == 0 ? source->count * (int64_t)weft_dtype_size(layout->dtype)
                                          : row_offset(layout, &source->box, last);
    return end <= panel_end ? panel : -1;
}

bool weft_shard_view(const weft_layout *layout, weft_local_shard *shard,
                     const weft_tensor_impl *source_tensor, const weft_local_shard *source, int64_t offset)
{
    bool single = shard->num_panels == 1;
    weft_panel own, *panels = single ? &own : malloc((size_t)shard->num_panels * sizeof(*panels));
    if (panels == NULL) {
        return false;
    }
    weft_cut cut = weft_shard_cut(layout, shard);
    for (int i = 0; i < (int)shard->num_panels; i++) {
        int64_t begin = offset + weft_cut_start(&cut, i), end = offset + weft_cut_end(&cut, i);
        int64_t panel_begin;
        int64_t panel = panel_holding(source_tensor->layout, source, begin, end, &panel_begin);
        if (panel < 0) {
            free(single ? NULL : panels);
            return false;
        }
        panels[i] = source->panels[panel];
        panels[i].offset += begin - panel_begin;
    }
    weft_buffer_retain(source->buffer);
    shard->view_panels = single ? NULL : panels;
    shard->view_panel = single ? own : (weft_panel){ 0 };
    shard->panels = single ? &shard->view_panel : panels;
    shard->buffer = source->buffer;
    shard->offset = source->offset + offset;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

enum { MAX_SPARE = 1024 };

static weft_tensor_impl *take_memory(size_t size)
{
    weft_tensors *tensors = weft_runtime.tensors;
    weft_tensor_impl *tensor = tensors->spare;
    if (tensor == NULL) {
        return malloc(size);
    }
    tensors->spare = tensor->older;
    tensors->num_spare--;
    return tensor;
}

static void give_memory_back(weft_tensor_impl *tensor)
{
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors->num_spare >= MAX_SPARE) {
        free(tensor);
        return;
    }
    tensor->older = tensors->spare;
    tensors->spare = tensor;
    tensors->num_spare++;
}

void weft_tensor_free_spare(weft_tensors *tensors)
{
    while (tensors->spare != NULL) {
        weft_tensor_impl *older = tensors->spare->older;
        free(tensors->spare);
        tensors->spare = older;
    }
}

/* The shards' memory is zero. */
static void describe_shards(weft_tensor_impl *tensor, int num_shards)
{
    tensor->num_shards = num_shards;
    for (int i = 0; i < num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        weft_shard_info info = weft_layout_shard(tensor->layout, weft_runtime.first_rank + i);
        shard->rank = info.rank;
        shard->member = info.member;
        shard->box = info.box;
        shard->count = info.count;
        shard->num_panels = info.num_panels;
    }
}

/* All have the same size, so that an array without shards can be reused with some. */
static weft_tensor_impl *allocate(const char *function, const weft_layout *layout, int num_shards)
{
    size_t size = sizeof(weft_tensor_impl) + (size_t)weft_runtime.local_ranks * sizeof(weft_local_shard);
    weft_tensor_impl *tensor = take_memory(size);
    if (tensor == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a tensor");
        return NULL;
    }
    memset(tensor, 0, size);
    tensor->layout = layout;
    describe_shards(tensor, num_shards);
    weft_tensors *tensors = weft_runtime.tensors;
    tensor->older = tensors->newest;
    if (tensors->newest != NULL) {
        tensors->newest->newer = tensor;
    }
    tensors->newest = tensor;
    return tensor;
}

weft_tensor_impl *weft_tensor_allocate(const char *function, const weft_layout *layout)
{
    return allocate(function, layout, weft_runtime.local_ranks);
}

weft_tensor_impl *weft_tensor_allocate_fake(const char *function, const weft_layout *layout)
{
    weft_tensor_impl *tensor = allocate(function, layout, 0);
    if (tensor != NULL) {
        tensor->fake = true;
    }
    return tensor;
}

void weft_tensors_set_owner(const weft_tensor_owner *owner)
{
    weft_runtime.tensors->owner = owner;
}

/* Ends the handle, and what belongs to a tensor that has one. */
static void unregister(weft_tensor_impl *tensor)
{
    if (tensor->tape != NULL || tensor->gathering != NULL) {
        weft_runtime.tensors->owner->drop(tensor);
    }
    if (tensor->ghosted != NULL) {
        weft_ghosted_drop(tensor);
    }
    if (tensor->promised) {
        weft_promised_remove(tensor);
    }
    weft_handle_remove(&weft_runtime.handles.tensors, tensor->handle);
    tensor->handle = NULL;
}

static void unlink_tensor(weft_tensor_impl *tensor)
{
    *(tensor->newer ? &tensor->newer->older : &weft_runtime.tensors->newest) = tensor->older;
    if (tensor->older != NULL) {
        tensor->older->newer = tensor->newer;
    }
}

static void release_shards(weft_tensor_impl *tensor)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        weft_shard_let_go(shard);
        weft_buffer_release(shard->buffer);
        free(shard->view_panels);
    }
    tensor->num_shards = 0;
}

bool weft_tensor_give_memory(const char *function, weft_tensor_impl *tensor)
{
    if (tensor->num_shards == 0) {
        memset(tensor->shards, 0, (size_t)weft_runtime.local_ranks * sizeof(tensor->shards[0]));
        describe_shards(tensor, weft_runtime.local_ranks);
    }
    for (int i = 0; i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        if (shard->count > 0 &&
            !weft_shard_attach(shard, weft_buffer_new(weft_runtime.pool, weft_shard_cut(tensor->layout, shard)))) {
            release_shards(tensor);
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a shard of %lld elements", (long long)shard->count);
            return false;
        }
    }
    tensor->fake = false;
    return true;
}

void weft_tensor_drop_memory(weft_tensor_impl *tensor)
{
    release_shards(tensor);
    tensor->fake = true;
}

void weft_tensor_give_up(weft_tensor_impl *tensor)
{
    unregister(tensor);
    release_shards(tensor);
    tensor->fake = true;
    tensor->references -= tensor->caller_references;
    tensor->caller_references = 0;
}

void weft_tensor_delete(weft_tensor_impl *tensor)
{
    unregister(tensor);
    release_shards(tensor);
    free(tensor->name);
    unlink_tensor(tensor);
    give_memory_back(tensor);
}
