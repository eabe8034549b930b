/* Tensors without data, from which a program gets shapes, layouts, plans and costs. */
#include "tensor/actions.h"
#include "tensor/state.h"

static weft_status perform_fake(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = weft_tensor_handle(weft_tensor_fake(call->function, call->details->layout));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

static const weft_operation action_fake = { .name = "fake", .perform = perform_fake, .effects = WEFT_LEAVES_VALUES, .num_outputs = 1 };

static weft_tensor *make(const char *function, const weft_layout *layout)
{
    return layout == NULL
               ? NULL
               : weft_act_for_tensor(&(weft_call){ .function = function,
                                                   .operation = &action_fake,
                                                   .details = &(weft_call_details){ .layout = layout } });
}

weft_tensor *weft_fake(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    weft_factory request = { "weft_fake", dtype, ndim, shape, mesh, placements, .partial_allowed = true };
    return weft_made(dtype, make(request.function, weft_factory_layout(&request)));
}

weft_tensor *weft_fake_like(weft_tensor *a)
{
    static const char function[] = "weft_fake_like";
    const weft_tensor_impl *like = weft_check_tensor(function, "a", a);
    return like == NULL ? NULL : make(function, like->layout);
}

bool weft_tensor_is_fake(const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = weft_check_tensor("weft_tensor_is_fake", "tensor", handle);
    bool fake = tensor != NULL && weft_tensor_is_layout_alone(tensor);
    return tensor != NULL && (fake || weft_runtime.world == WEFT_WORLD_FAKE);
}
