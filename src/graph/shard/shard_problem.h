/* The problem of a trace's layouts (shard_solve.c), and what a solution says (shard_result.c). */
#ifndef WEFT_SRC_GRAPH_SHARD_SHARD_PROBLEM_H
#define WEFT_SRC_GRAPH_SHARD_SHARD_PROBLEM_H

#include "graph/shard/shard.h"

/* A value of the trace in the problem. */
typedef struct weft_shard_value {
    int unit, slot; /* that gives it; -1: an input, or it stays as it was recorded */
    int num_uses;
    bool bound;     /* in a tensor of the program's, changed in place or not: the layout stays */
    bool wanted;    /* the program gets it, in the recorded layout */
    bool views;     /* it may share the memory of the call's input */
    bool pinned;
    int variable;   /* of its layout; -1: that of the unit alone */
    weft_vec layouts; /* const weft_layout *: choices of the variable */
} weft_shard_value;

typedef struct weft_shard_problem {
    const weft_shard_request *request;
    const weft_graph_trace *trace;
    weft_shard_world *world;
    weft_assign *problem;
    weft_vec units; /* weft_shard_unit */
    weft_shard_value *values;
    int num_variables;
    int *choices, *start; /* by variable */
    int widest_node;      /* where most bytes are live */
    bool out_of_memory;
} weft_shard_problem;

static inline weft_shard_unit *weft_shard_unit_at(const weft_shard_problem *s, int number)
{
    return (weft_shard_unit *)s->units.items + number;
}

static inline const weft_layout *weft_shard_layout_at(const weft_shard_value *v, int choice)
{
    return ((const weft_layout *const *)v->layouts.items)[choice];
}

/* The value of a unit's slot; -1: none. */
static inline int weft_shard_value_of(const weft_shard_problem *s, const weft_shard_unit *unit, int slot)
{
    return weft_trace_node(s->trace, (size_t)unit->node)->inputs[unit->slots[slot]];
}

/* Bytes of a rank by node, where values lie as given: the most, and where. */
int64_t weft_shard_peak(const weft_shard_problem *s, const weft_layout *const layouts[], int *where);
/* The layouts that the choices stand for. NULL: no memory. */
weft_trace_sharding *weft_shard_read_solution(const weft_shard_problem *s);
/* Whether all its redistributions exist: nothing becomes Partial. */
bool weft_shard_can_be_made(const weft_shard_problem *s, const weft_trace_sharding *of);
/* Notes the figures of a solution. False: no memory. */
bool weft_shard_describe(const weft_shard_problem *s, weft_trace_sharding *solution);

#endif
