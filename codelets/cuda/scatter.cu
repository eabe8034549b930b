/* Scattered elements: see cpu/indexing.c. */
#include "codelets/cuda/indexing.cuh"

namespace
{

/* NaN is the smallest, and the largest. */
template <typename T> static __device__ T combined(weft_reduce_op op, weft_dtype, T a, T b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return a <= b || a != a ? a : b;
    case WEFT_MAX:
        return a >= b || a != a ? a : b;
    default:
        return a + b;
    }
}

/* Stores to narrower integers wrap around. */
static __device__ int64_t combined(weft_reduce_op op, weft_dtype type, int64_t a, int64_t b)
{
    if (type == WEFT_BOOL) {
        return op == WEFT_SUM || op == WEFT_MAX ? a != 0 || b != 0 : a != 0 && b != 0;
    }
    switch (op) {
    case WEFT_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case WEFT_MIN:
        return a <= b ? a : b;
    case WEFT_MAX:
        return a >= b ? a : b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* That of an element to which nothing is scattered. */
template <typename T> static __device__ T neutral(weft_reduce_op op, weft_dtype)
{
    const T infinity = (T)INFINITY;
    return op == WEFT_PROD ? (T)1 : op == WEFT_MIN ? infinity : op == WEFT_MAX ? -infinity : (T)0;
}

template <> __device__ int64_t neutral<int64_t>(weft_reduce_op op, weft_dtype type)
{
    const bool narrow = type == WEFT_U8 || type == WEFT_BOOL;
    const int64_t most = type == WEFT_I64   ? INT64_MAX
                         : type == WEFT_I32 ? INT32_MAX
                         : type == WEFT_U8  ? UINT8_MAX
                                            : 1;
    return op == WEFT_PROD ? 1 : op == WEFT_MIN ? most : op == WEFT_MAX && !narrow ? -most - 1 : 0;
}

/* A thread for each line of the output, which combines in index order. */
template <typename T> __global__ void run_scatter(const weft_device_call call)
{
    const int dim = (int)call.numbers[WEFT_INDEXED_DIM], source = weft_input(call, 0);
    const bool together = call.numbers[WEFT_INDEXED_TOGETHER] != 0;
    const weft_reduce_op op = (weft_reduce_op)call.numbers[WEFT_SCATTER_OP];
    const weft_device_view &out = call.views[0];
    const int64_t inner = inner_of(call.views[source], dim), length = call.views[source].extent[dim];
    const weft_device_vectors lines = weft_device_vectors_along(call, 0, dim, dim);
    for (int64_t v = weft_first_index(); v < lines.count; v += weft_index_step()) {
        const int64_t outer = weft_quotient(v, inner), j = v - outer * inner;
        const weft_device_vector<T> line(call, lines, v);
        for (int64_t k = 0; k < lines.length && call.first; k++) {
            line.set(k, neutral<T>(op, out.dtype));
        }
        for (int64_t k = 0; k < length; k++) {
            const int64_t i = (outer * length + k) * inner + j;
            const int64_t index = weft_get<int64_t>(call, weft_input(call, 1), together ? k : i);
            const int64_t place = place_along(call, 0, dim, index, (uint64_t)i);
            if (place >= 0) {
                line.set(place, combined(op, out.dtype, line[place], weft_get<T>(call, source, i)));
            }
        }
    }
}

/* ---- sums of integers, scattered into few lines ------------------------------------------------------------- */

enum { BINS = 2048, BIN_THREADS = 256 };

__global__ void run_clear(const weft_device_call call)
{
    const weft_device_view &out = call.views[0];
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        clear_element(weft_place_of(call, 0, i), weft_size_of(out.dtype));
    }
}

/* Number of the output's element to which element i of the source is added; -1: it is elsewhere, or the index is invalid. */
__device__ int64_t scatter_target(const weft_device_call &call, int64_t inner, int64_t length, int64_t i)
{
    const int dim = (int)call.numbers[WEFT_INDEXED_DIM];
    const int64_t above = weft_quotient(i, inner), outer = weft_quotient(above, length);
    const int64_t at = call.numbers[WEFT_INDEXED_TOGETHER] != 0 ? above - outer * length : i;
    const int64_t place = place_along(call, 0, dim, weft_get<int64_t>(call, weft_input(call, 1), at), (uint64_t)i);
    return place < 0 ? -1 : (outer * call.views[0].extent[dim] + place) * inner + (i - above * inner);
}

template <typename T> __device__ void add_to(const weft_device_call &call, int64_t target, T value)
{
    const weft_device_place to = weft_place_of(call, 0, target);
    atomicAdd((T *)to.memory + to.place, value);
}

/* Threads add in any order: the bits are the same, since integers wrap around. */
template <typename T> __global__ void run_scatter_sums(const weft_device_call call)
{
    const int source = weft_input(call, 0), dim = (int)call.numbers[WEFT_INDEXED_DIM];
    const int64_t inner = inner_of(call.views[source], dim), length = call.views[source].extent[dim];
    for (int64_t i = weft_first_index(); i < call.views[source].count; i += weft_index_step()) {
        const int64_t target = scatter_target(call, inner, length, i);
        if (target >= 0) {
            add_to(call, target, (T)(uint64_t)weft_get<int64_t>(call, source, i));
        }
    }
}

/* Up to BINS results: a block adds in shared memory, so that few additions meet at one place. */
template <typename T> __global__ void run_scatter_bins(const weft_device_call call)
{
    __shared__ T bins[BINS];
    const int source = weft_input(call, 0), dim = (int)call.numbers[WEFT_INDEXED_DIM];
    const int64_t inner = inner_of(call.views[source], dim), length = call.views[source].extent[dim], count = call.views[0].count;
    for (int64_t bin = threadIdx.x; bin < count; bin += BIN_THREADS) {
        bins[bin] = 0;
    }
    __syncthreads();
    for (int64_t i = weft_first_index(); i < call.views[source].count; i += weft_index_step()) {
        const int64_t target = scatter_target(call, inner, length, i);
        if (target >= 0) {
            atomicAdd(bins + target, (T)(uint64_t)weft_get<int64_t>(call, source, i));
        }
    }
    __syncthreads();
    for (int64_t bin = threadIdx.x; bin < count; bin += BIN_THREADS) {
        if (bins[bin] != 0) {
            add_to(call, bin, bins[bin]);
        }
    }
}

template <typename T> int launch_scatter_sums(weft_device_call &call, weft_cuda_queue *queue)
{
    constexpr int64_t part = BIN_THREADS * 16, most = 2048; /* elements and number of blocks */
    const int64_t count = call.views[call.num_outputs].count, blocks = (count + part - 1) / part;
    int failed = call.first ? weft_call_launch(run_clear, call.views[0].count, call, queue) : 0;
    if (failed != 0 || count == 0 || call.views[0].count > BINS) {
        return failed != 0 ? failed : weft_call_launch_checked(run_scatter_sums<T>, count, call, queue);
    }
    failed = weft_error_begin(&call.error, queue);
    if (failed == 0) {
        failed = weft_launch_blocks(run_scatter_bins<T>, (unsigned)(blocks < most ? blocks : most), BIN_THREADS, queue->stream, call);
    }
    return failed != 0 ? failed : weft_error_end(call.error, queue);
}

/* ---- few lines of not many elements --------------------------------------------------------------------------- */

/* A warp for each element of the output: it looks for the indices that name it, and combines in their order. */
template <typename T> __global__ void run_scatter_found(const weft_device_call call)
{
    const int dim = (int)call.numbers[WEFT_INDEXED_DIM], source = weft_input(call, 0), indices = weft_input(call, 1);
    const bool together = call.numbers[WEFT_INDEXED_TOGETHER] != 0;
    const weft_reduce_op op = (weft_reduce_op)call.numbers[WEFT_SCATTER_OP];
    const weft_device_view &out = call.views[0];
    const int64_t inner = inner_of(call.views[source], dim), length = call.views[source].extent[dim], extent = out.extent[dim];
    for (int64_t element = weft_first_warp(); element < out.count; element += weft_warp_step()) {
        const int64_t above = weft_quotient(element, inner), outer = weft_quotient(above, extent), own = above - outer * extent;
        const int64_t first = outer * length * inner + element - above * inner; /* the source's element at index 0 */
        T value = call.first ? neutral<T>(op, out.dtype) : weft_get<T>(call, 0, element);
        for (int64_t k = 0; k < length; k += WEFT_WARP) {
            const int64_t mine = k + weft_warp_thread(), i = first + mine * inner;
            int64_t place = -1;
            if (mine < length) {
                const int64_t index = weft_get<int64_t>(call, indices, together ? mine : i);
                place = own == 0 ? place_along(call, 0, dim, index, (uint64_t)i) : index - out.offset[dim]; /* one warp reports */
            }
            for (unsigned others = __ballot_sync(~0u, place == own); others != 0; others &= others - 1) {
                const int64_t at = first + (k + __ffs((int)others) - 1) * inner;
                value = combined(op, out.dtype, value, weft_get<T>(call, source, at));
            }
        }
        if (weft_warp_thread() == 0) {
            weft_set(call, 0, element, value);
        }
    }
}

template <typename T> int launch_scatter_found(weft_device_call &call, weft_cuda_queue *queue)
{
    int failed = weft_error_begin(&call.error, queue);
    failed = failed != 0 ? failed : weft_launch_warps(run_scatter_found<T>, call.views[0].count, queue->stream, call);
    return failed != 0 ? failed : weft_error_end(call.error, queue);
}

}

