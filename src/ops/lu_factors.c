/* LU with partial pivoting, and systems by its factors. Intermediate tensors that could not be made are NULL, and so is what is made of
 * them. */
#include "ops/linalg.h"

#include <stdio.h>

#include "runtime/runtime.h"

static const weft_triangle LOWER = { .left = true, .unit = true }, UPPER = { .upper = true, .left = true };
static const weft_triangle LOWER_ADJOINT = { .left = true, .unit = true, .adjoint = true };
static const weft_triangle UPPER_ADJOINT = { .upper = true, .left = true, .adjoint = true };

/* ---- helpers ------------------------------------------------------------------------------------------- */

static int64_t size_of(const weft_tensor *a, int from_end)
{
    const weft_layout *layout = weft_layout_of(a);
    return layout->shape[layout->ndim - from_end];
}

static int64_t smaller_size(const weft_tensor *a)
{
    return weft_min_i64(size_of(a, 2), size_of(a, 1));
}

static weft_tensor *solved(const char *function, weft_tensor *a, weft_tensor *b, weft_triangle how)
{
    return a == NULL || b == NULL ? NULL : weft_solve_triangle(function, a, b, how);
}

static weft_tensor *difference(weft_tensor *a, weft_tensor *b)
{
    return a == NULL || b == NULL ? NULL : weft_sub(a, b);
}

/* numbers[0]: the order of the rows of P A, not of P^T A. */
static const weft_operation operation_row_order = {
    .name = "row_order",
    .gradient = WEFT_GRADIENT_ZERO("pivots"),
    .rules = { "A*[k]->A[m]" },
    .inputs = { { "pivots", WEFT_TYPE_BIT(WEFT_I64), false } },
    .kernel = WEFT_KERNEL_row_order,
};

static weft_tensor *row_order(const char *function, weft_tensor *pivots, int64_t rows, bool of_product)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_row_order,
                                       .num_inputs = 1,
                                       .inputs = { pivots },
                                       .attributes = { .num_sizes = 1, .sizes = { rows }, .num_numbers = 1, .numbers = { of_product } } });
}

