/* Elementwise kernels. Each is one expression; here are the expressions, elementwise_run.c has what runs
 * them. */
#include "codelets/elementwise.h"

#include <math.h>
#include <tgmath.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/functions.h"

/* ---- how an expression becomes a loop ------------------------------------------------------------------ */

/* A scalar as an integer: the nearest that there is. */
static int64_t whole(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

#define AS_float(x) ((float)(x))
#define AS_double(x) (x)
#define AS_int64_t(x) whole(x)

/* T: the type of the arithmetic; a, b, c: the inputs; s, t, u, v: the scalars. */
#define LOOP(name, T_, R, count, expression)                                                                 \
    WEFT_CLONES static void name##_##T_(void *out, const void *pa, const void *pb, const void *pc,           \
                                        int64_t n, const double scalars[])                                   \
    {                                                                                                        \
        typedef T_ T;                                                                                        \
        R *o = out;                                                                                          \
        const T *as = pa, *bs = (count) > 1 ? pb : pa, *cs = (count) > 2 ? pc : pa;                          \
        const T s = AS_##T_(scalars[0]), t = AS_##T_(scalars[1]), u = AS_##T_(scalars[2]),                   \
                v = AS_##T_(scalars[3]);                                                                     \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const T a = as[i], b = bs[i], c = cs[i];                                                         \
            (void)a, (void)b, (void)c, (void)s, (void)t, (void)u, (void)v;                                   \
            o[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }

/* On floating types; on these and integers, which have an expression of their own; the same to truth values.
 */
#define FLOATING_LOOPS(name, count, expression)                                                              \
    LOOP(name, double, double, count, expression)                                                            \
    LOOP(name, float, float, count, expression)
#define NUMBER_LOOPS(name, count, expression, integer)                                                       \
    FLOATING_LOOPS(name, count, expression)                                                                  \
    LOOP(name, int64_t, int64_t, count, integer)
#define FLOATING(name, count, expression)                                                                    \
    FLOATING_LOOPS(name, count, expression)                                                                  \
    const weft_elementwise weft_elementwise_##name = { .num_inputs = count,                                  \
                                                       .f64 = name##_double,                                 \
                                                       .f32 = name##_float };
#define NUMBER(name, count, expression, integer)                                                             \
    NUMBER_LOOPS(name, count, expression, integer)                                                           \
    const weft_elementwise weft_elementwise_##name = {                                                       \
        .num_inputs = count, .f64 = name##_double, .f32 = name##_float, .i64 = name##_int64_t                \
    };
#define TRUTH(name, count, expression)                                                                       \
    LOOP(name, double, uint8_t, count, expression)                                                           \
    LOOP(name, float, uint8_t, count, expression)                                                            \
    LOOP(name, int64_t, uint8_t, count, expression)                                                          \
    const weft_elementwise weft_elementwise_##name = {                                                       \
        .num_inputs = count, .truth = true, .f64 = name##_double, .f32 = name##_float, .i64 = name##_int64_t \
    };

/* ---- integers ------------------------------------------------------------------------------------------ */

/* Without sign, where wrapping around is defined. */
#define WRAP(a, operator, b) ((int64_t)((uint64_t)(a) operator(uint64_t)(b)))

