/* Cumulative sums and products. */
#include "codelets/scans.h"

#include "ops/ops.h"

/* Narrow integers become WEFT_I64 first, so that addends do not wrap around. */
static bool is_narrow(const weft_call_layouts *call)
{
    return !weft_dtype_has_gradient(call->inputs[0]->dtype) && call->inputs[0]->dtype != WEFT_I64;
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
        .inputs = { { "a", WEFT_TYPES_ANY, false } },                                                    \
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
    if (weft_layout_of(a)->ndim == 0) {
        return weft_only_sum(function, a);
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = operation,
        .num_inputs = 1,
        .inputs = { a },
        .attributes = { .leading = dim, .num_numbers = 1, .numbers = { dim } },
    });
}

/* Sums from the end: of each element and all after it. */
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
    weft_tensor *gradient = weft_gradient_of_output(of, 0), *a = weft_conjugate(of->call->inputs[0]);
    int dim = (int)of->call->attributes.numbers[0];
    if (of->differentiated) {
        return weft_give_gradient(of, 0, weft_cumprod_gradient(gradient, a, dim));
    }
    weft_tensor *zero = weft_logical_not(a);
    weft_tensor *first = weft_logical_and(zero, weft_eq(weft_cumsum(zero, dim), zero));
    weft_tensor *without_first = weft_cumprod(weft_masked_fill(a, first, 1), dim);
    weft_tensor *at_first = sums_behind(weft_mul(gradient, without_first), dim);
    weft_tensor *elsewhere = weft_div(sums_behind(weft_mul(gradient, weft_conjugate(of->outputs[0])), dim), a);
    weft_tensor *rest = weft_masked_fill(elsewhere, zero, 0);
    return rest != NULL && at_first != NULL && weft_give_gradient(of, 0, weft_where(first, at_first, rest));
}

SCAN(cumsum, WEFT_LINEAR_OPS, WEFT_GRADIENT_BY(gradient_of_cumsum, 0))
SCAN(cumprod, 1u << WEFT_PROD, WEFT_GRADIENT_BY(gradient_of_cumprod, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)))

/* ---- extremes ------------------------------------------------------------------------------------------ */

/* numbers: the dimension, whether the largest is sought. */
static const weft_operation operation_cumulative_place = {
    .name = "cumulative_place",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .rules = { "A[n]B->A[n]B" },
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_cumulative_place,
};

/* The indices first, then the values at them. */
static bool expand_extremes(const weft_call *call, weft_tensor *outputs[])
{
    int dim = (int)call->attributes.numbers[0];
    weft_tensor *a = weft_unshard_dim(call->function, call->inputs[0], dim);
    weft_call place = *call;
    place.operation = &operation_cumulative_place;
    place.inputs[0] = a;
    place.attributes.omitted = 0;
    outputs[1] = a == NULL ? NULL : weft_dispatch(&place);
    outputs[0] = outputs[1] == NULL ? NULL : weft_look_up(call->function, a, dim, false, outputs[1]);
    return outputs[0] != NULL;
}

/* Each element gets the gradients of the results that are it. */
static bool gradient_of_extremes(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    int dim = (int)of->call->attributes.numbers[0];
    return gradient == NULL || weft_give_gradient(of, 0,
                                                  weft_scatter_to(of->call->function, gradient, dim, of->outputs[1],
                                                                  weft_layout_of(of->call->inputs[0])->shape[dim]));
}

static const weft_operation operation_cumulative_extremes = {
    .name = "cumulative_extremes",
    .gradient = WEFT_GRADIENT_BY(gradient_of_extremes, WEFT_READS_OUTPUT(1)),
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .expand = expand_extremes,
};

static weft_tensor *extremes(const char *function, weft_tensor *a, int dim, bool largest, weft_tensor **indices)
{
    if (indices != NULL) {
        *indices = NULL;
    }
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim == 0) {
        return weft_only_element(function, a, indices);
    }
    return weft_dispatch_pair(&(weft_call){ .function = function,
                                            .operation = &operation_cumulative_extremes,
                                            .num_inputs = 1,
                                            .inputs = { a },
                                            .attributes = { .leading = dim, .num_numbers = 2, .numbers = { dim, largest } } },
                              indices);
}

weft_tensor *weft_cummax(weft_tensor *a, int dim, weft_tensor **indices)
{
    return extremes("weft_cummax", a, dim, true, indices);
}

weft_tensor *weft_cummin(weft_tensor *a, int dim, weft_tensor **indices)
{
    return extremes("weft_cummin", a, dim, false, indices);
}

const weft_operation *const weft_scan_operations[] = {
    &operation_cumulative_place,
    &operation_cumulative_extremes,
    &operation_cumsum,
    &operation_cumprod,
    NULL,
};
