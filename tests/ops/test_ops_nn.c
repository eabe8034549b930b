/* Softmax and norms on random shapes, meshes and placements against plain loops, with panels of several
 * heights; communication with sharded rows; and values that are not finite. */
#include "real_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/backward.h"

/* ---- softmax ------------------------------------------------------------------------------------------- */

/* Element i of an array of `shape` is element `place` of line `line` along `dim`. */
typedef struct lines {
    int64_t length, inner, count;
} lines;

static lines lines_along(int ndim, const int64_t shape[], int dim)
{
    lines l = { .length = ndim == 0 ? 1 : shape[dim], .inner = 1 };
    for (int d = dim + 1; d < ndim; d++) {
        l.inner *= shape[d];
    }
    int64_t count = shape_count(ndim, shape);
    l.count = l.length == 0 ? 0 : count / l.length;
    return l;
}

static int64_t element_of(const lines *l, int64_t line, int64_t place)
{
    return (line / l->inner * l->length + place) * l->inner + line % l->inner;
}

static void reference_softmax(const operand *a, int dim, bool logarithm, double *expected)
{
    lines l = lines_along(a->ndim, a->shape, dim);
    for (int64_t line = 0; line < l.count; line++) {
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < l.length; i++) {
            most = fmax(most, a->dense[element_of(&l, line, i)]);
        }
        for (int64_t i = 0; i < l.length; i++) {
            sum += exp(a->dense[element_of(&l, line, i)] - most);
        }
        for (int64_t i = 0; i < l.length; i++) {
            double x = a->dense[element_of(&l, line, i)] - most;
            expected[element_of(&l, line, i)] = logarithm ? x - log(sum) : exp(x) / sum;
        }
    }
}

static void one_softmax(const char *name, weft_tensor *(*function)(weft_tensor *, int), bool logarithm)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = any_shape(shape), dim = ndim == 0 ? 0 : (int)below(ndim);
    weft_dtype type = any_real_type();
    operand a = make_real(any_mesh(), type, ndim, shape);
    double *expected = array(a.count);
    reference_softmax(&a, dim, logarithm, expected);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s, %d) of %s", name, describe_operand(&a), dim, weft_dtype_name(type));
    int given = below(2) ? dim : dim - (ndim == 0 ? 1 : ndim);
    compare(function(a.tensor, given), type, ndim, shape, expected, allowed(type, a.exact, 4),
            logarithm ? 12 : 1, what);
    free(expected);
    release(&a);
}

static void case_softmax(void)
{
    one_softmax("softmax", weft_softmax, false);
}

static void case_log_softmax(void)
{
    one_softmax("log_softmax", weft_log_softmax, true);
}

static void one_softmax_backward(const char *name,
                                 weft_tensor *(*function)(weft_tensor *, weft_tensor *, int), bool logarithm)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = any_shape(shape), dim = ndim == 0 ? 0 : (int)below(ndim);
    weft_dtype type = any_real_type();
    weft_mesh *mesh = any_mesh();
    operand gradient = make_real(mesh, type, ndim, shape), output = make_real(mesh, type, ndim, shape);
    double *expected = array(output.count);
    lines l = lines_along(ndim, shape, dim);
    double largest = 0;
    for (int64_t line = 0; line < l.count; line++) {
        double sum = 0;
        for (int64_t i = 0; i < l.length; i++) {
            int64_t e = element_of(&l, line, i);
            sum += gradient.dense[e] * (logarithm ? 1 : output.dense[e]);
        }
        for (int64_t i = 0; i < l.length; i++) {
            int64_t e = element_of(&l, line, i);
            expected[e] = logarithm ? gradient.dense[e] - exp(output.dense[e]) * sum
                                    : output.dense[e] * (gradient.dense[e] - sum);
            largest = fmax(largest, 20 * fabs(sum) + 10);
        }
    }
    char what[700];
    snprintf(what, sizeof(what), "%s(%s, %s, %d) of %s", name, describe_operand(&gradient),
             describe_operand(&output), dim, weft_dtype_name(type));
    compare(function(gradient.tensor, output.tensor, dim), type, ndim, shape, expected,
            allowed(type, gradient.exact && output.exact, 4), largest + 10 * (double)l.length, what);
    free(expected);
    release(&gradient);
    release(&output);
}

