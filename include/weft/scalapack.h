/** \file
 * ScaLAPACK's block-cyclic matrices in place, both ways. ScaLAPACK is not linked: a descriptor is nine integers.
 *
 * ScaLAPACK stores local matrices by columns, weft by rows. So the tensor of an m x n matrix is its transpose, [n, m]: dimension 0
 * counts the matrix's columns, in blocks of NB over the columns of the process grid, and dimension 1 its rows, in blocks of MB
 * over the rows of the grid.
 *
 *     weft_mesh *grid = weft_mesh_create(2, (int64_t[]){ nprow, npcol }, NULL);     // as Cblacs_gridinit(.., "Row", ..)
 *     weft_tensor *at = weft_from_scalapack(WEFT_F64, desc_a, (void *[]){ a }, grid, 0);
 *     weft_tensor *bt = weft_redistribute(weft_matmul(at, xt), grid, weft_tensor_placements(at));
 *     weft_scalapack_descriptor(bt, 0, context, desc_b);
 *     double *b = weft_local_acquire(bt, 0, WEFT_READ_WRITE);                       // waits for the values
 *     pdpotrf_("L", &n, b, &one, &one, desc_b, &info);
 *     weft_local_release(bt, 0);
 *
 * examples/block_cyclic.c is a whole program. */
#ifndef WEFT_SCALAPACK_H
#define WEFT_SCALAPACK_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * Makes a tensor [n, m] of the local parts of an m x n matrix, in place, as weft_from_local() does. Submatrices (IA, JA) are
 * slices of it.
 *
 * \param descriptor  of a dense matrix: { 1, context, m, n, mb, nb, first row of processes, first column, leading dimension }.
 *                    All but the context, which is not read, and the leading dimension are the same on all processes
 * \param locals      one for each hosted rank, as for weft_from_local(); a leading dimension that is larger than the local
 *                    number of rows (at least 1) needs WEFT_COPY
 * \param mesh        the process grid [rows, columns], or [columns] if it has one row: coordinate (i, j) is process (i, j) of the
 *                    grid. For a column-major grid, list its ranks so (weft_mesh_of_ranks())
 * \param flags       those of weft_from_local()
 * \return NULL on error: WEFT_ERR_INVALID for a descriptor of another kind or out of range, WEFT_ERR_SHAPE for a mesh of
 *         more dimensions, otherwise as weft_from_local()
 */
WEFT_API weft_tensor *weft_from_scalapack(weft_dtype dtype, const int descriptor[9], void *const locals[], weft_mesh *mesh,
                                          unsigned flags);

/**
 * Describes the memory of a hosted rank's shard, which weft_local_acquire() gives, as a ScaLAPACK matrix: a tensor [n, m] is the
 * matrix m x n. Each dimension may be cut by one mesh dimension: cyclic, or in chunks, which are one block each. The mesh
 * dimension that cuts dimension 1 is the rows of the process grid, the one that cuts dimension 0 its columns: the grid of
 * [S1*mb,S0*nb] is row-major on the mesh's ranks, that of [S0*nb,S1*mb] column-major.
 *
 * A dimension that is not cut gets blocks as large as the other's; you may write any other number into descriptor[4] (mb) or
 * descriptor[5] (nb) there.
 *
 * \param context     BLACS context of that grid, for descriptor[1]
 * \param descriptor  nine integers. On error nothing is written
 * \return WEFT_ERR_LAYOUT for other tensors: replicated on a mesh dimension of several ranks, Partial, cut by other cuts or by
 *         several mesh dimensions; WEFT_ERR_SHAPE if there are not two dimensions; WEFT_ERR_INVALID if a size is above 2^31 - 1
 */
WEFT_API weft_status weft_scalapack_descriptor(const weft_tensor *tensor, int local_rank, int context, int descriptor[9]);

WEFT_END_DECLS

#endif
