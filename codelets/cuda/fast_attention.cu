/* Attention in fast mode, with arithmetic in single precision: see fast_attention.cuh and attention.cu. */
#include "codelets/cuda/fast_attention.cuh"

namespace
{

using namespace attention;

/* Sums of weighted values, the largest score and the sum of weights so far of the thread's own rows. The last is the thread's part of
 * it: the team's parts are added at the end. */
template <int groups> struct state {
    products sums[groups];
    float most[OWN], sum[OWN];
};

/* Combines the values of the threads that share these rows. */
template <typename Operation> __device__ float in_team(float value, Operation operation)
{
WEFT_UNROLL
    for (int step = TEAM / 2; step > 0; step /= 2) {
        value = operation(value, __shfl_sync(~0u, value, weft_warp_thread() ^ step));
    }
    return value;
}

template <int groups> __device__ void start_rows(const job &j, const square &t, int rows, state<groups> &s)
{
    const bool continues = (j.parts & WEFT_ATTENTION_CONTINUES) != 0;
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        const bool loads = continues && first_own() + i < rows;
        const float *from = loads ? (const float *)t.own_at[1][first_own() + i] : NULL;
        s.most[i] = loads ? from[j.width + WEFT_ATTENTION_LARGEST] : -INFINITY;
        s.sum[i] = loads && threadIdx.x % TEAM == 0 ? from[j.width + WEFT_ATTENTION_SUM] : 0.0f;
WEFT_UNROLL
        for (int g = 0; g < groups; g++) {
WEFT_UNROLL
            for (int x = 0; x < OTHERS; x++) {
                s.sums[g][i][x] = loads && column_of(g, x) < j.width ? from[column_of(g, x)] : 0.0f;
            }
        }
    }
}

/* Scores become weights; the sums so far are rescaled for a new largest score. NaN is no largest score, but its weight is NaN. */
template <int groups> __device__ void take_scores(products &scores, state<groups> &s)
{
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        float now = -INFINITY;
WEFT_UNROLL
        for (int x = 0; x < OTHERS; x++) {
            now = fmaxf(now, scores[i][x]);
        }
        now = fmaxf(s.most[i], in_team(now, [](float a, float b) { return fmaxf(a, b); }));
        const float factor = s.most[i] == -INFINITY ? 0.0f : weft_fast_exp(s.most[i] - now), base = now == -INFINITY ? 0.0f : now;
        s.most[i] = now;
        s.sum[i] *= factor;
WEFT_UNROLL
        for (int x = 0; x < OTHERS; x++) {
            scores[i][x] = weft_fast_exp(scores[i][x] - base);
            s.sum[i] += scores[i][x];
        }
WEFT_UNROLL
        for (int g = 0; g < groups; g++) {
WEFT_UNROLL
            for (int x = 0; x < OTHERS; x++) {
                s.sums[g][i][x] *= factor;
            }
        }
    }
}

template <int groups, bool masked>
__device__ void take_keys(const job &j, square &t, int64_t row, int rows, int64_t key, int keys, state<groups> &s)
{
    const window w = window_of(j, row, rows, key, keys);
    products scores;
    if (masked) {
        __syncthreads(); /* the former mask has been read */
        find_mask(j, t, w, row, key);
    }
    find_lines(j, t, t.others_at, j.k, j.width > 0 ? j.v : -1, key, keys);
    multiply_lines(t, lines_of(j, j.q, t.own_at[0], rows, j.depth), lines_of(j, j.k, t.others_at[0], keys, j.depth),
                   key > 0 && j.depth <= HELD * CHUNK, scores);
    scale_scores<masked, true>(j, t, w, scores);
    take_scores(scores, s);
    if (j.width > 0) {
        put_weights(t, scores);
        add_lines<groups>(t, lines_of(j, j.v, t.others_at[1], keys, j.width), s.sums);
    }
}

template <weft_dtype type, int groups> __device__ void store_sums(const job &j, const square &t, int rows, const state<groups> &s, const float factors[OWN])
{
    typedef weft_element<type> of;
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        if (first_own() + i < rows) {
            typename of::element *to = (typename of::element *)t.own_at[1][first_own() + i];
WEFT_UNROLL
            for (int g = 0; g < groups; g++) {
WEFT_UNROLL
                for (int x = 0; x < OTHERS; x++) {
                    if (column_of(g, x) < j.width) {
                        to[column_of(g, x)] = of::store(s.sums[g][i][x] * factors[i]);
                    }
                }
            }
        }
    }
}

