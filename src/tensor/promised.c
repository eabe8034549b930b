#include "tensor/promised.h"

#include <stdlib.h>

#include "tensor/state.h"

void weft_promised_add(weft_tensor_impl *tensor)
{
    weft_tensors *tensors = weft_runtime.tensors;
    tensor->promised = true;
    tensor->next_promised = tensors->promised;
    tensor->former_promised = NULL;
    if (tensors->promised != NULL) {
        tensors->promised->former_promised = tensor;
    }
    tensors->promised = tensor;
}

void weft_promised_remove(weft_tensor_impl *tensor)
{
    weft_tensors *tensors = weft_runtime.tensors;
    *(tensor->former_promised != NULL ? &tensor->former_promised->next_promised : &tensors->promised) =
        tensor->next_promised;
    if (tensor->next_promised != NULL) {
        tensor->next_promised->former_promised = tensor->former_promised;
    }
    tensor->promised = false;
}

weft_tensor_impl *weft_tensor_promise(const char *function, const weft_layout *layout, bool fake)
{
    weft_tensor_impl *tensor =
        fake ? weft_tensor_allocate_fake(function, layout) : weft_tensor_allocate(function, layout);
    if (tensor != NULL && !weft_tensor_register(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    if (tensor != NULL) {
        weft_promised_add(tensor);
    }
    return tensor;
}

bool weft_tensor_fulfil(const char *function, weft_tensor_impl *promised, const weft_tensor_impl *values)
{
    for (int i = 0; i < promised->num_shards && values != promised; i++) {
        weft_local_shard *shard = &promised->shards[i];
        if (shard->count > 0 && !weft_shard_share(promised->layout, shard, values, &values->shards[i])) {
            while (i-- > 0) {
                weft_buffer_release(promised->shards[i].buffer);
                free(promised->shards[i].view_panels);
                promised->shards[i].buffer = NULL;
                promised->shards[i].view_panels = NULL;
            }
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for the values of a tensor");
            return false;
        }
    }
    weft_promised_remove(promised);
    if (weft_runtime.trace != NULL) {
        weft_tensor_trace_renamed(promised);
    }
    return true;
}

static void break_promise(weft_tensor_impl *promised)
{
    bool has_memory = false;
    weft_promised_remove(promised);
    for (int i = 0; i < promised->num_shards; i++) {
        has_memory |= promised->shards[i].buffer != NULL;
    }
    if (!has_memory) {
        promised->num_shards = 0;
        promised->fake = true;
    }
}

void weft_promised_break_all(void)
{
    while (weft_runtime.tensors->promised != NULL) {
        break_promise(weft_runtime.tensors->promised);
    }
}
