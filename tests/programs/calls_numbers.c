/* Comparisons with a number, bits, choices between values: elementwise.h of weft. */
#include "elementwise.h"

#define PLAIN(name_)                                                                                         \
    ROW(name_, make_elementwise, elementwise_reference, .details = &details_##name_, .flags = FETCHES_SCALARS)

/* ---- comparisons --------------------------------------------------------------------------------------- */

/* Floating values with the number rounded to their type, integers exactly. */
#define COMPARISON(name_, operator_)                                                                         \
    static double real_##name_(scalars *v)                                                                   \
    {                                                                                                        \
        return v->a operator_ rounded(v->common, v->real[0]);                                                \
    }                                                                                                        \
    static int64_t whole_##name_(scalars *v)                                                                 \
    {                                                                                                        \
        return (long double)v->i operator_(long double) v->real[0];                                          \
    }                                                                                                        \
    CALLS(name_, out[0] = weft_##name_(in[0], real[0]))                                                      \
    static const elementwise details_##name_ = { .inputs = 1,                                                \
                                                 .numbers = 1,                                               \
                                                 .types = ALL_TYPES,                                         \
                                                 .result = RESULT_TRUTH,                                     \
                                                 .real = real_##name_,                                       \
                                                 .whole = whole_##name_,                                     \
                                                 .any_numbers = true };

COMPARISON(eq_scalar, ==)
COMPARISON(ne_scalar, !=)
COMPARISON(lt_scalar, <)
COMPARISON(le_scalar, <=)
COMPARISON(gt_scalar, >)
COMPARISON(ge_scalar, >=)

/* ---- bits ---------------------------------------------------------------------------------------------- */

/* has_types() accepts integers alone. */
static double no_real(scalars *v)
{
    return v->a;
}

#define INTEGERS (INDICES | SHORT_INTEGERS | BIT(WEFT_U8))
#define BITS(name_, inputs_, call_, types_, ...)                                                             \
    static int64_t whole_##name_(scalars *v)                                                                 \
    {                                                                                                        \
        const int64_t x = v->i, y = v->j;                                                                    \
        (void)x, (void)y;                                                                                             \
        return __VA_ARGS__;                                                                                  \
    }                                                                                                        \
    CALLS(name_, call_)                                                                                      \
    static const elementwise details_##name_ = {                                                             \
        .inputs = inputs_, .types = types_, .real = no_real, .whole = whole_##name_                          \
    };

static int bits_of(weft_dtype type)
{
    return 8 * (int)weft_dtype_size(type);
}

/* One bit after the other. */
static int64_t shifted(const scalars *v, bool left)
{
    int64_t result = v->i, by = v->j < 0 || v->j > bits_of(v->common) ? bits_of(v->common) : v->j;
    for (int64_t k = 0; k < by; k++) {
        int64_t half = (result - (result % 2 != 0 && result < 0)) / 2;
        result = left ? wrapped(v->common, wrap_multiply(2, result)) : half;
    }
    return result;
}

BITS(bitwise_and, 2, out[0] = weft_bitwise_and(in[0], in[1]), INTEGERS | BIT(WEFT_BOOL), x &y)
BITS(bitwise_or, 2, out[0] = weft_bitwise_or(in[0], in[1]), INTEGERS | BIT(WEFT_BOOL), x | y)
BITS(bitwise_xor, 2, out[0] = weft_bitwise_xor(in[0], in[1]), INTEGERS | BIT(WEFT_BOOL), x ^ y)
BITS(bitwise_not, 1, out[0] = weft_bitwise_not(in[0]), INTEGERS | BIT(WEFT_BOOL),
     v->common == WEFT_BOOL ? !x : -1 - x)
BITS(bitwise_left_shift, 2, out[0] = weft_bitwise_left_shift(in[0], in[1]), INTEGERS, shifted(v, true))
BITS(bitwise_right_shift, 2, out[0] = weft_bitwise_right_shift(in[0], in[1]), INTEGERS, shifted(v, false))

