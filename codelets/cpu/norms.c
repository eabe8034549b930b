#include "codelets/norms.h"

#include <math.h>
#include <stdlib.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/line_sums.h"
#include "codelets/cpu/vectors.h"

/* ---- one call ------------------------------------------------------------------------------------------ */

/* buffers of a vector's length */
enum { A, GRADIENT, TARGET, GAIN, BIAS, BUFFERS };

typedef struct job {
    const weft_kernel_call *call;
    weft_dtype type; /* of the arithmetic */
    weft_vectors a, gradient;
    double size; /* elements of a whole vector */
    bool centred;
    double epsilon;
    const weft_view *mean, *variance, *sums; /* of sharded vectors, or NULL */
    const void *gain, *bias;                 /* in the type of the arithmetic, or NULL */
    char *memory;
    size_t line;
} job;

static void *buffer(const job *j, int which)
{
    return j->memory + (size_t)which * j->line;
}

/* The next input as an array, if the call has this part. */
static const void *load_part(const job *j, int64_t part, int which, int *next)
{
    if (!(j->call->numbers[WEFT_NORM_PARTS] & part)) {
        return NULL;
    }
    weft_view_load(&j->call->inputs[(*next)++], j->type, buffer(j, which));
    return buffer(j, which);
}

/* False, and reported: no memory. */
static bool begin(job *j, const weft_kernel_call *call, int num_tensors)
{
    const weft_view *a = &call->inputs[0];
    int first = (int)call->numbers[WEFT_NORM_FIRST], last = a->ndim - 1, next = num_tensors;
    *j = (job){ .call = call,
                .type = weft_float_arithmetic(a->dtype),
                .a = weft_vectors_along(a, first, last),
                .size = 1,
                .centred = call->numbers[WEFT_NORM_CENTRED],
                .epsilon = call->scalars[0] };
    for (int d = first; d <= last; d++) {
        j->size *= (double)a->shape[d];
    }
    if (num_tensors > 1) {
        j->gradient = weft_vectors_along(&call->inputs[1], first, last);
    }
    j->line = (size_t)j->a.length * weft_dtype_size(j->type);
    j->memory = malloc(BUFFERS * j->line + 1);
    if (j->memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_VECTOR, 0);
        return false;
    }
    if (call->numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_STATISTICS) {
        j->mean = j->centred ? &call->inputs[next++] : NULL;
        j->variance = &call->inputs[next++];
    }
    j->sums = call->numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_SUMS ? &call->inputs[next++] : NULL;
    j->gain = load_part(j, WEFT_NORM_HAS_GAIN, GAIN, &next);
    j->bias = load_part(j, WEFT_NORM_HAS_BIAS, BIAS, &next);
    return true;
}

/* normal(x) = (x - mean) inverse */
typedef struct statistics {
    double mean, inverse;
} statistics;

static statistics statistics_of(const job *j, int64_t vector, const void *a)
{
    statistics s = { .mean = 0 };
    double variance;
    if (j->variance != NULL) {
        s.mean = j->mean != NULL ? weft_view_value(j->mean, vector) : 0;
        variance = weft_view_value(j->variance, vector);
    } else {
        s.mean = j->centred ? weft_line_sum(j->type, a, j->a.length) / j->size : 0;
        variance = weft_line_sum_square(j->type, a, s.mean, j->a.length) / j->size;
    }
    bool kept = j->call->numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_RSTD;
    s.inverse = kept ? variance : 1 / sqrt(variance + j->epsilon);
    return s;
}

/* ---- loops --------------------------------------------------------------------------------------------- */

/* The mean is subtracted in two parts, to keep its low bits in single precision. */
#define NORMAL(T, x) ((((x)-mean) - (T)rest) * inverse)
#define SPLIT(T)                                                                                             \
    const T mean = (T)s->mean, inverse = (T)s->inverse;                                                      \
    const double rest = s->mean - (double)mean;
