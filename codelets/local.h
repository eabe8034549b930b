/* Tasks that run a function of the program's own on what a rank holds (weft/local_map.h). */
#ifndef WEFT_CODELETS_LOCAL_H
#define WEFT_CODELETS_LOCAL_H

#include <weft/local_map.h>

#include "codelets/args.h"

enum { WEFT_LOCAL_MAX_PANELS = 1 << 16 }; /* of all operands of a task */

/* One tensor: its panels, cut as weft_cut says, are the task's operands first_panel, first_panel + 1, ... */
typedef struct weft_local_operand {
    weft_local_tensor tensor; /* data: NULL until the task runs */
    int64_t total_bytes, first_bytes, step_bytes;
    int first_panel, num_panels;
} weft_local_operand;

/* Behind the operands, inputs first, come the bytes of the context and the name. */
typedef struct weft_local_args {
    weft_task_args base;
    weft_local_function function;
    void *context;       /* of the program, where context_size is 0 */
    size_t context_size;
    int rank;
    int num_inputs, num_outputs;
    weft_local_operand operands[];
} weft_local_args;

/* Where the context's copy begins, from the start of the arguments; it is aligned for any type. */
static inline size_t weft_local_context_offset(int num_operands)
{
    enum { ALIGNMENT = 16 };
    size_t bytes = sizeof(weft_local_args) + (size_t)num_operands * sizeof(weft_local_operand);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

extern const weft_kernel_entry weft_entry_local;

#endif
