/* src/layout: boxes, meshes, placements, chunks, the boxes of shards. */
#include "plan_support.h"

#include <stdlib.h>
#include <string.h>

/* ---- boxes --------------------------------------------------------------------------------------------- */

static void boxes_meet_or_do_not(void **state)
{
    (void)state;
    weft_box a = { { 0, 2 }, { 4, 3 } }, b = { { 3, 0 }, { 5, 3 } }, c = { { 4, 0 }, { 1, 9 } }, out;
    assert_true(weft_box_intersect(2, &a, &b, &out));
    assert_true(weft_box_equal(2, &out, &(weft_box){ { 3, 2 }, { 1, 1 } }));
    assert_false(weft_box_intersect(2, &a, &c, &out));
    assert_int_equal(weft_box_count(2, &out), 0);
    assert_true(weft_box_intersect(0, &a, &c, &out));
    assert_int_equal(weft_box_count(0, &out), 1);
    assert_true(weft_box_intersect(2, &a, &b, &a));
    assert_true(weft_box_equal(2, &a, &(weft_box){ { 3, 2 }, { 1, 1 } }));
    weft_box whole = weft_box_whole(3, (int64_t[]){ 4, 0, 2 });
    assert_true(weft_box_equal(3, &whole, &(weft_box){ { 0 }, { 4, 0, 2 } }));
    assert_int_equal(weft_box_count(3, &whole), 0);
    assert_false(weft_box_equal(1, &whole, &(weft_box){ { 1 }, { 4 } }));
}

/* An intersection holds an element exactly when both boxes do. */
static void intersections_hold_what_both_hold(void **state)
{
    (void)state;
    prng random = prng_start(11);
    for (int i = 0; i < 3000; i++) {
        weft_box a, b, out, whole = { { 0, 0 }, { 12, 12 } };
        for (int d = 0; d < 2; d++) {
            a.offset[d] = prng_below(&random, 8), a.extent[d] = prng_below(&random, 5);
            b.offset[d] = prng_below(&random, 8), b.extent[d] = prng_below(&random, 5);
        }
        int64_t common = 0, e[2] = { 0, 0 };
        do {
            bool in_a = true, in_b = true;
            for (int d = 0; d < 2; d++) {
                in_a = in_a && e[d] >= a.offset[d] && e[d] < a.offset[d] + a.extent[d];
                in_b = in_b && e[d] >= b.offset[d] && e[d] < b.offset[d] + b.extent[d];
            }
            common += in_a && in_b;
        } while (next_element(2, &whole, e));
        assert_int_equal(weft_box_intersect(2, &a, &b, &out), common > 0);
        assert_int_equal(weft_box_count(2, &out), common);
    }
}

/* ---- meshes -------------------------------------------------------------------------------------------- */

static void expect_no_mesh(int ndim, const int64_t shape[], const int ranks[], const char *const names[],
                           weft_status expected, const char *text)
{
    weft_status status = WEFT_OK;
    char why[200] = "";
    assert_null(weft_mesh_new(ndim, shape, ranks, names, 8, &status, why, sizeof(why)));
    assert_int_equal(status, expected);
    if (strstr(why, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, text);
    }
    assert_null(weft_mesh_new(ndim, shape, ranks, names, 8, &status, NULL, 0));
    assert_int_equal(status, expected);
}

