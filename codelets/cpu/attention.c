/* Attention and its gradients: blocks of rows against blocks of keys, in their order. */
#include "codelets/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/convert.h"
#include "codelets/cpu/half.h"
#include "codelets/cpu/line_sums.h"
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
    /* slopes = weights (slopes - product) */                                                                \
    WEFT_CLONES static void slope_##T(T *slopes, const T *weights, int64_t n, T product)                     \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            slopes[i] = weights[i] * (slopes[i] - product);                                                  \
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

/* Rows of q, or of k, that a task works with. */
typedef struct span {
    int64_t first; /* global */
    int64_t count;
} span;

/* All that a task works with: views that it has not are NULL. Memory for blocks, in the type of the
 * arithmetic. */
typedef struct job {
    const weft_kernel_call *call;
    const weft_view *output, *q, *k, *v, *mask, *gradient, *statistics;
    weft_dtype type;
    size_t size;
    bool causal;
    int64_t parts;
    int batch_dims;               /* of the output */
    int64_t index[WEFT_MAX_DIMS]; /* global, in the output's batch */
    span rows, keys;
    int64_t depth, width;               /* e, f */
    char *queries, *block, *values;     /* ROWS x depth, KEYS x depth, KEYS x width */
    char *scores, *slopes;              /* ROWS x KEYS */
    char *gradients, *terms;            /* ROWS x width, ROWS x statistics */
    char *result, *k_result, *v_result; /* ROWS x width or depth, KEYS x depth, KEYS x width */
    char *addends, *most, *sum;         /* KEYS, ROWS, ROWS */
} job;

/* `number`: which one of the call says how many there are. */
static span span_of(const job *j, const weft_view *view, int number)
{
    int d = view->ndim - 2;
    bool counts = j->parts & WEFT_ATTENTION_COUNTS;
    return (span){ view->offset[d], counts ? j->call->numbers[number] : view->extent[d] };
}

static int64_t columns_of(const weft_view *view)
{
    return view == NULL ? 0 : view->extent[view->ndim - 1];
}

/* Local number in dimension `d` of what the output has as number `index` of its batch dimension `own`. */
static int64_t local_index(const job *j, const weft_view *view, int d, int own, int64_t index)
{
    return view->shape[d] == 1 && j->output->shape[own] != 1 ? 0 : index - view->offset[d];
}

/* Where row `row` (local, of the last dimension but one) of the present batch index begins; *together gets
 * how many lie one after another. The view has at least two dimensions, and is not empty. */
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
    int64_t width = columns_of(view);
    for (int64_t row = 0, together; width > 0 && row < count; row += together) {
        const char *from = row_at(j, view, first + row, &together);
        together = together < count - row ? together : count - row;
        weft_load(j->type, target + (size_t)(row * width) * j->size, view->dtype, from, 1, together * width);
    }
}

/* Whether dimension `d` of the mask, that of q or k behind, is repeated. */
static bool mask_repeats(const weft_view *mask, int d, const weft_view *side)
{
    return mask->shape[d] == 1 && side->shape[side->ndim - 2] != 1;
}

/* What the mask adds to the scores of a row (global) for keys from `first` (global) on, in j->addends. */
static void load_mask(const job *j, int64_t row, int64_t first, int64_t count)
{
    const weft_view *mask = j->mask;
    int last = mask->ndim - 1;
    bool repeats = last < 0 || mask_repeats(mask, last, j->k);
    int64_t local = repeats ? 0 : first - mask->offset[last];
    if (mask->ndim == 1 && !repeats) {
        for (int64_t i = 0, together; i < count; i += together) {
            const void *from = weft_view_row(mask, local + i, &together);
            together = together < count - i ? together : count - i;
            weft_load(j->type, j->addends + (size_t)i * j->size, mask->dtype, from, 1, together);
        }
    } else {
        int64_t together;
        const char *from =
            last < 1 ? weft_view_row(mask, 0, NULL)
                     : row_at(j, mask, mask_repeats(mask, last - 1, j->q) ? 0 : row - mask->offset[last - 1],
                              &together);
        from += (size_t)local * weft_dtype_size(mask->dtype);
        weft_load(j->type, j->addends, mask->dtype, from, !repeats, count);
    }
    for (int64_t i = 0; mask->dtype == WEFT_BOOL && i < count; i++) {
        if (j->type == WEFT_F64) {
            ((double *)j->addends)[i] = ((double *)j->addends)[i] != 0 ? 0 : -INFINITY;
        } else {
            ((float *)j->addends)[i] = ((float *)j->addends)[i] != 0 ? 0 : -INFINITY;
        }
    }
}

