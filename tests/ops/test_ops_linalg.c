/* Linear algebra on random matrices, sizes, batches, meshes and placements, with panels of several heights, in one process that hosts all
 * ranks or in several: residuals in LAPACK's units, each at most 30. */
#include "matrices.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- cases --------------------------------------------------------------------------------------------- */

static void case_cholesky(void)
{
    int64_t first[2], n = any_order(), k = 1 + below(4);
    int dims = any_batch(first);
    bool upper = below(2);
    batch values, of_b;
    char what[400];
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_matrices(mesh, any_type(), dims, first, n, n, POSITIVE, &values);
    weft_tensor *result = weft_cholesky(a.tensor, upper);
    batch factor = read_back(result, a.dtype, 2, text_of("cholesky", &a, what, sizeof(what))), other = adjoint_of(&factor);
    assert_shape(result, dims, first, 2, (const int64_t[]){ n, n });
    assert_triangle(&factor, upper, what);
    mirror(&values, upper);
    assert_close(&values, upper ? product_of(&other, &factor) : product_of(&factor, &other), (double)n, &values, NULL, a.dtype, what);
    complex_operand b = make_matrices(mesh, a.dtype, 0, NULL, n, k, ANY, &of_b);
    batch x = read_back(weft_cholesky_solve(b.tensor, result, upper), a.dtype, 2, "cholesky_solve");
    batch product = product_of(&values, &x), all = new_batch(x.count, n, k);
    for (int64_t i = 0; i < x.count * n * k; i++) {
        all.values[i] = of_b.values[i % (n * k)];
    }
    assert_close(&all, product, (double)n, &values, &x, a.dtype, "cholesky_solve");
    free(all.values), free(x.values), free(of_b.values), free(values.values), free(factor.values), free(other.values);
    release_complex(&a);
    release_complex(&b);
}

/* First dimensions of two operands that broadcast to `first`. */
static void split_batch(int dims, const int64_t first[], int own_dims[2], int64_t own[2][2])
{
    int repeated = (int)below(3); /* 2: none */
    for (int o = 0; o < 2; o++) {
        bool repeats = o == repeated && dims > 0;
        own_dims[o] = repeats && below(2) ? 0 : dims;
        for (int d = 0; d < dims; d++) {
            own[o][d] = repeats ? 1 : first[d];
        }
    }
}

static void case_triangular(void)
{
    int64_t first[2], own[2][2], n = any_order(), k = below(6);
    int dims = any_batch(first), own_dims[2];
    bool upper = below(2), left = below(2), unit = below(4) == 0;
    batch of_a, of_b;
    char what[400];
    split_batch(dims, first, own_dims, own);
    weft_mesh *mesh = any_mesh();
    n = unit && n > 9 ? 9 : n; /* solutions grow */
    complex_operand a = make_matrices(mesh, any_type(), own_dims[0], own[0], n, n, TRIANGULAR, &of_a);
    complex_operand b = make_matrices(mesh, a.dtype, own_dims[1], own[1], left ? n : k, left ? k : n, ANY, &of_b);
    weft_tensor *result = weft_triangular_solve(a.tensor, b.tensor, upper, left, unit);
    batch x = read_back(result, a.dtype, 2, text_of("triangular_solve", &a, what, sizeof(what)));
    assert_shape(result, dims, first, 2, (const int64_t[]){ left ? n : k, left ? k : n });
    keep_triangle(&of_a, upper, unit);
    check_system(left, &of_a, &of_b, &x, a.dtype, what);
    free(of_a.values), free(of_b.values), free(x.values);
    release_complex(&a);
    release_complex(&b);
}

static void case_solve(void)
{
    int64_t first[2], own[2][2], n = any_order(), k = below(6);
    int dims = any_batch(first), own_dims[2];
    bool vector = below(4) == 0;
    batch of_a, of_b;
    char what[400];
    split_batch(dims, first, own_dims, own);
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_matrices(mesh, any_type(), vector ? dims : own_dims[0], vector ? first : own[0], n, n, TRIANGULAR, &of_a);
    complex_operand b = make_matrices(mesh, a.dtype, vector ? 0 : own_dims[1], own[1], n, vector ? 1 : k, ANY, &of_b);
    weft_tensor *result = weft_solve(a.tensor, vector ? weft_squeeze(b.tensor, 1) : b.tensor);
    batch x = read_back(result, a.dtype, vector ? 1 : 2, text_of("solve", &a, what, sizeof(what)));
    assert_shape(result, dims, first, vector ? 1 : 2, (const int64_t[]){ n, k });
    check_system(true, &of_a, &of_b, &x, a.dtype, what);
    free(of_a.values), free(of_b.values), free(x.values);
    release_complex(&a);
    release_complex(&b);
}

