/* Building clusters: which calls they have, and the tasks of small calls. */
#include "graph/fuse/cluster_build.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/codelets.h"
#include "tensor/state.h"

enum { MAX_CLUSTER_BYTES = 4 << 20 };

/* ---- the program of one rank's small calls --------------------------------------------------------------- */

/* State of building it. */
typedef struct writing {
    const weft_cluster_building *b;
    weft_cluster *cluster;
    weft_cluster_program *program;
    int rank;
    const int *index; /* see weft_cluster_index() */
    int64_t *offsets; /* by value: of its home in the scratch memory; -1: none */
    weft_scratch scratch;
    int64_t *temporaries; /* by buffer of the current call */
} writing;

/* Bytes from the start of the rank's shard to a panel. */
static int64_t panel_start(const weft_layout *layout, int rank, int64_t panel)
{
    weft_shard_info shard = weft_layout_shard(layout, rank);
    if (layout->ndim == 0 || panel == 0) {
        return 0;
    }
    int64_t first, last;
    weft_panel_range(layout, &shard.box, panel, &first, &last);
    int64_t rows = first - shard.box.offset[0];
    return rows * weft_row_elements(layout->ndim, &shard.box) * (int64_t)weft_dtype_size(layout->dtype);
}

static int home_of(const writing *w, int value)
{
    return weft_cluster_home(w->b, w->cluster->first, w->cluster->last, value);
}

/* False: no memory. */
static bool place_operand(const writing *w, const weft_graph_node *node, const weft_task_list *tasks,
                          const weft_task_operand *operand, weft_cluster_place *place)
{
    const weft_slot *slot = &weft_task_list_slots(tasks)[operand->slot];
    *place = (weft_cluster_place){ .offset = operand->offset, .operand = WEFT_CLUSTER_SCRATCH };
    if (slot->tensor == WEFT_TEMPORARY) {
        const weft_temporary *temporary = (const weft_temporary *)tasks->temporaries.items + slot->panel;
        place->offset += w->temporaries[temporary->buffer];
        return true;
    }
    int value = node->inputs[slot->tensor], home = home_of(w, value); /* outputs follow the inputs */
    if (w->index[home] >= 0) {
        place->operand = weft_cluster_add_operand(w->program, w->index[home], slot->panel, operand->access);
        return place->operand >= 0;
    }
    place->offset += w->offsets[home] + panel_start(weft_trace_layout(w->b->trace, value), w->rank, slot->panel);
    return true;
}

/* False: no memory. */
static bool add_arguments(const writing *w, const weft_task_list *tasks, const weft_task *task, size_t *offset)
{
    weft_vec *arguments = &w->cluster->arguments;
    size_t words = (weft_task_block_of(tasks, task)->size + 15) / 16 * 2;
    *offset = arguments->count * 8;
    if (!weft_vec_reserve(arguments, arguments->count + words, 8)) {
        return false;
    }
    arguments->count += words;
    weft_task_arguments(tasks, task, (char *)arguments->items + *offset);
    return true;
}

static bool add_step(const writing *w, int number, const weft_task_list *tasks, const weft_task *task)
{
    const weft_graph_node *node = weft_trace_node(w->b->trace, (size_t)number);
    weft_cluster_program *program = w->program;
    weft_cluster_step step = { .kernel = task->kernel,
                               .function = node->call->function,
                               .operation = node->call->operation,
                               .call = number - w->cluster->first,
                               .first_place = (uint32_t)program->places.count,
                               .num_places = task->num_operands };
    bool done = add_arguments(w, tasks, task, &step.arguments);
    for (uint32_t k = 0; k < task->num_operands && done; k++) {
        weft_cluster_place *place = weft_vec_push(&program->places, sizeof(*place));
        done = place != NULL && place_operand(w, node, tasks, weft_task_operand_at(tasks, task, k), place);
    }
    return done && weft_cluster_add_step(program, &step, (const char *)w->cluster->arguments.items + step.arguments);
}

static bool allocate_temporaries(writing *w, int number, const weft_task_list *tasks)
{
    const weft_temporary *all = tasks->temporaries.items;
    free(w->temporaries);
    w->temporaries = malloc((tasks->num_buffers + 1) * sizeof(int64_t));
    for (size_t i = 0; w->temporaries != NULL && i < tasks->num_buffers; i++) {
        w->temporaries[i] = -1;
    }
    for (size_t i = 0; w->temporaries != NULL && i < tasks->temporaries.count; i++) {
        int64_t *offset = &w->temporaries[all[i].buffer];
        *offset = *offset >= 0 ? *offset : weft_scratch_allocate(&w->scratch, all[i].bytes, number);
        if (*offset < 0) {
            return false;
        }
    }
    return w->temporaries != NULL;
}

