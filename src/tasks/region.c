#include "tasks/region.h"

#include <string.h>

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
    /* Contiguous inner dimensions make one run. */
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

/* Copies the runs between a panel's memory and contiguous bytes, in either direction. */
static void copy_runs(const weft_region *region, char *memory, char *packed, bool write)
{
    int64_t index[WEFT_MAX_DIMS] = { 0 }, place = region->offset;
    for (int d = 0; d >= 0;) {
        char *run = memory + place;
        memcpy(write ? run : packed, write ? packed : run, (size_t)region->run_bytes);
        packed += region->run_bytes;
        for (d = region->ndim - 1; d >= 0; d--) { /* the next run: counts up from the innermost dimension */
            place += region->stride[d];
            if (++index[d] < region->count[d]) {
                break;
            }
            place -= region->count[d] * region->stride[d];
            index[d] = 0;
        }
    }
}

void weft_region_read(const weft_region *region, const void *memory, void *packed)
{
    if (weft_region_bytes(region) > 0) {
        copy_runs(region, (char *)memory, packed, false); /* which writes only to `packed` */
    }
}

void weft_region_write(const weft_region *region, void *memory, const void *packed)
{
    if (weft_region_bytes(region) > 0) {
        copy_runs(region, memory, (char *)packed, true);
    }
}
