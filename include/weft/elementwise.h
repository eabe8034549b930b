/** \file
 * Elementwise operations, with PyTorch's broadcasting of shapes and promotion of types.
 *
 * Types: all inputs are converted to one type, and the result is computed in that type. It is the smallest
 * type that holds all inputs; a tensor without dimensions counts only if its category is higher (truth value,
 * integer, floating). So the conversion may change values: a WEFT_I64 scalar beside a WEFT_I32 tensor loses
 * its upper bits, and WEFT_I64 beside WEFT_BF16 is rounded to 16 bits. Comparisons and logical operations
 * convert likewise. Operations without an integer result convert integers and truth values to WEFT_F32. In
 * place, the result is converted to the type of the first argument.
 *
 * WEFT_BF16 and WEFT_F16 are computed in single precision, and the result is rounded once. Two kinds of
 * operands are not rounded to 16 bits first:
 *  - the second input of weft_mul(), weft_mul_inplace(), weft_div() and weft_div_inplace() if it has one
 *    element, as in PyTorch on CPUs;
 *  - numbers (arguments that are not tensors). PyTorch on CPUs rounds some of them: the addend of
 *    weft_add_scalar(), the factor of weft_add_scaled(). The exponent of weft_pow_scalar() is rounded.
 *
 * weft_lerp() and weft_lerp_tensor() convert inputs of different types as the others do; PyTorch refuses them. A number beside an
 * integer tensor must be whole (WEFT_ERR_DTYPE). Functions named *_inplace change their first argument, which
 * keeps its layout and type, and return it. */
#ifndef WEFT_ELEMENTWISE_H
#define WEFT_ELEMENTWISE_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The values in another type. Floating values are truncated to integers, saturated at the ends of the
 * range; NaN becomes 0. Wider integers lose their upper bits. A tensor that has the type already is
 * returned itself. */
WEFT_API weft_tensor *weft_to_type(weft_tensor *a, weft_dtype dtype);

