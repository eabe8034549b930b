/* Conjugate gradients: the solution is that of a plain loop, on every mesh and on any number of processes, after as many
 * iterations; its error falls with the grid's width.
 *
 * Arguments: the program poisson_cg, examples/README.md, poisson_cg.c. */
#include <float.h>
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

enum { MAX_SIZE = 64, MAX_RESIDUALS = 200 };

static const char *program, *readme, *source;

typedef struct run {
    int iterations, num_residuals;
    double error, residuals[MAX_RESIDUALS];
    double u[MAX_SIZE * MAX_SIZE];
} run;

/* ---- the same in plain C --------------------------------------------------------------------------------- */

static double dot(int n, const double a[], const double b[])
{
    double sum = 0;
    for (int i = 0; i < n * n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* 0 on the border. */
static void apply(int n, const double v[], double out[])
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double *at = &v[i * n + j];
            bool inside = i > 0 && i < n - 1 && j > 0 && j < n - 1;
            out[i * n + j] = inside ? *at - (at[-n] + at[n] + at[-1] + at[1]) / 4 : 0;
        }
    }
}

/* u = e^(x + 2y), looked at every 10 iterations. */
static void solve(int n, double tolerance, run *r)
{
    static double res[MAX_SIZE * MAX_SIZE], p[MAX_SIZE * MAX_SIZE], ap[MAX_SIZE * MAX_SIZE];
    double h = 1.0 / (n - 1);
    for (int i = 0; i < n * n; i++) {
        int row = i / n, column = i % n;
        bool inside = row > 0 && row < n - 1 && column > 0 && column < n - 1;
        double exact = exp(column * h + 2 * row * h);
        r->u[i] = inside ? 0 : exact;
        res[i] = inside ? -5 * exact * h * h / 4 : 0;
    }
    apply(n, r->u, ap);
    for (int i = 0; i < n * n; i++) {
        p[i] = res[i] -= ap[i];
    }
    double rho = dot(n, res, res), first = rho;
    r->residuals[0] = 1;
    for (r->iterations = 0, r->num_residuals = 1; r->residuals[r->num_residuals - 1] > tolerance; r->num_residuals++) {
        for (int k = 0; k < 10; k++, r->iterations++) {
            apply(n, p, ap);
            double former = fmax(rho, DBL_MIN), alpha = rho / fmax(dot(n, p, ap), DBL_MIN);
            for (int i = 0; i < n * n; i++) {
                r->u[i] += alpha * p[i];
                res[i] -= alpha * ap[i];
            }
            rho = dot(n, res, res);
            for (int i = 0; i < n * n; i++) {
                p[i] = res[i] + rho / former * p[i];
            }
        }
        assert_true(r->num_residuals < MAX_RESIDUALS);
        r->residuals[r->num_residuals] = sqrt(rho / first);
    }
}

/* ---- runs of the program --------------------------------------------------------------------------------- */

static int start(int processes, const char *arguments)
{
    char all[1024];
    snprintf(all, sizeof(all), "--json --save %s %s", example_path("u"), arguments);
    return example_run(processes, program, all);
}

static void solve_with_weft(int processes, int n, const char *more, run *r)
{
    char arguments[512];
    snprintf(arguments, sizeof(arguments), "--size %d %s", n, more);
    int code = start(processes, arguments);
    if (code != 0) {
        fail_msg("poisson_cg %s on %d processes gave %d: %s", arguments, processes, code, example_output("err"));
    }
    r->iterations = (int)example_number("\"iterations\": ");
    r->error = example_number("\"error\": ");
    char *list = strchr(strstr(example_last_line(), "\"residuals\": ["), '[');
    for (r->num_residuals = 0; *list != ']'; r->num_residuals++) {
        assert_true(r->num_residuals < MAX_RESIDUALS);
        r->residuals[r->num_residuals] = strtod(list + 1, &list);
    }
    bool single = strstr(more, "f32") != NULL;
    static float narrow[MAX_SIZE * MAX_SIZE];
    size_t count = (size_t)(n * n);
    example_tensor(example_path("u"), "u", count * (single ? sizeof(*narrow) : sizeof(*r->u)), single ? (void *)narrow : r->u);
    for (size_t i = 0; single && i < count; i++) {
        r->u[i] = narrow[i];
    }
}

