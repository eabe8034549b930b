/* Conjugate gradients with a sparse matrix: an MPI program as HPCCG of the Mantevo project is one, and weft beside it.
 *
 *     mpirun -n 4 hpccg --size 64x64x64
 *
 * Each process has the rows of a block of NX x NY x NZ points, one block above the other. The matrix has 27 on the diagonal and -1 for
 * each of the up to 26 neighbours; the right side is that of the solution 1 everywhere. Like HPCCG the program knows the matrix by its
 * rows alone, in compressed rows (CSR): which values of the vector a process needs from others, its GHOSTS, follows from its columns.
 * The program iterates twice, each time so often:
 *
 *   plain   values that others need are packed and sent by MPI_Isend(), and received behind the process's own part of the vector
 *   weft    the vectors are tensors. An index list (weft_index_list_gather()) brings the ghosts; the product is a function of the
 *           program's that weft runs on the shards (weft_local_map()); nothing waits before the end. With --sparse the product is that
 *           of a sparse matrix (weft_sparse_matmul()), on the program's values in place
 *
 * Both use the same loops, and sums of two processes are the same bits; those of more MPI may add in another order. The residuals are
 * those that HPCCG prints for this size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include <weft/weft.h>

#include "block_matrix.h"
#include "state.h"
#include "turns.h"

enum { MAX_ITERATIONS = 10000 };

static struct {
    int64_t size[3], iterations, turns;
    bool sparse, json;
} o = { .size = { 32, 32, 32 }, .iterations = 149, .turns = 3 };

static bool run(void);

static const argument arguments[] = {
    { "size", ARGUMENT_SIZES, o.size, "XxYxZ", "points of each process", 1, 400 },
    { "iterations", ARGUMENT_INTEGER, &o.iterations, "N", "in each turn", 1, MAX_ITERATIONS },
    { "turns", ARGUMENT_INTEGER, &o.turns, "N", "of both, alternating; the fastest ones count", 1, 1000 },
    { "sparse", ARGUMENT_FLAG, &o.sparse, NULL, "weft multiplies by its own sparse matrix" },
    { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
};
static const turns_program program = { .name = "hpccg",
                                       .introduction = "Conjugate gradients with a sparse matrix, by MPI and by weft.\n",
                                       .part = "block",
                                       .workers = 1, /* a rank's region is one task, after the other */
                                       .num_arguments = sizeof(arguments) / sizeof(arguments[0]),
                                       .arguments = arguments,
                                       .run = run };

/* ---- the matrix ------------------------------------------------------------------------------------------- */

/* The right side, of the solution 1. */
static double right_side(const matrix *a, int64_t row)
{
    return NEIGHBOURS - (double)(a->begin[row + 1] - a->begin[row] - 1);
}

/* out = A v, with the ghosts of v apart: behind its own values, or elsewhere. */
static void multiply(const matrix *a, double *restrict out, const double *restrict v, const double *restrict ghosts)
{
    for (int64_t row = 0; row < a->rows; row++) {
        double sum = 0;
        const int32_t end = a->begin[row + 1];
        if (a->reaches[row]) {
            for (int32_t i = a->begin[row]; i < end; i++) {
                int32_t column = a->columns[i];
                sum += a->values[i] * (column < a->rows ? v[column] : ghosts[column - a->rows]);
            }
        } else {
            for (int32_t i = a->begin[row]; i < end; i++) {
                sum += a->values[i] * v[a->columns[i]];
            }
        }
        out[row] = sum;
    }
}

