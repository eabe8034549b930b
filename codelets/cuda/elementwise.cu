/* Elementwise kernels: one for each expression of elementwise.inc and each type of arithmetic. */
#include "codelets/cuda/box.h"
#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/kernels.h"

extern "C" {
#include "codelets/elementwise.h"
}

namespace
{

enum { MAX_OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS };

/* A launch's argument. */
struct elementwise_work {
    int64_t count;
    weft_elementwise_box box;
    void *operands[MAX_OPERANDS]; /* the output first */
    weft_dtype types[MAX_OPERANDS], arithmetic, common;
    unsigned converted; /* bit k: operand k */
    double scalars[WEFT_MAX_SCALARS];
};

/* The frequent types without a call for each element. */
template <typename T> __device__ T load(const elementwise_work &work, int k, int64_t place)
{
    bool narrows = (work.converted >> k & 1) != 0;
    if (work.types[k] == work.arithmetic && !narrows) {
        return ((const T *)work.operands[k])[place];
    }
    if (sizeof(T) == sizeof(float) && work.types[k] == WEFT_BF16 && !narrows) {
        return (T)bf16_to_f32(((const uint16_t *)work.operands[k])[place]);
    }
    T value = weft_load_as(T(), work.types[k], work.operands[k], place);
    return narrows ? weft_narrowed(work.common, value) : value;
}

template <typename Expression> __global__ void run_elementwise(const elementwise_work work)
{
    typedef typename Expression::type T;
    typedef typename Expression::result R;
    const int operands = 1 + Expression::inputs;
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        int64_t place[operands];
        weft_find_places<operands>(work.box, i, place);
        const T a = load<T>(work, 1, place[1]);
        const T b = operands > 2 ? load<T>(work, 2, place[operands > 2 ? 2 : 0]) : a;
        const T c = operands > 3 ? load<T>(work, 3, place[operands > 3 ? 3 : 0]) : a;
        const R value = Expression::of(a, b, c, work.scalars);
        if (work.types[0] == Expression::result_type) {
            ((R *)work.operands[0])[place[0]] = value;
        } else if (sizeof(R) == sizeof(float) && work.types[0] == WEFT_BF16) {
            ((uint16_t *)work.operands[0])[place[0]] = f32_to_bf16((float)value);
        } else {
            weft_store_from(work.types[0], work.operands[0], place[0], value);
        }
    }
}

typedef void (*elementwise_kernel)(elementwise_work);

/* By type of arithmetic, as weft_elementwise_loops. In the order of elementwise.inc. */
struct elementwise_kernels {
    elementwise_kernel f64, f32, i64;
};

#define KERNEL(name, type) run_elementwise<expressions::name##_##type>
#define WEFT_FLOATING(name, inputs, expression) { KERNEL(name, double), KERNEL(name, float), NULL },
#define WEFT_NUMBER(name, inputs, expression, integer)                                                       \
    { KERNEL(name, double), KERNEL(name, float), KERNEL(name, int64_t) },
#define WEFT_WHOLE(name, inputs, expression) { NULL, NULL, KERNEL(name, int64_t) },
#define WEFT_TRUTH(name, inputs, expression)                                                                 \
    { KERNEL(name, double), KERNEL(name, float), KERNEL(name, int64_t) },

const elementwise_kernels table[] = {
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"
};

elementwise_kernel kernel_for(weft_kernel_id kernel, weft_dtype arithmetic)
{
    const elementwise_kernels &kernels = table[kernel - WEFT_KERNEL_ELEMENTWISE];
    return arithmetic == WEFT_F64 ? kernels.f64 : arithmetic == WEFT_F32 ? kernels.f32 : kernels.i64;
}

}

/* ---- launch -------------------------------------------------------------------------------------------- */

int weft_cuda_elementwise(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_elementwise_args *args = (const weft_elementwise_args *)run->arguments;
    elementwise_work work;
    weft_elementwise_merge(&work.box, args, run->num_operands);
    work.count = weft_box_count(work.box);
    if (work.count == 0) {
        return 0;
    }
    for (int k = 0; k < MAX_OPERANDS; k++) {
        work.operands[k] = k < run->num_operands ? run->operands[k] : NULL;
        work.types[k] = k < run->num_operands ? args->types[k] : args->base.dtype;
    }
    work.arithmetic = args->base.dtype;
    work.common = args->common;
    work.converted = args->converted;
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        work.scalars[i] = run->scalars[i];
    }
    return weft_launch(kernel_for(run->kernel, args->base.dtype), work.count, queue->stream, work);
}
