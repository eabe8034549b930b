/* Vectorisable functions: no branches, tables or calls. Valid for every argument, with NaN, infinities and
 * subnormal results; the largest error is given for each. Argument reductions and polynomials were fitted
 * for weft; nothing depends on the rounding of fused operations, which ISO C forbids. */
#ifndef WEFT_CODELETS_FUNCTIONS_H
#define WEFT_CODELETS_FUNCTIONS_H

#include "codelets/half.h"

/* e^(x - k ln 2), |x - k ln 2| <= ln 2 / 2. */
WEFT_INLINE float weft_exp_rest_f32(float x, float k)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; /* k ln2_high is exact */
    float r = (x - k * ln2_high) - k * ln2_low;
    float tail =
        0x1p-1f + (0x1.555488p-3f + (0x1.555458p-5f + (0x1.124028p-7f + 0x1.6dba62p-10f * r) * r) * r) * r;
    return 1.0f + (r + r * r * tail);
}

/* e^x, within 1 ulp: a power of 2 times that. Outside the bounds the result is infinite, or 0. */
WEFT_INLINE float weft_exp_f32(float x)
{
    const float shifter = 0x1.8p23f; /* adding it leaves a rounded integer in the low bits */
    float bounded = x > 89.0f ? 89.0f : x;
    bounded = bounded < -104.0f ? -104.0f : bounded;
    float shifted = bounded * 0x1.715476p0f + shifter;
    float power = weft_exp_rest_f32(bounded, shifted - shifter);
    /* 2^k in two normal factors. */
    uint32_t exponent = weft_bits_of_float(shifted) - weft_bits_of_float(shifter) + 256u;
    uint32_t half = exponent >> 1;
    float first = weft_float_of_bits((half - 1u) << 23),
          second = weft_float_of_bits((exponent - half - 1u) << 23);
    return power * first * second;
}

