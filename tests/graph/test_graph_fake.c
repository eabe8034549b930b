/* Graphs of tensors without data: captured, guarded and printed like others, and replayed without executing anything. In
 * fake worlds, and of weft_fake() in a world with data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

static void start(weft_world world, int ranks)
{
    weft_config config = { .world = world };
    *(world == WEFT_WORLD_FAKE ? &config.fake_size : &config.ranks) = ranks;
    assert_int_equal(weft_init(&config), WEFT_OK);
}

/* ---- a training step ------------------------------------------------------------------------------------------- */

enum { WIDTH = 16, HIDDEN = 64, NUM_PARAMETERS = 3 };

/* Makes a tensor of zeros, with data or without. */
typedef weft_tensor *(*maker)(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                              const weft_placement *placements);

typedef struct training {
    weft_mesh *mesh; /* (dp, 2) */
    weft_tensor *parameters[NUM_PARAMETERS], *first[NUM_PARAMETERS], *second[NUM_PARAMETERS];
    int64_t step;
} training;

static training begin_training(maker make)
{
    int ranks = weft_world_size();
    training t = { .mesh = weft_mesh_create(2, (int64_t[]){ ranks / 2, 2 }, (const char *const[]){ "dp", "tp" }) };
    const weft_placement columns[] = { weft_replicate(), weft_shard(1) }, rows[] = { weft_replicate(), weft_shard(0) };
    t.parameters[0] = make(WEFT_F32, 2, (int64_t[]){ WIDTH, HIDDEN }, t.mesh, columns);
    t.parameters[1] = make(WEFT_F32, 1, (int64_t[]){ HIDDEN }, t.mesh, rows);
    t.parameters[2] = make(WEFT_F32, 2, (int64_t[]){ HIDDEN, WIDTH }, t.mesh, rows);
    for (int i = 0; i < NUM_PARAMETERS; i++) {
        t.first[i] = weft_zeros_like(t.parameters[i]);
        t.second[i] = weft_zeros_like(t.parameters[i]);
        if (make == weft_fake) {
            t.first[i] = weft_fake_like(t.parameters[i]);
            t.second[i] = weft_fake_like(t.parameters[i]);
        }
        assert_int_equal(weft_set_requires_grad(t.parameters[i], true), WEFT_OK);
    }
    return t;
}

static weft_tensor *batch_of(const training *t, maker make, int64_t rows_per_rank)
{
    const weft_placement over_dp[] = { weft_shard(0), weft_replicate() };
    return make(WEFT_F32, 2, (int64_t[]){ rows_per_rank * weft_world_size(), WIDTH }, t->mesh, over_dp);
}

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    training *t = context;
    weft_tensor *h = weft_gelu(weft_add(weft_matmul(inputs[0], t->parameters[0]), t->parameters[1]));
    weft_tensor *y = weft_matmul(weft_dropout(h, 0.1, true, NULL), t->parameters[2]);
    weft_tensor *loss = weft_mse(y, inputs[0], WEFT_LOSS_MEAN), *gradients[NUM_PARAMETERS];
    weft_status status = weft_backward(loss, NULL);
    for (int i = 0; i < NUM_PARAMETERS; i++) {
        gradients[i] = weft_grad(t->parameters[i]);
    }
    weft_adam_options options;
    weft_adamw_options_init(&options);
    options.learning_rate = scalars[0];
    if (status == WEFT_OK) {
        status = weft_adamw(NUM_PARAMETERS, t->parameters, gradients, t->first, t->second, ++t->step, &options);
    }
    if (status == WEFT_OK) {
        status = weft_zero_grad(NUM_PARAMETERS, t->parameters);
    }
    outputs[0] = weft_detach(loss);
    return status;
}

static void run_step(weft_graph *graph, weft_tensor *batch, weft_tensor **loss)
{
    double rate = 0.01 / (double)(1 + info_of(graph).runs);
    assert_int_equal(weft_graph_call(graph, &batch, &rate, loss), WEFT_OK);
}

