/* Products, convolutions and attention on random shapes, meshes and placements against plain loops, with
 * panels of several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how
 * many cases of each. */
#include "tensor/state.h"

#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types --------------------------------------------------------------------------------------------- */

/* One of the types of products; operands of 16 bits are made as WEFT_F32, of small whole numbers. */
static weft_dtype any_product_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_BF16, WEFT_F16 };
    return types[below(6)];
}

static weft_dtype any_float_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    return types[below(4)];
}

static weft_dtype type_of_operand(weft_dtype type)
{
    return type == WEFT_BF16 || type == WEFT_F16 ? WEFT_F32 : type;
}

static operand make(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[], value_kind kind)
{
    operand x = make_operand(mesh, type_of_operand(type), ndim, shape, kind, 0);
    if (type_of_operand(type) != type) {
        x.tensor = weft_to_type(x.tensor, type);
        assert_no_error();
    }
    return x;
}

/* The nearest value of a type of 16 bits; the numbers here are neither too large nor too small for it. */
static double rounded(weft_dtype type, double x)
{
    if (x == 0) {
        return x;
    }
    double unit = ldexp(1, ilogb(x) - (type == WEFT_BF16 ? 7 : 10));
    return nearbyint(x / unit) * unit;
}

/* Results of 16 bits are rounded once: of exact sums, they are known; others are half a unit away at most, and
 * may lie on either side where a sum is halfway between two numbers. */
static void check_result(weft_tensor *result, weft_dtype type, int ndim, const int64_t shape[],
                         const double *expected, double roundings, double magnitude, const char *what)
{
    if (type_of_operand(type) == type) {
        check(result, type, ndim, shape, expected, roundings, magnitude, what);
        return;
    }
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), type);
    double unit = (type == WEFT_BF16 ? 0x1p-8 : 0x1p-11) / 0x1p-23;
    int64_t count = shape_count(ndim, shape);
    double *nearest = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        nearest[i] = roundings == 0 ? rounded(type, expected[i]) : expected[i];
    }
    check(weft_to_type(result, WEFT_F32), WEFT_F32, ndim, shape, nearest,
          roundings == 0 ? 0 : roundings + unit, magnitude, what);
    free(nearest);
}

/* Two results of one call: the same bits. */
static void check_repeats(weft_tensor *a, weft_tensor *b)
{
    assert_no_error();
    size_t bytes = weft_dtype_size(weft_tensor_dtype(a));
    for (int d = 0; d < weft_tensor_ndim(a); d++) {
        bytes *= (size_t)weft_tensor_size(a, d);
    }
    char *first = malloc(bytes + 1), *second = malloc(bytes + 1);
    assert_int_equal(weft_to_host(a, first), WEFT_OK);
    assert_int_equal(weft_to_host(b, second), WEFT_OK);
    assert_memory_equal(first, second, bytes);
    free(first);
    free(second);
}

/* ---- matmul -------------------------------------------------------------------------------------------- */

/* Sizes of the batch of one operand, which broadcast to `batch`. */
static int batch_of(int num_batch, const int64_t batch[], int64_t own[])
{
    int dims = below(3) ? num_batch : (int)below(num_batch + 1);
    for (int d = 0; d < dims; d++) {
        own[d] = below(4) == 0 ? 1 : batch[num_batch - dims + d];
    }
    return dims;
}

/* Which matrix of an operand belongs to matrix `i` of the result. */
static int64_t matrix_number(int num_batch, const int64_t batch[], int dims, const int64_t own[], int64_t i)
{
    int64_t number = 0, step = 1;
    for (int d = num_batch - 1; d >= 0; d--) {
        int at = d - (num_batch - dims);
        if (at >= 0) {
            number += (own[at] == 1 ? 0 : i % batch[d]) * step;
            step *= own[at];
        }
        i /= batch[d];
    }
    return number;
}

/* Appends the sizes of a matrix, or of a vector. */
static int append_matrix(int64_t shape[], int dims, bool vector, bool transposed, int64_t rows,
                         int64_t columns, int64_t length)
{
    if (vector) {
        shape[dims] = length;
        return dims + 1;
    }
    shape[dims] = transposed ? columns : rows;
    shape[dims + 1] = transposed ? rows : columns;
    return dims + 2;
}

typedef struct matmul_shapes {
    bool vector_a, vector_b, transpose_a, transpose_b;
    int num_batch, dims_a, dims_b, ndim_a, ndim_b, ndim;
    int64_t batch[2], a[4], b[4], shape[4], m, n, k;
} matmul_shapes;

static matmul_shapes any_matmul(void)
{
    matmul_shapes s = { .vector_a = below(5) == 0, .vector_b = below(5) == 0 };
    s.transpose_a = !s.vector_a && below(2);
    s.transpose_b = !s.vector_b && below(2);
    s.num_batch = below(2) ? 0 : (int)below(3);
    s.m = s.vector_a ? 1 : any_size();
    s.n = s.vector_b ? 1 : any_size();
    s.k = any_size();
    int64_t sizes[2] = { below(6), below(4) };
    s.dims_a = s.vector_a ? 0 : batch_of(s.num_batch, sizes, s.a);
    s.dims_b = s.vector_b ? 0 : batch_of(s.num_batch, sizes, s.b);
    int dims = s.dims_a > s.dims_b ? s.dims_a : s.dims_b;
    for (int d = 0; d < dims; d++) {
        int at_a = d - (dims - s.dims_a), at_b = d - (dims - s.dims_b);
        int64_t size_a = at_a >= 0 ? s.a[at_a] : 1, size_b = at_b >= 0 ? s.b[at_b] : 1;
        s.shape[d] = s.batch[d] = size_a == 1 ? size_b : size_a;
    }
    s.num_batch = s.ndim = dims;
    if (!s.vector_a) {
        s.shape[s.ndim++] = s.m;
    }
    if (!s.vector_b) {
        s.shape[s.ndim++] = s.n;
    }
    s.ndim_a = append_matrix(s.a, s.dims_a, s.vector_a, s.transpose_a, s.m, s.k, s.k);
    s.ndim_b = append_matrix(s.b, s.dims_b, s.vector_b, s.transpose_b, s.k, s.n, s.k);
    return s;
}

