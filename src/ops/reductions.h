/* What reductions share with operations that are put together from them. */
#ifndef WEFT_SRC_OPS_REDUCTIONS_H
#define WEFT_SRC_OPS_REDUCTIONS_H

#include "ops/ops.h"

/* Numbers of a call. */
enum {
    WEFT_REDUCTION_MASK, /* bit d for each dimension that is reduced */
    WEFT_REDUCTION_KEEPS /* they stay with size 1 */
};

typedef struct weft_reduction {
    const char *function;
    const weft_operation *operation;
    weft_tensor *a, *centre; /* centre: of differences, or the value that is sought, or NULL */
    int64_t mask;
    bool keepdim;
    weft_dtype type; /* of WEFT_TYPE_GIVEN */
    double scale;    /* of the result; 0: none */
    double p;        /* the power */
} weft_reduction;

weft_tensor *weft_reduce(const weft_reduction *r);

/* The largest, or the smallest, value; the first index of `centre`. */
extern const weft_operation *const weft_reduction_max, *const weft_reduction_min, *const weft_reduction_place;

/* The reduced dimensions: bit d for dimension d. -1 with the error kept. num_dims 0, or WEFT_ALL_DIMS alone: all. */
int64_t weft_check_reduced_dims(const char *function, weft_tensor *a, int num_dims, const int dims[]);
/* False with the error kept: one of them has size 0. */
bool weft_check_reduced_sizes(const char *function, const weft_tensor *a, int64_t mask);

/* The rows are reduced into one: with more dimensions kept behind it, the result would be cut along these,
 * and every panel of it would go through all rows by itself. So they stay one row, of which the result is a
 * view. */
bool weft_reduction_drops_rows(const weft_call_layouts *call);

#endif
