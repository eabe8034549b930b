/** \file
 * Linear algebra of dense matrices by LAPACK, as torch.linalg and numpy.linalg. A tensor [..., m, n] holds a matrix for each index of its
 * first dimensions, the batch. The batch may be sharded in any way. Each matrix is whole on the ranks that work on it: if a tensor
 * is sharded along the last two dimensions, weft redistributes it so that they are whole. The results are sharded as the batch is.
 *
 * Types are WEFT_F32, WEFT_F64, WEFT_C64 and WEFT_C128 (WEFT_ERR_DTYPE); both operands of a call have the same type. A matrix that is
 * not square where it must be, or a tensor of less than two dimensions, is WEFT_ERR_SHAPE.
 *
 * Whether a matrix is singular is known only when the task runs. On the processes that have the matrix the next blocking call then
 * returns WEFT_ERR_INVALID; the message says which function, and which matrix of the batch: "weft_solve: matrix [3] of a is singular:
 * pivot 2 is 0". Its results are undefined.
 *
 * One large matrix: weft_cholesky(), weft_triangular_solve() with `left`, and so weft_cholesky_solve(), of a tensor [n, n] with
 * n >= 512 that is sharded on a mesh of one dimension, at least 32 rows for each rank, work on blocks of its rows; weft_lu_factor(),
 * weft_lu(), weft_lu_solve(), weft_solve(), weft_inverse(), weft_det() and weft_slogdet() on blocks of its columns; so do weft_qr(), and
 * weft_lstsq() with rtol 0, of [m, n] with m, n >= 512 and at least 32 for each rank. weft_qr(), weft_svd(), weft_pinv() and weft_lstsq() of a tall tensor [m, n] in S0 on such a mesh with m / ranks >= 4 n decompose each rank's rows, and then
 * the factors R of all ranks, [ranks n, n], on each rank. These calls bring no such matrix to a rank as a whole, nor do the
 * gradients of weft_solve() and weft_slogdet(); other gradients do. All other matrices are whole on each rank that works on them, and one
 * task computes each.
 *
 * Gradients are PyTorch's. Partial sums of right-hand sides pass through solvers unreduced, except where ranks share the one large matrix:
 * then they are reduced first. The tasks run on CPUs. */
#ifndef WEFT_LINALG_H
#define WEFT_LINALG_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * The Cholesky factor of Hermitian positive-definite matrices a [..., n, n]: L with a = L L^H, or, for `upper`, U with a = U^H U. Only the
 * lower triangle of a is read, for `upper` only the upper one. The other triangle of the result is 0.
 *
 * The gradient is that of a Hermitian a: a Hermitian matrix.
 *
 *     weft_tensor *l = weft_cholesky(a, false);
 */
WEFT_API weft_tensor *weft_cholesky(weft_tensor *a, bool upper);
/** Solves a x = b for the factor of a that weft_cholesky() has returned: b [..., n, k] gives x [..., n, k]. Batches broadcast.
 *
 *     weft_tensor *x = weft_cholesky_solve(b, weft_cholesky(a, false), false); */
WEFT_API weft_tensor *weft_cholesky_solve(weft_tensor *b, weft_tensor *factor, bool upper);
/**
 * Solves a x = b with triangular a [..., n, n] for b [..., n, k]; without `left`, x a = b for b [..., k, n]. Batches broadcast.
 * Columns of b (without `left` rows) may stay sharded.
 *
 * \param upper  a is the upper triangle; else the lower one. The other triangle is not read
 * \param unit   the diagonal of a is taken as 1, and not read
 *
 *     weft_tensor *y = weft_triangular_solve(l, b, false, true, false);
 */
WEFT_API weft_tensor *weft_triangular_solve(weft_tensor *a, weft_tensor *b, bool upper, bool left, bool unit);

/** Solves a x = b, for a [..., n, n] and b [..., n, k], by LU with partial pivoting. Batches broadcast; columns of b may stay sharded.
 * b [n], a tensor of one dimension, is a vector, and the result is [..., n]. All others are matrices:
 * torch.linalg.solve() takes b [4, 4] with a [4, 4, 4] as a batch of 4 vectors, weft as one matrix.
 *
 *     weft_tensor *x = weft_solve(a, b); */
