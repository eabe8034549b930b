/* codelets: kernels on raw pointers and strides, and their starpu_codelet tables. Knows weft/base.h (types)
 * and StarPU; knows nothing of tensors, layouts or meshes.
 *
 * A kernel is a weft_kernel_entry: a name, the function for CPUs, and the codelet by which StarPU's tools and
 * performance models know it. A task's cl_arg is a weft_task_run: the arguments, which are plain data (one of
 * the weft_*_args structures of this folder's headers, each beginning with a weft_task_args) and may be shared
 * with other tasks, and what is this run's own: where its operands are, the call's scalars. Two operands may
 * be parts of one buffer, so operands and StarPU's buffers are not numbered alike. Every buffer is a StarPU
 * variable: a pointer and a number of bytes. A codelet has nbuffers = STARPU_VARIABLE_NBUFFERS: each task says
 * how many buffers, and each one's mode. */
#ifndef WEFT_CODELETS_ARGS_H
#define WEFT_CODELETS_ARGS_H

#include <starpu.h>

#include <weft/kernel.h>

#include "codelets/accesses.h"
#include "codelets/entry.h"

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

typedef struct weft_run_operand {
    int64_t offset; /* bytes from the buffer's start */
    int32_t buffer; /* index into the task's buffers */
} weft_run_operand;

struct weft_task_run {
    const weft_kernel_entry *kernel;
    const void *arguments; /* not to be written to */
    const char *function;  /* the public function, for messages: static storage */
    uint64_t operation;    /* number of the call that the task belongs to */
    /* For a kernel that meets a value it cannot use, or that has no memory: the task goes on with zeros in its
     * place, and the program gets the status at its next blocking call. Any thread. */
    weft_fail_function fail;
    double scalars[WEFT_MAX_SCALARS]; /* the call's */
    int num_operands;
    void **pointers; /* room for as many, of the kernel that runs */
    weft_run_operand operands[];
};

/* The head of all arguments. */
typedef struct weft_task_args {
    weft_dtype dtype; /* of the arithmetic */
} weft_task_args;

static inline void *weft_task_pointer(void *buffers[], const weft_task_run *run, int number)
{
    const weft_run_operand *o = &run->operands[number];
    return (char *)STARPU_VARIABLE_GET_PTR(buffers[o->buffer]) + o->offset;
}

/* The CPU function of every codelet: cl_arg is a weft_task_run. */
void weft_run_task(void *buffers[], void *run);

/* A codelet for a kernel, and the entry that leads to it. */
#define WEFT_KERNEL_ENTRY(variable, name_, color_, cpu_, accesses_)                                          \
    static struct starpu_codelet variable##_codelet = {                                                      \
        .cpu_funcs = { weft_run_task },                                                                      \
        .cpu_funcs_name = { "weft_run_task" },                                                               \
        .nbuffers = STARPU_VARIABLE_NBUFFERS,                                                                \
        .name = name_,                                                                                       \
        .color = color_,                                                                                     \
    };                                                                                                       \
    const weft_kernel_entry variable = { name_, &variable##_codelet, cpu_, accesses_ };

#endif
