/* Rehearsals: tasks and transfers are passed to a recorder instead of being submitted, with all memory bound, as they would be
 * for the ranks that weft_runtime says are hosted here. */
#ifndef WEFT_SRC_TENSOR_REHEARSAL_H
#define WEFT_SRC_TENSOR_REHEARSAL_H

#include "comm/transport.h"
#include "tensor/submit.h"

typedef struct weft_rehearsal {
    /* A task as it would be submitted: its handles and modes are those of `starpu`. */
    void (*task)(struct weft_rehearsal *self, const weft_single_task *task, const weft_submitted_run *run,
                 struct starpu_task *starpu);
    void (*transfer)(struct weft_rehearsal *self, starpu_data_handle_t handle, bool receive, int count,
                     const weft_message messages[], const char *label);
} weft_rehearsal;

#endif
