/* Shared by attention and its gradients in fast mode, with arithmetic in single precision: a block of threads multiplies a square of 64
 * lines by 64 others (rows and keys, or keys and rows), of which each thread has 8 by 4 in registers, from 32 columns at a time in shared
 * memory. What comes of the scores passes through shared memory once, and is multiplied by other lines. Sums of weights while the largest
 * score is not known: Milakov and Gimelshein, Online normalizer calculation for softmax (2018); no matrix of all scores: Dao et al.,
 * FlashAttention (2022). */
#ifndef WEFT_CODELETS_CUDA_FAST_ATTENTION_CUH
#define WEFT_CODELETS_CUDA_FAST_ATTENTION_CUH

#include "codelets/cuda/attention.cuh"
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

namespace attention
{

/* Lines of a side of the square; columns at once; floats from a line of shared memory to the next, so that a warp's addresses lie in
 * different banks and 16 bytes are aligned; threads that have the same own lines; own lines of a thread, and others. */
enum { SIDE = 64, CHUNK = 32, LINE = SIDE + 4, TEAM = 16, OWN = SIDE * TEAM / THREADS, OTHERS = SIDE / TEAM };
/* Chunks of the own lines that can stay in shared memory; columns of a result at most; rows for which a square is wasted. */
enum { HELD = 2, MOST_COLUMNS = 2 * SIDE, FEW_ROWS = 16 };

typedef float products[OWN][OTHERS];

struct square {
    alignas(16) float own[HELD][CHUNK][LINE], others[CHUNK][LINE]; /* columns of the lines, or lines of values */
    alignas(16) float weights[SIDE][LINE];                         /* by the other line, then by the own one */
    float terms[2][SIDE];                                          /* of rows: statistics, or a state's */
    char *own_at[2][SIDE], *others_at[2][SIDE], *mask_at[SIDE];    /* where lines of two matrices begin */
    struct {
        char *at;
        int64_t step;
    } matrices[WEFT_DEVICE_VIEWS]; /* of the index of the batch: where they begin, and bytes from a line to the next; -1: lines in panels */
};

/* The thread's first own line, and its other lines: neighbours' follow each other, so that they write to different banks. */
static __device__ inline int first_own()
{
    return (int)threadIdx.x / TEAM * OWN;
}

static __device__ inline int other_line(int x)
{
    return (int)threadIdx.x % TEAM + x * TEAM;
}

static __device__ inline void clear(products &sums)
{
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
WEFT_UNROLL
        for (int x = 0; x < OTHERS; x++) {
            sums[i][x] = 0;
        }
    }
}

/* ---- lines --------------------------------------------------------------------------------------------- */

static __device__ inline char *address_of(const job &j, int view, int64_t row)
{
    const weft_device_place at = row_of(j, view, row);
    return at.memory + at.place * (int64_t)weft_size_of(j.call.views[view].dtype);
}

/* Finds the matrices of an index of the batch. Between barriers. */
static __device__ inline void find_matrices(const job &j, square &t)
{
    const int view = (int)threadIdx.x, views = j.call.num_outputs + j.call.num_inputs;
    const bool is_log_sums = j.statistics < 0 && view == 1 && j.call.num_outputs > 1;
    if (view < views && view != j.mask && !is_log_sums) {
        const weft_device_view &of = j.call.views[view];
        t.matrices[view].at = of.ndim > 2 && of.count > 0 ? address_of(j, view, 0) : NULL;
        t.matrices[view].step = of.ndim > 2 ? of.strides[of.ndim - 2] * (int64_t)weft_size_of(of.dtype) : -1;
    }
}

static __device__ inline char *line_at(const job &j, const square &t, int view, int64_t line)
{
    const int64_t step = t.matrices[view].step;
    return step >= 0 ? t.matrices[view].at + line * step : weft_row_at(j.call, view, line);
}

/* Where `count` lines of two views (-1: none) from `first` on begin; half of the threads for each. To be read after a barrier. */
static __device__ inline void find_lines(const job &j, const square &t, char *(&at)[2][SIDE], int view, int second, int64_t first, int count)
{
    static_assert(THREADS == 2 * SIDE, "a thread for each line");
    const int which = (int)threadIdx.x / SIDE, line = (int)threadIdx.x % SIDE, own = which == 0 ? view : second;
    if (own >= 0 && line < count) {
        at[which][line] = line_at(j, t, own, first + line);
    }
}

