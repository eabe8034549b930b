/* The expressions of elementwise.inc as nvcc reads them: a kernel for each, and for each type of arithmetic. Compiled
 * by a test where there is an nvcc; what it gives is thrown away. */
#include <stdint.h>

#include "codelets/expressions.h"

/* T: the type of the arithmetic; a, b, c: the inputs; s, t, u, v: the scalars. As in cpu/elementwise.c. */
#define LOOP(name, T_, R, count, expression)                                                                 \
    __global__ void name##_##T_(R *out, const T_ *as, const T_ *bs, const T_ *cs, int64_t n,                 \
                                const double *scalars)                                                       \
    {                                                                                                        \
        typedef T_ T;                                                                                        \
        const T s = AS_##T_(scalars[0]), t = AS_##T_(scalars[1]), u = AS_##T_(scalars[2]),                   \
                v = AS_##T_(scalars[3]);                                                                     \
        int64_t step = (int64_t)gridDim.x * blockDim.x;                                                      \
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {                 \
            const T a = as[i], b = (count) > 1 ? bs[i] : a, c = (count) > 2 ? cs[i] : a;                     \
            (void)a, (void)b, (void)c, (void)s, (void)t, (void)u, (void)v;                                   \
            out[i] = (R)(expression);                                                                        \
        }                                                                                                    \
    }

#define WEFT_FLOATING(name, inputs, expression)                                                              \
    LOOP(name, double, double, inputs, expression)                                                           \
    LOOP(name, float, float, inputs, expression)
#define WEFT_NUMBER(name, inputs, expression, integer)                                                       \
    WEFT_FLOATING(name, inputs, expression)                                                                  \
    LOOP(name, int64_t, int64_t, inputs, integer)
#define WEFT_TRUTH(name, inputs, expression)                                                                 \
    LOOP(name, double, uint8_t, inputs, expression)                                                          \
    LOOP(name, float, uint8_t, inputs, expression)                                                           \
    LOOP(name, int64_t, uint8_t, inputs, expression)
namespace weft_elementwise
{
#include "codelets/elementwise.inc"
}