/* Scratch memory for outputs that nothing after the cluster needs. False: no memory. */
static bool allocate_outputs(writing *w, int number)
{
    const weft_graph_node *node = weft_trace_node(w->b->trace, (size_t)number);
    bool done = true;
    for (int i = 0; i < node->num_outputs && done; i++) {
        int value = node->outputs[i], home = home_of(w, value);
        int last_use = weft_trace_value(w->b->trace, value)->last_use;
        last_use = last_use < number ? number : last_use;
        if (w->index[home] >= 0) {
            continue;
        }
        if (home != value) {
            weft_scratch_prolong(&w->scratch, w->offsets[home], last_use);
            continue;
        }
        const weft_layout *layout = weft_trace_layout(w->b->trace, value);
        int64_t bytes = weft_layout_shard(layout, w->rank).count * (int64_t)weft_dtype_size(layout->dtype);
        w->offsets[value] = weft_scratch_allocate(&w->scratch, bytes, last_use);
        done = w->offsets[value] >= 0;
    }
    return done;
}

static bool write_call(writing *w, int number)
{
    const weft_task_list *tasks = &w->b->calls[number].tasks;
    bool done = allocate_outputs(w, number) && allocate_temporaries(w, number, tasks);
    for (size_t i = 0; i < tasks->tasks.count && done; i++) {
        const weft_task *task = weft_task_list_tasks(tasks) + i;
        done = weft_task_shard(tasks, task) != w->program->shard || add_step(w, number, tasks, task);
    }
    weft_scratch_release(&w->scratch, number);
    return done;
}

static bool write_program(const weft_cluster_building *b, weft_cluster *cluster, int shard, const int index[])
{
    size_t count = b->trace->values.count + 1;
    writing w = { .b = b, .cluster = cluster, .program = &cluster->programs[shard], .index = index,
                  .rank = weft_runtime.first_rank + shard };
    w.program->shard = shard;
    w.offsets = malloc(count * sizeof(int64_t));
    bool done = w.offsets != NULL;
    for (int i = cluster->first; i <= cluster->last && done; i++) {
        done = write_call(&w, i);
    }
    w.program->scratch_bytes = w.scratch.bytes;
    weft_scratch_free(&w.scratch);
    free(w.temporaries);
    free(w.offsets);
    return done;
}

/* NULL: no memory. */
static weft_cluster *build_cluster(const weft_cluster_building *b, int first, int last)
{
    int ranks = weft_runtime.local_ranks;
    weft_cluster *cluster = weft_cluster_new(b, first, last, ranks);
    int *index = malloc((b->trace->values.count + 1) * sizeof(int));
    bool done = cluster != NULL && index != NULL;
    if (done) {
        weft_cluster_index(b, cluster, index);
    }
    for (int i = 0; i < ranks && done; i++) {
        done = write_program(b, cluster, i, index);
    }
    free(index);
    if (!done && cluster != NULL) {
        weft_cluster_release(cluster);
    }
    return done ? cluster : NULL;
}

/* ---- all clusters ---------------------------------------------------------------------------------------- */

/* Bytes of a cluster up to such a call. A task whose operands exceed a quarter of a device's memory runs on no device. */
static int64_t most_bytes(const weft_lowered *call)
{
    enum { PART_OF_DEVICE = 16 };
    return call->any_size ? weft_runtime.device_bytes / PART_OF_DEVICE : MAX_CLUSTER_BYTES;
}

/* The last call of a cluster of small calls that begins with `first`; less than `first`: that call is not clustered. */
static int find_last(const weft_cluster_building *b, int first)
{
    int64_t bytes = 0;
    int last = first;
    while (last < (int)b->trace->nodes.count && b->calls[last].fits &&
           (last == first || (bytes + b->calls[last].bytes <= most_bytes(&b->calls[last]) && !weft_cluster_ends_at_random(last)))) {
        bytes += b->calls[last++].bytes;
    }
    return last - 1;
}

/* The cluster that begins with a call, or NULL with *done true: it is executed on its own. *last: the last of its calls. */
static weft_cluster *find_cluster(weft_cluster_building *b, int first, int *last, bool *done)
{
    weft_cluster *cluster = NULL;
    *done = true;
    *last = find_last(b, first);
    if (*last > first) {
        cluster = build_cluster(b, first, *last);
        *done = cluster != NULL;
        return cluster;
    }
    *last = weft_fuse_find(b, first);
    if (*last > first) {
        bool possible;
        weft_fuse_drop_changes(b, first, *last);
        cluster = weft_fuse_build(b, first, *last, &possible);
        *done = cluster != NULL || !possible;
    }
    *last = cluster == NULL ? first : *last;
    return cluster;
}

