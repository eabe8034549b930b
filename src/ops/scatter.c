/* Elements and slices that take others' places, or are combined with them; sums by number. */
#include <math.h>
#include <stdio.h>

#include "codelets/counts.h"
#include "ops/elementwise.h"
#include "ops/row_reduce.h"

/* attributes.leading: the dimension. numbers: */
enum { SCATTER_TOGETHER, SCATTER_REDUCTION, SCATTER_INCLUDES, SCATTER_NUMBERS };

/* ---- what bodies share --------------------------------------------------------------------------------- */

/* The arguments of a call with inputs a, indices and perhaps source. */
static weft_scattering scattering_of(const weft_call *call)
{
    return (weft_scattering){ .function = call->function,
                              .a = call->inputs[0],
                              .dim = (int)call->attributes.leading,
                              .indices = call->inputs[1],
                              .source = call->num_inputs > 2 ? call->inputs[2] : NULL,
                              .together = call->attributes.numbers[SCATTER_TOGETHER] != 0 };
}

static weft_tensor *combine(const weft_scattering *x, weft_reduce_op op, weft_tensor *source)
{
    return source == NULL ? NULL
                          : weft_scatter_by(x->function, op, source, x->dim, x->together, x->indices,
                                            weft_layout_of(x->a)->shape[x->dim]);
}

static weft_tensor *look_up(const weft_scattering *x, weft_tensor *from)
{
    return weft_look_up(x->function, from, x->dim, x->together, x->indices);
}

/* [n] along dimension `dim` of `ndim`. */
static weft_tensor *along(weft_tensor *line, int dim, int ndim)
{
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim && line != NULL; d++) {
        shape[d] = d == dim ? weft_layout_of(line)->shape[0] : 1;
    }
    return line == NULL ? NULL : weft_reshape(line, ndim - dim, shape + dim);
}

/* 1 for each index. */
static weft_tensor *ones_of(const weft_scattering *x, weft_dtype type)
{
    return weft_to_type(weft_eq(x->indices, x->indices), type);
}

/* Where an index points to, in a form that broadcasts to a's shape. */
static weft_tensor *targets_of(const weft_scattering *x)
{
    weft_tensor *ones = ones_of(x, WEFT_BOOL);
    weft_tensor *targets = ones == NULL ? NULL
                                        : weft_scatter_by(x->function, WEFT_SUM, ones, x->together ? 0 : x->dim, false,
                                                          x->indices, weft_layout_of(x->a)->shape[x->dim]);
    return x->together ? along(targets, x->dim, weft_layout_of(x->a)->ndim) : targets;
}

/* ---- elements that take the place of others ------------------------------------------------------------ */

/* scalars[0]: the value. */
static bool expand_fill(const weft_call *call, weft_tensor *outputs[])
{
    const weft_scattering x = scattering_of(call);
    weft_tensor *targets = targets_of(&x);
    outputs[0] = targets == NULL ? NULL : weft_masked_fill(x.a, targets, call->scalars[0]);
    return outputs[0] != NULL;
}

/* The position in the source of each index: along the dimension. */
static weft_tensor *positions_of(const weft_scattering *x)
{
    const weft_layout *source = weft_layout_of(x->source);
    weft_tensor *line =
        weft_arange(WEFT_I64, 0, source->shape[x->dim], 1, source->mesh->handle, NULL);
    return x->together || line == NULL ? line
                                       : weft_add(weft_zeros_like(x->indices), along(line, x->dim, source->ndim));
}

static bool is_sum(const weft_layout *layout)
{
    bool sums = layout->has_partial && layout->dtype != WEFT_BOOL;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        sums &= layout->placements[m].kind != WEFT_PARTIAL || layout->placements[m].op == WEFT_SUM;
    }
    return sums;
}

/* Replicated where `a` has addends, which are more than these. */
static weft_tensor *beside_addends(const char *function, weft_tensor *few, const weft_layout *a)
{
    const weft_layout *own = weft_layout_of(few);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < a->mesh->ndim; m++) {
        placements[m] = a->placements[m].kind == WEFT_PARTIAL ? weft_replicate() : own->placements[m];
    }
    const weft_layout *to = weft_check_layout(function, own->mesh, placements, own->ndim, own->shape, own->dtype);
    return to == NULL ? NULL : weft_in_layout(function, few, to);
}

