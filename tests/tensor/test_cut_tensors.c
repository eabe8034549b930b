/* Tensors whose rows are balanced or of listed sizes: operations keep the cut and move nothing, and the program's own arrays are
 * used in place. Values in all cuts are for random programs (tests/programs). */
#include <string.h>

#include "support.h"

enum { ROWS = 10, COLUMNS = 6, RANKS = 4 };

static weft_tensor *added(weft_tensor *a, weft_tensor *b)
{
    return weft_add(a, b);
}

static weft_tensor *of_columns(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_sum(a, 1, false);
}

static weft_tensor *of_rows(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_sum(a, 0, false);
}

static weft_tensor *normalised(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_layer_norm(weft_softmax(a, -1), NULL, NULL, 1e-5);
}

static weft_tensor *turned(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_transpose(a, 0, 1);
}

/* [10, 6] times its own columns' products. */
static weft_tensor *multiplied(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_matmul(a, weft_ones(WEFT_F32, 2, (int64_t[]){ COLUMNS, 3 }, weft_tensor_mesh(a), NULL));
}

static weft_tensor *contracted(weft_tensor *a, weft_tensor *b)
{
    return weft_matmul_ex(a, true, b, false);
}

static weft_tensor *changed(weft_tensor *a, weft_tensor *b)
{
    return weft_add_inplace(a, b, 1);
}

static weft_tensor *some_columns(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_slice(a, 1, 1, 4, 1);
}

static weft_tensor *joined(weft_tensor *a, weft_tensor *b)
{
    return weft_cat(2, (weft_tensor *[]){ a, b }, 1);
}

static void assert_layout(weft_tensor *tensor, const char *expected, const char *given)
{
    char text[100];
    weft_placements_format(weft_tensor_placements(tensor), weft_mesh_ndim(weft_tensor_mesh(tensor)), text, sizeof(text));
    if (strcmp(text, expected) != 0) {
        fail_msg("from %s: %s, expected %s", given, text, expected);
    }
}

static void operations_keep_the_cut(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        weft_tensor *(*call)(weft_tensor *, weft_tensor *);
        const char *given, *expected;
    } rows[] = {
        { THIS_ROW, added, "S0=", "S0=" },
        { THIS_ROW, added, "S0{0,7,1,2}", "S0{0,7,1,2}" },
        { THIS_ROW, added, "S1{0,0,6,0}", "S1{0,0,6,0}" },
        { THIS_ROW, of_columns, "S0=", "S0=" },
        { THIS_ROW, of_columns, "S0{0,10,0,0}", "S0{0,10,0,0}" },
        { THIS_ROW, of_rows, "S0{5,0,4,1}", "P(sum)" },
        { THIS_ROW, of_rows, "S1=", "S0=" },
        { THIS_ROW, normalised, "S0=", "S0=" },
        { THIS_ROW, turned, "S0=", "S1=" },
        { THIS_ROW, multiplied, "S0{1,2,3,4}", "S0{1,2,3,4}" },
        { THIS_ROW, contracted, "S0=", "P(sum)" },
        { THIS_ROW, contracted, "S0{0,7,1,2}", "P(sum)" },
        { THIS_ROW, changed, "S0{0,7,1,2}", "S0{0,7,1,2}" },
        { THIS_ROW, some_columns, "S0=", "S0=" },
        { THIS_ROW, joined, "S0{0,7,1,2}", "S0{0,7,1,2}" },
    };
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        weft_placement placement;
        assert_int_equal(weft_placements_parse(rows[i].given, 1, &placement), WEFT_OK);
        weft_scope_begin();
        weft_tensor *a = weft_full(WEFT_F32, 2, 2, (int64_t[]){ ROWS, COLUMNS }, mesh, &placement),
                    *b = weft_full(WEFT_F32, 3, 2, (int64_t[]){ ROWS, COLUMNS }, mesh, &placement);
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        weft_tensor *result = rows[i].call(a, b);
        assert_no_error();
        weft_wait();
        weft_get_counters(&after, sizeof(after));
        assert_layout(result, rows[i].expected, rows[i].given);
        assert_int_equal(after.bytes_moved, before.bytes_moved);
        weft_scope_end();
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Processes of an MPI program have n / p rows each, and the first n % p of them one more. */
static void own_arrays_in_place(void **state)
{
    (void)state;
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    const int64_t sizes[] = { 0, 7, 1, 2 };
    const weft_placement cuts[] = { weft_shard_balanced(0), weft_shard_sizes(0, RANKS, sizes) };
    for (int k = 0; k < 2; k++) {
        double memory[RANKS][ROWS * 2];
        void *locals[RANKS];
        for (int i = 0; i < weft_local_ranks(); i++) {
            int rank = weft_first_rank() + i;
            int64_t rows = k == 1 ? sizes[rank] : ROWS / RANKS + (rank < ROWS % RANKS);
            for (int64_t e = 0; e < 2 * rows; e++) {
                memory[i][e] = 10 * rank + (double)e;
            }
            locals[i] = memory[i];
        }
        weft_scope_begin();
        weft_tensor *a = weft_from_local(WEFT_F64, 2, (int64_t[]){ ROWS, 2 }, locals, mesh, &cuts[k], 0);
        assert_non_null(weft_add_inplace(a, weft_scale(a, 1), 1));
        assert_no_error();
        weft_scope_end();
        weft_wait();
        for (int i = 0; i < weft_local_ranks(); i++) {
            int rank = weft_first_rank() + i;
            int64_t rows = k == 1 ? sizes[rank] : ROWS / RANKS + (rank < ROWS % RANKS);
            for (int64_t e = 0; e < 2 * rows; e++) {
                assert_true(memory[i][e] == 2 * (10 * rank + (double)e));
            }
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *placements, *message;
    } rows[] = {
        { THIS_ROW, "S0{1,2,3},R", "weft_zeros: placements: entry 0 lists 3 sizes, and mesh dimension 0 has 2 ranks" },
        { THIS_ROW, "S0{1,2},R", "weft_zeros: placements: entry 0 lists sizes of 3 rows in all, and dimension 0 has 10" },
        { THIS_ROW, "S0,S0{1,9}", "weft_zeros: placements: entry 1 lists sizes of dimension 0, which another mesh dimension cuts before it" },
    };
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        weft_placement placements[2];
        assert_int_equal(weft_placements_parse(rows[i].placements, 2, placements), WEFT_OK);
        assert_null(weft_zeros(WEFT_F32, 1, (int64_t[]){ ROWS }, mesh, placements));
        assert_error(WEFT_ERR_LAYOUT, rows[i].message);
        weft_tensor *there = weft_zeros(WEFT_F32, 1, (int64_t[]){ ROWS }, mesh, NULL);
        assert_null(weft_redistribute(there, mesh, placements));
        assert_error(WEFT_ERR_LAYOUT, "lists");
        weft_tensor_release(there);
    }
    leave_rows();
    weft_placement none = weft_shard_sizes(0, 2, (int64_t[]){ 12, -2 });
    assert_null(weft_zeros(WEFT_F32, 1, (int64_t[]){ ROWS }, mesh, (weft_placement[]){ none, weft_replicate() }));
    assert_error(WEFT_ERR_LAYOUT, "entry 0 is Shard(0) with no sizes, a negative one, or a sum that overflows int64");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_keep_the_cut),
        cmocka_unit_test(own_arrays_in_place),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests_name("cut_tensors", tests, NULL, NULL);
}
