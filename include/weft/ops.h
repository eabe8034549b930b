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
#include <weft/nn.h>
#include <weft/reductions.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** [m, k] times [k, n]; with more dimensions the leading ones are a batch and must be equal. */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);
/** The same with the last two dimensions of a or b exchanged first (nothing is copied for it). */
WEFT_API weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b);

/** The same elements in row-major order with another shape; one size may be -1 and follows from the others.
 * Shares the memory where it can. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[]);

WEFT_END_DECLS

#endif
