/* Gradients of elements around a tensor, of diagonals, of statistics, of losses, and of vectors of norm 1. */
#include "gradient_rows.h"

#include "ops/backward.h"

static weft_tensor *pad(weft_tensor *a, weft_pad_mode mode, double value)
{
    return weft_pad(a, mode, value, 2, (int64_t[]){ 2, 0 }, (int64_t[]){ 1, 2 });
}

CALL(call_pad_zeros, pad(x[0], WEFT_PAD_CONSTANT, 0))
CALL(call_pad, pad(x[0], WEFT_PAD_CONSTANT, 1.5))
CALL(call_pad_less, weft_pad(x[0], WEFT_PAD_CONSTANT, 0, 2, (int64_t[]){ -1, 2 }, (int64_t[]){ -2, -1 }))
CALL(call_pad_reflect, pad(x[0], WEFT_PAD_REFLECT, 0))
CALL(call_pad_replicate, pad(x[0], WEFT_PAD_REPLICATE, 0))
CALL(call_pad_circular, pad(x[0], WEFT_PAD_CIRCULAR, 0))
CALL(call_diagonal, weft_diagonal(x[0], 0, 0, 1))
CALL(call_diagonal_below, weft_diagonal(x[0], -1, 2, 0))
CALL(call_trace, weft_trace(x[0]))
CALL(call_movedims, weft_movedim(x[0], 2, (int[]){ 0, 1 }, (int[]){ 2, 0 }))
CALL(call_scatter, weft_scatter(x[0], 0, x[1], x[2]))
CALL(call_scatter_scalar, weft_scatter_scalar(x[0], 0, x[1], 1.5))
CALL(call_index_copy, weft_index_copy(x[0], 1, x[1], x[2]))
CALL(call_index_fill, weft_index_fill(x[0], 1, x[1], 1.5))
CALL(call_scatter_sum, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_SUM, false))
CALL(call_scatter_mean, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_AVG, true))
CALL(call_scatter_mean_alone, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_AVG, false))
CALL(call_scatter_prod, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_PROD, true))
CALL(call_scatter_prod_alone, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_PROD, false))
CALL(call_scatter_min, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_MIN, false))
CALL(call_scatter_max, weft_scatter_reduce(x[0], 0, x[1], x[2], WEFT_MAX, true))
CALL(call_segment_sum, weft_segment_sum(x[0], x[1], 3))
CALL(call_bincount, weft_bincount(x[0], x[1], 3))
CALL(call_einsum_product, weft_einsum("ij,jk", 2, x))
CALL(call_einsum_chain, weft_einsum("bij,jk,kb->bi", 3, x))
CALL(call_einsum_diagonal, weft_einsum("iji->ji", 1, x))
CALL(call_einsum_broadcast, weft_einsum("...i,...i", 2, x))
CALL(call_tensordot, weft_tensordot(x[0], x[1], 2, (int[]){ 0, 2 }, (int[]){ 1, 0 }))
CALL(call_median, weft_median(x[0], 1, false, NULL))
CALL(call_median_all, weft_median(x[0], WEFT_ALL_DIMS, false, NULL))
CALL(call_quantile, weft_quantile(x[0], 0.3, 0, false, WEFT_QUANTILE_LINEAR))
CALL(call_cov, weft_cov(x[0], 1))
CALL(call_std, weft_std(x[0], 1, 1, false))
CALL(call_logsumexp, weft_logsumexp(x[0], -1, true))
CALL(call_nansum, weft_nansum(x[0], 0, false))
CALL(call_nanmean, weft_nanmean(x[0], WEFT_ALL_DIMS, false))
CALL(call_max_pool, weft_max_pool(x[0], 2, &(weft_pooling){ .kernel = { 2, 3 }, .stride = { 1, 2 }, .padding = { 1, 1 } }, NULL))
CALL(call_avg_pool, weft_avg_pool(x[0], 2, &(weft_pooling){ .kernel = { 2, 3 }, .stride = { 1, 2 }, .padding = { 1, 1 } }))
CALL(call_avg_pool_inside, weft_avg_pool(x[0], 1, &(weft_pooling){ .kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .ceil_mode = true, .excludes_padding = true }))
CALL(call_adaptive_avg_pool, weft_adaptive_avg_pool(x[0], 3, (int64_t[]){ 2, 1, 3 }))
CALL(call_interpolate_nearest, weft_interpolate(x[0], 2, &(weft_interpolation){ .sizes = { 7, 3 } }))
CALL(call_interpolate_linear, weft_interpolate(x[0], 3, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_LINEAR, .sizes = { 3, 3, 2 } }))
CALL(call_interpolate_bicubic, weft_interpolate(x[0], 2, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_BICUBIC, .sizes = { 0, 3 }, .scale = { 1.5 }, .align_corners = true }))
CALL(call_adaptive_max_pool, weft_adaptive_max_pool(x[0], 1, (int64_t[]){ 3 }, NULL))
CALL(call_normalize, weft_normalize(x[0], 3, 1, 0.01))
CALL(call_cosine_similarity, weft_cosine_similarity(x[0], x[1], 0, 0.01))
CALL(call_matrix_norm, weft_matrix_norm(x[0], WEFT_MATRIX_ONE, true))
CALL(call_matrix_norm_of_rows, weft_matrix_norm(x[0], WEFT_MATRIX_MINUS_INFINITY, false))
CALL(call_frobenius, weft_matrix_norm(x[0], WEFT_MATRIX_FROBENIUS, false))
CALL(call_glu, weft_glu(x[0], 0))
CALL(call_prelu, weft_prelu(x[0], x[1]))
CALL(call_batch_norm, weft_batch_norm(x[0], NULL, NULL, x[1], x[2], true, 0.1, 0.01))
CALL(call_batch_norm_of_running, weft_batch_norm(x[0], x[2], x[3], x[1], NULL, false, 0.1, 0.01))
CALL(call_group_norm, weft_group_norm(x[0], 2, x[1], x[2], 0.01))
CALL(call_instance_norm, weft_instance_norm(x[0], NULL, x[1], 0.01))

