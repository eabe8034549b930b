/* Products of a sparse matrix and a vector beside PETSc's MatMult, alternating in one run: 27 points of a cube of n^3 points, f64, 32-bit
 * indices. A repetition is a chain of products, each of the last one's result. One rank per process. Arguments: sizes n other than 32
 * and 64. */
#include <math.h>
#include <mpi.h>
#include <petscmat.h>
#include <string.h>

#include <weft/mpi.h>
#include <weft/weft.h>

#include "bench.h"

enum { PRODUCTS = 20, POINTS = 27 };

static int process, processes;

/* The rows of this process in CSR, and those of PETSc's cut, which are the same. */
typedef struct rows {
    int n;
    int64_t all, first, count;
    int32_t *offsets, *columns;
    double *values;
} rows;

static void add_row(rows *r, int64_t row)
{
    const int64_t n = r->n, x = row / (n * n), y = row / n % n, z = row % n;
    int32_t next = r->offsets[row - r->first];
    for (int k = 0; k < POINTS; k++) {
        const int64_t i = x + k / 9 - 1, j = y + k / 3 % 3 - 1, l = z + k % 3 - 1;
        if (i >= 0 && i < n && j >= 0 && j < n && l >= 0 && l < n) {
            r->columns[next] = (int32_t)((i * n + j) * n + l);
            r->values[next++] = 1.0 / POINTS; /* so that powers do not overflow */
        }
    }
    r->offsets[row - r->first + 1] = next;
}

static rows make_rows(int n)
{
    rows r = { .n = n, .all = (int64_t)n * n * n };
    const int64_t chunk = (r.all + processes - 1) / processes;
    r.first = chunk * process < r.all ? chunk * process : r.all;
    r.count = r.first + chunk < r.all ? chunk : r.all - r.first;
    r.offsets = calloc((size_t)r.count + 1, sizeof(*r.offsets));
    r.columns = malloc((size_t)r.count * POINTS * sizeof(*r.columns));
    r.values = malloc((size_t)r.count * POINTS * sizeof(*r.values));
    for (int64_t row = r.first; row < r.first + r.count; row++) {
        add_row(&r, row);
    }
    return r;
}

static double slowest(double start)
{
    double us = bench_now_us() - start, most;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double run_petsc(Mat a, Vec x, Vec y)
{
    VecSet(x, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = bench_now_us();
    for (int i = 0; i < PRODUCTS; i += 2) {
        MatMult(a, x, y);
        MatMult(a, y, x);
    }
    return slowest(start);
}

static double run_weft(const weft_sparse *a, weft_tensor *values, weft_tensor *ones, double *norm)
{
    weft_scope_begin();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = bench_now_us();
    weft_tensor *x = ones;
    for (int i = 0; i < PRODUCTS; i++) {
        x = weft_sparse_matmul(a, values, x, false);
    }
    weft_wait();
    const double us = slowest(start);
    weft_tensor_item(weft_norm(x, 2, WEFT_ALL_DIMS, false), norm);
    weft_scope_end();
    bench_check();
    return us;
}

static void measure(int n)
{
    double ours[BENCH_REPETITIONS], theirs[BENCH_REPETITIONS], own_norm = 0, other_norm = 0;
    rows r = make_rows(n);
    const weft_placement by_rows = weft_shard(0);
    weft_placement of_values;
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ processes }, NULL);
    weft_scope_begin();
    weft_sparse *a = weft_sparse_create_csr(r.all, r.all, mesh, &by_rows, NULL, WEFT_I32, (const void *[]){ r.offsets },
                                            (const void *[]){ r.columns });
    weft_sparse_placements(a, &of_values);
    weft_tensor *values = weft_from_local(WEFT_F64, 1, (const int64_t[]){ weft_sparse_nnz(a) }, (void *[]){ r.values }, mesh, &of_values, 0);
    weft_tensor *ones = weft_ones(WEFT_F64, 1, &r.all, mesh, &by_rows);
    bench_check();
    Mat matrix;
    Vec x, y;
    MatCreateMPIAIJWithArrays(PETSC_COMM_WORLD, (PetscInt)r.count, (PetscInt)r.count, PETSC_DETERMINE, PETSC_DETERMINE, r.offsets,
                              r.columns, r.values, &matrix);
    MatCreateVecs(matrix, &x, &y);
    for (int i = -1; i < BENCH_REPETITIONS; i++) {
        const double us = run_weft(a, values, ones, &own_norm), their_us = run_petsc(matrix, x, y);
        if (i >= 0) {
            ours[i] = us;
            theirs[i] = their_us;
        }
    }
    VecNorm(x, NORM_2, &other_norm);
    const double us = bench_median(ours, BENCH_REPETITIONS), their_us = bench_median(theirs, BENCH_REPETITIONS);
    double least = ours[0], their_least = theirs[0];
    for (int i = 1; i < BENCH_REPETITIONS; i++) {
        least = fmin(least, ours[i]);
        their_least = fmin(their_least, theirs[i]);
    }
    if (process == 0) {
        printf("{\"bench\": \"sparse\", \"n\": %d, \"processes\": %d, \"ms\": %.3f, \"petsc_ms\": %.3f, \"vs_petsc\": %.3f, "
               "\"least_vs_petsc\": %.3f, \"difference\": %.1e}\n",
               n, processes, us * 1e-3 / PRODUCTS, their_us * 1e-3 / PRODUCTS, us / their_us, least / their_least,
               fabs(own_norm - other_norm) / other_norm);
        fflush(stdout);
    }
    MatDestroy(&matrix);
    VecDestroy(&x);
    VecDestroy(&y);
    weft_scope_end();
    weft_sparse_destroy(a);
    weft_wait();
    free(r.offsets);
    free(r.columns);
    free(r.values);
}

int main(int argc, char **argv)
{
    int sizes[8] = { 32, 64 }, num_sizes = 2, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    PetscInitializeNoArguments();
    const weft_config config = { .local_ranks = 1 };
    weft_init_mpi(MPI_COMM_WORLD, &config);
    bench_check();
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int i = 1; i < argc && i <= 8; i++) {
        sizes[i - 1] = atoi(argv[i]);
        num_sizes = i;
    }
    for (int i = 0; i < num_sizes; i++) {
        measure(sizes[i]);
    }
    weft_finalize();
    PetscFinalize();
    MPI_Finalize();
    return 0;
}
