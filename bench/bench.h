/* Shared by the benchmarks: a clock, medians, and one JSON object per line. Figures are ratios of two
 * measurements alternating in one run, because machines differ and are noisy. */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/weft.h>

enum { BENCH_REPETITIONS = 7 };

static inline double bench_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline double bench_median(double values[], size_t count)
{
    qsort(values, count, sizeof(values[0]), bench_compare);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Exits with the library's message if an error is kept. */
static inline void bench_check(void)
{
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "bench: %s\n", weft_last_error());
        exit(1);
    }
}

#endif
