/* Special functions: elementwise.h of weft. */
#include "elementwise.h"

double j0(double x); /* of POSIX, which ISO C's <math.h> hides */
double j1(double x);

#define INTEGERS (INDICES | SHORT_INTEGERS | BIT(WEFT_U8))
#define PLAIN(name_)                                                                                         \
    ROW(name_, make_elementwise, elementwise_reference, .details = &details_##name_, .flags = FETCHES_SCALARS)
#define DETAILS(name_, call_, ...)                                                                           \
    CALLS(name_, call_)                                                                                      \
    static const elementwise details_##name_ = { __VA_ARGS__ };

/* e^-|x| times the modified Bessel function: the series of powers, far out the first terms of the asymptotic one. */
static long double bessel_i(int order, double x)
{
    long double size = fabsl((long double)x), term = order == 0 ? 1 : size / 2, sum = 0;
    if (x != x || isinf(x)) {
        return x != x ? x : 0;
    }
    if (size > 2000) {
        long double z = 1 / (8 * size), first = order == 0 ? 1 : -3, second = order == 0 ? 9 : -15, third = order == 0 ? 225 : -315;
        sum = (1 + first * z + second * z * z / 2 + third * z * z * z / 6) / sqrtl(2 * 3.14159265358979323846264338L * size);
    } else {
        for (int k = 1; k < 6000; k++) {
            sum += term;
            term *= size * size / 4 / ((long double)k * (k + order));
        }
        sum *= expl(-size);
    }
    return order == 1 && x < 0 ? -sum : sum;
}

static double grown(int order, double x)
{
    return isinf(x) ? (order == 1 ? x : fabs(x)) : (double)(bessel_i(order, x) * expl(fabsl((long double)x)));
}

static const long double root_of_half = 0.70710678118654752440084436L;

static double log_ndtr(double x)
{
    const long double w = x;
    return x < -90 ? (double)(-w * w / 2 - logl(-w) - 0.91893853320467274178032974L - 1 / (w * w))
                   : x > 0 ? (double)log1pl(-erfcl(w * root_of_half) / 2) : (double)logl(erfcl(-w * root_of_half) / 2);
}

/* By halving an interval. */
static double ndtri(double p)
{
    long double low = -60, high = 60;
    if (!(p > 0 && p < 1)) {
        return p == 0 ? -(double)INFINITY : p == 1 ? (double)INFINITY : (double)NAN;
    }
    for (int i = 0; i < 140; i++) {
        long double middle = (low + high) / 2;
        bool below = p < 0.5 ? erfcl(-middle * root_of_half) / 2 < p : erfcl(middle * root_of_half) / 2 > 1 - (long double)p;
        low = below ? middle : low;
        high = below ? high : middle;
    }
    return (double)((low + high) / 2);
}

static double sinc(double x)
{
    const long double turns = 3.14159265358979323846264338L * ((long double)x - 2 * roundl((long double)x / 2));
    return x == 0 ? 1 : (double)(sinl(turns) / (3.14159265358979323846264338L * x));
}

REAL(i0, return inexact(v, grown(0, x));)
REAL(i0e, return inexact(v, (double)bessel_i(0, x));)
REAL(i1, return inexact(v, grown(1, x));)
REAL(i1e, return inexact(v, (double)bessel_i(1, x));)
REAL(bessel_j0, return inexact_by(v, j0(x), 1);)
REAL(bessel_j1, return inexact_by(v, j1(x), 1);)
/* The argument of erfc is rounded. */
REAL(ndtr, const double value = (double)(erfcl(-x * root_of_half) / 2); return inexact_by(v, value, value * (1 + (isinf(x) ? 0 : x * x)));)
REAL(log_ndtr, const double value = log_ndtr(x); return inexact_by(v, value, fabs(value) * (1 + (isinf(x) ? 0 : fmin(x * x, 1e4))));)
REAL(ndtri, return inexact_by(v, ndtri(x), isinf(ndtri(x)) ? ndtri(x) : fabs(ndtri(x)));)
REAL(entr, return x > 0 ? inexact(v, -x * log(x)) : x == 0 ? 0 : x < 0 ? -(double)INFINITY : x;)
REAL(logit, const double value = log(x / (1 - x)); return inexact_by(v, value, fmax(fabs(value), 1));)
REAL(sinc, return inexact_by(v, sinc(x), x == 0 || x != x ? 1 : fmax(fabs(sinc(x)), fmin(1, 1 / fabs(x))));)
REAL(xlog1py, return y != y ? y : x == 0 ? 0 : inexact(v, x * log1p(y));)
REAL(logaddexp2, {
    const double larger = fmax(x, y), value = x == y ? x + 1 : larger + log1p(exp2(-fabs(x - y))) / log(2);
    return x != x || y != y ? x + y : inexact_by(v, value, isinf(value) ? value : fabs(larger) + 1);
})
REAL(heaviside, return x == 0 ? y : x > 0;)
WHOLE(heaviside, return x == 0 ? y : x > 0;)

static uint64_t size_of_whole(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* By subtracting multiples, in the other order. */
static uint64_t divisor(uint64_t a, uint64_t b)
{
    return a == 0 ? b : divisor(b % a, a);
}

WHOLE(gcd, return (int64_t)divisor(size_of_whole(x), size_of_whole(y));)
WHOLE(lcm, {
    const uint64_t common = divisor(size_of_whole(x), size_of_whole(y));
    const int64_t product = common == 0 ? 0 : wrap_multiply(x / (int64_t)common, y);
    return (int64_t)size_of_whole(product);
})

#define SPECIAL(name_)                                                                                       \
    DETAILS(name_, out[0] = weft_##name_(in[0]), .inputs = 1, .types = ALL_TYPES, .result = RESULT_FLOATING, \
            .real = real_##name_, .roundings = 16, .tame = true)
SPECIAL(i0)
SPECIAL(i0e)
SPECIAL(i1)
SPECIAL(i1e)
SPECIAL(bessel_j0)
SPECIAL(bessel_j1)
SPECIAL(ndtr)
SPECIAL(log_ndtr)
SPECIAL(ndtri)
SPECIAL(entr)
SPECIAL(logit)
SPECIAL(sinc)
DETAILS(xlog1py, out[0] = weft_xlog1py(in[0], in[1]), .inputs = 2, .types = ALL_TYPES, .result = RESULT_FLOATING,
        .real = real_xlog1py, .roundings = 3, .tame = true)
DETAILS(logaddexp2, out[0] = weft_logaddexp2(in[0], in[1]), .inputs = 2, .types = ALL_TYPES, .result = RESULT_FLOATING,
        .real = real_logaddexp2, .roundings = 6, .tame = true)
DETAILS(heaviside, out[0] = weft_heaviside(in[0], in[1]), .inputs = 2, .types = NUMBERS, .real = real_heaviside,
        .whole = whole_heaviside)
DETAILS(gcd, out[0] = weft_gcd(in[0], in[1]), .inputs = 2, .types = INTEGERS, .whole = whole_gcd)
DETAILS(lcm, out[0] = weft_lcm(in[0], in[1]), .inputs = 2, .types = INTEGERS, .whole = whole_lcm)

const operation special_calls[] = {
    PLAIN(i0),        PLAIN(i0e),       PLAIN(i1),       PLAIN(i1e),   PLAIN(bessel_j0), PLAIN(bessel_j1), PLAIN(ndtr),
    PLAIN(log_ndtr),  PLAIN(ndtri),     PLAIN(entr),     PLAIN(logit), PLAIN(sinc),      PLAIN(xlog1py),   PLAIN(logaddexp2),
    PLAIN(heaviside), PLAIN(gcd),       PLAIN(lcm),      { .name = NULL },
};
