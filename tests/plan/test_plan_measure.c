/* src/plan: statistics in closed form against counting, lower bounds, and plans of 65,536 ranks. */
#include "plan_support.h"

#include "plan/positions.h"
#include "plan/traffic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- statistics ---------------------------------------------------------------------------------------- */

static weft_plan_statistics counted(const weft_plan *plan, const weft_topology *topology)
{
    size_t ranks = (size_t)topology->num_ranks;
    int64_t *in = calloc(4 * ranks, sizeof(*in)), *out = in + ranks, *received = out + ranks,
            *sent = received + ranks;
    weft_plan_statistics s = { .ranks = topology->num_ranks };
    for (int i = 0; i < plan->num_stages; i++) {
        const weft_stage *stage = &plan->stages[i];
        for (int rank = 0; rank < topology->num_ranks; rank++) {
            weft_transfers moves = { 0 };
            assert_int_equal(weft_stage_receives(stage, topology, rank, &moves), WEFT_OK);
            for (size_t k = 0; k < moves.count; k++) {
                int peer = moves.items[k].peer;
                int64_t bytes = weft_box_count(stage->from->ndim, &moves.items[k].box) * 4;
                if (peer != rank) {
                    in[rank] += bytes, out[peer] += bytes, s.bytes_total += bytes;
                    received[rank]++, sent[peer]++;
                }
            }
            weft_transfers_free(&moves);
        }
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        s.bytes_in_max = weft_max_i64(s.bytes_in_max, in[rank]);
        s.bytes_out_max = weft_max_i64(s.bytes_out_max, out[rank]);
        s.messages_max = weft_max_i64(s.messages_max, weft_max_i64(received[rank], sent[rank]));
    }
    free(in);
    return s;
}

static const char *const pairs[][2] = {
    { "S0,S0", "R,R" }, { "S0,S1", "S1,S0" }, { "S0,R", "R,S0" },  { "R,S0", "S0,R" },
    { "R,R", "S1,S0" }, { "P,S0", "R,S1" },   { "P,P", "R,R" },    { "S1,P(avg)", "S0,S0" },
    { "R,S1", "R,R" },  { "P,S1", "P,S0" },   { "S0,S0", "S0,R" }, { "R,P(max)", "S1,S1" },
    { "S0@1,S0", "R,S0" }, { "S0,S0", "S0@1,S0" }, { "P,S0", "S0@1,S0" },
};

/* Gathering the last cuts moves nothing else. Without levels the first mesh dimension's cut is the outer one, and gathering it
 * brings each rank other rows. */
static void levels_gather_what_is_missing(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *from, *to;
        int64_t bytes; /* into the busiest rank, of 4 bytes for each of 64 elements on 2 x 4 ranks */
    } cases[] = { { "S0@1,S0", "R,S0", 32 }, { "S0,S0", "R,S0", 64 }, { "S0@1,S0", "S0,R", 128 }, { "P,S0", "S0@1,S0", 32 } };
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    weft_topology topology = one_rank_each(m);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        weft_plan plan = plan_between(f, m, 1, (int64_t[]){ 64 }, cases[i].from, cases[i].to);
        weft_plan_statistics measured;
        assert_int_equal(weft_plan_measure(&plan, &topology, &measured), WEFT_OK);
        assert_int_equal(measured.bytes_in_max, cases[i].bytes);
    }
}

static void check_measure(fixture *f, const weft_layout *from, const weft_layout *to,
                          const weft_topology *topology)
{
    weft_plan plan;
    weft_plan_statistics measured;
    assert_int_equal(weft_plan_make(f->table, topology, &f->cost, from, to, &plan, NULL, 0), WEFT_OK);
    assert_int_equal(weft_plan_measure(&plan, topology, &measured), WEFT_OK);
    weft_plan_statistics expected = counted(&plan, topology);
    assert_true(measured.exact);
    assert_int_equal(measured.ranks, expected.ranks);
    assert_int_equal(measured.bytes_total, expected.bytes_total);
    assert_int_equal(measured.bytes_in_max, expected.bytes_in_max);
    assert_int_equal(measured.bytes_out_max, expected.bytes_out_max);
    assert_int_equal(measured.messages_max, expected.messages_max);
    assert_true(measured.lower_bound_bytes_in_max <= measured.bytes_in_max);
}

