/* Vectors: consecutive elements of a row that a thread loads, computes and stores together, by accesses of up to 16 bytes.
 * In registers a vector is a uint4, with the elements as memory has them. */
#ifndef WEFT_CODELETS_CUDA_VECTORS_H
#define WEFT_CODELETS_CUDA_VECTORS_H

#include "codelets/cuda/box.h"
#include "codelets/cuda/convert.h"

enum { WEFT_VECTOR_BYTES = 16 };

/* ---- which elements -------------------------------------------------------------------------------------- */

/* A box cut along its last dimension: each row has `per_row` vectors of `length` elements. The first one of a row begins
 * `shift` elements before the row, so that vectors are aligned in as many operands as possible; a vector's elements
 * outside the row are neither loaded nor stored. */
template <int operands> struct weft_vector_plan {
    int length, shift;
    int64_t row_length, per_row;
    int64_t step[operands]; /* elements, from one to the next */
    int size[operands];     /* bytes of an element */
    /* Bytes of one access to a vector inside the row: `size`, or more if `step` is 1; how many it takes. */
    int access[operands], accesses[operands];
};

/* A vector: its row, its place there, and which of its elements are in the row. */
struct weft_vector_span {
    int64_t row, begin;
    int first, last;
};

/* The largest power of 2, up to 16, that divides both. */
static inline int weft_common_alignment(int64_t a, int64_t b)
{
    const int64_t bits = a | b | WEFT_VECTOR_BYTES;
    return (int)(bits & -bits);
}

/* Bytes that one access to operand k may have if vectors begin `shift` elements before the rows. */
template <int operands, typename Box>
int weft_vector_access(const weft_vector_plan<operands> &plan, const Box &outer, const void *memory, int k, int shift)
{
    const int size = plan.size[k];
    if (plan.step[k] != 1) {
        return size;
    }
    int access = weft_common_alignment((int64_t)(uintptr_t)memory - shift * size, plan.length * size);
    for (int d = 0; d < outer.ndim; d++) {
        access = weft_common_alignment(access, outer.stride[k][d] * size);
    }
    return access < size ? size : access;
}

/* Chooses the shift with which most operands are accessed by whole vectors. plan->size is set for all `count` operands;
 * `box` becomes the box of rows. Elements of up to `largest` bytes have room in a vector, whatever the operands are. */
template <int operands, typename Box>
void weft_vector_plan_make(weft_vector_plan<operands> *plan, Box *box, void *const memory[], int count, int largest = 1)
{
    const int last = --box->ndim;
    int best = -1;
    plan->row_length = box->extent[last];
    for (int k = 0; k < count; k++) {
        plan->step[k] = box->stride[k][last];
        largest = plan->size[k] > largest ? plan->size[k] : largest;
    }
    plan->length = WEFT_VECTOR_BYTES / largest;
    for (int shift = 0; shift < plan->length; shift++) {
        int score = 0;
        for (int k = 0; k < count; k++) {
            const int access = weft_vector_access(*plan, *box, memory[k], k, shift);
            score += access == plan->length * plan->size[k] ? access : 0;
        }
        if (score > best) {
            best = score;
            plan->shift = shift;
        }
    }
    for (int k = 0; k < count; k++) {
        plan->access[k] = weft_vector_access(*plan, *box, memory[k], k, plan->shift);
        plan->accesses[k] = plan->length * plan->size[k] / plan->access[k];
    }
    plan->per_row = (plan->row_length + plan->shift + plan->length - 1) / plan->length;
}

/* Operand k of a plan for rows that lie anywhere: `addresses` has a bit that is set in any row's address. All operands have the
 * same length and size; without elements a row has one empty vector. */
template <int operands>
void weft_vector_plan_rows(weft_vector_plan<operands> *plan, int k, int64_t length, int size, int64_t addresses)
{
    const int access = weft_common_alignment(addresses, WEFT_VECTOR_BYTES);
    plan->length = WEFT_VECTOR_BYTES / size;
    plan->shift = 0;
    plan->row_length = length;
    plan->per_row = length > 0 ? (length + plan->length - 1) / plan->length : 1;
    plan->step[k] = 1;
    plan->size[k] = size;
    plan->access[k] = access < size ? size : access;
    plan->accesses[k] = WEFT_VECTOR_BYTES / plan->access[k];
}

template <int operands>
__device__ weft_vector_span weft_vector_at(const weft_vector_plan<operands> &plan, int64_t index)
{
    weft_vector_span span = { index < plan.per_row ? 0 : weft_quotient(index, plan.per_row), 0, 0, plan.length };
    span.begin = (index - span.row * plan.per_row) * plan.length - plan.shift;
    const int64_t rest = plan.row_length - span.begin;
    span.first = span.begin < 0 ? (int)-span.begin : 0;
    span.last = rest < plan.length ? (int)rest : plan.length;
    return span;
}

/* ---- loads and stores ------------------------------------------------------------------------------------ */

