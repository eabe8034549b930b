/* Steps of optimisers, a thread for each element: see cpu/optimizers.c. */
#include <string.h>

#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/optimizers.h"
}

namespace
{

enum { MAX_UPDATES = 3, MAX_SCALARS = 4, MAX_TENSORS = 4 };

typedef double step_scalars[MAX_UPDATES][MAX_SCALARS]; /* of each update */

struct step_work {
    weft_device_call call;
    step_scalars scalars;
};

/* All tensors of type T, each in one piece: the outputs, then the gradient. */
template <typename T> struct whole_work {
    T *tensors[MAX_TENSORS];
    int64_t count;
    step_scalars scalars;
};

/* Steps of several parameters, with the same scalars. */
enum { MOST_STEPS = 64, ELEMENTS = 1024 };

template <typename T> struct one_of_many {
    T *tensors[MAX_TENSORS];
    int64_t count, block; /* the first block of threads, of which each has ELEMENTS elements */
};

template <typename T> struct many_work {
    step_scalars scalars;
    int steps;
    one_of_many<T> of[MOST_STEPS];
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

/* The same of values, one of each tensor. */
template <typename Narrow, typename Wide>
__device__ void update(float *at, int target, int a, int b, int c, const double *scalars)
{
    at[target] = Narrow::of(at[a], at[b], at[c], scalars);
}

template <typename Narrow, typename Wide>
__device__ void update(double *at, int target, int a, int b, int c, const double *scalars)
{
    at[target] = Wide::of(at[a], at[b], at[c], scalars);
}

#define UPDATE(name) update<expressions::name##_float, expressions::name##_double>

/* Steps of one element: At is in_views, or values. */
template <bool decays> struct adam_step {
    static const int outputs = 3;
    template <typename At> static __device__ void of(At at, const step_scalars &scalars)
    {
        enum { PARAMETER, FIRST, SECOND, GRADIENT };
        if (decays) {
            UPDATE(lerp_decayed)(at, FIRST, FIRST, GRADIENT, PARAMETER, scalars[0]);
            UPDATE(average_square_decayed)(at, SECOND, SECOND, GRADIENT, PARAMETER, scalars[1]);
        } else {
            UPDATE(lerp)(at, FIRST, FIRST, GRADIENT, FIRST, scalars[0]);
            UPDATE(average_square)(at, SECOND, SECOND, GRADIENT, SECOND, scalars[1]);
        }
        UPDATE(adam_update)(at, PARAMETER, PARAMETER, FIRST, SECOND, scalars[2]);
    }
};

template <bool nesterov> struct momentum_step {
    static const int outputs = 2;
    template <typename At> static __device__ void of(At at, const step_scalars &scalars)
    {
        enum { PARAMETER, MOMENTUM, GRADIENT };
        UPDATE(momentum)(at, MOMENTUM, MOMENTUM, GRADIENT, PARAMETER, scalars[0]);
        if (nesterov) {
            UPDATE(nesterov_update)(at, PARAMETER, PARAMETER, GRADIENT, MOMENTUM, scalars[1]);
        } else {
            UPDATE(add_scaled)(at, PARAMETER, PARAMETER, MOMENTUM, PARAMETER, scalars[1]);
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

template <typename Step, typename T>
__device__ void step_element(T *const tensors[MAX_TENSORS], int64_t i, const step_scalars &scalars)
{
    T values[Step::outputs + 1];
    for (int k = 0; k <= Step::outputs; k++) {
        values[k] = tensors[k][i];
    }
    Step::template of<T *>(values, scalars);
    for (int k = 0; k < Step::outputs; k++) {
        tensors[k][i] = values[k];
    }
}

template <typename Step, typename T> __global__ void run_step_whole(const whole_work<T> work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        step_element<Step, T>(work.tensors, i, work.scalars);
    }
}

template <typename Step, typename T> __global__ void run_steps_together(const __grid_constant__ many_work<T> work)
{
    int number = 0;
    while (number + 1 < work.steps && work.of[number + 1].block <= (int64_t)blockIdx.x) {
        number++;
    }
    const one_of_many<T> &own = work.of[number];
    const int64_t first = ((int64_t)blockIdx.x - own.block) * ELEMENTS, end = first + ELEMENTS < own.count ? first + ELEMENTS : own.count;
    for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
        step_element<Step, T>(own.tensors, i, work.scalars);
    }
}

void set(double to[MAX_SCALARS], double a, double b, double c, double d)
{
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

/* All views have the type, and each has its elements in one panel, whose address is here. */
bool are_whole(const weft_device_call &call, weft_dtype type)
{
    bool whole = call.table == NULL;
    for (int k = 0; k < call.num_outputs + call.num_inputs; k++) {
        const weft_device_view &view = call.views[k];
        const bool together = view.ndim == 0 || (view.offset[0] + view.row_shift) % view.panel_rows + view.extent[0] <= view.panel_rows;
        whole = whole && together && view.dtype == type;
    }
    return whole;
}

template <typename Step, typename T> int launch_whole(const step_work &step, weft_cuda_queue *queue)
{
    whole_work<T> work;
    work.count = step.call.views[0].count;
    memcpy(work.scalars, step.scalars, sizeof(work.scalars));
    for (int k = 0; k <= Step::outputs; k++) {
        work.tensors[k] = (T *)step.call.panels[step.call.views[k].first_panel];
    }
    return weft_launch(run_step_whole<Step, T>, work.count, queue->stream, work);
}

template <typename Step> int launch(const step_work &work, weft_cuda_queue *queue)
{
    const int64_t count = work.call.views[0].count;
    return count == 0                       ? 0
           : are_whole(work.call, WEFT_F32) ? launch_whole<Step, float>(work, queue)
           : are_whole(work.call, WEFT_F64) ? launch_whole<Step, double>(work, queue)
                                            : weft_launch(run_step<Step>, count, queue->stream, work);
}

/* Fills in the call and the scalars. */
int begin(step_work *work, const weft_task_run *run, weft_cuda_queue *queue)
{
    const double *s = run->scalars;
    memset(work->scalars, 0, sizeof(work->scalars));
    int failed = weft_call_begin(&work->call, run, queue);
    if (run->kernel == WEFT_KERNEL_adam) {
        const double decay = s[WEFT_ADAM_DECAY];
        set(work->scalars[0], 1 - s[WEFT_ADAM_BETA1], s[WEFT_ADAM_BETA1], decay, 0);
        set(work->scalars[1], 1 - s[WEFT_ADAM_BETA2], s[WEFT_ADAM_BETA2], decay, 0);
        set(work->scalars[2], s[WEFT_ADAM_RATE], s[WEFT_ADAM_EPSILON], s[WEFT_ADAM_SCALE], s[WEFT_ADAM_FACTOR]);
    } else {
        set(work->scalars[0], s[WEFT_SGD_KEPT], s[WEFT_SGD_ADDED], s[WEFT_SGD_DECAY], 0);
        if (work->call.numbers[0] != 0) {
            set(work->scalars[1], s[WEFT_SGD_RATE], s[WEFT_SGD_DECAY], s[WEFT_SGD_AHEAD], 0);
        } else {
            set(work->scalars[1], -s[WEFT_SGD_RATE], 0, 0, 0);
        }
    }
    return failed;
}

/* Calls function(step), by the kernel and its numbers. */
template <typename Function> int with_step(const weft_task_run *run, const step_work &work, Function function)
{
    if (run->kernel == WEFT_KERNEL_adam) {
        return run->scalars[WEFT_ADAM_DECAY] != 0 ? function(adam_step<true>()) : function(adam_step<false>());
    }
    return work.call.numbers[0] != 0 ? function(momentum_step<true>()) : function(momentum_step<false>());
}

int launch_one(const weft_task_run *run, weft_cuda_queue *queue)
{
    step_work work;
    int failed = begin(&work, run, queue);
    return failed != 0 ? failed : with_step(run, work, [&](auto step) { return launch<decltype(step)>(work, queue); });
}

/* ---- several parameters at once -------------------------------------------------------------------------- */

/* Whether the tensors of both have no bytes in common. */
template <typename T> bool are_apart(const one_of_many<T> &a, const one_of_many<T> &b, int tensors)
{
    bool apart = true;
    for (int i = 0; i < tensors; i++) {
        for (int k = 0; k < tensors; k++) {
            apart = apart && (a.tensors[i] + a.count <= b.tensors[k] || b.tensors[k] + b.count <= a.tensors[i]);
        }
    }
    return apart;
}

/* Adds a step, if it can be one launch with the others. */
template <typename Step, typename T> bool add_step(many_work<T> *many, const step_work &step, int64_t *blocks)
{
    constexpr int64_t MOST_BLOCKS = 1 << 30;
    one_of_many<T> own = { { NULL }, step.call.views[0].count, *blocks };
    const int64_t end = *blocks + (own.count + ELEMENTS - 1) / ELEMENTS;
    if (many->steps == MOST_STEPS || own.count == 0 || end > MOST_BLOCKS ||
        memcmp(many->scalars, step.scalars, sizeof(step.scalars)) != 0) {
        return false;
    }
    for (int k = 0; k <= Step::outputs; k++) {
        own.tensors[k] = (T *)step.call.panels[step.call.views[k].first_panel];
    }
    for (int i = 0; i < many->steps; i++) {
        if (!are_apart(many->of[i], own, Step::outputs + 1)) {
            return false;
        }
    }
    many->of[many->steps++] = own;
    *blocks = end;
    return true;
}

template <typename Step, typename T>
int launch_together(const weft_task_run runs[], int count, const step_work &first, weft_cuda_queue *queue, int *launched)
{
    const weft_dtype type = sizeof(T) == sizeof(float) ? WEFT_F32 : WEFT_F64;
    many_work<T> many = {};
    int64_t blocks = 0;
    bool fits = true;
    memcpy(many.scalars, first.scalars, sizeof(many.scalars));
    for (int i = 0; i < count && fits && runs[i].kernel == runs[0].kernel && runs[i].num_operands <= WEFT_DEVICE_PANELS; i++) {
        step_work work;
        int failed = begin(&work, &runs[i], queue);
        if (failed != 0) {
            return failed;
        }
        fits = work.call.numbers[0] == first.call.numbers[0] && are_whole(work.call, type) && add_step<Step, T>(&many, work, &blocks);
    }
    if (many.steps < 2) {
        return 0;
    }
    *launched = many.steps;
    return weft_launch_on(run_steps_together<Step, T>, (unsigned)blocks, 256, queue->stream, many);
}

}

int weft_cuda_adam(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_one(run, queue);
}

int weft_cuda_sgd_momentum(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_one(run, queue);
}

int weft_cuda_steps_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched)
{
    step_work first;
    *launched = 0;
    int failed = runs[0].num_operands > WEFT_DEVICE_PANELS ? 0 : begin(&first, &runs[0], queue);
    if (failed != 0 || runs[0].num_operands > WEFT_DEVICE_PANELS) {
        return failed;
    }
    return with_step(&runs[0], first, [&](auto step) {
        typedef decltype(step) Step;
        return are_whole(first.call, WEFT_F32)   ? launch_together<Step, float>(runs, count, first, queue, launched)
               : are_whole(first.call, WEFT_F64) ? launch_together<Step, double>(runs, count, first, queue, launched)
                                                 : 0;
    });
}
