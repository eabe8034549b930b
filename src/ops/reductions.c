/* Reductions over any dimensions, and functions composed of them. */
#include "codelets/reductions.h"

#include <math.h>
#include <stdio.h>

#include "ops/reductions.h"
#include "ops/row_reduce.h"

/* "a*b*c*->a1c"; with a second input whose reduced dimensions have size 1: "a*b*c*,a1c->a1c". */
static void write_rule_in(weft_letters_style style, const weft_call_layouts *call, char *text, size_t size)
{
    int64_t mask = call->attributes->numbers[WEFT_REDUCTION_MASK];
    int ndim = call->inputs[0]->ndim;
    char whole[WEFT_LETTERS_SIZE], kept[WEFT_LETTERS_SIZE], reduced[WEFT_LETTERS_SIZE];
    weft_write_letters(whole, ndim, mask, style);
    weft_write_letters(kept, ndim, mask, WEFT_LETTERS_ONES);
    weft_write_letters(reduced, ndim, ~mask, WEFT_LETTERS_CHOSEN);
    const char *output = call->attributes->numbers[WEFT_REDUCTION_KEEPS] ? kept : reduced;
    if (call->num_inputs == 2) {
        snprintf(text, size, "%s,%s->%s", whole, kept, output);
    } else {
        snprintf(text, size, "%s->%s", whole, output);
    }
}

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_rule_in(WEFT_LETTERS_ALL, call, text, size);
}

static void write_place_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_rule_in(WEFT_LETTERS_CHUNKS, call, text, size);
}

bool weft_reduction_drops_rows(const weft_call_layouts *call)
{
    int64_t mask = call->attributes->numbers[WEFT_REDUCTION_MASK], all = ((int64_t)1 << call->inputs[0]->ndim) - 1;
    return !call->attributes->numbers[WEFT_REDUCTION_KEEPS] && (mask & 1) && mask != all;
}

/* Addends of a narrow integer type wrap around, and WEFT_BOOL addends are or'ed, so they must not become a
 * wider Partial result. */
static bool widens(const weft_call_layouts *call)
{
    const weft_layout *input = call->inputs[0];
    return call->operation->outputs[0].type == WEFT_TYPE_GIVEN && input->has_partial &&
           !weft_dtype_has_gradient(input->dtype) && input->dtype != WEFT_I64;
}

/* Complex numbers become truth values first. */
static bool tests_complex(const weft_call_layouts *call)
{
    return call->operation->outputs[0].type == WEFT_TYPE_BOOL && weft_dtype_is_complex(call->inputs[0]->dtype);
}

static bool is_rounded(const weft_call_layouts *call)
{
    return call->operation->outputs[0].type == WEFT_TYPE_GIVEN && weft_sum_is_rounded(call);
}

static bool reduction_expands(const weft_call_layouts *call)
{
    return weft_reduction_drops_rows(call) || widens(call) || tests_complex(call) || is_rounded(call);
}

static bool expand_reduction(const weft_call *call, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    const weft_layout *input = layouts.inputs[0];
    bool rounded = is_rounded(&layouts), drops = weft_reduction_drops_rows(&layouts);
    weft_call inner = *call;
    inner.inherited = WEFT_ALL_SCALARS;
    inner.inputs[0] = widens(&layouts)          ? weft_to_type(call->inputs[0], WEFT_I64)
                      : tests_complex(&layouts) ? weft_ne_scalar(call->inputs[0], 0)
                                                : call->inputs[0];
    inner.attributes.type = rounded ? (int64_t)weft_wide_type(input->dtype) : call->attributes.type;
    inner.attributes.numbers[WEFT_REDUCTION_KEEPS] = drops || call->attributes.numbers[WEFT_REDUCTION_KEEPS];
    weft_tensor *result = inner.inputs[0] == NULL ? NULL : weft_dispatch_itself(&inner);
    if (drops && result != NULL) {
        result = weft_squeeze_dims(call->function, result, call->attributes.numbers[WEFT_REDUCTION_MASK]);
    }
    outputs[0] = rounded && result != NULL ? weft_to_type(result, input->dtype) : result;
    return outputs[0] != NULL;
}

#define REDUCTION_EXPANDS .expand = expand_reduction, .expands = reduction_expands, .passes_scalars = true

