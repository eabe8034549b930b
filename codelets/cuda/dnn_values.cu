/* What weft computes around cuDNN's gradients of attention. */
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/attention.h"
}

namespace
{

struct products {
    weft_dtype type;
    const float *statistics;
    void *factors, *ones;
    int64_t heads, rows, width, step;
};

/* A number as a sum of `parts` numbers of a 16-bit type; the part of this number. */
static __device__ inline float part_of(weft_dtype type, float value, int64_t part)
{
    float rest = value, own = weft_narrowed(type, value);
    for (int64_t i = 0; i < part; i++) {
        rest -= own;
        own = weft_narrowed(type, rest);
    }
    return own;
}

/* Columns of a row and what they are multiplied by. bfloat16: three parts. binary16, whose range is small: two parts of one of
 * value, value / 2^15, value 2^14. */
static __device__ inline float factor_at(weft_dtype type, float value, int64_t column, float *one)
{
    if (type == WEFT_BF16) {
        *one = column < 3 ? 1.0f : 0.0f;
        return column < 3 ? part_of(type, value, column) : 0.0f;
    }
    const float magnitude = fabsf(value);
    const int64_t set = magnitude >= 0x1p15f ? 1 : magnitude < 0x1p-5f ? 2 : 0;
    const float down = set == 1 ? 0x1p-15f : set == 2 ? 0x1p14f : 1.0f;
    *one = column < 2 ? 1.0f : column < 4 ? 0x1p15f : column < 6 ? 0x1p-14f : 0.0f;
    return column / 2 == set ? part_of(type, value * down, column % 2) : 0.0f;
}

__global__ void run_split(const products work)
{
    for (int64_t index = weft_first_index(); index < work.heads * work.rows * work.width; index += weft_index_step()) {
        const int64_t line = weft_quotient(index, work.width), column = index - line * work.width;
        const int64_t head = weft_quotient(line, work.rows), row = line - head * work.rows;
        const float value = work.statistics[head * work.step + row * WEFT_ATTENTION_STATISTICS + WEFT_ATTENTION_PRODUCT];
        float one, factor = factor_at(work.type, value, column, &one);
        weft_store_from(work.type, work.factors, index, factor);
        weft_store_from(work.type, work.ones, index, one);
    }
}

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

}

int weft_dnn_split_products(const weft_dnn_gradients *gradients, int64_t heads, void *factors, void *ones, weft_cuda_queue *queue)
{
    const weft_dnn_sizes &s = gradients->sizes;
    const products work = { (weft_dtype)s.type, gradients->statistics, factors, ones, heads, s.rows, s.width, s.row_step };
    return weft_launch(run_split, heads * s.rows * s.width, queue->stream, work);
}

int weft_dnn_put_values(const weft_dnn_put *put, weft_cuda_queue *queue)
{
    return weft_launch(run_put, put->heads * put->rows * put->columns, queue->stream, *put);
}
