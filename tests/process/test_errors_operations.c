/* Bad input of operations: every public function, every kind of wrong argument. */
#include "errors_support.h"

#include <limits.h>
#include <math.h>

#include "ops/backward.h"

static weft_tensor *pieces[4];
static bool answer;
static weft_random_state random_state;

/* ---- what many operations refuse ---------------------------------------------------------------------- */

#define NOTHING
#define FACTOR , 2.0
#define DIM_0 , 0, false
#define DIMS_01 , 0, 1
#define TO_45 , 2, shape_45
#define ROWS_0 , 0
#define TO_20                                                                                                \
    , 1, (const int64_t[])                                                                                   \
    {                                                                                                        \
        20                                                                                                   \
    }

/* Two tensors: NULL, dead, of another mesh, of another type. */
#define PAIR_ROWS(f, first, second, ...)                                                                     \
    do {                                                                                                     \
        GIVES_NULL(weft_##f(NULL, matrix __VA_ARGS__), INVALID, "weft_" #f, #first);                         \
        GIVES_NULL(weft_##f(matrix, NULL __VA_ARGS__), INVALID, "weft_" #f, #second);                        \
        GIVES_NULL(weft_##f(matrix, dead __VA_ARGS__), INVALID, "weft_" #f, #second);                        \
        GIVES_NULL(weft_##f(stale_tensor, matrix __VA_ARGS__), INVALID, "weft_" #f, #first);                 \
        GIVES_NULL(weft_##f(matrix, on_other __VA_ARGS__), MESH, "weft_" #f, "weft_redistribute");           \
        GIVES_NULL(weft_##f(matrix, square __VA_ARGS__), SHAPE, "weft_" #f, #second);                        \
    } while (0)

#define ONE_ROWS(f, ...)                                                                                     \
    do {                                                                                                     \
        GIVES_NULL(weft_##f(NULL __VA_ARGS__), INVALID, "weft_" #f, "a");                                    \
        GIVES_NULL(weft_##f(dead __VA_ARGS__), INVALID, "weft_" #f, "a");                                    \
        GIVES_NULL(weft_##f(stale_tensor __VA_ARGS__), INVALID, "weft_" #f, "a");                            \
    } while (0)

/* ---- rows
 * ----------------------------------------------------------------------------------------------- */

static void test_operations(void **state)
{
    (void)state;
    PAIR_ROWS(add, a, b, NOTHING);
    PAIR_ROWS(sub, a, b, NOTHING);
    PAIR_ROWS(mul, a, b, NOTHING);
    PAIR_ROWS(add_inplace, a, b, FACTOR);
    GIVES_NULL(weft_sub(booleans, booleans), DTYPE, "weft_sub", "a");
    GIVES_NULL(weft_add_inplace(indices, matrix, 1), DTYPE, "weft_add_inplace", "cannot hold");
    GIVES_NULL(weft_scale(indices, 0.5), DTYPE, "weft_scale", "factor");
    GIVES_NULL(weft_to_type(matrix, (weft_dtype)99), DTYPE, "weft_to_type", "dtype");
    GIVES_NULL(weft_relu_backward(matrix, whole), DTYPE, "weft_relu_backward", "input");
    GIVES_NULL(weft_where(matrix, matrix, matrix), DTYPE, "weft_where", "condition");
    PAIR_ROWS(relu_backward, gradient, input, NOTHING);
    PAIR_ROWS(gelu_backward, gradient, input, NOTHING);
    GIVES_NULL(weft_add_inplace(scalar, matrix, 1), SHAPE, "weft_add_inplace", "broadcast");
    GIVES_NULL(weft_add_inplace(partial, matrix, 1), LAYOUT, "weft_add_inplace", "target");
    ONE_ROWS(relu, NOTHING);
    ONE_ROWS(gelu, NOTHING);
    ONE_ROWS(scale, FACTOR);
    ONE_ROWS(sum, DIM_0);
    GIVES_NULL(weft_sum(NULL, WEFT_ALL_DIMS, false), INVALID, "weft_sum", "a");
    GIVES_NULL(weft_sum(matrix, WEFT_DIM(0) | WEFT_DIM(5), false), INVALID, "weft_sum", "dims is 5");
    ONE_ROWS(reshape, TO_20);
    GIVES_NULL(weft_gelu(indices), DTYPE, "weft_gelu", "i64");
    GIVES_NULL(weft_mean(booleans, 0, false), DTYPE, "weft_mean", "bool");
    GIVES_NULL(weft_std(booleans, 0, 1, false), DTYPE, "weft_std", "bool");
    GIVES_NULL(weft_std(matrix, WEFT_DIM(1) | WEFT_DIM(-1), 1, false), INVALID, "weft_std", "twice");
    GIVES_NULL(weft_logsumexp(matrix, -3, true), INVALID, "weft_logsumexp", "dim");
    GIVES_NULL(weft_nansum(scalar, 1, false), INVALID, "weft_nansum", "dim is 1");
    GIVES_NULL(weft_nanmean(booleans, 0, false), DTYPE, "weft_nanmean", "bool");
    GIVES_NULL(weft_nanmean(NULL, WEFT_ALL_DIMS, false), INVALID, "weft_nanmean", "a");
    GIVES_NULL(weft_max(empty, 0, false), SHAPE, "weft_max", "size 0");
    GIVES_NULL(weft_sum(matrix, WEFT_DIM(1) | WEFT_DIM(-1), false), INVALID, "weft_sum", "twice");
    GIVES_NULL(weft_sum(matrix, WEFT_DIM(WEFT_MAX_DIMS), false), INVALID, "weft_sum", "outside");
    GIVES_NULL(weft_argmax(matrix, WEFT_DIM(0) | WEFT_DIM(1), false), INVALID, "weft_argmax", "set");
    GIVES_NULL(weft_norm(matrix, -1, 0, false), INVALID, "weft_norm", "p is");
    GIVES_NULL(weft_fill_inplace(indices, INFINITY), DTYPE, "weft_fill_inplace", "value");
    GIVES_NULL(weft_scale(indices, 1e19), DTYPE, "weft_scale", "factor");
    GIVES_NULL(weft_clamp(indices, 0.5, 1), DTYPE, "weft_clamp", "min");
    GIVES_NULL(weft_eq_scalar(NULL, 1), INVALID, "weft_eq_scalar", "a");
    GIVES_NULL(weft_ge_scalar(dead, 1), INVALID, "weft_ge_scalar", "a");
    PAIR_ROWS(fmax, a, b, NOTHING);
    PAIR_ROWS(copysign, a, b, NOTHING);
    GIVES_NULL(weft_copysign(booleans, booleans), DTYPE, "weft_copysign", "a");
    GIVES_NULL(weft_nan_to_num(stale_tensor, 0, 0, 0), INVALID, "weft_nan_to_num", "a");
    GIVES_NULL(weft_frac(indices), DTYPE, "weft_frac", "a");
    GIVES_NULL(weft_bitwise_and(matrix, indices), DTYPE, "weft_bitwise_and", "a");
    GIVES_NULL(weft_bitwise_not(matrix), DTYPE, "weft_bitwise_not", "a");
    GIVES_NULL(weft_bitwise_left_shift(booleans, booleans), DTYPE, "weft_bitwise_left_shift", "a");
    GIVES_NULL(weft_bitwise_right_shift(places, matrix), DTYPE, "weft_bitwise_right_shift", "b");
    GIVES_NULL(weft_clamp_tensors(matrix, NULL, NULL), INVALID, "weft_clamp_tensors", "min");
    GIVES_NULL(weft_clamp_tensors(matrix, NULL, dead), INVALID, "weft_clamp_tensors", "max");
    GIVES_NULL(weft_clamp_tensors(matrix, square, matrix), SHAPE, "weft_clamp_tensors", "min");
    GIVES_NULL(weft_clamp_tensors(matrix, on_other, NULL), MESH, "weft_clamp_tensors", "min");
    GIVES_NULL(weft_clamp_tensors(matrix, matrix, on_other), MESH, "weft_clamp_tensors", "max");
    GIVES_NULL(weft_clamp_tensors(matrix, NULL, on_other), MESH, "weft_clamp_tensors", "max");
    GIVES_NULL(weft_lerp_tensor(matrix, matrix, NULL), INVALID, "weft_lerp_tensor", "weight");
    GIVES_NULL(weft_lerp_tensor(matrix, matrix, places), DTYPE, "weft_lerp_tensor", "weight");
    GIVES_NULL(weft_masked_fill_tensor(matrix, booleans, matrix), SHAPE, "weft_masked_fill_tensor", "value");
    GIVES_NULL(weft_masked_fill_tensor(on_other, booleans, scalar), MESH, "weft_masked_fill_tensor", "mask");
    GIVES_NULL(weft_masked_fill_tensor(matrix, matrix, scalar), DTYPE, "weft_masked_fill_tensor", "mask");
    ONE_ROWS(digamma, NOTHING);
    GIVES_NULL(weft_polygamma(matrix, -1), INVALID, "weft_polygamma", "n is -1");
    GIVES_NULL(weft_polygamma(matrix, 161), INVALID, "weft_polygamma", "n is 161");
    GIVES_NULL(weft_gcd(matrix, matrix), DTYPE, "weft_gcd", "a");
    GIVES_NULL(weft_polygamma(NULL, 1), INVALID, "weft_polygamma", "a");
    PAIR_ROWS(xlogy, a, b, NOTHING);
    GIVES_NULL(weft_cummax(matrix, 2, NULL), INVALID, "weft_cummax", "dim");
    GIVES_NULL(weft_cummin(dead, 0, NULL), INVALID, "weft_cummin", "a");
    GIVES_NULL(weft_nonzero(stale_tensor), INVALID, "weft_nonzero", "a");
    GIVES_NULL(weft_masked_select(matrix, matrix), DTYPE, "weft_masked_select", "mask");
    GIVES_NULL(weft_masked_select(square, booleans), SHAPE, "weft_masked_select", "mask");
    GIVES_NULL(weft_masked_select(on_other, booleans), MESH, "weft_masked_select", "mask");
    GIVES_NULL(weft_index_put(matrix, 0, &indices, matrix, false), INVALID, "weft_index_put", "num_indices");
    GIVES_NULL(weft_index_put(matrix, 3, &indices, matrix, false), INVALID, "weft_index_put", "num_indices");
    GIVES_NULL(weft_index_put(matrix, 1, NULL, matrix, false), INVALID, "weft_index_put", "indices");
    GIVES_NULL(weft_index_put(matrix, 1, &dead, matrix, false), INVALID, "weft_index_put", "indices");
    GIVES_NULL(weft_index_put(matrix, 1, &places, matrix, false), SHAPE, "weft_index_put", "values");
    GIVES_NULL(weft_index_put(matrix, 1, &matrix, scalar, false), DTYPE, "weft_index_put", "indices");
    GIVES_NULL(weft_index_put(matrix, 1, &indices, whole, false), DTYPE, "weft_index_put", "values");
    GIVES_NULL(weft_index_put(matrix, 2, (weft_tensor *[]){ indices, places }, scalar, false), SHAPE, "weft_index_put",
               "indices[1]");
    GIVES_NULL(weft_index_put(matrix, 2, (weft_tensor *[]){ indices, matrix }, scalar, false), DTYPE, "weft_index_put",
               "indices[1] is f32");
    GIVES_NULL(weft_index_put(matrix, 2, (weft_tensor *[]){ indices, NULL }, scalar, false), INVALID, "weft_index_put",
               "indices[1]");
    GIVES_NULL(weft_index_put(matrix, 1, &indices, on_other, false), MESH, "weft_index_put", "values");
    GIVES_NULL(weft_norm(empty, INFINITY, 0, false), SHAPE, "weft_norm", "size 0");
    GIVES_NULL(weft_sum(matrix, 2, false), INVALID, "weft_sum", "dim");
    GIVES_NULL(weft_sum(matrix, -3, true), INVALID, "weft_sum", "dim");
    GIVES_NULL(weft_sum(scalar, -2, false), INVALID, "weft_sum", "dim is -2, expected -1 to 0");
    GIVES_NULL(weft_matmul(NULL, matrix), INVALID, "weft_matmul", "a");
    GIVES_NULL(weft_matmul(matrix, NULL), INVALID, "weft_matmul", "b");
    GIVES_NULL(weft_matmul(matrix, matrix), SHAPE, "weft_matmul", "b");
    GIVES_NULL(weft_matmul(scalar, matrix), SHAPE, "weft_matmul", "a");
    GIVES_NULL(weft_matmul(square, whole), DTYPE, "weft_matmul", "b");
    GIVES_NULL(weft_matmul(square, on_other), MESH, "weft_matmul", "weft_redistribute");
    GIVES_NULL(weft_matmul_ex(NULL, true, matrix, false), INVALID, "weft_matmul_ex", "a");
    GIVES_NULL(weft_matmul_ex(matrix, true, square, false), SHAPE, "weft_matmul_ex", "b");
    GIVES_NULL(weft_embedding(NULL, indices), INVALID, "weft_embedding", "table");
    GIVES_NULL(weft_embedding(matrix, NULL), INVALID, "weft_embedding", "indices");
    GIVES_NULL(weft_embedding(matrix, square), DTYPE, "weft_embedding", "indices");
    GIVES_NULL(weft_embedding(scalar, indices), SHAPE, "weft_embedding", "table");
    GIVES_NULL(weft_embedding_backward(NULL, indices, 4), INVALID, "weft_embedding_backward", "gradient");
    GIVES_NULL(weft_embedding_backward(matrix, indices, -1), INVALID, "weft_embedding_backward", "num_rows");
    GIVES_NULL(weft_embedding_backward(square, indices, 4), SHAPE, "weft_embedding_backward", "indices");
    GIVES_NULL(weft_cross_entropy(NULL, indices, NULL), INVALID, "weft_cross_entropy", "logits");
    GIVES_NULL(weft_cross_entropy(matrix, NULL, NULL), INVALID, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy(matrix, booleans, NULL), DTYPE, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy(square, indices, NULL), SHAPE, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy_backward(NULL, NULL, indices), INVALID, "weft_cross_entropy_backward",
               "logits");
    GIVES_NULL(weft_cross_entropy_backward(matrix, matrix, indices), SHAPE, "weft_cross_entropy_backward",
               "gradient");
    GIVES_NULL(weft_cross_entropy_with_log_sums(matrix, matrix, NULL, NULL), DTYPE,
               "weft_cross_entropy_with_log_sums", "targets");
    GIVES_NULL(weft_cross_entropy_with_log_sums(matrix, indices,
                                                &(weft_cross_entropy_options){
                                                    .size = sizeof(weft_cross_entropy_options), .weight = matrix },
                                                NULL),
               UNSUPPORTED, "weft_cross_entropy_with_log_sums", "weight");
    GIVES_NULL(weft_cross_entropy_backward_with_log_sums(NULL, matrix, indices, NULL, NULL), INVALID,
               "weft_cross_entropy_backward_with_log_sums", "log_sums");
    GIVES_NULL(weft_cross_entropy_backward_with_log_sums(NULL, matrix, indices, matrix, NULL), DTYPE,
               "weft_cross_entropy_backward_with_log_sums", "log_sums");
    GIVES_NULL(weft_softmax(NULL, 0), INVALID, "weft_softmax", "a");
    GIVES_NULL(weft_softmax(matrix, 2), INVALID, "weft_softmax", "dim is 2");
    GIVES_NULL(weft_softmax(scalar, 1), INVALID, "weft_softmax", "dim is 1");
    GIVES_NULL(weft_softmax(indices, 0), DTYPE, "weft_softmax", "a is i64");
    GIVES_NULL(weft_log_softmax(cut, -3), INVALID, "weft_log_softmax", "dim is -3");
    GIVES_NULL(weft_softmax_backward(matrix, NULL, 0), INVALID, "weft_softmax_backward", "output");
    GIVES_NULL(weft_softmax_backward(matrix, square, 0), SHAPE, "weft_softmax_backward", "output has size 5");
    GIVES_NULL(weft_softmax_backward(cut, whole, 1), DTYPE, "weft_softmax_backward", "output is f64");
    GIVES_NULL(weft_log_softmax_backward(cut, on_other, 1), MESH, "weft_log_softmax_backward", "output");
    GIVES_NULL(weft_rotary(NULL, 7, 0), INVALID, "weft_rotary", "a");
    GIVES_NULL(weft_rotary(scalar, 7, 0), SHAPE, "weft_rotary", "a has 0 dimensions");
    GIVES_NULL(weft_rotary(indices, 7, 0), SHAPE, "weft_rotary", "a has 1 dimensions");
    GIVES_NULL(weft_rotary(square, 7, 0), SHAPE, "weft_rotary", "a's last dimension has 5 elements");
    GIVES_NULL(weft_rotary(square, 0, 0), INVALID, "weft_rotary", "theta is 0");
    GIVES_NULL(weft_rotary(square, NAN, 0), INVALID, "weft_rotary", "theta is nan");
    GIVES_NULL(weft_rotary(square, INFINITY, 0), INVALID, "weft_rotary", "theta is inf");
    GIVES_NULL(weft_rotary(square, 7, -1), INVALID, "weft_rotary", "first_position is -1");
    GIVES_NULL(weft_rotary_backward(NULL, 7, 0), INVALID, "weft_rotary_backward", "gradient");
    GIVES_NULL(weft_rotary_backward(square, 7, 0), SHAPE, "weft_rotary_backward", "gradient's last dimension");
    GIVES_NULL(weft_layer_norm(NULL, NULL, NULL, 0), INVALID, "weft_layer_norm", "a");
    GIVES_NULL(weft_layer_norm(matrix, dead, NULL, 0), INVALID, "weft_layer_norm", "gain");
    GIVES_NULL(weft_layer_norm(scalar, NULL, NULL, 0), SHAPE, "weft_layer_norm", "a is a scalar");
    GIVES_NULL(weft_layer_norm(cut, indices, NULL, 0), DTYPE, "weft_layer_norm", "gain is i64");
    GIVES_NULL(weft_layer_norm(cut, square, NULL, 0), SHAPE, "weft_layer_norm", "gain has size 5");
    GIVES_NULL(weft_layer_norm(cut, scalar, NULL, 0), SHAPE, "weft_layer_norm", "gain has 0 dimensions");
    GIVES_NULL(weft_layer_norm(cut, NULL, square, 0), SHAPE, "weft_layer_norm", "bias has size 5");
    GIVES_NULL(weft_layer_norm(cut, matrix, square, 0), SHAPE, "weft_layer_norm", "bias has size 5");
    GIVES_NULL(weft_layer_norm(cut, on_other, NULL, 0), MESH, "weft_layer_norm", "weft_redistribute");
    GIVES_NULL(weft_layer_norm(cut, NULL, NULL, -1), INVALID, "weft_layer_norm", "epsilon is -1");
    GIVES_NULL(weft_layer_norm_backward(NULL, cut, NULL, 0, NULL, NULL), INVALID, "weft_layer_norm_backward",
               "gradient");
    GIVES_NULL(weft_layer_norm_backward(square, cut, NULL, 0, NULL, NULL), SHAPE, "weft_layer_norm_backward",
               "gradient has size 5");
    GIVES_NULL(weft_layer_norm_backward(whole, cut, NULL, 0, NULL, NULL), DTYPE, "weft_layer_norm_backward",
               "gradient is f64");
    GIVES_NULL(weft_rms_norm(matrix, square, 0), SHAPE, "weft_rms_norm", "gain has size 5");
    GIVES_NULL(weft_rms_norm_backward(matrix, cut, square, 0, NULL), SHAPE, "weft_rms_norm_backward",
               "gain has size 5");
    GIVES_NULL(weft_cross_entropy(cut, NULL, NULL), INVALID, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy(cut, booleans, NULL), DTYPE, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy(cut, indices,
                                     &(weft_cross_entropy_options){ .reduction = (weft_loss_reduction)7 }),
               INVALID, "weft_cross_entropy", "reduction is 7");
    GIVES_NULL(weft_cross_entropy(cut, indices, &(weft_cross_entropy_options){ .label_smoothing = 1.5 }),
               INVALID, "weft_cross_entropy", "label_smoothing is 1.5");
    GIVES_NULL(weft_cross_entropy_ex_backward(whole, cut, indices, NULL), DTYPE,
               "weft_cross_entropy_ex_backward", "gradient is f64");
    GIVES_NULL(weft_cross_entropy_ex_backward(matrix, cut, indices, NULL), SHAPE,
               "weft_cross_entropy_ex_backward", "gradient has 2 dimensions");
    GIVES_NULL(weft_nll(square, indices, -100, WEFT_LOSS_MEAN), SHAPE, "weft_nll", "targets");
    GIVES_NULL(weft_nll(matrix, indices, -100, (weft_loss_reduction)-1), INVALID, "weft_nll",
               "reduction is -1");
    GIVES_NULL(weft_nll_backward(NULL, NULL, indices, -100, WEFT_LOSS_SUM), INVALID, "weft_nll_backward",
               "log_probabilities");
    GIVES_NULL(weft_mse(matrix, square, WEFT_LOSS_MEAN), SHAPE, "weft_mse", "b has size 5");
    GIVES_NULL(weft_mse(matrix, whole, WEFT_LOSS_NONE), DTYPE, "weft_mse", "b is f64");
    GIVES_NULL(weft_mse(matrix, matrix, (weft_loss_reduction)3), INVALID, "weft_mse", "reduction is 3");
    GIVES_NULL(weft_mse_backward(matrix, matrix, matrix, WEFT_LOSS_SUM), SHAPE, "weft_mse_backward",
               "gradient has 2 dimensions");
    GIVES_NULL(weft_reshape(matrix, 1, (const int64_t[]){ 21 }), SHAPE, "weft_reshape", "shape");
    GIVES_NULL(weft_reshape(matrix, 2, (const int64_t[]){ -1, -1 }), SHAPE, "weft_reshape", "shape");
    GIVES_NULL(weft_reshape(matrix, 1, NULL), INVALID, "weft_reshape", "shape");
    GIVES_NULL(weft_reshape(matrix, 9, nine), INVALID, "weft_reshape", "ndim");
    ONE_ROWS(argmax, DIM_0);
    GIVES_NULL(weft_argmax(matrix, 2, false), INVALID, "weft_argmax", "dim");
    GIVES_NULL(weft_argmin(empty, 0, false), SHAPE, "weft_argmin", "size 0");
    GIVES_NULL(weft_argmin(empty, WEFT_ALL_DIMS, false), SHAPE, "weft_argmin", "size 0");
    ONE_ROWS(cumsum, ROWS_0);
    GIVES_NULL(weft_cumsum(matrix, -3), INVALID, "weft_cumsum", "dim is -3");
    GIVES_NULL(weft_cumsum(matrix, WEFT_ALL_DIMS), INVALID, "weft_cumsum", "dim is ");
    GIVES_NULL(weft_cumprod(scalar, 1), INVALID, "weft_cumprod", "dim is 1");
    GIVES_NULL(weft_index_select(NULL, 0, indices), INVALID, "weft_index_select", "a");
    GIVES_NULL(weft_index_select(matrix, 0, NULL), INVALID, "weft_index_select", "indices");
    GIVES_NULL(weft_index_select(matrix, 2, indices), INVALID, "weft_index_select", "dim");
    GIVES_NULL(weft_index_select(matrix, 0, square), DTYPE, "weft_index_select", "indices");
    GIVES_NULL(weft_index_select(matrix, 0, places), SHAPE, "weft_index_select", "indices");
    GIVES_NULL(weft_index_select(on_other, 0, indices), MESH, "weft_index_select", "weft_redistribute");
    GIVES_NULL(weft_index_select(scalar, 0, indices), SHAPE, "weft_index_select", "indices has 4 elements");
    GIVES_NULL(weft_gather(scalar, 0, places), SHAPE, "weft_gather", "indices has 2 dimensions");
    GIVES_NULL(weft_gather(scalar, 1, indices), INVALID, "weft_gather", "dim is 1");
    GIVES_NULL(weft_gather(scalar, 0, matrix), SHAPE, "weft_gather", "indices");
    GIVES_NULL(weft_index_add(scalar, 0, indices, scalar), SHAPE, "weft_index_add", "source has 1 element");
    GIVES_NULL(weft_scatter(scalar, 0, indices, indices), DTYPE, "weft_scatter", "source is i64");
    GIVES_NULL(weft_scatter_scalar(scalar, 0, NULL, 1), INVALID, "weft_scatter_scalar", "indices");
    GIVES_NULL(weft_segment_sum(scalar, indices, 2), SHAPE, "weft_segment_sum", "a is a scalar");
    GIVES_NULL(weft_scatter(matrix, 0, places, whole), DTYPE, "weft_scatter", "source is f64");
    GIVES_NULL(weft_scatter(matrix, 0, indices, matrix), SHAPE, "weft_scatter", "indices has 1 dimension, expected 2");
    GIVES_NULL(weft_scatter(matrix, 0, matrix, matrix), DTYPE, "weft_scatter", "indices is f32");
    GIVES_NULL(weft_scatter_scalar(square, 1, places, 1), SHAPE, "weft_scatter_scalar", "indices has size");
    GIVES_NULL(weft_scatter_scalar(on_other, 0, places, 1), MESH, "weft_scatter_scalar", "weft_redistribute");
    GIVES_NULL(weft_index_copy(matrix, 0, NULL, matrix), INVALID, "weft_index_copy", "indices");
    GIVES_NULL(weft_index_fill(matrix, 7, indices, 1), INVALID, "weft_index_fill", "dim");
    GIVES_NULL(weft_index_fill(matrix, 0, places, 1), SHAPE, "weft_index_fill", "indices has 2 dimensions, expected 1");
    GIVES_NULL(weft_scatter_reduce(matrix, 0, places, matrix, (weft_reduce_op)7, true), INVALID, "weft_scatter_reduce",
               "reduction is 7");
    GIVES_NULL(weft_segment_sum(matrix, indices, -1), INVALID, "weft_segment_sum", "num_segments is -1");
    GIVES_NULL(weft_segment_sum(matrix, places, 3), SHAPE, "weft_segment_sum", "indices has 2 dimensions");
    GIVES_NULL(weft_bincount(places, NULL, 3), SHAPE, "weft_bincount", "indices has 2 dimensions, expected 1");
    GIVES_NULL(weft_bincount(indices, matrix, 3), SHAPE, "weft_bincount", "weights");
    GIVES_NULL(weft_histogram(matrix, 0, 0, 1), INVALID, "weft_histogram", "num_bins is 0");
    GIVES_NULL(weft_histogram(matrix, 3, 1, 1), INVALID, "weft_histogram", "low is 1 and high 1");
    weft_tensor *const operands[] = { matrix, matrix };
    GIVES_NULL(weft_einsum(NULL, 2, operands), INVALID, "weft_einsum", "equation is NULL");
    GIVES_NULL(weft_einsum("ij,jk", 0, operands), INVALID, "weft_einsum", "num_tensors is 0");
    GIVES_NULL(weft_einsum("ij", 2, operands), INVALID, "weft_einsum", "character 3: expected a comma");
    GIVES_NULL(weft_einsum("ij,ij,ij", 2, operands), INVALID, "weft_einsum", "character 6: there are fewer tensors");
    GIVES_NULL(weft_einsum("ijk,ij", 2, operands), INVALID, "weft_einsum", "3 letters for an operand of 2 dimensions");
    GIVES_NULL(weft_einsum("ij,ij->k", 2, operands), INVALID, "weft_einsum", "'k' which no operand has");
    GIVES_NULL(weft_einsum("ij,ij->ii", 2, operands), INVALID, "weft_einsum", "'i' twice");
    GIVES_NULL(weft_einsum("ij,i.j", 2, operands), INVALID, "weft_einsum", "a dot, expected");
    GIVES_NULL(weft_einsum("ij,i1", 2, operands), INVALID, "weft_einsum", "equation \"ij,i1\"");
    GIVES_NULL(weft_einsum("ii,ij", 2, operands), SHAPE, "weft_einsum", "tensors[0] has size");
    GIVES_NULL(weft_tensordot(matrix, matrix, 1, NULL, NULL), INVALID, "weft_tensordot", "num_dims is 1");
    GIVES_NULL(weft_tensordot(matrix, whole, 0, NULL, NULL), DTYPE, "weft_tensordot", "f64");
    weft_tensor *sum = weft_sum(matrix, WEFT_ALL_DIMS, false);
    GIVES_NULL(weft_tensordot(sum, matrix, 1, (int[]){ 0 }, (int[]){ 0 }), INVALID, "weft_tensordot", "num_dims is 1");
    GIVES_NULL(weft_median(matrix, 2, false, NULL), INVALID, "weft_median", "dim");
    GIVES_NULL(weft_quantile(matrix, 1.5, 0, false, WEFT_QUANTILE_LINEAR), INVALID, "weft_quantile", "q is 1.5");
    GIVES_NULL(weft_quantile(matrix, 0.5, 0, false, (weft_quantile_way)9), INVALID, "weft_quantile", "way is 9");
    GIVES_NULL(weft_cov(matrix, (double)NAN), INVALID, "weft_cov", "correction");
    GIVES_NULL(weft_gather(NULL, 0, places), INVALID, "weft_gather", "a");
    GIVES_NULL(weft_gather(matrix, 0, indices), SHAPE, "weft_gather", "indices");
    GIVES_NULL(weft_gather(square, 1, places), SHAPE, "weft_gather", "indices has size 4 in dimension 0");
    GIVES_NULL(weft_scatter_add(NULL, 0, places, matrix), INVALID, "weft_scatter_add", "a");
    GIVES_NULL(weft_scatter_add(matrix, 0, NULL, matrix), INVALID, "weft_scatter_add", "indices");
    GIVES_NULL(weft_scatter_add(matrix, 0, places, NULL), INVALID, "weft_scatter_add", "source");
    GIVES_NULL(weft_scatter_add(matrix, 0, places, whole), DTYPE, "weft_scatter_add", "source is f64");
    GIVES_NULL(weft_scatter_add(matrix, 0, matrix, matrix), DTYPE, "weft_scatter_add", "indices");
    GIVES_NULL(weft_scatter_add(matrix, 1, places, square), SHAPE, "weft_scatter_add",
               "source has size 5 in dimension 0, expected 4");
    GIVES_NULL(weft_scatter_add(square, 0, places, square), SHAPE, "weft_scatter_add", "indices");
    GIVES_NULL(weft_scatter_add(on_other, 0, places, matrix), MESH, "weft_scatter_add", "weft_redistribute");
    GIVES_NULL(weft_scatter_add_inplace(partial, 0, places, matrix), LAYOUT, "weft_scatter_add_inplace",
               "Partial");
    GIVES_NULL(weft_index_add(matrix, 0, places, matrix), SHAPE, "weft_index_add", "indices");
    GIVES_NULL(weft_index_add_inplace(matrix, 5, indices, matrix), INVALID, "weft_index_add_inplace", "dim");
    GIVES_NULL(weft_one_hot(NULL, 3), INVALID, "weft_one_hot", "indices");
    GIVES_NULL(weft_one_hot(matrix, 3), DTYPE, "weft_one_hot", "indices");
    GIVES_NULL(weft_one_hot(indices, -1), INVALID, "weft_one_hot", "num_classes is -1");
    GIVES_NULL(weft_sort(NULL, 0, false, NULL), INVALID, "weft_sort", "a");
    GIVES_NULL(weft_sort(matrix, 2, false, NULL), INVALID, "weft_sort", "dim");
    GIVES_NULL(weft_argsort(scalar, 1, false), INVALID, "weft_argsort", "dim is 1");
    GIVES_NULL(weft_topk(matrix, 6, 1, true, NULL), INVALID, "weft_topk", "k is 6, expected 0 to 5");
    GIVES_NULL(weft_topk(matrix, -1, 1, true, NULL), INVALID, "weft_topk", "k is -1");
    REFUSES(weft_equal(NULL, matrix, &answer), INVALID, "weft_equal", "a");
    REFUSES(weft_equal(matrix, dead, &answer), INVALID, "weft_equal", "b");
    REFUSES(weft_equal(matrix, matrix, NULL), INVALID, "weft_equal", "result");
    REFUSES(weft_equal(matrix, on_other, &answer), MESH, "weft_equal", "weft_redistribute");
    REFUSES(weft_allclose(matrix, NULL, 0, 0, false, &answer), INVALID, "weft_allclose", "b");
    REFUSES(weft_allclose(matrix, matrix, 0, -1, false, &answer), INVALID, "weft_allclose", "atol is -1");
    REFUSES(weft_allclose(matrix, matrix, NAN, 0, false, &answer), INVALID, "weft_allclose", "rtol");
    REFUSES(weft_tensor_item(NULL, memory), INVALID, "weft_tensor_item", "tensor");
    REFUSES(weft_tensor_item(scalar, NULL), INVALID, "weft_tensor_item", "value");
    REFUSES(weft_tensor_item(matrix, memory), SHAPE, "weft_tensor_item", "20 elements");
    rows_end();
}

static void test_random(void **state)
{
    (void)state;
    REFUSES(weft_random_state_create(NULL, 1), INVALID, "weft_random_state_create", "name");
    REFUSES(weft_random_state_create("", 1), INVALID, "weft_random_state_create", "name");
    REFUSES(weft_random_state_create("there", 1), INVALID, "weft_random_state_create", "there");
    REFUSES(weft_random_state_use("none"), INVALID, "weft_random_state_use", "none");
    REFUSES(weft_random_state_get("none", &random_state), INVALID, "weft_random_state_get", "none");
    REFUSES(weft_random_state_get(NULL, NULL), INVALID, "weft_random_state_get", "state");
    REFUSES(weft_random_state_set("none", random_state), INVALID, "weft_random_state_set", "none");
    SETS_ERROR(weft_random_states(-1, NULL), INVALID, "weft_random_states", "max");
    SETS_ERROR(weft_random_states(1, NULL), INVALID, "weft_random_states", "names");
    ONE_ROWS(zeros_like, NOTHING);
    ONE_ROWS(empty_like, NOTHING);
    ONE_ROWS(ones_like, NOTHING);
    ONE_ROWS(full_like, FACTOR);
    ONE_ROWS(rand_like, NOTHING);
    ONE_ROWS(randn_like, NOTHING);
    GIVES_NULL(weft_rand_like(indices), DTYPE, "weft_rand_like", "i64");
    GIVES_NULL(weft_randint(WEFT_I64, 3, 3, 2, shape_45, mesh, rows), INVALID, "weft_randint", "low");
    GIVES_NULL(weft_randint(WEFT_F32, 0, 3, 2, shape_45, mesh, rows), DTYPE, "weft_randint", "f32");
    GIVES_NULL(weft_randint(WEFT_U8, 0, 257, 2, shape_45, mesh, rows), INVALID, "weft_randint", "u8");
    GIVES_NULL(weft_randint(WEFT_I32, INT64_MIN, 0, 2, shape_45, mesh, rows), INVALID, "weft_randint", "i32");
    GIVES_NULL(weft_randint(WEFT_BOOL, -1, 1, 2, shape_45, mesh, rows), INVALID, "weft_randint", "bool");
    GIVES_NULL(weft_randint(WEFT_I64, 0, 2, 2, shape_45, mesh, with_partial), LAYOUT, "weft_randint",
               "Partial");
    GIVES_NULL(weft_randperm(-1, mesh, NULL), INVALID, "weft_randperm", "n is");
    GIVES_NULL(weft_randperm(3, NULL, NULL), MESH, "weft_randperm", "mesh");
    GIVES_NULL(weft_bernoulli(NULL), INVALID, "weft_bernoulli", "p");
    GIVES_NULL(weft_bernoulli(indices), DTYPE, "weft_bernoulli", "i64");
    GIVES_NULL(weft_bernoulli_scalar(WEFT_F32, 1.5, 2, shape_45, mesh, rows), INVALID,
               "weft_bernoulli_scalar", "p is");
    GIVES_NULL(weft_bernoulli_scalar(WEFT_F32, NAN, 2, shape_45, mesh, rows), INVALID,
               "weft_bernoulli_scalar", "p is");
    GIVES_NULL(weft_uniform_inplace(NULL, 0, 1), INVALID, "weft_uniform_inplace", "a");
    GIVES_NULL(weft_uniform_inplace(matrix, 1, 0), INVALID, "weft_uniform_inplace", "low");
    GIVES_NULL(weft_uniform_inplace(matrix, 0, INFINITY), INVALID, "weft_uniform_inplace", "high");
    GIVES_NULL(weft_uniform_inplace(whole, -1e308, 1e308), INVALID, "weft_uniform_inplace", "distance");
    GIVES_NULL(weft_uniform_inplace(indices, 0, 1), DTYPE, "weft_uniform_inplace", "i64");
    GIVES_NULL(weft_uniform_inplace(partial, 0, 1), LAYOUT, "weft_uniform_inplace", "target");
    GIVES_NULL(weft_normal_inplace(matrix, 0, -1), INVALID, "weft_normal_inplace", "deviation");
    GIVES_NULL(weft_normal_inplace(matrix, 0, NAN), INVALID, "weft_normal_inplace", "deviation");
    GIVES_NULL(weft_normal_inplace(indices, 0, 1), DTYPE, "weft_normal_inplace", "i64");
    GIVES_NULL(weft_dropout(NULL, 0.5, true, NULL), INVALID, "weft_dropout", "a");
    GIVES_NULL(weft_dropout(matrix, -0.5, true, NULL), INVALID, "weft_dropout", "p is");
    GIVES_NULL(weft_dropout(indices, 0.5, false, NULL), DTYPE, "weft_dropout", "i64");
    GIVES_NULL(weft_dropout2d(NULL, 0.5, true, NULL), INVALID, "weft_dropout2d", "a");
    GIVES_NULL(weft_dropout2d(scalar, 0.5, true, NULL), SHAPE, "weft_dropout2d", "a has 0 dimensions");
    GIVES_NULL(weft_dropout2d(matrix, 1.5, true, NULL), INVALID, "weft_dropout2d", "p is");
    GIVES_NULL(weft_dropout2d(places, 0.5, true, NULL), DTYPE, "weft_dropout2d", "i64");
    GIVES_NULL(weft_dropout_backward(matrix, NULL, 0.5, true), INVALID, "weft_dropout_backward", "mask");
    GIVES_NULL(weft_dropout_backward(square, booleans, 0.5, true), SHAPE, "weft_dropout_backward", "mask has size 4");
    GIVES_NULL(weft_dropout_backward(scalar, booleans, 0.5, true), SHAPE, "weft_dropout_backward", "mask has 2 dimensions");
    GIVES_NULL(weft_dropout_backward(matrix, matrix, 0.5, true), DTYPE, "weft_dropout_backward", "mask");
    rows_end();
}

#define SGD(...) (&(weft_sgd_options){ 0, __VA_ARGS__ })
#define ADAM(...) (&(weft_adam_options){ 0, __VA_ARGS__ })
#define LIST1(tensor) ((weft_tensor *const[]){ tensor })

static void test_optimizers(void **state)
{
    (void)state;
    REFUSES(weft_sgd(-1, LIST1(matrix), LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "n is");
    REFUSES(weft_sgd(1, NULL, LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "parameters");
    REFUSES(weft_sgd(1, LIST1(matrix), NULL, SGD(0.1), NULL), INVALID, "weft_sgd", "gradients");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(matrix), NULL, NULL), INVALID, "weft_sgd", "options");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(-1), NULL), INVALID, "weft_sgd", "learning_rate");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1, 0.9), NULL), INVALID, "weft_sgd", "momenta");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1, .nesterov = true), NULL), INVALID, "weft_sgd",
            "nesterov");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(dead), SGD(0.1), NULL), INVALID, "weft_sgd", "gradients[0]");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(square), SGD(0.1), NULL), SHAPE, "weft_sgd", "gradients[0]");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(on_other), SGD(0.1), NULL), MESH, "weft_sgd", "gradients[0]");
    REFUSES(weft_sgd(1, LIST1(indices), LIST1(indices), SGD(0.1), NULL), DTYPE, "weft_sgd", "parameters[0]");
    REFUSES(weft_sgd(1, LIST1(partial), LIST1(matrix), SGD(0.1), NULL), LAYOUT, "weft_sgd", "Partial");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(whole), SGD(0.1, 0.9), LIST1(whole)), LAYOUT, "weft_sgd",
            "momenta[0]");
    REFUSES(weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 0, ADAM(0.1)), INVALID,
            "weft_adam", "step");
    REFUSES(weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 1, NULL), INVALID,
            "weft_adam", "options");
    REFUSES(weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 1, ADAM(0.1, 1, 0.9)),
            INVALID, "weft_adam", "beta1");
    REFUSES(weft_adamw(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), NULL, 1, ADAM(0.1)), INVALID,
            "weft_adamw", "second_moments");
    REFUSES(weft_adamw(1, LIST1(matrix), LIST1(matrix), LIST1(whole), LIST1(matrix), 1, ADAM(0.1)), LAYOUT,
            "weft_adamw", "first_moments[0]");
    REFUSES(weft_clip_grad_norm(1, NULL, 1, 2, NULL), INVALID, "weft_clip_grad_norm", "gradients");
    REFUSES(weft_clip_grad_norm(1, LIST1(matrix), -1, 2, NULL), INVALID, "weft_clip_grad_norm", "max_norm");
    REFUSES(weft_clip_grad_norm(2, (weft_tensor *const[]){ matrix, matrix }, 1, 2, NULL), INVALID,
            "weft_clip_grad_norm", "gradients[1]");
    REFUSES(weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "gradients[0]");
    REFUSES(weft_clip_grad_norm(1, LIST1(matrix), 1, 0, NULL), INVALID, "weft_clip_grad_norm", "p is");
    REFUSES(weft_clip_grad_norm(1, LIST1(indices), 1, 2, NULL), DTYPE, "weft_clip_grad_norm", "gradients[0]");
    REFUSES(weft_clip_grad_norm(1, LIST1(largest), 1, 2, NULL), LAYOUT, "weft_clip_grad_norm", "Partial");
    rows_end();
}

