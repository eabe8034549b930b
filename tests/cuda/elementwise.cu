/* The expressions of elementwise.inc as nvcc reads them: a kernel for each, and for each type of arithmetic. Compiled
 * by a test where there is an nvcc; what it gives is thrown away. */
#include <stdint.h>

#include "codelets/expressions.h"

#define LOOP(name, T_, R, count, expression)                                                                 \
    __global__ void name##_##T_(R *out, const T_ *as, const T_ *bs, const T_ *cs, int64_t n,                 \
                                const double *scalars)                                                       \
    {                                                                                                        \
        SCALARS(T_)                                                                                          \
        int64_t step = (int64_t)gridDim.x * blockDim.x;                                                      \
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {                 \
            const T a = as[i], b = (count) > 1 ? bs[i] : a, c = (count) > 2 ? cs[i] : a;                     \
            (void)a, (void)b, (void)c;                                                                       \
            out[i] = (R)(expression);                                                                        \
        }                                                                                                    \
    }
namespace weft_elementwise
{
#include "codelets/elementwise_loops.inc"
}
