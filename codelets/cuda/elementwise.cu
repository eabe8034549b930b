/* Elementwise kernels: one for each expression of elementwise.inc and each type of arithmetic. */
#include "codelets/cuda/box.h"
#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/vectors.h"

#include <string.h>

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

/* ---- flat ------------------------------------------------------------------------------------------------ */

/* Most calls: in single precision, of one or two dimensions, in which each operand lies without gaps along the last one, or has one
 * element for all of it. A thread takes QUADS_EACH times four elements, and nothing is repeated: half of the registers of
 * run_elementwise(), so that twice as many threads wait for memory. */
enum { QUAD = 4, QUADS_EACH = 2, FLAT_THREADS = 256 };

struct flat_work {
    int64_t quads, per_row, length; /* of a row: quads, elements */
    char *operands[MAX_OPERANDS];
    int64_t row_step[MAX_OPERANDS]; /* elements, from one row to the next */
    bool repeats[MAX_OPERANDS];     /* one element for all of a row */
    weft_dtype types[MAX_OPERANDS]; /* WEFT_F32, WEFT_BF16 or WEFT_F16; the output's also WEFT_BOOL */
    double scalars[WEFT_MAX_SCALARS];
};

typedef weft_values<float, QUAD> quad;

__device__ float widened(weft_dtype type, uint32_t bits)
{
    return type == WEFT_BF16 ? weft_as_float(bits << 16) : f16_to_f32((uint16_t)bits);
}

__device__ uint16_t narrowed(weft_dtype type, float value)
{
    return type == WEFT_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
}

__device__ float load_one(const flat_work &work, int k, int64_t place)
{
    const void *memory = work.operands[k];
    return work.types[k] == WEFT_F32 ? ((const float *)memory)[place] : widened(work.types[k], ((const uint16_t *)memory)[place]);
}

/* Elements after the row's end are any values. */
__device__ quad load_quad(const flat_work &work, int k, int64_t row, int64_t column)
{
    const int64_t place = row * work.row_step[k] + (work.repeats[k] ? 0 : column);
    const weft_dtype type = work.types[k];
    quad values;
    if (work.repeats[k] || column + QUAD > work.length) {
WEFT_UNROLL
        for (int j = 0; j < QUAD; j++) {
            values.value[j] = work.repeats[k] ? load_one(work, k, place) : column + j < work.length ? load_one(work, k, place + j) : 0.0f;
        }
    } else if (type == WEFT_F32) {
        weft_unpack_own(*(const uint4 *)WEFT_ALIGNED(work.operands[k] + place * 4, 16), &values);
    } else {
        const uint2 two = *(const uint2 *)WEFT_ALIGNED(work.operands[k] + place * 2, 8);
        values = { widened(type, two.x & 0xffffu), widened(type, two.x >> 16), widened(type, two.y & 0xffffu), widened(type, two.y >> 16) };
    }
    return values;
}

__device__ void store_one(const flat_work &work, int64_t place, float value)
{
    if (work.types[0] == WEFT_F32) {
        ((float *)work.operands[0])[place] = value;
    } else {
        ((uint16_t *)work.operands[0])[place] = narrowed(work.types[0], value);
    }
}

__device__ void store_one(const flat_work &work, int64_t place, uint8_t value)
{
    ((uint8_t *)work.operands[0])[place] = value;
}

__device__ void store_whole(const flat_work &work, int64_t place, const quad &values)
{
    const weft_dtype type = work.types[0];
    if (type == WEFT_F32) {
        *(uint4 *)WEFT_ALIGNED(work.operands[0] + place * 4, 16) = weft_pack_own(values);
        return;
    }
    uint32_t bits[QUAD];
WEFT_UNROLL
    for (int j = 0; j < QUAD; j++) {
        bits[j] = narrowed(type, values.value[j]);
    }
    *(uint2 *)WEFT_ALIGNED(work.operands[0] + place * 2, 8) = { bits[0] | bits[1] << 16, bits[2] | bits[3] << 16 };
}

__device__ void store_whole(const flat_work &work, int64_t place, const weft_values<uint8_t, QUAD> &values)
{
    *(uint32_t *)WEFT_ALIGNED(work.operands[0] + place, 4) = weft_pack_own(values).x;
}

template <typename R> __device__ void store_quad(const flat_work &work, int64_t row, int64_t column, const weft_values<R, QUAD> &values)
{
    const int64_t place = row * work.row_step[0] + column;
    if (column + QUAD <= work.length) {
        store_whole(work, place, values);
        return;
    }
WEFT_UNROLL
    for (int j = 0; j < QUAD; j++) {
        if (column + j < work.length) {
            store_one(work, place + j, values.value[j]);
        }
    }
}

