/** \file
 * Captured graphs: a function of tensors and numbers, whose calls are collected and run together.
 *
 *     weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
 *     {
 *         weft_tensor *w = inputs[0], *x = inputs[1];
 *         outputs[0] = weft_add_scaled(w, weft_matmul(x, w), -scalars[0]);
 *         return WEFT_OK;
 *     }
 *     ...
 *     weft_graph *graph = weft_graph_new("step", step, NULL, 2, 1, 1);
 *     for (int i = 0; i < steps; i++) {
 *         weft_graph_call(graph, (weft_tensor *[]){ w, x }, &rate, &w);
 *     }
 *
 * The first call captures: the function runs, and each of its calls is recorded with its arguments, and executed when
 * the function has returned. Later calls replay: the function runs again, each of its calls is compared with the
 * recorded one (its GUARD) and gives its outputs without looking up or computing anything, and what was recorded is
 * executed. C code between the calls is therefore always right: numbers may change from run to run, and so may the
 * path through the function. At the first call that differs from the recorded one (another function, shape, layout,
 * tensor or attribute) the rest of the run is captured as another TRACE of the same graph.
 *
 * Inside the function all of weft may be used. Tensors that were not passed as inputs (parameters, by way of
 * `context`) are inputs too. A call that reads values (weft_tensor_item(), weft_to_host(), weft_local_acquire(), ...) or
 * runs code of the program's on them (weft_local_map()) executes all calls before it first: a trace ends there, and
 * another one begins. All processes read at the same places, also those that host no shard of the tensor; where one process
 * alone is to read, all call weft_wait() before. Memory lent by weft_from_local() must not be changed until the graph's
 * call has returned, but through weft_local_acquire(). Results are bit for bit those of the same function called
 * without a graph.
 *
 * Tensors without data (weft_fake(), and all of a fake world) are captured too, for a world of any size and without MPI: their
 * calls are guarded and printed, and a replay executes nothing.
 *
 * All processes call the same graphs in the same order. */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** A handle, not an address: that of a freed graph is refused (WEFT_ERR_INVALID). */
typedef struct weft_graph weft_graph;

/** The function of a graph. New tensors belong to a scope of the call; outputs[] are handed to the scope around it. Scopes that it
 * leaves open are closed; it can close no others (WEFT_ERR_STATE). It may call its own graph, at most 64 deep. It sets all
 * outputs[]. A status other than WEFT_OK is that of weft_graph_call(); calls made until then are executed, as they would have
 * been without a graph. */
typedef weft_status (*weft_graph_function)(void *context, weft_tensor *const inputs[], const double scalars[],
                                           weft_tensor *outputs[]);

/** A graph without traces. `name`: for messages; copied. `context`: passed to the function. Any number of inputs, scalars and
 * outputs, at least 0. Freed by weft_graph_free(). NULL on error. */
WEFT_API weft_graph *weft_graph_new(const char *name, weft_graph_function function, void *context, int num_inputs,
                                    int num_scalars, int num_outputs);
/** WEFT_ERR_STATE: called from within its function. weft_finalize() frees graphs that are left. */
WEFT_API weft_status weft_graph_free(weft_graph *graph);

/** Runs the function on these inputs and scalars (arrays of the numbers given to weft_graph_new(); NULL where that is 0).
 * outputs[]: new references of the innermost scope; NULL after an error. It may be the array inputs[]. An output may be an
 * input, or a tensor of the program's. Within the function of another graph it belongs to that graph's trace. Waits for
 * nothing, but that a capture BLOCKS until all processes have captured the same calls: WEFT_ERR_MISMATCH on every process
 * where they differ.
 * So does the run that builds a body (weft_graph_pass), mostly a trace's second one. WEFT_ERR_INVALID: an input is no live
 * tensor, or the function has left an output NULL; WEFT_ERR_STATE: called from within the graph's own function, more than 64
 * deep or in an opaque function. */
WEFT_API weft_status weft_graph_call(weft_graph *graph, weft_tensor *const inputs[], const double scalars[],
                                     weft_tensor *outputs[]);

/** Changes of a trace before it is executed. From a trace's second run on a BODY is executed in its place, which passes
 * make of it. Guards compare with the recorded trace, and results are bit for bit those of the recorded calls. */
typedef enum weft_graph_pass {
    WEFT_PASS_REDUNDANT = 1, /**< redistributions to the layout that a value has, or has been brought to before */
    WEFT_PASS_COMMON = 2,    /**< a call that was made before on the same tensors with the same scalars, and draws no random numbers */
    WEFT_PASS_DEAD = 4,      /**< calls whose outputs nothing needs, and which cannot report a wrong value */
    WEFT_PASS_BUCKET = 8,    /**< small redistributions of one kind travel in one message for each process */
    WEFT_PASS_FUSE = 16,     /**< calls by rows that follow each other become one task for each panel, tile by tile */
    WEFT_PASS_CLUSTER = 32,  /**< small calls that follow each other become one task of each rank */
    WEFT_PASS_MEMORY = 64,   /**< an elementwise output takes over the memory of an input that nothing needs any more */
    WEFT_PASS_ORDER = 128,   /**< tasks with the longest path to the end behind them run first, in several processes */
    WEFT_PASS_NONE = 0,
    WEFT_PASS_ALL = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128
} weft_graph_pass;

