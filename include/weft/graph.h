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
 *     weft_graph *graph = weft_graph_create("step", step, NULL, 2, 1, 1);
 *     for (int i = 0; i < steps; i++) {
 *         weft_graph_call(graph, (weft_tensor *[]){ w, x }, &rate, &w);
 *     }
 *
 * The first call captures: weft runs the function, records each of its calls with its arguments, and executes them
 * when the function has returned. Later calls replay: weft runs the function again and compares each call with the
 * recorded one (its GUARD). If they are equal, the call returns its outputs without looking up or computing anything,
 * and at the end weft executes what it recorded. Because the function runs each time, the C code between the calls is
 * always right: numbers may change from run to run, and so may the path through the function. At the first call that
 * differs from the recorded one (another function, shape, layout, tensor or attribute), weft captures the rest of the
 * run as another TRACE of the same graph.
 *
 * You may use all of weft inside the function. Tensors that you did not pass as inputs (for example parameters, by
 * way of `context`) become inputs too. Some calls read values (weft_tensor_item(), weft_to_host(),
 * weft_local_acquire(), ...) or run your code on them (weft_local_map()). Such a call first executes all calls before
 * it: the trace ends there, and another one begins. It does not where the values are from before the trace, and the
 * calls since have not changed them: weft_tensor_item(), weft_to_host() and other functions that only copy, compare or
 * print then wait for these values alone. All processes must read at the same points, even those that host
 * no shard of the tensor. If only one process is to read, let all call weft_wait() first. Memory that you lent by
 * weft_from_local() must not change until the graph's call has returned, except through weft_local_acquire(). Results
 * are bit for bit those of the same function called without a graph.
 *
 * Tensors without data (weft_fake(), and all tensors of a fake world) can be captured too, for a world of any size
 * and without MPI. Their calls are guarded and printed, and a replay executes nothing.
 *
 * All processes call the same graphs in the same order. */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Entries of scalars[] of a graph that is frozen, or has derived numbers. */
enum { WEFT_MAX_FROZEN_SCALARS = 64 };

/** An opaque handle, not an address. If you pass the handle of a freed graph, the function returns WEFT_ERR_INVALID. */
typedef struct weft_graph weft_graph;

/** The function of a graph. It must set all outputs[]. New tensors belong to a scope of the call; outputs[] move to
 * the enclosing scope. Scopes that the function leaves open are closed. It cannot close scopes that it did not open
 * (WEFT_ERR_STATE). It may call its own graph, at most 64 deep. If it returns a status other than WEFT_OK,
 * weft_graph_call() returns that. The calls it made until then are executed, as they would have been without a
 * graph. */
typedef weft_status (*weft_graph_function)(void *context, weft_tensor *const inputs[], const double scalars[],
                                           weft_tensor *outputs[]);

/** Creates a graph without traces. Free it by weft_graph_destroy(). NULL on error.
 *
 * \param name        for messages; copied
 * \param context     passed to the function
 * \param num_inputs  0 or more, like num_scalars and num_outputs
 *
 * The file comment above has an example. */
WEFT_API weft_graph *weft_graph_create(const char *name, weft_graph_function function, void *context, int num_inputs,
                                    int num_scalars, int num_outputs);
/** Frees a graph. WEFT_ERR_STATE if you call it from within the graph's function. weft_finalize() frees graphs that
 * are left. */
WEFT_API weft_status weft_graph_destroy(weft_graph *graph);

/** Runs the function on these inputs and scalars. The arrays have the lengths given to weft_graph_create(), and may be
 * NULL if that is 0. outputs[] receives new references of the innermost scope; after an error they are NULL. It may
 * be the same array as inputs[]. An output may be an input, or another tensor of yours. If you call a graph within
 * the function of another graph, it becomes part of that graph's trace.
 *
 * The call does not wait, with two exceptions: a run that captures BLOCKS until all processes have captured the same
 * calls, and so does the run that builds a body (weft_graph_pass), usually a trace's second run. If the calls differ,
 * every process returns WEFT_ERR_MISMATCH. A capture that differs from an earlier one in sizes alone does not wait:
 * its digest travels with the messages of its calls.
 *
 * The graph keeps a trace for each set of sizes, up to 32,768 recorded calls (or 16 traces, if they have more) for each
 * part of the function between reads of values, and then drops the least recently used ones.
 *
 * WEFT_ERR_INVALID if an input is not a live tensor, or the function left an output NULL. WEFT_ERR_STATE if you call
 * it more than 64 deep from within the graph's own function, or in an opaque function. */
