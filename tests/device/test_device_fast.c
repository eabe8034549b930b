/* Tensors in fast mode (WEFT_BITS=fast), whose tasks devices compute with libraries: beside CPUs, within bounds, and equal bits of
 * equal calls. */
#include "support.h"

#include <math.h>
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/dnn.h"
#include "runtime/runtime.h"
#include "stand_in.h"

static void start_on(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(2, .world = WEFT_WORLD_SELF, .seed = 7);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
}

/* What all queues have given to cuDNN. */
static int64_t dnn_runs(void)
{
    int64_t runs = 0;
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < STARPU_NMAXWORKERS && weft_runtime.cuda_queues != NULL; i++) {
        runs += weft_dnn_count_runs(&weft_runtime.cuda_queues[i]);
    }
    return runs;
}

/* ---- attention ----------------------------------------------------------------------------------------- */

enum { HEADS = 4, KEY_HEADS = 2, LENGTH = 136, WIDTH = 32, RESULTS = 4 };

/* Elements of each result, for one sequence. */
static const int64_t of_sequence[RESULTS] = { HEADS * LENGTH * WIDTH, HEADS * LENGTH * WIDTH, KEY_HEADS * LENGTH * WIDTH,
                                              KEY_HEADS * LENGTH * WIDTH };

/* Ranks share sequences, or heads, or all have everything. Attention and its gradients, as numbers in single precision. `shards`: placements of q. */
static void attend(const char *shards, int64_t sequences, float *results[RESULTS])
{
    weft_placement placement;
    const int64_t q_shape[] = { sequences, HEADS, LENGTH, WIDTH }, k_shape[] = { sequences, KEY_HEADS, LENGTH, WIDTH };
    weft_tensor *inputs[3], *gradients[3], *all[RESULTS];
    assert_int_equal(weft_placements_parse(shards, 1, &placement), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        inputs[i] = weft_randn(WEFT_BF16, 4, i == 0 ? q_shape : k_shape, NULL, i == 0 ? &placement : NULL);
        assert_int_equal(weft_set_requires_grad(inputs[i], true), WEFT_OK);
    }
    weft_tensor *weights = weft_randn(WEFT_BF16, 4, q_shape, NULL, &placement);
    const weft_attention_options options = { .causal = true, .grouped_heads = true, .size = sizeof(options) };
    all[0] = weft_attention(inputs[0], inputs[1], inputs[2], &options);
    assert_int_equal(weft_gradients(1, &all[0], &weights, 3, inputs, false, gradients), WEFT_OK);
    for (int i = 0; i < RESULTS; i++) {
        all[i] = weft_to_type(i == 0 ? all[0] : gradients[i - 1], WEFT_F32);
        assert_int_equal(weft_to_host(all[i], results[i], (size_t)(sequences * of_sequence[i]) * sizeof(float)), WEFT_OK);
    }
    assert_no_error();
}

/* `expected_runs`: of cuDNN's, on two ranks; 0: some. */
static void check_attention(const char *shards, int64_t sequences, int64_t expected_runs)
{
    int64_t counts[RESULTS];
    float *cpu[RESULTS], *device[RESULTS], *again[RESULTS];
    for (int i = 0; i < RESULTS; i++) {
        counts[i] = sequences * of_sequence[i];
        cpu[i] = malloc((size_t)counts[i] * sizeof(float));
        device[i] = malloc((size_t)counts[i] * sizeof(float));
        again[i] = malloc((size_t)counts[i] * sizeof(float));
    }
    start_on("0");
    attend(shards, sequences, cpu);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_on(TEST_ALL_DEVICES);
    attend(shards, sequences, device);
    const int64_t runs = dnn_runs();
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_on(TEST_ALL_DEVICES);
    attend(shards, sequences, again);
    assert_int_equal(weft_finalize(), WEFT_OK);
    char text[200];
    weft_dnn_describe(text, sizeof(text));
    if (strncmp(text, "not used", 8) != 0) {
        assert_true(runs == expected_runs || (expected_runs == 0 && runs > 1));
    }
    for (int i = 0; i < RESULTS; i++) {
        double largest = 0, error = 0;
        for (int64_t j = 0; j < counts[i]; j++) {
            largest = fmax(largest, fabs((double)cpu[i][j]));
            double own = fabs((double)cpu[i][j] - (double)device[i][j]);
            error = own <= error ? error : own; /* also NaN */
        }
        if (!(error <= 0x1p-6 * largest)) {
            fail_msg("%s, result %d: error %.4g of numbers up to %.4g", shards, i, error, largest);
        }
        assert_memory_equal(device[i], again[i], (size_t)counts[i] * sizeof(float));
        free(cpu[i]);
        free(device[i]);
        free(again[i]);
    }
}

static void test_attention(void **state)
{
    (void)state;
    check_attention("S0", 2, 4);
    check_attention("S1", 2, 4);
    check_attention("R", 2, 4);
    check_attention("R", 1, 4);
}

/* Rows of q are sharded, keys are whole: each rank computes gradients of q, and of keys as the planner shards them. */
static void test_attention_of_rows(void **state)
{
    (void)state;
    check_attention("S2", 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_of_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
