/* Choices between values: extremes without NaN, numbers in place of NaN and infinities, bounds that are tensors. */
#include <math.h>
#include <string.h>

#include "ops/elementwise.h"

/* ---- extremes ------------------------------------------------------------------------------------------ */

/* Gradient of input b, where c is the other input; s is 1 for the second input, which gets nothing where both are NaN. */
CHOICE(fmax, "...,...,...->...", 3)
CHOICE(fmin, "...,...,...->...", 3)

GRADIENTS(fmax, fmax_backward(g, as_computed(g, a), as_computed(g, b), 0, 0),
          fmax_backward(g, as_computed(g, b), as_computed(g, a), 1, 0))
GRADIENTS(fmin, fmin_backward(g, as_computed(g, a), as_computed(g, b), 0, 0),
          fmin_backward(g, as_computed(g, b), as_computed(g, a), 1, 0))
/* The factor is 1 or -1; 0 for a zero. */
GRADIENT(copysign, weft_mul(g, weft_mul(weft_sign(a), weft_sign(y))))

BINARY(fmax, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(fmax, IN_0 | IN_1, IN_0 | IN_1))
BINARY(fmin, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(fmin, IN_0 | IN_1, IN_0 | IN_1))
BINARY(copysign, WEFT_TYPES_NUMBER, WEFT_TYPE_FLOATING, NOT_LINEAR, ONE(copysign, IN_0 | OUT))

/* ---- in place of NaN and infinities -------------------------------------------------------------------- */

GRADIENT(nan_to_num, weft_zero_where(weft_logical_not(weft_isfinite(a)), g))

/* scalars: in place of NaN, infinity, minus infinity. */
static const weft_operation operation_nan_to_num = {
    .name = "nan_to_num",
    .gradient = ONE(nan_to_num, IN_0),
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .kernel = WEFT_KERNEL_nan_to_num,
};

static double largest_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 0x1.fffffffffffffp1023 : dtype == WEFT_F32 ? 0x1.fffffep127 : dtype == WEFT_BF16 ? 0x1.fep127 : 65504;
}

weft_tensor *weft_nan_to_num(weft_tensor *a, double nan, double posinf, double neginf)
{
    static const char function[] = "weft_nan_to_num";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    weft_dtype type = weft_layout_of(a)->dtype;
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_nan_to_num,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { nan, isnan(posinf) ? largest_of(type) : posinf,
                                                    isnan(neginf) ? -largest_of(type) : neginf } });
}

/* ---- bounds and fillings that are tensors -------------------------------------------------------------- */

/* The gradient, whole where `whole` holds, a half of it where `half` does, else 0. */
static weft_tensor *share(weft_tensor *gradient, weft_tensor *whole, weft_tensor *half)
{
    weft_tensor *part = weft_where(half, weft_scale(gradient, 0.5), gradient);
    return weft_masked_fill(part, weft_logical_not(weft_logical_or(whole, half)), 0);
}

/* Two bounds, as in PyTorch: an input equal to one of two different bounds shares the gradient with it; an input equal to both
 * gets all of it. A least bound above the other gets none. NaN counts as between the bounds. */
static bool gradients_of_clamp(const weft_gradient *of)
{
    if (of->call->num_inputs < 3) {
        return weft_gradient_of_body(of);
    }
    weft_tensor *g = weft_gradient_of_output(of, 0), *a = of->call->inputs[0];
    weft_tensor *least = of->call->inputs[1], *most = of->call->inputs[2];
    weft_tensor *ordered = weft_lt(least, most);
    weft_tensor *below = weft_logical_and(weft_lt(a, least), weft_le(least, most));
    weft_tensor *above = weft_logical_or(weft_gt(a, most), weft_gt(least, most));
    weft_tensor *at_least = weft_logical_and(weft_eq(a, least), ordered);
    weft_tensor *at_most = weft_logical_and(weft_eq(a, most), ordered);
    weft_tensor *tied = weft_logical_or(at_least, at_most), *outside = weft_logical_or(below, above);
    return (!weft_gradient_wanted(of, 0) ||
            weft_give_gradient(of, 0, share(g, weft_logical_not(weft_logical_or(outside, tied)), tied))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, share(g, below, at_least))) &&
           (!weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, share(g, above, at_most)));
}

/* attributes.number 0: which bounds there are, bit 0: least, bit 1: most. The type is that of all inputs together: with a number in
 * between it is not that of one pair after the other. */
