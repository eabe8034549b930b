/* Attention and its gradients on random shapes, meshes and placements against plain loops, with panels of
 * several heights; in one process that hosts all ranks, or in several. What moves where sequences are
 * sharded. */
#include "operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"

/* Where `x` has the element at index `i` of `shape` (of `batch` dimensions) with (row, column) after it,
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

/* The weights of a row's keys, by the plain formula. Returns the logarithm of the sum of e^score; infinity for none. */
static double row_weights(const attention_case *c, int64_t i, int64_t row, double *weights)
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
    return sum > 0 ? most + log(sum) : INFINITY;
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

/* Sequences sharded along some mesh dimensions, around which blocks move. Returns these as bits; reducing
 * addends for a change of type may have replicated the rest. Keys alone: along some of these or all. */
static unsigned lay_in_ring(operand *const all[3], weft_dtype type, sequences how)
{
    int dims = weft_mesh_ndim(all[0]->mesh);
    unsigned chosen = 1u << below(dims) | (unsigned)below(1 << dims);
    unsigned of_q = how == IN_RING ? chosen : chosen & (unsigned)below(1 << dims), laid = of_q;
    for (int i = 0; i < 3; i++) {
        forget_sizes(dims, all[i]->placements); /* another mesh dimension may come to cut before */
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
    x->q = make_narrow(mesh, x->type, ndim, shape_q, WHOLE);
    x->k = make_narrow(mesh, x->type, ndim_k, shape_k, WHOLE);
    x->v = make_narrow(mesh, x->type, ndim_v, shape_v, WHOLE);
    x->gradient = make_narrow(mesh, x->type, x->ndim, x->shape, WHOLE);
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

/* Asking for the log-sums changes nothing else. */
static void check_log_sums(const attention_case *c, const attention_operands *x, weft_tensor *result)
{
    enum { BOUND = 100000 };
    weft_tensor *log_sums;
    check_repeats(result,
                  weft_attention_with_log_sums(x->q.tensor, x->k.tensor, x->v.tensor, &x->options, &log_sums));
    weft_dtype type = x->type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    int64_t rows = shape_count(x->ndim - 1, x->shape);
    double *expected = malloc(((size_t)rows + 1) * sizeof(double)), *weights = malloc((size_t)(c->t + 1) * sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        expected[i] = fmin(row_weights(c, i / c->s, i % c->s, weights), BOUND);
    }
    /* Infinity cannot be compared by differences. */
    check(weft_clamp(log_sums, -BOUND, BOUND), type, x->ndim - 1, x->shape, expected, 40, 40, x->what);
    free(expected);
    free(weights);
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
    check_narrow(result, x.type, x.ndim, x.shape, expected, 100, 10, x.what);
    check_stays(&x.q, result, x.ring, x.what);
    check_repeats(result, weft_attention(x.q.tensor, x.k.tensor, x.v.tensor, &x.options));
    check_log_sums(&c, &x, result);
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

/* For q, k and v: the values of a gradient, and the magnitudes of the terms. */
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

/* Adds a row's part of the gradients, by the plain formula. */
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
    check_narrow(result, x->type, sum->of->ndim, sum->of->shape, sum->values, 1000, most, what);
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
    /* So it is with log-sums that were kept. */
    weft_tensor *log_sums;
    output = weft_attention_with_log_sums(q, k, v, &x.options, &log_sums);
    dq = weft_attention_backward_with_log_sums(up, q, k, v, output, log_sums, &x.options, &dk, &dv);
    check_gradient(&x, &sums[0], dq);
    check_gradient(&x, &sums[1], dk);
    check_gradient(&x, &sums[2], dv);
    check_stays(&x.q, dk, x.ring, x.what);
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

/* ---- the suite ----------------------------------------------------------------------------------------- */

static const family families[] = {
    { "attention", case_attention },
    { "attention ring", case_attention_ring },
    { "attention keys", case_attention_keys },
    { "attention_backward", case_attention_backward },
    { "attention_backward ring", case_attention_backward_ring },
    { "attention_backward keys", case_attention_backward_keys },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 50, 1, NULL };

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
    weft_get_counters(&before, sizeof(before));
    weft_tensor *output = weft_attention(q, k, v, NULL);
    weft_get_counters(&forward, sizeof(forward));
    weft_tensor *dq = weft_attention_backward(output, q, k, v, output, NULL, &dk, &dv);
    weft_get_counters(&backward, sizeof(backward));
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
    assert_int_equal(weft_to_host(weft_to_type(weft_sum(output, WEFT_ALL_DIMS, false), WEFT_F64), &sum, sizeof(sum)), WEFT_OK);
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
    weft_get_counters(&before, sizeof(before));
    weft_tensor *output = weft_attention(q, k, v, &options);
    weft_get_counters(&forward, sizeof(forward));
    weft_tensor *dq = weft_attention_backward(output, q, k, v, output, &options, &dk, &dv);
    weft_get_counters(&backward, sizeof(backward));
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
    assert_int_equal(weft_to_host(weft_to_type(weft_sum(output, WEFT_ALL_DIMS, false), WEFT_F64), &sum, sizeof(sum)), WEFT_OK);
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
    weft_scope_begin();
    for (int i = 0; i < 3; i++) {
        realise(all[i]);
    }
    weft_attention_options options = { .causal = true, .scale = 0.4 };
    weft_tensor *result = weft_attention(all[0]->tensor, all[1]->tensor, all[2]->tensor, &options);
    double *values = malloc((size_t)count * sizeof(double)), sum = 0;
    assert_int_equal(weft_to_host(result, values, (size_t)count * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i] * values[i];
    }
    free(values);
    weft_scope_end();
    return sum;
}

/* Against differences, with uneven shards. */
static void test_gradient_by_differences(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    source = prng_start(9);
    weft_scope_begin();
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
        assert_int_equal(weft_to_host(results[i], gradient, (size_t)all[i]->count * sizeof(double)), WEFT_OK);
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
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_gradient_by_differences),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
