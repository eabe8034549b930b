/* Rotary position embedding: a block computes the cosines and sines of some positions and pairs once, for all vectors at these
 * positions: see cpu/rotary.c, whose angles follow from the first of these positions too, and have the same bits. */
#include <math.h>

#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

extern "C" {
#include "codelets/rotary.h"
}

namespace
{

enum { POSITIONS = WEFT_ROTARY_POSITIONS, PAIRS = 64, THREADS = 256, EACH = 4 }; /* EACH: pairs of a thread */

struct rotary_work {
    weft_device_call call;
    int64_t half, positions, first; /* pairs of a vector; vectors one after the other; position of the first */
    int64_t tables, chunks;         /* groups of POSITIONS positions; groups of PAIRS pairs */
    int64_t outer, parts;           /* vectors at each position; groups of them, with a block each */
};

/* Of one table: positions from `begin` on, pairs from `pair` on. */
template <typename T> struct rotary_table {
    T cosine[POSITIONS][PAIRS], sine[POSITIONS][PAIRS];
};

/* By the block's first threads, one for each pair. */
template <typename T> __device__ void fill_table(const rotary_work &work, int64_t begin, int64_t pair, rotary_table<T> *table)
{
    const int own = (int)threadIdx.x;
    if (own >= PAIRS || pair + own >= work.half) {
        return;
    }
    const double theta = work.call.scalars[WEFT_ROTARY_THETA], sign = work.call.scalars[WEFT_ROTARY_SIGN];
    const double frequency = pow(theta, -2.0 * (double)(pair + own) / (double)(2 * work.half));
    const double step_cosine = cos(frequency), step_sine = sin(frequency), angle = (double)begin * frequency;
    double cosine = cos(angle), sine = sin(angle);
    for (int p = 0; p < POSITIONS; p++) {
        table->cosine[p][own] = (T)cosine;
        table->sine[p][own] = (T)(sign * sine);
        const double next = cosine * step_cosine - sine * step_sine;
        sine = sine * step_cosine + cosine * step_sine;
        cosine = next;
    }
}

/* `count` pairs from number `pair` on of vector `outer` at a position of the part. A vector lies in one row: its place is found once. */
template <typename T>
__device__ void rotate(const rotary_work &work, int64_t outer, int64_t position, int64_t pair, int count, const T cosine[], const T sine[])
{
    const weft_device_call &call = work.call;
    const int from = weft_input(call, 0);
    const int64_t vector = (outer * work.positions + position) * 2 * work.half;
    const weft_device_place in = weft_place_of(call, from, vector), out = weft_place_of(call, 0, vector);
    for (int k = 0; k < count; k++) {
        const T a = weft_load_as(T(), call.views[from].dtype, in.memory, in.place + pair + k);
        const T b = weft_load_as(T(), call.views[from].dtype, in.memory, in.place + pair + k + work.half);
        weft_store_from(call.views[0].dtype, out.memory, out.place + pair + k, (T)((T)(a * cosine[k]) - (T)(b * sine[k])));
        weft_store_from(call.views[0].dtype, out.memory, out.place + pair + k + work.half, (T)((T)(b * cosine[k]) + (T)(a * sine[k])));
    }
}

template <typename T> __global__ void run_rotary(const rotary_work work)
{
    __shared__ rotary_table<T> table;
    for (int64_t block = blockIdx.x; block < work.tables * work.chunks * work.parts; block += gridDim.x) {
        const int64_t part = block / (work.tables * work.chunks), rest = block - part * work.tables * work.chunks;
        const int64_t pair = rest / work.tables * PAIRS, begin = (work.first / POSITIONS + rest % work.tables) * POSITIONS;
        const int64_t from = work.outer * part / work.parts, vectors = work.outer * (part + 1) / work.parts - from;
        const int64_t pairs = work.half - pair < PAIRS ? work.half - pair : (int64_t)PAIRS;
        fill_table(work, begin, pair, &table);
        __syncthreads();
        const int64_t groups = (pairs + EACH - 1) / EACH;
        for (int64_t i = threadIdx.x; i < vectors * POSITIONS * groups; i += THREADS) {
            const int64_t vector = weft_quotient(i, POSITIONS * groups);
            const int inside = (int)(i - vector * POSITIONS * groups), p = inside / (int)groups, own = (inside - p * (int)groups) * EACH;
            const int64_t position = begin - work.first + p;
            if (position >= 0 && position < work.positions) {
                rotate(work, from + vector, position, pair + own, (int)pairs - own < EACH ? (int)pairs - own : (int)EACH,
                       table.cosine[p] + own, table.sine[p] + own);
            }
        }
        __syncthreads(); /* before the next table */
    }
}

}

int weft_cuda_rotary(const weft_task_run *run, weft_cuda_queue *queue)
{
    rotary_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    const weft_device_view &out = work.call.views[0];
    const int dim = out.ndim - 2;
    if (failed != 0 || out.count == 0) {
        return failed;
    }
    const int fast = queue->fast ? weft_fast_rotary(&work.call, queue) : WEFT_NOT_FAST;
    if (fast != WEFT_NOT_FAST) {
        return fast;
    }
    work.half = out.extent[dim + 1] / 2;
    work.positions = out.extent[dim];
    work.first = (int64_t)work.call.scalars[WEFT_ROTARY_FIRST] + out.offset[dim];
    work.tables = (work.first + work.positions - 1) / POSITIONS - work.first / POSITIONS + 1;
    work.chunks = (work.half + PAIRS - 1) / PAIRS;
    work.outer = out.count / (2 * work.half * work.positions);
    /* Some thousand blocks, if there are as many vectors for each: few compute the same table. */
    const int64_t tables = work.tables * work.chunks, wanted = (2048 + tables - 1) / tables, most = 1 << 20;
    work.parts = work.outer < wanted ? work.outer : wanted;
    const int64_t blocks = tables * work.parts;
    return weft_launch_blocks(out.dtype == WEFT_F64 ? run_rotary<double> : run_rotary<float>, (unsigned)(blocks < most ? blocks : most),
                              THREADS, queue->stream, work);
}
