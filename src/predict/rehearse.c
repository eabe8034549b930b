/* Rehearsals: the calls of a graph as a process of another world would execute them. */
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "graph/passes/body.h"
#include "predict/predict.h"
#include "runtime/pool.h"
#include "tensor/promised.h"
#include "tensor/state.h"

/* ---- recording ------------------------------------------------------------------------------------------- */

typedef struct rehearsing {
    weft_rehearsal base; /* must be the first member */
    weft_kernel_costs *costs;
    weft_simulation *simulation;
    weft_recording *recording;
    double kernels_us; /* spent on timing kernels */
    bool failed;       /* no memory */
} rehearsing;

void weft_recording_free(weft_recording *recording)
{
    weft_vec_free(&recording->records);
    weft_vec_free(&recording->accesses);
    weft_vec_free(&recording->messages);
}

static weft_recorded *add_record(rehearsing *r, weft_simulated_kind kind)
{
    weft_recorded *record = weft_vec_push(&r->recording->records, sizeof(*record));
    r->failed |= record == NULL;
    if (record != NULL) {
        *record = (weft_recorded){ .kind = kind,
                                   .first_access = (uint32_t)r->recording->accesses.count,
                                   .first_message = (uint32_t)r->recording->messages.count };
    }
    return record;
}

static void add_access(rehearsing *r, starpu_data_handle_t handle, bool writes)
{
    weft_simulated_access *access = weft_vec_push(&r->recording->accesses, sizeof(*access));
    r->failed |= access == NULL;
    if (access != NULL) {
        *access = (weft_simulated_access){ (uint64_t)(uintptr_t)handle, writes };
    }
}

static uint32_t family_of(weft_kernel_id kernel)
{
    static const uint32_t colors[] = { WEFT_COLOR_PRODUCT, WEFT_COLOR_OTHER, WEFT_COLOR_MOVE, WEFT_COLOR_FILL };
    uint32_t color = weft_codelet_of(kernel)->info->color;
    for (uint32_t i = 0; i < WEFT_ARRAY_SIZE(colors); i++) {
        if (colors[i] == color) {
            return i;
        }
    }
    return 1;
}

static void record_task(weft_rehearsal *self, const weft_single_task *task, const weft_submitted_run *run,
                        struct starpu_task *starpu)
{
    rehearsing *r = (rehearsing *)self;
    double begin_us = weft_processor_us();
    int64_t cost = weft_kernel_cost_of(r->costs, run, starpu);
    r->kernels_us += weft_processor_us() - begin_us;
    weft_recorded *record = add_record(r, WEFT_SIMULATED_TASK);
    r->failed |= cost < 0;
    if (r->failed) {
        return;
    }
    record->cost = cost;
    record->priority = starpu->priority;
    record->label = weft_simulation_label(r->simulation, task->name);
    record->family = family_of(task->kernel);
    record->num_accesses = (uint32_t)starpu->nbuffers;
    for (unsigned i = 0; i < (unsigned)starpu->nbuffers; i++) {
        add_access(r, STARPU_TASK_GET_HANDLE(starpu, i), (STARPU_TASK_GET_MODE(starpu, i) & STARPU_W) != 0);
    }
    r->recording->tasks++;
}

static void record_transfer(weft_rehearsal *self, starpu_data_handle_t handle, bool receive, int count,
                            const weft_message messages[], const char *label)
{
    rehearsing *r = (rehearsing *)self;
    weft_recorded *record = add_record(r, receive ? WEFT_SIMULATED_RECEIVE : WEFT_SIMULATED_SEND);
    if (record == NULL) {
        return;
    }
    record->label = weft_simulation_label(r->simulation, label);
    record->num_accesses = 1;
    record->num_messages = (uint32_t)count;
    add_access(r, handle, receive);
    for (int i = 0; i < count; i++) {
        weft_recorded_message *message = weft_vec_push(&r->recording->messages, sizeof(*message));
        r->failed |= message == NULL;
        if (message != NULL) {
            *message = (weft_recorded_message){ messages[i].peer, messages[i].tag, weft_runtime.operations,
                                                messages[i].bytes };
            r->recording->bytes += receive ? messages[i].bytes : 0;
        }
    }
}

/* ---- the other world ------------------------------------------------------------------------------------- */

/* The library's state that a rehearsal changes and restores. */
typedef struct kept_state {
    int process, num_processes, first_rank, local_ranks, *first_rank_of;
    weft_topology topology;
    weft_cost_model cost;
    weft_message_sizes messages;
    weft_counters counters;
    uint64_t operations, digest, call_number;
    const char *call;
    bool check;
    struct weft_comm *comm;
    struct weft_trace *trace;
    weft_random_state random;
    weft_context context;
} kept_state;