#define REDUCTION(name_, types_, type_, linear_, ...)                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = __VA_ARGS__,                                                                             \
        .write_rule = write_rule,                                                                            \
        .rule_like = "a*b*c*->ac",                                                                              \
        .outputs[0].linear = linear_,                                                                        \
        .inputs = { { "a", types_, false } },                                                                \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .accumulates = true,                                                                                 \
        REDUCTION_EXPANDS,                                                                                   \
    };
#define LINEAR                                                                                               \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS, .contracts = WEFT_SUM                           \
    }
/* `op_` combines the ranks' results, and commutes with the same Partial op. */
#define BY(op_)                                                                                              \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = 1u << (op_), .contracts = (op_)                                  \
    }

/* ---- gradients ----------------------------------------------------------------------------------------- */

weft_tensor *weft_with_reduced_dims(const weft_gradient *of, weft_tensor *result)
{
    const weft_attributes *attributes = &of->call->attributes;
    for (int d = 0; d < WEFT_MAX_DIMS && result != NULL && !attributes->numbers[WEFT_REDUCTION_KEEPS]; d++) {
        if (attributes->numbers[WEFT_REDUCTION_MASK] >> d & 1) {
            result = weft_unsqueeze(result, d);
        }
    }
    return result;
}

int weft_reduced_dims(const weft_call *call, int dims[])
{
    int num_dims = 0;
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        if (call->attributes.numbers[WEFT_REDUCTION_MASK] >> d & 1) {
            dims[num_dims++] = d;
        }
    }
    return num_dims;
}

weft_tensor *weft_sum_again(const weft_gradient *of, weft_tensor *a)
{
    int64_t mask = of->call->attributes.numbers[WEFT_REDUCTION_MASK];
    return mask == 0 ? a : weft_sum(a, weft_dims_of_mask(mask), true);
}

static bool has_other_cuts(const weft_layout *layout)
{
    bool has = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        has |= p.kind == WEFT_SHARD && (!weft_cut_is_chunks(p) || p.level != 0);
    }
    return has;
}

/* An expansion cuts chunks, and its layout can be chosen again in a graph; but what joins the gradient of an input with other cuts
 * next has these. */
weft_tensor *weft_repeat_gradient(const weft_gradient *of, weft_tensor *gradient)
{
    const char *function = of->call->function;
    const weft_layout *a = weft_layout_of(of->call->inputs[0]);
    if (gradient == NULL || of->differentiated || !has_other_cuts(a) || weft_layout_of(gradient)->mesh != a->mesh) {
        return weft_expand_beside(gradient, a);
    }
    const weft_layout *layout = weft_layout_like(function, a, weft_layout_of(gradient)->dtype);
    bool fake = weft_runtime.context.steps == NULL && weft_tensor_get(gradient)->fake;
    weft_tensor *repeated = layout == NULL ? NULL
                            : fake         ? weft_fake(layout->dtype, a->ndim, a->shape, a->mesh->handle, layout->placements)
                                           : weft_new_tensor(function, layout);
    return repeated == NULL ? NULL : weft_copy_inplace(repeated, gradient);
}

static bool give_repeated(const weft_gradient *of, weft_tensor *gradient)
{
    weft_tensor *repeated = weft_repeat_gradient(of, gradient);
    return repeated != NULL && weft_give_gradient(of, 0, repeated);
}

/* scalars[0]: the factor of the sum, or 0. */
static bool gradient_of_sum(const weft_gradient *of)
{
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    double scale = of->call->scalars[0];
    bool scales = scale != 0 && !isinf(scale); /* infinite: the mean of nothing */
    return give_repeated(of, scales ? weft_scale(gradient, scale) : gradient);
}

/* The product of the other elements: the product of all divided by the element; beside one 0, the product
 * of the rest at that element; 0 everywhere if several are 0. */
