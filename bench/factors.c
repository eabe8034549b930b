/* Factorisations of one matrix beside ScaLAPACK's, alternating in one run: Cholesky's beside pdpotrf, or, with the argument `lu`, LU beside
 * pdgetrf, or, with `qr`, QR beside pdgeqrf and pdorgqr, which both make Q too. The residual is that of a product with a vector. One
 * rank per process. Other arguments: other sizes than 2048 and 4096; B=block. */
#include <math.h>
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *coordinate, const int *first, const int *processes);
void descinit_(int descriptor[9], const int *m, const int *n, const int *mb, const int *nb, const int *first_row,
               const int *first_column, const int *context, const int *leading, int *info);
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja, const int descriptor[9], int *info);
void pdgetrf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int descriptor[9], int *pivots, int *info);
void pdgeqrf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int descriptor[9], double *tau, double *work,
              const int *size, int *info);
void pdorgqr_(const int *m, const int *n, const int *k, double *a, const int *ia, const int *ja, const int descriptor[9],
              const double *tau, double *work, const int *size, int *info);

typedef enum method { CHOLESKY, LU, QR } method;

static int process, processes;
static method which;

/* Positive-definite: large on the diagonal. For LU and QR from -0.5 to 0.5, in no order: almost every row is exchanged. */
static double element(int64_t i, int64_t j, int n)
{
    uint64_t x = (uint64_t)(i * n + j + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return which != CHOLESKY ? (double)(x >> 11) * 0x1p-53 - 0.5 : i == j ? n : 1 / (1 + fabs((double)(i - j)));
}

static double slowest(double start)
{
    double us = bench_now_us() - start, most;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* The work array is as large as ScaLAPACK says first. */
static void call_qr(int n, double *a, const int descriptor[9], double *tau, int *info)
{
    const int one = 1, ask = -1;
    double told[2];
    pdgeqrf_(&n, &n, a, &one, &one, descriptor, tau, &told[0], &ask, info);
    pdorgqr_(&n, &n, &n, a, &one, &one, descriptor, tau, &told[1], &ask, info);
    int size = (int)fmax(told[0], told[1]);
    double *work = malloc((size_t)size * sizeof(double));
    pdgeqrf_(&n, &n, a, &one, &one, descriptor, tau, work, &size, info);
    pdorgqr_(&n, &n, &n, a, &one, &one, descriptor, tau, work, &size, info);
    free(work);
}

/* Microseconds of ScaLAPACK's routine on the grid that suits it best: as square as possible. */
static double run_scalapack(int n, int block)
{
    const int zero = 0, one = 1;
    int rows = 1, columns, row, column, context, info, descriptor[9];
    while ((rows + 1) * (rows + 1) <= processes) {
        rows++;
    }
    while (processes % rows != 0) {
        rows--;
    }
    columns = processes / rows;
    Cblacs_get(0, 0, &context);
    Cblacs_gridinit(&context, "R", rows, columns);
    Cblacs_gridinfo(context, &rows, &columns, &row, &column);
    int local_rows = numroc_(&n, &block, &row, &zero, &rows), local_columns = numroc_(&n, &block, &column, &zero, &columns);
    int leading = local_rows > 1 ? local_rows : 1;
    descinit_(descriptor, &n, &n, &block, &block, &zero, &zero, &context, &leading, &info);
    double *a = malloc((size_t)leading * (size_t)local_columns * sizeof(double) + 8);
    for (int j = 0; j < local_columns; j++) {
        for (int i = 0; i < local_rows; i++) {
            int64_t global_row = (int64_t)(i / block * rows + row) * block + i % block;
            int64_t global_column = (int64_t)(j / block * columns + column) * block + j % block;
            a[(size_t)j * (size_t)leading + (size_t)i] = element(global_row, global_column, n);
        }
    }
    int *pivots = malloc((size_t)(leading + block) * sizeof(*pivots));
    double *tau = malloc((size_t)(local_columns + block) * sizeof(*tau));
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    if (which == QR) {
        call_qr(n, a, descriptor, tau, &info);
    } else if (which == LU) {
        pdgetrf_(&n, &n, a, &one, &one, descriptor, pivots, &info);
    } else {
        pdpotrf_("L", &n, a, &one, &one, descriptor, &info);
    }
    double us = slowest(start);
    if (info != 0) {
        fprintf(stderr, "bench: ScaLAPACK says %d\n", info);
        exit(1);
    }
    free(a);
    free(pivots);
    free(tau);
    Cblacs_gridexit(context);
    return us;
}

static double run_weft(weft_tensor *a)
{
    weft_scope_begin();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    weft_tensor *other;
    if (which == QR) {
        weft_qr(a, &other);
    } else if (which == LU) {
        weft_lu_factor(a, &other);
    } else {
        weft_cholesky(a, true);
    }
    weft_wait();
    double us = slowest(start);
    weft_scope_end();
    bench_check();
    return us;
}

/* |P L U x - A x| / |A x| for x of ones; P L = U^H for Cholesky's, and Q, with U = R. */
static double residual(weft_tensor *a)
{
    double value;
    weft_scope_begin();
    weft_tensor *l = NULL, *u = NULL, *p = which == LU ? weft_lu(a, &l, &u) : which == QR ? weft_qr(a, &u) : NULL;
    u = which == CHOLESKY ? weft_cholesky(a, true) : u;
    weft_tensor *x = weft_ones(WEFT_F64, 2, (const int64_t[]){ weft_tensor_size(a, 0), 1 }, weft_tensor_mesh(a), NULL);
    weft_tensor *ax = weft_matmul(a, x), *ux = weft_matmul(u, x);
    weft_tensor *product = which == CHOLESKY ? weft_matmul_ex(u, true, ux, false) : weft_matmul(p, which == LU ? weft_matmul(l, ux) : ux);
    weft_tensor_item(weft_div(weft_norm(weft_sub(product, ax), 2, WEFT_ALL_DIMS, false), weft_norm(ax, 2, WEFT_ALL_DIMS, false)), &value);
    weft_scope_end();
    bench_check();
    return value;
}

static void measure(int n, int block)
{
    double ours[BENCH_REPETITIONS], theirs[BENCH_REPETITIONS];
    weft_placement dealt;
    char text[32];
    snprintf(text, sizeof(text), which == CHOLESKY ? "S0*%d" : "S1*%d", block);
    weft_placements_parse(text, 1, &dealt);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ processes }, NULL);
    double *dense = malloc((size_t)n * (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            dense[i * n + j] = element(i, j, n);
        }
    }
    weft_scope_begin();
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (const int64_t[]){ n, n }, dense, mesh, &dealt);
    weft_wait();
    free(dense);
    double error = residual(a);
    for (int i = -1; i < BENCH_REPETITIONS; i++) {
        double us = run_weft(a), their_us = run_scalapack(n, block);
        if (i >= 0) {
            ours[i] = us;
            theirs[i] = their_us;
        }
    }
    weft_scope_end();
    if (process == 0) {
        double us = bench_median(ours, BENCH_REPETITIONS), their_us = bench_median(theirs, BENCH_REPETITIONS);
        printf("{\"bench\": \"%s\", \"n\": %d, \"block\": %d, \"processes\": %d, \"ms\": %.1f, \"scalapack_ms\": %.1f, "
               "\"vs_scalapack\": %.3f, \"residual\": %.1e}\n",
               which == CHOLESKY ? "cholesky" : which == LU ? "lu" : "qr", n, block, processes, us * 1e-3, their_us * 1e-3, us / their_us, error);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int sizes[8] = { 2048, 4096 }, num_sizes = 2, given = 0, block = 128, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "B=", 2) == 0) {
            block = atoi(argv[i] + 2);
        } else if (strcmp(argv[i], "lu") == 0) {
            which = LU;
        } else if (strcmp(argv[i], "qr") == 0) {
            which = QR;
        } else if (given < 8) {
            sizes[given++] = atoi(argv[i]);
            num_sizes = given;
        }
    }
    for (int i = 0; i < num_sizes; i++) {
        measure(sizes[i], block);
    }
    weft_finalize();
    MPI_Finalize();
    return 0;
}
