/* QR of matrices that ranks share, by LAPACK's residuals, in any layout, and of matrices that are hard to decompose; gradients, and
 * memory. */
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

static weft_placement placement_of(const char *text)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(text, 1, &p), WEFT_OK);
    return p;
}

/* ---- decompositions ------------------------------------------------------------------------------------- */

/* ||A - Q R|| / (max(m, n) ||A|| eps), ||1 - Q^H Q|| / (m eps), and R a triangle with a real diagonal. */
static void check_factors(weft_tensor *a, weft_tensor *q, weft_tensor *r, const char *what)
{
    const weft_dtype type = weft_tensor_dtype(a);
    const int64_t m = weft_tensor_size(a, 0), n = weft_tensor_size(a, 1), k = weft_tensor_size(q, 1);
    if (q == NULL || r == NULL || weft_tensor_size(r, 0) != k || weft_tensor_size(r, 1) != n) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    weft_tensor *unit = weft_eye(type, k, k, weft_tensor_mesh(a), NULL);
    const double eps = epsilon_of(type) / 2, size = norm_of_all(a);
    const double residual = norm_of_all(weft_sub(weft_matmul(q, r), a)) / ((double)(m > n ? m : n) * (size > 0 ? size : 1) * eps);
    const double turned = norm_of_all(weft_sub(weft_matmul(adjoint_tensor(q), q), unit)) / ((double)m * eps);
    if (!(residual <= ALLOWED) || !(turned <= ALLOWED)) {
        fail_msg("%s: the residuals are %.3g and %.3g", what, residual, turned);
    }
    assert_true(norm_of_all(weft_tril(r, -1)) == 0);
    assert_true(!is_complex(type) || norm_of_all(weft_imag(weft_diagonal(r, 0, 0, 1))) == 0);
    assert_no_error();
}

/* The rest is orthogonal to the columns, or of a wide matrix 0, where x is a combination of the rows. */
static void check_least_squares(weft_tensor *a, const char *what)
{
    const weft_dtype type = weft_tensor_dtype(a);
    const int64_t m = weft_tensor_size(a, 0), n = weft_tensor_size(a, 1);
    weft_tensor *b = weft_randn(type, 2, (const int64_t[]){ m, 3 }, weft_tensor_mesh(a), NULL), *x = weft_lstsq(a, b, 0);
    const double eps = epsilon_of(type) / 2, size = norm_of_all(a), scale = (double)(m + n) * size * eps * ALLOWED;
    weft_tensor *rest = weft_sub(weft_matmul(a, x), b);
    const double error = m < n ? norm_of_all(rest) : norm_of_all(weft_matmul(adjoint_tensor(a), rest)) / size;
    if (!(error <= scale * (norm_of_all(x) + norm_of_all(b) / size))) {
        fail_msg("%s: the rest of a least-squares solution is %.3g", what, error);
    }
    weft_tensor *vector = weft_lstsq(a, weft_select(b, 1, 1), 0);
    assert_true(norm_of_all(weft_sub(vector, weft_select(x, 1, 1))) <= scale * 1e4 * norm_of_all(x));
}

static void check_shared(weft_mesh *mesh, weft_dtype type, int64_t m, int64_t n, const char *placements)
{
    const weft_placement p = placement_of(placements);
    char what[200];
    snprintf(what, sizeof(what), "QR of %d x %d, %s, %s", (int)m, (int)n, weft_dtype_name(type), placements);
    weft_tensor *a = weft_randn(type, 2, (const int64_t[]){ m, n }, mesh, &p), *before = weft_scale(a, 1), *r, *q = weft_qr(a, &r);
    check_factors(a, q, r, what);
    check_least_squares(a, what);
    if (m > n && below(2)) {
        weft_tensor *all_r, *all = weft_qr_complete(a, &all_r);
        check_factors(a, all, all_r, what);
        assert_true(norm_of_all(weft_sub(weft_slice(all, 1, 0, n, 1), q)) == 0);
    }
    assert_true(norm_of_all(weft_sub(a, before)) == 0);
}

static void test_shared(void)
{
    static const char *const placements[] = { "S0", "S1", "S0*64", "S1*100", "S1*32" };
    const int64_t processes = weft_num_processes();
    for (int64_t ranks = 2; ranks <= 4; ranks++) {
        weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
        for (int i = 0; i < 5; i++) {
            if (below(test_share()) == 0 && (processes == 1 || ranks >= processes || below(3) == 0)) {
                const int64_t small = 512 + below(60), large = small + below(2) * below(300);
                weft_scope_begin();
                check_shared(mesh, any_type(), i % 2 == 0 ? small : large, i % 2 == 0 ? large : small, placements[i]);
                weft_scope_end();
            }
        }
    }
}

