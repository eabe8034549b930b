/* LU of matrices that ranks share, and what is made of it: beside LAPACK's factors of the same matrix on one rank, and by LAPACK's
 * residuals. */
#include "matrices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double norm_of_all(weft_tensor *a)
{
    double norm = -1;
    if (weft_tensor_item(weft_to_type(weft_norm(a, 2, WEFT_ALL_DIMS, false), WEFT_F64), &norm) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    return norm;
}

static weft_tensor *adjoint_tensor(weft_tensor *a)
{
    return weft_transpose(is_complex(weft_tensor_dtype(a)) ? weft_conj(a) : a, -2, -1);
}

static weft_tensor *on_each_rank(weft_tensor *a)
{
    return weft_redistribute(a, weft_tensor_mesh(a), NULL);
}

static weft_placement placement_of(const char *text)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(text, 1, &p), WEFT_OK);
    return p;
}

/* |a - b| / (n |c| eps) is at most LAPACK's bound. */
static void assert_residual(weft_tensor *a, weft_tensor *b, double n, double size, const char *what, const char *of)
{
    assert_no_error();
    double residual = norm_of_all(weft_sub(a, b)) / (n * size * epsilon_of(weft_tensor_dtype(a)) / 2);
    if (!(residual <= ALLOWED)) {
        fail_msg("%s: the residual of %s is %.3g", what, of, residual);
    }
}

/* ---- one matrix that ranks share ----------------------------------------------------------------------- */

static void check_factors(weft_tensor *a, const char *what)
{
    const int64_t n = weft_tensor_size(a, 0);
    const weft_dtype type = weft_tensor_dtype(a);
    const double size = norm_of_all(a);
    weft_tensor *pivots, *lu = weft_lu_factor(a, &pivots), *l, *u, *p = weft_lu(a, &l, &u);
    assert_residual(weft_matmul(p, weft_matmul(l, u)), a, (double)n, size, what, "P L U");
    weft_tensor *unit = weft_to_type(weft_eye(WEFT_F64, n, n, weft_tensor_mesh(a), NULL), type);
    assert_true(norm_of_all(weft_sub(weft_add(weft_tril(lu, -1), unit), l)) == 0 && norm_of_all(weft_sub(weft_triu(lu, 0), u)) == 0);
    assert_true(norm_of_all(weft_sub(weft_matmul(p, weft_transpose(p, 0, 1)), unit)) == 0);
    if (type == WEFT_F64 || type == WEFT_C128) { /* in single precision two candidates are sometimes as good */
        weft_tensor *theirs;
        weft_lu_factor(on_each_rank(a), &theirs);
        int64_t *own = malloc((size_t)n * sizeof(*own)), *other = malloc((size_t)n * sizeof(*other));
        assert_int_equal(weft_to_host(pivots, own, (size_t)n * sizeof(*own)), WEFT_OK);
        assert_int_equal(weft_to_host(theirs, other, (size_t)n * sizeof(*other)), WEFT_OK);
        for (int64_t i = 0; i < n; i++) {
            if (own[i] != other[i]) {
                fail_msg("%s: pivot %d is %d, LAPACK's is %d", what, (int)i, (int)own[i], (int)other[i]);
            }
        }
        free(own);
        free(other);
    }
}

static void check_systems(weft_tensor *a, const char *what)
{
    const int64_t n = weft_tensor_size(a, 0), k = 1 + below(9);
    weft_mesh *mesh = weft_tensor_mesh(a);
    weft_placement of_b;
    random_placements(&source, mesh, 2, true, &of_b);
    weft_tensor *random = weft_randn(weft_tensor_dtype(a), 2, (const int64_t[]){ n, k }, mesh, NULL);
    weft_tensor *b = weft_redistribute(random, mesh, of_b.kind == WEFT_PARTIAL ? NULL : &of_b), *pivots;
    weft_tensor *lu = weft_lu_factor(a, &pivots), *x = weft_solve(a, b), *y = weft_lu_solve(lu, pivots, b, true);
    assert_residual(weft_matmul(a, x), b, (double)n, norm_of_all(a) * norm_of_all(x), what, "a solution");
    assert_residual(weft_matmul(adjoint_tensor(a), y), b, (double)n, norm_of_all(a) * norm_of_all(y), what, "an adjoint solution");
    x = weft_solve(a, weft_select(random, 1, 0));
    assert_residual(weft_matmul(a, weft_unsqueeze(x, 1)), weft_slice(random, 1, 0, 1, 1), (double)n, norm_of_all(a) * norm_of_all(x),
                    what, "a vector");
}

