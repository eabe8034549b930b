/* Attention: products.h. */
#include "elementwise.h"
#include "ops/backward.h"
#include "sums.h"

CALLS(attention, out[0] = weft_attention(in[0], in[1], in[2],
                                         &(weft_attention_options){ 0, whole[0] != 0, real[0], in[3] }))
CALLS(attention_backward,
      out[0] = weft_attention_backward(in[4], in[0], in[1], in[2], in[5],
                                       &(weft_attention_options){ 0, whole[0] != 0, real[0], in[3] }, &out[1],
                                       &out[2]))

CALLS(attention_with_log_sums,
      out[0] = weft_attention_with_log_sums(in[0], in[1], in[2],
                                            &(weft_attention_options){ 0, whole[0] != 0, real[0], in[3] }, &out[1]))
CALLS(attention_backward_with_log_sums,
      out[0] = weft_attention_backward_with_log_sums(in[4], in[0], in[1], in[2], in[5], in[6],
                                                     &(weft_attention_options){ 0, whole[0] != 0, real[0], in[3] },
                                                     &out[1], &out[2]))

CALLS(attention_grouped,
      out[0] = weft_attention(in[0], in[1], in[2],
                              &(weft_attention_options){ 0, whole[0] != 0, real[0], in[3], true, real[1] }))

enum { Q, K, V, MASK, GRADIENT, OUTPUT, LOG_SUMS, OPERANDS };

