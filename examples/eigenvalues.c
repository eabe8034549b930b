/* Libraries of other people on weft's tensors in place: each takes a tensor's memory and its descriptor, and nothing is laid out again.
 *
 *     mpirun -n 4 eigenvalues --grid 2x2 --size 1000 --block 32
 *
 *   weft        assembles a symmetric matrix, in ScaLAPACK's block-cyclic layout
 *   ScaLAPACK   its eigenvalues and eigenvectors by pdsyevd_()
 *   ELPA        the same again, if weft was built with it
 *   ScaLAPACK   a system by pdgesv_(), and weft the same by weft_solve()
 *   weft        the residuals, in LAPACK's units
 *
 * The libraries' calls block, and every process makes them in the same order. ScaLAPACK stores matrices by columns, weft by rows: a tensor
 * is the transposed matrix, so its rows are the eigenvectors. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>
#ifdef WITH_ELPA
#include <elpa/elpa.h>
#endif

#include <weft/mpi.h>
#include <weft/weft.h>

#include "arguments.h"

void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridexit(int context);
void pdsyevd_(const char *job, const char *triangle, const int *n, double *a, const int *ia, const int *ja, const int descriptor_a[9],
              double *values, double *z, const int *iz, const int *jz, const int descriptor_z[9], double *work, const int *size,
              int *whole_work, const int *whole_size, int *info);
void pdgesv_(const int *n, const int *columns, double *a, const int *ia, const int *ja, const int descriptor_a[9], int *pivots, double *b,
             const int *ib, const int *jb, const int descriptor_b[9], int *info);

static struct {
    int64_t mesh[2], size, block;
    bool json;
} o = { .size = 300, .block = 32 };

static const int one = 1;
static const double epsilon = 0x1p-53;

static void fail(const char *what)
{
    fprintf(stderr, "eigenvalues: %s%s%s\n", what, weft_last_status() == WEFT_OK ? "" : ": ", weft_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- a tensor as libraries see it ------------------------------------------------------------------------ */

typedef struct foreign {
    weft_tensor *tensor;
    double *memory;
    int descriptor[9];
} foreign;

/* Waits for the values. */
static foreign lend(weft_tensor *tensor, int context)
{
    foreign f = { .tensor = tensor };
    weft_scalapack_descriptor(tensor, 0, context, f.descriptor);
    f.memory = weft_local_acquire(tensor, 0, WEFT_READ_WRITE);
    if (f.memory == NULL) {
        fail("no memory of a tensor");
    }
    return f;
}

/* A library's results are in the tensor. */
static void take_back(const foreign *f)
{
    weft_local_release(f->tensor, 0);
}

/* A copy, which a library may overwrite. */
static weft_tensor *copy_of(weft_tensor *tensor)
{
    weft_tensor *copy = weft_empty_like(tensor);
    return weft_copy_inplace(copy, tensor);
}

static double norm_of(weft_tensor *a)
{
    double norm = NAN;
    weft_tensor_item(weft_norm(a, 2, WEFT_ALL_DIMS, false), &norm);
    return norm;
}

/* ---- eigenvalues ----------------------------------------------------------------------------------------- */

/* Sizes of work arrays are asked for first. Returns LAPACK's info. */
static int by_scalapack(weft_tensor *matrix, weft_tensor *vectors, int context, double values[])
{
    const int n = (int)o.size, ask = -1;
    foreign a = lend(matrix, context), z = lend(vectors, context);
    double told = 0;
    int told_whole = 0, info;
    pdsyevd_("V", "L", &n, a.memory, &one, &one, a.descriptor, values, z.memory, &one, &one, z.descriptor, &told, &ask, &told_whole, &ask,
             &info);
    const double wanted = told + 64.0 * n; /* ScaLAPACK 2.2 tells too little for some grids */
    if (info != 0 || wanted > INT_MAX) {
        fail("the work array of pdsyevd");
    }
    const int size = (int)wanted, whole_size = told_whole;
    double *work = malloc((size_t)size * sizeof(*work));
    int *whole_work = malloc((size_t)whole_size * sizeof(*whole_work));
    if (work == NULL || whole_work == NULL) {
        fail("no memory for pdsyevd");
    }
    pdsyevd_("V", "L", &n, a.memory, &one, &one, a.descriptor, values, z.memory, &one, &one, z.descriptor, work, &size, whole_work,
             &whole_size, &info);
    free(work);
    free(whole_work);
    take_back(&a);
    take_back(&z);
    return info;
}

