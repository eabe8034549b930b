/* Functions of one value, and their derivatives. */
#include <math.h>

#include "codelets/half.h"
#include "ops/elementwise.h"

/* ---- derivatives --------------------------------------------------------------------------------------- */

/* NAME_backward(gradient, value), the gradient of a function: the gradient times a factor of the
 * function's input or output. `second`: the gradient of NAME_backward by its value, from `product`, which
 * is the gradient times another value: times the derivative of the factor, by calls; may use `value` and
 * `scalars`. */
#define DERIVATIVE_KERNEL(name_, kept)                                                                       \
    static const weft_operation operation_##name_##_backward;                                                \
    static weft_tensor *name_##_backward(weft_tensor *gradient, weft_tensor *kept, double scalar, double other)\
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_ "_backward",                           \
                                           .operation = &operation_##name_##_backward,                       \
                                           .num_inputs = 2,                                                  \
                                           .inputs = { gradient, kept },                                     \
                                           .scalars = { scalar, other } });                                  \
    }                                                                                                        \
    static bool gradient_of_##name_##_gradient(const weft_gradient *of)                                      \
    {                                                                                                        \
        const double *scalars = of->call->scalars;                                                           \
        return !weft_gradient_wanted(of, 0) ||                                                               \
               weft_give_gradient(of, 0,                                                                     \
                                  name_##_backward(weft_gradient_of_output(of, 0), of->call->inputs[1], scalars[0],\
                                                   scalars[1]));                                             \
    }

#define DERIVATIVE_OPERATION(name_, kept, gradient_, ...)                                                    \
    static const weft_operation operation_##name_##_backward = {                                             \
        .name = #name_ "_backward",                                                                          \
        .rules = { "A,A->A" },                                                                               \
        .outputs[0].linear = LINEAR_IN(1u << 0),                                                             \
        .gradient = { .function = gradient_, .reads = { WEFT_READS_INPUT(1), __VA_ARGS__ } },                \
        .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { #kept, WEFT_TYPES_FLOAT, true } },             \
        .kernel = WEFT_KERNEL_##name_##_backward,                                                            \
    };

