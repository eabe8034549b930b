#include "codelets/cpu/line_sums.h"

#include <math.h>

#include "codelets/cpu/clones.h"
#include "codelets/functions.h"

/* Lanes of a reduction, enough to hide the latency of an operation. More lanes slow down sums of rows that
 * come from memory. */
enum { SUM_LANES = 16, MAX_LANES = 32, BLOCK = 512 };

/* a: the result so far, b: the next value. Whole groups of LANES values go to one lane each; then the
 * lanes are combined pairwise, and the remaining values one by one. `prepared` is computed from value i. */
#define IN_LANES(T, LANES, start, prepared, operation)                                                       \
    T lanes[LANES], total = (start);                                                                         \
    int64_t first = 0;                                                                                       \
    if (n >= LANES) {                                                                                        \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            lanes[lane] = (start);                                                                           \
        }                                                                                                    \
        for (; first + LANES <= n; first += LANES) {                                                         \
            for (int lane = 0; lane < LANES; lane++) { /* vectorised */                                      \
                const int64_t i = first + lane;                                                              \
                const T a = lanes[lane], b = prepared;                                                       \
                lanes[lane] = operation;                                                                     \
            }                                                                                                \
        }                                                                                                    \
        for (int half = LANES / 2; half > 0; half /= 2) {                                                    \
            for (int lane = 0; lane < half; lane++) {                                                        \
                const T a = lanes[lane], b = lanes[lane + half];                                             \
                lanes[lane] = operation;                                                                     \
            }                                                                                                \
        }                                                                                                    \
        total = lanes[0];                                                                                    \
    }                                                                                                        \
    for (int64_t i = first; i < n; i++) {                                                                    \
        const T a = total, b = prepared;                                                                     \
        total = operation;                                                                                   \
    }

/* Value i of each array as double. */
#define X ((double)values[i])
#define Y ((double)others[i])
#define SUM(name, T, prepared)                                                                               \
    WEFT_CLONES static double name(const T *values, const T *others, double centre, int64_t n)               \
    {                                                                                                        \
        (void)others, (void)centre;                                                                          \
        IN_LANES(double, SUM_LANES, 0, prepared, a + b)                                                      \
        return total;                                                                                        \
    }

#define LINE(T, exponential, exponential_below, exponential_short)                                           \
    WEFT_CLONES static double max_##T(const T *values, int64_t n)                                            \
    {                                                                                                        \
        IN_LANES(T, MAX_LANES, (T)-INFINITY, values[i], b > a ? b : a)                                       \
        return (double)total;                                                                                \
    }                                                                                                        \
    WEFT_CLONES static void exp_##T(T *out, const T *values, T most, int64_t n)                              \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = exponential(values[i] - most);                                                          \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void exp_below_##T(T *out, const T *values, T most, int64_t n)                        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = exponential_below(values[i] - most);                                                    \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void exp_short_##T(T *out, const T *values, T most, int64_t n)                        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = exponential_short(values[i] - most);                                                    \
        }                                                                                                    \
    }                                                                                                        \
    SUM(sum_##T, T, X)                                                                                       \
    SUM(sum_product_##T, T, X *Y)                                                                            \
    SUM(sum_square_##T, T, X *X)                                                                             \
    SUM(sum_square_from_##T, T, (X - centre) * (X - centre))

/* The lanes of sums are unrolled as a whole, which GCC reports as blocks. */
LINE(float, weft_exp_f32, weft_exp_below_f32, weft_exp_short_f32) /* not vectorised: sum */
LINE(double, weft_exp_f64, weft_exp_f64, weft_exp_f64)            /* not vectorised: sum */

double weft_line_max(weft_dtype type, const void *values, int64_t n)
{
    return type == WEFT_F64 ? max_double(values, n) : max_float(values, n);
}

double weft_line_sum(weft_dtype type, const void *values, int64_t n)
{
    return type == WEFT_F64 ? sum_double(values, values, 0, n) : sum_float(values, values, 0, n);
}

double weft_line_sum_product(weft_dtype type, const void *values, const void *others, int64_t n)
{
    return type == WEFT_F64 ? sum_product_double(values, others, 0, n)
                            : sum_product_float(values, others, 0, n);
}

double weft_line_sum_square(weft_dtype type, const void *values, double centre, int64_t n)
{
    if (centre == 0) { /* the same bits, sooner */
        return type == WEFT_F64 ? sum_square_double(values, values, 0, n) : sum_square_float(values, values, 0, n);
    }
    return type == WEFT_F64 ? sum_square_from_double(values, values, centre, n)
                            : sum_square_from_float(values, values, centre, n);
}

void weft_line_exp(weft_dtype type, void *out, const void *values, double most, int64_t n)
{
    if (type == WEFT_F64) {
        exp_double(out, values, most, n);
    } else {
        exp_float(out, values, (float)most, n);
    }
}

void weft_line_exp_below(weft_dtype type, void *out, const void *values, double most, int64_t n)
{
    if (type == WEFT_F64) {
        exp_below_double(out, values, most, n);
    } else {
        exp_below_float(out, values, (float)most, n);
    }
}

static void line_exp_short(weft_dtype type, void *out, const void *values, double most, int64_t n)
{
    if (type == WEFT_F64) {
        exp_short_double(out, values, most, n);
    } else {
        exp_short_float(out, values, (float)most, n);
    }
}

typedef void (*line_exp)(weft_dtype type, void *out, const void *values, double most, int64_t n);

static double sum_in_blocks(line_exp exponentials, weft_dtype type, const void *values, double most, int64_t n)
{
    union {
        float f32[BLOCK];
        double f64[BLOCK];
    } block;
    size_t size = weft_dtype_size(type);
    double total = 0;
    for (int64_t first = 0, some; first < n; first += some) {
        some = n - first < BLOCK ? n - first : BLOCK;
        exponentials(type, &block, (const char *)values + (size_t)first * size, most, some);
        total += weft_line_sum(type, &block, some);
    }
    return total;
}

double weft_line_sum_exp(weft_dtype type, const void *values, double most, int64_t n)
{
    return sum_in_blocks(weft_line_exp, type, values, most, n);
}

double weft_line_sum_exp_below(weft_dtype type, const void *values, double most, int64_t n)
{
    return sum_in_blocks(weft_line_exp_below, type, values, most, n);
}

double weft_line_sum_exp_short(weft_dtype type, const void *values, double most, int64_t n)
{
    return sum_in_blocks(line_exp_short, type, values, most, n);
}

double weft_line_exp_below_and_sum(weft_dtype type, void *out, const void *values, double most, int64_t n)
{
    size_t size = weft_dtype_size(type);
    double total = 0;
    for (int64_t first = 0, some; first < n; first += some) {
        some = n - first < BLOCK ? n - first : BLOCK;
        char *block = (char *)out + (size_t)first * size;
        weft_line_exp_below(type, block, (const char *)values + (size_t)first * size, most, some);
        total += weft_line_sum(type, block, some);
    }
    return total;
}
