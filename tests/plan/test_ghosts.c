/* What fills the margins of ghosted arrays, without a runtime: every element of every margin against its index. */
#include "plan/ghosts.h"
#include "plan_support.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 3, MOST = 4096 };

/* A random layout in which each dimension is cut once at most; the mesh is the caller's. */
static const weft_layout *random_single_cuts(prng *random, weft_layout_table *table, weft_mesh_impl **mesh)
{
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t shape[MAX_DIMS];
    bool cut[MAX_DIMS] = { false };
    const int ndim = 1 + (int)prng_below(random, MAX_DIMS);
    *mesh = drawn_mesh(random, 24, 12);
    for (int d = 0; d < ndim; d++) {
        shape[d] = prng_below(random, 12) == 0 ? 0 : 1 + prng_below(random, ndim == 1 ? 30 : 9);
    }
    for (int m = 0; m < (*mesh)->ndim; m++) {
        int d = (int)prng_below(random, ndim);
        placements[m] = (weft_placement){ .kind = WEFT_REPLICATE };
        if (!cut[d] && prng_below(random, 5) > 0) {
            placements[m] = (weft_placement){ .kind = WEFT_SHARD, .dim = d, .cut = prng_below(random, 2) ? WEFT_CUT_CHUNKS : WEFT_CUT_BALANCED };
            cut[d] = true;
        }
    }
    drawn_sizes(random, *mesh, ndim, shape, placements);
    return weft_layout_intern(table, *mesh, placements, ndim, shape, WEFT_F32);
}

static weft_ghosts random_ghosts(prng *random, int ndim)
{
    weft_ghosts ghosts = { .star = prng_below(random, 2) };
    for (int d = 0; d < ndim; d++) {
        int64_t most = prng_below(random, 6) == 0 ? 12 : 3;
        ghosts.before[d] = prng_below(random, most);
        ghosts.after[d] = prng_below(random, most);
        ghosts.periodic[d] = prng_below(random, 2);
    }
    return ghosts;
}

/* Where an index of the tensor may lie in a rank's array, in numbers of the padded layout. */
static bool is_held(const weft_layout *layout, int rank, const int64_t index[])
{
    weft_box own;
    bool held = weft_layout_shard_box(layout, rank, &own);
    for (int d = 0; d < layout->ndim; d++) {
        held = held && index[d] >= own.offset[d] && index[d] < own.offset[d] + own.extent[d];
    }
    return held;
}

/* One move: each of its elements goes from a rank's own part to a margin, and is the one that belongs there. Counts the elements of
 * the target's array. */
static void check_move(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, const weft_ghost_move *move,
                       int cells[])
{
    weft_box source, target, from, to;
    weft_layout_shard_box(layout, move->source, &source);
    weft_layout_shard_box(layout, move->target, &target);
    weft_layout_shard_box(padded, move->source, &from);
    weft_layout_shard_box(padded, move->target, &to);
    int64_t count = weft_box_count(layout->ndim, &move->box);
    assert_true(count > 0);
    for (int64_t e = 0; e < count; e++) {
        int64_t rest = e, cell = 0, step = 1, index[MAX_DIMS];
        for (int d = layout->ndim - 1; d >= 0; d--) {
            int64_t number = rest % move->box.extent[d];
            rest /= move->box.extent[d];
            index[d] = move->box.offset[d] + number - from.offset[d] - ghosts->before[d] + source.offset[d];
            int64_t place = move->to[d] + number - to.offset[d], there = place - ghosts->before[d] + target.offset[d];
            assert_in_range(place, 0, to.extent[d] - 1);
            assert_true(there == index[d] || (ghosts->periodic[d] && (there - index[d]) % layout->shape[d] == 0));
            cell += place * step;
            step *= to.extent[d];
        }
        assert_true(is_held(layout, move->source, index));
        cells[cell]++;
    }
}

/* How often an element of an array is to be received. */
static int wanted(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank, int64_t cell)
{
    weft_box own, array;
    weft_layout_shard_box(layout, rank, &own);
    weft_layout_shard_box(padded, rank, &array);
    int margins = 0;
    bool somewhere = true;
    for (int d = layout->ndim - 1; d >= 0; d--) {
        int64_t index = cell % array.extent[d] - ghosts->before[d] + own.offset[d];
        cell /= array.extent[d];
        margins += index < own.offset[d] || index >= own.offset[d] + own.extent[d];
        somewhere = somewhere && (ghosts->periodic[d] || (index >= 0 && index < layout->shape[d]));
    }
    return margins > 0 && somewhere && (margins == 1 || !ghosts->star);
}

static void check_receives(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank, weft_vec *all)
{
    static int cells[1 << 20];
    weft_box array;
    weft_vec moves = { 0 };
    weft_layout_shard_box(padded, rank, &array);
    int64_t count = weft_box_count(layout->ndim, &array);
    assert_true(count < 1 << 20);
    memset(cells, 0, (size_t)count * sizeof(cells[0]));
    assert_true(weft_ghosts_fill(layout, padded, ghosts, rank, true, &moves));
    for (size_t i = 0; i < moves.count; i++) {
        const weft_ghost_move *move = (const weft_ghost_move *)moves.items + i;
        assert_int_equal(move->target, rank);
        check_move(layout, padded, ghosts, move, cells);
        *(weft_ghost_move *)weft_vec_push(all, sizeof(*move)) = *move;
    }
    for (int64_t c = 0; c < count; c++) {
        assert_int_equal(cells[c], wanted(layout, padded, ghosts, rank, c));
    }
    weft_vec_free(&moves);
}

