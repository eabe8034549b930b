/* Boxes whose rows lie in runs, at other places of source and target: for layouts with cyclic or zigzag cuts. */
#ifndef WEFT_CODELETS_REARRANGE_H
#define WEFT_CODELETS_REARRANGE_H

#include "codelets/args.h"

/* `rows` indices of a dimension from `source` on become those from `target` on, and so do `count` - 1 more groups of them, each
 * `source_step` and `target_step` further. */
typedef struct weft_moved_rows {
    int64_t source, target, rows, count, source_step, target_step;
} weft_moved_rows;

/* Copies from operand 1 (R) to operand 0 (W or RW) all elements whose index is listed in every dimension. Strides in elements. */
typedef struct weft_rearrange_args {
    weft_task_args base;
    size_t element_size;
    int ndim;
    int64_t source_stride[WEFT_MAX_DIMS], target_stride[WEFT_MAX_DIMS];
    int64_t num_moved[WEFT_MAX_DIMS];
    weft_moved_rows moved[]; /* those of dimension 0, then of dimension 1, ... */
} weft_rearrange_args;

void weft_cpu_rearrange(const weft_task_run *run);
uint32_t weft_rearrange_footprint(const weft_task_run *run);

#endif
