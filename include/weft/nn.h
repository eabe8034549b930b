/** \file
 * Neural networks: softmax, normalisation, gates, losses, tables. All take floating types. WEFT_BF16 and WEFT_F16 are
 * computed in single precision, and the result is rounded once, at the end. No rank needs whole rows: along a sharded
 * dimension ranks exchange one or two numbers per row (its maximum, its sum) instead of rows. */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Softmax along dimension `dim`, and its logarithm: e^a divided by its sum, or the logarithm of that. A row in which
 * every element is -INFINITY gives NaN. A scalar accepts dim 0 and -1, here and in weft_normalize() and
 * weft_cosine_similarity(). \{ */
WEFT_API weft_tensor *weft_softmax(weft_tensor *a, int dim);
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *a, int dim);
/** \} */

/**
 * Layer normalisation: (a - mean) / sqrt(variance + epsilon) * gain + bias. Mean and variance (of the population) are
 * over the last dimensions, as many as `gain` has. `gain` and `bias` must have the sizes of these dimensions. Either
 * may be NULL: a gain of 1, a bias of 0. If both are NULL, the mean and variance are over the last dimension. Gain
 * and bias may be of any floating type.
 */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon);
/** RMS normalisation: a / sqrt(mean of squares + epsilon) * gain over the last dimensions, as in weft_layer_norm(). */
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *a, weft_tensor *gain, double epsilon);

/**
 * Normalises channels. `a` is [n, c, ...]; gain, bias and running statistics are [c], of any floating types, on a's
 * mesh. gain and bias may be NULL: 1 and 0.
 *
 * weft_batch_norm() computes (a - mean) / sqrt(variance + epsilon) * gain + bias, over all samples and positions of a
 * channel. While training, mean and variance (of the population) are those of the whole batch, however it is sharded,
 * as in PyTorch's SyncBatchNorm. The running statistics, if you pass them, then move in place towards these by
 * `momentum` (0 .. 1); the variance moves towards the sample's (divided by n - 1). They get no gradient of this
 * change, and a batch without elements does not change them. Without training, the running statistics are used.
 * WEFT_ERR_SHAPE if there is only one element in each channel while training.
 *
 *     y = weft_batch_norm(x, mean, variance, gain, bias, true, 0.1, 1e-5);
 */
WEFT_API weft_tensor *weft_batch_norm(weft_tensor *a, weft_tensor *running_mean, weft_tensor *running_var,
                                      weft_tensor *gain, weft_tensor *bias, bool training, double momentum,
                                      double epsilon);
/** Normalises each sample's channels in groups of equal size. `groups` must divide c (WEFT_ERR_SHAPE).
 *
 *     y = weft_group_norm(x, 8, gain, bias, 1e-5); */
WEFT_API weft_tensor *weft_group_norm(weft_tensor *a, int64_t groups, weft_tensor *gain, weft_tensor *bias, double epsilon);
/** Normalises each channel of each sample. */
WEFT_API weft_tensor *weft_instance_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon);

/** Divides the vectors along `dim` by their norm (weft_norm() with p >= 0), or by epsilon if that is larger. */
WEFT_API weft_tensor *weft_normalize(weft_tensor *a, double p, int dim, double epsilon);
/** Returns the sum along `dim` of the products of weft_normalize(a, 2, dim, epsilon) and weft_normalize(b, 2, dim,
 * epsilon); the dimension is removed. Shapes are broadcast, and `dim` is a dimension of the broadcast shape. Types
 * are promoted. */
WEFT_API weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int dim, double epsilon);

/** Norms of matrices. A norm that needs singular values is WEFT_ERR_UNSUPPORTED. */
typedef enum weft_matrix_norm_kind {
    WEFT_MATRIX_FROBENIUS = 0,  /**< the square root of the sum of squares */
    WEFT_MATRIX_ONE,            /**< the largest sum of the magnitudes in a column */
    WEFT_MATRIX_MINUS_ONE,      /**< the smallest sum of the magnitudes in a column */
    WEFT_MATRIX_INFINITY,       /**< the largest sum of the magnitudes in a row */
    WEFT_MATRIX_MINUS_INFINITY, /**< the smallest sum of the magnitudes in a row */
    WEFT_MATRIX_TWO,            /**< the largest singular value */
    WEFT_MATRIX_MINUS_TWO,      /**< the smallest singular value */
    WEFT_MATRIX_NUCLEAR         /**< the sum of singular values */
} weft_matrix_norm_kind;
/** Returns the norm of each matrix of the last two dimensions. With keepdim these dimensions stay, with size 1.
 * WEFT_ERR_SHAPE if there is no column (or row) to choose. */
