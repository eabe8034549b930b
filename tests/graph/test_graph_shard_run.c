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
    weft_backward(outputs[0], NULL);
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        gradients[i] = weft_grad(w[i]);
    }
    weft_clip_grad_norm(NUM_WEIGHTS, gradients, 1, 2, NULL);
    const weft_adam_options adam = { .learning_rate = scalars[0], .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8 };
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
    weft_scope_begin();
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
    weft_scope_end();
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
    weft_scope_begin();
    weft_mesh *mesh = line();
    double losses[STEPS];
    eager_losses(mesh, losses);
    network n = make_network(mesh);
    weft_graph *graph = weft_graph_create("network", train, &n, 1, 1, 2);
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
    assert_int_equal(weft_graph_get_shard_info(graph, &shard, sizeof(shard)), WEFT_OK);
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_int_equal(info.captures, 1);
    assert_true(shard.proved && !shard.moves_inputs);
    assert_true(shard.us < shard.recorded_us);
    assert_true(info.num_body_calls > info.num_calls); /* redistributions between the calls */
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

/* The program asks, lays its tensors out, and captures again. */
static void inputs_that_move(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_mesh *mesh = line();
    double losses[STEPS];
    eager_losses(mesh, losses);
    network n = make_network(mesh);
    weft_graph *graph = weft_graph_create("network", train, &n, 1, 1, 2);
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
    assert_int_equal(weft_graph_get_shard_info(graph, &shard, sizeof(shard)), WEFT_OK);
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
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_int_equal(info.captures, 2);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

/* Inputs and calls of a captured step. */
static void count_step(network *n, int *inputs, int *calls)
{
    weft_tensor *outputs[2];
    double rate = 0.01;
    weft_graph *graph = weft_graph_create("network", train, n, 1, 1, 2);
    assert_int_equal(weft_graph_call(graph, &n->x, &rate, outputs), WEFT_OK);
    char *text = listing_of(graph);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    *inputs = count_in(text, " = input");
    *calls = count_in(text, " = weft_");
    free(text);
}

/* A step of shapes alone is the same graph: the backward pass reads the values of the forward pass, not others. */
static void shapes_alone(void **state)
{
    (void)state;
    weft_scope_begin();
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
    weft_scope_end();
}

/* ---- the layouts of the capture are a choice -------------------------------------------------------------------------- */

/* Calls on lists of tensors, calls that return their input, calls that change a tensor of the program's. */
typedef enum piece_kind { JOINS, JOINS_LARGER, STACKS, SAME_TYPE, DROPS_NOTHING, CASTS, MOVES_NOWHERE, STEPS_SGD, STEPS_ADAM, NUM_PIECES } piece_kind;

typedef struct piece {
    piece_kind kind;
    weft_tensor *changed, *first, *second;
    int64_t step;
} piece;

static weft_status run_piece(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    piece *p = context;
    weft_tensor *a = weft_scale(inputs[0], 2), *b = weft_scale(inputs[0], 3), *result = NULL;
    const weft_sgd_options sgd = { .learning_rate = 0.5 };
    weft_adam_options adam;
    switch (p->kind) {
    case JOINS:
        result = weft_cat(2, (weft_tensor *[]){ a, b }, 1);
        break;
    case JOINS_LARGER:
        result = weft_cat(2, (weft_tensor *[]){ a, weft_cat(2, (weft_tensor *[]){ a, b }, 0) }, 0);
        break;
    case STACKS:
        result = weft_stack(2, (weft_tensor *[]){ a, b }, 0);
        break;
    case SAME_TYPE:
        result = weft_add(weft_to_type(a, WEFT_F64), b);
        break;
    case DROPS_NOTHING:
        result = weft_add(weft_dropout(a, 0.5, false, NULL), b);
        break;
    case CASTS:
        weft_autocast_begin(WEFT_BF16);
        result = weft_matmul(a, weft_permute(b, 2, (int[]){ 1, 0 }));
        weft_autocast_end();
        break;
    case MOVES_NOWHERE:
        result = weft_add(weft_redistribute(a, NULL, weft_tensor_placements(a)), b);
        break;
    case STEPS_SGD:
        weft_sgd(1, &p->changed, &a, &sgd, NULL);
        result = weft_scale(p->changed, 1);
        break;
    default:
        weft_adam_options_init(&adam);
        weft_adam(1, &p->changed, &a, &p->first, &p->second, ++p->step, &adam);
        result = weft_scale(p->changed, 1);
        break;
    }
    outputs[0] = result;
    return weft_last_status();
}

static weft_tensor *begin_piece(piece *p, piece_kind kind, int64_t rows, weft_mesh *mesh, const weft_placement *placements)
{
    weft_tensor *x = waves(mesh, rows, 3, 1);
    weft_tensor *own = weft_redistribute(x, NULL, placements);
    *p = (piece){ .kind = kind, .changed = weft_full_like(own, 1), .first = weft_zeros_like(own), .second = weft_zeros_like(own) };
    return own;
}

/* A Partial tensor: sums over ranks of a product whose contracted dimension is sharded. */
static weft_tensor *partial_tensor(weft_mesh *mesh, int64_t rows)
{
    const weft_placement by_rows[] = { weft_shard(0), weft_shard(0) }, by_columns[] = { weft_shard(1), weft_shard(1) };
    weft_tensor *a = weft_redistribute(waves(mesh, rows, 8, 1), NULL, by_columns);
    weft_tensor *b = weft_redistribute(waves(mesh, 8, 3, 1), NULL, by_rows);
    return weft_matmul(a, b);
}

static void shard_and_call(piece_kind kind, int64_t rows, weft_mesh *mesh, const weft_placement *placements)
{
    weft_scope_begin();
    piece p, eager;
    weft_tensor *x = begin_piece(&p, kind, rows, mesh, placements), *twin = begin_piece(&eager, kind, rows, mesh, placements);
    if (placements == NULL && kind < STEPS_SGD) {
        x = partial_tensor(mesh, rows);
        twin = partial_tensor(mesh, rows);
    }
    weft_graph *graph = weft_graph_create("piece", run_piece, &p, 1, 0, 1);
    for (int run = 0; run < 4; run++) {
        weft_tensor *output, *expected;
        weft_graph_shard_info info;
        double got[256], wanted[256];
        if (weft_graph_call(graph, &x, NULL, &output) != WEFT_OK || run_piece(&eager, &twin, NULL, &expected) != WEFT_OK) {
            fail_msg("kind %d, %d rows, run %d: %s", (int)kind, (int)rows, run, weft_last_error());
        }
        output = weft_to_type(output, WEFT_F64);
        expected = weft_to_type(expected, WEFT_F64);
        size_t bytes = weft_tensor_bytes(expected);
        assert_true(bytes <= sizeof(got));
        assert_int_equal(weft_to_host(output, got, bytes), WEFT_OK);
        assert_int_equal(weft_to_host(expected, wanted, bytes), WEFT_OK);
        for (size_t i = 0; i < bytes / sizeof(double); i++) {
            if (fabs(got[i] - wanted[i]) > 0.02 * fabs(wanted[i]) + 1e-9) {
                fail_msg("kind %d, %d rows, run %d: element %d is %g, expected %g", (int)kind, (int)rows, run, (int)i, got[i], wanted[i]);
            }
        }
        if (weft_graph_shard(graph, NULL) != WEFT_OK) {
            fail_msg("kind %d, %d rows, run %d: %s", (int)kind, (int)rows, run, weft_last_error());
        }
        assert_int_equal(weft_graph_get_shard_info(graph, &info, sizeof(info)), WEFT_OK);
        assert_true(info.recorded_us >= 0);
        assert_true(info.us <= info.recorded_us || !info.proved);
    }
    predict(graph, NULL);
    weft_graph_destroy(graph);
    weft_scope_end();
}

static void captured_layouts(void **state)
{
    (void)state;
    weft_scope_begin();
    const int64_t size = weft_world_size();
    weft_mesh *meshes[] = { line(), weft_mesh_create(2, (int64_t[]){ size % 2 == 0 ? 2 : 1, size % 2 == 0 ? size / 2 : size }, NULL) };
    const weft_placement kinds[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int m = 0; m < 2; m++) {
        for (int kind = 0; kind < NUM_PIECES; kind++) {
            for (int l = 0; l < 9; l++) {
                const weft_placement placements[] = { kinds[l % 3], kinds[l / 3] };
                if (m == 0 && l >= 3) {
                    break;
                }
                shard_and_call(kind, 1, meshes[m], placements); /* fewer rows than ranks */
                shard_and_call(kind, 8, meshes[m], placements);
            }
            shard_and_call(kind, 1, meshes[m], NULL);
            shard_and_call(kind, 8, meshes[m], NULL);
        }
    }
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_that_stay),
        cmocka_unit_test(inputs_that_move),
        cmocka_unit_test(shapes_alone),
        cmocka_unit_test(captured_layouts),
    };
    return RUN_ON_RANKS(tests);
}
