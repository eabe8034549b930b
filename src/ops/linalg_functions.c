/* Functions of matrices that are put together from decompositions and products. */
#include "ops/linalg.h"

#include <float.h>
#include <math.h>

/* ---- pseudo-inverses ----------------------------------------------------------------------------------- */

/* scalars[0]: singular values of at most this many times the largest count as 0. */
static bool expand_pinv(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0], *u, *vh;
    if (weft_tensor_num_elements(a) == 0) {
        outputs[0] = weft_transpose(a, -2, -1);
        return outputs[0] != NULL;
    }
    weft_tensor *s = weft_svd(a, &u, &vh);
    weft_tensor *largest = s == NULL ? NULL : weft_scale(weft_slice(s, -1, 0, 1, 1), call->scalars[0]);
    weft_tensor *small = largest == NULL ? NULL : weft_le(s, largest);
    weft_tensor *inverses = small == NULL ? NULL : weft_masked_fill(weft_reciprocal(s), small, 0);
    weft_tensor *scaled = inverses == NULL ? NULL : weft_mul(u, weft_as_row(inverses));
    weft_tensor *left = scaled == NULL ? NULL : weft_matmul(scaled, vh);
    outputs[0] = left == NULL ? NULL : weft_adjoint(left);
    return outputs[0] != NULL;
}

/* Golub, Pereyra: The Differentiation of Pseudo-Inverses and Nonlinear Least Squares Problems Whose Variables Separate, 1973. p is the
 * pseudo-inverse, g its gradient: -p^H g p^H + (1 - a p) g^H p p^H + p^H p g^H (1 - p a). */
static bool gradient_of_pinv(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *p = of->outputs[0], *h = weft_adjoint(weft_gradient_of_output(of, 0));
    weft_tensor *ph = weft_adjoint(p), *through = weft_matmul(ph, weft_matmul(weft_gradient_of_output(of, 0), ph));
    weft_tensor *rows = weft_matmul(weft_matmul(h, p), ph), *columns = weft_matmul(ph, weft_matmul(p, h));
    weft_tensor *first = weft_sub(rows, weft_matmul(a, weft_matmul(p, rows)));
    weft_tensor *second = weft_sub(columns, weft_matmul(weft_matmul(columns, p), a));
    weft_tensor *sum = first == NULL || second == NULL ? NULL : weft_add(first, second);
    return sum != NULL && through != NULL && weft_give_gradient(of, 0, weft_sub(sum, through));
}

static const weft_operation operation_pinv = {
    .name = "pinv",
    .gradient = WEFT_GRADIENT_BY(gradient_of_pinv, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .expand = expand_pinv,
};

/* A relative bound for singular values: a negative one stands for PyTorch's. */
static bool take_bound(const char *function, const weft_tensor *a, double *rtol)
{
    const weft_layout *layout = weft_layout_of(a);
    if (isnan(*rtol)) {
        weft_fail(WEFT_ERR_INVALID, function, "rtol is not a number");
        return false;
    }
    if (*rtol < 0) {
        int64_t most = weft_max_i64(layout->shape[layout->ndim - 2], layout->shape[layout->ndim - 1]);
        *rtol = (double)most * (weft_part_type(layout->dtype) == WEFT_F32 ? (double)FLT_EPSILON : DBL_EPSILON);
    }
    return true;
}

static weft_tensor *pseudo_inverse(const char *function, weft_tensor *a, double rtol)
{
    return weft_dispatch(&(weft_call){
        .function = function, .operation = &operation_pinv, .num_inputs = 1, .inputs = { a }, .scalars = { rtol } });
}

weft_tensor *weft_pinv(weft_tensor *a, double rtol)
{
    static const char function[] = "weft_pinv";
    bool valid = weft_check_matrices(function, "a", a, false, WEFT_MOST_WORK) && take_bound(function, a, &rtol);
    return valid ? pseudo_inverse(function, a, rtol) : NULL;
}

/* A = Q R gives x = R^-1 Q^H b; A^H = Q R, of a wide matrix, x = Q R^-H b. b is a matrix. */
static weft_tensor *solve_by_qr(const char *function, weft_tensor *a, weft_tensor *b)
{
    const weft_layout *layout = weft_layout_of(a);
    const bool wide = layout->shape[layout->ndim - 2] < layout->shape[layout->ndim - 1];
    weft_tensor *r, *q = weft_qr(wide ? weft_adjoint(a) : a, &r);
    weft_tensor *side = q == NULL || wide ? b : weft_adjoint_product(q, b);
    const weft_triangle how = { .upper = true, .left = true, .adjoint = wide };
    weft_tensor *x = q == NULL || side == NULL ? NULL : weft_solve_triangle(function, r, side, how);
    return x == NULL || !wide ? x : weft_matmul(q, x);
}

/* scalars[0]: as for pinv; 0: the matrix has full rank. */
static bool expand_lstsq(const weft_call *call, weft_tensor *outputs[])
{
    if (call->scalars[0] == 0) {
        const bool is_vector = weft_layout_of(call->inputs[1])->ndim == 1;
        weft_tensor *b = is_vector ? weft_as_column(call->inputs[1]) : call->inputs[1];
        weft_tensor *x = b == NULL ? NULL : solve_by_qr(call->function, call->inputs[0], b);
        outputs[0] = x != NULL && is_vector ? weft_squeeze(x, -1) : x;
        return outputs[0] != NULL;
    }
    weft_tensor *inverse = pseudo_inverse(call->function, call->inputs[0], call->scalars[0]);
    outputs[0] = inverse == NULL ? NULL : weft_matmul(inverse, call->inputs[1]);
    return outputs[0] != NULL;
}

static const weft_operation operation_lstsq = {
    .name = "lstsq",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_LINALG, true }, { "b", WEFT_TYPES_LINALG, true } },
    .expand = expand_lstsq,
};

