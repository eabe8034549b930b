/* What the tests of kernels share: calling a codelet's CPU function as StarPU would, without StarPU running.
 */
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
    weft_fail_function fail;
    struct starpu_variable_interface interfaces[WEFT_MAX_OPERANDS];
    void *buffers[WEFT_MAX_OPERANDS];
} operands;

/* The next operand is this memory, in a buffer of its own. */
static inline void add_operand(operands *o, const void *memory)
{
    int i = o->count++;
    o->interfaces[i] = (struct starpu_variable_interface){ .id = STARPU_VARIABLE_INTERFACE_ID,
                                                           .ptr = (uintptr_t)memory,
                                                           .dev_handle = (uintptr_t)memory };
    o->buffers[i] = &o->interfaces[i];
}

static inline void run(const weft_kernel_entry *kernel, operands *o, const void *arguments)
{
    weft_task_run *run = calloc(1, sizeof(*run) + (size_t)o->count * sizeof(run->operands[0]));
    assert_non_null(run);
    run->kernel = kernel;
    run->arguments = arguments;
    run->function = "test";
    run->fail = o->fail;
    run->num_operands = o->count;
    memcpy(run->scalars, o->scalars, sizeof(run->scalars));
    for (int i = 0; i < o->count; i++) {
        run->operands[i].buffer = i;
    }
    kernel->codelet->cpu_funcs[0](o->buffers, run);
    free(run);
}

static inline double number(prng *random)
{
    return (double)(prng_below(random, 4001) - 2000) / 64;
}

/* Where element i (row-major) of a box is on one side. */
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
