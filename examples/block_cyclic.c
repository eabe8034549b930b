/* A program of ScaLAPACK's, and weft beside it on the same arrays: solves A x = b for a matrix that weft assembles.
 *
 *     mpirun -n 4 block_cyclic --grid 2x2 --size 1000 --block 64
 *
 *   program   fills its block-cyclic array of G, an n x n matrix
 *   weft      A = G G^T / n + I and b = A 1, from that array, without a copy
 *   program   x by pdpotrf_() and pdpotrs_(), in the memory of weft's tensors
 *   weft      A - L L^T and x - 1, from that memory
 *
 * ScaLAPACK stores matrices by columns, weft by rows: a tensor is the transposed matrix. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include <weft/mpi.h>
#include <weft/weft.h>

#include "arguments.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *coordinate, const int *first, const int *processes);
void descinit_(int descriptor[9], const int *m, const int *n, const int *mb, const int *nb, const int *first_row,
               const int *first_column, const int *context, const int *leading, int *info);
void pdpotrf_(const char *triangle, const int *n, double *a, const int *ia, const int *ja, const int descriptor[9], int *info);
void pdpotrs_(const char *triangle, const int *n, const int *columns, const double *a, const int *ia, const int *ja,
              const int descriptor_a[9], double *b, const int *ib, const int *jb, const int descriptor_b[9], int *info);

static struct {
    int64_t mesh[2], size, block;
    bool json;
} o = { .size = 500, .block = 32 };

static const int one = 1, zero = 0;

static void fail(const char *what)
{
    fprintf(stderr, "block_cyclic: %s%s%s\n", what, weft_last_status() == WEFT_OK ? "" : ": ", weft_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the program's matrix -------------------------------------------------------------------------------- */

/* Local index `local` of a process's part is this global one. */
static int64_t global_index(int local, int coordinate, int processes)
{
    int64_t block = local / (int)o.block;
    return (block * processes + coordinate) * o.block + local % (int)o.block;
}

/* G, with elements of -1 .. 1 that depend on their indices alone. */
static double *fill(int context, int descriptor[9])
{
    const int n = (int)o.size, block = (int)o.block;
    int rows, columns, row, column, info;
    Cblacs_gridinfo(context, &rows, &columns, &row, &column);
    int local_rows = numroc_(&n, &block, &row, &zero, &rows), local_columns = numroc_(&n, &block, &column, &zero, &columns);
    int leading = local_rows > 1 ? local_rows : 1;
    descinit_(descriptor, &n, &n, &block, &block, &zero, &zero, &context, &leading, &info);
    double *g = malloc(((size_t)local_rows * (size_t)local_columns + 1) * sizeof(double));
    if (info != 0 || g == NULL) {
        fail("no descriptor, or no memory");
    }
    for (int j = 0; j < local_columns; j++) {
        for (int i = 0; i < local_rows; i++) {
            int64_t number = global_index(i, row, rows) * o.size + global_index(j, column, columns);
            g[(size_t)j * (size_t)leading + (size_t)i] = sin(0.7 * (double)number);
        }
    }
    return g;
}

/* ---- one system ------------------------------------------------------------------------------------------ */

/* ScaLAPACK in the memory of the transposed A and b. Returns LAPACK's info. */
static int solve(weft_tensor *a, weft_tensor *b, int context)
{
    const int n = (int)o.size;
    int of_a[9], of_b[9], info;
    weft_scalapack_descriptor(a, 0, context, of_a);
    weft_scalapack_descriptor(b, 0, context, of_b);
    of_b[4] = of_a[5]; /* where one process has all rows, b says nothing of blocks */
    double *memory = weft_local_acquire(a, 0, WEFT_READ_WRITE), *right_sides = weft_local_acquire(b, 0, WEFT_READ_WRITE);
    if (weft_last_status() != WEFT_OK) {
        fail("no memory of a tensor");
    }
    pdpotrf_("L", &n, memory, &one, &one, of_a, &info);
    if (info == 0) {
        pdpotrs_("L", &n, &one, memory, &one, &one, of_a, right_sides, &one, &one, of_b, &info);
    }
    weft_local_release(a, 0);
    weft_local_release(b, 0);
    return info;
}

static double number_of(weft_tensor *scalar)
{
    double value = NAN;
    weft_tensor_item(scalar, &value);
    return value;
}

