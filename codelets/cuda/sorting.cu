/* Sorting along a dimension: see cpu/sorting.c. Keys with their places have one order, so that any way to sort gives the
 * result of a stable one. */
#include "codelets/cuda/views.h"
#include "codelets/sort_keys.h"

extern "C" {
#include "codelets/sorting.h"
}

namespace
{

enum { THREADS = 256, WARP = 32, TOGETHER = 2048 }; /* values of a line that a block sorts in shared memory */

struct sort_work {
    weft_device_call call;
    int values, places; /* numbers of the outputs; -1: none */
    uint64_t flip;      /* all ones for descending order */
};

__device__ weft_device_vectors lines_of(const sort_work &work, int view)
{
    return weft_device_vectors_along(work.call, view, (int)work.call.numbers[0], (int)work.call.numbers[0]);
}

/* Value number `from` of the line becomes number k of the result. */
template <typename T>
__device__ void store_result(const sort_work &work, const weft_device_vector<T> &in, int64_t line, int64_t k, int64_t from)
{
    if (work.values >= 0) {
        const weft_device_vectors out = lines_of(work, work.values);
        weft_copy_element(weft_device_vector<T>(work.call, out, line).at(k), in.at(from), weft_size_of(out.dtype));
    }
    if (work.places >= 0) {
        const weft_device_vectors out = lines_of(work, work.places);
        weft_device_vector<int64_t>(work.call, out, line).set(k, from);
    }
}

__device__ bool comes_before(uint64_t key, int64_t place, uint64_t other_key, int64_t other_place)
{
    return key < other_key || (key == other_key && place < other_place);
}

/* ---- lines of up to TOGETHER values: a block for each, a bitonic network ------------------------------- */

/* All pairs of the network at one distance, in sequences that are sorted `width` values at a time. */
__device__ void exchange_pairs(uint64_t keys[], int places[], int size, int width, int distance)
{
    for (int pair = (int)threadIdx.x; pair < size / 2; pair += (int)blockDim.x) {
        const int a = 2 * pair - (pair & (distance - 1)), b = a + distance;
        const bool ascending = (a & width) == 0;
        if (comes_before(keys[b], places[b], keys[a], places[a]) == ascending) {
            const uint64_t key = keys[a];
            const int place = places[a];
            keys[a] = keys[b];
            places[a] = places[b];
            keys[b] = key;
            places[b] = place;
        }
    }
}

template <typename T> __global__ void run_sort_together(const sort_work work)
{
    __shared__ uint64_t keys[TOGETHER];
    __shared__ int places[TOGETHER];
    const weft_device_vectors lines = lines_of(work, weft_input(work.call, 0));
    const int64_t wanted = lines_of(work, 0).length;
    int size = 2;
    while (size < lines.length) {
        size *= 2;
    }
    for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
        const weft_device_vector<T> in(work.call, lines, line);
        for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x) {
            keys[i] = i < lines.length ? weft_sort_key(in[i]) ^ work.flip : UINT64_MAX; /* behind all others, by its place */
            places[i] = i;
        }
        __syncthreads();
        for (int width = 2; width <= size; width *= 2) {
            for (int distance = width / 2; distance > 0; distance /= 2) {
                exchange_pairs(keys, places, size, width, distance);
                __syncthreads();
            }
        }
        for (int k = (int)threadIdx.x; k < wanted; k += (int)blockDim.x) {
            store_result(work, in, line, k, places[k]);
        }
        __syncthreads();
    }
}

/* ---- longer lines: a thread for each value, which counts those before it ------------------------------- */

template <typename T> __global__ void run_sort_by_counting(const sort_work work)
{
    const weft_device_vectors lines = lines_of(work, weft_input(work.call, 0));
    const int64_t wanted = lines_of(work, 0).length, count = lines.count * lines.length;
    for (int64_t i = weft_first_index(); i < count; i += weft_index_step()) {
        const int64_t line = weft_quotient(i, lines.length), place = i - line * lines.length;
        const weft_device_vector<T> in(work.call, lines, line);
        const uint64_t key = weft_sort_key(in[place]) ^ work.flip;
        int64_t before = 0;
        for (int64_t k = 0; k < lines.length && before < wanted; k++) {
            before += comes_before(weft_sort_key(in[k]) ^ work.flip, k, key, place);
        }
        if (before < wanted) {
            store_result(work, in, line, before, place);
        }
    }
}

int launch(const weft_task_run *run, weft_cuda_queue *queue, int values, int places)
{
    sort_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    work.values = values;
    work.places = places < work.call.num_outputs ? places : -1;
    work.flip = work.call.numbers[1] != 0 ? UINT64_MAX : 0;
    const weft_device_view &in = work.call.views[work.call.num_outputs];
    if (failed != 0 || work.call.views[0].count == 0) {
        return failed;
    }
    const bool whole = in.dtype >= WEFT_I64;
    const int64_t lines = weft_lines_along(in, work.call.numbers[0]), length = in.count / lines, most = 1 << 16;
    if (length <= TOGETHER) {
        const int64_t threads = length <= 2 * WARP ? WARP : length <= THREADS ? THREADS / 2 : THREADS;
        return weft_launch_blocks(whole ? run_sort_together<int64_t> : run_sort_together<double>,
                                  (unsigned)(lines < most ? lines : most), (unsigned)threads, queue->stream, work);
    }
    return weft_launch(whole ? run_sort_by_counting<int64_t> : run_sort_by_counting<double>, in.count, queue->stream, work);
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
