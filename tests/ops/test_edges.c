/* Edge values: NaN, infinity, and results without elements. */
#include <math.h>
#include <string.h>

#include "operand.h"

#include "ops/backward.h"

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "4");
    mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
    weft_scope_begin();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weft_scope_end();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

enum { LENGTH = 23 };

static weft_tensor *filled(weft_dtype type, double value, const char *placement)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(placement, 1, &p), WEFT_OK);
    return weft_full(type, value, 1, (int64_t[]){ LENGTH }, mesh, &p);
}

/* NaN stands for itself. */
static void check_all(weft_tensor *tensor, double expected)
{
    assert_no_error();
    assert_non_null(tensor);
    double values[LENGTH];
    assert_true(weft_tensor_ndim(tensor) == 1 && weft_tensor_size(tensor, 0) == LENGTH);
    assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_F64), values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < LENGTH; i++) {
        if (!(values[i] == expected || (isnan(values[i]) && isnan(expected)))) {
            fail_msg("element %d is %g, expected %g", i, values[i], expected);
        }
    }
}

/* Gradients that compare the input with 0: NaN is neither above nor below. PyTorch passes the gradient,
 * leaky_relu's with the slope. Computed gradients are NaN. */
static void test_gradients_of_nan(void **state)
{
    (void)state;
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16 };
    for (int t = 0; t < 4; t++) {
        weft_tensor *gradient = filled(types[t], 3, "S0"), *input = filled(types[t], NAN, "R");
        check_all(weft_relu_backward(gradient, input), 3);
        check_all(weft_elu_backward(gradient, input, 2), 3);
        check_all(weft_leaky_relu_backward(gradient, input, 0.25), 0.75);
        check_all(weft_gelu_backward(gradient, input), NAN);
        check_all(weft_silu_backward(gradient, input), NAN);
        input = filled(types[t], 0, "S0");
        check_all(weft_elu_backward(gradient, input, 2), 6);
        check_all(weft_elu_backward(gradient, filled(types[t], -INFINITY, "R"), 2), 0);
        check_all(weft_elu_backward(gradient, filled(types[t], INFINITY, "R"), 2), 3);
    }
}

static void check_one(weft_tensor *tensor, double expected)
{
    double value = 0;
    assert_no_error();
    assert_int_equal(weft_tensor_item(weft_to_type(tensor, WEFT_F64), &value), WEFT_OK);
    if (!(value == expected || (isnan(value) && isnan(expected)))) {
        fail_msg("%g, expected %g", value, expected);
    }
}

/* No values: NaN, whatever the correction. */
static void test_variance(void **state)
{
    (void)state;
    static const double corrections[] = { -7.5, -1, 0, 0.5, 1, 3 };
    static const char *const placements[] = { "R", "S0", "S1" };
    for (int p = 0; p < 3; p++) {
        for (int c = 0; c < 6; c++) {
            weft_placement placement;
            assert_int_equal(weft_placements_parse(placements[p], 1, &placement), WEFT_OK);
            weft_tensor *a = weft_zeros(WEFT_F32, 2, (int64_t[]){ 0, LENGTH }, mesh, &placement);
            check_all(weft_var(a, 0, corrections[c], false), NAN);
            check_all(weft_reshape(weft_var(a, WEFT_DIM(0), corrections[c], true), 1,
                                   (int64_t[]){ LENGTH }),
                      NAN);
            check_one(weft_var(a, WEFT_ALL_DIMS, corrections[c], false), NAN);
        }
    }
    static const float pair[] = { 1, 2 };
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_distribute(WEFT_F32, 1, (int64_t[]){ 2 }, pair, mesh, &rows);
    check_one(weft_var(a, WEFT_ALL_DIMS, -2, false), 0.125);
    check_one(weft_var(a, WEFT_ALL_DIMS, 1, false), 0.5);
    check_one(weft_var(a, WEFT_ALL_DIMS, 2, false), INFINITY);
    check_one(weft_var(a, WEFT_ALL_DIMS, 7, false), INFINITY);
}

/* Addends and infinite factors, as placement.h states. */
static void test_infinity_times_partial(void **state)
{
    (void)state;
    weft_placement partial = weft_partial(WEFT_SUM);
    double addends[3][1] = { { 0 }, { 1 }, { 2 } };
    void *locals[3] = { addends[0], addends[1], addends[2] };
    weft_tensor *a = weft_from_local(WEFT_F64, 1, (int64_t[]){ 1 }, locals, mesh, &partial, WEFT_COPY);
    weft_tensor *infinite = weft_full(WEFT_F64, INFINITY, 1, (int64_t[]){ 1 }, mesh, NULL);
    weft_tensor *value = weft_redistribute(a, mesh, NULL);
    check_one(value, 3);
    check_one(weft_mul(a, infinite), NAN);
    check_one(weft_scale(a, INFINITY), NAN);
    check_one(weft_dot(a, infinite), NAN);
    check_one(weft_mul(value, infinite), INFINITY);
    check_one(weft_scale(value, INFINITY), INFINITY);
    check_one(weft_dot(value, infinite), INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gradients_of_nan, start, stop),
        cmocka_unit_test_setup_teardown(test_variance, start, stop),
        cmocka_unit_test_setup_teardown(test_infinity_times_partial, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