#ifdef WITH_ELPA
/* The process grid is weft's mesh: ELPA needs a process's place in it, and no context. */
static int by_elpa(weft_tensor *matrix, weft_tensor *vectors, int context, double values[])
{
    int64_t place[2];
    weft_mesh_coordinate(weft_tensor_mesh(matrix), weft_first_rank(), place);
    foreign a = lend(matrix, context), z = lend(vectors, context);
    const int rows = a.descriptor[8], columns = (int)(weft_local_bytes(matrix, 0) / sizeof(double)) / rows;
    int error;
    if (elpa_init(20211125) != ELPA_OK) {
        fail("another version of ELPA");
    }
    elpa_t elpa = elpa_allocate(&error);
    elpa_set(elpa, "na", (int)o.size, &error);
    elpa_set(elpa, "nev", (int)o.size, &error);
    elpa_set(elpa, "local_nrows", rows, &error);
    elpa_set(elpa, "local_ncols", columns, &error);
    elpa_set(elpa, "nblk", (int)o.block, &error);
    elpa_set(elpa, "mpi_comm_parent", (int)MPI_Comm_c2f(MPI_COMM_WORLD), &error);
    elpa_set(elpa, "process_row", (int)place[0], &error);
    elpa_set(elpa, "process_col", (int)place[1], &error);
    error = elpa_setup(elpa);
    if (error == ELPA_OK) {
        elpa_eigenvectors(elpa, a.memory, values, z.memory, &error);
    }
    int freed;
    elpa_deallocate(elpa, &freed);
    elpa_uninit(&freed);
    take_back(&a);
    take_back(&z);
    return error;
}
#endif

/* |A Z - Z D| / (n |A| eps) and |1 - Z^T Z| / (n eps), the larger; the rows of `vectors` are the columns of Z. */
static double residual(weft_tensor *a, weft_tensor *vectors, const double values[])
{
    const double n = (double)o.size;
    weft_mesh *mesh = weft_tensor_mesh(a);
    weft_tensor *d = weft_distribute(WEFT_F64, 2, (const int64_t[]){ o.size, 1 }, values, mesh, NULL);
    weft_tensor *rest = weft_sub(weft_matmul(vectors, a), weft_mul(vectors, d));
    weft_tensor *unit = weft_eye(WEFT_F64, o.size, o.size, mesh, NULL);
    const double first = norm_of(rest) / (n * norm_of(a) * epsilon);
    return fmax(first, norm_of(weft_sub(weft_matmul_ex(vectors, false, vectors, true), unit)) / (n * epsilon));
}

/* ---- a system -------------------------------------------------------------------------------------------- */

