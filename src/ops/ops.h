/* src/ops: one file per family of operations. Each operation is a constant (rule, types, linearity), a
 * kernel or a lowering, and a public function that makes the call. CONTRIBUTING.md describes how to
 * add one. */
#ifndef WEFT_SRC_OPS_H
#define WEFT_SRC_OPS_H

#include "ops/backward.h"
#include "ops/gradient.h"

/* The operations of each file; lists end with NULL. */
#define FAMILY(name) extern const weft_operation *const weft_##name##_operations[];
#include "ops/families.inc"
#undef FAMILY

/* Types of elements that are only moved: those without arithmetic, too. */
#define WEFT_TYPES_MOVED (WEFT_TYPES_ANY | WEFT_TYPES_STORED)

/* Removes dimensions of size 1 (bit d: dimension d); placements follow their dimensions. */
weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask);
/* The tensor with one more reference: the result of a call that changes nothing. */
weft_tensor *weft_itself(const char *function, weft_tensor *a);
/* A tensor of its own with a's values, on the same memory if possible: the result of a call with nothing
 * to compute. */
weft_tensor *weft_same(const char *function, weft_tensor *a);
/* `a` broadcast to a layout's shape, and in its placements where that moves nothing: it will meet a tensor there. */
weft_tensor *weft_expand_beside(weft_tensor *a, const weft_layout *beside);
/* weft_unsqueeze() of a live tensor. */
weft_tensor *weft_unsqueeze_dim(const char *function, weft_tensor *a, int dim);
/* Writes `part` into `target` from index `start` of a dimension on. False with the error kept. */
bool weft_put_part(const char *function, weft_tensor *target, weft_tensor *part, int dim, int64_t start);

/* For gradients that are differentiated again (gradients_second.c): those of prod, of cumprod, of pow by its base.
 * `gradient` has size 1 in prod's dimensions. */
weft_tensor *weft_prod_gradient(weft_tensor *gradient, weft_tensor *a, int num_dims, const int dims[]);
weft_tensor *weft_cumprod_gradient(weft_tensor *gradient, weft_tensor *a, int dim);
weft_tensor *weft_base_gradient(weft_tensor *gradient, weft_tensor *a, weft_tensor *b);

/* Whether a call converts to another type (weft_to_type()). */
bool weft_is_conversion(const weft_call *call);
/* Whether a call takes consecutive indices of a dimension (weft_slice(), weft_select()). */
bool weft_is_slice(const weft_call *call);
/* For the gradient of such a call: adds `part`, of the result's shape, to the slice of `whole`, of the input's. False
 * with the error kept. */
bool weft_add_to_slice(const weft_call *call, weft_tensor *whole, weft_tensor *part);

/* ---- shared by composites (common.c) ---------------------------------------------------------------------- */

/* Makes a dimension of a live tensor nonnegative; -1 with the error kept. A scalar takes 0 and -1, as a vector of one element
 * does: the result is then 0, and the layout has no such dimension. */
int weft_wrap_dim(const char *function, const char *argument, const weft_tensor *a, int dim);
/* The same of argument `dim`, after a check that `a` is live. */
int weft_check_dim_of(const char *function, weft_tensor *a, int dim);
/* The dimension of a live tensor as 0 .. ndim - 1, for calls that take no scalar; -1 with the error kept. */
int weft_check_own_dim(const char *function, const char *argument, const weft_tensor *a, int dim);
/* Broadcasts a shape with that of another live tensor. False with the error kept. */
bool weft_check_broadcast(const char *function, const char *name, const weft_layout *layout, int *ndim, int64_t shape[]);
/* Whether a live tensor has one of these types, whose names `expected` has; false with the error kept. */
bool weft_check_type(const char *function, const char *name, weft_tensor *tensor, unsigned types, const char *expected);
/* Calls an operation with two outputs: returns the first; the second goes to *second, or is not computed for
 * NULL. NULL with the error kept. */
weft_tensor *weft_dispatch_pair(const weft_call *call, weft_tensor **second);
/* A new tensor with undefined values. */
weft_tensor *weft_new_tensor(const char *function, const weft_layout *layout);
/* A new tensor filled by an operation in place, whose only input it is; layout NULL: wrong arguments, the error is kept.
 * The operation expands by weft_expand_new() where weft_fills_new(), and passes its scalars. */
weft_tensor *weft_fill_new(const char *function, const weft_operation *operation, const weft_layout *layout,
                           const double scalars[WEFT_MAX_SCALARS]);