/* The product of a process's parts. */
static double own_products(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* ---- with MPI alone --------------------------------------------------------------------------------------- */

/* The values that a process sends to and receives from each other one. */
typedef struct exchange {
    int processes, *sent, *received; /* values, by process */
    int32_t *rows;                   /* that are sent, by process */
    double *buffer;
    MPI_Request *requests;
    MPI_Status *statuses;
} exchange;

static void exchange_free(exchange *e)
{
    free(e->sent);
    free(e->received);
    free(e->rows);
    free(e->buffer);
    free(e->requests);
    free(e->statuses);
}

/* Tells each process which of its rows this one needs. False on all processes alike. */
static bool tell_rows(exchange *e, const matrix *a)
{
    int64_t count = 0;
    for (int p = 0; p < e->processes; p++) {
        count += e->sent[p];
    }
    int *begin = calloc(2 * (size_t)e->processes, sizeof(*begin));
    int64_t *asked = malloc(((size_t)count + 1) * sizeof(*asked));
    e->rows = malloc(((size_t)count + 1) * sizeof(*e->rows));
    e->buffer = malloc(((size_t)count + 1) * sizeof(*e->buffer));
    if (!turns_all(begin != NULL && asked != NULL && e->rows != NULL && e->buffer != NULL)) {
        free(asked);
        free(begin);
        return false;
    }
    int *ghost_begin = begin + e->processes;
    for (int p = 1; p < e->processes; p++) {
        begin[p] = begin[p - 1] + e->sent[p - 1];
        ghost_begin[p] = ghost_begin[p - 1] + e->received[p - 1];
    }
    MPI_Alltoallv(a->ghosts, e->received, ghost_begin, MPI_INT64_T, asked, e->sent, begin, MPI_INT64_T, MPI_COMM_WORLD);
    for (int64_t i = 0; i < count; i++) {
        e->rows[i] = (int32_t)(asked[i] - a->first);
    }
    free(asked);
    free(begin);
    return true;
}

static bool exchange_make(exchange *e, const matrix *a)
{
    *e = (exchange){ .processes = weft_num_processes() };
    e->sent = calloc((size_t)e->processes, sizeof(*e->sent));
    e->received = calloc((size_t)e->processes, sizeof(*e->received));
    e->requests = malloc(2 * (size_t)e->processes * sizeof(*e->requests));
    e->statuses = malloc(2 * (size_t)e->processes * sizeof(*e->statuses));
    if (!turns_all(e->sent != NULL && e->received != NULL && e->requests != NULL && e->statuses != NULL)) {
        return false;
    }
    for (int64_t i = 0; i < a->num_ghosts; i++) {
        e->received[a->ghosts[i] / a->rows]++;
    }
    MPI_Alltoall(e->received, 1, MPI_INT, e->sent, 1, MPI_INT, MPI_COMM_WORLD);
    return tell_rows(e, a);
}

/* Receives the ghosts of a vector behind its own values. */
static void exchange_ghosts(exchange *e, const matrix *a, double *v)
{
    int n = 0;
    double *ghosts = v + a->rows, *buffer = e->buffer;
    const int32_t *rows = e->rows;
    for (int p = 0; p < e->processes; ghosts += e->received[p++]) {
        if (e->received[p] > 0) {
            MPI_Irecv(ghosts, e->received[p], MPI_DOUBLE, p, 0, MPI_COMM_WORLD, &e->requests[n++]);
        }
    }
    for (int p = 0; p < e->processes; buffer += e->sent[p], rows += e->sent[p], p++) {
        for (int i = 0; i < e->sent[p]; i++) {
            buffer[i] = v[rows[i]];
        }
        if (e->sent[p] > 0) {
            MPI_Isend(buffer, e->sent[p], MPI_DOUBLE, p, 0, MPI_COMM_WORLD, &e->requests[n++]);
        }
    }
    MPI_Waitall(n, e->requests, e->statuses); /* MPICH declares an array: GCC warns of MPI_STATUSES_IGNORE */
}

static double sum_of_products(int64_t n, const double *a, const double *b)
{
    double sum = own_products(n, a, b);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* a += factor * b */
static void add_scaled(int64_t n, double *restrict a, const double *restrict b, double factor)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] += factor * b[i];
    }
}

/* Vectors of a process; p has room for the ghosts. */
typedef struct vectors {
    double *x, *r, *p, *ap;
} vectors;

