/* Loops over the rows of sparse matrices, for each type. */
#include "codelets/sparse.h"

#include <complex.h>

#include "codelets/cpu/clones.h"

/* By parts: C's own product of complex numbers looks after infinities, in a function. clang has no CMPLX() with every C library. */
static inline float complex multiply_c64(float complex a, float complex b)
{
    const union {
        float parts[2];
        float complex value;
    } product = { { crealf(a) * crealf(b) - cimagf(a) * cimagf(b), crealf(a) * cimagf(b) + cimagf(a) * crealf(b) } };
    return product.value;
}

static inline double complex multiply_c128(double complex a, double complex b)
{
    const union {
        double parts[2];
        double complex value;
    } product = { { creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b) } };
    return product.value;
}

/* The column of the whole matrix of entry i, where own and others name columns. */
static inline int64_t column_of(const weft_sparse_part *p, int64_t i)
{
    const int32_t number = p->numbers[i];
    return number < p->num_own ? ((const int64_t *)p->own)[number] : ((const int64_t *)p->others)[number - p->num_own];
}

#define T float
#define OF(name) name##_f32
#define MULTIPLY(a, b) ((a) * (b))
#define CONJUGATE(a) (a)
#include "codelets/cpu/sparse_rows.inc"

#define T double
#define OF(name) name##_f64
#define MULTIPLY(a, b) ((a) * (b))
#define CONJUGATE(a) (a)
#include "codelets/cpu/sparse_rows.inc"

#define T float complex
#define OF(name) name##_c64
#define MULTIPLY(a, b) multiply_c64(a, b)
#define CONJUGATE(a) conjf(a)
#include "codelets/cpu/sparse_rows.inc"

#define T double complex
#define OF(name) name##_c128
#define MULTIPLY(a, b) multiply_c128(a, b)
#define CONJUGATE(a) conj(a)
#include "codelets/cpu/sparse_rows.inc"

#define FOR_TYPE(dtype, call_f32, call_f64, call_c64, call_c128)                                                                       \
    ((dtype) == WEFT_F32 ? (call_f32) : (dtype) == WEFT_F64 ? (call_f64) : (dtype) == WEFT_C64 ? (call_c64) : (call_c128))

void weft_sparse_rows_times(const weft_sparse_part *p, int64_t first, int64_t last, void *out)
{
    if (p->width == 1) {
        FOR_TYPE(p->dtype, vector_f32(p, first, last, out), vector_f64(p, first, last, out), vector_c64(p, first, last, out),
                 vector_c128(p, first, last, out));
    } else {
        FOR_TYPE(p->dtype, rows_times_f32(p, first, last, out), rows_times_f64(p, first, last, out), rows_times_c64(p, first, last, out),
                 rows_times_c128(p, first, last, out));
    }
}

void weft_sparse_transpose_times(const weft_sparse_part *p, const void *x)
{
    FOR_TYPE(p->dtype, transpose_times_f32(p, x), transpose_times_f64(p, x), transpose_times_c64(p, x), transpose_times_c128(p, x));
}

void weft_sparse_inner_products(const weft_sparse_part *p, const void *x, bool of_x, void *out)
{
    FOR_TYPE(p->dtype, inner_products_f32(p, x, of_x, out), inner_products_f64(p, x, of_x, out), inner_products_c64(p, x, of_x, out),
             inner_products_c128(p, x, of_x, out));
}

void weft_sparse_write_dense(const weft_sparse_part *p, int64_t first, int64_t last, int64_t columns, void *out)
{
    FOR_TYPE(p->dtype, write_dense_f32(p, first, last, columns, out), write_dense_f64(p, first, last, columns, out),
             write_dense_c64(p, first, last, columns, out), write_dense_c128(p, first, last, columns, out));
}

void weft_sparse_read_dense(const weft_sparse_part *p, int64_t columns, const void *from, void *out)
{
    FOR_TYPE(p->dtype, read_dense_f32(p, columns, from, out), read_dense_f64(p, columns, from, out),
             read_dense_c64(p, columns, from, out), read_dense_c128(p, columns, from, out));
}
