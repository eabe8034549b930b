/* Values that follow from their indices, a thread for each element. */
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/ranges.h"
}

namespace
{

template <bool whole> __global__ void run_range(const weft_device_call call)
{
    const weft_device_view &out = call.views[0];
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        const int64_t index = out.offset[0] + i;
        if (!whole) {
            weft_set(call, 0, i, weft_range_real(call.scalars, out.shape[0], index));
        } else {
            weft_set(call, 0, i, weft_range_whole(call.scalars, index));
        }
    }
}

__global__ void run_eye(const weft_device_call call)
{
    const weft_device_view &out = call.views[0];
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        const int64_t row = weft_quotient(i, out.row_elements), column = i - row * out.row_elements;
        const bool one = out.offset[0] + row == out.offset[1] + column;
        weft_set(call, 0, i, (int64_t)one);
    }
}

}

int weft_cuda_range(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    weft_device_call_fill(&call, run);
    return weft_launch_elements(weft_dtype_is_whole(call.views[0].dtype) ? run_range<true> : run_range<false>, run, queue);
}

int weft_cuda_eye(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_eye, run, queue);
}
