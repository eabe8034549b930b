/* The dispatcher: cache; scopes; results that are views or exist already; unneeded transfers; the fake
 * world; reproducible bits. */
#include "dispatch_support.h"

#include <string.h>

#include "tensor/state.h"

/* ---- the cache, scopes, views -------------------------------------------------------------------------- */

static void test_cache(void **state)
{
    (void)state;
    weft_scope_begin();
    int64_t shape[] = { 11, 13 }, other[] = { 13, 11 };
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, line(), &rows),
                *b = weft_ones(WEFT_F32, 2, shape, line(), &columns);
    weft_counters before = counters();
    weft_add(a, b);
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + 1);
    for (int i = 0; i < 10; i++) {
        weft_add(a, b);
    }
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + 1);
    assert_int_equal(counters().dispatch_hits, before.dispatch_hits + 10);
    /* Another operation, other layouts, other attributes: each is a miss of its own. A scalar is not. */
    weft_sub(a, b);
    weft_add(b, a);
    weft_sum(a, 1, false);
    weft_sum(a, 1, true);
    weft_reshape(a, 2, other);
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + 6);
    weft_scale(a, 2);
    weft_scale(a, 3);
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + 7);
    assert_int_equal(counters().dispatch_hits, before.dispatch_hits + 11);
    assert_no_error();
    weft_scope_end();
}

static size_t live(void)
{
    return weft_runtime.handles.tensors.num_objects;
}

/* Redistributed inputs are released with the operation; its result belongs to the caller's scope. */
static void test_scopes(void **state)
{
    (void)state;
    int64_t shape[] = { 8, 8 };
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    size_t before = live();
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, line(), &rows),
                *b = weft_ones(WEFT_F32, 2, shape, line(), &columns);
    weft_tensor *c = weft_add(a, b);
    assert_int_equal(live(), before + 3);
    weft_sum(a, 0, false);
    assert_int_equal(live(), before + 4);
    weft_scope_begin();
    weft_matmul(a, b);
    weft_add_inplace(a, b, 1);
    assert_int_equal(live(), before + 5);
    weft_scope_end();
    assert_int_equal(live(), before + 4);
    weft_tensor_retain(c);
    weft_scope_end();
    assert_int_equal(live(), before + 1);
    weft_tensor_release(c);
    assert_int_equal(live(), before);
    /* Outside of scopes the result is the caller's. */
    a = weft_ones(WEFT_F32, 2, shape, line(), &rows);
    b = weft_ones(WEFT_F32, 2, shape, line(), &columns);
    c = weft_add(a, b);
    weft_tensor_release(c);
    weft_tensor_release(a);
    weft_tensor_release(b);
    assert_int_equal(live(), before);
    assert_no_error();
}

