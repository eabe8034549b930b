/* Linear algebra on matrices that are hard to compute with, on one matrix that ranks share, and on what has no result. */
#include "matrices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- hard matrices ------------------------------------------------------------------------------------- */

enum { HARD = 12 };

static const char *any_placements(void)
{
    static const char *const placements[] = { "S0", "S1", "S0*5", "R" };
    return placements[below(4)];
}

/* `values` receives its values, rounded to its type. */
static weft_tensor *tensor_of(hard_kind kind, weft_dtype type, weft_mesh *mesh, batch *values)
{
    weft_tensor *a = hard_matrix(kind, type, HARD, HARD, mesh, any_placements());
    *values = read_back(a, type, 2, hard_names[kind]);
    return a;
}

static void check_qr(weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    weft_tensor *r, *first = weft_qr(a, &r);
    batch q = read_back(first, type, 2, what), of_r = read_back(r, type, 2, what);
    assert_orthonormal(&q, type, what);
    assert_close(values, product_of(&q, &of_r), HARD, values, NULL, type, what);
    free(q.values), free(of_r.values);
}

static void check_svd(weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    weft_tensor *left, *right, *first = weft_svd(a, &left, &right);
    batch s = read_back(first, real_type(type), 1, what), u = read_back(left, type, 2, what);
    batch vh = read_back(right, type, 2, what), scaled = scaled_columns(&u, &s), v = adjoint_of(&vh);
    assert_orthonormal(&u, type, what);
    assert_orthonormal(&v, type, what);
    assert_close(values, product_of(&scaled, &vh), HARD, values, NULL, type, what);
    free(s.values), free(u.values), free(vh.values), free(scaled.values), free(v.values);
}

static void check_eigh(weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    weft_tensor *vectors, *first = weft_eigh(a, false, &vectors);
    batch w = read_back(first, real_type(type), 1, what), z = read_back(vectors, type, 2, what), turned = scaled_columns(&z, &w);
    assert_orthonormal(&z, type, what);
    assert_close(&turned, product_of(values, &z), HARD, values, NULL, type, what);
    free(w.values), free(z.values), free(turned.values);
}

static void check_lu(weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    weft_tensor *l, *u, *p = weft_lu(a, &l, &u);
    batch product = read_back(weft_matmul(p, weft_matmul(l, u)), type, 2, what);
    assert_close(values, product, HARD, values, NULL, type, what);
}

static void check_cholesky(weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    batch l = read_back(weft_cholesky(a, false), type, 2, what), other = adjoint_of(&l);
    assert_close(values, product_of(&l, &other), HARD, values, NULL, type, what);
    free(l.values), free(other.values);
}

static void check_solver(weft_mesh *mesh, weft_tensor *a, weft_dtype type, const batch *values, const char *what)
{
    batch of_b;
    weft_tensor *b = tensor_of(WILKINSON, type, mesh, &of_b);
    batch x = read_back(weft_solve(a, b), type, 2, what);
    check_system(true, values, &of_b, &x, type, what);
    free(of_b.values), free(x.values);
}

/* Each kind in each type. */
static void test_hard_matrices(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    for (int i = 0; i < 4 * HARD_KINDS; i++) {
        const hard_kind kind = i / 4;
        const weft_dtype type = types[i % 4];
        const char *what = hard_names[kind];
        batch values;
        weft_scope_begin();
        weft_tensor *a = tensor_of(kind, type, mesh, &values);
        check_qr(a, type, &values, what);
        check_svd(a, type, &values, what);
        check_lu(a, type, &values, what);
        if (is_hermitian(kind)) {
            check_eigh(a, type, &values, what);
        }
        if (kind == GRADED_POSITIVE) {
            check_cholesky(a, type, &values, what);
        }
        if (kind == GRADED || kind == WILKINSON || (kind == HILBERT && real_type(type) == WEFT_F64)) {
            check_solver(mesh, a, type, &values, what);
        }
        free(values.values);
        weft_scope_end();
    }
}

/* ---- one matrix that ranks share ----------------------------------------------------------------------- */

