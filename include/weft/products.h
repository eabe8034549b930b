/** \file
 * Matrix products, convolutions and attention. All operands must have the same type. WEFT_BF16 and WEFT_F16 are
 * multiplied and added in single precision, and the result is rounded once. On the same layouts, results repeat bit
 * for bit. If a processor multiplies WEFT_BF16 itself (AVX512_BF16, with oneDNN), subnormal numbers count as 0. */
#ifndef WEFT_PRODUCTS_H
#define WEFT_PRODUCTS_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * Multiplies matrices of floating types and integers (which wrap around). [m, k] times [k, n] gives [m, n].
 *
 * Leading dimensions are a batch, which broadcasts: batches are aligned at their ends, and missing dimensions and
 * dimensions of size 1 are repeated. An operand with one dimension is a vector: [k] times [..., k, n] gives [..., n],
 * [..., m, k] times [k] gives [..., m], and [k] times [k] gives a scalar.
 *
 * Gradients, where g is the gradient of the result: weft_matmul_ex(g, false, b, true) for a, and weft_matmul_ex(a,
 * true, g, false) for b. If the batch of an operand was repeated, apply weft_sum_to().
 */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
/** The same, with the last two dimensions of a or b exchanged first. Nothing is copied for that. The operand that you
 * transpose must have at least two dimensions. */
WEFT_API weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b);
/** Returns the sum of a * b over their only dimension: a scalar. */
WEFT_API weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b);
/** Returns every product of an element of [m] with one of [n]: [m, n]. Types as in weft_mul(). */
WEFT_API weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b);
/**
 * Sums products by an equation. "bij,bjk->bik" names each operand's dimensions by letters; letters that the result
 * lacks are summed over. If a letter occurs twice in an operand, it stands for the diagonal. "..." stands for further
 * dimensions, which broadcast. If there is no "->", the result has the dimensions of "...", and then the letters that
 * occur once, in alphabetical order (capitals first). Blanks between letters are ignored. All operands have the same
 * type, as in weft_matmul().
 *
 * Operands are multiplied in pairs, as matrices; the pair with the fewest multiplications comes first. Intermediate
 * results have the operands' type.
 *
 * \param tensors  num_tensors of them, 1 to 7
 * \return WEFT_ERR_INVALID if the equation does not match the operands (the message names the character);
 *         WEFT_ERR_SHAPE if one letter has different sizes, or a product has more than WEFT_MAX_DIMS dimensions
 */
WEFT_API weft_tensor *weft_einsum(const char *equation, int num_tensors, weft_tensor *const tensors[]);
/** Sums over dimensions dims_a of `a` and dims_b of `b`, which are paired in this order. The result has the other
 * dimensions of a, and then those of b. If num_dims is 0, it has every product of two elements.
 *
 * For example, with the last dimension of `a` and the first of `b`:
 *
 *     weft_tensordot(a, b, 1, (int[]){ -1 }, (int[]){ 0 }); */
WEFT_API weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, int num_dims, const int dims_a[],
                                     const int dims_b[]);
/** Returns beta c + alpha a b, for a [m, k] and b [k, n]. c is broadcast to [m, n], and not read if beta is 0. Both
 * are real, and with integer types whole numbers of at most 2^53 (WEFT_ERR_DTYPE).
 *
 *     weft_addmm(c, a, b, 1, 0.5); */
WEFT_API weft_tensor *weft_addmm(weft_tensor *c, weft_tensor *a, weft_tensor *b, weft_scalar beta, weft_scalar alpha);
/** Returns x weight^T + bias. x is [..., k], weight [n, k], bias [n] or NULL; the result is [..., n].
 *
 * Gradients, where g is the gradient of the result: weft_matmul(g, weight) for x. If g and x have two dimensions
 * (weft_flatten() the leading ones first), weft_matmul_ex(g, true, x, false) for weight, and weft_sum(g, 0, false)
 * for bias. */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *weight, weft_tensor *bias);

/** Parameters of a convolution. If zero-initialised, all strides and dilations are 1 and there is no padding.
 * weft_conv1d() uses the first entry of each pair. */
