/* Automatic shardings (weft_graph_shard()): training steps in a fake world, on machines that do not exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "machine_file.h"

/* ---- an MLP ---------------------------------------------------------------------------------------------- */

typedef struct mlp {
    weft_tensor *x, *target, *w1, *w2;
} mlp;

static weft_status train_mlp(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const mlp *m = context;
    (void)inputs;
    weft_tensor *y = weft_matmul(weft_relu(weft_matmul(m->x, m->w1)), m->w2);
    weft_tensor *loss = weft_mse(y, m->target, WEFT_LOSS_MEAN);
    weft_backward(loss, NULL);
    weft_tensor *weights[] = { m->w1, m->w2 }, *gradients[] = { weft_grad(m->w1), weft_grad(m->w2) };
    weft_sgd_options options = { .learning_rate = scalars[0] };
    weft_sgd(2, weights, gradients, &options, NULL);
    weft_zero_grad(2, weights);
    outputs[0] = loss;
    return weft_last_status();
}

static weft_tensor *parameter(weft_mesh *mesh, int64_t rows, int64_t columns)
{
    weft_tensor *w = weft_zeros(WEFT_F32, 2, (int64_t[]){ rows, columns }, mesh, NULL);
    weft_set_requires_grad(w, true);
    return w;
}

/* A captured step with everything Replicate. */
static weft_graph *capture_mlp(mlp *m, weft_mesh *mesh, int64_t batch, int64_t width, int64_t hidden)
{
    const int64_t rows[] = { batch, width };
    m->x = weft_zeros(WEFT_F32, 2, rows, mesh, NULL);
    m->target = weft_zeros(WEFT_F32, 2, rows, mesh, NULL);
    m->w1 = parameter(mesh, width, hidden);
    m->w2 = parameter(mesh, hidden, width);
    weft_graph *graph = weft_graph_create("mlp", train_mlp, m, 0, 1, 1);
    assert_non_null(graph);
    weft_tensor *loss;
    assert_int_equal(weft_graph_call(graph, NULL, &(double){ 0.1 }, &loss), WEFT_OK);
    return graph;
}

static void assert_placements(const weft_graph *graph, const weft_tensor *tensor, const char *expected)
{
    weft_placement placements[WEFT_MAX_DIMS];
    char text[100];
    assert_int_equal(weft_graph_get_placements(graph, tensor, placements), WEFT_OK);
    assert_int_equal(weft_placements_format(placements, weft_mesh_ndim(weft_tensor_mesh(tensor)), text, sizeof(text)), WEFT_OK);
    const char *found = strstr(expected, text);
    size_t length = strlen(text);
    if (found == NULL || (found[length] != '\0' && found[length] != '|')) {
        fail_msg("expected %s, is %s", expected, text);
    }
}

/* Each input has a best other layout: weights with what their optimiser changes. */
static void assert_alternatives(FILE *table, int num_inputs)
{
    char line[300];
    int num_rows = 0;
    rewind(table);
    while (fgets(line, sizeof(line), table) != NULL) {
        bool is_input = strstr(line, " input ") != NULL;
        num_rows += is_input;
        assert_true(!is_input || strstr(line, " +") != NULL);
    }
    assert_int_equal(num_rows, num_inputs);
    fclose(table);
}

/* Few rows and large weights: Megatron's column and row, as sums of activations are smaller than those of gradients. Many
 * rows and small weights: data parallel. */
static void mlp_on_a_line(void **state)
{
    (void)state;
    const struct {
        int64_t batch, width, hidden;
        double flops, link;
        const char *x, *w1, *w2; /* w1, w2: one of these, separated by "|" */
    } rows[] = {
        { 256, 4096, 16384, 1e6, 1000, "R", "S1", "S0" },
        { 65536, 256, 512, 1e5, 1000, "S0", "R|S0", "R|S0" }, /* S0: whole where it is used, its gradient's sum in parts */
        { 256, 64, 64, 1e7, 1, "R", "R", "R" }, /* links cost more than computing everything everywhere */
    };
    char path[MACHINE_PATH_BYTES];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        weft_scope_begin();
        weft_mesh *line = weft_mesh_create(1, (int64_t[]){ FAKE_RANKS }, NULL);
        mlp m;
        weft_graph *graph = capture_mlp(&m, line, rows[i].batch, rows[i].width, rows[i].hidden);
        write_machine(path, rows[i].flops, rows[i].link);
        weft_tensor *const movable[] = { m.x, m.target, m.w1, m.w2 };
        FILE *table = tmpfile();
        assert_non_null(table);
        weft_graph_shard_options options = { .num_movable = 4, .movable = movable, .machine = path, .table = table };
        assert_int_equal(weft_graph_shard(graph, &options), WEFT_OK);
        assert_alternatives(table, 4);
        assert_placements(graph, m.x, rows[i].x);
        assert_placements(graph, m.w1, rows[i].w1);
        assert_placements(graph, m.w2, rows[i].w2);
        weft_graph_shard_info info;
        assert_int_equal(weft_graph_get_shard_info(graph, &info, sizeof(info)), WEFT_OK);
        assert_true(info.proved);
        assert_true(info.us <= info.recorded_us);
        assert_int_equal(info.moves_inputs, i < 2);
        remove(path);
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
}

