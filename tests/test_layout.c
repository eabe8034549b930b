/* src/layout: boxes, meshes, placements, interned layouts, panels. */
#include "plan_support.h"

#include <math.h>
#include <stdio.h>
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
        weft_mesh_impl *mesh = random_mesh(&random, world, world);
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
    assert_string_equal(weft_placements_format(out, n, again, sizeof(again)), formatted);
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
    static const struct {
        const char *text;
        int n;
    } bad[] = {
        { NULL, 1 },          { "R", -1 },
        { "R", 9 },           { "", 1 },
        { "R", 2 },           { "R,R", 1 },
        { "R,", 1 },          { "R,", 2 },
        { ",R", 1 },          { "Q", 1 },
        { "S", 1 },           { "S(", 1 },
        { "S()", 1 },         { "S(0", 1 },
        { "S(x)", 1 },        { "S0)", 1 },
        { "S--1", 1 },        { "P(", 1 },
        { "P()", 1 },         { "P(sum", 1 },
        { "P(mean)", 1 },     { "P(summ)", 1 },
        { "Psum", 1 },        { "R R", 2 },
        { "RR", 2 },          { "S0 R", 2 },
        { "R;R", 2 },         { "[R]", 1 },
        { "R", 0 },           { "S99999999999999999999", 1 },
        { "S2147483648", 1 }, { "S0x", 1 },
        { "Shard(0)", 1 },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
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
    assert_int_equal(weft_placements_read("R", 1, NULL, NULL, 0), WEFT_ERR_INVALID);
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    prng random = prng_start(13);
    for (int i = 0; i < 3000; i++) {
        weft_mesh_impl *mesh = random_mesh(&random, 12, 12);
        weft_placement placements[WEFT_MAX_DIMS], again[WEFT_MAX_DIMS];
        random_placements(&random, mesh, (int)prng_below(&random, 9), true, placements);
        char text[100];
        weft_placements_format(placements, mesh->ndim, text, sizeof(text));
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

/* Any room gives a prefix, terminated, with nothing written behind it. */
static void printing_into_too_little_room(void **state)
{
    (void)state;
    const weft_placement placements[] = { weft_shard(0), weft_partial(WEFT_PROD), weft_replicate() };
    const char *whole = "[S0,P(prod),R]";
    for (size_t size = 1; size <= strlen(whole) + 3; size++) {
        char text[40];
        memset(text, '#', sizeof(text));
        assert_ptr_equal(weft_placements_format(placements, 3, text, size), text);
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
                weft_chunk_range(n, parts, i, &offset, &extent);
                reference_chunk(n, parts, i, &expected_offset, &expected);
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
    weft_chunk_range(INT64_MAX, 3, 2, &offset, &extent);
    assert_true(offset + extent == INT64_MAX && extent > 0);
    weft_chunk_range(INT64_MAX, INT64_MAX, INT64_MAX - 1, &offset, &extent);
    assert_true(offset == INT64_MAX - 1 && extent == 1);
    weft_chunk_range(5, INT64_MAX, INT64_MAX - 1, &offset, &extent);
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

/* A layout of this table, of a random tensor on a random mesh, which the caller deletes. */
static const weft_layout *random_layout(prng *random, weft_layout_table *table, weft_mesh_impl **mesh)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    *mesh = random_mesh(random, 16, 12);
    int ndim = random_shape(random, 4, 17, 3000, shape);
    random_placements(random, *mesh, ndim, true, placements);
    return weft_layout_intern(table, *mesh, placements, ndim, shape,
                              (weft_dtype)prng_below(random, WEFT_DTYPE_COUNT));
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

/* ---- interning ----------------------------------------------------------------------------------------- */

static void equal_layouts_are_one(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ 2, 2 }, NULL),
                   *other = mesh_of(2, (int64_t[]){ 2, 2 }, NULL);
    const int64_t shape[] = { 5, 3 }, turned[] = { 3, 5 };
    const weft_layout *layout = layout_of(table, mesh, "S0,R", 2, shape, WEFT_F32);
    assert_ptr_equal(layout, layout_of(table, mesh, "S(-2),R", 2, shape, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "R,S0", 2, shape, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "S1,R", 2, shape, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "S0,P", 2, shape, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "S0,R", 2, turned, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "S0,R", 1, shape, WEFT_F32));
    assert_ptr_not_equal(layout, layout_of(table, mesh, "S0,R", 2, shape, WEFT_I32));
    assert_ptr_not_equal(layout, layout_of(table, other, "S0,R", 2, shape, WEFT_F32));
    assert_ptr_not_equal(layout_of(table, mesh, "R,P(sum)", 2, shape, WEFT_F32),
                         layout_of(table, mesh, "R,P(max)", 2, shape, WEFT_F32));
    assert_false(layout->has_partial);
    assert_true(layout_of(table, mesh, "S0,P", 2, shape, WEFT_F32)->has_partial);
    assert_memory_equal(layout->shape, shape, sizeof(shape));
    weft_mesh_delete(mesh);
    weft_mesh_delete(other);
    weft_layout_table_delete(table);
    weft_layout_table_delete(NULL);
}

/* What processes compare: nothing of it is an address, and the ranks are the mesh's own. */
static void digests_are_of_values(void **state)
{
    (void)state;
    static const struct {
        int mesh_ndim;
        int64_t mesh_shape[2];
        const char *placements;
        int ndim;
        int64_t shape[2];
        weft_dtype dtype;
    } all[] = {
        { 2, { 2, 2 }, "S0,R", 2, { 5, 3 }, WEFT_F32 }, { 2, { 2, 2 }, "S0,R", 2, { 5, 3 }, WEFT_I32 },
        { 2, { 2, 2 }, "S0,R", 2, { 3, 5 }, WEFT_F32 }, { 2, { 2, 2 }, "S0,R", 1, { 5 }, WEFT_F32 },
        { 2, { 4, 1 }, "S0,R", 2, { 5, 3 }, WEFT_F32 }, { 1, { 4 }, "S0", 2, { 5, 3 }, WEFT_F32 },
        { 2, { 2, 2 }, "R,S0", 2, { 5, 3 }, WEFT_F32 }, { 2, { 2, 2 }, "S1,R", 2, { 5, 3 }, WEFT_F32 },
        { 2, { 2, 2 }, "S0,P", 2, { 5, 3 }, WEFT_F32 },
    };
    enum { COUNT = sizeof(all) / sizeof(*all), SAME_SHAPES_FROM = 6 };
    weft_layout_table *tables[2];
    weft_mesh_impl *meshes[COUNT][2];
    const weft_layout *layouts[COUNT][2];
    for (int t = 0; t < 2; t++) {
        tables[t] = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        for (int i = 0; i < COUNT; i++) {
            meshes[i][t] =
                mesh_of(all[i].mesh_ndim, all[i].mesh_shape, t == 0 ? NULL : (int[]){ 3, 1, 0, 2 });
            layouts[i][t] = layout_of(tables[t], meshes[i][t], all[i].placements, all[i].ndim, all[i].shape,
                                      all[i].dtype);
        }
    }
    assert_true(meshes[0][0]->digest != meshes[0][1]->digest);
    for (int i = 0; i < COUNT; i++) {
        assert_true(layouts[i][0]->digest == layouts[i][1]->digest);
        assert_true(layouts[i][0]->shape_digest == layouts[i][1]->shape_digest);
        for (int k = 0; k < i; k++) {
            bool same_shape = i >= SAME_SHAPES_FROM && (k == 0 || k >= SAME_SHAPES_FROM);
            assert_true(layouts[i][0]->digest != layouts[k][1]->digest);
            assert_int_equal(layouts[i][0]->shape_digest == layouts[k][1]->shape_digest, same_shape);
        }
    }
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < COUNT; i++) {
            weft_mesh_delete(meshes[i][t]);
        }
        weft_layout_table_delete(tables[t]);
    }
}

