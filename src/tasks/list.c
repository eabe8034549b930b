/* Task lists: building, comparing, counting. */
#include <stdlib.h>
#include <string.h>

#include "tasks/tasks.h"

void weft_task_list_free(weft_task_list *list)
{
    weft_argument_block *blocks = list->arguments.items;
    for (size_t i = 0; i < list->arguments.count; i++) {
        free(blocks[i].memory);
    }
    weft_vec_free(&list->patches);
    weft_vec_free(&list->tasks);
    weft_vec_free(&list->operands);
    weft_vec_free(&list->slots);
    weft_vec_free(&list->temporaries);
    weft_vec_free(&list->arguments);
    weft_vec_free(&list->messages);
    weft_vec_free(&list->pending);
    weft_map_free(&list->slot_index);
    *list = (weft_task_list){ 0 };
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static uint64_t hash_slot(weft_slot slot)
{
    return weft_hash_u64((uint64_t)slot.panel * 0x9e3779b97f4a7c15u ^ (uint64_t)(uint32_t)slot.tensor << 32 ^
                         (uint32_t)slot.shard);
}

/* The slot's number, a new one if not found. The index holds 1 + the number. */
static uint32_t number_of(weft_task_list *list, weft_slot slot)
{
    uint64_t hash = hash_slot(slot);
    weft_map_slot *known = weft_map_first(&list->slot_index, hash);
    for (; known != NULL; known = weft_map_next(&list->slot_index, known)) {
        size_t number = (size_t)(uintptr_t)known->value - 1;
        if (weft_slot_equal(((const weft_slot *)list->slots.items)[number], slot)) {
            return (uint32_t)number;
        }
    }
    weft_slot *added = weft_vec_push(&list->slots, sizeof(*added));
    if (added == NULL || !weft_map_add(&list->slot_index, hash, (void *)(uintptr_t)list->slots.count)) {
        list->failed = true;
        return 0;
    }
    *added = slot;
    return (uint32_t)list->slots.count - 1;
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

/* arguments are compared in words */
typedef uint64_t word;

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(word) - 1) / sizeof(word);
}

static word word_at(const void *memory, size_t i)
{
    word value;
    memcpy(&value, (const char *)memory + i * sizeof(word), sizeof(value));
    return value;
}

