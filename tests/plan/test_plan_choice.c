/* src/plan: chosen stages, refusals, predicted costs, and intervals of shards. */
#include "plan_support.h"

#include <math.h>
#include <string.h>

#include "plan/shard_intervals.h"
#include "plan/traffic.h"

static const char *placements_of(const weft_layout *layout)
{
    static char text[100];
    return weft_placements_text(layout->placements, layout->mesh->ndim, text, sizeof(text));
}

/* ---- stages -------------------------------------------------------------------------------------------- */

static void the_same_layout_takes_no_stage(void **state)
{
    fixture *f = *state;
    weft_plan plan = plan_between(f, mesh(f, 2, (int64_t[]){ 2, 2 }), 2, (int64_t[]){ 5, 3 }, "S0,P", "S0,P");
    assert_int_equal(plan.num_stages, 0);
    assert_string_equal(plan.algorithm, "identity");
    assert_false(plan.predicted_us > 0);
}

static void reductions_scatter_and_gather_when_large(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 });
    weft_plan plan = plan_between(f, m, 2, (int64_t[]){ 1000, 1000 }, "P", "R");
    assert_int_equal(plan.num_stages, 2);
    assert_string_equal(plan.algorithm, "reduce+move");
    assert_true(plan.stages[0].reduces && !plan.stages[1].reduces);
    assert_string_equal(placements_of(plan.stages[0].to), "[S0]");
    /* Rows that do not divide are scattered by columns. */
    plan = plan_between(f, m, 2, (int64_t[]){ 5, 100000 }, "P", "R");
    assert_string_equal(placements_of(plan.stages[0].to), "[S1]");
}

static void reductions_of_little_are_one_stage(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 });
    weft_plan plan = plan_between(f, m, 0, NULL, "P", "R");
    assert_int_equal(plan.num_stages, 1);
    assert_string_equal(plan.algorithm, "reduce");
    assert_int_equal(plan_between(f, m, 2, (int64_t[]){ 4, 4 }, "P", "R").num_stages, 1);
}

static void reductions_go_straight_to_the_shards_that_are_wanted(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    weft_plan plan = plan_between(f, m, 2, (int64_t[]){ 1024, 1024 }, "S0,P", "S0,S1");
    assert_int_equal(plan.num_stages, 1);
    assert_true(plan.stages[0].reduces && plan.stages[0].op == WEFT_SUM);
}

/* Reductions nest, the last mesh dimension innermost. Sums and averages are one group. */
static void operations_are_reduced_from_the_last_group_on(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 3, (int64_t[]){ 2, 3, 4 });
    const int64_t shape[] = { 12, 12 };
    weft_plan plan = plan_between(f, m, 2, shape, "P(sum),P(max),P(avg)", "S0,S0,S0");
    weft_reduce_op ops[3];
    double scales[3];
    int reductions = 0;
    for (int i = 0; i < plan.num_stages; i++) {
        if (plan.stages[i].reduces) {
            assert_true(reductions < 3);
            scales[reductions] = plan.stages[i].scale;
            ops[reductions++] = plan.stages[i].op;
        }
    }
    assert_int_equal(reductions, 3);
    assert_true(ops[0] == WEFT_SUM && ops[1] == WEFT_MAX && ops[2] == WEFT_SUM);
    assert_true(fabs(scales[0] - 0.25) < 1e-15 && fabs(scales[1] - 1) < 1e-15 && fabs(scales[2] - 1) < 1e-15);
    plan = plan_between(f, m, 2, shape, "P(sum),S0,P(avg)", "S1,S0,S1");
    assert_int_equal(plan.num_stages, 1);
    assert_true(plan.stages[0].op == WEFT_SUM && fabs(plan.stages[0].scale - 0.25) < 1e-15);
}

/* 16 addends are reduced at once, 256 of them one mesh dimension after the other, however the ranks are
 * hosted. */
