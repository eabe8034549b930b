/** \file
 * Indices and orders: look-ups, scattered sums, cumulative sums, sorting, comparing whole tensors. `dim` may
 * be negative: it then counts from the end. A scalar takes dim 0 and -1, as a vector of one element; the result is a
 * scalar, and `indices` and `source` beside it are scalars or vectors (weft_gather() gives the shape of indices,
 * weft_index_select() takes one index, weft_topk() gives the scalar for k = 0 too). Errors, beside those of all
 * operations: WEFT_ERR_INVALID for a dimension that is out of range.
 *
 * Indices are WEFT_I64 or WEFT_I32. An index outside 0 .. size - 1 (negative ones are outside) gives 0, or
 * adds nothing, and the next blocking call returns WEFT_ERR_INVALID, once for each call: on processes that
 * compute a part of the result from it; if the result has no elements, on all processes that host a rank. */
#ifndef WEFT_INDEXING_H
#define WEFT_INDEXING_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The index of the largest, and of the smallest, value: WEFT_I64, the first one among equals; NaN is the
 * largest, and the smallest. Over one dimension, or with WEFT_ALL_DIMS over all (row-major index);
 * keepdim: reduced dimensions are kept with size 1. The same on every layout. WEFT_ERR_SHAPE without
 * elements. \{ */
WEFT_API weft_tensor *weft_argmax(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_argmin(weft_tensor *a, int dim, bool keepdim);
/** \} */

/**
 * The values with their indices, as PyTorch's max(dim): from one task, unless the dimension is sharded.
 * \param indices  NULL, or gets the indices: those of weft_argmax() and weft_argmin(); NULL on error
 * \return the values: those of weft_max() and weft_min() \{
 */
WEFT_API weft_tensor *weft_max_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);
WEFT_API weft_tensor *weft_min_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);
/** \} */

/** Element k is the sum, or product, of elements 0 .. k along `dim`. Of integers and truth values WEFT_I64,
 * which wraps around. Floating types are computed in double precision and rounded once for each element. \{
 */
WEFT_API weft_tensor *weft_cumsum(weft_tensor *a, int dim);
WEFT_API weft_tensor *weft_cumprod(weft_tensor *a, int dim);
/** \} */

/**
 * Element k is the largest, or smallest, of elements 0 .. k along `dim`: the last one among equals, NaN once there is one.
 * \param indices  NULL, or gets their indices along `dim`, WEFT_I64; NULL on error \{
 */
WEFT_API weft_tensor *weft_cummax(weft_tensor *a, int dim, weft_tensor **indices);
WEFT_API weft_tensor *weft_cummin(weft_tensor *a, int dim, weft_tensor **indices);
/** \} */

/** Slices of `a` along `dim` at the positions `indices` [n]: the shape of a, with n in place of the size
 * of dim. If dim is sharded, each rank looks up its own part, and the result is Partial. */
WEFT_API weft_tensor *weft_index_select(weft_tensor *a, int dim, weft_tensor *indices);
/** Elements of `a`: result[i][j][k] = a[i][indices[i][j][k]][k] for dim 1. `indices` has the shape of a but
 * for its size in dim, and the result that of indices. */
WEFT_API weft_tensor *weft_gather(weft_tensor *a, int dim, weft_tensor *indices);

/**
 * `a` with elements of `source` added: result[i][indices[i][j][k]][k] += source[i][j][k] for dim 1. `source`
 * and `indices` have one shape, that of a but for its size in dim; `source` has the type of a. Addends of one
 * element are added in index order, shard by shard along a sharded dimension, and their sum is added to a's
 * element; 16-bit types are rounded once. *_inplace: into `a` itself, which must not be Partial
 * (WEFT_ERR_LAYOUT). \{
 */
WEFT_API weft_tensor *weft_scatter_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_scatter_add_inplace(weft_tensor *a, int dim, weft_tensor *indices,
                                               weft_tensor *source);
/** \} */

/** The same with `indices` [n], each for a whole slice of `source` along dim: result[:][indices[j]][:] +=
 * source[:][j][:] for dim 1. \{ */
WEFT_API weft_tensor *weft_index_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_index_add_inplace(weft_tensor *a, int dim, weft_tensor *indices,
                                             weft_tensor *source);
/** \} */

/**
 * `a` with elements that take others' places: result[i][indices[i][j][k]][k] = source[i][j][k] for dim 1, or = value.
 * Shapes and types as of weft_scatter_add(). The last of several for one element, along `dim`, wins, on every layout;
 * the gradient of the others is 0. \{
 */