/* `values` where `found`, else a. A Partial sum stays one: 0 there, and the values as addends. */
static weft_tensor *replaced(weft_tensor *found, weft_tensor *values, weft_tensor *a)
{
    if (!is_sum(weft_layout_of(a))) {
        return weft_where(found, values, a);
    }
    weft_tensor *rest = weft_zero_where(found, a), *taken = weft_zero_where(weft_logical_not(found), values);
    return rest == NULL || taken == NULL ? NULL : weft_add_addend(rest, taken);
}

/* The last of several elements for one place wins: that of the largest position. */
static bool expand_copy(const weft_call *call, weft_tensor *outputs[])
{
    weft_scattering x = scattering_of(call);
    if (weft_layout_of(x.source)->shape[x.dim] == 0) {
        outputs[0] = weft_same(x.function, x.a);
        return outputs[0] != NULL;
    }
    weft_tensor *positions = positions_of(&x);
    weft_tensor *last = positions == NULL ? NULL
                                          : weft_scatter_by(x.function, WEFT_MAX, positions, x.together ? 0 : x.dim,
                                                            false, x.indices, weft_layout_of(x.a)->shape[x.dim]);
    if (last != NULL && is_sum(weft_layout_of(x.a))) {
        last = beside_addends(x.function, last, weft_layout_of(x.a));
    }
    weft_tensor *found = last == NULL ? NULL : weft_ge(last, weft_zeros_like(last));
    weft_tensor *taken = found == NULL ? NULL : weft_mul(last, found);
    weft_tensor *values = taken == NULL ? NULL : weft_look_up(x.function, x.source, x.dim, x.together, taken);
    found = x.together ? along(found, x.dim, weft_layout_of(x.a)->ndim) : found;
    outputs[0] = values == NULL || found == NULL ? NULL : replaced(found, values, x.a);
    return outputs[0] != NULL;
}

#define REPLACEMENT(name_, expand_, ...)                                                                     \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = weft_gradient_of_body,                                                     \
                      .reads = { WEFT_READS_INPUT(1), 0, WEFT_READS_INPUT(1) } },                            \
        .inputs = { { "a", WEFT_TYPES_ANY, false }, { "indices", WEFT_TYPES_INDEX, false }, __VA_ARGS__ },   \
        .expand = expand_,                                                                                   \
    };

REPLACEMENT(scatter_value, expand_fill, { 0 })
REPLACEMENT(scatter_copy, expand_copy, { "source", WEFT_TYPES_ANY, true })

/* False with the error kept: another mesh, or another shape than a's but for one dimension. */
static bool check_indices(const weft_scattering *x)
{
    if (weft_check_tensor(x->function, "indices", x->indices) == NULL) {
        return false;
    }
    const weft_layout *a = weft_layout_of(x->a), *indices = weft_layout_of(x->indices);
    if (!weft_check_same_mesh(x->function, "a", a, "indices", indices)) {
        return false;
    }
    if (!(WEFT_TYPES_INDEX & WEFT_TYPE_BIT(indices->dtype))) {
        weft_fail(WEFT_ERR_DTYPE, x->function, "indices is %s, expected i64 or i32", weft_dtype_name(indices->dtype));
        return false;
    }
    int ndim = x->together ? 1 : a->ndim;
    if (indices->ndim != ndim) {
        weft_fail(WEFT_ERR_SHAPE, x->function, "indices has %d dimension%s, expected %d", indices->ndim,
                  indices->ndim == 1 ? "" : "s", ndim);
        return false;
    }
    const weft_layout *source = x->source == NULL ? a : weft_layout_of(x->source);
    for (int d = 0; d < ndim; d++) {
        int64_t expected = source->shape[x->together ? x->dim : d];
        bool free = x->source == NULL && (x->together || d == x->dim);
        if (!free && indices->shape[d] != expected) {
            weft_fail(WEFT_ERR_SHAPE, x->function, "indices has size %lld in dimension %d, expected %lld, as %s has",
                      (long long)indices->shape[d], d, (long long)expected, x->source == NULL ? "a" : "source");
            return false;
        }
    }
    return true;
}

