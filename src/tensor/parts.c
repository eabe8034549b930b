/* Flatten: a tensor's shards and layout; unflatten: a tensor of these. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* ---- apart --------------------------------------------------------------------------------------------- */

/* Gives the caller a reference per shard. */
static weft_status perform_flatten(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    tensor->references += weft_runtime.local_ranks;
    tensor->caller_references += weft_runtime.local_ranks;
    return WEFT_OK;
}

weft_status weft_tensor_flatten(weft_tensor *handle, weft_tensor_shard shards[], weft_tensor_layout *layout)
{
    static const char function[] = "weft_tensor_flatten";
    static const weft_action action = { .name = "tensor_flatten", .perform = perform_flatten, .leaves_values = true };
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (shards == NULL || layout == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", shards == NULL ? "shards" : "layout");
    }
    const weft_layout *own = tensor->layout;
    *layout =
        (weft_tensor_layout){ .dtype = own->dtype, .ndim = own->ndim, .mesh = weft_mesh_handle(own->mesh) };
    memcpy(layout->shape, own->shape, sizeof(layout->shape));
    memcpy(layout->placements, own->placements, (size_t)own->mesh->ndim * sizeof(layout->placements[0]));
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        shards[i] = (weft_tensor_shard){ handle, i };
    }
    return weft_act(
        &(weft_call){ .function = function, .action = &action, .num_inputs = 1, .inputs = { handle } }, NULL);
}

/* ---- together ------------------------------------------------------------------------------------------ */

/* Whether a shard fits a rank in `layout`. False with the error kept. */
static bool check_shard(const char *function, const weft_layout *layout, int number,
                        const weft_tensor_shard *given)
{
    const weft_shard_info wanted = weft_layout_shard(layout, weft_runtime.first_rank + number);
    char name[32];
    snprintf(name, sizeof(name), "shards[%d].tensor", number);
    const weft_tensor_impl *source = weft_check_tensor(function, name, given->tensor);
    if (source == NULL) {
        return false;
    }
    if (given->local_rank < 0 || given->local_rank >= weft_runtime.local_ranks) {
        weft_fail(WEFT_ERR_INVALID, function, "shards[%d].local_rank is %d, expected 0 to %d", number,
                  given->local_rank, weft_runtime.local_ranks - 1);
        return false;
    }
    if (source->layout->dtype != layout->dtype) {
        weft_fail(WEFT_ERR_DTYPE, function, "shards[%d] is %s, expected %s", number,
                  weft_dtype_name(source->layout->dtype), weft_dtype_name(layout->dtype));
        return false;
    }
    const weft_shard_info found =
        weft_layout_shard(source->layout, weft_runtime.first_rank + given->local_rank);
    if (source->layout->ndim != layout->ndim || found.count == 0 ||
        memcmp(found.box.extent, wanted.box.extent, (size_t)layout->ndim * sizeof(wanted.box.extent[0])) !=
            0) {
        char source_text[160], layout_text[160];
        weft_fail(WEFT_ERR_SHAPE, function,
                  "shards[%d] is shard %d of %s, and does not have the sizes of the rank's part of %s", number,
                  given->local_rank, weft_layout_format(source->layout, source_text, sizeof(source_text)),
                  weft_layout_format(layout, layout_text, sizeof(layout_text)));
        return false;
    }
    return true;
}

static bool check_shards(const char *function, const weft_layout *layout, const weft_tensor_shard shards[])
{
    bool right = true;
    for (int i = 0; i < weft_runtime.local_ranks && right; i++) {
        bool empty = weft_layout_shard(layout, weft_runtime.first_rank + i).count == 0;
        right = empty || check_shard(function, layout, i, &shards[i]);
    }
    return right;
}