static double norm_of_all(weft_tensor *a)
{
    double norm = -1;
    assert_int_equal(weft_tensor_item(weft_to_type(weft_norm(a, 2, WEFT_ALL_DIMS, false), WEFT_F64), &norm), WEFT_OK);
    return norm;
}

static weft_tensor *adjoint_tensor(weft_tensor *a)
{
    return weft_transpose(is_complex(weft_tensor_dtype(a)) ? weft_conj(a) : a, 0, 1);
}

/* A random one, in these placements, and its factor by blocks of rows. */
static void check_shared(weft_mesh *mesh, weft_dtype type, int64_t n, const char *placements, bool upper)
{
    weft_placement p;
    char what[200];
    snprintf(what, sizeof(what), "cholesky of one %s matrix, n %d, %s, %s", weft_dtype_name(type), (int)n, placements,
             upper ? "upper" : "lower");
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    weft_tensor *random = weft_randn(type, 2, (const int64_t[]){ n, n }, mesh, &p);
    weft_tensor *unit = weft_scale(weft_to_type(weft_eye(WEFT_F64, n, n, mesh, &p), type), (double)n);
    weft_tensor *a = weft_redistribute(weft_add(weft_matmul(random, adjoint_tensor(random)), unit), mesh, &p);
    weft_tensor *garbage = upper ? weft_add(a, weft_tril(random, -1)) : weft_add(a, weft_triu(random, 1));
    weft_tensor *given = weft_redistribute(garbage, mesh, &p), *factor = weft_cholesky(given, upper), *other = adjoint_tensor(factor);
    weft_tensor *product = upper ? weft_matmul(other, factor) : weft_matmul(factor, other);
    double residual = norm_of_all(weft_sub(a, product)) / ((double)n * norm_of_all(a) * epsilon_of(type) / 2);
    if (!(residual <= ALLOWED) || norm_of_all(upper ? weft_tril(factor, -1) : weft_triu(factor, 1)) != 0) {
        fail_msg("%s: the residual is %.3g, or it is no triangle", what, residual);
    }
    if (norm_of_all(weft_sub(given, garbage)) != 0) {
        fail_msg("%s changes the matrix", what);
    }
    weft_tensor *b = weft_randn(type, 2, (const int64_t[]){ n, 3 }, mesh, NULL), *x = weft_cholesky_solve(b, factor, upper);
    residual = norm_of_all(weft_sub(weft_matmul(a, x), b)) / ((double)n * norm_of_all(a) * norm_of_all(x) * epsilon_of(type) / 2);
    if (!(residual <= ALLOWED)) {
        fail_msg("%s: the residual of a solution is %.3g", what, residual);
    }
    assert_no_error();
}

/* Systems with a matrix in these placements. */
static void check_shared_triangle(weft_mesh *mesh, weft_dtype type, int64_t n, const char *placements, bool upper, bool unit)
{
    weft_placement p, of_b;
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    random_placements(&source, mesh, 2, true, &of_b);
    weft_tensor *random = weft_randn(type, 2, (const int64_t[]){ n, n }, mesh, &p);
    weft_tensor *unit_matrix = weft_to_type(weft_eye(WEFT_F64, n, n, mesh, &p), type);
    weft_tensor *a = weft_redistribute(weft_add_scaled(weft_scale(random, 0.01), unit_matrix, 2), mesh, &p);
    weft_tensor *triangle = unit ? (upper ? weft_triu(a, 1) : weft_tril(a, -1)) : upper ? weft_triu(a, 0) : weft_tril(a, 0);
    triangle = unit ? weft_add(triangle, unit_matrix) : triangle;
    weft_tensor *b = weft_randn(type, 2, (const int64_t[]){ n, 5 }, mesh, NULL);
    b = weft_redistribute(b, mesh, of_b.kind == WEFT_PARTIAL ? NULL : &of_b);
    weft_tensor *x = weft_triangular_solve(a, b, upper, true, unit);
    double residual = norm_of_all(weft_sub(weft_matmul(triangle, x), b)) /
                      ((double)n * norm_of_all(triangle) * norm_of_all(x) * epsilon_of(type) / 2);
    if (!(residual <= ALLOWED)) {
        fail_msg("a triangle of %s, n %d, %s, %d, %d: the residual is %.3g", weft_dtype_name(type), (int)n, placements, upper, unit,
                 residual);
    }
    assert_no_error();
}