/* Rounding errors grow with the iterations, and as the residual falls. */
static void compare(const char *what, int n, const run *got, const run *expected, double tolerance)
{
    if (got->iterations != expected->iterations) {
        fail_msg("%s: %d iterations, expected %d", what, got->iterations, expected->iterations);
    }
    assert_int_equal(got->num_residuals, expected->num_residuals);
    for (int i = 0; i < got->num_residuals; i++) {
        if (!(fabs(got->residuals[i] - expected->residuals[i]) <= 0.05 * expected->residuals[i] + tolerance)) {
            fail_msg("%s: residual %d is %.9g, expected %.9g", what, i, got->residuals[i], expected->residuals[i]);
        }
    }
    for (int i = 0; i < n * n; i++) {
        if (!(fabs(got->u[i] - expected->u[i]) <= tolerance * expected->u[i])) {
            fail_msg("%s: point %d, %d is %.17g, expected %.17g", what, i / n, i % n, got->u[i], expected->u[i]);
        }
    }
}

static run expected, got, again;

static void equals_plain_c(int processes, int n, const char *more, double tolerance)
{
    solve(n, 1e-8, &expected);
    solve_with_weft(processes, n, more, &got);
    compare(more, n, &got, &expected, tolerance);
}

static void on_one_rank(void **state)
{
    (void)state;
    equals_plain_c(0, 40, "--mesh 1x1", 1e-9);
}

static void on_several_ranks(void **state)
{
    (void)state;
    equals_plain_c(0, 40, "--mesh 2x2", 1e-9);
    equals_plain_c(0, 40, "--mesh 1x3", 1e-9);
    equals_plain_c(0, 40, "--mesh 4x2", 1e-9);
}

/* 41 rows on three ranks: 14, 14 and 13. */
static void on_uneven_blocks(void **state)
{
    (void)state;
    equals_plain_c(0, 41, "--mesh 3x1", 1e-9);
    equals_plain_c(0, 37, "--mesh 5x3", 1e-9);
}

/* Five rows on four ranks: 2, 2, 1 and none. A single point inside. */
static void on_empty_blocks(void **state)
{
    (void)state;
    equals_plain_c(0, 5, "--mesh 4x1", 1e-9);
    equals_plain_c(0, 3, "--mesh 2x5", 1e-9);
}

static void in_f32(void **state)
{
    (void)state;
    solve(24, 1e-8, &expected);
    solve_with_weft(0, 24, "--mesh 2x2 --type f32", &got);
    assert_true(abs(got.iterations - expected.iterations) <= 10);
    for (int i = 0; i < 24 * 24; i++) {
        assert_true(fabs(got.u[i] - expected.u[i]) <= 1e-4 * expected.u[i]);
    }
}

#ifdef WEFT_HAVE_MPI
static void on_processes(void **state)
{
    (void)state;
    equals_plain_c(2, 20, "--mesh 2x1", 1e-9);
    equals_plain_c(3, 20, "--mesh 3x1", 1e-9);
    equals_plain_c(3, 20, "--mesh 2x2", 1e-9); /* two ranks in one of them */
}

/* The number of processes changes no bit: the order of sums is the same. */
static void spreading_changes_nothing(void **state)
{
    (void)state;
    solve_with_weft(0, 21, "--mesh 2x2", &expected);
    for (int processes = 2; processes <= 4; processes++) {
        solve_with_weft(processes, 21, "--mesh 2x2", &got);
        assert_int_equal(got.iterations, expected.iterations);
        assert_memory_equal(got.u, expected.u, sizeof(double) * 21 * 21);
    }
}
#endif

static void twice_the_same_bits(void **state)
{
    (void)state;
    solve_with_weft(0, 40, "--mesh 2x3", &got);
    solve_with_weft(0, 40, "--mesh 2x3", &again);
    assert_memory_equal(got.u, again.u, sizeof(double) * 40 * 40);
    assert_memory_equal(got.residuals, again.residuals, sizeof(double) * (size_t)got.num_residuals);
}

static void captured_iterations_are_the_same(void **state)
{
    (void)state;
    static const int sizes[] = { 21, 8 };
    for (int i = 0; i < 2; i++) {
        solve_with_weft(0, sizes[i], "--mesh 2x2", &expected);
        solve_with_weft(0, sizes[i], "--mesh 2x2 --graph", &got);
        assert_memory_equal(got.u, expected.u, sizeof(double) * (size_t)(sizes[i] * sizes[i]));
        assert_memory_equal(got.residuals, expected.residuals, sizeof(double) * (size_t)got.num_residuals);
#ifdef WEFT_HAVE_MPI
        solve_with_weft(3, sizes[i], "--mesh 2x2 --graph", &got);
        assert_memory_equal(got.u, expected.u, sizeof(double) * (size_t)(sizes[i] * sizes[i]));
#endif
    }
}

/* Half the width, a quarter of the error. */
static void error_is_that_of_the_grid(void **state)
{
    (void)state;
    solve_with_weft(0, 17, "--mesh 2x2 --tolerance 1e-12", &expected);
    solve_with_weft(0, 33, "--mesh 2x2 --tolerance 1e-12", &got);
    assert_true(expected.error < 17 * exp(3) / 96 / (16 * 16));
    assert_true(expected.error / got.error > 3.7 && expected.error / got.error < 4.3);
}

