/* Which tensors outgrow the machine's caches. */
#ifndef WEFT_RUNTIME_LAST_CACHE_H
#define WEFT_RUNTIME_LAST_CACHE_H

#include "runtime/runtime.h"

/* Whether this process' shards exceed the largest cache: then their first lines are evicted before they are read, and
 * non-temporal stores save the reading of each line that is written. */
static inline bool weft_outgrows_cache(const weft_layout *layout)
{
    double bytes = 0;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        bytes += (double)weft_layout_shard_count(layout, weft_runtime.first_rank + i) *
                 (double)weft_dtype_size(layout->dtype);
    }
    return weft_runtime.last_cache_bytes > 0 && bytes > (double)weft_runtime.last_cache_bytes;
}

#endif
