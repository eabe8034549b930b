/* Cuts other than chunks: which rows each part holds, which cuts are equal, texts and refusals. */
#include "cuts.h"
#include "plan_support.h"

static weft_placement any_cut(prng *random, int64_t n, int64_t parts)
{
    weft_placement p = { .kind = WEFT_SHARD, .cut = (weft_cut_kind)prng_below(random, 5) };
    int64_t block = 1 + prng_below(random, 9);
    int first = (int)prng_below(random, parts);
    if (p.cut == WEFT_CUT_CYCLIC) {
        p.block = block;
        p.first = first;
    }
    return perhaps_periodic(random, parts, p.cut == WEFT_CUT_SIZES ? sizes_of_rows(random, 0, parts, n) : p);
}

/* Runs of a part ascend, are as long as it together, and have each row once. */
static void runs_make_the_parts(weft_placement cut, int64_t n, int64_t parts)
{
    int owners[40] = { 0 };
    for (int64_t c = 0; c < parts; c++) {
        int64_t offset, extent, begin, rows, end = 0, sum = 0;
        weft_part_range(cut, n, parts, c, &offset, &extent);
        for (int64_t k = 0; (rows = weft_part_run(cut, n, parts, c, k, &begin)) > 0; k++) {
            assert_true(begin >= end && begin + rows <= n);
            for (int64_t row = begin; row < begin + rows; row++) {
                owners[row]++;
            }
            end = begin + rows;
            sum += rows;
        }
        assert_int_equal(sum, extent);
    }
    for (int64_t row = 0; row < n; row++) {
        assert_int_equal(owners[row], 1);
    }
}

/* Parts lie one after the other; a row is in the part that says so; the largest and the alike ones are. */
static void parts_tile_the_rows(void **state)
{
    (void)state;
    prng random = prng_start(31);
    for (int i = 0; i < 20000; i++) {
        int64_t n = prng_below(&random, 40), parts = 1 + prng_below(&random, 12), begin = 0, most, largest_rows, largest;
        weft_placement cut = any_cut(&random, n, parts);
        largest = weft_part_largest(cut, n, parts, &most);
        for (int64_t c = 0; c < parts; c++) {
            int64_t offset, extent, other, rows;
            weft_part_range(cut, n, parts, c, &offset, &extent);
            assert_true(offset == begin || extent == 0);
            assert_true(extent >= 0 && extent <= most);
            for (int64_t row = offset; row < offset + extent; row++) {
                assert_int_equal(weft_part_of_row(cut, n, parts, row), c);
            }
            int64_t alike = weft_parts_alike(cut, n, parts, c);
            assert_true(alike >= 1 && c + alike <= parts);
            for (int64_t k = c; k < c + alike; k++) {
                weft_part_range(cut, n, parts, k, &other, &rows);
                assert_int_equal(rows, extent);
            }
            begin += extent;
            if (extent > 0) {
                int64_t filled = 0;
                for (int64_t k = c; k < parts; k++) {
                    weft_part_range(cut, n, parts, k, &other, &rows);
                    filled += rows > 0;
                    assert_true(rows == 0 || weft_parts_filled(cut, n, parts, c, k) == filled);
                }
            }
        }
        assert_int_equal(begin, n);
        runs_make_the_parts(cut, n, parts);
        weft_part_range(cut, n, parts, largest, &begin, &largest_rows);
        assert_int_equal(largest_rows, most);
    }
}

static void parts_of_very_large_dimensions(void **state)
{
    (void)state;
    int64_t offset, extent, n = INT64_MAX;
    weft_part_range(weft_shard_balanced(0), n, 4, 3, &offset, &extent);
    assert_true(offset + extent == n && extent == n / 4);
    assert_int_equal(weft_part_of_row(weft_shard_balanced(0), n, 4, n - 1), 3);
    weft_placement sizes = weft_shard_sizes(0, 3, (int64_t[]){ n - 1, 0, 1 });
    assert_int_equal(weft_part_of_row(sizes, n, 3, n - 1), 2);
    assert_null(weft_shard_sizes(0, 2, (int64_t[]){ n, 1 }).sizes);
}

static void expect_text(const weft_layout *layout, const char *expected)
{
    char text[200];
    assert_string_equal(weft_placements_text(layout->placements, layout->mesh->ndim, text, sizeof(text)), expected);
}

