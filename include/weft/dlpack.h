/** \file
 * Exchange shards with other libraries without a copy, by DLPack. PyTorch, NumPy, CuPy, JAX and others exchange
 * tensors as *managed tensors*: C structs with a pointer to memory and a function, the *deleter*. The consumer of a
 * managed tensor calls its deleter once, after its last use of the memory. One managed tensor is the shard of one
 * rank.
 *
 * You need no other header: the structs are only declared here, by the names that DLPack's own header
 * (dlpack/dlpack.h) uses. weft supports major version 1 of the versioned struct; the older struct has neither version
 * nor flags.
 *
 *     struct DLManagedTensorVersioned *rows = ...;       // of another library: this rank's rows, [m, n]
 *     weft_tensor *a = weft_from_dlpack(WEFT_F32, 2, (int64_t[]){ M, n }, &rows, mesh, by_rows, 0);
 *     weft_tensor *b = weft_matmul(weft_transpose(a, 0, 1), a);
 *     struct DLManagedTensorVersioned *shard = weft_to_dlpack(b, 0, 0);
 *
 * docs/languages.md shows the same for Python. */
#ifndef WEFT_DLPACK_H
#define WEFT_DLPACK_H

#include <weft/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
struct DLManagedTensor;
struct DLManagedTensorVersioned;
#ifdef __cplusplus
}
#endif

WEFT_BEGIN_DECLS

/** A flag of weft_to_dlpack(), and not one of those of weft_from_local(). */
enum {
    WEFT_ON_DEVICE = 8 /**< share the memory of a CUDA device, instead of main memory */
};

/**
 * Makes a tensor of the managed tensors of the hosted ranks.
 *
 * Without WEFT_COPY the memory is used in place, as by weft_from_local(): access it only through weft_local_acquire()
 * until the deleter has been called. Calls in place write to it. If it is flagged as read-only, weft does not write
 * to it: the tensor gets memory of its own before the first write. With WEFT_COPY the memory is copied before the
 * call returns, from any strides. For memory of a device the call waits for all work there, as weft_from_local() does.
 *
 * Ownership: on success the library owns all of locals[], and calls each deleter once. If the shard was copied or is
 * empty, it does so before the call returns. Otherwise it does so after the tensor is released and its last task has
 * ended, on the thread of weft_init(), in a later call: weft_wait() calls the deleters of all tensors released
 * before, and so do weft_finalize() and calls that need memory. A deleter must not call weft (WEFT_ERR_STATE there),
 * but may call deleters of weft_to_dlpack(). A NULL deleter is not called. If memory is in use when the world breaks,
 * its deleter is not called either, because cancelled messages may still write to it. On error the caller keeps all
 * of locals[], and no deleter is called.
 *
 * \param shape       the GLOBAL shape. Every managed tensor must have the type, and the sizes of weft_shard_box().
 * \param locals      weft_local_ranks() pointers, one per hosted rank, each to a different managed tensor
 *                    (WEFT_ERR_INVALID). May be NULL if the rank's shard is empty or the rank is outside the mesh. If
 *                    one is given there, it is not checked further, and its deleter is called. The memory must be a
 *                    CPU's (it may be pinned for a device), aligned to the type, and row-major. Strides NULL means
 *                    row-major. With WEFT_COPY any alignment and strides are accepted, with WEFT_STRIDES gaps between rows.
 *                    Memory of a CUDA device on which this process computes (WEFT_DEVICES) is used where it is, without
 *                    WEFT_COPY, and not of WEFT_BOOL. The call then waits until all that was launched on the device
 *                    before, in any stream, has ended. weft_local_acquire() gives a copy in main memory.
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere
 * \param flags       0, WEFT_STRIDES, or WEFT_COPY | WEFT_CHECK_RANKS, as in weft_from_local_ex(). With WEFT_CHECK_RANKS a wrong
 *                    managed tensor on one process is an error on all
 * \return NULL on error, as weft_from_local(). Also WEFT_ERR_UNSUPPORTED for other memory of devices and another major
 *         version; WEFT_ERR_DTYPE for another type, or one that weft does not have: vectors (lanes);
 *         WEFT_ERR_SHAPE for other sizes; WEFT_ERR_INVALID for memory that can only be copied, and, without
 *         WEFT_COPY, for read-only memory with WEFT_CHECK_RANKS, which writes to replicas. The message names the
 *         argument: `locals[0]`.
 */