/* residuals[k]: |r| before iteration k + 1. */
static void iterate_mpi(const matrix *a, exchange *e, vectors *v, double residuals[])
{
    double square = sum_of_products(a->rows, v->r, v->r);
    for (int64_t k = 0; k < o.iterations; k++) {
        residuals[k] = sqrt(square);
        exchange_ghosts(e, a, v->p);
        multiply(a, v->ap, v->p, v->p + a->rows);
        double alpha = square / sum_of_products(a->rows, v->p, v->ap), former = square;
        add_scaled(a->rows, v->x, v->p, alpha);
        add_scaled(a->rows, v->r, v->ap, -alpha);
        square = sum_of_products(a->rows, v->r, v->r);
        double beta = square / former;
        for (int64_t i = 0; i < a->rows; i++) {
            v->p[i] = v->r[i] + beta * v->p[i];
        }
    }
    residuals[o.iterations] = sqrt(square);
}

/* ---- with weft --------------------------------------------------------------------------------------------- */

/* The functions of local regions get the shards of a rank: here a process's part. */

/* p and its ghosts to A p, and p A p: an addend of the sum over all ranks. */
static void multiply_shards(const weft_local_call *call)
{
    const matrix *a = *(const matrix *const *)call->context;
    const double *p = call->inputs[0].data;
    double *ap = call->outputs[0].data;
    multiply(a, ap, p, call->inputs[1].data);
    *(double *)call->outputs[1].data = own_products(a->rows, p, ap);
}

/* The value of an input without dimensions. */
static double value_of(const weft_local_call *call, int input)
{
    return *(const double *)call->inputs[input].data;
}

/* x, r, p, A p, r r and p A p to the next x, r, and r r. */
static void advance_shards(const weft_local_call *call)
{
    int64_t n = call->outputs[0].count;
    const double *restrict x = call->inputs[0].data, *restrict r = call->inputs[1].data, *restrict p = call->inputs[2].data;
    const double *restrict ap = call->inputs[3].data, alpha = value_of(call, 4) / value_of(call, 5);
    double *restrict next_x = call->outputs[0].data, *restrict next_r = call->outputs[1].data;
    for (int64_t i = 0; i < n; i++) {
        next_x[i] = x[i] + alpha * p[i];
        next_r[i] = r[i] - alpha * ap[i];
    }
    *(double *)call->outputs[2].data = own_products(n, next_r, next_r);
}

/* r, p, r r and the former r r to the next p. */
static void turn_shards(const weft_local_call *call)
{
    const double *restrict r = call->inputs[0].data, *restrict p = call->inputs[1].data;
    double *restrict next = call->outputs[0].data, beta = value_of(call, 2) / value_of(call, 3);
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        next[i] = r[i] + beta * p[i];
    }
}

/* The arguments of an iteration. */
typedef struct problem {
    const matrix *a;
    weft_index_list *ghosts;
    weft_sparse *sparse; /* with --sparse, and its values */
    weft_tensor *values;
    weft_local_output vector, sum; /* like the vectors; an addend on each rank */
} problem;

static problem problem_of(const matrix *a)
{
    static const weft_placement by_rows = { .kind = WEFT_SHARD }, addends = { .kind = WEFT_PARTIAL, .op = WEFT_SUM };
    return (problem){ .a = a,
                      .ghosts = weft_index_list_create(a->all, NULL, &by_rows, &a->num_ghosts, a->ghosts),
                      .vector = { WEFT_F64, 1, &a->all, &by_rows },
                      .sum = { WEFT_F64, 0, NULL, &addends } };
}

/* The matrix as weft's, on the program's values. False on all processes alike. */
static bool make_sparse(problem *it)
{
    const matrix *a = it->a;
    const int64_t count = a->begin[a->rows];
    int64_t *offsets = malloc(((size_t)a->rows + 1) * sizeof(*offsets)), *columns = malloc(((size_t)count + 1) * sizeof(*columns));
    const weft_placement by_rows = weft_shard(0);
    weft_placement of_values = by_rows;
    if (!turns_all(offsets != NULL && columns != NULL)) {
        free(offsets);
        free(columns);
        return false;
    }
    for (int64_t row = 0; row <= a->rows; row++) {
        offsets[row] = a->begin[row];
    }
    for (int64_t i = 0; i < count; i++) {
        columns[i] = a->columns[i] < a->rows ? a->first + a->columns[i] : a->ghosts[a->columns[i] - a->rows];
    }
    it->sparse = weft_sparse_create_csr(a->all, a->all, NULL, &by_rows, NULL, WEFT_I64, (const void *[]){ offsets },
                                        (const void *[]){ columns });
    free(offsets);
    free(columns);
    if (it->sparse == NULL) {
        return false;
    }
    weft_sparse_placements(it->sparse, &of_values);
    const int64_t nnz = weft_sparse_nnz(it->sparse);
    it->values = weft_from_local(WEFT_F64, 1, &nnz, (void *[]){ a->values }, NULL, &of_values, 0);
    return it->values != NULL;
}

