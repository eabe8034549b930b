/** \file
 * Operations that move elements and compute nothing: other shapes, other orders, parts of a tensor, tensors
 * joined. All types. Partial tensors pass through all of them unreduced (through weft_cat() if all are
 * Partial alike). Results are values: writing to one never shows in its inputs, whether memory is shared or
 * not. A negative dimension counts from the end.
 *
 * A dimension that is sliced, reversed, rolled or concatenated may be sharded, and the result is sharded
 * along it as well: only elements that change their rank are moved (with a step, also those in between).
 *
 * weft_squeeze(), weft_transpose(), weft_movedim(), weft_movedims() and weft_flip() take dimension 0 and -1 of a scalar, which
 * stays as it is. Errors, beside those of all operations: WEFT_ERR_INVALID for a dimension that is out of range or named
 * twice. The comments name the operation that computes the gradient of a from `gradient`, the result's. */
#ifndef WEFT_SHAPES_H
#define WEFT_SHAPES_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The same elements in row-major order with another shape; one size may be -1 and follows from the
 * others. A sharded dimension stays sharded if each rank keeps its elements. Shares the memory if it can.
 * Gradient: weft_reshape() to the shape of a. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[]);
/** Dimensions first .. last become one; a scalar becomes [1]. */
WEFT_API weft_tensor *weft_flatten(weft_tensor *a, int first, int last);
/** One dimension becomes num_sizes dimensions, at least one; one size may be -1. */
WEFT_API weft_tensor *weft_unflatten(weft_tensor *a, int dim, int num_sizes, const int64_t sizes[]);

/** Removes a dimension of size 1 (a dimension of another size stays), or with WEFT_ALL_DIMS all of them. Shares the
 * memory if it can. Gradient: weft_reshape() to the shape of a. */
WEFT_API weft_tensor *weft_squeeze(weft_tensor *a, int dim);
/** A new dimension of size 1 before dimension `dim`, -(ndim + 1) .. ndim. Gradient: weft_squeeze(gradient,
 * dim). */
WEFT_API weft_tensor *weft_unsqueeze(weft_tensor *a, int dim);

/** Exchanges two dimensions. Gradient: the same of `gradient`. */
WEFT_API weft_tensor *weft_transpose(weft_tensor *a, int dim0, int dim1);
/** Dimension i of the result is dimension dims[i] of a; ndim is that of a.
 * Gradient: weft_permute() with the inverse, inverse[dims[i]] = i. */
WEFT_API weft_tensor *weft_permute(weft_tensor *a, int ndim, const int dims[]);
/** Dimension `from` becomes dimension `to`, the others keep their order. Gradient: weft_movedim(gradient, to,
 * from). */
WEFT_API weft_tensor *weft_movedim(weft_tensor *a, int from, int to);

/** Each dimension from[i] becomes dimension to[i], the others keep their order: 0 <= num <= ndim. Gradient:
 * weft_movedims(gradient, num, to, from). */
WEFT_API weft_tensor *weft_movedims(weft_tensor *a, int num, const int from[], const int to[]);

/** Repeats dimensions of size 1 to the sizes in `shape`, and adds leading ones; -1 keeps a size. Unlike
 * PyTorch's, this copies; if nothing else decides, the copies are sharded along a repeated dimension.
 * WEFT_ERR_SHAPE if a has another size than 1. Gradient: weft_sum_to(gradient, a's shape). */
WEFT_API weft_tensor *weft_expand(weft_tensor *a, int ndim, const int64_t shape[]);
/** The sum over the repetitions that weft_expand() makes from `shape` to a's shape; of integers WEFT_I64,
 * as in weft_sum(). Without repetitions, a itself. Gradient: weft_expand() to the shape of a. */
WEFT_API weft_tensor *weft_sum_to(weft_tensor *a, int ndim, const int64_t shape[]);

/** Elements start, start + step, ... before `stop` of a dimension, as Python's a[start:stop:step]:
 * negative indices count from the end, indices out of range are clamped. step is at least 1. Consecutive
 * rows (dimension 0) share memory if possible. \{ */
WEFT_API weft_tensor *weft_slice(weft_tensor *a, int dim, int64_t start, int64_t stop);
WEFT_API weft_tensor *weft_slice_step(weft_tensor *a, int dim, int64_t start, int64_t stop, int64_t step);
/** \} */
/** One index of a dimension, which is removed; a negative index counts from the end. WEFT_ERR_INVALID if
 * it is out of range. Along a sharded dimension only this index is sent. */
