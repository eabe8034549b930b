/* Operations that move elements, on random shapes, meshes, placements and types against plain loops, with
 * panels of several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how
 * many cases of each. */
#include "operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands of all types ----------------------------------------------------------------------------- */

/* A tensor of any type whose values `base` has as well, in a type that tests can read. */
typedef struct any_operand {
    operand base;
    weft_dtype dtype;
    weft_tensor *tensor;
} any_operand;

static any_operand make_any_of(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[])
{
    bool small = weft_dtype_size(dtype) < 4;
    weft_dtype readable = !small ? dtype : weft_dtype_size(dtype) == 2 ? WEFT_F32 : WEFT_I32;
    bool counts = dtype == WEFT_U8 || dtype == WEFT_BOOL;
    any_operand x = { .dtype = dtype };
    x.base = make_operand(mesh, readable, ndim, shape, counts ? INDEX : WHOLE, dtype == WEFT_BOOL ? 2 : 200);
    x.tensor = weft_to_type(x.base.tensor, dtype);
    assert_no_error();
    return x;
}

static weft_dtype any_type(void)
{
    return (weft_dtype)below(WEFT_DTYPE_COUNT);
}

static any_operand make_any(weft_mesh *mesh, int ndim, const int64_t shape[])
{
    return make_any_of(mesh, any_type(), ndim, shape);
}

/* Asserts that the result has x's type, this shape and these values. */
static void check_any(weft_tensor *result, const any_operand *x, int ndim, const int64_t shape[],
                      const double *expected, const char *what)
{
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), x->dtype);
    char text[600];
    snprintf(text, sizeof(text), "%s of %s %s", what, weft_dtype_name(x->dtype), describe_operand(&x->base));
    check(weft_to_type(result, x->base.dtype), x->base.dtype, ndim, shape, expected, x->base.exact ? 0 : 32,
          10, text);
}

/* ---- references ---------------------------------------------------------------------------------------- */

/* Where an element of the result comes from, by its index: its place in the dense input; -1: it is 0. */
typedef int64_t (*source_function)(const any_operand *x, const int64_t index[], const void *how);

static int64_t flat(int ndim, const int64_t shape[], const int64_t index[])
{
    int64_t place = 0;
    for (int d = 0; d < ndim; d++) {
        place = place * shape[d] + index[d];
    }
    return place;
}

static void check_moved(weft_tensor *result, const any_operand *x, int ndim, const int64_t shape[],
                        source_function source_of, const void *how, const char *what)
{
    int64_t count = shape_count(ndim, shape);
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        int64_t index[WEFT_MAX_DIMS] = { 0 }, rest = i;
        for (int d = ndim - 1; d >= 0; d--) {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        int64_t place = source_of(x, index, how);
        expected[i] = place < 0 ? 0 : x->base.dense[place];
    }
    check_any(result, x, ndim, shape, expected, what);
    free(expected);
}

/* A random shape of at least `least` dimensions. */
static int shape_of_at_least(int least, int most, int64_t shape[])
{
    int ndim = least + (int)below(most - least + 1);
    for (int d = 0; d < ndim; d++) {
        shape[d] = ndim < 4 ? any_size() : below(7);
    }
    return ndim;
}

/* 0 .. ndim - 1, sometimes counted from the end. */
static int spelled(int dim, int ndim)
{
    return below(2) ? dim : dim - ndim;
}

/* ---- the order of dimensions --------------------------------------------------------------------------- */

static int64_t permuted_source(const any_operand *x, const int64_t index[], const void *how)
{
    const int *dims = how;
    int64_t own[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        own[dims[d]] = index[d];
    }
    return flat(x->base.ndim, x->base.shape, own);
}

static void check_permuted(weft_tensor *result, const any_operand *x, const int dims[], const char *what)
{
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        shape[d] = x->base.shape[dims[d]];
    }
    check_moved(result, x, x->base.ndim, shape, permuted_source, dims, what);
}

static void case_permute(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 5, shape), dims[WEFT_MAX_DIMS], given[WEFT_MAX_DIMS];
    any_operand x = make_any(any_mesh(), ndim, shape);
    for (int d = 0; d < ndim; d++) {
        int other = (int)below(d + 1);
        dims[d] = d;
        dims[d] = dims[other];
        dims[other] = d;
    }
    for (int d = 0; d < ndim; d++) {
        given[d] = spelled(dims[d], ndim);
    }
    check_permuted(weft_permute(x.tensor, ndim, given), &x, dims, "permute");
    release(&x.base);
}

static void case_transpose(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape), dims[] = { 0, 1, 2, 3 };
    int d0 = (int)below(ndim), d1 = (int)below(ndim);
    any_operand x = make_any(any_mesh(), ndim, shape);
    dims[d0] = d1;
    dims[d1] = d0;
    check_permuted(weft_transpose(x.tensor, spelled(d0, ndim), spelled(d1, ndim)), &x, dims, "transpose");
    release(&x.base);
}

