/* Kernels' CUDA C++ for the C++ compiler: a kernel is a function that is called for each thread. */
#ifndef WEFT_TESTS_STAND_IN_KERNELS_H
#define WEFT_TESTS_STAND_IN_KERNELS_H

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "stand_in.h"

#undef __global__
#undef __device__
#undef __noinline__
#define __global__
#define __device__
#define __noinline__ __attribute__((noinline))

static inline int atomicCAS(int *at, int expected, int value)
{
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

static inline int atomicExch(int *at, int value)
{
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}

static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static thread_local struct {
    unsigned x;
} threadIdx, blockIdx, blockDim, gridDim;

/* The indices below `count` in the order of the threads. */
static inline std::vector<unsigned> stand_in_indices(unsigned count, int direction, std::mt19937_64 &random)
{
    std::vector<unsigned> indices(count);
    std::iota(indices.begin(), indices.end(), 0u);
    if (direction < 0) {
        std::reverse(indices.begin(), indices.end());
    } else if (direction == 0) {
        std::shuffle(indices.begin(), indices.end(), random);
    }
    return indices;
}

template <typename Work>
static void stand_in_run(void (*kernel)(void), const void *argument, unsigned blocks, unsigned threads,
                         stand_in_order order)
{
    Work work;
    std::memcpy(static_cast<void *>(&work), argument, sizeof(work));
    std::mt19937_64 random(order.seed);
    gridDim.x = blocks;
    blockDim.x = threads;
    std::vector<unsigned> in_block = stand_in_indices(threads, order.direction, random);
    for (unsigned block : stand_in_indices(blocks, order.direction, random)) {
        blockIdx.x = block;
        for (unsigned thread : in_block) {
            threadIdx.x = thread;
            reinterpret_cast<void (*)(Work)>(kernel)(work);
        }
    }
}

template <typename Work>
static int weft_launch_on(void (*kernel)(Work), unsigned blocks, unsigned threads, void *stream, const Work &work)
{
    static_assert(sizeof(Work) <= STAND_IN_MAX_ARGUMENT && std::is_trivially_copyable<Work>::value,
                  "a kernel's argument is plain data, within CUDA's limit");
    return stand_in_launch(stand_in_run<Work>, reinterpret_cast<void (*)(void)>(kernel), &work, sizeof(work), blocks,
                           threads, stream);
}

#endif
