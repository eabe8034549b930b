/* Shared by reductions and composites of them. */
#ifndef WEFT_SRC_OPS_REDUCTIONS_H
#define WEFT_SRC_OPS_REDUCTIONS_H

#include "ops/ops.h"

/* Numbers of a call. */
enum {
    WEFT_REDUCTION_MASK, /* bit d: dimension d is reduced */
    WEFT_REDUCTION_KEEPS /* reduced dimensions are kept with size 1 */
};

typedef struct weft_reduction {
    const char *function;
    const weft_operation *operation;
    weft_tensor *a, *centre; /* centre: subtracted, a factor, or searched for; or NULL */
    int64_t mask;
    bool keepdim;
    weft_dtype type; /* for WEFT_TYPE_GIVEN */
    double scale;    /* of the result; 0: unscaled */
    double p;        /* the power */
} weft_reduction;

weft_tensor *weft_reduce(const weft_reduction *r);

/* The sum; the largest, or the smallest, value; the first index of `centre`. */
extern const weft_operation *const weft_reduction_sum, *const weft_reduction_max, *const weft_reduction_min,
    *const weft_reduction_place;
/* Of absolute values: the sum, the largest, the sums of their squares and of their powers; the last two multiply the
 * values by `centre` first. */
extern const weft_operation *const weft_reduction_sum_abs, *const weft_reduction_max_abs, *const weft_reduction_sum_square,
    *const weft_reduction_sum_pow, *const weft_reduction_sum_square_scaled, *const weft_reduction_sum_pow_scaled;

/* Calls a composite with the numbers above. `way`: which calls it expands into, where that depends on its scalar. */
weft_tensor *weft_dispatch_reduction(const char *function, const weft_operation *operation, weft_tensor *a, int64_t mask,
                                     bool keepdim, double scalar, int way);

/* Mask of the reduced dimensions, 0 for a scalar; -1 with the error kept. dims: as in weft_sum(). */
int64_t weft_check_reduced_dims(const char *function, weft_tensor *a, int dims);
/* The same, but no set of several dimensions. */
int64_t weft_check_reduced_dim(const char *function, weft_tensor *a, int dim);
/* The set of the dimensions in a mask, and in a list; without any: all. */
int weft_dims_of_mask(int64_t mask);
int weft_set_of_dims(int num_dims, const int dims[]);
/* False with the error kept: a live tensor has no floating type. */
bool weft_check_reduced_type(const char *function, const weft_tensor *a);
/* False with the error kept: a reduced dimension has size 0. */
bool weft_check_reduced_sizes(const char *function, const weft_tensor *a, int64_t mask);

/* A call on one dimension with the numbers above, and with checked arguments; .operation NULL: the error is kept. */
weft_call weft_call_of_reduced_dim(const char *function, const weft_operation *operation, weft_tensor *a, int dim, bool keepdim);

/* The dimensions of a call with the numbers above; returns how many. */
int weft_reduced_dims(const weft_call *call, int dims[]);
/* The result of a call with the numbers above, or its gradient, with the removed dimensions restored with size 1. */
weft_tensor *weft_with_reduced_dims(const weft_gradient *of, weft_tensor *result);
/* Sums over the dimensions of a call with the numbers above, which stay with size 1. */
weft_tensor *weft_sum_again(const weft_gradient *of, weft_tensor *a);

/* Rows are reduced into one. If its other dimensions became rows, the result would be cut into panels
 * along them, each of which would read all rows. So the result has one row, and the caller gets a view of
 * it. */
bool weft_reduction_drops_rows(const weft_call_layouts *call);

/* The gradient, which has size 1 in the reduced dimensions, broadcast to input 0, in its layout where nothing has to move for it. */
weft_tensor *weft_repeat_gradient(const weft_gradient *of, weft_tensor *gradient);

/* The gradient of an operation with the numbers above that selects elements: output 1 has their indices. */
bool weft_gradient_of_selected(const weft_gradient *of);

#endif
