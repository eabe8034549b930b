/* Reductions of boxes: sums, products, minima and maxima over several operands. */
#include "codelets/copy.h"

#include <stdbool.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/half.h"

/* In double precision; parts of complex numbers are scaled in their own. */
#define SCALED(value, scale)                                                                                 \
    _Generic((value), weft_c64 : (value) * (float)(scale), weft_c128 : (value) * (scale), default : (double)(value) * (scale))
/* One row of target = target op source, or (first) target = source. `load` and `store` convert between the
 * stored type and the type of the computation, `wide`. Rows are short enough to stay in a cache for all
 * sources. */
#define COMBINED(name, type, wide, load, store, sum, prod, min, max)                                         \
    static wide combine_##name(weft_combine how, wide a, wide b)                                             \
    {                                                                                                        \
        return how == WEFT_COMBINE_SUM    ? (sum)                                                            \
               : how == WEFT_COMBINE_PROD ? (prod)                                                           \
               : how == WEFT_COMBINE_MIN  ? (min)                                                            \
                                          : (max);                                                           \
    }                                                                                                        \
    static wide scaled_##name(wide value, double scale)                                                      \
    {                                                                                                        \
        return scale == 1 ? value : (wide)(SCALED(value, scale));                                            \
    }                                                                                                        \
    static void reduce_row_##name(const weft_reduce_args *args, int count, type *target,                     \
                                  type *const source[], int64_t n, int64_t target_stride,                    \
                                  const int64_t source_stride[])                                             \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            wide value =                                                                                     \
                args->accumulate ? load(target[i * target_stride]) : load(source[0][i * source_stride[0]]);  \
            for (int k = args->accumulate ? 0 : 1; k < count; k++) {                                         \
                value = combine_##name(args->combine, value, load(source[k][i * source_stride[k]]));         \
            }                                                                                                \
            target[i * target_stride] = store(scaled_##name(value, args->scale));                            \
        }                                                                                                    \
    }
#include "codelets/combinations.inc"

/* Contiguous sums, as of gradients and partial products. Up to four addends are read in one loop, so that
 * each byte passes once between memory and registers; more are added in blocks whose sums stay in a cache.
 * Same additions in the same order as above, in vectorised loops. Each returns the number of addends used
 * of `count`. */
