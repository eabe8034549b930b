/* Automatic shardings (weft_graph_shard()) of training steps that are executed: values, layouts, and what the program may
 * ask for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "machine_file.h"

enum { BATCH = 32, WIDTH = 16, HIDDEN = 48, STEPS = 5, NUM_WEIGHTS = 3 };

typedef struct network {
    weft_tensor *x, *target, *weights[NUM_WEIGHTS], *first[NUM_WEIGHTS], *second[NUM_WEIGHTS];
    int64_t step;
} network;

static weft_tensor *waves(weft_mesh *mesh, int64_t rows, int64_t columns, double scale)
{
    double all[HIDDEN * HIDDEN];
    for (int64_t i = 0; i < rows * columns; i++) {
        all[i] = scale * sin((double)i);
    }
    return weft_distribute(WEFT_F64, 2, (int64_t[]){ rows, columns }, all, mesh, NULL);
}

static network make_network(weft_mesh *mesh)
{
    network n = { .x = waves(mesh, BATCH, WIDTH, 1), .target = waves(mesh, BATCH, WIDTH, 0.5) };
    const int64_t rows[] = { WIDTH, HIDDEN, HIDDEN }, columns[] = { HIDDEN, HIDDEN, WIDTH };
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        n.weights[i] = waves(mesh, rows[i], columns[i], 0.1 * (i + 1));
        weft_set_requires_grad(n.weights[i], true);
        n.first[i] = weft_zeros_like(n.weights[i]);
        n.second[i] = weft_zeros_like(n.weights[i]);
    }
    return n;
}

/* With a residual, a norm of gradients, and two tensors that outlive the step: the loss and y. */
static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    network *n = context;
    weft_tensor *const *w = n->weights, *gradients[NUM_WEIGHTS];
    weft_tensor *h = weft_relu(weft_matmul(inputs[0], w[0]));
    h = weft_add(h, weft_gelu(weft_matmul(h, w[1])));
    weft_tensor *y = weft_matmul(h, w[2]);
    outputs[0] = weft_mse(y, n->target, WEFT_LOSS_MEAN);
    outputs[1] = y;
    weft_backward(outputs[0]);
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        gradients[i] = weft_grad(w[i]);
    }
    weft_clip_grad_norm(NUM_WEIGHTS, gradients, 1, 2, NULL);
    const weft_adam_options adam = { scalars[0], 0.9, 0.99, 1e-8, 0, 0 };
    weft_adam(NUM_WEIGHTS, w, gradients, n->first, n->second, ++n->step, &adam);
    weft_zero_grad(NUM_WEIGHTS, w);
    return weft_last_status();
}

/* A step's loss, and where y and the weights lie: as the capture says. */
static double step(weft_graph *graph, network *n)
{
    weft_tensor *outputs[2];
    double loss, rate = 0.01;
    weft_placement before[NUM_WEIGHTS];
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        before[i] = weft_tensor_placements(n->weights[i])[0];
    }
    weft_scope_open();
    if (graph == NULL) {
        assert_int_equal(train(n, &n->x, &rate, outputs), WEFT_OK);
    } else {
        assert_int_equal(weft_graph_call(graph, &n->x, &rate, outputs), WEFT_OK);
    }
    assert_int_equal(weft_tensor_item(outputs[0], &loss), WEFT_OK);
    double all[BATCH * WIDTH];
    assert_int_equal(weft_to_host(outputs[1], all, sizeof(all)), WEFT_OK);
    for (int i = 0; i < BATCH * WIDTH; i++) {
        loss += all[i] / (BATCH * WIDTH);
    }
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        weft_placement now = weft_tensor_placements(n->weights[i])[0];
        assert_true(now.kind == before[i].kind && now.dim == before[i].dim);
    }
    weft_scope_close();
    return loss;
}

static void eager_losses(weft_mesh *mesh, double losses[STEPS])
{
    network n = make_network(mesh);
    for (int i = 0; i < STEPS; i++) {
        losses[i] = step(NULL, &n);
    }
}

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-9 * fabs(expected)) {
        fail_msg("expected %.17g, is %.17g", expected, value);
    }
}

/* The body differs from the recorded calls, and the program sees the values and layouts of these. */
static void inputs_that_stay(void **state)
{
    (void)state;
    weft_scope_open();
    weft_mesh *mesh = line();
    double losses[STEPS];
    eager_losses(mesh, losses);
    network n = make_network(mesh);
    weft_graph *graph = weft_graph_new("network", train, &n, 1, 1, 2);
    char path[MACHINE_PATH_BYTES];
    write_machine(path, 4, 1000); /* computing costs more than messages */
    for (int i = 0; i < STEPS; i++) {
        assert_near(step(graph, &n), losses[i]);
        if (i == 0) {
            assert_int_equal(weft_graph_shard(graph, &(weft_graph_shard_options){ .machine = path }), WEFT_OK);
        }
    }
    remove(path);
    weft_graph_shard_info shard;
    weft_graph_info info;
    assert_int_equal(weft_graph_get_shard_info(graph, &shard), WEFT_OK);
    assert_int_equal(weft_graph_get_info(graph, &info), WEFT_OK);
    assert_int_equal(info.captures, 1);
    assert_true(shard.proved && !shard.moves_inputs);
    assert_true(shard.us < shard.recorded_us);
    assert_true(info.num_body_calls > info.num_calls); /* redistributions between the calls */
    assert_int_equal(weft_graph_free(graph), WEFT_OK);
    weft_scope_close();
}

