/* Statistics of attention's rows in fast mode: see attention_backward.cu. */
#include "codelets/cuda/attention.cuh"
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace
{

struct statistics_work {
    weft_device_call call;
    weft_fast_lines lines;          /* the gradient's and the result's */
    weft_fast_lines output, states; /* of the same rows */
};

/* The logarithm of the sum of exponentials: it is there, or follows from states. */
template <weft_dtype wide> __device__ double log_sum_in(const weft_fast_line<wide> &states)
{
    if (states.length == 1) {
        return (double)states.memory[0];
    }
    const weft_device_place from = { (char *)states.memory, 0 };
    double sum, most;
    attention::combine<typename weft_element<wide>::arithmetic>(wide, from, states.length / WEFT_ATTENTION_STATE, WEFT_ATTENTION_STATE,
                                                                &sum, &most);
    return attention::log_sum_of(sum, most);
}

/* A team for each row. Products of 16-bit numbers are exact in single precision; those of a pack are added in it. */
template <weft_dtype type, int packs, bool kept>
__global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST) run_statistics(const statistics_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    constexpr weft_dtype wide = type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.lines.count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size;
        weft_held_lines<type, 2, packs, kept> in;
WEFT_UNROLL
        for (int t = 0; t < 2; t++) {
            in.lines[t] = weft_fast_line_at<type>(work.call, work.lines, t, number);
        }
        in.start(team);
        double total = 0;
        in.each([&](int, int here, const T (&values)[2][of::width]) {
            total += (double)weft_in_pairs<of::width, T>(
                here, (T)0, [&](int j) { return values[0][j] * values[1][j]; }, [](T a, T b) { return a + b; });
        });
        const double product = team.sum(total);
        if (number < work.lines.count && team.rank == 0) {
            const weft_fast_line<wide> out = weft_fast_line_at<wide>(work.call, work.output, 0, number);
            out.memory[WEFT_ATTENTION_LOG_SUM] = (T)log_sum_in<wide>(weft_fast_line_at<wide>(work.call, work.states, 0, number));
            out.memory[WEFT_ATTENTION_PRODUCT] = (T)product;
        }
    }
}

template <weft_dtype type, int packs, bool kept> struct statistics_kernels {
    static auto kernel()
    {
        return run_statistics<type, packs, kept>;
    }
};

bool find_lines(weft_fast_lines *lines, const weft_device_call &call, int count, const int views[])
{
    return weft_fast_lines_of(lines, call, call.views[views[0]].ndim - 1, count, views);
}

}

int weft_fast_statistics(const weft_device_call *call, weft_cuda_queue *queue)
{
    statistics_work work;
    work.call = *call;
    const int output = 0, state = call->num_outputs, values[] = { state + 1, state + 2 };
    if (!find_lines(&work.lines, *call, 2, values) || !find_lines(&work.output, *call, 1, &output) ||
        !find_lines(&work.states, *call, 1, &state)) {
        return WEFT_NOT_FAST;
    }
    const weft_dtype wide = work.lines.type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    if (work.output.type != wide || work.states.type != wide || work.output.count != work.lines.count ||
        work.states.count != work.lines.count) {
        return WEFT_NOT_FAST;
    }
    return weft_launch_held<statistics_kernels>(&work, work.lines.count, queue);
}
