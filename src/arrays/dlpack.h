/* Managed tensors of DLPack: the two structs as they lie in memory, and the hosted ranks' ones on their way into a tensor. */
#ifndef WEFT_SRC_ARRAYS_DLPACK_H
#define WEFT_SRC_ARRAYS_DLPACK_H

#include <weft/dlpack.h>

#include <stddef.h>

#include "arrays/import.h"

/* Kinds of elements; their number of bits tells them apart further. */
enum {
    WEFT_DL_INT = 0,
    WEFT_DL_UINT = 1,
    WEFT_DL_FLOAT = 2,
    WEFT_DL_BFLOAT = 4,
    WEFT_DL_COMPLEX = 5,
    WEFT_DL_BOOL = 6,
    WEFT_DL_F8_E4M3 = 10, /* kDLFloat8_e4m3fn */
    WEFT_DL_F8_E5M2 = 12  /* kDLFloat8_e5m2 */
};
/* Kinds of memory that the CPU reads and writes like any other: its own, and its own pinned for CUDA and for ROCm. */
enum { WEFT_DL_CPU = 1, WEFT_DL_CUDA_PINNED = 3, WEFT_DL_ROCM_PINNED = 11 };
/* Memory of a device, whose number is CUDA's. */
enum { WEFT_DL_CUDA = 2 };
/* The major version whose structs these are: another one has the members before `flags` alone in common with it. */
enum { WEFT_DL_MAJOR = 1, WEFT_DL_MINOR = 0 };
/* Flags. */
enum { WEFT_DL_READ_ONLY = 1, WEFT_DL_IS_COPIED = 2 };

typedef struct weft_dl_tensor {
    void *data; /* the first element is `byte_offset` bytes after it */
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t kind, bits;
    uint16_t lanes;   /* elements of a vector; 1: none */
    int64_t *shape;   /* ndim sizes */
    int64_t *strides; /* ndim strides in elements, also negative ones; NULL: row-major */
    uint64_t byte_offset;
} weft_dl_tensor;

struct DLManagedTensor {
    weft_dl_tensor tensor;
    void *context; /* the producer's */
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    weft_dl_tensor tensor;
};

/* DLPack's binary interface, where pointers have 64 bits. */
#define WEFT_DL_AT(type, member, offset) \
    _Static_assert(sizeof(void *) != 8 || offsetof(type, member) == (offset), #type " has " #member " elsewhere")
WEFT_DL_AT(weft_dl_tensor, device_type, 8);
WEFT_DL_AT(weft_dl_tensor, ndim, 16);
WEFT_DL_AT(weft_dl_tensor, kind, 20);
WEFT_DL_AT(weft_dl_tensor, lanes, 22);
WEFT_DL_AT(weft_dl_tensor, shape, 24);
WEFT_DL_AT(weft_dl_tensor, strides, 32);
WEFT_DL_AT(weft_dl_tensor, byte_offset, 40);
WEFT_DL_AT(struct DLManagedTensor, context, 48);
WEFT_DL_AT(struct DLManagedTensor, deleter, 56);
WEFT_DL_AT(struct DLManagedTensorVersioned, context, 8);
WEFT_DL_AT(struct DLManagedTensorVersioned, deleter, 16);
WEFT_DL_AT(struct DLManagedTensorVersioned, flags, 24);
WEFT_DL_AT(struct DLManagedTensorVersioned, tensor, 32);
_Static_assert(sizeof(void *) != 8 || (sizeof(struct DLManagedTensor) == 64 && sizeof(struct DLManagedTensorVersioned) == 80),
               "DLPack's structs have other sizes");
#undef WEFT_DL_AT

/* Kind and bits of a type's elements. */
typedef struct weft_dl_type {
    uint8_t kind, bits;
} weft_dl_type;

weft_dl_type weft_dl_type_of(weft_dtype dtype);

/* The hosted ranks' managed tensors of a call, of either struct, and room for what weft_managed_check() finds in them. */
struct weft_managed {
    struct DLManagedTensorVersioned *const *versioned; /* NULL: of the other struct, or none is given */
    struct DLManagedTensor *const *unversioned;
    void **locals; /* one for each hosted rank */
    int64_t *strides; /* WEFT_MAX_DIMS at most for each */
};

#endif
