/* Lists of sizes at random. */
#ifndef WEFT_TESTS_CUTS_H
#define WEFT_TESTS_CUTS_H

#include <stdlib.h>

#include <weft/placement.h>

#include "prng.h"

/* Any sizes that add up to `rows`: one owner of all in a third of the cases, many empty parts in another. */
static inline weft_placement sizes_of_rows(prng *random, int dim, int64_t parts, int64_t rows)
{
    int64_t *sizes = (int64_t *)calloc((size_t)parts, sizeof(*sizes)), kind = prng_below(random, 3);
    int64_t left = rows;
    for (int64_t i = 0; i < parts && kind > 0; i++) {
        int64_t most = kind == 1 ? left : left / 2 + 1;
        sizes[i] = prng_below(random, 3) == 0 ? 0 : prng_below(random, (most < left ? most : left) + 1);
        left -= sizes[i];
    }
    sizes[prng_below(random, parts)] += left;
    weft_placement placement = weft_shard_sizes(dim, (int)parts, sizes);
    free(sizes);
    return placement;
}

#endif
