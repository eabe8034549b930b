/** \file
 * Losses of pairs of elements. The two tensors have the same shape and floating type, and the result has that type
 * too. WEFT_BF16 and WEFT_F16 are computed in single precision and rounded once, at the end. Other losses are in
 * <weft/nn.h>: cross-entropy of classes, squared distances. Weights may be NULL, which means 1; they may be of any
 * floating types, and broadcast to the shape of the first tensor (WEFT_ERR_SHAPE). The mean divides by the number of
 * elements, whatever their weights are. The tape computes the gradients (<weft/autograd.h>). */
#ifndef WEFT_LOSSES_H
#define WEFT_LOSSES_H

#include <weft/nn.h>

WEFT_BEGIN_DECLS

/** Absolute difference |a - b|. The gradient is 0 if they are equal. */
WEFT_API weft_tensor *weft_l1(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction);
/** Huber loss: with d = |a - b|, d^2 / 2 if d is below delta, otherwise delta (d - delta / 2). WEFT_ERR_INVALID unless
 * delta is positive and finite. */
WEFT_API weft_tensor *weft_huber(weft_tensor *a, weft_tensor *b, double delta, weft_loss_reduction reduction);
/** weft_huber() with delta = beta, divided by beta; weft_l1() if beta is 0. WEFT_ERR_INVALID unless beta is finite and
 * at least 0. */
WEFT_API weft_tensor *weft_smooth_l1(weft_tensor *a, weft_tensor *b, double beta, weft_loss_reduction reduction);

/** Binary cross-entropy -(t log(a) + (1 - t) log(1 - a)) for probabilities a and targets t from 0 to 1. Each logarithm
 * is at least -100. The gradient of t has no such limit, so it is infinite if a is 0 or 1, as in PyTorch. NaN if a is
 * outside 0 .. 1. */
WEFT_API weft_tensor *weft_binary_cross_entropy(weft_tensor *a, weft_tensor *targets, weft_tensor *weight,
                                                weft_loss_reduction reduction);
/** The same with a = sigmoid(logits), without overflow or cancellation. `pos_weight` multiplies t log(a).
 *
 *     loss = weft_binary_cross_entropy_with_logits(logits, targets, NULL, NULL, WEFT_LOSS_MEAN); */
WEFT_API weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *logits, weft_tensor *targets, weft_tensor *weight,
                                                            weft_tensor *pos_weight, weft_loss_reduction reduction);

/** Kullback-Leibler divergence t (log(t) - a), which is 0 for t = 0. `a` is the logarithm of a probability, and t the
 * target. With `log_target` you pass the logarithm of the target, and the loss is e^t (t - a). WEFT_LOSS_MEAN
 * averages over all elements. For the mean over distributions (PyTorch's batchmean), divide WEFT_LOSS_SUM by their
 * number. */
WEFT_API weft_tensor *weft_kl_div(weft_tensor *a, weft_tensor *target, bool log_target, weft_loss_reduction reduction);

WEFT_END_DECLS

#endif