static bool run(int context)
{
    const double epsilon = 0x1p-53, n = (double)o.size;
    int of_g[9];
    double *memory = fill(context, of_g);
    weft_scope_begin();
    weft_mesh *grid = weft_mesh_create(2, (const int64_t[]){ o.mesh[0], o.mesh[1] }, NULL);
    weft_tensor *g = weft_from_scalapack(WEFT_F64, of_g, (void *[]){ memory }, grid, 0); /* G^T */
    const weft_placement *cyclic = weft_tensor_placements(g);
    const int64_t shape[] = { o.size, o.size }, row[] = { 1, o.size };
    weft_tensor *identity = weft_eye(WEFT_F64, o.size, o.size, grid, cyclic);
    weft_tensor *a = weft_add(weft_scale(weft_matmul_ex(g, true, g, false), 1 / n), identity);
    weft_tensor *b = weft_reshape(weft_sum(a, 0, false), 2, row);
    weft_tensor *factor = weft_copy_inplace(weft_empty(WEFT_F64, 2, shape, grid, cyclic), a);
    weft_tensor *x = weft_copy_inplace(weft_empty(WEFT_F64, 2, row, grid, cyclic), b);
    int info = solve(factor, x, context);
    weft_tensor *u = weft_triu(factor, 0); /* L is below the diagonal, by columns */
    weft_tensor *rest = weft_sub(a, weft_matmul_ex(u, true, u, false));
    double size = number_of(weft_norm(a, 2, WEFT_ALL_DIMS, false));
    double residual = number_of(weft_norm(rest, 2, WEFT_ALL_DIMS, false)) / (n * size * epsilon);
    double error = number_of(weft_max(weft_abs(weft_add_scalar(x, -1)), WEFT_ALL_DIMS, false));
    char layout[64];
    weft_placements_format(cyclic, 2, layout, sizeof(layout));
    weft_scope_end();
    weft_wait();
    free(memory);
    if (weft_last_status() != WEFT_OK) {
        fail("a call failed");
    }
    bool right = info == 0 && residual < 30 && error < 1e-9;
    if (weft_process_index() == 0) {
        printf(o.json ? "{\"layout\": \"%s\", \"info\": %d, \"residual\": %.3g, \"error\": %.3g, \"right\": %s}\n"
                      : "layout [%s], info %d, |A - L L^T| / (n |A| eps) %.3g, |x - 1| %.3g: %s\n",
               layout, info, residual, error, o.json ? (right ? "true" : "false") : (right ? "right" : "WRONG"));
    }
    return right;
}

int main(int argc, char *argv[])
{
    static const argument table[] = {
        { "grid", ARGUMENT_SIZES, o.mesh, "RxC", "rows and columns of processes (as square as can be)", 1, MOST_RANKS },
        { "size", ARGUMENT_INTEGER, &o.size, "N", "rows of the matrix", 1, 40000 },
        { "block", ARGUMENT_INTEGER, &o.block, "N", "rows and columns of a block", 1, 40000 },
        { "json", ARGUMENT_FLAG, &o.json, NULL, "print one JSON object" },
    };
    int status = arguments_read((int)(sizeof(table) / sizeof(*table)), table,
                                "Solves a system with ScaLAPACK, in tensors that weft computes.\n", argc, argv), provided, processes;
    if (status >= 0) {
        return status;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (o.mesh[0] == 0) {
        int sides[2] = { 0, 0 };
        MPI_Dims_create(processes, 2, sides);
        o.mesh[0] = sides[0];
        o.mesh[1] = sides[1];
    }
    if (o.mesh[0] * o.mesh[1] != processes) {
        fprintf(stderr, "block_cyclic: --grid %dx%d is for %d processes, this is %d\n", (int)o.mesh[0], (int)o.mesh[1],
                (int)(o.mesh[0] * o.mesh[1]), processes);
        MPI_Finalize();
        return 2;
    }
    const weft_config config = { .local_ranks = 1 };
    if (weft_init_mpi(MPI_COMM_WORLD, &config) != WEFT_OK || weft_local_ranks() != 1) {
        fail("weft_init_mpi, for one rank in each process");
    }
    int context;
    Cblacs_get(0, 0, &context);
    Cblacs_gridinit(&context, "Row", (int)o.mesh[0], (int)o.mesh[1]);
    bool right = run(context);
    Cblacs_gridexit(context);
    weft_finalize();
    MPI_Finalize();
    return right ? 0 : 1;
}