template <weft_dtype type> __device__ float load_element(const typename weft_element<type>::element *at)
{
#ifdef __CUDACC__
    __builtin_assume(__isGlobal(at)); /* which the compiler does not see */
#endif
    return weft_element<type>::load(*at);
}

/* The first `count` lines of a square's side. */
struct lines {
    weft_dtype type;
    char *const *at;
    int count, columns;
};

static __device__ inline lines lines_of(const job &j, int view, char *const *at, int count, int64_t columns)
{
    const lines all = { j.call.views[view].dtype, at, count, (int)columns };
    return all;
}

/* CHUNK columns of all lines from `column` on; zeros where there are none. whole: there are all. A warp takes 8 columns, a sector each, of 4 lines. spread:
 * other lines, in the threads' order. All are loaded before the first is stored, which the compiler could not do itself. */
template <weft_dtype type, bool spread, bool whole> __device__ void fill_columns_of(float (&to)[CHUNK][LINE], const lines &from, int column)
{
    enum { COLUMNS_AT_ONCE = 8, LINES_AT_ONCE = 4, WARPS = THREADS / WEFT_WARP, ROUNDS = TEAM / WARPS, STEPS = CHUNK / COLUMNS_AT_ONCE };
    typedef typename weft_element<type>::element element;
    const int own = (int)threadIdx.x % COLUMNS_AT_ONCE, part = (int)threadIdx.x % WEFT_WARP / COLUMNS_AT_ONCE, warp = (int)threadIdx.x / WEFT_WARP;
    float values[ROUNDS][STEPS];
WEFT_UNROLL
    for (int i = 0; i < ROUNDS; i++) {
        const int group = warp + i * WARPS, line = spread ? group + part * TEAM : group * LINES_AT_ONCE + part;
        const int some = line < from.count ? from.columns - column - own : 0;
        const element *at = whole || some > 0 ? (const element *)from.at[line] + column + own : NULL;
WEFT_UNROLL
        for (int x = 0; x < STEPS; x++) {
            values[i][x] = whole || x * COLUMNS_AT_ONCE < some ? load_element<type>(at + x * COLUMNS_AT_ONCE) : 0.0f;
        }
    }
WEFT_UNROLL
    for (int i = 0; i < ROUNDS; i++) {
WEFT_UNROLL
        for (int x = 0; x < STEPS; x++) {
            to[x * COLUMNS_AT_ONCE + own][(warp + i * WARPS) * LINES_AT_ONCE + part] = values[i][x];
        }
    }
}

template <bool spread> __device__ void fill_columns(float (&to)[CHUNK][LINE], const lines &from, int column)
{
    switch (from.type) {
    case WEFT_BF16:
        fill_columns_of<WEFT_BF16, spread, false>(to, from, column);
        break;
    case WEFT_F16:
        fill_columns_of<WEFT_F16, spread, false>(to, from, column);
        break;
    default:
        if (from.count == SIDE && column + CHUNK <= from.columns) {
            fill_columns_of<WEFT_F32, spread, true>(to, from, column);
        } else {
            fill_columns_of<WEFT_F32, spread, false>(to, from, column);
        }
    }
}

/* SIDE columns from `column` on of CHUNK lines from `first` on; likewise. A warp takes half a line. */
template <weft_dtype type, bool whole> __device__ void fill_lines_of(float (&to)[CHUNK][LINE], const lines &from, int first, int column)
{
    enum { WARPS = THREADS / WEFT_WARP, ROUNDS = CHUNK / WARPS, STEPS = SIDE / WEFT_WARP };
    typedef typename weft_element<type>::element element;
    const int own = (int)threadIdx.x % WEFT_WARP, warp = (int)threadIdx.x / WEFT_WARP;
    float values[ROUNDS][STEPS];
WEFT_UNROLL
    for (int i = 0; i < ROUNDS; i++) {
        const int line = first + warp + i * WARPS, some = line < from.count ? from.columns - column - own : 0;
        const element *at = whole || some > 0 ? (const element *)from.at[line] + column + own : NULL;
WEFT_UNROLL
        for (int x = 0; x < STEPS; x++) {
            values[i][x] = whole || x * WEFT_WARP < some ? load_element<type>(at + x * WEFT_WARP) : 0.0f;
        }
    }
WEFT_UNROLL
    for (int i = 0; i < ROUNDS; i++) {
WEFT_UNROLL
        for (int x = 0; x < STEPS; x++) {
            to[warp + i * WARPS][x * WEFT_WARP + own] = values[i][x];
        }
    }
}

