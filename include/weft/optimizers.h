/** \file
 * Optimiser steps over lists of n parameters, in place: PyTorch's formulas, one step per call. Nothing waits.
 *
 * Parameters are floating and not Partial. A gradient has its parameter's shape and mesh. If its layout is another
 * one (Partial, for example), it is redistributed to the parameter's, once. You own the states between calls. They
 * are tensors with the parameter's shape, mesh and placements (weft_zeros_like()), of any floating type. For example,
 * 16-bit parameters may have states in WEFT_F32: weft_to_type(weft_zeros_like(p), WEFT_F32). Each update is computed
 * in the widest of its tensors' types, at least WEFT_F32, and rounded once. A tensor that is changed may occur only
 * once in a call. For groups of parameters with different options, make separate calls.
 *
 * A NULL gradient is skipped, with its parameter and states, because weft_grad() is NULL for a parameter that the
 * loss does not depend on. weft_counters.gradients_skipped counts them. If an error has not been cleared
 * (weft_clear_error()), NULL is WEFT_ERR_INVALID, because it may be the result of the call that failed.
 *
 * Errors: WEFT_ERR_INVALID, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_LAYOUT, WEFT_ERR_MESH. They are found before
 * anything changes. */
#ifndef WEFT_OPTIMIZERS_H
#define WEFT_OPTIMIZERS_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

typedef struct weft_sgd_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    double learning_rate;
    double momentum;
    double dampening;
    double weight_decay; /**< this times the parameter is added to the gradient */
    bool nesterov;       /**< requires a momentum and no dampening */
    /** The momenta have no values yet. They become the gradients, without dampening, as in PyTorch's first step. */
    bool first_step;
} weft_sgd_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_sgd_options_init(weft_sgd_options *options)
{
    const weft_sgd_options all = { sizeof(all), 0, 0, 0, 0, false, false };
    *options = all;
}

/**
 * Stochastic gradient descent with momentum: m' = momentum * m + (1 - dampening) * g, and the parameter decreases by
 * learning_rate * m'. With `nesterov` it decreases by learning_rate * (g + momentum * m'). If momentum is 0, it
 * decreases by learning_rate * g.
 *
 * \param momenta  n tensors; not needed, and may be NULL, if options->momentum is 0
 *
 * For example, a step without momentum:
 *
 *     weft_sgd(1, &w, (weft_tensor *[]){ weft_grad(w) }, &options, NULL);
 */
WEFT_API weft_status weft_sgd(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                              const weft_sgd_options *options, weft_tensor *const momenta[]);

typedef struct weft_adam_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    double learning_rate;
    double beta1, beta2; /**< for the first and the second moment: at least 0, less than 1 */
    double epsilon;
    double weight_decay;
} weft_adam_options;

/** PyTorch's defaults. \{ */
#define WEFT_ADAM_DEFAULT                                                                                    \
    {                                                                                                        \
        0, 1e-3, 0.9, 0.999, 1e-8, 0                                                                         \
    }
#define WEFT_ADAMW_DEFAULT                                                                                   \
    {                                                                                                        \
        0, 1e-3, 0.9, 0.999, 1e-8, 1e-2                                                                      \
    }
/** \} */

