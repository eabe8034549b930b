/* 16-bit floating types, stored as bits: bfloat16 and IEEE binary16. Rounding to nearest even. */
#ifndef WEFT_CODELETS_HALF_H
#define WEFT_CODELETS_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weft/base.h>

WEFT_INLINE float weft_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

WEFT_INLINE uint32_t weft_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

WEFT_INLINE float weft_bf16_to_f32(uint16_t half)
{
    return weft_float_of_bits((uint32_t)half << 16);
}

WEFT_INLINE uint16_t weft_f32_to_bf16(float value)
{
    uint32_t bits = weft_bits_of_float(value), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (uint16_t)((value != value ? bits | 0x400000u : rounded) >> 16); /* a NaN stays one */
}

WEFT_INLINE float weft_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 31u, mantissa = half & 1023u;
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 */
        float magnitude = (float)mantissa * 0x1p-24f;
        return weft_float_of_bits(weft_bits_of_float(magnitude) | sign);
    }
    uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
    return weft_float_of_bits(sign | wide << 23 | mantissa << 13);
}

WEFT_INLINE uint16_t weft_f32_to_f16(float value)
{
    uint32_t bits = weft_bits_of_float(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (magnitude >= 0x477ff000u) { /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude <
        0x38800000u) { /* below 2^-14: subnormal; adding 0.5 leaves the rounded mantissa in the low bits */
        float shifted = weft_float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (weft_bits_of_float(shifted) - 0x3f000000u));
    }
    uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

/* `number` without its lowest bits; where these are not all 0, the lowest bit that is left is set. Rounding to nearest at two or
 * more bits above gives what it gives of `number` itself. */
WEFT_INLINE uint64_t weft_with_sticky_bit(uint64_t number, int bits)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    return (number | (((number & mask) + mask) & (mask + 1))) & ~mask;
}

/* A number that single precision has, and that rounds to 16 bits as `value` does. 16 bits of the significand are left: 13 are
 * enough for f16, and subnormal numbers of single precision have them down to half the smallest bf16. */
WEFT_INLINE float weft_before_rounding(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits = weft_with_sticky_bit(bits, 37);
    memcpy(&value, &bits, sizeof(bits));
    return (float)value;
}

WEFT_INLINE uint16_t weft_f64_to_bf16(double value)
{
    return weft_f32_to_bf16(weft_before_rounding(value));
}

WEFT_INLINE uint16_t weft_f64_to_f16(double value)
{
    return weft_f32_to_f16(weft_before_rounding(value));
}

/* A number that double precision has, and that rounds to 16 bits as `value` does. */
WEFT_INLINE double weft_whole_before_rounding(int64_t value)
{
    bool exact = (uint64_t)value + ((uint64_t)1 << 53) <= (uint64_t)1 << 54;
    return (double)(exact ? value : (int64_t)weft_with_sticky_bit((uint64_t)value, 10));
}

WEFT_INLINE uint16_t weft_i64_to_bf16(int64_t value)
{
    return weft_f64_to_bf16(weft_whole_before_rounding(value));
}

WEFT_INLINE uint16_t weft_i64_to_f16(int64_t value)
{
    return weft_f64_to_f16(weft_whole_before_rounding(value));
}

#endif
