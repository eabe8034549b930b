/* Other shapes of the same elements, other orders of dimensions, repetition: shapes.h. */
#include "sums.h"

/* ---- the same elements in another shape ---------------------------------------------------------------- */

CALLS(reshape, out[0] = weft_reshape(in[0], ndim, shape))
CALLS(flatten, out[0] = weft_flatten(in[0], (int)whole[0], (int)whole[1]))
CALLS(unflatten, out[0] = weft_unflatten(in[0], (int)whole[0], ndim, shape))
CALLS(squeeze, out[0] = weft_squeeze(in[0], (int)whole[0]))
CALLS(squeeze_all, out[0] = weft_squeeze(in[0], WEFT_ALL_DIMS))
CALLS(unsqueeze, out[0] = weft_unsqueeze(in[0], (int)whole[0]))

/* The size that is -1 from the others; false where there is none. */
static bool complete_shape(int ndim, int64_t shape[], int64_t count)
{
    int missing = -1;
    int64_t others = 1;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == -1 && missing >= 0) {
            return false;
        }
        missing = shape[d] == -1 ? d : missing;
        others *= shape[d] == -1 ? 1 : shape[d];
    }
    if (missing >= 0) {
        if (others <= 0 || count % others != 0) {
            return false;
        }
        shape[missing] = count / others;
    }
    return count_of(ndim, shape) == count;
}

/* Factors of a number, in random order, among so many sizes. */
static void any_sizes(maker *m, int64_t count, int ndim, int64_t shape[])
{
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1;
    }
    for (int64_t factor = 2; count > 1; factor++) {
        for (; count % factor == 0; count /= factor) {
            shape[below(m, ndim)] *= factor;
        }
    }
    if (count == 0) {
        shape[below(m, ndim)] = 0;
    }
}

static bool make_reshape(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    *s = step_of(s->operation, 1, a);
    s->ndim = (int)between(m, x->count == 1 ? 0 : 1, MAX_TENSOR_DIMS);
    if (s->ndim > 0) {
        any_sizes(m, x->count, s->ndim, s->shape);
        if (x->count > 0 && one_in(m, 3)) {
            s->shape[below(m, s->ndim)] = -1;
        }
    }
    return true;
}

static bool reshaped(scene *s)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = s->step->ndim;
    for (int d = 0; d < ndim; d++) {
        shape[d] = s->step->shape[d];
    }
    return s->in[0] != NULL && complete_shape(ndim, shape, s->in[0]->count) &&
           reshape_elements(s, s->in[0], ndim, shape);
}

static bool make_flatten(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    int ndim = value_of(m, s->inputs[0])->ndim;
    int first = (int)below(m, ndim);
    s->num_wholes = 2;
    s->wholes[0] = one_in(m, 3) ? first - ndim : first;
    s->wholes[1] = between(m, first, ndim - 1);
    return true;
}

static bool flattened(scene *s)
{
    const dense *x = s->in[0];
    int first = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    int last = x == NULL ? -1 : dim_in(whole_of_call(s, 1), x->ndim), ndim = 0;
    if (first < 0 || last < first) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        if (d > first && d <= last) {
            shape[ndim - 1] *= x->shape[d];
        } else {
            shape[ndim++] = x->shape[d];
        }
    }
    return reshape_elements(s, x, ndim, shape);
}

static bool make_unflatten(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t size = x->shape[dim_in(s->wholes[0], x->ndim)];
    s->ndim = (int)between(m, 1, 3);
    any_sizes(m, size, s->ndim, s->shape);
    if (size > 0 && one_in(m, 3)) {
        s->shape[below(m, s->ndim)] = -1;
    }
    return x->ndim + s->ndim - 1 <= MAX_TENSOR_DIMS + 1;
}

static bool unflattened(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim), sizes = s->step->ndim;
    int64_t shape[2 * WEFT_MAX_DIMS];
    if (dim < 0 || sizes < 1 || x->ndim + sizes - 1 > WEFT_MAX_DIMS) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d < dim ? d : d + sizes - 1] = x->shape[d];
    }
    for (int d = 0; d < sizes; d++) {
        shape[dim + d] = s->step->shape[d];
    }
    return complete_shape(sizes, shape + dim, x->shape[dim]) &&
           reshape_elements(s, x, x->ndim + sizes - 1, shape);
}

