/* The program of test_faults.c, with a fault in one of its processes: a loop like a training, with known
 * values. Products, reductions, random numbers, redistributions over several meshes and parts of the
 * world, an operation of its own, updates in place, values read. Public headers only.
 *
 * usage: victim PROCESS FAULT MOMENT NUMBER (fault.h) [graph]
 *
 * graph: each step is the call of a captured graph, the first two of which capture and the others replay.
 *
 * Each process prints, in one line each,
 *
 *     process P does FAULT
 *     process P has OK | WRONG: WHAT        for every result
 *     process P ends: STATUS: MESSAGE       the first error, as the program sees it; "no error: "
 *     process P finalizes
 *     process P finalized: STATUS
 *
 * The exit status is 0 without an error or a wrong result, 4 after a wrong result, else 3. */
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "mpirun.h"
#include "fault.h"

/* x [ROWS, INNER], w [INNER, COLUMNS]: small whole numbers, whose products and sums single precision has. */
enum { ROWS = 240, INNER = 120, COLUMNS = 80, STEPS = 6, MODULUS = 5, MAX_RANKS = 16 };

static int process; /* also before weft_init() and after weft_finalize() */
static bool leaves; /* the loop, early */
static weft_mesh *line, *half, *grid, *backwards;
static const weft_operation *count_operation;

/* ---- calls, each of which may be another one ------------------------------------------------------------ */

static weft_tensor *move(weft_tensor *a, weft_mesh *mesh, const char *text)
{
    weft_placement placements[2];
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    bool other = d == OTHER_ATTRIBUTE || d == OTHER_SHAPE;
    const char *another = mesh == grid ? "R,S1" : strcmp(text, "R") == 0 ? "S0" : "R";
    weft_placements_parse(other ? another : text, weft_mesh_ndim(mesh), placements);
    if (d == EXTRA_CALL) {
        weft_redistribute(a, mesh, NULL);
    }
    return d == MISSING_CALL      ? a
           : d == OTHER_OPERATION ? weft_scale(a, 2)
           : d == OTHER_TYPE      ? weft_redistribute(weft_to_type(a, WEFT_F64), mesh, placements)
           : d == BAD_ARGUMENT
               ? weft_redistribute(a, mesh, (weft_placement[]){ weft_shard(7), weft_shard(7) })
               : weft_redistribute(a, mesh, placements);
}

static weft_tensor *product(weft_tensor *a, bool transpose_a, weft_tensor *b)
{
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    if (d == EXTRA_CALL || d == OTHER_OPERATION) {
        weft_tensor *sum = weft_sum(a, WEFT_ALL_DIMS, false);
        b = d == EXTRA_CALL ? b : weft_mul(b, sum);
    }
    b = d == OTHER_SHAPE ? weft_sum(b, 1, true) : b;
    return d == MISSING_CALL   ? b
           : d == BAD_ARGUMENT ? weft_matmul_ex(a, !transpose_a, b, false)
           : d == OTHER_TYPE
               ? weft_matmul_ex(weft_to_type(a, WEFT_F64), transpose_a, weft_to_type(b, WEFT_F64), false)
               : weft_matmul_ex(a, transpose_a, d == OTHER_ATTRIBUTE ? weft_scale(b, 3) : b, false);
}

static weft_tensor *sum(weft_tensor *a, weft_tensor *b)
{
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    if (d == EXTRA_CALL) {
        weft_mean(a, WEFT_ALL_DIMS, false);
    }
    return d == MISSING_CALL      ? a
           : d == BAD_ARGUMENT    ? weft_add(a, weft_sum(a, 3, false))
           : d == OTHER_OPERATION ? weft_mul(a, b)
           : d == OTHER_TYPE      ? weft_add(a, weft_to_type(b, WEFT_F64))
           : d == OTHER_SHAPE     ? weft_add(a, weft_sum(b, 0, true))
           : d == OTHER_ATTRIBUTE ? weft_add_scaled(a, b, 2)
                                  : weft_add(a, b);
}

static weft_tensor *total(weft_tensor *a)
{
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    if (d == EXTRA_CALL) {
        weft_max(a, WEFT_ALL_DIMS, false);
    }
    return d == OTHER_OPERATION                       ? weft_mean(a, WEFT_ALL_DIMS, false)
           : d == OTHER_ATTRIBUTE || d == OTHER_SHAPE ? weft_sum(a, 0, false)
           : d == MISSING_CALL                        ? NULL
           : d == BAD_ARGUMENT                        ? weft_sum(a, 7, false)
           : d == OTHER_TYPE                          ? weft_sum(weft_to_type(a, WEFT_I64), WEFT_ALL_DIMS, false)
                                                      : weft_sum(a, WEFT_ALL_DIMS, false);
}

