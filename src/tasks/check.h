/* Whether a task list can be right, found without running it: from its tasks' accesses (codelets/access.h)
 * and the layouts of the tensors that it is for.
 *
 *  - No access leaves its slot; each is one that the operand declares.
 *  - Nothing is read that has no value yet, of outputs and of temporaries; where an operand declares
 *    WEFT_SLOT_WRITE, its slot has no values afterwards but those that the task writes.
 *  - Each element of an output is written by one task. Sums may go on in later tasks: these read what lies
 *    behind what the tasks before have read, so the order of addends is that of the rows and columns; ranks'
 *    addends come in the order of their numbers; and all elements of a shard get as many addends.
 *  - The tags of the messages with a process, in each direction, are 0, 1, 2, ..., each once.
 *  - What is written to a temporary is read before it is written again, and before the list ends.
 *  - Of an input, a shard is read as a whole, or not at all, where that is said of it. */
#ifndef WEFT_SRC_TASKS_CHECK_H
#define WEFT_SRC_TASKS_CHECK_H

#include "codelets/access.h"
#include "layout/layout.h"
#include "tasks/tasks.h"

typedef enum weft_task_share {
    WEFT_TASKS_NONE,
    WEFT_TASKS_SOME,
    WEFT_TASKS_ALL /* or nothing, of what is read */
} weft_task_share;

/* What is known of a tensor of the call. */
typedef struct weft_task_tensor {
    const weft_layout *layout;
    bool given; /* it has values before */
    weft_task_share read, written;
    /* By hosted shard: the elements with these indices are written, and no others. NULL: `written` says it. */
    const weft_box *boxes;
} weft_task_tensor;

/* What a list is for. */
typedef struct weft_task_call {
    int num_tensors;
    const weft_task_tensor *tensors;
    int first_rank, num_shards; /* hosted; shard 0 is that of the first rank */
    /* Of a list that reduces what ranks have: the number of a rank's addend, which is the order of addends.
     * NULL: the ranks' addends are not told apart. */
    int64_t (*addend)(const void *context, int rank);
    int64_t num_addends; /* of each element then */
    const void *context;
} weft_task_call;

/* WEFT_OK; WEFT_ERR_NOMEM; or WEFT_ERR_STATE, and why. */
weft_status weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                 size_t why_size);

#endif
