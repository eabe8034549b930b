/* Elementwise operations of several tensors, or of a tensor and a number. codelets/elementwise.inc has the
 * expressions, dispatch/elementwise.c the lowering. */
#include <math.h>

#include "codelets/half.h"
#include "ops/elementwise.h"

/* ---- gradients ----------------------------------------------------------------------------------------- */

CHOICE(maximum, "...,...,...->...", 3)
CHOICE(minimum, "...,...,...->...", 3)
CHOICE(clamp, "A,A->A", 2)

/* |a|^2 + |b|^2 */
static weft_tensor *sum_of_squares(weft_tensor *a, weft_tensor *b)
{
    return weft_addcmul(weft_square(a), b, b, 1);
}

/* gradient * a / (a^2 + b^2); 0 at the origin, as its own gradients: there it divides by 1. */
static weft_tensor *share_of_angle(weft_tensor *gradient, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *squares = sum_of_squares(a, b), *origin = is_zero(squares);
    return weft_zero_where(origin, weft_div(weft_mul(gradient, a), weft_masked_fill(squares, origin, 1)));
}

GRADIENTS(sub, g, weft_neg(g))
GRADIENTS(mul, weft_mul(g, weft_conjugate(b)), weft_mul(g, weft_conjugate(a)))
GRADIENTS(div, weft_div(g, weft_conjugate(b)), weft_neg(weft_div(weft_mul(g, weft_conjugate(y)), weft_conjugate(b))))
GRADIENTS(remainder, g, weft_neg(weft_mul(g, weft_floor_div(a, b))))
GRADIENTS(fmod, g, weft_neg(weft_mul(g, weft_trunc(weft_div(a, b)))))
/* g a^b log(a), and 0 where 0^b does not depend on b. To be differentiated again, power and logarithm there are those of 1. */
static weft_tensor *exponent_gradient(const weft_gradient *of, weft_tensor *g, weft_tensor *a, weft_tensor *b, weft_tensor *y)
{
    weft_tensor *constant = weft_logical_and(is_zero(a), weft_eq(b, weft_relu(b)));
    weft_tensor *base = of->differentiated ? weft_masked_fill(a, constant, 1) : a;
    weft_tensor *power = of->differentiated ? weft_pow(base, b) : y;
    return weft_zero_where(constant, weft_mul(g, weft_mul(power, weft_log(base))));
}

/* g log(b), and 0 where 0 log(b) is 0 for all b; likewise. */
static weft_tensor *factor_gradient(const weft_gradient *of, weft_tensor *g, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *constant = weft_logical_and(is_zero(a), weft_le_scalar(b, 0));
    return weft_zero_where(constant, weft_xlogy(g, of->differentiated ? weft_masked_fill(b, constant, 1) : b));
}

/* As PyTorch's: a^0 does not depend on a, nor 0^b on b where b is not below 0. */
GRADIENTS(real_pow, of->differentiated ? weft_base_gradient(g, a, b)
                                  : weft_zero_where(is_zero(b), weft_mul(g, weft_mul(b, weft_pow(a, weft_add_scalar(b, -1))))),
          exponent_gradient(of, g, a, b, y))
GRADIENT_FUNCTION(pow, weft_has_complex(of) ? weft_complex_power_gradients(of) : gradients_of_real_pow(of))
GRADIENTS(maximum, maximum_backward(g, as_computed(g, a), as_computed(g, b), 0, 0),
          maximum_backward(g, as_computed(g, b), as_computed(g, a), 0, 0))
GRADIENTS(minimum, minimum_backward(g, as_computed(g, a), as_computed(g, b), 0, 0),
          minimum_backward(g, as_computed(g, b), as_computed(g, a), 0, 0))
GRADIENTS(atan2, share_of_angle(g, as_computed(g, b), as_computed(g, a)),
          weft_neg(share_of_angle(g, as_computed(g, a), as_computed(g, b))))
GRADIENTS(hypot, weft_mul(g, weft_div(a, y)), weft_mul(g, weft_div(b, y)))
GRADIENTS(logaddexp, weft_mul(g, weft_sigmoid(weft_sub(a, b))), weft_mul(g, weft_sigmoid(weft_sub(b, a))))
GRADIENTS(xlogy, factor_gradient(of, g, a, b), weft_mul(g, weft_div(a, b)))