typedef struct weft_convolution {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int64_t stride[2];   /**< strides of h and w; 0 means 1 */
    int64_t padding[2];  /**< zeros before and after h and w */
    int64_t dilation[2]; /**< distance between weights; 0 means 1 */
    int64_t groups;      /**< number of groups of channels, and of features, that do not mix; 0 means 1 */
} weft_convolution;

/** Sets all fields to 0, and `size`. */
static inline void weft_convolution_init(weft_convolution *options)
{
    const weft_convolution all = { sizeof(all), { 0 }, { 0 }, { 0 }, 0 };
    *options = all;
}

/**
 * Convolution (cross-correlation, as usual) of x [n, c, h, w] with weight [o, c / groups, i, j], plus bias [o] or
 * NULL. The result is [n, o, y, z] with y = (h + 2 padding - dilation (i - 1) - 1) / stride + 1, rounded down; z is
 * computed in the same way. Floating or complex types; of complex ones errors are relative to |x| |w|, not to each part.
 * `options`: NULL for defaults. WEFT_ERR_SHAPE if the weights are larger than the padded input.
 */
WEFT_API weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution *options);
/** The same without h, i and y: x is [n, c, w], weight [o, c / groups, j]. */
WEFT_API weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution *options);

/**
 * Transposed convolution of x [n, c, h, w] with weight [c, o / groups, i, j], plus bias [o] or NULL. It computes the
 * gradient of the input of a convolution with these weights and options, if x is the gradient of its result. The
 * result is [n, o, y, z] with y = (h - 1) stride - 2 padding + dilation (i - 1) + 1 + output_padding; z is computed
 * in the same way. Floating or complex types. `options`: NULL for defaults.
 *
 * \param output_padding  of y and z; 0 or more, and less than the stride. Several sizes of y give the same h when
 *                        convolved; this chooses one. NULL: 0
 *
 * \return WEFT_ERR_SHAPE if x has no h or w, or the result has less than one element
 *
 *     weft_conv_transpose2d(x, weight, NULL, &(weft_convolution){ .stride = { 2, 2 } }, NULL);
 */
WEFT_API weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution *options, const int64_t output_padding[2]);
/** The same without h, i and y: x is [n, c, w], weight [c, o / groups, j].
 *
 *     weft_conv_transpose1d(x, weight, NULL, NULL, NULL); */
WEFT_API weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution *options, const int64_t output_padding[1]);

/** Parameters of a convolution with three spatial dimensions, as in weft_convolution. */
typedef struct weft_convolution3d {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int64_t stride[3];   /**< strides of d, h and w; 0 means 1 */
    int64_t padding[3];  /**< zeros before and after d, h and w */
    int64_t dilation[3]; /**< distance between weights; 0 means 1 */
    int64_t groups;      /**< as in weft_convolution */
} weft_convolution3d;

/** Sets all fields to 0, and `size`. */
static inline void weft_convolution3d_init(weft_convolution3d *options)
{
    const weft_convolution3d all = { sizeof(all), { 0 }, { 0 }, { 0 }, 0 };
    *options = all;
}

/**
 * weft_conv2d() with a third spatial dimension, d: x [n, c, d, h, w] with weight [o, c / groups, k, i, j], plus bias
 * [o] or NULL. The result is [n, o, v, y, z] with v = (d + 2 padding - dilation (k - 1) - 1) / stride + 1, rounded
 * down; y and z are computed in the same way. Floating or complex types. `options`: NULL for defaults. WEFT_ERR_SHAPE if the
 * weights are larger than the padded input.
 *
 * The k slices that are read for one v are copied side by side. So the call needs memory for 2 k / stride times x,
 * and more while slices of several strides are cut out. If n, h or d is sharded, it stays sharded. But if both n and
 * d are sharded, h is sharded instead of d.
 */
WEFT_API weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution3d *options);
/**
 * weft_conv_transpose2d() with a third spatial dimension: x [n, c, d, h, w], weight [c, o / groups, k, i, j],
 * output_padding of v, y and z. 16-bit types are multiplied as WEFT_F32. For each slice of d the call needs memory
 * for k slices with o channels.
 *
 *     weft_conv_transpose3d(x, weight, NULL, NULL, NULL);
 */
