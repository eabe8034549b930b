/* LAPACK by its Fortran interface: that of OpenBLAS, or of any other. */
#include "codelets/cpu/lapack.h"

#include <cblas.h>
#include <complex.h>
#undef I
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/complex.h"

/* Work of as many elements as LAPACK has told, in numbers of the matrix's type, which may be rounded. NULL: there is no memory, or LAPACK,
 * which counts with 32 bits, cannot count so many: what it tells may then be negative. */
static void *new_work(double told, size_t element_size, int *size)
{
    const double most = told * (1 + 0x1p-22) + 1;
    *size = told >= 0 && most < INT_MAX ? (int)most : 0;
    return *size == 0 ? NULL : malloc((size_t)*size * element_size);
}

/* Exchanges two rows of `bytes`. */
static void exchange(char *a, char *b, size_t bytes)
{
    enum { CHUNK = 512 };
    char held[CHUNK];
    for (size_t done = 0, now; done < bytes; done += now) {
        now = bytes - done < CHUNK ? bytes - done : CHUNK;
        memcpy(held, a + done, now);
        memcpy(a + done, b + done, now);
        memcpy(b + done, held, now);
    }
}

/* Exchanges row i with row pivots[i], from the first one or from the last one on. */
static void exchange_rows(char *b, int n, size_t row_bytes, const int64_t pivots[], bool backwards)
{
    for (int k = 0; k < n; k++) {
        int i = backwards ? n - 1 - k : k;
        if (pivots[i] != i) {
            exchange(b + (size_t)i * row_bytes, b + (size_t)pivots[i] * row_bytes, row_bytes);
        }
    }
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

#define IS_COMPLEX 0
#define NUMBER double
#define FACTOR(x) (x)
#define SIZE(x) fabs((double)(x))
#define REAL(x) (x)
#define CONJUGATE(x) (x)
#define FINITE(x) isfinite(x)
#define T double
#define R double
#define OF(name) name##_f64
#define LAPACK(name) d##name##_
#define CBLAS(name) cblas_d##name
#define ORTHOGONAL_COLUMNS dorgqr_
#define EIGEN dsyevd_
#include "codelets/cpu/lapack.inc"

#define T float
#define R float
#define OF(name) name##_f32
#define LAPACK(name) s##name##_
#define CBLAS(name) cblas_s##name
#define ORTHOGONAL_COLUMNS sorgqr_
#define EIGEN ssyevd_
#include "codelets/cpu/lapack.inc"

#undef IS_COMPLEX
#undef NUMBER
#undef FACTOR
#undef SIZE
#undef REAL
#undef CONJUGATE
#undef FINITE
#define IS_COMPLEX 1
#define NUMBER double _Complex
#define FACTOR(x) (&(T){ x })
#define SIZE(x) cabs(x)
#define REAL(x) creal(x)
#define CONJUGATE(x) conj(x)
#define FINITE(x) (isfinite(creal(x)) && isfinite(cimag(x)))
#define T double _Complex
#define R double
#define OF(name) name##_c128
#define LAPACK(name) z##name##_
#define CBLAS(name) cblas_z##name
#define ORTHOGONAL_COLUMNS zungqr_
#define EIGEN zheevd_
#include "codelets/cpu/lapack.inc"

#define T float _Complex
#define R float
#define OF(name) name##_c64
#define LAPACK(name) c##name##_
#define CBLAS(name) cblas_c##name
#define ORTHOGONAL_COLUMNS cungqr_
#define EIGEN cheevd_
#include "codelets/cpu/lapack.inc"

const weft_lapack *weft_lapack_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? &lapack_f64 : dtype == WEFT_F32 ? &lapack_f32 : dtype == WEFT_C128 ? &lapack_c128 : &lapack_c64;
}
