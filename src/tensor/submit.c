/* Submission of single tasks at low cost: starpu_task_submit() on memory of weft's own, without variadic
 * insertion. */
#include "tensor/submit.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/copy.h"
#include "codelets/flops.h"
#include "runtime/pending.h"
#include "sched/sched.h"
#include "tensor/rehearsal.h"
#include "tensor/state.h"

/* ---- buffers ------------------------------------------------------------------------------------------- */

/* StarPU takes each handle once per task: operands in one panel become one buffer with the union of their
 * accesses. */
typedef struct buffers {
    int count;
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
    uint32_t *places;  /* with many handles: hash table of 1 + their number; 0: empty entry */
    size_t num_places; /* a power of two, at least twice as many as operands; 0: no table */
} buffers;

/* The number of a handle in the task; a new handle gets the next number, and an entry in the table. */
static int find_buffer(buffers *all, starpu_data_handle_t handle)
{
    int found = 0;
    if (all->num_places == 0) {
        while (found < all->count && all->handles[found] != handle) {
            found++;
        }
        return found;
    }
    size_t mask = all->num_places - 1, place = weft_hash_u64((uint64_t)(uintptr_t)handle) & mask;
    while (all->places[place] != 0 && all->handles[all->places[place] - 1] != handle) {
        place = (place + 1) & mask;
    }
    if (all->places[place] == 0) {
        all->places[place] = (uint32_t)all->count + 1;
    }
    return (int)all->places[place] - 1;
}

static int buffer_of(buffers *all, const weft_bound_operand *operand)
{
    int found = find_buffer(all, operand->handle);
    if (found < all->count) {
        all->modes[found] |= operand->mode;
        return found;
    }
    all->handles[found] = operand->handle;
    all->modes[found] = operand->mode;
    return all->count++;
}

