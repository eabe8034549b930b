/* Cumulative sums and products. */
#include "codelets/scans.h"

#include "ops/ops.h"

/* Narrow integers become WEFT_I64 first, so that addends do not wrap around. */
static bool is_narrow(const weft_call_layouts *call)
{
    return !weft_dtype_is_floating(call->inputs[0]->dtype) && call->inputs[0]->dtype != WEFT_I64;
}

static bool expand_widened(const weft_call *call, weft_tensor *outputs[])
{
    weft_call wide = *call;
    wide.inputs[0] = weft_to_type(call->inputs[0], WEFT_I64);
    outputs[0] = wide.inputs[0] == NULL ? NULL : weft_dispatch(&wide);
    return outputs[0] != NULL;
}

#define SCAN(name_, ops_, gradient_)                                                                         \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = gradient_,                                                                               \
        .rules = { "A[n]B->A[n]B" },                                                                         \
        .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = (ops_) },                                            \
        .inputs = { { "a", WEFT_TYPES_ALL, false } },                                                    \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .expand = expand_widened,                                                                            \
        .expands = is_narrow,                                                                                \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a, int dim)                                                       \
    {                                                                                                        \
        return scan("weft_" #name_, &operation_##name_, a, dim);                                             \
    }

static weft_tensor *scan(const char *function, const weft_operation *operation, weft_tensor *a, int dim)
{
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = operation,
        .num_inputs = 1,
        .inputs = { a },
        .attributes = { .leading = dim, .num_numbers = 1, .numbers = { dim } },
    });
}

SCAN(cumsum, WEFT_LINEAR_OPS, "flip, cumsum")
SCAN(cumprod, 1u << WEFT_PROD, NULL)

const weft_operation *const weft_scan_operations[] = {
    &operation_cumsum,
    &operation_cumprod,
    NULL,
};
