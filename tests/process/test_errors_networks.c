/* Bad input of functions of neural networks beside those of test_errors_operations.c. */
#include "errors_support.h"

#include <math.h>

#include "ops/backward.h"

static void test_element_losses(void **state)
{
    (void)state;
    GIVES_NULL(weft_l1(NULL, matrix, WEFT_LOSS_MEAN), INVALID, "weft_l1", "a");
    GIVES_NULL(weft_l1(matrix, NULL, WEFT_LOSS_MEAN), INVALID, "weft_l1", "b");
    GIVES_NULL(weft_l1(indices, indices, WEFT_LOSS_MEAN), DTYPE, "weft_l1", "a is i64");
    GIVES_NULL(weft_l1(matrix, square, WEFT_LOSS_MEAN), SHAPE, "weft_l1", "b has size 5");
    GIVES_NULL(weft_l1(cut, whole, WEFT_LOSS_SUM), DTYPE, "weft_l1", "b is f64");
    GIVES_NULL(weft_l1(cut, on_other, WEFT_LOSS_SUM), MESH, "weft_l1", "weft_redistribute");
    GIVES_NULL(weft_l1(matrix, matrix, (weft_loss_reduction)3), INVALID, "weft_l1", "reduction is 3");
    GIVES_NULL(weft_huber(matrix, matrix, 0, WEFT_LOSS_MEAN), INVALID, "weft_huber", "delta is 0");
    GIVES_NULL(weft_huber(matrix, matrix, NAN, WEFT_LOSS_MEAN), INVALID, "weft_huber", "delta is nan");
    GIVES_NULL(weft_smooth_l1(matrix, matrix, -1, WEFT_LOSS_MEAN), INVALID, "weft_smooth_l1", "beta is -1");
    GIVES_NULL(weft_smooth_l1(matrix, matrix, INFINITY, WEFT_LOSS_MEAN), INVALID, "weft_smooth_l1", "beta is inf");
    GIVES_NULL(weft_binary_cross_entropy(NULL, matrix, NULL, WEFT_LOSS_MEAN), INVALID, "weft_binary_cross_entropy", "a");
    GIVES_NULL(weft_binary_cross_entropy(matrix, square, NULL, WEFT_LOSS_MEAN), SHAPE, "weft_binary_cross_entropy",
               "targets has size 5");
    GIVES_NULL(weft_binary_cross_entropy(matrix, matrix, square, WEFT_LOSS_MEAN), SHAPE, "weft_binary_cross_entropy",
               "weight, ");
    GIVES_NULL(weft_binary_cross_entropy(matrix, matrix, indices, WEFT_LOSS_MEAN), DTYPE, "weft_binary_cross_entropy",
               "weight is i64");
    GIVES_NULL(weft_binary_cross_entropy(matrix, matrix, dead, WEFT_LOSS_MEAN), INVALID, "weft_binary_cross_entropy",
               "weight");
    GIVES_NULL(weft_binary_cross_entropy(matrix, matrix, on_other, WEFT_LOSS_MEAN), MESH, "weft_binary_cross_entropy",
               "weight");
    GIVES_NULL(weft_binary_cross_entropy_with_logits(matrix, matrix, NULL, on_other, WEFT_LOSS_MEAN), MESH,
               "weft_binary_cross_entropy_with_logits", "pos_weight");
    GIVES_NULL(weft_binary_cross_entropy_with_logits(matrix, matrix, on_other, matrix, WEFT_LOSS_MEAN), MESH,
               "weft_binary_cross_entropy_with_logits", "weight");
    GIVES_NULL(weft_binary_cross_entropy_with_logits(matrix, NULL, NULL, NULL, WEFT_LOSS_MEAN), INVALID,
               "weft_binary_cross_entropy_with_logits", "targets");
    GIVES_NULL(weft_binary_cross_entropy_with_logits(matrix, matrix, NULL, square, WEFT_LOSS_MEAN), SHAPE,
               "weft_binary_cross_entropy_with_logits", "pos_weight, ");
    GIVES_NULL(weft_binary_cross_entropy_with_logits(matrix, square, NULL, matrix, WEFT_LOSS_MEAN), SHAPE,
               "weft_binary_cross_entropy_with_logits", "targets has size 5");
    GIVES_NULL(weft_kl_div(matrix, NULL, false, WEFT_LOSS_MEAN), INVALID, "weft_kl_div", "target");
    GIVES_NULL(weft_kl_div(matrix, matrix, true, (weft_loss_reduction)-1), INVALID, "weft_kl_div", "reduction is -1");
    rows_end();
}

