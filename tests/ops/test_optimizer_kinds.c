/* weft_optimizer_step() against the formulas of the papers as plain loops in double precision, element by element: random
 * lists of parameters, layouts, types, options; and its arguments. */
#include "runtime/runtime.h"
#include "tensor/regions.h"

#include "optimizer_scene.h"

#include <math.h>
#include <stddef.h>

#define NUM_KINDS (WEFT_OPTIMIZER_LION + 1)

/* One element before and after a step. */
typedef struct element {
    double p, g, state[SCENE_STATES];
} element;

static double moving(double average, double value, double beta)
{
    return beta * average + (1 - beta) * value;
}

static void change_sgd(element *e, const weft_optimizer_options *o, int step)
{
    double by = e->g;
    if (o->momentum != 0) {
        e->state[0] = step == 1 ? e->g : o->momentum * e->state[0] + (1 - o->dampening) * e->g;
        by = o->nesterov ? e->g + o->momentum * e->state[0] : e->state[0];
    }
    e->p -= o->learning_rate * by;
}

static void change_adam(element *e, const weft_optimizer_options *o, int step)
{
    e->state[0] = moving(e->state[0], e->g, o->beta1);
    e->state[1] = moving(e->state[1], e->g * e->g, o->beta2);
    double second = e->state[1];
    if (o->amsgrad) {
        second = e->state[2] = fmax(e->state[2], second);
    }
    const double corrected = e->state[0] / (1 - pow(o->beta1, step));
    e->p -= o->learning_rate * corrected / (sqrt(second / (1 - pow(o->beta2, step))) + o->epsilon);
}

static void change_rmsprop(element *e, const weft_optimizer_options *o, int step)
{
    (void)step;
    double *mean = &e->state[o->momentum != 0 ? 2 : 1], spread;
    e->state[0] = spread = moving(e->state[0], e->g * e->g, o->beta2);
    if (o->centered) {
        *mean = moving(*mean, e->g, o->beta2);
        spread -= *mean * *mean;
    }
    double by = e->g / (sqrt(spread) + o->epsilon);
    if (o->momentum != 0) {
        by = e->state[1] = o->momentum * e->state[1] + by;
    }
    e->p -= o->learning_rate * by;
}

static void change_adagrad(element *e, const weft_optimizer_options *o, int step)
{
    e->state[0] += e->g * e->g;
    e->p -= o->learning_rate / (1 + (step - 1) * o->learning_rate_decay) * e->g / (sqrt(e->state[0]) + o->epsilon);
}

static void change_adadelta(element *e, const weft_optimizer_options *o, int step)
{
    (void)step;
    e->state[0] = moving(e->state[0], e->g * e->g, o->beta2);
    const double by = sqrt(e->state[1] + o->epsilon) / sqrt(e->state[0] + o->epsilon) * e->g;
    e->state[1] = moving(e->state[1], by * by, o->beta2);
    e->p -= o->learning_rate * by;
}

static void change_adamax(element *e, const weft_optimizer_options *o, int step)
{
    e->state[0] = moving(e->state[0], e->g, o->beta1);
    e->state[1] = fmax(o->beta2 * e->state[1], fabs(e->g) + o->epsilon);
    e->p -= o->learning_rate / (1 - pow(o->beta1, step)) * e->state[0] / e->state[1];
}

static void change_nadam(element *e, const weft_optimizer_options *o, int step)
{
    double product = 1, now = 0, next = 0;
    for (int k = 1; k <= step; k++) {
        now = o->beta1 * (1 - 0.5 * pow(0.96, k * o->momentum_decay));
        next = o->beta1 * (1 - 0.5 * pow(0.96, (k + 1) * o->momentum_decay));
        product *= now;
    }
    e->state[0] = moving(e->state[0], e->g, o->beta1);
    e->state[1] = moving(e->state[1], e->g * e->g, o->beta2);
    const double below = sqrt(e->state[1] / (1 - pow(o->beta2, step))) + o->epsilon;
    e->p -= o->learning_rate * (1 - now) / (1 - product) * e->g / below;
    e->p -= o->learning_rate * next / (1 - product * next) * e->state[0] / below;
}