/* Of any shape; systems with square ones. */
static void case_lu(void)
{
    int64_t first[2], m = any_order(), n = below(2) ? m : any_order(), k = m < n ? m : n, columns = below(6);
    int dims = any_batch(first);
    bool adjoint = below(2);
    batch values, of_b;
    char what[400];
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_matrices(mesh, any_type(), dims, first, m, n, m == n ? TRIANGULAR : ANY, &values);
    weft_tensor *lower, *upper, *order = weft_lu(a.tensor, &lower, &upper), *pivots;
    batch p = read_back(order, a.dtype, 2, text_of("lu", &a, what, sizeof(what)));
    batch l = read_back(lower, a.dtype, 2, what), u = read_back(upper, a.dtype, 2, what), product = product_of(&l, &u);
    assert_shape(order, dims, first, 2, (const int64_t[]){ m, m });
    assert_shape(lower, dims, first, 2, (const int64_t[]){ m, k });
    assert_shape(upper, dims, first, 2, (const int64_t[]){ k, n });
    assert_triangle(&l, false, what);
    assert_triangle(&u, true, what);
    assert_close(&values, product_of(&p, &product), (double)(m > n ? m : n) * 4, &values, NULL, a.dtype, what);
    complex_operand b = make_matrices(mesh, a.dtype, dims, first, m, columns, ANY, &of_b);
    if (m == n) {
        weft_tensor *lu = weft_lu_factor(a.tensor, &pivots);
        assert_shape(pivots, dims, first, 1, &k);
        batch x = read_back(weft_lu_solve(lu, pivots, b.tensor, adjoint), a.dtype, 2, what), turned = adjoint_of(&values);
        check_system(true, adjoint ? &turned : &values, &of_b, &x, a.dtype, what);
        free(x.values), free(turned.values);
    }
    free(values.values), free(p.values), free(l.values), free(u.values), free(product.values), free(of_b.values);
    release_complex(&a);
    release_complex(&b);
}

static void case_inverse(void)
{
    int64_t first[2], n = any_order();
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, n, n, TRIANGULAR, &values);
    batch inverse = read_back(weft_inverse(a.tensor), a.dtype, 2, text_of("inverse", &a, what, sizeof(what)));
    batch unit = unit_of(values.count, n);
    assert_close(&unit, product_of(&values, &inverse), (double)n, &values, &inverse, a.dtype, what);
    free(values.values), free(inverse.values), free(unit.values);
    release_complex(&a);
}

/* Gaussian elimination with pivoting. bound: Hadamard's. */
static number determinant(const batch *a, int64_t i, double *bound)
{
    int64_t n = a->rows;
    long double _Complex *m = malloc((size_t)(n * n) * sizeof(*m) + 16), result = 1;
    *bound = 1;
    for (int64_t k = 0; k < n * n; k++) {
        m[k] = *at(a, i, k / n, k % n);
    }
    for (int64_t r = 0; r < n; r++) {
        double sum = 0;
        for (int64_t c = 0; c < n; c++) {
            sum += cabs(*at(a, i, r, c)) * cabs(*at(a, i, r, c));
        }
        *bound *= sqrt(sum);
    }
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t r = k; r < n; r++) {
            pivot = cabsl(m[r * n + k]) > cabsl(m[pivot * n + k]) ? r : pivot;
        }
        result *= pivot == k ? m[k * n + k] : -m[pivot * n + k];
        for (int64_t c = 0; c < n && pivot != k; c++) {
            long double _Complex held = m[k * n + c];
            m[k * n + c] = m[pivot * n + c];
            m[pivot * n + c] = held;
        }
        for (int64_t r = k + 1; r < n && m[k * n + k] != 0; r++) {
            long double _Complex factor = m[r * n + k] / m[k * n + k];
            for (int64_t c = k; c < n; c++) {
                m[r * n + c] -= factor * m[k * n + c];
            }
        }
    }
    free(m);
    return (number)result;
}

