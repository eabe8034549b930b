/* Steps of optimisers and clipping against PyTorch's formulas as plain loops: random lists of parameters,
 * layouts of parameters and gradients (Partial ones too), types, options, and panels of several heights. */
#include "optimizer_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"

/* ---- gradient descent ---------------------------------------------------------------------------------- */

static void reference_sgd(item *it, const double *gradient, const weft_sgd_options *o)
{
    for (int64_t j = 0; j < it->parameter.count; j++) {
        double g = gradient[j] + o->weight_decay * it->value[j];
        if (o->momentum != 0) {
            double before = it->state[0][j];
            it->state[0][j] = o->first_step ? g : o->momentum * before + (1 - o->dampening) * g;
            g = o->nesterov ? g + o->momentum * it->state[0][j] : it->state[0][j];
        }
        it->value[j] = rounded(it->type, it->value[j] - o->learning_rate * g);
    }
}

static void case_sgd(void)
{
    scene s;
    make_scene(&s);
    weft_sgd_options options = { .learning_rate = 0.0625 * (double)below(4),
                                 .momentum = below(3) == 0 ? 0 : 0.75,
                                 .weight_decay = below(2) ? 0.125 : 0 };
    options.nesterov = options.momentum != 0 && below(2);
    options.dampening = options.nesterov || below(2) ? 0 : 0.5;
    bool undefined = below(2); /* momenta of which nothing may be used */
    for (int i = 0; i < s.n && undefined; i++) {
        weft_fill_inplace(s.states[0][i], NAN);
    }
    for (int step = 0; step < STEPS; step++) {
        options.first_step = step == 0 && undefined;
        new_gradients(&s);
        for (int i = 0; i < s.n && options.first_step; i++) { /* all momenta begin in this step */
            s.gradient_tensors[i] = s.gradients[i].tensor;
        }
        for (int i = 0; i < s.n; i++) {
            if (s.gradient_tensors[i] != NULL) {
                reference_sgd(&s.items[i], s.gradients[i].dense, &options);
            }
        }
        assert_int_equal(weft_sgd(s.n, s.parameters, s.gradient_tensors, &options,
                                  options.momentum == 0 ? NULL : s.states[0]),
                         WEFT_OK);
        check_scene(&s, options.momentum == 0 ? 0 : 1);
        drop_gradients(&s);
    }
    drop_scene(&s);
}

/* ---- Adam ---------------------------------------------------------------------------------------------- */

static void reference_adam(item *it, const double *gradient, const weft_adam_options *o, int step,
                           bool decoupled)
{
    for (int64_t j = 0; j < it->parameter.count; j++) {
        double g = gradient[j], p = it->value[j];
        if (decoupled) {
            p *= 1 - o->learning_rate * o->weight_decay;
        } else {
            g += o->weight_decay * p;
        }
        it->state[0][j] = o->beta1 * it->state[0][j] + (1 - o->beta1) * g;
        it->state[1][j] = o->beta2 * it->state[1][j] + (1 - o->beta2) * g * g;
        double first = it->state[0][j] / (1 - pow(o->beta1, step));
        double second = it->state[1][j] / (1 - pow(o->beta2, step));
        it->value[j] = rounded(it->type, p - o->learning_rate * first / (sqrt(second) + o->epsilon));
    }
}

static void case_adam(void)
{
    scene s;
    make_scene(&s);
    /* A large epsilon: where a weight of 16 bits is nearly as large as the gradient it decays, the sign of
     * the sum would decide alone. */
    weft_adam_options options = { .learning_rate = 0.125,
                                  .beta1 = below(4) == 0 ? 0 : 0.75,
                                  .beta2 = 0.9375,
                                  .epsilon = 0.5,
                                  .weight_decay = below(2) ? 0.125 : 0 };
    bool decoupled = below(2);
    for (int step = 1; step <= STEPS; step++) {
        new_gradients(&s);
        for (int i = 0; i < s.n; i++) {
            if (s.gradient_tensors[i] != NULL) {
                reference_adam(&s.items[i], s.gradients[i].dense, &options, step, decoupled);
            }
        }
        weft_status status = (decoupled ? weft_adamw : weft_adam)(s.n, s.parameters, s.gradient_tensors,
                                                                  s.states[0], s.states[1], step, &options);
        assert_int_equal(status, WEFT_OK);
        check_scene(&s, 2);
        drop_gradients(&s);
    }
    drop_scene(&s);
}

/* ---- clipping ------------------------------------------------------------------------------------------ */