static weft_scalar conjugate_factor(const weft_gradient *of)
{
    const double *scalars = of->call->scalars, imag = scalars[WEFT_SCALAR_RESTS];
    return imag == 0 ? weft_scalar_real(scalars[0]) : (weft_scalar){ WEFT_C128, scalars[0], -imag, 0 };
}

GRADIENT(scale, weft_scale(g, conjugate_factor(of)))
GRADIENT(clamp, clamp_backward(g, a, NULL, s, t))
GRADIENT(masked_fill, weft_zero_where(b, g))
GRADIENTS(add_scaled, g, weft_scale(g, conjugate_factor(of)))
GRADIENTS(lerp, weft_scale(g, 1 - s), weft_scale(g, s))
GRADIENTS(add_products, g, weft_scale(weft_mul(g, weft_conjugate(c)), conjugate_factor(of)))
GRADIENTS(add_quotients, g, weft_scale(weft_div(g, weft_conjugate(c)), conjugate_factor(of)))

static bool gradients_of_addcmul(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0);
    return gradients_of_add_products(of) &&
           (!weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2, weft_scale(weft_mul(g, weft_conjugate(of->call->inputs[1])), conjugate_factor(of))));
}

static bool gradients_of_addcdiv(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *b = of->call->inputs[1], *c = of->call->inputs[2];
    return gradients_of_add_quotients(of) &&
           (!weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2, weft_scale(weft_div(weft_mul(weft_neg(g), weft_conjugate(b)), weft_square(weft_conjugate(c))), conjugate_factor(of))));
}

static bool gradients_of_where(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *condition = of->call->inputs[0];
    return (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_zero_where(weft_logical_not(condition), g))) &&
           (!weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, weft_zero_where(condition, g)));
}

static bool gradients_of_lerp_tensor(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *const *inputs = of->call->inputs;
    weft_tensor *a = inputs[0], *b = inputs[1], *weight = inputs[2];
    return (!weft_gradient_wanted(of, 0) ||
            weft_give_gradient(of, 0, weft_mul(g, weft_add_scalar(weft_neg(weft_conjugate(weight)), 1)))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weft_mul(g, weft_conjugate(weight)))) &&
           (!weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, weft_mul(g, weft_conjugate(weft_sub(b, a)))));
}

/* a is overwritten: its gradient is zero. */
static bool gradients_of_copy(const weft_gradient *of)
{
    return !weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weft_gradient_of_output(of, 0));
}

/* ---- two tensors --------------------------------------------------------------------------------------- */