static bool build_all(weft_cluster_building *b, weft_clusters *clusters)
{
    bool done = true;
    for (int first = 0, last; first < (int)b->trace->nodes.count && done; first = last + 1) {
        weft_cluster *cluster = find_cluster(b, first, &last, &done);
        if (cluster != NULL) {
            weft_cluster **place = weft_vec_push(&clusters->clusters, sizeof(*place));
            done = place != NULL;
            if (done) {
                *place = cluster;
            } else {
                weft_cluster_release(cluster);
            }
        }
    }
    return done;
}

static void find_definitions(const weft_cluster_building *b)
{
    for (size_t n = 0; n < b->trace->nodes.count; n++) {
        const weft_graph_node *node = weft_trace_node(b->trace, n);
        for (int i = 0; i < node->num_outputs; i++) {
            int value = node->outputs[i];
            bool is_new = value >= 0 && b->defined[value] < 0 && !weft_trace_value(b->trace, value)->is_input;
            if (is_new) {
                b->defined[value] = (int)n;
            }
        }
    }
}

/* False: no memory. */
static bool arrange(weft_cluster_building *b, weft_graph_trace *trace)
{
    if (!(b->passes & WEFT_PASS_FUSE)) {
        return true;
    }
    bool done = weft_fuse_arrange(b, trace);
    weft_trace_finish(trace);
    for (size_t i = 0; i < trace->values.count; i++) {
        b->defined[i] = -1;
    }
    find_definitions(b);
    return done;
}

weft_clusters *weft_clusters_build(const char *function, weft_graph_trace *trace, const bool is_promised[], unsigned passes)
{
    size_t num_values = trace->values.count, num_nodes = trace->nodes.count;
    weft_clusters *clusters = calloc(1, sizeof(*clusters) + num_values * sizeof(bool));
    weft_cluster_building b = { .trace = trace, .is_promised = is_promised, .passes = passes };
    b.calls = calloc(num_nodes + 1, sizeof(*b.calls));
    b.defined = malloc((num_values + 1) * 2 * sizeof(int));
    b.takes = b.defined + num_values + 1;
    b.is_changed = calloc(num_values + 1, sizeof(bool));
    bool done = clusters != NULL && b.calls != NULL && b.defined != NULL && b.is_changed != NULL;
    if (done) {
        clusters->num_values = num_values;
        memcpy(clusters->is_promised, is_promised, num_values * sizeof(bool));
        memset(b.defined, -1, (num_values + 1) * 2 * sizeof(int));
        find_definitions(&b);
        weft_cluster_lower_all(&b);
        done = !b.failed && arrange(&b, trace) && build_all(&b, clusters);
    }
    for (size_t i = 0; i < num_nodes && b.calls != NULL; i++) {
        weft_task_list_free(&b.calls[i].tasks);
    }
    free(b.calls);
    free(b.defined);
    free(b.is_changed);
    if (!done) {
        weft_clusters_free(clusters);
    }
    if (!done && !b.failed) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for clusters of calls");
    }
    return done ? clusters : NULL;
}

static size_t bytes_of(const weft_cluster *cluster)
{
    size_t bytes = sizeof(*cluster) + (size_t)(2 * cluster->num_inputs + cluster->num_outputs) * sizeof(int) + cluster->arguments.count * 8;
    for (int i = 0; i < cluster->num_programs; i++) {
        const weft_cluster_program *program = &cluster->programs[i];
        bytes += sizeof(*program) + program->operands.count * sizeof(weft_cluster_operand) +
                 program->steps.count * sizeof(weft_cluster_step) + program->places.count * sizeof(weft_cluster_place);
    }
    return bytes;
}

size_t weft_clusters_bytes(const weft_clusters *clusters)
{
    size_t bytes = sizeof(*clusters) + clusters->num_values * sizeof(bool);
    for (size_t i = 0; i < clusters->clusters.count; i++) {
        bytes += sizeof(weft_cluster *) + bytes_of(((weft_cluster **)clusters->clusters.items)[i]);
    }
    return bytes;
}

void weft_clusters_free(weft_clusters *clusters)
{
    for (size_t i = 0; clusters != NULL && i < clusters->clusters.count; i++) {
        weft_cluster_release(((weft_cluster **)clusters->clusters.items)[i]);
    }
    if (clusters != NULL) {
        weft_vec_free(&clusters->clusters);
    }
    free(clusters);
}