size_t weft_task_table_size(size_t num_operands)
{
    size_t size = 128;
    if (num_operands <= STARPU_NMAXBUFS) {
        return 0;
    }
    while (size / 2 < num_operands) {
        size *= 2;
    }
    return size;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Offsets in a task's block of the kernel's pointers, and of its arguments after them. */
static size_t pointers_at(int num_operands)
{
    return weft_aligned(sizeof(weft_submitted_run) + (size_t)num_operands * sizeof(weft_run_place));
}

static size_t arguments_at(int num_operands)
{
    return pointers_at(num_operands) + weft_aligned((size_t)num_operands * sizeof(void *));
}

weft_task_block *weft_task_prepare(int num_operands, size_t arguments_size)
{
    size_t size = arguments_at(num_operands) + weft_aligned(arguments_size);
    weft_task_block *block = weft_task_obtain(weft_runtime.task_memory, size);
    if (block == NULL) {
        return NULL;
    }
    struct starpu_task *starpu = &block->starpu;
    starpu->cl_arg_size = size;
    if (num_operands > STARPU_NMAXBUFS) { /* freed by StarPU with the task */
        starpu->dyn_handles = malloc((size_t)num_operands * sizeof(*starpu->dyn_handles));
        starpu->dyn_modes = malloc((size_t)num_operands * sizeof(*starpu->dyn_modes));
        if (starpu->dyn_handles == NULL || starpu->dyn_modes == NULL) {
            weft_task_give_back(weft_runtime.task_memory, block);
            return NULL;
        }
    }
    return block;
}

/* ---- submission ---------------------------------------------------------------------------------------- */

static void fill_run(const weft_single_task *task, weft_task_block *block)
{
    const weft_codelet *codelet = weft_codelet_of(task->kernel);
    block->starpu.cl = (struct starpu_codelet *)(uintptr_t)&codelet->starpu;
    weft_submitted_run *submitted = weft_block_run(block);
    submitted->operation = task->operation;
    weft_task_run *run = &submitted->run;
    void *arguments =
        memcpy(block->bytes + arguments_at(task->num_operands), task->arguments, task->arguments_size);
    weft_task_apply(arguments, task->patches, task->num_patches);
    run->kernel = task->kernel;
    run->cpu = &codelet->cpu;
    run->arguments = arguments;
    run->function = task->name_offset > 0 ? (const char *)arguments + task->name_offset : task->function;
    run->operation = weft_runtime.operations;
    run->num_operands = task->num_operands;
    run->operands = (void **)(void *)(block->bytes + pointers_at(task->num_operands));
    run->context = task->shared != NULL ? task->shared->bytes : task->context;
    block->shared = task->shared;
    if (task->shared != NULL) {
        task->shared->references++;
    }
    if (task->scalars != NULL) {
        memcpy(run->scalars, task->scalars, sizeof(run->scalars));
    }
}

/* Blocks of many operands have arrays of their own. */
static buffers buffers_in(weft_task_block *block, const weft_single_task *task, uint32_t *table)
{
    struct starpu_task *starpu = &block->starpu;
    bool many = starpu->dyn_handles != NULL;
    buffers all = { .handles = many ? starpu->dyn_handles : starpu->handles,
                    .modes = many ? starpu->dyn_modes : starpu->modes,
                    .places = table,
                    .num_places = weft_task_table_size((size_t)task->num_operands) };
    if (all.num_places > 0) {
        memset(table, 0, all.num_places * sizeof(*table));
    }
    return all;
}

uint64_t weft_task_set_delay(uint64_t delay)
{
    const uint64_t before = weft_runtime.delay;
    weft_runtime.delay = delay;
    return before;
}

bool weft_task_submit_prepared(const weft_single_task *task, weft_task_block *block, uint32_t *table)
{
    fill_run(task, block);
    buffers all = buffers_in(block, task, table);
    weft_submitted_run *run = weft_block_run(block);
    for (int i = 0; i < task->num_operands; i++) {
        run->places[i].offset = task->operands[i].offset;
        run->places[i].buffer = buffer_of(&all, &task->operands[i]);
    }
    struct starpu_task *starpu = &block->starpu;
    starpu->name = weft_runtime.trace == NULL ? task->name : weft_task_trace_name(task->name, all.handles[0]);
    starpu->nbuffers = all.count;
    if (weft_runtime.counts_flops) {
        starpu->flops = weft_kernel_flops(task->kernel, run->run.arguments);
    }
    if (task->on_host) {
        starpu->where = STARPU_CPU;
    }
    starpu->priority = weft_sched_priority((int64_t)(weft_runtime.operations + weft_runtime.delay), task->position);
    if (weft_runtime.context.rehearsal != NULL) {
        weft_runtime.context.rehearsal->task(weft_runtime.context.rehearsal, task, run, starpu);
        weft_task_give_back(weft_runtime.task_memory, block);
        return true;
    }
    weft_acquired_follow_task(all.count, all.handles, all.modes);
    weft_pending_begin(weft_runtime.pending, 1);
    int failed = starpu_task_submit(starpu);
    if (failed != 0) {
        weft_pending_end(weft_runtime.pending, 1);
        weft_task_give_back(weft_runtime.task_memory, block);
        weft_fail_alone(WEFT_ERR_UNSUPPORTED, task->function, "StarPU takes no such task: %s",
                        strerror(-failed));
        return false;
    }
    weft_runtime.counters.tasks++;
    return true;
}

bool weft_task_submit(const weft_single_task *task)
{
    size_t table_size = weft_task_table_size((size_t)task->num_operands);
    uint32_t *table = table_size == 0 ? NULL : malloc(table_size * sizeof(*table));
    weft_task_block *block = weft_task_prepare(task->num_operands, task->arguments_size);
    bool done = false;
    if (block == NULL || (table_size > 0 && table == NULL)) {
        if (block != NULL) {
            weft_task_give_back(weft_runtime.task_memory, block);
        }
        weft_fail(WEFT_ERR_NOMEM, task->function, "no memory for a task");
    } else {
        done = weft_task_submit_prepared(task, block, table);
    }
    free(table);
    return done;
}

static bool copy_bytes(const weft_bound_operand *target, const weft_bound_operand *source, int64_t bytes)
{
    weft_copy_args args = { .base.dtype = WEFT_U8, .element_size = 1 };
    args.boxes[0] =
        (weft_strided_box){ .ndim = 1, .extent = { bytes }, .source_stride = { 1 }, .target_stride = { 1 } };
    weft_bound_operand operands[] = { *target, *source };
    return weft_task_submit(&(weft_single_task){ .kernel = WEFT_KERNEL_copy,
                                                 .name = "copy",
                                                 .function = "copy",
                                                 .arguments = &args,
                                                 .arguments_size = sizeof(args),
                                                 .num_operands = 2,
                                                 .operands = operands });
}

bool weft_task_copy_panel(const weft_panel *target, const weft_panel *source, int64_t bytes)
{
    const weft_bound_operand to = weft_bound(target, 0, STARPU_W), from = weft_bound(source, 0, STARPU_R);
    return copy_bytes(&to, &from, bytes);
}

bool weft_task_copy_piece(const weft_panel *target, int64_t target_offset, const weft_panel *source,
                          int64_t source_offset, int64_t bytes)
{
    const enum starpu_data_access_mode mode = target_offset == 0 ? STARPU_W : STARPU_RW;
    const weft_bound_operand to = weft_bound(target, target_offset, mode),
                             from = weft_bound(source, source_offset, STARPU_R);
    return copy_bytes(&to, &from, bytes);
}
