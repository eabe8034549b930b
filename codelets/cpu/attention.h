/* Shared by attention and its gradients: a task's parts of tensors, block by block, and the scores of a
 * block. */
#ifndef WEFT_CODELETS_CPU_ATTENTION_H
#define WEFT_CODELETS_CPU_ATTENTION_H

#include "codelets/attention.h"

/* Rows and keys of a block: its scores fit into the second cache, and the products are large enough to
 * hide the packing of operands. */
enum { WEFT_ATTENTION_BLOCK_ROWS = 128, WEFT_ATTENTION_BLOCK_KEYS = 512 };

/* A range of rows of q, or of k. */
typedef struct weft_attention_span {
    int64_t first; /* global */
    int64_t count;
} weft_attention_span;

/* State of a task; absent views are NULL. Memory for blocks, in the type of the arithmetic; R: rows of a
 * block, K: its keys. */
typedef struct weft_attention_job {
    const weft_kernel_call *call;
    const weft_view *output, *log_sums, *q, *k, *v, *mask, *gradient, *statistics;
    weft_dtype type;
    size_t size;
    bool causal;
    int64_t parts;
    int batch_dims;               /* of the output */
    int64_t index[WEFT_MAX_DIMS]; /* global, in the output's batch */
    weft_attention_span rows, keys;
    int64_t depth, width;               /* e, f */
    double *most, *sum;                 /* R */
    char *queries, *block, *values;     /* R x depth, K x depth, K x width */
    char *scores, *slopes;              /* R x K */
    char *gradients, *terms;            /* R x width, R x statistics */
    char *result, *k_result, *v_result; /* R x width or depth, K x depth, K x width */
    char *addends;                      /* K */
} weft_attention_job;

/* Local rows and keys, their numbers, and addresses: in the memory above, or in the tensors. */
typedef struct weft_attention_block {
    int64_t row, rows, key, keys;
    const char *queries, *k, *v, *gradients, *terms;
} weft_attention_block;

static inline int64_t weft_attention_rows_from(const weft_attention_job *job, int64_t row)
{
    int64_t rest = job->rows.count - row;
    return rest < WEFT_ATTENTION_BLOCK_ROWS ? rest : WEFT_ATTENTION_BLOCK_ROWS;
}

/* Number of keys in the block from `key` on, of `keys` visible ones. */
static inline int64_t weft_attention_keys_from(int64_t keys, int64_t key)
{
    return keys - key < WEFT_ATTENTION_BLOCK_KEYS ? keys - key : WEFT_ATTENTION_BLOCK_KEYS;
}

/* Element i as double. */
static inline double weft_attention_value(weft_dtype type, const char *values, int64_t i)
{
    return type == WEFT_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static inline void weft_attention_set_value(weft_dtype type, char *values, int64_t i, double value)
{
    if (type == WEFT_F64) {
        ((double *)values)[i] = value;
    } else {
        ((float *)values)[i] = (float)value;
    }
}

/* Runs `work` for every index of the dimensions before the last two. Inputs as in attention.h. */
void weft_attention_run(const weft_kernel_call *call, bool backward, bool has_v,
                        void (*work)(const weft_attention_job *job));
/* No memory: reports, and clears the outputs. */
void weft_attention_fail(const weft_kernel_call *call);

/* Address of row `row` (local, of the last dimension but one) for the current batch index; *together gets
 * the number of contiguous rows from it on. The view has at least two dimensions, and is not empty. */
char *weft_attention_row(const weft_attention_job *job, const weft_view *view, int64_t row,
                         int64_t *together);
/* `count` rows from local row `first` on, contiguous in the type of the arithmetic: in place, or copied
 * into `buffer`. */
const char *weft_attention_load(const weft_attention_job *job, const weft_view *view, int64_t first,
                                int64_t count, char *buffer);

/* Number of keys among first .. first + count - 1 (global) that row `row` (global) sees. */
int64_t weft_attention_visible(const weft_attention_job *job, int64_t row, int64_t first, int64_t count);
/* Row i of a block's scores, or of their gradients. */
static inline char *weft_attention_row_of(const weft_attention_job *job, char *scores,
                                          const weft_attention_block *block, int64_t i)
{
    return scores + (size_t)(i * block->keys) * job->size;
}
/* The masked scores of a block whose queries and keys are loaded, in job->scores. */
void weft_attention_scores(const weft_attention_job *job, const weft_attention_block *block);

/* c (m x n) = alpha a b^T; a and b have k columns. */
void weft_attention_multiply(const weft_attention_job *job, double alpha, int64_t m, int64_t n, int64_t k,
                             const char *a, const char *b, char *c);
/* c (m x n) += alpha a b, or alpha a^T b, where a is k x m. */
void weft_attention_add_product(const weft_attention_job *job, bool transpose, double alpha, int64_t m,
                                int64_t n, int64_t k, const char *a, const char *b, char *c);

/* row += factor addend */
void weft_attention_add(weft_dtype type, void *row, double factor, const void *addend, int64_t n);

/* Combines `count` contiguous states of `width` values, over disjoint sets of keys: the sum of values into
 * `result`; *sum and *most those of weights and scores. */
void weft_attention_combine(weft_dtype type, const char *states, int64_t count, int64_t width, char *result,
                            double *sum, double *most);

/* The logarithm of the sum of e^score of states, from weft_attention_combine(). */
double weft_attention_log_sum(double sum, double most);

#endif