static void case_movedim(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape), dims[WEFT_MAX_DIMS];
    int from = (int)below(ndim), to = (int)below(ndim);
    any_operand x = make_any(any_mesh(), ndim, shape);
    for (int d = 0; d < ndim; d++) { /* step by step, as one would with cards */
        dims[d] = d;
    }
    for (int d = from; d != to; d += to > from ? 1 : -1) {
        int next = d + (to > from ? 1 : -1), card = dims[d];
        dims[d] = dims[next];
        dims[next] = card;
    }
    check_permuted(weft_movedim(x.tensor, spelled(from, ndim), spelled(to, ndim)), &x, dims, "movedim");
    release(&x.base);
}

/* ---- dimensions of size 1 ------------------------------------------------------------------------------ */

static int64_t same_source(const any_operand *x, const int64_t index[], const void *how)
{
    const int64_t *shape = how;
    return flat((int)shape[WEFT_MAX_DIMS], shape, index) + 0 * x->base.ndim;
}

/* The same elements in the same order. */
static void check_same(weft_tensor *result, const any_operand *x, int ndim, const int64_t shape[],
                       const char *what)
{
    int64_t how[WEFT_MAX_DIMS + 1];
    memcpy(how, shape, (size_t)ndim * sizeof(shape[0]));
    how[WEFT_MAX_DIMS] = ndim;
    check_moved(result, x, ndim, shape, same_source, how, what);
}

/* Writing to a result does not show in what it was made of. */
static void check_unchanged(weft_tensor *result, const any_operand *x)
{
    bool whole = true;
    for (int m = 0; m < weft_mesh_ndim(weft_tensor_mesh(result)); m++) {
        whole &= weft_tensor_placements(result)[m].kind != WEFT_PARTIAL;
    }
    if (whole) {
        weft_fill_inplace(result, 1);
        check_same(x->tensor, x, x->base.ndim, x->base.shape, "input after a change of the output");
    }
}

static void case_squeeze(void)
{
    int64_t shape[WEFT_MAX_DIMS], squeezed[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape), count = 0;
    for (int d = 0; d < ndim; d++) {
        shape[d] = below(2) ? 1 : shape[d];
    }
    any_operand x = make_any(any_mesh(), ndim, shape);
    bool all = below(2);
    int dim = (int)below(ndim);
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != 1 || (!all && d != dim)) {
            squeezed[count++] = shape[d];
        }
    }
    weft_tensor *result = all ? weft_squeeze_all(x.tensor) : weft_squeeze(x.tensor, spelled(dim, ndim));
    check_same(result, &x, count, squeezed, all ? "squeeze_all" : "squeeze");
    check_unchanged(result, &x);
    release(&x.base);
}

static void case_unsqueeze(void)
{
    int64_t shape[WEFT_MAX_DIMS], wide[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 4, shape), dim = (int)below(ndim + 1);
    any_operand x = make_any(any_mesh(), ndim, shape);
    for (int d = 0; d <= ndim; d++) {
        wide[d] = d == dim ? 1 : shape[d < dim ? d : d - 1];
    }
    weft_tensor *result = weft_unsqueeze(x.tensor, spelled(dim, ndim + 1));
    check_same(result, &x, ndim + 1, wide, "unsqueeze");
    check_unchanged(result, &x);
    release(&x.base);
}

/* ---- other shapes -------------------------------------------------------------------------------------- */

static void case_flatten(void)
{
    int64_t shape[WEFT_MAX_DIMS], joined[WEFT_MAX_DIMS] = { 1 };
    int ndim = shape_of_at_least(0, 5, shape), count = 0;
    int first = ndim == 0 ? 0 : (int)below(ndim), last = ndim == 0 ? 0 : first + (int)below(ndim - first);
    any_operand x = make_any(any_mesh(), ndim, shape);
    for (int d = 0; d < ndim; d++) {
        if (d > first && d <= last) {
            joined[count - 1] *= shape[d];
        } else {
            joined[count++] = shape[d];
        }
    }
    int spelled_ndim = ndim == 0 ? 1 : ndim;
    weft_tensor *result = weft_flatten(x.tensor, spelled(first, spelled_ndim), spelled(last, spelled_ndim));
    check_same(result, &x, ndim == 0 ? 1 : count, joined, "flatten");
    check_unchanged(result, &x);
    release(&x.base);
}

