/* Complex numbers on random shapes, meshes and placements against C's, with panels of several heights; in one process that hosts all
 * ranks, or in several. */
#include "complex_operand.h"
#include "dims.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- layouts ------------------------------------------------------------------------------------------- */

static void case_redistribute(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 4, 9, shape);
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_complex(mesh, any_complex(), ndim, shape, false);
    char what[400];
    snprintf(what, sizeof(what), "redistribute(%s %s)", weft_dtype_name(a.dtype), describe_complex(&a));
    weft_placement to[3];
    random_placements(&source, mesh, ndim, false, to);
    random_cut_sizes(&source, mesh, ndim, shape, to);
    check_complex(a.tensor, a.dtype, ndim, shape, a.dense, 200, 40, what);
    check_complex(weft_redistribute(a.tensor, mesh, to), a.dtype, ndim, shape, a.dense, 200, 40, what);
    weft_tensor *wide = weft_to_type(a.tensor, WEFT_C128);
    check_complex(wide, WEFT_C128, ndim, shape, a.dense, 200, a.dtype == WEFT_C64 ? 40 * 0x1p29 : 40, what);
    release_complex(&a);
}

/* ---- two tensors --------------------------------------------------------------------------------------- */

typedef number (*binary)(number a, number b);

#define PLAIN(name, expression)                                                                              \
    static number name(number a, number b)                                                                   \
    {                                                                                                        \
        return expression;                                                                                   \
    }
PLAIN(add, a + b)
PLAIN(subtract, a - b)
PLAIN(multiply, a * b)
PLAIN(divide, a / b)
PLAIN(equal, a == b)
PLAIN(differ, a != b)

static number add_twice(number a, number b)
{
    return a + 2 * b;
}

static weft_tensor *weft_add_twice(weft_tensor *a, weft_tensor *b)
{
    return weft_add_scaled(a, b, 2);
}

PLAIN(both, a != 0 && b != 0)
PLAIN(either, a != 0 || b != 0)
PLAIN(one_of, (a != 0) != (b != 0))
PLAIN(between, 0.75 * a + 0.25 * b)

static weft_tensor *weft_between(weft_tensor *a, weft_tensor *b)
{
    return weft_lerp(a, b, 0.25);
}

static weft_dtype any_part(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_C64, WEFT_C128, WEFT_C64, WEFT_C128 };
    return types[below(6)];
}

/* As PyTorch: a tensor without dimensions counts by its category alone. */
static weft_dtype promoted(const complex_operand *a, const complex_operand *b)
{
    const complex_operand *const all[] = { a, b };
    bool wide = false, any_dims = a->ndim > 0 || b->ndim > 0, complex_dims = false;
    for (int i = 0; i < 2; i++) {
        complex_dims |= is_complex(all[i]->dtype) && all[i]->ndim > 0;
    }
    for (int i = 0; i < 2; i++) {
        bool counts = all[i]->ndim > 0 || !any_dims;
        wide |= counts && (all[i]->dtype == WEFT_F64 || all[i]->dtype == WEFT_C128);
    }
    return is_complex(a->dtype) || is_complex(b->dtype) ? (wide ? WEFT_C128 : WEFT_C64) : wide ? WEFT_F64 : WEFT_F32;
}

