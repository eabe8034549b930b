/* Constants. */
#ifndef WEFT_CODELETS_CONSTANT_H
#define WEFT_CODELETS_CONSTANT_H

#include "codelets/args.h"

/* Sets `count` elements of base.dtype in operand 0 (W) to `value`, which the type can represent (WEFT_U8:
 * or its negative, which wraps around; WEFT_BOOL: value != 0). */
typedef struct weft_constant_args {
    weft_task_args base;
    int64_t count;
    double value;
} weft_constant_args;
void weft_cpu_constant(const weft_task_run *run);
uint32_t weft_constant_footprint(const weft_task_run *run);

#endif
