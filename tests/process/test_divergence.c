/* One process makes another call, stops answering, or is killed: the others must end with a status and a
 * message that names call, tensor and rank, and must not get a wrong result. mpirun is a child of this
 * program, whose processes' output (diverge.c) is read afterwards.
 *
 * Argument: the program diverge. */
#include "launch.h"
#include "mpirun.h"
#include "side_by_side.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NEEDLES = 4 };

typedef struct scenario {
    const char *way; /* of the last process */
    int processes;
    bool check; /* WEFT_CHECK */
    const char *status;
    /* In the message of every process that reports the error: {} stands for the last process. */
    const char *needles[MAX_NEEDLES];
    bool small;          /* messages that travel together */
    const char *setting; /* way "first" or "last": of this process, while all start */
} scenario;

static const char *program;

/* ---- running ------------------------------------------------------------------------------------------- */

static int processes; /* of the scenario that is run */

static bool all_but_last_ended(void)
{
    char line[64];
    for (int p = 0; p < processes - 1; p++) {
        if (!launch_line(p, "finalized: ", line, sizeof(line))) {
            return false;
        }
    }
    return true;
}

/* When the others are gone. */
static void wake(void)
{
    const char *stops = strstr(launch_output, "stops ");
    int pid = 0;
    if (stops != NULL && all_but_last_ended() && sscanf(stops, "stops %d", &pid) == 1 && pid > 1) {
        kill(pid, SIGCONT);
    }
}

/* mpirun leaves the others alone when one has ended with an error. Where memory is short from the beginning, a process may learn
 * only from its time-out that another gave up: later than the others end. */
static bool recovers(const scenario *s)
{
    return strncmp(s->way, "killed", strlen("killed")) == 0 || strcmp(s->way, "memory_at_once") == 0;
}

static int run(const scenario *s)
{
    processes = s->processes;
    launch l = { .program = program, .processes = s->processes };
    l.arguments[0] = s->setting != NULL ? "start" : s->way;
    l.arguments[1] = s->setting != NULL ? s->way : s->small ? "small" : NULL;
    l.arguments[2] = s->setting;
    l.settings[0] = launch_short_timeout();
    l.settings[1] = s->check ? "WEFT_CHECK=1" : "WEFT_CHECK=0";
    l.settings[2] = s->small ? "WEFT_PACK_BYTES=4096" : NULL; /* also between processes of one machine */
    l.recovers = recovers(s);
    l.look = strcmp(s->way, "woken") == 0 ? wake : NULL;
    return launch_run(&l);
}

/* ---- judging ------------------------------------------------------------------------------------------- */

static bool goes_on(const scenario *s)
{
    return strcmp(s->way, "sleeps") != 0 && strcmp(s->way, "stopped") != 0 && strcmp(s->way, "killed") != 0 &&
           strcmp(s->way, "quits") != 0;
}

/* With MPICH also messages between the others may stop: each of them then blames a process that does not answer. */
static const char *needle_of(const scenario *s, int i)
{
    bool talk = MPIRUN_SURVIVORS_TALK || strcmp(s->way, "killed") != 0 || s->processes == 2;
    return !talk && strstr(s->needles[i], "does not answer") != NULL ? "does not answer" : s->needles[i];
}

static void check_message(const scenario *s, const char *line)
{
    if (strstr(line, s->status) == NULL) {
        fail_msg("expected \"%s\" in \"%s\" of:\n%s", s->status, line, launch_output);
    }
    for (int i = 0; i < MAX_NEEDLES && s->needles[i] != NULL; i++) {
        char needle[200], *write = needle;
        for (const char *read = needle_of(s, i); *read != '\0'; read++) {
            if (read[0] == '{' && read[1] == '}') {
                write += sprintf(write, "%d", s->processes - 1);
                read++;
            } else {
                *write++ = *read;
            }
        }
        *write = '\0';
        if (strstr(line, needle) == NULL) {
            fail_msg("expected \"%s\" in \"%s\" of:\n%s", needle, line, launch_output);
        }
    }
}