static void case_two(void)
{
    static const struct {
        const char *name;
        binary plain;
        weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
        bool truth;
    } all[] = { { "add", add, weft_add, false },      { "sub", subtract, weft_sub, false }, { "mul", multiply, weft_mul, false },
                { "div", divide, weft_div, false },   { "eq", equal, weft_eq, true },       { "ne", differ, weft_ne, true },
                { "add_scaled", add_twice, weft_add_twice, false }, { "lerp", between, weft_between, false },
                { "logical_and", both, weft_logical_and, true }, { "logical_or", either, weft_logical_or, true },
                { "logical_xor", one_of, weft_logical_xor, true } };
    size_t o = (size_t)below((int64_t)(sizeof(all) / sizeof(all[0])));
    int64_t shape[WEFT_MAX_DIMS], of_b[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 7, shape), missing = (int)below(ndim + 1);
    for (int d = missing; d < ndim; d++) {
        of_b[d - missing] = below(3) == 0 ? 1 : shape[d];
    }
    weft_mesh *mesh = any_mesh();
    complex_operand a = make_complex(mesh, any_part(), ndim, shape, all[o].truth);
    complex_operand b = make_complex(mesh, any_part(), ndim - missing, of_b, all[o].truth);
    for (int64_t i = 0; i < b.count && all[o].plain == divide; i++) { /* far from 0 */
        b.dense[i] = b.dense[i] + (creal(b.dense[i]) < 0 ? -4 : 4);
    }
    realise_complex(&b);
    number *expected = malloc(((size_t)a.count + 1) * sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) {
        int64_t place = 0, rest = i, step = 1;
        for (int d = ndim - 1; d >= missing; d--) {
            place += of_b[d - missing] == 1 ? 0 : rest % shape[d] * step;
            step *= of_b[d - missing];
            rest /= shape[d];
        }
        expected[i] = all[o].plain(a.dense[i], b.dense[place]);
    }
    char what[600];
    snprintf(what, sizeof(what), "%s(%s %s, %s %s)", all[o].name, weft_dtype_name(a.dtype), describe_complex(&a),
             weft_dtype_name(b.dtype), describe_complex(&b));
    weft_dtype type = all[o].truth ? WEFT_BOOL : promoted(&a, &b);
    bool rounded = a.dtype == WEFT_F32 || a.dtype == WEFT_C64 || b.dtype == WEFT_F32 || b.dtype == WEFT_C64;
    double wider = rounded && type != WEFT_BOOL && epsilon_of(type) < 1e-10 ? 0x1p29 : 1;
    check_complex(all[o].call(a.tensor, b.tensor), type, ndim, shape, expected, all[o].truth ? 0 : 300, 30 * wider, what);
    free(expected);
    release_complex(&a);
    release_complex(&b);
}

/* ---- one tensor ---------------------------------------------------------------------------------------- */

static number negate(number a)
{
    return -a;
}

static number square(number a)
{
    return a * a;
}

static number inverse(number a)
{
    return 1 / a;
}

static number size(number a)
{
    return cabs(a);
}

static number angle(number a)
{
    return carg(a);
}

static number real(number a)
{
    return creal(a);
}

static number imag(number a)
{
    return cimag(a);
}

static number scaled(number a)
{
    return -1.5 * a;
}

static weft_tensor *weft_scaled(weft_tensor *a)
{
    return weft_scale(a, -1.5);
}

static number shifted(number a)
{
    return a + 2.5;
}

static weft_tensor *weft_shifted(weft_tensor *a)
{
    return weft_add_scalar(a, 2.5);
}

static number cube(number a)
{
    return a * a * a;
}

static weft_tensor *weft_cube(weft_tensor *a)
{
    return weft_pow_scalar(a, 3);
}

static number root(number a)
{
    return cpow(a, 0.3);
}

static weft_tensor *weft_root(weft_tensor *a)
{
    return weft_pow_scalar(a, 0.3);
}

static number inverse_root(number a)
{
    return 1 / csqrt(a);
}

static number logistic(number a)
{
    return 1 / (1 + cexp(-a));
}

static void case_one(void)
{
    static const struct {
        const char *name;
        number (*plain)(number a);
        weft_tensor *(*call)(weft_tensor *a);
        bool real;
    } all[] = { { "neg", negate, weft_neg, false },     { "square", square, weft_square, false },
                { "reciprocal", inverse, weft_reciprocal, false }, { "sqrt", csqrt, weft_sqrt, false },
                { "exp", cexp, weft_exp, false },       { "log", clog, weft_log, false },
                { "sin", csin, weft_sin, false },       { "cos", ccos, weft_cos, false },
                { "tanh", ctanh, weft_tanh, false },    { "abs", size, weft_abs, true },
                { "angle", angle, weft_angle, true },   { "real", real, weft_real, true },
                { "imag", imag, weft_imag, true },      { "conj", conj, weft_conj, false },
                { "scale", scaled, weft_scaled, false }, { "add_scalar", shifted, weft_shifted, false },
                { "pow_scalar", cube, weft_cube, false }, { "root", root, weft_root, false },
                { "rsqrt", inverse_root, weft_rsqrt, false }, { "sigmoid", logistic, weft_sigmoid, false } };
    size_t o = (size_t)below((int64_t)(sizeof(all) / sizeof(all[0])));
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, false);
    number *expected = malloc(((size_t)a.count + 1) * sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) { /* away from poles and from the cut */
        double re = creal(a.dense[i]), im = cimag(a.dense[i]);
        a.dense[i] = number_of(fabs(re) < 0.5 ? re + (re < 0 ? -1 : 1) : re, fabs(im) < 0.25 ? im + (im < 0 ? -0.5 : 0.5) : im);
        expected[i] = all[o].plain(a.dense[i]);
    }
    realise_complex(&a);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s)", all[o].name, weft_dtype_name(a.dtype), describe_complex(&a));
    weft_dtype part = a.dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    check_complex(all[o].call(a.tensor), all[o].real ? part : a.dtype, ndim, shape, expected, 300, 60, what);
    free(expected);
    release_complex(&a);
}

