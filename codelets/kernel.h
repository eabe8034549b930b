/* Tasks that run a weft_kernel: operands are parts of tensors, of any number of panels. */
#ifndef WEFT_CODELETS_KERNEL_H
#define WEFT_CODELETS_KERNEL_H

#include <weft/kernel.h>

#include "codelets/args.h"

/* weft_view.panel_rows of a part that is one panel: more than any row's number. */
#define WEFT_ONE_PANEL ((int64_t)1 << 62)

enum { WEFT_KERNEL_MAX_PANELS = 1 << 16 }; /* of all operands of a task */

/* One operand: a view, whose panels are operands first_panel, first_panel + 1, ... of the task. */
typedef struct weft_kernel_operand {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
    int64_t panel_rows, row_shift;
    int first_panel, num_panels;
    int room; /* number of its weft_kernel_room plus 1; 0: it has none */
} weft_kernel_operand;

/* The extents of the memory that a part lies in, where they are larger than its own. */
typedef struct weft_kernel_room {
    int64_t extent[WEFT_MAX_DIMS];
} weft_kernel_room;

/* The task's operands are the panels of all views, those of the outputs first. */
typedef struct weft_kernel_args {
    weft_task_args base;
    bool first, last;
    bool grouped; /* pieces of several groups are summed apart: this one's rows are addends, even if it is its group's only one */
    int64_t numbers[WEFT_KERNEL_NUMBERS];
    int num_outputs, num_inputs;
    weft_kernel_operand operands[]; /* the outputs, then the inputs; after them the rooms */
} weft_kernel_args;

/* Bytes of arguments with so many operands and rooms. */
static inline size_t weft_kernel_args_size(int num_operands, int num_rooms)
{
    return sizeof(weft_kernel_args) + (size_t)num_operands * sizeof(weft_kernel_operand) +
           (size_t)num_rooms * sizeof(weft_kernel_room);
}

static inline size_t weft_kernel_rooms_at(const weft_kernel_args *args)
{
    return weft_kernel_args_size(args->num_outputs + args->num_inputs, 0);
}

static inline weft_kernel_room *weft_kernel_rooms(weft_kernel_args *args)
{
    return (weft_kernel_room *)(void *)((char *)args + weft_kernel_rooms_at(args));
}

/* The view of an operand, but for its panels. */
static inline weft_view weft_kernel_view(const weft_kernel_args *args, int number)
{
    const weft_kernel_operand *operand = &args->operands[number];
    const weft_kernel_room *rooms = (const void *)((const char *)args + weft_kernel_rooms_at(args));
    const int64_t *room = operand->room == 0 ? operand->extent : rooms[operand->room - 1].extent;
    weft_view view = { .dtype = operand->dtype,
                       .ndim = operand->ndim,
                       .row_elements = 1,
                       .panel_rows = operand->panel_rows,
                       .row_shift = operand->row_shift };
    bool empty = false;
    for (int d = operand->ndim - 1; d >= 0; d--) {
        view.shape[d] = operand->shape[d];
        view.offset[d] = operand->offset[d];
        view.extent[d] = operand->extent[d];
        view.strides[d] = view.row_elements;
        view.row_elements *= d > 0 ? room[d] : 1;
        empty = empty || (d > 0 && operand->extent[d] == 0);
    }
    view.row_elements = empty ? 0 : view.row_elements;
    if (view.ndim > 0) {
        int64_t left = view.panel_rows - (view.offset[0] + view.row_shift) % view.panel_rows;
        view.first_rows = left < view.extent[0] ? left : view.extent[0];
    }
    return view;
}

/* The call of a kernel on views. */
void weft_views_call(const weft_task_run *run, weft_kernel_call *call);
/* The CPU function of all kernels on views. */
void weft_cpu_views(const weft_task_run *run);
uint32_t weft_views_footprint(const weft_task_run *run);

#endif
