/* Losses and their gradients, a thread or, where rows are long, a warp for each row: see cpu/losses.c. Sums over rows are added in
 * their order. */
#include <math.h>

#include "codelets/cuda/losses.cuh"
#include "codelets/cuda/products.h"
#include "codelets/cuda/views.h"

namespace
{

enum { THREADS = 256 };

/* ---- losses -------------------------------------------------------------------------------------------- */

template <typename T> struct loss_of_line {
    static __device__ double of(const loss_work &work, int64_t row)
    {
        const weft_device_call &call = work.call;
        const int64_t target = target_of(work, row, true);
        if (target == NO_CLASS && !keeps_log_sums(call)) {
            return 0;
        }
        const weft_device_vectors lines = weft_device_vectors_along(call, weft_input(call, 0), 1, 1);
        const weft_device_vector<T> x(call, lines, row);
        auto value = [&](int64_t i) { return x[i]; };
        const double most = weft_device_max<T>(lines.length, value);
        const double logarithm = log(weft_device_sum_exp_short<T>(lines.length, most, value));
        keep_log_sum(call, row, most, logarithm);
        if (target == NO_CLASS) {
            return 0;
        }
        const double total = call.scalars[WEFT_LOSS_SMOOTHING] == 0
                                 ? 0
                                 : weft_device_sum(lines.length, [&](int64_t i) { return (double)x[i]; });
        return combine(call, most, logarithm, (double)x[target], total);
    }
};

/* The same by a warp: one of its threads reports. */
template <typename T, bool direct> __device__ double loss_by_warp(const loss_work &work, const weft_device_vectors &lines, int64_t row)
{
    const weft_device_call &call = work.call;
    const int64_t target = target_of(work, row, weft_warp_thread() == 0);
    if (target == NO_CLASS && !keeps_log_sums(call)) {
        return 0;
    }
    const weft_device_line<T, direct> x(call, lines, row);
    auto value = [&](int64_t i) { return x[i]; };
    const double most = weft_warp_max<T>(lines.length, value);
    const double logarithm = log(weft_warp_sum_exp_short<T>(lines.length, most, value));
    if (weft_warp_thread() == 0) {
        keep_log_sum(call, row, most, logarithm);
    }
    if (target == NO_CLASS) {
        return 0;
    }
    const double total =
        call.scalars[WEFT_LOSS_SMOOTHING] == 0 ? 0 : weft_warp_sum(lines.length, [&](int64_t i) { return (double)x[i]; });
    return combine(call, most, logarithm, (double)x[target], total);
}

struct loss_of_statistics {
    static __device__ double of(const loss_work &work, int64_t row)
    {
        const weft_device_call &call = work.call;
        const double most = weft_get<double>(call, work.statistics, row);
        const double logarithm = log(weft_get<double>(call, work.statistics + 1, row));
        keep_log_sum(call, row, most, logarithm);
        if (target_of(work, row, false) == NO_CLASS) {
            return 0;
        }
        return combine(call, most, logarithm, weft_get<double>(call, weft_input(call, 0), row),
                       work.mean == 0 ? 0 : weft_get<double>(call, work.mean, row));
    }
};

struct value_of_target {
    static __device__ double of(const loss_work &work, int64_t row)
    {
        const weft_device_view &values = work.call.views[weft_input(work.call, 0)];
        const bool reports = values.offset[1] == 0 && (values.extent[1] > 0 || values.shape[1] == 0);
        const int64_t column = target_of(work, row, reports) - values.offset[1];
        const bool here = column >= 0 && column < values.extent[1];
        return here ? weft_get<double>(work.call, weft_input(work.call, 0), row * values.extent[1] + column) : 0;
    }
};

template <typename Loss> __global__ void run_each(const loss_work work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        keep_loss(work, i, Loss::of(work, work.first + i));
    }
}

