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

#endif
