/* Constants. */
#ifndef WEFT_CODELETS_CONSTANT_H
#define WEFT_CODELETS_CONSTANT_H

#include "codelets/args.h"

/* Operand 0 (W): `count` elements of base.dtype get `value`, which their type has (WEFT_U8:
 * or its negative, which wraps around; bool: value != 0). */
typedef struct weft_constant_args {
    weft_task_args base;
    int64_t count;
    double value;
} weft_constant_args;
void weft_cpu_constant(const weft_task_run *run);
uint32_t weft_constant_footprint(const weft_task_run *run);

#endif