static void many_addends_are_reduced_by_dimension(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *small = mesh(f, 2, (int64_t[]){ 4, 4 }), *large = mesh(f, 2, (int64_t[]){ 16, 16 });
    const int64_t shape[] = { 256, 256 };
    weft_plan plan = plan_between(f, small, 2, shape, "P,P(avg)", "S0,S0");
    assert_int_equal(plan.num_stages, 1);
    plan = plan_between(f, large, 2, shape, "P,P(avg)", "S0,S0");
    assert_int_equal(plan.num_stages, 2);
    assert_string_equal(placements_of(plan.stages[0].to), "[P(sum),S0]");
    assert_true(plan.stages[1].reduces && fabs(plan.stages[1].scale - 1) < 1e-15);
    const weft_layout *from = plan.from, *to = plan.to;
    for (int processes = 1; processes <= 256; processes *= 16) {
        int first[17] = { 0 };
        for (int p = 0; p <= processes && processes < 256; p++) {
            first[p] = 256 / processes * p;
        }
        weft_topology topology = { 256, processes, processes < 256 ? first : NULL };
        assert_int_equal(weft_plan_make(f->table, &topology, &f->cost, from, to, &plan, NULL, 0), WEFT_OK);
        assert_int_equal(plan.num_stages, 2);
    }
}

static void the_longest_plan_fits(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 8, (int64_t[]){ 2, 2, 2, 2, 2, 2, 2, 2 });
    const int64_t shape[] = { 256, 256, 256 };
    f->cost =
        (weft_cost_model){ 0, 1, 0, 0, 1, 0, WEFT_ALGORITHM_AUTO }; /* few messages per stage: many stages */
    weft_plan plan =
        plan_between(f, m, 3, shape, "P,P(max),P,P(max),P,P(max),P,P(max)", "R,S1,R,S2,S1,S0,R,S0");
    assert_true(plan.num_stages >= 8 && plan.num_stages <= WEFT_MAX_STAGES);
    plan = plan_between(f, m, 3, shape, "S0,S1,S2,S0,S1,S2,S0,S1", "R,S0,R,S2,R,S0,R,S0");
    assert_true(plan.num_stages > 1 && plan.num_stages <= 8);
}

static void moves_are_staged_where_peers_are_many(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *large = mesh(f, 2, (int64_t[]){ 8, 8 }), *small = mesh(f, 2, (int64_t[]){ 2, 2 });
    const int64_t shape[] = { 4096, 16 };
    assert_string_equal(plan_between(f, large, 2, shape, "S0,S0", "R,R").algorithm, "staged");
    assert_string_equal(plan_between(f, small, 2, shape, "S0,S0", "R,R").algorithm, "direct");
    assert_string_equal(plan_between(f, large, 2, shape, "S0,R", "S1,R").algorithm, "direct");
}

/* The ranks that must receive everything are not in the corners' order: one stage moves fewer bytes. */
static void fewer_bytes_among_equals(void **state)
{
    fixture *f = *state;
    const int64_t shape[] = { 4096, 64 };
    assert_string_equal(plan_between(f, mesh(f, 2, (int64_t[]){ 2, 2 }), 2, shape, "S0,R", "R,S0").algorithm, "direct");
    assert_string_equal(plan_between(f, mesh(f, 2, (int64_t[]){ 2, 4 }), 2, shape, "S0,R", "R,S0").algorithm, "direct");
}

/* Where each process hosts one rank, nothing is forwarded within processes: their memory has no part in the time. */
static void unused_links_cost_nothing(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 });
    const int64_t shape[] = { 1024, 1024 };
    for (weft_algorithm a = WEFT_CHAIN; a <= WEFT_ONCE; a++) {
        f->cost.algorithm = a;
        weft_plan plan = plan_between(f, m, 2, shape, "S0", "R");
        double former = plan.predicted_us;
        f->cost.local_latency_us += 5000;
        f->cost.local_message_us += 5000;
        plan = plan_between(f, m, 2, shape, "S0", "R");
        assert_true(fabs(plan.predicted_us - former) < 1e-6);
        f->cost = (weft_cost_model)WEFT_COST_MODEL_DEFAULT;
    }
}