weft_tensor *weft_lstsq(weft_tensor *a, weft_tensor *b, double rtol)
{
    static const char function[] = "weft_lstsq";
    if (!weft_check_matrices(function, "a", a, false, rtol == 0 ? 0 : WEFT_MOST_WORK) || weft_check_tensor(function, "b", b) == NULL) {
        return NULL;
    }
    const weft_layout *of_a = weft_layout_of(a), *of_b = weft_layout_of(b);
    if (of_b->ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "b has 0 dimensions, expected at least 1");
        return NULL;
    }
    int64_t rows = of_a->shape[of_a->ndim - 2], own = of_b->shape[of_b->ndim == 1 ? 0 : of_b->ndim - 2];
    if (own != rows) {
        weft_fail(WEFT_ERR_SHAPE, function, "b has %lld rows, expected %lld, those of a", (long long)own, (long long)rows);
        return NULL;
    }
    return !take_bound(function, a, &rtol) ? NULL
                                           : weft_dispatch(&(weft_call){ .function = function,
                                                                         .operation = &operation_lstsq,
                                                                         .num_inputs = 2,
                                                                         .inputs = { a, b },
                                                                         .scalars = { rtol } });
}

/* ---- powers -------------------------------------------------------------------------------------------- */

/* numbers[0]: the exponent. Squares are multiplied where the exponent has a bit. */
static bool expand_matrix_power(const weft_call *call, weft_tensor *outputs[])
{
    int64_t n = call->attributes.numbers[0];
    weft_tensor *square = call->inputs[0], *product = NULL;
    const weft_layout *layout = weft_layout_of(square);
    if (n == 0) {
        weft_tensor *unit = weft_eye(layout->dtype, layout->shape[layout->ndim - 1], layout->shape[layout->ndim - 1],
                                     layout->mesh->handle, NULL);
        outputs[0] = unit == NULL ? NULL : weft_expand_beside(unit, layout);
        return outputs[0] != NULL;
    }
    square = n < 0 ? weft_inverse_for(call->function, square) : square;
    for (uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n; left > 0 && square != NULL; left >>= 1) {
        bool taken = left & 1;
        product = taken && product != NULL ? weft_matmul(product, square) : taken ? square : product;
        square = left > 1 ? weft_matmul(square, square) : square;
    }
    outputs[0] = square == NULL || product == NULL ? NULL
                 : product == call->inputs[0]      ? weft_same(call->function, product)
                                                   : product;
    return outputs[0] != NULL;
}

static const weft_operation operation_matrix_power = {
    .name = "matrix_power",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .expand = expand_matrix_power,
};

weft_tensor *weft_matrix_power(weft_tensor *a, int64_t n)
{
    static const char function[] = "weft_matrix_power";
    return !weft_check_matrices(function, "a", a, true, 0)
               ? NULL
               : weft_dispatch(&(weft_call){ .function = function,
                                             .operation = &operation_matrix_power,
                                             .num_inputs = 1,
                                             .inputs = { a },
                                             .attributes = { .num_numbers = 1, .numbers = { n } } });
}

/* ---- ranks and condition numbers ----------------------------------------------------------------------- */

/* scalars[0]: as for pinv. */
static bool expand_matrix_rank(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *s = weft_svd(call->inputs[0], NULL, NULL);
    const bool some = s != NULL && weft_tensor_size(s, -1) > 0;
    weft_tensor *large = some ? weft_gt(s, weft_scale(weft_slice(s, -1, 0, 1, 1), call->scalars[0])) : s;
    weft_tensor *counted = large == NULL ? NULL : weft_to_type(large, WEFT_I64);
    outputs[0] = counted == NULL ? NULL : weft_sum(counted, -1, false);
    return outputs[0] != NULL;
}

static const weft_operation operation_matrix_rank = {
    .name = "matrix_rank",
    .gradient = WEFT_GRADIENT_ZERO("a count"),
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .expand = expand_matrix_rank,
};

