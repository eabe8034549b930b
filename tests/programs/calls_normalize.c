/* Vectors of norm 1, cosines, norms of matrices, gates: nn.h. */
#include <string.h>

#include "sums.h"

CALLS(normalize, out[0] = weft_normalize(in[0], real[0], (int)whole[0], real[1]))
CALLS(cosine_similarity, out[0] = weft_cosine_similarity(in[0], in[1], (int)whole[0], real[1]))
CALLS(glu, out[0] = weft_glu(in[0], (int)whole[0]))
CALLS(matrix_norm, out[0] = weft_matrix_norm(in[0], (weft_matrix_norm_kind)whole[0], whole[1] != 0))
CALLS(prelu, out[0] = weft_prelu(in[0], in[1]))

CALLS(batch_norm, out[0] = weft_batch_norm(in[0], NULL, NULL, in[1], in[2], true, 0.1, real[0]))
CALLS(batch_norm_of_running, out[0] = weft_batch_norm(in[0], in[3], in[4], in[1], in[2], false, 0.1, real[0]))
CALLS(group_norm, out[0] = weft_group_norm(in[0], whole[0], in[1], in[2], real[0]))
CALLS(instance_norm, out[0] = weft_instance_norm(in[0], in[1], in[2], real[0]))

/* ---- lines --------------------------------------------------------------------------------------------- */

/* Elements along the call's dimension; `count` lines. */
typedef struct lines {
    const dense *x;
    int dim;
    int64_t length, stride, count;
} lines;

static bool find_lines(const scene *s, lines *l)
{
    const dense *x = s->in[0];
    int dim = x == NULL ? -1 : dim_in(whole_of_call(s, 0), x->ndim);
    if (dim < 0 || !is_floating(x->dtype)) {
        return false;
    }
    *l = (lines){ .x = x, .dim = dim, .length = x->shape[dim], .stride = count_of(x->ndim - dim - 1, x->shape + dim + 1) };
    l->count = count_of(dim, x->shape) * l->stride;
    return true;
}

/* The index of an element of a line. */
static int64_t place(const lines *l, int64_t line, int64_t i)
{
    return (line / l->stride * l->length + i) * l->stride + line % l->stride;
}

static double norm_of(const lines *l, const dense *x, int64_t line, double p, double least)
{
    double sum = 0;
    for (int64_t i = 0; i < l->length; i++) {
        double size = fabs(x->at[place(l, line, i)].real);
        sum = isinf(p) ? fmax(sum, size) : sum + pow(size, p);
    }
    return fmax(isinf(p) || p == 1 ? sum : pow(sum, 1 / p), least);
}

static bool make_vectors(maker *m, step *s)
{
    bool two = s->operation->name[0] == 'c';
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = 1, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE || value_of(m, a)->ndim == 0) {
        return false;
    }
    const dense *x = value_of(m, a);
    int b = two ? choose_like(m, a, BIT(x->dtype), x->ndim, x->shape) : NO_VALUE;
    *s = step_of(s->operation, two ? 2 : 1, a, b);
    s->num_wholes = 1;
    s->wholes[0] = any_dim(m, value_of(m, a)->ndim);
    s->num_reals = 2;
    s->reals[0] = one_in(m, 4) ? (double)INFINITY : (double)between(m, 1, 3);
    s->reals[1] = 0.125;
    return !two || b != NO_VALUE;
}

static bool are_numbers(const scene *s)
{
    return s->step->num_reals >= 2 && s->step->reals[0] >= 1 && s->step->reals[1] > 0.01;
}

static bool normalize(scene *s)
{
    lines l;
    if (!are_numbers(s) || !find_lines(s, &l) || (isinf(s->step->reals[0]) && l.length == 0)) {
        return false;
    }
    dense *out = scene_output(s, 0, l.x->dtype, l.x->ndim, l.x->shape);
    for (int64_t line = 0; line < l.count; line++) {
        double norm = norm_of(&l, l.x, line, s->step->reals[0], s->step->reals[1]);
        for (int64_t i = 0; i < l.length; i++) {
            int64_t at = place(&l, line, i);
            double value = l.x->at[at].real / norm;
            set_number(s, out, at, value, ((double)l.length + 20) * epsilon_of(out->dtype) * fabs(value));
        }
    }
    distrust_vague(s, out);
    return true;
}

