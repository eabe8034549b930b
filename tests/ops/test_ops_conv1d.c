/* Convolutions along one dimension, large enough for oneDNN, and their gradients: on random meshes and placements against plain
 * loops, in one process that hosts all ranks, or in several; and that oneDNN is given them. WEFT_TEST_CASES says how many cases
 * of each. */
#include "operand.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/onednn_convolution.h"
#include "onednn_support.h"
#include "ops/backward.h"

enum { RESULT, GRADIENT_OF_X, GRADIENT_OF_WEIGHT, KINDS };

/* ---- what oneDNN computes -------------------------------------------------------------------------------- */

/* Tasks by kind, and by whether their input is WEFT_BF16, which the linker counts here (-Wl,--wrap). */
static atomic_int given[KINDS][2];

#define COUNTED(name, kind)                                                                                  \
    bool __real_##name(const weft_convolution_task *task);                                                   \
    bool __wrap_##name(const weft_convolution_task *task);                                                   \
    bool __wrap_##name(const weft_convolution_task *task)                                                    \
    {                                                                                                        \
        bool done = __real_##name(task);                                                                     \
        const weft_image *input = kind == GRADIENT_OF_X ? task->y : task->x;                                 \
        atomic_fetch_add(&given[kind][input->view->dtype == WEFT_BF16], done);                               \
        return done;                                                                                         \
    }
COUNTED(weft_onednn_convolve, RESULT)
COUNTED(weft_onednn_convolve_backward_input, GRADIENT_OF_X)
COUNTED(weft_onednn_convolve_backward_weight, GRADIENT_OF_WEIGHT)

/* ---- a convolution --------------------------------------------------------------------------------------- */

/* x [n, c, w], weight [o, c / groups, j], y [n, o, z]. */
typedef struct convolution {
    int64_t x[3], weight[3], y[3];
    weft_convolution options;
} convolution;

/* About a million products of each sample or more: tasks of several samples are large enough, and some of parts. `plain`: one
 * that every oneDNN computes. */
static convolution any_convolution(bool plain)
{
    convolution c = { .x = { 3 + below(4) } };
    int64_t groups, channels, features, kernel, width;
    switch (plain ? 3 : below(4)) {
    case 0: /* depthwise */
        groups = 96 + below(32), channels = features = 1, kernel = 5 + below(4), width = 2400;
        break;
    case 1:
        groups = 2, channels = below(2) ? 16 : 16 + below(9), features = 32, kernel = 2 + below(5), width = 500;
        break;
    default:
        groups = 1, channels = 32 + below(17), features = 32 + below(17), kernel = 1 + below(5), width = 400;
    }
    c.options = (weft_convolution){ .groups = groups };
    c.options.stride[0] = plain || below(2) ? 1 : 1 + below(3);
    c.options.padding[0] = below(4);
    c.options.dilation[0] = plain || below(2) ? 1 : 1 + below(3);
    c.x[1] = groups * channels;
    c.x[2] = width + below(width / 2);
    c.weight[0] = c.y[1] = groups * features;
    c.weight[1] = channels;
    c.weight[2] = kernel;
    c.y[0] = c.x[0];
    c.y[2] = (c.x[2] + 2 * c.options.padding[0] - c.options.dilation[0] * (kernel - 1) - 1) / c.options.stride[0] + 1;
    return c;
}

static const char *describe_convolution(const convolution *c, int kind, const operand *first, const operand *second)
{
    static const char *const names[] = { "conv1d", "conv1d_backward_input", "conv1d_backward_weight" };
    static char text[900];
    char operands[300];
    snprintf(operands, sizeof(operands), "%.280s", describe_operand(first));
    snprintf(text, sizeof(text), "%s of %s, and %s, groups %lld, stride %lld, padding %lld, dilation %lld", names[kind], operands,
             describe_operand(second), (long long)c->options.groups, (long long)c->options.stride[0],
             (long long)c->options.padding[0], (long long)c->options.dilation[0]);
    return text;
}

/* Adds each product's share to the one that is asked for, of x, weight and y. */
static void add_products(const convolution *c, int kind, double *x, double *weight, double *y)
{
    int64_t per_group = c->weight[1], features = c->y[1] / c->options.groups, stride = c->options.stride[0];
    for (int64_t i = 0; i < c->y[0] * c->y[1] * per_group * c->weight[2]; i++) {
        int64_t tap = i % c->weight[2], own = i / c->weight[2] % per_group, row = i / c->weight[2] / per_group;
        int64_t feature = row % c->y[1], channel = feature / features * per_group + own, n = row / c->y[1];
        double *line_y = y + row * c->y[2], *line_x = x + (n * c->x[1] + channel) * c->x[2];
        double *factor = weight + (feature * per_group + own) * c->weight[2] + tap, sum = 0;
        int64_t first = tap * c->options.dilation[0] - c->options.padding[0];
        for (int64_t z = 0; z < c->y[2]; z++) {
            int64_t at = z * stride + first;
            if (at < 0 || at >= c->x[2]) {
                continue;
            }
            if (kind == RESULT) {
                line_y[z] += line_x[at] * *factor;
            } else if (kind == GRADIENT_OF_X) {
                line_x[at] += line_y[z] * *factor;
            } else {
                sum += line_y[z] * line_x[at];
            }
        }
        *factor += sum;
    }
}