/* The rows of matrices in an order; both have the same batch. */
static weft_tensor *in_order(weft_tensor *a, weft_tensor *order)
{
    if (a == NULL || order == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    return weft_layout_of(order)->ndim == 1 ? weft_index_select(a, -2, order)
                                            : weft_gather(a, -2, weft_expand(weft_as_column(order), layout->ndim, layout->shape));
}

/* ---- factors ------------------------------------------------------------------------------------------- */

/* The gradient of P^T A for that of L and U: L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H, if the matrix is square. A wide one has
 * U2 = L^-1 (P^T A)2, a tall one L2 = (P^T A)2 U^-1 besides. */
static weft_tensor *gradient_in_order(const char *function, weft_tensor *lu, weft_tensor *g)
{
    const int64_t m = size_of(lu, 2), n = size_of(lu, 1), k = weft_min_i64(m, n);
    const bool wide = n > k, tall = m > k;
    weft_tensor *own = wide ? weft_slice(lu, -1, 0, k, 1) : tall ? weft_slice(lu, -2, 0, k, 1) : lu;
    weft_tensor *of_own = wide ? weft_slice(g, -1, 0, k, 1) : tall ? weft_slice(g, -2, 0, k, 1) : g, *more = NULL;
    weft_tensor *of_l = weft_tril(of_own, -1), *lower = weft_adjoint_product(weft_tril(own, -1), of_l);
    weft_tensor *upper = weft_product_adjoint(weft_triu(of_own, 0), weft_triu(own, 0));
    lower = lower == NULL || of_l == NULL ? NULL : weft_add(lower, of_l);
    if (wide) {
        weft_tensor *of_u2 = weft_slice(g, -1, k, n, 1);
        lower = difference(lower, weft_product_adjoint(of_u2, weft_slice(lu, -1, k, n, 1)));
        more = solved(function, own, of_u2, LOWER_ADJOINT);
    } else if (tall) {
        weft_tensor *of_l2 = weft_slice(g, -2, k, m, 1);
        upper = difference(upper, weft_adjoint_product(weft_slice(lu, -2, k, m, 1), of_l2));
        more = weft_adjoint(solved(function, own, weft_adjoint(of_l2), UPPER));
    }
    weft_tensor *sum = lower == NULL || upper == NULL ? NULL : weft_add(weft_tril(lower, -1), weft_triu(upper, 0));
    weft_tensor *left = solved(function, own, sum, LOWER_ADJOINT);
    weft_tensor *result = weft_adjoint(solved(function, own, weft_adjoint(left), UPPER));
    return !wide && !tall ? result : result == NULL || more == NULL ? NULL : weft_cat(2, (weft_tensor *[]){ result, more }, wide ? -1 : -2);
}

static bool gradient_of_lu_factor(const weft_gradient *of)
{
    const char *function = of->call->function;
    weft_tensor *lu = of->outputs[0], *g = weft_gradient_of_output(of, 0);
    if (g == NULL) {
        return true;
    }
    weft_tensor *ordered = gradient_in_order(function, lu, g);
    weft_tensor *own = in_order(ordered, row_order(function, of->outputs[1], size_of(lu, 2), true));
    return own != NULL && weft_give_gradient(of, 0, own);
}

/* numbers[0]: a pivot of 0 is an error. */
static const weft_operation operation_lu_factor = {
    .name = "lu_factor",
    .gradient = WEFT_GRADIENT_BY(gradient_of_lu_factor, WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1)),
    .rules = { "A*[m][n]->A[m][n],A[k]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_lu_factor,
    .expand = weft_lu_by_blocks,
    .leads = true,
    .expands = weft_lu_is_shared,
};

static weft_call factor_call(const char *function, weft_tensor *a, bool reports)
{
    return (weft_call){ .function = function,
                        .operation = &operation_lu_factor,
                        .num_inputs = 1,
                        .inputs = { a },
                        .attributes = { .num_sizes = 1, .sizes = { smaller_size(a) }, .num_numbers = 1, .numbers = { reports } } };
}

bool weft_factor_lu(const char *function, weft_tensor *a, bool reports, weft_tensor *factors[2])
{
    const weft_call call = factor_call(function, a, reports);
    return weft_dispatch_all(&call, factors);
}

weft_tensor *weft_lu_factor(weft_tensor *a, weft_tensor **pivots)
{
    static const char function[] = "weft_lu_factor";
    if (pivots != NULL) {
        *pivots = NULL;
    }
    if (!weft_check_matrices(function, "a", a, false, 0)) {
        return NULL;
    }
    const weft_call call = factor_call(function, a, true);
    return weft_dispatch_pair(&call, pivots);
}

/* The unit matrix beside a matrix, or beside those of a batch. */
static weft_tensor *unit_beside(weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    return weft_eye(layout->dtype, size_of(a, 2), size_of(a, 1), layout->mesh->handle, layout->ndim == 2 ? layout->placements : NULL);
}

/* Of a matrix that ranks share, rows of P are shared too. */
static weft_tensor *permutation(const char *function, weft_tensor *a, weft_tensor *pivots)
{
    const weft_layout *layout = weft_layout_of(a);
    weft_tensor *order = row_order(function, pivots, size_of(a, 2), true);
    if (order != NULL && layout->ndim == 2 && weft_matrix_is_shared(layout)) {
        const weft_placement shared = weft_shard(0);
        const weft_layout *to = weft_layout_intern(weft_runtime.layouts, layout->mesh, &shared, 1, layout->shape, WEFT_I64);
        order = to == NULL ? NULL : weft_in_layout(function, order, to);
    }
    weft_tensor *hot = order == NULL ? NULL : weft_one_hot(order, size_of(a, 2));
    return hot == NULL ? NULL : weft_to_type(hot, layout->dtype);
}

static bool expand_lu(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0], *factors[2];
    const int64_t k = smaller_size(a);
    bool done = weft_factor_lu(call->function, a, false, factors);
    outputs[0] = done ? permutation(call->function, a, factors[1]) : NULL;
    weft_tensor *columns = !done ? NULL : size_of(a, 1) > k ? weft_slice(factors[0], -1, 0, k, 1) : factors[0];
    weft_tensor *rows = !done ? NULL : size_of(a, 2) > k ? weft_slice(factors[0], -2, 0, k, 1) : factors[0];
    weft_tensor *lower = columns == NULL ? NULL : weft_tril(columns, -1);
    outputs[1] = lower == NULL ? NULL : weft_add(lower, unit_beside(lower));
    outputs[2] = rows == NULL ? NULL : weft_triu(rows, 0);
    return outputs[0] != NULL && outputs[1] != NULL && outputs[2] != NULL;
}

