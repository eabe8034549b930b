/* From task lists to StarPU: binds the slots of a list to the panels of actual tensors, and submits. What
 * depends on memory is decided here and nowhere else: two slots in one StarPU handle become one buffer of the
 * task, and operands of views begin where the view begins. */
#ifndef WEFT_SRC_TENSOR_RUN_H
#define WEFT_SRC_TENSOR_RUN_H

#include "codelets/args.h"
#include "comm/comm.h"
#include "tasks/tasks.h"
#include "tensor/exchange.h"

/* What a list is run with. */
typedef struct weft_bindings {
    const char *name;                 /* the operation, for traces: static storage; NULL: the kernel's */
    const char *function;             /* the public function, for messages: static storage */
    weft_tensor_impl *const *tensors; /* by their numbers in the list */
    const double *scalars;            /* WEFT_MAX_SCALARS of the call; NULL: none */
    const weft_exchange *exchange;    /* of a list with transfers: their tags; else NULL */
} weft_bindings;

/* One operand of a task that is no part of a list. */
typedef struct weft_bound_operand {
    starpu_data_handle_t handle;
    int64_t offset; /* bytes from the handle's start */
    enum starpu_data_access_mode mode;
} weft_bound_operand;

enum { WEFT_FEW_SLOTS = 32 };

/* A list with all that it needs for one run. */
typedef struct weft_bound_list {
    const weft_task_list *list;
    const weft_bindings *bindings;
    weft_panel *slots;                    /* by their numbers */
    weft_buffer **temporaries;            /* by theirs */
    weft_bound_operand *operands;         /* room for those of one task */
    weft_message *messages;               /* and of one transfer */
    struct weft_room *room;               /* where these are, if there are any; else NULL */
    weft_panel few_slots[WEFT_FEW_SLOTS]; /* most lists need no more: nothing is allocated for them */
    weft_bound_operand few_operands[WEFT_FEW_SLOTS];
} weft_bound_list;

/* Obtains the memory of a run. False with the error kept: nothing is left. */
bool weft_task_list_bind(weft_bound_list *bound, const weft_task_list *list, const weft_bindings *bindings);
/* Submits all tasks and transfers of a bound list, and gives back what is not used any more. They keep nothing
 * of the list: it may be freed. False with the error kept. */
bool weft_task_list_submit(weft_bound_list *bound);
/* Both. */
bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings);

/* A transfer of a list whose operand lies in `panel` (exchange_run.c). `room`: for its messages. False with the
 * error kept. */
bool weft_transfer_submit(const weft_bindings *bindings, const weft_task_list *list,
                          const weft_task *transfer, const weft_panel *panel, weft_message room[]);

/* One task, of a list or of none. The arguments are copied. */
typedef struct weft_single_task {
    weft_kernel_id kernel;
    const char *name, *function;
    const void *arguments;
    size_t arguments_size;
    const weft_task_patch *patches; /* words of the arguments that are others */
    uint32_t num_patches;
    const double *scalars; /* NULL: none */
    int num_operands;
    const weft_bound_operand *operands;
    double position;
} weft_single_task;

bool weft_task_submit(const weft_single_task *task);

/* Bytes `offset` after the panel's first row. */
static inline weft_bound_operand weft_bound(const weft_panel *panel, int64_t offset,
                                            enum starpu_data_access_mode mode)
{
    return (weft_bound_operand){ panel->handle, panel->offset + offset, mode };
}

/* A task that copies `bytes` bytes from one panel to another of the same size. False with the error kept. */
bool weft_task_copy_panel(const weft_panel *target, const weft_panel *source, int64_t bytes);

#endif
