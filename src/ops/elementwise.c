/* Elementwise operations: what is computed is in codelets/elementwise.inc, how it becomes tasks in
 * dispatch/elementwise.c. */
#include "codelets/elementwise.h"

#include <math.h>

#include "codelets/half.h"
#include "ops/ops.h"

/* ---- how one is declared ------------------------------------------------------------------------------- */

#define LINEAR                                                                                               \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS                                                  \
    }
#define LINEAR_IN(inputs_)                                                                                   \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = (inputs_), .ops = WEFT_LINEAR_OPS                                \
    }
#define MONOTONE                                                                                             \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_MONOTONE_OPS                                                \
    }
#define PASSES(op_)                                                                                          \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = 1u << (op_)                                                      \
    }
#define PASSES_ALL                                                                                           \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = ~0u                                                              \
    }
#define NOT_LINEAR                                                                                           \
    {                                                                                                        \
        .kind = WEFT_NOT_LINEAR                                                                              \
    }

/* The operation and its public function, of tensors alone. */
#define UNARY(name_, types, type_, linear_, gradient_)                                                       \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "A->A" },                                                                                 \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = gradient_,                                                                               \
        .inputs = { { "a", types, false } },                                                                 \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a)                                                                \
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 1,                                                  \
                                           .inputs = { a } });                                               \
    }

#define BINARY(name_, types, type_, linear_, gradient_)                                                      \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "...,...->..." },                                                                         \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = gradient_,                                                                               \
        .inputs = { { "a", types, false }, { "b", types, false } },                                          \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a, weft_tensor *b)                                                \
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 2,                                                  \
                                           .inputs = { a, b } });                                            \
    }

/* The gradient of a function's input, from that of its output and `second`, its input or output. */
#define BACKWARD(name_, second)                                                                              \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "A,A->A" },                                                                               \
        .outputs[0].linear = LINEAR_IN(1u << 0),                                                             \
        .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { #second, WEFT_TYPES_FLOAT, true } },           \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    static weft_tensor *name_(weft_tensor *gradient, weft_tensor *second, double scalar, double other)       \
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 2,                                                  \
                                           .inputs = { gradient, second },                                   \
                                           .scalars = { scalar, other } });                                  \
    }

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