/* With a weight, or with probabilities. */
static void test_class_losses(void **state)
{
    (void)state;
    weft_cross_entropy_options weighs, counts;
    weft_cross_entropy_options_init(&weighs);
    weft_cross_entropy_options_init(&counts);
    weighs.weight = weft_ones(WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, NULL);
    counts.ignore_index = 0;
    GIVES_NULL(weft_cross_entropy(NULL, indices, &weighs), INVALID, "weft_cross_entropy", "logits");
    GIVES_NULL(weft_cross_entropy(matrix, NULL, &weighs), INVALID, "weft_cross_entropy", "targets");
    GIVES_NULL(weft_cross_entropy(matrix, booleans, &weighs), DTYPE, "weft_cross_entropy",
               "targets is bool, expected indices (i64 or i32), or probabilities");
    GIVES_NULL(weft_cross_entropy(square, indices, &weighs), SHAPE, "weft_cross_entropy", "targets has size 4");
    GIVES_NULL(weft_cross_entropy(matrix, square, NULL), SHAPE, "weft_cross_entropy", "targets has size 5");
    GIVES_NULL(weft_cross_entropy(matrix, matrix, &counts), INVALID, "weft_cross_entropy", "ignore_index is 0");
    GIVES_NULL(weft_cross_entropy(matrix, on_other, NULL), MESH, "weft_cross_entropy", "weft_redistribute");
    GIVES_NULL(weft_cross_entropy_ex_backward(square, matrix, matrix, NULL), SHAPE, "weft_cross_entropy_ex_backward",
               "gradient has 2 dimensions");
    GIVES_NULL(weft_cross_entropy_ex_backward(whole, matrix, indices, &weighs), DTYPE,
               "weft_cross_entropy_ex_backward", "gradient is f64");
    weighs.weight = dead;
    GIVES_NULL(weft_cross_entropy(matrix, indices, &weighs), INVALID, "weft_cross_entropy", "weight");
    weighs.weight = matrix;
    GIVES_NULL(weft_cross_entropy(matrix, indices, &weighs), SHAPE, "weft_cross_entropy", "weight is ");
    weighs.weight = indices;
    GIVES_NULL(weft_cross_entropy(matrix, matrix, &weighs), DTYPE, "weft_cross_entropy", "weight is i64");
    rows_end();
}

