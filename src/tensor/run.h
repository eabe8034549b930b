/* Binds the slots of a task list to the panels of actual tensors, and submits the list to StarPU. All
 * decisions that depend on memory are made here: two slots in one StarPU handle become one buffer of the
 * task, and operands of views begin where the view begins. */
#ifndef WEFT_SRC_TENSOR_RUN_H
#define WEFT_SRC_TENSOR_RUN_H

#include <weft/operation.h>

#include "comm/comm.h"
#include "tasks/tasks.h"
#include "tensor/exchange.h"
#include "tensor/submit.h"

/* Arguments of a run. */
typedef struct weft_bindings {
    const char *name;                 /* the operation, for traces: static storage; NULL: the kernel's name */
    const char *function;             /* the public function, for messages: static storage */
    weft_tensor_impl *const *tensors; /* by tensor number in the list */
    const double *scalars;            /* WEFT_MAX_SCALARS of the call; NULL: none */
    void *context;                    /* as in weft_single_task, of all tasks */
    weft_shared_bytes *shared;
    const weft_operation *operation;  /* for messages; alive until weft_finalize(). NULL: none */
    bool on_host;                     /* weft_single_task.on_host, of all tasks */
    const weft_exchange *exchange;    /* of a list with transfers: their first tags; else NULL */
} weft_bindings;

enum { WEFT_FEW_SLOTS = 32 };

/* A list with all memory of one run. */
typedef struct weft_bound_list {
    const weft_task_list *list;
    const weft_bindings *bindings;
    weft_panel *slots;                     /* by slot number */
    weft_buffer **temporaries;             /* by tensor number */
    weft_bound_operand *operands;          /* room for those of one task */
    weft_task_block *blocks;               /* of tasks to be submitted, in their order */
    struct weft_comm_transfer **transfers; /* as prepared, in the order of the list */
    size_t prepared_transfers, submitted_transfers;
    uint32_t *table;                      /* of the task being submitted: weft_task_table_size() */
    struct weft_room *room;               /* where these lie; NULL: none */
    weft_panel few_slots[WEFT_FEW_SLOTS]; /* enough for most lists, without an allocation */
    weft_bound_operand few_operands[WEFT_FEW_SLOTS];
} weft_bound_list;

/* Obtains all memory of a run: afterwards nothing can fail until the last submission. False with the error
 * kept: nothing is left. */
bool weft_task_list_bind(weft_bound_list *bound, const weft_task_list *list, const weft_bindings *bindings);
/* Submits all tasks and transfers of a bound list, and returns unused memory. They keep no reference to
 * the list, which may then be freed. False with the error kept: StarPU has no worker for a task. */
bool weft_task_list_submit(weft_bound_list *bound);
/* weft_task_list_bind() and weft_task_list_submit(). */
bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings);

/* Submits a transfer of a bound list (exchange_run.c). */
void weft_transfer_submit(const weft_bound_list *bound, const weft_task *transfer,
                          struct weft_comm_transfer *prepared);

#endif