static void case_determinant(void)
{
    int64_t first[2], n = below(8);
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, n, n, ANY, &values);
    text_of("det", &a, what, sizeof(what));
    weft_tensor *logarithm, *sign = weft_slogdet(a.tensor, &logarithm), *det = weft_det(a.tensor);
    assert_shape(det, dims, first, 0, NULL);
    batch signs = read_back(sign, a.dtype, 0, what), dets = read_back(det, a.dtype, 0, what);
    batch logarithms = read_back(logarithm, real_type(a.dtype), 0, what);
    assert_int_equal(dets.count, values.count);
    for (int64_t i = 0; i < values.count; i++) {
        double bound, allowed;
        number expected = determinant(&values, i, &bound);
        allowed = ALLOWED * (double)(n + 1) * epsilon_of(a.dtype) * bound + DBL_MIN;
        number again = signs.values[i] * exp(creal(logarithms.values[i]));
        if (!(cabs(dets.values[i] - expected) <= allowed) || !(cabs(again - expected) <= 4 * allowed)) {
            fail_msg("%s: %.9g%+.9gi and %.9g%+.9gi, expected %.9g%+.9gi", what, creal(dets.values[i]), cimag(dets.values[i]),
                     creal(again), cimag(again), creal(expected), cimag(expected));
        }
    }
    free(values.values), free(signs.values), free(dets.values), free(logarithms.values);
    release_complex(&a);
}

static void case_qr(void)
{
    const bool complete = below(2);
    int64_t first[2], m = any_order(), n = any_order(), k = complete || m < n ? m : n;
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, m, n, ANY, &values);
    weft_tensor *second, *result = (complete ? weft_qr_complete : weft_qr)(a.tensor, &second);
    batch q = read_back(result, a.dtype, 2, text_of(complete ? "complete qr" : "qr", &a, what, sizeof(what))), r = read_back(second, a.dtype, 2, what);
    assert_shape(result, dims, first, 2, (const int64_t[]){ m, k });
    assert_shape(second, dims, first, 2, (const int64_t[]){ k, n });
    assert_triangle(&r, true, what);
    assert_orthonormal(&q, a.dtype, what);
    assert_close(&values, product_of(&q, &r), (double)(m > n ? m : n), &values, NULL, a.dtype, what);
    free(values.values), free(q.values), free(r.values);
    release_complex(&a);
}

/* Each is at most the next one, or (sign -1) at least. */
static void assert_ordered(const batch *values, int sign, const char *what)
{
    for (int64_t i = 1; i < values->count * values->rows; i++) {
        if (i % values->rows != 0 && sign * creal(values->values[i]) < sign * creal(values->values[i - 1])) {
            fail_msg("%s: the values are not in order", what);
        }
    }
}

static void assert_same_values(const batch *a, const batch *b, weft_dtype type, const char *what)
{
    for (int64_t i = 0; i < a->count * a->rows; i++) {
        double most = 0;
        for (int64_t k = i / a->rows * a->rows; k < (i / a->rows + 1) * a->rows; k++) {
            most = cabs(a->values[k]) > most ? cabs(a->values[k]) : most;
        }
        if (!(cabs(a->values[i] - b->values[i]) <= ALLOWED * (double)a->rows * epsilon_of(type) * most)) {
            fail_msg("%s: value %d is another without the vectors", what, (int)i);
        }
    }
}

static void case_eigh(void)
{
    int64_t first[2], n = any_order();
    int dims = any_batch(first);
    bool upper = below(2);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, n, n, HERMITIAN, &values);
    weft_tensor *vectors, *result = weft_eigh(a.tensor, upper, &vectors);
    weft_dtype real = real_type(a.dtype);
    batch w = read_back(result, real, 1, text_of("eigh", &a, what, sizeof(what))), v = read_back(vectors, a.dtype, 2, what);
    assert_shape(result, dims, first, 1, &n);
    assert_ordered(&w, 1, what);
    mirror(&values, upper);
    assert_orthonormal(&v, a.dtype, what);
    batch scaled = scaled_columns(&v, &w), alone = read_back(weft_eigh(a.tensor, upper, NULL), real, 1, what);
    assert_close(&scaled, product_of(&values, &v), (double)n, &values, NULL, a.dtype, what);
    assert_same_values(&w, &alone, real, what);
    free(values.values), free(w.values), free(v.values), free(scaled.values), free(alone.values);
    release_complex(&a);
}