/* Steps of the training, and its listing. */
static char *capture_training(maker make)
{
    weft_scope_begin();
    training t = begin_training(make);
    weft_graph *graph = weft_graph_create("train", train, &t, 1, 1, 1);
    weft_tensor *batch = batch_of(&t, make, 2), *loss;
    weft_random_state before, after;
    weft_counters captured, replayed;
    bool has_data = make != weft_fake && !weft_tensor_is_fake(batch);

    run_step(graph, batch, &loss);
    char *text = listing_of(graph);
    run_step(graph, batch, &loss); /* the first replay builds a body */
    weft_random_state_get(NULL, &before);
    weft_get_counters(&captured, sizeof(captured));
    for (int i = 0; i < 3; i++) {
        run_step(graph, batch, &loss);
        assert_int_equal(weft_tensor_is_fake(loss), !has_data);
        assert_int_equal(weft_tensor_ndim(loss), 0);
    }
    weft_random_state_get(NULL, &after);
    weft_get_counters(&replayed, sizeof(replayed));
    assert_int_equal(info_of(graph).captures, 1);
    assert_int_equal(info_of(graph).replays, 4);
    /* What is drawn does not depend on data, but for tensors that never have any. */
    assert_int_equal(after.offset - before.offset, make == weft_fake ? 0 : 3);
    if (!has_data) {
        assert_int_equal(replayed.tasks, captured.tasks);
        assert_int_equal(replayed.plan_misses + replayed.plan_hits, captured.plan_misses + captured.plan_hits);
        /* The tape asks which Partial inputs a recorded call reduces, one in a step. */
        assert_in_range(replayed.dispatch_misses + replayed.dispatch_hits - captured.dispatch_misses - captured.dispatch_hits, 0, 3);
        assert_int_equal(replayed.buffers_created, captured.buffers_created);
    }
    /* Another batch is captured again. */
    run_step(graph, batch_of(&t, make, 3), &loss);
    assert_non_null(strstr(info_of(graph).failed_guard, "tensor 0 was f32["));
    assert_int_equal(info_of(graph).captures, 2);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    return text;
}

static void test_f10_training_in_fake_worlds(void **state)
{
    (void)state;
    start(WEFT_WORLD_AUTO, 4);
    char *with_data = capture_training(weft_zeros), *without = capture_training(weft_fake);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(count_in(without, "weft_"), count_in(with_data, "weft_") - 1); /* the loss's gradient */
    assert_non_null(strstr(with_data, "weft_matmul("));
    assert_non_null(strstr(with_data, "weft_adamw"));
    start(WEFT_WORLD_FAKE, 4);
    char *fake = capture_training(weft_zeros);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_string_equal(with_data, fake);
    free(without);
    free(fake);

    start(WEFT_WORLD_FAKE, 1024);
    char *large = capture_training(weft_zeros);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(count_in(large, " = "), count_in(with_data, " = "));
    assert_non_null(strstr(large, " on 512x2"));
    free(large);
    free(with_data);
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

static weft_status add_twice(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_add(inputs[0], inputs[1]);
    outputs[1] = weft_mul(inputs[0], inputs[0]);
    return WEFT_OK;
}

/* Whether a tensor has data is part of the record; one call's tensors may differ. */
static void test_f10_data_is_guarded(void **state)
{
    (void)state;
    start(WEFT_WORLD_AUTO, 4);
    weft_graph *graph = weft_graph_create("add", add_twice, NULL, 2, 0, 2);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { 6 };
    weft_tensor *real = weft_full(WEFT_F64, 3, 1, shape, mesh, &rows), *fake = weft_fake(WEFT_F64, 1, shape, mesh, &rows);
    weft_tensor *outputs[2];
    for (int round = 0; round < 3; round++) {
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ real, real }, NULL, outputs), WEFT_OK);
        double values[6];
        assert_int_equal(weft_to_host(outputs[1], values, sizeof(values)), WEFT_OK);
        assert_true(values[5] == 9);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ real, fake }, NULL, outputs), WEFT_OK);
        assert_true(weft_tensor_is_fake(outputs[0]) && !weft_tensor_is_fake(outputs[1]));
        assert_int_equal(weft_to_host(outputs[1], values, sizeof(values)), WEFT_OK);
        assert_true(values[0] == 9);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ fake, real }, NULL, outputs), WEFT_OK);
        assert_true(weft_tensor_is_fake(outputs[0]) && weft_tensor_is_fake(outputs[1]));
        assert_int_equal(weft_to_host(outputs[1], values, sizeof(values)), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "has no data");
    }
    assert_int_equal(info_of(graph).captures, 3);
    assert_non_null(strstr(info_of(graph).failed_guard, "weft_add: tensor 0 had data, has none"));
    weft_graph_destroy(graph);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_status change_first(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_neg(inputs[0]);
    weft_add_inplace(inputs[0], inputs[1], 1);
    return weft_last_status();
}

/* A tensor without data cannot change one with data, and may be changed by any. */
static void test_f10_changes(void **state)
{
    (void)state;
    start(WEFT_WORLD_AUTO, 4);
    weft_graph *graph = weft_graph_create("change", change_first, NULL, 2, 0, 1);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    const int64_t shape[] = { 6 };
    weft_tensor *real = weft_full(WEFT_F64, 3, 1, shape, mesh, NULL), *fake = weft_fake(WEFT_F64, 1, shape, mesh, NULL);
    weft_tensor *output;
    for (int round = 0; round < 3; round++) {
        double value[6];
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ fake, real }, NULL, &output), WEFT_OK);
        assert_true(weft_tensor_is_fake(output) && weft_tensor_is_fake(fake));
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ real, fake }, NULL, &output), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "has data, and another input has none");
        assert_int_equal(weft_to_host(real, value, sizeof(value)), WEFT_OK);
        assert_true(value[0] == 3);
    }
    weft_graph_destroy(graph);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f10_training_in_fake_worlds),
        cmocka_unit_test(test_f10_data_is_guarded),
        cmocka_unit_test(test_f10_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
