/* Look-ups, scattered sums, cumulative sums, sorting: indexing.h. */
#include <stdlib.h>

#include "sums.h"

#include "ops/backward.h"

/* ---- look-ups ------------------------------------------------------------------------------------------ */

CALLS(index_select, out[0] = weft_index_select(in[0], (int)whole[0], in[1]))
CALLS(gather, out[0] = weft_gather(in[0], (int)whole[0], in[1]))
CALLS(embedding, out[0] = weft_embedding(in[0], in[1]))
CALLS(one_hot, out[0] = weft_one_hot(in[0], whole[0]))

/* Indices below a limit, of this shape, on the mesh of another value. */
int choose_indices(maker *m, int other, int64_t limit, int ndim, const int64_t shape[])
{
    return choose_value(m, &(wish){ .types = INDICES,
                                    .mesh = mesh_of(m, other),
                                    .least = ndim,
                                    .shape = shape,
                                    .kind = VALUES_INDEX,
                                    .limit = limit });
}

/* Indices for every element, or for all of one place of the dimension together. */
static bool make_look_up(maker *m, step *s, bool together)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t shape[WEFT_MAX_DIMS];
    int dim = dim_in(s->wholes[0], x->ndim), ndim = together ? 1 : x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = x->shape[d];
    }
    int64_t limit = x->shape[dim], wanted = limit == 0 ? 0 : one_in(m, 20) ? 0 : between(m, 1, 7);
    shape[together ? 0 : dim] = wanted;
    s->inputs[1] = choose_indices(m, s->inputs[0], limit, ndim, shape);
    s->num_inputs = 2;
    return s->inputs[1] != NO_VALUE;
}

static bool make_index_select(maker *m, step *s)
{
    return make_look_up(m, s, true);
}

static bool make_gather(maker *m, step *s)
{
    return make_look_up(m, s, false);
}

bool is_index(const dense *x)
{
    return x != NULL && (INDICES & BIT(x->dtype));
}

/* The index at `at` in the indices; -1 where it is none. */
int64_t index_at(const dense *indices, const int64_t at[], int64_t limit)
{
    int64_t index = indices->at[ravel(indices->ndim, indices->shape, at)].whole;
    return index < 0 || index >= limit ? -1 : index;
}

static void look_up_element(scene *s, dense *out, int64_t i, int64_t place, bool *valid)
{
    if (place < 0) {
        *valid = false;
    } else {
        carry_element(s, out, i, s->in[0], place);
    }
}

static void finish_look_up(dense *out, const dense *x)
{
    out->mass = dense_mass(x);
    out->unit = dense_unit(x);
    out->signed_zeros = false; /* ranks without the element add a zero */
}

static bool looked_up(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1];
    bool together = s->step->operation->name[0] == 'i', valid = true;
    int dim = x == NULL || !is_index(indices) ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0 || indices->ndim != (together ? 1 : x->ndim)) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? indices->shape[together ? 0 : dim] : x->shape[d];
        if (!together && indices->shape[d] != shape[d]) {
            return false;
        }
    }
    for (int64_t k = 0; together && k < indices->shape[0]; k++) { /* also where no element is read */
        valid = valid && index_at(indices, &k, x->shape[dim]) >= 0;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        unravel(out->ndim, shape, i, at);
        int64_t index = index_at(indices, together ? &at[dim] : at, x->shape[dim]);
        at[dim] = index;
        look_up_element(s, out, i, index < 0 ? -1 : ravel(x->ndim, x->shape, at), &valid);
    }
    finish_look_up(out, x);
    return valid;
}

/* In a scalar, as in a vector of one element. */
CALLS(scalar_gather, out[0] = weft_gather(in[0], (int)whole[0], in[1]))

static bool make_scalar_gather(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, 0);
    if (a == NO_VALUE || value_of(m, a)->ndim != 0) {
        return false;
    }
    int64_t wanted = between(m, 0, 5);
    int indices = choose_indices(m, a, 1, (int)between(m, 0, 1), &wanted);
    *s = step_of(s->operation, 2, a, indices);
    s->num_wholes = 1;
    s->wholes[0] = between(m, -1, 0);
    return indices != NO_VALUE;
}

/* Whether the call has a scalar, its only dimension, and a line of indices. */
static bool is_scalar_call(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1];
    int64_t dim = whole_of_call(s, 0);
    return x != NULL && x->ndim == 0 && is_index(indices) && indices->ndim <= 1 && (dim == 0 || dim == -1);
}

