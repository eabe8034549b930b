/* Gradients of attention in fast mode, with arithmetic in single precision: see fast_attention.cuh and attention_backward.cu. */
#include "codelets/cuda/fast_attention.cuh"

namespace
{

using namespace attention;

/* Statistics of a square's rows. To be read after a barrier. */
__device__ void find_terms(const job &j, square &t, int64_t row, int rows)
{
    const int own = (int)threadIdx.x;
    if (own < rows) {
        const float *from = (const float *)line_at(j, t, j.statistics, row + own);
        t.terms[WEFT_ATTENTION_LOG_SUM][own] = from[WEFT_ATTENTION_LOG_SUM];
        t.terms[WEFT_ATTENTION_PRODUCT][own] = from[WEFT_ATTENTION_PRODUCT];
    }
}

/* Scores become weights. Rows that are not there have none, and weights 0. */
template <bool of_rows> __device__ void weigh(const square &t, const window &w, products &scores)
{
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
WEFT_UNROLL
        for (int x = 0; x < OTHERS; x++) {
            const int own = first_own() + i, other = other_line(x), row = of_rows ? own : other, key = of_rows ? other : own;
            scores[i][x] = w.has(row, key) ? weft_fast_exp(scores[i][x] - t.terms[WEFT_ATTENTION_LOG_SUM][row]) : 0.0f;
        }
    }
}

/* Products of gradients and values become gradients of scores. The thread's weights are those that it has put: registers that would hold
 * them over the products are too many. */
template <bool of_rows> __device__ void find_slopes(const square &t, const window &w, products &slopes)
{
WEFT_UNROLL
    for (int x = 0; x < OTHERS; x++) {
        const float4 *from = (const float4 *)&t.weights[other_line(x)][first_own()], low = from[0], high = from[1];
        const float weights[OWN] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
WEFT_UNROLL
        for (int i = 0; i < OWN; i++) {
            const int own = first_own() + i, other = other_line(x), row = of_rows ? own : other, key = of_rows ? other : own;
            slopes[i][x] = w.has(row, key) ? weights[i] * (slopes[i][x] - t.terms[WEFT_ATTENTION_PRODUCT][row]) : 0.0f;
        }
    }
}

/* Adds to lines of an output, or sets them: `columns` of them from `begin` on. */
template <int groups>
__device__ void put_sums(const job &j, char *const at[SIDE], int count, int64_t begin, int64_t columns, float factor, const products (&sums)[groups])
{
    const bool continues = (j.parts & WEFT_ATTENTION_CONTINUES) != 0;
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        if (first_own() + i < count) {
            float *to = (float *)at[first_own() + i] + begin;
WEFT_UNROLL
            for (int g = 0; g < groups; g++) {
WEFT_UNROLL
                for (int x = 0; x < OTHERS; x++) {
                    const int column = column_of(g, x);
                    if (column < columns) {
                        to[column] = (continues ? to[column] : 0.0f) + factor * sums[g][i][x];
                    }
                }
            }
        }
    }
}

template <int groups> __device__ void clear_all(products (&sums)[groups])
{
WEFT_UNROLL
    for (int g = 0; g < groups; g++) {
        clear(sums[g]);
    }
}

/* ---- the gradient of q --------------------------------------------------------------------------------- */

template <int groups, bool masked>
__device__ void add_keys(const job &j, square &t, int64_t row, int rows, int64_t key, int keys, products (&sums)[groups])
{
    const window w = window_of(j, row, rows, key, keys);
    products scores;
    if (masked) {
        find_mask(j, t, w, row, key);
    }
    find_lines(j, t, t.others_at, j.k, j.v, key, keys);
    multiply_lines(t, lines_of(j, j.q, t.own_at[0], rows, j.depth), lines_of(j, j.k, t.others_at[0], keys, j.depth), false, scores);
    scale_scores<masked, true>(j, t, w, scores);
    weigh<true>(t, w, scores);
    put_weights(t, scores);
    multiply_lines(t, lines_of(j, j.gradient, t.own_at[1], rows, j.width), lines_of(j, j.v, t.others_at[1], keys, j.width), false, scores);
    find_slopes<true>(t, w, scores);
    put_weights(t, scores);
    add_lines<groups>(t, lines_of(j, j.k, t.others_at[0], keys, j.depth), sums);
}

template <int groups, bool masked>
__global__ void WEFT_THREADS_AT_MOST(THREADS, groups == 1 ? 4 : 3) run_fast_rows(const __grid_constant__ weft_device_call call)
{
    __shared__ square t;
    job j = job_of(call, true, true);
    const int64_t tiles = pieces_of(j.rows, SIDE);
    for (int64_t block = blockIdx.x; block < batches_of(j) * tiles; block += gridDim.x) {
        int64_t batch;
        const int64_t row = (tiles - 1 - tile_of_block(j, block, tiles, &batch)) * SIDE; /* the last rows see the most keys */
        const int rows = (int)least(SIDE, j.rows - row);
        products sums[groups];
        clear_all(sums);
        set_batch(j, batch);
        __syncthreads(); /* the former rows have been stored */
        find_matrices(j, t);
        __syncthreads();
        find_lines(j, t, t.own_at, j.q, j.gradient, row, rows);
        find_terms(j, t, row, rows);
        const int64_t seen = visible(j, row + rows - 1, 0, j.keys);
        for (int64_t key = 0; key < seen; key += SIDE) {
            add_keys<groups, masked>(j, t, row, rows, key, (int)least(SIDE, seen - key), sums);
        }
        __syncthreads();
        find_lines(j, t, t.own_at, 0, -1, row, rows);
        __syncthreads();
        put_sums<groups>(j, t.own_at[0], rows, 0, j.depth, (float)call.scalars[0], sums);
    }
}

