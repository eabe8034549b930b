/* src/graph/record: recorded calls.
 *
 * A TRACE records the calls of one segment of a graph's run (graph/run/graph.h), or is made from such a one by passes
 * (graph/passes/body.h). Its tensors are numbers: a number stands for one value, so a call that changes a tensor in place gives
 * it a new one. A trace has concrete sizes; traces that differ in sizes alone are INSTANCES of one TEMPLATE. */
#ifndef WEFT_SRC_GRAPH_RECORD_TRACE_H
#define WEFT_SRC_GRAPH_RECORD_TRACE_H

#include <stdio.h>

#include "base/text.h"
#include "call/call.h"
#include "tensor/tensor.h"

/* A recorded call. */
typedef struct weft_graph_node {
    weft_call *call; /* its tensors are not used */
    size_t bytes;    /* of the copy */
    int num_inputs, num_outputs;
    int *inputs;     /* numbers; -1: NULL. The outputs' follow */
    int *outputs;    /* -1: not asked for */
    const char *here; /* the program's file of the call (weft_here()); NULL: unknown */
    int here_line;
    bool draws;      /* takes random numbers */
    bool implicit;   /* within weft_implicit_replication_begin() */
    bool without_data; /* its outputs have none: nothing is executed */
    bool shares_call; /* `call` is another trace's */
    bool removed;    /* by a pass */
    int source;      /* the recorded call that it takes scalars and random state from; -1: none */
    bool is_step;    /* of a body: one of the calls that a composite is made of */
    bool scalars_differ; /* of a recorded call that was made before in some runs: in others with other scalars */
    bool scalars_vary; /* of a recorded composite whose calls depend on its scalars: these differ from run to run */
} weft_graph_node;

typedef struct weft_graph_value {
    const weft_layout *layout;
    bool is_input;
    bool is_fake; /* the tensor has no data (weft_fake()) */
    uint64_t ghosts; /* weft_ghosted_digest(): in ghosted arrays, which calls on them read and write; 0: not */
    bool is_memory; /* an input that weft_from_local() has made within the segment */
    bool is_promised; /* of a body: a promised tensor waits for it */
    int argument; /* of an input: its number among the graph's inputs; -1: it is none */
    int constant; /* of an input: the number of the opaque function that made it once; -1: none did */
    int last_use; /* the last node that reads it; -1: none */
    int recorded; /* its number in the recorded trace; -1: it is a body's alone */
    int replaced; /* of a body: the value that takes its place; -1: none */
} weft_graph_value;

enum { WEFT_MAX_BODIES = 4 }; /* of one trace */

typedef struct weft_graph_trace {
    weft_vec nodes;  /* weft_graph_node */
    weft_vec values; /* weft_graph_value, by number */
    size_t bytes;
    uint64_t inputs;   /* weft_graph_impl.inputs_hash of the newest run that used it */
    uint64_t last_run; /* of the graph: the least recently used trace goes first */
    struct weft_graph_trace *older, *newer; /* of its segment, by use */
    uint64_t *prefixes; /* of a segment's: by node, of the calls up to it (weft_prefix_call()); NULL: of none */
    uint64_t runs;     /* how often it was executed */
    uint64_t digest;   /* weft_trace_digest() */
    uint64_t template; /* of weft_trace_digest() */
    bool *wanted;      /* by value: promised in the newest run; NULL: not executed yet */
    uint64_t run_number; /* weft_deferral.number of the newest of these */
    struct weft_trace_sharding *sharding; /* chosen layouts (graph/shard/shard.h); NULL: those of the capture */
    int *outputs;      /* of the newest checked run that ended with it: weft_output_place of each; NULL: none yet */
    struct weft_frozen *frozen; /* what is known of its numbers and tensors (graph/run/frozen.h); NULL: nothing */
    struct weft_graph_body *executed; /* by the newest run; NULL: the trace itself */
    int num_bodies;
    struct weft_graph_body *bodies[WEFT_MAX_BODIES]; /* for sets of promised values (graph/passes/body.h) */
} weft_graph_trace;

static inline weft_graph_node *weft_trace_node(const weft_graph_trace *trace, size_t i)
{
    return (weft_graph_node *)trace->nodes.items + i;
}

static inline weft_graph_value *weft_trace_value(const weft_graph_trace *trace, int number)
{
    return (weft_graph_value *)trace->values.items + number;
}

static inline const weft_layout *weft_trace_layout(const weft_graph_trace *trace, int number)
{
    return weft_trace_value(trace, number)->layout;
}