/* The same, with the same bits, of x <= 0: one of the two factors is constant. Wrong above 18. */
WEFT_INLINE float weft_exp_below_f32(float x)
{
    const float shifter = 0x1.8p23f + 228.0f; /* leaves k + 101 and a float's bias; even: rounds as above */
    float bounded = x < -104.0f ? -104.0f : x;
    float shifted = bounded * 0x1.715476p0f + shifter;
    float power = weft_exp_rest_f32(bounded, shifted - shifter);
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
    float high = 0x1.c6af7ap-5f + (0x1.3b2dd6p-7f + (0x1.5f096p-10f + 0x1.41767ep-13f * f) * f) * f;
    float result = 1.0f + (0x1.62e43p-1f + (0x1.ebfbdcp-3f + high * f) * f) * f;
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

/* In double precision, within 1 ulp. */
WEFT_INLINE double weft_exp_f64(double x)
{
    const double shifter = 0x1.8p52;
    const double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34;
    double bounded = x > 710.0 ? 710.0 : x;
    bounded = bounded < -746.0 ? -746.0 : bounded;
    double shifted = bounded * 0x1.71547652b82fep0 + shifter;
    double k = shifted - shifter;
    double r = (bounded - k * ln2_high) - k * ln2_low;
    double high = 0x1.a01a01b3d7e54p-13 +
                  (0x1.a01a01b490e8dp-16 +
                   (0x1.71ddef4c2c88dp-19 +
                    (0x1.27e4bee399d3ep-22 + (0x1.af6d484fdcb4fp-26 + 0x1.1f9e3598baa56p-29 * r) * r) * r) *
                       r) *
                      r;
    double tail =
        0x1p-1 +
        (0x1.555555555555cp-3 +
         (0x1.555555555555ep-5 + (0x1.111111110eb6ap-7 + (0x1.6c16c16c13445p-10 + high * r) * r) * r) * r) *
            r;
    double power = 1.0 + (r + r * r * tail);
    uint64_t exponent = weft_bits_of_double(shifted) - weft_bits_of_double(shifter) + 2048u;
    uint64_t half = exponent >> 1;
    double first = weft_double_of_bits((half - 1u) << 52),
           second = weft_double_of_bits((exponent - half - 1u) << 52);
    return power * first * second;
}

/* |x| with the sign of another number. Of NaN only the bits. */
WEFT_INLINE float weft_with_sign(float x, float sign)
{
    return weft_float_of_bits((weft_bits_of_float(x) & 0x7fffffffu) |
                              (weft_bits_of_float(sign) & 0x80000000u));
}

/* Within 2 ulp. tanh(x) = x + x^3 p(x^2), or 1 - 2 / (e^2x + 1). */
WEFT_INLINE float weft_tanh_f32(float x)
{
    float size = weft_with_sign(x, 0);
    float square = x * x;
    float tail =
        -0x1.555538p-2f +
        (0x1.1107eap-3f + (-0x1.b85144p-5f + (0x1.529a78p-6f - 0x1.77a248p-8f * square) * square) * square) *
            square;
    float small = size + size * square * tail;
    float large = 1.0f - 2.0f / (weft_exp_f32(2.0f * size) + 1.0f);
    return weft_with_sign(size < 0.625f ? small : large, x);
}

/* Within 2 ulp, in double precision. */
WEFT_INLINE double weft_tanh_f64(double x)
{
    const uint64_t sign = UINT64_C(1) << 63;
    double size = weft_double_of_bits(weft_bits_of_double(x) & ~sign);
    double square = x * x;
    double high =
        -0x1.226e2f2151a2ep-7 +
        (0x1.d6d29d6142b5fp-9 +
         (-0x1.7d8fe7ed14f8cp-10 +
          (0x1.34843faeb3804p-11 +
           (-0x1.e974be1a88c60p-13 + (0x1.5d8070d14e8fbp-14 - 0x1.4729da40c50a9p-16 * square) * square) *
               square) *
              square) *
             square) *
            square;
    double tail = -0x1.555555555554fp-2 +
                  (0x1.11111111107cap-3 +
                   (-0x1.ba1ba1b97fbe8p-5 + (0x1.664f4859e196bp-6 + high * square) * square) * square) *
                      square;
    double small = size + size * square * tail;
    double large = 1.0 - 2.0 / (weft_exp_f64(2.0 * size) + 1.0);
    double result = size < 0.55 ? small : large;
    return weft_double_of_bits((weft_bits_of_double(result) & ~sign) | (weft_bits_of_double(x) & sign));
}

/* Within 2 ulp. 1 - |erf(x)| = e^q(|x|) with q(x) = k ln 2 + r, |r| <= ln 2 / 2, so |erf(x)| is (1 - 2^k)
 * - 2^k (e^r - 1); for small x only the last part remains. */
WEFT_INLINE float weft_erf_f32(float x)
{
    const float shifter = 0x1.8p23f + 127.0f; /* adding it leaves k and a float's bias in the low bits */
    float size = weft_with_sign(x, 0);
    float t = size > 3.95f ? 3.95f : size;
    float high = -0x1.4e2a62p-13f +
                 (0x1.b4b5b4p-10f + (-0x1.4b74a8p-11f + (0x1.eca4dp-14f - 0x1.35dc4ap-17f * t) * t) * t) * t;
    float tail =
        0x1.06ebaap-3f + (0x1.45f2f8p-1f + (0x1.a4faap-4f + (-0x1.39d048p-6f + high * t) * t) * t) * t;
    float q = -t - t * tail;
    float shifted = q * 0x1.715476p0f + shifter;
    float r = q - (shifted - shifter) * 0x1.62e43p-1f;
    float power = weft_float_of_bits(weft_bits_of_float(shifted) << 23);
    float curve =
        0x1p-1f + (0x1.555498p-3f + (0x1.5554a4p-5f + (0x1.1227d6p-7f + 0x1.6d969cp-10f * r) * r) * r) * r;
    float rest = r + r * r * curve;
    return weft_with_sign((1.0f - power) - power * rest, x);
}

/* The distribution function of the normal distribution, within 2^-24. With t = |x| that of -t is 2^(w(t) - 1), w(t) = k + r, k an
 * integer, |r| <= 1/2. From the bound of t on it is 0. */
WEFT_INLINE float weft_normal_cdf_f32(float x)
{
    const float shifter = 0x1.8p23f + 126.0f; /* adding it leaves k - 1 and a float's bias in the low bits */
    float size = weft_with_sign(x, 0);
    float t = size > 10.183f ? 10.183f : size;
    float high = -0x1.9076cep-13f + (-0x1.52d97cp-13f + (0x1.1b789ep-15f - 0x1.39f4fep-19f * t) * t) * t;
    float tail = -0x1.26aee2p0f + (-0x1.d63828p-2f + (-0x1.ae5938p-5f + (0x1.d2fed6p-8f + high * t) * t) * t) * t;
    float w = t * tail;
    float shifted = w + shifter;
    float r = w - (shifted - shifter);
    float power = weft_float_of_bits(weft_bits_of_float(shifted) << 23);
    float curve = 0x1.62e43p-1f +
                  (0x1.ebfbdcp-3f + (0x1.c6af7cp-5f + (0x1.3b2dep-7f + (0x1.5f083p-10f + 0x1.416b5ep-13f * r) * r) * r) * r) * r;
    float below = power + power * (r * curve);
    return x < 0 ? below : 1.0f - below;
}

#endif
