/* The tape: gradients of whole programs against central differences, on random layouts; layouts of
 * gradients, and higher orders. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"

enum { MAX_INPUTS = 6, MAX_ELEMENTS = 64 };

/* An input of a program. */
typedef struct input {
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
} input;

/* A program with a loss at its end. */
typedef struct program {
    const char *name;
    int num_inputs;
    input inputs[MAX_INPUTS];
    weft_tensor *(*loss)(weft_tensor *const x[]);
} program;

static double value_of(int tensor, int64_t i)
{
    return 0.3 * sin(1.7 * (double)i + 2.1 * tensor) + 0.1 * (double)(tensor + 1);
}

/* ---- programs ---------------------------------------------------------------------------------------------- */

static weft_tensor *square_loss(weft_tensor *const x[])
{
    return weft_sum(weft_mul(x[0], x[0]), WEFT_ALL_DIMS, false);
}

static weft_tensor *mlp_loss(weft_tensor *const x[])
{
    weft_tensor *h = weft_gelu(weft_add(weft_matmul(x[0], x[1]), x[2]));
    weft_tensor *n = weft_layer_norm(h, x[3], NULL, 1e-5);
    weft_tensor *z = weft_matmul(n, x[4]);
    int32_t next[7] = { 0, 2, 1, 3, 3, 0, 2 };
    weft_tensor *targets = weft_distribute(WEFT_I32, 1, (int64_t[]){ 7 }, next, weft_tensor_mesh(z), NULL);
    return weft_cross_entropy(z, targets, NULL);
}

/* One value is used in many places, by several contributions of several layouts. */
static weft_tensor *reused_loss(weft_tensor *const x[])
{
    weft_tensor *a = weft_sigmoid(x[0]), *b = weft_matmul(a, x[1]);
    weft_tensor *c = weft_mul(weft_tanh(b), weft_softmax(b, 1));
    weft_tensor *d = weft_add(weft_sum(c, 1, true), weft_mul(a, x[2]));
    return weft_mean(weft_mul(d, weft_add(a, d)), WEFT_ALL_DIMS, false);
}

static weft_tensor *parts_loss(weft_tensor *const x[])
{
    weft_tensor *pieces[3];
    weft_split(x[0], 3, (int64_t[]){ 2, 3, 1 }, 0, pieces);
    weft_tensor *order[] = { pieces[2], pieces[0], pieces[2] };
    weft_tensor *joined = weft_cat(3, order, 0);
    weft_tensor *turned = weft_transpose(weft_roll(joined, 1, 1), 0, 1);
    weft_tensor *sliced = weft_slice(turned, 0, 0, 5, 2);
    return weft_sum(weft_mul(weft_exp(sliced), weft_sum(weft_select(pieces[1], 0, 1), 0, false)), WEFT_ALL_DIMS, false);
}

static weft_tensor *in_place_loss(weft_tensor *const x[])
{
    weft_tensor *a = weft_mul(x[0], x[1]);
    weft_tensor *b = weft_exp(a);
    weft_add_inplace(a, b, 2);    /* exp's result is read by its gradient */
    weft_mul_inplace(b, x[0]);    /* reads the former b */
    weft_scale_inplace(a, 0.5);
    weft_tensor *fresh = weft_zeros_like(a);
    weft_copy_inplace(fresh, b); /* a constant becomes a value of the tape */
    return weft_sum(weft_mul(weft_mul(a, b), fresh), WEFT_ALL_DIMS, false);
}

static weft_tensor *attention_loss(weft_tensor *const x[])
{
    weft_attention_options options;
    weft_attention_options_init(&options);
    options.causal = true;
    weft_tensor *a = weft_attention(x[0], x[1], x[2], &options);
    return weft_sum(weft_mul(a, a), WEFT_ALL_DIMS, false);
}

static weft_tensor *moved_loss(weft_tensor *const x[])
{
    weft_mesh *mesh = weft_tensor_mesh(x[0]);
    weft_tensor *whole = weft_redistribute(x[0], mesh, NULL);
    weft_placement columns[WEFT_MAX_DIMS];
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        columns[m] = m == 0 ? weft_shard(1) : weft_replicate();
    }
    weft_tensor *cut = weft_redistribute(weft_sin(whole), mesh, columns);
    weft_tensor *again = weft_redistribute(weft_matmul(cut, x[1]), mesh, NULL);
    return weft_sum(weft_mul(again, whole), WEFT_ALL_DIMS, false);
}