BINARY(add, WEFT_TYPES_ANY, WEFT_TYPE_PROMOTED, LINEAR, WEFT_GRADIENT_SAME, .joins = 1u << 0 | 1u << 1)
BINARY(sub, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, WEFT_TYPE_PROMOTED, LINEAR, BOTH(sub, 0, 0), .joins = 1u << 0)
BINARY(mul, WEFT_TYPES_ANY, WEFT_TYPE_PROMOTED, LINEAR_IN(1u << 0 | 1u << 1), BOTH(mul, IN_1, IN_0))
BINARY(div, WEFT_TYPES_ANY, WEFT_TYPE_FLOATING, LINEAR_IN(1u << 0), BOTH(div, IN_1, IN_1 | OUT))
BINARY(floor_div, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, STEPS)
BINARY(remainder, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(remainder, 0, IN_0 | IN_1))
BINARY(fmod, WEFT_TYPES_NUMBER, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(fmod, 0, IN_0 | IN_1))
BINARY(pow, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(pow, IN_0 | IN_1, IN_0 | IN_1 | OUT))
BINARY(maximum, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, PASSES(WEFT_MAX), BOTH(maximum, IN_0 | IN_1, IN_0 | IN_1))
BINARY(minimum, WEFT_TYPES_ALL, WEFT_TYPE_PROMOTED, PASSES(WEFT_MIN), BOTH(minimum, IN_0 | IN_1, IN_0 | IN_1))
BINARY(atan2, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, BOTH(atan2, IN_0 | IN_1, IN_0 | IN_1))
BINARY(hypot, WEFT_TYPES_FLOAT, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(hypot, IN_0 | OUT, IN_1 | OUT))
BINARY(logaddexp, WEFT_TYPES_FLOAT, WEFT_TYPE_PROMOTED, NOT_LINEAR, BOTH(logaddexp, IN_0 | IN_1, IN_0 | IN_1))
BINARY(xlogy, WEFT_TYPES_ALL, WEFT_TYPE_FLOATING, NOT_LINEAR, BOTH(xlogy, IN_0 | IN_1, IN_0 | IN_1))
BINARY(eq, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(ne, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(lt, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(le, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(gt, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(ge, WEFT_TYPES_ALL, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(logical_and, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(logical_or, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)
BINARY(logical_xor, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, NOT_LINEAR, TRUTH)

static const weft_operation operation_to_type = {
    .name = "to_type",
    .gradient = WEFT_GRADIENT_SAME,
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_ANY | WEFT_TYPES_STORED, false } },
    .outputs[0] = { .type = WEFT_TYPE_GIVEN, .linear = LINEAR },
    .only_widens = true,
    .kernel = WEFT_KERNEL_convert,
};

bool weft_is_conversion(const weft_call *call)
{
    return weft_operation_is(call->operation, &operation_to_type);
}

weft_tensor *weft_to_type(weft_tensor *a, weft_dtype dtype)
{
    static const char function[] = "weft_to_type";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (weft_dtype_size(dtype) == 0) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %d, which is no element type", (int)dtype);
        return NULL;
    }
    weft_dtype own = weft_layout_of(a)->dtype;
    if (own == dtype) {
        return weft_itself(function, a);
    }
    if (weft_dtype_is_complex(own) && !weft_dtype_is_complex(dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "a is %s and dtype is %s: weft_real() gives the real part, weft_imag() the other",
                  weft_dtype_name(own), weft_dtype_name(dtype));
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_to_type,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .type = dtype } });
}

/* ---- with a number ------------------------------------------------------------------------------------- */

bool weft_take_number_beside(const char *function, const char *argument, int num_inputs, weft_tensor *const inputs[],
                             weft_scalar number, weft_exact *taken)
{
    static const char *const names[] = { "a", "b", "c" };
    const weft_layout *layouts[WEFT_ARRAY_SIZE(names)];
    for (int i = 0; i < num_inputs; i++) {
        if (weft_check_tensor(function, names[i], inputs[i]) == NULL) {
            return false;
        }
        layouts[i] = weft_layout_of(inputs[i]);
    }
    return weft_take_number(function, argument, weft_promoted(num_inputs, layouts), number, taken);
}

bool weft_take_real_beside(const char *function, const char *argument, int num_inputs, weft_tensor *const inputs[],
                           weft_scalar number, weft_exact *taken)
{
    if (!weft_take_number_beside(function, argument, num_inputs, inputs, number, taken)) {
        return false;
    }
    const bool real = number.dtype != WEFT_C128 || taken->rest == 0;
    if (!real) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %g + %gi, expected a real number", argument, number.real, number.imag);
    }
    return real;
}

double weft_number_of_type(weft_dtype dtype, double number)
{
    return dtype == WEFT_BF16  ? (double)weft_bf16_to_f32(weft_f64_to_bf16(number))
           : dtype == WEFT_F16 ? (double)weft_f16_to_f32(weft_f64_to_f16(number))
                               : number;
}

WITH_NUMBER(scale, factor, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, LINEAR, ONE(scale, 0))
/* Integers wrap around: not monotone. */
WITH_NUMBER(add_scalar, addend, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, NOT_LINEAR, WEFT_GRADIENT_SAME)

static const weft_operation operation_clamp = {
    .name = "clamp",
    .gradient = ONE(clamp, IN_0),
    .rules = { "A->A" },
    .outputs[0].linear = MONOTONE,
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .kernel = WEFT_KERNEL_clamp,
};

/* A bound beyond what an integer type has becomes the nearest that it has: what it is compared with would
 * wrap around. False with the error kept. */
static bool take_bound(const char *function, const char *argument, weft_dtype dtype, weft_scalar bound, weft_exact *taken)
{
    const bool whole = bound.dtype == WEFT_I64 || bound.dtype == WEFT_U64, high = bound.dtype == WEFT_U64 && bound.whole < 0;
    const double value = high ? (double)(uint64_t)bound.whole : whole ? (double)bound.whole : bound.real;
    const bool has_fraction = !isinf(value) && value != trunc(value);
    const bool has_imag = bound.dtype == WEFT_C128 && bound.imag != 0;
    int64_t least, number = whole ? bound.whole : value >= 0x1p63 && value < 0x1p64 ? (int64_t)(uint64_t)value : 0;
    uint64_t most;
    if (!weft_whole_range(dtype, &least, &most) || has_fraction || has_imag) {
        return weft_take_number(function, argument, dtype, bound, taken);
    }
    const double limit = 0x1p63;
    if (!whole && value >= -limit && value < limit) {
        number = (int64_t)value;
    }
    const bool positive = value > 0, above = positive && ((!whole && value >= 0x1p64) || (uint64_t)number > most);
    const bool below = !positive && ((!whole && value < -0x1p63) || number < least);
    *taken = weft_exact_of(above ? (int64_t)most : below ? least : number);
    return true;
}

weft_tensor *(weft_clamp)(weft_tensor *a, weft_scalar min, weft_scalar max)
{
    static const char function[] = "weft_clamp";
    weft_exact least, most;
    if (weft_check_tensor(function, "a", a) == NULL ||
        !take_bound(function, "min", weft_layout_of(a)->dtype, min, &least) ||
        !take_bound(function, "max", weft_layout_of(a)->dtype, max, &most)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_clamp,
        .num_inputs = 1,
        .inputs = { a },
        .scalars = { least.value, most.value, [WEFT_SCALAR_RESTS] = least.rest, most.rest } });
}

