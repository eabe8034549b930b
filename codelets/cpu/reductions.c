/* Reductions over any dimensions. A run is a contiguous part of the input's last dimension; f32, f64 and
 * i64 are reduced in place, other types block by block, converted to the type of the arithmetic. */
#include "codelets/reductions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/convert.h"
#include "codelets/cpu/clones.h"
#include "codelets/cpu/holds.h"
#include "codelets/cpu/vectors.h"

/* LANES: interleaved parts, enough to hide the latency of an addition. COLUMNS: results that stay in the
 * first-level cache. LINE, AHEAD: bytes. */
enum { BLOCK = WEFT_REDUCED_BLOCK, LANES = 32, COLUMNS = 2048, LINE = 64, AHEAD = 4096 };

/* ---- one reduction ------------------------------------------------------------------------------------- */

/* Loops over `n` contiguous values: into one result; or `rows` times, `stride` values apart, each value
 * into its column's result, in row order. Results are in the type of the arithmetic. */
typedef struct loops {
    void (*into_one)(void *result, const void *values, int64_t n);
    void (*into_each)(void *results, const void *values, int64_t n, int64_t rows, int64_t stride);
} loops;

typedef struct reduction {
    double identity;
    int64_t whole_identity; /* of integers */
    loops f32, f64, i64;    /* by type of the values */
} reduction;

/* Prefetches LANES values, some lines before they are read: the processor's own prefetcher begins anew in each page. The address
 * may lie beyond the array, because a prefetch never faults. */
#define FETCH(values, S)                                                                                     \
    for (size_t byte = 0; byte < LANES * sizeof(S); byte += LINE) {                                          \
        __builtin_prefetch((const void *)((uintptr_t)(values) + AHEAD + byte));                              \
    }

/* S: type of the values, T: of the arithmetic. `prepared`: the reduced term of a value b; `operation`:
 * combines a with b. */
#define LOOPS(name, S, T, identity, prepared, operation)                                                     \
    WEFT_CLONES static void name##_into_one_##S(void *result, const void *values, int64_t n)                 \
    {                                                                                                        \
        const S *from = values;                                                                              \
        T lanes[LANES], total = *(T *)result;                                                                \
        int64_t i = 0;                                                                                       \
        if (n >= LANES) {                                                                                    \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                lanes[lane] = (identity);                                                                    \
            }                                                                                                \
            for (; i + LANES <= n; i += LANES) {                                                             \
                FETCH(from + i, S)                                                                           \
                for (int lane = 0; lane < LANES; lane++) { /* vectorised */                                  \
                    T a = lanes[lane], b = (T)from[i + lane];                                                \
                    b = prepared;                                                                            \
                    lanes[lane] = operation;                                                                 \
                }                                                                                            \
            }                                                                                                \
            for (int half = LANES / 2; half > 0; half /= 2) {                                                \
                for (int lane = 0; lane < half; lane++) {                                                    \
                    T a = lanes[lane], b = lanes[lane + half];                                               \
                    lanes[lane] = operation;                                                                 \
                }                                                                                            \
            }                                                                                                \
            T a = total, b = lanes[0];                                                                       \
            total = operation;                                                                               \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            T a = total, b = (T)from[i];                                                                     \
            b = prepared;                                                                                    \
            total = operation;                                                                               \
        }                                                                                                    \
        *(T *)result = total;                                                                                \
    }                                                                                                        \
    WEFT_CLONES static void name##_into_each_##S(void *results, const void *values, int64_t n, int64_t rows, \
                                                 int64_t stride)                                             \
    {                                                                                                        \
        T *restrict out = results;                                                                           \
        const S *restrict from = values;                                                                     \
        for (int64_t row = 0; row < rows; row++, from += stride) {                                           \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                T a = out[i], b = (T)from[i];                                                                \
                b = prepared;                                                                                \
                out[i] = operation;                                                                          \
            }                                                                                                \
        }                                                                                                    \
    }