template <typename Expression> __global__ void WEFT_THREADS_AT_MOST(FLAT_THREADS) run_flat(const flat_work work)
{
    const int64_t first = (int64_t)blockIdx.x * QUADS_EACH * FLAT_THREADS + threadIdx.x;
    quad inputs[QUADS_EACH][Expression::inputs];
    int64_t rows[QUADS_EACH], columns[QUADS_EACH];
WEFT_UNROLL
    for (int q = 0; q < QUADS_EACH; q++) {
        const int64_t index = first + q * FLAT_THREADS;
        rows[q] = index < work.per_row ? 0 : weft_quotient(index, work.per_row);
        columns[q] = (index - rows[q] * work.per_row) * QUAD;
        if (index < work.quads) {
WEFT_UNROLL
            for (int k = 0; k < Expression::inputs; k++) {
                inputs[q][k] = load_quad(work, 1 + k, rows[q], columns[q]);
            }
        }
    }
WEFT_UNROLL
    for (int q = 0; q < QUADS_EACH; q++) {
        weft_values<typename Expression::result, QUAD> results;
WEFT_UNROLL
        for (int j = 0; j < QUAD; j++) {
            results.value[j] = Expression::of(inputs[q][0].value[j], inputs[q][Expression::inputs > 1 ? 1 : 0].value[j],
                                              inputs[q][Expression::inputs > 2 ? 2 : 0].value[j], work.scalars);
        }
        if (first + q * FLAT_THREADS < work.quads) {
            store_quad(work, rows[q], columns[q], results);
        }
    }
}

/* ---- which kernel ---------------------------------------------------------------------------------------- */

typedef void (*elementwise_kernel)(elementwise_work);
typedef void (*flat_kernel)(flat_work);

/* By type of arithmetic, as weft_elementwise_loops. In the order of elementwise.inc. */
struct elementwise_kernels {
    elementwise_kernel f64, f32, i64;
    flat_kernel flat;
};

#define KERNEL(name, type) run_elementwise<expressions::name##_##type>
#define FLAT(name) run_flat<expressions::name##_float>
#define WEFT_FLOATING(name, inputs, expression) { KERNEL(name, double), KERNEL(name, float), NULL, FLAT(name) },
#define WEFT_NUMBER(name, inputs, expression, integer)                                                       \
    { KERNEL(name, double), KERNEL(name, float), KERNEL(name, int64_t), FLAT(name) },
#define WEFT_WHOLE(name, inputs, expression) { NULL, NULL, KERNEL(name, int64_t), NULL },
#define WEFT_TRUTH(name, inputs, expression)                                                                 \
    { KERNEL(name, double), KERNEL(name, float), KERNEL(name, int64_t), FLAT(name) },

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

namespace
{

bool is_flat_type(weft_dtype type)
{
    return type == WEFT_F32 || type == WEFT_BF16 || type == WEFT_F16;
}

/* Whether run_flat() computes the call. `box` has at least one dimension. */
bool flatten(flat_work *flat, const elementwise_work &work, const weft_elementwise_box &box, bool of_truth)
{
    const int last = box.ndim - 1;
    if (box.ndim > 2 || (last == 1 && box.extent[1] % QUAD != 0) || !(of_truth ? work.types[0] == WEFT_BOOL : is_flat_type(work.types[0]))) {
        return false;
    }
    flat->length = box.extent[last];
    flat->per_row = (flat->length + QUAD - 1) / QUAD;
    flat->quads = (last == 1 ? box.extent[0] : 1) * flat->per_row;
    for (int k = 0; k < box.num_operands; k++) {
        const int64_t size = (int64_t)weft_dtype_size(work.types[k]), step = box.stride[k][last], row_step = last == 1 ? box.stride[k][0] : 0;
        const bool aligned = (int64_t)(uintptr_t)work.operands[k] % (QUAD * size) == 0 && row_step % QUAD == 0;
        if ((k > 0 && !is_flat_type(work.types[k])) || work.narrow[k] >= 0 || !(step == 1 ? aligned : step == 0 && k > 0)) {
            return false;
        }
        flat->operands[k] = (char *)work.operands[k];
        flat->types[k] = work.types[k];
        flat->row_step[k] = row_step;
        flat->repeats[k] = step == 0;
    }
    memcpy(flat->scalars, work.scalars, sizeof(flat->scalars));
    return true;
}

int launch_flat(const flat_work &flat, const flat_kernel kernel, weft_cuda_queue *queue)
{
    const int64_t each = QUADS_EACH * FLAT_THREADS;
    return weft_launch_on(kernel, (unsigned)((flat.quads + each - 1) / each), (unsigned)FLAT_THREADS, queue->stream, flat);
}

}

int weft_cuda_elementwise(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_elementwise_args *args = (const weft_elementwise_args *)run->arguments;
    elementwise_work work;
    flat_work flat;
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
    memcpy(work.scalars, run->scalars, sizeof(work.scalars));
    work.arithmetic = args->base.dtype;
    const flat_kernel kernel = work.arithmetic == WEFT_F32 ? table[run->kernel - WEFT_KERNEL_ELEMENTWISE].flat : NULL;
    if (kernel != NULL && flatten(&flat, work, work.rows, weft_kernel_infos[run->kernel].truth)) {
        return launch_flat(flat, kernel, queue);
    }
    weft_vector_plan_make(&work.plan, &work.rows, work.operands, run->num_operands);
    work.count = weft_box_count(work.rows) * work.plan.per_row;
    return weft_launch(kernel_for(run->kernel, args->base.dtype), (work.count + 1) / 2, queue->stream, work);
}
