/* The example programs: char_lm has the same losses on every mesh and number of processes, and minimal and
 * custom_op print the same.
 *
 * Arguments: the programs char_lm and minimal, a text to learn, README.md, minimal.c, and the program
 * custom_op. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "example_runs.h"

enum { STEPS = 30 };

static const char *char_lm, *minimal, *text, *readme, *minimal_source, *custom_op;

/* A small model of odd sizes, so that no mesh divides it evenly. `processes` 0: without mpirun. */
static void train(int processes, const char *mesh, const char *more, double losses[STEPS])
{
    char arguments[1024];
    const char *path = example_path("curve");
    remove(path);
    snprintf(
        arguments, sizeof(arguments),
        "--mesh %s --steps %d --batch 13 --hidden 27 --embed 6 --sample 5 --text '%s' --curve %s --json %s",
        mesh, STEPS, text, path, more);
    int code = example_run(processes, char_lm, arguments);
    if (code != 0) {
        fail_msg("char_lm %s on %d processes gave %d: %s", arguments, processes, code, example_output("err"));
    }
    example_curve("curve", STEPS, losses);
}

static void assert_near(const char *what, const double a[STEPS], const double b[STEPS], double tolerance)
{
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(a[i] - b[i]) <= tolerance * fabs(b[i]))) {
            fail_msg("%s: the loss of step %d is %.9g, and %.9g on one rank", what, i, a[i], b[i]);
        }
    }
}

static void compare_with_one_rank(int processes, const char *mesh, const char *more, double tolerance)
{
    double one[STEPS], many[STEPS], again[STEPS];
    train(0, "1x1", more, one);
    train(processes, mesh, more, many);
    assert_near(mesh, many, one, tolerance);
    train(processes, mesh, more, again);
    assert_memory_equal(many, again, sizeof(many));
    assert_true(one[STEPS - 1] < one[0]); /* it learns */
}

static void curve_1x4(void **state)
{
    (void)state;
    compare_with_one_rank(0, "1x4", "", 1e-4);
}

static void curve_4x1(void **state)
{
    (void)state;
    compare_with_one_rank(0, "4x1", "", 1e-4);
}

static void curve_2x2(void **state)
{
    (void)state;
    compare_with_one_rank(0, "2x2", "", 1e-4);
}

static void curve_2x2_in_f64(void **state)
{
    (void)state;
    compare_with_one_rank(0, "2x2", "--dtype f64", 1e-9);
}

#ifdef WEFT_HAVE_MPI
static void curve_2x2_on_1_process(void **state)
{
    (void)state;
    compare_with_one_rank(1, "2x2", "", 1e-4);
}

static void curve_2x2_on_2_processes(void **state)
{
    (void)state;
    compare_with_one_rank(2, "2x2", "", 1e-4);
}

static void curve_2x2_on_4_processes(void **state)
{
    (void)state;
    compare_with_one_rank(4, "2x2", "", 1e-4);
}

static void curve_3x1_on_3_processes(void **state)
{
    (void)state;
    compare_with_one_rank(3, "3x1", "", 1e-4);
}

/* The number of processes changes no bit: the order of sums is the same. */
static void spreading_changes_nothing(void **state)
{
    (void)state;
    double together[STEPS], apart[STEPS];
    train(0, "2x2", "", together);
    for (int processes = 2; processes <= 4; processes++) {
        train(processes, "2x2", "", apart);
        assert_memory_equal(together, apart, sizeof(together));
    }
}
#endif

static void captured_steps_are_the_same(void **state)
{
    (void)state;
    double eager[STEPS], captured[STEPS];
    train(0, "2x2", "", eager);
    train(0, "2x2", "--graph", captured);
    assert_memory_equal(eager, captured, sizeof(eager));
#ifdef WEFT_HAVE_MPI
    train(3, "2x2", "--graph", captured);
    assert_memory_equal(eager, captured, sizeof(eager));
#endif
}

/* Other batches for another seed. */
static void seed_matters(void **state)
{
    (void)state;
    double a[STEPS], b[STEPS];
    train(0, "2x1", "--seed 1", a);
    train(0, "2x1", "--seed 2", b);
    assert_memory_not_equal(a, b, sizeof(a));
}

