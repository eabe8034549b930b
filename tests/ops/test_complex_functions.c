/* Functions and convolutions of complex numbers, and their statistics, on random shapes, meshes and placements against C's, with panels
 * of several heights; in one process that hosts all ranks, or in several. */
#include "complex_operand.h"
#include "dims.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- functions ------------------------------------------------------------------------------------------- */

static number sign(number a)
{
    return a == 0 ? 0 : a / cabs(a);
}

static number log_2(number a)
{
    return clog(a) / log(2);
}

static number log_10(number a)
{
    return clog(a) / log(10);
}

static number power_of_2(number a)
{
    return cexp(a * log(2));
}

/* By long double, which has enough digits for the differences. */
static number less_one(number a)
{
    return (number)(cexpl((long double _Complex)a) - 1);
}

static number plus_one(number a)
{
    return (number)clogl(1 + (long double _Complex)a);
}

static const struct {
    const char *name;
    number (*plain)(number a);
    weft_tensor *(*call)(weft_tensor *a);
} functions[] = { { "tan", ctan, weft_tan },       { "asin", casin, weft_asin },    { "acos", cacos, weft_acos },
                  { "atan", catan, weft_atan },    { "sinh", csinh, weft_sinh },    { "cosh", ccosh, weft_cosh },
                  { "asinh", casinh, weft_asinh }, { "acosh", cacosh, weft_acosh }, { "atanh", catanh, weft_atanh },
                  { "log2", log_2, weft_log2 },    { "log10", log_10, weft_log10 }, { "exp2", power_of_2, weft_exp2 },
                  { "expm1", less_one, weft_expm1 }, { "log1p", plus_one, weft_log1p }, { "sgn", sign, weft_sgn } };

/* Away from poles, and from cuts: each element of both parts. */
static void case_function(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    size_t o = (size_t)below((int64_t)(sizeof(functions) / sizeof(functions[0])));
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, false);
    number *expected = malloc(((size_t)a.count + 1) * sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) {
        double re = creal(a.dense[i]), im = cimag(a.dense[i]);
        a.dense[i] = number_of(fabs(re) < 0.5 ? re + (re < 0 ? -1 : 1) : re, fabs(im) < 0.25 ? im + (im < 0 ? -0.5 : 0.5) : im);
        expected[i] = functions[o].plain(a.dense[i]);
    }
    realise_complex(&a);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s)", functions[o].name, weft_dtype_name(a.dtype), describe_complex(&a));
    check_complex(functions[o].call(a.tensor), a.dtype, ndim, shape, expected, 300, 60, what);
    free(expected);
    release_complex(&a);
}

/* ---- statistics ------------------------------------------------------------------------------------------ */

/* Of rows of values: a variance, its root, or the logarithm of a sum of exponentials. */
static number statistic(int kind, const number *row, int64_t count, double correction)
{
    number mean = 0, sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        mean += row[i] / (double)count;
        sum += cexp(row[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        const number rest = row[i] - mean;
        squares += creal(rest * conj(rest));
    }
    const double variance = squares / ((double)count - correction);
    return kind == 0 ? variance : kind == 1 ? sqrt(variance) : clog(sum);
}

static void case_statistic(void)
{
    static const char *const names[] = { "var", "std", "logsumexp" };
    const int64_t shape[] = { 1 + below(5), 2 + below(7) };
    const int kind = (int)below(3);
    const bool keeps = below(2), whole = below(3) == 0;
    const double correction = (double)below(2);
    complex_operand a = make_complex(any_mesh(), any_complex(), 2, shape, false);
    const int64_t rows = whole ? 1 : shape[0], count = a.count / rows, kept[] = { rows, 1 };
    number expected[MAX_SIZE];
    for (int64_t i = 0; i < rows; i++) {
        expected[i] = statistic(kind, a.dense + i * count, count, correction);
    }
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s), correction %g", names[kind], weft_dtype_name(a.dtype), describe_complex(&a), correction);
    const int dims = whole ? WEFT_ALL_DIMS : 1;
    weft_tensor *result = kind == 0   ? weft_var(a.tensor, dims, correction, keeps)
                          : kind == 1 ? weft_std(a.tensor, dims, correction, keeps)
                                      : weft_logsumexp(a.tensor, dims, keeps);
    const weft_dtype type = kind == 2 ? a.dtype : a.dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    check_complex(result, type, keeps ? 2 : whole ? 0 : 1, kept, expected, 300, 60, what);
    release_complex(&a);
}

