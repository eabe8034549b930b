/** \file
 * Sparse matrices: products with dense vectors and matrices. PETSc: MatMult of an AIJ matrix; Tpetra: CrsMatrix; SciPy: csr_array.
 *
 * A matrix has two parts. Its structure says where its entries are (PETSc: the nonzero pattern, Tpetra: CrsGraph), and is made once, in
 * compressed sparse rows (CSR) or from coordinates (COO). Its values are a tensor [nnz], a value for each entry in the order of the
 * rows, of type WEFT_F32, WEFT_F64, WEFT_C64 or WEFT_C128. So several matrices can have one structure, values can be the program's
 * own array in place (weft_from_local()), and gradients are tensors like the values.
 *
 * Rows are sharded. Each rank needs those elements of a vector that its columns name: an index list (<weft/index_list.h>), which is part
 * of the structure, brings them, each once. Transposed products use the list in the other direction.
 *
 *     weft_placement of_values = ...;  // one rank for each process, with the arrays offsets, columns and values
 *     weft_sparse *a = weft_sparse_create_csr(n, n, NULL, (weft_placement[]){ weft_shard(0) }, NULL, WEFT_I32,
 *                                             (const void *[]){ offsets }, (const void *[]){ columns });
 *     weft_sparse_placements(a, &of_values);
 *     weft_tensor *v = weft_from_local(WEFT_F64, 1, (int64_t[]){ weft_sparse_nnz(a) }, (void *[]){ values }, NULL, &of_values, 0);
 *     weft_tensor *y = weft_sparse_matmul(a, v, x, false);
 *     weft_sparse_destroy(a);
 *
 * Captured graphs may use a structure that was made before. Such a graph cannot be frozen, as with local regions
 * (<weft/local_map.h>), and not be saved or predicted, because index lists belong to the ranks that made them. The tasks run on CPUs.
 * weft has no sparse solvers and no products of two sparse matrices. */
#ifndef WEFT_SPARSE_H
#define WEFT_SPARSE_H

#include <weft/index_list.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The structure of a sparse matrix: an opaque handle, not an address. If you pass the handle of a destroyed one, the function returns
 * WEFT_ERR_INVALID. */
typedef struct weft_sparse weft_sparse;

/**
 * Makes the structure of a matrix [rows, columns] of its rows in CSR. Every process calls it; BLOCKS until all have. Not within a
 * captured graph (WEFT_ERR_STATE).
 *
 * \param mesh               NULL: the current mesh
 * \param row_placements     how rows lie on the ranks, one per mesh dimension: one of them is weft_shard(0) or another cut of dimension 0
 *                           into boxes (any sizes: weft_shard_sizes()), all others are Replicate. Ranks that differ only in the
 *                           other mesh dimensions must give the same rows
 * \param column_placements  how the vectors lie that the matrix is multiplied with: a cut along the same mesh dimension. NULL: as rows
 *                           if the matrix is square, else weft_shard(0) there
 * \param index_type         WEFT_I32 or WEFT_I64: of offsets and indices
 * \param offsets            for each hosted rank an array: where each of its rows begins in its indices, and the end; from 0 on. NULL
 *                           for a rank without rows
 * \param indices            for each hosted rank an array: the columns of its entries, row by row, as numbers of the whole matrix, in any
 *                           order. A column that a row has twice counts twice. NULL for a rank without entries. Both arrays are copied:
 *                           columns are numbered anew, as WEFT_I32
 * \return NULL on error, with the same status on all processes: WEFT_ERR_INVALID if offsets do not ascend or an index is out of range
 *         (the message names the rank and the row), WEFT_ERR_SHAPE, WEFT_ERR_LAYOUT if placements are not as above, WEFT_ERR_DTYPE,
 *         WEFT_ERR_STATE if a process has acquired a shard, WEFT_ERR_MISMATCH if processes give different shapes or placements,
 *         WEFT_ERR_UNSUPPORTED in a fake world, or if a rank needs 2^31 or more elements
 *         of a vector. weft_finalize() frees the structures that are left.
 */
