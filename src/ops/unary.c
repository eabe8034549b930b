/* Functions of one value, and their derivatives. */
#include <math.h>

#include "ops/unary.h"

/* ---- derivatives --------------------------------------------------------------------------------------- */

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
DERIVATIVE(asinh, input,
           weft_neg(weft_mul(weft_mul(product, value), weft_pow_scalar(one_plus_square(value), -1.5))))
DERIVATIVE(acosh, input,
           weft_neg(weft_mul(weft_mul(product, value),
                             weft_pow_scalar(weft_add_scalar(weft_square(value), -1), -1.5))))
DERIVATIVE(atanh, input, weft_div(weft_scale(weft_mul(product, value), 2), weft_square(one_minus_square(value))))
DERIVATIVE(sinh, input, weft_mul(product, weft_sinh(value)))
DERIVATIVE(cosh, input, weft_mul(product, weft_cosh(value)))
DERIVATIVE(tanh, output, weft_scale(weft_mul(product, value), -2))
DERIVATIVE(exp2, output, weft_scale(product, ln2))
DERIVATIVE(erf, input, weft_mul(erf_backward(product, value, 0, 0), weft_scale(value, -2)))
DERIVATIVE(erfc, input, weft_mul(erfc_backward(product, value, 0, 0), weft_scale(value, -2)))
DERIVATIVE(erfinv, output, weft_mul(erfinv_backward(product, value, 0, 0), weft_scale(value, 2)))
/* Of a^0: 0, not 0 times an infinite one. */
DERIVATIVE(pow_scalar, input,
           scalars[0] == 0 ? weft_pow_scalar_backward(product, value, 0)
                           : weft_scale(weft_pow_scalar_backward(product, value, scalars[1]), scalars[0]))

weft_tensor *weft_tanh_backward(weft_tensor *gradient, weft_tensor *output)
{
    return tanh_backward(gradient, output, 0, 0);
}

weft_tensor *weft_pow_scalar_backward(weft_tensor *gradient, weft_tensor *input, double exponent)
{
    static const char function[] = "weft_pow_scalar_backward";
    if (weft_check_tensor(function, "gradient", gradient) == NULL ||
        weft_check_tensor(function, "input", input) == NULL) {
        return NULL;
    }
    return pow_scalar_backward(gradient, input, exponent,
                               weft_number_of_type(weft_layout_of(input)->dtype, exponent - 1));
}

/* ---- functions ----------------------------------------------------------------------------------------- */

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
GRADIENT_FROM(asinh, of->call->inputs[0])
GRADIENT_FROM(acosh, of->call->inputs[0])
GRADIENT_FROM(atanh, of->call->inputs[0])
GRADIENT_FROM(sinh, of->call->inputs[0])
GRADIENT_FROM(cosh, of->call->inputs[0])
GRADIENT_FROM(erf, of->call->inputs[0])
GRADIENT_FROM(erfc, of->call->inputs[0])
GRADIENT_FROM(erfinv, of->outputs[0])
GRADIENT_FROM(reciprocal, of->outputs[0])
GRADIENT_FROM(sqrt, of->outputs[0])
GRADIENT_FROM(rsqrt, of->outputs[0])
GRADIENT_FROM(expm1, of->outputs[0])
GRADIENT_FROM(tan, of->outputs[0])
GRADIENT_FROM(tanh, of->outputs[0])
GRADIENT_FROM(exp2, of->outputs[0])

static bool gradient_of_neg(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_neg(weft_gradient_of_output(of, 0)));
}

static bool gradient_of_exp(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_mul(weft_gradient_of_output(of, 0), weft_conjugate(of->outputs[0])));
}

static bool gradient_of_log(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_div(weft_gradient_of_output(of, 0), weft_conjugate(of->call->inputs[0])));
}

static bool gradient_of_pow_scalar(const weft_gradient *of)
{
    if (weft_has_complex(of)) {
        return weft_give_gradient(of, 0, weft_complex_gradient(of, WEFT_KERNEL_pow_scalar));
    }
    return weft_give_gradient(of, 0,
                              weft_pow_scalar_backward(weft_gradient_of_output(of, 0), of->call->inputs[0],
                                                       of->call->scalars[0]));
}

UNARY(neg, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, WEFT_TYPE_FIRST, LINEAR, WEFT_GRADIENT_BY(gradient_of_neg, 0))
UNARY(abs, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL, NOT_LINEAR, FROM_INPUT(abs))
UNARY(sign, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, NOT_LINEAR, STEPS) /* of NaN it is 0: not monotone */
UNARY(square, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(square))
UNARY(reciprocal, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(reciprocal))
UNARY(sqrt, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(sqrt))
UNARY(rsqrt, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(rsqrt))
UNARY(exp, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(exp))
UNARY(expm1, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(expm1))
UNARY(log, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log))
UNARY(log1p, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log1p))
UNARY(log2, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log2))
UNARY(log10, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(log10))
UNARY(sin, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(sin))
UNARY(cos, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(cos))
UNARY(tan, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(tan))
UNARY(asin, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(asin))
UNARY(acos, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(acos))
UNARY(atan, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(atan))
UNARY(sinh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(sinh))
UNARY(cosh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(cosh))
UNARY(asinh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(asinh))
UNARY(acosh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(acosh))
UNARY(atanh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(atanh))
UNARY(tanh, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(tanh))
UNARY(exp2, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(exp2))
UNARY(erf, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(erf))
UNARY(erfc, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_INPUT(erfc))
UNARY(erfinv, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(erfinv))
UNARY(floor, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(ceil, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(trunc, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(frac, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, WEFT_GRADIENT_SAME)
UNARY(round, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, STEPS)
UNARY(logical_not, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isnan, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isinf, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
UNARY(isfinite, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)

static const weft_operation operation_pow_scalar = {
    .name = "pow_scalar",
    .rules = { "A->A" },
    .gradient = FROM_INPUT(pow_scalar),
    .inputs = { { "a", WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, false } },
    .kernel = WEFT_KERNEL_pow_scalar,
};

weft_tensor *(weft_pow_scalar)(weft_tensor *a, weft_scalar exponent)
{
    static const char function[] = "weft_pow_scalar";
    weft_exact taken;
    if (!weft_take_real_beside(function, "exponent", 1, &a, exponent, &taken)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_pow_scalar,
        .num_inputs = 1,
        .inputs = { a },
        .scalars = { weft_number_of_type(weft_layout_of(a)->dtype, taken.value), [WEFT_SCALAR_RESTS] = taken.rest } });
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
    &operation_asinh,
    &operation_acosh,
    &operation_atanh,
    &operation_tanh,
    &operation_exp2,
    &operation_erf,
    &operation_erfc,
    &operation_erfinv,
    &operation_floor,
    &operation_ceil,
    &operation_trunc,
    &operation_frac,
    &operation_round,
    &operation_logical_not,
    &operation_isnan,
    &operation_isinf,
    &operation_isfinite,
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
    &operation_asinh_backward,
    &operation_acosh_backward,
    &operation_atanh_backward,
    &operation_tanh_backward,
    &operation_exp2_backward,
    &operation_erf_backward,
    &operation_erfc_backward,
    &operation_erfinv_backward,
    &operation_pow_scalar_backward,
    NULL,
};
