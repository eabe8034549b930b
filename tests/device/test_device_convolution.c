/* Convolutions and their gradients on the stand-in, whose sums have another order than the CPU's: within bounds, with scratch
 * memory for all columns, and for few. Without StarPU. */
#include "codelets/convolution.h"
#include "codelets/cuda/dnn.h"
#include "view_cases.h"

#include <stdlib.h>
#include <string.h>

#define CASES share_of(60)

/* Types of the result, and of the inputs. */
static const weft_dtype types[][2] = { { WEFT_F64, WEFT_F64 }, { WEFT_F32, WEFT_F32 }, { WEFT_F32, WEFT_BF16 }, { WEFT_F32, WEFT_F16 } };

/* Whole tensors. */
typedef struct convolution {
    part x, weight, result, bias;
} convolution;

static part tensor_of(int ndim, const int64_t shape[])
{
    part p = { .ndim = ndim };
    for (int d = 0; d < ndim; d++) {
        p.shape[d] = p.extent[d] = shape[d];
    }
    return p;
}

static convolution any_convolution(int64_t numbers[])
{
    bool plane = below(3) > 0;
    int64_t groups = below(3) == 0 ? 2 : 1, channels = below(15) == 0 ? 0 : groups * (1 + below(3));
    int64_t x[4] = { below(12) == 0 ? 0 : 1 + below(4), channels, 1, 1 };
    int64_t weight[4] = { groups * (1 + below(3)), channels / groups, 1, 1 };
    int64_t result[4] = { x[0], weight[0], 1, 1 };
    numbers[WEFT_CONVOLUTION_GROUPS] = groups;
    for (int d = 0; d < 2; d++) {
        bool used = plane || d == 1;
        int64_t stride = used ? 1 + below(3) : 1, dilation = used ? 1 + below(2) : 1, padding = used ? below(3) : 0;
        int64_t taps = used ? 1 + below(3) : 1, reach = dilation * (taps - 1) + 1;
        int64_t size = used ? reach + below(7) : 1;
        numbers[WEFT_CONVOLUTION_STRIDE + d] = stride;
        numbers[WEFT_CONVOLUTION_DILATION + d] = dilation;
        numbers[WEFT_CONVOLUTION_PADDING + d] = padding;
        x[2 + d] = size;
        weight[2 + d] = taps;
        result[2 + d] = (size + 2 * padding - reach) / stride + 1;
    }
    if (!plane) { /* one spatial dimension: the last */
        x[2] = x[3];
        weight[2] = weight[3];
        result[2] = result[3];
    }
    int ndim = plane ? 4 : 3;
    int64_t features = weight[0];
    convolution c = { tensor_of(ndim, x), tensor_of(ndim, weight), tensor_of(ndim, result), tensor_of(1, &features) };
    return c;
}

/* A part of the spatial dimensions. */
static part spatial_part(part p)
{
    for (int d = 2; d < p.ndim; d++) {
        if (below(2) == 0) {
            p.offset[d] = below(p.shape[d]);
            p.extent[d] = 1 + below(p.shape[d] - p.offset[d]);
        }
    }
    return p;
}

/* With less scratch memory than the device's, in some cases: columns are made piece by piece. */
static void run_in_pieces(view_case *c, weft_dtype type)
{
    size_t bytes = memory.queue.workspace_bytes;
    if (bytes > 0 && below(2) == 0) {
        memory.queue.workspace_bytes = 1024 << below(3);
    }
    run_case_near(c, type == WEFT_F64 ? 1e-13 : 1e-5);
    if (bytes > 0) {
        memory.queue.workspace_bytes = bytes;
    }
}

static void test_forward(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_convolution);
        memory.calm = true;
        convolution own = any_convolution(c.args->numbers);
        const weft_dtype *type = types[i % 4];
        part result = spatial_part(own.result);
        add_output(&c, type[0], &result, false);
        add_input(&c, type[1], &own.x, false);
        add_input(&c, type[1], &own.weight, false);
        c.args->numbers[WEFT_CONVOLUTION_ADDS] = below(2);
        if (c.args->numbers[WEFT_CONVOLUTION_ADDS]) {
            add_input(&c, type[1], &own.bias, false);
        }
        run_in_pieces(&c, type[0]);
    }
}

static void test_gradient_of_input(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_convolution_backward_input);
        memory.calm = true;
        convolution own = any_convolution(c.args->numbers);
        const weft_dtype *type = types[i % 4];
        part x = spatial_part(own.x);
        add_output(&c, type[0], &x, false);
        add_input(&c, type[1], &own.result, false);
        add_input(&c, type[1], &own.weight, false);
        run_in_pieces(&c, type[0]);
    }
}

static void test_gradient_of_weight(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_convolution_backward_weight);
        memory.calm = true;
        convolution own = any_convolution(c.args->numbers);
        const weft_dtype *type = types[i % 4];
        part gradient = spatial_part(own.result), weight = own.weight;
        if (below(2) == 0) { /* of some features */
            weight.offset[0] = below(weight.shape[0]);
            weight.extent[0] = 1 + below(weight.shape[0] - weight.offset[0]);
        }
        add_output(&c, type[0], &weight, false);
        add_input(&c, type[1], &gradient, false);
        add_input(&c, type[1], &own.x, false);
        run_in_pieces(&c, type[0]);
    }
}

/* ---- by cuDNN ------------------------------------------------------------------------------------------ */

