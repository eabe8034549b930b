/* Elementwise kernels on unsigned integers of 64 bits: the loops of unsigned.inc, in one version for all processors, which keeps the
 * library small. */
#include "codelets/elementwise.h"
#include "codelets/expressions.h"
#include "codelets/kernels.h"

typedef uint64_t T;

static T unsigned_power(T a, T b)
{
    T result = 1;
    for (T factor = a; b > 0; b >>= 1) {
        result *= b & 1 ? factor : 1;
        factor *= factor;
    }
    return result;
}

static bool are_close_unsigned(T a, T b, const double scalars[])
{
    const T difference = a > b ? a - b : b - a;
    return (difference == 0) | ((double)difference <= scalars[1] + fabs(scalars[0] * (double)b));
}

#define UNSIGNED(name, count, R, expression)                                                                 \
    static void name##_unsigned(void *out, const void *pa, const void *pb, const void *pc, int64_t n,        \
                                const double scalars[])                                                      \
    {                                                                                                        \
        const T s = (T)AS_int64_t(scalars, 0), t = (T)AS_int64_t(scalars, 1);                                \
        R *o = out;                                                                                          \
        const T *as = pa, *bs = (count) > 1 ? pb : pa;                                                       \
        (void)s, (void)t, (void)pc;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T a = as[i], b = bs[i];                                                                    \
            (void)b;                                                                                         \
            o[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
#include "codelets/unsigned.inc"

#define UNSIGNED(name, count, R, expression)                                                                 \
    [WEFT_KERNEL_##name - WEFT_KERNEL_ELEMENTWISE] = name##_unsigned,

const weft_elementwise_loop weft_unsigned_loops_table[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE] = {
#include "codelets/unsigned.inc"
};
