/* The bytes of a panel that a message carries. PURE. */
#ifndef WEFT_SRC_TASKS_REGION_H
#define WEFT_SRC_TASKS_REGION_H

#include "base/base.h"

/* Bytes in a panel: runs of run_bytes, repeated count[d] times at stride[d] bytes, dimension 0 outermost.
 * ndim 0: one run. */
typedef struct weft_region {
    int64_t offset; /* of the first byte, from the handle's start */
    int64_t run_bytes;
    int ndim;
    int64_t count[WEFT_MAX_DIMS];
    int64_t stride[WEFT_MAX_DIMS];
} weft_region;

int64_t weft_region_bytes(const weft_region *region);
/* Copies a region of a panel (its handle's start) to or from contiguous bytes, in the order of its runs. */
void weft_region_read(const weft_region *region, const void *memory, void *packed);
void weft_region_write(const weft_region *region, void *memory, const void *packed);
/* The region of a box of elements: `extent` elements in `ndim` dimensions at `stride` (in elements). */
weft_region weft_region_of_box(int ndim, const int64_t extent[], const int64_t stride[], size_t element_size,
                               int64_t offset);

#endif
