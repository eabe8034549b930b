/* Softmax along one dimension, a thread for each line: see cpu/softmax.c. */
#include "codelets/cuda/views.h"

namespace
{

enum softmax_kind { SOFTMAX, LOG_SOFTMAX, BACKWARD, LOG_BACKWARD };

template <typename T> __device__ void softmax_line(const weft_device_vector<T> &out, const weft_device_vector<T> &a, int64_t n)
{
    double most = weft_device_max<T>(n, [&](int64_t i) { return a[i]; });
    auto power = [&](int64_t i) { return weft_device_exp((T)(a[i] - (T)most)); };
    T factor = (T)(1 / weft_device_sum(n, [&](int64_t i) { return (double)power(i); }));
    for (int64_t i = 0; i < n; i++) {
        out.set(i, (T)(power(i) * factor));
    }
}

template <typename T>
__device__ void log_softmax_line(const weft_device_vector<T> &out, const weft_device_vector<T> &a, int64_t n)
{
    auto value = [&](int64_t i) { return a[i]; };
    double most = weft_device_max<T>(n, value), log_sum = log(weft_device_sum_exp<T>(n, most, value));
    for (int64_t i = 0; i < n; i++) {
        out.set(i, (T)((T)(a[i] - (T)most) - (T)log_sum));
    }
}

/* a: the gradient, b: the function's result. */
template <typename T>
__device__ void backward_line(const weft_device_vector<T> &out, const weft_device_vector<T> &a,
                              const weft_device_vector<T> &b, int64_t n)
{
    T sum = (T)weft_device_sum(n, [&](int64_t i) { return (double)a[i] * (double)b[i]; });
    for (int64_t i = 0; i < n; i++) {
        out.set(i, (T)(b[i] * (T)(a[i] - sum)));
    }
}

template <typename T>
__device__ void log_backward_line(const weft_device_vector<T> &out, const weft_device_vector<T> &a,
                                  const weft_device_vector<T> &b, int64_t n)
{
    T sum = (T)weft_device_sum(n, [&](int64_t i) { return (double)a[i]; });
    for (int64_t i = 0; i < n; i++) {
        out.set(i, (T)(a[i] - (T)(weft_device_exp(b[i]) * sum)));
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
        if (kind == SOFTMAX) {
            softmax_line(out_line, a_line, out.length);
        } else if (kind == LOG_SOFTMAX) {
            log_softmax_line(out_line, a_line, out.length);
        } else if (kind == BACKWARD) {
            backward_line(out_line, a_line, b_line, out.length);
        } else {
            log_backward_line(out_line, a_line, b_line, out.length);
        }
    }
}

template <softmax_kind kind> int launch_softmax(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const weft_device_view &out = call.views[0];
    return failed != 0 ? failed
                       : weft_call_launch(out.dtype == WEFT_F64 ? run_softmax<double, kind> : run_softmax<float, kind>,
                                          weft_lines_along(out, call.numbers[0]), call, queue);
}

/* ---- parts of rows ------------------------------------------------------------------------------------- */

enum sum_kind { SUM_EXP, SUM_PRODUCT };

template <typename T, sum_kind kind> __global__ void run_sums(const weft_device_call call)
{
    const int dim = (int)call.numbers[0];
    const bool products = kind == SUM_PRODUCT && call.num_inputs > 1;
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    const weft_device_vectors other = weft_device_vectors_along(call, weft_input(call, products ? 1 : 0), dim, dim);
    for (int64_t v = weft_first_index(); v < call.views[0].count; v += weft_index_step()) {
        double sum = call.first ? 0 : weft_get<double>(call, 0, v);
        if (in.length > 0) {
            const weft_device_vector<T> a(call, in, v), b(call, other, v);
            if (kind == SUM_EXP) {
                sum += weft_device_sum_exp<T>(in.length, weft_get<double>(call, weft_input(call, 1), v),
                                              [&](int64_t i) { return a[i]; });
            } else if (products) {
                sum += weft_device_sum(in.length, [&](int64_t i) { return (double)a[i] * (double)b[i]; });
            } else {
                sum += weft_device_sum(in.length, [&](int64_t i) { return (double)a[i]; });
            }
        }
        weft_set(call, 0, v, sum);
    }
}

template <sum_kind kind> int launch_sums(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    bool wide = call.views[call.num_outputs].dtype == WEFT_F64;
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
