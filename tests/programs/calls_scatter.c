/* Elements that take others' places, or are combined with them; sums by number: indexing.h. */
#include <stdlib.h>
#include <string.h>

#include "scalar.h"
#include "sums.h"

CALLS(scatter, out[0] = weft_scatter(in[0], (int)whole[0], in[1], in[2]))
CALLS(index_copy, out[0] = weft_index_copy(in[0], (int)whole[0], in[1], in[2]))
CALLS(scatter_scalar, out[0] = weft_scatter_scalar(in[0], (int)whole[0], in[1], real[0]))
CALLS(index_fill, out[0] = weft_index_fill(in[0], (int)whole[0], in[1], real[0]))
CALLS(scatter_reduce,
      out[0] = weft_scatter_reduce(in[0], (int)whole[0], in[1], in[2], (weft_reduce_op)whole[1], whole[2] != 0))
CALLS(segment_sum, out[0] = weft_segment_sum(in[0], in[1], whole[0]))
CALLS(bincount, out[0] = weft_bincount(in[0], NULL, whole[0]))
CALLS(histogram, out[0] = weft_histogram(in[0], whole[0], real[0], real[1]))

static bool is_together(const operation *row)
{
    return row->name[0] == 'i';
}

/* Inputs a, indices and, unless a number comes in its place, source. */
static bool make_targets(maker *m, step *s, unsigned types, bool with_source)
{
    bool together = is_together(s->operation);
    int a = choose_any(m, types, 1, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, a);
    int64_t shape[WEFT_MAX_DIMS];
    int given = any_dim(m, x->ndim), dim = dim_in(given, x->ndim), ndim = x->ndim;
    memcpy(shape, x->shape, (size_t)ndim * sizeof(shape[0]));
    int64_t limit = x->shape[dim], wanted = limit == 0 || one_in(m, 20) ? 0 : between(m, 1, 7);
    weft_dtype dtype = x->dtype;
    shape[dim] = wanted;
    int indices = choose_indices(m, a, limit, together ? 1 : ndim, together ? &wanted : shape);
    int source = with_source ? choose_like(m, a, BIT(dtype), ndim, shape) : NO_VALUE;
    *s = with_source ? step_of(s->operation, 3, a, indices, source) : step_of(s->operation, 2, a, indices);
    s->num_wholes = 1;
    s->wholes[0] = given;
    return indices != NO_VALUE && (!with_source || source != NO_VALUE);
}

static bool make_copy(maker *m, step *s)
{
    return make_targets(m, s, ALL_TYPES, true);
}

static bool make_fill(maker *m, step *s)
{
    if (!make_targets(m, s, ALL_TYPES, false)) {
        return false;
    }
    s->num_reals = 1;
    s->reals[0] = any_number(m, value_of(m, s->inputs[0])->dtype);
    return true;
}

static bool make_reduce(maker *m, step *s)
{
    static const int64_t reductions[] = { WEFT_SUM, WEFT_MIN, WEFT_MAX, WEFT_PROD };
    if (!make_targets(m, s, NUMBERS, true)) {
        return false;
    }
    s->num_wholes = 3;
    s->wholes[1] = reductions[below(m, is_floating(value_of(m, s->inputs[0])->dtype) ? 3 : 4)];
    s->wholes[2] = below(m, 2);
    return true;
}

/* Calls `use` for each element of the indices' shape with its place in x; false where an index is out of range, or
 * shapes do not fit. */
static bool for_each_target(scene *s, dense *out, void (*use)(scene *s, dense *out, int64_t to, int64_t from))
{
    const dense *x = s->in[0], *indices = s->in[1], *source = s->step->num_inputs > 2 ? s->in[2] : NULL;
    bool together = is_together(s->step->operation);
    int dim = dim_in(whole_of_call(s, 0), x->ndim);
    int64_t shape[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
    if (indices->ndim != (together ? 1 : x->ndim)) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? indices->shape[together ? 0 : d] : x->shape[d];
        if ((!together && indices->shape[d] != shape[d]) || (source != NULL && source->shape[d] != shape[d])) {
            return false;
        }
    }
    for (int64_t i = 0; i < indices->count; i++) {
        if (indices->at[i].whole < 0 || indices->at[i].whole >= x->shape[dim]) {
            return false;
        }
    }
    for (int64_t i = 0, count = count_of(x->ndim, shape); i < count; i++) {
        unravel(x->ndim, shape, i, at);
        at[dim] = index_at(indices, together ? &at[dim] : at, x->shape[dim]);
        use(s, out, ravel(x->ndim, x->shape, at), i);
    }
    return true;
}