static void meshes_that_cannot_be(void **state)
{
    (void)state;
    const int64_t ones[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    const int64_t large = INT64_C(1) << 40;
    expect_no_mesh(0, ones, NULL, NULL, WEFT_ERR_INVALID, "ndim");
    expect_no_mesh(-1, ones, NULL, NULL, WEFT_ERR_INVALID, "ndim");
    expect_no_mesh(9, ones, NULL, NULL, WEFT_ERR_INVALID, "ndim");
    expect_no_mesh(2, NULL, NULL, NULL, WEFT_ERR_INVALID, "shape");
    expect_no_mesh(2, (int64_t[]){ 2, 0 }, NULL, NULL, WEFT_ERR_INVALID, "shape[1]");
    expect_no_mesh(2, (int64_t[]){ -2, 2 }, NULL, NULL, WEFT_ERR_INVALID, "shape[0]");
    expect_no_mesh(2, (int64_t[]){ 3, 3 }, NULL, NULL, WEFT_ERR_MESH, "8");
    expect_no_mesh(3, (int64_t[]){ large, large, large }, NULL, NULL, WEFT_ERR_MESH, "8");
    expect_no_mesh(1, (int64_t[]){ 2 }, (int[]){ 1, 8 }, NULL, WEFT_ERR_INVALID, "ranks[1]");
    expect_no_mesh(1, (int64_t[]){ 2 }, (int[]){ -1, 1 }, NULL, WEFT_ERR_INVALID, "ranks[0]");
    expect_no_mesh(1, (int64_t[]){ 3 }, (int[]){ 5, 1, 5 }, NULL, WEFT_ERR_INVALID, "5");
    expect_no_mesh(2, (int64_t[]){ 2, 2 }, NULL, (const char *[]){ "a", "" }, WEFT_ERR_INVALID, "names[1]");
    expect_no_mesh(2, (int64_t[]){ 2, 2 }, NULL, (const char *[]){ "a", "a" }, WEFT_ERR_INVALID, "names[1]");
    weft_mesh_delete(NULL);
}

static void names_are_copied_and_may_be_missing(void **state)
{
    (void)state;
    char name[] = "data";
    weft_status status = WEFT_ERR_STATE;
    weft_mesh_impl *mesh = weft_mesh_new(3, (int64_t[]){ 2, 2, 2 }, NULL,
                                         (const char *[]){ name, NULL, NULL }, 8, &status, NULL, 0);
    name[0] = 'x';
    assert_non_null(mesh);
    assert_int_equal(status, WEFT_OK);
    assert_string_equal(mesh->names[0], "data");
    assert_null(mesh->names[1]);
    weft_mesh_delete(mesh);
}

static void same_meshes(void **state)
{
    (void)state;
    const int64_t shape[] = { 2, 2 };
    weft_status status;
    weft_mesh_impl *plain = mesh_of(2, shape, NULL), *written = mesh_of(2, shape, (int[]){ 0, 1, 2, 3 });
    weft_mesh_impl *shuffled = mesh_of(2, shape, (int[]){ 0, 2, 1, 3 }),
                   *flat = mesh_of(1, (int64_t[]){ 4 }, NULL);
    weft_mesh_impl *named = weft_mesh_new(2, shape, NULL, (const char *[]){ "a", NULL }, 8, &status, NULL, 0);
    assert_true(weft_mesh_same(plain, plain));
    assert_true(weft_mesh_same(plain, written));
    assert_true(weft_mesh_same(named, named));
    assert_false(weft_mesh_same(plain, shuffled));
    assert_false(weft_mesh_same(plain, flat));
    assert_false(weft_mesh_same(plain, named));
    weft_mesh_impl *all[] = { plain, written, shuffled, flat, named };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all); i++) {
        weft_mesh_delete(all[i]);
    }
}

static void ranks_and_positions_are_inverse(void **state)
{
    (void)state;
    prng random = prng_start(12);
    for (int i = 0; i < 2000; i++) {
        int world = 1 + (int)prng_below(&random, MAX_WORLD);
        weft_mesh_impl *mesh = drawn_mesh(&random, world, world);
        int members = 0;
        for (int rank = -2; rank < world + 2; rank++) {
            int64_t index = weft_mesh_index_of(mesh, rank);
            assert_true(index >= -1 && index < mesh->num_ranks);
            members += index >= 0;
            assert_true(index < 0 || weft_mesh_rank_at(mesh, index) == rank);
        }
        assert_int_equal(members, mesh->num_ranks);
        for (int64_t index = 0; index < mesh->num_ranks; index++) {
            int64_t coordinate[WEFT_MAX_DIMS];
            weft_mesh_unravel(mesh, index, coordinate);
            for (int m = 0; m < mesh->ndim; m++) {
                assert_true(coordinate[m] >= 0 && coordinate[m] < mesh->shape[m]);
            }
            assert_int_equal(weft_mesh_ravel(mesh, coordinate), index);
            assert_int_equal(element_number(mesh->ndim, mesh->shape, coordinate), index);
        }
        weft_mesh_delete(mesh);
    }
}

