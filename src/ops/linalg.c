/* Cholesky factors, triangular systems, and what the files of linear algebra share. */
#include "ops/linalg.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tensor/memory.h"
#include "tensor/ghosts.h"

/* ---- what files share ---------------------------------------------------------------------------------- */

bool weft_check_matrices(const char *function, const char *name, weft_tensor *a, bool square, int64_t most)
{
    if (weft_check_tensor(function, name, a) == NULL) {
        return false;
    }
    const weft_layout *layout = weft_layout_of(a);
    int ndim = layout->ndim;
    if (ndim < 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimension%s, expected at least 2", name, ndim, ndim == 1 ? "" : "s");
        return false;
    }
    int64_t rows = layout->shape[ndim - 2], columns = layout->shape[ndim - 1];
    if (square && rows != columns) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has matrices of %lld rows and %lld columns, expected square ones", name, (long long)rows,
                  (long long)columns);
        return false;
    }
    bool counts = rows <= INT_MAX && columns <= INT_MAX;
    if (!counts || (most > 0 && weft_min_i64(rows, columns) > most)) { /* work arrays are as large as the smaller size squared */
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "%s has matrices of %lld rows and %lld columns, expected at most %lld%s", name,
                  (long long)rows, (long long)columns, counts ? (long long)most : INT_MAX, counts && !square ? " rows or columns" : "");
        return false;
    }
    /* Blocks of one that ranks share (cholesky_blocks.c) become a factor or a solution of its size. Without data nothing is allocated. */
    const weft_layout *both[] = { layout, layout };
    const bool shared = weft_matrix_is_shared(layout) && weft_has_values(weft_tensor_get(a));
    return !shared || weft_check_memory(function, name, 2, both);
}

bool weft_check_system(const char *function, const char *name_a, const weft_tensor *a, const char *name_b, const weft_tensor *b, bool left)
{
    const weft_layout *of_a = weft_layout_of(a), *of_b = weft_layout_of(b);
    int64_t n = of_a->shape[of_a->ndim - 1], own = of_b->shape[of_b->ndim - (left ? 2 : 1)];
    if (own != n) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has matrices of %lld %s, expected %lld, the order of %s", name_b, (long long)own,
                  left ? "rows" : "columns", (long long)n, name_a);
        return false;
    }
    for (int from_end = 3; from_end <= of_a->ndim && from_end <= of_b->ndim; from_end++) {
        int64_t expected = of_a->shape[of_a->ndim - from_end], given = of_b->shape[of_b->ndim - from_end];
        if (expected != given && expected != 1 && given != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "%s has size %lld in dimension %d, expected 1 or %lld, as %s has", name_b,
                      (long long)given, of_b->ndim - from_end, (long long)expected, name_a);
            return false;
        }
    }
    return true;
}

weft_tensor *weft_adjoint(weft_tensor *a)
{
    weft_tensor *conjugate = weft_conjugate(a);
    return conjugate == NULL ? NULL : weft_transpose(conjugate, -2, -1);
}

weft_tensor *weft_adjoint_product(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *conjugate = weft_conjugate(a);
    return conjugate == NULL || b == NULL ? NULL : weft_matmul_ex(conjugate, true, b, false);
}

weft_tensor *weft_product_adjoint(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *conjugate = weft_conjugate(b);
    return conjugate == NULL || a == NULL ? NULL : weft_matmul_ex(a, false, conjugate, true);
}

weft_tensor *weft_as_row(weft_tensor *a)
{
    return a == NULL ? NULL : weft_unsqueeze(a, -2);
}

weft_tensor *weft_as_column(weft_tensor *a)
{
    return a == NULL ? NULL : weft_unsqueeze(a, -1);
}

bool weft_batches_differ(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0], *b = call->inputs[1];
    return a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)(a->ndim - 2) * sizeof(a->shape[0])) != 0;
}

int weft_common_batch(const weft_call *call, int64_t batch[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]), *b = weft_layout_of(call->inputs[1]);
    const int count = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    for (int d = 0; d < count; d++) {
        int of_a = d - (count - a->ndim + 2), of_b = d - (count - b->ndim + 2);
        int64_t size = of_a < 0 ? 1 : a->shape[of_a];
        batch[d] = size == 1 && of_b >= 0 ? b->shape[of_b] : size;
    }
    return count;
}

weft_tensor *weft_with_batch(weft_tensor *a, int count, const int64_t batch[], int item_dims)
{
    const weft_layout *layout = weft_layout_of(a);
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, batch, (size_t)count * sizeof(shape[0]));
    memcpy(shape + count, layout->shape + layout->ndim - item_dims, (size_t)item_dims * sizeof(shape[0]));
    return weft_expand(a, count + item_dims, shape);
}

