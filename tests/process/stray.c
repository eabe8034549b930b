/* A program of several processes, one of which makes other calls: run by test_stray.c with mpirun.
 *
 * usage: stray WAY WHO WHEN [blocks], on at least 2 processes: process WHO does WAY in step WHEN (0 .. STEPS
 *        - 1, or STEPS: after the result). "blocks": all wait for each other after each step; else only at
 *        the end.
 *
 * Each process prints, in one line each,
 *
 *     process P result OK | WRONG        if it got a result
 *     process P ends: STATUS MESSAGE     the first error, as the program sees it
 *     process P finalized: STATUS MESSAGE
 *
 * The exit status is 0 without an error and with the right result, 3 after an error, 4 after a wrong
 * result. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

enum { STEPS = 8, ROWS = 36, SIDE = 12, COUNT = ROWS * SIDE * SIDE };

static const int64_t shape[] = { ROWS, SIDE, SIDE };

static const char *way;
static int when;
static bool odd_one; /* this process strays */
static int step;     /* the present one */

/* Whether this process diverges now. */
static bool goes(const char *name)
{
    return odd_one && step == when && strcmp(way, name) == 0;
}

/* Writes one whole line at once, because mpirun mixes the lines of all processes. */
static void say(int process, const char *what, const char *message)
{
    printf("process %d %s%s\n", process, what, message);
    fflush(stdout);
}

static weft_tensor *placed(weft_tensor *tensor, int dim)
{
    weft_placement placement = weft_shard(dim);
    return weft_redistribute(tensor, NULL, &placement);
}

static weft_tensor *drawn(void)
{
    weft_placement by_rows = weft_shard(0);
    return weft_rand(WEFT_F32, 3, shape, NULL, &by_rows);
}

/* ---- steps: each gives zeros, or ones, where nobody strays --------------------------------------------- */

static weft_tensor *ones(int dim)
{
    weft_placement placement = weft_shard(1 - dim);
    return placed(weft_ones(goes("type") ? WEFT_I32 : WEFT_F32, 3, shape, NULL, &placement), dim);
}

static weft_tensor *attributes(weft_tensor *one)
{
    return weft_sub(weft_cumsum(one, goes("dim") ? 1 : 2), weft_cumsum(one, 2));
}

static weft_tensor *numbers(weft_tensor *one)
{
    return weft_sub(weft_scale(one, goes("number") ? 3 : 2), weft_scale(one, 2));
}

/* 2 - (2 - 1) - 1 */
static weft_tensor *ordered(weft_tensor *one)
{
    weft_tensor *two = weft_scale(one, 2);
    weft_tensor *difference =
        goes("order") ? weft_neg(weft_add_scalar(one, -2)) : weft_add_scalar(weft_neg(one), 2);
    return weft_sub(weft_sub(two, difference), one);
}

static weft_tensor *skipped(weft_tensor *one)
{
    weft_tensor *two = goes("missing") ? one : weft_scale(one, 2);
    if (goes("more")) {
        two = weft_scale(two, 1);
    }
    return weft_sub(two, weft_add(one, one));
}

static weft_tensor *seeded(void)
{
    weft_random_seed(5);
    weft_tensor *first = drawn();
    if (goes("draw")) {
        drawn();
    }
    weft_tensor *second = drawn();
    weft_random_seed(goes("seed") ? 6 : 5);
    first = weft_sub(first, drawn());
    return weft_add(first, weft_sub(second, drawn()));
}

/* The same on meshes that consist of other ranks on other processes, and of some of the ranks. */
static weft_tensor *on_slices(void)
{
    int64_t half = weft_world_size() / 2;
    weft_mesh *all = weft_mesh_create(2, (const int64_t[]){ 2, half }, (const char *[]){ "outer", "inner" });
    bool lines = weft_world_size() == 4 && weft_num_processes() < 4; /* none hosts ranks of both */
    weft_mesh *slice = lines ? weft_mesh_slice(all, "inner") : NULL;
    weft_mesh *few = weft_mesh_create(1, &half, NULL);
    weft_placement by_rows = weft_shard(0), by_columns = weft_shard(1);
    weft_tensor *zero = weft_zeros(WEFT_F32, 3, shape, few, &by_rows);
    zero =
        weft_add(weft_redistribute(zero, few, &by_columns), weft_zeros(WEFT_F32, 3, shape, few, &by_columns));
    if (slice != NULL) {
        const int64_t square[] = { SIDE, SIDE };
        weft_tensor *own = weft_ones(WEFT_F32, 2, square, slice, &by_rows);
        own = weft_matmul(own, weft_redistribute(own, slice, &by_columns));
        weft_softmax(weft_redistribute(own, slice, &by_rows), 0);
        if (goes("slice")) {
            weft_scale(own, 2);
        }
    }
    return weft_redistribute(zero, weft_mesh_current(), &by_rows);
}