static void case_unflatten(void)
{
    static const int64_t even[] = { 1, 2, 3, 4, 6, 8 };
    int64_t shape[WEFT_MAX_DIMS], sizes[4], wide[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 3, shape), dim = (int)below(ndim), num_sizes = 1 + (int)below(4);
    shape[dim] = 1;
    for (int i = 0; i < num_sizes; i++) {
        sizes[i] = below(12) == 0 ? 0 : even[below(num_sizes < 3 ? 6 : 3)];
        shape[dim] *= sizes[i];
    }
    any_operand x = make_any(any_mesh(), ndim, shape);
    memcpy(wide, shape, (size_t)dim * sizeof(shape[0]));
    memcpy(wide + dim, sizes, (size_t)num_sizes * sizeof(sizes[0]));
    memcpy(wide + dim + num_sizes, shape + dim + 1, (size_t)(ndim - dim - 1) * sizeof(shape[0]));
    if (shape[dim] > 0 && below(2)) {
        sizes[below(num_sizes)] = -1;
    }
    weft_tensor *result = weft_unflatten(x.tensor, spelled(dim, ndim), num_sizes, sizes);
    check_same(result, &x, ndim - 1 + num_sizes, wide, "unflatten");
    check_unchanged(result, &x);
    release(&x.base);
}

/* Two random shapes of as many elements, whose factors mingle: the small primes of one are dealt out again.
 */
static int random_factors(int64_t primes[], int num_primes, int64_t shape[])
{
    int ndim = 1 + (int)below(5);
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1;
    }
    for (int i = 0, d = 0; i < num_primes; i++) {
        d += d < ndim - 1 && below(2);
        shape[d] *= primes[i];
    }
    return ndim;
}

static void case_reshape(void)
{
    int64_t primes[6], shape[WEFT_MAX_DIMS], new_shape[WEFT_MAX_DIMS];
    int num_primes = 1 + (int)below(6);
    for (int i = 0; i < num_primes; i++) {
        primes[i] = 2 + below(2);
    }
    int ndim = random_factors(primes, num_primes, shape);
    if (below(2)) {
        for (int i = num_primes - 1; i > 0; i--) {
            int64_t other = below(i + 1), prime = primes[i];
            primes[i] = primes[other];
            primes[other] = prime;
        }
    }
    int new_ndim = random_factors(primes, num_primes, new_shape);
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = weft_reshape(x.tensor, new_ndim, new_shape);
    check_same(result, &x, new_ndim, new_shape, "reshape");
    check_unchanged(result, &x);
    release(&x.base);
}

/* ---- repetition ---------------------------------------------------------------------------------------- */

static int64_t expanded_source(const any_operand *x, const int64_t index[], const void *how)
{
    const int *added = how;
    int64_t own[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        own[d] = x->base.shape[d] == 1 ? 0 : index[d + *added];
    }
    return flat(x->base.ndim, x->base.shape, own);
}

static void case_expand(void)
{
    int64_t shape[WEFT_MAX_DIMS], wide[WEFT_MAX_DIMS], given[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 3, shape), added = (int)below(3);
    for (int d = 0; d < ndim + added; d++) {
        if (d < added) {
            wide[d] = given[d] = below(6);
            continue;
        }
        shape[d - added] = below(2) ? 1 : shape[d - added];
        bool repeats = shape[d - added] == 1 && below(3) > 0;
        wide[d] = given[d] = repeats ? below(9) : shape[d - added];
        given[d] = !repeats && below(2) ? -1 : wide[d];
    }
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = weft_expand(x.tensor, ndim + added, given);
    check_moved(result, &x, ndim + added, wide, expanded_source, &added, "expand");
    release(&x.base);
}

static void case_sum_to(void)
{
    int64_t shape[WEFT_MAX_DIMS], narrow[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 4, shape), added = (int)below(ndim + 1);
    weft_mesh *mesh = any_mesh();
    operand a = make_operand(mesh, any_float(), ndim, shape, WHOLE, 0);
    for (int d = added; d < ndim; d++) {
        narrow[d - added] = below(2) ? 1 : shape[d];
    }
    int64_t count = shape_count(ndim - added, narrow);
    double *expected = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < a.count; i++) {
        int64_t index[WEFT_MAX_DIMS] = { 0 }, rest = i;
        for (int d = ndim - 1; d >= added; d--) {
            index[d - added] = narrow[d - added] == 1 ? 0 : rest % shape[d];
            rest /= shape[d];
        }
        expected[flat(ndim - added, narrow, index)] += a.dense[i];
    }
    check(weft_sum_to(a.tensor, ndim - added, narrow), a.dtype, ndim - added, narrow, expected,
          a.exact ? 0 : 64, 2000, describe_operand(&a));
    free(expected);
    release(&a);
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* What Python's range(size)[start:stop:step] has. */
typedef struct chosen {
    int dim;
    int64_t count, places[4 * MAX_SIZE];
} chosen;

