/* Building clusters: what they read and leave behind, and the tasks of small calls. */
#include "clusters/cluster_build.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/codelets.h"
#include "tensor/state.h"

enum { MAX_CLUSTER_BYTES = 4 << 20 };

/* ---- values ---------------------------------------------------------------------------------------------- */

static bool is_between(const weft_cluster_building *b, int first, int last, int value)
{
    return b->defined[value] >= first && b->defined[value] <= last;
}

int weft_cluster_home(const weft_cluster_building *b, int first, int last, int value)
{
    while (is_between(b, first, last, value) && b->takes[value] >= 0) {
        value = b->takes[value];
    }
    return value;
}

/* Whether nothing behind the cluster needs a value. */
static bool is_inner(const weft_cluster_building *b, const weft_cluster *cluster, int value)
{
    return !b->is_promised[value] && weft_trace_value(b->trace, value)->last_use <= cluster->last;
}

/* Whether the cluster has a value from outside, or makes it in new memory for what is behind. */
static bool is_wanted(const weft_cluster_building *b, const weft_cluster *cluster, int value, bool output)
{
    bool inside = is_between(b, cluster->first, cluster->last, value);
    int home = weft_cluster_home(b, cluster->first, cluster->last, value);
    return !output ? !inside
                   : inside && is_between(b, cluster->first, cluster->last, home) && !is_inner(b, cluster, value);
}

/* The values that a cluster reads from outside, and those that are needed behind it; counts them if `values` is NULL. False: no
 * memory. */
static bool find_values(const weft_cluster_building *b, weft_cluster *cluster, int *values)
{
    int count = 0;
    bool *found = calloc(b->trace->values.count + 1, sizeof(bool));
    for (int pass = 0; pass < 2 && found != NULL; pass++) {
        int before = count;
        for (int n = cluster->first; n <= cluster->last; n++) {
            const weft_graph_node *node = weft_trace_node(b->trace, (size_t)n);
            const int *numbers = pass == 0 ? node->inputs : node->outputs;
            for (int i = 0; i < (pass == 0 ? node->num_inputs : node->num_outputs); i++) {
                int value = numbers[i];
                if (value < 0 || found[value] || !is_wanted(b, cluster, value, pass == 1)) {
                    continue;
                }
                found[value] = true;
                if (values != NULL) {
                    values[count] = value;
                }
                count++;
            }
        }
        *(pass == 0 ? &cluster->num_inputs : &cluster->num_outputs) = count - before;
    }
    free(found);
    return found != NULL;
}

static void find_changes(const weft_cluster_building *b, weft_cluster *cluster)
{
    for (int i = 0; i < cluster->num_inputs; i++) {
        cluster->becomes[i] = -1;
    }
    for (int n = cluster->first; n <= cluster->last; n++) {
        const weft_graph_node *node = weft_trace_node(b->trace, (size_t)n);
        for (int o = 0; o < node->num_outputs; o++) {
            int home = weft_cluster_home(b, cluster->first, cluster->last, node->outputs[o]);
            for (int i = 0; i < cluster->num_inputs; i++) {
                cluster->becomes[i] = cluster->values[i] == home ? node->outputs[o] : cluster->becomes[i];
            }
        }
    }
}

weft_cluster *weft_cluster_new(const weft_cluster_building *b, int first, int last, int num_programs)
{
    weft_cluster *cluster = calloc(1, sizeof(*cluster) + (size_t)num_programs * sizeof(cluster->programs[0]));
    if (cluster == NULL) {
        return NULL;
    }
    atomic_init(&cluster->references, 1);
    cluster->first = first;
    cluster->last = last;
    cluster->num_programs = num_programs;
    bool done = find_values(b, cluster, NULL);
    cluster->values = malloc((size_t)(cluster->num_inputs + cluster->num_outputs + 1) * sizeof(int));
    cluster->becomes = malloc((size_t)(cluster->num_inputs + 1) * sizeof(int));
    done = done && cluster->values != NULL && cluster->becomes != NULL && find_values(b, cluster, cluster->values);
    if (!done) {
        weft_cluster_release(cluster);
        return NULL;
    }
    find_changes(b, cluster);
    return cluster;
}

void weft_cluster_index(const weft_cluster_building *b, const weft_cluster *cluster, int index[])
{
    for (size_t i = 0; i < b->trace->values.count; i++) {
        index[i] = -1;
    }
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        index[weft_cluster_home(b, cluster->first, cluster->last, cluster->values[i])] = i;
    }
}

