/* Principal components: those of the samples' covariance, summed by a plain loop, and those of the covariance that the
 * samples were made with; on every mesh and on any number of processes.
 *
 * Argument: the program pca. */
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

enum { MAX_SAMPLES = 800, MAX_FEATURES = 16, MAX_COMPONENTS = 16 };

static const char *program;

typedef struct run {
    int iterations;
    double variances[MAX_COMPONENTS], directions[MAX_FEATURES * MAX_COMPONENTS];
    double x[MAX_SAMPLES * MAX_FEATURES];
} run;

static run got, again;

static void find(int processes, int n, int features, int components, const char *more, run *r)
{
    char all[512];
    snprintf(all, sizeof(all), "--json --quiet --samples %d --features %d --components %d --save %s %s", n, features,
             components, example_path("x"), more);
    int code = example_run(processes, program, all);
    if (code != 0) {
        fail_msg("pca %s on %d processes gave %d: %s", all, processes, code, example_output("err"));
    }
    r->iterations = (int)example_number("\"iterations\": ");
    example_list("\"variances\": ", components, r->variances);
    example_list("\"directions\": ", features * components, r->directions);
    example_tensor(example_path("x"), "x", sizeof(double) * (size_t)(n * features), r->x);
}

/* X' X / (n - 1) of samples whose means are 0. */
static void covariance(int n, int features, const double *x, double *c)
{
    for (int a = 0; a < features; a++) {
        double mean = 0;
        for (int i = 0; i < n; i++) {
            mean += x[i * features + a] / n;
        }
        assert_true(fabs(mean) < 1e-12);
        for (int b = 0; b < features; b++) {
            c[a * features + b] = 0;
            for (int i = 0; i < n; i++) {
                c[a * features + b] += x[i * features + a] * x[i * features + b] / (n - 1);
            }
        }
    }
}

/* C v = variance v and v' v = 1 for each component, components orthogonal, variances falling. Directions settle half as fast
 * as variances: to 1e-5, where these are known to 1e-10. */
static void are_components(int n, int features, int components, const run *r)
{
    static double c[MAX_FEATURES * MAX_FEATURES];
    covariance(n, features, r->x, c);
    for (int k = 0; k < components; k++) {
        const double *v = r->directions + k;
        assert_true(k == 0 || r->variances[k] < r->variances[k - 1]);
        for (int other = 0; other <= k; other++) {
            double product = 0;
            for (int f = 0; f < features; f++) {
                product += v[f * components] * r->directions[f * components + other];
            }
            assert_true(fabs(product - (other == k)) < 1e-9);
        }
        double quotient = 0;
        for (int a = 0; a < features; a++) {
            double image = 0;
            for (int b = 0; b < features; b++) {
                image += c[a * features + b] * v[b * components];
            }
            quotient += image * v[a * components];
            assert_true(fabs(image - r->variances[k] * v[a * components]) < 1e-5 * r->variances[0]);
        }
        assert_true(fabs(quotient - r->variances[k]) < 1e-9 * r->variances[0]);
    }
}

static void check(int processes, int n, int features, int components, const char *more)
{
    find(processes, n, features, components, more, &got);
    are_components(n, features, components, &got);
}

static void on_one_rank(void **state)
{
    (void)state;
    check(0, 700, 12, 4, "--mesh 1x1");
    assert_true(got.iterations < 200);
}

static void on_several_ranks(void **state)
{
    (void)state;
    check(0, 700, 12, 4, "--mesh 4x1");
    check(0, 701, 13, 5, "--mesh 3x2"); /* uneven rows and columns */
    check(0, 500, 12, 1, "--mesh 1x3");
}

static void all_components(void **state)
{
    (void)state;
    check(0, 300, 8, 8, "--mesh 2x2");
    check(0, 100, 1, 1, "--mesh 2x2"); /* ranks without features */
}

static void captured_iterations_are_the_same(void **state)
{
    (void)state;
    find(0, 500, 12, 4, "--mesh 2x2", &got);
    find(0, 500, 12, 4, "--mesh 2x2 --graph", &again);
    assert_memory_equal(got.directions, again.directions, sizeof(double) * 12 * 4);
}

#ifdef WEFT_HAVE_MPI
/* The number of processes changes no bit. */
static void on_processes(void **state)
{
    (void)state;
    find(0, 500, 12, 4, "--mesh 3x1", &got);
    for (int processes = 1; processes <= 3; processes++) {
        find(processes, 500, 12, 4, "--mesh 3x1", &again);
        assert_int_equal(again.iterations, got.iterations);
        assert_memory_equal(got.directions, again.directions, sizeof(double) * 12 * 4);
    }
    check(2, 401, 10, 3, "--mesh 2x2 --graph");
}
#endif

/* The program compares with the covariance that it used, and does not find others right. */
static void truth_is_looked_at(void **state)
{
    (void)state;
    assert_int_equal(example_run(0, program, "--samples 2000 --iterations 2 --json"), 1);
    assert_non_null(strstr(example_output("err"), "not converged"));
    assert_int_equal(example_run(0, program, "--samples 2000 --json"), 0);
    assert_true(example_number("\"wrong_variance\": ") > 0.01 && example_number("\"wrong_variance\": ") < 5);
    assert_true(example_number("\"wrong_direction\": ") > 0.01 && example_number("\"wrong_direction\": ") < 10);
    assert_non_null(strstr(example_output("out"), "▇▇▇▇▇▇▇"));
    assert_string_equal(example_output("err"), "");
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    example_refused(program, "--features 3", 2, "--components 5");
    example_refused(program, "--samples 99", 2, "--samples");
    example_refused(program, "--features 513", 2, "--features");
    example_refused(program, "--mesh 2y2", 2, "--mesh");
    example_refused(program, "--save /nonexistent/x", 1, "/nonexistent/x");
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s PCA\n", argv[0]);
        return 2;
    }
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_rank),
        cmocka_unit_test(on_several_ranks),
        cmocka_unit_test(all_components),
        cmocka_unit_test(captured_iterations_are_the_same),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(on_processes),
#endif
        cmocka_unit_test(truth_is_looked_at),
        cmocka_unit_test(bad_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
