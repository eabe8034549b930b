/* Errors on standard error: each where it happens (WEFT_ON_ERROR), or, at the end, those that the program has
 * not looked at. */
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

/* "weft: ", and in a world of several processes which one this is. */
const char *weft_stderr_prefix(char *text, size_t size);

/* An error has happened, here: shown or not, or the end, as WEFT_ON_ERROR says. Any thread may call it. */
void weft_failure_show(const char *message);
/* A call has failed by it: counted until the program looks. So may this. */
void weft_failure_count(const char *message);
/* The program looks at the errors of the calling thread. */
void weft_failures_seen(void);
/* Tells how many failures the program has not looked at, and the first of them, and forgets them. Nothing
 * where there are none, or where each was shown. */
void weft_failures_tell(FILE *file);
void weft_failures_forget(void);

#endif
