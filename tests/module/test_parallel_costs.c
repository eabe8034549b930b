/* What ready partition functions cost. Fully sharded training holds little more than each rank's part of parameters,
 * gradients and states of the optimiser: a stack of layers is trained by AdamW in hooks, and the buffer pool counts. Each
 * style moves the bytes of the collectives that it is known for, and no more. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"

enum { RANKS = 4, LAYERS = 12, WIDTH = 128, ROWS = 8, STEPS = 4 };
enum { TOKENS = 2048, ACTIVATION_BYTES = TOKENS * WIDTH * 4 };
enum { LAYER_BYTES = WIDTH * WIDTH * 4, ALL_BYTES = LAYERS * LAYER_BYTES };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS, .seed = 3);
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, (const char *[]){ "dp" });
    weft_mesh_push(mesh);
    return 0;
}

/* ---- a stack --------------------------------------------------------------------------------------------- */

static weft_status layer_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    (void)context;
    outputs[0] = weft_tanh(weft_matmul(inputs[0], weft_module_use(self, "weight")));
    return WEFT_OK;
}

static weft_status stack_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)num_outputs;
    (void)context;
    assert_int_equal(num_inputs, 2);
    weft_tensor *x = inputs[0];
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        x = weft_module_call(weft_module_child(self, name), x);
    }
    outputs[0] = weft_mse(x, inputs[1], WEFT_LOSS_MEAN);
    return WEFT_OK;
}

/* Its weights are made as every program does, or are shapes alone at first (weft_fake()). */
static weft_module *stack_new(bool of_shapes)
{
    const int64_t shape[] = { WIDTH, WIDTH };
    weft_module *root = weft_module_create("stack");
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        weft_scope_begin();
        weft_module *layer = weft_module_create("layer");
        weft_tensor *weight = of_shapes ? weft_fake(WEFT_F32, 2, shape, NULL, NULL)
                                        : weft_scale(weft_randn(WEFT_F32, 2, shape, NULL, NULL), 1 / sqrt(WIDTH));
        weft_module_add_parameter(layer, "weight", weight);
        weft_module_set_forward(layer, layer_forward, NULL);
        weft_module_add_child(root, name, layer);
        weft_scope_end();
    }
    weft_module_set_forward(root, stack_forward, NULL);
    return root;
}

/* The same values for a stack of shapes that has been distributed. */
static void stack_fill(weft_module *root)
{
    weft_tensor *parameters[LAYERS];
    assert_int_equal(weft_module_materialize(root), WEFT_OK);
    assert_int_equal(weft_module_parameters(root, LAYERS, NULL, parameters), LAYERS);
    weft_no_grad_begin();
    for (int i = 0; i < LAYERS; i++) {
        weft_scale_inplace(weft_normal_inplace(parameters[i], 0, 1), 1 / sqrt(WIDTH));
    }
    weft_no_grad_end();
    assert_no_error();
}

/* ---- AdamW in hooks -------------------------------------------------------------------------------------- */

typedef struct states {
    weft_tensor *first, *second;
    int64_t step;
} states;

static weft_status step_in_hook(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    states *s = context;
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    return weft_adamw(1, &leaf, &gradient, &s->first, &s->second, ++s->step, &options);
}

static void add_hooks(weft_module *root, states all[])
{
    weft_tensor *parameters[LAYERS];
    assert_int_equal(weft_module_parameters(root, LAYERS, NULL, parameters), LAYERS);
    for (int i = 0; i < LAYERS; i++) {
        all[i] = (states){ weft_zeros_like(parameters[i]), weft_zeros_like(parameters[i]), 0 };
        assert_int_equal(weft_set_grad_hook(parameters[i], step_in_hook, &all[i]), WEFT_OK);
    }
}

