/* Many small all-reduces that are ready together, one tensor each, relative to as many MPI_Iallreduce, and
 * to weft without packing (WEFT_PACK_BYTES=0), in one run. One rank per process; for mpirun on one
 * machine, or on hosts with links of their own (bench/cluster). */
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

static double run_weft(weft_tensor *sources[], int count)
{
    weft_placement everywhere = weft_replicate();
    MPI_Barrier(MPI_COMM_WORLD);
    weft_scope_open();
    double start = bench_now_us();
    for (int i = 0; i < count; i++) {
        weft_redistribute(sources[i], NULL, &everywhere);
    }
    weft_wait();
    double us = slowest(start);
    weft_scope_close();
    bench_check();
    return us;
}

/* In a world of its own: packing is decided at the start. */
static void run_world(const small_case *c, const char *pack_bytes, double us[RUNS], int64_t *messages)
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
    weft_counters before, after;
    for (int i = 0; i < 2; i++) { /* warm-up: plan, buffers, connections */
        run_weft(sources, c->tensors);
    }
    weft_get_counters(&before);
    for (int i = 0; i < RUNS; i++) {
        us[i] = run_weft(sources, c->tensors);
    }
    weft_get_counters(&after);
    *messages = (int64_t)(after.messages - before.messages) / RUNS;
    weft_finalize();
}

static void measure(const small_case *c, const char *pack_bytes)
{
    static times packed, plain, theirs;
    run_mpi(c);
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        run_world(c, pack_bytes, &packed.us[i * RUNS], &packed.messages);
        run_world(c, "0", &plain.us[i * RUNS], &plain.messages);
        for (int k = 0; k < RUNS; k++) {
            theirs.us[i * RUNS + k] = run_mpi(c);
        }
    }
    int process, hosts;
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &hosts);
    double us = bench_median(packed.us, TIMES), plain_us = bench_median(plain.us, TIMES);
    double mpi_us = bench_median(theirs.us, TIMES); /* which have sorted the times */
    if (process == 0) {
        printf("{\"bench\": \"small\", \"case\": \"%s\", \"hosts\": %d, \"ms\": %.2f, \"plain_ms\": %.2f, "
               "\"mpi_ms\": %.2f, \"least_ms\": %.2f, \"least_plain_ms\": %.2f, \"least_mpi_ms\": %.2f, "
               "\"vs_plain\": %.3f, \"vs_mpi\": %.3f, \"messages\": %lld, \"messages_per_ms\": %.0f}\n",
               c->name, hosts, us * 1e-3, plain_us * 1e-3, mpi_us * 1e-3, packed.us[0] * 1e-3,
               plain.us[0] * 1e-3, theirs.us[0] * 1e-3, plain_us / us, mpi_us / us,
               (long long)packed.messages, (double)packed.messages / us * 1e3);
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
