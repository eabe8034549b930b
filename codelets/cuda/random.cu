/* Random values, a thread for each element: the CPU's bits (cpu/random.c). */
#include <math.h>

#include "codelets/cuda/views.h"
#include "codelets/random_normal.h"

extern "C" {
#include "codelets/random.h"
}

namespace
{

struct random_work {
    weft_device_call call;
    uint64_t seed, offset;
    double own[2];       /* the kernel's scalars */
    uint64_t whole[2];   /* the same, packed */
    weft_network network;
};

/* The index in the whole tensor of element `index` of the part. */
__device__ uint64_t global_index(const weft_device_view &view, int64_t index)
{
    uint64_t place = 0, step = 1;
    for (int d = view.ndim - 1; d >= 0; d--) {
        int64_t rest = d > 0 ? weft_quotient(index, view.extent[d]) : 0;
        place += (uint64_t)(view.offset[d] + index - rest * view.extent[d]) * step;
        step *= (uint64_t)view.shape[d];
        index = rest;
    }
    return place;
}

/* The words of an element: one of four, or two. */
template <int per_block> __device__ void make_words(const random_work &work, uint64_t index, uint32_t own[])
{
    uint32_t words[WEFT_RANDOM_WORDS];
    weft_random_block(work.seed, work.offset, index / per_block, words);
    const int each = WEFT_RANDOM_WORDS / per_block, first = (int)(index % per_block) * each;
    for (int i = 0; i < WEFT_RANDOM_WORDS; i++) { /* without an index that is not constant */
        if (i / each == first / each) {
            own[i % each] = words[i];
        }
    }
}

struct uniform_wide {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t words[2];
        make_words<2>(work, index, words);
        const double low = work.own[0], high = work.own[1];
        double value = low + (high - low) * weft_unit_of_words(words);
        weft_set(work.call, 0, i, value < high || low == high ? value : nextafter(high, low));
    }
};

struct uniform_narrow {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t word;
        make_words<4>(work, index, &word);
        const double low = work.own[0], width = work.own[1] - work.own[0];
        float value = weft_f32_rounded_down(low + width * ((double)(word >> 8) * 0x1p-24));
        weft_device_place at = weft_place_of(work.call, 0, i);
        weft_dtype type = work.call.views[0].dtype;
        if (type == WEFT_F32) {
            ((float *)at.memory)[at.place] = value;
        } else {
            ((uint16_t *)at.memory)[at.place] = type == WEFT_BF16 ? weft_bf16_rounded_down(value) : weft_f16_rounded_down(value);
        }
    }
};

/* Two elements' words make two numbers. */
struct normal_wide {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t words[WEFT_RANDOM_WORDS];
        double pair[2];
        weft_random_block(work.seed, work.offset, index / 2, words);
        weft_normals_f64(words, pair);
        weft_set(work.call, 0, i, work.own[0] + work.own[1] * (index % 2 == 0 ? pair[0] : pair[1]));
    }
};

struct normal_narrow {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t words[2];
        float pair[2];
        make_words<2>(work, index / 2, words);
        weft_normals_f32(words, pair);
        weft_set(work.call, 0, i, (float)(work.own[0] + work.own[1] * (double)(index % 2 == 0 ? pair[0] : pair[1])));
    }
};

struct whole_number {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t words[2];
        make_words<2>(work, index, words);
        uint64_t fraction = (uint64_t)words[1] << 32 | words[0];
        weft_set(work.call, 0, i, (int64_t)(work.whole[0] + weft_high_product(fraction, work.whole[1])));
    }
};

struct chance {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t word;
        make_words<4>(work, index, &word);
        weft_set(work.call, 0, i, (uint8_t)((double)word * 0x1p-32 < work.own[0]));
    }
};

