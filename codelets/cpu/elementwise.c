/* Elementwise kernels: a loop for each expression of elementwise.inc and each type of arithmetic.
 * elementwise_run.c runs them. */
#include "codelets/elementwise.h"

#include "codelets/cpu/clones.h"
#include "codelets/expressions.h"

#define LOOP(name, T_, R, count, expression)                                                                 \
    WEFT_CLONES static void name##_##T_(void *out, const void *pa, const void *pb, const void *pc,           \
                                        int64_t n, const double scalars[])                                   \
    {                                                                                                        \
        SCALARS(T_)                                                                                          \
        R *o = out;                                                                                          \
        const T *as = pa, *bs = (count) > 1 ? pb : pa, *cs = (count) > 2 ? pc : pa;                          \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const T a = as[i], b = bs[i], c = cs[i];                                                         \
            (void)a, (void)b, (void)c;                                                                       \
            o[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
#include "codelets/elementwise_loops.inc"

#define WEFT_FLOATING(name, inputs, expression) { name##_double, name##_float, NULL },
#define WEFT_NUMBER(name, inputs, expression, integer) { name##_double, name##_float, name##_int64_t },
#define WEFT_TRUTH(name, inputs, expression) { name##_double, name##_float, name##_int64_t },
#define WEFT_WHOLE(name, inputs, expression) { NULL, NULL, name##_int64_t },

const weft_elementwise_loops weft_elementwise_loops_table[] = {
#include "codelets/elementwise.inc"
};