static void check_process(const scenario *s, int process)
{
    char line[2048];
    if (!launch_line(process, "ends: ", line, sizeof(line))) {
        fail_msg("process %d has met no error:\n%s", process, launch_output);
    }
    /* A process with wrong arguments reports that first. */
    bool own_error =
        process == s->processes - 1 && strcmp(s->way, "fails") == 0;
    if (!own_error) {
        check_message(s, line);
    }
    if (!launch_line(process, "finalized: ", line, sizeof(line)) || strstr(line, "no error") != NULL) {
        fail_msg("process %d was not finalized with an error:\n%s", process, launch_output);
    }
}

static void test_scenario(void **state)
{
    const scenario *s = *state;
    int code = run(s);
    for (int p = 0; p < s->processes - (goes_on(s) ? 0 : 1); p++) {
        check_process(s, p);
    }
    static const char *const never[] = { "result", "handed out values", "Assertion", "Segmentation" };
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++) {
        if (strstr(launch_output, never[i]) != NULL) {
            fail_msg("\"%s\" in:\n%s", never[i], launch_output);
        }
    }
    if (!recovers(s)) { /* mpirun counts nobody's status when it recovers */
        assert_int_not_equal(code, 0);
    }
}

/* All processes end with the error, which names the odd one, and can start again. */
static void test_start(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char line[2048];
        if (!launch_line(p, "starts again", line, sizeof(line)) ||
            !launch_line(p, "ends: ", line, sizeof(line))) {
            fail_msg("process %d has met no error, or does not start without it:\n%s", p, launch_output);
        }
        check_message(s, line);
        int odd = strcmp(s->way, "first") == 0 ? 0 : s->processes - 1;
        char name[32];
        snprintf(name, sizeof(name), "process %d", odd);
        if (p != odd && strstr(strstr(line, "ends: "), name) == NULL) {
            fail_msg("\"%s\" does not name process %d", line, odd);
        }
    }
}

/* The same program without a process that goes another way. */
static void test_nothing_wrong(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 0);
    for (int p = 0; p < s->processes; p++) {
        char line[64];
        assert_true(launch_line(p, "result OK", line, sizeof(line)));
        assert_true(launch_line(p, "finalized: no error", line, sizeof(line)));
    }
    assert_null(strstr(launch_output, "ends: "));
}

/* MPI_Finalize() of the others would wait for it for ever. */
static void test_killed_late(void **state)
{
    const scenario *s = *state;
    run(s);
    char line[256], expected[64];
    snprintf(expected, sizeof(expected), "process %d has ended without MPI_Finalize()", s->processes - 1);
    for (int p = 0; p < s->processes - 1; p++) {
        assert_true(launch_line(p, "finalized: no error", line, sizeof(line)));
    }
    if (strstr(launch_output, expected) == NULL) {
        fail_msg("expected \"%s\" in:\n%s", expected, launch_output);
    }
}

#define WHO "process {} (rank {}) "
#define SILENT(text)                                                                                         \
    {                                                                                                        \
        "call ", "weft_redistribute", text, WHO "does not answer"                                            \
    }
#define BEHIND(text)                                                                                         \
    {                                                                                                        \
        "call ", "weft_redistribute", text, WHO "has not come to call "                                      \
    }
#define LARGE "f32[600, 500]"
#define SMALL "f32[60, 50]"
#define CALLS(theirs, ours)                                                                                  \
    {                                                                                                        \
        WHO "calls " theirs, " calls " ours                                                                  \
    }

#define DIFFERS "ranks differ"
#define START(processes, who, setting, status, ...)                                                          \
    {                                                                                                        \
        who, processes, false, status, { __VA_ARGS__ }, false, setting                                       \
    }

