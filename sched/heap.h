/* A heap of ready tasks, by priority, then by the order of arrival. No locks. */
#ifndef WEFT_SCHED_HEAP_H
#define WEFT_SCHED_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>

#include <starpu.h>

typedef struct weft_heap_entry {
    struct starpu_task *task;
    int priority;
    uint64_t arrival;
} weft_heap_entry;

typedef struct weft_heap {
    weft_heap_entry *entries;
    size_t count, capacity;
    uint64_t arrivals;
    struct starpu_task_list unordered; /* without memory for the heap */
    atomic_size_t waiting;             /* tasks in both; may be read by others at any time */
} weft_heap;

void weft_heap_start(weft_heap *heap);
void weft_heap_stop(weft_heap *heap);
void weft_heap_add(weft_heap *heap, struct starpu_task *task);
/* Removes the first task that a worker can execute; NULL: none. */
struct starpu_task *weft_heap_take(weft_heap *heap, unsigned worker);

#endif
