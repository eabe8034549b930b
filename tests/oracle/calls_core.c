/* Elementwise operations, reductions, products, look-ups, losses, reshaping. */
#include "calls.h"

#include "ops/backward.h"

/* ---- calls with attributes ----------------------------------------------------------------------------- */

WITH_NUMBER(scale, "factor")
WITH_NUMBER(add_scalar, "addend")
WITH_NUMBER(pow_scalar, "exponent")
WITH_NUMBER(leaky_relu, "slope")
WITH_NUMBER(elu, "alpha")
WITH_NUMBER(scale_inplace, "factor")
WITH_NUMBER(fill_inplace, "value")
TWO_WITH_NUMBER(add_scaled, "factor")
TWO_WITH_NUMBER(lerp, "weight")
TWO_WITH_NUMBER(masked_fill, "value")
CALL(clamp_tensors)
{
    int bounds = (int)oracle_whole(c, "bounds");
    return weft_clamp_tensors(in[0], bounds & 1 ? in[1] : NULL, bounds & 2 ? in[c->num_inputs - 1] : NULL);
}

CALL(polygamma)
{
    return weft_polygamma(in[0], (int)oracle_whole(c, "n"));
}

CALL(nan_to_num)
{
    return weft_nan_to_num(in[0], oracle_number(c, "nan"), oracle_number(c, "posinf"), oracle_number(c, "neginf"));
}

TWO_WITH_NUMBER(leaky_relu_backward, "slope")
TWO_WITH_NUMBER(elu_backward, "alpha")
TWO_WITH_NUMBER(pow_scalar_backward, "exponent")
TWO_WITH_NUMBER(add_inplace, "alpha")
TWO_WITH_NUMBER(lerp_inplace, "weight")
THREE_WITH_NUMBER(addcmul, "factor")
THREE_WITH_NUMBER(addcdiv, "factor")
WITH_NUMBER(eq_scalar, "value")
WITH_NUMBER(ne_scalar, "value")
WITH_NUMBER(lt_scalar, "value")
WITH_NUMBER(le_scalar, "value")
WITH_NUMBER(gt_scalar, "value")
WITH_NUMBER(ge_scalar, "value")

CALL(norm_all)
{
    return weft_norm(in[0], oracle_number(c, "p"), WEFT_ALL_DIMS, false);
}

CALL(var_all)
{
    return weft_var(in[0], WEFT_ALL_DIMS, oracle_number(c, "correction"), false);
}

CALL(softplus)
{
    (void)c;
    return weft_softplus(in[0], 1, 20);
}

CALL(cross_entropy)
{
    (void)c;
    return weft_cross_entropy(in[0], in[1], NULL);
}

CALL(softplus_ex)
{
    return weft_softplus(in[0], oracle_number(c, "beta"), oracle_number(c, "threshold"));
}

CALL(clamp)
{
    return weft_clamp(in[0], oracle_number(c, "least"), oracle_number(c, "most"));
}

CALL(to_type)
{
    return weft_to_type(in[0], oracle_type(c, "type"));
}

CALL(matmul_ex)
{
    return weft_matmul_ex(in[0], oracle_number(c, "transpose_a") != 0, in[1],
                          oracle_number(c, "transpose_b") != 0);
}

CALL(embedding_backward)
{
    return weft_embedding_backward(in[0], in[1], oracle_whole(c, "num_rows"));
}

CALL(cross_entropy_backward)
{
    return weft_cross_entropy_backward(c->num_inputs > 2 ? in[2] : NULL, in[0], in[1]);
}

CALL(reshape)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = oracle_list(c, "shape", shape);
    return weft_reshape(in[0], ndim, shape);
}

CALL(norm)
{
    return weft_norm(in[0], oracle_number(c, "p"), (int)oracle_whole(c, "dim"), oracle_keepdim(c));
}

CALL(norm_over)
{
    int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
    return weft_norm(in[0], oracle_number(c, "p"), set_of_dims(count, dims), oracle_keepdim(c));
}

CALL(var)
{
    return weft_var(in[0], (int)oracle_whole(c, "dim"), oracle_number(c, "correction"), oracle_keepdim(c));
}

