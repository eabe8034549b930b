/** \file
 * Tensors from boxes of the program's own arrays, and back. Each process says which boxes of the global index space it
 * has, in any cut: rows cut as N / p and one more for the first N % p, several boxes for a process, block cyclic, arrays
 * with ghost layers, rows or columns first.
 *
 *     weft_box mine = { .offset = { first_row, 0 }, .extent = { rows, N } };
 *     const int64_t strides[] = { 1, lda };              // column-major, as Fortran has it
 *     weft_fixed_boxes_begin();
 *     for (int step = 0; step < steps; step++) {
 *         weft_scope_open();
 *         weft_tensor *a = weft_from_boxes(WEFT_F64, 2, (int64_t[]){ N, N }, 1, &mine, (void *[]){ array }, strides,
 *                                          mesh, by_rows);
 *         weft_to_boxes(weft_tanh(a), 1, &mine, (void *[]){ array }, strides);
 *         weft_scope_close();
 *     }
 *     weft_fixed_boxes_end();
 *     weft_wait();                                       // now the array has the values
 *
 * Every process makes the calls, those outside the mesh too, which may have boxes all the same. Data goes straight from the
 * arrays to the shards, and back, as tasks and messages, for which nothing waits. The first call with new boxes BLOCKS until
 * all processes have exchanged their boxes and found them right. A call with the boxes of a former one (of the last 64; the
 * pointers may differ) exchanges only one number besides the data, because another process's boxes may have changed: it
 * BLOCKS until all processes have made the call. Inside weft_fixed_boxes_begin() it exchanges only data and does not
 * block, unless another process's boxes changed in an earlier call while these did not: then it exchanges the number. */
#ifndef WEFT_BOXES_H
#define WEFT_BOXES_H

#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * A tensor of the processes' boxes, which together have each index of `shape` exactly once. BLOCKS until all processes have
 * made the call, but where boxes are fixed.
 *
 * A box that is one shard of this process, row-major and without gaps, in a layout that does not replicate it, is used
 * in place. Its memory must stay until the tensor is released and weft_wait() has returned, and must not be touched
 * meanwhile but through weft_local_acquire() and weft_to_boxes(). All other memory is only read, and must stay as it is
 * until weft_wait() has returned; weft_to_boxes() may write to it earlier, it waits for the reads.
 *
 * \param num_boxes   of this process: 0 or more
 * \param boxes       num_boxes boxes inside the shape; those without elements are ignored, wherever they lie. NULL with
 *                    num_boxes 0
 * \param pointers    one per box, to the element at the box's offset; aligned to the type; NULL where a box is empty
 * \param strides     elements from one index to the next: ndim numbers for each box, box 0 first. Positive, and no two
 *                    dimensions interleave; those of dimensions of size 1 are not read. NULL: all row-major without gaps
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT.
 *
 * \return NULL on error, on every process alike: WEFT_ERR_SHAPE for boxes that leave a gap or overlap (the message names
 *         the indices, the ranks and the boxes) or lie outside of the shape; WEFT_ERR_INVALID for wrong pointers and
 *         strides; WEFT_ERR_MISMATCH where processes give other shapes; else as weft_from_local(). WEFT_ERR_STATE inside
 *         of a captured graph: make the tensor before, and pass it. In a fake world the boxes of others are unknown, and
 *         only this process's are checked.
 */
WEFT_API weft_tensor *weft_from_boxes(weft_dtype dtype, int ndim, const int64_t shape[], int num_boxes,
                                      const weft_box boxes[], void *const pointers[], const int64_t strides[],
                                      weft_mesh *mesh, const weft_placement *placements);

/**
 * Writes boxes of a tensor to the program's memory; Partial is reduced. Boxes may overlap, leave parts out, and be the
 * same on several processes: each gets its copy. Of strided memory only the boxes' elements are written. BLOCKS as
 * weft_from_boxes().
 *
 * The memory has the values when weft_wait() has returned, and must not be touched before. It may be memory of earlier
 * weft_from_boxes() and weft_to_boxes(): what they read and write comes first. A tensor that lies in place in that memory
 * keeps its values (it gets memory of its own), but for this tensor itself where it lies there already: then
 * nothing is copied. So steps without copies change a tensor in place (weft_add_inplace()) or release it before this call.
 *
 * Arguments as those of weft_from_boxes(). Boxes of one call that share elements in memory have undefined values.
 * Not differentiable: values leave the tape, as by weft_to_host().
 *
 * \return on every process alike, as weft_from_boxes(); WEFT_ERR_STATE for a tensor without data, and if a shard in that
 *         memory is acquired.
 */
WEFT_API weft_status weft_to_boxes(weft_tensor *tensor, int num_boxes, const weft_box boxes[], void *const pointers[],
                                   const int64_t strides[]);

/** Between these calls, which every process makes, boxes are fixed: where a call has boxes of a former call on one process, so it
 * has on all. Then calls compare nothing and wait for nothing, but for the exception above. Where that is not so the
 * processes make different calls: the world breaks with WEFT_ERR_MISMATCH or, when WEFT_TIMEOUT_S is over, WEFT_ERR_TIMEOUT
 * (with WEFT_CHECK=1 boxes are compared all the same). Wrong pointers on one process break it too. Regions nest.
 * weft_fixed_boxes_end(): WEFT_ERR_STATE where none is open. \{ */
WEFT_API weft_status weft_fixed_boxes_begin(void);
WEFT_API weft_status weft_fixed_boxes_end(void);
/** \} */

WEFT_END_DECLS

#endif