static void case_softmax_backward(void)
{
    one_softmax_backward("softmax_backward", weft_softmax_backward, false);
}

static void case_log_softmax_backward(void)
{
    one_softmax_backward("log_softmax_backward", weft_log_softmax_backward, true);
}

/* ---- norms --------------------------------------------------------------------------------------------- */

#define EPSILON 0.125

typedef struct norm_case {
    bool centred, has_gain, has_bias;
    int ndim, own; /* own: dimensions of a vector */
    int64_t shape[WEFT_MAX_DIMS], vectors, length;
    weft_dtype type;
    operand a, gain, bias, gradient;
    bool exact;
    double *normal, *inverse; /* normal(a), and 1 / sqrt(...) of each vector */
    char what[900];
} norm_case;

static void normalise(norm_case *c)
{
    for (int64_t v = 0; v < c->vectors; v++) {
        const double *x = c->a.dense + v * c->length;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < c->length && c->centred; i++) {
            mean += x[i] / (double)c->length;
        }
        for (int64_t i = 0; i < c->length; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (double)c->length;
        }
        c->inverse[v] = 1 / sqrt(variance + EPSILON);
        for (int64_t i = 0; i < c->length; i++) {
            c->normal[v * c->length + i] = (x[i] - mean) * c->inverse[v];
        }
    }
}

static norm_case make_norm_case(bool centred, bool backward)
{
    norm_case c = { .centred = centred,
                    .has_gain = below(3) > 0,
                    .has_bias = centred && !backward && below(2) };
    do {
        c.ndim = any_shape(c.shape);
    } while (c.ndim == 0);
    c.own = c.has_gain || c.has_bias ? 1 + (int)below(c.ndim) : 1;
    const int64_t *vector = c.shape + c.ndim - c.own;
    c.vectors = shape_count(c.ndim - c.own, c.shape);
    c.length = shape_count(c.own, vector);
    c.type = any_real_type();
    weft_mesh *mesh = any_mesh();
    c.a = make_real(mesh, c.type, c.ndim, c.shape);
    c.gain = make_real(mesh, c.type, c.own, vector);
    c.bias = make_real(mesh, c.type, c.own, vector);
    c.gradient = make_real(mesh, c.type, c.ndim, c.shape);
    c.exact = c.a.exact && (!c.has_gain || c.gain.exact) &&
              (backward ? c.gradient.exact : !c.has_bias || c.bias.exact);
    c.normal = array(c.a.count);
    c.inverse = array(c.vectors);
    normalise(&c);
    snprintf(c.what, sizeof(c.what), "%s%s(%s) of %s over %d dimensions", centred ? "layer_norm" : "rms_norm",
             backward ? "_backward" : "", describe_operand(&c.a), weft_dtype_name(c.type), c.own);
    return c;
}

static void release_norm_case(norm_case *c)
{
    release(&c->a);
    release(&c->gain);
    release(&c->bias);
    release(&c->gradient);
    free(c->normal);
    free(c->inverse);
}

static void one_norm(bool centred)
{
    norm_case c = make_norm_case(centred, false);
    double *expected = array(c.a.count);
    for (int64_t i = 0; i < c.a.count; i++) {
        expected[i] = c.normal[i] * (c.has_gain ? c.gain.dense[i % c.length] : 1) +
                      (c.has_bias ? c.bias.dense[i % c.length] : 0);
    }
    weft_tensor *gain = c.has_gain ? c.gain.tensor : NULL, *bias = c.has_bias ? c.bias.tensor : NULL;
    weft_tensor *result =
        centred ? weft_layer_norm(c.a.tensor, gain, bias, EPSILON) : weft_rms_norm(c.a.tensor, gain, EPSILON);
    compare(result, c.type, c.ndim, c.shape, expected, allowed(c.type, c.exact, 8), 30, c.what);
    free(expected);
    release_norm_case(&c);
}

static void case_layer_norm(void)
{
    one_norm(true);
}

static void case_rms_norm(void)
{
    one_norm(false);
}

