/* How a step on files ended, in words that all processes can be told. */
#ifndef WEFT_SRC_IO_OUTCOME_H
#define WEFT_SRC_IO_OUTCOME_H

#include "base/base.h"

enum { WEFT_OUTCOME_TEXT = 320 };

/* A multiple of 8 bytes, without padding. */
typedef struct weft_outcome {
    int64_t status; /* weft_status */
    char text[WEFT_OUTCOME_TEXT];
} weft_outcome;

enum { WEFT_OUTCOME_NUMBERS = sizeof(weft_outcome) / sizeof(int64_t) };

/* Keeps the first failure of an outcome. */
void weft_outcome_fail(weft_outcome *outcome, weft_status status, const char *format, ...) WEFT_PRINTF(3, 4);
/* A step of base/disk.h that failed with errno: "process 2 (rank 2): run.tmp: write: No space left on device". */
void weft_outcome_fail_disk(weft_outcome *outcome, const char *path, const char *step);
/* Reports one that all processes have agreed on as the error of a function; returns its status. */
weft_status weft_outcome_report(const char *function, const weft_outcome *outcome);
/* The outcome of one process, on all of them. A status with the error kept. */
weft_status weft_outcome_broadcast(const char *function, int process, weft_outcome *outcome);

/* The first failure of any process. `all`: of each process `count` numbers, which begin with its outcome. */
void weft_outcome_take_first(weft_outcome *outcome, int64_t count, const int64_t all[]);
/* Every process: `all` gets the numbers of all, which begin with outcomes. The first failure, kept as the error, on all of them. */
weft_status weft_outcome_agree(const char *function, int64_t count, const int64_t mine[], int64_t all[]);

#endif