static double *expected_product(const matmul_shapes *s, const operand *a, const operand *b)
{
    int64_t count = shape_count(s->ndim, s->shape);
    double *expected = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        int64_t column = i % s->n, row = i / s->n % s->m, product = i / s->n / s->m;
        const double *left =
            a->dense + matrix_number(s->num_batch, s->batch, s->dims_a, s->a, product) * s->m * s->k;
        const double *right =
            b->dense + matrix_number(s->num_batch, s->batch, s->dims_b, s->b, product) * s->k * s->n;
        for (int64_t j = 0; j < s->k; j++) {
            expected[i] += left[s->transpose_a ? j * s->m + row : row * s->k + j] *
                           right[s->transpose_b ? column * s->k + j : j * s->n + column];
        }
    }
    return expected;
}

static void case_matmul(void)
{
    matmul_shapes s = any_matmul();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make(mesh, type, s.ndim_a, s.a, WHOLE), b = make(mesh, type, s.ndim_b, s.b, WHOLE);
    double *expected = expected_product(&s, &a, &b);
    char what[600];
    snprintf(what, sizeof(what), "matmul(%s%s, %s%s) of %s", describe_operand(&a), s.transpose_a ? "^T" : "",
             describe_operand(&b), s.transpose_b ? "^T" : "", weft_dtype_name(type));
    weft_tensor *result = s.transpose_a || s.transpose_b || below(2)
                              ? weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b)
                              : weft_matmul(a.tensor, b.tensor);
    check_result(result, type, s.ndim, s.shape, expected, a.exact && b.exact ? 0 : 64, 500, what);
    free(expected);
    release(&a);
    release(&b);
}

/* Reals, twice: what is added in which order depends on nothing but layouts. */
static void case_matmul_repeats(void)
{
    matmul_shapes s = any_matmul();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    operand a = make(mesh, type, s.ndim_a, s.a, REAL), b = make(mesh, type, s.ndim_b, s.b, REAL);
    check_repeats(weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b),
                  weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b));
    checks_made++;
    release(&a);
    release(&b);
}

static void case_dot(void)
{
    int64_t length = any_size();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make(mesh, type, 1, &length, WHOLE), b = make(mesh, type, 1, &length, WHOLE);
    double expected = 0;
    for (int64_t i = 0; i < length; i++) {
        expected += a.dense[i] * b.dense[i];
    }
    check_result(weft_dot(a.tensor, b.tensor), type, 0, NULL, &expected, a.exact && b.exact ? 0 : 64, 500,
                 describe_operand(&a));
    release(&a);
    release(&b);
}

static void case_outer(void)
{
    int64_t shape[] = { any_size(), any_size() };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make(mesh, type, 1, &shape[0], WHOLE), b = make(mesh, type, 1, &shape[1], WHOLE);
    double *expected = malloc((size_t)(shape[0] * shape[1] + 1) * sizeof(double));
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        expected[i] = a.dense[i / shape[1]] * b.dense[i % shape[1]];
    }
    check_result(weft_outer(a.tensor, b.tensor), type, 2, shape, expected, a.exact && b.exact ? 0 : 64, 30,
                 describe_operand(&a));
    free(expected);
    release(&a);
    release(&b);
}

static void case_addmm(void)
{
    int64_t m = any_size(), n = any_size(), k = any_size();
    int64_t shape_a[] = { m, k }, shape_b[] = { k, n }, shape[] = { m, n }, shape_c[2];
    int ndim_c = (int)below(3);
    for (int d = 0; d < ndim_c; d++) {
        shape_c[d] = below(3) == 0 ? 1 : shape[2 - ndim_c + d];
    }
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make(mesh, type, 2, shape_a, WHOLE), b = make(mesh, type, 2, shape_b, WHOLE),
            c = make(mesh, type, ndim_c, shape_c, WHOLE);
    double beta = (double)below(4) - 1, alpha = (double)below(4) - 1;
    double *expected = calloc((size_t)(m * n + 1), sizeof(double));
    for (int64_t i = 0; i < m * n; i++) {
        for (int64_t j = 0; j < k; j++) {
            expected[i] += alpha * a.dense[i / n * k + j] * b.dense[j * n + i % n];
        }
        int64_t row = ndim_c == 2 && shape_c[0] != 1 ? i / n : 0;
        int64_t column = ndim_c > 0 && shape_c[ndim_c - 1] != 1 ? i % n : 0;
        expected[i] += beta * c.dense[row * (ndim_c > 0 ? shape_c[ndim_c - 1] : 1) + column];
    }
    char what[700];
    snprintf(what, sizeof(what), "addmm(%s, %s, %s, %g, %g) of %s", describe_operand(&c),
             describe_operand(&a), describe_operand(&b), beta, alpha, weft_dtype_name(type));
    check_result(weft_addmm(c.tensor, a.tensor, b.tensor, beta, alpha), type, 2, shape, expected,
                 a.exact && b.exact && c.exact ? 0 : 64, 1500, what);
    free(expected);
    release(&a);
    release(&b);
    release(&c);
}

static void case_linear(void)
{
    int64_t n = any_size(), k = any_size(), shape_x[4], shape[4], shape_weight[] = { n, k };
    int ndim = 1 + (int)below(4);
    for (int d = 0; d < ndim - 1; d++) {
        shape_x[d] = shape[d] = below(7);
    }
    shape_x[ndim - 1] = k;
    shape[ndim - 1] = n;
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    bool biased = below(3) > 0;
    operand x = make(mesh, type, ndim, shape_x, WHOLE), weight = make(mesh, type, 2, shape_weight, WHOLE),
            bias = make(mesh, type, 1, &n, WHOLE);
    int64_t count = shape_count(ndim, shape);
    double *expected = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = biased ? bias.dense[i % n] : 0;
        for (int64_t j = 0; j < k; j++) {
            expected[i] += x.dense[i / n * k + j] * weight.dense[i % n * k + j];
        }
    }
    char what[700];
    snprintf(what, sizeof(what), "linear(%s, %s, %s) of %s", describe_operand(&x), describe_operand(&weight),
             biased ? describe_operand(&bias) : "NULL", weft_dtype_name(type));
    check_result(weft_linear(x.tensor, weight.tensor, biased ? bias.tensor : NULL), type, ndim, shape,
                 expected, x.exact && weight.exact && bias.exact ? 0 : 64, 500, what);
    free(expected);
    release(&x);
    release(&weight);
    release(&bias);
}

