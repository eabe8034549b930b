/* Running clusters. */
#include "graph/fuse/cluster_run.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/pending.h"
#include "runtime/trace.h"
#include "tensor/state.h"
#include "tensor/submit.h"

enum { FEW_PLACES = 64, MOST_PARTS = 32 };

/* ---- the kernel ------------------------------------------------------------------------------------------ */

/* The time that a task worked for each operation, for StarPU's trace. */
typedef struct parts {
    int count;
    const weft_operation *of[MOST_PARTS];
    int64_t ns[MOST_PARTS];
    int times[MOST_PARTS];
} parts;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void add_part(parts *all, const weft_operation *operation, int64_t ns)
{
    int number = 0;
    while (number < all->count && all->of[number] != operation) {
        number++;
    }
    if (number < MOST_PARTS) {
        bool is_new = number == all->count;
        all->count += is_new;
        all->of[number] = operation;
        all->ns[number] = (is_new ? 0 : all->ns[number]) + ns;
        all->times[number] = (is_new ? 0 : all->times[number]) + 1;
    }
}

static void write_parts(const parts *all)
{
    for (int i = 0; i < all->count; i++) {
        weft_trace_event("weft part %d %lld %d %s", starpu_worker_get_id(), (long long)all->ns[i], all->times[i], all->of[i]->name);
    }
}

/* A cluster's task while it runs. */
typedef struct running {
    const weft_task_run *run;
    const weft_cluster_args *args;
    char *scratch;
    void **operands; /* of the current kernel */
    parts *parts;    /* NULL: StarPU does not trace */
} running;

static void run_kernel(const running *r, const weft_cluster_step *step, const void *arguments)
{
    const weft_codelet *codelet = weft_codelet_of(step->kernel);
    weft_kernel_error error;
    error.status = WEFT_OK;
    weft_task_run own = { .kernel = step->kernel,
                          .cpu = &codelet->cpu,
                          .arguments = arguments,
                          .num_operands = (int)step->num_places,
                          .operands = r->operands,
                          .function = step->function,
                          .operation = r->run->operation,
                          .error = &error };
    memcpy(own.scalars, r->args->scalars + (size_t)step->call * WEFT_MAX_SCALARS, sizeof(own.scalars));
    int64_t begun = r->parts == NULL ? 0 : now_ns();
    codelet->cpu.run(&own);
    if (r->parts != NULL) {
        add_part(r->parts, step->operation, now_ns() - begun);
    }
    if (error.status != WEFT_OK && weft_runtime.context.rehearsal == NULL) { /* a rehearsal has no values */
        weft_task_run_report(&own, step->operation);
    }
}

/* The kernel's operands, from unit `first` on. */
static void find_operands(const running *r, const weft_cluster_step *step, int64_t first)
{
    const weft_cluster_memory memory = { r->run->operands, r->scratch, 1 };
    weft_cluster_find_operands(r->args->program, step, &memory, first, r->operands);
}

static void run_tile(const running *r, int64_t first, int64_t count)
{
    alignas(16) char memory[WEFT_MAX_TILE_ARGUMENTS];
    const weft_cluster_program *program = r->args->program;
    const weft_cluster_step *steps = program->steps.items;
    for (size_t i = 0; i < program->steps.count; i++) {
        const void *arguments = weft_cluster_arguments(r->args, &steps[i]);
        if (count < program->num_units) {
            memcpy(memory, arguments, steps[i].arguments_size);
            weft_cluster_narrow(&steps[i], first, count, memory);
            arguments = memory;
        }
        find_operands(r, &steps[i], first);
        run_kernel(r, &steps[i], arguments);
    }
}

static void run_tiles(running r)
{
    alignas(64) char scratch[WEFT_MAX_TILE_BYTES];
    const weft_cluster_program *program = r.args->program;
    r.scratch = scratch;
    for (int64_t first = 0; first < program->num_units; first += program->tile_units) {
        run_tile(&r, first, weft_min_i64(program->tile_units, program->num_units - first));
    }
}

