/* weft_from_ghosted(): random programs of stencils, in-place operations and exchanges on ghosted arrays, against dense arrays;
 * errors. */
#include "ghosted_scene.h"

#include <stdlib.h>
#include <string.h>

static int num_programs;

/* ---- random programs ----------------------------------------------------------------------------------- */

/* The program reads its arrays, and may write to them. */
static void use_arrays(prng *random, field *f, int which)
{
    bool filled = prng_below(random, 2);
    if (filled) {
        assert_int_equal(weft_halo_exchange(f->tensors[which]), WEFT_OK);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    field_check(f, which, false);
    field_check(f, which, filled);
    if (prng_below(random, 2)) {
        for (int64_t e = 0, count = shape_count(f->ndim, f->shape); e < count; e++) {
            f->dense[which][e] = f->dense[which][e] % 1000 + e;
        }
        field_store(f, which);
        assert_int_equal(weft_halo_exchange(f->tensors[which]), WEFT_OK);
    }
}

static void run_program(prng *random, const weft_operation *const stencils[])
{
    field f;
    weft_scope_begin();
    field_random(random, &f);
    for (int i = 0, steps = 1 + (int)prng_below(random, 8); i < steps; i++) {
        if (prng_below(random, 5) == 0) {
            use_arrays(random, &f, (int)prng_below(random, 2));
            continue;
        }
        const step s = step_random(random, &f, NUM_STEPS);
        step_make(&f, stencils[f.ndim - 1], &s);
        step_compute(&f, &s);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    field_check(&f, 0, false);
    field_check(&f, 1, false);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    field_free(&f);
}

static void random_programs(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    prng random = prng_start(20261130);
    for (int world = 0; world < 6; world++) {
        start_with_panels(1 + (int)prng_below(&random, MAX_RANKS), heights[world % 3]);
        const weft_operation *stencils[MAX_DIMS];
        for (int d = 0; d < MAX_DIMS; d++) {
            stencils[d] = register_stencil(d + 1);
        }
        for (int i = 0; i < num_programs / 6 + 1; i++) {
            run_program(&random, stencils);
        }
        world_stop(NULL);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- one field ----------------------------------------------------------------------------------------- */

/* A field of 12 x 10 on all ranks of the world, by rows. */
static void make_rows(field *f, weft_ghosts ghosts)
{
    *f = (field){ .ndim = 2, .shape = { 12, 10 }, .ghosts = ghosts, .num_local = weft_local_ranks() };
    f->mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    f->placements[0] = weft_shard_balanced(0);
    for (int which = 0; which < 2; which++) {
        f->dense[which] = calloc(120, sizeof(int64_t));
        for (int64_t e = 0; e < 120; e++) {
            f->dense[which][e] = 7 * e + which;
        }
    }
    for (int i = 0; i < f->num_local; i++) {
        weft_shard_box(f->mesh, f->placements, 2, f->shape, weft_first_rank() + i, f->own[i].offset, f->own[i].extent);
        for (int d = 0; d < 2; d++) {
            f->padded[i][d] = f->own[i].extent[d] + ghosts.before[d] + ghosts.after[d];
        }
        for (int which = 0; which < 2; which++) {
            f->arrays[which][i] = calloc((size_t)field_count_in_array(f, i), sizeof(int64_t));
        }
    }
    for (int which = 0; which < 2; which++) {
        field_store(f, which);
        f->tensors[which] =
            weft_from_ghosted(WEFT_I64, 2, f->shape, (void *const *)f->arrays[which], &f->ghosts, f->mesh, f->placements);
        assert_no_error();
    }
}

static void only_margins_move(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 2, 3 }, .after = { 1, 3 }, .periodic = { true, false } });
    const weft_operation *stencil = register_stencil(2);
    weft_counters before, after;
    weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1, .numbers = { 1, 1, 2, 0 } };
    weft_tensor *tensors[] = { f.tensors[0], f.tensors[1], f.tensors[1] };
    weft_get_counters(&before, sizeof(before));
    weft_apply(stencil, 3, tensors, &options);
    weft_get_counters(&after, sizeof(after));
    int world = weft_world_size(), hosted = weft_local_ranks();
    uint64_t rows = world == 1 ? 0 : (uint64_t)hosted * 3; /* of other ranks, without their columns of margin */
    assert_int_equal(after.bytes_moved - before.bytes_moved, rows * 10 * sizeof(int64_t));
    assert_int_equal(after.views_copied, before.views_copied);
    weft_get_counters(&before, sizeof(before));
    weft_apply(stencil, 3, tensors, &options); /* the margins are fresh */
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.bytes_moved, before.bytes_moved);
    assert_int_equal(after.tensor_bytes, before.tensor_bytes); /* nothing has a copy */
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    field_free(&f);
    world_stop(NULL);
}

