/* Leaves as they are made (row A4): WEFT_WITH_GRAD beside the type, for all functions that make tensors of nothing or of the
 * program's memory. */
#include <string.h>

#include "graph_support.h"
#include "runtime/runtime.h"

enum { ROWS = 5, COLUMNS = 3, COUNT = ROWS * COLUMNS, MOST_RANKS = 4 };

static const int64_t shape[] = { ROWS, COLUMNS };
static const weft_placement rows = { .kind = WEFT_SHARD }, whole = { .kind = WEFT_REPLICATE };

static weft_dtype with_gradient(weft_dtype type)
{
    return (weft_dtype)((unsigned)type | WEFT_WITH_GRAD);
}

/* ---- every function -------------------------------------------------------------------------------------- */

/* Memory of the hosted ranks; values of any type are zeros. */
static double memory[MOST_RANKS][COUNT];

static void fill_locals(void *locals[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = memory[i];
    }
}

#define MAKER(name, call)                                                                                    \
    static weft_tensor *name(weft_dtype type)                                                                \
    {                                                                                                        \
        return call;                                                                                         \
    }

MAKER(empty, weft_empty(type, 2, shape, NULL, &rows))
MAKER(zeros, weft_zeros(type, 2, shape, NULL, &rows))
MAKER(ones, weft_ones(type, 2, shape, NULL, &rows))
MAKER(full, weft_full(type, 2, 2, shape, NULL, &rows))
MAKER(arange, weft_arange(type, 0, 5, 1, NULL, &rows))
MAKER(linspace, weft_linspace(type, 0, 5, 7, NULL, &rows))
MAKER(eye, weft_eye(type, ROWS, COLUMNS, NULL, &rows))
MAKER(uniform, weft_rand(type, 2, shape, NULL, &rows))
MAKER(normal, weft_randn(type, 2, shape, NULL, &rows))
MAKER(bernoulli, weft_bernoulli_scalar(type, 0.5, 2, shape, NULL, &rows))
MAKER(fake, weft_fake(type, 2, shape, NULL, &rows))
MAKER(distribute, weft_distribute(type, 2, shape, memory[0], NULL, &rows))

static weft_tensor *from_local(weft_dtype type)
{
    void *locals[MOST_RANKS];
    fill_locals(locals);
    return weft_from_local(type, 2, shape, locals, NULL, &rows, 0);
}

static weft_tensor *from_local_checked(weft_dtype type)
{
    void *locals[MOST_RANKS];
    fill_locals(locals);
    return weft_from_local(type, 2, shape, locals, NULL, &rows, WEFT_CHECK_RANKS | WEFT_COPY);
}

static weft_tensor *from_local_even(weft_dtype type)
{
    void *locals[MOST_RANKS];
    fill_locals(locals);
    return weft_from_local_even(type, 2, (int64_t[]){ 2, 2 }, locals, NULL, &rows, 0);
}

static weft_tensor *from_local_ex(weft_dtype type)
{
    void *locals[MOST_RANKS];
    int64_t sizes[2 * MOST_RANKS];
    fill_locals(locals);
    for (int i = 0; i < 2 * MOST_RANKS; i++) {
        sizes[i] = 2;
    }
    return weft_from_local_ex(type, 2, locals, NULL, &rows, &(weft_from_local_options){ .local_shapes = sizes });
}

static weft_tensor *from_boxes(weft_dtype type)
{
    const weft_subarray all = { .box.extent = { ROWS, COLUMNS }, .data = memory[0] };
    int has = weft_first_rank() == 0;
    return weft_from_boxes(type, 2, shape, has, &all, NULL, &rows);
}

typedef struct maker {
    const char *name;
    weft_tensor *(*make)(weft_dtype type);
    bool floating; /* takes no other types anyway */
} maker;