weft_slot weft_task_new_buffer(weft_task_list *list, int64_t bytes)
{
    weft_slot slot = weft_task_new_temporary(list, bytes);
    if (!list->failed) {
        ((weft_temporary *)list->temporaries.items)[slot.panel].apart = true;
    }
    return slot;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

void *weft_task_begin(weft_task_list *list, weft_kernel_id kernel, size_t size)
{
    if (!weft_vec_reserve(&list->pending, words_of(size), sizeof(word))) {
        list->failed = true;
        return NULL;
    }
    weft_task *task = weft_vec_push(&list->tasks, sizeof(*task));
    if (task == NULL) {
        list->failed = true;
        return NULL;
    }
    task->kernel = kernel;
    task->first_own = (uint32_t)list->operands.count;
    list->pending_size = size;
    list->pending_kernel = kernel;
    return size == 0 ? &list->pending : memset(list->pending.items, 0, words_of(size) * sizeof(word));
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
    weft_task *task = last_task(list);
    task->num_own++;
    return (int)task->num_operands++;
}

/* ---- arguments ----------------------------------------------------------------------------------------- */

/* Number of words in which the pending arguments differ from a block; more than `most`: most + 1. */
static size_t count_differences(const weft_task_list *list, const weft_argument_block *block, size_t most)
{
    size_t differences = 0;
    if (block->kernel != list->pending_kernel || block->size != list->pending_size) {
        return most + 1;
    }
    for (size_t i = 0; i < words_of(block->size) && differences <= most; i++) {
        differences += word_at(list->pending.items, i) != word_at(block->memory, i);
    }
    return differences;
}

/* The block that differs least from the pending arguments, by at most a quarter of their words, among
 * those of the last tasks, because neighbouring panels have similar arguments. None: the number of blocks. */
static size_t find_block(const weft_task_list *list, size_t *differences)
{
    enum { LOOKED_AT = 8, FEW = 2 };
    const weft_argument_block *blocks = list->arguments.items;
    size_t count = list->arguments.count, found = count, least = words_of(list->pending_size) / 4;
    for (size_t i = count; i > 0 && i + LOOKED_AT > count; i--) {
        size_t here = count_differences(list, &blocks[i - 1], least);
        if (here <= least) {
            found = i - 1;
            *differences = here;
            if (here <= FEW) {
                break;
            }
            least = here - 1;
        }
    }
    return found;
}

static bool add_block(weft_task_list *list)
{
    size_t words = words_of(list->pending_size);
    void *copy = malloc(words == 0 ? 1 : words * sizeof(word));
    weft_argument_block *added = copy == NULL ? NULL : weft_vec_push(&list->arguments, sizeof(*added));
    if (added == NULL) {
        free(copy);
        return false;
    }
    *added = (weft_argument_block){ list->pending_kernel, (uint32_t)list->pending_size, copy };
    if (words > 0) {
        memcpy(copy, list->pending.items, words * sizeof(word));
    }
    return true;
}

static bool same_patches(const weft_task_list *a, const weft_task *p, const weft_task_list *b,
                         const weft_task *q)
{
    const weft_task_patch *m = weft_task_patches(a, p), *n = weft_task_patches(b, q);
    bool same = p->num_items == q->num_items;
    for (uint32_t i = 0; same && i < p->num_items; i++) {
        same = m[i].word == n[i].word && m[i].value == n[i].value;
    }
    return same;
}

/* Shares the patches of the previous task if they are equal. */
static void share_patches(weft_task_list *list, weft_task *task)
{
    const weft_task *before = task - 1;
    if (task > weft_task_list_tasks(list) && before->kind == WEFT_RECORD_TASK && task->num_items > 0 &&
        same_patches(list, before, list, task)) {
        list->patches.count = task->first_item;
        task->first_item = before->first_item;
    }
}

/* Gives a task the pending arguments. False: no memory. */
static bool keep_arguments(weft_task_list *list, weft_task *task)
{
    size_t differences = 0, block = find_block(list, &differences);
    if (block == list->arguments.count && !add_block(list)) {
        return false;
    }
    const void *shared = ((weft_argument_block *)list->arguments.items)[block].memory;
    task->arguments = (uint32_t)block;
    task->first_item = (uint32_t)list->patches.count;
    for (size_t i = 0; task->num_items < differences; i++) {
        if (word_at(list->pending.items, i) != word_at(shared, i)) {
            weft_task_patch *patch = weft_vec_push(&list->patches, sizeof(*patch));
            if (patch == NULL) {
                return false;
            }
            *patch = (weft_task_patch){ .value = word_at(list->pending.items, i), .word = (uint32_t)i };
            task->num_items++;
        }
    }
    share_patches(list, task);
    return true;
}

void *weft_task_arguments(const weft_task_list *list, const weft_task *task, void *memory)
{
    const weft_argument_block *block = weft_task_block_of(list, task);
    memcpy(memory, block->memory, words_of(block->size) * sizeof(word));
    weft_task_apply(memory, weft_task_patches(list, task), task->num_items);
    return memory;
}

void weft_task_trim(weft_task_list *list, size_t size)
{
    memset((char *)list->pending.items + size, 0, list->pending_size - size);
    list->pending_size = size;
}

static bool same_operand(const weft_task_operand *a, const weft_task_operand *b)
{
    return a->offset == b->offset && a->slot == b->slot && a->access == b->access;
}

/* The last operands of the task before, where there are as many and they are the same. */
static void share_operands(weft_task_list *list, weft_task *task)
{
    const weft_task *before = task - 1;
    if (task == weft_task_list_tasks(list) || before->num_operands != task->num_operands) {
        return;
    }
    /* The operands that the task before shares are consecutive, and so are its own. */
    uint32_t count = task->num_operands, first = before->num_own < count ? before->num_own : 0, same = count;
    while (same > first && same_operand(weft_task_operand_at(list, before, same - 1),
                                        weft_task_operand_at(list, task, same - 1))) {
        same--;
    }
    if (same < count) {
        task->first_shared = before->num_own < count ? before->first_shared + (same - first) : before->first_own + same;
        task->num_own = same;
        list->operands.count -= count - same;
    }
}

bool weft_task_end(weft_task_list *list, double position)
{
    if (list->failed || !keep_arguments(list, last_task(list))) {
        list->failed = true;
        return false;
    }
    weft_task *task = last_task(list);
    share_operands(list, task);
    task->position = position;
    list->max_operands = task->num_operands > list->max_operands ? task->num_operands : list->max_operands;
    list->max_arguments = list->pending_size > list->max_arguments ? list->pending_size : list->max_arguments;
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
    list->num_transfers++;
    transfer->first_own = (uint32_t)list->operands.count;
    transfer->first_item = (uint32_t)list->messages.count;
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
    last_task(list)->num_items++;
    return true;
}

/* A buffer, and its last user so far. */
typedef struct buffer {
    int64_t bytes;
    uint32_t last_task;
} buffer;

/* Assigns each temporary a buffer: a free one of its size, whose last task precedes its first, or a new
 * one. */
static void share_buffers(weft_task_list *list)
{
    weft_temporary *all = list->temporaries.items;
    buffer *buffers = malloc((list->temporaries.count + 1) * sizeof(*buffers));
    if (buffers == NULL) {
        list->failed = true;
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        size_t b = 0;
        while (b < count && (all[i].apart || buffers[b].bytes != all[i].bytes ||
                             buffers[b].last_task >= all[i].first_task)) {
            b++;
        }
        buffers[b].last_task =
            b == count || buffers[b].last_task < all[i].last_task ? all[i].last_task : buffers[b].last_task;
        buffers[b].bytes = all[i].apart ? -1 : all[i].bytes;
        count = b == count ? count + 1 : count;
        all[i].buffer = (uint32_t)b;
    }
    list->num_buffers = count;
    free(buffers);
}

bool weft_task_list_finish(weft_task_list *list)
{
    share_buffers(list);
    weft_vec_trim(&list->tasks, sizeof(weft_task));
    weft_vec_trim(&list->operands, sizeof(weft_task_operand));
    weft_vec_trim(&list->slots, sizeof(weft_slot));
    weft_vec_trim(&list->temporaries, sizeof(weft_temporary));
    weft_vec_trim(&list->messages, sizeof(weft_task_message));
    weft_vec_trim(&list->arguments, sizeof(weft_argument_block));
    weft_vec_trim(&list->patches, sizeof(weft_task_patch));
    weft_vec_free(&list->pending);
    weft_map_free(&list->slot_index);
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
                   list->patches.capacity * sizeof(weft_task_patch) +
                   list->arguments.capacity * sizeof(weft_argument_block);
    const weft_argument_block *blocks = list->arguments.items;
    for (size_t i = 0; i < list->arguments.count; i++) {
        bytes += words_of(blocks[i].size) * sizeof(word);
    }
    return bytes;
}

int64_t weft_task_list_peak(const weft_task_list *list)
{
    const weft_temporary *all = list->temporaries.items;
    int64_t peak = 0;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        /* The temporaries alive when this one begins: the peak is at the beginning of one. */
        int64_t bytes = 0;
        for (size_t k = 0; k < list->temporaries.count; k++) {
            bool lives = all[k].first_task <= all[i].first_task && all[i].first_task <= all[k].last_task;
            bytes += lives ? all[k].bytes : 0;
        }
        peak = weft_max_i64(peak, bytes);
    }
    return peak;
}

