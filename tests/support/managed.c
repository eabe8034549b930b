#include "managed.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(dl_tensor) == 48 && offsetof(dl_tensor, shape) == 24 && offsetof(dl_tensor, byte_offset) == 40, "");
_Static_assert(sizeof(struct DLManagedTensor) == 64 && offsetof(struct DLManagedTensor, manager) == 48, "");
_Static_assert(sizeof(struct DLManagedTensorVersioned) == 80 && offsetof(struct DLManagedTensorVersioned, tensor) == 32, "");

/* Codes and bits of weft's types in DLPack. */
static const struct {
    uint8_t code, bits;
} types[WEFT_DTYPE_COUNT] = {
    [WEFT_F64] = { 2, 64 }, [WEFT_F32] = { 2, 32 }, [WEFT_BF16] = { 4, 16 }, [WEFT_F16] = { 2, 16 },
    [WEFT_I64] = { 0, 64 }, [WEFT_I32] = { 0, 32 }, [WEFT_U8] = { 1, 8 },    [WEFT_BOOL] = { 6, 8 },
    [WEFT_C64] = { 5, 64 },  [WEFT_C128] = { 5, 128 }, [WEFT_I8] = { 0, 8 },  [WEFT_I16] = { 0, 16 },
    [WEFT_U16] = { 1, 16 },  [WEFT_U32] = { 1, 32 },   [WEFT_U64] = { 1, 64 }, [WEFT_F8_E4M3] = { 10, 8 },
    [WEFT_F8_E5M2] = { 12, 8 },
};

void end_producer(producer *p)
{
    ++*p->deleted;
    if (p->within != NULL) {
        p->within();
    }
    free(p->memory);
    memset(p, 0x5a, sizeof(*p));
    free(p);
}

static void end_versioned(struct DLManagedTensorVersioned *self)
{
    end_producer(self->manager);
}

static void end_unversioned(struct DLManagedTensor *self)
{
    end_producer(self->manager);
}

/* Strides in elements, and the first element's place. */
static int64_t lay_out(laid_out how, int ndim, const int64_t shape[], int64_t strides[])
{
    int64_t step = 1, last = ndim == 0 ? 1 : shape[ndim - 1];
    int outer = how == TRANSPOSED ? ndim - 1 : ndim;
    for (int d = outer - 1; d >= 0; d--) {
        strides[d] = step;
        step *= shape[d];
    }
    if (how == TRANSPOSED && ndim > 0) {
        strides[ndim - 1] = step;
    }
    if (how == REVERSED && ndim > 0 && last > 0) {
        strides[ndim - 1] = -1;
        return last - 1;
    }
    return 0;
}

producer *produce(weft_dtype dtype, int ndim, const int64_t shape[], const void *values, laid_out how, int *deleted)
{
    producer *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    size_t size = weft_dtype_size(dtype);
    int64_t count = shape_count(ndim, shape), first = lay_out(how, ndim, shape, p->strides);
    size_t skipped = how == STRIDED ? 3 * size : 0;
    if (ndim > 0) {
        memcpy(p->shape, shape, (size_t)ndim * sizeof(*shape));
    }
    p->memory = malloc(skipped + (size_t)count * size + 1);
    assert_non_null(p->memory);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, place = first;
        for (int d = ndim - 1; d >= 0; d--) {
            place += rest % shape[d] * p->strides[d];
            rest /= shape[d];
        }
        memcpy(p->memory + skipped + (size_t)place * size, (const char *)values + (size_t)i * size, size);
    }
    p->deleted = deleted;
    dl_tensor tensor = { .data = count == 0 ? NULL : p->memory + (size_t)first * size,
                         .device = { ON_CPU, 0 },
                         .ndim = ndim,
                         .dtype = { types[dtype].code, types[dtype].bits, 1 },
                         .shape = ndim == 0 ? NULL : p->shape,
                         .strides = how == PLAIN ? NULL : p->strides,
                         .byte_offset = count == 0 ? 0 : skipped };
    p->versioned = (struct DLManagedTensorVersioned){
        .version = { 1, 3 }, .manager = p, .deleter = end_versioned, .tensor = tensor
    };
    p->unversioned = (struct DLManagedTensor){ .tensor = tensor, .manager = p, .deleter = end_unversioned };
    return p;
}

void assert_managed(const dl_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[])
{
    assert_int_equal(tensor->device.type, ON_CPU);
    assert_int_equal(tensor->device.id, 0);
    assert_int_equal(tensor->dtype.code, types[dtype].code);
    assert_int_equal(tensor->dtype.bits, types[dtype].bits);
    assert_int_equal(tensor->dtype.lanes, 1);
    assert_int_equal(tensor->ndim, ndim);
    assert_int_equal(tensor->byte_offset, 0);
    int64_t row_major = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        assert_int_equal(tensor->shape[d], shape[d]);
        assert_int_equal(tensor->strides[d], row_major);
        row_major *= shape[d] > 0 ? shape[d] : 1;
    }
    assert_int_equal(tensor->data == NULL, shape_count(ndim, shape) == 0);
}
