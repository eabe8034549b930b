/* Managed tensors of DLPack, as other libraries make and take them: the structs are written from DLPack's specification, not
 * from the library's. */
#ifndef WEFT_TESTS_MANAGED_H
#define WEFT_TESTS_MANAGED_H

#include "support.h"

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor tensor;
};

enum { ON_CPU = 1, ON_CUDA = 2, READ_ONLY = 1, COPIED = 2 };

/* How a producer lays its memory out. */
typedef enum laid_out {
    PLAIN,     /* row-major, strides NULL */
    STRIDED,   /* row-major by strides, after a byte offset */
    REVERSED,  /* the last dimension backwards: not row-major where it has two elements */
    TRANSPOSED /* the last dimension slowest: likewise */
} laid_out;

/* One tensor of a producer: memory of its own, which ends with the deleter, as does the struct. */
typedef struct producer {
    struct DLManagedTensorVersioned versioned;
    struct DLManagedTensor unversioned;
    int64_t shape[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
    char *memory;
    int *deleted;          /* number of calls of the deleter */
    void (*within)(void);  /* called by the deleter; NULL: nothing is */
} producer;

/* A tensor of `values` (row-major). */
producer *produce(weft_dtype dtype, int ndim, const int64_t shape[], const void *values, laid_out how, int *deleted);
/* The deleter, as whoever is not taken from calls it. */
void end_producer(producer *p);

/* Asserts that a managed tensor is of this type and these sizes, row-major and on the CPU. */
void assert_managed(const dl_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[]);

#endif
