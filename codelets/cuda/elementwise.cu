/* Elementwise kernels: one for each expression of elementwise.inc and each type of arithmetic. */
#include "codelets/cuda/box.h"
#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/vectors.h"

extern "C" {
#include "codelets/elementwise.h"
}

namespace
{

enum { MAX_OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS };

/* A launch's argument. */
struct elementwise_work {
    int64_t count; /* vectors */
    weft_elementwise_box rows;
    weft_vector_plan<MAX_OPERANDS> plan;
    void *operands[MAX_OPERANDS]; /* the output first */
    weft_dtype types[MAX_OPERANDS], arithmetic;
    int narrow[MAX_OPERANDS]; /* the type to which an input is converted first; -1: none */
    double scalars[WEFT_MAX_SCALARS];
};

/* Vectors of all inputs at one index. */
template <int operands> struct input_vectors {
    uint4 input[operands];
};

template <int operands> __device__ input_vectors<operands> load_vectors(const elementwise_work &work, int64_t index)
{
    const weft_vector_span span = weft_vector_at(work.plan, index);
    input_vectors<operands> vectors;
    int64_t place[operands];
    weft_find_places<operands>(work.rows, span.row, place);
WEFT_UNROLL
    for (int k = 1; k < operands; k++) {
        vectors.input[k] = weft_vector_load(work.plan, k, (const char *)work.operands[k] + place[k] * work.plan.size[k], span);
    }
    return vectors;
}

__device__ void store_vector(const elementwise_work &work, int64_t index, uint4 vector)
{
    const weft_vector_span span = weft_vector_at(work.plan, index);
    int64_t place[1];
    weft_find_places<1>(work.rows, span.row, place);
    weft_vector_store(work.plan, 0, (char *)work.operands[0] + place[0] * work.plan.size[0], span, vector);
}

/* Part by part, so that the expression's code is there for the values of one part alone. */
template <typename Expression> __device__ uint4 compute(const elementwise_work &work, const input_vectors<1 + Expression::inputs> &vectors)
{
    typedef typename Expression::type T;
    typedef typename Expression::result R;
    const int operands = 1 + Expression::inputs, count = weft_together<T>::count;
    uint4 out = { 0, 0, 0, 0 };
WEFT_ROLLED
    for (int part = 0; part * count < work.plan.length; part++) {
        weft_values<T, count> inputs[3];
        weft_values<R, count> results;
WEFT_UNROLL
        for (int k = 1; k < operands; k++) {
            inputs[k - 1] = weft_unpack<T, count>(vectors.input[k], work.types[k], work.arithmetic, work.narrow[k], part);
        }
WEFT_UNROLL
        for (int j = 0; j < count; j++) {
            const T a = inputs[0].value[j], b = inputs[operands > 2 ? 1 : 0].value[j], c = inputs[operands > 3 ? 2 : 0].value[j];
            results.value[j] = Expression::of(a, b, c, work.scalars);
        }
        out = weft_pack<R, count>(out, work.types[0], Expression::result_type, part, results);
    }
    return out;
}

/* A thread loads two vectors, a block apart, before it computes the first of them: more of memory is under way. */
template <typename Expression> __global__ void run_elementwise(const elementwise_work work)
{
    const int64_t block = blockDim.x;
    for (int64_t i = 2 * block * blockIdx.x + threadIdx.x; i < work.count; i += 2 * block * gridDim.x) {
        auto vectors = load_vectors<1 + Expression::inputs>(work, i), next = vectors;
        if (i + block < work.count) {
            next = load_vectors<1 + Expression::inputs>(work, i + block);
        }
WEFT_ROLLED
        for (int64_t index = i; index <= i + block && index < work.count; index += block) {
            store_vector(work, index, compute<Expression>(work, vectors));
            vectors = next;
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
    weft_elementwise_merge(&work.rows, args, run->num_operands);
    if (weft_box_count(work.rows) == 0) {
        return 0;
    }
    for (int k = 0; k < run->num_operands; k++) {
        work.operands[k] = run->operands[k];
        work.types[k] = args->types[k];
        work.narrow[k] = args->converted >> k & 1 ? (int)args->common : -1;
        work.plan.size[k] = (int)weft_dtype_size(args->types[k]);
    }
    weft_vector_plan_make(&work.plan, &work.rows, work.operands, run->num_operands);
    work.count = weft_box_count(work.rows) * work.plan.per_row;
    work.arithmetic = args->base.dtype;
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        work.scalars[i] = run->scalars[i];
    }
    return weft_launch(kernel_for(run->kernel, args->base.dtype), (work.count + 1) / 2, queue->stream, work);
}
