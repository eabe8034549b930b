/* Kernels of the stand-in's own test, with and without the barrier that they need. */
#include "barrier_kernels.h"

#include "codelets/cuda/launch.h"

namespace
{

struct work {
    double *target;
    const double *source;
};

/* Each block's values backwards. */
template <bool has_barrier> __global__ void run_reverse(const work w)
{
    __shared__ double values[BARRIER_THREADS];
    const int64_t begin = (int64_t)blockIdx.x * BARRIER_THREADS;
    values[threadIdx.x] = w.source[begin + threadIdx.x];
    if (has_barrier) {
        __syncthreads();
    }
    w.target[begin + threadIdx.x] = values[BARRIER_THREADS - 1 - threadIdx.x];
}

/* Each warp's sum, in its first thread. */
__global__ void run_sum(const work w)
{
    const int64_t i = (int64_t)blockIdx.x * BARRIER_THREADS + threadIdx.x;
    double value = w.source[i];
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(~0u, value, distance);
    }
    w.target[i] = value;
}

}

int barrier_reverse(bool has_barrier, void *target, const void *source, unsigned blocks, void *stream)
{
    const work w = { (double *)target, (const double *)source };
    return weft_launch_blocks(has_barrier ? run_reverse<true> : run_reverse<false>, blocks, BARRIER_THREADS, stream, w);
}

int barrier_sum(void *target, const void *source, unsigned blocks, void *stream)
{
    const work w = { (double *)target, (const double *)source };
    return weft_launch_blocks(run_sum, blocks, BARRIER_THREADS, stream, w);
}
