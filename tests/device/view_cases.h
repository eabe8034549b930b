/* Calls of kernels on views, on random parts of tensors whose panels lie anywhere in test memory. */
#ifndef WEFT_TESTS_VIEW_CASES_H
#define WEFT_TESTS_VIEW_CASES_H

#include "codelets/kernel.h"
#include "device_support.h"

enum { MAX_PANELS = 1024 };

/* A part of a tensor. */
typedef struct part {
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
} part;

/* With at least `min` dimensions, at most `max`, of sizes up to `size`, rarely 0. */
part any_part(int min, int max, int64_t size);
/* The same with another size along one dimension, of which it has all. */
part part_with(part from, int dim, int64_t size);
/* Without that dimension. */
part part_without(part from, int dim);
int64_t part_count(const part *of);
/* A matrix for each index of the last `dims` dimensions of `batch`, some of which are broadcast. */
part any_matrices(const part *batch, int dims, int64_t rows, int64_t columns);

/* A call under construction: outputs are added before inputs. Operand number k lies in memory number k. */
typedef struct view_case {
    weft_kernel_id kernel;
    weft_kernel_args *args; /* in `memory` */
    int64_t memory[(sizeof(weft_kernel_args) + WEFT_DEVICE_VIEWS * sizeof(weft_kernel_operand)) / sizeof(int64_t)];
    double scalars[WEFT_MAX_SCALARS];
    int64_t panel_rows; /* of operands; 0: any */
    int num_panels;
    void *host[MAX_PANELS], *device[MAX_PANELS];
} view_case;

void begin_case(view_case *c, weft_kernel_id kernel);
/* `whole`: all rows in one panel; else panels of any height. Filled at random; returns the operand's number. */
int add_output(view_case *c, weft_dtype dtype, const part *of, bool whole);
int add_input(view_case *c, weft_dtype dtype, const part *of, bool whole);
/* After operand k's memory has been changed here. */
void send_again(int k);
/* Runs it on both sides. */
void run_call(view_case *c);
/* Runs it on both sides and compares all bits of the outputs' memories. */
void run_case(view_case *c);
/* The same, and the floating numbers of each output differ by no more than `share` of its largest one. */
void run_case_near(view_case *c, double share);

#endif