void weft_cluster_release(weft_cluster *cluster)
{
    if (atomic_fetch_sub(&cluster->references, 1) > 1) {
        return;
    }
    for (int i = 0; i < cluster->num_programs; i++) {
        weft_vec_free(&cluster->programs[i].operands);
        weft_vec_free(&cluster->programs[i].steps);
        weft_vec_free(&cluster->programs[i].places);
    }
    weft_vec_free(&cluster->arguments);
    free(cluster->values);
    free(cluster->becomes);
    free(cluster);
}

/* ---- programs -------------------------------------------------------------------------------------------- */

/* A kernel that reads behind one that has written reads values of the task itself. One that reads what it writes needs
 * those from before the task, in whichever order its operands are. */
static unsigned add_access(const weft_cluster_operand *operand, weft_slot_access access)
{
    return operand->access | (operand->written ? access & WEFT_SLOT_WRITE : access);
}

int weft_cluster_add_operand(weft_cluster_program *program, int value, int64_t panel, weft_slot_access access)
{
    weft_cluster_operand *operands = program->operands.items;
    size_t place = 0;
    while (place < program->operands.count && (operands[place].value != value || operands[place].panel != panel)) {
        place++;
    }
    if (place == program->operands.count) {
        weft_cluster_operand *added = weft_vec_push(&program->operands, sizeof(*added));
        if (added == NULL) {
            return -1;
        }
        *added = (weft_cluster_operand){ .value = value, .panel = (int32_t)panel };
        operands = program->operands.items;
    }
    operands[place].access = add_access(&operands[place], access);
    return (int)place;
}

/* Whether the kernel has a CUDA function in builds with CUDA. */
static bool has_cuda_function(weft_kernel_id kernel)
{
    return kernel < WEFT_KERNEL_COUNT ? weft_kernel_infos[kernel].on_devices : weft_codelet_of(kernel)->cpu.cuda_views != NULL;
}

bool weft_cluster_add_step(weft_cluster_program *program, const weft_cluster_step *step)
{
    weft_cluster_step *added = weft_vec_push(&program->steps, sizeof(*step));
    if (added == NULL) {
        return false;
    }
    *added = *step;
    weft_cluster_operand *operands = program->operands.items;
    for (size_t i = 0; i < program->operands.count; i++) {
        operands[i].written = (operands[i].access & WEFT_SLOT_WRITE) != 0;
    }
    program->max_places = step->num_places > program->max_places ? step->num_places : program->max_places;
    program->cpu_only = program->cpu_only || !has_cuda_function(step->kernel);
    program->num_views += !weft_kernel_is_elementwise(step->kernel);
    program->footprint = (uint32_t)weft_hash_u64(program->footprint ^ (uint64_t)step->kernel << 32 ^ step->arguments);
    return true;
}

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
    place->offset += w->offsets[home] + panel_start(weft_layout_of_value(w->b, value), w->rank, slot->panel);
    return true;
}

static int shard_of(const weft_task_list *tasks, const weft_task *task)
{
    for (uint32_t k = 0; k < task->num_operands; k++) {
        const weft_slot *slot = &weft_task_list_slots(tasks)[weft_task_operand_at(tasks, task, k)->slot];
        if (slot->tensor != WEFT_TEMPORARY) {
            return slot->shard;
        }
    }
    return -1;
}

const weft_task *weft_lowered_task(const weft_lowered *call, int shard)
{
    const weft_task *found = NULL;
    for (size_t i = 0; i < call->tasks.tasks.count && found == NULL; i++) {
        const weft_task *task = weft_task_list_tasks(&call->tasks) + i;
        found = shard_of(&call->tasks, task) == shard ? task : NULL;
    }
    return found;
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
    return done && weft_cluster_add_step(program, &step);
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

/* Scratch memory for outputs that nothing behind the cluster needs. False: no memory. */
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
        const weft_layout *layout = weft_layout_of_value(w->b, value);
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
        done = shard_of(tasks, task) != w->program->shard || add_step(w, number, tasks, task);
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

/* The last call of a cluster of small calls that begins with `first`; less than `first`: that call is not clustered. */
static int find_last(const weft_cluster_building *b, int first)
{
    int64_t bytes = 0;
    int last = first;
    while (last < (int)b->trace->nodes.count && b->calls[last].fits && bytes < MAX_CLUSTER_BYTES &&
           (last == first || !weft_cluster_ends_at_random(last))) {
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

weft_clusters *weft_clusters_build(weft_graph_trace *trace, const bool is_promised[], unsigned passes)
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
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for clusters of calls");
    }
    return done ? clusters : NULL;
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
