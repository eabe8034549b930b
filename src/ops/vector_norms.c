/* Norms of vectors: roots of sums of powers. Sums are in double precision, whose range has the squares of all narrower types.
 * Where it does not have the powers, elements are multiplied by a power of two that brings the largest to about 1. */
#include "ops/vector_norms.h"

#include <math.h>

#include "ops/elementwise.h"
#include "ops/reductions.h"
#include "ops/row_reduce.h"

/* ---- sums of powers ------------------------------------------------------------------------------------- */

/* Whether sums of |a|^p in double precision may overflow or underflow although the norm does not. */
static bool needs_scale(weft_dtype type, double p)
{
    /* |a|^6 of WEFT_F32 is from 2^-894 to 2^768: 2^255 of them can be added. */
    return p > (type == WEFT_F64 ? 1 : 6) && !isinf(p);
}

static const weft_operation operation_range_scale = {
    .name = "range_scale",
    .gradient = WEFT_GRADIENT_OF_WHOLE("p_norm"),
    .rules = { "A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_range_scale,
};

weft_tensor *weft_range_scale_of(const char *function, weft_tensor *largest)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_range_scale,
                                       .num_inputs = 1,
                                       .inputs = { largest },
                                       .attributes = { .type = WEFT_F64 } });
}

/* The scale of each result, where reduced dimensions have size 1. */
static weft_tensor *scale_of(const weft_reduction *r)
{
    weft_reduction largest = *r;
    largest.operation = weft_reduction_max_abs;
    largest.keepdim = true;
    weft_tensor *result = weft_place_like(r->function, weft_reduce(&largest), weft_layout_of(r->a), r->mask);
    return result == NULL ? NULL : weft_range_scale_of(r->function, result);
}

/* Of elements multiplied by `scale`, which may be NULL. */
static weft_tensor *sum_powers(const weft_reduction *r, weft_tensor *scale)
{
    weft_reduction sum = *r;
    sum.type = WEFT_F64;
    sum.centre = scale;
    sum.operation = r->p == 1                    ? weft_reduction_sum_abs
                    : r->p == 2 && scale == NULL ? weft_reduction_sum_square
                    : r->p == 2                  ? weft_reduction_sum_square_scaled
                    : scale == NULL              ? weft_reduction_sum_pow
                                                 : weft_reduction_sum_pow_scaled;
    return weft_reduce(&sum);
}

/* The sum of |a scale|^p over all elements: a scalar in f64, Partial if a is sharded. `scale`: a scalar, or NULL for 1. */
static weft_tensor *sum_of_powers(const char *function, weft_tensor *a, double p, weft_tensor *scale)
{
    const weft_layout *layout = weft_layout_of(a);
    weft_reduction r = { function, .a = a, .p = p, .mask = weft_check_reduced_dims(function, a, WEFT_ALL_DIMS) };
    if (scale != NULL) {
        const int64_t ones[WEFT_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        scale = weft_place_like(function, weft_reshape(scale, layout->ndim, ones), layout, -1);
    }
    return sum_powers(&r, scale);
}

/* ---- roots ---------------------------------------------------------------------------------------------- */

#define ROOT(name_, kernel_)                                                                                 \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE("p_norm"),                                                        \
        .rules = { "A->A" },                                                                                 \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false } },                                                      \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_##kernel_,                                                                     \
    };
ROOT(square_root, sqrt)
ROOT(power_root, pow_scalar)

static weft_tensor *root_of(const char *function, weft_tensor *sum, double p, weft_dtype type)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = p == 2 ? &operation_square_root : &operation_power_root,
                                       .num_inputs = 1,
                                       .inputs = { sum },
                                       .attributes = { .type = type },
                                       .scalars = { p == 2 ? 0 : 1 / p } });
}

/* The norm in f64 from such sums. */
static weft_tensor *root_of_powers(const char *function, weft_tensor *sum, double p, weft_tensor *scale)
{
    weft_tensor *root = p == 1 ? sum : root_of(function, sum, p, WEFT_F64);
    return scale == NULL ? root : weft_div(root, scale);
}

/* ---- norms ---------------------------------------------------------------------------------------------- */

static weft_tensor *count_nonzero(const weft_reduction *r)
{
    const weft_layout *a = weft_layout_of(r->a);
    weft_tensor *zero = weft_zeros(a->dtype, 0, NULL, a->mesh->handle, NULL);
    weft_reduction count = *r;
    count.operation = weft_reduction_sum;
    count.a = weft_ne(r->a, zero);
    count.type = WEFT_I64;
    return count.a == NULL ? NULL : weft_to_type(weft_reduce(&count), a->dtype);
}

