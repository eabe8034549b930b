#include "sched/heap.h"

#include <stdlib.h>

static bool goes_first(const weft_heap_entry *a, const weft_heap_entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

static void swap(weft_heap_entry *a, weft_heap_entry *b)
{
    weft_heap_entry c = *a;
    *a = *b;
    *b = c;
}

static void sift_up(weft_heap *heap, size_t i)
{
    for (; i > 0 && goes_first(&heap->entries[i], &heap->entries[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(&heap->entries[i], &heap->entries[(i - 1) / 2]);
    }
}

static void sift_down(weft_heap *heap, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && goes_first(&heap->entries[child + 1], &heap->entries[child])) {
            child++;
        }
        if (!goes_first(&heap->entries[child], &heap->entries[i])) {
            return;
        }
        swap(&heap->entries[i], &heap->entries[child]);
    }
}

void weft_heap_add(weft_heap *heap, struct starpu_task *task)
{
    heap->waiting++;
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity == 0 ? 256 : 2 * heap->capacity;
        weft_heap_entry *entries = realloc(heap->entries, capacity * sizeof(*entries));
        if (entries == NULL) {
            starpu_task_list_push_back(&heap->unordered, task);
            return;
        }
        heap->entries = entries;
        heap->capacity = capacity;
    }
    heap->entries[heap->count] = (weft_heap_entry){ task, task->priority, heap->arrivals++ };
    sift_up(heap, heap->count++);
}

static struct starpu_task *take(weft_heap *heap, size_t i)
{
    struct starpu_task *task = heap->entries[i].task;
    heap->entries[i] = heap->entries[--heap->count];
    if (i < heap->count) {
        sift_up(heap, i);
        sift_down(heap, i);
    }
    return task;
}

static bool can_execute(unsigned worker, struct starpu_task *task)
{
    unsigned implementation;
    if (!starpu_worker_can_execute_task_first_impl(worker, task, &implementation)) {
        return false;
    }
    starpu_task_set_implementation(task, implementation);
    return true;
}

/* Nearly always the top. If the worker cannot execute that one, the best of the others. */
static struct starpu_task *find_for(weft_heap *heap, unsigned worker)
{
    if (heap->count > 0 && can_execute(worker, heap->entries[0].task)) {
        return take(heap, 0);
    }
    size_t best = 0; /* none: the top cannot be it */
    for (size_t i = 1; i < heap->count; i++) {
        if ((best == 0 || goes_first(&heap->entries[i], &heap->entries[best])) && can_execute(worker, heap->entries[i].task)) {
            best = i;
        }
    }
    if (best > 0) {
        can_execute(worker, heap->entries[best].task); /* says which implementation */
        return take(heap, best);
    }
    for (struct starpu_task *task = starpu_task_list_begin(&heap->unordered); task != NULL;
         task = starpu_task_list_next(task)) {
        if (can_execute(worker, task)) {
            starpu_task_list_erase(&heap->unordered, task);
            return task;
        }
    }
    return NULL;
}

struct starpu_task *weft_heap_take(weft_heap *heap, unsigned worker)
{
    struct starpu_task *task = find_for(heap, worker);
    heap->waiting -= task != NULL;
    return task;
}

void weft_heap_start(weft_heap *heap)
{
    starpu_task_list_init(&heap->unordered);
}

void weft_heap_stop(weft_heap *heap)
{
    free(heap->entries);
}