/* Reshaping shares memory: no tasks. Writing does not show through. */
static void test_reshape_is_a_view(void **state)
{
    (void)state;
    weft_scope_begin();
    int64_t shape[] = { 8, 6 }, split[] = { 8, 2, 3 }, joined[] = { 48 };
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, line(), &rows);
    expect_no_more_tasks();
    weft_tensor *b = weft_reshape(a, 3, split), *c = weft_reshape(a, 1, joined);
    assert_int_equal(tasks(), tasks_before);
    assert_int_equal(weft_tensor_placements(b)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_placements(c)[0].kind, WEFT_SHARD); /* 48 / 4 ranks: the same parts */
    weft_add_inplace(b, b, 4);
    float values[48];
    assert_int_equal(weft_to_host(c, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 1 && values[47] == 1);
    assert_int_equal(weft_to_host(b, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 5 && values[47] == 5);
    weft_scope_end();
}

/* weft_copy_inplace(out, f(...)) is f with an existing result: it keeps its layout, and copies nothing
 * that is placed right. Later writes to one of the two do not show in the other. */
static void test_out(void **state)
{
    (void)state;
    weft_scope_begin();
    int64_t shape[] = { 8, 6 };
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_tensor *a = weft_full(WEFT_F32, 3, 2, shape, line(), &rows),
                *out = weft_zeros(WEFT_F32, 2, shape, line(), &rows),
                *across = weft_zeros(WEFT_F32, 2, shape, line(), &columns);
    weft_tensor *same_memory = weft_reshape(out, 2, shape), *sum = weft_add(a, a);
    expect_no_more_tasks();
    assert_ptr_equal(weft_copy_inplace(out, sum), out);
    assert_int_equal(tasks(), tasks_before);
    expect_all(out, 6);
    expect_all(same_memory, 0);
    weft_add_inplace(out, a, 1);
    expect_all(sum, 6);
    weft_copy_inplace(out, sum);
    weft_fill_inplace(sum, 7);
    expect_all(out, 6);
    weft_copy_inplace(out, out);
    expect_all(out, 6);
    weft_copy_inplace(across, sum);
    expect_all(across, 7);
    assert_int_equal(weft_tensor_placements(across)[0].dim, 1);
    /* Small tensors are copied: they must not keep a large buffer alive. */
    int64_t large[] = { 80, 6 };
    weft_tensor *whole = weft_full(WEFT_F32, 8, 2, large, line(), NULL),
                *part = weft_zeros(WEFT_F32, 2, shape, line(), NULL);
    expect_no_more_tasks();
    weft_copy_inplace(part, weft_slice(whole, 0, 0, 8, 1));
    assert_true(tasks() > tasks_before);
    expect_all(part, 8);
    weft_copy_inplace(across, weft_to_type(sum, WEFT_BF16));
    expect_all(across, 7);
    weft_scope_end();
}

/* The program's own memory gets the values; a shard that it holds stays where it is. */
static void test_out_in_place(void **state)
{
    (void)state;
    static float memory[4][12];
    void *locals[] = { memory[0], memory[1], memory[2], memory[3] };
    weft_scope_begin();
    int64_t shape[] = { 8, 6 };
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_full(WEFT_F32, 3, 2, shape, line(), &rows),
                *lent = weft_from_local(WEFT_F32, 2, shape, locals, line(), &rows, 0);
    weft_copy_inplace(lent, a);
    expect_all(lent, 3);
    for (int rank = 0; rank < 4; rank++) {
        assert_true(memory[rank][0] == 3 && memory[rank][11] == 3);
    }
    weft_copy_inplace(a, weft_scale(lent, 2));
    weft_copy_inplace(a, lent);
    weft_fill_inplace(lent, 5);
    expect_all(a, 3);
    const float *held = weft_local_acquire(a, 0, WEFT_READ);
    weft_copy_inplace(a, weft_scale(a, 3));
    assert_true(held[0] == 3);
    assert_int_equal(weft_local_release(a, 0), WEFT_OK);
    expect_all(a, 9);
    weft_scope_end();
}

/* ---- choices that must cost nothing -------------------------------------------------------------------- */

static void test_no_transfers(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        row_place place;
        const char *placements[3];
    } forms[] = {
        { THIS_ROW, { "S0,R", "R,R", "S0,R" } },
        { THIS_ROW, { "R,R", "R,S1", "R,S1" } },
        { THIS_ROW, { "R,S1", "R,S0", "R,P" } },
        { THIS_ROW, { "S0,R", "R,S1", "S0,S1" } },
        { THIS_ROW, { "S0,S1", "R,S0", "S0,P" } },
        { THIS_ROW, { "S1,S1", "S0,S0", "P,P" } },
    };
    /* clang-format on */
    weft_scope_begin();
    int64_t a_shape[] = { 12, 24 }, b_shape[] = { 24, 18 };
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        enter_row(forms[f].place, __func__);
        weft_placement placements[3][2];
        for (int i = 0; i < 3; i++) {
            assert_int_equal(weft_placements_parse(forms[f].placements[i], 2, placements[i]), WEFT_OK);
        }
        weft_tensor *a = weft_ones(WEFT_F32, 2, a_shape, grid(), placements[0]);
        weft_tensor *b = weft_ones(WEFT_F32, 2, b_shape, grid(), placements[1]);
        weft_counters before = counters();
        weft_tensor *c = weft_matmul(a, b);
        assert_no_error();
        assert_int_equal(counters().transfers, before.transfers);
        for (int m = 0; m < 2; m++) {
            assert_int_equal(weft_tensor_placements(c)[m].kind, placements[2][m].kind);
            assert_int_equal(weft_tensor_placements(c)[m].dim, placements[2][m].dim);
        }
    }
    leave_rows();
    weft_scope_end();
}

/* ---- bit for bit --------------------------------------------------------------------------------------- */

