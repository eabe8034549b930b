#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "make.h"
#include "mpirun.h"

/* A program takes milliseconds; a machine that does other things as well may take its time: WEFT_TEST_HANGS_S says how much. */
static int hangs_after_s(void)
{
    const char *text = getenv("WEFT_TEST_HANGS_S");
    return text == NULL ? 90 : atoi(text);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- workers ------------------------------------------------------------------------------------------- */

/* In the child: becomes the worker, or mpirun. */
static void become(const driver *d, const char *const arguments[], int output)
{
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(output, 1);
    dup2(output, 2);
    if (d->processes == 1) {
        execv(d->self, (char **)arguments);
        _exit(127);
    }
    char count[16];
    snprintf(count, sizeof(count), "%d", d->processes);
    const char *all[40] = { NULL };
    int used = mpirun_words(all, count, false);
    for (int i = 0; arguments[i] != NULL; i++) {
        all[used++] = arguments[i];
    }
    execvp(all[0], (char **)all);
    _exit(127);
}

static outcome outcome_of(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0            ? PASSED
           : WIFEXITED(status) && WEXITSTATUS(status) == RUN_FAILED ? WRONG
                                                                    : CRASHED;
}

/* Waits for the worker; `seconds` without a new program on the page, and it hangs. */
static outcome wait_for(pid_t child, const worker_page *page, double seconds)
{
    double since = now();
    int64_t programs = -1;
    for (int status = 0;;) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return outcome_of(status);
        }
        if (page != NULL && page->programs != programs) {
            programs = page->programs;
            since = now();
        }
        if (now() - since > seconds) {
            kill(child, SIGTERM); /* mpirun ends its processes */
            nanosleep(&(struct timespec){ 1, 0 }, NULL);
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
            return HUNG;
        }
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    }
}

static char *read_all(int file)
{
    off_t size = lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)(size < 0 ? 0 : size) + 1);
    lseek(file, 0, SEEK_SET);
    ssize_t length = read(file, text, (size_t)(size < 0 ? 0 : size));
    text[length < 0 ? 0 : length] = '\0';
    return text;
}

/* A file that has no name any more. */
static int scratch_file(char path[64])
{
    snprintf(path, 64, "/tmp/weft-programs-XXXXXX");
    return mkstemp(path);
}

static outcome run_worker(const driver *d, const char *const arguments[], const worker_page *page,
                          double seconds, char **log)
{
    char path[64];
    int output = scratch_file(path);
    unlink(path);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        become(d, arguments, output);
    }
    outcome result = wait_for(child, page, seconds);
    if (log != NULL) {
        *log = read_all(output);
    }
    close(output);
    return result;
}

outcome run_alone(const driver *d, const program *p, int seconds, char **log)
{
    char path[64];
    int descriptor = scratch_file(path);
    FILE *file = fdopen(descriptor, "w");
    program_write(p, file);
    fclose(file);
    driver own = *d;
    own.processes = p->processes;
    const char *const arguments[] = { d->self, "--worker", "--file", path, NULL };
    outcome result = run_worker(&own, arguments, NULL, seconds, log);
    unlink(path);
    return result;
}

/* ---- many ---------------------------------------------------------------------------------------------- */

static void add_page(worker_page *total, const worker_page *one)
{
    total->programs += one->programs;
    total->tally.steps += one->tally.steps;
    total->tally.tensors += one->tally.tensors;
    total->tally.elements += one->tally.elements;
    total->tally.unknown += one->tally.unknown;
    total->tally.differences += one->tally.differences;
    total->tally.refused += one->tally.refused;
    total->tally.frozen += one->tally.frozen;
    total->tally.sharded += one->tally.sharded;
    total->tally.donated += one->tally.donated;
    total->tally.resized += one->tally.resized;
    total->tally.windows += one->tally.windows;
    total->tally.window_calls += one->tally.window_calls;
    for (int i = 0; i < MAX_OPERATIONS; i++) {
        total->calls[i] += one->calls[i];
    }
    for (int i = 0; i < MAX_REGISTERED; i++) {
        total->dispatched[i] += one->dispatched[i];
    }
}