#define LOOPS(T)                                                                                             \
    WEFT_CLONES static void normalise_##T(T *out, const T *a, const statistics *s, const T *gain,            \
                                          const T *bias, int64_t n)                                          \
    {                                                                                                        \
        SPLIT(T)                                                                                             \
        if (s->mean == 0 && gain != NULL && bias == NULL) { /* rms_norm: the same bits */                    \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] * inverse * gain[i];                                                           \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (gain != NULL && bias != NULL) {                                                                  \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = NORMAL(T, a[i]) * gain[i] + bias[i];                                                \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = NORMAL(T, a[i]);                                                                        \
        }                                                                                                    \
        if (gain != NULL) {                                                                                  \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] *= gain[i];                                                                           \
            }                                                                                                \
        }                                                                                                    \
        if (bias != NULL) {                                                                                  \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] += bias[i];                                                                           \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void multiply_##T(T *out, const T *a, const T *b, int64_t n)                          \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = a[i] * b[i];                                                                            \
        }                                                                                                    \
    }                                                                                                        \
    /* `normal` is in out */                                                                              \
    WEFT_CLONES static void project_##T(T *out, const T *gradient, T inverse, T mean, T slope, int64_t n)    \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = inverse * ((gradient[i] - mean) - out[i] * slope);                                      \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void add_##T(double *totals, const T *a, const T *b, int64_t n)                       \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            totals[i] += (double)a[i] * (double)b[i];                                                        \
        }                                                                                                    \
    }

LOOPS(float)
LOOPS(double)

/* out = normal(a), times the gain and plus the bias if given. */
static void normalise(const job *j, void *out, const void *a, const statistics *s, const void *gain,
                      const void *bias)
{
    if (j->type == WEFT_F64) {
        normalise_double(out, a, s, gain, bias, j->a.length);
    } else {
        normalise_float(out, a, s, gain, bias, j->a.length);
    }
}

/* The result's gradient times the gain. */
static const void *weighted_gradient(const job *j, int64_t vector)
{
    const void *gradient = weft_vector_load(&j->gradient, j->type, vector, buffer(j, GRADIENT));
    if (j->gain == NULL) {
        return gradient;
    }
    if (j->type == WEFT_F64) {
        multiply_double(buffer(j, GRADIENT), gradient, j->gain, j->a.length);
    } else {
        multiply_float(buffer(j, GRADIENT), gradient, j->gain, j->a.length);
    }
    return buffer(j, GRADIENT);
}

/* ---- the kernels --------------------------------------------------------------------------------------- */

enum { KEPT = 64 };

/* Statistics of the last vectors, which are stored together. */
typedef struct kept_statistics {
    int64_t count;
    double inverse[KEPT], mean[KEPT];
} kept_statistics;

/* `vector`: that of the statistics, of `count`. */
static void store_statistics(const weft_kernel_call *call, kept_statistics *kept, int64_t vector, int64_t count,
                             const statistics *s)
{
    kept->inverse[kept->count] = s->inverse;
    kept->mean[kept->count++] = s->mean;
    if (kept->count < KEPT && vector + 1 < count) {
        return;
    }
    if (call->num_outputs > 1) {
        weft_view_store_part(&call->outputs[1], WEFT_F64, vector + 1 - kept->count, kept->count, kept->inverse);
    }
    if (call->num_outputs > 2) {
        weft_view_store_part(&call->outputs[2], WEFT_F64, vector + 1 - kept->count, kept->count, kept->mean);
    }
    kept->count = 0;
}

void weft_kernel_norm(const weft_kernel_call *call)
{
    job j;
    if (!begin(&j, call, 1)) {
        return;
    }
    weft_vectors out =
        weft_vectors_along(&call->output, (int)call->numbers[WEFT_NORM_FIRST], call->output.ndim - 1);
    kept_statistics kept = { .count = 0 };
    for (int64_t v = 0; v < out.count; v++) {
        if (out.length == 0) {
            store_statistics(call, &kept, v, out.count, &(statistics){ NAN, NAN });
            continue;
        }
        const void *a = weft_vector_load(&j.a, j.type, v, buffer(&j, A));
        void *target = weft_vector_target(&out, j.type, v, buffer(&j, TARGET));
        statistics s = statistics_of(&j, v, a);
        normalise(&j, target, a, &s, j.gain, j.bias);
        weft_vector_store(&out, j.type, v, target);
        store_statistics(call, &kept, v, out.count, &s);
    }
    free(j.memory);
}

