/* Softmax along one dimension, a thread for each line, or a warp for a long one: see cpu/softmax.c. */
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace
{

enum softmax_kind { SOFTMAX, LOG_SOFTMAX, BACKWARD, LOG_BACKWARD };

/* a: the gradient of the backward kinds, and b the function's result; else a is the argument. */
template <typename Team, typename T, softmax_kind kind, typename Line>
__device__ void softmax_line(const Line &out, const Line &a, const Line &b, int64_t n)
{
    auto value = [&](int64_t i) { return a[i]; };
    auto for_each = [&](auto result) {
        for (int64_t i = Team::first(); i < n; i += Team::step) {
            out.set(i, result(i));
        }
    };
    if (kind == SOFTMAX) {
        const double most = Team::max(n, value);
        auto power = [&](int64_t i) { return weft_device_exp((T)(a[i] - (T)most)); };
        const T factor = (T)(1 / Team::sum(n, [&](int64_t i) { return (double)power(i); }));
        for_each([&](int64_t i) { return (T)(power(i) * factor); });
    } else if (kind == LOG_SOFTMAX) {
        const double most = Team::max(n, value), log_sum = log(Team::sum_exp(n, most, value));
        for_each([&](int64_t i) { return (T)((T)(a[i] - (T)most) - (T)log_sum); });
    } else if (kind == BACKWARD) {
        const T sum = (T)Team::sum(n, [&](int64_t i) { return (double)a[i] * (double)b[i]; });
        for_each([&](int64_t i) { return (T)(b[i] * (T)(a[i] - sum)); });
    } else {
        const T sum = (T)Team::sum(n, [&](int64_t i) { return (double)a[i]; });
        for_each([&](int64_t i) { return (T)(a[i] - (T)(weft_device_exp(b[i]) * sum)); });
    }
}

template <typename T, softmax_kind kind> __global__ void run_softmax(const weft_device_call call)
{
    const int dim = (int)call.numbers[0];
    const weft_device_vectors out = weft_device_vectors_along(call, 0, dim, dim);
    const weft_device_vectors a = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    const weft_device_vectors b = weft_device_vectors_along(call, weft_input(call, kind >= BACKWARD ? 1 : 0), dim, dim);
    for (int64_t v = weft_first_index(); v < out.count; v += weft_index_step()) {
        const weft_device_vector<T> out_line(call, out, v), a_line(call, a, v), b_line(call, b, v);
        softmax_line<weft_one_thread<T>, T, kind>(out_line, a_line, b_line, out.length);
    }
}

/* Along the last dimension. */
template <typename T, softmax_kind kind, bool direct> __global__ void run_softmax_together(const weft_device_call call)
{
    typedef weft_device_line<T, direct> line;
    const int dim = (int)call.numbers[0];
    const weft_device_vectors out = weft_device_vectors_along(call, 0, dim, dim);
    const weft_device_vectors a = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    const weft_device_vectors b = weft_device_vectors_along(call, weft_input(call, kind >= BACKWARD ? 1 : 0), dim, dim);
    for (int64_t v = weft_first_warp(); v < out.count; v += weft_warp_step()) {
        softmax_line<weft_one_warp<T>, T, kind>(line(call, out, v), line(call, a, v), line(call, b, v), out.length);
    }
}

template <typename T, softmax_kind kind> int launch_of_type(const weft_device_call &call, weft_cuda_queue *queue)
{
    const weft_device_view &out = call.views[0];
    const int64_t lines = weft_lines_along(out, call.numbers[0]);
    if (lines == 0 || call.numbers[0] != out.ndim - 1 || !weft_is_long_line(out, call.numbers[0])) {
        return weft_call_launch(run_softmax<T, kind>, lines, call, queue);
    }
    return weft_launch_warps(weft_are_of_type(call, sizeof(T) == sizeof(double) ? WEFT_F64 : WEFT_F32) ? run_softmax_together<T, kind, true>
                                                                                                  : run_softmax_together<T, kind, false>,
                             lines, queue->stream, call);
}

template <softmax_kind kind> int launch_softmax(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const int fast = failed == 0 && queue->fast ? weft_fast_softmax(run->kernel, &call, queue) : WEFT_NOT_FAST;
    return fast != WEFT_NOT_FAST                ? fast
           : failed != 0                          ? failed
           : call.views[0].dtype == WEFT_F64 ? launch_of_type<double, kind>(call, queue)
                                                : launch_of_type<float, kind>(call, queue);
}

/* ---- parts of rows ------------------------------------------------------------------------------------- */

enum sum_kind { SUM_EXP, SUM_PRODUCT };

template <typename Team, typename T, sum_kind kind, typename Line>
__device__ double sum_of_line(const weft_device_call &call, const Line &a, const Line &b, int64_t n, int64_t v)
{
    if (kind == SUM_EXP) {
        return Team::sum_exp(n, weft_get<double>(call, weft_input(call, 1), v), [&](int64_t i) { return a[i]; });
    }
    return call.num_inputs > 1 ? Team::sum(n, [&](int64_t i) { return (double)a[i] * (double)b[i]; })
                               : Team::sum(n, [&](int64_t i) { return (double)a[i]; });
}

/* The two operands' vectors. */
template <sum_kind kind> struct summed_vectors {
    weft_device_vectors a, b;

    __device__ explicit summed_vectors(const weft_device_call &call)
    {
        const int dim = (int)call.numbers[0], other = kind == SUM_PRODUCT && call.num_inputs > 1 ? 1 : 0;
        a = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
        b = weft_device_vectors_along(call, weft_input(call, other), dim, dim);
    }
};

template <typename T, sum_kind kind> __global__ void run_sums(const weft_device_call call)
{
    const summed_vectors<kind> in(call);
    for (int64_t v = weft_first_index(); v < call.views[0].count; v += weft_index_step()) {
        double sum = call.first ? 0 : weft_get<double>(call, 0, v);
        if (in.a.length > 0) {
            const weft_device_vector<T> a(call, in.a, v), b(call, in.b, v);
            sum += sum_of_line<weft_one_thread<T>, T, kind>(call, a, b, in.a.length, v);
        }
        weft_set(call, 0, v, sum);
    }
}

template <typename T, sum_kind kind> __global__ void run_sums_together(const weft_device_call call)
{
    typedef weft_device_line<T, false> line;
    const summed_vectors<kind> in(call);
    for (int64_t v = weft_first_warp(); v < call.views[0].count; v += weft_warp_step()) {
        const double sum = sum_of_line<weft_one_warp<T>, T, kind>(call, line(call, in.a, v), line(call, in.b, v), in.a.length, v);
        if (weft_warp_thread() == 0) {
            weft_set(call, 0, v, call.first ? sum : weft_get<double>(call, 0, v) + sum);
        }
    }
}

template <sum_kind kind> int launch_sums(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const weft_device_view &in = call.views[call.num_outputs];
    const bool wide = in.dtype == WEFT_F64;
    if (failed == 0 && call.views[0].count > 0 && call.numbers[0] == in.ndim - 1 && weft_is_long_line(in, call.numbers[0])) {
        return weft_launch_warps(wide ? run_sums_together<double, kind> : run_sums_together<float, kind>, call.views[0].count,
                                 queue->stream, call);
    }
    return failed != 0 ? failed
                       : weft_call_launch(wide ? run_sums<double, kind> : run_sums<float, kind>, call.views[0].count,
                                          call, queue);
}

}

int weft_cuda_softmax(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_softmax<SOFTMAX>(run, queue);
}

int weft_cuda_log_softmax(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_softmax<LOG_SOFTMAX>(run, queue);
}

int weft_cuda_softmax_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_softmax<BACKWARD>(run, queue);
}

int weft_cuda_log_softmax_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_softmax<LOG_BACKWARD>(run, queue);
}

int weft_cuda_sum_exp(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_sums<SUM_EXP>(run, queue);
}

int weft_cuda_sum_product(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_sums<SUM_PRODUCT>(run, queue);
}