/* ---- parts --------------------------------------------------------------------------------------------- */

static void case_parts(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    weft_mesh *mesh = any_mesh();
    bool turned = below(2);
    complex_operand a = make_complex(mesh, any_float(), ndim, shape, false), b = make_complex(mesh, any_float(), ndim, shape, false);
    number *expected = malloc(((size_t)a.count + 1) * sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) {
        double x = creal(a.dense[i]), y = creal(b.dense[i]);
        expected[i] = turned ? number_of(x * cos(y), x * sin(y)) : number_of(x, y);
    }
    char what[600];
    snprintf(what, sizeof(what), "%s(%s %s, %s)", turned ? "polar" : "complex", weft_dtype_name(a.dtype), describe_complex(&a),
             describe_complex(&b));
    weft_dtype type = (a.dtype == WEFT_F64 || b.dtype == WEFT_F64) && ndim >= 0 ? WEFT_C128 : WEFT_C64;
    double wider = a.dtype != b.dtype ? 0x1p29 : 1;
    check_complex((turned ? weft_polar : weft_complex)(a.tensor, b.tensor), type, ndim, shape, expected, 200, 40 * wider, what);
    free(expected);
    release_complex(&a);
    release_complex(&b);
}

static void case_views(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, false);
    weft_dtype part = a.dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    number *parts = malloc((2 * (size_t)a.count + 1) * sizeof(*parts));
    for (int64_t i = 0; i < a.count; i++) {
        parts[2 * i] = creal(a.dense[i]);
        parts[2 * i + 1] = cimag(a.dense[i]);
    }
    char what[400];
    snprintf(what, sizeof(what), "view_as_real(%s %s)", weft_dtype_name(a.dtype), describe_complex(&a));
    weft_tensor *pairs = weft_view_as_real(a.tensor);
    int64_t of_pairs[WEFT_MAX_DIMS];
    memcpy(of_pairs, shape, sizeof(of_pairs));
    of_pairs[ndim] = 2;
    check_complex(pairs, part, ndim + 1, of_pairs, parts, 200, 40, what);
    if (below(2)) {
        weft_placement to[3];
        random_placements(&source, a.mesh, ndim + 1, false, to);
        pairs = weft_redistribute(pairs, a.mesh, to);
    }
    check_complex(weft_view_as_complex(pairs), a.dtype, ndim, shape, a.dense, 200, 40, what);
    free(parts);
    release_complex(&a);
}

/* ---- elements that move -------------------------------------------------------------------------------- */

