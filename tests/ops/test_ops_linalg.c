/* Linear algebra on random matrices, sizes, batches, meshes and placements, with panels of several heights, in one process that hosts all
 * ranks or in several: residuals in LAPACK's units, each at most 30. */
#include "complex_operand.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLOWED = 30 };

/* ---- matrices in a batch ------------------------------------------------------------------------------- */

/* A batch of row-major matrices. */
typedef struct batch {
    int64_t count, rows, columns;
    number *values;
} batch;

static batch new_batch(int64_t count, int64_t rows, int64_t columns)
{
    batch b = { count, rows, columns, calloc((size_t)(count * rows * columns) + 1, sizeof(number)) };
    return b;
}

static number *at(const batch *b, int64_t matrix, int64_t row, int64_t column)
{
    return &b->values[(matrix * b->rows + row) * b->columns + column];
}

static batch adjoint_of(const batch *a)
{
    batch result = new_batch(a->count, a->columns, a->rows);
    for (int64_t i = 0; i < a->count; i++) {
        for (int64_t r = 0; r < a->rows; r++) {
            for (int64_t c = 0; c < a->columns; c++) {
                *at(&result, i, c, r) = conj(*at(a, i, r, c));
            }
        }
    }
    return result;
}

/* A batch of one matrix meets all of the other. */
static batch product_of(const batch *a, const batch *b)
{
    batch result = new_batch(a->count == 1 ? b->count : a->count, a->rows, b->columns);
    for (int64_t i = 0; i < result.count; i++) {
        for (int64_t r = 0; r < a->rows; r++) {
            for (int64_t c = 0; c < b->columns; c++) {
                long double _Complex sum = 0;
                for (int64_t k = 0; k < a->columns; k++) {
                    sum += (long double _Complex)*at(a, i % a->count, r, k) * *at(b, i % b->count, k, c);
                }
                *at(&result, i, r, c) = (number)sum;
            }
        }
    }
    return result;
}

static batch unit_of(int64_t count, int64_t n)
{
    batch result = new_batch(count, n, n);
    for (int64_t i = 0; i < count * n; i++) {
        *at(&result, i / n, i % n, i % n) = 1;
    }
    return result;
}

/* The largest sum of sizes in a column. */
static double norm_of(const batch *a, int64_t i)
{
    double norm = 0;
    for (int64_t c = 0; c < a->columns; c++) {
        double sum = 0;
        for (int64_t r = 0; r < a->rows; r++) {
            sum += cabs(*at(a, i, r, c));
        }
        norm = sum > norm || isnan(sum) ? sum : norm;
    }
    return norm;
}

/* Asserts ||a - b|| <= ALLOWED * scale * norms[i] * eps for each matrix; frees b. norms: of `of`, and of `and` (NULL: 1). */
static void assert_close(const batch *a, batch b, double scale, const batch *of, const batch *and, weft_dtype type, const char *what)
{
    for (int64_t i = 0; i < a->count; i++) {
        double norm = (of == NULL ? 1 : norm_of(of, i % of->count)) * (and == NULL ? 1 : norm_of(and, i % and->count));
        batch difference = new_batch(1, a->rows, a->columns);
        for (int64_t k = 0; k < a->rows * a->columns; k++) {
            difference.values[k] = a->values[i * a->rows * a->columns + k] - b.values[i * a->rows * a->columns + k];
        }
        double error = norm_of(&difference, 0), allowed = ALLOWED * scale * norm * epsilon_of(type) / 2 + DBL_MIN;
        free(difference.values);
        if (!(error <= allowed)) {
            fail_msg("%s: matrix %d is off by %.3g, allowed %.3g", what, (int)i, error, allowed);
        }
    }
    free(b.values);
}

/* The tensor's values, the same on every rank, as a batch of matrices of its last dimensions (item_dims: 2, 1, or 0). */
static batch read_back(weft_tensor *tensor, weft_dtype type, int item_dims, const char *what)
{
    if (tensor == NULL) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    assert_no_error();
    int ndim = weft_tensor_ndim(tensor);
    int64_t count = weft_tensor_num_elements(tensor);
    batch b = { 1, 1, 1, malloc((size_t)count * sizeof(number) + 8) };
    for (int d = 0; d < ndim; d++) {
        *(d < ndim - item_dims ? &b.count : d < ndim - 1 ? &b.rows : &b.columns) *= weft_tensor_size(tensor, d);
    }
    if (item_dims == 1) {
        b.columns = 1;
        b.rows = weft_tensor_size(tensor, ndim - 1);
    }
    void *host = malloc((size_t)count * 16 + 16);
    weft_tensor *whole = without_partial(tensor);
    if (weft_to_host(whole, host, (size_t)count * weft_dtype_size(type)) != WEFT_OK) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    for (int64_t i = 0; i < count; i++) {
        b.values[i] = type == WEFT_C128  ? ((number *)host)[i]
                      : type == WEFT_C64 ? ((float _Complex *)host)[i]
                      : type == WEFT_F32 ? ((float *)host)[i]
                                         : ((double *)host)[i];
    }
    free(host);
    check_complex(whole, type, ndim, weft_tensor_shape(tensor), b.values, 0, 0, what);
    return b;
}

