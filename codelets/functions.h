/* Vectorisable functions: no branches, tables or calls. Valid for every argument, with NaN, infinities and
 * subnormal results; the largest error is given for each. Argument reductions and polynomials were fitted
 * for weft. Where a product and a sum are rounded once, fma() says so, and every machine does it: results do
 * not depend on the machine. Code for processors before x86-64-v3, and what compilers other than GCC and the
 * sanitizers' builds make of it (clones.h), calls the C library for each, which takes several times as long. */
#ifndef WEFT_CODELETS_FUNCTIONS_H
#define WEFT_CODELETS_FUNCTIONS_H

#include <math.h>

#include "codelets/half.h"

/* e^(x - k ln 2) - 1, |x - k ln 2| <= ln 2 / 2. */
WEFT_INLINE float weft_exp_rest_f32(float x, float k)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; /* k ln2_high is exact */
    float r = fmaf(-k, ln2_low, fmaf(-k, ln2_high, x));
    float tail = fmaf(fmaf(fmaf(fmaf(0x1.6dba62p-10f, r, 0x1.124028p-7f), r, 0x1.555458p-5f), r, 0x1.555488p-3f), r, 0x1p-1f);
    return fmaf(r * r, tail, r);
}

/* e^x, within 1.1 ulp: a number near 1 times 2^k, in two normal factors of which one depends on the sign alone. Outside the
 * bounds the result is infinite, or 0. */
WEFT_INLINE float weft_exp_f32(float x)
{
    float bounded = x > 89.0f ? 89.0f : x;
    bounded = bounded < -104.0f ? -104.0f : bounded;
    bool below = bounded < 0;
    /* Adding it leaves k, rounded, and a float's bias in the low bits. Even, so that ties are rounded alike. */
    float shifter = below ? 0x1.8p23f + 228.0f : 0x1.8p23f + 126.0f;
    float second = below ? 0x1p-101f : 0x1p1f;
    float shifted = fmaf(bounded, 0x1.715476p0f, shifter);
    float power = 1.0f + weft_exp_rest_f32(bounded, shifted - shifter);
    return power * weft_float_of_bits(weft_bits_of_float(shifted) << 23) * second;
}

/* The same, with the same bits, of x <= 0. Wrong above 18. */
WEFT_INLINE float weft_exp_below_f32(float x)
{
    const float shifter = 0x1.8p23f + 228.0f;
    float bounded = x < -104.0f ? -104.0f : x;
    float shifted = fmaf(bounded, 0x1.715476p0f, shifter);
    float power = 1.0f + weft_exp_rest_f32(bounded, shifted - shifter);
    return power * weft_float_of_bits(weft_bits_of_float(shifted) << 23) * 0x1p-101f;
}

/* e^x with fewer operations, within (1 + |x|) 2^-23 of its size, for x <= 0 that was rounded as a difference: exactly 1 of 0,
 * and 0 where the result is below 2^-126.5. Wrong above 88. */
WEFT_INLINE float weft_exp_short_f32(float x)
{
    const float shifter = 0x1.8p23f + 127.0f; /* adding it leaves k and a float's bias in the low bits */
    float power = x * 0x1.715476p0f;
    power = power < -127.0f ? -127.0f : power;
    float shifted = power + shifter;
    float f = power - (shifted - shifter); /* 2^f, |f| <= 1/2 */
    float high = fmaf(fmaf(fmaf(0x1.41767ep-13f, f, 0x1.5f096p-10f), f, 0x1.3b2dd6p-7f), f, 0x1.c6af7ap-5f);
    float result = fmaf(fmaf(fmaf(high, f, 0x1.ebfbdcp-3f), f, 0x1.62e43p-1f), f, 1.0f);
    return result * weft_float_of_bits(weft_bits_of_float(shifted) << 23);
}

WEFT_INLINE double weft_double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

WEFT_INLINE uint64_t weft_bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

WEFT_INLINE double weft_exp_rest_f64(double x, double k)
{
    const double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34;
    double r = fma(-k, ln2_low, fma(-k, ln2_high, x));
    double high = fma(fma(fma(0x1.1f9e3598baa56p-29, r, 0x1.af6d484fdcb4fp-26), r, 0x1.27e4bee399d3ep-22), r,
                      0x1.71ddef4c2c88dp-19);
    high = fma(fma(high, r, 0x1.a01a01b490e8dp-16), r, 0x1.a01a01b3d7e54p-13);
    high = fma(fma(fma(high, r, 0x1.6c16c16c13445p-10), r, 0x1.111111110eb6ap-7), r, 0x1.555555555555ep-5);
    double tail = fma(fma(high, r, 0x1.555555555555cp-3), r, 0x1p-1);
    return fma(r * r, tail, r);
}

/* In double precision, within 1.1 ulp. */
WEFT_INLINE double weft_exp_f64(double x)
{
    double bounded = x > 710.0 ? 710.0 : x;
    bounded = bounded < -746.0 ? -746.0 : bounded;
    bool below = bounded < 0;
    double shifter = below ? 0x1.8p52 + 1124.0 : 0x1.8p52 + 1022.0;
    double second = below ? 0x1p-101 : 0x1p1;
    double shifted = fma(bounded, 0x1.71547652b82fep0, shifter);
    double power = 1.0 + weft_exp_rest_f64(bounded, shifted - shifter);
    return power * weft_double_of_bits(weft_bits_of_double(shifted) << 52) * second;
}

/* |x| with the sign of another number. Of NaN only the bits. */
WEFT_INLINE float weft_with_sign(float x, float sign)
{
    return weft_float_of_bits((weft_bits_of_float(x) & 0x7fffffffu) |
                              (weft_bits_of_float(sign) & 0x80000000u));
}

