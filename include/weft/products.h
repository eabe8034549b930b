/** \file
 * Products of matrices, convolutions and attention. Types must agree. WEFT_BF16 and WEFT_F16 are multiplied
 * and added in single precision, and the result is rounded once. Results repeat bit for bit, on the same
 * layouts. Where a processor multiplies WEFT_BF16 itself (AVX512_BF16, with oneDNN), subnormal numbers count
 * as 0.
 */
#ifndef WEFT_PRODUCTS_H
#define WEFT_PRODUCTS_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * Matrix products, of floating types and integers (which wrap around). [m, k] times [k, n] gives [m, n].
 * Leading dimensions are a batch, which broadcasts: aligned at their end, sizes of 1 and missing ones are
 * repeated. An operand with one dimension is a vector: [k] times [..., k, n] gives [..., n], [..., m, k] times
 * [k] gives [..., m], [k] times [k] a scalar. Gradients, g being the result's: of a weft_matmul_ex(g, false,
 * b, true), of b weft_matmul_ex(a, true, g, false), each through weft_sum_to() if its batch was repeated.
 */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
/** The same with the last two dimensions of a or b exchanged first (nothing is copied for it); it must have
 * two. */
WEFT_API weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b);
/** The sum of a * b over their only dimension: a scalar. */
WEFT_API weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b);
/** [m] and [n] give [m, n]: every product of two elements. Types as of weft_mul(). */
WEFT_API weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b);
/**
 * Sums of products by an equation: "bij,bjk->bik" names each operand's dimensions by letters, which are summed over where
 * the result lacks them. A letter twice in an operand stands for its diagonal. "..." stands for further dimensions, which
 * broadcast. Without "->" the result has the dimensions of "...", and the letters that occur once, in the order of the
 * alphabet (capitals first). Blanks between letters are ignored. Types as of weft_matmul(), the same for all.
 *
 * Pairs of operands are multiplied as matrices, the pair with the fewest multiplications first; results in between have
 * the operands' type.
 * \param tensors  num_tensors of them, 1 to 7
 * \return WEFT_ERR_INVALID for an equation that does not fit (the message names the character), WEFT_ERR_SHAPE for
 *         sizes of one letter that differ, or a product of more than WEFT_MAX_DIMS dimensions
 */
WEFT_API weft_tensor *weft_einsum(const char *equation, int num_tensors, weft_tensor *const tensors[]);
/** Sums over dimensions dims_a of `a` and, in this order, dims_b of `b`: the result has a's other dimensions, and then
 * b's. With num_dims 0 every product of two elements. */
WEFT_API weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, int num_dims, const int dims_a[],
                                     const int dims_b[]);
/** beta c + alpha a b, of [m, k] and [k, n]; c is broadcast to [m, n], and not read if beta is 0. With integer
 * types alpha and beta must be whole numbers (WEFT_ERR_DTYPE). */
WEFT_API weft_tensor *weft_addmm(weft_tensor *c, weft_tensor *a, weft_tensor *b, double beta, double alpha);
/** x weight^T + bias: x [..., k], weight [n, k], bias [n] or NULL; the result is [..., n]. Gradients, g being
 * the result's: of x weft_matmul(g, weight); with two-dimensional g and x (weft_flatten() leading dimensions)
 * of weight weft_matmul_ex(g, true, x, false), and of the bias weft_sum(g, 0, false). */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *weight, weft_tensor *bias);

/** Parameters of a convolution; zero-initialised, all strides and dilations are 1 and there is no padding.
 * weft_conv1d() uses the first of each two. */
typedef struct weft_convolution {
    int64_t stride[2];   /**< of h and w; 0 stands for 1 */
    int64_t padding[2];  /**< zeros before and after h and w */
    int64_t dilation[2]; /**< distance between weights; 0 stands for 1 */
    int64_t groups;      /**< channels, and features, are so many groups that do not mix; 0 stands for 1 */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_convolution;

/** Sets all fields to 0, and `size`. */
static inline void weft_convolution_init(weft_convolution *options)
{
    const weft_convolution all = { { 0 }, { 0 }, { 0 }, 0, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/**
 * Convolution (cross-correlation, as usual) of x [n, c, h, w] with weight [o, c / groups, i, j], plus bias [o]
 * or NULL: [n, o, y, z] with y = (h + 2 padding - dilation (i - 1) - 1) / stride + 1, rounded down, and z
 * likewise. Floating types. `options`: NULL for defaults. WEFT_ERR_SHAPE if the weights are larger than the
 * padded input.
 */
WEFT_API weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution *options);
/** The same without h, i and y: x [n, c, w], weight [o, c / groups, j]. */
WEFT_API weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution *options);
/**
 * Transposed convolution of x [n, c, h, w] with weight [c, o / groups, i, j], plus bias [o] or NULL: the gradient of the
 * input of a convolution with these weights and options, from x. [n, o, y, z] with y = (h - 1) stride - 2 padding + dilation
 * (i - 1) + 1 + output_padding, and z likewise. Floating types. `options`: NULL for defaults.
 * \param output_padding  of y and z, 0 or more and less than the stride: which of the sizes that the convolution makes h
 *                        and w of; NULL: 0
 * \return WEFT_ERR_SHAPE for x without h or w, or a result of less than one element
 */
WEFT_API weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution *options, const int64_t output_padding[2]);
/** The same without h, i and y: x [n, c, w], weight [c, o / groups, j]. */
WEFT_API weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution *options, const int64_t output_padding[1]);