static void wrong_uses(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 1, 1 }, .after = { 1, 1 } });
    const weft_operation *stencil = register_stencil(2);
    weft_tensor *plain = weft_zeros(WEFT_I64, 2, f.shape, f.mesh, NULL);
    weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1, .numbers = { 2, 0, 0, 0 } };
    assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ f.tensors[0], f.tensors[1], plain }, &options));
    assert_error(WEFT_ERR_SHAPE, "now lies in ghosted arrays: the margins of its arrays are narrower than the halo");
    options.numbers[0] = 1;
    assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ f.tensors[0], f.tensors[0], plain }, &options));
    assert_error(WEFT_ERR_INVALID, "now lies in ghosted arrays: it is given twice");
    if (weft_world_size() > 1) {
        assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ plain, f.tensors[1], plain }, &options));
        assert_error(WEFT_ERR_LAYOUT, "now lies in ghosted arrays, and the other tensors are cut in another way");
    }
    assert_int_equal(weft_halo_exchange(plain), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor does not lie in ghosted arrays");
    assert_int_equal(weft_halo_exchange(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor is NULL");
    assert_null(weft_local_acquire(f.tensors[0], 0, WEFT_READ));
    assert_error(WEFT_ERR_UNSUPPORTED, "the tensor lies in ghosted arrays");
    assert_false(weft_tensor_is_fake(f.tensors[0]));
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], NULL, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "ghosts is NULL");
    assert_null(weft_from_ghosted(WEFT_I64, 0, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, NULL));
    assert_error(WEFT_ERR_SHAPE, "ndim is 0");
    const weft_ghosts less_than_none = { .after = { 0, -2 } };
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], &less_than_none, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "after[1] is -2");
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, NULL, &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "locals is NULL");
    assert_null(weft_from_ghosted(WEFT_I64, 2, NULL, (void *const *)f.arrays[0], &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "shape");
    assert_null(weft_from_ghosted((weft_dtype)WEFT_DTYPE_COUNT, 2, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "dtype");
    weft_placement twice[] = { { .kind = WEFT_SHARD, .cut = WEFT_CUT_ZIGZAG } };
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, twice));
    assert_error(weft_world_size() > 1 ? WEFT_ERR_LAYOUT : WEFT_ERR_INVALID, weft_world_size() > 1 ? "deals rows out" : "");
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    field_free(&f);
    world_stop(NULL);
}

/* One process forgets an array: all get its status, and can go on. */
static void one_process_is_wrong(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 1, 0 } });
    void *arrays[MAX_LOCAL];
    memcpy(arrays, f.arrays[0], sizeof(arrays));
    bool wrong = weft_process_index() == weft_num_processes() - 1;
    if (wrong) {
        arrays[0] = NULL;
    }
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, arrays, &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, wrong ? "locals[0] is NULL" : "gave wrong arguments");
    assert_int_equal(weft_halo_exchange(f.tensors[0]), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    field_check(&f, 0, true);
    weft_scope_end();
    field_free(&f);
    world_stop(NULL);
}

int main(void)
{
    num_programs = cases_to_run(3000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),
        cmocka_unit_test(only_margins_move),
        cmocka_unit_test(wrong_uses),
        cmocka_unit_test(one_process_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
