/* codelets: kernels on raw pointers and strides. Includes the public headers weft/base.h (types) and
 * weft/kernel.h; no tensors, layouts or meshes, and no StarPU: src/runtime/codelets.c makes a StarPU
 * codelet from each row of the table of kernels (kernels.h).
 *
 * A kernel takes a weft_task_run: arguments, which are plain data (one of the weft_*_args structures of
 * this folder's headers, each beginning with a weft_task_args; no pointers) and may be shared between
 * tasks; and the data of this run: addresses of operands, the call's scalars. */
#ifndef WEFT_CODELETS_ARGS_H
#define WEFT_CODELETS_ARGS_H

#include <stddef.h>

#include <weft/kernel.h>

#include "codelets/kernels.h"

/* Limit of a task's operands: script/bootstrap builds StarPU with --enable-maxbuffers=16, distributions
 * with 8. Lowerings split tasks that need more. */
#define WEFT_MAX_OPERANDS 8

/* The CPU function of a kernel, and the program's functions. */
typedef struct weft_cpu_kernel {
    void (*run)(const weft_task_run *run);
    weft_kernel views; /* of a kernel on views: called by weft_cpu_views() */
    weft_cuda_kernel cuda_views; /* of a kernel of the program's: called by weft_cuda_views(); NULL: it runs on CPUs only */
    bool draws; /* of a kernel of the program's: it gets the state of random numbers, and the scalars after it (random.h) */
} weft_cpu_kernel;

extern const weft_cpu_kernel weft_cpu_kernels[WEFT_KERNEL_COUNT];

struct weft_task_run {
    weft_kernel_id kernel;
    const weft_cpu_kernel *cpu;
    const void *arguments; /* read-only */
    int num_operands;
    void **operands;      /* addresses, in the order of the kernel's header */
    const char *function; /* the public function, for messages: static storage */
    uint64_t operation;   /* number of the task's call */
    /* Set by a kernel that meets an invalid value or has no memory (problems.h). The kernel continues with
     * zeros instead, and the program gets the status at its next blocking call. */
    weft_kernel_error *error;
    double scalars[WEFT_MAX_SCALARS]; /* of the call */
    void *context; /* of the call, for functions of the program's; in a copy of the task's, or the program's memory */
};

/* First member of all arguments. */
typedef struct weft_task_args {
    weft_dtype dtype; /* of the arithmetic */
} weft_task_args;

#endif