static __device__ inline void fill_lines(float (&to)[CHUNK][LINE], const lines &from, int first, int column)
{
    switch (from.type) {
    case WEFT_BF16:
        fill_lines_of<WEFT_BF16, false>(to, from, first, column);
        break;
    case WEFT_F16:
        fill_lines_of<WEFT_F16, false>(to, from, first, column);
        break;
    default:
        if (from.count == SIDE && column + SIDE <= from.columns) {
            fill_lines_of<WEFT_F32, true>(to, from, first, column);
        } else {
            fill_lines_of<WEFT_F32, false>(to, from, first, column);
        }
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* sums += a^T b, of CHUNK lines of both: the thread's 8 columns of a, and 4 of b. */
static __device__ inline void add_products(products &sums, const float (*a)[LINE], const float (*b)[LINE])
{
    enum { AT_ONCE = 8 };
    const float *own = &a[0][first_own()], *others = &b[0][(int)threadIdx.x % TEAM * OTHERS];
WEFT_ROLLED
    for (int first = 0; first < CHUNK; first += AT_ONCE) {
WEFT_UNROLL
        for (int d = 0; d < AT_ONCE; d++) {
            const float4 low = *(const float4 *)(own + (first + d) * LINE), high = *(const float4 *)(own + (first + d) * LINE + 4);
            const float4 other = *(const float4 *)(others + (first + d) * LINE);
            const float left[OWN] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
            const float right[OTHERS] = { other.x, other.y, other.z, other.w };
WEFT_UNROLL
            for (int i = 0; i < OWN; i++) {
WEFT_UNROLL
                for (int x = 0; x < OTHERS; x++) {
                    sums[i][x] += left[i] * right[x];
                }
            }
        }
    }
}

/* The products of all own lines and all others. held: the own lines are there from the last time. Begins with a barrier. */
static __device__ inline void multiply_lines(square &t, const lines &own, const lines &others, bool held, products &result)
{
    clear(result);
    for (int column = 0; column < own.columns; column += CHUNK) {
        float(&chunk)[CHUNK][LINE] = t.own[column / CHUNK % HELD];
        __syncthreads(); /* what was there has been read */
        if (!held) {
            fill_columns<false>(chunk, own, column);
        }
        fill_columns<true>(t.others, others, column);
        __syncthreads();
        add_products(result, chunk, t.others);
    }
}

static __device__ inline void put_weights(square &t, const products &weights)
{
WEFT_UNROLL
    for (int x = 0; x < OTHERS; x++) {
        float *to = &t.weights[other_line(x)][first_own()];
        const float4 low = { weights[0][x], weights[1][x], weights[2][x], weights[3][x] };
        const float4 high = { weights[4][x], weights[5][x], weights[6][x], weights[7][x] };
        *(float4 *)to = low;
        *(float4 *)(to + 4) = high;
    }
}

/* Adds the other lines times the weights that have been put. Begins with a barrier. */
template <int groups> __device__ void add_lines(square &t, const lines &values, products (&sums)[groups])
{
    for (int first = 0; first < values.count; first += CHUNK) {
WEFT_UNROLL
        for (int g = 0; g < groups; g++) {
            __syncthreads(); /* the former lines have been read, and the weights written */
            fill_lines(t.others, values, first, g * SIDE);
            __syncthreads();
            add_products(sums[g], &t.weights[first], t.others);
        }
    }
}

/* ---- scores -------------------------------------------------------------------------------------------- */

/* Which keys of a square which of its rows see. */
struct window {
    int rows, keys, shift;
    bool whole; /* all */

    __device__ bool has(int row, int key) const
    {
        return row < rows && key < keys;
    }

    __device__ bool sees(int row, int key) const
    {
        return has(row, key) && key <= row + shift;
    }
};

static __device__ inline window window_of(const job &j, int64_t row, int rows, int64_t key, int keys)
{
    const int64_t distance = j.first_row + row - (j.first_key + key);
    window w = { rows, keys, !j.causal || distance > SIDE ? SIDE : distance < -SIDE ? -SIDE : (int)distance, false };
    w.whole = rows == SIDE && keys == SIDE && w.shift >= SIDE - 1;
    return w;
}

/* Where the mask has the keys of a square's rows; or, of fewer than two dimensions, where it has each key. Behind a barrier. */
static __device__ inline void find_mask(const job &j, square &t, const window &w, int64_t row, int64_t key)
{
    const weft_device_view &mask = j.call.views[j.mask];
    const int last = mask.ndim - 1;
    const int64_t line = threadIdx.x;
    if (line < (last < 1 ? w.keys : w.rows)) {
        const int64_t first = last < 0 || mask_repeats(j, last, j.k) ? 0 : j.first_key + key + (last < 1 ? line : 0) - mask.offset[last];
        if (last < 1) {
            t.mask_at[line] = weft_row_at(j.call, j.mask, first);
        } else {
            const int64_t at = mask_repeats(j, last - 1, j.q) ? 0 : j.first_row + row + line - mask.offset[last - 1];
            t.mask_at[line] = address_of(j, j.mask, at) + first * (int64_t)weft_size_of(mask.dtype);
        }
    }
}

static __device__ inline float addend_at(weft_dtype type, const void *line, int place)
{
    switch (type) {
    case WEFT_BOOL:
        return ((const uint8_t *)line)[place] != 0 ? 0.0f : -INFINITY;
    case WEFT_F64:
        return (float)((const double *)line)[place];
    case WEFT_BF16:
        return load_element<WEFT_BF16>((const uint16_t *)line + place);
    case WEFT_F16:
        return load_element<WEFT_F16>((const uint16_t *)line + place);
    default:
        return load_element<WEFT_F32>((const float *)line + place);
    }
}

/* Products become scores, masked: of keys that are not seen or not there, -infinity. of_rows: own lines are rows; else they are keys. */
template <bool masked, bool of_rows> __device__ void scale_scores(const job &j, const square &t, const window &w, products &scores)
{
    const float scale = (float)j.call.scalars[0];
    const weft_device_view &mask = j.call.views[masked ? j.mask : 0];
    const bool by_key = mask.ndim < 2, stays = masked && (by_key || mask_repeats(j, mask.ndim - 1, j.k));
WEFT_UNROLL
    for (int i = 0; i < OWN; i++) {
        if (!masked && w.whole) {
WEFT_UNROLL
            for (int x = 0; x < OTHERS; x++) {
                scores[i][x] *= scale;
            }
            continue;
        }
WEFT_UNROLL
        for (int x = 0; x < OTHERS; x++) {
            const int own = first_own() + i, other = other_line(x), row = of_rows ? own : other, key = of_rows ? other : own;
            float score = scale * scores[i][x];
            if (masked && w.sees(row, key)) {
                score += addend_at(mask.dtype, t.mask_at[by_key ? key : row], stays ? 0 : key);
            }
            scores[i][x] = w.sees(row, key) ? score : -INFINITY;
        }
    }
}

/* ---- results ------------------------------------------------------------------------------------------- */

/* The column of a result whose sum is the thread's number x of a group. */
static __device__ inline int column_of(int group, int x)
{
    return group * SIDE + (int)threadIdx.x % TEAM * OTHERS + x;
}

/* Whether operands have types that these kernels know. */
static inline bool knows_types(const job &j)
{
    for (int k = 0; k < j.call.num_outputs + j.call.num_inputs; k++) {
        const weft_dtype type = j.call.views[k].dtype;
        const bool is_narrow = type == WEFT_F32 || type == WEFT_BF16 || type == WEFT_F16;
        if (!is_narrow && !(k == j.mask && (type == WEFT_F64 || type == WEFT_BOOL))) {
            return false;
        }
    }
    return true;
}

/* Block `number` of so many for each index of the batch: all of an index one after the other, as they read the same; but with a causal mask
 * those with the most work, of number 0, come first. */
static __device__ inline int64_t tile_of_block(const job &j, int64_t number, int64_t tiles, int64_t *batch)
{
    const int64_t batches = batches_of(j);
    *batch = j.causal ? number % batches : number / tiles;
    return j.causal ? number / batches : number % tiles;
}

}

#endif
