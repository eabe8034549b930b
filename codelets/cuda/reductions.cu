/* Reductions over dimensions, in the order of cpu/reductions.c: a thread for each result, or a warp for each group of values that
 * follow each other. */
#include <limits.h>
#include <math.h>

#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"
#include "codelets/cuda/products.h"
#include "codelets/cuda/reduction_kinds.cuh"

extern "C" {
#include "codelets/reductions.h"
}

namespace
{

/* How the input's elements belong to results. Strides are those of its row-major order. */
struct reduction_work {
    weft_device_call call;
    int ndim, source; /* number of the input among the views */
    bool reduced[WEFT_MAX_DIMS], reduces_last;
    int64_t stride[WEFT_MAX_DIMS];
    int64_t outer;                             /* combinations of indices of reduced dimensions, without a reduced last one */
    int64_t order[WEFT_MAX_DIMS], origin;      /* for places: see cpu/reductions.c */
    bool powers, centred, scaled;              /* |value|^scalars[1]; differences from input 1, or products with it */
    int group;                                 /* values of a run that are reduced together, before they join the result */
    void *scratch;                             /* where groups have a warp each: what each leaves */
};

/* The first element of result r. */
__device__ int64_t base_of(const reduction_work &work, int64_t r)
{
    const weft_device_view &in = work.call.views[work.source];
    int64_t base = 0;
    for (int d = work.ndim - 1; d >= 0; d--) {
        if (!work.reduced[d]) {
            int64_t rest = weft_quotient(r, in.extent[d]);
            base += (r - rest * in.extent[d]) * work.stride[d];
            r = rest;
        }
    }
    return base;
}

/* The distance of combination c of the reduced indices, and its place in the order of the whole tensor. */
__device__ int64_t distance_of(const reduction_work &work, int64_t c, int64_t *position)
{
    const weft_device_view &in = work.call.views[work.source];
    int64_t distance = 0;
    *position = work.origin;
    for (int d = work.ndim - 1 - (work.reduces_last ? 1 : 0); d >= 0; d--) {
        if (work.reduced[d]) {
            int64_t rest = weft_quotient(c, in.extent[d]), at = c - rest * in.extent[d];
            distance += at * work.stride[d];
            *position += at * work.order[d];
            c = rest;
        }
    }
    return distance;
}

template <typename T> struct reduced_values {
    const reduction_work &work;
    int64_t result;

    __device__ T at(weft_device_place from, int64_t i) const
    {
        return weft_load_as(T(), work.call.views[work.source].dtype, from.memory, from.place + i);
    }
};

template <> __device__ double reduced_values<double>::at(weft_device_place from, int64_t i) const
{
    const weft_dtype type = work.call.views[work.source].dtype;
    double value = type == WEFT_F32 ? (double)((const float *)from.memory)[from.place + i]
                                    : weft_load_as(double(), type, from.memory, from.place + i);
    if (work.centred) {
        const double centre = weft_get<double>(work.call, work.source + 1, result);
        value = work.scaled ? value * centre : value - centre;
    }
    return work.powers ? pow(fabs(value), work.call.scalars[1]) : value;
}

/* Reduces `n` values that follow each other into a result. */
template <typename Kind, typename T, typename Value> __device__ T into_one(T total, int64_t n, Value value)
{
    const int lanes = 32;
    auto prepared = [&](int64_t i) { return Kind::prepare(value(i)); };
    auto combine = [](T a, T b) { return Kind::combine(a, b); };
    int64_t first = n - n % lanes;
    if (first > 0) {
        total = Kind::combine(total, weft_in_lanes<lanes, T>(Kind::identity(T()), first, prepared, combine));
    }
    for (int64_t i = first; i < n; i++) {
        total = Kind::combine(total, prepared(i));
    }
    return total;
}

template <typename Kind, typename T>
__device__ T reduce_run(const reduction_work &work, const reduced_values<T> &values, T total, int64_t begin)
{
    const weft_device_view &in = work.call.views[work.source];
    const int64_t length = in.extent[work.ndim - 1];
    for (int64_t first = 0, together, n; first < length; first += together) {
        together = work.ndim == 1 ? weft_rows_together(in, first) : length;
        weft_device_place from = weft_place_of(work.call, work.source, begin + first);
        for (int64_t some = 0; some < together; some += n) {
            n = together - some < work.group ? together - some : work.group;
            total = into_one<Kind, T>(total, n, [&](int64_t i) { return values.at(from, some + i); });
        }
    }
    return total;
}

template <typename Kind, typename T> __global__ void run_reduction(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const bool any = call.views[work.source].count > 0;
    for (int64_t r = weft_first_index(); r < call.views[0].count; r += weft_index_step()) {
        const reduced_values<T> values = { work, r };
        T total = call.first ? start_of<Kind>(call, Kind::identity(T())) : weft_get<T>(call, 0, r);
        const int64_t base = base_of(work, r);
        for (int64_t c = 0; any && c < work.outer; c++) {
            int64_t position, begin = base + distance_of(work, c, &position);
            if (work.reduces_last) {
                total = reduce_run<Kind, T>(work, values, total, begin);
            } else {
                total = Kind::combine(total, Kind::prepare(values.at(weft_place_of(call, work.source, begin), 0)));
            }
        }
        weft_set(call, 0, r, finished(call, total));
    }
}

/* Rows are reduced: a thread goes through those of its column, UNROLLED at a time under way. */
template <typename Kind, typename T> __global__ void run_columns(const reduction_work work)
{
    enum { UNROLLED = 16 };
    const weft_device_call &call = work.call;
    const weft_device_view &in = call.views[work.source];
    for (int64_t r = weft_first_index(); r < call.views[0].count; r += weft_index_step()) {
        const reduced_values<T> values = { work, r };
        T total = call.first ? start_of<Kind>(call, Kind::identity(T())) : weft_get<T>(call, 0, r);
        for (int64_t row = 0, together; row < in.extent[0]; row += together) {
            const weft_device_place from = { weft_row_at(call, work.source, row), r };
            together = weft_rows_together(in, row);
            int64_t i = 0;
            for (; i + UNROLLED <= together; i += UNROLLED) {
                T some[UNROLLED];
WEFT_UNROLL
                for (int u = 0; u < UNROLLED; u++) {
                    some[u] = values.at(from, (i + u) * in.row_elements);
                }
WEFT_UNROLL
                for (int u = 0; u < UNROLLED; u++) {
                    total = Kind::combine(total, Kind::prepare(some[u]));
                }
            }
            for (; i < together; i++) {
                total = Kind::combine(total, Kind::prepare(values.at(from, i * in.row_elements)));
            }
        }
        weft_set(call, 0, r, finished(call, total));
    }
}

/* ---- a warp for each group of values ------------------------------------------------------------------- */

/* The group's lanes combined, without values that fill no lanes. */
template <typename Kind, typename T, typename Value> __device__ T warp_lanes(int64_t n, Value value)
{
    return weft_warp_in_lanes<WEFT_WARP, T>(Kind::identity(T()), n - n % WEFT_WARP, [&](int64_t i) { return Kind::prepare(value(i)); },
                                            [](T a, T b) { return Kind::combine(a, b); });
}

/* into_one() by a warp. */
template <typename Kind, typename T, typename Value> __device__ T warp_into_one(T total, int64_t n, Value value)
{
    const int64_t whole = n - n % WEFT_WARP, own = whole + weft_warp_thread();
    if (whole > 0) {
        total = Kind::combine(total, warp_lanes<Kind, T>(n, value));
    }
    if (whole < n) {
        const T rest = own < n ? Kind::prepare(value(own)) : T();
        for (int i = 0; i < n - whole; i++) {
            total = Kind::combine(total, __shfl_sync(~0u, rest, i));
        }
    }
    return total;
}

/* A warp for each result. */
template <typename Kind, typename T> __global__ void run_reduction_by_warps(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_view &in = call.views[work.source];
    const int64_t length = in.extent[work.ndim - 1];
    for (int64_t r = weft_first_warp(); r < call.views[0].count; r += weft_warp_step()) {
        const reduced_values<T> values = { work, r };
        T total = call.first ? start_of<Kind>(call, Kind::identity(T())) : weft_get<T>(call, 0, r);
        const int64_t base = base_of(work, r);
        for (int64_t c = 0; c < work.outer; c++) {
            int64_t position, begin = base + distance_of(work, c, &position);
            for (int64_t first = 0, together; first < length; first += together) {
                together = work.ndim == 1 ? weft_rows_together(in, first) : length;
                const weft_device_place from = weft_place_of(call, work.source, begin + first);
                for (int64_t some = 0, n; some < together; some += n) {
                    n = together - some < work.group ? together - some : work.group;
                    total = warp_into_one<Kind, T>(total, n, [&](int64_t i) { return values.at(from, some + i); });
                }
            }
        }
        __syncwarp(); /* all have read the result before */
        if (weft_warp_thread() == 0) {
            weft_set(call, 0, r, finished(call, total));
        }
    }
}

/* Runs that are reduced at once, among the call's numbers: the first, and how many. */
enum { FIRST_RUN = WEFT_KERNEL_NUMBERS - 2, NUM_RUNS };

/* Groups of a run: all but the last one leave one value in scratch memory, the last one also those that fill no lanes. */
__host__ __device__ int64_t groups_of_run(const reduction_work &work)
{
    return (work.call.views[work.source].extent[work.ndim - 1] + work.group - 1) / work.group;
}

__host__ __device__ int64_t kept_of_run(const reduction_work &work)
{
    const int64_t before = groups_of_run(work) - 1, last = work.call.views[work.source].extent[work.ndim - 1] - before * work.group;
    return before + (last >= WEFT_WARP) + last % WEFT_WARP;
}

/* The results so far lie at the beginning of scratch memory, and after them what the runs have left, by result. */
template <typename T> __device__ T *kept_of(const reduction_work &work, int64_t r)
{
    return (T *)work.scratch + work.call.views[0].count + r * work.call.numbers[NUM_RUNS] * kept_of_run(work);
}

/* All groups of a few results are reduced at once, into scratch memory: a group's lanes combined, then the values after them. */
template <typename Kind, typename T> __global__ void run_groups(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const int64_t length = call.views[work.source].extent[work.ndim - 1], of_run = groups_of_run(work);
    const int64_t groups = call.numbers[NUM_RUNS] * of_run;
    const int own = weft_warp_thread();
    for (int64_t number = weft_first_warp(); number < call.views[0].count * groups; number += weft_warp_step()) {
        const int64_t r = number / groups, run = number % groups / of_run, group = number % of_run, first = group * work.group;
        const int64_t n = length - first < work.group ? length - first : work.group, whole = n - n % WEFT_WARP;
        const reduced_values<T> values = { work, r };
        int64_t position;
        const int64_t distance = distance_of(work, call.numbers[FIRST_RUN] + run, &position);
        const weft_device_place from = weft_place_of(call, work.source, base_of(work, r) + distance + first);
        auto value = [&](int64_t i) { return values.at(from, i); };
        T *kept = kept_of<T>(work, r) + run * kept_of_run(work) + group;
        const T lanes = warp_lanes<Kind, T>(n, value);
        if (whole > 0 && own == 0) {
            kept[0] = lanes;
        }
        if (whole + own < n) {
            kept[(whole > 0) + own] = Kind::prepare(value(whole + own));
        }
    }
}

/* Adds what the runs have left, in their order. */
template <typename Kind, typename T> __global__ void run_groups_in_order(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const int64_t first_run = call.numbers[FIRST_RUN], count = call.numbers[NUM_RUNS] * kept_of_run(work);
    const int own = weft_warp_thread();
    for (int64_t r = weft_first_warp(); r < call.views[0].count; r += weft_warp_step()) {
        T *result = (T *)work.scratch + r;
        const T *kept = kept_of<T>(work, r);
        T total = first_run > 0 ? *result : call.first ? start_of<Kind>(call, Kind::identity(T())) : weft_get<T>(call, 0, r);
        T next = own < count ? kept[own] : T(); /* loaded while the former ones are added */
        for (int64_t first = 0; first < count; first += WEFT_WARP) {
            const T value = next;
            const int some = count - first < WEFT_WARP ? (int)(count - first) : (int)WEFT_WARP;
            next = first + WEFT_WARP + own < count ? kept[first + WEFT_WARP + own] : T();
            for (int i = 0; i < some; i++) {
                total = Kind::combine(total, __shfl_sync(~0u, value, i));
            }
        }
        __syncwarp(); /* all have read the result before */
        if (own == 0 && first_run + call.numbers[NUM_RUNS] < work.outer) {
            *result = total;
        } else if (own == 0) {
            weft_set(call, 0, r, finished(call, total));
        }
    }
}

__device__ bool is_sought(double value, double sought)
{
    return value == sought || (value != value && sought != sought);
}

__device__ bool is_sought(int64_t value, int64_t sought)
{
    return value == sought;
}

/* Places ascend with the indices, so the first one found is the result. */
template <typename T> __global__ void run_place(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const weft_device_view &in = call.views[work.source];
    const int64_t length = work.reduces_last ? in.extent[work.ndim - 1] : 1;
    for (int64_t r = weft_first_index(); r < call.views[0].count; r += weft_index_step()) {
        const T sought = weft_get<T>(call, work.source + 1, r);
        const int64_t base = base_of(work, r);
        int64_t result = call.first ? INT64_MAX : weft_get<int64_t>(call, 0, r);
        bool found = in.count == 0;
        for (int64_t c = 0; c < work.outer && !found; c++) {
            int64_t position, begin = base + distance_of(work, c, &position);
            for (int64_t i = 0; i < length && !found; i++) {
                found = is_sought(weft_get<T>(call, work.source, begin + i), sought);
                result = found && position + i < result ? position + i : result;
            }
        }
        weft_set(call, 0, r, result);
    }
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* After the call has been filled in. */
void find_geometry(reduction_work *work)
{
    const weft_device_call &call = work->call;
    work->source = call.num_outputs;
    const weft_device_view &in = call.views[work->source];
    work->ndim = in.ndim;
    work->reduces_last = in.ndim > 0 && (call.numbers[0] >> (in.ndim - 1) & 1);
    work->outer = 1;
    work->origin = 0;
    int64_t stride = 1, next = 1;
    for (int d = in.ndim - 1; d >= 0; d--) {
        work->reduced[d] = (call.numbers[0] >> d & 1) != 0;
        work->stride[d] = stride;
        stride *= in.extent[d];
        work->outer *= work->reduced[d] && !(work->reduces_last && d == in.ndim - 1) ? in.extent[d] : 1;
        work->order[d] = work->reduced[d] ? next : 0;
        work->origin += work->order[d] * in.offset[d];
        next *= work->reduced[d] ? in.shape[d] : 1;
    }
}

int launch(void (*kernel)(reduction_work), const reduction_work &work, weft_cuda_queue *queue)
{
    int64_t count = work.call.views[0].count;
    return count == 0 ? 0 : weft_launch(kernel, count, queue->stream, work);
}

/* Few results of many values: all groups at once. More results than the device has warps for: a warp, or a thread, for each. */
enum { MANY_RESULTS = 4096, MANY_VALUES = 256 };

/* The runs of which scratch memory takes what they leave, 0: there is none, or a run does not lie in one piece. */
int64_t runs_at_once(reduction_work *work, weft_cuda_queue *queue)
{
    const weft_device_view &in = work->call.views[work->source];
    const int64_t results = work->call.views[0].count, runs = work->outer;
    if (results >= MANY_RESULTS || runs * groups_of_run(*work) < 2 || (work->ndim == 1 && weft_rows_together(in, 0) < in.extent[0])) {
        return 0;
    }
    size_t bytes;
    if (weft_cuda_scratch(queue, &work->scratch, &bytes) != 0) {
        return 0;
    }
    const int64_t values = (int64_t)(bytes / sizeof(double)) - results;
    const int64_t room = values > 0 ? values / results / kept_of_run(*work) : 0;
    return room < runs ? room : runs;
}

template <typename Kind, typename T> int reduce_by_runs(reduction_work *work, int64_t at_once, weft_cuda_queue *queue)
{
    const int64_t results = work->call.views[0].count;
    int failed = 0;
    for (int64_t first = 0; first < work->outer && failed == 0; first += at_once) {
        const int64_t runs = work->outer - first < at_once ? work->outer - first : at_once;
        work->call.numbers[FIRST_RUN] = first;
        work->call.numbers[NUM_RUNS] = runs;
        failed = weft_launch_warps(run_groups<Kind, T>, results * runs * groups_of_run(*work), queue->stream, *work);
        failed = failed != 0 ? failed : weft_launch_warps(run_groups_in_order<Kind, T>, results, queue->stream, *work);
    }
    return failed;
}

template <typename Kind, typename T> int reduce_in(reduction_work *work, weft_cuda_queue *queue)
{
    const weft_device_view &in = work->call.views[work->source];
    const int64_t results = work->call.views[0].count;
    if (results == 0) {
        return 0;
    }
    bool rows = work->ndim > 1 && in.count > 0;
    for (int d = 0; d < work->ndim; d++) {
        rows = rows && work->reduced[d] == (d == 0);
    }
    if (rows) {
        enum { THREADS = 64 }; /* as few columns as there are: on many processors */
        const int64_t blocks = (results + THREADS - 1) / THREADS, most = 1 << 16;
        return weft_launch_on(run_columns<Kind, T>, (unsigned)(blocks < most ? blocks : most), THREADS, queue->stream, *work);
    }
    const bool is_short = in.extent[work->ndim > 0 ? work->ndim - 1 : 0] < 2 * WEFT_WARP;
    if (!work->reduces_last || in.count == 0 || (is_short && (results >= MANY_RESULTS || in.count < results * MANY_VALUES))) {
        return launch(run_reduction<Kind, T>, *work, queue);
    }
    const int64_t at_once = runs_at_once(work, queue);
    return at_once > 0 ? reduce_by_runs<Kind, T>(work, at_once, queue)
                       : weft_launch_warps(run_reduction_by_warps<Kind, T>, results, queue->stream, *work);
}

template <typename Kind> int reduce(reduction_work *work, bool powers, bool scaled, weft_cuda_queue *queue)
{
    const int fast = queue->fast && !powers && !scaled ? weft_fast_reduction(Kind::kernel, &work->call, queue) : WEFT_NOT_FAST;
    if (fast != WEFT_NOT_FAST) {
        return fast;
    }
    find_geometry(work);
    const weft_dtype type = work->call.views[work->source].dtype;
    work->powers = powers;
    work->scaled = scaled;
    work->centred = work->call.num_inputs > 1;
    const bool as_they_lie = !powers && !work->centred && (type == WEFT_F32 || type == WEFT_F64 || type == WEFT_I64);
    work->group = as_they_lie ? WEFT_REDUCED_RUN : WEFT_REDUCED_BLOCK;
    return weft_dtype_is_whole(type) ? reduce_in<Kind, int64_t>(work, queue) : reduce_in<Kind, double>(work, queue);
}

template <typename Kind> int run_kind(const weft_task_run *run, weft_cuda_queue *queue, bool powers = false, bool scaled = false)
{
    reduction_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : reduce<Kind>(&work, powers, scaled, queue);
}

int find_places(reduction_work *work, weft_cuda_queue *queue)
{
    find_geometry(work);
    bool whole = weft_dtype_is_whole(work->call.views[work->source].dtype);
    return launch(whole ? run_place<int64_t> : run_place<double>, *work, queue);
}

/* The value first, then its place, if that is asked for. */
template <typename Kind> int run_with_indices(const weft_task_run *run, weft_cuda_queue *queue)
{
    reduction_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    if (failed != 0) {
        return failed;
    }
    weft_device_call &call = work.call;
    const weft_device_call whole = call;
    call.num_outputs = 1;
    call.views[1] = whole.views[whole.num_outputs];
    failed = reduce<Kind>(&work, false, false, queue);
    if (failed != 0 || whole.num_outputs == 1) {
        return failed;
    }
    call.num_inputs = 2;
    call.views[0] = whole.views[1];
    call.views[2] = whole.views[0];
    return find_places(&work, queue);
}

}

#define REDUCTION(name, identity, whole_identity, prepared, operation, whole_operation)                      \
    int weft_cuda_##name(const weft_task_run *run, weft_cuda_queue *queue)                                   \
    {                                                                                                        \
        return run_kind<kinds::name>(run, queue);                                                            \
    }
#include "codelets/reductions.inc"

int weft_cuda_sum_pow(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_kind<kinds::sum>(run, queue, true);
}

int weft_cuda_sum_square_difference(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_kind<kinds::sum_square>(run, queue);
}

int weft_cuda_sum_square_scaled(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_kind<kinds::sum_square>(run, queue, false, true);
}

int weft_cuda_sum_pow_scaled(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_kind<kinds::sum>(run, queue, true, true);
}

int weft_cuda_place(const weft_task_run *run, weft_cuda_queue *queue)
{
    reduction_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : find_places(&work, queue);
}

int weft_cuda_max_with_indices(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_with_indices<kinds::max>(run, queue);
}

int weft_cuda_min_with_indices(const weft_task_run *run, weft_cuda_queue *queue)
{
    return run_with_indices<kinds::min>(run, queue);
}
