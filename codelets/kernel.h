/* Tasks that run a weft_kernel: operands are parts of tensors, of any number of panels. */
#ifndef WEFT_CODELETS_KERNEL_H
#define WEFT_CODELETS_KERNEL_H

#include <weft/kernel.h>

#include "codelets/args.h"

enum { WEFT_KERNEL_MAX_PANELS = 1 << 16 }; /* of all operands of a task */

/* One operand: a view whose panels are operands first_panel, first_panel + 1, ... of the task. */
typedef struct weft_kernel_operand {
    weft_view view; /* panels: NULL until the task runs */
    int first_panel, num_panels;
} weft_kernel_operand;

/* The panels of all operands, the output's first, are the task's operands in `panels`, and not in
 * base.operands. */
typedef struct weft_kernel_args {
    weft_task_args base;
    weft_kernel kernel;
    const char *function; /* static storage */
    void (*fail)(weft_status status, const char *function, const char *format, ...);
    bool first, last;
    int64_t numbers[WEFT_MAX_NUMBERS];
    double scalars[WEFT_MAX_SCALARS];
    int num_inputs;
    weft_kernel_operand output, inputs[WEFT_MAX_KERNEL_INPUTS];
    int num_panels;
    weft_task_operand panels[]; /* num_panels, and room for as many pointers */
} weft_kernel_args;

/* Bytes of arguments with so many panels. */
static inline size_t weft_kernel_args_size(int num_panels)
{
    return sizeof(weft_kernel_args) + (size_t)num_panels * (sizeof(weft_task_operand) + sizeof(void *));
}

extern struct starpu_codelet weft_codelet_kernel;

#endif
