/* Elementwise operations on random shapes, meshes and placements against the plain answer, with panels of
 * several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how many cases
 * of each. Values are small whole numbers where the answer can be exact. */
#include "operand.h"
#include "ops/backward.h"
#include "values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- elementwise --------------------------------------------------------------------------------------- */

/* The element of `x` that element i of the output `shape` reads, with broadcasting. */
static double broadcast_at(const operand *x, int ndim, const int64_t shape[], int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        int own = d - (ndim - x->ndim);
        if (own >= 0) {
            index += (x->shape[own] == 1 ? 0 : i % shape[d]) * step;
            step *= x->shape[own];
        }
        i /= shape[d];
    }
    return x->dense[index];
}

/* Two shapes that broadcast to `shape`. Returns its ndim. */
static int broadcast_shapes(int64_t shape[], int *ndim_a, int64_t a[], int *ndim_b, int64_t b[])
{
    int ndim = (int)below(5);
    *ndim_a = below(2) ? ndim : (int)below(ndim + 1);
    *ndim_b = *ndim_a < ndim || below(2) ? ndim : (int)below(ndim + 1);
    for (int d = 0; d < ndim; d++) {
        shape[d] = ndim < 4 ? any_size() : below(7);
    }
    for (int d = 0; d < *ndim_a; d++) {
        a[d] = below(5) == 0 ? 1 : shape[ndim - *ndim_a + d];
    }
    for (int d = 0; d < *ndim_b; d++) {
        b[d] = below(5) == 0 ? 1 : shape[ndim - *ndim_b + d];
    }
    for (int d = 0; d < ndim; d++) {
        int at_a = d - (ndim - *ndim_a), at_b = d - (ndim - *ndim_b);
        int64_t size_a = at_a >= 0 ? a[at_a] : 1, size_b = at_b >= 0 ? b[at_b] : 1;
        shape[d] = size_a == 1 ? size_b : size_a;
    }
    return ndim;
}

typedef weft_tensor *(*binary_function)(weft_tensor *, weft_tensor *);
typedef double (*binary_reference)(double, double);

static double reference_add(double a, double b)
{
    return a + b;
}

static double reference_sub(double a, double b)
{
    return a - b;
}

static double reference_mul(double a, double b)
{
    return a * b;
}

static void one_binary(const char *name, binary_function function, binary_reference reference)
{
    int64_t shape[WEFT_MAX_DIMS], shape_a[WEFT_MAX_DIMS], shape_b[WEFT_MAX_DIMS];
    int ndim_a, ndim_b, ndim = broadcast_shapes(shape, &ndim_a, shape_a, &ndim_b, shape_b);
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_number();
    operand a = make_operand(mesh, dtype, ndim_a, shape_a, WHOLE, 0);
    operand b = make_operand(mesh, dtype, ndim_b, shape_b, WHOLE, 0);
    int64_t count = shape_count(ndim, shape);
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = reference(broadcast_at(&a, ndim, shape, i), broadcast_at(&b, ndim, shape, i));
    }
    char what[600];
    snprintf(what, sizeof(what), "%s(%s, %s)", name, describe_operand(&a), describe_operand(&b));
    check(function(a.tensor, b.tensor), dtype, ndim, shape, expected, a.exact && b.exact ? 0 : 16, 100, what);
    free(expected);
    release(&a);
    release(&b);
}

static void case_add(void)
{
    one_binary("add", weft_add, reference_add);
}

static void case_sub(void)
{
    one_binary("sub", weft_sub, reference_sub);
}

static void case_mul(void)
{
    one_binary("mul", weft_mul, reference_mul);
}

/* The same tensor twice. */
static void case_add_same(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, MAX_SIZE, shape);
    operand a = make_operand(any_mesh(), any_number(), ndim, shape, WHOLE, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = 2 * a.dense[i];
    }
    check(weft_add(a.tensor, a.tensor), a.dtype, ndim, shape, expected, a.exact ? 0 : 16, 100,
          describe_operand(&a));
    free(expected);
    release(&a);
}

typedef double (*unary_reference)(double);

static double reference_relu(double a)
{
    return a > 0 ? a : 0;
}

static double reference_gelu(double a)
{
    return a * 0.5 * erfc(-a * sqrt(0.5));
}

static double reference_triple(double a)
{
    return -3 * a;
}