static void check_inverse(weft_tensor *a, const char *what)
{
    const int64_t n = weft_tensor_size(a, 0);
    weft_tensor *inverse = weft_inverse(a), *unit = weft_eye(weft_tensor_dtype(a), n, n, weft_tensor_mesh(a), NULL);
    assert_residual(weft_matmul(a, inverse), unit, (double)n, norm_of_all(a) * norm_of_all(inverse), what, "the inverse");
    weft_tensor *logarithm, *sign = weft_slogdet(a, &logarithm), *other, *other_sign = weft_slogdet(on_each_rank(a), &other);
    const double eps = epsilon_of(weft_tensor_dtype(a)) * norm_of_all(a) * norm_of_all(inverse);
    assert_true(norm_of_all(weft_sub(logarithm, other)) <= ALLOWED * (double)n * eps);
    assert_true(norm_of_all(weft_sub(sign, other_sign)) <= ALLOWED * (double)n * eps);
    if (epsilon_of(weft_tensor_dtype(a)) > 1e-10) { /* the determinant is too large or too small */
        return;
    }
    weft_tensor *small = weft_scale(a, sqrt(2.7 / (double)n));
    weft_slogdet(small, &logarithm);
    assert_true(norm_of_all(weft_sub(weft_log(weft_abs(weft_det(small))), logarithm)) <= ALLOWED * (double)n * eps);
}

static void check_shared(weft_mesh *mesh, weft_dtype type, int64_t n, const char *placements)
{
    const weft_placement p = placement_of(placements);
    char what[200];
    snprintf(what, sizeof(what), "LU of one %s matrix, n %d, %s", weft_dtype_name(type), (int)n, placements);
    weft_tensor *a = weft_randn(type, 2, (const int64_t[]){ n, n }, mesh, &p), *before = weft_scale(a, 1);
    check_factors(a, what);
    check_systems(a, what);
    check_inverse(a, what);
    assert_true(norm_of_all(weft_sub(a, before)) == 0);
    assert_no_error();
}

static void test_shared(void)
{
    static const char *const placements[] = { "S0", "S1", "S0*64", "S0*100", "S1*32" };
    const int64_t processes = weft_num_processes();
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
        weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
        for (size_t i = 0; i < sizeof(placements) / sizeof(placements[0]); i++) {
            const bool tells = ranks == 1 ? i == 0 : processes == 1 || ranks >= processes || below(3) == 0; /* one rank shares nothing */
            if (tells && below(test_share()) == 0) {
                weft_scope_begin();
                check_shared(mesh, any_type(), below(2) ? 512 : 512 + below(60), placements[i]);
                weft_scope_end();
            }
        }
    }
}

/* ---- hard ones ----------------------------------------------------------------------------------------- */

enum { HARD = 530 };

/* All exchanges are needed, the farthest first. */
static double turned(int64_t r, int64_t c)
{
    return r + c == HARD - 1 ? 2 : r + c == HARD ? 1 : 0;
}

/* Many candidates are as good. */
static double of_signs(int64_t r, int64_t c)
{
    uint64_t x = (uint64_t)(r * HARD + c + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return (x >> 40) % 2 == 0 ? 1 : -1;
}

static weft_tensor *tensor_of(weft_mesh *mesh, double (*element)(int64_t, int64_t), const char *placements)
{
    const weft_placement p = placement_of(placements);
    double *dense = malloc(sizeof(double) * HARD * HARD);
    for (int64_t i = 0; i < HARD * HARD; i++) {
        dense[i] = element(i / HARD, i % HARD);
    }
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (const int64_t[]){ HARD, HARD }, dense, mesh, &p);
    assert_int_equal(weft_wait(), WEFT_OK);
    free(dense);
    return a;
}

