/* Shared by the tests of kernels: calls a kernel's CPU function without StarPU. */
#ifndef WEFT_TESTS_KERNEL_SUPPORT_H
#define WEFT_TESTS_KERNEL_SUPPORT_H

#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/args.h"
#include "codelets/copy.h"
#include "values.h"

typedef struct operands {
    int count;
    double scalars[WEFT_MAX_SCALARS];
    weft_kernel_error error; /* of the last run */
    void *memory[WEFT_MAX_OPERANDS];
} operands;

static inline void add_operand(operands *o, const void *memory)
{
    o->memory[o->count++] = (void *)(uintptr_t)memory;
}

static inline void run(weft_kernel_id kernel, operands *o, const void *arguments)
{
    weft_task_run run = { .kernel = kernel,
                          .cpu = &weft_cpu_kernels[kernel],
                          .arguments = arguments,
                          .function = "test",
                          .error = &o->error,
                          .num_operands = o->count,
                          .operands = o->memory };
    memcpy(run.scalars, o->scalars, sizeof(run.scalars));
    o->error = (weft_kernel_error){ WEFT_OK };
    run.cpu->run(&run);
}

static inline double number(prng *random)
{
    return (double)(prng_below(random, 4001) - 2000) / 64;
}

/* Offset of element i (row-major) of a box on one side. */
static inline int64_t place_of(const weft_strided_box *box, const int64_t stride[], int64_t i)
{
    int64_t place = 0;
    for (int d = box->ndim - 1; d >= 0; d--) {
        place += i % box->extent[d] * stride[d];
        i /= box->extent[d];
    }
    return place;
}

#endif
