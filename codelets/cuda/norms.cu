/* Normalisation of vectors, a thread for each: see cpu/norms.c. */
#include <math.h>

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/norms.h"
}

namespace
{

struct norm_work {
    weft_device_call call;
    int mean, variance, sums, gain, bias; /* numbers of views; 0: none */
    int64_t count;                        /* vectors */
};

struct statistics {
    double mean, inverse;
};

/* Arguments common to all vectors. T: the type of the arithmetic. */
template <typename T> struct norm_job {
    const norm_work &work;
    const weft_device_call &call;
    weft_device_vectors a, gradient, out;
    double size;
    bool centred;

    __device__ norm_job(const norm_work &work_, int num_tensors) : work(work_), call(work_.call), size(1)
    {
        const int input = weft_input(call, 0), first = (int)call.numbers[WEFT_NORM_FIRST];
        const weft_device_view &view = call.views[input];
        a = weft_device_vectors_along(call, input, first, view.ndim - 1);
        gradient = weft_device_vectors_along(call, input + num_tensors - 1, first, view.ndim - 1);
        out = weft_device_vectors_along(call, 0, first, view.ndim - 1);
        centred = call.numbers[WEFT_NORM_CENTRED] != 0;
        for (int d = first; d < view.ndim; d++) {
            size *= (double)view.shape[d];
        }
    }

    __device__ statistics statistics_of(int64_t vector, const weft_device_vector<T> &x) const
    {
        statistics s;
        double variance;
        if (work.variance != 0) {
            s.mean = work.mean != 0 ? weft_get<double>(call, work.mean, vector) : 0;
            variance = weft_get<double>(call, work.variance, vector);
        } else {
            s.mean = centred ? weft_device_sum(a.length, [&](int64_t i) { return (double)x[i]; }) / size : 0;
            const double mean = s.mean;
            variance = weft_device_sum(a.length, [&](int64_t i) {
                           return ((double)x[i] - mean) * ((double)x[i] - mean);
                       }) / size;
        }
        bool kept = (call.numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_RSTD) != 0;
        s.inverse = kept ? variance : 1 / sqrt(variance + call.scalars[0]);
        return s;
    }

    /* The mean is subtracted in two parts, to keep its low bits in single precision. */
    static __device__ T normal(T x, const statistics &s)
    {
        const T mean = (T)s.mean, inverse = (T)s.inverse;
        const double rest = s.mean - (double)mean;
        return ((x - mean) - (T)rest) * inverse;
    }

    /* The result's gradient times the gain. */
    __device__ T weighted(const weft_device_vector<T> &of, int64_t i) const
    {
        T value = of[i];
        return work.gain != 0 ? (T)(value * weft_get<T>(call, work.gain, i)) : value;
    }
};

template <typename T> __global__ void run_norm(const norm_work work)
{
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 1);
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        statistics s = { NAN, NAN };
        if (job.out.length > 0) {
            const weft_device_vector<T> x(call, job.a, v), out(call, job.out, v);
            s = job.statistics_of(v, x);
            for (int64_t i = 0; i < job.out.length; i++) {
                T value = job.normal(x[i], s);
                value = work.gain != 0 ? (T)(value * weft_get<T>(call, work.gain, i)) : value;
                out.set(i, work.bias != 0 ? (T)(value + weft_get<T>(call, work.bias, i)) : value);
            }
        }
        if (call.num_outputs > 1) {
            weft_set(call, 1, v, s.inverse);
        }
        if (call.num_outputs > 2) {
            weft_set(call, 2, v, s.mean);
        }
    }
}

template <typename T> __global__ void run_norm_backward(const norm_work work)
{
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 2);
    const int64_t n = job.out.length;
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        const weft_device_vector<T> x(call, job.a, v), gradient(call, job.gradient, v), out(call, job.out, v);
        const statistics s = job.statistics_of(v, x);
        double sum, product;
        if (work.sums != 0) {
            sum = weft_get<double>(call, work.sums, 2 * v);
            product = weft_get<double>(call, work.sums, 2 * v + 1);
        } else {
            sum = weft_device_sum(n, [&](int64_t i) { return (double)job.weighted(gradient, i); });
            product = weft_device_sum(n, [&](int64_t i) {
                return (double)job.weighted(gradient, i) * (double)job.normal(x[i], s);
            });
        }
        const T mean = (T)(job.centred ? sum / job.size : 0), slope = (T)(product / job.size), inverse = (T)s.inverse;
        for (int64_t i = 0; i < n; i++) {
            const T normal = job.normal(x[i], s);
            out.set(i, (T)(inverse * ((job.weighted(gradient, i) - mean) - normal * slope)));
        }
    }
}