WEFT_API weft_tensor *weft_from_dlpack(weft_dtype dtype, int ndim, const int64_t shape[],
                                       struct DLManagedTensorVersioned *const locals[], weft_mesh *mesh,
                                       const weft_placement *placements, unsigned flags);
/** weft_from_dlpack() for the older struct. All memory may be written to. */
WEFT_API weft_tensor *weft_from_dlpack_unversioned(weft_dtype dtype, int ndim, const int64_t shape[],
                                                   struct DLManagedTensor *const locals[], weft_mesh *mesh,
                                                   const weft_placement *placements, unsigned flags);

/**
 * Returns a hosted rank's shard (0 <= local_rank < weft_local_ranks()) as a managed tensor, with its current values.
 * BLOCKS until they are computed. Local: adds no communication. If the tensor is Partial, the result is the rank's
 * addend. Values leave the tape, as in weft_local_to_host().
 *
 * Without WEFT_COPY the memory is shared, and flagged as read-only: the consumer must not write to it, and weft does
 * not either. If you later write to the tensor, in place or by weft_local_acquire(), the managed tensor does not
 * change, because the tensor gets other memory first. Shards in the program's memory (weft_from_local(),
 * weft_from_dlpack()) are copied. With WEFT_COPY the shard is copied, and the consumer may write to it.
 *
 * Ownership: the caller owns the managed tensor. Its deleter must be called once, on any thread and at any time, even
 * after weft_tensor_release() and weft_finalize(). The memory stays until then. (It stays until the process ends in a
 * broken world, and after weft_finalize() in a process with devices, whose memory is pinned.)
 *
 * With WEFT_ON_DEVICE the shard is shared where it lies on a device. The call BLOCKS until the values are there, so
 * kernels and copies in any stream may read it from now on. It is loaded to one of the process's devices if it is on none.
 * It stays there, whatever tasks need, so at most a quarter of the smallest device's memory can be shared so. Kernels, and
 * copies from it, that were launched before the deleter is called may go on reading: a later call, as weft_wait() or one
 * that needs memory, waits for all work on the device before weft uses the memory again. CUDA does not allow that while
 * a stream of the device is being captured: weft then tries again in later calls, but the capture may be lost, so call weft
 * after it. weft_finalize() ends the memory of a device: the consumer's pointer then points nowhere, and a deleter only frees
 * the struct.
 *
 * \param flags  0, WEFT_COPY or WEFT_ON_DEVICE
 * \return NULL on error, which may be an error of an earlier task. WEFT_ERR_STATE if the program has acquired the
 *         shard for writing, and as in weft_local_to_host(). For an empty shard the managed tensor has no memory.
 *         With WEFT_ON_DEVICE also WEFT_ERR_UNSUPPORTED if the process computes on no devices, or the shard lies in
 *         several panels or in the program's memory; WEFT_ERR_NOMEM if a quarter of a device's memory is exceeded.
 */
WEFT_API struct DLManagedTensorVersioned *weft_to_dlpack(weft_tensor *tensor, int local_rank, unsigned flags);
/** weft_to_dlpack() with the older struct, which cannot say that shared memory is read-only, so the consumer has to
 * know. BLOCKS. NumPy takes all of it as read-only, PyTorch does not. */
WEFT_API struct DLManagedTensor *weft_to_dlpack_unversioned(weft_tensor *tensor, int local_rank, unsigned flags);

WEFT_END_DECLS

#endif
