/** \file
 * Operations; this header includes those of all families. An operation takes tensors of any layout on one mesh,
 * redistributes inputs whose layouts do not fit together, and returns a new tensor at once. (Functions named
 * *_inplace modify their first argument and return it.) weft chooses the layout of the result that costs the least
 * movement. To see it, call weft_tensor_placements(); to change it, weft_redistribute().
 *
 * On error an operation returns NULL, with WEFT_ERR_INVALID, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, or WEFT_ERR_MESH if
 * tensors are on different meshes (weft_redistribute() one of them).
 *
 * A scalar on another mesh is replicated automatically. It may be a tensor without dimensions, or one with dimensions
 * and one element. For the latter the first process prints a warning on standard error, once for each operation
 * (WEFT_SILENT=1: never). The result is on the mesh of the first tensor that does not have exactly one element. If
 * all have one element, it is on the mesh of the first tensor that has dimensions (in place: of the target). */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <weft/complex.h>
#include <weft/elementwise.h>
#include <weft/fft.h>
#include <weft/images.h>
#include <weft/indexing.h>
#include <weft/linalg.h>
#include <weft/losses.h>
#include <weft/nn.h>
#include <weft/operation.h>
#include <weft/optimizers.h>
#include <weft/products.h>
#include <weft/random.h>
#include <weft/reductions.h>
#include <weft/shapes.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * Regions of implicit replication: inside them, operations replicate inputs of any size that are on another mesh than
 * the first input, as they always do with scalars. Regions nest; each weft_implicit_replication_begin() needs its
 * weft_implicit_replication_end(). Every process must begin and end them at the same points. PyTorch:
 * torch.distributed.tensor.experimental.implicit_replication.
 *
 * These functions return WEFT_ERR_MESH in a region too: weft_cat(), weft_stack(), weft_einsum(), the functions that
 * add, copy or put elements by indices, weft_masked_select(), weft_masked_fill_tensor(), weft_batch_norm() and the
 * norms of groups and instances, attention with grouped heads or dropout and its backward functions, weft_equal(),
 * weft_allclose(), weft_local_map() (which has in_placements).
 *
 * \return WEFT_ERR_STATE before weft_init(), and from weft_implicit_replication_end() if no region is open. \{
 */
WEFT_API weft_status weft_implicit_replication_begin(void);
WEFT_API weft_status weft_implicit_replication_end(void);
/** \} */
/** Returns whether the program is in such a region; false before weft_init(). */
WEFT_API bool weft_implicit_replication(void);

WEFT_END_DECLS

#endif