CALL(var_over)
{
    int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
    return weft_var(in[0], set_of_dims(count, dims), oracle_number(c, "correction"), oracle_keepdim(c));
}

CALL(std)
{
    return weft_std(in[0], (int)oracle_whole(c, "dim"), oracle_number(c, "correction"), oracle_keepdim(c));
}

CALL(std_over)
{
    int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
    return weft_std(in[0], set_of_dims(count, dims), oracle_number(c, "correction"), oracle_keepdim(c));
}

CALL(std_all)
{
    return weft_std(in[0], WEFT_ALL_DIMS, oracle_number(c, "correction"), false);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const oracle_operation oracle_core_operations[] = {
    BINARY(add, EXACT),
    BINARY(sub, EXACT),
    BINARY(mul, EXACT),
    BINARY(div, EXACT),
    BINARY(floor_div, EXACT),
    BINARY(remainder, WITHIN(1, "what is left over is rounded when the divisor is added")),
    BINARY(fmod, EXACT),
    BINARY(pow, LIBRARY),
    BINARY(maximum, EXACT),
    BINARY(minimum, EXACT),
    BINARY(atan2, LIBRARY),
    BINARY(hypot, LIBRARY),
    BINARY(logaddexp, LIBRARY),
    BINARY(xlogy, LIBRARY),
    BINARY(xlog1py, LIBRARY),
    BINARY(logaddexp2, LIBRARY),
    BINARY(zeta, SPECIAL),
    BINARY(heaviside, EXACT),
    BINARY(gcd, EXACT),
    BINARY(lcm, EXACT),
    CALLED(scale, SCALAR),
    CALLED(add_scalar, SCALAR),
    CALLED(pow_scalar, LIBRARY),
    CALLED(clamp, EXACT),
    CALLED(add_scaled, ROUNDINGS),
    CALLED(addcmul, ROUNDINGS),
    CALLED(addcdiv, ROUNDINGS),
    CALLED(lerp, ROUNDINGS),
    CALLED(to_type, EXACT),
    TERNARY(where, EXACT),
    CALLED(masked_fill, SCALAR),
    TERNARY(masked_fill_tensor, EXACT),
    CALLED(clamp_tensors, EXACT),
    TERNARY(lerp_tensor, ROUNDINGS),
    BINARY(fmax, EXACT),
    BINARY(fmin, EXACT),
    BINARY(copysign, EXACT),
    CALLED(nan_to_num, SCALAR),
    UNARY(frac, EXACT),
    BINARY(bitwise_and, EXACT),
    BINARY(bitwise_or, EXACT),
    BINARY(bitwise_xor, EXACT),
    UNARY(bitwise_not, EXACT),
    BINARY(bitwise_left_shift, EXACT),
    BINARY(bitwise_right_shift, EXACT),

    BINARY(eq, EXACT),
    BINARY(ne, EXACT),
    BINARY(lt, EXACT),
    BINARY(le, EXACT),
    BINARY(gt, EXACT),
    BINARY(ge, EXACT),
    CALLED(eq_scalar, EXACT),
    CALLED(ne_scalar, EXACT),
    CALLED(lt_scalar, EXACT),
    CALLED(le_scalar, EXACT),
    CALLED(gt_scalar, EXACT),
    CALLED(ge_scalar, EXACT),
    BINARY(logical_and, EXACT),
    BINARY(logical_or, EXACT),
    BINARY(logical_xor, EXACT),
    UNARY(logical_not, EXACT),
    UNARY(isnan, EXACT),
    UNARY(isinf, EXACT),
    UNARY(isfinite, EXACT),

    UNARY(neg, EXACT),
    UNARY(abs, EXACT),
    UNARY(sign, EXACT),
    UNARY(square, EXACT),
    UNARY(reciprocal, EXACT),
    UNARY(sqrt, EXACT),
    UNARY(rsqrt, ROUNDINGS),
    UNARY(exp, LIBRARY),
    UNARY(expm1, LIBRARY),
    UNARY(exp2, LIBRARY),
    UNARY(log, LIBRARY),
    UNARY(log1p, LIBRARY),
    UNARY(log2, LIBRARY),
    UNARY(log10, LIBRARY),
    UNARY(sin, LIBRARY),
    UNARY(cos, LIBRARY),
    UNARY(tan, LIBRARY),
    UNARY(asin, LIBRARY),
    UNARY(acos, LIBRARY),
    UNARY(atan, LIBRARY),
    UNARY(sinh, LIBRARY),
    UNARY(cosh, LIBRARY),
    UNARY(tanh, LIBRARY),
    UNARY(asinh, LIBRARY),
    UNARY(acosh, LIBRARY),
    UNARY(atanh, LIBRARY),
    UNARY(erf, LIBRARY),
    UNARY(erfc, LIBRARY),
    UNARY(erfinv, LIBRARY),
    UNARY(lgamma, SPECIAL),
    UNARY(i0, SPECIAL),
    UNARY(i0e, SPECIAL),
    UNARY(i1, SPECIAL),
    UNARY(i1e, SPECIAL),
    UNARY(bessel_j0, SPECIAL),
    UNARY(bessel_j1, SPECIAL),
    UNARY(ndtr, SPECIAL),
    UNARY(ndtri, SPECIAL),
    UNARY(log_ndtr, SPECIAL),
    UNARY(entr, SPECIAL),
    UNARY(logit, SPECIAL),
    UNARY(sinc, SPECIAL),
    UNARY(digamma, SPECIAL),
    CALLED(polygamma, SPECIAL),
    UNARY(floor, EXACT),
    UNARY(ceil, EXACT),
    UNARY(trunc, EXACT),
    UNARY(round, EXACT),
    UNARY(sigmoid, ROUNDINGS),
    UNARY(silu, ROUNDINGS),
    UNARY(relu, EXACT),
    UNARY(gelu, ROUNDINGS),
    CALLED(softplus, ROUNDINGS),
    UNARY(hardswish, ROUNDINGS),
    UNARY(gelu_tanh, ROUNDINGS),
    UNARY(mish, ROUNDINGS),
    UNARY(selu, ROUNDINGS),
    UNARY(hardsigmoid, ROUNDINGS),
    CALLED(softplus_ex, ROUNDINGS),
    CALLED(leaky_relu, SCALAR),
    CALLED(elu, LIBRARY),

    BINARY(relu_backward, EXACT),
    BINARY(gelu_backward, ROUNDINGS),
    BINARY(silu_backward, ROUNDINGS),
    CALLED(leaky_relu_backward, SCALAR),
    CALLED(elu_backward, ROUNDINGS),
    BINARY(tanh_backward, ROUNDINGS),
    BINARY(sigmoid_backward, ROUNDINGS),
    CALLED(pow_scalar_backward, ROUNDINGS),

    BINARY(copy_inplace, EXACT),
    CALLED(add_inplace, ROUNDINGS),
    BINARY(mul_inplace, EXACT),
    BINARY(div_inplace, EXACT),
    CALLED(scale_inplace, SCALAR),
    CALLED(fill_inplace, SCALAR),
    CALLED(lerp_inplace, ROUNDINGS),

    REDUCTION(sum, ORDER),
    REDUCTION(prod, ORDER),
    REDUCTION(mean, ORDER),
    REDUCTION(max, EXACT),
    REDUCTION(min, EXACT),
    REDUCTION(any, EXACT),
    REDUCTION(all, EXACT),
    CALLED(norm, ORDER),
    CALLED(norm_over, ORDER),
    CALLED(norm_all, ORDER),
    CALLED(var, ORDER),
    CALLED(var_over, ORDER),
    CALLED(var_all, ORDER),
    CALLED(std, ORDER),
    CALLED(std_over, ORDER),
    CALLED(std_all, ORDER),
    REDUCTION(logsumexp, ORDER),
    REDUCTION(nansum, ORDER),
    REDUCTION(nanmean, ORDER),

    BINARY(matmul, ORDER),
    CALLED(matmul_ex, ORDER),
    BINARY(embedding, EXACT),
    CALLED(embedding_backward, ORDER),
    CALLED(cross_entropy, ORDER),
    CALLED(cross_entropy_backward, ORDER),
    CALLED(reshape, EXACT),
    { .name = NULL },
};
