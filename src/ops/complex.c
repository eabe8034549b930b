/* Complex numbers and their parts. codelets/complex.inc has the expressions. */
#include "ops/elementwise.h"

weft_tensor *weft_conjugate(weft_tensor *a)
{
    return a == NULL || !weft_dtype_is_complex(weft_layout_of(a)->dtype) ? a : weft_conj(a);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static weft_tensor *i_times(weft_tensor *a)
{
    weft_tensor *real = a == NULL ? NULL : weft_real(a), *imag = a == NULL ? NULL : weft_imag(a);
    return real == NULL || imag == NULL ? NULL : weft_complex(weft_neg(imag), real);
}

/* i g, of a real g. */
static weft_tensor *as_imag(weft_tensor *g)
{
    return g == NULL ? NULL : weft_complex(weft_zeros_like(g), g);
}

/* i a g / |a|^2, and 0 of 0. */
static weft_tensor *angle_gradient(weft_tensor *g, weft_tensor *a)
{
    if (!weft_dtype_is_complex(weft_layout_of(a)->dtype)) {
        return weft_zeros_like(a);
    }
    weft_tensor *size = weft_abs(a), *zero = size == NULL ? NULL : is_zero(size);
    weft_tensor *squares = zero == NULL ? NULL : weft_masked_fill(weft_square(size), zero, 1);
    return squares == NULL ? NULL : weft_mul(i_times(a), weft_div(g, squares));
}

/* The gradients of z = abs e^(i angle) are the real parts of g conj(e^(i angle)) and of g conj(i z). */
static weft_tensor *size_gradient(weft_tensor *g, weft_tensor *size, weft_tensor *angle)
{
    weft_tensor *unit = weft_polar(weft_ones_like(size), angle);
    return unit == NULL ? NULL : weft_real(weft_mul(g, weft_conj(unit)));
}

static weft_tensor *turn_gradient(weft_tensor *g, weft_tensor *z)
{
    weft_tensor *turned = i_times(z);
    return turned == NULL ? NULL : weft_real(weft_mul(g, weft_conj(turned)));
}

GRADIENT(real, g)
GRADIENT(imag, as_imag(g))
GRADIENT(conj, weft_conj(g))
GRADIENT(angle, angle_gradient(g, a))
GRADIENTS(complex, weft_real(g), weft_imag(g))
GRADIENTS(polar, size_gradient(g, a, b), turn_gradient(g, y))
GRADIENT(view_as_real, weft_view_as_complex(g))
GRADIENT(view_as_complex, weft_view_as_real(g))

/* By s = a / |a|: the part of g that turns it, divided by |a|. */
static weft_tensor *sgn_gradient(weft_tensor *g, weft_tensor *a, weft_tensor *sign)
{
    weft_tensor *size = weft_abs(a), *zero = size == NULL ? NULL : is_zero(size);
    weft_tensor *along = zero == NULL ? NULL : weft_mul(sign, weft_real(weft_mul(g, weft_conj(sign))));
    weft_tensor *across = along == NULL ? NULL : weft_div(weft_sub(g, along), weft_masked_fill(size, zero, 1));
    return across == NULL ? NULL : weft_zero_where(zero, across);
}

GRADIENT(sgn, sgn_gradient(g, a, y))

/* ---- parts --------------------------------------------------------------------------------------------- */

#define PART(name_, text, types, type_, linear_, ...)                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = text,                                                                                        \
        .rules = { "A->A" },                                                                                 \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
        .inputs = { { "a", types, false } },                                                                 \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
    };

PART(real, "real", WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL, LINEAR, ONE(real, 0))
PART(imag, "imag", WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL, LINEAR, ONE(imag, 0))
PART(conj, "conj", WEFT_TYPES_COMPLEX, WEFT_TYPE_FIRST, PASSES_ALL, ONE(conj, 0))
PART(angle, "angle", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL, NOT_LINEAR, ONE(angle, IN_0))
PART(sgn, "sgn", WEFT_TYPES_COMPLEX, WEFT_TYPE_FIRST, NOT_LINEAR, ONE(sgn, IN_0 | OUT))

static weft_tensor *part(const char *function, const weft_operation *operation, weft_tensor *a)
{
    return weft_dispatch(
        &(weft_call){ .function = function, .operation = operation, .num_inputs = 1, .inputs = { a } });
}