/* |A x - b| / (|A| |x| n eps) of both solutions, the larger. `transpose` is the matrix as ScaLAPACK reads it. */
static double solve_both(weft_tensor *transpose, int context)
{
    const int n = (int)o.size, columns = 3;
    const weft_placement *cyclic = weft_tensor_placements(transpose);
    weft_mesh *mesh = weft_tensor_mesh(transpose);
    weft_tensor *matrix = weft_transpose(transpose, 0, 1);
    weft_tensor *sides = weft_randn(WEFT_F64, 2, (const int64_t[]){ columns, n }, mesh, cyclic);
    foreign a = lend(copy_of(transpose), context), b = lend(copy_of(sides), context);
    b.descriptor[4] = a.descriptor[5]; /* where one process has all rows, b says nothing of blocks */
    int *pivots = malloc((size_t)(a.descriptor[8] + a.descriptor[4]) * sizeof(*pivots)), info;
    pdgesv_(&n, &columns, a.memory, &one, &one, a.descriptor, pivots, b.memory, &one, &one, b.descriptor, &info);
    free(pivots);
    take_back(&a);
    take_back(&b);
    if (info != 0) {
        fail("pdgesv");
    }
    weft_tensor *right = weft_transpose(sides, 0, 1);
    weft_tensor *solutions[] = { weft_transpose(b.tensor, 0, 1), weft_solve(matrix, right) };
    double most = 0;
    for (int i = 0; i < 2; i++) {
        const double scale = norm_of(matrix) * norm_of(solutions[i]) * (double)n * epsilon;
        most = fmax(most, norm_of(weft_sub(weft_matmul(matrix, solutions[i]), right)) / scale);
    }
    return most;
}

/* ---- the program ----------------------------------------------------------------------------------------- */

static bool run(int context)
{
    const int64_t shape[] = { o.size, o.size };
    double *values = malloc((size_t)o.size * sizeof(*values)), residuals[] = { NAN, NAN, NAN }; /* not a number: not built */
    weft_scope_begin();
    weft_mesh *grid = weft_mesh_create(2, (const int64_t[]){ o.mesh[0], o.mesh[1] }, NULL);
    const weft_placement cyclic[] = { { WEFT_SHARD, .dim = 1, .cut = WEFT_CUT_CYCLIC, .block = o.block },
                                      { WEFT_SHARD, .dim = 0, .cut = WEFT_CUT_CYCLIC, .block = o.block } };
    weft_tensor *random = weft_randn(WEFT_F64, 2, shape, grid, cyclic);
    weft_tensor *a = weft_redistribute(weft_add(random, weft_transpose(random, 0, 1)), grid, cyclic), *vectors = weft_zeros_like(a);
    int info = by_scalapack(copy_of(a), vectors, context, values);
    residuals[0] = residual(a, vectors, values);
#ifdef WITH_ELPA
    info = info != 0 ? info : by_elpa(copy_of(a), vectors, context, values);
    residuals[1] = residual(a, vectors, values);
#endif
    residuals[2] = solve_both(random, context);
    weft_scope_end();
    weft_wait();
    free(values);
    if (info != 0 || weft_last_status() != WEFT_OK) {
        fail("a call failed");
    }
    const bool right = residuals[0] < 30 && !(residuals[1] >= 30) && residuals[2] < 30;
    if (weft_process_index() == 0) {
        printf(o.json ? "{\"pdsyevd\": %.3g, \"elpa\": %.3g, \"systems\": %.3g, \"right\": %s}\n"
                      : "residuals in LAPACK's units: pdsyevd %.3g, ELPA %.3g, pdgesv and weft_solve() %.3g: %s\n",
               residuals[0], residuals[1], residuals[2], o.json ? (right ? "true" : "false") : (right ? "right" : "WRONG"));
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
                                "Eigenvalues and a system by ScaLAPACK and ELPA, in weft's tensors.\n", argc, argv), provided, processes;
    if (status >= 0) {
        return status;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    int sides[2] = { (int)o.mesh[0], (int)o.mesh[1] };
    if (o.mesh[0] == 0) {
        MPI_Dims_create(processes, 2, sides);
    }
    o.mesh[0] = sides[0];
    o.mesh[1] = sides[1];
    const weft_config config = { .local_ranks = 1 };
    if (sides[0] * sides[1] != processes || weft_init_mpi(MPI_COMM_WORLD, &config) != WEFT_OK || weft_local_ranks() != 1) {
        fail("one rank in each process of the grid is needed");
    }
    int context;
    Cblacs_get(0, 0, &context);
    Cblacs_gridinit(&context, "Row", sides[0], sides[1]);
    bool right = run(context);
    Cblacs_gridexit(context);
    weft_finalize();
    MPI_Finalize();
    return right ? 0 : 1;
}