/* ---- convolutions -------------------------------------------------------------------------------------- */

/* With one spatial dimension, h, i and y are 1. */
typedef struct convolution_case {
    int spatial;
    weft_convolution options; /* of h and w */
    int64_t x[4], weight[4], result[4];
} convolution_case;

static convolution_case any_convolution(void)
{
    convolution_case c = { .spatial = 1 + (int)below(2) };
    int64_t groups = below(2) ? 1 : 1 + below(3), channels = below(4), features = below(4);
    c.options.groups = groups;
    c.x[0] = c.result[0] = below(5);
    c.x[1] = groups * channels;
    c.weight[0] = c.result[1] = groups * features;
    c.weight[1] = channels;
    for (int d = 0; d < 2; d++) {
        bool one = d == 0 && c.spatial == 1;
        c.options.stride[d] = one ? 1 : 1 + below(3);
        c.options.padding[d] = one ? 0 : below(3);
        c.options.dilation[d] = one ? 1 : 1 + below(2);
        c.weight[2 + d] = one ? 1 : 1 + below(4);
        int64_t least = c.options.dilation[d] * (c.weight[2 + d] - 1) + 1 - 2 * c.options.padding[d];
        c.x[2 + d] = one ? 1 : (least > 1 ? least : 1) + below(9);
        c.result[2 + d] = (c.x[2 + d] - least) / c.options.stride[d] + 1;
    }
    return c;
}

/* The options and shapes as the functions take them. */
static weft_convolution options_of(const convolution_case *c)
{
    weft_convolution options = c->options;
    if (c->spatial == 1) {
        options.stride[0] = options.stride[1] == 1 ? 0 : options.stride[1];
        options.padding[0] = options.padding[1];
        options.dilation[0] = options.dilation[1];
        options.stride[1] = options.padding[1] = options.dilation[1] = -1; /* do not count */
    }
    return options;
}

static int shape_of(const convolution_case *c, const int64_t from[4], int64_t shape[4])
{
    int ndim = 0;
    for (int d = 0; d < 4; d++) {
        if (d != 2 || c->spatial == 2) {
            shape[ndim++] = from[d];
        }
    }
    return ndim;
}

/* One product of an element of x, one of the weights, and one of the result. */
typedef void (*visit_function)(void *context, int64_t x, int64_t weight, int64_t result);

static void visit_products(const convolution_case *c, visit_function visit, void *context)
{
    const int64_t *x = c->x, *w = c->weight, *r = c->result;
    int64_t features = w[0] / c->options.groups;
    for (int64_t at = 0; at < shape_count(4, r); at++) {
        int64_t z = at % r[3], y = at / r[3] % r[2], o = at / r[3] / r[2] % r[1], n = at / r[3] / r[2] / r[1];
        for (int64_t tap = 0; tap < w[1] * w[2] * w[3]; tap++) {
            int64_t j = tap % w[3], i = tap / w[3] % w[2], channel = tap / w[3] / w[2];
            int64_t h = y * c->options.stride[0] + i * c->options.dilation[0] - c->options.padding[0];
            int64_t v = z * c->options.stride[1] + j * c->options.dilation[1] - c->options.padding[1];
            if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) {
                continue;
            }
            channel += o / features * w[1];
            visit(context, ((n * x[1] + channel) * x[2] + h) * x[3] + v, o * w[1] * w[2] * w[3] + tap, at);
        }
    }
}

typedef struct convolved {
    const double *x, *weight, *result;
    double *expected;
} convolved;

static void add_result(void *context, int64_t x, int64_t weight, int64_t result)
{
    const convolved *c = context;
    c->expected[result] += c->x[x] * c->weight[weight];
}

static void add_input(void *context, int64_t x, int64_t weight, int64_t result)
{
    const convolved *c = context;
    c->expected[x] += c->weight[weight] * c->result[result];
}

static void add_weight(void *context, int64_t x, int64_t weight, int64_t result)
{
    const convolved *c = context;
    c->expected[weight] += c->x[x] * c->result[result];
}

static const char *describe_convolution(const convolution_case *c, const operand *a, const operand *b,
                                        weft_dtype type)
{
    static char text[800];
    const weft_convolution *o = &c->options;
    snprintf(text, sizeof(text), "%s and %s, stride %dx%d, padding %dx%d, dilation %dx%d, groups %d, %s",
             describe_operand(a), describe_operand(b), (int)o->stride[0], (int)o->stride[1],
             (int)o->padding[0], (int)o->padding[1], (int)o->dilation[0], (int)o->dilation[1], (int)o->groups,
             weft_dtype_name(type));
    return text;
}

static void case_convolution(void)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape_x[4], shape_weight[4], shape[4];
    int ndim = shape_of(&c, c.x, shape_x);
    shape_of(&c, c.weight, shape_weight);
    shape_of(&c, c.result, shape);
    bool biased = below(2);
    operand x = make(mesh, type, ndim, shape_x, WHOLE), weight = make(mesh, type, ndim, shape_weight, WHOLE),
            bias = make(mesh, type, 1, &c.weight[0], WHOLE);
    int64_t count = shape_count(ndim, shape), plane = c.result[2] * c.result[3];
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = biased ? bias.dense[i / plane % c.weight[0]] : 0;
    }
    visit_products(&c, add_result, &(convolved){ x.dense, weight.dense, NULL, expected });
    weft_tensor *result = (c.spatial == 2 ? weft_conv2d : weft_conv1d)(x.tensor, weight.tensor,
                                                                       biased ? bias.tensor : NULL, &options);
    check_result(result, type, ndim, shape, expected, x.exact && weight.exact && bias.exact ? 0 : 64, 500,
                 describe_convolution(&c, &x, &weight, type));
    free(expected);
    release(&x);
    release(&weight);
    release(&bias);
}

