#include "io/boxes.h"

#include <weft/checkpoint.h>

#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "codelets/types.h"
#include "tensor/state.h"

bool weft_boxes_check_types(const weft_file_call *call, const char *format)
{
    for (int i = 0; i < call->n; i++) {
        const weft_dtype type = weft_layout_of(call->tensors[i])->dtype;
        if (weft_dtype_is_stored(type)) {
            weft_fail(WEFT_ERR_DTYPE, call->function,
                      "tensors[%d] is %s, which weft does not write to %s: weft_to_type() or weft_checkpoint_save()", i,
                      weft_dtype_name(type), format);
            return false;
        }
    }
    return true;
}

int64_t weft_box_divisor(int64_t extent, int64_t room)
{
    const int64_t least = weft_ceil_div(extent, room);
    for (int64_t parts = least; parts < 2 * least; parts++) {
        if (extent % parts == 0) {
            return extent / parts;
        }
    }
    return 0;
}

int64_t weft_box_run(const weft_layout *layout, const int64_t extent[], int *outer)
{
    int64_t run = 1;
    *outer = layout->ndim;
    while (*outer > 0 && (*outer == layout->ndim || extent[*outer] == layout->shape[*outer])) {
        run *= extent[--*outer];
    }
    return run;
}

bool weft_box_part_is_empty(const weft_box_part *part)
{
    bool empty = false;
    for (int d = 0; d < part->layout->ndim; d++) {
        empty |= part->extent[d] == 0;
    }
    return empty;
}

bool weft_box_step(int ndim, const int64_t first[], const int64_t end[], int64_t at[])
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++at[d] < end[d]) {
            return true;
        }
        at[d] = first[d];
    }
    return false;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

weft_tensor_impl *weft_boxes_snapshot(const char *function, weft_tensor_impl *tensor)
{
    const weft_layout *layout = weft_layout_like(function, tensor->layout, tensor->layout->dtype);
    layout = layout == NULL ? NULL : weft_layout_of_boxes(function, layout);
    weft_tensor_impl *reduced = layout == NULL ? NULL : weft_tensor_to_layout(function, tensor, layout);
    return reduced != tensor ? reduced : weft_snapshot(function, tensor);
}

/* The items of all tensors that this process writes. */
typedef struct own_items {
    int count;
    weft_checkpoint_chunk *chunks;
    weft_box_part *parts;
    int *of;         /* the tensor of each part */
} own_items;

static bool items_new(own_items *items, int n, weft_tensor_impl *const tensors[])
{
    int64_t most = (int64_t)n * weft_runtime.local_ranks + 1;
    *items = (own_items){ .chunks = calloc((size_t)most, sizeof(*items->chunks)),
                          .parts = calloc((size_t)most, sizeof(*items->parts)),
                          .of = calloc((size_t)most, sizeof(int)) };
    bool done = items->chunks != NULL && items->parts != NULL && items->of != NULL;
    for (int i = 0; i < n && done; i++) {
        int first = items->count;
        items->count += weft_tensor_write_items(tensors[i]->handle, weft_runtime.local_ranks, items->chunks + first);
        for (int k = first; k < items->count; k++) {
            items->of[k] = i;
        }
    }
    return done;
}

static void items_free(own_items *items)
{
    free(items->chunks);
    free(items->parts);
    free(items->of);
}

