/* Concatenation and splitting: shapes.h. */
#include "elementwise.h"
#include "movement.h"

CALLS(cat, out[0] = weft_cat((int)whole[1], in, (int)whole[0]))
CALLS(stack, out[0] = weft_stack((int)whole[1], in, (int)whole[0]))
CALLS(split, weft_split(in[0], ndim, shape, (int)whole[0], out))
CALLS(chunk, weft_chunk(in[0], (int)whole[1], (int)whole[0], out))

enum { MAX_JOINED = 4, MAX_PIECES = 4 };

/* ---- joined -------------------------------------------------------------------------------------------- */

static bool make_cat(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int ndim = x->ndim, dim = dim_in(s->wholes[0], ndim), count = (int)between(m, 1, MAX_JOINED);
    int64_t shape[WEFT_MAX_DIMS];
    unsigned types = one_in(m, MIXED_TYPES_ONE_IN) ? EVERY_TYPE : BIT(x->dtype);
    for (int d = 0; d < ndim; d++) {
        shape[d] = x->shape[d];
    }
    for (int i = 1; i < count; i++) {
        shape[dim] = one_in(m, 8) ? below(m, 2) : one_in(m, 3) ? -1 : shape[dim];
        bool empty = one_in(m, 12);
        int64_t none = 0;
        int next = choose_like(m, s->inputs[0], types, empty ? 1 : ndim, empty ? &none : shape);
        if (next == NO_VALUE) {
            return false;
        }
        s->inputs[s->num_inputs++] = next;
    }
    s->num_wholes = 2;
    s->wholes[1] = s->num_inputs;
    return true;
}

/* Tensors of shape [0] fit any others. */
static bool is_nothing(const dense *x)
{
    return x->ndim == 1 && x->shape[0] == 0;
}

static void join_addends(scene *s, dense *out)
{
    out->unit = 1;
    out->signed_zeros = true;
    for (int i = 0; i < s->step->num_inputs; i++) {
        out->mass = fmax(out->mass, dense_mass(s->in[i]));
        out->unit = fmin(out->unit, dense_unit(s->in[i]));
        out->signed_zeros &= s->in[i]->signed_zeros;
    }
}

/* Sets element `to` of the joined tensor to an element of x, in the type of the result. */
static void join_element(scene *s, dense *out, int64_t to, const dense *x, int64_t from)
{
    carry_element(s, out, to, x, from);
    out->at[to] = converted(out->dtype, x->dtype, x->at[from]);
}

static bool concatenated(scene *s)
{
    const step *call = s->step;
    const dense *like = NULL;
    for (int i = 0; i < call->num_inputs; i++) {
        if (s->in[i] == NULL) {
            return false;
        }
        like = like == NULL && !is_nothing(s->in[i]) ? s->in[i] : like;
    }
    like = like == NULL ? s->in[0] : like;
    int dim = dim_in(whole_of_call(s, 0), like->ndim);
    if (dim < 0 || call->num_wholes < 2 || call->wholes[1] != call->num_inputs) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
    for (int d = 0; d < like->ndim; d++) {
        shape[d] = d == dim ? 0 : like->shape[d];
    }
    for (int i = 0; i < call->num_inputs; i++) {
        const dense *x = s->in[i];
        for (int d = 0; d < like->ndim && !is_nothing(x); d++) {
            if (x->ndim != like->ndim || (d != dim && x->shape[d] != like->shape[d])) {
                return false;
            }
        }
        shape[dim] += is_nothing(x) ? 0 : x->shape[dim];
    }
    if (!are_promoted(call->num_inputs, s->in)) {
        return false;
    }
    dense *out = scene_output(s, 0, promoted(call->num_inputs, s->in), like->ndim, shape);
    int64_t before = 0;
    for (int i = 0; i < call->num_inputs; i++) {
        const dense *x = s->in[i];
        for (int64_t k = 0; k < x->count; k++) {
            unravel(x->ndim, x->shape, k, at);
            at[dim] += before;
            join_element(s, out, ravel(out->ndim, shape, at), x, k);
        }
        before += is_nothing(x) ? 0 : x->shape[dim];
    }
    join_addends(s, out);
    return true;
}

static bool make_stack(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    *s = step_of(s->operation, 1, a);
    int count = (int)between(m, 1, MAX_JOINED);
    unsigned types = one_in(m, MIXED_TYPES_ONE_IN) ? EVERY_TYPE : BIT(x->dtype);
    for (int i = 1; i < count; i++) {
        int next = choose_like(m, a, types, x->ndim, x->shape);
        if (next == NO_VALUE) {
            return false;
        }
        s->inputs[s->num_inputs++] = next;
        x = value_of(m, a);
    }
    s->num_wholes = 2;
    s->wholes[0] = any_dim(m, x->ndim + 1);
    s->wholes[1] = s->num_inputs;
    return true;
}