/* Shapes that divide, and that do not; hosted one by one, all by one process, and by fives. */
static void closed_forms_agree_with_counting(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 12, 15 }), *other = mesh(f, 2, (int64_t[]){ 9, 11 });
    const int64_t shapes[][2] = { { 360, 180 }, { 331, 17 }, { 7, 1000 } };
    int fives[36 + 1], one[] = { 0, 180 };
    for (int p = 0; p <= 36; p++) {
        fives[p] = 5 * p;
    }
    const weft_topology topologies[] = { { 180, 180, NULL }, { 180, 1, one }, { 180, 36, fives } };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(pairs) * WEFT_ARRAY_SIZE(shapes) * WEFT_ARRAY_SIZE(topologies);
         i++) {
        const char *const *pair = pairs[i % WEFT_ARRAY_SIZE(pairs)];
        const int64_t *shape = shapes[i / WEFT_ARRAY_SIZE(pairs) % WEFT_ARRAY_SIZE(shapes)];
        const weft_topology *topology = &topologies[i / WEFT_ARRAY_SIZE(pairs) / WEFT_ARRAY_SIZE(shapes)];
        const weft_layout *from = layout_of(f->table, m, pair[0], 2, shape, WEFT_F32);
        check_measure(f, from, layout_of(f->table, m, pair[1], 2, shape, WEFT_F32), topology);
        if (strchr(pair[1], 'P') == NULL) {
            check_measure(f, from, layout_of(f->table, other, pair[1], 2, shape, WEFT_F32), topology);
        }
    }
}

/* Among the positions that the planner looks at is a rank that receives most bytes; sent bytes are at least half of the most. */
static void busiest_ranks_are_found(void **state)
{
    (void)state;
    prng random = prng_start(17);
    for (int i = 0; i < 5000; i++) {
        weft_mesh_impl *m;
        weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        const weft_layout *from = random_layout(&random, table, &m);
        weft_placement placements[WEFT_MAX_DIMS];
        drawn_placements(&random, m, from->ndim, false, placements);
        const weft_layout *to = weft_layout_intern(table, m, placements, from->ndim, from->shape, from->dtype);
        weft_stage stage = { .from = from, .to = to, .reduces = from->has_partial, .scale = 1.0 };
        weft_positions positions = weft_stage_positions(&stage, m);
        int64_t in = 0, out = 0, most_in = 0, most_out = 0;
        for (int64_t k = 0; k < m->num_ranks; k++) {
            weft_traffic t = weft_stage_traffic(&stage, weft_mesh_rank_at(m, k));
            most_in = weft_max_i64(most_in, t.bytes_in);
            most_out = weft_max_i64(most_out, t.bytes_out);
        }
        for (int64_t k = 0; k < positions.count; k++) {
            weft_traffic t = weft_stage_traffic(&stage, weft_mesh_rank_at(m, weft_position_index(&positions, k)));
            in = weft_max_i64(in, t.bytes_in);
            out = weft_max_i64(out, t.bytes_out);
        }
        if (lists_sizes(from) || lists_sizes(to)) { /* any part may receive most */
            assert_true(8 * in >= most_in);
        } else {
            assert_int_equal(in, most_in);
            assert_true(2 * out >= most_out);
        }
        weft_layout_table_delete(table);
        weft_mesh_delete(m);
    }
}

/* Incoming traffic is exact all the same; outgoing traffic is an even share. */
static void too_many_messages_are_estimated(void **state)
{
    fixture *f = *state;
    enum { RANKS = 65536, HOSTED = 8 };
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, RANKS / 2 });
    int *first = malloc((RANKS / HOSTED + 1) * sizeof(*first));
    for (int p = 0; p <= RANKS / HOSTED; p++) {
        first[p] = HOSTED * p;
    }
    weft_topology topology = { RANKS, RANKS / HOSTED, first };
    const int64_t shape[] = { RANKS, 16 };
    weft_stage direct = { .from = layout_of(f->table, m, "R,S0", 2, shape, WEFT_F32),
                          .to = layout_of(f->table, m, "R,R", 2, shape, WEFT_F32),
                          .scale = 1.0 };
    weft_plan plan = { .from = direct.from, .to = direct.to, .num_stages = 1, .stages = { direct } };
    weft_plan_statistics s;
    assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
    int64_t lacking = (RANKS - 2) * 16 * 4;
    assert_false(s.exact);
    assert_int_equal(s.bytes_in_max, lacking);
    assert_int_equal(s.lower_bound_bytes_in_max, lacking);
    assert_true(s.bytes_total == RANKS * lacking);
    assert_int_equal(s.bytes_out_max, lacking);
    free(first);
}

static int64_t bound_of(fixture *f, const weft_mesh_impl *m, const int64_t shape[2], const char *from,
                        const char *to)
{
    weft_plan plan = plan_between(f, m, 2, shape, from, to);
    weft_topology topology = one_rank_each(m);
    weft_plan_statistics s;
    assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
    assert_true(s.lower_bound_bytes_in_max <= s.bytes_in_max);
    return s.lower_bound_bytes_in_max;
}