template <typename T, bool direct> __global__ void run_each_by_warp(const loss_work work)
{
    const weft_device_vectors lines = weft_device_vectors_along(work.call, weft_input(work.call, 0), 1, 1);
    for (int64_t i = weft_first_warp(); i < work.count; i += weft_warp_step()) {
        const double loss = loss_by_warp<T, direct>(work, lines, work.first + i);
        if (weft_warp_thread() == 0) {
            keep_loss(work, i, loss);
        }
    }
}

/* The values of THREADS rows after the other, added by the block's first thread: `add` gets each in turn. */
template <typename Value, typename Add> __device__ void in_order(int64_t count, Value value, Add add)
{
    __shared__ double values[THREADS];
    for (int64_t first = 0; first < count; first += THREADS) {
        const int64_t own = first + threadIdx.x;
        values[threadIdx.x] = own < count ? value(own) : 0;
        __syncthreads();
        const int some = threadIdx.x != 0 ? 0 : count - first < THREADS ? (int)(count - first) : (int)THREADS;
#pragma unroll 8
        for (int i = 0; i < some; i++) {
            add(values[i]);
        }
        __syncthreads();
    }
}

/* One block. */
__global__ void run_total(const loss_work work)
{
    double total = work.first == 0 ? 0 : *work.total;
    in_order(work.count, [&](int64_t i) { return work.losses[i]; }, [&](double loss) { total += loss; });
    if (threadIdx.x == 0 && !work.ends) {
        *work.total = total;
    } else if (threadIdx.x == 0) {
        weft_set(work.call, 0, 0, begun(work.call) + scale_of(work) * total);
    }
}

__global__ void run_count_targets(const loss_work work)
{
    const weft_device_call &call = work.call;
    const int targets = weft_input(call, 0);
    const int64_t rows = call.views[targets].rows;
    double count = 0;
    in_order(rows < THREADS ? rows : (int64_t)THREADS,
             [&](int64_t own) {
                 int64_t counted = 0;
                 for (int64_t row = own; row < rows; row += THREADS) {
                     counted += weft_get<int64_t>(call, targets, row) != call.numbers[WEFT_LOSS_IGNORED];
                 }
                 return (double)counted;
             },
             [&](double counted) { count += counted; });
    if (threadIdx.x == 0) {
        weft_set(call, 0, 0, begun(call) + count);
    }
}

/* The squared differences of `count` elements that follow each other in both inputs, in the blocks of cpu/losses.c. */
__device__ double square_distance(const weft_device_call &call, int64_t begin, int64_t count, double total)
{
    const int64_t block = 512;
    in_order((count + block - 1) / block,
             [&](int64_t number) {
                 const int64_t first = begin + number * block, rest = begin + count - first;
                 return weft_device_sum(rest < block ? rest : block, [&](int64_t i) {
                     const double difference = weft_get<double>(call, weft_input(call, 0), first + i) -
                                               weft_get<double>(call, weft_input(call, 1), first + i);
                     return difference * difference;
                 });
             },
             [&](double sum) { total += sum; });
    return total;
}

