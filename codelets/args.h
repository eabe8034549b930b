/* codelets: kernels on raw pointers and strides, and their starpu_codelet tables. Knows weft/base.h (types)
 * and StarPU; knows nothing of tensors, layouts or meshes.
 *
 * A task's cl_arg is one of the weft_*_args structures of this folder's headers; each begins with a
 * weft_task_args. A kernel finds its operands through it: two operands may be parts of one buffer, so
 * operands and StarPU buffers are not numbered alike. Every buffer is a StarPU variable: a pointer and a
 * number of bytes. A codelet has nbuffers = STARPU_VARIABLE_NBUFFERS: each task says how many buffers, and
 * each one's mode. */
#ifndef WEFT_CODELETS_ARGS_H
#define WEFT_CODELETS_ARGS_H

#include <starpu.h>

#include <weft/base.h>

/* StarPU is built with --enable-maxbuffers=16 by script/bootstrap; distributions build with 8, so lowering
 * code uses at most this many operands and splits what needs more. */
#define WEFT_MAX_OPERANDS 8

/* What StarPU's tools paint a task's bar with: one colour per family, those of tools/profile/drawing.py. */
enum weft_color {
    WEFT_COLOR_PRODUCT = 0x4878a8,
    WEFT_COLOR_OTHER = 0xa8c4dc,
    WEFT_COLOR_MOVE = 0xe8a33d, /* copies and sums of what ranks exchange: communication, not computation */
    WEFT_COLOR_FILL = 0xb8b8b8
};

typedef struct weft_task_operand {
    int64_t offset; /* bytes from the buffer's start */
    int32_t buffer; /* index into the task's buffers */
} weft_task_operand;

typedef struct weft_task_args {
    weft_dtype dtype; /* of the arithmetic */
    int num_operands;
    weft_task_operand operands[WEFT_MAX_OPERANDS];
} weft_task_args;

static inline void *weft_task_pointer(void *buffers[], const weft_task_args *args, int number)
{
    const weft_task_operand *o = &args->operands[number];
    return (char *)STARPU_VARIABLE_GET_PTR(buffers[o->buffer]) + o->offset;
}

/* Called by a kernel that meets a value it cannot use (an index out of range): the task goes on with a zero
 * in its place, and the program gets a status at its next blocking call. `operation` has static storage;
 * `limit`: valid values are 0 .. limit - 1. May be called from any thread. NULL: nobody wants to know. */
typedef void (*weft_report_value)(const char *operation, int64_t value, int64_t limit);

#endif
