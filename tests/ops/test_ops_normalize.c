/* Vectors of norm 1, gates and normalisation of channels on random shapes, meshes and placements against plain loops, with
 * panels of several heights. */
#include "real_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Elements along a dimension, the last but `inner` elements. */
typedef struct along {
    int64_t length, inner, lines;
} along;

static along along_dim(const operand *a, int dim)
{
    along l = { .length = a->shape[dim], .inner = 1, .lines = 1 };
    for (int d = 0; d < a->ndim; d++) {
        l.inner *= d > dim ? a->shape[d] : 1;
        l.lines *= d != dim ? a->shape[d] : 1;
    }
    return l;
}

static int64_t place(const along *l, int64_t line, int64_t i)
{
    return (line / l->inner * l->length + i) * l->inner + line % l->inner;
}

static operand any_vectors(int least, int *dim)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim;
    do {
        ndim = any_shape(shape);
    } while (ndim < least);
    *dim = (int)below(ndim);
    return make_real(any_mesh(), any_real_type(), ndim, shape);
}

static weft_dtype type_of(const operand *a)
{
    return weft_tensor_dtype(a->tensor);
}

static void case_normalize(void)
{
    int dim;
    operand a = any_vectors(1, &dim);
    along l = along_dim(&a, dim);
    double *expected = array(a.count);
    for (int64_t line = 0; line < l.lines; line++) {
        double squares = 0;
        for (int64_t i = 0; i < l.length; i++) {
            squares += pow(a.dense[place(&l, line, i)], 2);
        }
        for (int64_t i = 0; i < l.length; i++) {
            expected[place(&l, line, i)] = a.dense[place(&l, line, i)] / fmax(sqrt(squares), 0.5);
        }
    }
    char what[500];
    snprintf(what, sizeof(what), "normalize(%s, 2, %d, 0.5) of %s", describe_operand(&a), dim, weft_dtype_name(type_of(&a)));
    compare(weft_normalize(a.tensor, 2, dim, 0.5), type_of(&a), a.ndim, a.shape, expected, allowed(type_of(&a), a.exact, 4), 8,
            what);
    free(expected);
    release(&a);
}

/* The mean and the variance of each channel, or of each group of a sample. */
typedef struct statistics {
    double *mean, *variance;
    int64_t count;
} statistics;

static int64_t set_of(const operand *a, int64_t groups, int64_t i)
{
    int64_t channels = a->shape[1], inner = along_dim(a, 1).inner, channel = i / inner % channels;
    return groups == 0 ? channel : i / inner / channels * groups + channel / (channels / groups);
}

static statistics statistics_of(const operand *a, int64_t groups)
{
    int64_t sets = groups == 0 ? a->shape[1] : a->shape[0] * groups;
    statistics s = { array(sets), array(sets), sets == 0 ? 0 : a->count / sets };
    for (int64_t i = 0; i < a->count; i++) {
        s.mean[set_of(a, groups, i)] += a->dense[i] / (double)s.count;
    }
    for (int64_t i = 0; i < a->count; i++) {
        int64_t set = set_of(a, groups, i);
        s.variance[set] += pow(a->dense[i] - s.mean[set], 2) / (double)s.count;
    }
    return s;
}

