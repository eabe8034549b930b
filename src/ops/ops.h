/* src/ops: one file per family of operations; each operation is a constant (what it is, its rule, how it is
 * linear), a kernel or a lowering, and a public function that puts the call together. docs/operations.md
 * tells how to add one. */
#ifndef WEFT_SRC_OPS_H
#define WEFT_SRC_OPS_H

#include <weft/ops.h>

#include "dispatch/dispatch.h"

/* The operations of each file; lists end with NULL. */
extern const weft_operation *const weft_attention_operations[];
extern const weft_operation *const weft_attention_backward_operations[];
extern const weft_operation *const weft_attention_ring_operations[];
extern const weft_operation *const weft_compare_operations[];
extern const weft_operation *const weft_composite_operations[];
extern const weft_operation *const weft_concat_operations[];
extern const weft_operation *const weft_convolution_operations[];
extern const weft_operation *const weft_elementwise_operations[];
extern const weft_operation *const weft_embedding_operations[];
extern const weft_operation *const weft_extremum_operations[];
extern const weft_operation *const weft_indexing_operations[];
extern const weft_operation *const weft_loss_operations[];
extern const weft_operation *const weft_matmul_operations[];
extern const weft_operation *const weft_norm_operations[];
extern const weft_operation *const weft_optimizer_operations[];
extern const weft_operation *const weft_flip_roll_operations[];
extern const weft_operation *const weft_random_operations[];
extern const weft_operation *const weft_reduction_operations[];
extern const weft_operation *const weft_reshape_operations[];
extern const weft_operation *const weft_scan_operations[];
extern const weft_operation *const weft_shape_operations[];
extern const weft_operation *const weft_slice_operations[];
extern const weft_operation *const weft_softmax_operations[];
extern const weft_operation *const weft_sorting_operations[];

/* The sum of |a|^p over all elements, p finite and above 0: a scalar in f64 for f64, else in f32; Partial
 * where a is sharded. a is a live tensor of a floating type. */
weft_tensor *weft_sum_of_powers(const char *function, weft_tensor *a, double p);

/* Drops dimensions of size 1, bit d of the mask for dimension d; every placement stays on its dimension. */
weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask);
/* The tensor itself, with one more reference: what a call returns that changes nothing. */
weft_tensor *weft_itself(const char *function, weft_tensor *a);
/* What a call that has nothing to do returns: a tensor of its own, on the same memory where that can be. */
weft_tensor *weft_same(const char *function, weft_tensor *a);
/* weft_unsqueeze() of a live tensor. */
weft_tensor *weft_unsqueeze_dim(const char *function, weft_tensor *a, int dim);
/* Writes `part` into `target`, from index `start` of a dimension on. False with the error kept. */
bool weft_put_part(const char *function, weft_tensor *target, weft_tensor *part, int dim, int64_t start);

/* ---- what operations that are put together from others share (compound.c) ------------------------------ */

/* 0 <= result < ndim, or -1 with the error kept: a is not a live tensor, or has no such dimension. */
int weft_check_dim_of(const char *function, weft_tensor *a, int dim);
/* Closes a composite and keeps the result (or NULL) beyond it. */
weft_tensor *weft_leave_scope(weft_tensor *result);
/* Calls an operation with two outputs: returns the first one; the second one goes to *second, and nowhere for NULL. NULL
 * with the error kept. */
weft_tensor *weft_dispatch_pair(const weft_call *call, weft_tensor **second);
/* A new tensor with undefined values. */
weft_tensor *weft_new_tensor(const char *function, const weft_layout *layout);
/* weft_tensor_to_layout() of a live tensor. */
weft_tensor *weft_in_layout(const char *function, weft_tensor *tensor, const weft_layout *layout);
/* The tensor with no Partial and with dimension `whole` (-1: none) not sharded: what several operations on
 * the same values begin with, so that these are reduced and moved once. NULL with the error kept. */
weft_tensor *weft_unshard_dim(const char *function, weft_tensor *a, int whole);
/* The type in which values of a type are added up: WEFT_F32 of 16 bits, else itself. */
weft_dtype weft_wide_type(weft_dtype dtype);
/* weft_dispatch() of an operation with the output type WEFT_TYPE_GIVEN, which gets the type of input 0. Of the operation
 * itself: where that is of 16 bits, it is computed as WEFT_F32 and then rounded. */
weft_tensor *weft_dispatch_sum(const weft_call *call);
bool weft_sum_is_rounded(const weft_call_layouts *call);
bool weft_expand_rounded_sum(const weft_call *call, weft_tensor *outputs[]);
#define WEFT_ROUNDED_SUM                                                                                     \
    .expand = weft_expand_rounded_sum, .expands = weft_sum_is_rounded, .passes_scalars = true
/* `result`, of a call with these indices; where it has no elements, and hence no tasks that would see that
 * one is not in 0 .. size - 1, behind tasks that do. NULL for NULL, or with the error kept. */
weft_tensor *weft_with_checked_indices(const char *function, weft_tensor *result, weft_tensor *indices,
                                       int64_t size);
/* Elements along a dimension: weft_gather() of arguments that fit. */
weft_tensor *weft_look_up(const char *function, weft_tensor *a, int dim, weft_tensor *indices);

#endif