static bool cosine_similarity(scene *s)
{
    lines l;
    const dense *y = s->in[1];
    if (!are_numbers(s) || !find_lines(s, &l) || y == NULL || y->dtype != l.x->dtype || y->ndim != l.x->ndim ||
        memcmp(y->shape, l.x->shape, (size_t)y->ndim * sizeof(y->shape[0])) != 0) {
        return false;
    }
    int64_t shape[MAX_TENSOR_DIMS];
    for (int d = 0, kept = 0; d < y->ndim; d++) {
        if (d != l.dim) {
            shape[kept++] = y->shape[d];
        }
    }
    dense *out = scene_output(s, 0, y->dtype, y->ndim - 1, shape);
    for (int64_t line = 0; line < l.count; line++) {
        double sum = 0, norms = norm_of(&l, l.x, line, 2, s->step->reals[1]) * norm_of(&l, y, line, 2, s->step->reals[1]);
        for (int64_t i = 0; i < l.length; i++) {
            sum += l.x->at[place(&l, line, i)].real * y->at[place(&l, line, i)].real / norms;
        }
        set_number(s, out, line, sum, 3 * ((double)l.length + 20) * epsilon_of(out->dtype));
    }
    out->mass = fmax(out->mass, (double)l.length);
    distrust_vague(s, out);
    return true;
}

/* ---- gates --------------------------------------------------------------------------------------------- */

static bool make_gate(maker *m, step *s)
{
    int64_t shape[MAX_TENSOR_DIMS];
    int ndim = any_shape(m, 1, MAX_TENSOR_DIMS, shape), dim = (int)below(m, ndim);
    shape[dim] = shape[dim] < 2 ? 0 : shape[dim] / 2 * 2;
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = ndim, .shape = shape, .kind = VALUES_SMALL });
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 1;
    s->wholes[0] = dim;
    return a != NO_VALUE;
}

static bool glu(scene *s)
{
    lines l;
    if (!find_lines(s, &l) || l.length % 2 != 0) {
        return false;
    }
    int64_t shape[MAX_TENSOR_DIMS];
    memcpy(shape, l.x->shape, (size_t)l.x->ndim * sizeof(shape[0]));
    shape[l.dim] /= 2;
    dense *out = scene_output(s, 0, l.x->dtype, l.x->ndim, shape);
    lines half = l;
    half.length /= 2;
    for (int64_t line = 0; line < l.count; line++) {
        for (int64_t i = 0; i < half.length; i++) {
            double a = l.x->at[place(&l, line, i)].real, b = l.x->at[place(&l, line, i + half.length)].real;
            double value = a / (1 + exp(-b));
            set_number(s, out, place(&half, line, i), value, (10 + fabs(b)) * epsilon_of(out->dtype) * fabs(value));
        }
    }
    distrust_vague(s, out);
    return true;
}

static bool make_prelu(maker *m, step *s)
{
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    int64_t one = 1, size = x->ndim < 2 || one_in(m, 3) ? one : x->shape[1];
    int weight = choose_value(m, &(wish){ .types = BIT(x->dtype), .mesh = mesh_of(m, a), .least = 1, .shape = &size,
                                          .kind = VALUES_SMALL });
    *s = step_of(s->operation, 2, a, weight);
    return weight != NO_VALUE;
}

static bool prelu(scene *s)
{
    const dense *x = s->in[0], *weight = s->in[1];
    if (x == NULL || weight == NULL || !is_floating(x->dtype) || weight->dtype != x->dtype || weight->ndim != 1 ||
        (weight->count != 1 && (x->ndim < 2 || weight->count != x->shape[1]))) {
        return false;
    }
    dense *out = scene_output(s, 0, x->dtype, x->ndim, x->shape);
    int64_t inner = x->ndim < 2 ? 1 : count_of(x->ndim - 2, x->shape + 2);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t channel = weight->count == 1 ? 0 : i / inner % weight->count;
        double slope = weight->at[channel].real, value = x->at[i].real;
        double slack = epsilon_of(x->dtype) * mass_at(weight, channel) * fabs(value);
        set_number(s, out, i, value > 0 ? value : slope * value, value > 0 ? 0 : slack);
    }
    distrust_vague(s, out);
    return true;
}

