/* Steps of optimisers, a thread for each element: see cpu/optimizers.c. */
#include "codelets/cuda/steps.cuh"

extern "C" {
#include "codelets/optimizers.h"
}

namespace
{

enum { MAX_UPDATES = 3, SCALARS_EACH = 4 }; /* of a step, and of each update */

struct step_work {
    weft_device_call call;
    double scalars[steps::MAX_SCALARS];
};

/* Element i of each view. */
struct in_views {
    const weft_device_call &call;
    int64_t i;
};

/* The element of view `target` becomes an expression of those of views a, b and c, in the widest type of these, at least
 * WEFT_F32. */
template <typename Narrow, typename Wide>
__device__ void update(const in_views &at, int target, int a, int b, int c, const double *scalars)
{
    const weft_device_call &call = at.call;
    const int64_t i = at.i;
    if (call.views[a].dtype == WEFT_F64 || call.views[b].dtype == WEFT_F64 || call.views[c].dtype == WEFT_F64) {
        weft_set(call, target, i, Wide::of(weft_get<double>(call, a, i), weft_get<double>(call, b, i),
                                           weft_get<double>(call, c, i), scalars));
    } else {
        weft_set(call, target, i, Narrow::of(weft_get<float>(call, a, i), weft_get<float>(call, b, i),
                                             weft_get<float>(call, c, i), scalars));
    }
}

/* One value of each tensor. */
template <typename T> struct in_values {
    T *values;
    const weft_dtype *types;
};

/* The same of values, whose types have all the same arithmetic. */
template <typename Expression, typename T> __device__ void update_value(in_values<T> at, int target, int a, int b, int c, const double *scalars)
{
    const T value = Expression::of(at.values[a], at.values[b], at.values[c], scalars);
    at.values[target] = at.types[target] == weft_dtype_of<T>::value ? value : weft_narrowed(at.types[target], value);
}

template <typename Narrow, typename Wide>
__device__ void update(in_values<float> at, int target, int a, int b, int c, const double *scalars)
{
    update_value<Narrow>(at, target, a, b, c, scalars);
}

template <typename Narrow, typename Wide>
__device__ void update(in_values<double> at, int target, int a, int b, int c, const double *scalars)
{
    update_value<Wide>(at, target, a, b, c, scalars);
}

#define UPDATE(name) update<expressions::name##_float, expressions::name##_double>

/* Steps of one element: At is in_views, or in_values. */
template <bool decays> struct adam_step {
    static const int outputs = 3;
    template <typename At> static __device__ void of(At at, const double *scalars)
    {
        enum { PARAMETER, FIRST, SECOND, GRADIENT };
        if (decays) {
            UPDATE(lerp_decayed)(at, FIRST, FIRST, GRADIENT, PARAMETER, scalars);
            UPDATE(average_square_decayed)(at, SECOND, SECOND, GRADIENT, PARAMETER, scalars + SCALARS_EACH);
        } else {
            UPDATE(lerp)(at, FIRST, FIRST, GRADIENT, FIRST, scalars);
            UPDATE(average_square)(at, SECOND, SECOND, GRADIENT, SECOND, scalars + SCALARS_EACH);
        }
        UPDATE(adam_update)(at, PARAMETER, PARAMETER, FIRST, SECOND, scalars + 2 * SCALARS_EACH);
    }
};

template <bool nesterov> struct momentum_step {
    static const int outputs = 2;
    template <typename At> static __device__ void of(At at, const double *scalars)
    {
        enum { PARAMETER, MOMENTUM, GRADIENT };
        UPDATE(momentum)(at, MOMENTUM, MOMENTUM, GRADIENT, PARAMETER, scalars);
        if (nesterov) {
            UPDATE(nesterov_update)(at, PARAMETER, PARAMETER, GRADIENT, MOMENTUM, scalars + SCALARS_EACH);
        } else {
            UPDATE(add_scaled)(at, PARAMETER, PARAMETER, MOMENTUM, PARAMETER, scalars + SCALARS_EACH);
        }
    }
};

template <typename Step> __global__ void run_step(const step_work work)
{
    for (int64_t i = weft_first_index(); i < work.call.views[0].count; i += weft_index_step()) {
        const in_views at = { work.call, i };
        Step::template of<const in_views &>(at, work.scalars);
    }
}

/* The step of steps::run_together(). */
template <typename Step> struct together {
    template <typename T> struct of_type {
        static const int outputs = Step::outputs;
        static __device__ void of(T *values, const weft_dtype *types, const double *scalars)
        {
            Step::template of<in_values<T>>({ values, types }, scalars);
        }
    };
};

void set(double to[SCALARS_EACH], double a, double b, double c, double d)
{
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

/* Fills in the scalars, of MAX_UPDATES updates. */
void find_scalars(double to[steps::MAX_SCALARS], const weft_task_run *run, const weft_device_call &call)
{
    static_assert(MAX_UPDATES * SCALARS_EACH <= steps::MAX_SCALARS, "");
    const double *s = run->scalars;
    double *second = to + SCALARS_EACH;
    if (run->kernel == WEFT_KERNEL_adam) {
        const double decay = s[WEFT_ADAM_DECAY];
        set(to, 1 - s[WEFT_ADAM_BETA1], s[WEFT_ADAM_BETA1], decay, 0);
        set(second, 1 - s[WEFT_ADAM_BETA2], s[WEFT_ADAM_BETA2], decay, 0);
        set(second + SCALARS_EACH, s[WEFT_ADAM_RATE], s[WEFT_ADAM_EPSILON], s[WEFT_ADAM_SCALE], s[WEFT_ADAM_FACTOR]);
    } else {
        set(to, s[WEFT_SGD_KEPT], s[WEFT_SGD_ADDED], s[WEFT_SGD_DECAY], 0);
        if (call.numbers[0] != 0) {
            set(second, s[WEFT_SGD_RATE], s[WEFT_SGD_DECAY], s[WEFT_SGD_AHEAD], 0);
        } else {
            set(second, -s[WEFT_SGD_RATE], 0, 0, 0);
        }
    }
}

/* Calls function(step), by the kernel and its numbers. */
template <typename Function> int with_step(const weft_task_run *run, const weft_device_call &call, Function function)
{
    if (run->kernel == WEFT_KERNEL_adam) {
        return run->scalars[WEFT_ADAM_DECAY] != 0 ? function(adam_step<true>()) : function(adam_step<false>());
    }
    return call.numbers[0] != 0 ? function(momentum_step<true>()) : function(momentum_step<false>());
}

/* The update's arithmetic is that of all tensors: none, or all, have type WEFT_F64. */
bool have_one_arithmetic(const weft_device_call &call)
{
    int wide = 0;
    for (int k = 0; k < call.num_outputs + call.num_inputs; k++) {
        wide += call.views[k].dtype == WEFT_F64;
    }
    return wide == 0 || wide == call.num_outputs + call.num_inputs;
}

int launch_views(const weft_task_run *run, weft_cuda_queue *queue)
{
    step_work work = {};
    int failed = weft_call_begin(&work.call, run, queue);
    const int64_t count = work.call.views[0].count;
    if (failed != 0 || count == 0) {
        return failed;
    }
    find_scalars(work.scalars, run, work.call);
    return with_step(run, work.call, [&](auto step) { return weft_launch(run_step<decltype(step)>, count, queue->stream, work); });
}

int launch_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched)
{
    return steps::launch_together(
        runs, count, launched,
        [&](weft_device_call *call, double *scalars, const weft_task_run *run) {
            weft_device_call_fill(call, run);
            find_scalars(scalars, run, *call);
            return have_one_arithmetic(*call);
        },
        [&](const steps::many_work &many, int64_t blocks, const weft_device_call &first) {
            return with_step(&runs[0], first, [&](auto step) {
                return steps::launch<together<decltype(step)>::template of_type>(many, blocks, queue->stream);
            });
        });
}

}

int weft_cuda_adam(const weft_task_run *run, weft_cuda_queue *queue)
{
    int launched;
    int failed = launch_together(run, 1, queue, &launched);
    return failed != 0 || launched > 0 ? failed : launch_views(run, queue);
}

int weft_cuda_sgd_momentum(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_cuda_adam(run, queue);
}

int weft_cuda_steps_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched)
{
    return runs[0].kernel == WEFT_KERNEL_optimizer ? weft_cuda_rows_together(runs, count, queue, launched)
                                                   : launch_together(runs, count, queue, launched);
}
