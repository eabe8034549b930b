/* What weft computes around cuDNN's gradients of attention. */
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fast_lines.cuh"

extern "C" {
#include "codelets/attention.h"
}

namespace
{

/* ---- rows of a given product --------------------------------------------------------------------------- */

enum { WIDTH_EACH = 8, PARTS = 3 }; /* columns of a thread, at most: rows have up to 256 */

struct rows_work {
    weft_dtype type;
    const void *gradient;
    const float *statistics;
    void *results;
    float *log_sums;
    int64_t heads, rows, width, gradient_step, row_step;
};

/* The column of the largest magnitude in a row of which each thread has some columns, the first of equal ones; -1: all are 0. Those
 * of NaN are none. */
__device__ int largest_of(const float value[])
{
    float most = 0;
    int at = -1;
    for (int i = 0; i < WIDTH_EACH; i++) {
        if (fabsf(value[i]) > most) {
            most = fabsf(value[i]);
            at = weft_warp_thread() + i * WEFT_WARP;
        }
    }
    for (int half = WEFT_WARP / 2; half > 0; half /= 2) {
        const float other = __shfl_down_sync(~0u, most, half);
        const int other_at = __shfl_down_sync(~0u, at, half);
        const bool takes = other > most || (other == most && other_at >= 0 && (at < 0 || other_at < at));
        most = takes ? other : most;
        at = takes ? other_at : at;
    }
    return __shfl_sync(~0u, at, 0);
}

/* A row whose dot product with the gradient's is `rest`, as well as so many numbers of 16 bits can: quotients by the largest elements
 * of the gradient, the second for what rounding the first has left. */
__device__ void divide_row(weft_dtype type, float rest, float value[], float result[])
{
    for (int part = 0; part < PARTS; part++) {
        const int at = largest_of(value), i = at / WEFT_WARP;
        if (at < 0) {
            return;
        }
        const float factor = __shfl_sync(~0u, value[i], at % WEFT_WARP);
        float quotient = weft_narrowed(type, rest / factor);
        if (isinf(quotient) && !isinf(rest)) { /* the next column takes what is left */
            quotient = copysignf(type == WEFT_F16 ? 65504.0f : 0x1.fep127f, quotient);
        }
        rest -= factor * quotient;
        if (weft_warp_thread() == at % WEFT_WARP) {
            result[i] = quotient;
            value[i] = 0;
        }
    }
}

/* A warp for each row. */
__global__ void run_rows(const rows_work work)
{
    const int size = (int)weft_size_of(work.type);
    for (int64_t line = weft_first_warp(); line < work.heads * work.rows; line += weft_warp_step()) {
        const int64_t head = weft_quotient(line, work.rows), row = line - head * work.rows;
        const char *gradient = (const char *)work.gradient + (head * work.gradient_step + row * work.width) * size;
        const float *statistics = work.statistics + head * work.row_step + row * WEFT_ATTENTION_STATISTICS;
        float value[WIDTH_EACH], result[WIDTH_EACH];
        for (int i = 0; i < WIDTH_EACH; i++) {
            const int64_t column = weft_warp_thread() + i * WEFT_WARP;
            value[i] = column < work.width ? weft_load_as(0.0f, work.type, gradient, column) : 0.0f;
            result[i] = 0;
        }
        divide_row(work.type, statistics[WEFT_ATTENTION_PRODUCT], value, result);
        for (int i = 0; i < WIDTH_EACH; i++) {
            const int64_t column = weft_warp_thread() + i * WEFT_WARP;
            if (column < work.width) {
                weft_store_from(work.type, work.results, line * work.width + column, result[i]);
            }
        }
        if (weft_warp_thread() == 0) {
            work.log_sums[line] = statistics[WEFT_ATTENTION_LOG_SUM];
        }
    }
}

/* ---- numbers to where they are wanted ------------------------------------------------------------------ */

__global__ void run_put(const weft_dnn_put work)
{
    for (int64_t index = weft_first_index(); index < work.heads * work.rows * work.columns; index += weft_index_step()) {
        const int64_t line = weft_quotient(index, work.columns), column = index - line * work.columns;
        const int64_t head = weft_quotient(line, work.rows), row = line - head * work.rows;
        float *to = work.to + head * work.to_step + row * work.to_row + column;
        const float value = weft_load_as(0.0f, work.type, work.from, index);
        *to = work.adds ? *to + value : value;
    }
}

enum { FOUR = 4 };

/* A thread takes four numbers at once. A warp's results follow each other in memory: with eight numbers each of its stores would
 * write half of all sectors. */
template <weft_dtype type> __global__ void run_put_fours(const weft_dnn_put work)
{
    typedef weft_element<type> of;
    const int64_t fours = work.columns / FOUR, lines = work.heads * work.rows;
    for (int64_t index = weft_first_index(); index < lines * fours; index += weft_index_step()) {
        const int64_t line = lines == 1 ? 0 : weft_quotient(index, fours), head = lines == 1 ? 0 : weft_quotient(line, work.rows);
        const int64_t place = head * work.to_step + (line - head * work.rows) * work.to_row + (index - line * fours) * FOUR;
        const uint2 from = *(const uint2 *)WEFT_ALIGNED((const char *)work.from + index * 8, 8);
        float4 *to = (float4 *)WEFT_ALIGNED(work.to + place, 16);
        float4 value = { of::load((uint16_t)from.x), of::load((uint16_t)(from.x >> 16)), of::load((uint16_t)from.y),
                         of::load((uint16_t)(from.y >> 16)) };
        if (work.adds) {
            const float4 old = *to;
            value = { old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w };
        }
        *to = value;
    }
}

bool lies_in_fours(const weft_dnn_put &put)
{
    const bool narrow = put.type == WEFT_BF16 || put.type == WEFT_F16;
    return narrow && put.columns % FOUR == 0 && (put.rows == 1 || put.to_row % FOUR == 0) && (put.heads == 1 || put.to_step % FOUR == 0) &&
           (uintptr_t)put.from % 8 == 0 && (uintptr_t)put.to % 16 == 0;
}

}

int weft_dnn_prepare_rows(const weft_dnn_gradients *gradients, void *results, float *log_sums, weft_cuda_queue *queue)
{
    const weft_dnn_sizes &s = gradients->sizes;
    const rows_work work = { (weft_dtype)s.type, gradients->gradient, gradients->statistics, results, log_sums, s.groups * s.shared, s.rows,
                             s.width, s.result_step, s.row_step };
    return weft_launch_warps(run_rows, work.heads * work.rows, queue->stream, work);
}

int weft_dnn_put_values(const weft_dnn_put *put, weft_cuda_queue *queue)
{
    weft_dnn_put work = *put;
    if (work.to_row == work.columns) { /* rows follow each other: one long row, which needs no quotients */
        work.columns *= work.rows;
        work.rows = 1;
    }
    if (work.rows == 1 && work.to_step == work.columns) {
        work.columns *= work.heads;
        work.heads = 1;
    }
    const int64_t count = work.heads * work.rows * work.columns;
    if (!lies_in_fours(work)) {
        return weft_launch(run_put, count, queue->stream, work);
    }
    return weft_launch(work.type == WEFT_F16 ? run_put_fours<WEFT_F16> : run_put_fours<WEFT_BF16>, count / FOUR, queue->stream, work);
}
