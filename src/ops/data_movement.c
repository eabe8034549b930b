#include "ops/data_movement.h"

static int describe_call(weft_describe_function describe, const weft_call_layouts *call, weft_affine maps[])
{
    return describe(call->attributes, call->inputs[call->operation->outputs[0].in_place ? 1 : 0], maps);
}

void weft_write_move(weft_describe_function describe, const weft_call_layouts *call, char *text, size_t size)
{
    weft_affine maps[WEFT_MAX_MAPS];
    int count = describe_call(describe, call, maps);
    weft_affine_rule(count, maps, call->operation->outputs[0].in_place, text, size);
}

weft_window weft_window_of_move(weft_describe_function describe, const weft_call_layouts *call, int input,
                                int dim)
{
    weft_affine maps[WEFT_MAX_MAPS];
    int count = describe_call(describe, call, maps), map = 0;
    while (map < count - 1 && maps[map].input != input) {
        map++;
    }
    return weft_affine_window(&maps[map], dim);
}

bool weft_lower_move(weft_describe_function describe, const weft_lowering *lowering)
{
    weft_affine maps[WEFT_MAX_MAPS];
    /* The layout of the tensor itself: through an access map, sizes in lowering->inputs are others. */
    const weft_layout *from = lowering->sharding->inputs[lowering->operation->outputs[0].in_place ? 1 : 0];
    int count = describe(lowering->attributes, from, maps);
    return weft_lower_affine(lowering, count, maps);
}

weft_tensor *weft_dispatch_move(const char *function, const weft_operation *operation, weft_tensor *a,
                                const weft_attributes *attributes)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = operation,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = *attributes });
}

weft_affine weft_same_map(const weft_layout *from)
{
    weft_affine map = { .num_loops = from->ndim };
    for (int d = 0; d < from->ndim; d++) {
        map.loops[d] = weft_affine_same(from->shape[d], d, d);
    }
    return map;
}

bool weft_check_own_dims(const char *function, const weft_tensor *a, int num_dims, const int dims[],
                         int checked[])
{
    int most = weft_layout_of(a)->ndim == 0 ? 1 : weft_layout_of(a)->ndim;
    if (num_dims < 0 || num_dims > most || (num_dims > 0 && dims == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d%s, expected 0 to %d", num_dims,
                  dims == NULL ? " and dims NULL" : "", most);
        return false;
    }
    int64_t seen = 0;
    for (int i = 0; i < num_dims; i++) {
        checked[i] = weft_wrap_dim(function, "dims", a, dims[i]);
        if (checked[i] < 0) {
            return false;
        }
        if (seen >> checked[i] & 1) {
            weft_fail(WEFT_ERR_INVALID, function, "dims has dimension %d twice", checked[i]);
            return false;
        }
        seen |= (int64_t)1 << checked[i];
    }
    return true;
}