static void case_cov(void)
{
    const int64_t shape[] = { 1 + below(5), 2 + below(7) }, variables = shape[0], count = shape[1];
    complex_operand a = make_complex(any_mesh(), any_complex(), 2, shape, false);
    number expected[MAX_SIZE * MAX_SIZE], means[MAX_SIZE] = { 0 };
    for (int64_t i = 0; i < a.count; i++) {
        means[i / count] += a.dense[i] / (double)count;
    }
    for (int64_t i = 0; i < variables * variables; i++) {
        const int64_t row = i / variables, column = i % variables;
        expected[i] = 0;
        for (int64_t k = 0; k < count; k++) {
            expected[i] += (a.dense[row * count + k] - means[row]) * conj(a.dense[column * count + k] - means[column]);
        }
        expected[i] /= (double)count - 1;
    }
    char what[400];
    snprintf(what, sizeof(what), "cov(%s %s)", weft_dtype_name(a.dtype), describe_complex(&a));
    check_complex(weft_cov(a.tensor, 1), a.dtype, 2, (const int64_t[]){ variables, variables }, expected, 300, 60, what);
    release_complex(&a);
}

/* Kept elements are divided by the probability to keep one, others are 0: the mask says which. */
static void case_dropout(void)
{
    const int64_t shape[] = { any_size(), any_size() };
    complex_operand a = make_complex(any_mesh(), any_complex(), 2, shape, false);
    weft_tensor *mask, *result = weft_dropout(a.tensor, 0.25, true, &mask);
    assert_no_error();
    uint8_t kept[MAX_SIZE * MAX_SIZE];
    assert_int_equal(weft_to_host(mask, kept, (size_t)a.count), WEFT_OK);
    number expected[MAX_SIZE * MAX_SIZE];
    for (int64_t i = 0; i < a.count; i++) {
        expected[i] = kept[i] ? a.dense[i] / 0.75 : 0;
    }
    char what[400];
    snprintf(what, sizeof(what), "dropout(%s %s)", weft_dtype_name(a.dtype), describe_complex(&a));
    check_complex(result, a.dtype, 2, shape, expected, 200, 40, what);
    release_complex(&a);
}

/* ---- convolutions ---------------------------------------------------------------------------------------- */

enum { MAX_WINDOW = 3, MAX_ELEMENTS = 4096 };

/* Sizes of x, weight and result, each of samples or features, channels, and as many spatial dimensions as there are; the others have
 * size 1. A transposed convolution has the result for its x. */
typedef struct geometry {
    int spatial;
    int64_t x[5], weight[5], result[5];
    weft_convolution3d options;
} geometry;

static geometry any_geometry(void)
{
    geometry g = { .spatial = 1 + (int)below(3), .options.groups = 1 + below(2) };
    const int64_t groups = g.options.groups;
    g.x[0] = 1 + below(4), g.x[1] = groups * (1 + below(3));
    g.weight[0] = groups * (1 + below(3)), g.weight[1] = g.x[1] / groups;
    g.result[0] = g.x[0], g.result[1] = g.weight[0];
    for (int d = 0; d < 3; d++) {
        const bool used = d < g.spatial;
        const int64_t taps = used ? 1 + below(MAX_WINDOW) : 1;
        g.options.stride[d] = used ? 1 + below(2) : 1;
        g.options.dilation[d] = used ? 1 + below(2) : 1;
        g.options.padding[d] = used ? below(2) : 0;
        g.weight[2 + d] = taps;
        g.result[2 + d] = used ? 2 + below(3) : 1;
        g.x[2 + d] = (g.result[2 + d] - 1) * g.options.stride[d] + g.options.dilation[d] * (taps - 1) + 1 - 2 * g.options.padding[d];
        g.x[2 + d] = g.x[2 + d] < 1 ? 1 : g.x[2 + d];
        g.result[2 + d] = (g.x[2 + d] + 2 * g.options.padding[d] - g.options.dilation[d] * (taps - 1) - 1) / g.options.stride[d] + 1;
    }
    return g;
}