/* A V = V D, columns of length 1; and the trace. */
static void case_eig(void)
{
    int64_t first[2], n = any_order();
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, n, n, ANY, &values);
    weft_dtype type = real_type(a.dtype) == WEFT_F32 ? WEFT_C64 : WEFT_C128;
    weft_tensor *vectors, *result = weft_eig(a.tensor, &vectors);
    batch w = read_back(result, type, 1, text_of("eig", &a, what, sizeof(what))), v = read_back(vectors, type, 2, what);
    assert_shape(result, dims, first, 1, &n);
    batch scaled = scaled_columns(&v, &w);
    assert_close(&scaled, product_of(&values, &v), (double)n, &values, NULL, type, what);
    for (int64_t i = 0; i < v.count * n; i++) {
        double length = 0;
        for (int64_t r = 0; r < n; r++) {
            length += pow(cabs(*at(&v, i / n, r, i % n)), 2);
        }
        assert_true(fabs(length - 1) <= ALLOWED * (double)n * epsilon_of(type));
    }
    free(values.values), free(w.values), free(v.values), free(scaled.values);
    release_complex(&a);
}

/* Matrices of a known rank, and their condition numbers by singular values. */
static void case_rank(void)
{
    const int64_t m = 2 + below(5), n = 2 + below(5), least = m < n ? m : n, k = 1 + below(least), shape[2] = { m, n };
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = any_type();
    weft_tensor *left = weft_randn(type, 2, (const int64_t[]){ m, k }, mesh, NULL), *right = weft_randn(type, 2, (const int64_t[]){ k, n }, mesh, NULL);
    weft_tensor *a = weft_matmul(left, right), *s = weft_to_type(weft_svd(a, NULL, NULL), WEFT_F64);
    int64_t rank = -1;
    double condition = -1, all[8];
    assert_int_equal(weft_to_host(weft_matrix_rank(a, 1e-5), &rank, sizeof(rank)), WEFT_OK);
    assert_int_equal(weft_to_host(s, all, sizeof(double) * (size_t)least), WEFT_OK);
    assert_int_equal(rank, all[k - 1] > 1e-5 * all[0] ? k : rank); /* some happen to be near singular */
    assert_int_equal(weft_tensor_item(weft_to_type(weft_cond(a), WEFT_F64), &condition), WEFT_OK);
    assert_true(fabs(condition / (all[0] / all[least - 1]) - 1) < 1e-5 || (isinf(condition) && all[least - 1] == 0));
    assert_int_equal(weft_to_host(weft_matrix_rank(weft_zeros(type, 2, shape, mesh, NULL), -1), &rank, sizeof(rank)), WEFT_OK);
    assert_int_equal(rank, 0);
    assert_int_equal(weft_tensor_item(weft_to_type(weft_cond(weft_zeros(type, 2, shape, mesh, NULL)), WEFT_F64), &condition), WEFT_OK);
    assert_true(isinf(condition));
}

static void case_svd(void)
{
    int64_t first[2], m = any_order(), n = any_order(), k = m < n ? m : n;
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, m, n, ANY, &values);
    weft_tensor *left, *right, *result = weft_svd(a.tensor, &left, &right);
    weft_dtype real = real_type(a.dtype);
    batch s = read_back(result, real, 1, text_of("svd", &a, what, sizeof(what)));
    batch u = read_back(left, a.dtype, 2, what), vh = read_back(right, a.dtype, 2, what), v = adjoint_of(&vh);
    assert_shape(result, dims, first, 1, &k);
    assert_shape(left, dims, first, 2, (const int64_t[]){ m, k });
    assert_shape(right, dims, first, 2, (const int64_t[]){ k, n });
    assert_ordered(&s, -1, what);
    assert_orthonormal(&u, a.dtype, what);
    assert_orthonormal(&v, a.dtype, what);
    batch scaled = scaled_columns(&u, &s), alone = read_back(weft_svd(a.tensor, NULL, NULL), real, 1, what);
    assert_close(&values, product_of(&scaled, &vh), (double)(m > n ? m : n), &values, NULL, a.dtype, what);
    assert_same_values(&s, &alone, real, what);
    free(values.values), free(s.values), free(u.values), free(vh.values), free(v.values), free(scaled.values), free(alone.values);
    release_complex(&a);
}