static const weft_operation operation_lu = {
    .name = "lu",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 3,
    .expand = expand_lu,
};

weft_tensor *weft_lu(weft_tensor *a, weft_tensor **lower, weft_tensor **upper)
{
    static const char function[] = "weft_lu";
    weft_tensor **const others[] = { lower, upper };
    weft_tensor *outputs[3] = { NULL };
    bool done = weft_check_matrices(function, "a", a, false, 0) &&
                weft_dispatch_all(
                    &(weft_call){ .function = function, .operation = &operation_lu, .num_inputs = 1, .inputs = { a } }, outputs);
    for (int i = 0; i < 2; i++) {
        if (others[i] != NULL) {
            *others[i] = done ? outputs[1 + i] : NULL;
        }
    }
    return done ? outputs[0] : NULL;
}

/* ---- systems ------------------------------------------------------------------------------------------- */

/* Inputs: the factors, b, the pivots: batches of the first two may differ. numbers[0]: the adjoint system. */
static void write_lu_solve_rule(const weft_call_layouts *call, char *text, size_t size)
{
    snprintf(text, size, weft_batches_differ(call) ? "...[m][n],...[m]k,...[n]->...[n]k" : "A*[m][n],A[m]k*,A[n]->A[n]k");
}

static bool solves_shared(const weft_call_layouts *call)
{
    return call->inputs[1]->ndim == 2 && weft_lu_is_shared(call);
}

static bool lu_solve_expands(const weft_call_layouts *call)
{
    return weft_batches_differ(call) || solves_shared(call);
}

/* A = P L U. */
static weft_tensor *solve_shared(const weft_call *call)
{
    const char *function = call->function;
    const bool adjoint = call->attributes.numbers[0] != 0;
    weft_tensor *lu = call->inputs[0], *b = weft_right_sides(function, call->inputs[1]);
    weft_tensor *order = row_order(function, call->inputs[2], size_of(lu, 1), adjoint);
    b = adjoint ? b : in_order(b, order);
    weft_tensor *half = solved(function, lu, b, adjoint ? UPPER_ADJOINT : LOWER);
    weft_tensor *x = solved(function, lu, half, adjoint ? LOWER_ADJOINT : UPPER);
    return adjoint ? in_order(x, order) : x;
}

static bool expand_lu_solve(const weft_call *call, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    if (weft_batches_differ(&layouts)) {
        return weft_expand_batches(call, outputs);
    }
    outputs[0] = solve_shared(call);
    return outputs[0] != NULL;
}

/* With y = U x of A x = b: gU = -U^-H g x^H, and gL = -L^-H U^-H g y^H. With y = U^-H b and z = L^-H y of A^H x = b: gU = -y of_b^H, and
 * gL = -z (U of_b)^H. */
