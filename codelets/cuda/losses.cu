/* Gradients of losses, a thread for each row: see cpu/losses.c. */
#include <math.h>

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/losses.h"
}

namespace
{

enum { NO_CLASS = -1 };

struct loss_work {
    weft_device_call call;
    int targets, statistics, gradient, divisor; /* numbers of views; 0: none */
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

/* Factor of a row's gradient. */
__device__ double factor_of(const loss_work &work, int64_t row)
{
    const weft_device_call &call = work.call;
    double scale = call.scalars[WEFT_LOSS_SCALE];
    scale = work.divisor == 0 ? scale : scale / weft_get<double>(call, work.divisor, 0);
    return scale * (work.gradient == 0 ? 1 : weft_get<double>(call, work.gradient, call.views[work.gradient].ndim == 0 ? 0 : row));
}

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

/* Fills in the call, and finds its optional inputs. */
int begin(loss_work *work, const weft_task_run *run, weft_cuda_queue *queue)
{
    int failed = weft_call_begin(&work->call, run, queue);
    const int64_t parts = work->call.numbers[WEFT_LOSS_PARTS];
    int next = work->call.num_outputs + 1;
    work->targets = next++;
    work->statistics = parts & WEFT_LOSS_HAS_STATISTICS ? next : 0;
    next += parts & WEFT_LOSS_HAS_STATISTICS ? 2 : 0;
    next += parts & WEFT_LOSS_HAS_MEAN ? 1 : 0;
    work->gradient = parts & WEFT_LOSS_HAS_GRADIENT ? next++ : 0;
    work->divisor = parts & WEFT_LOSS_HAS_COUNT ? next++ : 0;
    return failed;
}

int launch(void (*kernel)(loss_work), loss_work *work, weft_cuda_queue *queue)
{
    const int64_t rows = work->call.views[0].extent[0];
    int failed = rows == 0 ? 0 : weft_error_begin(&work->call.error, queue);
    failed = failed != 0 || rows == 0 ? failed : weft_launch(kernel, rows, queue->stream, *work);
    return failed != 0 || rows == 0 ? failed : weft_error_end(work->call.error, queue);
}

}

int weft_cuda_cross_entropy_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    bool wide = work.call.views[work.call.num_outputs].dtype == WEFT_F64;
    return failed != 0 ? failed
                       : launch(wide ? run_cross_entropy_backward<double> : run_cross_entropy_backward<float>, &work, queue);
}

int weft_cuda_pick_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    loss_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : launch(run_pick_backward, &work, queue);
}
