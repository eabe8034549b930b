/* Sharded parameters that calls use gathered: in regions of mixed precision ranks exchange 16 bits, and whatever else a
 * program does with such a tensor sees what a redistribution would have given; frozen ones are released after the forward
 * pass, and gathered again. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "runtime/pool.h"
#include "runtime/runtime.h"

enum { RANKS = 4, WIDTH = 64, ROWS = 8, LAYERS = 6, LAYER_BYTES = WIDTH * WIDTH * 4, PARTS = RANKS - 1 };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS, .seed = 5);
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, (const char *[]){ "dp" });
    weft_mesh_push(mesh);
    return 0;
}

/* ---- modules of one weight ------------------------------------------------------------------------------- */

static const weft_parallel fsdp[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, NULL, NULL, NULL, NULL } };

static weft_module *module_of(weft_forward_function forward)
{
    weft_module *module = weft_module_create("layer");
    weft_scope_begin();
    weft_tensor *weight = weft_randn(WEFT_F32, 2, (int64_t[]){ WIDTH, WIDTH }, NULL, NULL);
    weft_module_add_parameter(module, "weight", weft_scale(weight, 1 / sqrt(WIDTH)));
    weft_module_set_forward(module, forward, NULL);
    weft_scope_end();
    return module;
}

static weft_status linear(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_tanh(weft_matmul(inputs[0], weft_module_use(self, "weight")));
    return weft_last_status();
}

static weft_status chain(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    weft_tensor *x = inputs[0];
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        x = weft_module_call(weft_module_child(self, name), x);
    }
    outputs[0] = x;
    return weft_last_status();
}

static weft_module *chain_new(void)
{
    weft_module *root = weft_module_create("chain");
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        weft_module_add_child(root, name, module_of(linear));
    }
    weft_module_set_forward(root, chain, NULL);
    assert_int_equal(weft_parallelize(root, mesh, 1, fsdp), WEFT_OK);
    return root;
}

static weft_tensor *input_new(void)
{
    const weft_placement rows = weft_shard(0);
    return weft_rand(WEFT_F32, 2, (int64_t[]){ ROWS, WIDTH }, mesh, &rows);
}

static weft_tensor *loss_of(weft_tensor *y)
{
    return weft_mean(weft_square(y), WEFT_ALL_DIMS, false);
}

/* ---- bytes ----------------------------------------------------------------------------------------------- */

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

/* Hosted ranks get `parts` bytes of other ranks, and a few for losses. */
static void assert_bytes(const char *region, int64_t parts)
{
    uint64_t expected = (uint64_t)weft_local_ranks() * (uint64_t)parts / RANKS * PARTS, found = bytes_in(region);
    print_message("# %s: %llu bytes\n", region, (unsigned long long)found);
    if (found < expected || found > expected + 1024) {
        fail_msg("%s: %llu bytes, expected %llu", region, (unsigned long long)found, (unsigned long long)expected);
    }
}

static void train(weft_module *root, weft_dtype dtype, const char *forward, const char *backward)
{
    weft_scope_begin();
    weft_tensor *x = input_new();
    weft_set_requires_grad(x, true);
    weft_autocast_begin(dtype);
    weft_region_begin(forward, 0);
    weft_tensor *loss = loss_of(weft_module_call(root, x));
    weft_region_end();
    weft_autocast_end();
    weft_region_begin(backward, 0);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_region_end();
    weft_scope_end();
    assert_no_error();
}

