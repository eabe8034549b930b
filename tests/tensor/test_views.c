/* New tensors on the same memory. The calls listed in docs/tensors.md make
 * no buffer; views are values; views of the program's own memory are copies, made once and counted. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, ROWS = 8, COLUMNS = 6, COUNT = ROWS * COLUMNS };

static weft_mesh *mesh;
static const int64_t shape[] = { ROWS, COLUMNS };
static const weft_placement by_rows[] = { { WEFT_SHARD, 0, WEFT_SUM } };

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    mesh = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    return 0;
}

static weft_counters counters(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

static uint64_t buffers(void)
{
    weft_counters now = counters();
    return now.buffers_created + now.buffers_reused;
}

static weft_tensor *numbered(const weft_placement *placements)
{
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = i;
    }
    weft_tensor *x = weft_distribute(WEFT_F64, 2, shape, values, mesh, placements);
    assert_no_error();
    return x;
}

static void expect(weft_tensor *tensor, int64_t count, double first, double step)
{
    double values[COUNT];
    assert_no_error();
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, "a view");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == first + step * (double)i);
    }
}

/* ---- the list ------------------------------------------------------------------------------------------ */

enum { REPLICATED = 1, SHARDED = 2, EITHER = 3 };

/* The calls of docs/tensors.md ("Calls that make no buffer"), and in which of the two layouts they make
 * none. */
static const struct {
    const char *name;
    int where;
} rows[] = {
    { "weft_reshape", EITHER },
    { "weft_reshape", EITHER },
    { "weft_flatten", EITHER },
    { "weft_unflatten", EITHER },
    { "weft_unsqueeze", EITHER },
    { "weft_unsqueeze", EITHER },
    { "weft_squeeze", EITHER },
    { "weft_slice", REPLICATED },
    { "weft_select", REPLICATED },
    { "weft_split", REPLICATED },
    { "weft_chunk", REPLICATED },
    { "weft_redistribute", REPLICATED },
    { "weft_redistribute", EITHER },
    { "weft_slice", EITHER },
    { "weft_slice", EITHER },
    { "weft_transpose", EITHER },
    { "weft_permute", EITHER },
    { "weft_movedim", EITHER },
    { "weft_expand", EITHER },
    { "weft_sum_to", EITHER },
    { "weft_to_type", EITHER },
    { "weft_roll", EITHER },
    { "weft_flip", EITHER },
    { "weft_dropout", EITHER },
    { "weft_copy_inplace", EITHER },
    { "weft_tensor_retain", EITHER },
    { "weft_tensor_unflatten", EITHER },
};

/* Apart and together again. */
static void rebuild(weft_tensor *x)
{
    weft_tensor_shard shards[RANKS];
    weft_tensor_layout layout;
    weft_tensor_flatten(x, shards, &layout, sizeof(layout));
    weft_tensor_unflatten(shards, &layout, sizeof(layout));
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_tensor_release(shards[i].tensor);
    }
}

/* Carries out a row. `other`: of the same layout as x. */
static void call(size_t row, weft_tensor *x, weft_tensor *other)
{
    const int64_t cut[] = { ROWS, 2, 3 }, two[] = { 2, 3 }, line[] = { COUNT }, halves[] = { 4, 4 };
    weft_tensor *parts[4];
    switch (row) {
    case 0:
        weft_reshape(x, 3, cut);
        break;
    case 1:
        weft_reshape(x, 1, line);
        break;
    case 2:
        weft_flatten(x, 0, 1);
        break;
    case 3:
        weft_unflatten(x, 1, 2, two);
        break;
    case 4:
        weft_unsqueeze(x, 0);
        break;
    case 5:
        weft_unsqueeze(x, 2);
        break;
    case 6:
        weft_squeeze(x, WEFT_ALL_DIMS);
        break;
    case 7:
        weft_slice(x, 0, 2, 6, 1);
        break;
    case 8:
        weft_select(x, 0, 3);
        break;
    case 9:
        weft_split(x, 2, halves, 0, parts);
        break;
    case 10:
        weft_chunk(x, 4, 0, parts);
        break;
    case 11:
        weft_redistribute(x, mesh, by_rows);
        break;
    case 12:
        weft_redistribute(x, NULL, weft_tensor_placements(x));
        break;
    case 13:
        weft_slice(x, 0, 0, ROWS, 1);
        break;
    case 14:
        weft_slice(x, 1, 0, COLUMNS, 1);
        break;
    case 15:
        weft_transpose(x, 1, 1);
        break;
    case 16:
        weft_permute(x, 2, (int[]){ 0, 1 });
        break;
    case 17:
        weft_movedim(x, 1, (const int[]){ 0 }, (const int[]){ 0 });
        break;
    case 18:
        weft_expand(x, 2, shape);
        break;
    case 19:
        weft_sum_to(x, 2, shape);
        break;
    case 20:
        weft_to_type(x, WEFT_F64);
        break;
    case 21:
        weft_roll(x, 0, 0);
        break;
    case 22:
        weft_flip(x, 0, NULL);
        break;
    case 23:
        weft_dropout(x, 0.5, false, parts);
        break;
    case 24:
        weft_copy_inplace(other, x);
        break;
    case 25:
        weft_tensor_retain(x);
        weft_tensor_release(x);
        break;
    case 26:
        rebuild(x);
        break;
    default:
        fail_msg("no row %zu", row);
    }
}