static void change_radam(element *e, const weft_optimizer_options *o, int step)
{
    const double correction = 1 - pow(o->beta2, step), most = 2 / (1 - o->beta2) - 1;
    const double length = most - 2 * step * pow(o->beta2, step) / correction;
    e->state[0] = moving(e->state[0], e->g, o->beta1);
    e->state[1] = moving(e->state[1], e->g * e->g, o->beta2);
    double by = e->state[0] / (1 - pow(o->beta1, step));
    if (length > 5) {
        by *= sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
        by *= sqrt(correction) / (sqrt(e->state[1]) + o->epsilon);
    }
    e->p -= o->learning_rate * by;
}

static void change_lion(element *e, const weft_optimizer_options *o, int step)
{
    (void)step;
    const double way = moving(e->state[0], e->g, o->beta1);
    e->p -= o->learning_rate * ((way > 0) - (way < 0));
    e->state[0] = moving(e->state[0], e->g, o->beta2);
}

static void (*const changes[NUM_KINDS])(element *e, const weft_optimizer_options *o, int step) = {
    change_sgd,      change_adam,   change_adam,  change_rmsprop, change_adagrad,
    change_adadelta, change_adamax, change_nadam, change_radam,   change_lion,
};

static void reference(item *it, const double *gradient, const weft_optimizer_options *o, int step)
{
    const bool decouples = o->kind == WEFT_OPTIMIZER_ADAM || o->kind == WEFT_OPTIMIZER_NADAM || o->kind == WEFT_OPTIMIZER_RADAM;
    const bool apart = o->kind == WEFT_OPTIMIZER_ADAMW || o->kind == WEFT_OPTIMIZER_LION || (decouples && o->decoupled);
    for (int64_t j = 0; j < it->parameter.count; j++) {
        element e = { .p = it->value[j], .g = o->maximize ? -gradient[j] : gradient[j] };
        for (int k = 0; k < SCENE_STATES; k++) {
            e.state[k] = it->state[k][j];
        }
        e.g += apart ? 0 : o->weight_decay * e.p;
        e.p *= apart ? 1 - o->learning_rate * o->weight_decay : 1;
        changes[o->kind](&e, o, step);
        it->value[j] = o->master_weights ? e.p : rounded(it->type, e.p);
        for (int k = 0; k < SCENE_STATES; k++) {
            it->state[k][j] = e.state[k];
        }
    }
}

/* Exact in all types where they can be, so that no sign is a matter of rounding; a large epsilon, likewise. */
static weft_optimizer_options any_options(weft_optimizer kind)
{
    weft_optimizer_options o;
    assert_int_equal(weft_optimizer_options_init(&o, kind), WEFT_OK);
    o.learning_rate = 0.125;
    o.weight_decay = below(2) ? 0.125 : 0;
    o.beta1 = 0.75;
    o.beta2 = 0.9375;
    o.epsilon = 0.5;
    o.learning_rate_decay = below(2) ? 0.5 : 0;
    o.maximize = below(3) == 0;
    o.master_weights = below(3) == 0;
    o.amsgrad = below(2);
    o.centered = below(2);
    if (kind == WEFT_OPTIMIZER_ADAM || kind == WEFT_OPTIMIZER_NADAM || kind == WEFT_OPTIMIZER_RADAM) {
        o.decoupled = below(2);
    }
    if (kind == WEFT_OPTIMIZER_SGD || kind == WEFT_OPTIMIZER_RMSPROP) {
        o.momentum = below(3) == 0 ? 0 : 0.75;
        o.nesterov = o.momentum != 0 && below(2);
        o.dampening = o.nesterov || below(2) ? 0 : 0.5;
    }
    return o;
}

/* The masters have the digits of their type, and the parameters are these, rounded. */
static void check_masters(const scene *s, weft_tensor *const masters[])
{
    for (int i = 0; i < s->n; i++) {
        const item *it = &s->items[i];
        size_t size = (size_t)it->parameter.count * weft_dtype_size(it->type);
        check(masters[i], it->state_type, it->parameter.ndim, it->parameter.shape, it->value, 64, 16, describe_item(s, i, "master"));
        char *own = malloc(size + 1), *expected = malloc(size + 1);
        assert_int_equal(weft_to_host(it->tensor, own, size), WEFT_OK);
        assert_int_equal(weft_to_host(weft_to_type(masters[i], it->type), expected, size), WEFT_OK);
        assert_memory_equal(own, expected, size);
        free(own);
        free(expected);
    }
}

