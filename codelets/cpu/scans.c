/* Cumulative sums and products: a block of neighbouring lines at a time. */
#include "codelets/scans.h"

#include "codelets/cpu/clones.h"
#include "codelets/cpu/convert.h"
#include "codelets/cpu/lines.h"

enum { BLOCK = 512 };

typedef union values {
    double f64[BLOCK];
    int64_t i64[BLOCK];
} values;

/* `n` values of one line, which follow one another; or one of each of `n` lines. */
typedef void (*scan_function)(void *running, void *block, int64_t n);

typedef struct scan {
    double identity;
    scan_function along, across, along_whole, across_whole;
} scan;

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
    WEFT_CLONES static void name##_across_##T(void *running, void *block, int64_t n)                         \
    {                                                                                                        \
        T *restrict v = block, *restrict r = running;                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T a = r[i], b = v[i];                                                                      \
            v[i] = r[i] = operation;                                                                         \
        }                                                                                                    \
    }
#define SCAN(name, identity_, operation, whole_operation)                                                    \
    LOOPS(name, double, operation)                                                                           \
    LOOPS(name, int64_t, whole_operation)                                                                    \
    static const scan scan_##name = { identity_, name##_along_double, name##_across_double,                  \
                                      name##_along_int64_t, name##_across_int64_t };

SCAN(sum, 0, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
SCAN(prod, 1, a *b, (int64_t)((uint64_t)a *(uint64_t)b))

typedef struct job {
    weft_lines in, out;
    weft_dtype type, arithmetic;
    scan_function function;
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

/* Lines (outer, j .. j + width - 1); each row of elements that lie together is a block, or, of a single line
 * whose elements follow one another, many of them. */
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

static void run(const weft_kernel_call *call, const scan *kind)
{
    int dim = (int)call->numbers[0];
    job j = { .in = weft_lines_of(&call->inputs[0], dim),
              .out = weft_lines_of(&call->output, dim),
              .type = call->output.dtype,
              .arithmetic = call->output.dtype >= WEFT_I64 ? WEFT_I64 : WEFT_F64 };
    bool along = j.in.inner == 1, whole = j.arithmetic == WEFT_I64;
    j.function =
        along ? (whole ? kind->along_whole : kind->along) : (whole ? kind->across_whole : kind->across);
    for (int64_t outer = 0; outer < j.out.outer; outer++) {
        for (int64_t first = 0, width; first < j.out.inner; first += width) {
            values running;
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