WEFT_API weft_tensor *weft_conv_transpose3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution3d *options, const int64_t output_padding[3]);

/** Options of attention. If zero-initialised there is no mask. */
typedef struct weft_attention_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    bool causal;  /**< row i attends only to keys 0 .. i, by their global indices */
    double scale; /**< 0 means 1 / sqrt(e) */
    weft_tensor
        *mask; /**< broadcast to [..., s, t]: WEFT_BOOL (true: the key is seen), or numbers to add; or NULL */
    /** Dimension -3 is heads. q has a multiple of the heads of k and v, and head i of q
     * attends to head i / (heads of q / heads of k), rounded down: enable_gqa of PyTorch. The mask has q's heads, or
     * one */
    bool grouped_heads;
    /** The probability with which a weight becomes 0; the others are divided by 1 - dropout,
     * as in weft_dropout(). If it is more than 0, attention is made of several calls, and errors may name those. The
     * matrix of all weights is stored, keys do not move around a ring, and the random state advances by one */
    double dropout;
} weft_attention_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_attention_options_init(weft_attention_options *options)
{
    const weft_attention_options all = { sizeof(all), false, 0, NULL, false, 0 };
    *options = all;
}

/** Computes softmax(scale q k^T + mask) v, with the softmax over keys. q [..., s, e], k [..., t, e] and v [..., t, f]
 * give [..., s, f]; leading dimensions broadcast. Floating types; the mask may have another type. The matrix of all
 * scores is stored only with `dropout`. A row that sees no key gives 0. NaN in k or v may reach rows that do not see
 * its key, but are in its block of keys. `options`: NULL for defaults.
 *
 * If q is sharded in s, and k and v in t along the same mesh dimensions, the sequence stays sharded. Blocks of k and
 * v move around a ring along these mesh dimensions; each transfer overlaps with the computation on the previous
 * block. Besides inputs and result a rank holds two blocks of k and v, and f + 2 numbers in single or double
 * precision per row. With n blocks it receives (n - 1) / n of k and v, also with `causal`. Other mesh dimensions may
 * shard the batch, or only rows. A mask must be on q's mesh; a rank gets its rows of the mask, for all keys.
 *
 * With `causal` the last of p chunks sees nearly twice the mean number of keys. If q, k and v are cut zigzag instead
 * (WEFT_CUT_ZIGZAG, by one mesh dimension; without a mask), they stay so, all ranks have as much to compute, and the
 * result is cut zigzag.
 *
 * If k and v are sharded in t along mesh dimensions that do not shard q in s, keys can stay in place too. This pays
 * if rows are few (decoding with a sharded cache). Each rank computes all rows with its own keys, and sends f + 2
 * numbers in single or double precision per row. The result is placed as q along these mesh dimensions. weft does
 * this if it moves fewer bytes than gathering the keys: with n ranks and one type of 32 or 64 bits, if s (f + 2) < t
 * (e + f) / n. Otherwise it gathers the keys. */
WEFT_API weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                     const weft_attention_options *options);

/** The same, and also returns the log-sums [..., s], which the gradients need: the logarithm of each row's sum of
 * e^score (PyTorch's logsumexp). They are WEFT_F64 if the operands are, otherwise WEFT_F32, and infinite for a row
 * that sees no key. WEFT_ERR_UNSUPPORTED with `dropout`.
 *
 * \param log_sums  receives them, NULL on error; may be NULL
 *
 *     output = weft_attention_with_log_sums(q, k, v, NULL, &log_sums); */
WEFT_API weft_tensor *weft_attention_with_log_sums(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                                   const weft_attention_options *options,
                                                   weft_tensor **log_sums);

#ifndef __cplusplus
/* Numbers of any type (::weft_scalar). */
#define weft_addmm(c, a, b, beta, alpha) weft_addmm(c, a, b, WEFT_SCALAR(beta), WEFT_SCALAR(alpha))
#endif

WEFT_END_DECLS

#endif