/** Passes of the traces that the graph executes from now on: a sum of weft_graph_pass. A new graph has those of the
 * variable WEFT_GRAPH_PASSES: "all" (the default), "none", or names separated by commas: redundant, common, dead, bucket,
 * fuse, cluster, memory, order. All processes make the same choice: WEFT_ERR_MISMATCH at the next run where they differ.
 * WEFT_ERR_INVALID: `passes` has other bits; WEFT_ERR_STATE: called from within the graph's function. */
WEFT_API weft_status weft_graph_set_passes(weft_graph *graph, unsigned passes);

/** Whether calls of the graph take over the memory of an input: it is free again behind the last call that reads it, or holds
 * what a call changes in place. After weft_graph_call() the handle is not live any more, as if the program had given up its
 * references; tensors that share its memory (views, weft_detach(), saved values) stay as they are. An input that is an output too
 * stays. An error of weft_graph_call() leaves it, unless it came from the execution. WEFT_ERR_INVALID: no such input;
 * WEFT_ERR_STATE: called from within the function, or from weft_graph_call(): the tensor requires a gradient, is on memory of the
 * program's, is acquired, or is another input too. Within the function of another graph nothing is donated. */
WEFT_API weft_status weft_graph_donate(weft_graph *graph, int input, bool on);

/** Requires a relation of the inputs' sizes, which the function relies on: iK.D is the size of dimension D of inputs[K]. Sums of
 * products of numbers and sizes, compared by ==, !=, <=, >=, < or >; or a sum, % and a number, compared by == or !=:
 *
 *     weft_graph_require(graph, "i1.0 == 2*i0.0 + 3");
 *     weft_graph_require(graph, "i0.1 % 8 == 0");
 *     weft_graph_require(graph, "i0.0*i0.1 <= 4096");
 *
 * weft_graph_call() checks them before anything is done: WEFT_ERR_SHAPE with the relation and the sizes. One that follows from
 * a relation that was required before is not kept. WEFT_ERR_INVALID: it cannot be read, or names no input. */
WEFT_API weft_status weft_graph_require(weft_graph *graph, const char *relation);
/** Whether these checks are omitted. */
WEFT_API weft_status weft_graph_omit_requirements(weft_graph *graph, bool omit);

/** A function of the program's that is not captured. Its outputs are new references of the innermost scope. */
typedef weft_status (*weft_opaque_function)(void *context, weft_tensor *const inputs[], weft_tensor *outputs[]);

typedef enum weft_opaque_kind {
    /** Safe to be called while capturing: called once, and its results are constants of the graph, which must not be
     * changed. */
    WEFT_OPAQUE_CONSTANT = 0,
    /** Called in each run, between two traces: calls before it are executed first, and its results are inputs of the
     * calls behind it. */
    WEFT_OPAQUE_CALLED = 1
} weft_opaque_kind;

/** Within the function of a graph: calls a function whose own calls are not part of the graph; elsewhere simply calls it. Its
 * status. Constants belong to the graph, and to the position among its constants: another function or context there is called
 * again. All processes call it.
 *
 *     weft_graph_opaque("table", WEFT_OPAQUE_CONSTANT, read_table, file, 0, NULL, 1, &table);
 *
 * \param name  for messages
 * WEFT_ERR_STATE: an input of a constant is computed in the graph. */
WEFT_API weft_status weft_graph_opaque(const char *name, weft_opaque_kind kind, weft_opaque_function function, void *context,
                                       int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                       weft_tensor *outputs[]);

enum { WEFT_MAX_FROZEN_SCALARS = 64 };

/** Freezes a graph: once two replays in turn, and two values of each entry of scalars[], have shown where the numbers of its calls
 * come from, the function is not called any more, and its calls are executed as they were recorded. Each number is then
 *  - a constant,
 *  - an entry of scalars[], bit for bit, or
 *  - a number that weft derives from these, as the corrections of weft_adam() and weft_adamw(), whose step is one more in each
 *    run. Random numbers are drawn as in a checked run.
 * The function is called again where an input has another layout, inputs are the same tensor that were not, a tensor requires or has
 * a gradient and did not, or a number may be one of two entries that were equal until now; and where something that it has asked
 * weft for is another one now: a module's tensor (weft_module_set_tensor()), forward function or hook, a leaf's hook or the
 * placements of its gradient, an operation's kernel, the current mesh. WEFT_ERR_STATE instead, where it
 * passes a step that it counts itself, since its count stood still.
 *
 * Tensors that the function gets by way of `context` are bound now: WEFT_ERR_STATE from weft_graph_call() where one was freed.
 * Nothing but its calls is repeated: counters, prints and decisions of the function's own are not.
 *
 * WEFT_ERR_STATE from weft_graph_call(), before anything is done, where the runs that were observed cannot be repeated so; the
 * message, also in weft_graph_info.not_frozen, names the call: a number that changed and is none of these (`2 * scalars[0]`); a
 * value that is read, memory that is lent or a tensor that is distributed inside; any other function that is no call of the graph
 * and has an effect, as weft_wait(), weft_pause(), weft_random_seed(), weft_mesh_push() without weft_mesh_pop(), and what sets up
 * modules and operations; tensors that the function leaves behind and are
 * no outputs; outputs that require gradients, and tensors that do and are changed in place (but leaves). `on` false: the function
 * is called as ever. WEFT_ERR_STATE: called from within the function; WEFT_ERR_UNSUPPORTED: more than WEFT_MAX_FROZEN_SCALARS
 * scalars. */
