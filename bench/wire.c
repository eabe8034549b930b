/* Redistribution between hosts, relative to the link's speed, and to the equivalent MPI collective. One
 * rank per process; for hosts with links of their own (bench/cluster).
 *
 * The link's speed is the best that plain exchanges between neighbours reached in the same run: its rate
 * without headers. The bytes are the plan's lower bound: no algorithm moves fewer on its busiest rank. */
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

enum { ROWS = 4096, COLUMNS = 4096 }; /* f32: 64 MB */

static const size_t tensor_bytes = (size_t)ROWS * COLUMNS * sizeof(float);
static const size_t line_bytes = 16 << 20; /* of one plain exchange */

typedef struct peers {
    int process, count;
    float *source, *target; /* of the collectives */
} peers;

typedef struct wire_case {
    const char *name;
    weft_placement from, to;
    double bytes; /* lower bound */
    void (*collective)(const peers *p);
} wire_case;

/* ---- what MPI offers for the same ---------------------------------------------------------------------- */

/* Every process sends to the next and receives from the previous one, in eager messages, few at a time:
 * the best rate of this MPI on the link. */
static void plain_exchange(const peers *p)
{
    enum { PIECE = 48 * 1024, WINDOW = 5 };
    int next = (p->process + 1) % p->count, before = (p->process + p->count - 1) % p->count;
    size_t pieces = line_bytes / PIECE;
    MPI_Request *receives = malloc(pieces * sizeof(*receives)), sends[WINDOW];
    if (receives == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t i = 0; i < pieces; i++) {
        MPI_Irecv((char *)p->target + i * PIECE, PIECE, MPI_BYTE, before, (int)i, MPI_COMM_WORLD,
                  &receives[i]);
    }
    for (size_t i = 0; i < pieces; i++) {
        int slot = (int)i;
        if (i >= WINDOW) {
            MPI_Waitany(WINDOW, sends, &slot, MPI_STATUS_IGNORE);
        }
        MPI_Isend((char *)p->source + i * PIECE, PIECE, MPI_BYTE, next, (int)i, MPI_COMM_WORLD, &sends[slot]);
    }
    MPI_Waitall(pieces < WINDOW ? (int)pieces : WINDOW, sends, MPI_STATUSES_IGNORE);
    MPI_Waitall((int)pieces, receives, MPI_STATUSES_IGNORE);
    free(receives);
}

static void alltoall(const peers *p)
{
    int rows = ROWS / p->count, columns = COLUMNS / p->count;
    MPI_Datatype out, in;
    MPI_Type_vector(rows, columns, COLUMNS, MPI_FLOAT, &out);
    MPI_Type_contiguous(rows * columns, MPI_FLOAT, &in);
    MPI_Type_commit(&out);
    MPI_Type_commit(&in);
    int ones[64], out_at[64], in_at[64];
    MPI_Datatype outs[64], ins[64];
    for (int i = 0; i < p->count; i++) {
        ones[i] = 1;
        out_at[i] = i * columns * (int)sizeof(float);
        in_at[i] = i * rows * columns * (int)sizeof(float);
        outs[i] = out;
        ins[i] = in;
    }
    MPI_Alltoallw(p->source, ones, out_at, outs, p->target, ones, in_at, ins, MPI_COMM_WORLD);
    MPI_Type_free(&out);
    MPI_Type_free(&in);
}