struct chances {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        uint32_t word;
        make_words<4>(work, index, &word);
        double p = weft_get<double>(work.call, weft_input(work.call, 0), i);
        bool valid = p >= 0 && p <= 1;
        if (!valid) {
            weft_device_report(work.call.error, (uint64_t)i, [&](weft_kernel_error *error) {
                error->problem = WEFT_PROBLEM_CHANCE;
                error->input = 0;
                error->number = p;
            });
        }
        weft_set(work.call, 0, i, (uint8_t)(valid && (double)word * 0x1p-32 < p));
    }
};

struct permutation {
    static __device__ void write(const random_work &work, int64_t i, uint64_t index)
    {
        const uint64_t n = (uint64_t)work.call.views[0].shape[0];
        uint64_t x = index;
        do { /* cycle walking: a cycle leads back into the range */
            x = weft_permuted(&work.network, x);
        } while (x >= n);
        weft_set(work.call, 0, i, (int64_t)x);
    }
};

template <typename Method> __global__ void run_random(const random_work work)
{
    const weft_device_view &out = work.call.views[0];
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        Method::write(work, i, global_index(out, i));
    }
}

int begin(random_work *work, const weft_task_run *run, weft_cuda_queue *queue)
{
    const double *own = run->scalars + WEFT_RANDOM_OWN;
    work->seed = weft_random_unpack(run->scalars + WEFT_RANDOM_SEED);
    work->offset = weft_random_unpack(run->scalars + WEFT_RANDOM_OFFSET);
    work->own[0] = own[0];
    work->own[1] = own[1];
    return weft_call_begin(&work->call, run, queue);
}

template <typename Method> int launch(const random_work &work, weft_cuda_queue *queue)
{
    int64_t count = work.call.views[0].count;
    return count == 0 ? 0 : weft_launch(run_random<Method>, count, queue->stream, work);
}

/* Rounds to a floating type. nvcc 13.0 leaves out (double)(float)value in code for the host, but for a volatile variable. */
double as_type(weft_dtype type, double value)
{
    const volatile float narrow = (float)value;
    return type == WEFT_F32    ? (double)narrow
           : type == WEFT_BF16 ? (double)weft_bf16_to_f32(weft_f64_to_bf16(value))
           : type == WEFT_F16  ? (double)weft_f16_to_f32(weft_f64_to_f16(value))
                               : value;
}

}

int weft_cuda_uniform(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    weft_dtype type = work.call.views[0].dtype;
    work.own[0] = as_type(type, work.own[0]);
    work.own[1] = as_type(type, work.own[1]);
    return failed != 0 ? failed : type == WEFT_F64 ? launch<uniform_wide>(work, queue) : launch<uniform_narrow>(work, queue);
}

int weft_cuda_normal(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    return failed != 0                                 ? failed
           : work.call.views[0].dtype == WEFT_F64 ? launch<normal_wide>(work, queue)
                                                  : launch<normal_narrow>(work, queue);
}

int weft_cuda_randint(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    work.whole[0] = weft_random_unpack(run->scalars + WEFT_RANDOM_OWN);
    work.whole[1] = weft_random_unpack(run->scalars + WEFT_RANDOM_OWN + 2);
    return failed != 0 ? failed : launch<whole_number>(work, queue);
}

int weft_cuda_randperm(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    work.network = weft_network_of(work.seed, work.offset, (uint64_t)work.call.views[0].shape[0]);
    return failed != 0 ? failed : launch<permutation>(work, queue);
}

int weft_cuda_bernoulli_scalar(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch<chance>(work, queue);
}

int weft_cuda_bernoulli(const weft_task_run *run, weft_cuda_queue *queue)
{
    random_work work;
    int failed = begin(&work, run, queue);
    bool any = work.call.views[0].count > 0;
    failed = failed != 0 || !any ? failed : weft_error_begin(&work.call.error, queue);
    failed = failed != 0 ? failed : launch<chances>(work, queue);
    return failed != 0 || !any ? failed : weft_error_end(work.call.error, queue);
}
