/* Programs of several processes, observed from outside. With a device each char_lm has the same losses through NCCL as through
 * main memory, bit for bit; where some have none, those of CPUs but for rounding. A process that is killed while others are in
 * groups ends them, and they name it.
 *
 * Arguments: the programs char_lm, stray and bench/gpu_nccl.c, linked for stand-in devices, and a text to learn. */
#include "launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_runs.h"

enum { STEPS = 8 };

static const char *char_lm, *stray, *bench, *text;

static void train(int processes, const char *mesh, const char *nccl, double losses[STEPS])
{
    char arguments[1024];
    if (nccl == NULL) {
        unsetenv("WEFT_NCCL");
    } else {
        setenv("WEFT_NCCL", nccl, 1);
    }
    setenv("STAND_IN_TELL", "1", 1);
    snprintf(arguments, sizeof(arguments),
             "--mesh %s --steps %d --batch 13 --hidden 27 --embed 6 --sample 5 --text '%s' --curve %s --json", mesh, STEPS,
             text, example_path("curve"));
    int code = example_run(processes, char_lm, arguments);
    if (code != 0) {
        fail_msg("char_lm %s on %d processes gave %d: %s", arguments, processes, code, example_output("err"));
    }
    example_curve("curve", STEPS, losses);
}

static void compare(int processes, const char *mesh)
{
    double through_nccl[STEPS], through_main_memory[STEPS];
    train(processes, mesh, "1", through_nccl);
    train(processes, mesh, "0", through_main_memory);
    assert_memory_equal(through_nccl, through_main_memory, sizeof(through_nccl));
    assert_true(through_nccl[STEPS - 1] < through_nccl[0]); /* it learns */
}

static void test_char_lm_on_2(void **state)
{
    (void)state;
    compare(2, "1x2");
}

static void test_char_lm_on_3(void **state)
{
    (void)state;
    compare(3, "3x1");
}

static void test_char_lm_on_4(void **state)
{
    (void)state;
    compare(4, "2x2");
}

/* Products on a device differ from a CPU's by rounding; the rest of the way is the same. */
static void compare_mixed(int processes, const char *mesh)
{
    double mixed[STEPS], on_cpus[STEPS];
    char devices[16];
    snprintf(devices, sizeof(devices), "%s", getenv("WEFT_TEST_DEVICES") == NULL ? "101" : getenv("WEFT_TEST_DEVICES"));
    setenv("WEFT_TEST_DEVICES", devices, 1);
    train(processes, mesh, NULL, mixed);
    setenv("WEFT_TEST_DEVICES", "000", 1);
    train(processes, mesh, NULL, on_cpus);
    setenv("WEFT_TEST_DEVICES", devices, 1);
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(mixed[i] - on_cpus[i]) <= 1e-5 * on_cpus[i])) {
            fail_msg("step %d: loss %.9g, on CPUs %.9g", i, mixed[i], on_cpus[i]);
        }
    }
}

static void test_char_lm_mixed_on_2(void **state)
{
    (void)state;
    compare_mixed(2, "1x2");
}

static void test_char_lm_mixed_on_3(void **state)
{
    (void)state;
    compare_mixed(3, "3x1");
}

/* Its figures mean nothing here; it runs to its end, and has measured all four. */
static void test_bench_measures_all(void **state)
{
    (void)state;
    static const char *const cases[] = { "all_gather", "reduce_scatter", "all_reduce", "all_to_all" };
    if (example_run(2, bench, "64") != 0) {
        fail_msg("%s", example_output("err"));
    }
    for (int i = 0; i < 4; i++) {
        char begin[64];
        snprintf(begin, sizeof(begin), "{\"bench\": \"gpu-nccl\", \"case\": \"%s\", \"processes\": 2", cases[i]);
        assert_non_null(strstr(example_output("out"), begin));
    }
}

/* Process 1 is. */
static void kill_one_of(int processes)
{
    char ranks[32];
    snprintf(ranks, sizeof(ranks), "WEFT_RANKS=%d", processes);
    launch l = { .program = stray,
                 .processes = processes,
                 .arguments = { "killed", "1", "4" },
                 .settings = { launch_short_timeout(), ranks, "WEFT_NCCL=1" },
                 .recovers = true };
    launch_run(&l);
    for (int p = 0; p < processes; p += p == 0 ? 2 : 1) {
        char line[4096];
        if (!launch_line(p, "ends: ", line, sizeof(line)) || strstr(line, "process 1 (rank 1) does not answer") == NULL ||
            !launch_line(p, "finalized: ", line, sizeof(line))) {
            fail_msg("process %d does not name the one that was killed:\n%s", p, launch_output);
        }
    }
    assert_null(strstr(launch_output, "result "));
}

static void test_killed_process_is_named_on_2(void **state)
{
    (void)state;
    kill_one_of(2);
}

static void test_killed_process_is_named_on_3(void **state)
{
    (void)state;
    kill_one_of(3);
}

static void test_killed_process_is_named_on_4(void **state)
{
    (void)state;
    kill_one_of(4);
}

static int set_up(void **state)
{
    return example_folder_make(state) != 0 || launch_setup(state) != 0;
}

static int tear_down(void **state)
{
    int failed = launch_teardown(state);
    return example_folder_remove(state) != 0 || failed != 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s CHAR_LM STRAY BENCH TEXT\n", argv[0]);
        return 2;
    }
    char_lm = argv[1];
    stray = argv[2];
    bench = argv[3];
    text = argv[4];
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_char_lm_on_2),
        cmocka_unit_test(test_char_lm_on_3),
        cmocka_unit_test(test_char_lm_on_4),
        cmocka_unit_test(test_char_lm_mixed_on_2),
        cmocka_unit_test(test_char_lm_mixed_on_3),
        cmocka_unit_test(test_bench_measures_all),
        cmocka_unit_test(test_killed_process_is_named_on_2),
        cmocka_unit_test(test_killed_process_is_named_on_3),
        cmocka_unit_test(test_killed_process_is_named_on_4),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
