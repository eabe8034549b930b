/* Gradients that are differentiated again, of operations whose plain gradient has a wrong derivative somewhere. */
#include "ops/ops.h"

/* ---- products ------------------------------------------------------------------------------------------- */

/* By sums and products alone, so that derivatives of any order are right where elements are 0. The gradients in
 * reductions.c and scans.c divide by elements. */

static int64_t size_of(const weft_tensor *a, int dim)
{
    return weft_layout_of(a)->shape[dim];
}

/* Products of the elements before each one. */
static weft_tensor *products_before(weft_tensor *a, int dim)
{
    weft_tensor *first = weft_slice(a, dim, 0, 1, 1), *ones = first == NULL ? NULL : weft_ones_like(first);
    weft_tensor *parts[] = { ones, weft_slice(a, dim, 0, size_of(a, dim) - 1, 1) };
    return ones == NULL || parts[1] == NULL ? NULL : weft_cumprod(weft_cat(2, parts, dim), dim);
}

static weft_tensor *products_of_others(weft_tensor *a, int dim)
{
    if (size_of(a, dim) < 2) {
        return weft_ones_like(a);
    }
    weft_tensor *reversed = weft_flip(a, 1, &dim);
    weft_tensor *behind = reversed == NULL ? NULL : weft_flip(products_before(reversed, dim), 1, &dim);
    return weft_mul(products_before(a, dim), behind);
}

/* One dimension after the other. */
weft_tensor *weft_prod_gradient(weft_tensor *gradient, weft_tensor *a, int num_dims, const int dims[])
{
    for (int i = num_dims - 1; i >= 0 && gradient != NULL && a != NULL; i--) {
        gradient = weft_mul(gradient, products_of_others(a, dims[i]));
        a = i == 0 ? a : weft_prod(a, dims[i], true);
    }
    return a == NULL ? NULL : gradient;
}

/* r(j) = g(j) + a(j + 1) r(j + 1), the sum over i >= j of g(i) times the product of elements j + 1 to i. Each round knows
 * the sums of twice as many terms: sums(j) of i < j + known, factors(j) = a(j + 1) ... a(j + known) where all these are. */
static weft_tensor *sums_of_products_behind(weft_tensor *sums, weft_tensor *a, int dim)
{
    int64_t size = size_of(a, dim);
    weft_tensor *factors = weft_slice(a, dim, 1, size, 1);
    for (int64_t known = 1; known < size && sums != NULL && factors != NULL; known *= 2) {
        int64_t open = size - known;
        weft_tensor *more = weft_mul(factors, weft_slice(sums, dim, known, size, 1));
        weft_tensor *parts[] = { weft_add(weft_slice(sums, dim, 0, open, 1), more), weft_slice(sums, dim, open, size, 1) };
        sums = parts[0] == NULL || parts[1] == NULL ? NULL : weft_cat(2, parts, dim);
        factors = open > known ? weft_mul(weft_slice(factors, dim, 0, open - known, 1), weft_slice(factors, dim, known, open, 1))
                               : factors;
    }
    return factors == NULL ? NULL : sums;
}

weft_tensor *weft_cumprod_gradient(weft_tensor *gradient, weft_tensor *a, int dim)
{
    return size_of(a, dim) < 2 ? gradient
                               : weft_mul(products_before(a, dim), sums_of_products_behind(gradient, a, dim));
}

/* ---- powers --------------------------------------------------------------------------------------------- */

/* g b a^(b - 1). The plain gradient is set to 0 where b is 0, so that it is no function of b there; here that is done
 * only where a has no finite power -1. */
weft_tensor *weft_base_gradient(weft_tensor *gradient, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *usable = weft_logical_and(a, weft_isfinite(a));
    weft_tensor *constant = weft_logical_not(weft_logical_or(b, usable));
    weft_tensor *power = weft_pow(weft_masked_fill(a, constant, 1), weft_add_scalar(b, -1));
    weft_tensor *product = weft_mul(gradient, weft_mul(b, power));
    return product == NULL ? NULL : weft_masked_fill(product, constant, 0);
}
