/* Strategies: the ways in which one mesh dimension can share an operation, and the search for the best
 * combination. PURE: layouts in, layouts out; the same on every process. */
#ifndef WEFT_SRC_SHARDING_STRATEGY_H
#define WEFT_SRC_SHARDING_STRATEGY_H

#include <weft/operation.h>

#include "plan/plan.h"
#include "sharding/rule.h"

/* Placements of all operands along one mesh dimension. */
typedef struct weft_strategy {
    int factor;         /* the sharded factor, or -1 */
    weft_placement cut; /* how, by a Shard of a dimension of the factor's size */
    weft_placement inputs[WEFT_MAX_INPUTS];
    weft_placement outputs[WEFT_MAX_OUTPUTS];
} weft_strategy;

/* Properties of an output before its layout is chosen. */
typedef struct weft_output_kind {
    weft_dtype dtype;
    weft_linearity linear;
    bool in_place; /* it is the input of the same number, and keeps its layout */
    bool repeats;  /* along factors that it lacks ranks compute the same, and not parts of it */
    unsigned joins; /* weft_operation.joins */
    bool joins_large;
} weft_output_kind;

/* A shard of each factor, once more for each input that is cut otherwise, Partial passing through for every op and input, all
 * Replicate. */
enum { WEFT_MAX_STRATEGIES = WEFT_MAX_FACTORS + 6 * WEFT_MAX_INPUTS + 1 };

/* All strategies of a mesh dimension in the order of preference among equals: shards of the outputs' factors, shards of
 * contracted factors, Partial passing through, all Replicate. A factor is cut into chunks, or as an input is now along the mesh
 * dimension. Partial passes where every output is linear in the same way. `inputs`: the layouts, or NULL: chunks alone. Returns
 * how many were written. */
int weft_strategy_list(const weft_binding *binding, const weft_output_kind outputs[], const weft_mesh_impl *mesh,
                       const weft_layout *const inputs[], int mesh_dim, weft_strategy strategies[WEFT_MAX_STRATEGIES]);

/* weft_attributes.wish of an output that is read in the placements of `layout`. */
int64_t weft_wish(const weft_layout *layout);
/* The placements that a wish names for an output; along mesh dimensions without one, its own. */
void weft_wished_placements(int64_t wish, const weft_layout *output, weft_placement wished[]);

/* ---- compound dimensions (compound.c) ------------------------------------------------------------------ */

/* Where a compound dimension has a factor; -1: it does not. */
int weft_compound_position(const weft_compound *compound, int factor);
/* The cut of the dimension if the factor at `position` is cut, of which there are `rows`; `dim` and `level` are those of `cut`.
 * False: no placement says it, or the factor needs a better one. */
bool weft_compound_cut(const weft_binding *binding, const weft_compound *compound, int position, weft_placement cut, int64_t rows,
                       int64_t parts, weft_placement *scaled);
/* The placements of an operand's dimension `dim` where mesh dimension m cuts factors[m] (-1: none) by cuts[m]: outer factors
 * first. Writes those of the mesh dimensions that cut one of its factors. False: no placements say it. */
bool weft_compound_place(const weft_binding *binding, const weft_compound *compound, int dim, const weft_mesh_impl *mesh,
                         const int factors[], const weft_placement cuts[], weft_placement placements[]);
/* The factor that a mesh dimension cuts in a layout's dimension `dim`, and how; -1: it cuts no factor of it alone. */
int weft_compound_read(const weft_binding *binding, const weft_compound *compound, const weft_layout *layout, int dim, int mesh_dim,
                       weft_placement *cut);

/* The rows (dimension 0) of an operand that belong to some rows of output 0, according to the rule. */
typedef enum weft_rows_relation {
    WEFT_ROWS_ALL = 0, /* all rows of the rank */
    WEFT_ROWS_SAME,    /* the rows with the same numbers */
    WEFT_ROWS_WINDOW,  /* the rows that the rows with the same indices read through the access map */
    WEFT_ROWS_SUMMED   /* all, and they are contracted: they may come piece by piece */
} weft_rows_relation;

/* For one input of a bound rule. If several inputs have contracted rows, those with input 0's factor
 * are WEFT_ROWS_SUMMED. */
weft_rows_relation weft_binding_rows(const weft_binding *binding, int input);
/* For an output: WEFT_ROWS_SAME or WEFT_ROWS_ALL. */
weft_rows_relation weft_binding_output_rows(const weft_binding *binding, int output);

/* The layouts that an operation works on. */
typedef struct weft_sharding {
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    int num_outputs;
    const weft_layout *outputs[WEFT_MAX_OUTPUTS];
    weft_rows_relation rows[WEFT_MAX_INPUTS], output_rows[WEFT_MAX_OUTPUTS];
    bool has_access_maps;
    bool has_cuts; /* a search has chosen: how it cuts the factor that each mesh dimension shards */
    weft_placement cuts[WEFT_MAX_DIMS];
    /* For an input's dimension read through a window: the size of the dimension that reads it. Else -1. */
    int64_t window_rows[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    bool whole_rows; /* dimension 0 of output 0 must not be sharded */
} weft_sharding;

/* A choice other than the cheapest: for tests of all strategies. */
typedef struct weft_forced_sharding {
    bool active;
    int64_t combination; /* its number, modulo the number of possible ones */
    int64_t most;        /* the largest number of possible ones in any search: kept by the searches */
} weft_forced_sharding;

/* One combination of strategies that a search has compared. */
typedef struct weft_considered {
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    weft_placement outputs[WEFT_MAX_OUTPUTS][WEFT_MAX_DIMS];
    char factors[WEFT_MAX_DIMS]; /* names of the factors that each mesh dimension shards; 0: none */
    double us;                   /* predicted: redistributions of inputs, reductions of outputs */
    int changed;                 /* inputs that are redistributed */
    double work;                 /* index points of the loop nest on the busiest rank */
} weft_considered;

/* The record of a search, for explanations. Zero-initialise. */
typedef struct weft_search_record {
    /* Compare also combinations that move an input where none has to move: the result is the same. */
    bool complete;
    weft_vec considered; /* weft_considered: possible combinations, in the order of preference among equals */
    int64_t num_impossible;
    bool failed; /* no memory for all of them */
} weft_search_record;

/* The search's knowledge of the world. */
typedef struct weft_search {
    weft_layout_table *table; /* where the layouts that are considered are interned */
    const weft_topology *topology;
    const weft_cost_model *cost;
    weft_forced_sharding *forced; /* NULL, or not active: the cheapest */
    weft_search_record *record;   /* NULL: none */
    /* Access maps of the inputs' dimensions: all fields but the size. NULL: the rule has none. */
    weft_window (*access_map)[WEFT_MAX_DIMS];
    int64_t wish; /* weft_attributes.wish */
} weft_search;

/* The combination of strategies, one per mesh dimension, with the least predicted cost: weft_plan_estimate() and weft_access_map_cost()
 * summed over the inputs, the reduction of outputs that become Partial along mesh dimensions where an input moves, and the way of
 * output 0 to where it is wished. Among equals: the fewest inputs changed, the least work for the busiest rank, the
 * first in order (mesh dimension 0 varying slowest). The inputs are on one mesh. `outputs`: as many as the
 * binding has. WEFT_ERR_LAYOUT with why if nothing is possible; WEFT_ERR_NOMEM. */
weft_status weft_strategy_search(const weft_search *search, const weft_binding *binding,
                                 const weft_output_kind outputs[], const weft_layout *const inputs[],
                                 weft_sharding *sharding, char *why, size_t why_size);

#endif