static void case_kind(weft_optimizer kind)
{
    scene s;
    make_scene(&s);
    const weft_optimizer_options options = any_options(kind);
    const int lists = weft_optimizer_states(&options), states = lists - options.master_weights;
    const int before = below(2) ? 0 : 20; /* then RAdam divides */
    weft_tensor *listed[SCENE_LISTS * MAX_ITEMS], **masters = &listed[states * s.n];
    for (int k = 0; k < lists; k++) {
        for (int i = 0; i < s.n; i++) { /* the master of a 32 bit parameter is a copy, not the parameter */
            listed[k * s.n + i] = k < states && k < SCENE_STATES
                                      ? s.states[k][i]
                                      : weft_add_scalar(weft_to_type(s.parameters[i], s.items[i].state_type), 0);
        }
    }
    for (int step = before + 1; step <= before + STEPS; step++) {
        new_gradients(&s);
        for (int i = 0; i < s.n; i++) {
            if (s.gradient_tensors[i] != NULL) {
                reference(&s.items[i], s.gradients[i].dense, &options, step);
            }
        }
        assert_int_equal(weft_optimizer_step(s.n, s.parameters, s.gradient_tensors, lists == 0 ? NULL : listed, step, &options),
                         WEFT_OK);
        check_scene(&s, states);
        if (options.master_weights) {
            check_masters(&s, masters);
        }
        drop_gradients(&s);
    }
    drop_scene(&s);
}

#define CASE(name, kind)                                                                                     \
    static void case_##name(void)                                                                            \
    {                                                                                                        \
        case_kind(WEFT_OPTIMIZER_##kind);                                                                    \
    }
CASE(sgd, SGD)
CASE(adam, ADAM)
CASE(adamw, ADAMW)
CASE(rmsprop, RMSPROP)
CASE(adagrad, ADAGRAD)
CASE(adadelta, ADADELTA)
CASE(adamax, ADAMAX)
CASE(nadam, NADAM)
CASE(radam, RADAM)
CASE(lion, LION)

/* ---- by themselves ------------------------------------------------------------------------------------- */

static void start_with_mesh(void)
{
    int64_t ranks[] = { 2 };
    start_world(NULL, NULL);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, ranks, NULL)), WEFT_OK);
}

