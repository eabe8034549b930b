/** \file
 * Neural networks: softmax, normalisation, gates, losses, tables. Floating types; WEFT_BF16 and WEFT_F16 are
 * computed in single precision and rounded once, at the end. No rank needs whole rows: along a sharded
 * dimension ranks exchange one or two numbers per row (its maximum, its sum) instead of rows. */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** e^a divided by its sum along dimension `dim`, and the logarithm of that. A row of -INFINITY alone gives
 * NaN. A scalar takes dim 0 and -1, here and in weft_normalize() and weft_cosine_similarity(). \{ */
WEFT_API weft_tensor *weft_softmax(weft_tensor *a, int dim);
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *a, int dim);
/** \} */

/**
 * (a - mean) / sqrt(variance + epsilon) * gain + bias, mean and (population's) variance over the last
 * dimensions: as many as `gain` has, which must have their sizes, as must `bias`. Either may be NULL: a gain
 * of 1, a bias of 0. Both NULL: over the last dimension. Gain and bias may be of any floating type.
 */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon);
/** a / sqrt(mean of squares + epsilon) * gain, over the last dimensions as above. */
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *a, weft_tensor *gain, double epsilon);

/**
 * Normalisation of channels: a [n, c, ...]; gain, bias and running statistics are [c], of any floating types, on a's mesh.
 * gain and bias may be NULL: 1 and 0.
 *
 * weft_batch_norm(): (a - mean) / sqrt(variance + epsilon) * gain + bias, over all samples and positions of a channel.
 * While training, mean and (population's) variance are those of the whole batch, however it is sharded, as of PyTorch's
 * SyncBatchNorm; then the running statistics, if given, change in place by `momentum` (0 .. 1) towards them, the variance
 * towards the sample's (divided by n - 1). Else the running statistics are used. They get no gradient of this change, and
 * a batch without elements does not change them. WEFT_ERR_SHAPE for one element in each channel while training.
 *
 *     y = weft_batch_norm(x, mean, variance, gain, bias, true, 0.1, 1e-5);
 */
WEFT_API weft_tensor *weft_batch_norm(weft_tensor *a, weft_tensor *running_mean, weft_tensor *running_var,
                                      weft_tensor *gain, weft_tensor *bias, bool training, double momentum,
                                      double epsilon);
/** Over each sample's channels in groups of equal size: `groups` divides c (WEFT_ERR_SHAPE). */
WEFT_API weft_tensor *weft_group_norm(weft_tensor *a, int64_t groups, weft_tensor *gain, weft_tensor *bias, double epsilon);
/** Over each channel of each sample. */
WEFT_API weft_tensor *weft_instance_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon);

/** Vectors along `dim`, divided by their norm (weft_norm() with p >= 0), or by epsilon where that is larger. */
WEFT_API weft_tensor *weft_normalize(weft_tensor *a, double p, int dim, double epsilon);
/** The sum of products of weft_normalize(a, 2, dim, epsilon) and the same of b, without that dimension. Shapes are
 * broadcast, and `dim` is one of the broadcast shape; types are promoted. */
WEFT_API weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int dim, double epsilon);

/** Norms of matrices; those of singular values are WEFT_ERR_UNSUPPORTED. */
typedef enum weft_matrix_norm_kind {
    WEFT_MATRIX_FROBENIUS = 0,  /**< the root of the sum of squares */
    WEFT_MATRIX_ONE,            /**< the largest sum of a column's magnitudes */
    WEFT_MATRIX_MINUS_ONE,      /**< the smallest one */
    WEFT_MATRIX_INFINITY,       /**< the largest sum of a row's magnitudes */
    WEFT_MATRIX_MINUS_INFINITY, /**< the smallest one */
    WEFT_MATRIX_TWO,            /**< the largest singular value */
    WEFT_MATRIX_MINUS_TWO,      /**< the smallest one */
    WEFT_MATRIX_NUCLEAR         /**< the sum of singular values */
} weft_matrix_norm_kind;
/** The norm of each matrix of the last two dimensions; keepdim: these stay with size 1. WEFT_ERR_SHAPE where there is no
 * column (row) to choose. */
WEFT_API weft_tensor *weft_matrix_norm(weft_tensor *a, weft_matrix_norm_kind kind, bool keepdim);

/** The first half along `dim` times the sigmoid of the second half. WEFT_ERR_SHAPE for an odd size. */
WEFT_API weft_tensor *weft_glu(weft_tensor *a, int dim);
/** weight * a where a is not above 0, else a. The weight, of a's type, has one element, or one for each index of
 * dimension 1. */
WEFT_API weft_tensor *weft_prelu(weft_tensor *a, weft_tensor *weight);

/**
 * Rotary positions: a [..., t, d], d even. The vector at index i of dimension t has position p = first_position + i; its
 * elements j and j + d / 2 are rotated by the angle p theta^(-2j/d), the first towards the second, as in LLaMA's
 * checkpoints of Hugging Face. Dimension d is not sharded. */
WEFT_API weft_tensor *weft_rotary(weft_tensor *a, double theta, int64_t first_position);

/** Reduction of the losses of rows, or of elements. */
typedef enum weft_loss_reduction {
    WEFT_LOSS_MEAN = 0, /**< a scalar; NaN of none */
    WEFT_LOSS_SUM,      /**< a scalar */
    WEFT_LOSS_NONE      /**< not at all: one for each row, or element */
} weft_loss_reduction;

/**
 * Softmax cross-entropy of logits [n, c] with class numbers [n] (WEFT_I64 or WEFT_I32), the mean over n: a
 * scalar. A class outside 0 .. c - 1 counts as a loss of 0, and the next blocking call returns
 * WEFT_ERR_INVALID. WEFT_ERR_SHAPE for rows without classes.
 */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets);

/** Start from WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT. */
typedef struct weft_cross_entropy_options {
    weft_loss_reduction reduction;
    int64_t ignore_index;   /**< rows with this target count as 0, and not in the mean */
    double label_smoothing; /**< 0 .. 1: this share of the target's probability is spread over all classes */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    /** [c], of any floating type: factors of the classes; NULL: 1. Read where `size` is not 0. The mean of rows with class
     * numbers divides by the sum of their targets' weights, that of rows with probabilities by n. */
    weft_tensor *weight;
} weft_cross_entropy_options;
#define WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT                                                                   \
    {                                                                                                        \
        WEFT_LOSS_MEAN, -100, 0, 0, NULL                                                                     \
    }

/** Sets the defaults, and `size`. */
static inline void weft_cross_entropy_options_init(weft_cross_entropy_options *options)
{
    const weft_cross_entropy_options all = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

/** The same with options, NULL for those by default. Targets may also be probabilities: [n, c], of any floating type; none of
 * them is ignored (WEFT_ERR_INVALID unless `ignore_index` is negative). */
WEFT_API weft_tensor *weft_cross_entropy_ex(weft_tensor *logits, weft_tensor *targets,
                                            const weft_cross_entropy_options *options);

/** -log_probabilities[i, targets[i]] of [n, c] and [n]; targets as above, by convention -100 for ignored
 * rows. */
WEFT_API weft_tensor *weft_nll(weft_tensor *log_probabilities, weft_tensor *targets, int64_t ignore_index,
                               weft_loss_reduction reduction);

/** (a - b)^2, of one shape and type. */
WEFT_API weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction);

/**
 * Rows of a table: [v, d] and indices [...] (WEFT_I64 or WEFT_I32) give [..., d]. An index out of 0 .. v - 1
 * gives a row of zeros, and the next blocking call returns WEFT_ERR_INVALID.
 */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *indices);

WEFT_END_DECLS

#endif