/* ---- choices ------------------------------------------------------------------------------------------- */

#define DETAILS(name_, call_, ...)                                                                           \
    CALLS(name_, call_)                                                                                      \
    static const elementwise details_##name_ = { __VA_ARGS__ };

REAL(fmax, return y != y || x >= y ? x : y;)
WHOLE(fmax, return x > y ? x : y;)
REAL(fmin, return y != y || x <= y ? x : y;)
WHOLE(fmin, return x < y ? x : y;)
REAL(copysign, {
    depends_on_sign_of(v, y);
    v->unsure |= y != y && x == x;
    return copysign(x, y);
})
REAL(nan_to_num, return x != x ? s : isinf(x) ? (x > 0 ? t : -t) : x;)
WHOLE(nan_to_num, return x;)
REAL(frac, return x - trunc(x);)
/* NaN bounds as well. */
REAL(clamp, double low = x < y || y != y ? y : x; low = x != x ? x : low; return low > z || z != z ? (low != low ? low : z) : low;)
WHOLE(clamp, return x < y ? (y > z ? z : y) : x > z ? z : x;)
REAL(minimum, return x != x || x < y ? x : y;)
WHOLE(minimum, return x < y ? x : y;)
REAL(lerp_tensor, {
    double difference = sum(v, y, -x), rest = sum(v, 1, -z);
    v->magnitude = fabs(x) + fabs(y) + (fabs(x) + fabs(y)) * (1 + fabs(z));
    return fabs(z) < 0.5 ? x + product(v, z, difference) : y - product(v, difference, rest);
})

DETAILS(fmax, out[0] = weft_fmax(in[0], in[1]), .inputs = 2, .types = ALL_TYPES, .real = real_fmax, .whole = whole_fmax)
DETAILS(fmin, out[0] = weft_fmin(in[0], in[1]), .inputs = 2, .types = ALL_TYPES, .real = real_fmin, .whole = whole_fmin)
DETAILS(copysign, out[0] = weft_copysign(in[0], in[1]), .inputs = 2, .types = NUMBERS, .result = RESULT_FLOATING,
        .real = real_copysign)
DETAILS(nan_to_num, out[0] = weft_nan_to_num(in[0], real[0], real[1], -real[1]), .inputs = 1, .numbers = 2,
        .types = ALL_TYPES, .real = real_nan_to_num, .whole = whole_nan_to_num)
DETAILS(frac, out[0] = weft_frac(in[0]), .inputs = 1, .types = FLOATS, .real = real_frac)
DETAILS(clamp_tensors, out[0] = weft_clamp_tensors(in[0], in[1], in[2]), .inputs = 3, .types = NUMBERS, .real = real_clamp,
        .whole = whole_clamp)
DETAILS(clamp_above, out[0] = weft_clamp_tensors(in[0], NULL, in[1]), .inputs = 2, .types = NUMBERS, .real = real_minimum,
        .whole = whole_minimum)
DETAILS(lerp_tensor, out[0] = weft_lerp_tensor(in[0], in[1], in[2]), .inputs = 3, .types = FLOATS,
        .real = real_lerp_tensor, .roundings = 5, .tame = true)

/* ---- special functions --------------------------------------------------------------------------------- */

/* By recurrence up to large numbers, where two terms suffice, and by reflection below 0. */
static long double digamma(long double x)
{
    const long double pi = 3.14159265358979323846264338L;
    long double below = 0;
    if (x < 0) {
        long double rest = x - roundl(x);
        return rest == 0 ? (long double)NAN : digamma(1 - x) - pi / tanl(pi * rest);
    }
    for (; x < 300; x++) {
        below -= 1 / x;
    }
    return below + logl(x) - 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * x * x * x * x);
}

static long double trigamma(long double x)
{
    const long double pi = 3.14159265358979323846264338L;
    long double above = 0;
    if (x < 0) {
        long double sine = sinl(pi * (x - roundl(x)));
        return pi * pi / (sine * sine) - trigamma(1 - x);
    }
    for (; x < 300; x++) {
        above += 1 / (x * x);
    }
    return above + 1 / x + 1 / (2 * x * x) + 1 / (6 * x * x * x) - 1 / (30 * x * x * x * x * x);
}

