/* Look-ups, scattered sums and one-hot rows. */
#include "codelets/indexing.h"

#include <math.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/convert.h"
#include "codelets/cpu/lines.h"
#include "codelets/problems.h"

enum { BLOCK = 512 };

/* Reports an index of the last input if it is out of range. */
static bool in_range(const weft_kernel_call *call, int64_t index, int64_t size)
{
    bool fits = index >= 0 && index < size;
    if (!fits) {
        weft_problem_range(call->error, call->num_inputs - 1, index, size - 1);
    }
    return fits;
}

/* Local position of global index `index` in dimension `dim` of this part; -1: elsewhere, or out of range. */
static int64_t place_of(const weft_kernel_call *call, const weft_view *view, int dim, int64_t index)
{
    if (!in_range(call, index, view->shape[dim])) {
        return -1;
    }
    int64_t place = index - view->offset[dim];
    return place >= 0 && place < view->extent[dim] ? place : -1;
}

/* ---- look-ups ------------------------------------------------------------------------------------------ */

/* One line of the indexed tensor. */
typedef struct table {
    const weft_kernel_call *call;
    weft_lines lines;
    int64_t outer;
    const char *whole; /* NULL: in several panels */
    size_t size;       /* of an element */
} table;

static const char *table_at(const table *t, int64_t place)
{
    if (t->whole != NULL) {
        return t->whole + (size_t)(place * t->lines.inner) * t->size;
    }
    int64_t together;
    return weft_line_at(&t->lines, t->outer, place, &together);
}

static inline void copy_element(char *target, const char *source, size_t size)
{
    switch (size) {
    case 1:
        *target = *source;
        break;
    case 2:
        memcpy(target, source, 2);
        break;
    case 4:
        memcpy(target, source, 4);
        break;
    case 16:
        memcpy(target, source, 16);
        break;
    default:
        memcpy(target, source, 8);
        break;
    }
}

/* `n` indices for the positions j, j + 1, ... of the inner dimensions, which wrap around. */
static void look_up_each(const table *t, char *target, const int64_t indices[], int64_t n, int64_t j)
{
    const weft_view *a = t->lines.view;
    for (int64_t i = 0; i < n; i++, target += t->size) {
        int64_t place = place_of(t->call, a, t->lines.dim, indices[i]);
        if (place >= 0) {
            copy_element(target, table_at(t, place) + (size_t)j * t->size, t->size);
        } else {
            memset(target, 0, t->size);
        }
        j = j + 1 == t->lines.inner ? 0 : j + 1;
    }
}

/* `n` indices, each for all positions of the inner dimensions. */
static void look_up_runs(const table *t, char *target, const int64_t indices[], int64_t n)
{
    size_t bytes = (size_t)t->lines.inner * t->size;
    for (int64_t i = 0; i < n; i++, target += bytes) {
        int64_t place = place_of(t->call, t->lines.view, t->lines.dim, indices[i]);
        if (place >= 0) {
            memcpy(target, table_at(t, place), bytes);
        } else {
            memset(target, 0, bytes);
        }
    }
}

/* The output's line (outer, ...), at `target`. */
static void look_up_line(const table *t, const weft_lines *indices, bool together, char *target)
{
    weft_dtype type = indices->view->dtype;
    int64_t width = together ? 1 : t->lines.inner;
    for (int64_t k = 0, rows; k < indices->length; k += rows) {
        const char *from = weft_line_at(indices, together ? 0 : t->outer, k, &rows);
        for (int64_t first = 0, n; first < rows * width; first += n) {
            int64_t block[BLOCK];
            n = rows * width - first < BLOCK ? rows * width - first : BLOCK;
            weft_load(WEFT_I64, block, type, from + (size_t)first * weft_dtype_size(type), 1, n);
            if (together) {
                look_up_runs(t, target, block, n);
            } else {
                look_up_each(t, target, block, n, first % width);
            }
            target += (size_t)(together ? n * t->lines.inner : n) * t->size;
        }
    }
}

