/* QR, eigenvalues and singular values, with PyTorch's gradients: Walter, Lehmann: Algorithmic Differentiation of Linear Algebra Functions
 * with Application in Optimum Experimental Design, 2010; Giles: Collected Matrix Derivative Results for Forward and Reverse Mode
 * Algorithmic Differentiation, 2008. Intermediate tensors that could not be made are NULL, and so is what is made of them. */
#include "ops/linalg.h"

#include <string.h>

#include "tensor/ghosts.h"
#include "tensor/memory.h"

static int64_t size_of(const weft_tensor *a, int from_end)
{
    const weft_layout *layout = weft_layout_of(a);
    return layout->shape[layout->ndim - from_end];
}

static int64_t smaller_size(const weft_tensor *a)
{
    return weft_min_i64(size_of(a, 2), size_of(a, 1));
}

/* NULL for a missing addend: the other one. */
static weft_tensor *sum_of(weft_tensor *a, weft_tensor *b)
{
    return a == NULL ? b : b == NULL ? a : weft_add(a, b);
}

/* The unit matrix, in the type of a's parts. */
static weft_tensor *unit_matrix(weft_tensor *a, int64_t n)
{
    const weft_layout *layout = weft_layout_of(a);
    return weft_eye(weft_part_type(layout->dtype), n, n, layout->mesh->handle, NULL);
}

/* [..., n] as diagonals of matrices. */
static weft_tensor *on_diagonal(weft_tensor *a)
{
    return weft_mul(weft_as_row(a), unit_matrix(a, size_of(a, 1)));
}

/* a - a^H */
static weft_tensor *skew(weft_tensor *a)
{
    return a == NULL ? NULL : weft_sub(a, weft_adjoint(a));
}

/* ---- QR ------------------------------------------------------------------------------------------------ */

/* a R^-H, for a triangle that ranks share by blocks of its rows. */
static weft_tensor *divided_by_adjoint(const char *function, weft_tensor *a, weft_tensor *r)
{
    if (!weft_matrix_is_shared(weft_layout_of(r))) {
        return weft_solve_triangle(function, r, a, (weft_triangle){ .upper = true, .adjoint = true });
    }
    weft_tensor *adjoint = weft_adjoint(a);
    return adjoint == NULL ? NULL : weft_adjoint(weft_solve_triangle(function, r, adjoint, (weft_triangle){ .upper = true, .left = true }));
}

/* Of a matrix with at least as many rows as columns: (gQ + Q S) R^-H, S = T + T^H for the upper triangle T of gR R^H - Q^H gQ, with half
 * the real part of its diagonal. One of the gradients may be NULL. */
static weft_tensor *gradient_of_tall(const char *function, weft_tensor *q, weft_tensor *r, weft_tensor *of_q, weft_tensor *of_r)
{
    weft_tensor *from_r = of_r == NULL ? NULL : weft_product_adjoint(of_r, r);
    weft_tensor *from_q = of_q == NULL ? NULL : weft_neg(weft_adjoint_product(q, of_q));
    weft_tensor *m = sum_of(from_r, from_q);
    weft_tensor *t = m == NULL ? NULL : weft_scale(weft_add(weft_triu(m, 0), weft_triu(m, 1)), 0.5);
    weft_tensor *s = t == NULL ? NULL : weft_add(t, weft_adjoint(t));
    weft_tensor *sum = s == NULL ? NULL : sum_of(weft_matmul(q, s), of_q);
    return sum == NULL ? NULL : divided_by_adjoint(function, sum, r);
}

/* A wide matrix [A1 A2] has Q R1 = A1 and R2 = Q^H A2. */
static weft_tensor *gradient_of_wide(const char *function, weft_tensor *q, weft_tensor *r, weft_tensor *of_q, weft_tensor *of_r)
{
    const int64_t m = size_of(r, 2), n = size_of(r, 1);
    weft_tensor *r1 = weft_slice(r, -1, 0, m, 1), *r2 = weft_slice(r, -1, m, n, 1), *of_r1 = NULL, *of_a2;
    if (of_r == NULL) {
        of_a2 = weft_zeros_like(r2);
    } else {
        weft_tensor *of_r2 = weft_slice(of_r, -1, m, n, 1);
        of_r1 = weft_slice(of_r, -1, 0, m, 1);
        of_a2 = weft_matmul(q, of_r2);
        of_q = sum_of(of_q, weft_matmul(q, weft_product_adjoint(r2, of_r2)));
    }
    weft_tensor *of_a1 = gradient_of_tall(function, q, r1, of_q, of_r1);
    return of_a1 == NULL || of_a2 == NULL ? NULL : weft_cat(2, (weft_tensor *[]){ of_a1, of_a2 }, -1);
}

