/* The tape in unusual programs: meshes, shapes, types, changes in place, random operations, Partial leaves, acquired
 * shards, strict regions, tensors without data. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { MAX_ELEMENTS = 64, RANKS = 4 };

static weft_mesh *line(void)
{
    int64_t ranks = weft_world_size();
    return weft_mesh_create(1, &ranks, NULL);
}

static const weft_placement rows = { .kind = WEFT_SHARD, .dim = 0 };

static weft_tensor *values_of(int ndim, const int64_t shape[], const double values[], weft_mesh *mesh,
                              const weft_placement *placements)
{
    weft_tensor *tensor = weft_distribute(WEFT_F64, ndim, shape, values, mesh, placements);
    assert_non_null(tensor);
    return tensor;
}

static weft_tensor *as_leaf(weft_tensor *tensor)
{
    assert_int_equal(weft_set_requires_grad(tensor, true), WEFT_OK);
    return tensor;
}

/* 1, 2, 3, ... */
static weft_tensor *counted(int64_t n, weft_mesh *mesh, const weft_placement *placements)
{
    double values[MAX_ELEMENTS];
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        values[i] = i + 1;
    }
    return values_of(1, &n, values, mesh, placements);
}

static weft_tensor *total(weft_tensor *tensor)
{
    return weft_sum(tensor, WEFT_ALL_DIMS, false);
}

static void backward_of(weft_tensor *tensor)
{
    assert_non_null(tensor);
    assert_int_equal(weft_backward(total(tensor), NULL), WEFT_OK);
    assert_no_error();
}

static void assert_values(weft_tensor *tensor, int64_t count, const double expected[])
{
    double values[MAX_ELEMENTS];
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_num_elements(tensor), count);
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_float_equal(values[i], expected[i], 1e-12);
    }
}

static void assert_all(weft_tensor *tensor, double expected)
{
    double values[MAX_ELEMENTS];
    assert_non_null(tensor);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        values[i] = expected;
    }
    assert_values(tensor, weft_tensor_num_elements(tensor), values);
}

/* ---- meshes and shapes ------------------------------------------------------------------------------------- */

static void test_two_meshes(void **state)
{
    (void)state;
    weft_scope_begin();
    int last = weft_world_size() - 1;
    weft_mesh *one = weft_mesh_of_ranks(1, (int64_t[]){ 1 }, &last, NULL), *all = line();
    weft_tensor *a = as_leaf(counted(5, one, NULL)), *b = as_leaf(counted(5, all, &rows));
    weft_tensor *scale = as_leaf(weft_full(WEFT_F64, 2, 0, NULL, one, NULL));
    weft_tensor *there = weft_redistribute(weft_mul(a, scale), all, &rows);
    weft_tensor *product = weft_mul(weft_mul(there, b), scale); /* a tensor of one element comes from another mesh */
    backward_of(weft_redistribute(product, one, NULL));
    assert_values(weft_grad(a), 5, (double[]){ 4, 8, 12, 16, 20 });
    assert_values(weft_grad(b), 5, (double[]){ 4, 8, 12, 16, 20 });
    assert_values(weft_grad(scale), 1, (double[]){ 220 });
    assert_true(weft_tensor_mesh(weft_grad(a)) == one && weft_tensor_mesh(weft_grad(b)) == all);
    weft_scope_end();
    assert_no_error();
}

static void test_empty(void **state)
{
    (void)state;
    weft_scope_begin();
    /* Nothing at all; a loss is 0. */
    weft_tensor *none = as_leaf(weft_zeros(WEFT_F64, 2, (int64_t[]){ 0, 3 }, line(), &rows));
    weft_tensor *w = as_leaf(weft_ones(WEFT_F64, 2, (int64_t[]){ 3, 2 }, line(), &rows));
    backward_of(weft_exp(weft_matmul(none, w)));
    assert_int_equal(weft_tensor_num_elements(weft_grad(none)), 0);
    assert_all(weft_grad(w), 0);
    /* A sum over nothing is 0, whatever the leaf. */
    weft_zero_grad(1, &none);
    backward_of(weft_matmul(weft_transpose(none, 0, 1), none));
    assert_int_equal(weft_tensor_num_elements(weft_grad(none)), 0);
    /* One row: most shards are empty. */
    weft_tensor *row = as_leaf(counted(1, line(), &rows));
    backward_of(weft_mul(row, weft_mul(row, row)));
    assert_all(weft_grad(row), 3);
    /* Without dimensions. */
    weft_tensor *number = as_leaf(weft_full(WEFT_F64, 3, 0, NULL, line(), NULL));
    assert_int_equal(weft_backward(weft_mul(number, number), NULL), WEFT_OK);
    assert_all(weft_grad(number), 6);
    assert_int_equal(weft_tensor_ndim(weft_grad(number)), 0);
    weft_scope_end();
    assert_no_error();
}

