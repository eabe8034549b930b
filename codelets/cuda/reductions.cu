/* Reductions over dimensions, a thread for each result, or a block where there are few, in the order of cpu/reductions.c. */
#include <limits.h>
#include <math.h>

#include "codelets/cuda/views.h"

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
    bool direct, powers, centred;              /* as they lie; |value|^scalars[1]; differences from input 1 */
    int64_t whole_identity;
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
    double value = weft_load_as(double(), work.call.views[work.source].dtype, from.memory, from.place + i);
    if (work.centred) {
        value -= weft_get<double>(work.call, work.source + 1, result);
    }
    return work.powers ? pow(fabs(value), work.call.scalars[1]) : value;
}

namespace kinds
{
#define REDUCTION(name, identity_, whole_identity_, prepared, operation, whole_operation)                    \
    struct name {                                                                                            \
        static const int64_t whole_identity = whole_identity_;                                               \
        static __device__ double identity(double)                                                            \
        {                                                                                                    \
            return identity_;                                                                                \
        }                                                                                                    \
        static __device__ int64_t identity(int64_t)                                                          \
        {                                                                                                    \
            return whole_identity_;                                                                          \
        }                                                                                                    \
        static __device__ double prepare(const double b)                                                     \
        {                                                                                                    \
            return prepared;                                                                                 \
        }                                                                                                    \
        static __device__ int64_t prepare(const int64_t b)                                                   \
        {                                                                                                    \
            return b;                                                                                        \
        }                                                                                                    \
        static __device__ double combine(const double a, const double b)                                     \
        {                                                                                                    \
            return operation;                                                                                \
        }                                                                                                    \
        static __device__ int64_t combine(const int64_t a, const int64_t b)                                  \
        {                                                                                                    \
            return whole_operation;                                                                          \
        }                                                                                                    \
    };
#include "codelets/reductions.inc"
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
    const int64_t length = in.extent[work.ndim - 1], block = 512;
    for (int64_t first = 0, together, n; first < length; first += together) {
        together = work.ndim == 1 ? weft_rows_together(in, first) : length;
        weft_device_place from = weft_place_of(work.call, work.source, begin + first);
        for (int64_t some = 0; some < together; some += n) {
            n = work.direct || together - some < block ? together - some : block;
            total = into_one<Kind, T>(total, n, [&](int64_t i) { return values.at(from, some + i); });
        }
    }
    return total;
}

/* The value that a reduction starts with. */
__device__ double start_of(const reduction_work &work, double identity)
{
    (void)work;
    return identity;
}

__device__ int64_t start_of(const reduction_work &work, int64_t)
{
    return work.whole_identity;
}

__device__ double finished(const weft_device_call &call, double total)
{
    return call.last && call.scalars[0] != 0 ? total * call.scalars[0] : total;
}

__device__ int64_t finished(const weft_device_call &, int64_t total)
{
    return total;
}