/* Within 2 ulp, and never less for a larger number. tanh(x) = m / (m + 2), m = e^2x - 1 = 2^k (e^r - 1) + (2^k - 1); the quotient is
 * corrected by what it and the sum m + 2 have lost. From the bound of |x| on it is 1. */
WEFT_INLINE float weft_tanh_f32(float x)
{
    const float shifter = 0x1.8p23f + 127.0f; /* adding it leaves k and a float's bias in the low bits */
    float size = weft_with_sign(x, 0);
    float twice = size > 9.1f ? 18.2f : 2.0f * size;
    float shifted = fmaf(twice, 0x1.715476p0f, shifter);
    float rest = weft_exp_rest_f32(twice, shifted - shifter);
    float power = weft_float_of_bits(weft_bits_of_float(shifted) << 23);
    float m = fmaf(power, rest, power - 1.0f), sum = m + 2.0f, lost = m - (sum - 2.0f);
    float inverse = 1.0f / sum, quotient = m * inverse;
    float error = fmaf(-quotient, lost, fmaf(-quotient, sum, m));
    return weft_with_sign(fmaf(error, inverse, quotient), x);
}

/* The same in double precision. */
WEFT_INLINE double weft_tanh_f64(double x)
{
    const uint64_t sign = UINT64_C(1) << 63;
    const double shifter = 0x1.8p52 + 1023.0;
    double size = weft_double_of_bits(weft_bits_of_double(x) & ~sign);
    double twice = size > 19.1 ? 38.2 : 2.0 * size;
    double shifted = fma(twice, 0x1.71547652b82fep0, shifter);
    double rest = weft_exp_rest_f64(twice, shifted - shifter);
    double power = weft_double_of_bits(weft_bits_of_double(shifted) << 52);
    double m = fma(power, rest, power - 1.0), sum = m + 2.0, lost = m - (sum - 2.0);
    double inverse = 1.0 / sum, quotient = m * inverse;
    double error = fma(-quotient, lost, fma(-quotient, sum, m));
    double result = fma(error, inverse, quotient);
    return weft_double_of_bits((weft_bits_of_double(result) & ~sign) | (weft_bits_of_double(x) & sign));
}

/* Within 2 ulp. 1 - |erf(x)| = e^q(|x|) with q(x) = k ln 2 + r, |r| <= ln 2 / 2, so |erf(x)| is (1 - 2^k)
 * - 2^k (e^r - 1); for small x only the last part remains. */
WEFT_INLINE float weft_erf_f32(float x)
{
    const float shifter = 0x1.8p23f + 127.0f; /* adding it leaves k and a float's bias in the low bits */
    float size = weft_with_sign(x, 0);
    float t = size > 3.95f ? 3.95f : size;
    float high = fmaf(fmaf(fmaf(fmaf(-0x1.35dc4ap-17f, t, 0x1.eca4dp-14f), t, -0x1.4b74a8p-11f), t, 0x1.b4b5b4p-10f), t,
                      -0x1.4e2a62p-13f);
    float tail = fmaf(fmaf(fmaf(fmaf(high, t, -0x1.39d048p-6f), t, 0x1.a4faap-4f), t, 0x1.45f2f8p-1f), t, 0x1.06ebaap-3f);
    float q = fmaf(-t, tail, -t);
    float shifted = fmaf(q, 0x1.715476p0f, shifter);
    float r = fmaf(-(shifted - shifter), 0x1.62e43p-1f, q);
    float power = weft_float_of_bits(weft_bits_of_float(shifted) << 23);
    float curve = fmaf(fmaf(fmaf(fmaf(0x1.6d969cp-10f, r, 0x1.1227d6p-7f), r, 0x1.5554a4p-5f), r, 0x1.555498p-3f), r, 0x1p-1f);
    float rest = fmaf(r * r, curve, r);
    return weft_with_sign(fmaf(-power, rest, 1.0f - power), x);
}

/* The distribution function of the normal distribution, within 2^-23. With t = |x| that of -t is 2^(w(t) - 1), w(t) = k + r, k an
 * integer, |r| <= 1/2. From the bound of t on it is 0. */
WEFT_INLINE float weft_normal_cdf_f32(float x)
{
    const float shifter = 0x1.8p23f + 126.0f; /* adding it leaves k - 1 and a float's bias in the low bits */
    float size = weft_with_sign(x, 0);
    float t = size > 10.183f ? 10.183f : size;
    float high = fmaf(fmaf(fmaf(-0x1.39f4fep-19f, t, 0x1.1b789ep-15f), t, -0x1.52d97cp-13f), t, -0x1.9076cep-13f);
    float tail = fmaf(fmaf(fmaf(fmaf(high, t, 0x1.d2fed6p-8f), t, -0x1.ae5938p-5f), t, -0x1.d63828p-2f), t, -0x1.26aee2p0f);
    float w = t * tail;
    float shifted = w + shifter;
    float r = w - (shifted - shifter);
    float power = weft_float_of_bits(weft_bits_of_float(shifted) << 23);
    float curve = fmaf(fmaf(fmaf(0x1.416b5ep-13f, r, 0x1.5f083p-10f), r, 0x1.3b2dep-7f), r, 0x1.c6af7cp-5f);
    curve = fmaf(fmaf(curve, r, 0x1.ebfbdcp-3f), r, 0x1.62e43p-1f);
    float below = fmaf(power, r * curve, power);
    return x < 0 ? below : 1.0f - below;
}

#endif
