/* What the kernels of losses have in common, and those of fast mode (fast_losses.cu). */
#ifndef WEFT_CODELETS_CUDA_LOSSES_CUH
#define WEFT_CODELETS_CUDA_LOSSES_CUH

#include <math.h>

#include "codelets/cuda/fast_lines.cuh"

extern "C" {
#include "codelets/losses.h"
}

struct weft_loss_work {
    weft_device_call call;
    int targets, statistics, mean, log_sums, gradient, divisor; /* numbers of views; 0: none */
    /* Losses are computed of some rows at a time, into `losses`; `total` is the sum of the rows before, and becomes that of these
     * too. `losses` NULL: the output has one for each row. */
    int64_t first, count;
    double *losses, *total;
    bool ends; /* these rows are the last ones */
};

/* Whether fast mode has kernels for the call's logits, and gradients if it is `backward`. */
bool weft_fast_loss_fits(const weft_loss_work *work, bool backward);
/* The losses of work->count rows from work->first on. Both return a weft_cuda_run's result. */
int weft_fast_cross_entropy(const weft_loss_work *work, weft_cuda_queue *queue);
int weft_fast_cross_entropy_backward(const weft_loss_work *work, weft_cuda_queue *queue);
/* Adds work->losses to the total, and finishes it. */
int weft_fast_loss_total(const weft_loss_work *work, weft_cuda_queue *queue);

namespace
{

typedef weft_loss_work loss_work;

enum { NO_CLASS = -1 };

/* The target class of a row, or NO_CLASS. */
static __device__ inline int64_t target_of(const loss_work &work, int64_t row, bool reports)
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
static __device__ inline double scale_of(const loss_work &work)
{
    const double scale = work.call.scalars[WEFT_LOSS_SCALE];
    return work.divisor == 0 ? scale : scale / weft_get<double>(work.call, work.divisor, 0);
}

/* Factor of a row's gradient. */
static __device__ inline double factor_of(const loss_work &work, int64_t row)
{
    const weft_device_call &call = work.call;
    return scale_of(work) * (work.gradient == 0 ? 1 : weft_get<double>(call, work.gradient, call.views[work.gradient].ndim == 0 ? 0 : row));
}

/* Whether the log-sums of rows are wanted, also of those without a class. */
static __device__ inline bool keeps_log_sums(const weft_device_call &call)
{
    return call.num_outputs > 1;
}

static __device__ inline void keep_log_sum(const weft_device_call &call, int64_t row, double most, double logarithm)
{
    if (keeps_log_sums(call)) {
        weft_set(call, 1, row, most == -INFINITY ? most : most + logarithm);
    }
}

/* log(sum(exp(row))) - (1 - smoothing) row[target] - smoothing mean(row), relative to the row's maximum. */
static __device__ inline double combine(const weft_device_call &call, double most, double logarithm, double wanted, double total)
{
    const double smoothing = call.scalars[WEFT_LOSS_SMOOTHING];
    const double loss = logarithm - (1 - smoothing) * (wanted - most);
    return smoothing == 0 ? loss : loss - smoothing * (total / (double)call.numbers[WEFT_LOSS_CLASSES] - most);
}

static __device__ inline void keep_loss(const loss_work &work, int64_t i, double loss)
{
    if (work.losses != NULL) {
        work.losses[i] = loss;
    } else {
        weft_set(work.call, 0, work.first + i, scale_of(work) * loss);
    }
}

/* The output before; 0: this is the first piece. */
static __device__ inline double begun(const weft_device_call &call)
{
    return call.first ? 0 : weft_get<double>(call, 0, 0);
}

}

#endif
