/* The placements in which tensors are joined, or one is cut, along a dimension. */
#ifndef WEFT_SRC_OPS_CONCAT_LAYOUT_H
#define WEFT_SRC_OPS_CONCAT_LAYOUT_H

#include "ops/ops.h"

/* The tensors to be joined (or the one to be cut): on one mesh, with shapes that differ in dimension `dim`
 * only, where their sizes add up to `rows`. */
typedef struct weft_row_of_tensors {
    int n;
    weft_tensor *const *tensors;
    int dim;
    int64_t rows;
} weft_row_of_tensors;

/* The placements for joining or cutting: those of all tensors if they are equal, so that a sharded
 * dimension stays sharded. Else the cheapest: those of one of the tensors, in which placements that cannot
 * stay become Replicate or shards of another dimension. Without `shards` the dimension must not be
 * sharded. */
void weft_choose_row_placements(const weft_row_of_tensors *row, bool shards, weft_placement best[]);

#endif
