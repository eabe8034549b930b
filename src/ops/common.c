/* Checks and calls that several families of operations use. */
#include <string.h>

#include "comm/check_spmd.h"
#include "ops/ops.h"

int weft_wrap_dim(const char *function, const char *argument, const weft_tensor *a, int dim)
{
    int ndim = weft_layout_of(a)->ndim;
    return weft_check_dim(function, argument, dim, ndim == 0 ? 1 : ndim);
}

int weft_check_dim_of(const char *function, weft_tensor *a, int dim)
{
    return weft_check_tensor(function, "a", a) == NULL ? -1 : weft_wrap_dim(function, "dim", a, dim);
}

int weft_check_own_dim(const char *function, const char *argument, const weft_tensor *a, int dim)
{
    if (weft_layout_of(a)->ndim == 0) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d, but a is a scalar and has no dimensions", argument,
                  dim);
        return -1;
    }
    return weft_check_dim(function, argument, dim, weft_layout_of(a)->ndim);
}

bool weft_check_broadcast(const char *function, const char *name, const weft_layout *layout, int *ndim, int64_t shape[])
{
    int most = *ndim > layout->ndim ? *ndim : layout->ndim;
    int64_t result[WEFT_MAX_DIMS];
    for (int d = 0; d < most; d++) {
        int own = d - (most - *ndim), other = d - (most - layout->ndim);
        int64_t size = own < 0 ? 1 : shape[own], given = other < 0 ? 1 : layout->shape[other];
        if (size != given && size != 1 && given != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "dimension %d of %s has size %lld, expected 1 or %lld", other, name,
                      (long long)given, (long long)size);
            return false;
        }
        result[d] = size == 1 ? given : size;
    }
    *ndim = most;
    for (int d = 0; d < most; d++) {
        shape[d] = result[d];
    }
    return true;
}

bool weft_check_type(const char *function, const char *name, weft_tensor *tensor, unsigned types, const char *expected)
{
    weft_dtype type = weft_layout_of(tensor)->dtype;
    if ((types & WEFT_TYPE_BIT(type)) == 0) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected %s", name, weft_dtype_name(type), expected);
        return false;
    }
    return true;
}

weft_tensor *weft_in_layout(const char *function, weft_tensor *tensor, const weft_layout *layout)
{
    return weft_act_for_tensor(&(weft_call){ .function = function,
                                             .operation = &weft_action_to_layout,
                                             .num_inputs = 1,
                                             .inputs = { tensor },
                                             .details = &(weft_call_details){ .layout = layout } });
}

weft_tensor *weft_through_map(const char *function, weft_tensor *tensor, const weft_access_map *access_map)
{
    const weft_layout *layout = weft_access_layout(function, weft_layout_of(tensor), access_map);
    return layout == NULL ? NULL
                          : weft_act_for_tensor(&(weft_call){ .function = function,
                                                              .operation = &weft_action_access,
                                                              .num_inputs = 1,
                                                              .inputs = { tensor },
                                                              .access_map = { access_map },
                                                              .details = &(weft_call_details){ .layout = layout } });
}

weft_tensor *weft_new_tensor(const char *function, const weft_layout *layout)
{
    return weft_act_for_tensor(&(weft_call){ .function = function,
                                             .operation = &weft_action_new,
                                             .details = &(weft_call_details){ .layout = layout } });
}

bool weft_fills_new(const weft_call_layouts *call)
{
    return call->num_inputs == 0;
}

/* Fills by global index, so what has shards that are no boxes is filled in boxes first. */
bool weft_expand_new(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *wanted = call->details->layout, *filled = weft_layout_of_boxes(call->function, wanted);
    weft_call filling = *call;
    filling.details = NULL;
    filling.inherited = WEFT_ALL_SCALARS;
    filling.num_inputs = 1;
    filling.inputs[0] = filled == NULL ? NULL : weft_new_tensor(call->function, filled);
    outputs[0] = filling.inputs[0] == NULL ? NULL : weft_dispatch(&filling);
    outputs[0] = outputs[0] == NULL || filled == wanted ? outputs[0] : weft_in_layout(call->function, outputs[0], wanted);
    return outputs[0] != NULL;
}

