/* Borrows the program's memory for one run of a box plan. */
#include <stdlib.h>
#include <string.h>

#include "arrays/boxes.h"
#include "codelets/copy.h"
#include "codelets/elementwise.h"
#include "tensor/submit.h"

void weft_subarray_strides(const weft_subarray *of, int ndim, int64_t strides[])
{
    int64_t step = 1;
    bool dense = true;
    for (int d = 0; d < ndim; d++) {
        dense = dense && of->strides[d] == 0;
    }
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = dense ? step : of->strides[d];
        step = weft_mul_saturated(step, of->box.extent[d]);
    }
}

/* ---- order between uses of the same memory ------------------------------------------------------------- */

static const char *panel_begin(const weft_buffer *buffer, int panel)
{
    return (const char *)buffer->memory + weft_cut_start(&buffer->cut, panel);
}

static const char *panel_end(const weft_buffer *buffer, int panel)
{
    return (const char *)buffer->memory + weft_cut_end(&buffer->cut, panel);
}

/* An empty task: what uses the first panel from here on comes after all that has been submitted on both. */
static bool join(const char *function, starpu_data_handle_t later, starpu_data_handle_t former)
{
    weft_copy_args args = { .base.dtype = WEFT_U8, .element_size = 1 };
    args.boxes[0] = (weft_strided_box){ .ndim = 1, .extent = { 0 }, .source_stride = { 1 }, .target_stride = { 1 } };
    const weft_bound_operand operands[] = { { later, 0, STARPU_RW }, { former, 0, STARPU_RW } };
    return weft_task_submit(&(weft_single_task){ .kernel = WEFT_KERNEL_copy,
                                                 .name = "order",
                                                 .function = function,
                                                 .arguments = &args,
                                                 .arguments_size = offsetof(weft_copy_args, boxes) + sizeof(args.boxes[0]),
                                                 .num_operands = 2,
                                                 .operands = operands,
                                                 .on_host = true });
}

/* context: the function's name. */
static bool join_panels(void *context, const weft_buffer *added, const weft_buffer *other)
{
    bool done = true;
    for (int i = 0; i < added->num_panels && done; i++) {
        for (int k = 0; k < other->num_panels && done; k++) {
            if (panel_begin(added, i) < panel_end(other, k) && panel_begin(other, k) < panel_end(added, i)) {
                done = join(context, added->panels[i].handle, other->panels[k].handle);
            }
        }
    }
    return done;
}

/* A buffer on the program's memory, NULL with the error kept. Earlier uses of it: order_after(). */
static weft_buffer *borrow(const char *function, weft_cut cut, void *memory)
{
    weft_buffer *buffer = weft_buffer_borrow(weft_runtime.pool, cut, memory, STARPU_MAIN_RAM);
    if (buffer == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a box");
    }
    return buffer;
}

/* Later uses of these buffers will wait for all earlier uses of their memory. The buffers are in order of memory, and share no bytes.
 * False with the error kept. */
static bool order_after(const char *function, int64_t count, weft_buffer *const added[])
{
    return weft_buffers_order(weft_runtime.pool, count, added, join_panels, (void *)(uintptr_t)function);
}

/* ---- boxes as a tensor --------------------------------------------------------------------------------- */

static void tensor_free(weft_tensor_impl *boxes)
{
    for (int i = 0; boxes != NULL && i < boxes->num_shards; i++) {
        weft_buffer_release(boxes->shards[i].buffer);
    }
    free(boxes);
}

/* The regions, each a shard of one panel. NULL with the error kept. */
static weft_tensor_impl *regions_tensor(const weft_box_plan *plan, const char *function)
{
    const weft_box_places *places = &plan->places;
    weft_tensor_impl *boxes = calloc(1, sizeof(*boxes) + (size_t)places->num_regions * sizeof(boxes->shards[0]));
    weft_buffer **buffers = malloc(((size_t)places->num_regions + 1) * sizeof(weft_buffer *));
    if (boxes == NULL || buffers == NULL) {
        free(boxes);
        free(buffers);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for boxes");
        return NULL;
    }
    boxes->layout = plan->layout;
    bool done = true;
    for (int64_t i = 0; i < places->num_regions && done; i++) {
        const weft_box_region *region = &places->regions[i];
        const weft_cut whole = { region->bytes, region->bytes, region->bytes };
        weft_local_shard *shard = &boxes->shards[i];
        shard->count = shard->num_panels = 1;
        done = weft_shard_attach(shard, borrow(function, whole, region->memory));
        buffers[i] = shard->buffer;
        boxes->num_shards += done;
    }
    if (!done || !order_after(function, boxes->num_shards, buffers)) {
        tensor_free(boxes);
        boxes = NULL;
    }
    free(buffers);
    return boxes;
}