/* The factor is a step function. */
#define DERIVATIVE_OF_STEPS(name_, kept)                                                                     \
    DERIVATIVE_KERNEL(name_, kept)                                                                           \
    DERIVATIVE_OPERATION(name_, kept, gradient_of_##name_##_gradient, 0)

#define DERIVATIVE(name_, kept, second)                                                                      \
    DERIVATIVE_KERNEL(name_, kept)                                                                           \
    static weft_tensor *second_of_##name_(weft_tensor *product, weft_tensor *value, const double scalars[])  \
    {                                                                                                        \
        (void)value;                                                                                         \
        (void)scalars;                                                                                       \
        return second;                                                                                       \
    }                                                                                                        \
    static bool gradients_of_##name_##_gradient(const weft_gradient *of)                                     \
    {                                                                                                        \
        const weft_call *call = of->call;                                                                    \
        weft_tensor *outer = weft_gradient_of_output(of, 0);                                                 \
        return gradient_of_##name_##_gradient(of) &&                                                         \
               (!weft_gradient_wanted(of, 1) ||                                                              \
                weft_give_gradient(of, 1,                                                                    \
                                   second_of_##name_(weft_mul(outer, call->inputs[0]), call->inputs[1],      \
                                                     call->scalars)));                                       \
    }                                                                                                        \
    DERIVATIVE_OPERATION(name_, kept, gradients_of_##name_##_gradient, WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1))

static const double ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;

/* 1 - a^2, and 1 + a^2. */
static weft_tensor *one_minus_square(weft_tensor *a)
{
    return weft_add_scalar(weft_neg(weft_square(a)), 1);
}

static weft_tensor *one_plus_square(weft_tensor *a)
{
    return weft_add_scalar(weft_square(a), 1);
}

/* The density of the standard normal distribution. */
static weft_tensor *normal_density(weft_tensor *a)
{
    return weft_scale(weft_exp(weft_scale(weft_square(a), -0.5)), 0.39894228040143267794);
}

/* a (1 - 2 b) */
static weft_tensor *times_one_minus_twice(weft_tensor *a, weft_tensor *b)
{
    return weft_mul(a, weft_add_scalar(weft_scale(b, -2), 1));
}

/* s (1 - s) (2 + a (1 - 2 s)), with s = sigmoid(a) */
static weft_tensor *second_derivative_of_silu(weft_tensor *product, weft_tensor *a)
{
    weft_tensor *s = weft_sigmoid(a);
    return weft_mul(weft_sigmoid_backward(product, s), weft_add_scalar(times_one_minus_twice(a, s), 2));
}

DERIVATIVE_OF_STEPS(abs, input)
DERIVATIVE(square, input, weft_scale(product, 2))
DERIVATIVE(reciprocal, output, weft_scale(weft_mul(product, value), -2))
DERIVATIVE(sqrt, output, weft_div(weft_scale(product, -0.5), weft_square(value)))
DERIVATIVE(rsqrt, output, weft_mul(weft_scale(product, -1.5), weft_square(value)))
DERIVATIVE(expm1, output, weft_scale(product, 1))
DERIVATIVE(log1p, input, weft_neg(weft_div(product, weft_square(weft_add_scalar(value, 1)))))
DERIVATIVE(log2, input, weft_div(weft_scale(product, -1 / ln2), weft_square(value)))
DERIVATIVE(log10, input, weft_div(weft_scale(product, -1 / ln10), weft_square(value)))
DERIVATIVE(sin, input, weft_neg(weft_mul(product, weft_sin(value))))
DERIVATIVE(cos, input, weft_neg(weft_mul(product, weft_cos(value))))
DERIVATIVE(tan, output, weft_scale(weft_mul(product, value), 2))
DERIVATIVE(asin, input, weft_mul(weft_mul(product, value), weft_pow_scalar(one_minus_square(value), -1.5)))
DERIVATIVE(acos, input, weft_neg(weft_mul(weft_mul(product, value), weft_pow_scalar(one_minus_square(value), -1.5))))
DERIVATIVE(atan, input, weft_div(weft_scale(weft_mul(product, value), -2), weft_square(one_plus_square(value))))
DERIVATIVE(sinh, input, weft_mul(product, weft_sinh(value)))
DERIVATIVE(cosh, input, weft_mul(product, weft_cosh(value)))
DERIVATIVE(tanh, output, weft_scale(weft_mul(product, value), -2))
DERIVATIVE(exp2, output, weft_scale(product, ln2))
DERIVATIVE(erf, input, weft_mul(erf_backward(product, value, 0, 0), weft_scale(value, -2)))
DERIVATIVE(erfc, input, weft_mul(erfc_backward(product, value, 0, 0), weft_scale(value, -2)))
DERIVATIVE(sigmoid, output, times_one_minus_twice(product, value))
DERIVATIVE(silu, input, second_derivative_of_silu(product, value))
DERIVATIVE_OF_STEPS(relu, input)
DERIVATIVE(gelu, input,
           weft_mul(product, weft_mul(normal_density(value), weft_add_scalar(weft_neg(weft_square(value)), 2))))
DERIVATIVE(softplus, input, weft_sigmoid_backward(product, weft_sigmoid(value)))
/* A third between -3 and 3. */
DERIVATIVE(hardswish, input,
           weft_scale(weft_relu_backward(weft_relu_backward(product, weft_add_scalar(value, 3)),
                                         weft_add_scalar(weft_neg(value), 3)),
                      1.0 / 3))
DERIVATIVE_OF_STEPS(leaky_relu, input)
/* Below 0; of NaN 0. */
DERIVATIVE(elu, input,
           weft_relu_backward(weft_sub(weft_elu_backward(product, value, scalars[0]),
                                       weft_relu_backward(product, value)),
                              weft_neg(value)))
/* Of a^0: 0, not 0 times an infinite one. */
DERIVATIVE(pow_scalar, input,
           scalars[0] == 0 ? weft_pow_scalar_backward(product, value, 0)
                           : weft_scale(weft_pow_scalar_backward(product, value, scalars[1]), scalars[0]))

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

/* as PyTorch on all its devices */
static double exponent_of_type(weft_dtype dtype, double exponent)
{
    return dtype == WEFT_BF16  ? (double)weft_bf16_to_f32(weft_f32_to_bf16((float)exponent))
           : dtype == WEFT_F16 ? (double)weft_f16_to_f32(weft_f32_to_f16((float)exponent))
                               : exponent;
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

/* ---- functions ----------------------------------------------------------------------------------------- */

#define UNARY(name_, types, type_, linear_, ...)                                                             \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "A->A" },                                                                                 \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
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

/* Its gradient is NAME_backward() of its input, or of its output. */
#define GRADIENT_FROM(name_, value)                                                                          \
    static bool gradient_of_##name_(const weft_gradient *of)                                                 \
    {                                                                                                        \
        const double *scalars = of->call->scalars;                                                           \
        return weft_give_gradient(of, 0, name_##_backward(weft_gradient_of_output(of, 0), value, scalars[0], scalars[1]));\
    }
GRADIENT_FROM(abs, of->call->inputs[0])
GRADIENT_FROM(square, of->call->inputs[0])
GRADIENT_FROM(log1p, of->call->inputs[0])
GRADIENT_FROM(log2, of->call->inputs[0])
GRADIENT_FROM(log10, of->call->inputs[0])
GRADIENT_FROM(sin, of->call->inputs[0])
GRADIENT_FROM(cos, of->call->inputs[0])
GRADIENT_FROM(asin, of->call->inputs[0])
GRADIENT_FROM(acos, of->call->inputs[0])
GRADIENT_FROM(atan, of->call->inputs[0])
GRADIENT_FROM(sinh, of->call->inputs[0])
GRADIENT_FROM(cosh, of->call->inputs[0])
GRADIENT_FROM(erf, of->call->inputs[0])
GRADIENT_FROM(erfc, of->call->inputs[0])
GRADIENT_FROM(silu, of->call->inputs[0])
GRADIENT_FROM(relu, of->call->inputs[0])
GRADIENT_FROM(gelu, of->call->inputs[0])
GRADIENT_FROM(softplus, of->call->inputs[0])
GRADIENT_FROM(hardswish, of->call->inputs[0])
GRADIENT_FROM(leaky_relu, of->call->inputs[0])
GRADIENT_FROM(elu, of->call->inputs[0])
GRADIENT_FROM(reciprocal, of->outputs[0])
GRADIENT_FROM(sqrt, of->outputs[0])
GRADIENT_FROM(rsqrt, of->outputs[0])
GRADIENT_FROM(expm1, of->outputs[0])
GRADIENT_FROM(tan, of->outputs[0])
GRADIENT_FROM(tanh, of->outputs[0])
GRADIENT_FROM(exp2, of->outputs[0])
GRADIENT_FROM(sigmoid, of->outputs[0])

static bool gradient_of_neg(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_neg(weft_gradient_of_output(of, 0)));
}

static bool gradient_of_exp(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_mul(weft_gradient_of_output(of, 0), of->outputs[0]));
}

static bool gradient_of_log(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_div(weft_gradient_of_output(of, 0), of->call->inputs[0]));
}