/* With a dimension of size 1 where there is one. */
static bool make_squeeze(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    for (int d = 0; d < x->ndim; d++) {
        s->wholes[0] = x->shape[d] == 1 && !one_in(m, 3) ? d : s->wholes[0];
    }
    return true;
}

/* Bit d: dimension d goes. */
static bool without_dims(scene *s, unsigned mask)
{
    const dense *x = s->in[0];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(mask >> d & 1) || x->shape[d] != 1) {
            shape[ndim++] = x->shape[d];
        }
    }
    return reshape_elements(s, x, ndim, shape);
}

static bool squeezed(scene *s)
{
    int dim = s->in[0] == NULL ? -1 : dim_in(whole_of_call(s, 0), s->in[0]->ndim);
    return dim >= 0 && without_dims(s, 1u << dim);
}

static bool squeezed_all(scene *s)
{
    return s->in[0] != NULL && without_dims(s, ~0u);
}

static bool make_any(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE;
}

static bool make_unsqueeze(maker *m, step *s)
{
    if (!make_any(m, s) || value_of(m, s->inputs[0])->ndim > MAX_TENSOR_DIMS) {
        return false;
    }
    s->num_wholes = 1;
    s->wholes[0] = any_dim(m, value_of(m, s->inputs[0])->ndim + 1);
    return true;
}

static bool unsqueezed(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL || x->ndim == WEFT_MAX_DIMS ? -1 : dim_in(whole_of_call(s, 0), x->ndim + 1);
    if (dim < 0) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d <= x->ndim; d++) {
        shape[d] = d == dim ? 1 : x->shape[d < dim ? d : d - 1];
    }
    return reshape_elements(s, x, x->ndim + 1, shape);
}

/* ---- other orders of dimensions ------------------------------------------------------------------------ */

CALLS(transpose, out[0] = weft_transpose(in[0], (int)whole[0], (int)whole[1]))
CALLS(permute, out[0] = weft_permute(in[0], ndim, dims))
CALLS(movedim, out[0] = weft_movedim(in[0], 1, (const int[]){ (int)whole[0] }, (const int[]){ (int)whole[1] }))

static bool make_two_dims(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    s->num_wholes = 2;
    s->wholes[1] = any_dim(m, value_of(m, s->inputs[0])->ndim);
    return true;
}

static bool make_permute(maker *m, step *s)
{
    if (!make_any(m, s)) {
        return false;
    }
    s->ndim = value_of(m, s->inputs[0])->ndim;
    for (int d = 0; d < s->ndim; d++) {
        int64_t other = below(m, d + 1);
        s->shape[d] = s->shape[other];
        s->shape[other] = one_in(m, 4) ? d - s->ndim : d;
    }
    return true;
}

/* Dimension d of the output is dimension order[d] of the input. */
static void find_order(const scene *s, int order[])
{
    const dense *x = s->in[0];
    const char kind = s->step->operation->name[0];
    int a = kind == 'p' ? 0 : dim_in(whole_of_call(s, 0), x->ndim),
        b = kind == 'p' ? 0 : dim_in(whole_of_call(s, 1), x->ndim);
    for (int d = 0, from = 0; d < x->ndim; d++) {
        switch (kind) {
        case 'p':
            order[d] = dim_in(s->step->shape[d], x->ndim);
            break;
        case 't':
            order[d] = d == a ? b : d == b ? a : d;
            break;
        default: /* movedim: the others keep their order */
            from += from == a;
            order[d] = d == b ? a : from++;
        }
    }
}

static bool map_order(const scene *s, const int64_t at[], int64_t from[])
{
    int order[WEFT_MAX_DIMS];
    find_order(s, order);
    for (int d = 0; d < s->in[0]->ndim; d++) {
        from[order[d]] = at[d];
    }
    return true;
}

