/* A StarPU codelet and a performance model for each row of the table of kernels, under the kernel's name. */
#ifndef WEFT_SRC_CODELETS_H
#define WEFT_SRC_CODELETS_H

#include <starpu.h>

#include <weft/operation.h>

#include "codelets/args.h"
#include "codelets/cuda/kernels.h"
#include "runtime/runtime.h"

typedef struct weft_codelet {
    struct starpu_codelet starpu; /* must be the first member: footprint functions cast from it */
    struct starpu_perfmodel model;
    const weft_kernel_info *info;
    weft_cpu_kernel cpu;
    bool asks;       /* its model may know how long a task takes on devices and CPUs (cuda.c) */
    weft_cuda_run cuda; /* NULL: it runs on CPUs only */
    bool (*on_devices)(const weft_task_run *run); /* whether a device can run this task; NULL: all of them */
    char symbol[64]; /* of the model: "weft_" and the kernel's name */
} weft_codelet;

/* The program's kernels, in blocks of 16, 32, 64, ... that do not move: workers look up kernels while the program registers others. */
typedef struct weft_own_codelets {
    size_t count;
    weft_codelet **blocks[28];
} weft_own_codelets;

/* The block of a kernel of the program's, and its place there. */
typedef struct weft_own_place {
    size_t block, size, place;
} weft_own_place;

static inline weft_own_place weft_own_place_of(size_t number)
{
    weft_own_place p = { 0, 16, number };
    for (; p.place >= p.size; p.block++, p.size *= 2) {
        p.place -= p.size;
    }
    return p;
}

/* Position of an operand: the task's buffer, and bytes from its start. Two operands may be parts of one
 * buffer, so operands and StarPU's buffers are numbered differently. */
typedef struct weft_run_place {
    int64_t offset;
    int32_t buffer;
} weft_run_place;

/* A task's cl_arg. Every buffer is a StarPU variable (pointer and bytes). */
typedef struct weft_submitted_run {
    weft_task_run run;                  /* must be the first member: the part that kernels see */
    const weft_operation *operation;    /* for messages; NULL: none */
    weft_run_place places[];
} weft_submitted_run;

/* WEFT_OK, or WEFT_ERR_NOMEM, kept. */
weft_status weft_codelets_start(const char *function);
/* To be called after the last task, and after starpu_shutdown() if weft started StarPU, which writes its
 * models then. */
void weft_codelets_stop(void);

/* A kernel of the program's, the same for devices (NULL: it has none), and whether it draws random numbers;
 * WEFT_KERNEL_NONE: no memory. Lives until weft_codelets_stop(). */
weft_kernel_id weft_codelet_register(const char *name, weft_kernel views, weft_cuda_kernel cuda, bool draws);

/* A kernel of the library's outside the table, with a structure of arguments of its own. */
typedef struct weft_own_kernel {
    const char *name;
    void (*run)(const weft_task_run *run);
    weft_kernel_footprint footprint;
    weft_cuda_run cuda;                           /* as in weft_codelet */
    bool (*on_devices)(const weft_task_run *run);
} weft_own_kernel;

weft_kernel_id weft_codelet_register_run(const weft_own_kernel *kernel);

static inline weft_codelet *weft_codelet_of(weft_kernel_id kernel)
{
    const weft_runtime_state *state = &weft_runtime;
    if (kernel < WEFT_KERNEL_COUNT) {
        return &state->codelets[kernel];
    }
    weft_own_place p = weft_own_place_of(kernel - WEFT_KERNEL_COUNT);
    return state->own_codelets->blocks[p.block][p.place];
}

/* Sets the kernel's pointers, from StarPU's interfaces of the task's buffers on the node where it runs. */
static inline void weft_task_run_place(weft_submitted_run *submitted, void *buffers[])
{
    weft_task_run *run = &submitted->run;
    for (int i = 0; i < run->num_operands; i++) {
        const weft_run_place *place = &submitted->places[i];
        run->operands[i] = (char *)STARPU_VARIABLE_GET_PTR(buffers[place->buffer]) + place->offset;
    }
}

/* Keeps the error of a failed run, with the message of its error word (problems.c). */
void weft_task_run_report(const weft_task_run *run, const weft_operation *operation);

/* The CPU function of all codelets: runs a weft_submitted_run. */
void weft_task_run_cpu(void *buffers[], void *run);

#endif