/* In the input's type. */
static weft_tensor *scaled_norm(weft_reduction r)
{
    weft_dtype type = weft_layout_of(r.a)->dtype;
    bool keepdim = r.keepdim;
    r.keepdim = true;
    r.a = weft_unshard_dim(r.function, r.a, -1); /* read twice */
    weft_tensor *scale = r.a == NULL ? NULL : scale_of(&r);
    weft_tensor *sum = scale == NULL ? NULL : sum_powers(&r, scale);
    weft_tensor *norm = sum == NULL ? NULL : weft_to_type(root_of_powers(r.function, sum, r.p, scale), type);
    return norm == NULL || keepdim ? norm : weft_squeeze_dims(r.function, norm, r.mask);
}

/* The sum of absolute values; of 16-bit types in single precision. */
static weft_tensor *sum_abs(weft_reduction r)
{
    weft_dtype type = weft_layout_of(r.a)->dtype;
    r.operation = weft_reduction_sum_abs;
    r.type = weft_wide_type(type);
    weft_tensor *sum = weft_reduce(&r);
    return sum == NULL ? NULL : weft_to_type(sum, type);
}

static weft_tensor *norm_of(weft_reduction r)
{
    weft_dtype type = weft_layout_of(r.a)->dtype;
    if (isinf(r.p)) {
        r.operation = weft_reduction_max_abs;
        return weft_reduce(&r);
    }
    if (r.p == 0 || r.p == 1) {
        return r.p == 0 ? count_nonzero(&r) : sum_abs(r);
    }
    if (needs_scale(type, r.p)) {
        return scaled_norm(r);
    }
    weft_tensor *sum = sum_powers(&r, NULL);
    return sum == NULL ? NULL : root_of(r.function, sum, r.p, type);
}

/* scalars[0]: p. */
static bool expand_norm(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *numbers = call->attributes.numbers;
    outputs[0] = norm_of((weft_reduction){ .function = call->function,
                                           .a = call->inputs[0],
                                           .mask = numbers[WEFT_REDUCTION_MASK],
                                           .keepdim = numbers[WEFT_REDUCTION_KEEPS] != 0,
                                           .p = call->scalars[0] });
    return outputs[0] != NULL;
}

/* ---- norms of several tensors --------------------------------------------------------------------------- */

static bool has_elements(weft_tensor *tensor)
{
    int64_t count = 0;
    weft_count_checked(weft_layout_of(tensor)->ndim, weft_layout_of(tensor)->shape, &count);
    return count > 0;
}

/* One tensor's part of the norm: the sum of its powers, or its largest absolute value. */
static weft_tensor *part_of_norm(const char *function, weft_tensor *tensor, double p, weft_tensor *scale)
{
    return !isinf(p)              ? sum_of_powers(function, tensor, p, scale)
           : has_elements(tensor) ? weft_norm(tensor, p, WEFT_ALL_DIMS, false)
                                  : weft_sum(tensor, WEFT_ALL_DIMS, false); /* no elements, no largest */
}

/* Adds the parts before they are reduced over ranks, so that one reduction serves all tensors of one
 * layout. */
static weft_tensor *combine_parts(const char *function, int n, weft_tensor *const tensors[], double p,
                                  weft_tensor *scale)
{
    weft_tensor *total = part_of_norm(function, tensors[0], p, scale);
    for (int i = 1; i < n && total != NULL; i++) {
        weft_tensor *part = part_of_norm(function, tensors[i], p, scale);
        total = isinf(p) ? weft_maximum(total, part) : weft_add(total, part);
    }
    return total == NULL ? NULL : weft_redistribute(total, weft_layout_of(total)->mesh->handle, NULL);
}

weft_dtype weft_type_of_norm(int n, weft_tensor *const tensors[], double p)
{
    weft_dtype type = isinf(p) ? weft_layout_of(tensors[0])->dtype : WEFT_F32;
    for (int i = 0; i < n; i++) {
        type = weft_promote(type, weft_layout_of(tensors[i])->dtype);
    }
    return type;
}