static chosen choose(int dim, int64_t size, int64_t start, int64_t stop, int64_t step)
{
    chosen c = { .dim = dim };
    start += start < 0 ? size : 0;
    stop += stop < 0 ? size : 0;
    for (int64_t i = start < 0 ? 0 : start; i < stop && i < size; i += step) {
        c.places[c.count++] = i;
    }
    return c;
}

/* A random slice of a dimension: also beyond its ends, and empty ones. */
static void random_slice(int64_t size, int64_t *start, int64_t *stop, int64_t *step)
{
    *start = below(4) == 0 ? below(3 * size + 4) - (3 * size + 4) / 2 : below(size + 1);
    *stop = below(4) == 0 ? below(3 * size + 4) - (3 * size + 4) / 2 : size - below(size + 1) / 2;
    *step = below(2) ? 1 : 1 + below(4);
}

static int64_t chosen_source(const any_operand *x, const int64_t index[], const void *how)
{
    const chosen *c = how;
    int64_t own[WEFT_MAX_DIMS];
    memcpy(own, index, (size_t)x->base.ndim * sizeof(own[0]));
    own[c->dim] = c->places[index[c->dim]];
    return flat(x->base.ndim, x->base.shape, own);
}

static void case_slice(void)
{
    int64_t shape[WEFT_MAX_DIMS], start, stop, step;
    int ndim = shape_of_at_least(1, 4, shape), dim = (int)below(ndim);
    any_operand x = make_any(any_mesh(), ndim, shape);
    random_slice(shape[dim], &start, &stop, &step);
    chosen c = choose(dim, shape[dim], start, stop, step);
    shape[dim] = c.count;
    weft_tensor *result = step == 1 ? weft_slice(x.tensor, spelled(dim, ndim), start, stop)
                                    : weft_slice_step(x.tensor, spelled(dim, ndim), start, stop, step);
    char what[100];
    snprintf(what, sizeof(what), "slice %d:%d:%d along %d", (int)start, (int)stop, (int)step, dim);
    check_moved(result, &x, ndim, shape, chosen_source, &c, what);
    check_unchanged(result, &x);
    release(&x.base);
}

static int64_t unchosen_source(const any_operand *x, const int64_t index[], const void *how)
{
    const chosen *c = how;
    int64_t own[WEFT_MAX_DIMS];
    memcpy(own, index, (size_t)x->base.ndim * sizeof(own[0]));
    for (int64_t i = 0; i < c->count; i++) {
        if (c->places[i] == index[c->dim]) {
            own[c->dim] = i;
            return flat(x->base.ndim, x->base.shape, own);
        }
    }
    return -1;
}

static void case_slice_backward(void)
{
    int64_t shape[WEFT_MAX_DIMS], start, stop, step;
    int ndim = shape_of_at_least(1, 4, shape), dim = (int)below(ndim);
    int64_t size = shape[dim];
    random_slice(size, &start, &stop, &step);
    chosen c = choose(dim, size, start, stop, step);
    shape[dim] = c.count;
    any_operand x = make_any(any_mesh(), ndim, shape);
    shape[dim] = size;
    weft_tensor *result = weft_slice_backward(x.tensor, spelled(dim, ndim), size, start, stop, step);
    check_moved(result, &x, ndim, shape, unchosen_source, &c, "slice_backward");
    release(&x.base);
}

static int64_t selected_source(const any_operand *x, const int64_t index[], const void *how)
{
    const chosen *c = how;
    int64_t own[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        own[d] = d < c->dim ? index[d] : d == c->dim ? c->places[0] : index[d - 1];
    }
    return flat(x->base.ndim, x->base.shape, own);
}

static void case_select(void)
{
    int64_t shape[WEFT_MAX_DIMS], rest[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape), dim = (int)below(ndim);
    shape[dim] += shape[dim] == 0;
    any_operand x = make_any(any_mesh(), ndim, shape);
    chosen c = { .dim = dim, .places = { below(shape[dim]) } };
    for (int d = 0; d < ndim - 1; d++) {
        rest[d] = shape[d < dim ? d : d + 1];
    }
    int64_t index = below(2) ? c.places[0] : c.places[0] - shape[dim];
    weft_tensor *result = weft_select(x.tensor, spelled(dim, ndim), index);
    check_moved(result, &x, ndim - 1, rest, selected_source, &c, "select");
    check_unchanged(result, &x);
    release(&x.base);
}

/* ---- the order of elements ----------------------------------------------------------------------------- */

static int64_t flipped_source(const any_operand *x, const int64_t index[], const void *how)
{
    const bool *flips = how;
    int64_t own[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        own[d] = flips[d] ? x->base.shape[d] - 1 - index[d] : index[d];
    }
    return flat(x->base.ndim, x->base.shape, own);
}

