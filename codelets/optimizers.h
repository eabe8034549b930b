/* Steps of optimisers, one pass over memory (kernels on views). All operands have one shape and the same
 * shards, in any floating types. Each update is computed in the widest type of its inputs, at least
 * WEFT_F32, and rounded once; the next update reads the rounded value. */
#ifndef WEFT_CODELETS_OPTIMIZERS_H
#define WEFT_CODELETS_OPTIMIZERS_H

#include <weft/kernel.h>

#include "codelets/kernels.h"

/* Outputs, in place: the parameter, the first and the second moment. Input 0: the gradient, to which decay
 * times the parameter is added.
 *     first  = beta1 first + (1 - beta1) gradient
 *     second = beta2 second + (1 - beta2) gradient^2
 *     parameter = factor parameter - rate first / (scale sqrt(second) + epsilon) */
enum {
    WEFT_ADAM_BETA1,
    WEFT_ADAM_BETA2,
    WEFT_ADAM_DECAY,
    WEFT_ADAM_RATE,
    WEFT_ADAM_EPSILON,
    WEFT_ADAM_SCALE,
    WEFT_ADAM_FACTOR
};
void weft_kernel_adam(const weft_kernel_call *call);

/* Outputs, in place: the parameter, the momentum. Input 0: the gradient, to which decay times the
 * parameter is added.
 *     momentum = kept momentum + added gradient (kept 0: the former value does not count)
 *     parameter = parameter - rate momentum     (numbers[0]: Nesterov's, rate (gradient + ahead momentum))
 */
enum { WEFT_SGD_KEPT, WEFT_SGD_ADDED, WEFT_SGD_DECAY, WEFT_SGD_RATE, WEFT_SGD_AHEAD };
void weft_kernel_sgd_momentum(const weft_kernel_call *call);

/* The rows of optimizers.inc. Outputs, in place: the parameter, its states. Input 0: the gradient. numbers[0]: the row.
 * All are computed in the widest type of the tensors, at least WEFT_F32, and rounded once. If numbers[1] is 0, decay times
 * the parameter is added to the gradient before, else the parameter is multiplied by factor. */
enum weft_optimizer_row {
#define WEFT_OPTIMIZER(name, states, ...) WEFT_ROW_##name,
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
    WEFT_NUM_OPTIMIZER_ROWS
};
enum {
    WEFT_ROW_RATE,
    WEFT_ROW_EPSILON,
    WEFT_ROW_A,
    WEFT_ROW_B,
    WEFT_ROW_C,
    WEFT_ROW_D,
    WEFT_ROW_DECAY,
    WEFT_ROW_FACTOR
};
void weft_kernel_optimizer(const weft_kernel_call *call);

/* Steps of several parameters that are one launch on devices (cuda/steps.cuh). They find no errors. */
static inline bool weft_kernel_is_step(weft_kernel_id kernel)
{
    return kernel == WEFT_KERNEL_adam || kernel == WEFT_KERNEL_sgd_momentum || kernel == WEFT_KERNEL_optimizer;
}

#endif