/* Indices of a place. */
static void unravel(const int64_t shape[5], int64_t place, int64_t index[5])
{
    for (int d = 4; d >= 0; d--) {
        index[d] = place % shape[d];
        place /= shape[d];
    }
}

static int64_t place_of(const int64_t shape[5], const int64_t index[5])
{
    int64_t place = 0;
    for (int d = 0; d < 5; d++) {
        place = place * shape[d] + index[d];
    }
    return place;
}

/* Adds all products to the result, or, transposed, to x. */
static void convolve(const geometry *g, bool transposed, const number *given, const number *weight, number *sums)
{
    const int64_t results = shape_count(5, g->result), weights = shape_count(5, g->weight);
    for (int64_t i = 0; i < results * weights; i++) {
        int64_t to[5], by[5], from[5];
        unravel(g->result, i / weights, to);
        unravel(g->weight, i % weights, by);
        const int64_t features = g->result[1] / g->options.groups;
        bool inside = by[0] == to[1];
        from[0] = to[0];
        from[1] = to[1] / features * g->weight[1] + by[1];
        for (int d = 0; d < 3; d++) {
            from[2 + d] = to[2 + d] * g->options.stride[d] + by[2 + d] * g->options.dilation[d] - g->options.padding[d];
            inside = inside && from[2 + d] >= 0 && from[2 + d] < g->x[2 + d];
        }
        if (inside) {
            const int64_t x = place_of(g->x, from), result = i / weights;
            sums[transposed ? x : result] += weight[i % weights] * given[transposed ? result : x];
        }
    }
}

static weft_tensor *call_convolution(const geometry *g, bool transposed, weft_tensor *x, weft_tensor *weight, weft_tensor *bias)
{
    weft_convolution flat = { .groups = g->options.groups };
    int64_t added[3];
    for (int d = 0; d < 3; d++) {
        const int64_t reach = g->options.dilation[d] * (g->weight[2 + d] - 1) - 2 * g->options.padding[d];
        added[d] = g->x[2 + d] - (g->result[2 + d] - 1) * g->options.stride[d] - reach - 1;
    }
    for (int d = 0; d < 2; d++) {
        flat.stride[d] = g->options.stride[d];
        flat.padding[d] = g->options.padding[d];
        flat.dilation[d] = g->options.dilation[d];
    }
    switch (g->spatial) {
    case 1:
        return transposed ? weft_conv_transpose1d(x, weight, bias, &flat, added) : weft_conv1d(x, weight, bias, &flat);
    case 2:
        return transposed ? weft_conv_transpose2d(x, weight, bias, &flat, added) : weft_conv2d(x, weight, bias, &flat);
    default:
        return transposed ? weft_conv_transpose3d(x, weight, bias, &g->options, added) : weft_conv3d(x, weight, bias, &g->options);
    }
}

