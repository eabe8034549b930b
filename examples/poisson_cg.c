/* Conjugate gradients on a Poisson problem, with arrays of the program's own on a mesh of ranks.
 *
 *     - (d2/dx2 + d2/dy2) u = f   on the unit square,   u given on its border
 *
 * The grid has N x N points, those of the border included, and each rank owns a block of it: a DMDA in PETSc's words.
 * With h = 1 / (N - 1) the five-point stencil, divided by 4, says of each point inside
 *
 *     u - (above + below + left + right) / 4 = f h h / 4
 *
 * Tensors are distributed arrays. A call on them returns at once; its tasks run when their inputs are there, and
 * neighbours' rows and columns (halos) and sums over ranks travel when they are needed. So the solver below is the
 * textbook's, without a message in it, and without a wait: only is_over() waits, every few iterations.
 *
 *     poisson_cg --size 512 --mesh 2x2                        four ranks in this process
 *     mpirun -n 4 poisson_cg --size 512 --mesh 2x2            one in each of four: the same bits
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "arguments.h"
#include "report.h"
#include "state.h"
#include "terminal.h"

enum { MAX_RANKS = 64 * 64 };

static struct {
    int64_t size, mesh[2], iterations, check;
    double tolerance;
    weft_dtype type;
    const char *save;
    bool graph, quiet, json;
} o = { .size = 256, .mesh = { 2, 2 }, .iterations = 10000, .check = 10, .tolerance = 1e-8, .type = WEFT_F64 };

/* ---- the program's own arrays ---------------------------------------------------------------------------- */

/* Dimension 0 of the grid is cut over the mesh's first dimension, dimension 1 over its second. */
static const weft_placement blocks[2] = { { .kind = WEFT_SHARD, .dim = 0 }, { .kind = WEFT_SHARD, .dim = 1 } };

/* Arrays of an HPC code, in its own memory: for each rank that this process hosts a block of each array, row-major. The
 * program may host one rank in each process, as with MPI, or all of them in one. */
typedef struct arrays {
    void *solution[MAX_RANKS], *source[MAX_RANKS], *inside[MAX_RANKS], *exact[MAX_RANKS];
} arrays;

static double exact_solution(double y, double x)
{
    return exp(x + 2 * y);
}

/* f = -(1 + 4) u. */
static double source(double y, double x)
{
    return -5 * exact_solution(y, x);
}

static void store(void *array, int64_t i, double value)
{
    if (o.type == WEFT_F64) {
        ((double *)array)[i] = value;
    } else {
        ((float *)array)[i] = (float)value;
    }
}

/* Rows offset[0] .. offset[0] + extent[0] - 1 of the grid, and columns likewise. */
static void fill_block(const arrays *a, int rank, const int64_t offset[2], const int64_t extent[2])
{
    const double h = 1 / (double)(o.size - 1);
    for (int64_t i = 0; i < extent[0]; i++) {
        for (int64_t j = 0; j < extent[1]; j++) {
            int64_t row = offset[0] + i, column = offset[1] + j, at = i * extent[1] + j;
            bool inside = row > 0 && row < o.size - 1 && column > 0 && column < o.size - 1;
            double y = (double)row * h, x = (double)column * h;
            store(a->inside[rank], at, inside);
            store(a->source[rank], at, source(y, x) * h * h / 4);
            store(a->solution[rank], at, inside ? 0 : exact_solution(y, x)); /* the first guess, and the border */
            store(a->exact[rank], at, exact_solution(y, x));
        }
    }
}

static void arrays_free(arrays *a)
{
    for (int rank = 0; rank < weft_local_ranks(); rank++) {
        free(a->solution[rank]);
        free(a->source[rank]);
        free(a->inside[rank]);
        free(a->exact[rank]);
    }
}

