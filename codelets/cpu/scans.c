/* Cumulative sums, products and extremes: blocks of neighbouring lines; lines of contiguous elements several at
 * once, because each addition depends on the previous one. */
#include "codelets/scans.h"

#include <string.h>

#include "codelets/complex.h"
#include "codelets/convert.h"
#include "codelets/cpu/clones.h"
#include "codelets/cpu/lines.h"

/* PIECE: of lines scanned together. Longer pieces of lines in memory are read slower than the additions take. */
enum { BLOCK = 512, LINES = 4, PIECE = 64 };

typedef union values {
    double f64[BLOCK];
    int64_t i64[BLOCK];
} values;

/* Scans `n` contiguous values of one line; of LINES lines, each in its own PIECE values; or one value of each of
 * `n` lines. `running`: one value per line. */
typedef void (*scan_function)(void *running, void *blocks, int64_t n);

typedef struct scan {
    double identity;
    scan_function along, together, across, along_whole, together_whole, across_whole;
} scan;

#define STEP(T, total, value, operation)                                                                     \
    {                                                                                                        \
        const T a = total, b = value;                                                                        \
        value = total = operation;                                                                           \
    }
#define LOOPS(name, T, operation)                                                                            \
    static void name##_along_##T(void *running, void *block, int64_t n)                                      \
    {                                                                                                        \
        T *v = block, a = *(T *)running;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T b = v[i];                                                                                \
            v[i] = a = operation;                                                                            \
        }                                                                                                    \
        *(T *)running = a;                                                                                   \
    }                                                                                                        \
    static void name##_together_##T(void *running, void *blocks, int64_t n)                                  \
    {                                                                                                        \
        T *r = running, *restrict v = blocks, r0 = r[0], r1 = r[1], r2 = r[2], r3 = r[3];                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            STEP(T, r0, v[i], operation)                                                                     \
            STEP(T, r1, v[PIECE + i], operation)                                                             \
            STEP(T, r2, v[2 * PIECE + i], operation)                                                         \
            STEP(T, r3, v[3 * PIECE + i], operation)                                                         \
        }                                                                                                    \
        r[0] = r0, r[1] = r1, r[2] = r2, r[3] = r3;                                                          \
    }                                                                                                        \
    WEFT_CLONES static void name##_across_##T(void *running, void *block, int64_t n)                         \
    {                                                                                                        \
        T *restrict v = block, *restrict r = running;                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const T a = r[i], b = v[i];                                                                      \
            v[i] = r[i] = operation;                                                                         \
        }                                                                                                    \
    }
#define SCAN(name, identity_, operation, whole_operation)                                                    \
    LOOPS(name, double, operation)                                                                           \
    LOOPS(name, int64_t, whole_operation)                                                                    \
    static const scan scan_##name = { identity_,                                                             \
                                      name##_along_double,                                                   \
                                      name##_together_double,                                                \
                                      name##_across_double,                                                  \
                                      name##_along_int64_t,                                                  \
                                      name##_together_int64_t,                                               \
                                      name##_across_int64_t };

SCAN(sum, 0, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
SCAN(prod, 1, a *b, (int64_t)((uint64_t)a *(uint64_t)b))

typedef struct job {
    weft_lines in, out;
    weft_dtype type, arithmetic;
    scan_function function, together;
} job;

static void start(const job *j, const scan *kind, values *running, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (j->arithmetic == WEFT_I64) {
            running->i64[i] = (int64_t)kind->identity;
        } else {
            running->f64[i] = kind->identity;
        }
    }
}

static void run_block(const job *j, values *running, char *to, const char *from, int64_t n)
{
    values block;
    weft_load(j->arithmetic, &block, j->type, from, 1, n);
    j->function(running, &block, n);
    weft_store(j->type, to, 1, j->arithmetic, &block, n);
}

/* Lines (outer, j .. j + width - 1); a block is a row of contiguous elements, or several rows of a single
 * contiguous line. */
static void run_lines(const job *j, values *running, int64_t outer, int64_t first, int64_t width)
{
    size_t size = weft_dtype_size(j->type);
    bool along = j->in.inner == 1;
    for (int64_t k = 0, n; k < j->in.length; k += n) {
        int64_t in_together, out_together;
        const char *from = weft_line_at(&j->in, outer, k, &in_together);
        char *to = weft_line_at(&j->out, outer, k, &out_together);
        n = in_together < out_together ? in_together : out_together;
        for (int64_t i = 0, step; i < n; i += step) {
            step = !along ? 1 : n - i < BLOCK ? n - i : BLOCK;
            size_t place = (size_t)(i * j->in.inner + first) * size;
            run_block(j, running, to + place, from + place, along ? step : width);
        }
    }
}

