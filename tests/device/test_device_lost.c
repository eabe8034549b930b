/* A device is lost: the process says so and ends, and the others name it. No hang, whether nothing follows, or calls on which
 * StarPU calls abort(). Argument: lost_program. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *program;

/* The device of a process, and what CUDA says when a kernel has ended it: the stand-in's devices die otherwise. */
#ifdef WEFT_TEST_GPU
static const bool one_device = true;
static const char died[] = "is lost: cudaErrorLaunchFailure; its last kernels: ";
#else
static const bool one_device = false;
static const char died[] = "is lost: cudaErrorIllegalAddress; its last kernels: ";
#endif

/* Process `who` of so many loses its device. `setting`: of all processes; NULL: none. Returns the text that names the device. */
static const char *run(int processes, const char *who, const char *way, const char *after, const char *setting)
{
    launch l = { .program = program,
                 .processes = processes,
                 .arguments = { who, way, after },
                 .settings = { processes == 1 ? "WEFT_WORLD=self" : "WEFT_RANKS=2", "WEFT_TIMEOUT_S=60", setting } };
    static char lost[64];
    int code = launch_run(&l);
    snprintf(lost, sizeof(lost), "device %s of process %s on ", one_device ? "0" : who, who);
    const char *found = strstr(launch_output, lost);
    if (code == 0 || found == NULL || strstr(found, strcmp(way, "killed") == 0 ? died : "is lost: cudaErrorIllegalAddress; its last kernels: ") == NULL) {
        fail_msg("exit status %d, and the device is not named:\n%s", code, launch_output);
    }
    return lost;
}

static void lose(int processes, const char *who, const char *way, const char *after)
{
    char gave_up[128], line[4096];
    const char *lost = run(processes, who, way, after, NULL), *found = strstr(launch_output, lost);
    snprintf(gave_up, sizeof(gave_up), "process %s gave up: device: %s", who, lost);
    if (strcmp(after, "0") == 0 && strstr(found, "loses of loses()") == NULL) {
        fail_msg("the kernel is not named:\n%s", launch_output);
    }
    for (int p = 0; p < processes; p++) {
        bool ends = launch_line(p, "ends: ", line, sizeof(line));
        bool loses = p == who[0] - '0';
        if (loses ? ends && strstr(line, "is lost") == NULL : !ends || strstr(line, gave_up) == NULL) {
            fail_msg("process %d does not name the lost device:\n%s", p, launch_output);
        }
    }
}

static void test_alone_illegal_address(void **state)
{
    (void)state;
    lose(1, "0", "illegal", "0");
}

static void test_alone_calls_follow(void **state)
{
    (void)state;
    lose(1, "0", "illegal", "200");
}

static void test_alone_devices_die(void **state)
{
    (void)state;
    lose(1, "0", "killed", "0");
}

static void test_others_name_it(void **state)
{
    (void)state;
    lose(2, "1", "illegal", "0");
}

static void test_others_name_it_when_calls_follow(void **state)
{
    (void)state;
    lose(2, "1", "killed", "200");
}

/* The library calls abort() at the first error on each process, here on the thread that has noticed the loss. */
static void test_others_abort_at_errors(void **state)
{
    (void)state;
    const char *lost = run(2, "1", "illegal", "0", "WEFT_ON_ERROR=abort");
    char gave_up[128];
    snprintf(gave_up, sizeof(gave_up), "process 1 gave up: device: %s", lost);
    if (strstr(launch_output, gave_up) == NULL) {
        fail_msg("process 0 does not name the lost device:\n%s", launch_output);
    }
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s LOST_PROGRAM\n", argv[0]);
        return 2;
    }
    program = argv[1];
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_illegal_address),
        cmocka_unit_test(test_alone_calls_follow),
        cmocka_unit_test(test_alone_devices_die),
        cmocka_unit_test(test_others_name_it),
        cmocka_unit_test(test_others_name_it_when_calls_follow),
        cmocka_unit_test(test_others_abort_at_errors),
    };
    return cmocka_run_group_tests(tests, launch_setup, launch_teardown);
}
