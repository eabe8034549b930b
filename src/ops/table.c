#include "ops/ops.h"

const weft_operation *const *const weft_operation_families[] = {
    weft_elementwise_operations, weft_matmul_operations,        weft_reduction_operations,     weft_embedding_operations,
    weft_reshape_operations,     weft_softmax_operations,       weft_norm_operations,          weft_loss_operations,
    NULL,
};
