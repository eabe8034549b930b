/* Single tasks: their memory, and their submission to StarPU. */
#ifndef WEFT_SRC_TENSOR_SUBMIT_H
#define WEFT_SRC_TENSOR_SUBMIT_H

#include "codelets/args.h"
#include "runtime/task_memory.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

/* One operand of a task. */
typedef struct weft_bound_operand {
    starpu_data_handle_t handle;
    int64_t offset; /* byte offset from the handle's start */
    enum starpu_data_access_mode mode;
} weft_bound_operand;

/* One task, of a list or on its own. The arguments are copied. */
typedef struct weft_single_task {
    weft_kernel_id kernel;
    const char *name, *function;
    size_t name_offset; /* offset of the name in the arguments, for the kernel's messages; 0: `function` */
    const weft_operation *operation; /* as in weft_bindings */
    const void *arguments;
    size_t arguments_size;
    const weft_task_patch *patches; /* words of the arguments that are replaced */
    uint32_t num_patches;
    const double *scalars; /* NULL: none */
    void *context; /* weft_task_run.context; if `shared` is not NULL it is that, to which the task gets a reference */
    weft_shared_bytes *shared;
    int num_operands;
    const weft_bound_operand *operands;
    double position;
    bool on_host; /* memory of the program's, which no device may keep a newer copy of: on a CPU worker */
} weft_single_task;

/* Memory for single tasks outside lists. False with the error kept. */
bool weft_task_submit(const weft_single_task *task);

/* The memory of a task with so many operands and bytes of arguments, obtained before the first submission.
 * If not submitted it is returned by weft_task_give_back(). NULL: no memory. */
weft_task_block *weft_task_prepare(int num_operands, size_t arguments_size);
/* Size of the handle table of a task with many operands; 0 for few. */
size_t weft_task_table_size(size_t num_operands);
/* Takes over the block, which has room for at least as many operands. `table`: room for the handle table.
 * False with the error kept: StarPU has no worker for the task. */
bool weft_task_submit_prepared(const weft_single_task *task, weft_task_block *block, uint32_t *table);

/* Tasks are ordered as if so many more operations had been called before (modulo 2^64). Returns what was said before. */
uint64_t weft_task_set_delay(uint64_t delay);

/* `offset` in bytes from the panel's first row. */
static inline weft_bound_operand weft_bound(const weft_panel *panel, int64_t offset,
                                            enum starpu_data_access_mode mode)
{
    return (weft_bound_operand){ panel->handle, panel->offset + offset, mode };
}

/* A task that copies `bytes` bytes, from an offset in one panel to an offset in another, whose other bytes stay: False
 * with the error kept. */
bool weft_task_copy_piece(const weft_panel *target, int64_t target_offset, const weft_panel *source,
                          int64_t source_offset, int64_t bytes);
/* A task that copies `bytes` bytes from one panel to another of the same size. False with the error kept. */
bool weft_task_copy_panel(const weft_panel *target, const weft_panel *source, int64_t bytes);

#endif
