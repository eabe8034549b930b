/* A call of a kernel on views, as plain data: the argument of a launch. */
#ifndef WEFT_CODELETS_CUDA_CALL_H
#define WEFT_CODELETS_CUDA_CALL_H

#include "codelets/args.h"

WEFT_BEGIN_DECLS

enum {
    WEFT_DEVICE_PANELS = 32, /* whose addresses fit into the argument */
    WEFT_DEVICE_MAX_PANELS = 1 << 16,
    WEFT_DEVICE_VIEWS = WEFT_MAX_KERNEL_OUTPUTS + WEFT_MAX_KERNEL_INPUTS
};

/* As weft_view (weft/kernel.h). */
typedef struct weft_device_view {
    weft_dtype dtype;
    int ndim, first_panel;
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
    int64_t row_elements, rows, count; /* rows: those that have elements */
    int64_t panel_rows, row_shift;
} weft_device_view;

/* The first error of a call, in the order in which a CPU finds them. */
typedef struct weft_device_error {
    weft_kernel_error error; /* without a message */
    uint64_t key;            /* less for later ones; 0: no error */
    int32_t lock;
} weft_device_error;

typedef struct weft_device_call {
    int num_outputs, num_inputs;
    bool first, last;
    int64_t numbers[WEFT_KERNEL_NUMBERS];
    double scalars[WEFT_MAX_SCALARS];
    weft_device_view views[WEFT_DEVICE_VIEWS]; /* the outputs, then the inputs */
    weft_device_error *error;                  /* NULL: the kernel finds none */
    void *const *table;                        /* panels' addresses, in device memory; NULL: they are here */
    void *panels[WEFT_DEVICE_PANELS];
} weft_device_call;

/* All but `error` and `table`, of a task with weft_kernel_args. */
void weft_device_call_fill(weft_device_call *call, const weft_task_run *run);

WEFT_END_DECLS

#endif