static const scenario scenarios[] = {
    { "nothing", 2, false, "", { NULL } },
    { "nothing", 3, true, "", { NULL } },
    /* Found by asking. */
    { "shape", 3, false, DIFFERS, CALLS("weft_ones(f32[600, 501]", "weft_ones(" LARGE) },
    { "leaves", 2, false, DIFFERS, CALLS("weft_to_host(", "weft_redistribute(") },
    { "layout", 3, false, DIFFERS, CALLS("weft_redistribute(", "weft_add_inplace(") },
    { "fails",
      3,
      false,
      DIFFERS,
      { WHO "calls weft_", "), which fails", "process 0 (rank 0) calls weft_add_inplace(" } },
    { "sleeps", 2, false, "timed out", BEHIND(LARGE) },
    { "stopped", 3, false, "timed out", SILENT(LARGE) },
    { "woken", 3, false, "timed out", SILENT(LARGE) },
    { "killed", 2, false, "timed out", SILENT(LARGE) },
    { "killed", 3, false, "timed out", SILENT(LARGE) },
    { "killed_late", 2, false, "", { NULL } },
    { "killed_late", 3, false, "", { NULL } },
    /* Told by the process itself. */
    { "memory", 2, false, "out of memory", { "weft_empty", "no memory for a shard" } },
    { "quits",
      2,
      false,
      "communication failed",
      { "process {} gave up: exit: ", "after call ", "weft_add" } },
    { "memory", 3, false, "out of memory", { "weft_empty", "no memory for a shard" } },
    /* While others may still be in weft_init(). */
    { "memory_at_once", 5, false, "out of memory", { "weft_empty", "no memory for a shard" } },
    /* The same where all messages are small. */
    { "nothing", 3, false, "", { NULL }, true },
    { "shape", 3, false, DIFFERS, CALLS("weft_ones(f32[60, 51]", "weft_ones(" SMALL), true },
    { "leaves", 2, false, DIFFERS, CALLS("weft_to_host(", "weft_redistribute("), true },
    { "layout", 3, false, DIFFERS, CALLS("weft_redistribute(", "weft_add_inplace("), true },
    { "stopped", 3, false, "timed out", SILENT(SMALL), true },
    { "woken", 3, false, "timed out", SILENT(SMALL), true },
    { "killed", 2, false, "timed out", SILENT(SMALL), true },
    /* Found by comparing the calls. */
    { "operation",
      2,
      true,
      "ranks differ",
      { "process 0 (rank 0) calls weft_add_inplace(f32[600, 500] [S0] on 2, ",
        "process 1 (rank 1) calls weft_mul(" } },
    { "operation",
      3,
      true,
      "ranks differ",
      { "call 14: process 0 (rank 0) calls weft_add_inplace(", "process 2 (rank 2)" } },
    { "shape",
      3,
      true,
      "ranks differ",
      { "calls weft_ones(f32[600, 500]", "calls weft_ones(f32[600, 501]" } },
    { "scalar",
      2,
      true,
      "ranks differ",
      { "calls weft_add_inplace(", "process 1 (rank 1) calls weft_add_inplace(" } },
    { "layout",
      3,
      true,
      "ranks differ",
      { "calls weft_add_inplace(", "calls weft_redistribute(f32[600, 500] [S0] on 3, " } },
    { "leaves",
      3,
      true,
      "ranks differ",
      { "calls weft_redistribute(", "process {} (rank {}) calls weft_to_host(" } },
    { "registers_types", 2, true, "ranks differ", { "calls weft_operation_register(\"own\", " } },
    { "registers_linear", 2, true, "ranks differ", { "calls weft_operation_register(\"own\", " } },
    { "registers_in_place", 2, true, "ranks differ", { "calls weft_operation_register(\"own\", " } },
    /* Texts are shown as they are. */
    { "saves_path",
      2,
      true,
      DIFFERS,
      { "calls weft_checkpoint_save(\"/nowhere/first\", \"w\", f32", "calls weft_checkpoint_save(\"/nowhere/other\", \"w\", f32" } , NULL},
    { "saves_name",
      3,
      true,
      DIFFERS,
      { "calls weft_checkpoint_save(\"/nowhere/first\", \"w\"", "calls weft_checkpoint_save(\"/nowhere/first\", \"other\"" } },
    { "saves_path",
      2,
      false,
      DIFFERS,
      { "calls weft_checkpoint_save(\"/nowhere/first\"", "calls weft_checkpoint_save(\"/nowhere/other\"" } },
    { "fails",
      2,
      true,
      "ranks differ",
      { "calls weft_add_inplace(f32", "which fails", "weft_add_inplace: b is NULL" } },
    { "sleeps", 3, true, "timed out", { WHO "has not come to call ", LARGE } },
    /* It has stopped before it was asked where it is, and does not answer, or is behind, and has not come to the call. */
    { "woken", 2, true, "timed out", { WHO, LARGE } },
    { "killed", 3, true, "timed out", { WHO "does not answer", LARGE } },
    /* A process that cannot start, in a program that owns MPI. */
    START(3, "last", "WEFT_PANEL_ROWS=abc", "invalid", "WEFT_PANEL_ROWS is \"abc\"", "weft_init_mpi"),
    START(3, "first", "WEFT_PANEL_ROWS=abc", "invalid", "WEFT_PANEL_ROWS is \"abc\"", "weft_init_mpi"),
    START(2, "last", "WEFT_WORLD=moon", "invalid", "WEFT_WORLD is \"moon\"", "weft_init_mpi"),
    START(2, "last", "WEFT_TIMEOUT_S=soon", "invalid", "WEFT_TIMEOUT_S is \"soon\"", "weft_init_mpi"),
    START(3, "last", "STARPU_NCPU=0", "not supported", "StarPU does not start", "weft_init_mpi"),
    START(2, "first", "STARPU_NCPU=0", "not supported", "StarPU does not start", "weft_init_mpi"),
    /* A process whose later calls would differ. */
    START(3, "last", "WEFT_PLAN=chain", DIFFERS, "WEFT_PLAN is auto on process 0", "chain on process 2"),
    START(2, "first", "WEFT_PLAN=chain", DIFFERS, "WEFT_PLAN is chain on process 0", "auto on process 1"),
    START(2, "last", "WEFT_SEED=77", DIFFERS, "WEFT_SEED) is 0 on process 0", "77 on process 1"),
    START(3, "last", "WEFT_RANKS=5", DIFFERS, "number of ranks", "3 on process 0 and 5 on process 2"),
    START(2, "last", "WEFT_PANEL_ROWS=64", DIFFERS, "WEFT_PANEL_ROWS is not set", "64 on process 1"),
    START(2, "last", "WEFT_PANEL_BYTES=64", DIFFERS, "WEFT_PANEL_BYTES is not set", "64 on process 1"),
    START(2, "last", "WEFT_TF32=1", DIFFERS, "WEFT_TF32 is 0 on process 0", "1 on process 1"),
    START(2, "last", "WEFT_BITS=cpu", DIFFERS, "WEFT_BITS is fast on process 0", "cpu on process 1"),
    START(2, "last", "WEFT_CHECK=1", DIFFERS, "WEFT_CHECK is 0 on process 0", "1 on process 1"),
};
#undef START