static void case_flip(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 4, shape), dims[WEFT_MAX_DIMS], num_dims = 0;
    bool flips[WEFT_MAX_DIMS] = { false };
    for (int d = ndim - 1; d >= 0; d--) {
        flips[d] = below(2);
        if (flips[d]) {
            dims[num_dims++] = spelled(d, ndim);
        }
    }
    any_operand x = make_any(any_mesh(), ndim, shape);
    check_moved(weft_flip(x.tensor, num_dims, dims), &x, ndim, shape, flipped_source, flips, "flip");
    release(&x.base);
}

typedef struct rolled {
    int dim;
    int64_t shift;
} rolled;

static int64_t rolled_source(const any_operand *x, const int64_t index[], const void *how)
{
    const rolled *r = how;
    int64_t own[WEFT_MAX_DIMS], size = x->base.shape[r->dim];
    memcpy(own, index, (size_t)x->base.ndim * sizeof(own[0]));
    own[r->dim] = ((index[r->dim] - r->shift) % size + size) % size;
    return flat(x->base.ndim, x->base.shape, own);
}

static void case_roll(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape);
    rolled r = { (int)below(ndim), below(60) - 30 };
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = weft_roll(x.tensor, r.shift, spelled(r.dim, ndim));
    check_moved(result, &x, ndim, shape, rolled_source, &r, "roll");
    release(&x.base);
}

/* ---- triangles ----------------------------------------------------------------------------------------- */

typedef struct triangle {
    bool lower;
    int64_t diagonal;
} triangle;

static int64_t triangle_source(const any_operand *x, const int64_t index[], const void *how)
{
    const triangle *t = how;
    int64_t distance = index[x->base.ndim - 1] - index[x->base.ndim - 2];
    bool inside = t->lower ? distance <= t->diagonal : distance >= t->diagonal;
    return inside ? flat(x->base.ndim, x->base.shape, index) : -1;
}

static void case_triangle(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(2, 5, shape);
    triangle t = { below(2), below(8) == 0 ? (below(2) ? INT64_MAX : INT64_MIN)
                             : below(2)    ? 0
                                           : below(31) - 15 };
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = t.lower ? weft_tril(x.tensor, t.diagonal) : weft_triu(x.tensor, t.diagonal);
    check_moved(result, &x, ndim, shape, triangle_source, &t, t.lower ? "tril" : "triu");
    release(&x.base);
}

/* ---- joining and taking apart -------------------------------------------------------------------------- */

enum { MAX_PARTS = 9 };

/* Copies the part of a dense tensor that begins at `start` of dimension dim, or writes it there. */
static void copy_dense(double *whole, double *part, int ndim, const int64_t shape[], int dim, int64_t start,
                       int64_t size, bool write)
{
    int64_t outer = shape_count(dim, shape), inner = shape_count(ndim - dim - 1, shape + dim + 1);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < size * inner; i++) {
            double *to = &whole[(o * shape[dim] + start) * inner + i], *other = &part[o * size * inner + i];
            *(write ? to : other) = *(write ? other : to);
        }
    }
}

static void case_cat(void)
{
    int64_t shape[WEFT_MAX_DIMS], total = 0;
    int ndim = shape_of_at_least(1, 3, shape), dim = (int)below(ndim), n = 1 + (int)below(MAX_PARTS);
    weft_mesh *mesh = any_mesh();
    weft_dtype first = any_type(), type = first;
    bool mixed = below(3) == 0, exact = true;
    any_operand parts[MAX_PARTS];
    weft_tensor *tensors[MAX_PARTS + 1];
    int count = 0;
    for (int i = 0; i < n; i++) {
        shape[dim] = below(9);
        weft_dtype own = mixed ? (i % 2 == 0 ? WEFT_I32 : WEFT_F64) : first;
        parts[i] = make_any_of(mesh, own, ndim, shape);
        type = mixed && i > 0 ? WEFT_F64 : own;
        exact &= parts[i].base.exact;
        tensors[count++] = parts[i].tensor;
        total += shape[dim];
    }
    if (below(4) == 0) { /* fits any others */
        tensors[count++] = weft_zeros(type, 1, (const int64_t[]){ 0 }, mesh, NULL);
    }
    shape[dim] = total;
    any_operand whole = { .base = parts[n - 1].base, .dtype = type };
    whole.base.exact = exact;
    whole.base.dtype = mixed ? type : parts[0].base.dtype;
    double *expected = calloc((size_t)shape_count(ndim, shape) + 1, sizeof(double));
    for (int64_t i = 0, start = 0; i < n; start += parts[i++].base.shape[dim]) {
        copy_dense(expected, parts[i].base.dense, ndim, shape, dim, start, parts[i].base.shape[dim], true);
    }
    check_any(weft_cat(count, tensors, spelled(dim, ndim)), &whole, ndim, shape, expected, "cat");
    free(expected);
    for (int i = 0; i < n; i++) {
        release(&parts[i].base);
    }
}