static const program programs[] = {
    { "square", 1, { { 2, { 5, 3 } } }, square_loss },
    { "mlp", 5, { { 2, { 7, 5 } }, { 2, { 5, 6 } }, { 1, { 6 } }, { 1, { 6 } }, { 2, { 6, 4 } } }, mlp_loss },
    { "reused", 3, { { 2, { 5, 4 } }, { 2, { 4, 4 } }, { 1, { 4 } } }, reused_loss },
    { "parts", 1, { { 2, { 6, 5 } } }, parts_loss },
    { "in place", 2, { { 2, { 3, 4 } }, { 1, { 4 } } }, in_place_loss },
    { "attention", 3, { { 4, { 1, 2, 5, 3 } }, { 4, { 1, 2, 5, 3 } }, { 4, { 1, 2, 5, 3 } } }, attention_loss },
    { "moved", 2, { { 2, { 4, 3 } }, { 2, { 3, 3 } } }, moved_loss },
};

/* ---- against central differences ------------------------------------------------------------------------ */

static void fill(const program *p, double values[][MAX_ELEMENTS])
{
    for (int k = 0; k < p->num_inputs; k++) {
        for (int64_t i = 0; i < shape_count(p->inputs[k].ndim, p->inputs[k].shape); i++) {
            values[k][i] = value_of(k, i);
        }
    }
}

static double loss_at(const program *p, weft_mesh *mesh, double values[][MAX_ELEMENTS])
{
    weft_tensor *x[MAX_INPUTS];
    double loss = 0;
    weft_scope_begin();
    for (int k = 0; k < p->num_inputs; k++) {
        x[k] = weft_distribute(WEFT_F64, p->inputs[k].ndim, p->inputs[k].shape, values[k], mesh, NULL);
    }
    weft_tensor_item(p->loss(x), &loss);
    weft_scope_end();
    assert_no_error();
    return loss;
}

static void differences(const program *p, weft_mesh *mesh, double expected[][MAX_ELEMENTS])
{
    double values[MAX_INPUTS][MAX_ELEMENTS];
    fill(p, values);
    for (int k = 0; k < p->num_inputs; k++) {
        for (int64_t i = 0; i < shape_count(p->inputs[k].ndim, p->inputs[k].shape); i++) {
            double value = values[k][i], step = 1e-5;
            values[k][i] = value + step;
            double above = loss_at(p, mesh, values);
            values[k][i] = value - step;
            expected[k][i] = (above - loss_at(p, mesh, values)) / (2 * step);
            values[k][i] = value;
        }
    }
}

static void assert_close(const char *what, weft_tensor *tensor, const double expected[])
{
    double values[MAX_ELEMENTS];
    assert_non_null(tensor);
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    int64_t count = weft_tensor_num_elements(tensor);
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(values[i] - expected[i]) <= 1e-6 * (1 + fabs(expected[i])))) {
            fail_msg("%s: element %d is %.12g, expected %.12g", what, (int)i, values[i], expected[i]);
        }
    }
    assert_shards(tensor, NULL, NULL, what);
}

static void place_inputs(prng *random, const program *p, weft_mesh *mesh, weft_tensor *x[])
{
    double values[MAX_INPUTS][MAX_ELEMENTS];
    fill(p, values);
    for (int k = 0; k < p->num_inputs; k++) {
        weft_placement placements[WEFT_MAX_DIMS];
        random_placements(random, mesh, p->inputs[k].ndim, false, placements);
        random_cut_sizes(random, mesh, p->inputs[k].ndim, p->inputs[k].shape, placements);
        x[k] = weft_distribute(WEFT_F64, p->inputs[k].ndim, p->inputs[k].shape, values[k], mesh, placements);
        assert_int_equal(weft_set_requires_grad(x[k], true), WEFT_OK);
    }
}

/* By weft_backward() and by weft_gradients(), on random meshes and layouts; ranks outside the mesh too. */
static void check_program(const program *p, int tries)
{
    double expected[MAX_INPUTS][MAX_ELEMENTS];
    int64_t line = weft_world_size();
    differences(p, weft_mesh_create(1, &line, NULL), expected);
    prng random = { 5 };
    for (int n = 0; n < tries; n++) {
        weft_scope_begin();
        weft_mesh *mesh = random_mesh(&random, weft_world_size());
        weft_tensor *x[MAX_INPUTS], *gradients[MAX_INPUTS];
        place_inputs(&random, p, mesh, x);
        weft_tensor *loss = p->loss(x);
        assert_true(weft_requires_grad(loss));
        assert_false(weft_is_leaf(loss));
        if (n % 2 == 0) {
            assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        } else {
            assert_int_equal(weft_gradients(1, &loss, NULL, p->num_inputs, x, n % 4 == 1, gradients), WEFT_OK);
        }
        for (int k = 0; k < p->num_inputs; k++) {
            weft_tensor *gradient = n % 2 == 0 ? weft_grad(x[k]) : gradients[k];
            char what[200];
            snprintf(what, sizeof(what), "%s, input %d, %s", p->name, k,
                     describe(mesh, weft_tensor_placements(x[k]), p->inputs[k].ndim, p->inputs[k].shape));
            assert_close(what, gradient, expected[k]);
            assert_memory_equal(weft_tensor_placements(gradient), weft_tensor_placements(x[k]),
                                (size_t)weft_mesh_ndim(mesh) * sizeof(weft_placement));
        }
        weft_scope_end();
        assert_no_error();
    }
}

