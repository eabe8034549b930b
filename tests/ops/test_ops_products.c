/* Products and convolutions on random shapes, meshes and placements against plain loops, with panels of
 * several heights; in one process that hosts all ranks, or in several. WEFT_TEST_CASES says how many cases of
 * each. */
#include "tensor/state.h"

#include "einsum_case.h"
#include "operand.h"
#include "ops/backward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the types of products; operands of 16 bits are made as WEFT_F32, of small whole numbers. */
static weft_dtype any_product_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_BF16, WEFT_F16 };
    return types[below(6)];
}

/* Whether matrices are so large that their right sides are packed. */
static bool large;

static int64_t some_size(void)
{
    return large ? 90 + below(200) : any_size();
}

/* Above those of the results. */
static double magnitude(void)
{
    return large ? 8000 : 500;
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

/* The operand's matrix for matrix `i` of the result. */
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
    matmul_shapes s = { .vector_a = !large && below(5) == 0, .vector_b = !large && below(5) == 0 };
    s.transpose_a = !s.vector_a && below(2);
    s.transpose_b = !s.vector_b && below(2);
    s.num_batch = large || below(2) ? 0 : (int)below(3);
    s.m = s.vector_a ? 1 : some_size();
    s.n = s.vector_b ? 1 : some_size();
    s.k = some_size();
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
    operand a = make_narrow(mesh, type, s.ndim_a, s.a, WHOLE),
            b = make_narrow(mesh, type, s.ndim_b, s.b, WHOLE);
    double *expected = expected_product(&s, &a, &b);
    char what[600];
    snprintf(what, sizeof(what), "matmul(%s%s, %s%s) of %s", describe_operand(&a), s.transpose_a ? "^T" : "",
             describe_operand(&b), s.transpose_b ? "^T" : "", weft_dtype_name(type));
    weft_tensor *result = s.transpose_a || s.transpose_b || below(2)
                              ? weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b)
                              : weft_matmul(a.tensor, b.tensor);
    check_narrow(result, type, s.ndim, s.shape, expected, a.exact && b.exact ? 0 : 64, magnitude(), what);
    free(expected);
    release(&a);
    release(&b);
}

/* Reals, twice: the order of additions is a function of layouts. */
static void case_matmul_repeats(void)
{
    matmul_shapes s = any_matmul();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    operand a = make_narrow(mesh, type, s.ndim_a, s.a, REAL),
            b = make_narrow(mesh, type, s.ndim_b, s.b, REAL);
    check_repeats(weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b),
                  weft_matmul_ex(a.tensor, s.transpose_a, b.tensor, s.transpose_b));
    checks_made++;
    release(&a);
    release(&b);
}

static void case_dot(void)
{
    int64_t length = some_size();
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make_narrow(mesh, type, 1, &length, WHOLE), b = make_narrow(mesh, type, 1, &length, WHOLE);
    double expected = 0;
    for (int64_t i = 0; i < length; i++) {
        expected += a.dense[i] * b.dense[i];
    }
    check_narrow(weft_dot(a.tensor, b.tensor), type, 0, NULL, &expected, a.exact && b.exact ? 0 : 64, 500,
                 describe_operand(&a));
    release(&a);
    release(&b);
}

static void case_outer(void)
{
    int64_t shape[] = { some_size(), some_size() };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make_narrow(mesh, type, 1, &shape[0], WHOLE),
            b = make_narrow(mesh, type, 1, &shape[1], WHOLE);
    double *expected = malloc((size_t)(shape[0] * shape[1] + 1) * sizeof(double));
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        expected[i] = a.dense[i / shape[1]] * b.dense[i % shape[1]];
    }
    check_narrow(weft_outer(a.tensor, b.tensor), type, 2, shape, expected, a.exact && b.exact ? 0 : 64, 30,
                 describe_operand(&a));
    free(expected);
    release(&a);
    release(&b);
}