/* Two dimensions, a pin, a bound on memory, and what is refused. */
static void bounds_and_pins(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, FAKE_RANKS / 2 }, (const char *const[]){ "dp", "tp" });
    mlp m;
    weft_graph *graph = capture_mlp(&m, mesh, 1024, 512, 2048);
    weft_tensor *const movable[] = { m.x, m.target, m.w1, m.w2 };
    weft_graph_pin pin = { m.x, "dp", weft_shard(0) };
    weft_graph_shard_options options = { .num_movable = 4, .movable = movable, .num_pins = 1, .pins = &pin };
    assert_int_equal(weft_graph_shard(graph, &options), WEFT_OK);
    weft_placement placements[2];
    weft_graph_shard_info any, bounded;
    assert_int_equal(weft_graph_get_placements(graph, m.x, placements), WEFT_OK);
    assert_true(placements[0].kind == WEFT_SHARD && placements[0].dim == 0);
    assert_int_equal(weft_graph_get_shard_info(graph, &any, sizeof(any)), WEFT_OK);
    assert_true(any.proved && any.recorded_us < 0 && any.bytes < any.recorded_bytes);
    options.max_bytes = any.bytes - 1;
    assert_int_equal(weft_graph_shard(graph, &options), WEFT_OK);
    assert_int_equal(weft_graph_get_shard_info(graph, &bounded, sizeof(bounded)), WEFT_OK);
    assert_true(bounded.bytes < any.bytes && bounded.us >= any.us);
    const struct {
        weft_graph_shard_options options;
        const char *message;
    } refused[] = {
        { { .max_bytes = 1000 }, "the least possible" },
        { { .max_bytes = -1 }, "max_bytes" },
        { { .num_pins = 1 }, "pins" },
        { { .num_pins = 1, .pins = &pin }, "pins[0].tensor" },
        { { .num_pins = 1, .pins = &(weft_graph_pin){ m.x, "pp", weft_shard(0) } }, "pins[0].mesh_dim" },
        { { .num_pins = 1, .pins = &(weft_graph_pin){ m.x, "dp", weft_shard(2) } }, "pins[0].placement" },
        { { .num_movable = 1, .movable = (weft_tensor *[]){ weft_zeros_like(m.x) } }, "movable[0]" },
        { { .machine = "/no/such/file" }, "machine" },
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(weft_graph_shard(graph, &refused[i].options), WEFT_ERR_INVALID);
        assert_non_null(strstr(weft_last_error(), refused[i].message));
        weft_clear_error();
        weft_graph_shard_info after;
        assert_int_equal(weft_graph_get_shard_info(graph, &after, sizeof(after)), WEFT_OK);
        assert_true(after.us == bounded.us); /* nothing has changed */
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

/* A step of x by the gradient of the sum of its squares. */
static weft_status step_of_squares(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs, (void)scalars;
    weft_tensor *x = context;
    outputs[0] = weft_sum(weft_square(x), WEFT_ALL_DIMS, false);
    weft_sgd_options options = { .learning_rate = 0.1 };
    weft_tensor *gradient = weft_backward(outputs[0], NULL) == WEFT_OK ? weft_grad(x) : NULL;
    weft_sgd(1, &x, &gradient, &options, NULL);
    return weft_zero_grad(1, &x);
}

/* The gradient of a sum lies where the sum's input did in the capture; another layout of the input takes it along. */
static void gradients_of_sums_are_laid_out_anew(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = weft_zeros(WEFT_F32, 2, (int64_t[]){ 4096, 1024 }, line(), NULL), *loss;
    assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
    weft_graph *graph = weft_graph_create("squares", step_of_squares, x, 0, 0, 1);
    assert_int_equal(weft_graph_call(graph, NULL, NULL, &loss), WEFT_OK);
    assert_int_equal(weft_graph_shard(graph, &(weft_graph_shard_options){ .num_movable = 1, .movable = &x }), WEFT_OK);
    weft_graph_shard_info found;
    assert_int_equal(weft_graph_get_shard_info(graph, &found, sizeof(found)), WEFT_OK);
    assert_true(found.us < 0.3 * found.recorded_us);
    assert_true(found.bytes < found.recorded_bytes / 4);
    assert_int_equal(weft_graph_call(graph, NULL, NULL, &loss), WEFT_OK);
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    weft_scope_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients_of_sums_are_laid_out_anew, start_fake, stop),
        cmocka_unit_test_setup_teardown(mlp_on_a_line, start_fake, stop),
        cmocka_unit_test_setup_teardown(bounds_and_pins, start_fake, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
