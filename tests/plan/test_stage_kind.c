/* src/plan: the collective that a stage is. Names of stages compared with a table, and the meaning of each
 * name with the receives of random stages. */
#include "plan_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a table ------------------------------------------------------------------------------------------- */

typedef struct row {
    row_place place;
    const char *from, *to, *kind, *along; /* along: '1' for a mesh dimension, else '0' */
} row;

/* On a 2 x 4 mesh, of f32[64, 64]. */
static const row rows[] = {
    { THIS_ROW, "S0,R", "R,R", "all-gather", "10" },
    { THIS_ROW, "R,S1", "R,R", "all-gather", "01" },
    { THIS_ROW, "S0,S0", "R,R", "all-gather", "11" },
    { THIS_ROW, "S0,S1", "R,R", "all-gather", "11" },
    { THIS_ROW, "S0,S0", "S0,R", "all-gather", "01" },
    { THIS_ROW, "S0,S0", "R,S0", "general", "00" }, /* chunks of chunks become chunks of the whole */
    { THIS_ROW, "P,S0", "P,R", "all-gather", "01" },
    { THIS_ROW, "P,R", "S0,R", "reduce-scatter", "10" },
    { THIS_ROW, "P,P", "S0,S0", "reduce-scatter", "11" },
    { THIS_ROW, "P,P", "S0,S1", "reduce-scatter", "11" },
    { THIS_ROW, "P,S0", "S1,S0", "reduce-scatter", "10" },
    { THIS_ROW, "P,S0", "S0,S0", "general", "00" },
    { THIS_ROW, "S0,P", "S0,S0", "reduce-scatter", "01" },
    { THIS_ROW, "P,R", "R,R", "all-reduce", "10" },
    { THIS_ROW, "P(max),S1", "R,S1", "all-reduce", "10" },
    { THIS_ROW, "P,P", "R,R", "all-reduce", "11" },
    { THIS_ROW, "P,P", "P,R", "all-reduce", "01" },
    { THIS_ROW, "P,P", "S0,R", "general", "00" },
    { THIS_ROW, "S0,R", "S1,R", "all-to-all", "10" },
    { THIS_ROW, "R,S1", "R,S0", "all-to-all", "01" },
    { THIS_ROW, "S0,S0", "S0,S1", "all-to-all", "01" },
    { THIS_ROW, "S0,S1", "S1,S1", "general", "00" },
    { THIS_ROW, "S0,S1", "S1,S0", "general", "00" },
    { THIS_ROW, "R,R", "S0,R", "local", "10" },
    { THIS_ROW, "R,R", "S1,S0", "local", "11" },
    { THIS_ROW, "R,S0", "S0,S0", "general", "00" },
    { THIS_ROW, "S0,R", "S0,S0", "local", "01" },
    { THIS_ROW, "R,S0", "S0,R", "general", "00" },
    { THIS_ROW, "S0@1,S0", "R,S0", "all-gather", "10" }, /* fully sharded over tensor parallel */
    { THIS_ROW, "P,S0", "S0@1,S0", "reduce-scatter", "10" },
    { THIS_ROW, "R,S0", "S0@1,S0", "local", "10" },
    { THIS_ROW, "S0@1,S0", "S0@1,S1", "general", "00" },
    { THIS_ROW, "S0@1,S0", "S1,S0", "all-to-all", "10" },
    { THIS_ROW, "S0@1,S0", "R,R", "all-gather", "11" },
    { THIS_ROW, "S0@1,S0", "S0,S0", "general", "00" },
    { THIS_ROW, "S0@1,S0", "S0,R", "general", "00" },
};

static const char *flags(const bool along[], int n, char text[])
{
    for (int m = 0; m < n; m++) {
        text[m] = along[m] ? '1' : '0';
    }
    text[n] = '\0';
    return text;
}

static weft_stage stage_between(const weft_layout *from, const weft_layout *to)
{
    weft_stage stage = { .from = from, .to = to, .scale = 1.0, .op = WEFT_SUM };
    for (int m = 0; m < from->mesh->ndim; m++) {
        bool stays = from->mesh == to->mesh && to->placements[m].kind == WEFT_PARTIAL;
        stage.reduces = stage.reduces || (from->placements[m].kind == WEFT_PARTIAL && !stays);
    }
    return stage;
}

static void test_table(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(rows); i++) {
        enter_row(rows[i].place, __func__);
        const int64_t shape[] = { 64, 64 };
        weft_stage stage = stage_between(layout_of(f->table, m, rows[i].from, 2, shape, WEFT_F32),
                                         layout_of(f->table, m, rows[i].to, 2, shape, WEFT_F32));
        bool along[WEFT_MAX_DIMS];
        char text[WEFT_MAX_DIMS + 1];
        assert_string_equal(weft_stage_kind_name(weft_stage_kind_of(&stage, along)), rows[i].kind);
        assert_string_equal(flags(along, 2, text), rows[i].along);
    }
    leave_rows();
}