WEFT_API weft_status weft_graph_call(weft_graph *graph, weft_tensor *const inputs[], const double scalars[],
                                     weft_tensor *outputs[]);

/** Passes: how weft changes a trace before it executes it. From a trace's second run on, weft executes a BODY, which
 * the passes make of the trace. Guards still compare calls with the recorded trace. Results are bit for bit those of
 * the recorded calls, except that a NaN may be another NaN. */
typedef enum weft_graph_pass {
    WEFT_PASS_REDUNDANT = 1, /**< drops redistributions to the layout that a value has, or has been brought to before */
    WEFT_PASS_COMMON = 2,    /**< drops a call that was made before on the same tensors with the same scalars, unless
                                  it draws random numbers */
    WEFT_PASS_DEAD = 4,      /**< drops calls whose outputs nothing needs, unless they can report a wrong value */
    WEFT_PASS_BUCKET = 8,    /**< sends small redistributions of one kind in one message per process */
    WEFT_PASS_FUSE = 16,     /**< turns successive calls that work by rows into one task per panel, which computes
                                  tile by tile; and elementwise calls on tensors that weft_pad(), weft_roll() and
                                  weft_slice() have shifted into one call */
    WEFT_PASS_CLUSTER = 32,  /**< turns successive small calls into one task per rank */
    WEFT_PASS_MEMORY = 64,   /**< lets an elementwise output reuse the memory of an input that nothing needs any more */
    WEFT_PASS_ORDER = 128,   /**< runs tasks with the longest remaining path first; no effect in one process */
    WEFT_PASS_NONE = 0,
    WEFT_PASS_ALL = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128
} weft_graph_pass;

/** Chooses the passes for the traces that the graph executes from now on: a combination of weft_graph_pass values. A
 * new graph takes them from the variable WEFT_GRAPH_PASSES: "all" (the default), "none", or names separated by
 * commas: redundant, common, dead, bucket, fuse, cluster, memory, order. All processes must choose the same passes;
 * otherwise the next run returns WEFT_ERR_MISMATCH. WEFT_ERR_INVALID if `passes` has other bits; WEFT_ERR_STATE if
 * you call it from within the graph's function. */
WEFT_API weft_status weft_graph_set_passes(weft_graph *graph, unsigned passes);

/** Donates an input: calls of the graph may reuse its memory. The memory becomes free after the last call that reads
 * the input, or holds the result of a call that changes it in place. After weft_graph_call() the handle is no longer
 * live, as if you had released all your references. Tensors that share its memory (views, weft_detach(), saved
 * values) keep their values. An input that is also an output stays alive. If weft_graph_call() fails, the input stays
 * alive too, unless the error came from the execution. Within the function of another graph nothing is donated.
 *
 * WEFT_ERR_INVALID if there is no such input. WEFT_ERR_STATE if you call it from within the function.
 * weft_graph_call() returns WEFT_ERR_STATE if the tensor requires a gradient, uses memory of the program, is
 * acquired, or is passed as another input too. */
WEFT_API weft_status weft_graph_donate(weft_graph *graph, int input, bool on);

/** Requires a relation between the inputs' sizes, on which the function relies. iK.D is the size of dimension D of
 * inputs[K]. You can compare sums of products of numbers and sizes by ==, !=, <=, >=, < or >; sums in a product stand
 * in parentheses, and ** is a power. Or compare a product modulo a number, a size or a sum in parentheses by == or !=:
 *
 *     weft_graph_require(graph, "i1.0 == 2*i0.0 + 3");
 *     weft_graph_require(graph, "i0.1 % 8 == 0");
 *     weft_graph_require(graph, "i0.0*i0.1 % (i0.0 - 1) == 0");
 *     weft_graph_require(graph, "i0.0 <= i1.0**3");
 *
 * weft_graph_call() checks the relations before it does anything. If one does not hold, it returns WEFT_ERR_SHAPE
 * with the relation and the sizes. A relation that follows from an earlier one is not kept. WEFT_ERR_INVALID if the
 * text cannot be parsed, or names an input that does not exist. */