/* ---- operands ------------------------------------------------------------------------------------------ */

static weft_dtype any_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128 };
    return types[below(4)];
}

static weft_dtype real_type(weft_dtype type)
{
    return type == WEFT_C64 ? WEFT_F32 : type == WEFT_C128 ? WEFT_F64 : type;
}

static int64_t any_order(void)
{
    return below(10) == 0 ? 0 : below(15) == 0 ? 20 + below(20) : 1 + below(9);
}

typedef enum shape_kind { ANY, HERMITIAN, POSITIVE, TRIANGULAR } shape_kind;

static void make_hermitian(batch *a, int64_t i, bool positive)
{
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c <= r; c++) {
            number value = (*at(a, i, r, c) + conj(*at(a, i, c, r))) / 2;
            value += positive && r == c ? 6 * (double)a->rows : 0;
            value = number_of((double)(float)creal(value), (double)(float)cimag(value));
            *at(a, i, r, c) = value;
            *at(a, i, c, r) = conj(value);
        }
    }
}

/* Matrices with these first dimensions, and the values that their ranks have. */
static complex_operand make_matrices(weft_mesh *mesh, weft_dtype type, int batch_dims, const int64_t first[], int64_t rows,
                                     int64_t columns, shape_kind kind, batch *values)
{
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, first, (size_t)batch_dims * sizeof(shape[0]));
    shape[batch_dims] = rows;
    shape[batch_dims + 1] = columns;
    complex_operand x = make_complex(mesh, type, batch_dims + 2, shape, false);
    batch dense = { shape_count(batch_dims, first), rows, columns, x.dense };
    for (int64_t i = 0; i < dense.count && kind != ANY; i++) {
        if (kind == TRIANGULAR) {
            for (int64_t r = 0; r < rows; r++) {
                *at(&dense, i, r, r) += creal(*at(&dense, i, r, r)) < 0 ? -4 : 4;
            }
        } else {
            make_hermitian(&dense, i, kind == POSITIVE);
        }
    }
    realise_complex(&x);
    *values = read_back(x.tensor, type, 2, "the operand");
    return x;
}

/* The triangle that is read, also in the place of the other: sums of addends are rounded. */
static void mirror(batch *a, bool upper)
{
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t matrix = i / (a->rows * a->columns), row = i / a->columns % a->rows, column = i % a->columns;
        if (upper ? row > column : row < column) {
            a->values[i] = conj(*at(a, matrix, column, row));
        } else if (row == column) {
            a->values[i] = creal(a->values[i]);
        }
    }
}

static int any_batch(int64_t first[])
{
    int dims = (int)below(3);
    for (int d = 0; d < dims; d++) {
        first[d] = below(12) == 0 ? 0 : 1 + below(6);
    }
    return dims;
}

static const char *text_of(const char *function, const complex_operand *a, char *text, size_t size)
{
    snprintf(text, size, "%s(%s %s)", function, weft_dtype_name(a->dtype), describe_complex(a));
    return text;
}

static void assert_shape(weft_tensor *tensor, int batch_dims, const int64_t first[], int num, const int64_t last[])
{
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_ndim(tensor), batch_dims + num);
    for (int d = 0; d < batch_dims + num; d++) {
        assert_int_equal(weft_tensor_size(tensor, d), d < batch_dims ? first[d] : last[d - batch_dims]);
    }
}

/* ---- cases --------------------------------------------------------------------------------------------- */

/* The triangle, with 0 or (unit) 1 elsewhere. */
static void keep_triangle(batch *a, bool upper, bool unit)
{
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t row = i / a->columns % a->rows, column = i % a->columns;
        a->values[i] = row == column && unit ? 1 : (upper ? row <= column : row >= column) ? a->values[i] : 0;
    }
}

static void assert_triangle(const batch *a, bool upper, const char *what)
{
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t row = i / a->columns % a->rows, column = i % a->columns;
        if ((upper ? row > column : row < column) && a->values[i] != 0) {
            fail_msg("%s is no triangle", what);
        }
    }
}

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

