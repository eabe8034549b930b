/** \file
 * Operations that move elements and compute nothing: other shapes, other orders, parts of a tensor, joined tensors.
 * They take all types. Partial tensors pass through all of them unreduced (through weft_cat() if all are Partial in
 * the same way). Results are values: writing to one never shows in its inputs, whether they share memory or not. A
 * negative dimension counts from the end.
 *
 * A dimension that is sliced, reversed, rolled or concatenated may be sharded, and the result is sharded along it as
 * well. Only elements that change their rank are moved (with a step, also those in between).
 *
 * weft_squeeze(), weft_transpose(), weft_movedim() and weft_flip() accept dimension 0 and -1 of a
 * scalar, which stays as it is. Besides the errors of all operations, WEFT_ERR_INVALID if a dimension is out of range
 * or occurs twice. The comments name the operation that computes the gradient of a from `gradient`, the gradient of
 * the result. */
#ifndef WEFT_SHAPES_H
#define WEFT_SHAPES_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Returns the same elements in row-major order with another shape. One size may be -1; it follows from the others. Each
 * rank keeps its elements if there is a cut that says which they are (placement.h), and the result shares memory with `a` if possible:
 * [b, s] in S1 becomes [b s] in S0%s. If there is none, a is redistributed first.
 *
 * Gradient: weft_reshape() to the shape of a. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[]);
/** Joins dimensions first .. last into one. A scalar becomes [1]. */
WEFT_API weft_tensor *weft_flatten(weft_tensor *a, int first, int last);
/** Splits one dimension into num_sizes dimensions, at least one. One size may be -1. */
WEFT_API weft_tensor *weft_unflatten(weft_tensor *a, int dim, int num_sizes, const int64_t sizes[]);

/** Removes a dimension if its size is 1, or with WEFT_ALL_DIMS all such dimensions. The result shares memory with `a`
 * if possible. Gradient: weft_reshape() to the shape of a. */
WEFT_API weft_tensor *weft_squeeze(weft_tensor *a, int dim);
/** Inserts a dimension of size 1 before dimension `dim`, -(ndim + 1) .. ndim. Gradient: weft_squeeze(gradient, dim). */
WEFT_API weft_tensor *weft_unsqueeze(weft_tensor *a, int dim);

/** Exchanges two dimensions. Gradient: the same function applied to `gradient`. */
WEFT_API weft_tensor *weft_transpose(weft_tensor *a, int dim0, int dim1);
/** Permutes dimensions: dimension i of the result is dimension dims[i] of a. ndim is that of a. Gradient:
 * weft_permute() with the inverse, inverse[dims[i]] = i. */
WEFT_API weft_tensor *weft_permute(weft_tensor *a, int ndim, const int dims[]);
/** Moves each dimension from[i] to position to[i]; the others keep their order. 0 <= num <= ndim. Gradient:
 * weft_movedim(gradient, num, to, from). */
WEFT_API weft_tensor *weft_movedim(weft_tensor *a, int num, const int from[], const int to[]);

/** Repeats dimensions of size 1 to the sizes in `shape`, and adds leading dimensions; -1 keeps a size. Unlike
 * PyTorch's expand, this copies. If nothing else decides, the copies are sharded along a repeated dimension.
 * WEFT_ERR_SHAPE if a size of a is neither 1 nor the requested one. Gradient: weft_sum_to(gradient, a's shape). */
WEFT_API weft_tensor *weft_expand(weft_tensor *a, int ndim, const int64_t shape[]);
/** Sums over the repetitions that weft_expand() makes from `shape` to a's shape. Integers give WEFT_I64, as in
 * weft_sum(). If there are no repetitions, the result is a itself. Gradient: weft_expand() to the shape of a. */
WEFT_API weft_tensor *weft_sum_to(weft_tensor *a, int ndim, const int64_t shape[]);

/** Slices a dimension: elements start, start + step, ... before `stop`, as Python's a[start:stop:step]. Negative
 * indices count from the end, and indices out of range are clamped. step is at least 1. Consecutive rows (dimension
 * 0) share memory if possible.
 *
 *     weft_slice(a, 0, 0, -1, 2); */
WEFT_API weft_tensor *weft_slice(weft_tensor *a, int dim, int64_t start, int64_t stop, int64_t step);
/** Selects one index of a dimension, and removes the dimension. A negative index counts from the end; WEFT_ERR_INVALID
 * if it is out of range. Along a sharded dimension only this index is sent. */
WEFT_API weft_tensor *weft_select(weft_tensor *a, int dim, int64_t index);

