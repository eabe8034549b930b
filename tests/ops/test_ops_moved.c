/* Operations that move elements: layouts that stay, results that are views, and how many bytes go from
 * rank to rank. */
#include "support.h"

#include "ops/backward.h"

/* ---- what is moved ------------------------------------------------------------------------------------- */

static weft_tensor *make_filled(weft_mesh *mesh, int ndim, const int64_t shape[], const char *placements)
{
    weft_placement read[3];
    assert_int_equal(weft_placements_parse(placements, weft_mesh_ndim(mesh), read), WEFT_OK);
    weft_tensor *tensor = weft_empty(WEFT_F32, ndim, shape, mesh, read);
    assert_no_error();
    return tensor;
}

static weft_tensor *transposed(weft_tensor *a)
{
    return weft_transpose(a, 0, 1);
}

static weft_tensor *joined(weft_tensor *a)
{
    return weft_flatten(a, 0, 1);
}

static weft_tensor *parted(weft_tensor *a)
{
    return weft_unflatten(a, 1, 2, (const int64_t[]){ 4, 2 });
}

static weft_tensor *halved(weft_tensor *a)
{
    return weft_slice(a, 0, 0, 4, 1);
}

static weft_tensor *repeated(weft_tensor *a)
{
    return weft_expand(weft_unsqueeze(a, 1), 3, (const int64_t[]){ -1, 5, -1 });
}

static weft_tensor *doubled(weft_tensor *a)
{
    return weft_cat(2, (weft_tensor *[]){ a, a }, 0);
}

static weft_tensor *mirrored(weft_tensor *a)
{
    return weft_flip(a, 1, (int[]){ 0 });
}

static weft_tensor *rolled_over(weft_tensor *a)
{
    return weft_roll(a, 3, 0);
}

static weft_tensor *lower(weft_tensor *a)
{
    return weft_tril(a, 0);
}

/* Layouts that stay where they can: of an [8, 8] on four ranks. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        weft_tensor *(*call)(weft_tensor *);
        const char *given, *wanted;
    } cases[] = {
        { THIS_ROW, transposed, "S0,S1", "S1,S0" },
        { THIS_ROW, transposed, "P(max),S1", "P(max),S0" },
        { THIS_ROW, joined, "S0,R", "S0,R" },
        { THIS_ROW, joined, "S0,S0", "S0,S0" },
        { THIS_ROW, joined, "P(min),P(min)", "P(min),P(min)" },
        { THIS_ROW, parted, "S1,R", "S1,R" },
        { THIS_ROW, parted, "S1,S1", "S1,S1" },
        { THIS_ROW, parted, "S0,S1", "S0,S1" },
        { THIS_ROW, parted, "P,R", "P,R" },
        { THIS_ROW, halved, "S1,R", "S1,R" },
        { THIS_ROW, halved, "P,S1", "P,S1" },
        { THIS_ROW, halved, "S0,R", "S0,R" },
        { THIS_ROW, halved, "S0,S0", "S0,S0" },
        { THIS_ROW, halved, "P(max),S0", "P(max),S0" },
        { THIS_ROW, repeated, "S0,S1", "S0,S2" },
        { THIS_ROW, repeated, "P,P", "P,P" },
        { THIS_ROW, doubled, "S1,R", "S1,R" },
        { THIS_ROW, doubled, "P,S1", "P,S1" },
        { THIS_ROW, doubled, "R,R", "R,R" },
        { THIS_ROW, doubled, "R,S0", "R,S0" },
        { THIS_ROW, doubled, "S0,P", "S0,P" },
        { THIS_ROW, mirrored, "S1,P(max)", "S1,P(max)" },
        { THIS_ROW, mirrored, "S0,S1", "S0,S1" },
        { THIS_ROW, rolled_over, "S0,S0", "S0,S0" },
        { THIS_ROW, rolled_over, "P,R", "P,R" },
        { THIS_ROW, lower, "S0,S1", "S0,S1" },
        { THIS_ROW, lower, "P,S1", "P,S1" },
    };
    WORLD(4);
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enter_row(cases[i].place, __func__);
        weft_scope_begin();
        weft_tensor *result = cases[i].call(make_filled(mesh, 2, (const int64_t[]){ 8, 8 }, cases[i].given));
        assert_no_error();
        weft_placement wanted[2];
        assert_int_equal(weft_placements_parse(cases[i].wanted, 2, wanted), WEFT_OK);
        for (int m = 0; m < 2; m++) {
            weft_placement got = weft_tensor_placements(result)[m];
            if (got.kind != wanted[m].kind || (got.kind == WEFT_SHARD && got.dim != wanted[m].dim) ||
                (got.kind == WEFT_PARTIAL && got.op != wanted[m].op)) {
                fail_msg("case %d from %s: kind %d of dimension %d, expected %s", (int)i, cases[i].given,
                         (int)got.kind, got.dim, cases[i].wanted);
            }
        }
        weft_scope_end();
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* No tasks where the memory is there already. */
static void test_views(void **state)
{
    (void)state;
    WORLD(4);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 4 }, NULL);
    static const char *const placements[] = { "R", "S0", "S1", "P" };
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    for (int i = 0; i < 4; i++) {
        weft_scope_begin();
        weft_tensor *a = make_filled(mesh, 3, (const int64_t[]){ 8, 4, 6 }, placements[i]);
        weft_tensor *b = weft_unsqueeze(a, 1), *c = weft_squeeze(b, 1),
                    *d = weft_unflatten(a, 2, 2, (int64_t[]){ 2, 3 });
        assert_non_null(weft_squeeze(c, WEFT_ALL_DIMS));
        assert_non_null(weft_flatten(d, 2, 3));
        assert_non_null(weft_unflatten(a, 1, 2, (const int64_t[]){ 4, 1 }));
        if (i != 1) { /* all ranks have all rows */
            assert_non_null(weft_slice(a, 0, 2, 6, 1));
            assert_non_null(weft_select(a, 0, -1));
            weft_tensor *pieces[3];
            assert_int_equal(weft_chunk(a, 3, 0, pieces), 3);
        }
        weft_scope_end();
    }
    assert_no_error();
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.tasks, before.tasks);
    assert_int_equal(after.transfers, before.transfers);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

