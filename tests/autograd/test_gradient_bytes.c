/* Bytes that forward and backward passes move: those of the collectives that the layouts need, and none besides. */
#include "graph_support.h"

enum { RANKS = 4, N = 1024, M = 768, K = 512 };

typedef struct operands {
    weft_tensor *a, *b, *c; /* leaves: [N, K], [K, M], [M] */
} operands;

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

static weft_tensor *sum_of(const operands *o)
{
    return sum_all(o->a);
}

static weft_tensor *mean_of(const operands *o)
{
    return weft_mean(o->a, WEFT_ALL_DIMS, false);
}

static weft_tensor *squares_of(const operands *o)
{
    return sum_all(weft_square(o->a));
}

static weft_tensor *rows_of(const operands *o)
{
    return sum_all(weft_square(weft_sum(o->a, 1, false)));
}

static weft_tensor *variances_of(const operands *o)
{
    return sum_all(weft_var(o->a, 1, 1, false));
}

static weft_tensor *norms_of(const operands *o)
{
    return sum_all(weft_norm(o->a, 2, 1, false));
}

static weft_tensor *product_of(const operands *o)
{
    return sum_all(weft_matmul(o->a, o->b));
}

static weft_tensor *linear_of(const operands *o)
{
    return sum_all(weft_square(weft_add(weft_matmul(o->a, o->b), o->c)));
}

/* Row-parallel layers: the sum of the products waits for the reduction that the program asks for. */
static weft_tensor *reduced(weft_tensor *sum)
{
    return sum_all(weft_redistribute(sum, NULL, NULL));
}

static weft_tensor *reduced_linear_of(const operands *o)
{
    return reduced(weft_add(weft_matmul(o->a, o->b), o->c));
}

static weft_tensor *reduced_linear_of_three_dimensions(const operands *o)
{
    return reduced(weft_add(o->c, weft_matmul(weft_unsqueeze(o->a, 0), o->b)));
}

static weft_tensor *reduced_linear_of_transposed_weights(const operands *o)
{
    return reduced(weft_linear(o->a, weft_transpose(o->b, 0, 1), o->c));
}

static weft_tensor *cross_entropy_of(const operands *o)
{
    return weft_cross_entropy(o->a, weft_zeros(WEFT_I64, 1, (int64_t[]){ N }, weft_tensor_mesh(o->a), NULL), NULL);
}

/* An all-reduce of n elements on p ranks is 2 (p - 1) n, all ranks together; of few, in one stage, p (p - 1) n. */
static const struct {
    row_place place;
    int mesh_ndim; /* 1: a line, 2: a square */
    const char *a, *b, *c;
    weft_tensor *(*loss)(const operands *o);
    int64_t forward, backward; /* elements that all ranks receive */
} programs[] = {
    { THIS_ROW, 1, "R", NULL, NULL, sum_of, 0, 0 },
    { THIS_ROW, 1, "S0", NULL, NULL, sum_of, 0, 0 },
    { THIS_ROW, 1, "S1", NULL, NULL, sum_of, 0, 0 },
    { THIS_ROW, 2, "S1,R", NULL, NULL, sum_of, 0, 0 },
    { THIS_ROW, 2, "S1,S0", NULL, NULL, sum_of, 0, 0 },
    { THIS_ROW, 1, "R", NULL, NULL, mean_of, 0, 0 },
    { THIS_ROW, 1, "S1", NULL, NULL, mean_of, 0, 0 },
    { THIS_ROW, 2, "R,S1", NULL, NULL, mean_of, 0, 0 },
    { THIS_ROW, 1, "R", NULL, NULL, squares_of, 0, 0 },
    { THIS_ROW, 1, "S1", NULL, NULL, squares_of, 0, 0 },
    { THIS_ROW, 1, "R", NULL, NULL, rows_of, 0, 0 },
    { THIS_ROW, 1, "S0", NULL, NULL, rows_of, 0, 0 },
    { THIS_ROW, 1, "S1", NULL, NULL, rows_of, 3 * N, 3 * N },
    { THIS_ROW, 1, "R", NULL, NULL, variances_of, 0, 0 },
    { THIS_ROW, 1, "S0", NULL, NULL, variances_of, 0, 0 },
    { THIS_ROW, 1, "R", NULL, NULL, norms_of, 0, 0 },
    { THIS_ROW, 1, "S0", NULL, NULL, norms_of, 0, 0 },
    { THIS_ROW, 1, "R", "R", NULL, product_of, 0, 0 },
    { THIS_ROW, 1, "S0", "R", NULL, product_of, 0, 6 * K * M },
    { THIS_ROW, 1, "R", "S1", NULL, product_of, 0, 6 * N * K },
    { THIS_ROW, 1, "R", "S1", "S0", linear_of, 0, 6 * N * K },
    { THIS_ROW, 2, "S0,S1", "R,S0", NULL, product_of, 0, 2 * K * M },
    { THIS_ROW, 1, "S1", "S0", "R", reduced_linear_of, 6 * N * M, 0 },
    { THIS_ROW, 1, "S1", "S0", "R", reduced_linear_of_three_dimensions, 6 * N * M, 0 },
    { THIS_ROW, 1, "S1", "S0", "R", reduced_linear_of_transposed_weights, 6 * N * M, 0 },
    { THIS_ROW, 1, "S1", "S0", "R", linear_of, 3 * N * M, 3 * N * M },
    { THIS_ROW, 1, "R", NULL, NULL, cross_entropy_of, 0, 0 },
    { THIS_ROW, 1, "S0", NULL, NULL, cross_entropy_of, 0, 0 },
    { THIS_ROW, 1, "S1", NULL, NULL, cross_entropy_of, 3 * 12 * N, 0 }, /* largest, sum, target's */
};