static void test_e1_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        check_program(&programs[i], 12);
    }
}

/* ---- layouts of gradients --------------------------------------------------------------------------------- */

/* Row E2: of a replicated leaf used by rows, the gradient is reduced once, to the layout that is asked for. */
static void test_e2_gradient_layouts(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *w = leaf_of(line(), NULL, 3);
    weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 6, 3 }, line(), &rows);
    assert_int_equal(weft_set_grad_placements(w, &(weft_placement){ .kind = WEFT_PARTIAL }), WEFT_ERR_LAYOUT);
    assert_error(WEFT_ERR_LAYOUT, "Partial");
    assert_int_equal(weft_set_grad_placements(w, &rows), WEFT_OK);
    weft_tensor *y = weft_matmul(x, w), *z = weft_matmul(weft_scale(x, 2), w);
    assert_int_equal(weft_backward(weft_sum(weft_add(y, z), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(w), 18);
    assert_int_equal(weft_tensor_placements(weft_grad(w))[0].kind, WEFT_SHARD);

    /* A Partial input gets a replicated gradient. */
    weft_placement sum = weft_partial(WEFT_SUM);
    weft_tensor *p = weft_matmul(weft_redistribute(x, NULL, &(weft_placement){ .kind = WEFT_SHARD, .dim = 1 }),
                                 weft_redistribute(w, NULL, &rows));
    assert_int_equal(weft_tensor_placements(p)[0].kind, WEFT_PARTIAL);
    weft_tensor *gradient;
    weft_tensor *loss = weft_sum(weft_redistribute(p, NULL, &rows), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &p, false, &gradient), WEFT_OK);
    assert_int_equal(weft_tensor_placements(gradient)[0].kind, WEFT_REPLICATE);
    assert_all(gradient, 1);
    (void)sum;
    weft_scope_end();
    assert_no_error();
}

/* Gathered again in the backward pass, not saved. */
static void test_regather(void **state)
{
    (void)state;
    weft_placement rows = weft_shard(0);
    double expected[2][MAX_ELEMENTS];
    for (int again = 0; again < 2; again++) {
        weft_scope_begin();
        weft_tensor *w = leaf_of(line(), &rows, 5);
        weft_tensor *x = leaf_of(line(), NULL, 3);
        weft_set_regather(w, again);
        weft_tensor *whole = weft_redistribute(w, NULL, NULL);
        weft_tensor *y = weft_mul(weft_matmul(weft_exp(whole), weft_transpose(x, 0, 1)), weft_matmul(whole, x));
        assert_int_equal(weft_backward(weft_sum(y, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        weft_to_host(weft_grad(w), expected[again], sizeof(expected[again]));
        assert_int_equal(weft_tensor_placements(weft_grad(w))[0].kind, WEFT_SHARD);
        weft_scope_end();
        assert_no_error();
    }
    assert_memory_equal(expected[0], expected[1], 15 * sizeof(double));
}

/* ---- higher orders ------------------------------------------------------------------------------------------ */

static void test_second_derivatives(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        weft_scope_begin();
        weft_placement rows = weft_shard(0);
        weft_tensor *a = leaf_of(line(), layout == 0 ? NULL : &rows, 4);
        weft_tensor *loss = weft_sum(weft_mul(weft_exp(weft_scale(a, 2)), a), WEFT_ALL_DIMS, false);
        weft_tensor *first, *second, *third;
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, true, &first), WEFT_OK);
        assert_true(weft_requires_grad(first));
        assert_all(first, 3 * exp(2)); /* (2a + 1) exp(2a) */
        weft_tensor *sum = weft_sum(first, WEFT_ALL_DIMS, false);
        assert_int_equal(weft_gradients(1, &sum, NULL, 1, &a, true, &second), WEFT_OK);
        assert_all(second, 8 * exp(2)); /* (4a + 4) exp(2a) */
        sum = weft_sum(weft_mul(second, second), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_gradients(1, &sum, NULL, 1, &a, false, &third), WEFT_OK);
        assert_all(third, 320 * exp(4)); /* 2 * second * (8a + 12) exp(2a) */
        assert_false(weft_requires_grad(third));
        weft_scope_end();
        assert_no_error();
    }
}

