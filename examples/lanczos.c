/* The smallest and the largest eigenvalues of a sparse symmetric matrix by Lanczos' method, beside those that are known.
 *
 *     mpirun -n 4 lanczos --size 60x40
 *
 * The matrix is the Laplacian of a grid of NX x NY points: 4 on the diagonal, and -1 for each neighbour. Its eigenvalues are
 * 4 - 2 cos(pi i / (NX + 1)) - 2 cos(pi j / (NY + 1)). Each rank has the coordinates of some edges of the grid, not those of the rows that
 * it holds: weft_sparse_create_coo() brings them there. The method, with each vector made orthogonal to all before: Saad: Numerical
 * Methods for Large Eigenvalue Problems, 2011, section 6.6. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "arguments.h"

enum { MOST_STEPS = 1000 };

static struct {
    int64_t size[2], steps, ranks;
} o = { .size = { 30, 20 }, .steps = 140, .ranks = 4 };

static bool read_grid(const char *text, void *into)
{
    long long size[2] = { 0, 0 };
    char end;
    bool done = sscanf(text, "%lldx%lld%c", &size[0], &size[1], &end) == 2 && size[0] > 1 && size[1] > 1 && size[0] < 5000 &&
                size[1] < 5000;
    ((int64_t *)into)[0] = size[0];
    ((int64_t *)into)[1] = size[1];
    return done;
}

/* ---- the matrix ------------------------------------------------------------------------------------------------- */

typedef struct coordinates {
    int64_t count, *rows, *columns;
    double *values;
} coordinates;

static void add(coordinates *c, int64_t row, int64_t column, double value)
{
    c->rows[c->count] = row;
    c->columns[c->count] = column;
    c->values[c->count++] = value;
}

/* An edge of the grid adds 1 to the diagonal of both its points, and -1 beside it. */
static void add_edge(coordinates *c, int64_t a, int64_t b)
{
    add(c, a, a, 1);
    add(c, b, b, 1);
    add(c, a, b, -1);
    add(c, b, a, -1);
}

/* Each rank adds the edges to the right of and below every point that is its turn, and what the border adds to the diagonal. */
static void add_points(coordinates *c, int64_t rank, int64_t ranks)
{
    const int64_t nx = o.size[0], ny = o.size[1];
    for (int64_t point = rank; point < nx * ny; point += ranks) {
        int64_t x = point % nx, y = point / nx;
        if (x + 1 < nx) {
            add_edge(c, point, point + 1);
        }
        if (y + 1 < ny) {
            add_edge(c, point, point + nx);
        }
        add(c, point, point, (double)((x == 0) + (x == nx - 1) + (y == 0) + (y == ny - 1)));
    }
}

/* The structure; *values receives the values of the matrix. NULL on error. */
static weft_sparse *make_matrix(weft_tensor **values)
{
    const int64_t n = o.size[0] * o.size[1];
    const size_t most = (size_t)(9 * (n / weft_world_size() + 1) * weft_local_ranks());
    const weft_placement by_rows = weft_shard_balanced(0);
    int64_t counts[MOST_RANKS] = { 0 }, total;
    void *locals[MOST_RANKS] = { NULL };
    weft_placement given;
    weft_index_list *list = NULL;
    coordinates c = { 0, calloc(most, sizeof(int64_t)), calloc(most, sizeof(int64_t)), calloc(most, sizeof(double)) };
    if (c.rows == NULL || c.columns == NULL || c.values == NULL) {
        fprintf(stderr, "lanczos: no memory\n");
        exit(1);
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        const int64_t before = c.count;
        locals[i] = c.values + before;
        add_points(&c, weft_first_rank() + i, weft_world_size());
        counts[i] = c.count - before;
    }
    weft_sparse *a = weft_sparse_create_coo(n, n, NULL, &by_rows, NULL, counts, c.rows, c.columns, &list);
    if (a != NULL) {
        weft_index_list_placements(list, &given);
        total = weft_index_list_count(list);
        *values = weft_index_list_scatter_add(list, weft_from_local(WEFT_F64, 1, &total, locals, NULL, &given, WEFT_COPY));
        weft_index_list_destroy(list);
    }
    free(c.rows);
    free(c.columns);
    free(c.values);
    return a;
}

/* ---- Lanczos ------------------------------------------------------------------------------------------------------ */

/* A tensor without dimensions, on all ranks. */
static weft_tensor *whole(weft_tensor *scalar)
{
    return weft_redistribute(scalar, NULL, NULL);
}

/* Subtracts from w its parts along the first vectors of the basis. */
static weft_tensor *orthogonal(weft_tensor *w, weft_tensor *const basis[], int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        weft_scope_begin();
        w = weft_scope_keep(weft_sub(w, weft_mul(basis[i], whole(weft_dot(basis[i], w)))));
        weft_scope_end();
    }
    return w;
}