static weft_tensor *fill(weft_scattering x, weft_scalar number)
{
    double value;
    x.dim = weft_check_dim_of(x.function, x.a, x.dim);
    if (x.dim < 0 || !weft_take_double(x.function, "value", weft_layout_of(x.a)->dtype, number, &value)) {
        return NULL;
    }
    if (weft_layout_of(x.a)->ndim == 0) {
        return weft_index_scalar(&x, WEFT_SCALAR_FILL, WEFT_SUM, false, value);
    }
    return !check_indices(&x)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = x.function,
                                             .operation = &operation_scatter_value,
                                             .num_inputs = 2,
                                             .inputs = { x.a, x.indices },
                                             .attributes = { .leading = x.dim,
                                                             .num_numbers = SCATTER_NUMBERS,
                                                             .numbers = { x.together } },
                                             .scalars = { value } });
}

static weft_tensor *dispatch_scattering(weft_scattering x, const weft_operation *operation, weft_reduce_op reduction,
                                        bool includes)
{
    if (weft_check_dim_of(x.function, x.a, x.dim) < 0) {
        return NULL;
    }
    if (weft_layout_of(x.a)->ndim == 0) {
        bool copies = operation == &operation_scatter_copy;
        return weft_index_scalar(&x, copies ? WEFT_SCALAR_COPY : WEFT_SCALAR_REDUCE, reduction, includes, 0);
    }
    return !weft_check_scattering(&x) || !check_indices(&x)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = x.function,
                                             .operation = operation,
                                             .num_inputs = 3,
                                             .inputs = { x.a, x.indices, x.source },
                                             .attributes = { .leading = x.dim,
                                                             .num_numbers = SCATTER_NUMBERS,
                                                             .numbers = { x.together, reduction, includes } } });
}

weft_tensor *(weft_index_fill)(weft_tensor *a, int dim, weft_tensor *indices, weft_scalar value)
{
    return fill((weft_scattering){ "weft_index_fill", a, dim, indices, NULL, true }, value);
}

weft_tensor *(weft_scatter_scalar)(weft_tensor *a, int dim, weft_tensor *indices, weft_scalar value)
{
    return fill((weft_scattering){ "weft_scatter_scalar", a, dim, indices, NULL, false }, value);
}

weft_tensor *weft_index_copy(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return dispatch_scattering((weft_scattering){ "weft_index_copy", a, dim, indices, source, true },
                               &operation_scatter_copy, WEFT_SUM, false);
}

weft_tensor *weft_scatter(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source)
{
    return dispatch_scattering((weft_scattering){ "weft_scatter", a, dim, indices, source, false },
                               &operation_scatter_copy, WEFT_SUM, false);
}

/* ---- elements that are combined with others ------------------------------------------------------------ */

static const weft_operation operation_scatter_reduce;

static weft_tensor *reduce_again(const weft_scattering *x, weft_tensor *a, weft_tensor *source, weft_reduce_op reduction,
                                 bool includes)
{
    weft_scattering own = *x;
    own.a = a;
    own.source = source;
    return a == NULL || source == NULL ? NULL
                                       : dispatch_scattering(own, &operation_scatter_reduce, reduction, includes);
}

/* The number of elements that each element is the mean of, at least 1. */
static weft_tensor *divisor_of(const weft_scattering *x, bool includes)
{
    weft_tensor *counts = combine(x, WEFT_SUM, ones_of(x, WEFT_I64));
    return counts == NULL ? NULL : includes ? weft_add_scalar(counts, 1) : weft_add(counts, weft_logical_not(counts));
}

static weft_tensor *divide(weft_tensor *sum, weft_tensor *divisor)
{
    return sum == NULL || divisor == NULL                           ? NULL
           : weft_dtype_has_gradient(weft_layout_of(sum)->dtype) ? weft_div(sum, divisor)
                                                                    : weft_floor_div(sum, divisor);
}

static weft_tensor *join(weft_reduce_op reduction, weft_tensor *a, weft_tensor *combined)
{
    return combined == NULL        ? NULL
           : reduction == WEFT_PROD ? weft_mul(a, combined)
           : reduction == WEFT_MIN  ? weft_minimum(a, combined)
           : reduction == WEFT_MAX  ? weft_maximum(a, combined)
                                    : weft_add(a, combined);
}