static void case_convolution(void)
{
    const geometry g = any_geometry();
    const bool transposed = below(2), biased = below(2);
    const int64_t *from = transposed ? g.result : g.x, *to = transposed ? g.x : g.result;
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_complex();
    complex_operand x = make_complex(mesh, type, 2 + g.spatial, from, false), w = make_complex(mesh, type, 2 + g.spatial, g.weight, false);
    complex_operand b = make_complex(mesh, type, 1, &to[1], false);
    const int64_t count = shape_count(5, to), channel = count / to[0] / to[1];
    number *expected = calloc((size_t)count, sizeof(*expected));
    for (int64_t i = 0; i < count && biased; i++) {
        expected[i] = b.dense[i / channel % to[1]];
    }
    convolve(&g, transposed, x.dense, w.dense, expected);
    char what[800];
    snprintf(what, sizeof(what), "%sconvolution(%s %s, %s), %d dimensions, %d groups, bias %d", transposed ? "transposed " : "",
             weft_dtype_name(type), describe_complex(&x), describe_complex(&w), g.spatial, (int)g.options.groups, biased);
    weft_tensor *result = call_convolution(&g, transposed, x.tensor, w.tensor, biased ? b.tensor : NULL);
    check_complex(result, type, 2 + g.spatial, to, expected, 400, 100 + 36 * (double)shape_count(5, g.weight), what);
    free(expected);
    release_complex(&x);
    release_complex(&w);
    release_complex(&b);
}

static const family families[] = {
    { "function", case_function }, { "statistic", case_statistic }, { "cov", case_cov }, { "dropout", case_dropout },
    { "convolution", case_convolution },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* ---- single calls ---------------------------------------------------------------------------------------- */

/* Small numbers keep their digits; 0 has no sign; a real sign is weft_sign(). */
static void test_values(void)
{
    const number given[] = { number_of(1e-12, -2e-12), number_of(0, 0), number_of(-1e-13, 1e-13), number_of(-3, 4) };
    const number found_expm1[] = { given[0] + given[0] * given[0] / 2, 0, given[2] + given[2] * given[2] / 2, less_one(given[3]) };
    const number logs[] = { given[0] - given[0] * given[0] / 2, 0, given[2] - given[2] * given[2] / 2, plus_one(given[3]) };
    const int64_t shape[] = { 4 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *z = weft_distribute(WEFT_C128, 1, shape, given, mesh, NULL);
    number host[4];
    assert_int_equal(weft_to_host(weft_expm1(z), host, sizeof(host)), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(cabs(host[i] - found_expm1[i]) <= 1e-15 * cabs(found_expm1[i]));
    }
    assert_int_equal(weft_to_host(weft_log1p(z), host, sizeof(host)), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(cabs(host[i] - logs[i]) <= 1e-15 * cabs(logs[i]));
    }
    assert_int_equal(weft_to_host(weft_sgn(z), host, sizeof(host)), WEFT_OK);
    assert_true(host[1] == 0 && cabs(host[3] - number_of(-0.6, 0.8)) < 1e-15);
    weft_tensor *real = weft_sgn(weft_real(z));
    double signs[4];
    assert_int_equal(weft_to_host(real, signs, sizeof(signs)), WEFT_OK);
    assert_true(signs[0] == 1 && signs[1] == 0 && signs[2] == -1 && signs[3] == -1);
}

static void test_refusals(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    const int64_t shape[] = { 1, 1, 3 };
    weft_tensor *z = weft_ones(WEFT_C64, 3, shape, mesh, NULL), *x = weft_ones(WEFT_F32, 3, shape, mesh, NULL);
    weft_tensor *one = weft_ones(WEFT_C64, 1, (const int64_t[]){ 2 }, mesh, NULL);
    assert_null(weft_conv1d(z, x, NULL, NULL));
    assert_error(WEFT_ERR_DTYPE, "weight is f32");
    assert_null(weft_conv1d(x, z, NULL, NULL));
    assert_error(WEFT_ERR_DTYPE, "weight is c64");
    assert_null(weft_conv1d(z, z, one, NULL));
    assert_error(WEFT_ERR_SHAPE, "bias");
    assert_null(weft_erf(z));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_sgn(NULL));
    assert_error(WEFT_ERR_INVALID, "weft_sgn: a");
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_values, test_refusals };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
