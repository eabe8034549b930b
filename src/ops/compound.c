/* What operations that are put together from others share. */
#include "ops/ops.h"

int weft_check_dim_of(const char *function, weft_tensor *a, int dim)
{
    a = weft_check_tensor(function, "a", a);
    if (a == NULL) {
        return -1;
    }
    if (a->layout->ndim == 0) {
        weft_fail(WEFT_ERR_INVALID, function, "a is a scalar: it has no dimension %d", dim);
        return -1;
    }
    return weft_check_dim(function, "dim", dim, a->layout->ndim);
}

weft_tensor *weft_leave_scope(weft_tensor *result)
{
    if (result != NULL) {
        weft_scope_keep(result);
    }
    weft_scope_close();
    return result;
}

/* Where else what one mesh dimension holds may go: to the largest dimension but `whole`. */
static weft_placement place_elsewhere(const weft_layout *layout, int whole)
{
    weft_placement placement = weft_replicate();
    for (int d = 0; d < layout->ndim; d++) {
        bool larger = placement.kind == WEFT_REPLICATE || layout->shape[d] > layout->shape[placement.dim];
        if (d != whole && larger) {
            placement = weft_shard(d);
        }
    }
    return placement;
}

weft_tensor *weft_settle(const char *function, weft_tensor *a, int whole)
{
    const weft_layout *layout = a->layout;
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement now = layout->placements[m];
        bool stays = now.kind == WEFT_REPLICATE || (now.kind == WEFT_SHARD && now.dim != whole);
        placements[m] = stays ? now : place_elsewhere(layout, whole);
    }
    const weft_layout *settled = weft_check_layout(function, (weft_mesh *)layout->mesh, placements,
                                                   layout->ndim, layout->shape, layout->dtype);
    return settled == NULL ? NULL : weft_tensor_to_layout(function, a, settled);
}

weft_dtype weft_wide_type(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16 ? WEFT_F32 : dtype;
}

weft_tensor *weft_dispatch_sum(const weft_call *call)
{
    for (int i = 0; i < call->num_inputs; i++) {
        if (weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]) == NULL) {
            return NULL;
        }
    }
    weft_call wide = *call;
    weft_dtype type = call->inputs[0]->layout->dtype;
    wide.attributes.type = weft_wide_type(type);
    if (wide.attributes.type == (int64_t)type) {
        return weft_dispatch(&wide);
    }
    weft_scope_open();
    weft_tensor *sum = weft_dispatch(&wide);
    return weft_leave_scope(sum == NULL ? NULL : weft_to_type(sum, type));
}
