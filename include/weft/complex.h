/** \file
 * Complex numbers. WEFT_C64 and WEFT_C128 are pairs of WEFT_F32 and of WEFT_F64, with the real part first, as in C99
 * (`float complex`, `double complex`), Fortran, std::complex and NumPy.
 *
 * Types promote as in PyTorch: WEFT_F64 with WEFT_C64 gives WEFT_C128; other real types do not change a complex type, and WEFT_U16,
 * WEFT_U32 and WEFT_U64 have no common type with it.
 * weft_to_type() converts real to complex numbers. It refuses the other direction (WEFT_ERR_DTYPE): use weft_real().
 *
 * These functions take complex tensors: arithmetic (weft_add(), weft_sub(), weft_mul(), weft_div(), weft_pow(), weft_scale(),
 * weft_add_scalar(), weft_pow_scalar(), weft_add_scaled(), weft_addcmul(), weft_addcdiv(), and those in place), weft_neg(),
 * weft_abs(), weft_square(), weft_reciprocal(), roots, exponentials and logarithms, sines and hyperbolic sines with their inverses,
 * weft_sigmoid(), weft_lerp(), weft_lerp_tensor(), weft_eq(), weft_ne(), weft_eq_scalar(), weft_ne_scalar(), weft_logical_not() and the
 * other logical operations, weft_isnan(), weft_isinf(), weft_isfinite(), weft_where(), weft_masked_fill(), weft_nonzero(), weft_any(),
 * weft_all(), sums, means and products, also cumulative ones, weft_var(), weft_std(), weft_cov(), weft_logsumexp(), weft_norm(), products
 * of matrices, weft_einsum(), convolutions (not the functions for their gradients), weft_randn(), weft_dropout(), and all
 * functions that only move elements. Complex numbers
 * have no order, so comparisons, maxima, sorting and rounding refuse them (WEFT_ERR_DTYPE).
 *
 * Numbers beside complex tensors may be complex (::weft_scalar), except exponents, the factors of weft_addmm() and the values of
 * weft_index_fill() and weft_scatter_scalar().
 *
 * A Partial tensor of complex numbers may be a sum, an average or a product, but no minimum or maximum.
 *
 * Gradients are PyTorch's: that of a real loss L by a complex z = a + i b is dL/da + i dL/db. A real input of an
 * operation with a complex result gets the real part. A leaf may be complex; weft_backward() of a complex tensor
 * needs a gradient to begin with.
 *
 * Tasks on complex numbers run on CPUs, also where there are devices. */
#ifndef WEFT_COMPLEX_H
#define WEFT_COMPLEX_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The real part, and the imaginary part, as real tensors. weft_real() returns a real tensor itself;
 * weft_imag() of one is WEFT_ERR_DTYPE. \{ */
WEFT_API weft_tensor *weft_real(weft_tensor *a);
WEFT_API weft_tensor *weft_imag(weft_tensor *a);
/** \} */
/** The conjugate: a - i b of a + i b. A real tensor is returned itself. */
WEFT_API weft_tensor *weft_conj(weft_tensor *a);
/** a / |a|, 0 of 0: for complex numbers what weft_sign() is for real ones. weft_sign() of a real tensor. */
WEFT_API weft_tensor *weft_sgn(weft_tensor *a);
/** The angle of the complex number, -pi to pi; of a negative real number pi, of others 0. Real; floating. */
WEFT_API weft_tensor *weft_angle(weft_tensor *a);

/** real + i imag, of floating tensors, whose shapes broadcast. The result is WEFT_C128 if one of them is WEFT_F64, otherwise
 * WEFT_C64.
 *
 *     weft_tensor *z = weft_complex(x, y); */
WEFT_API weft_tensor *weft_complex(weft_tensor *real, weft_tensor *imag);
/** abs (cos(angle) + i sin(angle)), of floating tensors, as weft_complex(). */
WEFT_API weft_tensor *weft_polar(weft_tensor *abs, weft_tensor *angle);

/** A complex tensor of shape [...] as its parts, of shape [..., 2], and back: of WEFT_F32 or WEFT_F64 whose last dimension has size
 * 2. The new tensor shares the memory (docs/tensors.md, "Views"), except that of the program. As all tensors, it is a value: a
 * later change of one does not change the other. The last dimension is not sharded. WEFT_ERR_SHAPE if the size is not 2, or the
 * tensor has WEFT_MAX_DIMS dimensions already. \{ */
WEFT_API weft_tensor *weft_view_as_real(weft_tensor *a);
WEFT_API weft_tensor *weft_view_as_complex(weft_tensor *a);
/** \} */

WEFT_END_DECLS

#endif
