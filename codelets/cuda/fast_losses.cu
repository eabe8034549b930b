/* Cross-entropy and its gradient in fast mode, a team of threads for each row: see losses.cu. */
#include "codelets/cuda/losses.cuh"

namespace
{

struct row_work {
    loss_work loss;
    weft_fast_lines lines; /* the logits', and the gradient's */
};

/* The number of the team's row, or that of none. */
__device__ int64_t row_of(const row_work &work, int64_t i)
{
    return i < work.loss.count ? work.loss.first + i : work.lines.count;
}

template <weft_dtype type, int packs, bool kept> __global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST, packs == 8 ? 1 : 2) run_cross_entropy(const row_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const weft_device_call &call = work.loss.call;
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.loss.count; first += weft_lines_step(team.size)) {
        const int64_t i = first + threadIdx.x / team.size, row = row_of(work, i);
        weft_held_lines<type, 1, packs, kept> in;
        in.lines[0] = weft_fast_line_at<type>(call, work.lines, 0, row);
        in.start(team);
        /* Read before the others wait for the row's sum: then nobody waits for this. */
        const bool ends = team.rank == 0 && row < work.lines.count;
        const int64_t target = ends ? target_of(work.loss, row, true) : (int64_t)NO_CLASS;
        const double own = target == NO_CLASS ? 0 : (double)of::load(in.lines[0].memory[target]);
        T most;
        double sum, total = 0;
        weft_find_most<T, of::width>(in, team, &most, &sum);
        if (call.scalars[WEFT_LOSS_SMOOTHING] != 0) {
            in.each([&](int, int here, const T (&values)[1][of::width]) {
                total += weft_sum_in_pairs<of::width>(here, [&](int j) { return (double)values[0][j]; });
            });
            total = team.sum(total);
        }
        if (ends) {
            const double logarithm = log(sum);
            keep_log_sum(call, row, (double)most, logarithm);
            keep_loss(work.loss, i, target == NO_CLASS ? 0 : combine(call, (double)most, logarithm, own, total));
        }
    }
}