/* Products in `dtype`. */
static double train(weft_module *root, weft_dtype dtype)
{
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { ROWS, WIDTH };
    weft_tensor *parameters[LAYERS], *loss;
    double value;
    weft_scope_begin();
    weft_tensor *inputs[] = { weft_full(WEFT_F32, 0.5, 2, shape, mesh, &rows), weft_full(WEFT_F32, 0.25, 2, shape, mesh, &rows) };
    weft_autocast_begin(dtype);
    assert_int_equal(weft_module_forward(root, 2, inputs, 1, &loss), WEFT_OK);
    weft_autocast_end();
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    int count = weft_module_parameters(root, LAYERS, NULL, parameters);
    assert_int_equal(weft_zero_grad(count, parameters), WEFT_OK);
    assert_int_equal(weft_tensor_item(loss, &value), WEFT_OK);
    weft_scope_end();
    assert_no_error();
    return value;
}

/* The most that steps after the first hold, referenced and in all, on this process. */
static void peak_of_training(int num_entries, const weft_parallel plan[], weft_dtype dtype, int64_t *used, int64_t *own,
                             double *loss)
{
    static states all[LAYERS];
    weft_scope_begin();
    weft_module *root = stack_new(false);
    assert_int_equal(weft_parallelize(root, mesh, num_entries, plan), WEFT_OK);
    add_hooks(root, all);
    train(root, dtype);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_pool_peak(weft_runtime.pool, used, own);
    for (int i = 0; i < STEPS; i++) {
        *loss = train(root, dtype);
    }
    weft_pool_peak(weft_runtime.pool, used, own);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static void test_g3_fully_sharded_memory(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    static const weft_parallel replicated[] = { { "", WEFT_PARALLEL_DATA } };
    int64_t used, own, replicated_used, replicated_own;
    double loss, replicated_loss;
    weft_random_state weights;
    assert_int_equal(weft_random_state_get(weft_random_state_current(), &weights), WEFT_OK);
    peak_of_training(1, plan, WEFT_F32, &used, &own, &loss);
    /* Parameter, gradient, two moments; on each hosted rank its part of them, and two gathered layers. */
    int64_t most = weft_local_ranks() * (int64_t)(1.2 * (4 * ALL_BYTES / RANKS) + 2 * LAYER_BYTES);
    print_message("# used %lld, with free buffers %lld, allowed %lld\n", (long long)used, (long long)own, (long long)most);
    weft_random_state_set(weft_random_state_current(), weights);
    peak_of_training(1, replicated, WEFT_F32, &replicated_used, &replicated_own, &replicated_loss);
    print_message("# replicated: used %lld, with free buffers %lld\n", (long long)replicated_used, (long long)replicated_own);
    assert_true(used <= most);
    assert_true(own <= most);
    assert_true(replicated_used > most); /* it can fail */
    assert_true(fabs(loss - replicated_loss) < 1e-5);
    weft_random_state_set(weft_random_state_current(), weights);
    peak_of_training(1, plan, WEFT_BF16, &used, &own, &loss);
    print_message("# products in bf16: used %lld, with free buffers %lld\n", (long long)used, (long long)own);
    assert_true(used <= most);
    assert_true(own <= most);
    assert_true(fabs(loss - replicated_loss) < 0.02 * replicated_loss);
}

/* A model that is distributed before it has values is never whole on a rank, and gets the values of any other. */
static void test_g3_fully_sharded_memory_at_the_start(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    int64_t peaks[2], own;
    double losses[2];
    weft_random_state weights;
    assert_int_equal(weft_random_state_get(weft_random_state_current(), &weights), WEFT_OK);
    for (int of_shapes = 0; of_shapes < 2; of_shapes++) {
        weft_random_state_set(weft_random_state_current(), weights);
        weft_scope_begin();
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_pool_trim(weft_runtime.pool);
        weft_pool_collect(weft_runtime.pool);
        weft_pool_peak(weft_runtime.pool, &peaks[of_shapes], &own);
        weft_module *root = stack_new(of_shapes);
        assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
        if (of_shapes) {
            stack_fill(root);
        }
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_pool_peak(weft_runtime.pool, &peaks[of_shapes], &own);
        losses[of_shapes] = train(root, WEFT_F32);
        weft_module_destroy(root);
        weft_scope_end();
    }
    int64_t most = weft_local_ranks() * (int64_t)(1.2 * (ALL_BYTES / RANKS));
    print_message("# at the start: used %lld of whole parameters, %lld by shards, allowed %lld\n", (long long)peaks[0],
                  (long long)peaks[1], (long long)most);
    print_message("# with free buffers %lld\n", (long long)own);
    assert_true(peaks[1] <= most && own <= most);
    assert_true(peaks[0] > most); /* it can fail */
    assert_true(losses[0] == losses[1]);
    assert_no_error();
}

/* ---- bytes ----------------------------------------------------------------------------------------------- */

/* Bytes that this process's ranks have got from others in a region. */
static uint64_t bytes_in(const char *region)
{
    weft_region_counters counters[256];
    int count = weft_region_counts(256, counters);
    uint64_t bytes = 0;
    assert_true(count >= 0 && count <= 256);
    for (int i = 0; i < count; i++) {
        bytes += strcmp(counters[i].region, region) == 0 ? counters[i].bytes : 0;
    }
    return bytes;
}

/* An all-gather or a reduce-scatter of so many bytes brings each rank all parts but its own; an all-reduce is both. The
 * scalars of losses are allowed for. */
static void assert_bytes(const char *region, int64_t collectives, int64_t bytes)
{
    uint64_t each = (uint64_t)(bytes / RANKS * (RANKS - 1)), expected = (uint64_t)weft_local_ranks() * (uint64_t)collectives * each;
    uint64_t found = bytes_in(region);
    if (found < expected || found > expected + 1024) {
        fail_msg("%s: %llu bytes, expected %llu", region, (unsigned long long)found, (unsigned long long)expected);
    }
}

static void test_g3_fully_sharded_bytes(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED } };
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { ROWS, WIDTH };
    weft_scope_begin();
    weft_module *root = stack_new(false);
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    weft_tensor *inputs[] = { weft_ones(WEFT_F32, 2, shape, mesh, &rows), weft_ones(WEFT_F32, 2, shape, mesh, &rows) };
    weft_tensor *loss;
    weft_region_begin("fsdp forward", 0);
    assert_int_equal(weft_module_forward(root, 2, inputs, 1, &loss), WEFT_OK);
    weft_region_end();
    weft_region_begin("fsdp backward", 0);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_region_end();
    assert_bytes("fsdp forward", LAYERS, LAYER_BYTES);
    /* Gathered again, but for the first layer, whose input needs no gradient; and reduce-scattered. */
    assert_bytes("fsdp backward", 2 * LAYERS - 1, LAYER_BYTES);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static weft_status linear_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                  weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    (void)context;
    outputs[0] = weft_matmul(inputs[0], weft_module_use(self, "weight"));
    return WEFT_OK;
}

