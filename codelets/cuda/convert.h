/* Loads and stores of any type as the types of arithmetic: those of codelets/convert.h, one value. */
#ifndef WEFT_CODELETS_CUDA_CONVERT_H
#define WEFT_CODELETS_CUDA_CONVERT_H

#include <weft/base.h>

#include "codelets/cuda/launch.h"
#include "codelets/expressions.h"
#include "codelets/types.h"

#define CONVERT(name, from, to, expression)                                                                  \
    static __device__ inline to name(const from x)                                                           \
    {                                                                                                        \
        return (to)(expression);                                                                             \
    }
#define NARROW(name, wide, expression) CONVERT(name, wide, wide, expression)
#include "codelets/conversions.inc"

/* Bytes of an element. */
static __device__ inline size_t weft_size_of(weft_dtype type)
{
    return type == WEFT_C128                        ? 16
           : type == WEFT_F64 || type == WEFT_I64 || type == WEFT_C64 ? 8
           : type == WEFT_F32 || type == WEFT_I32   ? 4
           : type == WEFT_BF16 || type == WEFT_F16 ? 2
                                                    : 1;
}

static __device__ inline bool weft_is_complex_on_device(weft_dtype type)
{
    return type == WEFT_C64 || type == WEFT_C128;
}

/* Element i of memory of `type`, by the functions whose names end with `to`. Not inline: once for each type of
 * arithmetic, and not for each kernel. */
#define LOAD(T, to)                                                                                          \
    static __device__ __noinline__ T weft_load_as(T, weft_dtype type, const void *memory, int64_t i)         \
    {                                                                                                        \
        switch (type) {                                                                                      \
        case WEFT_F64:                                                                                       \
            return f64_to_##to(((const double *)memory)[i]);                                                 \
        case WEFT_F32:                                                                                       \
            return f32_to_##to(((const float *)memory)[i]);                                                  \
        case WEFT_BF16:                                                                                      \
            return bf16_to_##to(((const uint16_t *)memory)[i]);                                              \
        case WEFT_F16:                                                                                       \
            return f16_to_##to(((const uint16_t *)memory)[i]);                                               \
        case WEFT_I64:                                                                                       \
            return i64_to_##to(((const int64_t *)memory)[i]);                                                \
        case WEFT_I32:                                                                                       \
            return i32_to_##to(((const int32_t *)memory)[i]);                                                \
        default:                                                                                             \
            return u8_to_##to(((const uint8_t *)memory)[i]);                                                 \
        }                                                                                                    \
    }
LOAD(double, f64)
LOAD(float, f32)
LOAD(int64_t, i64)
#undef LOAD

/* Stores a value of arithmetic, or a truth value. `narrow`: how the names of its conversions to narrow types begin;
 * `byte`: how that to WEFT_U8 ends. */
#define STORE(T, from, narrow, byte)                                                                          \
    static __device__ __noinline__ void weft_store_from(weft_dtype type, void *memory, int64_t i, T value)   \
    {                                                                                                        \
        switch (type) {                                                                                      \
        case WEFT_F64:                                                                                       \
            ((double *)memory)[i] = from##_to_f64(value);                                                    \
            break;                                                                                           \
        case WEFT_F32:                                                                                       \
            ((float *)memory)[i] = from##_to_f32(value);                                                     \
            break;                                                                                           \
        case WEFT_BF16:                                                                                      \
            ((uint16_t *)memory)[i] = narrow##_to_bf16(value);                                                 \
            break;                                                                                           \
        case WEFT_F16:                                                                                       \
            ((uint16_t *)memory)[i] = narrow##_to_f16(value);                                                  \
            break;                                                                                           \
        case WEFT_I64:                                                                                       \
            ((int64_t *)memory)[i] = from##_to_i64(value);                                                   \
            break;                                                                                           \
        case WEFT_I32:                                                                                       \
            ((int32_t *)memory)[i] = narrow##_to_i32(value);                                                   \
            break;                                                                                           \
        case WEFT_U8:                                                                                        \
            ((uint8_t *)memory)[i] = narrow##_to_##byte(value);                                               \
            break;                                                                                           \
        case WEFT_BOOL:                                                                                      \
            ((uint8_t *)memory)[i] = narrow##_to_bool(value);                                                  \
            break;                                                                                           \
        default:                                                                                             \
            break; /* others: on CPUs alone */                                                               \
        }                                                                                                    \
    }
STORE(double, f64, f64, u8)
STORE(float, f32, f32, u8)
STORE(int64_t, i64, i64, u8)
STORE(uint8_t, u8, bool, bool)
#undef STORE

/* A value as the narrower `type` of its arithmetic would keep it: weft_narrow() of codelets/convert.h. */
static __device__ inline double weft_narrowed(weft_dtype, double value)
{
    return value;
}

static __device__ inline float weft_narrowed(weft_dtype type, float value)
{
    return type == WEFT_BF16 ? narrow_bf16(value) : narrow_f16(value);
}

static __device__ inline int64_t weft_narrowed(weft_dtype type, int64_t value)
{
    return type == WEFT_I32 ? narrow_i32(value) : type == WEFT_U8 ? narrow_u8(value) : narrow_bool(value);
}

#endif
