/* Chains of elementwise kernels: each thread interprets the chain's steps for its elements. */
#include "codelets/cuda/box.h"
#include "codelets/cuda/chain.h"
#include "codelets/cuda/expressions.cuh"

extern "C" {
#include "codelets/elementwise.h"
}

namespace
{

/* A step's value, as memory of its type would have it. */
union chain_value {
    double f64;
    int64_t i64;
    float f32;
    uint16_t half;
    uint8_t byte;
};

/* An elementwise kernel's result for one element; 0 or 1 of those with truth values. */
#define FUNCTION(T) static __device__ T compute(int kernel, const T a, const T b, const T c, const double *scalars)

#define CASE(name, T)                                                                                        \
    case WEFT_KERNEL_##name:                                                                                 \
        return (T)expressions::name##_##T::of(a, b, c, scalars);

FUNCTION(double)
{
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression) CASE(name, double)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, double)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, double)
#define WEFT_WHOLE(name, inputs, expression)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return 0;
}

FUNCTION(float)
{
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression) CASE(name, float)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, float)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, float)
#define WEFT_WHOLE(name, inputs, expression)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return 0;
}

FUNCTION(int64_t)
{
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, int64_t)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, int64_t)
#define WEFT_WHOLE(name, inputs, expression) CASE(name, int64_t)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return 0;
}

template <typename T>
__device__ T input(const weft_chain &chain, const weft_chain_step &step, int k, const int64_t place[], const chain_value values[])
{
    const int from = step.inputs[k];
    const void *memory = from < 0 ? (const void *)&values[-1 - from] : chain.memories[from];
    const int64_t at = from < 0 ? 0 : place[from];
    const weft_dtype type = (weft_dtype)step.types[1 + k];
    const bool narrows = (step.converted >> (1 + k) & 1) != 0;
    if (type == weft_dtype_of<T>::value && !narrows) {
        return ((const T *)memory)[at];
    }
    T value = weft_load_as(T(), type, memory, at);
    return narrows ? weft_narrowed((weft_dtype)step.common, value) : value;
}

template <typename T> __device__ void store(weft_dtype type, void *memory, int64_t at, T value)
{
    if (type == weft_dtype_of<T>::value) {
        ((T *)memory)[at] = value;
    } else {
        weft_store_from(type, memory, at, value);
    }
}

template <typename T> __device__ void execute(const weft_chain &chain, int number, const int64_t place[], chain_value values[])
{
    const weft_chain_step &step = chain.steps[number];
    const T a = input<T>(chain, step, 0, place, values);
    const T b = step.num_inputs > 1 ? input<T>(chain, step, 1, place, values) : a;
    const T c = step.num_inputs > 2 ? input<T>(chain, step, 2, place, values) : a;
    const T value = compute(step.kernel, a, b, c, chain.scalars[number]);
    const weft_dtype type = (weft_dtype)step.types[0];
    store(type, &values[number], 0, value);
    if (step.output >= 0) {
        store(type, chain.memories[step.output], place[step.output], value);
    }
}

__device__ void find_places(const weft_chain &chain, int64_t index, int64_t place[])
{
    for (int m = 0; m < chain.num_memories; m++) {
        place[m] = 0;
    }
    for (int d = chain.ndim - 1; d >= 0; d--) {
        int64_t rest = d > 0 ? weft_quotient(index, chain.extent[d]) : 0;
        for (int m = 0; m < chain.num_memories; m++) {
            place[m] += (index - rest * chain.extent[d]) * chain.stride[m][d];
        }
        index = rest;
    }
}

__global__ void run_chain(const weft_chain chain)
{
    int64_t place[WEFT_CHAIN_MEMORIES];
    chain_value values[WEFT_CHAIN_STEPS];
    for (int64_t i = weft_first_index(); i < chain.count; i += weft_index_step()) {
        find_places(chain, i, place);
        for (int s = 0; s < chain.num_steps; s++) {
            const int arithmetic = chain.steps[s].arithmetic;
            if (arithmetic == WEFT_F32) {
                execute<float>(chain, s, place, values);
            } else if (arithmetic == WEFT_F64) {
                execute<double>(chain, s, place, values);
            } else {
                execute<int64_t>(chain, s, place, values);
            }
        }
    }
}

}

int weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue)
{
    return chain->count == 0 ? 0 : weft_launch(run_chain, chain->count, queue->stream, *chain);
}