static void finish(void)
{
    assert_int_equal(weft_mesh_pop(), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void refuses(weft_optimizer_options o, const char *name)
{
    int64_t shape[] = { 4 };
    weft_scope_begin();
    weft_tensor *p = weft_ones(WEFT_F32, 1, shape, NULL, NULL), *g = weft_ones(WEFT_F32, 1, shape, NULL, NULL);
    weft_tensor *states[] = { weft_zeros_like(p), weft_zeros_like(p), weft_zeros_like(p) };
    assert_int_equal(weft_optimizer_step(1, &p, &g, states, 1, &o), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, name);
    assert_int_equal(weft_optimizer_states(&o), 0);
    assert_error(WEFT_ERR_INVALID, name);
    float values[4];
    assert_int_equal(weft_to_host(p, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 1);
    weft_scope_end();
}

static weft_optimizer_options of_kind(weft_optimizer kind)
{
    weft_optimizer_options o;
    assert_int_equal(weft_optimizer_options_init(&o, kind), WEFT_OK);
    return o;
}

static void test_arguments(void **state)
{
    (void)state;
    start_with_mesh();
    weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_NADAM);
    assert_true(o.learning_rate == 2e-3 && o.momentum_decay == 4e-3 && o.size == sizeof(o));
    assert_int_equal(weft_optimizer_options_init(&o, (weft_optimizer)NUM_KINDS), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "kind");
    assert_int_equal(weft_optimizer_options_init(NULL, WEFT_OPTIMIZER_SGD), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "options");
    o.beta1 = 1;
    refuses(o, "beta1");
    o = of_kind(WEFT_OPTIMIZER_SGD);
    o.nesterov = true;
    refuses(o, "nesterov");
    o = of_kind(WEFT_OPTIMIZER_SGD);
    o.decoupled = true;
    refuses(o, "decoupled");
    o = of_kind(WEFT_OPTIMIZER_RMSPROP);
    o.momentum = NAN;
    refuses(o, "momentum");
    o = of_kind(WEFT_OPTIMIZER_ADAGRAD);
    o.learning_rate_decay = -1;
    refuses(o, "learning_rate_decay");
    weft_scope_begin();
    int64_t shape[] = { 4 };
    weft_tensor *p = weft_ones(WEFT_F32, 1, shape, NULL, NULL), *g = weft_ones(WEFT_F32, 1, shape, NULL, NULL), *twice[] = { g, p };
    o = of_kind(WEFT_OPTIMIZER_LION);
    assert_int_equal(weft_optimizer_step(1, &p, &g, NULL, 1, &o), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "states");
    assert_int_equal(weft_optimizer_step(1, &p, &g, &p, 1, &o), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "states[0]");
    assert_int_equal(weft_optimizer_step(1, &p, &g, &g, 0, &o), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "step");
    o = of_kind(WEFT_OPTIMIZER_NADAM);
    assert_int_equal(weft_optimizer_step(1, &p, &g, twice, 1, &o), WEFT_ERR_INVALID);
    weft_clear_error();
    o.master_weights = true;
    assert_int_equal(weft_optimizer_states(&o), 3);
    weft_tensor *states[] = { weft_zeros_like(p), weft_zeros_like(p), weft_to_type(p, WEFT_BF16) };
    assert_int_equal(weft_optimizer_step(1, &p, &g, states, 1, &o), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "(states + 2 n)[0]");
    weft_scope_end();
    finish();
}

/* Programs that know no masters have none: what lies after their options is not read. */
static void test_older_options(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_SGD);
    const size_t sizes[] = { sizeof(o), offsetof(weft_optimizer_options, master_weights), 0 };
    o.master_weights = true;
    for (int i = 0; i < 3; i++) {
        o.size = sizes[i];
        weft_tensor *p = weft_ones(WEFT_F32, 1, (int64_t[]){ 4 }, NULL, NULL), *g = weft_ones_like(p);
        assert_int_equal(weft_optimizer_states(&o), i == 0);
        assert_int_equal(weft_optimizer_step(1, &p, &g, NULL, 1, &o), i == 0 ? WEFT_ERR_INVALID : WEFT_OK);
        weft_clear_error();
    }
    o.size = sizes[1] - 1;
    assert_int_equal(weft_optimizer_states(&o), 0);
    assert_error(WEFT_ERR_INVALID, "size");
    weft_scope_end();
    finish();
}

static void test_types_of_masters(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_C64, WEFT_F8_E4M3 };
    weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_SGD);
    o.master_weights = true;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < (int)(sizeof(types) / sizeof(types[0])); k++) {
            weft_tensor *p = weft_ones(types[i], 1, (int64_t[]){ 4 }, NULL, NULL), *g = weft_ones_like(p);
            weft_tensor *master = weft_add_scalar(weft_ones(WEFT_F32, 1, (int64_t[]){ 4 }, NULL, NULL), 0);
            master = weft_to_type(master, types[k]);
            const bool right = types[k] == WEFT_F64 || (types[k] == WEFT_F32 && types[i] != WEFT_F64);
            assert_int_equal(weft_optimizer_step(1, &p, &g, &master, 1, &o), right ? WEFT_OK : WEFT_ERR_DTYPE);
            assert_true(right || strstr(weft_last_error(), "states[0] is ") != NULL);
            weft_clear_error();
        }
    }
    weft_scope_end();
    finish();
}