/* Makes the tridiagonal matrix of `steps` steps: alpha[] on its diagonal, beta[] beside it. Returns the number of steps. */
static int64_t tridiagonalise(const weft_sparse *a, weft_tensor *values, int64_t steps, double alpha[], double beta[])
{
    static weft_tensor *basis[MOST_STEPS + 1];
    const int64_t n = o.size[0] * o.size[1];
    const weft_placement by_rows = weft_shard_balanced(0);
    weft_tensor *v = weft_randn(WEFT_F64, 1, &n, NULL, &by_rows);
    basis[0] = weft_div(v, whole(weft_norm(v, 2, WEFT_ALL_DIMS, false)));
    for (int64_t k = 0; k < steps; k++) {
        weft_scope_begin();
        weft_tensor *w = weft_sparse_matmul(a, values, basis[k], false), *diagonal = whole(weft_dot(basis[k], w));
        for (int64_t turn = 0; turn < 2; turn++) { /* twice is enough */
            w = orthogonal(w, basis, k + 1);
        }
        weft_tensor *size = whole(weft_norm(w, 2, WEFT_ALL_DIMS, false));
        basis[k + 1] = weft_scope_keep(weft_div(w, size));
        weft_tensor_item(diagonal, &alpha[k]);
        weft_tensor_item(size, &beta[k]);
        weft_scope_end();
        if (beta[k] < 1e-10 || k + 1 == n) {
            return k + 1;
        }
    }
    return steps;
}

/* Eigenvalues of the tridiagonal matrix that are below x: the negative pivots of its LDL^T (Sturm's sequence). */
static int64_t count_below(int64_t k, const double alpha[], const double beta[], double x)
{
    int64_t count = 0;
    double pivot = 1;
    for (int64_t i = 0; i < k; i++) {
        pivot = alpha[i] - x - (i == 0 ? 0 : beta[i - 1] * beta[i - 1] / pivot);
        pivot = pivot == 0 ? 1e-300 : pivot;
        count += pivot < 0;
    }
    return count;
}

/* Eigenvalue number `index`, from 0 on, by bisection: all are from 0 to 8. */
static double eigenvalue(int64_t k, const double alpha[], const double beta[], int64_t index)
{
    double low = -1, high = 9;
    for (int turn = 0; turn < 60; turn++) {
        double middle = (low + high) / 2;
        if (count_below(k, alpha, beta, middle) > index) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return (low + high) / 2;
}

static double known(int64_t i, int64_t j)
{
    const double pi = acos(-1);
    return 4 - 2 * cos(pi * (double)i / (double)(o.size[0] + 1)) - 2 * cos(pi * (double)j / (double)(o.size[1] + 1));
}

static bool run(void)
{
    static double alpha[MOST_STEPS], beta[MOST_STEPS];
    weft_tensor *values = NULL;
    weft_scope_begin();
    weft_sparse *a = make_matrix(&values);
    const int64_t steps = a == NULL || values == NULL ? 0 : tridiagonalise(a, values, o.steps, alpha, beta);
    bool good = steps > 0 && weft_last_status() == WEFT_OK;
    if (good) {
        double found[2] = { eigenvalue(steps, alpha, beta, 0), eigenvalue(steps, alpha, beta, steps - 1) };
        double expected[2] = { known(1, 1), known(o.size[0], o.size[1]) };
        good = fabs(found[0] - expected[0]) < 1e-8 && fabs(found[1] - expected[1]) < 1e-8;
        if (weft_process_index() == 0) {
            printf("%lld x %lld points, %lld entries, %lld steps\n", (long long)o.size[0], (long long)o.size[1],
                   (long long)weft_sparse_nnz(a), (long long)steps);
            printf("smallest eigenvalue %.10f, known %.10f\n", found[0], expected[0]);
            printf("largest eigenvalue  %.10f, known %.10f\n", found[1], expected[1]);
            printf("%s\n", good ? "they agree" : "they do not agree yet: more --steps");
        }
    }
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "lanczos: %s\n", weft_last_error());
    }
    weft_sparse_destroy(a);
    weft_scope_end();
    return good;
}

int main(int argc, char *argv[])
{
    const argument table[] = {
        { "size", ARGUMENT_OTHER, o.size, "NXxNY", "points of the grid (30x20)", .read = read_grid },
        { "steps", ARGUMENT_INTEGER, &o.steps, "N", "of Lanczos' method, at most", 2, MOST_STEPS },
        { "ranks", ARGUMENT_INTEGER, &o.ranks, "N", "of all processes", 1, MOST_RANKS },
    };
    int code = arguments_read((int)(sizeof(table) / sizeof(*table)), table,
                              "Eigenvalues of a sparse matrix by Lanczos' method, beside the known ones.\n", argc, argv);
    if (code >= 0) {
        return code;
    }
    if (weft_init(&(weft_config){ .ranks = o.ranks }) != WEFT_OK) {
        fprintf(stderr, "lanczos: %s\n", weft_last_error());
        return 1;
    }
    weft_mesh_push(weft_mesh_create(1, &o.ranks, NULL));
    bool good = run();
    return weft_finalize() == WEFT_OK && good ? 0 : 1;
}