weft_tensor *weft_matrix_rank(weft_tensor *a, double rtol)
{
    static const char function[] = "weft_matrix_rank";
    weft_call call = { .function = function, .operation = &operation_matrix_rank, .num_inputs = 1, .inputs = { a } };
    bool right = weft_check_matrices(function, "a", a, false, WEFT_MOST_WORK) && take_bound(function, a, &rtol);
    call.scalars[0] = rtol;
    return right ? weft_dispatch(&call) : NULL;
}

static bool expand_cond(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *s = weft_svd(call->inputs[0], NULL, NULL);
    weft_tensor *ratio = s == NULL ? NULL : weft_div(weft_select(s, -1, 0), weft_select(s, -1, -1));
    outputs[0] = ratio == NULL ? NULL : weft_masked_fill(ratio, weft_isnan(ratio), INFINITY); /* 0 / 0 of a zero matrix */
    return outputs[0] != NULL;
}

/* Vectors number i of both sides, times numbers [...]. */
static weft_tensor *scaled_pair(weft_tensor *u, weft_tensor *vh, int64_t i, weft_tensor *factors)
{
    weft_tensor *left = weft_slice(u, -1, i, i + 1, 1), *right = weft_slice(vh, -2, i, i + 1, 1);
    weft_tensor *scaled = left == NULL || factors == NULL ? NULL : weft_mul(left, weft_as_column(weft_as_column(factors)));
    return scaled == NULL || right == NULL ? NULL : weft_matmul(scaled, right);
}

/* The gradient of s_1 / s_k: g (u_1 v_1^H - cond u_k v_k^H) / s_k. */
static bool gradient_of_cond(const weft_gradient *of)
{
    weft_tensor *u, *vh, *s = weft_svd(of->call->inputs[0], &u, &vh), *least = s == NULL ? NULL : weft_select(s, -1, -1);
    weft_tensor *factor = least == NULL ? NULL : weft_div(weft_gradient_of_output(of, 0), least);
    weft_tensor *first = factor == NULL ? NULL : scaled_pair(u, vh, 0, factor);
    weft_tensor *last = first == NULL ? NULL : scaled_pair(u, vh, weft_tensor_size(s, -1) - 1, weft_mul(factor, of->outputs[0]));
    return last != NULL && weft_give_gradient(of, 0, weft_sub(first, last));
}

static const weft_operation operation_cond = {
    .name = "cond",
    .gradient = WEFT_GRADIENT_BY(gradient_of_cond, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0)),
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .expand = expand_cond,
};

weft_tensor *weft_cond(weft_tensor *a)
{
    static const char function[] = "weft_cond";
    if (!weft_check_matrices(function, "a", a, false, WEFT_MOST_WORK)) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    if (layout->shape[layout->ndim - 2] == 0 || layout->shape[layout->ndim - 1] == 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has matrices without elements");
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function, .operation = &operation_cond, .num_inputs = 1, .inputs = { a } });
}

/* ---- exponentials -------------------------------------------------------------------------------------- */

/* Al-Mohy, Higham: Computing the Frechet Derivative of the Matrix Exponential, 2009: the upper right block of the exponential of
 * [a^H g; 0 a^H]. */
static bool gradient_of_matrix_exp(const weft_gradient *of)
{
    weft_tensor *a = of->call->inputs[0], *adjoint = weft_adjoint(a), *g = weft_gradient_of_output(of, 0);
    const int64_t n = weft_layout_of(a)->shape[weft_layout_of(a)->ndim - 1];
    weft_tensor *zeros = adjoint == NULL ? NULL : weft_zeros_like(adjoint);
    weft_tensor *above = zeros == NULL ? NULL : weft_cat(2, (weft_tensor *[]){ adjoint, g }, -1);
    weft_tensor *under = above == NULL ? NULL : weft_cat(2, (weft_tensor *[]){ zeros, adjoint }, -1);
    weft_tensor *both = under == NULL ? NULL : weft_matrix_exp(weft_cat(2, (weft_tensor *[]){ above, under }, -2));
    weft_tensor *rows = both == NULL ? NULL : weft_slice(both, -2, 0, n, 1);
    return rows != NULL && weft_give_gradient(of, 0, weft_slice(rows, -1, n, 2 * n, 1));
}

static const weft_operation operation_matrix_exp = {
    .name = "matrix_exp",
    .gradient = WEFT_GRADIENT_BY(gradient_of_matrix_exp, WEFT_READS_INPUT(0)),
    .rules = { "A*[m][n]->A[m][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .kernel = WEFT_KERNEL_matrix_exp,
};

weft_tensor *weft_matrix_exp(weft_tensor *a)
{
    static const char function[] = "weft_matrix_exp";
    return !weft_check_matrices(function, "a", a, true, 0)
               ? NULL
               : weft_dispatch(
                     &(weft_call){ .function = function, .operation = &operation_matrix_exp, .num_inputs = 1, .inputs = { a } });
}

const weft_operation *const weft_linalg_function_operations[] = {
    &operation_pinv,
    &operation_lstsq,
    &operation_matrix_rank,
    &operation_cond,
    &operation_matrix_power,
    &operation_matrix_exp,
    NULL,
};