/* ---- this process's list ------------------------------------------------------------------------------- */

/* The plan's memory, and a flag for each own box; NULL with the error kept. */
static bool *prepare_memory(const char *function, weft_box_plan *plan)
{
    size_t num = (size_t)plan->num_own + 1;
    if (plan->strides == NULL) {
        plan->strides = calloc(num * (size_t)(plan->set.ndim + 1), sizeof(*plan->strides));
    }
    if (plan->in_place == NULL) {
        plan->in_place = calloc(num, sizeof(*plan->in_place));
    }
    bool *flags = plan->strides == NULL || plan->in_place == NULL ? NULL : calloc(num, sizeof(*flags));
    if (flags == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for boxes");
    }
    return flags;
}

/* Notes the strides, the boxes in place and the places of the others; builds the list anew if they differ from those of the last
 * call. False with the error kept. */
static bool prepare(weft_box_plan *plan, const weft_boxes *given, const bool in_place[])
{
    int ndim = plan->set.ndim;
    bool same = plan->exchange != NULL;
    for (int i = 0; i < plan->num_own; i++) {
        int64_t strides[WEFT_MAX_DIMS], *kept = plan->strides + (ptrdiff_t)i * ndim;
        weft_subarray_strides(&given->items[i], ndim, strides);
        same = same && memcmp(kept, strides, (size_t)ndim * sizeof(*kept)) == 0 && plan->in_place[i] == in_place[i];
        memcpy(kept, strides, (size_t)ndim * sizeof(*kept));
        plan->in_place[i] = in_place[i];
    }
    weft_box_places places;
    bool found = weft_box_places_find(plan, given, &places);
    same = same && found && weft_box_places_equal(&places, &plan->places);
    weft_box_places_free(&plan->places);
    plan->places = places;
    if (same) {
        return true;
    }
    weft_exchange_free(plan->exchange);
    const weft_stage stage = { .from = plan->layout, .to = plan->layout, .scale = 1.0 };
    plan->exchange = weft_exchange_allocate(&stage);
    if (plan->exchange != NULL) {
        plan->exchange->of_boxes = true;
    }
    if (!found || plan->exchange == NULL || !weft_box_plan_lower(plan, plan->exchange)) {
        weft_exchange_free(plan->exchange);
        plan->exchange = NULL;
        weft_fail(WEFT_ERR_NOMEM, given->function, "no memory for the transfers of boxes");
        return false;
    }
    return true;
}

/* ---- both ways ----------------------------------------------------------------------------------------- */

static int own_shard(const weft_box_plan *plan, int number)
{
    return weft_box_own_shard(&plan->set.boxes[plan->first_own + number], plan->layout, &weft_runtime.topology);
}

/* Gives every shard its memory: a box's, or new. False with the error kept. */
static bool attach_shards(const weft_box_plan *plan, const weft_boxes *given, weft_tensor_impl *tensor)
{
    for (int i = 0; i < plan->num_own; i++) {
        weft_local_shard *shard = plan->in_place[i] ? &tensor->shards[own_shard(plan, i) - weft_runtime.first_rank] : NULL;
        if (shard != NULL &&
            (!weft_shard_attach(shard, borrow(given->function, weft_shard_cut(tensor->layout, shard), given->items[i].data)) ||
             !order_after(given->function, 1, &shard->buffer))) {
            return false;
        }
    }
    for (int i = 0; i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        if (shard->count > 0 && shard->buffer == NULL &&
            !weft_shard_attach(shard, weft_buffer_new(weft_runtime.pool, weft_shard_cut(tensor->layout, shard)))) {
            weft_fail(WEFT_ERR_NOMEM, given->function, "no memory for a shard of %lld elements", (long long)shard->count);
            return false;
        }
    }
    return true;
}

