/* In builds without cuDNN's headers. */
#include <stdio.h>

#include "codelets/cuda/dnn.h"

bool weft_dnn_attend(const weft_dnn_attention *attention, weft_cuda_queue *queue)
{
    (void)attention;
    (void)queue;
    return false;
}

bool weft_dnn_attention_task(const weft_task_run *run, weft_cuda_queue *queue)
{
    (void)run;
    (void)queue;
    return false;
}

bool weft_dnn_gradients_task(const weft_task_run *run, bool of_q, weft_cuda_queue *queue, int *failed)
{
    (void)of_q;
    (void)run;
    (void)queue;
    (void)failed;
    return false;
}

bool weft_dnn_convolution_task(const weft_task_run *run, weft_cuda_queue *queue, int *failed)
{
    (void)run;
    (void)queue;
    (void)failed;
    return false;
}

void weft_dnn_describe(char *text, size_t size)
{
    snprintf(text, size, "not used: weft was built without cudnn_graph.h");
}

int64_t weft_dnn_count_runs(const weft_cuda_queue *queue)
{
    (void)queue;
    return 0;
}

void weft_dnn_free(weft_cuda_queue *queue)
{
    (void)queue;
}
