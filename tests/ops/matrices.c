#include "matrices.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- matrices in a batch ------------------------------------------------------------------------------- */

batch new_batch(int64_t count, int64_t rows, int64_t columns)
{
    batch b = { count, rows, columns, calloc((size_t)(count * rows * columns) + 1, sizeof(number)) };
    return b;
}

number *at(const batch *b, int64_t matrix, int64_t row, int64_t column)
{
    return &b->values[(matrix * b->rows + row) * b->columns + column];
}

batch adjoint_of(const batch *a)
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

batch product_of(const batch *a, const batch *b)
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

batch unit_of(int64_t count, int64_t n)
{
    batch result = new_batch(count, n, n);
    for (int64_t i = 0; i < count * n; i++) {
        *at(&result, i / n, i % n, i % n) = 1;
    }
    return result;
}

double norm_of(const batch *a, int64_t i)
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

void assert_close(const batch *a, batch b, double scale, const batch *of, const batch *and, weft_dtype type, const char *what)
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

batch read_back(weft_tensor *tensor, weft_dtype type, int item_dims, const char *what)
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

weft_dtype any_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128 };
    return types[below(4)];
}

weft_dtype real_type(weft_dtype type)
{
    return type == WEFT_C64 ? WEFT_F32 : type == WEFT_C128 ? WEFT_F64 : type;
}

int64_t any_order(void)
{
    return below(10) == 0 ? 0 : below(15) == 0 ? 20 + below(20) : 1 + below(9);
}

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

complex_operand make_matrices(weft_mesh *mesh, weft_dtype type, int batch_dims, const int64_t first[], int64_t rows,
                                     int64_t columns, shape_kind kind, batch *values)
{
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < batch_dims; d++) {
        shape[d] = first[d];
    }
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

void mirror(batch *a, bool upper)
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

int any_batch(int64_t first[])
{
    int dims = (int)below(3);
    for (int d = 0; d < dims; d++) {
        first[d] = below(12) == 0 ? 0 : 1 + below(6);
    }
    return dims;
}

const char *text_of(const char *function, const complex_operand *a, char *text, size_t size)
{
    snprintf(text, size, "%s(%s %s)", function, weft_dtype_name(a->dtype), describe_complex(a));
    return text;
}

void assert_shape(weft_tensor *tensor, int batch_dims, const int64_t first[], int num, const int64_t last[])
{
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_ndim(tensor), batch_dims + num);
    for (int d = 0; d < batch_dims + num; d++) {
        assert_int_equal(weft_tensor_size(tensor, d), d < batch_dims ? first[d] : last[d - batch_dims]);
    }
}

/* ---- checks -------------------------------------------------------------------------------------------- */

void keep_triangle(batch *a, bool upper, bool unit)
{
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t row = i / a->columns % a->rows, column = i % a->columns;
        a->values[i] = row == column && unit ? 1 : (upper ? row <= column : row >= column) ? a->values[i] : 0;
    }
}

void assert_triangle(const batch *a, bool upper, const char *what)
{
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t row = i / a->columns % a->rows, column = i % a->columns;
        if ((upper ? row > column : row < column) && a->values[i] != 0) {
            fail_msg("%s is no triangle", what);
        }
    }
}

void check_system(bool left, const batch *a, const batch *b, const batch *x, weft_dtype type, const char *what)
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

void assert_orthonormal(const batch *q, weft_dtype type, const char *what)
{
    batch adjoint = adjoint_of(q), unit = unit_of(q->count, q->columns);
    assert_close(&unit, product_of(&adjoint, q), (double)q->rows, NULL, NULL, type, what);
    free(adjoint.values), free(unit.values);
}

batch scaled_columns(const batch *a, const batch *factors)
{
    batch result = new_batch(a->count, a->rows, a->columns);
    for (int64_t i = 0; i < a->count * a->rows * a->columns; i++) {
        int64_t matrix = i / (a->rows * a->columns), column = i % a->columns;
        result.values[i] = a->values[i] * factors->values[matrix * a->columns + column];
    }
    return result;
}

/* ---- hard ones ----------------------------------------------------------------------------------------- */

const char *const hard_names[] = { "Hilbert's matrix",   "a graded matrix",   "a graded positive matrix",
                                   "a matrix of rank 2", "a matrix of zeros", "Wilkinson's matrix" };

bool is_hermitian(hard_kind kind)
{
    return kind != GRADED && kind != RANK_TWO;
}

static double hard_element(hard_kind kind, double n, int64_t r, int64_t c)
{
    const double apart = fabs((double)(r - c)), size = pow(10, -6 * (double)(r + c) / n);
    switch (kind) {
    case HILBERT:
        return 1 / (double)(r + c + 1);
    case GRADED:
        return size * (r == c ? 3 : (double)((r * 7 + c * 5) % 9 - 4) / 8);
    case GRADED_POSITIVE:
        return size * (r == c ? 3 : 0.5 / ((1 + apart) * (1 + apart)));
    case RANK_TWO:
        return ((double)(r + 1) / n) * ((double)(c + 2) / n) + (double)((r % 3) * (c % 4));
    case WILKINSON:
        return apart == 0 ? fabs((double)r - n / 2) : apart == 1;
    default:
        return 0;
    }
}

weft_tensor *hard_matrix(hard_kind kind, weft_dtype type, int64_t rows, int64_t columns, weft_mesh *mesh, const char *placements)
{
    number *dense = malloc((size_t)(rows * columns) * sizeof(*dense));
    weft_placement p;
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t r = i / columns, c = i % columns;
        const double element = hard_element(kind, (double)(rows > columns ? rows : columns), r, c), angle = 0.7 * (double)(r - c);
        dense[i] = is_complex(type) ? element * (cos(angle) + sin(angle) * _Complex_I) : element;
    }
    weft_tensor *a = weft_distribute(WEFT_C128, 2, (const int64_t[]){ rows, columns }, dense, mesh, &p);
    assert_int_equal(weft_wait(), WEFT_OK);
    free(dense);
    return weft_to_type(is_complex(type) ? a : weft_real(a), type);
}
