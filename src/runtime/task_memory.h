/* Memory for tasks: StarPU's structure and what weft's kernels get, in one block that is used again. Without
 * it both would be allocated on the submitting thread and freed on a worker, and malloc() would lock its
 * arenas for each of them.
 *
 * StarPU looks at a task after its callback. So an ended task is only noted by the callback
 * (weft_task_ended(), on a worker), and the submitting thread, which finds it noted, asks StarPU whether it
 * has let go of it (starpu_task_finished(): such tasks are not detached), gives StarPU's own memory for it
 * back (starpu_task_clean(): that was allocated on this thread too), and uses the block again. */
#ifndef WEFT_SRC_TASK_MEMORY_H
#define WEFT_SRC_TASK_MEMORY_H

#include <stdalign.h>

#include <starpu.h>

#include "runtime/codelets.h"

typedef struct weft_task_block {
    struct starpu_task starpu;
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

/* A block with room for so many bytes, its task initialised: neither detached nor destroyed by StarPU, and
 * with a callback that notes its end. NULL: no memory. */
weft_task_block *weft_task_obtain(weft_task_memory *memory, size_t bytes);
/* Gives back a block whose task StarPU has not taken. */
void weft_task_give_back(weft_task_memory *memory, weft_task_block *block);

/* Gives back what has ended. */
void weft_task_memory_collect(weft_task_memory *memory);

#endif
