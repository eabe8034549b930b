/* The table of a build without CUDA. */
#include "codelets/cuda/chain.h"
#include "codelets/cuda/pinned.h"
#include "codelets/cuda/products.h"

const weft_cuda_run weft_cuda_kernels[WEFT_KERNEL_COUNT] = { NULL };

int weft_cuda_count_devices(void)
{
    return -1;
}

int64_t weft_cuda_device_bytes(int device)
{
    (void)device;
    return 0;
}

int weft_cuda_device_of(const void *memory)
{
    (void)memory;
    return -1;
}

int weft_cuda_synchronize(int device)
{
    (void)device;
    return 0;
}

void weft_cuda_watch_begin(void)
{
}

int weft_cuda_stream_status(int device, void *stream)
{
    (void)device;
    (void)stream;
    return 0;
}

const char *weft_cuda_error_name(int failed)
{
    (void)failed;
    return "no CUDA";
}

int weft_cuda_views(const weft_task_run *run, weft_cuda_queue *queue)
{
    (void)run;
    (void)queue;
    return -1;
}

int weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[])
{
    (void)steps;
    (void)queue;
    (void)found;
    return -1;
}

bool weft_cuda_steps_use_scratch(const weft_cuda_steps *steps)
{
    (void)steps;
    return false;
}

int weft_cuda_scratch(weft_cuda_queue *queue, void **scratch, size_t *bytes)
{
    (void)queue;
    *scratch = NULL;
    *bytes = 0;
    return -1;
}

int weft_cuda_queue_reserve(weft_cuda_queue *queue)
{
    (void)queue;
    return 0;
}

void weft_cuda_queue_start(weft_cuda_queue *queue)
{
    (void)queue;
}

void weft_cuda_queue_free(weft_cuda_queue *queue)
{
    (void)queue;
}

bool weft_cuda_pin(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return false;
}

void weft_cuda_unpin(void *memory)
{
    (void)memory;
}