/* Moves between random layouts on up to 64 ranks: more bytes than needed only where they save time. */
static void more_bytes_save_time(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 2, 3, 4, 4, 8 };
    weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
    prng random = prng_start(31);
    int dear = 0;
    for (int i = 0; i < 2000; i++) {
        int ndim = 1 + (int)prng_below(&random, 3), tensor_ndim = 1 + (int)prng_below(&random, 3);
        int64_t ranks[3], shape[3];
        for (int d = 0; d < 3; d++) {
            ranks[d] = sizes[prng_below(&random, d == 2 ? 4 : 7)];
            shape[d] = prng_below(&random, 2) ? 16 * (1 + prng_below(&random, 20)) : 1 + prng_below(&random, 300);
        }
        weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        weft_mesh_impl *m = mesh_of(ndim, ranks, NULL);
        weft_placement from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
        drawn_placements(&random, m, tensor_ndim, false, from);
        drawn_placements(&random, m, tensor_ndim, false, to);
        drawn_sizes(&random, m, tensor_ndim, shape, from);
        drawn_sizes(&random, m, tensor_ndim, shape, to);
        drawn_runs(&random, m, from);
        drawn_runs(&random, m, to);
        weft_stage direct = { .from = weft_layout_intern(table, m, from, tensor_ndim, shape, WEFT_F32),
                              .to = weft_layout_intern(table, m, to, tensor_ndim, shape, WEFT_F32),
                              .scale = 1.0 };
        weft_topology topology = one_rank_each(m);
        weft_plan plan;
        weft_plan_statistics s;
        assert_int_equal(weft_plan_make(table, &topology, &cost, direct.from, direct.to, &plan, NULL, 0), WEFT_OK);
        assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
        int64_t least = 0;
        for (int rank = 0; rank < topology.num_ranks; rank++) {
            least += weft_missing_bytes(direct.from, direct.to, rank);
        }
        /* Where sizes are listed, the time is that of the largest part, whatever the others receive. */
        bool many = (double)s.bytes_in_max > 1.05 * (double)s.lower_bound_bytes_in_max ||
                    (!lists_sizes(direct.from) && !lists_sizes(direct.to) && (double)s.bytes_total > 1.1 * (double)least);
        if (many && plan.predicted_us > 0.98 * weft_stage_cost(&direct, &topology, &cost)) {
            fail_msg("%s: %s moves %lld bytes, of %lld needed", describe_plan(direct.from, direct.to, &topology),
                     plan.algorithm, (long long)s.bytes_total, (long long)least);
        }
        dear += many;
        weft_layout_table_delete(table);
        weft_mesh_delete(m);
    }
    assert_true(dear > 0); /* there are some that pay */
}

static int64_t messages_of(const weft_plan *plan)
{
    weft_topology topology = one_rank_each(plan->from->mesh);
    weft_plan_statistics s;
    assert_int_equal(weft_plan_measure(plan, &topology, &s), WEFT_OK);
    return s.messages_max;
}

/* A dimension of many ranks is seen as several: where that gives all ranks the same boxes, and where it does
 * not. */
static void many_ranks_exchange_on_a_finer_mesh(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 256 });
    const int64_t even[] = { 1024, 256 }, uneven[] = { 1000, 100 };
    weft_plan plan = plan_between(f, m, 2, even, "S0", "R");
    assert_string_equal(plan.algorithm, "factored");
    assert_string_equal(placements_of(plan.stages[0].from), "[S0,S0]");
    assert_string_equal(placements_of(plan.stages[0].to), "[S0,R]");
    assert_int_equal(messages_of(&plan), 15 + 15);
    plan = plan_between(f, m, 2, even, "S0", "S1");
    assert_string_equal(plan.algorithm, "factored");
    assert_int_equal(messages_of(&plan), 15 + 16);
    plan = plan_between(f, m, 2, uneven, "S0", "S1"); /* neither has its boxes on 16 x 16 */
    assert_string_equal(plan.algorithm, "factored");
    assert_ptr_equal(plan.stages[0].from, plan.from);
    assert_ptr_equal(plan.stages[plan.num_stages - 1].to, plan.to);
    assert_true(messages_of(&plan) < 100);
    plan = plan_between(f, m, 2, even, "R", "S0"); /* nothing to save */
    assert_string_equal(plan.algorithm, "direct");
    const int64_t large[] = { 65536, 4096 }; /* a stage more would cost more than messages do */
    assert_string_equal(plan_between(f, m, 2, large, "S0", "S1").algorithm, "direct");
}

/* To another mesh of many ranks: there cut as here, then on. */
static void other_meshes_are_reached_by_few_messages(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *line = mesh(f, 1, (int64_t[]){ 1024 }), *square = mesh(f, 2, (int64_t[]){ 32, 32 });
    const int64_t shape[] = { 1024, 64 };
    weft_topology topology = one_rank_each(line);
    weft_plan plan;
    assert_int_equal(weft_plan_make(f->table, &topology, &f->cost,
                                    layout_of(f->table, line, "S0", 2, shape, WEFT_F32),
                                    layout_of(f->table, square, "R,R", 2, shape, WEFT_F32), &plan, NULL, 0),
                     WEFT_OK);
    assert_true(plan.num_stages > 1 && messages_of(&plan) <= 2 * 31);
}