static void lower_bounds_that_are_known(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 }), *square = mesh(f, 2, (int64_t[]){ 2, 2 });
    const int64_t even[] = { 8, 100 }, uneven[] = { 5, 3 };
    assert_int_equal(bound_of(f, m, even, "P", "R"), 2 * 3 * 3200 / 4);
    assert_int_equal(bound_of(f, m, even, "P", "S0"), 3 * 3200 / 4);
    assert_int_equal(bound_of(f, m, even, "S0", "R"), 3 * 3200 / 4);
    assert_int_equal(bound_of(f, m, even, "S0", "S1"), 3 * 3200 / 16);
    assert_int_equal(bound_of(f, m, even, "R", "S0"), 0);
    assert_int_equal(bound_of(f, m, uneven, "S0", "R"), 60); /* the last rank has nothing */
    assert_int_equal(bound_of(f, m, uneven, "P", "R"), 90);
    assert_int_equal(bound_of(f, square, even, "P,R", "R,R"), 3200); /* each lacks the other addend */
    assert_int_equal(bound_of(f, square, even, "P,S0", "R,S0"), 1600);
    assert_int_equal(bound_of(f, mesh(f, 1, (int64_t[]){ 2 }), uneven, "P", "S0"), 36); /* 3 of the 5 rows */
}

/* ---- 65,536 ranks -------------------------------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Plans for one rank: the boxes it receives or sends, the larger, and the time, which is printed only. */
static size_t plan_large(fixture *f, const weft_mesh_impl *m, const int64_t shape[2], const char *from,
                         const char *to, int rank)
{
    weft_topology topology = one_rank_each(m);
    double start = now_us();
    weft_plan plan = plan_between(f, m, 2, shape, from, to);
    weft_transfers receives = { 0 }, sends = { 0 };
    int64_t elements = 0;
    for (int i = 0; i < plan.num_stages; i++) {
        size_t before = receives.count;
        assert_int_equal(weft_stage_receives(&plan.stages[i], &topology, rank, &receives), WEFT_OK);
        assert_int_equal(weft_stage_sends(&plan.stages[i], &topology, rank, &sends), WEFT_OK);
        for (elements = 0; before < receives.count; before++) {
            elements += weft_box_count(2, &receives.items[before].box);
        }
    }
    double us = now_us() - start;
    assert_true(plan.stages[plan.num_stages - 1].reduces ||
                elements == weft_layout_shard_count(plan.to, rank));
    print_message("%s -> %s: %s, %d stages, %zu receives, %zu sends, %.0f us\n", from, to, plan.algorithm,
                  plan.num_stages, receives.count, sends.count, us);
    size_t count = receives.count > sends.count ? receives.count : sends.count;
    weft_transfers_free(&receives);
    weft_transfers_free(&sends);
    return count;
}

static void plans_of_65536_ranks(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *line = mesh(f, 1, (int64_t[]){ 65536 }),
                         *square = mesh(f, 2, (int64_t[]){ 256, 256 });
    static const char *const moves[][2] = { { "S0", "R" }, { "S0", "S1" },    { "S1", "S0" }, { "R", "S0" },
                                            { "R", "S1" }, { "P", "S0" },     { "P", "S1" },  { "P", "R" },
                                            { "S1", "R" }, { "P(max)", "S0" }, { "S0z", "R" }, { "S1", "S0z" } };
    const int64_t even[] = { 65536, 1024 }, uneven[] = { 100003, 77 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(moves); i++) {
        assert_true(plan_large(f, line, even, moves[i][0], moves[i][1], 17) <= 4 * 256);
        assert_true(plan_large(f, line, uneven, moves[i][0], moves[i][1], 40000) <= 5 * 256);
    }
    assert_int_equal(plan_large(f, line, even, "R", "S0", 17), 1);
    assert_true(plan_large(f, square, even, "S0,S0", "R,R", 17) <= 512);
    assert_true(plan_large(f, square, uneven, "S0,S0", "S1,S1", 17) <= 1024);
    assert_int_equal(plan_large(f, square, even, "S0,S1", "S1,S0", 17), 1);
    assert_true(plan_large(f, square, even, "S0,S0", "S0,R", 65535) <= 256);
    assert_true(plan_large(f, square, even, "P,P", "R,R", 65535) <= 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(closed_forms_agree_with_counting, fixture_new, fixture_free),
        cmocka_unit_test(busiest_ranks_are_found),
        cmocka_unit_test_setup_teardown(levels_gather_what_is_missing, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(too_many_messages_are_estimated, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(lower_bounds_that_are_known, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(plans_of_65536_ranks, fixture_new, fixture_free),
    };
    return cmocka_run_group_tests_name("plan_measure", tests, NULL, NULL);
}
