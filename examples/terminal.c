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

progress progress_start(const char *unit, int64_t count, const char *value, bool shown)
{
    return (progress){ shown && isatty(STDERR_FILENO), unit, value, count, seconds_now(), 0 };
}

void progress_update(progress *p, int64_t done, double value)
{
    double now = seconds_now(), elapsed = now - p->started;
    if (!p->shown || now - p->printed < 0.1) {
        return; /* at most ten lines a second */
    }
    p->printed = now;
    double rate = (double)done / elapsed;
    if (p->count > 0) {
        fprintf(stderr, "\r\033[K  %s %lld of %lld   %.0f %ss/s   %s %.3f   %.0f s left", p->unit, (long long)done,
                (long long)p->count, rate, p->unit, p->value, value, (double)(p->count - done) / rate);
    } else {
        fprintf(stderr, "\r\033[K  %s %lld   %.0f %ss/s   %s %.2e", p->unit, (long long)done, rate, p->unit, p->value,
                value);
    }
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}

/* Contents of a chart: n values, each drawn at the height `scale` of it, and the label beside a row of a height. */
typedef struct curve {
    int64_t n;
    const double *values;
    int columns;
    double (*scale)(double);
    void (*print_label)(FILE *file, double height);
    double bottom, top;
} curve;

/* Mean of the scaled values that fall into a column. */
static double column_mean(const curve *c, int column)
{
    int64_t first = c->n * column / c->columns, last = c->n * (column + 1) / c->columns;
    double sum = 0;
    for (int64_t i = first; i < last; i++) {
        sum += c->scale(c->values[i]);
    }
    return sum / (double)(last - first);
}

/* The part of the cell at (row, column) under the curve, in eighths; rows count from the bottom. */
static int cell_eighths(double column_height, int row)
{
    double filled = fmin(fmax(column_height - row, 0), 1); /* fmax also turns NaN into 0 */
    return (int)lround(8 * filled);
}

static void print_curve(FILE *file, const curve *c, int height, int64_t end)
{
    static const char *const eighths[] = { "", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    double range = c->top - c->bottom;
    for (int row = height - 1; row >= 0; row--) {
        c->print_label(file, c->bottom + range * (row + 1) / height);
        fputs(" │", file);
        int blanks = 0; /* printed only before other characters */
        for (int column = 0; column < c->columns; column++) {
            int filled = cell_eighths((column_mean(c, column) - c->bottom) / range * height, row);
            if (filled == 0) {
                blanks++;
                continue;
            }
            fprintf(file, "%*s%s", blanks, "", eighths[filled]);
            blanks = 0;
        }
        fputc('\n', file);
    }
    c->print_label(file, c->bottom);
    fputs(" └", file);
    for (int column = 0; column < c->columns; column++) {
        fputs("─", file);
    }
    fprintf(file, " %lld\n", (long long)end);
}

static double as_it_is(double value)
{
    return value;
}

static void print_number(FILE *file, double height)
{
    fprintf(file, "  %5.2f", height);
}

void chart_print(FILE *file, int64_t n, const double values[], int width, int height)
{
    curve c = { n, values, n < width ? (int)n : width, as_it_is, print_number, 0, 0 };
    for (int column = 0; column < c.columns; column++) {
        c.top = fmax(c.top, column_mean(&c, column));
    }
    print_curve(file, &c, height, n);
}

/* 0 has no logarithm: it lies at the bottom of all charts. */
static double decades(double value)
{
    return log10(fmax(value, 1e-300));
}

static void print_power(FILE *file, double height)
{
    fprintf(file, "  %5.0e", pow(10, height));
}

void chart_print_log(FILE *file, int64_t n, const double values[], int width, int max_height, int64_t end)
{
    curve c = { n, values, n < width ? (int)n : width, decades, print_power, 0, -300 };
    for (int64_t i = 0; i < n; i++) {
        c.bottom = fmin(c.bottom, floor(decades(values[i])));
        c.top = fmax(c.top, ceil(decades(values[i])));
    }
    double in_a_row = fmax(ceil((c.top - c.bottom) / max_height), 1); /* powers of ten */
    int height = (int)fmax(ceil((c.top - c.bottom) / in_a_row), 1);
    c.bottom = c.top - height * in_a_row;
    print_curve(file, &c, height, end);
}
