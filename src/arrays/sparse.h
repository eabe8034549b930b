/* Structures of sparse matrices (<weft/sparse.h>): three tensors' worth of numbers and an index list. A rank's columns are numbered
 * anew: first those that it holds, then the GHOSTS, those of others that its entries name, ascending. */
#ifndef WEFT_SRC_ARRAYS_SPARSE_H
#define WEFT_SRC_ARRAYS_SPARSE_H

#include <weft/sparse.h>

#include "arrays/index_list.h"

typedef struct weft_sparse_impl {
    const weft_mesh_impl *mesh;
    int mesh_dim;
    int64_t rows, columns, nnz;
    weft_placement row_cut, column_cut, value_cut; /* along mesh_dim */
    weft_index_list *ghosts; /* NULL: no rank has any */
    weft_tensor_impl *ends;    /* WEFT_I64 [rows]: where a row ends among the rank's entries */
    weft_tensor_impl *numbers; /* WEFT_I32 [nnz]: columns */
} weft_sparse_impl;

/* The structure of a handle; NULL with the error kept. */
const weft_sparse_impl *weft_check_sparse(const char *function, const weft_sparse *a);
/* The placements of a cut along the mesh dimension of the structure. */
void weft_sparse_place(const weft_sparse_impl *a, weft_placement cut, weft_placement placements[]);

/* Arguments of weft_sparse_create_csr(). */
typedef struct weft_csr_arguments {
    const char *function;
    int64_t rows, columns;
    const weft_mesh_impl *mesh;
    const weft_placement *row_placements, *column_placements;
    weft_dtype index_type;
    const void *const *offsets, *const *indices;
} weft_csr_arguments;

/* Finds the cuts. False with the error kept. */
bool weft_sparse_check_cuts(const weft_csr_arguments *given, weft_sparse_impl *a);
/* A digest of the shape and the cuts, for processes to compare. */
int64_t weft_sparse_fingerprint(const weft_csr_arguments *given, const weft_sparse_impl *a);
/* The layout of a cut of dimension 0; NULL with the error kept. */
const weft_layout *weft_sparse_layout(const char *function, const weft_sparse_impl *a, weft_placement cut, int ndim,
                                      const int64_t shape[], weft_dtype dtype);
/* A rank holds the indices *first to *first + *count - 1 of a dimension of `size`; none if it is outside the mesh. */
void weft_sparse_range(const weft_sparse_impl *a, weft_placement cut, int64_t size, int rank, int64_t *first, int64_t *count);
/* Makes a structure: a call of all processes, within a scope. `right`: the arguments are, else the error is kept. BLOCKS. NULL with
 * the error kept, the same status everywhere. */
weft_sparse_impl *weft_sparse_make(const weft_csr_arguments *given, bool right);
void weft_sparse_free(weft_sparse_impl *a);

/* Arguments of weft_sparse_create_coo(). */
typedef struct weft_coo_arguments {
    weft_csr_arguments csr; /* without offsets and indices */
    const int64_t *counts, *rows, *columns; /* by hosted rank; one rank's after the other's */
    bool lists; /* the index list of coordinates is wanted */
} weft_coo_arguments;

/* The same, and *coordinates. (sparse_coo.c) */
weft_sparse_impl *weft_sparse_make_of_coordinates(const weft_coo_arguments *given, bool right, weft_index_list **coordinates);

#endif
