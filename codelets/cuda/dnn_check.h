/* A small case of attention's gradients by cuDNN, compared with the host. */
#ifndef WEFT_CODELETS_CUDA_DNN_CHECK_H
#define WEFT_CODELETS_CUDA_DNN_CHECK_H

#include "codelets/cuda/dnn.h"

/* Enqueues gradients on the queue's stream; false: refused. */
typedef bool (*weft_dnn_compute)(const weft_dnn_gradients *gradients, weft_cuda_queue *queue);

/* Whether gradients of 16-bit inputs (WEFT_BF16 or WEFT_F16) are right; false also where that cannot be found out. Waits for the
 * queue's stream. */
bool weft_dnn_check_gradients(int64_t type, weft_cuda_queue *queue, weft_dnn_compute compute);

#endif
