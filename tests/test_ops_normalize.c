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
        return; /* one element in each channel has no variance, and is refused: tests/test_errors_networks.c */
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

static const family families[] = {
    { "normalize", case_normalize },
    { "batch_norm", case_batch_norm },
    { "group_norm", case_group_norm },
    { "glu", case_glu },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 22, NULL };

int main(void)
{
    return run_suite(&operations, NULL, 0);
}