WEFT_API weft_status weft_graph_require(weft_graph *graph, const char *relation);
/** Turns the checks of weft_graph_require() off (omit) or on again. */
WEFT_API weft_status weft_graph_omit_requirements(weft_graph *graph, bool omit);

/** Tests a relation of the inputs' sizes, written as for weft_graph_require(), in the function of a graph that runs: a
 * branch on sizes whose condition the listing shows (weft_graph_print()), or its opposite.
 *
 *     bool cubic;
 *     weft_graph_test(graph, "i0.0 == i1.0**3", &cubic);
 *     y = cubic ? weft_reshape(x, 3, (int64_t[]){ n, n, n }) : weft_reshape(x, 2, (int64_t[]){ 1, rows });
 *
 * A frozen graph calls its function again for layouts that it has not seen (weft_graph_freeze()), so branches on sizes
 * are safe in it. WEFT_ERR_STATE if the graph's function does not run, or was called from within itself;
 * WEFT_ERR_SHAPE if an input has no such dimension; WEFT_ERR_INVALID if the text cannot be parsed, or a number exceeds 64
 * bits or a divisor is below 1 for these sizes. */
WEFT_API weft_status weft_graph_test(weft_graph *graph, const char *relation, bool *truth);
/** Computes a size from the inputs' sizes, in the function of a graph that runs: numbers, sizes, +, -, *, /, %, ** and
 * parentheses, as in C, with 64-bit integers; / rounds down. Errors as weft_graph_test(); WEFT_ERR_INVALID too if there is
 * no such size, a number exceeds 64 bits, or a division is one by 0 or has a negative operand.
 *
 *     int64_t padded;
 *     weft_graph_size(graph, "(i0.0 + 7) / 8 * 8", &padded); */
WEFT_API weft_status weft_graph_size(const weft_graph *graph, const char *expression, int64_t *value);

/** Computes numbers from the scalars of a call. It gets no other input: equal scalars must give equal numbers, on all
 * processes, and it must not call weft. */
typedef void (*weft_graph_numbers_function)(void *context, const double scalars[], double derived[]);
/** Registers a function of yours that computes `num_derived` more numbers in each weft_graph_call(): the graph's function
 * finds them in scalars[], after those of the call. A frozen graph computes them too, and knows them as it knows entries
 * of scalars[]: for numbers such as a learning rate that follows from the step.
 *
 *     void cosine(void *context, const double scalars[], double derived[])
 *     {
 *         derived[0] = 0.5 * rate * (1 + cos(pi * scalars[0] / steps));
 *     }
 *     graph = weft_graph_create("step", step, &model, 1, 1, 1);
 *     weft_graph_derive_numbers(graph, cosine, NULL, 1); // step() finds the rate in scalars[1]
 *
 * Another function replaces it; NULL and 0 remove it. A frozen graph then observes its function again. `context` must stay
 * valid as long. WEFT_ERR_INVALID if num_derived is negative, or is 0 and there is a function, or the reverse;
 * WEFT_ERR_UNSUPPORTED if there are more than WEFT_MAX_FROZEN_SCALARS scalars with them; WEFT_ERR_STATE from within the
 * graph's function. */
WEFT_API weft_status weft_graph_derive_numbers(weft_graph *graph, weft_graph_numbers_function function, void *context,
                                               int num_derived);

/** A function of yours that is not captured. Its outputs are new references of the innermost scope. */
typedef weft_status (*weft_opaque_function)(void *context, weft_tensor *const inputs[], weft_tensor *outputs[]);

typedef enum weft_opaque_kind {
    /** May be called while capturing. It is called once; its results are constants of the graph, and must not be
     * changed. */
    WEFT_OPAQUE_CONSTANT = 0,
    /** Called in each run, between two traces. weft executes the calls before it first; its results are inputs of the
     * calls after it. */
    WEFT_OPAQUE_CALLED = 1
} weft_opaque_kind;

