/* Activation functions, and their derivatives. */
#include "ops/unary.h"

/* ---- derivatives --------------------------------------------------------------------------------------- */

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

/* The factor q of mish's derivative tanh(softplus(a)) + a q is s (1 - t^2), with s = sigmoid(a), t = tanh(softplus(a)); its
 * second derivative is q (2 + a (1 - s - 2 s t)). */
static weft_tensor *second_derivative_of_mish(weft_tensor *product, weft_tensor *a)
{
    weft_tensor *s = weft_sigmoid(a), *t = weft_tanh(weft_softplus(a, 1, 20));
    weft_tensor *factor = weft_sub(weft_add_scalar(weft_neg(s), 1), weft_scale(weft_mul(s, t), 2));
    return weft_mul(weft_mul(weft_tanh_backward(product, t), s), weft_add_scalar(weft_mul(a, factor), 2));
}

/* gelu_tanh is a sigmoid(z) with z = c a (1 + k a^2). */
static const double gelu_c = 1.59576912160573071176, gelu_k = 0.044715;

/* s (1 - s) (2 z' + a ((1 - 2 s) z'^2 + z'')), with s = sigmoid(z), z' = c (1 + 3 k a^2), z'' = 6 c k a: an even
 * function, computed from -|a|, where 1 - s is not rounded. */
static weft_tensor *second_derivative_of_gelu_tanh(weft_tensor *product, weft_tensor *input)
{
    weft_tensor *a = weft_neg(weft_abs(input)), *square = weft_square(a);
    weft_tensor *s = weft_sigmoid(weft_mul(a, weft_add_scalar(weft_scale(square, gelu_c * gelu_k), gelu_c)));
    weft_tensor *slope = weft_add_scalar(weft_scale(square, 3 * gelu_c * gelu_k), gelu_c);
    weft_tensor *bend = weft_add_scaled(times_one_minus_twice(weft_square(slope), s), a, 6 * gelu_c * gelu_k);
    return weft_mul(weft_sigmoid_backward(product, s), weft_addcmul(weft_scale(slope, 2), a, bend, 1));
}

/* Where beta a is below the threshold. */
static weft_tensor *second_derivative_of_softplus(weft_tensor *product, weft_tensor *a, const double scalars[])
{
    weft_tensor *scaled = weft_scale(a, scalars[0]);
    weft_tensor *bend = weft_scale(weft_sigmoid_backward(product, weft_sigmoid(scaled)), scalars[0]);
    weft_tensor *below = weft_add_scalar(weft_neg(scaled), scalars[1]);
    return weft_relu_backward(bend, below);
}

DERIVATIVE(sigmoid, output, times_one_minus_twice(product, value))
DERIVATIVE(silu, input, second_derivative_of_silu(product, value))
DERIVATIVE_OF_STEPS(relu, input)
DERIVATIVE(gelu, input,
           weft_mul(product, weft_mul(normal_density(value), weft_add_scalar(weft_neg(weft_square(value)), 2))))
DERIVATIVE(gelu_tanh, input, second_derivative_of_gelu_tanh(product, value))
DERIVATIVE(mish, input, second_derivative_of_mish(product, value))
DERIVATIVE(softplus, input, second_derivative_of_softplus(product, value, scalars))
/* A third between -3 and 3. */
DERIVATIVE(hardswish, input,
           weft_scale(weft_relu_backward(weft_relu_backward(product, weft_add_scalar(value, 3)),
                                         weft_add_scalar(weft_neg(value), 3)),
                      1.0 / 3))
DERIVATIVE_OF_STEPS(hardsigmoid, input)
DERIVATIVE_OF_STEPS(leaky_relu, input)
/* Below 0; of NaN 0. */
DERIVATIVE(elu, input,
           weft_relu_backward(weft_sub(weft_elu_backward(product, value, scalars[0]),
                                       weft_relu_backward(product, value)),
                              weft_neg(value)))

DERIVATIVE(selu, input,
           weft_relu_backward(weft_sub(selu_backward(product, value, 0, 0),
                                       weft_scale(weft_relu_backward(product, value), 1.05070098735548049342)),
                              weft_neg(value)))

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

weft_tensor *weft_sigmoid_backward(weft_tensor *gradient, weft_tensor *output)
{
    return sigmoid_backward(gradient, output, 0, 0);
}

/* ---- functions ----------------------------------------------------------------------------------------- */

GRADIENT_FROM(sigmoid, of->outputs[0])
GRADIENT_FROM(silu, of->call->inputs[0])
GRADIENT_FROM(relu, of->call->inputs[0])
GRADIENT_FROM(gelu, of->call->inputs[0])
GRADIENT_FROM(gelu_tanh, of->call->inputs[0])
GRADIENT_FROM(mish, of->call->inputs[0])
GRADIENT_FROM(softplus, of->call->inputs[0])
GRADIENT_FROM(hardswish, of->call->inputs[0])
GRADIENT_FROM(hardsigmoid, of->call->inputs[0])
GRADIENT_FROM(selu, of->call->inputs[0])
GRADIENT_FROM(leaky_relu, of->call->inputs[0])
GRADIENT_FROM(elu, of->call->inputs[0])

UNARY(sigmoid, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, NOT_LINEAR, FROM_OUTPUT(sigmoid))
UNARY(silu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(silu))
UNARY(relu, WEFT_TYPES_NUMBER, WEFT_TYPE_FIRST, MONOTONE, FROM_INPUT(relu))
UNARY(gelu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(gelu))
UNARY(gelu_tanh, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(gelu_tanh))
UNARY(mish, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(mish))
UNARY(hardswish, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(hardswish))
UNARY(hardsigmoid, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(hardsigmoid))
UNARY(selu, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, NOT_LINEAR, FROM_INPUT(selu))
WITH_NUMBER(leaky_relu, slope, WEFT_TYPES_FLOAT, NOT_LINEAR, FROM_INPUT(leaky_relu))
WITH_NUMBER(elu, alpha, WEFT_TYPES_FLOAT, NOT_LINEAR, FROM_INPUT(elu))

static const weft_operation operation_softplus = {
    .name = "softplus",
    .rules = { "A->A" },
    .gradient = FROM_INPUT(softplus),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_softplus,
};

static weft_tensor *softplus(const char *function, weft_tensor *a, double beta, double threshold)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_softplus,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { beta, threshold } });
}

weft_tensor *weft_softplus(weft_tensor *a, double beta, double threshold)
{
    return softplus("weft_softplus", a, beta, threshold);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_activation_operations[] = {
    &operation_sigmoid,
    &operation_silu,
    &operation_relu,
    &operation_gelu,
    &operation_gelu_tanh,
    &operation_mish,
    &operation_softplus,
    &operation_hardswish,
    &operation_hardsigmoid,
    &operation_selu,
    &operation_leaky_relu,
    &operation_elu,
    &operation_sigmoid_backward,
    &operation_silu_backward,
    &operation_relu_backward,
    &operation_gelu_backward,
    &operation_gelu_tanh_backward,
    &operation_mish_backward,
    &operation_softplus_backward,
    &operation_hardswish_backward,
    &operation_hardsigmoid_backward,
    &operation_selu_backward,
    &operation_leaky_relu_backward,
    &operation_elu_backward,
    NULL,
};
