/* Elements around a tensor, diagonals, several dimensions moved: shapes.h. */
#include "sums.h"

/* ---- padding ------------------------------------------------------------------------------------------- */

/* Wholes: the mode, elements before each dimension, and after each. */
enum { MODE, BEFORE, AFTER = BEFORE + MAX_TENSOR_DIMS, PAD_WHOLES = AFTER + MAX_TENSOR_DIMS };

CALLS(pad, out[0] = weft_pad(in[0], (weft_pad_mode)whole[0], real[0], weft_tensor_ndim(in[0]), whole + 1, whole + 6))

/* The most elements that a side can have. */
static int64_t most_beside(int64_t size, int64_t mode)
{
    return mode == WEFT_PAD_REFLECT ? size - 1 : mode == WEFT_PAD_CIRCULAR ? size : size == 0 ? 0 : 3;
}

static bool make_pad(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, 4);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    *s = step_of(s->operation, 1, a);
    s->num_wholes = PAD_WHOLES;
    s->num_reals = 1;
    s->wholes[MODE] = one_in(m, 2) ? WEFT_PAD_CONSTANT : between(m, WEFT_PAD_REFLECT, WEFT_PAD_CIRCULAR);
    s->reals[0] = one_in(m, 2) ? 0 : x->dtype == WEFT_BOOL ? 1 : any_number(m, x->dtype);
    for (int side = BEFORE; side < PAD_WHOLES; side += MAX_TENSOR_DIMS) {
        for (int d = 0; d < x->ndim; d++) {
            int64_t most = s->wholes[MODE] == WEFT_PAD_CONSTANT ? 3 : most_beside(x->shape[d], s->wholes[MODE]);
            bool cuts = s->wholes[MODE] == WEFT_PAD_CONSTANT && one_in(m, 4);
            s->wholes[side + d] = one_in(m, 2) ? 0 : cuts ? -below(m, x->shape[d] / 2 + 1) : most > 0 ? below(m, most + 1) : 0;
        }
    }
    return true;
}

/* The index in a dimension of this size that `place` shows; -1: none. */
static int64_t shown(int64_t mode, int64_t place, int64_t size)
{
    bool inside = place >= 0 && place < size;
    switch (mode) {
    case WEFT_PAD_REFLECT:
        return inside ? place : place < 0 ? -place : 2 * (size - 1) - place;
    case WEFT_PAD_REPLICATE:
        return inside ? place : place < 0 ? 0 : size - 1;
    case WEFT_PAD_CIRCULAR:
        return inside ? place : place < 0 ? place + size : place - size;
    default:
        return inside ? place : -1;
    }
}

static bool map_pad(const scene *s, const int64_t at[], int64_t from[])
{
    bool inside = true;
    for (int d = 0; d < s->in[0]->ndim; d++) {
        from[d] = shown(whole_of_call(s, MODE), at[d] - whole_of_call(s, BEFORE + d), s->in[0]->shape[d]);
        inside &= from[d] >= 0;
    }
    return inside;
}

static bool fits(const scene *s, int d, int64_t shape[])
{
    int64_t before = whole_of_call(s, BEFORE + d), after = whole_of_call(s, AFTER + d), size = s->in[0]->shape[d];
    int64_t mode = whole_of_call(s, MODE), most = most_beside(size, mode);
    shape[d] = size + before + after;
    if (mode == WEFT_PAD_CONSTANT) {
        return before >= -size && after >= -size && shape[d] >= 0;
    }
    return (before == 0 && after == 0) || (before >= 0 && after >= 0 && before <= most && after <= most);
}

static bool padded(scene *s)
{
    const dense *x = s->in[0];
    int64_t shape[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS], from[WEFT_MAX_DIMS];
    bool constant = whole_of_call(s, MODE) == WEFT_PAD_CONSTANT;
    if (x == NULL || x->ndim > MAX_TENSOR_DIMS || s->step->num_wholes < PAD_WHOLES || s->step->num_reals < 1 ||
        whole_of_call(s, MODE) < 0 || whole_of_call(s, MODE) > WEFT_PAD_CIRCULAR) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (!fits(s, d, shape)) {
            return false;
        }
    }
    double value = constant ? s->step->reals[0] : 0;
    if (!is_floating(x->dtype) && (value != nearbyint(value) || (value < 0 && lacks_sign(x->dtype)))) {
        return false;
    }
    dense *out = move_elements(s, 0, x, x->ndim, shape, map_pad);
    for (int64_t i = 0; i < out->count && value != 0; i++) {
        unravel(out->ndim, shape, i, at);
        if (!map_pad(s, at, from)) {
            out->at[i] = converted(x->dtype, WEFT_F64, (element){ .real = value });
        }
    }
    if (value != 0) { /* not as addends */
        out->mass = out->unit = 0;
        distrust_vague(s, out);
    }
    return true;
}

/* ---- diagonals ----------------------------------------------------------------------------------------- */

CALLS(diagonal, out[0] = weft_diagonal(in[0], whole[0], (int)whole[1], (int)whole[2]))
CALLS(trace, out[0] = weft_trace(in[0]))

