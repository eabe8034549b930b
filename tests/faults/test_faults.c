/* Runs programs in which one process meets a fault at a random moment, from before weft_init() to after
 * weft_finalize(): it is killed, stopped, slow, exits, makes other calls, has no memory, gets no threads.
 * The other processes must end within the time-out and a little, with a status and a message, must never
 * get a wrong value, and must leave nothing behind. A seed (draw.c) determines fault and moment, and names
 * the run, so that a failed run can be repeated; moments are in real time, so the outcome may differ.
 * victim.c is the program, fault.c makes the fault.
 *
 * usage: test-faults VICTIM [--seed SEED] [--runs RUNS] [--endless] [--show] */
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"
#include "mpirun.h"
#include "prng.h"
#include "draw.h"

enum {
    TOGETHER = 6, /* runs at the same time: they mostly wait */
    HANGS_AFTER_S = 60,
    SLACK_S = 25, /* of a busy machine */
    MAX_RUNS = 4096,
    MAX_ARGUMENTS = 20,
    MAX_SETTINGS = 10,
};

typedef struct run {
    fault_case what;
    child child;
    const char *arguments[MAX_ARGUMENTS], *settings[MAX_SETTINGS];
    char processes[16], culprit[16], timeout[32];
    bool ended;
} run;

static const char *victim;
static bool shows;
static run batch[TOGETHER];

/* ---- running -------------------------------------------------------------------------------------------- */

static void prepare(run *r, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    fault_case *w = &r->what;
    *w = draw(seed);
    snprintf(r->processes, sizeof(r->processes), "%d", w->processes);
    snprintf(r->culprit, sizeof(r->culprit), "%d", w->culprit);
    snprintf(r->timeout, sizeof(r->timeout), "WEFT_TIMEOUT_S=%d", w->timeout_s);
    const char *launcher[MPIRUN_MAX_WORDS];
    const char *in_graph = w->graph ? "graph" : NULL;
    const char *program[] = { victim, r->culprit, w->fault, w->moment, w->number, in_graph, NULL };
    size_t first = w->launched ? (size_t)mpirun_words(launcher, r->processes, w->recovers) : 0;
    memcpy(r->arguments, launcher, first * sizeof(launcher[0]));
    memcpy(r->arguments + first, program, sizeof(program));
    const char *settings[] = { r->timeout,
                               w->check ? "WEFT_CHECK=1" : "WEFT_CHECK=0",
                               w->packed ? "WEFT_PACK_BYTES=4096" : "WEFT_PACK_BYTES",
                               w->two_ranks ? "WEFT_LOCAL_RANKS=2" : "WEFT_LOCAL_RANKS=1",
                               w->two_workers ? "WEFT_WORKERS=2" : "WEFT_WORKERS=1",
                               w->calibrates ? "WEFT_CALIBRATE=again" : "WEFT_CALIBRATE=off",
                               NULL };
    memcpy(r->settings, settings, sizeof(settings));
    r->child.arguments = r->arguments;
    r->child.settings = r->settings;
    r->child.seconds = HANGS_AFTER_S;
}