/* The order of additions does not depend on costs: which dimensions are reduced first, and from what. */
static void many_addends_are_reduced_on_a_finer_mesh(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *line = mesh(f, 1, (int64_t[]){ 4096 }), *pair = mesh(f, 2, (int64_t[]){ 2, 128 });
    static const weft_cost_model models[] = { WEFT_COST_MODEL_DEFAULT,
                                              { 0, 0, 1, 0, 0, 1, WEFT_ALGORITHM_AUTO },
                                              { 1, 0, 0, 1, 0, 0, WEFT_ALGORITHM_AUTO } };
    const int64_t shapes[][2] = { { 4096, 4096 }, { 5000, 3 }, { 1, 1 } };
    for (size_t i = 0; i < 9; i++) {
        f->cost = models[i / 3];
        weft_plan plan = plan_between(f, line, 2, shapes[i % 3], "P", i % 2 == 0 ? "R" : "S0");
        assert_true(plan.num_stages >= 2 && plan.stages[0].reduces && plan.stages[1].reduces);
        assert_int_equal(plan.stages[0].from->mesh->shape[0], 64);
        assert_string_equal(placements_of(plan.stages[0].from), "[P(sum),P(sum)]");
        assert_int_equal(plan.stages[1].from->placements[0].kind, WEFT_PARTIAL);
    }
    /* A Partial dimension that stays is not moved. */
    weft_plan plan = plan_between(f, pair, 2, shapes[0], "P,P", "P,S0");
    assert_int_equal(plan.num_stages, 2);
    assert_string_equal(placements_of(plan.stages[1].to), "[P(sum),S0,S0]");
    plan = plan_between(f, pair, 2, (int64_t[]){ 1000, 7 }, "P,P", "P,S0"); /* not the same boxes */
    assert_int_equal(plan.num_stages, 1);
    assert_ptr_equal(plan.stages[0].to, plan.to);
}

/* ---- broadcast trees ----------------------------------------------------------------------------------- */

/* Rows of 4 KiB from one rank to 16, hosted by several a process; what one rank sends at most. */
static weft_plan broadcast(fixture *f, const weft_mesh_impl *from, const weft_mesh_impl *to, int64_t rows,
                           int hosted, int64_t *max_out)
{
    const int64_t shape[] = { rows, 1024 };
    int first[17];
    int processes = (int)to->num_ranks / hosted;
    for (int p = 0; p <= processes && processes <= 16; p++) {
        first[p] = p * hosted;
    }
    weft_topology topology = { (int)to->num_ranks, processes, hosted == 1 ? NULL : first };
    weft_plan plan;
    weft_plan_statistics s;
    assert_int_equal(weft_plan_make(f->table, &topology, &f->cost,
                                    layout_of(f->table, from, "R", 2, shape, WEFT_F32),
                                    layout_of(f->table, to, "R", 2, shape, WEFT_F32), &plan, NULL, 0),
                     WEFT_OK);
    assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
    assert_true(s.exact);
    *max_out = s.bytes_out_max;
    return plan;
}

static void copies_of_one_are_forwarded(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *one = mesh(f, 1, (int64_t[]){ 1 }), *all = mesh(f, 1, (int64_t[]){ 16 }),
                         *many = mesh(f, 1, (int64_t[]){ 1024 });
    int64_t out, box = 1024 * 4096;
    assert_string_equal(broadcast(f, one, all, 1024, 1, &out).algorithm, "chain");
    assert_int_equal(out, box);
    assert_string_equal(broadcast(f, one, all, 1, 1, &out).algorithm, "tree");
    assert_int_equal(out, 4 * 4096);
    assert_string_equal(broadcast(f, one, all, 0, 1, &out).algorithm, "direct");
    assert_string_equal(broadcast(f, one, all, 1024, 8, &out).algorithm, "chain");
    assert_int_equal(out, box);
    assert_string_equal(broadcast(f, one, all, 1024, 16, &out).algorithm, "direct"); /* one process */
    assert_string_equal(broadcast(f, one, many, 1024, 1, &out).algorithm, "scatter+gather");
    assert_true(out < 3 * box);
    f->cost.algorithm = WEFT_TREE;
    assert_string_equal(broadcast(f, one, many, 1024, 1, &out).algorithm, "tree");
    assert_int_equal(out, 10 * box);
    assert_string_equal(broadcast(f, one, all, 1024, 16, &out).algorithm, "tree");
}

