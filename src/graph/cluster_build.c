/* Building clusters: which calls are clustered, and where their values lie. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/cache.h"
#include "graph/cluster.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* Limits of a clustered call, which all processes find alike: bytes of each tensor on a rank. A call of a cluster waits
 * for the calls before it, so that larger ones are better apart, where workers share them. */
enum { MAX_BYTES = 65536, MAX_BYTES_OF_PRODUCTS = 8192, MAX_CLUSTER_BYTES = 4 << 20, MAX_PANELS = 4 };

/* A call as it would be clustered. */
typedef struct lowered {
    bool fits;
    int64_t bytes;        /* of all its tensors */
    weft_task_list tasks; /* of all hosted ranks */
} lowered;

typedef struct building {
    const weft_graph_trace *trace;
    const bool *is_promised;
    lowered *calls; /* by node */
    bool failed;    /* an error is kept */
    int *defined;   /* by value: the node that makes it; -1: an input of the segment */
} building;

/* ---- which calls ----------------------------------------------------------------------------------------- */

/* Bytes on the mesh's first rank, which has as many as any. */
static int64_t bytes_on_rank(const weft_layout *layout, int64_t *num_panels)
{
    weft_shard_info shard = weft_layout_shard(layout, weft_mesh_rank_at(layout->mesh, 0));
    *num_panels = shard.num_panels;
    return shard.count * (int64_t)weft_dtype_size(layout->dtype);
}

static bool is_small(const building *b, const weft_graph_node *node, int64_t *bytes)
{
    bool elementwise = weft_kernel_is_elementwise(node->call->operation->kernel);
    int64_t most = elementwise ? MAX_BYTES : MAX_BYTES_OF_PRODUCTS, num_panels;
    *bytes = 0;
    for (int i = 0; i < node->num_inputs + node->num_outputs; i++) {
        if (node->inputs[i] < 0) {
            continue;
        }
        int64_t own = bytes_on_rank(weft_trace_value(b->trace, node->inputs[i])->layout, &num_panels);
        *bytes += own;
        if (own > most || num_panels > MAX_PANELS) {
            return false;
        }
    }
    return true;
}

/* Calls of tasks alone, that make new tensors. */
static bool is_plain(const weft_graph_node *node)
{
    const weft_call *call = node->call;
    const weft_operation *operation = call->operation;
    bool plain = operation != NULL && !operation->overwrites && !operation->views && !operation->draws &&
                 call->details == NULL && call->attributes.omitted == 0 && node->num_inputs > 0 && !node->implicit &&
                 !node->without_data;
    for (int i = 0; i < node->num_outputs && plain; i++) {
        plain = !weft_call_changes(call, i);
        for (int k = 0; k < node->num_inputs && plain; k++) {
            plain = node->outputs[i] != node->inputs[k];
        }
    }
    for (int i = 0; i < call->num_inputs && plain; i++) {
        plain = call->access_map[i] == NULL;
    }
    return plain;
}

/* Whether all inputs are in the layouts that the call works on. */
static bool works_in_place(const building *b, const weft_graph_node *node, const weft_sharding *sharding)
{
    bool right = !sharding->has_access_maps;
    for (int i = 0; i < node->num_inputs && right; i++) {
        right = sharding->inputs[i] == weft_trace_value(b->trace, node->inputs[i])->layout;
    }
    return right;
}

/* All tasks, each on one rank. */
static bool has_separate_ranks(const weft_task_list *tasks)
{
    bool separate = tasks->num_transfers == 0;
    for (size_t i = 0; i < tasks->tasks.count && separate; i++) {
        const weft_task *task = weft_task_list_tasks(tasks) + i;
        int shard = -1;
        for (uint32_t k = 0; k < task->num_operands && separate; k++) {
            const weft_slot *slot = &weft_task_list_slots(tasks)[weft_task_operand_at(tasks, task, k)->slot];
            separate = slot->tensor == WEFT_TEMPORARY || shard < 0 || shard == slot->shard;
            shard = slot->tensor == WEFT_TEMPORARY ? shard : slot->shard;
        }
        separate = separate && shard >= 0;
    }
    return separate;
}

/* The call's tasks, on tensors without data. False: it is not clustered, or (b->failed) with the error kept. */
static bool lower(building *b, const weft_graph_node *node, weft_task_list *tasks)
{
    weft_call call = *node->call;
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    const weft_layout *layouts[WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->num_inputs; i++) {
        inputs[i] = weft_tensor_fake(call.function, weft_trace_value(b->trace, node->inputs[i])->layout);
        if (inputs[i] == NULL) {
            b->failed = true;
            return false;
        }
        call.inputs[i] = inputs[i]->handle;
    }
    if (weft_call_expands(&call)) {
        return false;
    }
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    const weft_sharding *sharding = weft_obtain_layouts(&call, inputs, &own, &guessed, &cached);
    bool done = sharding != NULL && works_in_place(b, node, sharding) &&
                weft_dispatch_lower(&call, sharding, layouts, tasks) && has_separate_ranks(tasks);
    b->failed |= sharding == NULL || tasks->failed;
    weft_cache_release(cached);
    return done;
}

