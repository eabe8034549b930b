/** \file
 * Shards from and to other libraries without a copy, by DLPack: PyTorch, NumPy, CuPy, JAX and others exchange tensors as
 * *managed tensors*: C structs with a pointer to memory, and a function, the *deleter*. The consumer of a managed tensor calls
 * its deleter once, after its last use of the memory. One managed tensor is the shard of one rank.
 *
 * No other header is needed: the structs are only named here, by the names that DLPack's own header (dlpack/dlpack.h) gives
 * them. Major version 1 of the versioned struct is supported; the older struct has neither version nor flags.
 *
 *     struct DLManagedTensorVersioned *rows = ...;       // of another library: this rank's rows, [m, n]
 *     weft_tensor *a = weft_from_dlpack(WEFT_F32, 2, (int64_t[]){ M, n }, &rows, mesh, by_rows, 0);
 *     weft_tensor *b = weft_matmul(weft_transpose(a, 0, 1), a);
 *     struct DLManagedTensorVersioned *shard = weft_to_dlpack(b, 0, 0);
 *
 * docs/languages.md has the same for Python. */
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

/**
 * A tensor of the hosted ranks' managed tensors.
 *
 * Without WEFT_COPY memory is used in place, as by weft_from_local(): it must not be touched but through
 * weft_local_acquire(), until the deleter has been called; calls in place write to it. Memory that is flagged as read-only is
 * not written to: the tensor gets memory of its own before the first write. With WEFT_COPY it is copied before the call
 * returns, from any strides.
 *
 * Ownership: on success the library owns all of locals[], and calls each deleter once. It does so before the call returns, if
 * the shard was copied or is empty. Else it does so after the tensor's release and the end of its last task, on the thread of
 * weft_init(), in a later call: weft_wait() calls the deleters of all tensors released before, weft_finalize() and calls that
 * need memory do too. A deleter must not call weft (WEFT_ERR_STATE there), but may call deleters of weft_to_dlpack(). A NULL
 * deleter is not called, and none of memory in use when the world breaks, since cancelled messages may still write to it. On
 * error the caller keeps all of locals[], and no deleter is called.
 *
 * \param shape       the GLOBAL shape. Every managed tensor must have the type, and the sizes of weft_shard_box().
 * \param locals      weft_local_ranks() pointers, one per hosted rank, each to another managed tensor (WEFT_ERR_INVALID), or NULL
 *                    where the rank's shard is empty or the rank is outside the mesh: there it is not checked further, and its
 *                    deleter is called. Memory of a CPU, also pinned for a device; aligned to the type; row-major. Strides
 *                    NULL: row-major. WEFT_COPY takes any alignment and strides.
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere
 * \param flags       0, or WEFT_COPY | WEFT_CHECK_RANKS, as of weft_from_local(); with WEFT_CHECK_RANKS a wrong managed tensor on
 *                    one process is an error on all
 * \return NULL on error, as weft_from_local(), and WEFT_ERR_UNSUPPORTED for memory of a device and another major version;
 *         WEFT_ERR_DTYPE for another type, or one that weft does not have: vectors (lanes), complex numbers; WEFT_ERR_SHAPE
 *         for other sizes; WEFT_ERR_INVALID for memory that can only be copied, and for read-only memory with
 *         WEFT_CHECK_RANKS, which writes to replicas, without WEFT_COPY. The message names the argument: `locals[0]`.
 */
WEFT_API weft_tensor *weft_from_dlpack(weft_dtype dtype, int ndim, const int64_t shape[],
                                       struct DLManagedTensorVersioned *const locals[], weft_mesh *mesh,
                                       const weft_placement *placements, unsigned flags);
/** The same of the older struct: all memory may be written to. */
WEFT_API weft_tensor *weft_from_dlpack_unversioned(weft_dtype dtype, int ndim, const int64_t shape[],
                                                   struct DLManagedTensor *const locals[], weft_mesh *mesh,
                                                   const weft_placement *placements, unsigned flags);

/**
 * BLOCKS: a hosted rank's shard (0 <= local_rank < weft_local_ranks()) as a managed tensor, with the values that it has now.
 * Local: no communication of its own. For a Partial tensor the rank's addend. Values leave the tape, as by
 * weft_local_to_host().
 *
 * Without WEFT_COPY the memory is shared, and flagged as read-only: the consumer must not write to it, weft does not
 * either. A later write to the tensor, in place or by weft_local_acquire(), does not show there: the tensor gets other memory
 * first. Shards in the program's memory (weft_from_local(), weft_from_dlpack()) are copied. With WEFT_COPY the shard is
 * copied, and the consumer's to write to.
 *
 * Ownership: the managed tensor is the caller's. Its deleter must be called once, on any thread, at any time, also after
 * weft_tensor_release() and weft_finalize(): until then the memory stays. (After weft_finalize() in a process with devices,
 * whose memory is pinned, and in a broken world, it stays until the process ends.)
 *
 * \param flags  0 or WEFT_COPY
 * \return NULL on error, also an earlier task's; WEFT_ERR_STATE while the program has acquired the shard for writing, and as
 *         weft_local_to_host(). An empty shard gives a managed tensor without memory.
 */
WEFT_API struct DLManagedTensorVersioned *weft_to_dlpack(weft_tensor *tensor, int local_rank, unsigned flags);
/** BLOCKS: the same as the older struct, which cannot say that shared memory is read-only: the consumer has to know. NumPy takes
 * all of it as read-only, PyTorch does not. */
WEFT_API struct DLManagedTensor *weft_to_dlpack_unversioned(weft_tensor *tensor, int local_rank, unsigned flags);

WEFT_END_DECLS

#endif