enum { WIRE_RANKS = 4, WIRE_ROWS = 64 };

/* Calls for the cases below, along a dimension of WIRE_ROWS indices, cut evenly into WIRE_RANKS parts of
 * 16. */
static void without_first(weft_tensor *a, int dim)
{
    weft_slice(a, dim, 1, WIRE_ROWS, 1);
}

static void without_last(weft_tensor *a, int dim)
{
    weft_slice(a, dim, 0, -4, 1);
}

static void every_second(weft_tensor *a, int dim)
{
    weft_slice(a, dim, 1, WIRE_ROWS, 2);
}

static void gradient_of_slice(weft_tensor *a, int dim)
{
    weft_slice_backward(a, dim, WIRE_ROWS + 4, 4, WIRE_ROWS + 4, 1);
}

static void one_of_them(weft_tensor *a, int dim)
{
    weft_select(a, dim, 40);
}

static void backwards(weft_tensor *a, int dim)
{
    weft_flip(a, 1, &dim);
}

static void one_further(weft_tensor *a, int dim)
{
    weft_roll(a, 1, dim);
}

static void twice(weft_tensor *a, int dim)
{
    weft_cat(2, (weft_tensor *[]){ a, a }, dim);
}

static void two_halves(weft_tensor *a, int dim)
{
    weft_tensor *halves[2];
    assert_int_equal(weft_chunk(a, 2, dim, halves), 2);
}

/* Only what changes its rank is moved, in rows of the dimension. To move the whole dimension would be 48
 * rows (to shards of another one) or 192 (to all ranks). */
static void test_bytes_moved(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *name;
        void (*call)(weft_tensor *a, int dim);
        int rows;
    } cases[] = {
        { THIS_ROW, "without_first", without_first, 3 }, /* one for each border */
        { THIS_ROW, "without_last", without_last, 1 + 2 + 3 },
        { THIS_ROW, "every_second", every_second, 0 },
        { THIS_ROW, "gradient_of_slice", gradient_of_slice, 3 + 2 + 1 }, /* from index 4 on in parts of 17 */
        { THIS_ROW, "one_of_them", one_of_them, 1 }, /* and in parts from its new rank to all others */
        { THIS_ROW, "backwards", backwards, 64 },    /* all of them change places */
        { THIS_ROW, "one_further", one_further, 4 },
        { THIS_ROW, "twice", twice, 16 + 32 + 32 + 16 },
        { THIS_ROW, "two_halves", two_halves, 24 + 24 },
    };
    WORLD(WIRE_RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ WIRE_RANKS }, NULL);
    for (size_t i = 0; i < 2 * (sizeof(cases) / sizeof(cases[0])); i++) {
        enter_row(cases[i / 2].place, __func__);
        const int dim = (int)i % 2;
        const int64_t shape[] = { dim == 0 ? WIRE_ROWS : 8, dim == 1 ? WIRE_ROWS : 8 };
        weft_counters before, after;
        weft_scope_begin();
        weft_tensor *a = make_filled(mesh, 2, shape, dim == 0 ? "S0" : "S1");
        weft_get_counters(&before, sizeof(before));
        cases[i / 2].call(a, dim);
        weft_get_counters(&after, sizeof(after));
        assert_no_error();
        weft_scope_end();
        uint64_t rows = (after.bytes_moved - before.bytes_moved) / (8 * sizeof(float));
        uint64_t expected = (uint64_t)cases[i / 2].rows;
        if (weft_num_processes() > 1 ? rows > expected
                                     : rows != expected) { /* of several, each counts its own */
            fail_msg("%s along dimension %d moved %d rows, expected %d", cases[i / 2].name, dim, (int)rows,
                     cases[i / 2].rows);
        }
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* More slices than are remembered, the first of them again at the end. */
static void test_many_slices(void **state)
{
    (void)state;
    enum { SLICES = 1100, LENGTH = 7 };
    WORLD(WIRE_RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ WIRE_RANKS }, NULL);
    const weft_placement cut[] = { weft_shard(0) };
    const int64_t shape[] = { SLICES + LENGTH };
    int64_t numbers[SLICES + LENGTH];
    for (int64_t i = 0; i < shape[0]; i++) {
        numbers[i] = i;
    }
    weft_tensor *a = weft_distribute(WEFT_I64, 1, shape, numbers, mesh, cut);
    for (int64_t i = 0; i < SLICES + 3; i++) {
        int64_t values[LENGTH], start = i % SLICES;
        weft_scope_begin();
        weft_tensor *slice = weft_slice(a, 0, start, start + LENGTH, 1);
        if (i % 97 == 0 || i >= SLICES) {
            assert_int_equal(weft_to_host(slice, values, sizeof(values)), WEFT_OK);
            for (int64_t k = 0; k < LENGTH; k++) {
                assert_int_equal(values[k], start + k);
            }
        }
        weft_scope_end();
    }
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_bytes_moved),
        cmocka_unit_test(test_many_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