/* ---- types, and values that do not matter ---------------------------------------------------------------------- */

static void test_integers_end_gradients(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = as_leaf(counted(4, line(), &rows));
    weft_tensor *whole = weft_to_type(a, WEFT_I32), *back = weft_to_type(whole, WEFT_F64);
    assert_false(weft_requires_grad(whole) || weft_requires_grad(back) || weft_requires_grad(weft_gt(a, back)));
    assert_int_equal(weft_backward(total(back), NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "requires no gradient");
    weft_tensor *unused = as_leaf(counted(4, line(), NULL));
    backward_of(weft_mul(a, back));
    assert_values(weft_grad(a), 4, (double[]){ 1, 2, 3, 4 });
    assert_null(weft_grad(unused));
    assert_no_error();
    /* Narrower on the way: the gradient has the leaf's type. */
    weft_zero_grad(1, &a);
    weft_tensor *narrow = weft_to_type(a, WEFT_F32);
    backward_of(weft_mul(narrow, narrow));
    assert_int_equal(weft_tensor_dtype(weft_grad(a)), WEFT_F64);
    assert_values(weft_grad(a), 4, (double[]){ 2, 4, 6, 8 });
    /* To the same type: the leaf itself. */
    weft_tensor *same = weft_to_type(a, WEFT_F64);
    assert_true(weft_is_leaf(a) && weft_is_leaf(same));
    weft_scope_end();
    assert_no_error();
}

/* The branch that was not taken has no part, whatever its values. */
static void test_where(void **state)
{
    (void)state;
    weft_scope_begin();
    const double bad[] = { (double)NAN, 1, (double)INFINITY, 2 };
    weft_tensor *a = as_leaf(counted(4, line(), &rows));
    weft_tensor *b = as_leaf(values_of(1, (int64_t[]){ 4 }, bad, line(), NULL));
    weft_tensor *taken = weft_lt(counted(4, line(), NULL), weft_full(WEFT_F64, 3.5, 0, NULL, line(), NULL));
    backward_of(weft_where(taken, weft_mul(a, a), b));
    assert_values(weft_grad(a), 4, (double[]){ 2, 4, 6, 0 });
    assert_values(weft_grad(b), 4, (double[]){ 0, 0, 0, 1 });
    weft_scope_end();
    assert_no_error();
}

static void test_same_tensor_twice(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        weft_scope_begin();
        const weft_placement *placements = layout == 0 ? NULL : &rows;
        weft_tensor *a = as_leaf(counted(4, line(), placements));
        backward_of(weft_mul(a, a));
        assert_values(weft_grad(a), 4, (double[]){ 2, 4, 6, 8 });
        weft_zero_grad(1, &a);
        backward_of(weft_sub(a, a));
        assert_all(weft_grad(a), 0);
        weft_zero_grad(1, &a);
        weft_tensor *both[] = { a, a, a };
        backward_of(weft_exp(weft_sub(weft_cat(3, both, 0), weft_cat(3, both, 0))));
        assert_all(weft_grad(a), 0);
        const double values[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
        weft_tensor *m = as_leaf(values_of(2, (int64_t[]){ 3, 3 }, values, line(), placements));
        backward_of(weft_matmul(m, m));
        assert_values(weft_grad(m), 9, (double[]){ 18, 27, 36, 21, 30, 39, 24, 33, 42 });
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */

static void test_in_place_on_others(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = as_leaf(weft_ones(WEFT_F64, 1, (int64_t[]){ 6 }, line(), &rows));
    weft_tensor *y = weft_exp(a), *c = weft_ones(WEFT_F64, 1, (int64_t[]){ 6 }, line(), NULL);
    weft_mul_inplace(c, y); /* e^a: a constant becomes a value */
    weft_add_inplace(y, c, 1); /* 2 e^a, which exp's gradient must not see */
    assert_true(weft_requires_grad(c) && !weft_is_leaf(c));
    backward_of(weft_mul(y, c));
    assert_all(weft_grad(a), 4 * exp(2));

    /* Copied over a value: its past is forgotten; and over a constant. */
    weft_zero_grad(1, &a);
    weft_tensor *over = weft_exp(a), *kept = weft_zeros_like(over);
    weft_copy_inplace(kept, over);
    weft_copy_inplace(over, weft_ones_like(a));
    backward_of(weft_add(weft_mul(kept, kept), weft_mul(over, a)));
    assert_all(weft_grad(a), 2 * exp(2) + 1);
    weft_fill_inplace(kept, 3);
    assert_int_equal(weft_backward(total(kept), NULL), WEFT_ERR_STATE);
    weft_clear_error();
    weft_scope_end();
    assert_no_error();
}

/* ---- random operations ----------------------------------------------------------------------------------------------- */

/* The gradient has the mask of the forward pass, also in a second pass and in another layout. */
static void test_dropout(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        weft_scope_begin();
        weft_tensor *a = as_leaf(weft_ones(WEFT_F64, 1, (int64_t[]){ 40 }, line(), layout == 0 ? NULL : &rows));
        weft_tensor *y = weft_dropout(a, 0.5, true, NULL), *loss = total(y);
        double expected[MAX_ELEMENTS];
        weft_to_host(y, expected, sizeof(expected));
        weft_rand_like(a); /* further numbers are drawn in between */
        assert_int_equal(weft_backward(loss, &(weft_backward_options){ .retain = true }), WEFT_OK);
        assert_values(weft_grad(a), 40, expected);
        weft_zero_grad(1, &a);
        weft_rand_like(a);
        backward_of(y);
        assert_values(weft_grad(a), 40, expected);
        weft_zero_grad(1, &a);
        weft_tensor *noise = weft_rand_like(a), *scaled = weft_mul(a, noise);
        weft_to_host(noise, expected, sizeof(expected));
        backward_of(scaled);
        assert_values(weft_grad(a), 40, expected);
        assert_false(weft_requires_grad(noise));
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- layouts of leaves ------------------------------------------------------------------------------------------------- */

static void write_ones(const hosted_shard *s, const void *context)
{
    (void)context;
    for (int64_t i = 0; i < s->count; i++) {
        ((double *)s->values)[i] = 1 + (double)i;
    }
}

/* Addends are a leaf: the gradient is that of the whole value, replicated. */
static void test_partial_leaves(void **state)
{
    (void)state;
    static const weft_reduce_op ops[] = { WEFT_SUM, WEFT_AVG, WEFT_MAX, WEFT_MIN };
    for (int i = 0; i < 4; i++) {
        weft_scope_begin();
        weft_placement partial = weft_partial(ops[i]);
        weft_tensor *a = as_leaf(make_of_shards(WEFT_F64, 1, (int64_t[]){ 4 }, line(), &partial, write_ones, NULL));
        double n = ops[i] == WEFT_SUM ? weft_world_size() : 1;
        backward_of(weft_mul(a, a));
        assert_int_equal(weft_tensor_placements(weft_grad(a))[0].kind, WEFT_REPLICATE);
        assert_values(weft_grad(a), 4, (double[]){ 2 * n, 4 * n, 6 * n, 8 * n });
        weft_zero_grad(1, &a);
        backward_of(weft_redistribute(weft_scale(a, 3), NULL, &rows));
        assert_all(weft_grad(a), 3);
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- memory of tensors ------------------------------------------------------------------------------------------------- */

static void test_acquired(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = as_leaf(counted(8, line(), &rows)), *y = weft_mul(a, a);
    assert_null(weft_local_acquire(y, 0, WEFT_WRITE));
    assert_error(WEFT_ERR_STATE, "tensor was computed from leaves");
    assert_null(weft_local_acquire(y, 0, WEFT_READ_WRITE));
    weft_clear_error();
    assert_non_null(weft_local_acquire(y, 0, WEFT_READ));
    weft_local_release(y, 0);
    /* A leaf may be written to: what was computed from it keeps its former values. */
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset, extent;
        weft_local_box(a, i, &offset, &extent);
        double *memory = weft_local_acquire(a, i, WEFT_READ_WRITE);
        for (int64_t k = 0; k < extent; k++) {
            memory[k] = -1;
        }
        weft_local_release(a, i);
    }
    backward_of(y);
    assert_values(weft_grad(a), 8, (double[]){ 2, 4, 6, 8, 10, 12, 14, 16 });
    weft_zero_grad(1, &a);
    backward_of(weft_mul(a, a));
    assert_all(weft_grad(a), -2);
    weft_tensor *free_again = weft_exp(a);
    weft_no_grad_begin();
    assert_non_null(weft_local_acquire(free_again, 0, WEFT_WRITE));
    weft_no_grad_end();
    weft_local_release(free_again, 0);
    weft_scope_end();
    assert_no_error();
}

/* ---- regions ------------------------------------------------------------------------------------------------------------- */

/* What the backward pass would redistribute is refused there as elsewhere; afterwards all is as before. */
static void test_strict_region(void **state)
{
    (void)state;
    if (weft_world_size() == 1) {
        skip();
    }
    weft_scope_begin();
    weft_tensor *w = as_leaf(weft_ones(WEFT_F64, 2, (int64_t[]){ 3, 2 }, line(), NULL));
    weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 8, 3 }, line(), &rows);
    weft_region_begin("strict", WEFT_REGION_STRICT);
    weft_tensor *loss = total(weft_matmul(x, w));
    assert_no_error();
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK); /* a leaf's gradient is reduced by the tape, which says so */
    weft_region_end();
    assert_all(weft_grad(w), 8);
    weft_scope_end();
    assert_no_error();
}

/* ---- without data -------------------------------------------------------------------------------------------------------- */

static void test_without_data(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *w = as_leaf(weft_fake(WEFT_F32, 2, (int64_t[]){ 3000, 2000 }, line(), &rows));
    weft_tensor *x = as_leaf(weft_fake(WEFT_F32, 2, (int64_t[]){ 10, 3000 }, line(), NULL));
    weft_tensor *targets = weft_fake(WEFT_I64, 1, (int64_t[]){ 10 }, line(), NULL);
    weft_tensor *h = weft_rms_norm(weft_gelu(weft_matmul(x, w)), NULL, 1e-5);
    weft_add_inplace(h, h, 1);
    weft_tensor *loss = weft_cross_entropy(weft_dropout(h, 0.1, true, NULL), targets, NULL);
    assert_true(weft_requires_grad(loss) && weft_tensor_is_fake(loss));
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_tensor *gradient = weft_grad(w);
    assert_true(gradient != NULL && weft_tensor_is_fake(gradient));
    assert_int_equal(weft_tensor_size(gradient, 1), 2000);
    assert_int_equal(weft_tensor_placements(gradient)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_dtype(weft_grad(x)), WEFT_F32);
    assert_int_equal(weft_backward(loss, NULL), WEFT_ERR_STATE);
    weft_clear_error();
    weft_scope_end();
    assert_no_error();
}

/* weft_heaviside() gives its second argument where the first is 0; elsewhere neither counts. */
static void test_value_at_zero(void **state)
{
    (void)state;
    const int64_t n = 6;
    weft_scope_begin();
    weft_tensor *a = as_leaf(values_of(1, &n, (const double[]){ 0, -1, -0.0, 2, 0, 1e-300 }, line(), &rows));
    weft_tensor *b = as_leaf(counted(n, line(), &rows));
    backward_of(weft_mul(weft_heaviside(a, b), counted(n, line(), NULL)));
    assert_values(weft_grad(b), n, (const double[]){ 1, 0, 3, 0, 5, 0 });
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    setenv("WEFT_CALIBRATE", "off", 1);
    weft_config config = { .local_ranks = over_processes() ? 0 : RANKS };
    if (weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_meshes),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_integers_end_gradients), cmocka_unit_test(test_where),
        cmocka_unit_test(test_same_tensor_twice), cmocka_unit_test(test_in_place_on_others),
        cmocka_unit_test(test_dropout),           cmocka_unit_test(test_partial_leaves),
        cmocka_unit_test(test_acquired),          cmocka_unit_test(test_strict_region),
        cmocka_unit_test(test_without_data),      cmocka_unit_test(test_value_at_zero),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    /* With a live tape: a value, its gradient, and a hook's leaf. */
    weft_tensor *left = as_leaf(counted(3, line(), NULL)), *value = weft_exp(left);
    weft_backward(total(value), &(weft_backward_options){ .create_graph = true });
    return weft_finalize() == WEFT_OK ? failed : 1;
}
