/* Processes that never call weft_init(), or are killed or stopped inside, at any point: the others must
 * end with a status and a message, after the time-out. Observed from outside, as in test_divergence.c.
 *
 * Argument: the program missing. */
#include "folder.h"
#include "launch.h"
#include "side_by_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { TIMEOUT_S = 2, LEAVE_WITHIN_S = 15 };

/* In all calls of MPI's functions that a start makes. */
enum { OPENING_CALLS = 4, PARTS = 6 };

typedef struct scenario {
    const char *owner, *who, *way;
    int processes;
    /* 0: before weft_init(); n: in the n-th call of MPI's; -k: after k of PARTS of all the calls. */
    int point;
} scenario;

static const char *program;
static int num_waiting;   /* of the scenario that is run */
static double reported_s; /* when all of them had told how they end; 0: not yet */
static char models[] = "/tmp/weft-missing-XXXXXX";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void look(void)
{
    int count = 0;
    for (const char *at = launch_output; (at = strstr(at, " waited ")) != NULL; at++) {
        count++;
    }
    reported_s = count >= num_waiting && reported_s == 0 ? now() : reported_s;
}

static void run(const scenario *s, const char *point)
{
    num_waiting = s->processes - 1;
    reported_s = 0;
    char folder[64];
    snprintf(folder, sizeof(folder), "STARPU_PERF_MODEL_DIR=%s", models);
    launch l = { .program = program,
                 .processes = s->processes,
                 .arguments = { s->owner, s->who, s->way, point },
                 .settings = { "WEFT_TIMEOUT_S=2", "WEFT_CALIBRATE=again", folder },
                 .look = look,
                 .recovers = strcmp(s->way, "killed") == 0 };
    launch_run(&l);
}

/* Number of calls of MPI functions by that process in a complete start. */
static int count_calls(const scenario *s, int process)
{
    scenario whole = *s;
    whole.who = "none";
    whole.way = "goes";
    run(&whole, "0");
    char line[128];
    int calls = 0;
    if (!launch_line(process, "calls ", line, sizeof(line)) ||
        sscanf(strstr(line, "calls "), "calls %d", &calls) != 1) {
        fail_msg("process %d does not start:\n%s", process, launch_output);
    }
    return calls;
}

/* Messages of the others. Once the transport is open they name the absent process. */
static void check_others(const scenario *s, int missing, bool named)
{
    char name[32], line[2048];
    snprintf(name, sizeof(name), "process %d", missing);
    for (int p = 0; p < s->processes; p++) {
        double waited = 0;
        if (p == missing) {
            continue;
        }
        if (!launch_line(p, "ends: ", line, sizeof(line))) {
            fail_msg("process %d does not end:\n%s", p, launch_output);
        }
        const char *message = strstr(line, "ends: ");
        if (strstr(message, "timed out") == NULL || strstr(message, named ? name : "weft_init") == NULL) {
            fail_msg("\"%s\" is no time-out that names %s:\n%s", line, named ? name : "weft_init()",
                     launch_output);
        }
        if (!launch_line(p, "waited ", line, sizeof(line)) ||
            sscanf(strstr(line, "waited "), "waited %lf", &waited) != 1) {
            fail_msg("process %d does not say how long it waited:\n%s", p, launch_output);
        }
        print_message("# process %d has waited for %.1f s, of which %d are the time-out\n", p, waited,
                      TIMEOUT_S);
    }
}

/* Where weft ends MPI, processes that have met a time-out wait a few seconds for each other at their exit. */
static void check_end(const scenario *s)
{
    double took_s = reported_s == 0 ? 0 : now() - reported_s;
    if (strcmp(s->owner, "weft") == 0 && took_s > LEAVE_WITHIN_S) {
        fail_msg("the others have left %.1f s after their errors only:\n%s", took_s, launch_output);
    }
}

