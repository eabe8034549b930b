/* Scratch memory of a task: blocks with lifetimes, which share bytes where these are disjoint. */
#ifndef WEFT_SRC_GRAPH_FUSE_SCRATCH_H
#define WEFT_SRC_GRAPH_FUSE_SCRATCH_H

#include "base/base.h"

/* Zero-initialise it. */
typedef struct weft_scratch {
    weft_vec blocks; /* in use, by offset */
    int64_t bytes;   /* of all that were ever in use */
} weft_scratch;

/* The offset of a block that is used until node `last_use`. -1: no memory. */
int64_t weft_scratch_allocate(weft_scratch *scratch, int64_t bytes, int last_use);
/* Another value takes over the block at this offset. */
void weft_scratch_prolong(weft_scratch *scratch, int64_t offset, int last_use);
/* Frees the blocks that are not used after the node. */
void weft_scratch_release(weft_scratch *scratch, int node);
void weft_scratch_free(weft_scratch *scratch);

#endif