static void thousands_of_layouts_stay_found(void **state)
{
    (void)state;
    enum { LAYOUTS = 5000 };
    static const weft_layout *layouts[LAYOUTS];
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 4 }, NULL);
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < LAYOUTS; i++) {
            const weft_layout *layout =
                layout_of(table, mesh, "S0", 2, (int64_t[]){ i % 70, i / 70 }, WEFT_F32);
            assert_true(round == 0 || layout == layouts[i]);
            layouts[i] = layout;
        }
    }
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

static void layouts_in_words(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(2, (int64_t[]){ 2, 2 }, NULL);
    char text[100], little[8];
    const weft_layout *layout = layout_of(table, mesh, "S0,R", 2, (int64_t[]){ 5, 3 }, WEFT_F32);
    assert_string_equal(weft_layout_format(layout, text, sizeof(text)), "f32[5, 3] [S0,R] on 2x2");
    assert_string_equal(weft_layout_format(layout, little, sizeof(little)), "f32[5, ");
    layout = layout_of(table, mesh, "P(max),R", 0, NULL, WEFT_I64);
    assert_string_equal(weft_layout_format(layout, text, sizeof(text)), "i64[] [P(max),R] on 2x2");
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

static void the_longest_layout_in_words(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    const int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const int64_t shape[8] = {
        0, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX
    };
    weft_mesh_impl *mesh = mesh_of(8, ones, NULL);
    const char *placements = "P(prod),P(prod),P(prod),P(prod),P(prod),P(prod),P(prod),P(prod)";
    char text[600];
    weft_layout_format(layout_of(table, mesh, placements, 8, shape, WEFT_BF16), text, sizeof(text));
    assert_non_null(strstr(text, "P(prod)] on 1x1x1x1x1x1x1x1"));
    assert_non_null(strstr(text, "9223372036854775807] "));
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* ---- panels -------------------------------------------------------------------------------------------- */

static bool is_power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static void check_panels(const weft_layout *layout, const weft_box *box)
{
    int64_t count = weft_panel_count(layout, box);
    if (weft_box_count(layout->ndim, box) == 0) {
        assert_int_equal(count, 0);
        return;
    }
    int64_t begin = layout->ndim == 0 ? 0 : box->offset[0],
            end = layout->ndim == 0 ? 1 : begin + box->extent[0];
    int64_t at = begin;
    assert_true(count >= 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t first, last;
        weft_panel_range(layout, box, i, &first, &last);
        assert_int_equal(first, at);
        assert_true(last > first);
        assert_true(last - first <= layout->panel_rows);
        assert_true(i == 0 || first % layout->panel_rows == 0);
        assert_true(i == count - 1 || last % layout->panel_rows == 0);
        for (int64_t row = first; row < last; row++) {
            assert_int_equal(weft_panel_of_row(layout, box, row), i);
        }
        at = last;
    }
    assert_int_equal(at, end);
}

static void panels_tile_shards_at_global_multiples(void **state)
{
    (void)state;
    prng random = prng_start(15);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = {
            .target_bytes = 1 + prng_below(&random, 200),
            .max_panels = 1 + prng_below(&random, 9),
            .forced_rows = prng_below(&random, 3) == 0 ? 1 + prng_below(&random, 7) : 0,
        };
        weft_layout_table *table = weft_layout_table_new(policy);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_layout(&random, table, &mesh);
        assert_true(policy.forced_rows > 0 ? layout->panel_rows == policy.forced_rows
                                           : is_power_of_two(layout->panel_rows));
        for (int64_t index = 0; index < mesh->num_ranks; index++) {
            weft_box box = reference_box(layout, index);
            check_panels(layout, &box);
        }
        weft_mesh_delete(mesh);
        weft_layout_table_delete(table);
    }
}

/* A panel is about the target or larger, and a shard has about max_panels at most: one more where its
 * first row is no multiple of the height. */
static void panel_heights_follow_the_policy(void **state)
{
    (void)state;
    prng random = prng_start(16);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = { .target_bytes = 1 + prng_below(&random, 400),
                                     .max_panels = 1 + prng_below(&random, 9) };
        weft_layout_table *table = weft_layout_table_new(policy);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_layout(&random, table, &mesh);
        weft_box largest = reference_box(layout, 0);
        int64_t bytes = weft_box_count(layout->ndim, &largest) * (int64_t)weft_dtype_size(layout->dtype);
        for (int64_t index = 0; index < mesh->num_ranks && bytes > 0; index++) {
            weft_box box = reference_box(layout, index);
            int64_t count = weft_panel_count(layout, &box);
            assert_true(count <= policy.max_panels + 1);
            if (bytes <= policy.target_bytes) {
                assert_true(count <= 1);
            }
            if (count > 2) {
                int64_t row_bytes = weft_box_count(layout->ndim, &box) / box.extent[0] *
                                    (int64_t)weft_dtype_size(layout->dtype);
                int64_t most = bytes / largest.extent[0];
                assert_true(layout->panel_rows * weft_max_i64(row_bytes, most) >= policy.target_bytes);
            }
        }
        weft_mesh_delete(mesh);
        weft_layout_table_delete(table);
    }
}