/* Lines outer .. outer + LINES - 1 along an inner dimension, each contiguous. */
static void run_together(const job *j, values *running, int64_t outer)
{
    size_t size = weft_dtype_size(j->type);
    values pieces; /* one of each line */
    const char *from[LINES];
    char *to[LINES];
    for (int line = 0; line < LINES; line++) {
        from[line] = weft_line_whole(&j->in, outer + line);
        to[line] = weft_line_whole(&j->out, outer + line);
    }
    for (int64_t k = 0, n; k < j->in.length; k += n) {
        n = j->in.length - k < PIECE ? j->in.length - k : PIECE;
        for (int line = 0; line < LINES; line++) {
            weft_load(j->arithmetic, &pieces.f64[line * PIECE], j->type, from[line] + (size_t)k * size, 1, n);
        }
        j->together(running, &pieces, n);
        for (int line = 0; line < LINES; line++) {
            weft_store(j->type, to[line] + (size_t)k * size, 1, j->arithmetic, &pieces.f64[line * PIECE], n);
        }
    }
}

static job begin(const weft_kernel_call *call, const scan *kind)
{
    int dim = (int)call->numbers[0];
    bool whole = call->output.dtype >= WEFT_I64;
    job j = { .in = weft_lines_of(&call->inputs[0], dim),
              .out = weft_lines_of(&call->output, dim),
              .type = call->output.dtype,
              .arithmetic = whole ? WEFT_I64 : WEFT_F64,
              .together = whole ? kind->together_whole : kind->together };
    bool along = j.in.inner == 1;
    j.function =
        along ? (whole ? kind->along_whole : kind->along) : (whole ? kind->across_whole : kind->across);
    return j;
}

static void run(const weft_kernel_call *call, const scan *kind)
{
    if (weft_dtype_is_complex(call->output.dtype)) {
        weft_complex_scan(call, kind == &scan_prod);
        return;
    }
    job j = begin(call, kind);
    values running;
    int64_t outer = 0;
    for (; j.in.dim > 0 && j.in.inner == 1 && j.in.length > 0 && outer + LINES <= j.out.outer;
         outer += LINES) {
        start(&j, kind, &running, LINES);
        run_together(&j, &running, outer);
    }
    for (; outer < j.out.outer; outer++) {
        for (int64_t first = 0, width; first < j.out.inner; first += width) {
            width = j.out.inner - first < BLOCK ? j.out.inner - first : BLOCK;
            start(&j, kind, &running, width);
            run_lines(&j, &running, outer, first, width);
        }
    }
}

void weft_kernel_cumsum(const weft_kernel_call *call)
{
    run(call, &scan_sum);
}

void weft_kernel_cumprod(const weft_kernel_call *call)
{
    run(call, &scan_prod);
}

/* ---- places of extremes -------------------------------------------------------------------------------- */

/* The extremes so far of BLOCK lines, and where they are. */
typedef struct extremes {
    bool largest, whole;
    values best;
    int64_t places[BLOCK];
} extremes;

static bool takes_over(const extremes *x, const values *block, int64_t i, int64_t line)
{
    if (x->whole) {
        return x->largest ? block->i64[i] >= x->best.i64[line] : block->i64[i] <= x->best.i64[line];
    }
    const double value = block->f64[i], best = x->best.f64[line];
    return value != value || (x->largest ? value >= best : value <= best);
}

/* Element number k of n lines, or `along`, elements k .. k + n - 1 of one. */
static void follow(extremes *x, const values *block, int64_t k, int64_t n, bool along, int64_t found[])
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t line = along ? 0 : i, place = along ? k + i : k;
        if (place == 0 || takes_over(x, block, i, line)) {
            x->places[line] = place;
            if (x->whole) {
                x->best.i64[line] = block->i64[i];
            } else {
                x->best.f64[line] = block->f64[i];
            }
        }
        found[i] = x->places[line];
    }
}

/* Lines (outer, first .. first + width - 1). */
static void follow_lines(extremes *x, const weft_lines *in, const weft_lines *out, int64_t outer, int64_t first, int64_t width)
{
    const weft_dtype type = in->view->dtype;
    const bool along = in->inner == 1;
    for (int64_t k = 0, n; k < in->length; k += n) {
        int64_t in_together, out_together, found[BLOCK];
        values block;
        const char *from = weft_line_at(in, outer, k, &in_together);
        int64_t *to = weft_line_at(out, outer, k, &out_together);
        n = in_together < out_together ? in_together : out_together;
        n = !along ? 1 : n < BLOCK ? n : BLOCK;
        const int64_t count = along ? n : width;
        weft_load(x->whole ? WEFT_I64 : WEFT_F64, &block, type, from + (size_t)first * weft_dtype_size(type), 1, count);
        weft_flip_order(type, block.i64, count);
        follow(x, &block, k, count, along, found);
        memcpy(to + first, found, (size_t)count * sizeof(found[0]));
    }
}

void weft_kernel_cumulative_place(const weft_kernel_call *call)
{
    const int dim = (int)call->numbers[0];
    const weft_lines in = weft_lines_of(&call->inputs[0], dim), out = weft_lines_of(&call->output, dim);
    extremes x = { .largest = call->numbers[1] != 0, .whole = call->inputs[0].dtype >= WEFT_I64 };
    for (int64_t outer = 0; outer < out.outer; outer++) {
        for (int64_t first = 0, width; first < out.inner; first += width) {
            width = out.inner - first < BLOCK ? out.inner - first : BLOCK;
            follow_lines(&x, &in, &out, outer, first, width);
        }
    }
}
