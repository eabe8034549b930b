/* Tensors in fast mode (WEFT_BITS=fast), whose tasks devices compute with libraries: beside CPUs, within bounds, and equal bits of
 * equal calls. */
#include "support.h"

#include <math.h>
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fourier.h"
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

/* ---- layers with a bias ---------------------------------------------------------------------------------- */

enum { LAYER_RESULTS = 4, MOST_RESULTS = 8192 };

typedef struct layer_results {
    float values[LAYER_RESULTS][MOST_RESULTS];
    int64_t counts[LAYER_RESULTS];
    int64_t launches, runs; /* of the layer's call: kernels of all devices, and plans of cuDNN's with its gradients */
} layer_results;

static int64_t launches(void)
{
    assert_int_equal(weft_wait(), WEFT_OK);
#ifdef WEFT_TEST_GPU
    return 0;
#else
    return stand_in_device_counts(0).launches + stand_in_device_counts(1).launches;
#endif
}

static weft_tensor *call_linear(weft_tensor *const inputs[])
{
    return weft_linear(inputs[0], inputs[1], inputs[2]);
}

static weft_tensor *call_convolution(weft_tensor *const inputs[])
{
    weft_convolution options;
    weft_convolution_init(&options);
    options.padding[0] = options.padding[1] = 1;
    return weft_conv2d(inputs[0], inputs[1], inputs[2], &options);
}

typedef struct layer {
    weft_tensor *(*call)(weft_tensor *const inputs[]);
    int ndim;
    int64_t x[4], weight[4], features;
} layer;

static const layer linear = { call_linear, 2, { 64, 32 }, { 48, 32 }, 48 };
static const layer convolution = { call_convolution, 4, { 4, 6, 18, 17 }, { 6, 6, 3, 3 }, 6 };

/* The layer's result and its gradients, as numbers in single precision. The rows are sharded. */
static void run_layer(const layer *l, weft_dtype type, layer_results *found)
{
    weft_placement rows = weft_shard(0);
    weft_tensor *inputs[3] = { weft_randn(type, l->ndim, l->x, NULL, &rows), weft_randn(type, l->ndim, l->weight, NULL, NULL),
                               weft_randn(type, 1, &l->features, NULL, NULL) };
    weft_tensor *all[LAYER_RESULTS], *gradients[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_set_requires_grad(inputs[i], true), WEFT_OK);
    }
    const int64_t before = launches(), runs = dnn_runs();
    all[0] = l->call(inputs);
    found->launches = launches() - before;
    weft_tensor *weights = weft_ones_like(all[0]);
    assert_int_equal(weft_gradients(1, &all[0], &weights, 3, inputs, false, gradients), WEFT_OK);
    found->runs = dnn_runs() - runs;
    for (int i = 0; i < LAYER_RESULTS; i++) {
        all[i] = weft_to_type(i == 0 ? all[0] : gradients[i - 1], WEFT_F32);
        found->counts[i] = weft_tensor_num_elements(all[i]);
        assert_true(found->counts[i] <= MOST_RESULTS);
        assert_int_equal(weft_to_host(all[i], found->values[i], sizeof(found->values[i])), WEFT_OK);
    }
    assert_no_error();
}

static void run_layer_on(const char *devices, const char *bits, const layer *l, weft_dtype type, layer_results *found)
{
    setenv("WEFT_BITS", bits, 1);
    start_on(devices);
    run_layer(l, type, found);
    assert_int_equal(weft_finalize(), WEFT_OK);
    setenv("WEFT_BITS", "fast", 1);
}

static layer_results cpu, device, again;

static void check_layer(const layer *l, weft_dtype type)
{
    run_layer_on("0", "fast", l, type, &cpu);
    run_layer_on(TEST_ALL_DEVICES, "fast", l, type, &device);
    run_layer_on(TEST_ALL_DEVICES, "fast", l, type, &again);
    for (int i = 0; i < LAYER_RESULTS; i++) {
        double largest = 0;
        for (int64_t j = 0; j < cpu.counts[i]; j++) {
            largest = fmax(largest, fabs((double)cpu.values[i][j]));
        }
        for (int64_t j = 0; j < cpu.counts[i]; j++) {
            double error = fabs((double)cpu.values[i][j] - (double)device.values[i][j]);
            if (!(error <= (type == WEFT_F32 ? 1e-4 : 0x1p-7) * largest)) {
                fail_msg("result %d of type %d, element %lld: error %.4g of numbers up to %.4g", i, (int)type, (long long)j, error, largest);
            }
        }
        assert_memory_equal(device.values[i], again.values[i], (size_t)cpu.counts[i] * sizeof(float));
    }
}

