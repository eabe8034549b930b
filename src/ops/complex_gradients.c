/* Gradients of elementwise functions of complex numbers: that of f(z) is the output's gradient times the conjugate of f'(z). */
#include "ops/unary.h"

bool weft_has_complex(const weft_gradient *of)
{
    bool found = weft_dtype_is_complex(weft_layout_of(weft_gradient_of_output(of, 0))->dtype);
    for (int i = 0; i < of->call->num_inputs && !found; i++) {
        found = weft_dtype_is_complex(weft_layout_of(of->call->inputs[i])->dtype);
    }
    return found;
}

static weft_tensor *minus(weft_tensor *a)
{
    return a == NULL ? NULL : weft_neg(a);
}

/* g times the conjugate of a factor. */
static weft_tensor *times(weft_tensor *g, weft_tensor *factor)
{
    return factor == NULL ? NULL : weft_mul(g, weft_conjugate(factor));
}

/* g divided by the conjugate of a divisor. */
static weft_tensor *by(weft_tensor *g, weft_tensor *divisor)
{
    return divisor == NULL ? NULL : weft_div(g, weft_conjugate(divisor));
}

/* p z^(p - 1); of z^0: 0. */
static weft_tensor *power_slope(weft_tensor *z, double p)
{
    return p == 0 ? weft_zeros_like(z) : weft_scale(weft_pow_scalar(z, p - 1), p);
}

/* Gradients of trigonometric and hyperbolic functions and their inverses. acosh's has two roots, so its cut is that of acosh. */
static weft_tensor *trigonometric_gradient(weft_kernel_id function, weft_tensor *g, weft_tensor *z, weft_tensor *y)
{
    switch (function) {
    case WEFT_KERNEL_sin:
        return times(g, weft_cos(z));
    case WEFT_KERNEL_cos:
        return minus(times(g, weft_sin(z)));
    case WEFT_KERNEL_tan:
        return times(g, weft_one_plus_square(y));
    case WEFT_KERNEL_asin:
        return times(g, weft_rsqrt(weft_one_minus_square(z)));
    case WEFT_KERNEL_acos:
        return minus(times(g, weft_rsqrt(weft_one_minus_square(z))));
    case WEFT_KERNEL_atan:
        return by(g, weft_one_plus_square(z));
    case WEFT_KERNEL_sinh:
        return times(g, weft_cosh(z));
    case WEFT_KERNEL_cosh:
        return times(g, weft_sinh(z));
    case WEFT_KERNEL_asinh:
        return times(g, weft_rsqrt(weft_one_plus_square(z)));
    case WEFT_KERNEL_acosh:
        return times(g, weft_mul(weft_rsqrt(weft_add_scalar(z, -1)), weft_rsqrt(weft_add_scalar(z, 1))));
    case WEFT_KERNEL_atanh:
        return by(g, weft_one_minus_square(z));
    default: /* tanh */
        return times(g, weft_one_minus_square(y));
    }
}

weft_tensor *weft_complex_gradient(const weft_gradient *of, weft_kernel_id function)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *z = of->call->inputs[0], *y = of->outputs[0];
    switch (function) {
    case WEFT_KERNEL_abs:
        return weft_mul(weft_sgn(z), g);
    case WEFT_KERNEL_square:
        return times(g, weft_scale(z, 2));
    case WEFT_KERNEL_exp2:
        return times(g, weft_scale(y, WEFT_LN2));
    case WEFT_KERNEL_expm1:
        return times(g, weft_add_scalar(y, 1));
    case WEFT_KERNEL_log1p:
        return by(g, weft_add_scalar(z, 1));
    case WEFT_KERNEL_log2:
        return by(g, weft_scale(z, WEFT_LN2));
    case WEFT_KERNEL_log10:
        return by(g, weft_scale(z, WEFT_LN10));
    case WEFT_KERNEL_reciprocal:
        return minus(times(g, weft_square(y)));
    case WEFT_KERNEL_sqrt:
        return by(g, weft_scale(y, 2));
    case WEFT_KERNEL_rsqrt:
        return times(g, weft_scale(weft_mul(weft_square(y), y), -0.5));
    case WEFT_KERNEL_sigmoid:
        return times(g, weft_sub(y, weft_square(y)));
    case WEFT_KERNEL_pow_scalar:
        return times(g, power_slope(z, of->call->scalars[0]));
    default:
        return trigonometric_gradient(function, g, z, y);
    }
}

/* a^0 does not depend on a, nor 0^b on b where its real part is not below 0. */
static weft_tensor *base_gradient(weft_tensor *g, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *less = weft_add_scalar(b, -1), *zero = is_zero(b);
    weft_tensor *slope = less == NULL || zero == NULL ? NULL : weft_mul(b, weft_pow(a, less));
    weft_tensor *gradient = times(g, slope);
    return gradient == NULL ? NULL : weft_zero_where(zero, gradient);
}

static weft_tensor *exponent_gradient(weft_tensor *g, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *part = weft_real(b), *origin = is_zero(a);
    weft_tensor *constant = part == NULL || origin == NULL ? NULL : weft_logical_and(origin, weft_ge_scalar(part, 0));
    weft_tensor *base = constant == NULL ? NULL : weft_masked_fill(a, constant, 1);
    weft_tensor *gradient = base == NULL ? NULL : times(g, weft_mul(weft_pow(base, b), weft_log(base)));
    return gradient == NULL ? NULL : weft_zero_where(constant, gradient);
}

bool weft_complex_power_gradients(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *a = of->call->inputs[0], *b = of->call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, base_gradient(g, a, b))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, exponent_gradient(g, a, b)));
}
