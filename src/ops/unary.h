/* Declarations of functions of one value and of their derivatives. */
#ifndef WEFT_SRC_OPS_UNARY_H
#define WEFT_SRC_OPS_UNARY_H

#include "ops/elementwise.h"

#define WEFT_LN2 0.69314718055994530942
#define WEFT_LN10 2.30258509299404568402

/* 1 - a^2, and 1 + a^2. */
static inline weft_tensor *weft_one_minus_square(weft_tensor *a)
{
    return weft_add_scalar(weft_neg(weft_square(a)), 1);
}

static inline weft_tensor *weft_one_plus_square(weft_tensor *a)
{
    return weft_add_scalar(weft_square(a), 1);
}

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
        if (weft_has_complex(of)) {                                                                          \
            return weft_give_gradient(of, 0, weft_complex_gradient(of, WEFT_KERNEL_##name_));                \
        }                                                                                                    \
        return weft_give_gradient(of, 0, name_##_backward(weft_gradient_of_output(of, 0), value, scalars[0], scalars[1]));\
    }

#define FROM_INPUT(name_) WEFT_GRADIENT_BY(gradient_of_##name_, WEFT_READS_INPUT(0))
#define FROM_OUTPUT(name_) WEFT_GRADIENT_BY(gradient_of_##name_, WEFT_READS_OUTPUT(0))

#endif
