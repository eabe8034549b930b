#include "terminal.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

progress progress_start(int64_t steps, bool shown)
{
    return (progress){ shown && isatty(STDERR_FILENO), steps, seconds_now(), 0 };
}

void progress_update(progress *p, int64_t done, double loss)
{
    double now = seconds_now(), elapsed = now - p->started;
    if (!p->shown || now - p->printed < 0.1) {
        return; /* at most ten lines a second */
    }
    p->printed = now;
    double rate = (double)done / elapsed;
    fprintf(stderr, "\r\033[K  step %lld of %lld   %.0f steps/s   loss %.3f   %.0f s left", (long long)done,
            (long long)p->steps, rate, loss, (double)(p->steps - done) / rate);
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

/* Mean of the values that fall into a column. */
static double column_mean(int64_t n, const double values[], int column, int columns)
{
    int64_t first = n * column / columns, last = n * (column + 1) / columns;
    double sum = 0;
    for (int64_t i = first; i < last; i++) {
        sum += values[i];
    }
    return sum / (double)(last - first);
}

/* The part of the cell at (row, column) under the curve, in eighths; rows count from the bottom. */
static int cell_eighths(double column_height, int row)
{
    double filled = fmin(fmax(column_height - row, 0), 1); /* fmax also turns NaN into 0 */
    return (int)lround(8 * filled);
}

void chart_print(FILE *file, int64_t n, const double values[], int width, int height)
{
    static const char *const eighths[] = { "", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    int columns = n < width ? (int)n : width;
    double top = 0;
    for (int column = 0; column < columns; column++) {
        top = fmax(top, column_mean(n, values, column, columns));
    }
    for (int row = height - 1; row >= 0; row--) {
        fprintf(file, "  %5.2f │", top * (row + 1) / height);
        int blanks = 0; /* printed only before other characters */
        for (int column = 0; column < columns; column++) {
            int filled = cell_eighths(column_mean(n, values, column, columns) / top * height, row);
            if (filled == 0) {
                blanks++;
                continue;
            }
            fprintf(file, "%*s%s", blanks, "", eighths[filled]);
            blanks = 0;
        }
        fputc('\n', file);
    }
    fputs("   0.00 └", file);
    for (int column = 0; column < columns; column++) {
        fputs("─", file);
    }
    fprintf(file, " %lld\n", (long long)n);
}