WEFT_API weft_tensor *weft_solve(weft_tensor *a, weft_tensor *b);
/**
 * LU with partial pivoting of a [..., m, n]: a = P L U, for k = min(m, n) L [..., m, k] is lower triangular with a diagonal of ones, U
 * [..., k, n] upper triangular. Returns both in one tensor [..., m, n]: U in its upper triangle, and L without its diagonal below. A
 * pivot of 0 is an error, as in weft_solve().
 *
 * \param pivots  receives the exchanges [..., k], WEFT_I64: row i was exchanged with row pivots[i] >= i, for i = 0, 1, .... NULL on
 *                error; may be NULL. They count from 0; those of LAPACK and PyTorch count from 1
 *
 *     weft_tensor *pivots, *lu = weft_lu_factor(a, &pivots);
 */
WEFT_API weft_tensor *weft_lu_factor(weft_tensor *a, weft_tensor **pivots);
/** Solves a x = b, with `adjoint` a^H x = b, by the factors of a [..., n, n] that weft_lu_factor() has returned: b [..., n, k] gives
 * x [..., n, k]. Batches broadcast; columns of b may stay sharded. Pivots that are no exchanges are WEFT_ERR_INVALID, in the next
 * call that waits.
 *
 *     weft_tensor *x = weft_lu_solve(lu, pivots, b, false); */
WEFT_API weft_tensor *weft_lu_solve(weft_tensor *lu, weft_tensor *pivots, weft_tensor *b, bool adjoint);
/** LU with partial pivoting as three matrices: returns P [..., m, m], a permutation in the type of a, with a = P L U. A pivot of 0 is no
 * error.
 *
 * \param lower, upper  receive L [..., m, k] and U [..., k, n], k = min(m, n); NULL on error. May be NULL
 *
 *     weft_tensor *l, *u, *p = weft_lu(a, &l, &u); */
WEFT_API weft_tensor *weft_lu(weft_tensor *a, weft_tensor **lower, weft_tensor **upper);
/** The inverses of a [..., n, n]. weft_solve() is faster and more accurate than a product with an inverse. */
WEFT_API weft_tensor *weft_inverse(weft_tensor *a);
/** The determinants of a [..., n, n]: [...]. That of a singular matrix is 0 or near 0, and no error; its gradient, the cofactors, is
 * computed by singular values, for n at most 16384 (WEFT_ERR_UNSUPPORTED). */
WEFT_API weft_tensor *weft_det(weft_tensor *a);
/** The determinants of a [..., n, n] as signs (for complex types, numbers of size 1) and logarithms of sizes: det = sign exp(logarithm).
 * A singular matrix has sign 0 and logarithm -infinity, and its gradient is an error.
 *
 * \param logarithm  receives the logarithms [...], real; NULL on error. May be NULL
 *
 *     weft_tensor *logarithm, *sign = weft_slogdet(a, &logarithm); */
WEFT_API weft_tensor *weft_slogdet(weft_tensor *a, weft_tensor **logarithm);

/** Reduced QR decomposition of a [..., m, n]: returns Q [..., m, k], k = min(m, n), with orthonormal columns. a = Q R with upper triangular
 * R, whose diagonal is real, of any sign.
 *
 * \param triangle  receives R [..., k, n], NULL on error; may be NULL
 *
 *     weft_tensor *r, *q = weft_qr(a, &r); */
WEFT_API weft_tensor *weft_qr(weft_tensor *a, weft_tensor **triangle);
/** The same with all m columns of Q [..., m, m], and R [..., m, n], whose rows from n on are 0. For m > n it has no gradient, as in PyTorch:
 * WEFT_ERR_UNSUPPORTED from the call that asks for it. The first n columns are those of weft_qr() but for a matrix that it decomposes by
 * ranks (TSQR), where they may have other signs.
 *
 *     weft_tensor *r, *q = weft_qr_complete(a, &r); */
WEFT_API weft_tensor *weft_qr_complete(weft_tensor *a, weft_tensor **triangle);
/**
 * Eigenvalues of Hermitian a [..., n, n], real and ascending: [..., n]. Only the lower triangle of a is read, or for `upper` only the upper
 * one. n is at most 16384 (WEFT_ERR_UNSUPPORTED). Elements that are not finite are an error.
 *
 * An eigenvector is determined up to its sign, or its phase: a loss must not depend on that. The gradient of the vectors is
 * infinite or NaN if two eigenvalues are equal.
 *
 * \param vectors  receives the eigenvectors, the columns of [..., n, n], NULL on error. May be NULL: only the values are computed
 *
 *     weft_tensor *vectors, *values = weft_eigh(a, false, &vectors);
 */