static bool gradient_of_prod(const weft_gradient *of)
{
    weft_tensor *a = weft_conjugate(of->call->inputs[0]), *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    int dims[WEFT_MAX_DIMS], num_dims = weft_reduced_dims(of->call, dims);
    if (num_dims == 0) {
        return weft_give_gradient(of, 0, gradient); /* the element itself */
    }
    if (of->differentiated) {
        return weft_give_gradient(of, 0, weft_prod_gradient(gradient, a, num_dims, dims));
    }
    weft_tensor *zero = weft_logical_not(a), *others = weft_masked_fill(a, zero, 1);
    weft_tensor *product = others == NULL ? NULL : weft_prod(others, weft_set_of_dims(num_dims, dims), true);
    weft_tensor *zeros = zero == NULL ? NULL : weft_sum_again(of, zero);
    weft_tensor *passed = product == NULL ? NULL : weft_mul(gradient, product);
    if (zeros == NULL || passed == NULL) {
        return false;
    }
    /* Elements beside a 0, or beside a second one. */
    weft_tensor *beside = weft_gt(weft_sub(zeros, weft_to_type(zero, WEFT_I64)), weft_scale(zeros, 0));
    return beside != NULL && weft_give_gradient(of, 0, weft_masked_fill(weft_div(passed, others), beside, 0));
}

/* All elements equal to the extreme value share its gradient. */
static bool gradient_of_extreme(const weft_gradient *of)
{
    weft_tensor *taken = weft_eq(of->call->inputs[0], weft_with_reduced_dims(of, of->outputs[0]));
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    return taken != NULL && gradient != NULL &&
           weft_give_gradient(of, 0, weft_mul(taken, weft_div(gradient, weft_sum_again(of, taken))));
}

#define EXTREME WEFT_GRADIENT_BY(gradient_of_extreme, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0))

/* The call gives the type of sums: wider than 16 bits, so that they are rounded once. */
REDUCTION(sum, WEFT_TYPES_ANY, WEFT_TYPE_GIVEN, LINEAR, WEFT_GRADIENT_BY(gradient_of_sum, 0))
REDUCTION(prod, WEFT_TYPES_ANY, WEFT_TYPE_GIVEN, BY(WEFT_PROD), WEFT_GRADIENT_BY(gradient_of_prod, WEFT_READS_INPUT(0)))
REDUCTION(max, WEFT_TYPES_ALL, WEFT_TYPE_FIRST, BY(WEFT_MAX), EXTREME)
REDUCTION(min, WEFT_TYPES_ALL, WEFT_TYPE_FIRST, BY(WEFT_MIN), EXTREME)
REDUCTION(any, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, { .contracts = WEFT_MAX }, WEFT_GRADIENT_ZERO("truth values"))
REDUCTION(all, WEFT_TYPES_ANY, WEFT_TYPE_BOOL, { .contracts = WEFT_MIN }, WEFT_GRADIENT_ZERO("truth values"))
REDUCTION(sum_abs, WEFT_TYPES_FLOAT, WEFT_TYPE_GIVEN, { .contracts = WEFT_SUM }, WEFT_GRADIENT_OF_WHOLE("p_norm"))
REDUCTION(sum_square, WEFT_TYPES_FLOAT, WEFT_TYPE_GIVEN, { .contracts = WEFT_SUM }, WEFT_GRADIENT_OF_WHOLE("p_norm"))
REDUCTION(sum_pow, WEFT_TYPES_FLOAT, WEFT_TYPE_GIVEN, { .contracts = WEFT_SUM }, WEFT_GRADIENT_OF_WHOLE("p_norm"))
REDUCTION(max_abs, WEFT_TYPES_FLOAT, WEFT_TYPE_FIRST, { .contracts = WEFT_MAX }, WEFT_GRADIENT_OF_WHOLE("p_norm"))

#define REDUCTION_BESIDE(name_, beside_, whole_)                                                              \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE(whole_),                                                          \
        .write_rule = write_rule,                                                                            \
        .rule_like = "a*b*c*,a1c->ac",                                                                          \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { beside_, WEFT_TYPES_FLOAT, false } },                \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .accumulates = true,                                                                                 \
        REDUCTION_EXPANDS,                                                                                   \
    };

REDUCTION_BESIDE(sum_square_difference, "centre", "var")
REDUCTION_BESIDE(sum_square_scaled, "scale", "p_norm")
REDUCTION_BESIDE(sum_pow_scaled, "scale", "p_norm")