/** Within the function of a graph, calls a function whose own calls are not part of the graph. Elsewhere it simply
 * calls the function. Returns the function's status. All processes must call it. The graph owns a constant and finds
 * it by its position among the graph's constants; if another function or context is used at that position, the
 * function is called again.
 *
 *     weft_graph_opaque("table", WEFT_OPAQUE_CONSTANT, read_table, file, 0, NULL, 1, &table);
 *
 * \param name  for messages
 *
 * WEFT_ERR_STATE if an input of a constant is computed in the graph. */
WEFT_API weft_status weft_graph_opaque(const char *name, weft_opaque_kind kind, weft_opaque_function function, void *context,
                                       int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                       weft_tensor *outputs[]);

/** Freezes a graph (`on`): weft stops calling the function, and executes its calls as they were recorded. It freezes
 * once two replays, with two values of each entry of scalars[], have shown where the numbers of the calls come from,
 * for each set of layouts of the inputs by itself. Each number is then
 *  - a constant,
 *  - an entry of scalars[], bit for bit, those of weft_graph_derive_numbers() among them, or
 *  - a number that weft derives from these, such as the corrections of weft_adam() and weft_adamw(), whose step
 *    increases by one in each run. Random numbers are drawn as in a run that is checked.
 *
 * The function is called again
 *  - if the inputs' layouts are others than two replays have shown so far;
 *  - if two inputs are the same tensor and were not before;
 *  - if a tensor requires or has a gradient and did not before;
 *  - if a number may be either of two entries of scalars[] that have been equal until now;
 *  - if something that the function has asked weft for has changed: a module's tensor (weft_module_set_tensor()),
 *    forward function or hook, a leaf's hook or the placements of its gradient, an operation's kernel, the current
 *    mesh.
 *
 * If the function passes a step that it counts itself, weft_graph_call() returns WEFT_ERR_STATE in these cases, and
 * where layouts take turns, because the count stood still.
 *
 * A frozen graph goes on using the tensors that the function got by way of `context`; if one was freed,
 * weft_graph_call() returns WEFT_ERR_STATE. Only the function's calls are repeated, not its own counters, prints and
 * decisions.
 *
 * weft_graph_call() also returns WEFT_ERR_STATE, before it does anything, if the observed runs cannot be repeated in
 * this way. The message names the call, and weft_graph_info.not_frozen has it too. The reasons are:
 *  - a number changed and is none of the above (`2 * scalars[0]`: register a function that computes it);
 *  - inside the function a value is read, memory is lent or a tensor is distributed;
 *  - any other function is called that is not a call of the graph and has an effect: weft_wait(), weft_pause(),
 *    weft_random_seed(), weft_mesh_push() without weft_mesh_pop(), and what sets up modules and operations;
 *  - the function leaves tensors behind that are not outputs;
 *  - it uses a tensor that weft_module_set_tensor() has replaced;
 *  - outputs require gradients, or tensors that do are changed in place (except leaves).
 *
 * If `on` is false, the function is called in each run again. WEFT_ERR_STATE if you call this from within the
 * function; WEFT_ERR_UNSUPPORTED if there are more than WEFT_MAX_FROZEN_SCALARS scalars. */
WEFT_API weft_status weft_graph_freeze(weft_graph *graph, bool on);

/** Counts since weft_graph_create(). */
typedef struct weft_graph_info {
    uint64_t runs;     /**< number of runs by weft_graph_call() */
    uint64_t captures; /**< traces captured */
    uint64_t replays;  /**< traces replayed as a whole */
    uint64_t guards_failed; /**< calls that differed from the recorded one */
    uint64_t clusters, clustered_calls; /**< executed: groups of calls that became one task per rank, and their calls */
    /** Executed: groups of calls by rows that became one task per panel, which goes through memory once, and their
     * calls. Then the bytes that these tasks read and wrote on the ranks of this process, and the additional bytes
     * that the calls would have read and written one by one. */
    uint64_t fused, fused_calls, fused_bytes, saved_bytes;
    /** Peak bytes of the tensors that the newest run's calls made in this process: as measured, and as predicted from
     * their lifetimes. The prediction leaves out memory that calls use internally, and is 0 before the trace's second
     * run. */
    int64_t peak_bytes, foreseen_bytes;
    uint64_t frozen_replays; /**< how many of the replays did not call the function */
    int num_traces;    /**< traces that the graph keeps */
    int num_calls;     /**< recorded in the newest run's traces */
    int num_body_calls; /**< calls executed instead of those; equal to num_calls if nothing was changed */
    /** Effects of the passes on the newest run's bodies: calls that each pass removed; redistributions within calls
     * that became calls; redistributions that are sent together, and how many groups they form. */
    int redundant, common, dead, explicit_moves, bucketed, buckets;
    size_t bytes;      /**< memory of all traces and bodies */
    /** The guard that failed last: the call, what was recorded and what came instead; "" if none failed. Valid until
     * the next call of the graph. */
    const char *failed_guard;
    bool frozen; /**< the function is no longer called (weft_graph_freeze()) */
    const char *not_frozen; /**< why the graph is not frozen, or cannot be; "" if it is, or you did not ask for it.
                                 Valid as long as failed_guard */
    uint64_t templates; /**< captures that differed from all earlier ones in more than sizes */
    uint64_t digest;    /**< of the newest run's recorded calls: equal on all processes, and for equal calls */
} weft_graph_info;