void weft_kernel_lookup(const weft_kernel_call *call)
{
    int dim = (int)call->numbers[WEFT_INDEXED_DIM];
    bool together = call->numbers[WEFT_INDEXED_TOGETHER] != 0;
    weft_lines indices = weft_lines_of(&call->inputs[1], together ? 0 : dim);
    weft_lines output = weft_lines_of(&call->output, dim);
    table t = { .call = call,
                .lines = weft_lines_of(&call->inputs[0], dim),
                .size = weft_dtype_size(call->output.dtype) };
    bool any = weft_view_count(&call->inputs[0]) > 0;
    char *target = weft_view_row(&call->output, 0, NULL);
    for (; t.outer < output.outer; t.outer++) {
        t.whole = any ? weft_line_whole(&t.lines, t.outer) : NULL;
        look_up_line(&t, &indices, together, target);
        target += (size_t)(output.length * output.inner) * t.size;
    }
}

/* ---- scattered elements ------------------------------------------------------------------------------------ */

/* Combines values with those at positions in elements; negative positions are skipped. Integers wrap around. */
typedef void (*combine_function)(void *target, const void *values, const int64_t places[], int64_t n);

#define COMBINE(name, T, V, combined)                                                                        \
    static void name(void *target, const void *values, const int64_t places[], int64_t n)                    \
    {                                                                                                        \
        T *out = target;                                                                                     \
        const V *in = values;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            if (places[i] >= 0) {                                                                            \
                const T a = out[places[i]];                                                                  \
                const V b = in[i];                                                                           \
                out[places[i]] = (T)(combined);                                                              \
            }                                                                                                \
        }                                                                                                    \
    }