/* Lists of tasks and spare tensors are for the hosted ranks. */
static void drop_caches(void)
{
    weft_lru_clear(&weft_runtime.call_cache);
    weft_tensor_free_spare(weft_runtime.tensors);
    weft_runtime.tensors->num_spare = 0;
}

static kept_state enter(const weft_predicted_world *world, int process, weft_rehearsal *rehearsal)
{
    weft_runtime_state *state = &weft_runtime;
    kept_state kept = { state->process,    state->num_processes, state->first_rank, state->local_ranks,
                        state->first_rank_of, state->topology,   state->cost,       state->messages,
                        state->counters,   state->operations,    state->digest,     state->call_number,
                        state->call,       state->check,         state->comm,       state->trace,
                        *weft_random_in_use(), weft_context_enter(weft_context_rehearsed(rehearsal)) };
    drop_caches();
    state->process = process;
    state->num_processes = world->processes;
    state->first_rank_of = world->first_rank_of;
    state->first_rank = world->first_rank_of[process];
    state->local_ranks = world->first_rank_of[process + 1] - state->first_rank;
    state->topology = world->topology;
    state->cost = world->cost;
    state->messages = world->messages;
    state->operations = 0;
    state->check = false;
    state->comm = NULL;
    state->trace = NULL;
    return kept;
}

static void leave(const kept_state *kept)
{
    weft_runtime_state *state = &weft_runtime;
    drop_caches();
    weft_pool_trim(state->pool); /* the ranks of a rehearsal may have needed much */
    weft_context_leave(kept->context);
    state->process = kept->process;
    state->num_processes = kept->num_processes;
    state->first_rank = kept->first_rank;
    state->local_ranks = kept->local_ranks;
    state->first_rank_of = kept->first_rank_of;
    state->topology = kept->topology;
    state->cost = kept->cost;
    state->messages = kept->messages;
    state->counters = kept->counters;
    state->operations = kept->operations;
    state->digest = kept->digest;
    state->call_number = kept->call_number;
    state->call = kept->call;
    state->check = kept->check;
    state->comm = kept->comm;
    state->trace = kept->trace;
    *weft_random_in_use() = kept->random;
}

/* ---- tensors for the calls ------------------------------------------------------------------------------- */

static bool bind(weft_graph_run *run, weft_tensor_impl *tensor)
{
    weft_tensor_impl **bound = weft_vec_push(&run->bound, sizeof(*bound));
    if (bound == NULL) {
        return false;
    }
    *bound = tensor;
    if (tensor != NULL) {
        tensor->references++;
    }
    return true;
}

/* The node's output that is a value, where it is an input that the call changes; else -1. */
static void find_changed(const weft_graph_trace *trace, int changed_from[])
{
    for (size_t i = 0; i < trace->values.count; i++) {
        changed_from[i] = -1;
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_outputs && k < node->num_inputs; k++) {
            if (node->outputs[k] >= 0 && node->outputs[k] != node->inputs[k] && weft_call_changes(node->call, k)) {
                changed_from[node->outputs[k]] = node->inputs[k];
            }
        }
    }
}

/* Zeros are valid indices, and no kernel is slow on them. */
static void clear(const weft_tensor_impl *tensor)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        if (shard->count > 0) {
            memset(shard->buffer->memory, 0, (size_t)shard->buffer->cut.total);
        }
    }
}

/* Values in the program's tensors are in one that is made for them; those that were promised are promised again. */
static bool make_tensors(const weft_graph_trace *trace, const int changed_from[], bool timed, weft_graph_run *run)
{
    static const char function[] = "weft_graph_predict";
    bool done = true;
    for (int i = 0; i < (int)trace->values.count && done; i++) {
        const weft_graph_value *value = weft_trace_value(trace, i);
        weft_tensor_impl *tensor = value->is_input ? weft_tensor_new(function, value->layout)
                                   : changed_from[i] >= 0 ? *weft_run_bound(run, changed_from[i])
                                                          : NULL;
        done = (!value->is_input || tensor != NULL) && bind(run, tensor);
        if (done && value->is_input && timed) {
            clear(tensor);
        }
        if (!done || !trace->wanted[i] || value->is_input) {
            continue;
        }
        if (tensor == NULL) {
            tensor = weft_tensor_promise(function, value->layout, false);
        } else if (!tensor->promised) {
            weft_promised_add(tensor);
        }
        done = tensor != NULL;
        if (done) {
            tensor->number = i;
        }
    }
    for (size_t i = 0; i < trace->nodes.count && done; i++) {
        weft_deferred_call *call = weft_vec_push(&run->calls, sizeof(*call));
        done = call != NULL;
        if (done) { /* which calls a composite makes may depend on its numbers, as on the order of a norm */
            *call = (weft_deferred_call){ .random = { 0 } };
            memcpy(call->scalars, weft_trace_node(trace, i)->call->scalars, sizeof(call->scalars));
        }
    }
    return done;
}