static void test_16_bits_are_gathered(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = chain_new();
    train(root, WEFT_F32, "f32 forward", "f32 backward");
    train(root, WEFT_BF16, "bf16 forward", "bf16 backward");
    train(root, WEFT_F16, "f16 forward", "f16 backward");
    assert_bytes("f32 forward", LAYERS * LAYER_BYTES);
    assert_bytes("f32 backward", 2 * LAYERS * LAYER_BYTES);
    assert_bytes("bf16 forward", LAYERS * LAYER_BYTES / 2);
    /* Gradients are reduced in 32 bits. */
    assert_bytes("bf16 backward", LAYERS * (LAYER_BYTES + LAYER_BYTES / 2));
    assert_bytes("f16 forward", LAYERS * LAYER_BYTES / 2);
    assert_bytes("f16 backward", LAYERS * (LAYER_BYTES + LAYER_BYTES / 2));
    weft_region_begin("no_grad", 0);
    weft_no_grad_begin();
    weft_autocast_begin(WEFT_BF16);
    weft_module_call(root, input_new());
    weft_autocast_end();
    weft_no_grad_end();
    weft_region_end();
    assert_bytes("no_grad", LAYERS * LAYER_BYTES / 2);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

/* ---- tied weights ------------------------------------------------------------------------------------------ */

static weft_status table(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_embedding(weft_module_use(self, "weight"), inputs[0]);
    return weft_last_status();
}

static weft_status head(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                        weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_matmul_ex(inputs[0], false, weft_module_use(self, "weight"), true);
    return weft_last_status();
}

static weft_status language(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                            weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    weft_tensor *x = weft_tanh(weft_module_call(weft_module_child(self, "table"), inputs[0]));
    outputs[0] = weft_module_call(weft_module_child(self, "head"), x);
    return weft_last_status();
}

/* A table of WIDTH words, and a head which is the table, or equal to it. */
static weft_module *language_new(bool tied)
{
    weft_module *root = weft_module_create("language"), *first = module_of(table), *last = weft_module_create("head");
    weft_tensor *weight = weft_module_parameter(first, "weight");
    weft_no_grad_begin();
    weft_module_add_parameter(last, "weight", tied ? weight : weft_scale(weight, 1));
    weft_no_grad_end();
    weft_module_set_forward(last, head, NULL);
    weft_module_add_child(root, "table", first);
    weft_module_add_child(root, "head", last);
    weft_module_set_forward(root, language, NULL);
    assert_int_equal(weft_parallelize(root, mesh, 1, fsdp), WEFT_OK);
    return root;
}

static void train_language(weft_module *root, weft_dtype dtype, const char *backward)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *tokens = weft_randint(WEFT_I32, 0, WIDTH, 1, (int64_t[]){ 4 * ROWS }, mesh, &rows);
    weft_tensor *targets = weft_randint(WEFT_I32, 0, WIDTH, 1, (int64_t[]){ 4 * ROWS }, mesh, &rows);
    weft_autocast_begin(dtype);
    weft_tensor *loss = weft_cross_entropy(weft_module_call(root, tokens), targets, NULL);
    weft_autocast_end();
    weft_region_begin(backward, 0);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_region_end();
}

/* Both gradients are added on each rank, and their sum is reduced, in 32 bits also where the head's product is one of 16. */
static void test_a_tied_weight_has_one_reduction(void **state)
{
    (void)state;
    static const char *const regions[2][2] = { { "apart", "tied" }, { "apart bf16", "tied bf16" } };
    for (int narrow = 0; narrow < 2; narrow++) {
        weft_tensor *gradients[2];
        weft_random_state random;
        weft_random_state_get(NULL, &random);
        weft_scope_begin();
        for (int tied = 0; tied < 2; tied++) {
            weft_random_state_set(NULL, random);
            weft_module *root = language_new(tied);
            weft_tensor *first = weft_module_parameter(root, "table.weight"), *last = weft_module_parameter(root, "head.weight");
            assert_int_equal(first == last, tied);
            train_language(root, narrow ? WEFT_BF16 : WEFT_F32, regions[narrow][tied]);
            gradients[tied] = tied ? weft_scale(weft_grad(first), 1) : weft_add(weft_grad(first), weft_grad(last));
            weft_module_destroy(root);
        }
        float apart[WIDTH * WIDTH], together[WIDTH * WIDTH];
        assert_int_equal(weft_to_host(gradients[0], apart, sizeof(apart)), WEFT_OK);
        assert_int_equal(weft_to_host(gradients[1], together, sizeof(together)), WEFT_OK);
        for (int i = 0; i < WIDTH * WIDTH; i++) {
            assert_true(fabsf(together[i] - apart[i]) <= 1e-6F); /* sums in another order */
        }
        weft_scope_end();
        /* The head is gathered again; the table is not, since no gradient of an embedding reads it. */
        int64_t gathered = narrow ? LAYER_BYTES / 2 : LAYER_BYTES;
        assert_bytes(regions[narrow][0], gathered + 2 * LAYER_BYTES);
        assert_bytes(regions[narrow][1], gathered + LAYER_BYTES);
        assert_no_error();
    }
}

/* ---- the same values as of a redistribution ---------------------------------------------------------------- */

/* Several uses of a weight: each in its type, also of one tensor. */
typedef enum uses { NARROW, WIDE, NARROW_THEN_WIDE, WIDE_THEN_NARROW, PLAIN, AS_INPUT, RECOMPUTED, NUM_USES } uses;