static void case_addmm(void)
{
    int64_t m = some_size(), n = some_size(), k = some_size();
    int64_t shape_a[] = { m, k }, shape_b[] = { k, n }, shape[] = { m, n }, shape_c[2];
    int ndim_c = (int)below(3);
    for (int d = 0; d < ndim_c; d++) {
        shape_c[d] = below(3) == 0 ? 1 : shape[2 - ndim_c + d];
    }
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    operand a = make_narrow(mesh, type, 2, shape_a, WHOLE), b = make_narrow(mesh, type, 2, shape_b, WHOLE),
            c = make_narrow(mesh, type, ndim_c, shape_c, WHOLE);
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
    check_narrow(weft_addmm(c.tensor, a.tensor, b.tensor, beta, alpha), type, 2, shape, expected,
                 a.exact && b.exact && c.exact ? 0 : 64, 1500, what);
    free(expected);
    release(&a);
    release(&b);
    release(&c);
}

static void case_linear(void)
{
    int64_t n = some_size(), k = some_size(), shape_x[4], shape[4], shape_weight[] = { n, k };
    int ndim = 1 + (int)below(4);
    for (int d = 0; d < ndim - 1; d++) {
        shape_x[d] = shape[d] = below(7);
    }
    shape_x[ndim - 1] = k;
    shape[ndim - 1] = n;
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_product_type();
    bool biased = below(3) > 0;
    operand x = make_narrow(mesh, type, ndim, shape_x, WHOLE),
            weight = make_narrow(mesh, type, 2, shape_weight, WHOLE),
            bias = make_narrow(mesh, type, 1, &n, WHOLE);
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
    check_narrow(weft_linear(x.tensor, weight.tensor, biased ? bias.tensor : NULL), type, ndim, shape,
                 expected, x.exact && weight.exact && bias.exact ? 0 : 64, magnitude(), what);
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
    operand x = make_narrow(mesh, type, ndim, shape_x, WHOLE),
            weight = make_narrow(mesh, type, ndim, shape_weight, WHOLE),
            bias = make_narrow(mesh, type, 1, &c.weight[0], WHOLE);
    int64_t count = shape_count(ndim, shape), plane = c.result[2] * c.result[3];
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = biased ? bias.dense[i / plane % c.weight[0]] : 0;
    }
    visit_products(&c, add_result, &(convolved){ x.dense, weight.dense, NULL, expected });
    weft_tensor *result = (c.spatial == 2 ? weft_conv2d : weft_conv1d)(x.tensor, weight.tensor,
                                                                       biased ? bias.tensor : NULL, &options);
    check_narrow(result, type, ndim, shape, expected, x.exact && weight.exact && bias.exact ? 0 : 64, 500,
                 describe_convolution(&c, &x, &weight, type));
    free(expected);
    release(&x);
    release(&weight);
    release(&bias);
}

/* The gradient of the input, or of the weight, from the result's and the other one. */
static void one_convolution_backward(bool of_weight)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape[4], shape_found[4], shape_other[4];
    int ndim = shape_of(&c, c.result, shape);
    shape_of(&c, of_weight ? c.weight : c.x, shape_found);
    shape_of(&c, of_weight ? c.x : c.weight, shape_other);
    operand gradient = make_narrow(mesh, type, ndim, shape, WHOLE),
            other = make_narrow(mesh, type, ndim, shape_other, WHOLE);
    double *expected = calloc((size_t)shape_count(ndim, shape_found) + 1, sizeof(double));
    convolved all = { of_weight ? other.dense : NULL, of_weight ? NULL : other.dense, gradient.dense,
                      expected };
    visit_products(&c, of_weight ? add_weight : add_input, &all);
    weft_tensor *(*const functions[2][2])(weft_tensor *, weft_tensor *, const int64_t[],
                                          const weft_convolution *) = {
        { weft_conv1d_backward_input, weft_conv2d_backward_input },
        { weft_conv1d_backward_weight, weft_conv2d_backward_weight },
    };
    weft_tensor *result =
        functions[of_weight][c.spatial - 1](gradient.tensor, other.tensor, shape_found, &options);
    double roundings = gradient.exact && other.exact ? 0 : of_weight ? 256 : 64;
    check_narrow(result, type, ndim, shape_found, expected, roundings, of_weight ? 2000 : 500,
                 describe_convolution(&c, &gradient, &other, type));
    free(expected);
    release(&gradient);
    release(&other);
}

