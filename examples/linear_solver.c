/* The capacitance of a sphere by the method of moments: a dense matrix is assembled, factorised and solved in one graph of tasks.
 *
 *     mpirun -n 2 linear_solver --size 2000 --block 128
 *
 * The sphere has radius 1, and its surface n elements of equal area. An element's charge is spread over it, as NODES points for
 * other elements and as a disk for itself. A_ij is the potential that a charge of 1 on element j gives element i; A is
 * symmetric and positive-definite. A q = 1 are the charges at potential 1, and their sum is the capacitance, which is 1
 * (Harrington: Field Computation by Moment Methods, 1968).
 *
 * The program waits only at the end of all calls. A task of the factorisation begins when the rows that it needs are assembled,
 * while others are not: docs/linear_algebra.md has a drawing of that. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/weft.h>

#include "arguments.h"

enum { NODES = 4, COORDINATES = 3 * NODES };

static struct {
    int64_t size, block, ranks;
    bool apart;
} o = { .size = 1000, .block = 64, .ranks = 4 };

static const double pi = 3.14159265358979323846;

/* ---- the matrix ------------------------------------------------------------------------------------------------- */

static double radius_of_elements(void)
{
    return sqrt(4 / (double)o.size);
}

/* The nodes of element number i: its centre is on a spiral from pole to pole, and they are on a ring around that. */
static void place_nodes(int64_t i, double nodes[COORDINATES])
{
    const double z = 1 - (double)(2 * i + 1) / (double)o.size, turn = (double)i * pi * (3 - sqrt(5)), ring = radius_of_elements() / sqrt(2);
    const double along = sqrt(1 - z * z), c = cos(turn), s = sin(turn);
    for (int q = 0; q < NODES; q++) {
        const double angle = 2 * pi * (q + 0.5) / NODES, east = ring * cos(angle), north = ring * sin(angle);
        nodes[3 * q] = along * c - east * s - north * z * c;
        nodes[3 * q + 1] = along * s + east * c - north * z * s;
        nodes[3 * q + 2] = z + north * along;
    }
}

/* Adds to the sums the inverse distances of one node from node q of all elements: infinity from itself. */
static void add_inverse_distances(const double node[3], const weft_view *nodes, int q, int64_t count, double sums[])
{
    const double *x = weft_view_row(nodes, (int64_t)3 * q, NULL), *y = weft_view_row(nodes, (int64_t)3 * q + 1, NULL);
    const double *z = weft_view_row(nodes, (int64_t)3 * q + 2, NULL);
    for (int64_t j = 0; j < count; j++) {
        const double dx = x[j] - node[0], dy = y[j] - node[1], dz = z[j] - node[2];
        sums[j] += 1 / sqrt(dx * dx + dy * dy + dz * dz);
    }
}

/* Rows of the matrix, of the elements in input 0. Input 1 has the coordinates of all. */
static void assemble_kernel(const weft_kernel_call *call)
{
    const weft_view *rows = &call->output;
    const double own = 16 / (3 * pi * call->scalars[0]); /* the mean potential of a disk of charge 1 */
    for (int64_t i = 0; i < rows->extent[0]; i++) {
        const double *element = weft_view_row(&call->inputs[0], i, NULL);
        double *row = weft_view_row(rows, i, NULL);
        for (int64_t j = 0; j < rows->extent[1]; j++) {
            row[j] = 0;
        }
        for (int p = 0; p < NODES * NODES; p++) {
            add_inverse_distances(element + (ptrdiff_t)3 * (p / NODES), &call->inputs[1], p % NODES, rows->extent[1], row);
        }
        for (int64_t j = 0; j < rows->extent[1]; j++) {
            row[j] = isinf(row[j]) ? own : row[j] / (NODES * NODES);
        }
    }
}

/* Rows may be dealt in any way: where they stand makes no difference. */
static const weft_operation *register_assemble(void)
{
    return weft_operation_register(&(weft_operation_description){
        .name = "assemble",
        .rule = "n*[c],[c]m->n*m",
        .inputs = { { "elements", WEFT_TYPE_BIT(WEFT_F64), false }, { "all", WEFT_TYPE_BIT(WEFT_F64), false } },
        .kernel = assemble_kernel });
}