/** Reverses the order of these dimensions. Gradient: the same function applied to `gradient`. */
WEFT_API weft_tensor *weft_flip(weft_tensor *a, int num_dims, const int dims[]);
/** Moves index i to i + shift, cyclically. Gradient: weft_roll(gradient, -shift, dim). */
WEFT_API weft_tensor *weft_roll(weft_tensor *a, int64_t shift, int dim);

/** Which values surround a padded tensor. The examples pad [1, 2, 3] by two elements on each side. */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT = 0, /**< a value: v v 1 2 3 v v */
    WEFT_PAD_REFLECT,      /**< mirrored, without the edge: 3 2 1 2 3 2 1; fewer elements than the dimension has */
    WEFT_PAD_REPLICATE,    /**< the edge: 1 1 1 2 3 3 3 */
    WEFT_PAD_CIRCULAR      /**< from the other end: 2 3 1 2 3 1 2; at most as many elements as the dimension has */
} weft_pad_mode;

/** Adds before[d] and after[d] elements at the two ends of each dimension d; ndim is that of a. With WEFT_PAD_CONSTANT
 * the new elements are `value`, which a's type must be able to represent. The numbers may then be negative, which
 * cuts off that many elements. The other modes ignore `value`, and pad one dimension after the other.
 * WEFT_ERR_INVALID if a number is not possible. Along a sharded dimension only elements that change their rank move.
 * Gradient for constants: weft_pad() by the negative numbers.
 *
 *     weft_pad(a, WEFT_PAD_CONSTANT, 0, 2, (int64_t[]){ 1, 1 }, (int64_t[]){ 1, 1 }); */
WEFT_API weft_tensor *weft_pad(weft_tensor *a, weft_pad_mode mode, weft_scalar value, int ndim,
                               const int64_t before[], const int64_t after[]);

/** Returns the elements [i, i + offset] of two dimensions (if offset < 0: [i - offset, i]). They become the last
 * dimension of the result, after the other dimensions. weft_trace() returns the sum of a matrix's diagonal (offset
 * 0); integers give WEFT_I64. WEFT_ERR_INVALID if the dimensions are equal; WEFT_ERR_SHAPE if weft_trace() gets
 * anything but a matrix. \{ */
WEFT_API weft_tensor *weft_diagonal(weft_tensor *a, int64_t offset, int dim1, int dim2);
WEFT_API weft_tensor *weft_trace(weft_tensor *a);
/** \} */

/** Concatenates n >= 1 tensors along a dimension that all of them have. All other sizes must be equal. Types are
 * promoted as in weft_add(). As in PyTorch, tensors of shape [0] fit any others. The result is Partial if all tensors
 * are Partial in the same way, and sharded as they are if they agree; otherwise it gets the layout that moves least.
 * Gradient of each: weft_slice(). */
WEFT_API weft_tensor *weft_cat(int n, weft_tensor *const tensors[], int dim);
/** Joins tensors of one shape along a new dimension, -(ndim + 1) .. ndim. Gradient of each: weft_select(). */
WEFT_API weft_tensor *weft_stack(int n, weft_tensor *const tensors[], int dim);
/** Splits a dimension into n >= 1 pieces of these sizes, outputs[0 .. n - 1]. The sizes must add up to the
 * dimension's. After an error all outputs are NULL. Pieces of a sharded dimension are sharded along it, unless one
 * has fewer indices than there are shards; then another dimension is sharded, or none. Gradient of a: weft_cat().
 *
 *     weft_split(a, 2, (int64_t[]){ 3, 5 }, 0, outputs); */
WEFT_API weft_status weft_split(weft_tensor *a, int n, const int64_t sizes[], int dim,
                                weft_tensor *outputs[]);
/** Splits a dimension into equal pieces as torch.chunk() does. The last piece may be smaller, and there may be fewer
 * than `chunks`. `outputs` must have room for `chunks`. Returns the number of pieces; 0 after an error. */
WEFT_API int weft_chunk(weft_tensor *a, int chunks, int dim, weft_tensor *outputs[]);

/** Return the lower (weft_tril) or upper (weft_triu) triangle of the last two dimensions: elements with column - row
 * <= diagonal, or >= diagonal; zeros elsewhere. Gradient: the same function applied to `gradient`. \{ */
WEFT_API weft_tensor *weft_tril(weft_tensor *a, int64_t diagonal);
WEFT_API weft_tensor *weft_triu(weft_tensor *a, int64_t diagonal);
/** \} */

#ifndef __cplusplus
/* Numbers of any type (::weft_scalar). */
#define weft_pad(a, mode, value, ...) weft_pad(a, mode, WEFT_SCALAR(value), __VA_ARGS__)
#endif

WEFT_END_DECLS

#endif