/** Arithmetic. Integers wrap around. \{ */
WEFT_API weft_tensor *weft_add(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_div(weft_tensor *a, weft_tensor *b); /**< always floating */
/** The quotient rounded down, and the remainder, which has the sign of b. An integer divided by 0 gives 0. */
WEFT_API weft_tensor *weft_floor_div(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_remainder(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_fmod(weft_tensor *a,
                                weft_tensor *b); /**< the remainder of truncated division: the sign of a */
WEFT_API weft_tensor *weft_pow(weft_tensor *a,
                               weft_tensor *b); /**< a whole number to a negative power: 0, 1 or -1 */
WEFT_API weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b); /**< NaN where one of them is */
WEFT_API weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b);
/** The other one where one of them is NaN; gradients of equal ones: half each. */
WEFT_API weft_tensor *weft_fmax(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_fmin(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_copysign(weft_tensor *a, weft_tensor *b); /**< |a| with b's sign; floating */
WEFT_API weft_tensor *weft_atan2(weft_tensor *a,
                                 weft_tensor *b); /**< the angle of the point with a above, b to the right */
WEFT_API weft_tensor *weft_hypot(weft_tensor *a, weft_tensor *b);     /**< floating: sqrt(a^2 + b^2) */
WEFT_API weft_tensor *weft_logaddexp(weft_tensor *a, weft_tensor *b); /**< floating: log(exp(a) + exp(b)) */
WEFT_API weft_tensor *weft_xlogy(weft_tensor *a, weft_tensor *b); /**< floating: a log(b); 0 where a is 0 and b a number */
/** \} */

/** With a number. \{ */
WEFT_API weft_tensor *weft_scale(weft_tensor *a, double factor);
WEFT_API weft_tensor *weft_add_scalar(weft_tensor *a, double addend);
WEFT_API weft_tensor *weft_pow_scalar(weft_tensor *a, double exponent);
/** min(max(a, least), most); -INFINITY and INFINITY bound nothing. Gradient at a bound: 0, as PyTorch's. */
WEFT_API weft_tensor *weft_clamp(weft_tensor *a, double least, double most);
/** \} */
/** min(max(a, least), most); one bound may be NULL. Gradients of equal values: half each, bound by bound. */
WEFT_API weft_tensor *weft_clamp_tensors(weft_tensor *a, weft_tensor *least, weft_tensor *most);

/** a + factor * b, a + factor * b * c, a + factor * b / c, and a + weight * (b - a). \{ */
WEFT_API weft_tensor *weft_add_scaled(weft_tensor *a, weft_tensor *b, double factor);
WEFT_API weft_tensor *weft_addcmul(weft_tensor *a, weft_tensor *b, weft_tensor *c, double factor);
WEFT_API weft_tensor *weft_addcdiv(weft_tensor *a, weft_tensor *b, weft_tensor *c, double factor);
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
/** With a number: WEFT_BOOL. Integers and truth values are compared exactly, also with numbers that are not whole or
 * beyond their range; floating values with the number rounded to their type. \{ */
WEFT_API weft_tensor *weft_eq_scalar(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_ne_scalar(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_lt_scalar(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_le_scalar(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_gt_scalar(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_ge_scalar(weft_tensor *a, double value);
/** \} */

/** WEFT_BOOL, of any types: every value but 0 is true. \{ */
WEFT_API weft_tensor *weft_logical_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_xor(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_not(weft_tensor *a);
WEFT_API weft_tensor *weft_isnan(weft_tensor *a);
WEFT_API weft_tensor *weft_isinf(weft_tensor *a);
WEFT_API weft_tensor *weft_isfinite(weft_tensor *a);
/** \} */

/** a where `condition` (WEFT_BOOL) holds, else b. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);
/** `value` where `mask` (WEFT_BOOL) holds, else a. The type of a. */
WEFT_API weft_tensor *weft_masked_fill(weft_tensor *a, weft_tensor *mask, double value);

/** The same with a value without dimensions, on any mesh, converted to a's type; the mask is on a's mesh (WEFT_ERR_MESH). */
WEFT_API weft_tensor *weft_masked_fill_tensor(weft_tensor *a, weft_tensor *mask, weft_tensor *value);
/** These numbers where a is NaN, infinity, minus infinity; NAN as posinf or neginf: the type's largest, or lowest, finite
 * number. Integers and truth values stay as they are. Their gradient is 0 there. */
WEFT_API weft_tensor *weft_nan_to_num(weft_tensor *a, double nan, double posinf, double neginf);

/** Bits of integers and truth values (PyTorch's &, |, ^, ~). \{ */
WEFT_API weft_tensor *weft_bitwise_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_xor(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_not(weft_tensor *a);
/** Shifts integers by b bits. A negative b, or one of at least the type's number of bits, shifts all bits out: the result is 0,
 * or -1 for a negative number shifted to the right. \{ */
WEFT_API weft_tensor *weft_bitwise_left_shift(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_right_shift(weft_tensor *a, weft_tensor *b);
/** \} */
/** \} */

/** Functions of one value. \{ */
WEFT_API weft_tensor *weft_neg(weft_tensor *a);
WEFT_API weft_tensor *weft_abs(weft_tensor *a);
WEFT_API weft_tensor *weft_sign(weft_tensor *a);
WEFT_API weft_tensor *weft_square(weft_tensor *a);
WEFT_API weft_tensor *weft_reciprocal(weft_tensor *a);
WEFT_API weft_tensor *weft_sqrt(weft_tensor *a);
WEFT_API weft_tensor *weft_rsqrt(weft_tensor *a);
WEFT_API weft_tensor *weft_exp(weft_tensor *a);
WEFT_API weft_tensor *weft_expm1(weft_tensor *a);
WEFT_API weft_tensor *weft_log(weft_tensor *a);
WEFT_API weft_tensor *weft_log1p(weft_tensor *a);
WEFT_API weft_tensor *weft_log2(weft_tensor *a);
WEFT_API weft_tensor *weft_log10(weft_tensor *a);
WEFT_API weft_tensor *weft_exp2(weft_tensor *a);
WEFT_API weft_tensor *weft_sin(weft_tensor *a);
WEFT_API weft_tensor *weft_cos(weft_tensor *a);
WEFT_API weft_tensor *weft_tan(weft_tensor *a);
WEFT_API weft_tensor *weft_asin(weft_tensor *a);
WEFT_API weft_tensor *weft_acos(weft_tensor *a);
WEFT_API weft_tensor *weft_atan(weft_tensor *a);
WEFT_API weft_tensor *weft_sinh(weft_tensor *a);
WEFT_API weft_tensor *weft_cosh(weft_tensor *a);
WEFT_API weft_tensor *weft_asinh(weft_tensor *a);
WEFT_API weft_tensor *weft_acosh(weft_tensor *a);
WEFT_API weft_tensor *weft_atanh(weft_tensor *a);
WEFT_API weft_tensor *weft_tanh(weft_tensor *a);
WEFT_API weft_tensor *weft_erf(weft_tensor *a);
WEFT_API weft_tensor *weft_erfc(weft_tensor *a); /**< 1 - erf(a) */
WEFT_API weft_tensor *weft_erfinv(weft_tensor *a); /**< b with erf(b) = a; NaN outside -1 .. 1 */
WEFT_API weft_tensor *weft_lgamma(weft_tensor *a); /**< log |Gamma(a)| */
/** The derivatives of weft_lgamma(): the first, and number n + 1, n 0 or 1 (else WEFT_ERR_UNSUPPORTED). n = 1 has no gradient
 * of its own. \{ */
WEFT_API weft_tensor *weft_digamma(weft_tensor *a);
WEFT_API weft_tensor *weft_polygamma(int n, weft_tensor *a);
/** \} */
WEFT_API weft_tensor *weft_floor(weft_tensor *a);
WEFT_API weft_tensor *weft_ceil(weft_tensor *a);
WEFT_API weft_tensor *weft_trunc(weft_tensor *a);
WEFT_API weft_tensor *weft_frac(weft_tensor *a); /**< a - trunc(a); floating types */
WEFT_API weft_tensor *weft_round(weft_tensor *a); /**< halves to even */
WEFT_API weft_tensor *weft_sigmoid(weft_tensor *a);
WEFT_API weft_tensor *weft_silu(weft_tensor *a); /**< a sigmoid(a) */
WEFT_API weft_tensor *weft_relu(weft_tensor *a); /**< max(a, 0) */
WEFT_API weft_tensor *
weft_gelu(weft_tensor *a); /**< a Phi(a), Phi the normal distribution function (with erf) */
/** a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2 */
WEFT_API weft_tensor *weft_gelu_tanh(weft_tensor *a);
WEFT_API weft_tensor *weft_mish(weft_tensor *a); /**< a tanh(log(1 + exp(a))) */
WEFT_API weft_tensor *weft_softplus(weft_tensor *a); /**< log(1 + exp(a)); a itself above 20 */
/** log(1 + exp(beta a)) / beta; a itself where beta a is above the threshold. */
WEFT_API weft_tensor *weft_softplus_ex(weft_tensor *a, double beta, double threshold);
WEFT_API weft_tensor *weft_hardsigmoid(weft_tensor *a); /**< clamp(a + 3, 0, 6) / 6 */
WEFT_API weft_tensor *weft_hardswish(weft_tensor *a); /**< a clamp(a + 3, 0, 6) / 6 */
WEFT_API weft_tensor *weft_selu(weft_tensor *a); /**< 1.0507 a, or 1.7581 (exp(a) - 1) below 0 */
WEFT_API weft_tensor *weft_leaky_relu(weft_tensor *a, double slope); /**< slope * a below 0 */
WEFT_API weft_tensor *weft_elu(weft_tensor *a, double alpha);        /**< alpha (exp(a) - 1) below 0 */
/** \} */

/** In place; b may be broadcast to a's shape, and its type must not be of a higher category than a's. \{ */
/** a = b: any operation's result into an existing tensor, weft_copy_inplace(a, weft_matmul(x, y)). If b
 * has a's layout and type, a takes over its memory and nothing is copied, unless a's memory belongs to
 * the program. */
WEFT_API weft_tensor *weft_copy_inplace(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_add_inplace(weft_tensor *a, weft_tensor *b, double alpha); /**< a += alpha b */
WEFT_API weft_tensor *weft_mul_inplace(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_div_inplace(weft_tensor *a, weft_tensor *b); /**< floating */
WEFT_API weft_tensor *weft_scale_inplace(weft_tensor *a, double factor);
WEFT_API weft_tensor *weft_fill_inplace(weft_tensor *a, double value);
WEFT_API weft_tensor *weft_lerp_inplace(weft_tensor *a, weft_tensor *b, double weight);
/** \} */

WEFT_END_DECLS

#endif