/* Whole images with enough products for a plan; in the plane, or of one spatial dimension. */
static convolution large_convolution(int64_t numbers[])
{
    bool plane = below(4) > 0;
    int64_t groups = below(3) == 0 ? 2 : 1, features = 6 + groups * below(2);
    int64_t x[4] = { 2, 2 * groups, 1, 1 }, weight[4] = { features, 2, 1, 1 }, result[4] = { 2, features, 1, 1 };
    numbers[WEFT_CONVOLUTION_GROUPS] = groups;
    for (int d = 0; d < 2; d++) {
        bool used = plane || d == 1;
        int64_t stride = plane ? 1 + below(2) : 1, dilation = plane ? 1 + below(2) : 1, padding = used ? below(3) : 0;
        int64_t taps = !used ? 1 : d == 1 ? 3 : 2 + below(2), reach = dilation * (taps - 1) + 1;
        int64_t size = !used ? 1 : plane ? stride * 30 + below(2) : 1000;
        numbers[WEFT_CONVOLUTION_STRIDE + d] = stride;
        numbers[WEFT_CONVOLUTION_DILATION + d] = dilation;
        numbers[WEFT_CONVOLUTION_PADDING + d] = padding;
        x[2 + d] = size;
        weight[2 + d] = taps;
        result[2 + d] = (size + 2 * padding - reach) / stride + 1;
    }
    if (!plane) {
        x[2] = x[3];
        weight[2] = weight[3];
        result[2] = result[3];
    }
    int ndim = plane ? 4 : 3;
    return (convolution){ tensor_of(ndim, x), tensor_of(ndim, weight), tensor_of(ndim, result), tensor_of(1, &features) };
}

typedef enum obstacle { NONE, PART_OF_IMAGES, SHIFTED } obstacle;

/* Gradients of inputs of 16 bits come in these. Returns cuDNN's runs. */
static int64_t run_large(weft_kernel_id kernel, const weft_dtype type[], obstacle why)
{
    view_case c;
    begin_case(&c, kernel);
    memory.calm = true;
    convolution own = large_convolution(c.args->numbers);
    if (why == PART_OF_IMAGES) {
        part *cut = kernel == WEFT_KERNEL_convolution_backward_input ? &own.x : &own.result;
        cut->extent[cut->ndim - 1]--;
    }
    const part *parts[][3] = { { &own.result, &own.x, &own.weight }, { &own.x, &own.result, &own.weight }, { &own.weight, &own.result, &own.x } };
    const int order = kernel == WEFT_KERNEL_convolution ? 0 : kernel == WEFT_KERNEL_convolution_backward_input ? 1 : 2;
    add_output(&c, type[0], parts[order][0], true);
    add_input(&c, type[1], parts[order][1], true);
    add_input(&c, type[1], parts[order][2], true);
    if (order == 0 && below(2) == 0) {
        c.args->numbers[WEFT_CONVOLUTION_ADDS] = 1;
        add_input(&c, type[1], &own.bias, true);
    }
    for (int i = 0; i < c.num_panels; i++) { /* one of each view */
        const size_t place = why == SHIFTED && i == 1 ? weft_dtype_size(type[1]) : 0;
        c.host[i] = memory.host[i] + place;
        c.device[i] = (char *)memory.device[i] + place;
    }
    int64_t before = weft_dnn_count_runs(&memory.queue);
#ifdef WEFT_TEST_GPU
    const double single = 2e-4; /* Winograd's sums of sums */
#else
    const double single = 2e-5;
#endif
    run_case_near(&c, type[1] == WEFT_F32 ? single : order == 0 ? 1e-4 : type[1] == WEFT_BF16 ? 0x1p-7 : 0x1p-10);
    return weft_dnn_count_runs(&memory.queue) - before;
}

static const weft_kernel_id kernels[] = { WEFT_KERNEL_convolution, WEFT_KERNEL_convolution_backward_input,
                                          WEFT_KERNEL_convolution_backward_weight };

static void run_all_large(int64_t expected)
{
    for (int i = 0; i < 9; i++) {
        int64_t runs = run_large(kernels[i % 3], types[1 + i / 3], NONE);
#ifdef WEFT_TEST_GPU /* cuDNN need not have a plan for each size */
        assert_true(runs <= expected);
#else
        assert_int_equal(runs, expected);
#endif
    }
}

static void test_library(void **state)
{
    (void)state;
    char text[160];
    weft_dnn_describe(text, sizeof(text));
    int64_t expected = strncmp(text, "not used", 8) != 0;
    resize_memory(MOST_MEMORY_BYTES);
    memory.queue.fast = true;
    for (int i = 0; i < 4; i++) {
        run_all_large(expected);
    }
    for (int k = 0; k < 3; k++) { /* never by cuDNN */
        assert_int_equal(run_large(kernels[k], types[0], NONE), 0);
        assert_int_equal(run_large(kernels[k], types[1], PART_OF_IMAGES), 0);
        assert_int_equal(run_large(kernels[k], types[1], SHIFTED), 0);
    }
    memory.queue.fast = false;
    run_all_large(0);
    resize_memory(MEMORY_BYTES);
}

#ifndef WEFT_TEST_GPU
/* A library that has no plans, that fails, and that is not there. */
static void test_library_that_refuses(void **state)
{
    static const char *const faults[] = { "STAND_IN_NO_PLANS", "STAND_IN_FAILING_CUDNN", "STAND_IN_NO_CUDNN" };
    (void)state;
    resize_memory(MOST_MEMORY_BYTES);
    memory.queue.fast = true;
    for (int i = 0; i < 3; i++) {
        weft_dnn_free(&memory.queue);
        setenv(faults[i], "1", 1);
        run_all_large(0);
        unsetenv(faults[i]);
    }
    weft_dnn_free(&memory.queue);
    memory.queue.fast = false;
    resize_memory(MEMORY_BYTES);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_gradient_of_input),
        cmocka_unit_test(test_gradient_of_weight),
        cmocka_unit_test(test_library),
#ifndef WEFT_TEST_GPU
        cmocka_unit_test(test_library_that_refuses),
#endif
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