int64_t weft_task_list_buffer_bytes(const weft_task_list *list)
{
    const weft_temporary *all = list->temporaries.items;
    int64_t bytes = 0;
    size_t seen = 0;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        bool is_new = all[i].buffer == seen; /* buffers are numbered in the order of their first use */
        bytes += is_new ? all[i].bytes : 0;
        seen += is_new;
    }
    return bytes;
}

static bool same_temporaries(const weft_task_list *a, const weft_task_list *b)
{
    const weft_temporary *p = a->temporaries.items, *q = b->temporaries.items;
    bool same = a->temporaries.count == b->temporaries.count;
    for (size_t i = 0; same && i < a->temporaries.count; i++) {
        same = p[i].bytes == q[i].bytes && p[i].first_task == q[i].first_task &&
               p[i].last_task == q[i].last_task && p[i].buffer == q[i].buffer;
    }
    return same;
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
    bool same = p->num_items == q->num_items;
    for (uint32_t i = 0; same && i < p->num_items; i++) {
        same = x[i].peer == y[i].peer && x[i].tag == y[i].tag && x[i].source_rank == y[i].source_rank &&
               x[i].target_rank == y[i].target_rank && same_region(&x[i].region, &y[i].region);
    }
    return same;
}

/* Lists built alike share arguments alike. */
static bool same_arguments(const weft_task_list *a, const weft_task *p, const weft_task_list *b,
                           const weft_task *q)
{
    const weft_argument_block *x = weft_task_block_of(a, p), *y = weft_task_block_of(b, q);
    return x->size == y->size && same_patches(a, p, b, q) &&
           (x->size == 0 || memcmp(x->memory, y->memory, words_of(x->size) * sizeof(word)) == 0);
}

static bool same_task(const weft_task_list *a, const weft_task *p, const weft_task_list *b,
                      const weft_task *q)
{
    if (p->kind != q->kind || p->kernel != q->kernel || p->num_operands != q->num_operands ||
        p->position != q->position ||
        !(p->kind == WEFT_RECORD_TASK ? same_arguments(a, p, b, q) : same_messages(a, p, b, q))) {
        return false;
    }
    for (uint32_t i = 0; i < p->num_operands; i++) {
        const weft_task_operand *x = weft_task_operand_at(a, p, i), *y = weft_task_operand_at(b, q, i);
        if (x->offset != y->offset || x->access != y->access ||
            !weft_slot_equal(weft_task_list_slots(a)[x->slot], weft_task_list_slots(b)[y->slot])) {
            return false;
        }
    }
    return true;
}

bool weft_task_list_equal(const weft_task_list *a, const weft_task_list *b)
{
    bool equal = a->tasks.count == b->tasks.count && same_temporaries(a, b);
    for (size_t i = 0; i < a->tasks.count && equal; i++) {
        equal = same_task(a, weft_task_list_tasks(a) + i, b, weft_task_list_tasks(b) + i);
    }
    return equal;
}
