/* The bytes that a task reads and writes: a pure function of its arguments, defined beside the kernel.
 * Used to check task lists; also the input of a task's predicted time. Needs no StarPU. */
#ifndef WEFT_CODELETS_ACCESS_H
#define WEFT_CODELETS_ACCESS_H

#include <weft/base.h>

typedef enum weft_kernel_access_kind {
    WEFT_KERNEL_READ,
    WEFT_KERNEL_WRITE,  /* sets each element */
    WEFT_KERNEL_UPDATE, /* reads each element, and adds an addend */
    WEFT_KERNEL_CLEAR   /* sets each element to a value that a later task may replace */
} weft_kernel_access_kind;

enum { WEFT_KERNEL_DIMS = WEFT_MAX_DIMS };

/* An n-D box of one operand. Strides may be 0 (elements that are read again) or negative. */
typedef struct weft_kernel_access {
    weft_kernel_access_kind kind;
    int operand;
    int64_t offset;  /* bytes from the operand's beginning to the first element */
    int64_t element; /* bytes of an element */
    int ndim;
    int64_t extent[WEFT_KERNEL_DIMS];
    int64_t stride[WEFT_KERNEL_DIMS]; /* bytes */
    /* WRITE and UPDATE of sums: number of addends that each element gets; else 0. */
    int64_t addends;
    bool adds_sources; /* the addends are those of the READ accesses with this flag, in order */
} weft_kernel_access;

typedef void (*weft_kernel_visitor)(void *context, const weft_kernel_access *access);

/* Calls `visit` for all reads of a task with these arguments, then for all its writes. */
typedef void (*weft_kernel_accesses)(const void *arguments, int num_operands, weft_kernel_visitor visit,
                                     void *context);

/* A contiguous run of bytes. */
static inline weft_kernel_access weft_kernel_access_run(weft_kernel_access_kind kind, int operand,
                                                        int64_t offset, int64_t count, int64_t size)
{
    return (weft_kernel_access){ .kind = kind,
                                 .operand = operand,
                                 .offset = offset,
                                 .element = size,
                                 .ndim = 1,
                                 .extent = { count },
                                 .stride = { size } };
}

#endif