bool weft_expand_batches(const weft_call *call, weft_tensor *outputs[])
{
    int64_t batch[WEFT_MAX_DIMS];
    const int count = weft_common_batch(call, batch);
    weft_call own = *call;
    bool done = true;
    for (int i = 0; i < call->num_inputs && done; i++) {
        own.inputs[i] = weft_with_batch(call->inputs[i], count, batch, i < 2 ? 2 : 1);
        done = own.inputs[i] != NULL;
    }
    outputs[0] = done ? weft_dispatch(&own) : NULL;
    return outputs[0] != NULL;
}

/* ---- Cholesky ------------------------------------------------------------------------------------------ */

/* Murray, Differentiation of the Cholesky decomposition, 2016: L^-H S L^-1, where S is the Hermitian part of the lower triangle of L^H g,
 * with half its diagonal. */
static bool gradient_of_cholesky(const weft_gradient *of)
{
    bool upper = of->call->attributes.numbers[0] != 0;
    weft_tensor *l = of->outputs[0], *g = weft_gradient_of_output(of, 0);
    const char *function = of->call->function;
    if (upper) {
        l = weft_adjoint(l);
        g = weft_adjoint(g);
    }
    weft_tensor *product = weft_adjoint_product(l, g);
    weft_tensor *twice = product == NULL ? NULL : weft_add(weft_tril(product, 0), weft_tril(product, -1));
    weft_tensor *s = twice == NULL ? NULL : weft_scale(weft_add(twice, weft_adjoint(twice)), 0.25);
    weft_tensor *left = s == NULL ? NULL : weft_solve_triangle(function, l, s, (weft_triangle){ .left = true, .adjoint = true });
    return left != NULL && weft_give_gradient(of, 0, weft_solve_triangle(function, l, left, (weft_triangle){ 0 }));
}

static const weft_operation operation_cholesky = {
    .name = "cholesky",
    .gradient = WEFT_GRADIENT_BY(gradient_of_cholesky, WEFT_READS_OUTPUT(0)),
    .rules = { "A*[m][n]->A[m][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .kernel = WEFT_KERNEL_cholesky,
    .expand = weft_cholesky_by_blocks,
    .leads = true,
    .expands = weft_cholesky_is_shared,
};

weft_tensor *weft_cholesky(weft_tensor *a, bool upper)
{
    static const char function[] = "weft_cholesky";
    return !weft_check_matrices(function, "a", a, true, 0)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = function,
                                             .operation = &operation_cholesky,
                                             .num_inputs = 1,
                                             .inputs = { a },
                                             .attributes = { .num_numbers = 1, .numbers = { upper } } });
}

/* ---- triangular systems -------------------------------------------------------------------------------- */

static weft_triangle triangle_of(const int64_t numbers[])
{
    return (weft_triangle){ .upper = numbers[WEFT_TRIANGULAR_UPPER] != 0,
                            .left = numbers[WEFT_TRIANGULAR_LEFT] != 0,
                            .unit = numbers[WEFT_TRIANGULAR_UNIT] != 0,
                            .adjoint = numbers[WEFT_TRIANGULAR_ADJOINT] != 0,
                            .factor = numbers[WEFT_TRIANGULAR_FACTOR] != 0 };
}

/* The gradient of b solves the adjoint system. */
static bool gradients_of_triangular_solve(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const weft_triangle how = triangle_of(call->attributes.numbers);
    weft_triangle other = how;
    other.adjoint = !how.adjoint;
    weft_tensor *x = of->outputs[0];
    weft_tensor *of_b = weft_solve_triangle(call->function, call->inputs[0], weft_gradient_of_output(of, 0), other);
    bool done = of_b != NULL && (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, of_b));
    if (!done || !weft_gradient_wanted(of, 0)) {
        return done;
    }
    weft_tensor *product = how.left ? (how.adjoint ? weft_product_adjoint(x, of_b) : weft_product_adjoint(of_b, x))
                                    : (how.adjoint ? weft_adjoint_product(of_b, x) : weft_adjoint_product(x, of_b));
    weft_tensor *negative = product == NULL ? NULL : weft_neg(product);
    return negative != NULL &&
           weft_give_gradient(of, 0, how.upper ? weft_triu(negative, how.unit ? 1 : 0) : weft_tril(negative, how.unit ? -1 : 0));
}

static bool triangular_expands(const weft_call_layouts *call)
{
    return weft_batches_differ(call) || weft_triangle_is_shared(call);
}

