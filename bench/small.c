/* Many small all-reduces that are ready together, one tensor each, relative to as many MPI_Iallreduce, to weft without
 * packing (WEFT_PACK_BYTES=0), and to the same calls in a captured graph, whose passes let them travel together, in one run.
 * One rank per process; for mpirun on one machine, or on hosts with links of their own (bench/cluster). */
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

/* RUNS in each world. A machine with other work takes a core away for a time slice (4 ms) in many of them, so the
 * least time is shown beside the median. */
enum { MAX_TENSORS = 1000, RUNS = 20, TIMES = BENCH_REPETITIONS * RUNS };

typedef struct small_case {
    const char *name;
    int tensors, elements; /* f32 */
} small_case;

/* Measurement of one variant. */
typedef struct times {
    double us[TIMES];
    int64_t messages; /* received by one process */
} times;

static float memory[2][MAX_TENSORS * 1024];

/* From the arrival of all processes to the end of the last. */
static double slowest(double start)
{
    double us = bench_now_us() - start, worst = 0;
    MPI_Allreduce(&us, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static double run_mpi(const small_case *c)
{
    static MPI_Request requests[MAX_TENSORS];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    for (int i = 0; i < c->tensors; i++) {
        MPI_Iallreduce(&memory[0][i * c->elements], &memory[1][i * c->elements], c->elements, MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(c->tensors, requests, MPI_STATUSES_IGNORE);
    return slowest(start);
}

/* A weft_graph_function: inputs and outputs are as many as the case has. */
static weft_status reduce_all(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    for (int i = 0; i < *(const int *)context; i++) {
        outputs[i] = weft_redistribute(inputs[i], NULL, NULL);
    }
    return WEFT_OK;
}

/* `graph`: captured, or NULL. */
static double run_weft(weft_tensor *sources[], int count, weft_graph *graph)
{
    static weft_tensor *outputs[MAX_TENSORS];
    MPI_Barrier(MPI_COMM_WORLD);
    weft_scope_begin();
    double start = bench_now_us();
    if (graph != NULL) {
        weft_graph_call(graph, sources, NULL, outputs);
    } else {
        reduce_all(&count, sources, NULL, outputs);
    }
    weft_wait();
    double us = slowest(start);
    weft_scope_end();
    bench_check();
    return us;
}

static void run_many(const small_case *c, weft_tensor *sources[], weft_graph *graph, double us[RUNS], int64_t *messages)
{
    weft_counters before, after;
    for (int i = 0; i < 3; i++) { /* warm-up: plan, buffers, connections; capture, body */
        run_weft(sources, c->tensors, graph);
    }
    weft_get_counters(&before, sizeof(before));
    for (int i = 0; i < RUNS; i++) {
        us[i] = run_weft(sources, c->tensors, graph);
    }
    weft_get_counters(&after, sizeof(after));
    *messages = (int64_t)(after.messages - before.messages) / RUNS;
}

/* In a world of its own: packing is decided at the start. `captured`: of run number `run`; NULL: not measured. */
static void run_world(const small_case *c, const char *pack_bytes, times *eager, times *captured, int run)
{
    static weft_tensor *sources[MAX_TENSORS];
    if (pack_bytes != NULL) {
        setenv("WEFT_PACK_BYTES", pack_bytes, 1);
    } else {
        unsetenv("WEFT_PACK_BYTES");
    }
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    int64_t ranks = weft_world_size(), shape[] = { c->elements };
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement addends = weft_partial(WEFT_SUM);
    for (int i = 0; i < c->tensors; i++) {
        sources[i] = weft_empty(WEFT_F32, 1, shape, NULL, &addends);
        void *values = weft_local_acquire(sources[i], 0, WEFT_WRITE);
        bench_check();
        memset(values, 0, (size_t)c->elements * sizeof(float));
        weft_local_release(sources[i], 0);
    }
    run_many(c, sources, NULL, &eager->us[run * RUNS], &eager->messages);
    if (captured != NULL) {
        int count = c->tensors;
        weft_graph *graph = weft_graph_create("reductions", reduce_all, &count, count, 0, count);
        run_many(c, sources, graph, &captured->us[run * RUNS], &captured->messages);
        weft_graph_destroy(graph);
    }
    weft_finalize();
}

static void measure(const small_case *c, const char *pack_bytes)
{
    static times packed, plain, captured, theirs;
    run_mpi(c);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        run_world(c, pack_bytes, &packed, &captured, i);
        run_world(c, "0", &plain, NULL, i);
        for (int k = 0; k < RUNS; k++) {
            theirs.us[i * RUNS + k] = run_mpi(c);
        }
    }
    int process, hosts;
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &hosts);
    double us = bench_median(packed.us, TIMES), plain_us = bench_median(plain.us, TIMES);
    double captured_us = bench_median(captured.us, TIMES), mpi_us = bench_median(theirs.us, TIMES); /* which have sorted the times */
    if (process == 0) {
        printf("{\"bench\": \"small\", \"case\": \"%s\", \"hosts\": %d, \"ms\": %.2f, \"plain_ms\": %.2f, "
               "\"mpi_ms\": %.2f, \"least_ms\": %.2f, \"least_plain_ms\": %.2f, \"least_mpi_ms\": %.2f, "
               "\"vs_plain\": %.3f, \"vs_mpi\": %.3f, \"messages\": %lld, \"messages_per_ms\": %.0f, \"captured_ms\": %.2f, "
               "\"least_captured_ms\": %.2f, \"captured_vs_mpi\": %.3f, \"captured_messages\": %lld}\n",
               c->name, hosts, us * 1e-3, plain_us * 1e-3, mpi_us * 1e-3, packed.us[0] * 1e-3,
               plain.us[0] * 1e-3, theirs.us[0] * 1e-3, plain_us / us, mpi_us / us,
               (long long)packed.messages, (double)packed.messages / us * 1e3, captured_us * 1e-3, captured.us[0] * 1e-3,
               mpi_us / captured_us, (long long)captured.messages);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const small_case cases[] = {
        { "1000 of 1 KB", 1000, 256 }, { "1000 of 4 KB", 1000, 1024 }, { "1000 of 64 B", 1000, 16 },
        { "20 of 1 KB", 20, 256 },     { "1 of 1 KB", 1, 256 },
    };
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const char *set = getenv("WEFT_PACK_BYTES");
    char *pack_bytes = set == NULL ? NULL : strdup(set);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc < 2 || strcmp(argv[1], cases[i].name) == 0) {
            measure(&cases[i], pack_bytes);
        }
    }
    free(pack_bytes);
    MPI_Finalize();
    return 0;
}
