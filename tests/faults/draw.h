/* The program and the fault of a seed. */
#ifndef WEFT_TESTS_DRAW_H
#define WEFT_TESTS_DRAW_H

#include <stdbool.h>
#include <stdint.h>

/* Expected end. A process that dies or stays stopped is not checked. */
typedef enum expectation {
    ALL_WELL,     /* right results, no error */
    OTHERS_FAIL,  /* all but the culprit end with an error */
    ALL_FAIL,     /* the culprit too */
    ALL_AGREE,    /* all end well, or all with an error */
    OTHERS_AGREE, /* the same, but the culprit may die */
    LAUNCHER_ENDS /* processes that end with a status had no wrong result; mpirun ends the others */
} expectation;

typedef struct fault_case {
    uint64_t seed;
    int processes, culprit, timeout_s;
    char fault[32], moment[16], number[16]; /* arguments of the victim */
    bool check, packed, two_ranks, two_workers, calibrates;
    bool graph; /* the program's steps are captured and replayed */
    bool launched; /* by mpirun; one process may go without */
    bool recovers; /* mpirun lets the others go on when one dies */
    expectation expected;
} fault_case;

fault_case draw(uint64_t seed);
/* One line. Returns text. */
const char *describe(const fault_case *c, char *text, int size);

#endif