#define DEFINE_SUM_ROW(name, type)                                                                           \
    static int sum_first_##name(type *restrict out, type *const source[], int64_t begin, int count,          \
                                int64_t n)                                                                   \
    {                                                                                                        \
        const type *restrict a = source[0] + begin, *restrict b = source[count > 1 ? 1 : 0] + begin;         \
        const type *restrict c = source[count > 2 ? 2 : 0] + begin, *restrict d =                            \
                                                                        source[count > 3 ? 3 : 0] + begin;   \
        switch (count) {                                                                                     \
        case 1:                                                                                              \
            memcpy(out, a, (size_t)n * sizeof(type));                                                        \
            return 1;                                                                                        \
        case 2:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i];                                                                        \
            }                                                                                                \
            return 2;                                                                                        \
        case 3:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i] + c[i];                                                                 \
            }                                                                                                \
            return 3;                                                                                        \
        default:                                                                                             \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i] + c[i] + d[i];                                                          \
            }                                                                                                \
            return 4;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static int sum_more_##name(type *restrict out, type *const source[], int64_t begin, int count,           \
                               int64_t n)                                                                    \
    {                                                                                                        \
        const type *restrict a = source[0] + begin, *restrict b = source[count > 1 ? 1 : 0] + begin;         \
        const type *restrict c = source[count > 2 ? 2 : 0] + begin;                                          \
        switch (count) {                                                                                     \
        case 1:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i];                                                                      \
            }                                                                                                \
            return 1;                                                                                        \
        case 2:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i] + b[i];                                                               \
            }                                                                                                \
            return 2;                                                                                        \
        default:                                                                                             \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i] + b[i] + c[i];                                                        \
            }                                                                                                \
            return 3;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void sum_row_##name(const weft_reduce_args *args, int count, type *target,                        \
                               type *const source[], int64_t n)                                              \
    {                                                                                                        \
        enum { BLOCK = 2048 };                                                                               \
        for (int64_t begin = 0; begin < n; begin += BLOCK) {                                                 \
            int64_t length = n - begin < BLOCK ? n - begin : BLOCK;                                          \
            type *out = target + begin;                                                                      \
            int k = args->accumulate ? 0 : sum_first_##name(out, source, begin, count, length);              \
            while (k < count) {                                                                              \
                k += sum_more_##name(out, source + k, begin, count - k, length);                             \
            }                                                                                                \
            if (args->scale != 1) {                                                                          \
                for (int64_t i = 0; i < length; i++) { /* vectorised */                                      \
                    out[i] = (type)((double)out[i] * args->scale);                                           \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_SUM_ROW(f64, double)
DEFINE_SUM_ROW(f32, float)

/* Iterators over all sources in step with the target: their boxes have equal extents. The target's strides
 * are those of the first box. */
typedef struct many_walks {
    const weft_reduce_args *args;
    int count;
    int64_t rows, row_length, target_stride, source_stride[WEFT_MAX_OPERANDS - 1];
    int64_t index[WEFT_MAX_DIMS], target, source[WEFT_MAX_OPERANDS - 1];
} many_walks;

static bool is_contiguous_sum(const many_walks *walk)
{
    bool contiguous = walk->args->combine == WEFT_COMBINE_SUM && walk->target_stride == 1;
    for (int k = 0; k < walk->count; k++) {
        contiguous = contiguous && walk->source_stride[k] == 1;
    }
    return contiguous;
}

static many_walks many_start(const weft_reduce_args *args, int count)
{
    const weft_strided_box *box = &args->boxes[0];
    many_walks walk = { .args = args, .count = count, .rows = 1, .row_length = 1 };
    for (int d = 0; d < box->ndim - 1; d++) {
        walk.rows *= box->extent[d];
    }
    if (box->ndim > 0) {
        walk.row_length = box->extent[box->ndim - 1];
        walk.target_stride = box->target_stride[box->ndim - 1];
        for (int k = 0; k < walk.count; k++) {
            walk.source_stride[k] = args->boxes[k].source_stride[box->ndim - 1];
        }
    }
    return walk;
}

static void many_next(many_walks *walk)
{
    const weft_strided_box *boxes = walk->args->boxes;
    for (int d = boxes->ndim - 2; d >= 0; d--) {
        int64_t steps = ++walk->index[d] < boxes->extent[d] ? 1 : 1 - boxes->extent[d];
        walk->target += steps * boxes->target_stride[d];
        for (int k = 0; k < walk->count; k++) {
            walk->source[k] += steps * boxes[k].source_stride[d];
        }
        if (steps == 1) {
            return;
        }
        walk->index[d] = 0;
    }
}

#define GENERAL_ROW(name)                                                                                    \
    reduce_row_##name(args, walk->count, target, rows, walk->row_length, walk->target_stride, walk->source_stride)
#define FLOAT_ROW(name)                                                                                      \
    (contiguous ? sum_row_##name(args, walk->count, target, rows, walk->row_length) : GENERAL_ROW(name))

/* One row of the target at the iterators' position. */
#define DEFINE_REDUCE_AT(name, type, reduce_row)                                                             \
    static void reduce_at_##name(void *const operands[], const many_walks *walk, bool contiguous)            \
    {                                                                                                        \
        (void)contiguous;                                                                                    \
        const weft_reduce_args *args = walk->args;                                                           \
        type *rows[WEFT_MAX_OPERANDS - 1];                                                                   \
        for (int k = 0; k < walk->count; k++) {                                                              \
            rows[k] = (type *)operands[k + 1] + walk->source[k];                                             \
        }                                                                                                    \
        type *target = (type *)operands[0] + walk->target;                                                   \
        reduce_row(name);                                                                                    \
    }

DEFINE_REDUCE_AT(f64, double, FLOAT_ROW)
DEFINE_REDUCE_AT(f32, float, FLOAT_ROW)
DEFINE_REDUCE_AT(bf16, uint16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(f16, uint16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i64, int64_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i32, int32_t, GENERAL_ROW)
DEFINE_REDUCE_AT(u8, uint8_t, GENERAL_ROW)
DEFINE_REDUCE_AT(boolean, uint8_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i8, int8_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i16, int16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(u16, uint16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(u32, uint32_t, GENERAL_ROW)
DEFINE_REDUCE_AT(u64, uint64_t, GENERAL_ROW)
DEFINE_REDUCE_AT(c64, weft_c64, GENERAL_ROW)
DEFINE_REDUCE_AT(c128, weft_c128, GENERAL_ROW)

typedef void (*reduce_at)(void *const operands[], const many_walks *walk, bool contiguous);

static const reduce_at reductions[WEFT_DTYPE_COUNT] = {
    [WEFT_F64] = reduce_at_f64, [WEFT_F32] = reduce_at_f32, [WEFT_BF16] = reduce_at_bf16,
    [WEFT_F16] = reduce_at_f16, [WEFT_I64] = reduce_at_i64, [WEFT_I32] = reduce_at_i32,
    [WEFT_U8] = reduce_at_u8,   [WEFT_BOOL] = reduce_at_boolean, [WEFT_I8] = reduce_at_i8,
    [WEFT_I16] = reduce_at_i16, [WEFT_U16] = reduce_at_u16, [WEFT_U32] = reduce_at_u32,
    [WEFT_U64] = reduce_at_u64,
    [WEFT_C64] = reduce_at_c64, [WEFT_C128] = reduce_at_c128,
};

void weft_cpu_reduce(const weft_task_run *run)
{
    const weft_reduce_args *args = run->arguments;
    many_walks walk = many_start(args, run->num_operands - 1);
    bool contiguous = is_contiguous_sum(&walk);
    for (int64_t row = 0; row < walk.rows; row++, many_next(&walk)) {
        reductions[args->base.dtype](run->operands, &walk, contiguous);
    }
}
