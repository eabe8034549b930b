/* Steps of optimisers, a thread for each element: see cpu/optimizers.c. */
#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/optimizers.h"
}

namespace
{

enum { MAX_UPDATES = 3, MAX_SCALARS = 4 };

struct step_work {
    weft_device_call call;
    double scalars[MAX_UPDATES][MAX_SCALARS]; /* of each update */
};

/* Element i of view `target` becomes an expression of those of views a, b and c, in the widest type of these, at least
 * WEFT_F32. */
template <typename Narrow, typename Wide>
__device__ void update(const weft_device_call &call, int64_t i, int target, int a, int b, int c, const double *scalars)
{
    if (call.views[a].dtype == WEFT_F64 || call.views[b].dtype == WEFT_F64 || call.views[c].dtype == WEFT_F64) {
        weft_set(call, target, i, Wide::of(weft_get<double>(call, a, i), weft_get<double>(call, b, i),
                                           weft_get<double>(call, c, i), scalars));
    } else {
        weft_set(call, target, i, Narrow::of(weft_get<float>(call, a, i), weft_get<float>(call, b, i),
                                             weft_get<float>(call, c, i), scalars));
    }
}

#define UPDATE(name) update<expressions::name##_float, expressions::name##_double>

template <bool decays> __global__ void run_adam(const step_work work)
{
    enum { PARAMETER, FIRST, SECOND, GRADIENT };
    const weft_device_call &call = work.call;
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        if (decays) {
            UPDATE(lerp_decayed)(call, i, FIRST, FIRST, GRADIENT, PARAMETER, work.scalars[0]);
            UPDATE(average_square_decayed)(call, i, SECOND, SECOND, GRADIENT, PARAMETER, work.scalars[1]);
        } else {
            UPDATE(lerp)(call, i, FIRST, FIRST, GRADIENT, FIRST, work.scalars[0]);
            UPDATE(average_square)(call, i, SECOND, SECOND, GRADIENT, SECOND, work.scalars[1]);
        }
        UPDATE(adam_update)(call, i, PARAMETER, PARAMETER, FIRST, SECOND, work.scalars[2]);
    }
}

template <bool nesterov> __global__ void run_momentum(const step_work work)
{
    enum { PARAMETER, MOMENTUM, GRADIENT };
    const weft_device_call &call = work.call;
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        UPDATE(momentum)(call, i, MOMENTUM, MOMENTUM, GRADIENT, PARAMETER, work.scalars[0]);
        if (nesterov) {
            UPDATE(nesterov_update)(call, i, PARAMETER, PARAMETER, GRADIENT, MOMENTUM, work.scalars[1]);
        } else {
            UPDATE(add_scaled)(call, i, PARAMETER, PARAMETER, MOMENTUM, PARAMETER, work.scalars[1]);
        }
    }
}

void set(double to[MAX_SCALARS], double a, double b, double c, double d)
{
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

int launch(void (*kernel)(step_work), const step_work &work, weft_cuda_queue *queue)
{
    int64_t count = work.call.views[0].count;
    return count == 0 ? 0 : weft_launch(kernel, count, queue->stream, work);
}

}

int weft_cuda_adam(const weft_task_run *run, weft_cuda_queue *queue)
{
    const double *s = run->scalars, decay = s[WEFT_ADAM_DECAY];
    step_work work;
    set(work.scalars[0], 1 - s[WEFT_ADAM_BETA1], s[WEFT_ADAM_BETA1], decay, 0);
    set(work.scalars[1], 1 - s[WEFT_ADAM_BETA2], s[WEFT_ADAM_BETA2], decay, 0);
    set(work.scalars[2], s[WEFT_ADAM_RATE], s[WEFT_ADAM_EPSILON], s[WEFT_ADAM_SCALE], s[WEFT_ADAM_FACTOR]);
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : launch(decay != 0 ? run_adam<true> : run_adam<false>, work, queue);
}

int weft_cuda_sgd_momentum(const weft_task_run *run, weft_cuda_queue *queue)
{
    const double *s = run->scalars;
    step_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    const bool nesterov = work.call.numbers[0] != 0;
    set(work.scalars[0], s[WEFT_SGD_KEPT], s[WEFT_SGD_ADDED], s[WEFT_SGD_DECAY], 0);
    if (nesterov) {
        set(work.scalars[1], s[WEFT_SGD_RATE], s[WEFT_SGD_DECAY], s[WEFT_SGD_AHEAD], 0);
    } else {
        set(work.scalars[1], -s[WEFT_SGD_RATE], 0, 0, 0);
    }
    return failed != 0 ? failed : launch(nesterov ? run_momentum<true> : run_momentum<false>, work, queue);
}
