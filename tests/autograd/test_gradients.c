/* The gradient of every operation that has one, against central differences in double precision, on one rank and on two,
 * with inputs replicated, sharded along their first and their last dimension, and Partial. */
#include "complex_gradients.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradient_check.h"
#include "gradient_rows.h"
#include "ops/backward.h"
#include "ops/elementwise.h"

/* ---- inputs -------------------------------------------------------------------------------------------- */

/* "5x3:u": f64 between -0.9 and 0.9, not near 0; p: 0.2 to 2; w: -3 to 3; z: likewise, a third of them 0; i7: i64 from 0 to
 * 6; b: truth values; f: f32 as of w, for calls that are linear. */
static weft_tensor *input_of(weft_mesh *mesh, input_layout layout, const char *text, prng *random)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    char *rest = (char *)text;
    while (*rest != ':') {
        shape[ndim++] = strtoll(rest, &rest, 10);
        rest += *rest == 'x';
    }
    char kind = rest[1];
    int64_t classes = kind == 'i' ? strtoll(rest + 2, NULL, 10) : 2, count = shape_count(ndim, shape);
    double *values = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        double unit = (double)prng_below(random, 1000003) / 1000003;
        values[i] = kind == 'u'               ? (unit < 0.5 ? unit * 1.7 - 0.9 : unit * 1.7 - 0.8)
                    : kind == 'p'             ? 0.2 + 1.8 * unit
                    : kind == 'i' || kind == 'b' ? floor(unit * (double)classes)
                    : kind == 'z' && i % 3 == 1 ? 0
                                                : 6 * unit - 3;
    }
    weft_dtype dtype = kind == 'i' ? WEFT_I64 : kind == 'b' ? WEFT_BOOL : kind == 'f' ? WEFT_F32 : WEFT_F64;
    weft_tensor *tensor = tensor_of_values(mesh, layout, dtype, ndim, shape, values);
    free(values);
    return tensor;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static weft_mesh *mesh;

#define UNARY_CALL(name_) CALL(call_##name_, weft_##name_(x[0]))
#define BINARY_CALL(name_) CALL(call_##name_, weft_##name_(x[0], x[1]))

