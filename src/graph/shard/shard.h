/* src/graph/shard: automatic shardings of a recorded trace: which layouts its calls work on, for the least predicted time.
 *
 *   shard_cost.c     the time of calls and redistributions: what a call does is found by making it on tensors without data
 *   shard_choices.c  the layouts that a call could work on
 *   shard_solve.c    all calls together, as a problem of sharding/assign.h; shard_result.c: what a solution says
 *   shard_print.c    the table
 *
 * graph/passes/pass_shard.c makes the recorded calls on the chosen layouts, with the redistributions between them; graph/run/shard.c
 * has the public functions. */
#ifndef WEFT_SRC_GRAPH_SHARD_SHARD_H
#define WEFT_SRC_GRAPH_SHARD_SHARD_H

#include <weft/graph_shard.h>

#include "graph/record/trace.h"
#include "machine/machine.h"
#include "sharding/assign.h"

/* ---- costs ----------------------------------------------------------------------------------------------- */

/* Figures that costs are computed from. */
typedef struct weft_shard_world {
    weft_machine machine;
    weft_cost_model cost;
    weft_topology topology;
    double ranks_per_worker; /* ranks of a process share its workers */
    weft_map moves;          /* known costs of redistributions */
    int64_t asked;           /* picoseconds of redistributions asked for (weft_shard_move_cost()), summed up */
    bool out_of_memory;
} weft_shard_world;

void weft_shard_world_free(weft_shard_world *world);
/* Picoseconds; WEFT_ASSIGN_IMPOSSIBLE: there is no such redistribution. */
int64_t weft_shard_move_cost(weft_shard_world *world, const weft_layout *from, const weft_layout *to);
/* Bytes of the largest shard. */
int64_t weft_shard_bytes(const weft_layout *layout);

/* Sees the calls that a call consists of. */
typedef void weft_shard_observer(void *context, const weft_call *call, int num_outputs, weft_tensor *const outputs[]);

/* Makes the call of a node on tensors without data in these layouts: the layouts of its outputs (NULL: not asked for), and
 * the time that its tasks and its redistributions take. False: it is refused. */
bool weft_shard_ask(weft_shard_world *world, const weft_graph_node *node, const weft_layout *const inputs[],
                    const weft_layout *outputs[], int64_t *cost);
/* The same for an observer; inputs are numbered 1, 2, ... by weft_tensor_impl.number, other tensors 0. */
bool weft_shard_observe(const weft_graph_node *node, const weft_layout *const inputs[], const weft_layout *outputs[],
                        weft_shard_observer *observer, void *context);

/* ---- choices --------------------------------------------------------------------------------------------- */

/* Tensors of a call whose layouts are chosen together: all of them, or one group of a call that does the same to each of
 * several lists. */
typedef struct weft_shard_unit {
    int node;
    int num_inputs, num_outputs;
    int *slots; /* which inputs and outputs of the node; inputs first */
    int num_choices;
    const weft_layout **layouts; /* [choice][slot] */
    int64_t *cost;               /* of each choice: picoseconds */
    bool is_move;                /* the output is the input, in any layout */
    bool borrowed;               /* all arrays are another unit's */
    int variable;                /* of the problem */
    int chosen;
} weft_shard_unit;

static inline const weft_layout *weft_shard_unit_layout(const weft_shard_unit *unit, int choice, int slot)
{
    return unit->layouts[choice * (unit->num_inputs + unit->num_outputs) + slot];
}

/* The input that a call returns as it is in an output, as weft_to_type() to the same type does; -1: the output is another
 * tensor, or was not asked for. */
static inline int weft_shard_returned_input(const weft_graph_node *node, int output)
{
    int found = -1;
    for (int i = 0; i < node->num_inputs && !weft_call_changes(node->call, output); i++) {
        found = node->outputs[output] >= 0 && node->inputs[i] == node->outputs[output] ? i : found;
    }
    return found;
}

/* Appends the units of a node (weft_shard_unit). False: no memory. */
bool weft_shard_list_units(weft_shard_world *world, const weft_graph_trace *trace, int node, weft_vec *units);
void weft_shard_units_free(weft_vec *units);

/* All layouts of a tensor without Partial that cut dimensions into at least as many rows as ranks; with `sums` those with
 * Partial(sum) too. Appends to a vector of layouts. False: no memory. */
bool weft_shard_list_layouts(const weft_layout *like, bool sums, weft_vec *layouts);

/* ---- a solution ------------------------------------------------------------------------------------------ */

/* Chosen layouts of a trace (weft_graph_trace.sharding). */
typedef struct weft_trace_sharding {
    size_t num_nodes, num_values;
    const weft_layout **inputs; /* by node, from first_input[node] on: those that the call works on */
    int *first_input;
    const weft_layout **values; /* by value: as the call gives it; of inputs: the best layout */
    const weft_layout **passed; /* by value: it is brought to this layout once, for all calls that read it */
    /* By value: the additional cost of the best other layout, of it alone or with the values that must lie alike; -1: none. */
    int64_t *alternatives;
    bool *is_passed;            /* by node: a redistribution whose output is its input, in the layout that it is passed on in */
    int64_t cost;               /* picoseconds, predicted */
    int64_t recorded_cost;      /* of the layouts of the capture; WEFT_ASSIGN_IMPOSSIBLE: not known */
    int64_t peak, recorded_peak; /* bytes of a rank where most are live */
    weft_assignment search;
    bool has_moved_inputs;      /* some input would lie better elsewhere: bodies keep the recorded calls */
} weft_trace_sharding;

void weft_trace_sharding_free(weft_trace_sharding *sharding);
/* weft_meet_layout() for all of its layouts, of a sharding of this trace. */
void weft_trace_sharding_meet_layouts(const weft_trace_sharding *sharding, const weft_graph_trace *trace);

/* A pin of the program's: a value along one mesh dimension, or all of them (-1). */
typedef struct weft_shard_pin {
    int value, mesh_dim;
    weft_placement placement;
} weft_shard_pin;

typedef struct weft_shard_request {
    const weft_graph_trace *trace;
    weft_shard_world *world;
    int64_t max_bytes;  /* of a rank; 0: any */
    const bool *movable; /* by value */
    int num_pins;
    const weft_shard_pin *pins;
} weft_shard_request;

/* A status with why. */
weft_status weft_shard_solve(const weft_shard_request *request, weft_trace_sharding **solution, char *why,
                             size_t why_size);

void weft_shard_print(const weft_graph_trace *trace, const weft_trace_sharding *sharding, FILE *file);

#endif