static void case_convolution_backward_input(void)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape_x[4], shape_weight[4], shape[4];
    int ndim = shape_of(&c, c.x, shape_x);
    shape_of(&c, c.weight, shape_weight);
    shape_of(&c, c.result, shape);
    operand gradient = make(mesh, type, ndim, shape, WHOLE),
            weight = make(mesh, type, ndim, shape_weight, WHOLE);
    double *expected = calloc((size_t)shape_count(ndim, shape_x) + 1, sizeof(double));
    visit_products(&c, add_input, &(convolved){ NULL, weight.dense, gradient.dense, expected });
    weft_tensor *result = (c.spatial == 2 ? weft_conv2d_backward_input : weft_conv1d_backward_input)(
        gradient.tensor, weight.tensor, shape_x, &options);
    check_result(result, type, ndim, shape_x, expected, gradient.exact && weight.exact ? 0 : 64, 500,
                 describe_convolution(&c, &gradient, &weight, type));
    free(expected);
    release(&gradient);
    release(&weight);
}

static void case_convolution_backward_weight(void)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape_x[4], shape_weight[4], shape[4];
    int ndim = shape_of(&c, c.x, shape_x);
    shape_of(&c, c.weight, shape_weight);
    shape_of(&c, c.result, shape);
    operand gradient = make(mesh, type, ndim, shape, WHOLE), x = make(mesh, type, ndim, shape_x, WHOLE);
    double *expected = calloc((size_t)shape_count(ndim, shape_weight) + 1, sizeof(double));
    visit_products(&c, add_weight, &(convolved){ x.dense, NULL, gradient.dense, expected });
    weft_tensor *result = (c.spatial == 2 ? weft_conv2d_backward_weight : weft_conv1d_backward_weight)(
        gradient.tensor, x.tensor, shape_weight, &options);
    check_result(result, type, ndim, shape_weight, expected, gradient.exact && x.exact ? 0 : 256, 2000,
                 describe_convolution(&c, &gradient, &x, type));
    free(expected);
    release(&gradient);
    release(&x);
}

/* Reals, twice; also with more rows than columns are made for at a time. */
static void case_convolution_repeats(void)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape_x[4], shape_weight[4];
    int ndim = shape_of(&c, c.x, shape_x);
    shape_of(&c, c.weight, shape_weight);
    operand x = make(mesh, type, ndim, shape_x, REAL), weight = make(mesh, type, ndim, shape_weight, REAL);
    weft_tensor *results[2];
    for (int i = 0; i < 2; i++) {
        results[i] = (c.spatial == 2 ? weft_conv2d : weft_conv1d)(x.tensor, weight.tensor, NULL, &options);
    }
    check_repeats(results[0], results[1]);
    checks_made++;
    release(&x);
    release(&weight);
}

/* ---- attention ----------------------------------------------------------------------------------------- */

/* Where `x` has the element at index `i` of `shape` (of `batch` dimensions) with (row, column) behind it,
 * with broadcasting. */
static int64_t matrix_index(const operand *x, int batch, const int64_t shape[], int64_t i, int64_t row,
                            int64_t column)
{
    int64_t index = 0, step = 1, at[2] = { row, column };
    for (int d = batch + 1; d >= 0; d--) {
        int own = d - (batch + 2 - x->ndim);
        int64_t place = d >= batch ? at[d - batch] : i % shape[d];
        if (own >= 0) {
            index += (x->shape[own] == 1 ? 0 : place) * step;
            step *= x->shape[own];
        }
        i = d >= batch ? i : i / shape[d];
    }
    return index;
}

static double matrix_element(const operand *x, int batch, const int64_t shape[], int64_t i, int64_t row,
                             int64_t column)
{
    return x->dense[matrix_index(x, batch, shape, i, row, column)];
}

typedef struct attention_case {
    int batch; /* dimensions */
    int64_t shape[4], s, t, e, f;
    bool causal;
    double scale;
    const operand *q, *k, *v, *mask;
    bool truth; /* of the mask */
} attention_case;

/* The weights of a row's keys, by the plain formula. */
static void row_weights(const attention_case *c, int64_t i, int64_t row, double *weights)
{
    double most = -INFINITY, sum = 0;
    for (int64_t t = 0; t < c->t; t++) {
        weights[t] = 0;
        for (int64_t e = 0; e < c->e; e++) {
            weights[t] += c->scale * matrix_element(c->q, c->batch, c->shape, i, row, e) *
                          matrix_element(c->k, c->batch, c->shape, i, t, e);
        }
        double mask = c->mask == NULL ? c->truth : matrix_element(c->mask, c->batch, c->shape, i, row, t);
        weights[t] = (c->causal && t > row) || (c->truth && mask == 0) ? -INFINITY
                     : c->truth                                        ? weights[t]
                                                                       : weights[t] + mask;
        most = fmax(most, weights[t]);
    }
    for (int64_t t = 0; t < c->t; t++) {
        weights[t] = most > -INFINITY ? exp(weights[t] - most) : 0;
        sum += weights[t];
    }
    for (int64_t t = 0; t < c->t; t++) {
        weights[t] /= sum > 0 ? sum : 1;
    }
}

static void expected_row(const attention_case *c, int64_t i, int64_t row, double *expected)
{
    double *weights = malloc((size_t)(c->t + 1) * sizeof(double));
    row_weights(c, i, row, weights);
    for (int64_t f = 0; f < c->f; f++) {
        expected[f] = 0;
        for (int64_t t = 0; t < c->t; t++) {
            expected[f] += weights[t] * matrix_element(c->v, c->batch, c->shape, i, t, f);
        }
    }
    free(weights);
}

/* The shape of an operand: some of the batch, and a matrix. */
static int operand_shape(int batch, const int64_t shape[], bool all, int64_t rows, int64_t columns,
                         int64_t own[])
{
    int dims = all || below(2) ? batch : (int)below(batch + 1);
    for (int d = 0; d < dims; d++) {
        own[d] = !all && below(4) == 0 ? 1 : shape[batch - dims + d];
    }
    own[dims] = rows;
    own[dims + 1] = columns;
    return dims + 2;
}