__global__ void run_sum_square_distance(const loss_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_view &a = call.views[weft_input(call, 0)], &b = call.views[weft_input(call, 1)];
    double total = 0;
    for (int64_t row = 0, rows; row < a.rows; row += rows) {
        const int64_t of_a = a.ndim == 0 ? 1 : weft_rows_together(a, row), of_b = b.ndim == 0 ? 1 : weft_rows_together(b, row);
        rows = of_a < of_b ? of_a : of_b;
        total = square_distance(call, row * a.row_elements, rows * a.row_elements, total);
    }
    if (threadIdx.x == 0) {
        weft_set(call, 0, 0, begun(call) + call.scalars[0] * total);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* How the gradient by an element comes from its value: `factor` is that by the row's loss, `spread` the probability that smoothing
 * gives to each class. */
template <typename T> struct log_sum_scale {
    double factor, spread, log_sum;

    __device__ T of(T value) const
    {
        const T high = (T)log_sum; /* its low bits count in the factor */
        const T own = (T)(factor * exp((double)high - log_sum));
        return own * weft_device_exp_short((T)(value - high)) - (T)(factor * spread);
    }
    __device__ double probability(T value) const
    {
        return exp((double)value - log_sum);
    }
};

template <typename T> struct sum_scale {
    double factor, spread, most, sum;

    __device__ T of(T value) const
    {
        return (T)factor * (weft_device_exp((T)(value - (T)most)) * (T)(1 / sum) - (T)spread);
    }
    __device__ double probability(T value) const
    {
        return exp((double)value - most) / sum;
    }
};

/* The elements of one row from `begin` on by steps. */
template <typename T, typename Line, typename Scale>
__device__ void backward_elements(const loss_work &work, int64_t place, const Line &result, const Line &x, int64_t begin, int64_t step,
                                  const Scale &scale)
{
    const int64_t n = work.call.views[0].extent[1];
    const double smoothing = work.call.scalars[WEFT_LOSS_SMOOTHING];
    enum { AHEAD = 4 }; /* loads, which wait for no store */
    for (int64_t first = begin; first < n; first += AHEAD * step) {
        T values[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int64_t i = first + u * step;
            values[u] = i < n ? x[i] : (T)0;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int64_t i = first + u * step;
            if (i < n) {
                result.set(i, i == place ? (T)(scale.factor * (scale.probability(values[u]) - scale.spread - (1 - smoothing)))
                                         : scale.of(values[u]));
            }
        }
    }
}

/* The gradient of one row. A log-sum of use is given, or the largest value and the sum of e^(value - most) in the statistics, or found by
 * `most_of` and `sum_of`. */
template <typename T, typename Line, typename Most, typename Sum>
__device__ void backward_row(const loss_work &work, int64_t row, int64_t target, const Line &result, const Line &x, int64_t begin,
                             int64_t step, Most most_of, Sum sum_of)
{
    const weft_device_call &call = work.call;
    const int64_t n = call.views[0].extent[1];
    if (target == NO_CLASS) {
        for (int64_t i = begin; i < n; i += step) {
            result.set(i, 0);
        }
        return;
    }
    const int64_t place = target - call.views[weft_input(call, 0)].offset[1];
    const double factor = factor_of(work, row), spread = call.scalars[WEFT_LOSS_SMOOTHING] / (double)call.numbers[WEFT_LOSS_CLASSES];
    const double log_sum = work.log_sums != 0 ? weft_get<double>(call, work.log_sums, row) : NAN;
    /* An infinite factor is multiplied by differences: the difference of its products would be NaN. */
    if (isfinite((T)factor) && fabs(log_sum) <= (sizeof(T) == sizeof(double) ? WEFT_LOSS_MAX_LOG_SUM_F64 : WEFT_LOSS_MAX_LOG_SUM_F32)) {
        backward_elements<T>(work, place, result, x, begin, step, log_sum_scale<T>{ factor, spread, log_sum });
        return;
    }
    const double most = work.statistics != 0 ? weft_get<double>(call, work.statistics, row) : most_of();
    const double sum = work.statistics != 0 ? weft_get<double>(call, work.statistics + 1, row) : sum_of(most);
    backward_elements<T>(work, place, result, x, begin, step, sum_scale<T>{ factor, spread, most, sum });
}

template <typename T> __global__ void run_cross_entropy_backward(const loss_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_vectors out = weft_device_vectors_along(call, 0, 1, 1);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), 1, 1);
    const int64_t n = in.length;
    for (int64_t row = weft_first_index(); row < out.count; row += weft_index_step()) {
        const int64_t target = target_of(work, row, call.views[weft_input(call, 0)].offset[1] == 0);
        if (n == 0) {
            continue; /* targets are checked none the less */
        }
        const weft_device_vector<T> result(call, out, row), x(call, in, row);
        auto value = [&](int64_t i) { return x[i]; };
        backward_row<T>(work, row, target, result, x, 0, 1, [&] { return weft_device_max<T>(n, value); },
                        [&](double most) { return weft_device_sum_exp<T>(n, most, value); });
    }
}

