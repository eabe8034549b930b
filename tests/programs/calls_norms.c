/* Softmax and normalisation: nn.h. */
#include <stdlib.h>
#include <string.h>

#include "sums.h"

#include "ops/backward.h"

/* ---- softmax ------------------------------------------------------------------------------------------- */

CALLS(softmax, out[0] = weft_softmax(in[0], (int)whole[0]))
CALLS(log_softmax, out[0] = weft_log_softmax(in[0], (int)whole[0]))
CALLS(softmax_backward, out[0] = weft_softmax_backward(in[0], in[1], (int)whole[0]))
CALLS(log_softmax_backward, out[0] = weft_log_softmax_backward(in[0], in[1], (int)whole[0]))

static bool make_softmax(maker *m, step *s)
{
    int a = choose_value(
        m, &(wish){ .types = FLOATS, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    int ndim = x->ndim == 0 ? 1 : x->ndim,
        count = s->operation->name[strlen(s->operation->name) - 1] == 'd' ? 2 : 1;
    int b = count == 1 ? NO_VALUE : choose_like(m, a, BIT(x->dtype), x->ndim, x->shape);
    *s = step_of(s->operation, count, a, b);
    s->num_wholes = 1;
    s->wholes[0] = any_dim(m, ndim);
    return count == 1 || b != NO_VALUE;
}

/* A line of elements along the dimension. */
typedef struct line {
    int64_t first, stride, length;
} line;

/* Calls `visit` for each line of input 0; false where there is no such dimension. A scalar is a line of
 * one. */
static bool each_line(scene *s, void (*visit)(scene *s, dense *out, const line *l))
{
    const dense *x = s->in[0], *y = s->step->num_inputs > 1 ? s->in[1] : x;
    int dim = x == NULL || y == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim == 0 ? 1 : x->ndim);
    if (dim < 0 || !is_floating(x->dtype) || y->dtype != x->dtype || y->ndim != x->ndim ||
        memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof(x->shape[0])) != 0) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    line l = { .stride = x->ndim == 0 ? 1 : count_of(x->ndim - dim - 1, x->shape + dim + 1),
               .length = x->ndim == 0 ? 1 : x->shape[dim] };
    int64_t lines = l.length == 0 ? 0 : x->count / l.length;
    for (int64_t i = 0; i < lines; i++) {
        l.first = i / l.stride * l.length * l.stride + i % l.stride;
        visit(s, out, &l);
    }
    return true;
}

static double at(const dense *x, const line *l, int64_t i)
{
    return x->at[l->first + i * l->stride].real;
}

static void softmax_line(scene *s, dense *out, const line *l)
{
    const dense *x = s->in[0];
    bool logarithm = s->step->operation->name[0] == 'l';
    double most = -(double)INFINITY, total = 0, epsilon = epsilon_of(x->dtype);
    for (int64_t i = 0; i < l->length; i++) {
        most = at(x, l, i) > most || at(x, l, i) != at(x, l, i) ? at(x, l, i) : most;
    }
    for (int64_t i = 0; i < l->length; i++) {
        total += exp(at(x, l, i) - most);
    }
    for (int64_t i = 0; i < l->length; i++) {
        double distance = at(x, l, i) - most,
               value = logarithm ? distance - log(total) : exp(distance) / total;
        /* Rounding errors of a difference show in its exponential. */
        double roundings = (double)l->length + 10 + 2 * (isfinite(distance) ? fabs(distance) : 0);
        double magnitude = logarithm ? 1 + fabs(value) : value;
        set_number(s, out, l->first + i * l->stride, value, roundings * epsilon * magnitude);
    }
}

static void softmax_backward_line(scene *s, dense *out, const line *l)
{
    const dense *gradient = s->in[0], *output = s->in[1];
    bool logarithm = s->step->operation->name[0] == 'l';
    double total = 0, mass = 0;
    for (int64_t i = 0; i < l->length; i++) {
        int64_t place = l->first + i * l->stride;
        double factor = logarithm ? 1 : at(output, l, i);
        total += at(gradient, l, i) * factor;
        mass += mass_at(gradient, place) * fabs(factor);
    }
    for (int64_t i = 0; i < l->length; i++) {
        int64_t place = l->first + i * l->stride;
        double own = at(output, l, i), weight = logarithm ? exp(own) : fabs(own);
        double value = logarithm ? at(gradient, l, i) - weight * total : own * (at(gradient, l, i) - total);
        double magnitude = (logarithm ? 1 : weight) * mass_at(gradient, place) + weight * mass;
        set_linear(s, out, place, value, (double)l->length + 12 + fabs(own), magnitude);
        dense_allow(s->arena, out, place, logarithm && own > 85 ? (double)INFINITY : 0); /* e^own overflows */
    }
}

