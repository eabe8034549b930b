/* The rows of optimizers.inc, a thread for each element: see cpu/optimizers.c. */
#include <string.h>

#include "codelets/cuda/expressions.cuh"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/optimizers.h"
}

namespace
{

enum { MAX_TENSORS = 5 };

struct row_work {
    weft_device_call call;
    double scalars[WEFT_MAX_SCALARS];
    double decay, factor;
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

template <typename Row, typename T> __global__ void run_row(const row_work work)
{
    const weft_device_call &call = work.call;
    const T decay = (T)work.decay, factor = (T)work.factor;
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        T values[MAX_TENSORS] = { 0, 0, 0, 0, weft_get<T>(call, Row::states + 1, i) };
        for (int k = 0; k <= Row::states; k++) {
            values[k] = weft_get<T>(call, k, i);
        }
        values[4] = DECAYED(values[4], decay, values[0]);
        values[0] *= factor;
        Row::of(values, work.scalars);
        for (int k = 0; k <= Row::states; k++) {
            weft_set(call, k, i, values[k]);
        }
    }
}

template <template <typename> class Row> int launch(const row_work &work, weft_cuda_queue *queue)
{
    bool wide = false;
    for (int k = 0; k < work.call.num_outputs + work.call.num_inputs; k++) {
        wide = wide || work.call.views[k].dtype == WEFT_F64;
    }
    const int64_t count = work.call.views[0].count;
    return count == 0 ? 0
           : wide     ? weft_launch(run_row<Row<double>, double>, count, queue->stream, work)
                      : weft_launch(run_row<Row<float>, float>, count, queue->stream, work);
}

typedef int (*row_launch)(const row_work &work, weft_cuda_queue *queue);

const row_launch launches[] = {
#define WEFT_OPTIMIZER(name, states, ...) launch<row_##name>,
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
};

}

int weft_cuda_optimizer(const weft_task_run *run, weft_cuda_queue *queue)
{
    row_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    if (failed != 0) {
        return failed;
    }
    const bool apart = work.call.numbers[1] != 0;
    memcpy(work.scalars, run->scalars, sizeof(work.scalars));
    work.decay = apart ? 0 : work.scalars[WEFT_ROW_DECAY];
    work.factor = apart ? work.scalars[WEFT_ROW_FACTOR] : 1;
    return launches[work.call.numbers[0]](work, queue);
}
