/* weft's own kernels before and after cuDNN's gradients of attention. */
#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fast_lines.cuh"

extern "C" {
#include "codelets/attention.h"
}

namespace
{

/* ---- rows of a given product --------------------------------------------------------------------------- */

enum { PARTS = 3, MAGNITUDE = 0x7fff };

struct rows_work {
    const uint16_t *gradient;
    const float *statistics;
    uint16_t *results;
    float *log_sums;
    int64_t heads, rows, width, gradient_step, row_step;
    int team; /* of threads that have a row, a pack each */
};

template <weft_dtype type> __device__ uint32_t infinity_of()
{
    return type == WEFT_F16 ? 0x7c00 : 0x7f80;
}

/* A number and its column, as an integer: of two the one of the larger magnitude is larger, of equal ones the first. 0 and NaN are
 * none: 0. */
template <weft_dtype type> __device__ uint32_t key_of(uint16_t number, int column)
{
    const uint32_t magnitude = number & MAGNITUDE, sign = number >> 15;
    return magnitude == 0 || magnitude > infinity_of<type>() ? 0 : magnitude << 16 | (uint32_t)(MAGNITUDE - column) << 1 | sign;
}

static __device__ inline uint16_t number_of(uint32_t key)
{
    return (uint16_t)(key >> 16 | key << 15);
}

/* A row whose dot product with the gradient's is `rest`, as well as so many numbers of 16 bits can: quotients by the largest elements
 * of the gradient, the second for what rounding the first has left. A row that ends early goes on with keys of 0, as the team's warp
 * has other rows. */
template <weft_dtype type, int width>
__device__ void divide_row(weft_team &team, float rest, uint32_t (&keys)[width], uint16_t (&result)[width])
{
    typedef weft_element<type> of;
    for (int part = 0; part < PARTS; part++) {
        uint32_t most = 0;
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            most = keys[j] > most ? keys[j] : most;
        }
        most = team.reduce(most, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
        const float factor = of::load(number_of(most));
        uint16_t quotient = of::store(rest / factor);
        if ((quotient & MAGNITUDE) == infinity_of<type>() && !isinf(rest)) { /* the next column takes what is left */
            quotient--;                                                      /* the largest number */
        }
        rest -= factor * of::load(quotient);
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            const bool found = most != 0 && keys[j] == most;
            result[j] = found ? quotient : result[j];
            keys[j] = found ? 0 : keys[j];
        }
    }
}

/* A team for each row. */
template <weft_dtype type> __global__ void run_rows(const rows_work work)
{
    enum { WIDTH = weft_element<type>::width };
    weft_team team(work.team);
    const int first = team.rank * WIDTH;
    const int64_t lines = work.heads * work.rows;
    for (int64_t start = weft_first_of_block(team.size); start < lines; start += weft_lines_step(team.size)) {
        const int64_t line = start + threadIdx.x / team.size, head = weft_quotient(line, work.rows), row = line - head * work.rows;
        const float *statistics = work.statistics + head * work.row_step + row * WEFT_ATTENTION_STATISTICS;
        weft_fast_line<type> from, to; /* of no elements after the last row */
        float rest = 0;
        if (line < lines) {
            from = weft_fast_line<type>((void *)(work.gradient + head * work.gradient_step + row * work.width), (int)work.width);
            to = weft_fast_line<type>(work.results + line * work.width, (int)work.width);
            rest = statistics[WEFT_ATTENTION_PRODUCT];
        }
        if (line < lines && team.rank == 0) {
            work.log_sums[line] = statistics[WEFT_ATTENTION_LOG_SUM];
        }
        const weft_pack<type> values = from.load(first);
        weft_pack<type> results = {};
        uint32_t keys[WIDTH];
        uint16_t result[WIDTH] = {};
WEFT_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            keys[j] = key_of<type>(values.at(j), first + j);
        }
        divide_row<type, WIDTH>(team, rest, keys, result);
WEFT_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            results.put(j, result[j]);
        }
        to.store(first, results);
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
    const weft_dtype type = (weft_dtype)s.type;
    const rows_work work = { (const uint16_t *)gradients->gradient, gradients->statistics, (uint16_t *)results, log_sums,
                             s.groups * s.shared, s.rows, s.width, s.result_step, s.row_step,
                             weft_team_for(weft_in_packs(s.width, type), 1, WEFT_WARP) };
    return weft_launch_teams(type == WEFT_F16 ? run_rows<WEFT_F16> : run_rows<WEFT_BF16>, work.heads * work.rows, work.team, queue->stream,
                             work);
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
