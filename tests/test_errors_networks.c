/* Bad input of functions of neural networks beside those of test_errors_operations.c. */
#include "errors_support.h"

#include <math.h>

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
    GIVES_NULL(weft_cross_entropy_ex(NULL, indices, &weighs), INVALID, "weft_cross_entropy_ex", "logits");
    GIVES_NULL(weft_cross_entropy_ex(matrix, NULL, &weighs), INVALID, "weft_cross_entropy_ex", "targets");
    GIVES_NULL(weft_cross_entropy_ex(matrix, booleans, &weighs), DTYPE, "weft_cross_entropy_ex", "targets is bool");
    GIVES_NULL(weft_cross_entropy_ex(square, indices, &weighs), SHAPE, "weft_cross_entropy_ex", "targets has size 4");
    GIVES_NULL(weft_cross_entropy_ex(matrix, square, NULL), SHAPE, "weft_cross_entropy_ex", "targets has size 5");
    GIVES_NULL(weft_cross_entropy_ex(matrix, matrix, &counts), INVALID, "weft_cross_entropy_ex", "ignore_index is 0");
    GIVES_NULL(weft_cross_entropy_ex(matrix, on_other, NULL), MESH, "weft_cross_entropy_ex", "weft_redistribute");
    GIVES_NULL(weft_cross_entropy_ex_backward(square, matrix, matrix, NULL), SHAPE, "weft_cross_entropy_ex_backward",
               "gradient has 2 dimensions");
    GIVES_NULL(weft_cross_entropy_ex_backward(whole, matrix, indices, &weighs), DTYPE,
               "weft_cross_entropy_ex_backward", "gradient is f64");
    weighs.weight = dead;
    GIVES_NULL(weft_cross_entropy_ex(matrix, indices, &weighs), INVALID, "weft_cross_entropy_ex", "weight");
    weighs.weight = matrix;
    GIVES_NULL(weft_cross_entropy_ex(matrix, indices, &weighs), SHAPE, "weft_cross_entropy_ex", "weight is ");
    weighs.weight = indices;
    GIVES_NULL(weft_cross_entropy_ex(matrix, matrix, &weighs), DTYPE, "weft_cross_entropy_ex", "weight is i64");
    rows_end();
}

static void test_normalize(void **state)
{
    (void)state;
    GIVES_NULL(weft_normalize(NULL, 2, 0, 0), INVALID, "weft_normalize", "a");
    GIVES_NULL(weft_normalize(scalar, 2, 0, 0), INVALID, "weft_normalize", "a is a scalar");
    GIVES_NULL(weft_normalize(matrix, 2, 2, 0), INVALID, "weft_normalize", "dim is 2");
    GIVES_NULL(weft_normalize(matrix, -1, 0, 0), INVALID, "weft_normalize", "p is -1");
    GIVES_NULL(weft_normalize(matrix, 2, 0, NAN), INVALID, "weft_normalize", "epsilon is nan");
    GIVES_NULL(weft_normalize(indices, 2, 0, 0), DTYPE, "weft_normalize", "a is i64");
    GIVES_NULL(weft_normalize(empty, INFINITY, 0, 0), SHAPE, "weft_normalize", "size 0");
    GIVES_NULL(weft_cosine_similarity(NULL, matrix, 0, 0), INVALID, "weft_cosine_similarity", "a");
    GIVES_NULL(weft_cosine_similarity(matrix, dead, 0, 0), INVALID, "weft_cosine_similarity", "b");
    GIVES_NULL(weft_cosine_similarity(matrix, square, 0, 0), SHAPE, "weft_cosine_similarity", "b has size 5");
    GIVES_NULL(weft_cosine_similarity(matrix, indices, 0, 0), DTYPE, "weft_cosine_similarity", "b is i64");
    GIVES_NULL(weft_cosine_similarity(matrix, on_other, 0, 0), MESH, "weft_cosine_similarity", "weft_redistribute");
    GIVES_NULL(weft_cosine_similarity(matrix, matrix, 0, -1), INVALID, "weft_cosine_similarity", "epsilon is -1");
    GIVES_NULL(weft_cosine_similarity(scalar, scalar, 0, 0), INVALID, "weft_cosine_similarity", "scalars");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_element_losses),
        cmocka_unit_test(test_class_losses),
        cmocka_unit_test(test_normalize),
        cmocka_unit_test(test_channels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