/* A block of two linear layers with a residual. */
static weft_status block_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)num_inputs;
    (void)num_outputs;
    (void)context;
    weft_tensor *h = weft_tanh(weft_module_call(weft_module_child(self, "up"), inputs[0]));
    outputs[0] = weft_add(inputs[0], weft_module_call(weft_module_child(self, "down"), h));
    return WEFT_OK;
}

/* A block's outputs, and its gradients for those of its outputs that are in their layout. */
static void run_block(int count, const weft_parallel plan[], const char *forward, const char *backward)
{
    const int64_t width = WIDTH, hidden = 2 * WIDTH, shape[] = { 1, TOKENS, WIDTH };
    weft_scope_begin();
    weft_module *block = weft_module_create("block"), *up = weft_module_create("layer"), *down = weft_module_create("layer");
    weft_module_add_parameter(up, "weight", weft_full(WEFT_F32, 1e-3, 2, (int64_t[]){ width, hidden }, mesh, NULL));
    weft_module_add_parameter(down, "weight", weft_full(WEFT_F32, 1e-3, 2, (int64_t[]){ hidden, width }, mesh, NULL));
    weft_module_set_forward(up, linear_forward, NULL);
    weft_module_set_forward(down, linear_forward, NULL);
    weft_module_add_child(block, "up", up);
    weft_module_add_child(block, "down", down);
    weft_module_set_forward(block, block_forward, NULL);
    assert_int_equal(weft_parallelize(block, mesh, count, plan), WEFT_OK);
    weft_tensor *x = weft_ones(WEFT_F32, 3, shape, mesh, NULL);
    assert_int_equal(weft_set_requires_grad(x, true), WEFT_OK);
    weft_region_begin(forward, 0);
    weft_tensor *y = weft_module_call(block, x);
    weft_region_end();
    const weft_backward_options options = { .output_gradient = weft_ones_like(y) };
    weft_region_begin(backward, 0);
    assert_int_equal(weft_backward(y, &options), WEFT_OK);
    weft_region_end();
    weft_module_destroy(block);
    weft_scope_end();
    assert_no_error();
}