static bool expand_reduce(const weft_call *call, weft_tensor *outputs[])
{
    const weft_scattering x = scattering_of(call);
    weft_reduce_op reduction = (weft_reduce_op)call->attributes.numbers[SCATTER_REDUCTION];
    bool includes = call->attributes.numbers[SCATTER_INCLUDES] != 0;
    weft_dtype type = weft_layout_of(x.a)->dtype;
    weft_tensor *result = combine(&x, reduction == WEFT_AVG ? WEFT_SUM : reduction, x.source);
    result = includes ? join(reduction, x.a, result) : result;
    if (reduction == WEFT_AVG && result != NULL) {
        result = divide(result, divisor_of(&x, includes));
    }
    result = result == NULL ? NULL : weft_to_type(result, type);
    weft_tensor *targets = includes || result == NULL ? NULL : targets_of(&x);
    outputs[0] = includes ? result : targets == NULL ? NULL : weft_where(targets, result, x.a);
    return outputs[0] != NULL;
}

static weft_tensor *mul(weft_tensor *a, weft_tensor *b)
{
    return a == NULL || b == NULL ? NULL : weft_mul(a, b);
}

static weft_tensor *gather(const weft_scattering *x, weft_tensor *from)
{
    return from == NULL ? NULL : look_up(x, from);
}

/* The product of the others, also where one element is 0. */
static bool gradients_of_products(const weft_scattering *x, bool includes, weft_tensor *gradient, weft_tensor *given[2])
{
    weft_tensor *zeros = weft_logical_not(x->source), *none = weft_logical_not(x->a);
    weft_tensor *count = zeros == NULL ? NULL : combine(x, WEFT_SUM, weft_to_type(zeros, WEFT_I64));
    count = gather(x, count);
    weft_tensor *single = count == NULL ? NULL : weft_logical_and(zeros, weft_eq(count, weft_ones_like(count)));
    weft_tensor *rest = single == NULL ? NULL : weft_masked_fill(x->source, single, 1);
    weft_tensor *at_zero = gather(x, mul(gradient, reduce_again(x, x->a, rest, WEFT_PROD, includes)));
    weft_tensor *all = gather(x, mul(gradient, reduce_again(x, x->a, x->source, WEFT_PROD, includes)));
    if (at_zero == NULL || all == NULL) {
        return false;
    }
    given[1] = weft_where(single, at_zero, weft_div(all, weft_masked_fill(x->source, zeros, 1)));
    if (includes) {
        weft_tensor *own = weft_masked_fill(x->a, none, 1);
        weft_tensor *product = mul(gradient, reduce_again(x, own, x->source, WEFT_PROD, true));
        given[0] = product == NULL ? NULL : weft_div(product, own);
    }
    return true;
}

/* Equal shares for all elements that are the extreme. */
static bool gradients_of_extremes(const weft_scattering *x, weft_reduce_op reduction, bool includes,
                                  weft_tensor *gradient, weft_tensor *given[2])
{
    weft_tensor *extreme = reduce_again(x, x->a, x->source, reduction, includes);
    weft_tensor *others = gather(x, extreme);
    weft_tensor *lost = others == NULL ? NULL : weft_ne(x->source, others);
    weft_tensor *own_lost = extreme == NULL ? NULL : weft_ne(x->a, extreme);
    weft_tensor *count = lost == NULL ? NULL : combine(x, WEFT_SUM, weft_to_type(weft_logical_not(lost), WEFT_I64));
    count = count != NULL && includes ? weft_add(count, weft_logical_not(own_lost)) : count;
    weft_tensor *share =
        count == NULL ? NULL : weft_div(gradient, weft_masked_fill(count, weft_logical_not(count), 1));
    given[1] = weft_zero_where(lost, gather(x, share));
    given[0] = includes ? weft_zero_where(own_lost, share) : NULL;
    return given[1] != NULL;
}

static bool gradients_of_reduce(const weft_gradient *of)
{
    const weft_scattering x = scattering_of(of->call);
    weft_reduce_op reduction = (weft_reduce_op)of->call->attributes.numbers[SCATTER_REDUCTION];
    bool includes = of->call->attributes.numbers[SCATTER_INCLUDES] != 0, done = true;
    weft_tensor *gradient = weft_gradient_of_output(of, 0), *given[2] = { NULL, NULL };
    if (reduction == WEFT_PROD) {
        done = gradients_of_products(&x, includes, gradient, given);
    } else if (reduction == WEFT_MIN || reduction == WEFT_MAX) {
        done = gradients_of_extremes(&x, reduction, includes, gradient, given);
    } else {
        weft_tensor *share = reduction == WEFT_SUM ? gradient : divide(gradient, divisor_of(&x, includes));
        given[0] = share;
        given[1] = gather(&x, share);
    }
    given[0] = includes ? given[0] : weft_zero_where(targets_of(&x), gradient);
    return done && (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, given[0])) &&
           (!weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, given[1]));
}

