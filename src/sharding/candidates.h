/* The layouts that the search for strategies considers, and the cost of reaching them. PURE. */
#ifndef WEFT_SRC_SHARDING_CANDIDATES_H
#define WEFT_SRC_SHARDING_CANDIDATES_H

#include "sharding/strategy.h"

/* For an input: a layout to work on. For the output: a layout with Partial placements that will have to be
 * reduced. */
typedef struct weft_candidate {
    weft_placement placements[WEFT_MAX_DIMS];
    const weft_layout *layout;
    int64_t cost; /* picoseconds: integers, so that equal costs are equal; negative: impossible */
} weft_candidate;

typedef struct weft_searcher {
    const weft_search *search;
    const weft_binding *binding;
    const weft_layout *const *inputs;
    const weft_mesh_impl *mesh;
    int num_strategies[WEFT_MAX_DIMS];
    weft_vec candidates[WEFT_MAX_INPUTS];  /* weft_candidate: the considered layouts of each input */
    weft_vec wished;                       /* weft_candidate: layouts of output 0, and its way to where it is wished */
    weft_vec reductions[WEFT_MAX_OUTPUTS]; /* weft_candidate: layouts of each output whose reduction counts */
    const weft_output_kind *outputs;
    bool out_of_memory;
    /* For each mesh dimension, the possible ones. The last member, and not zeroed: the first few of a third of a megabyte are used. */
    weft_strategy strategies[WEFT_MAX_DIMS][WEFT_MAX_STRATEGIES];
} weft_searcher;

/* The size of the dimension that reads an input's dimension through an access map, or -1 without one. */
int64_t weft_rows_of_access(const weft_binding *binding, int input, int dim);

/* An input in other placements: moving it there, and its access maps. NULL: no memory. */
const weft_candidate *weft_input_candidate(weft_searcher *s, int input, const weft_placement placements[]);
/* An output in placements that include Partial: its cheapest reduction, to a shard if it has dimensions.
 * NULL: no memory. */
const weft_candidate *weft_output_candidate(weft_searcher *s, int output, const weft_placement placements[]);
/* Output 0 in these placements, and its way to those that the search's wish names. NULL: no memory. */
const weft_candidate *weft_wished_candidate(weft_searcher *s, const weft_placement placements[]);
const weft_layout *weft_searched_output(const weft_searcher *s, int output,
                                        const weft_placement placements[]);

/* Notes a combination in the search's record, by the numbers of its strategies; `figures`: all but factors and outputs,
 * NULL where it is impossible. */
void weft_search_note(const weft_searcher *s, const int strategies[], const weft_considered *figures);

#endif