/* groups 0: over the batch, with running statistics from 0 and 1. */
static void one_channel_norm(int64_t groups, operand *a)
{
    if (groups == 0 && a->count == a->shape[1]) {
        return; /* one element in each channel has no variance, and is refused: tests/process/test_errors_networks.c */
    }
    weft_dtype type = type_of(a);
    operand gain = make_real(a->mesh, type, 1, a->shape + 1), bias = make_real(a->mesh, type, 1, a->shape + 1);
    statistics s = statistics_of(a, groups);
    double *expected = array(a->count), *means = array(a->shape[1]), *variances = array(a->shape[1]);
    bool gains = below(2), shifts = below(2);
    int64_t inner = along_dim(a, 1).inner;
    for (int64_t i = 0; i < a->count; i++) {
        int64_t set = set_of(a, groups, i), channel = i / inner % a->shape[1];
        double value = (a->dense[i] - s.mean[set]) / sqrt(s.variance[set] + 0.125);
        expected[i] = value * (gains ? gain.dense[channel] : 1) + (shifts ? bias.dense[channel] : 0);
    }
    for (int64_t c = 0; c < a->shape[1] && groups == 0; c++) {
        double count = (double)s.count;
        means[c] = s.count == 0 ? 0 : 0.25 * s.mean[c];
        variances[c] = s.count == 0 ? 1 : 0.75 + 0.25 * s.variance[c] * count / (count - 1);
    }
    char what[700];
    snprintf(what, sizeof(what), "norm of channels of %s, %s, %d groups, gain %d, bias %d", describe_operand(a),
             weft_dtype_name(type), (int)groups, gains, shifts);
    weft_dtype wide = type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    weft_placement placements[WEFT_MAX_DIMS] = { weft_shard(0) };
    weft_tensor *mean = weft_zeros(wide, 1, a->shape + 1, a->mesh, below(2) ? placements : NULL);
    weft_tensor *variance = weft_ones(wide, 1, a->shape + 1, a->mesh, NULL);
    weft_tensor *gained = gains ? gain.tensor : NULL, *shifted = shifts ? bias.tensor : NULL;
    weft_tensor *result = groups == 0 ? weft_batch_norm(a->tensor, mean, variance, gained, shifted, true, 0.25, 0.125)
                                      : weft_group_norm(a->tensor, groups, gained, shifted, 0.125);
    compare(result, type, a->ndim, a->shape, expected, allowed(type, a->exact && gain.exact && bias.exact, 8), 40, what);
    if (groups == 0) {
        compare(mean, wide, 1, a->shape + 1, means, allowed(wide, a->exact && type == wide, 8), 8, what);
        compare(variance, wide, 1, a->shape + 1, variances, allowed(wide, a->exact && type == wide, 8), 32, what);
    }
    free(expected);
    free(means);
    free(variances);
    free(s.mean);
    free(s.variance);
    release(&gain);
    release(&bias);
}

static void case_batch_norm(void)
{
    int dim;
    operand a = any_vectors(2, &dim);
    if (a.shape[1] == 0 || a.count / a.shape[1] != 1) {
        one_channel_norm(0, &a);
    }
    release(&a);
}

static void case_group_norm(void)
{
    int dim;
    operand a = any_vectors(2, &dim);
    int64_t groups = 1 + below(3);
    one_channel_norm(a.shape[1] % groups == 0 ? groups : 1, &a);
    release(&a);
}

static void case_glu(void)
{
    int dim;
    operand a = any_vectors(1, &dim);
    if (a.shape[dim] % 2 == 0) {
        along l = along_dim(&a, dim);
        int64_t shape[WEFT_MAX_DIMS];
        for (int d = 0; d < a.ndim; d++) {
            shape[d] = d == dim ? a.shape[d] / 2 : a.shape[d];
        }
        along half = { l.length / 2, l.inner, l.lines };
        double *expected = array(a.count);
        for (int64_t line = 0; line < l.lines; line++) {
            for (int64_t i = 0; i < half.length; i++) {
                double gate = a.dense[place(&l, line, i + half.length)];
                expected[place(&half, line, i)] = a.dense[place(&l, line, i)] / (1 + exp(-gate));
            }
        }
        char what[500];
        snprintf(what, sizeof(what), "glu(%s, %d) of %s", describe_operand(&a), dim, weft_dtype_name(type_of(&a)));
        compare(weft_glu(a.tensor, dim), type_of(&a), a.ndim, shape, expected, allowed(type_of(&a), a.exact, 6), 4, what);
        free(expected);
    }
    release(&a);
}

/* ---- numbers whose squares are out of range ------------------------------------------------------------ */

/* A power of two by which reals of about -3 .. 3 can be multiplied in the type; their squares are often out of range. */
static int any_exponent(weft_dtype type)
{
    static const int wide[] = { 664, 900, 0, -600, -900 }, single[] = { 66, 100, 0, -66, -83, -100 };
    return type == WEFT_F16 ? 0 : type == WEFT_F64 ? wide[below(5)] : single[below(6)];
}

/* An operand and its tensor times 2^exponent. */
typedef struct far {
    operand a;
    weft_tensor *tensor;
    int exponent, dim;
    char what[600];
} far;

