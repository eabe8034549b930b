/* Passes over captured graphs that change nothing but memory and the order of tasks: outputs that take over the memory of
 * inputs, and priorities by the longest path. That any order gives the same bits is part of test_graph_passes.c.
 *
 * Argument under mpirun: "processes". */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/predict.h>

#include "graph_support.h"
#include "machine_file.h"

/* ---- runs of a graph ------------------------------------------------------------------------------------- */

typedef struct memory_use {
    int64_t peak, foreseen;
} memory_use;

/* Runs a graph of one input and two outputs, and compares with the function by itself. */
static memory_use run_with(weft_graph_function function, void *context, weft_tensor *input, unsigned passes)
{
    weft_graph *graph = weft_graph_create("memory", function, context, 1, 1, 2);
    weft_graph_info info = { 0 };
    assert_int_equal(weft_graph_set_passes(graph, passes), WEFT_OK);
    for (int turn = 0; turn < 4; turn++) {
        const double number = 0.5 + turn;
        weft_scope_begin();
        weft_tensor *outputs[2], *expected[2], *before = weft_scale(input, 1);
        assert_int_equal(weft_graph_call(graph, &input, &number, outputs), WEFT_OK);
        assert_int_equal(function(context, &input, &number, expected), WEFT_OK);
        for (int i = 0; i < 2; i++) {
            assert_same_tensors(outputs[i], expected[i], "output");
        }
        assert_same_shards(input, before, "input");
        weft_scope_end();
    }
    weft_graph_get_info(graph, &info, sizeof(info));
    weft_graph_destroy(graph);
    assert_no_error();
    return (memory_use){ info.peak_bytes, info.foreseen_bytes };
}

enum { ROWS = 512, COLUMNS = 128, BYTES = ROWS * COLUMNS * 4 }; /* too large for clusters of small calls */

static weft_tensor *random_rows(void)
{
    const weft_placement on_rows = weft_shard(0);
    weft_random_seed(7);
    return weft_randn(WEFT_F32, 2, (int64_t[]){ ROWS, COLUMNS }, line(), &on_rows);
}

/* Bytes of such a tensor on the ranks of this process. */
static int64_t bytes_here(void)
{
    return BYTES / weft_num_processes();
}

/* The most bytes at once without the pass and with it, for a function that needs so many tensors. */
static void check_memory(weft_graph_function function, unsigned passes, int without, int with)
{
    weft_scope_begin();
    weft_tensor *x = random_rows();
    memory_use plain = run_with(function, NULL, x, passes), less = run_with(function, NULL, x, passes | WEFT_PASS_MEMORY);
    print_message("# passes %#x: %lld bytes, with memory %lld\n", passes, (long long)plain.peak, (long long)less.peak);
    assert_int_equal(plain.foreseen, without * bytes_here());
    assert_int_equal(less.foreseen, with * bytes_here());
    assert_int_equal(plain.peak, plain.foreseen);
    assert_int_equal(less.peak, less.foreseen);
    weft_scope_end();
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *a = weft_tanh(weft_scale(weft_tanh(inputs[0]), scalars[0]));
    weft_tensor *squared = weft_mul(a, a);
    outputs[0] = weft_sub(inputs[0], weft_mul(inputs[0], squared)); /* the second operand */
    outputs[1] = inputs[0];
    return WEFT_OK;
}

/* A value that is an output, and one that another output is a view of. */
static weft_status needed_behind(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *a = weft_tanh(inputs[0]), *view = weft_reshape(a, 3, (int64_t[]){ ROWS, 2, COLUMNS / 2 });
    outputs[0] = weft_exp(a);
    outputs[1] = view;
    return WEFT_OK;
}

static weft_status output_that_is_read(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_tanh(inputs[0]);
    outputs[1] = weft_exp(outputs[0]);
    return WEFT_OK;
}

/* Calls that are fused after one that is not. The first output is made before the last call reads `sums`. */
static weft_status fused(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *sums = weft_cumsum(inputs[0], 1), *scaled = weft_scale(sums, scalars[0]);
    outputs[0] = weft_tanh(scaled);
    outputs[1] = weft_mul(outputs[0], sums);
    return WEFT_OK;
}

/* A norm reads its row when it has written a part of it. */
static weft_status fused_norm(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *sums = weft_cumsum(inputs[0], 1);
    outputs[0] = weft_scale(weft_softmax(sums, -1), scalars[0]);
    outputs[1] = inputs[0];
    return WEFT_OK;
}