/* The moves of `all` from one rank, in the order in which it sends them. */
static void check_sends(const weft_layout *layout, const weft_layout *padded, const weft_ghosts *ghosts, int rank, const weft_vec *all)
{
    weft_vec moves = { 0 };
    assert_true(weft_ghosts_fill(layout, padded, ghosts, rank, false, &moves));
    const weft_ghost_move *sent = moves.items;
    size_t found = 0;
    for (int target = 0; target < 24; target++) {
        for (size_t i = 0; i < all->count; i++) {
            const weft_ghost_move *move = (const weft_ghost_move *)all->items + i;
            if (move->source == rank && move->target == target) {
                assert_true(found < moves.count);
                assert_memory_equal(&sent[found++], move, sizeof(*move));
            }
        }
    }
    assert_int_equal(found, moves.count);
    weft_vec_free(&moves);
}

/* Panels follow each other; margins of rows, where they are apart, are panels, and so are the rows that other parts' margins get. */
static void check_panels(const weft_layout *padded, const weft_ghosts *ghosts, bool apart, int rank)
{
    const weft_shard_info shard = weft_layout_shard(padded, rank);
    const int64_t begin = shard.box.offset[0], end = begin + shard.box.extent[0];
    int64_t next = begin;
    for (int64_t panel = 0; panel < shard.num_panels; panel++) {
        int64_t first, last;
        weft_panel_range(padded, &shard.box, panel, &first, &last);
        assert_int_equal(first, next);
        assert_true(last > first);
        for (int64_t row = first; row < last; row++) {
            assert_int_equal(weft_panel_of_row(padded, &shard.box, row), panel);
        }
        const bool before = apart && last <= begin + ghosts->before[0], behind = apart && first >= end - ghosts->after[0];
        assert_int_equal(weft_panel_is_margin(padded, &shard.box, panel), before || behind);
        assert_true(!before || (first == begin && last == begin + ghosts->before[0]));
        assert_true(!behind || (last == end && first == end - ghosts->after[0]));
        bool given = apart && (last - first == ghosts->before[0] || last - first == ghosts->after[0]);
        assert_true(before || behind || given || last - first <= padded->panel_rows);
        next = last;
    }
    assert_int_equal(next, shard.num_panels == 0 ? begin : end);
}

static void margins_are_filled_once(void **state)
{
    (void)state;
    prng random = prng_start(3535);
    weft_panel_policy policies[] = { WEFT_PANEL_POLICY_DEFAULT, WEFT_PANEL_POLICY_DEFAULT, WEFT_PANEL_POLICY_DEFAULT };
    policies[1].forced_rows = 1;
    policies[2].forced_rows = 2;
    for (int i = 0, cases = cases_to_run(2000); i < cases; i++) {
        weft_layout_table *table = weft_layout_table_new(policies[i % 3]);
        weft_mesh_impl *mesh;
        const weft_layout *layout = random_single_cuts(&random, table, &mesh);
        const weft_ghosts ghosts = random_ghosts(&random, layout->ndim);
        char why[200];
        assert_int_equal(weft_ghosts_check(layout, &ghosts, why, sizeof(why)), WEFT_OK);
        const bool apart = prng_below(&random, 2);
        const weft_layout *padded = weft_ghosts_padded(table, layout, &ghosts, apart);
        assert_non_null(padded);
        weft_vec all = { 0 };
        for (int rank = 0; rank < 24; rank++) {
            check_receives(layout, padded, &ghosts, rank, &all);
            check_panels(padded, &ghosts, apart, rank);
        }
        for (int rank = 0; rank < 24; rank++) {
            check_sends(layout, padded, &ghosts, rank, &all);
        }
        weft_vec_free(&all);
        weft_layout_table_delete(table);
        weft_mesh_delete(mesh);
    }
}

static void refused(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 2 });
    const int64_t shape[] = { 8, 6 };
    static const struct {
        const char *placements, *why;
        weft_ghosts ghosts;
        weft_status status;
    } cases[] = {
        { "P,R", "placements[0] is Partial", { .before = { 1 } }, WEFT_ERR_LAYOUT },
        { "S0*2,R", "placements[0] deals rows out", { .before = { 1 } }, WEFT_ERR_LAYOUT },
        { "S0,S0", "placements[1] cuts dimension 0 again", { .before = { 1 } }, WEFT_ERR_LAYOUT },
        { "S0,R", "before[1] is -1", { .before = { 1, -1 } }, WEFT_ERR_INVALID },
        { "S0,R", "after[0] is -3", { .after = { -3 } }, WEFT_ERR_INVALID },
        { "S0,R", "too large", { .before = { INT64_MAX / 2 }, .after = { INT64_MAX / 2 + 9 } }, WEFT_ERR_SHAPE },
        { "S0,R", "overflows", { .before = { 1 << 30, 1 << 30 }, .after = { 1 << 30, INT64_C(1) << 40 } }, WEFT_ERR_SHAPE },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[200] = "";
        const weft_layout *layout = layout_of(f->table, m, cases[i].placements, 2, shape, WEFT_F64);
        assert_int_equal(weft_ghosts_check(layout, &cases[i].ghosts, why, sizeof(why)), cases[i].status);
        if (strstr(why, cases[i].why) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", why, cases[i].why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margins_are_filled_once),
        cmocka_unit_test_setup_teardown(refused, fixture_new, fixture_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
