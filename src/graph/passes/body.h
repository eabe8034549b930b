/* src/graph/passes: PASSES make a BODY of a recorded trace, the trace that is executed in its place. A body depends on the recorded
 * trace, a set of promised values and the passes' switches alone, so that all processes make the same one.
 *
 * A pass reads body->trace, marks nodes as removed, values as replaced by others, adds values, and inserts nodes;
 * weft_body_apply() then carries this out. Nodes keep the number of the recorded call that they take scalars, random state
 * and region from (weft_graph_node.source); values, that of the recorded value that they are (weft_graph_value.recorded). */
#ifndef WEFT_SRC_GRAPH_PASSES_BODY_H
#define WEFT_SRC_GRAPH_PASSES_BODY_H

#include <weft/graph.h>

#include "graph/record/trace.h"

/* Counts of what passes have done to one body. */
typedef struct weft_body_counts {
    int redundant, common, dead; /* calls removed by these passes */
    int explicit_moves;          /* redistributions within calls that became calls */
    int stencils;                /* calls that stencils became */
    int bucketed, buckets;       /* redistributions that travel together, and as how many */
} weft_body_counts;

typedef struct weft_graph_body {
    const weft_graph_trace *recorded;
    weft_graph_trace *trace; /* executed; `recorded` itself if there are no passes but clustering */
    unsigned passes;
    bool *wanted;      /* by recorded value: it is promised */
    int *values;       /* by recorded value: its number in `trace`; -1: nothing needs it */
    bool *is_promised; /* by value of `trace` */
    uint64_t digest;   /* equal on all processes */
    size_t bytes;
    int64_t peak_bytes; /* weft_trace_peak() */
    int *takes; /* by value of `trace`: the value whose memory it takes over; -1: none. NULL: none does */
    bool is_ordered;  /* messages of other processes are waited for: the pass order has looked at it */
    uint32_t *places; /* by node: its place in the order of priorities; of a cluster: its first node's. NULL: they run in the
                         order of their calls */
    uint32_t num_places;
    weft_body_counts counts;
    struct weft_clusters *clusters; /* NULL: none */
    weft_vec fixed_scalars; /* weft_fixed_scalars: the body is for runs with these */
    weft_vec equal_scalars; /* weft_equal_scalars: and for runs where these are equal */
    const weft_deferred_call *calls; /* while it is built: of the run, by recorded call */
    weft_vec buckets;               /* struct weft_bucket * */
    weft_vec inserted;              /* by weft_body_insert(), until weft_body_apply() */
} weft_graph_body;

/* A recorded call whose scalars have become part of the body. */
typedef struct weft_fixed_scalars {
    int call;
    double scalars[WEFT_MAX_SCALARS];
} weft_fixed_scalars;

/* Two recorded calls that became one. */
typedef struct weft_equal_scalars {
    int one, other;
} weft_equal_scalars;

/* Makes the body; calls[]: of the run that it is built in. NULL with the error kept: no memory. */
weft_graph_body *weft_body_build(const weft_graph_trace *recorded, const bool wanted[], const weft_deferred_call calls[],
                                 unsigned passes);
/* May be NULL. */
void weft_body_free(weft_graph_body *body);

/* Whether the body is for a run with these scalars; if not, later bodies do not depend on those that differ. */
bool weft_body_fits(const weft_graph_body *body, const weft_deferred_call calls[]);
/* weft_meet_layout() for all layouts of its own. */
void weft_body_meet_layouts(const weft_graph_body *body);
/* Frees all bodies of a trace. */
void weft_bodies_drop(weft_graph_trace *trace);

/* ---- for passes ------------------------------------------------------------------------------------------ */

/* A pass. False: no memory. */
typedef bool weft_graph_pass_function(weft_graph_body *body);

/* A new value of the body; -1: no memory. */
int weft_body_add_value(weft_graph_body *body, const weft_layout *layout);
/* A call (copied) before the node `before`; those inserted before one node keep their order. False: no memory. */
bool weft_body_insert(weft_graph_body *body, size_t before, const weft_call *call, const int inputs[], int num_outputs,
                      const int outputs[]);
/* The same for a call that the recorded call `source` is made of. */
bool weft_body_insert_step(weft_graph_body *body, size_t before, int source, const weft_call *call, const int inputs[],
                           int num_outputs, const int outputs[]);
/* The body depends on the scalars of a recorded call. False: no memory. */
bool weft_body_fix_scalars(weft_graph_body *body, int source);
/* A node goes to before another one; it comes after those inserted there. False: no memory. */
bool weft_body_move(weft_graph_body *body, size_t number, size_t before);
/* The body takes over a bucket, whether or not there is memory. False: no memory. */
struct weft_bucket;
bool weft_body_add_bucket(weft_graph_body *body, struct weft_bucket *bucket);
/* All uses of a value become uses of another one, which is computed before them. */
void weft_body_replace(weft_graph_body *body, int value, int by);
/* The value that has taken a value's place, or itself. */
static inline int weft_body_value(const weft_graph_body *body, int value)
{
    while (value >= 0 && weft_trace_value(body->trace, value)->replaced >= 0) {
        value = weft_trace_value(body->trace, value)->replaced;
    }
    return value;
}
/* Whether the calls of two nodes have the same scalars in the run that builds the body; and notes that the body depends on
 * that (false: no memory). */
bool weft_body_has_equal_scalars(const weft_graph_body *body, const weft_graph_node *a, const weft_graph_node *b);
bool weft_body_add_equal_scalars(weft_graph_body *body, int one, int other);
static inline void weft_body_remove(weft_graph_node *node)
{
    node->removed = true;
}

/* Carries out the changes, and finds the last uses anew. False: no memory. */
bool weft_body_apply(weft_graph_body *body);

/* Whether the call changes one of its inputs in place. */
bool weft_node_changes_inputs(const weft_graph_node *node);

#endif
