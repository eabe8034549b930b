/* Sorting along a dimension: see cpu/sorting.c. Keys with their places have one order, so that any way to sort gives the
 * result of a stable one. */
#include "codelets/cuda/block_sort.cuh"
#include "codelets/cuda/products.h"
#include "codelets/cuda/views.h"
#include "codelets/sort_keys.h"
#include "codelets/types.h"

extern "C" {
#include "codelets/sorting.h"
}

namespace
{

constexpr int THREADS = 256, WARP = 32;
constexpr int SHORT = 512;                  /* values of a line that a network sorts */
constexpr int TOGETHER = 2048;              /* values that a block merges in shared memory: a tile */
constexpr int IN_TURN = TOGETHER / THREADS; /* values that a thread of a merge finds one after the other */
constexpr int64_t MOST_BLOCKS = 1 << 16;

struct sort_work {
    weft_device_call call;
    int values, places; /* numbers of the outputs; -1: none */
    uint64_t flip;      /* all ones for descending order */
    int first_bit, last_bit; /* of keys: in which they differ; the last one is the next */
};

/* ---- keys ------------------------------------------------------------------------------------------------ */

/* Each struct below is for operands of some types: its of() makes integers that have the order of the values (sort_keys.h). A block
 * of BLOCK threads sorts up to LONGEST values, EACH by each thread. */
constexpr int BLOCK = 512;

struct of_double {
    typedef uint64_t key;
    enum { EACH = 8, LONGEST = BLOCK * EACH };
    static __device__ key of(weft_dtype, weft_device_place at)
    {
        return weft_sort_key_of_real(((const double *)at.memory)[at.place]);
    }
};

struct of_long {
    typedef uint64_t key;
    enum { EACH = 8, LONGEST = BLOCK * EACH };
    static __device__ key of(weft_dtype, weft_device_place at)
    {
        return weft_sort_key_of_whole(((const int64_t *)at.memory)[at.place]);
    }
};

/* WEFT_F32 and narrower. */
struct of_float {
    typedef uint32_t key;
    enum { EACH = 16, LONGEST = BLOCK * EACH };
    static __device__ key of(weft_dtype type, weft_device_place at)
    {
        return weft_sort_key_of_float(type == WEFT_F32    ? ((const float *)at.memory)[at.place]
                                      : type == WEFT_BF16 ? bf16_to_f32(((const uint16_t *)at.memory)[at.place])
                                                          : f16_to_f32(((const uint16_t *)at.memory)[at.place]));
    }
};

/* WEFT_I32 and narrower. */
struct of_int {
    typedef uint32_t key;
    enum { EACH = 16, LONGEST = BLOCK * EACH };
    static __device__ key of(weft_dtype type, weft_device_place at)
    {
        return type == WEFT_I32 ? ((const uint32_t *)at.memory)[at.place] ^ 1u << 31 : ((const uint8_t *)at.memory)[at.place];
    }
};

/* The bits in which keys of values of the type differ, and are in the same order. Lower ones, of 16-bit types, are zeros, or all ones
 * if the value is negative. */
void set_bits(sort_work *work, weft_dtype type)
{
    work->first_bit = type == WEFT_BF16 ? 16 : type == WEFT_F16 ? 13 : 0;
    work->last_bit = type == WEFT_BOOL ? 1 : type == WEFT_U8 ? 8 : type == WEFT_F64 || type == WEFT_I64 ? 64 : 32;
}

typedef weft_device_vector<double> vector; /* its places alone: their type is not asked for */

__device__ weft_device_vectors lines_of(const sort_work &work, int view)
{
    return weft_device_vectors_along(work.call, view, (int)work.call.numbers[0], (int)work.call.numbers[0]);
}

/* Value number `from` of the line becomes number k of the result. */
__device__ void store_result(const sort_work &work, const vector &in, int64_t line, int64_t k, int64_t from)
{
    if (work.values >= 0) {
        const weft_device_vectors out = lines_of(work, work.values);
        weft_copy_element(vector(work.call, out, line).at(k), in.at(from), weft_size_of(out.dtype));
    }
    if (work.places >= 0) {
        const weft_device_vectors out = lines_of(work, work.places);
        weft_device_vector<int64_t>(work.call, out, line).set(k, from);
    }
}

template <typename Of> __device__ typename Of::key key_of(const sort_work &work, const vector &in, int64_t place)
{
    return Of::of(in.along.dtype, in.at(place)) ^ (typename Of::key)work.flip;
}

/* ---- a line, or a tile of one, in a block ---------------------------------------------------------------- */

/* Lines of up to SHORT values. */
template <typename Of> __global__ void run_sort_short(const sort_work work)
{
    __shared__ typename Of::key keys[SHORT];
    __shared__ int places[SHORT];
    const weft_device_vectors lines = lines_of(work, weft_input(work.call, 0));
    const int64_t wanted = lines_of(work, 0).length;
    const int n = (int)lines.length;
    int size = 2;
    while (size < n) {
        size *= 2;
    }
    for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
        const vector in(work.call, lines, line);
        for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x) {
            keys[i] = i < n ? key_of<Of>(work, in, i) : (typename Of::key)UINT64_MAX; /* after all others, by its place */
            places[i] = i;
        }
        __syncthreads();
        weft_sort_shared(keys, places, size);
        for (int k = (int)threadIdx.x; k < wanted; k += (int)blockDim.x) {
            store_result(work, in, line, k, places[k]);
        }
        __syncthreads();
    }
}

