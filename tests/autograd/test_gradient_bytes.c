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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(passes_move_what_they_must, world_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