static void test_of_values_on_the_way(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), NULL, 2), *unused = leaf_of(line(), NULL, 2);
    weft_tensor *b = weft_scale(a, 3), *c = weft_mul(b, b);
    weft_tensor *ones = weft_ones_like(c), *inputs[] = { b, a, b, unused }, *gradients[4];
    assert_int_equal(weft_gradients(1, &c, &ones, 4, inputs, false, gradients), WEFT_OK);
    assert_all(gradients[0], 6);
    assert_all(gradients[1], 18);
    assert_ptr_not_equal(gradients[2], gradients[0]);
    assert_all(gradients[2], 6);
    assert_null(gradients[3]);
    assert_null(weft_grad(a));
    assert_no_error();
    weft_scope_end();
}

/* Gradients of many slices are added to parts of one tensor. */
static void test_many_slices(void **state)
{
    (void)state;
    enum { SLICES = 64 };
    for (int dim = -1; dim < 2; dim++) {
        weft_scope_begin();
        weft_placement placement = dim < 0 ? weft_replicate() : weft_shard(dim);
        weft_tensor *a = weft_ones(WEFT_F64, 2, (int64_t[]){ SLICES, 6 }, line(), &placement), *parts[SLICES + 2];
        weft_set_requires_grad(a, true);
        weft_tensor *b = weft_scale(a, 2);
        for (int i = 0; i < SLICES; i++) {
            parts[i] = weft_scale(weft_slice(b, 0, i, i + 1 + i % 2, 1), i);
        }
        parts[SLICES] = weft_unsqueeze(weft_select(b, 0, 5), 0);
        parts[SLICES + 1] = weft_slice(b, 0, 0, 64, 9);
        weft_tensor *all = weft_cat(SLICES + 2, parts, 0);
        assert_int_equal(weft_backward(weft_sum(all, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        double values[SLICES][6];
        assert_int_equal(weft_to_host(weft_grad(a), values, sizeof(values)), WEFT_OK);
        for (int i = 0; i < SLICES; i++) {
            double expected = 2.0 * (i + (i % 2 == 0 && i > 0 ? i - 1 : 0) + (i == 5) + (i % 9 == 0));
            for (int j = 0; j < 6; j++) {
                assert_float_equal(values[i][j], expected, 1e-12);
            }
        }
        weft_scope_end();
        assert_no_error();
    }
}

/* A slice's gradient beside one that is Partial. */
static void test_slices_beside_products(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *b = leaf_of(line(), NULL, 6), *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 5, 6 }, line(), &rows);
    weft_tensor *scaled = weft_scale(b, 1), *part = weft_sum(weft_slice(scaled, 0, 1, 4, 1), WEFT_ALL_DIMS, false);
    weft_tensor *product = weft_sum(weft_matmul(x, scaled), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_backward(weft_add(part, product), NULL), WEFT_OK);
    double values[6][3];
    assert_int_equal(weft_to_host(weft_grad(b), values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 6; i++) {
        assert_float_equal(values[i][0], i >= 1 && i < 4 ? 6 : 5, 1e-12);
    }
    weft_scope_end();
    assert_no_error();
}

/* Gradients that a program gets are its own, also where one is the gradient that it gave. */
static void test_results_are_new(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), NULL, 2), *b = leaf_of(line(), NULL, 2), *inputs[] = { a, b }, *gradients[2];
    weft_tensor *y = weft_add(a, b), *given = weft_ones_like(y);
    assert_int_equal(weft_gradients(1, &y, &given, 2, inputs, false, gradients), WEFT_OK);
    weft_scale_inplace(gradients[0], 3);
    assert_all(gradients[1], 1);
    assert_all(given, 1);
    weft_scope_end();
    assert_no_error();
}

/* A gathered leaf that was changed since is not gathered anew. */
static void test_regather_after_a_change(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *w = leaf_of(line(), &rows, 3), *x = leaf_of(line(), NULL, 2);
    weft_set_regather(w, true);
    weft_tensor *whole = weft_redistribute(w, NULL, NULL);
    weft_no_grad_begin();
    weft_scale_inplace(whole, 5);
    weft_no_grad_end();
    assert_int_equal(weft_backward(weft_sum(weft_matmul(x, whole), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(x), 15);
    weft_scope_end();
    assert_no_error();
}

/* A chain of calls is released without recursion, also where nobody passes backward. */
static void test_long_chains(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), NULL, 1), *x = a;
    for (int i = 0; i < 20000; i++) {
        weft_scope_begin();
        x = weft_scope_keep(weft_add_scalar(x, 1));
        weft_scope_end();
    }
    weft_scope_end();
    weft_wait();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e1_programs),          cmocka_unit_test(test_e2_gradient_layouts),
        cmocka_unit_test(test_regather),             cmocka_unit_test(test_second_derivatives),
        cmocka_unit_test(test_of_values_on_the_way), cmocka_unit_test(test_many_slices),
        cmocka_unit_test(test_long_chains),          cmocka_unit_test(test_slices_beside_products),
        cmocka_unit_test(test_results_are_new),      cmocka_unit_test(test_regather_after_a_change),
    };
    return RUN_ON_RANKS(tests);
}