static bool gradient_of_qr(const weft_gradient *of)
{
    weft_tensor *q = of->outputs[0], *r = of->outputs[1], *of_q = weft_gradient_of_output(of, 0), *of_r = weft_gradient_of_output(of, 1);
    bool wide = size_of(r, 1) > size_of(r, 2);
    if (size_of(q, 1) > size_of(r, 1)) { /* its further columns are any that complete the others */
        weft_fail(WEFT_ERR_UNSUPPORTED, of->call->function, "no gradient of the complete decomposition of %lld rows and %lld columns: "
                  "weft_qr() has one", (long long)size_of(q, 2), (long long)size_of(r, 1));
        return false;
    }
    return weft_give_gradient(of, 0, (wide ? gradient_of_wide : gradient_of_tall)(of->call->function, q, r, of_q, of_r));
}

/* TSQR has no complete Q. */
static bool is_reduced_tall(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    return weft_matrix_is_tall(call) && call->attributes->sizes[0] == a->shape[1];
}

static bool qr_expands(const weft_call_layouts *call)
{
    return is_reduced_tall(call) || weft_qr_is_shared(call->inputs[0]);
}

static bool expand_qr(const weft_call *call, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    return (is_reduced_tall(&layouts) ? weft_qr_of_tall : weft_qr_by_blocks)(call, outputs);
}

static const weft_operation operation_qr = {
    .name = "qr",
    .gradient = WEFT_GRADIENT_BY(gradient_of_qr, WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1)),
    .rules = { "A*[m][n]->A[m][k],A[k][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_qr,
    .expand = expand_qr,
    .expands = qr_expands,
    .leads = true,
};

/* Whether the complete Q, [..., m, m], fits: nothing else bounds m. Dimensions that only matrices have are on each rank, unless ranks
 * share one matrix. */
static bool complete_fits(const char *function, weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    const bool shared = weft_qr_is_shared(layout);
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, layout->shape, (size_t)layout->ndim * sizeof(*shape));
    shape[layout->ndim - 1] = shape[layout->ndim - 2];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        const weft_placement p = layout->placements[m];
        placements[m] = p.kind == WEFT_SHARD && (shared || p.dim < layout->ndim - 2) ? weft_shard(p.dim) : weft_replicate();
    }
    const weft_layout *q = weft_check_layout(function, layout->mesh, placements, layout->ndim, shape, layout->dtype);
    return q != NULL && (!weft_has_values(weft_tensor_get(a)) || weft_check_memory(function, "a", 1, &q));
}

static weft_tensor *decompose(const char *function, bool complete, weft_tensor *a, weft_tensor **triangle)
{
    if (triangle != NULL) {
        *triangle = NULL;
    }
    return !weft_check_matrices(function, "a", a, false, 0) || (complete && !complete_fits(function, a))
               ? NULL
               : weft_dispatch_pair(&(weft_call){ .function = function,
                                                  .operation = &operation_qr,
                                                  .num_inputs = 1,
                                                  .inputs = { a },
                                                  .attributes = { .num_sizes = 1, .sizes = { complete ? size_of(a, 2) : smaller_size(a) } } },
                                    triangle);
}

weft_tensor *weft_qr(weft_tensor *a, weft_tensor **triangle)
{
    return decompose("weft_qr", false, a, triangle);
}

weft_tensor *weft_qr_complete(weft_tensor *a, weft_tensor **triangle)
{
    return decompose("weft_qr_complete", true, a, triangle);
}

/* ---- eigenvalues --------------------------------------------------------------------------------------- */

/* V (diag(g of the values) + (V^H gV) / E) V^H, E_ij = w_j - w_i off the diagonal. */
static bool gradient_of_eigh(const weft_gradient *of)
{
    weft_tensor *w = of->outputs[0], *v = of->outputs[1], *of_w = weft_gradient_of_output(of, 0), *of_v = weft_gradient_of_output(of, 1);
    weft_tensor *scaled;
    if (of_v == NULL) {
        scaled = weft_mul(v, weft_as_row(of_w));
    } else {
        weft_tensor *unit = unit_matrix(w, size_of(w, 1)), *others = weft_add_scalar(weft_neg(unit), 1);
        weft_tensor *gaps = weft_add(weft_sub(weft_as_row(w), weft_as_column(w)), unit);
        weft_tensor *turned = weft_mul(weft_div(weft_adjoint_product(v, of_v), gaps), others);
        scaled = weft_matmul(v, of_w == NULL ? turned : weft_add(turned, on_diagonal(of_w)));
    }
    return scaled != NULL && weft_give_gradient(of, 0, weft_product_adjoint(scaled, v));
}

