/* Extreme integers in every integer argument: refused if out of range, without overflow (checked by the
 * sanitizers of script/test). */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "operand.h"

#include "ops/backward.h"

static weft_tensor *matrix, *scalar, *indices, *image, *weight;
static weft_mesh *mesh;

static void make_tensors(void)
{
    mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    weft_mesh_push(mesh);
    weft_placement rows = weft_shard(0);
    matrix = weft_ones(WEFT_F32, 2, (int64_t[]){ 6, 4 }, mesh, &rows);
    scalar = weft_ones(WEFT_F32, 0, NULL, mesh, NULL);
    indices = weft_zeros(WEFT_I64, 1, (int64_t[]){ 6 }, mesh, &rows);
    image = weft_ones(WEFT_F32, 4, (int64_t[]){ 2, 4, 5, 5 }, mesh, &rows);
    weight = weft_ones(WEFT_F32, 4, (int64_t[]){ 4, 4, 3, 3 }, mesh, NULL);
    assert_no_error();
}

static const int64_t extremes[] = { INT64_MIN,
                                    INT64_MIN + 1,
                                    -((int64_t)1 << 32) - 1,
                                    (int64_t)INT_MIN - 1,
                                    INT_MIN,
                                    INT_MIN + 1,
                                    INT_MAX - 1,
                                    INT_MAX,
                                    (int64_t)INT_MAX + 1,
                                    ((int64_t)1 << 32) + 1,
                                    (int64_t)1 << 62,
                                    INT64_MAX - 1,
                                    INT64_MAX };

/* ---- what gives results of bounded size ---------------------------------------------------------------- */

static void small_results(int64_t v)
{
    weft_tensor *outputs[4];
    int64_t sizes[] = { v, -1, v, 2 }, small[] = { 2, -1, 2, v };
    int dims[] = { (int)v, 0, (int)v };
    weft_tril(matrix, v);
    weft_triu(matrix, v);
    for (int d = -1; d <= 1; d++) {
        weft_slice(matrix, d, v, v, 1);
        weft_slice(matrix, d, v, 3, 1);
        weft_slice(matrix, d, 1, v, 1);
        weft_slice(matrix, d, v, INT64_MAX, v);
        weft_slice(matrix, d, INT64_MIN, INT64_MAX, v);
        weft_slice(matrix, d, 1, v, INT64_MAX);
        weft_slice(matrix, d, INT64_MIN, v, 1);
        weft_select(matrix, d, v);
        weft_roll(matrix, v, d);
        weft_topk(matrix, v, d, true, NULL);
        weft_slice_backward(matrix, d, 6, v, v, v);
        weft_slice_backward(matrix, d, 6, 0, v, v);
        weft_slice_backward(matrix, d, 6, v, 6, 1);
        weft_slice_backward(matrix, d, 12, INT64_MIN, v, 2);
        weft_split(matrix, 4, sizes, d, outputs);
        weft_split(matrix, 2, (int64_t[]){ v, 6 - (v > 0 ? 0 : 1) }, d, outputs);
        weft_split(matrix, 2, (int64_t[]){ v, v }, d, outputs);
        weft_split(matrix, 2, (int64_t[]){ 3, v }, d, outputs);
    }
    if ((int)v < 4) { /* as many there have to be */
        weft_chunk(matrix, (int)v, 0, outputs);
        weft_cat((int)v, outputs, 0);
        weft_stack((int)v, outputs, 0);
    }
    weft_chunk(matrix, 2, (int)v, outputs);
    weft_slice(matrix, (int)v, 0, 1, 1);
    weft_select(matrix, (int)v, 0);
    weft_roll(matrix, 1, (int)v);
    weft_flip(matrix, 1, dims);
    weft_flip(matrix, (int)v, dims);
    weft_transpose(matrix, (int)v, 0);
    weft_movedim(matrix, 1, (const int[]){ 0 }, (const int[]){ (int)v });
    weft_permute(matrix, 2, dims);
    weft_permute(matrix, (int)v, dims);
    weft_squeeze(matrix, (int)v);
    weft_unsqueeze(matrix, (int)v);
    weft_flatten(matrix, (int)v, 1);
    weft_flatten(matrix, 0, (int)v);
    weft_reshape(matrix, 2, sizes);
    weft_reshape(matrix, 3, sizes);
    weft_reshape(matrix, 4, small);
    weft_reshape(matrix, (int)v, small);
    weft_unflatten(matrix, 0, 2, sizes);
    weft_unflatten(matrix, 0, 3, sizes);
    weft_unflatten(matrix, (int)v, 2, small);
    weft_unflatten(matrix, 0, (int)v, small);
    weft_sum_to(matrix, (int)v, small);
    weft_sum_to(matrix, 2, sizes);
    weft_sum(matrix, (int)v, false);
    weft_sum(matrix, WEFT_DIM((int)v), true);
    weft_sum(matrix, WEFT_DIM((int)v) | WEFT_DIM(0), true);
    weft_max(matrix, WEFT_ALL_DIMS | (int)v, true);
    weft_norm(matrix, 2, WEFT_ALL_DIMS + 1, false);
    weft_argmax(matrix, (int)v, false);
    weft_cumsum(matrix, (int)v);
    weft_sort(matrix, (int)v, false, NULL);
    weft_softmax(matrix, (int)v);
    weft_index_select(matrix, (int)v, indices);
    weft_gather(matrix, (int)v, indices);
    weft_index_add(matrix, (int)v, indices, matrix);
    weft_scatter_add(matrix, (int)v, indices, matrix);
    weft_cat(2, (weft_tensor *[]){ matrix, matrix }, (int)v);
    weft_stack(2, (weft_tensor *[]){ matrix, matrix }, (int)v);
    weft_nll(matrix, indices, v, WEFT_LOSS_MEAN);
    weft_scale(indices, (double)v);
    weft_add_scalar(indices, (double)v);
    weft_pow_scalar(indices, (double)v);
    weft_clamp(indices, (double)v, (double)v);
    weft_masked_fill(indices, weft_eq(indices, indices), (double)v);
    weft_add_scaled(indices, indices, (double)v);
    weft_addcmul(indices, indices, indices, (double)v);
}