BINARY(add, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, LINEAR, "itself, sum")
BINARY(sub, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, LINEAR, "itself, neg, sum")
BINARY(mul, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, LINEAR_IN(1u << 0 | 1u << 1), "mul, sum")
BINARY(div, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "div, mul, sum")
BINARY(floor_div, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, NULL)
BINARY(remainder, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, "itself, floor_div, mul, sum")
BINARY(fmod, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, "itself, div, trunc, mul, sum")
BINARY(pow, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, "pow, log, mul, sum")
BINARY(maximum, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, PASSES(WEFT_MAX), "eq, where, sum")
BINARY(minimum, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, PASSES(WEFT_MIN), "eq, where, sum")
BINARY(atan2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, div, mul, sum")
BINARY(hypot, WEFT_TYPES_FLOAT, WEFT_TYPE_PROMOTED, NOT_LINEAR, "div, mul, sum")
BINARY(logaddexp, WEFT_TYPES_FLOAT, WEFT_TYPE_PROMOTED, NOT_LINEAR, "sub, sigmoid, mul, sum")
BINARY(eq, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(ne, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(lt, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(le, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(gt, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(ge, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(logical_and, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(logical_or, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
BINARY(logical_xor, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)

/* ---- functions of one value ---------------------------------------------------------------------------- */

UNARY(neg, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, LINEAR, "neg")
UNARY(abs, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, "sign, mul")
UNARY(sign, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, NULL) /* of NaN it is 0: not monotone */
UNARY(square, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, "scale, mul")
UNARY(reciprocal, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, mul")
UNARY(sqrt, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "div")
UNARY(rsqrt, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "pow_scalar, mul")
UNARY(exp, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "mul")
UNARY(expm1, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "exp, mul")
UNARY(log, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "div")
UNARY(log1p, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "add_scalar, div")
UNARY(log2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "scale, div")
UNARY(log10, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "scale, div")
UNARY(sin, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "cos, mul")
UNARY(cos, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "sin, mul")
UNARY(tan, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "cos, square, div")
UNARY(asin, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, rsqrt, mul")
UNARY(acos, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, rsqrt, mul")
UNARY(atan, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, add_scalar, div")
UNARY(sinh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "cosh, mul")
UNARY(cosh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "sinh, mul")
UNARY(tanh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "tanh_backward")
UNARY(exp2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "scale, mul")
UNARY(erf, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, exp, mul")
UNARY(erfc, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "square, exp, mul")
UNARY(floor, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, NULL)
UNARY(ceil, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, NULL)
UNARY(trunc, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, NULL)
UNARY(round, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, NULL)
UNARY(sigmoid, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, "sigmoid_backward")
UNARY(silu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, "silu_backward")
UNARY(relu, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, "relu_backward")
UNARY(gelu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, "gelu_backward")
UNARY(softplus, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, "sigmoid, mul")
UNARY(logical_not, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
UNARY(isnan, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
UNARY(isinf, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)
UNARY(isfinite, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, NULL)

static const weft_operation operation_to_type = {
    .name = "to_type",
    .gradient = "to_type",
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_convert,
};

weft_tensor *weft_to_type(weft_tensor *a, weft_dtype dtype)
{
    static const char function[] = "weft_to_type";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (weft_dtype_size(dtype) == 0) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %d, which is no element type", (int)dtype);
        return NULL;
    }
    if (weft_layout_of(a)->dtype == dtype) {
        return weft_itself(function, a);
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_to_type,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .type = dtype } });
}

/* ---- with a number ------------------------------------------------------------------------------------- */

/* Beside tensors of which all are alive: a number that the type of all together has. False with the error
 * kept. */
static bool check_number(const char *function, const char *argument, int num_inputs,
                         weft_tensor *const inputs[], double value)
{
    static const char *const names[] = { "a", "b", "c" };
    const weft_layout *layouts[WEFT_ARRAY_SIZE(names)];
    for (int i = 0; i < num_inputs; i++) {
        if (weft_check_tensor(function, names[i], inputs[i]) == NULL) {
            return false;
        }
        layouts[i] = weft_layout_of(inputs[i]);
    }
    return weft_check_number(function, argument, weft_promoted(num_inputs, layouts), value);
}

static bool check_number_of(const char *function, const char *argument, weft_tensor *a, double value)
{
    return check_number(function, argument, 1, &a, value);
}

#define WITH_NUMBER(name_, argument, types, linear_, gradient_)                                              \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "A->A" },                                                                                 \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = gradient_,                                                                               \
        .inputs = { { "a", types, false } },                                                                 \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *weft_##name_(weft_tensor *a, double argument)                                               \
    {                                                                                                        \
        if (!check_number_of("weft_" #name_, #argument, a, argument)) {                                      \
            return NULL;                                                                                     \
        }                                                                                                    \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 1,                                                  \
                                           .inputs = { a },                                                  \
                                           .scalars = { argument } });                                       \
    }

WITH_NUMBER(scale, factor, WEFT_TYPES_NUMBER, LINEAR, "scale")
WITH_NUMBER(add_scalar, addend, WEFT_TYPES_NUMBER, NOT_LINEAR,
            "itself") /* integers wrap around: not monotone */
WITH_NUMBER(leaky_relu, slope, WEFT_TYPES_FLOAT, NOT_LINEAR, "leaky_relu_backward")
WITH_NUMBER(elu, alpha, WEFT_TYPES_FLOAT, NOT_LINEAR, "elu_backward")

static const weft_operation operation_pow_scalar = {
    .name = "pow_scalar",
    .rules = { "A->A" },
    .gradient = "pow_scalar_backward",
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .kernel = WEFT_KERNEL_pow_scalar,
};

/* As PyTorch does on all its devices. */
static double exponent_of_type(weft_dtype dtype, double exponent)
{
    return dtype == WEFT_BF16  ? (double)weft_bf16_to_f32(weft_f32_to_bf16((float)exponent))
           : dtype == WEFT_F16 ? (double)weft_f16_to_f32(weft_f32_to_f16((float)exponent))
                               : exponent;
}

weft_tensor *weft_pow_scalar(weft_tensor *a, double exponent)
{
    static const char function[] = "weft_pow_scalar";
    if (!check_number_of(function, "exponent", a, exponent)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_pow_scalar,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { exponent_of_type(weft_layout_of(a)->dtype, exponent) } });
}

static const weft_operation operation_clamp = {
    .name = "clamp",
    .gradient = "ge, le, mul",
    .rules = { "A->A" },
    .outputs[0].linear = MONOTONE,
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .kernel = WEFT_KERNEL_clamp,
};

/* A bound beyond what an integer type has becomes the nearest that it has: what it is compared with would
 * wrap around (64 bits: the kernel sees to that). False with the error kept. */
static bool take_bound(const char *function, const char *argument, weft_dtype dtype, double *bound)
{
    if (!weft_dtype_is_floating(dtype) && !isinf(*bound) && *bound != trunc(*bound)) {
        return weft_check_number(function, argument, dtype, *bound);
    }
    if (dtype == WEFT_U8) {
        *bound = fmin(fmax(*bound, 0), UINT8_MAX);
    } else if (dtype == WEFT_I32) {
        *bound = fmin(fmax(*bound, INT32_MIN), INT32_MAX);
    }
    return true;
}

weft_tensor *weft_clamp(weft_tensor *a, double least, double most)
{
    static const char function[] = "weft_clamp";
    if (weft_check_tensor(function, "a", a) == NULL ||
        !take_bound(function, "least", weft_layout_of(a)->dtype, &least) ||
        !take_bound(function, "most", weft_layout_of(a)->dtype, &most)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_clamp,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { least, most } });
}

/* ---- of several tensors -------------------------------------------------------------------------------- */

static const weft_operation operation_where = {
    .name = "where",
    .gradient = "where, sum",
    .rules = { "...,...,...->..." },
    .inputs = { { "condition", WEFT_TYPES_BOOL, false },
                { "a", WEFT_TYPES_ALL, false },
                { "b", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED, /* truth values change no other type */
    .kernel = WEFT_KERNEL_where,
};

weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b)
{
    return weft_dispatch(&(weft_call){ .function = "weft_where",
                                       .operation = &operation_where,
                                       .num_inputs = 3,
                                       .inputs = { condition, a, b } });
}

static const weft_operation operation_masked_fill = {
    .name = "masked_fill",
    .gradient = "masked_fill, sum",
    .rules = { "...,...->..." },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "mask", WEFT_TYPES_BOOL, false } },
    .kernel = WEFT_KERNEL_masked_fill,
};

weft_tensor *weft_masked_fill(weft_tensor *a, weft_tensor *mask, double value)
{
    if (!check_number_of("weft_masked_fill", "value", a, value)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = "weft_masked_fill",
                                       .operation = &operation_masked_fill,
                                       .num_inputs = 2,
                                       .inputs = { a, mask },
                                       .scalars = { value } });
}

/* Two or three tensors and a number. */
#define COMBINED(name_, count, rule, argument, types, linear_, gradient_)                                    \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { rule },                                                                                   \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = gradient_,                                                                               \
        .inputs = { { "a", types, false }, { "b", types, false }, { "c", types, false } },                   \
        .outputs[0].type = WEFT_TYPE_PROMOTED,                                                               \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    static weft_tensor *name_(weft_tensor *a, weft_tensor *b, weft_tensor *c, double argument)               \
    {                                                                                                        \
        if (!check_number("weft_" #name_, #argument, count, (weft_tensor *[]){ a, b, c }, argument)) {       \
            return NULL;                                                                                     \
        }                                                                                                    \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = count,                                              \
                                           .inputs = { a, b, c },                                            \
                                           .scalars = { argument } });                                       \
    }

COMBINED(add_scaled, 2, "...,...->...", factor, WEFT_TYPES_NUMBER, LINEAR, "itself, scale, sum")
COMBINED(lerp, 2, "...,...->...", weight, WEFT_TYPES_FLOAT, LINEAR, "scale, sum")
COMBINED(addcmul, 3, "...,...,...->...", factor, WEFT_TYPES_NUMBER, NOT_LINEAR, "mul, scale, sum")
COMBINED(addcdiv, 3, "...,...,...->...", factor, WEFT_TYPES_FLOAT, NOT_LINEAR, "div, mul, scale, sum")

weft_tensor *weft_add_scaled(weft_tensor *a, weft_tensor *b, double factor)
{
    return add_scaled(a, b, NULL, factor);
}

weft_tensor *weft_lerp(weft_tensor *a, weft_tensor *b, double weight)
{
    return lerp(a, b, NULL, weight);
}

weft_tensor *weft_addcmul(weft_tensor *a, weft_tensor *b, weft_tensor *c, double factor)
{
    return addcmul(a, b, c, factor);
}

weft_tensor *weft_addcdiv(weft_tensor *a, weft_tensor *b, weft_tensor *c, double factor)
{
    return addcdiv(a, b, c, factor);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

BACKWARD(relu_backward, input)
BACKWARD(gelu_backward, input)
BACKWARD(silu_backward, input)
BACKWARD(leaky_relu_backward, input)
BACKWARD(elu_backward, input)
BACKWARD(tanh_backward, output)
BACKWARD(sigmoid_backward, output)
BACKWARD(pow_scalar_backward, input)

weft_tensor *weft_relu_backward(weft_tensor *gradient, weft_tensor *input)
{
    return relu_backward(gradient, input, 0, 0);
}

weft_tensor *weft_gelu_backward(weft_tensor *gradient, weft_tensor *input)
{
    return gelu_backward(gradient, input, 0, 0);
}

weft_tensor *weft_silu_backward(weft_tensor *gradient, weft_tensor *input)
{
    return silu_backward(gradient, input, 0, 0);
}

weft_tensor *weft_leaky_relu_backward(weft_tensor *gradient, weft_tensor *input, double slope)
{
    return leaky_relu_backward(gradient, input, slope, 0);
}

weft_tensor *weft_elu_backward(weft_tensor *gradient, weft_tensor *input, double alpha)
{
    return elu_backward(gradient, input, alpha, 0);
}

weft_tensor *weft_tanh_backward(weft_tensor *gradient, weft_tensor *output)
{
    return tanh_backward(gradient, output, 0, 0);
}

weft_tensor *weft_sigmoid_backward(weft_tensor *gradient, weft_tensor *output)
{
    return sigmoid_backward(gradient, output, 0, 0);
}

weft_tensor *weft_pow_scalar_backward(weft_tensor *gradient, weft_tensor *input, double exponent)
{
    static const char function[] = "weft_pow_scalar_backward";
    if (weft_check_tensor(function, "gradient", gradient) == NULL ||
        weft_check_tensor(function, "input", input) == NULL) {
        return NULL;
    }
    return pow_scalar_backward(gradient, input, exponent,
                               exponent_of_type(weft_layout_of(input)->dtype, exponent - 1));
}

/* ---- in place ------------------------------------------------------------------------------------------ */

#define IN_PLACE(name_, kernel_, rule, types, linear_, overwrites_, gradient_)                               \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { rule },                                                                                   \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = gradient_,                                                                               \
        .inputs = { { "a", types, false }, { "b", types, false } },                                          \
        .outputs[0].in_place = true,                                                                         \
        .overwrites = overwrites_,                                                                           \
        .kernel = WEFT_KERNEL_##kernel_,                                                                     \
    };                                                                                                       \
    static weft_tensor *name_(weft_tensor *a, weft_tensor *b, int count, double scalar)                      \
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = count,                                              \
                                           .inputs = { a, b },                                               \
                                           .scalars = { scalar } });                                         \
    }

IN_PLACE(copy_inplace, assign, "...,...->...", WEFT_TYPES_ALL, PASSES_ALL, true, "itself, sum")
IN_PLACE(fill_inplace, fill, "A->A", WEFT_TYPES_ALL, NOT_LINEAR, true, NULL)
IN_PLACE(add_inplace, add_scaled, "...,...->...", WEFT_TYPES_NUMBER, LINEAR, false, "itself, scale, sum")
IN_PLACE(mul_inplace, mul, "...,...->...", WEFT_TYPES_ALL, LINEAR_IN(1u << 0), false, "mul, sum")
IN_PLACE(div_inplace, div, "...,...->...", WEFT_TYPES_FLOAT, NOT_LINEAR, false, "div, mul, sum")
IN_PLACE(scale_inplace, scale, "A->A", WEFT_TYPES_NUMBER, LINEAR, false, "scale")
IN_PLACE(lerp_inplace, lerp, "...,...->...", WEFT_TYPES_FLOAT, LINEAR, false, "scale, sum")

weft_tensor *weft_add_inplace(weft_tensor *a, weft_tensor *b, double alpha)
{
    return check_number("weft_add_inplace", "alpha", 2, (weft_tensor *[]){ a, b }, alpha)
               ? add_inplace(a, b, 2, alpha)
               : NULL;
}

weft_tensor *weft_copy_inplace(weft_tensor *a, weft_tensor *b)
{
    return copy_inplace(a, b, 2, 0);
}

weft_tensor *weft_fill_inplace(weft_tensor *a, double value)
{
    return check_number_of("weft_fill_inplace", "value", a, value) ? fill_inplace(a, NULL, 1, value) : NULL;
}

weft_tensor *weft_mul_inplace(weft_tensor *a, weft_tensor *b)
{
    return mul_inplace(a, b, 2, 0);
}

weft_tensor *weft_div_inplace(weft_tensor *a, weft_tensor *b)
{
    return div_inplace(a, b, 2, 0);
}

weft_tensor *weft_scale_inplace(weft_tensor *a, double factor)
{
    return check_number_of("weft_scale_inplace", "factor", a, factor) ? scale_inplace(a, NULL, 1, factor)
                                                                      : NULL;
}

weft_tensor *weft_lerp_inplace(weft_tensor *a, weft_tensor *b, double weight)
{
    return lerp_inplace(a, b, 2, weight);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_elementwise_operations[] = {
    &operation_add,
    &operation_sub,
    &operation_mul,
    &operation_div,
    &operation_floor_div,
    &operation_remainder,
    &operation_fmod,
    &operation_pow,
    &operation_maximum,
    &operation_minimum,
    &operation_atan2,
    &operation_hypot,
    &operation_logaddexp,
    &operation_eq,
    &operation_ne,
    &operation_lt,
    &operation_le,
    &operation_gt,
    &operation_ge,
    &operation_logical_and,
    &operation_logical_or,
    &operation_logical_xor,
    &operation_neg,
    &operation_abs,
    &operation_sign,
    &operation_square,
    &operation_reciprocal,
    &operation_sqrt,
    &operation_rsqrt,
    &operation_exp,
    &operation_expm1,
    &operation_log,
    &operation_log1p,
    &operation_log2,
    &operation_log10,
    &operation_sin,
    &operation_cos,
    &operation_tan,
    &operation_asin,
    &operation_acos,
    &operation_atan,
    &operation_sinh,
    &operation_cosh,
    &operation_tanh,
    &operation_exp2,
    &operation_erf,
    &operation_erfc,
    &operation_floor,
    &operation_ceil,
    &operation_trunc,
    &operation_round,
    &operation_sigmoid,
    &operation_silu,
    &operation_relu,
    &operation_gelu,
    &operation_softplus,
    &operation_logical_not,
    &operation_isnan,
    &operation_isinf,
    &operation_isfinite,
    &operation_to_type,
    &operation_scale,
    &operation_add_scalar,
    &operation_pow_scalar,
    &operation_leaky_relu,
    &operation_elu,
    &operation_clamp,
    &operation_where,
    &operation_masked_fill,
    &operation_add_scaled,
    &operation_lerp,
    &operation_addcmul,
    &operation_addcdiv,
    &operation_relu_backward,
    &operation_gelu_backward,
    &operation_silu_backward,
    &operation_leaky_relu_backward,
    &operation_elu_backward,
    &operation_tanh_backward,
    &operation_sigmoid_backward,
    &operation_pow_scalar_backward,
    &operation_copy_inplace,
    &operation_fill_inplace,
    &operation_add_inplace,
    &operation_mul_inplace,
    &operation_div_inplace,
    &operation_scale_inplace,
    &operation_lerp_inplace,
    NULL,
};
