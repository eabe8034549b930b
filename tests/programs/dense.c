#include "dense.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------------- */

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    max_align_t memory[];
};

void *arena_get(arena *a, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct arena_block *block = a->newest;
    if (block == NULL || block->used + size > block->size) {
        size_t room = size > 65536 ? size : 65536;
        block = malloc(sizeof(*block) + room);
        if (block == NULL) {
            abort();
        }
        *block = (struct arena_block){ a->newest, 0, room };
        a->newest = block;
    }
    void *memory = (char *)block->memory + block->used;
    block->used += size;
    return memset(memory, 0, size);
}

void arena_free(arena *a)
{
    while (a->newest != NULL) {
        struct arena_block *next = a->newest->next;
        free(a->newest);
        a->newest = next;
    }
}

int64_t count_of(int ndim, const int64_t shape[])
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        count *= shape[d];
    }
    return count;
}

dense *dense_new(arena *a, weft_dtype dtype, int ndim, const int64_t shape[])
{
    dense *x = arena_get(a, sizeof(*x));
    x->dtype = dtype;
    x->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        x->shape[d] = shape[d];
    }
    x->count = count_of(ndim, shape);
    x->at = arena_get(a, (size_t)x->count * sizeof(element));
    return x;
}

dense *dense_copy(arena *a, const dense *x)
{
    dense *copy = dense_new(a, x->dtype, x->ndim, x->shape);
    element *at = copy->at;
    *copy = *x;
    copy->at = at;
    memcpy(at, x->at, (size_t)x->count * sizeof(element));
    if (x->slack != NULL) {
        copy->slack = arena_get(a, (size_t)x->count * sizeof(double));
        memcpy(copy->slack, x->slack, (size_t)x->count * sizeof(double));
    }
    return copy;
}

void dense_allow(arena *a, dense *x, int64_t i, double slack)
{
    if (slack > 0 || slack != slack) {
        if (x->slack == NULL) {
            x->slack = arena_get(a, (size_t)x->count * sizeof(double));
        }
        slack = slack != slack ? (double)INFINITY : slack;
        x->slack[i] = slack > x->slack[i] ? slack : x->slack[i];
    }
}

/* ---- types --------------------------------------------------------------------------------------------- */

bool is_floating(weft_dtype dtype)
{
    return dtype <= WEFT_F16;
}

int digits_of(weft_dtype dtype)
{
    return dtype == WEFT_F64    ? 53
           : dtype == WEFT_F32  ? 24
           : dtype == WEFT_F16  ? 11
           : dtype == WEFT_BF16 ? 8
                                : 63;
}

weft_dtype arithmetic_type(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? WEFT_F64 : is_floating(dtype) ? WEFT_F32 : WEFT_I64;
}

/* To `digits` bits, ties to even; 2^least is the exponent below which precision is lost. */
static double round_to_digits(double x, int digits, int least, double largest)
{
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    int exponent = ilogb(x);
    double unit = ldexp(1, (exponent < least ? least : exponent) - digits + 1);
    double nearest = nearbyint(x / unit) * unit;
    return fabs(nearest) > largest ? copysign((double)INFINITY, x) : copysign(nearest, x);
}

double rounded(weft_dtype dtype, double x)
{
    switch (dtype) {
    case WEFT_F64:
        return x;
    case WEFT_F32:
        return (double)(float)x;
    case WEFT_BF16:
        return round_to_digits((double)(float)x, 8, -126, 0x1.fep127);
    default:
        return round_to_digits((double)(float)x, 11, -14, 65504);
    }
}

bool lacks_sign(weft_dtype dtype)
{
    return dtype == WEFT_U8 || dtype == WEFT_U16 || dtype == WEFT_U32 || dtype == WEFT_U64 || dtype == WEFT_BOOL;
}