static far any_far(int least, const char *name)
{
    far x = { .a = any_vectors(least, &x.dim) };
    x.exponent = any_exponent(type_of(&x.a));
    x.tensor = weft_scale(x.a.tensor, ldexp(1, x.exponent));
    snprintf(x.what, sizeof(x.what), "%s of 2^%d %s of %s, dimension %d", name, x.exponent, describe_operand(&x.a),
             weft_dtype_name(type_of(&x.a)), x.dim);
    return x;
}

static double norm_of_line(const operand *a, const along *l, int64_t line, double p)
{
    double sum = 0;
    for (int64_t i = 0; i < l->length; i++) {
        sum += pow(fabs(a->dense[place(l, line, i)]), p);
    }
    return pow(sum, 1 / p);
}

static double any_power(void)
{
    static const double powers[] = { 2, 2, 2, 3, 8, 0.5 };
    return powers[below(6)];
}

/* Compares with `expected` times 2^exponent, which stay whole. */
static void compare_far(const far *x, weft_tensor *result, int ndim, const int64_t shape[], double *expected, double roundings,
                        double magnitude)
{
    int64_t count = shape_count(ndim, shape);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = ldexp(expected[i], x->exponent);
    }
    weft_dtype type = type_of(&x->a);
    compare(result, type, ndim, shape, expected, allowed(type, x->a.exact, roundings), ldexp(magnitude, x->exponent), x->what);
    free(expected);
}

static void case_far_norm(void)
{
    far x = any_far(1, "norm");
    along l = along_dim(&x.a, x.dim);
    double p = any_power(), *expected = array(l.lines);
    int64_t shape[WEFT_MAX_DIMS];
    bool keeps = below(2);
    int ndim = 0;
    for (int d = 0; d < x.a.ndim; d++) {
        if (d != x.dim || keeps) {
            shape[ndim++] = d == x.dim ? 1 : x.a.shape[d];
        }
    }
    double most = 1;
    for (int64_t line = 0; line < l.lines; line++) {
        expected[line] = norm_of_line(&x.a, &l, line, p);
        most = fmax(most, expected[line]);
    }
    compare_far(&x, weft_norm(x.tensor, p, x.dim, keeps), ndim, shape, expected, 8, most);
    release(&x.a);
}

static void case_far_normalize(void)
{
    far x = any_far(1, "normalize");
    along l = along_dim(&x.a, x.dim);
    double p = any_power(), epsilon = 0.5, *expected = array(x.a.count);
    for (int64_t line = 0; line < l.lines; line++) {
        double norm = fmax(norm_of_line(&x.a, &l, line, p), epsilon);
        for (int64_t i = 0; i < l.length; i++) {
            expected[place(&l, line, i)] = x.a.dense[place(&l, line, i)] / norm;
        }
    }
    weft_tensor *result = weft_normalize(x.tensor, p, x.dim, ldexp(epsilon, x.exponent));
    weft_dtype type = type_of(&x.a);
    compare(result, type, x.a.ndim, x.a.shape, expected, allowed(type, x.a.exact, 8), 8, x.what);
    free(expected);
    release(&x.a);
}

/* Over all elements; the gradient is a number between -1 and 1 (p > 1), whatever the scale. */
static void case_far_gradient(void)
{
    far x = any_far(1, "gradient of norm");
    along all = { x.a.count, 1, 1 };
    static const double powers[] = { 2, 2, 3, 8 };
    double p = powers[below(4)], norm = norm_of_line(&x.a, &all, 0, p), *expected = array(x.a.count);
    for (int64_t i = 0; i < x.a.count; i++) {
        double share = norm == 0 ? 0 : fabs(x.a.dense[i]) / norm;
        expected[i] = copysign(pow(share, p - 1), x.a.dense[i]);
    }
    weft_tensor *leaf = weft_detach(x.tensor);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    weft_tensor *result = weft_norm(leaf, p, WEFT_ALL_DIMS, false), *gradient = NULL;
    assert_int_equal(weft_gradients(1, &result, NULL, 1, &leaf, false, &gradient), WEFT_OK);
    weft_dtype type = type_of(&x.a);
    /* The norm that the gradient reads has the type's roundings, which the power multiplies. */
    compare(gradient, type, x.a.ndim, x.a.shape, expected, p * allowed(type, x.a.exact, 32), 1, x.what);
    free(expected);
    release(&x.a);
}