/* By the same movement of numbers that say where an element was. */
static void case_move(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + random_shape(&source, 2, 7, shape + 1), kind = (int)below(12);
    shape[0] = 1 + below(7);
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, true);
    operand places = make_operand(a.mesh, WEFT_F64, ndim, shape, WHOLE, 0);
    weft_tensor *results[2], *inputs[2] = { a.tensor, NULL };
    for (int64_t i = 0; i < a.count; i++) {
        places.dense[i] = (double)(i + 1);
    }
    for (int m = 0; m < weft_mesh_ndim(a.mesh); m++) {
        places.placements[m] = places.placements[m].kind == WEFT_PARTIAL ? weft_replicate() : places.placements[m];
    }
    realise(&places);
    inputs[1] = places.tensor;
    const int64_t picked[] = { 0, shape[0] - 1, 0 }, flat[] = { a.count }, before[] = { 1, 0, 2 }, after[] = { 0, 1, 0 };
    weft_tensor *indices = weft_distribute(WEFT_I64, 1, (const int64_t[]){ 3 }, picked, a.mesh, NULL);
    int dim = 0;
    for (int i = 0; i < 2; i++) {
        weft_tensor *x = inputs[i];
        results[i] = kind == 0   ? weft_reshape(x, 1, flat)
                     : kind == 1 ? weft_flip(x, 1, &dim)
                     : kind == 2 ? weft_roll(x, 2, ndim - 1)
                     : kind == 3 ? weft_slice(x, 0, 1, shape[0], 2)
                     : kind == 4 ? weft_movedim(x, 1, (const int[]){ 0 }, (const int[]){ ndim - 1 })
                     : kind == 5 ? weft_pad(x, WEFT_PAD_CONSTANT, 0, ndim, before, after)
                     : kind == 6 ? weft_cat(2, (weft_tensor *[]){ x, x }, ndim - 1)
                     : kind == 7 ? weft_stack(2, (weft_tensor *[]){ x, x }, 0)
                     : kind == 8 ? weft_index_select(x, 0, indices)
                     : kind == 9 ? weft_select(x, ndim - 1, weft_tensor_size(x, ndim - 1) - 1 < 0 ? 0 : -1)
                     : kind == 10 ? weft_unsqueeze(x, 0)
                                  : weft_tril(weft_unsqueeze(x, 0), 0);
    }
    if (results[1] == NULL) { /* nothing to choose from */
        assert_null(results[0]);
        weft_clear_error();
    } else {
        int64_t count = weft_tensor_num_elements(results[1]), moved[WEFT_MAX_DIMS];
        double *from = malloc(((size_t)count + 1) * sizeof(*from));
        number *expected = malloc(((size_t)count + 1) * sizeof(*expected));
        assert_int_equal(weft_to_host(results[1], from, (size_t)count * sizeof(*from)), WEFT_OK);
        for (int64_t i = 0; i < count; i++) { /* 0 is filled in */
            expected[i] = from[i] == 0 ? 0 : a.dense[(int64_t)from[i] - 1];
        }
        for (int d = 0; d < weft_tensor_ndim(results[1]); d++) {
            moved[d] = weft_tensor_size(results[1], d);
        }
        char what[400];
        snprintf(what, sizeof(what), "movement %d of %s %s", kind, weft_dtype_name(a.dtype), describe_complex(&a));
        check_complex(results[0], a.dtype, weft_tensor_ndim(results[1]), moved, expected, 200, 40, what);
        free(from);
        free(expected);
    }
    release_complex(&a);
    release(&places);
}

/* ---- sums and products --------------------------------------------------------------------------------- */

static void case_sum(void)
{
    int64_t shape[WEFT_MAX_DIMS], reduced[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape), dims[WEFT_MAX_DIMS], num_dims = 0, kind = (int)below(3), kept = 0;
    bool keeps = below(2), is_reduced[WEFT_MAX_DIMS] = { false };
    int chosen = ndim == 0 ? 0 : 1 + (int)below((1 << ndim) - 1);
    for (int d = 0; d < ndim; d++) {
        is_reduced[d] = chosen >> d & 1;
        dims[num_dims] = d;
        num_dims += is_reduced[d];
        reduced[kept] = is_reduced[d] ? 1 : shape[d];
        kept += !is_reduced[d] || keeps;
    }
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, false);
    int64_t count = shape_count(kept, reduced), each = count == 0 ? 0 : a.count / count;
    number *expected = calloc((size_t)count + 1, sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) {
        int64_t place = 0, step = 1, rest = i;
        for (int d = ndim - 1; d >= 0; d--) {
            place += is_reduced[d] ? 0 : rest % shape[d] * step;
            step *= is_reduced[d] ? 1 : shape[d];
            rest /= shape[d];
        }
        double share = cabs(a.dense[i]);
        expected[place] += kind == 0 ? a.dense[i] : kind == 1 ? a.dense[i] / (double)each : share * share;
    }
    for (int64_t i = 0; i < count && kind == 2; i++) {
        expected[i] = sqrt(creal(expected[i]));
    }
    for (int64_t i = 0; i < count && kind == 1 && each == 0; i++) {
        expected[i] = number_of(NAN, NAN);
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s) over %d dimensions", kind == 0 ? "sum" : kind == 1 ? "mean" : "norm",
             weft_dtype_name(a.dtype), describe_complex(&a), num_dims);
    weft_tensor *result = kind == 0   ? weft_sum(a.tensor, set_of_dims(num_dims, dims), keeps)
                          : kind == 1 ? weft_mean(a.tensor, set_of_dims(num_dims, dims), keeps)
                                      : weft_norm(a.tensor, 2, set_of_dims(num_dims, dims), keeps);
    weft_dtype type = kind < 2 ? a.dtype : a.dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    check_complex(result, type, kept, reduced, expected, 200, 40 + 4 * (double)each, what);
    free(expected);
    release_complex(&a);
}

