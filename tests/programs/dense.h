/* Dense arrays of all element types, for the reference. */
#ifndef WEFT_TESTS_DENSE_H
#define WEFT_TESTS_DENSE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/base.h>

/* Memory that is freed all at once. */
typedef struct arena {
    struct arena_block *newest;
} arena;

void *arena_get(arena *a, size_t size);
void arena_free(arena *a);

/* `real` for floating types, else `whole`. */
typedef union element {
    double real;
    int64_t whole;
} element;

typedef struct dense {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t count;
    element *at; /* row-major; values of the type */
    /* NULL: each element is exact. Else what each may differ by; INFINITY: it may be anything. */
    double *slack;
    bool inexact;      /* the value, or one that it was computed from, is inexact */
    bool derived;      /* the numbers of values that it was computed from */
    bool undefined;    /* nothing has been written to it yet */
    bool signed_zeros; /* whether a zero is -0 is known; else either is right */
    /* For unreduced sums and averages (run.c detects them): no element is the reduction of addends whose
     * magnitudes exceed `mass` in total, and all are multiples of `unit` (0: unknown). */
    bool partial;
    double mass, unit;
    bool factors; /* a Partial product */
} dense;

int64_t count_of(int ndim, const int64_t shape[]);
/* Zeros. */
dense *dense_new(arena *a, weft_dtype dtype, int ndim, const int64_t shape[]);
dense *dense_copy(arena *a, const dense *x);
/* Lets an element be off by this much, at least. */
void dense_allow(arena *a, dense *x, int64_t i, double slack);

bool is_floating(weft_dtype dtype);
/* Unsigned integers and truth values. */
bool lacks_sign(weft_dtype dtype);
/* Bits of the significand; 2^-digits is half an ulp of 1. */
int digits_of(weft_dtype dtype);
/* The type of arithmetic: WEFT_F32 for 16 bits, WEFT_I64 for integers and WEFT_BOOL. */
weft_dtype arithmetic_type(weft_dtype dtype);

/* The nearest value of a floating type; single precision comes between for 16 bits. */
double rounded(weft_dtype dtype, double x);
/* The integer modulo 2^bits; of WEFT_BOOL: whether it is not 0. */
int64_t wrapped(weft_dtype dtype, int64_t x);
/* weft_to_type() of one value. */
element converted(weft_dtype to, weft_dtype from, element x);
/* As a number, whatever the type; integers are rounded. */
double number_of(weft_dtype dtype, element x);

/* To and from memory in the type's format. */
element element_load(weft_dtype dtype, const void *memory, int64_t i);
void element_store(weft_dtype dtype, void *memory, int64_t i, element x);

/* Whether `got` is what element i may be. */
bool dense_accepts(const dense *x, int64_t i, element got);

/* The coordinates of element i, and the reverse. */
void unravel(int ndim, const int64_t shape[], int64_t i, int64_t at[]);
int64_t ravel(int ndim, const int64_t shape[], const int64_t at[]);

/* The largest magnitude (of finite elements), and the largest power of two that all finite elements are
 * multiples of, at most 1. Of partial ones: mass and unit. */
double dense_mass(const dense *x);
double dense_unit(const dense *x);
bool dense_is_finite(const dense *x);
/* Partial, and its addends do not add up exactly: how it is reduced shows in the value. */
bool dense_is_vague(const dense *x);

#endif
