/* The table of kernels. PURE: needs neither StarPU nor the kernels' functions, so that the pure library
 * can name kernels in task lists, and print and check these.
 *
 * A kernel is a row of kernels.inc or of elementwise.inc. It has an id, used by operations and task lists;
 * static facts (weft_kernel_infos); and a function for each kind of device (weft_cpu_kernels in args.h).
 * src/runtime/codelets.c makes a StarPU codelet and a performance model of its own from each row. Kernels
 * of the program (weft_operation_register()) have ids from WEFT_KERNEL_COUNT on. */
#ifndef WEFT_CODELETS_KERNELS_H
#define WEFT_CODELETS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "codelets/access.h"

typedef struct weft_task_run weft_task_run;

typedef uint32_t weft_kernel_id;

/* WEFT_KERNEL_softmax and so on. Elementwise kernels are the last ones, contiguous. */
enum {
    WEFT_KERNEL_NONE,
#define WEFT_TASK_KERNEL(name, color, cuda) WEFT_KERNEL_##name,
#define WEFT_VIEW_KERNEL(name, color, cuda) WEFT_KERNEL_##name,
#include "codelets/kernels.inc"
    WEFT_KERNEL_ELEMENTWISE, /* the first elementwise kernel */
    WEFT_KERNEL_BEFORE_ELEMENTWISE = WEFT_KERNEL_ELEMENTWISE - 1,
#define WEFT_FLOATING(name, inputs, expression) WEFT_KERNEL_##name,
#define WEFT_NUMBER(name, inputs, expression, integer) WEFT_KERNEL_##name,
#define WEFT_TRUTH(name, inputs, expression) WEFT_KERNEL_##name,
#define WEFT_WHOLE(name, inputs, expression) WEFT_KERNEL_##name,
#include "codelets/elementwise.inc"
    WEFT_KERNEL_COUNT
};
#include "codelets/kernels_end.inc"

/* Integers that a call passes to its kernel; those of the program's operations have WEFT_MAX_NUMBERS. */
enum { WEFT_KERNEL_NUMBERS = 16 };

/* Colours of tasks in StarPU's tools: one per family, as in tools/profile/drawing.py. */
enum weft_color {
    WEFT_COLOR_PRODUCT = 0x4878a8,
    WEFT_COLOR_OTHER = 0xa8c4dc,
    WEFT_COLOR_MOVE = 0xe8a33d, /* copies and reductions of redistributions: communication, not computation */
    WEFT_COLOR_FILL = 0xb8b8b8
};

/* Structure of a kernel's arguments. */
typedef enum weft_kernel_form {
    WEFT_FORM_TASK,       /* its own, in the header of its family */
    WEFT_FORM_VIEWS,      /* weft_kernel_args (kernel.h), for a function of weft/kernel.h */
    WEFT_FORM_ELEMENTWISE /* weft_elementwise_args (elementwise.h) */
} weft_kernel_form;

/* A hash of everything in a task's arguments that its time depends on: sizes, strides and types, not the
 * position in the tensor. Tasks with equal footprints share an entry of the kernel's performance model. */
typedef uint32_t (*weft_kernel_footprint)(const weft_task_run *run);

typedef struct weft_kernel_info {
    const char *name; /* of the codelet; the performance model is "weft_" and this */
    uint32_t color;
    weft_kernel_form form;
    bool on_devices; /* has a CUDA function, in builds with CUDA */
    weft_kernel_footprint footprint;
    weft_kernel_accesses accesses;
    /* for elementwise kernels: */
    int num_inputs;
    bool truth;    /* WEFT_BOOL result */
    bool integers; /* has an i64 version; else integers are computed as WEFT_F32 */
    bool floats;   /* has versions for floating types */
} weft_kernel_info;

extern const weft_kernel_info weft_kernel_infos[WEFT_KERNEL_COUNT];

/* Any kernel's row; all of the program's own kernels share one. */
const weft_kernel_info *weft_kernel_info_of(weft_kernel_id kernel);

static inline bool weft_kernel_is_elementwise(weft_kernel_id kernel)
{
    return kernel >= WEFT_KERNEL_ELEMENTWISE && kernel < WEFT_KERNEL_COUNT;
}

#endif