static void lower_all(building *b)
{
    for (size_t i = 0; i < b->trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(b->trace, i);
        lowered *call = &b->calls[i];
        if (b->failed || !is_plain(node) || !is_small(b, node, &call->bytes)) {
            continue;
        }
        b->failed = !weft_scope_open_unrecorded();
        if (!b->failed) {
            call->fits = lower(b, node, &call->tasks);
            weft_scope_close_keeping(0, NULL, NULL, NULL);
        }
    }
}

/* ---- where values lie ------------------------------------------------------------------------------------ */

static bool is_inner(const building *b, const weft_cluster *cluster, int value)
{
    int defined = b->defined[value];
    return defined >= cluster->first && defined <= cluster->last && !b->is_promised[value] &&
           weft_trace_value(b->trace, value)->last_use <= cluster->last;
}

/* Scratch memory in use. */
typedef struct block {
    int64_t offset, bytes;
    int value; /* or -1: a temporary of the call */
} block;

typedef struct scratch {
    weft_vec blocks; /* by offset */
    int64_t bytes;
} scratch;

/* Memory between the blocks that are in use. -1: no memory. */
static int64_t allocate(scratch *s, int64_t bytes, int value)
{
    int64_t at = 0;
    size_t place = 0;
    bytes = (bytes + 63) / 64 * 64;
    block *blocks = s->blocks.items;
    while (place < s->blocks.count && blocks[place].offset - at < bytes) {
        at = blocks[place].offset + blocks[place].bytes;
        place++;
    }
    if (weft_vec_push(&s->blocks, sizeof(block)) == NULL) {
        return -1;
    }
    blocks = s->blocks.items;
    memmove(blocks + place + 1, blocks + place, (s->blocks.count - 1 - place) * sizeof(block));
    blocks[place] = (block){ at, bytes, value };
    s->bytes = at + bytes > s->bytes ? at + bytes : s->bytes;
    return at;
}

/* Temporaries of a node, and the values that it was the last to use. */
static void release(const building *b, scratch *s, int node)
{
    size_t kept = 0;
    block *blocks = s->blocks.items;
    for (size_t i = 0; i < s->blocks.count; i++) {
        bool last = blocks[i].value < 0 || weft_trace_value(b->trace, blocks[i].value)->last_use <= node;
        if (!last) {
            blocks[kept++] = blocks[i];
        }
    }
    s->blocks.count = kept;
}

/* State of building the program of one rank. */
typedef struct writing {
    const building *b;
    weft_cluster *cluster;
    weft_cluster_program *program;
    int shard, rank;
    int *operands;     /* by value: its first operand; -1: none */
    int64_t *offsets;  /* by value: in the scratch memory; -1: none */
    scratch scratch;
    int64_t *temporaries; /* by buffer of the current call */
} writing;

static void number_operands(writing *w)
{
    const weft_cluster *cluster = w->cluster;
    int count = 0;
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        weft_shard_info shard = weft_layout_shard(weft_trace_value(w->b->trace, cluster->values[i])->layout, w->rank);
        w->operands[cluster->values[i]] = count;
        count += shard.count > 0 ? (int)shard.num_panels : 0;
    }
    w->program->num_operands = count;
}

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

