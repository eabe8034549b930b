/* Operations that cuDNN computes in fast mode (queue->fast). Every function may refuse: then nothing has been launched, and the
 * caller uses weft's own kernel. cuDNN is opened when the first operation comes; without it, or in a build without its headers
 * (dnn_none.c), all are refused. */
#ifndef WEFT_CODELETS_CUDA_DNN_H
#define WEFT_CODELETS_CUDA_DNN_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

/* Attention of `groups` heads of k and v behind each other, for each of which there are `shared` heads of q. Sizes and steps (from
 * head to head) in elements; rows of a head lie behind each other. All of it is the key under which a plan is kept. */
typedef struct weft_dnn_sizes {
    int64_t type; /* WEFT_BF16 or WEFT_F16 */
    int64_t groups, shared, rows, keys, depth, width;
    int64_t q_step, k_step, v_step, result_step, row_step; /* row_step: of values for each row, as log-sums */
    int64_t causal;  /* row i sees keys 0 to i + shift */
    int64_t shifted; /* whether `shift` is not 0 */
    int64_t stores;  /* whether log-sums are stored */
} weft_dnn_sizes;

typedef struct weft_dnn_attention {
    weft_dnn_sizes sizes;
    int64_t shift;
    double scale;
    const void *q, *k, *v; /* device memory, at multiples of 16 bytes */
    void *result;
    float *log_sums; /* NULL: not stored */
} weft_dnn_attention;

/* Puts it behind the queue's stream. False: refused. */
bool weft_dnn_attend(const weft_dnn_attention *attention, weft_cuda_queue *queue);

/* A task of the kernel attention. False: refused. */
bool weft_dnn_attention_task(const weft_task_run *run, weft_cuda_queue *queue);

/* Writes what a user should know: cuDNN's version, or why it is not used. */
void weft_dnn_describe(char *text, size_t size);

/* Frees what a queue has of cuDNN's: handle, plans, workspace. */
void weft_dnn_free(weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
