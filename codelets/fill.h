/* Constants. */
#ifndef WEFT_CODELETS_FILL_H
#define WEFT_CODELETS_FILL_H

#include "codelets/args.h"

/* Operand 0 (W): `count` elements of base.dtype get `value`, which their type has (WEFT_U8:
 * or its negative, which wraps around; bool: value != 0). */
typedef struct weft_fill_args {
    weft_task_args base;
    int64_t count;
    double value;
} weft_fill_args;
extern const weft_kernel_entry weft_entry_fill;

#endif