/* ---- what may give results of any size ----------------------------------------------------------------- */

static void any_results(int64_t v)
{
    small_results(v);
    int64_t sizes[] = { v, v, v, v }, wide[] = { v, 6, 4 };
    weft_expand(matrix, (int)v, sizes);
    weft_expand(matrix, 3, wide);
    weft_expand(scalar, 4, sizes);
    weft_expand(scalar, 1, sizes);
    weft_one_hot(indices, v);
    weft_embedding_backward(matrix, indices, v);
    weft_slice_backward(matrix, 0, v, 0, v, 1);
    weft_slice_backward(matrix, 1, v, 0, INT64_MAX, 2);
    weft_slice_backward(matrix, 1, INT64_MAX, v, INT64_MAX, 1);
    weft_zeros(WEFT_F32, (int)v, sizes, mesh, NULL);
    weft_zeros(WEFT_F32, 1, sizes, mesh, NULL);
    weft_zeros(WEFT_F32, 2, sizes, mesh, NULL);
    weft_zeros(WEFT_F32, 2, (int64_t[]){ v, 0 }, mesh, NULL);
    weft_randperm(v, mesh, NULL);
    weft_randint(WEFT_I64, v, INT64_MAX, 1, (int64_t[]){ 4 }, mesh, NULL);
    weft_randint(WEFT_I64, INT64_MIN, v, 1, (int64_t[]){ 4 }, mesh, NULL);
    weft_randint(WEFT_I32, v, v, 1, (int64_t[]){ 4 }, mesh, NULL);
    weft_mesh_create((int)v, sizes, NULL);
    weft_mesh_create(1, sizes, NULL);
    weft_mesh_create(2, sizes, NULL);
    weft_placement shard = weft_shard((int)v);
    weft_redistribute(matrix, mesh, &shard);
    for (int field = 0; field < 4; field++) {
        weft_convolution options = { .groups = 0 };
        int64_t *const fields[] = { options.stride, options.padding, options.dilation, &options.groups };
        fields[field][0] = v;
        weft_conv2d(image, weight, NULL, &options);
        weft_conv2d_backward_input(image, weight, (int64_t[]){ 2, 4, 5, 5 }, &options);
        weft_conv2d_backward_weight(image, image, (int64_t[]){ 4, 4, 3, 3 }, &options);
        weft_conv_transpose2d(image, weight, NULL, &options, (int64_t[]){ 0, v });
    }
    weft_tensor *volume = weft_unsqueeze(image, 2), *weight3d = weft_unsqueeze(weight, 2);
    for (int field = 0; field < 4; field++) {
        weft_convolution3d options = { .groups = 0 };
        int64_t *const fields[] = { options.stride, options.padding, options.dilation, &options.groups };
        fields[field][0] = v;
        weft_conv3d(volume, weight3d, NULL, &options);
        weft_conv_transpose3d(volume, weight3d, NULL, &options, (int64_t[]){ v, 0, 0 });
    }
    for (int field = 0; field < 5; field++) {
        weft_pooling options = { .kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 1, 0 } };
        int64_t *const fields[] = { options.kernel, options.stride, options.padding, options.dilation, &options.divisor };
        fields[field][0] = v;
        weft_max_pool(image, 2, &options, NULL);
        weft_avg_pool(image, 2, &options);
        options.ceil_mode = true;
        weft_max_pool(image, 2, &options, NULL);
        weft_avg_pool(image, 2, &options);
    }
    weft_adaptive_avg_pool(image, (int)v, (int64_t[]){ 1, 1, 1 });
    weft_interpolate(image, (int)v, &(weft_interpolation){ .scale = { 0.5, 0.5, 0.5 } });
    weft_interpolate(image, 2, &(weft_interpolation){ .mode = (weft_interpolation_mode)v });
    weft_interpolate(image, 2, &(weft_interpolation){ .scale = { 1, (double)v * 1e12 } });
    weft_conv2d_backward_input(image, weight, sizes, NULL);
    weft_conv2d_backward_input(image, weight, (int64_t[]){ 2, 4, v, 5 }, NULL);
    weft_conv2d_backward_weight(image, image, sizes, NULL);
    weft_conv2d_backward_weight(image, image, (int64_t[]){ 4, 4, v, 3 }, NULL);
}

static void run(void (*call)(int64_t v))
{
    for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++) {
        weft_scope_begin();
        call(extremes[i]);
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_clear_error();
    }
    /* All is as it was. */
    weft_tensor *sum = weft_sum(weft_add(matrix, matrix), WEFT_ALL_DIMS, false);
    double value = 0;
    assert_no_error();
    if (weft_local_ranks() > 0) {
        assert_int_equal(weft_tensor_item(sum, &value), WEFT_OK);
        assert_true(value == 48);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_with_values(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "2");
    make_tensors();
    run(small_results);
}

static void test_shapes_alone(void **state)
{
    (void)state;
    FAKE_WORLD(2);
    make_tensors();
    run(any_results);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_with_values),
                                        cmocka_unit_test(test_shapes_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
