/* Normalisation of vectors, a thread for each, or a warp for a long one: see cpu/norms.c. */
#include <math.h>

#include "codelets/cuda/norms.cuh"
#include "codelets/cuda/products.h"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/norms.h"
}

namespace
{

typedef weft_norm_work norm_work;
typedef weft_norm_statistics statistics;

/* The gain, or the bias: contiguous where it lies in one panel. */
template <typename T> struct parameter {
    const weft_device_call &call;
    int view;
    char *memory; /* NULL: in several panels */

    __device__ parameter(const weft_device_call &call_, int view_) : call(call_), view(view_), memory(NULL)
    {
        const weft_device_view &of = call.views[view];
        if (view != 0 && of.count > 0 && weft_rows_together(of, 0) >= of.extent[0]) {
            const weft_device_place begin = weft_place_of(call, view, 0);
            memory = begin.memory + (size_t)begin.place * weft_size_of(of.dtype);
        }
    }

    __device__ T operator[](int64_t i) const
    {
        const weft_dtype type = call.views[view].dtype;
        return memory == NULL                               ? weft_get<T>(call, view, i)
               : type == WEFT_F32 && sizeof(T) == sizeof(float) ? ((const T *)memory)[i]
                                                            : weft_load_as(T(), type, memory, i);
    }
};

/* Arguments common to all vectors. T: the type of the arithmetic. */
template <typename T> struct norm_job {
    const norm_work &work;
    const weft_device_call &call;
    weft_device_vectors a, gradient, out;
    const parameter<T> gain, bias;
    double size;
    bool centred;

    __device__ norm_job(const norm_work &work_, int num_tensors)
        : work(work_), call(work_.call), gain(call, work_.gain), bias(call, work_.bias), size(1)
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

    template <typename Team, typename Vector> __device__ statistics statistics_of(int64_t vector, const Vector &x) const
    {
        statistics s;
        double variance;
        if (work.variance != 0) {
            s.mean = work.mean != 0 ? weft_get<double>(call, work.mean, vector) : 0;
            variance = weft_get<double>(call, work.variance, vector);
        } else {
            s.mean = centred ? Team::sum(a.length, [&](int64_t i) { return (double)x[i]; }) / size : 0;
            const double mean = s.mean;
            variance = Team::sum(a.length, [&](int64_t i) {
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
    template <typename Vector> __device__ T weighted(const Vector &of, int64_t i) const
    {
        T value = of[i];
        return work.gain != 0 ? (T)(value * gain[i]) : value;
    }
};

/* ---- one vector ---------------------------------------------------------------------------------------- */

/* Returns its statistics. */
template <typename Team, typename T, typename Vector>
__device__ statistics norm_of(const norm_job<T> &job, int64_t v, const Vector &x, const Vector &out)
{
    const norm_work &work = job.work;
    const statistics s = job.template statistics_of<Team>(v, x);
    for (int64_t i = Team::first(); i < job.out.length; i += Team::step) {
        const T value = job.normal(x[i], s), weighted = work.gain != 0 ? (T)(value * job.gain[i]) : value;
        out.set(i, work.bias != 0 ? (T)(weighted + job.bias[i]) : weighted);
    }
    return s;
}

/* The two sums that the gradients need: of the weighted gradient, and of its products with the normal values. */
template <typename Team, typename T, typename Vector>
__device__ void sums_of(const norm_job<T> &job, const statistics &s, const Vector &x, const Vector &gradient, double *sum, double *product)
{
    *sum = Team::sum(job.a.length, [&](int64_t i) { return (double)job.weighted(gradient, i); });
    *product = Team::sum(job.a.length, [&](int64_t i) { return (double)job.weighted(gradient, i) * (double)job.normal(x[i], s); });
}

template <typename Team, typename T, typename Vector>
__device__ void norm_backward_of(const norm_job<T> &job, int64_t v, const Vector &x, const Vector &gradient, const Vector &out)
{
    const weft_device_call &call = job.call;
    const statistics s = job.template statistics_of<Team>(v, x);
    double sum, product;
    if (job.work.sums != 0) {
        sum = weft_get<double>(call, job.work.sums, 2 * v);
        product = weft_get<double>(call, job.work.sums, 2 * v + 1);
    } else {
        sums_of<Team>(job, s, x, gradient, &sum, &product);
    }
    const T mean = (T)(job.centred ? sum / job.size : 0), slope = (T)(product / job.size), inverse = (T)s.inverse;
    for (int64_t i = Team::first(); i < job.out.length; i += Team::step) {
        const T normal = job.normal(x[i], s);
        out.set(i, (T)(inverse * ((job.weighted(gradient, i) - mean) - normal * slope)));
    }
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

__device__ void keep(const weft_device_call &call, int64_t v, const statistics &s)
{
    if (call.num_outputs > 1) {
        weft_set(call, 1, v, s.inverse);
    }
    if (call.num_outputs > 2) {
        weft_set(call, 2, v, s.mean);
    }
}

template <typename T> __global__ void run_norm(const norm_work work)
{
    const norm_job<T> job(work, 1);
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        statistics s = { NAN, NAN };
        if (job.out.length > 0) {
            s = norm_of<weft_one_thread<T>>(job, v, weft_device_vector<T>(work.call, job.a, v), weft_device_vector<T>(work.call, job.out, v));
        }
        keep(work.call, v, s);
    }
}

template <typename T, bool direct> __global__ void run_norm_together(const norm_work work)
{
    typedef weft_device_line<T, direct> line;
    const norm_job<T> job(work, 1);
    for (int64_t v = weft_first_warp(); v < work.count; v += weft_warp_step()) {
        const statistics s = norm_of<weft_one_warp<T>>(job, v, line(work.call, job.a, v), line(work.call, job.out, v));
        if (weft_warp_thread() == 0) {
            keep(work.call, v, s);
        }
    }
}

template <typename T> __global__ void run_norm_backward(const norm_work work)
{
    typedef weft_device_vector<T> vector;
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        norm_backward_of<weft_one_thread<T>>(job, v, vector(work.call, job.a, v), vector(work.call, job.gradient, v),
                                             vector(work.call, job.out, v));
    }
}

template <typename T, bool direct> __global__ void run_norm_backward_together(const norm_work work)
{
    typedef weft_device_line<T, direct> line;
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_warp(); v < work.count; v += weft_warp_step()) {
        norm_backward_of<weft_one_warp<T>>(job, v, line(work.call, job.a, v), line(work.call, job.gradient, v),
                                           line(work.call, job.out, v));
    }
}

/* Adds a vector's sums to those of the parts before. */
__device__ void add_sums(const weft_device_call &call, int64_t v, double sum, double product)
{
    weft_set(call, 0, 2 * v, (call.first ? 0 : weft_get<double>(call, 0, 2 * v)) + sum);
    weft_set(call, 0, 2 * v + 1, (call.first ? 0 : weft_get<double>(call, 0, 2 * v + 1)) + product);
}

template <typename T> __global__ void run_norm_sums(const norm_work work)
{
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_index(); v < work.count; v += weft_index_step()) {
        double sum = 0, product = 0;
        if (job.a.length > 0) {
            const weft_device_vector<T> x(call, job.a, v), gradient(call, job.gradient, v);
            sums_of<weft_one_thread<T>>(job, job.template statistics_of<weft_one_thread<T>>(v, x), x, gradient, &sum, &product);
        }
        add_sums(call, v, sum, product);
    }
}

template <typename T, bool direct> __global__ void run_norm_sums_together(const norm_work work)
{
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_warp(); v < work.count; v += weft_warp_step()) {
        const weft_device_line<T, direct> x(work.call, job.a, v), gradient(work.call, job.gradient, v);
        double sum, product;
        sums_of<weft_one_warp<T>>(job, job.template statistics_of<weft_one_warp<T>>(v, x), x, gradient, &sum, &product);
        if (weft_warp_thread() == 0) {
            add_sums(work.call, v, sum, product);
        }
    }
}

/* The statistics of each vector, by a warp, into scratch memory. */
template <typename T> __global__ void run_statistics(const norm_work work)
{
    const norm_job<T> job(work, 2);
    for (int64_t v = weft_first_warp(); v < job.a.count; v += weft_warp_step()) {
        const statistics s = job.template statistics_of<weft_one_warp<T>>(v, weft_device_line<T, false>(work.call, job.a, v));
        if (weft_warp_thread() == 0) {
            ((statistics *)work.scratch)[v] = s;
        }
    }
}

/* With these: a block for WEFT_WARP columns of the gain. Its warps evaluate some vectors each, and the first one adds them in
 * their order. */
enum { GAIN_WARPS = 8, GAIN_VECTORS = 8, GAIN_ROUND = GAIN_WARPS * GAIN_VECTORS };

template <typename T, bool direct> __global__ void run_gain_of_statistics(const norm_work work)
{
    typedef weft_device_line<T, direct> line;
    __shared__ double products[GAIN_ROUND][WEFT_WARP];
    const weft_device_call &call = work.call;
    const norm_job<T> job(work, 2);
    const statistics *found = (const statistics *)work.scratch;
    const int64_t count = call.views[0].count, vectors = job.a.count;
    const int lane = weft_warp_thread(), own = (int)threadIdx.x / WEFT_WARP * GAIN_VECTORS;
    for (int64_t first_column = blockIdx.x * (int64_t)WEFT_WARP; first_column < count; first_column += gridDim.x * (int64_t)WEFT_WARP) {
        const int64_t column = first_column + lane;
        double total = call.first || column >= count ? 0 : weft_get<double>(call, 0, column);
        for (int64_t first = 0; first < vectors; first += GAIN_ROUND) {
            T x[GAIN_VECTORS], gradient[GAIN_VECTORS];
            WEFT_UNROLL
            for (int u = 0; u < GAIN_VECTORS; u++) {
                const bool here = column < count && first + own + u < vectors;
                x[u] = here ? line(call, job.a, first + own + u)[column] : (T)0;
                gradient[u] = here ? line(call, job.gradient, first + own + u)[column] : (T)0;
            }
            WEFT_UNROLL
            for (int u = 0; u < GAIN_VECTORS; u++) {
                if (column < count && first + own + u < vectors) {
                    products[own + u][lane] = (double)gradient[u] * (double)job.normal(x[u], found[first + own + u]);
                }
            }
            __syncthreads();
            for (int64_t i = 0; threadIdx.x < WEFT_WARP && column < count && i < GAIN_ROUND && first + i < vectors; i++) {
                total += products[i][lane];
            }
            __syncthreads();
        }
        if (threadIdx.x < WEFT_WARP && column < count) {
            weft_set(call, 0, column, total);
        }
    }
}

enum { THREADS = 256 };

/* Without scratch memory for these: a thread for each column of the gain, which adds its vectors in order; a block's threads find the statistics of a vector
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
            found[threadIdx.x] = job.template statistics_of<weft_one_thread<T>>(own, weft_device_vector<T>(call, job.a, own));
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

typedef void (*norm_kernel)(norm_work);

/* Kernels for single and for double precision: a thread for each vector; a warp; a warp where all tensors have that type. */
struct norm_kernels {
    norm_kernel thread[2], warp[2], direct[2];
};
#define KERNELS(name)                                                                                        \
    {                                                                                                        \
        { name<float>, name<double> }, { name##_together<float, false>, name##_together<double, false> },    \
        {                                                                                                    \
            name##_together<float, true>, name##_together<double, true>                                      \
        }                                                                                                    \
    }

/* `tensors`: the call's views that hold vectors: input 0, and up to two others. */
int launch(const norm_kernels &kernels, const norm_work &work, int num_tensors, const int tensors[], weft_cuda_queue *queue)
{
    const weft_device_call &call = work.call;
    const weft_device_view &a = call.views[call.num_outputs];
    const bool wide = a.dtype == WEFT_F64;
    if (work.count == 0) {
        return 0;
    }
    if (!weft_is_long_line(a, call.numbers[WEFT_NORM_FIRST])) {
        return weft_launch(kernels.thread[wide], work.count, queue->stream, work);
    }
    bool direct = true;
    for (int i = 0; i < num_tensors; i++) {
        direct = direct && call.views[tensors[i]].dtype == (wide ? WEFT_F64 : WEFT_F32);
    }
    return weft_launch_warps(direct ? kernels.direct[wide] : kernels.warp[wide], work.count, queue->stream, work);
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
    static const norm_kernels kernels = KERNELS(run_norm);
    const int a = work.call.num_outputs, tensors[] = { a, 0 };
    const int fast = failed == 0 && queue->fast ? weft_fast_norm(&work, queue) : WEFT_NOT_FAST;
    return failed != 0 ? failed : fast != WEFT_NOT_FAST ? fast : launch(kernels, work, 2, tensors, queue);
}

int weft_cuda_norm_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count == 0 ? 0 : vectors_of(work.call);
    static const norm_kernels kernels = KERNELS(run_norm_backward);
    const int a = work.call.num_outputs, tensors[] = { a, a + 1, 0 };
    const int fast = failed == 0 && queue->fast ? weft_fast_norm_backward(&work, queue) : WEFT_NOT_FAST;
    return failed != 0 ? failed : fast != WEFT_NOT_FAST ? fast : launch(kernels, work, 3, tensors, queue);
}

int weft_cuda_norm_sums(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count / 2;
    static const norm_kernels kernels = KERNELS(run_norm_sums);
    const int a = work.call.num_outputs, tensors[] = { a, a + 1 };
    return failed != 0 ? failed : launch(kernels, work, 2, tensors, queue);
}

int weft_cuda_norm_gain_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    norm_work work;
    int failed = begin(&work, run, queue, 2);
    work.count = work.call.views[0].count;
    const weft_device_view &a = work.call.views[work.call.num_outputs];
    const bool is_wide = a.dtype == WEFT_F64;
    const int64_t vectors = work.count == 0 || work.call.numbers[WEFT_NORM_FIRST] < 1 ? 0 : a.count / work.count;
    size_t bytes = 0;
    const int fast = failed == 0 && queue->fast ? weft_fast_norm_gain_backward(&work, queue) : WEFT_NOT_FAST;
    if (failed != 0 || fast != WEFT_NOT_FAST) {
        return failed != 0 ? failed : fast;
    }
    if (vectors > 0 && weft_cuda_scratch(queue, &work.scratch, &bytes) == 0 &&
        vectors <= (int64_t)(bytes / sizeof(statistics))) {
        const bool direct = a.dtype == work.call.views[work.call.num_outputs + 1].dtype && (is_wide || a.dtype == WEFT_F32);
        const int64_t blocks = (work.count + WEFT_WARP - 1) / WEFT_WARP, most = 1 << 16;
        failed = weft_launch_warps(is_wide ? run_statistics<double> : run_statistics<float>, vectors, queue->stream, work);
        return failed != 0 ? failed
                           : weft_launch_blocks(is_wide ? (direct ? run_gain_of_statistics<double, true> : run_gain_of_statistics<double, false>)
                                                    : (direct ? run_gain_of_statistics<float, true> : run_gain_of_statistics<float, false>),
                                            (unsigned)(blocks < most ? blocks : most), GAIN_WARPS * WEFT_WARP, queue->stream, work);
    }
    return work.count == 0
               ? 0
               : weft_launch_blocks(is_wide ? run_norm_gain_backward<double> : run_norm_gain_backward<float>,
                                    (unsigned)((work.count + THREADS - 1) / THREADS), THREADS, queue->stream, work);
}