/* Bytes [place, place + 8) of a vector, as far as they are in one half of it. */
static __device__ inline uint64_t weft_vector_bits(uint4 vector, int place)
{
    const uint64_t low = vector.x | (uint64_t)vector.y << 32, high = vector.z | (uint64_t)vector.w << 32;
    return (place < 8 ? low : high) >> 8 * (place & 7);
}

/* Adds bits at a place that has zeros. */
static __device__ inline uint4 weft_vector_with(uint4 vector, int place, uint64_t bits)
{
    const uint64_t moved = bits << 8 * (place & 7);
    const uint64_t low = place < 8 ? moved : 0, high = place < 8 ? 0 : moved;
    vector.x |= (uint32_t)low;
    vector.y |= (uint32_t)(low >> 32);
    vector.z |= (uint32_t)high;
    vector.w |= (uint32_t)(high >> 32);
    return vector;
}

/* Pieces [first, last) of a vector, each of `bytes` (1, 2, 4, 8), which lie `step` bytes apart. */
static __device__ __noinline__ uint4 weft_gather(const char *memory, int64_t step, int bytes, int first, int last)
{
    uint4 vector = { 0, 0, 0, 0 };
WEFT_ROLLED
    for (int i = first; i < last; i++) {
        const char *at = memory + i * step;
        const uint64_t bits = bytes == 8   ? *(const uint64_t *)WEFT_ALIGNED(at, 8)
                              : bytes == 4 ? *(const uint32_t *)WEFT_ALIGNED(at, 4)
                              : bytes == 2 ? *(const uint16_t *)WEFT_ALIGNED(at, 2)
                                           : *(const uint8_t *)at;
        vector = weft_vector_with(vector, i * bytes, bits);
    }
    return vector;
}

static __device__ __noinline__ void weft_scatter(char *memory, int64_t step, int bytes, int first, int last, uint4 vector)
{
WEFT_ROLLED
    for (int i = first; i < last; i++) {
        char *at = memory + i * step;
        const uint64_t bits = weft_vector_bits(vector, i * bytes);
        if (bytes == 8) {
            *(uint64_t *)WEFT_ALIGNED(at, 8) = bits;
        } else if (bytes == 4) {
            *(uint32_t *)WEFT_ALIGNED(at, 4) = (uint32_t)bits;
        } else if (bytes == 2) {
            *(uint16_t *)WEFT_ALIGNED(at, 2) = (uint16_t)bits;
        } else {
            *(uint8_t *)at = (uint8_t)bits;
        }
    }
}

/* A vector of operand k, whose row begins at `row`. */
template <int operands>
__device__ uint4 weft_vector_load(const weft_vector_plan<operands> &plan, int k, const void *row, const weft_vector_span &span)
{
    const int size = plan.size[k], access = plan.access[k];
    const bool whole = span.first == 0 && span.last == plan.length;
    const char *at = (const char *)row + span.begin * plan.step[k] * size;
    if (whole && plan.accesses[k] == 1) { /* the frequent ones without a call */
        switch (access) {
        case 16:
            return *(const uint4 *)WEFT_ALIGNED(at, 16);
        case 8: {
            const uint2 half = *(const uint2 *)WEFT_ALIGNED(at, 8);
            return { half.x, half.y, 0, 0 };
        }
        case 4:
            return { *(const uint32_t *)WEFT_ALIGNED(at, 4), 0, 0, 0 };
        }
    }
    if (access > size && whole) {
        return weft_gather(at, access, access, 0, plan.accesses[k]);
    }
    return weft_gather(at, plan.step[k] * size, size, span.first, span.last);
}

template <int operands>
__device__ void weft_vector_store(const weft_vector_plan<operands> &plan, int k, void *row, const weft_vector_span &span, uint4 vector)
{
    const int size = plan.size[k], access = plan.access[k];
    const bool whole = span.first == 0 && span.last == plan.length;
    char *at = (char *)row + span.begin * plan.step[k] * size;
    if (whole && plan.accesses[k] == 1 && access >= 4) {
        switch (access) {
        case 16:
            *(uint4 *)WEFT_ALIGNED(at, 16) = vector;
            break;
        case 8:
            *(uint2 *)WEFT_ALIGNED(at, 8) = { vector.x, vector.y };
            break;
        default:
            *(uint32_t *)WEFT_ALIGNED(at, 4) = vector.x;
        }
    } else if (access > size && whole) {
        weft_scatter(at, access, access, 0, plan.accesses[k], vector);
    } else {
        weft_scatter(at, plan.step[k] * size, size, span.first, span.last, vector);
    }
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* A thread computes these values of the arithmetic together: a part of a vector, 16 bytes. After the vector's end they are any
 * values. */
template <typename T> struct weft_together {
    static const int count = WEFT_VECTOR_BYTES / (int)sizeof(T);
};

template <typename T, int count> struct weft_values {
    T value[count];
};

static __device__ inline float weft_as_float(uint32_t bits)
{
    return weft_float_of_bits(bits);
}

static __device__ inline void weft_unpack_own(uint4 vector, weft_values<float, 4> *to)
{
    to->value[0] = weft_as_float(vector.x);
    to->value[1] = weft_as_float(vector.y);
    to->value[2] = weft_as_float(vector.z);
    to->value[3] = weft_as_float(vector.w);
}

static __device__ inline void weft_unpack_own(uint4 vector, weft_values<double, 2> *to)
{
    to->value[0] = weft_double_of_bits(vector.x | (uint64_t)vector.y << 32);
    to->value[1] = weft_double_of_bits(vector.z | (uint64_t)vector.w << 32);
}

static __device__ inline void weft_unpack_own(uint4 vector, weft_values<int64_t, 2> *to)
{
    to->value[0] = (int64_t)(vector.x | (uint64_t)vector.y << 32);
    to->value[1] = (int64_t)(vector.z | (uint64_t)vector.w << 32);
}

static __device__ inline uint4 weft_pack_own(weft_values<float, 4> from)
{
    return { weft_bits_of_float(from.value[0]), weft_bits_of_float(from.value[1]), weft_bits_of_float(from.value[2]),
             weft_bits_of_float(from.value[3]) };
}

static __device__ inline uint4 weft_pack_halves(uint64_t low, uint64_t high)
{
    return { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32) };
}