/* ---- matrices ------------------------------------------------------------------------------------------ */

static bool make_matrix_norm(maker *m, step *s)
{
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = 2, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    *s = step_of(s->operation, 1, a);
    s->num_wholes = 2;
    s->wholes[0] = below(m, 5);
    s->wholes[1] = below(m, 2);
    return a != NO_VALUE && value_of(m, a)->ndim >= 2;
}

static double norm_of_matrix(const element *at, int64_t rows, int64_t columns, int64_t kind)
{
    bool of_columns = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_MINUS_ONE;
    bool largest = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_INFINITY;
    double found = largest ? 0 : (double)INFINITY;
    for (int64_t i = 0; i < (of_columns ? columns : rows); i++) {
        double sum = 0;
        for (int64_t k = 0; k < (of_columns ? rows : columns); k++) {
            sum += fabs(at[of_columns ? k * columns + i : i * columns + k].real);
        }
        found = largest ? fmax(found, sum) : fmin(found, sum);
    }
    return found;
}

static bool matrix_norm(scene *s)
{
    const dense *x = s->in[0];
    int64_t kind = whole_of_call(s, 0), keeps = whole_of_call(s, 1);
    if (x == NULL || x->ndim < 2 || !is_floating(x->dtype) || kind < 0 || kind > WEFT_MATRIX_MINUS_INFINITY) {
        return false;
    }
    int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1], shape[MAX_TENSOR_DIMS];
    bool of_columns = kind == WEFT_MATRIX_ONE || kind == WEFT_MATRIX_MINUS_ONE;
    if (kind != WEFT_MATRIX_FROBENIUS && (of_columns ? columns : rows) == 0) {
        return false;
    }
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof(shape[0]));
    shape[x->ndim - 2] = shape[x->ndim - 1] = 1;
    dense *out = scene_output(s, 0, x->dtype, x->ndim - (keeps ? 0 : 2), shape);
    for (int64_t i = 0; i < out->count; i++) {
        const element *at = x->at + i * rows * columns;
        double squares = 0;
        for (int64_t k = 0; k < rows * columns; k++) {
            squares += at[k].real * at[k].real;
        }
        double value = kind == WEFT_MATRIX_FROBENIUS ? sqrt(squares) : norm_of_matrix(at, rows, columns, kind);
        set_number(s, out, i, value, ((double)(rows * columns) + 10) * epsilon_of(x->dtype) * value);
    }
    distrust_vague(s, out);
    return true;
}

/* ---- channels ------------------------------------------------------------------------------------------ */

static int choose_vector(maker *m, int a, value_kind kind)
{
    const dense *x = value_of(m, a);
    return choose_value(m, &(wish){ .types = BIT(x->dtype), .mesh = mesh_of(m, a), .least = 1, .shape = x->shape + 1,
                                    .kind = kind });
}

static bool make_channels(maker *m, step *s)
{
    bool running = strcmp(s->operation->name, "batch_norm_of_running") == 0;
    int a = choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .least = 2, .most = MAX_TENSOR_DIMS, .kind = VALUES_SMALL });
    if (a == NO_VALUE || value_of(m, a)->ndim < 2) {
        return false;
    }
    int vectors[4] = { NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE };
    for (int i = 0; i < (running ? 4 : 2); i++) {
        bool wanted = i >= 2 || one_in(m, 2);
        vectors[i] = wanted ? choose_vector(m, a, i == 3 ? VALUES_POSITIVE : VALUES_SMALL) : NO_VALUE;
        if (wanted && vectors[i] == NO_VALUE) {
            return false;
        }
    }
    *s = step_of(s->operation, running ? 5 : 3, a, vectors[0], vectors[1], vectors[2], vectors[3]);
    int64_t channels = value_of(m, a)->shape[1], groups = between(m, 1, 3);
    s->num_wholes = 1;
    s->wholes[0] = channels % groups == 0 ? groups : 1;
    s->num_reals = 1;
    s->reals[0] = 0.125;
    return true;
}

static bool is_vector(const dense *a, const dense *vector)
{
    return vector == NULL || (vector->ndim == 1 && vector->dtype == a->dtype && vector->shape[0] == a->shape[1]);
}

