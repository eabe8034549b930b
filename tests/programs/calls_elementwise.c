/* Elementwise operations: elementwise.h of weft. Each row is a function of one element. */
#include "elementwise.h"
#include "ops/backward.h"

/* ---- functions of one element -------------------------------------------------------------------------- */

static int64_t as_whole(double x)
{
    return converted(WEFT_I64, WEFT_F64, (element){ .real = x }).whole;
}

REAL(add, return x + y;)
WHOLE(add, return wrap_add(x, y);)
REAL(sub, return x - y;)
WHOLE(sub, return wrap_add(x, wrap_multiply(-1, y));)
REAL(mul, return x * y;)
WHOLE(mul, return wrap_multiply(x, y);)
REAL(div, depends_on_sign_of(v, y); return x / y;)

/* The quotient rounded down, from what is left over. Each step is rounded: PyTorch's floor_divide. */
REAL(floor_div, {
    depends_on_sign_of(v, y);
    if (y == 0) {
        return x / y;
    }
    double rest = fmod(x, y), exact = nearest(v, nearest(v, x - rest) / y);
    exact = rest != 0 && (rest < 0) != (y < 0) ? nearest(v, exact - 1) : exact;
    return floor(exact) + (nearest(v, exact - floor(exact)) > 0.5);
})
WHOLE(floor_div, {
    if (y == 0 || y == -1) {
        return y == 0 ? 0 : wrap_multiply(-1, x);
    }
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
})
REAL(remainder, {
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
})
WHOLE(remainder, {
    int64_t rest = y == 0 || y == -1 ? 0 : x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
})
REAL(fmod, return fmod(x, y);)
WHOLE(fmod, return y == 0 || y == -1 ? 0 : x % y;)
REAL(pow, depends_on_sign_of(v, x); return inexact(v, pow(x, y));)
WHOLE(pow, return wrap_power(x, y);)
REAL(maximum, return x != x || x > y ? x : y;)
WHOLE(maximum, return x > y ? x : y;)
REAL(minimum, return x != x || x < y ? x : y;)
WHOLE(minimum, return x < y ? x : y;)
REAL(atan2, {
    depends_on_sign_of(v, x);
    depends_on_sign_of(v, y);
    return inexact(v, atan2(x, y));
})
REAL(hypot, return inexact(v, hypot(x, y));)
REAL(logaddexp, {
    double larger = x > y ? x : y, result = x == y ? x + log(2) : larger + log1p(exp(-fabs(x - y)));
    return inexact_by(v, result, fmax(fabs(x), fabs(y)));
})

REAL(eq, return x == y;)
WHOLE(eq, return x == y;)
REAL(ne, return x != y;)
WHOLE(ne, return x != y;)
REAL(lt, return x < y;)
WHOLE(lt, return x < y;)
REAL(le, return x <= y;)
WHOLE(le, return x <= y;)
REAL(gt, return x > y;)
WHOLE(gt, return x > y;)
REAL(ge, return x >= y;)
WHOLE(ge, return x >= y;)
REAL(logical_and, return x != 0 && y != 0;)
WHOLE(logical_and, return x != 0 && y != 0;)
REAL(logical_or, return x != 0 || y != 0;)
WHOLE(logical_or, return x != 0 || y != 0;)
REAL(logical_xor, return (x != 0) != (y != 0);)
WHOLE(logical_xor, return (x != 0) != (y != 0);)
REAL(logical_not, return x == 0;)
WHOLE(logical_not, return x == 0;)
REAL(isnan, return x != x;)
WHOLE(isnan, return 0;)
REAL(isinf, return isinf(x) != 0;)
WHOLE(isinf, return 0;)
REAL(isfinite, return isfinite(x) != 0;)
WHOLE(isfinite, return 1;)

