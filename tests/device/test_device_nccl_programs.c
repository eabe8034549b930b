/* Programs of several processes with a device each, observed from outside: char_lm has the same losses through NCCL as through
 * main memory, bit for bit; a process that is killed while others are in groups ends them, and they name it.
 *
 * Arguments: the programs char_lm and stray, linked for stand-in devices, and a text to learn. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_runs.h"

enum { STEPS = 8 };

static const char *char_lm, *stray, *text;

static void train(int processes, const char *mesh, const char *nccl, double losses[STEPS])
{
    char arguments[1024];
    setenv("WEFT_NCCL", nccl, 1);
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

static void test_killed_process_is_named(void **state)
{
    (void)state;
    launch l = { .program = stray,
                 .processes = 3,
                 .arguments = { "killed", "1", "4" },
                 .settings = { "WEFT_TIMEOUT_S=2", "WEFT_RANKS=3", "WEFT_NCCL=1" },
                 .recovers = true };
    launch_run(&l);
    for (int p = 0; p < 3; p += 2) {
        char line[4096];
        if (!launch_line(p, "ends: ", line, sizeof(line)) || strstr(line, "process 1 (rank 1) does not answer") == NULL ||
            !launch_line(p, "finalized: ", line, sizeof(line))) {
            fail_msg("process %d does not name the one that was killed:\n%s", p, launch_output);
        }
    }
    assert_null(strstr(launch_output, "result "));
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
    if (argc != 4) {
        fprintf(stderr, "usage: %s CHAR_LM STRAY TEXT\n", argv[0]);
        return 2;
    }
    char_lm = argv[1];
    stray = argv[2];
    text = argv[3];
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_char_lm_on_2),
        cmocka_unit_test(test_char_lm_on_3),
        cmocka_unit_test(test_char_lm_on_4),
        cmocka_unit_test(test_killed_process_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