/* Calls that are not fused, one after the other. */
static void run_steps(running r)
{
    const weft_cluster_program *program = r.args->program;
    const weft_cluster_step *steps = program->steps.items;
    r.scratch = program->scratch_bytes > 0 ? r.run->operands[r.run->num_operands - 1] : NULL;
    for (size_t i = 0; i < program->steps.count; i++) {
        find_operands(&r, &steps[i], 0);
        run_kernel(&r, &steps[i], weft_cluster_arguments(r.args, &steps[i]));
    }
}

static void run_cluster(const weft_task_run *run)
{
    const weft_cluster_args *args = run->arguments;
    const weft_cluster_program *program = args->program;
    void *few[FEW_PLACES], **operands = few;
    if (program->max_places > FEW_PLACES) {
        operands = malloc(program->max_places * sizeof(void *));
    }
    if (operands == NULL) {
        run->error->status = WEFT_ERR_NOMEM;
        run->error->problem = 0;
        snprintf(run->error->message, sizeof(run->error->message), "no memory for a cluster's operands");
    } else {
        parts all = { .count = 0 };
        running r = { .run = run, .args = args, .operands = operands, .parts = weft_runtime.trace == NULL ? NULL : &all };
        (program->num_units > 0 ? run_tiles : run_steps)(r);
        write_parts(&all);
    }
    if (operands != few) {
        free(operands);
    }
    weft_cluster_release(args->cluster);
}

static uint32_t footprint(const weft_task_run *run)
{
    return ((const weft_cluster_args *)run->arguments)->program->footprint;
}

/* A queue allocates memory of its own for its first such task, which panels may have filled where there is less. */
enum { LEAST_DEVICE_BYTES = 1 << 20 };

static bool runs_on_devices(const weft_task_run *run)
{
    const weft_cluster_program *program = ((const weft_cluster_args *)run->arguments)->program;
    return !program->cpu_only && program->num_views <= WEFT_CUDA_TASK_ERRORS && weft_runtime.device_bytes >= LEAST_DEVICE_BYTES;
}

/* The id of the clusters' kernel; WEFT_KERNEL_NONE: no memory. */
static weft_kernel_id kernel(void)
{
    weft_runtime_state *state = &weft_runtime;
    if (state->cluster_kernel == WEFT_KERNEL_NONE) {
        const weft_own_kernel own = { .name = "graph",
                                      .run = run_cluster,
                                      .footprint = footprint,
                                      .cuda = weft_cluster_run_cuda,
                                      .on_devices = runs_on_devices };
        state->cluster_kernel = weft_codelet_register_run(&own);
    }
    return state->cluster_kernel;
}

/* ---- for predictions ------------------------------------------------------------------------------------- */

weft_cluster *weft_cluster_of(const void *arguments, const weft_cluster_program **program)
{
    *program = ((const weft_cluster_args *)arguments)->program;
    return ((const weft_cluster_args *)arguments)->cluster;
}

/* ---- submission ------------------------------------------------------------------------------------------ */

/* Memory of a task, obtained before the first submission. */
typedef struct ready_task {
    weft_task_block *block;
    weft_buffer *scratch;
} ready_task;

/* A cluster on its way to StarPU. */
typedef struct submission {
    weft_cluster *cluster;
    weft_tensor_impl *const *tensors;
    weft_room *room; /* memory of the next ones */
    ready_task *ready; /* by program */
    weft_bound_operand *operands; /* of the current task */
    uint32_t *table;
    weft_cluster_args *args;
    size_t args_size;
    const char *function; /* for messages */
} submission;

static int64_t pool_bytes(const weft_cluster_program *program)
{
    return program->num_units > 0 ? 0 : program->scratch_bytes;
}

static int num_operands(const weft_cluster_program *program)
{
    return (int)program->operands.count + (pool_bytes(program) > 0);
}

