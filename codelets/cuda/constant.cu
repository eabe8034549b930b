/* Constants. */
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/launch.h"

extern "C" {
#include "codelets/constant.h"
}

namespace
{

struct constant_work {
    int64_t count;
    void *target;
    uint64_t bits;
};

template <typename T> __global__ void run_constant(const constant_work work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        ((T *)work.target)[i] = (T)work.bits;
    }
}

}

int weft_cuda_constant(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_constant_args *args = (const weft_constant_args *)run->arguments;
    const constant_work work = { args->count, run->operands[0], weft_constant_bits(args->base.dtype, args->value) };
    if (work.count == 0) {
        return 0;
    }
    switch (weft_dtype_size(args->base.dtype)) {
    case 1:
        return weft_launch(run_constant<uint8_t>, work.count, queue->stream, work);
    case 2:
        return weft_launch(run_constant<uint16_t>, work.count, queue->stream, work);
    case 4:
        return weft_launch(run_constant<uint32_t>, work.count, queue->stream, work);
    default:
        return weft_launch(run_constant<uint64_t>, work.count, queue->stream, work);
    }
}