/* The largest scores and the sums of weights: of a state, or the logarithms of what they stand for. */
template <bool as_state> __device__ void store_terms(const job &j, const square &t, int64_t row, int rows)
{
    const int own = (int)threadIdx.x;
    if (own < rows) {
        const float most = t.terms[WEFT_ATTENTION_LARGEST][own], sum = t.terms[WEFT_ATTENTION_SUM][own];
        if (as_state) {
            float *to = (float *)t.own_at[1][own] + j.width;
            to[WEFT_ATTENTION_SUM] = sum;
            to[WEFT_ATTENTION_LARGEST] = most;
        } else if (j.call.num_outputs > 1) {
            store_log_sum<float>(j, row + own, (double)sum, (double)most);
        }
    }
}

template <int groups, bool as_state> __device__ void store_rows(const job &j, square &t, int64_t row, int rows, const state<groups> &s)
{
    float factors[OWN];
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        const float sum = in_team(s.sum[i], [](float a, float b) { return a + b; });
        factors[i] = as_state ? 1.0f : sum == 0 ? 0.0f : 1 / sum;
        if (threadIdx.x % TEAM == 0) {
            t.terms[WEFT_ATTENTION_LARGEST][first_own() + i] = s.most[i];
            t.terms[WEFT_ATTENTION_SUM][first_own() + i] = sum;
        }
    }
    switch (j.call.views[0].dtype) {
    case WEFT_BF16:
        store_sums<WEFT_BF16, groups>(j, t, rows, s, factors);
        break;
    case WEFT_F16:
        store_sums<WEFT_F16, groups>(j, t, rows, s, factors);
        break;
    default:
        store_sums<WEFT_F32, groups>(j, t, rows, s, factors);
    }
    __syncthreads();
    store_terms<as_state>(j, t, row, rows);
}

template <int groups, bool masked, bool as_state>
__global__ void WEFT_THREADS_AT_MOST(THREADS, groups == 1 ? 4 : 3) run_fast_attention(const __grid_constant__ weft_device_call call)
{
    __shared__ square t;
    job j = job_of(call, false, has_v(call, as_state));
    const int64_t tiles = pieces_of(j.rows, SIDE);
    for (int64_t block = blockIdx.x; block < batches_of(j) * tiles; block += gridDim.x) {
        int64_t batch;
        const int64_t row = (tiles - 1 - tile_of_block(j, block, tiles, &batch)) * SIDE; /* the last rows see the most keys */
        const int rows = (int)least(SIDE, j.rows - row);
        state<groups> s;
        set_batch(j, batch);
        __syncthreads(); /* the former rows have been stored */
        find_matrices(j, t);
        __syncthreads();
        find_lines(j, t, t.own_at, j.q, 0, row, rows);
        __syncthreads();
        start_rows(j, t, rows, s);
        const int64_t keys = visible(j, row + rows - 1, 0, j.keys);
        for (int64_t key = 0; key < keys; key += SIDE) {
            take_keys<groups, masked>(j, t, row, rows, key, (int)least(SIDE, keys - key), s);
        }
        store_rows<groups, as_state>(j, t, row, rows, s);
    }
}

template <int groups, bool as_state> auto kernel_of(bool masked)
{
    return masked ? run_fast_attention<groups, true, as_state> : run_fast_attention<groups, false, as_state>;
}

}

int weft_fast_attention(const weft_device_call *call, bool as_state, weft_cuda_queue *queue)
{
    const job j = job_of(*call, false, has_v(*call, as_state));
    if (!knows_types(j) || (as_state && call->views[0].dtype != WEFT_F32) || j.rows <= FEW_ROWS || j.depth == 0 || j.width > MOST_COLUMNS) {
        return WEFT_NOT_FAST;
    }
    const bool wide = j.width > SIDE, masked = j.mask >= 0;
    auto kernel = as_state ? (wide ? kernel_of<2, true>(masked) : kernel_of<1, true>(masked))
                           : (wide ? kernel_of<2, false>(masked) : kernel_of<1, false>(masked));
    return launch(kernel, batches_of(j) * pieces_of(j.rows, SIDE), *call, queue);
}
