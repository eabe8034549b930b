/* Chains of elementwise kernels: each thread interprets the chain's steps for a vector of elements. */
#include <string.h>

#include "codelets/cuda/chain.h"
#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/vectors.h"

extern "C" {
#include "codelets/elementwise.h"
}

namespace
{

/* A launch's argument. */
struct chain_work {
    int64_t count; /* vectors */
    weft_chain chain;
    weft_vector_plan<WEFT_CHAIN_MEMORIES> plan; /* the values of each step fit into a vector, too */
};

template <typename T> struct step_values {
    weft_values<T, weft_together<T>::count> of[WEFT_CHAIN_INPUTS];
};

/* An elementwise kernel's results; 0 or 1 of those with truth values. `loop`: whether the code is there for each value. */
#define FUNCTION(T)                                                                                          \
    static __device__ weft_values<T, weft_together<T>::count> compute(int kernel, const step_values<T> &in, const double *scalars)

#define CASE(name, T, loop)                                                                                      \
    case WEFT_KERNEL_##name:                                                                                 \
loop                                                                                                         \
        for (int j = 0; j < weft_together<T>::count; j++) {                                                  \
            results.value[j] = (T)expressions::name##_##T::of(in.of[0].value[j], in.of[1].value[j], in.of[2].value[j], scalars); \
        }                                                                                                    \
        break;

FUNCTION(double)
{
    weft_values<double, weft_together<double>::count> results = {};
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression) CASE(name, double, WEFT_ROLLED)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, double, WEFT_ROLLED)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, double, WEFT_ROLLED)
#define WEFT_WHOLE(name, inputs, expression)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return results;
}

FUNCTION(float)
{
    weft_values<float, weft_together<float>::count> results = {};
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression) CASE(name, float, WEFT_UNROLL)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, float, WEFT_UNROLL)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, float, WEFT_UNROLL)
#define WEFT_WHOLE(name, inputs, expression)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return results;
}

FUNCTION(int64_t)
{
    weft_values<int64_t, weft_together<int64_t>::count> results = {};
    switch (kernel) {
#define WEFT_FLOATING(name, inputs, expression)
#define WEFT_NUMBER(name, inputs, expression, integer) CASE(name, int64_t, WEFT_ROLLED)
#define WEFT_TRUTH(name, inputs, expression) CASE(name, int64_t, WEFT_ROLLED)
#define WEFT_WHOLE(name, inputs, expression) CASE(name, int64_t, WEFT_ROLLED)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
    }
    return results;
}

/* The vector of a step's results from those of its inputs. */
template <typename T> __device__ uint4 execute(const weft_chain_step &step, int length, const double *scalars, const uint4 inputs[])
{
    constexpr int count = weft_together<T>::count;
    constexpr weft_dtype arithmetic = weft_dtype_of<T>::value;
    uint4 out = { 0, 0, 0, 0 };
WEFT_ROLLED
    for (int part = 0; part * count < length; part++) {
        step_values<T> in;
WEFT_UNROLL
        for (int k = 0; k < WEFT_CHAIN_INPUTS; k++) {
            if (k < step.num_inputs) {
                const int narrow = step.converted >> (1 + k) & 1 ? step.common : -1;
                in.of[k] = weft_unpack<T, count>(inputs[k], (weft_dtype)step.types[1 + k], arithmetic, narrow, part);
            } else {
                in.of[k] = in.of[0];
            }
        }
        out = weft_pack<T, count>(out, (weft_dtype)step.types[0], arithmetic, part, compute(step.kernel, in, scalars));
    }
    return out;
}

__device__ uint4 execute_any(const weft_chain_step &step, int length, const double *scalars, const uint4 inputs[])
{
    return step.arithmetic == WEFT_F32   ? execute<float>(step, length, scalars, inputs)
           : step.arithmetic == WEFT_F64 ? execute<double>(step, length, scalars, inputs)
                                         : execute<int64_t>(step, length, scalars, inputs);
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

__device__ char *row_at(const chain_work &work, int memory, const int64_t place[])
{
    return (char *)work.chain.memories[memory] + place[memory] * work.plan.size[memory];
}

__device__ void run_step(const chain_work &work, int number, const weft_vector_span &span, const int64_t place[], uint4 values[])
{
    const weft_chain_step &step = work.chain.steps[number];
    uint4 inputs[WEFT_CHAIN_INPUTS];
WEFT_UNROLL
    for (int k = 0; k < WEFT_CHAIN_INPUTS; k++) {
        const int from = step.inputs[k];
        if (k < step.num_inputs) {
            inputs[k] = from < 0 ? values[-1 - from] : weft_vector_load(work.plan, from, row_at(work, from, place), span);
        }
    }
    const uint4 out = execute_any(step, work.plan.length, work.chain.scalars[number], inputs);
    values[number] = out;
    if (step.output >= 0) {
        weft_vector_store(work.plan, step.output, row_at(work, step.output, place), span, out);
    }
}

/* A thread executes all steps for a vector before it goes on to the next one. */
__global__ void run_chain(const __grid_constant__ chain_work work)
{
    int64_t place[WEFT_CHAIN_MEMORIES];
    uint4 values[WEFT_CHAIN_STEPS];
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        const weft_vector_span span = weft_vector_at(work.plan, i);
        find_places(work.chain, span.row, place);
WEFT_ROLLED
        for (int s = 0; s < work.chain.num_steps; s++) {
            run_step(work, s, span, place, values);
        }
    }
}

}

int weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue)
{
    if (chain->count == 0) {
        return 0;
    }
    chain_work work = { 0, *chain, {} };
    int largest = 1;
    for (int s = 0; s < chain->num_steps; s++) {
        const int size = (int)weft_dtype_size((weft_dtype)chain->steps[s].types[0]);
        largest = size > largest ? size : largest;
    }
    for (int m = 0; m < chain->num_memories; m++) {
        work.plan.size[m] = (int)weft_dtype_size((weft_dtype)chain->types[m]);
        if (chain->ndim == 0) { /* one element */
            work.chain.stride[m][0] = 1;
        }
    }
    if (chain->ndim == 0) {
        work.chain.ndim = 1;
        work.chain.extent[0] = 1;
    }
    weft_vector_plan_make(&work.plan, &work.chain, chain->memories, chain->num_memories, largest);
    work.count = weft_box_count(work.chain) * work.plan.per_row;
    return weft_launch(run_chain, work.count, queue->stream, work);
}

/* ---- one kernel on several tensors ------------------------------------------------------------------------ */

namespace
{

enum { THREADS = 256, VECTORS = 4 * THREADS }; /* of a block */

/* A launch's argument. */
struct alike_work {
    weft_vector_plan<WEFT_ALIKE_MEMORIES> plan; /* of all sets; a set is a row */
    weft_chain_step step;
    double scalars[WEFT_MAX_SCALARS];
    int count;
    struct set {
        void *memories[WEFT_ALIKE_MEMORIES];
        int64_t elements;
        int32_t block; /* the first one */
    } of[WEFT_ALIKE_MOST];
};

__global__ void run_alike(const __grid_constant__ alike_work work)
{
    int number = 0;
    while (number + 1 < work.count && work.of[number + 1].block <= (int32_t)blockIdx.x) {
        number++;
    }
    const alike_work::set &own = work.of[number];
    const int length = work.plan.length;
    const int64_t first = (int64_t)((int32_t)blockIdx.x - own.block) * VECTORS;
    for (int64_t i = first + threadIdx.x; i < first + VECTORS && i * length < own.elements; i += blockDim.x) {
        const int64_t rest = own.elements - i * length;
        const weft_vector_span span = { 0, i * length, 0, rest < length ? (int)rest : length };
        uint4 inputs[WEFT_CHAIN_INPUTS];
WEFT_UNROLL
        for (int k = 0; k < WEFT_CHAIN_INPUTS; k++) {
            if (k < work.step.num_inputs) {
                inputs[k] = weft_vector_load(work.plan, 1 + k, own.memories[1 + k], span);
            }
        }
        weft_vector_store(work.plan, 0, own.memories[0], span, execute_any(work.step, length, work.scalars, inputs));
    }
}

}

int weft_alike_launch(const weft_alike *alike, weft_cuda_queue *queue)
{
    alike_work work = {};
    int64_t blocks = 0, addresses[WEFT_ALIKE_MEMORIES] = { 0 };
    int largest = 1;
    work.step = { (uint16_t)alike->kernel, (uint8_t)(alike->num_memories - 1), (uint8_t)alike->arithmetic, (uint8_t)alike->common,
                  (uint8_t)alike->converted, {}, {}, 0 };
    work.count = alike->count;
    memcpy(work.scalars, alike->scalars, sizeof(work.scalars));
    for (int k = 0; k < alike->num_memories; k++) {
        work.step.types[k] = (uint8_t)alike->types[k];
        work.plan.size[k] = (int)weft_dtype_size(alike->types[k]);
        largest = work.plan.size[k] > largest ? work.plan.size[k] : largest;
    }
    const int length = work.plan.length = WEFT_VECTOR_BYTES / largest;
    for (int i = 0; i < alike->count; i++) {
        const weft_alike_set &from = alike->of[i];
        work.of[i].elements = from.elements;
        work.of[i].block = (int32_t)blocks;
        blocks += (from.elements + (int64_t)VECTORS * length - 1) / ((int64_t)VECTORS * length);
        for (int k = 0; k < alike->num_memories; k++) {
            work.of[i].memories[k] = from.memories[k];
            addresses[k] |= (int64_t)(uintptr_t)from.memories[k];
        }
    }
    for (int k = 0; k < alike->num_memories; k++) {
        const int size = work.plan.size[k], access = alike->step[k] == 1 ? weft_common_alignment(addresses[k], length * size) : size;
        work.plan.step[k] = alike->step[k];
        work.plan.access[k] = access < size ? size : access;
        work.plan.accesses[k] = length * size / work.plan.access[k];
    }
    return weft_launch_on(run_alike, (unsigned)blocks, THREADS, queue->stream, work);
}
