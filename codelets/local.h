/* Tasks that run a function of the program on a rank's shards (weft/local_map.h). */
#ifndef WEFT_CODELETS_LOCAL_H
#define WEFT_CODELETS_LOCAL_H

#include <weft/local_map.h>

#include "codelets/args.h"

enum { WEFT_LOCAL_MAX_PANELS = 1 << 16 }; /* of all operands of a task */

/* The task's rows of one tensor: their panels, cut by weft_cut, are the task's operands first_panel, first_panel + 1, ...
 * Inputs that are changed in place have none: their memory is the output's. */
typedef struct weft_local_operand {
    weft_local_tensor tensor; /* data: NULL until the task runs */
    int64_t total_bytes, first_bytes, step_bytes;
    int first_panel, num_panels;
} weft_local_operand;

/* First byte of a panel in the shard, and one past its last. */
static inline int64_t weft_local_panel_begin(const weft_local_operand *operand, int panel)
{
    return panel == 0 ? 0 : operand->first_bytes + (panel - 1) * operand->step_bytes;
}

static inline int64_t weft_local_panel_end(const weft_local_operand *operand, int panel)
{
    int64_t end = operand->first_bytes + panel * operand->step_bytes;
    return end < operand->total_bytes ? end : operand->total_bytes;
}

/* Followed by the operands, inputs first, and the name. */
typedef struct weft_local_args {
    weft_task_args base;
    weft_local_function function;
    weft_random_state random;
    int rank;
    int num_inputs, num_outputs;
    int num_changed; /* outputs, the first ones, that are the inputs of the same numbers */
    weft_local_operand operands[];
} weft_local_args;

/* Offset of the name from the start of the arguments. */
static inline size_t weft_local_name_offset(int num_operands)
{
    return sizeof(weft_local_args) + (size_t)num_operands * sizeof(weft_local_operand);
}

void weft_cpu_local_map(const weft_task_run *run);
uint32_t weft_local_map_footprint(const weft_task_run *run);

#endif