static void reference_norm_backward(const norm_case *c, double *of_a, double *of_gain, double *of_bias)
{
    for (int64_t v = 0; v < c->vectors; v++) {
        const double *normal = c->normal + v * c->length, *gradient = c->gradient.dense + v * c->length;
        double mean = 0, slope = 0;
        for (int64_t i = 0; i < c->length; i++) {
            double weighted = gradient[i] * (c->has_gain ? c->gain.dense[i] : 1);
            mean += c->centred ? weighted / (double)c->length : 0;
            slope += weighted * normal[i] / (double)c->length;
            of_gain[i] += gradient[i] * normal[i];
            of_bias[i] += gradient[i];
        }
        for (int64_t i = 0; i < c->length; i++) {
            double weighted = gradient[i] * (c->has_gain ? c->gain.dense[i] : 1);
            of_a[v * c->length + i] = c->inverse[v] * (weighted - mean - normal[i] * slope);
        }
    }
}

/* Whether every rank has whole vectors. */
static bool has_whole_vectors(const norm_case *c, const operand *x)
{
    bool whole = true;
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        weft_placement placement = weft_tensor_placements(x->tensor)[m];
        whole &= placement.kind == WEFT_REPLICATE ||
                 (placement.kind == WEFT_SHARD && placement.dim < c->ndim - c->own);
    }
    return whole;
}

/* Whether no mesh dimension cuts both in different ways: which one is followed may depend on the statistics. */
static bool are_cut_alike(const operand *x, const operand *y)
{
    bool alike = true;
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        weft_placement a = weft_tensor_placements(x->tensor)[m], b = weft_tensor_placements(y->tensor)[m];
        alike &= a.kind != WEFT_SHARD || b.kind != WEFT_SHARD || (a.cut == b.cut && a.sizes == b.sizes);
    }
    return alike;
}

/* A gradient from statistics that were kept. Of whole vectors, where both have one layout, bit for bit the one without;
 * of others they may be made from other parts. */
static void compare_kept(const norm_case *c, weft_tensor *kept, weft_tensor *other, int ndim, const int64_t shape[],
                         const double *expected, double roundings, double magnitude)
{
    if (other == NULL) {
        return;
    }
    bool same = has_whole_vectors(c, &c->a) && has_whole_vectors(c, &c->gradient) && are_cut_alike(&c->a, &c->gradient);
    for (int m = 0; m < weft_mesh_ndim(weft_tensor_mesh(other)); m++) {
        weft_placement x = weft_tensor_placements(kept)[m], y = weft_tensor_placements(other)[m];
        same &= memcmp(&x, &y, sizeof(x)) == 0;
    }
    compare(kept, c->type, ndim, shape, expected, roundings, magnitude, c->what);
    if (same) {
        check_repeats(kept, other);
    }
}

typedef struct norm_gradients {
    weft_tensor *a, *gain, *bias; /* NULL: not asked for */
} norm_gradients;

static norm_gradients with_statistics(const norm_case *c, weft_tensor *gain, const norm_gradients *like)
{
    norm_gradients kept = { NULL };
    weft_tensor *a = c->a.tensor, *up = c->gradient.tensor, *mean, *rstd,
                **of_gain = like->gain == NULL ? NULL : &kept.gain, **of_bias = like->bias == NULL ? NULL : &kept.bias;
    if (c->centred) {
        check_repeats(weft_layer_norm_with_statistics(a, gain, NULL, EPSILON, &mean, &rstd),
                      weft_layer_norm(a, gain, NULL, EPSILON));
        kept.a = weft_layer_norm_backward_with_statistics(up, a, mean, rstd, gain, of_gain, of_bias);
    } else {
        check_repeats(weft_rms_norm_with_statistics(a, gain, EPSILON, &rstd), weft_rms_norm(a, gain, EPSILON));
        kept.a = weft_rms_norm_backward_with_statistics(up, a, rstd, gain, of_gain);
    }
    assert_no_error();
    assert_int_equal(weft_tensor_dtype(rstd), WEFT_F64);
    for (int d = 0; d < c->ndim; d++) {
        assert_int_equal(weft_tensor_size(rstd, d), d < c->ndim - (gain == NULL ? 1 : c->own) ? c->shape[d] : 1);
    }
    return kept;
}