static bool softmax(scene *s)
{
    if (!each_line(s, softmax_line)) {
        return false;
    }
    distrust_vague(s, s->out[0]);
    return true;
}

static bool softmax_backward(scene *s)
{
    if (!each_line(s, softmax_backward_line)) {
        return false;
    }
    if (dense_is_vague(s->in[1])) {
        distrust_vague(s, s->out[0]);
    }
    distrust_infinite(s, s->out[0]);
    return true;
}

/* ---- norms --------------------------------------------------------------------------------------------- */

CALLS(layer_norm, out[0] = weft_layer_norm(in[0], in[1], in[2], real[0]))
CALLS(rms_norm, out[0] = weft_rms_norm(in[0], in[1], real[0]))
CALLS(layer_norm_backward, out[0] = weft_layer_norm_backward(in[0], in[1], in[2], real[0], &out[1], &out[2]))
CALLS(layer_norm_backward_input, out[0] = weft_layer_norm_backward(in[0], in[1], in[2], real[0], NULL, NULL))
CALLS(rms_norm_backward, out[0] = weft_rms_norm_backward(in[0], in[1], in[2], real[0], &out[1]))
CALLS(rms_norm_backward_input, out[0] = weft_rms_norm_backward(in[0], in[1], in[2], real[0], NULL))

/* With statistics that were kept. */
CALLS(layer_norm_kept, {
    weft_tensor *mean, *rstd;
    weft_scope_begin();
    weft_layer_norm_with_statistics(in[1], in[2], NULL, real[0], &mean, &rstd);
    out[0] = weft_layer_norm_backward_with_statistics(in[0], in[1], mean, rstd, in[2], NULL, NULL);
    weft_scope_keep(out[0]);
    weft_scope_end();
})
CALLS(rms_norm_kept, {
    weft_tensor *rstd;
    weft_scope_begin();
    weft_rms_norm_with_statistics(in[1], in[2], real[0], &rstd);
    out[0] = weft_rms_norm_backward_with_statistics(in[0], in[1], rstd, in[2], NULL);
    weft_scope_keep(out[0]);
    weft_scope_end();
})

typedef struct normalisation {
    bool centred, backward;
    int outputs;
} normalisation;

static const normalisation details_layer_norm = { true, false, 1 }, details_rms_norm = { false, false, 1 };
static const normalisation details_layer_norm_backward = { true, true, 3 };
static const normalisation details_layer_norm_backward_input = { true, true, 1 };
static const normalisation details_rms_norm_backward = { false, true, 2 };
static const normalisation details_rms_norm_backward_input = { false, true, 1 };
static const normalisation details_layer_norm_kept = { true, true, 1 }, details_rms_norm_kept = { false, true, 1 };

