/* Tasks, the cheap way: starpu_task_create() and starpu_task_submit(), no variadic insertion. */
#include "tensor/run.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/copy.h"
#include "runtime/pending.h"
#include "runtime/task_memory.h"
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

/* The block of a task: StarPU's structure, the run, its operands' places, room for pointers, and a copy of the
 * arguments. NULL: no memory. */
static weft_task_block *new_block(const weft_single_task *task)
{
    size_t n = (size_t)task->num_operands;
    size_t places = aligned(sizeof(weft_submitted_run) + n * sizeof(weft_run_place));
    size_t pointers = aligned(n * sizeof(void *));
    size_t size = places + pointers + aligned(task->arguments_size);
    weft_task_block *block = weft_task_obtain(weft_runtime.task_memory, size);
    if (block == NULL) {
        return NULL;
    }
    const weft_codelet *codelet = weft_codelet_of(task->kernel);
    block->starpu.cl = (struct starpu_codelet *)(uintptr_t)&codelet->starpu;
    block->starpu.cl_arg_size = size;
    weft_task_run *run = &weft_block_run(block)->run;
    run->kernel = task->kernel;
    run->cpu = &codelet->cpu;
    void *arguments = memcpy(block->bytes + places + pointers, task->arguments, task->arguments_size);
    weft_task_apply(arguments, task->patches, task->num_patches);
    run->arguments = arguments;
    run->function = task->function;
    run->operation = weft_runtime.operations;
    run->fail = weft_fail_later;
    run->num_operands = task->num_operands;
    run->operands = (void **)(void *)(block->bytes + places);
    if (task->scalars != NULL) {
        memcpy(run->scalars, task->scalars, sizeof(run->scalars));
    }
    return block;
}