/* A tall matrix whose rows ranks share, one without columns, and a gradient only for wide ones. */
static void test_complete(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *tall = weft_randn(WEFT_F64, 2, (const int64_t[]){ 200, 7 }, mesh, &rows), *r, *q = weft_qr_complete(tall, &r), *gradient;
    assert_int_equal(weft_tensor_size(q, 1), 200);
    check_factors(tall, q, r, "a tall matrix");
    weft_tensor *none = weft_zeros(WEFT_F64, 2, (const int64_t[]){ 5, 0 }, mesh, NULL);
    q = weft_qr_complete(none, &r);
    check_factors(none, q, r, "a matrix without columns");
    weft_tensor *wide = weft_randn(WEFT_C128, 2, (const int64_t[]){ 4, 6 }, mesh, NULL);
    for (int i = 0; i < 2; i++) {
        weft_tensor *a = i == 0 ? wide : tall, *loss;
        assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
        q = weft_qr_complete(a, &r);
        loss = weft_sum(weft_square(weft_abs(r)), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &gradient), i == 0 ? WEFT_OK : WEFT_ERR_UNSUPPORTED);
        /* |R|^2 = |A|^2 */
        assert_true(i == 1 || norm_of_all(weft_sub(gradient, weft_scale(a, 2))) <= 1e-13 * norm_of_all(a));
    }
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_qr_complete: no gradient of the complete decomposition of 200 rows and 7 columns");
}

/* ---- hard ones ------------------------------------------------------------------------------------------ */

enum { ROWS = 530, COLUMNS = 517 };

static void test_hard(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    for (hard_kind kind = 0; kind < HARD_KINDS; kind++) {
        const int64_t m = kind % 2 == 0 ? ROWS : COLUMNS, n = ROWS + COLUMNS - m;
        weft_scope_begin();
        weft_tensor *a = hard_matrix(kind, any_type(), m, n, mesh, kind % 2 == 0 ? "S0" : "S1*48"), *r, *q = weft_qr(a, &r);
        check_factors(a, q, r, hard_names[kind]);
        weft_scope_end();
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------ */

/* Of a loss that does not depend on signs, of the shared matrix and of the same on each rank: those are compared with differences, for
 * small matrices, in tests/autograd. */
static void check_gradient(weft_mesh *mesh, weft_dtype type, int64_t m, int64_t n, const char *placements)
{
    const weft_placement p = placement_of(placements);
    const int64_t k = m < n ? m : n, shape[2] = { m, n };
    weft_tensor *value = weft_add_scaled(weft_scale(weft_randn(type, 2, shape, mesh, NULL), 0.02), weft_eye(type, m, n, mesh, NULL), 1);
    weft_tensor *of_q = weft_randn(type, 2, (const int64_t[]){ m, k }, mesh, NULL), *of_r = weft_randn(type, 2, (const int64_t[]){ k, n }, mesh, NULL);
    weft_tensor *results[2];
    for (int i = 0; i < 2; i++) {
        weft_tensor *a = weft_redistribute(value, mesh, i == 0 ? &p : NULL), *r, *q;
        assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
        q = weft_qr(a, &r);
        weft_tensor *parts[] = { weft_mul(weft_square(weft_abs(q)), weft_abs(of_q)), weft_mul(weft_square(weft_abs(r)), weft_abs(of_r)) };
        weft_tensor *loss = weft_add(weft_sum(parts[0], WEFT_ALL_DIMS, false), weft_sum(parts[1], WEFT_ALL_DIMS, false));
        assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &results[i]), WEFT_OK);
    }
    const double size = norm_of_all(results[1]), error = norm_of_all(weft_sub(results[0], results[1]));
    if (!(error <= 1e4 * epsilon_of(type) * size) || size == 0) {
        fail_msg("the gradient of %d x %d in %s is off by %.3g of %.3g", (int)m, (int)n, placements, error, size);
    }
    assert_no_error();
}

static void test_gradients(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 + below(2) }, NULL);
    weft_scope_begin();
    check_gradient(mesh, any_type(), 540, 512, "S0");
    check_gradient(mesh, any_type(), 512, 550, "S1*40");
    weft_scope_end();
}

/* ---- memory --------------------------------------------------------------------------------------------- */

/* No rank has the matrix: a process's tensors take at most five shares for each of its ranks more than before, with Q and R. The first
 * test, before others have held more. */
static void test_memory(void)
{
    enum { N = 1536, SHARES = 5 };
    const int64_t ranks = weft_world_size(), processes = weft_num_processes(), own = (ranks + processes - 1) / processes;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement p = placement_of("S0");
    weft_tensor *a = weft_randn(WEFT_F64, 2, (const int64_t[]){ N, N }, mesh, &p), *r;
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    weft_qr(a, &r);
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
    static void (*const calls[])(void) = { test_memory, test_shared, test_complete, test_hard, test_gradients };
    run_single_calls(7, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