static inline int64_t divide_down(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return WRAP(0, -, a);
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t rest_of(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t remainder_of(int64_t a, int64_t b)
{
    int64_t rest = rest_of(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline int64_t power(int64_t a, int64_t b)
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

/* Those of functions.h; of single precision alone where there is no other. */
#define EXP(x) _Generic((x), float : weft_exp_f32, default : weft_exp_f64)(x)
#define ERF(x) _Generic((x), float : weft_erf_f32, default : (erf))(x)
#define TANH(x) _Generic((x), float : weft_tanh_f32, default : weft_tanh_f64)(x)
/* The distribution function of the normal distribution, and its density. */
#define NORMAL_CDF(x) ((T)0.5 * (1 + ERF((x) * (T)0.70710678118654752440)))
#define NORMAL_DENSITY(x) ((T)0.39894228040143267794 * EXP((T)-0.5 * (x) * (x)))
/* A gradient with the decay of weights: without it the weight does not matter, be it infinite. */
#define DECAYED(gradient, decay, weight) ((decay) == 0 ? (gradient) : (gradient) + (decay) * (weight))
#define SIGMOID(x) (1 / (1 + EXP(-(x))))
/* NaN where one of the two is. */
#define NOT_BELOW(x, least) ((x) < (least) || (least) != (least) ? (least) : (x))
#define NOT_ABOVE(x, most) ((x) > (most) || (most) != (most) ? (most) : (x))
#define LARGER(x, y) ((x) > (y) ? (x) : (y)) /* y where one of them is NaN */
/* Without overflow between a and b, and b itself at weight 1. */
#define LERP(a, b, weight)                                                                                   \
    (fabs(weight) < (T)0.5 ? (a) + (weight) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (weight)))
/* The quotient rounded down. What is left over says which whole number it is near; then it may still be a
 * rounding off. */
#define FLOOR_DIVIDE(a, b) ((b) == 0 ? (a) / (b) : nearest(exact_quotient(fmod(a, b), a, b)))
#define exact_quotient(rest, a, b) (((a) - (rest)) / (b) - ((rest) != 0 && ((rest) < 0) != ((b) < 0)))
#define nearest(x) (floor(x) + ((x)-floor(x) > (T)0.5))
#define REMAINDER(a, b) sign_of_divisor(fmod(a, b), b)
#define sign_of_divisor(rest, b) ((rest) != 0 && ((rest) < 0) != ((b) < 0) ? (rest) + (b) : (rest))

/* What weft_elementwise_close says. Infinities are close to themselves alone. Without branches. */
static inline bool are_close(double a, double b, const double scalars[])
{
    double difference = fabs(a - b);
    bool finite = difference - difference == 0;
    return (a == b) | (finite & (difference <= scalars[1] + fabs(scalars[0] * b))) |
           ((a != a) & (b != b) & (scalars[2] != 0));
}

/* The difference of integers that differ is at least 1, which double precision does not lose here. */
static inline bool are_close_whole(int64_t a, int64_t b, const double scalars[])
{
    uint64_t difference = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    return (difference == 0) | ((double)difference <= scalars[1] + fabs(scalars[0] * (double)b));
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

NUMBER(copy, 1, a, a)

NUMBER(add, 2, a + b, WRAP(a, +, b))
NUMBER(sub, 2, a - b, WRAP(a, -, b))
NUMBER_LOOPS(mul, 2, a *b, WRAP(a, *, b))
const weft_elementwise weft_elementwise_mul = {
    .num_inputs = 2, .f64 = mul_double, .f32 = mul_float, .i64 = mul_int64_t, .exact_scalar = true
};
FLOATING_LOOPS(div, 2, a / b)
const weft_elementwise weft_elementwise_div = {
    .num_inputs = 2, .f64 = div_double, .f32 = div_float, .exact_scalar = true
};
NUMBER(floor_div, 2, FLOOR_DIVIDE(a, b), divide_down(a, b)) /* not vectorised */
NUMBER(remainder, 2, REMAINDER(a, b), remainder_of(a, b))   /* not vectorised */
NUMBER(fmod, 2, fmod(a, b), rest_of(a, b))                  /* not vectorised */
NUMBER(pow, 2, pow(a, b), power(a, b))                      /* not vectorised */
NUMBER(maximum, 2, a != a || a > b ? a : b, a > b ? a : b)
NUMBER(minimum, 2, a != a || a < b ? a : b, a < b ? a : b)
FLOATING(atan2, 2, atan2(a, b)) /* not vectorised */
FLOATING(hypot, 2, hypot(a, b)) /* not vectorised */
FLOATING(logaddexp, 2,
         a == b ? a + (T)0.69314718055994530942
                : LARGER(a, b) + log1p(EXP(-fabs(a - b)))) /* not vectorised */
NUMBER(scale, 1, s *a, WRAP(s, *, a))
NUMBER(add_scalar, 1, a + s, WRAP(a, +, s))
NUMBER(pow_scalar, 1, pow(a, s), power(a, s)) /* not vectorised */
NUMBER(clamp, 1, NOT_ABOVE(NOT_BELOW(a, s), t), NOT_ABOVE(NOT_BELOW(a, s), t))

TRUTH(eq, 2, a == b)
TRUTH(ne, 2, a != b)
TRUTH(lt, 2, a < b)
TRUTH(le, 2, a <= b)
TRUTH(gt, 2, a > b)
TRUTH(ge, 2, a >= b)
TRUTH(logical_and, 2, (a != 0) & (b != 0))
TRUTH(logical_or, 2, (a != 0) | (b != 0))
TRUTH(logical_xor, 2, (a != 0) ^ (b != 0))
TRUTH(logical_not, 1, a == 0)
TRUTH(isnan, 1, a != a)                 /* not vectorised: int64_t */
TRUTH(isinf, 1, a == a && (a - a) != 0) /* not vectorised: int64_t */
TRUTH(isfinite, 1, (a - a) == 0)        /* not vectorised: int64_t */
LOOP(close, double, uint8_t, 2, are_close((double)a, (double)b, scalars))
LOOP(close, float, uint8_t, 2, are_close((double)a, (double)b, scalars))
LOOP(close, int64_t, uint8_t, 2, are_close_whole(a, b, scalars))
const weft_elementwise weft_elementwise_close = {
    .num_inputs = 2, .truth = true, .f64 = close_double, .f32 = close_float, .i64 = close_int64_t
};
NUMBER(where, 3, a != 0 ? b : c, a != 0 ? b : c)
FLOATING(masked_scale, 2, a *(b != 0 ? s : 0))
NUMBER(masked_fill, 2, b != 0 ? s : a, b != 0 ? s : a)

NUMBER(neg, 1, -a, WRAP(0, -, a))
NUMBER(abs, 1, fabs(a), a < 0 ? WRAP(0, -, a) : a)
NUMBER(sign, 1, (a > 0) - (a < 0), (a > 0) - (a < 0))
NUMBER(square, 1, a *a, WRAP(a, *, a))
FLOATING(reciprocal, 1, 1 / a)
FLOATING(sqrt, 1, sqrt(a))
FLOATING(rsqrt, 1, 1 / sqrt(a))
FLOATING(exp, 1, EXP(a))
FLOATING(expm1, 1, expm1(a)) /* not vectorised */
FLOATING(log, 1, log(a))     /* not vectorised */
FLOATING(log1p, 1, log1p(a)) /* not vectorised */
FLOATING(log2, 1, log2(a))   /* not vectorised */
FLOATING(log10, 1, log10(a)) /* not vectorised */
FLOATING(sin, 1, sin(a))     /* not vectorised */
FLOATING(cos, 1, cos(a))     /* not vectorised */
FLOATING(tan, 1, tan(a))     /* not vectorised */
FLOATING(asin, 1, asin(a))   /* not vectorised */
FLOATING(acos, 1, acos(a))   /* not vectorised */
FLOATING(atan, 1, atan(a))   /* not vectorised */
FLOATING(sinh, 1, sinh(a))   /* not vectorised */
FLOATING(cosh, 1, cosh(a))   /* not vectorised */
FLOATING(tanh, 1, TANH(a))
FLOATING(exp2, 1, exp2(a)) /* not vectorised */
FLOATING(erf, 1, ERF(a))   /* not vectorised: double */
FLOATING(erfc, 1, erfc(a)) /* not vectorised */
NUMBER(floor, 1, floor(a), a)
NUMBER(ceil, 1, ceil(a), a)
NUMBER(trunc, 1, trunc(a), a)
NUMBER(round, 1, nearbyint(a), a)
FLOATING(sigmoid, 1, SIGMOID(a))
FLOATING(silu, 1, a *SIGMOID(a))
NUMBER(relu, 1, a < 0 ? 0 : a, a < 0 ? 0 : a)
FLOATING(gelu, 1, a *NORMAL_CDF(a))               /* not vectorised: double */
FLOATING(softplus, 1, a > 20 ? a : log1p(exp(a))) /* not vectorised */
FLOATING(leaky_relu, 1, a > 0 ? a : s * a)
FLOATING(elu, 1, a > 0 ? a : s * expm1(a)) /* not vectorised */

FLOATING(relu_backward, 2, b <= 0 ? 0 : a)
FLOATING(gelu_backward, 2, a *(NORMAL_CDF(b) + b * NORMAL_DENSITY(b))) /* not vectorised: double */
FLOATING(silu_backward, 2, a *SIGMOID(b) * (1 + b * (1 - SIGMOID(b))))
FLOATING(leaky_relu_backward, 2, b > 0 ? a : s * a)
FLOATING(elu_backward, 2, b <= 0 ? a * s * EXP(b) : a)
FLOATING(tanh_backward, 2, a *(1 - b * b))
FLOATING(sigmoid_backward, 2, a *b *(1 - b))
FLOATING(pow_scalar_backward, 2, s == 0 ? 0 : a * s * pow(b, t)) /* not vectorised */

FLOATING(softmax_step, 3, EXP(a - b) / c)
FLOATING(log_softmax_step, 3, (a - b) - log(c)) /* not vectorised */
FLOATING(softmax_backward_step, 3, b *(a - c))
FLOATING(log_softmax_backward_step, 3, a - EXP(b) * c)
FLOATING(square_difference, 2, (a - b) * (a - b))
FLOATING(scaled_difference, 2, s *(a - b))
FLOATING(mse_backward, 3, s *c *(a - b))

NUMBER(assign, 2, b, b)
NUMBER(fill, 1, s, s)
NUMBER(add_scaled, 2, a + s * b, WRAP(a, +, WRAP(s, *, b)))
FLOATING(lerp, 2, LERP(a, b, s))
FLOATING(average_square, 2, t *a + s * b * b)
NUMBER(addcmul, 3, a + s * b * c, WRAP(a, +, WRAP(s, *, WRAP(b, *, c))))
FLOATING(addcdiv, 3, a + s * (b / c))
FLOATING(momentum, 3, (s == 0 ? 0 : s * a) + t * DECAYED(b, u, c))
FLOATING(sgd_update, 2, a - s * DECAYED(b, t, a))
FLOATING(nesterov_update, 3, a - s * (DECAYED(b, t, a) + u * c))
FLOATING(lerp_decayed, 3, LERP(a, DECAYED(b, u, c), s))
FLOATING(average_square_decayed, 3, t *a + s * DECAYED(b, u, c) * DECAYED(b, u, c))
FLOATING(adam_update, 3, a *v - s * b / (sqrt(c) * u + t))
