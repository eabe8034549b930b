/* A StarPU codelet and a performance model for each kernel: its row in the table of kernels, as StarPU, its
 * tools and its policies know it. */
#ifndef WEFT_SRC_CODELETS_H
#define WEFT_SRC_CODELETS_H

#include <starpu.h>

#include <weft/operation.h>

#include "codelets/args.h"
#include "runtime/runtime.h"

typedef struct weft_codelet {
    struct starpu_codelet starpu; /* the first member: footprints find the rest from it */
    struct starpu_perfmodel model;
    const weft_kernel_info *info;
    weft_cpu_kernel cpu;
    char symbol[64]; /* the model's: "weft_" and the kernel's name */
} weft_codelet;

/* Where an operand of a task is: in which of its buffers, and how many bytes from its start. Two operands may
 * be parts of one buffer, so operands and StarPU's buffers are not numbered alike. */
typedef struct weft_run_place {
    int64_t offset;
    int32_t buffer;
} weft_run_place;

/* A task's cl_arg. Every buffer is a StarPU variable: a pointer and a number of bytes. */
typedef struct weft_submitted_run {
    weft_task_run run;                  /* the first member: what kernels see */
    const weft_operation *operation;    /* for messages; NULL: none */
    weft_run_place places[];
} weft_submitted_run;

/* WEFT_ERR_NOMEM, kept. */
weft_status weft_codelets_start(const char *function);
/* After the last task, and after StarPU where weft has started it: StarPU writes its models when it ends. */
void weft_codelets_stop(void);

/* A kernel of the program's own; WEFT_KERNEL_NONE: no memory. Lives until weft_codelets_stop(). */
weft_kernel_id weft_codelet_register(const char *name, weft_kernel views);

static inline weft_codelet *weft_codelet_of(weft_kernel_id kernel)
{
    const weft_runtime_state *state = &weft_runtime;
    return kernel < WEFT_KERNEL_COUNT
               ? &state->codelets[kernel]
               : ((weft_codelet *const *)state->own_codelets.items)[kernel - WEFT_KERNEL_COUNT];
}

/* Keeps the error of a run, which has one, with the message that its error word stands for (problems.c). */
void weft_task_run_report(const weft_task_run *run, const weft_operation *operation);

/* Runs a weft_submitted_run on a CPU: what StarPU calls. */
void weft_task_run_cpu(void *buffers[], void *run);

#endif
