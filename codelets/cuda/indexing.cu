/* Look-ups, one-hot rows, triangles, cumulative sums: see cpu/indexing.c, shapes.c, scans.c. */
#include "codelets/cuda/indexing.cuh"

namespace
{

/* ---- look-ups ------------------------------------------------------------------------------------------ */

__global__ void run_lookup(const weft_device_call call)
{
    const int dim = (int)call.numbers[WEFT_INDEXED_DIM], table = weft_input(call, 0);
    const bool together = call.numbers[WEFT_INDEXED_TOGETHER] != 0;
    const weft_device_view &out = call.views[0];
    const int64_t inner = inner_of(out, dim), length = out.extent[dim];
    const size_t size = weft_size_of(out.dtype);
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        const int64_t line = weft_quotient(i, inner), j = i - line * inner, outer = weft_quotient(line, length);
        const int64_t index = weft_get<int64_t>(call, weft_input(call, 1), together ? line - outer * length : i);
        const int64_t place = place_along(call, table, dim, index, (uint64_t)i);
        const weft_device_place to = weft_place_of(call, 0, i);
        if (place >= 0 && call.views[table].count > 0) {
            weft_copy_element(to, weft_place_of(call, table, (outer * call.views[table].extent[dim] + place) * inner + j), size);
        } else {
            clear_element(to, size);
        }
    }
}

/* Indices are checked even where the output has no elements after the dimension. */
__global__ void run_check_lookup(const weft_device_call call)
{
    const int indices = weft_input(call, 1), dim = (int)call.numbers[WEFT_INDEXED_DIM];
    for (int64_t i = weft_first_index(); i < call.views[indices].count; i += weft_index_step()) {
        place_along(call, weft_input(call, 0), dim, weft_get<int64_t>(call, indices, i), (uint64_t)i);
    }
}

__global__ void run_check_indices(const weft_device_call call)
{
    const int indices = weft_input(call, 0);
    for (int64_t i = weft_first_index(); i < call.views[indices].count; i += weft_index_step()) {
        const int64_t index = weft_get<int64_t>(call, indices, i);
        const bool fits = index >= 0 && index < call.numbers[0];
        if (!fits) {
            weft_device_range(call, (uint64_t)i, call.num_inputs - 1, index, call.numbers[0] - 1);
        }
        weft_set(call, 0, i, (uint8_t)fits);
    }
}

__global__ void run_one_hot(const weft_device_call call)
{
    const int indices = weft_input(call, 0), dim = call.views[0].ndim - 1;
    const int64_t length = call.views[0].extent[dim];
    for (int64_t i = weft_first_index(); i < call.views[indices].count; i += weft_index_step()) {
        const int64_t place = place_along(call, 0, dim, weft_get<int64_t>(call, indices, i), (uint64_t)i);
        for (int64_t k = 0; k < length; k++) {
            weft_set(call, 0, i * length + k, (int64_t)(k == place));
        }
    }
}

/* ---- triangles ----------------------------------------------------------------------------------------- */

template <bool lower> __global__ void run_triangle(const weft_device_call call)
{
    const weft_device_view &out = call.views[0];
    const int last = out.ndim - 1;
    const size_t size = weft_size_of(out.dtype);
    for (int64_t i = weft_first_index(); i < out.count; i += weft_index_step()) {
        const int64_t row = weft_quotient(i, out.extent[last]), column = i - row * out.extent[last];
        const int64_t matrix_row = row - weft_quotient(row, out.extent[last - 1]) * out.extent[last - 1];
        const int64_t above = out.offset[last] + column - (out.offset[last - 1] + matrix_row) - call.numbers[0];
        if (lower ? above <= 0 : above >= 0) {
            weft_copy_element(weft_place_of(call, 0, i), weft_place_of(call, weft_input(call, 0), i), size);
        } else {
            clear_element(weft_place_of(call, 0, i), size);
        }
    }
}

/* ---- cumulative sums and products ---------------------------------------------------------------------- */