static void panel_heights_by_default(void **state)
{
    (void)state;
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 2 }, NULL);
    weft_box box;
    /* 64 MiB in each of two shards: as many panels as there may be. */
    const weft_layout *layout = layout_of(table, mesh, "S0", 2, (int64_t[]){ 8192, 4096 }, WEFT_F32);
    weft_layout_shard_box(layout, 1, &box);
    assert_int_equal(weft_panel_count(layout, &box), 32);
    assert_int_equal(layout->panel_rows, 128);
    /* 4 KiB: one. */
    layout = layout_of(table, mesh, "S0", 2, (int64_t[]){ 64, 32 }, WEFT_F32);
    weft_layout_shard_box(layout, 1, &box);
    assert_int_equal(weft_panel_count(layout, &box), 1);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* ---- heights from the cost model ----------------------------------------------------------------------- */

static weft_panel_policy random_policy(prng *random)
{
    return (weft_panel_policy){ .byte_us = 1.0 / (double)(1 + prng_below(random, 5000)),
                                .panel_us = 0.5 + (double)prng_below(random, 40),
                                .min_bytes = 1 + prng_below(random, 200000),
                                .min_rows = 1 << prng_below(random, 8),
                                .max_panels = 2 + prng_below(random, 63) };
}

/* Of a tensor of so many rows on one rank. */
static int64_t height_of(const weft_panel_policy *policy, int64_t rows, int64_t columns)
{
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 1 }, NULL);
    weft_placement whole = weft_replicate();
    int64_t height = weft_panel_rows(policy, mesh, &whole, 2, (int64_t[]){ rows, columns }, WEFT_F32);
    weft_mesh_delete(mesh);
    return height;
}