/* Elements of one normalisation: those of number `set`. */
typedef struct channel_sets {
    bool batch;
    int64_t samples, channels, inner, together; /* channels of one set */
} channel_sets;

static int64_t set_of(const channel_sets *c, int64_t i)
{
    int64_t channel = i / c->inner % c->channels, sample = i / c->inner / c->channels;
    return c->batch ? channel : sample * (c->channels / c->together) + channel / c->together;
}

static bool channel_norm(scene *s)
{
    const dense *a = s->in[0];
    const char *name = s->step->operation->name;
    bool running = strcmp(name, "batch_norm_of_running") == 0, batch = name[0] == 'b', each = name[0] == 'i';
    if (a == NULL || a->ndim < 2 || !is_floating(a->dtype) || s->step->num_reals < 1 || !(s->step->reals[0] > 0.01)) {
        return false;
    }
    for (int k = 1; k < s->step->num_inputs; k++) {
        if (!is_vector(a, s->in[k]) || (k >= 3 && s->in[k] == NULL)) {
            return false;
        }
    }
    int64_t groups = each ? a->shape[1] : whole_of_call(s, 0);
    if (!batch && !each && (groups < 1 || a->shape[1] % groups != 0)) {
        return false;
    }
    channel_sets c = { batch, a->shape[0], a->shape[1], count_of(a->ndim - 2, a->shape + 2),
                       groups < 1 || a->shape[1] == 0 ? 1 : a->shape[1] / groups };
    int64_t sets = batch ? c.channels : c.samples * (c.channels / c.together), count = sets == 0 ? 0 : a->count / sets;
    if (batch && !running && c.samples * c.inner == 1) {
        return false;
    }
    double *means = arena_get(s->arena, (size_t)(sets + 1) * sizeof(double)),
           *squares = arena_get(s->arena, (size_t)(sets + 1) * sizeof(double)), most = 0;
    for (int64_t i = 0; i < a->count; i++) {
        means[set_of(&c, i)] += a->at[i].real / (double)count;
        most = fmax(most, fabs(a->at[i].real));
    }
    for (int64_t i = 0; i < a->count; i++) {
        squares[set_of(&c, i)] += pow(a->at[i].real - means[set_of(&c, i)], 2) / (double)count;
    }
    dense *out = scene_output(s, 0, a->dtype, a->ndim, a->shape);
    for (int64_t i = 0; i < a->count; i++) {
        int64_t channel = i / c.inner % c.channels, set = set_of(&c, i);
        double mean = running ? s->in[3]->at[channel].real : means[set];
        double variance = running ? s->in[4]->at[channel].real : squares[set];
        if (running && !(variance >= 0 && variance < 1000)) {
            return false;
        }
        double scale = (s->in[1] == NULL ? 1 : s->in[1]->at[channel].real) / sqrt(variance + s->step->reals[0]);
        double shift = s->in[2] == NULL ? 0 : s->in[2]->at[channel].real;
        double largest = (s->in[1] == NULL ? 1 : mass_at(s->in[1], channel)) / sqrt(variance + s->step->reals[0]);
        double size = largest * (most + fabs(mean)) * (1 + most * most / (variance + s->step->reals[0])) +
                      (s->in[2] == NULL ? 0 : mass_at(s->in[2], channel));
        set_number(s, out, i, (a->at[i].real - mean) * scale + shift, ((double)count + 20) * epsilon_of(a->dtype) * size);
    }
    distrust_vague(s, out);
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const operation normalize_calls[] = {
    ROW(normalize, make_vectors, normalize, .weight = 3),
    ROW(cosine_similarity, make_vectors, cosine_similarity, .flags = MAY_BE_PARTIAL, .weight = 3),
    ROW(glu, make_gate, glu, .weight = 3),
    ROW(prelu, make_prelu, prelu, .weight = 3),
    ROW(batch_norm, make_channels, channel_norm, .weight = 3),
    ROW(batch_norm_of_running, make_channels, channel_norm, .weight = 3),
    ROW(group_norm, make_channels, channel_norm, .weight = 3),
    ROW(instance_norm, make_channels, channel_norm, .weight = 3),
    ROW(matrix_norm, make_matrix_norm, matrix_norm, .flags = MAY_BE_PARTIAL, .weight = 3),
    { .name = NULL },
};