static const weft_operation operation_eigh = {
    .name = "eigh",
    .gradient = WEFT_GRADIENT_BY(gradient_of_eigh, WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1)),
    .rules = { "A*[m][n]->A[n],A[m][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_REAL }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_eigh,
};

weft_tensor *weft_eigh(weft_tensor *a, bool upper, weft_tensor **vectors)
{
    static const char function[] = "weft_eigh";
    if (vectors != NULL) {
        *vectors = NULL;
    }
    return !weft_check_matrices(function, "a", a, true, WEFT_MOST_WORK)
               ? NULL
               : weft_dispatch_pair(&(weft_call){ .function = function,
                                                  .operation = &operation_eigh,
                                                  .num_inputs = 1,
                                                  .inputs = { a },
                                                  .attributes = { .num_numbers = 1, .numbers = { upper } } },
                                    vectors);
}

/* V^-H (diag(g of the values) + (V^H gV - V^H V diag(Re of the diagonal of V^H gV)) / conj(E)) V^H, E_ij = w_j - w_i off the diagonal:
 * columns of V keep length 1. */
static bool gradient_of_eig(const weft_gradient *of)
{
    weft_tensor *w = of->outputs[0], *v = of->outputs[1], *of_w = weft_gradient_of_output(of, 0), *of_v = weft_gradient_of_output(of, 1);
    weft_tensor *middle = of_w == NULL ? NULL : on_diagonal(of_w), *vh = weft_adjoint(v);
    if (of_v != NULL) {
        weft_tensor *unit = unit_matrix(w, size_of(w, 1)), *others = weft_add_scalar(weft_neg(unit), 1), *u = weft_conjugate(w);
        weft_tensor *turns = weft_adjoint_product(v, of_v), *lengths = turns == NULL ? NULL : weft_sum(weft_mul(weft_real(turns), unit), -2, true);
        weft_tensor *along = lengths == NULL ? NULL : weft_mul(weft_adjoint_product(v, v), lengths);
        weft_tensor *gaps = weft_add(weft_sub(weft_as_row(u), weft_as_column(u)), unit);
        middle = along == NULL ? NULL : sum_of(middle, weft_mul(weft_div(weft_sub(turns, along), gaps), others));
    }
    weft_tensor *scaled = middle == NULL || vh == NULL ? NULL : weft_matmul(middle, vh);
    weft_tensor *gradient = scaled == NULL ? NULL : weft_solve(vh, scaled);
    const bool real = !weft_dtype_is_complex(weft_layout_of(of->call->inputs[0])->dtype);
    return gradient != NULL && weft_give_gradient(of, 0, real ? weft_real(gradient) : gradient);
}

/* Eigenvalues of a real matrix are those of the complex one. */
static bool is_real(const weft_call_layouts *call)
{
    return !weft_dtype_is_complex(call->inputs[0]->dtype);
}

static bool expand_eig(const weft_call *call, weft_tensor *outputs[])
{
    const weft_dtype type = weft_layout_of(call->inputs[0])->dtype == WEFT_F32 ? WEFT_C64 : WEFT_C128;
    weft_call complex = *call;
    complex.inputs[0] = weft_to_type(call->inputs[0], type);
    return complex.inputs[0] != NULL && weft_dispatch_all(&complex, outputs);
}

static const weft_operation operation_eig = {
    .name = "eig",
    .gradient = WEFT_GRADIENT_BY(gradient_of_eig, WEFT_READS_INPUT(0) | WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1)),
    .rules = { "A*[m][n]->A[n],A[m][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_COMPLEX }, { .type = WEFT_TYPE_COMPLEX } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_eig,
    .expand = expand_eig,
    .expands = is_real,
};

weft_tensor *weft_eig(weft_tensor *a, weft_tensor **vectors)
{
    static const char function[] = "weft_eig";
    if (vectors != NULL) {
        *vectors = NULL;
    }
    return !weft_check_matrices(function, "a", a, true, WEFT_MOST_WORK)
               ? NULL
               : weft_dispatch_pair(
                     &(weft_call){ .function = function, .operation = &operation_eig, .num_inputs = 1, .inputs = { a } }, vectors);
}

/* ---- singular values ----------------------------------------------------------------------------------- */

/* What gU, or gV, adds to the middle: skew(U^H gU) / E, E_ij = s_j^2 - s_i^2 off the diagonal. */
static weft_tensor *turn_of(weft_tensor *s, weft_tensor *skewed)
{
    weft_tensor *squares = weft_square(s);
    weft_tensor *gaps = weft_add(weft_sub(weft_as_row(squares), weft_as_column(squares)), unit_matrix(s, size_of(s, 1)));
    return skewed == NULL ? NULL : weft_div(skewed, gaps);
}