static operand any_mask(weft_mesh *mesh, const attention_case *c, bool truth, int numbers)
{
    int64_t shape[4];
    int ndim = operand_shape(c->batch, c->shape, false, below(4) ? c->s : 1, below(4) ? c->t : 1, shape);
    int dropped = below(5) == 0 ? 2 - (int)below(2) : 0; /* leading ones: down to a vector or a scalar */
    if (ndim == 2 && dropped > 0) {
        ndim -= dropped;
        shape[0] = shape[1];
    }
    return make_operand(mesh, truth ? WEFT_I32 : WEFT_F32, ndim, shape, truth ? INDEX : WHOLE, numbers);
}

/* Blocks of rows and keys have borders at 128 and 512: lengths go beyond. */
static int64_t any_length(int64_t border)
{
    return below(8) == 0 ? border - 8 + below(24) : any_size();
}

/* Whether sequences are sharded along the same mesh dimensions, or those of k and v alone. */
typedef enum sequences { ANYWHERE, IN_RING, KEYS_ALONE } sequences;

/* Along mesh dimension m the sequence is sharded, or it is not. */
static void lay_sequence(operand *x, int m, bool sharded)
{
    bool is = x->placements[m].kind == WEFT_SHARD && x->placements[m].dim == x->ndim - 2;
    if (sharded) {
        x->placements[m] = weft_shard(x->ndim - 2);
    } else if (is) {
        x->placements[m] = weft_replicate();
    }
}

/* Sequences sharded along some mesh dimensions: blocks go round there. Returns them, as bits; addends that
 * had to be reduced to change the type may have moved all the rest. Keys alone: along some of these
 * or all. */
static unsigned lay_in_ring(operand *const all[3], weft_dtype type, sequences how)
{
    int dims = weft_mesh_ndim(all[0]->mesh);
    unsigned chosen = 1u << below(dims) | (unsigned)below(1 << dims);
    unsigned of_q = how == IN_RING ? chosen : chosen & (unsigned)below(1 << dims), laid = of_q;
    for (int i = 0; i < 3; i++) {
        for (int m = 0; m < dims; m++) {
            if (chosen >> m & 1) {
                lay_sequence(all[i], m, i > 0 || (of_q >> m & 1));
            }
        }
        realise(all[i]);
        all[i]->tensor = weft_to_type(all[i]->tensor, type);
        assert_no_error();
        for (int m = 0; m < dims; m++) {
            weft_placement now = weft_tensor_placements(all[i]->tensor)[m];
            bool sharded = now.kind == WEFT_SHARD && now.dim == all[i]->ndim - 2;
            laid &= sharded ? ~0u : ~(1u << m);
        }
    }
    return laid;
}

/* The sequence of a result is sharded where that of its operands is. */
static void check_stays(const operand *q, const weft_tensor *result, unsigned ring, const char *what)
{
    for (int m = 0; m < weft_mesh_ndim(q->mesh); m++) {
        weft_placement now = weft_tensor_placements(result)[m];
        bool stays = now.kind == WEFT_SHARD && now.dim == weft_tensor_ndim(result) - 2;
        if (ring >> m & 1 && weft_mesh_size(q->mesh, m) > 1 && !stays) {
            fail_msg("%s: along mesh dimension %d the sequence is not sharded any more", what, m);
        }
    }
}

/* All that a case has. */
typedef struct attention_operands {
    operand q, k, v, mask, gradient;
    weft_dtype type;
    weft_attention_options options;
    unsigned ring;
    int ndim; /* of the result */
    int64_t shape[4], count;
    char what[900];
} attention_operands;

static void draw_attention(attention_case *c, attention_operands *x, sequences how)
{
    *c = (attention_case){ .batch = (int)below(3),
                           .shape = { below(5), below(4) },
                           .s = any_length(128),
                           .t = any_length(512),
                           .e = 1 + below(9),
                           .f = 1 + below(9),
                           .causal = below(2) };
    if (how == KEYS_ALONE && below(4)) {
        c->s = 1 + below(2); /* few rows, for which the keys stay */
        c->t = 1 + any_length(512);
    }
    weft_mesh *mesh = any_mesh();
    int64_t shape_q[4], shape_k[4], shape_v[4];
    bool whole = how == ANYWHERE || below(3) > 0; /* else q lacks some of the batch too */
    *x = (attention_operands){ .type = any_float_type(), .ndim = c->batch + 2 };
    int ndim = operand_shape(c->batch, c->shape, whole, c->s, c->e, shape_q);
    int ndim_k = operand_shape(c->batch, c->shape, !whole, c->t, c->e, shape_k);
    int ndim_v = operand_shape(c->batch, c->shape, false, c->t, c->f, shape_v);
    operand_shape(c->batch, c->shape, true, c->s, c->f, x->shape);
    x->count = shape_count(x->ndim, x->shape);
    x->q = make(mesh, x->type, ndim, shape_q, WHOLE);
    x->k = make(mesh, x->type, ndim_k, shape_k, WHOLE);
    x->v = make(mesh, x->type, ndim_v, shape_v, WHOLE);
    x->gradient = make(mesh, x->type, x->ndim, x->shape, WHOLE);
    if (how != ANYWHERE) {
        x->ring = lay_in_ring((operand *const[]){ &x->q, &x->k, &x->v }, x->type, how);
        x->ring = x->count > 0 && c->t > 0 ? x->ring : 0;
    }
    int masked = (int)below(3);
    c->truth = masked != 2;
    x->mask = any_mask(mesh, c, c->truth, 3);
    c->q = &x->q;
    c->k = &x->k;
    c->v = &x->v;
    c->mask = masked == 0 ? NULL : &x->mask;
    c->scale = below(2) ? 0.125 : 1 / sqrt((double)c->e);
    x->options = (weft_attention_options){ .causal = c->causal, .scale = c->scale == 0.125 ? 0.125 : 0 };
    x->options.mask = masked == 0   ? NULL
                      : masked == 1 ? weft_to_type(x->mask.tensor, WEFT_BOOL)
                                    : x->mask.tensor;
    snprintf(x->what, sizeof(x->what), "attention(%s, %s, %s%s%s)%s of %s", describe_operand(&x->q),
             describe_operand(&x->k), describe_operand(&x->v), masked ? ", " : "",
             masked ? describe_operand(&x->mask) : "", c->causal ? " causal" : "", weft_dtype_name(x->type));
}

