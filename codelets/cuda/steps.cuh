/* Steps of optimisers of several parameters as one launch: a table of addresses in its argument, and blocks of threads for each
 * parameter. A thread computes what a launch for one parameter computes: the same bits. */
#ifndef WEFT_CODELETS_CUDA_STEPS_CUH
#define WEFT_CODELETS_CUDA_STEPS_CUH

#include <string.h>

#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/views.h"

namespace steps
{

/* The parameter, three states, the gradient: the outputs first. An argument has at most 4 KB. */
enum { MAX_TENSORS = 5, MAX_SCALARS = 12, MOST_STEPS = 64, ELEMENTS = 1024 };

struct one_of_many {
    void *tensors[MAX_TENSORS];
    int64_t count;
    int32_t block; /* the first block of threads, of which each has ELEMENTS elements */
};

struct many_work {
    double scalars[MAX_SCALARS];
    weft_dtype types[MAX_TENSORS]; /* the same of all steps */
    int steps;
    one_of_many of[MOST_STEPS];
};

/* Step::of(values, types, scalars): of one element, the gradient behind Step::outputs values. plain: all tensors have type T. */
template <typename Step, typename T, bool plain> __global__ void run_together(const __grid_constant__ many_work work)
{
    int number = 0;
    while (number + 1 < work.steps && work.of[number + 1].block <= (int32_t)blockIdx.x) {
        number++;
    }
    const one_of_many &own = work.of[number];
    const int64_t first = (int64_t)((int32_t)blockIdx.x - own.block) * ELEMENTS;
    const int64_t end = first + ELEMENTS < own.count ? first + ELEMENTS : own.count;
    for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        T values[Step::outputs + 1];
        for (int k = 0; k <= Step::outputs; k++) {
            values[k] = plain ? ((const T *)own.tensors[k])[i] : weft_load_as(T(), work.types[k], own.tensors[k], i);
        }
        Step::of(values, work.types, work.scalars);
        for (int k = 0; k < Step::outputs; k++) {
            if (plain) {
                ((T *)own.tensors[k])[i] = values[k];
            } else {
                weft_store_from(work.types[k], own.tensors[k], i, values[k]);
            }
        }
    }
}

/* Each view has its elements in one panel, whose address is in the call. */
static inline bool are_whole(const weft_device_call &call)
{
    bool whole = call.table == NULL;
    for (int k = 0; k < call.num_outputs + call.num_inputs; k++) {
        const weft_device_view &view = call.views[k];
        whole = whole && (view.ndim == 0 || (view.offset[0] + view.row_shift) % view.panel_rows + view.extent[0] <= view.panel_rows);
    }
    return whole;
}

/* Whether the tensors of both have no bytes in common. */
static inline bool are_apart(const many_work &many, const one_of_many &a, const one_of_many &b, int tensors)
{
    bool apart = true;
    for (int i = 0; i < tensors; i++) {
        const char *from = (const char *)a.tensors[i], *to = from + a.count * (int64_t)weft_dtype_size(many.types[i]);
        for (int k = 0; k < tensors; k++) {
            const char *other = (const char *)b.tensors[k];
            apart = apart && (to <= other || other + b.count * (int64_t)weft_dtype_size(many.types[k]) <= from);
        }
    }
    return apart;
}

/* Adds the first step, or one that can be one launch with those before. */
static inline bool add(many_work *many, const weft_device_call &call, const double scalars[MAX_SCALARS], int64_t *blocks)
{
    constexpr int64_t MOST_BLOCKS = 1 << 30;
    const int tensors = call.num_outputs + call.num_inputs;
    one_of_many own = { { NULL }, call.views[0].count, (int32_t)*blocks };
    const int64_t end = *blocks + (own.count + ELEMENTS - 1) / ELEMENTS;
    bool fits = many->steps < MOST_STEPS && own.count > 0 && end <= MOST_BLOCKS && are_whole(call);
    for (int k = 0; k < tensors && fits; k++) {
        own.tensors[k] = call.panels[call.views[k].first_panel];
        many->types[k] = many->steps == 0 ? call.views[k].dtype : many->types[k];
        fits = many->types[k] == call.views[k].dtype;
    }
    if (many->steps == 0) {
        memcpy(many->scalars, scalars, sizeof(many->scalars));
    }
    fits = fits && memcmp(many->scalars, scalars, sizeof(many->scalars)) == 0;
    for (int i = 0; i < many->steps && fits; i++) {
        fits = are_apart(*many, many->of[i], own, tensors);
    }
    if (fits) {
        many->of[many->steps++] = own;
        *blocks = end;
    }
    return fits;
}

/* Step: as for run_together(), for both types. */
template <template <typename> class Step> int launch(const many_work &many, int64_t blocks, void *stream)
{
    int wide = 0, narrow = 0;
    for (int k = 0; k <= Step<float>::outputs; k++) {
        wide += many.types[k] == WEFT_F64;
        narrow += many.types[k] == WEFT_F32;
    }
    const unsigned grid = (unsigned)blocks, threads = 256;
    return narrow == Step<float>::outputs + 1 ? weft_launch_on(run_together<Step<float>, float, true>, grid, threads, stream, many)
           : wide == 0                        ? weft_launch_on(run_together<Step<float>, float, false>, grid, threads, stream, many)
           : wide == Step<float>::outputs + 1 ? weft_launch_on(run_together<Step<double>, double, true>, grid, threads, stream, many)
                                              : weft_launch_on(run_together<Step<double>, double, false>, grid, threads, stream, many);
}

/* The first of `count` runs, and those behind it that can be one launch with it. *launched: how many; 0: not even the first.
 * begin(call, scalars, run): fills both in, and says whether it can be one; launch(many, blocks, call): of the first. */
template <typename Begin, typename Launch>
int launch_together(const weft_task_run runs[], int count, int *launched, Begin begin, Launch launch)
{
    many_work many = {};
    weft_device_call first, call;
    int64_t blocks = 0;
    bool fits = true;
    *launched = 0;
    for (int i = 0; i < count && fits && runs[i].kernel == runs[0].kernel && runs[i].num_operands <= WEFT_DEVICE_PANELS; i++) {
        double scalars[MAX_SCALARS] = { 0 };
        fits = begin(&call, scalars, &runs[i]);
        first = i == 0 ? call : first;
        fits = fits && memcmp(call.numbers, first.numbers, sizeof(first.numbers)) == 0 && call.num_outputs == first.num_outputs &&
               add(&many, call, scalars, &blocks);
    }
    *launched = many.steps;
    return many.steps == 0 ? 0 : launch(many, blocks, first);
}

}

#endif