static void explain(driver *d, uint64_t from, outcome result, const char *log)
{
    static const char *const texts[] = { "passed", "gave something wrong", "crashed", "hung" };
    program *p = malloc(sizeof(*p));
    choose_world(p, d->failed_seed, d->processes);
    p->gradients = d->gradients;
    p->graphs = d->graphs;
    p->repeated = d->repeated;
    generate(p, d->only);
    printf("\nprogram %" PRIu64 " on %d processes %s:\n%.4000s\n", d->failed_seed, d->processes,
           texts[result], log);
    outcome alone = PASSED;
    for (int tries = 0; tries < 3 && alone == PASSED; tries++) {
        alone = run_alone(d, p, hangs_after_s(), NULL);
    }
    if (alone == PASSED) {
        printf("By itself it passes: it needs the programs before it, from seed %" PRIu64 " on.\n", from);
        program_write(p, stdout);
    } else {
        shrink(d, p, alone);
        report(d, p);
    }
    fflush(stdout);
    free(p);
}

void report(const driver *d, program *p)
{
    char *log = NULL;
    run_alone(d, p, hangs_after_s(), &log);
    printf("\nMade smaller, as text (--file runs it):\n\n");
    program_write(p, stdout);
    printf("\nIt says:\n%.4000s\nAs C:\n\n", log);
    print_program(p, stdout);
    free(log);
}

/* Seeds of one or two worlds to a worker. */
static bool drive_some(driver *d, uint64_t from, uint64_t count)
{
    char path[64], texts[3][32];
    int file = scratch_file(path);
    worker_page *page = NULL;
    if (ftruncate(file, sizeof(*page)) == 0) {
        page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    snprintf(texts[0], 32, "%d", d->processes);
    snprintf(texts[1], 32, "%" PRIu64, from);
    snprintf(texts[2], 32, "%" PRIu64, count);
    const char *const arguments[] = { d->self,
                                      "--worker",
                                      "--page",
                                      path,
                                      "--processes",
                                      texts[0],
                                      "--from",
                                      texts[1],
                                      "--count",
                                      texts[2],
                                      d->gradients ? "--gradients" : "--no-gradients",
                                      d->graphs ? "--graphs" : "--no-graphs",
                                      d->repeated ? "--repeated" : "--not-repeated",
                                      d->only == NULL ? NULL : "--only",
                                      d->only,
                                      NULL };
    char *log = NULL;
    outcome result = run_worker(d, arguments, page, hangs_after_s(), &log);
    unlink(path);
    add_page(&d->total, page);
    if (result != PASSED) {
        d->failed_seed = page->seed < from ? from : page->seed;
        explain(d, from, result, log);
    }
    munmap(page, sizeof(*page));
    free(log);
    return result == PASSED;
}

bool drive(driver *d, uint64_t from, uint64_t count, int seconds)
{
    double begin = now(), said = begin;
    for (uint64_t done = 0; count == 0 || done < count;) {
        uint64_t some = 2 * PROGRAMS_PER_WORLD - (from + done) % PROGRAMS_PER_WORLD;
        some = count > 0 && count - done < some ? count - done : some;
        if (!drive_some(d, from + done, some)) {
            return false;
        }
        done += some;
        if (d->verbose && now() - said > 5) {
            said = now();
            printf("%" PRId64 " programs, %.1f a second; %" PRId64 " calls, %" PRId64
                   " tensors compared, %" PRId64 " elements (%.3f %% not known)\n",
                   d->total.programs, (double)d->total.programs / (said - begin), d->total.tally.steps,
                   d->total.tally.tensors, d->total.tally.elements,
                   100 * (double)d->total.tally.unknown / (double)(d->total.tally.elements + 1));
            fflush(stdout);
        }
        if (seconds > 0 && now() - begin > seconds) {
            break;
        }
    }
    return true;
}
