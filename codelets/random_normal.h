/* Normal numbers made of random words, by additions, products, quotients and roots alone: the same bits on CPUs and on
 * devices, and with any C library. For the C compiler and for nvcc. */
#ifndef WEFT_CODELETS_RANDOM_NORMAL_H
#define WEFT_CODELETS_RANDOM_NORMAL_H

#include "codelets/functions.h"
#include "codelets/random_words.h"

/* The logarithm of a number in (0, 1], normal; within 1 ulp. x = 2^k m, m from sqrt(1/2) to sqrt(2), and with f = m - 1,
 * s = f / (2 + f): log(m) = 2 atanh(s) = f - s (f - t), t the terms of the series 2 s^2 / 3 + 2 s^4 / 5 + ... */
WEFT_INLINE double weft_log_of_unit_f64(double x)
{
    const double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34; /* k ln2_high is exact */
    const uint64_t least = UINT64_C(0x3fe6a09e667f3bcd);                      /* sqrt(1/2) */
    const uint64_t bits = weft_bits_of_double(x);
    const double k = bits < least ? -(double)((least - bits + ((UINT64_C(1) << 52) - 1)) >> 52) : 0.0;
    const double f = weft_double_of_bits(bits + ((uint64_t)(-k) << 52)) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    const double high = 2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * (2.0 / 19 + z * (2.0 / 21 + z * (2.0 / 23)))));
    const double t = z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 + z * high)))));
    return k * ln2_high + (f - (s * (f - t) - k * ln2_low));
}

WEFT_INLINE float weft_log_of_unit_f32(float x)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    const uint32_t least = 0x3f3504f3u, bits = weft_bits_of_float(x);
    const float k = bits < least ? -(float)((least - bits + ((1u << 23) - 1)) >> 23) : 0.0f;
    const float f = weft_float_of_bits(bits + ((uint32_t)(-k) << 23)) - 1.0f;
    const float s = f / (2.0f + f), z = s * s;
    const float t = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
    return k * ln2_high + (f - (s * (f - t) - k * ln2_low));
}

/* Cosine and sine of 2 pi u, u in [0, 1): of the angle from the next quarter of a turn, by their Taylor series. */
WEFT_INLINE void weft_turn_f64(double u, double *cosine, double *sine)
{
    const double quarters = 4.0 * u, quarter = (double)(int)(quarters + 0.5);
    const double a = (quarters - quarter) * 0x1.921fb54442d18p0, z = a * a; /* up to pi / 4 */
    const double c_tail = 1.0 / 40320 - z * (1.0 / 3628800 - z * (1.0 / 479001600 - z * (1.0 / 87178291200 - z / 20922789888000)));
    const double c = 1.0 - z * (0.5 - z * (1.0 / 24 - z * (1.0 / 720 - z * c_tail)));
    const double s_tail = 1.0 / 362880 - z * (1.0 / 39916800 - z * (1.0 / 6227020800 - z / 1307674368000));
    const double s = a - a * (z * (1.0 / 6 - z * (1.0 / 120 - z * (1.0 / 5040 - z * s_tail))));
    const int turns = (int)quarter;
    const double x = turns & 1 ? s : c, y = turns & 1 ? c : s;
    *cosine = turns == 1 || turns == 2 ? -x : x;
    *sine = turns & 2 ? -y : y;
}

WEFT_INLINE void weft_turn_f32(float u, float *cosine, float *sine)
{
    const float quarters = 4.0f * u, quarter = (float)(int)(quarters + 0.5f);
    const float a = (quarters - quarter) * 0x1.921fb6p0f, z = a * a;
    const float c = 1.0f - z * (0.5f - z * (1.0f / 24 - z * (1.0f / 720 - z * (1.0f / 40320))));
    const float s = a - a * (z * (1.0f / 6 - z * (1.0f / 120 - z * (1.0f / 5040 - z * (1.0f / 362880)))));
    const int turns = (int)quarter;
    const float x = turns & 1 ? s : c, y = turns & 1 ? c : s;
    *cosine = turns == 1 || turns == 2 ? -x : x;
    *sine = turns & 2 ? -y : y;
}

/* Two normal numbers of mean 0 and variance 1 of four words: Box and Muller, 1958. 1 - u is in (0, 1], where the logarithm is
 * finite. */
WEFT_INLINE void weft_normals_f64(const uint32_t words[4], double pair[2])
{
    double cosine, sine;
    const double radius = sqrt(-2.0 * weft_log_of_unit_f64(1.0 - weft_unit_of_words(words)));
    weft_turn_f64(weft_unit_of_words(words + 2), &cosine, &sine);
    pair[0] = radius * cosine;
    pair[1] = radius * sine;
}

/* The same of two words, 24 bits of each. */
WEFT_INLINE void weft_normals_f32(const uint32_t words[2], float pair[2])
{
    float cosine, sine;
    const float radius = sqrtf(-2.0f * weft_log_of_unit_f32(1.0f - (float)(words[0] >> 8) * 0x1p-24f));
    weft_turn_f32((float)(words[1] >> 8) * 0x1p-24f, &cosine, &sine);
    pair[0] = radius * cosine;
    pair[1] = radius * sine;
}

#endif
