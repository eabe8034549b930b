#include "movement.h"

int dim_in(int64_t dim, int ndim)
{
    return dim < -ndim || dim >= ndim ? -1 : (int)(dim < 0 ? dim + ndim : dim);
}

int64_t whole_of_call(const scene *s, int i)
{
    return i < s->step->num_wholes ? s->step->wholes[i] : 0;
}

void carry_element(scene *s, dense *out, int64_t to, const dense *x, int64_t from)
{
    out->at[to] = x->at[from];
    dense_allow(s->arena, out, to, x->slack == NULL ? 0 : x->slack[from]);
}

/* Addends are moved as values are. */
static void carry_addends(dense *out, const dense *in)
{
    out->mass = dense_mass(in);
    out->unit = dense_unit(in);
    out->signed_zeros = in->signed_zeros;
}

dense *move_elements(scene *s, int output, const dense *in, int ndim, const int64_t shape[], mapping map)
{
    dense *out = scene_output(s, output, in->dtype, ndim, shape);
    int64_t at[WEFT_MAX_DIMS], from[WEFT_MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < out->count; i++) {
        unravel(ndim, shape, i, at);
        if (map(s, at, from)) {
            carry_element(s, out, i, in, ravel(in->ndim, in->shape, from));
        }
    }
    carry_addends(out, in);
    return out;
}

dense *reshape_elements(scene *s, const dense *in, int ndim, const int64_t shape[])
{
    dense *out = scene_output(s, 0, in->dtype, ndim, shape);
    for (int64_t i = 0; i < out->count; i++) {
        carry_element(s, out, i, in, i);
    }
    carry_addends(out, in);
    return out;
}

bool make_along(maker *m, step *s, unsigned types, int least)
{
    int a = choose_any(m, types, least, MAX_TENSOR_DIMS);
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = any_dim(m, value_of(m, a)->ndim);
    return true;
}
