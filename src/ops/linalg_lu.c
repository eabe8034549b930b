/* Linear systems, inverses and determinants, by the factors of lu_factors.c. */
#include "ops/linalg.h"

#include "runtime/runtime.h"

/* ---- systems ------------------------------------------------------------------------------------------- */

/* Outputs: x, and for the gradients the factors and pivots. */
static bool expand_solve(const weft_call *call, weft_tensor *outputs[])
{
    bool done = weft_factor_lu(call->function, call->inputs[0], true, outputs + 1);
    outputs[0] = done ? weft_solve_factored(call->function, outputs + 1, call->inputs[1], false) : NULL;
    return outputs[0] != NULL;
}

/* x y^H, for the gradient of a matrix: if ranks share that, the product is sharded as it is. */
static weft_tensor *product_beside(const char *function, const weft_layout *matrix, weft_tensor *x, weft_tensor *y)
{
    if (matrix->ndim == 2 && weft_matrix_is_shared(matrix)) {
        weft_placement p = matrix->placements[0];
        weft_tensor **side = p.dim == 0 ? &x : &y;
        p.dim = 0;
        const weft_layout *layout = weft_layout_of(*side);
        const weft_layout *to = weft_layout_intern(weft_runtime.layouts, layout->mesh, &p, 2, layout->shape, layout->dtype);
        *side = to == NULL ? NULL : weft_in_layout(function, *side, to);
    }
    return weft_product_adjoint(x, y);
}

/* Gradients that are differentiated are made from the inputs: those of the factors are not known. */
static bool gradients_of_solve(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0);
    weft_tensor *of_b = of->differentiated ? weft_solve(weft_adjoint(call->inputs[0]), g)
                                           : weft_solve_factored(call->function, of->outputs + 1, g, true);
    bool done = of_b != NULL && (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, of_b));
    if (!done || !weft_gradient_wanted(of, 0)) {
        return done;
    }
    weft_tensor *product = product_beside(call->function, weft_layout_of(call->inputs[0]), of_b, of->outputs[0]);
    return product != NULL && weft_give_gradient(of, 0, weft_neg(product));
}

#define SOLVE_READS (WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1) | WEFT_READS_OUTPUT(2))

static const weft_operation operation_solve = {
    .name = "solve",
    .gradient = { .function = gradients_of_solve, .reads = { SOLVE_READS, SOLVE_READS } },
    .inputs = { { "a", WEFT_TYPES_LINALG, true }, { "b", WEFT_TYPES_LINALG, true } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 3,
    .expand = expand_solve,
    .leads = true,
};

/* outputs: x, and without `omits` the factors and pivots, which the gradients of a body's calls need. */
static bool solve(const char *function, weft_tensor *a, weft_tensor *b, bool omits, weft_tensor *outputs[3])
{
    return weft_dispatch_all(&(weft_call){ .function = function,
                                           .operation = &operation_solve,
                                           .num_inputs = 2,
                                           .inputs = { a, b },
                                           .attributes = { .omitted = omits ? 2 : 0 } },
                             outputs);
}

static bool expand_solve_vector(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *column = weft_as_column(call->inputs[1]), *all[3];
    bool done = column != NULL && solve(call->function, call->inputs[0], column, false, all);
    outputs[0] = done ? weft_squeeze(all[0], -1) : NULL;
    return outputs[0] != NULL;
}

static const weft_operation operation_solve_vector = {
    .name = "solve_vector",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_LINALG, true }, { "b", WEFT_TYPES_LINALG, true } },
    .expand = expand_solve_vector,
};

