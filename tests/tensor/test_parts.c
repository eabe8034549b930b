/* A tensor is split into shards and a layout, and rebuilt from them, without
 * copies and communication, on every hosted rank; a layout alone can stand for a tensor. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 6, MOST = 5 * 7 };

static weft_mesh *mesh, *grid, *part;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    const int last[] = { RANKS - 1, 1 };
    mesh = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    grid = weft_mesh_create(2, (const int64_t[]){ 2, 3 }, NULL);
    part = weft_mesh_of_ranks(1, (const int64_t[]){ 2 }, last, NULL);
    assert_no_error();
    return 0;
}

static int start_in_rows(void **state)
{
    setenv("WEFT_PANEL_ROWS", "2", 1);
    int status = start(state);
    unsetenv("WEFT_PANEL_ROWS");
    return status;
}

static int stop(void **state)
{
    (void)state;
    weft_clear_error();
    return world_stop(NULL);
}

static weft_tensor *numbered(int ndim, const int64_t shape[], weft_mesh *on,
                             const weft_placement placements[])
{
    double values[MOST];
    for (int i = 0; i < MOST; i++) {
        values[i] = i + 1;
    }
    return weft_distribute(WEFT_F64, ndim, shape, values, on, placements);
}

static void expect(weft_tensor *tensor, double factor)
{
    double values[MOST];
    assert_no_error();
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, "rebuilt");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        assert_true(values[i] == factor * (double)(i + 1));
    }
}

static void let_go(const weft_tensor_shard shards[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_tensor_release(shards[i].tensor), WEFT_OK);
    }
}

/* Apart and together, with the original gone in between: no buffer is made, nothing moves, no task runs. */
static void round_trip(int ndim, const int64_t shape[], weft_mesh *on, const weft_placement placements[])
{
    weft_tensor_shard shards[RANKS];
    weft_tensor_layout layout;
    weft_counters before, after;
    weft_scope_begin();
    weft_tensor *tensor = numbered(ndim, shape, on, placements);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_tensor_flatten(tensor, shards, &layout, sizeof(layout)), WEFT_OK);
    weft_scope_end();
    assert_int_equal(layout.dtype, WEFT_F64);
    assert_int_equal(layout.ndim, ndim);
    assert_ptr_equal(layout.mesh, on);
    assert_memory_equal(layout.shape, shape, (size_t)ndim * sizeof(shape[0]));
    weft_tensor *rebuilt = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    let_go(shards);
    weft_get_counters(&after, sizeof(after));
    assert_non_null(rebuilt);
    assert_int_equal(after.buffers_created + after.buffers_reused,
                     before.buffers_created + before.buffers_reused);
    assert_int_equal(after.tasks, before.tasks);
    assert_int_equal(after.transfers, before.transfers);
    assert_int_equal(after.views_copied, before.views_copied);
    for (int m = 0; m < weft_mesh_ndim(on); m++) {
        assert_memory_equal(&weft_tensor_placements(rebuilt)[m], &layout.placements[m],
                            sizeof(layout.placements[m]));
    }
    expect(rebuilt, 1);
    weft_tensor_release(rebuilt);
}

/* Uneven and empty shards, replicas, two mesh dimensions, ranks outside, no dimensions. */
static void test_round_trips(void **state)
{
    (void)state;
    const int64_t shapes[][2] = { { 5, 7 }, { 7, 5 }, { 2, 3 }, { 0, 4 }, { 1, 1 } };
    const weft_placement s0 = weft_shard(0), s1 = weft_shard(1), r = weft_replicate();
    const weft_placement pairs[][2] = { { s0, s1 }, { s1, s0 }, { s0, s0 }, { r, s1 }, { s0, r }, { r, r } };
    for (int k = 0; k < 5; k++) {
        round_trip(2, shapes[k], mesh, &s0);
        round_trip(2, shapes[k], mesh, &s1);
        round_trip(2, shapes[k], mesh, &r);
        round_trip(2, shapes[k], part, &s0);
        for (int i = 0; i < 6; i++) {
            round_trip(2, shapes[k], grid, pairs[i]);
        }
    }
    round_trip(0, NULL, mesh, &r);
    round_trip(0, NULL, part, &r);
}