static bool scalar_gathered(scene *s)
{
    const dense *indices = s->in[1];
    bool valid = true;
    if (!is_scalar_call(s)) {
        return false;
    }
    dense *out = scene_output(s, 0, s->in[0]->dtype, indices->ndim, indices->shape);
    for (int64_t i = 0; i < out->count; i++) {
        look_up_element(s, out, i, indices->at[i].whole == 0 ? 0 : -1, &valid);
    }
    finish_look_up(out, s->in[0]);
    return valid;
}

static bool make_embedding(maker *m, step *s)
{
    int table = choose_any(m, FLOATS, 2, 2);
    if (table == NO_VALUE || value_of(m, table)->ndim != 2) {
        return false;
    }
    int64_t rows = value_of(m, table)->shape[0], shape[WEFT_MAX_DIMS];
    int ndim = any_shape(m, 0, 2, shape);
    for (int d = 0; d < ndim; d++) {
        shape[d] = rows == 0 ? 0 : shape[d] > 6 ? 6 : shape[d];
    }
    if (rows == 0 && ndim == 0) {
        return false; /* an index of nothing */
    }
    int indices = choose_indices(m, table, rows, ndim, shape);
    *s = step_of(s->operation, 2, table, indices);
    return indices != NO_VALUE;
}

static bool embedded(scene *s)
{
    const dense *table = s->in[0], *indices = s->in[1];
    bool valid = true;
    if (table == NULL || table->ndim != 2 || !is_floating(table->dtype) || !is_index(indices)) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], columns = table->shape[1];
    for (int d = 0; d < indices->ndim; d++) {
        shape[d] = indices->shape[d];
    }
    shape[indices->ndim] = columns;
    dense *out = scene_output(s, 0, table->dtype, indices->ndim + 1, shape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t row = indices->at[i / columns].whole;
        look_up_element(s, out, i, row < 0 || row >= table->shape[0] ? -1 : row * columns + i % columns,
                        &valid);
    }
    finish_look_up(out, table);
    return valid;
}

static bool make_one_hot(maker *m, step *s)
{
    int64_t classes = between(m, 1, 6);
    wish w = { .types = INDICES, .mesh = -1, .most = 3, .kind = VALUES_INDEX, .limit = classes };
    int a = choose_value(m, &w);
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = classes;
    return a != NO_VALUE;
}

static bool one_hot(scene *s)
{
    const dense *x = s->in[0];
    int64_t shape[WEFT_MAX_DIMS], classes = whole_of_call(s, 0);
    if (!is_index(x) || classes < 0 || x->ndim == WEFT_MAX_DIMS) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = x->shape[d];
    }
    shape[x->ndim] = classes;
    dense *out = scene_output(s, 0, WEFT_I64, x->ndim + 1, shape);
    for (int64_t i = 0; i < x->count; i++) {
        if (x->at[i].whole < 0 || x->at[i].whole >= classes) {
            return false;
        }
        out->at[i * classes + x->at[i].whole].whole = 1;
    }
    return true;
}

/* ---- scattered sums ------------------------------------------------------------------------------------ */

CALLS(scatter_add, out[0] = weft_scatter_add(in[0], (int)whole[0], in[1], in[2]))
CALLS(scatter_add_inplace, weft_scatter_add_inplace(in[0], (int)whole[0], in[1], in[2]))
CALLS(index_add, out[0] = weft_index_add(in[0], (int)whole[0], in[1], in[2]))
CALLS(index_add_inplace, weft_index_add_inplace(in[0], (int)whole[0], in[1], in[2]))
CALLS(embedding_backward, out[0] = weft_embedding_backward(in[0], in[1], whole[0]))

static bool make_scatter(maker *m, step *s)
{
    bool together = s->operation->name[0] == 'i', in_place = s->operation->flags & IN_PLACE;
    int a = in_place ? choose_target(m, EVERY_TYPE, 1, MAX_TENSOR_DIMS)
                     : choose_any(m, EVERY_TYPE, 1, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, a);
    int64_t shape[WEFT_MAX_DIMS];
    int given = any_dim(m, x->ndim), dim = dim_in(given, x->ndim), ndim = x->ndim;
    for (int d = 0; d < ndim; d++) {
        shape[d] = x->shape[d];
    }
    int64_t limit = x->shape[dim], wanted = limit == 0 || one_in(m, 20) ? 0 : between(m, 1, 7);
    shape[dim] = wanted;
    int source = choose_like(m, a, BIT(x->dtype), ndim, shape);
    int indices = choose_indices(m, a, limit, together ? 1 : ndim, together ? &wanted : shape);
    *s = step_of(s->operation, 3, a, indices, source);
    s->outputs[0] = in_place ? a : NO_VALUE;
    s->num_wholes = 1;
    s->wholes[0] = given;
    return indices != NO_VALUE && source != NO_VALUE;
}

