#include "codelets/convert.h"

#include "codelets/cpu/clones.h"
#include "codelets/half.h"

/* ---- one value ----------------------------------------------------------------------------------------- */

static inline int64_t whole(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

static inline double clamped(double x, double least, double most)
{
    return x != x ? 0 : x < least ? least : x > most ? most : x;
}

/* ---- loops --------------------------------------------------------------------------------------------- */

/* Contiguous elements have their own, vectorised loop. */
#define CONVERT(name, from, to, expression)                                                                  \
    WEFT_CLONES static void name(void *target, int64_t target_stride, const void *source,                    \
                                 int64_t source_stride, int64_t n)                                           \
    {                                                                                                        \
        to *out = target;                                                                                    \
        const from *in = source;                                                                             \
        if (target_stride == 1 && source_stride == 1) {                                                      \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                const from x = in[i];                                                                        \
                out[i] = (to)(expression);                                                                   \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const from x = in[i * source_stride];                                                            \
            out[i * target_stride] = (to)(expression);                                                       \
        }                                                                                                    \
    }

CONVERT(f64_to_f64, double, double, x)
CONVERT(f64_to_f32, double, float, x)
CONVERT(f64_to_bf16, double, uint16_t, weft_f32_to_bf16((float)x))
CONVERT(f64_to_f16, double, uint16_t, weft_f32_to_f16((float)x))
CONVERT(f64_to_i64, double, int64_t, whole(x))
CONVERT(f64_to_i32, double, int32_t, clamped(x, INT32_MIN, INT32_MAX))
CONVERT(f64_to_u8, double, uint8_t, clamped(x, 0, UINT8_MAX))
CONVERT(f64_to_bool, double, uint8_t, x != 0)
CONVERT(f32_to_f64, float, double, x)
CONVERT(f32_to_f32, float, float, x)
CONVERT(f32_to_bf16, float, uint16_t, weft_f32_to_bf16(x))
CONVERT(f32_to_f16, float, uint16_t, weft_f32_to_f16(x))
CONVERT(f32_to_i64, float, int64_t, whole((double)x))
CONVERT(f32_to_i32, float, int32_t, clamped((double)x, INT32_MIN, INT32_MAX))
CONVERT(f32_to_u8, float, uint8_t, clamped((double)x, 0, UINT8_MAX))
CONVERT(f32_to_bool, float, uint8_t, x != 0)
CONVERT(i64_to_f64, int64_t, double, x)
CONVERT(i64_to_f32, int64_t, float, x)
CONVERT(i64_to_bf16, int64_t, uint16_t, weft_f32_to_bf16((float)x))
CONVERT(i64_to_f16, int64_t, uint16_t, weft_f32_to_f16((float)x))
CONVERT(i64_to_i64, int64_t, int64_t, x)
CONVERT(i64_to_i32, int64_t, int32_t, (uint32_t)x)
CONVERT(i64_to_u8, int64_t, uint8_t, (uint8_t)x)
CONVERT(i64_to_bool, int64_t, uint8_t, x != 0)
CONVERT(bf16_to_f64, uint16_t, double, weft_bf16_to_f32(x))
CONVERT(bf16_to_f32, uint16_t, float, weft_bf16_to_f32(x))
CONVERT(bf16_to_i64, uint16_t, int64_t, whole((double)weft_bf16_to_f32(x)))
CONVERT(f16_to_f64, uint16_t, double, weft_f16_to_f32(x))
CONVERT(f16_to_f32, uint16_t, float, weft_f16_to_f32(x))
CONVERT(f16_to_i64, uint16_t, int64_t, whole((double)weft_f16_to_f32(x)))
CONVERT(i32_to_f64, int32_t, double, x)
CONVERT(i32_to_f32, int32_t, float, x)
CONVERT(i32_to_i64, int32_t, int64_t, x)
CONVERT(u8_to_f64, uint8_t, double, x)
CONVERT(u8_to_f32, uint8_t, float, x)
CONVERT(u8_to_i64, uint8_t, int64_t, x)
CONVERT(bool_to_bf16, uint8_t, uint16_t, weft_f32_to_bf16(x))
CONVERT(bool_to_f16, uint8_t, uint16_t, weft_f32_to_f16(x))
CONVERT(bool_to_i32, uint8_t, int32_t, x)
CONVERT(bool_to_bool, uint8_t, uint8_t, x)

typedef void (*conversion)(void *target, int64_t target_stride, const void *source, int64_t source_stride,
                           int64_t n);

static const conversion loads[WEFT_DTYPE_COUNT][3] = {
    [WEFT_F64] = { f64_to_f64, f64_to_f32, f64_to_i64 },
    [WEFT_F32] = { f32_to_f64, f32_to_f32, f32_to_i64 },
    [WEFT_BF16] = { bf16_to_f64, bf16_to_f32, bf16_to_i64 },
    [WEFT_F16] = { f16_to_f64, f16_to_f32, f16_to_i64 },
    [WEFT_I64] = { i64_to_f64, i64_to_f32, i64_to_i64 },
    [WEFT_I32] = { i32_to_f64, i32_to_f32, i32_to_i64 },
    [WEFT_U8] = { u8_to_f64, u8_to_f32, u8_to_i64 },
    [WEFT_BOOL] = { u8_to_f64, u8_to_f32, u8_to_i64 },
};

static const conversion stores[WEFT_DTYPE_COUNT][4] = {
    [WEFT_F64] = { f64_to_f64, f32_to_f64, i64_to_f64, u8_to_f64 },
    [WEFT_F32] = { f64_to_f32, f32_to_f32, i64_to_f32, u8_to_f32 },
    [WEFT_BF16] = { f64_to_bf16, f32_to_bf16, i64_to_bf16, bool_to_bf16 },
    [WEFT_F16] = { f64_to_f16, f32_to_f16, i64_to_f16, bool_to_f16 },
    [WEFT_I64] = { f64_to_i64, f32_to_i64, i64_to_i64, u8_to_i64 },
    [WEFT_I32] = { f64_to_i32, f32_to_i32, i64_to_i32, bool_to_i32 },
    [WEFT_U8] = { f64_to_u8, f32_to_u8, i64_to_u8, bool_to_bool },
    [WEFT_BOOL] = { f64_to_bool, f32_to_bool, i64_to_bool, bool_to_bool },
};

/* Index into the tables. */
static int column(weft_dtype arithmetic)
{
    return arithmetic == WEFT_F64 ? 0 : arithmetic == WEFT_F32 ? 1 : arithmetic == WEFT_I64 ? 2 : 3;
}

/* ---- in place ------------------------------------------------------------------------------------------ */

#define NARROW(name, wide, expression)                                                                       \
    WEFT_CLONES static void name(void *values, int64_t n)                                                    \
    {                                                                                                        \
        wide *all = values;                                                                                  \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const wide x = all[i];                                                                           \
            all[i] = (wide)(expression);                                                                     \
        }                                                                                                    \
    }

NARROW(narrow_bf16, float, weft_bf16_to_f32(weft_f32_to_bf16(x)))
NARROW(narrow_f16, float, weft_f16_to_f32(weft_f32_to_f16(x)))
NARROW(narrow_i32, int64_t, (int32_t)(uint32_t)x)
NARROW(narrow_u8, int64_t, (uint8_t)x)

void weft_narrow(weft_dtype type, void *values, int64_t n)
{
    static void (*const loops[WEFT_DTYPE_COUNT])(void *values, int64_t n) = {
        [WEFT_BF16] = narrow_bf16,
        [WEFT_F16] = narrow_f16,
        [WEFT_I32] = narrow_i32,
        [WEFT_U8] = narrow_u8,
    };
    loops[type](values, n);
}

/* ---- loads and stores ---------------------------------------------------------------------------------- */

void weft_load(weft_dtype arithmetic, void *target, weft_dtype type, const void *source, int64_t stride,
               int64_t n)
{
    loads[type][column(arithmetic)](target, 1, source, stride, n);
}

void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n)
{
    stores[type][column(arithmetic)](target, stride, source, 1, n);
}