/* Sums and averages alone. */
static operand make_scalable(weft_mesh *mesh)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    operand x = make_operand(mesh, any_float(), ndim, shape, WHOLE, 0);
    weft_reduce_op op = below(2) ? WEFT_SUM : WEFT_AVG;
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        x.placements[m].op = op;
    }
    realise(&x);
    return x;
}

/* A power of two that brings the squares of whole numbers out of range, and the numbers not. */
static int any_exponent(void)
{
    static const int exponents[] = { 0, 66, 100, -83 };
    return below(2) ? 0 : exponents[below(4)];
}

static void case_clip(void)
{
    static const double powers[] = { 1, 2, 3, 8, 0.5, INFINITY };
    int n = 1 + (int)below(3), exponent = any_exponent();
    double p = powers[below(6)], total = 0, most = ldexp((double)below(20), exponent);
    operand gradients[3];
    weft_tensor *tensors[3];
    weft_mesh *mesh = any_mesh();
    weft_dtype type = WEFT_F32;
    bool single = false; /* one is summed in single precision */
    int absent = below(3) == 0 ? (int)below((uint64_t)n) : n; /* of this one there is none */
    for (int i = 0; i < n; i++) {
        gradients[i] = make_scalable(below(4) == 0 ? any_mesh() : mesh);
        operand *g = &gradients[i];
        g->tensor = exponent == 0 ? g->tensor : weft_scale(g->tensor, ldexp(1, exponent));
        tensors[i] = i == absent ? NULL : g->tensor;
        if (i == absent) {
            continue;
        }
        type = gradients[i].dtype == WEFT_F64 ? WEFT_F64 : type;
        single |= gradients[i].dtype == WEFT_F32;
        for (int64_t j = 0; j < gradients[i].count; j++) {
            double size = fabs(gradients[i].dense[j]);
            total = isinf(p) ? fmax(total, size) : total + pow(size, p);
        }
    }
    total = ldexp(isinf(p) ? total : pow(total, 1 / p), exponent);
    weft_tensor *norm = NULL;
    assert_int_equal(weft_clip_grad_norm(n, tensors, most, p, below(4) == 0 ? NULL : &norm), WEFT_OK);
    double scale = fmin(1, most / (total + 1e-6)), roundings = single && type == WEFT_F64 ? 64 * 0x1p29 : 64;
    if (norm != NULL && n > (absent < n)) {
        check(norm, type, 0, NULL, &total, roundings, ldexp(1, exponent) + total, "norm");
        assert_ptr_equal(weft_tensor_mesh(norm), gradients[absent == 0].mesh);
    }
    for (int i = 0; i < n; i++) {
        operand *g = &gradients[i];
        for (int64_t j = 0; j < g->count; j++) {
            g->dense[j] *= i == absent ? ldexp(1, exponent) : ldexp(scale, exponent);
        }
        check(g->tensor, g->dtype, g->ndim, g->shape, g->dense, g->dtype == WEFT_F64 ? roundings : 64, ldexp(8, exponent),
              describe_operand(g));
        for (int m = 0; m < weft_mesh_ndim(g->mesh); m++) {
            assert_int_equal(weft_tensor_placements(g->tensor)[m].kind, g->placements[m].kind);
        }
        release(g);
    }
}

/* ---- by themselves ------------------------------------------------------------------------------------- */

static uint64_t moved(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.transfers;
}