/* Moore's and Penrose's equations. */
static void case_pinv(void)
{
    int64_t first[2], m = any_order(), n = any_order(), k = 1 + below(4);
    int dims = any_batch(first);
    batch values, of_b;
    char what[400];
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_matrices(mesh, any_type(), dims, first, m, n, ANY, &values);
    weft_tensor *result = weft_pinv(a.tensor, -1);
    batch p = read_back(result, a.dtype, 2, text_of("pinv", &a, what, sizeof(what))), ap = product_of(&values, &p);
    batch pa = product_of(&p, &values), other = adjoint_of(&ap), another = adjoint_of(&pa);
    double size = (double)(m > n ? m : n) * 4;
    assert_shape(result, dims, first, 2, (const int64_t[]){ n, m });
    assert_close(&ap, other, size, &values, &p, a.dtype, what);
    assert_close(&pa, another, size, &values, &p, a.dtype, what);
    complex_operand b = make_matrices(mesh, a.dtype, 0, NULL, m, k, ANY, &of_b);
    batch x = read_back(weft_lstsq(a.tensor, b.tensor, -1), a.dtype, 2, "lstsq"), expected = product_of(&p, &of_b);
    assert_close(&x, expected, size, &p, &of_b, a.dtype, "lstsq");
    free(values.values), free(p.values), free(ap.values), free(pa.values), free(of_b.values), free(x.values);
    release_complex(&a);
    release_complex(&b);
}

static void case_power(void)
{
    int64_t first[2], order = any_order(), exponent = below(9) - 3;
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, order, order, TRIANGULAR, &values);
    batch result = read_back(weft_matrix_power(a.tensor, exponent), a.dtype, 2, text_of("matrix_power", &a, what, sizeof(what)));
    batch base = exponent < 0 ? read_back(weft_inverse(a.tensor), a.dtype, 2, what) : values, product = unit_of(values.count, order);
    for (int64_t k = 0; k < (exponent < 0 ? -exponent : exponent); k++) {
        batch next = product_of(&product, &base);
        free(product.values);
        product = next;
    }
    for (int64_t i = 0; i < values.count; i++) {
        double most = exponent < 0 ? pow(norm_of(&base, i), (double)-exponent) : pow(norm_of(&values, i), (double)exponent);
        batch own = { 1, order, order, result.values + i * order * order };
        batch expected = new_batch(1, order, order);
        memcpy(expected.values, product.values + i * order * order, (size_t)(order * order) * sizeof(number));
        assert_close(&own, expected, (double)(order + 1) * 8 * most, NULL, NULL, a.dtype, what);
    }
    free(values.values), free(result.values), free(product.values);
    if (exponent < 0) {
        free(base.values);
    }
    release_complex(&a);
}

/* The sum of the series in long double. */
static void case_exponential(void)
{
    int64_t first[2], n = any_order() % 10;
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, n, n, ANY, &values);
    batch result = read_back(weft_matrix_exp(a.tensor), a.dtype, 2, text_of("matrix_exp", &a, what, sizeof(what)));
    for (int64_t i = 0; i < values.count; i++) {
        long double _Complex term[100] = { 0 }, sum[100] = { 0 }, next[100] = { 0 };
        double norm = norm_of(&values, i);
        for (int64_t r = 0; r < n; r++) {
            term[r * n + r] = sum[r * n + r] = 1;
        }
        for (int k = 1; k < 300; k++) {
            for (int64_t e = 0; e < n * n; e++) {
                next[e] = 0;
                for (int64_t j = 0; j < n; j++) {
                    next[e] += term[e / n * n + j] * (long double _Complex)*at(&values, i, j, e % n) / k;
                }
            }
            memcpy(term, next, sizeof(term));
            for (int64_t e = 0; e < n * n; e++) {
                sum[e] += term[e];
            }
        }
        batch own = { 1, n, n, result.values + i * n * n }, expected = new_batch(1, n, n);
        for (int64_t e = 0; e < n * n; e++) {
            expected.values[e] = (number)sum[e];
        }
        assert_close(&own, expected, (double)(n + 1) * (1 + norm) * exp(norm), NULL, NULL, a.dtype, what);
    }
    free(values.values), free(result.values);
    release_complex(&a);
}

static const family families[] = {
    { "pinv", case_pinv },               { "power", case_power },           { "exponential", case_exponential },
    { "cholesky", case_cholesky },       { "triangular", case_triangular }, { "solve", case_solve }, { "inverse", case_inverse },
    { "lu", case_lu },
    { "determinant", case_determinant }, { "qr", case_qr },                 { "eigh", case_eigh },   { "svd", case_svd },
    { "eig", case_eig }, { "rank", case_rank },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

int main(void)
{
    return run_suite(&operations, NULL, 0);
}