static void one_norm_backward(bool centred)
{
    norm_case c = make_norm_case(centred, true);
    double *of_a = array(c.a.count), *of_gain = array(c.length), *of_bias = array(c.length);
    reference_norm_backward(&c, of_a, of_gain, of_bias);
    weft_tensor *gain = c.has_gain ? c.gain.tensor : NULL, *gain_result = NULL, *bias_result = NULL;
    bool wants_gain = below(4) > 0, wants_bias = centred && below(4) > 0;
    weft_tensor *result =
        centred ? weft_layer_norm_backward(c.gradient.tensor, c.a.tensor, gain, EPSILON,
                                           wants_gain ? &gain_result : NULL, wants_bias ? &bias_result : NULL)
                : weft_rms_norm_backward(c.gradient.tensor, c.a.tensor, gain, EPSILON,
                                         wants_gain ? &gain_result : NULL);
    const int64_t *vector = c.shape + c.ndim - c.own;
    double roundings = allowed(c.type, c.exact, 16), sums = 20 + 10 * (double)c.vectors;
    compare(result, c.type, c.ndim, c.shape, of_a, roundings, 100, c.what);
    if (wants_gain) {
        compare(gain_result, c.type, c.own, vector, of_gain, roundings, sums, c.what);
    }
    norm_gradients all = { result, gain_result, bias_result }, kept = with_statistics(&c, gain, &all);
    compare_kept(&c, kept.a, all.a, c.ndim, c.shape, of_a, roundings, 100);
    compare_kept(&c, kept.gain, all.gain, c.own, vector, of_gain, roundings, sums);
    compare_kept(&c, kept.bias, all.bias, c.own, vector, of_bias, roundings, sums);
    assert_ptr_not_equal(result, c.gradient.tensor);
    assert_true(bias_result == NULL || bias_result != c.gradient.tensor);
    if (wants_bias) {
        compare(bias_result, c.type, c.own, vector, of_bias, roundings, sums, c.what);
    }
    free(of_a);
    free(of_gain);
    free(of_bias);
    release_norm_case(&c);
}

static void case_layer_norm_backward(void)
{
    one_norm_backward(true);
}

static void case_rms_norm_backward(void)
{
    one_norm_backward(false);
}

/* ---- rotary positions ---------------------------------------------------------------------------------- */

static void one_rotary(bool backward)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim;
    do {
        ndim = any_shape(shape);
    } while (ndim < 2);
    shape[ndim - 1] += shape[ndim - 1] % 2;
    const double theta = below(2) ? 10000 : 7;
    const int64_t width = shape[ndim - 1], half = width / 2, positions = shape[ndim - 2];
    weft_dtype type = any_real_type();
    int64_t first = below(type == WEFT_F64 ? 40 : 2000);
    /* An angle's own rounding grows with it. */
    double of_angles = type == WEFT_F64 ? (double)(first + positions) : 0;
    operand a = make_real(any_mesh(), type, ndim, shape);
    double *expected = array(a.count);
    for (int64_t v = 0; width > 0 && v < a.count / width; v++) {
        for (int64_t j = 0; j < half; j++) {
            double angle = (double)(first + v % positions) * pow(theta, -2.0 * (double)j / (double)width);
            double one = a.dense[v * width + j], other = a.dense[v * width + j + half];
            double sine = backward ? -sin(angle) : sin(angle);
            expected[v * width + j] = one * cos(angle) - other * sine;
            expected[v * width + j + half] = other * cos(angle) + one * sine;
        }
    }
    char what[400];
    snprintf(what, sizeof(what), "rotary%s(%s, %g, %lld) of %s", backward ? "_backward" : "", describe_operand(&a), theta,
             (long long)first, weft_dtype_name(type));
    compare((backward ? weft_rotary_backward : weft_rotary)(a.tensor, theta, first), type, ndim, shape, expected,
            allowed(type, a.exact, 4 + of_angles), 6, what);
    free(expected);
    release(&a);
}

static void case_rotary(void)
{
    one_rotary(false);
}

static void case_rotary_backward(void)
{
    one_rotary(true);
}

/* ---- the suites --------------------------------------------------------------------------------------- */

