#include "ops/ops.h"

const weft_operation *const weft_operation_table[] = {
    &weft_operation_add,
    &weft_operation_sub,
    &weft_operation_mul,
    &weft_operation_scale,
    &weft_operation_add_in_place,
    &weft_operation_relu,
    &weft_operation_relu_backward,
    &weft_operation_gelu,
    &weft_operation_gelu_backward,
    &weft_operation_matmul,
    &weft_operation_sum,
    &weft_operation_sum_all,
    &weft_operation_embedding,
    &weft_operation_embedding_backward,
    &weft_operation_cross_entropy,
    &weft_operation_cross_entropy_backward,
    &weft_operation_reshape,
    &weft_operation_squeeze,
    NULL,
};