WEFT_API weft_sparse *weft_sparse_create_csr(int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *row_placements,
                                             const weft_placement *column_placements, weft_dtype index_type,
                                             const void *const offsets[], const void *const indices[]);
/**
 * The same from coordinates (BLOCKS), as PETSc's MatSetPreallocationCOO(): each rank names entries by row and column, in any order, also
 * of rows that other ranks hold, as in the assembly of finite elements. Entries named several times are one entry, the sum.
 *
 * \param counts                      for each hosted rank, the number of its coordinates: 0 or more, and 0 outside the mesh. Ranks that differ
 *                                    only in the other mesh dimensions than the one that cuts must give the same coordinates, in the same order
 * \param row_indices, column_indices those of the first hosted rank, then those of the next one, and so on. Copied. NULL if there are none
 * \param coordinates                 receives an index list, which turns a value for each coordinate into the values of the matrix;
 *                                    may be NULL, on all processes or on none. weft_index_list_placements() says how the former lie. Destroy it after use. NULL on error
 * \return as weft_sparse_create_csr(); the message names the rank and the position of an index out of range
 *
 *     weft_sparse *a = weft_sparse_create_coo(n, n, mesh, by_rows, NULL, counts, rows, columns, &list);
 *     weft_tensor *values = weft_index_list_scatter_add(list, of_elements); // PETSc: MatSetValuesCOO()
 */
WEFT_API weft_sparse *weft_sparse_create_coo(int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *row_placements,
                                             const weft_placement *column_placements, const int64_t counts[],
                                             const int64_t row_indices[], const int64_t column_indices[], weft_index_list **coordinates);
/** Frees a structure. Every process calls it. Products that have been called are carried out; captured graphs (WEFT_ERR_INVALID) and
 * backward passes (WEFT_ERR_STATE, if ranks need rows of others) can no longer use it. */
WEFT_API weft_status weft_sparse_destroy(weft_sparse *a);

/** Returns the number of entries of all ranks; -1 on error. */
WEFT_API int64_t weft_sparse_nnz(const weft_sparse *a);
/** Writes the placements of values [nnz], one per mesh dimension: each rank has those of its rows. */
WEFT_API weft_status weft_sparse_placements(const weft_sparse *a, weft_placement placements[]);

/**
 * The product with a dense vector or matrix, a x, or with `transposed` a^T x (not conjugated). A new tensor: [rows] or
 * [rows, k], with rows as in row_placements; transposed [columns] or [columns, k], as in column_placements.
 *
 * \param values  [nnz], of type WEFT_F32, WEFT_F64, WEFT_C64 or WEFT_C128. If it lies otherwise than weft_sparse_placements() says, it is
 *                redistributed first
 * \param x       [columns] or [columns, k], transposed [rows] or [rows, k], of the type of values, on the structure's mesh. If dimension
 *                0 lies otherwise than the placements of the structure say, it is redistributed first. Dimension 1 may be sharded
 *                along other mesh dimensions in chunks, and is so in the result
 * \return NULL on error: WEFT_ERR_INVALID, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_MESH, WEFT_ERR_LAYOUT in a strict region that it
 *         would redistribute in, WEFT_ERR_UNSUPPORTED if a rank's values are in more panels than a task can have
 *
 * Captured graphs may have products; frozen ones (weft_graph_freeze()) may not. Rows of a product are computed by panels, those of a
 * transposed one by one task for each rank.
 *
 * A row is added up in the order of its entries. Transposed, each rank adds up its rows in their order, and then the sums of
 * others are added by rank. Values and x have gradients, of the first order.
 *
 *     weft_tensor *y = weft_sparse_matmul(a, values, x, false);
 */
WEFT_API weft_tensor *weft_sparse_matmul(const weft_sparse *a, weft_tensor *values, weft_tensor *x, bool transposed);
/** The dense matrix [rows, columns], with rows as in row_placements; values as for weft_sparse_matmul(). It has a gradient. For small
 * matrices. */
WEFT_API weft_tensor *weft_sparse_to_dense(const weft_sparse *a, weft_tensor *values);

WEFT_END_DECLS

#endif
