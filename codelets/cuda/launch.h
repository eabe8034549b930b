/* Launching kernels: the one place that does. A kernel takes one structure by value, and goes through `count`
 * indices by for (int64_t i = weft_first_index(); i < count; i += weft_index_step()). */
#ifndef WEFT_CODELETS_CUDA_LAUNCH_H
#define WEFT_CODELETS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Bytes that the arguments of a kernel may have on every device. */
enum { WEFT_LAUNCH_BYTES = 4096 };

#ifdef __CUDACC__
/* The address of an access, which has to be a multiple of its bytes: with another one it ends the kernel on a device, and the program
 * on the stand-in. */
#define WEFT_ALIGNED(memory, bytes) (memory)
/* The loop after it: all of its rounds one after the other; as it is written. */
#define WEFT_UNROLL _Pragma("unroll")
#define WEFT_ROLLED _Pragma("unroll 1")
/* Threads in a block of the kernel at most, and blocks at least for whose registers a multiprocessor has room. */
#define WEFT_THREADS_AT_MOST(threads, ...) __launch_bounds__(threads, ##__VA_ARGS__)

template <typename Work>
static int weft_launch_on(void (*kernel)(Work), unsigned blocks, unsigned threads, void *stream, const Work &work)
{
    static_assert(sizeof(Work) <= WEFT_LAUNCH_BYTES, "");
    kernel<<<blocks, threads, 0, (cudaStream_t)stream>>>(work);
    return (int)cudaGetLastError();
}

/* Launches a kernel with barriers or shuffles, which the stand-in runs differently. */
template <typename Work>
static int weft_launch_blocks(void (*kernel)(Work), unsigned blocks, unsigned threads, void *stream, const Work &work)
{
    return weft_launch_on(kernel, blocks, threads, stream, work);
}
#else
#define WEFT_ALIGNED(memory, bytes) stand_in_aligned(memory, bytes)
#define WEFT_UNROLL
#define WEFT_ROLLED
#define WEFT_THREADS_AT_MOST(threads, ...)
#include "stand_in_kernels.h" /* of tests/device: the same files compiled for a device that is not there */
#endif

static __device__ inline int64_t weft_first_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline int64_t weft_index_step()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* A thread for each of `count` indices, at least 1, up to a limit from which on threads take several. */
template <typename Work>
static int weft_launch(void (*kernel)(Work), int64_t count, void *stream, const Work &work)
{
    const int64_t threads = 256, most = 1 << 16;
    int64_t blocks = (count + threads - 1) / threads;
    return weft_launch_on(kernel, (unsigned)(blocks < most ? blocks : most), (unsigned)threads, stream, work);
}

#endif