int64_t wrapped(weft_dtype dtype, int64_t x)
{
    switch (dtype) {
    case WEFT_I8:
        return (int8_t)(uint8_t)(uint64_t)x;
    case WEFT_I16:
        return (int16_t)(uint16_t)(uint64_t)x;
    case WEFT_U16:
        return (uint16_t)(uint64_t)x;
    case WEFT_U32:
        return (uint32_t)(uint64_t)x;
    case WEFT_I32:
        return (int32_t)(uint32_t)(uint64_t)x;
    case WEFT_U8:
        return (uint8_t)(uint64_t)x;
    case WEFT_BOOL:
        return x != 0;
    default:
        return x;
    }
}

static int64_t clamped(double x, int64_t least, int64_t most)
{
    return x != x ? 0 : x <= (double)least ? least : x >= (double)most ? most : (int64_t)x;
}

static int64_t whole_of(weft_dtype to, double x)
{
    switch (to) {
    case WEFT_I32:
        return clamped(x, INT32_MIN, INT32_MAX);
    case WEFT_I8:
        return clamped(x, INT8_MIN, INT8_MAX);
    case WEFT_I16:
        return clamped(x, INT16_MIN, INT16_MAX);
    case WEFT_U16:
        return clamped(x, 0, UINT16_MAX);
    case WEFT_U32:
        return clamped(x, 0, UINT32_MAX);
    case WEFT_U8:
        return clamped(x, 0, UINT8_MAX);
    case WEFT_BOOL:
        return x != 0;
    case WEFT_U64:
        return x >= 0x1p64 ? -1 : x > 0 ? (int64_t)(uint64_t)x : 0;
    default:
        return clamped(x, INT64_MIN, INT64_MAX);
    }
}

element converted(weft_dtype to, weft_dtype from, element x)
{
    if (from == WEFT_U64 && is_floating(to)) {
        return (element){ .real = to == WEFT_F64 ? (double)(uint64_t)x.whole : rounded(to, (double)(float)(uint64_t)x.whole) };
    }
    if (!is_floating(from)) {
        return is_floating(to) ? (element){ .real = to == WEFT_F64 ? (double)x.whole
                                                                   : rounded(to, (double)(float)x.whole) }
                               : (element){ .whole = wrapped(to, x.whole) };
    }
    return is_floating(to) ? (element){ .real = rounded(to, x.real) }
                           : (element){ .whole = whole_of(to, x.real) };
}

double number_of(weft_dtype dtype, element x)
{
    return is_floating(dtype) ? x.real : dtype == WEFT_U64 ? (double)(uint64_t)x.whole : (double)x.whole;
}

/* ---- formats ------------------------------------------------------------------------------------------- */

static double f16_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static uint16_t f16_of_double(double x)
{
    unsigned sign = signbit(x) ? 0x8000u : 0;
    double value = fabs(x);
    if (x != x) {
        return 0x7e00u;
    }
    if (value > 65504) {
        return (uint16_t)(sign | 0x7c00u);
    }
    if (value < 0x1p-14) {
        return (uint16_t)(sign | (unsigned)ldexp(value, 24));
    }
    int exponent = ilogb(value);
    return (uint16_t)(sign | (unsigned)(exponent + 15) << 10 |
                      ((unsigned)ldexp(value, 10 - exponent) & 1023u));
}

static double bf16_to_double(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

static uint16_t bf16_of_double(double x)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return x != x ? 0x7fc0u : (uint16_t)(bits >> 16);
}

element element_load(weft_dtype dtype, const void *memory, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        return (element){ .real = ((const double *)memory)[i] };
    case WEFT_F32:
        return (element){ .real = (double)((const float *)memory)[i] };
    case WEFT_BF16:
        return (element){ .real = bf16_to_double(((const uint16_t *)memory)[i]) };
    case WEFT_F16:
        return (element){ .real = f16_to_double(((const uint16_t *)memory)[i]) };
    case WEFT_I64:
    case WEFT_U64: /* modulo 2^64 */
        return (element){ .whole = ((const int64_t *)memory)[i] };
    case WEFT_I32:
        return (element){ .whole = ((const int32_t *)memory)[i] };
    case WEFT_I8:
        return (element){ .whole = ((const int8_t *)memory)[i] };
    case WEFT_I16:
        return (element){ .whole = ((const int16_t *)memory)[i] };
    case WEFT_U16:
        return (element){ .whole = ((const uint16_t *)memory)[i] };
    case WEFT_U32:
        return (element){ .whole = ((const uint32_t *)memory)[i] };
    default:
        return (element){ .whole = ((const uint8_t *)memory)[i] };
    }
}

