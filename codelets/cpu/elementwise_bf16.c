/* Elementwise kernels whose operands are all WEFT_BF16: converted in registers, while elementwise.c converts whole blocks. The
 * arithmetic is that of WEFT_F32 there, with the same bits. */
#include "codelets/elementwise.h"

#include "codelets/cpu/clones.h"
#include "codelets/expressions.h"

#define LOOP(name, count, expression)                                                                        \
    WEFT_CLONES static void name##_bf16(void *out, const void *pa, const void *pb, const void *pc, int64_t n, \
                                        const double scalars[])                                              \
    {                                                                                                        \
        SCALARS(float)                                                                                       \
        uint16_t *o = out;                                                                                   \
        const uint16_t *as = pa, *bs = (count) > 1 ? pb : pa, *cs = (count) > 2 ? pc : pa;                   \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            const T a = weft_bf16_to_f32(as[i]), b = weft_bf16_to_f32(bs[i]), c = weft_bf16_to_f32(cs[i]);   \
            (void)a, (void)b, (void)c;                                                                       \
            o[i] = weft_f32_to_bf16((T)(expression));                                                        \
        }                                                                                                    \
    }
#define WEFT_FLOATING(name, inputs, expression) LOOP(name, inputs, expression)
#define WEFT_NUMBER(name, inputs, expression, integer) LOOP(name, inputs, expression)
#define WEFT_TRUTH(name, inputs, expression)
#define WEFT_WHOLE(name, inputs, expression)
#include "codelets/elementwise.inc"
#include "codelets/kernels_end.inc"

#define WEFT_FLOATING(name, inputs, expression) name##_bf16,
#define WEFT_NUMBER(name, inputs, expression, integer) name##_bf16,
#define WEFT_TRUTH(name, inputs, expression) NULL,
#define WEFT_WHOLE(name, inputs, expression) NULL,

const weft_elementwise_loop weft_elementwise_bf16_loops[] = {
#include "codelets/elementwise.inc"
};