template <bool product> __device__ double scanned(double a, double b)
{
    return product ? a * b : a + b;
}

template <bool product> __device__ int64_t scanned(int64_t a, int64_t b)
{
    return (int64_t)(product ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}

/* Elements of type E, for the arithmetic's type T; `any`: of the view's type. They are converted after other loads, not with each. */
struct any {};

template <typename T, typename E> struct scanned_elements {
    typedef E loaded;

    static __device__ E load(weft_dtype, weft_device_place at)
    {
        return ((const E *)at.memory)[at.place];
    }

    static __device__ void store(weft_dtype, weft_device_place at, T value)
    {
        ((E *)at.memory)[at.place] = (E)value;
    }
};

template <typename T> struct scanned_elements<T, any> {
    typedef T loaded;

    static __device__ T load(weft_dtype type, weft_device_place at)
    {
        return weft_load_as(T(), type, at.memory, at.place);
    }

    static __device__ void store(weft_dtype type, weft_device_place at, T value)
    {
        weft_store_from(type, at.memory, at.place, value);
    }
};

/* Elements of a vector of each view, from number k on, that are equally far from each other. */
__device__ int64_t scanned_together(const weft_device_call &call, int64_t length, int64_t k)
{
    const weft_device_view &a = call.views[0], &b = call.views[weft_input(call, 0)];
    if (call.numbers[0] > 0 || a.ndim == 0) {
        return length - k;
    }
    const int64_t of_a = weft_rows_together(a, k), of_b = weft_rows_together(b, k);
    return of_a < of_b ? of_a : of_b;
}

__device__ weft_device_place behind(weft_device_place at, int64_t distance)
{
    at.place += distance;
    return at;
}

/* A thread for each line. Some elements are loaded before the first of them is added: loads take much longer than additions. */
template <typename T, typename E, bool product> __global__ void run_scan(const weft_device_call call)
{
    enum { AHEAD = 16 };
    typedef scanned_elements<T, E> elements;
    const int dim = (int)call.numbers[0];
    const weft_device_vectors out = weft_device_vectors_along(call, 0, dim, dim);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    for (int64_t v = weft_first_index(); v < out.count; v += weft_index_step()) {
        const weft_device_vector<T> to(call, out, v), from(call, in, v);
        T total = product ? 1 : 0;
        for (int64_t k = 0, n; k < out.length; k += n) {
            const weft_device_place first_to = to.at(k), first_from = from.at(k);
            n = scanned_together(call, out.length, k);
            int64_t i = 0;
            for (; i + AHEAD <= n; i += AHEAD) {
                typename elements::loaded values[AHEAD];
#pragma unroll
                for (int u = 0; u < AHEAD; u++) {
                    values[u] = elements::load(in.dtype, behind(first_from, (i + u) * in.step));
                }
#pragma unroll
                for (int u = 0; u < AHEAD; u++) {
                    total = scanned<product>(total, (T)values[u]);
                    elements::store(out.dtype, behind(first_to, (i + u) * out.step), total);
                }
            }
            for (; i < n; i++) {
                total = scanned<product>(total, (T)elements::load(in.dtype, behind(first_from, i * in.step)));
                elements::store(out.dtype, behind(first_to, i * out.step), total);
            }
        }
    }
}

/* Long lines of elements that follow each other: a block loads a piece of some lines into shared memory, a thread for each line
 * adds, and the block stores it. */
enum { SCAN_THREADS = 256, SCAN_EACH = 8, SCAN_MOST_LINES = 16, SCAN_AHEAD = 8 };

struct scan_work {
    weft_device_call call;
    int lines; /* of a block: a power of 2 */
};

template <bool product, typename T> __device__ T scan_piece(T total, T *values, int n)
{
    int i = 0;
    for (; i + SCAN_AHEAD <= n; i += SCAN_AHEAD) {
        T some[SCAN_AHEAD];
#pragma unroll
        for (int u = 0; u < SCAN_AHEAD; u++) {
            some[u] = values[i + u];
        }
#pragma unroll
        for (int u = 0; u < SCAN_AHEAD; u++) {
            values[i + u] = total = scanned<product>(total, some[u]);
        }
    }
    for (; i < n; i++) {
        values[i] = total = scanned<product>(total, values[i]);
    }
    return total;
}

template <typename T, typename E, bool product> __global__ void run_scan_long(const scan_work work)
{
    typedef scanned_elements<T, E> elements;
    __shared__ T values[SCAN_THREADS * SCAN_EACH + SCAN_MOST_LINES];
    const weft_device_call &call = work.call;
    const int dim = (int)call.numbers[0], own = (int)threadIdx.x;
    const weft_device_vectors out = weft_device_vectors_along(call, 0, dim, dim);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    /* Lines are an odd number of values apart, so that those that are added together lie in different banks. */
    const int threads = SCAN_THREADS / work.lines, piece = threads * SCAN_EACH, apart = piece + 1;
    const int line = own / threads, column = own % threads;
    T *const kept = values + line * apart + column;
    for (int64_t first = (int64_t)blockIdx.x * work.lines; first < out.count; first += (int64_t)gridDim.x * work.lines) {
        const bool there = first + line < out.count, adds = own < work.lines && first + own < out.count;
        const weft_device_vector<T> to(call, out, there ? first + line : first), from(call, in, there ? first + line : first);
        T total = product ? 1 : 0;
        for (int64_t begin = 0, n; begin < out.length; begin += n) {
            const weft_device_place own_from = behind(from.at(begin), column), own_to = behind(to.at(begin), column);
            const int64_t together = scanned_together(call, out.length, begin);
            n = together < piece ? together : piece;
            const int mine = there ? (int)n - column : 0;
            typename elements::loaded loaded[SCAN_EACH];
#pragma unroll
            for (int u = 0; u < SCAN_EACH; u++) {
                loaded[u] = 0;
                if (u * threads < mine) {
                    loaded[u] = elements::load(in.dtype, behind(own_from, u * threads));
                }
            }
#pragma unroll
            for (int u = 0; u < SCAN_EACH; u++) {
                kept[u * threads] = (T)loaded[u];
            }
            __syncthreads();
            total = adds ? scan_piece<product>(total, values + own * apart, (int)n) : total;
            __syncthreads();
#pragma unroll
            for (int u = 0; u < SCAN_EACH; u++) {
                if (u * threads < mine) {
                    elements::store(out.dtype, behind(own_to, u * threads), kept[u * threads]);
                }
            }
            /* Each thread writes the next piece's values where it has read its own. */
        }
    }
}

/* The place of the largest, or smallest, element so far. */
template <typename T> __global__ void run_cumulative_place(const weft_device_call call)
{
    const int dim = (int)call.numbers[0];
    const bool largest = call.numbers[1] != 0;
    const weft_device_vectors out = weft_device_vectors_along(call, 0, dim, dim);
    const weft_device_vectors in = weft_device_vectors_along(call, weft_input(call, 0), dim, dim);
    for (int64_t v = weft_first_index(); v < out.count; v += weft_index_step()) {
        const weft_device_vector<int64_t> to(call, out, v);
        const weft_device_vector<T> from(call, in, v);
        T best = out.length > 0 ? from[0] : (T)0;
        int64_t place = 0;
        for (int64_t k = 0; k < out.length; k++) {
            const T value = from[k];
            if (value != value || (largest ? value >= best : value <= best)) {
                best = value;
                place = k;
            }
            to.set(k, place);
        }
    }
}

/* Long lines: as many for each block as leave blocks for the whole device, but no pieces longer than the lines. */
int launch_long(void (*kernel)(scan_work), int64_t lines, const weft_device_call &call, weft_cuda_queue *queue)
{
    const int64_t enough = 256, most = 1 << 16;
    scan_work work = { call, SCAN_MOST_LINES };
    while (work.lines > 1 && lines < enough * work.lines && SCAN_THREADS * SCAN_EACH < call.views[0].count / lines * work.lines) {
        work.lines /= 2;
    }
    const int64_t blocks = (lines + work.lines - 1) / work.lines;
    return weft_launch_blocks(kernel, (unsigned)(blocks < most ? blocks : most), SCAN_THREADS, queue->stream, work);
}

/* Lines that are not long, or not of neighbours: small blocks, as there may be few of them. */
int launch_lines(weft_device_kernel kernel, int64_t lines, const weft_device_call &call, weft_cuda_queue *queue)
{
    const int64_t threads = 64, most = 1 << 18, blocks = (lines + threads - 1) / threads;
    return weft_launch_on(kernel, (unsigned)(blocks < most ? blocks : most), (unsigned)threads, queue->stream, call);
}

template <typename T, typename E, bool product>
int launch_scan_of(int64_t lines, const weft_device_call &call, weft_cuda_queue *queue)
{
    const weft_device_view &out = call.views[0];
    const int64_t dim = call.numbers[0], least = 64;
    const bool is_long = out.ndim > 0 && dim == out.ndim - 1 && out.extent[dim] >= least;
    return is_long ? launch_long(run_scan_long<T, E, product>, lines, call, queue)
                   : launch_lines(run_scan<T, E, product>, lines, call, queue);
}

template <bool product> int launch_scan(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const weft_device_view &out = call.views[0];
    const int64_t lines = weft_lines_along(out, call.numbers[0]);
    return failed != 0 || lines == 0  ? failed
           : out.dtype == WEFT_F32  ? launch_scan_of<double, float, product>(lines, call, queue)
           : out.dtype == WEFT_F64  ? launch_scan_of<double, double, product>(lines, call, queue)
           : out.dtype == WEFT_I64  ? launch_scan_of<int64_t, int64_t, product>(lines, call, queue)
           : weft_dtype_is_whole(out.dtype) ? launch_scan_of<int64_t, any, product>(lines, call, queue)
                                    : launch_scan_of<double, any, product>(lines, call, queue);
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* An index for each element of view `number`, counted from the first input. */
int launch_each(weft_device_kernel kernel, int number, bool checked, const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    int64_t count = call.views[number < 0 ? 0 : call.num_outputs + number].count;
    return failed != 0 ? failed
           : checked   ? weft_call_launch_checked(kernel, count, call, queue)
                       : weft_call_launch(kernel, count, call, queue);
}

}

int weft_cuda_lookup(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const weft_device_view &out = call.views[0];
    int64_t before = 1, behind = 1;
    for (int d = 0; d < out.ndim; d++) {
        before *= d < call.numbers[WEFT_INDEXED_DIM] ? out.extent[d] : 1;
        behind *= d > call.numbers[WEFT_INDEXED_DIM] ? out.extent[d] : 1;
    }
    bool only_checks = behind == 0 && before > 0 && call.numbers[WEFT_INDEXED_TOGETHER] != 0;
    return failed != 0   ? failed
           : only_checks ? weft_call_launch_checked(run_check_lookup, call.views[call.num_outputs + 1].count, call, queue)
                         : weft_call_launch_checked(run_lookup, out.count, call, queue);
}

int weft_cuda_check_indices(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_each(run_check_indices, 0, true, run, queue);
}

int weft_cuda_one_hot(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_each(run_one_hot, 0, true, run, queue);
}

int weft_cuda_tril(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_each(run_triangle<true>, -1, false, run, queue);
}

int weft_cuda_triu(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_each(run_triangle<false>, -1, false, run, queue);
}

int weft_cuda_cumsum(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_scan<false>(run, queue);
}

int weft_cuda_cumprod(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_scan<true>(run, queue);
}

int weft_cuda_cumulative_place(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    int64_t lines = weft_lines_along(call.views[0], call.numbers[0]);
    bool whole = weft_dtype_is_whole(call.views[call.num_outputs].dtype);
    weft_device_kernel kernel = whole ? run_cumulative_place<int64_t> : run_cumulative_place<double>;
    return failed != 0 ? failed : weft_call_launch(kernel, lines, call, queue);
}