/* Mesh dimensions of one rank change nothing. */
static void test_dimensions_of_one_rank(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 3, (int64_t[]){ 1, 4, 1 });
    const int64_t shape[] = { 64, 64 };
    weft_stage stage = stage_between(layout_of(f->table, m, "S1,S0,S0", 2, shape, WEFT_F32),
                                     layout_of(f->table, m, "R,R,S1", 2, shape, WEFT_F32));
    bool along[WEFT_MAX_DIMS];
    char text[WEFT_MAX_DIMS + 1];
    assert_int_equal(weft_stage_kind_of(&stage, along), WEFT_STAGE_ALL_GATHER);
    assert_string_equal(flags(along, 3, text), "010");
}

static void test_roots(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *one = mesh(f, 1, (int64_t[]){ 1 }), *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    const int64_t shape[] = { 64, 64 };
    static const struct {
        row_place place;
        const char *placements;
        weft_stage_kind from_root, to_root;
    } cases[] = {
        { THIS_ROW, "R,R", WEFT_STAGE_BROADCAST, WEFT_STAGE_GENERAL },
        { THIS_ROW, "S0,S1", WEFT_STAGE_SCATTER, WEFT_STAGE_GATHER },
        { THIS_ROW, "S0,R", WEFT_STAGE_GENERAL, WEFT_STAGE_GENERAL },
        { THIS_ROW, "P,P", WEFT_STAGE_GENERAL, WEFT_STAGE_REDUCE },
        { THIS_ROW, "P,R", WEFT_STAGE_GENERAL, WEFT_STAGE_GENERAL },
    };
    const weft_layout *root = layout_of(f->table, one, "R", 2, shape, WEFT_F32);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        enter_row(cases[i].place, __func__);
        const weft_layout *spread = layout_of(f->table, m, cases[i].placements, 2, shape, WEFT_F32);
        bool along[WEFT_MAX_DIMS];
        weft_stage from_root = stage_between(root, spread), to_root = stage_between(spread, root);
        assert_int_equal(weft_stage_kind_of(&from_root, along), cases[i].from_root);
        assert_int_equal(weft_stage_kind_of(&to_root, along), cases[i].to_root);
    }
    leave_rows();
}

/* ---- access maps --------------------------------------------------------------------------------------- */

static weft_stage_kind kind_of_map(fixture *f, weft_window window, int64_t rows_of_output, int64_t turn,
                                   bool along[])
{
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 });
    const weft_layout *from = layout_of(f->table, m, "S0", 1, (int64_t[]){ 64 }, WEFT_F32);
    weft_access_map map;
    const int64_t needed[] = { rows_of_output };
    assert_true(weft_access_map_make(f->table, from, needed, &window, NULL, &map));
    map.turn[0] = turn;
    weft_stage stage = { .from = from, .to = from, .access_map = &map, .scale = 1.0 };
    return weft_stage_kind_of(&stage, along);
}

static void test_access_maps(void **state)
{
    fixture *f = *state;
    bool along[WEFT_MAX_DIMS];
    assert_int_equal(
        kind_of_map(f, (weft_window){ .times = 1, .over = 1, .before = 2, .after = 1 }, 64, 0, along),
        WEFT_STAGE_HALO);
    assert_true(along[0]);
    assert_int_equal(kind_of_map(f, (weft_window){ .times = 1, .over = 1 }, 64, 1, along), WEFT_STAGE_SHIFT);
    assert_true(along[0]);
    assert_int_equal(kind_of_map(f, (weft_window){ .times = 1, .over = 1 }, 64, 0, along), WEFT_STAGE_LOCAL);
    assert_int_equal(kind_of_map(f, (weft_window){ .times = 2, .over = 1, .after = 1 }, 32, 0, along),
                     WEFT_STAGE_GENERAL);
    assert_int_equal(
        kind_of_map(f, (weft_window){ .times = 1, .over = 1, .before = -8, .after = 8 }, 56, 0, along),
        WEFT_STAGE_GENERAL);
    assert_int_equal(
        kind_of_map(f, (weft_window){ .times = -1, .over = 1, .before = -63, .after = 63 }, 64, 0, along),
        WEFT_STAGE_GENERAL);
}

/* ---- promises ------------------------------------------------------------------------------------------ */

/* The two ranks differ along these mesh dimensions at most. */
static bool in_one_group(const weft_mesh_impl *m, const bool along[], int a, int b)
{
    int64_t first[WEFT_MAX_DIMS], second[WEFT_MAX_DIMS];
    weft_mesh_unravel(m, weft_mesh_index_of(m, a), first);
    weft_mesh_unravel(m, weft_mesh_index_of(m, b), second);
    for (int d = 0; d < m->ndim; d++) {
        if (!along[d] && first[d] != second[d]) {
            return false;
        }
    }
    return true;
}

