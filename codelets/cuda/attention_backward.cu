/* Gradients of attention: weights are recomputed tile by tile. The gradient of q has a block of threads for some rows, those of
 * k and v one for some keys, so that no two add to one element. See cpu/attention_backward.c. */
#include "codelets/cuda/attention.cuh"
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace
{

using namespace attention;

/* A tile's weights, and the gradient of its scores. */
template <typename T>
__device__ void weigh(const job &j, tile<T> &t, int64_t row, int64_t rows, int64_t key, int64_t keys)
{
    const int64_t own = threadIdx.x / (KEYS / SCORES);
    T products[SCORES], log_sum = 0, product = 0;
    __syncthreads(); /* the former tile has been read */
    set_scores(j, t, row, rows, key, keys);
    multiply(j, t, j.gradient, row, rows, j.v, key, keys, j.width, products);
    if (own < rows) {
        log_sum = get<T>(j, j.statistics, row + own, WEFT_ATTENTION_LOG_SUM);
        product = get<T>(j, j.statistics, row + own, WEFT_ATTENTION_PRODUCT);
    }
    /* This thread has set these scores itself. Rows that are not there have none, and weights 0. */
    for (int x = 0; x < SCORES; x++) {
        const int64_t other = threadIdx.x % (KEYS / SCORES) + x * (KEYS / SCORES);
        T weight = other < keys && own < rows ? weft_device_exp((T)(t.scores[own][other] - log_sum)) : (T)0;
        t.scores[own][other] = weight;
        t.slopes[own][other] = other < keys && own < rows ? weight * (products[x] - product) : (T)0;
    }
}

/* Adds to a row of an output, or sets it. */
template <typename T> __device__ void put(const job &j, int output, int64_t row, int64_t column, T value)
{
    weft_device_place at = row_of(j, output, row);
    T before = (j.parts & WEFT_ATTENTION_CONTINUES) != 0 ? ((const T *)at.memory)[at.place + column] : (T)0;
    ((T *)at.memory)[at.place + column] = before + value;
}

/* ---- the gradient of q --------------------------------------------------------------------------------- */

template <typename T> __global__ void run_rows(const __grid_constant__ weft_device_call call)
{
    __shared__ tile<T> t;
    job j = job_of(call, true, true);
    const int64_t chunks = pieces_of(j.depth, COLUMNS), row_tiles = pieces_of(j.rows, ROWS);
    for (int64_t block = blockIdx.x; block < batches_of(j) * row_tiles * chunks; block += gridDim.x) {
        const int64_t row = block / chunks % row_tiles * ROWS, rows = least(ROWS, j.rows - row);
        const int64_t column = block % chunks * COLUMNS + threadIdx.x;
        set_batch(j, block / chunks / row_tiles);
        T sums[ROWS];
        for (int i = 0; i < ROWS; i++) {
            sums[i] = 0;
        }
        const int64_t seen = visible(j, row + rows - 1, 0, j.keys);
        for (int64_t key = 0; key < seen; key += KEYS) {
            const int64_t keys = least(KEYS, seen - key);
            weigh(j, t, row, rows, key, keys);
            find_rows(j, t, j.k, key, keys);
            __syncthreads();
            for (int64_t x = 0; x < keys && column < j.depth; x++) {
                const T value = load<T>(call.views[j.k].dtype, t.at[x], column);
                for (int i = 0; i < ROWS; i++) {
                    sums[i] = multiply_add(t.slopes[i][x], value, sums[i]);
                }
            }
        }
        for (int i = 0; i < rows && column < j.depth; i++) {
            put(j, 0, row + i, column, (T)call.scalars[0] * sums[i]);
        }
    }
}

/* ---- the gradients of k and v -------------------------------------------------------------------------- */

static __host__ __device__ inline int64_t key_blocks(const job &j)
{
    const columns c = columns_of(j);
    return batches_of(j) * pieces_of(j.keys, KEYS) * (pieces_of(c.k, COLUMNS) + pieces_of(c.v, COLUMNS));
}

template <typename T> __global__ void run_keys(const __grid_constant__ weft_device_call call)
{
    __shared__ tile<T> t;
    job j = job_of(call, true, true);
    const columns c = columns_of(j);
    const int64_t k_chunks = pieces_of(c.k, COLUMNS), chunks = k_chunks + pieces_of(c.v, COLUMNS), key_tiles = pieces_of(j.keys, KEYS);
    for (int64_t block = blockIdx.x; block < key_blocks(j); block += gridDim.x) {
        const bool of_k = block % chunks < k_chunks;
        const int64_t key = block / chunks % key_tiles * KEYS, keys = least(KEYS, j.keys - key);
        const int64_t column = (block % chunks - (of_k ? 0 : k_chunks)) * COLUMNS + threadIdx.x;
        const bool has_column = column < (of_k ? c.k : c.v);
        const int factors = of_k ? j.q : j.gradient;
        set_batch(j, block / chunks / key_tiles);
        T sums[KEYS];
        for (int x = 0; x < KEYS; x++) {
            sums[x] = 0;
        }
        for (int64_t row = first_seeing(j, key); row < j.rows; row += ROWS) {
            const int64_t rows = least(ROWS, j.rows - row);
            weigh(j, t, row, rows, key, keys);
            find_rows(j, t, factors, row, rows);
            __syncthreads();
            for (int64_t i = 0; i < rows && has_column; i++) {
                const T value = load<T>(call.views[factors].dtype, t.at[i], column);
                const T(&weights)[KEYS] = of_k ? t.slopes[i] : t.scores[i];
                for (int x = 0; x < KEYS; x++) {
                    sums[x] = multiply_add(weights[x], value, sums[x]);
                }
            }
        }
        const int output = call.num_outputs < 3 ? 0 : of_k ? 1 : 2;
        const int64_t begin = output == 0 && !of_k ? c.k : 0;
        for (int x = 0; x < keys && has_column; x++) {
            put(j, output, key + x, begin + column, of_k ? (T)call.scalars[0] * sums[x] : sums[x]);
        }
    }
}

int launch_rows(const weft_device_call &call, weft_cuda_queue *queue)
{
    const job j = job_of(call, true, true);
    const int fast = queue->fast ? weft_fast_attention_rows(&call, queue) : WEFT_NOT_FAST;
    return fast != WEFT_NOT_FAST ? fast
                                 : launch(call.views[0].dtype == WEFT_F64 ? run_rows<double> : run_rows<float>,
                                          batches_of(j) * pieces_of(j.rows, ROWS) * pieces_of(j.depth, COLUMNS), call, queue);
}

int launch_keys(const weft_device_call &call, weft_cuda_queue *queue)
{
    const int fast = queue->fast ? weft_fast_attention_keys(&call, queue) : WEFT_NOT_FAST;
    return fast != WEFT_NOT_FAST ? fast
                                 : launch(call.views[0].dtype == WEFT_F64 ? run_keys<double> : run_keys<float>,
                                          key_blocks(job_of(call, true, true)), call, queue);
}

int launch_gradients(const weft_task_run *run, weft_cuda_queue *queue, bool of_rows, bool of_keys)
{
    weft_device_call call;
    int failed = 0;
    if (queue->fast && weft_dnn_gradients_task(run, of_rows, queue, &failed)) {
        return failed;
    }
    failed = weft_call_begin(&call, run, queue);
    failed = failed == 0 && of_rows ? launch_rows(call, queue) : failed;
    return failed == 0 && of_keys ? launch_keys(call, queue) : failed;
}

/* ---- statistics ---------------------------------------------------------------------------------------- */

/* A thread for each line. */
template <typename T> __global__ void run_statistics(const weft_device_call call)
{
    enum { BLOCK = 128 };
    const int state = call.num_outputs, gradient = state + 1, result = state + 2;
    const weft_device_view &output = call.views[0], &states = call.views[state], &values = call.views[gradient];
    const int64_t lines = output.row_elements / WEFT_ATTENTION_STATISTICS, columns = states.extent[states.ndim - 1];
    const int64_t width = values.extent[values.ndim - 1];
    for (int64_t index = weft_first_index(); index < output.count / WEFT_ATTENTION_STATISTICS; index += weft_index_step()) {
        const int64_t row = index / lines, line = index % lines;
        const weft_device_place from = { weft_row_at(call, state, row), line * columns };
        double sum, most, product = 0, log_sum = (double)weft_load_as(T(), states.dtype, from.memory, from.place);
        if (columns > 1) {
            combine<T>(states.dtype, from, columns / WEFT_ATTENTION_STATE, WEFT_ATTENTION_STATE, &sum, &most);
            log_sum = log_sum_of(sum, most);
        }
        for (int64_t first = 0; first < width; first += BLOCK) {
            product += weft_device_sum(least(BLOCK, width - first), [&](int64_t i) {
                const int64_t at = line * width + first + i;
                return weft_load_as(0.0, values.dtype, weft_row_at(call, gradient, row), at) *
                       weft_load_as(0.0, call.views[result].dtype, weft_row_at(call, result, row), at);
            });
        }
        char *to = weft_row_at(call, 0, row);
        weft_store_from(output.dtype, to, line * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_LOG_SUM, (T)log_sum);
        weft_store_from(output.dtype, to, line * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_PRODUCT, (T)product);
    }
}

}

int weft_cuda_attention_backward_q(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_gradients(run, queue, true, false);
}

int weft_cuda_attention_backward_kv(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_gradients(run, queue, false, true);
}

int weft_cuda_attention_backward_all(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch_gradients(run, queue, true, true);
}

int weft_cuda_attention_statistics(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call call;
    int failed = weft_call_begin(&call, run, queue);
    const int fast = failed == 0 && queue->fast ? weft_fast_statistics(&call, queue) : WEFT_NOT_FAST;
    return fast != WEFT_NOT_FAST ? fast
           : failed != 0         ? failed
                                 : weft_call_launch(call.views[0].dtype == WEFT_F64 ? run_statistics<double> : run_statistics<float>,
                                                    call.views[0].count / WEFT_ATTENTION_STATISTICS, call, queue);
}