static weft_tensor *triple(weft_tensor *a)
{
    return weft_scale(a, -3);
}

static void one_unary(const char *name, weft_tensor *(*function)(weft_tensor *), unary_reference reference,
                      value_kind kind, double roundings)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    operand a = make_operand(any_mesh(), any_float(), ndim, shape, kind, 0);
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = reference(a.dense[i]);
    }
    char what[300];
    snprintf(what, sizeof(what), "%s(%s)", name, describe_operand(&a));
    check(function(a.tensor), a.dtype, ndim, shape, expected, a.exact ? roundings : roundings + 16, 100,
          what);
    free(expected);
    release(&a);
}

static void case_scale(void)
{
    one_unary("scale", triple, reference_triple, WHOLE, 0);
}

static void case_relu(void)
{
    one_unary("relu", weft_relu, reference_relu, WHOLE, 0);
}

static void case_gelu(void)
{
    one_unary("gelu", weft_gelu, reference_gelu, REAL, 4);
}

static double reference_relu_backward(double gradient, double input)
{
    return input > 0 ? gradient : 0;
}

static double reference_gelu_backward(double gradient, double input)
{
    double phi = exp(-0.5 * input * input) * 0.39894228040143267794;
    return gradient * (0.5 * erfc(-input * sqrt(0.5)) + input * phi);
}

static void one_backward(const char *name, binary_function function, binary_reference reference,
                         value_kind kind, double roundings)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_float();
    operand gradient = make_operand(mesh, dtype, ndim, shape, WHOLE, 0);
    operand input = make_operand(mesh, dtype, ndim, shape, kind, 0);
    double *expected = malloc(((size_t)input.count + 1) * sizeof(double));
    for (int64_t i = 0; i < input.count; i++) {
        expected[i] = reference(gradient.dense[i], input.dense[i]);
    }
    char what[600];
    snprintf(what, sizeof(what), "%s(%s, %s)", name, describe_operand(&gradient), describe_operand(&input));
    check(function(gradient.tensor, input.tensor), dtype, ndim, shape, expected,
          gradient.exact && input.exact ? roundings : roundings + 32, 100, what);
    free(expected);
    release(&gradient);
    release(&input);
}

static void case_relu_backward(void)
{
    one_backward("relu_backward", weft_relu_backward, reference_relu_backward, WHOLE, 0);
}

static void case_gelu_backward(void)
{
    one_backward("gelu_backward", weft_gelu_backward, reference_gelu_backward, REAL, 8);
}

/* ---- in place ------------------------------------------------------------------------------------------ */

/* Restricts the other operand to the layouts that a Partial target allows. */
static void fit_partial(operand *target, operand *other)
{
    for (int m = 0; m < weft_mesh_ndim(target->mesh); m++) {
        weft_placement *t = &target->placements[m];
        if (t->kind == WEFT_PARTIAL) {
            t->op = t->op == WEFT_AVG ? WEFT_AVG : WEFT_SUM;
            other->placements[m] = *t;
        } else if (other->placements[m].kind == WEFT_PARTIAL && any_partial(target)) {
            other->placements[m] = weft_replicate();
        }
    }
    realise(target);
    realise(other);
}

static void case_add_in_place(void)
{
    int64_t shape[WEFT_MAX_DIMS], shape_b[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape), ndim_b = below(2) ? ndim : (int)below(ndim + 1);
    for (int d = 0; d < ndim_b; d++) {
        shape_b[d] = below(5) == 0 ? 1 : shape[ndim - ndim_b + d];
    }
    weft_mesh *mesh = any_mesh();
    weft_dtype dtype = any_float();
    operand a = make_operand(mesh, dtype, ndim, shape, WHOLE, 0),
            b = make_operand(mesh, dtype, ndim_b, shape_b, WHOLE, 0);
    fit_partial(&a, &b);
    weft_tensor *before = weft_scale(a.tensor, 1),
                *other = below(2) ? weft_reshape(a.tensor, ndim, shape) : NULL;
    double *expected = malloc(((size_t)a.count + 1) * sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = a.dense[i] + 2 * broadcast_at(&b, ndim, shape, i);
    }
    char what[600];
    snprintf(what, sizeof(what), "add_inplace(%s, %s)", describe_operand(&a), describe_operand(&b));
    weft_tensor *result = weft_add_inplace(a.tensor, b.tensor, 2);
    assert_no_error();
    assert_ptr_equal(result, a.tensor);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        assert_int_equal(weft_tensor_placements(result)[m].kind, a.placements[m].kind);
    }
    double roundings = a.exact && b.exact ? 0 : 32;
    check(result, dtype, ndim, shape, expected, roundings, 100, what);
    /* Neither earlier results nor tensors that share its memory have changed. */
    check(before, dtype, ndim, shape, a.dense, roundings, 100, what);
    if (other != NULL) {
        check(other, dtype, ndim, shape, a.dense, roundings, 100, what);
    }
    free(expected);
    release(&a);
    release(&b);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "add", case_add },     { "sub", case_sub },
    { "mul", case_mul },     { "add, one tensor twice", case_add_same },
    { "scale", case_scale }, { "add_inplace", case_add_in_place },
    { "relu", case_relu },   { "relu_backward", case_relu_backward },
    { "gelu", case_gelu },   { "gelu_backward", case_gelu_backward },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 70, 1, NULL };