#define REDUCTION(name, identity_, whole_identity_, prepared, operation, whole_operation)                    \
    LOOPS(name, float, double, identity_, prepared, operation)                                               \
    LOOPS(name, double, double, identity_, prepared, operation)                                              \
    LOOPS(name, int64_t, int64_t, whole_identity_, b, whole_operation)                                       \
    static const reduction reduce_##name = {                                                                 \
        identity_,                                                                                           \
        whole_identity_,                                                                                     \
        { name##_into_one_float, name##_into_each_float },                                                   \
        { name##_into_one_double, name##_into_each_double },                                                 \
        { name##_into_one_int64_t, name##_into_each_int64_t },                                               \
    };

#include "codelets/reductions.inc"

/* ---- what is done to the values before ----------------------------------------------------------------- */

typedef void (*prepare_function)(double *values, int64_t n, const double *scalars);

static void power(double *values, int64_t n, const double *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = pow(fabs(values[i]), scalars[1]);
    }
}

/* ---- index space --------------------------------------------------------------------------------------- */

/* Maps input indices to output elements. */
typedef struct walker {
    const weft_kernel_call *call;
    bool reduces_last;
    int64_t stride[WEFT_MAX_DIMS]; /* of the output by input dimension, in elements; 0 if reduced */
    /* The same for the row-major index over the reduced dimensions of the whole tensor; 0 if not reduced. */
    int64_t order[WEFT_MAX_DIMS];
    int64_t origin; /* that index of the input's first element */
} walker;

static walker begin(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    walker w = { .call = call };
    int64_t mask = call->numbers[0], step = 1, next = 1;
    bool keeps = call->numbers[1] != 0;
    int place = out->ndim - 1;
    for (int d = in->ndim - 1; d >= 0; d--) {
        bool reduced = mask >> d & 1;
        w.stride[d] = reduced ? 0 : step;
        if (!reduced || keeps) {
            step *= out->extent[place--];
        }
        w.order[d] = reduced ? next : 0;
        w.origin += w.order[d] * in->offset[d];
        next *= reduced ? in->shape[d] : 1;
    }
    w.reduces_last = in->ndim > 0 && (mask >> (in->ndim - 1) & 1);
    return w;
}

/* Distance of input element (row, rest, 0) from the first one, in strides; rest: row-major over the
 * dimensions between first and last. */
static int64_t distance(const walker *w, const int64_t strides[], int64_t row, int64_t rest)
{
    const weft_view *in = &w->call->inputs[0];
    int64_t place = in->ndim > 0 ? row * strides[0] : 0;
    for (int d = in->ndim - 2; d >= 1; d--) {
        place += rest % in->extent[d] * strides[d];
        rest /= in->extent[d];
    }
    return place;
}

static int64_t middle_count(const weft_view *in)
{
    int64_t count = 1;
    for (int d = 1; d < in->ndim - 1; d++) {
        count *= in->extent[d];
    }
    return count;
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef union values {
    double f64[BLOCK];
    int64_t i64[BLOCK];
} values;

typedef struct job job;

/* Reduces `length` elements of the last dimension at `from`. place: position of their first result;
 * position: index of the first element in the order of the reduced dimensions. */
typedef void (*run_function)(const job *j, const walker *w, const char *from, int64_t place, int64_t position,
                             int64_t length);

struct job {
    run_function run;
    const reduction *reduction;
    prepare_function prepare;
    bool whole;    /* integers and truth values */
    weft_dtype ordered; /* of numbers that are compared: those of WEFT_U64 are WEFT_I64 in the same order */
    void *results; /* in the type of the arithmetic, or indices: one per element of the output's part */
    /* Per result, or NULL: subtracted from the values, or their factor; or, in the type of the arithmetic, the value
     * searched for. */
    void *centre;
    bool scales; /* `centre` has factors */
    int64_t count; /* number of results */
};

static weft_dtype arithmetic_of(const job *j)
{
    return j->whole ? WEFT_I64 : WEFT_F64;
}

/* The identity in the range of the type: the result without elements. */
static int64_t whole_identity(const reduction *kind, weft_dtype type)
{
    int64_t identity = kind->whole_identity, least;
    uint64_t most;
    if (!weft_whole_range(type, &least, &most) || type == WEFT_U64) { /* in order as WEFT_I64 */
        return identity;
    }
    return identity < least ? least : identity > (int64_t)most ? (int64_t)most : identity;
}

static void start_results(const job *j, const weft_kernel_call *call)
{
    if (!call->first) {
        weft_load(arithmetic_of(j), j->results, call->output.dtype, weft_view_row(&call->output, 0, NULL), 1,
                  j->count);
        weft_flip_order(j->ordered, j->results, j->count);
        return;
    }
    int64_t identity = whole_identity(j->reduction, call->output.dtype);
    for (int64_t i = 0; i < j->count; i++) {
        if (j->whole) {
            ((int64_t *)j->results)[i] = identity;
        } else {
            ((double *)j->results)[i] = j->reduction->identity;
        }
    }
}

static void store_results(const job *j, const weft_kernel_call *call)
{
    if (call->last && call->scalars[0] != 0 && !j->whole) {
        for (int64_t i = 0; i < j->count; i++) {
            ((double *)j->results)[i] *= call->scalars[0];
        }
    }
    weft_flip_order(j->ordered, j->results, j->count);
    weft_store(call->output.dtype, weft_view_row(&call->output, 0, NULL), 1, arithmetic_of(j), j->results,
               j->count);
}

/* The loops for the input as stored; NULL: none, or values are transformed first. */
static const loops *direct_loops(const job *j, weft_dtype type)
{
    bool as_it_lies = j->reduction != NULL && j->prepare == NULL && j->centre == NULL;
    return !as_it_lies        ? NULL
           : type == WEFT_F32 ? &j->reduction->f32
           : type == WEFT_F64 ? &j->reduction->f64
           : type == WEFT_I64 ? &j->reduction->i64
                              : NULL;
}

/* centre: one for all values (step 0), or one for each (step 1). */
WEFT_CLONES static void scale_block(double *restrict numbers, const double *restrict centre, int64_t step, int64_t n)
{
    if (step == 0) {
        const double factor = *centre;
        for (int64_t i = 0; i < n; i++) { /* vectorised */
            numbers[i] *= factor;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) { /* vectorised */
        numbers[i] *= centre[i];
    }
}

static void centre_block(double *numbers, const double *centre, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        numbers[i] -= centre[i * step];
    }
}

/* Part of a run, in the type of the arithmetic; `place`: its first result. */
static void reduce_block(const job *j, const walker *w, values *block, int64_t place, int64_t n)
{
    if (j->centre != NULL) {
        (j->scales ? scale_block : centre_block)(block->f64, (double *)j->centre + place, w->reduces_last ? 0 : 1, n);
    }
    if (j->prepare != NULL) {
        j->prepare(block->f64, n, w->call->scalars);
    }
    const loops *loop = j->whole ? &j->reduction->i64 : &j->reduction->f64;
    void *results = (char *)j->results + 8 * place;
    if (w->reduces_last) {
        loop->into_one(results, block, n);
    } else {
        loop->into_each(results, block, n, 1, n);
    }
}

static void reduce_run(const job *j, const walker *w, const char *from, int64_t place, int64_t position,
                       int64_t length)
{
    (void)position;
    weft_dtype type = w->call->inputs[0].dtype;
    const loops *direct = direct_loops(j, type);
    if (direct != NULL && w->reduces_last) {
        const size_t size = weft_dtype_size(type);
        for (int64_t first = 0, n; first < length; first += n) {
            n = length - first < WEFT_REDUCED_RUN ? length - first : WEFT_REDUCED_RUN;
            direct->into_one((char *)j->results + 8 * place, from + (size_t)first * size, n);
        }
        return;
    }
    if (direct != NULL) {
        direct->into_each((char *)j->results + 8 * place, from, length, 1, length);
        return;
    }
    for (int64_t first = 0, n; first < length; first += n) {
        values block;
        n = length - first < BLOCK ? length - first : BLOCK;
        weft_load(arithmetic_of(j), &block, type, from + (size_t)first * weft_dtype_size(type), 1, n);
        weft_flip_order(j->ordered, block.i64, n);
        reduce_block(j, w, &block, place + (w->reduces_last ? 0 : first), n);
    }
}

/* `count` consecutive runs with common results: in strips of columns, so that these stay in the nearest
 * cache. */
static void reduce_runs(const job *j, const loops *direct, const walker *w, const char *from, int64_t place,
                        int64_t length, int64_t count)
{
    size_t size = weft_dtype_size(w->call->inputs[0].dtype);
    for (int64_t first = 0, n; first < length; first += n) {
        n = length - first < COLUMNS ? length - first : COLUMNS;
        direct->into_each((char *)j->results + 8 * (place + first), from + (size_t)first * size, n, count,
                          length);
    }
}

/* For inputs with two or more dimensions: number of consecutive runs with common results within `together`
 * contiguous rows. */
static int64_t repeated_runs(const walker *w, int64_t together)
{
    const weft_view *in = &w->call->inputs[0];
    int before_last = in->ndim - 2;
    if (w->reduces_last || w->stride[before_last] != 0) {
        return 1;
    }
    return before_last == 0 ? together : in->extent[before_last];
}

/* Inputs with two or more dimensions, reduced as stored, whose runs have common results. */
static void walk_columns(const job *j, const walker *w, const loops *direct)
{
    const weft_view *in = &w->call->inputs[0];
    int64_t length = in->extent[in->ndim - 1], middle = middle_count(in);
    for (int64_t row = 0, rows; row < in->extent[0]; row += rows) {
        const char *from = weft_view_row(in, row, &rows);
        int64_t count = repeated_runs(w, rows);
        rows = in->ndim == 2 ? count : 1;
        for (int64_t rest = 0; rest < middle; rest += in->ndim == 2 ? 1 : count) {
            reduce_runs(j, direct, w, from, distance(w, w->stride, row, rest), length, count);
            from += (size_t)(count * length) * weft_dtype_size(in->dtype);
        }
    }
}

static void walk_rows(const job *j, const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0];
    walker w = begin(call);
    if (in->ndim <= 1) { /* all contiguous elements are one run */
        for (int64_t row = 0, together; row < weft_view_rows(in); row += together) {
            const char *from = weft_view_row(in, row, &together);
            j->run(j, &w, from, w.reduces_last ? 0 : row, w.origin + row * w.order[0], together);
        }
        return;
    }
    const loops *direct = direct_loops(j, in->dtype);
    if (direct != NULL && !w.reduces_last) {
        walk_columns(j, &w, direct);
        return;
    }
    int64_t length = in->extent[in->ndim - 1], middle = middle_count(in);
    for (int64_t row = 0; row < in->extent[0]; row++) {
        const char *from = weft_view_row(in, row, NULL);
        for (int64_t rest = 0; rest < middle; rest++) {
            j->run(j, &w, from, distance(&w, w.stride, row, rest),
                   w.origin + distance(&w, w.order, row, rest), length);
            from += (size_t)length * weft_dtype_size(in->dtype);
        }
    }
}

/* The whole part of a view in the type of the arithmetic, 8 bytes per element. */
static void load_part(weft_dtype arithmetic, const weft_view *view, char *target)
{
    for (int64_t row = 0, together; row < weft_view_rows(view); row += together) {
        const void *from = weft_view_row(view, row, &together);
        int64_t n = together * view->row_elements;
        weft_load(arithmetic, target, view->dtype, from, 1, n);
        target += 8 * n;
    }
}

static bool is_whole(weft_dtype dtype)
{
    return dtype >= WEFT_I64;
}

static void run_job(const weft_kernel_call *call, const reduction *kind, prepare_function prepare, bool scales)
{
    job j = { .run = reduce_run, .scales = scales,
              .reduction = kind,
              .prepare = prepare,
              .whole = is_whole(call->inputs[0].dtype),
              .ordered = kind == &reduce_max || kind == &reduce_min ? call->inputs[0].dtype : WEFT_I64,
              .count = weft_view_count(&call->output) };
    bool centred = call->num_inputs > 1;
    double few[2 * BLOCK];
    double *memory = j.count <= BLOCK ? few : malloc((size_t)j.count * (centred ? 2 : 1) * sizeof(*memory));
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_RESULTS, 0);
        return;
    }
    j.results = memory;
    j.centre = centred ? memory + j.count : NULL;
    if (centred) {
        load_part(WEFT_F64, &call->inputs[1], j.centre);
    }
    start_results(&j, call);
    if (weft_view_count(&call->inputs[0]) > 0) {
        walk_rows(&j, call);
    }
    store_results(&j, call);
    if (memory != few) {
        free(memory);
    }
}

