#include "ops/ops.h"

const weft_operation *const *const weft_operation_families[] = {
    weft_elementwise_operations,    weft_unary_operations,
    weft_matmul_operations,
    weft_convolution_operations,    weft_attention_operations,
    weft_attention_ring_operations, weft_attention_backward_operations,
    weft_reduction_operations,      weft_extremum_operations,       weft_shape_operations,
    weft_slice_operations,          weft_flip_roll_operations,
    weft_embedding_operations,      weft_reshape_operations,
    weft_indexing_operations,       weft_scan_operations,
    weft_sorting_operations,        weft_compare_operations,
    weft_random_operations,         weft_optimizer_operations,
    weft_softmax_operations,        weft_norm_operations,
    weft_loss_operations,           weft_composite_operations,
    weft_concat_operations,         NULL,
};