/* All send as much as they receive: nothing to forward, unless ranks of one process want the same. */
static void gathers_are_forwarded_within_processes_only(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 8 });
    const int64_t shape[] = { 1024, 1024 };
    weft_plan plan = plan_between(f, m, 2, shape, "S0", "R");
    assert_string_equal(plan.algorithm, "direct");
    weft_topology pairs = { 8, 2, (int[]){ 0, 4, 8 } };
    assert_int_equal(weft_plan_make(f->table, &pairs, &f->cost, plan.from, plan.to, &plan, NULL, 0), WEFT_OK);
    assert_string_equal(plan.algorithm, "once");
    assert_int_equal(plan.stages[0].algorithm, WEFT_ONCE);
    assert_string_equal(plan_between(f, m, 2, shape, "S0", "S1").algorithm, "direct");
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void expect_refusal(fixture *f, const weft_layout *from, const weft_layout *to, weft_status expected)
{
    weft_topology topology = one_rank_each(from->mesh);
    weft_plan plan;
    char why[300] = "";
    assert_int_equal(weft_plan_make(f->table, &topology, &f->cost, from, to, &plan, why, sizeof(why)),
                     expected);
    assert_true(why[0] != '\0');
    assert_int_equal(weft_plan_make(f->table, &topology, &f->cost, from, to, &plan, NULL, 0), expected);
    assert_true(weft_plan_cost(f->table, &topology, &f->cost, from, to) < 0);
}

static void expect_plan(fixture *f, const weft_layout *from, const weft_layout *to)
{
    weft_topology topology = one_rank_each(from->mesh);
    weft_plan plan;
    assert_int_equal(weft_plan_make(f->table, &topology, &f->cost, from, to, &plan, NULL, 0), WEFT_OK);
}

static void nothing_becomes_partial(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 2 }), *other = mesh(f, 2, (int64_t[]){ 2, 2 });
    /* clang-format off */
    static const struct {
        row_place place;
        const char *placements[2];
    } pairs[] = {
        { THIS_ROW, { "R,R", "R,P" } },
        { THIS_ROW, { "S0,R", "P,R" } },
        { THIS_ROW, { "P,R", "R,P" } },
        { THIS_ROW, { "P(sum),R", "P(max),R" } },
        { THIS_ROW, { "P(sum),R", "P(avg),R" } },
    };
    /* clang-format on */
    const int64_t shape[] = { 4, 4 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(pairs); i++) {
        enter_row(pairs[i].place, __func__);
        expect_refusal(f, layout_of(f->table, m, pairs[i].placements[0], 2, shape, WEFT_F32),
                       layout_of(f->table, m, pairs[i].placements[1], 2, shape, WEFT_F32), WEFT_ERR_LAYOUT);
    }
    leave_rows();
    expect_refusal(f, layout_of(f->table, m, "P,R", 2, shape, WEFT_F32),
                   layout_of(f->table, other, "P,R", 2, shape, WEFT_F32), WEFT_ERR_LAYOUT);
}

static void inner_reductions_cannot_stay(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 2 });
    const int64_t shape[] = { 4, 4 };
    expect_refusal(f, layout_of(f->table, m, "P(max),P(sum)", 2, shape, WEFT_F32),
                   layout_of(f->table, m, "R,P(sum)", 2, shape, WEFT_F32), WEFT_ERR_LAYOUT);
    assert_int_equal(plan_between(f, m, 2, shape, "P(max),P(sum)", "P(max),R").stages[0].op, WEFT_SUM);
    assert_int_equal(plan_between(f, m, 2, shape, "P(avg),P(sum)", "R,P(sum)").stages[0].op, WEFT_SUM);
}