WEFT_API weft_tensor *weft_eigh(weft_tensor *a, bool upper, weft_tensor **vectors);
/**
 * Eigenvalues of any square a [..., n, n], in no order: [..., n], WEFT_C64 or WEFT_C128 for real a too. n is at most 16384
 * (WEFT_ERR_UNSUPPORTED). Elements that are not finite are an error.
 *
 * An eigenvector has length 1 and is determined up to its phase: a loss must not depend on that. The gradient is infinite or NaN if a
 * has not n vectors that are independent, or if two eigenvalues are equal, that of the values alone only in the former case.
 *
 * \param vectors  receives the eigenvectors, the columns of [..., n, n], complex, NULL on error. May be NULL: only the values are
 *                 computed, unless a needs a gradient
 *
 *     weft_tensor *vectors, *values = weft_eig(a, &vectors);
 */
WEFT_API weft_tensor *weft_eig(weft_tensor *a, weft_tensor **vectors);
/**
 * Singular values of a [..., m, n], descending: S [..., k], k = min(m, n). a = U S V^H, where U and V have orthonormal columns. k is
 * at most 16384 (WEFT_ERR_UNSUPPORTED). Elements that are not finite are an error.
 *
 * A pair of vectors is determined up to its sign, or its phase: a loss must not depend on that. The gradient of the vectors is
 * infinite or NaN if two singular values are equal, or one is 0 and a is not square.
 *
 * \param u, vh  receive U [..., m, k] and V^H [..., k, n], NULL on error. May be NULL; if both are, only the values are computed
 *
 *     weft_tensor *u, *vh, *s = weft_svd(a, &u, &vh);
 */
WEFT_API weft_tensor *weft_svd(weft_tensor *a, weft_tensor **u, weft_tensor **vh);

/** The pseudo-inverses [..., n, m] of a [..., m, n] (Moore, Penrose), by singular values: those of at most rtol times the largest count as
 * 0. A negative rtol: max(m, n) times the distance from 1 to the next number of the type. min(m, n) is at most 16384
 * (WEFT_ERR_UNSUPPORTED).
 *
 *     weft_tensor *inverse = weft_pinv(a, -1); */
WEFT_API weft_tensor *weft_pinv(weft_tensor *a, double rtol);
/** The ranks of a [..., m, n], the number of singular values above rtol times the largest: [...], WEFT_I64. rtol as for weft_pinv(). */
WEFT_API weft_tensor *weft_matrix_rank(weft_tensor *a, double rtol);
/** The condition numbers of a [..., m, n], the largest singular value divided by the smallest: [...], real. That of a singular matrix is
 * large or infinite, that of a zero matrix infinite. A matrix without elements is WEFT_ERR_SHAPE. */
WEFT_API weft_tensor *weft_cond(weft_tensor *a);
/** The x that minimise |a x - b|, those of smallest norm if there are several: weft_pinv(a, rtol) times b. a [..., m, n] and
 * b [..., m, k] give [..., n, k]; a vector b [m] gives [..., n].
 *
 * \param rtol  as for weft_pinv(). 0 says that a has full rank: it is decomposed by weft_qr() (LAPACK: gels), which is faster and more
 *              accurate, and one large matrix that ranks share stays shared. Without full rank the results are large, or a pivot
 *              of 0 is an error, as in weft_solve()
 *
 *     weft_tensor *x = weft_lstsq(a, b, -1); */
WEFT_API weft_tensor *weft_lstsq(weft_tensor *a, weft_tensor *b, double rtol);
/** a [..., n, n] multiplied by itself: a^n; for a negative n, the inverse's power. a^0 is the unit matrix. */
WEFT_API weft_tensor *weft_matrix_power(weft_tensor *a, int64_t n);
/** The exponentials of a [..., n, n]: 1 + a + a^2 / 2 + .... Elements that are not finite are an error. */
WEFT_API weft_tensor *weft_matrix_exp(weft_tensor *a);

WEFT_END_DECLS

#endif
