/* Kernels on views: elements of the operands by their index, and the launch. Each thread computes elements, or vectors
 * as a whole in the order in which a CPU does, so that results have the same bits. */
#ifndef WEFT_CODELETS_CUDA_VIEWS_H
#define WEFT_CODELETS_CUDA_VIEWS_H

#include "codelets/cuda/box.h"
#include "codelets/cuda/convert.h"
#include "codelets/cuda/kernels.h"

extern "C" {
#include "codelets/problems.h"
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* Vectors of a view along a dimension; a view without dimensions is one value. */
static inline int64_t weft_lines_along(const weft_device_view &view, int64_t dim)
{
    return view.count == 0 || view.ndim == 0 ? view.count : view.count / view.extent[dim];
}

/* Fills in the argument. A cudaError_t, as all of these. */
int weft_call_begin(weft_device_call *call, const weft_task_run *run, weft_cuda_queue *queue);
/* Around a kernel that can find invalid values: clears its error, and copies it afterwards. */
int weft_error_begin(weft_device_error **error, weft_cuda_queue *queue);
int weft_error_end(const weft_device_error *error, weft_cuda_queue *queue);

typedef void (*weft_device_kernel)(weft_device_call);

/* With `count` indices: none, nothing is launched. */
static inline int weft_call_launch(weft_device_kernel kernel, int64_t count, const weft_device_call &call,
                                   weft_cuda_queue *queue)
{
    return count == 0 ? 0 : weft_launch(kernel, count, queue->stream, call);
}

/* The same of a kernel that reports invalid values. */
static inline int weft_call_launch_checked(weft_device_kernel kernel, int64_t count, weft_device_call &call,
                                           weft_cuda_queue *queue)
{
    int failed = count == 0 ? 0 : weft_error_begin(&call.error, queue);
    failed = failed != 0 ? failed : weft_call_launch(kernel, count, call, queue);
    return failed != 0 || count == 0 ? failed : weft_error_end(call.error, queue);
}

/* A kernel that computes each element of the first operand, and can fail at none. */
static inline int weft_launch_elements(weft_device_kernel kernel, const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    return failed != 0 ? failed : weft_call_launch(kernel, call.views[0].count, call, queue);
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* The number of an input among the views. */
static __device__ inline int weft_input(const weft_device_call &call, int number)
{
    return call.num_outputs + number;
}

/* The address of a row of view number k. */
static __device__ inline char *weft_row_at(const weft_device_call &call, int k, int64_t row)
{
    const weft_device_view &view = call.views[k];
    int64_t panel = 0, begin = 0;
    if (view.ndim > 0) {
        int64_t first = view.offset[0] + view.row_shift, number = weft_quotient(first, view.panel_rows);
        panel = weft_quotient(first + row, view.panel_rows) - number;
        begin = panel == 0 ? 0 : (number + panel) * view.panel_rows - first;
    }
    void *const *panels = call.table != NULL ? call.table : call.panels;
    return (char *)panels[view.first_panel + panel] +
           (size_t)((row - begin) * view.row_elements) * weft_size_of(view.dtype);
}

/* Rows that follow each other in memory from `row` on. */
static __host__ __device__ inline int64_t weft_rows_together(const weft_device_view &view, int64_t row)
{
    int64_t first = view.offset[0] + view.row_shift, place = first + row, last = first + view.extent[0];
    int64_t end = (place / view.panel_rows + 1) * view.panel_rows;
    return (end < last ? end : last) - place;
}

/* The memory and the place in it of an element, in the row-major order of the part. */
typedef struct weft_device_place {
    char *memory;
    int64_t place;
} weft_device_place;

static __device__ inline weft_device_place weft_place_of(const weft_device_call &call, int k, int64_t index)
{
    int64_t row = call.views[k].ndim == 0 ? 0 : weft_quotient(index, call.views[k].row_elements);
    weft_device_place at = { weft_row_at(call, k, row), index - row * call.views[k].row_elements };
    return at;
}

template <typename T> __device__ T weft_get(const weft_device_call &call, int k, int64_t index)
{
    weft_device_place at = weft_place_of(call, k, index);
    return weft_load_as(T(), call.views[k].dtype, at.memory, at.place);
}

template <typename T> __device__ void weft_set(const weft_device_call &call, int k, int64_t index, T value)
{
    weft_device_place at = weft_place_of(call, k, index);
    weft_store_from(call.views[k].dtype, at.memory, at.place, value);
}

/* An element as it lies. */
static __device__ inline void weft_copy_element(weft_device_place to, weft_device_place from, size_t size)
{
    switch (size) {
    case 1:
        ((uint8_t *)to.memory)[to.place] = ((const uint8_t *)from.memory)[from.place];
        break;
    case 2:
        ((uint16_t *)to.memory)[to.place] = ((const uint16_t *)from.memory)[from.place];
        break;
    case 4:
        ((uint32_t *)to.memory)[to.place] = ((const uint32_t *)from.memory)[from.place];
        break;
    default:
        ((uint64_t *)to.memory)[to.place] = ((const uint64_t *)from.memory)[from.place];
        break;
    }
}

/* ---- vectors ------------------------------------------------------------------------------------------- */

/* The elements of a view along some consecutive dimensions, one vector for each index of the others: as weft_vectors
 * (cpu/vectors.h). T: the type of the arithmetic. */
typedef struct weft_device_vectors {
    int view, first;
    weft_dtype dtype;
    int64_t count, length, step, outer, per_row;
} weft_device_vectors;

static __device__ inline weft_device_vectors weft_device_vectors_along(const weft_device_call &call, int k, int first,
                                                                       int last)
{
    const weft_device_view &view = call.views[k];
    weft_device_vectors v = { k, first, view.dtype, 1, 1, 1, 1, 0 };
    for (int d = 0; d < view.ndim; d++) {
        v.length *= d >= first && d <= last ? view.extent[d] : 1;
        v.count *= d >= first && d <= last ? 1 : view.extent[d];
        v.step *= d > last ? view.extent[d] : 1;
        v.outer *= d >= 1 && d < first ? view.extent[d] : 1;
    }
    v.per_row = first == 0 && view.ndim > 0 ? (v.step == 0 ? 0 : view.row_elements / v.step) : v.length;
    return v;
}

/* Vector `index`. */
template <typename T> struct weft_device_vector {
    const weft_device_call &call;
    const weft_device_vectors &along;
    int64_t index;
    char *memory; /* of its row, if it lies in one */
    int64_t begin;

    __device__ weft_device_vector(const weft_device_call &call_, const weft_device_vectors &along_, int64_t index_)
        : call(call_), along(along_), index(index_), memory(NULL), begin(0)
    {
        if (along.first > 0) {
            int64_t place = weft_quotient(index, along.step), row = weft_quotient(place, along.outer);
            memory = weft_row_at(call, along.view, row);
            begin = (place - row * along.outer) * along.length * along.step + (index - place * along.step);
        }
    }

    __device__ weft_device_place at(int64_t k) const
    {
        if (memory != NULL) {
            weft_device_place inside = { memory, begin + k * along.step };
            return inside;
        }
        int64_t row = weft_quotient(k, along.per_row);
        weft_device_place inside = { weft_row_at(call, along.view, row), index + (k - row * along.per_row) * along.step };
        return inside;
    }

    __device__ T operator[](int64_t k) const
    {
        weft_device_place inside = at(k);
        return weft_load_as(T(), along.dtype, inside.memory, inside.place);
    }

    __device__ void set(int64_t k, T value) const
    {
        weft_device_place inside = at(k);
        weft_store_from(along.dtype, inside.memory, inside.place, value);
    }
};

/* ---- reductions in the order of the CPU's -------------------------------------------------------------- */

/* As IN_LANES of cpu/line_sums.c: whole groups of `lanes` values go to one lane each; then the lanes are combined
 * pairwise, and the remaining values one by one. */
template <int lanes, typename T, typename Value, typename Operation>
__device__ T weft_in_lanes(T start, int64_t n, Value value, Operation operation)
{
    T lane[lanes], total = start;
    int64_t first = 0;
    if (n >= lanes) {
        for (int i = 0; i < lanes; i++) {
            lane[i] = start;
        }
        for (; first + lanes <= n; first += lanes) {
            for (int i = 0; i < lanes; i++) {
                lane[i] = operation(lane[i], value(first + i));
            }
        }
        for (int half = lanes / 2; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) {
                lane[i] = operation(lane[i], lane[i + half]);
            }
        }
        total = lane[0];
    }
    for (; first < n; first++) {
        total = operation(total, value(first));
    }
    return total;
}

template <typename Value> __device__ double weft_device_sum(int64_t n, Value value)
{
    return weft_in_lanes<16, double>(0.0, n, value, [](double a, double b) { return a + b; });
}

/* -INFINITY without values; NaN is ignored. */
template <typename T, typename Value> __device__ double weft_device_max(int64_t n, Value value)
{
    return (double)weft_in_lanes<32, T>((T)-INFINITY, n, value, [](T a, T b) { return b > a ? b : a; });
}

static __device__ inline float weft_device_exp(float x)
{
    return weft_exp_f32(x);
}

static __device__ inline double weft_device_exp(double x)
{
    return weft_exp_f64(x);
}

/* For sums and probabilities: codelets/functions.h. */
static __device__ inline float weft_device_exp_short(float x)
{
    return weft_exp_short_f32(x);
}

static __device__ inline double weft_device_exp_short(double x)
{
    return weft_exp_f64(x);
}

/* A sum in the blocks of weft_line_sum_exp(). */
template <typename Value> __device__ double weft_device_sum_in_blocks(int64_t n, Value value)
{
    const int64_t block = 512;
    double total = 0;
    for (int64_t first = 0; first < n; first += block) {
        int64_t some = n - first < block ? n - first : block;
        total += weft_device_sum(some, [&](int64_t i) { return (double)value(first + i); });
    }
    return total;
}

/* The sum of e^(value - most). */
template <typename T, typename Value> __device__ double weft_device_sum_exp(int64_t n, double most, Value value)
{
    return weft_device_sum_in_blocks(n, [&](int64_t i) { return weft_device_exp((T)(value(i) - (T)most)); });
}

template <typename T, typename Value> __device__ double weft_device_sum_exp_short(int64_t n, double most, Value value)
{
    return weft_device_sum_in_blocks(n, [&](int64_t i) { return weft_device_exp_short((T)(value(i) - (T)most)); });
}

/* ---- a warp for each vector ---------------------------------------------------------------------------- */

/* The same sums and extremes, computed by the threads of a warp together: each evaluates the values of its own elements, and those
 * that stand for lanes add what the others pass on, so that the order, and so each bit, is that of one thread. Kernels of these are
 * launched by weft_launch_warps(), and all threads of a warp call them with the same arguments. All threads get the result. */
enum { WEFT_WARP = 32, WEFT_WARPS_OF_BLOCK = 4 };

static __device__ inline int weft_warp_thread()
{
    return (int)threadIdx.x % WEFT_WARP;
}

static __device__ inline int64_t weft_first_warp()
{
    return (int64_t)blockIdx.x * WEFT_WARPS_OF_BLOCK + threadIdx.x / WEFT_WARP;
}

static __device__ inline int64_t weft_warp_step()
{
    return (int64_t)gridDim.x * WEFT_WARPS_OF_BLOCK;
}

/* A warp for each of `count` vectors, at least 1. */
template <typename Work>
static int weft_launch_warps(void (*kernel)(Work), int64_t count, void *stream, const Work &work)
{
    const int64_t most = 1 << 20, blocks = (count + WEFT_WARPS_OF_BLOCK - 1) / WEFT_WARPS_OF_BLOCK;
    return weft_launch_blocks(kernel, (unsigned)(blocks < most ? blocks : most), WEFT_WARPS_OF_BLOCK * WEFT_WARP, stream, work);
}

/* weft_in_lanes() of 16 or 32 lanes. A value of UNROLLED steps is evaluated before the first of them is added: more are under way. */
template <int lanes, typename T, typename Value, typename Operation>
__device__ T weft_warp_in_lanes(T start, int64_t n, Value value, Operation operation)
{
    static_assert(lanes == WEFT_WARP || 2 * lanes == WEFT_WARP, "a warp's threads are one group of values, or two");
    enum { UNROLLED = 4 };
    const int64_t own = weft_warp_thread(), whole = n - n % lanes;
    T lane = start, total = start;
    int64_t first = 0;
    for (; first + UNROLLED * WEFT_WARP <= whole; first += UNROLLED * WEFT_WARP) {
        T values[UNROLLED];
WEFT_UNROLL
        for (int u = 0; u < UNROLLED; u++) {
            values[u] = value(first + u * WEFT_WARP + own);
        }
WEFT_UNROLL
        for (int u = 0; u < UNROLLED; u++) {
            lane = operation(lane, values[u]);
            if (lanes < WEFT_WARP) {
                lane = operation(lane, __shfl_down_sync(~0u, values[u], lanes)); /* of the upper threads nothing is used */
            }
        }
    }
    for (; first < whole; first += WEFT_WARP) {
        const T mine = first + own < whole ? value(first + own) : start;
        lane = first + own < whole ? operation(lane, mine) : lane;
        if (lanes < WEFT_WARP) {
            const T other = __shfl_down_sync(~0u, mine, lanes);
            lane = first + lanes < whole ? operation(lane, other) : lane;
        }
    }
    if (whole > 0) {
        for (int half = lanes / 2; half > 0; half /= 2) {
            lane = operation(lane, __shfl_down_sync(~0u, lane, half));
        }
        total = __shfl_sync(~0u, lane, 0);
    }
    if (whole < n) {
        const T rest = whole + own < n ? value(whole + own) : start;
        for (int i = 0; i < n - whole; i++) {
            total = operation(total, __shfl_sync(~0u, rest, i));
        }
    }
    return total;
}

template <typename Value> __device__ double weft_warp_sum(int64_t n, Value value)
{
    return weft_warp_in_lanes<16, double>(0.0, n, value, [](double a, double b) { return a + b; });
}

template <typename T, typename Value> __device__ double weft_warp_max(int64_t n, Value value)
{
    return (double)weft_warp_in_lanes<32, T>((T)-INFINITY, n, value, [](T a, T b) { return b > a ? b : a; });
}

template <typename Value> __device__ double weft_warp_sum_in_blocks(int64_t n, Value value)
{
    const int64_t block = 512;
    double total = 0;
    for (int64_t first = 0; first < n; first += block) {
        int64_t some = n - first < block ? n - first : block;
        total += weft_warp_sum(some, [&](int64_t i) { return (double)value(first + i); });
    }
    return total;
}

template <typename T, typename Value> __device__ double weft_warp_sum_exp(int64_t n, double most, Value value)
{
    return weft_warp_sum_in_blocks(n, [&](int64_t i) { return weft_device_exp((T)(value(i) - (T)most)); });
}

template <typename T, typename Value> __device__ double weft_warp_sum_exp_short(int64_t n, double most, Value value)
{
    return weft_warp_sum_in_blocks(n, [&](int64_t i) { return weft_device_exp_short((T)(value(i) - (T)most)); });
}

/* A vector is computed by one thread, or by the threads of a warp together. A thread writes elements first(), first() + step, ... */
template <typename T> struct weft_one_thread {
    static const int step = 1;

    static __device__ int first()
    {
        return 0;
    }

    template <typename Value> static __device__ double sum(int64_t n, Value value)
    {
        return weft_device_sum(n, value);
    }

    template <typename Value> static __device__ double max(int64_t n, Value value)
    {
        return weft_device_max<T>(n, value);
    }

    template <typename Value> static __device__ double sum_exp(int64_t n, double most, Value value)
    {
        return weft_device_sum_exp<T>(n, most, value);
    }
};

template <typename T> struct weft_one_warp {
    static const int step = WEFT_WARP;

    static __device__ int first()
    {
        return weft_warp_thread();
    }

    template <typename Value> static __device__ double sum(int64_t n, Value value)
    {
        return weft_warp_sum(n, value);
    }

    template <typename Value> static __device__ double max(int64_t n, Value value)
    {
        return weft_warp_max<T>(n, value);
    }

    template <typename Value> static __device__ double sum_exp(int64_t n, double most, Value value)
    {
        return weft_warp_sum_exp<T>(n, most, value);
    }
};

/* Vectors of which a warp is to have each: their elements follow each other in memory, and there are enough. */
static inline bool weft_is_long_line(const weft_device_view &view, int64_t first_dim)
{
    int64_t length = 1;
    for (int d = (int)first_dim; d < view.ndim; d++) {
        length *= view.extent[d];
    }
    return view.ndim > 0 && first_dim >= 1 && length >= 2 * WEFT_WARP;
}

/* All views have one type: lines of them are direct. */
static inline bool weft_are_of_type(const weft_device_call &call, weft_dtype type)
{
    for (int k = 0; k < call.num_outputs + call.num_inputs; k++) {
        if (call.views[k].dtype != type) {
            return false;
        }
    }
    return true;
}

/* Vector `index` of those along the last dimensions, but not the first: elements follow each other. `direct`: they have the type of
 * the arithmetic, and are loaded and stored as they are. */
template <typename T, bool direct> struct weft_device_line {
    char *memory;
    weft_dtype dtype;

    __device__ weft_device_line(const weft_device_call &call, const weft_device_vectors &along, int64_t index)
        : dtype(along.dtype)
    {
        const weft_device_place begin = weft_device_vector<T>(call, along, index).at(0);
        memory = begin.memory + (size_t)begin.place * weft_size_of(dtype);
    }

    __device__ T operator[](int64_t i) const
    {
        return direct ? ((const T *)memory)[i] : weft_load_as(T(), dtype, memory, i);
    }

    __device__ void set(int64_t i, T value) const
    {
        if (direct) {
            ((T *)memory)[i] = value;
        } else {
            weft_store_from(dtype, memory, i, value);
        }
    }
};

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Keeps what `fill` writes, if no error at an earlier position is there. */
template <typename Fill> __device__ void weft_device_report(weft_device_error *error, uint64_t position, Fill fill)
{
    const uint64_t key = ~position;
    volatile uint64_t *kept = &error->key;
    if (*kept >= key) {
        return;
    }
    while (atomicCAS(&error->lock, 0, 1) != 0) {
    }
    __threadfence();
    if (*kept < key) {
        error->error.status = WEFT_ERR_INVALID;
        fill(&error->error);
        *kept = key;
    }
    __threadfence();
    atomicExch(&error->lock, 0);
}

static __device__ inline void weft_device_range(const weft_device_call &call, uint64_t position, int input,
                                                int64_t value, int64_t bound)
{
    weft_device_report(call.error, position, [&](weft_kernel_error *error) {
        error->problem = WEFT_PROBLEM_RANGE;
        error->input = input;
        error->value = value;
        error->bound = bound;
    });
}

#endif
