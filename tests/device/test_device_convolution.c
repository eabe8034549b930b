/* Convolutions and their gradients on the stand-in, whose sums have another order than the CPU's: within bounds, with scratch
 * memory for all columns, and for few. Without StarPU. */
#include "codelets/convolution.h"
#include "codelets/cuda/dnn.h"
#include "view_cases.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<cudnn_graph.h>)
#include "codelets/cuda/dnn_convolution.h"
#include "codelets/cuda/dnn_plans.h"
#endif

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

typedef struct large {
    weft_kernel_id kernel;
    const weft_dtype *type;
    bool wide;
    obstacle why;
} large;

/* Whether the result is rounded to 16 bits. */
static bool rounds(const large *l)
{
    return l->kernel == WEFT_KERNEL_convolution_backward_input && l->type[1] != WEFT_F32 && !l->wide;
}

/* Returns cuDNN's runs. */
static int64_t run_large(const large *l)
{
    const weft_kernel_id kernel = l->kernel;
    const weft_dtype *type = l->type;
    const obstacle why = l->why;
    view_case c;
    begin_case(&c, kernel);
    memory.calm = true;
    convolution own = large_convolution(c.args->numbers);
    c.args->numbers[WEFT_CONVOLUTION_WIDE] = l->wide;
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
    run_case_near(&c, type[1] == WEFT_F32 ? single : !rounds(l) ? 1e-4 : type[1] == WEFT_BF16 ? 0x1p-7 : 0x1p-10);
    return weft_dnn_count_runs(&memory.queue) - before;
}

static const weft_kernel_id kernels[] = { WEFT_KERNEL_convolution, WEFT_KERNEL_convolution_backward_input,
                                          WEFT_KERNEL_convolution_backward_weight };

/* cuDNN's gradients of 16 bits are not for weights, nor where they are wanted in WEFT_F32. */
static int64_t runs_by_library(const large *l)
{
    return l->type[1] == WEFT_F32 || l->kernel == WEFT_KERNEL_convolution || rounds(l);
}

static void run_all_large(int64_t expected)
{
    for (int i = 0; i < 18; i++) {
        const large l = { .kernel = kernels[i % 3], .type = types[1 + i / 3 % 3], .wide = i >= 9 };
        int64_t runs = run_large(&l), most = expected * runs_by_library(&l);
#ifdef WEFT_TEST_GPU /* cuDNN need not have a plan for each size */
        assert_true(runs <= most);
#else
        assert_int_equal(runs, most);
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
    for (int i = 0; i < 2; i++) {
        run_all_large(expected);
    }
    for (int k = 0; k < 3; k++) { /* never by cuDNN */
        assert_int_equal(run_large(&(large){ kernels[k], types[0], .why = NONE }), 0);
        assert_int_equal(run_large(&(large){ kernels[k], types[1], .why = PART_OF_IMAGES }), 0);
        assert_int_equal(run_large(&(large){ kernels[k], types[1], .why = SHIFTED }), 0);
    }
    memory.queue.fast = false;
    run_all_large(0);
    resize_memory(MEMORY_BYTES);
}

#ifndef WEFT_TEST_GPU
/* A library that has no plans, that fails after it has written, and that is not there. */
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

#if __has_include(<cudnn_graph.h>)
static const large forward_f32 = { WEFT_KERNEL_convolution, types[1], .why = NONE };
static const large forward_bf16 = { WEFT_KERNEL_convolution, types[2], .why = NONE };

static void begin_library(void)
{
    resize_memory(MOST_MEMORY_BYTES);
    weft_dnn_free(&memory.queue);
    memory.queue.fast = true;
}

static void end_library(void)
{
    weft_dnn_free(&memory.queue);
    memory.queue.fast = false;
    resize_memory(MEMORY_BYTES);
}

/* The first plan of a queue needs no workspace. */
static void test_library_without_workspace(void **state)
{
    (void)state;
    begin_library();
    assert_int_equal(run_large(&forward_f32), 1);
    end_library();
}

static void test_library_with_notes(void **state)
{
    static const struct {
        cudnnBackendNumericalNote_t note;
        bool for_f32, for_bf16;
    } notes[] = { { CUDNN_NUMERICAL_NOTE_TENSOR_CORE, false, true },          { CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, false, true },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, false, true },    { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, false, true },
                  { CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, false, false },    { CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, false, false },
                  { CUDNN_NUMERICAL_NOTE_FFT, true, true },                   { CUDNN_NUMERICAL_NOTE_WINOGRAD, true, true },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, true, true },     { CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, true, true } };
    (void)state;
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        char number[16];
        snprintf(number, sizeof(number), "%d", (int)notes[i].note);
        begin_library(); /* without plans */
        setenv("STAND_IN_NOTE", number, 1);
        assert_int_equal(run_large(&forward_f32), notes[i].for_f32);
        assert_int_equal(run_large(&forward_bf16), notes[i].for_bf16);
        unsetenv("STAND_IN_NOTE");
        end_library();
    }
}

/* Plans of attention do not take convolutions' room. */
static void test_many_plans(void **state)
{
    (void)state;
    begin_library();
    weft_dnn *dnn = weft_dnn_of(&memory.queue);
    assert_non_null(dnn);
    for (int64_t n = 1; n <= 257; n++) {
        const weft_dnn_convolution_sizes described = { .type = WEFT_F32, .x = { n, 1, 1, 1 }, .weights = { 1, 1, 1, 1 },
                                                       .result = { n, 1, 1, 1 }, .filter = { { 1, 1 }, { 0, 0 }, { 1, 1 } } };
        const weft_dnn_asked asked = { WEFT_DNN_FORWARD, &described, sizeof(described), weft_dnn_convolution_graph };
        assert_true((weft_dnn_plan_of(dnn, &asked) != NULL) == (n <= 256));
    }
    assert_int_equal(run_large(&forward_f32), 1);
    end_library();
}
#endif
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
#if __has_include(<cudnn_graph.h>)
        cmocka_unit_test(test_library_without_workspace),
        cmocka_unit_test(test_library_with_notes),
        cmocka_unit_test(test_many_plans),
#endif
#endif
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
