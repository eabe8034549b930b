/* Operations, attention and convolution, that cuDNN computes in fast mode (queue->fast). Every function may refuse: then outputs hold nothing that is kept,
 * and the caller uses weft's own kernel. cuDNN is opened when the first operation comes; without it, or in a build without its headers
 * (dnn_none.c), all are refused. */
#ifndef WEFT_CODELETS_CUDA_DNN_H
#define WEFT_CODELETS_CUDA_DNN_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

/* Attention of `groups` consecutive heads of k and v, for each of which there are `shared` heads of q. Sizes and steps (from
 * head to head) in elements; rows of a head are contiguous. All of it is the key under which a plan is kept. */
typedef struct weft_dnn_sizes {
    int64_t type; /* WEFT_BF16 or WEFT_F16 */
    int64_t groups, shared, rows, keys, depth, width;
    int64_t q_step, k_step, v_step;
    int64_t result_step; /* of the result, or its gradient */
    int64_t row_step;    /* of values for each row: log-sums, or statistics, whose rows lie WEFT_ATTENTION_STATISTICS elements apart */
    int64_t causal;      /* row i sees keys 0 to i + shift */
    int64_t shifted;     /* whether `shift` is not 0 */
    int64_t stores;      /* whether log-sums are stored */
} weft_dnn_sizes;

typedef struct weft_dnn_attention {
    weft_dnn_sizes sizes;
    int64_t shift;
    double scale;
    const void *q, *k, *v; /* device memory, at multiples of 16 bytes */
    void *result;
    float *log_sums; /* NULL: not stored */
} weft_dnn_attention;

/* Gradients of attention. */
typedef struct weft_dnn_gradients {
    weft_dnn_sizes sizes;
    int64_t shift;
    double scale;
    const void *q, *k, *v, *gradient; /* device memory, at multiples of 16 bytes */
    const float *statistics;          /* log-sum and product of each row (codelets/attention.h) */
    float *of_q, *of_k, *of_v;        /* NULL: not wanted; q's rows are contiguous */
    int64_t of_q_step;
    int64_t of_k_step, of_k_row, of_v_step, of_v_row; /* one for each head of q: elements from head to head, and from row to row */
    bool adds; /* to what is there: refused unless all heads are computed at once, as a part that has been added cannot be taken back */
    int *failed; /* gets the cudaError_t where a part has been added and another one could not be: then it is not refused */
} weft_dnn_gradients;

/* Each enqueues its work on the queue's stream. False: refused. */
bool weft_dnn_attend(const weft_dnn_attention *attention, weft_cuda_queue *queue);
bool weft_dnn_attend_backward(const weft_dnn_gradients *gradients, weft_cuda_queue *queue);

/* Tasks of the kernels attention, and attention_backward_q, _kv, _all; `of_q`: the first output is the gradient of q. False: refused. */
bool weft_dnn_attention_task(const weft_task_run *run, weft_cuda_queue *queue);
/* *failed: the cudaError_t of a task that is not refused. */
bool weft_dnn_gradients_task(const weft_task_run *run, bool of_q, weft_cuda_queue *queue, int *failed);

/* Tasks of the kernels convolution, convolution_backward_input and _weight, whose operands are whole images in one piece each. False:
 * refused. *failed: the cudaError_t of a launch of weft's own. */
bool weft_dnn_convolution_task(const weft_task_run *run, weft_cuda_queue *queue, int *failed);

/* Parts of this that weft computes itself (dnn_values.cu). Each returns a cudaError_t. */

/* Prepares two inputs of cuDNN's gradients: the log-sum of each row, [heads, rows], and a stand-in for attention's result, a 16-bit
 * matrix [heads, rows, width]. cuDNN uses the result only for its row-wise product with the gradient, and weft keeps just that
 * product. So the matrix has, in each row, up to three numbers other than 0, chosen so that its product with the gradient is the kept
 * one. The error is that of rounding one number, and nearly always that of rounding a third remainder; with the real result each
 * element would be rounded. */
int weft_dnn_prepare_rows(const weft_dnn_gradients *gradients, void *results, float *log_sums, weft_cuda_queue *queue);

/* Converts `rows` x `columns` contiguous numbers of each head to WEFT_F32. */
typedef struct weft_dnn_put {
    weft_dtype type;
    const void *from;
    float *to;
    int64_t heads, rows, columns, to_step, to_row; /* elements from head to head, from row to row */
    bool adds;
} weft_dnn_put;
int weft_dnn_put_values(const weft_dnn_put *put, weft_cuda_queue *queue);

/* Writes what a user should know: cuDNN's version, or why it is not used. */
void weft_dnn_describe(char *text, size_t size);

/* Plans that the queue has enqueued so far. */
int64_t weft_dnn_count_runs(const weft_cuda_queue *queue);

/* Frees what a queue has of cuDNN's: handle, plans, workspace. */
void weft_dnn_free(weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