static weft_tensor *leaf(const char *placements, int ndim, const int64_t shape[], weft_mesh *mesh)
{
    weft_placement p[WEFT_MAX_DIMS];
    if (placements == NULL) {
        return NULL;
    }
    assert_int_equal(weft_placements_parse(placements, weft_mesh_ndim(mesh), p), WEFT_OK);
    weft_tensor *t = weft_ones(WEFT_F64, ndim, shape, mesh, p);
    assert_int_equal(weft_set_requires_grad(t, true), WEFT_OK);
    return t;
}

static int64_t elements_moved(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return (int64_t)(now.bytes_moved / sizeof(double));
}

static void passes_move_what_they_must(void **state)
{
    (void)state;
    WORLD(RANKS);
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        enter_row(programs[i].place, __func__);
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(programs[i].mesh_ndim, programs[i].mesh_ndim == 1 ? (int64_t[]){ RANKS } : (int64_t[]){ 2, 2 }, NULL);
        operands o = { leaf(programs[i].a, 2, (int64_t[]){ N, K }, mesh), leaf(programs[i].b, 2, (int64_t[]){ K, M }, mesh),
                       leaf(programs[i].c, 1, (int64_t[]){ M }, mesh) };
        int64_t before = elements_moved();
        weft_tensor *loss = programs[i].loss(&o);
        int64_t between = elements_moved();
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        assert_int_equal(between - before, programs[i].forward);
        assert_int_equal(elements_moved() - between, programs[i].backward);
        weft_scope_end();
    }
    leave_rows();
}

/* ---- sums that stay Partial ------------------------------------------------------------------------------ */

enum { ROWS = 12, COLUMNS = 8, ADDENDS = 16 };

/* [ROWS, COLUMNS] of small whole numbers, multiples of 4: Partial along the mesh dimensions, or whole. */
static weft_tensor *sum_on(weft_mesh *mesh, bool partial, int64_t rows, int64_t columns)
{
    weft_placement p[2] = { weft_shard(1), weft_shard(1) }, q[2] = { weft_shard(0), weft_shard(0) };
    weft_tensor *numbers = weft_arange(WEFT_F32, 0, (double)(rows * ADDENDS), 1, mesh, NULL);
    weft_tensor *a = weft_remainder(weft_reshape(numbers, 2, (int64_t[]){ rows, ADDENDS }), weft_full(WEFT_F32, 7, 0, NULL, mesh, NULL));
    weft_tensor *b = weft_full(WEFT_F32, 4, 2, (int64_t[]){ ADDENDS, columns }, mesh, NULL);
    return partial ? weft_matmul(weft_redistribute(a, mesh, p), weft_redistribute(b, mesh, q)) : weft_matmul(a, b);
}

static weft_tensor *halves_of(weft_tensor *sum)
{
    return weft_div(sum, weft_full(WEFT_F32, 4, 0, NULL, weft_tensor_mesh(sum), NULL));
}

static weft_tensor *wider_of(weft_tensor *sum)
{
    return weft_to_type(sum, WEFT_F64);
}

static weft_tensor *with_bias(weft_tensor *sum)
{
    return weft_add(weft_arange(WEFT_F32, 0, COLUMNS, 1, weft_tensor_mesh(sum), NULL), sum);
}

static weft_tensor *without_bias(weft_tensor *sum)
{
    return weft_add_scaled(weft_sub(sum, weft_arange(WEFT_F32, 0, COLUMNS, 1, weft_tensor_mesh(sum), NULL)),
                           weft_full(WEFT_F32, 3, 0, NULL, weft_tensor_mesh(sum), NULL), 2);
}

