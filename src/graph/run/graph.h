/* src/graph/run: functions whose calls are collected, compared with recorded ones, and executed together.
 *
 * A RUN is the state of one weft_graph_call(). Calls that only make tensors from tensors are deferred: their outputs are
 * promised (tensor/promised.h). A call that reads values ends a SEGMENT: the deferred calls are executed, promises are
 * fulfilled, and a new segment begins. A TRACE records the calls of one segment. The first segment of every run is
 * compared with the traces that first segments have had, and so on.
 *
 * Tensors are numbered within a segment: by the order in which they are met (tensors from before it: its inputs) or
 * promised. A call that changes a tensor in place gives it a new number: a number stands for one value, a tensor for
 * one after the other. */
#ifndef WEFT_SRC_GRAPH_RUN_GRAPH_H
#define WEFT_SRC_GRAPH_RUN_GRAPH_H

#include <weft/graph.h>

#include "call/deferral.h"
#include "graph/record/trace.h"
#include "graph/run/shapes.h"

/* ---- graphs (graph.c) ------------------------------------------------------------------------------------ */

/* Traces of the segments at one position of the function's runs (instances.c). */
typedef struct weft_graph_segment {
    weft_graph_trace *newest, *oldest; /* by use; NULL: there is none */
    int num_traces;
    size_t num_nodes;   /* of all */
    weft_map by_inputs; /* weft_graph_trace *, by `inputs` */
    weft_map by_calls;  /* the same, by each of its prefixes that no later one has too */
    const char *ended_by;     /* the function that needed its values, in the newest run; NULL: none, or the last of the run */
} weft_graph_segment;

/* The end of the text of a failed guard, which few ask for: layouts that differ, and the program's line. NULL: nothing. */
typedef struct weft_failed_guard {
    const weft_layout *before, *now;
    const char *here;
    int here_line;
} weft_failed_guard;

/* The object behind a weft_graph handle. */
typedef struct weft_graph_impl {
    weft_graph *handle;
    char *name;
    weft_graph_function function;
    void *context;
    int num_inputs, num_scalars, num_outputs;
    weft_graph_numbers_function derive; /* of more scalars, after these; NULL: there are none */
    void *derive_context;
    int num_derived;
    unsigned passes;
    weft_vec segments; /* weft_graph_segment */
    weft_vec spare_bound, spare_calls; /* memory of runs that have ended, for the next one */
    size_t num_newest; /* segments of the newest run */
    int running;
    bool *donated; /* by input; NULL: none is */
    weft_vec constants; /* results of opaque functions (opaque.c) */
    weft_shape_history *shapes; /* of the inputs; NULL: nothing has changed */
    const weft_layout **input_layouts; /* of the newest call; NULL: none */
    uint64_t inputs_hash;              /* of these */
    weft_vec agreed;                   /* uint64_t: what all processes have found to be the same (agree.c) */
    size_t next_agreed;
    weft_vec requirements; /* weft_shape_relation, with texts of their own */
    weft_vec tested;       /* char *: the relations that the newest run of the function has tested, as they were (sizes.c) */
    bool omits_requirements, requirements_hold; /* of input_layouts */
    int *output_places; /* of the newest checked run (outputs.c) */
    struct weft_freezing *freezing; /* NULL: weft_graph_freeze() was not asked for */
    weft_graph_info info;
    char failed_guard[512];
    weft_failed_guard guard; /* what is still to be added to that */
} weft_graph_impl;

/* A live graph of the program's; NULL with the error kept (check.c). */
weft_graph_impl *weft_check_graph(const char *function, const weft_graph *graph);
/* Its newest run has no values in ghosted arrays, which lie where they are. False with the error kept. */
bool weft_graph_check_no_ghosts(const char *function, const weft_graph_impl *graph);
/* Bodies are made anew. */
void weft_graph_forget_bodies(weft_graph_impl *graph, weft_graph_trace *trace);
/* weft_meet_layout() for all layouts of graphs that are not running. */
void weft_graphs_meet_layouts(void);
/* weft_runtime.graphs */
typedef struct weft_graphs {
    uint64_t segments; /* of runs, ever */
    weft_status (*has_run)(weft_graph_impl *graph); /* a graph's call has ended (src/predict); NULL: nobody asks */
} weft_graphs;

weft_status weft_graphs_start(void);
/* Frees all graphs. */
void weft_graphs_stop(void);

/* ---- runs (segment.c, defer.c, execute.c) ------------------------------------------------------------------ */

/* Numbers of the program's behind the scalars of a deferred call (weft_derivation). */
typedef struct weft_derived_call {
    size_t node;
    double origins[WEFT_MAX_SCALARS];
} weft_derived_call;

