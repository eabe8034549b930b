/* LAPACK on one matrix. Matrices are row-major and have no gaps: LAPACK sees their transposes, and functions are called such that
 * nothing is copied for that where it can be avoided. */
#ifndef WEFT_CODELETS_CPU_LAPACK_H
#define WEFT_CODELETS_CPU_LAPACK_H

#include <stdbool.h>

#include <weft/kernel.h>

#include "codelets/factorizations.h"

/* Results beside LAPACK's own: 0, or a positive number. */
enum { WEFT_LAPACK_NO_MEMORY = -1000, WEFT_LAPACK_NOT_FINITE, WEFT_LAPACK_NO_EXCHANGES };

typedef struct weft_triangular {
    bool upper, left, unit, adjoint;
} weft_triangular;

/* The functions of one type, named after the kernels of factorizations.h. */
typedef struct weft_lapack {
    /* In place. i > 0: the leading minor of order i is not positive. */
    int (*cholesky)(bool upper, int n, void *a);
    /* In place of b, which is rows x columns. i > 0: diagonal element i - 1 is 0, and b is as it was. */
    int (*triangular_solve)(const weft_triangular *t, int rows, int columns, const void *a, void *b);
    /* In place. pivots: may be NULL. i > 0: pivot i - 1 is 0. */
    int (*lu_factor)(int m, int n, void *a, int64_t pivots[]);
    /* In place of b, which is n x k. i > 0: pivot i - 1 is 0, and b is as it was. */
    int (*lu_solve)(bool adjoint, int n, int k, const void *lu, const int64_t pivots[], void *b);
    /* logarithm: NULL for the determinant itself. */
    void (*determinant)(int n, const void *diagonal, const int64_t pivots[], void *determinant, void *logarithm);
    /* In place. i > 0: pivot i - 1 is 0. */
    int (*inverse)(int n, void *a);
    int (*cofactors)(int n, const void *a, void *cofactors);
    int (*matrix_exp)(int n, const void *a, void *result);
    /* width: columns of Q and rows of R, min(m, n) or m. */
    int (*qr)(int m, int n, int width, const void *a, void *q, void *r);
    /* vectors: NULL for the values alone. i > 0: no convergence. */
    int (*eigh)(bool upper, int n, const void *a, void *values, void *vectors);
    /* u and vh: both NULL for the values alone. i > 0: no convergence. */
    int (*svd)(int m, int n, const void *a, void *values, void *u, void *vh);
    /* In place of rows [first, first + k) of a matrix of n columns; rows from `end` on are those of the unit matrix. i > 0: the leading
     * minor of order first + i is not positive. */
    int (*cholesky_panel)(int k, int n, int first, int end, void *panel);
    /* Subtracts U^H U from `rows` rows, the first of which is number `row`, from column `row` on. */
    void (*cholesky_update)(int rows, int row, int k, int n, const void *panel, void *a);
    /* In place of k columns of a matrix, columns first, first + 1, ..., each of them a row of n elements of which `end` are the
     * matrix's: the factors of what is below row `first`. i > 0: pivot i - 1 is 0. */
    int (*lu_panel)(int k, int n, int first, int end, void *panel, int64_t pivots[]);
    /* `rows` later columns of the matrix after a panel: its exchanges, its U, and what is left of the rows below. */
    void (*lu_update)(int rows, int k, int n, int first, int end, const void *panel, const int64_t pivots[], void *a);
    /* In place of k columns as in lu_panel(): R, and the vectors of reflections; t: their triangle, k x k by columns. */
    int (*qr_panel)(int k, int n, int first, int end, void *panel, void *t);
    /* Multiplies `rows` columns of the matrix by a panel's reflections. */
    int (*qr_update)(bool adjoint, int rows, int k, int n, int first, int end, const void *panel, const void *t, void *a);
    /* Exchanges element first + i with element pivots[i] of each of `rows` rows, for i = 0, ..., count - 1. */
    void (*exchange_columns)(int rows, int n, int first, int count, const int64_t pivots[], void *a);
    /* Only complex types have it. vectors: NULL for the values alone. i > 0: no convergence. */
    int (*eig)(int n, const void *a, void *values, void *vectors);
} weft_lapack;

/* WEFT_F32, WEFT_F64, WEFT_C64 or WEFT_C128. */
const weft_lapack *weft_lapack_of(weft_dtype dtype);

#endif
