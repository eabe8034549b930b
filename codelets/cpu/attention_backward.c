/* Gradients of attention: weights are recomputed block by block. */
#include <math.h>
#include <string.h>

#include "codelets/cpu/attention.h"
#include "codelets/cpu/clones.h"
#include "codelets/convert.h"
#include "codelets/cpu/line_sums.h"

typedef weft_attention_job job;
typedef weft_attention_block block;

/* slopes = weights (slopes - product) */
#define SLOPES(T)                                                                                            \
    WEFT_CLONES static void slope_##T(T *slopes, const T *weights, T product, int64_t n)                     \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            slopes[i] = weights[i] * (slopes[i] - product);                                                  \
        }                                                                                                    \
    }

SLOPES(float)
SLOPES(double)

static void slope_row(weft_dtype type, void *slopes, const void *weights, double product, int64_t n)
{
    if (type == WEFT_F64) {
        slope_double(slopes, weights, product, n);
    } else {
        slope_float(slopes, weights, (float)product, n);
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static void load_row_block(const job *j, block *b)
{
    b->queries = weft_attention_load(j, j->q, b->row, b->rows, j->queries);
    b->gradients = weft_attention_load(j, j->gradient, b->row, b->rows, j->gradients);
    b->terms = weft_attention_load(j, j->statistics, b->row, b->rows, j->terms);
}

static void load_key_block(const job *j, block *b)
{
    b->k = weft_attention_load(j, j->k, b->key, b->keys, j->block);
    b->v = weft_attention_load(j, j->v, b->key, b->keys, j->values);
}

/* A block's weights into j->scores, and the gradient of its scores into j->slopes. */
static void weigh(const job *j, const block *b)
{
    weft_attention_scores(j, b);
    weft_attention_multiply(j, 1, b->rows, b->keys, j->width, b->gradients, b->v, j->slopes);
    for (int64_t i = 0; i < b->rows; i++) {
        const char *terms = b->terms + (size_t)(i * WEFT_ATTENTION_STATISTICS) * j->size;
        char *scores = weft_attention_row_of(j, j->scores, b, i);
        weft_line_exp(j->type, scores, scores, weft_attention_value(j->type, terms, WEFT_ATTENTION_LOG_SUM),
                      b->keys);
        slope_row(j->type, weft_attention_row_of(j, j->slopes, b, i), scores,
                  weft_attention_value(j->type, terms, WEFT_ATTENTION_PRODUCT), b->keys);
    }
}

/* Adds to rows of the output, or sets them: `columns` columns from `start` on. */
static void put_rows(const job *j, int64_t first, int64_t rows, int64_t start, int64_t columns,
                     const char *values)
{
    for (int64_t i = 0, together; columns > 0 && i < rows; i++) {
        char *to = weft_attention_row(j, j->output, first + i, &together) + (size_t)start * j->size;
        const char *row = values + (size_t)(i * columns) * j->size;
        if (j->parts & WEFT_ATTENTION_CONTINUES) {
            weft_attention_add(j->type, to, 1, row, columns);
        } else {
            memcpy(to, row, (size_t)columns * j->size);
        }
    }
}

/* ---- the gradient of q --------------------------------------------------------------------------------- */

static void backward_rows(const job *j)
{
    for (int64_t row = 0, n; row < j->rows.count; row += n) {
        n = weft_attention_rows_from(j, row);
        block b = { .row = row, .rows = n };
        load_row_block(j, &b);
        memset(j->result, 0, (size_t)(n * j->depth) * j->size);
        int64_t keys = weft_attention_visible(j, j->rows.first + row + n - 1, j->keys.first, j->keys.count);
        for (; b.key < keys; b.key += b.keys) {
            b.keys = weft_attention_keys_from(keys, b.key);
            load_key_block(j, &b);
            weigh(j, &b);
            weft_attention_add_product(j, false, j->call->scalars[0], n, j->depth, b.keys, j->slopes, b.k,
                                       j->result);
        }
        put_rows(j, row, n, 0, j->depth, j->result);
    }
}

void weft_kernel_attention_backward_q(const weft_kernel_call *call)
{
    weft_attention_run(call, true, true, backward_rows);
}

/* ---- the gradients of k and v -------------------------------------------------------------------------- */

/* The first row (local) that sees a key from `key` (local) on. */
static int64_t first_seeing(const job *j, int64_t key)
{
    int64_t first = j->keys.first + key - j->rows.first;
    return !j->causal || first < 0 ? 0 : first;
}

/* All rows times a block of keys. */
static void add_rows(const job *j, block *b, int64_t k_columns, int64_t v_columns)
{
    for (b->row = first_seeing(j, b->key); b->row < j->rows.count; b->row += b->rows) {
        b->rows = weft_attention_rows_from(j, b->row);
        load_row_block(j, b);
        weigh(j, b);
        if (k_columns > 0) {
            weft_attention_add_product(j, true, j->call->scalars[0], b->keys, k_columns, b->rows, j->slopes,
                                       b->queries, j->k_result);
        }
        if (v_columns > 0) {
            weft_attention_add_product(j, true, 1, b->keys, v_columns, b->rows, j->scores, b->gradients,
                                       j->v_result);
        }
    }
}

static void backward_keys(const job *j)
{
    int64_t k_columns = j->parts & WEFT_ATTENTION_HAS_K_GRADIENT ? j->depth : 0;
    int64_t v_columns = j->parts & WEFT_ATTENTION_HAS_V_GRADIENT ? j->width : 0;
    for (int64_t key = 0, n; key < j->keys.count; key += n) {
        n = weft_attention_keys_from(j->keys.count, key);
        block b = { .key = key, .keys = n };
        load_key_block(j, &b);
        memset(j->k_result, 0, (size_t)(n * j->depth) * j->size);
        memset(j->v_result, 0, (size_t)(n * j->width) * j->size);
        add_rows(j, &b, k_columns, v_columns);
        put_rows(j, key, n, 0, k_columns, j->k_result);
        put_rows(j, key, n, k_columns, v_columns, j->v_result);
    }
}

void weft_kernel_attention_backward_kv(const weft_kernel_call *call)
{
    weft_attention_run(call, true, true, backward_keys);
}

/* ---- all gradients --------------------------------------------------------------------------------------- */

/* Row `row` of the current batch index of an output. */
static char *row_of_output(const job *j, int output, int64_t row)
{
    int64_t together;
    return weft_attention_row(j, &j->call->outputs[output], row, &together);
}

/* Blocks of rows that see a block of keys; each with the keys that its last row sees. */
static void backward_block(const job *j, int64_t key, int64_t count)
{
    block b = { .key = key, .keys = count };
    load_key_block(j, &b);
    for (b.row = first_seeing(j, key); b.row < j->rows.count; b.row += b.rows) {
        b.rows = weft_attention_rows_from(j, b.row);
        b.keys = weft_attention_visible(j, j->rows.first + b.row + b.rows - 1, j->keys.first + key, count);
        load_row_block(j, &b);
        weigh(j, &b);
        weft_attention_add_product(j, false, j->call->scalars[0], b.rows, j->depth, b.keys, j->slopes, b.k,
                                   row_of_output(j, 0, b.row));
        weft_attention_add_product(j, true, j->call->scalars[0], b.keys, j->depth, b.rows, j->slopes, b.queries,
                                   row_of_output(j, 1, key));
        weft_attention_add_product(j, true, 1, b.keys, j->width, b.rows, j->scores, b.gradients,
                                   row_of_output(j, 2, key));
    }
}

static void clear(const job *j, int output, int64_t rows, int64_t columns)
{
    if (rows > 0 && columns > 0) {
        memset(row_of_output(j, output, 0), 0, (size_t)(rows * columns) * j->size);
    }
}

static void backward_all(const job *j)
{
    clear(j, 0, j->rows.count, j->depth);
    clear(j, 1, j->keys.count, j->depth);
    clear(j, 2, j->keys.count, j->width);
    for (int64_t key = 0, n; key < j->keys.count; key += n) {
        n = weft_attention_keys_from(j->keys.count, key);
        backward_block(j, key, n);
    }
}

void weft_kernel_attention_backward_all(const weft_kernel_call *call)
{
    weft_attention_run(call, true, true, backward_all);
}

/* ---- statistics ---------------------------------------------------------------------------------------- */

/* Dot product of n values of one type each. */
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
    int64_t width = gradient->extent[gradient->ndim - 1], columns = state->extent[state->ndim - 1];
    int64_t lines = output->row_elements / WEFT_ATTENTION_STATISTICS;
    size_t bytes = (size_t)width * weft_dtype_size(gradient->dtype), size = weft_dtype_size(output->dtype);
    for (int64_t row = 0; row < weft_view_rows(output); row++) {
        const char *from = weft_view_row(state, row, NULL);
        const char *a = width == 0 ? NULL : weft_view_row(gradient, row, NULL);
        const char *b = width == 0 ? NULL : weft_view_row(result, row, NULL);
        char *to = weft_view_row(output, row, NULL);
        for (int64_t i = 0; i < lines; i++) {
            double sum, most, product = 0;
            char none;
            double log_sum = weft_attention_value(state->dtype, from, 0);
            if (columns > 1) {
                weft_attention_combine(state->dtype, from, columns / WEFT_ATTENTION_STATE, 0, &none, &sum, &most);
                log_sum = weft_attention_log_sum(sum, most);
            }
            if (width > 0) {
                product = product_of(gradient->dtype, a + (size_t)i * bytes, b + (size_t)i * bytes, width);
            }
            weft_attention_set_value(output->dtype, to, WEFT_ATTENTION_LOG_SUM, log_sum);
            weft_attention_set_value(output->dtype, to, WEFT_ATTENTION_PRODUCT, product);
            from += (size_t)columns * size;
            to += WEFT_ATTENTION_STATISTICS * size;
        }
    }
}