/* With the gathered weight. */
static weft_tensor *compute(uses use, weft_tensor *x, weft_tensor *weight)
{
    switch (use) {
    case NARROW:
        return weft_matmul(x, weight);
    case WIDE:
        return weft_mul(weft_exp(weight), weft_sum(x, 0, false));
    case NARROW_THEN_WIDE:
        return weft_add(weft_matmul(x, weight), weft_sum(weight, 0, false));
    case WIDE_THEN_NARROW:
        return weft_add(weft_sum(weight, 0, false), weft_matmul(x, weight));
    case PLAIN:
        return weft_mul(weft_slice(weft_detach(weight), 0, 0, ROWS, 1), weft_slice(weight, 0, 0, ROWS, 1));
    default:
        return weft_matmul(weft_scale(weight, 0.5), weight);
    }
}

typedef struct one_use {
    weft_module *module; /* NULL: of a redistribution */
    weft_tensor *weight;
    uses use;
} one_use;

static weft_tensor *weight_of(const one_use *u)
{
    return u->module != NULL ? weft_module_use(u->module, "weight") : weft_redistribute(u->weight, NULL, NULL);
}

static weft_status segment(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[])
{
    (void)num_inputs, (void)num_outputs;
    outputs[0] = weft_matmul(weft_tanh(inputs[0]), weight_of(context));
    return weft_last_status();
}

/* The output, and the weight's gradient as the caller's. */
static weft_tensor *output_of(one_use u, weft_tensor *x, weft_tensor **gradient)
{
    weft_tensor *y = NULL;
    if (u.use == RECOMPUTED) {
        weft_recompute(segment, &u, 0, 1, &x, 1, &y);
    } else {
        y = compute(u.use, x, weight_of(&u));
    }
    weft_zero_grad(1, &u.weight);
    assert_int_equal(weft_backward(loss_of(y), NULL), WEFT_OK);
    *gradient = weft_scale(weft_grad(u.weight), 1);
    weft_zero_grad(1, &u.weight);
    return y;
}

static void test_values_are_those_of_a_redistribution(void **state)
{
    (void)state;
    for (int use = 0; use < NUM_USES; use++) {
        char what[64];
        snprintf(what, sizeof(what), "use %d", use);
        weft_scope_begin();
        weft_module *module = module_of(linear);
        assert_int_equal(weft_parallelize(module, mesh, 1, fsdp), WEFT_OK);
        weft_tensor *weight = weft_module_parameter(module, "weight"), *x = input_new(), *gradients[2];
        weft_autocast_begin(WEFT_BF16);
        weft_tensor *plain = output_of((one_use){ NULL, weight, use }, x, &gradients[0]);
        weft_tensor *used = output_of((one_use){ module, weight, use }, x, &gradients[1]);
        weft_autocast_end();
        assert_same_shards(used, plain, what);
        assert_same_shards(gradients[1], gradients[0], what);
        weft_module_destroy(module);
        weft_scope_end();
        assert_no_error();
    }
}

/* A tensor that weft_module_use() gave in a region, for other functions than operations. */
static void test_any_function_takes_it(void **state)
{
    (void)state;
    enum { FUNCTIONS = 8 };
    float dense[WIDTH * WIDTH], expected[WIDTH * WIDTH];
    for (int i = 0; i < FUNCTIONS; i++) {
        weft_scope_begin();
        weft_module *module = module_of(linear);
        assert_int_equal(weft_parallelize(module, mesh, 1, fsdp), WEFT_OK);
        weft_tensor *weight = weft_module_parameter(module, "weight"), *gradient = NULL;
        weft_to_host(weight, expected, sizeof(expected));
        weft_autocast_begin(WEFT_BF16);
        weft_tensor *used = weft_module_use(module, "weight");
        weft_tensor_retain(used);
        weft_autocast_end();
        assert_int_equal(weft_tensor_dtype(used), WEFT_F32);
        switch (i) {
        case 0:
            break; /* released unused */
        case 1:
            assert_false(weft_tensor_is_fake(used));
            assert_true(weft_requires_grad(used));
            assert_false(weft_is_leaf(used));
            break;
        case 2:
            weft_no_grad_begin(); /* it was asked for outside */
            weft_tensor_item(weft_sum(used, WEFT_ALL_DIMS, false), &(double){ 0 });
            weft_no_grad_end();
            assert_true(weft_requires_grad(weft_neg(used)));
            break;
        case 3:
            weft_no_grad_begin();
            assert_non_null(weft_local_acquire(used, 0, WEFT_READ));
            weft_no_grad_end();
            assert_int_equal(weft_local_release(used, 0), WEFT_OK);
            break;
        case 4: {
            weft_tensor *inputs[] = { used };
            weft_gradients(1, (weft_tensor *[]){ loss_of(weft_neg(used)) }, NULL, 1, inputs, false, &gradient);
            assert_non_null(gradient);
            break;
        }
        case 5: /* the values of the moment when it was asked for */
            weft_no_grad_begin();
            weft_fill_inplace(weight, 1);
            weft_no_grad_end();
            break;
        case 6:
            assert_false(weft_requires_grad(weft_detach(used)));
            break;
        case 7: /* the parameter is gone */
            weft_module_destroy(module);
            module = NULL;
            break;
        }
        if (i > 0) {
            assert_int_equal(weft_to_host(used, dense, sizeof(dense)), WEFT_OK);
            assert_memory_equal(dense, expected, sizeof(dense));
        }
        weft_tensor_release(used);
        if (module != NULL) {
            weft_module_destroy(module);
        }
        weft_scope_end();
        assert_no_error();
        assert_int_equal(weft_runtime.tape->deferred, 0);
    }
}