static void run(const weft_kernel_call *call, const reduction *kind, prepare_function prepare)
{
    run_job(call, kind, prepare, false);
}

/* ---- places ------------------------------------------------------------------------------------------- */

/* Whether value i of a block is the value searched for. */
static bool is_sought(const job *j, const values *block, int64_t i, int64_t result)
{
    if (j->whole) {
        return block->i64[i] == ((int64_t *)j->centre)[result];
    }
    double value = block->f64[i], sought = ((double *)j->centre)[result];
    return value == sought || (value != value && sought != sought);
}

static void find_run(const job *j, const walker *w, const char *from, int64_t place, int64_t position,
                     int64_t length)
{
    weft_dtype type = w->call->inputs[0].dtype;
    int64_t *results = j->results, step = w->reduces_last ? 0 : 1;
    for (int64_t first = 0, n; first < length && (!w->reduces_last || results[place] > position + first); first += n) {
        values block;
        n = length - first < BLOCK ? length - first : BLOCK;
        const char *at_block = from + (size_t)first * weft_dtype_size(type);
        if (w->reduces_last && !weft_may_hold(type, at_block, n, ((double *)j->centre)[place])) {
            continue;
        }
        weft_load(arithmetic_of(j), &block, type, at_block, 1, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t result = place + (first + i) * step, at = position + (w->reduces_last ? first + i : 0);
            if (at < results[result] && is_sought(j, &block, i, result)) {
                results[result] = at;
            }
        }
    }
}

