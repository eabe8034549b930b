/* Calls of an expansion that change tensors in place, one after the other: a cluster of small calls, as in a graph. */
#include <stdlib.h>

#include <weft/graph.h>

#include "dispatch/expansion.h"
#include "graph/fuse/cluster.h"
#include "runtime/pool.h"
#include "tensor/state.h"

/* A node of its trace stands for each step of the expansion. */
struct weft_joined {
    weft_clusters *clusters;
    weft_vec tensors; /* int, by value of the trace: the tensor of the expansion that has it */
};

/* ---- making them ----------------------------------------------------------------------------------------- */

/* A trace of the expansion's steps; the tensors' newest values. */
typedef struct tracing {
    const weft_expansion *expansion;
    weft_graph_trace *trace;
    weft_joined *joined;
    int *current;
} tracing;

/* False: no memory. */
static bool add_value(const tracing *t, int tensor, bool is_input)
{
    const weft_layout *layout = ((const weft_layout *const *)t->expansion->layouts.items)[tensor];
    int *place = weft_vec_push(&t->joined->tensors, sizeof(*place));
    if (place == NULL || !weft_trace_add_value(t->trace, layout, is_input)) {
        return false;
    }
    *place = tensor;
    t->current[tensor] = (int)t->joined->tensors.count - 1;
    return true;
}

static bool add_step(const tracing *t, const weft_step *step)
{
    int inputs[WEFT_MAX_INPUTS], outputs[WEFT_MAX_STEP_OUTPUTS];
    bool done = true;
    for (int i = 0; i < step->call->num_inputs; i++) {
        inputs[i] = t->current[step->inputs[i]];
    }
    for (int i = 0; i < step->num_outputs && done; i++) {
        done = add_value(t, step->outputs[i], false);
        outputs[i] = t->current[step->outputs[i]];
    }
    done = done && weft_trace_add_node(t->trace, step->call, inputs, step->num_outputs, outputs);
    if (done) {
        weft_graph_node *node = weft_trace_node(t->trace, t->trace->nodes.count - 1);
        node->is_step = true;
        node->without_data = !weft_step_changes_alone(step); /* it is not clustered */
    }
    return done;
}

static bool trace_steps(const tracing *t)
{
    const weft_step *steps = t->expansion->steps.items;
    bool done = true;
    for (int i = 0; i < t->expansion->num_inputs && done; i++) {
        done = add_value(t, i, true);
    }
    for (size_t s = 0; s < t->expansion->steps.count && done; s++) {
        done = add_step(t, &steps[s]);
    }
    weft_trace_finish(t->trace);
    return done;
}

/* All last values are wanted. False with the error kept. */
static bool build(const char *function, const tracing *t)
{
    bool *promised = calloc(t->joined->tensors.count + 1, sizeof(*promised));
    if (promised == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for clusters of calls");
        return false;
    }
    for (int i = 0; i < t->expansion->num_tensors; i++) {
        promised[t->current[i]] = true;
    }
    t->joined->clusters = weft_clusters_build(function, t->trace, promised, WEFT_PASS_CLUSTER);
    free(promised);
    return t->joined->clusters != NULL;
}

static void free_joined(weft_joined *joined)
{
    weft_clusters_free(joined->clusters);
    weft_vec_free(&joined->tensors);
    free(joined);
}

static weft_joined *make(const char *function, const weft_expansion *expansion, size_t *bytes)
{
    tracing t = { .expansion = expansion, .trace = weft_trace_new(), .joined = calloc(1, sizeof(weft_joined)) };
    t.current = calloc((size_t)expansion->num_tensors + 1, sizeof(*t.current));
    bool has_memory = t.trace != NULL && t.joined != NULL && t.current != NULL && trace_steps(&t);
    bool done = has_memory && build(function, &t);
    if (!has_memory) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for clusters of calls");
    }
    if (!done && t.joined != NULL) {
        free_joined(t.joined);
    }
    *bytes = done ? sizeof(*t.joined) + t.joined->tensors.count * sizeof(int) + weft_clusters_bytes(t.joined->clusters) : 0;
    weft_trace_free(t.trace);
    free(t.current);
    return done ? t.joined : NULL;
}

/* ---- running them ---------------------------------------------------------------------------------------- */

static weft_cluster *find_cluster(const weft_joined *joined, size_t first)
{
    weft_cluster *const *all = joined->clusters->clusters.items;
    for (size_t i = 0; i < joined->clusters->clusters.count; i++) {
        if ((size_t)all[i]->first == first) {
            return all[i];
        }
    }
    return NULL;
}

/* False: some are without data, or in arrays, whose calls do more. */
static bool choose_tensors(const weft_joined *joined, const weft_cluster *cluster, weft_tensor_impl *const tensors[],
                           weft_tensor_impl *chosen[])
{
    const int *numbers = joined->tensors.items;
    bool plain = cluster->num_outputs == 0;
    for (int i = 0; i < cluster->num_inputs; i++) {
        chosen[i] = tensors[numbers[cluster->values[i]]];
        plain = plain && !chosen[i]->fake && chosen[i]->ghosted == NULL;
    }
    return plain;
}

/* False with the error kept. */
static bool change(const char *function, const weft_cluster *cluster, weft_tensor_impl *const chosen[])
{
    bool done = true;
    for (int i = 0; i < cluster->num_inputs && done; i++) {
        done = cluster->becomes[i] < 0 || weft_tensor_make_writable(function, chosen[i], true);
        chosen[i]->version += done && cluster->becomes[i] >= 0;
    }
    return done;
}

static int run(const weft_expansion *expansion, size_t first, const weft_call *composite, weft_tensor_impl *const tensors[])
{
    weft_cluster *cluster = find_cluster(expansion->joined, first);
    if (cluster == NULL) {
        return 0;
    }
    const int count = weft_cluster_num_calls(cluster);
    const size_t num_scalars = (size_t)count * WEFT_MAX_SCALARS;
    weft_room *room = weft_room_obtain(num_scalars * sizeof(double) + (size_t)cluster->num_inputs * sizeof(weft_tensor_impl *));
    if (room == NULL) {
        weft_fail(WEFT_ERR_NOMEM, composite->function, "no memory for a cluster of calls");
        return -1;
    }
    double *scalars = (double *)(void *)room->memory;
    weft_tensor_impl **chosen = (weft_tensor_impl **)(void *)(scalars + num_scalars);
    const weft_step *steps = expansion->steps.items;
    for (int i = 0; i < count; i++) {
        weft_step_scalars(steps[first + (size_t)i].call, composite, scalars + (size_t)i * WEFT_MAX_SCALARS);
    }
    int ran = choose_tensors(expansion->joined, cluster, tensors, chosen) ? count : 0;
    if (ran > 0 && !(change(composite->function, cluster, chosen) && weft_cluster_submit(composite->function, cluster, chosen, scalars))) {
        ran = -1;
    }
    weft_runtime.operations += ran > 0 ? (uint64_t)ran - 1 : 0; /* as many as the calls alone */
    weft_room_give_back(room);
    return ran;
}

void weft_joined_start(void)
{
    static const weft_joining joining = { make, run, free_joined };
    weft_expansions_join_by(&joining);
}