static bool make_norm(maker *m, step *s)
{
    const normalisation *n = s->operation->details;
    int a = choose_value(
        m, &(wish){ .types = FLOATS, .mesh = -1, .least = 1, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, a);
    int own = 1 + (one_in(m, 2) ? (int)below(m, x->ndim) : 0);
    const int64_t *shape = x->shape + x->ndim - own;
    unsigned types = one_in(m, 3) ? FLOATS : BIT(x->dtype);
    int gain = one_in(m, 3) ? NO_VALUE : choose_like(m, a, types, own, shape);
    bool alone = gain == NO_VALUE; /* a bias without a gain has an operation of its own */
    int bias = n->backward || !n->centred || one_in(m, alone ? 5 : 2) ? NO_VALUE : choose_like(m, a, types, own, shape);
    int gradient = n->backward ? choose_like(m, a, BIT(x->dtype), x->ndim, x->shape) : NO_VALUE;
    *s = n->backward ? step_of(s->operation, 3, gradient, a, gain) : step_of(s->operation, 3, a, gain, bias);
    s->num_outputs = n->outputs;
    for (int i = 0; i < n->outputs; i++) {
        s->outputs[i] = NO_VALUE;
    }
    s->num_reals = 1;
    s->reals[0] = one_in(m, 2) ? 1e-5 : 0.125;
    return !n->backward || gradient != NO_VALUE;
}

/* Rows to be normalised, each of `length` elements; statistics of one. */
typedef struct rows {
    const dense *x, *gain, *bias, *gradient;
    int own; /* dimensions of a row */
    int64_t count, length;
    bool centred;
    double epsilon;
} rows;

typedef struct row {
    int64_t first;
    double mean, inverse;
    /* By how much larger errors are where the mean is large beside the distances from it. */
    double condition;
} row;

static bool find_rows(scene *s, rows *r)
{
    const normalisation *n = s->step->operation->details;
    *r = (rows){ .x = s->in[n->backward], .gain = s->in[1 + n->backward], .centred = n->centred };
    r->bias = n->backward ? NULL : s->in[2];
    r->gradient = n->backward ? s->in[0] : NULL;
    const dense *like = r->gain != NULL ? r->gain : r->bias;
    r->own = like == NULL ? 1 : like->ndim;
    if (r->x == NULL || !is_floating(r->x->dtype) || r->own < 1 || r->own > r->x->ndim ||
        s->step->num_reals < 1 ||
        (n->backward &&
         (r->gradient == NULL || r->gradient->dtype != r->x->dtype || r->gradient->ndim != r->x->ndim ||
          memcmp(r->gradient->shape, r->x->shape, (size_t)r->x->ndim * sizeof(int64_t)) != 0))) {
        return false;
    }
    const int64_t *shape = r->x->shape + r->x->ndim - r->own;
    for (int k = 0; k < 2; k++) {
        const dense *own = k == 0 ? r->gain : r->bias;
        if (own != NULL && (own->ndim != r->own || !is_floating(own->dtype) ||
                            memcmp(own->shape, shape, (size_t)r->own * sizeof(int64_t)) != 0)) {
            return false;
        }
    }
    r->length = count_of(r->own, shape);
    r->count = count_of(r->x->ndim - r->own, r->x->shape);
    r->epsilon = s->step->reals[0];
    return true;
}

static row find_row(const rows *r, int64_t i)
{
    row found = { .first = i * r->length };
    double variance = 0, largest = 0;
    for (int64_t k = 0; k < r->length; k++) {
        double x = r->x->at[found.first + k].real;
        found.mean += r->centred ? x / (double)r->length : 0;
        largest = x != x || fabs(x) > largest ? fabs(x) : largest;
    }
    for (int64_t k = 0; k < r->length; k++) {
        double distance = r->x->at[found.first + k].real - found.mean;
        variance += distance * distance / (double)r->length;
    }
    found.inverse = 1 / sqrt(variance + r->epsilon);
    found.condition = 1 + largest * largest * found.inverse * found.inverse;
    return found;
}

static double normal_at(const rows *r, const row *of, int64_t k)
{
    return (r->x->at[of->first + k].real - of->mean) * of->inverse;
}

static double gain_at(const rows *r, int64_t k)
{
    return r->gain == NULL ? 1 : r->gain->at[k].real;
}

static bool normalised(scene *s)
{
    rows r;
    if (!find_rows(s, &r)) {
        return false;
    }
    dense *out = scene_output(s, 0, r.x->dtype, r.x->ndim, r.x->shape);
    for (int64_t i = 0; i < r.count; i++) {
        row of = find_row(&r, i);
        for (int64_t k = 0; k < r.length; k++) {
            double bias = r.bias == NULL ? 0 : r.bias->at[k].real, normal = normal_at(&r, &of, k);
            double magnitude = fabs(gain_at(&r, k)) * (1 + fabs(normal)) * of.condition + fabs(bias);
            double value = normal * gain_at(&r, k) + bias;
            set_number(s, out, of.first + k, value,
                       ((double)r.length + 20) * epsilon_of(r.x->dtype) * magnitude);
            /* Infinity times a number next to 0: its sign is a matter of rounding, or it is 0, which gives NaN. */
            bool next_to_0 = fabs(normal) <= ((double)r.length + 20) * epsilon_of(WEFT_F32) * of.condition;
            dense_allow(s->arena, out, of.first + k, isinf(gain_at(&r, k)) && next_to_0 ? (double)INFINITY : 0);
        }
    }
    distrust_vague(s, out);
    return true;
}

/* The gradient of one row of x, and its addends to those of gain and bias. */
static void normalise_row_backward(scene *s, const rows *r, const row *of, dense *out, sums *gain, sums *bias)
{
    double mean = 0, slope = 0, mass = 0;
    for (int64_t k = 0; k < r->length; k++) {
        double own = r->gradient->at[of->first + k].real, normal = normal_at(r, of, k),
               weighted = own * gain_at(r, k);
        double size = mass_at(r->gradient, of->first + k);
        mean += r->centred ? weighted / (double)r->length : 0;
        slope += weighted * normal / (double)r->length;
        mass += size * fabs(gain_at(r, k)) * (1 + fabs(normal)) / (double)r->length;
        gain->values[k] += own * normal;
        gain->masses[k] += size * (1 + fabs(normal)) * of->condition;
        bias->values[k] += own;
        bias->masses[k] += size;
    }
    for (int64_t k = 0; k < r->length; k++) {
        double normal = normal_at(r, of, k), weighted = r->gradient->at[of->first + k].real * gain_at(r, k);
        double magnitude =
            mass_at(r->gradient, of->first + k) * fabs(gain_at(r, k)) + (1 + fabs(normal)) * mass;
        set_linear(s, out, of->first + k, of->inverse * (weighted - mean - normal * slope),
                   (double)r->length + 30, of->inverse * magnitude * of->condition);
    }
}

static bool normalised_backward(scene *s)
{
    const normalisation *n = s->step->operation->details;
    rows r;
    if (!find_rows(s, &r) || s->step->num_outputs != n->outputs) {
        return false;
    }
    weft_dtype type = r.gain == NULL ? r.x->dtype : r.gain->dtype;
    const int64_t *shape = r.x->shape + r.x->ndim - r.own;
    dense *out = scene_output(s, 0, r.x->dtype, r.x->ndim, r.x->shape);
    sums gain = sums_new(s, r.length), bias = sums_new(s, r.length);
    for (int64_t i = 0; i < r.count; i++) {
        row of = find_row(&r, i);
        normalise_row_backward(s, &r, &of, out, &gain, &bias);
    }
    double roundings = (double)(r.count + r.length) + 30;
    for (int k = 1; k < n->outputs; k++) {
        const sums *sum = k == 1 ? &gain : &bias;
        dense *own = scene_output(s, k, type, r.own, shape);
        for (int64_t i = 0; i < r.length; i++) {
            /* Made in the type of x. */
            double slack = epsilon_of(r.x->dtype) * roundings * sum->masses[i];
            set_linear(s, own, i, sum->values[i], roundings, sum->masses[i]);
            dense_allow(s->arena, own, i, isfinite(sum->values[i]) ? slack : 0);
        }
    }
    for (int k = 0; k < n->outputs; k++) {
        bool vague = dense_is_vague(r.x) || (r.gain != NULL && dense_is_vague(r.gain));
        if (vague) {
            distrust_vague(s, s->out[k]);
        }
        distrust_infinite(s, s->out[k]);
    }
    return true;
}

/* ---- rotary positions ---------------------------------------------------------------------------------- */

CALLS(rotary, out[0] = weft_rotary(in[0], real[0], whole[0]))
CALLS(rotary_backward, out[0] = weft_rotary_backward(in[0], real[0], whole[0]))

static bool make_rotary(maker *m, step *s)
{
    int ndim = 2 + (int)below(m, 3);
    int64_t shape[MAX_TENSOR_DIMS] = { -1, -1, -1, -1 };
    shape[ndim - 1] = 2 * (int64_t)below(m, 4);
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = ndim, .shape = shape, .kind = VALUES_SMALL });
    *s = step_of(s->operation, 1, a);
    s->num_reals = s->num_wholes = 1;
    s->reals[0] = one_in(m, 2) ? 10000 : 7;
    s->wholes[0] = (int64_t)below(m, 50);
    return a != NO_VALUE;
}

