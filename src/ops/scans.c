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

#define SCAN(name_, ops_, ...)                                                                               \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = __VA_ARGS__,                                                                             \
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

/* Sums from the end: of each element and all behind it. */
static weft_tensor *sums_behind(weft_tensor *a, int dim)
{
    return weft_flip(weft_cumsum(weft_flip(a, 1, &dim), dim), 1, &dim);
}

static bool gradient_of_cumsum(const weft_gradient *of)
{
    return weft_give_gradient(of, 0,
                              sums_behind(weft_gradient_of_output(of, 0), (int)of->call->attributes.numbers[0]));
}

/* The derivative of the product up to i by element j <= i is that product without element j. Where element j is not 0,
 * that is the product divided by it; for the first 0 of a row, the product with 1 in its place; for all further ones it is
 * 0, the first one being a factor. */
static bool gradient_of_cumprod(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0), *a = of->call->inputs[0];
    int dim = (int)of->call->attributes.numbers[0];
    if (of->differentiated) {
        return weft_give_gradient(of, 0, weft_cumprod_gradient(gradient, a, dim));
    }
    weft_tensor *zero = weft_logical_not(a);
    weft_tensor *first = weft_logical_and(zero, weft_eq(weft_cumsum(zero, dim), zero));
    weft_tensor *without_first = weft_cumprod(weft_masked_fill(a, first, 1), dim);
    weft_tensor *at_first = sums_behind(weft_mul(gradient, without_first), dim);
    weft_tensor *elsewhere = weft_div(sums_behind(weft_mul(gradient, of->outputs[0]), dim), a);
    weft_tensor *rest = weft_masked_fill(elsewhere, zero, 0);
    return rest != NULL && at_first != NULL && weft_give_gradient(of, 0, weft_where(first, at_first, rest));
}

SCAN(cumsum, WEFT_LINEAR_OPS, WEFT_GRADIENT_BY(gradient_of_cumsum, 0))
SCAN(cumprod, 1u << WEFT_PROD, WEFT_GRADIENT_BY(gradient_of_cumprod, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)))

const weft_operation *const weft_scan_operations[] = {
    &operation_cumsum,
    &operation_cumprod,
    NULL,
};