/* Scaled losses: 64 steps of 2^-14 in f16, where nothing lies between 1 - 2^-11 and 1; one more, of infinite gradients, is skipped. */
static void test_masters_of_scaled_losses(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    weft_loss_scaler scaler = WEFT_LOSS_SCALER_DEFAULT;
    scaler.scale = 1024;
    weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_SGD);
    o.learning_rate = 0x1p-4;
    o.master_weights = true;
    weft_tensor *p = weft_ones(WEFT_F16 | WEFT_WITH_GRAD, 1, (int64_t[]){ 4 }, NULL, NULL);
    weft_tensor *master = weft_to_type(weft_detach(p), WEFT_F32);
    float values[2][4];
    for (int step = 1; step <= 65; step++) {
        bool finite = step == 2;
        weft_tensor *small = weft_to_type(weft_scale(p, step == 2 ? 60000 : 0x1p-10), WEFT_F32);
        assert_int_equal(weft_backward(weft_scale_loss(&scaler, weft_sum(small, WEFT_ALL_DIMS, false)), NULL), WEFT_OK);
        weft_tensor *g = weft_grad(p);
        assert_int_equal(weft_unscale_gradients(&scaler, 1, &g, &finite), WEFT_OK);
        assert_true(finite == (step != 2));
        if (finite) {
            assert_int_equal(weft_optimizer_step(1, &p, &g, &master, step, &o), WEFT_OK);
        }
        assert_int_equal(weft_zero_grad(1, &p), WEFT_OK);
        assert_int_equal(weft_to_host(weft_to_type(weft_detach(p), WEFT_F32), values[0], sizeof(values[0])), WEFT_OK);
        assert_int_equal(weft_to_host(master, values[1], sizeof(values[1])), WEFT_OK);
        const float expected = 1 - (float)(step == 1 ? 1 : step - 1) * 0x1p-14F;
        assert_true(values[1][0] == expected && values[1][3] == expected && values[0][0] == (float)rounded(WEFT_F16, expected));
    }
    assert_true(scaler.scale == 512 && values[0][3] == 1 - 0x1p-8F);
    weft_scope_end();
    finish();
}

/* Tasks of a step of three small parameters, or of the first of them, whose results are checked. */
static uint64_t tasks_of(int n, const weft_optimizer_options *o)
{
    weft_tensor *p[3], *g[3];
    for (int k = 0; k < 3; k++) {
        p[k] = weft_ones(WEFT_F32, 1, (int64_t[]){ 4 }, NULL, NULL);
        g[k] = weft_ones_like(p[k]);
    }
    weft_counters before, after;
    assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
    assert_int_equal(weft_optimizer_step(n, p, g, NULL, 1, o), WEFT_OK);
    assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
    for (int k = 0; k < 3; k++) {
        float values[4];
        assert_int_equal(weft_to_host(p[k], values, sizeof(values)), WEFT_OK);
        assert_true(values[0] == (k < n ? 0.5F : 1) && values[3] == values[0]);
    }
    return after.tasks - before.tasks;
}

/* The steps of small parameters are one task for each rank if the cache has room for that, within its budget. */
static void test_room_for_tasks(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_SGD);
    o.learning_rate = 0.5;
    const size_t budget = weft_runtime.call_cache.budget;
    const uint64_t ranks = tasks_of(1, &o);
    bool apart = false, together = weft_is_strict() || weft_runtime.task_cache == WEFT_TASK_CACHE_OFF;
    for (int i = 0; i < 40; i++) {
        weft_lru_clear(&weft_runtime.call_cache);
        weft_runtime.call_cache.budget = (size_t)i * 400;
        const uint64_t tasks = tasks_of(3, &o);
        assert_true(tasks == ranks || tasks == 3 * ranks);
        apart = apart || tasks == 3 * ranks;
        together = together || tasks == ranks;
        assert_true(weft_runtime.call_cache.bytes <= weft_runtime.call_cache.budget);
    }
    weft_runtime.call_cache.budget = budget;
    assert_true(apart && together);
    weft_scope_end();
    finish();
}

/* Steps too small for 16 bits add up in the masters: as many steps as f32 needs, and none of them without. */
static void test_masters_keep_small_steps(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    const int64_t shape[] = { 4 };
    float after[2][4];
    for (int i = 0; i < 2; i++) {
        weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_SGD);
        o.learning_rate = 0x1p-12;
        o.master_weights = i == 0;
        weft_tensor *p = weft_ones(WEFT_BF16, 1, shape, NULL, NULL), *g = weft_ones(WEFT_BF16, 1, shape, NULL, NULL);
        weft_tensor *master = weft_to_type(p, WEFT_F32);
        for (int step = 1; step <= 1024; step++) {
            assert_int_equal(weft_optimizer_step(1, &p, &g, i == 0 ? &master : NULL, step, &o), WEFT_OK);
        }
        assert_int_equal(weft_to_host(weft_to_type(p, WEFT_F32), after[i], sizeof(after[i])), WEFT_OK);
    }
    assert_true(after[0][0] == 0.75 && after[0][3] == 0.75 && after[1][0] == 1);
    weft_scope_end();
    finish();
}

