/* Runs programs of several processes with mpirun, as a child of the test, and reads their output
 * afterwards. Each of their lines begins with "process P ". */
#ifndef WEFT_TESTS_LAUNCH_H
#define WEFT_TESTS_LAUNCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LAUNCH_MAX_ARGUMENTS = 8, LAUNCH_MAX_SETTINGS = 8 };

typedef struct launch {
    const char *program;
    int processes;
    const char *arguments[LAUNCH_MAX_ARGUMENTS + 1]; /* end with NULL */
    const char *settings[LAUNCH_MAX_SETTINGS + 1];   /* "NAME=VALUE", of all processes; end with NULL */
    bool recovers;                                   /* mpirun leaves the others alone when one is killed */
    void (*look)(void); /* called 20 times a second while it runs, with the output so far; may be NULL */
} launch;

/* Standard output and standard error of all processes. */
extern char launch_output[1 << 17];

/* "WEFT_TIMEOUT_S=2", and more beside other load: a start has to be over within the time-out. Static storage. */
const char *launch_short_timeout(void);
/* For cmocka_run_group_tests(). */
int launch_setup(void **state);
int launch_teardown(void **state);

/* Runs mpirun for at most 150 s; then kills it and fails the test. Returns the exit status, -1 if a signal
 * ended it. */
int launch_run(const launch *l);
/* The first line that begins with "process P BEGIN". False: there is none. */
bool launch_line(int process, const char *begin, char *line, size_t size);

#endif