typedef struct weft_graph_run {
    weft_deferral deferral; /* must be the first member */
    weft_graph_impl *graph;
    weft_tensor *const *inputs; /* of the call */
    size_t position;   /* of the segment in the run */
    bool alone;        /* of calls of the program's (graph/auto): processes do not compare what each of them decides by itself, and
                          calls keep their numbers */
    weft_graph_trace *replayed; /* the trace that the calls are compared with; NULL: they are captured */
    weft_graph_trace *captured; /* the trace that is captured, or NULL */
    int num_values;    /* of the segment up to now */
    weft_status failed; /* a segment has: nothing is executed any more. Or WEFT_OK */
    weft_vec bound;    /* weft_tensor_impl *, by number, with a reference: tensors from before the segment, as they were and
                          changed; NULL: a value that is promised alone */
    weft_vec calls;    /* weft_deferred_call: one for each node up to now */
    weft_vec derived;  /* weft_derived_call, while the graph is observed to be frozen */
    weft_vec donated;  /* weft_tensor_impl *: inputs that the segment's execution takes the memory of */
    size_t num_constants; /* results of opaque functions up to now */
    const char *at_once; /* the first function that was executed at once, and has effects of its own; NULL: none */
    size_t num_meshes;   /* on the mesh stack when the run began */
} weft_graph_run;

static inline weft_graph_segment *weft_run_segment(const weft_graph_run *run)
{
    return (weft_graph_segment *)run->graph->segments.items + run->position;
}

/* The entry of weft_graph_run.bound. */
static inline weft_tensor_impl **weft_run_bound(const weft_graph_run *run, int number)
{
    return (weft_tensor_impl **)run->bound.items + number;
}

/* The whole text of the guard that failed last (segment.c). */
const char *weft_graph_failed_guard(weft_graph_impl *graph);
/* Makes tensors from tensors, and depends on nothing else that may change until it is executed (defer.c). */
bool weft_is_deferrable(const weft_call *call);
/* weft_deferral.take of a run that defers calls (defer.c). */
bool weft_run_take(weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status);

/* Begins the run's first segment (segment.c); its deferral takes no calls yet. To be freed after its last one has ended. */
void weft_run_begin(weft_graph_run *run, weft_graph_impl *graph);
void weft_run_free(weft_graph_run *run);
/* WEFT_ERR_NOMEM, kept: what is recorded may lack a part, so the run has failed. */
weft_status weft_run_fail_memory(weft_graph_run *run);
/* Captures from here on, after the calls that agreed with the replayed trace. False: no memory. */
bool weft_run_begin_capture(weft_graph_run *run, int former_values);

/* ---- traces of one position (instances.c) ------------------------------------------------------------------------ */

/* The trace that a run with these inputs used last; if there is none, the one used last; NULL: there is none. */
weft_graph_trace *weft_segment_find(const weft_graph_segment *segment, uint64_t inputs);
/* The trace is the newest one, and that of these inputs. */
void weft_segment_use(weft_graph_segment *segment, weft_graph_trace *trace, uint64_t inputs, uint64_t run);
/* Takes over a captured trace. The least recently used ones are freed where there are too many calls, the same ones on all
 * processes. False: no memory. */
bool weft_segment_add(weft_graph_impl *graph, weft_graph_segment *segment, weft_graph_trace *trace);
void weft_segment_free(weft_graph_segment *segment);

/* ---- agreement of processes (agree.c) ------------------------------------------------------------------------------- */

/* Whether a number is the same on all processes: the first process that has another one than process 0, else 0. BLOCKS.
 * A status with the error kept. */
weft_status weft_run_compare(int64_t mine, int *process);
/* What has been compared once is not compared again: new sizes of a template are told with the messages that follow. */
bool weft_graph_has_agreed(const weft_graph_impl *graph, uint64_t what);
/* False: no memory. */
bool weft_graph_agree(weft_graph_impl *graph, uint64_t what);

/* What a process does at a segment's end, as a call that is the same on all processes (comm/check_spmd.h): a digest of what it
 * executes, or that it captures or builds and waits for the others, who find by this that its calls differ. False with the
 * error kept. */
enum { WEFT_RUN_CAPTURES = 1, WEFT_RUN_BUILDS = 2 };
bool weft_run_tell(uint64_t what);

/* Binds the next value to a tensor from before the segment, or to none (NULL). Its number; -1: no memory (defer.c). */
int weft_run_add_value(weft_graph_run *run, weft_tensor_impl *tensor);
/* The call that changes a tensor to the value of this number has been deferred. */
void weft_run_set_changed(const weft_graph_run *run, weft_tensor_impl *tensor, int number);
static inline void weft_run_set_number(const weft_graph_run *run, weft_tensor_impl *tensor, int number)
{
    tensor->number = number;
    tensor->graph_run = run->deferral.number;
}

/* Executes the segment's calls, because `function` needs their values (NULL: the run ends), and begins the next segment. A status
 * with the error kept. */
weft_status weft_run_end_segment(weft_graph_run *run, const char *function);

/* Executes the deferred calls, and fulfils all promises of the segment (execute.c). A status with the error kept. */
weft_status weft_run_execute(weft_graph_run *run, weft_graph_trace *trace);

/* ---- bodies (bodies.c; graph/passes/body.h) ---------------------------------------------------------------------- */