WEFT_API weft_status weft_graph_freeze(weft_graph *graph, bool on);

/** Counts since weft_graph_new(). */
typedef struct weft_graph_info {
    uint64_t runs;     /**< of weft_graph_call() */
    uint64_t captures; /**< traces captured */
    uint64_t replays;  /**< traces replayed whole */
    uint64_t guards_failed; /**< calls that differed from the recorded one */
    uint64_t clusters, clustered_calls; /**< executed: several calls that became one task of each rank, and their calls */
    /** Executed: several calls by rows that became one task for each panel, which goes through memory once, and their calls.
     * Bytes that these tasks have read and written on the ranks of this process; and those that the calls would have read
     * and written beside that, each on its own. */
    uint64_t fused, fused_calls, fused_bytes, saved_bytes;
    /** Peak bytes of tensors made by the newest run's calls in this process: as found, and as
     * their lifetimes foresee (without memory that calls use within themselves; 0: not before the trace's second run). */
    int64_t peak_bytes, foreseen_bytes;
    uint64_t frozen_replays; /**< of these, those without the function */
    int num_traces;    /**< kept */
    int num_calls;     /**< recorded in the newest run's traces */
    int num_body_calls; /**< executed in their place: num_calls where nothing was changed */
    /** Effects of the passes on the newest run's bodies: calls removed by each; redistributions within calls that became
     * calls; redistributions that travel together, and as how many. */
    int redundant, common, dead, explicit_moves, bucketed, buckets;
    size_t bytes;      /**< memory of all traces and bodies */
    /** The guard that failed last: the call, what was recorded, what came; "": none. Valid until the next call of the
     * graph. */
    const char *failed_guard;
    bool frozen; /**< the function is called no more (weft_graph_freeze()) */
    const char *not_frozen; /**< why it is not, or cannot be; "": it is, or was not asked for. Valid as failed_guard */
} weft_graph_info;

/** Copies the counts. */
WEFT_API weft_status weft_graph_get_info(const weft_graph *graph, weft_graph_info *info, size_t size);

/** Writes the inputs and calls of the newest run's traces, a line each. Tensors that the function makes of its own memory, and
 * redistributions, have their mesh and placements as arguments; memory k is given anew in each run:
 *     %0 = input : f32[4, 6] [R] on 2
 *     %1 = weft_from_local(memory 0) mesh (dp 2) [S0] : f32[8, 4]
 *     %2 = weft_matmul(%1, %0) : f32[8, 6] [S0] on 2
 *     %3 = weft_redistribute(%2) mesh (dp 2) [R] : f32[8, 6]
 *
 * Once a size of an input has changed from call to call, the inputs come first, with symbols for such sizes, and what has held for
 * them in all calls: their range, linear dependence (three points or more), a common divisor, that they were never 1; and
 * the required relations:
 *     inputs[0] : f32[s0, 6]
 *     inputs[1] : f32[s1]
 *       s0 in 4..64, % 4 == 0, != 1
 *       s1 in 9..129, == 2*s0 + 1, != 1
 *       requires i0.0 % 4 == 0 */
WEFT_API weft_status weft_graph_print(const weft_graph *graph, FILE *file);
/** The same as a picture for Graphviz (dot -Tsvg): calls are boxes, redistributions coloured ones; values are edges, with
 * their layouts. */
WEFT_API weft_status weft_graph_print_dot(const weft_graph *graph, FILE *file);
/** The same of the calls that are executed in their place: of the bodies that the newest run has executed, or of the
 * recorded traces where it has none. */
WEFT_API weft_status weft_graph_print_body(const weft_graph *graph, FILE *file);
/** Writes the newest run's traces as a file, from which weft-predict makes the same calls on meshes of other sizes
 * (docs/graphs.md): operations with their attributes and numbers, inputs with shapes, meshes and placements; no values. The file is
 * that of this process, and equal on all. WEFT_ERR_INVALID: path is NULL; WEFT_ERR_STATE: the graph has not run, or its function is
 * running; WEFT_ERR_UNSUPPORTED: a call cannot be made elsewhere, as an operation of the program's; WEFT_ERR_IO. */
WEFT_API weft_status weft_graph_save(const weft_graph *graph, const char *path);
/** weft_graph_print() into a buffer, as weft_tensor_print_text() does. */
WEFT_API weft_status weft_graph_print_text(const weft_graph *graph, char *text, size_t size, size_t *length);

WEFT_END_DECLS

#endif
