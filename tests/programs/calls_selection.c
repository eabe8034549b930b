/* Elements that truth values or several indices choose, extremes so far: indexing.h. */
#include <string.h>

#include "elementwise.h"
#include "scalar.h"
#include "sums.h"

CALLS(cummax, out[0] = weft_cummax(in[0], (int)whole[0], &out[1]))
CALLS(cummin, out[0] = weft_cummin(in[0], (int)whole[0], &out[1]))
CALLS(nonzero, out[0] = weft_nonzero(in[0]))
CALLS(masked_select, out[0] = weft_masked_select(in[0], in[1]))
CALLS(index_put, out[0] = weft_index_put(in[0], (int)whole[0], in + 2, in[1], whole[1] != 0))

/* ---- extremes so far ----------------------------------------------------------------------------------- */

static bool make_extremes(maker *m, step *s)
{
    s->num_outputs = 2;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    if (!make_along(m, s, ALL_TYPES, 1)) {
        return false;
    }
    s->num_outputs = 2;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    return true;
}

/* Whether element i, which comes later, takes element j's place. */
static bool takes_over(const dense *x, int64_t i, int64_t j, bool largest)
{
    if (!is_floating(x->dtype)) {
        return largest ? x->at[i].whole >= x->at[j].whole : x->at[i].whole <= x->at[j].whole;
    }
    double later = x->at[i].real, best = x->at[j].real;
    return isnan(later) || (!isnan(best) && (largest ? later >= best : later <= best));
}

static bool extremes(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0) {
        return false;
    }
    bool largest = strcmp(s->step->operation->name, "cummax") == 0;
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape), *places = scene_output(s, 1, WEFT_I64, x->ndim, x->shape);
    int64_t stride = count_of(x->ndim - dim - 1, x->shape + dim + 1), length = x->shape[dim];
    for (int64_t i = 0; i < x->count; i++) {
        int64_t k = i / stride % length, best = i - k * stride;
        for (int64_t j = best; j <= i; j += stride) {
            bool takes = takes_over(x, j, best, largest);
            if (takes && j != best && s->program->gradients && takes_over(x, best, j, largest)) {
                return false; /* of equal ones the last gets all: no quotient of differences shows it */
            }
            best = takes ? j : best;
        }
        carry_element(s, out, i, x, best);
        places->at[i].whole = best / stride % length;
        for (int64_t j = i - k * stride; x->slack != NULL && j <= i; j += stride) {
            if (x->slack[j] != 0) { /* another one may be it */
                dense_allow(s->arena, out, i, (double)INFINITY);
                dense_allow(s->arena, places, i, (double)INFINITY);
            }
        }
    }
    out->mass = dense_mass(x);
    out->unit = dense_unit(x);
    out->signed_zeros = false;
    distrust_vague(s, out);
    distrust_vague(s, places);
    return true;
}

/* ---- chosen by truth values ---------------------------------------------------------------------------- */

/* Every process knows the values. */
static bool is_known(const dense *x)
{
    for (int64_t i = 0; x != NULL && x->slack != NULL && i < x->count; i++) {
        if (x->slack[i] != 0) {
            return false;
        }
    }
    return x != NULL && !x->partial;
}

static bool make_nonzero(maker *m, step *s)
{
    int a = choose_value(m, &(wish){ .types = ALL_TYPES, .mesh = -1, .most = MAX_TENSOR_DIMS, .whole = true });
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE;
}

static bool is_not_zero(const dense *x, int64_t i)
{
    return is_floating(x->dtype) ? x->at[i].real != 0 : x->at[i].whole != 0;
}

static bool nonzero(scene *s)
{
    const dense *x = s->in[0];
    if (!is_known(x)) {
        return false;
    }
    int64_t count = 0, at[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < x->count; i++) {
        count += is_not_zero(x, i);
    }
    dense *out = scene_output(s, 0, WEFT_I64, 2, (int64_t[]){ count, x->ndim });
    for (int64_t i = 0, row = 0; i < x->count; i++) {
        unravel(x->ndim, x->shape, i, at);
        for (int d = 0; d < x->ndim && is_not_zero(x, i); d++) {
            out->at[row * x->ndim + d].whole = at[d];
        }
        row += is_not_zero(x, i);
    }
    return true;
}

static bool make_masked_select(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    int from = one_in(m, 3) ? (int)below(m, x->ndim + 1) : 0, ndim = x->ndim - from;
    int mask = choose_value(m, &(wish){ .types = BIT(WEFT_BOOL), .mesh = mesh_of(m, a), .least = ndim,
                                        .shape = x->shape + from, .whole = true });
    *s = step_of(s->operation, 2, a, mask);
    return mask != NO_VALUE;
}

static bool masked_select(scene *s)
{
    const dense *x = s->in[0], *mask = s->in[1];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = x == NULL || !is_known(mask) || mask->dtype != WEFT_BOOL ? -1 : broadcast_shape(2, s->in, shape);
    if (ndim < 0) {
        return false;
    }
    int64_t count = 0, all = count_of(ndim, shape);
    for (int64_t i = 0; i < all; i++) {
        count += mask->at[broadcast_index(mask, ndim, shape, i)].whole;
    }
    dense *out = scene_output(s, 0, x->dtype, 1, &count);
    for (int64_t i = 0, k = 0; i < all; i++) {
        if (mask->at[broadcast_index(mask, ndim, shape, i)].whole != 0) {
            carry_element(s, out, k++, x, broadcast_index(x, ndim, shape, i));
        }
    }
    out->mass = dense_mass(x);
    out->unit = dense_unit(x);
    out->signed_zeros = false;
    return true;
}