static weft_cluster_place place_of(const writing *w, const weft_graph_node *node, const weft_task_list *tasks,
                                   const weft_task_operand *operand)
{
    const weft_slot *slot = &weft_task_list_slots(tasks)[operand->slot];
    int scratch_operand = w->program->num_operands;
    if (slot->tensor == WEFT_TEMPORARY) {
        const weft_temporary *temporary = (const weft_temporary *)tasks->temporaries.items + slot->panel;
        return (weft_cluster_place){ w->temporaries[temporary->buffer] + operand->offset, scratch_operand };
    }
    int value = node->inputs[slot->tensor]; /* outputs follow the inputs */
    if (w->operands[value] >= 0) {
        return (weft_cluster_place){ operand->offset, w->operands[value] + (int)slot->panel };
    }
    int64_t start = panel_start(weft_trace_value(w->b->trace, value)->layout, w->rank, slot->panel);
    return (weft_cluster_place){ w->offsets[value] + start + operand->offset, scratch_operand };
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

/* False: no memory. */
static bool add_arguments(writing *w, const weft_task_list *tasks, const weft_task *task, size_t *offset)
{
    size_t words = (weft_task_block_of(tasks, task)->size + 15) / 16 * 2;
    *offset = w->program->arguments.count * 8;
    if (!weft_vec_reserve(&w->program->arguments, w->program->arguments.count + words, 8)) {
        return false;
    }
    w->program->arguments.count += words;
    weft_task_arguments(tasks, task, (char *)w->program->arguments.items + *offset);
    return true;
}

static bool add_step(writing *w, int number, const weft_task_list *tasks, const weft_task *task)
{
    const weft_graph_node *node = weft_trace_node(w->b->trace, (size_t)number);
    weft_cluster_program *program = w->program;
    weft_cluster_step step = { .kernel = task->kernel,
                               .function = node->call->function,
                               .operation = node->call->operation,
                               .call = number - w->cluster->first,
                               .first_place = (uint32_t)program->places.count,
                               .num_places = task->num_operands };
    if (!add_arguments(w, tasks, task, &step.arguments)) {
        return false;
    }
    for (uint32_t k = 0; k < task->num_operands; k++) {
        weft_cluster_place *place = weft_vec_push(&program->places, sizeof(*place));
        if (place == NULL) {
            return false;
        }
        *place = place_of(w, node, tasks, weft_task_operand_at(tasks, task, k));
    }
    weft_cluster_step *added = weft_vec_push(&program->steps, sizeof(step));
    if (added == NULL) {
        return false;
    }
    *added = step;
    program->max_places = step.num_places > program->max_places ? step.num_places : program->max_places;
    program->footprint = (uint32_t)weft_hash_u64(program->footprint ^ (uint64_t)step.kernel << 32 ^ step.arguments);
    return true;
}

static bool allocate_temporaries(writing *w, const weft_task_list *tasks)
{
    const weft_temporary *all = tasks->temporaries.items;
    free(w->temporaries);
    w->temporaries = malloc((tasks->num_buffers + 1) * sizeof(int64_t));
    for (size_t i = 0; w->temporaries != NULL && i < tasks->num_buffers; i++) {
        w->temporaries[i] = -1;
    }
    for (size_t i = 0; w->temporaries != NULL && i < tasks->temporaries.count; i++) {
        int64_t *offset = &w->temporaries[all[i].buffer];
        *offset = *offset >= 0 ? *offset : allocate(&w->scratch, all[i].bytes, -1);
        if (*offset < 0) {
            return false;
        }
    }
    return w->temporaries != NULL;
}

static bool write_call(writing *w, int number)
{
    const weft_graph_node *node = weft_trace_node(w->b->trace, (size_t)number);
    const weft_task_list *tasks = &w->b->calls[number].tasks;
    for (int i = 0; i < node->num_outputs; i++) {
        int value = node->outputs[i];
        if (value >= 0 && w->operands[value] < 0) {
            const weft_layout *layout = weft_trace_value(w->b->trace, value)->layout;
            int64_t bytes = weft_layout_shard(layout, w->rank).count * (int64_t)weft_dtype_size(layout->dtype);
            w->offsets[value] = allocate(&w->scratch, bytes, value);
            if (w->offsets[value] < 0) {
                return false;
            }
        }
    }
    bool done = allocate_temporaries(w, tasks);
    for (size_t i = 0; i < tasks->tasks.count && done; i++) {
        const weft_task *task = weft_task_list_tasks(tasks) + i;
        done = shard_of(tasks, task) != w->shard || add_step(w, number, tasks, task);
    }
    release(w->b, &w->scratch, number);
    return done;
}

static bool write_program(const building *b, weft_cluster *cluster, int shard)
{
    size_t count = b->trace->values.count + 1;
    writing w = { .b = b, .cluster = cluster, .program = &cluster->programs[shard], .shard = shard,
                  .rank = weft_runtime.first_rank + shard };
    w.operands = malloc(count * sizeof(int));
    w.offsets = malloc(count * sizeof(int64_t));
    bool done = w.operands != NULL && w.offsets != NULL;
    for (size_t i = 0; i < count && done; i++) {
        w.operands[i] = -1;
        w.offsets[i] = -1;
    }
    if (done) {
        number_operands(&w);
    }
    for (int i = cluster->first; i <= cluster->last && done; i++) {
        done = write_call(&w, i);
    }
    w.program->scratch_bytes = w.scratch.bytes;
    w.program->num_operands += w.scratch.bytes > 0;
    weft_vec_free(&w.scratch.blocks);
    free(w.temporaries);
    free(w.operands);
    free(w.offsets);
    return done;
}

/* ---- clusters -------------------------------------------------------------------------------------------- */

/* The values that a cluster reads from outside, and those that are needed behind it; counts them if `values` is NULL. */
static void find_values(const building *b, weft_cluster *cluster, int *values)
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
                bool outside = value >= 0 && (b->defined[value] < cluster->first || b->defined[value] > cluster->last);
                bool wanted = value >= 0 && (pass == 0 ? outside : !is_inner(b, cluster, value));
                if (wanted && !found[value]) {
                    found[value] = true;
                    if (values != NULL) {
                        values[count] = value;
                    }
                    count++;
                }
            }
        }
        *(pass == 0 ? &cluster->num_inputs : &cluster->num_outputs) = count - before;
    }
    if (found == NULL) {
        cluster->num_inputs = -1;
    }
    free(found);
}