static weft_tensor_impl *new_tensor(const weft_box_plan *plan, const weft_boxes *given)
{
    weft_tensor_impl *tensor = weft_tensor_allocate(given->function, plan->layout);
    if (tensor == NULL) {
        return NULL;
    }
    if (!attach_shards(plan, given, tensor) || !weft_tensor_register(given->function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    tensor->borrowed = plan->any_in_place;
    return tensor;
}

/* A task for each panel: bytes other than 0 become 1. False with the error kept. */
static bool normalize_truths(const char *function, const weft_tensor_impl *tensor)
{
    const weft_layout *layout = tensor->layout;
    bool done = true;
    for (int i = 0; i < tensor->num_shards && layout->dtype == WEFT_BOOL; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        for (int64_t k = 0; k < shard->num_panels && done; k++) {
            int64_t first, last;
            weft_panel_range(layout, &shard->box, k, &first, &last);
            weft_elementwise_args args = { .base.dtype = WEFT_I64, .ndim = 1, .common = WEFT_BOOL,
                                           .types = { WEFT_BOOL, WEFT_BOOL }, .stride = { { 1 }, { 1 } } };
            args.extent[0] = (last - first) * weft_row_elements(layout->ndim, &shard->box);
            const weft_bound_operand panel = weft_bound(&shard->panels[k], 0, STARPU_RW), operands[] = { panel, panel };
            done = weft_task_submit(&(weft_single_task){ .kernel = WEFT_KERNEL_convert,
                                                         .name = "truths",
                                                         .function = function,
                                                         .arguments = &args,
                                                         .arguments_size = sizeof(args),
                                                         .num_operands = 2,
                                                         .operands = operands,
                                                         .on_host = true });
        }
    }
    return done;
}

/* A program's tensor, or the arrays of one; others without a handle share the memory of one. */
static bool is_in_use(const weft_tensor_impl *tensor)
{
    return tensor->handle != NULL || tensor->is_array;
}

/* Whether a tensor lies in these bytes, so that another one there would change with it. */
static bool is_taken(const char *begin, int64_t bytes)
{
    bool taken = false;
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL && !taken; tensor = tensor->older) {
        for (int i = 0; i < tensor->num_shards && tensor->borrowed && is_in_use(tensor) && !taken; i++) {
            const weft_local_shard *shard = &tensor->shards[i];
            const char *memory = shard->count > 0 && shard->buffer->borrowed ? shard->buffer->memory : NULL;
            taken = memory != NULL && memory < begin + bytes && begin < memory + shard->buffer->cut.total;
        }
    }
    return taken;
}

bool weft_lies_in_array(const void *memory)
{
    bool lies = false;
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL && !lies; tensor = tensor->older) {
        for (int i = 0; i < tensor->num_shards && tensor->is_array && !lies; i++) {
            const weft_buffer *buffer = tensor->shards[i].buffer;
            const char *begin = buffer == NULL ? NULL : buffer->memory;
            lies = begin != NULL && begin <= (const char *)memory && (const char *)memory < begin + buffer->cut.total;
        }
    }
    return lies;
}

/* Own box `number` is a shard, whose memory it may be. */
static bool fits_in_place(const weft_box_plan *plan, const weft_boxes *given, int number)
{
    const weft_box *box = &plan->set.boxes[plan->first_own + number].box;
    int64_t bytes = weft_box_count(plan->set.ndim, box) * (int64_t)weft_dtype_size(plan->layout->dtype);
    return own_shard(plan, number) >= 0 && !is_taken(given->items[number].data, bytes);
}

/* Whether the buffer has bytes of the plan's regions. */
static bool meets_regions(const weft_box_plan *plan, const weft_buffer *buffer)
{
    const char *begin = buffer->memory, *end = begin + buffer->cut.total;
    const weft_box_region *regions = plan->places.regions;
    int64_t low = 0, high = plan->places.num_regions; /* the first region that ends after `begin` */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool ends_before = regions[middle].memory + regions[middle].bytes <= begin;
        low = ends_before ? middle + 1 : low;
        high = ends_before ? high : middle;
    }
    return low < plan->places.num_regions && regions[low].memory < end;
}

