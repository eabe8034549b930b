/* Medians and quantiles: chosen from sorted elements. Covariances. */
#include <math.h>

#include "ops/reductions.h"
#include "ops/row_reduce.h"

/* ---- what both share ----------------------------------------------------------------------------------- */

/* The sorted input: all elements as one line, or a along one dimension. */
typedef struct line {
    weft_tensor *a; /* NULL: an error is kept */
    int dim;
    int64_t size;
} line;

/* The only dimension that the call reduces; -1: it reduces all. */
static int reduced_dim(const weft_call *call)
{
    const int64_t mask = call->attributes.numbers[WEFT_REDUCTION_MASK];
    int dim = 0;
    if (mask == 0 || (mask & (mask - 1)) != 0) {
        return -1;
    }
    while (mask >> dim != 1) {
        dim++;
    }
    return dim;
}

static int64_t line_size(const weft_call *call)
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    const int dim = reduced_dim(call);
    return dim >= 0 ? a->shape[dim] : (int64_t)weft_count_along(a, -1);
}

static line line_of(const weft_call *call)
{
    const int dim = reduced_dim(call);
    return (line){ .a = dim >= 0 ? call->inputs[0] : weft_reshape(call->inputs[0], 1, (int64_t[]){ -1 }),
                   .dim = dim >= 0 ? dim : 0,
                   .size = line_size(call) };
}

static weft_tensor *element_at(const line *l, weft_tensor *sorted, int64_t k)
{
    return sorted == NULL ? NULL : weft_slice(sorted, l->dim, k, k + 1, 1);
}

/* In the result's shape; `result` has size 1 along the line. */
static weft_tensor *in_shape(const weft_call *call, weft_tensor *result)
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int64_t mask = call->attributes.numbers[WEFT_REDUCTION_MASK], shape[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < a->ndim; d++) {
        if (!(mask >> d & 1)) {
            shape[ndim++] = a->shape[d];
        } else if (call->attributes.numbers[WEFT_REDUCTION_KEEPS]) {
            shape[ndim++] = 1;
        }
    }
    return result == NULL ? NULL : weft_reshape(result, ndim, shape);
}

/* Where the line has a NaN, which is the largest element; NULL for types without. */
typedef struct worst {
    weft_tensor *is_nan, *value, *index;
    bool failed;
} worst;

static worst worst_of(const line *l)
{
    worst w = { 0 };
    if (weft_dtype_is_floating(weft_layout_of(l->a)->dtype)) {
        w.value = weft_max_with_indices(l->a, l->dim, true, &w.index);
        w.is_nan = w.value == NULL ? NULL : weft_isnan(w.value);
        w.failed = w.is_nan == NULL;
    }
    return w;
}

static weft_tensor *unless(const worst *w, weft_tensor *instead, weft_tensor *result)
{
    return w->failed || result == NULL ? NULL : w->is_nan == NULL ? result : weft_where(w->is_nan, instead, result);
}

/* ---- medians ------------------------------------------------------------------------------------------- */

static bool expand_median(const weft_call *call, weft_tensor *outputs[])
{
    const line l = line_of(call);
    weft_tensor *order = NULL, *sorted = l.a == NULL ? NULL : weft_sort(l.a, l.dim, false, &order);
    if (sorted == NULL) {
        return false;
    }
    const worst w = worst_of(&l);
    outputs[0] = in_shape(call, unless(&w, w.value, element_at(&l, sorted, (l.size - 1) / 2)));
    outputs[1] = in_shape(call, unless(&w, w.index, element_at(&l, order, (l.size - 1) / 2)));
    return outputs[0] != NULL && outputs[1] != NULL;
}

static const weft_operation operation_median = {
    .name = "median",
    .gradient = WEFT_GRADIENT_BY(weft_gradient_of_selected, WEFT_READS_OUTPUT(1)),
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .expand = expand_median,
};

weft_tensor *weft_median(weft_tensor *a, int dim, bool keepdim, weft_tensor **indices)
{
    if (indices != NULL) {
        *indices = NULL;
    }
    weft_call call = weft_call_of_reduced_dim("weft_median", &operation_median, a, dim, keepdim);
    return call.operation == NULL ? NULL : weft_dispatch_pair(&call, indices);
}

/* ---- quantiles ----------------------------------------------------------------------------------------- */

/* QUANTILE_BETWEEN: it lies between two elements. */
enum { QUANTILE_WAY = WEFT_REDUCTION_KEEPS + 1, QUANTILE_BETWEEN, QUANTILE_NUMBERS };

