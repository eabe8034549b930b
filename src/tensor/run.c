/* Tasks, the cheap way: starpu_task_create() and starpu_task_submit(), no variadic insertion. */
#include "tensor/run.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/copy.h"
#include "runtime/codelets.h"
#include "runtime/pending.h"
#include "sched/sched.h"
#include "tensor/state.h"

/* ---- one task ------------------------------------------------------------------------------------------ */

/* StarPU takes each handle once per task: operands in one panel become one buffer with all their accesses. */
typedef struct buffers {
    int count;
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
    uint32_t *places;  /* of many handles: hash table of 1 + their number, 0 where there is none */
    size_t num_places; /* a power of two, at least twice as many as operands; 0: no table */
} buffers;

/* The number of a handle that the task has, or else of the next one, which then gets its place in the table.
 */
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

/* Memory for more handles than a starpu_task holds by itself. False: no memory. */
static bool reserve_buffers(buffers *all, int num_operands)
{
    size_t num_places = 128;
    while (num_places / 2 < (size_t)num_operands) {
        num_places *= 2;
    }
    all->handles = malloc((size_t)num_operands * sizeof(*all->handles));
    all->modes = malloc((size_t)num_operands * sizeof(*all->modes));
    all->places = calloc(num_places, sizeof(*all->places));
    all->num_places = num_places;
    if (all->handles == NULL || all->modes == NULL || all->places == NULL) {
        free(all->handles);
        free(all->modes);
        free(all->places);
        return false;
    }
    return true;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* The run, its operands, room for pointers, and a copy of the arguments: one block. NULL: no memory. */
static weft_submitted_run *new_run(const weft_single_task *task, size_t *size)
{
    size_t n = (size_t)task->num_operands;
    size_t places = aligned(sizeof(weft_submitted_run) + n * sizeof(weft_run_place));
    size_t pointers = aligned(n * sizeof(void *));
    *size = places + pointers + task->arguments_size;
    weft_submitted_run *submitted = malloc(*size);
    if (submitted == NULL) {
        return NULL;
    }
    void *arguments = (char *)submitted + places + pointers;
    weft_task_run *run = &submitted->run;
    run->kernel = task->kernel;
    run->cpu = &weft_codelet_of(task->kernel)->cpu;
    run->arguments = memcpy(arguments, task->arguments, task->arguments_size);
    run->function = task->function;
    run->operation = weft_runtime.operations;
    run->fail = weft_fail_later;
    run->num_operands = task->num_operands;
    run->operands = (void **)(void *)((char *)submitted + places);
    if (task->scalars != NULL) {
        memcpy(run->scalars, task->scalars, sizeof(run->scalars));
    }
    return submitted;
}

/* On the worker. */
static void task_ended(void *pending)
{
    weft_pending_end(pending, 1);
}

bool weft_task_submit(const weft_single_task *task)
{
    size_t size;
    weft_submitted_run *run = new_run(task, &size);
    struct starpu_task *starpu = starpu_task_create();
    buffers all = { .handles = starpu->handles, .modes = starpu->modes };
    bool many = task->num_operands > STARPU_NMAXBUFS;
    if (run == NULL || (many && !reserve_buffers(&all, task->num_operands))) {
        free(run);
        starpu->destroy = 0;
        starpu_task_destroy(starpu);
        weft_fail(WEFT_ERR_NOMEM, task->function, "no memory for a task");
        return false;
    }
    for (int i = 0; i < task->num_operands; i++) {
        run->places[i].offset = task->operands[i].offset;
        run->places[i].buffer = buffer_of(&all, &task->operands[i]);
    }
    starpu->cl = &weft_codelet_of(task->kernel)->starpu;
    starpu->name = weft_runtime.trace == NULL ? task->name : weft_task_trace_name(task->name, all.handles[0]);
    starpu->cl_arg = run;
    starpu->cl_arg_size = size;
    starpu->cl_arg_free = 1;
    starpu->nbuffers = all.count;
    starpu->priority = weft_sched_priority(weft_runtime.operations, task->position);
    if (many) {
        starpu->dyn_handles = all.handles; /* StarPU frees them with the task */
        starpu->dyn_modes = all.modes;
        free(all.places);
    }
    starpu->callback_func = task_ended;
    starpu->callback_arg = weft_runtime.pending;
    weft_acquired_follow_task(all.count, all.handles, all.modes);
    weft_pending_begin(weft_runtime.pending, 1);
    int failed = starpu_task_submit(starpu);
    if (failed != 0) {
        weft_pending_end(weft_runtime.pending, 1);
        starpu->destroy = 0;
        starpu_task_destroy(starpu); /* frees the run too */
        weft_fail_alone(WEFT_ERR_UNSUPPORTED, task->function, "StarPU takes no such task: %s",
                        strerror(-failed));
        return false;
    }
    weft_runtime.counters.tasks++;
    return true;
}

bool weft_task_copy_panel(const weft_panel *target, const weft_panel *source, int64_t bytes)
{
    weft_copy_args args = { .base.dtype = WEFT_U8, .element_size = 1 };
    args.boxes[0] =
        (weft_strided_box){ .ndim = 1, .extent = { bytes }, .source_stride = { 1 }, .target_stride = { 1 } };
    weft_bound_operand operands[] = { weft_bound(target, 0, STARPU_W), weft_bound(source, 0, STARPU_R) };
    return weft_task_submit(&(weft_single_task){ .kernel = WEFT_KERNEL_copy,
                                                 .name = "copy",
                                                 .function = "copy",
                                                 .arguments = &args,
                                                 .arguments_size = sizeof(args),
                                                 .num_operands = 2,
                                                 .operands = operands });
}

/* ---- a list -------------------------------------------------------------------------------------------- */

/* What a list's slots are in one run. */
typedef struct binding {
    weft_panel *slots;         /* by their numbers */
    weft_buffer **temporaries; /* by theirs */
    weft_bound_operand *operands; /* room for those of one task */
} binding;

static bool obtain_temporaries(const weft_task_list *list, binding *b)
{
    const weft_temporary *all = list->temporaries.items;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        int64_t bytes = all[i].bytes;
        b->temporaries[i] = weft_buffer_new(weft_runtime.pool, (weft_cut){ bytes, bytes, bytes });
        if (b->temporaries[i] == NULL) {
            return false;
        }
    }
    return true;
}

