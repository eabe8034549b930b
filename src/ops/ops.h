/* src/ops: one file per family of operations; each operation is a constant (what it is, its rule, how it is
 * linear), a kernel or a lowering, and a public function that puts the call together. docs/operations.md tells how
 * to add one. */
#ifndef WEFT_SRC_OPS_H
#define WEFT_SRC_OPS_H

#include <weft/ops.h>

#include "dispatch/dispatch.h"

/* The operations of each file; lists end with NULL. */
extern const weft_operation *const weft_elementwise_operations[];
extern const weft_operation *const weft_embedding_operations[];
extern const weft_operation *const weft_loss_operations[];
extern const weft_operation *const weft_matmul_operations[];
extern const weft_operation *const weft_norm_operations[];
extern const weft_operation *const weft_reshape_operations[];
extern const weft_operation *const weft_reduction_operations[];
extern const weft_operation *const weft_softmax_operations[];

/* Drops dimensions of size 1, bit d of the mask for dimension d; every placement stays on its dimension. */
weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask);

#endif
