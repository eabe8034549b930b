/* Programs of several processes that must make the same calls, and do not: all end with an error that names
 * who strayed and where, and none is given a wrong result. Looked at from outside (launch.h); stray.c says
 * what the processes print.
 *
 * Argument: the program stray. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

typedef struct scenario {
    const char *way;
    int processes, ranks, who, when;
    bool blocks, small;
} scenario;

static const char *program;

static int run(const scenario *s)
{
    static char ranks[32], who[16], when[16];
    snprintf(ranks, sizeof(ranks), "WEFT_RANKS=%d", s->ranks);
    snprintf(who, sizeof(who), "%d", s->who);
    snprintf(when, sizeof(when), "%d", s->when);
    launch l = { .program = program, .processes = s->processes };
    l.arguments[0] = s->way;
    l.arguments[1] = who;
    l.arguments[2] = when;
    l.arguments[3] = s->blocks ? "blocks" : NULL;
    l.settings[0] = "WEFT_TIMEOUT_S=2";
    l.settings[1] = ranks;
    l.settings[2] = s->small ? "WEFT_PACK_BYTES=4096" : NULL;
    l.recovers = strcmp(s->way, "killed") == 0;
    return launch_run(&l);
}

/* Processes that all go the same way are told of no difference, on sub-meshes and slices too. */
static void test_nobody_strays(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 0);
    for (int p = 0; p < s->processes; p++) {
        char line[64];
        if (!launch_line(p, "result OK", line, sizeof(line)) ||
            !launch_line(p, "finalized: no error", line, sizeof(line))) {
            fail_msg("process %d has not ended well:\n%s", p, launch_output);
        }
    }
}

/* Messages of the same sizes, but other values: each process ends with an error, and is given none of
 * them. */
static void test_difference(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char line[2048];
        if (!launch_line(p, "ends: timed out", line, sizeof(line)) ||
            !launch_line(p, "finalized: ", line, sizeof(line)) || strstr(line, "no error") != NULL) {
            fail_msg("process %d has met no error:\n%s", p, launch_output);
        }
    }
    if (strstr(launch_output, "result ") != NULL) {
        fail_msg("a process was given a result:\n%s", launch_output);
    }
}

/* After the last message: weft_finalize() finds it. */
static void test_late_difference(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char line[64];
        if (!launch_line(p, "finalized: ranks differ", line, sizeof(line))) {
            fail_msg("process %d has met no error:\n%s", p, launch_output);
        }
    }
}

static const scenario same[] = {
    { "nothing", 2, 4, 0, 0, false, false }, { "nothing", 3, 4, 0, 0, false, false },
    { "nothing", 5, 7, 0, 0, true, false },  { "nothing", 2, 4, 0, 0, true, true },
    { "nothing", 3, 5, 0, 0, false, true },
};

static const scenario differences[] = {
    { "type", 2, 2, 1, 3, false, false },      { "type", 3, 5, 0, 0, true, true },
    { "operation", 2, 4, 0, 7, false, false }, { "operation", 3, 3, 1, 4, true, false },
    { "dim", 2, 2, 1, 7, false, false },       { "dim", 3, 4, 2, 2, false, true },
    { "number", 2, 2, 0, 7, false, false },    { "number", 3, 6, 1, 5, true, false },
    { "order", 2, 3, 1, 6, false, false },     { "order", 3, 3, 0, 1, false, false },
    { "missing", 2, 2, 1, 7, false, false },   { "missing", 3, 4, 1, 3, true, true },
    { "more", 2, 2, 0, 7, false, false },      { "more", 5, 5, 3, 2, false, false },
    { "seed", 2, 2, 1, 7, false, false },      { "seed", 3, 3, 2, 4, false, false },
    { "draw", 2, 2, 0, 7, false, false },      { "draw", 3, 4, 1, 6, true, false },
    { "slice", 2, 4, 1, 7, false, false },
};

static const scenario late[] = { { "late", 2, 2, 1, 8, false, false }, { "late", 3, 3, 0, 8, false, false } };

enum {
    SAME = sizeof(same) / sizeof(*same),
    DIFFERENCES = sizeof(differences) / sizeof(*differences),
    LATE = sizeof(late) / sizeof(*late),
    COUNT = SAME + DIFFERENCES + LATE
};

static struct CMUnitTest tests[COUNT];
static int num_tests;

static void add_tests(const scenario *all, int count, CMUnitTestFunction function)
{
    static char names[COUNT][64];
    for (int i = 0; i < count; i++) {
        const scenario *s = &all[i];
        char *name = names[num_tests];
        snprintf(name, sizeof(names[0]), "%s_of_process_%d_of_%d_in_step_%d%s%s", s->way, s->who,
                 s->processes, s->when, s->blocks ? "_blocking" : "", s->small ? "_small" : "");
        tests[num_tests++] =
            (struct CMUnitTest){ .name = name, .test_func = function, .initial_state = (void *)(uintptr_t)s };
    }
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s STRAY\n", argv[0]);
        return 2;
    }
    program = argv[1];
    add_tests(same, SAME, test_nobody_strays);
    add_tests(differences, DIFFERENCES, test_difference);
    add_tests(late, LATE, test_late_difference);
    return cmocka_run_group_tests(tests, launch_setup, launch_teardown);
}
