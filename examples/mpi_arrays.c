/* The code of docs/mpi.md: an MPI program with arrays of its own, and weft beside. Run under mpirun with any number of
 * processes; the values are compared with a plain loop. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include <weft/weft.h>
#include <weft/mpi.h>

enum { N = 1001, COLUMNS = 3, STEPS = 20 };

/* Rows as many MPI programs cut them: N / p, and one more for the first N % p. */
static void my_rows(int process, int processes, int64_t *first, int64_t *count)
{
    *count = N / processes + (process < N % processes);
    *first = process * (N / processes) + (process < N % processes ? process : N % processes);
}

static double start_value(int64_t i)
{
    return sin((double)i);
}

/* Steps on the program's rows, in place. */
static void relax(double *rows)
{
    const int64_t shape[] = { N, COLUMNS };
    const weft_placement by_rows = weft_shard_balanced(0);

    weft_scope_begin();
    weft_tensor *u = weft_from_local(WEFT_F64, 2, shape, (void *[]){ rows }, NULL, &by_rows, 0);
    for (int step = 0; step < STEPS; step++) {
        weft_scope_begin();                        /* what a step makes ends with it */
        weft_tensor *sum = weft_add(weft_roll(u, 1, 0), weft_roll(u, -1, 0));
        weft_copy_inplace(u, weft_scale(sum, 0.5));
        weft_scope_end();
    }
    weft_scope_end();
    weft_wait();                                  /* now the rows have the values */
}

/* The sum of all numbers of all processes, as MPI_Allreduce() gives it. */
static double sum_of_all(double *rows)
{
    double sum = 0;
    const weft_placement by_rows = weft_shard_balanced(0);
    weft_scope_begin();
    weft_tensor *u = weft_from_local(WEFT_F64, 2, (int64_t[]){ N, COLUMNS }, (void *[]){ rows }, NULL, &by_rows, 0);
    weft_tensor_item(weft_sum(u, WEFT_ALL_DIMS, false), &sum); /* Partial(sum): reduced here */
    weft_scope_end();
    weft_wait();
    return sum;
}

/* ---- what it should be ----------------------------------------------------------------------------------- */

static int differs(const double *rows, int64_t first, int64_t count, double sum)
{
    static double now[N], next[N];
    double expected = 0;
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        now[i] = start_value(i);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) {
            next[i] = (now[(i + N - 1) % N] + now[(i + 1) % N]) * 0.5;
        }
        for (int i = 0; i < N; i++) {
            now[i] = next[i];
        }
    }
    for (int64_t i = 0; i < N; i++) {
        expected += now[i] * COLUMNS;
    }
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        wrong += !(fabs(rows[i] - now[first + i / COLUMNS]) < 1e-12);
    }
    return wrong + !(fabs(sum - expected) < 1e-9);
}

int main(int argc, char *argv[])
{
    int provided, process, processes;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (weft_init_mpi(MPI_COMM_WORLD, NULL) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL));

    int64_t first, count;
    my_rows(process, processes, &first, &count);
    double *rows = malloc((size_t)(count * COLUMNS) * sizeof(*rows));
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        rows[i] = start_value(first + i / COLUMNS);
    }
    relax(rows);

    double mine = 0, all = 0;
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        mine += rows[i];                          /* the program's arrays, its own loop, its own MPI */
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);

    double sum = sum_of_all(rows);
    int wrong = differs(rows, first, count, sum) + !(fabs(all - sum) < 1e-9);
    int failed = weft_last_status() != WEFT_OK || wrong > 0;
    if (failed) {
        fprintf(stderr, "process %d: %d wrong, %s\n", process, wrong, weft_last_error());
    }
    weft_finalize();
    free(rows);                                   /* weft may use it until here */
    MPI_Finalize();
    return failed;
}
