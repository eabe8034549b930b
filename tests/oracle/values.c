/* Conversion of elements of all types, independent of weft. */
#include <math.h>
#include <string.h>

#include "oracle.h"

/* ---- the formats --------------------------------------------------------------------------------------- */

typedef struct format {
    int precision, min_exponent; /* bits of the significand; exponent of the smallest normal number */
} format;

static format format_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
        return (format){ 53, -1022 };
    case WEFT_F32:
        return (format){ 24, -126 };
    case WEFT_BF16:
        return (format){ 8, -126 };
    default:
        return (format){ 11, -14 };
    }
}

bool oracle_is_floating(weft_dtype dtype)
{
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* 16 bits: sign, exponent, and precision - 1 bits of the significand. */
static double from_16_bits(uint16_t bits, format f)
{
    int fraction_bits = f.precision - 1;
    int exponent = (bits & 0x7fff) >> fraction_bits, top = 0x7fff >> fraction_bits;
    double fraction = (double)(bits & ((1 << fraction_bits) - 1));
    double value = exponent == top ? (fraction != 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, f.min_exponent - fraction_bits)
                                   : ldexp(fraction + (1 << fraction_bits),
                                           f.min_exponent + exponent - 1 - fraction_bits);
    return bits >> 15 ? -value : value;
}

/* Of a value that is 0, normal, infinite or NaN, and exact. */
static uint16_t to_16_bits(double value, format f)
{
    int fraction_bits = f.precision - 1, top = 0x7fff >> fraction_bits;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) {
        return (uint16_t)(top << fraction_bits | 1 << (fraction_bits - 1));
    }
    if (isinf(value) || value == 0) {
        return sign | (uint16_t)(isinf(value) ? top << fraction_bits : 0);
    }
    int exponent;
    double significand = frexp(fabs(value), &exponent); /* 0.5 .. 1 */
    int fraction = (int)ldexp(significand, f.precision) - (1 << fraction_bits);
    return sign | (uint16_t)((exponent - f.min_exponent) << fraction_bits) | (uint16_t)fraction;
}

/* ---- elements ------------------------------------------------------------------------------------------ */

double oracle_load_real(weft_dtype dtype, const void *array, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        return ((const double *)array)[i];
    case WEFT_F32:
        return (double)((const float *)array)[i];
    default:
        return from_16_bits(((const uint16_t *)array)[i], format_of(dtype));
    }
}

int64_t oracle_load_whole(weft_dtype dtype, const void *array, int64_t i)
{
    switch (dtype) {
    case WEFT_I64:
        return ((const int64_t *)array)[i];
    case WEFT_I32:
        return ((const int32_t *)array)[i];
    default:
        return ((const uint8_t *)array)[i];
    }
}

void oracle_store_real(weft_dtype dtype, void *array, int64_t i, double value)
{
    switch (dtype) {
    case WEFT_F64:
        ((double *)array)[i] = value;
        break;
    case WEFT_F32:
        ((float *)array)[i] = (float)value;
        break;
    default:
        ((uint16_t *)array)[i] = to_16_bits(value, format_of(dtype));
        break;
    }
}

void oracle_store_whole(weft_dtype dtype, void *array, int64_t i, int64_t value)
{
    switch (dtype) {
    case WEFT_I64:
        ((int64_t *)array)[i] = value;
        break;
    case WEFT_I32:
        ((int32_t *)array)[i] = (int32_t)(uint32_t)(uint64_t)value;
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)(uint64_t)value;
        break;
    }
}

/* ---- distances ----------------------------------------------------------------------------------------- */

static double unit_of_last_place(weft_dtype dtype, double magnitude)
{
    format f = format_of(dtype);
    int exponent = magnitude > 0 ? ilogb(magnitude) : f.min_exponent;
    exponent = exponent > f.min_exponent ? exponent : f.min_exponent;
    return ldexp(1, exponent - f.precision + 1);
}

double oracle_distance(weft_dtype dtype, const void *got, const void *expected, int64_t i, double magnitude)
{
    if (!oracle_is_floating(dtype)) {
        return oracle_load_whole(dtype, got, i) == oracle_load_whole(dtype, expected, i) ? 0 : INFINITY;
    }
    double a = oracle_load_real(dtype, got, i), b = oracle_load_real(dtype, expected, i);
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    if (!isfinite(a) || !isfinite(b)) {
        return INFINITY;
    }
    return fabs(a - b) / unit_of_last_place(dtype, fmax(fabs(b), magnitude));
}