static void case_convolution_backward_input(void)
{
    one_convolution_backward(false);
}

static void case_convolution_backward_weight(void)
{
    one_convolution_backward(true);
}

/* The gradient of a convolution's input, with a bias. */
static void case_conv_transpose(void)
{
    convolution_case c = any_convolution();
    weft_convolution options = options_of(&c);
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_float_type();
    int64_t shape_x[4], shape_weight[4], shape[4], more[2];
    int ndim = shape_of(&c, c.result, shape_x);
    shape_of(&c, c.weight, shape_weight);
    shape_of(&c, c.x, shape);
    for (int d = 0; d < c.spatial; d++) {
        int own = 2 - c.spatial + d;
        int64_t reach = c.options.dilation[own] * (c.weight[2 + own] - 1) + 1 - 2 * c.options.padding[own];
        more[d] = (c.x[2 + own] - reach) % c.options.stride[own];
    }
    bool biased = below(2);
    operand x = make_narrow(mesh, type, ndim, shape_x, WHOLE), weight = make_narrow(mesh, type, ndim, shape_weight, WHOLE),
            bias = make_narrow(mesh, type, 1, &c.x[1], WHOLE);
    int64_t count = shape_count(ndim, shape), plane = c.x[2] * c.x[3];
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = biased ? bias.dense[i / plane % c.x[1]] : 0;
    }
    visit_products(&c, add_input, &(convolved){ NULL, weight.dense, x.dense, expected });
    weft_tensor *result = (c.spatial == 2 ? weft_conv_transpose2d : weft_conv_transpose1d)(
        x.tensor, weight.tensor, biased ? bias.tensor : NULL, &options, more);
    check_narrow(result, type, ndim, shape, expected, x.exact && weight.exact && bias.exact ? 0 : 64, 500,
                 describe_convolution(&c, &x, &weight, type));
    free(expected);
    release(&x);
    release(&weight);
    release(&bias);
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
    operand x = make_narrow(mesh, type, ndim, shape_x, REAL),
            weight = make_narrow(mesh, type, ndim, shape_weight, REAL);
    weft_tensor *results[2];
    for (int i = 0; i < 2; i++) {
        results[i] = (c.spatial == 2 ? weft_conv2d : weft_conv1d)(x.tensor, weight.tensor, NULL, &options);
    }
    check_repeats(results[0], results[1]);
    checks_made++;
    release(&x);
    release(&weight);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "matmul", case_matmul },
    { "matmul repeats", case_matmul_repeats },
    { "dot", case_dot },
    { "outer", case_outer },
    { "addmm", case_addmm },
    { "linear", case_linear },
    { "einsum", case_einsum },
    { "convolution", case_convolution },
    { "convolution_backward_input", case_convolution_backward_input },
    { "convolution_backward_weight", case_convolution_backward_weight },
    { "conv_transpose", case_conv_transpose },
    { "convolution repeats", case_convolution_repeats },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 1, NULL };

/* Panels of several heights meet right sides that are packed for all of them, whole or panel by panel. */
static void test_packed(void **state)
{
    (void)state;
    static const char *const heights[] = { "64", "128", "40" };
    large = true;
    for (int i = 0; i < 3; i++) {
        start_world("WEFT_PANEL_ROWS", heights[i]);
        source = prng_start(61 + (uint64_t)i);
        for (int n = 0; n < 12; n++) {
            weft_scope_begin();
            case_matmul();
            case_matmul_repeats();
            case_addmm();
            case_linear();
            weft_scope_end();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    large = false;
    unsetenv("WEFT_PANEL_ROWS");
}

/* Layouts, plans and task lists that leave the budget while a call that uses them goes on; or never come into
 * it. */
static void test_kept_are_dropped(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "1");
    source = prng_start(31);
    for (int i = 0; i < 16; i++) {
        weft_runtime.call_cache.budget = i % 4 == 0 ? 1 : (size_t)i * 5000;
        weft_lru_clear(&weft_runtime.call_cache);
        weft_scope_begin();
        case_convolution();
        case_convolution_backward_input();
        case_convolution_backward_weight();
        weft_scope_end();
    }
    unsetenv("WEFT_PANEL_ROWS");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_kept_are_dropped),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