/* The smallest index over ranks is the first. */
static const weft_operation operation_place = {
    .name = "place",
    .gradient = WEFT_GRADIENT_ZERO("indices"),
    .write_rule = write_place_rule,
    .rule_like = "a*bc*,a1c->ac",
    .outputs[0].linear = { .contracts = WEFT_MIN },
    .inputs = { { "a", WEFT_TYPES_ALL, false }, { "extreme", WEFT_TYPES_ALL, true } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_place,
    .accumulates = true,
    REDUCTION_EXPANDS,
};

const weft_operation *const weft_reduction_sum = &operation_sum, *const weft_reduction_max = &operation_max,
                     *const weft_reduction_min = &operation_min, *const weft_reduction_place = &operation_place,
                     *const weft_reduction_sum_abs = &operation_sum_abs, *const weft_reduction_max_abs = &operation_max_abs,
                     *const weft_reduction_sum_square = &operation_sum_square,
                     *const weft_reduction_sum_pow = &operation_sum_pow,
                     *const weft_reduction_sum_square_scaled = &operation_sum_square_scaled,
                     *const weft_reduction_sum_pow_scaled = &operation_sum_pow_scaled;

/* ---- checks -------------------------------------------------------------------------------------------- */

int weft_dims_of_mask(int64_t mask)
{
    return WEFT_ALL_DIMS | (int)mask << WEFT_MAX_DIMS;
}

int weft_set_of_dims(int num_dims, const int dims[])
{
    int set = WEFT_ALL_DIMS;
    for (int i = 0; i < num_dims; i++) {
        set |= WEFT_DIM(dims[i]);
    }
    return set;
}

/* Mask of the members of a set; -1 with the error kept. */
static int64_t mask_of_set(const char *function, const weft_tensor *a, int set)
{
    int64_t mask = 0;
    for (int dim = -WEFT_MAX_DIMS; dim < WEFT_MAX_DIMS; dim++) {
        if (set >> (dim + WEFT_MAX_DIMS) & 1) {
            int index = weft_wrap_dim(function, "dims", a, dim);
            if (index < 0) {
                return -1;
            }
            if (mask >> index & 1) {
                weft_fail(WEFT_ERR_INVALID, function, "dims has dimension %d twice", index);
                return -1;
            }
            mask |= (int64_t)1 << index;
        }
    }
    return mask;
}

int64_t weft_check_reduced_dims(const char *function, weft_tensor *a, int dims)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return -1;
    }
    int ndim = weft_layout_of(a)->ndim;
    const int members = (1 << 2 * WEFT_MAX_DIMS) - 1;
    if (dims == WEFT_ALL_DIMS) {
        return ((int64_t)1 << ndim) - 1;
    }
    int64_t mask;
    if (dims > WEFT_ALL_DIMS && (dims & ~(WEFT_ALL_DIMS | members)) == 0) {
        mask = mask_of_set(function, a, dims & members);
    } else if (dims > WEFT_ALL_DIMS) {
        weft_fail(WEFT_ERR_INVALID, function, "dims has a dimension outside -%d to %d", WEFT_MAX_DIMS, WEFT_MAX_DIMS - 1);
        mask = -1;
    } else {
        int dim = weft_wrap_dim(function, "dim", a, dims);
        mask = dim < 0 ? -1 : (int64_t)1 << dim;
    }
    return mask < 0 ? -1 : ndim == 0 ? 0 : mask;
}

int64_t weft_check_reduced_dim(const char *function, weft_tensor *a, int dim)
{
    if (dim > WEFT_ALL_DIMS) {
        weft_fail(WEFT_ERR_INVALID, function, "dim is a set, expected one dimension or WEFT_ALL_DIMS");
        return -1;
    }
    return weft_check_reduced_dims(function, a, dim);
}

bool weft_check_reduced_type(const char *function, const weft_tensor *a)
{
    weft_dtype type = weft_layout_of(a)->dtype;
    bool floating = weft_dtype_is_floating(type);
    if (!floating) {
        weft_fail(WEFT_ERR_DTYPE, function, "a is %s, expected a floating type", weft_dtype_name(type));
    }
    return floating;
}