static bool reordered(scene *s)
{
    const dense *x = s->in[0];
    int order[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    bool permutes = s->step->operation->name[0] == 'p';
    unsigned seen = 0;
    if (x == NULL ||
        (permutes ? s->step->ndim != x->ndim
                  : dim_in(whole_of_call(s, 0), x->ndim) < 0 || dim_in(whole_of_call(s, 1), x->ndim) < 0)) {
        return false;
    }
    find_order(s, order);
    for (int d = 0; d < x->ndim; d++) {
        if (order[d] < 0 || (seen >> order[d] & 1)) {
            return false;
        }
        seen |= 1u << order[d];
        shape[d] = x->shape[order[d]];
    }
    return move_elements(s, 0, x, x->ndim, shape, map_order);
}

/* ---- repeated ------------------------------------------------------------------------------------------ */

CALLS(expand, out[0] = weft_expand(in[0], ndim, shape))

static bool make_expand(maker *m, step *s)
{
    if (!make_any(m, s)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int more = x->ndim < MAX_TENSOR_DIMS ? (int)below(m, 2) : 0;
    s->ndim = x->ndim + more;
    for (int d = 0; d < s->ndim; d++) {
        int64_t own = d < more ? 1 : x->shape[d - more];
        s->shape[d] = own == 1 ? between(m, one_in(m, 20) ? 0 : 1, 4) : d >= more && one_in(m, 3) ? -1 : own;
    }
    return true;
}

static bool map_repeated(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int more = s->step->ndim - x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        from[d] = x->shape[d] == 1 ? 0 : at[d + more];
    }
    return true;
}

static bool expanded(scene *s)
{
    const dense *x = s->in[0];
    int more = x == NULL ? -1 : s->step->ndim - x->ndim;
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; more >= 0 && d < s->step->ndim; d++) {
        int64_t own = d < more ? 1 : x->shape[d - more], wanted = s->step->shape[d];
        shape[d] = wanted == -1 && d >= more ? own : wanted;
        if (shape[d] < 0 || (own != 1 && own != shape[d])) {
            return false;
        }
    }
    return more >= 0 && move_elements(s, 0, x, s->step->ndim, shape, map_repeated);
}

CALLS(sum_to, out[0] = weft_sum_to(in[0], ndim, shape))

/* What weft_expand() would have made it from. */
static bool make_sum_to(maker *m, step *s)
{
    if (!make_any(m, s)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int less = one_in(m, 2) ? 0 : (int)below(m, x->ndim + 1);
    s->ndim = x->ndim - less;
    for (int d = 0; d < s->ndim; d++) {
        s->shape[d] = one_in(m, 3) ? 1 : x->shape[d + less];
    }
    return true;
}

static bool summed_to(scene *s)
{
    const dense *x = s->in[0];
    int less = x == NULL ? -1 : x->ndim - s->step->ndim;
    bool repeats = less > 0;
    for (int d = 0; less >= 0 && d < s->step->ndim; d++) {
        repeats |= s->step->shape[d] != x->shape[d + less];
        if (s->step->shape[d] != x->shape[d + less] && s->step->shape[d] != 1) {
            return false;
        }
    }
    if (less < 0 || !repeats) {
        return less == 0 && reshape_elements(s, x, x->ndim, x->shape);
    }
    dense *out =
        scene_output(s, 0, is_floating(x->dtype) ? x->dtype : WEFT_I64, s->step->ndim, s->step->shape);
    sums sum = sums_new(s, out->count);
    int64_t at[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < x->count; i++) {
        unravel(x->ndim, x->shape, i, at);
        for (int d = 0; d < out->ndim; d++) {
            at[d + less] = out->shape[d] == 1 ? 0 : at[d + less];
        }
        add_to_sum(&sum, out, ravel(out->ndim, out->shape, at + less), x, i);
    }
    finish_sums(s, &sum, out, dense_unit(x));
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

#define MOVING(name_, make_, reference_) ROW(name_, make_, reference_, .flags = MOVES, .weight = 10)

const operation shape_calls[] = {
    MOVING(reshape, make_reshape, reshaped),
    MOVING(flatten, make_flatten, flattened),
    MOVING(unflatten, make_unflatten, unflattened),
    MOVING(squeeze, make_squeeze, squeezed),
    MOVING(squeeze_all, make_any, squeezed_all),
    MOVING(unsqueeze, make_unsqueeze, unsqueezed),
    MOVING(transpose, make_two_dims, reordered),
    MOVING(permute, make_permute, reordered),
    MOVING(movedim, make_two_dims, reordered),
    MOVING(expand, make_expand, expanded),
    ROW(sum_to, make_sum_to, summed_to, .flags = MAY_BE_SAME | MAY_BE_PARTIAL, .weight = 8),
    { .name = NULL },
};