template <typename T> __global__ void run_norm_sums(const norm_work work)
{
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        double sum = call.first ? 0 : weft_get<double>(call, 0, 2 * v);
        double product = call.first ? 0 : weft_get<double>(call, 0, 2 * v + 1);
        if (job.a.length > 0) {
            const weft_device_vector<T> x(call, job.a, v), gradient(call, job.gradient, v);
            const statistics s = job.statistics_of(v, x);
            sum += weft_device_sum(job.a.length, [&](int64_t i) { return (double)job.weighted(gradient, i); });
            product += weft_device_sum(job.a.length, [&](int64_t i) {
                return (double)job.weighted(gradient, i) * (double)job.normal(x[i], s);
            });
        }
        weft_set(call, 0, 2 * v, sum);
        weft_set(call, 0, 2 * v + 1, product);
    }
}

enum { THREADS = 256 };

/* A thread for each column of the gain, which adds its vectors in order; a block's threads find the statistics of a vector
 * each. */
template <typename T> __global__ void run_norm_gain_backward(const norm_work work)
{
    __shared__ statistics found[THREADS];
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 2);
    const int64_t column = weft_first_index(), vectors = call.views[weft_input(call, 0)].count == 0 ? 0 : job.a.count;
    const bool here = column < call.views[0].count;
    double total = !here || call.first ? 0 : weft_get<double>(call, 0, column);
    for (int64_t first = 0; first < vectors; first += THREADS) {
        const int64_t own = first + threadIdx.x;
        if (own < vectors) {
            found[threadIdx.x] = job.statistics_of(own, weft_device_vector<T>(call, job.a, own));
        }
        __syncthreads();
        for (int64_t v = first; here && v < vectors && v < first + THREADS; v++) {
            const weft_device_vector<T> x(call, job.a, v), gradient(call, job.gradient, v);
            total += (double)gradient[column] * (double)job.normal(x[column], found[v - first]);
        }
        __syncthreads();
    }
    if (here) {
        weft_set(call, 0, column, total);
    }
}

/* Fills in the call, and finds its optional inputs. */
int begin(norm_work *work, const weft_task_run *run, weft_cuda_queue *queue, int num_tensors)
{
    int failed = weft_call_begin(&work->call, run, queue);
    const int64_t *numbers = work->call.numbers, parts = numbers[WEFT_NORM_PARTS];
    int next = work->call.num_outputs + num_tensors;
    work->mean = work->variance = 0;
    if (parts & WEFT_NORM_HAS_STATISTICS) {
        work->mean = numbers[WEFT_NORM_CENTRED] ? next++ : 0;
        work->variance = next++;
    }
    work->sums = parts & WEFT_NORM_HAS_SUMS ? next++ : 0;
    work->gain = parts & WEFT_NORM_HAS_GAIN ? next++ : 0;
    work->bias = parts & WEFT_NORM_HAS_BIAS ? next++ : 0;
    return failed;
}

int launch(void (*narrow)(norm_work), void (*wide)(norm_work), const norm_work &work, weft_cuda_queue *queue)
{
    bool is_wide = work.call.views[work.call.num_outputs].dtype == WEFT_F64;
    return work.count == 0 ? 0 : weft_launch(is_wide ? wide : narrow, work.count, queue->stream, work);
}

/* Vectors of the output. */
int64_t vectors_of(const weft_device_call &call)
{
    int64_t count = 1;
    for (int d = 0; d < call.numbers[WEFT_NORM_FIRST]; d++) {
        count *= call.views[0].extent[d];
    }
    return count;
}

}

int weft_cuda_norm(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 1);
    work.count = vectors_of(work.call);
    return failed != 0 ? failed : launch(run_norm<float>, run_norm<double>, work, queue);
}

int weft_cuda_norm_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count == 0 ? 0 : vectors_of(work.call);
    return failed != 0 ? failed : launch(run_norm_backward<float>, run_norm_backward<double>, work, queue);
}

int weft_cuda_norm_sums(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count / 2;
    return failed != 0 ? failed : launch(run_norm_sums<float>, run_norm_sums<double>, work, queue);
}

int weft_cuda_norm_gain_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count;
    const bool is_wide = work.call.views[work.call.num_outputs].dtype == WEFT_F64;
    return failed != 0 || work.count == 0
               ? failed
               : weft_launch_blocks(is_wide ? run_norm_gain_backward<double> : run_norm_gain_backward<float>,
                                    (unsigned)((work.count + THREADS - 1) / THREADS), THREADS, queue->stream, work);
}
