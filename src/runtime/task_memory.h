/* Memory for tasks: StarPU's structure and the arguments of weft's kernels in one reused block. Otherwise
 * both would be allocated on the submitting thread and freed on a worker, and malloc() would lock its
 * arenas for each of them.
 *
 * StarPU uses a task after its callback. So the callback (note_end() in task_memory.c, on a worker) only pushes the
 * task on a list, from which the submitting thread takes it: once starpu_task_finished() (such tasks are
 * not detached), it frees StarPU's own memory of the task (starpu_task_clean(): allocated on this thread
 * too) and reuses the block. */
#ifndef WEFT_SRC_TASK_MEMORY_H
#define WEFT_SRC_TASK_MEMORY_H

#include <stdalign.h>

#include <starpu.h>

#include "runtime/codelets.h"

/* Bytes that the tasks of a call share: the copy of its context. Counted by the submitting thread. */
typedef struct weft_shared_bytes {
    size_t references;
    alignas(16) char bytes[];
} weft_shared_bytes;

/* With one reference. NULL: no memory. */
weft_shared_bytes *weft_shared_bytes_copy(const void *from, size_t size);
/* May be NULL. */
void weft_shared_bytes_release(weft_shared_bytes *shared);

typedef struct weft_task_block {
    struct starpu_task starpu;
    weft_shared_bytes *shared; /* the task has a reference; NULL: none */
    struct weft_task_block *next;
    int size_class;
    alignas(16) char bytes[]; /* cl_arg: a weft_submitted_run */
} weft_task_block;

static inline weft_submitted_run *weft_block_run(weft_task_block *block)
{
    return (weft_submitted_run *)(void *)block->bytes;
}

typedef struct weft_task_memory weft_task_memory;

/* NULL: no memory. */
weft_task_memory *weft_task_memory_new(void);
/* All tasks must have ended. */
void weft_task_memory_delete(weft_task_memory *memory);

/* A block with room for so many bytes, with an initialised task that StarPU neither detaches nor destroys,
 * and whose callback notes its end. NULL: no memory. */
weft_task_block *weft_task_obtain(weft_task_memory *memory, size_t bytes);
/* Returns a block whose task was not submitted. */
void weft_task_give_back(weft_task_memory *memory, weft_task_block *block);

/* Returns the blocks of ended tasks. */
void weft_task_memory_collect(weft_task_memory *memory);

#endif