/* ---- placements ---------------------------------------------------------------------------------------- */

static void expect_read(const char *text, int n, const char *formatted)
{
    weft_placement out[WEFT_MAX_DIMS];
    char why[200] = "", again[100];
    if (weft_placements_read(text, n, out, why, sizeof(why)) != WEFT_OK) {
        fail_msg("\"%s\": %s", text, why);
    }
    assert_string_equal(weft_placements_text(out, n, again, sizeof(again)), formatted);
}

static void texts_that_are_placements(void **state)
{
    (void)state;
    expect_read("R", 1, "[R]");
    expect_read("S0,R", 2, "[S0,R]");
    expect_read("S(0),P(sum)", 2, "[S0,P(sum)]");
    expect_read("S(-1),P", 2, "[S-1,P(sum)]");
    expect_read("S-1", 1, "[S-1]");
    expect_read(" s ( 1 ) ,\tp ( MAX ) , r ", 3, "[S1,P(max),R]");
    expect_read("P(avg),P(prod),P(min),p(Sum)", 4, "[P(avg),P(prod),P(min),P(sum)]");
    expect_read("S 7", 1, "[S7]");
    expect_read("", 0, "[]");
    expect_read("  ", 0, "[]");
    expect_read("R,R,R,R,R,R,R,S3", 8, "[R,R,R,R,R,R,R,S3]");
}

static void texts_that_are_not(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        row_place place;
        const char *text;
        int n;
    } bad[] = {
        { THIS_ROW, NULL, 1 },
        { THIS_ROW, "R", -1 },
        { THIS_ROW, "R", 9 },
        { THIS_ROW, "", 1 },
        { THIS_ROW, "R", 2 },
        { THIS_ROW, "R,R", 1 },
        { THIS_ROW, "R,", 1 },
        { THIS_ROW, "R,", 2 },
        { THIS_ROW, ",R", 1 },
        { THIS_ROW, "Q", 1 },
        { THIS_ROW, "S", 1 },
        { THIS_ROW, "S(", 1 },
        { THIS_ROW, "S()", 1 },
        { THIS_ROW, "S(0", 1 },
        { THIS_ROW, "S(x)", 1 },
        { THIS_ROW, "S0)", 1 },
        { THIS_ROW, "S--1", 1 },
        { THIS_ROW, "P(", 1 },
        { THIS_ROW, "P()", 1 },
        { THIS_ROW, "P(sum", 1 },
        { THIS_ROW, "P(mean)", 1 },
        { THIS_ROW, "P(summ)", 1 },
        { THIS_ROW, "Psum", 1 },
        { THIS_ROW, "R R", 2 },
        { THIS_ROW, "RR", 2 },
        { THIS_ROW, "S0 R", 2 },
        { THIS_ROW, "R;R", 2 },
        { THIS_ROW, "[R]", 1 },
        { THIS_ROW, "R", 0 },
        { THIS_ROW, "S99999999999999999999", 1 },
        { THIS_ROW, "S2147483648", 1 },
        { THIS_ROW, "S0x", 1 },
        { THIS_ROW, "Shard(0)", 1 },
    };
    /* clang-format on */
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        enter_row(bad[i].place, __func__);
        weft_placement out[WEFT_MAX_DIMS];
        memset(out, 0x5a, sizeof(out));
        char why[200] = "";
        if (weft_placements_read(bad[i].text, bad[i].n, out, why, sizeof(why)) != WEFT_ERR_INVALID ||
            why[0] == '\0') {
            fail_msg("\"%s\" was taken as %d placements", bad[i].text == NULL ? "NULL" : bad[i].text,
                     bad[i].n);
        }
        for (size_t b = 0; b < sizeof(out); b++) {
            assert_int_equal(((unsigned char *)out)[b], 0x5a);
        }
        assert_int_equal(weft_placements_read(bad[i].text, bad[i].n, out, NULL, 0), WEFT_ERR_INVALID);
    }
    leave_rows();
    assert_int_equal(weft_placements_read("R", 1, NULL, NULL, 0), WEFT_ERR_INVALID);
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    prng random = prng_start(13);
    for (int i = 0; i < 3000; i++) {
        weft_mesh_impl *mesh = drawn_mesh(&random, 12, 12);
        weft_placement placements[WEFT_MAX_DIMS], again[WEFT_MAX_DIMS];
        int64_t shape[WEFT_MAX_DIMS];
        int ndim = drawn_shape(&random, 8, 90, 2000, shape);
        drawn_placements(&random, mesh, ndim, true, placements);
        drawn_sizes(&random, mesh, ndim, shape, placements);
        char text[400];
        weft_placements_text(placements, mesh->ndim, text, sizeof(text));
        size_t length = strlen(text);
        assert_true(text[0] == '[' && text[length - 1] == ']');
        text[length - 1] = '\0';
        assert_int_equal(weft_placements_read(text + 1, mesh->ndim, again, NULL, 0), WEFT_OK);
        for (int m = 0; m < mesh->ndim; m++) {
            assert_true(weft_placement_equal(placements[m], again[m]));
        }
        weft_mesh_delete(mesh);
    }
}

