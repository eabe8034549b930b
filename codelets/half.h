/* Floating types of 16 and 8 bits, stored as bits: bfloat16, IEEE binary16, and E4M3FN and E5M2 of the OCP 8-bit floating point
 * specification. Rounding to nearest even. */
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

/* The same of unsigned numbers. */
WEFT_INLINE double weft_unsigned_before_rounding(uint64_t value)
{
    return value >> 63 ? (double)weft_with_sticky_bit(value, 11) : weft_whole_before_rounding((int64_t)value);
}

/* ---- 8 bits -------------------------------------------------------------------------------------------- */

/* The magnitude, which is no NaN, with `fraction` bits of fraction and exponents' bias `bias`, whatever the largest exponent is. */
WEFT_INLINE uint32_t weft_rounded_f8(uint32_t magnitude, int fraction, int bias)
{
    const uint32_t smallest = (uint32_t)(128 - bias) << 23, below = ((uint32_t)1 << (23 - fraction)) - 1;
    if (magnitude < smallest) { /* subnormal: the sum leaves the rounded fraction in the low bits */
        const uint32_t unit = (uint32_t)(151 - bias - fraction) << 23;
        return weft_bits_of_float(weft_float_of_bits(magnitude) + weft_float_of_bits(unit)) - unit;
    }
    const uint32_t moved = magnitude - ((uint32_t)(127 - bias) << 23);
    return (moved + (below >> 1) + (moved >> (23 - fraction) & 1u)) >> (23 - fraction);
}

/* NaN beyond the largest number, 448. */
WEFT_INLINE uint8_t weft_f32_to_f8_e4m3(float value)
{
    const uint32_t bits = weft_bits_of_float(value), magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = magnitude > 0x7f800000u ? 0x7fu : weft_rounded_f8(magnitude, 3, 7);
    return (uint8_t)((bits >> 24 & 0x80u) | (rounded > 0x7eu ? 0x7fu : rounded));
}

/* Infinity beyond the largest number, 57344. */
WEFT_INLINE uint8_t weft_f32_to_f8_e5m2(float value)
{
    const uint32_t bits = weft_bits_of_float(value), magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = magnitude > 0x7f800000u ? 0x7eu : weft_rounded_f8(magnitude, 2, 15);
    return (uint8_t)((bits >> 24 & 0x80u) | (magnitude <= 0x7f800000u && rounded > 0x7cu ? 0x7cu : rounded));
}

WEFT_INLINE float weft_f8_e4m3_to_f32(uint8_t byte)
{
    const uint32_t sign = (uint32_t)(byte & 0x80u) << 24, magnitude = byte & 0x7fu;
    if (magnitude < 8) { /* zero or subnormal */
        return weft_float_of_bits(weft_bits_of_float((float)magnitude * 0x1p-9f) | sign);
    }
    return weft_float_of_bits(sign | (magnitude == 0x7fu ? 0x7fc00000u : (magnitude << 20) + (120u << 23)));
}

/* The high bytes of f16. */
WEFT_INLINE float weft_f8_e5m2_to_f32(uint8_t byte)
{
    return weft_f16_to_f32((uint16_t)(byte << 8));
}

#endif