static bool scattered(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1], *source = s->in[2];
    bool together = s->step->operation->name[0] == 'i';
    int dim = x == NULL || source == NULL || !is_index(indices) ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0 || source->dtype != x->dtype || source->ndim != x->ndim ||
        indices->ndim != (together ? 1 : x->ndim) ||
        indices->shape[together ? 0 : dim] != source->shape[dim]) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (d != dim &&
            (source->shape[d] != x->shape[d] || (!together && indices->shape[d] != x->shape[d]))) {
            return false;
        }
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    sums sum = sums_new(s, x->count);
    int64_t at[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < x->count; i++) {
        add_to_sum(&sum, out, i, x, i);
    }
    for (int64_t i = 0; i < source->count; i++) {
        unravel(source->ndim, source->shape, i, at);
        at[dim] = index_at(indices, together ? &at[dim] : at, x->shape[dim]);
        if (at[dim] < 0) {
            return false;
        }
        add_to_sum(&sum, out, ravel(x->ndim, x->shape, at), source, i);
    }
    for (int64_t i = 0; together && i < indices->count; i++) {
        if (indices->at[i].whole < 0 || indices->at[i].whole >= x->shape[dim]) {
            return false;
        }
    }
    finish_sums(s, &sum, out, fmin(dense_unit(x), dense_unit(source)));
    return true;
}

/* To a scalar, as to a vector of one element. */
CALLS(scalar_add_inplace, weft_index_add_inplace(in[0], (int)whole[0], in[1], in[2]))

static bool make_scalar_add(maker *m, step *s)
{
    int a = choose_target(m, EVERY_TYPE, 0, 0);
    if (a == NO_VALUE || value_of(m, a)->ndim != 0) {
        return false;
    }
    int64_t wanted = between(m, 0, 5);
    int source = choose_like(m, a, BIT(value_of(m, a)->dtype), 1, &wanted);
    int indices = choose_indices(m, a, 1, 1, &wanted);
    *s = step_of(s->operation, 3, a, indices, source);
    s->outputs[0] = a;
    s->num_wholes = 1;
    s->wholes[0] = between(m, -1, 0);
    return indices != NO_VALUE && source != NO_VALUE;
}

static bool added_to_scalar(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1], *source = s->in[2];
    if (!is_scalar_call(s) || source == NULL || source->dtype != x->dtype || source->ndim > 1 || source->count != indices->count) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, 0, NULL);
    sums sum = sums_new(s, 1);
    add_to_sum(&sum, out, 0, x, 0);
    for (int64_t i = 0; i < source->count; i++) {
        if (indices->at[i].whole != 0) {
            return false;
        }
        add_to_sum(&sum, out, 0, source, i);
    }
    finish_sums(s, &sum, out, fmin(dense_unit(x), dense_unit(source)));
    return true;
}

static bool make_embedding_backward(maker *m, step *s)
{
    int gradient = choose_any(m, FLOATS, 1, 4);
    if (gradient == NO_VALUE || value_of(m, gradient)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, gradient);
    int64_t rows = between(m, 1, 7);
    int indices = choose_indices(m, gradient, rows, x->ndim - 1, x->shape);
    *s = step_of(s->operation, 2, gradient, indices);
    s->num_wholes = 1;
    s->wholes[0] = rows;
    return indices != NO_VALUE;
}

static bool embedded_backward(scene *s)
{
    const dense *x = s->in[0], *indices = s->in[1];
    if (x == NULL || !is_floating(x->dtype) || !is_index(indices) || x->ndim != indices->ndim + 1 ||
        whole_of_call(s, 0) < 0) {
        return false;
    }
    for (int d = 0; d < indices->ndim; d++) {
        if (indices->shape[d] != x->shape[d]) {
            return false;
        }
    }
    int64_t columns = x->shape[x->ndim - 1], shape[] = { whole_of_call(s, 0), columns };
    dense *out = scene_output(s, 0, x->dtype, 2, shape);
    sums sum = sums_new(s, out->count);
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t row = indices->at[i].whole;
        if (row < 0 || row >= shape[0]) {
            return false;
        }
        for (int64_t c = 0; c < columns; c++) {
            add_to_sum(&sum, out, row * columns + c, x, i * columns + c);
        }
    }
    finish_sums(s, &sum, out, dense_unit(x));
    return true;
}

