/* The bytes that a task reads and writes: a pure function of its arguments, beside the kernel. Task lists are
 * checked by it; predicting a task's time, or placing it on a device, needs the same. Needs no StarPU. */
#ifndef WEFT_CODELETS_ACCESS_H
#define WEFT_CODELETS_ACCESS_H

#include <weft/base.h>

typedef enum weft_kernel_access_kind {
    WEFT_KERNEL_READ,
    WEFT_KERNEL_WRITE,  /* each element gets its value */
    WEFT_KERNEL_UPDATE, /* each element is read, and its addend added */
    WEFT_KERNEL_CLEAR   /* each element gets a value that a later task may replace */
} weft_kernel_access_kind;

enum { WEFT_KERNEL_DIMS = WEFT_MAX_DIMS };

/* An n-D box of one operand. Strides may be 0 (elements that are read again) or negative. */
typedef struct weft_kernel_access {
    weft_kernel_access_kind kind;
    int operand;
    int64_t offset;  /* bytes from the operand's beginning to the first element */
    int64_t element; /* bytes of one */
    int ndim;
    int64_t extent[WEFT_KERNEL_DIMS];
    int64_t stride[WEFT_KERNEL_DIMS]; /* bytes */
    /* Of WRITE and UPDATE: how many addends each element gets by it, where elements are sums; else 0. */
    int64_t addends;
    bool adds_sources; /* the addends are what the accesses READ with this flag have, in their order */
} weft_kernel_access;

typedef void (*weft_kernel_visitor)(void *context, const weft_kernel_access *access);

/* Calls `visit` for all that a task with these arguments reads, then for all that it writes. */
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