static void heights_are_powers_of_two_within_bounds(void **state)
{
    (void)state;
    prng random = prng_start(17);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = random_policy(&random);
        int64_t rows = prng_below(&random, 20000), columns = 1 + prng_below(&random, 3000);
        int64_t height = height_of(&policy, rows, columns);
        assert_true(is_power_of_two(height));
        if (height < rows) {
            assert_true(weft_ceil_div(rows, height) <= policy.max_panels);
            assert_true(height * columns * 4 >= policy.min_bytes);
            assert_true(height >= policy.min_rows || height >= rows / 4);
            /* not much higher than what some bound asks for */
            double panels = sqrt((double)(rows * columns * 4) * policy.byte_us / policy.panel_us);
            double lower = (double)height / 2 - 1;
            assert_true(lower <= (double)rows / (panels > 1 ? panels : 1) ||
                        lower <= (double)policy.min_rows ||
                        lower * (double)columns * 4 <= (double)policy.min_bytes ||
                        lower <= (double)rows / (double)policy.max_panels + 1);
        }
    }
}

/* Slower links and cheaper panels make for lower panels; larger shards never do. */
static void heights_are_monotone(void **state)
{
    (void)state;
    prng random = prng_start(18);
    for (int i = 0; i < 3000; i++) {
        weft_panel_policy policy = random_policy(&random), slower = policy, dearer = policy;
        slower.byte_us *= 1 + (double)prng_below(&random, 10);
        dearer.panel_us *= 1 + (double)prng_below(&random, 10);
        int64_t rows = 2 + prng_below(&random, 20000), columns = 1 + prng_below(&random, 3000);
        int64_t height = height_of(&policy, rows, columns);
        assert_true(height_of(&slower, rows, columns) <= height);
        assert_true(height_of(&dearer, rows, columns) >= height);
        int64_t more = height_of(&policy, rows + prng_below(&random, 20000), columns);
        assert_true(height > rows || more >= height);
    }
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
        cmocka_unit_test(equal_layouts_are_one),
        cmocka_unit_test(digests_are_of_values),
        cmocka_unit_test(thousands_of_layouts_stay_found),
        cmocka_unit_test(layouts_in_words),
        cmocka_unit_test(the_longest_layout_in_words),
        cmocka_unit_test(panels_tile_shards_at_global_multiples),
        cmocka_unit_test(panel_heights_follow_the_policy),
        cmocka_unit_test(panel_heights_by_default),
        cmocka_unit_test(heights_are_powers_of_two_within_bounds),
        cmocka_unit_test(heights_are_monotone),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
