/* A tensor-parallel MLP block on hosts with links of their own (bench/cluster): all-gather of the rows,
 * product, gelu, product, reduce-scatter; its time relative to computation alone and communication alone.
 * The inner width is chosen so that computation takes as long as communication, twice as long, and half as
 * long.
 *
 *     bench-overlap [--repetitions N] [--ratio COMPUTING/COMMUNICATING | --inner WIDTH] [--graph 1]
 *
 * --graph 1: the step is a captured graph, which WEFT_PREDICT predicts.
 *
 * Computation alone (comp_ms): the same products on rows that every rank has already, whose addends stay.
 * Communication alone (comm_ms): gather and reduce-scatter of existing tensors, at once. Free (free_ms):
 * both together, without a dependency between them: more than the longer of both, because communication
 * takes time of the cores that compute; step_over_free is the cost of dependencies. Each ends with
 * weft_wait(). */
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

enum { TOKENS = 4096, WIDTH = 1024, MAX_REPETITIONS = 101 };

typedef struct block {
    weft_mesh *mesh;
    int64_t inner;
    weft_tensor *x;         /* TOKENS x WIDTH, by rows */
    weft_tensor *gathered;  /* the same, replicated */
    weft_tensor *up, *down; /* WIDTH x inner by columns, inner x WIDTH by rows */
    weft_tensor *sums;      /* TOKENS x WIDTH, addends */
    weft_graph *graph;      /* the step; NULL: it is not captured */
} block;

static weft_tensor *random_matrix(const block *b, int64_t rows, int64_t columns, weft_placement placement)
{
    int64_t shape[] = { rows, columns };
    return weft_randn(WEFT_F32, 2, shape, b->mesh, &placement);
}

static weft_tensor *products(const block *b, weft_tensor *rows)
{
    return weft_matmul(weft_gelu(weft_matmul(rows, b->up)), b->down);
}

static weft_tensor *gather(const block *b)
{
    weft_placement everywhere = weft_replicate();
    return weft_redistribute(b->x, b->mesh, &everywhere);
}

static weft_tensor *scatter(const block *b, weft_tensor *sums)
{
    weft_placement rows = weft_shard(0);
    return weft_redistribute(sums, b->mesh, &rows);
}

static void compute(const block *b)
{
    products(b, b->gathered);
}

static void communicate(const block *b)
{
    gather(b);
    scatter(b, b->sums);
}

static void free_of_dependencies(const block *b)
{
    communicate(b);
    compute(b);
}

static weft_status step_of(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const block *b = context;
    (void)inputs;
    (void)scalars;
    outputs[0] = scatter(b, products(b, gather(b)));
    return weft_last_status();
}

static void step(const block *b)
{
    weft_tensor *rows;
    if (b->graph != NULL) {
        weft_graph_call(b->graph, NULL, NULL, &rows);
    } else {
        step_of((block *)(size_t)b, NULL, NULL, &rows);
    }
}

