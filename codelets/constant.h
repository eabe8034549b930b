/* Constants. */
#ifndef WEFT_CODELETS_CONSTANT_H
#define WEFT_CODELETS_CONSTANT_H

#include "codelets/args.h"
#include "codelets/half.h"

/* Sets `count` elements of base.dtype in operand 0 (W) to `value`, which the type can represent (unsigned types:
 * or its negative, which wraps around; WEFT_BOOL: value != 0). WEFT_I64: value + rest, which has all 64 bits, as has the int64_t
 * of WEFT_U64's bits; complex types: value + i rest. */
typedef struct weft_constant_args {
    weft_task_args base;
    int64_t count;
    double value, rest;
} weft_constant_args;

/* The bits of the number as an element of a type, in the lowest bytes. */
static inline uint64_t weft_constant_bits(weft_dtype dtype, double value, double rest)
{
    uint64_t bits;
    switch (dtype) {
    case WEFT_F64:
    case WEFT_C128: /* its real part */
        memcpy(&bits, &value, sizeof(bits));
        return bits;
    case WEFT_F32:
        return weft_bits_of_float((float)value);
    case WEFT_C64:
        return weft_bits_of_float((float)value) | (uint64_t)weft_bits_of_float((float)rest) << 32;
    case WEFT_BF16:
        return weft_f64_to_bf16(value);
    case WEFT_F16:
        return weft_f64_to_f16(value);
    case WEFT_F8_E4M3:
        return weft_f32_to_f8_e4m3(weft_before_rounding(value));
    case WEFT_F8_E5M2:
        return weft_f32_to_f8_e5m2(weft_before_rounding(value));
    case WEFT_BOOL:
        return value != 0;
    default:
        return (uint64_t)(int64_t)value + (uint64_t)(int64_t)rest;
    }
}

void weft_cpu_constant(const weft_task_run *run);
uint32_t weft_constant_footprint(const weft_task_run *run);

#endif
