/* Rotary position embedding: a small table of cosines and sines for some positions, used for all vectors at these. */
#include "codelets/rotary.h"

#include <math.h>

#include "codelets/cpu/clones.h"
#include "codelets/convert.h"

/* Positions from a multiple of POSITIONS on, and pairs of elements, of one table: it stays in the first-level cache. */
enum { POSITIONS = WEFT_ROTARY_POSITIONS, PAIRS = 64 };

typedef union line {
    double f64[PAIRS];
    float f32[PAIRS];
} line;

typedef struct job {
    const weft_kernel_call *call;
    weft_dtype type, arithmetic;
    int64_t width;     /* d */
    int64_t positions; /* of this part */
    int64_t first;     /* position of the part's first vectors */
    int64_t vectors;   /* for each position in one row of dimension 0; with two dimensions 1 */
    int64_t outer;     /* vectors for each position */
    int64_t pair, num_pairs; /* of the present table */
    double step_cosine[PAIRS], step_sine[PAIRS], frequency[PAIRS];
    line cosine[POSITIONS], sine[POSITIONS];
} job;

#define ROTATE(T)                                                                                            \
    WEFT_CLONES static void rotate_##T(T *restrict y, T *restrict z, const T *a, const T *b, const T *cosine, \
                                       const T *sine, int64_t n)                                             \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            y[i] = a[i] * cosine[i] - b[i] * sine[i];                                                        \
            z[i] = b[i] * cosine[i] + a[i] * sine[i];                                                        \
        }                                                                                                    \
    }

ROTATE(float)
ROTATE(double)

/* ---- the table ------------------------------------------------------------------------------------------- */

static void start_pairs(job *j, int64_t pair)
{
    double theta = j->call->scalars[WEFT_ROTARY_THETA];
    j->pair = pair;
    j->num_pairs = j->width / 2 - pair < PAIRS ? j->width / 2 - pair : PAIRS;
    for (int64_t i = 0; i < j->num_pairs; i++) {
        j->frequency[i] = pow(theta, -2.0 * (double)(pair + i) / (double)j->width);
        j->step_cosine[i] = cos(j->frequency[i]);
        j->step_sine[i] = sin(j->frequency[i]);
    }
}

/* The angles of one position further. */
WEFT_CLONES static void advance(double *restrict cosine, double *restrict sine, const double *step_cosine,
                                const double *step_sine, int64_t n)
{
    for (int64_t i = 0; i < n; i++) { /* vectorised */
        double c = cosine[i], s = sine[i];
        cosine[i] = c * step_cosine[i] - s * step_sine[i];
        sine[i] = s * step_cosine[i] + c * step_sine[i];
    }
}

static void store_line(const job *j, line *to, const double *values, double sign)
{
    for (int64_t i = 0; i < j->num_pairs; i++) {
        if (j->arithmetic == WEFT_F64) {
            to->f64[i] = sign * values[i];
        } else {
            to->f32[i] = (float)(sign * values[i]);
        }
    }
}

static void fill_table(job *j, int64_t first)
{
    double cosine[PAIRS], sine[PAIRS], sign = j->call->scalars[WEFT_ROTARY_SIGN];
    for (int64_t i = 0; i < j->num_pairs; i++) {
        double angle = (double)first * j->frequency[i];
        cosine[i] = cos(angle);
        sine[i] = sin(angle);
    }
    for (int p = 0; p < POSITIONS; p++) {
        store_line(j, &j->cosine[p], cosine, 1);
        store_line(j, &j->sine[p], sine, sign);
        advance(cosine, sine, j->step_cosine, j->step_sine, j->num_pairs);
    }
}

/* ---- vectors --------------------------------------------------------------------------------------------- */

/* Vector number `outer` at a position (local); *together gets the number of vectors at the next positions after it. */
static char *vector_at(const job *j, const weft_view *view, int64_t outer, int64_t position, int64_t *together)
{
    if (view->ndim == 2) {
        return weft_view_row(view, position, together);
    }
    *together = j->positions - position;
    int64_t place = (outer % j->vectors * j->positions + position) * j->width;
    return (char *)weft_view_row(view, outer / j->vectors, NULL) + (size_t)place * weft_dtype_size(view->dtype);
}

/* The pairs of the present table in one vector. */
static void rotate(const job *j, char *to, const char *from, int entry)
{
    size_t size = weft_dtype_size(j->type), half = (size_t)(j->width / 2) * size;
    int64_t n = j->num_pairs;
    char *y = to + (size_t)j->pair * size, *z = y + half;
    const char *a = from + (size_t)j->pair * size, *b = a + half;
    const line *cosine = &j->cosine[entry], *sine = &j->sine[entry];
    if (j->arithmetic == WEFT_F64) {
        rotate_double((double *)y, (double *)z, (const double *)a, (const double *)b, cosine->f64, sine->f64, n);
    } else if (j->type == WEFT_F32) {
        rotate_float((float *)y, (float *)z, (const float *)a, (const float *)b, cosine->f32, sine->f32, n);
    } else {
        float in[2][PAIRS], out[2][PAIRS];
        weft_load(WEFT_F32, in[0], j->type, a, 1, n);
        weft_load(WEFT_F32, in[1], j->type, b, 1, n);
        rotate_float(out[0], out[1], in[0], in[1], cosine->f32, sine->f32, n);
        weft_store(j->type, y, 1, WEFT_F32, out[0], n);
        weft_store(j->type, z, 1, WEFT_F32, out[1], n);
    }
}

/* All vectors at positions [position, end), which one table has from `entry` on. */
static void rotate_positions(const job *j, int64_t position, int64_t end, int entry)
{
    size_t bytes = (size_t)j->width * weft_dtype_size(j->type);
    for (int64_t outer = 0; outer < j->outer; outer++) {
        for (int64_t p = position, n; p < end; p += n) {
            int64_t in_together, out_together;
            const char *from = vector_at(j, &j->call->inputs[0], outer, p, &in_together);
            char *to = vector_at(j, &j->call->output, outer, p, &out_together);
            n = in_together < out_together ? in_together : out_together;
            n = n < end - p ? n : end - p;
            for (int64_t i = 0; i < n; i++) {
                rotate(j, to + (size_t)i * bytes, from + (size_t)i * bytes, entry + (int)(p - position + i));
            }
        }
    }
}

void weft_kernel_rotary(const weft_kernel_call *call)
{
    const weft_view *output = &call->output;
    int dim = output->ndim - 2;
    job j = { .call = call,
              .type = output->dtype,
              .arithmetic = output->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32,
              .width = output->extent[dim + 1],
              .positions = output->extent[dim],
              .first = (int64_t)call->scalars[WEFT_ROTARY_FIRST] + output->offset[dim],
              .vectors = 1 };
    for (int d = 1; d < dim; d++) {
        j.vectors *= output->extent[d];
    }
    j.outer = dim == 0 ? 1 : weft_view_rows(output) * j.vectors;
    for (int64_t pair = 0; j.outer > 0 && pair < j.width / 2; pair += PAIRS) {
        start_pairs(&j, pair);
        for (int64_t p = 0, n; p < j.positions; p += n) {
            int entry = (int)((j.first + p) % POSITIONS);
            n = POSITIONS - entry < j.positions - p ? POSITIONS - entry : j.positions - p;
            fill_table(&j, j.first + p - entry);
            rotate_positions(&j, p, p + n, entry);
        }
    }
}