/* scalars[0]: q. */
static bool expand_quantile(const weft_call *call, weft_tensor *outputs[])
{
    const line l = line_of(call);
    weft_tensor *order, *sorted = l.a == NULL ? NULL : weft_sort(l.a, l.dim, false, &order); /* for the gradient */
    if (sorted == NULL) {
        return false;
    }
    double rank = call->scalars[0] * (double)(l.size - 1), below = floor(rank), above = ceil(rank), weight = rank - below;
    switch (call->attributes.numbers[QUANTILE_WAY]) {
    case WEFT_QUANTILE_LOWER:
        above = below;
        break;
    case WEFT_QUANTILE_HIGHER:
        below = above;
        break;
    case WEFT_QUANTILE_MIDPOINT:
        weight = 0.5;
        break;
    case WEFT_QUANTILE_NEAREST:
        below = above = nearbyint(rank);
        break;
    default:
        break;
    }
    weft_tensor *lower = element_at(&l, sorted, (int64_t)below);
    weft_tensor *upper = below == above ? NULL : element_at(&l, sorted, (int64_t)above);
    weft_tensor *result = below == above ? lower : lower == NULL || upper == NULL ? NULL : weft_lerp(lower, upper, weight);
    const worst w = worst_of(&l);
    outputs[0] = in_shape(call, unless(&w, w.value, result));
    return outputs[0] != NULL;
}

static const weft_operation operation_quantile = {
    .name = "quantile",
    .gradient = WEFT_GRADIENT_BY(weft_gradient_of_body, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .expand = expand_quantile,
};

weft_tensor *weft_quantile(weft_tensor *a, double q, int dim, bool keepdim, weft_quantile_way way)
{
    static const char function[] = "weft_quantile";
    weft_call call = weft_call_of_reduced_dim(function, &operation_quantile, a, dim, keepdim);
    if (call.operation == NULL) {
        return NULL;
    }
    if (!(q >= 0 && q <= 1)) {
        weft_fail(WEFT_ERR_INVALID, function, "q is %g, expected 0 to 1", q);
        return NULL;
    }
    if (way < WEFT_QUANTILE_LINEAR || way > WEFT_QUANTILE_NEAREST) {
        weft_fail(WEFT_ERR_INVALID, function, "way is %d, expected a weft_quantile_way", (int)way);
        return NULL;
    }
    call.attributes.num_numbers = QUANTILE_NUMBERS;
    const double rank = q * (double)(line_size(&call) - 1);
    call.attributes.numbers[QUANTILE_WAY] = way;
    call.attributes.numbers[QUANTILE_BETWEEN] = rank != floor(rank);
    call.scalars[0] = q;
    return weft_dispatch(&call);
}

/* ---- covariances --------------------------------------------------------------------------------------- */

/* scalars[0]: the correction. */
static bool expand_cov(const weft_call *call, weft_tensor *outputs[])
{
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    weft_tensor *a = weft_to_type(call->inputs[0], weft_wide_type(type));
    bool one = a != NULL && weft_layout_of(a)->ndim == 1;
    a = one ? weft_unsqueeze_dim(call->function, a, 0) : a;
    weft_tensor *mean = a == NULL ? NULL : weft_mean(a, 1, true);
    weft_tensor *centred = mean == NULL ? NULL : weft_sub(a, mean);
    weft_tensor *sums = centred == NULL ? NULL : weft_matmul_ex(centred, false, weft_conjugate(centred), true);
    if (sums == NULL) {
        return false;
    }
    double divisor = (double)weft_layout_of(a)->shape[1] - call->scalars[0];
    if (!(divisor > 0)) { /* of the sum, not of addends: some may be 0 */
        sums = weft_unshard_dim(call->function, sums, -1);
    }
    sums = sums == NULL ? NULL : weft_scale(sums, divisor > 0 ? 1 / divisor : INFINITY);
    sums = one && sums != NULL ? weft_reshape(sums, 0, NULL) : sums;
    outputs[0] = sums == NULL ? NULL : weft_to_type(sums, type);
    return outputs[0] != NULL;
}

static const weft_operation operation_cov = {
    .name = "cov",
    .gradient = WEFT_GRADIENT_BY(weft_gradient_of_body, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, false } },
    .expand = expand_cov,
};

weft_tensor *weft_cov(weft_tensor *a, double correction)
{
    static const char function[] = "weft_cov";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    int ndim = weft_layout_of(a)->ndim;
    if (ndim != 1 && ndim != 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has %d dimensions, expected 1 or 2", ndim);
        return NULL;
    }
    if (isnan(correction)) {
        weft_fail(WEFT_ERR_INVALID, function, "correction is not a number");
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_cov,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { correction } });
}

const weft_operation *const weft_quantile_operations[] = { &operation_median, &operation_quantile, &operation_cov, NULL };
