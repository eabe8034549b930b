/* From task lists to StarPU: binds the slots of a list to the panels of actual tensors, and submits. What
 * depends on memory is decided here and nowhere else: two slots in one StarPU handle become one buffer of the
 * task, and operands of views begin where the view begins. */
#ifndef WEFT_SRC_TENSOR_RUN_H
#define WEFT_SRC_TENSOR_RUN_H

#include "codelets/args.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

/* What a list is run with. */
typedef struct weft_bindings {
    const char *name;                 /* the operation, for traces: static storage */
    const char *function;             /* the public function, for messages: static storage */
    weft_tensor_impl *const *tensors; /* by their numbers in the list */
    const double *scalars;            /* WEFT_MAX_SCALARS of the call; NULL: none */
} weft_bindings;

/* Submits all tasks of a list. They keep nothing of it: it may be freed. False with the error kept. */
bool weft_task_list_run(const weft_task_list *list, const weft_bindings *bindings);

/* One operand of a task that is no part of a list. */
typedef struct weft_bound_operand {
    starpu_data_handle_t handle;
    int64_t offset; /* bytes from the handle's start */
    enum starpu_data_access_mode mode;
} weft_bound_operand;

/* A task that is no part of a list. The arguments are copied. */
typedef struct weft_single_task {
    weft_kernel_id kernel;
    const char *name, *function;
    const void *arguments;
    size_t arguments_size;
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
