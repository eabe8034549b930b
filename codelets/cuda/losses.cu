/* Losses and their gradients, a thread for each row: see cpu/losses.c. Sums over rows are added in their order. */
#include <math.h>

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/losses.h"
}

namespace
{

enum { NO_CLASS = -1, THREADS = 256 };

struct loss_work {
    weft_device_call call;
    int targets, statistics, mean, gradient, divisor; /* numbers of views; 0: none */
};

/* The target class of a row, or NO_CLASS. */
__device__ int64_t target_of(const loss_work &work, int64_t row, bool reports)
{
    const weft_device_call &call = work.call;
    const int64_t target = weft_get<int64_t>(call, work.targets, row), classes = call.numbers[WEFT_LOSS_CLASSES];
    if (call.numbers[WEFT_LOSS_IGNORES] && target == call.numbers[WEFT_LOSS_IGNORED]) {
        return NO_CLASS;
    }
    if (target >= 0 && target < classes) {
        return target;
    }
    if (reports) {
        weft_device_range(call, (uint64_t)row, work.targets - call.num_outputs, target, classes - 1);
    }
    return NO_CLASS;
}

/* Factor of the rows' losses. */
__device__ double scale_of(const loss_work &work)
{
    const double scale = work.call.scalars[WEFT_LOSS_SCALE];
    return work.divisor == 0 ? scale : scale / weft_get<double>(work.call, work.divisor, 0);
}

/* Factor of a row's gradient. */
__device__ double factor_of(const loss_work &work, int64_t row)
{
    const weft_device_call &call = work.call;
    return scale_of(work) * (work.gradient == 0 ? 1 : weft_get<double>(call, work.gradient, call.views[work.gradient].ndim == 0 ? 0 : row));
}

/* ---- losses -------------------------------------------------------------------------------------------- */

/* log(sum(exp(row))) - (1 - smoothing) row[target] - smoothing mean(row), relative to the row's maximum. */
__device__ double combine(const weft_device_call &call, double most, double sum, double wanted, double total)
{
    const double smoothing = call.scalars[WEFT_LOSS_SMOOTHING];
    const double loss = log(sum) - (1 - smoothing) * (wanted - most);
    return smoothing == 0 ? loss : loss - smoothing * (total / (double)call.numbers[WEFT_LOSS_CLASSES] - most);
}

template <typename T> struct loss_of_line {
    static __device__ double of(const loss_work &work, int64_t row)
    {
        const weft_device_call &call = work.call;
        const int64_t target = target_of(work, row, true);
        if (target == NO_CLASS) {
            return 0;
        }
        const weft_device_vectors lines = weft_device_vectors_along(call, weft_input(call, 0), 1, 1);
        const weft_device_vector<T> x(call, lines, row);
        auto value = [&](int64_t i) { return x[i]; };
        const double most = weft_device_max<T>(lines.length, value), sum = weft_device_sum_exp<T>(lines.length, most, value);
        const double total = call.scalars[WEFT_LOSS_SMOOTHING] == 0
                                 ? 0
                                 : weft_device_sum(lines.length, [&](int64_t i) { return (double)x[i]; });
        return combine(call, most, sum, (double)x[target], total);
    }
};

struct loss_of_statistics {
    static __device__ double of(const loss_work &work, int64_t row)
    {
        const weft_device_call &call = work.call;
        if (target_of(work, row, false) == NO_CLASS) {
            return 0;
        }
        return combine(call, weft_get<double>(call, work.statistics, row), weft_get<double>(call, work.statistics + 1, row),
                       weft_get<double>(call, weft_input(call, 0), row),
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
    for (int64_t row = weft_first_index(); row < work.call.views[work.targets].rows; row += weft_index_step()) {
        weft_set(work.call, 0, row, scale_of(work) * Loss::of(work, row));
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
        for (int64_t i = 0; threadIdx.x == 0 && i < THREADS && first + i < count; i++) {
            add(values[i]);
        }
        __syncthreads();
    }
}

/* The output before; 0: this is the first piece. */
__device__ double begun(const weft_device_call &call)
{
    return call.first ? 0 : weft_get<double>(call, 0, 0);
}

/* One block. */
template <typename Loss> __global__ void run_total(const loss_work work)
{
    double total = 0;
    in_order(work.call.views[work.targets].rows, [&](int64_t row) { return Loss::of(work, row); },
             [&](double loss) { total += loss; });
    if (threadIdx.x == 0) {
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

template <typename T> __global__ void run_cross_entropy_backward(const loss_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_vectors out = weft_device_vectors_along(call, 0, 1, 1);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), 1, 1);
    const int64_t n = in.length, offset = call.views[weft_input(call, 0)].offset[1];
    const double smoothing = call.scalars[WEFT_LOSS_SMOOTHING];
    const double spread = smoothing / (double)call.numbers[WEFT_LOSS_CLASSES];
    for (int64_t row = weft_first_index(); row < out.count; row += weft_index_step()) {
        const int64_t target = target_of(work, row, offset == 0);
        if (n == 0) {
            continue; /* targets are checked none the less */
        }
        const weft_device_vector<T> result(call, out, row), x(call, in, row);
        if (target == NO_CLASS) {
            for (int64_t i = 0; i < n; i++) {
                result.set(i, 0);
            }
            continue;
        }
        auto value = [&](int64_t i) { return x[i]; };
        const double factor = factor_of(work, row);
        const double most = work.statistics != 0 ? weft_get<double>(call, work.statistics, row) : weft_device_max<T>(n, value);
        const double sum = work.statistics != 0 ? weft_get<double>(call, work.statistics + 1, row)
                                                : weft_device_sum_exp<T>(n, most, value);
        const T inverse = (T)(1 / sum);
        for (int64_t i = 0; i < n; i++) {
            const T xi = x[i];
            result.set(i, i == target - offset
                              ? (T)(factor * (exp((double)xi - most) / sum - spread - (1 - smoothing)))
                              : (T)((T)factor * (weft_device_exp((T)(xi - (T)most)) * inverse - (T)spread)));
        }
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
    work->gradient = parts & WEFT_LOSS_HAS_GRADIENT ? next++ : 0;
    work->divisor = parts & WEFT_LOSS_HAS_COUNT ? next++ : 0;
    return failed;
}

/* A thread for each of `rows`, or, `together`, one block. */
int launch(void (*kernel)(loss_work), loss_work *work, int64_t rows, bool together, weft_cuda_queue *queue)
{
    if (rows == 0 && !together) {
        return 0;
    }
    int failed = weft_error_begin(&work->call.error, queue);
    failed = failed != 0 ? failed
             : together  ? weft_launch_blocks(kernel, 1, THREADS, queue->stream, *work)
                         : weft_launch(kernel, rows, queue->stream, *work);
    return failed != 0 ? failed : weft_error_end(work->call.error, queue);
}

/* Into one element, or one for each row. */
template <typename Loss> int launch_loss(loss_work *work, weft_cuda_queue *queue)
{
    const bool together = work->call.views[0].ndim == 0;
    return launch(together ? run_total<Loss> : run_each<Loss>, work, work->call.views[work->targets].rows, together, queue);
}

bool is_wide(const loss_work &work)
{
    return work.call.views[work.call.num_outputs].dtype == WEFT_F64;
}

}

int weft_cuda_cross_entropy(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0            ? failed
           : work.statistics != 0 ? launch_loss<loss_of_statistics>(&work, queue)
           : is_wide(work)        ? launch_loss<loss_of_line<double>>(&work, queue)
                                  : launch_loss<loss_of_line<float>>(&work, queue);
}

int weft_cuda_pick(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch_loss<value_of_target>(&work, queue);
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
    return failed != 0 ? failed
                       : launch(is_wide(work) ? run_cross_entropy_backward<double> : run_cross_entropy_backward<float>, &work,
                                work.call.views[0].extent[0], false, queue);
}

int weft_cuda_pick_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch(run_pick_backward, &work, work.call.views[0].extent[0], false, queue);
}
