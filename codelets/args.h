/* codelets: kernels on raw pointers and strides. Knows the public headers weft/base.h (types) and
 * weft/kernel.h; knows nothing of tensors, layouts or meshes, and nothing of StarPU: src/runtime/codelets.c
 * makes a StarPU codelet from each row of the table of kernels (kernels.h).
 *
 * A kernel runs on a weft_task_run: its arguments, which are plain data (one of the weft_*_args structures of
 * this folder's headers, each beginning with a weft_task_args; no pointers) and may be shared with other
 * tasks; and what is this run's own: where its operands are, the call's scalars. */
#ifndef WEFT_CODELETS_ARGS_H
#define WEFT_CODELETS_ARGS_H

#include <stddef.h>

#include <weft/kernel.h>

#include "codelets/kernels.h"

/* StarPU is built with --enable-maxbuffers=16 by script/bootstrap; distributions build with 8, so lowering
 * code uses at most this many operands and splits what needs more. */
#define WEFT_MAX_OPERANDS 8

/* How a kernel runs on a CPU. */
typedef struct weft_cpu_kernel {
    void (*run)(const weft_task_run *run);
    weft_kernel views; /* of a kernel on views: what weft_cpu_views() calls */
} weft_cpu_kernel;

extern const weft_cpu_kernel weft_cpu_kernels[WEFT_KERNEL_COUNT];

struct weft_task_run {
    weft_kernel_id kernel;
    const weft_cpu_kernel *cpu;
    const void *arguments; /* not to be written to */
    int num_operands;
    void **operands;      /* where each begins, in the order that the kernel's header gives */
    const char *function; /* the public function, for messages: static storage */
    uint64_t operation;   /* number of the call that the task belongs to */
    /* Where a kernel says that it met a value which it cannot use, or had no memory (problems.h): it
     * continues with zeros in its place, and the program gets the status at its next blocking call. */
    weft_kernel_error *error;
    double scalars[WEFT_MAX_SCALARS]; /* the call's */
};

/* The head of all arguments. */
typedef struct weft_task_args {
    weft_dtype dtype; /* of the arithmetic */
} weft_task_args;

#endif
