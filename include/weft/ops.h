/** \file
 * Operations. Each takes tensors of any layout on one mesh, moves inputs where their layouts do not fit
 * together, and returns a new tensor at once (functions named *_ change their first argument and return it).
 * Types must agree and be WEFT_F32 or WEFT_F64, unless said otherwise. Errors: NULL, with WEFT_ERR_INVALID,
 * WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, or WEFT_ERR_MESH for tensors of different meshes (weft_redistribute() one
 * of them).
 *
 * Scalars of other meshes are replicated on the others' mesh by themselves: tensors without dimensions, and
 * those with dimensions and one element, of which the first process warns on standard error, once for each
 * operation (WEFT_SILENT=1: never). The result is on the mesh of the first tensor of another number of
 * elements than one (in place: of the target).
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <weft/elementwise.h>
#include <weft/indexing.h>
#include <weft/nn.h>
#include <weft/operation.h>
#include <weft/optimizers.h>
#include <weft/products.h>
#include <weft/random.h>
#include <weft/reductions.h>
#include <weft/shapes.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Whether operations may do so with all tensors of other meshes than their first one's: false at first.
 * \return WEFT_ERR_STATE before weft_init(). */
WEFT_API weft_status weft_set_implicit_replication(bool allowed);

/** [m, k] times [k, n]; with more dimensions the leading ones are a batch and must be equal. */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
/** The same with the last two dimensions of a or b exchanged first (nothing is copied for it). */
WEFT_API weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b);

/**
 * Rows of a table: [v, d] and indices [...] (WEFT_I64 or WEFT_I32) give [..., d]. An index out of 0 .. v - 1
 * gives a row of zeros, and the next blocking call returns WEFT_ERR_INVALID.
 */
WEFT_API weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *indices);
/** The gradient of the table, [num_rows, d]: rows of `gradient` [..., d] added where `indices` [...] says. */
WEFT_API weft_tensor *weft_embedding_backward(weft_tensor *gradient, weft_tensor *indices, int64_t num_rows);

/** Softmax cross-entropy of logits [n, c] with class numbers [n] (WEFT_I64 or WEFT_I32), the mean over n: a
 * scalar. A class out of 0 .. c - 1 counts as a loss of 0, and the next blocking call returns
 * WEFT_ERR_INVALID. */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets);
/** The gradient of the logits: gradient * (softmax(logits) - onehot(targets)) / n; `gradient` is a scalar
 * tensor, or NULL for 1. */
WEFT_API weft_tensor *weft_cross_entropy_backward(weft_tensor *gradient, weft_tensor *logits,
                                                  weft_tensor *targets);
/** The same elements in row-major order with another shape; one size may be -1 and follows from the others.
 * Shares the memory where it can. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[]);

WEFT_END_DECLS

#endif
