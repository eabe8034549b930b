/* Processes that make different calls: all end with an error that names the culprit and the call, and none
 * gets a wrong result. Observed from outside (launch.h); stray.c describes the output.
 *
 * Argument: the program stray. */
#include "launch.h"
#include "side_by_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct scenario {
    const char *way;
    int processes, ranks, who, when;
    bool blocks, small, check;
} scenario;

static const char *program;
static char report_path[48]; /* WEFT_REPORT; "": none */

static int run(const scenario *s)
{
    static char ranks[32], who[16], when[16];
    snprintf(ranks, sizeof(ranks), "WEFT_RANKS=%d", s->ranks);
    snprintf(who, sizeof(who), "%d", s->who);
    snprintf(when, sizeof(when), "%d", s->when);
    static char report[64];
    snprintf(report, sizeof(report), "WEFT_REPORT=%s", report_path);
    launch l = { .program = program, .processes = s->processes };
    l.arguments[0] = s->way;
    l.arguments[1] = who;
    l.arguments[2] = when;
    l.arguments[3] = s->blocks ? "blocks" : NULL;
    l.settings[0] = launch_short_timeout();
    l.settings[1] = ranks;
    l.settings[2] = s->check ? "WEFT_CHECK=1" : "WEFT_CHECK=0";
    l.settings[3] = report_path[0] != '\0' ? report : "WEFT_REPORT=";
    l.settings[4] = s->small ? "WEFT_PACK_BYTES=4096" : NULL;
    l.recovers = strcmp(s->way, "killed") == 0;
    return launch_run(&l);
}

/* Without a difference none is reported, on sub-meshes and slices too. */
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

/* ---- blame --------------------------------------------------------------------------------------------- */

/* "process 2 (ranks 4 to 5) " */
static const char *name_of(const scenario *s, int process, char *name, size_t size)
{
    int least = s->ranks / s->processes, more = s->ranks % s->processes;
    int first = process * least + (process < more ? process : more), count = least + (process < more);
    if (count == 1) {
        snprintf(name, size, "process %d (rank %d) ", process, first);
    } else {
        snprintf(name, size, "process %d (ranks %d to %d) ", process, first, first + count - 1);
    }
    return name;
}

/* Texts on a process that is to blame, and on no other. */
static const char *const accusations[] = { "does not answer", "has not come to ", "has made call " };

static bool is_accused(const scenario *s, int process, const char *line)
{
    char text[96], name[64];
    name_of(s, process, name, sizeof(name));
    bool found = false;
    for (size_t i = 0; i < sizeof(accusations) / sizeof(*accusations); i++) {
        snprintf(text, sizeof(text), "%s%s", name, accusations[i]);
        found |= strstr(line, text) != NULL;
    }
    return found;
}

/* A message that names the one that strays, as `accusation` says, and accuses no other. */
static void check_blame(const scenario *s, const char *line, const char *accusation)
{
    char text[128], name[64];
    snprintf(text, sizeof(text), "%s%s", name_of(s, s->who, name, sizeof(name)), accusation);
    if (strstr(line, text) == NULL) {
        fail_msg("expected \"%s\" in \"%s\" of:\n%s", text, line, launch_output);
    }
    for (int p = 0; p < s->processes; p++) {
        if (p != s->who && is_accused(s, p, line)) {
            fail_msg("process %d is accused in \"%s\" of:\n%s", p, line, launch_output);
        }
    }
}

/* "call 33: process 2 (rank 2) calls weft_scale(...), process 0 (rank 0) calls weft_scale(...)": of two
 * processes it cannot be said which one is wrong. */
static void check_difference(const scenario *s, const char *line)
{
    check_blame(s, line, "calls ");
    char text[96], name[64];
    snprintf(text, sizeof(text), ": %scalls ", name_of(s, s->who, name, sizeof(name)));
    if (strstr(line, "call ") == NULL || (s->processes > 2 && strstr(line, text) == NULL)) {
        fail_msg("expected \"%s\" in \"%s\" of:\n%s", text, line, launch_output);
    }
}

/* The line with which a process ends, with this status. */
static void find_end(int process, const char *begin, const char *status, char *line, size_t size)
{
    char start[96];
    snprintf(start, sizeof(start), "%s: %s", begin, status);
    if (!launch_line(process, start, line, size)) {
        fail_msg("process %d has not met \"%s\":\n%s", process, status, launch_output);
    }
}

