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
    const char *unit, *value;
    int64_t count;
    double started, printed;
} progress;

/* `count` of `unit` ("step") are to come, or 0: nobody knows how many. `value`: the name of what a step gives ("loss"). */
progress progress_start(const char *unit, int64_t count, const char *value, bool shown);
/* `done` of them have ended, the last with this value. */
void progress_update(progress *p, int64_t done, double value);
/* Removes the line. */
void progress_end(progress *p);

/* A curve of n values in block characters: at most `width` columns and `height` rows, in eighths of a row.
 * The bottom is 0; values must not be negative. */
void chart_print(FILE *file, int64_t n, const double values[], int width, int height);
/* The same with a logarithmic scale: a row for each power of ten, or for several if they are more than max_height.
 * `end` stands at the end of the axis. */
void chart_print_log(FILE *file, int64_t n, const double values[], int width, int max_height, int64_t end);

#endif
