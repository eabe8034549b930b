/** \file
 * Indices and orders: look-ups, scattered sums, cumulative sums, sorting, comparing whole tensors.
 *
 * A negative `dim` counts from the end. A scalar accepts dim 0 and -1, as if it were a vector of one element. Then
 * the result is a scalar, and `indices` and `source` may be scalars or vectors. (weft_gather() returns the shape of
 * indices, weft_index_select() takes one index, and weft_topk() returns a scalar even if k is 0.) Besides the errors
 * of all operations, WEFT_ERR_INVALID if a dimension is out of range.
 *
 * Indices are WEFT_I64 or WEFT_I32. An index outside 0 .. size - 1 (negative ones are outside) gives 0, or adds
 * nothing. The next blocking call then returns WEFT_ERR_INVALID, once for each call, on the processes that compute a
 * part of the result from the index. If the result has no elements, it does so on all processes that host a rank. */
#ifndef WEFT_INDEXING_H
#define WEFT_INDEXING_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Return the index of the largest, or smallest, value: WEFT_I64, the first one among equals. NaN counts as the
 * largest, and as the smallest. The search is over one dimension, or with WEFT_ALL_DIMS over all (then the index is
 * row-major). With keepdim, reduced dimensions are kept with size 1. The result is the same on every layout.
 * WEFT_ERR_SHAPE if there are no elements. \{ */
WEFT_API weft_tensor *weft_argmax(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_argmin(weft_tensor *a, int dim, bool keepdim);
/** \} */

/**
 * Return the largest, or smallest, values together with their indices, as PyTorch's max(dim). One task computes both,
 * unless the dimension is sharded.
 *
 * \param indices  NULL, or receives the indices: those of weft_argmax() and weft_argmin(); NULL on error
 * \return the values: those of weft_max() and weft_min() \{
 */
WEFT_API weft_tensor *weft_max_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);
WEFT_API weft_tensor *weft_min_with_indices(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);
/** \} */

/** Cumulative sums and products: element k is the sum, or product, of elements 0 .. k along `dim`. Integers and truth
 * values give WEFT_I64, which wraps around. Floating types are computed in double precision and rounded once for each
 * element. \{ */
WEFT_API weft_tensor *weft_cumsum(weft_tensor *a, int dim);
WEFT_API weft_tensor *weft_cumprod(weft_tensor *a, int dim);
/** \} */

/**
 * Cumulative maximum and minimum: element k is the largest, or smallest, of elements 0 .. k along `dim`. It is the
 * last one among equals, and NaN from the first NaN on.
 *
 * \param indices  NULL, or receives their indices along `dim`, WEFT_I64; NULL on error \{
 */
WEFT_API weft_tensor *weft_cummax(weft_tensor *a, int dim, weft_tensor **indices);
WEFT_API weft_tensor *weft_cummin(weft_tensor *a, int dim, weft_tensor **indices);
/** \} */

/** Selects slices of `a` along `dim` by `indices` [n]. The result has the shape of a, with n as the size of dim. If
 * dim is sharded, each rank looks up its own part, and the result is Partial. */
WEFT_API weft_tensor *weft_index_select(weft_tensor *a, int dim, weft_tensor *indices);
/** Gathers elements of `a`: result[i][j][k] = a[i][indices[i][j][k]][k] for dim 1. `indices` has the shape of a except
 * for its size in dim, and the result has the shape of indices. */
WEFT_API weft_tensor *weft_gather(weft_tensor *a, int dim, weft_tensor *indices);

/**
 * Adds elements of `source` to elements of `a`: result[i][indices[i][j][k]][k] += source[i][j][k] for dim 1. `source`
 * and `indices` have the same shape, that of a except for its size in dim; `source` has the type of a. Addends of one
 * element are added in index order, shard by shard along a sharded dimension, and their sum is added to a's element.
 * 16-bit types are rounded once. The *_inplace function modifies `a` itself, which must not be Partial
 * (WEFT_ERR_LAYOUT). \{
 */
WEFT_API weft_tensor *weft_scatter_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_scatter_add_inplace(weft_tensor *a, int dim, weft_tensor *indices,
                                               weft_tensor *source);
/** \} */

/** The same with `indices` [n], each of which is for a whole slice of `source` along dim: result[:][indices[j]][:] +=
 * source[:][j][:] for dim 1. \{ */
WEFT_API weft_tensor *weft_index_add(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_index_add_inplace(weft_tensor *a, int dim, weft_tensor *indices,
                                             weft_tensor *source);
/** \} */

/**
 * Replaces elements of `a`: result[i][indices[i][j][k]][k] = source[i][j][k] for dim 1, or = value. Shapes and types
 * as in weft_scatter_add(). If several elements of `source` are for one element, the last one along `dim` wins, on
 * every layout; the gradient of the others is 0. \{
 */
WEFT_API weft_tensor *weft_scatter(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_scatter_scalar(weft_tensor *a, int dim, weft_tensor *indices, weft_scalar value);
/** \} */
/** The same with `indices` [n], each of which is for a whole slice: result[:][indices[j]][:] = source[:][j][:] for dim
 * 1. \{ */
WEFT_API weft_tensor *weft_index_copy(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source);
WEFT_API weft_tensor *weft_index_fill(weft_tensor *a, int dim, weft_tensor *indices, weft_scalar value);
/** \} */

/**
 * Replaces elements of `a`, as PyTorch's a[indices[0], indices[1], ...] = values. There is one index tensor for each
 * of a's first num_indices dimensions (at most 5), and they broadcast together. The elements that they choose have
 * that shape, followed by a's other dimensions. `values` has a's type and is broadcast to it. If several values are
 * for one element, the last one in row-major order of the indices wins; with `accumulate` all are added to a's
 * element. An index out of range is reported as -1.
 *
 *     weft_index_put(a, 2, (weft_tensor *[]){ rows, columns }, values, false);
 */
WEFT_API weft_tensor *weft_index_put(weft_tensor *a, int num_indices, weft_tensor *const indices[], weft_tensor *values,
                                     bool accumulate);

/** Select elements whose number depends on values, in row-major order. Every process must call these functions. Each
 * BLOCKS until the number is known. The truth values are gathered on each rank, other values are not. WEFT_ERR_STATE
 * for tensors without data. \{ */
/** Returns the indices of the elements that are not 0 (NaN is not 0): WEFT_I64 [n, dimensions of a]. */
WEFT_API weft_tensor *weft_nonzero(weft_tensor *a);
/** Returns the elements [n] of a for which `mask` (WEFT_BOOL) is true. The two broadcast. */
WEFT_API weft_tensor *weft_masked_select(weft_tensor *a, weft_tensor *mask);
/** \} */

/**
 * Combines each element of `a` with the elements of `source` that belong to it, as in weft_scatter_add(). The result
 * is their sum (WEFT_SUM), mean (WEFT_AVG; integers are rounded down), product, minimum or maximum (which is NaN if
 * one of them is NaN). Without `include_self` the element of `a` counts only if no other element belongs to it. Order
 * and rounding are as in weft_scatter_add(). In gradients, elements that equal the minimum or maximum share its
 * gradient. WEFT_ERR_DTYPE for truth values.
 *
 *     weft_scatter_reduce(a, 0, indices, source, WEFT_MAX, true);
 */
WEFT_API weft_tensor *weft_scatter_reduce(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source,
                                          weft_reduce_op reduction, bool include_self);

/** Sums segments: [n, ...] becomes [num_segments, ...]. Row i is the sum of the rows of `a` whose index is i, in index
 * order. `indices` is [n]. 16-bit types are rounded once. */
WEFT_API weft_tensor *weft_segment_sum(weft_tensor *a, weft_tensor *indices, int64_t num_segments);

/** Counts how often each index occurs: [n] becomes [num_bins], WEFT_I64. With `weights` [n], which may be NULL, the
 * result is the sum of the weights, in their type. You pass num_bins because the call would have to wait for a size
 * that depends on values. */
WEFT_API weft_tensor *weft_bincount(weft_tensor *indices, weft_tensor *weights, int64_t num_bins);

/** Counts the elements of `a`, of any shape, in equal intervals from `low` to `high`: [num_bins], WEFT_I64. An
 * interval includes its lower bound, and the last one its upper bound too. Elements outside, and NaN, are not
 * counted. Computed in double precision. WEFT_ERR_INVALID unless low and high are finite and low < high. */
WEFT_API weft_tensor *weft_histogram(weft_tensor *a, int64_t num_bins, double low, double high);

/** Returns 1 at the index and 0 elsewhere: [...] becomes [..., num_classes], WEFT_I64. num_classes is at least 0. */
WEFT_API weft_tensor *weft_one_hot(weft_tensor *indices, int64_t num_classes);

/**
 * Sort along `dim`, stable, ascending or descending; NaN counts as the largest value. `*indices` receives the index of each value, WEFT_I64,
 * as a second new tensor; NULL on error. `indices` may be NULL. weft_argsort() returns only the indices. A sharded dimension is gathered first,
 * and the results are replicated along it. But a vector of 65,536 elements or more is sorted in its shards: the results have its layout, and
 * the call BLOCKS for the borders between them. In captured graphs, in predictions, without data and with devices it is gathered as well
 * (docs/tensors.md, "Sorting"): weft_redistribute() the results where later calls need one layout. WEFT_ERR_LAYOUT in a strict region
 * that elements would have to move in. \{
 */
WEFT_API weft_tensor *weft_sort(weft_tensor *a, int dim, bool descending, weft_tensor **indices);
WEFT_API weft_tensor *weft_argsort(weft_tensor *a, int dim, bool descending);
/** \} */

/** Returns the k largest values along `dim`, or the smallest unless `largest` is true. They are sorted as in
 * weft_sort(), and the first among equals is chosen. `indices` as in weft_sort(). WEFT_ERR_INVALID unless k is
 * between 0 and the size of dim.
 *
 *     values = weft_topk(a, 5, -1, true, &indices); */
WEFT_API weft_tensor *weft_topk(weft_tensor *a, int64_t k, int dim, bool largest, weft_tensor **indices);

/** Compare whole tensors. BLOCKS; every process must call it. All processes get the same result, even those without a
 * rank of the mesh. If replicas differ between processes, the tensors are equal, or close, only if they are so on
 * each process.
 *
 * weft_equal() compares values exactly; NaN is not equal to itself. weft_allclose() tests |a - b| <= atol + rtol |b|
 * for all elements. Infinities are close only to themselves; NaN is close to NaN if equal_nan is set. Tensors of
 * different shapes or types are neither equal nor close.
 *
 * *result is set if the status is WEFT_OK. WEFT_ERR_INVALID if a tolerance is negative; WEFT_ERR_MESH if the tensors
 * are on different meshes (weft_redistribute() one of them); WEFT_ERR_STATE if the program has acquired a shard of
 * one (weft_local_acquire()).
 *
 *     weft_allclose(a, b, 1e-5, 1e-8, false, &close);
 *
 * \{ */
WEFT_API weft_status weft_equal(weft_tensor *a, weft_tensor *b, bool *result);
WEFT_API weft_status weft_allclose(weft_tensor *a, weft_tensor *b, double rtol, double atol, bool equal_nan,
                                   bool *result);
/** \} */

#ifndef __cplusplus
/* Numbers of any type (::weft_scalar). */
#define weft_scatter_scalar(a, dim, indices, value) weft_scatter_scalar(a, dim, indices, WEFT_SCALAR(value))
#define weft_index_fill(a, dim, indices, value) weft_index_fill(a, dim, indices, WEFT_SCALAR(value))
#endif

WEFT_END_DECLS

#endif