void weft_boxes_write(const weft_file_call *call, const char *path, weft_tensor_impl *const tensors[], weft_boxes_step *write,
                      weft_outcome *outcome)
{
    own_items items;
    if (!items_new(&items, call->n, tensors)) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for the parts of %d tensors", call->n);
    }
    int acquired = 0;
    for (; acquired < items.count && outcome->status == WEFT_OK; acquired++) {
        const weft_checkpoint_chunk *chunk = &items.chunks[acquired];
        weft_tensor *tensor = tensors[items.of[acquired]]->handle;
        void *memory = weft_local_acquire(tensor, chunk->local_rank, WEFT_READ);
        if (memory == NULL) {
            weft_outcome_fail(outcome, weft_latest_status(), "%s", weft_kept_message());
            break;
        }
        items.parts[acquired] =
            (weft_box_part){ call->names[items.of[acquired]], weft_layout_of(tensor), chunk->offset,
                              chunk->extent, memory };
    }
    if (outcome->status == WEFT_OK) {
        write(path, items.count, items.parts, outcome);
    }
    for (int i = 0; i < acquired; i++) {
        weft_local_release(tensors[items.of[i]]->handle, items.chunks[i].local_rank);
    }
    items_free(&items);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* The shards of this process's ranks, read: weft_local_ranks() of each tensor, to be freed. */
static void read_tensors(const weft_file_call *call, weft_boxes_step *read, void *shards[], weft_outcome *outcome)
{
    int num_parts = 0, ranks = weft_runtime.local_ranks;
    weft_box_part *parts = calloc((size_t)call->n * (size_t)ranks + 1, sizeof(*parts));
    weft_shard_info *infos = calloc((size_t)call->n * (size_t)ranks + 1, sizeof(*infos));
    bool done = parts != NULL && infos != NULL;
    for (int i = 0; i < call->n * ranks && done; i++) {
        const weft_layout *layout = weft_layout_of_boxes(call->function, weft_tensor_get(call->tensors[i / ranks])->layout);
        done = layout != NULL;
        if (done) {
            infos[i] = weft_layout_shard(layout, weft_runtime.first_rank + i % ranks);
            shards[i] = malloc((size_t)infos[i].count * weft_dtype_size(layout->dtype) + 1);
            done = shards[i] != NULL;
        }
        if (done && infos[i].member) {
            parts[num_parts++] = (weft_box_part){ call->names[i / ranks], layout, infos[i].box.offset, infos[i].box.extent,
                                                   shards[i] };
        }
    }
    if (done) {
        read(call->path, num_parts, parts, outcome);
    } else {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory to read %d tensors", call->n);
    }
    free(parts);
    free(infos);
}

static weft_status set_tensors(const weft_file_call *call, void *shards[])
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < call->n && status == WEFT_OK; i++) {
        weft_tensor_impl *target = weft_tensor_get(call->tensors[i]);
        const weft_layout *layout = weft_layout_of_boxes(call->function, target->layout);
        weft_tensor_impl *read = layout == NULL ? NULL : weft_tensor_import(call->function, layout,
                                                    shards + (ptrdiff_t)i * weft_runtime.local_ranks, true);
        status = read != NULL && weft_tensor_copy_into(call->function, target, read) ? WEFT_OK : weft_latest_status();
        target->version += status == WEFT_OK;
    }
    return status;
}

weft_status weft_boxes_load(const weft_file_call *given, weft_boxes_step *read)
{
    size_t count = (size_t)given->n * (size_t)weft_runtime.local_ranks;
    void **shards = calloc(count + 1, sizeof(*shards));
    int64_t *all = calloc((size_t)weft_runtime.num_processes * WEFT_OUTCOME_NUMBERS, sizeof(*all));
    if (shards == NULL || all == NULL) {
        free(shards);
        free(all);
        return weft_fail(WEFT_ERR_NOMEM, given->function, "no memory to load %d tensors", given->n);
    }
    weft_outcome outcome = { .status = WEFT_OK };
    int64_t mine[WEFT_OUTCOME_NUMBERS];
    read_tensors(given, read, shards, &outcome);
    memcpy(mine, &outcome, sizeof(outcome));
    weft_scope_begin();
    weft_status status = weft_outcome_agree(given->function, WEFT_OUTCOME_NUMBERS, mine, all);
    status = status == WEFT_OK ? set_tensors(given, shards) : status;
    weft_scope_end_own();
    for (size_t i = 0; i < count; i++) {
        free(shards[i]);
    }
    free(shards);
    free(all);
    return status;
}