static void averages_need_floating_types(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 2 });
    const int64_t shape[] = { 4 };
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++) {
        static const char *const partials[] = { "P(avg)", "P(sum)", "P(max)" };
        const weft_layout *to = layout_of(f->table, m, "R", 1, shape, (weft_dtype)dtype);
        const bool pairs = dtype == WEFT_C64 || dtype == WEFT_C128, no_arithmetic = dtype >= WEFT_F8_E4M3;
        const bool refused[] = { no_arithmetic || (dtype > WEFT_F16 && !pairs), no_arithmetic, no_arithmetic || pairs /* no order */ };
        for (int i = 0; i < 3; i++) {
            const weft_layout *from = layout_of(f->table, m, partials[i], 1, shape, (weft_dtype)dtype);
            if (refused[i]) {
                expect_refusal(f, from, to, WEFT_ERR_DTYPE);
            } else {
                expect_plan(f, from, to);
            }
        }
    }
}

/* ---- costs --------------------------------------------------------------------------------------------- */

static double cost_between(fixture *f, const weft_mesh_impl *m, int64_t rows, const char *from,
                           const char *to)
{
    const int64_t shape[] = { rows, 64 };
    weft_topology topology = one_rank_each(m);
    return weft_plan_cost(f->table, &topology, &f->cost, layout_of(f->table, m, from, 2, shape, WEFT_F32),
                          layout_of(f->table, m, to, 2, shape, WEFT_F32));
}

static void costs_grow_with_bytes(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    static const char *const layouts[] = { "R,R", "S0,R", "S0,S0", "S1,S0", "P,S0", "P,P", "R,S1" };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(layouts); i++) {
        for (size_t j = 0; j < WEFT_ARRAY_SIZE(layouts); j++) {
            double before = 0;
            for (int64_t rows = 8; rows <= 1 << 20 && strchr(layouts[j], 'P') == NULL; rows *= 2) {
                double us = cost_between(f, m, rows, layouts[i], layouts[j]);
                assert_true(i == j ? !(us > 0) : us > before);
                before = us;
            }
        }
    }
}

static void costs_are_in_the_expected_order(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 1, (int64_t[]){ 4 });
    double local = cost_between(f, m, 4096, "R", "S0"), transposed = cost_between(f, m, 4096, "S0", "S1");
    double gathered = cost_between(f, m, 4096, "S0", "R"), scattered = cost_between(f, m, 4096, "P", "S0");
    double all = cost_between(f, m, 4096, "P", "R");
    assert_true(local > 0 && local < transposed / 10);
    assert_true(transposed < gathered && scattered < all && gathered < all);
    assert_true(fabs(scattered - gathered) < 0.2 * gathered);
}

/* Two processes of four ranks: exchanges along the second mesh dimension stay inside them. */
static void exchanges_within_processes_cost_less(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 2, (int64_t[]){ 2, 4 });
    const int64_t shape[] = { 1024, 1024 };
    weft_topology topology = { 8, 2, (int[]){ 0, 4, 8 } };
    /* clang-format off */
    static const struct {
        row_place place;
        const char *texts[3];
    } exchanges[] = {
        { THIS_ROW, { "R,S0", "R,R", "local" } },
        { THIS_ROW, { "S1,S0", "S1,R", "local" } },
        { THIS_ROW, { "S1,P", "S1,S0", "local" } },
        { THIS_ROW, { "S0,R", "R,R", "remote" } },
        { THIS_ROW, { "R,S0", "S0,S0", "remote" } },
        { THIS_ROW, { "S0,S0", "S0,R", "local" } },
        { THIS_ROW, { "S0,S0", "R,S0", "remote" } },
        { THIS_ROW, { "P,S0", "S1,S0", "remote" } },
    };
    /* clang-format on */
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(exchanges); i++) {
        enter_row(exchanges[i].place, __func__);
        const weft_layout *from = layout_of(f->table, m, exchanges[i].texts[0], 2, shape, WEFT_F32);
        const weft_layout *to = layout_of(f->table, m, exchanges[i].texts[1], 2, shape, WEFT_F32);
        weft_stage stage = {
            .from = from, .to = to, .reduces = strchr(exchanges[i].texts[0], 'P') != NULL, .scale = 1
        };
        weft_topology one = { 8, 1, (int[]){ 0, 8 } };
        double us = weft_stage_cost(&stage, &topology, &f->cost),
               local = weft_stage_cost(&stage, &one, &f->cost);
        assert_int_equal(us > local, strcmp(exchanges[i].texts[2], "remote") == 0);
    }
    leave_rows();
}

/* ---- cuts ---------------------------------------------------------------------------------------------- */

/* The parts of a dimension, over all coordinates that are not fixed: at most one for each set of
 * coordinates of the mesh dimensions that shard it. */
