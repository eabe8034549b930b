/* Kernels that copy and reduce boxes, for redistributions within a process. */
#ifndef WEFT_CODELETS_COPY_H
#define WEFT_CODELETS_COPY_H

#include "codelets/args.h"

/* An n-D box inside two row-major buffers. Strides in elements. */
typedef struct weft_strided_box {
    int ndim;
    int64_t extent[WEFT_MAX_DIMS];
    int64_t source_stride[WEFT_MAX_DIMS];
    int64_t target_stride[WEFT_MAX_DIMS];
} weft_strided_box;

/* Copies a box of elements of `element_size` bytes. Rows contiguous on both sides are one memcpy; if
 * source and target are contiguous in different dimensions the box is transposed in tiles. Source strides
 * may be 0; strides may be negative. `streams`: non-temporal stores, for data that would leave the caches
 * before it is read. */
void weft_cpu_copy_box(void *target, const void *source, const weft_strided_box *box, size_t element_size,
                       bool streams);

/* Operand 0: target (W or RW). Operands 1 .. num_operands - 1: sources (R), with boxes[i - 1];
 * target_offset (bytes) is added to operand 0's address. */
typedef struct weft_copy_args {
    weft_task_args base;
    size_t element_size;
    bool streams; /* see weft_cpu_copy_box() */
    int64_t target_offset[WEFT_MAX_OPERANDS - 1];
    weft_strided_box boxes[WEFT_MAX_OPERANDS - 1];
} weft_copy_args;
void weft_cpu_copy(const weft_task_run *run);
uint32_t weft_copy_footprint(const weft_task_run *run);

/* Values as in weft_reduce_op, without AVG (SUM with a scale). */
typedef enum weft_combine {
    WEFT_COMBINE_SUM = 0,
    WEFT_COMBINE_PROD = 2,
    WEFT_COMBINE_MIN,
    WEFT_COMBINE_MAX
} weft_combine;

/* target = source_1 op source_2 op ..., elementwise over one box, strictly in operand order; with
 * `accumulate` target = target op source_1 op ...; then multiplied by scale unless it is 1. Operand 0:
 * target (W, or RW with accumulate). All sources have equal boxes[i - 1].extent; strides may differ. All
 * types. bf16 and f16 are reduced and scaled in f32, and rounded to nearest even once per task. Integers
 * wrap around. NaN wins min and max, as in PyTorch. WEFT_BOOL: sum and max are or, prod and min are and. */
typedef struct weft_reduce_args {
    weft_task_args base;
    weft_combine combine;
    bool accumulate;
    double scale;
    weft_strided_box boxes[WEFT_MAX_OPERANDS - 1];
} weft_reduce_args;
void weft_cpu_reduce(const weft_task_run *run);
uint32_t weft_reduce_footprint(const weft_task_run *run);

#endif
