/** \file
 * Elementwise operations, with PyTorch's broadcasting of shapes and promotion of types.
 *
 * Types: all inputs are converted to one type, and the result is computed in that type. It is the smallest type that
 * can represent all inputs. A tensor without dimensions counts only if its category is higher (truth value, integer,
 * floating). So the conversion may change values: if you combine a WEFT_I64 scalar with a WEFT_I32 tensor, the scalar
 * loses its upper bits, and if you combine WEFT_I64 with WEFT_BF16, it is rounded to 16 bits. Comparisons and logical
 * operations convert in the same way. Operations without an integer result convert integers and truth values to
 * WEFT_F32. In place, the result is converted to the type of the first argument. WEFT_I8 and WEFT_U8 give WEFT_I16. As in PyTorch,
 * WEFT_U16, WEFT_U32 and WEFT_U64 have a common type with themselves and floating types alone (WEFT_ERR_DTYPE).
 *
 * WEFT_BF16 and WEFT_F16 are computed in single precision, and the result is rounded once. Two kinds of operands are
 * not rounded to 16 bits first:
 *  - the second input of weft_mul(), weft_mul_inplace(), weft_div() and weft_div_inplace() if it has one element, as
 *    in PyTorch on CPUs;
 *  - numbers (arguments that are not tensors). PyTorch on CPUs rounds some of them: the addend of weft_add_scalar(),
 *    the factor of weft_add_scaled(). The exponent of weft_pow_scalar() is rounded here too.
 *
 * weft_lerp() and weft_lerp_tensor() convert inputs of different types as the others do; PyTorch refuses them. A
 * number combined with an integer tensor must be whole (WEFT_ERR_DTYPE). Functions named *_inplace modify their first
 * argument, which keeps its layout and type, and return it. */
#ifndef WEFT_ELEMENTWISE_H
#define WEFT_ELEMENTWISE_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Converts a tensor to another type. Floating values are truncated to integers and saturate at the ends of the range;
 * NaN becomes 0. Wider integers lose their upper bits, and those of the same size keep all: -1 becomes the largest number of an
 * unsigned type. To floating types numbers are rounded to nearest even, once; beyond the largest one they become infinite, or, in
 * WEFT_F8_E4M3, which has no infinity, NaN. If the tensor has the type already, the function returns the
 * tensor itself. */
WEFT_API weft_tensor *weft_to_type(weft_tensor *a, weft_dtype dtype);

/** Arithmetic. Integers wrap around. \{ */
WEFT_API weft_tensor *weft_add(weft_tensor *a, weft_tensor *b); /**< a + b */
WEFT_API weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b); /**< a - b */
WEFT_API weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b); /**< a b */
WEFT_API weft_tensor *weft_div(weft_tensor *a, weft_tensor *b); /**< a / b; always floating */
/** The quotient rounded down, and the remainder, which has the sign of b. An integer divided by 0 gives 0. */
WEFT_API weft_tensor *weft_floor_div(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_remainder(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_fmod(weft_tensor *a,
                                weft_tensor *b); /**< the remainder of truncated division; it has the sign of a */
WEFT_API weft_tensor *weft_pow(weft_tensor *a,
                               weft_tensor *b); /**< a^b; whole numbers to a negative power: 0, 1 or -1 */
WEFT_API weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b); /**< the larger one; NaN if one is NaN */
WEFT_API weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b); /**< the smaller one; NaN if one is NaN */
/** Maximum and minimum that ignore NaN: if one of the two is NaN, the result is the other. If they are equal, each
 * gets half of the gradient. */