void weft_kernel_norm_backward(const weft_kernel_call *call)
{
    job j;
    if (!begin(&j, call, 2)) {
        return;
    }
    weft_vectors out =
        weft_vectors_along(&call->output, (int)call->numbers[WEFT_NORM_FIRST], call->output.ndim - 1);
    for (int64_t v = 0; v < out.count; v++) {
        const void *a = weft_vector_load(&j.a, j.type, v, buffer(&j, A)),
                   *gradient = weighted_gradient(&j, v);
        void *target = weft_vector_target(&out, j.type, v, buffer(&j, TARGET));
        statistics s = statistics_of(&j, v, a);
        normalise(&j, target, a, &s, NULL, NULL);
        double sum =
            j.sums != NULL ? weft_view_value(j.sums, 2 * v) : weft_line_sum(j.type, gradient, out.length);
        double product = j.sums != NULL ? weft_view_value(j.sums, 2 * v + 1)
                                        : weft_line_sum_product(j.type, gradient, target, out.length);
        double mean = j.centred ? sum / j.size : 0;
        if (j.type == WEFT_F64) {
            project_double(target, gradient, s.inverse, mean, product / j.size, out.length);
        } else {
            project_float(target, gradient, (float)s.inverse, (float)mean, (float)(product / j.size),
                          out.length);
        }
        weft_vector_store(&out, j.type, v, target);
    }
    free(j.memory);
}

void weft_kernel_norm_sums(const weft_kernel_call *call)
{
    job j;
    if (!begin(&j, call, 2)) {
        return;
    }
    int64_t vectors = weft_view_count(&call->output) / 2;
    for (int64_t v = 0; v < vectors; v++) {
        double sum = call->first ? 0 : weft_view_value(&call->output, 2 * v);
        double product = call->first ? 0 : weft_view_value(&call->output, 2 * v + 1);
        if (j.a.length > 0) {
            const void *a = weft_vector_load(&j.a, j.type, v, buffer(&j, A)),
                       *gradient = weighted_gradient(&j, v);
            statistics s = statistics_of(&j, v, a);
            normalise(&j, buffer(&j, TARGET), a, &s, NULL, NULL);
            sum += weft_line_sum(j.type, gradient, j.a.length);
            product += weft_line_sum_product(j.type, gradient, buffer(&j, TARGET), j.a.length);
        }
        weft_view_set(&call->output, 2 * v, sum);
        weft_view_set(&call->output, 2 * v + 1, product);
    }
    free(j.memory);
}

static void add_gains(const job *j, double *totals)
{
    for (int64_t v = 0; v < j->a.count; v++) {
        const void *a = weft_vector_load(&j->a, j->type, v, buffer(j, A));
        const void *gradient = weft_vector_load(&j->gradient, j->type, v, buffer(j, GRADIENT));
        statistics s = statistics_of(j, v, a);
        normalise(j, buffer(j, TARGET), a, &s, NULL, NULL);
        if (j->type == WEFT_F64) {
            add_double(totals, gradient, buffer(j, TARGET), j->a.length);
        } else {
            add_float(totals, gradient, buffer(j, TARGET), j->a.length);
        }
    }
}

void weft_kernel_norm_gain_backward(const weft_kernel_call *call)
{
    job j;
    if (!begin(&j, call, 2)) {
        return;
    }
    double *totals = calloc((size_t)weft_view_count(&call->output) + 1, sizeof(*totals));
    if (totals == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_VECTOR, 0);
    } else {
        if (!call->first) {
            weft_view_load(&call->output, WEFT_F64, totals);
        }
        if (weft_view_count(&call->inputs[0]) > 0) {
            add_gains(&j, totals);
        }
        weft_view_store(&call->output, WEFT_F64, totals);
    }
    free(totals);
    free(j.memory);
}
