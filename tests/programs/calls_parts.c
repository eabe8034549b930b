/* Parts of tensors, and other orders of their elements: shapes.h. */
#include "sums.h"

#include "ops/backward.h"

/* ---- parts --------------------------------------------------------------------------------------------- */

CALLS(slice, out[0] = weft_slice(in[0], (int)whole[0], whole[1], whole[2], 1))
CALLS(slice_step, out[0] = weft_slice(in[0], (int)whole[0], whole[1], whole[2], whole[3]))
CALLS(slice_backward,
      out[0] = weft_slice_backward(in[0], (int)whole[0], whole[4], whole[1], whole[2], whole[3]))
CALLS(select, out[0] = weft_select(in[0], (int)whole[0], whole[1]))

/* Wholes: dimension, start, stop, step, size. */
enum { DIM, START, STOP, STEP, SIZE };

static bool make_slice(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t size = x->shape[dim_in(s->wholes[DIM], x->ndim)];
    s->num_wholes = 5;
    s->wholes[START] = one_in(m, 6) ? -between(m, 1, size + 2) : below(m, size + 1);
    s->wholes[STOP] = one_in(m, 6) ? -between(m, 0, size) : between(m, s->wholes[START], size + 1);
    s->wholes[STEP] = between(m, 1, 3);
    s->wholes[SIZE] = size;
    return true;
}

/* The gradient of a slice of something larger. */
static bool make_slice_backward(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t size = x->shape[dim_in(s->wholes[DIM], x->ndim)];
    s->num_wholes = 5;
    s->wholes[STEP] = between(m, 1, 3);
    s->wholes[START] = below(m, 4);
    s->wholes[STOP] = s->wholes[START] + size * s->wholes[STEP] - (size > 0 ? below(m, s->wholes[STEP]) : 0);
    s->wholes[SIZE] = s->wholes[STOP] + below(m, 4);
    return true;
}

/* A position as Python has it: from the end where it is negative, and clamped. */
static int64_t position(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

/* Start, step and number of elements that are taken of a dimension; false: no slice. */
static bool find_slice(const scene *s, int64_t size, int64_t *start, int64_t *step_size, int64_t *count)
{
    bool steps = s->step->operation->name[5] == '_';
    *step_size = steps ? whole_of_call(s, STEP) : 1;
    *start = position(whole_of_call(s, START), size);
    int64_t stop = position(whole_of_call(s, STOP), size);
    if (*step_size < 1) {
        return false;
    }
    *count = stop > *start ? (stop - *start + *step_size - 1) / *step_size : 0;
    return true;
}

static bool map_slice(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim = dim_in(whole_of_call(s, DIM), x->ndim);
    int64_t start, step_size, count;
    find_slice(s, x->shape[dim], &start, &step_size, &count);
    for (int d = 0; d < x->ndim; d++) {
        from[d] = d == dim ? start + at[d] * step_size : at[d];
    }
    return true;
}

static bool sliced(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, DIM), x->ndim);
    int64_t start, step_size, count, shape[WEFT_MAX_DIMS];
    if (dim < 0 || !find_slice(s, x->shape[dim], &start, &step_size, &count)) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? count : x->shape[d];
    }
    return move_elements(s, 0, x, x->ndim, shape, map_slice);
}

static bool map_slice_backward(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim = dim_in(whole_of_call(s, DIM), x->ndim);
    int64_t start, step_size, count;
    find_slice(s, whole_of_call(s, SIZE), &start, &step_size, &count);
    for (int d = 0; d < x->ndim; d++) {
        from[d] = d == dim ? (at[d] - start) / step_size : at[d];
    }
    return at[dim] >= start && (at[dim] - start) % step_size == 0 && from[dim] < count;
}

static bool slice_put_back(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, DIM), x->ndim);
    int64_t start, step_size, count, shape[WEFT_MAX_DIMS];
    if (dim < 0 || whole_of_call(s, SIZE) < 0 ||
        !find_slice(s, whole_of_call(s, SIZE), &start, &step_size, &count) || count != x->shape[dim]) {
        return false;
    }
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = d == dim ? whole_of_call(s, SIZE) : x->shape[d];
    }
    /* A zero of a Partial tensor may be the sum of zeros of any sign. */
    return move_elements(s, 0, x, x->ndim, shape, map_slice_backward);
}

static bool make_select(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    int64_t size = x->shape[dim_in(s->wholes[0], x->ndim)];
    s->num_wholes = 2;
    s->wholes[1] = size == 0 ? 0 : one_in(m, 3) ? -between(m, 1, size) : below(m, size);
    return size > 0;
}