/* The canonical form of a cut is the simplest one that makes the same parts. */
static void equal_cuts_are_one(void **state)
{
    (void)state;
    static const struct {
        const char *given, *canonical;
        int64_t rows, ranks, more;
    } rows[] = {
        { "S0=,R", "[S0=,R]", 10, 4, 1 },
        { "S0=,R", "[S0,R]", 8, 4, 1 },
        { "S0=,R", "[S0,R]", 11, 4, 1 }, /* 3, 3, 3, 2 */
        { "S0=,R", "[S0,R]", 3, 4, 1 },  /* 1, 1, 1, 0 */
        { "S0=,R", "[S0,R]", 0, 4, 1 },
        { "S0=,R", "[S0,R]", 10, 1, 3 },
        { "S0=,S0=", "[S0=,S0]", 10, 4, 3 },  /* 3 and 2 rows over three ranks */
        { "S0=,S0=", "[S0=,S0=]", 22, 4, 4 }, /* 6 over four: 2, 2, 1, 1 */
        { "S0=,S0=", "[S0=,S0]", 10, 4, 1 },
        { "S0,S0=", "[S0,S0]", 8, 2, 2 },
        { "S0=,S0=", "[S0=,S0]", 10, 4, 2 },     /* 3 and 2 rows over two ranks */
        { "S0,S0=", "[S0,S0=]", 9, 2, 4 },       /* 5 rows over four: 2, 1, 1, 1 */
        { "S0{3,3,3,1},R", "[S0,R]", 10, 4, 1 },
        { "S0{3,3,2,2},R", "[S0=,R]", 10, 4, 1 },
        { "S0{0,10,0,0},R", "[S0{0,10,0,0},R]", 10, 4, 1 },
        { "S0{10},R", "[S0,R]", 10, 1, 3 },
        { "S0,S0{4,5,1}", "[S0,S0{4,5,1}]", 10, 1, 3 }, /* the first of more than one rank */
        { "S0{9,1},S0=", "[S0*9,S0=]", 10, 2, 4 },
        { "S0@3,S0@1", "[S0@1,S0]", 10, 2, 4 }, /* levels are numbers in the order of cutting */
        { "S0@1,S0@1", "[S0,S0]", 10, 2, 4 },
        { "S0,S0@7", "[S0,S0]", 10, 2, 4 },
        { "S0@7,R", "[S0,R]", 10, 2, 4 },
        { "S0@1,S1", "[S0,S1]", 10, 2, 4 },
        { "S0@1,S0", "[S0,S0]", 10, 2, 1 }, /* one rank cuts nothing */
        { "S0=@1,S0{9,1}", "[S0@1,S0*9]", 10, 3, 2 },
        { "S0=@1,S0{6,4}", "[S0=@1,S0*6]", 10, 4, 2 },
        { "S0{9,1},S0@0", "[S0*9,S0]", 10, 2, 4 },
        { "S0=@1,S0=", "[S0=@1,S0]", 10, 4, 2 }, /* 5 rows over four ranks */
        { "S0*2,S1*1+0", "[S0*2,S1*1]", 10, 4, 3 },
        { "S0*3,R", "[S0,R]", 10, 4, 1 },     /* one block for each */
        { "S0*3+1,R", "[S0*3+1,R]", 10, 4, 1 },
        { "S0*5,R", "[S0*5,R]", 10, 4, 1 },
        { "S0z,R", "[S0,R]", 4, 4, 1 },
        { "S0*2+1,R", "[S0,R]", 0, 4, 1 },
        { "S0Z,S0z", "[S0z,S0z]", 40, 4, 3 },
        { "S0*7,R", "[S0,R]", 10, 1, 3 },
        { "S0*100,R", "[S0*100,R]", 5, 4, 1 },
        { "S0{5,0,0,0},R", "[S0*5,R]", 5, 4, 1 },
        { "S0{0,5,0,0},R", "[S0{0,5,0,0},R]", 5, 4, 1 },
        { "S0%8,R", "[S0*2,R]", 32, 4, 1 }, /* the period is a round */
        { "S0=%8,R", "[S0*2,R]", 32, 4, 1 },
        { "S0%10,R", "[S0%10,R]", 30, 4, 1 },
        { "S0%10,R", "[S0,R]", 10, 4, 1 },
        { "S0=%10,R", "[S0=,R]", 10, 4, 1 },
        { "S0=%11,R", "[S0%11,R]", 33, 4, 1 }, /* 3, 3, 3, 2 */
        { "S0{5,5}%10,R", "[S0*5,R]", 40, 2, 1 },
        { "S0{4,6}%10,R", "[S0{4,6}%10,R]", 40, 2, 1 },
        { "S0*2%16,R", "[S0*2,R]", 64, 4, 1 },
        { "S0*2%10,R", "[S0*2%10,R]", 40, 4, 1 },
        { "S0*4+1%10,R", "[S0*4+1%10,R]", 40, 4, 1 },
        { "S0*3%10,R", "[S0%10,R]", 40, 4, 1 },
        { "S0*8,R", "[S0,R]", 30, 4, 1 },
        { "S0*9,R", "[S0*9,R]", 30, 4, 1 },
        { "S0{20,10},R", "[S0*20,R]", 30, 2, 1 },
        { "S0z%4,R", "[S0*1,R]", 40, 4, 1 },    /* no part has two chunks */
        { "S0z%20,R", "[S0z%20,R]", 40, 4, 1 },
        { "S0z%20,R", "[S0,R]", 0, 4, 1 },
        { "S0%7,R", "[S0,R]", 10, 1, 3 },
        { "S0%50,R", "[S0*13,R]", 20, 4, 1 },
        { "S0=%50,R", "[S0=%50,R]", 20, 4, 1 },
        { "S0,S0%10", "[S0,S0]", 20, 2, 4 },
        { "S0,S0{1,9}%10", "[S0,S0{1,9}%10]", 40, 2, 2 },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(rows); i++) {
        weft_layout_table *own = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ rows[i].ranks, rows[i].more }, NULL);
        expect_text(layout_of(own, mesh, rows[i].given, 2, (int64_t[]){ rows[i].rows, 6 }, WEFT_F32), rows[i].canonical);
        weft_mesh_delete(mesh);
        weft_layout_table_delete(own);
    }
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 4 }, NULL);
    const int64_t ten[] = { 10 }, eight[] = { 8 };
    assert_ptr_equal(layout_of(table, mesh, "S0=", 1, eight, WEFT_F32), layout_of(table, mesh, "S0", 1, eight, WEFT_F32));
    assert_ptr_equal(layout_of(table, mesh, "S0{3,3,2,2}", 1, ten, WEFT_F32), layout_of(table, mesh, "S(-1)=", 1, ten, WEFT_F32));
    assert_ptr_not_equal(layout_of(table, mesh, "S0=", 1, ten, WEFT_F32), layout_of(table, mesh, "S0", 1, ten, WEFT_F32));
    assert_true(layout_of(table, mesh, "S0=", 1, ten, WEFT_F32)->digest != layout_of(table, mesh, "S0", 1, ten, WEFT_F32)->digest);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* Five rows, cut along the second mesh dimension first. */