static bool stacked(scene *s)
{
    const step *call = s->step;
    const dense *like = s->in[0];
    int dim = like == NULL || like->ndim == WEFT_MAX_DIMS ? -1 : dim_in(whole_of_call(s, 0), like->ndim + 1);
    if (dim < 0 || call->num_wholes < 2 || call->wholes[1] != call->num_inputs) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
    for (int d = 0; d <= like->ndim; d++) {
        shape[d] = d == dim ? call->num_inputs : like->shape[d < dim ? d : d - 1];
    }
    for (int i = 0; i < call->num_inputs; i++) {
        const dense *x = s->in[i];
        for (int d = 0; x != NULL && d < like->ndim; d++) {
            x = x->ndim == like->ndim && x->shape[d] == like->shape[d] ? x : NULL;
        }
        if (x == NULL || x->ndim != like->ndim) {
            return false;
        }
    }
    if (!are_promoted(call->num_inputs, s->in)) {
        return false;
    }
    dense *out = scene_output(s, 0, promoted(call->num_inputs, s->in), like->ndim + 1, shape);
    for (int i = 0; i < call->num_inputs; i++) {
        for (int64_t k = 0; k < like->count; k++) {
            unravel(like->ndim, like->shape, k, at);
            for (int d = 0; d <= like->ndim; d++) {
                to[d] = d == dim ? i : at[d < dim ? d : d - 1];
            }
            join_element(s, out, ravel(out->ndim, shape, to), s->in[i], k);
        }
    }
    join_addends(s, out);
    return true;
}

/* ---- taken apart --------------------------------------------------------------------------------------- */

static bool make_split(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t rest = x->shape[dim_in(s->wholes[0], x->ndim)];
    s->ndim = (int)between(m, 1, MAX_PIECES);
    for (int i = 0; i < s->ndim; i++) {
        s->shape[i] = i == s->ndim - 1 ? rest : below(m, rest + 1);
        rest -= s->shape[i];
    }
    s->num_outputs = s->ndim;
    for (int i = 0; i < s->num_outputs; i++) {
        s->outputs[i] = NO_VALUE;
    }
    return true;
}

/* As torch.chunk() makes them: all but the last of this size. */
static int64_t size_of_chunks(int64_t size, int64_t chunks)
{
    return (size + chunks - 1) / chunks;
}

static bool make_chunk(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t size = x->shape[dim_in(s->wholes[0], x->ndim)], chunks = between(m, 1, MAX_PIECES);
    int64_t each = size_of_chunks(size, chunks);
    s->num_wholes = 2;
    s->wholes[1] = chunks;
    s->num_outputs = (int)(each == 0 ? chunks : (size + each - 1) / each);
    for (int i = 0; i < s->num_outputs; i++) {
        s->outputs[i] = NO_VALUE;
    }
    return true;
}

/* Consecutive pieces of these sizes. */
static bool pieces(scene *s, int dim, int count, const int64_t sizes[])
{
    const dense *x = s->in[0];
    int64_t begin = 0, at[WEFT_MAX_DIMS], shape[WEFT_MAX_DIMS];
    for (int i = 0; i < count; i++) {
        begin += sizes[i];
        if (sizes[i] < 0) {
            return false;
        }
    }
    if (begin != x->shape[dim] || count != s->step->num_outputs) {
        return false;
    }
    begin = 0;
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < x->ndim; d++) {
            shape[d] = d == dim ? sizes[i] : x->shape[d];
        }
        dense *out = scene_output(s, i, x->dtype, x->ndim, shape);
        for (int64_t k = 0; k < out->count; k++) {
            unravel(x->ndim, shape, k, at);
            at[dim] += begin;
            carry_element(s, out, k, x, ravel(x->ndim, x->shape, at));
        }
        out->mass = dense_mass(x);
        out->unit = dense_unit(x);
        out->signed_zeros = x->signed_zeros;
        begin += sizes[i];
    }
    return true;
}

static bool split(scene *s)
{
    int dim = s->in[0] == NULL ? -1 : dim_in(whole_of_call(s, 0), s->in[0]->ndim);
    return dim >= 0 && s->step->ndim > 0 && pieces(s, dim, s->step->ndim, s->step->shape);
}

static bool chunked(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    int64_t chunks = whole_of_call(s, 1), sizes[MAX_PIECES];
    if (dim < 0 || chunks < 1 || chunks > MAX_PIECES) {
        return false;
    }
    int64_t rest = x->shape[dim], each = size_of_chunks(rest, chunks);
    int count = 0;
    for (; each == 0 ? count < chunks : rest > 0; count++) {
        sizes[count] = rest < each ? rest : each;
        rest -= sizes[count];
    }
    return pieces(s, dim, count, sizes);
}

const operation join_calls[] = {
    ROW(cat, make_cat, concatenated, .flags = MOVES, .weight = 14),
    ROW(stack, make_stack, stacked, .flags = MOVES, .weight = 10),
    ROW(split, make_split, split, .flags = MOVES, .weight = 10),
    ROW(chunk, make_chunk, chunked, .flags = MOVES, .weight = 8),
    { .name = NULL },
};