/* Later uses of tensors that lie in the regions come after what reads these. False with the error kept. */
static bool order_tensors_after(const weft_box_plan *plan, const char *function, const weft_tensor_impl *boxes)
{
    bool done = true;
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL && done; tensor = tensor->older) {
        for (int i = 0; i < tensor->num_shards && tensor->borrowed && done; i++) {
            const weft_local_shard *shard = &tensor->shards[i];
            bool meets = shard->count > 0 && shard->buffer->borrowed && meets_regions(plan, shard->buffer);
            for (int r = 0; r < boxes->num_shards && meets && done; r++) {
                done = join_panels((void *)(uintptr_t)function, shard->buffer, boxes->shards[r].buffer);
            }
        }
    }
    return done;
}

weft_tensor_impl *weft_box_plan_import(weft_box_plan *plan, const weft_boxes *given)
{
    bool *in_place = prepare_memory(given->function, plan);
    for (int i = 0; i < plan->num_own && in_place != NULL; i++) {
        in_place[i] = fits_in_place(plan, given, i);
    }
    bool ready = in_place != NULL && prepare(plan, given, in_place);
    free(in_place);
    weft_tensor_impl *tensor = ready ? new_tensor(plan, given) : NULL;
    weft_tensor_impl *boxes = tensor == NULL ? NULL : regions_tensor(plan, given->function);
    bool done = boxes != NULL && weft_exchange_run(given->function, plan->exchange, boxes, tensor, false) &&
                order_tensors_after(plan, given->function, boxes) && normalize_truths(given->function, tensor);
    tensor_free(boxes);
    return done ? tensor : NULL;
}

/* Whether the box is the memory of the tensor's own shard of these elements. */
static bool lies_there(const weft_box_plan *plan, const weft_boxes *given, const weft_tensor_impl *tensor, int number)
{
    int rank = own_shard(plan, number);
    const weft_local_shard *shard = rank < 0 ? NULL : &tensor->shards[rank - weft_runtime.first_rank];
    return shard != NULL && shard->count > 0 && shard->buffer->borrowed &&
           (char *)shard->buffer->memory + shard->offset == (char *)given->items[number].data;
}

/* Tensors that lie in the memory that is written get memory of their own. False with the error kept. */
static bool detach_tensors(const weft_box_plan *plan, const char *function)
{
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL; tensor = tensor->older) {
        for (int i = 0; i < tensor->num_shards && tensor->borrowed && is_in_use(tensor); i++) {
            weft_local_shard *shard = &tensor->shards[i];
            bool written = shard->count > 0 && shard->buffer->borrowed && meets_regions(plan, shard->buffer);
            if (written && tensor->is_array) {
                weft_fail_alone(WEFT_ERR_STATE, function,
                                "boxes reach into the arrays of a ghosted tensor: weft_copy_inplace() to that one");
                return false;
            }
            if (written && shard->hold != NULL) {
                weft_fail(WEFT_ERR_STATE, function,
                          "a tensor's shard lies in the boxes' memory, and is acquired: weft_local_release() it");
                return false;
            }
            if (written && !weft_shard_detach(function, tensor, shard, true)) {
                return false;
            }
        }
    }
    return true;
}

bool weft_box_plan_export(weft_box_plan *plan, const weft_boxes *given, weft_tensor_impl *tensor)
{
    bool *in_place = prepare_memory(given->function, plan);
    for (int i = 0; i < plan->num_own && in_place != NULL; i++) {
        in_place[i] = lies_there(plan, given, tensor, i);
    }
    bool ready = in_place != NULL && prepare(plan, given, in_place) && detach_tensors(plan, given->function);
    free(in_place);
    weft_tensor_impl *boxes = ready ? regions_tensor(plan, given->function) : NULL;
    bool done = boxes != NULL && weft_exchange_run(given->function, plan->exchange, tensor, boxes, false);
    tensor_free(boxes);
    return done;
}
