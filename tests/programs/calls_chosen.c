/* Elementwise operations with a truth value: where() and masked_fill() of weft. */
#include "elementwise.h"

CALLS(where, out[0] = weft_where(in[0], in[1], in[2]))
CALLS(masked_fill, out[0] = weft_masked_fill(in[0], in[1], real[0]))

CALLS(masked_fill_tensor, out[0] = weft_masked_fill_tensor(in[0], in[1], in[2]))

static bool make_where(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    int condition = choose_broadcast(m, a, BIT(WEFT_BOOL), VALUES_ANY);
    int b = choose_broadcast(m, a, one_in(m, MIXED_TYPES_ONE_IN) ? EVERY_TYPE : BIT(value_of(m, a)->dtype),
                             VALUES_ANY);
    bool swaps = one_in(m, 2);
    *s = step_of(s->operation, 3, condition, swaps ? b : a, swaps ? a : b);
    return condition != NO_VALUE && b != NO_VALUE;
}

static bool make_masked_fill(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    weft_dtype dtype = value_of(m, a)->dtype;
    int mask = choose_broadcast(m, a, BIT(WEFT_BOOL), VALUES_ANY);
    *s = step_of(s->operation, 2, a, mask);
    s->num_reals = 1;
    s->reals[0] = any_number(m, dtype);
    return mask != NO_VALUE;
}

static bool make_masked_fill_tensor(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    int mask = choose_broadcast(m, a, BIT(WEFT_BOOL), VALUES_ANY);
    int value = choose_like(m, a, one_in(m, MIXED_TYPES_ONE_IN) ? EVERY_TYPE : BIT(value_of(m, a)->dtype), 0, NULL);
    *s = step_of(s->operation, 3, a, mask, value);
    return mask != NO_VALUE && value != NO_VALUE && mesh_of(m, mask) == mesh_of(m, a);
}

/* The chosen element, converted to the result's type. */
static element chosen(const dense *x, const dense *out, int64_t i)
{
    return converted(out->dtype, x->dtype, x->at[broadcast_index(x, out->ndim, out->shape, i)]);
}

static bool is_true(const dense *x, const dense *out, int64_t i)
{
    return x->at[broadcast_index(x, out->ndim, out->shape, i)].whole != 0;
}

static void combined(scene *s, dense *out)
{
    out->signed_zeros = true;
    for (int k = 0; k < s->step->num_inputs; k++) {
        out->signed_zeros &= s->in[k]->signed_zeros && !s->in[k]->partial;
        if (dense_is_vague(s->in[k])) {
            allow_all(s, out, (double)INFINITY);
        }
    }
}

static bool where(scene *s)
{
    int64_t shape[WEFT_MAX_DIMS];
    if (s->in[0] == NULL || s->in[1] == NULL || s->in[2] == NULL || s->in[0]->dtype != WEFT_BOOL) {
        return false;
    }
    int ndim = broadcast_shape(3, s->in, shape);
    if (ndim < 0 || !are_promoted(2, s->in + 1)) {
        return false;
    }
    dense *out = scene_output(s, 0, promoted(3, s->in), ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        out->at[i] = chosen(is_true(s->in[0], out, i) ? s->in[1] : s->in[2], out, i);
    }
    combined(s, out);
    return true;
}

static bool masked_fill(scene *s)
{
    int64_t shape[WEFT_MAX_DIMS];
    const dense *a = s->in[0], *mask = s->in[1];
    if (a == NULL || mask == NULL || mask->dtype != WEFT_BOOL || s->step->num_reals < 1) {
        return false;
    }
    double value = s->step->reals[0];
    int ndim = broadcast_shape(2, s->in, shape);
    weft_dtype common = promoted(1, s->in);
    if (ndim < 0 || (!is_floating(common) && value != nearbyint(value))) {
        return false;
    }
    dense *out = scene_output(s, 0, a->dtype, ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        element filling = converted(a->dtype, WEFT_F64, (element){ .real = value });
        out->at[i] = is_true(mask, out, i) ? filling : chosen(a, out, i);
    }
    combined(s, out);
    return true;
}

static bool masked_fill_tensor(scene *s)
{
    int64_t shape[WEFT_MAX_DIMS];
    const dense *a = s->in[0], *mask = s->in[1], *value = s->in[2];
    if (a == NULL || mask == NULL || value == NULL || mask->dtype != WEFT_BOOL || value->ndim != 0) {
        return false;
    }
    int ndim = broadcast_shape(2, s->in, shape);
    if (ndim < 0) {
        return false;
    }
    dense *out = scene_output(s, 0, a->dtype, ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        out->at[i] = chosen(is_true(mask, out, i) ? value : a, out, i);
    }
    combined(s, out);
    return true;
}

const operation combined_calls[] = {
    ROW(where, make_where, where, .flags = FETCHES_SCALARS, .weight = 8),
    ROW(masked_fill, make_masked_fill, masked_fill, .flags = FETCHES_SCALARS, .weight = 8),
    ROW(masked_fill_tensor, make_masked_fill_tensor, masked_fill_tensor, .flags = FETCHES_SCALARS, .weight = 8),
    { .name = NULL },
};
