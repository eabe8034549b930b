/* Executing the calls of a segment, each as if it had not been deferred. */
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "codelets/random.h"
#include "codelets/stencil.h"
#include "dispatch/cache.h"
#include "graph/fuse/cluster.h"
#include "graph/passes/body.h"
#include "graph/run/graph.h"
#include "ops/stencil.h"
#include "runtime/pending.h"
#include "tensor/actions.h"
#include "tensor/ghosts.h"
#include "tensor/promised.h"
#include "tensor/state.h"
#include "tensor/submit.h"

/* The values of the segment while it is executed. */
typedef struct executing {
    weft_graph_run *run;
    const weft_graph_body *body; /* executed in its place; NULL: none */
    const weft_graph_trace *executed; /* the body's trace, or the recorded one; numbers below are of its values */
    weft_tensor_impl **values; /* by number, each with a reference; NULL: not computed yet, or not needed any more */
    const bool *is_promised;   /* by number: a promised tensor waits for it */
    bool *is_outside;          /* by number: it is in a tensor from before the segment */
} executing;

static void set_value(const executing *e, int number, weft_tensor_impl *tensor)
{
    weft_tensor_impl *former = e->values[number];
    if (tensor != NULL) {
        tensor->references++;
    }
    e->values[number] = tensor;
    if (former != NULL) {
        weft_tensor_unreference(former);
    }
}

/* The tensor from before the segment that a value is in, or that a call is to change; NULL: none. */
static weft_tensor_impl *bound_at(const executing *e, int number)
{
    int recorded = weft_trace_value(e->executed, number)->recorded;
    return recorded < 0 ? NULL : ((weft_tensor_impl *const *)e->run->bound.items)[recorded];
}

/* A node's own arguments in this run. */
static const weft_deferred_call *deferred_of(const executing *e, const weft_graph_node *node)
{
    static const weft_deferred_call none = { .scalars = { 0 } };
    return node->source < 0 ? &none : (const weft_deferred_call *)e->run->calls.items + node->source;
}

/* Whether a value is needed after a node. */
static bool is_needed(const executing *e, int number, int node)
{
    return e->is_promised[number] || weft_trace_value(e->executed, number)->last_use > node;
}

/* Another tensor with the same values. NULL with the error kept. */
static weft_tensor_impl *keep_aside(const char *function, weft_tensor_impl *tensor)
{
    weft_tensor_impl *kept;
    if (tensor->borrowed) {
        kept = weft_tensor_new(function, tensor->layout);
        return kept != NULL && weft_tensor_copy_into(function, kept, tensor) ? kept : NULL;
    }
    kept = weft_tensor_save_memory(function, tensor);
    if (kept == NULL) {
        return NULL;
    }
    bool registered = weft_tensor_register(function, kept);
    weft_tensor_unreference(kept); /* the scope has one */
    return registered ? kept : NULL;
}

/* The tensor whose memory a value takes over; NULL: none. */
static weft_tensor_impl *find_dying(const executing *e, int number)
{
    int taken = e->body == NULL || e->body->takes == NULL || number < 0 ? -1 : e->body->takes[number];
    return taken < 0 ? NULL : e->values[taken];
}

/* The node's call on the values. */
typedef struct made_call {
    weft_own_call own;
    weft_tensor **tensors; /* handles of all inputs */
    weft_tensor **outputs;
} made_call;

/* A tensor that is changed may hold a value that is needed still, or be a tensor of the program's that is not meant. Then
 * the former value moves to another tensor, or the call is made on another one. False with the error kept. */
static bool choose_target(const executing *e, const weft_graph_node *node, int number, int output, made_call *made)
{
    int input = node->inputs[output];
    weft_tensor_impl *holder = e->values[input], *meant = bound_at(e, node->outputs[output]);
    bool needed = is_needed(e, input, number);
    if (meant != NULL && meant != holder) { /* a copy that shares the holder's memory (weft_detach()) */
        made->tensors[output] = meant->handle;
        return true;
    }
    if (!needed && (meant != NULL || !e->is_outside[input])) {
        return true;
    }
    weft_tensor_impl *other = keep_aside(node->call->function, holder);
    if (other == NULL) {
        return false;
    }
    if (meant == NULL) {
        made->tensors[output] = other->handle;
        return true;
    }
    bool held = weft_tensor_share(holder) != NULL; /* by the call's scope */
    set_value(e, input, other);
    return held;
}