static __device__ inline uint4 weft_pack_own(weft_values<double, 2> from)
{
    return weft_pack_halves(weft_bits_of_double(from.value[0]), weft_bits_of_double(from.value[1]));
}

static __device__ inline uint4 weft_pack_own(weft_values<int64_t, 2> from)
{
    return weft_pack_halves((uint64_t)from.value[0], (uint64_t)from.value[1]);
}

/* Truth values: bytes. */
template <int count> __device__ uint4 weft_pack_own(weft_values<uint8_t, count> from)
{
    uint32_t bits = 0;
WEFT_UNROLL
    for (int j = 0; j < count; j++) {
        bits |= (uint32_t)from.value[j] << 8 * j;
    }
    return { bits, 0, 0, 0 };
}

/* Values number part * count and following of a vector of any type, rounded to the
 * type `narrow` unless that is -1. Not inline, as weft_load_as(). */
template <typename T, int count>
__device__ __noinline__ weft_values<T, count> weft_unpack_any(uint4 vector, weft_dtype type, int narrow, int part)
{
    const int size = (int)weft_size_of(type);
    weft_values<T, count> values;
WEFT_UNROLL
    for (int j = 0; j < count; j++) {
        const uint64_t bits = weft_vector_bits(vector, (part * count + j) * size & (WEFT_VECTOR_BYTES - 1));
        const T value = weft_load_as(T(), type, &bits, 0);
        values.value[j] = narrow < 0 ? value : weft_narrowed((weft_dtype)narrow, value);
    }
    return values;
}

/* Adds them to a vector that has zeros there. */
template <typename R, int count>
__device__ __noinline__ uint4 weft_pack_any(uint4 vector, weft_dtype type, int part, weft_values<R, count> values)
{
    const int size = (int)weft_size_of(type);
    for (int j = 0; j < count && (part * count + j) * size < WEFT_VECTOR_BYTES; j++) {
        uint64_t bits = 0;
        weft_store_from(type, &bits, 0, values.value[j]);
        vector = weft_vector_with(vector, (part * count + j) * size, bits);
    }
    return vector;
}

/* The same of frequent types: of the arithmetic, WEFT_F64, WEFT_F32 or WEFT_I64, and WEFT_BF16. */
template <typename T, int count>
__device__ weft_values<T, count> weft_unpack(uint4 vector, weft_dtype type, weft_dtype arithmetic, int narrow, int part)
{
    weft_values<T, count> values;
    if (type == arithmetic && narrow < 0) {
        weft_unpack_own(vector, &values);
        return values;
    }
    if constexpr (sizeof(T) == sizeof(float)) {
        if (type == WEFT_BF16 && narrow < 0) {
            const uint32_t low = part == 0 ? vector.x : vector.z, high = part == 0 ? vector.y : vector.w;
            values = { weft_as_float(low << 16), weft_as_float(low & 0xffff0000u), weft_as_float(high << 16),
                       weft_as_float(high & 0xffff0000u) };
            return values;
        }
    }
    return weft_unpack_any<T, count>(vector, type, narrow, part);
}

/* result: the type of R. */
template <typename R, int count>
__device__ uint4 weft_pack(uint4 vector, weft_dtype type, weft_dtype result, int part, weft_values<R, count> values)
{
    if (type == result && part == 0) {
        return weft_pack_own(values);
    }
    if constexpr (sizeof(R) == sizeof(float)) {
        if (type == WEFT_BF16) {
            const uint32_t low = f32_to_bf16(values.value[0]) | (uint32_t)f32_to_bf16(values.value[1]) << 16;
            const uint32_t high = f32_to_bf16(values.value[2]) | (uint32_t)f32_to_bf16(values.value[3]) << 16;
            return part == 0 ? uint4{ low, high, 0, 0 } : uint4{ vector.x, vector.y, low, high };
        }
    }
    return weft_pack_any<R, count>(vector, type, part, values);
}

#endif