int weft_cuda_scatter(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const weft_device_view &out = call.views[0];
    int64_t lines = 1;
    for (int d = 0; d < out.ndim; d++) {
        lines *= d == call.numbers[WEFT_INDEXED_DIM] ? 1 : out.extent[d];
    }
    /* A thread for each line would leave most of a device idle. */
    constexpr int64_t FEW_LINES = 4096, FEW_ELEMENTS = 1 << 16, LONG = 256;
    const int dim = (int)call.numbers[WEFT_INDEXED_DIM];
    if (failed == 0 && lines < FEW_LINES && call.numbers[WEFT_SCATTER_OP] == WEFT_SUM && (out.dtype == WEFT_I64 || out.dtype == WEFT_I32)) {
        return out.dtype == WEFT_I64 ? launch_scatter_sums<unsigned long long>(call, queue) : launch_scatter_sums<unsigned>(call, queue);
    }
    const bool is_long = failed == 0 && call.views[call.num_outputs].extent[dim] >= LONG;
    if (is_long && lines < FEW_LINES && out.count > 0 && out.count <= FEW_ELEMENTS) {
        return out.dtype == WEFT_F64   ? launch_scatter_found<double>(call, queue)
               : weft_dtype_is_whole(out.dtype) ? launch_scatter_found<int64_t>(call, queue)
                                       : launch_scatter_found<float>(call, queue);
    }
    weft_device_kernel kernel = out.dtype == WEFT_F64   ? run_scatter<double>
                                : weft_dtype_is_whole(out.dtype) ? run_scatter<int64_t>
                                                        : run_scatter<float>;
    return failed != 0 ? failed : weft_call_launch_checked(kernel, lines, call, queue);
}