/* ---- of several tensors -------------------------------------------------------------------------------- */

static const weft_operation operation_where = {
    .name = "where",
    .gradient = { .function = gradients_of_where, .reads = { 0, IN_0, IN_0 } },
    .rules = { "...,...,...->..." },
    .inputs = { { "condition", WEFT_TYPES_BOOL, false },
                { "a", WEFT_TYPES_ANY, false },
                { "b", WEFT_TYPES_ANY, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED, /* truth values change no other type */
    .kernel = WEFT_KERNEL_where,
};

weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b)
{
    return weft_dispatch(&(weft_call){ .function = "weft_where",
                                       .operation = &operation_where,
                                       .num_inputs = 3,
                                       .inputs = { condition, a, b } });
}

/* masked_fill with 0, through which Partial passes. */
static const weft_operation operation_zero_where = {
    .name = "zero_where",
    .gradient = ONE(masked_fill, IN_1),
    .rules = { "...,...->..." },
    .outputs[0].linear = LINEAR_IN(1u << 0),
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "mask", WEFT_TYPES_BOOL, false } },
    .kernel = WEFT_KERNEL_masked_fill,
};

weft_tensor *weft_zero_where(weft_tensor *mask, weft_tensor *a)
{
    const weft_call call = {
        .function = "weft_masked_fill", .operation = &operation_zero_where, .num_inputs = 2, .inputs = { a, mask }
    };
    return mask == NULL || a == NULL ? NULL : weft_dispatch(&call);
}

/* add, of a Partial sum and an addend as large: the result stays one. */
static const weft_operation operation_add_addend = {
    .name = "add_addend",
    .gradient = WEFT_GRADIENT_SAME,
    .rules = { "...,...->..." },
    .outputs[0] = { .type = WEFT_TYPE_PROMOTED, .linear = LINEAR },
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "b", WEFT_TYPES_ANY, false } },
    .joins = 1u << 0,
    .joins_large = true,
    .kernel = WEFT_KERNEL_add,
};

weft_tensor *weft_add_addend(weft_tensor *sum, weft_tensor *addend)
{
    return weft_dispatch(
        &(weft_call){ .function = "weft_add", .operation = &operation_add_addend, .num_inputs = 2, .inputs = { sum, addend } });
}

static const weft_operation operation_masked_fill = {
    .name = "masked_fill",
    .gradient = ONE(masked_fill, IN_1),
    .rules = { "...,...->..." },
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "mask", WEFT_TYPES_BOOL, false } },
    .kernel = WEFT_KERNEL_masked_fill,
};

