/* Special functions of one or two values. Derivatives are made of other functions. */
#include <math.h>

#include "ops/unary.h"

#define SPECIAL(name_, derivative, reads_)                                                                   \
    GRADIENT(name_, weft_mul(g, derivative))                                                                 \
    UNARY(name_, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, ONE(name_, reads_))

/* The derivative subtracts what is nearly equal: it is computed in double precision from x, which is a, and rounded once. */
static weft_tensor *rounded(const weft_tensor *gradient, weft_tensor *derivative)
{
    return derivative == NULL ? NULL : weft_to_type(derivative, weft_layout_of(gradient)->dtype);
}

#define SPECIAL_WIDE(name_, derivative)                                                                      \
    static weft_tensor *derivative_of_##name_(weft_tensor *x)                                                \
    {                                                                                                        \
        return x == NULL ? NULL : (derivative);                                                              \
    }                                                                                                        \
    SPECIAL(name_, rounded(g, derivative_of_##name_(weft_to_type(a, WEFT_F64))), IN_0)

/* ---- the gamma function -------------------------------------------------------------------------------- */

SPECIAL(lgamma, weft_digamma(a), IN_0)
SPECIAL(digamma, weft_polygamma(a, 1), IN_0)

GRADIENT(polygamma, weft_mul(g, weft_polygamma(a, (int)s + 1)))
static const weft_operation operation_polygamma = {
    .name = "polygamma",
    .rules = { "A->A" },
    .gradient = ONE(polygamma, IN_0),
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_FLOATING,
    .kernel = WEFT_KERNEL_polygamma,
};

weft_tensor *weft_polygamma(weft_tensor *a, int n)
{
    static const char function[] = "weft_polygamma";
    enum { MOST = 160 }; /* factorials beyond are infinite */
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (n < 0 || n > MOST) {
        weft_fail(WEFT_ERR_INVALID, function, "n is %d, expected 0 to %d", n, (int)MOST);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = n == 0 ? &operation_digamma : &operation_polygamma,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { n } });
}

/* ---- Bessel functions ---------------------------------------------------------------------------------- */

/* A derivative that is a quotient, with its value at 0. */
static weft_tensor *at_zero(weft_tensor *derivative, weft_tensor *a, double value)
{
    return weft_masked_fill(derivative, weft_eq_scalar(a, 0), value);
}

SPECIAL(i0, weft_i1(a), IN_0)
SPECIAL_WIDE(i1, at_zero(weft_sub(weft_i0(x), weft_div(weft_i1(x), x)), x, 0.5))
SPECIAL_WIDE(i0e, weft_sub(weft_i1e(x), weft_mul(weft_sign(x), weft_i0e(x))))
SPECIAL_WIDE(i1e, at_zero(weft_sub(weft_i0e(x), weft_mul(weft_i1e(x), weft_add(weft_sign(x), weft_reciprocal(x)))), x, 0.5))
SPECIAL(bessel_j0, weft_neg(weft_bessel_j1(a)), IN_0)
SPECIAL_WIDE(bessel_j1, at_zero(weft_sub(weft_bessel_j0(x), weft_div(weft_bessel_j1(x), x)), x, 0.5))

/* ---- the normal distribution --------------------------------------------------------------------------- */

static const double root_of_two_pi = 2.50662827463100050242, log_of_root = 0.91893853320467274178;

/* exp(s a^2 + c) */
static weft_tensor *exp_of_square(weft_tensor *a, double s, double c)
{
    return weft_exp(weft_add_scalar(weft_scale(weft_square(a), s), c));
}

SPECIAL(ndtr, exp_of_square(a, -0.5, -log_of_root), IN_0)
SPECIAL(ndtri, weft_scale(exp_of_square(y, 0.5, 0), root_of_two_pi), OUT)
SPECIAL_WIDE(log_ndtr, weft_exp(weft_sub(weft_add_scalar(weft_scale(weft_square(x), -0.5), -log_of_root), weft_log_ndtr(x))))

/* ---- others -------------------------------------------------------------------------------------------- */

SPECIAL(entr, weft_add_scalar(weft_neg(weft_log(a)), -1), IN_0)
SPECIAL(logit,
        weft_masked_fill(weft_reciprocal(weft_mul(a, weft_add_scalar(weft_neg(a), 1))),
                         weft_lt_scalar(weft_mul(a, weft_add_scalar(weft_neg(a), 1)), 0), NAN),
        IN_0)
SPECIAL_WIDE(sinc, at_zero(weft_div(weft_sub(weft_cos(weft_scale(x, 3.14159265358979323846)), weft_sinc(x)), x), x, 0))

GRADIENTS(xlog1py, weft_xlog1py(g, b), weft_mul(g, weft_div(a, weft_add_scalar(b, 1))))
BINARY(xlog1py, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, BOTH(xlog1py, IN_1, IN_0 | IN_1))

/* 2^a / (2^a + 2^b) */
GRADIENTS(logaddexp2, weft_mul(g, weft_exp2(weft_sub(a, y))), weft_mul(g, weft_exp2(weft_sub(b, y))))
BINARY(logaddexp2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, BOTH(logaddexp2, IN_0 | OUT, IN_1 | OUT))

static weft_tensor *zeta_by_exponent(const weft_gradient *of)
{
    weft_fail(WEFT_ERR_UNSUPPORTED, of->call->function, "no gradient for a, the exponent");
    return NULL;
}

GRADIENTS(zeta, zeta_by_exponent(of), weft_mul(g, weft_neg(weft_mul(a, weft_zeta(weft_add_scalar(a, 1), b)))))
BINARY(zeta, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, BOTH(zeta, IN_0 | IN_1, IN_0 | IN_1))

/* A step of a, which has b in its place where a is 0. */
GRADIENT_FUNCTION(heaviside, !weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weft_zero_where(weft_ne_scalar(a, 0), g)))
BINARY(heaviside, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(heaviside, 0, IN_0))
BINARY(gcd, WEFT_TYPES_INTEGER, WEFT_TYPE_PROMOTED, NOT_LINEAR, WEFT_GRADIENT_ZERO("integers"))
BINARY(lcm, WEFT_TYPES_INTEGER, WEFT_TYPE_PROMOTED, NOT_LINEAR, WEFT_GRADIENT_ZERO("integers"))

const weft_operation *const weft_special_operations[] = {
    &operation_lgamma,
    &operation_digamma,
    &operation_polygamma,
    &operation_i0,
    &operation_i1,
    &operation_i0e,
    &operation_i1e,
    &operation_bessel_j0,
    &operation_bessel_j1,
    &operation_ndtr,
    &operation_ndtri,
    &operation_log_ndtr,
    &operation_entr,
    &operation_logit,
    &operation_sinc,
    &operation_xlog1py,
    &operation_logaddexp2,
    &operation_zeta,
    &operation_heaviside,
    &operation_gcd,
    &operation_lcm,
    NULL,
};
