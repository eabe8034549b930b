/* Checks a task list without running it, from its tasks' accesses (codelets/access.h) and the tensors'
 * layouts.
 *
 *  - No access leaves its slot; each access is declared by the operand.
 *  - No output or temporary is read before it is written; after an operand with WEFT_SLOT_WRITE its slot contains
 *    nothing but the values written by the task.
 *  - Each element of an output is written by one task. A sum may be continued by later tasks, which read inputs
 *    after those of the earlier tasks: addends are in the order of rows and columns; ranks' addends in the order
 *    of their numbers; all elements of a shard get equally many addends.
 *  - The tags of messages with one process, in each direction, are 0, 1, 2, ..., each once.
 *  - A value in a temporary is read before the next write, and before the list ends.
 *  - An input marked so is read whole or not at all in each shard. */
#ifndef WEFT_SRC_TASKS_CHECK_H
#define WEFT_SRC_TASKS_CHECK_H

#include "codelets/access.h"
#include "layout/layout.h"
#include "tasks/tasks.h"

typedef enum weft_task_share {
    WEFT_TASKS_NONE,
    WEFT_TASKS_SOME,
    WEFT_TASKS_ALL /* or no element, of each shard */
} weft_task_share;

/* Facts about a tensor of the call. */
typedef struct weft_task_tensor {
    const weft_layout *layout;
    bool given; /* has values before the list runs */
    weft_task_share read, written;
    /* For each hosted shard: exactly the elements with these indices are written. NULL: see `written`. */
    const weft_box *boxes;
} weft_task_tensor;

/* The call of a list. */
typedef struct weft_task_call {
    int num_tensors;
    const weft_task_tensor *tensors;
    int first_rank, num_shards; /* hosted; shard 0 is that of the first rank */
    /* For a list that reduces ranks' addends: the number of a rank's addend, which is the order of
     * addends. NULL: ranks' addends are not told apart. */
    int64_t (*addend)(const void *context, int rank);
    int64_t num_addends; /* of each element then */
    const void *context;
} weft_task_call;

/* WEFT_OK; WEFT_ERR_NOMEM; or WEFT_ERR_STATE with the reason. */
weft_status weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                 size_t why_size);

#endif
