/* Runs programs as children of a test: output, exit status, hangs. */
#ifndef WEFT_TESTS_CHILD_H
#define WEFT_TESTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CHILD_OUTPUT = 1 << 16 };

typedef struct child {
    /* Set by the caller. */
    const char *const *arguments; /* the program first; ends with NULL */
    const char *const *settings;  /* "NAME=VALUE", or "NAME": not set; ends with NULL. NULL: none */
    double seconds;               /* then it is killed, and counts as hanging */
    /* Result. */
    bool hangs;
    int code; /* its exit status; 128 + the signal that ended it */
    double took_s;
    char output[CHILD_OUTPUT]; /* standard output and error, what fits */
    /* While it runs. */
    pid_t process;
    int file; /* of its output */
    char folder[128]; /* its TMPDIR, unless `settings` has another: those that run at once share nothing */
    double begin_s;
} child;

/* Fails the test when the program cannot be run. */
void child_run(child *c);
/* The same in steps, so that several may run: start, then poll until it ends or is killed. */
void child_start(child *c);
bool child_has_ended(child *c);
/* Whether the output has a line that contains all of these (NULL: no more). */
bool child_says(const child *c, const char *first, const char *second, const char *third);
/* The same, and fails the test with the output when it has not. */
void assert_says(const child *c, const char *first, const char *second, const char *third);
/* Fails the test, with the output, when it hangs or has another exit status. */
void assert_ends(const child *c, int code);

#endif