static bool expand_triangular(const weft_call *call, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    return weft_batches_differ(&layouts) ? weft_expand_batches(call, outputs)
                                         : weft_solve_by_blocks(call, triangle_of(call->attributes.numbers), outputs);
}

/* Whole matrices, and any columns (left) or rows of b. */
static void write_triangular_rule(const weft_call_layouts *call, char *text, size_t size)
{
    bool left = call->attributes->numbers[WEFT_TRIANGULAR_LEFT] != 0;
    snprintf(text, size, weft_batches_differ(call) ? (left ? "...[m][n],...[m]k->...[n]k" : "...[m][n],...k[n]->...k[m]")
                         : left                    ? "A*[m][n],A[m]k*->A[n]k"
                                                   : "A*[m][n],Ak*[n]->Ak[m]");
}

static const weft_operation operation_triangular_solve = {
    .name = "triangular_solve",
    .gradient = { .function = gradients_of_triangular_solve,
                  .reads = { WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0), WEFT_READS_INPUT(0) } },
    .write_rule = write_triangular_rule,
    .rule_like = "A*[m][n],A[m]k*->A[n]k",
    .inputs = { { "a", WEFT_TYPES_LINALG, true }, { "b", WEFT_TYPES_LINALG, true } },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 1, .ops = WEFT_LINEAR_OPS },
    .kernel = WEFT_KERNEL_triangular_solve,
    .expand = expand_triangular,
    .expands = triangular_expands,
};

weft_tensor *weft_solve_triangle(const char *function, weft_tensor *a, weft_tensor *b, weft_triangle how)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_triangular_solve,
                                       .num_inputs = 2,
                                       .inputs = { a, b },
                                       .attributes = { .num_numbers = WEFT_TRIANGULAR_NUMBERS,
                                                       .numbers = { [WEFT_TRIANGULAR_UPPER] = how.upper,
                                                                    [WEFT_TRIANGULAR_LEFT] = how.left,
                                                                    [WEFT_TRIANGULAR_UNIT] = how.unit,
                                                                    [WEFT_TRIANGULAR_ADJOINT] = how.adjoint,
                                                                    [WEFT_TRIANGULAR_FIRST] = how.first,
                                                                    [WEFT_TRIANGULAR_FACTOR] = how.factor } } });
}

weft_tensor *weft_triangular_solve(weft_tensor *a, weft_tensor *b, bool upper, bool left, bool unit)
{
    static const char function[] = "weft_triangular_solve";
    const weft_triangle how = { .upper = upper, .left = left, .unit = unit };
    return !weft_check_matrices(function, "a", a, true, 0) || !weft_check_matrices(function, "b", b, false, 0) ||
                   !weft_check_system(function, "a", a, "b", b, left)
               ? NULL
               : weft_solve_triangle(function, a, b, how);
}

/* numbers[0]: the factor is upper. */
static bool expand_cholesky_solve(const weft_call *call, weft_tensor *outputs[])
{
    bool upper = call->attributes.numbers[0] != 0;
    weft_tensor *factor = call->inputs[1];
    weft_tensor *half = weft_solve_triangle(call->function, factor, call->inputs[0],
                                            (weft_triangle){ .upper = upper, .left = true, .adjoint = upper, .factor = true });
    outputs[0] = half == NULL ? NULL
                              : weft_solve_triangle(call->function, factor, half,
                                                    (weft_triangle){
                                                        .upper = upper, .left = true, .adjoint = !upper, .factor = true });
    return outputs[0] != NULL;
}

static const weft_operation operation_cholesky_solve = {
    .name = "cholesky_solve",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "b", WEFT_TYPES_LINALG, true }, { "factor", WEFT_TYPES_LINALG, true } },
    .expand = expand_cholesky_solve,
};

weft_tensor *weft_cholesky_solve(weft_tensor *b, weft_tensor *factor, bool upper)
{
    static const char function[] = "weft_cholesky_solve";
    return !weft_check_matrices(function, "b", b, false, 0) || !weft_check_matrices(function, "factor", factor, true, 0) ||
                   !weft_check_system(function, "factor", factor, "b", b, true)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = function,
                                             .operation = &operation_cholesky_solve,
                                             .num_inputs = 2,
                                             .inputs = { b, factor },
                                             .attributes = { .num_numbers = 1, .numbers = { upper } } });
}

const weft_operation *const weft_linalg_operations[] = {
    &operation_cholesky,
    &operation_triangular_solve,
    &operation_cholesky_solve,
    NULL,
};
