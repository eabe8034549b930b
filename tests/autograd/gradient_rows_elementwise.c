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
CALL(call_softplus_ex, weft_softplus(x[0], 1.5, 2))

CALL(call_fmax, weft_fmax(x[0], x[1]))
CALL(call_fmin, weft_fmin(x[0], x[1]))
CALL(call_copysign, weft_copysign(x[0], x[1]))
CALL(call_nan_to_num, weft_nan_to_num(x[0], 1, 2, 3))
CALL(call_frac, weft_frac(x[0]))
CALL(call_clamp_tensors, weft_clamp_tensors(x[0], x[1], x[2]))
CALL(call_clamp_least, weft_clamp_tensors(x[0], x[1], NULL))
CALL(call_clamp_most, weft_clamp_tensors(x[0], NULL, x[1]))
CALL(call_lerp_tensor, weft_lerp_tensor(x[0], x[1], x[2]))
CALL(call_masked_fill_tensor,
     weft_masked_fill_tensor(x[0], weft_gt_scalar(weft_detach(x[0]), 0.3), weft_select(x[1], 0, 0)))

CALL(call_erfinv, weft_erfinv(x[0]))
CALL(call_lgamma, weft_lgamma(weft_add_scalar(x[0], 2.5)))
CALL(call_i0, weft_i0(x[0]))
CALL(call_i0e, weft_i0e(x[0]))
CALL(call_i1, weft_i1(x[0]))
CALL(call_i1e, weft_i1e(x[0]))
CALL(call_bessel_j0, weft_bessel_j0(x[0]))
CALL(call_bessel_j1, weft_bessel_j1(x[0]))
CALL(call_ndtr, weft_ndtr(x[0]))
CALL(call_ndtri, weft_ndtri(weft_sigmoid(x[0])))
CALL(call_log_ndtr, weft_log_ndtr(x[0]))
CALL(call_entr, weft_entr(weft_sigmoid(x[0])))
CALL(call_logit, weft_logit(weft_sigmoid(x[0])))
CALL(call_sinc, weft_sinc(x[0]))
CALL(call_digamma, weft_digamma(weft_add_scalar(x[0], 2.5)))
CALL(call_polygamma, weft_polygamma(weft_add_scalar(x[0], 2.5), 3))
CALL(call_zeta, weft_zeta(weft_to_type(weft_full_like(x[0], 3), WEFT_I64), weft_add_scalar(x[0], 1.5)))
CALL(call_xlogy, weft_xlogy(x[0], x[1]))
CALL(call_heaviside, weft_heaviside(x[0], x[1])) /* where the first is 0: test_autograd_more.c */
CALL(call_xlog1py, weft_xlog1py(x[0], x[1]))
CALL(call_logaddexp2, weft_logaddexp2(x[0], x[1]))
CALL(call_cummax, weft_cummax(x[0], 0, NULL))
CALL(call_cummin, weft_cummin(x[0], 1, NULL))
CALL(call_index_put, weft_index_put(x[0], 1, &x[2], x[1], false))
CALL(call_index_put_added, weft_index_put(x[0], 1, &x[2], x[1], true))

const call_row gradient_rows_elementwise[] = {
    { THIS_ROW, { "5x2:w" }, call_asinh, false },
    { THIS_ROW, { "5x2:p" }, call_acosh, false },
    { THIS_ROW, { "5x2:u" }, call_atanh, false },
    { THIS_ROW, { "5x2:w" }, call_gelu_tanh, false },
    { THIS_ROW, { "5x2:w" }, call_mish, false },
    { THIS_ROW, { "5x2:w" }, call_hardsigmoid, false },
    { THIS_ROW, { "5x2:w" }, call_selu, false },
    { THIS_ROW, { "5x2:w" }, call_softplus_ex, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_fmax, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_fmin, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_copysign, false },
    { THIS_ROW, { "5x3:w" }, call_nan_to_num, false },
    { THIS_ROW, { "5x3:w" }, call_frac, false },
    { THIS_ROW, { "5x3:w", "3:w", "5x1:w" }, call_clamp_tensors, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_clamp_least, false },
    { THIS_ROW, { "5x3:w", "3:w" }, call_clamp_most, false },
    { THIS_ROW, { "5x3:w", "3:w", "5x1:u" }, call_lerp_tensor, false },
    { THIS_ROW, { "5x3:w", "2:u" }, call_masked_fill_tensor, false },
    { THIS_ROW, { "5x2:u" }, call_erfinv, false },
    { THIS_ROW, { "5x2:u" }, call_lgamma, false },
    { THIS_ROW, { "5x2:w" }, call_i0, false },
    { THIS_ROW, { "5x2:w" }, call_i0e, false },
    { THIS_ROW, { "5x2:w" }, call_i1, false },
    { THIS_ROW, { "5x2:w" }, call_i1e, false },
    { THIS_ROW, { "5x2:w" }, call_bessel_j0, false },
    { THIS_ROW, { "5x2:w" }, call_bessel_j1, false },
    { THIS_ROW, { "5x2:w" }, call_ndtr, false },
    { THIS_ROW, { "5x2:w" }, call_ndtri, false },
    { THIS_ROW, { "5x2:w" }, call_log_ndtr, false },
    { THIS_ROW, { "5x2:w" }, call_entr, false },
    { THIS_ROW, { "5x2:w" }, call_logit, false },
    { THIS_ROW, { "5x2:w" }, call_sinc, false },
    { THIS_ROW, { "5x2:u" }, call_digamma, false },
    { THIS_ROW, { "5x2:u" }, call_polygamma, false },
    { THIS_ROW, { "5x2:u" }, call_zeta, false },
    { THIS_ROW, { "5x2:w", "2:p" }, call_xlogy, false },
    { THIS_ROW, { "5x2:p", "2:w" }, call_heaviside, false },
    { THIS_ROW, { "5x2:w", "2:p" }, call_xlog1py, false },
    { THIS_ROW, { "5x2:w", "2:w" }, call_logaddexp2, false },
    { THIS_ROW, { "5x3:w" }, call_cummax, false },
    { THIS_ROW, { "5x3:w" }, call_cummin, false },
    { THIS_ROW, { "5x3:u", "4x3:u", "4:i5" }, call_index_put, false },
    { THIS_ROW, { "5x3:u", "4x3:u", "4:i5" }, call_index_put_added, false },
    { .call = NULL },
};