static void check_shared_graded(weft_mesh *mesh, weft_dtype type, const char *placements)
{
    enum { SIZE = 515 };
    weft_scope_begin();
    weft_tensor *a = hard_matrix(GRADED_POSITIVE, type, SIZE, SIZE, mesh, placements), *l = weft_cholesky(a, false);
    double residual = norm_of_all(weft_sub(weft_matmul(l, adjoint_tensor(l)), a)) / (SIZE * norm_of_all(a) * epsilon_of(type) / 2);
    if (!(residual <= ALLOWED)) {
        fail_msg("cholesky of a graded %s matrix, %s: the residual is %.3g", weft_dtype_name(type), placements, residual);
    }
    weft_scope_end();
}

/* QR and singular values of a tall one, and the first system that has no solution. */
static void check_tall(weft_mesh *mesh, weft_dtype type, int64_t m, int64_t n, const char *placements)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    weft_tensor *a = weft_redistribute(weft_randn(type, 2, (const int64_t[]){ m, n }, mesh, NULL), mesh, &p);
    weft_tensor *r, *q = weft_qr(a, &r), *u, *vh, *s = weft_svd(a, &u, &vh);
    weft_tensor *unit = weft_to_type(weft_eye(WEFT_F64, n, n, mesh, NULL), type), *b = weft_slice(a, 1, 0, 2, 1);
    weft_tensor *again = weft_matmul(weft_mul(u, weft_unsqueeze(s, 0)), vh);
    weft_tensor *ones = weft_ones(type, 2, (const int64_t[]){ m, 2 }, mesh, NULL);
    weft_tensor *x = weft_lstsq(a, weft_add(b, ones), -1), *left = weft_sub(weft_matmul(a, x), weft_add(b, ones));
    const double eps = epsilon_of(type) / 2, size = norm_of_all(a), most = ALLOWED * (double)m * eps;
    assert_true(norm_of_all(weft_sub(weft_matmul(q, r), a)) <= most * size);
    assert_true(norm_of_all(weft_sub(again, a)) <= most * size);
    assert_true(norm_of_all(weft_sub(weft_matmul(adjoint_tensor(q), q), unit)) <= most);
    assert_true(norm_of_all(weft_sub(weft_matmul(adjoint_tensor(u), u), unit)) <= most);
    assert_true(norm_of_all(weft_tril(r, -1)) == 0);
    assert_true(norm_of_all(weft_matmul(adjoint_tensor(a), left)) <= most * size * size);
    assert_no_error();
}

static void test_shared(void)
{
    static const char *const placements[] = { "S0", "S1", "S0*64", "S0*100", "S1*32" };
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
        weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
        weft_scope_begin();
        check_tall(mesh, any_type(), 1000 + below(50), 1 + below(30), "S0");
        check_tall(mesh, any_type(), 1000 + below(50), 1 + below(30), "S0*16");
        check_tall(mesh, any_type(), 1000 + below(50), 1 + below(30), "S1");
        check_tall(mesh, any_type(), 20000, 3, "S0"); /* more rows than a square matrix may have */
        check_tall(mesh, any_type(), 20000, 3, "R");
        weft_scope_end();
        check_shared_graded(mesh, any_type(), placements[below(5)]);
        for (size_t i = (size_t)below(test_share()); i < sizeof(placements) / sizeof(placements[0]); i += (size_t)test_share()) {
            weft_scope_begin();
            check_shared(mesh, any_type(), below(2) ? 512 : 512 + below(60), placements[i], below(2));
            check_shared_triangle(mesh, any_type(), 512 + below(60), placements[i], false, below(3) == 0);
            check_shared_triangle(mesh, any_type(), 512 + below(60), placements[i], true, below(3) == 0);
            weft_scope_end();
        }
    }
}

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Matrices [5, 3, 3], one of which has this element in another's place. */
static weft_tensor *matrices_with(weft_mesh *mesh, int64_t matrix, int64_t row, int64_t column, double value)
{
    double dense[5 * 9] = { 0 };
    for (int64_t i = 0; i < 5; i++) {
        for (int64_t d = 0; d < 3; d++) {
            dense[i * 9 + d * 4] = 2;
        }
    }
    dense[matrix * 9 + row * 3 + column] = value;
    return weft_distribute(WEFT_F64, 3, (const int64_t[]){ 5, 3, 3 }, dense, mesh, (const weft_placement[]){ weft_shard(0) });
}