/* The part of gU / S that U does not span. */
static weft_tensor *outside_of(weft_tensor *u, weft_tensor *scaled)
{
    return scaled == NULL ? NULL : weft_sub(scaled, weft_matmul(u, weft_adjoint_product(u, scaled)));
}

/* u, s, vh: A = U S V^H; g..: their gradients, NULL for 0; u_turns, v_turns: skew(U^H gU), skew(V^H gV). */
typedef struct svd_gradient {
    weft_tensor *u, *s, *vh, *of_u, *of_s, *of_vh, *u_turns, *v_turns;
} svd_gradient;

/* U^H gA V, up to parts outside. */
static weft_tensor *middle_of(const svd_gradient *g)
{
    weft_tensor *middle = g->of_s == NULL ? NULL : on_diagonal(g->of_s);
    if (g->u_turns != NULL) {
        middle = sum_of(middle, weft_mul(turn_of(g->s, g->u_turns), weft_as_row(g->s)));
        if (weft_dtype_is_complex(weft_layout_of(g->u)->dtype)) { /* the phases of U: half of the skew matrix's diagonal */
            weft_tensor *phases = weft_div(weft_scale(g->u_turns, 0.5), weft_as_row(g->s));
            middle = sum_of(middle, weft_mul(phases, unit_matrix(g->s, size_of(g->s, 1))));
        }
    }
    return g->v_turns == NULL ? middle : sum_of(middle, weft_mul(weft_as_column(g->s), turn_of(g->s, g->v_turns)));
}

static bool gradient_of_svd(const weft_gradient *of)
{
    svd_gradient g = { .s = of->outputs[0], .u = of->outputs[1], .vh = of->outputs[2], .of_s = weft_gradient_of_output(of, 0),
                       .of_u = weft_gradient_of_output(of, 1), .of_vh = weft_gradient_of_output(of, 2) };
    const int64_t k = size_of(g.s, 1);
    if (g.of_u == NULL && g.of_vh == NULL) {
        return weft_give_gradient(of, 0, weft_matmul(weft_mul(g.u, weft_as_row(g.of_s)), g.vh));
    }
    g.u_turns = g.of_u == NULL ? NULL : skew(weft_adjoint_product(g.u, g.of_u));
    g.v_turns = g.of_vh == NULL ? NULL : skew(weft_product_adjoint(g.vh, g.of_vh));
    weft_tensor *left = weft_matmul(g.u, middle_of(&g));
    if (g.of_u != NULL && size_of(g.u, 2) > k) {
        left = sum_of(left, outside_of(g.u, weft_div(g.of_u, weft_as_row(g.s))));
    }
    weft_tensor *gradient = weft_matmul(left, g.vh);
    if (g.of_vh != NULL && size_of(g.vh, 1) > k) {
        weft_tensor *v = weft_adjoint(g.vh);
        weft_tensor *outside = outside_of(v, weft_div(weft_adjoint(g.of_vh), weft_as_row(g.s)));
        gradient = sum_of(gradient, weft_product_adjoint(g.u, outside));
    }
    return weft_give_gradient(of, 0, gradient);
}

#define SVD_READS (WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1) | WEFT_READS_OUTPUT(2))

static const weft_operation operation_svd = {
    .name = "svd",
    .gradient = WEFT_GRADIENT_BY(gradient_of_svd, SVD_READS),
    .rules = { "A*[m][n]->A[k],A[m][k],A[k][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_REAL }, { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 3,
    .kernel = WEFT_KERNEL_svd,
    .expand = weft_svd_of_tall,
    .expands = weft_matrix_is_tall,
};

weft_tensor *weft_svd(weft_tensor *a, weft_tensor **u, weft_tensor **vh)
{
    static const char function[] = "weft_svd";
    weft_tensor **const vectors[] = { u, vh };
    weft_tensor *outputs[3] = { NULL };
    bool done = weft_check_matrices(function, "a", a, false, WEFT_MOST_WORK) &&
                weft_dispatch_all(&(weft_call){ .function = function,
                                                .operation = &operation_svd,
                                                .num_inputs = 1,
                                                .inputs = { a },
                                                .attributes = { .omitted = u == NULL && vh == NULL ? 2 : 0,
                                                                .num_sizes = 1,
                                                                .sizes = { smaller_size(a) } } },
                                  outputs);
    for (int i = 0; i < 2; i++) {
        if (vectors[i] != NULL) {
            *vectors[i] = done ? outputs[1 + i] : NULL;
        }
    }
    return done ? outputs[0] : NULL;
}

const weft_operation *const weft_linalg_spectral_operations[] = {
    &operation_qr,
    &operation_eigh,
    &operation_eig,
    &operation_svd,
    NULL,
};