static void case_far_matrix_norm(void)
{
    far x = any_far(2, "matrix norm");
    if (x.a.ndim == 2) {
        along all = { x.a.count, 1, 1 };
        double *expected = array(1);
        expected[0] = norm_of_line(&x.a, &all, 0, 2);
        compare_far(&x, weft_matrix_norm(x.tensor, WEFT_MATRIX_FROBENIUS, false), 0, NULL, expected, 8, fmax(1, expected[0]));
    }
    release(&x.a);
}

static void case_far_std(void)
{
    far x = any_far(1, "std");
    along l = along_dim(&x.a, x.dim);
    if (l.length > 1) {
        double *expected = array(l.lines);
        int64_t shape[WEFT_MAX_DIMS];
        for (int d = 0; d < x.a.ndim; d++) {
            shape[d] = d == x.dim ? 1 : x.a.shape[d];
        }
        for (int64_t line = 0; line < l.lines; line++) {
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < l.length; i++) {
                sum += x.a.dense[place(&l, line, i)];
            }
            for (int64_t i = 0; i < l.length; i++) {
                squares += pow(x.a.dense[place(&l, line, i)] - sum / (double)l.length, 2);
            }
            expected[line] = sqrt(squares / (double)(l.length - 1));
        }
        compare_far(&x, weft_std(x.tensor, x.dim, 1, true), x.a.ndim, shape, expected, 16, 4);
    }
    release(&x.a);
}

/* The sum of squares is out of the range of single precision, the variance is not. */
static void test_variance(void **state)
{
    (void)state;
    start_world("WEFT_PANEL_ROWS", "3");
    weft_scope_begin();
    const int64_t ranks = 4, shape[] = { 800, 2 };
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_placement rows = weft_shard(0);
    for (int sharded = 0; sharded < 2; sharded++) {
        weft_tensor *ones = weft_ones(WEFT_F32, 2, shape, mesh, sharded ? &rows : NULL);
        weft_tensor *signs = weft_add_scalar(weft_scale(weft_tril(ones, -400), 2), -1);
        weft_tensor *variance = weft_var(weft_scale(signs, 0x1p62), WEFT_ALL_DIMS, 0, false);
        float value = 0;
        assert_int_equal(weft_to_host(variance, &value, sizeof(value)), WEFT_OK);
        assert_true(fabs(value / 0x1p124 - 1) < 1e-4);
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void case_far_cosines(void)
{
    far x = any_far(1, "cosine similarity");
    along l = along_dim(&x.a, x.dim);
    weft_tensor *result = weft_cosine_similarity(x.tensor, x.tensor, x.dim, 0);
    weft_tensor *near = weft_cosine_similarity(x.a.tensor, x.a.tensor, x.dim, 0);
    double *expected = array(l.lines);
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 0;
    bool defined = l.length > 0;
    for (int64_t line = 0; line < l.lines && defined; line++) {
        defined = norm_of_line(&x.a, &l, line, 2) > 0.01;
        expected[line] = 1;
    }
    for (int d = 0; d < x.a.ndim; d++) {
        if (d != x.dim) {
            shape[ndim++] = x.a.shape[d];
        }
    }
    weft_dtype type = type_of(&x.a);
    if (defined) {
        compare(near, type, ndim, shape, expected, allowed(type, x.a.exact, 8), 1, x.what);
        compare(result, type, ndim, shape, expected, allowed(type, x.a.exact, 8), 1, x.what);
    }
    free(expected);
    release(&x.a);
}

static const family families[] = {
    { "far_norm", case_far_norm },
    { "far_normalize", case_far_normalize },
    { "far_gradient", case_far_gradient },
    { "far_matrix_norm", case_far_matrix_norm },
    { "far_std", case_far_std },
    { "far_cosines", case_far_cosines },
    { "normalize", case_normalize },
    { "batch_norm", case_batch_norm },
    { "group_norm", case_group_norm },
    { "glu", case_glu },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 22, NULL };

int main(void)
{
    const struct CMUnitTest own[] = { cmocka_unit_test(test_variance) };
    return run_suite(&operations, own, sizeof(own) / sizeof(own[0]));
}