static void check_system(bool left, const batch *a, const batch *b, const batch *x, weft_dtype type, const char *what)
{
    batch all = new_batch(x->count, b->rows, b->columns);
    for (int64_t i = 0; i < x->count * b->rows * b->columns; i++) {
        all.values[i] = b->values[i % (b->count * b->rows * b->columns)];
    }
    batch product = left ? product_of(a, x) : product_of(x, a);
    assert_int_equal(product.count, x->count);
    assert_close(&all, product, (double)a->rows, a, x, type, what);
    free(all.values);
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

/* Columns are orthonormal. */
static void assert_orthonormal(const batch *q, weft_dtype type, const char *what)
{
    batch adjoint = adjoint_of(q), unit = unit_of(q->count, q->columns);
    assert_close(&unit, product_of(&adjoint, q), (double)q->rows, NULL, NULL, type, what);
    free(adjoint.values), free(unit.values);
}

static void case_qr(void)
{
    int64_t first[2], m = any_order(), n = any_order(), k = m < n ? m : n;
    int dims = any_batch(first);
    batch values;
    char what[400];
    complex_operand a = make_matrices(any_mesh(), any_type(), dims, first, m, n, ANY, &values);
    weft_tensor *second, *result = weft_qr(a.tensor, &second);
    batch q = read_back(result, a.dtype, 2, text_of("qr", &a, what, sizeof(what))), r = read_back(second, a.dtype, 2, what);
    assert_shape(result, dims, first, 2, (const int64_t[]){ m, k });
    assert_shape(second, dims, first, 2, (const int64_t[]){ k, n });
    assert_triangle(&r, true, what);
    assert_orthonormal(&q, a.dtype, what);
    assert_close(&values, product_of(&q, &r), (double)(m > n ? m : n), &values, NULL, a.dtype, what);
    free(values.values), free(q.values), free(r.values);
    release_complex(&a);
}

/* The columns times numbers. */
static batch scaled_columns(const batch *a, const batch *factors)
{
    batch result = new_batch(a->count, a->rows, a->columns);
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t matrix = i / (a->rows * a->columns), column = i % a->columns;
        result.values[i] = a->values[i] * factors->values[matrix * a->columns + column];
    }
    return result;
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
    { "determinant", case_determinant }, { "qr", case_qr },                 { "eigh", case_eigh },   { "svd", case_svd },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* ---- hard matrices ------------------------------------------------------------------------------------- */

enum { HARD = 12 };

static double hilbert(int64_t r, int64_t c)
{
    return 1 / (double)(r + c + 1);
}

/* Rows and columns of sizes from 1 to 10^-12. */
static double graded(int64_t r, int64_t c)
{
    return pow(10, -(double)(r + c) / 2) * (r == c ? 3 : (double)((r * 7 + c * 5) % 9 - 4) / 8);
}

static double of_rank_two(int64_t r, int64_t c)
{
    return (double)((r + 1) * (c + 2)) + (double)((r % 3) * (c % 4));
}

static double zero(int64_t r, int64_t c)
{
    (void)r, (void)c;
    return 0;
}

/* Clusters of eigenvalues: Wilkinson's. */
static double wilkinson(int64_t r, int64_t c)
{
    return r == c ? fabs((double)r - HARD / 2.0) : r - c == 1 || c - r == 1 ? 1 : 0;
}

static weft_tensor *tensor_of(weft_mesh *mesh, double (*element)(int64_t, int64_t), batch *values)
{
    double dense[HARD * HARD];
    *values = new_batch(1, HARD, HARD);
    for (int64_t i = 0; i < HARD * HARD; i++) {
        dense[i] = element(i / HARD, i % HARD);
        values->values[i] = dense[i];
    }
    return weft_distribute(WEFT_F64, 2, (const int64_t[]){ HARD, HARD }, dense, mesh, (const weft_placement[]){ weft_shard(0) });
}

static void check_decompositions(weft_mesh *mesh, double (*element)(int64_t, int64_t), bool symmetric, const char *what)
{
    batch values;
    weft_tensor *a = tensor_of(mesh, element, &values), *r, *left, *right, *vectors;
    batch q = read_back(weft_qr(a, &r), WEFT_F64, 2, what), of_r = read_back(r, WEFT_F64, 2, what);
    assert_orthonormal(&q, WEFT_F64, what);
    assert_close(&values, product_of(&q, &of_r), HARD, &values, NULL, WEFT_F64, what);
    batch s = read_back(weft_svd(a, &left, &right), WEFT_F64, 1, what), u = read_back(left, WEFT_F64, 2, what);
    batch vh = read_back(right, WEFT_F64, 2, what), scaled = scaled_columns(&u, &s), v = adjoint_of(&vh);
    assert_orthonormal(&u, WEFT_F64, what);
    assert_orthonormal(&v, WEFT_F64, what);
    assert_close(&values, product_of(&scaled, &vh), HARD, &values, NULL, WEFT_F64, what);
    if (symmetric) {
        batch w = read_back(weft_eigh(a, false, &vectors), WEFT_F64, 1, what), z = read_back(vectors, WEFT_F64, 2, what);
        batch turned = scaled_columns(&z, &w);
        assert_orthonormal(&z, WEFT_F64, what);
        assert_close(&turned, product_of(&values, &z), HARD, &values, NULL, WEFT_F64, what);
        free(w.values), free(z.values), free(turned.values);
    }
    free(values.values), free(q.values), free(of_r.values), free(s.values), free(u.values), free(vh.values), free(scaled.values), free(v.values);
}

static void check_solver(weft_mesh *mesh, double (*element)(int64_t, int64_t), const char *what)
{
    batch of_a, of_b;
    weft_tensor *a = tensor_of(mesh, element, &of_a), *b = tensor_of(mesh, wilkinson, &of_b);
    batch x = read_back(weft_solve(a, b), WEFT_F64, 2, what);
    check_system(true, &of_a, &of_b, &x, WEFT_F64, what);
    free(of_a.values), free(of_b.values), free(x.values);
}

static void test_hard_matrices(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
    check_decompositions(mesh, hilbert, true, "Hilbert's matrix");
    check_decompositions(mesh, graded, false, "a graded matrix");
    check_decompositions(mesh, of_rank_two, false, "a matrix of rank 2");
    check_decompositions(mesh, zero, true, "a matrix of zeros");
    check_decompositions(mesh, wilkinson, true, "Wilkinson's matrix");
    check_solver(mesh, hilbert, "Hilbert's matrix");
    check_solver(mesh, graded, "a graded matrix");
    check_solver(mesh, wilkinson, "Wilkinson's matrix");
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
    snprintf(what, sizeof(what), "cholesky of one %s matrix, n %d, %s, %s", weft_dtype_name(type), (int)n, placements, upper ? "upper" : "lower");
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    weft_tensor *random = weft_randn(type, 2, (const int64_t[]){ n, n }, mesh, &p);
    weft_tensor *unit = weft_scale(weft_to_type(weft_eye(WEFT_F64, n, n, mesh, &p), type), (double)n);
    weft_tensor *a = weft_redistribute(weft_add(weft_matmul(random, adjoint_tensor(random)), unit), mesh, &p);
    weft_tensor *garbage = upper ? weft_add(a, weft_tril(random, -1)) : weft_add(a, weft_triu(random, 1));
    weft_tensor *factor = weft_cholesky(weft_redistribute(garbage, mesh, &p), upper), *other = adjoint_tensor(factor);
    weft_tensor *product = upper ? weft_matmul(other, factor) : weft_matmul(factor, other);
    double residual = norm_of_all(weft_sub(a, product)) / ((double)n * norm_of_all(a) * epsilon_of(type) / 2);
    if (!(residual <= ALLOWED) || norm_of_all(upper ? weft_tril(factor, -1) : weft_triu(factor, 1)) != 0) {
        fail_msg("%s: the residual is %.3g, or it is no triangle", what, residual);
    }
    assert_no_error();
}

static void test_shared(void)
{
    static const char *const placements[] = { "S0", "S1", "S0*64", "S0*100", "S1*32" };
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
        weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
        for (size_t i = 0; i < sizeof(placements) / sizeof(placements[0]); i++) {
            weft_scope_begin();
            check_shared(mesh, any_type(), 512 + below(60), placements[i], below(2));
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
    assert_late(weft_cholesky(matrices_with(mesh, 2, 2, 2, -1), false),
                "weft_cholesky: matrix [2] of a is not positive-definite: its leading minor of order 3 is not positive");
    assert_late(weft_eigh(infinite, false, NULL), "weft_eigh: matrix [3] of a has elements that are not finite");
    assert_late(weft_svd(infinite, NULL, NULL), "weft_svd: matrix [3] of a has elements that are not finite");
    weft_tensor *large = weft_eye(WEFT_F64, 600, 600, mesh, (const weft_placement[]){ weft_shard(0) });
    weft_tensor *indefinite = weft_mul(large, weft_add_scalar(weft_neg(weft_arange(WEFT_F64, 0, 600, 1, mesh, NULL)), 299.5));
    assert_late(weft_cholesky(indefinite, true), "weft_cholesky: a is not positive-definite: its leading minor of order 301 is not positive");
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
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_svd: a has matrices of 20000 rows and 20000 columns, expected at most 16384");
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
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
