/** \file
 * Tensors from boxes of your own arrays, and back. Each process says which boxes of the global index space it has, in
 * any cut: N / p rows each and one more for the first N % p, several boxes per process, block cyclic, arrays with
 * ghost layers, row-major or column-major.
 *
 *     weft_subarray mine = { .box = { .offset = { first_row, 0 }, .extent = { rows, N } },
 *                            .data = array,
 *                            .strides = { 1, lda } };    // column-major, as Fortran has it
 *     weft_fixed_boxes_begin();
 *     for (int step = 0; step < steps; step++) {
 *         weft_scope_begin();
 *         weft_tensor *a = weft_from_boxes(WEFT_F64, 2, (int64_t[]){ N, N }, 1, &mine, mesh, by_rows);
 *         weft_to_boxes(weft_tanh(a), 1, &mine);
 *         weft_scope_end();
 *     }
 *     weft_fixed_boxes_end();
 *     weft_wait();                                       // now the array has the values
 *
 * Every process makes the calls. A process outside the mesh does too, and may have boxes. Data goes straight from the
 * arrays to the shards and back, as tasks and messages; no call waits for the data. The boxes must be compared across
 * processes, so a call may wait for that:
 *  - The first call with new boxes BLOCKS until all processes have exchanged and checked their boxes.
 *  - A call with the boxes of one of the last 64 calls (their data may lie elsewhere) exchanges only one number besides
 *    the data, because another process's boxes may have changed. It BLOCKS until all processes have made the call.
 *  - Inside weft_fixed_boxes_begin() a call exchanges only data and does not block, unless another process's boxes
 *    changed in an earlier call while these did not: then it exchanges the number. */
#ifndef WEFT_BOXES_H
#define WEFT_BOXES_H

#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** A box of a global index space in your memory, as MPI_Type_create_subarray() describes one. */
typedef struct weft_subarray {
    weft_box box; /**< has as many dimensions as the tensor; without elements it is ignored, wherever it lies */
    void *data;   /**< the element at box.offset; aligned to the type. NULL if the box is empty */
    /** Elements from one index to the next, for each dimension: positive, and no two dimensions may interleave. Strides of
     * dimensions of size 1 are not read. All zero: row-major without gaps. */
    int64_t strides[WEFT_MAX_DIMS];
} weft_subarray;

/**
 * Makes a tensor of the processes' boxes. Together the boxes must contain each index of `shape` exactly once. BLOCKS
 * until all processes have made the call, unless boxes are fixed (weft_fixed_boxes_begin()). The file comment above
 * has an example.
 *
 * A box is used in place if it is one shard of this process, row-major and without gaps, in a layout that does not
 * replicate it, and no tensor lies in that memory already. Keep its memory until the tensor is released and weft_wait() has returned; until then access it only
 * through weft_local_acquire() and weft_to_boxes(). All other memory is only read, and must not change until
 * weft_wait() has returned. weft_to_boxes() may write to it earlier, because it waits for the reads.
 *
 * \param num_boxes   number of boxes of this process: 0 or more
 * \param boxes       num_boxes boxes inside the shape; NULL if num_boxes is 0
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Partial is WEFT_ERR_LAYOUT.
 *
 * \return NULL on error, on all processes alike. WEFT_ERR_SHAPE if boxes leave a gap, overlap (the message names the
 *         indices, the ranks and the boxes) or lie outside the shape; WEFT_ERR_INVALID if data or strides are
 *         wrong; WEFT_ERR_MISMATCH if processes give different shapes; otherwise as weft_from_local(). WEFT_ERR_STATE
 *         inside a captured graph: make the tensor before, and pass it as an input. In a fake world the boxes of
 *         other processes are unknown, and only this process's boxes are checked.
 */
WEFT_API weft_tensor *weft_from_boxes(weft_dtype dtype, int ndim, const int64_t shape[], int num_boxes,
                                      const weft_subarray boxes[], weft_mesh *mesh, const weft_placement *placements);

/**
 * Writes boxes of a tensor to your memory. Partial is reduced. Boxes may overlap, leave parts out, and be the same on
 * several processes; each process gets its copy. If the memory is strided, only the boxes' elements are written.
 * BLOCKS as weft_from_boxes() does.
 *
 * The memory has the values when weft_wait() has returned; do not touch it before. It may be memory of earlier calls
 * of weft_from_boxes() and weft_to_boxes(): what they read and write comes first. If a tensor lies in place in that
 * memory, it keeps its values, because weft moves it to memory of its own. The exception is the tensor that you
 * write, if it lies there already: then nothing is copied. So for steps without copies, change a tensor in place
 * (weft_add_inplace()), or release it before this call.
 *
 * The arguments are those of weft_from_boxes(). If boxes of one call share elements in memory, those have undefined
 * values. The function is not differentiable: values leave the tape, as in weft_to_host().
 *
 * \return the same on all processes, as weft_from_boxes(). WEFT_ERR_STATE if the tensor has no data, a shard in
 *         that memory is acquired, or the memory is that of a ghosted tensor (<weft/ghosts.h>).
 */
WEFT_API weft_status weft_to_boxes(weft_tensor *tensor, int num_boxes, const weft_subarray boxes[]);

/** Between these calls, which every process makes, boxes are fixed: you promise that if one process reuses the boxes
 * of an earlier call, all processes do. Then calls compare nothing and do not wait, with the exception above. If you
 * break the promise, the processes make different calls, and the world breaks with WEFT_ERR_MISMATCH or, when
 * WEFT_TIMEOUT_S is over, WEFT_ERR_TIMEOUT. (With WEFT_CHECK=1 boxes are compared anyway.) Wrong data pointers on one
 * process break it too. Regions nest. weft_fixed_boxes_end() returns WEFT_ERR_STATE if no region is open. \{ */
WEFT_API weft_status weft_fixed_boxes_begin(void);
WEFT_API weft_status weft_fixed_boxes_end(void);
/** \} */

WEFT_END_DECLS

#endif