static void allgather(const peers *p)
{
    int count = ROWS / p->count * COLUMNS;
    MPI_Allgather(p->source, count, MPI_FLOAT, p->target, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void allreduce(const peers *p)
{
    MPI_Allreduce(p->source, p->target, ROWS * COLUMNS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(const peers *p)
{
    MPI_Reduce_scatter_block(p->source, p->target, ROWS / p->count * COLUMNS, MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

/* From the arrival of all processes to the end of the last. */
static double slowest(double start)
{
    double us = bench_now_us() - start, worst = 0;
    MPI_Allreduce(&us, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static double run_mpi(void (*collective)(const peers *), const peers *p)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    collective(p);
    return slowest(start);
}

static double run_weft(weft_tensor *source, weft_mesh *mesh, weft_placement to)
{
    MPI_Barrier(MPI_COMM_WORLD);
    weft_scope_begin();
    double start = bench_now_us();
    weft_redistribute(source, mesh, &to);
    weft_wait();
    double us = slowest(start);
    weft_scope_end();
    bench_check();
    return us;
}

static weft_tensor *make_source(weft_mesh *mesh, weft_placement from)
{
    int64_t shape[] = { ROWS, COLUMNS };
    weft_tensor *source = weft_empty(WEFT_F32, 2, shape, mesh, &from);
    void *memory = weft_local_acquire(source, 0, WEFT_WRITE);
    bench_check();
    memset(memory, 0, from.kind == WEFT_PARTIAL ? tensor_bytes : tensor_bytes / (size_t)weft_world_size());
    weft_local_release(source, 0);
    return source;
}

/* line: the best rate of plain exchanges so far, bytes per us = MB/s. */
static void measure(const wire_case *c, weft_mesh *mesh, const peers *p, double *line)
{
    weft_scope_begin();
    weft_tensor *source = make_source(mesh, c->from);
    for (int i = 0; i < 2; i++) { /* warm-up: buffers, connections; lists are kept from the second use on */
        run_weft(source, mesh, c->to);
    }
    run_mpi(c->collective, p);
    double ours[BENCH_REPETITIONS], theirs[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        double rate = (double)line_bytes / run_mpi(plain_exchange, p);
        *line = rate > *line ? rate : *line;
        ours[i] = run_weft(source, mesh, c->to);
        theirs[i] = run_mpi(c->collective, p);
    }
    weft_scope_end();
    double us = bench_median(ours, BENCH_REPETITIONS), mpi_us = bench_median(theirs, BENCH_REPETITIONS);
    if (p->process == 0) {
        printf("{\"bench\": \"wire\", \"case\": \"%s\", \"hosts\": %d, \"ms\": %.2f, \"mpi_ms\": %.2f, "
               "\"line_mb_per_s\": %.1f, \"fraction_of_line\": %.3f, \"vs_mpi\": %.3f}\n",
               c->name, p->count, us * 1e-3, mpi_us * 1e-3, *line, c->bytes / us / *line, mpi_us / us);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    peers p = { 0 };
    MPI_Comm_rank(MPI_COMM_WORLD, &p.process);
    MPI_Comm_size(MPI_COMM_WORLD, &p.count);
    if (p.count > 64 || ROWS % p.count != 0 || weft_world_size() != p.count) {
        fprintf(stderr, "bench: run it with 2, 4, 8, ... processes of one rank\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    p.source = calloc(1, tensor_bytes);
    p.target = calloc(1, tensor_bytes);
    if (p.source == NULL || p.target == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(p.source, 0, tensor_bytes);
    memset(p.target, 1, tensor_bytes);
    double size = (double)tensor_bytes, n = p.count, others = (n - 1) / n;
    const wire_case cases[] = {
        { "S0->S1", weft_shard(0), weft_shard(1), size / n * others, alltoall },
        { "S0->R", weft_shard(0), weft_replicate(), size * others, allgather },
        { "P->R", weft_partial(WEFT_SUM), weft_replicate(), 2 * size * others, allreduce },
        { "P->S0", weft_partial(WEFT_SUM), weft_shard(0), size * others, reduce_scatter },
    };
    int64_t ranks = p.count;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    double line = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc < 2 || strcmp(argv[1], cases[i].name) == 0) {
            measure(&cases[i], mesh, &p, &line);
        }
    }
    free(p.source);
    free(p.target);
    weft_status status = weft_finalize();
    MPI_Finalize();
    return status == WEFT_OK ? 0 : 1;
}