static bool rotated(scene *s)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : x->ndim - 1;
    if (dim < 1 || !is_floating(x->dtype) || x->shape[dim] % 2 != 0) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    double sign = strcmp(s->step->operation->name, "rotary") == 0 ? 1 : -1;
    int64_t width = x->shape[dim], half = width / 2;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t j = i % half, place = i % width, other = place < half ? i + half : i - half;
        double position = (double)(s->step->wholes[0] + i / width % x->shape[dim - 1]);
        double angle = position * pow(s->step->reals[0], -2.0 * (double)j / (double)width);
        double sine = place < half ? -sign * sin(angle) : sign * sin(angle);
        double magnitude = mass_at(x, i) + mass_at(x, other);
        set_linear(s, out, i, x->at[i].real * cos(angle) + x->at[other].real * sine, 8 + position, magnitude);
    }
    distrust_infinite(s, out);
    return true;
}

/* ---- the tables ---------------------------------------------------------------------------------------- */

const operation softmax_calls[] = {
    ROW(softmax, make_softmax, softmax, .weight = 6),
    ROW(log_softmax, make_softmax, softmax, .weight = 6),
    ROW(softmax_backward, make_softmax, softmax_backward, .weight = 6),
    ROW(log_softmax_backward, make_softmax, softmax_backward, .weight = 6),
    { .name = NULL },
};

#define NORM(name_, reference_)                                                                              \
    ROW(name_, make_norm, reference_, .details = &details_##name_, .flags = MAY_BE_PARTIAL, .weight = 5)

const operation norm_calls[] = {
    ROW(rotary, make_rotary, rotated, .weight = 5),
    ROW(rotary_backward, make_rotary, rotated, .weight = 5),
    NORM(layer_norm, normalised),
    NORM(rms_norm, normalised),
    NORM(layer_norm_backward, normalised_backward),
    NORM(layer_norm_backward_input, normalised_backward),
    NORM(rms_norm_backward, normalised_backward),
    NORM(rms_norm_backward_input, normalised_backward),
    NORM(layer_norm_kept, normalised_backward),
    NORM(rms_norm_kept, normalised_backward),
    { .name = NULL },
};