/* Products, truth values, and places of what is not 0: along the last dimension. */
static void case_products(void)
{
    const int64_t shape[] = { any_size(), any_size() };
    const bool exact = below(2) != 0;
    complex_operand a = make_complex(any_mesh(), any_complex(), 2, shape, exact);
    number expected[MAX_SIZE], any[MAX_SIZE], all[MAX_SIZE];
    double largest = 1;
    int64_t count = 0;
    for (int64_t i = 0; i < shape[0]; i++) {
        expected[i] = all[i] = 1;
        any[i] = 0;
        double size_of_row = 1;
        for (int64_t j = 0; j < shape[1]; j++) {
            const number value = a.dense[i * shape[1] + j];
            expected[i] *= value;
            any[i] = any[i] != 0 || value != 0;
            all[i] = all[i] != 0 && value != 0;
            count += value != 0;
            size_of_row *= 1 + cabs(value);
        }
        largest = size_of_row > largest ? size_of_row : largest;
    }
    char what[400];
    snprintf(what, sizeof(what), "prod, any, all of %s %s", weft_dtype_name(a.dtype), describe_complex(&a));
    check_complex(weft_prod(a.tensor, 1, false), a.dtype, 1, shape, expected, 400, 40 * largest, what);
    weft_tensor *so_far = weft_cumprod(a.tensor, 1), *sums = weft_cumsum(a.tensor, 1);
    if (shape[1] > 0) {
        check_complex(weft_select(so_far, 1, -1), a.dtype, 1, shape, expected, 400, 40 * largest, what);
        assert_int_equal(weft_tensor_dtype(sums), a.dtype);
    }
    if (exact) {
        check_complex(weft_any(a.tensor, 1, false), WEFT_BOOL, 1, shape, any, 0, 0, what);
        check_complex(weft_all(a.tensor, 1, false), WEFT_BOOL, 1, shape, all, 0, 0, what);
        assert_int_equal(weft_tensor_size(weft_nonzero(a.tensor), 0), count);
    }
    release_complex(&a);
}

static void case_matmul(void)
{
    int64_t m = any_size(), k = any_size(), n = any_size();
    bool transpose_a = below(2), transpose_b = below(2);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_complex();
    const int64_t of_a[] = { transpose_a ? k : m, transpose_a ? m : k }, of_b[] = { transpose_b ? n : k, transpose_b ? k : n };
    complex_operand a = make_complex(mesh, type, 2, of_a, false), b = make_complex(mesh, type, 2, of_b, false);
    number *expected = calloc((size_t)(m * n) + 1, sizeof(*expected));
    for (int64_t i = 0; i < m * n; i++) {
        for (int64_t l = 0; l < k; l++) {
            expected[i] += a.dense[transpose_a ? l * m + i / n : i / n * k + l] * b.dense[transpose_b ? i % n * k + l : l * n + i % n];
        }
    }
    char what[600];
    snprintf(what, sizeof(what), "matmul(%s %s, %d; %s, %d)", weft_dtype_name(type), describe_complex(&a), transpose_a,
             describe_complex(&b), transpose_b);
    check_complex(weft_matmul_ex(a.tensor, transpose_a, b.tensor, transpose_b), type, 2, (const int64_t[]){ m, n }, expected, 400,
                  40 + 18 * (double)k, what);
    weft_tensor *operands[] = { a.tensor, b.tensor };
    const char *equation = transpose_a ? (transpose_b ? "ki,jk->ij" : "ki,kj->ij") : transpose_b ? "ik,jk->ij" : "ik,kj->ij";
    check_complex(weft_einsum(equation, 2, operands), type, 2, (const int64_t[]){ m, n }, expected, 400, 40 + 18 * (double)k, what);
    free(expected);
    release_complex(&a);
    release_complex(&b);
}