/* Any room gives a prefix, terminated, with nothing written after it. */
static void printing_into_too_little_room(void **state)
{
    (void)state;
    const weft_placement placements[] = { weft_shard(0), weft_partial(WEFT_PROD), weft_replicate() };
    const char *whole = "[S0,P(prod),R]";
    for (size_t size = 1; size <= strlen(whole) + 3; size++) {
        char text[40];
        memset(text, '#', sizeof(text));
        assert_ptr_equal(weft_placements_text(placements, 3, text, size), text);
        size_t expected = size - 1 < strlen(whole) ? size - 1 : strlen(whole);
        assert_int_equal(strlen(text), expected);
        assert_memory_equal(text, whole, expected);
        assert_int_equal(text[size], '#');
    }
}

static void placements_become_canonical(void **state)
{
    (void)state;
    const weft_placement in[] = {
        { .kind = WEFT_SHARD, .dim = -1, .op = WEFT_MAX },
        { .kind = WEFT_REPLICATE, .dim = 77, .op = (weft_reduce_op)99 },
        { .kind = WEFT_PARTIAL, .dim = -5, .op = WEFT_AVG },
        { .kind = WEFT_SHARD, .dim = -3, .op = (weft_reduce_op)-1 },
    };
    weft_placement out[4];
    assert_int_equal(weft_placements_normalize(in, 4, 3, out, NULL, 0), WEFT_OK);
    const weft_placement expected[] = { weft_shard(2), weft_replicate(), weft_partial(WEFT_AVG),
                                        weft_shard(0) };
    assert_memory_equal(out, expected, sizeof(out));
    assert_int_equal(weft_placements_normalize(NULL, 4, 3, out, NULL, 0), WEFT_OK);
    for (int m = 0; m < 4; m++) {
        const weft_placement replicate = weft_replicate();
        assert_memory_equal(&out[m], &replicate, sizeof(replicate));
    }
    /* In place, too. */
    weft_placement same[] = { weft_shard(-2) };
    assert_int_equal(weft_placements_normalize(same, 1, 2, same, NULL, 0), WEFT_OK);
    assert_int_equal(same[0].dim, 0);
}