static void test_normalize(void **state)
{
    (void)state;
    GIVES_NULL(weft_normalize(NULL, 2, 0, 0), INVALID, "weft_normalize", "a");
    GIVES_NULL(weft_normalize(scalar, 2, 1, 0), INVALID, "weft_normalize", "dim is 1");
    GIVES_NULL(weft_normalize(matrix, 2, 2, 0), INVALID, "weft_normalize", "dim is 2");
    GIVES_NULL(weft_normalize(matrix, -1, 0, 0), INVALID, "weft_normalize", "p is -1");
    GIVES_NULL(weft_normalize(matrix, 2, 0, NAN), INVALID, "weft_normalize", "epsilon is nan");
    GIVES_NULL(weft_normalize(indices, 2, 0, 0), DTYPE, "weft_normalize", "a is i64");
    GIVES_NULL(weft_normalize(empty, INFINITY, 0, 0), SHAPE, "weft_normalize", "size 0");
    GIVES_NULL(weft_cosine_similarity(NULL, matrix, 0, 0), INVALID, "weft_cosine_similarity", "a");
    GIVES_NULL(weft_cosine_similarity(matrix, dead, 0, 0), INVALID, "weft_cosine_similarity", "b");
    GIVES_NULL(weft_cosine_similarity(matrix, square, 0, 0), SHAPE, "weft_cosine_similarity", "b has size 5");
    GIVES_NULL(weft_cosine_similarity(matrix, indices, 0, 0), DTYPE, "weft_cosine_similarity", "b is i64");
    GIVES_NULL(weft_cosine_similarity(matrix, on_other, 0, 0), MESH, "weft_cosine_similarity", "b");
    GIVES_NULL(weft_cosine_similarity(matrix, matrix, 0, -1), INVALID, "weft_cosine_similarity", "epsilon is -1");
    GIVES_NULL(weft_cosine_similarity(scalar, scalar, 1, 0), INVALID, "weft_cosine_similarity", "dim is 1");
    GIVES_NULL(weft_matrix_norm(NULL, WEFT_MATRIX_ONE, false), INVALID, "weft_matrix_norm", "a");
    GIVES_NULL(weft_matrix_norm(scalar, WEFT_MATRIX_ONE, false), SHAPE, "weft_matrix_norm", "a has 0 dimensions");
    GIVES_NULL(weft_matrix_norm(places, WEFT_MATRIX_ONE, false), DTYPE, "weft_matrix_norm", "a is i64");
    GIVES_NULL(weft_matrix_norm(matrix, WEFT_MATRIX_TWO, false), UNSUPPORTED, "weft_matrix_norm", "kind is 5");
    GIVES_NULL(weft_matrix_norm(matrix, WEFT_MATRIX_NUCLEAR, false), UNSUPPORTED, "weft_matrix_norm", "kind is 7");
    GIVES_NULL(weft_matrix_norm(matrix, (weft_matrix_norm_kind)8, false), INVALID, "weft_matrix_norm", "kind is 8");
    GIVES_NULL(weft_matrix_norm(empty, WEFT_MATRIX_INFINITY, false), SHAPE, "weft_matrix_norm", "size 0");
    GIVES_NULL(weft_glu(NULL, 0), INVALID, "weft_glu", "a");
    GIVES_NULL(weft_glu(matrix, 1), SHAPE, "weft_glu", "size 5");
    GIVES_NULL(weft_glu(matrix, -3), INVALID, "weft_glu", "dim is -3");
    GIVES_NULL(weft_glu(indices, 0), DTYPE, "weft_glu", "a is i64");
    GIVES_NULL(weft_prelu(NULL, scalar), INVALID, "weft_prelu", "a");
    GIVES_NULL(weft_prelu(matrix, NULL), INVALID, "weft_prelu", "weight");
    GIVES_NULL(weft_prelu(matrix, matrix), SHAPE, "weft_prelu", "weight is ");
    GIVES_NULL(weft_prelu(matrix, indices), SHAPE, "weft_prelu", "weight is ");
    GIVES_NULL(weft_prelu(whole, scalar), DTYPE, "weft_prelu", "weight is f32");
    rows_end();
}