/* The next ones of this process's own: what mpirun started and left comes to it (PR_SET_CHILD_SUBREAPER). */
static int left_behind(void)
{
    static const struct timespec moment = { 0, 100000000 };
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    int found = 0;
    for (int looks = 0; looks < 50; looks++) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        FILE *file = fopen(path, "r");
        int process = 0, count = 0;
        while (file != NULL && fscanf(file, "%d", &process) == 1) {
            count++;
            if (looks >= 30) { /* those that wake others need a while */
                found += looks == 30;
                kill((pid_t)process, SIGKILL);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
        if (count == 0) {
            break;
        }
        nanosleep(&moment, NULL);
    }
    return found;
}

/* Returns how many processes they have left. */
static int run_batch(uint64_t first_seed, int count)
{
    int running = count;
    for (int i = 0; i < count; i++) {
        prepare(&batch[i], first_seed + (uint64_t)i);
        child_start(&batch[i].child);
    }
    while (running > 0) {
        for (int i = 0; i < count; i++) {
            if (!batch[i].ended && child_has_ended(&batch[i].child)) {
                batch[i].ended = true;
                running--;
            }
        }
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    }
    return left_behind();
}

/* ---- judging -------------------------------------------------------------------------------------------- */

/* The first line of process `p` that begins like this, and its time. */
static bool line_of(const run *r, int p, const char *begin, char *line, size_t size, double *at_s)
{
    char start[64];
    snprintf(start, sizeof(start), "process %d %s", p, begin);
    const char *found = strstr(r->child.output, start);
    if (found == NULL) {
        return false;
    }
    snprintf(line, size, "%.*s", (int)strcspn(found, "\n"), found);
    const char *at = strstr(line, " at "), *next = at;
    while (next != NULL) {
        at = next;
        next = strstr(next + 1, " at ");
    }
    *at_s = at == NULL ? 0 : atof(at + 4);
    return true;
}

#define REFUSE(r, ...)                                                                                       \
    do {                                                                                                     \
        print_error("%s\n", (r)->child.output);                                                              \
        fail_msg(__VA_ARGS__);                                                                               \
    } while (0)

static void check_failed(const run *r, int p, double happened_s)
{
    char line[4200];
    double at_s = 0;
    if (!line_of(r, p, "finalized: ", line, sizeof(line), &at_s) || strstr(line, "no error") != NULL) {
        REFUSE(r, "process %d ends without an error", p);
    }
    if (at_s > happened_s + r->what.timeout_s + SLACK_S) {
        REFUSE(r, "process %d ends %.1f s after the fault", p, at_s - happened_s);
    }
    /* A process that had come to weft_finalize() hears of it there alone. */
    if (!line_of(r, p, "ends: ", line, sizeof(line), &at_s)) {
        REFUSE(r, "process %d does not say how it ends", p);
    }
}

static void check_well(const run *r, int p)
{
    char line[4200];
    double at_s = 0;
    if (!line_of(r, p, "ends: no error", line, sizeof(line), &at_s) ||
        !line_of(r, p, "finalized: no error", line, sizeof(line), &at_s)) {
        REFUSE(r, "process %d does not end well", p);
    }
}

/* The survivors name the culprit: each one if calls are compared, at least one if the culprit has ended. */
static void check_blame(const run *r, bool each)
{
    char line[4200], name[32];
    double at_s = 0;
    int naming = 0;
    snprintf(name, sizeof(name), "process %d", r->what.culprit);
    for (int p = 0; p < r->what.processes; p++) {
        if (p != r->what.culprit && line_of(r, p, "ends: ", line, sizeof(line), &at_s)) {
            bool named = strstr(strstr(line, "ends: "), name) != NULL;
            naming += named;
            if (each && !named && strstr(line, "ends: no error") == NULL) {
                REFUSE(r, "process %d does not name process %d", p, r->what.culprit);
            }
        }
    }
    if (naming == 0) {
        REFUSE(r, "nobody names process %d", r->what.culprit);
    }
}

/* All of them that are asked. */
static void check_agreement(const run *r, double happened_s, bool culprit_too)
{
    int well = 0, asked = 0;
    for (int p = 0; p < r->what.processes; p++) {
        char line[4200];
        double at_s = 0;
        if (p != r->what.culprit || culprit_too) {
            asked++;
            well += line_of(r, p, "finalized: no error", line, sizeof(line), &at_s);
        }
    }
    for (int p = 0; p < r->what.processes && well < asked; p++) {
        if (p != r->what.culprit || culprit_too) {
            check_failed(r, p, happened_s);
        }
    }
}

/* No process was given a wrong value; but for one that has computed something else itself. */
static void check_values(const run *r, expectation expected)
{
    char line[4200], wrong[64];
    double at_s = 0;
    bool own_way = expected == ALL_FAIL || expected == ALL_AGREE;
    for (int p = 0; p < r->what.processes; p++) {
        snprintf(wrong, sizeof(wrong), "has WRONG");
        if ((p != r->what.culprit || !own_way) && line_of(r, p, wrong, line, sizeof(line), &at_s)) {
            REFUSE(r, "process %d was given a wrong value", p);
        }
    }
    static const char *const never[] = { "Segmentation", "Assertion", "signal 11", "signal 7 " };
    for (size_t i = 0; i < sizeof(never) / sizeof(*never) && r->what.expected != OTHERS_AGREE; i++) {
        if (strstr(r->child.output, never[i]) != NULL) {
            REFUSE(r, "\"%s\"", never[i]);
        }
    }
}

static void judge(const run *r)
{
    char line[4200];
    double happened_s = 0, finalizes_s = 0;
    const fault_case *w = &r->what;
    expectation expected = w->expected;
    if (r->child.hangs) {
        REFUSE(r, "hangs");
    }
    if (!line_of(r, w->culprit, "does ", line, sizeof(line), &happened_s)) {
        expected = ALL_WELL; /* the moment did not come */
    } else if (expected == OTHERS_FAIL &&
               line_of(r, w->culprit, "finalizes", line, sizeof(line), &finalizes_s) &&
               finalizes_s <= happened_s) {
        expected = LAUNCHER_ENDS; /* it came late */
    }
    check_values(r, w->expected);
    if (expected == ALL_AGREE || expected == OTHERS_AGREE) {
        check_agreement(r, happened_s, expected == ALL_AGREE && strcmp(w->fault, "return") != 0);
    }
    for (int p = 0; p < w->processes; p++) {
        if (expected == ALL_WELL) {
            check_well(r, p);
        } else if (expected == ALL_FAIL || expected == OTHERS_FAIL) {
            if (p != w->culprit || (expected == ALL_FAIL && strcmp(w->fault, "return") != 0)) {
                check_failed(r, p, happened_s);
            }
        }
    }
    if (expected == ALL_FAIL || expected == OTHERS_FAIL) {
        check_blame(r, expected == ALL_FAIL);
    }
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

/* A run; the first of those that run together starts it with all others. */
typedef struct one {
    uint64_t seed;
    int place, together;
} one;

static void test_run(void **state)
{
    static int left;
    const one *o = *state;
    if (o->place == 0) {
        left = run_batch(o->seed, o->together);
    }
    const run *r = &batch[o->place];
    print_message("# %.1f s\n", r->child.took_s);
    if (shows) {
        print_message("%s\n", r->child.output);
    }
    judge(r);
    if (o->place == o->together - 1 && left > 0) {
        fail_msg("%d processes are left behind by the last %d runs", left, o->together);
    }
}

static int run_seeds(uint64_t seed, int runs)
{
    static struct CMUnitTest tests[MAX_RUNS];
    static one all[MAX_RUNS];
    static char names[MAX_RUNS][256];
    for (int i = 0; i < runs; i++) {
        int place = i % TOGETHER, rest = runs - i + place;
        fault_case what = draw(seed + (uint64_t)i);
        all[i] = (one){ what.seed, place, rest < TOGETHER ? rest : TOGETHER };
        tests[i] = (struct CMUnitTest){ .name = describe(&what, names[i], sizeof(names[i])),
                                        .test_func = test_run,
                                        .initial_state = &all[i] };
    }
    return _cmocka_run_group_tests("faults", tests, (size_t)runs, NULL, NULL);
}

int main(int argc, char *argv[])
{
    static const struct option options[] = { { "seed", required_argument, NULL, 's' },
                                             { "runs", required_argument, NULL, 'r' },
                                             { "endless", no_argument, NULL, 'e' },
                                             { "show", no_argument, NULL, 'o' },
                                             { NULL, 0, NULL, 0 } };
    uint64_t seed = 1;
    int runs = 16, found;
    bool endless = false, runs_given = false;
    while ((found = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (found) {
        case 's':
            seed = strtoull(optarg, NULL, 0);
            runs = runs_given ? runs : 1;
            break;
        case 'r':
            runs = atoi(optarg);
            runs_given = true;
            break;
        case 'e':
            endless = true;
            break;
        case 'o':
            shows = true;
            break;
        default:
            return 2;
        }
    }
    if (optind != argc - 1 || runs < 1 || runs > MAX_RUNS) {
        fprintf(stderr, "usage: %s VICTIM [--seed SEED] [--runs RUNS] [--endless] [--show]\n", argv[0]);
        return 2;
    }
    victim = argv[optind];
    runs = runs_given ? runs : share_of(runs);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int failed = run_seeds(seed, runs);
    while (endless && failed == 0) {
        seed += (uint64_t)runs;
        failed = run_seeds(seed, runs);
    }
    return failed;
}