static void last_line_is_json(void **state)
{
    (void)state;
    double losses[STEPS];
    train(0, "2x2", "", losses);
    char *line = example_last_line();
    int ranks = 0, processes = 0, steps = 0;
    double first = 0;
    assert_int_equal(sscanf(line,
                            "{\"example\": \"char_lm\", \"mesh\": [2, 2], \"ranks\": %d, \"processes\": %d, "
                            "\"steps\": %d, \"loss_first\": %lf",
                            &ranks, &processes, &steps, &first),
                     4);
    assert_int_equal(ranks, 4);
    assert_int_equal(processes, 1);
    assert_int_equal(steps, STEPS);
    assert_true(fabs(first - losses[0]) < 1e-4);
    assert_true(fabs(first - log(96)) <
                0.5); /* before it has learned anything, one symbol of 96 is as good as another */
    assert_string_equal(strchr(line, '}'), "}\n");
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    assert_int_equal(example_run(0, char_lm, "--steps 2 --text /nonexistent/text"), 1);
    assert_non_null(strstr(example_output("err"), "/nonexistent/text"));
    assert_int_equal(example_run(0, char_lm, "--mesh 2x2x2"), 2);
    assert_non_null(strstr(example_output("err"), "--mesh"));
    assert_int_equal(example_run(0, char_lm, "--lr fast"), 2);
    assert_non_null(strstr(example_output("err"), "--lr"));
    assert_int_equal(example_run(0, char_lm, "--help"), 0);
    assert_string_equal(example_output("err"), "");
}

static void minimal_prints_the_same(void **state)
{
    (void)state;
    static char alone[1 << 16];
    assert_int_equal(example_run(0, minimal, ""), 0);
    strcpy(alone, example_output("out"));
    assert_non_null(strstr(alone, "f64"));
#ifdef WEFT_HAVE_MPI
    for (int processes = 1; processes <= 4; processes++) {
        assert_int_equal(example_run(processes, minimal, ""), 0);
        assert_string_equal(example_output("out"), alone);
    }
#endif
}

static void custom_op_prints_the_same(void **state)
{
    (void)state;
    static char alone[1 << 16];
    static const char *const ranks[] = { "2", "3", "4" };
    assert_int_equal(example_run(0, custom_op, "30"), 0);
    strcpy(alone, example_output("out"));
    assert_non_null(strstr(alone, "after 30 steps"));
    for (int i = 0; i < 3; i++) {
        setenv("WEFT_RANKS", ranks[i], 1);
        assert_int_equal(example_run(0, custom_op, "30"), 0);
        assert_string_equal(example_output("out"), alone);
    }
    unsetenv("WEFT_RANKS");
#ifdef WEFT_HAVE_MPI
    for (int processes = 1; processes <= 4; processes *= 2) {
        assert_int_equal(example_run(processes, custom_op, "30"), 0);
        assert_string_equal(example_output("out"), alone);
    }
#endif
}

static void readme_shows_minimal(void **state)
{
    (void)state;
    static char page[1 << 17], source[1 << 14];
    example_file(readme, page, sizeof(page));
    assert_non_null(strstr(page, example_file(minimal_source, source, sizeof(source))));
}

int main(int argc, char *argv[])
{
    if (argc != 7) {
        fprintf(stderr, "usage: %s CHAR_LM MINIMAL TEXT README.md minimal.c CUSTOM_OP\n", argv[0]);
        return 2;
    }
    char_lm = argv[1];
    minimal = argv[2];
    text = argv[3];
    readme = argv[4];
    minimal_source = argv[5];
    custom_op = argv[6];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_1x4),
        cmocka_unit_test(curve_4x1),
        cmocka_unit_test(curve_2x2),
        cmocka_unit_test(curve_2x2_in_f64),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(curve_2x2_on_1_process),
        cmocka_unit_test(curve_2x2_on_2_processes),
        cmocka_unit_test(curve_2x2_on_4_processes),
        cmocka_unit_test(curve_3x1_on_3_processes),
        cmocka_unit_test(spreading_changes_nothing),
#endif
        cmocka_unit_test(captured_steps_are_the_same),
        cmocka_unit_test(seed_matters),
        cmocka_unit_test(last_line_is_json),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(minimal_prints_the_same),
        cmocka_unit_test(custom_op_prints_the_same),
        cmocka_unit_test(readme_shows_minimal),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