/* ---- cumulative ---------------------------------------------------------------------------------------- */

CALLS(cumsum, out[0] = weft_cumsum(in[0], (int)whole[0]))
CALLS(cumprod, out[0] = weft_cumprod(in[0], (int)whole[0]))

static bool make_scan(maker *m, step *s)
{
    return make_along(m, s, EVERY_TYPE, 1);
}

/* Elements from one to the next along a dimension. */
static int64_t stride_of(const dense *x, int dim)
{
    return count_of(x->ndim - dim - 1, x->shape + dim + 1);
}

/* In double precision, and rounded once for each element. */
static void scan_sum(scene *s, dense *out, int64_t i, const dense *x, int64_t stride, int64_t place)
{
    double value = 0, mass = 0;
    for (int64_t k = place; k >= 0; k--) {
        value += x->at[i - k * stride].real;
        mass += mass_at(x, i - k * stride);
    }
    bool exact = mass <= dense_unit(x) * ldexp(1, x->partial ? digits_of(x->dtype) : 53);
    double epsilon = x->partial ? ldexp(1, 1 - digits_of(x->dtype)) : 0x1p-52;
    set_number(s, out, i, value, exact ? 0 : (double)(place + 10) * epsilon * mass);
    out->mass = fmax(out->mass, mass);
}

static void scan_product(scene *s, dense *out, int64_t i, const dense *x, int64_t stride, int64_t place)
{
    double value = 1, most = 1, least = 1;
    bool whole = true;
    for (int64_t k = place; k >= 0; k--) {
        double factor = x->at[i - k * stride].real;
        value *= factor;
        most *= fabs(factor) > 1 && isfinite(factor) ? fabs(factor) : 1;
        least *= fabs(factor) < 1 && factor != 0 ? fabs(factor) : 1;
        whole &= factor == nearbyint(factor);
    }
    set_product_of(s, out, i, x, value, most, least, whole, place, 0x1p-52);
}

static bool scanned(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0) {
        return false;
    }
    bool adds = s->step->operation->name[3] == 's';
    int64_t stride = stride_of(x, dim);
    dense *out = scene_output(s, 0, is_floating(x->dtype) ? x->dtype : WEFT_I64, x->ndim, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t place = i / stride % x->shape[dim];
        if (is_floating(x->dtype)) {
            (adds ? scan_sum : scan_product)(s, out, i, x, stride, place);
            continue;
        }
        uint64_t before = place == 0 ? !adds : (uint64_t)out->at[i - stride].whole,
                 own = (uint64_t)x->at[i].whole;
        out->at[i].whole = (int64_t)(adds ? before + own : before * own);
    }
    out->unit = dense_unit(x);
    if (!adds) {
        distrust_vague(s, out);
    }
    return true;
}

/* ---- sorted -------------------------------------------------------------------------------------------- */

CALLS(sort, out[0] = weft_sort(in[0], (int)whole[0], whole[1] != 0, &out[1]))
CALLS(sort_values, out[0] = weft_sort(in[0], (int)whole[0], whole[1] != 0, NULL))
CALLS(argsort, out[0] = weft_argsort(in[0], (int)whole[0], whole[1] != 0))
CALLS(topk, out[0] = weft_topk(in[0], whole[2], (int)whole[0], whole[1] != 0, &out[1]))
CALLS(topk_values, out[0] = weft_topk(in[0], whole[2], (int)whole[0], whole[1] != 0, NULL))

/* Outputs of a row. */
enum { VALUES = 1, PLACES = 2, CHOOSES = 4 };
static const int of_sort = VALUES | PLACES, of_sort_values = VALUES, of_argsort = PLACES;
static const int of_topk = VALUES | PLACES | CHOOSES, of_topk_values = VALUES | CHOOSES;

