/* Attention: a block of threads goes through the keys that its rows see, tile by tile, with the largest score and the sum of
 * weights so far; each thread adds up a column of the result. See cpu/attention.c. */
#include "codelets/cuda/attention.cuh"
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace
{

using namespace attention;

/* The rows of a block, and its columns of the result. */
struct part {
    int64_t row, rows, column;
    bool has_column; /* this thread's */
};

template <typename T> __device__ void start_rows(const job &j, tile<T> &t, const part &p, T sums[ROWS])
{
    const bool continues = (j.parts & WEFT_ATTENTION_CONTINUES) != 0;
    for (int i = 0; i < ROWS; i++) {
        sums[i] = continues && p.has_column && i < p.rows ? get<T>(j, 0, p.row + i, p.column) : (T)0;
    }
    const int64_t own = threadIdx.x;
    if (own < ROWS) {
        bool loads = continues && own < p.rows;
        t.sum[own] = loads ? (double)get<T>(j, 0, p.row + own, j.width + WEFT_ATTENTION_SUM) : 0;
        t.most[own] = loads ? (double)get<T>(j, 0, p.row + own, j.width + WEFT_ATTENTION_LARGEST) : -INFINITY;
    }
}

/* Scores become weights; the sums so far are rescaled for a new largest score. NaN is no largest score. */
template <typename T> __device__ void take_scores(tile<T> &t, T sums[ROWS])
{
    enum { OF_ROW = THREADS / ROWS }; /* threads, which follow each other: of one warp */
    const int own = (int)threadIdx.x / OF_ROW, first = (int)threadIdx.x % OF_ROW;
    T now = -INFINITY;
    for (int x = first; x < KEYS; x += OF_ROW) {
        now = t.scores[own][x] > now ? t.scores[own][x] : now;
    }
    for (int half = OF_ROW / 2; half > 0; half /= 2) {
        const T other = __shfl_down_sync(~0u, now, half);
        now = other > now ? other : now;
    }
    if (first == 0) {
        const double before = t.most[own], sum = t.sum[own], most = fmax(before, (double)now), factor = factor_of(before, most, sum);
        t.sum[own] = sum * factor;
        t.factor[own] = sum != 0 ? (T)factor : (T)1;
        t.most[own] = most;
    }
    __syncthreads();
    const double most = t.most[own];
    double sum = 0;
    for (int x = first; x < KEYS; x += OF_ROW) {
        const T weight = weft_device_exp((T)(t.scores[own][x] - (most == -INFINITY ? (T)0 : (T)most)));
        t.scores[own][x] = weight;
        sum += (double)weight;
    }
    for (int half = OF_ROW / 2; half > 0; half /= 2) {
        sum += __shfl_down_sync(~0u, sum, half);
    }
    if (first == 0) {
        t.sum[own] += sum;
    }
    for (int i = 0; i < ROWS; i++) {
        sums[i] *= t.factor[i];
    }
    __syncthreads();
}

template <typename T> __device__ void take_keys(const job &j, tile<T> &t, const part &p, int64_t key, int64_t keys, T sums[ROWS])
{
    __syncthreads(); /* the former tile has been read */
    set_scores(j, t, p.row, p.rows, key, keys);
    if (j.width > 0) {
        find_rows(j, t, j.v, key, keys);
    }
    __syncthreads();
    take_scores(t, sums);
    for (int64_t x = 0; x < keys && p.has_column; x++) {
        const T value = load<T>(j.call.views[j.v].dtype, t.at[x], p.column);
        for (int i = 0; i < ROWS; i++) {
            sums[i] = multiply_add(t.scores[i][x], value, sums[i]);
        }
    }
}

template <typename T, bool state> __device__ void store_rows(const job &j, tile<T> &t, const part &p, const T sums[ROWS])
{
    const weft_dtype type = j.call.views[0].dtype;
    for (int i = 0; i < ROWS; i++) {
        if (i < p.rows && p.has_column) {
            weft_device_place at = row_of(j, 0, p.row + i);
            T factor = state ? (T)1 : (T)(t.sum[i] == 0 ? 0 : 1 / t.sum[i]);
            weft_store_from(type, at.memory, at.place + p.column, state ? sums[i] : sums[i] * factor);
        }
    }
    const int64_t own = threadIdx.x;
    if (own >= p.rows || p.column >= COLUMNS) {
        return; /* once for each row */
    }
    if (state) {
        weft_device_place at = row_of(j, 0, p.row + own);
        weft_store_from(type, at.memory, at.place + j.width + WEFT_ATTENTION_SUM, (T)t.sum[own]);
        weft_store_from(type, at.memory, at.place + j.width + WEFT_ATTENTION_LARGEST, (T)t.most[own]);
    } else if (j.call.num_outputs > 1) {
        store_log_sum<T>(j, p.row + own, t.sum[own], t.most[own]);
    }
}

/* Pieces of the columns of a result: one without columns has states. */
static __host__ __device__ inline int64_t chunks_of(const job &j)
{
    return j.width == 0 ? 1 : pieces_of(j.width, COLUMNS);
}

/* Blocks of threads that share the columns of a result, a piece each. A state that is read is written by one block: another
 * would read a sum and a largest score that this one has already written. */
static __host__ __device__ inline int64_t sharers_of(const job &j)
{
    return (j.parts & WEFT_ATTENTION_CONTINUES) != 0 ? 1 : chunks_of(j);
}

template <typename T, bool state> __device__ void attend(const job &j, tile<T> &t, const part &p)
{
    T sums[ROWS];
    __syncthreads(); /* the former piece has been stored */
    start_rows(j, t, p, sums);
    int64_t keys = visible(j, p.row + p.rows - 1, 0, j.keys);
    for (int64_t key = 0; key < keys; key += KEYS) {
        take_keys(j, t, p, key, least(KEYS, keys - key), sums);
    }
    __syncthreads();
    store_rows<T, state>(j, t, p, sums);
}

template <typename T, bool state> __global__ void run_attention(const __grid_constant__ weft_device_call call)
{
    __shared__ tile<T> t;
    job j = job_of(call, false, has_v(call, state));
    const int64_t sharers = sharers_of(j), row_tiles = pieces_of(j.rows, ROWS);
    const int64_t pieces = chunks_of(j) / sharers; /* of each block */
    for (int64_t block = blockIdx.x; block < batches_of(j) * row_tiles * sharers; block += gridDim.x) {
        part p = { block / sharers % row_tiles * ROWS, 0, 0, false };
        p.rows = least(ROWS, j.rows - p.row);
        set_batch(j, block / sharers / row_tiles);
        /* The first piece last: with it the sums and the largest scores are stored, which all pieces read. */
        for (int64_t piece = pieces - 1; piece >= 0; piece--) {
            p.column = (block % sharers + piece) * COLUMNS + threadIdx.x;
            p.has_column = p.column < j.width;
            attend<T, state>(j, t, p);
        }
    }
}

template <bool state> int launch_attention(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const job j = job_of(call, false, has_v(call, state));
    const int fast = failed == 0 && queue->fast ? weft_fast_attention(&call, state, queue) : WEFT_NOT_FAST;
    return failed != 0             ? failed
           : fast != WEFT_NOT_FAST ? fast
                       : launch(call.views[0].dtype == WEFT_F64 ? run_attention<double, state> : run_attention<float, state>,
                                batches_of(j) * pieces_of(j.rows, ROWS) * sharers_of(j), call, queue);
}

/* ---- from states --------------------------------------------------------------------------------------- */

/* A thread for each element of the result. */
template <typename T> __global__ void run_finish(const weft_device_call call)
{
    const weft_device_view &output = call.views[0], &input = call.views[call.num_outputs];
    const int64_t width = output.extent[output.ndim - 1], columns = input.extent[input.ndim - 1];
    const int64_t state = width + WEFT_ATTENTION_STATE, lines = output.row_elements / width;
    for (int64_t index = weft_first_index(); index < output.count; index += weft_index_step()) {
        int64_t row = index / output.row_elements, line = index % output.row_elements / width, column = index % width;
        const weft_device_place from = { weft_row_at(call, call.num_outputs, row), line * columns };
        double sum, most;
        combine<T>(input.dtype, from, columns / state, state, &sum, &most);
        T result = 0;
        for (int64_t i = 0; i < columns / state; i++) {
            const int64_t at = from.place + i * state;
            T own = weft_load_as(T(), input.dtype, from.memory, at + width + WEFT_ATTENTION_SUM);
            T largest = weft_load_as(T(), input.dtype, from.memory, at + width + WEFT_ATTENTION_LARGEST);
            result += (T)factor_of((double)largest, most, (double)own) * weft_load_as(T(), input.dtype, from.memory, at + column);
        }
        weft_store_from(output.dtype, weft_row_at(call, 0, row), line * width + column, result * (T)(sum == 0 ? 0 : 1 / sum));
        if (call.num_outputs > 1 && column == 0) {
            weft_store_from(call.views[1].dtype, weft_row_at(call, 1, lines == 0 ? 0 : row), line, (T)log_sum_of(sum, most));
        }
    }
}

}

int weft_cuda_attention(const weft_task_run *run, weft_cuda_queue *queue)
{
    return queue->fast && weft_dnn_attention_task(run, queue) ? 0 : launch_attention<false>(run, queue);
}

int weft_cuda_attention_state(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_attention<true>(run, queue);
}

int weft_cuda_attention_finish(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    bool wide = call.views[call.num_outputs].dtype == WEFT_F64;
    return failed != 0 ? failed : weft_call_launch(wide ? run_finish<double> : run_finish<float>, call.views[0].count, call, queue);
}
