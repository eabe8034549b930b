/* Captured graphs on two stand-in devices: fused and clustered tasks run there, elementwise kernels that follow each other
 * as one launch, with the bits of CPUs; and errors of kernels name the call that they belong to. */
#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/chain.h"
#include "stand_in.h"

enum { ROWS = 640, COLUMNS = 64, RUNS = 4 };

static atomic_llong tasks, kernels, chains;

int __real_weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[]);
int __wrap_weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[]);
int __real_weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue);
int __wrap_weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue);

int __wrap_weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[])
{
    tasks++;
    kernels += steps->count;
    return __real_weft_cuda_launch_steps(steps, queue, found);
}

int __wrap_weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue)
{
    chains++;
    return __real_weft_chain_launch(chain, queue);
}

static void start_on(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(2, .world = WEFT_WORLD_SELF, .seed = 7);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
    tasks = kernels = chains = 0;
}

/* Elementwise calls around a softmax and a norm, a change in place, and small calls on a few numbers. */
static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *h = weft_gelu(weft_add(weft_mul(inputs[0], inputs[1]), inputs[2]));
    weft_tensor *p = weft_softmax(weft_add_scaled(h, inputs[0], scalars[0]), -1);
    weft_tensor *n = weft_layer_norm(weft_tanh(weft_to_type(p, WEFT_F32)), NULL, NULL, 1e-5);
    weft_tensor *y = weft_where(weft_gt(n, h), weft_exp(weft_neg(weft_abs(n))), weft_mul(h, h));
    outputs[0] = weft_add_inplace(weft_mul(y, inputs[1]), p, 0.5);
    weft_tensor *few = weft_sigmoid(weft_add_scalar(weft_mul(inputs[3], inputs[3]), scalars[0]));
    outputs[1] = weft_sub(few, weft_sum(few, -1, true));
    return WEFT_OK;
}

static weft_tensor *any(int64_t rows, int64_t columns)
{
    weft_placement by_rows = weft_shard(0);
    return weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, NULL, &by_rows);
}

static const size_t bytes = ROWS * COLUMNS * sizeof(float), few_bytes = 4 * 6 * sizeof(float);

/* All runs' outputs, one after the other. */
static void compute(char *results)
{
    weft_scope_begin();
    weft_tensor *inputs[] = { any(ROWS, COLUMNS), any(ROWS, COLUMNS), weft_randn(WEFT_F32, 1, (int64_t[]){ COLUMNS }, NULL, NULL),
                              any(4, 6) };
    weft_graph *graph = weft_graph_create("step", step, NULL, 4, 1, 2);
    for (int run = 0; run < RUNS; run++) {
        double scale = 0.5 + run;
        weft_tensor *outputs[2];
        assert_int_equal(weft_graph_call(graph, inputs, &scale, outputs), WEFT_OK);
        assert_int_equal(weft_to_host(outputs[0], results, bytes), WEFT_OK);
        assert_int_equal(weft_to_host(outputs[1], results + bytes, few_bytes), WEFT_OK);
        results += bytes + few_bytes;
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_true(info.fused_calls > 0 && info.clusters > 0);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_same_bits(void **state)
{
    (void)state;
    char *on_cpus = malloc(RUNS * (bytes + few_bytes)), *on_devices = malloc(RUNS * (bytes + few_bytes));
    assert_true(on_cpus != NULL && on_devices != NULL);
    start_on("0");
    compute(on_cpus);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(tasks, 0);
    start_on(TEST_ALL_DEVICES);
    compute(on_devices);
    assert_int_equal(weft_finalize(), WEFT_OK);
    printf("# %lld launches of tasks with %lld kernels, %lld chains\n", (long long)tasks, (long long)kernels, (long long)chains);
    assert_true(tasks >= (RUNS - 1) * 2 * 2); /* from the second run on; ranks; fused and clustered */
    assert_true(kernels > 3 * tasks && chains > 0);
    assert_memory_equal(on_cpus, on_devices, RUNS * (bytes + few_bytes));
    free(on_cpus);
    free(on_devices);
}

static weft_status look_up(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *places = weft_add_scalar(inputs[1], scalars[0]);
    outputs[0] = weft_add(weft_index_select(inputs[0], 0, weft_add(places, inputs[1])), inputs[0]);
    return WEFT_OK;
}

static void test_errors(void **state)
{
    (void)state;
    static const double shifts[] = { 1, 2, 9, 3, 9 };
    start_on(TEST_ALL_DEVICES);
    weft_scope_begin();
    weft_tensor *table = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, NULL, NULL), *output;
    weft_tensor *places = weft_zeros(WEFT_I64, 1, (int64_t[]){ 4 }, NULL, NULL);
    weft_graph *graph = weft_graph_create("look up", look_up, NULL, 2, 1, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ table, places }, &shifts[i], &output), WEFT_OK);
        weft_status status = weft_wait();
        assert_int_equal(status, shifts[i] < 4 ? WEFT_OK : WEFT_ERR_INVALID);
        if (status != WEFT_OK) {
            assert_error(WEFT_ERR_INVALID, "weft_index_select: ");
            assert_int_equal(weft_wait(), WEFT_OK);
        }
    }
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_true(tasks > 0);
}

/* Small calls are one task, larger ones are fused; both change inputs in place. */
static weft_status change(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_tril(inputs[0], 2);
    weft_scale_inplace(inputs[1], scalars[0]);
    weft_tensor *difference = weft_sub(inputs[2], inputs[3]);
    weft_add_inplace(inputs[2], difference, scalars[0]);
    outputs[1] = weft_square(difference);
    return WEFT_OK;
}

static weft_tensor *on_host(int64_t rows, int64_t columns, const float values[])
{
    void *locals[] = { (void *)values, (void *)values };
    return weft_from_local(WEFT_F32, 2, (int64_t[]){ rows, columns }, locals, NULL, NULL, WEFT_COPY);
}

/* Of a tensor changed in place the device needs the values that the host has: their elements are 4 before, of the others 1. */
static void test_changes_of_host_values(void **state)
{
    (void)state;
    enum { FEW = 6 };
    static float ones[ROWS * COLUMNS], fours[ROWS * COLUMNS], found[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        ones[i] = 1;
        fours[i] = 4;
    }
    start_on(TEST_ALL_DEVICES);
    weft_graph *graph = weft_graph_create("change", change, NULL, 4, 1, 2);
    for (int run = 0; run < RUNS; run++) {
        double scale = 2 + run;
        weft_scope_begin();
        weft_tensor *inputs[] = { on_host(FEW, FEW, ones), on_host(FEW, FEW, fours), on_host(ROWS, COLUMNS, fours), on_host(ROWS, COLUMNS, ones) };
        weft_tensor *outputs[2];
        assert_int_equal(weft_graph_call(graph, inputs, &scale, outputs), WEFT_OK);
        assert_int_equal(weft_to_host(inputs[1], found, sizeof(found)), WEFT_OK);
        for (int i = 0; i < FEW * FEW; i++) {
            assert_true(found[i] == (float)(4 * scale));
        }
        assert_int_equal(weft_to_host(inputs[2], found, sizeof(found)), WEFT_OK);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            assert_true(found[i] == (float)(4 + 3 * scale));
        }
        weft_scope_end();
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_true(info.fused_calls > 0 && info.clusters > 0);
    weft_graph_destroy(graph);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_true(tasks >= (RUNS - 1) * 2 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_changes_of_host_values),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
