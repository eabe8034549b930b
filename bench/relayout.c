/* Block-cyclic matrices from one grid of processes to another, beside ScaLAPACK's pdgemr2d, alternating in one run; every element
 * is checked once. One rank per process. Arguments: other sizes than 4096, 8192 and 4099.
 *
 * ScaLAPACK's local arrays are column-major: weft's tensor is the transposed matrix, whose dimension 1 the rows of the grid cut. */
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridmap(int *context, int *processes, int leading, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *coordinate, const int *first, const int *processes);
void descinit_(int descriptor[9], const int *m, const int *n, const int *mb, const int *nb, const int *first_row,
               const int *first_column, const int *context, const int *leading, int *info);
void pdgemr2d_(const int *m, const int *n, const double *a, const int *ia, const int *ja, const int descriptor_a[9], double *b,
               const int *ib, const int *jb, const int descriptor_b[9], const int *context);

/* One side: a matrix of n x n on a grid in square blocks. */
typedef struct side {
    int rows, columns, block;
    int context, descriptor[9];
    size_t count; /* local elements */
    double *memory;
    weft_mesh *mesh;
    weft_placement placements[2];
} side;

static int process, processes;

static void fail(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static side side_of(int n, int rows, int columns, int block)
{
    const int zero = 0;
    side s = { .rows = rows, .columns = columns, .block = block };
    int map[64], row, column, info;
    for (int i = 0; i < rows * columns; i++) {
        map[i % columns * rows + i / columns] = i; /* row-major, as weft's meshes; the map is column-major */
    }
    Cblacs_get(0, 0, &s.context);
    Cblacs_gridmap(&s.context, map, rows, rows, columns);
    Cblacs_gridinfo(s.context, &rows, &columns, &row, &column);
    int local_rows = numroc_(&n, &block, &row, &zero, &rows), local_columns = numroc_(&n, &block, &column, &zero, &columns);
    int leading = local_rows > 1 ? local_rows : 1;
    descinit_(s.descriptor, &n, &n, &block, &block, &zero, &zero, &s.context, &leading, &info);
    s.count = (size_t)local_rows * (size_t)local_columns;
    s.memory = calloc(s.count + 1, sizeof(double));
    if (info != 0 || s.memory == NULL) {
        fail("no descriptor, or no memory");
    }
    s.mesh = weft_mesh_create(2, (int64_t[]){ rows, columns }, NULL);
    for (int m = 0; m < 2; m++) {
        s.placements[m] = (weft_placement){ .kind = WEFT_SHARD, .dim = 1 - m, .cut = WEFT_CUT_CYCLIC, .block = block };
    }
    return s;
}

/* Element (i, j) of the matrix is i + j n. */
static void fill(const side *s, int n, double factor)
{
    int row = process / s->columns, column = process % s->columns;
    size_t k = 0;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n && j / s->block % s->columns == column; i++) {
            if (i / s->block % s->rows == row) {
                s->memory[k++] = factor * ((double)i + (double)j * n);
            }
        }
    }
}

static void check(const side *s, const double *found, const char *who, int n)
{
    double *expected = s->memory, *copy = malloc(s->count * sizeof(double) + 1);
    memcpy(copy, found, s->count * sizeof(double));
    fill(s, n, 1);
    if (memcmp(copy, expected, s->count * sizeof(double)) != 0) {
        fail(who);
    }
    free(copy);
}

static double slowest(double start)
{
    double us = bench_now_us() - start, worst = 0;
    MPI_Allreduce(&us, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static double run_weft(weft_tensor *source, const side *to, int n, bool checks)
{
    weft_scope_begin();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    weft_tensor *moved = weft_redistribute(source, to->mesh, to->placements);
    weft_wait();
    double us = slowest(start);
    if (checks) {
        double *found = malloc(to->count * sizeof(double) + 1);
        weft_local_to_host(moved, 0, found, to->count * sizeof(double));
        bench_check();
        check(to, found, "weft is wrong", n);
        free(found);
    }
    weft_scope_end();
    bench_check();
    return us;
}

static double run_scalapack(const side *from, const side *to, int n, bool checks)
{
    const int one = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    pdgemr2d_(&n, &n, from->memory, &one, &one, from->descriptor, to->memory, &one, &one, to->descriptor, &from->context);
    double us = slowest(start);
    if (checks) {
        check(to, to->memory, "pdgemr2d is wrong", n);
    }
    return us;
}

static void measure(int n, const int grids[4], int from_block, int to_block)
{
    side from = side_of(n, grids[0], grids[1], from_block), to = side_of(n, grids[2], grids[3], to_block);
    const int64_t shape[] = { n, n };
    fill(&from, n, 1);
    weft_scope_begin();
    weft_tensor *source = weft_from_local(WEFT_F64, 2, shape, (void *[]){ from.memory }, from.mesh, from.placements, 0);
    double ours[BENCH_REPETITIONS], theirs[BENCH_REPETITIONS];
    for (int i = -2; i < BENCH_REPETITIONS; i++) { /* two to warm up: lists of tasks are kept from the second use on */
        double us = run_weft(source, &to, n, i == -2), theirs_us = run_scalapack(&from, &to, n, i == -2);
        if (i >= 0) {
            ours[i] = us;
            theirs[i] = theirs_us;
        }
    }
    weft_scope_end();
    weft_wait();
    if (process == 0) {
        double us = bench_median(ours, BENCH_REPETITIONS), their_us = bench_median(theirs, BENCH_REPETITIONS);
        printf("{\"bench\": \"relayout\", \"n\": %d, \"from\": \"%dx%d in %d\", \"to\": \"%dx%d in %d\", \"ms\": %.2f, "
               "\"pdgemr2d_ms\": %.2f, \"vs_pdgemr2d\": %.3f}\n",
               n, from.rows, from.columns, from_block, to.rows, to.columns, to_block, us * 1e-3, their_us * 1e-3, us / their_us);
        fflush(stdout);
    }
    Cblacs_gridexit(from.context);
    Cblacs_gridexit(to.context);
    free(from.memory);
    free(to.memory);
}

int main(int argc, char **argv)
{
    static const int blocks[][2] = { { 32, 64 }, { 64, 100 }, { 100, 32 } };
    int sizes[8] = { 4096, 8192, 4099 }, num_sizes = 3, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc > 1) {
        for (num_sizes = 0; num_sizes < 8 && num_sizes + 1 < argc; num_sizes++) {
            sizes[num_sizes] = atoi(argv[num_sizes + 1]);
        }
    }
    static const int grids[][4] = { { 1, 2, 1, 2 }, { 2, 1, 1, 2 }, { 2, 2, 2, 2 }, { 4, 1, 2, 2 } };
    for (size_t g = 0; g < sizeof(grids) / sizeof(grids[0]); g++) {
        for (int s = 0; s < num_sizes && grids[g][0] * grids[g][1] == processes; s++) {
            for (size_t b = 0; b < 3; b++) {
                measure(sizes[s], grids[g], blocks[b][0], blocks[b][1]);
            }
        }
    }
    weft_finalize();
    MPI_Finalize();
    return 0;
}