weft_tensor *weft_norm_of_all(const char *function, int n, weft_tensor *const tensors[], double p)
{
    weft_tensor *scale = NULL;
    if (needs_scale(weft_type_of_norm(n, tensors, p), p)) {
        weft_tensor *largest = combine_parts(function, n, tensors, INFINITY, NULL);
        scale = largest == NULL ? NULL : weft_range_scale_of(function, largest);
        if (scale == NULL) {
            return NULL;
        }
    }
    weft_tensor *total = combine_parts(function, n, tensors, p, scale);
    return total == NULL || isinf(p) ? total : root_of_powers(function, total, p, scale);
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

static bool gradients_of_norm_share(const weft_gradient *of);

/* gradient * a / norm, broadcast; where the norm is 0, so is this, and its gradients. */
static const weft_operation operation_norm_share = {
    .name = "norm_share",
    .gradient = { .function = gradients_of_norm_share, .reads = { IN_1 | IN_2, IN_0 | IN_2, IN_0 | IN_1 | IN_2 } },
    .rules = { "...,...,...->..." },
    .outputs[0].linear = LINEAR_IN(1u << 0),
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, false }, { "a", WEFT_TYPES_FLOAT, false }, { "norm", WEFT_TYPES_FLOAT, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED,
    .kernel = WEFT_KERNEL_norm_share,
};

static weft_tensor *norm_share(weft_tensor *gradient, weft_tensor *a, weft_tensor *norm)
{
    return weft_dispatch(&(weft_call){ .function = "weft_norm_backward",
                                       .operation = &operation_norm_share,
                                       .num_inputs = 3,
                                       .inputs = { gradient, a, norm } });
}

static bool gradients_of_norm_share(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *const *inputs = of->call->inputs;
    weft_tensor *gradient = inputs[0], *a = inputs[1], *norm = inputs[2];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, norm_share(g, a, norm))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, norm_share(g, gradient, norm))) &&
           (!weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2, weft_neg(norm_share(norm_share(g, gradient, norm), a, norm))));
}

/* The gradient of |a|^p / p by |a| in units of the norm, with a's sign; 0 where a or the norm is 0, as its gradients. */
static weft_tensor *powers_of_shares(weft_tensor *a, weft_tensor *norm, double p)
{
    weft_tensor *zero = weft_logical_not(a), *none = weft_logical_not(norm);
    weft_tensor *shares = weft_div(weft_abs(a), weft_masked_fill(norm, none, 1));
    weft_tensor *powers = weft_pow_scalar(weft_masked_fill(shares, zero, 1), p - 1);
    return weft_mul(weft_sign(a), weft_masked_fill(powers, zero, 0));
}

/* scalars[0]: p. Where the norm is 0, so is the gradient. */
static bool gradient_of_norm(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *norm = weft_with_reduced_dims(of, of->outputs[0]);
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    double p = of->call->scalars[0];
    if (norm == NULL || gradient == NULL || p == 0) {
        return p == 0;
    }
    if (isinf(p)) {
        weft_tensor *taken = weft_eq(weft_abs(a), norm);
        weft_tensor *share = taken == NULL ? NULL : weft_div(gradient, weft_sum_again(of, taken));
        return share != NULL && weft_give_gradient(of, 0, weft_mul(weft_sign(a), weft_mul(taken, share)));
    }
    return weft_give_gradient(of, 0,
                              p == 1   ? weft_mul(weft_sign(a), gradient)
                              : p == 2 ? norm_share(gradient, a, norm)
                                       : weft_mul(gradient, powers_of_shares(a, norm, p)));
}

static const weft_operation operation_norm = {
    .name = "p_norm",
    .gradient = WEFT_GRADIENT_BY(gradient_of_norm, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_norm,
};

/* The norm of a complex tensor is that of its absolute values. */
static bool expand_complex_norm(const weft_call *call, weft_tensor *outputs[])
{
    weft_call real = *call;
    real.operation = &operation_norm;
    real.inputs[0] = weft_abs(call->inputs[0]);
    outputs[0] = real.inputs[0] == NULL ? NULL : weft_dispatch(&real);
    return outputs[0] != NULL;
}

static const weft_operation operation_complex_norm = {
    .name = "complex_norm",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_COMPLEX, false } },
    .expand = expand_complex_norm,
};

/* ---- public --------------------------------------------------------------------------------------------- */

int weft_way_of_norm(double p)
{
    return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : isinf(p) ? 3 : p < 1 ? 4 : p <= 6 ? 5 : 6;
}

static weft_tensor *norm(const char *function, weft_tensor *a, double p, int dims, bool keepdim)
{
    int64_t mask = weft_check_reduced_dims(function, a, dims);
    if (mask < 0 || (!weft_dtype_is_complex(weft_layout_of(a)->dtype) && !weft_check_reduced_type(function, a))) {
        return NULL;
    }
    if (!(p >= 0)) {
        weft_fail(WEFT_ERR_INVALID, function, "p is %g, expected at least 0", p);
        return NULL;
    }
    bool right = !isinf(p) || weft_check_reduced_sizes(function, a, mask);
    const weft_operation *operation =
        weft_dtype_is_complex(weft_layout_of(a)->dtype) ? &operation_complex_norm : &operation_norm;
    return right ? weft_dispatch_reduction(function, operation, a, mask, keepdim, p, weft_way_of_norm(p)) : NULL;
}

weft_tensor *weft_norm(weft_tensor *a, double p, int dims, bool keepdim)
{
    return norm("weft_norm", a, p, dims, keepdim);
}

const weft_operation *const weft_vector_norm_operations[] = {
    &operation_range_scale, &operation_square_root, &operation_power_root, &operation_norm_share, &operation_norm,
    &operation_complex_norm, NULL,
};