static weft_tensor *cross_entropy(weft_tensor *const x[], weft_loss_reduction reduction, double smoothing)
{
    weft_cross_entropy_options options;
    weft_cross_entropy_options_init(&options);
    options.reduction = reduction;
    options.label_smoothing = smoothing;
    options.weight = x[2];
    return weft_cross_entropy(x[0], x[1], &options);
}

static weft_tensor *cross_entropy_backward(weft_tensor *const x[], weft_loss_reduction reduction, double smoothing)
{
    weft_cross_entropy_options options;
    weft_cross_entropy_options_init(&options);
    options.reduction = reduction;
    options.label_smoothing = smoothing;
    options.weight = x[2];
    return weft_cross_entropy_ex_backward(x[3], x[0], x[1], &options);
}

CALL(call_weighted_cross_entropy, cross_entropy(x, WEFT_LOSS_MEAN, 0.2))
CALL(call_weighted_losses, cross_entropy(x, WEFT_LOSS_NONE, 0))
CALL(call_weighted_backward, cross_entropy_backward(x, WEFT_LOSS_NONE, 0.2))
CALL(call_soft_cross_entropy, cross_entropy(x, WEFT_LOSS_MEAN, 0.2))
CALL(call_soft_backward, cross_entropy_backward(x, WEFT_LOSS_SUM, 0))
CALL(call_l1, weft_l1(x[0], x[1], WEFT_LOSS_NONE))
CALL(call_huber, weft_huber(x[0], x[1], 0.7, WEFT_LOSS_SUM))
CALL(call_smooth_l1, weft_smooth_l1(x[0], x[1], 0.7, WEFT_LOSS_MEAN))
CALL(call_binary_cross_entropy, weft_binary_cross_entropy(weft_sigmoid(x[0]), x[1], NULL, WEFT_LOSS_NONE))
CALL(call_weighted_binary_cross_entropy, weft_binary_cross_entropy(weft_sigmoid(x[0]), x[1], x[2], WEFT_LOSS_MEAN))
CALL(call_logit_cross_entropy, weft_binary_cross_entropy_with_logits(x[0], x[1], x[2], NULL, WEFT_LOSS_SUM))
CALL(call_pos_weight, weft_binary_cross_entropy_with_logits(x[0], x[1], NULL, x[2], WEFT_LOSS_NONE))
CALL(call_both_weights, weft_binary_cross_entropy_with_logits(x[0], x[1], x[2], x[3], WEFT_LOSS_MEAN))
CALL(call_kl_div, weft_kl_div(x[0], x[1], false, WEFT_LOSS_SUM))
CALL(call_kl_div_of_logs, weft_kl_div(x[0], x[1], true, WEFT_LOSS_MEAN))