/* Milliseconds, maximum over the processes. */
static double run(void (*part)(const block *), const block *b)
{
    weft_wait();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    weft_scope_begin();
    part(b);
    weft_scope_end();
    weft_wait();
    bench_check();
    double ms = (bench_now_us() - start) * 1e-3, worst = 0;
    MPI_Allreduce(&ms, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static double median_of(void (*part)(const block *), const block *b, int repetitions)
{
    double ms[MAX_REPETITIONS];
    run(part, b);
    for (int i = 0; i < repetitions; i++) {
        ms[i] = run(part, b);
    }
    return bench_median(ms, (size_t)repetitions);
}

static void make_block(block *b, weft_mesh *mesh, int64_t inner)
{
    *b = (block){ .mesh = mesh, .inner = inner };
    b->x = random_matrix(b, TOKENS, WIDTH, weft_shard(0));
    b->gathered = gather(b);
    b->up = weft_scale(random_matrix(b, WIDTH, inner, weft_shard(1)), 0.03);
    b->down = weft_scale(random_matrix(b, inner, WIDTH, weft_shard(0)), 0.03);
    b->sums = products(b, b->gathered);
    weft_wait();
    bench_check();
}

/* The inner width for which computation takes `ratio` times as long as communication. */
static int64_t choose_inner(weft_mesh *mesh, double ratio)
{
    enum { TRIAL = 1024 };
    block b;
    weft_scope_begin();
    make_block(&b, mesh, TRIAL);
    double computing = median_of(compute, &b, 3), communicating = median_of(communicate, &b, 3);
    weft_scope_end();
    int64_t grain = 32 * weft_world_size();
    int64_t inner = (int64_t)(TRIAL * ratio * communicating / computing) / grain * grain;
    return inner < grain ? grain : inner;
}

static void measure(weft_mesh *mesh, const char *name, int64_t inner, int repetitions, bool graph)
{
    block b;
    weft_scope_begin();
    make_block(&b, mesh, inner);
    b.graph = graph ? weft_graph_create("overlap", step_of, &b, 0, 0, 1) : NULL;
    double computing[MAX_REPETITIONS], communicating[MAX_REPETITIONS], steps[MAX_REPETITIONS],
        free[MAX_REPETITIONS];
    run(compute, &b);
    run(communicate, &b);
    run(step, &b);
    run(free_of_dependencies, &b);
    for (int i = 0; i < repetitions; i++) {
        computing[i] = run(compute, &b);
        communicating[i] = run(communicate, &b);
        steps[i] = run(step, &b);
        free[i] = run(free_of_dependencies, &b);
    }
    weft_scope_end();
    if (b.graph != NULL) {
        weft_graph_destroy(b.graph);
    }
    size_t count = (size_t)repetitions;
    double comp = bench_median(computing, count), comm = bench_median(communicating, count);
    double ms = bench_median(steps, count), free_ms = bench_median(free, count);
    if (weft_process_index() == 0) {
        const char *policy = getenv("STARPU_SCHED");
        printf("{\"bench\": \"overlap\", \"case\": \"%s\", \"hosts\": %d, \"policy\": \"%s\", "
               "\"inner\": %lld, \"comp_ms\": %.2f, \"comm_ms\": %.2f, \"step_ms\": %.2f, \"step_over_max\": "
               "%.3f, "
               "\"step_over_sum\": %.3f, \"free_ms\": %.2f, \"step_over_free\": %.3f}\n",
               name, weft_num_processes(), policy == NULL ? "weft" : policy, (long long)inner, comp, comm, ms,
               ms / (comp > comm ? comp : comm), ms / (comp + comm), free_ms, ms / free_ms);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int provided, repetitions = BENCH_REPETITIONS;
    double ratio = 0;
    int64_t inner = 0;
    bool graph = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0) {
            repetitions = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--ratio") == 0) {
            ratio = atof(argv[i + 1]);
        } else if (strcmp(argv[i], "--inner") == 0) {
            inner = atoll(argv[i + 1]);
        } else if (strcmp(argv[i], "--graph") == 0) {
            graph = atoi(argv[i + 1]) != 0;
        }
    }
    repetitions = repetitions < 1 ? 1 : repetitions > MAX_REPETITIONS ? MAX_REPETITIONS : repetitions;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    int64_t ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const double ratios[] = { 1.0, 2.0, 0.5 };
    for (int i = 0; i < (ratio > 0 || inner > 0 ? 1 : 3); i++) {
        double wanted = ratio > 0 ? ratio : ratios[i];
        char name[64] = "given width";
        if (inner == 0) {
            snprintf(name, sizeof(name), "computing %g of communicating", wanted);
        }
        measure(mesh, name, inner > 0 ? inner : choose_inner(mesh, wanted), repetitions, graph);
    }
    weft_status status = weft_finalize();
    MPI_Finalize();
    return status == WEFT_OK ? 0 : 1;
}