/* Looks at the residual change neither the solution nor, but by what they round up, the number of iterations. */
static void looks_change_nothing(void **state)
{
    (void)state;
    solve_with_weft(0, 20, "--mesh 2x2 --check 1 --tolerance 0 --iterations 30", &got);
    assert_int_equal(got.num_residuals, 31);
    solve_with_weft(0, 20, "--mesh 2x2 --check 7 --tolerance 0 --iterations 30", &again);
    assert_int_equal(again.num_residuals, 6);
    assert_int_equal(again.iterations, 30);
    assert_memory_equal(got.u, again.u, sizeof(double) * 20 * 20);
    assert_true(got.residuals[28] == again.residuals[4]);
}

static void output_is_as_asked_for(void **state)
{
    (void)state;
    assert_int_equal(start(0, "--size 16 --quiet"), 0);
    assert_int_equal(strchr(example_output("out"), '\n')[1], '\0'); /* the JSON object alone */
    static const char begin[] = "{\"example\": \"poisson_cg\", \"mesh\": [2, 2], \"ranks\": 4, \"processes\": 1, ";
    assert_int_equal(strncmp(example_output("out"), begin, strlen(begin)), 0);
    assert_string_equal(example_output("err"), "");
    assert_int_equal(example_run(0, program, "--size 16"), 0);
    assert_non_null(strstr(example_output("out"), "█"));
    assert_non_null(strstr(example_output("out"), "  error  "));
    assert_int_equal(example_run(0, program, "--size 16 --iterations 0 --tolerance 0"), 0);
}

static void too_few_iterations_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(start(0, "--size 40 --iterations 20"), 1);
    assert_non_null(strstr(example_output("err"), "not converged after 20 iterations"));
    assert_non_null(strstr(example_last_line(), "\"converged\": false"));
    assert_int_equal(start(0, "--size 40 --iterations 20 --tolerance 0"), 0);
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    example_refused(program, "--size 2", 2, "--size");
    example_refused(program, "--size 10x10", 2, "--size");
    example_refused(program, "--mesh 2", 2, "--mesh");
    example_refused(program, "--mesh 0x2", 2, "--mesh");
    example_refused(program, "--mesh 2x2x2", 2, "--mesh");
    example_refused(program, "--mesh dp=2", 2, "--mesh");
    example_refused(program, "--type f16", 2, "--type");
    example_refused(program, "--tolerance -1", 2, "--tolerance");
    example_refused(program, "--tolerance nan", 2, "--tolerance");
    example_refused(program, "--tolerance 1", 2, "--tolerance");
    example_refused(program, "--iterations -5", 2, "--iterations");
    example_refused(program, "--check 0", 2, "--check");
    example_refused(program, "--grid 4", 2, "--grid");
    example_refused(program, "16", 2, "16");
    example_refused(program, "--size 16 --save /nonexistent/u", 1, "/nonexistent/u");
#ifdef WEFT_HAVE_MPI
    assert_int_not_equal(example_run(3, program, "--mesh 2x1"), 0);
    assert_non_null(strstr(example_output("err"), "too few for 3 processes"));
#endif
    assert_int_equal(example_run(0, program, "--help"), 0);
    assert_string_equal(example_output("err"), "");
}

/* examples/README.md shows the iteration. */
static void readme_shows_the_iteration(void **state)
{
    (void)state;
    static char page[1 << 17], code[1 << 16];
    char *shown = strstr(example_file(readme, page, sizeof(page)), "static weft_status iteration(");
    assert_non_null(shown);
    char *end = strstr(shown, "```");
    assert_non_null(end);
    *end = '\0';
    assert_non_null(strstr(example_file(source, code, sizeof(code)), shown));
}

int main(int argc, char *argv[])
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s POISSON_CG examples/README.md poisson_cg.c\n", argv[0]);
        return 2;
    }
    program = argv[1];
    readme = argv[2];
    source = argv[3];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_rank),
        cmocka_unit_test(on_several_ranks),
        cmocka_unit_test(on_uneven_blocks),
        cmocka_unit_test(on_empty_blocks),
        cmocka_unit_test(in_f32),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(on_processes),
        cmocka_unit_test(spreading_changes_nothing),
#endif
        cmocka_unit_test(twice_the_same_bits),
        cmocka_unit_test(captured_iterations_are_the_same),
        cmocka_unit_test(error_is_that_of_the_grid),
        cmocka_unit_test(looks_change_nothing),
        cmocka_unit_test(output_is_as_asked_for),
        cmocka_unit_test(too_few_iterations_are_an_error),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(readme_shows_the_iteration),
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