static void expect_launches(int64_t launched, int64_t expected)
{
#ifdef WEFT_TEST_GPU /* libraries launch what they like, and cuDNN need not have a plan */
    (void)launched;
    (void)expected;
#else
    assert_int_equal(launched, expected);
#endif
}

/* The bias is added in the product's launch: one on each of two ranks; in the CPU's order it is copied to all rows first. */
static void test_linear(void **state)
{
    (void)state;
    check_layer(&linear, WEFT_F32);
    expect_launches(device.launches, 2);
    check_layer(&linear, WEFT_BF16);
    expect_launches(device.launches, 2);
    run_layer_on(TEST_ALL_DEVICES, "cpu", &linear, WEFT_F32, &device);
    expect_launches(device.launches, 4);
}

/* A plan of cuDNN's for the result and for each of two gradients, on each rank; of 16 bits not for that of the weights, which is not
 * rounded. */
static void test_convolution(void **state)
{
    (void)state;
    char text[200];
    weft_dnn_describe(text, sizeof(text));
    const bool there = strncmp(text, "not used", 8) != 0;
    check_layer(&convolution, WEFT_F32);
    expect_launches(device.runs, there ? 6 : 0);
    if (there) { /* the bias */
        expect_launches(device.launches, 2);
    }
    check_layer(&convolution, WEFT_F16);
    expect_launches(device.runs, there ? 4 : 0);
    run_layer_on(TEST_ALL_DEVICES, "cpu", &convolution, WEFT_F32, &device);
    assert_int_equal(device.runs, 0);
}

/* ---- Fourier transforms ---------------------------------------------------------------------------------- */

/* Plans of cuFFT's that all queues have made. */
static int64_t fourier_plans(void)
{
    int64_t plans = 0;
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < STARPU_NMAXWORKERS && weft_runtime.cuda_queues != NULL; i++) {
        plans += weft_fourier_count_plans(&weft_runtime.cuda_queues[i]);
    }
    return plans;
}

/* A spectrum of shards and the values back from it, on devices with these bits; the second dimension's lines are columns. Returns plans. */
static int64_t transform_on(const char *devices, const char *bits, double values[6 * 10 * 8], double spectrum[2 * 6 * 10 * 5])
{
    const int64_t shape[] = { 6, 10, 8 };
    const weft_placement rows = weft_shard(0);
    setenv("WEFT_BITS", bits, 1);
    start_on(devices);
    weft_tensor *x = weft_randn(WEFT_F64, 3, shape, NULL, &rows), *y = weft_rfftn(x, 3, NULL, NULL, WEFT_FFT_ORTHO);
    weft_tensor *back = weft_irfftn(y, 3, shape, NULL, WEFT_FFT_ORTHO);
    assert_int_equal(weft_to_host(weft_sub(back, x), values, 6 * 10 * 8 * sizeof(double)), WEFT_OK);
    assert_int_equal(weft_to_host(y, spectrum, 2 * 6 * 10 * 5 * sizeof(double)), WEFT_OK);
    assert_no_error();
    const int64_t plans = fourier_plans();
    assert_int_equal(weft_finalize(), WEFT_OK);
    setenv("WEFT_BITS", "fast", 1);
    return plans;
}

/* In fast mode devices compute them, else CPUs, with the bits of CPUs alone. */
static void test_fourier(void **state)
{
    (void)state;
    enum { VALUES = 6 * 10 * 8, BINS = 2 * 6 * 10 * 5 };
    static double values[VALUES], spectra[4][BINS];
    assert_int_equal(transform_on("0", "fast", values, spectra[0]), 0);
    const int64_t plans = transform_on(TEST_ALL_DEVICES, "fast", values, spectra[1]);
    assert_true(weft_fourier_is_there() ? plans > 0 : plans == 0);
    for (int i = 0; i < VALUES; i++) {
        assert_true(fabs(values[i]) < 1e-14);
    }
    for (int i = 0; i < BINS; i++) {
        assert_true(fabs(spectra[1][i] - spectra[0][i]) < 1e-14);
    }
    transform_on(TEST_ALL_DEVICES, "fast", values, spectra[2]);
    assert_memory_equal(spectra[1], spectra[2], sizeof(spectra[1]));
    assert_int_equal(transform_on(TEST_ALL_DEVICES, "cpu", values, spectra[3]), 0);
    assert_memory_equal(spectra[0], spectra[3], sizeof(spectra[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_of_rows), cmocka_unit_test(test_linear),
                                        cmocka_unit_test(test_convolution), cmocka_unit_test(test_fourier) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