static void lower_levels_cut_first(void **state)
{
    (void)state;
    static const int64_t first[] = { 0, 3, 2, 4 }, rows[] = { 2, 1, 1, 1 }; /* of ranks (0, 0), (0, 1), (1, 0), (1, 1) */
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ 2, 2 }, NULL);
    const weft_layout *turned = layout_of(table, mesh, "S0@1,S0", 1, (int64_t[]){ 5 }, WEFT_F32);
    for (int rank = 0; rank < 4; rank++) {
        weft_box box;
        assert_true(weft_layout_shard_box(turned, rank, &box));
        assert_int_equal(box.offset[0], first[rank]);
        assert_int_equal(box.extent[0], rows[rank]);
    }
    assert_true(turned->digest != layout_of(table, mesh, "S0,S0", 1, (int64_t[]){ 5 }, WEFT_F32)->digest);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* A wish in other words: cuts are compared where they would lie. */
static void layouts_lie_as_wished(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ 2, 4 }, NULL);
    const weft_layout *nested = layout_of(table, mesh, "S0,S0=", 1, (int64_t[]){ 9 }, WEFT_F32),
                      *listed = layout_of(table, mesh, "R,S0{3,3,2,2}", 1, (int64_t[]){ 10 }, WEFT_F32),
                      *owned = layout_of(table, mesh, "S0{0,9},S1", 2, (int64_t[]){ 9, 4 }, WEFT_F32);
    assert_true(weft_layout_lies_as(nested, 1, weft_shard_balanced(0)));
    assert_false(weft_layout_lies_as(nested, 1, weft_shard(0)));
    assert_true(weft_layout_lies_as(nested, 0, weft_shard_balanced(0))); /* 5 and 4 rows, as chunks */
    assert_true(weft_layout_lies_as(listed, 1, weft_shard_balanced(0)));
    assert_true(weft_layout_lies_as(listed, 1, weft_shard_sizes(0, 4, (int64_t[]){ 3, 3, 2, 2 })));
    assert_false(weft_layout_lies_as(listed, 1, weft_shard_sizes(0, 4, (int64_t[]){ 3, 3, 4, 0 })));
    assert_int_equal(weft_layout_largest_rank(owned), 4);
    assert_int_equal(weft_layout_shard_count(owned, 4), 9);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* People see the ends of a long list, and files all of it. */