static void f9_memory(void **state)
{
    (void)state;
    check_memory(chain, WEFT_PASS_DEAD, 2, 1);
    check_memory(needed_behind, WEFT_PASS_DEAD, 2, 2);
    check_memory(output_that_is_read, WEFT_PASS_DEAD, 2, 2);
    check_memory(fused, WEFT_PASS_DEAD, 3, 2);
    check_memory(fused, WEFT_PASS_FUSE, 3, 2);
    check_memory(fused_norm, WEFT_PASS_FUSE, 2, 2);
}

/* ---- order ----------------------------------------------------------------------------------------------- */

enum { LAYERS = 4, TOKENS = 512, WIDTH = 256, HIDDEN = 1024 };

typedef struct mlps {
    weft_tensor *up[LAYERS], *down[LAYERS];
} mlps;

/* A step of layers whose sums all ranks need before they go on, or not. */
static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const mlps *m = context;
    weft_tensor *x = inputs[0], *leaves[2 * LAYERS], *gradients[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        x = weft_redistribute(weft_matmul(weft_tanh(weft_matmul(x, m->up[i])), m->down[i]), NULL,
                              weft_tensor_placements(inputs[0]));
        leaves[i] = m->up[i];
        leaves[i + LAYERS] = m->down[i];
    }
    weft_tensor *loss = weft_mean(weft_mul(x, x), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    for (int i = 0; i < 2 * LAYERS; i++) {
        gradients[i] = weft_grad(leaves[i]);
    }
    status = status == WEFT_OK
                 ? weft_sgd(2 * LAYERS, leaves, gradients, &(weft_sgd_options){ .learning_rate = scalars[0] }, NULL)
                 : status;
    status = status == WEFT_OK ? weft_zero_grad(2 * LAYERS, leaves) : status;
    outputs[0] = weft_detach(loss);
    return status;
}

static weft_tensor *make_leaf(int64_t rows, int64_t columns, weft_placement placement)
{
    weft_tensor *leaf = weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, line(), &placement);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    return leaf;
}

/* Of two processes on two machines with slow links. */
static double predicted_us(const char *machine, bool tensor_parallel, unsigned passes)
{
    mlps m;
    weft_prediction found;
    weft_tensor *loss;
    weft_scope_begin();
    for (int i = 0; i < LAYERS; i++) {
        m.up[i] = make_leaf(WIDTH, HIDDEN, tensor_parallel ? weft_shard(1) : weft_replicate());
        m.down[i] = make_leaf(HIDDEN, WIDTH, tensor_parallel ? weft_shard(0) : weft_replicate());
    }
    const weft_placement placement = tensor_parallel ? weft_replicate() : weft_shard(0);
    weft_tensor *x = weft_randn(WEFT_F32, 2, (int64_t[]){ TOKENS, WIDTH }, line(), &placement);
    weft_graph *graph = weft_graph_create("train", train, &m, 1, 1, 1);
    assert_int_equal(weft_graph_set_passes(graph, passes), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &x, &(double){ 0.1 }, &loss), WEFT_OK);
    assert_int_equal(weft_graph_predict(graph, &(weft_predict_options){ .machine = machine }, &found, sizeof(found)), WEFT_OK);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    return found.step_us;
}

/* The chain of layers waits for messages, and meanwhile the gradients of weights are computed. Where messages are those of
 * gradients alone, nothing is delayed. */
static void f9_order(void **state)
{
    (void)state;
    char machine[MACHINE_PATH_BYTES];
    write_machine(machine, 20000, 20);
    setenv("WEFT_MACHINE", machine, 1);
    setenv("WEFT_FAKE_SIZE", "2", 1);
    setenv("WEFT_FAKE_PROCESSES", "2", 1);
    assert_int_equal(weft_init(&(weft_config){ .world = WEFT_WORLD_FAKE }), WEFT_OK);
    const unsigned without = WEFT_PASS_ALL & ~(unsigned)WEFT_PASS_ORDER;
    for (int parallel = 0; parallel < 2; parallel++) {
        double plain = predicted_us(machine, parallel == 1, without), ordered = predicted_us(machine, parallel == 1, WEFT_PASS_ALL);
        print_message("# %s: %.0f us, ordered %.0f us\n", parallel == 1 ? "tp" : "dp", plain, ordered);
        assert_true(ordered < (parallel == 1 ? 0.985 : 1.01) * plain);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_MACHINE");
    unsetenv("WEFT_FAKE_SIZE");
    unsetenv("WEFT_FAKE_PROCESSES");
    unlink(machine);
}

int main(void)
{
    const struct CMUnitTest in_a_world[] = { cmocka_unit_test(f9_memory) };
    const struct CMUnitTest in_others[] = { cmocka_unit_test(f9_order) };
    int failed = RUN_ON_RANKS(in_a_world);
    return over_processes() ? failed : failed + cmocka_run_group_tests(in_others, NULL, NULL);
}
