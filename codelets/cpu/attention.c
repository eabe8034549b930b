/* Attention: blocks of rows, for each of which blocks of keys in their order. */
#include "codelets/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/convert.h"
#include "codelets/cpu/half.h"
#include "codelets/linear.h"

enum { ROWS = 64, KEYS = 128, LANES = 16 };

/* ---- exponentials -------------------------------------------------------------------------------------- */

/* Of x <= 0, to about two units in the last place; 0 below -87, where floats end. exp(x) = 2^n exp(r), |r| <=
 * ln(2) / 2; no branches and no calls, so that loops over it are vectorised. */
static inline float exponential(float x)
{
    const float magic = 12582912; /* 1.5 * 2^23: a float that large has no fraction, its last bits are n */
    float shifted = x * 1.44269504f + magic, n = shifted - magic;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1;
    float power = weft_float_of_bits((weft_bits_of_float(shifted) << 23) + (127u << 23));
    return x < -87 ? 0 : p * power;
}

/* ---- rows of scores ------------------------------------------------------------------------------------ */

#define ROW_FUNCTIONS(T, EXP)                                                                                \
    WEFT_CLONES static T largest_##T(const T *row, int64_t n, T start)                                       \
    {                                                                                                        \
        T lanes[LANES];                                                                                      \
        int64_t i = 0;                                                                                       \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            lanes[lane] = start;                                                                             \
        }                                                                                                    \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                lanes[lane] = row[i + lane] > lanes[lane] ? row[i + lane] : lanes[lane];                     \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            start = row[i] > start ? row[i] : start;                                                         \
        }                                                                                                    \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            start = lanes[lane] > start ? lanes[lane] : start;                                               \
        }                                                                                                    \
        return start;                                                                                        \
    }                                                                                                        \
    /* row = exp(row - most); returns its sum. */                                                            \
    WEFT_CLONES static T exponentials_##T(T *row, int64_t n, T most)                                         \
    {                                                                                                        \
        T lanes[LANES] = { 0 }, sum = 0;                                                                     \
        int64_t i = 0;                                                                                       \
        for (int64_t j = 0; j < n; j++) {                                                                    \
            row[j] = EXP(row[j] - most);                                                                     \
        }                                                                                                    \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                lanes[lane] += row[i + lane];                                                                \
            }                                                                                                \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            sum += row[i];                                                                                   \
        }                                                                                                    \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            sum += lanes[lane];                                                                              \
        }                                                                                                    \
        return sum;                                                                                          \
    }                                                                                                        \
    WEFT_CLONES static void scale_##T(T *row, int64_t n, T factor)                                           \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            row[i] *= factor;                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void add_##T(T *row, const T *addend, int64_t n)                                      \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            row[i] += addend[i];                                                                             \
        }                                                                                                    \
    }                                                                                                        \
    /* Takes a row's next scores into account: they become weights, what was added up before is scaled. */   \
    static void take_scores_##T(T *scores, int64_t n, T *most, T *sum, T *result, int64_t width)             \
    {                                                                                                        \
        T now = largest_##T(scores, n, *most);                                                               \
        if (now == -(T)INFINITY) { /* no key yet; but NaN is no key less */                                  \
            T bad = exponentials_##T(scores, n, 0);                                                          \
            *sum += bad;                                                                                     \
            return;                                                                                          \
        }                                                                                                    \
        T factor = *most == -(T)INFINITY ? (*sum == *sum ? 0 : (T)NAN) : EXP(*most - now);                   \
        *sum = *sum * factor + exponentials_##T(scores, n, now);                                             \
        if (factor != 1) {                                                                                   \
            scale_##T(result, width, factor);                                                                \
        }                                                                                                    \
        *most = now;                                                                                         \
    }

ROW_FUNCTIONS(float, exponential)
ROW_FUNCTIONS(double, exp)

/* ---- parts of tensors ---------------------------------------------------------------------------------- */

/* All that a task works with. Memory for blocks, in the type of the arithmetic. */
typedef struct job {
    const weft_kernel_call *call;
    const weft_view *q, *k, *v, *mask, *output; /* mask: NULL, or one */
    weft_dtype type;
    size_t size;
    int batch_dims;                  /* of the output */
    int64_t index[WEFT_MAX_DIMS];    /* global, in the output's batch */
    int64_t keys, depth, width;      /* t, e, f of this rank */
    char *queries, *block, *values;  /* ROWS x depth, KEYS x depth, KEYS x width */
    char *scores, *result, *addends; /* ROWS x KEYS, ROWS x width, KEYS */
    char *most, *sum;                /* ROWS */
} job;

/* Local number in dimension `d` of what the output has as number `index` of its dimension `own`. */
static int64_t local_index(const job *j, const weft_view *view, int d, int own, int64_t index)
{
    return view->shape[d] == 1 && j->output->shape[own] != 1 ? 0 : index - view->offset[d];
}