static void release_all(attention_operands *x)
{
    release(&x->q);
    release(&x->k);
    release(&x->v);
    release(&x->mask);
    release(&x->gradient);
}

static void run_attention(sequences how)
{
    attention_case c;
    attention_operands x;
    draw_attention(&c, &x, how);
    double *expected = malloc(((size_t)x.count + 1) * sizeof(double));
    for (int64_t i = 0; i < x.count / c.f; i++) {
        expected_row(&c, i / (c.s > 0 ? c.s : 1), i % (c.s > 0 ? c.s : 1), expected + i * c.f);
    }
    weft_tensor *result = weft_attention(x.q.tensor, x.k.tensor, x.v.tensor, &x.options);
    check_result(result, x.type, x.ndim, x.shape, expected, 100, 10, x.what);
    check_stays(&x.q, result, x.ring, x.what);
    check_repeats(result, weft_attention(x.q.tensor, x.k.tensor, x.v.tensor, &x.options));
    free(expected);
    release_all(&x);
}

static void case_attention(void)
{
    run_attention(ANYWHERE);
}

static void case_attention_ring(void)
{
    run_attention(IN_RING);
}

static void case_attention_keys(void)
{
    run_attention(KEYS_ALONE);
}

/* Of q, k and v: the values of a gradient, and the magnitudes of what they are sums of. */
typedef struct gradient_sum {
    const operand *of;
    double *values, *terms;
} gradient_sum;

static void add_term(const attention_case *c, gradient_sum *sum, int64_t i, int64_t row, int64_t column,
                     double value, double magnitude)
{
    int64_t index = matrix_index(sum->of, c->batch, c->shape, i, row, column);
    sum->values[index] += value;
    sum->terms[index] += fabs(magnitude);
}

/* What a row of the result adds to the gradients, by the plain formula. */
static void add_row(const attention_case *c, const operand *gradient, int64_t i, int64_t row,
                    gradient_sum sums[3])
{
    double *weights = malloc((size_t)(c->t + 1) * sizeof(double)), product = 0, magnitude = 0;
    row_weights(c, i, row, weights);
    for (int64_t f = 0; f < c->f; f++) {
        double result = 0, up = matrix_element(gradient, c->batch, c->shape, i, row, f);
        for (int64_t t = 0; t < c->t; t++) {
            result += weights[t] * matrix_element(c->v, c->batch, c->shape, i, t, f);
            add_term(c, &sums[2], i, t, f, weights[t] * up, weights[t] * up);
        }
        product += up * result;
        magnitude += fabs(up * result);
    }
    for (int64_t t = 0; t < c->t; t++) {
        double slope = 0, size = magnitude;
        for (int64_t f = 0; f < c->f; f++) {
            double term = matrix_element(gradient, c->batch, c->shape, i, row, f) *
                          matrix_element(c->v, c->batch, c->shape, i, t, f);
            slope += term;
            size += fabs(term);
        }
        slope = c->scale * weights[t] * (slope - product);
        size = c->scale * weights[t] * size;
        for (int64_t e = 0; e < c->e; e++) {
            double q = matrix_element(c->q, c->batch, c->shape, i, row, e),
                   k = matrix_element(c->k, c->batch, c->shape, i, t, e);
            add_term(c, &sums[0], i, row, e, slope * k, size * k);
            add_term(c, &sums[1], i, t, e, slope * q, size * q);
        }
    }
    free(weights);
}

static void check_gradient(const attention_operands *x, const gradient_sum *sum, weft_tensor *result)
{
    double most = 1;
    for (int64_t i = 0; i < sum->of->count; i++) {
        most = fmax(most, sum->terms[i]);
    }
    char what[1000];
    snprintf(what, sizeof(what), "gradient of %s of %s",
             sum->of == &x->q   ? "q"
             : sum->of == &x->k ? "k"
                                : "v",
             x->what);
    check_result(result, x->type, sum->of->ndim, sum->of->shape, sum->values, 1000, most, what);
}

static void run_attention_backward(sequences how)
{
    attention_case c;
    attention_operands x;
    draw_attention(&c, &x, how);
    gradient_sum sums[3] = { { .of = &x.q }, { .of = &x.k }, { .of = &x.v } };
    for (int k = 0; k < 3; k++) {
        sums[k].values = calloc((size_t)sums[k].of->count + 1, sizeof(double));
        sums[k].terms = calloc((size_t)sums[k].of->count + 1, sizeof(double));
    }
    for (int64_t i = 0; i < x.count / c.f; i++) {
        add_row(&c, &x.gradient, i / c.s, i % c.s, sums);
    }
    weft_tensor *q = x.q.tensor, *k = x.k.tensor, *v = x.v.tensor, *up = x.gradient.tensor;
    weft_tensor *output = weft_attention(q, k, v, &x.options), *dk, *dv, *again_k, *again_v;
    weft_tensor *dq = weft_attention_backward(up, q, k, v, output, &x.options, &dk, &dv);
    assert_no_error();
    check_gradient(&x, &sums[0], dq);
    check_gradient(&x, &sums[1], dk);
    check_gradient(&x, &sums[2], dv);
    check_repeats(dq, weft_attention_backward(up, q, k, v, output, &x.options, &again_k, &again_v));
    check_repeats(dk, again_k);
    check_repeats(dv, again_v);
    check_stays(&x.q, dq, x.ring, x.what);
    check_stays(&x.q, dk, x.ring, x.what);
    check_stays(&x.q, dv, x.ring, x.what);
    /* One alone is the same. */
    bool of_k = below(2);
    dq = weft_attention_backward(up, q, k, v, output, &x.options, of_k ? &dk : NULL, of_k ? NULL : &dv);
    check_gradient(&x, &sums[0], dq);
    check_gradient(&x, &sums[of_k ? 1 : 2], of_k ? dk : dv);
    for (int i = 0; i < 3; i++) {
        free(sums[i].values);
        free(sums[i].terms);
    }
    release_all(&x);
}

static void case_attention_backward(void)
{
    run_attention_backward(ANYWHERE);
}