UNARY_CALL(neg)
UNARY_CALL(abs)
UNARY_CALL(square)
UNARY_CALL(reciprocal)
UNARY_CALL(sqrt)
UNARY_CALL(rsqrt)
UNARY_CALL(exp)
UNARY_CALL(expm1)
UNARY_CALL(log)
UNARY_CALL(log1p)
UNARY_CALL(log2)
UNARY_CALL(log10)
UNARY_CALL(sin)
UNARY_CALL(cos)
UNARY_CALL(tan)
UNARY_CALL(asin)
UNARY_CALL(acos)
UNARY_CALL(atan)
UNARY_CALL(sinh)
UNARY_CALL(cosh)
UNARY_CALL(tanh)
UNARY_CALL(exp2)
UNARY_CALL(erf)
UNARY_CALL(erfc)
UNARY_CALL(sigmoid)
UNARY_CALL(silu)
UNARY_CALL(relu)
UNARY_CALL(gelu)
CALL(call_softplus, weft_softplus(x[0], 1, 20))
UNARY_CALL(hardswish)
BINARY_CALL(add)
BINARY_CALL(sub)
BINARY_CALL(mul)
BINARY_CALL(div)
BINARY_CALL(remainder)
BINARY_CALL(fmod)
BINARY_CALL(pow)
BINARY_CALL(maximum)
BINARY_CALL(minimum)
BINARY_CALL(atan2)
BINARY_CALL(hypot)
BINARY_CALL(logaddexp)
BINARY_CALL(matmul)
BINARY_CALL(dot)
BINARY_CALL(outer)
BINARY_CALL(embedding)
CALL(call_to_type, weft_to_type(x[0], WEFT_F64))
CALL(call_same, weft_to_type(x[0], WEFT_F32))
CALL(call_scale, weft_scale(x[0], -1.5))
CALL(call_add_scalar, weft_add_scalar(x[0], 0.5))
CALL(call_pow_scalar, weft_pow_scalar(x[0], 2.5))
CALL(call_cube, weft_pow_scalar(x[0], 3))
CALL(call_leaky_relu, weft_leaky_relu(x[0], 0.1))
CALL(call_elu, weft_elu(x[0], 1.25))
CALL(call_clamp, weft_clamp(x[0], -1, 0.5))
CALL(call_where, weft_where(x[0], x[1], x[2]))
CALL(call_masked_fill, weft_masked_fill(x[0], x[1], 7))
CALL(call_add_scaled, weft_add_scaled(x[0], x[1], 0.3))
CALL(call_lerp, weft_lerp(x[0], x[1], 0.3))
CALL(call_addcmul, weft_addcmul(x[0], x[1], x[2], 0.7))
CALL(call_addcdiv, weft_addcdiv(x[0], x[1], x[2], 0.7))
CALL(call_add_inplace, weft_add_inplace(x[0], x[1], 0.7))
CALL(call_copy_inplace, weft_copy_inplace(x[0], x[1]))
CALL(call_mul_inplace, weft_mul_inplace(x[0], x[1]))
CALL(call_div_inplace, weft_div_inplace(x[0], x[1]))
CALL(call_scale_inplace, weft_scale_inplace(x[0], 0.7))
CALL(call_lerp_inplace, weft_lerp_inplace(x[0], x[1], 0.7))
CALL(call_matmul_tn, weft_matmul_ex(x[0], true, x[1], false))
CALL(call_matmul_nt, weft_matmul_ex(x[0], false, x[1], true))
CALL(call_matmul_tt, weft_matmul_ex(x[0], true, x[1], true))
CALL(call_addmm, weft_addmm(x[0], x[1], x[2], 0.5, -2))
CALL(call_linear, weft_linear(x[0], x[1], x[2]))
CALL(call_linear_alone, weft_linear(x[0], x[1], NULL))
CALL(call_sum, weft_sum(x[0], 0, false))
CALL(call_sum_keep, weft_sum(x[0], -1, true))
CALL(call_sum_all, weft_sum(x[0], WEFT_ALL_DIMS, false))
CALL(call_mean, weft_mean(x[0], 1, false))
CALL(call_prod, weft_prod(x[0], 1, false))
CALL(call_prod_all, weft_prod(x[0], WEFT_ALL_DIMS, false))
CALL(call_max, weft_max(x[0], 0, false))
CALL(call_min, weft_min(x[0], 1, true))
CALL(call_max_with_indices, weft_max_with_indices(x[0], 0, true, NULL))
CALL(call_min_with_indices, weft_min_with_indices(x[0], 1, false, NULL))
CALL(call_max_with_indices_of_all, weft_max_with_indices(x[0], WEFT_ALL_DIMS, false, NULL))
CALL(call_norm_1, weft_norm(x[0], 1, 0, false))
CALL(call_norm_2, weft_norm(x[0], 2, 1, true))
CALL(call_norm_3, weft_norm(x[0], 3, WEFT_ALL_DIMS, false))
CALL(call_norm_inf, weft_norm(x[0], INFINITY, 1, false))
CALL(call_var, weft_var(x[0], 1, 1, false))
CALL(call_var_all, weft_var(x[0], WEFT_ALL_DIMS, 0, true))
CALL(call_cumsum, weft_cumsum(x[0], 1))
CALL(call_cumprod, weft_cumprod(x[0], 1))
CALL(call_rotary, weft_rotary(x[0], 7, 3))
CALL(call_rotary_backward, weft_rotary_backward(x[0], 7, 3))
CALL(call_softmax, weft_softmax(x[0], 1))
CALL(call_softmax_rows, weft_softmax(x[0], 0))
CALL(call_attention, weft_attention(x[0], x[1], x[2], NULL))
CALL(call_attention_masked, weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .mask = x[3] }))
CALL(call_attention_grouped, weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .causal = true, .size = sizeof(weft_attention_options), .grouped_heads = true }))
CALL(call_attention_dropped, weft_attention(x[0], x[1], x[2], &(weft_attention_options){ .mask = x[3], .size = sizeof(weft_attention_options), .dropout = 0.4 }))
static weft_tensor *call_attention_kept(weft_tensor *const x[])
{
    weft_tensor *log_sums;
    return weft_attention_with_log_sums(x[0], x[1], x[2], &(weft_attention_options){ .causal = true, .scale = 0.7 },
                                        &log_sums);
}
CALL(call_log_softmax, weft_log_softmax(x[0], 1))
CALL(call_squeeze, weft_squeeze(x[0], WEFT_ALL_DIMS))
CALL(call_unsqueeze, weft_unsqueeze(x[0], 1))
CALL(call_transpose, weft_transpose(x[0], 0, 1))
CALL(call_permute, weft_permute(x[0], 3, (int[]){ 2, 0, 1 }))
CALL(call_expand, weft_expand(x[0], 3, (int64_t[]){ 2, 4, 3 }))
CALL(call_sum_to, weft_sum_to(x[0], 2, (int64_t[]){ 1, 3 }))
CALL(call_reshape, weft_reshape(x[0], 2, (int64_t[]){ 2, 6 }))
CALL(call_slice, weft_slice(x[0], 0, 1, 4, 1))
CALL(call_slice_step, weft_slice(x[0], 1, 0, 4, 2))
CALL(call_slice_nothing, weft_slice(x[0], 0, 2, 2, 1))
CALL(call_select, weft_select(x[0], 0, 2))
CALL(call_select_column, weft_select(x[0], -1, 1))
CALL(call_tril, weft_tril(x[0], 1))
CALL(call_triu, weft_triu(x[0], -1))
CALL(call_flip, weft_flip(x[0], 2, (int[]){ 0, 1 }))
CALL(call_roll, weft_roll(x[0], 2, 0))
CALL(call_cat, weft_cat(3, (weft_tensor *[]){ x[0], x[1], x[0] }, 0))
CALL(call_stack, weft_stack(2, (weft_tensor *[]){ x[0], x[1] }, 1))
CALL(call_gather, weft_gather(x[0], 0, x[1]))
CALL(call_index_select, weft_index_select(x[0], 1, x[1]))
CALL(call_scatter_add, weft_scatter_add(x[0], 0, x[1], x[2]))
CALL(call_index_add, weft_index_add(x[0], 0, x[1], x[2]))
CALL(call_scatter_add_inplace, weft_scatter_add_inplace(x[0], 0, x[1], x[2]))
CALL(call_sort, weft_sort(x[0], 1, true, NULL))
CALL(call_topk, weft_topk(x[0], 2, 0, true, NULL))
CALL(call_dropout, weft_dropout(x[0], 0.4, true, NULL))
CALL(call_dropout2d, weft_dropout2d(x[0], 0.4, true, NULL))
CALL(call_dropout_off, weft_dropout(x[0], 0.4, false, NULL))
CALL(call_cross_entropy, weft_cross_entropy(x[0], x[1], NULL))
CALL(call_cross_entropy_backward, weft_cross_entropy_backward(NULL, x[0], x[1]))
CALL(call_nll, weft_nll(x[0], x[1], 2, WEFT_LOSS_MEAN))
CALL(call_nll_each, weft_nll(x[0], x[1], -1, WEFT_LOSS_NONE))
CALL(call_mse, weft_mse(x[0], x[1], WEFT_LOSS_MEAN))
CALL(call_mse_each, weft_mse(x[0], x[1], WEFT_LOSS_NONE))
CALL(call_mse_difference, weft_mse_backward(NULL, x[0], x[1], WEFT_LOSS_SUM))
CALL(call_conv2d, weft_conv2d(x[0], x[1], x[2], &(weft_convolution){ 0, { 2, 1 }, { 1, 0 }, { 1, 2 }, 0 }))
CALL(call_conv_transpose, weft_conv_transpose2d(x[0], x[1], x[2], &(weft_convolution){ 0, { 2, 1 }, { 1, 0 }, { 1, 2 }, 2 }, (int64_t[]){ 1, 0 }))
CALL(call_conv2d_groups, weft_conv2d(x[0], x[1], NULL, &(weft_convolution){ 0, { 1, 1 }, { 1, 1 }, { 1, 1 }, 2 }))
CALL(call_conv3d, weft_conv3d(x[0], x[1], x[2], &(weft_convolution3d){ 0, { 2, 1, 1 }, { 1, 0, 1 }, { 1, 1, 2 }, 2 }))
CALL(call_conv_transpose3d, weft_conv_transpose3d(x[0], x[1], x[2], &(weft_convolution3d){ 0, { 2, 1, 1 }, { 1, 0, 0 }, { 1, 1, 2 }, 2 }, (int64_t[]){ 1, 0, 0 }))
CALL(call_conv1d, weft_conv1d(x[0], x[1], x[2], NULL))
CALL(call_layer_norm, weft_layer_norm(x[0], x[1], x[2], 1e-5))
CALL(call_layer_norm_bias, weft_layer_norm(x[0], NULL, x[1], 1e-5))
CALL(call_rms_norm, weft_rms_norm(x[0], x[1], 1e-5))
CALL(call_rms_norm_alone, weft_rms_norm(x[0], NULL, 1e-5))
CALL(call_layer_norm_backward, weft_layer_norm_backward(x[0], x[1], x[2], 1e-5, NULL, NULL))
CALL(call_rms_norm_backward, weft_rms_norm_backward(x[0], x[1], NULL, 1e-5, NULL))
CALL(call_redistribute, weft_redistribute(x[0], mesh, NULL))