void weft_kernel_place(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    job j = { .run = find_run, .whole = is_whole(call->inputs[0].dtype), .count = weft_view_count(out) };
    int64_t *memory = malloc((2 * (size_t)j.count + 1) * sizeof(*memory));
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_RESULTS, 0);
        return;
    }
    j.results = memory;
    j.centre = memory + j.count;
    load_part(arithmetic_of(&j), &call->inputs[1], j.centre);
    if (!call->first) {
        weft_view_load(out, WEFT_I64, memory);
    }
    for (int64_t i = 0; i < j.count && call->first; i++) {
        memory[i] = INT64_MAX;
    }
    if (weft_view_count(&call->inputs[0]) > 0) {
        walk_rows(&j, call);
    }
    weft_view_store(out, WEFT_I64, memory);
    free(memory);
}

/* The value first, then where it is, while the rows are in the cache. */
static void with_indices(const weft_kernel_call *call, weft_kernel extreme)
{
    weft_kernel_call own = *call;
    own.num_outputs = 1;
    extreme(&own);
    if (call->num_outputs == 1) {
        return; /* its place is not asked for */
    }
    own.num_inputs = 2;
    own.inputs[1] = call->outputs[0];
    own.outputs[0] = call->outputs[1];
    weft_kernel_place(&own);
}