static void case_attention_backward_ring(void)
{
    run_attention_backward(IN_RING);
}

static void case_attention_backward_keys(void)
{
    run_attention_backward(KEYS_ALONE);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "matmul", case_matmul },
    { "matmul repeats", case_matmul_repeats },
    { "dot", case_dot },
    { "outer", case_outer },
    { "addmm", case_addmm },
    { "linear", case_linear },
    { "convolution", case_convolution },
    { "convolution_backward_input", case_convolution_backward_input },
    { "convolution_backward_weight", case_convolution_backward_weight },
    { "convolution repeats", case_convolution_repeats },
    { "attention", case_attention },
    { "attention ring", case_attention_ring },
    { "attention keys", case_attention_keys },
    { "attention_backward", case_attention_backward },
    { "attention_backward ring", case_attention_backward_ring },
    { "attention_backward keys", case_attention_backward_keys },
};

/* `rows`: how high panels are, or NULL. */
static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 1, NULL };

/* Rows sharded over four ranks, three taps with padding 1: what moves is a row from each neighbour, to the
 * result and to the gradients. */
static void test_halo(void **state)
{
    (void)state;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = MAX_RANKS;
    unsetenv("WEFT_PANEL_ROWS");
    assert_int_equal(weft_init(&config), WEFT_OK);
    enum { N = 2, CHANNELS = 3, H = 18, W = 5 };
    int64_t four[] = { 4 }, shape[] = { N, CHANNELS, H, W }, shape_weight[] = { 6, CHANNELS, 3, 3 };
    weft_mesh *mesh = weft_mesh_create(1, four, NULL);
    weft_placement by_rows[] = { weft_shard(2) };
    weft_convolution options = { .padding = { 1, 1 } };
    weft_tensor *x = weft_ones(WEFT_F32, 4, shape, mesh, by_rows),
                *weight = weft_ones(WEFT_F32, 4, shape_weight, mesh, NULL);
    weft_counters counters[3];
    weft_get_counters(&counters[0]);
    weft_tensor *y = weft_conv2d(x, weight, NULL, &options);
    weft_get_counters(&counters[1]);
    weft_tensor *dx = weft_conv2d_backward_input(y, weight, shape, &options);
    weft_get_counters(&counters[2]);
    assert_no_error();
    assert_int_equal(weft_tensor_placements(y)[0].kind, WEFT_SHARD);
    assert_int_equal(weft_tensor_placements(y)[0].dim, 2);
    assert_int_equal(weft_tensor_placements(dx)[0].dim, 2);
    uint64_t rows = weft_num_processes() == 1 ? 6 : 0; /* else only part of them is received here */
    uint64_t row = N * CHANNELS * W * sizeof(float),
             forward = counters[1].bytes_moved - counters[0].bytes_moved,
             backward = counters[2].bytes_moved - counters[1].bytes_moved;
    assert_true(rows == 0 || forward == rows * row);
    assert_true(rows == 0 || backward == rows * 2 * row);
    assert_true(forward <= 6 * row && backward <= 12 * row);
    weft_tensor *dweight = weft_conv2d_backward_weight(y, x, shape_weight, &options);
    assert_no_error();
    assert_int_equal(weft_tensor_placements(dweight)[0].kind, WEFT_PARTIAL);
    double sum = 0;
    assert_int_equal(weft_to_host(weft_to_type(weft_sum_all(y), WEFT_F64), &sum), WEFT_OK);
    /* Of 3 x 3 taps, 3 H - 2 times 3 W - 2 meet the image. */
    assert_true(sum == (double)(N * 6 * CHANNELS * (3 * H - 2) * (3 * W - 2)));
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The sequence over all ranks: what moves is each block of k and v, once to every other rank, and going back
 * those of q, the gradient and two numbers for each row too; there is room for two blocks of each at most. */
static void test_ring(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    enum { BATCH = 2, LENGTH = 8 * MAX_RANKS, E = 4, F = 6 };
    int64_t ranks[] = { MAX_RANKS }, shape[] = { BATCH, LENGTH, E }, shape_v[] = { BATCH, LENGTH, F };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_placement by_rows[] = { weft_shard(1) };
    weft_tensor *q = weft_ones(WEFT_F32, 3, shape, mesh, by_rows),
                *k = weft_ones(WEFT_F32, 3, shape, mesh, by_rows),
                *v = weft_ones(WEFT_F32, 3, shape_v, mesh, by_rows), *dk, *dv;
    weft_counters before, forward, backward;
    weft_get_counters(&before);
    weft_tensor *output = weft_attention(q, k, v, NULL);
    weft_get_counters(&forward);
    weft_tensor *dq = weft_attention_backward(output, q, k, v, output, NULL, &dk, &dv);
    weft_get_counters(&backward);
    assert_no_error();
    weft_tensor *results[] = { output, dq, dk, dv };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_tensor_placements(results[i])[0].kind, WEFT_SHARD);
        assert_int_equal(weft_tensor_placements(results[i])[0].dim, 1);
    }
    /* Of every rank, to each other one. */
    uint64_t row = BATCH * LENGTH * sizeof(float), others = MAX_RANKS - 1,
             hosted = (uint64_t)weft_local_ranks();
    assert_int_equal(forward.bytes_moved - before.bytes_moved, hosted * others * row * (E + F) / MAX_RANKS);
    assert_int_equal(backward.bytes_moved - forward.bytes_moved,
                     hosted * others * row * (E + (E + F) + (E + F + 2)) / MAX_RANKS);
    /* The state, the result, two blocks of k and of v; buffers are used again. */
    assert_true(forward.buffers_created - before.buffers_created <= 6 * hosted);
    double sum = 0;
    assert_int_equal(weft_to_host(weft_to_type(weft_sum_all(output), WEFT_F64), &sum), WEFT_OK);
    assert_true(fabs(sum - BATCH * LENGTH * F) < 0.01);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A step of decoding: few rows on all ranks, many keys over all of them, on a mesh of one dimension or two.
 * What moves is the states: f + 2 numbers of each row from every rank to each other one, and for the
 * gradients two. */