/* ---- frozen parameters ------------------------------------------------------------------------------------- */

/* What a forward pass leaves, beside what was there; and the gradient of the input. */
static int64_t left_after_forward(weft_module *root, weft_dtype dtype, weft_tensor *x, weft_tensor **gradient)
{
    int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_autocast_begin(dtype);
    weft_tensor *y = weft_module_call(root, x);
    weft_autocast_end();
    int64_t left = weft_pool_bytes_in_use(weft_runtime.pool) - before;
    weft_tensor *loss = loss_of(y);
    weft_gradients(1, &loss, NULL, 1, &x, false, gradient);
    return left;
}

static void test_frozen_parameters_are_released(void **state)
{
    (void)state;
    const weft_dtype types[] = { WEFT_F32, WEFT_BF16 };
    for (int t = 0; t < 2; t++) {
        weft_scope_begin();
        weft_module *root = chain_new();
        weft_tensor *weights[LAYERS], *x = input_new(), *gradients[2];
        weft_set_requires_grad(x, true);
        assert_int_equal(weft_module_parameters(root, LAYERS, NULL, weights), LAYERS);
        int64_t trained = left_after_forward(root, types[t], x, &gradients[0]);
        for (int i = 0; i < LAYERS; i++) {
            assert_int_equal(weft_set_requires_grad(weights[i], false), WEFT_OK);
        }
        int64_t frozen = left_after_forward(root, types[t], x, &gradients[1]);
        print_message("# left after forward: trained %lld, frozen %lld\n", (long long)trained, (long long)frozen);
        /* Activations and copies of shards in 16 bits; one gathered layer is more. */
        assert_true(frozen <= trained && trained < LAYER_BYTES * weft_local_ranks());
        assert_same_shards(gradients[1], gradients[0], "gradients through frozen layers");
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

/* What is written to the parameter, or to the gathered tensor, after its use does not change the gradient. */
static void test_frozen_values_are_those_of_the_use(void **state)
{
    (void)state;
    for (int change = 0; change < 3; change++) {
        weft_scope_begin();
        weft_module *module = module_of(linear);
        assert_int_equal(weft_parallelize(module, mesh, 1, fsdp), WEFT_OK);
        weft_tensor *weight = weft_module_parameter(module, "weight"), *x = input_new(), *gradients[2];
        weft_set_requires_grad(weight, false);
        weft_set_requires_grad(x, true);
        for (int i = 0; i < 2; i++) {
            weft_tensor *used = weft_module_use(module, "weight");
            if (change == 2) {
                weft_scale_inplace(used, 2); /* and before it too */
            }
            weft_tensor *loss = loss_of(weft_matmul(x, used));
            if (i == 1 && change > 0) {
                weft_fill_inplace(used, 3);
            }
            if (i == 1 && change != 1) {
                weft_fill_inplace(weight, 4);
            }
            assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, false, &gradients[i]), WEFT_OK);
        }
        assert_same_shards(gradients[1], gradients[0], "gradients through a frozen weight");
        weft_module_destroy(module);
        weft_scope_end();
        assert_no_error();
    }
}

/* The end of a world with tensors that were never used. */
static void test_left_over(void **state)
{
    weft_scope_begin();
    weft_module *module = module_of(linear);
    assert_int_equal(weft_parallelize(module, mesh, 1, fsdp), WEFT_OK);
    weft_autocast_begin(WEFT_BF16);
    weft_tensor *narrow = weft_module_use(module, "weight");
    weft_matmul(input_new(), narrow);
    weft_module_use(module, "weight");
    world_stop(NULL);
    assert_int_equal(start(state), 0);
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_16_bits_are_gathered),
        cmocka_unit_test(test_a_tied_weight_has_one_reduction),
        cmocka_unit_test(test_values_are_those_of_a_redistribution),
        cmocka_unit_test(test_any_function_takes_it),
        cmocka_unit_test(test_frozen_parameters_are_released),
        cmocka_unit_test(test_frozen_values_are_those_of_the_use),
        cmocka_unit_test(test_left_over),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