static weft_tensor *zeros_from_random(weft_mesh *mesh, const char *text)
{
    weft_placement placement;
    weft_placements_parse(text, 1, &placement);
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    int64_t shape[] = { ROWS, d == OTHER_SHAPE ? COLUMNS + 1 : COLUMNS };
    weft_dtype type = d == OTHER_TYPE ? WEFT_F64 : WEFT_F32;
    if (d == EXTRA_CALL || d == OTHER_OPERATION) {
        weft_randn(type, 2, shape, mesh, &placement);
    }
    return weft_floor(d == MISSING_CALL || d == OTHER_ATTRIBUTE ? weft_zeros(type, 2, shape, mesh, &placement)
                      : d == BAD_ARGUMENT                       ? weft_rand(type, -1, shape, mesh, &placement)
                                          : weft_rand(type, 2, shape, mesh, &placement));
}

static void add_in_place(weft_tensor *a, weft_tensor *b)
{
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    if (d == EXTRA_CALL || d == OTHER_OPERATION) {
        weft_copy_inplace(a, b);
    }
    if (d != MISSING_CALL && d != OTHER_OPERATION) {
        weft_add_inplace(a,
                         d == OTHER_TYPE     ? weft_to_type(b, WEFT_F64)
                         : d == OTHER_SHAPE  ? weft_sum(b, 0, true)
                         : d == BAD_ARGUMENT ? NULL
                                             : b,
                         d == OTHER_ATTRIBUTE ? 2 : 1);
    }
}

/* Adds one to each element. */
static void count_kernel(const weft_kernel_call *call)
{
    fault_kernel();
    int64_t width = call->output.row_elements;
    for (int64_t i = 0; i < weft_view_rows(&call->output); i++) {
        const float *in = weft_view_row(&call->inputs[0], i, NULL);
        float *out = weft_view_row(&call->output, i, NULL);
        for (int64_t j = 0; j < width; j++) {
            out[j] = in[j] + 1;
        }
    }
}

static weft_tensor *counted(weft_tensor *a)
{
    divergence d = fault_turn();
    leaves = leaves || d == EARLY_RETURN;
    weft_tensor *operands[] = { a, a, a };
    weft_apply_options other = { .num_numbers = d == OTHER_ATTRIBUTE, .numbers = { 7 } };
    if (d == EXTRA_CALL) {
        weft_apply(count_operation, 1, operands, NULL);
    }
    a = d == MISSING_CALL      ? a
        : d == OTHER_OPERATION ? weft_add_scalar(a, 1)
                               : weft_apply(count_operation, d == BAD_ARGUMENT ? 3 : 1, operands, &other);
    return d == OTHER_TYPE ? weft_to_type(a, WEFT_F64) : d == OTHER_SHAPE ? weft_sum(a, 0, true) : a;
}

/* ---- what comes out ------------------------------------------------------------------------------------- */

static struct {
    float x[ROWS * INNER], w[INNER * COLUMNS], y[ROWS * COLUMNS], g[INNER * COLUMNS];
    double total;
} known;

static void know_first(void)
{
    for (int i = 0; i < ROWS * INNER; i++) {
        known.x[i] = (float)((i + i / INNER) % 5 - 2);
    }
    for (int i = 0; i < INNER * COLUMNS; i++) {
        known.w[i] = 1;
    }
}

/* The same step, of all, in plain loops. */
static void know_step(void)
{
    memset(known.g, 0, sizeof(known.g));
    known.total = 0;
    for (int i = 0; i < ROWS; i++) {
        float *y = known.y + i * COLUMNS;
        for (int j = 0; j < COLUMNS; j++) {
            y[j] = 1;
        }
        for (int k = 0; k < INNER; k++) {
            for (int j = 0; j < COLUMNS; j++) {
                y[j] += known.x[i * INNER + k] * known.w[k * COLUMNS + j];
            }
        }
        for (int k = 0; k < INNER; k++) {
            for (int j = 0; j < COLUMNS; j++) {
                known.g[k * COLUMNS + j] += known.x[i * INNER + k] * y[j];
            }
        }
    }
    for (int i = 0; i < INNER * COLUMNS; i++) {
        int next = ((int)known.w[i] + (int)known.g[i]) % MODULUS;
        known.total += known.g[i];
        known.w[i] = (float)(next < 0 ? next + MODULUS : next);
    }
}

static bool wrong;

static void judge(bool right, const char *what, int step)
{
    wrong = wrong || !right;
    say(process, "has %s: %s of step %d", right ? "OK" : "WRONG", what, step);
}

static void check_total(weft_tensor *a, int step)
{
    double value = 0;
    fault_moment_begins(IN_TO_HOST);
    if (weft_tensor_item(a, &value) == WEFT_OK) {
        judge(value == known.total, "the sum", step);
    }
}