static void case_stack(void)
{
    int64_t shape[WEFT_MAX_DIMS], wide[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 3, shape), dim = (int)below(ndim + 1), n = 1 + (int)below(MAX_PARTS);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_type();
    any_operand parts[MAX_PARTS];
    weft_tensor *tensors[MAX_PARTS];
    bool exact = true;
    for (int d = 0; d <= ndim; d++) {
        wide[d] = d == dim ? n : shape[d < dim ? d : d - 1];
    }
    double *expected = calloc((size_t)shape_count(ndim + 1, wide) + 1, sizeof(double));
    for (int i = 0; i < n; i++) {
        parts[i] = make_any_of(mesh, type, ndim, shape);
        exact &= parts[i].base.exact;
        tensors[i] = parts[i].tensor;
        copy_dense(expected, parts[i].base.dense, ndim + 1, wide, dim, i, 1, true);
    }
    any_operand whole = parts[0];
    whole.base.exact = exact;
    check_any(weft_stack(n, tensors, spelled(dim, ndim + 1)), &whole, ndim + 1, wide, expected, "stack");
    free(expected);
    for (int i = 0; i < n; i++) {
        release(&parts[i].base);
    }
}

static void check_pieces(const any_operand *x, int n, weft_tensor *const pieces[], const int64_t sizes[],
                         int dim)
{
    int64_t shape[WEFT_MAX_DIMS], start = 0;
    memcpy(shape, x->base.shape, sizeof(shape));
    for (int i = 0; i < n; i++) {
        shape[dim] = sizes[i];
        double *expected = calloc((size_t)shape_count(x->base.ndim, shape) + 1, sizeof(double));
        copy_dense(x->base.dense, expected, x->base.ndim, x->base.shape, dim, start, sizes[i], false);
        check_any(pieces[i], x, x->base.ndim, shape, expected, "piece");
        free(expected);
        start += sizes[i];
    }
}

static void case_split(void)
{
    int64_t shape[WEFT_MAX_DIMS], sizes[MAX_PARTS], total = 0;
    int ndim = shape_of_at_least(1, 3, shape), dim = (int)below(ndim), n = 1 + (int)below(4);
    for (int i = 0; i < n; i++) {
        sizes[i] = below(7);
        total += sizes[i];
    }
    shape[dim] = total;
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *pieces[MAX_PARTS];
    assert_int_equal(weft_split(x.tensor, n, sizes, spelled(dim, ndim), pieces), WEFT_OK);
    check_pieces(&x, n, pieces, sizes, dim);
    release(&x.base);
}

static void case_chunk(void)
{
    int64_t shape[WEFT_MAX_DIMS], sizes[MAX_PARTS] = { 0 };
    int ndim = shape_of_at_least(1, 3, shape), dim = (int)below(ndim), chunks = 1 + (int)below(MAX_PARTS);
    any_operand x = make_any(any_mesh(), ndim, shape);
    weft_tensor *pieces[MAX_PARTS];
    int count = weft_chunk(x.tensor, chunks, spelled(dim, ndim), pieces), expected = 0;
    int64_t each = (shape[dim] + chunks - 1) / chunks;
    for (int64_t left = shape[dim]; left > 0; left -= sizes[expected++]) {
        sizes[expected] = left < each ? left : each;
    }
    assert_int_equal(count, shape[dim] == 0 ? chunks : expected);
    check_pieces(&x, count, pieces, sizes, dim);
    release(&x.base);
}

/* ---- what is moved ------------------------------------------------------------------------------------- */

static weft_tensor *make_filled(weft_mesh *mesh, int ndim, const int64_t shape[], const char *placements)
{
    weft_placement read[3];
    assert_int_equal(weft_placements_parse(placements, weft_mesh_ndim(mesh), read), WEFT_OK);
    weft_tensor *tensor = weft_empty(WEFT_F32, ndim, shape, mesh, read);
    assert_no_error();
    return tensor;
}

static weft_tensor *transposed(weft_tensor *a)
{
    return weft_transpose(a, 0, 1);
}

static weft_tensor *joined(weft_tensor *a)
{
    return weft_flatten(a, 0, 1);
}

static weft_tensor *parted(weft_tensor *a)
{
    return weft_unflatten(a, 1, 2, (const int64_t[]){ 4, 2 });
}

static weft_tensor *halved(weft_tensor *a)
{
    return weft_slice(a, 0, 0, 4);
}

static weft_tensor *repeated(weft_tensor *a)
{
    return weft_expand(weft_unsqueeze(a, 1), 3, (const int64_t[]){ -1, 5, -1 });
}

static weft_tensor *doubled(weft_tensor *a)
{
    return weft_cat(2, (weft_tensor *[]){ a, a }, 0);
}

