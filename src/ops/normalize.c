/* Vectors of norm 1, their cosines, norms of matrices; gated units: put together from other operations. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/row_reduce.h"
#include "ops/vector_norms.h"

/* Number of a call. */
enum { NUMBER_DIM = 0, NUMBER_WAY = 1, NUMBER_KIND = 0, NUMBER_KEEPS = 1 };

#define BODY_OF(...)                                                                                         \
    {                                                                                                        \
        .function = weft_gradient_of_body, .reads = { __VA_ARGS__ }                                          \
    }
#define BOTH_INPUTS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1))

/* False with the error kept; a is live. */
static bool check_floating(const char *function, const char *name, weft_tensor *a)
{
    weft_dtype dtype = weft_layout_of(a)->dtype;
    if (!weft_dtype_is_floating(dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected a floating type", name, weft_dtype_name(dtype));
        return false;
    }
    return true;
}

static bool check_epsilon(const char *function, double epsilon)
{
    if (!(epsilon >= 0)) {
        weft_fail(WEFT_ERR_INVALID, function, "epsilon is %g, expected at least 0", epsilon);
        return false;
    }
    return true;
}

/* ---- vectors ------------------------------------------------------------------------------------------- */

/* a / max(norm, epsilon) in a's type, which has more than 16 bits. */
static weft_tensor *normalized(weft_tensor *a, double p, int dim, double epsilon)
{
    return weft_div(a, weft_clamp(weft_norm(a, p, dim, true), epsilon, INFINITY));
}

/* scalars: p, epsilon. */
static bool expand_normalize(const weft_call *call, weft_tensor *outputs[])
{
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    int dim = (int)call->attributes.numbers[NUMBER_DIM];
    weft_tensor *a = weft_to_type(call->inputs[0], weft_wide_type(type));
    outputs[0] = weft_to_type(normalized(a, call->scalars[0], dim, call->scalars[1]), type);
    return outputs[0] != NULL;
}

static const weft_operation operation_normalize = {
    .name = "normalize",
    .gradient = BODY_OF(WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_normalize,
};

weft_tensor *weft_normalize(weft_tensor *a, double p, int dim, double epsilon)
{
    static const char function[] = "weft_normalize";
    dim = weft_check_dim_of(function, a, dim);
    if (dim < 0 || !check_floating(function, "a", a) || !check_epsilon(function, epsilon)) {
        return NULL;
    }
    if (!(p >= 0)) {
        weft_fail(WEFT_ERR_INVALID, function, "p is %g, expected at least 0", p);
        return NULL;
    }
    if (isinf(p) && weft_layout_of(a)->ndim > 0 && weft_layout_of(a)->shape[dim] == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has size 0 in dimension %d, which has no largest element", dim);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_normalize,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_numbers = 2,
                                                       .numbers = { [NUMBER_DIM] = dim, [NUMBER_WAY] = weft_way_of_norm(p) } },
                                       .scalars = { p, epsilon } });
}

/* Of an input as wide as the result, in the result's shape. */
static weft_tensor *unit_vectors(const weft_call *call, int input, weft_dtype type, int ndim, const int64_t shape[])
{
    weft_tensor *a = weft_to_type(call->inputs[input], type);
    a = weft_expand(a, ndim, shape);
    return normalized(a, 2, (int)call->attributes.numbers[NUMBER_DIM], call->scalars[0]);
}

/* Writes the shape that two broadcast to; returns its length. */
static int broadcast_shape(const weft_layout *a, const weft_layout *b, int64_t shape[])
{
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 0; d < ndim; d++) {
        int of_a = d - (ndim - a->ndim), of_b = d - (ndim - b->ndim);
        int64_t first = of_a < 0 ? 1 : a->shape[of_a], second = of_b < 0 ? 1 : b->shape[of_b];
        shape[d] = first == 1 ? second : first;
    }
    return ndim;
}

/* scalars[0]: epsilon. */
static bool expand_cosine_similarity(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layouts[2] = { weft_layout_of(call->inputs[0]), weft_layout_of(call->inputs[1]) };
    weft_dtype type = weft_promoted(2, layouts), wide = weft_wide_type(type);
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = broadcast_shape(layouts[0], layouts[1], shape);
    weft_tensor *products = weft_mul(unit_vectors(call, 0, wide, ndim, shape), unit_vectors(call, 1, wide, ndim, shape));
    outputs[0] = weft_to_type(weft_sum(products, (int)call->attributes.numbers[NUMBER_DIM], false), type);
    return outputs[0] != NULL;
}