WEFT_API weft_tensor *weft_scatter(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_scatter_scalar(weft_tensor *a, int dim, weft_tensor *indices, double value);
/** \} */
/** The same with `indices` [n], each for a whole slice: result[:][indices[j]][:] = source[:][j][:] for dim 1. \{ */
WEFT_API weft_tensor *weft_index_copy(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_index_fill(weft_tensor *a, int dim, weft_tensor *indices, double value);
/** \} */

/**
 * `a` with elements in the places of others, as PyTorch's a[indices[0], indices[1], ...] = values. Index tensors, one for each
 * of a's first num_indices dimensions (at most 5), broadcast together; the elements that they choose have that shape and then
 * a's other dimensions. `values` of a's type broadcast to it. The last of several for one element, in row-major order of the
 * indices, wins; accumulate: all are added to a's element. An index out of range is reported as -1.
 */
WEFT_API weft_tensor *weft_index_put(weft_tensor *a, int num_indices, weft_tensor *const indices[], weft_tensor *values,
                                     bool accumulate);

/** Elements whose number depends on values, in row-major order. BLOCKS until the number is known, every process must call it.
 * The truth values are gathered on each rank, others are not. Not with tensors without data (WEFT_ERR_STATE). \{ */
/** The indices of elements that are not 0 (NaN is not): WEFT_I64 [n, dimensions of a]. */
WEFT_API weft_tensor *weft_nonzero(weft_tensor *a);
/** The elements [n] of a where `mask` (WEFT_BOOL) holds; the two broadcast. */
WEFT_API weft_tensor *weft_masked_select(weft_tensor *a, weft_tensor *mask);
/** \} */

/**
 * Each element of `a` combined with the elements of `source` that belong to it, as in weft_scatter_add(): their sum
 * (WEFT_SUM), mean (WEFT_AVG; of integers rounded down), product, minimum or maximum, which is NaN where one of them
 * is. Without `include_self` the element of `a` counts only where no other belongs to it. Order and rounding as of
 * weft_scatter_add(). Gradients: equal elements share that of their extreme. WEFT_ERR_DTYPE for truth values.
 */
WEFT_API weft_tensor *weft_scatter_reduce(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source,
                                          weft_reduce_op reduction, bool include_self);

/** [n, ...] to [num_segments, ...]: row i is the sum of the rows of `a` whose index is i, in index order; `indices` [n].
 * 16-bit types are rounded once. */
WEFT_API weft_tensor *weft_segment_sum(weft_tensor *a, weft_tensor *indices, int64_t num_segments);

/** [n] to [num_bins]: how often each index occurs, WEFT_I64; with `weights` [n] the sum of their weights, of their
 * type. weights: may be NULL. num_bins is given, for a size that depends on values would have to be waited for. */
WEFT_API weft_tensor *weft_bincount(weft_tensor *indices, weft_tensor *weights, int64_t num_bins);

/** [num_bins], WEFT_I64: numbers of elements of `a`, of any shape, in equal intervals from `low` to `high`. An interval
 * has its lower bound, the last one its upper bound too. Elements outside, and NaN, are not counted. Computed in
 * double precision. WEFT_ERR_INVALID unless low and high are finite and low < high. */
WEFT_API weft_tensor *weft_histogram(weft_tensor *a, int64_t num_bins, double low, double high);

/** [...] to [..., num_classes], WEFT_I64: 1 at the index, 0 elsewhere. num_classes is at least 0. */
WEFT_API weft_tensor *weft_one_hot(weft_tensor *indices, int64_t num_classes);

/**
 * Sorted along `dim`, which is gathered first if it is sharded: ascending, or descending. Stable; NaN counts as
 * the largest. `*indices`, if not NULL, gets the index of each value, WEFT_I64, a second new tensor; NULL on
 * error. weft_argsort: only the indices. \{
 */
WEFT_API weft_tensor *weft_sort(weft_tensor *a, int dim, bool descending, weft_tensor **indices);
WEFT_API weft_tensor *weft_argsort(weft_tensor *a, int dim, bool descending);
/** \} */

/** The k largest values along `dim`, or the smallest unless `largest`, sorted as weft_sort() does; the first
 * among equals. WEFT_ERR_INVALID unless k is 0 to the size of dim. */
WEFT_API weft_tensor *weft_topk(weft_tensor *a, int64_t k, int dim, bool largest, weft_tensor **indices);

/** Compares whole tensors. BLOCKS, every process must call it; the same result on all, also on those
 * without a rank of the mesh, and where replicas differ between processes: then the tensors are equal, or close, if they are
 * so on each process. weft_equal: equal values, NaN is not equal to itself. weft_allclose: |a -
 * b| <= atol + rtol |b| for all elements (infinities are close only to themselves; NaN is close to NaN
 * with equal_nan). Tensors of different shapes or types are neither equal nor close. *result is set if
 * the status is WEFT_OK. WEFT_ERR_INVALID for a negative tolerance; WEFT_ERR_MESH for tensors of
 * different meshes (weft_redistribute() one of them); WEFT_ERR_STATE while weft_local_acquire() holds a
 * shard of one. \{ */
WEFT_API weft_status weft_equal(weft_tensor *a, weft_tensor *b, bool *result);
WEFT_API weft_status weft_allclose(weft_tensor *a, weft_tensor *b, double rtol, double atol, bool equal_nan,
                                   bool *result);
/** \} */

WEFT_END_DECLS

#endif