/* Where row `row` (local, of the last dimension but one) of the present batch index begins; *together gets
 * how many lie one after another. The view has at least two dimensions. */
static char *row_at(const job *j, const weft_view *view, int64_t row, int64_t *together)
{
    int dims = view->ndim - 2;
    if (dims == 0) {
        return weft_view_row(view, row, together);
    }
    int64_t place = 0, first = 0;
    for (int d = 0; d < dims; d++) {
        int own = j->batch_dims - dims + d;
        int64_t local = local_index(j, view, d, own, j->index[own]);
        first = d == 0 ? local : first;
        place = d == 0 ? 0 : place * view->extent[d] + local;
    }
    *together = view->extent[dims] - row;
    place = (place * view->extent[dims] + row) * view->extent[dims + 1];
    return (char *)weft_view_row(view, first, NULL) + place * (int64_t)weft_dtype_size(view->dtype);
}

/* `count` rows from local row `first` on, one after another in the type of the arithmetic. */
static void load_rows(const job *j, const weft_view *view, int64_t first, int64_t count, char *target)
{
    int64_t width = view->extent[view->ndim - 1];
    for (int64_t row = 0, together; row < count; row += together) {
        const char *from = row_at(j, view, first + row, &together);
        together = together < count - row ? together : count - row;
        weft_load(j->type, target + (size_t)(row * width) * j->size, view->dtype, from, 1, together * width);
    }
}

