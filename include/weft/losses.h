/** \file
 * Losses of pairs of elements. The two tensors have one shape and one floating type, which the result has too;
 * WEFT_BF16 and WEFT_F16 are computed in single precision and rounded once, at the end. Other losses are in
 * <weft/nn.h>: cross-entropy of classes, squared distances. Weights may be NULL, which stands for 1; they have any
 * floating types, and broadcast to the shape of the first tensor (WEFT_ERR_SHAPE). The mean divides by the number of
 * elements, whatever their weights are. Gradients are those of the tape (<weft/autograd.h>). */
#ifndef WEFT_LOSSES_H
#define WEFT_LOSSES_H

#include <weft/nn.h>

WEFT_BEGIN_DECLS

/** |a - b|. The gradient is 0 where they are equal. */
WEFT_API weft_tensor *weft_l1(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction);
/** With d = |a - b|: d^2 / 2 below delta, from there delta (d - delta / 2). WEFT_ERR_INVALID unless delta is positive and
 * finite. */
WEFT_API weft_tensor *weft_huber(weft_tensor *a, weft_tensor *b, double delta, weft_loss_reduction reduction);
/** weft_huber() with delta = beta, divided by beta; weft_l1() for 0. WEFT_ERR_INVALID unless beta is finite and at least
 * 0. */
WEFT_API weft_tensor *weft_smooth_l1(weft_tensor *a, weft_tensor *b, double beta, weft_loss_reduction reduction);

/** -(t log(a) + (1 - t) log(1 - a)) of probabilities a and targets t from 0 to 1; each logarithm is at least -100, but in
 * the gradient of t, which is infinite where a is 0 or 1, as PyTorch's. NaN where a is outside 0 .. 1. */
WEFT_API weft_tensor *weft_binary_cross_entropy(weft_tensor *a, weft_tensor *targets, weft_tensor *weight,
                                                weft_loss_reduction reduction);
/** The same with a = sigmoid(logits), without overflow or cancellation; `pos_weight` multiplies t log(a).
 *
 *     loss = weft_binary_cross_entropy_with_logits(logits, targets, NULL, NULL, WEFT_LOSS_MEAN);
 */
WEFT_API weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *logits, weft_tensor *targets, weft_tensor *weight,
                                                            weft_tensor *pos_weight, weft_loss_reduction reduction);

/** Kullback and Leibler's divergence, t (log(t) - a), 0 for t = 0, of logarithms a of probabilities and a target t; with
 * `log_target` of the target's logarithm: e^t (t - a). WEFT_LOSS_MEAN is over all elements: divide WEFT_LOSS_SUM by the
 * number of distributions for their mean (PyTorch's batchmean). */
WEFT_API weft_tensor *weft_kl_div(weft_tensor *a, weft_tensor *target, bool log_target, weft_loss_reduction reduction);

WEFT_END_DECLS

#endif