static const family families[] = {
    { "redistribute", case_redistribute }, { "two", case_two },   { "one", case_one },       { "parts", case_parts },
    { "views", case_views },               { "move", case_move }, { "sum", case_sum }, { "matmul", case_matmul },
    { "products", case_products },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* ---- single calls -------------------------------------------------------------------------------------- */

static void test_refusals(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    const int64_t shape[] = { 3 };
    weft_tensor *z = weft_ones(WEFT_C64, 1, shape, mesh, NULL), *x = weft_ones(WEFT_F32, 1, shape, mesh, NULL);
    assert_null(weft_to_type(z, WEFT_F32));
    assert_error(WEFT_ERR_DTYPE, "weft_real()");
    assert_null(weft_lt(z, z));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_maximum(x, z));
    assert_error(WEFT_ERR_DTYPE, "b is c64");
    assert_null(weft_sort(z, 0, false, NULL));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_floor(z));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_max(z, 0, false));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_add_inplace(x, z, 1));
    assert_error(WEFT_ERR_DTYPE, "cannot hold the result");
    assert_null(weft_imag(x));
    assert_error(WEFT_ERR_DTYPE, "a is f32");
    assert_null(weft_view_as_complex(x));
    assert_error(WEFT_ERR_SHAPE, "size 3");
    assert_null(weft_arange(WEFT_C64, 0, 3, 1, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "real numbers");
    weft_placement largest = weft_partial(WEFT_MAX);
    assert_null(weft_empty(WEFT_C64, 1, shape, mesh, &largest));
    assert_error(WEFT_ERR_LAYOUT, "entry 0 is Partial(max) of c64, but complex numbers have no order");
}

/* weft_view_as_real() and weft_view_as_complex() share memory. */
static void test_views_share(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_placement by_rows = weft_shard(0);
    weft_tensor *z = weft_ones(WEFT_C128, 2, (const int64_t[]){ 6, 5 }, mesh, &by_rows);
    weft_tensor *pairs = weft_view_as_real(z), *again = weft_view_as_complex(pairs);
    assert_no_error();
    if (weft_local_ranks() > 0) {
        const void *first = weft_local_acquire(z, 0, WEFT_READ), *second = weft_local_acquire(pairs, 0, WEFT_READ);
        const void *third = weft_local_acquire(again, 0, WEFT_READ);
        assert_ptr_equal(first, second);
        assert_ptr_equal(first, third);
        weft_local_release(z, 0);
        weft_local_release(pairs, 0);
        weft_local_release(again, 0);
    }
    weft_add_inplace(pairs, pairs, 1); /* a value: z does not change */
    number ones[30], host[30];
    for (int i = 0; i < 30; i++) {
        ones[i] = 1;
    }
    assert_int_equal(weft_to_host(z, host, sizeof(host)), WEFT_OK);
    assert_memory_equal(host, ones, sizeof(host));
}

static void test_random(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    enum { COUNT = 40000 };
    weft_tensor *z = weft_randn(WEFT_C128, 1, (const int64_t[]){ COUNT }, mesh, NULL);
    number *host = malloc(COUNT * sizeof(*host));
    assert_no_error();
    assert_int_equal(weft_to_host(z, host, COUNT * sizeof(*host)), WEFT_OK);
    double square = 0, product = 0;
    number mean = 0;
    for (int i = 0; i < COUNT; i++) {
        mean += host[i] / COUNT;
        square += creal(host[i]) * creal(host[i]) + cimag(host[i]) * cimag(host[i]);
        product += creal(host[i]) * cimag(host[i]);
    }
    assert_true(cabs(mean) < 0.02);
    assert_true(fabs(square / COUNT - 1) < 0.03);
    assert_true(fabs(product / COUNT) < 0.02);
    free(host);
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_refusals, test_views_share, test_random };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
