/* Random redistributions with calls on devices in between, over several processes with a device each, that hold less than the
 * tensors: panels are evicted, and groups wait for memory and for each other. Results have the bits of a plain loop.
 * WEFT_TEST_CASES says how many redistributions. */
#include "comm/comm.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

enum { RANKS = 6, ROWS = 97, COLUMNS = 130, COUNT = ROWS * COLUMNS, TENSORS = 5, MESHES = 6, STEPS_AT_ONCE = 25 };

static const int64_t shape[] = { ROWS, COLUMNS };
static double expected[TENSORS][COUNT], got[COUNT];
static weft_mesh *meshes[MESHES]; /* the tensors lie on the first one */
static weft_tensor *tensors[TENSORS];
static prng rolls;

static weft_tensor *moved(weft_tensor *tensor, weft_mesh *mesh)
{
    weft_placement placements[3];
    random_placements(&rolls, mesh, 2, false, placements);
    return weft_redistribute(tensor, mesh, placements);
}

/* The same values, of two parts that are joined: by messages outside of groups, which later groups wait for. */
static weft_tensor *joined(weft_tensor *tensor)
{
    int64_t rows = 1 + (int64_t)prng_below(&rolls, ROWS - 1);
    weft_tensor *parts[] = { weft_slice(tensor, 0, 0, rows, 1), weft_slice(tensor, 0, rows, ROWS, 1) };
    return weft_cat(2, parts, 0);
}

/* One of the tensors goes to another mesh, comes back in any layout, and is mixed with another one. */
static void step(void)
{
    int i = (int)prng_below(&rolls, TENSORS), k = (int)prng_below(&rolls, TENSORS);
    weft_scope_begin();
    weft_tensor *away = moved(tensors[i], meshes[prng_below(&rolls, MESHES)]);
    weft_tensor *back = moved(away, meshes[0]);
    back = prng_below(&rolls, 3) == 0 ? joined(back) : back;
    weft_tensor *mixed = weft_add(weft_scale(back, 0.5), weft_scale(tensors[k], 0.5));
    assert_non_null(weft_copy_inplace(tensors[i], mixed));
    weft_scope_end();
    for (int e = 0; e < COUNT; e++) {
        expected[i][e] = expected[i][e] * 0.5 + expected[k][e] * 0.5;
    }
}

static void compare(void)
{
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(weft_to_host(tensors[i], got, sizeof(got)), WEFT_OK);
        assert_memory_equal(got, expected[i], sizeof(got));
    }
}

static void start(void)
{
    rolls = prng_start(5);
    WORLD(RANKS);
    meshes[0] = weft_mesh_create(2, (int64_t[]){ 3, 2 }, NULL);
    for (int i = 1; i < MESHES; i++) {
        meshes[i] = random_mesh(&rolls, RANKS);
    }
    for (int i = 0; i < TENSORS; i++) {
        weft_placement placements[3];
        random_placements(&rolls, meshes[0], 2, false, placements);
        for (int e = 0; e < COUNT; e++) {
            expected[i][e] = (double)prng_below(&rolls, 1 << 20);
        }
        tensors[i] = weft_distribute(WEFT_F64, 2, shape, expected[i], meshes[0], placements);
    }
    assert_no_error();
}

/* A copy into a tensor of another layout is a group too: nothing of it passes through main memory. */
static void check_copy_is_grouped(void)
{
    uint64_t before = 0, after = 0;
    const int process = weft_runtime.process, other = process == 0 ? 1 : 0;
    weft_placement rows[] = { { .kind = WEFT_SHARD, .dim = 0 }, { .kind = WEFT_REPLICATE } };
    weft_placement columns[] = { { .kind = WEFT_SHARD, .dim = 1 }, { .kind = WEFT_REPLICATE } };
    weft_scope_begin();
    weft_tensor *from = weft_redistribute(tensors[0], meshes[0], rows);
    weft_tensor *to = weft_zeros(WEFT_F64, 2, shape, meshes[0], columns);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_comm_group_order(weft_runtime.comm, other, &before);
    assert_non_null(weft_copy_inplace(to, from));
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_comm_group_order(weft_runtime.comm, other, &after);
    assert_true(after > before);
    assert_int_equal(weft_to_host(to, got, sizeof(got)), WEFT_OK);
    assert_memory_equal(got, expected[0], sizeof(got));
    weft_scope_end();
}

static void test_random_redistributions(void **state)
{
    (void)state;
    int cases = cases_to_run(120);
    start();
    if (weft_comm_has_groups(weft_runtime.comm)) {
        check_copy_is_grouped();
    }
    for (int done = 0; done < cases; done += 3) { /* copies into a tensor redistribute too */
        step();
        if (done / 3 % STEPS_AT_ONCE == STEPS_AT_ONCE - 1) {
            compare();
        }
    }
    compare();
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
    /* A launch that loads its kernel waits for the device, and so for a group: for a peer that may wait for the launch. */
    assert_int_equal(stand_in_counted_calls().late_loads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_redistributions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
