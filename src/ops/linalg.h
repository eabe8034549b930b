/* What the files of linear algebra share. */
#ifndef WEFT_SRC_OPS_LINALG_H
#define WEFT_SRC_OPS_LINALG_H

#include <weft/linalg.h>

#include "codelets/factorizations.h"
#include "ops/ops.h"

#define WEFT_TYPES_LINALG (WEFT_TYPES_WIDE | WEFT_TYPES_COMPLEX)

enum { WEFT_MOST_WORK = 1 << 14 }; /* rows or columns, the fewer of them, whose work arrays LAPACK can count */

/* A matrix, or a batch of them, at most `most` rows or at most `most` columns (0: as LAPACK can count); `square`: with as many rows as
 * columns. False with the error kept. */
bool weft_check_matrices(const char *function, const char *name, weft_tensor *a, bool square, int64_t most);

/* Whether a system of square matrices a has right-hand sides b: their rows (left) or columns, and dimensions before, that broadcast. False
 * with the error kept. */
bool weft_check_system(const char *function, const char *name_a, const weft_tensor *a, const char *name_b, const weft_tensor *b, bool left);

/* Of the last two dimensions; NULL for NULL, with the error kept. */
weft_tensor *weft_adjoint(weft_tensor *a);
weft_tensor *weft_adjoint_product(weft_tensor *a, weft_tensor *b); /* a^H b */
weft_tensor *weft_product_adjoint(weft_tensor *a, weft_tensor *b); /* a b^H */
/* A vector as rows that are all the same, [..., 1, n], or as columns, [..., n, 1]. */
weft_tensor *weft_as_row(weft_tensor *a);
weft_tensor *weft_as_column(weft_tensor *a);

/* `expands` and `expand` of a call whose inputs 0 and 1 have different dimensions before their matrices, and input 2 some before its
 * vectors: they are repeated. */
bool weft_batches_differ(const weft_call_layouts *call);
bool weft_expand_batches(const weft_call *call, weft_tensor *outputs[]);
/* Their number and sizes, which fit together. */
int weft_common_batch(const weft_call *call, int64_t batch[]);
/* A tensor of items (2: matrices, 1: vectors) with these dimensions before them. */
weft_tensor *weft_with_batch(weft_tensor *a, int count, const int64_t batch[], int item_dims);

/* `expands` and `expand` of weft_cholesky() of one matrix that ranks share. */
bool weft_cholesky_is_shared(const weft_call_layouts *call);
bool weft_cholesky_by_blocks(const weft_call *call, weft_tensor *outputs[]);

/* Whether ranks of a mesh of one dimension share a large matrix; then, how many rows a block of it has: as the matrix is dealt, or several
 * blocks for each rank. Each rank has at least one whole block. */
bool weft_matrix_is_shared(const weft_layout *a);
int64_t weft_block_of(const weft_layout *a); /* of its rows, or if it is square of its columns */
int64_t weft_block_of_size(const weft_layout *a, int64_t rows);
/* `expands` and `expand` of the operation lu_factor (lu_factors.c) of one matrix that ranks share. */
bool weft_lu_is_shared(const weft_call_layouts *call);
bool weft_lu_by_blocks(const weft_call *call, weft_tensor *outputs[]);
/* The rows as [blocks of each rank, ranks x block, n]: dimension 1 is shared. The rows after the last, and in a square matrix the columns
 * too, are 0. And the m x n matrix of such rows. */
weft_tensor *weft_deal_rows(const char *function, weft_tensor *a, int64_t block);
weft_tensor *weft_gather_dealt(weft_tensor *dealt, int64_t m, int64_t n);
/* Block number `step` of such rows, as a matrix. */
weft_tensor *weft_take_block(weft_tensor *dealt, int64_t step, int64_t block);

/* `expand` of weft_qr() of one matrix that ranks share, by blocks of columns, and whether it is so expanded. */
bool weft_qr_is_shared(const weft_layout *a);
bool weft_qr_by_blocks(const weft_call *call, weft_tensor *outputs[]);
/* `expands` and `expand` of weft_qr() and weft_svd() of one tall matrix whose rows ranks share. */
bool weft_matrix_is_tall(const weft_call_layouts *call);
bool weft_qr_of_tall(const weft_call *call, weft_tensor *outputs[]);
bool weft_svd_of_tall(const weft_call *call, weft_tensor *outputs[]);

/* numbers of weft_kernel_triangular_solve(). */
typedef struct weft_triangle {
    bool upper, left, unit, adjoint, factor; /* factor: messages call the matrix so */
    int64_t first; /* the first row's number, for messages */
} weft_triangle;

/* A system with one matrix that ranks share. */
bool weft_triangle_is_shared(const weft_call_layouts *call);
bool weft_solve_by_blocks(const weft_call *call, weft_triangle how, weft_tensor *outputs[]);

/* Partial sums are reduced, and all rows are on each rank: if rows were shared and there are enough columns, these are then. */
weft_tensor *weft_right_sides(const char *function, weft_tensor *b);

/* The packed factors and pivots of weft_lu_factor(); `reports`: a pivot of 0 is an error. And a solution by them. */
bool weft_factor_lu(const char *function, weft_tensor *a, bool reports, weft_tensor *factors[2]);
weft_tensor *weft_solve_factored(const char *function, weft_tensor *const factors[2], weft_tensor *b, bool adjoint);

/* Live tensors. NULL with the error kept. */
weft_tensor *weft_solve_triangle(const char *function, weft_tensor *a, weft_tensor *b, weft_triangle how);
weft_tensor *weft_inverse_for(const char *function, weft_tensor *a); /* weft_inverse(), named so in messages */

#endif