static const family families[] = {
    { "softmax", case_softmax },
    { "log_softmax", case_log_softmax },
    { "softmax_backward", case_softmax_backward },
    { "log_softmax_backward", case_log_softmax_backward },
    { "layer_norm", case_layer_norm },
    { "layer_norm_backward", case_layer_norm_backward },
    { "rms_norm", case_rms_norm },
    { "rotary", case_rotary },
    { "rotary_backward", case_rotary_backward },
    { "rms_norm_backward", case_rms_norm_backward },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 21, NULL };

/* ---- what is moved ------------------------------------------------------------------------------------- */

static uint64_t bytes_moved(void)
{
    weft_counters counters;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&counters, sizeof(counters));
    return counters.bytes_moved;
}

/* Rows lie in parts on all ranks, and so do results; what goes from rank to rank is a few numbers of each
 * row. */
static void test_rows_are_not_gathered(void **state)
{
    (void)state;
    enum { ROWS = 6, LENGTH = 4096 };
    start_world(NULL, NULL);
    weft_scope_begin();
    const int64_t ranks[] = { MAX_RANKS }, shape[] = { ROWS, LENGTH };
    const weft_placement cut[] = { { WEFT_SHARD, 1, WEFT_SUM } }, along[] = { { WEFT_SHARD, 0, WEFT_SUM } };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_tensor *a = weft_randn(WEFT_F32, 2, shape, mesh, cut),
                *g = weft_randn(WEFT_F32, 2, shape, mesh, cut);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, shape, mesh, NULL);
    weft_tensor *gain = weft_randn(WEFT_F32, 1, shape + 1, mesh, along);
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.label_smoothing = 0.5;
    weft_tensor *of_gain, *of_bias;
    uint64_t before = bytes_moved();
    weft_tensor *results[] = {
        weft_softmax(a, 1),
        weft_log_softmax(a, -1),
        weft_softmax_backward(g, a, 1),
        weft_log_softmax_backward(g, a, 1),
        weft_layer_norm(a, gain, gain, 1e-5),
        weft_rms_norm(a, gain, 1e-5),
        weft_layer_norm_backward(g, a, gain, 1e-5, &of_gain, &of_bias),
        weft_cross_entropy_backward(NULL, a, targets),
        weft_cross_entropy_ex_backward(NULL, a, targets, &options),
        weft_nll_backward(NULL, a, targets, -100, WEFT_LOSS_MEAN),
    };
    weft_cross_entropy(a, targets, NULL);
    weft_cross_entropy(a, targets, &options);
    weft_nll(a, targets, -100, WEFT_LOSS_MEAN);
    assert_no_error();
    uint64_t moved = bytes_moved() - before;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        assert_int_equal(weft_tensor_placements(results[i])[0].kind, WEFT_SHARD);
        assert_int_equal(weft_tensor_placements(results[i])[0].dim, 1);
    }
    assert_int_equal(weft_tensor_placements(of_gain)[0].kind, WEFT_SHARD);
    /* About 35 numbers of eight bytes for each row, to and from each rank. */
    assert_true(moved > 0);
    assert_true(moved < ROWS * LENGTH * sizeof(float) / 2);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- values that are not finite, and large ones -------------------------------------------------------- */

static weft_tensor *matrix(weft_dtype type, int64_t rows, int64_t columns, const double *values,
                           weft_mesh *mesh, int cut)
{
    const int64_t shape[] = { rows, columns };
    const weft_placement placement[] = { cut < 0 ? weft_replicate() : weft_shard(cut) };
    return weft_to_type(weft_distribute(WEFT_F64, 2, shape, values, mesh, placement), type);
}