/* A real tensor is returned itself; WEFT_BOOL and integers, too. */
static weft_tensor *part_or_itself(const char *function, const weft_operation *operation, weft_tensor *a)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    return weft_dtype_is_complex(weft_layout_of(a)->dtype) ? part(function, operation, a) : weft_itself(function, a);
}

weft_tensor *weft_real(weft_tensor *a)
{
    return part_or_itself("weft_real", &operation_real, a);
}

weft_tensor *weft_imag(weft_tensor *a)
{
    return part("weft_imag", &operation_imag, a);
}

weft_tensor *weft_conj(weft_tensor *a)
{
    return part_or_itself("weft_conj", &operation_conj, a);
}

weft_tensor *weft_angle(weft_tensor *a)
{
    return part("weft_angle", &operation_angle, a);
}

weft_tensor *weft_sgn(weft_tensor *a)
{
    if (weft_check_tensor("weft_sgn", "a", a) == NULL) {
        return NULL;
    }
    return weft_dtype_is_complex(weft_layout_of(a)->dtype) ? part("weft_sgn", &operation_sgn, a) : weft_sign(a);
}

/* ---- of real tensors ----------------------------------------------------------------------------------- */

#define OF_PARTS(name_, kernel_, first, second, linear_, ...)                                                         \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .rules = { "...,...->..." },                                                                         \
        .outputs[0].linear = linear_,                                                                        \
        .gradient = __VA_ARGS__,                                                                             \
        .inputs = { { first, WEFT_TYPES_FLOAT, false }, { second, WEFT_TYPES_FLOAT, false } },               \
        .outputs[0].type = WEFT_TYPE_COMPLEX,                                                                \
        .kernel = WEFT_KERNEL_##kernel_,                                                                       \
    };

OF_PARTS(complex, from_parts, "real", "imag", LINEAR, BOTH(complex, 0, 0))
OF_PARTS(polar, polar, "abs", "angle", NOT_LINEAR, BOTH(polar, IN_0 | IN_1, OUT))

weft_tensor *weft_complex(weft_tensor *real, weft_tensor *imag)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_complex", .operation = &operation_complex, .num_inputs = 2, .inputs = { real, imag } });
}

weft_tensor *weft_polar(weft_tensor *abs, weft_tensor *angle)
{
    return weft_dispatch(&(weft_call){
        .function = "weft_polar", .operation = &operation_polar, .num_inputs = 2, .inputs = { abs, angle } });
}

/* ---- the same memory ----------------------------------------------------------------------------------- */

static const weft_operation operation_view_as_real = {
    .name = "view_as_real",
    .rules = { "A->A[p]" },
    .outputs[0] = { .type = WEFT_TYPE_REAL, .linear = LINEAR },
    .gradient = ONE(view_as_real, 0),
    .inputs = { { "a", WEFT_TYPES_COMPLEX, false } },
    .kernel = WEFT_KERNEL_reinterpret,
    .views = true,
};

static const weft_operation operation_view_as_complex = {
    .name = "view_as_complex",
    .rules = { "A[p]->A" },
    .outputs[0] = { .type = WEFT_TYPE_COMPLEX, .linear = LINEAR },
    .gradient = ONE(view_as_complex, 0),
    .inputs = { { "a", WEFT_TYPES_WIDE, false } },
    .kernel = WEFT_KERNEL_reinterpret,
    .views = true,
};

weft_tensor *weft_view_as_real(weft_tensor *a)
{
    static const char function[] = "weft_view_as_real";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim == WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimensions, expected at most %d", WEFT_MAX_DIMS, WEFT_MAX_DIMS - 1);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_view_as_real,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_sizes = 1, .sizes = { 2 } } });
}

weft_tensor *weft_view_as_complex(weft_tensor *a)
{
    static const char function[] = "weft_view_as_complex";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    if (layout->ndim == 0 || layout->shape[layout->ndim - 1] != 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %s of size %lld, expected a last dimension of size 2",
                  layout->ndim == 0 ? "no dimension" : "a last dimension",
                  (long long)(layout->ndim == 0 ? 1 : layout->shape[layout->ndim - 1]));
        return NULL;
    }
    return part(function, &operation_view_as_complex, a);
}

const weft_operation *const weft_complex_operations[] = {
    &operation_real,
    &operation_imag,
    &operation_conj,
    &operation_angle,
    &operation_sgn,
    &operation_complex,
    &operation_polar,
    &operation_view_as_real,
    &operation_view_as_complex,
    NULL,
};