static void test_scenario(void **state)
{
    const scenario *s = *state;
    int missing = strcmp(s->who, "first") == 0 ? 0 : s->processes - 1;
    int at = s->point >= 0 ? s->point : count_calls(s, missing) * -s->point / PARTS;
    char point[16] = "before";
    if (at > 0) {
        snprintf(point, sizeof(point), "%d", at);
    }
    run(s, point);
    check_end(s);
    check_others(s, missing, at > OPENING_CALLS);
}

/* MPI_Init_thread() waits, and weft says so. The process that did not come ends after a while, and mpirun
 * ends the others. */
static void test_before_mpi(void **state)
{
    (void)state;
    const scenario s = { "weft", "last", "comes_late", 2, 0 };
    run(&s, "before");
    if (strstr(launch_output, "weft: weft_init: MPI_Init_thread() has not ended within 2.0 s") == NULL) {
        fail_msg("nobody says that MPI waits:\n%s", launch_output);
    }
}

/* The nodes found by the opening, as MPI_Comm_split_type() would find them. */
static void test_places(void **state)
{
    (void)state;
    const scenario s = { "program", "none", "goes", 3, 0 };
    run(&s, "0");
    for (int p = 0; p < 3; p++) {
        char line[128], expected[64];
        snprintf(expected, sizeof(expected), "places 0 %d of 3", p);
        if (!launch_line(p, expected, line, sizeof(line)) ||
            !launch_line(p, "machines 1", line, sizeof(line)) ||
            !launch_line(p, "ends: no error", line, sizeof(line))) {
            fail_msg("process %d, \"%s\":\n%s", p, expected, launch_output);
        }
    }
}

static const scenario scenarios[] = {
    /* Instead of weft_init(). */
    { "program", "last", "sleeps", 2, 0 },
    { "program", "first", "sleeps", 3, 0 },
    { "program", "last", "stopped", 3, 0 },
    { "program", "first", "exits", 2, 0 },
    /* While the transport opens. */
    { "program", "last", "killed", 2, 1 },
    { "weft", "last", "stopped", 3, 2 },
    { "weft", "last", "killed", 3, 3 },
    { "program", "first", "killed", 3, 4 },
    /* In the agreement. */
    { "program", "last", "killed", 3, 5 },
    { "weft", "first", "killed", 3, 5 },
    { "program", "first", "stopped", 3, 7 },
    { "weft", "last", "stopped", 3, 6 },
    /* While the machines are measured. */
    { "weft", "last", "killed", 2, -1 },
    { "weft", "first", "stopped", 3, -2 },
    { "program", "first", "killed", 3, -4 },
    { "weft", "last", "stopped", 2, -5 },
};

static int make_folder(void **state)
{
    return mkdtemp(models) == NULL || launch_setup(state) != 0;
}

static int remove_folder(void **state)
{
    remove_tree(models);
    return launch_teardown(state);
}

int main(int argc, char *argv[])
{
    enum { COUNT = sizeof(scenarios) / sizeof(*scenarios), OTHERS = 2 };
    static struct CMUnitTest tests[COUNT + OTHERS] = { cmocka_unit_test(test_before_mpi),
                                                       cmocka_unit_test(test_places) };
    static char names[COUNT][80];
    if (argc != 2) {
        fprintf(stderr, "usage: %s MISSING\n", argv[0]);
        return 2;
    }
    program = argv[1];
    for (int i = 0; i < COUNT; i++) {
        const scenario *s = &scenarios[i];
        char point[40] = "before";
        if (s->point != 0) {
            snprintf(point, sizeof(point), s->point > 0 ? "in_call_%d" : "after_%d_sixths", abs(s->point));
        }
        snprintf(names[i], sizeof(names[i]), "%s_of_%d_%s_%s_mpi_of_%s", s->who, s->processes, s->way, point,
                 s->owner);
        tests[OTHERS + i] = (struct CMUnitTest){ .name = names[i],
                                                 .test_func = test_scenario,
                                                 .initial_state = (void *)(uintptr_t)s };
    }
    return run_side_by_side(tests, COUNT + OTHERS, make_folder, remove_folder);
}