static const maker makers[] = {
    { "weft_empty", empty, false },
    { "weft_zeros", zeros, false },
    { "weft_ones", ones, false },
    { "weft_full", full, false },
    { "weft_arange", arange, false },
    { "weft_linspace", linspace, true },
    { "weft_eye", eye, false },
    { "weft_rand", uniform, true },
    { "weft_randn", normal, true },
    { "weft_bernoulli_scalar", bernoulli, false },
    { "weft_fake", fake, false },
    { "weft_distribute", distribute, false },
    { "weft_from_local", from_local, false },
    { "weft_from_local", from_local_checked, false },
    { "weft_from_local_even", from_local_even, false },
    { "weft_from_local_ex", from_local_ex, false },
    { "weft_from_boxes", from_boxes, false },
};

/* The same tensor as without, as a leaf; also where nothing is recorded. */
static void check_leaves(const maker *m, weft_dtype type)
{
    weft_random_state before;
    weft_scope_begin();
    weft_random_state_get(NULL, &before);
    weft_tensor *constant = m->make(type);
    weft_random_state_set(NULL, before);
    weft_tensor *leaf = m->make(with_gradient(type));
    assert_non_null(leaf);
    assert_false(weft_requires_grad(constant));
    assert_true(weft_is_leaf(leaf));
    assert_int_equal(weft_tensor_dtype(leaf), type);
    assert_memory_equal(weft_tensor_placements(leaf), weft_tensor_placements(constant), sizeof(weft_placement));
    assert_memory_equal(weft_tensor_shape(leaf), weft_tensor_shape(constant),
                        (size_t)weft_tensor_ndim(constant) * sizeof(int64_t));
    if (m->make != empty && m->make != fake) {
        bool equal = false;
        assert_int_equal(weft_equal(leaf, constant, &equal), WEFT_OK);
        assert_true(equal);
    }
    assert_null(weft_grad(leaf));
    assert_int_equal(weft_backward(weft_sum(weft_scale(leaf, 3), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_non_null(weft_grad(leaf));
    if (m->make != fake && type == WEFT_F64) {
        assert_all(weft_grad(leaf), 3);
    }
    weft_no_grad_begin();
    assert_true(weft_is_leaf(m->make(with_gradient(type))));
    weft_no_grad_end();
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
}

static void test_leaves(void **state)
{
    (void)state;
    const weft_dtype floating[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16 };
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        for (int t = 0; t < 4; t++) {
            check_leaves(&makers[i], floating[t]);
        }
    }
}

/* Refused before anything is made or drawn. */
static void test_other_types(void **state)
{
    (void)state;
    const weft_dtype others[] = { WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL };
    weft_scope_begin();
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        for (int t = 0; t < 4; t++) {
            char words[100];
            weft_random_state before, after;
            weft_random_state_get(NULL, &before);
            size_t live = weft_runtime.handles.tensors.num_objects;
            snprintf(words, sizeof(words), "%s: dtype is %s with WEFT_WITH_GRAD, expected a floating or complex type", makers[i].name,
                     weft_dtype_name(others[t]));
            assert_null(makers[i].make(with_gradient(others[t])));
            assert_error(WEFT_ERR_DTYPE, words);
            assert_int_equal(weft_runtime.handles.tensors.num_objects, live);
            weft_random_state_get(NULL, &after);
            assert_true(before.offset == after.offset);
        }
        assert_null(makers[i].make(with_gradient((weft_dtype)WEFT_DTYPE_COUNT)));
        assert_error(WEFT_ERR_DTYPE, "which is no weft_dtype");
    }
    assert_null(weft_randint(with_gradient(WEFT_I64), 0, 2, 2, shape, NULL, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_randint: dtype is i64 with WEFT_WITH_GRAD");
    assert_null(weft_randint(with_gradient(WEFT_F32), 0, 2, 2, shape, NULL, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_randint: dtype is f32, expected integers");

    /* Where nothing is made of nothing, it is no type. */
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, NULL, NULL);
    assert_null(weft_to_type(a, with_gradient(WEFT_F64)));
    assert_error(WEFT_ERR_DTYPE, "which is no element type");
    weft_tensor_shard shards[MOST_RANKS];
    weft_tensor_layout layout;
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    layout.dtype = with_gradient(WEFT_F32);
    assert_null(weft_tensor_unflatten(shards, &layout, sizeof(layout)));
    assert_error(WEFT_ERR_DTYPE, "which is no weft_dtype");
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_tensor_release(shards[i].tensor);
    }
    weft_scope_end();
    assert_no_error();
}

/* ---- the program's memory ---------------------------------------------------------------------------------- */

/* Each rank gets the gradient of its own memory: of its rows, of the replicas' value, of its addend. loss = sum w x, with w the
 * number of the element. */
static void check_memory(int64_t num_rows, weft_placement placement, const weft_placement *wanted)
{
    int64_t sizes[] = { num_rows, COLUMNS };
    double values[COUNT], own[MOST_RANKS][COUNT];
    void *locals[MOST_RANKS];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i + 1;
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        memset(own[i], 0, sizeof(own[i]));
        locals[i] = own[i];
    }
    weft_scope_begin();
    weft_tensor *w = weft_distribute(WEFT_F64, 2, sizes, values, NULL, &whole);
    weft_tensor *x = weft_from_local(with_gradient(WEFT_F64), 2, sizes, locals, NULL, &placement, 0);
    if (wanted != NULL) {
        assert_int_equal(weft_set_grad_placements(x, wanted), WEFT_OK);
    }
    assert_int_equal(weft_backward(weft_sum(weft_mul(x, w), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    weft_tensor *gradient = weft_grad(x);
    weft_placement expected = wanted != NULL ? *wanted : placement.kind == WEFT_PARTIAL ? whole : placement;
    assert_int_equal(weft_tensor_placements(gradient)[0].kind, expected.kind);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[2], extent[2];
        double part[COUNT];
        assert_int_equal(weft_local_box(gradient, i, offset, extent), WEFT_OK);
        assert_int_equal(weft_local_to_host(gradient, i, part, sizeof(part)), WEFT_OK);
        for (int64_t k = 0; k < extent[0] * extent[1]; k++) {
            int64_t row = offset[0] + k / extent[1], column = offset[1] + k % extent[1];
            assert_true(part[k] == (double)(row * COLUMNS + column + 1));
        }
    }
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
}

static void test_memory(void **state)
{
    (void)state;
    const weft_placement placements[] = { rows, weft_shard(1), whole, weft_partial(WEFT_SUM), weft_partial(WEFT_AVG) };
    for (int p = 0; p < 5; p++) {
        for (int64_t n = 1; n <= ROWS; n += 4) {
            check_memory(n, placements[p], NULL);
            check_memory(n, placements[p], &rows);
            check_memory(n, placements[p], &whole);
        }
    }
}

/* Processes that differ are told so, where they compare. */
static void test_disagreement(void **state)
{
    (void)state;
    if (weft_num_processes() > 1) {
        assert_null(from_local_checked(weft_first_rank() == 0 ? with_gradient(WEFT_F64) : WEFT_F64));
        assert_error(WEFT_ERR_MISMATCH, "weft_from_local");
        weft_clear_error();
    }
    assert_no_error();
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

static weft_status make_within(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    weft_tensor *w = weft_full(WEFT_F64 | WEFT_WITH_GRAD, 3, 2, shape, NULL, &rows);
    weft_tensor *loss = weft_sum(weft_mul(weft_square(w), inputs[0]), WEFT_ALL_DIMS, false);
    return loss == NULL ? weft_last_status() : weft_gradients(1, &loss, NULL, 1, &w, false, outputs);
}

static void test_graphs(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("leaf", make_within, NULL, 1, 0, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int i = 1; i < 6; i++) {
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F64, i, 2, shape, NULL, &rows), *gradient;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &gradient), WEFT_OK);
        assert_all(gradient, 6 * i);
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).captures, 1);
    assert_true(info_of(graph).frozen);
    weft_graph_destroy(graph);
    assert_no_error();
}

static void test_mesh(void **state)
{
    (void)state;
    assert_int_equal(weft_mesh_push(line()), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mesh),   cmocka_unit_test(test_leaves), cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_disagreement), cmocka_unit_test(test_graphs),
    };
    return RUN_ON_RANKS(tests);
}
