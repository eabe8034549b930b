/* Constants. */
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/vectors.h"

extern "C" {
#include "codelets/constant.h"
}

namespace
{

struct constant_work {
    int64_t count; /* vectors */
    weft_vector_plan<1> plan;
    void *target;
    uint4 vector;
};

__global__ void run_constant(const constant_work work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        weft_vector_store(work.plan, 0, work.target, weft_vector_at(work.plan, i), work.vector);
    }
}

}

int weft_cuda_constant(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_constant_args *args = (const weft_constant_args *)run->arguments;
    const int size = (int)weft_dtype_size(args->base.dtype);
    constant_work work = { 0, {}, run->operands[0], { 0, 0, 0, 0 } };
    if (args->count == 0) {
        return 0;
    }
    weft_device_box<1> box = { 1, { args->count }, { { 1 } } };
    work.plan.size[0] = size;
    weft_vector_plan_make(&work.plan, &box, &work.target, 1);
    work.count = work.plan.per_row;
    uint64_t bits = weft_constant_bits(args->base.dtype, args->value, args->rest);
    for (int bytes = size; bytes < (int)sizeof(bits); bytes *= 2) {
        bits = (bits & ((UINT64_C(1) << 8 * bytes) - 1)) | bits << 8 * bytes;
    }
    work.vector.x = work.vector.z = (unsigned)bits;
    work.vector.y = work.vector.w = (unsigned)(bits >> 32);
    return weft_launch(run_constant, work.count, queue->stream, work);
}