/* Messages of the same sizes, but other values: each process ends with an error that says which calls differ,
 * and is given none of the values. */
static void test_difference(void **state)
{
    const scenario *s = *state;
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char line[4096];
        find_end(p, "ends", "ranks differ", line, sizeof(line));
        check_difference(s, line);
        find_end(p, "finalized", "ranks differ", line, sizeof(line));
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
        char line[4096];
        find_end(p, "finalized", "ranks differ", line, sizeof(line));
        check_difference(s, line);
    }
}

/* A process that ends, or does not continue: the others name it, and the reason. */
static void test_absence(void **state)
{
    static const struct {
        const char *way, *status, *accusation;
    } ways[] = { { "killed", "timed out", "does not answer" },
                 { "stopped", "timed out", "does not answer" },
                 { "sleeps", "timed out", "has not come to " },
                 { "computes", "timed out", "has made call " },
                 { "exits", "communication failed", "gave up" } };
    const scenario *s = *state;
    run(s);
    size_t way = 0;
    while (strcmp(ways[way].way, s->way) != 0) {
        way++;
    }
    for (int p = 0; p < s->processes; p++) {
        char line[4096];
        if (p == s->who) {
            continue;
        }
        find_end(p, "ends", ways[way].status, line, sizeof(line));
        if (strcmp(s->way, "exits") == 0) {
            char text[64];
            snprintf(text, sizeof(text), "process %d gave up: exit: ", s->who);
            assert_non_null(strstr(line, text));
        } else {
            check_blame(s, line, ways[way].accusation);
        }
        find_end(p, "finalized", ways[way].status, line, sizeof(line));
    }
    if (strstr(launch_output, "result ") != NULL) {
        fail_msg("a process was given a result:\n%s", launch_output);
    }
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static bool file_has(const char *path, const char *const words[])
{
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    for (int i = 0; words[i] != NULL; i++) {
        if (strstr(text, words[i]) == NULL) {
            print_error("no \"%s\" in %s: %s\n", words[i], path, text);
            return false;
        }
    }
    return true;
}

/* Each process writes a file: the error, its last calls, unfinished messages. */
static void test_reports(void **state)
{
    const scenario *s = *state;
    strcpy(report_path, "/tmp/weft-report-XXXXXX");
    int file = mkstemp(report_path);
    assert_true(file >= 0 && close(file) == 0 && remove(report_path) == 0);
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char path[64], name[64];
        snprintf(path, sizeof(path), "%s.%d", report_path, p);
        const char *const words[] = { name_of(s, p, name, sizeof(name)),
                                      "ranks differ: ",
                                      "calls weft_scale(",
                                      " weft_redistribute(f32[36, 12, 12] [S",
                                      " pending\n",
                                      "transfers pending",
                                      NULL };
        assert_true(file_has(path, words));
        assert_int_equal(remove(path), 0);
    }
    report_path[0] = '\0';
}

/* A report that cannot be written is a warning: no such folder; a pipe that nobody reads. */
static void test_reports_that_fail(void **state)
{
    const scenario *s = *state;
    strcpy(report_path, "/tmp/weft-no-folder-XXXXXX");
    assert_non_null(mkdtemp(report_path));
    char pipe[64], text[160];
    snprintf(pipe, sizeof(pipe), "%s.0", report_path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char path[64];
        snprintf(path, sizeof(path), "%s.%d", report_path, p);
        assert_int_equal(remove(path), 0);
    }
    snprintf(text, sizeof(text), "weft: the report %s (WEFT_REPORT) is not written: ", pipe);
    assert_non_null(strstr(launch_output, text));
    assert_int_equal(rmdir(report_path), 0);
    strcat(report_path, "/report");
    assert_int_equal(run(s), 3);
    for (int p = 0; p < s->processes; p++) {
        char line[4096];
        find_end(p, "ends", "ranks differ", line, sizeof(line));
        snprintf(text, sizeof(text), "weft: the report %s.%d (WEFT_REPORT) is not written: No such file",
                 report_path, p);
        assert_non_null(strstr(launch_output, text));
    }
    report_path[0] = '\0';
}

/* ---- scenarios ----------------------------------------------------------------------------------------- */

