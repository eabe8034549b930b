/* The vectors of a view: its elements along some consecutive dimensions, one vector for each index of the
 * others. */
#ifndef WEFT_CODELETS_CPU_VECTORS_H
#define WEFT_CODELETS_CPU_VECTORS_H

#include <weft/kernel.h>

#include "codelets/problems.h"

typedef struct weft_vectors {
    const weft_view *view;
    int first;       /* first dimension; 0: a vector extends over all rows */
    int64_t count;   /* number of vectors, in row-major order of the other dimensions */
    int64_t length;  /* elements of a vector */
    int64_t step;    /* distance of its elements inside a row */
    int64_t outer;   /* indices within a row of the dimensions before `first` */
    int64_t per_row; /* elements of a vector in one row */
    char *whole;     /* vector 0, where all vectors follow each other in memory; else NULL */
} weft_vectors;

/* Along dimensions first .. last; a view without dimensions has one vector of one element. */
weft_vectors weft_vectors_along(const weft_view *view, int first, int last);

/* Vector `index` as `arithmetic` (WEFT_F32 or WEFT_F64): in place, or copied into `buffer`. */
const void *weft_vector_load(const weft_vectors *vectors, weft_dtype arithmetic, int64_t index, void *buffer);
/* Memory for computing vector `index` of an output: in place, or `buffer`; then call weft_vector_store(). */
void *weft_vector_target(const weft_vectors *vectors, weft_dtype arithmetic, int64_t index, void *buffer);
void weft_vector_store(const weft_vectors *vectors, weft_dtype arithmetic, int64_t index, const void *values);

/* Element `index` (row-major) of a view of any floating or index type. */
double weft_view_value(const weft_view *view, int64_t index);
int64_t weft_view_whole(const weft_view *view, int64_t index);
void weft_view_set(const weft_view *view, int64_t index, double value);

/* The same of elements first .. first + count - 1, as `arithmetic`: WEFT_F64, WEFT_F32 or WEFT_I64. For a value of each
 * row, where finding one takes as long as some dozens of operations. */
void weft_view_load_part(const weft_view *view, weft_dtype arithmetic, int64_t first, int64_t count, void *target);
void weft_view_store_part(const weft_view *view, weft_dtype arithmetic, int64_t first, int64_t count, const void *source);

/* Loads a whole view as `arithmetic`, row-major, into memory for weft_view_count() elements; and stores
 * it. */
void weft_view_load(const weft_view *view, weft_dtype arithmetic, void *target);
void weft_view_store(const weft_view *view, weft_dtype arithmetic, const void *source);

void weft_view_set_to_zero(const weft_view *view);
/* Memory is short: says so, and sets all outputs to zero, which later kernels may read (codelets/args.h). */
void weft_kernel_lacks_memory(const weft_kernel_call *call, weft_problem problem, int64_t value);

/* The type in which a kernel computes on a floating type. */
static inline weft_dtype weft_float_arithmetic(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

#endif
