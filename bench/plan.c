/* The time of one rank's planning (stages, and its boxes in them), and the messages that it gets or sends, itself included,
 * for several pairs of layouts, from 4 to 65,536 ranks: on one-dimensional and square meshes, with shapes
 * that divide and that do not. No data: a fake world. */
#include "bench.h"

#include "plan/plan.h"

typedef struct pair {
    const char *name;
    int mesh_ndim;
    const char *from, *to;
} pair;

static double plan_once(weft_layout_table *table, const weft_topology *topology, const weft_layout *from,
                        const weft_layout *to, int rank, size_t *messages)
{
    static const weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
    weft_transfers receives = { 0 }, sends = { 0 };
    weft_plan plan;
    double start = bench_now_us();
    if (weft_plan_make(table, topology, &cost, from, to, &plan, NULL, 0) != WEFT_OK) {
        exit(1);
    }
    for (int i = 0; i < plan.num_stages; i++) {
        weft_stage_receives(&plan.stages[i], topology, rank, &receives);
        weft_stage_sends(&plan.stages[i], topology, rank, &sends);
    }
    double us = bench_now_us() - start;
    *messages = receives.count > sends.count ? receives.count : sends.count;
    weft_transfers_free(&receives);
    weft_transfers_free(&sends);
    return us;
}

/* Placements; "S0{*}": of rows from 0 to twice as many as an even part has. */
static void read_placements(const char *text, int mesh_ndim, int64_t ranks, int64_t rows, weft_placement out[])
{
    if (strcmp(text, "S0{*}") != 0) {
        weft_placements_read(text, mesh_ndim, out, NULL, 0);
        return;
    }
    int64_t *sizes = malloc((size_t)ranks * sizeof(*sizes)), left = rows;
    for (int64_t i = 0; i < ranks && sizes != NULL; i++) {
        int64_t wanted = rows / ranks * 2 * (i * 7919 % 101) / 100;
        sizes[i] = i == ranks - 1 ? left : weft_min_i64(left, wanted);
        left -= sizes[i];
    }
    out[0] = weft_shard_sizes(0, (int)ranks, sizes);
    free(sizes);
}

/* Each time from an empty table of layouts. */
static void measure(int side, const pair *p, const int64_t shape[2])
{
    int ranks = side * side;
    int64_t line[] = { ranks }, square[] = { side, side };
    weft_status status;
    weft_mesh_impl *mesh =
        weft_mesh_new(p->mesh_ndim, p->mesh_ndim == 1 ? line : square, NULL, NULL, ranks, &status, NULL, 0);
    weft_topology topology = { ranks, ranks, NULL };
    weft_placement from[2], to[2];
    read_placements(p->from, p->mesh_ndim, ranks, shape[0], from);
    read_placements(p->to, p->mesh_ndim, ranks, shape[0], to);
    double us[BENCH_REPETITIONS];
    size_t messages = 0;
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        weft_layout_table *table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
        const weft_layout *source = weft_layout_intern(table, mesh, from, 2, shape, WEFT_F32);
        const weft_layout *target = weft_layout_intern(table, mesh, to, 2, shape, WEFT_F32);
        us[i] = plan_once(table, &topology, source, target, ranks / 2, &messages);
        weft_layout_table_delete(table);
    }
    printf("{\"bench\": \"plan\", \"case\": \"%s %s to %s\", \"shape\": \"%dx%d\", \"ranks\": %d, "
           "\"plan_us\": %.1f, "
           "\"messages\": %zu}\n",
           p->name, p->from, p->to, (int)shape[0], (int)shape[1], ranks, bench_median(us, BENCH_REPETITIONS),
           messages);
    weft_mesh_delete(mesh);
}

int main(void)
{
    static const pair pairs[] = {
        { "all-gather", 1, "S0", "R" },          { "all-to-all", 1, "S0", "S1" },
        { "all-to-all back", 1, "S1", "S0" },    { "all-reduce", 1, "P", "R" },
        { "reduce-scatter", 1, "P", "S0" },      { "slice", 1, "R", "S0" },
        { "all-gather", 2, "S0,S0", "R,R" },     { "transpose", 2, "S0,S1", "S1,S0" },
        { "all-to-all", 2, "S0,S0", "S1,S1" },   { "all-reduce", 2, "P,P", "R,R" },
        { "reduce-scatter", 2, "P,P", "S0,S1" }, { "slice", 2, "R,R", "S0,S0" },
        { "other parts", 1, "S0", "S0=" },       { "all-gather", 1, "S0=", "R" },
        { "all-to-all", 1, "S0=", "S1=" },       { "other parts", 1, "S0{*}", "S0=" },
        { "all-gather", 1, "S0{*}", "R" },       { "all-to-all", 1, "S0{*}", "S1" },
        { "all-to-all", 2, "S0=,S0=", "S1,S1" }, { "inner gather", 2, "S0@1,S0", "R,S0" },
        { "other order", 2, "S0@1,S0", "S0,S0" }, { "other blocks", 1, "S0*64", "S0*32+1" },
        { "blocks to chunks", 1, "S0*4", "S0" },  { "other blocks", 2, "S0*64,S1*64", "S0*32,S1*100" },
        { "zigzag to chunks", 1, "S0z", "S0" },   { "zigzag gather", 1, "S0z", "R" },
        { "unflatten", 1, "S0%1024", "S0" },      { "other columns", 2, "S0*64,S1", "S0*64,R" },
        { "replicas", 2, "R,S0", "S0,S1" },       { "replicas", 2, "S0,R", "R,S0" },
    };
    static const int64_t shapes[][2] = { { 65536, 1024 }, { 100003, 77 } };
    for (int side = 2; side <= 256; side *= side == 2 ? 2 : 4) {
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
            for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
                measure(side, &pairs[i], shapes[s]);
            }
        }
    }
    return 0;
}