const call_row gradient_rows_around[] = {
    { THIS_ROW, { "5x3:u" }, call_pad_zeros, false },
    { THIS_ROW, { "5x3:u" }, call_pad, false },
    { THIS_ROW, { "5x3:u" }, call_pad_less, false },
    { THIS_ROW, { "5x3:u" }, call_pad_reflect, false },
    { THIS_ROW, { "5x3:u" }, call_pad_replicate, false },
    { THIS_ROW, { "5x3:u" }, call_pad_circular, false },
    { THIS_ROW, { "5x4:u" }, call_diagonal, false },
    { THIS_ROW, { "3x2x4:u" }, call_diagonal_below, false },
    { THIS_ROW, { "4x5:u" }, call_trace, false },
    { THIS_ROW, { "3x2x4:u" }, call_movedims, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter, false },
    { THIS_ROW, { "5x3:u", "4x3:i5" }, call_scatter_scalar, false },
    { THIS_ROW, { "3x5:u", "4:i5", "3x4:u" }, call_index_copy, false },
    { THIS_ROW, { "3x5:u", "3:i5" }, call_index_fill, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_sum, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_mean, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_mean_alone, false },
    { THIS_ROW, { "3x2:u", "4x2:i3", "4x2:u" }, call_scatter_prod, false },
    { THIS_ROW, { "3x2:u", "4x2:i3", "4x2:u" }, call_scatter_prod_alone, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_min, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_max, false },
    { THIS_ROW, { "5x3:u", "5:i3" }, call_segment_sum, false },
    { THIS_ROW, { "5:i3", "5:u" }, call_bincount, false },
    { THIS_ROW, { "4x3:u", "3x2:u" }, call_einsum_product, false },
    { THIS_ROW, { "2x3x4:u", "4x3:u", "3x2:u" }, call_einsum_chain, false },
    { THIS_ROW, { "3x2x3:u" }, call_einsum_diagonal, false },
    { THIS_ROW, { "2x1x3:u", "4x3:u" }, call_einsum_broadcast, false },
    { THIS_ROW, { "3x2x4:u", "4x3:u" }, call_tensordot, false },
    { THIS_ROW, { "5x4:u" }, call_median, false },
    { THIS_ROW, { "5x3:u" }, call_median_all, false },
    { THIS_ROW, { "5x3:u" }, call_quantile, false },
    { THIS_ROW, { "3x5:u" }, call_cov, false },
    { THIS_ROW, { "5x3:u" }, call_std, false },
    { THIS_ROW, { "5x3:u" }, call_logsumexp, false },
    { THIS_ROW, { "5x3:u" }, call_nansum, false },
    { THIS_ROW, { "5x3:u" }, call_nanmean, false },
    { THIS_ROW, { "5x3:u" }, call_normalize, false },
    { THIS_ROW, { "5x3:u", "3:w" }, call_cosine_similarity, false },
    { THIS_ROW, { "2x5x3:u" }, call_matrix_norm, false },
    { THIS_ROW, { "2x5x3:u" }, call_matrix_norm_of_rows, false },
    { THIS_ROW, { "2x5x3:u" }, call_frobenius, false },
    { THIS_ROW, { "6x3:u" }, call_glu, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_prelu, false },
    { THIS_ROW, { "5x3:w", "3:w", "3:w" }, call_batch_norm, false },
    { THIS_ROW, { "5x3:w", "3:w", "3:w", "3:p" }, call_batch_norm_of_running, false },
    { THIS_ROW, { "2x4x3:w", "4:w", "4:w" }, call_group_norm, false },
    { THIS_ROW, { "2x3x4:w", "3:w" }, call_instance_norm, false },
    { THIS_ROW, { "5x3:w", "5:i3", "3:p" }, call_weighted_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5:i3", "3:p" }, call_weighted_losses, false },
    { THIS_ROW, { "5x3:w", "5:i3", "3:p", "5:w" }, call_weighted_backward, false },
    { THIS_ROW, { "5x3:w", "5x3:p" }, call_soft_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "3:p" }, call_soft_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "3:p" }, call_soft_backward, false },
    { THIS_ROW, { "5x3:u", "5x3:w" }, call_l1, false },
    { THIS_ROW, { "5x3:u", "5x3:w" }, call_huber, false },
    { THIS_ROW, { "5x3:u", "5x3:w" }, call_smooth_l1, false },
    { THIS_ROW, { "5x3:w", "5x3:p" }, call_binary_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "3:p" }, call_weighted_binary_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "5x1:p" }, call_logit_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "3:p" }, call_pos_weight, false },
    { THIS_ROW, { "5x3:w", "5x3:p", "5x3:p", "5x1:p" }, call_both_weights, false },
    { THIS_ROW, { "5x3:w", "5x3:p" }, call_kl_div, false },
    { THIS_ROW, { "5x3:w", "5x3:u" }, call_kl_div_of_logs, false },
    { THIS_ROW, { "2x2x4x5:u" }, call_max_pool, false },
    { THIS_ROW, { "2x2x4x5:u" }, call_avg_pool, false },
    { THIS_ROW, { "3x6:u" }, call_avg_pool_inside, false },
    { THIS_ROW, { "2x3x2x5:u" }, call_adaptive_avg_pool, false },
    { THIS_ROW, { "2x2x7:u" }, call_adaptive_max_pool, false },
    { THIS_ROW, { "2x2x4x5:u" }, call_interpolate_nearest, false },
    { THIS_ROW, { "2x3x2x5:u" }, call_interpolate_linear, false },
    { THIS_ROW, { "2x2x4x5:u" }, call_interpolate_bicubic, false },
    { .call = NULL },
};