/* Each tensor keeps its values where another one of the same shards is written to. */
static void test_values(void **state)
{
    (void)state;
    const weft_placement s0 = weft_shard(0);
    weft_tensor_shard shards[RANKS];
    weft_tensor_layout layout;
    weft_tensor *a = numbered(2, (const int64_t[]){ 5, 7 }, mesh, &s0);
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    weft_tensor *b = weft_tensor_unflatten(shards, &layout, sizeof(layout)), *c = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    weft_scale_inplace(b, 3);
    weft_scale_inplace(a, 2);
    expect(a, 2);
    expect(b, 3);
    expect(c, 1);
    let_go(shards);
    expect(a, 2);
}

/* Replicas used as addends, and the reverse: the layout gives the meaning of shards. */
static void test_other_layout(void **state)
{
    (void)state;
    weft_tensor_shard shards[RANKS];
    weft_tensor_layout layout;
    const weft_placement placements[] = { weft_replicate(), weft_shard(1) };
    weft_tensor *a = numbered(2, (const int64_t[]){ 5, 7 }, grid, placements);
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    layout.placements[0] = weft_partial(WEFT_SUM);
    weft_tensor *sum = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    layout.placements[0] = weft_partial(WEFT_AVG);
    weft_tensor *average = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    expect(sum, 2);
    expect(average, 1);
    let_go(shards);
    /* The layout alone stands for a tensor. */
    weft_tensor *planned = weft_fake(layout.dtype, layout.ndim, layout.shape, layout.mesh, layout.placements);
    assert_true(weft_tensor_is_fake(planned));
    assert_int_equal(weft_tensor_flatten(planned, shards, &layout, sizeof(layout)), WEFT_OK);
    weft_tensor *again = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    assert_true(weft_tensor_is_fake(again));
    assert_int_equal(weft_tensor_placements(again)[0].op, WEFT_AVG);
    let_go(shards);
}

/* Parts of several tensors; and shards in other places, whose rows are cut into other panels: copied. */
static void test_exchanged(void **state)
{
    (void)state;
    const weft_placement s0 = weft_shard(0);
    const int64_t shape[] = { 3 * RANKS, 2 };
    int hosted = weft_local_ranks(), first = weft_first_rank();
    weft_tensor_shard of_a[RANKS], of_b[RANKS], mixed[RANKS];
    weft_tensor_layout layout;
    weft_tensor *a = weft_zeros(WEFT_F64, 2, shape, mesh, &s0),
                *rows = weft_zeros(WEFT_F64, 2, shape, mesh, &s0);
    for (int i = 0; i < hosted; i++) {
        double *x = weft_local_acquire(a, i, WEFT_WRITE), *y;
        y = weft_local_acquire(rows, i, WEFT_WRITE);
        for (int k = 0; k < 6; k++) {
            x[k] = 100 * (first + i) + k;
            y[k] = -1;
        }
        weft_local_release(a, i);
        weft_local_release(rows, i);
    }
    assert_int_equal(weft_tensor_flatten(a, of_a, &layout, sizeof(layout)), WEFT_OK);
    assert_int_equal(weft_tensor_flatten(rows, of_b, &layout, sizeof(layout)), WEFT_OK);
    for (int i = 0; i < hosted; i++) {
        mixed[i] = i % 2 ? of_b[i] : of_a[hosted - 1 - i];
    }
    weft_tensor *c = weft_tensor_unflatten(mixed, &layout, sizeof(layout));
    assert_non_null(c);
    let_go(of_a);
    let_go(of_b);
    for (int i = 0; i < hosted; i++) {
        double values[6];
        assert_int_equal(weft_local_to_host(c, i, values, sizeof(values)), WEFT_OK);
        for (int k = 0; k < 6; k++) {
            assert_true(values[k] == (i % 2 ? -1 : 100 * (first + hosted - 1 - i) + k));
        }
    }
}