/* ---- an operation that does not end on the odd process ------------------------------------------------- */

static atomic_bool hangs;

static void copy(const weft_kernel_call *call)
{
    while (hangs) {
        sleep(1);
    }
    int64_t rows = weft_view_rows(&call->output), there;
    for (int64_t row = 0; row < rows; row += there) {
        int64_t here;
        const void *from = weft_view_row(&call->inputs[0], row, &here);
        void *to = weft_view_row(&call->output, row, &there);
        there = there < here ? there : here;
        memcpy(to, from, (size_t)(there * call->output.row_elements) * sizeof(float));
    }
}

static const weft_operation *make_operation(void)
{
    return weft_operation_register(&(weft_operation_description){
        .name = "own", .rule = "A->A", .inputs = { { "a", WEFT_TYPES_FLOAT, false } }, .kernel = copy });
}

static void stray(void)
{
    if (goes("killed")) {
        raise(SIGKILL);
    }
    if (goes("stopped")) {
        raise(SIGSTOP);
    }
    if (goes("sleeps")) {
        sleep(1000);
    }
    if (goes("exits")) {
        exit(0);
    }
}

static weft_tensor *work(bool blocks)
{
    const weft_operation *own = make_operation();
    weft_placement by_rows = weft_shard(0);
    weft_tensor *sum = weft_ones(WEFT_F32, 3, shape, NULL, &by_rows);
    for (step = 0; step < STEPS; step++) {
        int dim = step % 2;
        stray();
        weft_tensor *one = ones(dim);
        sum = placed(sum, dim);
        sum = goes("operation") ? weft_mul(sum, one) : weft_add(sum, one);
        sum = weft_add(sum, attributes(one));
        sum = weft_add(sum, numbers(one));
        sum = weft_add(sum, ordered(one));
        sum = weft_add(sum, skipped(one));
        sum = weft_add(sum, placed(seeded(), dim));
        sum = weft_add(sum, placed(on_slices(), dim));
        if (goes("computes")) {
            hangs = true;
        }
        sum = weft_apply(own, 1, &sum, NULL);
        weft_tensor_set_name(sum, "running");
        if (blocks) {
            double total;
            weft_tensor_item(weft_sum(sum, WEFT_ALL_DIMS, false), &total);
        }
    }
    return sum;
}

/* The value that every element has after work(). */
static bool right(const float values[])
{
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != STEPS + 1) {
            return false;
        }
    }
    return true;
}

/* From mpirun: known before weft has started. */
static int number_of_process(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank == NULL ? 0 : atoi(rank);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s WAY WHO WHEN [blocks]\n", argv[0]);
        return 2;
    }
    way = argv[1];
    when = atoi(argv[3]);
    int process = number_of_process();
    odd_one = process == atoi(argv[2]);
    static float values[COUNT];
    weft_status status = weft_init(NULL);
    if (status == WEFT_OK) {
        int64_t size = weft_world_size();
        weft_mesh_push(weft_mesh_create(1, &size, NULL));
        weft_tensor *result = work(argc > 4);
        status = weft_to_host(result, values, sizeof(values));
    }
    bool wrong = status == WEFT_OK && !right(values);
    if (status == WEFT_OK) {
        say(process, wrong ? "result WRONG" : "result OK", "");
        step = STEPS;
        if (goes("late")) {
            weft_zeros(WEFT_F32, 3, shape, NULL, NULL);
        }
    } else {
        printf("process %d ends: %s: %s\n", process, weft_status_string(weft_last_status()),
               weft_last_error());
        fflush(stdout);
    }
    weft_clear_error();
    weft_status last = weft_world_size() == 0 ? status : weft_finalize();
    printf("process %d finalized: %s: %s\n", process, weft_status_string(last), weft_last_error());
    fflush(stdout);
    return wrong ? 4 : status != WEFT_OK || last != WEFT_OK ? 3 : 0;
}
