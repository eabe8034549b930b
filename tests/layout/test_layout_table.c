/* src/layout: layouts that are interned, their digests, and their texts. */
#include "plan_support.h"

#include <string.h>

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

/* Digests, which processes compare, contain no addresses, and the mesh's own ranks. */
static void digests_are_of_values(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        int mesh_ndim;
        int64_t mesh_shape[2];
        const char *placements;
        int ndim;
        int64_t shape[2];
        weft_dtype dtype;
    } all[] = {
        { THIS_ROW, 2, { 2, 2 }, "S0,R", 2, { 5, 3 }, WEFT_F32 },
        { THIS_ROW, 2, { 2, 2 }, "S0,R", 2, { 5, 3 }, WEFT_I32 },
        { THIS_ROW, 2, { 2, 2 }, "S0,R", 2, { 3, 5 }, WEFT_F32 },
        { THIS_ROW, 2, { 2, 2 }, "S0,R", 1, { 5 }, WEFT_F32 },
        { THIS_ROW, 2, { 4, 1 }, "S0,R", 2, { 5, 3 }, WEFT_F32 },
        { THIS_ROW, 1, { 4 }, "S0", 2, { 5, 3 }, WEFT_F32 },
        { THIS_ROW, 2, { 2, 2 }, "R,S0", 2, { 5, 3 }, WEFT_F32 },
        { THIS_ROW, 2, { 2, 2 }, "S1,R", 2, { 5, 3 }, WEFT_F32 },
        { THIS_ROW, 2, { 2, 2 }, "S0,P", 2, { 5, 3 }, WEFT_F32 },
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
        enter_row(all[i].place, __func__);
        assert_true(layouts[i][0]->digest == layouts[i][1]->digest);
        assert_true(layouts[i][0]->shape_digest == layouts[i][1]->shape_digest);
        for (int k = 0; k < i; k++) {
            bool same_shape = i >= SAME_SHAPES_FROM && (k == 0 || k >= SAME_SHAPES_FROM);
            assert_true(layouts[i][0]->digest != layouts[k][1]->digest);
            assert_int_equal(layouts[i][0]->shape_digest == layouts[k][1]->shape_digest, same_shape);
        }
    }
    leave_rows();
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

/* ---- sweeps -------------------------------------------------------------------------------------------- */

/* A sweep leaves the layouts that it met at their addresses, and frees the others, wherever they stand in the table. */
static void a_sweep_keeps_what_it_meets(void **state)
{
    (void)state;
    enum { COUNT = 5000, SWEEPS = 20 };
    static const weft_layout *layouts[COUNT];
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 2 }, NULL);
    for (int64_t i = 0; i < COUNT; i++) {
        layouts[i] = layout_of(table, mesh, "S0", 1, (int64_t[]){ i }, WEFT_F32);
    }
    for (uint64_t k = 0; k < SWEEPS; k++) {
        size_t met = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            bool held = weft_hash_u64(i << 8 | k) % 4 != 0;
            weft_layout_table_meet(table, held ? layouts[i] : NULL);
            met += held;
            layouts[i] = held ? layouts[i] : NULL;
        }
        weft_layout_table_sweep(table);
        assert_int_equal(weft_layout_table_count(table), met);
        for (int64_t i = 0; i < COUNT; i++) {
            const weft_layout *found = layout_of(table, mesh, "S0", 1, (int64_t[]){ i }, WEFT_F32);
            assert_true(layouts[i] == NULL || found == layouts[i]);
            assert_int_equal(found->shape[0], i);
            layouts[i] = found;
        }
        assert_int_equal(weft_layout_table_count(table), COUNT);
    }
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

/* As many more as the last sweep met holders, and those that may be spared. */
static void when_a_sweep_is_due(void **state)
{
    (void)state;
    enum { HELD = 100, SPARE_BYTES = 1 << 16 };
    weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    weft_mesh_impl *mesh = mesh_of(1, (int64_t[]){ 2 }, NULL);
    assert_false(weft_layout_table_is_full(table));
    for (int64_t i = 0; i < HELD; i++) {
        weft_layout_table_meet(table, layout_of(table, mesh, "S0", 1, (int64_t[]){ i }, WEFT_F32));
    }
    assert_true(weft_layout_table_is_full(table));
    weft_layout_table_sweep(table);
    for (int64_t i = HELD; i < 2 * HELD; i++) {
        layout_of(table, mesh, "S0", 1, (int64_t[]){ i }, WEFT_F32);
    }
    assert_false(weft_layout_table_is_full(table));
    layout_of(table, mesh, "S0", 1, (int64_t[]){ 2 * HELD }, WEFT_F32);
    assert_true(weft_layout_table_is_full(table));
    weft_layout_table_spare(table, SPARE_BYTES);
    size_t before = weft_layout_table_count(table);
    for (int64_t i = 2 * HELD; !weft_layout_table_is_full(table); i++) {
        layout_of(table, mesh, "S0", 1, (int64_t[]){ i }, WEFT_F32);
    }
    assert_in_range((weft_layout_table_count(table) - before) * sizeof(weft_layout), SPARE_BYTES / 2,
                    SPARE_BYTES);
    weft_mesh_delete(mesh);
    weft_layout_table_delete(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_layouts_are_one),
        cmocka_unit_test(digests_are_of_values),
        cmocka_unit_test(thousands_of_layouts_stay_found),
        cmocka_unit_test(layouts_in_words),
        cmocka_unit_test(the_longest_layout_in_words),
        cmocka_unit_test(a_sweep_keeps_what_it_meets),
        cmocka_unit_test(when_a_sweep_is_due),
    };
    return cmocka_run_group_tests_name("layout_table", tests, NULL, NULL);
}
