/* Reductions over any dimensions, block by block: a block is a run of the input's last dimension, in the type
 * of the arithmetic. */
#include "codelets/reductions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/convert.h"

enum { BLOCK = 512, LANES = 8 };

/* ---- one reduction ------------------------------------------------------------------------------------- */

/* On `n` contiguous values: into one, or each into its own; and what is done to a value before. */
typedef struct reduction {
    double identity;
    int64_t whole_identity; /* of integers */
    void (*into_one)(double *result, const double *values, int64_t n);
    void (*into_each)(double *results, const double *values, int64_t n);
    void (*whole_into_one)(int64_t *result, const int64_t *values, int64_t n);
    void (*whole_into_each)(int64_t *results, const int64_t *values, int64_t n);
} reduction;

#define LOOPS(name, T, operation)                                                                            \
    WEFT_CLONES static void name##_into_one_##T(T *result, const T *values, int64_t n)                       \
    {                                                                                                        \
        T lanes[LANES];                                                                                      \
        int64_t i = 0;                                                                                       \
        if (n >= LANES) {                                                                                    \
            memcpy(lanes, values, sizeof(lanes));                                                            \
            for (i = LANES; i + LANES <= n; i += LANES) {                                                    \
                for (int lane = 0; lane < LANES; lane++) {                                                   \
                    T a = lanes[lane], b = values[i + lane];                                                 \
                    lanes[lane] = operation;                                                                 \
                }                                                                                            \
            }                                                                                                \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                T a = *result, b = lanes[lane];                                                              \
                *result = operation;                                                                         \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            T a = *result, b = values[i];                                                                    \
            *result = operation;                                                                             \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void name##_into_each_##T(T *results, const T *values, int64_t n)                     \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T a = results[i], b = values[i];                                                                 \
            results[i] = operation;                                                                          \
        }                                                                                                    \
    }
#define REDUCTION(name, identity_, whole_identity_, operation, whole_operation)                              \
    LOOPS(name, double, operation)                                                                           \
    LOOPS(name, int64_t, whole_operation)                                                                    \
    static const reduction reduce_##name = {                                                                 \
        identity_,                                                                                           \
        whole_identity_,                                                                                     \
        name##_into_one_double,                                                                              \
        name##_into_each_double,                                                                             \
        name##_into_one_int64_t,                                                                             \
        name##_into_each_int64_t,                                                                            \
    };

/* Integers wrap around. */
REDUCTION(sum, 0, 0, a + b, (int64_t)((uint64_t)a + (uint64_t)b))
REDUCTION(prod, 1, 1, a *b, (int64_t)((uint64_t)a *(uint64_t)b))
REDUCTION(max, -INFINITY, INT64_MIN, (a != a || a > b ? a : b), (a > b ? a : b))
REDUCTION(min, INFINITY, INT64_MAX, (a != a || a < b ? a : b), (a < b ? a : b))
REDUCTION(any, 0, 0, (a != 0 || b != 0), (a != 0 || b != 0))
REDUCTION(all, 1, 1, (a != 0 && b != 0), (a != 0 && b != 0))

/* ---- what is done to the values before ----------------------------------------------------------------- */

typedef void (*prepare_function)(double *values, int64_t n, const double *scalars);

WEFT_CLONES static void absolute(double *values, int64_t n, const double *scalars)
{
    (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        values[i] = fabs(values[i]);
    }
}

WEFT_CLONES static void square(double *values, int64_t n, const double *scalars)
{
    (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        values[i] *= values[i];
    }
}

static void power(double *values, int64_t n, const double *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        values[i] = pow(fabs(values[i]), scalars[1]);
    }
}

/* ---- index space --------------------------------------------------------------------------------------- */