static void bind_slots(const weft_task_list *list, const weft_bindings *bindings, binding *b)
{
    const weft_slot *slots = weft_task_list_slots(list);
    for (size_t i = 0; i < list->slots.count; i++) {
        b->slots[i] = slots[i].tensor == WEFT_TEMPORARY
                          ? b->temporaries[slots[i].panel]->panels[0]
                          : bindings->tensors[slots[i].tensor]->shards[slots[i].shard].panels[slots[i].panel];
    }
}

static enum starpu_data_access_mode starpu_mode(uint32_t access)
{
    return access == WEFT_SLOT_READ ? STARPU_R : access == WEFT_SLOT_WRITE ? STARPU_W : STARPU_RW;
}

static bool run_task(const weft_task_list *list, const weft_task *task, const weft_bindings *bindings,
                     const binding *b)
{
    const weft_task_operand *operands = weft_task_operands(list, task);
    for (uint32_t i = 0; i < task->num_operands; i++) {
        b->operands[i] =
            weft_bound(&b->slots[operands[i].slot], operands[i].offset, starpu_mode(operands[i].access));
    }
    return weft_task_submit(&(weft_single_task){ .kernel = task->kernel,
                                                 .name = bindings->name,
                                                 .function = bindings->function,
                                                 .arguments = task->arguments,
                                                 .arguments_size = task->arguments_size,
                                                 .scalars = bindings->scalars,
                                                 .num_operands = (int)task->num_operands,
                                                 .operands = b->operands,
                                                 .position = task->position });
}

bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings)
{
    enum { FEW = 32 };
    weft_panel few_slots[FEW];
    weft_bound_operand few_operands[FEW];
    bool few = list->slots.count <= FEW && list->max_operands <= FEW;
    binding b = { .slots = few_slots, .operands = few_operands };
    if (!few) {
        b.slots = malloc(list->slots.count * sizeof(*b.slots));
        b.operands = malloc(list->max_operands * sizeof(*b.operands));
    }
    if (list->temporaries.count > 0) {
        b.temporaries = calloc(list->temporaries.count, sizeof(weft_buffer *));
    }
    bool done = b.slots != NULL && b.operands != NULL &&
                (list->temporaries.count == 0 ||
                 (b.temporaries != NULL && obtain_temporaries(list, &b)));
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, bindings->function, "no memory for tasks");
    } else {
        bind_slots(list, bindings, &b);
    }
    for (size_t i = 0; i < list->tasks.count && done; i++) {
        done = run_task(list, weft_task_list_tasks(list) + i, bindings, &b);
    }
    /* Temporaries go back to the pool at once: StarPU orders their next use after this one. */
    for (size_t i = 0; b.temporaries != NULL && i < list->temporaries.count; i++) {
        if (b.temporaries[i] != NULL) {
            weft_buffer_release(b.temporaries[i]);
        }
    }
    free(b.temporaries);
    if (!few) {
        free(b.slots);
        free(b.operands);
    }
    return done;
}