static void placements_out_of_range(void **state)
{
    (void)state;
    const weft_placement bad[] = {
        weft_shard(2),
        weft_shard(-3),
        { .kind = (weft_placement_kind)3 },
        { .kind = (weft_placement_kind)-1 },
        weft_partial((weft_reduce_op)5),
        weft_partial((weft_reduce_op)-1),
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        weft_placement in[] = { weft_shard(1), bad[i] }, out[2];
        memset(out, 0x5a, sizeof(out));
        char why[200] = "";
        assert_int_equal(weft_placements_normalize(in, 2, 2, out, why, sizeof(why)), WEFT_ERR_LAYOUT);
        assert_non_null(strstr(why, "1"));
        assert_int_equal(*(unsigned char *)out, 0x5a);
        assert_int_equal(weft_placements_normalize(in, 2, 2, out, NULL, 0), WEFT_ERR_LAYOUT);
    }
    weft_placement out[1];
    assert_int_equal(weft_placements_normalize((weft_placement[]){ weft_shard(0) }, 1, 0, out, NULL, 0),
                     WEFT_ERR_LAYOUT);
    assert_string_equal(weft_reduce_op_name((weft_reduce_op)5), "?");
    assert_string_equal(weft_reduce_op_name((weft_reduce_op)-1), "?");
}

/* ---- chunks and shards --------------------------------------------------------------------------------- */

static void chunks_are_torch_chunk(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 60; n++) {
        for (int64_t parts = 1; parts <= 20; parts++) {
            for (int64_t i = 0; i < parts; i++) {
                int64_t offset, extent, expected_offset, expected;
                weft_part_range(weft_shard(0), n, parts, i, &offset, &extent);
                reference_chunk(n, parts, 0, i, &expected_offset, &expected);
                assert_int_equal(extent, expected);
                assert_int_equal(offset, expected_offset);
            }
        }
    }
}

static void chunks_of_very_large_dimensions(void **state)
{
    (void)state;
    int64_t offset, extent;
    weft_part_range(weft_shard(0), INT64_MAX, 3, 2, &offset, &extent);
    assert_true(offset + extent == INT64_MAX && extent > 0);
    weft_part_range(weft_shard(0), INT64_MAX, INT64_MAX, INT64_MAX - 1, &offset, &extent);
    assert_true(offset == INT64_MAX - 1 && extent == 1);
    weft_part_range(weft_shard(0), 5, INT64_MAX, INT64_MAX - 1, &offset, &extent);
    assert_true(offset == 5 && extent == 0);
}

