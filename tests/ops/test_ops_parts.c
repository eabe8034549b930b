/* Slices, flips, rolls, concatenation and splitting on random shapes, meshes, placements and types against
 * plain loops, with panels of several heights; in one process that hosts all ranks, or in several.
 * WEFT_TEST_CASES gives the number of cases. */
#include "typed_operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"

/* ---- parts --------------------------------------------------------------------------------------------- */

/* Python's range(size)[start:stop:step]. */
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

static int64_t chosen_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
    random_slice(shape[dim], &start, &stop, &step);
    chosen c = choose(dim, shape[dim], start, stop, step);
    shape[dim] = c.count;
    weft_tensor *result = step == 1 ? weft_slice(x.tensor, spelled(dim, ndim), start, stop, 1)
                                    : weft_slice(x.tensor, spelled(dim, ndim), start, stop, step);
    char what[100];
    snprintf(what, sizeof(what), "slice %d:%d:%d along %d", (int)start, (int)stop, (int)step, dim);
    check_moved(result, &x, ndim, shape, chosen_source, &c, what);
    check_unchanged(result, &x);
    release(&x.base);
}

static int64_t unchosen_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
    shape[dim] = size;
    weft_tensor *result = weft_slice_backward(x.tensor, spelled(dim, ndim), size, start, stop, step);
    check_moved(result, &x, ndim, shape, unchosen_source, &c, "slice_backward");
    release(&x.base);
}

static int64_t selected_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
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

static int64_t flipped_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
    check_moved(weft_flip(x.tensor, num_dims, dims), &x, ndim, shape, flipped_source, flips, "flip");
    release(&x.base);
}

typedef struct rolled {
    int dim;
    int64_t shift;
} rolled;

static int64_t rolled_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = weft_roll(x.tensor, r.shift, spelled(r.dim, ndim));
    check_moved(result, &x, ndim, shape, rolled_source, &r, "roll");
    release(&x.base);
}

/* ---- triangles ----------------------------------------------------------------------------------------- */

typedef struct triangle {
    bool lower;
    int64_t diagonal;
} triangle;

static int64_t triangle_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed parts[MAX_PARTS];
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
    typed whole = { .base = parts[n - 1].base, .dtype = type };
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
    typed parts[MAX_PARTS];
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
    typed whole = parts[0];
    whole.base.exact = exact;
    check_any(weft_stack(n, tensors, spelled(dim, ndim + 1)), &whole, ndim + 1, wide, expected, "stack");
    free(expected);
    for (int i = 0; i < n; i++) {
        release(&parts[i].base);
    }
}

static void check_pieces(const typed *x, int n, weft_tensor *const pieces[], const int64_t sizes[], int dim)
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
    typed x = make_any(any_mesh(), ndim, shape);
    weft_tensor *pieces[MAX_PARTS];
    assert_int_equal(weft_split(x.tensor, n, sizes, spelled(dim, ndim), pieces), WEFT_OK);
    check_pieces(&x, n, pieces, sizes, dim);
    release(&x.base);
}

static void case_chunk(void)
{
    int64_t shape[WEFT_MAX_DIMS], sizes[MAX_PARTS] = { 0 };
    int ndim = shape_of_at_least(1, 3, shape), dim = (int)below(ndim), chunks = 1 + (int)below(MAX_PARTS);
    typed x = make_any(any_mesh(), ndim, shape);
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

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "slice", case_slice },   { "slice_backward", case_slice_backward },
    { "select", case_select }, { "flip", case_flip },
    { "roll", case_roll },     { "triangle", case_triangle },
    { "cat", case_cat },       { "stack", case_stack },
    { "split", case_split },   { "chunk", case_chunk },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 11, NULL };

int main(void)
{
    return run_suite(&operations, NULL, 0);
}