template <typename T, bool direct> __global__ void run_cross_entropy_backward_by_warp(const loss_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_vectors out = weft_device_vectors_along(call, 0, 1, 1);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), 1, 1);
    const int64_t n = in.length;
    for (int64_t row = weft_first_warp(); row < out.count; row += weft_warp_step()) {
        const bool reports = weft_warp_thread() == 0 && call.views[weft_input(call, 0)].offset[1] == 0;
        const int64_t target = target_of(work, row, reports);
        const weft_device_line<T, direct> result(call, out, row), x(call, in, row);
        auto value = [&](int64_t i) { return x[i]; };
        backward_row<T>(work, row, target, result, x, weft_warp_thread(), WEFT_WARP, [&] { return weft_warp_max<T>(n, value); },
                        [&](double most) { return weft_warp_sum_exp<T>(n, most, value); });
    }
}

__global__ void run_pick_backward(const loss_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_view &out = call.views[0];
    for (int64_t row = weft_first_index(); row < out.extent[0]; row += weft_index_step()) {
        const int64_t target = target_of(work, row, out.offset[1] == 0) - out.offset[1];
        for (int64_t i = 0; i < out.extent[1]; i++) {
            weft_set(call, 0, row * out.extent[1] + i, i == target ? factor_of(work, row) : 0.0);
        }
    }
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* Fills in the call, and finds its optional inputs. */
int begin(loss_work *work, const weft_task_run *run, weft_cuda_queue *queue)
{
    int failed = weft_call_begin(&work->call, run, queue);
    const int64_t parts = work->call.numbers[WEFT_LOSS_PARTS];
    int next = work->call.num_outputs + 1;
    work->targets = next++;
    work->statistics = parts & WEFT_LOSS_HAS_STATISTICS ? next : 0;
    next += parts & WEFT_LOSS_HAS_STATISTICS ? 2 : 0;
    work->mean = parts & WEFT_LOSS_HAS_MEAN ? next++ : 0;
    work->log_sums = parts & WEFT_LOSS_HAS_LOG_SUMS ? next++ : 0;
    work->gradient = parts & WEFT_LOSS_HAS_GRADIENT ? next++ : 0;
    work->divisor = parts & WEFT_LOSS_HAS_COUNT ? next++ : 0;
    return failed;
}

/* A kernel with a thread, or a warp, for each of some rows; NULL: that of fast mode. */
struct row_kernel {
    void (*run)(loss_work);
    bool by_warp;
};

int launch_rows(row_kernel kernel, int64_t rows, const loss_work &work, weft_cuda_queue *queue)
{
    return kernel.run == NULL ? weft_fast_cross_entropy(&work, queue)
           : kernel.by_warp ? weft_launch_warps(kernel.run, rows, queue->stream, work)
                          : weft_launch(kernel.run, rows, queue->stream, work);
}

int launch_gradient(row_kernel kernel, loss_work *work, weft_cuda_queue *queue)
{
    const int64_t rows = work->call.views[0].extent[0];
    if (rows == 0) {
        return 0;
    }
    int failed = weft_error_begin(&work->call.error, queue);
    failed = failed != 0 ? failed
             : kernel.run == NULL ? weft_fast_cross_entropy_backward(work, queue)
                                  : launch_rows(kernel, rows, *work, queue);
    return failed != 0 ? failed : weft_error_end(work->call.error, queue);
}

/* Into one element, by losses in scratch memory, as many rows at a time as it has room for. */
int launch_total(row_kernel kernel, int64_t rows, loss_work *work, weft_cuda_queue *queue)
{
    void *scratch;
    size_t bytes;
    int failed = weft_cuda_scratch(queue, &scratch, &bytes);
    const int64_t most = (int64_t)(bytes / sizeof(double)) - 1;
    work->total = (double *)scratch;
    work->losses = work->total + 1;
    work->ends = false;
    for (work->first = 0; failed == 0 && !work->ends; work->first += most) {
        work->ends = rows - work->first <= most;
        work->count = work->ends ? rows - work->first : most;
        failed = work->count == 0 ? 0 : launch_rows(kernel, work->count, *work, queue);
        failed = failed != 0   ? failed
                 : queue->fast ? weft_fast_loss_total(work, queue)
                               : weft_launch_blocks(run_total, 1, THREADS, queue->stream, *work);
    }
    return failed;
}

/* Into one element, or one for each row. */
int launch_loss(row_kernel kernel, loss_work *work, weft_cuda_queue *queue)
{
    const int64_t rows = work->call.views[work->targets].rows;
    const bool together = work->call.views[0].ndim == 0;
    if (rows == 0 && !together) {
        return 0;
    }
    work->first = 0;
    work->count = rows;
    work->losses = NULL;
    int failed = weft_error_begin(&work->call.error, queue);
    failed = failed != 0 ? failed : together ? launch_total(kernel, rows, work, queue) : launch_rows(kernel, rows, *work, queue);
    return failed != 0 ? failed : weft_error_end(work->call.error, queue);
}

template <typename T> row_kernel kernel_of_lines(const weft_device_view &x, weft_dtype type)
{
    return !weft_is_long_line(x, 1) ? row_kernel{ run_each<loss_of_line<T>>, false }
           : x.dtype == type        ? row_kernel{ run_each_by_warp<T, true>, true }
                                    : row_kernel{ run_each_by_warp<T, false>, true };
}

template <typename T> row_kernel kernel_of_gradients(const weft_device_view &x, const weft_device_view &out, weft_dtype type)
{
    return !weft_is_long_line(x, 1) ? row_kernel{ run_cross_entropy_backward<T>, false }
           : x.dtype == type && out.dtype == type ? row_kernel{ run_cross_entropy_backward_by_warp<T, true>, true }
                                                  : row_kernel{ run_cross_entropy_backward_by_warp<T, false>, true };
}

}