/* NaN is the smallest, and the largest. */
#define FLOATING(T, name)                                                                                    \
    COMBINE(add_##name, T, T, a + b)                                                                         \
    COMBINE(multiply_##name, T, T, a *b)                                                                     \
    COMBINE(smaller_##name, T, T, a <= b || a != a ? a : b)                                                  \
    COMBINE(larger_##name, T, T, a >= b || a != a ? a : b)
#define EXTREMES(T, V, name)                                                                                 \
    COMBINE(smaller_##name, T, V, a <= b ? a : b)                                                            \
    COMBINE(larger_##name, T, V, a >= b ? a : b)
#define INTEGER(T, U, name)                                                                                  \
    COMBINE(add_##name, T, int64_t, (U)a + (U)b)                                                             \
    COMBINE(multiply_##name, T, int64_t, (U)a * (U)b)                                                        \
    EXTREMES(T, int64_t, name)

FLOATING(double, f64)
FLOATING(float, f32)
INTEGER(int64_t, uint64_t, i64)
INTEGER(int32_t, uint32_t, i32)
INTEGER(uint8_t, uint32_t, u8)
INTEGER(uint16_t, uint32_t, u16)
EXTREMES(int8_t, int64_t, i8)
EXTREMES(int16_t, int64_t, i16)
EXTREMES(uint32_t, int64_t, u32)
EXTREMES(uint64_t, uint64_t, u64)
COMBINE(add_c64, weft_c64, weft_c64, a + b)
COMBINE(add_c128, weft_c128, weft_c128, a + b)
COMBINE(either, uint8_t, int64_t, a != 0 || b != 0)
COMBINE(both, uint8_t, int64_t, a != 0 && b != 0)

#define OF_TYPES(name, of_bool, of_i8, of_i16, of_u32, of_u64)                                               \
    {                                                                                                        \
        [WEFT_F64] = name##_f64, [WEFT_F32] = name##_f32, [WEFT_I64] = name##_i64, [WEFT_I32] = name##_i32,  \
        [WEFT_U8] = name##_u8, [WEFT_BOOL] = of_bool, [WEFT_I8] = of_i8, [WEFT_I16] = of_i16,                \
        [WEFT_U16] = name##_u16, [WEFT_U32] = of_u32, [WEFT_U64] = of_u64                                    \
    }
/* Sums and products have the same bits with a sign and without. */
#define OF_BITS(name, of_bool) OF_TYPES(name, of_bool, name##_u8, name##_u16, name##_i32, name##_i64)
#define OF_ORDER(name, of_bool) OF_TYPES(name, of_bool, name##_i8, name##_i16, name##_u32, name##_u64)

static const combine_function complex_sums[WEFT_DTYPE_COUNT] = { [WEFT_C64] = add_c64, [WEFT_C128] = add_c128 };

static const combine_function combine_functions[][WEFT_DTYPE_COUNT] = {
    [WEFT_SUM] = OF_BITS(add, either),
    [WEFT_PROD] = OF_BITS(multiply, both),
    [WEFT_MIN] = OF_ORDER(smaller, both),
    [WEFT_MAX] = OF_ORDER(larger, either),
};

/* Fills with the neutral value: that of an element to which nothing is scattered. */
static void fill_neutral(void *target, weft_dtype type, weft_reduce_op op, int64_t n)
{
    bool is_least = op == WEFT_MAX;
    if (op == WEFT_SUM) {
        memset(target, 0, (size_t)n * weft_dtype_size(type));
        return;
    }
    int64_t least;
    uint64_t most;
    const bool whole = weft_whole_range(type, &least, &most);
    const double real = op == WEFT_PROD ? 1 : is_least ? -INFINITY : INFINITY;
    const int64_t number = op == WEFT_PROD ? 1 : is_least ? least : (int64_t)most;
    const size_t size = weft_dtype_size(type);
    char neutral[sizeof(weft_c128)];
    weft_store(type, neutral, 1, whole ? WEFT_I64 : WEFT_F64, whole ? (const void *)&number : &real, 1);
    for (int64_t i = 0; i < n; i++) {
        copy_element((char *)target + (size_t)i * size, neutral, size);
    }
}

typedef struct scatter {
    const weft_kernel_call *call;
    weft_lines source, indices, output;
    bool together;
    combine_function combine;
    weft_dtype arithmetic;
} scatter;

/* Target offsets (elements from the start of the output's line) of elements first .. first + n - 1 of
 * source rows, whose indices are at `indices`. */
static void find_places(const scatter *s, const char *indices, int64_t first, int64_t n, int64_t places[])
{
    weft_dtype type = s->indices.view->dtype;
    int64_t inner = s->source.inner, index = 0, place = -1;
    bool each = !s->together || inner == 1; /* an index for each element */
    if (each) {
        weft_load(WEFT_I64, places, type, indices + (size_t)first * weft_dtype_size(type), 1, n);
    }
    for (int64_t i = 0, j = first % inner; i < n; i++) {
        if (each) {
            place = place_of(s->call, &s->call->output, s->output.dim, places[i]);
        } else if (i == 0 || j == 0) { /* another index */
            const char *at = indices + (size_t)((first + i) / inner) * weft_dtype_size(type);
            weft_load(WEFT_I64, &index, type, at, 1, 1);
            place = place_of(s->call, &s->call->output, s->output.dim, index);
        }
        places[i] = place < 0 ? -1 : place * inner + j;
        j = j + 1 == inner ? 0 : j + 1;
    }
}

/* `rows` rows of the source, with equally many of indices. */
static void scatter_rows(const scatter *s, char *target, const char *source, const char *indices,
                         int64_t rows)
{
    weft_dtype type = s->source.view->dtype;
    int64_t count = rows * s->source.inner;
    for (int64_t first = 0, n; first < count; first += n) {
        union {
            double f64[BLOCK];
            float f32[BLOCK];
            int64_t i64[BLOCK];
            weft_c128 c128[BLOCK];
        } values;
        int64_t places[BLOCK];
        n = count - first < BLOCK ? count - first : BLOCK;
        weft_load(s->arithmetic, &values, type, source + (size_t)first * weft_dtype_size(type), 1, n);
        find_places(s, indices, first, n, places);
        s->combine(target, &values, places, n);
    }
}

static weft_dtype arithmetic_of(weft_dtype type)
{
    return weft_dtype_is_complex(type) ? type : type == WEFT_F64 ? WEFT_F64 : type >= WEFT_I64 ? WEFT_I64 : WEFT_F32;
}

void weft_kernel_scatter(const weft_kernel_call *call)
{
    int dim = (int)call->numbers[WEFT_INDEXED_DIM];
    bool together = call->numbers[WEFT_INDEXED_TOGETHER] != 0;
    weft_reduce_op op = (weft_reduce_op)call->numbers[WEFT_SCATTER_OP];
    bool is_complex = weft_dtype_is_complex(call->output.dtype);
    scatter s = { .call = call,
                  .source = weft_lines_of(&call->inputs[0], dim),
                  .indices = weft_lines_of(&call->inputs[1], together ? 0 : dim),
                  .output = weft_lines_of(&call->output, dim),
                  .together = together,
                  .combine = is_complex ? complex_sums[call->output.dtype] : combine_functions[op][call->output.dtype],
                  .arithmetic = arithmetic_of(call->output.dtype) };
    char *target = weft_view_row(&call->output, 0, NULL);
    size_t line_bytes = (size_t)(s.output.length * s.output.inner) * weft_dtype_size(call->output.dtype);
    if (call->first) {
        fill_neutral(target, call->output.dtype, op, s.output.outer * s.output.length * s.output.inner);
    }
    for (int64_t outer = 0; outer < s.output.outer; outer++, target += line_bytes) {
        for (int64_t k = 0, rows; k < s.source.length; k += rows) {
            int64_t of_indices;
            const char *source = weft_line_at(&s.source, outer, k, &rows);
            const char *indices = weft_line_at(&s.indices, together ? 0 : outer, k, &of_indices);
            rows = of_indices < rows ? of_indices : rows;
            scatter_rows(&s, target, source, indices, rows);
        }
    }
}

/* ---- indices alone -------------------------------------------------------------------------------------- */

typedef void (*use_function)(const weft_kernel_call *call, int64_t index, void *target, int64_t i);

/* Calls `use` for each index; i: its number in the part. */
static void for_each_index(const weft_kernel_call *call, use_function use)
{
    const weft_view *indices = &call->inputs[0];
    void *target = weft_view_row(&call->output, 0, NULL);
    size_t size = weft_dtype_size(indices->dtype);
    for (int64_t row = 0, rows, i = 0; row < weft_view_rows(indices); row += rows) {
        const char *from = weft_view_row(indices, row, &rows);
        int64_t count = rows * (indices->ndim == 0 ? 1 : indices->row_elements);
        for (int64_t last = i + count; i < last; i++, from += size) {
            int64_t index;
            weft_load(WEFT_I64, &index, indices->dtype, from, 1, 1);
            use(call, index, target, i);
        }
    }
}

static void check_index(const weft_kernel_call *call, int64_t index, void *target, int64_t i)
{
    ((uint8_t *)target)[i] = in_range(call, index, call->numbers[0]);
}

void weft_kernel_check_indices(const weft_kernel_call *call)
{
    for_each_index(call, check_index);
}

static void set_one(const weft_kernel_call *call, int64_t index, void *target, int64_t i)
{
    int dim = call->output.ndim - 1;
    int64_t place = place_of(call, &call->output, dim, index);
    if (place >= 0) {
        ((int64_t *)target)[i * call->output.extent[dim] + place] = 1;
    }
}

void weft_kernel_one_hot(const weft_kernel_call *call)
{
    memset(weft_view_row(&call->output, 0, NULL), 0,
           (size_t)weft_view_count(&call->output) * sizeof(int64_t));
    for_each_index(call, set_one);
}
