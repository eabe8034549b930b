/* Tasks that run a weft_kernel: operands are parts of tensors, of any number of panels. */
#ifndef WEFT_CODELETS_KERNEL_H
#define WEFT_CODELETS_KERNEL_H

#include <weft/kernel.h>

#include "codelets/args.h"

enum { WEFT_KERNEL_MAX_PANELS = 1 << 16 }; /* of all operands of a task */

/* One operand: a view whose panels are operands first_panel, first_panel + 1, ... of the task. */
typedef struct weft_kernel_operand {
    weft_view view; /* panels: NULL, filled in where the task runs */
    int first_panel, num_panels;
} weft_kernel_operand;

/* The panels of all operands, the outputs' first, are the task's operands. */
typedef struct weft_kernel_args {
    weft_task_args base;
    bool first, last;
    int64_t numbers[WEFT_MAX_NUMBERS];
    int num_outputs, num_inputs;
    weft_kernel_operand operands[]; /* the outputs, then the inputs */
} weft_kernel_args;

/* Bytes of arguments with so many operands. */
static inline size_t weft_kernel_args_size(int num_operands)
{
    return sizeof(weft_kernel_args) + (size_t)num_operands * sizeof(weft_kernel_operand);
}

/* The CPU function of all kernels on views. */
void weft_cpu_views(const weft_task_run *run);
uint32_t weft_views_footprint(const weft_task_run *run);

#endif