/** Parameters of a convolution with three spatial dimensions, as of weft_convolution. */
typedef struct weft_convolution3d {
    int64_t stride[3];   /**< of d, h and w; 0 stands for 1 */
    int64_t padding[3];  /**< zeros before and after d, h and w */
    int64_t dilation[3]; /**< distance between weights; 0 stands for 1 */
    int64_t groups;      /**< as of weft_convolution */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_convolution3d;

/** Sets all fields to 0, and `size`. */
static inline void weft_convolution3d_init(weft_convolution3d *options)
{
    const weft_convolution3d all = { { 0 }, { 0 }, { 0 }, 0, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/**
 * weft_conv2d() with a third spatial dimension, d: x [n, c, d, h, w] with weight [o, c / groups, k, i, j], plus bias [o] or NULL:
 * [n, o, v, y, z] with v = (d + 2 padding - dilation (k - 1) - 1) / stride + 1, rounded down, y and z likewise. Floating types.
 * `options`: NULL for defaults. WEFT_ERR_SHAPE if the weights are larger than the padded input.
 *
 * The k slices that one v reads are copied side by side: the call needs memory for 2 k / stride times x, and more while slices of
 * several strides are cut out. Sharded n, h or d stay sharded. If both n and d are sharded, h is sharded in place of d.
 */
WEFT_API weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                  const weft_convolution3d *options);
/**
 * weft_conv_transpose2d() likewise: x [n, c, d, h, w], weight [c, o / groups, k, i, j], output_padding of v, y and z. 16-bit types
 * are multiplied as WEFT_F32. The call needs memory for k slices, with o channels, of each of d.
 */
WEFT_API weft_tensor *weft_conv_transpose3d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                            const weft_convolution3d *options, const int64_t output_padding[3]);

/** Zero-initialised: no mask. */
typedef struct weft_attention_options {
    bool causal;  /**< row i attends to keys 0 .. i only, by their global indices */
    double scale; /**< 0 stands for 1 / sqrt(e) */
    weft_tensor
        *mask; /**< broadcast to [..., s, t]: WEFT_BOOL (what is true is seen), or numbers to add; or NULL */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    /** Read where `size` is not 0. Dimension -3 is heads: q has a multiple of those of k and v, and head i of q attends to
     * head i / (heads of q / heads of k), rounded down: enable_gqa of PyTorch. The mask has q's heads, or one */
    bool grouped_heads;
    /** Read where `size` is not 0. The probability with which a weight becomes 0; the others are divided by 1 - dropout, as
     * by weft_dropout(). With more than 0 it is made of several calls, whose names errors may have; the matrix of all
     * weights is stored, keys do not move around a ring, and the random state advances by one */
    double dropout;
} weft_attention_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_attention_options_init(weft_attention_options *options)
{
    const weft_attention_options all = { false, 0, NULL, 0, false, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/** softmax(scale q k^T + mask) v, the softmax over keys: q [..., s, e], k [..., t, e] and v [..., t, f]
 * give [..., s, f]; leading dimensions broadcast. Floating types; the mask may have another type. The
 * matrix of all scores is stored only with `dropout`. A row that sees no key gives 0. NaN in k or v may reach rows that
 * do not see its key, but are in its block of keys. `options`: NULL for defaults.
 *
 * If q is sharded in s, and k and v in t along the same mesh dimensions, the sequence stays sharded:
 * blocks of k and v move around a ring along these mesh dimensions, each overlapped with the computation
 * on the previous block. Beside inputs and result a rank holds two blocks of k and v, and f + 2 numbers
 * in single or double precision per row; with n blocks it receives (n - 1) / n of k and v, also with
 * `causal`. Other mesh dimensions may shard the batch, or rows alone. A mask must be on q's mesh; a rank
 * gets its rows of it, for all keys.
 *
 * If k and v are sharded in t along mesh dimensions that do not shard q in s, and rows are few (decoding
 * with a sharded cache), keys stay in place too: each rank computes all rows with its own keys, and sends
 * f + 2 numbers in single or double precision per row. The result is placed as q along these mesh
 * dimensions. This is done if it moves fewer bytes than gathering the keys: with n ranks and one type of
 * 32 or 64 bits, if s (f + 2) < t (e + f) / n. Otherwise keys are gathered. */
WEFT_API weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                     const weft_attention_options *options);

/** The same, with the log-sums, [..., s], which the gradients need: the logarithm of each row's sum of e^score
 * (PyTorch's logsumexp). WEFT_F64 for WEFT_F64, else WEFT_F32; infinite for a row that sees no key.
 * WEFT_ERR_UNSUPPORTED with `dropout`.
 * \param log_sums  gets them, NULL on error; may be NULL */
WEFT_API weft_tensor *weft_attention_with_log_sums(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                                   const weft_attention_options *options,
                                                   weft_tensor **log_sums);

WEFT_END_DECLS

#endif
