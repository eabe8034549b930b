/* Fourier transforms of the lines of a view: lines are gathered in groups, whose vectors of equal elements are contiguous. */
#include "codelets/fft.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/cpu/fft_library.h"
#include "codelets/cpu/fft_plan.h"
#include "codelets/cpu/lines.h"
#include "codelets/problems.h"

typedef struct job {
    weft_lines in, out;
    int64_t in_width, out_width, part; /* parts of an element; the one that is transformed, if they are one after the other */
    bool weighted;
    weft_fft_kind kind;
    int64_t n;
    int64_t line; /* 0: no step of a longer transform */
    int steps;
    double scale;
    const double *scalars;
    const weft_fft_plan *plan, *half_plan; /* half_plan: of n / 2, of real signals of an even size; else NULL */
    double *angles; /* of cosines and sines: 2 n pairs, cos and sin of pi k / 2 n, then of pi (2 k + 1) / 4 n */
} job;

/* Lines of a view that are transformed together. */
typedef struct group {
    int64_t first, lines, lanes;
} group;

/* Type 1 to 4 of a cosine or sine transform; 0: another transform. */
static int cosine_type(weft_fft_kind kind)
{
    return kind < WEFT_FFT_COSINE_KIND ? 0 : ((int)kind - WEFT_FFT_COSINE_KIND) % 4 + 1;
}

/* The index along the dimension before the transformed one. */
static int64_t row_of(const job *j, int64_t line)
{
    const int d = j->out.dim - 1;
    return j->out.view->offset[d] + line / j->out.inner % j->out.view->extent[d];
}

/* Where element i goes: even ones first, in order, odd ones from the end. */
static int64_t dealt(int64_t i, int64_t n)
{
    return i % 2 == 0 ? i / 2 : n - 1 - i / 2;
}

#define T double
#define LANES WEFT_FFT_LANES_F64
#define OF(name) name##_f64
#define TABLE f64
#include "codelets/cpu/fft_lines.inc"

#define T float
#define LANES WEFT_FFT_LANES_F32
#define OF(name) name##_f32
#define TABLE f32
#include "codelets/cpu/fft_lines.inc"

enum { CACHE_LINE = 64 }; /* bytes: no vector lies in two */

/* How many lines are transformed together: a vector's numbers, or twice as many where the nearest cache holds the group. */
static int64_t lanes_of(const weft_fft_plan *plan, int64_t room, bool single)
{
    enum { NEAR = 64 };
    const int64_t vector = single ? WEFT_FFT_LANES_F32 : WEFT_FFT_LANES_F64;
    return plan->first != NULL ? WEFT_FFT_COLUMNS : room <= NEAR ? 2 * vector : vector;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* False: no memory. */
static bool obtain_plans(job *j)
{
    bool real = j->kind == WEFT_FFT_REAL_KIND || j->kind == WEFT_FFT_HALF_KIND, halves = real && j->n % 2 == 0;
    const int type = cosine_type(j->kind);
    const int64_t between = j->kind < WEFT_FFT_SINE_KIND ? -1 : 1;
    j->plan = weft_fft_plan_obtain(type == 1 ? 2 * (j->n + between) : type == 4 ? 2 * j->n : j->n);
    j->half_plan = j->plan != NULL && halves ? weft_fft_plan_obtain(j->n / 2) : NULL;
    j->angles = type > 0 ? malloc(4 * (size_t)j->n * sizeof(*j->angles)) : NULL;
    for (int64_t k = 0; k < j->n && j->angles != NULL; k++) {
        double *first = &j->angles[2 * k], *second = &j->angles[2 * (j->n + k)];
        weft_fft_unit(k, 4 * j->n, &first[0], &first[1]);
        weft_fft_unit(2 * k + 1, 8 * j->n, &second[0], &second[1]);
    }
    return j->plan != NULL && (!halves || j->half_plan != NULL) && (type == 0 || j->angles != NULL);
}

static void release_plans(const job *j)
{
    if (j->plan != NULL) {
        weft_fft_plan_release(j->plan);
    }
    if (j->half_plan != NULL) {
        weft_fft_plan_release(j->half_plan);
    }
    free(j->angles);
}

static void set_to_zero(const weft_view *out)
{
    for (int64_t row = 0, rows; row < weft_view_rows(out); row += rows) {
        char *target = weft_view_row(out, row, &rows);
        memset(target, 0, (size_t)(rows * out->row_elements) * weft_dtype_size(out->dtype));
    }
}

void weft_kernel_fft(const weft_kernel_call *call)
{
    int dim = (int)call->numbers[WEFT_FFT_DIM];
    job j = { .in = weft_lines_of(&call->inputs[0], dim),
              .out = weft_lines_of(&call->output, dim),
              .in_width = weft_dtype_is_complex(call->inputs[0].dtype) ? 2 : 1,
              .out_width = weft_dtype_is_complex(call->output.dtype) ? 2 : 1,
              .weighted = call->numbers[WEFT_FFT_WEIGHTED] != 0,
              .kind = (weft_fft_kind)call->numbers[WEFT_FFT_KIND],
              .n = call->numbers[WEFT_FFT_SIZE],
              .line = call->numbers[WEFT_FFT_LINE],
              .steps = (int)call->numbers[WEFT_FFT_STEP],
              .scale = call->scalars[WEFT_FFT_SCALE],
              .scalars = call->scalars };
    bool single = weft_part_type(call->output.dtype) == WEFT_F32;
    int64_t count = j.out.outer * j.out.inner;
    if (count > 0 && weft_fft_has_library() && (single ? by_library_f32 : by_library_f64)(&j)) {
        return;
    }
    bool planned = count > 0 && obtain_plans(&j);
    /* A real signal is loaded and stored as a whole, beside its transform of half the size. */
    int64_t room = !planned ? 0 : larger(weft_fft_room(j.half_plan != NULL ? j.half_plan : j.plan), j.n);
    int64_t lanes = planned ? lanes_of(j.plan, room, single) : 0;
    const size_t bytes = (size_t)(4 * (room * lanes + WEFT_FFT_GAP)) * (single ? sizeof(float) : sizeof(double));
    void *memory = planned ? aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE) : NULL;
    if (memory != NULL && single) {
        run_f32(&j, lanes, room, memory);
    } else if (memory != NULL) {
        run_f64(&j, lanes, room, memory);
    } else if (count > 0) {
        weft_problem_memory(call->error, WEFT_PROBLEM_ROW, 0);
        set_to_zero(&call->output);
    }
    free(memory);
    release_plans(&j);
}
