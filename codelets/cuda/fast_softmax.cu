/* Softmax along the last dimension in fast mode: see softmax.cu. */
#include <math.h>

#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace
{

enum softmax_kind { SOFTMAX, LOG_SOFTMAX, BACKWARD, LOG_BACKWARD };

struct softmax_work {
    weft_device_call call;
    weft_fast_lines lines; /* the output's, then the inputs' */
};

template <softmax_kind kind, typename T, int width, typename Line, typename Lines>
__device__ void softmax_line(const Line &out, Lines &in, weft_team &team)
{
    T most;
    double sum;
    weft_find_most<T, width>(in, team, &most, &sum);
    const T factor = (T)(kind == SOFTMAX ? 1 / sum : log(sum));
    in.each([&](int first, int, const T (&values)[1][width]) {
        T result[width];
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            const T below = values[0][j] - most;
            result[j] = kind == SOFTMAX ? weft_fast_exp(below) * factor : below - factor;
        }
        out.store(first, result);
    });
}

template <softmax_kind kind, typename T, int width, typename Line, typename Lines>
__device__ void backward_line(const Line &out, Lines &in, weft_team &team)
{
    double total = 0;
    in.each([&](int, int here, const T (&values)[2][width]) {
        total += weft_sum_in_pairs<width>(
            here, [&](int j) { return kind == BACKWARD ? (double)values[0][j] * (double)values[1][j] : (double)values[0][j]; });
    });
    const T sum = (T)team.sum(total);
    in.each([&](int first, int, const T (&values)[2][width]) {
        T result[width];
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            result[j] = kind == BACKWARD ? values[1][j] * (values[0][j] - sum) : values[0][j] - weft_fast_exp(values[1][j]) * sum;
        }
        out.store(first, result);
    });
}

template <weft_dtype type, softmax_kind kind, int packs, bool kept>
__global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST, packs == 8 ? 1 : 2) run_softmax(const softmax_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    enum { TENSORS = kind >= BACKWARD ? 2 : 1 };
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.lines.count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size;
        weft_held_lines<type, TENSORS, packs, kept> in;
WEFT_UNROLL
        for (int t = 0; t < TENSORS; t++) {
            in.lines[t] = weft_fast_line_at<type>(work.call, work.lines, 1 + t, number);
        }
        in.start(team);
        const weft_fast_line<type> out = weft_fast_line_at<type>(work.call, work.lines, 0, number);
        if constexpr (kind >= BACKWARD) {
            backward_line<kind, T, of::width>(out, in, team);
        } else {
            softmax_line<kind, T, of::width>(out, in, team);
        }
    }
}

template <softmax_kind kind> struct softmax_kernels {
    template <weft_dtype type, int packs, bool kept> struct of {
        static auto kernel()
        {
            return run_softmax<type, kind, packs, kept>;
        }
    };
};

}

int weft_fast_softmax(weft_kernel_id kernel, const weft_device_call *call, weft_cuda_queue *queue)
{
    softmax_work work;
    work.call = *call;
    const int views[] = { 0, call->num_outputs, call->num_outputs + 1 }, dim = (int)call->numbers[0];
    if (dim != call->views[0].ndim - 1 || !weft_fast_lines_of(&work.lines, *call, dim, 1 + call->num_inputs, views)) {
        return WEFT_NOT_FAST;
    }
    switch (kernel) {
    case WEFT_KERNEL_softmax:
        return weft_launch_held<softmax_kernels<SOFTMAX>::of>(&work, work.lines.count, queue);
    case WEFT_KERNEL_log_softmax:
        return weft_launch_held<softmax_kernels<LOG_SOFTMAX>::of>(&work, work.lines.count, queue);
    case WEFT_KERNEL_softmax_backward:
        return weft_launch_held<softmax_kernels<BACKWARD>::of>(&work, work.lines.count, queue);
    case WEFT_KERNEL_log_softmax_backward:
        return weft_launch_held<softmax_kernels<LOG_BACKWARD>::of>(&work, work.lines.count, queue);
    default:
        return WEFT_NOT_FAST;
    }
}