weft_tensor *(weft_masked_fill)(weft_tensor *a, weft_tensor *mask, weft_scalar value)
{
    weft_exact taken;
    if (!weft_take_number_beside("weft_masked_fill", "value", 1, &a, value, &taken)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = "weft_masked_fill",
        .operation = &operation_masked_fill,
        .num_inputs = 2,
        .inputs = { a, mask },
        .scalars = { weft_number_of_type(weft_layout_of(a)->dtype, taken.value), [WEFT_SCALAR_RESTS] = taken.rest } });
}

/* Two or three tensors and a number. */
#define COMBINED(name_, count, rule, argument, types, linear_, ...)                                          \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { rule },                                                                                   \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
        .inputs = { { "a", types, false }, { "b", types, false }, { "c", types, false } },                   \
        .outputs[0].type = WEFT_TYPE_PROMOTED,                                                               \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };                                                                                                       \
    static weft_tensor *name_(weft_tensor *a, weft_tensor *b, weft_tensor *c, weft_scalar argument)          \
    {                                                                                                        \
        weft_exact taken;                                                                                    \
        if (!weft_take_number_beside("weft_" #name_, #argument, count, (weft_tensor *[]){ a, b, c }, argument,\
                                     &taken)) {                                                              \
            return NULL;                                                                                     \
        }                                                                                                    \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = count,                                              \
                                           .inputs = { a, b, c },                                            \
                                           .scalars = { taken.value, [WEFT_SCALAR_RESTS] = taken.rest } });  \
    }

COMBINED(add_scaled, 2, "...,...->...", factor, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, LINEAR, BOTH(add_scaled, 0, 0),
         .joins = 1u << 0)
COMBINED(lerp, 2, "...,...->...", weight, WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, LINEAR, BOTH(lerp, 0, 0))
COMBINED(addcmul, 3, "...,...,...->...", factor, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, NOT_LINEAR, THREE(addcmul, 0, IN_2, IN_1))
COMBINED(addcdiv, 3, "...,...,...->...", factor, WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, NOT_LINEAR,
         THREE(addcdiv, 0, IN_2, IN_1 | IN_2))

weft_tensor *(weft_add_scaled)(weft_tensor *a, weft_tensor *b, weft_scalar factor)
{
    return add_scaled(a, b, NULL, factor);
}

weft_tensor *weft_lerp(weft_tensor *a, weft_tensor *b, double weight)
{
    return lerp(a, b, NULL, WEFT_SCALAR(weight));
}

