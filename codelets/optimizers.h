/* Steps of optimisers, one pass over memory (kernels on views). All operands have one shape and the same
 * shards, in any floating types. Each update is computed in the widest type of its inputs, at least
 * WEFT_F32, and rounded once; the next update reads the rounded value. */
#ifndef WEFT_CODELETS_OPTIMIZERS_H
#define WEFT_CODELETS_OPTIMIZERS_H

#include <weft/kernel.h>

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

#endif
