#include "codelets/convert.h"

#include <string.h>

#include "codelets/complex.h"
#include "codelets/cpu/clones.h"
#include "codelets/elementwise.h"
#include "codelets/expressions.h"

enum { BLOCK = 256 }; /* values of wider types, on the way between others */

/* ---- loops --------------------------------------------------------------------------------------------- */

/* Contiguous elements have their own, vectorised loop. `versions`: WEFT_CLONES, or nothing. */
#define CONVERT_IN(versions, name, from, to, expression)                                                     \
    versions static void name(void *target, int64_t target_stride, const void *source,                       \
                              int64_t source_stride, int64_t n)                                              \
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

#define CONVERT(name, from, to, expression) CONVERT_IN(WEFT_CLONES, name, from, to, expression)

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

/* Types that kernels compute in wider ones: one loop to a wide type and one back each; conversions to and from other types go
 * through blocks of the wide type. Signed and unsigned integers of one size are stored by the same loop. One version of each loop
 * for all processors: that keeps the library small. No vector
 * instruction of all processors converts between integers of 64 bits and floating numbers. */
#define CONVERT_ONCE(name, from, to, expression) CONVERT_IN(, name, from, to, expression)
CONVERT_ONCE(i8_to_i64, int8_t, int64_t, x)
CONVERT_ONCE(i16_to_i64, int16_t, int64_t, x)
CONVERT_ONCE(u16_to_i64, uint16_t, int64_t, x)
CONVERT_ONCE(u32_to_i64, uint32_t, int64_t, x)
CONVERT_ONCE(i64_to_u16, int64_t, uint16_t, (uint16_t)x)
CONVERT_ONCE(u64_to_f64, uint64_t, double, x) /* not vectorised */
CONVERT_ONCE(u64_to_f32, uint64_t, float, x) /* not vectorised */
CONVERT_ONCE(f64_to_u64, double, uint64_t, x >= 0x1p64 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0) /* not vectorised */
CONVERT_ONCE(f8_e4m3_to_f32, uint8_t, float, weft_f8_e4m3_to_f32(x))
CONVERT_ONCE(f8_e5m2_to_f32, uint8_t, float, weft_f8_e5m2_to_f32(x))
CONVERT_ONCE(f32_to_f8_e4m3, float, uint8_t, weft_f32_to_f8_e4m3(x))
CONVERT_ONCE(f32_to_f8_e5m2, float, uint8_t, weft_f32_to_f8_e5m2(x))
/* To single precision on the way to 16 or 8 bits: rounded once all the same. */
CONVERT_ONCE(f64_to_narrow, double, float, weft_before_rounding(x))
CONVERT_ONCE(i64_to_narrow, int64_t, float, weft_before_rounding(weft_whole_before_rounding(x))) /* not vectorised */
CONVERT_ONCE(u64_to_narrow, uint64_t, float, weft_before_rounding(weft_unsigned_before_rounding(x))) /* not vectorised */

static void clamp(double *values, int64_t n, double least, double most)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = clamped(values[i], least, most);
    }
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

/* From and to the 64 bits of WEFT_I64 and WEFT_U64, or WEFT_F32. */
static const conversion from_stored[WEFT_DTYPE_COUNT] = {
    [WEFT_I8] = i8_to_i64,   [WEFT_I16] = i16_to_i64, [WEFT_U16] = u16_to_i64,
    [WEFT_U32] = u32_to_i64, [WEFT_U64] = i64_to_i64, [WEFT_F8_E4M3] = f8_e4m3_to_f32,
    [WEFT_F8_E5M2] = f8_e5m2_to_f32,
};
static const conversion to_stored[WEFT_DTYPE_COUNT] = {
    [WEFT_I8] = i64_to_u8,   [WEFT_I16] = i64_to_u16, [WEFT_U16] = i64_to_u16,
    [WEFT_U32] = i64_to_i32, [WEFT_U64] = i64_to_i64, [WEFT_F8_E4M3] = f32_to_f8_e4m3,
    [WEFT_F8_E5M2] = f32_to_f8_e5m2,
};

/* Index into the tables. */
static int column(weft_dtype arithmetic)
{
    return arithmetic == WEFT_F64 ? 0 : arithmetic == WEFT_F32 ? 1 : arithmetic == WEFT_I64 || arithmetic == WEFT_U64 ? 2 : 3;
}

void weft_flip_order(weft_dtype type, int64_t *values, int64_t n)
{
    for (int64_t i = 0; i < n && type == WEFT_U64; i++) {
        values[i] = (int64_t)((uint64_t)values[i] ^ UINT64_C(1) << 63);
    }
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
    if (loops[type] != NULL) {
        loops[type](values, n);
        return;
    }
    const size_t size = weft_dtype_size(weft_arithmetic_type(type));
    for (int64_t i = 0, step; i < n; i += step) {
        int64_t stored[BLOCK];
        char *part = (char *)values + (size_t)i * size;
        step = n - i < BLOCK ? n - i : BLOCK;
        to_stored[type](stored, 1, part, 1, step);
        from_stored[type](part, 1, stored, 1, step);
    }
}