/* Sorts n values of a line from `first` on; places in memory.order count from there. */
template <typename Of, typename Sort, int each>
__device__ void sort_values(const sort_work &work, const vector &in, int64_t first, int n, typename Sort::memory &memory)
{
    typename Of::key keys[each];
WEFT_UNROLL
    for (int k = 0; k < each; k++) {
        const int i = (int)threadIdx.x * each + k;
        keys[k] = i < n ? key_of<Of>(work, in, first + i) : (typename Of::key)UINT64_MAX;
    }
    Sort::run(memory, keys, work.first_bit, work.last_bit);
}

/* Lines of up to threads * each values. */
template <typename Of, int threads, int each> __global__ void WEFT_THREADS_AT_MOST(threads) run_sort_lines(const sort_work work)
{
    typedef weft_block_sort<typename Of::key, threads, each> sort;
    __shared__ typename sort::memory memory;
    const weft_device_vectors lines = lines_of(work, weft_input(work.call, 0));
    const int64_t wanted = lines_of(work, 0).length;
    for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
        const vector in(work.call, lines, line);
        sort_values<Of, sort, each>(work, in, 0, (int)lines.length, memory);
        for (int k = (int)threadIdx.x; k < wanted; k += threads) {
            store_result(work, in, line, k, memory.order[k]);
        }
        __syncthreads();
    }
}

/* ---- longer lines: sorted tiles, merged pairwise --------------------------------------------------------- */

/* A part of each of some lines: the same values of each. Scratch memory has their places, counted from `first`, of one line
 * after the other, in sorted runs. */
struct merge_work {
    sort_work sort;
    int64_t line, lines;   /* the first one, their number */
    int64_t first, length; /* of the part */
    int64_t wanted;        /* values at the front of the result */
    int64_t run;           /* values of a run before the merge: whole tiles */
    const uint32_t *from;
    uint32_t *to; /* NULL: the outputs */
};

/* A block's tile of a part. */
struct tile {
    int64_t line; /* of the part's lines */
    int64_t begin;
    int count;
};

__host__ __device__ inline int64_t tiles_of(int64_t length, int64_t size)
{
    return (length + size - 1) / size;
}

__device__ tile tile_of(const merge_work &work, int64_t number, int size)
{
    const int64_t tiles = tiles_of(work.length, size), line = weft_quotient(number, tiles);
    const int64_t begin = (number - line * tiles) * size, rest = work.length - begin;
    return { line, begin, rest < size ? (int)rest : size };
}

