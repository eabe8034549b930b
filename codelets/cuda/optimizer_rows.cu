/* The rows of optimizers.inc, a thread for each element: see cpu/optimizers.c. */
#include "codelets/cuda/steps.cuh"

extern "C" {
#include "codelets/optimizers.h"
}

namespace
{

/* Scalars behind those of the row. */
enum { DECAY = WEFT_ROW_FACTOR + 1, FACTOR, NUM_SCALARS };
enum { MAX_TENSORS = 5 };

struct row_work {
    weft_device_call call;
    double scalars[steps::MAX_SCALARS];
};

/* values: the parameter, three states, the gradient. */
#define WEFT_OPTIMIZER(name, states_, ...)                                                                   \
    template <typename T> struct row_##name {                                                                \
        static const int states = states_;                                                                   \
        static __device__ void of(T *values, const double *scalars)                                          \
        {                                                                                                    \
            const T rate = (T)scalars[WEFT_ROW_RATE], epsilon = (T)scalars[WEFT_ROW_EPSILON];                \
            const T a = (T)scalars[WEFT_ROW_A], b = (T)scalars[WEFT_ROW_B];                                  \
            const T c = (T)scalars[WEFT_ROW_C], d = (T)scalars[WEFT_ROW_D];                                  \
            (void)epsilon, (void)a, (void)b, (void)c, (void)d;                                               \
            T &p = values[0], &x = values[1], &y = values[2], &z = values[3], &g = values[4];                \
            (void)y, (void)z;                                                                                \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    };
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER

/* values: the parameter, its states, the gradient. */
template <typename Row, typename T> __device__ void step_element(T *values, const double *scalars)
{
    T all[MAX_TENSORS] = { 0, 0, 0, 0, values[Row::states + 1] };
    for (int k = 0; k <= Row::states; k++) {
        all[k] = values[k];
    }
    all[MAX_TENSORS - 1] = DECAYED(all[MAX_TENSORS - 1], (T)scalars[DECAY], all[0]);
    all[0] *= (T)scalars[FACTOR];
    Row::of(all, scalars);
    for (int k = 0; k <= Row::states; k++) {
        values[k] = all[k];
    }
}

template <typename Row, typename T> __global__ void run_row(const row_work work)
{
    const weft_device_call &call = work.call;
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        T values[MAX_TENSORS];
        for (int k = 0; k <= Row::states + 1; k++) {
            values[k] = weft_get<T>(call, k, i);
        }
        step_element<Row>(values, work.scalars);
        for (int k = 0; k <= Row::states; k++) {
            weft_set(call, k, i, values[k]);
        }
    }
}

/* The step of steps::run_together(). */
template <template <typename> class Row> struct together {
    template <typename T> struct of_type {
        static const int outputs = Row<T>::states + 1;
        static __device__ void of(T *values, const weft_dtype *, const double *scalars)
        {
            step_element<Row<T>>(values, scalars);
        }
    };
};

template <template <typename> class Row> int launch_views(const row_work &work, weft_cuda_queue *queue)
{
    bool wide = false;
    for (int k = 0; k < work.call.num_outputs + work.call.num_inputs; k++) {
        wide = wide || work.call.views[k].dtype == WEFT_F64;
    }
    const int64_t count = work.call.views[0].count;
    return wide ? weft_launch(run_row<Row<double>, double>, count, queue->stream, work)
                : weft_launch(run_row<Row<float>, float>, count, queue->stream, work);
}

struct row_launch {
    int (*views)(const row_work &work, weft_cuda_queue *queue);
    int (*together)(const steps::many_work &many, int64_t blocks, void *stream);
};

const row_launch launches[] = {
#define WEFT_OPTIMIZER(name, states, ...) { launch_views<row_##name>, steps::launch<together<row_##name>::template of_type> },
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
};

void find_scalars(double to[steps::MAX_SCALARS], const weft_task_run *run, const weft_device_call &call)
{
    static_assert((int)NUM_SCALARS <= (int)steps::MAX_SCALARS && (int)WEFT_MAX_SCALARS <= (int)DECAY, "");
    const bool apart = call.numbers[1] != 0;
    memcpy(to, run->scalars, sizeof(run->scalars));
    to[DECAY] = apart ? 0 : run->scalars[WEFT_ROW_DECAY];
    to[FACTOR] = apart ? run->scalars[WEFT_ROW_FACTOR] : 1;
}

}

int weft_cuda_rows_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched)
{
    return steps::launch_together(
        runs, count, launched,
        [&](weft_device_call *call, double *scalars, const weft_task_run *run) {
            weft_device_call_fill(call, run);
            find_scalars(scalars, run, *call);
            return true;
        },
        [&](const steps::many_work &many, int64_t blocks, const weft_device_call &first) {
            return launches[first.numbers[0]].together(many, blocks, queue->stream);
        });
}

int weft_cuda_optimizer(const weft_task_run *run, weft_cuda_queue *queue)
{
    row_work work = {};
    int launched, failed = weft_cuda_rows_together(run, 1, queue, &launched);
    if (failed != 0 || launched > 0) {
        return failed;
    }
    failed = weft_call_begin(&work.call, run, queue);
    find_scalars(work.scalars, run, work.call);
    return failed != 0 || work.call.views[0].count == 0 ? failed : launches[work.call.numbers[0]].views(work, queue);
}
