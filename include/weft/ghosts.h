/** \file
 * Ghosted arrays: arrays of your own with ghost elements around each process's part, as stencil codes have them
 * (PETSc: the local vector of a DMDA; MPI: a Cartesian grid with subarray types). The tensor has the elements inside, lies in
 * your memory, and weft fills the ghosts with the neighbours' elements.
 *
 *     // u[rows + 2][columns + 2]: this rank's part, a ghost row and a ghost column on either side
 *     const weft_ghosts around = { .before = { 1, 1 }, .after = { 1, 1 }, .star = true };
 *     const weft_placement cut[] = { weft_shard_balanced(0), weft_shard_balanced(1) };
 *     weft_tensor *now = weft_from_ghosted(WEFT_F64, 2, shape, (void *[]){ u }, &around, mesh, cut);
 *     weft_tensor *next = weft_from_ghosted(WEFT_F64, 2, shape, (void *[]){ v }, &around, mesh, cut);
 *     for (int step = 0; step < steps; step++) {
 *         weft_apply(stencil, 2, (weft_tensor *[]){ next, now }, NULL);  // "hw,h~w~->hw", output in place
 *         weft_tensor *former = now;
 *         now = next;
 *         next = former;
 *     }
 *     weft_wait();                                                       // now u and v have the values
 *
 * **An operation of your own** (<weft/operation.h>) works in these arrays, without a copy, if its description says
 * `takes_strides`. Its kernel gets views with gaps, addresses elements by weft_view.strides, and may read the ghosts that its
 * halos ("~") name. If the elements have changed since the ghosts were last filled, weft fills them first. At the tensor's
 * borders the ghosts belong to you if the dimension is not periodic: weft never fills them, and the kernel reads what you have
 * stored (boundary values). There a view begins before index 0, or ends after the last one.
 *
 * Ghosts must be as wide as the halos, and periodic if these are (else WEFT_ERR_SHAPE); the tensors that the operation changes
 * must be cut as the arrays are (else WEFT_ERR_LAYOUT); a tensor whose ghosts it reads cannot be changed by it
 * (WEFT_ERR_INVALID). Gradients read dense copies.
 *
 * **All other functions** read a dense copy of the elements inside, which weft makes when it is first needed after a change
 * (weft_counters.views_copied), and write changes back at once. Halos of operations without `takes_strides` end at the
 * tensor's borders. weft_local_acquire() is WEFT_ERR_UNSUPPORTED: use the arrays.
 *
 * **In captured graphs** (<weft/graph.h>) operations of your own with `takes_strides` and weft_halo_exchange() are calls as others
 * are: make the tensors before, and pass them as inputs or through `context`. Other calls there read a copy, which goes back if
 * they change it. Gradients through such a tensor are WEFT_ERR_UNSUPPORTED in a graph, and so are weft_graph_shard() and
 * weft_graph_predict() for it. */
#ifndef WEFT_GHOSTS_H
#define WEFT_GHOSTS_H

#include <string.h>

#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The ghosts around each rank's part. Zero-initialise it and set the fields you need. */
typedef struct weft_ghosts {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int64_t before[WEFT_MAX_DIMS]; /**< ghost elements before the part along each dimension: at least 0, any width */
    int64_t after[WEFT_MAX_DIMS];  /**< after it */
    bool periodic[WEFT_MAX_DIMS];  /**< ghosts at the tensor's borders have the elements of the other end */
    bool star; /**< corners keep old values: only ghosts beside the part along one dimension are filled, which a star stencil
                    reads. Fewer messages */
} weft_ghosts;

/** Sets all fields to 0, and `size`. */
static inline void weft_ghosts_init(weft_ghosts *ghosts)
{
    memset(ghosts, 0, sizeof(*ghosts));
    ghosts->size = sizeof(*ghosts);
}

/**
 * Makes a tensor that lies inside of ghosted arrays. Its element with index `i` of a rank's part lies at index
 * `before + i` of the array. Every process makes the call, with the same arguments but `locals`; BLOCKS until all have.
 *
 * Keep the arrays until the tensor is released and weft_wait() has returned. Read them, and write to them, only after
 * weft_wait(); after writing call weft_halo_exchange(). One array belongs to one tensor.
 *
 * \param locals      one for each rank that this process hosts, in their order: row-major, without other gaps, before[d] +
 *                    (extent of the part) + after[d] elements along dimension d. An empty part has no array: NULL
 * \param ghosts      copied
 * \param mesh        NULL: the current mesh
 * \param placements  one per mesh dimension; NULL: Replicate everywhere. Chunks, balanced and listed cuts, each tensor
 *                    dimension by one mesh dimension of more than one rank at most. Replicas have arrays of their own
 *
 * \return a new tensor in the innermost scope; NULL on error, on all processes: WEFT_ERR_INVALID if `ghosts`, `shape` or an
 *         array is NULL, an array is not aligned to the type, or a width is negative; WEFT_ERR_LAYOUT for other placements;
 *         WEFT_ERR_SHAPE, also if ndim is 0 or an array would have too many elements; WEFT_ERR_DTYPE, WEFT_ERR_MESH,
 *         WEFT_ERR_NOMEM; WEFT_ERR_MISMATCH if processes give different arguments; WEFT_ERR_STATE inside a captured graph, or
 *         while tasks wait for a shard that the program has acquired. In arrays of WEFT_BOOL, ghosts too, bytes other than 0
 *         become 1. In a fake world the tensor is an ordinary one of zeros.
 */
WEFT_API weft_tensor *weft_from_ghosted(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                                        const weft_ghosts *ghosts, weft_mesh *mesh, const weft_placement *placements);

/**
 * Fills the ghosts of a tensor that weft_from_ghosted() has made, as tasks and messages: returns at once. weft takes what
 * lies inside the arrays as the tensor's values from here on, so call it after you have written to them. Operations fill the
 * ghosts by themselves where they need to; a call before they do lets the messages go earlier.
 *
 * \return WEFT_ERR_INVALID if the tensor is not ghosted; WEFT_ERR_STATE if the tensor was computed from leaves, outside of
 *         weft_no_grad_begin(), because its gradient would miss what you have written; WEFT_ERR_NOMEM
 */
WEFT_API weft_status weft_halo_exchange(weft_tensor *tensor);

WEFT_END_DECLS

#endif