/* False: no memory, after a message. */
static bool arrays_make(arrays *a)
{
    for (int rank = 0; rank < weft_local_ranks(); rank++) {
        int64_t offset[2], extent[2];
        weft_shard_box(NULL, blocks, 2, (int64_t[]){ o.size, o.size }, weft_first_rank() + rank, offset, extent);
        size_t bytes = (size_t)(extent[0] * extent[1]) * weft_dtype_size(o.type) + 1; /* not 0 */
        a->solution[rank] = malloc(bytes);
        a->source[rank] = malloc(bytes);
        a->inside[rank] = malloc(bytes);
        a->exact[rank] = malloc(bytes);
        if (a->solution[rank] == NULL || a->source[rank] == NULL || a->inside[rank] == NULL || a->exact[rank] == NULL) {
            fprintf(stderr, "poisson_cg: no memory for %lld x %lld points\n", (long long)extent[0],
                    (long long)extent[1]);
            return false;
        }
        fill_block(a, rank, offset, extent);
    }
    return true;
}

/* A tensor on these blocks. Nothing is copied: weft works on them until the tensor is released. */
static weft_tensor *grid(void *const local_blocks[])
{
    return weft_from_local(o.type, 2, (int64_t[]){ o.size, o.size }, local_blocks, NULL, blocks, 0);
}

/* ---- the solver ------------------------------------------------------------------------------------------ */

/* A value: it stays on the ranks, as a tensor without dimensions. Each rank adds up its block; the redistribution to
 * Replicate, weft's default, adds the sums: MPI_Iallreduce(). */
static weft_tensor *dot(weft_tensor *a, weft_tensor *b)
{
    return weft_redistribute(weft_sum(weft_mul(a, b), WEFT_ALL_DIMS, false), NULL, NULL);
}

/* a / b; 0 where b is 0. So an iteration after the last one, when the residual is 0, changes nothing. */
static weft_tensor *quotient(weft_tensor *a, weft_tensor *b)
{
    return weft_div(a, weft_clamp(b, o.type == WEFT_F64 ? DBL_MIN : FLT_MIN, INFINITY));
}

/* A v, where `inside` is 1; on the border v itself. weft_roll() is cyclic: the first row gets the last one as its row
 * above. Only points of the border see that, and `inside` is 0 there. */
static weft_tensor *apply(weft_tensor *v, weft_tensor *inside)
{
    weft_tensor *above_below = weft_add(weft_roll(v, 1, 0), weft_roll(v, -1, 0));
    weft_tensor *left_right = weft_add(weft_roll(v, 1, 1), weft_roll(v, -1, 1));
    return weft_addcmul(v, inside, weft_add(above_below, left_right), -0.25); /* v - inside * sum / 4 */
}

/* |a|, likewise on the ranks. */
static weft_tensor *norm(weft_tensor *a)
{
    return weft_redistribute(weft_norm(a, 2, WEFT_ALL_DIMS, false), NULL, NULL);
}

/* The state of the iteration: solution, residual and its norm, direction. */
enum { X, R, NORM, P, NUM_STATES };

/* An iteration, as a weft_graph_function: new tensors from old ones. Tensors are values, so x + alpha p is a new one; its memory is that of
 * values that are needed no more. The direction is 0 on the border, so the solution keeps its values there. */
static weft_status iteration(void *inside, weft_tensor *const in[], const double scalars[], weft_tensor *out[])
{
    (void)scalars;
    weft_tensor *ap = apply(in[P], inside);
    weft_tensor *alpha = quotient(weft_square(in[NORM]), dot(in[P], ap));
    out[X] = weft_addcmul(in[X], in[P], alpha, 1); /* x + alpha p */
    out[R] = weft_addcmul(in[R], ap, alpha, -1);
    out[NORM] = norm(out[R]);
    weft_tensor *beta = weft_square(quotient(out[NORM], in[NORM]));
    out[P] = weft_addcmul(out[R], in[P], beta, 1);
    return weft_last_status();
}

typedef struct convergence {
    double *norms; /* of the residual, relative to the first one: norms[i] after i * o.check iterations */
    double first;
    int64_t tests, iterations;
    bool reached;
} convergence;