static void expect_rows(int mesh_ndim, const int64_t mesh_shape[], const char *placements, int64_t rows,
                        const int64_t expected[])
{
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(mesh_ndim, mesh_shape, NULL);
    const weft_layout *layout = layout_of(table, mesh, placements, 2, (int64_t[]){ rows, 3 }, WEFT_F32);
    int64_t begin = 0;
    for (int rank = 0; rank < mesh->num_ranks; rank++) {
        weft_box box;
        assert_true(weft_layout_shard_box(layout, rank, &box));
        assert_int_equal(box.extent[0], expected[rank]);
        assert_int_equal(weft_layout_shard_count(layout, rank), expected[rank] * 3);
        if (expected[rank] > 0) {
            assert_int_equal(box.offset[0], begin);
            assert_int_equal(box.offset[1], 0);
            assert_int_equal(box.extent[1], 3);
        }
        begin += expected[rank];
    }
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

static void documented_examples(void **state)
{
    (void)state;
    expect_rows(2, (int64_t[]){ 2, 2 }, "S0,S0", 5, (int64_t[]){ 2, 1, 1, 1 });
    expect_rows(1, (int64_t[]){ 4 }, "S0", 5, (int64_t[]){ 2, 2, 1, 0 });
    expect_rows(1, (int64_t[]){ 4 }, "S0", 4, (int64_t[]){ 1, 1, 1, 1 });
    expect_rows(1, (int64_t[]){ 4 }, "S0", 3, (int64_t[]){ 1, 1, 1, 0 });
    expect_rows(1, (int64_t[]){ 4 }, "S0", 0, (int64_t[]){ 0, 0, 0, 0 });
    expect_rows(2, (int64_t[]){ 2, 3 }, "S0,S0", 7, (int64_t[]){ 2, 2, 0, 1, 1, 1 });
    expect_rows(3, (int64_t[]){ 2, 1, 2 }, "S0,S0,S0", 1, (int64_t[]){ 1, 0, 0, 0 });
}

/* Every element is held as often as the Replicate and Partial dimensions say. */
static void shards_cover_the_tensor(void **state)
{
    (void)state;
    prng random = prng_start(14);
    for (int i = 0; i < 3000; i++) {
        weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_layout(&random, table, &mesh);
        weft_box whole = weft_box_whole(layout->ndim, layout->shape);
        int64_t count = weft_box_count(layout->ndim, &whole), copies = 1;
        for (int m = 0; m < mesh->ndim; m++) {
            copies *= layout->placements[m].kind == WEFT_SHARD ? 1 : mesh->shape[m];
        }
        int *held = calloc((size_t)count + 1, sizeof(*held));
        for (int rank = 0; rank < 16; rank++) {
            weft_box box;
            int64_t index = weft_mesh_index_of(mesh, rank);
            assert_int_equal(weft_layout_shard_box(layout, rank, &box), index >= 0);
            assert_int_equal(weft_layout_has_rank(layout, rank), index >= 0);
            if (index < 0) {
                assert_int_equal(weft_layout_shard_count(layout, rank), 0);
                for (int d = 0; d < layout->ndim; d++) {
                    assert_int_equal(box.extent[d], 0);
                }
                continue;
            }
            weft_box expected = reference_box(layout, index);
            int64_t size = weft_box_count(layout->ndim, &expected);
            assert_int_equal(weft_layout_shard_count(layout, rank), size);
            if (size == 0) {
                continue;
            }
            assert_true(weft_box_equal(layout->ndim, &box, &expected));
            int64_t element[WEFT_MAX_DIMS];
            memcpy(element, box.offset, sizeof(element));
            do {
                held[element_number(layout->ndim, layout->shape, element)]++;
            } while (next_element(layout->ndim, &box, element));
        }
        for (int64_t e = 0; e < count; e++) {
            assert_int_equal(held[e], copies);
        }
        free(held);
        weft_mesh_delete(mesh);
        weft_layout_table_delete(table);
    }
}

static void empty_chunks_keep_the_other_extents(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 4 }, NULL);
    const weft_layout *layout = layout_of(table, mesh, "S0", 2, (int64_t[]){ 5, 3 }, WEFT_F32);
    weft_box box;
    weft_layout_coordinate_box(layout, (int64_t[]){ 3 }, &box);
    assert_true(weft_box_equal(2, &box, &(weft_box){ { 5, 0 }, { 0, 3 } }));
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_meet_or_do_not),
        cmocka_unit_test(intersections_hold_what_both_hold),
        cmocka_unit_test(meshes_that_cannot_be),
        cmocka_unit_test(names_are_copied_and_may_be_missing),
        cmocka_unit_test(same_meshes),
        cmocka_unit_test(ranks_and_positions_are_inverse),
        cmocka_unit_test(texts_that_are_placements),
        cmocka_unit_test(texts_that_are_not),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(printing_into_too_little_room),
        cmocka_unit_test(placements_become_canonical),
        cmocka_unit_test(placements_out_of_range),
        cmocka_unit_test(chunks_are_torch_chunk),
        cmocka_unit_test(chunks_of_very_large_dimensions),
        cmocka_unit_test(documented_examples),
        cmocka_unit_test(shards_cover_the_tensor),
        cmocka_unit_test(empty_chunks_keep_the_other_extents),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