/* Whether the inputs are there and of right types. */
static bool fits(const scene *s)
{
    const dense *x = s->in[0], *source = s->in[2];
    return x != NULL && s->in[1] != NULL && is_index(s->in[1]) && dim_in(whole_of_call(s, 0), x->ndim) >= 0 &&
           (s->step->num_inputs < 3 ||
            (source != NULL && source->dtype == x->dtype && source->ndim == x->ndim));
}

static dense *output_like_a(scene *s)
{
    const dense *x = s->in[0];
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        carry_element(s, out, i, x, i);
    }
    out->signed_zeros = false;
    return out;
}

static void copy_one(scene *s, dense *out, int64_t to, int64_t from)
{
    dense_allow(s->arena, out, to, 0);
    carry_element(s, out, to, s->in[2], from);
}

static bool copied(scene *s)
{
    if (!fits(s)) {
        return false;
    }
    dense *out = output_like_a(s);
    out->mass = fmax(dense_mass(s->in[0]), dense_mass(s->in[2]));
    out->unit = fmin(dense_unit(s->in[0]), dense_unit(s->in[2]));
    distrust_vague(s, out);
    return for_each_target(s, out, copy_one);
}

static void fill_one(scene *s, dense *out, int64_t to, int64_t from)
{
    (void)from;
    double value = s->step->reals[0];
    if (is_floating(out->dtype)) {
        out->at[to].real = rounded(out->dtype, value);
    } else {
        out->at[to].whole = wrapped(out->dtype, (int64_t)value);
    }
}

static bool filled(scene *s)
{
    if (!fits(s) || s->step->num_reals < 1) {
        return false;
    }
    double value = s->step->reals[0];
    if (!is_floating(s->in[0]->dtype) && value != nearbyint(value)) {
        return false;
    }
    dense *out = output_like_a(s);
    out->mass = fmax(dense_mass(s->in[0]), fabs(value));
    out->unit = 0;
    distrust_vague(s, out);
    return for_each_target(s, out, fill_one);
}

/* ---- combined ------------------------------------------------------------------------------------------ */

typedef struct combination {
    sums sum;
    bool *hit;
} combination;

static combination current;

static void note_hit(scene *s, dense *out, int64_t to, int64_t from)
{
    (void)s, (void)out, (void)from;
    current.hit[to] = true;
}

static void add_one(scene *s, dense *out, int64_t to, int64_t from)
{
    add_to_sum(&current.sum, out, to, s->in[2], from);
}

/* Integers, which wrap around. */
static void multiply_one(scene *s, dense *out, int64_t to, int64_t from)
{
    int64_t factor = s->in[2]->at[from].whole;
    out->at[to].whole = wrapped(out->dtype, current.hit[to] ? wrap_multiply(out->at[to].whole, factor) : factor);
    current.hit[to] = true;
}

static bool is_nan(const dense *x, int64_t i)
{
    return is_floating(x->dtype) && isnan(x->at[i].real);
}

static void keep_extreme(scene *s, dense *out, int64_t to, int64_t from)
{
    const dense *x = s->in[2];
    bool larger = whole_of_call(s, 1) == WEFT_MAX;
    bool less = is_floating(x->dtype) ? x->at[from].real < out->at[to].real : x->at[from].whole < out->at[to].whole;
    bool more = is_floating(x->dtype) ? x->at[from].real > out->at[to].real : x->at[from].whole > out->at[to].whole;
    if (!current.hit[to] || is_nan(x, from) || (!is_nan(out, to) && (larger ? more : less))) {
        out->at[to] = x->at[from];
    }
    current.hit[to] = true;
}

static bool reduced(scene *s)
{
    int64_t reduction = whole_of_call(s, 1);
    if (!fits(s) || s->in[0]->dtype == WEFT_BOOL ||
        reduction < WEFT_SUM || reduction > WEFT_MAX || reduction == WEFT_AVG ||
        (reduction == WEFT_PROD && is_floating(s->in[0]->dtype))) {
        return false;
    }
    const dense *x = s->in[0];
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    bool includes = whole_of_call(s, 2) != 0, adds = reduction == WEFT_SUM;
    current.sum = sums_new(s, x->count);
    current.hit = arena_get(s->arena, (size_t)x->count + 1);
    memset(current.hit, 0, (size_t)x->count);
    if (!includes && !for_each_target(s, out, note_hit)) {
        return false;
    }
    for (int64_t i = 0; i < x->count; i++) {
        bool counts = includes || !current.hit[i];
        if (counts && adds) {
            add_to_sum(&current.sum, out, i, x, i);
        } else if (counts) {
            out->at[i] = x->at[i];
        }
        current.hit[i] = includes;
    }
    bool right = for_each_target(s, out, adds ? add_one : reduction == WEFT_PROD ? multiply_one : keep_extreme);
    double unit = fmin(dense_unit(x), dense_unit(s->in[2]));
    if (adds) {
        finish_sums(s, &current.sum, out, unit);
    } else {
        out->mass = fmax(dense_mass(x), dense_mass(s->in[2]));
        out->unit = unit;
        out->signed_zeros = false;
    }
    distrust_vague(s, out);
    return right;
}