weft_tensor *weft_solve(weft_tensor *a, weft_tensor *b)
{
    static const char function[] = "weft_solve";
    if (!weft_check_matrices(function, "a", a, true, 0) || weft_check_tensor(function, "b", b) == NULL) {
        return NULL;
    }
    const weft_layout *right = weft_layout_of(b), *left = weft_layout_of(a);
    if (right->ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "b has 0 dimensions, expected at least 1");
        return NULL;
    }
    if (right->ndim != 1) {
        bool fits = weft_check_matrices(function, "b", b, false, 0) && weft_check_system(function, "a", a, "b", b, true);
        weft_tensor *outputs[3];
        return fits && solve(function, a, b, true, outputs) ? outputs[0] : NULL;
    }
    if (right->shape[0] != left->shape[left->ndim - 1]) {
        weft_fail(WEFT_ERR_SHAPE, function, "b has %lld elements, expected %lld, the order of a", (long long)right->shape[0],
                  (long long)left->shape[left->ndim - 1]);
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function, .operation = &operation_solve_vector, .num_inputs = 2, .inputs = { a, b } });
}

/* ---- inverses ------------------------------------------------------------------------------------------ */

static bool gradient_of_inverse(const weft_gradient *of)
{
    weft_tensor *inverse = of->outputs[0];
    weft_tensor *right = weft_product_adjoint(weft_gradient_of_output(of, 0), inverse);
    weft_tensor *product = weft_adjoint_product(inverse, right);
    return product != NULL && weft_give_gradient(of, 0, weft_neg(product));
}

/* Of a matrix that ranks share: each rank solves for its own columns. */
static bool expand_inverse(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const weft_placement by_columns = weft_shard(1);
    weft_tensor *unit = weft_eye(layout->dtype, layout->shape[0], layout->shape[0], layout->mesh->handle, &by_columns), *factors[2];
    bool done = unit != NULL && weft_factor_lu(call->function, call->inputs[0], true, factors);
    outputs[0] = done ? weft_solve_factored(call->function, factors, unit, false) : NULL;
    return outputs[0] != NULL;
}

static const weft_operation operation_inverse = {
    .name = "inverse",
    .gradient = WEFT_GRADIENT_BY(gradient_of_inverse, WEFT_READS_OUTPUT(0)),
    .rules = { "A*[m][n]->A[n][m]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .kernel = WEFT_KERNEL_inverse,
    .expand = expand_inverse,
    .expands = weft_lu_is_shared,
};

static weft_tensor *of_square(const char *function, const weft_operation *operation, weft_tensor *a)
{
    return !weft_check_matrices(function, "a", a, true, 0)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = function, .operation = operation, .num_inputs = 1, .inputs = { a } });
}

weft_tensor *weft_inverse_for(const char *function, weft_tensor *a)
{
    return of_square(function, &operation_inverse, a);
}

weft_tensor *weft_inverse(weft_tensor *a)
{
    return weft_inverse_for("weft_inverse", a);
}

/* ---- determinants -------------------------------------------------------------------------------------- */

static const weft_operation operation_cofactors = {
    .name = "cofactors",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a determinant"),
    .rules = { "A*[m][n]->A[m][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .kernel = WEFT_KERNEL_cofactors,
};

/* numbers[0]: the logarithm as well. */
#define DETERMINANT(name_, rule, ...)                                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE("a determinant"),                                                 \
        .rules = { rule },                                                                                   \
        .inputs = { { "diagonal", WEFT_TYPES_LINALG, false }, { "pivots", WEFT_TYPE_BIT(WEFT_I64), false } }, \
        .kernel = WEFT_KERNEL_determinant,                                                                   \
        __VA_ARGS__                                                                                          \
    };

DETERMINANT(lu_det, "A*[n],A[n]->A", .num_outputs = 0)
DETERMINANT(lu_slogdet, "A*[n],A[n]->A,A",
            .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_REAL } }, .num_outputs = 2)

/* If ranks share the matrix, without its rows: each rank sums its own columns of a diagonal matrix. */
static weft_tensor *diagonal_of(weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    if (layout->ndim > 2 || !weft_matrix_is_shared(layout)) {
        return weft_diagonal(a, 0, -2, -1);
    }
    weft_tensor *upper = weft_triu(a, 0), *both = upper == NULL ? NULL : weft_tril(upper, 0);
    return both == NULL ? NULL : weft_sum(both, 0, false);
}

