/* src/sharding: how a call is shared out over a mesh. An operation's rule, the layouts of its inputs and its
 * attributes give its sharding: the layouts that it works on. PURE: no tensor, no StarPU, no MPI, no threads; the same
 * on every process.
 *
 *   rule.h       the text of a rule, read, and bound to shapes
 *   strategy.h   the ways in which one mesh dimension can share an operation out; the search for the cheapest
 *   types.h      element types: promotion, and the type of an output
 *   operation.h  operations, as data
 *   sharding.h   all of that, for one call */
#ifndef WEFT_SRC_SHARDING_H
#define WEFT_SRC_SHARDING_H

#include "base/map.h"
#include "sharding/operation.h"
#include "sharding/types.h"

/* Parsed rules, by the address of their text, which must stay. Zero-initialise it. */
typedef struct weft_rule_table {
    weft_map rules;
} weft_rule_table;

void weft_rule_table_free(weft_rule_table *table);
/* The rule of a text, parsed at the first use. WEFT_ERR_INVALID with why; WEFT_ERR_NOMEM. */
weft_status weft_rule_table_get(weft_rule_table *table, const char *text, const weft_rule **rule, char *why,
                                size_t why_size);

/* The inputs of a sharding beside the call. */
typedef struct weft_sharding_world {
    weft_layout_table *table; /* where the layouts that are considered are interned */
    const weft_topology *topology;
    const weft_cost_model *cost;
    weft_rule_table *rules;
    weft_forced_sharding *forced; /* NULL, or not active: the cheapest */
    weft_search_record *record;   /* NULL: none. For calls by rule */
} weft_sharding_world;

/* Whether the inputs are of one mesh, and of types that the operation takes. WEFT_ERR_DTYPE, WEFT_ERR_MESH with why,
 * which names the argument. */
weft_status weft_call_check_inputs(const weft_call_layouts *call, char *why, size_t why_size);
/* The types that the operation takes alone. */
weft_status weft_call_check_types(const weft_call_layouts *call, char *why, size_t why_size);
/* The same of two layouts: WEFT_ERR_MESH. */
weft_status weft_check_one_mesh(const char *first_name, const weft_layout *first, const char *other_name,
                                const weft_layout *other, char *why, size_t why_size);

/* The sharding of a call whose inputs have been checked: by its rule, or as the operation chooses. WEFT_ERR_SHAPE,
 * WEFT_ERR_LAYOUT, WEFT_ERR_INVALID with why; WEFT_ERR_NOMEM. */
weft_status weft_call_shard(const weft_sharding_world *world, const weft_call_layouts *call,
                            weft_sharding *sharding, char *why, size_t why_size);

/* The rule of a call, bound to its shapes; and what its outputs are before their layouts are chosen. For operations with a
 * rule. A status with why, as weft_call_shard(). */
weft_status weft_call_bind(const weft_sharding_world *world, const weft_call_layouts *call, weft_binding *binding,
                           char *why, size_t why_size);
void weft_call_outputs(const weft_call_layouts *call, int num_outputs, weft_output_kind outputs[]);

/* The layouts that a call could work on, if its inputs were in them: those of the first 4096 combinations of strategies that cut each
 * factor into at least as many indices as ranks, and pass no Partial placements but sums. Appends arrays of
 * WEFT_MAX_INPUTS layouts to `choices`, without doubles. A status with why, as weft_call_shard() (choices.c). */
weft_status weft_call_list_choices(const weft_sharding_world *world, const weft_call_layouts *call, weft_vec *choices,
                                   char *why, size_t why_size);
/* Index points of the loop nest on the busiest rank, where the inputs lie like this. */
double weft_binding_work(const weft_binding *binding, const weft_layout *const inputs[],
                         const weft_layout *const outputs[]);

/* The access map of an input in the layouts of a sharding, along the dimensions that it is sharded in and the rule reads
 * through one; `cut` NULL: there is none. False: no memory. */
bool weft_sharding_access(weft_layout_table *table, const weft_call_layouts *call,
                          const weft_sharding *sharding, int input, weft_access_map *access_map);

#endif