/* Infinite and undefined gradients: as the formulas go, and only where they are. */
static void test_extreme_gradients(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    int64_t shape[] = { 4 };
    static const float values[] = { 1, INFINITY, NAN, 0 };
    for (int kind = WEFT_OPTIMIZER_RMSPROP; kind < NUM_KINDS; kind++) {
        const weft_optimizer_options o = of_kind((weft_optimizer)kind);
        weft_tensor *p = weft_ones(WEFT_F32, 1, shape, NULL, NULL), *states[] = { weft_zeros_like(p), weft_zeros_like(p) };
        weft_tensor *g = weft_distribute(WEFT_F32, 1, shape, values, NULL, NULL);
        float after[4];
        assert_int_equal(weft_optimizer_step(1, &p, &g, states, 1, &o), WEFT_OK);
        assert_int_equal(weft_to_host(p, after, sizeof(after)), WEFT_OK);
        assert_true(after[0] < 1 && after[3] == 1 && isnan(after[2]));
        assert_true(kind == WEFT_OPTIMIZER_LION ? after[1] < 1 : kind == WEFT_OPTIMIZER_RADAM ? after[1] == -INFINITY : isnan(after[1]));
    }
    weft_scope_end();
    finish();
}

/* The variance of gradients that have long been equal is rounded to about 0, and is no number of which there is no root. */
static void test_equal_gradients(void **state)
{
    (void)state;
    start_with_mesh();
    weft_scope_begin();
    const weft_dtype types[] = { WEFT_F32, WEFT_BF16 };
    for (int i = 0; i < 4; i++) {
        weft_optimizer_options o = of_kind(WEFT_OPTIMIZER_RMSPROP);
        o.centered = true;
        o.momentum = i < 2 ? 0 : 0.5;
        o.beta2 = 0.9;
        o.learning_rate = 1e-20;
        enum { NUMBERS = 64 };
        float values[NUMBERS], after[NUMBERS];
        for (int k = 0; k < NUMBERS; k++) {
            values[k] = (float)(k + 1) / 67;
        }
        const int64_t shape[] = { NUMBERS };
        weft_tensor *g = weft_to_type(weft_distribute(WEFT_F32, 1, shape, values, NULL, NULL), types[i % 2]);
        weft_tensor *p = weft_ones(types[i % 2], 1, shape, NULL, NULL), *states[] = { weft_zeros_like(p), weft_zeros_like(p), weft_zeros_like(p) };
        for (int step = 1; step <= 400; step++) {
            assert_int_equal(weft_optimizer_step(1, &p, &g, states, step, &o), WEFT_OK);
        }
        assert_int_equal(weft_to_host(weft_to_type(p, WEFT_F32), after, sizeof(after)), WEFT_OK);
        for (int k = 0; k < NUMBERS; k++) {
            assert_true(after[k] <= 1 && after[k] > 0.9F);
        }
    }
    weft_scope_end();
    finish();
}

static const family families[] = {
    { "sgd", case_sgd },         { "adam", case_adam },         { "adamw", case_adamw },   { "rmsprop", case_rmsprop },
    { "adagrad", case_adagrad }, { "adadelta", case_adadelta }, { "adamax", case_adamax }, { "nadam", case_nadam },
    { "radam", case_radam },     { "lion", case_lion },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 24, 1, NULL };

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_older_options),
        cmocka_unit_test(test_types_of_masters),
        cmocka_unit_test(test_masters_keep_small_steps),
        cmocka_unit_test(test_masters_of_scaled_losses),
        cmocka_unit_test(test_room_for_tasks),
        cmocka_unit_test(test_extreme_gradients),
        cmocka_unit_test(test_equal_gradients),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