void weft_kernel_max_with_indices(const weft_kernel_call *call)
{
    with_indices(call, weft_kernel_max);
}

void weft_kernel_min_with_indices(const weft_kernel_call *call)
{
    with_indices(call, weft_kernel_min);
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

void weft_kernel_sum(const weft_kernel_call *call)
{
    if (weft_dtype_is_complex(call->inputs[0].dtype)) {
        weft_complex_sum(call, false);
    } else {
        run(call, &reduce_sum, NULL);
    }
}

void weft_kernel_prod(const weft_kernel_call *call)
{
    if (weft_dtype_is_complex(call->inputs[0].dtype)) {
        weft_complex_sum(call, true);
    } else {
        run(call, &reduce_prod, NULL);
    }
}

void weft_kernel_max(const weft_kernel_call *call)
{
    run(call, &reduce_max, NULL);
}

void weft_kernel_min(const weft_kernel_call *call)
{
    run(call, &reduce_min, NULL);
}

void weft_kernel_any(const weft_kernel_call *call)
{
    run(call, &reduce_any, NULL);
}

void weft_kernel_all(const weft_kernel_call *call)
{
    run(call, &reduce_all, NULL);
}

void weft_kernel_sum_abs(const weft_kernel_call *call)
{
    run(call, &reduce_sum_abs, NULL);
}

void weft_kernel_sum_square(const weft_kernel_call *call)
{
    run(call, &reduce_sum_square, NULL);
}

void weft_kernel_max_abs(const weft_kernel_call *call)
{
    run(call, &reduce_max_abs, NULL);
}

void weft_kernel_sum_pow(const weft_kernel_call *call)
{
    run(call, &reduce_sum, power);
}

void weft_kernel_sum_square_difference(const weft_kernel_call *call)
{
    run(call, &reduce_sum_square, NULL);
}

void weft_kernel_sum_square_scaled(const weft_kernel_call *call)
{
    run_job(call, &reduce_sum_square, NULL, true);
}

void weft_kernel_sum_pow_scaled(const weft_kernel_call *call)
{
    run_job(call, &reduce_sum, power, true);
}