static const weft_operation operation_lerp_tensor = {
    .name = "lerp_tensor",
    .rules = { "...,...,...->..." },
    .gradient = THREE(lerp_tensor, IN_2, IN_2, IN_0 | IN_1),
    .inputs = { { "a", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false },
                { "b", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false },
                { "weight", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED,
    .kernel = WEFT_KERNEL_lerp_tensor,
};

weft_tensor *weft_lerp_tensor(weft_tensor *a, weft_tensor *b, weft_tensor *weight)
{
    return weft_dispatch(&(weft_call){ .function = "weft_lerp_tensor",
                                       .operation = &operation_lerp_tensor,
                                       .num_inputs = 3,
                                       .inputs = { a, b, weight } });
}

weft_tensor *(weft_addcmul)(weft_tensor *a, weft_tensor *b, weft_tensor *c, weft_scalar factor)
{
    return addcmul(a, b, c, factor);
}

weft_tensor *(weft_addcdiv)(weft_tensor *a, weft_tensor *b, weft_tensor *c, weft_scalar factor)
{
    return addcdiv(a, b, c, factor);
}

/* ---- in place ------------------------------------------------------------------------------------------ */

#define IN_PLACE(name_, kernel_, rule, types, linear_, overwrites_, ...)                                     \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { rule },                                                                                   \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
        .inputs = { { "a", types, false }, { "b", types, false } },                                          \
        .outputs[0].in_place = true,                                                                         \
        .overwrites = overwrites_,                                                                           \
        .kernel = WEFT_KERNEL_##kernel_,                                                                     \
    };                                                                                                       \
    static weft_tensor *name_(weft_tensor *a, weft_tensor *b, int count, weft_exact scalar)                  \
    {                                                                                                        \
        return weft_dispatch(&(weft_call){ .function = "weft_" #name_,                                       \
                                           .operation = &operation_##name_,                                  \
                                           .num_inputs = count,                                              \
                                           .inputs = { a, b },                                               \
                                           .scalars = { scalar.value, [WEFT_SCALAR_RESTS] = scalar.rest } });\
    }

IN_PLACE(copy_inplace, assign, "...,...->...", WEFT_TYPES_ANY, PASSES_ALL, true, BOTH(copy, 0, 0))
IN_PLACE(fill_inplace, fill, "A->A", WEFT_TYPES_ANY, NOT_LINEAR, true, WEFT_GRADIENT_ZERO("a number"))
IN_PLACE(add_inplace, add_scaled, "...,...->...", WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, LINEAR, false, BOTH(add_scaled, 0, 0))
IN_PLACE(mul_inplace, mul, "...,...->...", WEFT_TYPES_ANY, LINEAR_IN(1u << 0), false, BOTH(mul, IN_1, IN_0))
IN_PLACE(div_inplace, div, "...,...->...", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, LINEAR_IN(1u << 0), false, BOTH(div, IN_1, IN_1 | OUT))
IN_PLACE(scale_inplace, scale, "A->A", WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, LINEAR, false, ONE(scale, 0))
IN_PLACE(lerp_inplace, lerp, "...,...->...", WEFT_TYPES_FLOAT, LINEAR, false, BOTH(lerp, 0, 0))

static const weft_exact none = { 0, 0 };

weft_tensor *(weft_add_inplace)(weft_tensor *a, weft_tensor *b, weft_scalar alpha)
{
    weft_exact taken;
    return weft_take_number_beside("weft_add_inplace", "alpha", 2, (weft_tensor *[]){ a, b }, alpha, &taken)
               ? add_inplace(a, b, 2, taken)
               : NULL;
}

weft_tensor *weft_copy_inplace(weft_tensor *a, weft_tensor *b)
{
    return copy_inplace(a, b, 2, none);
}

weft_tensor *(weft_fill_inplace)(weft_tensor *a, weft_scalar value)
{
    weft_exact taken;
    if (!weft_take_number_beside("weft_fill_inplace", "value", 1, &a, value, &taken)) {
        return NULL;
    }
    taken.value = weft_number_of_type(weft_layout_of(a)->dtype, taken.value);
    return fill_inplace(a, NULL, 1, taken);
}

weft_tensor *weft_mul_inplace(weft_tensor *a, weft_tensor *b)
{
    return mul_inplace(a, b, 2, none);
}

weft_tensor *weft_div_inplace(weft_tensor *a, weft_tensor *b)
{
    return div_inplace(a, b, 2, none);
}

weft_tensor *(weft_scale_inplace)(weft_tensor *a, weft_scalar factor)
{
    weft_exact taken;
    return weft_take_number_beside("weft_scale_inplace", "factor", 1, &a, factor, &taken) ? scale_inplace(a, NULL, 1, taken)
                                                                                          : NULL;
}

weft_tensor *weft_lerp_inplace(weft_tensor *a, weft_tensor *b, double weight)
{
    return lerp_inplace(a, b, 2, (weft_exact){ weight, 0 });
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_elementwise_operations[] = {
    &operation_add,
    &operation_sub,
    &operation_mul,
    &operation_div,
    &operation_floor_div,
    &operation_remainder,
    &operation_fmod,
    &operation_pow,
    &operation_maximum,
    &operation_minimum,
    &operation_atan2,
    &operation_hypot,
    &operation_logaddexp,
    &operation_xlogy,
    &operation_eq,
    &operation_ne,
    &operation_lt,
    &operation_le,
    &operation_gt,
    &operation_ge,
    &operation_logical_and,
    &operation_logical_or,
    &operation_logical_xor,
    &operation_to_type,
    &operation_scale,
    &operation_add_scalar,
    &operation_clamp,
    &operation_where,
    &operation_zero_where,
    &operation_add_addend,
    &operation_masked_fill,
    &operation_add_scaled,
    &operation_lerp,
    &operation_lerp_tensor,
    &operation_addcmul,
    &operation_addcdiv,
    &operation_maximum_backward,
    &operation_minimum_backward,
    &operation_clamp_backward,
    &operation_copy_inplace,
    &operation_fill_inplace,
    &operation_add_inplace,
    &operation_mul_inplace,
    &operation_div_inplace,
    &operation_scale_inplace,
    &operation_lerp_inplace,
    NULL,
};