/* Real values, so that another order of additions would show. */
static void test_repeats(void **state)
{
    (void)state;
    int64_t a_shape[] = { 61, 83 }, b_shape[] = { 83, 47 };
    weft_placement k_a[2], k_b[2];
    weft_placements_parse("S1,S0", 2, k_a);
    weft_placements_parse("S0,S1", 2, k_b);
    weft_scope_begin();
    weft_tensor *a = weft_randn(WEFT_F32, 2, a_shape, grid(), k_a),
                *b = weft_randn(WEFT_F32, 2, b_shape, grid(), k_b);
    float first[61 * 47], again[61 * 47], sum[2];
    for (int i = 0; i < 20; i++) {
        weft_tensor *product = weft_matmul(a, b);
        assert_int_equal(weft_to_host(product, i == 0 ? first : again, sizeof(first)), WEFT_OK);
        assert_int_equal(
            weft_to_host(weft_sum(product, WEFT_ALL_DIMS, false), &sum[i > 0], sizeof(sum[i > 0])), WEFT_OK);
        assert_true(i == 0 || (memcmp(first, again, sizeof(first)) == 0 &&
                               memcmp(&sum[0], &sum[1], sizeof(float)) == 0));
    }
    weft_scope_end();
}

/* ---- the fake world ------------------------------------------------------------------------------------ */

static void test_fake_world(void **state)
{
    (void)state;
    FAKE_WORLD(65536);
    int64_t mesh_shape[] = { 4096, 16 }, x_shape[] = { 1 << 20, 8192 }, w_shape[] = { 8192, 32768 },
            v_shape[] = { 32768, 8192 };
    weft_mesh *mesh = weft_mesh_create(2, mesh_shape, NULL);
    weft_placement data[2], column[2], row[2];
    weft_placements_parse("S0,R", 2, data);
    weft_placements_parse("R,S1", 2, column);
    weft_placements_parse("R,S0", 2, row);
    weft_tensor *x = weft_empty(WEFT_F32, 2, x_shape, mesh, data),
                *w = weft_empty(WEFT_F32, 2, w_shape, mesh, column);
    weft_tensor *v = weft_empty(WEFT_F32, 2, v_shape, mesh, row);
    weft_tensor *y = weft_matmul(weft_gelu(weft_matmul(x, w)), v);
    assert_no_error();
    assert_int_equal(weft_tensor_placements(y)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_placements(y)[1].kind, WEFT_PARTIAL);
    weft_tensor *z = weft_add(y, x);
    assert_no_error();
    assert_int_not_equal(weft_tensor_placements(z)[1].kind, WEFT_PARTIAL);
    assert_non_null(weft_sum(z, 0, false));
    assert_non_null(weft_add_inplace(x, z, 1));
    int64_t shape[] = { -1, 1024, 8192 };
    assert_non_null(weft_reshape(x, 3, shape));
    assert_null(weft_matmul(x, x));
    assert_error(WEFT_ERR_SHAPE, "weft_matmul");
    assert_int_equal(counters().tasks, 0);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A call for each of more attributes than the budget allows: forgotten layouts are chosen again, the same. */
static void test_cache_is_bounded(void **state)
{
    (void)state;
    enum { SLICES = 40000 };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_FAKE;
    config.fake_size = 4;
    config.cache_bytes = 8 << 20;
    assert_int_equal(weft_init(&config), WEFT_OK);
    int64_t shape[] = { 8, 2 * SLICES };
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_empty(WEFT_F32, 2, shape, line(), &rows);
    weft_tensor *first = weft_add(a, a), *again;
    weft_counters before = counters();
    for (int i = 0; i < SLICES; i++) {
        weft_scope_begin();
        assert_non_null(weft_slice(a, 1, i, i + SLICES, 1));
        weft_scope_end();
    }
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + SLICES);
    again = weft_add(a, a);
    assert_int_equal(counters().dispatch_misses, before.dispatch_misses + SLICES + 1);
    again = weft_add(a, a);
    assert_int_equal(counters().dispatch_hits, before.dispatch_hits + 1);
    assert_true(weft_tensor_placements(first)[0].dim == weft_tensor_placements(again)[0].dim);
    assert_int_equal(weft_tensor_placements(again)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cache, start, stop),
        cmocka_unit_test_setup_teardown(test_scopes, start, stop),
        cmocka_unit_test_setup_teardown(test_reshape_is_a_view, start, stop),
        cmocka_unit_test_setup_teardown(test_out, start, stop),
        cmocka_unit_test_setup_teardown(test_out_in_place, start, stop),
        cmocka_unit_test_setup_teardown(test_no_transfers, start, stop),
        cmocka_unit_test_setup_teardown(test_repeats, start, stop),
        cmocka_unit_test(test_fake_world),
        cmocka_unit_test(test_cache_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
