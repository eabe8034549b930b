/* Special functions in double precision, in the same arithmetic on CPUs and devices. Errors: the largest found against exact
 * values, in units of the last place (ulp). */
#ifndef WEFT_CODELETS_SPECIAL_H
#define WEFT_CODELETS_SPECIAL_H

#include <math.h>

#include "codelets/half.h"

#define WEFT_PI 3.14159265358979323846

/* The derivative of log |Gamma|. Below 10 (trigamma: 13) by psi(x) = psi(x + 1) - 1 / x, then by Stirling's series; below 0 by
 * psi(1 - x) - pi / tan(pi x). Within 11 ulp of the result, or of 1 where the result is smaller:
 * near its zeros. At 0 infinite, at negative integers NaN. */
WEFT_INLINE double weft_digamma(double x)
{
    double result = 0;
    if (x == 0) {
        return copysign((double)INFINITY, -x);
    }
    if (x < 0) {
        double rest = x - nearbyint(x);
        if (rest == 0) {
            return (double)NAN;
        }
        result = -WEFT_PI / tan(WEFT_PI * rest);
        x = 1 - x;
    }
    for (; x < 10; x += 1) {
        result -= 1 / x;
    }
    double z = 1 / (x * x);
    double series = z * (1.0 / 12 -
                         z * (1.0 / 120 -
                              z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return result + (log(x) - 0.5 / x - series);
}

/* The derivative of that, in the same way. Within 5 ulp. At 0 and at negative integers infinite. */
WEFT_INLINE double weft_trigamma(double x)
{
    double result = 0, sign = 1;
    if (x < 0) {
        double sine = sin(WEFT_PI * (x - nearbyint(x)));
        result = -(WEFT_PI * WEFT_PI) / (sine * sine);
        sign = -1;
        x = 1 - x;
    }
    for (; x < 13; x += 1) {
        result += 1 / (x * x);
    }
    double z = 1 / (x * x);
    double series =
        z * (1.0 / 6 -
             z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7 / 6))))));
    return sign * (result + (1 + 0.5 / x + series) / x);
}

/* The inverse of erf: Winitzki's formula, within 0.3 percent, and three steps of Halley's method, of which each triples the
 * digits. Within 2 ulp. NaN outside -1 .. 1. */