WEFT_API weft_tensor *weft_matrix_norm(weft_tensor *a, weft_matrix_norm_kind kind, bool keepdim);

/** Returns the first half along `dim` times the sigmoid of the second half. WEFT_ERR_SHAPE if the size is odd. */
WEFT_API weft_tensor *weft_glu(weft_tensor *a, int dim);
/** Returns weight * a for elements that are not above 0, and a for the others. The weight has a's type and one
 * element, or one for each index of dimension 1. */
WEFT_API weft_tensor *weft_prelu(weft_tensor *a, weft_tensor *weight);

/**
 * Rotary position embedding of a [..., t, d], d even. The vector at index i of dimension t has position p =
 * first_position + i. Its elements j and j + d / 2 are rotated by the angle p theta^(-2j/d), the first towards the
 * second, as in Hugging Face's checkpoints of LLaMA. Dimension d is not sharded.
 */
WEFT_API weft_tensor *weft_rotary(weft_tensor *a, double theta, int64_t first_position);

/** How the losses of rows, or of elements, are reduced. */
typedef enum weft_loss_reduction {
    WEFT_LOSS_MEAN = 0, /**< mean: a scalar; NaN if there are no rows */
    WEFT_LOSS_SUM,      /**< sum: a scalar */
    WEFT_LOSS_NONE      /**< not reduced: one loss for each row, or element */
} weft_loss_reduction;

/** Start from WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT, PyTorch's defaults. */
typedef struct weft_cross_entropy_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    weft_loss_reduction reduction;
    int64_t ignore_index;   /**< rows with this target count as 0, and are left out of the mean */
    double label_smoothing; /**< 0 .. 1: this share of the target's probability is spread over all classes */
    /** [c], of any floating type: a factor for each class; NULL: 1. If targets are class
     * numbers, the mean divides by the sum of the targets' weights; if they are probabilities, by n. */
    weft_tensor *weight;
} weft_cross_entropy_options;
#define WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT                                                                   \
    {                                                                                                        \
        0, WEFT_LOSS_MEAN, -100, 0, NULL                                                                     \
    }

/** Sets the defaults, and `size`. */
static inline void weft_cross_entropy_options_init(weft_cross_entropy_options *options)
{
    const weft_cross_entropy_options all = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/**
 * Returns the softmax cross-entropy of logits [n, c] with class numbers [n] (WEFT_I64 or WEFT_I32): by default the
 * mean over n, a scalar. A class outside 0 .. c - 1 counts as a loss of 0, and the next blocking call returns
 * WEFT_ERR_INVALID. WEFT_ERR_SHAPE if there are rows but no classes.
 *
 * Targets may also be probabilities: [n, c], of any floating type. Then no row is ignored (WEFT_ERR_INVALID unless
 * `ignore_index` is negative).
 *
 * \param options  NULL: the mean of all rows. None is ignored, so the ranks need not agree on how many count, and
 *                 nothing is sent for it
 */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets,
                                         const weft_cross_entropy_options *options);

/** Negative log-likelihood: -log_probabilities[i, targets[i]] of [n, c] and [n]. Targets are class numbers as above.
 * Rows whose target is `ignore_index` (by convention -100) are ignored. */
WEFT_API weft_tensor *weft_nll(weft_tensor *log_probabilities, weft_tensor *targets, int64_t ignore_index,
                               weft_loss_reduction reduction);

/** Squared error (a - b)^2. a and b have the same shape and type. */
WEFT_API weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction);

/**
 * Looks up rows of a table: [v, d] and indices [...] (WEFT_I64 or WEFT_I32) give [..., d]. An index outside 0 .. v -
 * 1 gives a row of zeros, and the next blocking call returns WEFT_ERR_INVALID.
 */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *indices);

WEFT_END_DECLS

#endif