static const weft_operation operation_cosine_similarity = {
    .name = "cosine_similarity",
    .gradient = BODY_OF(BOTH_INPUTS, BOTH_INPUTS),
    .rules = { "...,...->..." },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "b", WEFT_TYPES_FLOAT, false } },
    .outputs[0].type = WEFT_TYPE_PROMOTED,
    .expand = expand_cosine_similarity,
};

weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int dim, double epsilon)
{
    static const char function[] = "weft_cosine_similarity";
    if (weft_check_tensor(function, "a", a) == NULL || weft_check_tensor(function, "b", b) == NULL ||
        !check_epsilon(function, epsilon)) {
        return NULL;
    }
    dim = weft_wrap_dim(function, "dim", weft_layout_of(b)->ndim > weft_layout_of(a)->ndim ? b : a, dim);
    return dim < 0 ? NULL
                   : weft_dispatch(&(weft_call){
                         .function = function,
                         .operation = &operation_cosine_similarity,
                         .num_inputs = 2,
                         .inputs = { a, b },
                         .attributes = { .num_numbers = 1, .numbers = { [NUMBER_DIM] = dim } },
                         .scalars = { epsilon } });
}

/* ---- matrices ------------------------------------------------------------------------------------------ */

static bool expand_matrix_norm(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0];
    bool keeps = call->attributes.numbers[NUMBER_KEEPS] != 0;
    int64_t kind = call->attributes.numbers[NUMBER_KIND];
    if (kind == WEFT_MATRIX_FROBENIUS) {
        outputs[0] = weft_norm(a, 2, WEFT_DIM(-2) | WEFT_DIM(-1), keeps);
        return outputs[0] != NULL;
    }
    bool of_columns = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_MINUS_ONE;
    bool largest = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_INFINITY;
    weft_tensor *sums = weft_norm(a, 1, of_columns ? -2 : -1, keeps);
    int dim = keeps && !of_columns ? -2 : -1;
    outputs[0] = largest ? weft_max(sums, dim, keeps) : weft_min(sums, dim, keeps);
    return outputs[0] != NULL;
}

static const weft_operation operation_matrix_norm = {
    .name = "matrix_norm",
    .gradient = BODY_OF(WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_matrix_norm,
};

/* False with the error kept. */
static bool check_kind(const char *function, const weft_layout *a, weft_matrix_norm_kind kind)
{
    if ((unsigned)kind > WEFT_MATRIX_NUCLEAR) {
        weft_fail(WEFT_ERR_INVALID, function, "kind is %d, expected a weft_matrix_norm_kind", (int)kind);
        return false;
    }
    if (kind == WEFT_MATRIX_TWO || kind == WEFT_MATRIX_MINUS_TWO || kind == WEFT_MATRIX_NUCLEAR) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "kind is %d, a norm of singular values, which weft does not compute",
                  (int)kind);
        return false;
    }
    bool of_columns = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_MINUS_ONE;
    int dim = a->ndim - (of_columns ? 1 : 2);
    if (kind != WEFT_MATRIX_FROBENIUS && a->shape[dim] == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "max over an empty dimension: a has size 0 in dimension %d", dim);
        return false;
    }
    return true;
}

weft_tensor *weft_matrix_norm(weft_tensor *a, weft_matrix_norm_kind kind, bool keepdim)
{
    static const char function[] = "weft_matrix_norm";
    if (weft_check_tensor(function, "a", a) == NULL || !check_floating(function, "a", a)) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim < 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimensions, expected at least 2", weft_layout_of(a)->ndim);
        return NULL;
    }
    if (!check_kind(function, weft_layout_of(a), kind)) {
        return NULL;
    }
    return weft_dispatch(
        &(weft_call){ .function = function,
                      .operation = &operation_matrix_norm,
                      .num_inputs = 1,
                      .inputs = { a },
                      .attributes = { .num_numbers = 2,
                                      .numbers = { [NUMBER_KIND] = kind, [NUMBER_KEEPS] = keepdim } } });
}

/* ---- gates --------------------------------------------------------------------------------------------- */

static bool gradients_of_gate(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *const *inputs = of->call->inputs;
    weft_tensor *gate = weft_sigmoid(inputs[1]);
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, weft_mul(g, gate))) &&
           (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_sigmoid_backward(weft_mul(g, inputs[0]), gate)));
}

/* a sigmoid(b) */
static const weft_operation operation_gate = {
    .name = "gate",
    .gradient = { .function = gradients_of_gate, .reads = { WEFT_READS_INPUT(1), BOTH_INPUTS } },
    .rules = { "A,A->A" },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true } },
    .kernel = WEFT_KERNEL_gate,
};

