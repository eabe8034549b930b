/* Attention: blocks of rows times blocks of keys, in order. */
#include "codelets/cpu/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/convert.h"
#include "codelets/functions.h"
#include "codelets/cpu/line_sums.h"
#include "codelets/linear.h"
#include "codelets/problems.h"

enum { ROWS = WEFT_ATTENTION_BLOCK_ROWS, KEYS = WEFT_ATTENTION_BLOCK_KEYS };

typedef weft_attention_job job;
typedef weft_attention_block block;

/* ---- rows ---------------------------------------------------------------------------------------------- */

#define ROW_FUNCTIONS(T)                                                                                     \
    WEFT_CLONES static void scale_##T(T *row, T factor, int64_t n)                                           \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            row[i] *= factor;                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void add_##T(T *row, T factor, const T *addend, int64_t n)                            \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            row[i] += factor * addend[i];                                                                    \
        }                                                                                                    \
    }

ROW_FUNCTIONS(float)
ROW_FUNCTIONS(double)

static void scale_row(weft_dtype type, void *row, double factor, int64_t n)
{
    if (type == WEFT_F64) {
        scale_double(row, factor, n);
    } else {
        scale_float(row, (float)factor, n);
    }
}

void weft_attention_add(weft_dtype type, void *row, double factor, const void *addend, int64_t n)
{
    if (type == WEFT_F64) {
        add_double(row, factor, addend, n);
    } else {
        add_float(row, (float)factor, addend, n);
    }
}

/* Factor of the sums so far, whose largest score was `most`, for a new largest score. A sum without keys
 * is 0, or NaN. */
static double factor_of(double most, double now, double sum)
{
    return most == -INFINITY ? (isnan(sum) ? sum : 0) : weft_exp_f64(most - now);
}

/* Adds the next scores of row i: turns them into weights, and rescales the sums so far. */
static void take_scores(const job *j, char *scores, int64_t n, int64_t i)
{
    double now = fmax(j->most[i], weft_line_max(j->type, scores, n)), sum = j->sum[i];
    /* Without a key all weights are 0; a NaN score counts as a key. */
    weft_line_exp_below(j->type, scores, scores, now == -INFINITY ? 0 : now, n);
    double factor = factor_of(j->most[i], now, sum);
    j->sum[i] = sum * factor + weft_line_sum(j->type, scores, n);
    if (factor != 1 && sum != 0) {
        scale_row(j->type, j->result + (size_t)(i * j->width) * j->size, factor, j->width);
    }
    j->most[i] = now;
}

/* ---- parts of tensors ---------------------------------------------------------------------------------- */

/* `number`: index of the call's number with the count of rows. */
static weft_attention_span span_of(const job *j, const weft_view *view, int number)
{
    int d = view->ndim - 2;
    bool counts = j->parts & WEFT_ATTENTION_COUNTS;
    return (weft_attention_span){ view->offset[d], counts ? j->call->numbers[number] : view->extent[d] };
}

static int64_t columns_of(const weft_view *view)
{
    return view == NULL ? 0 : view->extent[view->ndim - 1];
}

/* The output's batch index `index` of dimension `own` as a local index in dimension `d`. */
static int64_t local_index(const job *j, const weft_view *view, int d, int own, int64_t index)
{
    return view->shape[d] == 1 && j->output->shape[own] != 1 ? 0 : index - view->offset[d];
}

char *weft_attention_row(const job *j, const weft_view *view, int64_t row, int64_t *together)
{
    int dims = view->ndim - 2;
    if (dims == 0) {
        return weft_view_row(view, row, together);
    }
    int64_t place = row * view->strides[dims], first = 0;
    for (int d = 0; d < dims; d++) {
        int own = j->batch_dims - dims + d;
        int64_t local = local_index(j, view, d, own, j->index[own]);
        first = d == 0 ? local : first;
        place += d == 0 ? 0 : local * view->strides[d];
    }
    *together = view->extent[dims] - row;
    return (char *)weft_view_row(view, first, NULL) + place * (int64_t)weft_dtype_size(view->dtype);
}