/** Sets PyTorch's defaults for Adam, and `size`. */
static inline void weft_adam_options_init(weft_adam_options *options)
{
    const weft_adam_options all = WEFT_ADAM_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** Sets PyTorch's defaults for AdamW, and `size`. */
static inline void weft_adamw_options_init(weft_adam_options *options)
{
    const weft_adam_options all = WEFT_ADAMW_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/**
 * Adam and AdamW. Adam adds weight_decay times the parameter to the gradient. AdamW multiplies the parameter by 1 -
 * learning_rate * weight_decay instead.
 *
 * \param first_moments   n tensors, zeros before the first step
 * \param second_moments  n tensors, zeros before the first step
 * \param step            number of the step, from 1 on; corrects for the moments having started as zeros
 *
 *     weft_adam(n, parameters, gradients, first_moments, second_moments, step, &options);
 *
 * \{
 */
WEFT_API weft_status weft_adam(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                               weft_tensor *const first_moments[], weft_tensor *const second_moments[],
                               int64_t step, const weft_adam_options *options);
WEFT_API weft_status weft_adamw(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                                weft_tensor *const first_moments[], weft_tensor *const second_moments[],
                                int64_t step, const weft_adam_options *options);
/** \} */

/** Optimisers of weft_optimizer_step(), with the states that each needs, in this order, and the fields of the options
 * that it reads beside learning_rate, weight_decay, decoupled and maximize. States are zeros before the first step, but Adagrad's
 * may be another number. */
typedef enum weft_optimizer {
    /** momentum, if there is one; dampening, nesterov */
    WEFT_OPTIMIZER_SGD,
    /** first and second moment, with `amsgrad` also the largest second moment; beta1, beta2, epsilon, amsgrad, decoupled
     * (D. Kingma and J. Ba, Adam, 2015; S. Reddi and others, On the Convergence of Adam and Beyond, 2018) */
    WEFT_OPTIMIZER_ADAM,
    /** WEFT_OPTIMIZER_ADAM, always decoupled (I. Loshchilov and F. Hutter, Decoupled Weight Decay Regularization, 2019) */
    WEFT_OPTIMIZER_ADAMW,
    /** mean square, with a momentum that too, with `centered` the mean; beta2 (PyTorch: alpha), epsilon, momentum, centered
     * (G. Hinton, Neural Networks for Machine Learning, lecture 6, 2012) */
    WEFT_OPTIMIZER_RMSPROP,
    /** sum of squares; epsilon, learning_rate_decay (J. Duchi and others, Adaptive Subgradient Methods, 2011) */
    WEFT_OPTIMIZER_ADAGRAD,
    /** mean squares of gradients and of changes; beta2 (PyTorch: rho), epsilon (M. Zeiler, ADADELTA, 2012) */
    WEFT_OPTIMIZER_ADADELTA,
    /** first moment, largest gradient; beta1, beta2, epsilon (D. Kingma and J. Ba, Adam, section 7) */
    WEFT_OPTIMIZER_ADAMAX,
    /** first and second moment; beta1, beta2, epsilon, momentum_decay, decoupled (T. Dozat, Incorporating Nesterov Momentum
     * into Adam, 2016) */
    WEFT_OPTIMIZER_NADAM,
    /** first and second moment; beta1, beta2, epsilon, decoupled (L. Liu and others, On the Variance of the Adaptive
     * Learning Rate and Beyond, 2020) */
    WEFT_OPTIMIZER_RADAM,
    /** momentum; beta1, beta2; always decoupled (X. Chen and others, Symbolic Discovery of Optimization Algorithms, 2023) */
    WEFT_OPTIMIZER_LION
} weft_optimizer;

typedef struct weft_optimizer_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    weft_optimizer kind;
    bool nesterov;  /**< requires a momentum and no dampening */
    bool amsgrad;   /**< divides by the root of the largest second moment so far */
    bool centered;  /**< divides by the root of the variance */
    bool decoupled; /**< multiplies the parameter by 1 - learning_rate * weight_decay, and leaves the gradient; not of
                     * WEFT_OPTIMIZER_SGD */
    bool maximize;  /**< follows the gradient upwards */
    double learning_rate;
    double weight_decay; /**< this times the parameter is added to the gradient, if not decoupled */
    double beta1, beta2;        /**< at least 0, less than 1 */
    double epsilon, momentum;   /**< at least 0, as the learning rate and the decays are */
    double dampening;           /**< finite */
    double learning_rate_decay; /**< the learning rate is divided by 1 + (step - 1) * learning_rate_decay */
    double momentum_decay;
    /** The step is taken on copies of the parameters, the masters, and the parameters become these, rounded (P. Micikevicius and
     * others, Mixed Precision Training, 2018). A master is WEFT_F32, or WEFT_F64; WEFT_F64 if its parameter is. The masters are the
     * last list of the states. Make them by weft_to_type() of the first parameters, and keep them in checkpoints as the states.
     * Read only if `size` is set, as weft_optimizer_options_init() does. */
    bool master_weights;
} weft_optimizer_options;

/** Sets PyTorch's defaults for this kind (for Lion those of its paper), and `size`. WEFT_ERR_INVALID: no such kind. */
WEFT_API weft_status weft_optimizer_options_init(weft_optimizer_options *options, weft_optimizer kind);

/** Returns the number of states that each parameter has, with `master_weights` one more. 0: gradient descent without a momentum, or
 * an error (WEFT_ERR_INVALID, weft_last_status()). */
WEFT_API int weft_optimizer_states(const weft_optimizer_options *options);

/**
 * One step of any of these optimisers, in one pass over memory (with `maximize` another one negates the gradients, with `master_weights`
 * another one rounds). It is computed in the widest type of a parameter's tensors, at least WEFT_F32.
 * WEFT_OPTIMIZER_SGD, ADAM and ADAMW have the results of the functions above.
 *
 * \param states  weft_optimizer_states() lists of n tensors, one behind the other: state k of parameter i is
 *                states[k * n + i]. May be NULL if there are none
 * \param step    number of the step, from 1 on. In step 1 a momentum of WEFT_OPTIMIZER_SGD becomes the gradient. A
 *                parameter whose gradient is NULL does not count a step in PyTorch: if they differ, call for each group
 *                of parameters of one number
 *
 *     weft_optimizer_options_init(&options, WEFT_OPTIMIZER_LION);
 *     weft_optimizer_step(n, parameters, gradients, momenta, step, &options);
 *
 * \return WEFT_ERR_INVALID: a number out of its range, a tensor that is missing or in the lists twice; WEFT_ERR_SHAPE,
 *         WEFT_ERR_DTYPE: a gradient or a state does not fit its parameter. Then nothing has changed
 */
WEFT_API weft_status weft_optimizer_step(int n, weft_tensor *const parameters[], weft_tensor *const gradients[],
                                         weft_tensor *const states[], int64_t step,
                                         const weft_optimizer_options *options);

/**
 * Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), in place. norm is the p-norm over all elements of all
 * gradients. Partial gradients are reduced to compute it, and stay Partial. Nothing waits.
 *
 * \param gradients   of any floating types and meshes; Partial only with sums and averages
 * \param p           above 0; INFINITY: the largest absolute value
 * \param total_norm  NULL, or receives the norm: a new scalar on the first gradient's mesh, WEFT_F64 if a gradient
 *                    is, otherwise WEFT_F32 (if p is INFINITY: the common type of all gradients). NULL if there are
 *                    no gradients
 *
 *     weft_clip_grad_norm(n, gradients, 1, 2, NULL);
 */
WEFT_API weft_status weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p,
                                         weft_tensor **total_norm);

WEFT_END_DECLS

#endif