static const scenario same[] = {
    { "nothing", 2, 4, 0, 0, false, false, false }, { "nothing", 3, 4, 0, 0, false, false, false },
    { "nothing", 5, 7, 0, 0, true, false, false },  { "nothing", 2, 4, 0, 0, true, true, false },
    { "nothing", 3, 5, 0, 0, false, true, false },
};

static const scenario differences[] = {
    { "type", 2, 2, 1, 3, false, false, false },      { "type", 3, 5, 0, 0, true, true, false },
    { "operation", 2, 4, 0, 7, false, false, false }, { "operation", 3, 3, 1, 4, true, false, false },
    { "dim", 2, 2, 1, 7, false, false, false },       { "dim", 3, 4, 2, 2, false, true, false },
    { "number", 2, 2, 0, 7, false, false, false },    { "number", 3, 6, 1, 5, true, false, false },
    { "order", 2, 3, 1, 6, false, false, false },     { "order", 3, 3, 0, 1, false, false, false },
    { "missing", 2, 2, 1, 7, false, false, false },   { "missing", 3, 4, 1, 3, true, true, false },
    { "more", 2, 2, 0, 7, false, false, false },      { "more", 5, 5, 3, 2, false, false, false },
    { "seed", 2, 2, 1, 7, false, false, false },      { "seed", 3, 3, 2, 4, false, false, false },
    { "draw", 2, 2, 0, 7, false, false, false },      { "draw", 3, 4, 1, 6, true, false, false },
    { "slice", 2, 4, 1, 7, false, false, false },
};

static const scenario late[] = { { "late", 2, 2, 1, 8, false, false, false },
                                 { "late", 3, 3, 0, 8, false, false, false } };

/* With WEFT_CHECK, in meetings. */
static const scenario absences[] = {
    { "killed", 2, 2, 1, 4, false },
    { "killed", 3, 4, 0, 0, true },
    { "killed", 5, 7, 3, 7, false, true, false },
    { "stopped", 2, 3, 0, 5, false },
    { "stopped", 3, 3, 1, 2, true },
    { "stopped", 5, 5, 4, 6, false },
    { "sleeps", 2, 2, 1, 0, true },
    { "sleeps", 3, 4, 0, 5, false, true, false },
    { "sleeps", 5, 6, 2, 3, true },
    { "exits", 2, 2, 0, 7, false },
    { "exits", 3, 5, 2, 0, true, true, false },
    { "exits", 5, 5, 1, 4, false },
    { "computes", 2, 2, 1, 5, false },
    { "computes", 3, 3, 0, 7, false },
    { "computes", 5, 5, 4, 2, true },
    { "stopped", 3, 3, 0, 3, false, false, true },
    { "stopped", 3, 4, 2, 3, true, false, true },
    { "sleeps", 3, 3, 1, 6, false, false, true },
};

static const scenario reports[] = { { "number", 3, 5, 2, 6, false, false, false } };

enum {
    SAME = sizeof(same) / sizeof(*same),
    DIFFERENCES = sizeof(differences) / sizeof(*differences),
    LATE = sizeof(late) / sizeof(*late),
    ABSENCES = sizeof(absences) / sizeof(*absences),
    REPORTS = sizeof(reports) / sizeof(*reports),
    COUNT = SAME + DIFFERENCES + LATE + ABSENCES + 2 * REPORTS
};

static struct CMUnitTest tests[COUNT];
static int num_tests;

static void add_tests(const char *what, const scenario *all, int count, CMUnitTestFunction function)
{
    static char names[COUNT][64];
    for (int i = 0; i < count; i++) {
        const scenario *s = &all[i];
        char *name = names[num_tests];
        snprintf(name, sizeof(names[0]), "%s%s_of_process_%d_of_%d_in_step_%d%s%s%s", what, s->way, s->who,
                 s->processes, s->when, s->blocks ? "_blocking" : "", s->small ? "_small" : "",
                 s->check ? "_with_check" : "");
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
    add_tests("", same, SAME, test_nobody_strays);
    add_tests("", differences, DIFFERENCES, test_difference);
    add_tests("", late, LATE, test_late_difference);
    add_tests("", absences, ABSENCES, test_absence);
    add_tests("report_of_", reports, REPORTS, test_reports);
    add_tests("no_report_of_", reports, REPORTS, test_reports_that_fail);
    return run_side_by_side(tests, COUNT, launch_setup, launch_teardown);
}