template <typename Of> __global__ void WEFT_THREADS_AT_MOST(BLOCK) run_sort_tiles(const merge_work work)
{
    typedef weft_block_sort<typename Of::key, BLOCK, Of::EACH> sort;
    __shared__ typename sort::memory memory;
    const weft_device_vectors lines = lines_of(work.sort, weft_input(work.sort.call, 0));
    for (int64_t number = blockIdx.x; number < work.lines * tiles_of(work.length, Of::LONGEST); number += gridDim.x) {
        const tile own = tile_of(work, number, Of::LONGEST);
        const vector in(work.sort.call, lines, work.line + own.line);
        sort_values<Of, sort, Of::EACH>(work.sort, in, work.first + own.begin, own.count, memory);
        for (int k = (int)threadIdx.x; k < own.count; k += BLOCK) {
            work.to[own.line * work.length + own.begin + k] = (uint32_t)(own.begin + memory.order[k]);
        }
        __syncthreads();
    }
}

/* How many of the first `count` values of two merged runs, of lengths a and b, are the first run's: a binary search on a
 * diagonal of the merge path (Odeh, Green, Mwassi, Shmueli, Birk: Merge Path - Parallel Merging Made Simple, 2012). Of equal
 * keys the first run's come first, because its places do. */
template <typename KeyA, typename KeyB>
__device__ int64_t split_of(int64_t count, int64_t a, int64_t b, KeyA key_a, KeyB key_b)
{
    int64_t least = count > b ? count - b : 0, most = count < a ? count : a;
    while (least < most) {
        const int64_t middle = (least + most) / 2;
        if (key_a(middle) <= key_b(count - 1 - middle)) {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    return least;
}

/* Merges runs of `a` and `n - a` values, one after the other in shared memory. */
template <typename Key> __device__ void merge_tile(const Key keys[], uint32_t places[], int a, int n)
{
    const int begin = (int)threadIdx.x * IN_TURN;
    uint32_t merged[IN_TURN];
    if (begin < n) {
        int i = (int)split_of(begin, a, n - a, [&](int64_t k) { return keys[k]; }, [&](int64_t k) { return keys[a + k]; });
        int j = a + begin - i;
        for (int k = 0; k < IN_TURN && begin + k < n; k++) {
            const bool first = j == n || (i < a && keys[i] <= keys[j]);
            merged[k] = places[first ? i++ : j++];
        }
    }
    __syncthreads();
    for (int k = 0; k < IN_TURN && begin + k < n; k++) {
        places[begin + k] = merged[k];
    }
    __syncthreads();
}

/* A block for each tile of the merged runs. Tiles after the wanted values are left out, and never read by later merges. */
template <typename Of> __global__ void run_merge(const merge_work work)
{
    __shared__ typename Of::key keys[TOGETHER];
    __shared__ uint32_t places[TOGETHER];
    __shared__ int64_t splits[2]; /* values of the first run before the tile, and up to its end */
    const weft_device_vectors lines = lines_of(work.sort, weft_input(work.sort.call, 0));
    for (int64_t number = blockIdx.x; number < work.lines * tiles_of(work.length, TOGETHER); number += gridDim.x) {
        const tile own = tile_of(work, number, TOGETHER);
        const int64_t before = own.begin % (2 * work.run), rest = work.length - (own.begin - before);
        if (before >= work.wanted) {
            continue;
        }
        const int64_t a = rest < work.run ? rest : work.run, b = rest - a < work.run ? rest - a : work.run;
        const vector in(work.sort.call, lines, work.line + own.line);
        const uint32_t *first = work.from + own.line * work.length + own.begin - before, *second = first + a;
        const auto key = [&](uint32_t place) { return key_of<Of>(work.sort, in, work.first + place); };
        if (threadIdx.x < 2) {
            const int64_t count = before + (threadIdx.x == 0 ? 0 : own.count);
            splits[threadIdx.x] = split_of(count, a, b, [&](int64_t k) { return key(first[k]); },
                                           [&](int64_t k) { return key(second[k]); });
        }
        __syncthreads();
        const int64_t skipped = splits[0];
        const int taken = (int)(splits[1] - skipped);
        for (int i = (int)threadIdx.x; i < own.count; i += (int)blockDim.x) {
            places[i] = i < taken ? first[skipped + i] : second[before - skipped + i - taken];
            keys[i] = key(places[i]);
        }
        __syncthreads();
        merge_tile(keys, places, taken, own.count);
        for (int i = (int)threadIdx.x; i < own.count; i += (int)blockDim.x) {
            if (work.to != NULL) {
                work.to[own.line * work.length + own.begin + i] = places[i];
            } else if (own.begin + i < work.wanted) {
                store_result(work.sort, in, work.line + own.line, own.begin + i, work.first + places[i]);
            }
        }
        /* The next tile's places are written after its first barrier. */
    }
}

unsigned blocks_of(int64_t wanted)
{
    return (unsigned)(wanted < MOST_BLOCKS ? wanted : MOST_BLOCKS);
}

/* Sorts the part: into the outputs, if `stores` and it has several tiles, or into scratch memory, whose half is returned. */
template <typename Of>
int sort_part(merge_work *work, uint32_t *half[2], bool stores, weft_cuda_queue *queue, const uint32_t **sorted)
{
    int now = 0;
    work->to = half[now];
    int failed = weft_launch_blocks(run_sort_tiles<Of>, blocks_of(work->lines * tiles_of(work->length, Of::LONGEST)), (unsigned)BLOCK,
                                    queue->stream, *work);
    for (work->run = Of::LONGEST; work->run < work->length && failed == 0; work->run *= 2) {
        work->from = half[now];
        now = 1 - now;
        work->to = stores && 2 * work->run >= work->length ? NULL : half[now];
        failed = weft_launch_blocks(run_merge<Of>, blocks_of(work->lines * tiles_of(work->length, TOGETHER)), (unsigned)THREADS,
                                    queue->stream, *work);
    }
    *sorted = half[now];
    return failed;
}

/* ---- lines whose places do not fit into scratch memory --------------------------------------------------- */

/* Some values of a line, and a sorted part of it: `from` of `part`. */
struct rank_work {
    merge_work part;
    int64_t first, length;
    int64_t *ranks; /* of these values among the parts before */
    bool starts, ends;
};

/* A thread for each value counts those of the part before it, by a binary search. */
template <typename Of> __global__ void run_rank(const rank_work work)
{
    const merge_work &part = work.part;
    const sort_work &sort = part.sort;
    const weft_device_vectors lines = lines_of(sort, weft_input(sort.call, 0));
    const vector in(sort.call, lines, part.line);
    for (int64_t i = weft_first_index(); i < work.length; i += weft_index_step()) {
        const int64_t place = work.first + i;
        const typename Of::key key = key_of<Of>(sort, in, place);
        int64_t least = 0, most = part.length < part.wanted ? part.length : part.wanted;
        while (least < most) {
            const int64_t middle = (least + most) / 2, other = part.first + part.from[middle];
            const typename Of::key other_key = key_of<Of>(sort, in, other);
            if (other_key < key || (other_key == key && other < place)) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        const int64_t before = least + (work.starts ? 0 : work.ranks[i]);
        if (!work.ends) {
            work.ranks[i] = before;
        } else if (before < part.wanted) {
            store_result(sort, in, part.line, before, place);
        }
    }
}

/* One line, by parts of m values: the ranks of each part's values among all parts, each sorted again. (n / m)^2 sorts. */
template <typename Of>
int sort_by_parts(merge_work *work, int64_t length, char *scratch, size_t bytes, weft_cuda_queue *queue)
{
    const int64_t most = (int64_t)(bytes / (sizeof(int64_t) + 2 * sizeof(uint32_t))) / TOGETHER * TOGETHER;
    uint32_t *places = (uint32_t *)(scratch + (size_t)most * sizeof(int64_t)), *half[2] = { places, places + most };
    int failed = 0;
    for (int64_t first = 0; first < length && failed == 0; first += most) {
        for (int64_t other = 0; other < length && failed == 0; other += most) {
            const uint32_t *sorted;
            work->first = other;
            work->length = length - other < most ? length - other : most;
            failed = sort_part<Of>(work, half, false, queue, &sorted);
            rank_work rank = { *work, first, length - first < most ? length - first : most, (int64_t *)scratch, other == 0,
                               other + most >= length };
            rank.part.from = sorted;
            failed = failed != 0 ? failed : weft_launch(run_rank<Of>, rank.length, queue->stream, rank);
        }
    }
    return failed;
}

/* As many lines at a time as scratch memory has room for. */
template <typename Of>
int sort_long_lines(const sort_work &sort, int64_t lines, int64_t length, int64_t wanted, weft_cuda_queue *queue)
{
    void *scratch;
    size_t bytes;
    int failed = weft_cuda_scratch(queue, &scratch, &bytes);
    merge_work work = { sort, 0, 1, 0, length, wanted, 0, NULL, NULL };
    const int64_t room = (int64_t)(bytes / (2 * sizeof(uint32_t)));
    uint32_t *half[2] = { (uint32_t *)scratch, (uint32_t *)scratch + room };
    for (int64_t line = 0; line < lines && failed == 0; line += work.lines) {
        const uint32_t *unused;
        work.line = line;
        if (length > room) {
            failed = sort_by_parts<Of>(&work, length, (char *)scratch, bytes, queue);
        } else {
            work.lines = room / length < lines - line ? room / length : lines - line;
            failed = sort_part<Of>(&work, half, true, queue, &unused);
        }
    }
    return failed;
}

/* ---- the kernels' launch --------------------------------------------------------------------------------- */

template <typename Of> int launch_of(const sort_work &work, int64_t lines, int64_t length, int64_t wanted, weft_cuda_queue *queue)
{
    constexpr int MIDDLE = THREADS * 8;
    const unsigned blocks = blocks_of(lines);
    if (length <= SHORT) {
        const int threads = length <= 2 * WARP ? WARP : length <= THREADS ? THREADS / 2 : THREADS;
        return weft_launch_blocks(run_sort_short<Of>, blocks, (unsigned)threads, queue->stream, work);
    }
    return length <= MIDDLE        ? weft_launch_blocks(run_sort_lines<Of, THREADS, 8>, blocks, (unsigned)THREADS, queue->stream, work)
           : length <= Of::LONGEST ? weft_launch_blocks(run_sort_lines<Of, BLOCK, Of::EACH>, blocks, (unsigned)BLOCK, queue->stream, work)
                                   : sort_long_lines<Of>(work, lines, length, wanted, queue);
}

int launch(const weft_task_run *run, weft_cuda_queue *queue, int values, int places)
{
    sort_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    work.values = values;
    work.places = places < work.call.num_outputs ? places : -1;
    work.flip = work.call.numbers[1] != 0 ? UINT64_MAX : 0;
    const weft_device_view &in = work.call.views[work.call.num_outputs], &out = work.call.views[0];
    if (failed != 0 || out.count == 0) {
        return failed;
    }
    set_bits(&work, in.dtype);
    const int64_t lines = weft_lines_along(in, work.call.numbers[0]);
    const auto launch_for = in.dtype == WEFT_F64   ? launch_of<of_double>
                            : !weft_dtype_is_whole(in.dtype) ? launch_of<of_float>
                            : in.dtype == WEFT_I64 ? launch_of<of_long>
                                                   : launch_of<of_int>;
    return launch_for(work, lines, in.count / lines, out.count / lines, queue);
}

}

int weft_cuda_order(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch(run, queue, -1, 0);
}

int weft_cuda_sort(const weft_task_run *run, weft_cuda_queue *queue)
{
    return launch(run, queue, 0, 1);
}