WEFT_API weft_tensor *weft_select(weft_tensor *a, int dim, int64_t index);

/** The order of these dimensions reversed. Gradient: the same of `gradient`. */
WEFT_API weft_tensor *weft_flip(weft_tensor *a, int num_dims, const int dims[]);
/** Index i moves to i + shift, cyclically. Gradient: weft_roll(gradient, -shift, dim). */
WEFT_API weft_tensor *weft_roll(weft_tensor *a, int64_t shift, int dim);

/** Values around a padded tensor: of [1, 2, 3] with two elements before and behind. */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT = 0, /**< a value: v v 1 2 3 v v */
    WEFT_PAD_REFLECT,      /**< mirrored, without the edge: 3 2 1 2 3 2 1; less elements than the dimension has */
    WEFT_PAD_REPLICATE,    /**< the edge: 1 1 1 2 3 3 3 */
    WEFT_PAD_CIRCULAR      /**< from the other end: 2 3 1 2 3 1 2; at most as many elements as the dimension has */
} weft_pad_mode;

/** Adds before[d] and after[d] elements to both ends of each dimension d; ndim is that of a. With WEFT_PAD_CONSTANT they
 * have `value`, which a's type must represent, and may be negative: so many are cut off. The other modes ignore `value`,
 * and pad one dimension after the other. WEFT_ERR_INVALID for a number that is not possible. Along a
 * sharded dimension only elements that change their rank move. Gradient of constants: weft_pad() by the
 * negative numbers. */
WEFT_API weft_tensor *weft_pad(weft_tensor *a, int ndim, const int64_t before[], const int64_t after[],
                               weft_pad_mode mode, double value);

/** The elements [i, i + offset] of two dimensions (offset < 0: [i - offset, i]), as the last dimension of the result,
 * behind the others. weft_trace: their sum, offset 0, of a matrix; of integers WEFT_I64. WEFT_ERR_INVALID for equal
 * dimensions; WEFT_ERR_SHAPE for the trace of no matrix. \{ */
WEFT_API weft_tensor *weft_diagonal(weft_tensor *a, int64_t offset, int dim1, int dim2);
WEFT_API weft_tensor *weft_trace(weft_tensor *a);
/** \} */

/** Concatenates along a dimension that all tensors have, n at least 1; all other sizes must be equal.
 * Types are promoted as in weft_add(). As in PyTorch, tensors of shape [0] fit any others. The result is
 * Partial if all are, alike, and sharded as they are if they agree; otherwise the layout that moves
 * least. Gradient of each: weft_slice(). */
WEFT_API weft_tensor *weft_cat(int n, weft_tensor *const tensors[], int dim);
/** Along a new dimension, -(ndim + 1) .. ndim: tensors of one shape. Gradient of each: weft_select(). */
WEFT_API weft_tensor *weft_stack(int n, weft_tensor *const tensors[], int dim);
/** Pieces of these sizes along a dimension, n at least 1, into outputs[0 .. n - 1]; the sizes must add up
 * to the dimension's. After an error all outputs are NULL. Pieces of a sharded dimension are sharded
 * along it, unless one has fewer indices than there are shards: then another dimension is sharded, or
 * none. Gradient of a: weft_cat(). */
WEFT_API weft_status weft_split(weft_tensor *a, int n, const int64_t sizes[], int dim,
                                weft_tensor *outputs[]);
/** Equal pieces, the last one perhaps smaller, as torch.chunk() makes them: perhaps fewer than `chunks`, for
 * which outputs has room. Returns how many; 0 after an error. */
WEFT_API int weft_chunk(weft_tensor *a, int chunks, int dim, weft_tensor *outputs[]);

/** The lower (weft_tril) or upper (weft_triu) triangle of the last two dimensions: elements with column -
 * row <= diagonal, or >= diagonal; zeros elsewhere. Gradient: the same function of `gradient`. \{ */
WEFT_API weft_tensor *weft_tril(weft_tensor *a, int64_t diagonal);
WEFT_API weft_tensor *weft_triu(weft_tensor *a, int64_t diagonal);
/** \} */

WEFT_END_DECLS

#endif