static bool map_select(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim = dim_in(whole_of_call(s, 0), x->ndim);
    for (int d = 0; d < x->ndim; d++) {
        from[d] = d == dim ? dim_in(whole_of_call(s, 1), (int)x->shape[d]) : at[d < dim ? d : d - 1];
    }
    return true;
}

static bool selected(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0 || dim_in(whole_of_call(s, 1), (int)x->shape[dim]) < 0) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < x->ndim - 1; d++) {
        shape[d] = x->shape[d < dim ? d : d + 1];
    }
    return move_elements(s, 0, x, x->ndim - 1, shape, map_select);
}

/* ---- other orders of elements -------------------------------------------------------------------------- */

CALLS(flip, out[0] = weft_flip(in[0], ndim, dims))
CALLS(roll, out[0] = weft_roll(in[0], whole[1], (int)whole[0]))
CALLS(tril, out[0] = weft_tril(in[0], whole[0]))
CALLS(triu, out[0] = weft_triu(in[0], whole[0]))

static bool make_flip(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    int ndim = value_of(m, s->inputs[0])->ndim;
    for (int d = 0; d < ndim; d++) {
        if (one_in(m, 2)) {
            s->shape[s->ndim++] = one_in(m, 3) ? d - ndim : d;
        }
    }
    return true;
}

static bool map_flip(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    for (int d = 0; d < x->ndim; d++) {
        from[d] = at[d];
    }
    for (int i = 0; i < s->step->ndim; i++) {
        int dim = dim_in(s->step->shape[i], x->ndim);
        from[dim] = x->shape[dim] - 1 - at[dim];
    }
    return true;
}

static bool flipped(scene *s)
{
    const dense *x = s->in[0];
    unsigned seen = 0;
    for (int i = 0; x != NULL && i < s->step->ndim; i++) {
        int dim = dim_in(s->step->shape[i], x->ndim);
        if (dim < 0 || (seen >> dim & 1)) {
            return false;
        }
        seen |= 1u << dim;
    }
    return x != NULL && move_elements(s, 0, x, x->ndim, x->shape, map_flip);
}

static bool make_roll(maker *m, step *s)
{
    if (!make_along(m, s, EVERY_TYPE, 1)) {
        return false;
    }
    s->num_wholes = 2;
    s->wholes[1] = between(m, -12, 12);
    return true;
}

static bool map_roll(const scene *s, const int64_t at[], int64_t from[])
{
    const dense *x = s->in[0];
    int dim = dim_in(whole_of_call(s, 0), x->ndim);
    for (int d = 0; d < x->ndim; d++) {
        int64_t size = x->shape[d];
        from[d] = d == dim ? ((at[d] - whole_of_call(s, 1)) % size + size) % size : at[d];
    }
    return true;
}

static bool rolled(scene *s)
{
    const dense *x = s->in[0];
    return x != NULL && dim_in(whole_of_call(s, 0), x->ndim) >= 0 &&
           move_elements(s, 0, x, x->ndim, x->shape, map_roll);
}

static bool make_triangle(maker *m, step *s)
{
    int a = choose_any(m, EVERY_TYPE, 2, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = between(m, -4, 4);
    return a != NO_VALUE && value_of(m, a)->ndim >= 2;
}

static bool map_triangle(const scene *s, const int64_t at[], int64_t from[])
{
    int ndim = s->in[0]->ndim;
    for (int d = 0; d < ndim; d++) {
        from[d] = at[d];
    }
    int64_t diagonal = at[ndim - 1] - at[ndim - 2];
    return s->step->operation->name[3] == 'l' ? diagonal <= whole_of_call(s, 0)
                                              : diagonal >= whole_of_call(s, 0);
}

static bool triangle(scene *s)
{
    const dense *x = s->in[0];
    return x != NULL && x->ndim >= 2 && move_elements(s, 0, x, x->ndim, x->shape, map_triangle);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

#define MOVING(name_, make_, reference_) ROW(name_, make_, reference_, .flags = MOVES, .weight = 10)

const operation part_calls[] = {
    MOVING(slice, make_slice, sliced),
    MOVING(slice_step, make_slice, sliced),
    MOVING(slice_backward, make_slice_backward, slice_put_back),
    MOVING(select, make_select, selected),
    MOVING(flip, make_flip, flipped),
    MOVING(roll, make_roll, rolled),
    MOVING(tril, make_triangle, triangle),
    MOVING(triu, make_triangle, triangle),
    { .name = NULL },
};