bool weft_fills_new(const weft_call_layouts *call);
bool weft_expand_new(const weft_call *call, weft_tensor *outputs[]);
/* weft_tensor_access() of a live tensor. */
weft_tensor *weft_through_map(const char *function, weft_tensor *tensor, const weft_access_map *access_map);
/* weft_tensor_to_layout() of a live tensor. */
weft_tensor *weft_in_layout(const char *function, weft_tensor *tensor, const weft_layout *layout);
/* The tensor without Partial, and not sharded along dimension `whole` (-1: none): redistributed once for
 * several operations on the same values. NULL with the error kept. */
weft_tensor *weft_unshard_dim(const char *function, weft_tensor *a, int whole);
/* The type of sums over a type: WEFT_F32 for 16 bits, else itself. */
weft_dtype weft_wide_type(weft_dtype dtype);
/* weft_dispatch() of an operation with output type WEFT_TYPE_GIVEN, set to the type of input 0: for 16
 * bits the result is computed as WEFT_F32 and rounded afterwards. */
weft_tensor *weft_dispatch_sum(const weft_call *call);
/* The same without rounding. */
weft_tensor *weft_dispatch_wide_sum(const weft_call *call);
bool weft_sum_is_rounded(const weft_call_layouts *call);
bool weft_expand_rounded_sum(const weft_call *call, weft_tensor *outputs[]);
#define WEFT_ROUNDED_SUM                                                                                     \
    .expand = weft_expand_rounded_sum, .expands = weft_sum_is_rounded, .passes_scalars = true
/* `result` of a call with these indices. If it has no elements, so that no task checks indices against [0,
 * size), orders it after tasks that do. NULL for NULL, or with the error kept. */
weft_tensor *weft_with_checked_indices(const char *function, weft_tensor *result, weft_tensor *indices,
                                       int64_t size);
/* Sums of the source's elements, each at its index of a dimension of this size: zeros where there is none. 16-bit sums are
 * WEFT_F32. */
weft_tensor *weft_scatter_to(const char *function, weft_tensor *source, int dim, weft_tensor *indices, int64_t size);
/* False with the error kept: no reduction. */
bool weft_check_loss_reduction(const char *function, weft_loss_reduction reduction);
/* The source's elements, combined at their indices of a dimension of this size; the neutral value where there is none.
 * `together`: the indices are for whole slices. 16-bit types become WEFT_F32. Reports indices that are out of range. */
weft_tensor *weft_scatter_by(const char *function, weft_reduce_op op, weft_tensor *source, int dim, bool together,
                             weft_tensor *indices, int64_t size);
/* Elements along a dimension: weft_gather() with checked arguments, or weft_index_select(). */
weft_tensor *weft_look_up(const char *function, weft_tensor *a, int dim, bool together, weft_tensor *indices);
/* The arguments of functions that scatter; `together`: as weft_index_add() does. */
typedef struct weft_scattering {
    const char *function;
    weft_tensor *a;
    int dim;
    weft_tensor *indices, *source;
    bool together, in_place;
} weft_scattering;
/* Makes `dim` nonnegative; false with the error kept. Shapes of indices are left to the rule. */
bool weft_check_scattering(weft_scattering *x);

/* Kinds of calls along dimension 0 of a scalar (scalar_indexing.c). */
typedef enum weft_scalar_call {
    WEFT_SCALAR_LOOK_UP,
    WEFT_SCALAR_ADD,
    WEFT_SCALAR_FILL,
    WEFT_SCALAR_COPY,
    WEFT_SCALAR_REDUCE
} weft_scalar_call;
/* Makes the call for a live scalar x->a: the other tensors are scalars or vectors. reduction, includes: of
 * WEFT_SCALAR_REDUCE; value: of WEFT_SCALAR_FILL. NULL with the error kept. */
weft_tensor *weft_index_scalar(const weft_scattering *x, weft_scalar_call kind, weft_reduce_op reduction, bool includes,
                               double value);
/* The only element along dimension 0 of a live scalar, and its index, 0 (extrema.c, reductions.c). */
weft_tensor *weft_only_element(const char *function, weft_tensor *scalar, weft_tensor **indices);
weft_tensor *weft_only_index(const char *function, weft_tensor *scalar);
/* A live scalar in the type of sums over it. */
weft_tensor *weft_only_sum(const char *function, weft_tensor *scalar);

#endif