static void special_softmax(weft_dtype type, weft_mesh *mesh, int cut)
{
    enum { N = 6, C = 4 };
    const double inf = INFINITY;
    const double values[N * C] = { 1,   -inf, 2, -inf, -inf, -inf, -inf, -inf, inf,  0,    1,    2,
                                   NAN, 0,    1, 2,    1000, 1000, 1000, 1000, -3e4, -3e4, -inf, -3e4 };
    /* clang-format off */
    const double wanted[N * C] = {
        1 / (1 + exp(1)), 0, exp(1) / (1 + exp(1)), 0,
        NAN, NAN, NAN, NAN,
        NAN, NAN, NAN, NAN,
        NAN, NAN, NAN, NAN,
        0.25, 0.25, 0.25, 0.25,
        1.0 / 3, 1.0 / 3, 0, 1.0 / 3,
    };
    /* clang-format on */
    double logarithms[N * C];
    for (int i = 0; i < N * C; i++) {
        logarithms[i] = log(wanted[i]);
    }
    weft_tensor *a = matrix(type, N, C, values, mesh, cut);
    double plain[N * C], logged[N * C];
    assert_int_equal(weft_to_host(weft_to_type(weft_softmax(a, 1), WEFT_F64), plain, sizeof(plain)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_to_type(weft_log_softmax(a, 1), WEFT_F64), logged, sizeof(logged)),
                     WEFT_OK);
    double tolerance = type == WEFT_BF16 ? 0x1p-7 : 1e-6;
    for (int i = 0; i < N * C; i++) {
        assert_true(isnan(wanted[i]) ? isnan(plain[i]) : fabs(plain[i] - wanted[i]) <= tolerance);
        assert_true(isnan(wanted[i])       ? isnan(logged[i])
                    : isinf(logarithms[i]) ? logged[i] == logarithms[i]
                                           : fabs(logged[i] - logarithms[i]) <= 2 * tolerance);
    }
}

static void special_losses(weft_mesh *mesh, int cut)
{
    enum { N = 4, C = 3 };
    const double inf = INFINITY;
    const double values[N * C] = { 0, 0, -inf, 700, 700, 700, -inf, -inf, -inf, 1, NAN, 2 };
    const int64_t targets[N] = { 2, 1, 0, 2 }, ranks = N;
    weft_tensor *a = matrix(WEFT_F32, N, C, values, mesh, cut);
    weft_tensor *t = weft_distribute(WEFT_I64, 1, &ranks, targets, mesh, NULL);
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    options.reduction = WEFT_LOSS_NONE;
    float losses[N];
    assert_int_equal(weft_to_host(weft_cross_entropy(a, t, &options), losses, sizeof(losses)), WEFT_OK);
    assert_true(losses[0] == INFINITY);
    assert_true(fabs((double)losses[1] - log(3)) < 1e-6);
    assert_true(isnan(losses[2]) && isnan(losses[3]));
    /* All are ignored. */
    weft_tensor *ones = weft_full(WEFT_I64, -100, 1, &ranks, mesh, NULL);
    const weft_cross_entropy_options defaults = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    float mean;
    assert_int_equal(weft_to_host(weft_cross_entropy(a, ones, &defaults), &mean, sizeof(mean)), WEFT_OK);
    assert_true(isnan(mean));
    if (weft_num_processes() > 1) {
        return;
    }
    /* A class that there is not is reported, on the process that has the first classes. */
    const int64_t bad[N] = { 2, 3, 0, -1 };
    weft_tensor *wrong = weft_distribute(WEFT_I64, 1, &ranks, bad, mesh, NULL);
    assert_no_error();
    weft_cross_entropy(a, wrong, &options);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy: targets has ");
    weft_nll_backward(NULL, a, wrong, 0, WEFT_LOSS_SUM);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_nll_backward: targets has ");
}

/* A mean that is large against what differs from it. */
static void special_norm(weft_mesh *mesh, int cut)
{
    enum { N = 2, C = 8 };
    double values[N * C], results[N * C];
    for (int i = 0; i < N * C; i++) {
        values[i] = 65536 + i % C % 2; /* half of them 1 above the others */
    }
    weft_tensor *a = matrix(WEFT_F32, N, C, values, mesh, cut);
    assert_int_equal(
        weft_to_host(weft_to_type(weft_layer_norm(a, NULL, NULL, 0), WEFT_F64), results, sizeof(results)),
        WEFT_OK);
    for (int i = 0; i < N * C; i++) {
        assert_true(results[i] == (i % 2 == 0 ? -1 : 1));
    }
}

static void test_special_values(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    const int64_t ranks[] = { 3 };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    for (int cut = -1; cut < 2; cut++) {
        weft_scope_begin();
        special_softmax(WEFT_F64, mesh, cut);
        special_softmax(WEFT_F32, mesh, cut);
        special_softmax(WEFT_BF16, mesh, cut);
        special_losses(mesh, cut);
        special_norm(mesh, cut);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_not_gathered),
        cmocka_unit_test(test_special_values),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
