/* Places that indices name. */
#ifndef WEFT_CODELETS_CUDA_INDEXING_CUH
#define WEFT_CODELETS_CUDA_INDEXING_CUH

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/indexing.h"
}

static __device__ inline void clear_element(weft_device_place to, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        to.memory[(size_t)to.place * size + i] = 0;
    }
}

/* Elements after dimension `dim` for each of its indices. */
static __device__ inline int64_t inner_of(const weft_device_view &view, int dim)
{
    int64_t inner = 1;
    for (int d = dim + 1; d < view.ndim; d++) {
        inner *= view.extent[d];
    }
    return inner;
}

/* Local place of a global index along a dimension; -1: elsewhere, or, reported at `position`, out of range. */
static __device__ inline int64_t place_along(const weft_device_call &call, int k, int dim, int64_t index, uint64_t position)
{
    const weft_device_view &view = call.views[k];
    if (index < 0 || index >= view.shape[dim]) {
        weft_device_range(call, position, call.num_inputs - 1, index, view.shape[dim] - 1);
        return -1;
    }
    int64_t place = index - view.offset[dim];
    return place >= 0 && place < view.extent[dim] ? place : -1;
}

#endif