/* Memory of the program is copied, and counted. */
static void test_borrowed(void **state)
{
    (void)state;
    double memory[RANKS][4];
    void *locals[RANKS];
    for (int i = 0; i < RANKS; i++) {
        for (int k = 0; k < 4; k++) {
            memory[i][k] = 4 * (weft_first_rank() + i) + k + 1;
        }
        locals[i] = memory[i];
    }
    const weft_placement s0 = weft_shard(0);
    weft_tensor_shard shards[RANKS];
    weft_tensor_layout layout;
    weft_counters before, after;
    weft_scope_begin();
    weft_tensor *a = weft_from_local(WEFT_F64, 1, (const int64_t[]){ 4 * RANKS }, locals, mesh, &s0, 0);
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    weft_tensor *b = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.views_copied - before.views_copied, weft_local_ranks());
    weft_scale_inplace(a, 2);
    expect(b, 1);
    expect(a, 2);
    let_go(shards);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void assert_refused(const weft_tensor *result, weft_status status, const char *words)
{
    assert_null(result);
    assert_error(status, words);
    weft_clear_error();
}

static void test_arguments(void **state)
{
    (void)state;
    const weft_placement s0 = weft_shard(0);
    weft_tensor_shard shards[RANKS], wrong[RANKS];
    weft_tensor_layout layout, other;
    weft_tensor *a = numbered(2, (const int64_t[]){ 6, 4 }, mesh, &s0);
    assert_int_equal(weft_tensor_flatten(NULL, shards, &layout, sizeof(layout)), WEFT_ERR_INVALID);
    assert_int_equal(weft_tensor_flatten(a, NULL, &layout, sizeof(layout)), WEFT_ERR_INVALID);
    assert_int_equal(weft_tensor_flatten(a, shards, NULL, sizeof(weft_tensor_layout)), WEFT_ERR_INVALID);
    weft_clear_error();
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    assert_refused(weft_tensor_unflatten(NULL, &layout, sizeof(layout)), WEFT_ERR_INVALID, "shards is NULL");
    assert_refused(weft_tensor_unflatten(shards, NULL, sizeof(weft_tensor_layout)), WEFT_ERR_INVALID, "layout is NULL");
    other = layout;
    other.dtype = WEFT_F32;
    assert_refused(weft_tensor_unflatten(shards, &other, sizeof(other)), WEFT_ERR_DTYPE, "shards[0] is f64, expected f32");
    other = layout;
    other.shape[1] = 5;
    assert_refused(weft_tensor_unflatten(shards, &other, sizeof(other)), WEFT_ERR_SHAPE,
                   "shards[0] is shard 0 of f64[6, 4] [S0] on 6");
    other = layout;
    other.placements[0] = weft_shard(2);
    assert_refused(weft_tensor_unflatten(shards, &other, sizeof(other)), WEFT_ERR_LAYOUT, "weft_tensor_unflatten");
    memcpy(wrong, shards, sizeof(wrong));
    wrong[0].local_rank = weft_local_ranks();
    assert_refused(weft_tensor_unflatten(wrong, &layout, sizeof(layout)), WEFT_ERR_INVALID, "shards[0].local_rank is ");
    wrong[0] = (weft_tensor_shard){ NULL, 0 };
    assert_refused(weft_tensor_unflatten(wrong, &layout, sizeof(layout)), WEFT_ERR_INVALID, "shards[0].tensor is NULL");
    let_go(shards);
    expect(a, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trips, start, stop),
        cmocka_unit_test_setup_teardown(test_values, start, stop),
        cmocka_unit_test_setup_teardown(test_other_layout, start, stop),
        cmocka_unit_test_setup_teardown(test_exchanged, start, stop),
        cmocka_unit_test_setup_teardown(test_exchanged, start_in_rows, stop),
        cmocka_unit_test_setup_teardown(test_round_trips, start_in_rows, stop),
        cmocka_unit_test_setup_teardown(test_borrowed, start, stop),
        cmocka_unit_test_setup_teardown(test_arguments, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