/* One block. */
__global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST) run_total(const loss_work work)
{
    weft_team team(WEFT_TEAM_MOST);
    double total = 0;
    for (int64_t i = team.rank; i < work.count; i += team.size) {
        total += work.losses[i];
    }
    total = team.sum(total) + (work.first == 0 ? 0 : *work.total);
    __syncthreads(); /* all have read the total before */
    if (team.rank == 0 && !work.ends) {
        *work.total = total;
    } else if (team.rank == 0) {
        weft_set(work.call, 0, 0, begun(work.call) + scale_of(work) * total);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The gradient by an element that is not the target's: (e^(value - base) * scale - spread) * factor - rest. Of the target's: by its
 * probability, e^(value - log_sum) * share. */
template <typename T> struct slope {
    T base, scale, spread, factor, rest;
    double log_sum, share;
};

/* By the row's log-sum, as losses.cu. */
template <typename T> __device__ slope<T> slope_of_log_sum(double factor, double spread, double log_sum)
{
    const T high = (T)log_sum; /* its low bits count in the scale */
    return { high, (T)(factor * exp((double)high - log_sum)), 0, 1, (T)(factor * spread), log_sum, 1 };
}

template <typename T> __device__ slope<T> slope_of_sum(double factor, double spread, double most, double sum)
{
    return { (T)most, (T)(1 / sum), (T)spread, (T)factor, 0, most, 1 / sum };
}

/* The gradients of a row: `place` is the column of its target here, if it is. */
template <typename T, int width, typename Line, typename Lines>
__device__ void backward_row(const row_work &work, const Line &out, Lines &in, const weft_team &team, int64_t target, double factor, const slope<T> &by)
{
    typedef weft_element<Lines::type_of> of;
    const weft_device_call &call = work.loss.call;
    const int64_t place = target == NO_CLASS ? -1 : target - call.views[weft_input(call, 0)].offset[1];
    const bool owns = place >= 0 && place < out.length && (int)(place / width) % team.size == team.rank;
    const double own = owns ? (double)of::load(in.lines[0].memory[place]) : 0;
    in.each([&](int first, int, const T (&values)[1][width]) {
        T result[width];
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            result[j] = target == NO_CLASS ? (T)0 : by.factor * (weft_fast_exp(values[0][j] - by.base) * by.scale - by.spread) - by.rest;
        }
        out.store(first, result);
    });
    if (owns) {
        const double smoothing = call.scalars[WEFT_LOSS_SMOOTHING], spread = smoothing / (double)call.numbers[WEFT_LOSS_CLASSES];
        out.memory[place] = of::store((T)(factor * (exp(own - by.log_sum) * by.share - spread - (1 - smoothing))));
    }
}

template <weft_dtype type, int packs, bool kept>
__global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST, packs == 8 ? 1 : 2) run_cross_entropy_backward(const row_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const loss_work &loss = work.loss;
    const weft_device_call &call = loss.call;
    const double limit = sizeof(T) == sizeof(double) ? WEFT_LOSS_MAX_LOG_SUM_F64 : WEFT_LOSS_MAX_LOG_SUM_F32;
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < loss.count; first += weft_lines_step(team.size)) {
        const int64_t row = row_of(work, first + threadIdx.x / team.size);
        const bool here = row < work.lines.count, reports = team.rank == 0 && call.views[weft_input(call, 0)].offset[1] == 0;
        const int64_t target = here ? target_of(loss, row, reports) : (int64_t)NO_CLASS;
        const double factor = here ? factor_of(loss, row) : 0, spread = call.scalars[WEFT_LOSS_SMOOTHING] / (double)call.numbers[WEFT_LOSS_CLASSES];
        const double log_sum = here && loss.log_sums != 0 ? weft_get<double>(call, loss.log_sums, row) : 0;
        const bool has_log_sum = loss.log_sums != 0 && isfinite((T)factor) && fabs(log_sum) <= limit; /* as on CPUs */
        double most = here && loss.statistics != 0 ? weft_get<double>(call, loss.statistics, row) : 0;
        double sum = here && loss.statistics != 0 ? weft_get<double>(call, loss.statistics + 1, row) : 1;
        weft_held_lines<type, 1, packs, kept> in;
        in.lines[0] = weft_fast_line_at<type>(call, work.lines, 0, row);
        in.start(team);
        /* The rows of a warp go together; a team of several warps has one row. */
        if (loss.statistics == 0 && __ballot_sync(~0u, here && !has_log_sum) != 0) {
            T found;
            weft_find_most<T, of::width>(in, team, &found, &sum);
            most = (double)found;
        }
        const slope<T> by = has_log_sum ? slope_of_log_sum<T>(factor, spread, log_sum) : slope_of_sum<T>(factor, spread, most, sum);
        backward_row<T, of::width>(work, weft_fast_line_at<type>(call, work.lines, 1, row), in, team, target, factor, by);
    }
}

/* ---- launch -------------------------------------------------------------------------------------------- */

#define KERNELS(name)                                                                                                             \
    template <weft_dtype type, int packs, bool kept> struct kernels_of_##name {                                                   \
        static auto kernel()                                                                                                      \
        {                                                                                                                         \
            return name<type, packs, kept>;                                                                                       \
        }                                                                                                                         \
    };
KERNELS(run_cross_entropy)
KERNELS(run_cross_entropy_backward)

bool find_lines(row_work *work, const loss_work *loss, bool backward)
{
    const int views[] = { loss->call.num_outputs, 0 };
    work->loss = *loss;
    return weft_fast_lines_of(&work->lines, loss->call, 1, backward ? 2 : 1, views);
}

}

bool weft_fast_loss_fits(const weft_loss_work *loss, bool backward)
{
    row_work work;
    return (backward || loss->statistics == 0) && find_lines(&work, loss, backward);
}

int weft_fast_cross_entropy(const weft_loss_work *loss, weft_cuda_queue *queue)
{
    row_work work;
    find_lines(&work, loss, false);
    return weft_launch_held<kernels_of_run_cross_entropy>(&work, loss->count, queue);
}

int weft_fast_cross_entropy_backward(const weft_loss_work *loss, weft_cuda_queue *queue)
{
    row_work work;
    find_lines(&work, loss, true);
    work.loss.first = 0;
    work.loss.count = work.lines.count;
    return weft_launch_held<kernels_of_run_cross_entropy_backward>(&work, work.lines.count, queue);
}

int weft_fast_loss_total(const weft_loss_work *work, weft_cuda_queue *queue)
{
    return weft_launch_blocks(run_total, 1, WEFT_TEAM_MOST, queue->stream, *work);
}