/* Reduces the addends, to all ranks: MPI_Iallreduce(). */
static weft_tensor *total(weft_tensor *sum)
{
    return weft_redistribute(sum, NULL, NULL);
}

enum { X, R, P, SQUARE, NUM_STATES };

/* From the state of one iteration to that of the next, for state_advance(). None of the calls waits. */
static weft_status iteration(void *context, weft_tensor *const in[], const double scalars[], weft_tensor *out[])
{
    (void)scalars; /* there are none */
    const problem *it = context;
    const weft_local_map_options options = { .name = "product", .context = (void *)&it->a, .context_size = sizeof(it->a) };
    const weft_local_output products[] = { it->vector, it->sum }, advanced[] = { it->vector, it->vector, it->sum };
    weft_tensor *product[2], *next[3];
    if (o.sparse) {
        product[0] = weft_sparse_matmul(it->sparse, it->values, in[P], false);
        product[1] = weft_dot(in[P], product[0]);
    } else {
        weft_local_map(multiply_shards, 2, (weft_tensor *[]){ in[P], weft_index_list_gather(it->ghosts, in[P]) }, 2, products,
                       &options, product);
    }
    weft_tensor *state[] = { in[X], in[R], in[P], product[0], in[SQUARE], total(product[1]) };
    weft_local_map(advance_shards, 6, state, 3, advanced, NULL, next);
    out[X] = next[0];
    out[R] = next[1];
    out[SQUARE] = total(next[2]);
    weft_tensor *turned[] = { out[R], in[P], out[SQUARE], in[SQUARE] };
    weft_local_map(turn_shards, 4, turned, 1, &it->vector, NULL, &out[P]);
    return weft_last_status();
}

static weft_tensor *tensor_of(const matrix *a, double *own)
{
    const weft_placement by_rows = weft_shard(0);
    return weft_from_local(WEFT_F64, 1, &a->all, (void *[]){ own }, NULL, &by_rows, 0);
}