static weft_tensor *call_split(weft_tensor *const x[])
{
    weft_tensor *outputs[2];
    return weft_split(x[0], 2, (int64_t[]){ 1, 4 }, 0, outputs) == WEFT_OK ? outputs[1] : NULL;
}

static weft_tensor *cross_entropy(weft_tensor *const x[], weft_loss_reduction reduction)
{
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.reduction = reduction;
    options.ignore_index = 2;
    options.label_smoothing = 0.2;
    return weft_cross_entropy(x[0], x[1], &options);
}

/* The gradient by the loss and by the log-sums. */
static weft_tensor *call_cross_entropy_log_sums(weft_tensor *const x[])
{
    weft_tensor *log_sums, *loss = weft_cross_entropy_with_log_sums(x[0], x[1], NULL, &log_sums);
    return weft_add(loss, weft_mul(log_sums, log_sums));
}

CALL(call_add_addend, weft_add_addend(x[0], x[1]))
CALL(call_zero_where, weft_zero_where(weft_gt_scalar(x[0], 0.5), x[1]))

CALL(call_cross_entropy_mean, cross_entropy(x, WEFT_LOSS_MEAN))
CALL(call_cross_entropy_each, cross_entropy(x, WEFT_LOSS_NONE))

static const call_row rows[] = {
    { THIS_ROW, { "5x2:u" }, call_neg, false },
    { THIS_ROW, { "5x2:u", "5x2:u" }, call_add_addend, false },
    { THIS_ROW, { "5x2:u", "5x2:u" }, call_zero_where, false },
    { THIS_ROW, { "5x2:u" }, call_abs, false },
    { THIS_ROW, { "5x2:u" }, call_square, false },
    { THIS_ROW, { "5x2:p" }, call_reciprocal, false },
    { THIS_ROW, { "5x2:p" }, call_sqrt, false },
    { THIS_ROW, { "5x2:p" }, call_rsqrt, false },
    { THIS_ROW, { "5x2:u" }, call_exp, false },
    { THIS_ROW, { "5x2:u" }, call_expm1, false },
    { THIS_ROW, { "5x2:p" }, call_log, false },
    { THIS_ROW, { "5x2:u" }, call_log1p, false },
    { THIS_ROW, { "5x2:p" }, call_log2, false },
    { THIS_ROW, { "5x2:p" }, call_log10, false },
    { THIS_ROW, { "5x2:w" }, call_sin, false },
    { THIS_ROW, { "5x2:w" }, call_cos, false },
    { THIS_ROW, { "5x2:u" }, call_tan, false },
    { THIS_ROW, { "5x2:u" }, call_asin, false },
    { THIS_ROW, { "5x2:u" }, call_acos, false },
    { THIS_ROW, { "5x2:w" }, call_atan, false },
    { THIS_ROW, { "5x2:u" }, call_sinh, false },
    { THIS_ROW, { "5x2:u" }, call_cosh, false },
    { THIS_ROW, { "5x2:w" }, call_tanh, false },
    { THIS_ROW, { "5x2:u" }, call_exp2, false },
    { THIS_ROW, { "5x2:u" }, call_erf, false },
    { THIS_ROW, { "5x2:u" }, call_erfc, false },
    { THIS_ROW, { "5x2:w" }, call_sigmoid, false },
    { THIS_ROW, { "5x2:w" }, call_silu, false },
    { THIS_ROW, { "5x2:u" }, call_relu, false },
    { THIS_ROW, { "5x2:w" }, call_gelu, false },
    { THIS_ROW, { "5x2:w" }, call_softplus, false },
    { THIS_ROW, { "5x3:z" }, call_hardswish, false },
    { THIS_ROW, { "5x2:f" }, call_to_type, false },
    { THIS_ROW, { "5x2:f" }, call_same, false },
    { THIS_ROW, { "5x2:u" }, call_scale, false },
    { THIS_ROW, { "5x2:u" }, call_add_scalar, false },
    { THIS_ROW, { "5x2:p" }, call_pow_scalar, false },
    { THIS_ROW, { "5x2:u" }, call_cube, false },
    { THIS_ROW, { "5x2:u" }, call_leaky_relu, false },
    { THIS_ROW, { "5x2:u" }, call_elu, false },
    { THIS_ROW, { "5x2:w" }, call_clamp, false },
    /* Broadcasting, of either side; one row for two ranks. */
    { THIS_ROW, { "5x3:u", "5x3:u" }, call_add, false },
    { THIS_ROW, { "5x1:u", "1x3:u" }, call_add, false },
    { THIS_ROW, { "3:u", "5x3:u" }, call_sub, false },
    { THIS_ROW, { "5x3:u", ":u" }, call_mul, false },
    { THIS_ROW, { "4x1x3:u", "5x1:u" }, call_mul, false },
    { THIS_ROW, { "1x3:u", "5x3:p" }, call_div, false },
    { THIS_ROW, { "5x3:w", "3:p" }, call_remainder, false },
    { THIS_ROW, { "5x3:w", "3:p" }, call_fmod, false },
    { THIS_ROW, { "5x3:p", "3:u" }, call_pow, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_maximum, false },
    { THIS_ROW, { "3:u", "5x3:u" }, call_minimum, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_atan2, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_hypot, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_logaddexp, false },
    { THIS_ROW, { "5x3:b", "3:u", "5x1:u" }, call_where, false },
    { THIS_ROW, { "5x3:u", "3:b" }, call_masked_fill, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_add_scaled, false },
    { THIS_ROW, { "5x1:u", "5x3:u" }, call_lerp, false },
    { THIS_ROW, { "5x3:u", "3:u", "5x1:u" }, call_addcmul, false },
    { THIS_ROW, { "5x3:u", "3:u", "5x1:p" }, call_addcdiv, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_add_inplace, true },
    { THIS_ROW, { "5x3:u", "3:u" }, call_copy_inplace, true },
    { THIS_ROW, { "5x3:u", "3:u" }, call_mul_inplace, true },
    { THIS_ROW, { "5x3:u", "3:p" }, call_div_inplace, true },
    { THIS_ROW, { "5x3:u" }, call_scale_inplace, true },
    { THIS_ROW, { "5x3:u", "3:u" }, call_lerp_inplace, true },
    /* Products: vectors, batches that one side shares, transposes. */
    { THIS_ROW, { "5x3:u", "3x4:u" }, call_matmul, false },
    { THIS_ROW, { "3:u", "3x4:u" }, call_matmul, false },
    { THIS_ROW, { "5x3:u", "3:u" }, call_matmul, false },
    { THIS_ROW, { "3:u", "3:u" }, call_matmul, false },
    { THIS_ROW, { "3x2x3:u", "3x4:u" }, call_matmul, false },
    { THIS_ROW, { "2x3:u", "3x3x2:u" }, call_matmul, false },
    { THIS_ROW, { "3x1x2x3:u", "2x3x2:u" }, call_matmul, false },
    { THIS_ROW, { "3x2x3:u", "3:u" }, call_matmul, false },
    { THIS_ROW, { "3:u", "3x3x2:u" }, call_matmul, false },
    { THIS_ROW, { "3x5:u", "3x4:u" }, call_matmul_tn, false },
    { THIS_ROW, { "3x3x2:u", "3x4:u" }, call_matmul_tn, false },
    { THIS_ROW, { "5x3:u", "4x3:u" }, call_matmul_nt, false },
    { THIS_ROW, { "3x2x3:u", "4x3:u" }, call_matmul_nt, false },
    { THIS_ROW, { "3x5:u", "4x3:u" }, call_matmul_tt, false },
    { THIS_ROW, { "5:u", "5:u" }, call_dot, false },
    { THIS_ROW, { "5:u", "3:u" }, call_outer, false },
    { THIS_ROW, { "4:u", "5x3:u", "3x4:u" }, call_addmm, false },
    { THIS_ROW, { "5x1:u", "5x3:u", "3x4:u" }, call_addmm, false },
    { THIS_ROW, { "5x3:u", "4x3:u", "4:u" }, call_linear, false },
    { THIS_ROW, { "3x2x3:u", "4x3:u", "4:u" }, call_linear, false },
    { THIS_ROW, { "3:u", "4x3:u" }, call_linear_alone, false },
    { THIS_ROW, { "5x3:u" }, call_sum, false },
    { THIS_ROW, { "5x3:u" }, call_sum_keep, false },
    { THIS_ROW, { "5x3:u" }, call_sum_all, false },
    { THIS_ROW, { "3x4x2:u" }, call_mean, false },
    { THIS_ROW, { "5x3:u" }, call_prod, false },
    { THIS_ROW, { "5x3:z" }, call_prod, false },
    { THIS_ROW, { "2x2:z" }, call_prod_all, false },
    { THIS_ROW, { "5x3:u" }, call_max, false },
    { THIS_ROW, { "5x3:u" }, call_min, false },
    { THIS_ROW, { "5x3:u" }, call_max_with_indices, false },
    { THIS_ROW, { "5x3:u" }, call_min_with_indices, false },
    { THIS_ROW, { "5x3:u" }, call_max_with_indices_of_all, false },
    { THIS_ROW, { "5x3:u" }, call_norm_1, false },
    { THIS_ROW, { "5x3:u" }, call_norm_2, false },
    { THIS_ROW, { "5x3:u" }, call_norm_3, false },
    { THIS_ROW, { "5x3:u" }, call_norm_inf, false },
    { THIS_ROW, { "5x3:u" }, call_var, false },
    { THIS_ROW, { "5x3:u" }, call_var_all, false },
    { THIS_ROW, { "5x4:u" }, call_cumsum, false },
    { THIS_ROW, { "5x4:u" }, call_cumprod, false },
    { THIS_ROW, { "5x4:z" }, call_cumprod, false },
    { THIS_ROW, { "5x4:u" }, call_rotary, false },
    { THIS_ROW, { "2x3x4:u" }, call_rotary_backward, false },
    { THIS_ROW, { "5x4:w" }, call_softmax, false },
    { THIS_ROW, { "5x4:w" }, call_softmax_rows, false },
    { THIS_ROW, { "5x3:u", "4x3:u", "4x2:u" }, call_attention, false },
    { THIS_ROW, { "2x5x3:u", "4x3:u", "2x4x2:u", "5x4:u" }, call_attention_masked, false },
    { THIS_ROW, { "5x3:u", "6x3:u", "6x2:u", "1x6:b" }, call_attention_masked, false },
    { THIS_ROW, { "2x5x3:u", "6x3:u", "2x6x2:u" }, call_attention_kept, false },
    { THIS_ROW, { "2x4x5x3:u", "2x2x6x3:u", "2x2x6x2:u" }, call_attention_grouped, false },
    { THIS_ROW, { "2x5x3:u", "4x3:u", "2x4x2:u", "5x4:u" }, call_attention_dropped, false },
    { THIS_ROW, { "5x3:u", "2x6x3:u", "2x6x2:u" }, call_attention_kept, false },
    { THIS_ROW, { "5x4:w" }, call_log_softmax, false },
    { THIS_ROW, { "5x1x3:u" }, call_squeeze, false },
    { THIS_ROW, { "5x3:u" }, call_unsqueeze, false },
    { THIS_ROW, { "5x3:u" }, call_transpose, false },
    { THIS_ROW, { "5x3x2:u" }, call_permute, false },
    { THIS_ROW, { "4x1:u" }, call_expand, false },
    { THIS_ROW, { "2x4x3:u" }, call_sum_to, false },
    { THIS_ROW, { "4x3:u" }, call_reshape, false },
    { THIS_ROW, { "5x3:u" }, call_slice, false },
    { THIS_ROW, { "5x4:u" }, call_slice_step, false },
    { THIS_ROW, { "5x4:u" }, call_slice_nothing, false },
    { THIS_ROW, { "5x3:u" }, call_select, false },
    { THIS_ROW, { "5x3:u" }, call_select_column, false },
    { THIS_ROW, { "4x4:u" }, call_tril, false },
    { THIS_ROW, { "4x4:u" }, call_triu, false },
    { THIS_ROW, { "5x3:u" }, call_flip, false },
    { THIS_ROW, { "5x3:u" }, call_roll, false },
    { THIS_ROW, { "2x3:u", "3x3:u" }, call_cat, false },
    { THIS_ROW, { "5x3:u", "5x3:u" }, call_stack, false },
    { THIS_ROW, { "5x3:u" }, call_split, false },
    { THIS_ROW, { "5x3:u", "3:i5" }, call_embedding, false },
    { THIS_ROW, { "5x3:u", "4x3:i5" }, call_gather, false },
    { THIS_ROW, { "5x3:u", "4:i3" }, call_index_select, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_add, false },
    { THIS_ROW, { "5x3:u", "4:i5", "4x3:u" }, call_index_add, false },
    { THIS_ROW, { "5x3:u", "4x3:i5", "4x3:u" }, call_scatter_add_inplace, true },
    { THIS_ROW, { ":u", "4:i1" }, call_gather, false },
    { THIS_ROW, { ":u", "4:i1", "4:u" }, call_scatter_add, false },
    { THIS_ROW, { ":u", "4:i1", "4:u" }, call_scatter_add_inplace, true },
    { THIS_ROW, { "5x4:u" }, call_sort, false },
    { THIS_ROW, { "5x4:u" }, call_topk, false },
    { THIS_ROW, { "5x4:u" }, call_dropout, false },
    { THIS_ROW, { "5x4x3:u" }, call_dropout2d, false },
    { THIS_ROW, { "5x4:u" }, call_dropout_off, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_cross_entropy, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_cross_entropy_backward, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_cross_entropy_mean, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_cross_entropy_log_sums, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_cross_entropy_each, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_nll, false },
    { THIS_ROW, { "5x3:w", "5:i3" }, call_nll_each, false },
    { THIS_ROW, { "5x3:u", "5x3:u" }, call_mse, false },
    { THIS_ROW, { "5x3:u", "5x3:u" }, call_mse_each, false },
    { THIS_ROW, { "5x3:u", "5x3:u" }, call_mse_difference, false },
    { THIS_ROW, { "2x2x4x5:u", "3x2x2x2:u", "3:u" }, call_conv2d, false },
    { THIS_ROW, { "2x2x3x3:u", "2x1x2x2:u" }, call_conv2d_groups, false },
    { THIS_ROW, { "2x2x3x2:u", "2x2x2x2:u", "4:u" }, call_conv_transpose, false },
    { THIS_ROW, { "2x2x3x2x3:u", "2x1x2x2x2:u", "2:u" }, call_conv3d, false },
    { THIS_ROW, { "1x2x2x2x2:u", "2x1x2x2x2:u", "2:u" }, call_conv_transpose3d, false },
    { THIS_ROW, { "2x2x5:u", "3x2x2:u", "3:u" }, call_conv1d, false },
    { THIS_ROW, { "5x4:w", "4:p", "4:u" }, call_layer_norm, false },
    { THIS_ROW, { "3x2x3:w", "2x3:p", "2x3:u" }, call_layer_norm, false },
    { THIS_ROW, { "5x4:w", "4:u" }, call_layer_norm_bias, false },
    { THIS_ROW, { "5x4:w", "4:p" }, call_rms_norm, false },
    { THIS_ROW, { "5x4:w" }, call_rms_norm_alone, false },
    { THIS_ROW, { "5x4:w", "5x4:w", "4:p" }, call_layer_norm_backward, false },
    { THIS_ROW, { "5x4:w", "5x4:w" }, call_rms_norm_backward, false },
    { THIS_ROW, { "5x3:u" }, call_redistribute, false },
    { .call = NULL },
};

