/* Fused calls: calls by rows on the same rows become one task for each piece of rows, which runs their kernels tile by tile
 * (cluster.h). fuse.c chooses them, fuse_build.c builds the tasks. */
#ifndef WEFT_SRC_GRAPH_FUSE_FUSE_H
#define WEFT_SRC_GRAPH_FUSE_FUSE_H

#include "graph/fuse/cluster_build.h"

enum { WEFT_MAX_FUSED_CALLS = 64 };

/* Whether each rank has the same rows of two tensors. */
bool weft_layouts_share_rows(const weft_layout *a, const weft_layout *b);

static inline const weft_layout *weft_fused_layout(const weft_cluster_building *b, const weft_fused_operand *operand)
{
    return weft_trace_layout(b->trace, operand->value);
}

#endif