/* ---- sums by number ------------------------------------------------------------------------------------ */

static bool make_segments(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 1, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    int64_t count = between(m, 1, 7), rows = value_of(m, a)->shape[0];
    int indices = choose_indices(m, a, count, 1, &rows);
    *s = step_of(s->operation, 2, a, indices);
    s->num_wholes = 1;
    s->wholes[0] = count;
    return indices != NO_VALUE;
}

static bool segmented(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1];
    if (x == NULL || indices == NULL || !is_index(indices) || x->ndim == 0 || x->dtype == WEFT_BOOL ||
        indices->ndim != 1 || indices->shape[0] != x->shape[0] || whole_of_call(s, 0) < 0) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], width = count_of(x->ndim - 1, x->shape + 1);
    memcpy(shape, x->shape, sizeof(shape));
    shape[0] = whole_of_call(s, 0);
    dense *out = scene_output(s, 0, x->dtype, x->ndim, shape);
    sums sum = sums_new(s, out->count);
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t row = indices->at[i].whole;
        if (row < 0 || row >= shape[0]) {
            return false;
        }
        for (int64_t c = 0; c < width; c++) {
            add_to_sum(&sum, out, row * width + c, x, i * width + c);
        }
    }
    finish_sums(s, &sum, out, dense_unit(x));
    distrust_vague(s, out);
    return true;
}

static bool make_bincount(maker *m, step *s)
{
    int64_t bins = between(m, 1, 6);
    int a = choose_value(m, &(wish){ .types = INDICES, .mesh = -1, .least = 1, .most = 1, .kind = VALUES_INDEX,
                                     .limit = bins });
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = bins;
    return a != NO_VALUE;
}

static bool binned(scene *s)
{
    const dense *x = s->in[0];
    int64_t bins = whole_of_call(s, 0);
    if (x == NULL || !is_index(x) || x->ndim != 1 || bins < 0) {
        return false;
    }
    dense *out = scene_output(s, 0, WEFT_I64, 1, &bins);
    for (int64_t i = 0; i < x->count; i++) {
        if (x->at[i].whole < 0 || x->at[i].whole >= bins) {
            return false;
        }
        out->at[x->at[i].whole].whole++;
    }
    return true;
}

static bool make_histogram(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = between(m, 1, 6);
    s->num_reals = 2;
    s->reals[0] = (double)between(m, -4, 3);
    s->reals[1] = s->reals[0] + (double)between(m, 1, 4);
    return a != NO_VALUE;
}

/* Only values that are known exactly: next to a bound nothing else is certain. */
static bool counted(scene *s)
{
    const dense *x = s->in[0];
    int64_t bins = whole_of_call(s, 0);
    if (x == NULL || x->dtype == WEFT_BOOL || bins < 1 || s->step->num_reals < 2 || !(s->step->reals[0] < s->step->reals[1])) {
        return false;
    }
    double low = s->step->reals[0], high = s->step->reals[1], scale = (double)bins / (high - low);
    dense *out = scene_output(s, 0, WEFT_I64, 1, &bins);
    for (int64_t i = 0; i < x->count; i++) {
        double value = number_of(x->dtype, x->at[i]);
        if (value >= low && value <= high) {
            int64_t bin = (int64_t)floor((value - low) * scale);
            out->at[bin < bins ? bin : bins - 1].whole++;
        }
    }
    distrust_vague(s, out);
    return true;
}

const operation scatter_calls[] = {
    ROW(scatter, make_copy, copied, .flags = MOVES | MAY_BE_PARTIAL, .weight = 8),
    ROW(index_copy, make_copy, copied, .flags = MOVES | MAY_BE_PARTIAL, .weight = 8),
    ROW(scatter_scalar, make_fill, filled, .weight = 8),
    ROW(index_fill, make_fill, filled, .weight = 8),
    ROW(scatter_reduce, make_reduce, reduced, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(segment_sum, make_segments, segmented, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(bincount, make_bincount, binned, .flags = MAY_BE_PARTIAL),
    ROW(histogram, make_histogram, counted, .flags = MAY_BE_PARTIAL),
    { .name = NULL },
};