/* ---- values at the edges ------------------------------------------------------------------------------- */

static weft_tensor *one(weft_dtype dtype, double value)
{
    int64_t shape[] = { 1 }, ranks[] = { 2 };
    return weft_to_type(weft_distribute(WEFT_F64, 1, shape, &value, weft_mesh_create(1, ranks, NULL), NULL),
                        dtype);
}

/* The elements in memory for the two ranks of a mesh, as addends. */
static weft_tensor *addends(weft_dtype dtype, weft_reduce_op op, double first, double second)
{
    static double memory[MAX_RANKS];
    void *locals[MAX_RANKS] = { NULL };
    int64_t shape[] = { 1 }, ranks[] = { 2 };
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        if (rank < 2) {
            write_as(dtype, &memory[rank], 0, rank == 0 ? first : second);
            locals[i] = &memory[rank];
        }
    }
    weft_placement partial = weft_partial(op);
    weft_tensor *tensor =
        weft_from_local(dtype, 1, shape, locals, weft_mesh_create(1, ranks, NULL), &partial, WEFT_COPY);
    assert_no_error();
    return tensor;
}

static void expect_one(weft_tensor *tensor, double value)
{
    double found = -77;
    assert_no_error();
    assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_F64), &found, sizeof(found)), WEFT_OK);
    if (!(found == value || (isnan(found) && isnan(value)))) {
        fail_msg("%.17g, expected %.17g", found, value);
    }
}