static bool gradient_of_pow_scalar(const weft_gradient *of)
{
    return weft_give_gradient(of, 0,
                              weft_pow_scalar_backward(weft_gradient_of_output(of, 0), of->call->inputs[0],
                                                       of->call->scalars[0]));
}

#define FROM_INPUT(name_) WEFT_GRADIENT_BY(gradient_of_##name_, WEFT_READS_INPUT(0))
#define FROM_OUTPUT(name_) WEFT_GRADIENT_BY(gradient_of_##name_, WEFT_READS_OUTPUT(0))
#define STEPS WEFT_GRADIENT_ZERO("a step function")
#define TRUTH WEFT_GRADIENT_ZERO("truth values")

UNARY(neg, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, LINEAR, WEFT_GRADIENT_BY(gradient_of_neg, 0))
UNARY(abs, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(abs))
UNARY(sign, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, STEPS) /* of NaN it is 0: not monotone */
UNARY(square, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(square))
UNARY(reciprocal, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(reciprocal))
UNARY(sqrt, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(sqrt))
UNARY(rsqrt, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(rsqrt))
UNARY(exp, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(exp))
UNARY(expm1, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(expm1))
UNARY(log, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log))
UNARY(log1p, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log1p))
UNARY(log2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log2))
UNARY(log10, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log10))
UNARY(sin, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(sin))
UNARY(cos, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(cos))
UNARY(tan, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(tan))
UNARY(asin, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(asin))
UNARY(acos, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(acos))
UNARY(atan, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(atan))
UNARY(sinh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(sinh))
UNARY(cosh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(cosh))
UNARY(tanh, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(tanh))
UNARY(exp2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(exp2))
UNARY(erf, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(erf))
UNARY(erfc, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(erfc))
UNARY(floor, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(ceil, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(trunc, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(round, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(sigmoid, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(sigmoid))
UNARY(silu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(silu))
UNARY(relu, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, FROM_INPUT(relu))
UNARY(gelu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(gelu))
UNARY(softplus, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(softplus))
UNARY(hardswish, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(hardswish))
UNARY(logical_not, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isnan, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isinf, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isfinite, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
WITH_NUMBER(leaky_relu, slope, WEFT_TYPES_FLOAT, NOT_LINEAR, FROM_INPUT(leaky_relu))
WITH_NUMBER(elu, alpha, WEFT_TYPES_FLOAT, NOT_LINEAR, FROM_INPUT(elu))

static const weft_operation operation_pow_scalar = {
    .name = "pow_scalar",
    .rules = { "A->A" },
    .gradient = FROM_INPUT(pow_scalar),
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .kernel = WEFT_KERNEL_pow_scalar,
};

weft_tensor *weft_pow_scalar(weft_tensor *a, double exponent)
{
    static const char function[] = "weft_pow_scalar";
    if (!weft_check_number_beside(function, "exponent", 1, &a, exponent)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_pow_scalar,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { exponent_of_type(weft_layout_of(a)->dtype, exponent) } });
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_unary_operations[] = {
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
    &operation_hardswish,
    &operation_logical_not,
    &operation_isnan,
    &operation_isinf,
    &operation_isfinite,
    &operation_leaky_relu,
    &operation_elu,
    &operation_pow_scalar,
    &operation_abs_backward,
    &operation_square_backward,
    &operation_reciprocal_backward,
    &operation_sqrt_backward,
    &operation_rsqrt_backward,
    &operation_expm1_backward,
    &operation_log1p_backward,
    &operation_log2_backward,
    &operation_log10_backward,
    &operation_sin_backward,
    &operation_cos_backward,
    &operation_tan_backward,
    &operation_asin_backward,
    &operation_acos_backward,
    &operation_atan_backward,
    &operation_sinh_backward,
    &operation_cosh_backward,
    &operation_tanh_backward,
    &operation_exp2_backward,
    &operation_erf_backward,
    &operation_erfc_backward,
    &operation_sigmoid_backward,
    &operation_silu_backward,
    &operation_relu_backward,
    &operation_gelu_backward,
    &operation_softplus_backward,
    &operation_hardswish_backward,
    &operation_leaky_relu_backward,
    &operation_elu_backward,
    &operation_pow_scalar_backward,
    NULL,
};