/* On the processes that have the matrix. */
static void assert_late(weft_tensor *result, const char *text)
{
    assert_non_null(result);
    weft_status status = weft_wait();
    assert_true(status == WEFT_ERR_INVALID || (status == WEFT_OK && weft_num_processes() > 1));
    if (status != WEFT_OK && strstr(weft_last_error(), text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, weft_last_error());
    }
    weft_clear_error();
}

/* The gradient of the determinant of a singular matrix. */
static void test_cofactors(void)
{
    static const double values[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, expected[] = { -3, 6, -3, 6, -12, 6, -3, 6, -3 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (const int64_t[]){ 3, 3 }, values, mesh, NULL), *gradient;
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    weft_tensor *det = weft_det(a);
    assert_int_equal(weft_gradients(1, &det, NULL, 1, &a, false, &gradient), WEFT_OK);
    double found[9];
    assert_int_equal(weft_to_host(gradient, found, sizeof(found)), WEFT_OK);
    for (int i = 0; i < 9; i++) {
        assert_true(fabs(found[i] - expected[i]) < 1e-12);
    }
}

static void test_late(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *singular = matrices_with(mesh, 4, 1, 1, 0), *b = weft_ones(WEFT_F64, 2, (const int64_t[]){ 3, 1 }, mesh, NULL);
    weft_tensor *one = weft_select(singular, 0, 4), *infinite = matrices_with(mesh, 3, 1, 0, INFINITY);
    assert_late(weft_solve(singular, b), "weft_solve: matrix [4] of a is singular: pivot 1 is 0");
    assert_late(weft_solve(one, b), "weft_solve: a is singular: pivot 1 is 0");
    assert_late(weft_inverse(singular), "weft_inverse: matrix [4] of a is singular: pivot 1 is 0");
    assert_late(weft_triangular_solve(singular, b, false, true, false), "weft_triangular_solve: matrix [4] of a is singular");
    assert_late(weft_cholesky_solve(b, singular, false), "weft_cholesky_solve: matrix [4] of factor is singular");
    assert_late(weft_cholesky_solve(b, one, false), "weft_cholesky_solve: factor is singular");
    assert_late(weft_matrix_power(one, -2), "weft_matrix_power: a is singular: pivot 1 is 0");
    assert_late(weft_cholesky(matrices_with(mesh, 1, 1, 1, NAN), false),
                "weft_cholesky: matrix [1] of a is not positive-definite: its leading minor of order 2 is not positive");
    assert_late(weft_cholesky(matrices_with(mesh, 2, 2, 2, -1), false),
                "weft_cholesky: matrix [2] of a is not positive-definite: its leading minor of order 3 is not positive");
    assert_late(weft_eigh(infinite, false, NULL), "weft_eigh: matrix [3] of a has elements that are not finite");
    assert_late(weft_svd(infinite, NULL, NULL), "weft_svd: matrix [3] of a has elements that are not finite");
    weft_tensor *large = weft_eye(WEFT_F64, 600, 600, mesh, (const weft_placement[]){ weft_shard(0) });
    weft_tensor *indefinite = weft_mul(large, weft_add_scalar(weft_neg(weft_arange(WEFT_F64, 0, 600, 1, mesh, NULL)), 299.5));
    assert_late(weft_cholesky(indefinite, true),
                "weft_cholesky: a is not positive-definite: its leading minor of order 301 is not positive");
    weft_tensor *column = weft_ones(WEFT_F64, 2, (const int64_t[]){ 600, 1 }, mesh, NULL);
    weft_tensor *hole = weft_mul(large, weft_ne_scalar(weft_arange(WEFT_F64, 0, 600, 1, mesh, NULL), 411));
    assert_late(weft_triangular_solve(hole, column, true, true, false), "weft_triangular_solve: a is singular: pivot 411 is 0");
    double determinants[5];
    assert_int_equal(weft_to_host(weft_det(singular), determinants, sizeof(determinants)), WEFT_OK);
    assert_true(determinants[4] == 0 && determinants[0] == 8);
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void test_refusals(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *a = weft_ones(WEFT_F64, 2, (const int64_t[]){ 3, 3 }, mesh, NULL), *wide = weft_slice(a, 0, 0, 2, 1);
    weft_tensor *line = weft_ones(WEFT_F64, 1, (const int64_t[]){ 3 }, mesh, NULL), *u;
    weft_tensor *many = weft_ones(WEFT_F64, 3, (const int64_t[]){ 4, 3, 3 }, mesh, NULL);
    weft_tensor *few = weft_slice(many, 0, 0, 3, 1);
    assert_null(weft_cholesky(wide, false));
    assert_error(WEFT_ERR_SHAPE, "weft_cholesky: a has matrices of 2 rows and 3 columns, expected square ones");
    assert_null(weft_det(line));
    assert_error(WEFT_ERR_SHAPE, "weft_det: a has 1 dimension, expected at least 2");
    assert_null(weft_inverse(NULL));
    assert_error(WEFT_ERR_INVALID, "weft_inverse: a");
    assert_null(weft_solve(a, wide));
    assert_error(WEFT_ERR_SHAPE, "weft_solve: b");
    assert_null(weft_solve(a, weft_sum(line, WEFT_ALL_DIMS, false)));
    assert_error(WEFT_ERR_SHAPE, "weft_solve: b has 0 dimensions, expected at least 1");
    assert_null(weft_lstsq(a, weft_sum(line, WEFT_ALL_DIMS, false), -1));
    assert_error(WEFT_ERR_SHAPE, "weft_lstsq: b has 0 dimensions, expected at least 1");
    assert_null(weft_solve(many, few));
    assert_error(WEFT_ERR_SHAPE, "weft_solve: b");
    assert_null(weft_solve(a, weft_to_type(a, WEFT_F32)));
    assert_error(WEFT_ERR_DTYPE, "weft_solve: b is f32, expected f64");
    assert_null(weft_triangular_solve(a, line, false, true, false));
    assert_error(WEFT_ERR_SHAPE, "weft_triangular_solve: b has 1 dimension");
    assert_null(weft_triangular_solve(a, wide, false, true, false));
    assert_error(WEFT_ERR_SHAPE, "weft_triangular_solve: b");
    assert_null(weft_qr(weft_to_type(a, WEFT_BF16), &u));
    assert_error(WEFT_ERR_DTYPE, "weft_qr: a is bf16, expected c128, c64, f32 or f64");
    assert_null(u);
    assert_null(weft_svd(weft_to_type(a, WEFT_I64), &u, NULL));
    assert_error(WEFT_ERR_DTYPE, "weft_svd: a is i64");
    assert_null(weft_eigh(wide, true, &u));
    assert_error(WEFT_ERR_SHAPE, "weft_eigh: a has matrices");
    weft_tensor *large = weft_fake(WEFT_F32, 2, (const int64_t[]){ 20000, 20000 }, mesh, NULL);
    assert_null(weft_svd(large, NULL, NULL));
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_svd: a has matrices of 20000 rows and 20000 columns, expected at most 16384 rows or columns");
    assert_int_equal(weft_set_requires_grad(large, true), WEFT_OK);
    weft_tensor *det = weft_det(large);
    assert_int_equal(weft_gradients(1, &det, NULL, 1, &large, false, &u), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_det: a has matrices of 20000 rows");
    assert_null(weft_cholesky_solve(wide, a, false));
    assert_error(WEFT_ERR_SHAPE, "weft_cholesky_solve: b");
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_hard_matrices, test_cofactors, test_shared, test_late, test_refusals };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