static weft_tensor *with_others(weft_tensor *sum)
{
    weft_tensor *rows = weft_arange(WEFT_I64, 1, 4, 1, weft_tensor_mesh(sum), NULL);
    weft_tensor *values = weft_full(WEFT_F32, 9, 2, (int64_t[]){ 3, COLUMNS }, weft_tensor_mesh(sum), NULL);
    return weft_index_put(sum, 1, &rows, values, false);
}

static void sums_stay_and_move_nothing(void **state)
{
    (void)state;
    static weft_tensor *(*const functions[])(weft_tensor *) = { halves_of, wider_of, with_bias, without_bias, with_others };
    WORLD(RANKS);
    for (size_t f = 0; f < 2 * sizeof(functions) / sizeof(functions[0]); f++) {
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(1 + (int)(f % 2), f % 2 == 0 ? (int64_t[]){ RANKS } : (int64_t[]){ 2, 2 }, NULL);
        weft_tensor *sum = sum_on(mesh, true, ROWS, COLUMNS), *whole = sum_on(mesh, false, ROWS, COLUMNS);
        int64_t before = elements_moved();
        weft_tensor *found = functions[f / 2](sum), *expected = functions[f / 2](whole);
        /* The positions of the rows that are replaced, WEFT_I64, are found in parts. */
        assert_int_equal(elements_moved() - before, functions[f / 2] == with_others ? (RANKS - 1) * ROWS : 0);
        for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
            assert_int_equal(weft_tensor_placements(found)[m].kind, WEFT_PARTIAL);
        }
        double one[ROWS * COLUMNS], other[ROWS * COLUMNS];
        assert_int_equal(weft_to_host(weft_to_type(found, WEFT_F64), one, sizeof(one)), WEFT_OK);
        assert_int_equal(weft_to_host(weft_to_type(expected, WEFT_F64), other, sizeof(other)), WEFT_OK);
        assert_memory_equal(one, other, sizeof(one));
        weft_scope_end();
    }
}

/* A recorded call reduces a tensor once that is two of its inputs; a recorded redistribution reports nothing. */
static void an_input_is_reduced_once(void **state)
{
    (void)state;
    WORLD(RANKS);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *x = leaf("S1", 2, (int64_t[]){ N, K }, mesh), *w = leaf("S0", 2, (int64_t[]){ K, M }, mesh);
    weft_tensor *sum = weft_matmul(x, w);
    int64_t before = elements_moved();
    assert_non_null(weft_mul(sum, sum));
    assert_int_equal(elements_moved() - before, 3 * N * M); /* scattered */
    assert_non_null(weft_redistribute(sum, NULL, (weft_placement[]){ weft_replicate() }));
    assert_string_equal(weft_last_error(), "");
    weft_scope_end();
}

/* Without a scope the reduced tensor is released by a call, also where the second one fails. */
static void reduced_inputs_are_released(void **state)
{
    (void)state;
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *x = leaf("S1", 2, (int64_t[]){ N, K }, mesh), *w = leaf("S0", 2, (int64_t[]){ K, M }, mesh);
    weft_tensor *one = weft_matmul(x, w), *two = weft_scale(one, 2);
    weft_tensor *all[] = { x, w, one, two, weft_atan2(one, two), weft_atan2(two, one) };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(weft_tensor_release(all[i]), WEFT_OK);
    }
}

/* Of two sums along both mesh dimensions, the smaller one is reduced. */
static void a_product_of_sums_reduces_the_smaller_one(void **state)
{
    (void)state;
    enum { INNER = 320 };
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    weft_tensor *a = sum_on(mesh, true, 512, INNER), *b = sum_on(mesh, true, INNER, 192);
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *product = weft_matmul(a, b);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.bytes_moved - before.bytes_moved, 2 * (RANKS - 1) * INNER * 192 * sizeof(float));
    assert_int_equal(weft_tensor_placements(product)[0].kind, WEFT_PARTIAL);
    assert_int_equal(weft_tensor_placements(product)[1].kind, WEFT_PARTIAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(passes_move_what_they_must, world_stop),
                                        cmocka_unit_test_teardown(sums_stay_and_move_nothing, world_stop),
                                        cmocka_unit_test_teardown(an_input_is_reduced_once, world_stop),
                                        cmocka_unit_test_teardown(reduced_inputs_are_released, world_stop),
                                        cmocka_unit_test_teardown(a_product_of_sums_reduces_the_smaller_one, world_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
