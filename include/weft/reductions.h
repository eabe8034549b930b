/** \file
 * Reductions over dimensions `dims`: one dimension, a set of them, or WEFT_ALL_DIMS (the result is a scalar, unless
 * keepdim). A scalar accepts dimension 0 and -1, and stays a scalar. With keepdim, reduced dimensions are kept with
 * size 1.
 *
 *     weft_tensor *rows = weft_sum(a, 1, false);
 *     weft_tensor *channels = weft_mean(a, WEFT_DIM(0) | WEFT_DIM(2) | WEFT_DIM(3), false);
 *     weft_tensor *largest = weft_max(a, WEFT_ALL_DIMS, false);
 *
 * Along sharded dimensions each rank reduces its part, and the result is Partial. The order of sums depends on the
 * layout, but not on timing: results are reproducible bit for bit. Floating types are summed in double precision;
 * 16-bit types are rounded once, at the end.
 *
 * Besides the errors of all operations, WEFT_ERR_INVALID if a dimension is out of range or named twice (0 and -2 of a matrix), and
 * WEFT_ERR_SHAPE for the largest or smallest value of no elements. */
#ifndef WEFT_REDUCTIONS_H
#define WEFT_REDUCTIONS_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Sums and products. Integers and truth values give WEFT_I64, which wraps around. \{ */
WEFT_API weft_tensor *weft_sum(weft_tensor *a, int dims, bool keepdim);
WEFT_API weft_tensor *weft_prod(weft_tensor *a, int dims, bool keepdim);
/** \} */

/** Averages of floating types; NaN if there are no elements. \{ */
WEFT_API weft_tensor *weft_mean(weft_tensor *a, int dims, bool keepdim);
/** \} */

/** The largest and the smallest value; NaN if there is a NaN. \{ */
WEFT_API weft_tensor *weft_max(weft_tensor *a, int dims, bool keepdim);
WEFT_API weft_tensor *weft_min(weft_tensor *a, int dims, bool keepdim);
/** \} */

/** Whether any value, or every value, is not 0: WEFT_BOOL. \{ */
WEFT_API weft_tensor *weft_any(weft_tensor *a, int dims, bool keepdim);
WEFT_API weft_tensor *weft_all(weft_tensor *a, int dims, bool keepdim);
/** \} */

/** Norms: (sum |a|^p)^(1/p). p = INFINITY gives the largest |a| (WEFT_ERR_SHAPE if there are no elements); p = 0
 * counts the elements that are not 0. Floating types; p is at least 0. For example, the norm of the whole tensor is
 * weft_norm(a, 2, WEFT_ALL_DIMS, false). \{ */
WEFT_API weft_tensor *weft_norm(weft_tensor *a, double p, int dims, bool keepdim);
/** \} */

/** The variance: the squared distances from the mean, summed over n values and divided by n - correction (1: the
 * variance of a sample, 0: of the population). Floating types; of complex
 * numbers the sum of the variances of both parts, real. If n <= correction, the result is infinity, or NaN if
 * all values are equal. Without elements it is NaN. For example, weft_var(a, WEFT_ALL_DIMS, 1, false) is the variance
 * of all elements. \{ */
WEFT_API weft_tensor *weft_var(weft_tensor *a, int dims, double correction, bool keepdim);
/** \} */

/** The standard deviation: the square root of weft_var(). It is 0 if all values are equal; the gradient is 0 there.
 * Arguments as for weft_var(). \{ */
WEFT_API weft_tensor *weft_std(weft_tensor *a, int dims, double correction, bool keepdim);
/** \} */

/** The logarithm of the sum of e^a, without overflow; -INFINITY if there are no elements. Integers and truth values
 * give WEFT_F32; complex numbers are taken too. \{ */
WEFT_API weft_tensor *weft_logsumexp(weft_tensor *a, int dims, bool keepdim);
/** \} */

/** Sums and averages of the elements that are not NaN; NaN elements get no gradient. Sums have the types of
 * weft_sum(), and are 0 if there is no such element. Averages are of floating types, and NaN if there is none. \{ */
WEFT_API weft_tensor *weft_nansum(weft_tensor *a, int dims, bool keepdim);
WEFT_API weft_tensor *weft_nanmean(weft_tensor *a, int dims, bool keepdim);
/** \} */

/**
 * Returns the median over one dimension, or with WEFT_ALL_DIMS over all. It is the lower of the two values in the
 * middle, as in PyTorch. NaN if an element is NaN. A sharded dimension is gathered. WEFT_ERR_SHAPE if there are no
 * elements.
 *
 * \param indices  NULL, or receives the index of the median (WEFT_I64); NULL on error. Among equal elements it is the
 *                 first one that is not in the lower half, in the order of weft_sort(). For a NaN it is the first NaN
 */
WEFT_API weft_tensor *weft_median(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);

/** Which value a quantile between two elements has. */
typedef enum weft_quantile_way {
    WEFT_QUANTILE_LINEAR = 0,
    WEFT_QUANTILE_LOWER,
    WEFT_QUANTILE_HIGHER,
    WEFT_QUANTILE_MIDPOINT,
    WEFT_QUANTILE_NEAREST /**< halfway between: the element with the even rank */
} weft_quantile_way;

/** Returns the quantile at rank q (size - 1) of the sorted elements, computed in double precision. Dimensions and NaN
 * are as in weft_median(). Floating types. WEFT_ERR_INVALID unless 0 <= q <= 1.
 *
 *     weft_tensor *quartile = weft_quantile(a, 0.25, 0, false, WEFT_QUANTILE_LINEAR); */
WEFT_API weft_tensor *weft_quantile(weft_tensor *a, double q, int dim, bool keepdim, weft_quantile_way way);

/** Returns the covariances of variables [v, n], one row each: [v, v], divided by n - correction. For one variable [n]
 * the result is a scalar. Floating types; 16-bit types are computed in single precision. Complex numbers: the sums of
 * (a_i - mean) conj(a_j - mean), a Hermitian matrix. A divisor that is not
 * positive counts as 0, as in PyTorch. */
WEFT_API weft_tensor *weft_cov(weft_tensor *a, double correction);

WEFT_END_DECLS

#endif
