/* Gradients of elementwise functions beside those of test_gradients.c. */
#include "gradient_rows.h"

#define UNARY_CALL(name_) CALL(call_##name_, weft_##name_(x[0]))

UNARY_CALL(asinh)
CALL(call_acosh, weft_acosh(weft_add_scalar(x[0], 1.5)))
UNARY_CALL(atanh)
UNARY_CALL(gelu_tanh)
UNARY_CALL(mish)
UNARY_CALL(hardsigmoid)
UNARY_CALL(selu)
CALL(call_softplus_ex, weft_softplus_ex(x[0], 1.5, 2))

const call_row gradient_rows_elementwise[] = {
    { THIS_ROW, { "5x2:w" }, call_asinh, false },
    { THIS_ROW, { "5x2:p" }, call_acosh, false },
    { THIS_ROW, { "5x2:u" }, call_atanh, false },
    { THIS_ROW, { "5x2:w" }, call_gelu_tanh, false },
    { THIS_ROW, { "5x2:w" }, call_mish, false },
    { THIS_ROW, { "5x2:w" }, call_hardsigmoid, false },
    { THIS_ROW, { "5x2:w" }, call_selu, false },
    { THIS_ROW, { "5x2:w" }, call_softplus_ex, false },
    { .call = NULL },
};