WEFT_INLINE double weft_erfinv(double x)
{
    double size = fabs(x);
    if (!(size < 1)) {
        return size == 1 ? copysign((double)INFINITY, x) : (double)NAN;
    }
    if (size < 1e-8) {
        return x * 0.88622692545275801365; /* sqrt(pi) / 2 */
    }
    double log_of_rest = size < 0.5 ? log1p(-size * size) : log((1 - size) * (1 + size));
    double middle = 2 / (WEFT_PI * 0.147) + 0.5 * log_of_rest;
    double root = sqrt(middle * middle - log_of_rest / 0.147);
    double y = sqrt(middle > 0 ? -log_of_rest / 0.147 / (root + middle) : root - middle);
    for (int i = 0; i < 3; i++) {
        double difference = size < 0.5 ? erf(y) - size : (1 - size) - erfc(y);
        double step = difference / (1.12837916709551257390 * exp(-y * y)); /* 2 / sqrt(pi) */
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

/* The zeta function of Hurwitz, the sum of (q + k)^-s for k >= 0, s > 1, of q > 0: terms up to q + k >= s + 10, the rest by Euler's and
 * Maclaurin's formula. */
WEFT_INLINE double weft_zeta_above_0(double s, double q)
{
    /* B(2j) / (2j)! */
    const double factors[] = { 1.0 / 12,          -1.0 / 720,        1.0 / 30240,         -1.0 / 1209600, 1.0 / 47900160,
                               -691.0 / 1307674368000.0, 1.0 / 74724249600.0, -3617.0 / 10670622842880000.0 };
    double sum = 0, term = 1;
    for (; q < s + 10 && term > 1e-17 * sum; q += 1) {
        term = pow(q, -s);
        sum += term;
    }
    if (!(term > 1e-17 * sum) || q == (double)INFINITY) {
        return sum;
    }
    const double power = pow(q, -s);
    double rest = power * q / (s - 1) + 0.5 * power, product = power * s / q;
    for (int j = 0; j < 8; j++) {
        rest += factors[j] * product;
        product *= (s + 2 * j + 1) * (s + 2 * j + 2) / (q * q);
    }
    return sum + rest;
}

/* The same for any q. The terms of a negative q are (-1)^s times those of -q, -q - 1, ..., if s is whole; else the result is NaN. It is
 * infinite at s = 1 and at q = 0, -1, ..., and NaN for s below 1. */
WEFT_INLINE double weft_zeta(double s, double q)
{
    if (!(s > 1) || q != q || (q <= 0 && (q == floor(q) || s != floor(s)))) {
        return s == 1 || (s > 1 && q == floor(q) && q <= 0) ? (double)INFINITY : (double)NAN;
    }
    if (q > 0) {
        return weft_zeta_above_0(s, q);
    }
    const double last = -q - floor(-q), below = weft_zeta_above_0(s, last) - weft_zeta_above_0(s, 1 - q);
    return weft_zeta_above_0(s, 1 - last) + (s - 2 * floor(s / 2) != 0 ? -below : below);
}

/* The n-th derivative of digamma, n >= 1: (-1)^(n + 1) n! zeta(n + 1, x). */
WEFT_INLINE double weft_polygamma_of(double n, double x)
{
    return n == 1 ? weft_trigamma(x) : (n - 2 * floor(n / 2) != 0 ? 1 : -1) * tgamma(n + 1) * weft_zeta(n + 1, x);
}

/* e^-|x| times the modified Bessel function of order n = 0 or 1: the series of powers, all of one sign, below 30, and the
 * asymptotic one, whose terms fall below the last digit there. */
WEFT_INLINE double weft_bessel_i_scaled(int n, double x)
{
    const double size = fabs(x);
    double sum = 0, term = n == 0 ? 1 : size / 2;
    if (size < 30) {
        for (int k = 1; term > 1e-17 * sum; k++) {
            sum += term;
            term *= x * x / 4 / ((double)k * (k + n));
        }
        sum *= exp(-size);
    } else {
        term = 1;
        for (int k = 1; fabs(term) > 1e-17 && k < 40; k++) {
            sum += term;
            term *= ((2 * k - 1) * (2 * k - 1) - 4 * n) / (8.0 * k * size);
        }
        sum = x != x ? x : sum / sqrt(2 * WEFT_PI * size);
    }
    return n == 1 && x < 0 ? -sum : sum;
}

/* Without the factor: by halves, because it overflows before the result does. */
WEFT_INLINE double weft_bessel_i(int n, double x)
{
    const double half = exp(fabs(x) / 2);
    return fabs(x) == (double)INFINITY ? (n == 1 ? x : fabs(x)) : weft_bessel_i_scaled(n, x) * half * half;
}

#ifndef __cplusplus
double j0(double x); /* of POSIX, which ISO C's <math.h> hides */
double j1(double x);
#endif

/* The distribution function of the normal distribution, and its logarithm: far below 0 by the asymptotic series. */
WEFT_INLINE double weft_ndtr(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

WEFT_INLINE double weft_log_ndtr(double x)
{
    if (x > 0) {
        return log1p(-0.5 * erfc(x * 0.70710678118654752440));
    }
    if (!(x < -20)) {
        return log(weft_ndtr(x));
    }
    double series = 0, term = 1;
    for (int k = 1; k < 12; k++) {
        term *= -(2 * k - 1) / (x * x);
        series += term;
    }
    return -0.5 * x * x - log(-x) - 0.91893853320467274178 + log1p(series); /* log(2 pi) / 2 */
}

/* The inverse of the distribution function: near the middle by the inverse of erf; in the tails by Newton's method for log erfc,
 * which is nearly a parabola there. NaN outside 0 .. 1. */
WEFT_INLINE double weft_ndtri(double p)
{
    const double tail = p < 0.5 ? p : 1 - p, sign = p < 0.5 ? -1 : 1;
    if (!(tail > 0)) {
        return tail == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    if (tail > 0.25) {
        return 1.41421356237309504880 * weft_erfinv(2 * p - 1);
    }
    const double target = log(2 * tail);
    double y = sqrt(-target);
    for (int i = 0; i < 6; i++) {
        const double rest = erfc(y);
        y += (log(rest) - target) * rest / (1.12837916709551257390 * exp(-y * y));
    }
    return sign * 1.41421356237309504880 * y;
}

/* sin(pi x) / (pi x); the sine of the rest of x, which is exact, by 2. */
WEFT_INLINE double weft_sinc(double x)
{
    return x == 0 ? 1 : sin(WEFT_PI * (x - 2 * nearbyint(x / 2))) / (WEFT_PI * x);
}

WEFT_INLINE int64_t weft_gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y != 0) {
        const uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

/* Wraps around. */
WEFT_INLINE int64_t weft_lcm(int64_t a, int64_t b)
{
    const uint64_t divisor = (uint64_t)weft_gcd(a, b);
    const int64_t product = divisor == 0 ? 0 : (int64_t)((uint64_t)(a / (int64_t)divisor) * (uint64_t)b);
    return product < 0 ? (int64_t)(0 - (uint64_t)product) : product;
}

#endif
