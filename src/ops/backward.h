/* Gradients of operations as calls of their own, and forward calls that also return what these need: the tape makes them
 * (gradient.h). They check their arguments and are differentiable, as public functions are. */
#ifndef WEFT_SRC_OPS_BACKWARD_H
#define WEFT_SRC_OPS_BACKWARD_H

#include <weft/weft.h>

/* ---- elementwise ----------------------------------------------------------------------------------------- */

/* Gradients of the input of these functions; floating, all tensors of one shape. `output`: the function's
 * result. */
weft_tensor *weft_relu_backward(weft_tensor *gradient, weft_tensor *input);
weft_tensor *weft_gelu_backward(weft_tensor *gradient, weft_tensor *input);
weft_tensor *weft_silu_backward(weft_tensor *gradient, weft_tensor *input);
weft_tensor *weft_leaky_relu_backward(weft_tensor *gradient, weft_tensor *input, double slope);
weft_tensor *weft_elu_backward(weft_tensor *gradient, weft_tensor *input, double alpha);
weft_tensor *weft_tanh_backward(weft_tensor *gradient, weft_tensor *output);
weft_tensor *weft_sigmoid_backward(weft_tensor *gradient, weft_tensor *output);
weft_tensor *weft_pow_scalar_backward(weft_tensor *gradient, weft_tensor *input, double exponent);

/* ---- softmax and norms ----------------------------------------------------------------------------------- */

/* `output`: the function's result. */
weft_tensor *weft_softmax_backward(weft_tensor *gradient, weft_tensor *output, int dim);
weft_tensor *weft_log_softmax_backward(weft_tensor *gradient, weft_tensor *output, int dim);

/* Returns the gradient of a. `*gradient_gain` and `*gradient_bias` (may be NULL) get those of gain and
 * bias, in the gain's type. gain NULL: as for a gain of ones and a bias of zeros over the last dimension,
 * in a's type. On error all are NULL. */
weft_tensor *weft_layer_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain,
                                      double epsilon, weft_tensor **gradient_gain,
                                      weft_tensor **gradient_bias);

/* The same with each vector's statistics, as PyTorch's native_layer_norm: the mean, and `rstd`, 1 / sqrt(variance +
 * epsilon), in WEFT_F64, with size 1 in the last dimensions; on error both are NULL. The backward pass takes them
 * instead of computing them again, with the same bits. */
weft_tensor *weft_layer_norm_with_statistics(weft_tensor *a, weft_tensor *gain, weft_tensor *bias,
                                             double epsilon, weft_tensor **mean, weft_tensor **rstd);
weft_tensor *weft_layer_norm_backward_with_statistics(weft_tensor *gradient, weft_tensor *a,
                                                      weft_tensor *mean, weft_tensor *rstd, weft_tensor *gain,
                                                      weft_tensor **gradient_gain,
                                                      weft_tensor **gradient_bias);

/* As of weft_layer_norm(). */
weft_tensor *weft_rms_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain, double epsilon,
                                    weft_tensor **gradient_gain);

/* The same with `rstd`, 1 / sqrt(mean of squares + epsilon), of each vector. */
weft_tensor *weft_rms_norm_with_statistics(weft_tensor *a, weft_tensor *gain, double epsilon,
                                           weft_tensor **rstd);
weft_tensor *weft_rms_norm_backward_with_statistics(weft_tensor *gradient, weft_tensor *a, weft_tensor *rstd,
                                                    weft_tensor *gain, weft_tensor **gradient_gain);

/* ---- losses and tables ----------------------------------------------------------------------------------- */

/* The gradient of the logits: gradient * (softmax(logits) - onehot(targets)) / n; `gradient` is a scalar
 * tensor of the logits' type, or NULL for 1. */
weft_tensor *weft_cross_entropy_backward(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets);

/* `gradient` is [n] where nothing is reduced. */
weft_tensor *weft_cross_entropy_ex_backward(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets,
                                            const weft_cross_entropy_options *options);

/* Like weft_cross_entropy(), and also returns the log-sums, WEFT_F64 [n]: the logarithm of each row's sum of e^logit (PyTorch's
 * logsumexp). Targets are class numbers. Options NULL: as weft_cross_entropy(), which ignores no row. WEFT_ERR_UNSUPPORTED with a
 * `weight`.
 * \param log_sums  gets them, NULL on error; may be NULL */
weft_tensor *weft_cross_entropy_with_log_sums(weft_tensor *logits, weft_tensor *targets,
                                              const weft_cross_entropy_options *options,
                                              weft_tensor **log_sums);
