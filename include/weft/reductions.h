/** \file
 * Reductions over one dimension `dim`, or over all with dim WEFT_ALL_DIMS (a scalar, unless keepdim);
 * *_over: over several (`dims`; none: over all). A scalar takes dimension 0 and -1, and stays one. keepdim: reduced
 * dimensions are kept with size 1. Along
 * sharded dimensions each rank reduces its part, and the result is Partial. The order of sums depends on
 * the layout, but not on timing: results are reproducible bit for bit. Floating types are summed in
 * double precision; 16-bit ones are rounded once, at the end. Errors, beside those of all operations:
 * WEFT_ERR_INVALID for a dimension out of range or named twice, WEFT_ERR_SHAPE for the largest or
 * smallest of no elements. */
#ifndef WEFT_REDUCTIONS_H
#define WEFT_REDUCTIONS_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Sums and products; of integers and truth values WEFT_I64, which wraps around. \{ */
WEFT_API weft_tensor *weft_sum(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_sum_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
WEFT_API weft_tensor *weft_prod(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_prod_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/** Averages of floating types; NaN of no elements. \{ */
WEFT_API weft_tensor *weft_mean(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_mean_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/** The largest and the smallest value; NaN where there is one. \{ */
WEFT_API weft_tensor *weft_max(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_max_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
WEFT_API weft_tensor *weft_min(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_min_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/** Whether any value, or each value, is not 0: WEFT_BOOL. \{ */
WEFT_API weft_tensor *weft_any(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_any_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
WEFT_API weft_tensor *weft_all(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_all_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/** (sum |a|^p)^(1/p); p = INFINITY: the largest |a| (WEFT_ERR_SHAPE where there is none); p = 0: how many are
 * not 0. Floating types; p is at least 0. \{ */
WEFT_API weft_tensor *weft_norm(weft_tensor *a, double p, int dim, bool keepdim);
WEFT_API weft_tensor *weft_norm_over(weft_tensor *a, double p, int num_dims, const int dims[], bool keepdim);
/** \} */

/** Squared distance from the mean, summed over n values and divided by n - correction (1: the sample's
 * variance, 0: the population's). Floating types. With n <= correction infinity, and NaN where all values
 * are equal; NaN where there are none. \{ */
WEFT_API weft_tensor *weft_var(weft_tensor *a, int dim, double correction, bool keepdim);
WEFT_API weft_tensor *weft_var_over(weft_tensor *a, int num_dims, const int dims[], double correction,
                                    bool keepdim);
/** \} */

/** The square root of weft_var(), 0 of equal values; the gradient is 0 there. \{ */
WEFT_API weft_tensor *weft_std(weft_tensor *a, int dim, double correction, bool keepdim);
WEFT_API weft_tensor *weft_std_over(weft_tensor *a, int num_dims, const int dims[], double correction,
                                    bool keepdim);
/** \} */

/** The logarithm of the sum of e^a, without overflow; -INFINITY of no elements. Integers and truth values give WEFT_F32. \{ */
WEFT_API weft_tensor *weft_logsumexp(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_logsumexp_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/** Sums and averages of the elements that are not NaN, which get no gradient. Sums: types as of weft_sum(), 0 of none.
 * Averages: floating types, NaN of none. \{ */
WEFT_API weft_tensor *weft_nansum(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_nansum_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
WEFT_API weft_tensor *weft_nanmean(weft_tensor *a, int dim, bool keepdim);
WEFT_API weft_tensor *weft_nanmean_over(weft_tensor *a, int num_dims, const int dims[], bool keepdim);
/** \} */

/**
 * The median over one dimension, or with WEFT_ALL_DIMS over all: the lower of two in the middle, as PyTorch's. NaN where an
 * element is. A sharded dimension is gathered. WEFT_ERR_SHAPE without elements.
 * \param indices  NULL, or gets its index (WEFT_I64): the first of those that the lower half leaves among equals, as
 *                 weft_sort() orders them; of a NaN the first. NULL on error
 */
WEFT_API weft_tensor *weft_median(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices);

/** Between two elements. */
typedef enum weft_quantile_way {
    WEFT_QUANTILE_LINEAR = 0,
    WEFT_QUANTILE_LOWER,
    WEFT_QUANTILE_HIGHER,
    WEFT_QUANTILE_MIDPOINT,
    WEFT_QUANTILE_NEAREST /**< a half: the even rank */
} weft_quantile_way;

/** The quantile at rank q (size - 1) of the sorted elements, computed in double precision; dimensions and NaN as of
 * weft_median(). Floating types. WEFT_ERR_INVALID unless 0 <= q <= 1. */
WEFT_API weft_tensor *weft_quantile(weft_tensor *a, double q, int dim, bool keepdim, weft_quantile_way way);

/** Covariances of variables [v, n], a row each: [v, v], divided by n - correction; of one variable [n] a scalar. Floating
 * types; 16-bit ones are computed in single precision. A divisor that is not positive counts as 0, as in PyTorch. */
WEFT_API weft_tensor *weft_cov(weft_tensor *a, double correction);

WEFT_END_DECLS

#endif