/** Copies the counts. `size` is sizeof(*info) ("Structs that the library fills in" in <weft/base.h>). */
WEFT_API weft_status weft_graph_get_info(const weft_graph *graph, weft_graph_info *info, size_t size);

/** Format of weft_graph_print(). */
typedef enum weft_graph_format {
    WEFT_GRAPH_RECORDED = 0, /**< the inputs and calls of the newest run's traces, one per line */
    /** The calls that are executed instead: those of the bodies that the newest run executed, or of the recorded traces
     * if there is no body. */
    WEFT_GRAPH_BODY,
    /** The recorded calls as a picture for Graphviz (dot -Tsvg). Calls are boxes, redistributions are coloured boxes,
     * and values are edges labelled with their layouts. */
    WEFT_GRAPH_DOT
} weft_graph_format;

/** Prints the graph: each call with its attributes (sizes, numbers) and the layout of its first output. Redistributions,
 * and functions that make a tensor of memory, show their mesh and placements as arguments. "memory k" is passed anew in each run.
 * inputs[K] are those of the call, constant[K] those of the K-th opaque function of WEFT_OPAQUE_CONSTANT, others the function has got
 * elsewhere. A graph that is frozen lists where numbers come from, and weft_here() adds lines of the program:
 *
 *     %0 = input : f32[4, 6] [R] on 2
 *     %1 = weft_from_local(memory 0) mesh (dp 2) [S0] : f32[8, 4]
 *     %2 = weft_matmul(%1, %0) : f32[8, 6] [S0] on 2
 *     %3 = weft_redistribute(%2) mesh (dp 2) [R] : f32[8, 6]
 *     %4 = weft_scale(%3) : f32[8, 6] [R] on 2 scalars=scalars[0]  # step.c:12
 *     outputs[0] = %4
 *
 * If a size of an input has changed between calls, the inputs are listed first, with symbols for such sizes. Then
 * come the facts that held for the symbols in all calls: their range, linear dependence (from three points on), a
 * common divisor, and that they were never 1. The required relations follow, then those that weft_graph_test() has
 * tested in the newest run, as they were, and those without which calls of this run would be refused:
 *
 *     inputs[0] : f32[s0, 6]
 *     inputs[1] : f32[s1]
 *       s0 in 4..64, % 4 == 0, != 1
 *       s1 in 24..384, == 6*s0, != 1
 *       requires i0.0 % 4 == 0
 *       tested: i0.0 != i1.0**3
 *       6*s0 == s1, as weft_add needs it */
WEFT_API weft_status weft_graph_print(const weft_graph *graph, weft_graph_format format, FILE *file);
/** Writes the newest run's traces to a file, from which weft-predict makes the same calls on meshes of other sizes
 * (docs/graphs.md). The file has the operations with their attributes and numbers, and the inputs with shapes, meshes
 * and placements, but no values. The file has the calls of this process, and is the same on all processes.
 * WEFT_ERR_INVALID if `path` is NULL; WEFT_ERR_STATE if the graph has not run, or its function is running;
 * WEFT_ERR_UNSUPPORTED if a call cannot be made elsewhere, such as a user-defined operation; WEFT_ERR_IO. */
WEFT_API weft_status weft_graph_save(const weft_graph *graph, const char *path);

WEFT_END_DECLS

#endif