static bool determinant_of(const weft_call *call, const weft_operation *operation, weft_tensor *outputs[])
{
    weft_tensor *factors[2];
    bool logarithm = operation == &operation_lu_slogdet, done = weft_factor_lu(call->function, call->inputs[0], false, factors);
    weft_tensor *diagonal = done ? diagonal_of(factors[0]) : NULL;
    return diagonal != NULL &&
           weft_dispatch_all(&(weft_call){ .function = call->function,
                                           .operation = operation,
                                           .num_inputs = 2,
                                           .inputs = { diagonal, factors[1] },
                                           .attributes = { .num_numbers = 1, .numbers = { logarithm } } },
                             outputs);
}

static bool expand_det(const weft_call *call, weft_tensor *outputs[])
{
    return determinant_of(call, &operation_lu_det, outputs);
}

static bool expand_slogdet(const weft_call *call, weft_tensor *outputs[])
{
    return determinant_of(call, &operation_lu_slogdet, outputs);
}

/* [...] as matrices of one element. */
static weft_tensor *as_matrices(weft_tensor *a)
{
    return weft_as_column(weft_as_column(a));
}

/* The cofactors, also of a singular matrix. Where they are differentiated they are conj(det a) a^-H, as in PyTorch. */
static bool gradient_of_det(const weft_gradient *of)
{
    const char *function = of->call->function;
    weft_tensor *a = of->call->inputs[0], *g = weft_gradient_of_output(of, 0), *cofactors;
    if (of->differentiated) {
        cofactors = weft_adjoint(weft_inverse_for(function, a));
        g = weft_mul(g, weft_conjugate(weft_det(a)));
    } else {
        bool fits = weft_check_matrices(function, "a", a, true, WEFT_MOST_WORK); /* of singular values */
        cofactors = fits ? of_square(function, &operation_cofactors, a) : NULL;
    }
    return cofactors != NULL && g != NULL && weft_give_gradient(of, 0, weft_mul(as_matrices(g), cofactors));
}

/* With d log det a = tr(a^-1 da): a^-H times the gradient of the logarithm, minus i Im(conj(gradient of the sign) sign). */
static bool gradient_of_slogdet(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *of_sign = weft_gradient_of_output(of, 0), *factor_of_inverse = weft_gradient_of_output(of, 1);
    if (!weft_dtype_is_complex(weft_layout_of(a)->dtype)) { /* signs do not change */
        if (factor_of_inverse == NULL) {
            return true;
        }
    } else if (of_sign != NULL) {
        weft_tensor *turned = weft_neg(weft_imag(weft_mul(weft_conj(of_sign), of->outputs[0])));
        factor_of_inverse = weft_complex(factor_of_inverse == NULL ? weft_zeros_like(turned) : factor_of_inverse, turned);
    }
    weft_tensor *inverse = weft_adjoint(weft_inverse_for(of->call->function, a));
    return inverse != NULL && factor_of_inverse != NULL && weft_give_gradient(of, 0, weft_mul(as_matrices(factor_of_inverse), inverse));
}

static const weft_operation operation_det = {
    .name = "det",
    .gradient = WEFT_GRADIENT_BY(gradient_of_det, WEFT_READS_INPUT(0)),
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .expand = expand_det,
};

static const weft_operation operation_slogdet = {
    .name = "slogdet",
    .gradient = WEFT_GRADIENT_BY(gradient_of_slogdet, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_REAL } },
    .num_outputs = 2,
    .expand = expand_slogdet,
};

weft_tensor *weft_det(weft_tensor *a)
{
    return of_square("weft_det", &operation_det, a);
}

weft_tensor *weft_slogdet(weft_tensor *a, weft_tensor **logarithm)
{
    static const char function[] = "weft_slogdet";
    if (logarithm != NULL) {
        *logarithm = NULL;
    }
    return !weft_check_matrices(function, "a", a, true, 0)
               ? NULL
               : weft_dispatch_pair(
                     &(weft_call){ .function = function, .operation = &operation_slogdet, .num_inputs = 1, .inputs = { a } }, logarithm);
}

const weft_operation *const weft_linalg_lu_operations[] = {
    &operation_solve,   &operation_solve_vector, &operation_inverse, &operation_cofactors,
    &operation_lu_det,    &operation_lu_slogdet, &operation_det,     &operation_slogdet,      NULL,
};
