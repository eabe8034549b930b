/* The process that runs programs, started by the driver, alone or under mpirun. */
#ifndef WEFT_TESTS_WORKER_H
#define WEFT_TESTS_WORKER_H

#include "run.h"

enum { MAX_OPERATIONS = 600, MAX_REGISTERED = 500 };

/* A file that process 0 of the worker and the driver both have in memory: also a worker that dies has said
 * where it was. */
typedef struct worker_page {
    volatile uint64_t seed;    /* of the program that is being run */
    volatile int64_t programs; /* that have been run */
    tally tally;
    int64_t calls[MAX_OPERATIONS]; /* of each row, in the order of operation_at() */
    int64_t dispatched
        [MAX_REGISTERED]; /* of each registered operation, in the order of weft_operation_families */
} worker_page;

/* Arguments of a worker. */
typedef struct order {
    const char *page, *file; /* file: one program as text, in place of seeds */
    const char *only;        /* rows, separated by commas; NULL: all */
    int processes;
    uint64_t from, count; /* seeds */
    bool gradients;       /* programs with gradients */
    bool graphs;          /* in captured graphs */
    bool repeated;        /* again and again */
    bool checks;          /* every world has WEFT_TASK_CACHE=check */
} order;

/* Does it; what main() returns. */
int worker(const order *o);

#endif
