/* In builds without cuFFT's header. */
#include "codelets/cuda/fourier.h"

bool weft_fourier_is_there(void)
{
    return false;
}

bool weft_fourier_serves(const weft_task_run *run)
{
    (void)run;
    return false;
}

int64_t weft_fourier_count_plans(const weft_cuda_queue *queue)
{
    (void)queue;
    return 0;
}

void weft_fourier_free(weft_cuda_queue *queue)
{
    (void)queue;
}

int weft_cuda_fft(const weft_task_run *run, weft_cuda_queue *queue)
{
    (void)run;
    (void)queue;
    return -1; /* none is sent here */
}
