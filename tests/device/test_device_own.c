/* User-defined operations with a function for devices: the bits of their CPU functions, on two devices that hold less than the
 * tensors, with halos, in pieces of rows, in place, in the place of one of the library's, and in captured graphs. */
#include "support.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "own_kernels.h"
#include "stand_in.h"

/* Panels of 32 rows: of each of two ranks. */
enum { ROWS = 700, COLUMNS = 600, PANELS = 11, SMALL = 6 };

static const double scalars[] = { 1.5, -0.25 };

static void start_on(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(2, .world = WEFT_WORLD_SELF, .seed = 7);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
}

static weft_operation_description described_as(const char *name, const char *rule, weft_kernel kernel, weft_cuda_kernel cuda)
{
    weft_operation_description d;
    weft_operation_description_init(&d);
    d.name = name;
    d.rule = rule;
    d.inputs[0] = (weft_operation_input){ .name = "a", .types = WEFT_TYPE_BIT(WEFT_F32) };
    d.kernel = kernel;
    d.cuda = cuda;
    return d;
}

static weft_tensor *any(int64_t rows, int64_t columns)
{
    weft_placement by_rows = weft_shard(0);
    return weft_randn(WEFT_F32, 2, (int64_t[]){ rows, columns }, NULL, &by_rows);
}

static weft_tensor *call(const weft_operation *operation, weft_tensor *tensor)
{
    weft_apply_options options;
    weft_apply_options_init(&options);
    options.num_scalars = 2;
    memcpy(options.scalars, scalars, sizeof(scalars));
    return weft_apply(operation, 1, &tensor, &options);
}

static weft_tensor *by_description(const weft_operation_description *d, weft_tensor *a)
{
    const weft_operation *operation = weft_operation_register(d);
    assert_non_null(operation);
    return call(operation, a);
}

/* ---- cases: each makes a tensor from one ------------------------------------------------------------------ */

static weft_tensor *affine(weft_tensor *a)
{
    weft_operation_description d = described_as("affine", "A->A", own_affine, own_affine_cuda);
    return by_description(&d, by_description(&d, a));
}

static weft_tensor *in_place(weft_tensor *a)
{
    weft_operation_description d = described_as("affine_inplace", "A->A", own_affine, own_affine_cuda);
    d.outputs[0].in_place = true;
    return by_description(&d, weft_mul(a, a));
}

static weft_tensor *stencil(weft_tensor *a)
{
    weft_operation_description d = described_as("stencil", "h~w~->hw", own_stencil, own_stencil_cuda);
    d.halos[0] = (weft_halo){ .input = 0, .letter = 'h', .before = 1, .after = 1 };
    d.halos[1] = (weft_halo){ .input = 0, .letter = 'w', .before = 1, .after = 1 };
    weft_placement by_columns = weft_shard(1);
    return weft_add(by_description(&d, a), by_description(&d, weft_redistribute(a, NULL, &by_columns)));
}

/* In place along the rows, and through a copy along the columns. */
static weft_tensor *periodic(weft_tensor *a)
{
    weft_operation_description d = described_as("periodic", "h~w~->hw", own_stencil, own_stencil_cuda);
    d.halos[0] = (weft_halo){ .input = 0, .letter = 'h', .before = 1, .after = 1, .periodic = true };
    d.halos[1] = (weft_halo){ .input = 0, .letter = 'w', .before = 1, .after = 1, .periodic = true };
    weft_tensor *both = by_description(&d, a);
    d.name = "periodic_rows";
    d.rule = "h~w->hw";
    d.halos[1] = (weft_halo){ 0 };
    return weft_add(both, by_description(&d, a));
}

static weft_tensor *noise(weft_tensor *a)
{
    weft_operation_description d = described_as("noise", "a[b]->a[b]", own_noise, own_noise_cuda);
    d.random = true;
    const weft_operation *operation = weft_operation_register(&d);
    float factor = 3;
    weft_apply_options options = { .context = &factor, .context_size = sizeof(factor) };
    weft_tensor *once = weft_apply(operation, 1, &a, &options);
    factor = -2;
    return weft_apply(operation, 1, &once, &options);
}

static weft_tensor *squares(weft_tensor *a)
{
    weft_operation_description d = described_as("squares", "nc->c", own_squares, own_squares_cuda);
    d.accumulates = true;
    d.outputs[0].linear = (weft_linearity){ .contracts = WEFT_SUM };
    return by_description(&d, a);
}

/* The call's scalar is the factor. */
static weft_tensor *replaced(weft_tensor *a)
{
    weft_operation_description d = described_as("add_scalar", NULL, own_affine, own_affine_cuda);
    assert_int_equal(weft_operation_replace(&d), WEFT_OK);
    weft_tensor *result = weft_add_scalar(a, 3);
    assert_int_equal(weft_operation_restore("add_scalar"), WEFT_OK);
    return result;
}

static const weft_operation *captured;