#define DESCRIBED(...) (&(weft_operation_description){ 0, __VA_ARGS__ })
#define ONE_INPUT .inputs = { { "a", WEFT_TYPES_ALL, false } }

static void test_registered(void **state)
{
    (void)state;
    GIVES_NULL(weft_operation_register(NULL), INVALID, "weft_operation_register", "description");
    GIVES_NULL(weft_operation_register(DESCRIBED(.rule = "a->a", .kernel = no_kernel, ONE_INPUT)), INVALID,
               "weft_operation_register", "name");
    GIVES_NULL(weft_operation_register(DESCRIBED(.name = "f", .rule = "a->a", ONE_INPUT)), INVALID,
               "weft_operation_register", "kernel");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "a[b->a", .kernel = no_kernel, ONE_INPUT)), INVALID,
               "weft_operation_register", "at character 4");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "ab~->ab", .kernel = no_kernel, ONE_INPUT)), INVALID,
               "weft_operation_register", "halos");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "a,b->ab", .kernel = no_kernel, ONE_INPUT)), INVALID,
               "weft_operation_register", "inputs[1].name");
    GIVES_NULL(weft_operation_register(
                   DESCRIBED("f", "a->a", .kernel = no_kernel,
                             .inputs = { { "a", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, false } })),
               INVALID, "weft_operation_register", "inputs[1].name");
    GIVES_NULL(
        weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, .inputs = { { "a", 0, false } })),
        INVALID, "weft_operation_register", "types");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,
                                                 .outputs[0].type = (weft_output_type)99)),
               INVALID, "weft_operation_register", "outputs[0].type");
    GIVES_NULL(weft_operation_register(
                   DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT, .outputs[0].linear = { .inputs = 2 })),
               INVALID, "weft_operation_register", "inputs");
    GIVES_NULL(weft_operation_register(DESCRIBED("", "a->a", .kernel = no_kernel, ONE_INPUT)), INVALID,
               "weft_operation_register", "name is empty");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "a->", .kernel = no_kernel, ONE_INPUT,
                                                 .outputs[0].linear = { .contracts = WEFT_AVG })),
               INVALID, "weft_operation_register", "contracts");
    GIVES_NULL(weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,
                                                 .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY })),
               INVALID, "weft_operation_register", "ops");
    GIVES_NULL(
        weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,
                                          .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .ops = WEFT_LINEAR_OPS })),
        INVALID, "weft_operation_register", "inputs");
    GIVES_NULL(weft_operation_register(
                   DESCRIBED("f", "(ab)->(ac)", .kernel = no_kernel, ONE_INPUT, .outputs[0].in_place = true)),
               INVALID, "weft_operation_register", "in_place");
    GIVES_NULL(
        weft_operation_register(DESCRIBED("f", "ab->a", .kernel = no_kernel, ONE_INPUT, .outputs[0].in_place = true)),
        INVALID, "weft_operation_register", "in_place");
    GIVES_NULL(weft_apply(NULL, 1, LIST1(matrix), NULL), INVALID, "weft_apply", "operation");
    GIVES_NULL(weft_apply((const weft_operation *)memory, 1, LIST1(matrix), NULL), INVALID, "weft_apply",
               "operation");
    GIVES_NULL(weft_apply(custom, 2, LIST1(matrix), NULL), INVALID, "weft_apply", "num_tensors");
    GIVES_NULL(weft_apply(custom, 1, NULL, NULL), INVALID, "weft_apply", "num_tensors");
    GIVES_NULL(weft_apply(custom, 1, LIST1(matrix), &(weft_apply_options){ .num_numbers = 13 }), INVALID,
               "weft_apply", "num_numbers");
    GIVES_NULL(weft_apply(custom, 1, LIST1(dead), NULL), INVALID, "custom", "argument");
    GIVES_NULL(weft_apply(custom, 1, LIST1(indices), NULL), DTYPE, "custom", "argument");
    GIVES_NULL(weft_apply(custom, 1, LIST1(matrix), NULL), INVALID, "custom", "no size");
    rows_end();
}

