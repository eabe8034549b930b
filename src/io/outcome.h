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

/* Keeps the first failure of an outcome. */
void weft_outcome_fail(weft_outcome *outcome, weft_status status, const char *format, ...) WEFT_PRINTF(3, 4);
/* A step of base/disk.h that failed with errno: "process 2 (rank 2): run.tmp: write: No space left on device". */
void weft_outcome_fail_disk(weft_outcome *outcome, const char *path, const char *step);
/* Reports it as the error of a function; returns its status. */
weft_status weft_outcome_report(const char *function, const weft_outcome *outcome);

#endif