/* BLOCKS: the only wait in the solver. The value is that of all ranks, so all processes decide alike. */
static bool is_over(convergence *c, weft_tensor *residual_norm)
{
    double value = NAN;
    weft_tensor_item(residual_norm, &value);
    c->first = c->tests == 0 ? value : c->first;
    double relative = c->first > 0 ? value / c->first : value;
    c->norms[c->tests++] = relative;
    c->reached = relative <= o.tolerance;
    return c->reached || !isfinite(relative) || c->iterations >= o.iterations;
}

/* Solves for the points inside, from the first guess in `solution`, which gets the result. */
static void solve(weft_tensor *solution, weft_tensor *source_term, weft_tensor *inside, convergence *c)
{
    weft_tensor *state[NUM_STATES];
    weft_scope_begin();
    state[X] = solution;
    state[R] = state[P] = weft_mul(inside, weft_sub(source_term, apply(solution, inside)));
    state[NORM] = norm(state[R]);
    state_begin(NUM_STATES, state);
    weft_graph *graph = o.graph ? weft_graph_create("iteration", iteration, inside, NUM_STATES, 0, NUM_STATES) : NULL;
    progress line = progress_start("iteration", 0, "residual", weft_process_index() == 0 && !o.quiet);
    while (!is_over(c, state[NORM])) {
        for (int i = 0; i < o.check && c->iterations < o.iterations; i++, c->iterations++) {
            state_advance(graph, iteration, inside, NUM_STATES, state);
        }
        progress_update(&line, c->iterations, c->norms[c->tests - 1]);
    }
    progress_end(&line);
    if (graph != NULL) {
        weft_graph_destroy(graph);
    }
    weft_copy_inplace(solution, state[X]); /* into the program's arrays */
    state_end(NUM_STATES, state);
    weft_scope_end();
}

/* ---- the report ------------------------------------------------------------------------------------------ */

typedef struct result {
    convergence c;
    double seconds;
    double error;    /* largest difference from the exact solution at a point */
    int64_t work[3]; /* of work_count() */
} result;

/* For u = e^(x + 2y): h^2 / 96 times the largest fourth derivatives of u in x and y (1 + 16) e^3. */
static double discretisation_error(void)
{
    double h = 1 / (double)(o.size - 1);
    return h * h / 96 * 17 * exp(3);
}

static const char *type_name(void)
{
    return o.type == WEFT_F64 ? "f64" : "f32";
}

static void print_table(const result *r)
{
    const convergence *c = &r->c;
    printf("Residual\n\n");
    chart_print_log(stdout, c->tests, c->norms, 72, 12, c->iterations);
    printf("\n  grid         %lld x %lld points, %s\n", (long long)o.size, (long long)o.size, type_name());
    mesh_print(o.mesh[0], o.mesh[1]);
    printf("  iterations   %lld in %.2f s, %.3f ms each\n", (long long)c->iterations, r->seconds,
           c->iterations > 0 ? 1e3 * r->seconds / (double)c->iterations : 0);
    printf("  residual     %.2e of the first one%s\n", c->norms[c->tests - 1],
           c->reached || o.tolerance == 0 ? "" : ": not converged");
    printf("  error        %.2e at most; of the discretisation up to %.2e\n", r->error, discretisation_error());
    work_print(r->work);
}

static void print_json(const result *r)
{
    const convergence *c = &r->c;
    printf("{\"example\": \"poisson_cg\", \"mesh\": [%lld, %lld], \"ranks\": %d, \"processes\": %d, \"size\": %lld, "
           "\"type\": \"%s\", \"iterations\": %lld, \"converged\": %s, \"error\": %.9g, \"seconds\": %.6f, "
           "\"tasks\": %lld, \"transfers\": %lld, \"bytes_moved\": %lld, \"residuals\": [",
           (long long)o.mesh[0], (long long)o.mesh[1], weft_world_size(), weft_num_processes(), (long long)o.size,
           type_name(), (long long)c->iterations, c->reached ? "true" : "false", r->error, r->seconds,
           (long long)r->work[0], (long long)r->work[1], (long long)r->work[2]);
    for (int64_t i = 0; i < c->tests; i++) {
        printf("%s%.9g", i == 0 ? "" : ", ", c->norms[i]);
    }
    printf("]}\n");
}