bool weft_check_reduced_sizes(const char *function, const weft_tensor *a, int64_t mask)
{
    for (int d = 0; d < weft_layout_of(a)->ndim; d++) {
        if ((mask >> d & 1) && weft_layout_of(a)->shape[d] == 0) {
            weft_fail(WEFT_ERR_SHAPE, function,
                      "a has size 0 in dimension %d: there is nothing to choose from", d);
            return false;
        }
    }
    return true;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

weft_tensor *weft_reduce(const weft_reduction *r)
{
    return weft_dispatch(&(weft_call){
        .function = r->function,
        .operation = r->operation,
        .num_inputs = r->centre == NULL ? 1 : 2,
        .inputs = { r->a, r->centre },
        .attributes = { .type = r->operation->outputs[0].type == WEFT_TYPE_GIVEN ? (int64_t)r->type : 0,
                        .num_numbers = 2,
                        .numbers = { [WEFT_REDUCTION_MASK] = r->mask, [WEFT_REDUCTION_KEEPS] = r->keepdim } },
        .scalars = { r->scale, r->p },
    });
}

weft_tensor *weft_dispatch_reduction(const char *function, const weft_operation *operation, weft_tensor *a, int64_t mask,
                                     bool keepdim, double scalar, int way)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = operation,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_numbers = 3, .numbers = { mask, keepdim, way } },
                                       .scalars = { scalar } });
}

static weft_tensor *sum_like(const char *function, const weft_operation *operation, weft_tensor *a,
                             int dims, bool keepdim, bool averages)
{
    weft_reduction r = { function, operation, a, .keepdim = keepdim };
    r.mask = weft_check_reduced_dims(function, a, dims);
    if (r.mask < 0) {
        return NULL;
    }
    weft_dtype type = weft_layout_of(a)->dtype;
    if (averages && !weft_dtype_is_complex(type) && !weft_check_reduced_type(function, a)) {
        return NULL;
    }
    r.type = weft_dtype_has_gradient(type) ? type : WEFT_I64;
    r.scale = averages ? 1 / weft_count_along(weft_layout_of(a), r.mask) : 0;
    return weft_reduce(&r);
}

static weft_tensor *extremum_like(const char *function, const weft_operation *operation, weft_tensor *a,
                                  int dims, bool keepdim, bool needs_elements)
{
    weft_reduction r = { function, operation, a, .keepdim = keepdim };
    r.mask = weft_check_reduced_dims(function, a, dims);
    if (r.mask < 0 || (needs_elements && !weft_check_reduced_sizes(function, a, r.mask))) {
        return NULL;
    }
    return weft_reduce(&r);
}

weft_tensor *weft_sum_statistic(const char *function, weft_row_statistic kind, weft_tensor *a,
                                weft_tensor *centre, int64_t mask, double scale)
{
    static const weft_operation *const operations[] = { &operation_sum, &operation_sum_square,
                                                        &operation_sum_square_difference };
    return weft_reduce(&(weft_reduction){ .function = function,
                                .operation = operations[kind],
                                .a = a,
                                .centre = centre,
                                .mask = mask,
                                .keepdim = true,
                                .type = WEFT_F64,
                                .scale = scale });
}

/* ---- public -------------------------------------------------------------------------------------------- */

#define PUBLIC(name, call)                                                                                   \
    weft_tensor *weft_##name(weft_tensor *a, int dims, bool keepdim)                                         \
    {                                                                                                        \
        static const char function[] = "weft_" #name;                                                        \
        return call;                                                                                         \
    }

PUBLIC(sum, sum_like(function, &operation_sum, a, dims, keepdim, false))
PUBLIC(mean, sum_like(function, &operation_sum, a, dims, keepdim, true))
PUBLIC(prod, sum_like(function, &operation_prod, a, dims, keepdim, false))
PUBLIC(max, extremum_like(function, &operation_max, a, dims, keepdim, true))
PUBLIC(min, extremum_like(function, &operation_min, a, dims, keepdim, true))
PUBLIC(any, extremum_like(function, &operation_any, a, dims, keepdim, false))
PUBLIC(all, extremum_like(function, &operation_all, a, dims, keepdim, false))

weft_tensor *weft_only_sum(const char *function, weft_tensor *scalar)
{
    return sum_like(function, &operation_sum, scalar, WEFT_ALL_DIMS, false, false);
}

/* ---- variance ------------------------------------------------------------------------------------------ */