/* In the program's arrays, as iterate_mpi(). */
static void iterate_weft(problem *it, vectors *v, double residuals[])
{
    static weft_tensor *squares[MAX_ITERATIONS + 1];
    weft_tensor *state[NUM_STATES];
    weft_scope_begin();
    weft_tensor *x = state[X] = tensor_of(it->a, v->x);
    state[R] = tensor_of(it->a, v->r);
    state[P] = tensor_of(it->a, v->p);
    state[SQUARE] = total(weft_dot(state[R], state[R]));
    state_begin(NUM_STATES, state);
    for (int64_t k = 0; k < o.iterations; k++) {
        squares[k] = weft_reshape(state[SQUARE], 0, NULL);
        state_advance(NULL, iteration, it, NUM_STATES, state);
    }
    squares[o.iterations] = weft_reshape(state[SQUARE], 0, NULL);
    weft_copy_inplace(x, state[X]);
    for (int64_t k = 0; k <= o.iterations; k++) {
        double square = NAN;
        weft_local_to_host(squares[k], 0, &square, sizeof(square)); /* each process its own, which are the same */
        residuals[k] = sqrt(square);
    }
    state_end(NUM_STATES, state);
    weft_scope_end();
    weft_wait(); /* now the arrays are the program's again */
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

static bool vectors_make(vectors *v, const matrix *a)
{
    v->x = malloc((size_t)a->rows * sizeof(double));
    v->r = malloc((size_t)a->rows * sizeof(double));
    v->p = malloc((size_t)(a->rows + a->num_ghosts) * sizeof(double));
    v->ap = malloc((size_t)a->rows * sizeof(double));
    return v->x != NULL && v->r != NULL && v->p != NULL && v->ap != NULL;
}

static void vectors_free(vectors *v)
{
    free(v->x);
    free(v->r);
    free(v->p);
    free(v->ap);
}

/* x = 0, r = p = b. */
static void begin(const matrix *a, const vectors *v)
{
    for (int64_t row = 0; row < a->rows; row++) {
        v->x[row] = 0;
        v->r[row] = v->p[row] = right_side(a, row);
    }
}

typedef struct result {
    turns_report report;
    double difference; /* of the residuals, relative, while they are above the rounding of the first one */
    double error;      /* of weft's solution */
    double residuals[2][MAX_ITERATIONS + 1];
} result;

typedef struct turn {
    problem it;
    exchange e;
    vectors v;
    result *r;
} turn;

static void start(void *context, bool by_weft)
{
    const turn *t = context;
    (void)by_weft;
    begin(t->it.a, &t->v);
}

static void take(void *context, bool by_weft)
{
    turn *t = context;
    if (by_weft) {
        iterate_weft(&t->it, &t->v, t->r->residuals[1]);
    } else {
        iterate_mpi(t->it.a, &t->e, &t->v, t->r->residuals[0]);
    }
}

static void compare(const matrix *a, const vectors *v, result *r)
{
    for (int64_t k = 0; k <= o.iterations; k++) {
        double plain = r->residuals[0][k], own = r->residuals[1][k];
        if (plain > 1e-12 * r->residuals[0][0]) {
            r->difference = fmax(r->difference, fabs(own - plain) / plain);
        }
    }
    for (int64_t row = 0; row < a->rows; row++) {
        r->error = fmax(r->error, fabs(v->x[row] - 1));
    }
    MPI_Allreduce(MPI_IN_PLACE, &r->error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void print(const result *r)
{
    const int64_t tenth = (o.iterations + 1) / 10, every = tenth < 1 ? 1 : tenth > 50 ? 50 : tenth;
    printf("Initial Residual = %g\n", r->residuals[1][0]);
    for (int64_t k = 1; k <= o.iterations; k++) {
        if (k % every == 0 || k == o.iterations) {
            printf("Iteration = %lld   Residual = %g\n", (long long)k, r->residuals[1][k - 1]);
        }
    }
    char processes[80];
    snprintf(processes, sizeof(processes), " each, %d processes", weft_num_processes());
    turns_print(&r->report, processes);
    printf("residuals differ by %.1e at most, and the solution from 1 by %.1e\n", r->difference, r->error);
    if (o.json) {
        turns_print_json(&program, &r->report);
        printf(", \"difference\": %.3g, \"error\": %.3g, \"residual\": %.9g}\n", r->difference, r->error,
               r->residuals[1][o.iterations - 1]);
    }
}

static bool run(void)
{
    static result r;
    matrix a = { 0 };
    turn t = { .r = &r };
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL));
    bool good = turns_all(matrix_make(&a, o.size) && vectors_make(&t.v, &a)) && exchange_make(&t.e, &a);
    if (good) {
        t.it = problem_of(&a);
        good = !o.sparse || make_sparse(&t.it);
    }
    if (good) {
        r.report = (turns_report){ "iteration", o.iterations, 3, o.size, turns_measure(o.turns, &t, start, take) };
        compare(&a, &t.v, &r);
        good = r.difference < 1e-6;
        if (weft_process_index() == 0) {
            print(&r);
        }
    }
    if (t.it.sparse != NULL) {
        weft_sparse_destroy(t.it.sparse);
    }
    good = turns_end(&program, good); /* weft may use the arrays until here */
    exchange_free(&t.e);
    vectors_free(&t.v);
    matrix_free(&a);
    return good;
}

int main(int argc, char *argv[])
{
    return turns_main(&program, argc, argv);
}