/* ---- the gradients of k and v -------------------------------------------------------------------------- */

template <int groups> struct key_sums {
    products k[groups], v[groups];
};

template <int groups, bool masked>
__device__ void add_rows(const job &j, square &t, const columns &wanted, int64_t row, int rows, int64_t key, int keys, key_sums<groups> &sums)
{
    const window w = window_of(j, row, rows, key, keys);
    products scores;
    if (masked) {
        find_mask(j, t, w, row, key);
    }
    find_lines(j, t, t.others_at, j.q, j.gradient, row, rows);
    find_terms(j, t, row, rows);
    multiply_lines(t, lines_of(j, j.k, t.own_at[0], keys, j.depth), lines_of(j, j.q, t.others_at[0], rows, j.depth), false, scores);
    scale_scores<masked, false>(j, t, w, scores);
    weigh<false>(t, w, scores);
    put_weights(t, scores);
    const lines gradients = lines_of(j, j.gradient, t.others_at[1], rows, j.width);
    if (wanted.v > 0) {
        add_lines<groups>(t, gradients, sums.v);
    }
    if (wanted.k > 0) {
        multiply_lines(t, lines_of(j, j.v, t.own_at[1], keys, j.width), gradients, false, scores);
        find_slopes<false>(t, w, scores);
        put_weights(t, scores);
        add_lines<groups>(t, lines_of(j, j.q, t.others_at[0], rows, j.depth), sums.k);
    }
}

template <int groups>
__device__ void store_keys(const job &j, square &t, const columns &wanted, int64_t key, int keys, const key_sums<groups> &sums)
{
    const bool apart = j.call.num_outputs == 3; /* else side by side */
    __syncthreads();
    find_lines(j, t, t.own_at, apart ? 1 : 0, apart ? 2 : 0, key, keys);
    __syncthreads();
    put_sums<groups>(j, t.own_at[0], keys, 0, wanted.k, (float)j.call.scalars[0], sums.k);
    put_sums<groups>(j, t.own_at[1], keys, apart ? 0 : wanted.k, wanted.v, 1, sums.v);
}

template <int groups, bool masked>
__global__ void WEFT_THREADS_AT_MOST(THREADS, groups == 1 ? 4 : 2) run_fast_keys(const __grid_constant__ weft_device_call call)
{
    __shared__ square t;
    job j = job_of(call, true, true);
    const columns wanted = columns_of(j);
    const int64_t tiles = pieces_of(j.keys, SIDE);
    for (int64_t block = blockIdx.x; block < batches_of(j) * tiles; block += gridDim.x) {
        int64_t batch;
        const int64_t key = tile_of_block(j, block, tiles, &batch) * SIDE; /* the first keys are seen by the most rows */
        const int keys = (int)least(SIDE, j.keys - key);
        key_sums<groups> sums;
        clear_all(sums.k);
        clear_all(sums.v);
        set_batch(j, batch);
        __syncthreads(); /* the former keys have been stored */
        find_matrices(j, t);
        __syncthreads();
        find_lines(j, t, t.own_at, j.k, j.v, key, keys);
        for (int64_t row = first_seeing(j, key); row < j.rows; row += SIDE) {
            add_rows<groups, masked>(j, t, wanted, row, (int)least(SIDE, j.rows - row), key, keys, sums);
        }
        store_keys<groups>(j, t, wanted, key, keys, sums);
    }
}

/* In single precision, all outputs among them. */
bool takes(const job &j)
{
    bool is_single = j.call.views[j.statistics].dtype == WEFT_F32;
    for (int k = 0; k < j.call.num_outputs; k++) {
        is_single = is_single && j.call.views[k].dtype == WEFT_F32;
    }
    return is_single && knows_types(j) && j.rows > FEW_ROWS && j.depth > 0 && j.width > 0;
}

}

int weft_fast_attention_rows(const weft_device_call *call, weft_cuda_queue *queue)
{
    const job j = job_of(*call, true, true);
    if (!takes(j) || j.depth > MOST_COLUMNS) {
        return WEFT_NOT_FAST;
    }
    const bool masked = j.mask >= 0;
    return launch(j.depth > SIDE ? (masked ? run_fast_rows<2, true> : run_fast_rows<2, false>)
                                 : (masked ? run_fast_rows<1, true> : run_fast_rows<1, false>),
                  batches_of(j) * pieces_of(j.rows, SIDE), *call, queue);
}

int weft_fast_attention_keys(const weft_device_call *call, weft_cuda_queue *queue)
{
    const job j = job_of(*call, true, true);
    const columns wanted = columns_of(j);
    const int64_t most = wanted.k > wanted.v ? wanted.k : wanted.v;
    if (!takes(j) || most > MOST_COLUMNS) {
        return WEFT_NOT_FAST;
    }
    const bool masked = j.mask >= 0;
    return launch(most > SIDE ? (masked ? run_fast_keys<2, true> : run_fast_keys<2, false>)
                              : (masked ? run_fast_keys<1, true> : run_fast_keys<1, false>),
                  batches_of(j) * pieces_of(j.keys, SIDE), *call, queue);
}
