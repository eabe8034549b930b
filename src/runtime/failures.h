/* Errors on standard error: each when it happens (WEFT_ON_ERROR), or at the end those that the program has
 * not queried. */
#ifndef WEFT_SRC_RUNTIME_FAILURES_H
#define WEFT_SRC_RUNTIME_FAILURES_H

#include <stdbool.h>
#include <stdio.h>

/* WEFT_ON_ERROR */
typedef enum weft_on_error {
    WEFT_ON_ERROR_KEEP, /* not set */
    WEFT_ON_ERROR_PRINT,
    WEFT_ON_ERROR_ABORT,
    WEFT_ON_ERROR_UNKNOWN
} weft_on_error;

weft_on_error weft_on_error_read(void);

/* "weft: ", and in a world of several processes the number of this one. */
const char *weft_stderr_prefix(char *text, size_t size);

/* Shows an error, aborts, or does nothing, by WEFT_ON_ERROR. Any thread. */
void weft_failure_show(const char *message);
/* Counts a failed call until the program queries errors. Any thread. */
void weft_failure_count(const char *message);
/* The program has queried the calling thread's errors. */
void weft_failures_seen(void);
/* Prints the number of unqueried failures and the first of them, and resets the count. Prints nothing if
 * there are none, or if each was shown. */
void weft_failures_tell(FILE *file);
void weft_failures_forget(void);

#endif