/* The terms of a sum, and its rounding: sums of whole numbers are exact. */
enum { LARGEST = 200000, ROUNDINGS = 64 };

static void convolution_case(int kind, weft_dtype type, bool plain)
{
    convolution c = any_convolution(plain);
    /* Half of them on one rank: with parts of many ranks fewer are large enough. */
    weft_mesh *mesh = !plain && below(2) ? any_mesh() : weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    const int64_t *const shapes[] = { c.y, c.x, c.weight };
    const int64_t *first_shape = kind == RESULT ? c.x : c.y, *second_shape = kind == GRADIENT_OF_WEIGHT ? c.x : c.weight;
    operand first = make_narrow(mesh, type, 3, first_shape, WHOLE), second = make_narrow(mesh, type, 3, second_shape, WHOLE),
            bias = make_narrow(mesh, type, 1, c.weight, WHOLE);
    bool biased = kind == RESULT && below(2);
    double *expected = calloc((size_t)shape_count(3, shapes[kind]), sizeof *expected);
    assert_non_null(expected);
    for (int64_t i = 0; biased && i < shape_count(3, c.y); i++) {
        expected[i] = bias.dense[i / c.y[2] % c.y[1]];
    }
    weft_tensor *result;
    if (kind == RESULT) {
        add_products(&c, kind, first.dense, second.dense, expected);
        result = weft_conv1d(first.tensor, second.tensor, biased ? bias.tensor : NULL, &c.options);
    } else if (kind == GRADIENT_OF_X) {
        add_products(&c, kind, expected, second.dense, first.dense);
        result = weft_conv1d_backward_input(first.tensor, second.tensor, c.x, &c.options);
    } else {
        add_products(&c, kind, second.dense, expected, first.dense);
        result = weft_conv1d_backward_weight(first.tensor, second.tensor, c.weight, &c.options);
    }
    bool exact = first.exact && second.exact && (bias.exact || !biased);
    check_narrow(result, type, 3, shapes[kind], expected, exact ? 0 : ROUNDINGS, LARGEST,
                 describe_convolution(&c, kind, &first, &second));
    free(expected);
    release(&first);
    release(&second);
    release(&bias);
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

static bool several; /* processes */

/* In panels by default, and of two samples each, or of features enough for oneDNN. */
static void run_cases(int kind)
{
    int cases = cases_to_run(12);
    memset(given[kind], 0, sizeof given[kind]);
    for (int height = 0; height < 2; height++) {
        start_world(height == 0 ? NULL : "WEFT_PANEL_ROWS", kind == GRADIENT_OF_WEIGHT ? "32" : "2");
        several = weft_num_processes() > 1;
        source = prng_start((uint64_t)(71 + 2 * kind + height));
        for (int i = 0; i < cases; i++) {
            weft_scope_begin();
            convolution_case(kind, i % 2 == 0 ? WEFT_F32 : WEFT_BF16, i < 2);
            weft_scope_end();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
        unsetenv("WEFT_PANEL_ROWS");
    }
}

/* The processor's instructions for a type. */
static bool has_instructions(weft_dtype type)
{
#if defined WEFT_HAVE_ONEDNN && defined __x86_64__
    __builtin_cpu_init();
    return type == WEFT_F32 ? __builtin_cpu_supports("avx2") : __builtin_cpu_supports("avx512bw");
#else
    (void)type;
    return false;
#endif
}

/* The tasks of one process are few where there are several. */
static void check_given(int kind)
{
    bool skips = false;
    for (int narrow = 0; narrow < 2; narrow++) {
        weft_dtype type = narrow ? WEFT_BF16 : WEFT_F32;
        int count = atomic_load(&given[kind][narrow]);
        if (!has_instructions(type)) {
            assert_int_equal(count, 0);
        }
        skips |= !has_instructions(type) || onednn_is_limited();
        if (!skips && !several && count == 0) {
            fail_msg("oneDNN computes none of the tasks of %s", weft_dtype_name(type));
        }
        if (skips) {
            print_message("# the build, the processor or the environment is without oneDNN for convolutions of %s: only results compared\n",
                          weft_dtype_name(type));
        }
    }
    if (skips) {
        skip();
    }
}

static void test_results(void **state)
{
    (void)state;
    run_cases(RESULT);
    check_given(RESULT);
}

static void test_gradients_of_x(void **state)
{
    (void)state;
    run_cases(GRADIENT_OF_X);
    check_given(GRADIENT_OF_X);
}

static void test_gradients_of_weights(void **state)
{
    (void)state;
    run_cases(GRADIENT_OF_WEIGHT);
    check_given(GRADIENT_OF_WEIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_gradients_of_x),
        cmocka_unit_test(test_gradients_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
