/* Runs many programs in worker processes, and reports failing ones. */
#ifndef WEFT_TESTS_DRIVER_H
#define WEFT_TESTS_DRIVER_H

#include "worker.h"

typedef enum outcome { PASSED = 0, WRONG, CRASHED, HUNG } outcome;

typedef struct driver {
    const char *self; /* the program that is a worker too */
    const char *only;
    int processes; /* 1: no mpirun */
    bool gradients; /* programs with gradients */
    bool graphs;    /* in captured graphs */
    bool repeated;  /* again and again */
    bool verbose;  /* says how far it is */
    int shrink_seconds;
    worker_page total; /* of all workers */
    uint64_t failed_seed;
} driver;

/* Runs programs with `count` seeds from `from` on (count 0: without end), for at most `seconds` (0: no
 * limit). False, with everything said, where one failed: then d->failed_seed is set. */
bool drive(driver *d, uint64_t from, uint64_t count, int seconds);
/* Runs one program by itself, its output in *log (to be freed; or NULL). */
outcome run_alone(const driver *d, const program *p, int seconds, char **log);
/* Makes a failing program smaller, as long as it ends the same way. */
void shrink(const driver *d, program *p, outcome wanted);
/* As C. */
void print_program(const program *p, FILE *file);
/* Prints everything about a failing program: text, C, messages. */
void report(const driver *d, program *p);

#endif