/* Working memory, which is kept for the next calls. False: no memory. */
static bool obtain_room(submission *s, const double scalars[])
{
    const weft_cluster *cluster = s->cluster;
    int most = 0;
    for (int i = 0; i < cluster->num_programs; i++) {
        most = num_operands(&cluster->programs[i]) > most ? num_operands(&cluster->programs[i]) : most;
    }
    size_t count = (size_t)weft_cluster_num_calls(cluster) * WEFT_MAX_SCALARS * sizeof(double);
    size_t ready = weft_aligned((size_t)cluster->num_programs * sizeof(ready_task));
    size_t operands = weft_aligned((size_t)most * sizeof(weft_bound_operand));
    size_t table = weft_aligned(weft_task_table_size((size_t)most) * sizeof(uint32_t));
    s->args_size = sizeof(weft_cluster_args) + count;
    s->room = weft_room_obtain(ready + operands + table + s->args_size);
    if (s->room == NULL) {
        return false;
    }
    char *memory = s->room->memory;
    s->ready = memset(memory, 0, ready);
    s->operands = (void *)(memory + ready);
    s->table = (void *)(memory + ready + operands);
    s->args = memset(memory + ready + operands + table, 0, sizeof(weft_cluster_args));
    s->args->cluster = s->cluster;
    memcpy(s->args->scalars, scalars, count);
    return true;
}

/* False: no memory. */
static bool prepare(const submission *s, int number)
{
    const weft_cluster_program *program = &s->cluster->programs[number];
    ready_task *r = &s->ready[number];
    int64_t bytes = pool_bytes(program);
    r->scratch = bytes == 0 ? NULL : weft_buffer_new(weft_runtime.pool, (weft_cut){ .total = bytes, .first = bytes, .step = bytes });
    r->block = weft_task_prepare(num_operands(program), s->args_size);
    return (bytes == 0 || r->scratch != NULL) && r->block != NULL;
}

static void bind(const submission *s, int number)
{
    static const enum starpu_data_access_mode modes[] = { [WEFT_SLOT_READ] = STARPU_R,
                                                          [WEFT_SLOT_WRITE] = STARPU_W,
                                                          [WEFT_SLOT_READ_WRITE] = STARPU_RW };
    const weft_cluster_program *program = &s->cluster->programs[number];
    const weft_cluster_operand *operands = program->operands.items;
    size_t count = program->operands.count;
    for (size_t i = 0; i < count; i++) {
        const weft_local_shard *local = &s->tensors[operands[i].value]->shards[program->shard];
        s->operands[i] = weft_bound(&local->panels[operands[i].panel], 0, modes[operands[i].access]);
    }
    if (s->ready[number].scratch != NULL) {
        s->operands[count] = weft_bound(&s->ready[number].scratch->panels[0], 0, STARPU_W);
    }
}

static bool submit(const submission *s, int number)
{
    const weft_cluster_program *program = &s->cluster->programs[number];
    bind(s, number);
    s->args->program = program;
    weft_single_task task = { .kernel = kernel(),
                              .name = "graph",
                              .function = s->function,
                              .arguments = s->args,
                              .arguments_size = s->args_size,
                              .num_operands = num_operands(program),
                              .operands = s->operands,
                              .position = program->position };
    weft_task_block *block = s->ready[number].block;
    s->ready[number].block = NULL;
    atomic_fetch_add(&s->cluster->references, 1);
    bool done = weft_task_submit_prepared(&task, block, s->table);
    if (!done || weft_runtime.context.rehearsal != NULL) { /* the kernel does not run */
        weft_cluster_release(s->cluster);
    }
    return done;
}

static void give_back(const submission *s)
{
    for (int i = 0; i < s->cluster->num_programs && s->room != NULL; i++) {
        if (s->ready[i].block != NULL) {
            weft_task_give_back(weft_runtime.task_memory, s->ready[i].block);
        }
        weft_buffer_release(s->ready[i].scratch);
    }
    weft_room_give_back(s->room);
}

bool weft_cluster_submit(const char *function, weft_cluster *cluster, weft_tensor_impl *const tensors[], const double scalars[])
{
    submission s = { .cluster = cluster, .tensors = tensors, .function = function };
    bool done = kernel() != WEFT_KERNEL_NONE && obtain_room(&s, scalars);
    for (int i = 0; i < cluster->num_programs && done; i++) {
        done = cluster->programs[i].steps.count == 0 || prepare(&s, i);
    }
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for tasks");
    }
    weft_runtime.operations += done;
    for (int i = 0; i < cluster->num_programs && done; i++) {
        done = cluster->programs[i].steps.count == 0 || submit(&s, i);
    }
    give_back(&s);
    return done;
}