static void decode(int dims, const int64_t mesh_shape[])
{
    start_world(NULL, NULL);
    enum { BATCH = 2, ROWS = 1, LENGTH = 96 * MAX_RANKS + 5, E = 4, F = 6 };
    int64_t shape_q[] = { BATCH, ROWS, E }, shape_k[] = { BATCH, LENGTH, E },
            shape_v[] = { BATCH, LENGTH, F }, shape_mask[] = { ROWS, LENGTH };
    weft_mesh *mesh = weft_mesh_create(dims, mesh_shape, NULL);
    weft_placement by_keys[] = { weft_shard(1), weft_shard(1) };
    weft_tensor *q = weft_ones(WEFT_F32, 3, shape_q, mesh, NULL),
                *k = weft_ones(WEFT_F32, 3, shape_k, mesh, by_keys),
                *v = weft_ones(WEFT_F32, 3, shape_v, mesh, by_keys), *dk, *dv;
    weft_attention_options options = { .mask = weft_zeros(WEFT_F32, 2, shape_mask, mesh, by_keys) };
    weft_counters before, forward, backward;
    weft_get_counters(&before);
    weft_tensor *output = weft_attention(q, k, v, &options);
    weft_get_counters(&forward);
    weft_tensor *dq = weft_attention_backward(output, q, k, v, output, &options, &dk, &dv);
    weft_get_counters(&backward);
    assert_no_error();
    uint64_t states = (uint64_t)weft_local_ranks() * (MAX_RANKS - 1) * BATCH * ROWS * sizeof(float);
    uint64_t moved = forward.bytes_moved - before.bytes_moved,
             moved_back = backward.bytes_moved - forward.bytes_moved;
    /* Between processes a state may come by way of another rank. */
    bool exact = weft_num_processes() == 1;
    assert_true(exact ? moved == states * (F + 2) : moved <= 2 * states * (F + 2));
    assert_true(exact ? moved_back == states * 2 : moved_back <= 2 * states * 2);
    for (int m = 0; m < dims; m++) {
        assert_int_equal(weft_tensor_placements(output)[m].kind, WEFT_REPLICATE);
        assert_int_equal(weft_tensor_placements(dq)[m].kind, WEFT_PARTIAL);
        assert_int_equal(weft_tensor_placements(dk)[m].kind, WEFT_SHARD);
        assert_int_equal(weft_tensor_placements(dv)[m].dim, 1);
    }
    double sum = 0;
    assert_int_equal(weft_to_host(weft_to_type(weft_sum_all(output), WEFT_F64), &sum), WEFT_OK);
    assert_true(fabs(sum - BATCH * ROWS * F) < 0.001);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_decoding(void **state)
{
    (void)state;
    decode(1, (int64_t[]){ MAX_RANKS });
    decode(2, (int64_t[]){ MAX_RANKS / 2, 2 });
}

/* The sum of the result's elements with weights. */
static double weighted_result(operand *const all[3], const double *weights, int64_t count)
{
    weft_scope_open();
    for (int i = 0; i < 3; i++) {
        realise(all[i]);
    }
    weft_attention_options options = { .causal = true, .scale = 0.4 };
    weft_tensor *result = weft_attention(all[0]->tensor, all[1]->tensor, all[2]->tensor, &options);
    double *values = malloc((size_t)count * sizeof(double)), sum = 0;
    assert_int_equal(weft_to_host(result, values), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i] * values[i];
    }
    free(values);
    weft_scope_close();
    return sum;
}

/* Against differences, with uneven shards. */
static void test_gradient_by_differences(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    source = prng_start(9);
    weft_scope_open();
    int64_t three[] = { 3 }, shape_q[] = { 2, 5, 3 }, shape_k[] = { 1, 7, 3 }, shape_v[] = { 2, 7, 2 },
            shape[] = { 2, 5, 2 };
    weft_mesh *mesh = weft_mesh_create(1, three, NULL);
    operand q = make_operand(mesh, WEFT_F64, 3, shape_q, REAL, 0),
            k = make_operand(mesh, WEFT_F64, 3, shape_k, REAL, 0),
            v = make_operand(mesh, WEFT_F64, 3, shape_v, REAL, 0),
            up = make_operand(mesh, WEFT_F64, 3, shape, REAL, 0);
    operand *const all[] = { &q, &k, &v };
    lay_in_ring(all, WEFT_F64, IN_RING);
    weft_attention_options options = { .causal = true, .scale = 0.4 };
    weft_tensor *output = weft_attention(q.tensor, k.tensor, v.tensor, &options), *results[3];
    results[0] = weft_attention_backward(up.tensor, q.tensor, k.tensor, v.tensor, output, &options,
                                         &results[1], &results[2]);
    assert_no_error();
    for (int i = 0; i < 3; i++) {
        double *gradient = malloc((size_t)all[i]->count * sizeof(double)), step = 1e-5;
        assert_int_equal(weft_to_host(results[i], gradient), WEFT_OK);
        for (int64_t x = 0; x < all[i]->count; x++) {
            double value = all[i]->dense[x];
            all[i]->dense[x] = value + step;
            double above = weighted_result(all, up.dense, up.count);
            all[i]->dense[x] = value - step;
            double under = weighted_result(all, up.dense, up.count), slope = (above - under) / (2 * step);
            all[i]->dense[x] = value;
            if (!(fabs(slope - gradient[x]) <= 1e-6 * (1 + fabs(slope)))) {
                fail_msg("operand %d, element %d: %.9g, expected %.9g", i, (int)x, gradient[x], slope);
            }
        }
        free(gradient);
    }
    for (int i = 0; i < 3; i++) {
        release(all[i]);
    }
    release(&up);
    weft_scope_close();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Plans that are dropped while a call that uses them goes on: each is the only one that there is room for. */
static void test_plans_are_dropped(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "1");
    weft_runtime.tensors->most_plan_bytes = 1;
    source = prng_start(31);
    for (int i = 0; i < 12; i++) {
        weft_scope_open();
        case_convolution();
        case_convolution_backward_input();
        case_convolution_backward_weight();
        weft_scope_close();
    }
    unsetenv("WEFT_PANEL_ROWS");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halo),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_gradient_by_differences),
        cmocka_unit_test(test_plans_are_dropped),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