/* The body of the run's trace for the values that are promised now. NULL in *body: the trace is executed as it was
 * recorded. The first one of a template for these values BLOCKS where there are several processes, to compare what they
 * have built. A status with the error kept. */
weft_status weft_body_obtain(weft_graph_run *run, weft_graph_trace *trace, const bool wanted[], struct weft_graph_body **body);
/* With its bodies and its sharding. May be NULL. */
void weft_graph_trace_free(weft_graph_trace *trace);
/* weft_meet_layout() likewise. */
void weft_graph_trace_meet_layouts(const weft_graph_trace *trace);

/* ---- sizes of inputs (relations.c) --------------------------------------------------------------------------------- */

/* Checks the required relations, and notes the sizes. False with the error kept. */
bool weft_graph_check_shapes_of(weft_graph_impl *graph, weft_tensor *const inputs[]);
void weft_graph_print_shapes(const weft_graph_impl *graph, FILE *file);
/* The relations that follow from the calls of a trace of the newest run, where sizes have changed (derived.c). */
void weft_graph_print_derived(const weft_graph_impl *graph, const weft_graph_trace *trace, FILE *file);
void weft_graph_free_shapes(weft_graph_impl *graph);
/* A relation of the program's. False with the error kept. */
bool weft_graph_read_relation(const char *function, const weft_graph_impl *graph, const char *text, weft_shape_relation *relation);
/* The sizes of all inputs of the newest call, in turn; first[k]: the first of input k, counts[k] of them. To be freed. */
typedef struct weft_all_sizes {
    int64_t *sizes;
    int *first, *counts;
    int count;
} weft_all_sizes;
/* False: no memory. */
bool weft_graph_collect_sizes(const weft_graph_impl *graph, const weft_layout *const layouts[], weft_all_sizes *all);
void weft_all_sizes_free(weft_all_sizes *all);
/* Whether the inputs have the dimensions that a relation names. */
bool weft_relation_has_dimensions(const weft_shape_relation *relation, const weft_layout *const layouts[]);
/* A run of the function begins. */
void weft_graph_forget_tested(weft_graph_impl *graph);

/* ---- outputs in listings (outputs.c) ------------------------------------------------------------------------------- */

/* Notes where the outputs of a run whose function has returned come from, before its last segment ends; then keeps that with the
 * last trace. */
void weft_run_note_outputs(const weft_graph_run *run, weft_tensor *const outputs[]);
void weft_run_keep_outputs(const weft_graph_run *run);
void weft_graph_print_outputs(const weft_graph_impl *graph, FILE *file);

/* ---- donated inputs (donate.c), opaque functions (opaque.c) --------------------------------------------------- */

/* False with the error kept: an input may not be donated. */
bool weft_graph_check_donated(const weft_graph_impl *graph, weft_tensor *const inputs[]);
/* Notes the donated inputs that are no outputs. False: no memory. */
bool weft_run_donate(weft_graph_run *run, weft_tensor *const inputs[], weft_tensor *const outputs[]);
/* Takes their memory. False with the error kept. */
bool weft_run_take_donated(weft_graph_run *run);
/* The number of the opaque function whose result it is; -1: it is none. */
int weft_graph_constant_of(const weft_graph_impl *graph, const weft_tensor_impl *tensor);
/* Frees the results that are kept. */
void weft_graph_forget_constants(weft_graph_impl *graph);

/* ---- frozen graphs (frozen.c) ------------------------------------------------------------------------------- */

/* NULL: no memory. */
struct weft_freezing *weft_freezing_new(void);
/* With what is known of the graph's traces. */
void weft_graph_unfreeze(weft_graph_impl *graph);
/* Whether the newest run's trace is replayed without the function; a refusal: in *why, or "". */
bool weft_freezing_is_ready(const struct weft_freezing *freezing, const char **why);
/* Adds what is known of the sources of a call's numbers, where the trace is frozen: " scalars=0.9,scalars[0]". */
void weft_frozen_add_numbers(weft_text *text, const weft_graph_trace *trace, size_t node);
/* May be NULL. */
void weft_frozen_free(struct weft_frozen *frozen);
/* A call of a frozen graph: false if something is unknown, and the function is to be called and observed; true: it is replayed, or
 * refused, and *status is set. */
bool weft_frozen_replay(weft_graph_impl *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[],
                        weft_status *status);
/* WEFT_ERR_STATE, kept: its function counts its calls, and was not called in each run; `why` it would be called now. */
weft_status weft_frozen_check_call(const weft_graph_impl *graph, const char *why);
/* Learns from a checked run whose function has returned, before its calls are executed. */
void weft_frozen_observe(weft_graph_run *run, weft_tensor *const inputs[], const double scalars[],
                         weft_tensor *const outputs[]);
/* The function runs, and is not observed: what it counts is not known any more. */
void weft_freezing_miss(weft_graph_impl *graph);
/* The trace is about to be freed. */
void weft_freezing_forget(struct weft_freezing *freezing, const weft_graph_trace *trace);

#endif