static void check_weights(weft_tensor *w, int step)
{
    static float values[INNER * COLUMNS];
    fault_moment_begins(IN_TO_HOST);
    if (weft_to_host(w, values, sizeof(values)) == WEFT_OK) {
        judge(memcmp(values, known.w, sizeof(values)) == 0, "the weights", step);
    }
}

/* ---- the program ---------------------------------------------------------------------------------------- */

static bool make_meshes(void)
{
    int ranks[MAX_RANKS], size = weft_world_size();
    for (int i = 0; i < size; i++) {
        ranks[i] = size - 1 - i;
    }
    int64_t all = size, some = (size + 1) / 2, pairs[] = { size > 1 ? 2 : 1, size > 1 ? size / 2 : 1 };
    line = weft_mesh_create(1, &all, NULL);
    half = weft_mesh_of_ranks(1, &some, ranks, NULL); /* the last ones */
    grid = weft_mesh_create(2, pairs, NULL);
    backwards = weft_mesh_of_ranks(1, &all, ranks, NULL);
    count_operation =
        weft_operation_register(&(weft_operation_description){ .name = "count",
                                                               .rule = "nc->nc",
                                                               .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
                                                               .kernel = count_kernel });
    return weft_last_status() == WEFT_OK && weft_mesh_push(line) == WEFT_OK;
}

/* Steps of the same `turn` make the same calls. */
static void step(int number, int turn, weft_tensor *x, weft_tensor *w)
{
    weft_tensor *y = counted(product(x, false, w));
    y = sum(y, zeros_from_random(line, turn % 2 == 0 ? "S0" : "S1"));
    y = move(y, half, "S1");
    y = move(y, grid, "S0,S1");
    y = move(y, backwards, "S0");
    y = move(y, line, turn % 3 == 0 ? "R" : "S0");
    weft_tensor *g = move(product(x, true, y), line, turn % 2 == 0 ? "S1" : "S0");
    weft_tensor *all = total(g);
    add_in_place(w, g);
    weft_copy_inplace(w, weft_remainder(w, weft_full(WEFT_F32, MODULUS, 0, NULL, line, NULL)));
    know_step();
    if (number % 2 == 0) {
        check_total(all, number);
    }
    if (number % 3 == 2) {
        fault_moment_begins(IN_WAIT);
        weft_wait();
    }
    if (number % 2 != 0) {
        check_weights(w, number);
    }
}

static weft_status step_of_graph(void *number, weft_tensor *const inputs[], const double scalars[],
                                 weft_tensor *outputs[])
{
    (void)scalars, (void)outputs;
    step(*(int *)number, *(int *)number % 2, inputs[0], inputs[1]);
    return weft_last_status();
}

static void run(bool in_graph)
{
    int i = 0;
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    know_first();
    if (!make_meshes()) {
        return;
    }
    weft_tensor *x = weft_distribute(WEFT_F32, 2, (int64_t[]){ ROWS, INNER }, known.x, line, &rows);
    weft_tensor *w = weft_ones(WEFT_F32, 2, (int64_t[]){ INNER, COLUMNS }, line, &columns);
    weft_tensor_set_name(x, "inputs");
    weft_tensor_set_name(w, "weights");
    weft_graph *graph = in_graph ? weft_graph_create("step", step_of_graph, &i, 2, 0, 0) : NULL;
    for (; i < STEPS && weft_last_status() == WEFT_OK && !leaves; i++) {
        weft_scope_begin();
        if (in_graph) {
            weft_graph_call(graph, (weft_tensor *[]){ x, w }, NULL, NULL);
        } else {
            step(i, i, x, w);
        }
        weft_scope_end();
    }
}

int main(int argc, char *argv[])
{
    int launched = mpirun_process(); /* weft does not tell before it has started */
    process = launched < 0 ? 0 : launched;
    if (argc != 5 && argc != 6) {
        return 2;
    }
    fault_read(argv + 1, process);
    fault_moment_begins(BEFORE);
    fault_moment_begins(IN_INIT);
    if (weft_init(NULL) == WEFT_OK) {
        run(argc == 6);
    }
    weft_status status = weft_last_status();
    say(process, "ends: %s: %s", weft_status_string(status), weft_last_error());
    if (leaves && atoi(argv[4]) % 2 != 0) {
        return 3; /* without weft_finalize() */
    }
    say(process, "finalizes");
    fault_moment_begins(IN_FINALIZE);
    weft_status last = weft_finalize();
    fault_moment_begins(AFTER);
    say(process, "finalized: %s", weft_status_string(last));
    return wrong ? 4 : status != WEFT_OK || last != WEFT_OK ? 3 : 0;
}
