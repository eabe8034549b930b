/* Shared by norms and what is computed from them (vector_norms.c). */
#ifndef WEFT_SRC_OPS_VECTOR_NORMS_H
#define WEFT_SRC_OPS_VECTOR_NORMS_H

#include "ops/ops.h"

/* The power of two in f64 by which numbers up to `largest` are multiplied so that their powers stay in range, element by
 * element. */
weft_tensor *weft_range_scale_of(const char *function, weft_tensor *largest);

/* The norm, p > 0, of the elements of all tensors together, replicated: in f64, which has the norm of many large elements too;
 * the largest absolute value (p infinite) in the tensors' type. They are live, of floating types. */
weft_tensor *weft_norm_of_all(const char *function, int n, weft_tensor *const tensors[], double p);
/* The calls that a norm is made of, and with them its layout, depend on this number. A composite that has norms has it among its
 * attributes: a call with another is another call, also in a graph. */
int weft_way_of_norm(double p);
/* The type that such a norm is given in. */
weft_dtype weft_type_of_norm(int n, weft_tensor *const tensors[], double p);

#endif
