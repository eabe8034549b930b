/* Redistributes and computes with a tensor while its last row is withheld by the kernel that makes it,
 * until the first task on a row of another rank has run. If tasks waited for whole tensors both would wait
 * for each other. */
#ifndef WEFT_TESTS_WITHHELD_H
#define WEFT_TESTS_WITHHELD_H

#include <weft/weft.h>

typedef struct withheld_result {
    bool consumed; /* the first process has computed with another rank's row */
    bool gave_up;  /* the last row was not withheld any longer, for nothing happened */
    bool right;    /* the values are right here */
} withheld_result;

/* Starts weft with so many ranks (0: one in each process), runs, and stops it. Operations: "withhold",
 * "consume". */
weft_status withheld_run(int ranks, withheld_result *result);

#endif
