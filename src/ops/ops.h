/* src/ops: one file per family of operations; each operation is a constant (what it is, its rule, how it is
 * linear), a lowering, and a public function that puts the call together. docs/operations.md tells how to add
 * one. */
#ifndef WEFT_SRC_OPS_H
#define WEFT_SRC_OPS_H

#include <weft/ops.h>

#include "dispatch/dispatch.h"

extern const weft_operation weft_operation_add;
extern const weft_operation weft_operation_sub;
extern const weft_operation weft_operation_mul;
extern const weft_operation weft_operation_scale;
extern const weft_operation weft_operation_add_in_place;
extern const weft_operation weft_operation_relu;
extern const weft_operation weft_operation_relu_backward;
extern const weft_operation weft_operation_gelu;
extern const weft_operation weft_operation_gelu_backward;
extern const weft_operation weft_operation_matmul;
extern const weft_operation weft_operation_sum;
extern const weft_operation weft_operation_sum_all;
extern const weft_operation weft_operation_embedding;
extern const weft_operation weft_operation_embedding_backward;
extern const weft_operation weft_operation_cross_entropy;
extern const weft_operation weft_operation_cross_entropy_backward;
extern const weft_operation weft_operation_reshape;
extern const weft_operation weft_operation_squeeze;

/* Drops dimension 0, which has size 1; every placement stays on its dimension. */
weft_tensor *weft_squeeze_first(const char *function, weft_tensor *a);

#endif
