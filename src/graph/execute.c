/* Executing the calls of a segment, each as if it had not been deferred. */
#include <stdlib.h>
#include <string.h>

#include "codelets/random.h"
#include "dispatch/cache.h"
#include "graph/cluster.h"
#include "runtime/pending.h"
#include "tensor/actions.h"
#include "tensor/promised.h"
#include "tensor/state.h"

/* The values of the segment while it is executed. */
typedef struct executing {
    weft_graph_run *run;
    weft_graph_trace *trace;
    weft_tensor_impl **values; /* by number, each with a reference; NULL: not computed yet, or not needed any more */
    bool *is_promised;         /* by number: a promised tensor waits for it */
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

static weft_tensor_impl *bound_at(const executing *e, int number)
{
    return ((weft_tensor_impl *const *)e->run->bound.items)[number];
}

static const weft_deferred_call *deferred_at(const executing *e, int number)
{
    return (const weft_deferred_call *)e->run->calls.items + number;
}

/* Whether a value is needed behind a node. */
static bool is_needed(const executing *e, int number, int node)
{
    return e->is_promised[number] || weft_trace_value(e->trace, number)->last_use > node;
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

/* The node's call on the values. */
typedef struct made_call {
    weft_call call;
    weft_call_details details;
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
    weft_tensor_impl *other = keep_aside(made->call.function, holder);
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

static bool make_call(const executing *e, int number, made_call *made)
{
    const weft_graph_node *node = weft_trace_node(e->trace, (size_t)number);
    made->call = *node->call;
    memcpy(made->call.scalars, deferred_at(e, number)->scalars, sizeof(made->call.scalars));
    for (int i = 0; i < node->num_inputs; i++) {
        made->tensors[i] = weft_tensor_handle(e->values[node->inputs[i]]);
    }
    if (!choose_targets(e, node, number, made)) {
        return false;
    }
    memcpy(made->call.inputs, made->tensors, (size_t)made->call.num_inputs * sizeof(weft_tensor *));
    if (made->call.details != NULL) {
        made->details = *made->call.details;
        made->details.tensors = made->tensors + made->call.num_inputs;
        made->call.details = &made->details;
    }
    return true;
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
    weft_status status = weft_invoke(&made->call, made->outputs);
    weft_runtime.implicit_replications = implicit;
    drawn -= state->offset;
    *state = former;
    if (status == WEFT_OK && drawn != 0) {
        status = weft_fail_alone(WEFT_ERR_STATE, made->call.function,
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
        if (output->layout != weft_trace_value(e->trace, number)->layout) {
            weft_fail_alone(WEFT_ERR_STATE, made->call.function,
                            "the output's layout is another than when it was captured: has an operation been replaced?");
            return false;
        }
        output->version -= weft_call_changes(&made->call, i);
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

static weft_status execute_node(const executing *e, int number, made_call *made)
{
    const weft_graph_node *node = weft_trace_node(e->trace, (size_t)number);
    if (node->without_data) {
        return WEFT_OK;
    }
    if (!weft_scope_open_unrecorded()) {
        return weft_latest_status();
    }
    weft_status status = make_call(e, number, made) ? invoke(node, deferred_at(e, number), made) : weft_latest_status();
    if (status == WEFT_OK && !take_outputs(e, node, made)) {
        status = weft_latest_status();
    }
    weft_scope_close_keeping(0, NULL, NULL, NULL);
    if (status == WEFT_OK) {
        drop_unneeded(e, node, number);
    }
    return status;
}

/* ---- clusters -------------------------------------------------------------------------------------------- */

enum { MAX_BUILDS = 4 };

/* The trace's clusters for the values that are promised now: built at its second run, and again if other values are
 * needed. NULL: each call is executed on its own. False with the error kept: no memory. */
static bool find_clusters(const executing *e, weft_clusters **found)
{
    weft_graph_trace *trace = e->trace;
    weft_clusters *known = trace->clusters;
    *found = NULL;
    /* WEFT_CHECK compares calls, and forced layouts are for single calls. */
    if (trace->runs++ == 0 || weft_runtime.check || weft_runtime.replaced.count > 0 || weft_forced()->active) {
        return true;
    }
    if (known != NULL && memcmp(known->is_promised, e->is_promised, known->num_values * sizeof(bool)) == 0) {
        *found = known;
        return true;
    }
    if (trace->num_builds == MAX_BUILDS) {
        return true;
    }
    weft_clusters_free(known);
    trace->num_builds++;
    *found = trace->clusters = weft_clusters_build(trace, e->is_promised);
    return *found != NULL;
}

/* Tensors of a cluster's values: its outputs are new ones of the innermost scope. False with the error kept. */
static bool find_tensors(const executing *e, const weft_cluster *cluster, weft_tensor_impl *tensors[])
{
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        int value = cluster->values[i];
        tensors[i] = i < cluster->num_inputs
                         ? e->values[value]
                         : weft_tensor_new("weft_graph_call", weft_trace_value(e->trace, value)->layout);
        if (tensors[i] == NULL) {
            return false;
        }
    }
    return true;
}

static bool submit_cluster(const executing *e, weft_cluster *cluster)
{
    static const char function[] = "weft_graph_call";
    size_t num_tensors = (size_t)(cluster->num_inputs + cluster->num_outputs);
    size_t num_calls = (size_t)weft_cluster_num_calls(cluster);
    weft_tensor_impl **tensors = malloc((num_tensors + 1) * sizeof(*tensors));
    double *scalars = malloc(num_calls * sizeof(deferred_at(e, 0)->scalars));
    bool done = tensors != NULL && scalars != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a cluster of calls");
    }
    for (size_t i = 0; i < num_calls && done; i++) {
        memcpy(scalars + i * WEFT_MAX_SCALARS, deferred_at(e, cluster->first + (int)i)->scalars,
               sizeof(deferred_at(e, 0)->scalars));
    }
    done = done && find_tensors(e, cluster, tensors) && weft_cluster_submit(cluster, tensors, scalars);
    for (int i = cluster->num_inputs; i < (int)num_tensors && done; i++) {
        set_value(e, cluster->values[i], tensors[i]);
    }
    free(tensors);
    free(scalars);
    return done;
}

static weft_status execute_cluster(const executing *e, weft_cluster *cluster)
{
    if (!weft_pending_admit(weft_runtime.pending, "weft_graph_call") || !weft_scope_open_unrecorded()) {
        return weft_latest_status();
    }
    bool done = submit_cluster(e, cluster);
    weft_scope_close_keeping(0, NULL, NULL, NULL);
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs && done; i++) {
        if (!is_needed(e, cluster->values[i], cluster->last)) {
            set_value(e, cluster->values[i], NULL);
        }
    }
    e->run->graph->info.clusters++;
    e->run->graph->info.clustered_calls += (uint64_t)weft_cluster_num_calls(cluster);
    return done ? WEFT_OK : weft_latest_status();
}

static weft_status execute_calls(const executing *e, made_call *made)
{
    weft_clusters *clusters;
    if (!find_clusters(e, &clusters)) {
        return weft_latest_status();
    }
    size_t next = 0, num_clusters = clusters == NULL ? 0 : clusters->clusters.count;
    weft_status status = WEFT_OK;
    for (int i = 0; i < (int)e->trace->nodes.count && status == WEFT_OK; i++) {
        weft_cluster *cluster = next < num_clusters ? ((weft_cluster **)clusters->clusters.items)[next] : NULL;
        if (cluster == NULL || cluster->first != i) {
            status = execute_node(e, i, made);
            continue;
        }
        status = execute_cluster(e, cluster);
        i = cluster->last;
        next++;
    }
    return status;
}

/* ---- promises -------------------------------------------------------------------------------------------- */

static void find_promised(const executing *e)
{
    for (weft_tensor_impl *p = weft_runtime.tensors->promised; p != NULL; p = p->next_promised) {
        e->is_promised[p->number] = true;
    }
}

/* Gives every promised tensor its values. */
static weft_status fulfil_all(const executing *e)
{
    while (weft_runtime.tensors->promised != NULL) {
        weft_tensor_impl *promised = weft_runtime.tensors->promised;
        if (!weft_tensor_fulfil("weft_graph_call", promised, e->values[promised->number])) {
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
    for (int i = 0; i < (int)e->trace->values.count; i++) {
        weft_tensor_impl **bound = weft_run_bound(e->run, i), *input = *bound;
        e->is_outside[i] = input != NULL;
        if (weft_trace_value(e->trace, i)->is_input) {
            set_value(e, i, input);
            *bound = NULL;
            weft_tensor_unreference(input);
        }
    }
}

static weft_status execute_all(const executing *e, made_call *made)
{
    weft_status status = WEFT_OK;
    take_inputs(e);
    find_promised(e);
    weft_runtime.call_depth++;
    status = execute_calls(e, made);
    weft_runtime.call_depth--;
    status = status == WEFT_OK ? fulfil_all(e) : status;
    for (int i = 0; i < (int)e->trace->values.count; i++) {
        set_value(e, i, NULL);
    }
    return status;
}

weft_status weft_run_execute(weft_graph_run *run, weft_graph_trace *trace)
{
    int num_inputs, num_outputs;
    size_t count = trace->values.count;
    find_most(trace, &num_inputs, &num_outputs);
    executing e = { .run = run, .trace = trace };
    made_call made;
    e.values = calloc(count + 1, sizeof(weft_tensor_impl *));
    e.is_promised = calloc(2 * count + 1, sizeof(bool));
    e.is_outside = e.is_promised + count;
    made.tensors = calloc((size_t)(num_inputs + num_outputs), sizeof(weft_tensor *));
    made.outputs = made.tensors + num_inputs;
    weft_status status = e.values == NULL || e.is_promised == NULL || made.tensors == NULL
                             ? weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for the calls of graph %s",
                                         run->graph->name)
                             : execute_all(&e, &made);
    free(made.tensors);
    free(e.is_promised);
    free(e.values);
    return status;
}
