#include "codelets/cpu/line_sums.h"

#include <math.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/functions.h"

enum { LANES = 16, BLOCK = 512 };

/* x: value i as a double, y: that of the other values. */
#define SUM(name, T, expression)                                                                             \
    WEFT_CLONES static double name(const T *values, const T *others, double centre, int64_t n)               \
    {                                                                                                        \
        double lanes[LANES] = { 0 };                                                                         \
        int64_t i = 0;                                                                                       \
        (void)centre;                                                                                        \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                double x = (double)values[i + lane], y = (double)others[i + lane];                           \
                (void)y;                                                                                     \
                lanes[lane] += (expression);                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (int lane = 0; i < n; i++, lane++) {                                                             \
            double x = (double)values[i], y = (double)others[i];                                             \
            (void)y;                                                                                         \
            lanes[lane] += (expression);                                                                     \
        }                                                                                                    \
        double total = 0;                                                                                    \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            total += lanes[lane];                                                                            \
        }                                                                                                    \
        return total;                                                                                        \
    }

#define LINE(T, exponential)                                                                                 \
    WEFT_CLONES static double max_##T(const T *values, int64_t n)                                            \
    {                                                                                                        \
        T lanes[LANES], most = (T)-INFINITY;                                                                 \
        int64_t i = 0;                                                                                       \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            lanes[lane] = most;                                                                              \
        }                                                                                                    \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            for (int lane = 0; lane < LANES; lane++) {                                                       \
                T x = values[i + lane];                                                                      \
                lanes[lane] = x > lanes[lane] ? x : lanes[lane];                                             \
            }                                                                                                \
        }                                                                                                    \
        for (int lane = 0; lane < LANES; lane++) {                                                           \
            most = lanes[lane] > most ? lanes[lane] : most;                                                  \
        }                                                                                                    \
        for (; i < n; i++) {                                                                                 \
            most = values[i] > most ? values[i] : most;                                                      \
        }                                                                                                    \
        return (double)most;                                                                                 \
    }                                                                                                        \
    WEFT_CLONES static void exp_##T(T *out, const T *values, T most, int64_t n)                              \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            out[i] = exponential(values[i] - most);                                                          \
        }                                                                                                    \
    }                                                                                                        \
    SUM(sum_##T, T, x)                                                                                       \
    SUM(sum_product_##T, T, x *y)                                                                            \
    SUM(sum_square_##T, T, (x - centre) * (x - centre))

LINE(float, weft_exp_f32)
LINE(double, weft_exp_f64)

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
    return type == WEFT_F64 ? sum_square_double(values, values, centre, n)
                            : sum_square_float(values, values, centre, n);
}

void weft_line_exp(weft_dtype type, void *out, const void *values, double most, int64_t n)
{
    if (type == WEFT_F64) {
        exp_double(out, values, most, n);
    } else {
        exp_float(out, values, (float)most, n);
    }
}

double weft_line_sum_exp(weft_dtype type, const void *values, double most, int64_t n)
{
    union {
        double f64[BLOCK];
        float f32[BLOCK];
    } block;
    size_t size = weft_dtype_size(type);
    double total = 0;
    for (int64_t first = 0, some; first < n; first += some) {
        some = n - first < BLOCK ? n - first : BLOCK;
        weft_line_exp(type, &block, (const char *)values + (size_t)first * size, most, some);
        total += weft_line_sum(type, &block, some);
    }
    return total;
}
