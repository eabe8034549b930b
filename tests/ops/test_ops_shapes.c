/* Operations that change the shape or the order of dimensions, on random shapes, meshes, placements and
 * types against plain loops, with panels of several heights; in one process that hosts all ranks, or in
 * several. WEFT_TEST_CASES says how many cases of each. */
#include "typed_operand.h"

#include <stdlib.h>
#include <string.h>

/* ---- the order of dimensions --------------------------------------------------------------------------- */

static int64_t permuted_source(const typed *x, const int64_t index[], const void *how)
{
    const int *dims = how;
    int64_t own[WEFT_MAX_DIMS];
    for (int d = 0; d < x->base.ndim; d++) {
        own[dims[d]] = index[d];
    }
    return flat(x->base.ndim, x->base.shape, own);
}

static void check_permuted(weft_tensor *result, const typed *x, const int dims[], const char *what)
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
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed x = make_any(any_mesh(), ndim, shape);
    for (int d = 0; d < ndim; d++) { /* step by step, as one would with cards */
        dims[d] = d;
    }
    for (int d = from; d != to; d += to > from ? 1 : -1) {
        int next = d + (to > from ? 1 : -1), card = dims[d];
        dims[d] = dims[next];
        dims[next] = card;
    }
    check_permuted(weft_movedim(x.tensor, 1, (const int[]){ spelled(from, ndim) }, (const int[]){ spelled(to, ndim) }), &x, dims, "movedim");
    release(&x.base);
}

/* ---- dimensions of size 1 ------------------------------------------------------------------------------ */

static void case_squeeze(void)
{
    int64_t shape[WEFT_MAX_DIMS], squeezed[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(1, 4, shape), count = 0;
    for (int d = 0; d < ndim; d++) {
        shape[d] = below(2) ? 1 : shape[d];
    }
    typed x = make_any(any_mesh(), ndim, shape);
    bool all = below(2);
    int dim = (int)below(ndim);
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != 1 || (!all && d != dim)) {
            squeezed[count++] = shape[d];
        }
    }
    weft_tensor *result = all ? weft_squeeze(x.tensor, WEFT_ALL_DIMS) : weft_squeeze(x.tensor, spelled(dim, ndim));
    check_same(result, &x, count, squeezed, all ? "squeeze_all" : "squeeze");
    check_unchanged(result, &x);
    release(&x.base);
}

static void case_unsqueeze(void)
{
    int64_t shape[WEFT_MAX_DIMS], wide[WEFT_MAX_DIMS];
    int ndim = shape_of_at_least(0, 4, shape), dim = (int)below(ndim + 1);
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed x = make_any(any_mesh(), ndim, shape);
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
    typed x = make_any(any_mesh(), ndim, shape);
    weft_tensor *result = weft_reshape(x.tensor, new_ndim, new_shape);
    check_same(result, &x, new_ndim, new_shape, "reshape");
    check_unchanged(result, &x);
    release(&x.base);
}

/* ---- repetition ---------------------------------------------------------------------------------------- */

static int64_t expanded_source(const typed *x, const int64_t index[], const void *how)
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
    typed x = make_any(any_mesh(), ndim, shape);
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

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "permute", case_permute },     { "transpose", case_transpose }, { "movedim", case_movedim },
    { "squeeze", case_squeeze },     { "unsqueeze", case_unsqueeze }, { "flatten", case_flatten },
    { "unflatten", case_unflatten }, { "reshape", case_reshape },     { "expand", case_expand },
    { "sum_to", case_sum_to },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 11, NULL };

int main(void)
{
    return run_suite(&operations, NULL, 0);
}