static void check_segments(const weft_layout *layout, int dim, int64_t begin, int64_t end,
                           const weft_fixed *fixed)
{
    weft_vec segments = { 0 };
    assert_true(weft_shard_intervals(layout, dim, begin, end, fixed, &segments));
    weft_coverage coverage = weft_shard_intervals_measure(layout, dim, begin, end, fixed);
    assert_int_equal(coverage.count, segments.count);
    size_t found = 0;
    int64_t length = 0;
    for (int64_t index = 0; index < layout->mesh->num_ranks; index++) {
        int64_t coordinate[WEFT_MAX_DIMS], expected_index = 0, step = 1;
        weft_mesh_unravel(layout->mesh, index, coordinate);
        bool counts = true;
        for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
            bool cuts = layout->placements[m].kind == WEFT_SHARD && layout->placements[m].dim == dim;
            counts = counts && (cuts ? fixed->coordinate[m] < 0 || fixed->coordinate[m] == coordinate[m]
                                     : coordinate[m] == 0);
            expected_index += cuts ? coordinate[m] * step : 0;
            step *= layout->mesh->shape[m];
        }
        weft_box box = reference_box(layout, index);
        int64_t first = weft_max_i64(begin, box.offset[dim]);
        int64_t last = weft_min_i64(end, box.offset[dim] + box.extent[dim]);
        if (!counts || first >= last) {
            continue;
        }
        assert_true(found < segments.count);
        const weft_shard_interval *segment = (const weft_shard_interval *)segments.items + found++;
        assert_true(segment->begin == first && segment->end == last && segment->index == expected_index);
        length += last - first;
    }
    assert_int_equal(found, segments.count);
    assert_int_equal(length, coverage.length);
    weft_vec_free(&segments);
}

static void cuts_are_those_of_the_shards(void **state)
{
    fixture *f = *state;
    prng random = prng_start(31);
    for (int i = 0; i < 20000; i++) {
        weft_mesh_impl *m = drawn_mesh(&random, 32, 32);
        int64_t shape[2] = { prng_below(&random, 50), 1 + prng_below(&random, 50) };
        weft_placement placements[WEFT_MAX_DIMS];
        for (int d = 0; d < m->ndim; d++) {
            placements[d] =
                prng_below(&random, 4) == 0 ? weft_replicate() : weft_shard((int)prng_below(&random, 8) / 6);
        }
        const weft_layout *layout = weft_layout_intern(f->table, m, placements, 2, shape, WEFT_F32);
        weft_fixed fixed = weft_fixed_none();
        for (int d = 0; d < m->ndim; d++) {
            fixed.coordinate[d] = prng_below(&random, 4) == 0 ? prng_below(&random, m->shape[d]) : -1;
        }
        int dim = (int)prng_below(&random, 2);
        int64_t begin = prng_below(&random, shape[dim] + 1);
        check_segments(layout, dim, begin, begin + prng_below(&random, shape[dim] - begin + 1), &fixed);
        weft_mesh_delete(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_layout_takes_no_stage, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(reductions_scatter_and_gather_when_large, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(reductions_of_little_are_one_stage, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(reductions_go_straight_to_the_shards_that_are_wanted, fixture_new,
                                        fixture_free),
        cmocka_unit_test_setup_teardown(operations_are_reduced_from_the_last_group_on, fixture_new,
                                        fixture_free),
        cmocka_unit_test_setup_teardown(many_addends_are_reduced_by_dimension, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(the_longest_plan_fits, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(fewer_bytes_among_equals, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(unused_links_cost_nothing, fixture_new, fixture_free),
        cmocka_unit_test(more_bytes_save_time),
        cmocka_unit_test_setup_teardown(moves_are_staged_where_peers_are_many, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(many_ranks_exchange_on_a_finer_mesh, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(other_meshes_are_reached_by_few_messages, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(many_addends_are_reduced_on_a_finer_mesh, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(copies_of_one_are_forwarded, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(gathers_are_forwarded_within_processes_only, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(nothing_becomes_partial, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(inner_reductions_cannot_stay, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(averages_need_floating_types, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(costs_grow_with_bytes, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(costs_are_in_the_expected_order, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(exchanges_within_processes_cost_less, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(cuts_are_those_of_the_shards, fixture_new, fixture_free),
    };
    return cmocka_run_group_tests_name("plan_choice", tests, NULL, NULL);
}
