/* Clusters on CUDA devices: all kernels are launched on the task's stream, chains of elementwise ones together
 * (codelets/cuda/chain.h). A fused task is launched as a whole, unless values between two launches need memory: then
 * tile by tile, in tiles as large as the queue's scratch memory has room for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/chain.h"
#include "codelets/cuda/products.h"
#include "graph/fuse/cluster_run.h"

enum { NO_MEMORY = 2 }; /* cudaErrorMemoryAllocation */

/* The kernels of a task, as runs of their own: valid until the stream has gone through them if one of them can find an
 * invalid value, else until they are launched. */
typedef struct launching {
    const weft_task_run *run;
    const weft_cluster_args *args;
    weft_task_run *runs;       /* by step, as `found` */
    weft_device_error **found;
    void **operands;           /* of all steps, one after the other */
    char *arguments;           /* of a fused call's steps, likewise */
} launching;

/* One block of memory, to be freed. NULL: there is none. */
static launching *begin(const weft_task_run *run)
{
    const weft_cluster_args *args = run->arguments;
    const weft_cluster_program *program = args->program;
    const weft_cluster_step *steps = program->steps.items;
    size_t count = program->steps.count, arguments = 0;
    for (size_t i = 0; i < count && program->num_units > 0; i++) {
        arguments += weft_aligned(steps[i].arguments_size);
    }
    size_t all = weft_aligned(sizeof(launching)), runs = weft_aligned(count * sizeof(weft_task_run));
    size_t found = weft_aligned(count * sizeof(weft_device_error *)), operands = weft_aligned(program->places.count * sizeof(void *));
    char *memory = malloc(all + runs + found + operands + arguments);
    launching *l = (void *)memory;
    if (l != NULL) {
        *l = (launching){ .run = run, .args = args };
        l->runs = (void *)(memory + all);
        l->found = (void *)(memory + all + runs);
        l->operands = (void *)(memory + all + runs + found);
        l->arguments = memory + all + runs + found + operands;
    }
    return l;
}

/* The runs of all steps, for `count` units from `first` on. */
static weft_cuda_steps steps_of(const launching *l, const weft_cluster_memory *memory, int64_t first, int64_t count)
{
    const weft_cluster_program *program = l->args->program;
    const weft_cluster_step *steps = program->steps.items;
    char *arguments = l->arguments;
    void **operands = l->operands;
    for (size_t i = 0; i < program->steps.count; i++) {
        const weft_cluster_step *step = &steps[i];
        const void *own = weft_cluster_arguments(l->args, step);
        if (program->num_units > 0) {
            own = memcpy(arguments, own, step->arguments_size);
            weft_cluster_narrow(step, first, count, arguments);
            arguments += weft_aligned(step->arguments_size);
        }
        weft_cluster_find_operands(program, step, memory, first, operands);
        l->runs[i] = (weft_task_run){ .kernel = step->kernel,
                                      .cpu = &weft_codelet_of(step->kernel)->cpu,
                                      .arguments = own,
                                      .num_operands = (int)step->num_places,
                                      .operands = operands,
                                      .function = step->function,
                                      .operation = l->run->operation };
        memcpy(l->runs[i].scalars, l->args->scalars + (size_t)step->call * WEFT_MAX_SCALARS, sizeof(l->runs[i].scalars));
        operands += step->num_places;
    }
    return (weft_cuda_steps){ .count = (int)program->steps.count,
                              .runs = l->runs,
                              .scratch = memory->scratch,
                              .scratch_bytes = program->scratch_bytes * memory->times };
}

/* A fused task. */
static int launch_tiles(const launching *l, weft_cuda_queue *queue)
{
    const weft_cluster_program *program = l->args->program;
    /* At an address where no device has memory. */
    char *nowhere = (char *)(uintptr_t)4096; // NOLINT
    weft_cluster_memory memory = { l->run->operands, nowhere,
                                   (program->num_units + program->tile_units - 1) / program->tile_units };
    weft_cuda_steps all = steps_of(l, &memory, 0, program->num_units);
    if (!weft_cuda_steps_use_scratch(&all)) {
        return weft_cuda_launch_steps(&all, queue, l->found);
    }
    size_t bytes;
    void *scratch;
    int failed = weft_cuda_scratch(queue, &scratch, &bytes);
    memory.scratch = scratch;
    memory.times = failed != 0 ? 1 : (int64_t)bytes / program->scratch_bytes; /* no less than WEFT_MAX_TILE_BYTES */
    int64_t tile = program->tile_units * memory.times;
    for (int64_t first = 0; first < program->num_units && failed == 0; first += tile) {
        weft_cuda_steps steps = steps_of(l, &memory, first, weft_min_i64(tile, program->num_units - first));
        failed = weft_cuda_launch_steps(&steps, queue, l->found);
    }
    return failed;
}

/* Calls that are not fused. */
static int launch_steps(const launching *l, weft_cuda_queue *queue)
{
    const weft_cluster_program *program = l->args->program;
    void *scratch = program->scratch_bytes > 0 ? l->run->operands[l->run->num_operands - 1] : NULL;
    weft_cluster_memory memory = { l->run->operands, scratch, 1 };
    weft_cuda_steps steps = steps_of(l, &memory, 0, 0);
    return weft_cuda_launch_steps(&steps, queue, l->found);
}

/* ---- errors ---------------------------------------------------------------------------------------------- */

static void end(launching *l)
{
    weft_cluster_release(l->args->cluster);
    free(l);
}

/* After the stream's work, before others get what the task has written. */
static void report_found(void *argument)
{
    launching *l = argument;
    const weft_cluster_step *steps = l->args->program->steps.items;
    for (size_t i = 0; i < l->args->program->steps.count; i++) {
        if (l->found[i] != NULL && l->found[i]->error.status != WEFT_OK) {
            l->runs[i].error = &l->found[i]->error;
            weft_task_run_report(&l->runs[i], steps[i].operation);
        }
    }
    end(l);
}

static bool can_find_errors(const launching *l)
{
    bool can = false;
    for (size_t i = 0; i < l->args->program->steps.count && !can; i++) {
        can = l->found[i] != NULL;
    }
    return can;
}

int weft_cluster_run_cuda(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_cluster_args *args = run->arguments;
    launching *l = begin(run);
    if (l == NULL) {
        weft_cluster_release(args->cluster);
        return NO_MEMORY;
    }
    int failed = (args->program->num_units > 0 ? launch_tiles : launch_steps)(l, queue);
    if (failed == 0 && can_find_errors(l)) {
        struct starpu_task *task = starpu_task_get_current();
        task->epilogue_callback_func = report_found;
        task->epilogue_callback_arg = l;
    } else {
        end(l);
    }
    return failed;
}