/* The program asks, lays its tensors out, and captures again. */
static void inputs_that_move(void **state)
{
    (void)state;
    weft_scope_open();
    weft_mesh *mesh = line();
    double losses[STEPS];
    eager_losses(mesh, losses);
    network n = make_network(mesh);
    weft_graph *graph = weft_graph_new("network", train, &n, 1, 1, 2);
    assert_near(step(graph, &n), losses[0]);
    weft_tensor *movable[3 * NUM_WEIGHTS];
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        movable[3 * i] = n.weights[i];
        movable[3 * i + 1] = n.first[i];
        movable[3 * i + 2] = n.second[i];
    }
    weft_graph_shard_options options = { .num_movable = 3 * NUM_WEIGHTS, .movable = movable };
    options.pins = &(weft_graph_pin){ n.weights[0], NULL, weft_shard(1) };
    options.num_pins = 1;
    assert_int_equal(weft_graph_shard(graph, &options), WEFT_OK);
    weft_graph_shard_info shard;
    assert_int_equal(weft_graph_get_shard_info(graph, &shard), WEFT_OK);
    assert_true(shard.moves_inputs);
    assert_near(step(graph, &n), losses[1]); /* as captured, until they are moved */
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        weft_placement placement, same[2];
        assert_int_equal(weft_graph_get_placements(graph, n.weights[i], &placement), WEFT_OK);
        assert_int_equal(weft_graph_get_placements(graph, n.first[i], &same[0]), WEFT_OK);
        assert_int_equal(weft_graph_get_placements(graph, n.second[i], &same[1]), WEFT_OK);
        assert_true(same[0].kind == placement.kind && same[1].kind == placement.kind);
        assert_true(i > 0 || (placement.kind == WEFT_SHARD && placement.dim == 1));
        n.weights[i] = weft_detach(weft_redistribute(n.weights[i], NULL, &placement));
        weft_set_requires_grad(n.weights[i], true);
        n.first[i] = weft_redistribute(n.first[i], NULL, &placement);
        n.second[i] = weft_redistribute(n.second[i], NULL, &placement);
    }
    assert_near(step(graph, &n), losses[2]);
    assert_int_equal(weft_graph_shard(graph, NULL), WEFT_OK);
    for (int i = 3; i < STEPS; i++) {
        assert_near(step(graph, &n), losses[i]);
    }
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info), WEFT_OK);
    assert_int_equal(info.captures, 2);
    assert_int_equal(weft_graph_free(graph), WEFT_OK);
    weft_scope_close();
}

/* Inputs and calls of a captured step. */
static void count_step(network *n, int *inputs, int *calls)
{
    weft_tensor *outputs[2];
    double rate = 0.01;
    weft_graph *graph = weft_graph_new("network", train, n, 1, 1, 2);
    assert_int_equal(weft_graph_call(graph, &n->x, &rate, outputs), WEFT_OK);
    char *text = listing_of(graph);
    assert_int_equal(weft_graph_free(graph), WEFT_OK);
    *inputs = count_in(text, " = input");
    *calls = count_in(text, " = weft_");
    free(text);
}

/* A step of shapes alone is the same graph: the backward pass reads the values of the forward pass, not others. */
static void shapes_alone(void **state)
{
    (void)state;
    weft_scope_open();
    network n = make_network(line());
    network shapes = { .x = weft_fake_like(n.x), .target = weft_fake_like(n.target) };
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        shapes.weights[i] = weft_fake_like(n.weights[i]);
        weft_set_requires_grad(shapes.weights[i], true);
        shapes.first[i] = weft_fake_like(n.first[i]);
        shapes.second[i] = weft_fake_like(n.second[i]);
    }
    int inputs, calls, fake_inputs, fake_calls;
    count_step(&n, &inputs, &calls);
    count_step(&shapes, &fake_inputs, &fake_calls);
    assert_int_equal(inputs, 2 + 3 * NUM_WEIGHTS);
    assert_int_equal(fake_inputs, inputs + 1); /* the gradient that a pass begins with, else a call */
    assert_int_equal(fake_calls, calls - 1);
    weft_scope_close();
}

int main(int count, char *arguments[])
{
    (void)arguments;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_that_stay),
        cmocka_unit_test(inputs_that_move),
        cmocka_unit_test(shapes_alone),
    };
    return RUN_ON_RANKS(count, tests);
}