static weft_tensor *mirrored(weft_tensor *a)
{
    return weft_flip(a, 1, (int[]){ 0 });
}

static weft_tensor *rolled_over(weft_tensor *a)
{
    return weft_roll(a, 3, 0);
}

static weft_tensor *lower(weft_tensor *a)
{
    return weft_tril(a, 0);
}

/* Layouts that stay where they can: of an [8, 8] on four ranks. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct {
        weft_tensor *(*call)(weft_tensor *);
        const char *given, *wanted;
    } cases[] = {
        { transposed, "S0,S1", "S1,S0" },
        { transposed, "P(max),S1", "P(max),S0" },
        { joined, "S0,R", "S0,R" },
        { joined, "S0,S0", "S0,S0" },
        { joined, "P(min),P(min)", "P(min),P(min)" },
        { parted, "S1,R", "S1,R" },
        { parted, "S1,S1", "S1,S1" },
        { parted, "S0,S1", "S0,S1" },
        { parted, "P,R", "P,R" },
        { halved, "S1,R", "S1,R" },
        { halved, "P,S1", "P,S1" },
        { halved, "S0,R", "S0,R" },
        { halved, "S0,S0", "S0,S0" },
        { halved, "P(max),S0", "P(max),S0" },
        { repeated, "S0,S1", "S0,S2" },
        { repeated, "P,P", "P,P" },
        { doubled, "S1,R", "S1,R" },
        { doubled, "P,S1", "P,S1" },
        { doubled, "R,R", "R,R" },
        { doubled, "R,S0", "R,S0" },
        { doubled, "S0,P", "S0,P" },
        { mirrored, "S1,P(max)", "S1,P(max)" },
        { mirrored, "S0,S1", "S0,S1" },
        { rolled_over, "S0,S0", "S0,S0" },
        { rolled_over, "P,R", "P,R" },
        { lower, "S0,S1", "S0,S1" },
        { lower, "P,S1", "P,S1" },
    };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_scope_open();
        weft_tensor *result = cases[i].call(make_filled(mesh, 2, (const int64_t[]){ 8, 8 }, cases[i].given));
        assert_no_error();
        weft_placement wanted[2];
        assert_int_equal(weft_placements_parse(cases[i].wanted, 2, wanted), WEFT_OK);
        for (int m = 0; m < 2; m++) {
            weft_placement got = weft_tensor_placements(result)[m];
            if (got.kind != wanted[m].kind || (got.kind == WEFT_SHARD && got.dim != wanted[m].dim) ||
                (got.kind == WEFT_PARTIAL && got.op != wanted[m].op)) {
                fail_msg("case %d from %s: kind %d of dimension %d, expected %s", (int)i, cases[i].given,
                         (int)got.kind, got.dim, cases[i].wanted);
            }
        }
        weft_scope_close();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* No tasks where the memory is there already. */
static void test_views(void **state)
{
    (void)state;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 4 }, NULL);
    static const char *const placements[] = { "R", "S0", "S1", "P" };
    weft_counters before, after;
    weft_get_counters(&before);
    for (int i = 0; i < 4; i++) {
        weft_scope_open();
        weft_tensor *a = make_filled(mesh, 3, (const int64_t[]){ 8, 4, 6 }, placements[i]);
        weft_tensor *b = weft_unsqueeze(a, 1), *c = weft_squeeze(b, 1),
                    *d = weft_unflatten(a, 2, 2, (int64_t[]){ 2, 3 });
        assert_non_null(weft_squeeze_all(c));
        assert_non_null(weft_flatten(d, 2, 3));
        assert_non_null(weft_unflatten(a, 1, 2, (const int64_t[]){ 4, 1 }));
        if (i != 1) { /* all ranks have all rows */
            assert_non_null(weft_slice(a, 0, 2, 6));
            assert_non_null(weft_select(a, 0, -1));
            weft_tensor *pieces[3];
            assert_int_equal(weft_chunk(a, 3, 0, pieces), 3);
        }
        weft_scope_close();
    }
    assert_no_error();
    weft_get_counters(&after);
    assert_int_equal(after.tasks, before.tasks);
    assert_int_equal(after.transfers, before.transfers);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

enum { WIRE_RANKS = 4, WIRE_ROWS = 64 };

/* What the cases below do along a dimension of WIRE_ROWS indices, cut evenly into WIRE_RANKS parts of 16. */
static void without_first(weft_tensor *a, int dim)
{
    weft_slice(a, dim, 1, WIRE_ROWS);
}

static void without_last(weft_tensor *a, int dim)
{
    weft_slice(a, dim, 0, -4);
}

static void every_second(weft_tensor *a, int dim)
{
    weft_slice_step(a, dim, 1, WIRE_ROWS, 2);
}