/* ---- several indices ----------------------------------------------------------------------------------- */

static bool make_index_put(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 1, 3);
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, a);
    weft_dtype dtype = x->dtype;
    int num_indices = (int)between(m, 1, x->ndim), ndim = 1 + x->ndim - num_indices;
    int64_t sizes[3] = { x->shape[0], x->ndim > 1 ? x->shape[1] : 1, x->ndim > 2 ? x->shape[2] : 1 };
    bool empty = false;
    for (int k = 0; k < num_indices; k++) {
        empty |= sizes[k] == 0;
    }
    int64_t count = empty ? 0 : between(m, 0, 6), shape[3] = { count };
    memcpy(shape + 1, sizes + num_indices, (size_t)(ndim - 1) * sizeof(shape[0]));
    int chosen[3] = { NO_VALUE, NO_VALUE, NO_VALUE };
    for (int k = 0; k < num_indices; k++) {
        bool single = k > 0 && count > 0 && one_in(m, 3); /* broadcast */
        chosen[k] = choose_indices(m, a, sizes[k], 1, single ? &(int64_t){ 1 } : &count);
        if (chosen[k] == NO_VALUE) {
            return false;
        }
    }
    int from = one_in(m, 3) ? (int)below(m, ndim + 1) : 0;
    int values = choose_like(m, a, BIT(dtype), ndim - from, shape + from);
    *s = step_of(s->operation, 2, a, values);
    for (int k = 0; k < num_indices; k++) {
        s->inputs[s->num_inputs++] = chosen[k];
    }
    s->num_wholes = 2;
    s->wholes[0] = num_indices;
    s->wholes[1] = below(m, 2);
    return values != NO_VALUE;
}

/* The row of `a` that index tuple i names; -1: none. */
static int64_t row_of(const scene *s, int num_indices, int ndim, const int64_t shape[], int64_t i)
{
    int64_t row = 0;
    for (int k = 0; k < num_indices; k++) {
        const dense *indices = s->in[2 + k];
        int64_t index = indices->at[broadcast_index(indices, ndim, shape, i)].whole;
        if (index < 0 || index >= s->in[0]->shape[k]) {
            return -1;
        }
        row = row * s->in[0]->shape[k] + index;
    }
    return row;
}

static bool index_put(scene *s)
{
    const dense *x = s->in[0], *values = s->in[1];
    int num_indices = (int)whole_of_call(s, 0);
    bool valid = x != NULL && values != NULL && x->dtype == values->dtype && num_indices >= 1 && num_indices <= x->ndim &&
                 s->step->num_inputs == 2 + num_indices;
    for (int k = 0; k < num_indices && valid; k++) {
        valid = is_index(s->in[2 + k]);
    }
    int64_t shape[WEFT_MAX_DIMS];
    int before = valid ? broadcast_shape(num_indices, s->in + 2, shape) : -1, ndim = before + x->ndim - num_indices;
    if (before < 0 || ndim > WEFT_MAX_DIMS || values->ndim > ndim) {
        return false;
    }
    memcpy(shape + before, x->shape + num_indices, (size_t)(x->ndim - num_indices) * sizeof(shape[0]));
    for (int d = 0; d < values->ndim; d++) {
        if (values->shape[d] != 1 && values->shape[d] != shape[ndim - values->ndim + d]) {
            return false;
        }
    }
    const bool adds = whole_of_call(s, 1) != 0;
    const int64_t behind = count_of(ndim - before, shape + before), tuples = count_of(before, shape);
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    sums sum = sums_new(s, out->count);
    for (int64_t i = 0; i < x->count; i++) {
        if (adds) {
            add_to_sum(&sum, out, i, x, i);
        } else {
            carry_element(s, out, i, x, i);
        }
    }
    for (int64_t i = 0; i < tuples; i++) {
        const int64_t row = row_of(s, num_indices, before, shape, i);
        if (row < 0) {
            return false;
        }
        for (int64_t j = 0; j < behind; j++) {
            const int64_t to = row * behind + j, from = broadcast_index(values, ndim, shape, i * behind + j);
            if (adds) {
                add_to_sum(&sum, out, to, values, from);
            } else {
                dense_allow(s->arena, out, to, 0);
                carry_element(s, out, to, values, from);
            }
        }
    }
    if (adds) {
        finish_sums(s, &sum, out, fmin(dense_unit(x), dense_unit(values)));
    } else {
        out->mass = fmax(dense_mass(x), dense_mass(values));
        out->unit = fmin(dense_unit(x), dense_unit(values));
        distrust_vague(s, out);
    }
    out->signed_zeros = false;
    return true;
}

const operation selection_calls[] = {
    ROW(cummax, make_extremes, extremes, .flags = 0),
    ROW(cummin, make_extremes, extremes, .flags = 0),
    ROW(nonzero, make_nonzero, nonzero, .flags = BLOCKS),
    ROW(masked_select, make_masked_select, masked_select, .flags = BLOCKS | MAY_BE_PARTIAL),
    ROW(index_put, make_index_put, index_put, .flags = MAY_BE_PARTIAL),
    { .name = NULL },
};