static weft_dtype wide(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/* ---- making -------------------------------------------------------------------------------------------- */

static int choose_operand(maker *m, int other, weft_dtype dtype, int ndim, const int64_t shape[])
{
    return choose_value(m, &(wish){ .types = BIT(dtype),
                                    .mesh = other == NO_VALUE ? -1 : mesh_of(m, other),
                                    .least = ndim,
                                    .shape = shape,
                                    .kind = VALUES_SMALL });
}

/* A mask, of a part of the batch and of the rows; or none. */
static int choose_mask(maker *m, int q, int batch, const int64_t shape[], int64_t rows, int64_t keys)
{
    int64_t own[WEFT_MAX_DIMS];
    int less = (int)below(m, batch + 1), ndim = batch - less + 2;
    for (int d = 0; d < batch - less; d++) {
        own[d] = one_in(m, 3) ? 1 : shape[d + less];
    }
    own[ndim - 2] = one_in(m, 4) ? 1 : rows;
    own[ndim - 1] = keys;
    weft_dtype dtype = one_in(m, 2) ? WEFT_BOOL : any_type(m, FLOATS);
    return one_in(m, 2) ? NO_VALUE : choose_operand(m, q, dtype, ndim, own);
}

static int shard_sequence(maker *m, int value)
{
    step s = step_of(operation_find("redistribute"), 1, value);
    s.mesh = mesh_of(m, value);
    int dim = value_of(m, value)->ndim - 2;
    for (int d = 0; d < m->program->meshes[s.mesh].ndim; d++) {
        s.placements[d] = weft_shard(dim);
    }
    return add_step(m, &s) ? s.outputs[0] : NO_VALUE;
}

static bool make_attention(maker *m, step *s)
{
    int64_t shape[WEFT_MAX_DIMS], rows = between(m, 1, 7), keys = one_in(m, 30) ? 0 : between(m, 1, 9);
    int64_t inner = between(m, 1, 4), width = between(m, 1, 4);
    int batch = (int)below(m, 3);
    for (int d = 0; d < batch; d++) {
        shape[d] = between(m, 1, 3);
    }
    shape[batch] = rows;
    shape[batch + 1] = inner;
    weft_dtype dtype = any_type(m, FLOATS);
    int q = choose_operand(m, NO_VALUE, dtype, batch + 2, shape);
    for (int d = 0; d < batch; d++) {
        shape[d] = one_in(m, 5) ? 1 : shape[d];
    }
    shape[batch] = keys;
    int k = q == NO_VALUE ? NO_VALUE : choose_operand(m, q, dtype, batch + 2, shape);
    shape[batch + 1] = width;
    int v = k == NO_VALUE ? NO_VALUE : choose_operand(m, q, dtype, batch + 2, shape);
    if (v == NO_VALUE) {
        return false;
    }
    /* Rows and keys sharded alike: a ring. */
    if (one_in(m, 3)) {
        q = shard_sequence(m, q);
        k = shard_sequence(m, k);
        v = shard_sequence(m, v);
        if (q == NO_VALUE || k == NO_VALUE || v == NO_VALUE) {
            return false;
        }
    }
    int mask = choose_mask(m, q, batch, value_of(m, q)->shape, rows, keys);
    *s = step_of(s->operation, 4, q, k, v, mask);
    s->num_wholes = 1;
    s->wholes[0] = one_in(m, 3);
    s->num_reals = 1;
    s->reals[0] = one_in(m, 2) ? 0 : 0.25;
    s->num_outputs = s->operation == operation_find("attention_with_log_sums") ? 2 : 1;
    s->outputs[0] = s->outputs[1] = NO_VALUE;
    return true;
}

/* Heads of q that share those of k and v; sometimes with dropout. */
static bool make_attention_grouped(maker *m, step *s)
{
    int64_t heads = between(m, 1, 3), group = between(m, 1, 3), keys = one_in(m, 30) ? 0 : between(m, 1, 6);
    int64_t shape[] = { between(m, 1, 2), heads * group, between(m, 1, 5), between(m, 1, 3) };
    int less = (int)below(m, 2);
    weft_dtype dtype = any_type(m, FLOATS);
    int q = choose_operand(m, NO_VALUE, dtype, 4 - less, shape + less);
    int64_t rows = shape[2];
    shape[1] = heads;
    shape[2] = keys;
    int k = q == NO_VALUE ? NO_VALUE : choose_operand(m, q, dtype, 4 - less, shape + less);
    shape[3] = between(m, 1, 3);
    int v = k == NO_VALUE ? NO_VALUE : choose_operand(m, q, dtype, 4 - less, shape + less);
    if (v == NO_VALUE) {
        return false;
    }
    int mask = choose_mask(m, q, 2 - less, value_of(m, q)->shape, rows, keys);
    *s = step_of(s->operation, 4, q, k, v, mask);
    s->num_wholes = 1;
    s->wholes[0] = one_in(m, 3);
    s->num_reals = 2;
    s->reals[0] = one_in(m, 2) ? 0 : 0.25;
    s->reals[1] = one_in(m, 2) ? 0 : (double)between(m, 1, 4) / 4;
    return true;
}

/* The step that the gradient is of, and then its own. */
static bool make_attention_backward(maker *m, step *s)
{
    bool kept = s->operation == operation_find("attention_backward_with_log_sums");
    step forward = { .operation = operation_find(kept ? "attention_with_log_sums" : "attention") };
    if (!make_attention(m, &forward) || !add_step(m, &forward)) {
        return false;
    }
    int output = forward.outputs[0];
    const dense *x = value_of(m, output);
    int gradient = choose_operand(m, output, x->dtype, x->ndim, x->shape);
    *s = step_of(s->operation, kept ? 7 : 6, forward.inputs[Q], forward.inputs[K], forward.inputs[V],
                 forward.inputs[MASK], gradient, output, forward.outputs[1]);
    s->num_wholes = 1;
    s->wholes[0] = forward.wholes[0];
    s->num_reals = 1;
    s->reals[0] = forward.reals[0];
    s->num_outputs = 3;
    s->outputs[1] = s->outputs[2] = NO_VALUE;
    return gradient != NO_VALUE;
}

/* ---- what both directions go through ------------------------------------------------------------------- */

typedef struct attention {
    const dense *in[OPERANDS];
    int batch; /* dimensions of it */
    int64_t shape[WEFT_MAX_DIMS];
    int64_t matrices, rows, keys, inner, width;
    bool causal;
    double scale;
    int64_t group; /* heads of q for each of k and v */
} attention;

/* The first element of matrix i of an operand, whose matrices are broadcast. */
static int64_t matrix_at(const attention *a, int operand, int64_t i)
{
    dense batch = *a->in[operand];
    int64_t size = batch.shape[batch.ndim - 2] * batch.shape[batch.ndim - 1], group = operand == Q ? 1 : a->group;
    batch.ndim -= 2;
    if (group > 1) {
        batch.shape[batch.ndim - 1] *= group;
    }
    return broadcast_index(&batch, a->batch, a->shape, i) / group * size;
}

/* Shapes of a call with grouped heads; its batches do not broadcast. */
static bool find_group(const scene *s, attention *a)
{
    const dense *q = s->in[Q];
    for (int i = Q; i <= V; i++) {
        const dense *x = s->in[i];
        if (x == NULL || x->ndim < 3 || x->ndim != q->ndim || (x->ndim == 4 && x->shape[0] != q->shape[0])) {
            return false;
        }
    }
    int64_t heads = s->in[K]->shape[q->ndim - 3];
    if (q->ndim > 4 || heads < 1 || q->shape[q->ndim - 3] % heads != 0 || s->in[V]->shape[q->ndim - 3] != heads) {
        return false;
    }
    a->group = q->shape[q->ndim - 3] / heads;
    return s->step->num_reals >= 2 && s->step->reals[1] >= 0 && s->step->reals[1] <= 1;
}

static bool find_attention(scene *s, attention *a)
{
    *a = (attention){ .causal = whole_of_call(s, 0) != 0, .group = 1 };
    if (s->step->operation->details != NULL && !find_group(s, a)) {
        return false;
    }
    const dense *batches[3];
    dense parts[3];
    for (int i = 0; i < s->step->num_inputs; i++) {
        a->in[i] = s->in[i];
        if (i == LOG_SUMS) {
            continue;
        }
        if (i != MASK && (s->in[i] == NULL || s->in[i]->ndim < 2 || !is_floating(s->in[i]->dtype) ||
                          s->in[i]->dtype != s->in[0]->dtype)) {
            return false;
        }
        if (s->in[i] != NULL && !dense_is_finite(s->in[i])) {
            return false;
        }
        if (i <= V) {
            parts[i] = *s->in[i];
            parts[i].ndim -= 2;
            if (i != Q && a->group > 1) {
                parts[i].shape[parts[i].ndim - 1] *= a->group;
            }
            batches[i] = &parts[i];
        }
    }
    const dense *q = a->in[Q], *k = a->in[K], *v = a->in[V], *mask = a->in[MASK];
    a->batch = broadcast_shape(3, batches, a->shape);
    a->rows = q->shape[q->ndim - 2];
    a->inner = q->shape[q->ndim - 1];
    a->keys = k->shape[k->ndim - 2];
    a->width = v->shape[v->ndim - 1];
    if (a->batch < 0 || s->step->num_reals < 1 || k->shape[k->ndim - 1] != a->inner ||
        v->shape[v->ndim - 2] != a->keys || a->inner == 0) {
        return false;
    }
    a->matrices = count_of(a->batch, a->shape);
    a->scale = s->step->reals[0] == 0 ? 1 / sqrt((double)a->inner) : s->step->reals[0];
    if (mask != NULL) {
        int64_t scores[WEFT_MAX_DIMS];
        dense like = { .ndim = a->batch + 2 };
        for (int d = 0; d < a->batch; d++) {
            like.shape[d] = a->shape[d];
        }
        like.shape[a->batch] = a->rows;
        like.shape[a->batch + 1] = a->keys;
        if ((mask->dtype != WEFT_BOOL && !is_floating(mask->dtype)) ||
            broadcast_shape(2, (const dense *const[]){ mask, &like }, scores) != like.ndim ||
            count_of(like.ndim, scores) != count_of(like.ndim, like.shape)) {
            return false;
        }
    }
    return true;
}

/* A row's weights, from the log-sums where they are given; returns a bound of the error of their logarithms, in roundings.
 */
static double weigh(const attention *a, int64_t i, int64_t row, double weights[], double *log_sum)
{
    int64_t of_q = matrix_at(a, Q, i) + row * a->inner, of_k = matrix_at(a, K, i);
    double most = -(double)INFINITY, total = 0, largest = 0;
    int64_t scores[WEFT_MAX_DIMS];
    for (int d = 0; d < a->batch; d++) {
        scores[d] = a->shape[d];
    }
    scores[a->batch] = a->rows;
    scores[a->batch + 1] = a->keys;
    for (int64_t key = 0; key < a->keys; key++) {
        double score = 0, mass = 0, added = 0;
        bool seen = !a->causal || key <= row;
        for (int64_t e = 0; e < a->inner; e++) {
            double x = a->in[Q]->at[of_q + e].real * a->in[K]->at[of_k + key * a->inner + e].real;
            score += a->scale * x;
            mass += fabs(a->scale * x);
        }
        if (a->in[MASK] != NULL) {
            const dense *mask = a->in[MASK];
            int64_t at = broadcast_index(mask, a->batch + 2, scores, (i * a->rows + row) * a->keys + key);
            seen &= mask->dtype != WEFT_BOOL || mask->at[at].whole != 0;
            added = mask->dtype == WEFT_BOOL ? 0 : mask->at[at].real;
        }
        weights[key] = seen ? score + added : -(double)INFINITY;
        most = fmax(most, weights[key]);
        largest = fmax(largest, mass + fabs(added));
    }
    double given = a->in[LOG_SUMS] == NULL ? 0 : a->in[LOG_SUMS]->at[i * a->rows + row].real;
    for (int64_t key = 0; key < a->keys && a->in[LOG_SUMS] != NULL; key++) {
        weights[key] = exp(weights[key] - given);
    }
    if (a->in[LOG_SUMS] != NULL) {
        return 4 * ((double)a->inner + 8) * largest + (double)a->keys + 40 + (isinf(given) ? 0 : 4 * fabs(given));
    }
    for (int64_t key = 0; key < a->keys; key++) {
        weights[key] = most == -(double)INFINITY ? 0 : exp(weights[key] - most);
        total += weights[key];
    }
    *log_sum = total > 0 ? most + log(total) : (double)INFINITY;
    for (int64_t key = 0; key < a->keys; key++) {
        weights[key] /= total > 0 ? total : 1;
    }
    return 4 * ((double)a->inner + 8) * largest + (double)a->keys + 40;
}

/* ---- the result ---------------------------------------------------------------------------------------- */

static bool attended(scene *s)
{
    attention a;
    if (!find_attention(s, &a)) {
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < a.batch; d++) {
        shape[d] = a.shape[d];
    }
    shape[a.batch] = a.rows;
    shape[a.batch + 1] = a.width;
    dense *out = scene_output(s, 0, a.in[Q]->dtype, a.batch + 2, shape);
    dense *log_sums = s->step->num_outputs < 2 ? NULL : scene_output(s, 1, wide(out->dtype), a.batch + 1, shape);
    double log_sum, *weights = arena_get(s->arena, (size_t)(a.keys + 1) * sizeof(double));
    double dropout = s->step->num_reals < 2 ? 0 : s->step->reals[1];
    weft_random_state state = { 0, 0 };
    if (dropout > 0) {
        state = draw(s);
    }
    for (int64_t at = 0; at < a.matrices * a.rows; at++) {
        double roundings = weigh(&a, at / a.rows, at % a.rows, weights, &log_sum);
        for (int64_t key = 0; key < a.keys && dropout > 0; key++) {
            bool kept = chance_of(state, at * a.keys + key) < 1 - dropout;
            weights[key] = kept ? weights[key] / (1 - dropout) : 0;
        }
        roundings *= dropout > 0 ? 8 : 1;
        if (log_sums != NULL) {
            set_number(s, log_sums, at, log_sum, isinf(log_sum) ? 0 : roundings * epsilon_of(log_sums->dtype));
        }
        int64_t of_v = matrix_at(&a, V, at / a.rows);
        for (int64_t f = 0; f < a.width; f++) {
            double value = 0, mass = 0;
            for (int64_t key = 0; key < a.keys; key++) {
                double v = a.in[V]->at[of_v + key * a.width + f].real;
                value += weights[key] * v;
                mass = fmax(mass, fabs(v));
            }
            set_number(s, out, at * a.width + f, value, roundings * epsilon_of(out->dtype) * mass);
        }
    }
    distrust_vague(s, out);
    if (log_sums != NULL) {
        distrust_vague(s, log_sums);
    }
    return true;
}

/* ---- its gradients ------------------------------------------------------------------------------------- */

/* One row of scores: its addends to the gradients of q, k and v. */
static void go_back(const attention *a, int64_t i, int64_t row, double weights[], sums of[3])
{
    double log_sum, roundings = weigh(a, i, row, weights, &log_sum), dot = 0, dot_mass = 0;
    int64_t at = (i * a->rows + row) * a->width, of_v = matrix_at(a, V, i), of_k = matrix_at(a, K, i);
    int64_t of_q = matrix_at(a, Q, i) + row * a->inner;
    const element *g = a->in[GRADIENT]->at + at, *o = a->in[OUTPUT]->at + at;
    for (int64_t f = 0; f < a->width; f++) {
        dot += g[f].real * o[f].real;
        dot_mass += mass_at(a->in[GRADIENT], at + f) * fabs(o[f].real);
    }
    for (int64_t key = 0; key < a->keys; key++) {
        double along = 0, mass = dot_mass, most = fmax(1, weights[key]); /* log-sums of other values give weights above 1 */
        for (int64_t f = 0; f < a->width; f++) {
            double v = a->in[V]->at[of_v + key * a->width + f].real;
            along += g[f].real * v;
            mass += mass_at(a->in[GRADIENT], at + f) * fabs(v);
            of[2].values[of_v + key * a->width + f] += weights[key] * g[f].real;
            of[2].masses[of_v + key * a->width + f] += mass_at(a->in[GRADIENT], at + f) * roundings * most;
        }
        double slope = a->scale * weights[key] * (along - dot), size = fabs(a->scale) * mass * roundings * most;
        for (int64_t e = 0; e < a->inner; e++) {
            int64_t in_q = of_q + e, in_k = of_k + key * a->inner + e;
            double q = a->in[Q]->at[in_q].real, k = a->in[K]->at[in_k].real;
            of[0].values[in_q] += slope * k;
            of[0].masses[in_q] += size * fabs(k);
            of[1].values[in_k] += slope * q;
            of[1].masses[in_k] += size * fabs(q);
        }
    }
}

static bool attended_backward(scene *s)
{
    attention a;
    if (s->step->num_inputs < 6 || s->step->num_outputs != 3 || !find_attention(s, &a)) {
        return false;
    }
    int64_t count = a.matrices * a.rows * a.width;
    for (int k = GRADIENT; k <= OUTPUT; k++) {
        if (a.in[k]->ndim != a.batch + 2 || a.in[k]->count != count ||
            a.in[k]->shape[a.batch + 1] != a.width || a.in[k]->shape[a.batch] != a.rows) {
            return false;
        }
    }
    const dense *log_sums = a.in[LOG_SUMS];
    if (s->step->num_inputs > LOG_SUMS &&
        (log_sums == NULL || log_sums->dtype != wide(a.in[Q]->dtype) || log_sums->ndim != a.batch + 1 ||
         log_sums->count != a.matrices * a.rows || log_sums->shape[a.batch] != a.rows)) {
        return false;
    }
    double *weights = arena_get(s->arena, (size_t)(a.keys + 1) * sizeof(double));
    sums of[3];
    for (int k = 0; k < 3; k++) {
        of[k] = sums_new(s, a.in[k]->count);
    }
    for (int64_t at = 0; at < a.matrices * a.rows; at++) {
        go_back(&a, at / a.rows, at % a.rows, weights, of);
    }
    for (int k = 0; k < 3; k++) {
        dense *out = scene_output(s, k, a.in[k]->dtype, a.in[k]->ndim, a.in[k]->shape);
        for (int64_t i = 0; i < out->count; i++) {
            set_linear(s, out, i, of[k].values[i], (double)(a.rows + a.matrices), of[k].masses[i]);
        }
        distrust_vague(s, out);
    }
    return true;
}

const operation attention_calls[] = {
    ROW(attention, make_attention, attended, .flags = MAY_BE_PARTIAL, .weight = 14),
    ROW(attention_grouped, make_attention_grouped, attended, .details = "", .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(attention_backward, make_attention_backward, attended_backward, .flags = MAY_BE_PARTIAL,
        .weight = 10),
    ROW(attention_with_log_sums, make_attention, attended, .flags = MAY_BE_PARTIAL, .weight = 6),
    ROW(attention_backward_with_log_sums, make_attention_backward, attended_backward, .flags = MAY_BE_PARTIAL,
        .weight = 8),
    { .name = NULL },
};
