/* The table of a build without CUDA. */
#include "codelets/cuda/kernels.h"

const weft_cuda_run weft_cuda_kernels[WEFT_KERNEL_COUNT] = { NULL };

int weft_cuda_count_devices(void)
{
    return -1;
}

const char *weft_cuda_error_name(int failed)
{
    (void)failed;
    return "no CUDA";
}

void weft_cuda_queue_free(weft_cuda_queue *queue)
{
    (void)queue;
}