static double value_at(const job *j, const char *values, int64_t i)
{
    return j->type == WEFT_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void set_value(const job *j, char *values, int64_t i, double value)
{
    if (j->type == WEFT_F64) {
        ((double *)values)[i] = value;
    } else {
        ((float *)values)[i] = (float)value;
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

static int64_t stride_of(int64_t columns)
{
    return columns > 0 ? columns : 1;
}

/* c (m x n) = alpha a b^T; a and b have k columns. */
static void multiply_rows(const job *j, double alpha, int64_t m, int64_t n, int64_t k, const char *a,
                          const char *b, char *c)
{
    weft_gemm gemm = { .dtype = j->type,
                       .transpose_b = true,
                       .m = m,
                       .n = n,
                       .k = k,
                       .lda = stride_of(k),
                       .ldb = stride_of(k),
                       .ldc = stride_of(n),
                       .alpha = alpha };
    weft_multiply(&gemm, a, b, c);
}

/* c (m x n) += alpha a b, or alpha a^T b, where a is k x m. */
static void add_product(const job *j, bool transpose, double alpha, int64_t m, int64_t n, int64_t k,
                        const char *a, const char *b, char *c)
{
    weft_gemm gemm = { .dtype = j->type,
                       .transpose_a = transpose,
                       .m = m,
                       .n = n,
                       .k = k,
                       .lda = stride_of(transpose ? m : k),
                       .ldb = stride_of(n),
                       .ldc = stride_of(n),
                       .alpha = alpha,
                       .beta = 1 };
    weft_multiply(&gemm, a, b, c);
}

/* ---- scores -------------------------------------------------------------------------------------------- */

/* Of keys first .. first + count - 1 (global), those that row `row` (global) may see. */
static int64_t visible(const job *j, int64_t row, int64_t first, int64_t count)
{
    if (!j->causal || row >= first + count) {
        return count;
    }
    return row < first ? 0 : row - first + 1;
}

/* What the row does not see gets -infinity; the mask is added. */
static void mask_row(const job *j, char *scores, int64_t row, int64_t first, int64_t count)
{
    if (j->mask != NULL) {
        load_mask(j, row, first, count);
        if (j->type == WEFT_F64) {
            add_double((double *)scores, (const double *)j->addends, count);
        } else {
            add_float((float *)scores, (const float *)j->addends, count);
        }
    }
    for (int64_t x = visible(j, row, first, count); x < count; x++) {
        set_value(j, scores, x, -INFINITY);
    }
}

/* A block: local rows and keys, and how many. */
typedef struct block {
    int64_t row, rows, key, keys;
} block;

static char *scores_of(const job *j, const block *b, int64_t i)
{
    return j->scores + (size_t)(i * b->keys) * j->size;
}

/* The masked scores of a block, whose queries and keys are loaded. */
static void compute_scores(const job *j, const block *b)
{
    multiply_rows(j, j->call->scalars[0], b->rows, b->keys, j->depth, j->queries, j->block, j->scores);
    for (int64_t i = 0; i < b->rows; i++) {
        mask_row(j, scores_of(j, b, i), j->rows.first + b->row + i, j->keys.first + b->key, b->keys);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void take_keys(const job *j, const block *b)
{
    load_rows(j, j->k, b->key, b->keys, j->block);
    compute_scores(j, b);
    for (int64_t i = 0; i < b->rows; i++) {
        char *scores = scores_of(j, b, i);
        if (j->type == WEFT_F64) {
            take_scores_double((double *)scores, b->keys, (double *)j->most + i, (double *)j->sum + i,
                               (double *)j->result + i * j->width, j->width);
        } else {
            take_scores_float((float *)scores, b->keys, (float *)j->most + i, (float *)j->sum + i,
                              (float *)j->result + i * j->width, j->width);
        }
    }
    if (j->width > 0) {
        load_rows(j, j->v, b->key, b->keys, j->values);
        add_product(j, false, 1, b->rows, j->width, b->keys, j->scores, j->values, j->result);
    }
}

static void start_rows(const job *j, int64_t rows)
{
    memset(j->result, 0, (size_t)(rows * j->width) * j->size);
    memset(j->sum, 0, (size_t)rows * j->size);
    for (int64_t i = 0; i < rows; i++) {
        set_value(j, j->most, i, -INFINITY);
    }
}

/* The state of rows that the output has. */
static void load_state(const job *j, int64_t first, int64_t rows)
{
    size_t width = (size_t)j->width * j->size;
    for (int64_t i = 0, together; i < rows; i++) {
        const char *from = row_at(j, j->output, first + i, &together), *behind = from + width;
        memcpy(j->result + (size_t)i * width, from, width);
        set_value(j, j->sum, i, value_at(j, behind, WEFT_ATTENTION_SUM));
        set_value(j, j->most, i, value_at(j, behind, WEFT_ATTENTION_LARGEST));
    }
}

static void store_state(const job *j, int64_t first, int64_t rows)
{
    size_t width = (size_t)j->width * j->size;
    for (int64_t i = 0, together; i < rows; i++) {
        char *to = row_at(j, j->output, first + i, &together), *behind = to + width;
        memcpy(to, j->result + (size_t)i * width, width);
        set_value(j, behind, WEFT_ATTENTION_SUM, value_at(j, j->sum, i));
        set_value(j, behind, WEFT_ATTENTION_LARGEST, value_at(j, j->most, i));
    }
}

/* The values of a row of results, divided by the sum of the weights; a row that has seen nothing is 0. */
static void store_result(weft_dtype dtype, char *target, weft_dtype type, char *result, int64_t width,
                         double sum)
{
    if (type == WEFT_F64) {
        scale_double((double *)result, width, sum == 0 ? 0 : 1 / sum);
    } else {
        scale_float((float *)result, width, sum == 0 ? 0 : 1 / (float)sum);
    }
    weft_store(dtype, target, 1, type, result, width);
}

static void store_rows(const job *j, int64_t first, int64_t rows)
{
    for (int64_t i = 0, together; i < rows; i++) {
        store_result(j->output->dtype, row_at(j, j->output, first + i, &together), j->type,
                     j->result + (size_t)(i * j->width) * j->size, j->width, value_at(j, j->sum, i));
    }
}

/* All rows of the present batch index. */
static void attend(const job *j, bool state)
{
    for (int64_t first = 0, n; first < j->rows.count; first += n) {
        n = j->rows.count - first < ROWS ? j->rows.count - first : ROWS;
        if (j->parts & WEFT_ATTENTION_CONTINUES) {
            load_state(j, first, n);
        } else {
            start_rows(j, n);
        }
        load_rows(j, j->q, first, n, j->queries);
        int64_t keys = visible(j, j->rows.first + first + n - 1, j->keys.first, j->keys.count);
        for (int64_t key = 0, count; key < keys; key += count) {
            count = keys - key < KEYS ? keys - key : KEYS;
            take_keys(j, &(block){ first, n, key, count });
        }
        (state ? store_state : store_rows)(j, first, n);
    }
}

static void attend_to_result(const job *j)
{
    attend(j, false);
}

static void attend_to_state(const job *j)
{
    attend(j, true);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static void load_row_block(const job *j, int64_t row, int64_t rows)
{
    load_rows(j, j->q, row, rows, j->queries);
    load_rows(j, j->gradient, row, rows, j->gradients);
    load_rows(j, j->statistics, row, rows, j->terms);
}

static void load_key_block(const job *j, int64_t key, int64_t keys)
{
    load_rows(j, j->k, key, keys, j->block);
    load_rows(j, j->v, key, keys, j->values);
}

/* The weights of a block in j->scores, and the gradient of its scores in j->slopes. */
static void weigh(const job *j, const block *b)
{
    compute_scores(j, b);
    multiply_rows(j, 1, b->rows, b->keys, j->width, j->gradients, j->values, j->slopes);
    for (int64_t i = 0; i < b->rows; i++) {
        const char *terms = j->terms + (size_t)(i * WEFT_ATTENTION_STATISTICS) * j->size;
        char *scores = scores_of(j, b, i), *slopes = j->slopes + (size_t)(i * b->keys) * j->size;
        double log_sum = value_at(j, terms, WEFT_ATTENTION_LOG_SUM),
               product = value_at(j, terms, WEFT_ATTENTION_PRODUCT);
        if (j->type == WEFT_F64) {
            exponentials_double((double *)scores, b->keys, log_sum);
            slope_double((double *)slopes, (const double *)scores, b->keys, product);
        } else {
            exponentials_float((float *)scores, b->keys, (float)log_sum);
            slope_float((float *)slopes, (const float *)scores, b->keys, (float)product);
        }
    }
}

/* Adds to rows of the output, or sets them: `columns` from column `start` on. */
static void put_rows(const job *j, int64_t first, int64_t rows, int64_t start, int64_t columns, char *values)
{
    for (int64_t i = 0, together; columns > 0 && i < rows; i++) {
        char *to = row_at(j, j->output, first + i, &together) + (size_t)start * j->size;
        char *row = values + (size_t)(i * columns) * j->size;
        if (!(j->parts & WEFT_ATTENTION_CONTINUES)) {
            memcpy(to, row, (size_t)columns * j->size);
        } else if (j->type == WEFT_F64) {
            add_double((double *)to, (const double *)row, columns);
        } else {
            add_float((float *)to, (const float *)row, columns);
        }
    }
}

static void backward_rows(const job *j)
{
    double scale = j->call->scalars[0];
    for (int64_t row = 0, n; row < j->rows.count; row += n) {
        n = j->rows.count - row < ROWS ? j->rows.count - row : ROWS;
        load_row_block(j, row, n);
        memset(j->result, 0, (size_t)(n * j->depth) * j->size);
        int64_t keys = visible(j, j->rows.first + row + n - 1, j->keys.first, j->keys.count);
        for (int64_t key = 0, count; key < keys; key += count) {
            count = keys - key < KEYS ? keys - key : KEYS;
            load_key_block(j, key, count);
            weigh(j, &(block){ row, n, key, count });
            add_product(j, false, scale, n, j->depth, count, j->slopes, j->block, j->result);
        }
        put_rows(j, row, n, 0, j->depth, j->result);
    }
}

/* The first row (local) that sees some key from `key` (local) on. */
static int64_t first_seeing(const job *j, int64_t key)
{
    int64_t first = j->keys.first + key - j->rows.first;
    return !j->causal || first < 0 ? 0 : first;
}

static void backward_keys(const job *j)
{
    int64_t k_columns = j->parts & WEFT_ATTENTION_HAS_K_GRADIENT ? j->depth : 0;
    int64_t v_columns = j->parts & WEFT_ATTENTION_HAS_V_GRADIENT ? j->width : 0;
    for (int64_t key = 0, n; key < j->keys.count; key += n) {
        n = j->keys.count - key < KEYS ? j->keys.count - key : KEYS;
        load_key_block(j, key, n);
        memset(j->k_result, 0, (size_t)(n * j->depth) * j->size);
        memset(j->v_result, 0, (size_t)(n * j->width) * j->size);
        for (int64_t row = first_seeing(j, key), count; row < j->rows.count; row += count) {
            count = j->rows.count - row < ROWS ? j->rows.count - row : ROWS;
            load_row_block(j, row, count);
            weigh(j, &(block){ row, count, key, n });
            if (k_columns > 0) {
                add_product(j, true, j->call->scalars[0], n, k_columns, count, j->slopes, j->queries,
                            j->k_result);
            }
            if (v_columns > 0) {
                add_product(j, true, 1, n, v_columns, count, j->scores, j->gradients, j->v_result);
            }
        }
        put_rows(j, key, n, 0, k_columns, j->k_result);
        put_rows(j, key, n, k_columns, v_columns, j->v_result);
    }
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

/* Every index of the dimensions before the last two. */
static void for_batch(job *j, void (*work)(const job *j))
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
        work(j);
    }
}

/* One piece of memory for all blocks; NULL: there is none. */
static char *divide_memory(job *j)
{
    int64_t back = j->gradient != NULL, result = j->width > j->depth ? j->width : j->depth;
    const struct {
        char **at;
        int64_t count;
    } blocks[] = {
        { &j->queries, ROWS * j->depth },
        { &j->block, KEYS * j->depth },
        { &j->values, KEYS * j->width },
        { &j->scores, ROWS * KEYS },
        { &j->slopes, back * ROWS * KEYS },
        { &j->gradients, back * ROWS * j->width },
        { &j->terms, back * ROWS * WEFT_ATTENTION_STATISTICS },
        { &j->result, ROWS * result },
        { &j->k_result, back * KEYS * j->depth },
        { &j->v_result, back * KEYS * j->width },
        { &j->addends, KEYS },
        { &j->most, ROWS },
        { &j->sum, ROWS },
    };
    size_t total = 0;
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        total += (size_t)blocks[i].count * j->size;
    }
    char *memory = malloc(total), *at = memory;
    for (size_t i = 0; memory != NULL && i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        *blocks[i].at = at;
        at += (size_t)blocks[i].count * j->size;
    }
    return memory;
}

static void fail_for_memory(const weft_kernel_call *call)
{
    const weft_view *output = &call->output;
    for (int64_t row = 0; row < weft_view_rows(output); row++) {
        memset(weft_view_row(output, row, NULL), 0,
               (size_t)output->row_elements * weft_dtype_size(output->dtype));
    }
    weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory for the blocks of a task");
}

/* The inputs as attention.h lists them. */
static void run(const weft_kernel_call *call, bool backward, bool has_v, void (*work)(const job *j))
{
    const weft_view *output = &call->output, *input = call->inputs;
    job j = { .call = call,
              .output = output,
              .type = output->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32,
              .causal = call->numbers[WEFT_ATTENTION_CAUSAL],
              .parts = call->numbers[WEFT_ATTENTION_PARTS],
              .batch_dims = output->ndim - 2 };
    j.gradient = backward ? input++ : NULL;
    j.q = input++;
    j.k = input++;
    j.v = has_v ? input++ : NULL;
    j.statistics = backward ? input++ : NULL;
    j.mask = j.parts & WEFT_ATTENTION_HAS_MASK ? input : NULL;
    j.rows = span_of(&j, j.q, WEFT_ATTENTION_ROWS);
    j.keys = span_of(&j, j.k, WEFT_ATTENTION_KEYS);
    j.depth = columns_of(j.q);
    j.width = columns_of(j.v);
    j.size = weft_dtype_size(j.type);
    char *memory = divide_memory(&j);
    if (memory == NULL) {
        fail_for_memory(call);
        return;
    }
    for_batch(&j, work);
    free(memory);
}

void weft_kernel_attention(const weft_kernel_call *call)
{
    run(call, false, true, attend_to_result);
}

void weft_kernel_attention_state(const weft_kernel_call *call)
{
    run(call, false, call->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_V, attend_to_state);
}

void weft_kernel_attention_backward_q(const weft_kernel_call *call)
{
    run(call, true, true, backward_rows);
}

void weft_kernel_attention_backward_kv(const weft_kernel_call *call)
{
    run(call, true, true, backward_keys);
}

/* ---- from a state -------------------------------------------------------------------------------------- */

void weft_kernel_attention_finish(const weft_kernel_call *call)
{
    const weft_view *output = &call->output, *state = &call->inputs[0];
    int64_t width = output->extent[output->ndim - 1], lines = width == 0 ? 0 : output->row_elements / width;
    size_t size = weft_dtype_size(state->dtype), bytes = (size_t)width * size;
    char *result = malloc(bytes > 0 ? bytes : 1);
    if (result == NULL) {
        fail_for_memory(call);
        return;
    }
    job j = { .type = state->dtype };
    for (int64_t row = 0; row < weft_view_rows(output); row++) {
        const char *from = weft_view_row(state, row, NULL);
        char *to = weft_view_row(output, row, NULL);
        for (int64_t i = 0; i < lines; i++) {
            memcpy(result, from, bytes);
            store_result(output->dtype, to, state->dtype, result, width,
                         value_at(&j, from + bytes, WEFT_ATTENTION_SUM));
            from += bytes + WEFT_ATTENTION_STATE * size;
            to += (size_t)width * weft_dtype_size(output->dtype);
        }
    }
    free(result);
}

/* Of n values of a type each. */
static double product_of(weft_dtype type, const char *a, const char *b, int64_t n)
{
    enum { BLOCK = 128 };
    double sum = 0, x[BLOCK], y[BLOCK];
    size_t size = weft_dtype_size(type);
    for (int64_t i = 0, count; i < n; i += count) {
        count = n - i < BLOCK ? n - i : BLOCK;
        weft_load(WEFT_F64, x, type, a + (size_t)i * size, 1, count);
        weft_load(WEFT_F64, y, type, b + (size_t)i * size, 1, count);
        sum += weft_line_sum_product(WEFT_F64, x, y, count);
    }
    return sum;
}

void weft_kernel_attention_statistics(const weft_kernel_call *call)
{
    const weft_view *output = &call->output, *state = &call->inputs[0], *gradient = &call->inputs[1],
                    *result = &call->inputs[2];
    int64_t width = gradient->extent[gradient->ndim - 1];
    int64_t lines = output->row_elements / WEFT_ATTENTION_STATISTICS;
    size_t bytes = (size_t)width * weft_dtype_size(gradient->dtype);
    job j = { .type = output->dtype };
    for (int64_t row = 0; row < weft_view_rows(output); row++) {
        const char *from = weft_view_row(state, row, NULL);
        const char *a = width == 0 ? NULL : weft_view_row(gradient, row, NULL);
        const char *b = width == 0 ? NULL : weft_view_row(result, row, NULL);
        char *to = weft_view_row(output, row, NULL);
        for (int64_t i = 0; i < lines; i++) {
            double sum = value_at(&j, from, i * WEFT_ATTENTION_STATE + WEFT_ATTENTION_SUM);
            double most = value_at(&j, from, i * WEFT_ATTENTION_STATE + WEFT_ATTENTION_LARGEST);
            double product =
                width == 0 ? 0
                           : product_of(gradient->dtype, a + (size_t)i * bytes, b + (size_t)i * bytes, width);
            set_value(&j, to, i * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_LOG_SUM,
                      sum == 0 ? INFINITY : most + log(sum));
            set_value(&j, to, i * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_PRODUCT, product);
        }
    }
}