static bool choose_targets(const executing *e, const weft_graph_node *node, int number, made_call *made)
{
    bool done = true;
    for (int i = 0; i < node->num_outputs && i < node->num_inputs && done; i++) {
        done = node->outputs[i] < 0 || !weft_call_changes(node->call, i) || choose_target(e, node, number, i, made);
    }
    return done;
}

/* A call that a composite is made of has scalars of its own, and some of the composite's. */
static void find_call_scalars(const executing *e, const weft_graph_node *node, double scalars[])
{
    const weft_deferred_call *deferred = deferred_of(e, node);
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        bool own = node->is_step && !(node->call->inherited >> i & 1);
        scalars[i] = own ? node->call->scalars[i] : deferred->scalars[i];
    }
}

/* The calls that a stencil was made of have scalars of their own. */
static void find_stencil_scalars(const executing *e, weft_stencil *stencil)
{
    for (int i = 0; i < stencil->num_steps; i++) {
        const weft_deferred_call *deferred = (const weft_deferred_call *)e->run->calls.items + stencil->steps[i].source;
        memcpy(stencil->steps[i].scalars, deferred->scalars, sizeof(deferred->scalars));
    }
}

static bool make_call(const executing *e, int number, made_call *made)
{
    const weft_graph_node *node = weft_trace_node(e->executed, (size_t)number);
    for (int i = 0; i < node->num_inputs; i++) {
        made->tensors[i] = weft_tensor_handle(e->values[node->inputs[i]]);
    }
    if (!choose_targets(e, node, number, made)) {
        return false;
    }
    weft_call_on(&made->own, node->call, made->tensors);
    find_call_scalars(e, node, made->own.call.scalars);
    if (node->call->operation == &weft_operation_stencil) {
        find_stencil_scalars(e, node->call->details->context);
    }
    return true;
}

/* The calls of a composite are executed as such, whether or not they are composites. */
static weft_status invoke_step(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_call_is_action(call)) {
        return call->operation->perform(call, outputs);
    }
    return weft_dispatch_itself_all(call, outputs) ? WEFT_OK : weft_latest_status();
}

/* The call with the random state and the region that it was made in. */
static weft_status invoke(const weft_graph_node *node, const weft_deferred_call *deferred, made_call *made)
{
    weft_random_state *state = weft_random_in_use(), former = *state;
    int implicit = weft_runtime.implicit_replications;
    if (node->draws) {
        *state = deferred->random;
    }
    uint64_t drawn = state->offset + node->draws;
    weft_runtime.implicit_replications = node->implicit;
    weft_status status = (node->is_step ? invoke_step : weft_invoke)(&made->own.call, made->outputs);
    weft_runtime.implicit_replications = implicit;
    drawn -= state->offset;
    *state = former;
    if (status == WEFT_OK && drawn != 0 && weft_runtime.context.rehearsal == NULL) {
        status = weft_fail_alone(WEFT_ERR_STATE, made->own.call.function,
                                 "draws other random numbers than foreseen when it was captured");
    }
    return status;
}

/* Versions were counted when the calls were deferred. */
static bool take_outputs(const executing *e, const weft_graph_node *node, const made_call *made)
{
    for (int i = 0; i < node->num_outputs; i++) {
        int number = node->outputs[i];
        if (number < 0) {
            continue;
        }
        weft_tensor_impl *output = weft_tensor_get(made->outputs[i]);
        if (output->layout != weft_trace_value(e->executed, number)->layout) {
            weft_fail_alone(WEFT_ERR_STATE, made->own.call.function,
                            "the output's layout is another than when it was captured: has an operation been replaced?");
            return false;
        }
        bool changed = weft_call_changes(&made->own.call, i);
        if (changed && output->ghosted != NULL && !weft_ghosted_write_back(made->own.call.function, output)) {
            return false;
        }
        output->version -= changed;
        if (changed && output->ghosted != NULL && !output->fake) { /* its arrays have this version */
            output->ghosted->version = output->version;
        }
        set_value(e, number, output);
    }
    return true;
}

static void drop_unneeded(const executing *e, const weft_graph_node *node, int number)
{
    for (int i = 0; i < node->num_inputs + node->num_outputs; i++) {
        int value = node->inputs[i];
        if (value >= 0 && !is_needed(e, value, number)) {
            set_value(e, value, NULL);
        }
    }
}

static void count_stencil(weft_graph_info *info, const weft_stencil *stencil)
{
    info->fused++;
    info->fused_calls += (uint64_t)stencil->num_calls;
}