/* [n, COORDINATES], dealt in blocks; *all: [COORDINATES, n] on each rank. */
static weft_tensor *make_elements(weft_tensor **all)
{
    const int64_t shape[] = { o.size, COORDINATES };
    const weft_placement dealt = { .kind = WEFT_SHARD, .dim = 0, .cut = WEFT_CUT_CYCLIC, .block = o.block };
    double *nodes = malloc((size_t)o.size * COORDINATES * sizeof(double));
    if (nodes == NULL) {
        fprintf(stderr, "linear_solver: no memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < o.size; i++) {
        place_nodes(i, nodes + i * COORDINATES);
    }
    weft_tensor *elements = weft_distribute(WEFT_F64, 2, shape, nodes, NULL, &dealt);
    *all = weft_transpose(weft_redistribute(elements, NULL, NULL), 0, 1);
    weft_wait();
    free(nodes);
    return elements;
}

/* ---- the system --------------------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double number_of(weft_tensor *scalar)
{
    double value = NAN;
    weft_tensor_item(scalar, &value);
    return value;
}

/* Whether the charges are right: LAPACK's residual is below its bound, and their sum near 1. */
static bool check(weft_tensor *a, weft_tensor *b, weft_tensor *charges)
{
    const double n = (double)o.size, epsilon = 0x1p-53;
    double rest = number_of(weft_norm(weft_sub(b, weft_matmul(a, charges)), 2, WEFT_ALL_DIMS, false));
    double sizes = number_of(weft_norm(a, 2, WEFT_ALL_DIMS, false)) * number_of(weft_norm(charges, 2, WEFT_ALL_DIMS, false));
    double residual = rest / (sizes * n * epsilon), capacitance = number_of(weft_sum(charges, WEFT_ALL_DIMS, false));
    bool right = residual < 30 && fabs(capacitance - 1) < 2 / sqrt(n);
    if (weft_process_index() == 0) {
        printf("%lld elements, |b - A q| / (n |A| |q| eps) %.3g, capacitance %.5f: %s\n", (long long)o.size, residual, capacitance,
               right ? "right" : "WRONG");
    }
    return right;
}

/* The factor U of A = U^H U, without waiting, or (`apart`) when A is complete. */
static bool run(const weft_operation *assemble)
{
    const weft_apply_options element = { .num_scalars = 1, .scalars = { radius_of_elements() } };
    weft_scope_begin();
    weft_tensor *all, *elements = make_elements(&all), *b = weft_ones(WEFT_F64, 2, (int64_t[]){ o.size, 1 }, NULL, NULL);
    weft_wait();
    const double start = now();
    weft_tensor *a = weft_apply(assemble, 2, (weft_tensor *[]){ elements, all }, &element);
    if (o.apart) {
        weft_wait();
    }
    const double assembled = now();
    weft_tensor *factor = weft_cholesky(a, true);
    weft_tensor *charges = weft_cholesky_solve(b, factor, true);
    weft_wait();
    const double end = now();
    if (weft_process_index() == 0) {
        printf(o.apart ? "%.1f ms: assembly %.1f ms, then the solution\n" : "%.1f ms: assembly and solution\n", (end - start) * 1e3,
               (assembled - start) * 1e3);
    }
    bool right = check(a, b, charges);
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "linear_solver: %s\n", weft_last_error());
    }
    weft_scope_end();
    return right && weft_last_status() == WEFT_OK;
}

int main(int argc, char *argv[])
{
    static const argument table[] = {
        { "size", ARGUMENT_INTEGER, &o.size, "N", "elements of the sphere", 1, 40000 },
        { "block", ARGUMENT_INTEGER, &o.block, "N", "rows of a block", 1, 40000 },
        { "ranks", ARGUMENT_INTEGER, &o.ranks, "N", "of all processes", 1, 64 },
        { "apart", ARGUMENT_FLAG, &o.apart, NULL, "wait for the whole matrix before it is factorised" },
    };
    int code = arguments_read((int)(sizeof(table) / sizeof(*table)), table,
                              "The capacitance of a sphere: assembles a matrix, factorises it and solves a system.\n", argc, argv);
    if (code >= 0) {
        return code;
    }
    if (weft_init(&(weft_config){ .ranks = o.ranks }) != WEFT_OK) {
        fprintf(stderr, "linear_solver: %s\n", weft_last_error());
        return 1;
    }
    weft_mesh_push(weft_mesh_create(1, &o.ranks, NULL));
    bool right = run(register_assemble());
    return weft_finalize() == WEFT_OK && right ? 0 : 1;
}