WEFT_API weft_tensor *weft_fmax(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_fmin(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_copysign(weft_tensor *a, weft_tensor *b); /**< |a| with the sign of b; floating */
WEFT_API weft_tensor *weft_atan2(weft_tensor *a,
                                 weft_tensor *b); /**< the angle of the point whose height is a and whose horizontal
                                                       coordinate is b */
WEFT_API weft_tensor *weft_hypot(weft_tensor *a, weft_tensor *b);     /**< sqrt(a^2 + b^2); floating */
WEFT_API weft_tensor *weft_logaddexp(weft_tensor *a, weft_tensor *b); /**< log(exp(a) + exp(b)); floating */
WEFT_API weft_tensor *weft_xlogy(weft_tensor *a, weft_tensor *b); /**< a log(b), or 0 if a is 0 and b is not
                                                                       NaN; floating */
WEFT_API weft_tensor *weft_xlog1py(weft_tensor *a, weft_tensor *b); /**< a log(1 + b), or 0 if a is 0 and b is not
                                                                         NaN; floating */
WEFT_API weft_tensor *weft_logaddexp2(weft_tensor *a, weft_tensor *b); /**< log2(2^a + 2^b); floating */
/** The zeta function of Hurwitz: the sum of (b + k)^-a for k = 0, 1, ...; NaN if a is less than 1, or b below 0 and a not
 * whole. Only b has a gradient. */
WEFT_API weft_tensor *weft_zeta(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_heaviside(weft_tensor *a, weft_tensor *b); /**< 0 below 0, 1 above, b where a is 0; there the gradient is b's */
/** The greatest common divisor, and the least common multiple, both at least 0; integers. gcd(0, 0) and lcm(a, 0) are 0. \{ */
WEFT_API weft_tensor *weft_gcd(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_lcm(weft_tensor *a, weft_tensor *b);
/** \} */
/** \} */

/** Arithmetic with a number. \{ */
WEFT_API weft_tensor *weft_scale(weft_tensor *a, weft_scalar factor);
WEFT_API weft_tensor *weft_add_scalar(weft_tensor *a, weft_scalar addend);
WEFT_API weft_tensor *weft_pow_scalar(weft_tensor *a, weft_scalar exponent);
/** Clamps a to a range. -INFINITY and INFINITY set no bound. The
 * gradient at a bound is 0, as in PyTorch. */
WEFT_API weft_tensor *weft_clamp(weft_tensor *a, weft_scalar min, weft_scalar max);
/** \} */
/** Clamps a to bounds that are tensors: one of the bounds may be NULL. If values are equal,
 * each gets half of the gradient, first for one bound, then for the other. */
WEFT_API weft_tensor *weft_clamp_tensors(weft_tensor *a, weft_tensor *min, weft_tensor *max);

/** a + factor * b, a + factor * b * c, a + factor * b / c, and a + weight * (b - a). \{ */
WEFT_API weft_tensor *weft_add_scaled(weft_tensor *a, weft_tensor *b, weft_scalar factor);
WEFT_API weft_tensor *weft_addcmul(weft_tensor *a, weft_tensor *b, weft_tensor *c, weft_scalar factor);
WEFT_API weft_tensor *weft_addcdiv(weft_tensor *a, weft_tensor *b, weft_tensor *c, weft_scalar factor);
WEFT_API weft_tensor *weft_lerp(weft_tensor *a, weft_tensor *b, double weight);
WEFT_API weft_tensor *weft_lerp_tensor(weft_tensor *a, weft_tensor *b, weft_tensor *weight);
/** \} */

/** Comparisons: WEFT_BOOL. \{ */
WEFT_API weft_tensor *weft_eq(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ne(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_lt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_le(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_gt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ge(weft_tensor *a, weft_tensor *b);
/** \} */
/** Comparisons with a number: WEFT_BOOL. Integers and truth values are compared exactly, even with numbers that are
 * not whole or are out of their range. Floating values are compared with the number rounded to their type. \{ */
WEFT_API weft_tensor *weft_eq_scalar(weft_tensor *a, weft_scalar value);
WEFT_API weft_tensor *weft_ne_scalar(weft_tensor *a, weft_scalar value);
WEFT_API weft_tensor *weft_lt_scalar(weft_tensor *a, weft_scalar value);
WEFT_API weft_tensor *weft_le_scalar(weft_tensor *a, weft_scalar value);
WEFT_API weft_tensor *weft_gt_scalar(weft_tensor *a, weft_scalar value);
WEFT_API weft_tensor *weft_ge_scalar(weft_tensor *a, weft_scalar value);
/** \} */

/** Logical operations on any types; the result is WEFT_BOOL. Every value except 0 is true. \{ */
WEFT_API weft_tensor *weft_logical_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_xor(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_not(weft_tensor *a); /**< 1 if a is 0 */
WEFT_API weft_tensor *weft_isnan(weft_tensor *a); /**< whether a is NaN */
WEFT_API weft_tensor *weft_isinf(weft_tensor *a); /**< whether a is infinite */
WEFT_API weft_tensor *weft_isfinite(weft_tensor *a); /**< whether a is neither infinite nor NaN */
/** \} */

/** Chooses a if `condition` (WEFT_BOOL) is true, otherwise b. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);
/** Replaces elements of a by `value` if `mask` (WEFT_BOOL) is true. The result has the type of a. */
WEFT_API weft_tensor *weft_masked_fill(weft_tensor *a, weft_tensor *mask, weft_scalar value);

/** The same with a value that is a tensor without dimensions, on any mesh; it is converted to a's type. The mask is on
 * a's mesh (WEFT_ERR_MESH). */
WEFT_API weft_tensor *weft_masked_fill_tensor(weft_tensor *a, weft_tensor *mask, weft_tensor *value);
/** Replaces NaN, infinity and minus infinity by these numbers. NAN as posinf or neginf means the type's largest, or
 * lowest, finite number. Integers and truth values do not change. The gradient of replaced elements is 0. */
WEFT_API weft_tensor *weft_nan_to_num(weft_tensor *a, double nan, double posinf, double neginf);

/** Bitwise operations on integers and truth values (PyTorch's &, |, ^, ~). \{ */
WEFT_API weft_tensor *weft_bitwise_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_xor(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_not(weft_tensor *a);
/** Shift integers by b bits. If b is negative, or at least the number of bits of the type, all bits are shifted out:
 * the result is 0, or -1 if a negative number is shifted to the right. \{ */
WEFT_API weft_tensor *weft_bitwise_left_shift(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_right_shift(weft_tensor *a, weft_tensor *b);
/** \} */
/** \} */

/** Functions of one value. \{ */
WEFT_API weft_tensor *weft_neg(weft_tensor *a); /**< -a */
WEFT_API weft_tensor *weft_abs(weft_tensor *a); /**< |a| */
WEFT_API weft_tensor *weft_sign(weft_tensor *a); /**< -1, 0 or 1; NaN stays NaN */
WEFT_API weft_tensor *weft_square(weft_tensor *a); /**< a a */
WEFT_API weft_tensor *weft_reciprocal(weft_tensor *a); /**< 1 / a; floating */
WEFT_API weft_tensor *weft_sqrt(weft_tensor *a); /**< the square root; floating */
WEFT_API weft_tensor *weft_rsqrt(weft_tensor *a); /**< 1 / sqrt(a); floating */
WEFT_API weft_tensor *weft_exp(weft_tensor *a); /**< e^a; floating */
WEFT_API weft_tensor *weft_expm1(weft_tensor *a); /**< e^a - 1, accurate near 0; floating */
WEFT_API weft_tensor *weft_log(weft_tensor *a); /**< the natural logarithm; floating */
WEFT_API weft_tensor *weft_log1p(weft_tensor *a); /**< log(1 + a), accurate near 0; floating */
WEFT_API weft_tensor *weft_log2(weft_tensor *a); /**< the logarithm to base 2; floating */
WEFT_API weft_tensor *weft_log10(weft_tensor *a); /**< the logarithm to base 10; floating */
WEFT_API weft_tensor *weft_exp2(weft_tensor *a); /**< 2^a; floating */
WEFT_API weft_tensor *weft_sin(weft_tensor *a); /**< the sine of radians; floating */
WEFT_API weft_tensor *weft_cos(weft_tensor *a); /**< the cosine of radians; floating */
WEFT_API weft_tensor *weft_tan(weft_tensor *a); /**< the tangent of radians; floating */
WEFT_API weft_tensor *weft_asin(weft_tensor *a); /**< the inverse of sin, in radians; NaN if a is outside -1 .. 1 */
WEFT_API weft_tensor *weft_acos(weft_tensor *a); /**< the inverse of cos, in radians; NaN if a is outside -1 .. 1 */
WEFT_API weft_tensor *weft_atan(weft_tensor *a); /**< the inverse of tan, in radians; floating */
WEFT_API weft_tensor *weft_sinh(weft_tensor *a); /**< the hyperbolic sine; floating */
WEFT_API weft_tensor *weft_cosh(weft_tensor *a); /**< the hyperbolic cosine; floating */
WEFT_API weft_tensor *weft_asinh(weft_tensor *a); /**< the inverse of sinh; floating */
WEFT_API weft_tensor *weft_acosh(weft_tensor *a); /**< the inverse of cosh; NaN below 1 */
WEFT_API weft_tensor *weft_atanh(weft_tensor *a); /**< the inverse of tanh; NaN outside -1 .. 1 */
WEFT_API weft_tensor *weft_tanh(weft_tensor *a); /**< the hyperbolic tangent; floating */
WEFT_API weft_tensor *weft_erf(weft_tensor *a); /**< 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to a; floating */
WEFT_API weft_tensor *weft_erfc(weft_tensor *a); /**< 1 - erf(a) */
WEFT_API weft_tensor *weft_erfinv(weft_tensor *a); /**< b with erf(b) = a; NaN if a is outside -1 .. 1 */
WEFT_API weft_tensor *weft_lgamma(weft_tensor *a); /**< log |Gamma(a)| */
/** Derivatives of weft_lgamma(): the first, and the one with number n + 1, n from 0 to 160
 * (WEFT_ERR_INVALID). \{ */
WEFT_API weft_tensor *weft_digamma(weft_tensor *a);
WEFT_API weft_tensor *weft_polygamma(weft_tensor *a, int n);
/** \} */
/** Modified Bessel functions of the first kind, of order 0 and 1; with `e` times exp(-|a|), which does not overflow. \{ */
WEFT_API weft_tensor *weft_i0(weft_tensor *a);
WEFT_API weft_tensor *weft_i0e(weft_tensor *a);
WEFT_API weft_tensor *weft_i1(weft_tensor *a);
WEFT_API weft_tensor *weft_i1e(weft_tensor *a);
/** \} */
/** Bessel functions of the first kind, of order 0 and 1. \{ */
WEFT_API weft_tensor *weft_bessel_j0(weft_tensor *a);
WEFT_API weft_tensor *weft_bessel_j1(weft_tensor *a);
/** \} */
/** The distribution function of the normal distribution, its inverse (NaN outside 0 .. 1), and its logarithm. \{ */
WEFT_API weft_tensor *weft_ndtr(weft_tensor *a);
WEFT_API weft_tensor *weft_ndtri(weft_tensor *a);
WEFT_API weft_tensor *weft_log_ndtr(weft_tensor *a);
/** \} */
WEFT_API weft_tensor *weft_entr(weft_tensor *a); /**< -a log(a); 0 at 0, -INFINITY below */
WEFT_API weft_tensor *weft_logit(weft_tensor *a); /**< log(a / (1 - a)); NaN outside 0 .. 1 */
WEFT_API weft_tensor *weft_sinc(weft_tensor *a); /**< sin(pi a) / (pi a), and 1 at 0 */
WEFT_API weft_tensor *weft_floor(weft_tensor *a); /**< the next whole number below */
WEFT_API weft_tensor *weft_ceil(weft_tensor *a); /**< the next whole number above */
WEFT_API weft_tensor *weft_trunc(weft_tensor *a); /**< without the fraction */
WEFT_API weft_tensor *weft_frac(weft_tensor *a); /**< a - trunc(a); floating types */
WEFT_API weft_tensor *weft_round(weft_tensor *a); /**< halves are rounded to even */
WEFT_API weft_tensor *weft_sigmoid(weft_tensor *a); /**< 1 / (1 + exp(-a)); floating */
WEFT_API weft_tensor *weft_silu(weft_tensor *a); /**< a sigmoid(a) */
WEFT_API weft_tensor *weft_relu(weft_tensor *a); /**< max(a, 0) */
WEFT_API weft_tensor *
weft_gelu(weft_tensor *a); /**< a Phi(a), where Phi is the normal distribution function (with erf) */
/** a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2 */
WEFT_API weft_tensor *weft_gelu_tanh(weft_tensor *a);
WEFT_API weft_tensor *weft_mish(weft_tensor *a); /**< a tanh(log(1 + exp(a))) */
/** log(1 + exp(beta a)) / beta; a itself if beta a is above the threshold. PyTorch's defaults are 1 and 20. */
WEFT_API weft_tensor *weft_softplus(weft_tensor *a, double beta, double threshold);
WEFT_API weft_tensor *weft_hardsigmoid(weft_tensor *a); /**< clamp(a + 3, 0, 6) / 6 */
WEFT_API weft_tensor *weft_hardswish(weft_tensor *a); /**< a clamp(a + 3, 0, 6) / 6 */
WEFT_API weft_tensor *weft_selu(weft_tensor *a); /**< 1.0507 a, or 1.7581 (exp(a) - 1) below 0 */
WEFT_API weft_tensor *weft_leaky_relu(weft_tensor *a, weft_scalar slope); /**< slope * a below 0 */
WEFT_API weft_tensor *weft_elu(weft_tensor *a, weft_scalar alpha);        /**< alpha (exp(a) - 1) below 0 */
/** \} */

/** In place. b may be broadcast to a's shape, and its type must not be of a higher category than a's. \{ */
/** Copies b into a. So you can write the result of any operation to an existing tensor, for example
 * weft_copy_inplace(a, weft_matmul(x, y)). If b has a's layout and type, a takes over its memory and nothing is
 * copied, unless a's memory belongs to the program. */
WEFT_API weft_tensor *weft_copy_inplace(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_add_inplace(weft_tensor *a, weft_tensor *b, weft_scalar alpha); /**< a += alpha b */
WEFT_API weft_tensor *weft_mul_inplace(weft_tensor *a, weft_tensor *b); /**< a *= b */
WEFT_API weft_tensor *weft_div_inplace(weft_tensor *a, weft_tensor *b); /**< a /= b; floating */
WEFT_API weft_tensor *weft_scale_inplace(weft_tensor *a, weft_scalar factor); /**< a *= factor */
WEFT_API weft_tensor *weft_fill_inplace(weft_tensor *a, weft_scalar value); /**< a = value */
WEFT_API weft_tensor *weft_lerp_inplace(weft_tensor *a, weft_tensor *b, double weight); /**< a += weight (b - a) */
/** \} */

#ifndef __cplusplus
/* Numbers of any type (::weft_scalar). */
#define weft_scale(a, factor) weft_scale(a, WEFT_SCALAR(factor))
#define weft_leaky_relu(a, slope) weft_leaky_relu(a, WEFT_SCALAR(slope))
#define weft_elu(a, alpha) weft_elu(a, WEFT_SCALAR(alpha))
#define weft_pow_scalar(a, exponent) weft_pow_scalar(a, WEFT_SCALAR(exponent))
#define weft_add_scalar(a, addend) weft_add_scalar(a, WEFT_SCALAR(addend))
#define weft_clamp(a, min, max) weft_clamp(a, WEFT_SCALAR(min), WEFT_SCALAR(max))
#define weft_add_scaled(a, b, factor) weft_add_scaled(a, b, WEFT_SCALAR(factor))
#define weft_addcmul(a, b, c, factor) weft_addcmul(a, b, c, WEFT_SCALAR(factor))
#define weft_addcdiv(a, b, c, factor) weft_addcdiv(a, b, c, WEFT_SCALAR(factor))
#define weft_eq_scalar(a, value) weft_eq_scalar(a, WEFT_SCALAR(value))
#define weft_ne_scalar(a, value) weft_ne_scalar(a, WEFT_SCALAR(value))
#define weft_lt_scalar(a, value) weft_lt_scalar(a, WEFT_SCALAR(value))
#define weft_le_scalar(a, value) weft_le_scalar(a, WEFT_SCALAR(value))
#define weft_gt_scalar(a, value) weft_gt_scalar(a, WEFT_SCALAR(value))
#define weft_ge_scalar(a, value) weft_ge_scalar(a, WEFT_SCALAR(value))
#define weft_masked_fill(a, mask, value) weft_masked_fill(a, mask, WEFT_SCALAR(value))
#define weft_add_inplace(a, b, alpha) weft_add_inplace(a, b, WEFT_SCALAR(alpha))
#define weft_scale_inplace(a, factor) weft_scale_inplace(a, WEFT_SCALAR(factor))
#define weft_fill_inplace(a, value) weft_fill_inplace(a, WEFT_SCALAR(value))
#endif

WEFT_END_DECLS

#endif