/* ---- the program ----------------------------------------------------------------------------------------- */

/* False: weft has kept an error. */
static bool run(const arrays *a, result *r)
{
    weft_scope_begin();
    weft_tensor *solution = grid(a->solution), *inside = grid(a->inside), *source_term = grid(a->source);
    weft_wait(); /* the clock measures iterations only */
    double start = seconds_now();
    solve(solution, source_term, inside, &r->c);
    weft_wait(); /* the program's arrays have the solution from here on */
    r->seconds = seconds_now() - start;
    bool good = work_count(r->work);
    weft_tensor_item(weft_max(weft_abs(weft_sub(solution, grid(a->exact))), WEFT_ALL_DIMS, false), &r->error);
    if (o.save != NULL) {
        weft_checkpoint_save(o.save, 1, (const char *[]){ "u" }, &solution, NULL);
    }
    weft_scope_end();
    return weft_wait() == WEFT_OK && good && weft_last_status() == WEFT_OK; /* the arrays are the program's again */
}

static bool solve_and_report(void)
{
    static arrays a;
    result r = { .c.norms = calloc((size_t)(o.iterations / o.check) + 3, sizeof(double)) };
    bool good = r.c.norms != NULL && arrays_make(&a) && run(&a, &r);
    if (good && weft_process_index() == 0) {
        if (!o.quiet) {
            print_table(&r);
        }
        if (o.json) {
            print_json(&r);
        }
        if (!r.c.reached && o.tolerance > 0) {
            fprintf(stderr, "poisson_cg: not converged after %lld iterations: the residual is %.2e of the first one\n",
                    (long long)r.c.iterations, r.c.norms[r.c.tests - 1]);
        }
    }
    arrays_free(&a);
    free(r.c.norms);
    return good && (r.c.reached || o.tolerance == 0);
}

static const char introduction[] =
    "Solves a Poisson problem by conjugate gradients on a mesh of ranks. All ranks live in this\n"
    "process; under mpirun they are spread over the processes.\n";

static bool read_tolerance(const char *text, void *into)
{
    char *end = NULL;
    *(double *)into = strtod(text, &end);
    return end != text && *end == '\0' && *(double *)into >= 0 && *(double *)into < 1;
}

int main(int argc, char *argv[])
{
    const argument table[] = {
        { "mesh", ARGUMENT_SIZES, o.mesh, "RxC", "ranks along the rows and the columns of the grid", 1, MOST_RANKS },
        { "size", ARGUMENT_INTEGER, &o.size, "N", "N x N points, those of the border included", 3, 1 << 20 },
        { "type", ARGUMENT_OTHER, &o.type, "f64|f32", "(f64)", .read = float_type_read },
        { "tolerance", ARGUMENT_OTHER, &o.tolerance, "X", "relative residual to reach; 0: all iterations (1e-8)",
          .read = read_tolerance },
        { "iterations", ARGUMENT_INTEGER, &o.iterations, "N", "at most", 0, 1 << 24 },
        { "check", ARGUMENT_INTEGER, &o.check, "N", "iterations between two looks at the residual", 1, 1 << 24 },
        { "save", ARGUMENT_STRING, &o.save, "FILE", "write the solution: a safetensors file with a tensor \"u\"" },
        { "graph", ARGUMENT_FLAG, &o.graph, NULL, "capture the first iteration and replay it: the same bits" },
        { "quiet", ARGUMENT_FLAG, &o.quiet, NULL, "no chart, no table" },
        { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
    };
    int code = arguments_read((int)(sizeof(table) / sizeof(*table)), table,
                              introduction, argc, argv);
    if (code >= 0) {
        return code;
    }
    bool good = world_start("poisson_cg", (const char *[]){ "rows", "columns" }, o.mesh[0], o.mesh[1], 0) &&
                solve_and_report();
    return world_end("poisson_cg", good);
}