static weft_status step(void *context, weft_tensor *const inputs[], const double values[], weft_tensor *outputs[])
{
    (void)context;
    (void)values;
    outputs[0] = weft_mul(call(captured, weft_tanh(weft_mul(inputs[0], inputs[0]))), inputs[0]);
    return WEFT_OK;
}

/* The tensor itself, and a few of its numbers: those of a cluster. */
static weft_tensor *in_graph(weft_tensor *a)
{
    weft_operation_description d = described_as("affine", "A->A", own_affine, own_affine_cuda);
    captured = weft_operation_register(&d);
    weft_tensor *few = weft_slice(a, 0, 0, SMALL, 1);
    few = weft_slice(few, 1, 0, SMALL, 1);
    weft_graph *large = weft_graph_create("step", step, NULL, 1, 0, 1), *small = weft_graph_create("step", step, NULL, 1, 0, 1);
    weft_tensor *result = NULL, *of_few = NULL;
    for (int run = 0; run < 3; run++) {
        assert_int_equal(weft_graph_call(large, &a, NULL, &result), WEFT_OK);
        assert_int_equal(weft_graph_call(small, &few, NULL, &of_few), WEFT_OK);
    }
    weft_graph_info info;
    weft_graph_get_info(small, &info, sizeof(info));
    assert_true(info.clusters > 0);
    weft_graph_destroy(large);
    weft_graph_destroy(small);
    return weft_add(result, weft_sum(of_few, WEFT_ALL_DIMS, false));
}

static const struct {
    const char *name;
    weft_tensor *(*make)(weft_tensor *a);
    int64_t count, tasks; /* elements of the result; tasks on devices at least */
} cases[] = {
    { "affine", affine, ROWS * COLUMNS, 4 * PANELS },
    { "in place", in_place, ROWS * COLUMNS, 2 * PANELS },
    { "stencil", stencil, ROWS * COLUMNS, 4 * PANELS },
    { "periodic", periodic, ROWS * COLUMNS, 4 * PANELS },
    { "noise", noise, ROWS * COLUMNS, 4 * PANELS },
    { "squares", squares, COLUMNS, 2 },
    { "replaced", replaced, ROWS * COLUMNS, 2 * PANELS },
    { "in a graph", in_graph, ROWS * COLUMNS, 3 * 2 * PANELS + 2 * 3 },
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* The results, one after the other, and how many tasks ran on devices for each. */
static void compute(float *results, int64_t tasks[])
{
    for (int i = 0; i < CASES; i++) {
        assert_int_equal(weft_scope_begin(), WEFT_OK);
        weft_random_seed(20 + (uint64_t)i);
        weft_tensor *a = any(ROWS, COLUMNS);
        assert_int_equal(weft_wait(), WEFT_OK);
        int64_t before = own_cuda_calls();
        weft_tensor *result = cases[i].make(a);
        assert_non_null(result);
        assert_int_equal(weft_wait(), WEFT_OK);
        tasks[i] = own_cuda_calls() - before;
        assert_int_equal(weft_to_host(result, results, (size_t)cases[i].count * sizeof(float)), WEFT_OK);
        results += cases[i].count;
        assert_int_equal(weft_scope_end(), WEFT_OK);
    }
    assert_no_error();
}

static void test_same_bits(void **state)
{
    (void)state;
    int64_t count = 0, none[CASES], some[CASES];
    for (int i = 0; i < CASES; i++) {
        count += cases[i].count;
    }
    float *on_cpus = malloc((size_t)count * sizeof(float)), *on_devices = malloc((size_t)count * sizeof(float));
    assert_true(on_cpus != NULL && on_devices != NULL);
    start_on("0");
    compute(on_cpus, none);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_on(TEST_ALL_DEVICES);
    compute(on_devices, some);
    assert_int_equal(weft_finalize(), WEFT_OK);
    count = 0;
    for (int i = 0; i < CASES; i++) {
        printf("# %s: %lld tasks\n", cases[i].name, (long long)some[i]);
        if (none[i] != 0 || some[i] < cases[i].tasks ||
            memcmp(on_cpus + count, on_devices + count, (size_t)cases[i].count * sizeof(float)) != 0) {
            fail_msg("%s: %lld tasks on devices, or other bits", cases[i].name, (long long)some[i]);
        }
        count += cases[i].count;
    }
#ifndef WEFT_TEST_GPU
    assert_true(stand_in_device_counts(0).launches > 0 && stand_in_device_counts(1).launches > 0);
#endif
    free(on_cpus);
    free(on_devices);
}

static void test_refused_launch(void **state)
{
    (void)state;
    start_on(TEST_ALL_DEVICES);
    weft_operation_description d = described_as("refused", "A->A", own_affine, own_refused_cuda);
    assert_non_null(by_description(&d, any(4, 4)));
    assert_int_equal(weft_wait(), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "refused: the device does not run the kernel: cudaErrorInvalidValue");
    d.name = "neg";
    d.kernel = NULL;
    assert_int_equal(weft_operation_replace(&d), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "cuda is given, and no kernel");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_refused_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