bool weft_task_submit(const weft_single_task *task)
{
    weft_task_block *block = new_block(task);
    buffers all = { 0 };
    if (block != NULL) {
        all.handles = block->starpu.handles;
        all.modes = block->starpu.modes;
    }
    bool many = task->num_operands > STARPU_NMAXBUFS;
    if (block == NULL || (many && !reserve_buffers(&all, task->num_operands))) {
        if (block != NULL) {
            weft_task_give_back(weft_runtime.task_memory, block);
        }
        weft_fail(WEFT_ERR_NOMEM, task->function, "no memory for a task");
        return false;
    }
    weft_submitted_run *run = weft_block_run(block);
    for (int i = 0; i < task->num_operands; i++) {
        run->places[i].offset = task->operands[i].offset;
        run->places[i].buffer = buffer_of(&all, &task->operands[i]);
    }
    struct starpu_task *starpu = &block->starpu;
    starpu->name = weft_runtime.trace == NULL ? task->name : weft_task_trace_name(task->name, all.handles[0]);
    starpu->nbuffers = all.count;
    starpu->priority = weft_sched_priority(weft_runtime.operations, task->position);
    if (many) {
        starpu->dyn_handles = all.handles; /* StarPU frees them with the task */
        starpu->dyn_modes = all.modes;
        free(all.places);
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

/* Temporaries go back to the pool at once: StarPU orders their next use after this one. */
static void unbind(weft_bound_list *bound)
{
    for (size_t i = 0; bound->temporaries != NULL && i < bound->list->temporaries.count; i++) {
        if (bound->temporaries[i] != NULL) {
            weft_buffer_release(bound->temporaries[i]);
        }
    }
    weft_room_give_back(bound->room);
}

/* What a run needs beside its tasks: slots and operands only where there are many. */
static bool obtain_room(weft_bound_list *bound)
{
    const weft_task_list *list = bound->list;
    bool many = list->slots.count > WEFT_FEW_SLOTS || list->max_operands > WEFT_FEW_SLOTS;
    size_t slots = many ? aligned(list->slots.count * sizeof(*bound->slots)) : 0;
    size_t operands = many ? aligned(list->max_operands * sizeof(*bound->operands)) : 0;
    size_t temporaries = aligned(list->temporaries.count * sizeof(*bound->temporaries));
    size_t messages = list->max_messages * sizeof(*bound->messages);
    bound->slots = bound->few_slots;
    bound->operands = bound->few_operands;
    if (slots + operands + temporaries + messages == 0) {
        return true;
    }
    bound->room = weft_room_obtain(slots + operands + temporaries + messages);
    if (bound->room == NULL) {
        return false;
    }
    char *place = bound->room->memory;
    if (many) {
        bound->slots = (weft_panel *)(void *)place;
        bound->operands = (weft_bound_operand *)(void *)(place + slots);
    }
    bound->temporaries = (weft_buffer **)(void *)(place + slots + operands);
    memset(place + slots + operands, 0, temporaries);
    bound->messages = (weft_message *)(void *)(place + slots + operands + temporaries);
    return true;
}

static bool obtain_temporaries(weft_bound_list *bound)
{
    const weft_temporary *all = bound->list->temporaries.items;
    for (size_t i = 0; i < bound->list->temporaries.count; i++) {
        int64_t bytes = all[i].bytes;
        bound->temporaries[i] = weft_buffer_new(weft_runtime.pool, (weft_cut){ bytes, bytes, bytes });
        if (bound->temporaries[i] == NULL) {
            return false;
        }
    }
    return true;
}

static void bind_slots(weft_bound_list *bound)
{
    const weft_slot *slots = weft_task_list_slots(bound->list);
    weft_tensor_impl *const *tensors = bound->bindings->tensors;
    for (size_t i = 0; i < bound->list->slots.count; i++) {
        bound->slots[i] = slots[i].tensor == WEFT_TEMPORARY
                              ? bound->temporaries[slots[i].panel]->panels[0]
                              : tensors[slots[i].tensor]->shards[slots[i].shard].panels[slots[i].panel];
    }
}

bool weft_task_list_bind(weft_bound_list *bound, const weft_task_list *list, const weft_bindings *bindings)
{
    bound->list = list;
    bound->bindings = bindings;
    bound->room = NULL;
    bound->temporaries = NULL;
    bound->messages = NULL;
    if (!obtain_room(bound) || !obtain_temporaries(bound)) {
        unbind(bound);
        weft_fail(WEFT_ERR_NOMEM, bindings->function, "no memory for tasks");
        return false;
    }
    bind_slots(bound);
    return true;
}

static enum starpu_data_access_mode starpu_mode(uint32_t access)
{
    return access == WEFT_SLOT_READ ? STARPU_R : access == WEFT_SLOT_WRITE ? STARPU_W : STARPU_RW;
}

/* A tensor that is copied into one which shares memory with it has its own values there already. */
static bool copies_onto_itself(const weft_single_task *task, const weft_copy_args *args, int source)
{
    const weft_bound_operand *to = &task->operands[0], *from = &task->operands[1 + source];
    return from->handle == to->handle && from->offset == to->offset + args->target_offset[source];
}

/* Submits those copies of a task that do not stay where they are. */
static bool submit_moved(const weft_single_task *task)
{
    int kept = 0;
    weft_copy_args args;
    weft_bound_operand operands[WEFT_MAX_OPERANDS] = { task->operands[0] };
    memcpy(&args, task->arguments, task->arguments_size);
    weft_task_apply(&args, task->patches, task->num_patches);
    for (int i = 0; i < task->num_operands - 1; i++) {
        if (!copies_onto_itself(task, &args, i)) {
            args.target_offset[kept] = args.target_offset[i];
            args.boxes[kept++] = args.boxes[i];
            operands[kept] = task->operands[1 + i];
        }
    }
    weft_single_task rest = *task;
    rest.arguments = &args;
    rest.arguments_size = offsetof(weft_copy_args, boxes) + (size_t)kept * sizeof(args.boxes[0]);
    rest.num_patches = 0;
    rest.num_operands = 1 + kept;
    rest.operands = operands;
    return kept == 0 || weft_task_submit(&rest);
}

static bool submit_copy(const weft_single_task *task)
{
    bool shared = false;
    for (int i = 1; i < task->num_operands; i++) {
        shared = shared || task->operands[i].handle == task->operands[0].handle;
    }
    return shared ? submit_moved(task) : weft_task_submit(task);
}

static bool submit_task(const weft_bound_list *bound, const weft_task *task)
{
    const weft_bindings *bindings = bound->bindings;
    const weft_task_operand *operands = weft_task_operands(bound->list, task);
    const weft_argument_block *block = weft_task_block_of(bound->list, task);
    for (uint32_t i = 0; i < task->num_operands; i++) {
        bound->operands[i] =
            weft_bound(&bound->slots[operands[i].slot], operands[i].offset, starpu_mode(operands[i].access));
    }
    weft_single_task single = { .kernel = task->kernel,
                                .name = bindings->name != NULL ? bindings->name
                                                               : weft_kernel_info_of(task->kernel)->name,
                                .function = bindings->function,
                                .arguments = block->memory,
                                .arguments_size = block->size,
                                .patches = weft_task_patches(bound->list, task),
                                .num_patches = task->num_items,
                                .scalars = bindings->scalars,
                                .num_operands = (int)task->num_operands,
                                .operands = bound->operands,
                                .position = task->position };
    return task->kernel == WEFT_KERNEL_copy ? submit_copy(&single) : weft_task_submit(&single);
}

bool weft_task_list_submit(weft_bound_list *bound)
{
    bool done = true;
    for (size_t i = 0; i < bound->list->tasks.count && done; i++) {
        const weft_task *task = weft_task_list_tasks(bound->list) + i;
        done = task->kind == WEFT_RECORD_TASK
                   ? submit_task(bound, task)
                   : weft_transfer_submit(bound->bindings, bound->list, task,
                                          &bound->slots[weft_task_operands(bound->list, task)->slot],
                                          bound->messages);
    }
    unbind(bound);
    return done;
}

bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings)
{
    weft_bound_list bound;
    return weft_task_list_bind(&bound, list, bindings) && weft_task_list_submit(&bound);
}
