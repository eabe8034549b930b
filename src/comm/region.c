#include "comm/comm.h"

int64_t weft_region_bytes(const weft_region *region)
{
    int64_t bytes = region->run_bytes;
    for (int d = 0; d < region->ndim; d++) {
        bytes *= region->count[d];
    }
    return bytes;
}

weft_region weft_region_of_box(int ndim, const int64_t extent[], const int64_t stride[], size_t element_size,
                               int64_t offset)
{
    weft_region region = { .offset = offset, .run_bytes = (int64_t)element_size };
    int d = ndim - 1;
    /* Inner dimensions that are contiguous make one run. */
    int64_t run_elements = 1;
    for (; d >= 0 && (stride[d] == run_elements || extent[d] == 1); d--) {
        run_elements *= extent[d];
    }
    region.run_bytes *= run_elements;
    int64_t count[WEFT_MAX_DIMS], step[WEFT_MAX_DIMS];
    int outer = 0;
    for (; d >= 0; d--) {
        if (extent[d] == 1) {
            continue;
        }
        count[outer] = extent[d];
        step[outer++] = stride[d] * (int64_t)element_size;
    }
    region.ndim = outer;
    for (int i = 0; i < outer; i++) {
        region.count[i] = count[outer - 1 - i];
        region.stride[i] = step[outer - 1 - i];
    }
    return region;
}
