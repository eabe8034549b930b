/* Kernels' CUDA C++ for the C++ compiler: a kernel is a function that is called for each thread. */
#ifndef WEFT_TESTS_STAND_IN_KERNELS_H
#define WEFT_TESTS_STAND_IN_KERNELS_H

#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "stand_in.h"

#undef __global__
#undef __device__
#undef __host__
#undef __noinline__
#undef __shared__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __shared__ static thread_local /* blocks of a kernel run one after the other */

static inline int atomicCAS(int *at, int expected, int value)
{
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

static inline int atomicExch(int *at, int value)
{
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}

template <typename T> static inline T atomicAdd(T *at, T value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

static inline void __threadfence()
{
#ifdef __SANITIZE_THREAD__ /* which knows no fences */
    static int fence;
    __atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* The address of an access, which has to be a multiple of its size. */
template <typename T> static T *stand_in_aligned(T *memory, size_t bytes)
{
    if (reinterpret_cast<uintptr_t>(memory) % bytes != 0) {
        std::fprintf(stderr, "stand-in: an access of %zu bytes at an address that is no multiple of that\n", bytes);
        std::abort();
    }
    return memory;
}

/* Not static: functions that several files have in common are linked once. */
struct stand_in_index {
    unsigned x;
};
inline thread_local stand_in_index threadIdx, blockIdx, blockDim, gridDim;

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

/* ---- threads that wait for each other ------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STAND_IN_JUMPS = 0 }; /* sanitizers follow contexts, not jumps between stacks */
#else
enum { STAND_IN_JUMPS = 1 };
#endif

struct stand_in_jump {
    jmp_buf to;
};

/* A thread of a block. Contexts are switched with a call of the operating system, jumps without, so a fibre is entered as a
 * context and resumed by a jump. */
struct stand_in_fibre {
    enum { STACK = 1 << 16 };
    ucontext_t context;
    stand_in_jump waiting;
    bool entered = false, ended = false;
    uint64_t exchanged = 0; /* by shuffles */
    std::unique_ptr<char[]> stack{ new char[STACK] };

    stand_in_fibre();
};

/* A block whose threads are fibres: each runs until it reaches a barrier, or its end, then the next one does. */
struct stand_in_block {
    ucontext_t scheduler = {}; /* AddressSanitizer reads its stack, which nobody sets */
    stand_in_jump between;
    std::deque<stand_in_fibre> fibres; /* a context points into itself, so it stays where it is */
    std::function<void()> body;
};

/* Kept from launch to launch, because to make 256 stacks takes longer than most kernels. */
inline thread_local stand_in_block stand_in_block_of_thread;
inline thread_local stand_in_block *stand_in_this_block = nullptr;

/* From a thread back to the scheduler, until it is resumed. */
static inline void stand_in_leave(stand_in_block *block)
{
    if (STAND_IN_JUMPS == 0) {
        swapcontext(&block->fibres[threadIdx.x].context, &block->scheduler);
    } else if (_setjmp(block->fibres[threadIdx.x].waiting.to) == 0) {
        _longjmp(block->between.to, 1);
    }
}

static inline void stand_in_enter(stand_in_fibre &fibre)
{
    if (fibre.entered) {
        _longjmp(fibre.waiting.to, 1);
    }
    fibre.entered = true;
    setcontext(&fibre.context);
}

/* Runs thread i until it leaves. Not inline: a jump restores the registers of this function alone. */
static __attribute__((noinline)) void stand_in_resume(stand_in_block *block, unsigned i)
{
    threadIdx.x = i;
    if (STAND_IN_JUMPS == 0) {
        swapcontext(&block->scheduler, &block->fibres[i].context);
    } else if (_setjmp(block->between.to) == 0) {
        stand_in_enter(block->fibres[i]);
    }
}

/* A fibre runs one thread of block after block. */
static inline void stand_in_run_threads()
{
    for (;;) {
        stand_in_this_block->body();
        stand_in_this_block->fibres[threadIdx.x].ended = true;
        stand_in_leave(stand_in_this_block);
    }
}

inline stand_in_fibre::stand_in_fibre()
{
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = STACK;
    makecontext(&context, stand_in_run_threads, 0);
}

static inline void stand_in_wait()
{
    stand_in_block *block = stand_in_this_block;
    if (block == nullptr) {
        std::fputs("stand-in: a barrier in a kernel that was not launched by weft_launch_blocks()\n", stderr);
        std::abort();
    }
    stand_in_leave(block);
}

static inline void __syncthreads()
{
    stand_in_wait();
}

/* The value that thread `other` of the block gives; all threads of a warp come here together. */
template <typename T> static T stand_in_exchange(T value, unsigned other)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "what a shuffle passes on");
    stand_in_block *block = stand_in_this_block;
    const unsigned own = threadIdx.x;
    stand_in_wait(); /* the former values have been read */
    std::memcpy(&block->fibres[own].exchanged, &value, sizeof(T));
    stand_in_wait();
    std::memcpy(&value, &block->fibres[other].exchanged, sizeof(T));
    return value;
}

/* The value of the thread `distance` further in the warp; of one that is not there: its own. */
template <typename T> static T __shfl_down_sync(unsigned, T value, unsigned distance)
{
    unsigned own = threadIdx.x, lane = own % 32;
    return stand_in_exchange(value, lane + distance < 32 && own + distance < blockDim.x ? own + distance : own);
}

static inline void __syncwarp()
{
    stand_in_wait();
}

/* Bit i: what thread i of the warp gives. */
static inline unsigned __ballot_sync(unsigned, bool own)
{
    stand_in_block *block = stand_in_this_block;
    unsigned bits = 0, first = threadIdx.x / 32 * 32;
    stand_in_wait();
    block->fibres[threadIdx.x].exchanged = own;
    stand_in_wait();
    for (unsigned i = 0; i < 32 && first + i < blockDim.x; i++) {
        bits |= (unsigned)block->fibres[first + i].exchanged << i;
    }
    return bits;
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

/* The value of the warp's thread number `lane`. */
template <typename T> static T __shfl_sync(unsigned, T value, int lane)
{
    return stand_in_exchange(value, threadIdx.x / 32 * 32 + (unsigned)lane);
}

/* All threads of the current block, each round in another order. */
static inline void stand_in_run_block(stand_in_block &block, int direction, std::mt19937_64 &random)
{
    const unsigned count = blockDim.x;
    stand_in_this_block = &block;
    while (block.fibres.size() < count) {
        block.fibres.emplace_back();
    }
    for (unsigned i = 0; i < count; i++) {
        block.fibres[i].ended = false;
    }
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (unsigned i : stand_in_indices(count, direction, random)) {
            if (!block.fibres[i].ended) {
                stand_in_resume(&block, i);
                waiting = waiting || !block.fibres[i].ended;
            }
        }
    }
    stand_in_this_block = nullptr;
}

template <typename Work>
static void stand_in_run_blocks(void (*kernel)(void), const void *argument, unsigned blocks, unsigned threads,
                                stand_in_order order)
{
    Work work;
    std::memcpy(static_cast<void *>(&work), argument, sizeof(work));
    std::mt19937_64 random(order.seed);
    gridDim.x = blocks;
    blockDim.x = threads;
    stand_in_block &state = stand_in_block_of_thread;
    state.body = [&] { reinterpret_cast<void (*)(Work)>(kernel)(work); };
    for (unsigned block : stand_in_indices(blocks, order.direction, random)) {
        blockIdx.x = block;
        stand_in_run_block(state, order.direction, random);
    }
}

/* ---- threads on their own ------------------------------------------------------------------------------ */

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

/* Of a kernel with barriers or shuffles. */
template <typename Work>
static int weft_launch_blocks(void (*kernel)(Work), unsigned blocks, unsigned threads, void *stream, const Work &work)
{
    static_assert(sizeof(Work) <= STAND_IN_MAX_ARGUMENT && std::is_trivially_copyable<Work>::value,
                  "a kernel's argument is plain data, within CUDA's limit");
    return stand_in_launch(stand_in_run_blocks<Work>, reinterpret_cast<void (*)(void)>(kernel), &work, sizeof(work),
                           blocks, threads, stream);
}

#endif