static void test_hard(void)
{
    static double (*const elements[])(int64_t, int64_t) = { turned, of_signs };
    static const char *const names[] = { "a turned matrix", "a matrix of signs" };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    for (int i = 0; i < 2; i++) {
        weft_scope_begin();
        weft_tensor *a = tensor_of(mesh, elements[i], i % 2 == 0 ? "S0" : "S1*48");
        check_factors(a, names[i]);
        check_systems(a, names[i]);
        weft_scope_end();
    }
    for (hard_kind kind = 0; kind < HARD_KINDS; kind++) { /* pivots are found among rounding errors */
        weft_scope_begin();
        weft_tensor *a = hard_matrix(kind, any_type(), HARD, HARD, mesh, kind % 2 == 0 ? "S0*40" : "S1"), *l, *u, *p = weft_lu(a, &l, &u);
        const double size = norm_of_all(a);
        assert_residual(weft_matmul(p, weft_matmul(l, u)), a, HARD, size > 0 ? size : 1, hard_names[kind], "P L U");
        weft_scope_end();
    }
}

/* ---- errors -------------------------------------------------------------------------------------------- */

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

static void test_singular(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *large = weft_eye(WEFT_F64, 600, 600, mesh, &rows);
    weft_tensor *column = weft_ones(WEFT_F64, 2, (const int64_t[]){ 600, 1 }, mesh, NULL);
    weft_tensor *hole = weft_mul(large, weft_ne_scalar(weft_arange(WEFT_F64, 0, 600, 1, mesh, NULL), 411)), *logarithm;
    assert_late(weft_solve(hole, column), "weft_solve: a is singular: pivot 411 is 0");
    assert_late(weft_inverse(hole), "weft_inverse: a is singular: pivot 411 is 0");
    assert_late(weft_lu_factor(hole, NULL), "weft_lu_factor: a is singular: pivot 411 is 0");
    assert_late(weft_lu_factor(on_each_rank(hole), NULL), "weft_lu_factor: a is singular: pivot 411 is 0");
    double value = -1;
    assert_int_equal(weft_tensor_item(weft_det(hole), &value), WEFT_OK);
    assert_true(value == 0);
    assert_int_equal(weft_tensor_item(weft_slogdet(hole, &logarithm), &value), WEFT_OK);
    assert_true(value == 0);
    assert_int_equal(weft_tensor_item(logarithm, &value), WEFT_OK);
    assert_true(value == -INFINITY);
    weft_tensor *l, *u, *p = weft_lu(hole, &l, &u);
    assert_true(norm_of_all(weft_sub(weft_matmul(p, weft_matmul(l, u)), hole)) == 0);
}