template <typename Kind, typename T> __global__ void run_reduction(const reduction_work work)
{
    const weft_device_call &call = work.call;
    const bool any = call.views[work.source].count > 0;
    for (int64_t r = weft_first_index(); r < call.views[0].count; r += weft_index_step()) {
        const reduced_values<T> values = { work, r };
        T total = call.first ? start_of(work, Kind::identity(T())) : weft_get<T>(call, 0, r);
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

/* ---- few results: a block for each ----------------------------------------------------------------------- */

/* As into_one() has them: values in LANES sums, which are then added by pairs, and the remaining values one by one. LANES threads
 * have a group of values, UNITS groups at once; the block's first thread adds the groups' totals in their order. */
enum { LANES = 32, UNITS = 8, FEW_RESULTS = 64, MANY_VALUES = 256 };

/* A group of values: the part of a run that into_one() gets. */
struct value_group {
    int64_t c, first; /* the combination; the run's element where it begins */
    int64_t within;   /* elements from the beginning of the rows that lie together */
};

/* The number of its values, and where they are. Moves on to the next group. */
__device__ int64_t take_group(const reduction_work &work, int64_t base, value_group *group, weft_device_place *from)
{
    const weft_device_view &in = work.call.views[work.source];
    const int64_t length = in.extent[work.ndim - 1], block = 512;
    int64_t position;
    const int64_t begin = base + distance_of(work, group->c, &position) + group->first;
    const int64_t together = work.ndim == 1 ? weft_rows_together(in, group->first) : length;
    const int64_t left = together - group->within, n = work.direct || left < block ? left : block;
    *from = weft_place_of(work.call, work.source, begin);
    from->place += group->within;
    group->within += n;
    if (group->within == together) {
        group->first += together;
        group->within = 0;
    }
    if (group->first == length) {
        group->first = 0;
        group->c++;
    }
    return n;
}

template <typename Kind, typename T> __global__ void run_reduction_together(const reduction_work work)
{
    __shared__ T lanes[UNITS][LANES], rest[UNITS][LANES];
    __shared__ int64_t sizes[UNITS];
    const weft_device_call &call = work.call;
    const int lane = (int)threadIdx.x % LANES, own = (int)threadIdx.x / LANES;
    for (int64_t r = blockIdx.x; r < call.views[0].count; r += gridDim.x) {
        const reduced_values<T> values = { work, r };
        T total = call.first ? start_of(work, Kind::identity(T())) : weft_get<T>(call, 0, r);
        const int64_t base = base_of(work, r);
        value_group next = { 0, 0, 0 };
        while (next.c < work.outer) {
            int units = 0;
            for (; units < UNITS && next.c < work.outer; units++) {
                weft_device_place from;
                const int64_t n = take_group(work, base, &next, &from), whole = n - n % LANES;
                if (units != own) {
                    continue;
                }
                T value = Kind::identity(T());
                for (int64_t i = lane; i < whole; i += LANES) {
                    value = Kind::combine(value, Kind::prepare(values.at(from, i)));
                }
                lanes[own][lane] = value;
                rest[own][lane] = whole + lane < n ? Kind::prepare(values.at(from, whole + lane)) : T();
                sizes[own] = n;
            }
            __syncthreads();
            for (int half = LANES / 2; half > 0; half /= 2) {
                if (own < units && lane < half) {
                    lanes[own][lane] = Kind::combine(lanes[own][lane], lanes[own][lane + half]);
                }
                __syncthreads();
            }
            for (int u = 0; u < units && threadIdx.x == 0; u++) {
                total = sizes[u] >= LANES ? Kind::combine(total, lanes[u][0]) : total;
                for (int64_t i = 0; i < sizes[u] % LANES; i++) {
                    total = Kind::combine(total, rest[u][i]);
                }
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
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

/* Behind the call's filling in. */
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

/* The identity in the range of the type: the result without elements. */
int64_t identity_within(int64_t identity, weft_dtype type)
{
    int64_t least = type == WEFT_I64 ? INT64_MIN : type == WEFT_I32 ? INT32_MIN : 0;
    int64_t most = type == WEFT_I64 ? INT64_MAX : type == WEFT_I32 ? INT32_MAX : type == WEFT_U8 ? UINT8_MAX : 1;
    return identity < least ? least : identity > most ? most : identity;
}

int launch(void (*kernel)(reduction_work), const reduction_work &work, weft_cuda_queue *queue)
{
    int64_t count = work.call.views[0].count;
    return count == 0 ? 0 : weft_launch(kernel, count, queue->stream, work);
}

template <typename Kind> int reduce(reduction_work *work, bool powers, weft_cuda_queue *queue)
{
    find_geometry(work);
    const weft_dtype type = work->call.views[work->source].dtype;
    work->powers = powers;
    work->centred = work->call.num_inputs > 1;
    work->direct = !powers && !work->centred && (type == WEFT_F32 || type == WEFT_F64 || type == WEFT_I64);
    work->whole_identity = identity_within(Kind::whole_identity, work->call.views[0].dtype);
    const bool integers = type >= WEFT_I64;
    const int64_t results = work->call.views[0].count, values = work->call.views[work->source].count;
    if (work->reduces_last && results <= FEW_RESULTS && values >= results * MANY_VALUES && values > 0) {
        return weft_launch_blocks(integers ? run_reduction_together<Kind, int64_t> : run_reduction_together<Kind, double>,
                                  (unsigned)results, LANES * UNITS, queue->stream, *work);
    }
    return launch(integers ? run_reduction<Kind, int64_t> : run_reduction<Kind, double>, *work, queue);
}

template <typename Kind> int run_kind(const weft_task_run *run, weft_cuda_queue *queue, bool powers = false)
{
    reduction_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    return failed != 0 ? failed : reduce<Kind>(&work, powers, queue);
}

int find_places(reduction_work *work, weft_cuda_queue *queue)
{
    find_geometry(work);
    bool whole = work->call.views[work->source].dtype >= WEFT_I64;
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
    failed = reduce<Kind>(&work, false, queue);
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