/* NULL: no memory. */
weft_graph_trace *weft_trace_new(void);
/* Without its bodies and its sharding (weft_graph_trace_free()). May be NULL. */
void weft_trace_free(weft_graph_trace *trace);
/* A new trace with the first nodes and values of another one. NULL: no memory. */
weft_graph_trace *weft_trace_begin_like(const weft_graph_trace *trace, size_t num_nodes, int num_values);
/* False: no memory. */
bool weft_trace_add_value(weft_graph_trace *trace, const weft_layout *layout, bool is_input);
/* A value like another trace's. False: no memory. */
bool weft_trace_add_like(weft_graph_trace *trace, const weft_graph_value *value);
/* Whether a value lies in ghosted arrays. */
bool weft_trace_has_ghosts(const weft_graph_trace *trace);
/* Whether one that the node reads does. */
bool weft_node_has_ghosts(const weft_graph_trace *trace, const weft_graph_node *node);
/* Records a call with the numbers of its tensors: weft_call_num_tensors() and num_outputs of them. False: no memory. */
bool weft_trace_add_node(weft_graph_trace *trace, const weft_call *call, const int inputs[], int num_outputs,
                         const int outputs[]);
/* Appends a node of another trace, which keeps the call. False: no memory. */
bool weft_trace_share_node(weft_graph_trace *trace, const weft_graph_trace *other, size_t number);
/* A node by itself: its call is copied. False: no memory. */
bool weft_node_make(weft_graph_node *node, const weft_call *call, const int inputs[], int num_outputs,
                    const int outputs[]);
void weft_node_free(weft_graph_node *node);
size_t weft_node_bytes(const weft_graph_node *node);
/* weft_meet_layout() for all of its layouts, without its bodies and its sharding. */
void weft_trace_meet_layouts(const weft_graph_trace *trace);
/* Finds the values' last uses. */
void weft_trace_finish(weft_graph_trace *trace);
/* Whether two calls are the same but for their scalars and tensors. */
bool weft_call_is_like(const weft_call *a, const weft_call *b);
/* Whether a node is this call, but for its scalars and tensors. Otherwise, if `why` is not NULL, the first difference
 * in words. */
bool weft_node_is(const weft_graph_node *node, const weft_call *call, char *why, size_t size);
/* Whether the first `count` nodes of two traces are the same calls on the same values. */
bool weft_trace_begins_like(const weft_graph_trace *a, const weft_graph_trace *b, size_t count);
/* A digest of this process alone: of a call after others, without its tensors; then of each input, with its layout and what else guards
 * compare (weft_graph_value) where it is from before the segment and met here, else NULL. */
uint64_t weft_prefix_call(uint64_t so_far, const weft_call *call, bool implicit);
static inline uint64_t weft_prefix_input(uint64_t so_far, int number, const weft_layout *layout, bool is_fake, bool is_memory, uint64_t ghosts)
{
    so_far = weft_digest_add(so_far, (uint64_t)(int64_t)number);
    return layout == NULL ? so_far
                          : weft_digest_add(so_far, (uint64_t)(uintptr_t)layout ^ (uint64_t)is_fake ^ (uint64_t)is_memory << 1 ^ ghosts << 2);
}
/* Sets the prefixes. False: no memory. */
bool weft_trace_find_prefixes(weft_graph_trace *trace);
/* Equal on processes whose traces are; equal traces have equal digests. *template: the same without sizes, equal for traces of one
 * TEMPLATE, whose calls, types, meshes and placements are the same; may be NULL. */
uint64_t weft_trace_digest(const weft_graph_trace *trace, uint64_t *template);

/* Arguments of a deferred call that are no part of its record. */
typedef struct weft_deferred_call {
    double scalars[WEFT_MAX_SCALARS];
    weft_random_state random; /* if the node draws */
    uint64_t number, digest;  /* weft_runtime's, when it was deferred */
} weft_deferred_call;

/* ---- words of a call (words.c) --------------------------------------------------------------------------- */

/* " NAME=1,2,3", unless there are none; and one number, unless it is the usual one. */
void weft_call_words(weft_text *text, const char *name, int64_t count, const int64_t numbers[]);
void weft_call_word(weft_text *text, const char *name, int64_t number, int64_t usual);
/* All attributes but the wish. */
void weft_call_attributes(weft_text *text, const weft_attributes *attributes);

/* ---- as text (print.c) ------------------------------------------------------------------------------------ */

/* Adds what is known of the scalars of a node. */
typedef void weft_add_numbers(weft_text *text, const weft_graph_trace *trace, size_t node);
/* `numbers` may be NULL. */
void weft_trace_print(const weft_graph_trace *trace, weft_add_numbers *numbers, FILE *file);
/* Its calls and inputs as nodes and its values as edges of a graph in DOT, in a cluster with this number. */
void weft_trace_print_dot(const weft_graph_trace *trace, size_t number, FILE *file);

#endif