/* A Partial gradient is used by two updates, and reduced once. */
static void test_gradients_move_once(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    int64_t shape[] = { 16, 4 }, ranks[] = { 4 };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_placement rows = weft_shard(0), addends = weft_partial(WEFT_SUM);
    weft_scope_begin();
    weft_tensor *parameter = weft_ones(WEFT_F32, 2, shape, mesh, &rows);
    weft_tensor *momentum = weft_zeros_like(parameter);
    weft_tensor *gradient = weft_empty(WEFT_F32, 2, shape, mesh, &addends);
    uint64_t before = moved();
    assert_non_null(weft_redistribute(gradient, mesh, &rows));
    uint64_t once = moved() - before;
    before = moved();
    weft_sgd_options options = { .learning_rate = 1, .momentum = 0.5, .weight_decay = 0.5, .nesterov = true };
    assert_int_equal(weft_sgd(1, &parameter, &gradient, &options, &momentum), WEFT_OK);
    assert_int_equal(moved() - before, once);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* In f16 the inverse of 1e-6 is infinite, and a small factor 0. */
static void test_clip_f16(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 4 }, ranks[] = { 2 };
    weft_placement rows = weft_shard(0);
    static const struct {
        double value, max_norm, expected;
    } cases[] = { { 0, 0, 0 }, { 0, 1, 0 }, { 3, 0, 0 }, { 1024, 0x1p-10, 0x1p-10 }, { 0x1p-20, 0, 0 } };
    for (int i = 0; i < 5; i++) {
        uint16_t values[4] = { 1, 1, 1, 1 };
        weft_tensor *a = weft_full(WEFT_F16, cases[i].value, 1, shape, weft_mesh_create(1, ranks, NULL), &rows);
        assert_int_equal(weft_clip_grad_norm(1, &a, cases[i].max_norm, INFINITY, NULL), WEFT_OK);
        assert_int_equal(weft_to_host(a, values, sizeof(values)), WEFT_OK);
        for (int j = 0; j < 4; j++) {
            assert_true((double)weft_f16_to_f32(values[j]) == cases[i].expected);
        }
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Of what has no elements the norm is 0, and nothing is scaled. */
static void test_clip_nothing(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 0, 3 }, ranks[] = { 3 };
    weft_tensor *norm, *empty = weft_zeros(WEFT_F32, 2, shape, weft_mesh_create(1, ranks, NULL), NULL);
    static const double powers[] = { 1, 2, 2.5, INFINITY };
    for (int i = 0; i < 4; i++) {
        float value = 5;
        assert_int_equal(weft_clip_grad_norm(1, &empty, 1, powers[i], &norm), WEFT_OK);
        assert_int_equal(weft_to_host(norm, &value, sizeof(value)), WEFT_OK);
        assert_true(value == 0);
    }
    assert_int_equal(weft_clip_grad_norm(0, NULL, 1, 2, &norm), WEFT_OK);
    assert_null(norm);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static uint64_t skipped(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.gradients_skipped;
}

/* NULL gradients are skipped, and counted; a gradient that is NULL because a call has failed is an error. */
static void test_absent_gradients(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 4 }, ranks[] = { 2 };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_tensor *p[] = { weft_ones(WEFT_F32, 1, shape, mesh, NULL), weft_ones(WEFT_F32, 1, shape, mesh, NULL) };
    weft_tensor *m[] = { weft_zeros_like(p[0]), weft_zeros_like(p[1]) }, *v[] = { weft_zeros_like(p[0]), weft_zeros_like(p[1]) };
    weft_tensor *g[] = { NULL, weft_ones(WEFT_F32, 1, shape, mesh, NULL) }, *none[] = { NULL, NULL }, *norm = p[0];
    const weft_sgd_options sgd = { .learning_rate = 0.5, .momentum = 0.5 };
    const weft_adam_options adam = WEFT_ADAM_DEFAULT;
    uint64_t before = skipped();
    assert_int_equal(weft_sgd(2, p, g, &sgd, m), WEFT_OK);
    assert_int_equal(skipped() - before, 1);
    assert_int_equal(weft_sgd(2, p, none, &sgd, m), WEFT_OK);
    assert_int_equal(weft_adam(2, p, none, m, v, 1, &adam), WEFT_OK);
    assert_int_equal(weft_clip_grad_norm(2, none, 1, 2, &norm), WEFT_OK);
    assert_null(norm);
    assert_int_equal(weft_clip_grad_norm(2, g, 1, 2, &norm), WEFT_OK);
    assert_int_equal(skipped() - before, 8);
    float values[2][4];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_to_host(p[i], values[i], sizeof(values[i])), WEFT_OK);
        assert_true(values[i][0] == (i == 0 ? 1 : 0.5f)); /* learning rate times the momentum, 0.5 * 0 + 1 */
    }
    none[1] = weft_matmul(p[0], NULL);
    assert_null(none[1]);
    assert_int_equal(weft_sgd(2, p, none, &sgd, m), WEFT_ERR_INVALID);
    assert_int_equal(weft_clip_grad_norm(2, none, 1, 2, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_matmul");
    assert_int_equal(skipped() - before, 8);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A second moment beyond the type's range stays there: steps become 0, not NaN. */
static void test_moments_overflow(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    int64_t shape[] = { 3 }, ranks[] = { 3 };
    weft_mesh *mesh = weft_mesh_create(1, ranks, NULL);
    weft_tensor *parameter = weft_ones(WEFT_F32, 1, shape, mesh, NULL);
    weft_tensor *gradient = weft_full(WEFT_F32, 1e22, 1, shape, mesh, NULL);
    weft_tensor *first = weft_zeros_like(parameter), *second = weft_zeros_like(parameter);
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    for (int step = 1; step <= 3; step++) {
        assert_int_equal(weft_adam(1, &parameter, &gradient, &first, &second, step, &options), WEFT_OK);
    }
    float values[3];
    assert_int_equal(weft_to_host(parameter, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 1 && values[2] == 1);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- a program ----------------------------------------------------------------------------------------- */

enum { BATCH = 13, WIDTH = 22, HIDDEN = 35, CLASSES = 10 };

/* A network with two layers, normalisation, dropout; the optimiser with clipped gradients. */
typedef struct network {
    weft_tensor *x, *targets;
    weft_tensor *parameters[3], *first[3], *second[3]; /* gain, two weights */
} network;

static network make_network(weft_mesh *mesh)
{
    weft_placement batch[2], column[2], row[2];
    weft_placements_parse("S0,R", 2, batch);
    weft_placements_parse("R,S1", 2, column);
    weft_placements_parse("R,S0", 2, row);
    int64_t x[] = { BATCH, WIDTH }, gain[] = { WIDTH }, up[] = { WIDTH, HIDDEN },
            down[] = { HIDDEN, CLASSES };
    network n = { .x = weft_randn(WEFT_F32, 2, x, mesh, batch),
                  .targets = weft_randint(WEFT_I64, 0, CLASSES, 1, x, mesh, batch),
                  .parameters = { weft_ones(WEFT_F32, 1, gain, mesh, NULL),
                                  weft_randn(WEFT_F32, 2, up, mesh, column),
                                  weft_randn(WEFT_F32, 2, down, mesh, row) } };
    for (int i = 0; i < 3; i++) {
        n.first[i] = weft_zeros_like(n.parameters[i]);
        n.second[i] = weft_zeros_like(n.parameters[i]);
    }
    return n;
}

static double train_step(const network *n, int64_t step)
{
    weft_scope_begin();
    weft_tensor *gain = n->parameters[0], *up = n->parameters[1], *down = n->parameters[2], *mask, *of_gain;
    weft_tensor *normal = weft_rms_norm(n->x, gain, 1e-5);
    weft_tensor *before = weft_matmul(normal, up), *hidden = weft_gelu(before);
    weft_tensor *kept = weft_dropout(hidden, 0.1, true, &mask), *logits = weft_matmul(kept, down);
    weft_tensor *loss = weft_cross_entropy(logits, n->targets, NULL);
    weft_tensor *of_logits = weft_cross_entropy_backward(NULL, logits, n->targets);
    weft_tensor *of_kept = weft_matmul_ex(of_logits, false, down, true);
    weft_tensor *of_before = weft_gelu_backward(weft_dropout_backward(of_kept, mask, 0.1, true), before);
    weft_rms_norm_backward(weft_matmul_ex(of_before, false, up, true), n->x, gain, 1e-5, &of_gain);
    weft_tensor *gradients[] = { of_gain, weft_matmul_ex(normal, true, of_before, false),
                                 weft_matmul_ex(kept, true, of_logits, false) };
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    options.learning_rate = 1e-3 * (double)step;
    assert_no_error();
    assert_int_equal(weft_clip_grad_norm(3, gradients, 1, 2, NULL), WEFT_OK);
    assert_int_equal(weft_adamw(3, n->parameters, gradients, n->first, n->second, step, &options), WEFT_OK);
    double value = NAN;
    assert_int_equal(weft_tensor_item(loss, &value), WEFT_OK);
    weft_scope_end();
    return value;
}

/* The second step of a program finds all layouts and all plans that the first one has made, though rate,
 * number of the step and random numbers are others. */
static void test_second_pass_misses_nothing(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    int64_t sizes[] = { 2, 3 };
    weft_scope_begin();
    network n = make_network(weft_mesh_create(2, sizes, NULL));
    assert_no_error();
    double first = train_step(&n, 1), last = first;
    weft_counters before, after;
    assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
    for (int64_t step = 2; step <= 30; step++) {
        last = train_step(&n, step);
    }
    assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
    assert_int_equal(after.dispatch_misses, before.dispatch_misses);
    assert_int_equal(after.plan_misses, before.plan_misses);
    assert_true(after.dispatch_hits > before.dispatch_hits && last < first);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static const family families[] = {
    { "sgd", case_sgd },
    { "adam", case_adam },
    { "clip", case_clip },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 40, 1, NULL };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_move_once),
        cmocka_unit_test(test_clip_f16),
        cmocka_unit_test(test_clip_nothing),
        cmocka_unit_test(test_absent_gradients),
        cmocka_unit_test(test_moments_overflow),
        cmocka_unit_test(test_second_pass_misses_nothing),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
