/* Lists of sizes at random. */
#ifndef WEFT_TESTS_CUTS_H
#define WEFT_TESTS_CUTS_H

#include <stdbool.h>
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

/* Makes a cut repeat after a few rows in one case of three, any cut but the given one in half of these. Drawn beside the others,
 * whose sequence stays. */
static inline weft_placement perhaps_periodic(const prng *random, int64_t parts, weft_placement p)
{
    prng own = *random;
    if (prng_below(&own, 3) == 0) {
        int64_t period = 1 + prng_below(&own, 14), kind = prng_below(&own, 6);
        if (kind < 2) {
            p = kind == 0 ? weft_shard(p.dim) : weft_shard_balanced(p.dim);
        }
        p = kind == 2 || p.cut == WEFT_CUT_SIZES ? sizes_of_rows(&own, p.dim, parts, period) : p;
        p.period = period;
    }
    return p;
}

/* Cyclic, zigzag or periodic. */
static inline weft_placement cut_in_runs(prng *random, int dim, int64_t parts)
{
    weft_placement p = { .kind = WEFT_SHARD, .dim = dim, .cut = WEFT_CUT_ZIGZAG };
    if (prng_below(random, 3) > 0) {
        p.cut = WEFT_CUT_CYCLIC;
        p.block = 1 + (prng_below(random, 3) == 0 ? 0 : prng_below(random, 12));
        p.first = prng_below(random, 2) == 0 ? 0 : (int)prng_below(random, parts);
    }
    return perhaps_periodic(random, parts, p);
}

/* Whether mesh dimension m is the first of those that shard its tensor dimension. */
static inline bool cuts_first(int count, const weft_placement placements[], int m)
{
    bool first = placements[m].kind == WEFT_SHARD;
    for (int k = 0; k < count; k++) {
        bool shares = placements[k].kind == WEFT_SHARD && placements[k].dim == placements[m].dim;
        bool before = placements[k].level < placements[m].level || (placements[k].level == placements[m].level && k < m);
        first = first && !(shares && before);
    }
    return first;
}

/* Levels for the Shards of one layout in three: tied, with gaps, in any order. Drawn beside the others, whose sequence stays. */
static inline void draw_levels(const prng *random, int count, weft_placement placements[])
{
    prng own = *random;
    bool draws = prng_below(&own, 3) == 0;
    for (int m = 0; m < count && draws; m++) {
        placements[m].level = placements[m].kind == WEFT_SHARD ? (int)prng_below(&own, 4) : 0;
    }
}

#endif
