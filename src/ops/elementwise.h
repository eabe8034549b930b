/* Declarations of elementwise operations, whose expressions are in codelets/elementwise.inc. */
#ifndef WEFT_SRC_OPS_ELEMENTWISE_H
#define WEFT_SRC_OPS_ELEMENTWISE_H

#include "ops/ops.h"

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

/* Takes a number beside tensors, of their common type. False with the error kept, also for a dead tensor. */
bool weft_take_number_beside(const char *function, const char *argument, int num_inputs, weft_tensor *const inputs[],
                             weft_scalar number, weft_exact *taken);
/* The same for calls that have no imaginary part of it. */
bool weft_take_real_beside(const char *function, const char *argument, int num_inputs, weft_tensor *const inputs[],
                           weft_scalar number, weft_exact *taken);

/* A number as tensors of 16 bits have it, as PyTorch on all its devices; others are rounded by the kernel. */
double weft_number_of_type(weft_dtype dtype, double number);

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* Gradients of two inputs, or of the first alone (of others it is 0), from the output's gradient g: y: output, a, b, c:
 * inputs, s, t: scalars. */
#define GRADIENT_FUNCTION(name_, ...)                                                                        \
    static bool gradients_of_##name_(const weft_gradient *of)                                                \
    {                                                                                                        \
        weft_tensor *g = weft_gradient_of_output(of, 0), *y = of->outputs[0], *const *inputs = of->call->inputs;\
        weft_tensor *a = inputs[0], *b = inputs[1], *c = inputs[2];                                          \
        double s = of->call->scalars[0], t = of->call->scalars[1];                                           \
        (void)g, (void)y, (void)a, (void)b, (void)c, (void)s, (void)t;                                           \
        return __VA_ARGS__;                                                                                  \
    }
#define GRADIENT(name_, first)                                                                               \
    GRADIENT_FUNCTION(name_, !weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, first))
#define GRADIENTS(name_, first, second)                                                                      \
    GRADIENT_FUNCTION(name_,                                                                                 \
                      (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, first)) &&                  \
                          (of->call->num_inputs < 2 || !weft_gradient_wanted(of, 1) ||                       \
                           weft_give_gradient(of, 1, second)))

#define IN_0 WEFT_READS_INPUT(0)
#define IN_1 WEFT_READS_INPUT(1)
#define IN_2 WEFT_READS_INPUT(2)
#define OUT WEFT_READS_OUTPUT(0)
#define THREE(name_, ...)                                                                                    \
    {                                                                                                        \
        .function = gradients_of_##name_, .reads = { __VA_ARGS__ }                                           \
    }
#define BOTH(name_, first, second) THREE(name_, first, second)
#define ONE(name_, first) THREE(name_, first)
#define STEPS WEFT_GRADIENT_ZERO("a step function")
#define TRUTH WEFT_GRADIENT_ZERO("truth values")

/* Selecting functions: the gradient for the selected input, else 0; half of it for two equal inputs. */
#define CHOICE(name_, rule, count)                                                                           \
    static const weft_operation operation_##name_##_backward;                                                \
    static weft_tensor *name_##_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *b, double s, double t)\
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_ "_backward",                           \
                                           .operation = &operation_##name_##_backward,                       \
                                           .num_inputs = count,                                              \
                                           .inputs = { gradient, a, b },                                     \
                                           .scalars = { s, t } });                                           \
    }                                                                                                        \
    GRADIENT(name_##_backward, name_##_backward(g, b, c, s, t))                                              \
    static const weft_operation operation_##name_##_backward = {                                             \
        .name = #name_ "_backward",                                                                          \
        .rules = { rule },                                                                                   \
        .outputs[0].linear = LINEAR_IN(1u << 0),                                                             \
        .gradient = ONE(name_##_backward, IN_1 | IN_2),                                                      \
        .inputs = { { "gradient", WEFT_TYPES_FLOAT, false },                                                 \
                    { "a", WEFT_TYPES_FLOAT, false },                                                        \
                    { "b", WEFT_TYPES_FLOAT, false } },                                                      \
        .kernel = WEFT_KERNEL_##name_##_backward,                                                            \
    };

/* The input converted to the output's type, in which the operation computes; the gradient has that type. */
static inline weft_tensor *as_computed(const weft_tensor *gradient, weft_tensor *a)
{
    weft_dtype type = weft_layout_of(gradient)->dtype;
    return weft_layout_of(a)->dtype == type ? a : weft_to_type(a, type);
}

/* 0 where the condition holds, also for NaN. */
weft_tensor *weft_zero_where(weft_tensor *condition, weft_tensor *a);
/* The sum of two tensors; a Partial sum stays one, whatever the size of the addend. */
weft_tensor *weft_add_addend(weft_tensor *sum, weft_tensor *addend);

static inline weft_tensor *is_zero(weft_tensor *a)
{
    return weft_logical_not(a);
}

/* Whether the gradient of a call's output is complex, or an input of it. */
bool weft_has_complex(const weft_gradient *of);
/* The gradient of a function of one complex value, which has this kernel. */
weft_tensor *weft_complex_gradient(const weft_gradient *of, weft_kernel_id function);
/* Gives the gradients of weft_pow(). False with the error kept. */
bool weft_complex_power_gradients(const weft_gradient *of);

/* ---- functions ----------------------------------------------------------------------------------------- */

/* A function of two tensors. */
#define BINARY(name_, types, type_, linear_, ...)                                                            \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "...,...->..." },                                                                         \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
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

/* A function of a tensor and a number. */
#define WITH_NUMBER(name_, argument, types, linear_, ...)                                                    \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "A->A" },                                                                                 \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
        .inputs = { { "a", types, false } },                                                                 \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    weft_tensor *(weft_##name_)(weft_tensor * a, weft_scalar argument)                                       \
    {                                                                                                        \
        weft_exact taken;                                                                                    \
        if (!weft_take_number_beside("weft_" #name_, #argument, 1, &a, argument, &taken)) {                  \
            return NULL;                                                                                     \
        }                                                                                                    \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 1,                                                  \
                                           .inputs = { a },                                                  \
                                           .scalars = { taken.value, [WEFT_SCALAR_RESTS] = taken.rest } });  \
    }

#endif
