/* Captured graphs beside the same calls without one, alternating, and beside StarPU's tasks with the same dependencies:
 *
 *   chain    200 elementwise calls, one after the other
 *   wide     16 chains of 12 calls, which two workers can share
 *   large    the chain on 2 MB for each rank: calls that are not clustered
 *
 * us_...: for each call and rank, to the end of the tasks. submission_us: of the captured ones, until the calls return. */
#include <string.h>

#include <starpu.h>

#include "bench.h"
#include "graph_runs.h"

enum { CALLS = 200, CHAINS = 16, LENGTH = 12, RUNS = 10 };

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = chain_of(inputs[0], inputs[1], CALLS, scalars[0]);
    return WEFT_OK;
}

static weft_status wide(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *sum = inputs[0];
    for (int c = 0; c < CHAINS; c++) {
        weft_tensor *x = weft_add_scalar(inputs[0], c);
        for (int i = 2; i < LENGTH; i++) {
            x = weft_add_scaled(x, inputs[1], scalars[0]);
        }
        sum = weft_add(sum, x);
    }
    outputs[0] = sum;
    return WEFT_OK;
}

static void do_nothing(void *buffers[], void *argument)
{
    (void)buffers, (void)argument;
}

/* Chains of empty tasks, one of each rank for each call: each changes one handle. */
static double run_raw(int ranks, int calls)
{
    static struct starpu_codelet codelet = {
        .cpu_funcs = { do_nothing }, .nbuffers = 1, .modes = { STARPU_RW }, .name = "empty"
    };
    starpu_data_handle_t handles[8];
    int numbers[8];
    for (int r = 0; r < ranks; r++) {
        starpu_variable_data_register(&handles[r], STARPU_MAIN_RAM, (uintptr_t)&numbers[r], sizeof(numbers[r]));
    }
    double start = bench_now_us();
    for (int i = 0; i < RUNS * calls; i++) {
        for (int r = 0; r < ranks; r++) {
            struct starpu_task *task = starpu_task_create();
            task->cl = &codelet;
            task->handles[0] = handles[r];
            if (starpu_task_submit(task) != 0) {
                exit(1);
            }
        }
    }
    starpu_task_wait_for_all();
    double us = bench_now_us() - start;
    for (int r = 0; r < ranks; r++) {
        starpu_data_unregister(handles[r]);
    }
    return us;
}

static void measure(const char *name, weft_graph_function function, int calls, int ranks, int64_t elements)
{
    double eager[BENCH_REPETITIONS], captured[BENCH_REPETITIONS], submission[BENCH_REPETITIONS], raw[BENCH_REPETITIONS];
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ ranks }, NULL);
    weft_tensor *inputs[] = { weft_full(WEFT_F32, 1, 1, &elements, mesh, &rows),
                              weft_full(WEFT_F32, 0.99, 1, &elements, mesh, &rows) };
    weft_graph *graph = weft_graph_create(name, function, NULL, 2, 1, 1);
    time_runs(RUNS, graph, NULL, inputs, &submission[0]);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        eager[i] = time_runs(RUNS, NULL, function, inputs, &submission[i]);
        captured[i] = time_runs(RUNS, graph, NULL, inputs, &submission[i]);
        raw[i] = run_raw(ranks, calls);
    }
    bench_check();
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    double each = 1.0 / ((double)RUNS * calls * ranks);
    double us_eager = each * bench_median(eager, BENCH_REPETITIONS), us_captured = each * bench_median(captured, BENCH_REPETITIONS);
    printf("{\"benchmark\": \"graphs\", \"case\": \"%s\", \"ranks\": %d, \"calls\": %d, \"us_eager\": %.3f, \"us_captured\": %.3f, "
           "\"submission_us\": %.3f, \"us_starpu\": %.3f, \"eager_over_captured\": %.2f, \"clustered\": %.2f}\n",
           name, ranks, calls, us_eager, us_captured, each * bench_median(submission, BENCH_REPETITIONS),
           each * bench_median(raw, BENCH_REPETITIONS), us_eager / us_captured,
           (double)info.clustered_calls / (double)(info.replays * (uint64_t)calls));
    weft_graph_destroy(graph);
}

int main(void)
{
    enum { RANKS = 2 };
    weft_config config = { .local_ranks = RANKS };
    if (weft_init(&config) != WEFT_OK) {
        bench_check();
    }
    measure("chain", chain, CALLS, RANKS, 64);
    measure("wide", wide, CHAINS * LENGTH, RANKS, 8192);
    measure("large", chain, CALLS, RANKS, 1 << 20);
    weft_finalize();
    return 0;
}