/* A trace with bodies of its own: those of the graph belong to the hosted ranks. */
static weft_graph_trace begin_trace(const weft_graph_trace *trace)
{
    weft_graph_trace own = *trace;
    own.num_bodies = 0;
    own.executed = NULL;
    own.runs = 1;
    return own;
}

/* In a scope. A status with the error kept. */
static weft_status rehearse_trace(weft_graph_impl *graph, const weft_graph_trace *trace, weft_graph_trace *own, bool timed)
{
    weft_graph_run run = { .graph = graph };
    int *changed_from = malloc((trace->values.count + 1) * sizeof(int));
    bool *wanted = malloc((trace->values.count + 1) * sizeof(bool));
    bool done = changed_from != NULL && wanted != NULL;
    if (done) {
        memcpy(wanted, trace->wanted, trace->values.count * sizeof(bool));
        find_changed(trace, changed_from);
        done = make_tensors(trace, changed_from, timed, &run);
    }
    own->wanted = wanted;
    weft_status status = done ? weft_run_execute(&run, own)
                              : weft_fail(WEFT_ERR_NOMEM, "weft_graph_predict", "no memory for the tensors of graph %s",
                                          graph->name);
    weft_promised_break_all();
    weft_run_free(&run);
    free(wanted);
    free(changed_from);
    return status;
}

static weft_status rehearse_segments(weft_graph_impl *graph, weft_graph_trace own[], rehearsing *r)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < graph->num_newest && status == WEFT_OK; i++) {
        const weft_graph_trace *trace = ((weft_graph_segment *)graph->segments.items)[i].newest;
        if (!weft_scope_begin_unrecorded()) {
            return weft_latest_status();
        }
        status = trace->wanted == NULL ? WEFT_OK : rehearse_trace(graph, trace, &own[i], r->costs->rates == NULL);
        weft_scope_end_keeping(0, NULL, NULL, NULL);
        if (i + 1 < graph->num_newest) {
            add_record(r, WEFT_SIMULATED_WAIT);
        }
    }
    return status;
}

static void forget_records(weft_recording *recording)
{
    recording->records.count = recording->accesses.count = recording->messages.count = 0;
    recording->tasks = 0;
    recording->bytes = 0;
}

/* Twice: the first time builds bodies and fills the caches of calls; the second one takes the submitting thread as long as a
 * replay. */
static weft_status record_twice(weft_graph_impl *graph, weft_graph_trace own[], rehearsing *r)
{
    weft_status status = rehearse_segments(graph, own, r);
    if (status != WEFT_OK || r->failed) {
        return status;
    }
    forget_records(r->recording);
    weft_runtime.operations = 0;
    r->kernels_us = 0;
    int64_t used = weft_pool_bytes_in_use(weft_runtime.pool), peak, all;
    weft_pool_peak(weft_runtime.pool, &peak, &all);
    double begin_us = weft_processor_us();
    status = rehearse_segments(graph, own, r);
    r->recording->call_us = weft_processor_us() - begin_us - r->kernels_us;
    weft_pool_peak(weft_runtime.pool, &peak, &all);
    r->recording->peak_bytes = peak - used;
    return status;
}

/* The same with traces of its own. */
static weft_status record(weft_graph_impl *graph, rehearsing *r)
{
    weft_graph_trace *own = calloc(graph->num_newest + 1, sizeof(*own));
    if (own == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_predict", "no memory for a prediction");
    }
    for (size_t i = 0; i < graph->num_newest; i++) {
        own[i] = begin_trace(((weft_graph_segment *)graph->segments.items)[i].newest);
    }
    weft_status status = record_twice(graph, own, r);
    for (size_t i = 0; i < graph->num_newest; i++) {
        weft_bodies_drop(&own[i]);
    }
    free(own);
    return status;
}

weft_status weft_rehearse(const weft_graph_impl *given, const weft_predicted_world *world, int process,
                          weft_kernel_costs *costs, weft_simulation *simulation, weft_recording *recording)
{
    weft_graph_impl graph = *given; /* its counts and its spare memory stay */
    graph.spare_bound = graph.spare_calls = (weft_vec){ 0 };
    rehearsing r = { .base = { record_task, record_transfer },
                     .costs = costs,
                     .simulation = simulation,
                     .recording = recording };
    recording->process = process;
    kept_state kept = enter(world, process, &r.base);
    weft_status status = record(&graph, &r);
    leave(&kept);
    weft_vec_free(&graph.spare_bound);
    weft_vec_free(&graph.spare_calls);
    if (status == WEFT_OK && (r.failed || simulation->failed)) {
        status = weft_fail(WEFT_ERR_NOMEM, "weft_graph_predict", "no memory for a prediction");
    }
    return status;
}
