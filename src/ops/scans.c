/* Cumulative sums and products. */
#include "codelets/scans.h"

#include "ops/ops.h"

/* Integers of fewer bits come here as WEFT_I64, so that addends do not wrap around before they are added. */
#define SCAN(name_, ops_, gradient_)                                                                         \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = gradient_,                                                                               \
        .rules = { "A[n]B->A[n]B" },                                                                         \
        .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = (ops_) },                                            \
        .inputs = { { "a", WEFT_TYPES_FLOAT | WEFT_TYPE_BIT(WEFT_I64), false } },                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
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
    if (!weft_composite_open(function)) {
        return NULL;
    }
    weft_tensor *wide = weft_dtype_is_floating(weft_layout_of(a)->dtype) ? a : weft_to_type(a, WEFT_I64);
    return weft_leave_scope(wide == NULL
                                ? NULL
                                : weft_dispatch(&(weft_call){
                                      .function = function,
                                      .operation = operation,
                                      .num_inputs = 1,
                                      .inputs = { wide },
                                      .attributes = { .leading = dim, .num_numbers = 1, .numbers = { dim } },
                                  }));
}

SCAN(cumsum, WEFT_LINEAR_OPS, "flip, cumsum")
SCAN(cumprod, 1u << WEFT_PROD, NULL)

const weft_operation *const weft_scan_operations[] = {
    &operation_cumsum,
    &operation_cumprod,
    NULL,
};