static const call_row *const tables[] = { rows, gradient_rows_around, gradient_rows_elementwise };

static int checked;

static void check_row(const call_row *row, int ranks, input_layout layout)
{
    enter_row(row->place, __func__);
    prng random = { .state = 17 };
    weft_tensor *x[MAX_GRADIENT_INPUTS] = { NULL };
    weft_scope_begin();
    for (int i = 0; i < MAX_GRADIENT_INPUTS && row->inputs[i] != NULL; i++) {
        x[i] = input_of(mesh, layout, row->inputs[i], &random);
    }
    assert_no_error();
    gradient_check_begin(mesh, layout);
    weft_tensor *result = row->call(x);
    if (result == NULL) {
        fail_msg("%d ranks, layout %d: %s", ranks, (int)layout, weft_last_error());
    }
    int count = gradient_check_recorded();
    assert_true(count > 0);
    checked += count;
    weft_scope_end();
    assert_no_error();
    leave_rows();
}

/* `ranks` in each process; `outside` of all are not in the mesh. */
static void check_rows(int ranks, int outside, input_layout layout)
{
    enum { MAX_RANKS = 8 };
    static int number;
    start_with_panels(ranks, "2");
    const int64_t size = weft_world_size() - outside;
    int members[MAX_RANKS];
    for (int i = 0; i < (int)size; i++) {
        members[i] = (int)size - 1 - i + outside;
    }
    mesh = weft_mesh_of_ranks(1, &size, members, NULL);
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const call_row *row = tables[t]; row->call != NULL; row++) {
            /* Each is compared on one rank. */
            bool drawn = size == 1 || number++ % test_share() == 0;
            if (drawn && !(row->in_place && layout == PARTIAL_SUM)) {
                check_row(row, ranks, layout);
            }
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_one_rank(void **state)
{
    (void)state;
    check_rows(1, 0, REPLICATED);
}

static void test_two_ranks(void **state)
{
    (void)state;
    for (int layout = 0; layout < NUM_INPUT_LAYOUTS; layout++) {
        check_rows(2, 0, (input_layout)layout);
    }
    check_rows(3, 0, FIRST_SHARDED);
    print_message("# %d gradients of calls compared\n", checked);
}

/* The mesh has the ranks in falling order, and not rank 0. */
static void test_ranks_outside(void **state)
{
    (void)state;
    check_rows(3, 1, FIRST_SHARDED);
    check_rows(3, 1, PARTIAL_SUM);
}

static void test_processes(void **state)
{
    (void)state;
    check_rows(1, 0, FIRST_SHARDED);
    check_rows(2, 1, LAST_SHARDED);
}

static bool is_compared_elsewhere(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof(complex_gradients) / sizeof(complex_gradients[0]); i++) {
        found |= strcmp(name, complex_gradients[i]) == 0;
    }
    return found;
}

/* Behind the others: each operation has a gradient, which was compared, or says why it has none. */
static void test_every_operation_says(void **state)
{
    (void)state;
    int with = 0, zero = 0, missing = 0;
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++) {
            const weft_gradient_entry *entry = &(*o)->gradient;
            if ((entry->function != NULL) + (entry->zero != NULL) + (entry->missing != NULL) != 1) {
                fail_msg("%s says nothing of its gradient, or two things", (*o)->name);
            }
            if (entry->function != NULL && !is_compared_elsewhere((*o)->name) && gradient_checks_of(*o) == 0) {
                fail_msg("the gradient of %s was not compared", (*o)->name);
            }
            with += entry->function != NULL;
            zero += entry->zero != NULL;
            missing += entry->missing != NULL;
        }
    }
    print_message("# %d operations with a gradient, %d that none depends on, %d without\n", with, zero, missing);
}

int main(void)
{
    const struct CMUnitTest on_processes[] = { cmocka_unit_test(test_processes) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_ranks_outside),
        cmocka_unit_test(test_every_operation_says),
    };
    return over_processes() ? cmocka_run_group_tests(on_processes, NULL, NULL)
                     : cmocka_run_group_tests(tests, NULL, NULL);
}