static void test_channels(void **state)
{
    (void)state;
    weft_tensor *five = weft_ones(WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, NULL);
    weft_tensor *more = weft_ones(WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, NULL);
    weft_tensor *one = weft_ones(WEFT_F32, 2, (const int64_t[]){ 1, 5 }, mesh, NULL);
    GIVES_NULL(weft_batch_norm(NULL, five, more, NULL, NULL, true, 0.1, 0), INVALID, "weft_batch_norm", "a");
    GIVES_NULL(weft_batch_norm(five, five, more, NULL, NULL, true, 0.1, 0), SHAPE, "weft_batch_norm", "a has 1 dimensions");
    GIVES_NULL(weft_batch_norm(places, five, more, NULL, NULL, true, 0.1, 0), DTYPE, "weft_batch_norm", "a is i64");
    GIVES_NULL(weft_batch_norm(matrix, five, NULL, NULL, NULL, true, 0.1, 0), INVALID, "weft_batch_norm", "running_var is NULL");
    GIVES_NULL(weft_batch_norm(matrix, NULL, NULL, NULL, NULL, false, 0.1, 0), INVALID, "weft_batch_norm",
               "running_mean is NULL");
    GIVES_NULL(weft_batch_norm(matrix, five, five, NULL, NULL, true, 0.1, 0), INVALID, "weft_batch_norm", "one tensor");
    weft_set_requires_grad(more, true);
    GIVES_NULL(weft_batch_norm(matrix, five, more, NULL, NULL, true, 0.1, 0), INVALID, "weft_batch_norm",
               "running_var requires a gradient");
    weft_set_requires_grad(more, false);
    GIVES_NULL(weft_batch_norm(matrix, five, more, square, NULL, true, 0.1, 0), SHAPE, "weft_batch_norm", "gain is ");
    GIVES_NULL(weft_batch_norm(matrix, five, more, NULL, indices, true, 0.1, 0), DTYPE, "weft_batch_norm", "bias is i64");
    GIVES_NULL(weft_batch_norm(matrix, five, more, NULL, NULL, true, 2, 0), INVALID, "weft_batch_norm", "momentum is 2");
    GIVES_NULL(weft_batch_norm(matrix, five, more, NULL, NULL, true, 0.1, -1), INVALID, "weft_batch_norm", "epsilon is -1");
    GIVES_NULL(weft_batch_norm(one, five, more, NULL, NULL, true, 0.1, 0), SHAPE, "weft_batch_norm", "one element");
    GIVES_NULL(weft_batch_norm(on_other, five, more, NULL, NULL, true, 0.1, 0), MESH, "weft_batch_norm", "running_mean");
    GIVES_NULL(weft_batch_norm(matrix, dead, more, NULL, NULL, true, 0.1, 0), INVALID, "weft_batch_norm", "running_mean");
    GIVES_NULL(weft_group_norm(NULL, 1, NULL, NULL, 0), INVALID, "weft_group_norm", "a");
    GIVES_NULL(weft_group_norm(image, 4, NULL, NULL, 0), SHAPE, "weft_group_norm", "groups is 4");
    GIVES_NULL(weft_group_norm(image, 0, NULL, NULL, 0), SHAPE, "weft_group_norm", "groups is 0");
    GIVES_NULL(weft_group_norm(image, 2, five, NULL, 0), SHAPE, "weft_group_norm", "gain is ");
    GIVES_NULL(weft_instance_norm(scalar, NULL, NULL, 0), SHAPE, "weft_instance_norm", "a has 0 dimensions");
    GIVES_NULL(weft_instance_norm(matrix, NULL, NULL, NAN), INVALID, "weft_instance_norm", "epsilon is nan");
    rows_end();
}

