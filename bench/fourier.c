/* Complex transforms in f64 beside FFTW-MPI's, alternating in one run. One rank per process; FFTW estimates its plans, and both leave
 * the result where it is (FFTW_MPI_TRANSPOSED_OUT, for one dimension FFTW_MPI_SCRAMBLED_OUT). Arguments: sizes, as 4096x4096 (the
 * default), 256x256x256, 4194304; FFTW_MEASURE measures FFTW's plans. The error is that of there and back. */
#include <fftw3-mpi.h>
#include <math.h>
#include <mpi.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

static int process, processes;
static unsigned planner = FFTW_ESTIMATE;

static double slowest(double start)
{
    double us = bench_now_us() - start, most;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

typedef struct peer {
    fftw_plan plan;
    fftw_complex *in, *out;
} peer;

static peer make_peer(int ndim, const ptrdiff_t shape[])
{
    ptrdiff_t rows, first, rows_out, first_out, local;
    peer p;
    if (ndim == 1) {
        const unsigned flags = planner | FFTW_MPI_SCRAMBLED_OUT;
        local = fftw_mpi_local_size_1d(shape[0], MPI_COMM_WORLD, FFTW_FORWARD, flags, &rows, &first, &rows_out, &first_out);
        p.in = fftw_alloc_complex((size_t)local + 1);
        p.out = fftw_alloc_complex((size_t)local + 1);
        p.plan = fftw_mpi_plan_dft_1d(shape[0], p.in, p.out, MPI_COMM_WORLD, FFTW_FORWARD, flags);
    } else {
        local = fftw_mpi_local_size_transposed(ndim, shape, MPI_COMM_WORLD, &rows, &first, &rows_out, &first_out);
        p.in = fftw_alloc_complex((size_t)local + 1);
        p.out = fftw_alloc_complex((size_t)local + 1);
        p.plan = fftw_mpi_plan_dft(ndim, shape, p.in, p.out, MPI_COMM_WORLD, FFTW_FORWARD, planner | FFTW_MPI_TRANSPOSED_OUT);
    }
    if (p.plan == NULL) { /* on one process FFTW has no such plan of one dimension */
        p.plan = fftw_mpi_plan_dft(ndim, shape, p.in, p.out, MPI_COMM_WORLD, FFTW_FORWARD, planner);
    }
    if (p.plan == NULL) {
        fprintf(stderr, "bench: FFTW has no plan\n");
        exit(1);
    }
    for (ptrdiff_t i = 0; i < local; i++) {
        p.in[i][0] = (double)(i % 7);
        p.in[i][1] = (double)(i % 5);
    }
    return p;
}

static double run_peer(const peer *p)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    fftw_execute(p->plan);
    return slowest(start);
}

static double run_weft(weft_tensor *a, int ndim)
{
    weft_scope_begin();
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now_us();
    weft_fftn(a, ndim, NULL, NULL, WEFT_FFT_BACKWARD);
    weft_wait();
    double us = slowest(start);
    weft_scope_end();
    bench_check();
    return us;
}

/* The largest error of a transform and its inverse, divided by the largest element. */
static double error_of(weft_tensor *a, int ndim)
{
    double error, most;
    weft_scope_begin();
    weft_tensor *back = weft_ifftn(weft_fftn(a, ndim, NULL, NULL, WEFT_FFT_BACKWARD), ndim, NULL, NULL, WEFT_FFT_BACKWARD);
    weft_tensor_item(weft_norm(weft_sub(back, a), INFINITY, WEFT_ALL_DIMS, false), &error);
    weft_tensor_item(weft_norm(a, INFINITY, WEFT_ALL_DIMS, false), &most);
    weft_scope_end();
    bench_check();
    return error / most;
}

static void measure(const char *text)
{
    ptrdiff_t shape[WEFT_MAX_DIMS];
    int64_t sizes[WEFT_MAX_DIMS];
    int ndim = 0;
    for (const char *at = text; *at != '\0' && ndim < WEFT_MAX_DIMS; at += *at == 'x') {
        char *end;
        sizes[ndim] = shape[ndim] = (ptrdiff_t)strtoll(at, &end, 10);
        ndim++;
        at = end;
    }
    double ours[BENCH_REPETITIONS], theirs[BENCH_REPETITIONS];
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ processes }, NULL);
    const weft_placement rows = weft_shard(0);
    peer p = make_peer(ndim, shape);
    weft_scope_begin();
    weft_tensor *a = weft_randn(WEFT_C128, ndim, sizes, mesh, &rows);
    double error = error_of(a, ndim);
    for (int i = -1; i < BENCH_REPETITIONS; i++) {
        double us = run_weft(a, ndim), their_us = run_peer(&p);
        if (i >= 0) {
            ours[i] = us;
            theirs[i] = their_us;
        }
    }
    weft_scope_end();
    fftw_destroy_plan(p.plan);
    fftw_free(p.in);
    fftw_free(p.out);
    if (process == 0) {
        double us = bench_median(ours, BENCH_REPETITIONS), their_us = bench_median(theirs, BENCH_REPETITIONS);
        printf("{\"bench\": \"fourier\", \"shape\": \"%s\", \"processes\": %d, \"ms\": %.1f, \"fftw_ms\": %.1f, \"vs_fftw\": %.3f, "
               "\"error\": %.1e}\n",
               text, processes, us * 1e-3, their_us * 1e-3, us / their_us, error);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int provided, measured = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    fftw_mpi_init();
    weft_init_mpi(MPI_COMM_WORLD, NULL);
    bench_check();
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "FFTW_MEASURE") == 0) {
            planner = FFTW_MEASURE;
        } else {
            measure(argv[i]);
            measured++;
        }
    }
    if (measured == 0) {
        measure("4096x4096");
    }
    weft_finalize();
    fftw_mpi_cleanup();
    MPI_Finalize();
    return 0;
}