/* 2 (a - mean) / (count - correction). scalars[0]: the correction. */
static bool gradient_of_var(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *sum = weft_sum_again(of, a);
    weft_tensor *gradient = weft_with_reduced_dims(of, weft_gradient_of_output(of, 0));
    double count = weft_count_along(weft_layout_of(a), of->call->attributes.numbers[WEFT_REDUCTION_MASK]);
    double scale = count > 0 ? 2 / fmax(count - of->call->scalars[0], 0) : 0;
    return sum != NULL && gradient != NULL &&
           weft_give_gradient(of, 0,
                              weft_mul(weft_sub(a, weft_scale(sum, 1 / count)), weft_scale(gradient, scale)));
}

/* Divides the sum, not its addends, by 0: infinity, or NaN for 0; some addends may be 0. */
static weft_tensor *divided_by_0(const char *function, weft_tensor *sum)
{
    sum = weft_unshard_dim(function, sum, -1);
    return sum == NULL ? NULL : weft_scale(sum, INFINITY);
}

/* Two passes: the mean, then the squared differences from it. scalars[0]: the correction. */
static bool expand_var(const weft_call *call, weft_tensor *outputs[])
{
    double correction = call->scalars[0];
    weft_reduction r = { call->function, &operation_sum, call->inputs[0], .keepdim = true };
    r.mask = call->attributes.numbers[WEFT_REDUCTION_MASK];
    double count = weft_count_along(weft_layout_of(r.a), r.mask);
    r.type = weft_wide_type(weft_layout_of(r.a)->dtype); /* the mean of equal elements is exact in f32 */
    r.scale = 1 / count;
    r.centre = weft_reduce(&r);
    if (r.centre == NULL) {
        return false;
    }
    r.operation = &operation_sum_square_difference;
    r.type = WEFT_F64; /* its range has the squares of narrower types */
    r.keepdim = call->attributes.numbers[WEFT_REDUCTION_KEEPS] != 0;
    bool divides = count > 0 && count > correction;
    r.scale = divides ? 1 / (count - correction) : 0;
    weft_tensor *result = weft_reduce(&r);
    if (!divides && result != NULL) {
        result = divided_by_0(r.function, result);
    }
    outputs[0] = result == NULL ? NULL : weft_to_type(result, weft_layout_of(r.a)->dtype);
    return outputs[0] != NULL;
}

static const weft_operation operation_var = {
    .name = "var",
    .gradient = WEFT_GRADIENT_BY(gradient_of_var, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_var,
};

/* The sum of the parts' variances. */
static bool expand_complex_var(const weft_call *call, weft_tensor *outputs[])
{
    const int dims = weft_dims_of_mask(call->attributes.numbers[WEFT_REDUCTION_MASK]);
    const bool keepdim = call->attributes.numbers[WEFT_REDUCTION_KEEPS] != 0;
    weft_tensor *real = weft_var(weft_real(call->inputs[0]), dims, call->scalars[0], keepdim);
    weft_tensor *imag = weft_var(weft_imag(call->inputs[0]), dims, call->scalars[0], keepdim);
    outputs[0] = real == NULL || imag == NULL ? NULL : weft_add(real, imag);
    return outputs[0] != NULL;
}

static const weft_operation operation_complex_var = {
    .name = "complex_var",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_COMPLEX, false } },
    .expand = expand_complex_var,
};

static weft_tensor *variance(const char *function, weft_tensor *a, int dims, double correction, bool keepdim)
{
    int64_t mask = weft_check_reduced_dims(function, a, dims);
    const bool complex = mask >= 0 && weft_dtype_is_complex(weft_layout_of(a)->dtype);
    if (mask < 0 || (!complex && !weft_check_reduced_type(function, a))) {
        return NULL;
    }
    double count = weft_count_along(weft_layout_of(a), mask);
    return weft_dispatch_reduction(function, complex ? &operation_complex_var : &operation_var, a, mask, keepdim, correction,
                                   count > 0 && count > correction);
}

weft_tensor *weft_var(weft_tensor *a, int dims, double correction, bool keepdim)
{
    return variance("weft_var", a, dims, correction, keepdim);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

const weft_operation *const weft_reduction_operations[] = {
    &operation_sum,
    &operation_prod,
    &operation_max,
    &operation_min,
    &operation_any,
    &operation_all,
    &operation_sum_abs,
    &operation_sum_square,
    &operation_sum_pow,
    &operation_max_abs,
    &operation_sum_square_difference,
    &operation_sum_square_scaled,
    &operation_sum_pow_scaled,
    &operation_place,
    &operation_var,
    &operation_complex_var,
    NULL,
};