static bool gradients_of_lu_solve(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const char *function = call->function;
    const bool adjoint = call->attributes.numbers[0] != 0;
    weft_tensor *lu = call->inputs[0], *x = of->outputs[0], *g = weft_gradient_of_output(of, 0);
    weft_tensor *factors[2] = { lu, call->inputs[2] }, *of_b = NULL, *left, *right, *below;
    if (adjoint || weft_gradient_wanted(of, 1)) {
        of_b = weft_solve_factored(function, factors, g, !adjoint);
        if (of_b == NULL || (weft_gradient_wanted(of, 1) && !weft_give_gradient(of, 1, of_b))) {
            return false;
        }
    }
    if (!weft_gradient_wanted(of, 0)) {
        return true;
    }
    left = solved(function, lu, adjoint ? call->inputs[1] : g, UPPER_ADJOINT);
    below = solved(function, lu, left, LOWER_ADJOINT);
    right = adjoint ? of_b : x;
    weft_tensor *upper = weft_product_adjoint(left, right), *product = weft_matmul(weft_triu(lu, 0), right);
    weft_tensor *lower = product == NULL ? NULL : weft_product_adjoint(below, product);
    weft_tensor *sum = lower == NULL || upper == NULL ? NULL : weft_add(weft_tril(lower, -1), weft_triu(upper, 0));
    return sum != NULL && weft_give_gradient(of, 0, weft_neg(sum));
}

#define LU_SOLVE_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(2))

static const weft_operation operation_lu_solve = {
    .name = "lu_solve",
    .gradient = { .function = gradients_of_lu_solve,
                  .reads = { LU_SOLVE_READS | WEFT_READS_INPUT(1) | WEFT_READS_OUTPUT(0), LU_SOLVE_READS } },
    .write_rule = write_lu_solve_rule,
    .rule_like = "A*[m][n],A[m]k*,A[n]->A[n]k",
    .inputs = { { "lu", WEFT_TYPES_LINALG, true }, { "b", WEFT_TYPES_LINALG, true }, { "pivots", WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 1, .ops = WEFT_LINEAR_OPS },
    .kernel = WEFT_KERNEL_lu_solve,
    .expand = expand_lu_solve,
    .expands = lu_solve_expands,
};

weft_tensor *weft_solve_factored(const char *function, weft_tensor *const factors[2], weft_tensor *b, bool adjoint)
{
    return b == NULL ? NULL
                     : weft_dispatch(&(weft_call){ .function = function,
                                                   .operation = &operation_lu_solve,
                                                   .num_inputs = 3,
                                                   .inputs = { factors[0], b, factors[1] },
                                                   .attributes = { .num_numbers = 1, .numbers = { adjoint } } });
}

weft_tensor *weft_lu_solve(weft_tensor *lu, weft_tensor *pivots, weft_tensor *b, bool adjoint)
{
    static const char function[] = "weft_lu_solve";
    if (!weft_check_matrices(function, "lu", lu, true, 0) || weft_check_tensor(function, "pivots", pivots) == NULL ||
        !weft_check_matrices(function, "b", b, false, 0) || !weft_check_system(function, "lu", lu, "b", b, true)) {
        return NULL;
    }
    const weft_layout *of_lu = weft_layout_of(lu), *of_pivots = weft_layout_of(pivots);
    bool fits = of_pivots->ndim == of_lu->ndim - 1;
    for (int d = 0; d < of_pivots->ndim && fits; d++) {
        fits = of_pivots->shape[d] == of_lu->shape[d];
    }
    if (!fits) {
        weft_fail(WEFT_ERR_SHAPE, function, "pivots are not those of lu: its shape is not that of lu without the last dimension");
        return NULL;
    }
    return weft_solve_factored(function, (weft_tensor *[]){ lu, pivots }, b, adjoint);
}

const weft_operation *const weft_lu_factor_operations[] = {
    &operation_lu_factor, &operation_row_order, &operation_lu, &operation_lu_solve, NULL,
};
