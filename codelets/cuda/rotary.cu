/* Rotary position embedding, a thread for each pair of elements at POSITIONS positions: see cpu/rotary.c, whose angles follow
 * from the first of these positions too. */
#include <math.h>

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/rotary.h"
}

namespace
{

enum { POSITIONS = WEFT_ROTARY_POSITIONS };

struct rotary_work {
    weft_device_call call;
    int64_t half, positions, first; /* pairs of a vector; vectors one behind the other; position of the first */
    int64_t tables, count;          /* groups of POSITIONS positions; of all vectors, for each pair */
};

template <typename T> __global__ void run_rotary(const rotary_work work)
{
    const weft_device_call &call = work.call;
    const double theta = call.scalars[WEFT_ROTARY_THETA], sign = call.scalars[WEFT_ROTARY_SIGN];
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        const int64_t group = weft_quotient(i, work.half), pair = i - group * work.half;
        const int64_t outer = weft_quotient(group, work.tables), table = group - outer * work.tables;
        const int64_t begin = (work.first / POSITIONS + table) * POSITIONS;
        const double frequency = pow(theta, -2.0 * (double)pair / (double)(2 * work.half));
        const double step_cosine = cos(frequency), step_sine = sin(frequency), angle = (double)begin * frequency;
        double cosine = cos(angle), sine = sin(angle);
        for (int64_t position = begin - work.first; position < begin - work.first + POSITIONS; position++) {
            if (position >= 0 && position < work.positions) {
                const int64_t at = (outer * work.positions + position) * 2 * work.half + pair;
                const T c = (T)cosine, s = (T)(sign * sine);
                const T a = weft_get<T>(call, weft_input(call, 0), at), b = weft_get<T>(call, weft_input(call, 0), at + work.half);
                weft_set(call, 0, at, (T)((T)(a * c) - (T)(b * s)));
                weft_set(call, 0, at + work.half, (T)((T)(b * c) + (T)(a * s)));
            }
            const double next = cosine * step_cosine - sine * step_sine;
            sine = sine * step_cosine + cosine * step_sine;
            cosine = next;
        }
    }
}

}

int weft_cuda_rotary(const weft_task_run *run, weft_cuda_queue *queue)
{
    rotary_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    const weft_device_view &out = work.call.views[0];
    const int dim = out.ndim - 2;
    if (failed != 0 || out.count == 0) {
        return failed;
    }
    work.half = out.extent[dim + 1] / 2;
    work.positions = out.extent[dim];
    work.first = (int64_t)work.call.scalars[WEFT_ROTARY_FIRST] + out.offset[dim];
    work.tables = (work.first + work.positions - 1) / POSITIONS - work.first / POSITIONS + 1;
    work.count = out.count / (2 * work.half * work.positions) * work.tables * work.half;
    return weft_launch(out.dtype == WEFT_F64 ? run_rotary<double> : run_rotary<float>, work.count, queue->stream, work);
}
