/* The layouts that the search for strategies meets, and what it costs to get there. PURE. */
#ifndef WEFT_SRC_SHARDING_CANDIDATES_H
#define WEFT_SRC_SHARDING_CANDIDATES_H

#include "sharding/strategy.h"

/* Of an input: a layout to work on. Of the output: a layout with Partial placements that will have to be
 * reduced. */
typedef struct weft_candidate {
    weft_placement placements[WEFT_MAX_DIMS];
    const weft_layout *layout;
    int64_t cost; /* picoseconds: whole numbers, so that equal costs are equal; negative: impossible */
} weft_candidate;

typedef struct weft_searcher {
    const weft_search *search;
    const weft_binding *binding;
    const weft_layout *const *inputs;
    const weft_mesh_impl *mesh;
    weft_strategy strategies[WEFT_MAX_DIMS]
                            [WEFT_MAX_STRATEGIES]; /* of each mesh dimension, those that are possible */
    int num_strategies[WEFT_MAX_DIMS];
    weft_vec candidates[WEFT_MAX_INPUTS]; /* weft_candidate: the layouts of each input that were met */
    weft_vec reductions;                  /* weft_candidate: those of the output whose reduction counts */
    weft_dtype output_type;
    bool has_compounds; /* dimensions of several factors */
    bool out_of_memory;
} weft_searcher;

/* The size of what an input's dimension is seen through windows for, or -1 where it is not. */
int64_t weft_rows_of_access(const weft_binding *binding, int input, int dim);

/* An input in other placements: moving it there, and its windows. NULL: no memory. */
const weft_candidate *weft_input_candidate(weft_searcher *s, int input, const weft_placement placements[]);
/* The output in placements of which some are Partial: the cheapest reduction, to a shard where it has
 * dimensions. NULL: no memory. */
const weft_candidate *weft_output_candidate(weft_searcher *s, const weft_placement placements[]);
const weft_layout *weft_searched_output(const weft_searcher *s, const weft_placement placements[]);

#endif
