/* A process that is told to end by a signal: all processes get an error that names it and the signal, and it ends, by itself or
 * by the signal.
 *
 * Argument: the program signals-program. */
#include "launch.h"
#include "mpirun.h"
#include "side_by_side.h"

#include <stdio.h>
#include <string.h>

static const char *program;

static int run(const char *way, int processes, const char *setting)
{
    launch l = { .program = program, .processes = processes, .arguments = { way }, .settings = { "WEFT_TIMEOUT_S=60", setting },
                 .recovers = true };
    return launch_run(&l);
}

/* The line of a process that has got an error. */
static void assert_told(int process, const char *part)
{
    char line[1024];
    if (!launch_line(process, "ends: ", line, sizeof(line)) || strstr(line, part) == NULL) {
        fail_msg("process %d does not say \"%s\":\n%s", process, part, launch_output);
    }
}

static void assert_well(int processes)
{
    char line[64];
    for (int p = 0; p < processes; p++) {
        if (!launch_line(p, "OK", line, sizeof(line))) {
            fail_msg("process %d has not ended well:\n%s", p, launch_output);
        }
    }
}

static void test_all_are_told(void **state)
{
    (void)state;
    assert_int_equal(run("ends", 2, NULL), 0);
    assert_told(1, "signal: SIGTERM told process 1 on ");
    assert_told(0, "process 1 gave up: signal: SIGTERM told process 1 on ");
    assert_told(0, " to end, after call ");
    assert_int_equal(run("ends", 3, NULL), 0);
    assert_told(0, "SIGTERM told process 2 on ");
    assert_told(1, "SIGTERM told process 2 on ");
    assert_told(2, "SIGTERM told process 2 on ");
}

/* While others wait for messages, and one makes no calls. */
static void test_waits_end(void **state)
{
    (void)state;
    assert_int_equal(run("inside", 3, NULL), 0);
    assert_told(0, "SIGTERM told process 2 on ");
    assert_told(1, "SIGTERM told process 2 on ");
    assert_told(2, "SIGTERM told process 2 on ");
}

/* The program does nothing about it: the signal ends it, as it would have without weft. */
static void test_ends_all_the_same(void **state)
{
    (void)state;
    assert_int_not_equal(run("sits", 2, NULL), 3);
    assert_told(0, "SIGTERM told process 1 on ");
    char line[64];
    assert_false(launch_line(1, "ends", line, sizeof(line)) || launch_line(1, "OK", line, sizeof(line)));
}

static void test_child_is_not_spared(void **state)
{
    (void)state;
    assert_int_equal(run("child", 2, NULL), 0);
    assert_well(2);
}

static void test_own_handlers_stay(void **state)
{
    (void)state;
    assert_int_equal(run("own", 2, NULL), 0);
    assert_well(2);
}

/* The default: nobody is told, and process 0 sees that process 1 is gone. */
static void test_can_be_left_out(void **state)
{
    (void)state;
    launch l = { .program = program, .processes = 2, .arguments = { "sits" },
                 .settings = { "WEFT_SIGNALS=0", "WEFT_TIMEOUT_S=1" }, .recovers = true };
    assert_int_not_equal(launch_run(&l), 3);
    assert_null(strstr(launch_output, "SIGTERM told process"));
}

static void check_vanished(const char *way, bool recovers)
{
    launch l = { .program = program, .processes = 3, .arguments = { way }, .recovers = recovers,
                 /* mpirun's patience between SIGTERM and SIGKILL: a busy machine needs more than a second */
                 .settings = { "WEFT_TIMEOUT_S=1800", "OMPI_MCA_odls_base_sigkill_timeout=20" } };
    launch_run(&l);
    for (int p = 0; p < 2; p++) {
        assert_told(p, "process 2 (");
        assert_told(p, "has ended");
    }
}

/* Those that wait for the process that has vanished name it, long before the time-out. */
static void test_vanished_is_named(void **state)
{
    (void)state;
    check_vanished("vanishes", true);
}

/* mpirun ends the others, by SIGTERM: they name the one that ended first. */
static void test_vanished_is_named_before_the_signal(void **state)
{
    (void)state;
    if (!MPIRUN_SURVIVORS_TALK) {
        skip(); /* MPICH's mpirun kills the others at once */
    }
    check_vanished("idle", false);
    assert_told(0, "SIGTERM told process ");
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s SIGNALS-PROGRAM\n", argv[0]);
        return 2;
    }
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_told),
        cmocka_unit_test(test_waits_end),
        cmocka_unit_test(test_ends_all_the_same),
        cmocka_unit_test(test_child_is_not_spared),
        cmocka_unit_test(test_own_handlers_stay),
        cmocka_unit_test(test_can_be_left_out),
        cmocka_unit_test(test_vanished_is_named),
        cmocka_unit_test(test_vanished_is_named_before_the_signal),
    };
    return run_side_by_side(tests, sizeof(tests) / sizeof(*tests), launch_setup, launch_teardown);
}