/* The gradient, with the log-sums of the same logits: then each row is read once. Rows whose log-sum exceeds 65536 in size, or
 * 8 in WEFT_F64, and sharded classes are computed as without. Log-sums of other logits give another function. */
weft_tensor *weft_cross_entropy_backward_with_log_sums(weft_tensor *gradient, weft_tensor *logits,
                                                       weft_tensor *targets, weft_tensor *log_sums,
                                                       const weft_cross_entropy_options *options);

/* The gradient of log_probabilities, of which only shape and layout are used. */
weft_tensor *weft_nll_backward(weft_tensor *gradient, weft_tensor *log_probabilities, weft_tensor *targets,
                               int64_t ignore_index, weft_loss_reduction reduction);

/* The gradient of a (that of b is its negative). `gradient`: a scalar, of a's shape for WEFT_LOSS_NONE, or NULL
 * for 1. */
weft_tensor *weft_mse_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *b,
                               weft_loss_reduction reduction);

/* The gradient of the table, [num_rows, d]: rows of `gradient` [..., d] added where `indices` [...] says. */
weft_tensor *weft_embedding_backward(weft_tensor *gradient, weft_tensor *indices, int64_t num_rows);

/* ---- products -------------------------------------------------------------------------------------------- */

/* Gradients of the input, whose shape was `shape` ([n, c, h, w], or [n, c, w] after weft_conv1d()), and of the
 * weights, whose shape was `shape`; `gradient` has the shape of the convolution's result. The gradient of the
 * bias is the sum over n, y and z. */
weft_tensor *weft_conv2d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[4],
                                        const weft_convolution *options);
weft_tensor *weft_conv2d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[4],
                                         const weft_convolution *options);
weft_tensor *weft_conv1d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[3],
                                        const weft_convolution *options);
weft_tensor *weft_conv1d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[3],
                                         const weft_convolution *options);

/* Gradients, for the same operands and options: `output` is the result, and `gradient` its gradient, of
 * its shape and type. Returns the gradient of q; `*gradient_k` and `*gradient_v` (may be NULL) get those
 * of k and v. Each has the shape and type of its operand; for broadcast operands it is summed. On error
 * all are NULL. A row that sees no key adds 0. WEFT_ERR_UNSUPPORTED with `grouped_heads` or `dropout`, which
 * weft_gradients() differentiates.
 *
 * The weights are recomputed block by block from q, k and the logarithm of each row's sum, which is
 * computed first: the gradients of q, k and v cost 8 products of s x t scores, the result 2. The
 * gradients of k and v are Partial along mesh dimensions that shard rows, that of q along those that
 * shard keys. If weft_attention() uses a ring, so do the gradients: k moves for the logarithms, k and v
 * for the gradient of q, then q and `gradient` for those of k and v, which stay sharded as k and v are.
 * If only keys are sharded and rows are few, ranks exchange two numbers per row, and no key moves. */
weft_tensor *weft_attention_backward(weft_tensor *gradient, weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                     weft_tensor *output, const weft_attention_options *options,
                                     weft_tensor **gradient_k, weft_tensor **gradient_v);

/* The same with the log-sums of weft_attention_with_log_sums() for these operands, which saves their computation:
 * one of the products, and in a ring the first turn of k. */
weft_tensor *weft_attention_backward_with_log_sums(weft_tensor *gradient, weft_tensor *q, weft_tensor *k,
                                                   weft_tensor *v, weft_tensor *output, weft_tensor *log_sums,
                                                   const weft_attention_options *options,
                                                   weft_tensor **gradient_k, weft_tensor **gradient_v);

/* ---- others ---------------------------------------------------------------------------------------------- */

/* The gradient of a: `gradient` rotated back. */
weft_tensor *weft_rotary_backward(weft_tensor *gradient, double theta, int64_t first_position);

/* The gradient of a, with the p and the mask of the forward call (without training the mask is not used,
 * and the result is `gradient` itself). */
weft_tensor *weft_dropout_backward(weft_tensor *gradient, weft_tensor *mask, double p, bool training);

/* Zeros of `size` in dimension dim, with `gradient` written to the places that weft_slice() would
 * read; WEFT_ERR_SHAPE if its size differs from that. Gradient: weft_slice(). */
weft_tensor *weft_slice_backward(weft_tensor *gradient, int dim, int64_t size, int64_t start, int64_t stop,
                                 int64_t step);

#endif