REAL(neg, return -x;)
WHOLE(neg, return wrap_multiply(-1, x);)
REAL(abs, return fabs(x);)
WHOLE(abs, return x < 0 ? wrap_multiply(-1, x) : x;)
REAL(sign, return (x > 0) - (x < 0);)
WHOLE(sign, return (x > 0) - (x < 0);)
REAL(square, return x * x;)
WHOLE(square, return wrap_multiply(x, x);)
REAL(reciprocal, depends_on_sign_of(v, x); return 1 / x;)
REAL(sqrt, return sqrt(x);)
REAL(rsqrt, depends_on_sign_of(v, x); return inexact(v, 1 / sqrt(x));)
REAL(floor, return floor(x);)
REAL(ceil, return ceil(x);)
REAL(trunc, return trunc(x);)
REAL(round, return nearbyint(x);)
WHOLE(same, return x;)
REAL(relu, return x < 0 ? 0 : x;)
WHOLE(relu, return x < 0 ? 0 : x;)

#define LIBRARY(name_) REAL(name_, return inexact(v, name_(x));)
LIBRARY(exp)
LIBRARY(expm1)
LIBRARY(log)
LIBRARY(log1p)
LIBRARY(log2)
LIBRARY(log10)
LIBRARY(sin)
LIBRARY(cos)
LIBRARY(tan)
LIBRARY(asin)
LIBRARY(acos)
LIBRARY(atan)
LIBRARY(sinh)
LIBRARY(cosh)
LIBRARY(tanh)
LIBRARY(asinh)
LIBRARY(acosh)
LIBRARY(atanh)
LIBRARY(exp2)
LIBRARY(erf)
LIBRARY(erfc)

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The distribution function of the normal distribution, and its density. */
static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

