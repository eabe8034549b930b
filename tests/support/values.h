/* Elements of all types as numbers, for tests. */
#ifndef WEFT_TESTS_VALUES_H
#define WEFT_TESTS_VALUES_H

#include <weft/weft.h>

#include "codelets/half.h"

static inline bool is_half(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* The nearest value of a type of 16 bits; of others, the value. */
static inline double rounded_to(weft_dtype dtype, double value)
{
    return dtype == WEFT_BF16  ? (double)weft_bf16_to_f32(weft_f64_to_bf16(value))
           : dtype == WEFT_F16 ? (double)weft_f16_to_f32(weft_f64_to_f16(value))
                               : value;
}

/* An element of any type, as a double. */
static inline double read_as(weft_dtype dtype, const void *values, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        return ((const double *)values)[i];
    case WEFT_F32:
        return (double)((const float *)values)[i];
    case WEFT_BF16:
        return (double)weft_bf16_to_f32(((const uint16_t *)values)[i]);
    case WEFT_F16:
        return (double)weft_f16_to_f32(((const uint16_t *)values)[i]);
    case WEFT_I64:
        return (double)((const int64_t *)values)[i];
    case WEFT_I32:
        return (double)((const int32_t *)values)[i];
    default:
        return (double)((const uint8_t *)values)[i];
    }
}

static inline void write_as(weft_dtype dtype, void *values, int64_t i, double value)
{
    switch (dtype) {
    case WEFT_F64:
        ((double *)values)[i] = value;
        break;
    case WEFT_F32:
        ((float *)values)[i] = (float)value;
        break;
    case WEFT_BF16:
        ((uint16_t *)values)[i] = weft_f32_to_bf16((float)value);
        break;
    case WEFT_F16:
        ((uint16_t *)values)[i] = weft_f32_to_f16((float)value);
        break;
    case WEFT_I64:
        ((int64_t *)values)[i] = (int64_t)value;
        break;
    case WEFT_I32:
        ((int32_t *)values)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)values)[i] = (uint8_t)value;
        break;
    }
}

#endif