static void long_lists_are_shortened(void **state)
{
    (void)state;
    int64_t sizes[40];
    for (int i = 0; i < 40; i++) {
        sizes[i] = i;
    }
    weft_placement placement = weft_shard_sizes(0, 40, sizes), again;
    char text[400], whole[400];
    weft_placements_text(&placement, 1, text, sizeof(text));
    assert_string_equal(text, "[S0{0,1,2,3,4,5,6,7, ... ,39}]");
    weft_text written = weft_text_in(whole, sizeof(whole));
    weft_placements_write(&written, &placement, 1);
    assert_int_equal(weft_placements_read(whole, 1, &again, NULL, 0), WEFT_OK);
    assert_true(weft_placement_equal(placement, again));
}

/* Lists are one by content, whoever makes them first, and so are their digests. */
static void lists_are_interned(void **state)
{
    (void)state;
    weft_placement a = weft_shard_sizes(1, 3, (int64_t[]){ 4, 0, 2 }), b = weft_shard_sizes(1, 3, (int64_t[]){ 4, 0, 2 }),
                   c = weft_shard_sizes(1, 3, (int64_t[]){ 4, 2, 0 });
    const int64_t *sizes;
    assert_true(weft_placement_equal(a, b));
    assert_false(weft_placement_equal(a, c));
    assert_int_equal(a.sizes->digest, b.sizes->digest);
    assert_int_equal(weft_placement_sizes(c, &sizes), 3);
    assert_true(sizes[0] == 4 && sizes[1] == 2 && sizes[2] == 0);
    assert_int_equal(weft_placement_sizes(weft_shard_balanced(0), &sizes), 0);
    assert_null(sizes);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "S0{", "S0{}", "S0{1,}", "S0{1", "S0{-1}", "S0{1 2}", "S0{99999999999999999999}", "S0==", "S={1}", "R=", "S0@", "S0@-1", "S0@x", "S0@1=", "R@1", "S0*", "S0*0", "S0*-1", "S0*2+", "S0*2+x", "S0zz", "S0*2z" };
    weft_placement out[2];
    char why[200];
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(texts); i++) {
        assert_int_equal(weft_placements_read(texts[i], 1, out, why, sizeof(why)), WEFT_ERR_INVALID);
    }
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "S0{1,9,0},R", "entry 0 lists 3 sizes, and mesh dimension 0 has 2 ranks" },
        { "S0{1,8},R", "entry 0 lists sizes of 9 rows in all, and dimension 0 has 10" },
        { "S0,S0{5,3,2}", "entry 1 lists sizes of dimension 0, which another mesh dimension cuts before it" },
        { "S0*2+2,R", "entry 0 deals the first block to part 2, and mesh dimension 0 has 2 ranks" },
        { "S0{5,5}@1,S0", "entry 0 lists sizes of dimension 0, which another mesh dimension cuts before it" },
    };
    weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ 2, 3 }, NULL);
    const int64_t shape[] = { 10 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(rows); i++) {
        assert_int_equal(weft_placements_read(rows[i].text, 2, out, NULL, 0), WEFT_OK);
        assert_int_equal(weft_placements_check_sizes(mesh, out, shape, why, sizeof(why)), WEFT_ERR_LAYOUT);
        assert_string_equal(why, rows[i].why);
    }
    weft_mesh_delete(mesh);
    weft_placement bad[] = { weft_shard_sizes(0, 0, NULL), weft_shard_sizes(0, 1, (int64_t[]){ -1 }),
                             { .kind = WEFT_SHARD, .cut = (weft_cut_kind)5 }, { .kind = WEFT_SHARD, .cut = (weft_cut_kind)-1 },
                             { .kind = WEFT_SHARD, .level = -1 }, { .kind = WEFT_SHARD, .cut = WEFT_CUT_CYCLIC },
                             { .kind = WEFT_SHARD, .cut = WEFT_CUT_CYCLIC, .block = 1, .first = -1 } };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        assert_int_equal(weft_placements_normalize(&bad[i], 1, 1, out, why, sizeof(why)), WEFT_ERR_LAYOUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_tile_the_rows),      cmocka_unit_test(parts_of_very_large_dimensions),
        cmocka_unit_test(equal_cuts_are_one),       cmocka_unit_test(lists_are_interned),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(layouts_lie_as_wished),    cmocka_unit_test(long_lists_are_shortened),
        cmocka_unit_test(lower_levels_cut_first),
    };
    return cmocka_run_group_tests_name("cuts", tests, NULL, NULL);
}
