/* Sorting in a block of threads: keys with their places, which are distinct, so that there is one order. */
#ifndef WEFT_CODELETS_CUDA_BLOCK_SORT_CUH
#define WEFT_CODELETS_CUDA_BLOCK_SORT_CUH

#include "codelets/cuda/launch.h"

#if defined(__CUDACC__) && __has_include(<cub/block/block_radix_sort.cuh>)
#define WEFT_HAS_CUB 1
#include <cub/block/block_radix_sort.cuh>
#else
#define WEFT_HAS_CUB 0
#endif

/* ---- a bitonic network in shared memory ------------------------------------------------------------------ */

/* All pairs of the network at one distance, in sequences that are sorted `width` values at a time. */
template <typename Key, typename Place> __device__ void weft_exchange_pairs(Key keys[], Place places[], int size, int width, int distance)
{
    for (int pair = (int)threadIdx.x; pair < size / 2; pair += (int)blockDim.x) {
        const int a = 2 * pair - (pair & (distance - 1)), b = a + distance;
        const bool ascending = (a & width) == 0, swapped = keys[b] < keys[a] || (keys[b] == keys[a] && places[b] < places[a]);
        if (swapped == ascending) {
            const Key key = keys[a];
            const Place place = places[a];
            keys[a] = keys[b];
            places[a] = places[b];
            keys[b] = key;
            places[b] = place;
        }
    }
}

/* Sorts `size` values, a power of 2. The threads have met a barrier after they wrote them, and meet one at the end. */
template <typename Key, typename Place> __device__ void weft_sort_shared(Key keys[], Place places[], int size)
{
    for (int width = 2; width <= size; width *= 2) {
        for (int distance = width / 2; distance > 0; distance /= 2) {
            weft_exchange_pairs(keys, places, size, width, distance);
            __syncthreads();
        }
    }
}

/* ---- values in registers --------------------------------------------------------------------------------- */

/* A block of `threads`, with `each` values by each: number threadIdx.x * each, and those that follow it. By CUB's radix sort; by the
 * network where the toolkit has no CUB, and on the stand-in. */
template <typename Key, int threads, int each> struct weft_block_sort {
    static_assert(threads * each <= 1 << 16, "places have 16 bits");
#if WEFT_HAS_CUB
    typedef cub::BlockRadixSort<Key, threads, each, uint16_t> sort;
    union memory {
        typename sort::TempStorage sorting;
        uint16_t order[threads * each];
    };
#else
    struct memory {
        Key keys[threads * each];
        uint16_t order[threads * each];
    };
#endif

    /* shared.order becomes the values' places in their order, for all threads. Keys differ in the bits from first_bit on, before
     * last_bit. A barrier before the memory is used again. */
    static __device__ void run(memory &shared, Key (&keys)[each], int first_bit, int last_bit)
    {
        uint16_t places[each];
WEFT_UNROLL
        for (int k = 0; k < each; k++) {
            places[k] = (uint16_t)(threadIdx.x * each + k);
        }
#if WEFT_HAS_CUB
        sort(shared.sorting).SortBlockedToStriped(keys, places, first_bit, last_bit); /* stable */
        __syncthreads();
WEFT_UNROLL
        for (int k = 0; k < each; k++) {
            shared.order[threadIdx.x + k * threads] = places[k];
        }
        __syncthreads();
#else
        (void)first_bit, (void)last_bit;
        for (int k = 0; k < each; k++) {
            shared.keys[threadIdx.x * each + k] = keys[k];
            shared.order[threadIdx.x * each + k] = places[k];
        }
        __syncthreads();
        weft_sort_shared(shared.keys, shared.order, threads * each);
#endif
    }
};

#endif
