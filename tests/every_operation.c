#include <stddef.h>
#include <stdlib.h>

#include "every_call_try.h"

/* clang-format off */
void try_operations(const call_arguments *arguments, bool (*wanted)(const char *function),
                    void (*after)(row_place row, const char *function, void *argument), void *argument)
{
    weft_tensor *tensor = arguments->tensor, *indices = arguments->indices, *truth = arguments->truth;
    weft_tensor *scalar = arguments->scalar, *line = arguments->line, *places = arguments->places;
    weft_tensor *cube = arguments->cube, *image = arguments->image;
    weft_tensor *const list[] = { tensor }, *const first[] = { arguments->first };
    weft_tensor *const second[] = { arguments->second }, *const third[] = { arguments->third };
    weft_tensor *other = NULL, *outputs[4] = { NULL };
    const int64_t shape[] = { 2, 2, 1, 1 }, ones[] = { 1, 1, 1, 1 }, deep[] = { 1, 2, 2, 2 },
                  one_by_two[] = { 1, 2 }, two_by_one[] = { 2, 1 };
    bool truth_value = false;
    const weft_sgd_options sgd = { .learning_rate = 0.5, .momentum = 0.5 };
    const weft_adam_options adam = WEFT_ADAM_DEFAULT;
    /* <weft/elementwise.h> */
    TRY(weft_to_type, tensor, WEFT_F32);
    TRY(weft_add, tensor, tensor);
    TRY(weft_sub, tensor, tensor);
    TRY(weft_mul, tensor, tensor);
    TRY(weft_div, tensor, tensor);
    TRY(weft_floor_div, tensor, tensor);
    TRY(weft_remainder, tensor, tensor);
    TRY(weft_fmod, tensor, tensor);
    TRY(weft_pow, tensor, tensor);
    TRY(weft_maximum, tensor, tensor);
    TRY(weft_minimum, tensor, tensor);
    TRY(weft_atan2, tensor, tensor);
    TRY(weft_hypot, tensor, tensor);
    TRY(weft_logaddexp, tensor, tensor);
    TRY(weft_scale, tensor, 0.5);
    TRY(weft_add_scalar, tensor, 0.5);
    TRY(weft_pow_scalar, tensor, 0.5);
    TRY(weft_clamp, tensor, 0.5, 0.5);
    TRY(weft_add_scaled, tensor, tensor, 0.5);
    TRY(weft_addcmul, tensor, tensor, tensor, 0.5);
    TRY(weft_addcdiv, tensor, tensor, tensor, 0.5);
    TRY(weft_lerp, tensor, tensor, 0.5);
    TRY(weft_eq, tensor, tensor);
    TRY(weft_ne, tensor, tensor);
    TRY(weft_lt, tensor, tensor);
    TRY(weft_le, tensor, tensor);
    TRY(weft_gt, tensor, tensor);
    TRY(weft_ge, tensor, tensor);
    TRY(weft_logical_and, tensor, tensor);
    TRY(weft_logical_or, tensor, tensor);
    TRY(weft_logical_xor, tensor, tensor);
    TRY(weft_logical_not, tensor);
    TRY(weft_isnan, tensor);
    TRY(weft_isinf, tensor);
    TRY(weft_isfinite, tensor);
    TRY(weft_where, truth, tensor, tensor);
    TRY(weft_masked_fill, tensor, truth, 0.5);
    TRY(weft_neg, tensor);
    TRY(weft_abs, tensor);
    TRY(weft_sign, tensor);
    TRY(weft_square, tensor);
    TRY(weft_reciprocal, tensor);
    TRY(weft_sqrt, tensor);
    TRY(weft_rsqrt, tensor);
    TRY(weft_exp, tensor);
    TRY(weft_expm1, tensor);
    TRY(weft_log, tensor);
    TRY(weft_log1p, tensor);
    TRY(weft_log2, tensor);
    TRY(weft_log10, tensor);
    TRY(weft_exp2, tensor);
    TRY(weft_sin, tensor);
    TRY(weft_cos, tensor);
    TRY(weft_tan, tensor);
    TRY(weft_asin, tensor);
    TRY(weft_acos, tensor);
    TRY(weft_atan, tensor);
    TRY(weft_sinh, tensor);
    TRY(weft_cosh, tensor);
    TRY(weft_tanh, tensor);
    TRY(weft_erf, tensor);
    TRY(weft_erfc, tensor);
    TRY(weft_floor, tensor);
    TRY(weft_ceil, tensor);
    TRY(weft_trunc, tensor);
    TRY(weft_round, tensor);
    TRY(weft_sigmoid, tensor);
    TRY(weft_silu, tensor);
    TRY(weft_relu, tensor);
    TRY(weft_gelu, tensor);
    TRY(weft_softplus, tensor);
    TRY(weft_hardswish, tensor);
    TRY(weft_leaky_relu, tensor, 0.5);
    TRY(weft_elu, tensor, 0.5);
    TRY(weft_relu_backward, tensor, tensor);
    TRY(weft_gelu_backward, tensor, tensor);
    TRY(weft_silu_backward, tensor, tensor);
    TRY(weft_leaky_relu_backward, tensor, tensor, 0.5);
    TRY(weft_elu_backward, tensor, tensor, 0.5);
    TRY(weft_tanh_backward, tensor, tensor);
    TRY(weft_sigmoid_backward, tensor, tensor);
    TRY(weft_pow_scalar_backward, tensor, tensor, 0.5);
    TRY(weft_copy_inplace, tensor, tensor);
    TRY(weft_add_inplace, tensor, tensor, 0.5);
    TRY(weft_mul_inplace, tensor, tensor);
    TRY(weft_div_inplace, tensor, tensor);
    TRY(weft_scale_inplace, tensor, 0.5);
    TRY(weft_fill_inplace, tensor, 0.5);
    TRY(weft_lerp_inplace, tensor, tensor, 0.5);
    /* <weft/reductions.h> */
    TRY(weft_sum, tensor, 0, false);
    TRY(weft_sum_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_prod, tensor, 0, false);
    TRY(weft_prod_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_mean, tensor, 0, false);
    TRY(weft_mean_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_max, tensor, 0, false);
    TRY(weft_max_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_min, tensor, 0, false);
    TRY(weft_min_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_any, tensor, 0, false);
    TRY(weft_any_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_all, tensor, 0, false);
    TRY(weft_all_over, tensor, 1, (int[]){ 0 }, false);
    TRY(weft_norm, tensor, 0.5, 0, false);
    TRY(weft_norm_over, tensor, 0.5, 1, (int[]){ 0 }, false);
    TRY(weft_var, tensor, 0, 0.5, false);
    TRY(weft_var_over, tensor, 1, (int[]){ 0 }, 0.5, false);
    /* <weft/products.h> */
    TRY(weft_matmul, tensor, tensor);
    TRY(weft_matmul_ex, tensor, false, tensor, false);
    TRY(weft_dot, line, line);
    TRY(weft_outer, line, line);
    TRY(weft_addmm, tensor, tensor, tensor, 0.5, 0.5);
    TRY(weft_linear, tensor, tensor, line);
    TRY(weft_conv2d, image, image, NULL, NULL);
    TRY(weft_conv1d, cube, cube, NULL, NULL);
    TRY(weft_conv2d_backward_input, weft_reshape(scalar, 4, ones), image, deep, NULL);
    TRY(weft_conv2d_backward_weight, weft_reshape(scalar, 4, ones), image, deep, NULL);
    TRY(weft_conv1d_backward_input, weft_reshape(scalar, 3, ones), cube, deep, NULL);
    TRY(weft_conv1d_backward_weight, weft_reshape(scalar, 3, ones), cube, deep, NULL);
    TRY(weft_attention, cube, cube, cube, NULL);
    TRY(weft_attention_with_log_sums, cube, cube, cube, NULL, &other);
    TRY(weft_attention_backward, cube, cube, cube, cube, cube, NULL, &other, &other);
    TRY(weft_attention_backward_with_log_sums, cube, cube, cube, cube, cube, weft_reshape(line, 2, one_by_two), NULL,
        &other, &other);
    /* <weft/shapes.h> */
    TRY(weft_reshape, tensor, 2, shape);
    TRY(weft_flatten, tensor, 0, 1);
    TRY(weft_unflatten, tensor, 0, 1, shape);
    TRY(weft_squeeze, tensor, 0);
    TRY(weft_unsqueeze, tensor, 0);
    TRY(weft_transpose, tensor, 0, 1);
    TRY(weft_permute, tensor, 2, (int[]){ 1, 0 });
    TRY(weft_movedim, tensor, 0, 1);
    TRY(weft_expand, tensor, 2, shape);
    TRY(weft_sum_to, tensor, 2, shape);
    TRY(weft_slice, tensor, 0, 0, 1);
    TRY(weft_slice_step, tensor, 0, 0, 1, 1);
    TRY(weft_slice_backward, tensor, 0, 4, 0, 2, 1);
    TRY(weft_select, tensor, 0, 0);
    TRY(weft_flip, tensor, 1, (int[]){ 0 });
    TRY(weft_roll, tensor, 0, 0);
    TRY(weft_cat, 1, list, 0);
    TRY(weft_stack, 1, list, 0);
    TRY(weft_split, tensor, 1, shape, 0, outputs);
    TRY(weft_chunk, tensor, 1, 0, outputs);
    TRY(weft_tril, tensor, 0);
    TRY(weft_triu, tensor, 0);
    TRY(weft_pad, tensor, 2, shape, shape, WEFT_PAD_CONSTANT, 0);
    TRY(weft_diagonal, tensor, 0, 0, 1);
    TRY(weft_trace, tensor);
    TRY(weft_movedims, tensor, 1, (int[]){ 0 }, (int[]){ 1 });
    /* <weft/indexing.h> */
    TRY(weft_argmax, tensor, 0, false);
    TRY(weft_argmin, tensor, 0, false);
    TRY(weft_max_with_indices, tensor, 0, false, &other);
    TRY(weft_min_with_indices, tensor, 0, false, &other);
    TRY(weft_cumsum, tensor, 0);
    TRY(weft_cumprod, tensor, 0);
    TRY(weft_index_select, tensor, 0, indices);
    TRY(weft_gather, tensor, 0, places);
    TRY(weft_scatter_add, tensor, 0, places, tensor);
    TRY(weft_scatter_add_inplace, tensor, 0, places, tensor);
    TRY(weft_index_add, tensor, 0, indices, tensor);
    TRY(weft_index_add_inplace, tensor, 0, indices, tensor);
    TRY(weft_one_hot, indices, 1);
    TRY(weft_sort, tensor, 0, false, &other);
    TRY(weft_argsort, tensor, 0, false);
    TRY(weft_topk, tensor, 1, 0, false, &other);
    TRY(weft_equal, tensor, tensor, &truth_value);
    TRY(weft_allclose, tensor, tensor, 0.5, 0.5, false, &truth_value);
    /* <weft/nn.h> */
    TRY(weft_softmax, tensor, 0);
    TRY(weft_log_softmax, tensor, 0);
    TRY(weft_softmax_backward, tensor, tensor, 0);
    TRY(weft_log_softmax_backward, tensor, tensor, 0);
    TRY(weft_layer_norm, tensor, line, line, 0.5);
    TRY(weft_layer_norm_backward, tensor, tensor, line, 0.5, &other, &other);
    TRY(weft_rms_norm, tensor, line, 0.5);
    TRY(weft_rotary, tensor, 7, 2);
    TRY(weft_rotary_backward, tensor, 7, 2);
    TRY(weft_rms_norm_backward, tensor, tensor, line, 0.5, &other);
#define STATISTICS weft_to_type(weft_reshape(line, 2, two_by_one), WEFT_F64)
    TRY(weft_layer_norm_with_statistics, tensor, line, line, 0.5, &other, &other);
    TRY(weft_layer_norm_backward_with_statistics, tensor, tensor, STATISTICS, STATISTICS, line, &other,
        &other);
    TRY(weft_rms_norm_with_statistics, tensor, line, 0.5, &other);
    TRY(weft_rms_norm_backward_with_statistics, tensor, tensor, STATISTICS, line, &other);
    TRY(weft_cross_entropy, tensor, indices);
    TRY(weft_cross_entropy_backward, scalar, tensor, indices);
    TRY(weft_cross_entropy_ex, tensor, indices, NULL);
    TRY(weft_cross_entropy_ex_backward, scalar, tensor, indices, NULL);
    TRY(weft_nll, tensor, indices, 0, WEFT_LOSS_MEAN);
    TRY(weft_nll_backward, scalar, tensor, indices, 0, WEFT_LOSS_MEAN);
    TRY(weft_mse, tensor, tensor, WEFT_LOSS_MEAN);
    TRY(weft_mse_backward, scalar, tensor, tensor, WEFT_LOSS_MEAN);
    TRY(weft_embedding, tensor, indices);
    TRY(weft_embedding_backward, tensor, indices, 4);
    /* <weft/optimizers.h> */
    TRY(weft_sgd, 1, first, list, &sgd, second);
    TRY(weft_adam, 1, first, list, second, third, 1, &adam);
    TRY(weft_adamw, 1, first, list, second, third, 1, &adam);
    TRY(weft_clip_grad_norm, 1, list, 0.5, 0.5, &other);
}
/* clang-format on */
