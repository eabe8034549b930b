/* The table of kernels. PURE: needs no StarPU and none of the functions that run, so that task lists can name
 * kernels, and be printed and checked, in the library of the pure floors.
 *
 * A kernel is a row of kernels.inc or of elementwise.inc. It has a number, by which operations and task lists
 * name it; what is known about it without running it (weft_kernel_infos); and a function for each kind of
 * device (weft_cpu_kernels in args.h). From its row src/runtime/codelets.c makes a StarPU codelet and a
 * performance model of its own. A kernel of the program's own (weft_operation_register()) gets a number from
 * WEFT_KERNEL_COUNT on. */
#ifndef WEFT_CODELETS_KERNELS_H
#define WEFT_CODELETS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "codelets/access.h"

typedef struct weft_task_run weft_task_run;

typedef uint32_t weft_kernel_id;

/* WEFT_KERNEL_softmax and so on. Elementwise kernels come last, without a gap. */
enum {
    WEFT_KERNEL_NONE,
#define WEFT_TASK_KERNEL(name, color, cuda) WEFT_KERNEL_##name,
#define WEFT_VIEW_KERNEL(name, color, cuda) WEFT_KERNEL_##name,
#include "codelets/kernels.inc"
    WEFT_KERNEL_ELEMENTWISE, /* the first of them */
    WEFT_KERNEL_BEFORE_ELEMENTWISE = WEFT_KERNEL_ELEMENTWISE - 1,
#define WEFT_FLOATING(name, inputs, expression) WEFT_KERNEL_##name,
#define WEFT_NUMBER(name, inputs, expression, integer) WEFT_KERNEL_##name,
#define WEFT_TRUTH(name, inputs, expression) WEFT_KERNEL_##name,
#include "codelets/elementwise.inc"
    WEFT_KERNEL_COUNT
};
#include "codelets/kernels_end.inc"

/* What StarPU's tools paint a task's bar with: one colour per family, those of tools/profile/drawing.py. */
enum weft_color {
    WEFT_COLOR_PRODUCT = 0x4878a8,
    WEFT_COLOR_OTHER = 0xa8c4dc,
    WEFT_COLOR_MOVE = 0xe8a33d, /* copies and sums of what ranks exchange: communication, not computation */
    WEFT_COLOR_FILL = 0xb8b8b8
};

/* Which arguments a kernel takes. */
typedef enum weft_kernel_form {
    WEFT_FORM_TASK,       /* a structure of its own, in the header of its family */
    WEFT_FORM_VIEWS,      /* weft_kernel_args (kernel.h): it is a function of weft/kernel.h */
    WEFT_FORM_ELEMENTWISE /* weft_elementwise_args (elementwise.h) */
} weft_kernel_form;

/* A hash of everything in a task's arguments that its time depends on: sizes, strides and types, not which
 * part of a tensor it is. Tasks with the same one are one entry of the kernel's performance model. */
typedef uint32_t (*weft_kernel_footprint)(const weft_task_run *run);

typedef struct weft_kernel_info {
    const char *name; /* of the codelet; the performance model's is "weft_" and this */
    uint32_t color;
    weft_kernel_form form;
    weft_kernel_footprint footprint;
    weft_kernel_accesses accesses;
    /* for elementwise kernels: */
    int num_inputs;
    bool truth;    /* gives truth values */
    bool integers; /* computes in i64 too; else integers are computed as WEFT_F32 */
} weft_kernel_info;

extern const weft_kernel_info weft_kernel_infos[WEFT_KERNEL_COUNT];

/* Any kernel's row; all of the program's own kernels share one. */
const weft_kernel_info *weft_kernel_info_of(weft_kernel_id kernel);

static inline bool weft_kernel_is_elementwise(weft_kernel_id kernel)
{
    return kernel >= WEFT_KERNEL_ELEMENTWISE && kernel < WEFT_KERNEL_COUNT;
}

#endif