/* From the input's index to the output's element. */
typedef struct walker {
    const weft_kernel_call *call;
    bool reduces_last;
    int64_t stride[WEFT_MAX_DIMS]; /* of the output in the input's dimensions, in elements; 0 where reduced */
    /* The same of the row-major order of the reduced dimensions, in the whole tensor; 0 where not reduced. */
    int64_t order[WEFT_MAX_DIMS];
    int64_t origin; /* the place of the input's first element in that order */
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

/* How far input element (row, rest, 0) is from the first one, in strides; rest: row-major over the dimensions
 * between the first and the last. */
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

/* What is done with `length` elements of the last dimension that lie at `from`. place: of their first result;
 * position: of the first element in the order of what is reduced. */
typedef void (*run_function)(const job *j, const walker *w, const char *from, int64_t place, int64_t position,
                             int64_t length);

struct job {
    run_function run;
    const reduction *reduction;
    prepare_function prepare;
    bool whole;    /* integers and truth values */
    void *results; /* in the type of the arithmetic, or places: one for each element of the output's part */
    /* One for each result, or NULL: what is taken from the values; or, in the type of the arithmetic, what is
     * sought. */
    void *centre;
    int64_t count; /* of results */
};

static weft_dtype arithmetic_of(const job *j)
{
    return j->whole ? WEFT_I64 : WEFT_F64;
}

/* The identity among the values that the type has: it is the result where there is nothing to reduce. */
static int64_t whole_identity(const reduction *kind, weft_dtype type)
{
    int64_t least = type == WEFT_I64 ? INT64_MIN : type == WEFT_I32 ? INT32_MIN : 0;
    int64_t most = type == WEFT_I64   ? INT64_MAX
                   : type == WEFT_I32 ? INT32_MAX
                   : type == WEFT_U8  ? UINT8_MAX
                                      : 1;
    int64_t identity = kind->whole_identity;
    return identity < least ? least : identity > most ? most : identity;
}

static void start_results(const job *j, const weft_kernel_call *call)
{
    if (!call->first) {
        weft_load(arithmetic_of(j), j->results, call->output.dtype, weft_view_row(&call->output, 0, NULL), 1,
                  j->count);
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
    weft_store(call->output.dtype, weft_view_row(&call->output, 0, NULL), 1, arithmetic_of(j), j->results,
               j->count);
}

/* One run of the last dimension, from element `first` on. */
static void reduce_block(const job *j, const walker *w, values *block, int64_t place, int64_t first,
                         int64_t n)
{
    place += w->reduces_last ? 0 : first;
    for (int64_t i = 0; j->centre != NULL && i < n; i++) {
        block->f64[i] -= ((double *)j->centre)[place + (w->reduces_last ? 0 : i)];
    }
    if (j->prepare != NULL) {
        j->prepare(block->f64, n, w->call->scalars);
    }
    if (j->whole) {
        int64_t *results = (int64_t *)j->results + place;
        (w->reduces_last ? j->reduction->whole_into_one : j->reduction->whole_into_each)(results, block->i64,
                                                                                         n);
    } else {
        double *results = (double *)j->results + place;
        (w->reduces_last ? j->reduction->into_one : j->reduction->into_each)(results, block->f64, n);
    }
}

static void reduce_run(const job *j, const walker *w, const char *from, int64_t place, int64_t position,
                       int64_t length)
{
    (void)position;
    weft_dtype type = w->call->inputs[0].dtype;
    for (int64_t first = 0, n; first < length; first += n) {
        values block;
        n = length - first < BLOCK ? length - first : BLOCK;
        weft_load(arithmetic_of(j), &block, type, from + (size_t)first * weft_dtype_size(type), 1, n);
        reduce_block(j, w, &block, place, first, n);
    }
}

static void walk_rows(const job *j, const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0];
    walker w = begin(call);
    if (in->ndim <= 1) { /* as many elements as lie together are one run */
        for (int64_t row = 0, together; row < weft_view_rows(in); row += together) {
            const char *from = weft_view_row(in, row, &together);
            j->run(j, &w, from, w.reduces_last ? 0 : row, w.origin + row * w.order[0], together);
        }
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

/* The whole part of a view in the type of the arithmetic, each element of which has 8 bytes. */
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

static void run(const weft_kernel_call *call, const reduction *kind, prepare_function prepare)
{
    job j = { .run = reduce_run,
              .reduction = kind,
              .prepare = prepare,
              .whole = is_whole(call->inputs[0].dtype),
              .count = weft_view_count(&call->output) };
    bool centred = call->num_inputs > 1;
    double few[2 * BLOCK];
    double *memory = j.count <= BLOCK ? few : malloc((size_t)j.count * (centred ? 2 : 1) * sizeof(*memory));
    if (memory == NULL) {
        weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory for the results of a task");
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

/* ---- places ------------------------------------------------------------------------------------------- */

/* Whether value i of a block is the one that is sought for a result. */
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
    for (int64_t first = 0, n; first < length; first += n) {
        values block;
        n = length - first < BLOCK ? length - first : BLOCK;
        if (w->reduces_last && results[place] <= position + first) {
            return;
        }
        weft_load(arithmetic_of(j), &block, type, from + (size_t)first * weft_dtype_size(type), 1, n);
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
    int64_t *memory = malloc(2 * (size_t)j.count * sizeof(*memory)), *target = weft_view_row(out, 0, NULL);
    if (memory == NULL) {
        weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory for the results of a task");
        memset(target, 0, (size_t)j.count * sizeof(*target));
        return;
    }
    j.results = memory;
    j.centre = memory + j.count;
    load_part(arithmetic_of(&j), &call->inputs[1], j.centre);
    for (int64_t i = 0; i < j.count; i++) {
        memory[i] = call->first ? INT64_MAX : target[i];
    }
    if (weft_view_count(&call->inputs[0]) > 0) {
        walk_rows(&j, call);
    }
    memcpy(target, memory, (size_t)j.count * sizeof(*target));
    free(memory);
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

void weft_kernel_sum(const weft_kernel_call *call)
{
    run(call, &reduce_sum, NULL);
}

void weft_kernel_prod(const weft_kernel_call *call)
{
    run(call, &reduce_prod, NULL);
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
    run(call, &reduce_sum, absolute);
}

void weft_kernel_sum_square(const weft_kernel_call *call)
{
    run(call, &reduce_sum, square);
}

void weft_kernel_max_abs(const weft_kernel_call *call)
{
    run(call, &reduce_max, absolute);
}

void weft_kernel_sum_pow(const weft_kernel_call *call)
{
    run(call, &reduce_sum, power);
}

void weft_kernel_sum_square_difference(const weft_kernel_call *call)
{
    run(call, &reduce_sum, square);
}