static void gradient_of_slice(weft_tensor *a, int dim)
{
    weft_slice_backward(a, dim, WIRE_ROWS + 4, 4, WIRE_ROWS + 4, 1);
}

static void one_of_them(weft_tensor *a, int dim)
{
    weft_select(a, dim, 40);
}

static void backwards(weft_tensor *a, int dim)
{
    weft_flip(a, 1, &dim);
}

static void one_further(weft_tensor *a, int dim)
{
    weft_roll(a, 1, dim);
}

static void twice(weft_tensor *a, int dim)
{
    weft_cat(2, (weft_tensor *[]){ a, a }, dim);
}

static void two_halves(weft_tensor *a, int dim)
{
    weft_tensor *halves[2];
    assert_int_equal(weft_chunk(a, 2, dim, halves), 2);
}

/* Only what changes its rank is moved, in rows of the dimension. To move the whole dimension would be 48 rows (to
 * shards of another one) or 192 (to all ranks). */
static void test_bytes_moved(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*call)(weft_tensor *a, int dim);
        int rows;
    } cases[] = {
        { "without_first", without_first, 3 }, /* one for each border */
        { "without_last", without_last, 1 + 2 + 3 },
        { "every_second", every_second, 0 },
        { "gradient_of_slice", gradient_of_slice, 3 + 2 + 1 }, /* from index 4 on in parts of 17 */
        { "one_of_them", one_of_them, 1 }, /* and in parts from its new rank to all others */
        { "backwards", backwards, 64 },    /* all of them change places */
        { "one_further", one_further, 4 },
        { "twice", twice, 16 + 32 + 32 + 16 },
        { "two_halves", two_halves, 24 + 24 },
    };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = WIRE_RANKS;
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ WIRE_RANKS }, NULL);
    for (size_t i = 0; i < 2 * (sizeof(cases) / sizeof(cases[0])); i++) {
        const int dim = (int)i % 2;
        const int64_t shape[] = { dim == 0 ? WIRE_ROWS : 8, dim == 1 ? WIRE_ROWS : 8 };
        weft_counters before, after;
        weft_scope_open();
        weft_tensor *a = make_filled(mesh, 2, shape, dim == 0 ? "S0" : "S1");
        weft_get_counters(&before);
        cases[i / 2].call(a, dim);
        weft_get_counters(&after);
        assert_no_error();
        weft_scope_close();
        uint64_t rows = (after.bytes_moved - before.bytes_moved) / (8 * sizeof(float));
        uint64_t expected = (uint64_t)cases[i / 2].rows;
        if (weft_num_processes() > 1 ? rows > expected
                                     : rows != expected) { /* of several, each counts its own */
            fail_msg("%s along dimension %d moved %d rows, expected %d", cases[i / 2].name, dim, (int)rows,
                     cases[i / 2].rows);
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* More slices than are remembered, the first of them again at the end. */
static void test_many_slices(void **state)
{
    (void)state;
    enum { SLICES = 1100, LENGTH = 7 };
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = WIRE_RANKS;
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ WIRE_RANKS }, NULL);
    const weft_placement cut[] = { weft_shard(0) };
    const int64_t shape[] = { SLICES + LENGTH };
    int64_t numbers[SLICES + LENGTH];
    for (int64_t i = 0; i < shape[0]; i++) {
        numbers[i] = i;
    }
    weft_tensor *a = weft_distribute(WEFT_I64, 1, shape, numbers, mesh, cut);
    for (int64_t i = 0; i < SLICES + 3; i++) {
        int64_t values[LENGTH], start = i % SLICES;
        weft_scope_open();
        weft_tensor *slice = weft_slice(a, 0, start, start + LENGTH);
        if (i % 97 == 0 || i >= SLICES) {
            assert_int_equal(weft_to_host(slice, values, sizeof(values)), WEFT_OK);
            for (int64_t k = 0; k < LENGTH; k++) {
                assert_int_equal(values[k], start + k);
            }
        }
        weft_scope_close();
    }
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "permute", case_permute },
    { "transpose", case_transpose },
    { "movedim", case_movedim },
    { "squeeze", case_squeeze },
    { "unsqueeze", case_unsqueeze },
    { "flatten", case_flatten },
    { "unflatten", case_unflatten },
    { "reshape", case_reshape },
    { "expand", case_expand },
    { "sum_to", case_sum_to },
    { "slice", case_slice },
    { "slice_backward", case_slice_backward },
    { "select", case_select },
    { "flip", case_flip },
    { "roll", case_roll },
    { "triangle", case_triangle },
    { "cat", case_cat },
    { "stack", case_stack },
    { "split", case_split },
    { "chunk", case_chunk },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 11, NULL };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_bytes_moved),
        cmocka_unit_test(test_many_slices),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