#define READS_ALL (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))

static const weft_operation operation_scatter_reduce = {
    .name = "scatter_reduce",
    .gradient = { .function = gradients_of_reduce, .reads = { READS_ALL, 0, READS_ALL } },
    .inputs = { { "a", WEFT_TYPES_NUMBER, false },
                { "indices", WEFT_TYPES_INDEX, false },
                { "source", WEFT_TYPES_NUMBER, true } },
    .expand = expand_reduce,
};

weft_tensor *weft_scatter_reduce(weft_tensor *a, int dim, weft_tensor *indices, weft_tensor *source,
                                 weft_reduce_op reduction, bool include_self)
{
    static const char function[] = "weft_scatter_reduce";
    if (reduction < WEFT_SUM || reduction > WEFT_MAX) {
        weft_fail(WEFT_ERR_INVALID, function, "reduction is %d, expected a weft_reduce_op", (int)reduction);
        return NULL;
    }
    if (weft_check_tensor(function, "a", a) != NULL && weft_layout_of(a)->dtype == WEFT_BOOL) {
        weft_fail(WEFT_ERR_DTYPE, function, "a is bool, expected numbers");
        return NULL;
    }
    return dispatch_scattering((weft_scattering){ function, a, dim, indices, source, false }, &operation_scatter_reduce,
                               reduction, include_self);
}

/* ---- sums by number ------------------------------------------------------------------------------------ */

/* sizes[0]: how many. */
static bool expand_segments(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *sums = weft_scatter_by(call->function, WEFT_SUM, call->inputs[0], 0, true, call->inputs[1],
                                        call->attributes.sizes[0]);
    outputs[0] = sums == NULL ? NULL : weft_to_type(sums, weft_layout_of(call->inputs[0])->dtype);
    return outputs[0] != NULL;
}

static const weft_operation operation_segment_sum = {
    .name = "segment_sum",
    .gradient = WEFT_GRADIENT_BY(weft_gradient_of_body, WEFT_READS_INPUT(1)),
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "indices", WEFT_TYPES_INDEX, false } },
    .expand = expand_segments,
};

/* "a*b*->[z]". */
static void write_count_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char whole[WEFT_LETTERS_SIZE];
    snprintf(text, size, "%s->[z]", weft_write_letters(whole, call->inputs[0]->ndim, 0, WEFT_LETTERS_ALL));
}

/* Devices count by calls that they have kernels for. */
static bool counts_by_calls(const weft_call_layouts *call)
{
    return weft_runtime.devices.bytes > 0 || call->inputs[0]->ndim == 0 || call->attributes->sizes[0] > WEFT_COUNT_MOST;
}

/* Input: indices. */
static bool expand_bincount(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *ones = weft_to_type(weft_eq(call->inputs[0], call->inputs[0]), WEFT_I64);
    outputs[0] = ones == NULL ? NULL
                              : weft_scatter_by(call->function, WEFT_SUM, ones, 0, true, call->inputs[0],
                                                call->attributes.sizes[0]);
    return outputs[0] != NULL;
}

static const weft_operation operation_bincount = {
    .name = "bincount",
    .gradient = WEFT_GRADIENT_ZERO("a count"),
    .inputs = { { "indices", WEFT_TYPES_INDEX, false } },
    .write_rule = write_count_rule,
    .rule_like = "a*b*->[z]",
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_count,
    .accumulates = true,
    .expand = expand_bincount,
    .expands = counts_by_calls,
};

/* sizes[0]: how many. scalars: where the first begins, and where the last ends. In double precision. */
static bool expand_histogram(const weft_call *call, weft_tensor *outputs[])
{
    double low = call->scalars[0], high = call->scalars[1];
    int64_t bins = call->attributes.sizes[0];
    weft_tensor *a = weft_reshape(weft_to_type(call->inputs[0], WEFT_F64), 1, (int64_t[]){ -1 });
    weft_tensor *outside =
        a == NULL ? NULL : weft_logical_not(weft_eq(a, weft_clamp(a, low, high))); /* NaN is outside, too */
    weft_tensor *inside = outside == NULL ? NULL : weft_masked_fill(a, outside, low);
    weft_tensor *place = inside == NULL ? NULL : weft_scale(weft_add_scalar(inside, -low), (double)bins / (high - low));
    place = place == NULL ? NULL : weft_to_type(weft_clamp(weft_floor(place), 0, (double)(bins - 1)), WEFT_I64);
    weft_tensor *counted = place == NULL ? NULL : weft_to_type(weft_logical_not(outside), WEFT_I64);
    outputs[0] =
        counted == NULL ? NULL : weft_scatter_by(call->function, WEFT_SUM, counted, 0, true, place, bins);
    return outputs[0] != NULL;
}

