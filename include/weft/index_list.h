/** \file
 * Index lists: rows of a tensor that each rank names by their global indices, brought to it and back. PETSc: VecScatter; Epetra and
 * Tpetra: importers and exporters; MPI: MPI_Neighbor_alltoallv with a packed buffer on each side.
 *
 * A list is made once, and all processes then know which rows have to travel: each row goes at most once from the rank that holds
 * it to each rank that names it, in one message for each pair of ranks (larger ones are cut between rows), however often the rank names it.
 * For example, a product of a sparse matrix and a vector, whose rows are sharded:
 *
 *     int64_t ghosts[] = { 17, 18, 40 };         // columns of this rank's rows that other ranks hold
 *     weft_index_list *list = weft_index_list_create(n, mesh, (weft_placement[]){ weft_shard(0) },
 *                                                    (int64_t[]){ 3 }, ghosts);
 *     for (int i = 0; i < iterations; i++) {
 *         weft_scope_begin();
 *         weft_tensor *inputs[] = { matrix, p, weft_index_list_gather(list, p) };
 *         weft_local_map(multiply, 3, inputs, 1, &like_p, NULL, &product);
 *         ...
 *         weft_scope_end();
 *     }
 *     weft_index_list_destroy(list);
 *
 * Captured graphs may use a list. Such a graph cannot be saved or predicted, because a list belongs to the ranks that made it.
 *
 * Compare weft_index_select() and weft_index_add(), whose indices are a tensor: weft does not know their values, so they move
 * all rows that an index could name. A list also keeps its counts until the program ends, some bytes for each rank. */
#ifndef WEFT_INDEX_LIST_H
#define WEFT_INDEX_LIST_H

#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** An opaque handle, not an address. If you pass the handle of a destroyed list, the function returns WEFT_ERR_INVALID. */
typedef struct weft_index_list weft_index_list;

/**
 * Makes a list. Every process calls it; BLOCKS until all have. Not within a captured graph (WEFT_ERR_STATE), where lists made
 * before can be used.
 *
 * \param size        rows of the tensors that the list will be used with
 * \param mesh        NULL: the current mesh
 * \param placements  how dimension 0 of these tensors lies when rows are gathered from it, one per mesh dimension: one of them is
 *                    weft_shard(0) or another cut of dimension 0, all others are Replicate. The ranks along that mesh dimension
 *                    exchange rows with each other. NULL is WEFT_ERR_INVALID. Ranks that differ only in the other mesh dimensions must name the same indices
 * \param counts      for each hosted rank, the number of its indices: 0 or more, and 0 outside the mesh
 * \param indices     the indices of the first hosted rank, then those of the next one, and so on: 0 .. size - 1, in any order,
 *                    repeated or not. Copied. NULL if there are none
 * \return NULL on error, with the same status on all processes: WEFT_ERR_INVALID if an index is out of range (the message names
 *         the rank and the position), WEFT_ERR_SHAPE if a tensor cannot have so many rows, WEFT_ERR_LAYOUT if `placements` are not as above, WEFT_ERR_MISMATCH if processes give
 *         different sizes or placements, WEFT_ERR_UNSUPPORTED in a fake world. weft_finalize() frees the lists that are left.
 */
WEFT_API weft_index_list *weft_index_list_create(int64_t size, weft_mesh *mesh, const weft_placement *placements,
                                                 const int64_t counts[], const int64_t indices[]);
/** Frees a list. Every process calls it. Gathers and sums that have been called are carried out; captured graphs and backward
 * passes can no longer use the list (WEFT_ERR_STATE). */
WEFT_API weft_status weft_index_list_destroy(weft_index_list *list);

/** Returns the sum of the counts of all ranks (those of one line along the mesh dimension that cuts): the number of rows that
 * weft_index_list_gather() returns. -1 on error. */
WEFT_API int64_t weft_index_list_count(const weft_index_list *list);
/** Writes the placements of what weft_index_list_gather() returns, one per mesh dimension: listed sizes of dimension 0, the counts.
 * Use them to make other tensors with a row for each index. */
WEFT_API weft_status weft_index_list_placements(const weft_index_list *list, weft_placement placements[]);

/**
 * Returns the rows that the ranks name: each rank holds its own, in the order of its indices. A new tensor of
 * weft_index_list_count() rows, with the type and the other dimensions of `x`.
 *
 * \param x  [size, ...], of any type, on the list's mesh. If dimension 0 lies otherwise than the list says, it is redistributed
 *           first. Other dimensions may be sharded along other mesh dimensions, and Partial may stay there: both are so in the
 *           result
 * \return NULL on error: WEFT_ERR_INVALID, WEFT_ERR_SHAPE if x has another number of rows, WEFT_ERR_MESH,
 *         WEFT_ERR_LAYOUT in a strict region that it would redistribute in, WEFT_ERR_STATE if a backward pass or a graph has a
 *         destroyed list, WEFT_ERR_UNSUPPORTED in a prediction
 *
 * Its gradient is weft_index_list_scatter_add().
 */
WEFT_API weft_tensor *weft_index_list_gather(weft_index_list *list, weft_tensor *x);
/**
 * Returns the sums of the rows that have the same index: the reverse of weft_index_list_gather(). A new tensor [size, ...] with
 * the list's placements; rows that no rank names are 0. To add to a tensor, use weft_add_inplace().
 *
 * Each rank first sums its own rows of one index, in their order; then these sums are added by the order of the ranks along the
 * mesh dimension. So the bits do not depend on the number of processes. WEFT_BF16 and WEFT_F16 are added in WEFT_F32 and
 * rounded once. Sums of WEFT_BOOL are true if any addend is.
 *
 * \param values  [weft_index_list_count(), ...], a row for each index. Otherwise as for weft_index_list_gather(); Partial may
 *                stay along other mesh dimensions if it is a sum or an average
 *
 * Its gradient is weft_index_list_gather().
 */
WEFT_API weft_tensor *weft_index_list_scatter_add(weft_index_list *list, weft_tensor *values);

WEFT_END_DECLS

#endif
