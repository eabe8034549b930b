/* Binds task lists to memory and submits them. */
#include "tensor/run.h"

#include <stddef.h>
#include <string.h>

#include "codelets/copy.h"
#include "tensor/state.h"

/* Temporaries return to the pool at once: StarPU orders their next use after this one. */
static void unbind(weft_bound_list *bound)
{
    for (size_t i = 0; bound->temporaries != NULL && i < bound->list->num_buffers; i++) {
        if (bound->temporaries[i] != NULL) {
            weft_buffer_release(bound->temporaries[i]);
        }
    }
    while (bound->blocks != NULL) {
        weft_task_block *block = bound->blocks;
        bound->blocks = block->next;
        weft_task_give_back(weft_runtime.task_memory, block);
    }
    for (size_t i = bound->submitted_transfers; i < bound->prepared_transfers; i++) {
        weft_comm_discard(bound->transfers[i]);
    }
    weft_room_give_back(bound->room);
}

/* Working memory of a run: slots and operands only if there are many. */
static bool obtain_room(weft_bound_list *bound)
{
    const weft_task_list *list = bound->list;
    bool many = list->slots.count > WEFT_FEW_SLOTS || list->max_operands > WEFT_FEW_SLOTS;
    size_t slots = many ? weft_aligned(list->slots.count * sizeof(*bound->slots)) : 0;
    size_t operands = many ? weft_aligned(list->max_operands * sizeof(*bound->operands)) : 0;
    size_t temporaries = weft_aligned(list->num_buffers * sizeof(*bound->temporaries));
    size_t transfers = weft_aligned(list->num_transfers * sizeof(*bound->transfers));
    size_t table = weft_task_table_size(list->max_operands) * sizeof(*bound->table);
    bound->slots = bound->few_slots;
    bound->operands = bound->few_operands;
    if (slots + operands + temporaries + transfers + table == 0) {
        return true;
    }
    bound->room = weft_room_obtain(slots + operands + temporaries + transfers + table);
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
    bound->transfers = (struct weft_comm_transfer **)(void *)(place + slots + operands + temporaries);
    bound->table = (uint32_t *)(void *)(place + slots + operands + temporaries + transfers);
    return true;
}

static bool obtain_temporaries(weft_bound_list *bound)
{
    const weft_temporary *all = bound->list->temporaries.items;
    for (size_t i = 0; i < bound->list->temporaries.count; i++) {
        int64_t bytes = all[i].bytes;
        weft_buffer **buffer = &bound->temporaries[all[i].buffer];
        if (*buffer == NULL) {
            *buffer = weft_buffer_new(weft_runtime.pool, (weft_cut){ .total = bytes, .first = bytes, .step = bytes });
        }
        if (*buffer == NULL) {
            return false;
        }
    }
    return true;
}

/* Records are in submission order. */
static bool obtain_blocks(weft_bound_list *bound)
{
    const weft_task_list *list = bound->list;
    weft_task_block **last = &bound->blocks;
    for (size_t i = 0; i < list->tasks.count; i++) {
        const weft_task *task = weft_task_list_tasks(list) + i;
        if (task->kind != WEFT_RECORD_TASK) {
            struct weft_comm_transfer *transfer = weft_comm_prepare((int)task->num_items);
            if (transfer == NULL) {
                return false;
            }
            bound->transfers[bound->prepared_transfers++] = transfer;
            continue;
        }
        weft_task_block *block =
            weft_task_prepare((int)task->num_operands, weft_task_block_of(list, task)->size);
        if (block == NULL) {
            return false;
        }
        block->next = NULL;
        *last = block;
        last = &block->next;
    }
    return true;
}

static void bind_slots(weft_bound_list *bound)
{
    const weft_slot *slots = weft_task_list_slots(bound->list);
    const weft_temporary *temporaries = bound->list->temporaries.items;
    weft_tensor_impl *const *tensors = bound->bindings->tensors;
    for (size_t i = 0; i < bound->list->slots.count; i++) {
        bound->slots[i] = slots[i].tensor == WEFT_TEMPORARY
                              ? bound->temporaries[temporaries[slots[i].panel].buffer]->panels[0]
                              : tensors[slots[i].tensor]->shards[slots[i].shard].panels[slots[i].panel];
    }
}

bool weft_task_list_bind(weft_bound_list *bound, const weft_task_list *list, const weft_bindings *bindings)
{
    bound->list = list;
    bound->bindings = bindings;
    bound->room = NULL;
    bound->temporaries = NULL;
    bound->blocks = NULL;
    bound->transfers = NULL;
    bound->prepared_transfers = bound->submitted_transfers = 0;
    if (!obtain_room(bound) || !obtain_temporaries(bound) || !obtain_blocks(bound)) {
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

/* Copies between tensors that share memory are dropped: the values are there already. */
static bool copies_onto_itself(const weft_single_task *task, const weft_copy_args *args, int source)
{
    const weft_bound_operand *to = &task->operands[0], *from = &task->operands[1 + source];
    return from->handle == to->handle && from->offset == to->offset + args->target_offset[source];
}

/* Submits a task's copies, but for those onto themselves. */
static bool submit_moved(const weft_single_task *task, weft_task_block *block)
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
    if (kept == 0) {
        weft_task_give_back(weft_runtime.task_memory, block);
        return true;
    }
    return weft_task_submit_prepared(&rest, block, NULL);
}

static bool submit_copy(const weft_single_task *task, weft_task_block *block)
{
    bool shared = false;
    for (int i = 1; i < task->num_operands; i++) {
        shared = shared || task->operands[i].handle == task->operands[0].handle;
    }
    return shared ? submit_moved(task, block) : weft_task_submit_prepared(task, block, NULL);
}

static bool submit_task(weft_bound_list *bound, const weft_task *task)
{
    const weft_bindings *bindings = bound->bindings;
    const weft_argument_block *block = weft_task_block_of(bound->list, task);
    for (uint32_t i = 0; i < task->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operand_at(bound->list, task, i);
        bound->operands[i] =
            weft_bound(&bound->slots[operand->slot], operand->offset, starpu_mode(operand->access));
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
                                .context = bindings->context,
                                .shared = bindings->shared,
                                .operation = bindings->operation,
                                .num_operands = (int)task->num_operands,
                                .operands = bound->operands,
                                .position = task->position,
                                .on_host = bindings->on_host };
    weft_task_block *memory = bound->blocks;
    bound->blocks = memory->next;
    return task->kernel == WEFT_KERNEL_copy ? submit_copy(&single, memory)
                                            : weft_task_submit_prepared(&single, memory, bound->table);
}

bool weft_task_list_submit(weft_bound_list *bound)
{
    bool done = true;
    for (size_t i = 0; i < bound->list->tasks.count && done; i++) {
        const weft_task *task = weft_task_list_tasks(bound->list) + i;
        if (task->kind == WEFT_RECORD_TASK) {
            done = submit_task(bound, task);
        } else {
            weft_transfer_submit(bound, task, bound->transfers[bound->submitted_transfers++]);
        }
    }
    unbind(bound);
    return done;
}

bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings)
{
    weft_bound_list bound;
    return weft_task_list_bind(&bound, list, bindings) && weft_task_list_submit(&bound);
}
