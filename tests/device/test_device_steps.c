/* Steps of optimisers over many parameters on a stand-in device, by calls and in captured graphs: few launches, and the bits of CPUs. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

/* More than a launch takes; one of several panels. */
enum { PARAMETERS = 70, LARGE = 5, ROWS = 300, COLUMNS = 500, STATES = 4, STEPS = 3, TASKS = 2 };

typedef struct model {
    weft_optimizer_options options;
    weft_dtype type;
    int lists, step;
    weft_tensor *parameters[PARAMETERS], *gradients[PARAMETERS], *states[STATES * PARAMETERS];
} model;

static int64_t elements_of(int i)
{
    return i == LARGE ? (int64_t)ROWS * COLUMNS : 1 + i * 37 % 200;
}

static weft_tensor *numbers(int i, int seed, weft_dtype type)
{
    const int64_t shape[] = { i == LARGE ? ROWS : elements_of(i), COLUMNS };
    static float values[ROWS * COLUMNS];
    for (int64_t j = 0; j < elements_of(i); j++) {
        values[j] = (float)((j * 7 + i * 13 + seed * 29) % 101 - 50) / 32;
    }
    return weft_to_type(weft_distribute(WEFT_F32, i == LARGE ? 2 : 1, shape, values, NULL, NULL), type);
}

static void make_model(model *m, weft_dtype type, weft_dtype gradient)
{
    m->type = type;
    m->lists = weft_optimizer_states(&m->options);
    m->step = 0;
    const int zeros = m->lists - m->options.master_weights;
    for (int i = 0; i < PARAMETERS; i++) {
        m->parameters[i] = numbers(i, 1, type);
        m->gradients[i] = numbers(i, 2, gradient);
        for (int k = 0; k < m->lists; k++) {
            weft_tensor *wide = weft_to_type(m->parameters[i], WEFT_F32);
            m->states[k * PARAMETERS + i] = k < zeros ? weft_zeros_like(wide) : weft_add_scalar(wide, 0);
        }
    }
    assert_no_error();
}

static weft_status take_step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs, (void)scalars, (void)outputs;
    model *m = context;
    return weft_optimizer_step(PARAMETERS, m->parameters, m->gradients, m->lists == 0 ? NULL : m->states, 1 + m->step++, &m->options);
}

static int64_t launches_so_far(void)
{
    return stand_in_device_counts(0).launches + stand_in_device_counts(1).launches;
}

/* The launches of the last step; `values`: of all parameters and states. */
static int64_t train(const char *devices, const weft_optimizer_options *options, weft_dtype type, weft_dtype gradient, bool captured,
                     double *values)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(1, .world = WEFT_WORLD_SELF, .seed = 7);
    weft_scope_begin();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    static model m;
    m.options = *options;
    make_model(&m, type, gradient);
    weft_graph *graph = captured ? weft_graph_create("step", take_step, &m, 0, 0, 0) : NULL;
    int64_t launched = 0;
    for (int step = 0; step < STEPS; step++) {
        assert_int_equal(weft_wait(), WEFT_OK);
        launched = launches_so_far();
        assert_int_equal(captured ? weft_graph_call(graph, NULL, NULL, NULL) : take_step(&m, NULL, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_wait(), WEFT_OK);
        launched = launches_so_far() - launched;
    }
    for (int list = -1; list < m.lists; list++) {
        for (int i = 0; i < PARAMETERS; values += elements_of(i++)) {
            weft_tensor *x = list < 0 ? m.parameters[i] : m.states[list * PARAMETERS + i];
            assert_int_equal(weft_to_host(weft_to_type(x, WEFT_F64), values, (size_t)elements_of(i) * sizeof(double)), WEFT_OK);
        }
    }
    if (captured) {
        weft_graph_destroy(graph);
    }
    weft_scope_end();
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
    return launched;
}

static int64_t count_numbers(const weft_optimizer_options *options)
{
    int64_t count = 0;
    for (int i = 0; i < PARAMETERS; i++) {
        count += elements_of(i);
    }
    return count * (1 + weft_optimizer_states(options));
}

/* On CPUs, by calls, captured: equal bits, and as few launches. */
static void compare(const weft_optimizer_options *options, weft_dtype type, weft_dtype gradient)
{
    const size_t size = (size_t)count_numbers(options) * sizeof(double);
    double *expected = malloc(size), *values = malloc(size);
    train("0", options, type, gradient, false, expected);
    for (int captured = 0; captured < 2; captured++) {
        int64_t launched = train("1", options, type, gradient, captured, values);
        printf("# optimizer %d of %s%s, %s: %lld launches for %d parameters\n", (int)options->kind, weft_dtype_name(type),
               options->master_weights ? " with masters" : "", captured ? "captured" : "by calls", (long long)launched, PARAMETERS);
        assert_true(launched <= TASKS * (1 + options->master_weights));
        assert_memory_equal(values, expected, size);
    }
    free(expected);
    free(values);
}

static weft_optimizer_options options_of(weft_optimizer kind)
{
    weft_optimizer_options options;
    assert_int_equal(weft_optimizer_options_init(&options, kind), WEFT_OK);
    options.learning_rate = 0.125;
    options.epsilon = 0.5;
    return options;
}

/* Kinds with each number of states; rows of optimizers.inc are in test_device_chains.c. */
static void test_kinds(void **state)
{
    (void)state;
    static const weft_optimizer kinds[] = { WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_ADAM };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const weft_optimizer_options options = options_of(kinds[i]);
        compare(&options, WEFT_F32, WEFT_F32);
    }
}

static void test_momentum(void **state)
{
    (void)state;
    weft_optimizer_options options = options_of(WEFT_OPTIMIZER_SGD);
    options.momentum = 0.5;
    options.weight_decay = 0.125;
    options.nesterov = true;
    compare(&options, WEFT_BF16, WEFT_F32);
}

/* Parameters and gradients of 16 bits, states of 32. */
static void test_mixed_types(void **state)
{
    (void)state;
    weft_optimizer_options options = options_of(WEFT_OPTIMIZER_ADAMW);
    options.master_weights = true;
    compare(&options, WEFT_BF16, WEFT_F32);
    options.amsgrad = true; /* three states */
    compare(&options, WEFT_F16, WEFT_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_momentum),
        cmocka_unit_test(test_mixed_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