static double normal_density(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

REAL(sigmoid, return inexact(v, sigmoid(x));)
REAL(silu, return inexact(v, x *sigmoid(x));)
REAL(gelu, return inexact_by(v, x *normal_cdf(x), fabs(x));)
REAL(softplus, return inexact(v, x > 20 ? x : log1p(exp(x)));)
REAL(gelu_tanh, {
    double half = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return inexact_by(v, x / (1 + exp(-2 * half)), fabs(x) * (1 + fabs(half)));
})
REAL(mish, return inexact(v, x *tanh(x > 20 ? x : log1p(exp(x))));)
REAL(softplus_ex, {
    double result = log1p(exp(s * x)) / s;
    /* Just at the threshold the rounded product decides. */
    v->unsure |= fabs(s * x - t) <= 1e-5 * fabs(t);
    return s * x > t ? x : inexact_by(v, result, fabs(result) * (1 + fabs(s * x)));
})
REAL(hardsigmoid, return inexact(v, x < -3 ? 0 : x > 3 ? 1 : (x + 3) / 6);)
REAL(selu, return inexact(v, x > 0 ? 1.05070098735548049342 * x : 1.75809934084737685994 * expm1(x));)
REAL(hardswish, return inexact(v, x *fmin(fmax(x + 3, 0), 6) / 6);)
REAL(leaky_relu, return x > 0 ? x : s * x;)
REAL(elu, return x > 0 ? x : inexact(v, s *expm1(x));)

REAL(copy, return x;)
REAL(scale, return s * x;)
WHOLE(scale, return wrap_multiply(as_whole(s), x);)
REAL(add_scalar, return x + s;)
WHOLE(add_scalar, return wrap_add(x, as_whole(s));)
REAL(pow_scalar, depends_on_sign_of(v, x); return inexact(v, pow(x, rounded(v->common, s)));)
WHOLE(pow_scalar, return wrap_power(x, as_whole(s));)
REAL(clamp, double low = x < s ? s : x; return low > t ? t : low;)
WHOLE(clamp, int64_t low = x < as_whole(s) ? as_whole(s) : x; return low > as_whole(t) ? as_whole(t) : low;)

REAL(add_scaled, return x + product(v, s, y);)
WHOLE(add_scaled, return wrap_add(x, wrap_multiply(as_whole(s), y));)
REAL(lerp, {
    double difference = sum(v, y, -x), rest = sum(v, 1, -s);
    v->magnitude = fabs(x) + fabs(y) + (fabs(x) + fabs(y)) * (1 + fabs(s));
    return fabs(s) < 0.5 ? x + product(v, s, difference) : y - product(v, difference, rest);
})
REAL(addcmul, {
    double factor = product(v, s, y), addend = product(v, factor, z);
    product(v, y, z);
    v->magnitude = fabs(x) + fabs(addend);
    return x + addend;
})
WHOLE(addcmul, return wrap_add(x, wrap_multiply(as_whole(s), wrap_multiply(y, z)));)
REAL(addcdiv, {
    depends_on_sign_of(v, z);
    double addend = product(v, s, quotient(v, y, z));
    v->magnitude = fabs(x) + fabs(addend);
    return x + addend;
})

REAL(relu_backward, return y <= 0 ? 0 : x;)
REAL(gelu_backward,
     { return inexact_by(v, x * (normal_cdf(y) + y * normal_density(y)), fabs(x) * (1 + fabs(y))); })
REAL(silu_backward, {
    double sigma = sigmoid(y);
    return inexact_by(v, x * sigma * (1 + y * (1 - sigma)), fabs(x) * (1 + fabs(y)));
})
REAL(leaky_relu_backward, return y > 0 ? x : s * x;)
REAL(elu_backward, return y <= 0 ? inexact(v, x *s *exp(y)) : x;)
REAL(tanh_backward, {
    double slope = sum(v, 1, -product(v, y, y));
    v->magnitude = fabs(x) * (1 + y * y);
    return x * slope;
})
REAL(sigmoid_backward, {
    double left = product(v, x, y), right = sum(v, 1, -y);
    v->magnitude = fabs(x) * fabs(y) * (1 + fabs(y));
    return left * right;
})
REAL(pow_scalar_backward, {
    depends_on_sign_of(v, y);
    double power = pow(y, rounded(v->common, s - 1));
    /* A power that overflows, or is lost, on its way to a result that need not. */
    v->unsure |= v->type == WEFT_F32 && isfinite(power) && (fabs(power) > 1e37 || fabs(power) < 1e-37);
    return s == 0 ? 0 : inexact(v, x * s * power);
})

REAL(assign, return y;)
WHOLE(assign, return y;)
REAL(fill, return s;)
WHOLE(fill, return as_whole(s);)

/* ---- rows ---------------------------------------------------------------------------------------------- */

enum {
    /* The C library's functions and weft's own: each within one rounding of the right number, and one more
     * here. */
    OF_LIBRARY = 3,
    OF_STEPS = 5,
};

/* Both kinds of numbers, or floating ones alone. */
#define BOTH(name_) .real = real_##name_, .whole = whole_##name_
#define ONLY(name_) .real = real_##name_, .whole = NULL, .roundings = OF_LIBRARY, .tame = true
#define DETAILS(name_, ...) static const elementwise details_##name_ = { __VA_ARGS__ };
#define UNARY(name_, ...)                                                                                    \
    CALLS(name_, out[0] = weft_##name_(in[0]))                                                               \
    DETAILS(name_, .inputs = 1, __VA_ARGS__)
#define BINARY(name_, ...)                                                                                   \
    CALLS(name_, out[0] = weft_##name_(in[0], in[1]))                                                        \
    DETAILS(name_, .inputs = 2, __VA_ARGS__)

BINARY(add, .types = EVERY_TYPE, BOTH(add), .passes = PASSES_SUM, .signs = true)
BINARY(sub, .types = NUMBERS, BOTH(sub), .passes = PASSES_SUM, .signs = true)
BINARY(mul, .types = EVERY_TYPE, BOTH(mul), .passes = PASSES_PRODUCT, .wide_scalar = true, .signs = true)
BINARY(div, .types = ALL_TYPES, .result = RESULT_FLOATING, .real = real_div, .wide_scalar = true,
       .passes = PASSES_FACTOR, .signs = true)
BINARY(floor_div, .types = NUMBERS, BOTH(floor_div))
BINARY(remainder, .types = NUMBERS, BOTH(remainder))
BINARY(fmod, .types = NUMBERS, BOTH(fmod))
BINARY(pow, .types = NUMBERS, BOTH(pow), .roundings = OF_LIBRARY, .tame = true)
BINARY(maximum, .types = ALL_TYPES, BOTH(maximum))
BINARY(minimum, .types = ALL_TYPES, BOTH(minimum))
BINARY(atan2, .types = ALL_TYPES, .result = RESULT_FLOATING, ONLY(atan2))
BINARY(hypot, .types = FLOATS, ONLY(hypot))
BINARY(logaddexp, .types = FLOATS, ONLY(logaddexp))

#define COMPARISON(name_) BINARY(name_, .types = ALL_TYPES, .result = RESULT_TRUTH, BOTH(name_))
COMPARISON(eq)
COMPARISON(ne)
COMPARISON(lt)
COMPARISON(le)
COMPARISON(gt)
COMPARISON(ge)
COMPARISON(logical_and)
COMPARISON(logical_or)
COMPARISON(logical_xor)
UNARY(logical_not, .types = ALL_TYPES, .result = RESULT_TRUTH, BOTH(logical_not))
UNARY(isnan, .types = ALL_TYPES, .result = RESULT_TRUTH, BOTH(isnan))
UNARY(isinf, .types = ALL_TYPES, .result = RESULT_TRUTH, BOTH(isinf))
UNARY(isfinite, .types = ALL_TYPES, .result = RESULT_TRUTH, BOTH(isfinite))

UNARY(neg, .types = NUMBERS, BOTH(neg), .passes = PASSES_SUM, .signs = true)
UNARY(abs, .types = NUMBERS, BOTH(abs), .signs = true)
UNARY(sign, .types = NUMBERS, BOTH(sign))
UNARY(square, .types = NUMBERS, BOTH(square), .signs = true)
UNARY(floor, .types = NUMBERS, .real = real_floor, .whole = whole_same)
UNARY(ceil, .types = NUMBERS, .real = real_ceil, .whole = whole_same)
UNARY(trunc, .types = NUMBERS, .real = real_trunc, .whole = whole_same)
UNARY(round, .types = NUMBERS, .real = real_round, .whole = whole_same)
UNARY(relu, .types = NUMBERS, BOTH(relu))

#define FUNCTION(name_) UNARY(name_, .types = ALL_TYPES, .result = RESULT_FLOATING, ONLY(name_))
FUNCTION(reciprocal)
FUNCTION(sqrt)
FUNCTION(rsqrt)
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(log2)
FUNCTION(log10)
FUNCTION(exp2)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(asin)
FUNCTION(acos)
FUNCTION(atan)
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(tanh)
FUNCTION(asinh)
FUNCTION(acosh)
FUNCTION(atanh)
FUNCTION(erf)
FUNCTION(erfc)
FUNCTION(sigmoid)
UNARY(silu, .types = FLOATS, ONLY(silu))
UNARY(gelu, .types = FLOATS, ONLY(gelu))
CALLS(softplus, out[0] = weft_softplus(in[0], 1, 20))
DETAILS(softplus, .inputs = 1, .types = FLOATS, ONLY(softplus))
UNARY(gelu_tanh, .types = FLOATS, ONLY(gelu_tanh))
UNARY(mish, .types = FLOATS, .real = real_mish, .roundings = OF_STEPS, .tame = true)
UNARY(hardsigmoid, .types = FLOATS, .real = real_hardsigmoid, .roundings = OF_STEPS)
UNARY(selu, .types = FLOATS, ONLY(selu))
UNARY(hardswish, .types = FLOATS, ONLY(hardswish))

#define NUMBERED(name_, ...)                                                                                 \
    CALLS(name_, out[0] = weft_##name_(in[0], real[0]))                                                      \
    DETAILS(name_, .inputs = 1, .numbers = 1, __VA_ARGS__)
NUMBERED(scale, .types = NUMBERS, BOTH(scale), .passes = PASSES_SUM)
NUMBERED(add_scalar, .types = NUMBERS, BOTH(add_scalar))
NUMBERED(pow_scalar, .types = NUMBERS, BOTH(pow_scalar), .roundings = OF_LIBRARY, .tame = true)
NUMBERED(leaky_relu, .types = FLOATS, .real = real_leaky_relu)
NUMBERED(elu, .types = FLOATS, ONLY(elu))
CALLS(softplus_ex, out[0] = weft_softplus(in[0], real[0], real[1]))
DETAILS(softplus_ex, .inputs = 1, .numbers = 2, .types = FLOATS, .real = real_softplus_ex, .roundings = OF_STEPS,
        .tame = true)
CALLS(clamp, out[0] = weft_clamp(in[0], real[0], real[1]))
DETAILS(clamp, .inputs = 1, .numbers = 2, .types = NUMBERS, BOTH(clamp))

CALLS(to_type, out[0] = weft_to_type(in[0], dtype))
DETAILS(to_type, .inputs = 1, .types = EVERY_TYPE, .result = RESULT_GIVEN, .real = real_copy,
        .whole = whole_same)

#define TWO_NUMBERED(name_, ...)                                                                             \
    CALLS(name_, out[0] = weft_##name_(in[0], in[1], real[0]))                                               \
    DETAILS(name_, .inputs = 2, .numbers = 1, __VA_ARGS__)
#define THREE_NUMBERED(name_, ...)                                                                           \
    CALLS(name_, out[0] = weft_##name_(in[0], in[1], in[2], real[0]))                                        \
    DETAILS(name_, .inputs = 3, .numbers = 1, __VA_ARGS__)
TWO_NUMBERED(add_scaled, .types = NUMBERS, BOTH(add_scaled), .roundings = OF_STEPS, .passes = PASSES_SUM)
TWO_NUMBERED(lerp, .types = FLOATS, .real = real_lerp, .roundings = OF_STEPS, .passes = PASSES_SUM)
THREE_NUMBERED(addcmul, .types = NUMBERS, BOTH(addcmul), .roundings = OF_STEPS, .tame = true)
THREE_NUMBERED(addcdiv, .types = FLOATS, .real = real_addcdiv, .roundings = OF_STEPS, .tame = true)

#define BACKWARD(name_, ...)                                                                                 \
    BINARY(name_, .types = FLOATS, .same_shape = true, .passes = PASSES_FACTOR, .real = real_##name_,        \
           __VA_ARGS__)
#define NUMBERED_BACKWARD(name_, ...)                                                                        \
    TWO_NUMBERED(name_, .types = FLOATS, .same_shape = true, .passes = PASSES_FACTOR, .real = real_##name_,  \
                 __VA_ARGS__)
BACKWARD(relu_backward, .roundings = 0)
BACKWARD(gelu_backward, .roundings = 2 * OF_STEPS, .tame = true)
BACKWARD(silu_backward, .roundings = 2 * OF_STEPS, .tame = true)
BACKWARD(tanh_backward, .roundings = OF_STEPS, .tame = true)
BACKWARD(sigmoid_backward, .roundings = OF_STEPS, .tame = true)
NUMBERED_BACKWARD(leaky_relu_backward, .roundings = 0)
NUMBERED_BACKWARD(elu_backward, .roundings = OF_STEPS, .tame = true)
NUMBERED_BACKWARD(pow_scalar_backward, .roundings = OF_STEPS, .tame = true)

CALLS(copy_inplace, weft_copy_inplace(in[0], in[1]))
DETAILS(copy_inplace, .inputs = 2, .types = EVERY_TYPE, .real = real_assign, .whole = whole_assign,
        .passes = PASSES_SUM, .signs = true)
CALLS(add_inplace, weft_add_inplace(in[0], in[1], real[0]))
DETAILS(add_inplace, .inputs = 2, .passes = PASSES_SUM, .numbers = 1, .types = NUMBERS, BOTH(add_scaled),
        .roundings = OF_STEPS)
CALLS(mul_inplace, weft_mul_inplace(in[0], in[1]))
DETAILS(mul_inplace, .inputs = 2, .passes = PASSES_PRODUCT, .types = EVERY_TYPE, BOTH(mul),
        .wide_scalar = true, .signs = true)
CALLS(div_inplace, weft_div_inplace(in[0], in[1]))
DETAILS(div_inplace, .inputs = 2, .types = FLOATS, .real = real_div, .wide_scalar = true, .passes = PASSES_FACTOR, .signs = true)
CALLS(scale_inplace, weft_scale_inplace(in[0], real[0]))
DETAILS(scale_inplace, .inputs = 1, .passes = PASSES_SUM, .numbers = 1, .types = NUMBERS, BOTH(scale))
CALLS(fill_inplace, weft_fill_inplace(in[0], real[0]))
DETAILS(fill_inplace, .inputs = 1, .numbers = 1, .types = EVERY_TYPE, BOTH(fill))
CALLS(lerp_inplace, weft_lerp_inplace(in[0], in[1], real[0]))
DETAILS(lerp_inplace, .inputs = 2, .passes = PASSES_SUM, .numbers = 1, .types = FLOATS, .real = real_lerp,
        .roundings = OF_STEPS)

#define PLAIN(name_)                                                                                         \
    ROW(name_, make_elementwise, elementwise_reference, .details = &details_##name_, .flags = FETCHES_SCALARS)
#define PLACED(name_)                                                                                        \
    ROW(name_, make_elementwise, elementwise_reference, .details = &details_##name_,                         \
        .flags = FETCHES_SCALARS | IN_PLACE, .weight = 24)

const operation elementwise_calls[] = {
    PLAIN(add),
    PLAIN(sub),
    PLAIN(mul),
    PLAIN(div),
    PLAIN(floor_div),
    PLAIN(remainder),
    PLAIN(fmod),
    PLAIN(pow),
    PLAIN(maximum),
    PLAIN(minimum),
    PLAIN(atan2),
    PLAIN(hypot),
    PLAIN(logaddexp),
    PLAIN(eq),
    PLAIN(ne),
    PLAIN(lt),
    PLAIN(le),
    PLAIN(gt),
    PLAIN(ge),
    PLAIN(logical_and),
    PLAIN(logical_or),
    PLAIN(logical_xor),
    PLAIN(logical_not),
    PLAIN(isnan),
    PLAIN(isinf),
    PLAIN(isfinite),
    PLAIN(neg),
    PLAIN(abs),
    PLAIN(sign),
    PLAIN(square),
    PLAIN(floor),
    PLAIN(ceil),
    PLAIN(trunc),
    PLAIN(round),
    PLAIN(relu),
    PLAIN(reciprocal),
    PLAIN(sqrt),
    PLAIN(rsqrt),
    PLAIN(exp),
    PLAIN(expm1),
    PLAIN(log),
    PLAIN(log1p),
    PLAIN(log2),
    PLAIN(log10),
    PLAIN(exp2),
    PLAIN(sin),
    PLAIN(cos),
    PLAIN(tan),
    PLAIN(asin),
    PLAIN(acos),
    PLAIN(atan),
    PLAIN(sinh),
    PLAIN(cosh),
    PLAIN(tanh),
    PLAIN(asinh),
    PLAIN(acosh),
    PLAIN(atanh),
    PLAIN(erf),
    PLAIN(erfc),
    PLAIN(sigmoid),
    PLAIN(silu),
    PLAIN(gelu),
    PLAIN(softplus),
    PLAIN(gelu_tanh),
    PLAIN(mish),
    PLAIN(softplus_ex),
    PLAIN(hardsigmoid),
    PLAIN(selu),
    PLAIN(hardswish),
    PLAIN(scale),
    PLAIN(add_scalar),
    PLAIN(pow_scalar),
    PLAIN(leaky_relu),
    PLAIN(elu),
    PLAIN(clamp),
    ROW(to_type, make_elementwise, elementwise_reference, .details = &details_to_type, .flags = MAY_BE_SAME,
        .weight = 20),
    PLAIN(add_scaled),
    PLAIN(lerp),
    PLAIN(addcmul),
    PLAIN(addcdiv),
    PLAIN(relu_backward),
    PLAIN(gelu_backward),
    PLAIN(silu_backward),
    PLAIN(tanh_backward),
    PLAIN(sigmoid_backward),
    PLAIN(leaky_relu_backward),
    PLAIN(elu_backward),
    PLAIN(pow_scalar_backward),
    PLACED(copy_inplace),
    PLACED(add_inplace),
    PLACED(mul_inplace),
    PLACED(div_inplace),
    PLACED(scale_inplace),
    PLACED(fill_inplace),
    PLACED(lerp_inplace),
    { .name = NULL },
};
