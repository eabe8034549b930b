/* Medians, quantiles, covariances: reductions.h. */
#include "sums.h"

CALLS(median, out[0] = weft_median(in[0], (int)whole[0], whole[1] != 0, &out[1]))
CALLS(quantile, out[0] = weft_quantile(in[0], real[0], (int)whole[0], whole[1] != 0, WEFT_QUANTILE_LOWER))
CALLS(cov, out[0] = weft_cov(in[0], real[0]))

static bool make_selection(maker *m, step *s, unsigned types, int outputs)
{
    if (!make_along(m, s, types, 1)) {
        return false;
    }
    const dense *x = value_of(m, s->inputs[0]);
    s->num_wholes = 2;
    s->wholes[1] = below(m, 2);
    s->num_outputs = outputs;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    return x->shape[dim_in(s->wholes[0], x->ndim)] > 0;
}

static bool make_median(maker *m, step *s)
{
    return make_selection(m, s, NUMBERS, 2);
}

static bool make_quantile(maker *m, step *s)
{
    if (!make_selection(m, s, FLOATS, 1)) {
        return false;
    }
    s->num_reals = 1;
    s->reals[0] = (double)below(m, 9) / 8;
    return true;
}

/* Whether element i comes before element j in a stable order; NaN is the largest. */
static bool comes_before(const dense *x, int64_t i, int64_t j)
{
    if (!is_floating(x->dtype)) {
        return x->at[i].whole < x->at[j].whole || (x->at[i].whole == x->at[j].whole && i < j);
    }
    double a = x->at[i].real, b = x->at[j].real;
    if (isnan(a) || isnan(b)) {
        return isnan(b) && (!isnan(a) || i < j);
    }
    return a < b || (a == b && i < j);
}

/* The element of a line with this rank; the first NaN, if there is one. */
static int64_t selected(const dense *x, int64_t first, int64_t stride, int64_t length, int64_t rank)
{
    int64_t found = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t before = 0;
        if (is_floating(x->dtype) && isnan(x->at[first + i * stride].real)) {
            return i;
        }
        for (int64_t k = 0; k < length; k++) {
            before += comes_before(x, first + k * stride, first + i * stride);
        }
        found = before == rank ? i : found;
    }
    return found;
}

static bool select_rank(scene *s, bool median)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim), ndim = 0;
    if (dim < 0 || x->shape[dim] == 0 || x->dtype == WEFT_BOOL || (!median && !is_floating(x->dtype))) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS], length = x->shape[dim], stride = count_of(x->ndim - dim - 1, x->shape + dim + 1);
    for (int d = 0; d < x->ndim; d++) {
        if (d != dim || whole_of_call(s, 1) != 0) {
            shape[ndim++] = d == dim ? 1 : x->shape[d];
        }
    }
    double q = median ? 0 : s->step->reals[0];
    if (!(q >= 0 && q <= 1)) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, ndim, shape);
    dense *places = median ? scene_output(s, 1, WEFT_I64, ndim, shape) : NULL;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t first = i / stride * length * stride + i % stride;
        int64_t rank = median ? (length - 1) / 2 : (int64_t)(q * (double)(length - 1));
        int64_t k = selected(x, first, stride, length, rank);
        for (int64_t j = 0; j < length && s->program->gradients && is_floating(x->dtype); j++) {
            if (j != k && x->at[first + j * stride].real == x->at[first + k * stride].real) {
                return false; /* one of equal values gets all: no quotient of differences shows it */
            }
        }
        carry_element(s, out, i, x, first + k * stride);
        if (median) {
            places->at[i].whole = k;
        }
    }
    out->mass = dense_mass(x);
    out->unit = dense_unit(x);
    out->signed_zeros = false;
    distrust_vague(s, out);
    if (median) {
        distrust_vague(s, places);
    }
    return true;
}

static bool median_of(scene *s)
{
    return select_rank(s, true);
}

static bool quantile_of(scene *s)
{
    return s->step->num_reals > 0 && select_rank(s, false);
}

static bool make_cov(maker *m, step *s)
{
    int a = choose_any(m, FLOATS, 1, 2);
    *s = step_of(s->operation, 1, a);
    s->num_reals = 1;
    return a != NO_VALUE && value_of(m, a)->ndim > 0 && value_of(m, a)->shape[value_of(m, a)->ndim - 1] > 0;
}

static bool covariances(scene *s)
{
    const dense *x = s->in[0];
    if (x == NULL || !is_floating(x->dtype) || x->ndim < 1 || x->ndim > 2 || x->shape[x->ndim - 1] == 0 ||
        s->step->num_reals < 1 || s->step->reals[0] != 0) {
        return false;
    }
    int64_t n = x->shape[x->ndim - 1], rows = x->ndim == 1 ? 1 : x->shape[0];
    dense *out = scene_output(s, 0, x->dtype, x->ndim == 1 ? 0 : 2, (int64_t[]){ rows, rows });
    for (int64_t i = 0; i < out->count; i++) {
        double means[2] = { 0 }, products = 0, mass = 0;
        for (int64_t k = 0; k < n; k++) {
            means[0] += x->at[i / rows * n + k].real / (double)n;
            means[1] += x->at[i % rows * n + k].real / (double)n;
            mass = fmax(mass, fmax(mass_at(x, i / rows * n + k), mass_at(x, i % rows * n + k)));
        }
        for (int64_t k = 0; k < n; k++) {
            products += (x->at[i / rows * n + k].real - means[0]) * (x->at[i % rows * n + k].real - means[1]);
        }
        set_linear(s, out, i, products / (double)n, 16.0 * (double)n + 32, 4 * mass * mass);
        dense_allow(s->arena, out, i, mass < 1e15 ? 0 : (double)INFINITY);
    }
    distrust_vague(s, out);
    distrust_infinite(s, out);
    return true;
}

const operation statistics_calls[] = {
    ROW(median, make_median, median_of, .weight = 8),
    ROW(quantile, make_quantile, quantile_of, .weight = 8),
    ROW(cov, make_cov, covariances, .flags = MAY_BE_PARTIAL),
    { .name = NULL },
};
