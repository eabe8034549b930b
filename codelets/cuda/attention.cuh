/* Shared by attention and its gradients: a block of threads computes the scores of some rows and some keys in shared
 * memory, a tile, as products of 32 columns at a time. */
#ifndef WEFT_CODELETS_CUDA_ATTENTION_CUH
#define WEFT_CODELETS_CUDA_ATTENTION_CUH

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/attention.h"
}

namespace attention
{

/* Rows and keys of a tile; columns of q, k and v in shared memory at once; columns of a result that a block computes, one
 * for each thread. */
enum { ROWS = 16, KEYS = 32, DEPTH = 32, COLUMNS = 128, THREADS = 128, SCORES = ROWS * KEYS / THREADS };

/* The numbers of views among the call's; -1: there is none. Rows and keys: `first_` global. Kernels take the call as a
 * __grid_constant__: its address is taken, for which each thread would have a copy of these 4 KB. */
struct job {
    const weft_device_call &call;
    int gradient, q, k, v, statistics, mask;
    int batch_dims;
    bool causal;
    int64_t parts, first_row, rows, first_key, keys;
    int64_t depth, width; /* e, f */
    int64_t index[WEFT_MAX_DIMS]; /* global, in the output's batch */
};

template <typename T> struct tile {
    T a[ROWS][DEPTH + 1], b[KEYS][DEPTH + 1]; /* one more: threads of a warp read different banks */
    T scores[ROWS][KEYS], slopes[ROWS][KEYS];
    T factor[ROWS];
    double most[ROWS], sum[ROWS];
    weft_device_place at[KEYS]; /* rows of the matrix that is added up */
    weft_device_place a_at[ROWS], b_at[KEYS]; /* of those that are multiplied */
};

/* What the host needs to know to launch: sizes without the batch's index. */
static __host__ __device__ inline job job_of(const weft_device_call &call, bool backward, bool has_v)
{
    int next = call.num_outputs;
    job j = { call, -1, -1, -1, -1, -1, -1, call.views[0].ndim - 2, call.numbers[WEFT_ATTENTION_CAUSAL] != 0,
              call.numbers[WEFT_ATTENTION_PARTS], 0, 0, 0, 0, 0, 0, { 0 } };
    j.gradient = backward ? next++ : -1;
    j.q = next++;
    j.k = next++;
    j.v = has_v ? next++ : -1;
    j.statistics = backward ? next++ : -1;
    j.mask = (j.parts & WEFT_ATTENTION_HAS_MASK) != 0 ? next : -1;
    const weft_device_view &q = call.views[j.q], &k = call.views[j.k];
    bool counts = (j.parts & WEFT_ATTENTION_COUNTS) != 0;
    j.first_row = q.offset[q.ndim - 2];
    j.rows = counts ? call.numbers[WEFT_ATTENTION_ROWS] : q.extent[q.ndim - 2];
    j.first_key = k.offset[k.ndim - 2];
    j.keys = counts ? call.numbers[WEFT_ATTENTION_KEYS] : k.extent[k.ndim - 2];
    j.depth = q.extent[q.ndim - 1];
    j.width = has_v ? call.views[j.v].extent[call.views[j.v].ndim - 1] : 0;
    return j;
}

static __host__ __device__ inline bool has_v(const weft_device_call &call, bool state)
{
    return !state || (call.numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_V) != 0;
}

/* Columns of the gradients of k and v: of one that is not wanted, none. */
struct columns {
    int64_t k, v;
};

static __host__ __device__ inline columns columns_of(const job &j)
{
    const bool all = j.call.num_outputs == 3;
    columns c = { all || (j.parts & WEFT_ATTENTION_HAS_K_GRADIENT) != 0 ? j.depth : 0,
                  all || (j.parts & WEFT_ATTENTION_HAS_V_GRADIENT) != 0 ? j.width : 0 };
    return c;
}

/* Indices of the dimensions before the last two. */
static __host__ __device__ inline int64_t batches_of(const job &j)
{
    int64_t count = 1;
    for (int d = 0; d < j.batch_dims; d++) {
        count *= j.call.views[0].extent[d];
    }
    return count;
}

static __host__ __device__ inline int64_t pieces_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static __device__ inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static __device__ inline void set_batch(job &j, int64_t number)
{
    const weft_device_view &output = j.call.views[0];
    for (int d = j.batch_dims - 1; d >= 0; d--) {
        j.index[d] = output.offset[d] + number % output.extent[d];
        number /= output.extent[d];
    }
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* The frequent types without a call for each element. */
template <typename T> __device__ T load(weft_dtype type, const weft_device_place &row, int64_t column)
{
    if (sizeof(T) == sizeof(float) && type == WEFT_F32) {
        return (T)((const float *)row.memory)[row.place + column];
    }
    if (sizeof(T) == sizeof(float) && type == WEFT_BF16) {
        return (T)bf16_to_f32(((const uint16_t *)row.memory)[row.place + column]);
    }
    return weft_load_as(T(), type, row.memory, row.place + column);
}

/* a b + c. Rounded once on a GPU: sums of products have no bits in common with a CPU's anyway. */
template <typename T> __device__ T multiply_add(T a, T b, T c)
{
#ifdef __CUDACC__
    return fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* A row (local, of the last dimension but one) of a view for the current index of the batch. */
static __device__ inline weft_device_place row_of(const job &j, int k, int64_t row)
{
    const weft_device_view &view = j.call.views[k], &output = j.call.views[0];
    const int dims = view.ndim - 2;
    int64_t first = dims == 0 ? row : 0, place = dims == 0 ? 0 : row * view.strides[dims];
    for (int d = 0; d < dims; d++) {
        int own = j.batch_dims - dims + d;
        int64_t local = view.shape[d] == 1 && output.shape[own] != 1 ? 0 : j.index[own] - view.offset[d];
        first = d == 0 ? local : first;
        place += d == 0 ? 0 : local * view.strides[d];
    }
    weft_device_place at = { weft_row_at(j.call, k, first), place };
    return at;
}

template <typename T> __device__ T get(const job &j, int k, int64_t row, int64_t column)
{
    weft_device_place at = row_of(j, k, row);
    return weft_load_as(T(), j.call.views[k].dtype, at.memory, at.place + column);
}

/* Whether the mask broadcasts along dimension `d`, which is that of q or k at the end. */
static __device__ inline bool mask_repeats(const job &j, int d, int side)
{
    const weft_device_view &view = j.call.views[side];
    return j.call.views[j.mask].shape[d] == 1 && view.shape[view.ndim - 2] != 1;
}

/* The mask's addend for a row and a key (global). */
template <typename T> __device__ T mask_at(const job &j, int64_t row, int64_t key)
{
    const weft_device_view &mask = j.call.views[j.mask];
    const int last = mask.ndim - 1;
    int64_t local = last < 0 || mask_repeats(j, last, j.k) ? 0 : key - mask.offset[last];
    weft_device_place at;
    if (last < 1) {
        at.memory = weft_row_at(j.call, j.mask, local);
        at.place = 0;
    } else {
        at = row_of(j, j.mask, mask_repeats(j, last - 1, j.q) ? 0 : row - mask.offset[last - 1]);
        at.place += local;
    }
    T value = weft_load_as(T(), mask.dtype, at.memory, at.place);
    return mask.dtype != WEFT_BOOL ? value : value != 0 ? (T)0 : (T)-INFINITY;
}

/* Keys among first .. first + count - 1 (local) that a row (local) sees. */
static __device__ inline int64_t visible(const job &j, int64_t row, int64_t first, int64_t count)
{
    int64_t distance = j.first_row + row - (j.first_key + first);
    return !j.causal || distance >= count ? count : distance < 0 ? 0 : distance + 1;
}

/* The first row (local) that sees a key from `key` (local) on. */
static __device__ inline int64_t first_seeing(const job &j, int64_t key)
{
    int64_t first = j.first_key + key - j.first_row;
    return !j.causal || first < 0 ? 0 : first;
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* Columns of `count` rows of a view, which begin `at` these places; after the end, zeros. A warp copies a row. */
template <typename T, int rows>
__device__ void copy_in(T (&to)[rows][DEPTH + 1], weft_dtype type, const weft_device_place (&at)[rows], int64_t count, int64_t column,
                        int64_t columns)
{
    const int64_t own = column + threadIdx.x % DEPTH;
    WEFT_UNROLL
    for (int row = (int)threadIdx.x / DEPTH; row < rows; row += THREADS / DEPTH) {
        to[row][threadIdx.x % DEPTH] = row < count && own < columns ? load<T>(type, at[row], own) : (T)0;
    }
}

/* This thread's products: of row threadIdx.x / 8, and of every eighth key from threadIdx.x % 8 on. */
template <typename T>
__device__ void multiply(const job &j, tile<T> &t, int a, int64_t row, int64_t rows, int b, int64_t key, int64_t keys,
                         int64_t columns, T products[SCORES])
{
    const int own = threadIdx.x / (KEYS / SCORES), other = threadIdx.x % (KEYS / SCORES), key_place = (int)threadIdx.x - THREADS / 2;
    for (int x = 0; x < SCORES; x++) {
        products[x] = 0;
    }
    if ((int)threadIdx.x < rows) {
        t.a_at[threadIdx.x] = row_of(j, a, row + threadIdx.x);
    } else if (key_place >= 0 && key_place < keys) {
        t.b_at[key_place] = row_of(j, b, key + key_place);
    }
    for (int64_t column = 0; column < columns; column += DEPTH) {
        __syncthreads(); /* the former columns have been read, and the places written */
        copy_in(t.a, j.call.views[a].dtype, t.a_at, rows, column, columns);
        copy_in(t.b, j.call.views[b].dtype, t.b_at, keys, column, columns);
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            for (int x = 0; x < SCORES; x++) {
                products[x] = multiply_add(t.a[own][d], t.b[other + x * (KEYS / SCORES)][d], products[x]);
            }
        }
    }
}

/* The tile's scores, masked: of keys that are not seen or not there, -infinity. Rows and keys local. To be read after a
 * barrier. */
template <typename T>
__device__ void set_scores(const job &j, tile<T> &t, int64_t row, int64_t rows, int64_t key, int64_t keys)
{
    const T scale = (T)j.call.scalars[0];
    const int64_t own = threadIdx.x / (KEYS / SCORES);
    T products[SCORES];
    multiply(j, t, j.q, row, rows, j.k, key, keys, j.depth, products);
    int64_t seen = own < rows ? visible(j, row + own, key, keys) : 0;
    for (int x = 0; x < SCORES; x++) {
        int64_t other = threadIdx.x % (KEYS / SCORES) + x * (KEYS / SCORES);
        T score = scale * products[x];
        if (j.mask >= 0 && other < seen) {
            score += mask_at<T>(j, j.first_row + row + own, j.first_key + key + other);
        }
        t.scores[own][other] = other < seen ? score : (T)-INFINITY;
    }
}

/* Where `count` rows of view k from `first` on begin. To be read after a barrier. */
template <typename T> __device__ void find_rows(const job &j, tile<T> &t, int k, int64_t first, int64_t count)
{
    if ((int64_t)threadIdx.x < count) {
        t.at[threadIdx.x] = row_of(j, k, first + threadIdx.x);
    }
}

/* Blocks of threads, at most so many at once. */
template <typename Kernel> int launch(Kernel kernel, int64_t blocks, const weft_device_call &call, weft_cuda_queue *queue)
{
    const int64_t most = 1 << 16;
    return blocks == 0 ? 0
                       : weft_launch_blocks(kernel, (unsigned)(blocks < most ? blocks : most), (unsigned)THREADS, queue->stream, call);
}

/* ---- states -------------------------------------------------------------------------------------------- */

/* As factor_of() of cpu/attention.c. */
static __device__ inline double factor_of(double most, double now, double sum)
{
    return most == -INFINITY ? (sum != sum ? sum : 0) : weft_exp_f64(most - now);
}

static __device__ inline double log_sum_of(double sum, double most)
{
    return sum == 0 ? INFINITY : most + log(sum);
}

/* From the row's state, rounded as one that is stored. */
template <typename T> __device__ void store_log_sum(const job &j, int64_t row, double sum, double most)
{
    const weft_device_view &view = j.call.views[1];
    int64_t place = j.batch_dims == 0 ? 0 : row, first = j.batch_dims == 0 ? row : j.index[0] - view.offset[0];
    for (int d = 1; d < j.batch_dims; d++) {
        place += (j.index[d] - view.offset[d]) * view.strides[d];
    }
    sum = (T)sum;
    most = (T)most;
    sum *= factor_of(most, most, sum);
    weft_store_from(view.dtype, weft_row_at(j.call, 1, first), place, (T)log_sum_of(sum, most));
}

/* The sum of weights and the largest score of `count` states of `columns` values each. */
template <typename T>
__device__ void combine(weft_dtype type, const weft_device_place &states, int64_t count, int64_t columns, double *sum, double *most)
{
    auto value = [&](int64_t state, int64_t which) {
        return (double)weft_load_as(T(), type, states.memory, states.place + (state + 1) * columns - WEFT_ATTENTION_STATE + which);
    };
    *sum = 0;
    *most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        *most = fmax(*most, value(i, WEFT_ATTENTION_LARGEST));
    }
    for (int64_t i = 0; i < count; i++) {
        double own = value(i, WEFT_ATTENTION_SUM);
        *sum += factor_of(value(i, WEFT_ATTENTION_LARGEST), *most, own) * own;
    }
}

}

#endif