const char *weft_attention_load(const job *j, const weft_view *view, int64_t first, int64_t count,
                                char *buffer)
{
    int64_t width = columns_of(view);
    for (int64_t row = 0, together; width > 0 && row < count; row += together) {
        const char *from = weft_attention_row(j, view, first + row, &together);
        if (row == 0 && together >= count && view->dtype == j->type) {
            return from;
        }
        together = together < count - row ? together : count - row;
        weft_load(j->type, buffer + (size_t)(row * width) * j->size, view->dtype, from, 1, together * width);
    }
    return buffer;
}

/* Whether the mask broadcasts along dimension `d`, which is that of q or k at the end. */
static bool mask_repeats(const weft_view *mask, int d, const weft_view *side)
{
    return mask->shape[d] == 1 && side->shape[side->ndim - 2] != 1;
}

/* The mask's addends for a row (global) and keys from `first` (global) on, in j->addends. */
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
        int64_t together, first_row = 0;
        if (last >= 1 && !mask_repeats(mask, last - 1, j->q)) {
            first_row = row - mask->offset[last - 1];
        }
        const char *from =
            last < 1 ? weft_view_row(mask, 0, NULL) : weft_attention_row(j, mask, first_row, &together);
        from += (size_t)local * weft_dtype_size(mask->dtype);
        weft_load(j->type, j->addends, mask->dtype, from, !repeats, count);
    }
    for (int64_t i = 0; mask->dtype == WEFT_BOOL && i < count; i++) {
        bool seen = weft_attention_value(j->type, j->addends, i) != 0;
        weft_attention_set_value(j->type, j->addends, i, seen ? 0 : -INFINITY);
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

static int64_t stride_of(int64_t columns)
{
    return columns > 0 ? columns : 1;
}

void weft_attention_multiply(const job *j, double alpha, int64_t m, int64_t n, int64_t k, const char *a,
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

void weft_attention_add_product(const job *j, bool transpose, double alpha, int64_t m, int64_t n, int64_t k,
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

int64_t weft_attention_visible(const job *j, int64_t row, int64_t first, int64_t count)
{
    if (!j->causal || row >= first + count) {
        return count;
    }
    return row < first ? 0 : row - first + 1;
}

/* Sets scores of unseen keys to -infinity, and adds the mask. */
static void mask_row(const job *j, char *scores, int64_t row, int64_t first, int64_t count)
{
    if (j->mask != NULL) {
        load_mask(j, row, first, count);
        weft_attention_add(j->type, scores, 1, j->addends, count);
    }
    for (int64_t x = weft_attention_visible(j, row, first, count); x < count; x++) {
        weft_attention_set_value(j->type, scores, x, -INFINITY);
    }
}

void weft_attention_scores(const job *j, const block *b)
{
    int64_t row = j->rows.first + b->row, key = j->keys.first + b->key;
    weft_attention_multiply(j, j->call->scalars[0], b->rows, b->keys, j->depth, b->queries, b->k, j->scores);
    if (j->mask == NULL && weft_attention_visible(j, row, key, b->keys) == b->keys) {
        return; /* if the first row sees all keys, all rows do */
    }
    for (int64_t i = 0; i < b->rows; i++) {
        mask_row(j, weft_attention_row_of(j, j->scores, b, i), row + i, key, b->keys);
    }
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static void take_keys(const job *j, block *b)
{
    b->k = weft_attention_load(j, j->k, b->key, b->keys, j->block);
    weft_attention_scores(j, b);
    for (int64_t i = 0; i < b->rows; i++) {
        take_scores(j, weft_attention_row_of(j, j->scores, b, i), b->keys, i);
    }
    if (j->width > 0) {
        b->v = weft_attention_load(j, j->v, b->key, b->keys, j->values);
        weft_attention_add_product(j, false, 1, b->rows, j->width, b->keys, j->scores, b->v, j->result);
    }
}

static void start_rows(const job *j, int64_t rows)
{
    memset(j->result, 0, (size_t)(rows * j->width) * j->size);
    for (int64_t i = 0; i < rows; i++) {
        j->sum[i] = 0;
        j->most[i] = -INFINITY;
    }
}

/* The state of rows stored in the output. */
static void load_state(const job *j, int64_t first, int64_t rows)
{
    size_t width = (size_t)j->width * j->size;
    for (int64_t i = 0, together; i < rows; i++) {
        const char *from = weft_attention_row(j, j->output, first + i, &together), *behind = from + width;
        memcpy(j->result + (size_t)i * width, from, width);
        j->sum[i] = weft_attention_value(j->type, behind, WEFT_ATTENTION_SUM);
        j->most[i] = weft_attention_value(j->type, behind, WEFT_ATTENTION_LARGEST);
    }
}

static void store_state(const job *j, int64_t first, int64_t rows)
{
    size_t width = (size_t)j->width * j->size;
    for (int64_t i = 0, together; i < rows; i++) {
        char *to = weft_attention_row(j, j->output, first + i, &together), *behind = to + width;
        memcpy(to, j->result + (size_t)i * width, width);
        weft_attention_set_value(j->type, behind, WEFT_ATTENTION_SUM, j->sum[i]);
        weft_attention_set_value(j->type, behind, WEFT_ATTENTION_LARGEST, j->most[i]);
    }
}

/* A row of sums divided by the sum of weights; 0 for a row that has seen no key. */
static void store_result(weft_dtype dtype, char *target, weft_dtype type, char *result, int64_t width,
                         double sum)
{
    scale_row(type, result, sum == 0 ? 0 : 1 / sum, width);
    weft_store(dtype, target, 1, type, result, width);
}

double weft_attention_log_sum(double sum, double most)
{
    return sum == 0 ? INFINITY : most + log(sum);
}

/* The log-sum of a row of the present batch index: from its state, rounded as one that is stored. */
static void store_log_sum(const job *j, int64_t row, double sum, double most)
{
    const weft_view *view = j->log_sums;
    char state[WEFT_ATTENTION_STATE * sizeof(double)], none;
    weft_attention_set_value(j->type, state, WEFT_ATTENTION_SUM, sum);
    weft_attention_set_value(j->type, state, WEFT_ATTENTION_LARGEST, most);
    weft_attention_combine(j->type, state, 1, 0, &none, &sum, &most);
    int64_t place = j->batch_dims == 0 ? 0 : row;
    for (int d = 1; d < j->batch_dims; d++) {
        place += (j->index[d] - view->offset[d]) * view->strides[d];
    }
    char *to = weft_view_row(view, j->batch_dims == 0 ? row : j->index[0] - view->offset[0], NULL);
    weft_attention_set_value(j->type, to, place, weft_attention_log_sum(sum, most));
}

static void store_rows(const job *j, int64_t first, int64_t rows)
{
    for (int64_t i = 0; i < rows && j->log_sums != NULL; i++) {
        store_log_sum(j, first + i, j->sum[i], j->most[i]);
    }
    for (int64_t i = 0, together; i < rows && j->width > 0; i++) {
        store_result(j->output->dtype, weft_attention_row(j, j->output, first + i, &together), j->type,
                     j->result + (size_t)(i * j->width) * j->size, j->width, j->sum[i]);
    }
}

/* All rows of the current batch index. */
static void attend(const job *j, bool state)
{
    for (int64_t row = 0, n; row < j->rows.count; row += n) {
        n = weft_attention_rows_from(j, row);
        if (j->parts & WEFT_ATTENTION_CONTINUES) {
            load_state(j, row, n);
        } else {
            start_rows(j, n);
        }
        block b = { .row = row, .rows = n, .queries = weft_attention_load(j, j->q, row, n, j->queries) };
        int64_t keys = weft_attention_visible(j, j->rows.first + row + n - 1, j->keys.first, j->keys.count);
        for (; b.key < keys; b.key += b.keys) {
            b.keys = weft_attention_keys_from(keys, b.key);
            take_keys(j, &b);
        }
        (state ? store_state : store_rows)(j, row, n);
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

/* One allocation for all blocks; NULL: no memory. */
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
    };
    size_t total = 2 * ROWS * sizeof(double);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        total += (size_t)blocks[i].count * j->size;
    }
    char *memory = malloc(total);
    if (memory == NULL) {
        return NULL;
    }
    char *at = memory + 2 * ROWS * sizeof(double);
    j->most = (double *)memory;
    j->sum = j->most + ROWS;
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        *blocks[i].at = at;
        at += (size_t)blocks[i].count * j->size;
    }
    return memory;
}

void weft_attention_fail(const weft_kernel_call *call)
{
    for (int o = 0; o < call->num_outputs; o++) {
        const weft_view *output = &call->outputs[o];
        int64_t elements = output->row_elements > 0; /* up to the last one: a row may have gaps, and end before its memory does */
        for (int d = 1; d < output->ndim && elements > 0; d++) {
            elements += (output->extent[d] - 1) * output->strides[d];
        }
        for (int64_t row = 0; row < weft_view_rows(output); row++) {
            memset(weft_view_row(output, row, NULL), 0, (size_t)elements * weft_dtype_size(output->dtype));
        }
    }
    weft_problem_memory(call->error, WEFT_PROBLEM_BLOCKS, 0);
}

void weft_attention_run(const weft_kernel_call *call, bool backward, bool has_v, void (*work)(const job *j))
{
    const weft_view *output = &call->output, *input = call->inputs;
    job j = { .call = call,
              .output = output,
              .log_sums = call->num_outputs > 1 ? &call->outputs[1] : NULL,
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
        weft_attention_fail(call);
        return;
    }
    for_batch(&j, work);
    free(memory);
}

void weft_kernel_attention(const weft_kernel_call *call)
{
    weft_attention_run(call, false, true, attend_to_result);
}

void weft_kernel_attention_state(const weft_kernel_call *call)
{
    weft_attention_run(call, false, call->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_V,
                       attend_to_state);
}

/* ---- from states --------------------------------------------------------------------------------------- */

void weft_attention_combine(weft_dtype type, const char *states, int64_t count, int64_t width, char *result,
                            double *sum, double *most)
{
    size_t size = weft_dtype_size(type), values = (size_t)width * size;
    size_t bytes = values + WEFT_ATTENTION_STATE * size;
    *sum = 0;
    *most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const char *behind = states + (size_t)i * bytes + values;
        *most = fmax(*most, weft_attention_value(type, behind, WEFT_ATTENTION_LARGEST));
    }
    memset(result, 0, values);
    for (int64_t i = 0; i < count; i++) {
        const char *state = states + (size_t)i * bytes, *behind = state + values;
        double own = weft_attention_value(type, behind, WEFT_ATTENTION_SUM);
        double factor = factor_of(weft_attention_value(type, behind, WEFT_ATTENTION_LARGEST), *most, own);
        *sum += factor * own;
        weft_attention_add(type, result, factor, state, width);
    }
}

void weft_kernel_attention_finish(const weft_kernel_call *call)
{
    const weft_view *output = &call->output, *state = &call->inputs[0];
    int64_t width = output->extent[output->ndim - 1], lines = width == 0 ? 0 : output->row_elements / width;
    int64_t columns = state->extent[state->ndim - 1], count = columns / (width + WEFT_ATTENTION_STATE);
    char *result = malloc((size_t)(width + 1) * weft_dtype_size(state->dtype));
    if (result == NULL) {
        weft_attention_fail(call);
        return;
    }
    for (int64_t row = 0; row < weft_view_rows(output); row++) {
        const char *from = weft_view_row(state, row, NULL);
        char *to = weft_view_row(output, row, NULL);
        char *log_sums = call->num_outputs > 1 ? weft_view_row(&call->outputs[1], row, NULL) : NULL;
        for (int64_t i = 0; i < lines; i++) {
            double sum, most;
            weft_attention_combine(state->dtype, from, count, width, result, &sum, &most);
            if (log_sums != NULL) {
                weft_attention_set_value(state->dtype, log_sums, i, weft_attention_log_sum(sum, most));
            }
            store_result(output->dtype, to, state->dtype, result, width, sum);
            from += (size_t)columns * weft_dtype_size(state->dtype);
            to += (size_t)width * weft_dtype_size(output->dtype);
        }
    }
    free(result);
}
