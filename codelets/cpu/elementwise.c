/* Elementwise kernels: a loop for each expression of elementwise.inc and each type of arithmetic.
 * elementwise_run.c runs them. */
#include "codelets/elementwise.h"

#include "codelets/cpu/clones.h"
#include "codelets/expressions.h"

/* T: the type of the arithmetic; a, b, c: the inputs; s, t, u, v: the scalars. */
#define LOOP(name, T_, R, count, expression)                                                                 \
    WEFT_CLONES static void name##_##T_(void *out, const void *pa, const void *pb, const void *pc,           \
                                        int64_t n, const double scalars[])                                   \
    {                                                                                                        \
        typedef T_ T;                                                                                        \
        R *o = out;                                                                                          \
        const T *as = pa, *bs = (count) > 1 ? pb : pa, *cs = (count) > 2 ? pc : pa;                          \
        const T s = AS_##T_(scalars[0]), t = AS_##T_(scalars[1]), u = AS_##T_(scalars[2]),                   \
                v = AS_##T_(scalars[3]);                                                                     \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const T a = as[i], b = bs[i], c = cs[i];                                                         \
            (void)a, (void)b, (void)c, (void)s, (void)t, (void)u, (void)v;                                   \
            o[i] = (R)(expression);                                                                          \
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
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"

#define WEFT_FLOATING(name, inputs, expression) { name##_double, name##_float, NULL },
#define WEFT_NUMBER(name, inputs, expression, integer) { name##_double, name##_float, name##_int64_t },
#define WEFT_TRUTH(name, inputs, expression) { name##_double, name##_float, name##_int64_t },

const weft_elementwise_loops weft_elementwise_loops_table[] = {
#include "codelets/elementwise.inc"
};