static void test_refusals(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *a = weft_eye(WEFT_F64, 3, 3, mesh, NULL), *line = weft_ones(WEFT_F64, 1, (const int64_t[]){ 3 }, mesh, NULL);
    weft_tensor *pivots, *lu = weft_lu_factor(a, &pivots), *other = pivots, *wide = weft_slice(a, 0, 0, 2, 1);
    assert_null(weft_lu_factor(line, &other));
    assert_error(WEFT_ERR_SHAPE, "weft_lu_factor: a has 1 dimension, expected at least 2");
    assert_null(other);
    assert_null(weft_lu_factor(weft_to_type(a, WEFT_I64), &other));
    assert_error(WEFT_ERR_DTYPE, "weft_lu_factor: a is i64");
    assert_null(weft_lu(NULL, &other, NULL));
    assert_error(WEFT_ERR_INVALID, "weft_lu: a");
    assert_null(weft_lu_solve(wide, pivots, a, false));
    assert_error(WEFT_ERR_SHAPE, "weft_lu_solve: lu has matrices of 2 rows");
    assert_null(weft_lu_solve(lu, pivots, wide, false));
    assert_error(WEFT_ERR_SHAPE, "weft_lu_solve: b");
    assert_null(weft_lu_solve(lu, a, a, false));
    assert_error(WEFT_ERR_SHAPE, "weft_lu_solve: pivots");
    assert_null(weft_lu_solve(lu, line, a, false));
    assert_error(WEFT_ERR_DTYPE, "weft_lu_solve: pivots is f64, expected i64");
    assert_null(weft_lu_solve(lu, NULL, a, false));
    assert_error(WEFT_ERR_INVALID, "weft_lu_solve: pivots");
    weft_tensor *wrong = weft_add_scalar(pivots, 1);
    assert_late(weft_lu_solve(lu, wrong, a, false), "weft_lu_solve: pivots: a pivot is no row from its own one on");
    assert_late(weft_lu_solve(weft_scale(a, 0), pivots, a, false), "weft_lu_solve: a is singular: pivot 0 is 0");
    const weft_placement rows = weft_shard(0);
    weft_tensor *large = weft_eye(WEFT_F64, 600, 600, mesh, &rows);
    wrong = weft_full(WEFT_I64, 600, 1, (const int64_t[]){ 600 }, mesh, NULL);
    assert_late(weft_lu_solve(large, wrong, large, true), "weft_lu_solve: pivots: a pivot is no row from its own one on");
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* Of a loss that depends on what is made of a shared matrix, and of the same on each rank: those are compared with differences, for
 * small matrices, in tests/autograd. */
static weft_tensor *loss_of(weft_tensor *a, weft_tensor *b, int which)
{
    weft_tensor *pivots, *lu, *logarithm;
    switch (which) {
    case 0: return weft_sum(weft_square(weft_abs(weft_solve(a, b))), WEFT_ALL_DIMS, false);
    case 1: weft_slogdet(a, &logarithm); return logarithm;
    case 2: return weft_sum(weft_square(weft_abs(weft_inverse(a))), WEFT_ALL_DIMS, false);
    default:
        lu = weft_lu_factor(a, &pivots);
        return weft_sum(weft_square(weft_abs(weft_lu_solve(lu, pivots, b, which == 4))), WEFT_ALL_DIMS, false);
    }
}

static void check_gradient(weft_mesh *mesh, weft_dtype type, const char *placements, int which)
{
    const int64_t n = 512 + below(20);
    const weft_placement p = placement_of(placements);
    weft_tensor *unit = weft_eye(type, n, n, mesh, NULL), *random = weft_randn(type, 2, (const int64_t[]){ n, n }, mesh, NULL);
    weft_tensor *value = weft_flip(weft_add_scaled(weft_scale(random, 0.01), unit, 1), 1, (const int[]){ 0 });
    weft_tensor *b = weft_randn(type, 2, (const int64_t[]){ n, 3 }, mesh, NULL), *results[2];
    for (int i = 0; i < 2; i++) {
        weft_tensor *a = weft_redistribute(value, mesh, i == 0 ? &p : NULL);
        assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
        weft_tensor *loss = loss_of(a, b, which);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &results[i]), WEFT_OK);
    }
    const double size = norm_of_all(results[1]), error = norm_of_all(weft_sub(results[0], results[1]));
    if (!(error <= 1e4 * epsilon_of(type) * size) || size == 0) {
        fail_msg("gradient %d of %s in %s is off by %.3g of %.3g", which, weft_dtype_name(type), placements, error, size);
    }
    assert_no_error();
}

static void test_gradients(void)
{
    static const char *const placements[] = { "S0", "S1*40", "S0*64" };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 + below(2) }, NULL);
    for (int which = 0; which < 5; which++) {
        weft_scope_begin();
        check_gradient(mesh, any_type(), placements[below(3)], which);
        weft_scope_end();
    }
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* No rank has the matrix: a process's tensors take at most four shares for each of its ranks more than before, with the factors. The
 * first test, before others have held more. */
static void test_memory(void)
{
    enum { N = 1536, SHARES = 4 };
    const int64_t ranks = weft_world_size(), processes = weft_num_processes(), own = (ranks + processes - 1) / processes;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement p = placement_of("S0");
    weft_tensor *a = weft_randn(WEFT_F64, 2, (const int64_t[]){ N, N }, mesh, &p), *logarithm;
    weft_tensor *b = weft_ones(WEFT_F64, 2, (const int64_t[]){ N, 1 }, mesh, NULL);
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    weft_solve(a, b);
    weft_slogdet(a, &logarithm);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    const double matrix = (double)N * N * 8, most = (double)(after.tensor_bytes_peak - before.tensor_bytes) / matrix;
    if (!(most <= SHARES * (double)own / (double)ranks)) {
        fail_msg("%d ranks on %d processes: a process has %.2f times the matrix", (int)ranks, (int)processes, most);
    }
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_memory, test_shared, test_hard, test_singular, test_refusals, test_gradients };
    run_single_calls(7, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
