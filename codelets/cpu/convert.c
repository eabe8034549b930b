#include "codelets/convert.h"

#include <string.h>

#include "codelets/complex.h"
#include "codelets/cpu/clones.h"
#include "codelets/expressions.h"

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

/* In place. */
#define NARROW(name, wide, expression)                                                                       \
    WEFT_CLONES static void name(void *values, int64_t n)                                                    \
    {                                                                                                        \
        wide *all = values;                                                                                  \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const wide x = all[i];                                                                           \
            all[i] = (wide)(expression);                                                                     \
        }                                                                                                    \
    }
#include "codelets/conversions.inc"

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

void weft_narrow(weft_dtype type, void *values, int64_t n)
{
    static void (*const loops[WEFT_DTYPE_COUNT])(void *values, int64_t n) = {
        [WEFT_BF16] = narrow_bf16,
        [WEFT_F16] = narrow_f16,
        [WEFT_I32] = narrow_i32,
        [WEFT_U8] = narrow_u8,
        [WEFT_BOOL] = narrow_bool,
    };
    loops[type](values, n);
}

/* ---- complex types ------------------------------------------------------------------------------------- */

/* Either type is complex. A real value becomes the real part, and a complex one's real part becomes a real value. */
static void convert_complex(weft_dtype to, char *target, int64_t target_stride, weft_dtype from, const char *source,
                            int64_t source_stride, int64_t n)
{
    bool complex_to = weft_dtype_is_complex(to), complex_from = weft_dtype_is_complex(from);
    weft_dtype part = weft_part_type(to), part_from = weft_part_type(from);
    size_t size = weft_dtype_size(part);
    if (to == from && target_stride == 1 && source_stride == 1) {
        memcpy(target, source, (size_t)n * weft_dtype_size(to));
        return;
    }
    int64_t step = complex_to ? 2 * target_stride : target_stride, step_from = complex_from ? 2 * source_stride : source_stride;
    bool loads_part = part == WEFT_F64 || part == WEFT_F32 || part == WEFT_I64;
    conversion convert = loads_part ? loads[part_from][column(part)] : stores[part][column(part_from)];
    convert(target, step, source, step_from, n);
    if (complex_to && complex_from) {
        convert(target + size, step, source + weft_dtype_size(part_from), step_from, n);
    }
    for (int64_t i = 0; i < n && complex_to && !complex_from; i++) {
        memset(target + (size_t)(i * step) * size + size, 0, size);
    }
}

/* ---- loads and stores ---------------------------------------------------------------------------------- */

void weft_load(weft_dtype arithmetic, void *target, weft_dtype type, const void *source, int64_t stride,
               int64_t n)
{
    if (weft_dtype_is_complex(arithmetic) || weft_dtype_is_complex(type)) {
        convert_complex(arithmetic, target, 1, type, source, stride, n);
        return;
    }
    loads[type][column(arithmetic)](target, 1, source, stride, n);
}

void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n)
{
    if (weft_dtype_is_complex(arithmetic) || weft_dtype_is_complex(type)) {
        convert_complex(type, target, stride, arithmetic, source, 1, n);
        return;
    }
    stores[type][column(arithmetic)](target, stride, source, 1, n);
}
