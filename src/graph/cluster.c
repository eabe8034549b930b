/* Running clusters. */
#include "graph/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/pending.h"
#include "tensor/state.h"
#include "tensor/submit.h"

/* Arguments of a cluster's task. */
typedef struct cluster_args {
    weft_task_args base; /* must be the first member */
    weft_cluster *cluster;
    const weft_cluster_program *program;
    double scalars[]; /* WEFT_MAX_SCALARS of each call */
} cluster_args;

enum { FEW_PLACES = 64 };

/* ---- the kernel ------------------------------------------------------------------------------------------ */

static void run_step(const weft_task_run *run, const cluster_args *args, const weft_cluster_step *step, void *operands[])
{
    const weft_cluster_program *program = args->program;
    const weft_cluster_place *places = (const weft_cluster_place *)program->places.items + step->first_place;
    for (uint32_t i = 0; i < step->num_places; i++) {
        operands[i] = (char *)run->operands[places[i].operand] + places[i].offset;
    }
    const weft_codelet *codelet = weft_codelet_of(step->kernel);
    weft_kernel_error error;
    error.status = WEFT_OK;
    weft_task_run own = { .kernel = step->kernel,
                          .cpu = &codelet->cpu,
                          .arguments = (const char *)program->arguments.items + step->arguments,
                          .num_operands = (int)step->num_places,
                          .operands = operands,
                          .function = step->function,
                          .operation = run->operation,
                          .error = &error };
    memcpy(own.scalars, args->scalars + (size_t)step->call * WEFT_MAX_SCALARS, sizeof(own.scalars));
    codelet->cpu.run(&own);
    if (error.status != WEFT_OK) {
        weft_task_run_report(&own, step->operation);
    }
}

static void run_cluster(const weft_task_run *run)
{
    const cluster_args *args = run->arguments;
    const weft_cluster_program *program = args->program;
    void *few[FEW_PLACES], **operands = few;
    if (program->max_places > FEW_PLACES) {
        operands = malloc(program->max_places * sizeof(void *));
    }
    if (operands == NULL) {
        run->error->status = WEFT_ERR_NOMEM;
        run->error->problem = 0;
        snprintf(run->error->message, sizeof(run->error->message), "no memory for a cluster's operands");
    }
    const weft_cluster_step *steps = program->steps.items;
    for (size_t i = 0; i < program->steps.count && operands != NULL; i++) {
        run_step(run, args, &steps[i], operands);
    }
    if (operands != few) {
        free(operands);
    }
    weft_cluster_release(args->cluster);
}

static uint32_t footprint(const weft_task_run *run)
{
    return ((const cluster_args *)run->arguments)->program->footprint;
}

/* The id of the clusters' kernel; WEFT_KERNEL_NONE: no memory. */
static weft_kernel_id kernel(void)
{
    weft_runtime_state *state = &weft_runtime;
    if (state->cluster_kernel == WEFT_KERNEL_NONE) {
        state->cluster_kernel = weft_codelet_register_run("graph", run_cluster, footprint);
    }
    return state->cluster_kernel;
}

/* ---- submission ------------------------------------------------------------------------------------------ */

/* A task of the cluster before its submission. */
typedef struct ready_task {
    weft_single_task task;
    weft_task_block *block;
    weft_buffer *scratch;
    weft_bound_operand *operands;
    cluster_args *args;
    uint32_t *table;
} ready_task;

static void forget(ready_task *r)
{
    if (r->block != NULL) {
        weft_task_give_back(weft_runtime.task_memory, r->block);
    }
    weft_buffer_release(r->scratch);
    free(r->operands);
    free(r->args);
    free(r->table);
    *r = (ready_task){ .block = NULL };
}

static void bind(const weft_cluster *cluster, int shard, weft_tensor_impl *const tensors[], ready_task *r)
{
    int count = 0;
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        const weft_local_shard *local = &tensors[i]->shards[shard];
        for (int panel = 0; local->count > 0 && panel < (int)local->num_panels; panel++) {
            r->operands[count++] = weft_bound(&local->panels[panel], 0, i < cluster->num_inputs ? STARPU_R : STARPU_W);
        }
    }
    if (r->scratch != NULL) {
        r->operands[count] = weft_bound(&r->scratch->panels[0], 0, STARPU_W);
    }
}

/* All memory of a task. False: no memory. */
static bool prepare(weft_cluster *cluster, int shard, weft_tensor_impl *const tensors[], const double scalars[],
                    ready_task *r)
{
    const weft_cluster_program *program = &cluster->programs[shard];
    size_t count = (size_t)weft_cluster_num_calls(cluster) * WEFT_MAX_SCALARS * sizeof(double);
    size_t size = sizeof(cluster_args) + count, table = weft_task_table_size((size_t)program->num_operands);
    int64_t bytes = program->scratch_bytes;
    r->operands = malloc((size_t)program->num_operands * sizeof(*r->operands));
    r->args = calloc(1, size);
    r->table = table == 0 ? NULL : malloc(table * sizeof(*r->table));
    r->scratch = bytes == 0 ? NULL : weft_buffer_new(weft_runtime.pool, (weft_cut){ bytes, bytes, bytes });
    r->block = weft_task_prepare(program->num_operands, size);
    if (r->operands == NULL || r->args == NULL || (table > 0 && r->table == NULL) || (bytes > 0 && r->scratch == NULL) ||
        r->block == NULL || kernel() == WEFT_KERNEL_NONE) {
        return false;
    }
    r->args->cluster = cluster;
    r->args->program = program;
    memcpy(r->args->scalars, scalars, count);
    bind(cluster, shard, tensors, r);
    r->task = (weft_single_task){ .kernel = kernel(),
                                  .name = "graph",
                                  .function = "weft_graph_call",
                                  .arguments = r->args,
                                  .arguments_size = size,
                                  .num_operands = program->num_operands,
                                  .operands = r->operands };
    return true;
}

bool weft_cluster_submit(weft_cluster *cluster, weft_tensor_impl *const tensors[], const double scalars[])
{
    ready_task *ready = calloc((size_t)cluster->num_programs + 1, sizeof(*ready));
    bool done = ready != NULL;
    for (int i = 0; i < cluster->num_programs && done; i++) {
        done = cluster->programs[i].steps.count == 0 || prepare(cluster, i, tensors, scalars, &ready[i]);
    }
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for tasks");
    }
    weft_runtime.operations += done;
    for (int i = 0; i < cluster->num_programs && done; i++) {
        if (ready[i].block == NULL) {
            continue;
        }
        atomic_fetch_add(&cluster->references, 1);
        weft_task_block *block = ready[i].block;
        ready[i].block = NULL;
        done = weft_task_submit_prepared(&ready[i].task, block, ready[i].table);
        if (!done) {
            weft_cluster_release(cluster);
        }
    }
    for (int i = 0; i < cluster->num_programs && ready != NULL; i++) {
        forget(&ready[i]);
    }
    free(ready);
    return done;
}
