#include "runtime/task_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pending.h"

/* Class i has room for SMALLEST << i bytes; larger blocks are not reused. */
enum { SMALLEST = 256, NUM_CLASSES = 9, TOO_LARGE = NUM_CLASSES };
/* Limit of memory kept: all pending tasks (pending.c) of most operations. */
enum { MAX_KEPT_BYTES = 32 << 20 };

weft_shared_bytes *weft_shared_bytes_copy(const void *from, size_t size)
{
    weft_shared_bytes *shared = malloc(sizeof(*shared) + size);
    if (shared != NULL) {
        shared->references = 1;
        memcpy(shared->bytes, from, size);
    }
    return shared;
}

void weft_shared_bytes_release(weft_shared_bytes *shared)
{
    if (shared != NULL && --shared->references == 0) {
        free(shared);
    }
}

struct weft_task_memory {
    alignas(64) _Atomic(weft_task_block *) ended; /* lock-free stack: workers push, we take all */
    /* Submitting thread only: */
    alignas(64) weft_task_block *unfinished; /* ended, but still in use by StarPU */
    weft_task_block *free[NUM_CLASSES];
    size_t kept_bytes;
};

static size_t class_bytes(int size_class)
{
    return sizeof(weft_task_block) + ((size_t)SMALLEST << size_class);
}

static int class_of(size_t bytes)
{
    int size_class = 0;
    while (size_class < NUM_CLASSES && (size_t)SMALLEST << size_class < bytes) {
        size_class++;
    }
    return size_class;
}

weft_task_memory *weft_task_memory_new(void)
{
    weft_task_memory *memory = aligned_alloc(alignof(weft_task_memory), sizeof(*memory));
    if (memory != NULL) {
        *memory = (weft_task_memory){ .unfinished = NULL };
        atomic_init(&memory->ended, NULL);
    }
    return memory;
}

/* StarPU's callback, on the worker that ran the task. */
static void note_end(void *ended)
{
    weft_task_block *block = ended;
    weft_task_memory *memory = weft_runtime.task_memory;
    weft_task_block *top = atomic_load_explicit(&memory->ended, memory_order_relaxed);
    do {
        block->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&memory->ended, &top, block, memory_order_release,
                                                    memory_order_relaxed));
    weft_pending_end(weft_runtime.pending, 1);
}

static void keep_or_free(weft_task_memory *memory, weft_task_block *block)
{
    if (block->size_class == TOO_LARGE || memory->kept_bytes >= MAX_KEPT_BYTES) {
        free(block);
        return;
    }
    memory->kept_bytes += class_bytes(block->size_class);
    block->next = memory->free[block->size_class];
    memory->free[block->size_class] = block;
}

void weft_task_give_back(weft_task_memory *memory, weft_task_block *block)
{
    starpu_task_clean(&block->starpu);
    weft_shared_bytes_release(block->shared);
    keep_or_free(memory, block);
}

/* Prepends the blocks that StarPU still uses to `rest`, and returns that. */
static weft_task_block *give_back_finished(weft_task_memory *memory, weft_task_block *list,
                                           weft_task_block *rest)
{
    while (list != NULL) {
        weft_task_block *next = list->next;
        if (starpu_task_finished(&list->starpu)) {
            weft_task_give_back(memory, list);
        } else {
            list->next = rest;
            rest = list;
        }
        list = next;
    }
    return rest;
}

void weft_task_memory_collect(weft_task_memory *memory)
{
    if (memory->unfinished != NULL) {
        memory->unfinished = give_back_finished(memory, memory->unfinished, NULL);
    }
    if (atomic_load_explicit(&memory->ended, memory_order_relaxed) != NULL) {
        weft_task_block *ended = atomic_exchange_explicit(&memory->ended, NULL, memory_order_acquire);
        memory->unfinished = give_back_finished(memory, ended, memory->unfinished);
    }
}

weft_task_block *weft_task_obtain(weft_task_memory *memory, size_t bytes)
{
    weft_task_memory_collect(memory);
    int size_class = class_of(bytes);
    weft_task_block *block = size_class == TOO_LARGE ? NULL : memory->free[size_class];
    if (block != NULL) {
        memory->free[size_class] = block->next;
        memory->kept_bytes -= class_bytes(size_class);
    } else {
        block = malloc(size_class == TOO_LARGE ? sizeof(*block) + bytes : class_bytes(size_class));
        if (block == NULL) {
            return NULL;
        }
        block->size_class = size_class;
    }
    starpu_task_init(&block->starpu);
    block->shared = NULL;
    block->starpu.detach = 0;
    block->starpu.destroy = 0;
    block->starpu.cl_arg = block->bytes;
    block->starpu.callback_func = note_end;
    block->starpu.callback_arg = block;
    return block;
}

void weft_task_memory_delete(weft_task_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    do {
        weft_task_memory_collect(memory);
    } while (memory->unfinished != NULL);
    for (int i = 0; i < NUM_CLASSES; i++) {
        while (memory->free[i] != NULL) {
            weft_task_block *block = memory->free[i];
            memory->free[i] = block->next;
            free(block);
        }
    }
    free(memory);
}