static bool expand_clamp(const weft_call *call, weft_tensor *outputs[])
{
    int64_t bounds = call->attributes.numbers[0];
    const weft_layout *layouts[WEFT_MAX_INPUTS];
    weft_tensor *inputs[WEFT_MAX_INPUTS] = { NULL };
    for (int i = 0; i < call->num_inputs; i++) {
        layouts[i] = weft_layout_of(call->inputs[i]);
    }
    for (int i = 0; i < call->num_inputs; i++) {
        inputs[i] = weft_to_type(call->inputs[i], weft_promoted(call->num_inputs, layouts));
    }
    weft_tensor *bounded = (bounds & 1) != 0 ? weft_maximum(inputs[0], inputs[1]) : inputs[0];
    outputs[0] = (bounds & 2) != 0 ? weft_minimum(bounded, inputs[call->num_inputs - 1]) : bounded;
    return outputs[0] != NULL;
}

#define ALL (IN_0 | IN_1 | IN_2)

static const weft_operation operation_clamp_tensors = {
    .name = "clamp_tensors",
    .gradient = { .function = gradients_of_clamp, .reads = { ALL, ALL, ALL } },
    .inputs = { { "a", WEFT_TYPES_NUMBER, false },
                { "min", WEFT_TYPES_NUMBER, false },
                { "max", WEFT_TYPES_NUMBER, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED,
    .expand = expand_clamp,
};

static const weft_operation operation_clamp_above = {
    .name = "clamp_tensors",
    .gradient = { .function = weft_gradient_of_body, .reads = { ALL, ALL } },
    .inputs = { { "a", WEFT_TYPES_NUMBER, false }, { "max", WEFT_TYPES_NUMBER, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED,
    .expand = expand_clamp,
};

/* False with the error kept: no tensor of numbers, or of a shape that does not broadcast with the others'. */
static bool check_number(const char *function, const char *name, weft_tensor *tensor, int *ndim, int64_t shape[])
{
    return weft_check_tensor(function, name, tensor) != NULL &&
           weft_check_type(function, name, tensor, WEFT_TYPES_NUMBER, "a number") &&
           weft_check_broadcast(function, name, weft_layout_of(tensor), ndim, shape);
}

weft_tensor *weft_clamp_tensors(weft_tensor *a, weft_tensor *min, weft_tensor *max)
{
    static const char function[] = "weft_clamp_tensors";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (min == NULL && max == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "min and max are NULL, expected at least one tensor");
        return NULL;
    }
    int ndim = 0;
    int64_t shape[WEFT_MAX_DIMS];
    if (!check_number(function, "a", a, &ndim, shape) ||
        (min != NULL && !check_number(function, "min", min, &ndim, shape)) ||
        (max != NULL && !check_number(function, "max", max, &ndim, shape))) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = min == NULL ? &operation_clamp_above : &operation_clamp_tensors,
        .num_inputs = min == NULL || max == NULL ? 2 : 3,
        .inputs = { a, min == NULL ? max : min, max },
        .attributes = { .num_numbers = 1, .numbers = { (min != NULL ? 1 : 0) | (max != NULL ? 2 : 0) } } });
}

static bool expand_masked_fill(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0], *value = weft_to_type(call->inputs[2], weft_layout_of(a)->dtype);
    outputs[0] = value == NULL ? NULL : weft_where(call->inputs[1], value, a);
    return outputs[0] != NULL;
}

static const weft_operation operation_masked_fill_tensor = {
    .name = "masked_fill_tensor",
    .gradient = { .function = weft_gradient_of_body, .reads = { IN_1, 0, IN_1 } },
    .inputs = { { "a", WEFT_TYPES_ANY, false },
                { "mask", WEFT_TYPES_BOOL, false },
                { "value", WEFT_TYPES_ANY, false } },
    .expand = expand_masked_fill,
};

weft_tensor *weft_masked_fill_tensor(weft_tensor *a, weft_tensor *mask, weft_tensor *value)
{
    static const char function[] = "weft_masked_fill_tensor";
    if (weft_check_tensor(function, "a", a) == NULL || weft_check_tensor(function, "mask", mask) == NULL ||
        weft_check_tensor(function, "value", value) == NULL ||
        !weft_check_type(function, "mask", mask, WEFT_TYPES_BOOL, "bool")) {
        return NULL;
    }
    const weft_layout *own = weft_layout_of(a);
    int ndim = own->ndim;
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, own->shape, sizeof(shape));
    if (!weft_check_same_mesh(function, "a", own, "mask", weft_layout_of(mask)) ||
        !weft_check_broadcast(function, "mask", weft_layout_of(mask), &ndim, shape)) {
        return NULL;
    }
    if (weft_layout_of(value)->ndim != 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "value has %d dimensions, expected none", weft_layout_of(value)->ndim);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_masked_fill_tensor,
                                       .num_inputs = 3,
                                       .inputs = { a, mask, value } });
}

const weft_operation *const weft_choice_operations[] = {
    &operation_fmax,
    &operation_fmin,
    &operation_copysign,
    &operation_nan_to_num,
    &operation_clamp_tensors,
    &operation_clamp_above,
    &operation_masked_fill_tensor,
    &operation_fmax_backward,
    &operation_fmin_backward,
    NULL,
};