#define TWO(a, b)                                                                                            \
    (weft_tensor *const[])                                                                                   \
    {                                                                                                        \
        a, b                                                                                                 \
    }

static void test_shapes(void **state)
{
    (void)state;
    ONE_ROWS(transpose, DIMS_01);
    ONE_ROWS(select, DIMS_01);
    ONE_ROWS(flatten, DIMS_01);
    GIVES_NULL(weft_squeeze(NULL, WEFT_ALL_DIMS), INVALID, "weft_squeeze", "a");
    ONE_ROWS(expand, TO_45);
    ONE_ROWS(sum_to, TO_45);
    GIVES_NULL(weft_squeeze(matrix, 2), INVALID, "weft_squeeze", "dim");
    GIVES_NULL(weft_squeeze(scalar, 1), INVALID, "weft_squeeze", "dim is 1");
    GIVES_NULL(weft_unsqueeze(matrix, -4), INVALID, "weft_unsqueeze", "dim");
    GIVES_NULL(weft_flatten(matrix, 1, 0), INVALID, "weft_flatten", "last");
    GIVES_NULL(weft_unflatten(matrix, 0, 0, shape_45), INVALID, "weft_unflatten", "num_sizes");
    GIVES_NULL(weft_unflatten(matrix, 0, 8, nine), INVALID, "weft_unflatten", "num_sizes");
    GIVES_NULL(weft_unflatten(matrix, 0, INT_MAX, nine), INVALID, "weft_unflatten", "num_sizes");
    GIVES_NULL(weft_unflatten(matrix, 0, INT_MIN, nine), INVALID, "weft_unflatten", "num_sizes");
    GIVES_NULL(weft_unflatten(matrix, 0, 2, NULL), INVALID, "weft_unflatten", "sizes");
    GIVES_NULL(weft_unflatten(matrix, 0, 2, shape_45), SHAPE, "weft_unflatten", "shape [4, 5]");
    GIVES_NULL(weft_transpose(matrix, 0, 2), INVALID, "weft_transpose", "dim1");
    GIVES_NULL(weft_permute(matrix, 3, (const int[]){ 0, 1, 2 }), INVALID, "weft_permute", "ndim");
    GIVES_NULL(weft_permute(matrix, 2, (const int[]){ 1, -1 }), INVALID, "weft_permute", "twice");
    GIVES_NULL(weft_permute(matrix, 2, NULL), INVALID, "weft_permute", "dims");
    GIVES_NULL(weft_movedim(matrix, 1, (const int[]){ 0 }, (const int[]){ -3 }), INVALID, "weft_movedim", "to is");
    GIVES_NULL(weft_expand(matrix, 2, shape_55), SHAPE, "weft_expand", "shape[0]");
    GIVES_NULL(weft_expand(matrix, 1, shape_55), SHAPE, "weft_expand", "shape");
    GIVES_NULL(weft_expand(matrix, INT_MIN, shape_55), INVALID, "weft_expand", "ndim");
    GIVES_NULL(weft_expand(scalar, 2, negative), SHAPE, "weft_expand", "shape[1]");
    GIVES_NULL(weft_expand(scalar, 2, huge), SHAPE, "weft_expand", "int64");
    GIVES_NULL(weft_sum_to(matrix, 2, shape_55), SHAPE, "weft_sum_to", "shape[0]");
    GIVES_NULL(weft_sum_to(scalar, 2, shape_55), SHAPE, "weft_sum_to", "shape");
    GIVES_NULL(weft_slice(NULL, 0, 0, 1, 1), INVALID, "weft_slice", "a");
    GIVES_NULL(weft_slice(matrix, 2, 0, 1, 1), INVALID, "weft_slice", "dim");
    GIVES_NULL(weft_slice(matrix, 0, 0, 1, 0), INVALID, "weft_slice", "step");
    GIVES_NULL(weft_slice_backward(matrix, 0, 9, 0, 3, 1), SHAPE, "weft_slice_backward", "expected 3");
    GIVES_NULL(weft_slice_backward(matrix, 0, -9, 0, 3, 1), SHAPE, "weft_slice_backward", "size is");
    GIVES_NULL(weft_slice_backward(NULL, 0, 9, 0, 3, 1), INVALID, "weft_slice_backward", "gradient");
    GIVES_NULL(weft_select(matrix, 0, 4), INVALID, "weft_select", "index");
    GIVES_NULL(weft_select(matrix, 0, -5), INVALID, "weft_select", "index");
    GIVES_NULL(weft_select(empty, 0, 0), INVALID, "weft_select", "index");
    GIVES_NULL(weft_flip(matrix, 2, (const int[]){ 0, 0 }), INVALID, "weft_flip", "twice");
    GIVES_NULL(weft_flip(matrix, 1, NULL), INVALID, "weft_flip", "dims");
    GIVES_NULL(weft_roll(matrix, 1, 2), INVALID, "weft_roll", "dim");
    GIVES_NULL(weft_tril(indices, 0), SHAPE, "weft_tril", "expected at least 2");
    GIVES_NULL(weft_triu(NULL, 0), INVALID, "weft_triu", "a");
    GIVES_NULL(weft_cat(0, TWO(matrix, matrix), 0), INVALID, "weft_cat", "n is 0");
    GIVES_NULL(weft_cat(2, NULL, 0), INVALID, "weft_cat", "tensors");
    GIVES_NULL(weft_cat(2, TWO(matrix, dead), 0), INVALID, "weft_cat", "tensors[1]");
    GIVES_NULL(weft_cat(2, TWO(matrix, on_other), 0), MESH, "weft_cat", "tensors[1]");
    GIVES_NULL(weft_cat(2, TWO(matrix, square), 1), SHAPE, "weft_cat", "tensors[1]");
    GIVES_NULL(weft_cat(2, TWO(scalar, scalar), 0), SHAPE, "weft_cat", "scalar");
    GIVES_NULL(weft_cat(2, TWO(matrix, matrix), 2), INVALID, "weft_cat", "dim");
    GIVES_NULL(weft_stack(2, TWO(matrix, square), 0), SHAPE, "weft_stack", "tensors[1]");
    GIVES_NULL(weft_stack(2, TWO(matrix, matrix), 3), INVALID, "weft_stack", "dim");
    REFUSES(weft_split(matrix, 2, shape_45, 0, pieces), SHAPE, "weft_split", "sizes[1]");
    REFUSES(weft_split(matrix, 1, (const int64_t[]){ 3 }, 0, pieces), SHAPE, "weft_split", "add up");
    REFUSES(weft_split(matrix, 2, negative, 1, pieces), SHAPE, "weft_split", "sizes[1]");
    REFUSES(weft_split(matrix, 2, NULL, 0, pieces), INVALID, "weft_split", "sizes");
    REFUSES(weft_split(matrix, 2, shape_45, 0, NULL), INVALID, "weft_split", "outputs");
    REFUSES(weft_split(dead, 2, shape_45, 0, pieces), INVALID, "weft_split", "a");
    GIVES_ZERO(weft_chunk(matrix, 0, 0, pieces), INVALID, "weft_chunk", "chunks");
    GIVES_ZERO(weft_chunk(matrix, 2, 2, pieces), INVALID, "weft_chunk", "dim");
    GIVES_ZERO(weft_chunk(scalar, 2, 0, pieces), INVALID, "weft_chunk", "scalar");
    rows_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_random), cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_registered), cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
