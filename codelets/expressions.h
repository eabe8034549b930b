/* Building blocks of elementwise.inc's expressions, beside the C library: for the C compiler, which
 * selects the function by type (tgmath.h, _Generic), and for nvcc, which overloads. */
#ifndef WEFT_CODELETS_EXPRESSIONS_H
#define WEFT_CODELETS_EXPRESSIONS_H

#include <math.h>
#include <stdbool.h>
#ifndef __cplusplus
#include <tgmath.h>
#endif

#include "codelets/functions.h"
#include "codelets/scalars.h"
#include "codelets/special.h"

/* Unsigned arithmetic, where wrapping around is defined. */
#define WRAP(a, op, b) ((int64_t)((uint64_t)(a)op(uint64_t)(b)))

/* A scalar as the nearest integer. */
WEFT_INLINE int64_t whole(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

/* A number inside bounds; NaN is 0. */
WEFT_INLINE double clamped(double x, double least, double most)
{
    return x != x ? 0 : x < least ? least : x > most ? most : x;
}

/* Scalar i as T. An integer is the sum of two scalars: a double has no whole numbers beyond 2^53 (weft_exact). */
#define AS_float(scalars, i) ((float)(scalars)[i])
#define AS_double(scalars, i) ((scalars)[i])
#define AS_int64_t(scalars, i) WRAP(whole((scalars)[i]), +, (int64_t)(scalars)[(i) + WEFT_SCALAR_RESTS])

/* T, and the scalars s, t, u, v as T, from `scalars`, of a loop over an expression, which need not use them. */
#define SCALARS(T_)                                                                                          \
    typedef T_ T;                                                                                            \
    const T s = AS_##T_(scalars, 0), t = AS_##T_(scalars, 1), u = AS_##T_(scalars, 2),                       \
            v = AS_##T_(scalars, 3);                                                                         \
    (void)s, (void)t, (void)u, (void)v;

/* ---- integers ------------------------------------------------------------------------------------------ */

WEFT_INLINE int64_t divide_down(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return WRAP(0, -, a);
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

WEFT_INLINE int64_t rest_of(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

WEFT_INLINE int64_t remainder_of(int64_t a, int64_t b)
{
    int64_t rest = rest_of(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

WEFT_INLINE int64_t power(int64_t a, int64_t b)
{
    if (b < 0) {
        return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    }
    uint64_t result = 1, factor = (uint64_t)a;
    for (; b > 0; b >>= 1) {
        result *= b & 1 ? factor : 1;
        factor *= factor;
    }
    return (int64_t)result;
}

/* ---- parts of expressions ------------------------------------------------------------------------------ */

/* 2^-e where 2^e <= a < 2^(e + 1), within exponents `most` and -most; 1 for 0, infinity and NaN. */
WEFT_INLINE double weft_range_scale(double a, int most)
{
    if (!(a > 0 && a < INFINITY)) {
        return 1;
    }
    int exponent = (ilogb)(a);
    return (ldexp)(1.0, exponent > most ? -most : exponent < -most ? most : -exponent);
}
#define RANGE_SCALE(a) (T) weft_range_scale(a, sizeof(T) == sizeof(float) ? 126 : 1021)

/* The distribution function of the normal distribution. */
WEFT_INLINE double weft_normal_cdf_f64(double x)
{
    return 0.5 * (1 + (erf)(x * 0.70710678118654752440));
}

/* Functions of functions.h; single precision only if there is no other. */
#ifdef __cplusplus
WEFT_INLINE float exp_of(float x)
{
    return weft_exp_f32(x);
}
WEFT_INLINE double exp_of(double x)
{
    return weft_exp_f64(x);
}
WEFT_INLINE float erf_of(float x)
{
    return weft_erf_f32(x);
}
WEFT_INLINE double erf_of(double x)
{
    return erf(x);
}
WEFT_INLINE float tanh_of(float x)
{
    return weft_tanh_f32(x);
}
WEFT_INLINE double tanh_of(double x)
{
    return weft_tanh_f64(x);
}
WEFT_INLINE float normal_cdf_of(float x)
{
    return weft_normal_cdf_f32(x);
}
WEFT_INLINE double normal_cdf_of(double x)
{
    return weft_normal_cdf_f64(x);
}
#define EXP(x) exp_of(x)
#define ERF(x) erf_of(x)
#define TANH(x) tanh_of(x)
#define NORMAL_CDF(x) normal_cdf_of(x)
#else
#define EXP(x) _Generic((x), float : weft_exp_f32, default : weft_exp_f64)(x)
#define ERF(x) _Generic((x), float : weft_erf_f32, default : (erf))(x)
#define TANH(x) _Generic((x), float : weft_tanh_f32, default : weft_tanh_f64)(x)
#define NORMAL_CDF(x) _Generic((x), float : weft_normal_cdf_f32, default : weft_normal_cdf_f64)(x)
#endif
#define NORMAL_DENSITY(x) ((T)0.39894228040143267794 * EXP((T)-0.5 * (x) * (x)))
/* A gradient with weight decay: without decay the weight does not matter, even if infinite. */
#define DECAYED(gradient, decay, weight) ((decay) == 0 ? (gradient) : (gradient) + (decay) * (weight))
#define SIGMOID(x) (1 / (1 + EXP(-(x))))
#define MINUS_LOG_SIGMOID(x) (log1p(EXP(-fabs(x))) + ((x) < 0 ? -(x) : 0))
/* gelu with tanh: x s, s = sigmoid(z), z = sqrt(8 / pi) (x + 0.044715 x^3). In its derivative x s (1 - s) comes first: far
 * from 0 that is 0, whatever the powers of x are. */
#define GELU_EXPONENT(x) ((T)1.59576912160573071176 * ((x) + (T)0.044715 * (x) * (x) * (x)))
#define GELU_SLOPE(x, s)                                                                                     \
    ((s) + ((T)1.59576912160573071176 * ((x) * (s) * (1 - (s))) +                                            \
            (T)0.21406444881780076 * ((x) * (s) * (1 - (s))) * (x) * (x)))
#define SELU_ABOVE 1.05070098735548049342
#define SELU_BELOW 1.75809934084737685994
/* tanh(log(1 + e)) with e = e^x, and the derivative of x times it. */
#define MISH_FACTOR(e) ((e) * ((e) + 2) / ((e) * ((e) + 2) + 2))
#define MISH_SLOPE(x, e)                                                                                     \
    (MISH_FACTOR(e) + 4 * (x) * ((e) / ((e) * ((e) + 2) + 2)) * ((1 + (e)) / ((e) * ((e) + 2) + 2)))
/* NaN if either is NaN */
#define NOT_BELOW(x, least) ((x) < (least) || (least) != (least) ? (least) : (x))
#define NOT_ABOVE(x, most) ((x) > (most) || (most) != (most) ? (most) : (x))
#define LARGER(x, y) ((x) > (y) ? (x) : (y)) /* y if either is NaN */
/* No overflow between a and b; exactly b at weight 1. */
#define LERP(a, b, weight)                                                                                   \
    (fabs(weight) < (T)0.5 ? (a) + (weight) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (weight)))
/* The quotient rounded down: (a - remainder) / b is an integer up to rounding. */
#define FLOOR_DIVIDE(a, b) ((b) == 0 ? (a) / (b) : nearest(exact_quotient(fmod(a, b), a, b)))
#define exact_quotient(rest, a, b) (((a) - (rest)) / (b) - ((rest) != 0 && ((rest) < 0) != ((b) < 0)))
#define nearest(x) (floor(x) + ((x)-floor(x) > (T)0.5))
#define REMAINDER(a, b) sign_of_divisor(fmod(a, b), b)
#define sign_of_divisor(rest, b) ((rest) != 0 && ((rest) < 0) != ((b) < 0) ? (rest) + (b) : (rest))

/* |a - b| <= scalars[0] |b| + scalars[1], or equal; NaN is close to NaN if scalars[2] is not 0. Infinities
 * are close only to themselves. Branchless. */
WEFT_INLINE bool are_close(double a, double b, const double scalars[])
{
    double difference = fabs(a - b);
    bool finite = difference - difference == 0;
    return (a == b) | (finite & (difference <= scalars[1] + fabs(scalars[0] * b))) |
           ((a != a) & (b != b) & (scalars[2] != 0));
}

/* Different integers differ by at least 1, which is exact in double precision here. */
WEFT_INLINE bool are_close_whole(int64_t a, int64_t b, const double scalars[])
{
    uint64_t difference = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return (difference == 0) | ((double)difference <= scalars[1] + fabs(scalars[0] * (double)b));
}

#ifdef __cplusplus
WEFT_INLINE bool close_of(double a, double b, const double scalars[])
{
    return are_close(a, b, scalars);
}
WEFT_INLINE bool close_of(int64_t a, int64_t b, const double scalars[])
{
    return are_close_whole(a, b, scalars);
}
#define CLOSE(a, b, scalars) close_of(a, b, scalars)
#else
#define CLOSE(a, b, scalars) _Generic((a), int64_t : are_close_whole, default : are_close)(a, b, scalars)
#endif

#endif
