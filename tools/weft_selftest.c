/* weft-selftest: checks an installation. Uses nothing but the public headers, and the installed shared library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <starpu.h>
#include <weft/build.h>
#include <weft/weft.h>

static const char usage[] =
    "usage: weft-selftest\n"
    "Starts weft as any program does, prints what it runs on, and compares a redistribution and two products with ones that it\n"
    "computes itself. Status 0: all agree. Run it alone, and under mpirun on the hosts of a job:\n"
    "    mpirun -n 4 weft-selftest\n"
    "WEFT_RANKS, WEFT_WORKERS and WEFT_DEVICES apply as in every program (docs/settings.md).\n";

enum { ROWS = 45, INNER = 38, COLUMNS = 27 };

static double left_value(int i, int k)
{
    return (7 * i + 3 * k) % 5 - 2;
}

static double right_value(int k, int j)
{
    return (2 * k + 5 * j) % 7 - 3;
}

/* The numbers are small integers, so all orders of addition give the same. */
static void fill(double left[], double right[], double product[])
{
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < INNER; k++) {
            left[i * INNER + k] = left_value(i, k);
        }
        for (int j = 0; j < COLUMNS; j++) {
            product[i * COLUMNS + j] = 0;
            for (int k = 0; k < INNER; k++) {
                product[i * COLUMNS + j] += left_value(i, k) * right_value(k, j);
            }
        }
    }
    for (int k = 0; k < INNER; k++) {
        for (int j = 0; j < COLUMNS; j++) {
            right[k * COLUMNS + j] = right_value(k, j);
        }
    }
}

/* Prints the outcome on process 0, and a wrong one on each process that has it. NULL tensors: the call that should have made them failed. */
static bool check(const char *what, weft_tensor *tensor, const double expected[], size_t count)
{
    double *values = calloc(count, sizeof(*values));
    bool done = values != NULL && tensor != NULL && weft_to_host(tensor, values, count * sizeof(*values)) == WEFT_OK;
    bool same = done && memcmp(values, expected, count * sizeof(*values)) == 0;
    free(values);
    if (weft_process_index() == 0) {
        printf("%-42s %s\n", what, same ? "right" : done ? "WRONG" : "FAILED");
    }
    if (!done) {
        fprintf(stderr, "weft-selftest: %s\n", weft_last_error());
    } else if (!same) {
        fprintf(stderr, "weft-selftest: process %d: %s: WRONG\n", weft_process_index(), what);
    }
    return same;
}

/* Whether it is so on all processes: the sum over ranks of what is wrong is 0. */
static bool on_all(bool right)
{
    const weft_placement by_rank[] = { weft_shard(0) };
    const int64_t ranks = weft_world_size(), each = 1;
    int64_t wrong = right ? 0 : 1, sum = 1;
    void **locals = calloc((size_t)weft_local_ranks(), sizeof(*locals));
    for (int i = 0; locals != NULL && i < weft_local_ranks(); i++) {
        locals[i] = &wrong;
    }
    weft_mesh *mesh = locals == NULL ? NULL : weft_mesh_create(1, &ranks, NULL);
    weft_tensor *all = mesh == NULL ? NULL : weft_from_local_even(WEFT_I64, 1, &each, locals, mesh, by_rank, WEFT_COPY);
    weft_tensor *added = all == NULL ? NULL : weft_sum(all, WEFT_ALL_DIMS, false);
    bool done = added != NULL && weft_to_host(added, &sum, sizeof(sum)) == WEFT_OK;
    free(locals);
    return done && sum == 0;
}

static bool check_tensors(void)
{
    static double left[ROWS * INNER], right[INNER * COLUMNS], product[ROWS * COLUMNS];
    const int64_t left_shape[] = { ROWS, INNER }, right_shape[] = { INNER, COLUMNS };
    const int64_t ranks = weft_world_size();
    const weft_placement rows[] = { weft_shard(0) }, columns[] = { weft_shard(1) };
    fill(left, right, product);
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_tensor *a = mesh == NULL ? NULL : weft_distribute(WEFT_F64, 2, left_shape, left, mesh, rows);
    weft_tensor *b = a == NULL ? NULL : weft_distribute(WEFT_F64, 2, right_shape, right, mesh, rows);
    weft_tensor *moved = b == NULL ? NULL : weft_redistribute(a, NULL, columns);
    /* Each rank has columns of one factor and rows of the other: its product is an addend. */
    weft_tensor *sum = moved == NULL ? NULL : weft_matmul(moved, b);
    weft_tensor *own_rows = sum == NULL ? NULL : weft_matmul(a, b);
    bool right_all = check("a redistribution from rows to columns", moved, left, ROWS * INNER);
    right_all = check("a product that is reduced over ranks", sum, product, ROWS * COLUMNS) && right_all;
    return check("a product of rows", own_rows, product, ROWS * COLUMNS) && right_all;
}

static void print_world(void)
{
    printf("weft %s: %d ranks in %d processes\n", weft_version(), weft_world_size(), weft_num_processes());
    printf("process 0: %d CPU workers, %d CUDA devices\n", starpu_worker_get_count_by_type(STARPU_CPU_WORKER),
           starpu_worker_get_count_by_type(STARPU_CUDA_WORKER));
    fputs(weft_build_info(), stdout);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        bool asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs(usage, asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    if (weft_init(NULL) != WEFT_OK) {
        fprintf(stderr, "weft-selftest: %s\n", weft_last_error());
        return 1;
    }
    const bool first = weft_process_index() == 0;
    if (first) {
        print_world();
    }
    weft_scope_begin();
    const bool right = on_all(check_tensors());
    weft_scope_end();
    const bool ended = weft_finalize() == WEFT_OK;
    if (!ended) {
        fprintf(stderr, "weft-selftest: %s\n", weft_last_error());
    }
    if (first && right && ended) {
        printf("all is right\n");
    }
    return right && ended ? 0 : 1;
}