static const weft_operation operation_histogram = {
    .name = "histogram",
    .gradient = WEFT_GRADIENT_ZERO("a count"),
    .inputs = { { "a", WEFT_TYPES_NUMBER, false } },
    .write_rule = write_count_rule,
    .rule_like = "a*b*->[z]",
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_count,
    .accumulates = true,
    .expand = expand_histogram,
    .expands = counts_by_calls,
};

static bool check_count(const char *function, const char *name, int64_t count, int64_t least)
{
    if (count < least) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %lld, expected at least %lld", name, (long long)count,
                  (long long)least);
    }
    return count >= least;
}

/* One index for each row of a. */
static weft_tensor *sum_segments(const char *function, const char *name, weft_tensor *a, weft_tensor *indices,
                                 int64_t count)
{
    weft_scattering x = { function, a, 0, indices, a, true };
    if (weft_check_tensor(function, name, a) == NULL) {
        return NULL;
    }
    if (weft_layout_of(a)->ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s is a scalar, expected at least 1 dimension", name);
        return NULL;
    }
    if (!check_indices(&x)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_segment_sum,
                                       .num_inputs = 2,
                                       .inputs = { a, indices },
                                       .attributes = { .num_sizes = 1, .sizes = { count } } });
}

weft_tensor *weft_segment_sum(weft_tensor *a, weft_tensor *indices, int64_t num_segments)
{
    static const char function[] = "weft_segment_sum";
    return check_count(function, "num_segments", num_segments, 0) ? sum_segments(function, "a", a, indices, num_segments)
                                                                  : NULL;
}

weft_tensor *weft_bincount(weft_tensor *indices, weft_tensor *weights, int64_t num_bins)
{
    static const char function[] = "weft_bincount";
    if (weft_check_tensor(function, "indices", indices) == NULL || !check_count(function, "num_bins", num_bins, 0)) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(indices);
    if (layout->ndim != 1) {
        weft_fail(WEFT_ERR_SHAPE, function, "indices has %d dimensions, expected 1", layout->ndim);
        return NULL;
    }
    if (weights != NULL) {
        if (weft_check_tensor(function, "weights", weights) == NULL || weft_layout_of(weights)->ndim != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "weights has another shape than indices");
            return NULL;
        }
        return sum_segments(function, "weights", weights, indices, num_bins);
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_bincount,
                                       .num_inputs = 1,
                                       .inputs = { indices },
                                       .attributes = { .num_sizes = 1,
                                                       .sizes = { num_bins },
                                                       .num_numbers = WEFT_COUNT_NUMBERS,
                                                       .numbers = { [WEFT_COUNT_INDICES] = true } } });
}

weft_tensor *weft_histogram(weft_tensor *a, int64_t num_bins, double low, double high)
{
    static const char function[] = "weft_histogram";
    if (weft_check_tensor(function, "a", a) == NULL || !check_count(function, "num_bins", num_bins, 1)) {
        return NULL;
    }
    if (!isfinite(low) || !isfinite(high) || !(low < high) || !isfinite(high - low)) {
        weft_fail(WEFT_ERR_INVALID, function, "low is %g and high %g, expected finite numbers, low below high", low, high);
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_histogram,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_sizes = 1,
                                                       .sizes = { num_bins },
                                                       .num_numbers = WEFT_COUNT_NUMBERS,
                                                       .numbers = { [WEFT_COUNT_INDICES] = false } },
                                       .scalars = { [WEFT_COUNT_LOW] = low, [WEFT_COUNT_HIGH] = high } });
}

const weft_operation *const weft_scatter_operations[] = {
    &operation_scatter_value, &operation_scatter_copy, &operation_scatter_reduce, &operation_segment_sum,
    &operation_bincount,      &operation_histogram,    NULL,
};
