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

/* Checks a number beside tensors against their common type. False with the error kept, also for a dead
 * tensor. */
bool weft_check_number_beside(const char *function, const char *argument, int num_inputs, weft_tensor *const inputs[],
                              double value);

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
    weft_tensor *weft_##name_(weft_tensor *a, double argument)                                               \
    {                                                                                                        \
        if (!weft_check_number_beside("weft_" #name_, #argument, 1, &a, argument)) {                         \
            return NULL;                                                                                     \
        }                                                                                                    \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = 1,                                                  \
                                           .inputs = { a },                                                  \
                                           .scalars = { argument } });                                       \
    }

#endif