static int64_t group_size(const weft_mesh_impl *m, const bool along[])
{
    int64_t size = 1;
    for (int d = 0; d < m->ndim; d++) {
        size *= along[d] ? m->shape[d] : 1;
    }
    return size;
}

/* Whether one received box is what the kind means. */
static void check_receive(const weft_stage *stage, weft_stage_kind kind, int rank, const weft_transfer *r)
{
    int ndim = stage->from->ndim;
    weft_box source, target;
    weft_layout_shard_box(stage->from, r->peer, &source);
    weft_layout_shard_box(stage->to, rank, &target);
    if (kind == WEFT_STAGE_LOCAL) {
        assert_int_equal(r->peer, rank);
    } else if (kind == WEFT_STAGE_ALL_GATHER) {
        assert_true(weft_box_equal(ndim, &r->box, &source));
    } else if (kind == WEFT_STAGE_REDUCE_SCATTER) {
        assert_true(weft_box_equal(ndim, &r->box, &target));
    } else if (kind == WEFT_STAGE_ALL_REDUCE) {
        assert_true(weft_box_equal(ndim, &r->box, &target) && weft_box_equal(ndim, &r->box, &source));
    } else if (kind == WEFT_STAGE_ALL_TO_ALL) {
        assert_true(weft_box_intersect(ndim, &source, &target, &source));
        assert_true(weft_box_equal(ndim, &r->box, &source));
    }
}

/* With one rank per process each takes the replica at its own coordinates. */
static void check_promises(const weft_stage *stage, const weft_topology *topology)
{
    bool along[WEFT_MAX_DIMS];
    weft_stage_kind kind = weft_stage_kind_of(stage, along);
    const weft_mesh_impl *m = stage->from->mesh;
    if (kind == WEFT_STAGE_GENERAL || m != stage->to->mesh) {
        return;
    }
    bool reduces = kind == WEFT_STAGE_ALL_REDUCE || kind == WEFT_STAGE_REDUCE_SCATTER;
    assert_true(stage->reduces == reduces);
    for (int64_t i = 0; i < m->num_ranks; i++) {
        int rank = weft_mesh_rank_at(m, i);
        weft_transfers received = { 0 };
        assert_int_equal(weft_stage_receives(stage, topology, rank, &received), WEFT_OK);
        for (size_t k = 0; k < received.count; k++) {
            assert_true(in_one_group(m, along, rank, received.items[k].peer));
            check_receive(stage, kind, rank, &received.items[k]);
        }
        bool empty = weft_layout_shard_count(stage->to, rank) == 0;
        assert_true(!reduces || (int64_t)received.count == (empty ? 0 : group_size(m, along)));
        weft_transfers_free(&received);
    }
}

static void test_promises(void **state)
{
    fixture *f = *state;
    enum { CASES = 3000, WORLD = 24 };
    prng random = prng_start(5);
    int counts[WEFT_STAGE_KINDS] = { 0 };
    for (int i = 0; i < CASES; i++) {
        weft_mesh_impl *m = drawn_mesh(&random, WORLD, WORLD);
        int64_t shape[WEFT_MAX_DIMS];
        int ndim = drawn_shape(&random, 3, 20, 4000, shape);
        weft_placement first[WEFT_MAX_DIMS], last[WEFT_MAX_DIMS];
        drawn_placements(&random, m, ndim, prng_below(&random, 2) == 0, first);
        drawn_placements(&random, m, ndim, false, last);
        for (int d = 0; d < m->ndim; d++) { /* often all but one stay as they are */
            last[d] = prng_below(&random, 2) == 0 ? first[d] : last[d];
        }
        weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        const weft_layout *from = weft_layout_intern(table, m, first, ndim, shape, WEFT_F32);
        const weft_layout *to = weft_layout_intern(table, m, last, ndim, shape, WEFT_F32);
        weft_topology topology = { WORLD, WORLD, NULL };
        weft_plan plan;
        char why[200];
        if (weft_plan_make(table, &topology, &f->cost, from, to, &plan, why, sizeof(why)) == WEFT_OK) {
            for (int k = 0; k < plan.num_stages; k++) {
                bool along[WEFT_MAX_DIMS];
                counts[weft_stage_kind_of(&plan.stages[k], along)]++;
                weft_stage direct = plan.stages[k];
                direct.algorithm = WEFT_DIRECT; /* forwarded boxes come from others of the group */
                check_promises(&direct, &topology);
            }
        }
        weft_layout_table_delete(table);
        weft_mesh_delete(m);
    }
    for (int kind = WEFT_STAGE_GENERAL; kind <= WEFT_STAGE_ALL_TO_ALL; kind++) {
        print_message("%-14s %d\n", weft_stage_kind_name((weft_stage_kind)kind), counts[kind]);
        assert_true(counts[kind] > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(test_dimensions_of_one_rank, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(test_roots, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(test_access_maps, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(test_promises, fixture_new, fixture_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