static void test_g3_tensor_parallel_bytes(void **state)
{
    (void)state;
    static const weft_parallel tp[] = { { "up", WEFT_PARALLEL_COLUMNS }, { "down", WEFT_PARALLEL_ROWS } };
    static const weft_parallel sequence[] = { { "", WEFT_PARALLEL_SEQUENCE },
                                              { "up", WEFT_PARALLEL_COLUMNS },
                                              { "down", WEFT_PARALLEL_ROWS, NULL, NULL, "S1", NULL } };
    run_block(2, tp, "tp forward", "tp backward");
    /* One all-reduce each way: of the second layer's outputs, and of the first one's input gradient. */
    assert_bytes("tp forward", 2, ACTIVATION_BYTES);
    assert_bytes("tp backward", 2, ACTIVATION_BYTES);
    run_block(3, sequence, "sequence forward", "sequence backward");
    /* The same as an all-gather and a reduce-scatter; and the gradient of the block's input, a replicated leaf, is
     * gathered. */
    assert_bytes("sequence forward", 2, ACTIVATION_BYTES);
    assert_bytes("sequence backward", 3, ACTIVATION_BYTES);
}

/* A vector that columns shard along tp, and dp once more: gathering the latter leaves the former where it is. */
static void test_fully_sharded_over_tensor_parallel_bytes(void **state)
{
    (void)state;
    static const weft_parallel plan[] = { { "", WEFT_PARALLEL_COLUMNS, "tp" }, { "", WEFT_PARALLEL_FULLY_SHARDED, "dp" } };
    const int64_t shape[] = { WIDTH };
    char text[40];
    weft_scope_begin();
    weft_mesh *both = weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *[]){ "dp", "tp" });
    weft_module *layer = weft_module_create("layer");
    weft_module_add_parameter(layer, "bias", weft_ones(WEFT_F32, 1, shape, both, NULL));
    assert_int_equal(weft_parallelize(layer, both, 2, plan), WEFT_OK);
    const weft_tensor *bias = weft_module_parameter(layer, "bias");
    assert_int_equal(weft_placements_format(weft_tensor_placements(bias), 2, text, sizeof(text)), WEFT_OK);
    assert_string_equal(text, "S0@1,S0");
    weft_region_begin("fsdp over tp", 0);
    assert_non_null(weft_module_use(layer, "bias"));
    weft_region_end();
    uint64_t expected = (uint64_t)weft_local_ranks() * WIDTH / 4 * sizeof(float);
    assert_int_equal(bytes_in("fsdp over tp"), expected);
    weft_module_destroy(layer);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g3_fully_sharded_memory),
        cmocka_unit_test(test_g3_fully_sharded_memory_at_the_start),
        cmocka_unit_test(test_g3_fully_sharded_bytes),
        cmocka_unit_test(test_g3_tensor_parallel_bytes),
        cmocka_unit_test(test_fully_sharded_over_tensor_parallel_bytes),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