static bool make_sort(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int parts = *(const int *)s->operation->details;
    s->num_wholes = 3;
    s->wholes[1] = below(m, 2);
    s->wholes[2] = below(m, x->shape[dim_in(s->wholes[0], x->ndim)] + 1);
    s->num_outputs = (parts & VALUES) && (parts & PLACES) ? 2 : 1;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    return true;
}

/* Whether a comes before b; NaN is the largest. */
static bool comes_before(weft_dtype dtype, element a, element b, bool descending)
{
    if (descending) {
        element swapped = a;
        a = b;
        b = swapped;
    }
    return is_floating(dtype) ? a.real < b.real || (b.real != b.real && a.real == a.real) : a.whole < b.whole;
}

/* The places of a line of elements in order: by insertion, equal ones stay in theirs. */
static void sort_line(const dense *x, int64_t first, int64_t stride, int64_t length, bool descending,
                      int64_t order[])
{
    for (int64_t i = 0; i < length; i++) {
        int64_t k = i;
        for (; k > 0 && comes_before(x->dtype, x->at[first + i * stride],
                                     x->at[first + order[k - 1] * stride], descending);
             k--) {
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
}

static bool sorted(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim),
        parts = *(const int *)s->step->operation->details;
    if (dim < 0) {
        return false;
    }
    int64_t stride = stride_of(x, dim), length = x->shape[dim], shape[WEFT_MAX_DIMS];
    int64_t wanted = parts & CHOOSES ? whole_of_call(s, 2) : length;
    if (wanted < 0 || wanted > length) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? wanted : x->shape[d];
    }
    dense *values = parts & VALUES ? scene_output(s, 0, x->dtype, x->ndim, shape) : NULL;
    dense *places = parts & PLACES ? scene_output(s, values != NULL, WEFT_I64, x->ndim, shape) : NULL;
    int64_t *order = malloc((size_t)(length + 1) * sizeof(*order));
    int64_t lines = length == 0 ? 0 : x->count / length;
    for (int64_t line = 0; line < lines; line++) {
        int64_t first = line / stride * length * stride + line % stride;
        int64_t to = line / stride * wanted * stride + line % stride;
        sort_line(x, first, stride, length, whole_of_call(s, 1) != 0, order);
        for (int64_t i = 0; i < wanted; i++) {
            if (values != NULL) {
                values->at[to + i * stride] = x->at[first + order[i] * stride];
            }
            if (places != NULL) {
                places->at[to + i * stride].whole = order[i];
            }
        }
    }
    free(order);
    for (int i = 0; i < s->step->num_outputs; i++) {
        distrust_vague(s, s->out[i]);
    }
    return s->step->num_outputs == (values != NULL) + (places != NULL);
}

/* ---- the tables ---------------------------------------------------------------------------------------- */

const operation indexing_calls[] = {
    ROW(index_select, make_index_select, looked_up, .flags = MOVES | MAY_BE_PARTIAL, .weight = 8),
    ROW(gather, make_gather, looked_up, .flags = MOVES | MAY_BE_PARTIAL, .weight = 8),
    ROW(embedding, make_embedding, embedded, .flags = MOVES | MAY_BE_PARTIAL, .weight = 8),
    ROW(one_hot, make_one_hot, one_hot, .flags = 0),
    ROW(scatter_add, make_scatter, scattered, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(scatter_add_inplace, make_scatter, scattered, .flags = IN_PLACE, .weight = 8),
    ROW(scalar_gather, make_scalar_gather, scalar_gathered, .flags = MOVES | MAY_BE_PARTIAL, .weight = 4),
    ROW(scalar_add_inplace, make_scalar_add, added_to_scalar, .flags = IN_PLACE, .weight = 8),
    ROW(index_add, make_scatter, scattered, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(index_add_inplace, make_scatter, scattered, .flags = IN_PLACE, .weight = 8),
    ROW(embedding_backward, make_embedding_backward, embedded_backward, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(cumsum, make_scan, scanned, .weight = 8),
    ROW(cumprod, make_scan, scanned, .weight = 8),
    { .name = NULL },
};

const operation sorting_calls[] = {
    ROW(sort, make_sort, sorted, .details = &of_sort),
    ROW(sort_values, make_sort, sorted, .details = &of_sort_values),
    ROW(argsort, make_sort, sorted, .details = &of_argsort),
    ROW(topk, make_sort, sorted, .details = &of_topk),
    ROW(topk_values, make_sort, sorted, .details = &of_topk_values),
    { .name = NULL },
};