void element_store(weft_dtype dtype, void *memory, int64_t i, element x)
{
    switch (dtype) {
    case WEFT_F64:
        ((double *)memory)[i] = x.real;
        break;
    case WEFT_F32:
        ((float *)memory)[i] = (float)x.real;
        break;
    case WEFT_BF16:
        ((uint16_t *)memory)[i] = bf16_of_double(x.real);
        break;
    case WEFT_F16:
        ((uint16_t *)memory)[i] = f16_of_double(x.real);
        break;
    case WEFT_I64:
    case WEFT_U64:
        ((int64_t *)memory)[i] = x.whole;
        break;
    case WEFT_I32:
    case WEFT_U32:
        ((uint32_t *)memory)[i] = (uint32_t)x.whole;
        break;
    case WEFT_I16:
    case WEFT_U16:
        ((uint16_t *)memory)[i] = (uint16_t)x.whole;
        break;
    default:
        ((uint8_t *)memory)[i] = (uint8_t)x.whole;
        break;
    }
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

bool dense_accepts(const dense *x, int64_t i, element got)
{
    double slack = x->slack == NULL ? 0 : x->slack[i];
    if (slack == (double)INFINITY) {
        return true;
    }
    if (!is_floating(x->dtype)) {
        return got.whole == x->at[i].whole ||
               (slack > 0 && fabs((double)got.whole - (double)x->at[i].whole) <= slack);
    }
    double want = x->at[i].real;
    if (got.real == want) {
        return want != 0 || !x->signed_zeros || slack > 0 || !signbit(got.real) == !signbit(want);
    }
    return (got.real != got.real && want != want) || fabs(got.real - want) <= slack;
}

void unravel(int ndim, const int64_t shape[], int64_t i, int64_t at[])
{
    for (int d = ndim - 1; d >= 0; d--) {
        at[d] = i % shape[d];
        i /= shape[d];
    }
}

int64_t ravel(int ndim, const int64_t shape[], const int64_t at[])
{
    int64_t i = 0;
    for (int d = 0; d < ndim; d++) {
        i = i * shape[d] + at[d];
    }
    return i;
}

/* ---- what is known of all elements --------------------------------------------------------------------- */

bool dense_is_finite(const dense *x)
{
    for (int64_t i = 0; is_floating(x->dtype) && i < x->count; i++) {
        if (!isfinite(x->at[i].real)) {
            return false;
        }
    }
    return true;
}

double dense_mass(const dense *x)
{
    double mass = x->partial ? x->mass : 0;
    for (int64_t i = 0; !x->partial && i < x->count; i++) {
        double value = fabs(number_of(x->dtype, x->at[i]));
        mass = isfinite(value) && value > mass ? value : mass;
    }
    return mass;
}

double dense_unit(const dense *x)
{
    if (x->partial || !is_floating(x->dtype)) {
        return x->partial ? x->unit : 1;
    }
    double unit = 1;
    for (int64_t i = 0; i < x->count && unit > 0x1p-60; i++) {
        double value = x->at[i].real;
        while (isfinite(value) && unit > 0x1p-60 && value / unit != nearbyint(value / unit)) {
            unit /= 2;
        }
    }
    return unit > 0x1p-60 ? unit : 0;
}

bool dense_is_vague(const dense *x)
{
    return x->partial && is_floating(x->dtype) &&
           (x->unit == 0 || x->mass > x->unit * ldexp(1, digits_of(x->dtype)));
}
