/* Linear algebra of the matrices in the last two dimensions of views: each of them is whole in its task. "..." stands for the batch:
 * further dimensions, the same in all inputs and outputs that have them. f32, f64, c64 and c128. */
#ifndef WEFT_CODELETS_FACTORIZATIONS_H
#define WEFT_CODELETS_FACTORIZATIONS_H

#include <weft/kernel.h>

/* A [..., n, n] -> L with A = L L^H; with numbers[0], U with A = U^H U. Only that triangle of A is read. */
void weft_kernel_cholesky(const weft_kernel_call *call);

/* A [..., n, n], B [..., n, k] -> X with A X = B; without WEFT_TRIANGULAR_LEFT B [..., k, n] -> X with X A = B. With
 * WEFT_TRIANGULAR_ADJOINT A^H is in the place of A. A is a triangle: its other elements are not read, nor is the diagonal if
 * WEFT_TRIANGULAR_UNIT says that it is 1. WEFT_TRIANGULAR_FIRST: what messages call row 0. WEFT_TRIANGULAR_FACTOR: they
 * call A `factor`, not `a`. */
enum {
    WEFT_TRIANGULAR_UPPER,
    WEFT_TRIANGULAR_LEFT,
    WEFT_TRIANGULAR_UNIT,
    WEFT_TRIANGULAR_ADJOINT,
    WEFT_TRIANGULAR_FIRST,
    WEFT_TRIANGULAR_FACTOR,
    WEFT_TRIANGULAR_NUMBERS
};
void weft_kernel_triangular_solve(const weft_kernel_call *call);

/* A [..., m, n] -> L and U in one matrix, pivots [..., min(m, n)], i64: A = P L U, L without its diagonal of ones. P A exchanges row i with
 * row pivots[i], for i = 0, 1, .... numbers[0]: a pivot of 0 is reported. The pivots may be
 * missing. */
void weft_kernel_lu_factor(const weft_kernel_call *call);
/* LU, B [..., n, k], pivots -> X with A X = B; with numbers[0], A^H X = B. */
void weft_kernel_lu_solve(const weft_kernel_call *call);
/* Pivots [..., k] -> the rows of A [..., m] in the order of P^T A, k <= m; with numbers[0], of P A. */
void weft_kernel_row_order(const weft_kernel_call *call);
/* The diagonal of LU [..., n], pivots -> the determinant; with numbers[0], the determinant divided by its size, and the logarithm of the
 * size. */
void weft_kernel_determinant(const weft_kernel_call *call);
/* A [..., n, n] -> A^-1 */
void weft_kernel_inverse(const weft_kernel_call *call);
/* A [..., n, n] -> the conjugates of its cofactors: the gradient of the determinant, also of a singular matrix. By A = U S V^H it is
 * conj(det U det V^H) U D V^H, where D has the products of all singular values but one. */
void weft_kernel_cofactors(const weft_kernel_call *call);

/* A [..., n, n] -> e^A, by a Pade approximant of degree 13 of the matrix divided by a power of 2, which is squared again: Higham, The
 * Scaling and Squaring Method for the Matrix Exponential Revisited, 2005. */
void weft_kernel_matrix_exp(const weft_kernel_call *call);

/* A [..., m, n] -> Q [..., m, k], R [..., k, n], k = min(m, n) or m: A = Q R, Q^H Q = 1. */
void weft_kernel_qr(const weft_kernel_call *call);
/* A [..., n, n] -> eigenvalues [..., n], real, ascending, and V [..., n, n] with A V = V D. numbers[0]: the upper triangle is
 * read, not the lower one. */
void weft_kernel_eigh(const weft_kernel_call *call);
/* A [..., n, n], c64 or c128 -> eigenvalues [..., n] and V [..., n, n], columns of length 1, with A V = V D. V may be missing. */
void weft_kernel_eig(const weft_kernel_call *call);
/* A [..., m, n] -> S [..., k], real, descending, U [..., m, k], V^H [..., k, n], k = min(m, n): A = U S V^H. The last two
 * outputs may be missing. */
void weft_kernel_svd(const weft_kernel_call *call);

/* Steps of a factorisation of one matrix [n, n] of which ranks have blocks of rows. */

/* Rows [first, first + k) of A, [k, n], updated by all rows before -> those of U, A = U^H U; columns before `first` become 0.
 * numbers[0]: first; numbers[1]: rows
 * from this one on are those of the unit matrix. */
void weft_kernel_cholesky_panel(const weft_kernel_call *call);
/* In place, A [blocks, q, n], whose row (b, i) is row b q + i of the matrix: rows [first, first + k) become those of the panel U
 * [k, n], and from rows after them U^H U is subtracted, from the diagonal on. numbers[0]: first. */
void weft_kernel_cholesky_update(const weft_kernel_call *call);

/* The same of LU with the transpose: rows [first, first + k) of A^T, [k, n], updated by all rows before -> the packed factors of these
 * columns of A, pivots [k] (rows of A). numbers: first; how many of the n rows of A there are, the others are 0; a pivot of 0 is
 * reported. */
void weft_kernel_lu_panel(const weft_kernel_call *call);
/* In place, A^T [blocks, q, n], with the panel and its pivots: rows [first, first + k) become those of the panel; rows after them, their
 * elements from `first` on, are exchanged, and become those of U and of what is left. numbers: first; the rows of A. */
void weft_kernel_lu_update(const weft_kernel_call *call);
/* In place, A^T [blocks, q, n] with all pivots: the exchanges of the rows of L after each row's own block. numbers: rows of
 * a block; the rows of A. */
void weft_kernel_lu_exchange(const weft_kernel_call *call);

/* The same of QR: rows [first, first + k) of A^T, [k, n] -> these columns of R, and below row `first` the vectors V of their reflections,
 * in one matrix; T [k, k] with H = 1 - V T V^H, the product of the reflections. LAPACK stores T by columns. numbers: first; how many of
 * the n rows of A there are. */
void weft_kernel_qr_panel(const weft_kernel_call *call);
/* In place, A^T [blocks, q, n], with the panel and T. numbers: first; the rows of A. Rows [first, first + k) become those of the
 * panel, and rows after them, columns of A, are multiplied by H^H. With numbers[2] it is Q^T, and all rows from `first` on are multiplied
 * by H. */
void weft_kernel_qr_update(const weft_kernel_call *call);

#endif
