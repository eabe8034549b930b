/* The time that one rank takes to plan, for several pairs of layouts, from 4 to 65,536 ranks. No data: a fake
 * world's sizes. */
#include "bench.h"

#include "plan/plan.h"

typedef struct pair {
    const char *name, *from, *to;
} pair;

static double plan_once(weft_layout_table *table, const weft_topology *topology, const weft_layout *from,
                        const weft_layout *to, int rank)
{
    static const weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
    weft_plan plan;
    weft_moves receives = { 0 }, sends = { 0 };
    double start = bench_now_us();
    if (weft_plan_make(table, topology, &cost, from, to, &plan, NULL, 0) != WEFT_OK) {
        exit(1);
    }
    for (int i = 0; i < plan.num_stages; i++) {
        weft_stage_receives(&plan.stages[i], topology, rank, &receives);
        weft_stage_sends(&plan.stages[i], topology, rank, &sends);
    }
    double us = bench_now_us() - start;
    weft_moves_free(&receives);
    weft_moves_free(&sends);
    return us;
}

static void measure(int side, const pair *p)
{
    weft_panel_policy policy = WEFT_PANEL_POLICY_DEFAULT;
    weft_layout_table *table = weft_layout_table_new(policy);
    int64_t mesh_shape[] = { side, side }, shape[] = { 65536, 1024 };
    weft_status status;
    weft_mesh *mesh = weft_mesh_new(2, mesh_shape, NULL, NULL, (int64_t)side * side, &status, NULL, 0);
    weft_topology topology = { side * side, side * side, NULL };
    weft_placement from[2], to[2];
    weft_placements_read(p->from, 2, from, NULL, 0);
    weft_placements_read(p->to, 2, to, NULL, 0);
    const weft_layout *source = weft_layout_intern(table, mesh, from, 2, shape, WEFT_F32);
    const weft_layout *target = weft_layout_intern(table, mesh, to, 2, shape, WEFT_F32);
    double us[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        us[i] = plan_once(table, &topology, source, target, side * side / 2);
    }
    printf("{\"bench\": \"plan\", \"case\": \"%s\", \"ranks\": %d, \"plan_us\": %.1f}\n", p->name,
           side * side, bench_median(us, BENCH_REPETITIONS));
    weft_layout_table_delete(table);
    weft_mesh_delete(mesh);
}

int main(void)
{
    static const pair pairs[] = {
        { "all-gather", "S0,S0", "R,R" },   { "transpose", "S0,S1", "S1,S0" },
        { "all-to-all", "S0,S0", "S1,S1" }, { "all-reduce", "P,P", "R,R" },
        { "slice", "R,R", "S0,S0" },
    };
    static const int sides[] = { 2, 4, 16, 64, 256 };
    for (size_t s = 0; s < sizeof(sides) / sizeof(sides[0]); s++) {
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
            measure(sides[s], &pairs[i]);
        }
    }
    return 0;
}
