/* Convolutions and their gradients on the stand-in, whose sums have another order than the CPU's: within bounds, with scratch
 * memory for all columns, and for few. Without StarPU. */
#include "codelets/convolution.h"
#include "view_cases.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_gradient_of_input),
        cmocka_unit_test(test_gradient_of_weight),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
