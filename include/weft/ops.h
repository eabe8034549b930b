/** \file
 * Operations. Each takes tensors of any layout on one mesh, moves inputs where their layouts do not fit
 * together, and returns a new tensor at once (functions named *_ change their first argument and return it).
 * Types must agree and be WEFT_F32 or WEFT_F64, unless said otherwise. Errors: NULL, with WEFT_ERR_INVALID,
 * WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, or WEFT_ERR_MESH for tensors of different meshes (weft_redistribute() one
 * of them).
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <weft/elementwise.h>
#include <weft/indexing.h>
#include <weft/products.h>
#include <weft/reductions.h>
#include <weft/shapes.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

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

WEFT_END_DECLS

#endif
