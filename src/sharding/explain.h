/* Why a call has its sharding, for readers: the combinations of strategies that its rule allows, their predicted costs,
 * which is chosen and why; what moves to get there. weft-plan --op prints it, and weft_explain(). PURE. */
#ifndef WEFT_SRC_SHARDING_EXPLAIN_H
#define WEFT_SRC_SHARDING_EXPLAIN_H

#include <stdio.h>

#include "sharding/sharding.h"

typedef struct weft_explanation {
    const weft_sharding_world *world;
    const weft_call_layouts *call;
    weft_sharding sharding;
    weft_search_record record;      /* considered: none where the operation chooses its layouts itself */
    const weft_considered **ranked; /* all of these, the chosen one first */
    /* The number of an earlier input that is the same tensor, and is redistributed once for both; -1: none. The caller
     * may set it. */
    int same_as[WEFT_MAX_INPUTS];
    bool fits; /* no redistribution is needed: a call does not compare combinations with one */
} weft_explanation;

/* The world and the call must live as long. As weft_call_shard(), after weft_call_check_inputs(). */
weft_status weft_explanation_make(const weft_sharding_world *world, const weft_call_layouts *call,
                                  weft_explanation *explanation, char *why, size_t why_size);
void weft_explanation_free(weft_explanation *explanation);

const char *weft_explanation_reason(const weft_explanation *explanation, char *text, size_t size);
/* The letters that each mesh dimension shards: "m,-". */
const char *weft_explanation_factors(const weft_explanation *explanation, const weft_considered *considered,
                                     char *text, size_t size);

/* The redistribution of an input to the chosen layout: plan->num_stages is 0 where it stays as it is. */
weft_status weft_explanation_move(const weft_explanation *explanation, int input, weft_plan *plan,
                                  weft_plan_statistics *statistics);

/* The parts of an input, in the chosen layout, that ranks read from each other through an access map. */
typedef struct weft_explained_reads {
    bool any;
    weft_stage_kind kind;
    int64_t bytes_total, bytes_in_max, messages_max; /* from other ranks */
    double predicted_us;
} weft_explained_reads;
/* The same for any access map. */
weft_explained_reads weft_access_map_reads(const weft_topology *topology, const weft_cost_model *cost,
                                           const weft_layout *from, const weft_access_map *access_map);
/* One line, where there are any. */
void weft_explained_reads_print(const weft_explained_reads *reads, const char *indent, FILE *file);
weft_status weft_explanation_reads(const weft_explanation *explanation, int input,
                                   weft_explained_reads *reads);

/* Predicted: of all redistributions and reads. Negative: no memory. */
double weft_explanation_moves_us(const weft_explanation *explanation);

/* A page, each line after `indent`: the combinations, the reason, the inputs, the outputs. */
weft_status weft_explanation_print(const weft_explanation *explanation, const char *indent, FILE *file);
/* Two lines on a redistribution. */
void weft_explanation_print_move(const weft_plan *plan, const weft_plan_statistics *statistics,
                                 const char *indent, FILE *file);

#endif