/* What the mask adds to the scores of a row (global) for some keys, in j->addends. */
static void load_mask(const job *j, int64_t row, int64_t first, int64_t count)
{
    const weft_view *mask = j->mask;
    bool repeats = mask->ndim > 0 && mask->shape[mask->ndim - 1] == 1 && j->keys != 1;
    if (mask->ndim == 1 && !repeats) {
        for (int64_t i = 0, together; i < count; i += together) {
            const void *from = weft_view_row(mask, first + i, &together);
            together = together < count - i ? together : count - i;
            weft_load(j->type, j->addends + (size_t)i * j->size, mask->dtype, from, 1, together);
        }
    } else {
        int64_t together;
        int own = j->output->ndim - 2;
        const char *from = mask->ndim < 2
                               ? weft_view_row(mask, 0, NULL)
                               : row_at(j, mask, local_index(j, mask, mask->ndim - 2, own, row), &together);
        from += repeats ? 0 : (size_t)(mask->ndim == 0 ? 0 : first) * weft_dtype_size(mask->dtype);
        weft_load(j->type, j->addends, mask->dtype, from, mask->ndim > 0 && !repeats, count);
    }
    for (int64_t i = 0; mask->dtype == WEFT_BOOL && i < count; i++) {
        if (j->type == WEFT_F64) {
            ((double *)j->addends)[i] = ((double *)j->addends)[i] != 0 ? 0 : -INFINITY;
        } else {
            ((float *)j->addends)[i] = ((float *)j->addends)[i] != 0 ? 0 : -INFINITY;
        }
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* Of these keys, those that row `row` (global) may see. */
static int64_t visible(const job *j, int64_t row, int64_t first, int64_t count)
{
    if (!j->call->numbers[0] || row >= first + count) {
        return count;
    }
    return row < first ? 0 : row - first + 1;
}

static void take_row(const job *j, int64_t i, int64_t row, int64_t first, int64_t count)
{
    int64_t seen = visible(j, row, first, count);
    char *scores = j->scores + (size_t)(i * count) * j->size;
    if (j->mask != NULL) {
        load_mask(j, row, first, count);
    }
    if (j->type == WEFT_F64) {
        double *s = (double *)scores;
        if (j->mask != NULL) {
            add_double(s, (const double *)j->addends, count);
        }
        for (int64_t x = seen; x < count; x++) {
            s[x] = -INFINITY;
        }
        take_scores_double(s, count, (double *)j->most + i, (double *)j->sum + i,
                           (double *)j->result + i * j->width, j->width);
    } else {
        float *s = (float *)scores;
        if (j->mask != NULL) {
            add_float(s, (const float *)j->addends, count);
        }
        for (int64_t x = seen; x < count; x++) {
            s[x] = -INFINITY;
        }
        take_scores_float(s, count, (float *)j->most + i, (float *)j->sum + i,
                          (float *)j->result + i * j->width, j->width);
    }
}

static void take_keys(const job *j, int64_t row, int64_t rows, int64_t first, int64_t count)
{
    load_rows(j, j->k, first, count, j->block);
    load_rows(j, j->v, first, count, j->values);
    weft_gemm scores = { .dtype = j->type,
                         .transpose_b = true,
                         .m = rows,
                         .n = count,
                         .k = j->depth,
                         .lda = j->depth > 0 ? j->depth : 1,
                         .ldb = j->depth > 0 ? j->depth : 1,
                         .ldc = count,
                         .alpha = j->call->scalars[0] };
    weft_multiply(&scores, j->queries, j->block, j->scores);
    for (int64_t i = 0; i < rows; i++) {
        take_row(j, i, row + i, first, count);
    }
    weft_gemm sums = { .dtype = j->type,
                       .m = rows,
                       .n = j->width,
                       .k = count,
                       .lda = count,
                       .ldb = j->width,
                       .ldc = j->width,
                       .alpha = 1,
                       .beta = 1 };
    weft_multiply(&sums, j->scores, j->values, j->result);
}

static void start_rows(const job *j, int64_t rows)
{
    memset(j->result, 0, (size_t)(rows * j->width) * j->size);
    memset(j->sum, 0, (size_t)rows * j->size);
    for (int64_t i = 0; i < rows; i++) {
        if (j->type == WEFT_F64) {
            ((double *)j->most)[i] = -INFINITY;
        } else {
            ((float *)j->most)[i] = -INFINITY;
        }
    }
}

/* Divides by the sums; a row that has seen nothing is 0. */
static void store_rows(const job *j, int64_t first, int64_t rows)
{
    for (int64_t i = 0, together; i < rows; i++) {
        char *result = j->result + (size_t)(i * j->width) * j->size;
        if (j->type == WEFT_F64) {
            double sum = ((double *)j->sum)[i];
            scale_double((double *)result, j->width, sum == 0 ? 0 : 1 / sum);
        } else {
            float sum = ((float *)j->sum)[i];
            scale_float((float *)result, j->width, sum == 0 ? 0 : 1 / sum);
        }
        weft_store(j->output->dtype, row_at(j, j->output, first + i, &together), 1, j->type, result,
                   j->width);
    }
}

/* All rows of the present batch index. */
static void attend(const job *j)
{
    int dim = j->output->ndim - 2;
    int64_t rows = j->output->extent[dim], offset = j->output->offset[dim];
    for (int64_t first = 0, n; first < rows; first += n) {
        n = rows - first < ROWS ? rows - first : ROWS;
        start_rows(j, n);
        load_rows(j, j->q, first, n, j->queries);
        int64_t keys = visible(j, offset + first + n - 1, 0, j->keys);
        for (int64_t key = 0, count; key < keys; key += count) {
            count = keys - key < KEYS ? keys - key : KEYS;
            take_keys(j, offset + first, n, key, count);
        }
        store_rows(j, first, n);
    }
}

/* Every index of the dimensions before the last two. */
static void attend_all(job *j)
{
    int64_t count = 1;
    for (int d = 0; d < j->batch_dims; d++) {
        count *= j->output->extent[d];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int d = j->batch_dims - 1; d >= 0; d--) {
            j->index[d] = j->output->offset[d] + rest % j->output->extent[d];
            rest /= j->output->extent[d];
        }
        attend(j);
    }
}

/* One piece of memory for all blocks; NULL: there is none. */
static char *divide_memory(job *j)
{
    char **parts[] = { &j->queries, &j->block,   &j->values, &j->scores,
                       &j->result,  &j->addends, &j->most,   &j->sum };
    int64_t counts[] = {
        ROWS * j->depth, KEYS * j->depth, KEYS * j->width, ROWS * KEYS, ROWS * j->width, KEYS, ROWS, ROWS
    };
    size_t total = 0;
    for (int i = 0; i < 8; i++) {
        total += (size_t)counts[i] * j->size;
    }
    char *memory = malloc(total), *at = memory;
    for (int i = 0; memory != NULL && i < 8; i++) {
        *parts[i] = at;
        at += (size_t)counts[i] * j->size;
    }
    return memory;
}

void weft_kernel_attention(const weft_kernel_call *call)
{
    const weft_view *output = &call->output, *k = &call->inputs[1], *v = &call->inputs[2];
    job j = { .call = call,
              .q = &call->inputs[0],
              .k = k,
              .v = v,
              .mask = call->num_inputs > 3 ? &call->inputs[3] : NULL,
              .output = output,
              .type = output->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32,
              .batch_dims = output->ndim - 2,
              .keys = k->extent[k->ndim - 2],
              .depth = k->extent[k->ndim - 1],
              .width = v->extent[v->ndim - 1] };
    j.size = weft_dtype_size(j.type);
    char *memory = divide_memory(&j);
    if (memory != NULL) {
        attend_all(&j);
        free(memory);
        return;
    }
    for (int64_t row = 0; row < output->extent[0]; row++) {
        memset(weft_view_row(output, row, NULL), 0,
               (size_t)output->row_elements * weft_dtype_size(output->dtype));
    }
    weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory for the blocks of a task");
}