static bool make_diagonal(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 2, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || value_of(m, a)->ndim < 2) {
        return false;
    }
    int ndim = value_of(m, a)->ndim;
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 3;
    s->wholes[0] = between(m, -3, 3);
    s->wholes[1] = any_dim(m, ndim);
    s->wholes[2] = any_dim(m, ndim);
    return dim_in(s->wholes[1], ndim) != dim_in(s->wholes[2], ndim);
}

static bool map_diagonal(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim1 = dim_in(whole_of_call(s, 1), x->ndim), dim2 = dim_in(whole_of_call(s, 2), x->ndim), next = 0;
    int64_t offset = whole_of_call(s, 0);
    for (int d = 0; d < x->ndim; d++) {
        from[d] = d == dim1   ? at[x->ndim - 2] + (offset < 0 ? -offset : 0)
                  : d == dim2 ? at[x->ndim - 2] + (offset > 0 ? offset : 0)
                              : at[next++];
    }
    return true;
}

static bool diagonal(scene *s)
{
    const dense *x = s->in[0];
    int dim1 = x == NULL ? -1 : dim_in(whole_of_call(s, 1), x->ndim), dim2 = x == NULL ? -1 : dim_in(whole_of_call(s, 2), x->ndim);
    int64_t offset = whole_of_call(s, 0), shape[WEFT_MAX_DIMS];
    int ndim = 0;
    if (dim1 < 0 || dim2 < 0 || dim1 == dim2) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (d != dim1 && d != dim2) {
            shape[ndim++] = x->shape[d];
        }
    }
    int64_t down = x->shape[dim1] + (offset < 0 ? offset : 0), right = x->shape[dim2] - (offset > 0 ? offset : 0);
    int64_t count = down < right ? down : right;
    shape[ndim++] = count < 0 ? 0 : count;
    return move_elements(s, 0, x, ndim, shape, map_diagonal);
}

static bool make_trace(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 2, 2);
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE && value_of(m, a)->ndim == 2;
}

static bool trace(scene *s)
{
    const dense *x = s->in[0];
    if (x == NULL || x->ndim != 2) {
        return false;
    }
    dense *out = scene_output(s, 0, is_floating(x->dtype) ? x->dtype : WEFT_I64, 0, NULL);
    sums sum = sums_new(s, 1);
    for (int64_t i = 0; i < x->shape[0] && i < x->shape[1]; i++) {
        add_to_sum(&sum, out, 0, x, i * x->shape[1] + i);
    }
    finish_sums(s, &sum, out, dense_unit(x));
    return true;
}

/* ---- several dimensions -------------------------------------------------------------------------------- */

CALLS(movedims, out[0] = weft_movedim(in[0], ndim, dims, (const int[]){ (int)whole[0], (int)whole[1] }))

/* Shape: the dimensions; wholes: where to. */
static bool make_movedims(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    int ndim = value_of(m, a)->ndim;
    *s = step_of(s->operation, 1, a);
    s->ndim = (int)below(m, (ndim < 2 ? ndim : 2) + 1);
    s->num_wholes = 2;
    for (int i = 0; i < s->ndim; i++) {
        s->shape[i] = any_dim(m, ndim);
        s->wholes[i] = any_dim(m, ndim);
    }
    return true;
}

/* source[d]: the dimension that becomes dimension d. */
static bool find_sources(const scene *s, int source[])
{
    const dense *x = s->in[0];
    int num = s->step->ndim;
    unsigned from = 0, to = 0;
    if (x == NULL || num > x->ndim || num > 2 || num < 0) {
        return false;
    }
    for (int i = 0; i < num; i++) {
        int a = dim_in(s->step->shape[i], x->ndim), b = dim_in(whole_of_call(s, i), x->ndim);
        if (a < 0 || b < 0 || (from >> a & 1) || (to >> b & 1)) {
            return false;
        }
        from |= 1u << a;
        to |= 1u << b;
        source[b] = a;
    }
    for (int d = 0, next = 0; d < x->ndim; d++) {
        for (; from >> next & 1; next++) {
        }
        source[d] = to >> d & 1 ? source[d] : next++;
    }
    return true;
}

static bool map_movedims(const scene *s, const int64_t at[], int64_t from[])
{
    int source[WEFT_MAX_DIMS];
    find_sources(s, source);
    for (int d = 0; d < s->in[0]->ndim; d++) {
        from[source[d]] = at[d];
    }
    return true;
}

static bool dims_moved(scene *s)
{
    int source[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    if (!find_sources(s, source)) {
        return false;
    }
    for (int d = 0; d < s->in[0]->ndim; d++) {
        shape[d] = s->in[0]->shape[source[d]];
    }
    return move_elements(s, 0, s->in[0], s->in[0]->ndim, shape, map_movedims);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const operation around_calls[] = {
    ROW(pad, make_pad, padded, .flags = MOVES, .weight = 12),
    ROW(diagonal, make_diagonal, diagonal, .flags = MOVES, .weight = 8),
    ROW(trace, make_trace, trace, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(movedims, make_movedims, dims_moved, .flags = MOVES, .weight = 6),
    { .name = NULL },
};