static weft_status execute_node(const executing *e, int number, made_call *made)
{
    const weft_graph_node *node = weft_trace_node(e->executed, (size_t)number);
    if (node->without_data && weft_runtime.context.rehearsal == NULL) {
        return WEFT_OK;
    }
    if (!weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    bool can = make_call(e, number, made);
    const weft_context outer =
        weft_context_enter(weft_context_with_dying(node->num_outputs == 1 ? find_dying(e, node->outputs[0]) : NULL));
    weft_status status = can ? invoke(node, deferred_of(e, node), made) : weft_latest_status();
    weft_context_leave(outer);
    if (status == WEFT_OK && !take_outputs(e, node, made)) {
        status = weft_latest_status();
    }
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    if (status == WEFT_OK) {
        drop_unneeded(e, node, number);
    }
    if (status == WEFT_OK && node->call->operation == &weft_operation_stencil) {
        count_stencil(&e->run->graph->info, node->call->details->context);
    }
    return status;
}

/* ---- clusters -------------------------------------------------------------------------------------------- */

/* The tensor of a value that a cluster changes where it is. NULL with the error kept. */
static weft_tensor_impl *find_changed(const executing *e, int value, int becomes)
{
    static const char function[] = "weft_graph_call";
    weft_tensor_impl *tensor = e->values[value], *meant = bound_at(e, becomes);
    if (meant != NULL) { /* the tensor itself, or a copy that shares its memory (weft_detach()) */
        tensor = meant;
    } else if (e->is_outside[value]) { /* a tensor of the program's that is not meant */
        tensor = keep_aside(function, tensor);
    }
    return tensor != NULL && weft_tensor_make_writable(function, tensor, true) ? tensor : NULL;
}

static weft_tensor_impl *make_output(const executing *e, int value)
{
    static const char function[] = "weft_graph_call";
    weft_tensor_impl *dying = find_dying(e, value);
    return dying != NULL ? weft_tensor_new_over(function, dying)
                         : weft_tensor_new(function, weft_trace_value(e->executed, value)->layout);
}

/* Tensors of a cluster's values: its outputs are new ones of the innermost scope. False with the error kept. */
static bool find_tensors(const executing *e, const weft_cluster *cluster, weft_tensor_impl *tensors[])
{
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        int value = cluster->values[i];
        tensors[i] = i >= cluster->num_inputs ? make_output(e, value)
                     : cluster->becomes[i] < 0 ? e->values[value]
                                               : find_changed(e, value, cluster->becomes[i]);
        if (tensors[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* The scalars of a cluster's calls, and the states of random numbers that they take. */
static void find_scalars(const executing *e, const weft_cluster *cluster, double scalars[])
{
    for (int i = 0; i < weft_cluster_num_calls(cluster); i++) {
        const weft_graph_node *node = weft_trace_node(e->executed, (size_t)(cluster->first + i));
        const weft_deferred_call *deferred = deferred_of(e, node);
        double *own = scalars + (size_t)i * WEFT_MAX_SCALARS;
        find_call_scalars(e, node, own);
        if (node->draws) {
            weft_random_pack(own + WEFT_RANDOM_SEED, deferred->random.seed);
            weft_random_pack(own + WEFT_RANDOM_OFFSET, deferred->random.offset);
        }
    }
}

static bool submit_cluster(const executing *e, weft_cluster *cluster)
{
    size_t num_tensors = (size_t)(cluster->num_inputs + cluster->num_outputs);
    size_t num_scalars = (size_t)weft_cluster_num_calls(cluster) * WEFT_MAX_SCALARS;
    weft_room *room = weft_room_obtain(num_scalars * sizeof(double) + num_tensors * sizeof(weft_tensor_impl *));
    if (room == NULL) {
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for a cluster of calls");
        return false;
    }
    double *scalars = (double *)(void *)room->memory;
    weft_tensor_impl **tensors = (weft_tensor_impl **)(void *)(scalars + num_scalars);
    find_scalars(e, cluster, scalars);
    bool done = find_tensors(e, cluster, tensors) && weft_cluster_submit("weft_graph_call", cluster, tensors, scalars);
    for (int i = 0; i < (int)num_tensors && done; i++) {
        int value = i >= cluster->num_inputs ? cluster->values[i] : cluster->becomes[i];
        if (value >= 0) {
            set_value(e, value, tensors[i]);
        }
    }
    weft_room_give_back(room);
    return done;
}

static void drop_if_unneeded(const executing *e, int value, int node)
{
    if (value >= 0 && !is_needed(e, value, node)) {
        set_value(e, value, NULL);
    }
}

static void count_cluster(weft_graph_info *info, const weft_cluster *cluster)
{
    uint64_t calls = (uint64_t)weft_cluster_num_calls(cluster);
    info->clusters += !cluster->fused;
    info->clustered_calls += cluster->fused ? 0 : calls;
    info->fused += cluster->fused;
    info->fused_calls += cluster->fused ? calls : 0;
    info->fused_bytes += (uint64_t)cluster->bytes;
    info->saved_bytes += (uint64_t)cluster->saved_bytes;
}

static weft_status execute_cluster(const executing *e, weft_cluster *cluster)
{
    if (!weft_pending_admit(weft_runtime.pending, "weft_graph_call") || !weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    bool done = submit_cluster(e, cluster);
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs && done; i++) {
        drop_if_unneeded(e, cluster->values[i], cluster->last);
        drop_if_unneeded(e, i < cluster->num_inputs ? cluster->becomes[i] : -1, cluster->last);
    }
    count_cluster(&e->run->graph->info, cluster);
    return done ? WEFT_OK : weft_latest_status();
}

/* Tasks may run in another order than they are submitted. */
static void begin_places(const executing *e)
{
    weft_pool_set_reuse(weft_runtime.pool, e->body != NULL && e->body->is_ordered ? WEFT_REUSE_LATER : WEFT_REUSE_NEWEST);
}

/* Tasks submitted from here on are those of this node: its line in the program, and their place among the body's. */
static void set_place(const executing *e, int node, uint64_t operations_before)
{
    weft_here_set(weft_trace_node(e->executed, (size_t)node)->here, weft_trace_node(e->executed, (size_t)node)->here_line);
    if (e->body != NULL && e->body->places != NULL) {
        weft_task_set_delay(operations_before + e->body->places[node] - weft_runtime.operations);
    }
}

/* The next tasks run after all places. */
static void end_places(const executing *e, uint64_t operations_before)
{
    uint64_t end = operations_before + (e->body == NULL ? 0 : e->body->num_places);
    weft_runtime.operations = end > weft_runtime.operations ? end : weft_runtime.operations;
    weft_task_set_delay(0);
    weft_pool_set_reuse(weft_runtime.pool, WEFT_REUSE_NEWEST);
}

/* Calls are numbered, and messages carry a digest, as if each node were executed by itself: so they match on processes that
 * cluster other calls. */
typedef struct numbering {
    uint64_t digest, number, one; /* before the run; 1 if calls are numbered */
} numbering;

static void set_number(const executing *e, const numbering *n, int node)
{
    const weft_deferred_call *deferred = deferred_of(e, weft_trace_node(e->executed, (size_t)node));
    weft_runtime.digest = e->run->alone ? deferred->digest : weft_digest_add(n->digest, (uint64_t)node);
    weft_runtime.call_number = e->run->alone ? deferred->number : n->number + (uint64_t)node * n->one;
}

static void end_numbers(const executing *e, const numbering *n)
{
    const uint64_t count = e->run->alone ? 0 : e->executed->nodes.count;
    weft_runtime.digest = e->run->alone ? n->digest : weft_digest_add(n->digest, count);
    weft_runtime.call_number = n->number + count * n->one;
}

static weft_status execute_calls(const executing *e, made_call *made)
{
    const weft_clusters *clusters = e->body == NULL ? NULL : e->body->clusters;
    size_t next = 0, num_clusters = clusters == NULL ? 0 : clusters->clusters.count;
    const numbering numbers = { weft_runtime.digest, weft_runtime.call_number, weft_runtime.comm != NULL };
    const uint64_t operations = weft_runtime.operations;
    const char *here = weft_runtime.here;
    const int here_line = weft_runtime.here_line;
    weft_status status = WEFT_OK;
    begin_places(e);
    for (int i = 0; i < (int)e->executed->nodes.count && status == WEFT_OK; i++) {
        weft_cluster *cluster = next < num_clusters ? ((weft_cluster **)clusters->clusters.items)[next] : NULL;
        set_number(e, &numbers, i);
        set_place(e, i, operations);
        if (cluster == NULL || cluster->first != i) {
            status = execute_node(e, i, made);
            continue;
        }
        status = execute_cluster(e, cluster);
        i = cluster->last;
        next++;
    }
    end_places(e, operations);
    weft_here_set(here, here_line);
    end_numbers(e, &numbers);
    return status;
}

/* ---- promises -------------------------------------------------------------------------------------------- */

/* The values that are promised, by recorded number. */
static void find_promised(bool wanted[])
{
    for (const weft_tensor_impl *p = weft_runtime.tensors->promised; p != NULL; p = p->next_promised) {
        wanted[p->number] = true;
    }
}

/* Gives every promised tensor its values. */
static weft_status fulfil_all(const executing *e)
{
    while (weft_runtime.tensors->promised != NULL) {
        weft_tensor_impl *promised = weft_runtime.tensors->promised;
        int number = e->body == NULL ? promised->number : e->body->values[promised->number];
        if (!weft_tensor_fulfil("weft_graph_call", promised, e->values[number])) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static void find_most(const weft_graph_trace *trace, int *inputs, int *outputs)
{
    *inputs = *outputs = 1;
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        *inputs = node->num_inputs > *inputs ? node->num_inputs : *inputs;
        *outputs = node->num_outputs > *outputs ? node->num_outputs : *outputs;
    }
}

/* The run's references of inputs become those of the values: the last use releases them, so that a value that only the
 * run knows does not keep a tensor from being changed where it is. */
static void take_inputs(const executing *e)
{
    for (int i = 0; i < (int)e->executed->values.count; i++) {
        const weft_graph_value *value = weft_trace_value(e->executed, i);
        e->is_outside[i] = bound_at(e, i) != NULL;
        if (value->is_input) {
            weft_tensor_impl **bound = weft_run_bound(e->run, value->recorded), *input = *bound;
            bool needed = value->last_use >= 0 || e->is_promised[i];
            set_value(e, i, needed ? input : NULL);
            *bound = NULL;
            weft_tensor_unreference(input);
        }
    }
}

static weft_status execute_all(const executing *e, made_call *made)
{
    weft_status status = WEFT_OK;
    take_inputs(e);
    const weft_context outer = weft_context_enter(weft_context_within_call());
    status = execute_calls(e, made);
    weft_context_leave(outer);
    status = status == WEFT_OK ? fulfil_all(e) : status;
    for (int i = 0; i < (int)e->executed->values.count; i++) {
        set_value(e, i, NULL);
    }
    return status;
}

/* The trace or its body, with memory for its values. */
static weft_status execute(executing *e)
{
    int num_inputs, num_outputs;
    size_t count = e->executed->values.count + 1;
    find_most(e->executed, &num_inputs, &num_outputs);
    size_t pointers = (count + (size_t)(num_inputs + num_outputs)) * sizeof(void *);
    weft_room *room = weft_room_obtain(pointers + count * sizeof(bool));
    if (room == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for the calls of graph %s", e->run->graph->name);
    }
    memset(room->memory, 0, pointers + count * sizeof(bool));
    e->values = (weft_tensor_impl **)(void *)room->memory;
    e->is_outside = (bool *)(room->memory + pointers);
    made_call made;
    made.tensors = (weft_tensor **)(void *)(room->memory + count * sizeof(void *));
    made.outputs = made.tensors + num_inputs;
    int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_pool_mark(weft_runtime.pool);
    const bool traces = weft_runtime.trace != NULL;
    if (traces) { /* the number of each task's run, for StarPU's tools */
        starpu_iteration_push((unsigned long)e->run->graph->info.runs);
    }
    weft_status status = execute_all(e, &made);
    if (traces) {
        starpu_iteration_pop();
    }
    weft_graph_info *info = &e->run->graph->info;
    info->peak_bytes = weft_max_i64(info->peak_bytes, weft_pool_marked_peak(weft_runtime.pool) - before);
    info->foreseen_bytes = weft_max_i64(info->foreseen_bytes, e->body == NULL ? 0 : e->body->peak_bytes);
    weft_room_give_back(room);
    return status;
}

weft_status weft_run_execute(weft_graph_run *run, weft_graph_trace *trace)
{
    size_t bytes = (trace->values.count + 1) * sizeof(bool);
    bool *wanted = trace->wanted = trace->wanted == NULL ? malloc(bytes) : trace->wanted;
    if (wanted == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for the calls of graph %s", run->graph->name);
    }
    memset(wanted, 0, bytes);
    find_promised(wanted);
    weft_graph_body *body;
    weft_status status = weft_body_obtain(run, trace, wanted, &body);
    executing e = { .run = run, .body = body };
    e.executed = body == NULL ? trace : body->trace;
    e.is_promised = body == NULL ? wanted : body->is_promised;
    return status == WEFT_OK ? execute(&e) : status;
}