static bool expand_glu(const weft_call *call, weft_tensor *outputs[])
{
    int dim = (int)call->attributes.numbers[NUMBER_DIM];
    int64_t half = weft_layout_of(call->inputs[0])->shape[dim] / 2;
    weft_tensor *halves[2];
    for (int i = 0; i < 2; i++) {
        halves[i] = weft_slice(call->inputs[0], dim, i * half, (i + 1) * half, 1);
    }
    outputs[0] = weft_dispatch(&(weft_call){
        .function = call->function, .operation = &operation_gate, .num_inputs = 2, .inputs = { halves[0], halves[1] } });
    return outputs[0] != NULL;
}

static const weft_operation operation_glu = {
    .name = "glu",
    .gradient = BODY_OF(WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_glu,
};

weft_tensor *weft_glu(weft_tensor *a, int dim)
{
    static const char function[] = "weft_glu";
    dim = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0 || !check_floating(function, "a", a)) {
        return NULL;
    }
    if (weft_layout_of(a)->shape[dim] % 2 != 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has size %lld in dimension %d, expected an even one",
                  (long long)weft_layout_of(a)->shape[dim], dim);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_glu,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_numbers = 1, .numbers = { [NUMBER_DIM] = dim } } });
}

/* ---- learnt slopes ------------------------------------------------------------------------------------- */

/* The slope at 0 and of NaN is the weight. The weight's gradient is linear where a is below 0, or NaN. */
static bool gradients_of_slope(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0), *a = of->call->inputs[0], *weight = of->call->inputs[1];
    weft_tensor *above = weft_relu(weft_sign(a));
    return (!weft_gradient_wanted(of, 0) ||
            weft_give_gradient(of, 0, weft_where(weft_logical_not(above), weft_mul(g, weight), g))) &&
           (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_masked_fill(weft_mul(g, a), weft_eq(a, weft_relu(a)), 0)));
}

static const weft_operation operation_slope = {
    .name = "slope",
    .gradient = { .function = gradients_of_slope, .reads = { BOTH_INPUTS, WEFT_READS_INPUT(0) } },
    .rules = { "...,...->..." },
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "weight", WEFT_TYPES_FLOAT, true } },
    .kernel = WEFT_KERNEL_prelu,
};

/* The weight along dimension 1. */
static bool expand_prelu(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]), *weight = weft_layout_of(call->inputs[1]);
    bool one = weight->ndim == 0 || weight->shape[0] == 1;
    int64_t shape[WEFT_MAX_DIMS] = { one ? 1 : weight->shape[0], 1, 1, 1, 1, 1, 1, 1 };
    weft_tensor *slopes = weft_reshape(call->inputs[1], one ? 0 : a->ndim - 1, shape);
    outputs[0] = weft_dispatch(&(weft_call){ .function = call->function,
                                             .operation = &operation_slope,
                                             .num_inputs = 2,
                                             .inputs = { call->inputs[0], slopes } });
    return outputs[0] != NULL;
}

static const weft_operation operation_prelu = {
    .name = "prelu",
    .gradient = BODY_OF(BOTH_INPUTS, BOTH_INPUTS),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "weight", WEFT_TYPES_FLOAT, false } },
    .expand = expand_prelu,
};

weft_tensor *weft_prelu(weft_tensor *a, weft_tensor *weight)
{
    static const char function[] = "weft_prelu";
    if (weft_check_tensor(function, "a", a) == NULL || weft_check_tensor(function, "weight", weight) == NULL) {
        return NULL;
    }
    const weft_layout *values = weft_layout_of(a), *slopes = weft_layout_of(weight);
    bool one = slopes->ndim == 0 || (slopes->ndim == 1 && slopes->shape[0] == 1);
    if (!one && (slopes->ndim != 1 || values->ndim < 2 || slopes->shape[0] != values->shape[1])) {
        char texts[2][160];
        weft_fail(WEFT_ERR_SHAPE, function, "weight is %s, expected one number, or one for each index of dimension 1 of a, %s",
                  weft_layout_format(slopes, texts[0], sizeof(texts[0])),
                  weft_layout_format(values, texts[1], sizeof(texts[1])));
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function, .operation = &operation_prelu, .num_inputs = 2, .inputs = { a, weight } });
}

const weft_operation *const weft_normalize_operations[] = {
    &operation_normalize, &operation_cosine_similarity, &operation_matrix_norm, &operation_gate,
    &operation_glu,       &operation_slope,             &operation_prelu,       NULL,
};
