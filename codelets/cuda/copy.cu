/* Copies and reductions of boxes. */
#include <string.h>

#include "codelets/cuda/box.h"
#include "codelets/cuda/kernels.h"

extern "C" {
#include "codelets/copy.h"
#include "codelets/half.h"
}

namespace
{

/* ---- copies -------------------------------------------------------------------------------------------- */

struct copy_work {
    int64_t count;
    weft_device_box<2> box; /* target, source */
    void *target;
    const void *source;
};

template <typename T> __global__ void run_copy(const copy_work work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        int64_t place[2];
        weft_find_places<2>(work.box, i, place);
        ((T *)work.target)[place[0]] = ((const T *)work.source)[place[1]];
    }
}

int launch_copy(const copy_work &work, size_t size, void *stream)
{
    bool contiguous = work.box.ndim == 1 && work.box.stride[0][0] == 1 && work.box.stride[1][0] == 1;
    if (contiguous || work.box.ndim == 0) {
        return (int)cudaMemcpyAsync(work.target, work.source, (size_t)work.count * size, cudaMemcpyDeviceToDevice,
                                    (cudaStream_t)stream);
    }
    switch (size) {
    case 1:
        return weft_launch(run_copy<uint8_t>, work.count, stream, work);
    case 2:
        return weft_launch(run_copy<uint16_t>, work.count, stream, work);
    case 4:
        return weft_launch(run_copy<uint32_t>, work.count, stream, work);
    default:
        return weft_launch(run_copy<uint64_t>, work.count, stream, work);
    }
}

}

int weft_cuda_copy(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_copy_args *args = (const weft_copy_args *)run->arguments;
    int failed = 0;
    for (int i = 1; i < run->num_operands && failed == 0; i++) {
        const weft_strided_box *box = &args->boxes[i - 1];
        copy_work work;
        work.box.ndim = 0;
        for (int d = 0; d < box->ndim; d++) {
            const int64_t strides[2] = { box->target_stride[d], box->source_stride[d] };
            weft_box_add(&work.box, box->extent[d], strides);
        }
        work.count = weft_box_count(work.box);
        work.target = (char *)run->operands[0] + args->target_offset[i - 1];
        work.source = run->operands[i];
        failed = work.count == 0 ? 0 : launch_copy(work, args->element_size, queue->stream);
    }
    return failed;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

namespace
{

struct reduce_work {
    int64_t count;
    weft_device_box<WEFT_MAX_OPERANDS> box; /* the target first */
    void *operands[WEFT_MAX_OPERANDS];
    int num_operands;
    weft_combine combine;
    bool accumulate;
    double scale;
};

namespace values
{
#define COMBINED(name, type, wide_, load_, store_, sum, prod, min, max)                                      \
    struct name {                                                                                            \
        typedef type stored;                                                                                 \
        typedef wide_ wide;                                                                                  \
        static __device__ wide load(const stored x)                                                          \
        {                                                                                                    \
            return load_(x);                                                                                 \
        }                                                                                                    \
        static __device__ stored store(const wide x)                                                         \
        {                                                                                                    \
            return store_(x);                                                                                \
        }                                                                                                    \
        static __device__ wide combine(weft_combine how, const wide a, const wide b)                         \
        {                                                                                                    \
            return how == WEFT_COMBINE_SUM    ? (sum)                                                        \
                   : how == WEFT_COMBINE_PROD ? (prod)                                                       \
                   : how == WEFT_COMBINE_MIN  ? (min)                                                        \
                                              : (max);                                                       \
        }                                                                                                    \
    };
#include "codelets/combinations.inc"
}

template <typename Values> __global__ void run_reduce(const reduce_work work)
{
    typedef typename Values::stored stored;
    typedef typename Values::wide wide;
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        int64_t place[WEFT_MAX_OPERANDS];
        weft_find_places<WEFT_MAX_OPERANDS>(work.box, i, place);
        stored *target = (stored *)work.operands[0] + place[0];
        wide value = Values::load(work.accumulate ? *target : ((const stored *)work.operands[1])[place[1]]);
        for (int k = 1; k < WEFT_MAX_OPERANDS; k++) { /* unrolled, so that places stay in registers */
            if (k < work.num_operands && (k > 1 || work.accumulate)) {
                value = Values::combine(work.combine, value,
                                        Values::load(((const stored *)work.operands[k])[place[k]]));
            }
        }
        *target = Values::store(work.scale == 1 ? value : (wide)((double)value * work.scale));
    }
}

typedef void (*reduce_kernel)(reduce_work);

reduce_kernel reduce_for(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
        return run_reduce<values::f64>;
    case WEFT_F32:
        return run_reduce<values::f32>;
    case WEFT_BF16:
        return run_reduce<values::bf16>;
    case WEFT_F16:
        return run_reduce<values::f16>;
    case WEFT_I64:
        return run_reduce<values::i64>;
    case WEFT_I32:
        return run_reduce<values::i32>;
    case WEFT_U8:
        return run_reduce<values::u8>;
    default:
        return run_reduce<values::boolean>;
    }
}

}

int weft_cuda_reduce(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_reduce_args *args = (const weft_reduce_args *)run->arguments;
    reduce_work work;
    work.box.ndim = 0;
    for (int d = 0; d < args->boxes[0].ndim; d++) {
        int64_t strides[WEFT_MAX_OPERANDS] = { args->boxes[0].target_stride[d] };
        for (int k = 1; k < WEFT_MAX_OPERANDS; k++) { /* of operands that are not there: as the first source */
            strides[k] = args->boxes[k < run->num_operands ? k - 1 : 0].source_stride[d];
        }
        weft_box_add(&work.box, args->boxes[0].extent[d], strides);
    }
    work.count = weft_box_count(work.box);
    work.num_operands = run->num_operands;
    for (int k = 0; k < WEFT_MAX_OPERANDS; k++) {
        work.operands[k] = k < run->num_operands ? run->operands[k] : NULL;
    }
    work.combine = args->combine;
    work.accumulate = args->accumulate;
    work.scale = args->scale;
    return work.count == 0 ? 0 : weft_launch(reduce_for(args->base.dtype), work.count, queue->stream, work);
}