weft_tensor *weft_fill_new(const char *function, const weft_operation *operation, const weft_layout *layout,
                           const double scalars[WEFT_MAX_SCALARS])
{
    if (layout == NULL) { /* takes part in the SPMD check */
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return NULL;
    }
    weft_call call = { .function = function,
                       .operation = operation,
                       .details = &(weft_call_details){ .layout = layout } };
    memcpy(call.scalars, scalars, sizeof(call.scalars));
    return weft_dispatch(&call);
}

/* Fallback: shard the largest dimension but `whole`. */
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

weft_tensor *weft_unshard_dim(const char *function, weft_tensor *a, int whole)
{
    const weft_layout *layout = weft_layout_of(a);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement now = layout->placements[m];
        bool stays = now.kind == WEFT_REPLICATE || (now.kind == WEFT_SHARD && now.dim != whole);
        placements[m] = stays ? now : place_elsewhere(layout, whole);
    }
    weft_placements_settle(layout->mesh, layout->shape, placements);
    const weft_layout *settled =
        weft_check_layout(function, layout->mesh, placements, layout->ndim, layout->shape, layout->dtype);
    return settled == NULL ? NULL : weft_in_layout(function, a, settled);
}

weft_dtype weft_wide_type(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16 ? WEFT_F32 : dtype;
}

bool weft_sum_is_rounded(const weft_call_layouts *call)
{
    return weft_wide_type(call->inputs[0]->dtype) != call->inputs[0]->dtype && call->attributes->type == (int64_t)call->inputs[0]->dtype;
}

bool weft_expand_rounded_sum(const weft_call *call, weft_tensor *outputs[])
{
    weft_call wide = *call;
    wide.inherited = WEFT_ALL_SCALARS;
    wide.attributes.type = weft_wide_type((weft_dtype)call->attributes.type);
    weft_tensor *sum = weft_dispatch(&wide);
    outputs[0] = sum == NULL ? NULL : weft_to_type(sum, (weft_dtype)call->attributes.type);
    return outputs[0] != NULL;
}

static weft_tensor *dispatch_sum(const weft_call *call, bool wide)
{
    for (int i = 0; i < call->num_inputs; i++) {
        if (weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]) == NULL) {
            return NULL;
        }
    }
    weft_call sum = *call;
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    sum.attributes.type = (int64_t)(wide ? weft_wide_type(type) : type);
    return weft_dispatch(&sum);
}

weft_tensor *weft_dispatch_sum(const weft_call *call)
{
    return dispatch_sum(call, false);
}

weft_tensor *weft_dispatch_wide_sum(const weft_call *call)
{
    return dispatch_sum(call, true);
}

static bool expand_itself(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = call->inputs[0];
    return true;
}

static const weft_operation operation_itself = {
    .name = "itself",
    .gradient = WEFT_GRADIENT_SAME,
    .inputs = { { "a", WEFT_TYPES_ANY, false } },
    .expand = expand_itself,
};

weft_tensor *weft_itself(const char *function, weft_tensor *a)
{
    return weft_dispatch(
        &(weft_call){ .function = function, .operation = &operation_itself, .num_inputs = 1, .inputs = { a } });
}

const weft_operation *const weft_composite_operations[] = { &operation_itself, NULL };

weft_tensor *weft_dispatch_pair(const weft_call *call, weft_tensor **second)
{
    weft_call own = *call;
    own.attributes.omitted = second == NULL;
    weft_tensor *outputs[2] = { NULL, NULL };
    bool done = weft_dispatch_all(&own, outputs);
    if (second != NULL) {
        *second = done ? outputs[1] : NULL;
    }
    return done ? outputs[0] : NULL;
}