/* ---- through wider types --------------------------------------------------------------------------------- */

static bool is_64_bits(weft_dtype type)
{
    return type == WEFT_I64 || type == WEFT_U64;
}

static bool is_float(weft_dtype type)
{
    return type < WEFT_I64 || type > WEFT_U64;
}

/* From a real type to WEFT_F64, WEFT_F32, WEFT_I64 or WEFT_U64 by one loop; NULL: there is none. */
static conversion load_of(weft_dtype to, weft_dtype from)
{
    if (is_64_bits(to) && from >= WEFT_I8 && from <= WEFT_U64) {
        return from_stored[from];
    }
    if (from == WEFT_U64) {
        return to == WEFT_F64 ? u64_to_f64 : u64_to_f32;
    }
    if (to == WEFT_U64 && is_float(from)) {
        return from == WEFT_F64 ? f64_to_u64 : NULL;
    }
    return from >= WEFT_I8 ? (to == WEFT_F32 && is_float(from) ? from_stored[from] : NULL) : loads[from][column(to)];
}

/* From WEFT_F64, WEFT_F32, WEFT_I64, WEFT_U64 or WEFT_BOOL to a real type. */
static conversion store_of(weft_dtype to, weft_dtype from)
{
    if (to < WEFT_I8) {
        const bool is_loop = from != WEFT_U64 || !is_float(to);
        return is_loop ? stores[to][column(from)] : to == WEFT_F64 ? u64_to_f64 : to == WEFT_F32 ? u64_to_f32 : NULL;
    }
    if (is_float(to)) {
        return from == WEFT_F32 ? to_stored[to] : NULL;
    }
    return is_64_bits(from) ? to_stored[to] : NULL;
}

/* The type of the arithmetic in the middle of a conversion that is no single loop. */
static weft_dtype middle_of(weft_dtype to, weft_dtype from)
{
    if (is_float(to) && from < WEFT_I8) { /* from a type of arithmetic, or WEFT_BOOL: to 16 or 8 bits */
        return WEFT_F32;
    }
    if (is_float(from)) {
        return from > WEFT_U64 ? WEFT_F32 : WEFT_F64;
    }
    return from == WEFT_U64 ? (is_float(to) ? WEFT_F32 : WEFT_U64) : WEFT_I64;
}

/* The loop to the middle's type; on the way to fewer bits it leaves what decides the rounding. */
static conversion first_half(weft_dtype to, weft_dtype middle, weft_dtype from)
{
    const bool narrows = middle == WEFT_F32 && is_float(to) && to != WEFT_F64;
    return narrows && from == WEFT_F64   ? f64_to_narrow
           : narrows && from == WEFT_I64 ? i64_to_narrow
           : narrows && from == WEFT_U64 ? u64_to_narrow
                                         : load_of(middle, from);
}

/* A real type, and a type of the arithmetic or WEFT_BOOL, in either direction. */
static void convert_real(weft_dtype to, char *target, int64_t target_stride, weft_dtype from, const char *source,
                         int64_t source_stride, int64_t n)
{
    const bool loads_it = to == WEFT_F64 || to == WEFT_F32 || is_64_bits(to);
    const conversion direct = loads_it ? load_of(to, from) : store_of(to, from);
    if (direct != NULL) {
        direct(target, target_stride, source, source_stride, n);
        return;
    }
    const weft_dtype middle = middle_of(to, from);
    const conversion half = first_half(to, middle, from);
    int64_t least = 0;
    uint64_t most = 0;
    const bool clamps = middle == WEFT_F64 && !is_64_bits(to) && weft_whole_range(to, &least, &most);
    for (int64_t i = 0, step; i < n; i += step) {
        double block[BLOCK];
        step = n - i < BLOCK ? n - i : BLOCK;
        half(block, 1, source + (size_t)(i * source_stride) * weft_dtype_size(from), source_stride, step);
        if (clamps) {
            clamp(block, step, (double)least, (double)most);
            f64_to_i64(block, 1, block, 1, step);
        }
        convert_real(to, target + (size_t)(i * target_stride) * weft_dtype_size(to), target_stride, clamps ? WEFT_I64 : middle,
                     (const char *)block, 1, step);
    }
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
    convert_real(part, target, step, part_from, source, step_from, n);
    if (complex_to && complex_from) {
        convert_real(part, target + size, step, part_from, source + weft_dtype_size(part_from), step_from, n);
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
    convert_real(arithmetic, target, 1, type, source, stride, n);
}

void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n)
{
    if (weft_dtype_is_complex(arithmetic) || weft_dtype_is_complex(type)) {
        convert_complex(type, target, stride, arithmetic, source, 1, n);
        return;
    }
    convert_real(type, target, stride, arithmetic, source, 1, n);
}
