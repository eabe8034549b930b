/* A kernel's identity: in task lists, and for StarPU's tools and performance models. Needs no StarPU. */
#ifndef WEFT_CODELETS_ENTRY_H
#define WEFT_CODELETS_ENTRY_H

#include "codelets/access.h"

struct starpu_codelet;
typedef struct weft_task_run weft_task_run;

typedef struct weft_kernel_entry {
    const char *name;
    struct starpu_codelet *codelet; /* runs weft_run_task() */
    void (*cpu)(void *buffers[], const weft_task_run *run);
    weft_kernel_accesses accesses;
} weft_kernel_entry;

#endif