int weft_cuda_cross_entropy(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    const weft_device_view &x = work.call.views[work.call.num_outputs];
    const row_kernel kernel = failed == 0 && queue->fast && weft_fast_loss_fits(&work, false) ? row_kernel{ NULL, false }
                              : work.statistics != 0  ? row_kernel{ run_each<loss_of_statistics>, false }
                              : x.dtype == WEFT_F64 ? kernel_of_lines<double>(x, WEFT_F64)
                                                    : kernel_of_lines<float>(x, WEFT_F32);
    return failed != 0 ? failed : launch_loss(kernel, &work, queue);
}

int weft_cuda_pick(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch_loss({ run_each<value_of_target>, false }, &work, queue);
}

/* Neither has optional inputs, or finds invalid values. */
int weft_cuda_count_targets(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work = {};
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : weft_launch_blocks(run_count_targets, 1, THREADS, queue->stream, work);
}

int weft_cuda_sum_square_distance(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work = {};
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : weft_launch_blocks(run_sum_square_distance, 1, THREADS, queue->stream, work);
}

int weft_cuda_cross_entropy_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    const weft_device_view &x = work.call.views[work.call.num_outputs], &out = work.call.views[0];
    const row_kernel kernel =
        failed == 0 && queue->fast && weft_fast_loss_fits(&work, true) ? row_kernel{ NULL, false }
        : x.dtype == WEFT_F64 ? kernel_of_gradients<double>(x, out, WEFT_F64) : kernel_of_gradients<float>(x, out, WEFT_F32);
    return failed != 0 ? failed : launch_gradient(kernel, &work, queue);
}

int weft_cuda_pick_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch_gradient({ run_pick_backward, false }, &work, queue);
}