int main(int argc, char *argv[])
{
    enum { COUNT = sizeof(scenarios) / sizeof(*scenarios) };
    static struct CMUnitTest tests[COUNT];
    static char names[COUNT][64];
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s DIVERGE [WAY]\n", argv[0]);
        return 2;
    }
    program = argv[1];
    int count = 0;
    for (int k = 0; k < COUNT; k++) {
        const scenario *s = &scenarios[k];
        if (argc == 3 && strcmp(argv[2], s->way) != 0) {
            continue;
        }
        int i = count++;
        snprintf(names[i], sizeof(names[i]), "%s_on_%d_processes%s%s%s%s", s->way, s->processes,
                 s->check ? "_with_check" : "", s->small ? "_small" : "",
                 s->setting != NULL ? "_starts_" : "", s->setting != NULL ? s->setting : "");
        bool whole = strcmp(s->way, "nothing") == 0, late = strcmp(s->way, "killed_late") == 0;
        tests[i] = (struct CMUnitTest){ .name = names[i],
                                        .test_func = s->setting != NULL ? test_start
                                                     : whole            ? test_nothing_wrong
                                                     : late             ? test_killed_late
                                                                        : test_scenario,
                                        .initial_state = (void *)(uintptr_t)s };
    }
    return run_side_by_side(tests, count, launch_setup, launch_teardown);
}
