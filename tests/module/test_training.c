/* Long training of a small network on 2 x 2 ranks: replicas of all parameters stay equal bit for bit, and the same run
 * twice has the same bits. In every layout that leaves something replicated. */
#include <math.h>
#include <string.h>

#include "support.h"

enum { STEPS = 1000, EVERY = 50, PARAMETERS = 5, TOKENS = 24, VOCABULARY = 32, WIDTH = 8, HIDDEN = 24 };

/* x = norm(embed[tokens]);  z = head (x + down gelu(up x)) */
static weft_status linear(weft_module *m, int num_inputs, weft_tensor *const x[], int num_outputs,
                          weft_tensor *y[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    y[0] = weft_matmul(x[0], weft_module_use(m, "weight"));
    return weft_last_status();
}

static weft_status embedding(weft_module *m, int num_inputs, weft_tensor *const x[], int num_outputs,
                             weft_tensor *y[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    y[0] = weft_embedding(weft_module_use(m, "weight"), x[0]);
    return weft_last_status();
}

static weft_status norm(weft_module *m, int num_inputs, weft_tensor *const x[], int num_outputs,
                        weft_tensor *y[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    y[0] = weft_rms_norm(x[0], weft_module_use(m, "weight"), 1e-5);
    return weft_last_status();
}

static weft_tensor *call(weft_module *m, const char *child, weft_tensor *x)
{
    return weft_module_call(weft_module_child(m, child), x);
}

static weft_status network(weft_module *m, int num_inputs, weft_tensor *const tokens[], int num_outputs,
                           weft_tensor *logits[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    weft_tensor *x = call(m, "norm", call(m, "embed", tokens[0]));
    logits[0] = call(m, "head", weft_add(x, call(m, "down", weft_gelu(call(m, "up", x)))));
    return weft_last_status();
}

static void add(weft_module *m, const char *name, weft_forward_function forward, int ndim, int64_t rows,
                int64_t columns)
{
    weft_module *child = weft_module_create(name);
    weft_tensor *weight = ndim == 1 ? weft_ones(WEFT_F32, 1, &rows, NULL, NULL)
                                    : weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, NULL, NULL);
    weft_module_set_forward(child, forward, NULL);
    weft_module_add_parameter(child, "weight",
                              ndim == 1 ? weight : weft_scale(weight, 1 / sqrt((double)rows)));
    weft_module_add_child(m, name, child);
}

static weft_module *network_new(void)
{
    weft_module *m = weft_module_create("network");
    weft_module_set_forward(m, network, NULL);
    add(m, "embed", embedding, 2, VOCABULARY, WIDTH);
    add(m, "norm", norm, 1, WIDTH, 0);
    add(m, "up", linear, 2, WIDTH, HIDDEN);
    add(m, "down", linear, 2, HIDDEN, WIDTH);
    add(m, "head", linear, 2, WIDTH, VOCABULARY);
    return m;
}

/* The loss, replicated. */
static weft_tensor *loss_of(weft_module *m)
{
    const weft_placement on_dp[] = { weft_shard(0), weft_replicate() };
    const int64_t count = TOKENS;
    weft_tensor *tokens = weft_randint(WEFT_I64, 0, VOCABULARY, 1, &count, NULL, on_dp);
    /* Something to learn: twice the token, but for one in eight. */
    weft_tensor *noise = weft_bernoulli_scalar(WEFT_I64, 0.125, 1, &count, NULL, on_dp);
    weft_tensor *targets = weft_remainder(weft_add(weft_scale(tokens, 2), noise),
                                          weft_full(WEFT_I64, VOCABULARY, 0, NULL, NULL, NULL));
    return weft_redistribute(weft_cross_entropy(weft_module_call(m, tokens), targets, NULL), NULL, NULL);
}

static void step(weft_module *m, weft_tensor *parameters[], weft_tensor *first[], weft_tensor *second[],
                 int number)
{
    weft_tensor *gradients[PARAMETERS];
    weft_backward(loss_of(m), NULL);
    for (int i = 0; i < PARAMETERS; i++) {
        gradients[i] = weft_grad(parameters[i]);
    }
    weft_clip_grad_norm(PARAMETERS, gradients, 1, 2, NULL);
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    options.learning_rate = 1e-2;
    weft_adamw(PARAMETERS, parameters, gradients, first, second, number, &options);
    weft_zero_grad(PARAMETERS, parameters);
}

/* Trains, and looks at all replicas of parameters, gradients' norms and moments every so often. Returns the last loss. */
static double train(int num_entries, const weft_parallel plan[], int steps)
{
    const char *names[PARAMETERS];
    weft_tensor *parameters[PARAMETERS], *first[PARAMETERS], *second[PARAMETERS];
    double loss = NAN;
    weft_random_seed(7);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *const[]){ "dp", "tp" });
    weft_mesh_push(mesh);
    weft_module *m = network_new();
    weft_parallelize(m, mesh, num_entries, plan);
    assert_int_equal(weft_module_parameters(m, PARAMETERS, names, parameters), PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) {
        first[i] = weft_zeros_like(parameters[i]);
        second[i] = weft_zeros_like(parameters[i]);
    }
    for (int number = 1; number <= steps; number++) {
        weft_scope_begin();
        step(m, parameters, first, second, number);
        for (int i = 0; number % EVERY == 0 && i < PARAMETERS; i++) {
            assert_shards(parameters[i], NULL, NULL, names[i]);
            assert_shards(first[i], NULL, NULL, names[i]);
            assert_shards(second[i], NULL, NULL, names[i]);
        }
        weft_scope_end();
    }
    weft_no_grad_begin();
    weft_tensor_item(loss_of(m), &loss);
    weft_no_grad_end();
    assert_no_error();
    weft_mesh_pop();
    weft_scope_end();
    assert_int_equal(weft_module_destroy(m), WEFT_OK);
    return loss;
}

static const weft_parallel data[] = { { "**", WEFT_PARALLEL_DATA, "dp", NULL, NULL, NULL } };
static const weft_parallel tensor_and_data[] = {
    { "embed", WEFT_PARALLEL_EMBEDDING, "tp", NULL, NULL, NULL },
    { "up", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, NULL },
    { "down", WEFT_PARALLEL_ROWS, "tp", NULL, NULL, NULL },
    { "head", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, NULL },
    { "**", WEFT_PARALLEL_DATA, "dp", NULL, NULL, NULL },
};
static const weft_parallel sharded[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, NULL } };

static void replicas_stay_equal(void **state)
{
    (void)state;
    double loss = train(5, tensor_and_data, STEPS);
    assert_true(loss < 1); /* of log(32) = 3.5 */
}

static void same_run_twice(void **state)
{
    (void)state;
    static const struct {
        int num_entries;
        const weft_parallel *plan;
    } plans[] = { { 1, data }, { 5, tensor_and_data }, { 1, sharded } };
    double losses[3];
    for (int i = 0; i < 3; i++) {
        losses[i] = train(plans[i].num_entries, plans[i].plan, 2 * EVERY);
        double again = train(plans[i].num_entries, plans[i].plan, 2 * EVERY);
        assert_memory_equal(&again, &losses[i], sizeof(again));
        assert_true(fabs(losses[i] - losses[0]) < 1e-3);
    }
}

int main(void)
{
    start_with_panels(4, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_stay_equal),
        cmocka_unit_test(same_run_twice),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weft_finalize();
    return failed;
}