/* No buffer, no task, no transfer; and the page names the function. */
static void a11_listed_calls_make_no_buffer(void **state)
{
    const char *page = *state;
    const weft_placement *const layouts[] = { NULL, by_rows };
    for (size_t k = 0; k < 2 * sizeof(rows) / sizeof(rows[0]); k++) {
        size_t row = k / 2;
        bool sharded = k % 2 == 1;
        if ((rows[row].where & (sharded ? SHARDED : REPLICATED)) == 0) {
            continue;
        }
        weft_scope_begin();
        weft_tensor *x = numbered(layouts[sharded]), *other = numbered(layouts[sharded]);
        weft_counters before = counters();
        call(row, x, other);
        weft_counters after = counters();
        assert_no_error();
        if (after.buffers_created + after.buffers_reused != before.buffers_created + before.buffers_reused ||
            after.tasks != before.tasks || after.transfers != before.transfers) {
            fail_msg("%s() (row %zu) of a tensor that is %s makes a buffer or a task", rows[row].name, row,
                     sharded ? "sharded" : "replicated");
        }
        if (strstr(page, rows[row].name) == NULL) {
            fail_msg("docs/tensors.md does not list %s()", rows[row].name);
        }
        weft_scope_end();
    }
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* The first writer gets memory of its own: one buffer for each shared part here, and none for the other. */
static void a11_views_are_values(void **state)
{
    (void)state;
    for (int writer = 0; writer < 2; writer++) {
        weft_scope_begin();
        weft_tensor *x = numbered(NULL);
        weft_tensor *view = weft_reshape(weft_slice(x, 0, 2, 6, 1), 1, (const int64_t[]){ 4 * COLUMNS });
        assert_int_equal(weft_wait(), WEFT_OK);
        uint64_t before = buffers();
        assert_non_null(weft_scale_inplace(writer == 0 ? x : view, 10));
        assert_int_equal(buffers() - before, weft_local_ranks());
        expect(x, COUNT, 0, writer == 0 ? 10 : 1);
        expect(view, 4 * COLUMNS, writer == 0 ? 12 : 120, writer == 0 ? 1 : 10);
        weft_scope_end();
    }
    /* And so does the program. */
    weft_scope_begin();
    weft_tensor *x = numbered(by_rows), *same = weft_reshape(x, 1, (const int64_t[]){ COUNT });
    for (int i = 0; i < weft_local_ranks(); i++) {
        double *values = weft_local_acquire(same, i, WEFT_READ_WRITE);
        assert_non_null(values);
        values[0] = -1;
        assert_int_equal(weft_local_release(same, i), WEFT_OK);
    }
    expect(x, COUNT, 0, 1);
    weft_scope_end();
}

/* A view outlives what it was made from, and the memory goes with the last of them. */
static void a11_views_outlive_their_tensor(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_scope_begin();
    weft_tensor *view = weft_slice(numbered(NULL), 0, 4, 8, 1);
    weft_scope_keep(view);
    weft_scope_end();
    expect(view, 4 * COLUMNS, 4 * COLUMNS, 1);
    weft_scope_end();
}

/* ---- the program's memory ------------------------------------------------------------------------------ */

/* A view of it is a copy, which is counted, and which later views share. */
static void a11_borrowed_memory_is_copied_once(void **state)
{
    (void)state;
    double memory[RANKS][COUNT];
    void *locals[RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = memory[i];
        for (int k = 0; k < COUNT; k++) {
            memory[i][k] = k;
        }
    }
    for (int kind = 0; kind < 2; kind++) {
        weft_scope_begin();
        weft_tensor *x = weft_from_local(WEFT_F64, 2, shape, locals, mesh, NULL, 0);
        weft_counters before = counters();
        weft_tensor *view = kind == 0 ? weft_slice(x, 0, 4, 8, 1) : weft_redistribute(x, NULL, by_rows);
        weft_counters after = counters();
        assert_int_equal(after.views_copied - before.views_copied, 1);
        assert_int_equal(after.buffers_created + after.buffers_reused - before.buffers_created - before.buffers_reused,
                         weft_local_ranks());
        uint64_t copied = buffers();
        weft_tensor *flat = weft_flatten(view, 0, 1), *again = weft_unsqueeze(flat, 0);
        assert_int_equal(buffers(), copied);
        assert_int_equal(counters().views_copied, after.views_copied);
        /* Writes to the tensor show in the program's memory, and not in the views. */
        assert_non_null(weft_add_inplace(x, weft_ones(WEFT_F64, 0, NULL, mesh, NULL), 100));
        expect(flat, kind == 0 ? 4 * COLUMNS : COUNT, kind == 0 ? 4 * COLUMNS : 0, 1);
        expect(again, kind == 0 ? 4 * COLUMNS : COUNT, kind == 0 ? 4 * COLUMNS : 0, 1);
        expect(x, COUNT, 100, 1);
        assert_true(memory[0][0] == 100);
        assert_non_null(weft_add_inplace(x, weft_ones(WEFT_F64, 0, NULL, mesh, NULL), -100));
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_scope_end();
    }
    /* A copy of the program's memory is shared as any other tensor's. */
    weft_scope_begin();
    weft_tensor *own = weft_from_local(WEFT_F64, 2, shape, locals, mesh, NULL, WEFT_COPY);
    uint64_t copied = counters().views_copied;
    expect(weft_slice(own, 0, 4, 8, 1), 4 * COLUMNS, 4 * COLUMNS, 1);
    assert_true(counters().views_copied == copied);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Along a mesh dimension of one rank nothing is missing: Partial becomes Replicate or Shard, and Shard any other, on the same memory. */
static void a11_one_rank_shares(void **state)
{
    (void)state;
    static const weft_placement placements[][2] = {
        { { WEFT_PARTIAL, 0, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
        { { WEFT_PARTIAL, 0, WEFT_AVG }, { WEFT_SHARD, 1, WEFT_SUM } },
        { { WEFT_SHARD, 1, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
        { { WEFT_SHARD, 1, WEFT_SUM }, { WEFT_SHARD, 0, WEFT_SUM } },
    };
    static double ones[COUNT];
    void *locals[RANKS];
    weft_mesh *column = weft_mesh_create(2, (const int64_t[]){ RANKS, 1 }, NULL);
    for (int i = 0; i < COUNT; i++) {
        ones[i] = 1;
    }
    for (int r = 0; r < RANKS; r++) {
        locals[r] = ones;
    }
    for (size_t i = 0; i < sizeof(placements) / sizeof(placements[0]); i++) {
        weft_scope_begin();
        const weft_placement from[] = { by_rows[0], placements[i][0] }, to[] = { by_rows[0], placements[i][1] };
        weft_tensor *x = weft_from_local(WEFT_F64, 2, shape, locals, column, from, WEFT_COPY);
        uint64_t before = buffers();
        weft_tensor *y = weft_redistribute(x, column, to);
        assert_int_equal(buffers(), before);
        assert_non_null(weft_add_inplace(y, weft_ones(WEFT_F64, 0, NULL, column, NULL), 2)); /* views are values */
        expect(y, COUNT, 3, 0);
        expect(x, COUNT, 1, 0);
        /* As along several ranks: nothing becomes Partial, whoever owns the memory. */
        for (int borrowed = 0; borrowed < 2; borrowed++) {
            weft_tensor *z = weft_from_local(WEFT_F64, 2, shape, locals, column, to, borrowed ? 0 : WEFT_COPY);
            assert_null(weft_redistribute(z, column, (const weft_placement[]){ by_rows[0], { WEFT_PARTIAL, 0, WEFT_SUM } }));
            assert_error(WEFT_ERR_LAYOUT, "weft_redistribute");
        }
        weft_scope_end();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
}

int main(int argc, char *argv[])
{
    static char page[1 << 15];
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "usage: %s docs/tensors.md\n", argv[0]);
        return EXIT_FAILURE;
    }
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    struct CMUnitTest listed = cmocka_unit_test_setup_teardown(a11_listed_calls_make_no_buffer, start, world_stop);
    listed.initial_state = page;
    const struct CMUnitTest tests[] = {
        listed,
        cmocka_unit_test_setup_teardown(a11_views_are_values, start, world_stop),
        cmocka_unit_test_setup_teardown(a11_views_outlive_their_tensor, start, world_stop),
        cmocka_unit_test_setup_teardown(a11_borrowed_memory_is_copied_once, start, world_stop),
        cmocka_unit_test_setup_teardown(a11_one_rank_shares, start, world_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
