#include "scalar.h"

double nearest(const scalars *v, double x)
{
    return v->type == WEFT_F32 ? (double)(float)x : x;
}

/* The exact result rounded once, if it is known up to `error`. */
static double step_of_type(scalars *v, double x, double error)
{
    v->exact &= !isfinite(x) || (error == 0 && nearest(v, x) == x);
    return nearest(v, x);
}

double product(scalars *v, double x, double y)
{
    double result = x * y;
    return step_of_type(v, result, isfinite(result) ? fma(x, y, -result) : 0);
}

double sum(scalars *v, double x, double y)
{
    double result = x + y, part = result - x;
    return step_of_type(v, result, isfinite(result) ? (x - (result - part)) + (y - part) : 0);
}

double quotient(scalars *v, double x, double y)
{
    double result = x / y;
    return step_of_type(v, result, isfinite(result) && isfinite(y) ? fma(result, y, -x) : 0);
}

double inexact(scalars *v, double x)
{
    v->exact = false;
    return x;
}

double inexact_by(scalars *v, double x, double magnitude)
{
    v->magnitude = magnitude;
    return inexact(v, x);
}

void depends_on_sign_of(scalars *v, double x)
{
    v->unsure |= x == 0 && !v->zeros_known;
}

int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

int64_t wrap_multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

int64_t wrap_power(int64_t a, int64_t b)
{
    if (b < 0) {
        return a == 1 ? 1 : a != -1 ? 0 : b % 2 == 0 ? 1 : -1;
    }
    int64_t result = 1;
    for (; b > 0; b >>= 1) {
        result = b & 1 ? wrap_multiply(result, a) : result;
        a = wrap_multiply(a, a);
    }
    return result;
}
