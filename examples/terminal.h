/* What a person sees while a program runs, and after: a progress line and a small chart. */
#ifndef CHAR_LM_TERMINAL_H
#define CHAR_LM_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Seconds on a clock that only goes forward. */
double seconds_now(void);

/* One line on standard error that is rewritten in place; silent where that is no terminal. */
typedef struct progress {
    bool shown;
    int64_t steps;
    double started, printed;
} progress;

progress progress_start(int64_t steps, bool shown);
/* `done` steps are known to have ended, the last with this loss. */
void progress_update(progress *p, int64_t done, double loss);
/* Removes the line. */
void progress_end(progress *p);

/* A curve of n values over their number, in block characters: at most `width` columns, `height` rows, as fine
 * as an eighth of a row. The bottom is 0; values must not be negative. */
void chart_print(FILE *file, int64_t n, const double values[], int width, int height);

#endif