static void test_products(void **state)
{
    (void)state;
    GIVES_NULL(weft_matmul_ex(indices, true, matrix, false), SHAPE, "weft_matmul_ex", "at least 2");
    GIVES_NULL(weft_matmul(booleans, booleans), DTYPE, "weft_matmul", "a");
    GIVES_NULL(weft_dot(NULL, indices), INVALID, "weft_dot", "a");
    GIVES_NULL(weft_dot(square, square), SHAPE, "weft_dot", "a");
    GIVES_NULL(weft_outer(indices, NULL), INVALID, "weft_outer", "b");
    GIVES_NULL(weft_outer(indices, matrix), SHAPE, "weft_outer", "b");
    GIVES_NULL(weft_addmm(NULL, square, square, 1, 1), INVALID, "weft_addmm", "c");
    GIVES_NULL(weft_addmm(matrix, square, square, 1, 1), SHAPE, "weft_addmm", "c");
    GIVES_NULL(weft_addmm(image, square, square, 1, 1), SHAPE, "weft_addmm", "c");
    GIVES_NULL(weft_addmm(whole, square, square, 1, 1), DTYPE, "weft_addmm", "c");
    GIVES_NULL(weft_addmm(indices, indices, indices, 1, 0.5), DTYPE, "weft_addmm", "alpha");
    GIVES_NULL(weft_linear(NULL, square, NULL), INVALID, "weft_linear", "x");
    GIVES_NULL(weft_linear(matrix, filter, NULL), SHAPE, "weft_linear", "weight");
    GIVES_NULL(weft_linear(matrix, square, matrix), SHAPE, "weft_linear", "bias");
    GIVES_NULL(weft_linear(matrix, square, stale_tensor), INVALID, "weft_linear", "bias");
    GIVES_NULL(weft_conv2d(NULL, filter, NULL, NULL), INVALID, "weft_conv2d", "x");
    GIVES_NULL(weft_conv2d(image, NULL, NULL, NULL), INVALID, "weft_conv2d", "weight");
    GIVES_NULL(weft_conv2d(matrix, filter, NULL, NULL), SHAPE, "weft_conv2d", "x");
    GIVES_NULL(weft_conv1d(image, filter, NULL, NULL), SHAPE, "weft_conv1d", "x");
    GIVES_NULL(weft_conv2d(filter, filter, NULL, &(weft_convolution){ .groups = 2 }), SHAPE, "weft_conv2d",
               "channels");
    GIVES_NULL(weft_conv2d(image, filter, NULL, &(weft_convolution){ .dilation = { 1, 3 } }), SHAPE,
               "weft_conv2d", "weight");
    GIVES_NULL(weft_conv2d(image, filter, NULL, &(weft_convolution){ .stride = { -1, 1 } }), INVALID,
               "weft_conv2d", "stride");
    GIVES_NULL(weft_conv2d(image, filter, NULL, &(weft_convolution){ .padding = { 0, -1 } }), INVALID,
               "weft_conv2d", "padding");
    GIVES_NULL(weft_conv2d(image, filter, NULL, &(weft_convolution){ .groups = -1 }), INVALID, "weft_conv2d",
               "groups");
    GIVES_NULL(weft_conv2d(image, filter, square, NULL), SHAPE, "weft_conv2d", "bias");
    GIVES_NULL(weft_conv2d(image, filter, indices, NULL), DTYPE, "weft_conv2d", "bias");
    GIVES_NULL(weft_conv2d_backward_input(image, filter, NULL, NULL), INVALID, "weft_conv2d_backward_input",
               "shape");
    GIVES_NULL(weft_conv2d_backward_weight(image, image, (const int64_t[]){ 6, 6, 3, 3 }, NULL), SHAPE,
               "weft_conv2d_backward_weight", "gradient");
    weft_tensor *turned = weft_transpose(filter, 0, 1);
    GIVES_NULL(weft_conv_transpose2d(NULL, filter, NULL, NULL, NULL), INVALID, "weft_conv_transpose2d", "x");
    GIVES_NULL(weft_conv_transpose1d(image, filter, NULL, NULL, NULL), SHAPE, "weft_conv_transpose1d", "x");
    GIVES_NULL(weft_conv_transpose2d(image, filter, NULL, NULL, NULL), SHAPE, "weft_conv_transpose2d", "channels");
    GIVES_NULL(weft_conv_transpose2d(turned, filter, NULL, &(weft_convolution){ .groups = -1 }, NULL), INVALID,
               "weft_conv_transpose2d", "groups");
    GIVES_NULL(weft_conv_transpose2d(turned, filter, NULL, NULL, (const int64_t[]){ 0, 1 }), INVALID,
               "weft_conv_transpose2d", "output_padding");
    GIVES_NULL(weft_conv_transpose2d(turned, filter, NULL, &(weft_convolution){ .padding = { 9, 0 } }, NULL), SHAPE,
               "weft_conv_transpose2d", "at least one element");
    GIVES_NULL(weft_conv_transpose2d(turned, filter, filter, NULL, NULL), SHAPE, "weft_conv_transpose2d", "bias");
    weft_tensor *volume = weft_unsqueeze(image, 2), *filter3d = weft_unsqueeze(filter, 2), *turned3d = weft_unsqueeze(turned, 2);
    weft_tensor *doubles = weft_to_type(filter3d, WEFT_F64);
    GIVES_NULL(weft_conv3d(NULL, filter3d, NULL, NULL), INVALID, "weft_conv3d", "x");
    GIVES_NULL(weft_conv3d(volume, NULL, NULL, NULL), INVALID, "weft_conv3d", "weight");
    GIVES_NULL(weft_conv3d(image, filter3d, NULL, NULL), SHAPE, "weft_conv3d", "x has 4 dimensions");
    GIVES_NULL(weft_conv3d(volume, filter, NULL, NULL), SHAPE, "weft_conv3d", "weight has 4 dimensions");
    GIVES_NULL(weft_conv3d(filter3d, filter3d, NULL, &(weft_convolution3d){ .groups = 2 }), SHAPE, "weft_conv3d", "channels");
    GIVES_NULL(weft_conv3d(volume, filter3d, NULL, &(weft_convolution3d){ .dilation = { 1, 1, 3 } }), SHAPE, "weft_conv3d",
               "weight");
    GIVES_NULL(weft_conv3d(volume, filter3d, NULL, &(weft_convolution3d){ .stride = { 1, 1, -1 } }), INVALID, "weft_conv3d",
               "stride is -1 in spatial dimension 2");
    GIVES_NULL(weft_conv3d(volume, filter3d, NULL, &(weft_convolution3d){ .padding = { -1 } }), INVALID, "weft_conv3d", "padding");
    GIVES_NULL(weft_conv3d(volume, filter3d, NULL, &(weft_convolution3d){ .padding = { 1, INT32_MAX, INT32_MAX } }), SHAPE,
               "weft_conv3d", "int64");
    GIVES_NULL(weft_conv3d(volume, filter3d, NULL, &(weft_convolution3d){ .groups = -1 }), INVALID, "weft_conv3d", "groups");
    GIVES_NULL(weft_conv3d(volume, filter3d, square, NULL), SHAPE, "weft_conv3d", "bias");
    GIVES_NULL(weft_conv3d(volume, filter3d, stale_tensor, NULL), INVALID, "weft_conv3d", "bias");
    GIVES_NULL(weft_conv3d(volume, doubles, NULL, NULL), DTYPE, "weft_conv3d", "weight");
    GIVES_NULL(weft_conv_transpose3d(NULL, turned3d, NULL, NULL, NULL), INVALID, "weft_conv_transpose3d", "x");
    GIVES_NULL(weft_conv_transpose3d(image, turned3d, NULL, NULL, NULL), SHAPE, "weft_conv_transpose3d", "x has 4 dimensions");
    GIVES_NULL(weft_conv_transpose3d(volume, filter3d, NULL, NULL, NULL), SHAPE, "weft_conv_transpose3d", "channels");
    GIVES_NULL(weft_conv_transpose3d(volume, turned3d, NULL, NULL, (const int64_t[]){ 0, 0, 1 }), INVALID,
               "weft_conv_transpose3d", "output_padding");
    GIVES_NULL(weft_conv_transpose3d(volume, turned3d, filter, NULL, NULL), SHAPE, "weft_conv_transpose3d", "bias");
    const int64_t sizes[] = { 2, 2, 2 }, too_small[] = { 2, -2 };
    const weft_pooling window = { .kernel = { 2, 2 } };
    GIVES_NULL(weft_max_pool(NULL, 2, &window, NULL), INVALID, "weft_max_pool", "a");
    GIVES_NULL(weft_max_pool(image, 4, &window, NULL), INVALID, "weft_max_pool", "num_dims");
    GIVES_NULL(weft_max_pool(matrix, 2, &window, NULL), SHAPE, "weft_max_pool", "at least 3");
    GIVES_NULL(weft_max_pool(image, 2, NULL, NULL), INVALID, "weft_max_pool", "options");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 2 } }, NULL), INVALID, "weft_max_pool", "kernel");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .stride = { -1 } }, NULL), INVALID,
               "weft_max_pool", "stride");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .padding = { 0, 2 } }, NULL), INVALID,
               "weft_max_pool", "padding");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .dilation = { -1, 1 } }, NULL), INVALID,
               "weft_max_pool", "dilation");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 99, 2 } }, NULL), SHAPE, "weft_max_pool", "window");
    GIVES_NULL(weft_max_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .divisor = 2 }, NULL), INVALID,
               "weft_max_pool", "divisor");
    GIVES_NULL(weft_avg_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .dilation = { 1, 2 } }), INVALID,
               "weft_avg_pool", "dilation");
    GIVES_NULL(weft_avg_pool(image, 2, &(weft_pooling){ .kernel = { 2, 2 }, .divisor = -1 }), INVALID, "weft_avg_pool",
               "divisor");
    GIVES_NULL(weft_adaptive_avg_pool(image, 0, sizes), INVALID, "weft_adaptive_avg_pool", "num_dims");
    GIVES_NULL(weft_adaptive_avg_pool(image, 2, NULL), INVALID, "weft_adaptive_avg_pool", "sizes");
    GIVES_NULL(weft_adaptive_max_pool(image, 2, too_small, NULL), INVALID, "weft_adaptive_max_pool", "sizes[1]");
    GIVES_NULL(weft_adaptive_max_pool(scalar, 1, sizes, NULL), SHAPE, "weft_adaptive_max_pool", "a");
    GIVES_NULL(weft_interpolate(NULL, 2, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_LINEAR }), INVALID,
               "weft_interpolate", "a");
    GIVES_NULL(weft_interpolate(image, 4, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_LINEAR }), INVALID,
               "weft_interpolate", "num_dims");
    GIVES_NULL(weft_interpolate(matrix, 2, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_LINEAR }), SHAPE,
               "weft_interpolate", "at least 3");
    GIVES_NULL(weft_interpolate(image, 2, NULL), INVALID, "weft_interpolate", "options");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .sizes = { INT32_MAX, INT32_MAX } }), SHAPE, "weft_interpolate",
               "int64");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .mode = (weft_interpolation_mode)4 }), INVALID,
               "weft_interpolate", "mode");
    GIVES_NULL(weft_interpolate(image, 1, &(weft_interpolation){ .mode = WEFT_INTERPOLATE_BICUBIC }), INVALID,
               "weft_interpolate", "num_dims");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .align_corners = true }), INVALID, "weft_interpolate",
               "align_corners");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .sizes = { 2, -1 } }), INVALID, "weft_interpolate",
               "sizes[1]");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .scale = { -1 } }), INVALID, "weft_interpolate",
               "scale[0]");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .sizes = { 2, 2 }, .scale = { 0, 2 } }), INVALID,
               "weft_interpolate", "scale[1]");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .scale = { 1e-9 } }), INVALID, "weft_interpolate",
               "makes size 0");
    GIVES_NULL(weft_interpolate(image, 2, &(weft_interpolation){ .scale = { INFINITY } }), INVALID,
               "weft_interpolate", "makes size inf");
    GIVES_NULL(weft_attention(NULL, matrix, matrix, NULL), INVALID, "weft_attention", "q");
    GIVES_NULL(weft_attention(scalar, matrix, matrix, NULL), SHAPE, "weft_attention", "q");
    GIVES_NULL(weft_attention(matrix, square, matrix, NULL), SHAPE, "weft_attention", "v");
    GIVES_NULL(weft_attention(matrix, matrix, whole, NULL), DTYPE, "weft_attention", "v");
    GIVES_NULL(weft_attention(matrix, matrix, matrix, &(weft_attention_options){ .mask = matrix }), SHAPE,
               "weft_attention", "mask");
    GIVES_NULL(weft_attention(matrix, matrix, matrix, &(weft_attention_options){ .mask = indices }), DTYPE,
               "weft_attention", "mask");
    weft_tensor *other_image = weft_to_type(image, WEFT_F64);
    const weft_attention_options grouped = { .size = sizeof(grouped), .grouped_heads = true };
    const weft_attention_options dropped = { .size = sizeof(dropped), .dropout = 0.5 };
    const weft_attention_options grouped_mask = { .size = sizeof(grouped), .grouped_heads = true, .mask = filter };
    const weft_attention_options dropped_mask = { .size = sizeof(dropped), .dropout = 0.5, .mask = matrix };
    const weft_attention_options too_often = { .size = sizeof(dropped), .dropout = 1.5 };
    weft_tensor *sums;
    GIVES_NULL(weft_attention(matrix, matrix, matrix, &too_often), INVALID, "weft_attention", "dropout is 1.5");
    GIVES_NULL(weft_attention(matrix, matrix, matrix, &grouped), SHAPE, "weft_attention", "q has 2 dimensions");
    GIVES_NULL(weft_attention(image, image, dead, &grouped), INVALID, "weft_attention", "v");
    GIVES_NULL(weft_attention(image, image, other_image, &grouped), DTYPE, "weft_attention", "v");
    GIVES_NULL(weft_attention(image, image, other_image, &dropped), DTYPE, "weft_attention", "v is f64");
    GIVES_NULL(weft_attention(image, filter, filter, &grouped), SHAPE, "weft_attention", "k has size 3");
    GIVES_NULL(weft_attention(image, image, image, &grouped_mask), SHAPE, "weft_attention", "mask");
    GIVES_NULL(weft_attention(matrix, on_other, matrix, &dropped), MESH, "weft_attention", "k");
    GIVES_NULL(weft_attention(matrix, square, matrix, &dropped), SHAPE, "weft_attention", "v has size 4");
    GIVES_NULL(weft_attention(matrix, matrix, matrix, &dropped_mask), SHAPE, "weft_attention", "mask has size 5");
    GIVES_NULL(weft_attention_with_log_sums(matrix, matrix, matrix, &dropped, &sums), UNSUPPORTED,
               "weft_attention_with_log_sums", "dropout");
    GIVES_NULL(weft_attention_backward(image, image, image, image, image, &grouped, NULL, NULL), UNSUPPORTED,
               "weft_attention_backward", "grouped_heads");
    GIVES_NULL(weft_attention_backward(NULL, matrix, matrix, matrix, matrix, NULL, NULL, NULL), INVALID,
               "weft_attention_backward", "gradient");
    GIVES_NULL(weft_attention_backward(matrix, matrix, dead, matrix, matrix, NULL, NULL, NULL), INVALID,
               "weft_attention_backward", "k");
    GIVES_NULL(weft_attention_backward(matrix, matrix, matrix, matrix, NULL, NULL, NULL, NULL), INVALID,
               "weft_attention_backward", "output");
    GIVES_NULL(weft_attention_backward(matrix, matrix, square, matrix, matrix, NULL, NULL, NULL), SHAPE,
               "weft_attention_backward", "v");
    GIVES_NULL(weft_attention_backward(square, matrix, matrix, matrix, matrix, NULL, NULL, NULL), SHAPE,
               "weft_attention_backward", "gradient");
    GIVES_NULL(weft_attention_backward(matrix, matrix, matrix, matrix, whole, NULL, NULL, NULL), DTYPE,
               "weft_attention_backward", "output");
    GIVES_NULL(weft_attention_backward(on_other, matrix, matrix, matrix, matrix, NULL, NULL, NULL), MESH,
               "weft_attention_backward", "gradient");
    rows_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_element_losses),
        cmocka_unit_test(test_class_losses),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
