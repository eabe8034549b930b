/* Task lists: building, comparing, counting. */
#include <stdlib.h>
#include <string.h>

#include "tasks/tasks.h"

/* Arguments that several tasks may share. */
typedef struct argument_block {
    weft_kernel_id kernel;
    void *bytes;
    size_t size;
} argument_block;

void weft_task_list_free(weft_task_list *list)
{
    argument_block *blocks = list->arguments.items;
    for (size_t i = 0; i < list->arguments.count; i++) {
        free(blocks[i].bytes);
    }
    weft_vec_free(&list->tasks);
    weft_vec_free(&list->operands);
    weft_vec_free(&list->slots);
    weft_vec_free(&list->temporaries);
    weft_vec_free(&list->arguments);
    weft_vec_free(&list->messages);
    free(list->pending);
    free(list->slot_index);
    *list = (weft_task_list){ 0 };
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static bool same_slot(weft_slot a, weft_slot b)
{
    return a.tensor == b.tensor && a.shard == b.shard && a.panel == b.panel;
}

static uint64_t hash_slot(weft_slot slot)
{
    return weft_hash_u64((uint64_t)slot.panel * 0x9e3779b97f4a7c15u ^ (uint64_t)(uint32_t)slot.tensor << 32 ^
                         (uint32_t)slot.shard);
}

/* Where the slot's number is in the index, or would be put. */
static size_t find_slot(const weft_task_list *list, weft_slot slot)
{
    const weft_slot *slots = list->slots.items;
    size_t mask = list->slot_index_size - 1, place = hash_slot(slot) & mask;
    while (list->slot_index[place] != 0 && !same_slot(slots[list->slot_index[place] - 1], slot)) {
        place = (place + 1) & mask;
    }
    return place;
}

static bool grow_index(weft_task_list *list)
{
    size_t size = list->slot_index_size == 0 ? 32 : 2 * list->slot_index_size;
    uint32_t *index = calloc(size, sizeof(*index));
    if (index == NULL) {
        return false;
    }
    free(list->slot_index);
    list->slot_index = index;
    list->slot_index_size = size;
    const weft_slot *slots = list->slots.items;
    for (size_t i = 0; i < list->slots.count; i++) {
        index[find_slot(list, slots[i])] = (uint32_t)i + 1;
    }
    return true;
}

/* The slot's number, a new one when it is new. */
static uint32_t number_of(weft_task_list *list, weft_slot slot)
{
    if (2 * (list->slots.count + 1) > list->slot_index_size && !grow_index(list)) {
        list->failed = true;
        return 0;
    }
    size_t place = find_slot(list, slot);
    if (list->slot_index[place] == 0) {
        weft_slot *added = weft_vec_push(&list->slots, sizeof(*added));
        if (added == NULL) {
            list->failed = true;
            return 0;
        }
        *added = slot;
        list->slot_index[place] = (uint32_t)list->slots.count;
    }
    return list->slot_index[place] - 1;
}

weft_slot weft_task_new_temporary(weft_task_list *list, int64_t bytes)
{
    weft_temporary *added = weft_vec_push(&list->temporaries, sizeof(*added));
    if (added == NULL) {
        list->failed = true;
        return (weft_slot){ WEFT_TEMPORARY, 0, 0 };
    }
    *added = (weft_temporary){ .bytes = bytes, .first_task = UINT32_MAX };
    return (weft_slot){ WEFT_TEMPORARY, 0, (int64_t)list->temporaries.count - 1 };
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

void *weft_task_begin(weft_task_list *list, weft_kernel_id kernel, size_t size)
{
    if (size > list->pending_capacity) {
        void *larger = realloc(list->pending, size);
        if (larger == NULL) {
            list->failed = true;
            return NULL;
        }
        list->pending = larger;
        list->pending_capacity = size;
    }
    weft_task *task = weft_vec_push(&list->tasks, sizeof(*task));
    if (task == NULL) {
        list->failed = true;
        return NULL;
    }
    task->kernel = kernel;
    task->first_operand = (uint32_t)list->operands.count;
    list->pending_size = size;
    list->pending_kernel = kernel;
    return memset(list->pending, 0, size);
}

static weft_task *last_task(weft_task_list *list)
{
    return (weft_task *)list->tasks.items + list->tasks.count - 1;
}

int weft_task_add(weft_task_list *list, weft_slot slot, int64_t offset, weft_slot_access access)
{
    weft_task_operand *operand = weft_vec_push(&list->operands, sizeof(*operand));
    if (operand == NULL || list->failed) {
        list->failed = true;
        return 0;
    }
    *operand = (weft_task_operand){ .offset = offset, .slot = number_of(list, slot), .access = access };
    if (slot.tensor == WEFT_TEMPORARY) {
        weft_temporary *temporary = (weft_temporary *)list->temporaries.items + slot.panel;
        uint32_t number = (uint32_t)list->tasks.count - 1;
        temporary->first_task = number < temporary->first_task ? number : temporary->first_task;
        temporary->last_task = number;
    }
    return (int)last_task(list)->num_operands++;
}

/* The pending arguments, or equal ones of a task before: neighbouring panels mostly have the same. */
static const void *keep_arguments(weft_task_list *list)
{
    enum { LOOKED_AT = 8 };
    argument_block *blocks = list->arguments.items;
    size_t count = list->arguments.count, first = count > LOOKED_AT ? count - LOOKED_AT : 0;
    for (size_t i = count; i-- > first;) {
        if (blocks[i].kernel == list->pending_kernel && blocks[i].size == list->pending_size &&
            memcmp(blocks[i].bytes, list->pending, list->pending_size) == 0) {
            return blocks[i].bytes;
        }
    }
    void *bytes = malloc(list->pending_size + (list->pending_size == 0));
    argument_block *added = bytes == NULL ? NULL : weft_vec_push(&list->arguments, sizeof(*added));
    if (added == NULL) {
        free(bytes);
        return NULL;
    }
    *added = (argument_block){ list->pending_kernel, bytes, list->pending_size };
    return memcpy(bytes, list->pending, list->pending_size);
}

void weft_task_trim(weft_task_list *list, size_t size)
{
    list->pending_size = size;
}

bool weft_task_end(weft_task_list *list, double position)
{
    const void *arguments = list->failed ? NULL : keep_arguments(list);
    if (arguments == NULL) {
        list->failed = true;
        return false;
    }
    weft_task *task = last_task(list);
    task->arguments = arguments;
    task->arguments_size = list->pending_size;
    task->position = position;
    if (task->num_operands > list->max_operands) {
        list->max_operands = task->num_operands;
    }
    return true;
}

/* ---- transfers ----------------------------------------------------------------------------------------- */

void weft_transfer_begin(weft_task_list *list, weft_record_kind kind, weft_slot slot, weft_slot_access access)
{
    weft_task *transfer = weft_vec_push(&list->tasks, sizeof(*transfer));
    if (transfer == NULL) {
        list->failed = true;
        return;
    }
    transfer->kind = kind;
    transfer->first_operand = (uint32_t)list->operands.count;
    transfer->first_message = (uint32_t)list->messages.count;
    weft_task_add(list, slot, 0, access);
    list->max_operands = list->max_operands == 0 ? 1 : list->max_operands;
}

bool weft_transfer_add(weft_task_list *list, const weft_task_message *message)
{
    weft_task_message *added = list->failed ? NULL : weft_vec_push(&list->messages, sizeof(*added));
    if (added == NULL) {
        list->failed = true;
        return false;
    }
    *added = *message;
    size_t count = ++last_task(list)->num_messages;
    list->max_messages = count > list->max_messages ? count : list->max_messages;
    return true;
}

bool weft_task_list_finish(weft_task_list *list)
{
    free(list->pending);
    free(list->slot_index);
    list->pending = NULL;
    list->slot_index = NULL;
    list->pending_capacity = list->slot_index_size = 0;
    return !list->failed;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

size_t weft_task_list_bytes(const weft_task_list *list)
{
    size_t bytes = sizeof(*list) + list->tasks.capacity * sizeof(weft_task) +
                   list->operands.capacity * sizeof(weft_task_operand) +
                   list->slots.capacity * sizeof(weft_slot) +
                   list->temporaries.capacity * sizeof(weft_temporary) +
                   list->messages.capacity * sizeof(weft_task_message) +
                   list->arguments.capacity * sizeof(argument_block);
    const argument_block *blocks = list->arguments.items;
    for (size_t i = 0; i < list->arguments.count; i++) {
        bytes += blocks[i].size;
    }
    return bytes;
}

int64_t weft_task_list_peak(const weft_task_list *list)
{
    const weft_temporary *all = list->temporaries.items;
    int64_t peak = 0;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        /* Those that live when this one begins: the most live at the beginning of one of them. */
        int64_t bytes = 0;
        for (size_t k = 0; k < list->temporaries.count; k++) {
            bool lives = all[k].first_task <= all[i].first_task && all[i].first_task <= all[k].last_task;
            bytes += lives ? all[k].bytes : 0;
        }
        peak = weft_max_i64(peak, bytes);
    }
    return peak;
}

static bool same_region(const weft_region *a, const weft_region *b)
{
    size_t size = (size_t)a->ndim * sizeof(a->count[0]);
    return a->offset == b->offset && a->run_bytes == b->run_bytes && a->ndim == b->ndim &&
           memcmp(a->count, b->count, size) == 0 && memcmp(a->stride, b->stride, size) == 0;
}

static bool same_messages(const weft_task_list *a, const weft_task *p, const weft_task_list *b,
                          const weft_task *q)
{
    const weft_task_message *x = weft_task_messages(a, p), *y = weft_task_messages(b, q);
    bool same = p->num_messages == q->num_messages;
    for (uint32_t i = 0; same && i < p->num_messages; i++) {
        same = x[i].peer == y[i].peer && x[i].tag == y[i].tag && x[i].source_rank == y[i].source_rank &&
               x[i].target_rank == y[i].target_rank && same_region(&x[i].region, &y[i].region);
    }
    return same;
}

static bool same_arguments(const weft_task *p, const weft_task *q)
{
    return p->arguments_size == q->arguments_size &&
           (p->arguments_size == 0 || memcmp(p->arguments, q->arguments, p->arguments_size) == 0);
}

static bool same_task(const weft_task_list *a, const weft_task *p, const weft_task_list *b,
                      const weft_task *q)
{
    if (p->kind != q->kind || p->kernel != q->kernel || p->num_operands != q->num_operands ||
        p->position != q->position || !same_arguments(p, q) || !same_messages(a, p, b, q)) {
        return false;
    }
    const weft_task_operand *x = weft_task_operands(a, p), *y = weft_task_operands(b, q);
    for (uint32_t i = 0; i < p->num_operands; i++) {
        if (x[i].offset != y[i].offset || x[i].access != y[i].access ||
            !same_slot(weft_task_list_slots(a)[x[i].slot], weft_task_list_slots(b)[y[i].slot])) {
            return false;
        }
    }
    return true;
}

bool weft_task_list_equal(const weft_task_list *a, const weft_task_list *b)
{
    bool equal = a->tasks.count == b->tasks.count && a->temporaries.count == b->temporaries.count;
    for (size_t i = 0; i < a->tasks.count && equal; i++) {
        equal = same_task(a, weft_task_list_tasks(a) + i, b, weft_task_list_tasks(b) + i);
    }
    size_t bytes = a->temporaries.count * sizeof(weft_temporary);
    return equal && (bytes == 0 || memcmp(a->temporaries.items, b->temporaries.items, bytes) == 0);
}
