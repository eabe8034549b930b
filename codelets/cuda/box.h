/* Boxes of indices in which each operand of a kernel has its own strides. */
#ifndef WEFT_CODELETS_CUDA_BOX_H
#define WEFT_CODELETS_CUDA_BOX_H

#include <weft/base.h>

#include "codelets/cuda/launch.h"

template <int operands> struct weft_device_box {
    int ndim;
    int64_t extent[WEFT_MAX_DIMS], stride[operands][WEFT_MAX_DIMS]; /* elements */
};

/* A further dimension, after the others: left out if its size is 1, and merged with the former one where the two are
 * contiguous for every operand. */
template <int operands>
void weft_box_add(weft_device_box<operands> *box, int64_t extent, const int64_t stride[operands])
{
    int last = box->ndim - 1;
    bool joins = last >= 0;
    for (int k = 0; k < operands && joins; k++) {
        joins = box->stride[k][last] == extent * stride[k];
    }
    if (extent == 1) {
        return;
    }
    int place = joins ? last : box->ndim++;
    box->extent[place] = joins ? box->extent[place] * extent : extent;
    for (int k = 0; k < operands; k++) {
        box->stride[k][place] = stride[k];
    }
}

/* `box`: any structure with the members of weft_device_box. */
template <typename Box> int64_t weft_box_count(const Box &box)
{
    int64_t count = 1;
    for (int d = 0; d < box.ndim; d++) {
        count *= box.extent[d];
    }
    return count;
}

/* The quotient of two non-negative numbers. An unsigned division finds sooner than a signed one that 32 bits are enough. */
static __device__ inline int64_t weft_quotient(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a / (uint64_t)b);
}

/* Where element number `index` of the box, in row-major order, lies in each operand. */
template <int operands, typename Box>
__device__ void weft_find_places(const Box &box, int64_t index, int64_t place[operands])
{
    for (int k = 0; k < operands; k++) {
        place[k] = 0;
    }
WEFT_ROLLED
    for (int d = box.ndim - 1; d >= 0; d--) {
        int64_t rest = d > 0 ? weft_quotient(index, box.extent[d]) : 0;
        int64_t at = index - rest * box.extent[d];
        for (int k = 0; k < operands; k++) {
            place[k] += at * box.stride[k][d];
        }
        index = rest;
    }
}

#endif
