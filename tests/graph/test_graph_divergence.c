/* Processes capture the same graphs, or all fail. One process passes another shape to a captured
 * graph, takes another branch, has other passes, calls it once less, keeps a tensor that the others do not, or dies in it: all others end with a status and a message that names it.
 *
 * Arguments: the program diverge_graph, and the ways that one process goes. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scenario {
    const char *way; /* of the last process */
    int processes;
    const char *word; /* in the message of each process */
    bool lives;       /* another call of the graph succeeds */
    bool silent;      /* the process has ended, or has made no call that differs: the others may wait until the time-out */
} scenario;

static const char *program;

static int run(const scenario *s)
{
    launch l = { .program = program, .processes = s->processes, .arguments = { s->way }, 
                 .settings = { s->silent ? launch_short_timeout() : "WEFT_TIMEOUT_S=100" } };
    l.recovers = strcmp(s->way, "dies") == 0;
    return launch_run(&l);
}

static void test_f5_all_fail(void **state)
{
    const scenario *s = *state;
    bool dies = strcmp(s->way, "dies") == 0;
    char named[64], line[2048];
    snprintf(named, sizeof(named), "process %d", s->processes - 1);
    int code = run(s);
    assert_true(code != 0 || dies); /* mpirun may take another process's status */
    for (int p = 0; p < s->processes - dies; p++) {
        if (!launch_line(p, "ends: ", line, sizeof(line))) {
            fail_msg("process %d has met no error:\n%s", p, launch_output);
        }
        const char *message = strstr(line, "ends: ");
        bool times_out = s->silent && strstr(message, "timed out") != NULL;
        if (strstr(message, "ranks differ") == NULL && !times_out) {
            fail_msg("expected \"ranks differ\" in \"%s\" of:\n%s", message, launch_output);
        }
        bool is_odd = p == s->processes - 1; /* it waits for the others */
        if ((strstr(message, named) == NULL && !is_odd) || strstr(message, s->word) == NULL) {
            fail_msg("expected \"%s\" and \"%s\" in \"%s\" of:\n%s", named, s->word, message, launch_output);
        }
        if (!launch_line(p, "again: ", line, sizeof(line)) || (strstr(line, "no error") != NULL) != s->lives) {
            fail_msg("process %d: another call of the graph was not as expected:\n%s", p, launch_output);
        }
        if (!launch_line(p, "finalized: ", line, sizeof(line))) {
            fail_msg("process %d was not finalized:\n%s", p, launch_output);
        }
    }
}

static const scenario scenarios[] = {
    { "first", 3, "has captured other calls than process 0", true },
    { "shape", 2, "call", false },
    { "size", 3, "call", false },
    { "branch", 3, "call", false },
    { "known", 2, "call", false },
    { "passes", 3, "has other passes than process 0", false },
    { "none", 2, "has other passes than process 0", false },
    { "late", 2, "call", false },
    { "less", 2, "call", false, true },
    { "keeps", 2, "call", false },
    { "dies", 3, "call", false, true },
};

static bool is_asked(char *const ways[], const char *way)
{
    bool found = false;
    for (; *ways != NULL && !found; ways++) {
        found = strcmp(*ways, way) == 0;
    }
    return found;
}

int main(int argc, char **argv)
{
    enum { COUNT = sizeof(scenarios) / sizeof(scenarios[0]) };
    static struct CMUnitTest tests[COUNT];
    static char names[COUNT][100];
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIVERGE_GRAPH WAY...\n", argv[0]);
        return 2;
    }
    program = argv[1];
    int count = 0;
    for (int i = 0; i < COUNT; i++) {
        const scenario *s = &scenarios[i];
        if (!is_asked(argv + 2, s->way)) {
            continue;
        }
        snprintf(names[count], sizeof(names[count]), "f5_%s_on_%d_processes", s->way, s->processes);
        tests[count] = (struct CMUnitTest){ .name = names[count],
                                            .test_func = test_f5_all_fail,
                                            .initial_state = (void *)(uintptr_t)s };
        count++;
    }
    if (count != argc - 2) {
        fprintf(stderr, "%s: a way is unknown\n", argv[0]);
        return 2;
    }
    return _cmocka_run_group_tests("graph_divergence", tests, (size_t)count, launch_setup, launch_teardown);
}