/* Copies all bytes of a shard to one that is cut into other panels. False with the error kept. */
static bool copy_shard(const char *function, const weft_layout *layout, weft_local_shard *shard,
                       const weft_layout *from_layout, const weft_local_shard *from)
{
    if (!weft_shard_attach(shard, weft_buffer_new(weft_runtime.pool, weft_shard_cut(layout, shard)))) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a shard of %lld elements",
                  (long long)shard->count);
        return false;
    }
    weft_cut to = weft_shard_cut(layout, shard), source = weft_shard_cut(from_layout, from);
    int64_t end = shard->count * (int64_t)weft_dtype_size(layout->dtype), place = 0;
    bool done = true;
    for (int i = 0, k = 0; place < end && done;) {
        int64_t to_end = weft_cut_end(&to, i), source_end = weft_cut_end(&source, k);
        int64_t next = weft_min_i64(to_end, source_end);
        done = weft_task_copy_piece(&shard->panels[i], place - weft_cut_start(&to, i), &from->panels[k],
                                    place - weft_cut_start(&source, k), next - place);
        place = next;
        i += place == to_end;
        k += place == source_end;
    }
    return done;
}

/* NULL with the error kept. */
static weft_tensor_impl *assemble(const weft_call *call)
{
    const weft_call_details *details = call->details;
    const weft_layout *layout = details->layout;
    weft_tensor_impl *tensor = weft_tensor_allocate(call->function, layout);
    bool done = tensor != NULL;
    for (int i = 0, next = 0; done && i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        if (shard->count == 0) {
            continue;
        }
        const weft_tensor_impl *source = weft_tensor_get(details->tensors[next]);
        const weft_local_shard *from = &source->shards[details->numbers[next++]];
        done = (weft_shard_may_be_viewed(from) && weft_shard_view(layout, shard, source, from, 0)) ||
               copy_shard(call->function, layout, shard, source->layout, from);
    }
    if (tensor != NULL && (!done || !weft_tensor_register(call->function, tensor))) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor;
}

static weft_status perform_unflatten(const weft_call *call, weft_tensor *outputs[])
{
    if (!weft_check_spmd(&(weft_call_signature){
            .function = call->function, .num_layouts = 1, .layouts = &call->details->layout })) {
        return weft_latest_status();
    }
    outputs[0] = weft_tensor_handle(assemble(call));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

/* Details of the call: the tensors of the non-empty shards, and their local ranks. */
static weft_tensor *act(const char *function, const weft_layout *layout, const weft_tensor_shard shards[])
{
    static const weft_action action = {
        .name = "tensor_unflatten", .perform = perform_unflatten, .num_outputs = 1, .makes = true
    };
    size_t most = (size_t)weft_runtime.local_ranks;
    weft_tensor **tensors = malloc(most * sizeof(*tensors));
    int64_t *numbers = malloc(most * sizeof(*numbers));
    weft_tensor *output = NULL;
    weft_call_details details = { .tensors = tensors, .numbers = numbers, .layout = layout };
    if (tensors == NULL || numbers == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %zu shards", most);
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
    } else {
        for (int i = 0; i < weft_runtime.local_ranks; i++) {
            if (weft_layout_shard(layout, weft_runtime.first_rank + i).count > 0) {
                tensors[details.num_tensors++] = shards[i].tensor;
                numbers[details.num_numbers++] = shards[i].local_rank;
            }
        }
        output =
            weft_act_for_tensor(&(weft_call){ .function = function, .action = &action, .details = &details });
    }
    free(tensors);
    free(numbers);
    return output;
}

weft_tensor *weft_tensor_unflatten(const weft_tensor_shard shards[], const weft_tensor_layout *given)
{
    static const char function[] = "weft_tensor_unflatten";
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    const weft_layout *layout = NULL;
    if (shards == NULL || given == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", shards == NULL ? "shards" : "layout");
    } else {
        layout = weft_factory_layout(&(weft_factory){ .function = function,
                                                      .dtype = given->dtype,
                                                      .ndim = given->ndim,
                                                      .shape = given->shape,
                                                      .mesh = given->mesh,
                                                      .placements = given->placements,
                                                      .partial_allowed = true });
    }
    if (layout == NULL || !check_shards(function, layout, shards)) {
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return NULL;
    }
    return act(function, layout, shards);
}
