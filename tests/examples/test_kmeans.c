/* Clusters: centres, labels and cost are those of a plain loop, on every mesh and on any number of processes; the labels
 * are in the program's own arrays.
 *
 * Argument: the program kmeans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "example_runs.h"

enum { MAX_POINTS = 600, MAX_FEATURES = 8, MAX_CLUSTERS = 8 };

static const char *program;

typedef struct run {
    int iterations;
    double cost; /* of the centres before the last iteration */
    double points[MAX_POINTS * MAX_FEATURES], centres[MAX_CLUSTERS * MAX_FEATURES];
    int64_t labels[MAX_POINTS];
} run;

/* ---- the same in plain C --------------------------------------------------------------------------------- */

static int64_t nearest(const double *point, int features, int clusters, const double *centres, double *distance)
{
    int64_t label = -1;
    for (int k = 0; k < clusters; k++) {
        double sum = 0;
        for (int f = 0; f < features; f++) {
            sum += pow(point[f] - centres[k * features + f], 2);
        }
        label = label < 0 || sum < *distance ? k : label;
        *distance = label == k ? sum : *distance;
    }
    return label;
}

static void label_points(int n, int features, int clusters, run *r)
{
    r->cost = 0;
    for (int i = 0; i < n; i++) {
        double distance = 0;
        r->labels[i] = nearest(r->points + i * features, features, clusters, r->centres, &distance);
        r->cost += distance;
    }
}

static void move_centres(int n, int features, int clusters, run *r)
{
    double sums[MAX_CLUSTERS * MAX_FEATURES] = { 0 }, counts[MAX_CLUSTERS] = { 0 };
    for (int i = 0; i < n * features; i++) {
        int64_t label = r->labels[i / features];
        sums[label * features + i % features] += r->points[i];
        counts[label] += i % features == 0;
    }
    for (int i = 0; i < clusters * features; i++) {
        r->centres[i] = counts[i / features] > 0 ? sums[i] / counts[i / features] : r->centres[i];
    }
}

/* From the program's points, as many iterations as it made. */
static void solve(int n, int features, int clusters, run *r)
{
    for (int i = 0; i < clusters * features; i++) {
        r->centres[i] = r->points[i / features * n / clusters * features + i % features];
    }
    for (int i = 0; i < r->iterations; i++) {
        label_points(n, features, clusters, r);
        move_centres(n, features, clusters, r);
    }
    double cost = r->cost;
    label_points(n, features, clusters, r);
    r->cost = cost;
}

/* ---- runs of the program --------------------------------------------------------------------------------- */

static run got, again, expected;

static void find(int processes, int n, int features, int clusters, const char *more, run *r)
{
    char all[512];
    snprintf(all, sizeof(all), "--json --quiet --points %d --features %d --clusters %d --save %s %s", n, features, clusters,
             example_path("found"), more);
    int code = example_run(processes, program, all);
    if (code != 0) {
        fail_msg("kmeans %s on %d processes gave %d: %s", all, processes, code, example_output("err"));
    }
    r->iterations = (int)example_number("\"iterations\": ");
    r->cost = example_number("\"cost\": ");
    example_list("\"centres\": ", clusters * features, r->centres);
    example_tensor(example_path("found"), "points", sizeof(double) * (size_t)(n * features), r->points);
    example_tensor(example_path("found"), "labels", sizeof(int64_t) * (size_t)n, r->labels);
}

static void equals_plain_c(int processes, int n, int features, int clusters, const char *more)
{
    find(processes, n, features, clusters, more, &got);
    expected = got;
    solve(n, features, clusters, &expected);
    assert_memory_equal(got.labels, expected.labels, sizeof(int64_t) * (size_t)n);
    for (int i = 0; i < clusters * features; i++) {
        if (!(fabs(got.centres[i] - expected.centres[i]) < 1e-12)) {
            fail_msg("kmeans %s: number %d of the centres is %.17g, expected %.17g", more, i, got.centres[i],
                     expected.centres[i]);
        }
    }
    assert_true(fabs(got.cost - expected.cost) < 1e-10 * expected.cost + 1e-10);
}

static void on_one_rank(void **state)
{
    (void)state;
    equals_plain_c(0, 500, 2, 5, "--mesh 1x1");
    assert_true(got.iterations < 200);
}

static void on_several_ranks(void **state)
{
    (void)state;
    equals_plain_c(0, 500, 2, 5, "--mesh 4x1");
    equals_plain_c(0, 601 - 100, 7, 6, "--mesh 3x2"); /* uneven rows and columns */
    equals_plain_c(0, 500, 2, 5, "--mesh 1x3");        /* a rank without features */
}

/* Ranks without points, clusters of one point, and centres that stay because no point is theirs. */
static void small_ones(void **state)
{
    (void)state;
    equals_plain_c(0, 5, 1, 5, "--mesh 4x1");
    equals_plain_c(0, 1, 2, 1, "--mesh 2x2");
    equals_plain_c(0, 3, 2, 7, "--mesh 2x1"); /* points are several centres: the first one is theirs */
}

static void stops_when_told(void **state)
{
    (void)state;
    equals_plain_c(0, 500, 2, 5, "--mesh 2x1 --iterations 3 --check 2");
    assert_int_equal(got.iterations, 3);
}

static void captured_iterations_are_the_same(void **state)
{
    (void)state;
    find(0, 500, 3, 5, "--mesh 2x2", &got);
    find(0, 500, 3, 5, "--mesh 2x2 --graph", &again);
    assert_memory_equal(got.centres, again.centres, sizeof(double) * 15);
    assert_memory_equal(got.labels, again.labels, sizeof(int64_t) * 500);
}

#ifdef WEFT_HAVE_MPI
/* The number of processes changes no bit. */
static void on_processes(void **state)
{
    (void)state;
    find(0, 500, 3, 5, "--mesh 3x1", &got);
    for (int processes = 1; processes <= 3; processes++) {
        find(processes, 500, 3, 5, "--mesh 3x1", &again);
        assert_int_equal(again.iterations, got.iterations);
        assert_memory_equal(got.centres, again.centres, sizeof(double) * 15);
        assert_memory_equal(got.labels, again.labels, sizeof(int64_t) * 500);
    }
    equals_plain_c(2, 401, 4, 6, "--mesh 2x2 --graph");
}
#endif

static void output_and_arguments(void **state)
{
    (void)state;
    assert_int_equal(example_run(0, program, "--points 2000"), 0);
    assert_non_null(strstr(example_output("out"), "aaaaaa"));
    assert_non_null(strstr(example_output("out"), "  plain loop   0 other labels"));
    assert_string_equal(example_output("err"), "");
    example_refused(program, "--clusters 27", 2, "--clusters");
    example_refused(program, "--points 0", 2, "--points");
    example_refused(program, "--features none", 2, "--features");
    example_refused(program, "--mesh 2", 2, "--mesh");
    example_refused(program, "--save /nonexistent/found", 1, "/nonexistent/found");
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s KMEANS\n", argv[0]);
        return 2;
    }
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_rank),
        cmocka_unit_test(on_several_ranks),
        cmocka_unit_test(small_ones),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(captured_iterations_are_the_same),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(on_processes),
#endif
        cmocka_unit_test(output_and_arguments),
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
