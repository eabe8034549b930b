/* Operands of all types, with references for operations that only move elements. */
#ifndef WEFT_TESTS_TYPED_OPERAND_H
#define WEFT_TESTS_TYPED_OPERAND_H

#include "operand.h"

/* A random tensor of any type: `tensor`, made of `base`, which has the same values in a type that operands
 * have. */
typedef struct typed {
    operand base;
    weft_dtype dtype;
    weft_tensor *tensor;
} typed;

weft_dtype any_type(void);
bool is_floating(weft_dtype dtype);

/* Small whole numbers, which the dense ones are without rounding. */
typed make_typed(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[]);
/* Some values become special. */
void sprinkle(typed *t, bool infinities);
/* After the dense values have changed. */
void realise_typed(typed *t);
/* Whole numbers of which addends may be rounded; make_any(): of any type. */
typed make_any_of(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[]);
typed make_any(weft_mesh *mesh, int ndim, const int64_t shape[]);
/* The tensor in a random layout without Partial. */
weft_tensor *whole_somehow(weft_tensor *tensor, weft_mesh *mesh, int ndim);

/* Asserts the type, the shape and the exact values. */
void check_typed(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[],
                 const double *expected, const char *what);
/* Asserts that the result has x's type, this shape and these values, as exactly as x is. */
void check_any(weft_tensor *result, const typed *x, int ndim, const int64_t shape[], const double *expected,
               const char *what);

/* Row-major number of an element. */
int64_t flat(int ndim, const int64_t shape[], const int64_t index[]);
/* The dense input's element for an element of a result, by index; -1: 0. */
typedef int64_t (*source_function)(const typed *x, const int64_t index[], const void *how);
void check_moved(weft_tensor *result, const typed *x, int ndim, const int64_t shape[],
                 source_function source_of, const void *how, const char *what);
/* The same elements in the same order. */
void check_same(weft_tensor *result, const typed *x, int ndim, const int64_t shape[], const char *what);
/* Writes to a result do not show in its inputs. */
void check_unchanged(weft_tensor *result, const typed *x);

/* A random shape of at least `least` dimensions. */
int shape_of_at_least(int least, int most, int64_t shape[]);
/* 0 .. ndim - 1, sometimes counted from the end. */
int spelled(int dim, int ndim);

#endif