/* NULL: no memory. */
static weft_cluster *build_cluster(const building *b, int first, int last)
{
    int ranks = weft_runtime.local_ranks;
    weft_cluster *cluster = calloc(1, sizeof(*cluster) + (size_t)ranks * sizeof(cluster->programs[0]));
    if (cluster == NULL) {
        return NULL;
    }
    atomic_init(&cluster->references, 1);
    cluster->first = first;
    cluster->last = last;
    cluster->num_programs = ranks;
    find_values(b, cluster, NULL);
    bool done = cluster->num_inputs >= 0;
    if (done) {
        cluster->values = malloc((size_t)(cluster->num_inputs + cluster->num_outputs + 1) * sizeof(int));
        done = cluster->values != NULL;
    }
    if (done) {
        find_values(b, cluster, cluster->values);
        done = cluster->num_inputs >= 0;
    }
    for (int i = 0; i < ranks && done; i++) {
        done = write_program(b, cluster, i);
    }
    if (!done) {
        weft_cluster_release(cluster);
    }
    return done ? cluster : NULL;
}

void weft_cluster_release(weft_cluster *cluster)
{
    if (atomic_fetch_sub(&cluster->references, 1) > 1) {
        return;
    }
    for (int i = 0; i < cluster->num_programs; i++) {
        weft_vec_free(&cluster->programs[i].steps);
        weft_vec_free(&cluster->programs[i].places);
        weft_vec_free(&cluster->programs[i].arguments);
    }
    free(cluster->values);
    free(cluster);
}

/* For tests: a third of all calls, others on each process. */
static bool ends_at_random(int call)
{
    uint64_t seed = weft_runtime.cluster_seed;
    return seed != 0 && weft_hash_u64(seed + (uint64_t)call) % 3 == 0;
}

/* The last call of a cluster that begins with `first`; less than `first`: that call is not clustered. */
static int find_last(const building *b, int first)
{
    int64_t bytes = 0;
    int last = first;
    while (last < (int)b->trace->nodes.count && b->calls[last].fits && bytes < MAX_CLUSTER_BYTES &&
           (last == first || !ends_at_random(last))) {
        bytes += b->calls[last++].bytes;
    }
    return last - 1;
}

static bool build_all(const building *b, weft_clusters *clusters)
{
    bool done = true;
    for (int first = 0, last; first < (int)b->trace->nodes.count && done; first = last + 1) {
        last = find_last(b, first);
        if (last <= first) { /* a single call is executed as ever */
            last = first;
            continue;
        }
        weft_cluster **place = weft_vec_push(&clusters->clusters, sizeof(*place));
        if (place == NULL) {
            return false;
        }
        *place = build_cluster(b, first, last);
        done = *place != NULL;
        clusters->clusters.count -= !done;
    }
    return done;
}

static void find_definitions(const building *b)
{
    for (size_t i = 0; i < b->trace->values.count; i++) {
        b->defined[i] = -1;
    }
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

weft_clusters *weft_clusters_build(const weft_graph_trace *trace, const bool is_promised[])
{
    size_t num_values = trace->values.count, num_nodes = trace->nodes.count;
    weft_clusters *clusters = calloc(1, sizeof(*clusters) + num_values * sizeof(bool));
    building b = { .trace = trace, .is_promised = is_promised };
    b.calls = calloc(num_nodes + 1, sizeof(*b.calls));
    b.defined = malloc((num_values + 1) * sizeof(int));
    bool done = clusters != NULL && b.calls != NULL && b.defined != NULL;
    if (done) {
        clusters->num_values = num_values;
        memcpy(clusters->is_promised, is_promised, num_values * sizeof(bool));
        find_definitions(&b);
        lower_all(&b);
        done = !b.failed && build_all(&b, clusters);
    }
    for (size_t i = 0; i < num_nodes && b.calls != NULL; i++) {
        weft_task_list_free(&b.calls[i].tasks);
    }
    free(b.calls);
    free(b.defined);
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
