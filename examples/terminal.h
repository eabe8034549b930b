/* Output on a terminal: a progress line and a small chart. */
#ifndef EXAMPLES_TERMINAL_H
#define EXAMPLES_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Seconds of a monotonic clock. */
double seconds_now(void);

/* One line on standard error, rewritten in place; silent unless that is a terminal. */
typedef struct progress {
    bool shown;
    int64_t steps;
    double started, printed;
} progress;

progress progress_start(int64_t steps, bool shown);
/* `done` steps have ended, the last with this loss. */
void progress_update(progress *p, int64_t done, double loss);
/* Removes the line. */
void progress_end(progress *p);

/* A curve of n values in block characters: at most `width` columns and `height` rows, in eighths of a row.
 * The bottom is 0; values must not be negative. */
void chart_print(FILE *file, int64_t n, const double values[], int width, int height);

#endif
