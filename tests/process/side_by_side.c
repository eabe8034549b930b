#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "side_by_side.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4 };

typedef enum outcome { PENDING, PASSED, FAILED } outcome;

/* In memory of all processes. */
typedef struct board {
    atomic_int next;                       /* the first test that no worker has taken */
    atomic_int worker[MAX_SIDE_BY_SIDE];   /* its process; 0: none yet */
    atomic_int outcomes[MAX_SIDE_BY_SIDE];
} board;

typedef struct group {
    const struct CMUnitTest *tests;
    int count;
    board *board;
    FILE *said[MAX_SIDE_BY_SIDE]; /* what each test has printed */
} group;

typedef struct awaited {
    const group *group;
    int test;
} awaited;

/* ---- workers --------------------------------------------------------------------------------------------- */

static _Noreturn void work(const group *g, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    void *state = NULL;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that is ended leaves nothing behind */
    if (setup(&state) != 0) {
        _exit(1);
    }
    for (int i; (i = atomic_fetch_add(&g->board->next, 1)) < g->count;) {
        g->board->worker[i] = (int)getpid();
        dup2(fileno(g->said[i]), STDOUT_FILENO);
        dup2(fileno(g->said[i]), STDERR_FILENO);
        int failed = _cmocka_run_group_tests("one", &g->tests[i], 1, NULL, NULL);
        fflush(NULL);
        g->board->outcomes[i] = failed == 0 ? PASSED : FAILED;
    }
    _exit(teardown(&state));
}

/* ---- reports --------------------------------------------------------------------------------------------- */

/* The worker that has taken the test has ended, or all have and none took it. */
static bool is_abandoned(const group *g, int test)
{
    int worker = g->board->worker[test];
    return worker > 0 ? waitpid(worker, NULL, WNOHANG) != 0 : waitpid(-1, NULL, WNOHANG) < 0;
}

/* Without cmocka's own lines of a group of one test, but for errors. */
static void print_said(FILE *said)
{
    char line[4096];
    rewind(said);
    while (fgets(line, sizeof(line), said) != NULL) {
        bool own = line[0] == '[' && strncmp(line, "[  ERROR", 8) != 0;
        if (!own && line[0] != '\n') {
            print_message("%s", line);
        }
    }
}

static void await(void **state)
{
    const awaited *a = *state;
    const group *g = a->group;
    while (g->board->outcomes[a->test] == PENDING) {
        bool abandoned = is_abandoned(g, a->test);
        if (abandoned && g->board->outcomes[a->test] == PENDING) {
            print_said(g->said[a->test]);
            fail_msg("the process of %s has ended", g->tests[a->test].name);
        }
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    print_said(g->said[a->test]);
    if (g->board->outcomes[a->test] == FAILED) {
        fail();
    }
}

int run_side_by_side(const struct CMUnitTest tests[], size_t count, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group g = { .tests = tests, .count = (int)count };
    struct CMUnitTest reports[MAX_SIDE_BY_SIDE];
    awaited of[MAX_SIDE_BY_SIDE];
    g.board = mmap(NULL, sizeof(*g.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool ready = count <= MAX_SIDE_BY_SIDE && g.board != MAP_FAILED;
    for (int i = 0; ready && i < g.count; i++) {
        g.said[i] = tmpfile();
        ready = g.said[i] != NULL;
        of[i] = (awaited){ &g, i };
        reports[i] = (struct CMUnitTest){ .name = tests[i].name, .test_func = await, .initial_state = &of[i] };
    }
    if (!ready) {
        fprintf(stderr, "%zu tests cannot be run side by side\n", count);
        return 1;
    }
    if (getenv("WEFT_TEST_ONLY") != NULL) {
        cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    }
    fflush(NULL);
    for (int i = 0; i < WORKERS; i++) {
        if (fork() == 0) {
            work(&g, setup, teardown);
        }
    }
    int failed = _cmocka_run_group_tests("tests", reports, count, NULL, NULL);
    int status;
    while (wait(&status) > 0) {
        failed += status != 0;
    }
    return failed;
}