/* By halving an interval. */
static double erfinv(double x)
{
    long double low = 0, high = 7, size = fabsl((long double)x);
    if (!(size < 1)) {
        return size == 1 ? copysign((double)INFINITY, x) : (double)NAN;
    }
    for (int i = 0; i < 120; i++) {
        long double middle = (low + high) / 2;
        bool above = size < 0.5L ? erfl(middle) > size : erfcl(middle) < 1 - size;
        low = above ? low : middle;
        high = above ? middle : high;
    }
    return copysign((double)low, x);
}

REAL(erfinv, return inexact(v, erfinv(x));)
REAL(lgamma, return inexact_by(v, lgamma(x), fabs(lgamma(x)) + (fabs(lgamma(x)) < INFINITY ? 1 : 0));)
REAL(digamma, {
    depends_on_sign_of(v, x);
    double result = x == 0 ? copysign((double)INFINITY, -x) : isinf(x) ? (x > 0 ? x : (double)NAN) : (double)digamma(x);
    return inexact_by(v, result, fmax(fabs(result), 1));
})
REAL(polygamma, return inexact(v, isinf(x) ? (x > 0 ? 0 : (double)NAN) : (double)trigamma(x));)
REAL(xlogy, return y != y ? y : x == 0 ? 0 : inexact(v, x *log(y));)

#define SPECIAL(name_, call_)                                                                                \
    DETAILS(name_, call_, .inputs = 1, .types = ALL_TYPES, .result = RESULT_FLOATING, .real = real_##name_,  \
            .roundings = 12, .tame = true)
SPECIAL(erfinv, out[0] = weft_erfinv(in[0]))
SPECIAL(lgamma, out[0] = weft_lgamma(in[0]))
SPECIAL(digamma, out[0] = weft_digamma(in[0]))
SPECIAL(polygamma, out[0] = weft_polygamma(in[0], 1))
DETAILS(xlogy, out[0] = weft_xlogy(in[0], in[1]), .inputs = 2, .types = ALL_TYPES, .result = RESULT_FLOATING,
        .real = real_xlogy, .roundings = 3, .tame = true)

/* Where the bounds are equal nothing depends on x, but each half of the gradient goes its own way: no quotient of
 * differences shows it. */
static bool clamp_reference(scene *s)
{
    bool right = elementwise_reference(s);
    for (int64_t i = 0; right && s->program->gradients && i < s->out[0]->count; i++) {
        double bounds[2];
        for (int k = 0; k < 2; k++) {
            const dense *x = s->in[k + 1];
            bounds[k] = number_of(x->dtype, x->at[broadcast_index(x, s->out[0]->ndim, s->out[0]->shape, i)]);
        }
        right = bounds[0] != bounds[1];
    }
    return right;
}

const operation number_calls[] = {
    PLAIN(eq_scalar),
    PLAIN(ne_scalar),
    PLAIN(lt_scalar),
    PLAIN(le_scalar),
    PLAIN(gt_scalar),
    PLAIN(ge_scalar),
    PLAIN(bitwise_and),
    PLAIN(bitwise_or),
    PLAIN(bitwise_xor),
    PLAIN(bitwise_not),
    PLAIN(bitwise_left_shift),
    PLAIN(bitwise_right_shift),
    PLAIN(fmax),
    PLAIN(fmin),
    PLAIN(copysign),
    PLAIN(nan_to_num),
    PLAIN(frac),
    ROW(clamp_tensors, make_elementwise, clamp_reference, .details = &details_clamp_tensors, .flags = FETCHES_SCALARS),
    PLAIN(clamp_above),
    PLAIN(lerp_tensor),
    PLAIN(erfinv),
    PLAIN(lgamma),
    PLAIN(digamma),
    PLAIN(polygamma),
    PLAIN(xlogy),
    { .name = NULL },
};