/* Values that overflow, round or become NaN in between, and must not. */
static void test_single_values(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    expect_one(weft_floor_div(one(WEFT_F32, 8388609), one(WEFT_F32, 1)), 8388609);
    expect_one(weft_floor_div(one(WEFT_F64, -0x1.0000000000001p52), one(WEFT_F64, 1)), -0x1.0000000000001p52);
    expect_one(weft_lerp(one(WEFT_F32, 1e20), one(WEFT_F32, 1), 1), 1);
    expect_one(weft_lerp(one(WEFT_F32, 1e20), one(WEFT_F32, 1), 0), (float)1e20);
    expect_one(weft_relu_backward(one(WEFT_F32, 3), one(WEFT_F32, NAN)), 3);
    expect_one(weft_add_scaled(one(WEFT_I32, 1), one(WEFT_F32, 1), 0.5), 1.5);
    expect_one(weft_logaddexp(one(WEFT_F64, INFINITY), one(WEFT_F64, INFINITY)), INFINITY);
    expect_one(weft_logaddexp(one(WEFT_F64, -INFINITY), one(WEFT_F64, -INFINITY)), -INFINITY);
    expect_one(weft_logaddexp(one(WEFT_F64, NAN), one(WEFT_F64, 1)), NAN);
    expect_one(weft_hypot(one(WEFT_F32, 3e38), one(WEFT_F32, 0)), (float)3e38);
    /* Bounds that the type does not have, and NaN. */
    expect_one(weft_clamp(one(WEFT_U8, 200), 300, INFINITY), 255);
    expect_one(weft_clamp(one(WEFT_U8, 200), -5, -3), 0);
    expect_one(weft_clamp(one(WEFT_I32, 5), 1e10, INFINITY), INT32_MAX);
    expect_one(weft_clamp(one(WEFT_I64, 5), -INFINITY, INFINITY), 5);
    expect_one(weft_clamp(one(WEFT_F32, 5), NAN, 7), NAN);
    expect_one(weft_clamp(one(WEFT_F32, 5), 1, NAN), NAN);
    expect_one(weft_fill_inplace(one(WEFT_U8, 1), -3), 253);
    /* Numbers that are not whole, or beyond the range, beside integers; rounded ones beside 16 bits. */
    weft_tensor *most = weft_clamp(one(WEFT_I64, 1), INFINITY, INFINITY);
    expect_one(weft_lt_scalar(one(WEFT_I32, 2), 2.5), 1);
    expect_one(weft_le_scalar(one(WEFT_I32, -2), -2.5), 0);
    expect_one(weft_gt_scalar(one(WEFT_I32, 2), 1.5), 1);
    expect_one(weft_ge_scalar(one(WEFT_U8, 255), 255.5), 0);
    expect_one(weft_lt_scalar(most, 0x1p63), 1);
    expect_one(weft_ge_scalar(most, 0x1p63), 0);
    expect_one(weft_eq_scalar(most, 0x1p63), 0);
    expect_one(weft_gt_scalar(weft_bitwise_not(most), -0x1p63), 0);
    expect_one(weft_gt_scalar(weft_bitwise_not(most), -0x1.8p63), 1);
    expect_one(weft_ne_scalar(one(WEFT_I64, 0x1p53), NAN), 1);
    expect_one(weft_eq_scalar(one(WEFT_BF16, 1.1), 1.1), 1);
    expect_one(weft_eq_scalar(one(WEFT_F32, 0.1), 0.1), 1);
    expect_one(weft_eq_scalar(one(WEFT_BOOL, 1), 2), 0);
    expect_one(weft_nan_to_num(one(WEFT_BF16, INFINITY), 0, NAN, NAN), 0x1.fep127);
    expect_one(weft_nan_to_num(one(WEFT_F16, -INFINITY), 0, NAN, NAN), -65504);
    expect_one(weft_nan_to_num(one(WEFT_F32, INFINITY), 0, INFINITY, NAN), INFINITY);
    expect_one(weft_fmax(one(WEFT_F32, NAN), one(WEFT_F32, -INFINITY)), -INFINITY);
    expect_one(weft_fmin(one(WEFT_F32, NAN), one(WEFT_F32, NAN)), NAN);
    expect_one(weft_digamma(one(WEFT_F64, 0)), -INFINITY);
    expect_one(weft_digamma(one(WEFT_F32, -3)), NAN);
    expect_one(weft_digamma(one(WEFT_F64, -INFINITY)), NAN);
    expect_one(weft_polygamma(one(WEFT_F64, -3), 1), INFINITY);
    expect_one(weft_polygamma(one(WEFT_F64, INFINITY), 1), 0);
    expect_one(weft_polygamma(one(WEFT_F64, -3), 2), INFINITY * -1);
    expect_one(weft_polygamma(one(WEFT_F64, INFINITY), 2), -0.0);
    expect_one(weft_i0(one(WEFT_F64, -INFINITY)), INFINITY);
    expect_one(weft_i1(one(WEFT_F32, -INFINITY)), -INFINITY);
    expect_one(weft_i0e(one(WEFT_F64, INFINITY)), 0);
    expect_one(weft_i1e(one(WEFT_F64, NAN)), NAN);
    expect_one(weft_i0(one(WEFT_F64, 0)), 1);
    expect_one(weft_bessel_j0(one(WEFT_F32, 0)), 1);
    expect_one(weft_ndtri(one(WEFT_F64, 0)), -INFINITY);
    expect_one(weft_ndtri(one(WEFT_F64, 1)), INFINITY);
    expect_one(weft_ndtri(one(WEFT_F32, 1.5)), NAN);
    expect_one(weft_log_ndtr(one(WEFT_F64, -INFINITY)), -INFINITY);
    expect_one(weft_log_ndtr(one(WEFT_F64, INFINITY)), 0);
    expect_one(weft_entr(one(WEFT_F16, 0)), 0);
    expect_one(weft_entr(one(WEFT_F64, -1)), -INFINITY);
    expect_one(weft_logit(one(WEFT_F32, 0)), -INFINITY);
    expect_one(weft_logit(one(WEFT_F64, 2)), NAN);
    expect_one(weft_sinc(one(WEFT_F64, 1e300)), 0);
    expect_one(weft_zeta(one(WEFT_F64, 1), one(WEFT_F64, 2)), INFINITY);
    expect_one(weft_zeta(one(WEFT_F64, 0.5), one(WEFT_F64, 2)), NAN);
    expect_one(weft_zeta(one(WEFT_F64, 2), one(WEFT_F64, -1)), INFINITY);
    expect_one(weft_zeta(one(WEFT_F64, 2), one(WEFT_F64, INFINITY)), 0);
    expect_one(weft_zeta(one(WEFT_F64, 2), one(WEFT_F64, NAN)), NAN);
    expect_one(weft_zeta(one(WEFT_F64, 3), one(WEFT_F64, -1e300)), INFINITY); /* all such numbers are whole */
    expect_one(weft_xlog1py(one(WEFT_F64, 0), one(WEFT_F64, -1)), 0);
    expect_one(weft_xlog1py(one(WEFT_F64, 0), one(WEFT_F64, NAN)), NAN);
    expect_one(weft_logaddexp2(one(WEFT_F64, -INFINITY), one(WEFT_F64, -INFINITY)), -INFINITY);
    expect_one(weft_lgamma(one(WEFT_F32, -2)), INFINITY);
    expect_one(weft_erfinv(one(WEFT_F16, 1)), INFINITY);
    expect_one(weft_erfinv(one(WEFT_F64, 1e-310)), 1e-310 * 0.88622692545275801365);
    expect_one(weft_erfinv(one(WEFT_F32, 1.5)), NAN);
    expect_one(weft_xlogy(one(WEFT_F32, 0), one(WEFT_F32, -1)), 0);
    expect_one(weft_xlogy(one(WEFT_F32, 0), one(WEFT_F32, NAN)), NAN);
    expect_one(weft_bitwise_left_shift(one(WEFT_I32, 1), one(WEFT_I32, 31)), INT32_MIN);
    expect_one(weft_bitwise_left_shift(one(WEFT_I32, 1), one(WEFT_I32, 32)), 0);
    expect_one(weft_bitwise_right_shift(one(WEFT_I64, -5), one(WEFT_I64, -1)), -1);
    expect_one(weft_bitwise_right_shift(one(WEFT_U8, 200), one(WEFT_U8, 3)), 25);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Addends that must be reduced first. */
static void test_single_addends(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    expect_one(weft_sign(addends(WEFT_F32, WEFT_MAX, NAN, 5)), 0);
    expect_one(weft_sign(addends(WEFT_F32, WEFT_MIN, -5, NAN)), 0);
    expect_one(weft_relu(addends(WEFT_F32, WEFT_MAX, NAN, 5)), NAN);
    expect_one(addends(WEFT_F16, WEFT_AVG, 40000, 40000), 40000);
    /* Reduced in 16 bits; a wider type is what the addends are converted to. */
    weft_placement whole = weft_replicate();
    expect_one(weft_redistribute(addends(WEFT_BF16, WEFT_AVG, 0x1.02p0, 0x1p0), NULL, &whole), 0x1p0);
    expect_one(addends(WEFT_BF16, WEFT_AVG, 0x1.02p0, 0x1p0), 0x1.01p0);
    /* To a type in which they would not keep their order, or overflow. */
    static const struct {
        row_place place;
        weft_dtype from, to;
        weft_reduce_op op;
        double first, second;
    } narrow[] = { { THIS_ROW, WEFT_I64, WEFT_I32, WEFT_MAX, 0x1p32, 5 },
                   { THIS_ROW, WEFT_F64, WEFT_F32, WEFT_PROD, 1e200, 1e-200 } };
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
        enter_row(narrow[i].place, __func__);
        weft_tensor *target = addends(narrow[i].to, narrow[i].op, 1, 1);
        weft_tensor *given = addends(narrow[i].from, narrow[i].op, narrow[i].first, narrow[i].second);
        assert_null(weft_copy_inplace(target, given));
        assert_error(WEFT_ERR_LAYOUT, "weft_copy_inplace");
        expect_one(target, 1);
    }
    leave_rows();
    expect_one(weft_copy_inplace(addends(WEFT_I64, WEFT_MAX, 1, 1), addends(WEFT_I32, WEFT_MAX, -3, 5)), 5);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_values),
        cmocka_unit_test(test_single_addends),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
