/* Convolutions and their gradients. */
#include "codelets/convolution.h"

#include <stdio.h>

#include "ops/convolution_arguments.h"
#include "ops/reductions.h"

/* ---- rules --------------------------------------------------------------------------------------------- */

/* attributes.rule: ROWS: two spatial dimensions; GROUPED: channels and features are not sharded, because a
 * part would not be whole groups. */
enum { ROWS = 1, GROUPED = 2 };

/* Inputs and output, for each value of attributes.rule. The spatial input is read through an access map
 * (halo). */
typedef const char *const rules[4][2];

static const rules forward_rules = {
    { "ncz~,oc[j]", "noz" },
    { "ncy~z~,oc[ij]", "noyz" },
    { "n[c]z~,[odj]", "noz" },
    { "n[c]y~z~,[odij]", "noyz" },
};
static const rules backward_input_rules = {
    { "now~,oc[j]", "ncw" },
    { "noh~w~,oc[ij]", "nchw" },
    { "n[o]w~,[odj]", "n[c]w" },
    { "n[o]h~w~,[odij]", "n[c]hw" },
};
static const rules backward_weight_rules = {
    { "noz,ncz~", "oc[j]" },
    { "noyz,ncy~z~", "oc[ij]" },
    { "n[o]z,n[c]z~", "[odj]" },
    { "n[o]yz,n[c]y~z~", "[odij]" },
};

static void write_forward(const weft_call_layouts *call, char *text, size_t size)
{
    const char *const *rule = forward_rules[call->attributes->rule];
    snprintf(text, size, "%s%s->%s", rule[0], call->num_inputs > 2 ? ",o" : "", rule[1]);
}

static void write_backward_input(const weft_call_layouts *call, char *text, size_t size)
{
    const char *const *rule = backward_input_rules[call->attributes->rule];
    snprintf(text, size, "%s->%s", rule[0], rule[1]);
}

static void write_backward_weight(const weft_call_layouts *call, char *text, size_t size)
{
    const char *const *rule = backward_weight_rules[call->attributes->rule];
    snprintf(text, size, "%s->%s", rule[0], rule[1]);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

/* x's window for rows of the result, or the result's for rows of x. */
static weft_window window_of(const weft_call_layouts *call, int dim, bool of_result)
{
    const int64_t *numbers = call->attributes->numbers;
    int d = call->attributes->rule & ROWS ? dim - 2 : dim - 1;
    int64_t stride = numbers[WEFT_CONVOLUTION_STRIDE + d], padding = numbers[WEFT_CONVOLUTION_PADDING + d];
    int64_t reach = numbers[WEFT_CONVOLUTION_DILATION + d] * (numbers[WEFT_CONVOLUTION_TAPS + d] - 1);
    return of_result
               ? (weft_window){ .times = 1, .over = stride, .before = reach - padding, .after = padding }
               : (weft_window){ .times = stride, .over = 1, .before = padding, .after = reach - padding };
}

static weft_window window_of_x(const weft_call_layouts *call, int input, int dim)
{
    (void)input;
    return window_of(call, dim, false);
}

static weft_window window_of_result(const weft_call_layouts *call, int input, int dim)
{
    (void)input;
    return window_of(call, dim, true);
}

/* ---- lowering ------------------------------------------------------------------------------------------ */

/* Only ranks that add the bias have it as an input. */
static bool lower_forward(const weft_lowering *lowering)
{
    weft_attributes attributes = *lowering->attributes;
    weft_lowering own = *lowering;
    own.attributes = &attributes;
    attributes.numbers[WEFT_CONVOLUTION_ADDS] = lowering->num_inputs > 2 && weft_lowering_adds(lowering, 2);
    return weft_lower_kernel(&own);
}

static bool gradients_of_forward(const weft_gradient *of);
static bool gradients_of_backward_input(const weft_gradient *of);
static bool gradients_of_backward_weight(const weft_gradient *of);
static bool gradients_of_transposed(const weft_gradient *of);
static bool expand_transposed(const weft_call *call, weft_tensor *outputs[]);

#define BILINEAR                                                                                             \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = 3u, .ops = WEFT_LINEAR_OPS                                       \
    }

static const weft_operation operation_forward = {
    .name = "convolution",
    .gradient = { .function = gradients_of_forward, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .write_rule = write_forward,
    .rule_like = "ncy~z~,oc[ij],o->noyz",
    .window = window_of_x,
    .outputs[0].linear = BILINEAR,
    .inputs = { { "x", WEFT_TYPES_FLOAT, true },
                { "weight", WEFT_TYPES_FLOAT, true },
                { "bias", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_convolution,
    .lower = lower_forward,
    WEFT_ROUNDED_SUM,
};

static const weft_operation operation_backward_input = {
    .name = "convolution_backward_input",
    .gradient = { .function = gradients_of_backward_input, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .write_rule = write_backward_input,
    .rule_like = "noh~w~,oc[ij]->nchw",
    .window = window_of_result,
    .outputs[0].linear = BILINEAR,
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "weight", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_convolution_backward_input,
    WEFT_ROUNDED_SUM,
};

static const weft_operation operation_backward_weight = {
    .name = "convolution_backward_weight",
    .gradient = { .function = gradients_of_backward_weight, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .write_rule = write_backward_weight,
    .rule_like = "noyz,ncy~z~->oc[ij]",
    .window = window_of_x,
    .outputs[0].linear = BILINEAR,
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "x", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_convolution_backward_weight,
    .accumulates = true,
    .whole_pieces = true,
    WEFT_ROUNDED_SUM,
};

/* The input's gradient, plus a bias. sizes: those of the output. */
static const weft_operation operation_transposed = {
    .name = "conv_transpose",
    .gradient = { .function = gradients_of_transposed, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .inputs = { { "x", WEFT_TYPES_FLOAT, true },
                { "weight", WEFT_TYPES_FLOAT, true },
                { "bias", WEFT_TYPES_FLOAT, true } },
    .expand = expand_transposed,
};

/* ---- calls --------------------------------------------------------------------------------------------- */

/* `sizes`: of the output's dimensions that no input has, in the order of the rule. */
static weft_call make_call(const weft_convolution_arguments *c, const weft_operation *operation, weft_tensor *a, weft_tensor *b,
                           weft_tensor *bias, const int64_t sizes[], int num_sizes)
{
    const weft_convolution3d *o = &c->options;
    weft_call call = { .function = c->function,
                       .operation = operation,
                       .num_inputs = bias == NULL ? 2 : 3,
                       .inputs = { a, b, bias },
                       .attributes = { .rule = (c->spatial == 2 ? ROWS : 0) + (o->groups > 1 ? GROUPED : 0),
                                       .num_sizes = num_sizes,
                                       .num_numbers = WEFT_CONVOLUTION_NUMBERS } };
    for (int i = 0; i < num_sizes; i++) {
        call.attributes.sizes[i] = sizes[i];
    }
    int64_t *numbers = call.attributes.numbers;
    for (int d = 0; d < 2; d++) {
        /* With one spatial dimension it is the kernel's second. */
        int own = c->spatial == 2 ? d : d - 1;
        numbers[WEFT_CONVOLUTION_STRIDE + d] = own < 0 ? 1 : o->stride[own];
        numbers[WEFT_CONVOLUTION_PADDING + d] = own < 0 ? 0 : o->padding[own];
        numbers[WEFT_CONVOLUTION_DILATION + d] = own < 0 ? 1 : o->dilation[own];
        numbers[WEFT_CONVOLUTION_TAPS + d] = own < 0 ? 1 : c->weight[2 + own];
    }
    numbers[WEFT_CONVOLUTION_GROUPS] = o->groups;
    return call;
}

static weft_tensor *call_of(const weft_convolution_arguments *c, const weft_operation *operation, weft_tensor *a,
                            weft_tensor *b, weft_tensor *bias, const int64_t sizes[], int num_sizes, bool wide)
{
    weft_call call = make_call(c, operation, a, b, bias, sizes, num_sizes);
    call.attributes.numbers[WEFT_CONVOLUTION_WIDE] = wide;
    return wide ? weft_dispatch_wide_sum(&call) : weft_dispatch_sum(&call);
}

static weft_tensor *forward(const char *function, int spatial, weft_tensor *x, weft_tensor *weight,
                            weft_tensor *bias, const weft_convolution *options, bool wide)
{
    weft_convolution_arguments c = { .function = function, .spatial = spatial };
    if (!weft_take_convolution_shape(&c, "x", x, c.x) || !weft_take_convolution_shape(&c, "weight", weight, c.weight) ||
        !weft_take_convolution_options(&c, options) || !weft_check_convolution(&c, false)) {
        return NULL;
    }
    if (weft_convolves_complex(x)) {
        return weft_convolve_complex(&c, x, weight, bias, false, NULL);
    }
    return call_of(&c, &operation_forward, x, weight, bias, c.result + 2, spatial, wide);
}

/* Sizes of the input's gradient: the rule names the gradient's windows first. Returns how many. */
static int sizes_of_input(const weft_convolution_arguments *c, int64_t sizes[3])
{
    for (int d = 0; d < c->spatial; d++) {
        sizes[d] = c->x[2 + d];
    }
    sizes[c->spatial] = c->x[1];
    return c->spatial + (c->options.groups > 1);
}

static weft_tensor *backward_input(const char *function, int spatial, weft_tensor *gradient,
                                   weft_tensor *weight, const int64_t shape[],
                                   const weft_convolution *options, bool wide)
{
    weft_convolution_arguments c = { .function = function, .spatial = spatial };
    if (!weft_take_convolution_shape(&c, "gradient", gradient, c.result) || !weft_take_convolution_shape(&c, "weight", weight, c.weight) ||
        !weft_take_given_shape(&c, shape, c.x) || !weft_take_convolution_options(&c, options) || !weft_check_convolution(&c, true)) {
        return NULL;
    }
    int64_t sizes[3];
    int num_sizes = sizes_of_input(&c, sizes);
    return call_of(&c, &operation_backward_input, gradient, weight, NULL, sizes, num_sizes, wide);
}

static weft_tensor *backward_weight(const char *function, int spatial, weft_tensor *gradient, weft_tensor *x,
                                    const int64_t shape[], const weft_convolution *options, bool wide)
{
    weft_convolution_arguments c = { .function = function, .spatial = spatial };
    if (!weft_take_convolution_shape(&c, "gradient", gradient, c.result) || !weft_take_convolution_shape(&c, "x", x, c.x) ||
        !weft_take_given_shape(&c, shape, c.weight) || !weft_take_convolution_options(&c, options) || !weft_check_convolution(&c, true)) {
        return NULL;
    }
    int num_sizes = spatial + (c.options.groups > 1);
    return call_of(&c, &operation_backward_weight, gradient, x, NULL, c.weight + spatial + 2 - num_sizes,
                   num_sizes, wide);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The options of a call. */
static weft_convolution options_of(const weft_call *call)
{
    const int64_t *numbers = call->attributes.numbers;
    int first = call->attributes.rule & ROWS ? 0 : 1;
    weft_convolution options = { .groups = numbers[WEFT_CONVOLUTION_GROUPS] };
    for (int d = first; d < 2; d++) {
        options.stride[d - first] = numbers[WEFT_CONVOLUTION_STRIDE + d];
        options.padding[d - first] = numbers[WEFT_CONVOLUTION_PADDING + d];
        options.dilation[d - first] = numbers[WEFT_CONVOLUTION_DILATION + d];
    }
    return options;
}

static int spatial_of(const weft_call *call)
{
    return call->attributes.rule & ROWS ? 2 : 1;
}

/* Each of x, weight and result from the two others, as the gradient of an input: the function is linear in both of its inputs. */
static weft_tensor *result_of(const weft_gradient *of, int input, weft_tensor *x, weft_tensor *weight)
{
    weft_convolution options = options_of(of->call);
    return forward(of->call->function, spatial_of(of->call), x, weight, NULL, &options, weft_gradient_is_wide(of, input));
}

static weft_tensor *x_of(const weft_gradient *of, int input, weft_tensor *result, weft_tensor *weight, weft_tensor *like)
{
    weft_convolution options = options_of(of->call);
    return backward_input(of->call->function, spatial_of(of->call), result, weight, weft_layout_of(like)->shape, &options,
                          weft_gradient_is_wide(of, input));
}

static weft_tensor *weight_of(const weft_gradient *of, int input, weft_tensor *result, weft_tensor *x, weft_tensor *like)
{
    weft_convolution options = options_of(of->call);
    return backward_weight(of->call->function, spatial_of(of->call), result, x, weft_layout_of(like)->shape, &options,
                           weft_gradient_is_wide(of, input));
}

/* The bias' gradient, from the result's. */
static weft_tensor *bias_of(const weft_call *call, weft_tensor *gradient)
{
    static const int dims[] = { 0, 2, 3 };
    return weft_sum(gradient, weft_set_of_dims(1 + spatial_of(call), dims), false);
}

static bool gradients_of_forward(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = call->inputs[0], *weight = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, x_of(of, 0, g, weight, x))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weight_of(of, 1, g, x, weight))) &&
           (call->num_inputs < 3 || !weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, bias_of(call, g)));
}

static bool gradients_of_backward_input(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *result = call->inputs[0], *weight = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, result_of(of, 0, h, weight))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weight_of(of, 1, result, h, weight)));
}

static bool gradients_of_backward_weight(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *result = call->inputs[0], *x = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, result_of(of, 0, x, h))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, x_of(of, 1, result, h, x)));
}

/* ---- transposed ---------------------------------------------------------------------------------------- */

static weft_tensor *transposed(const char *function, int spatial, weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                               const weft_convolution *options, const int64_t output_padding[])
{
    weft_convolution_arguments c = { .function = function, .spatial = spatial };
    if (!weft_take_convolution_shape(&c, "x", x, c.result) || !weft_take_convolution_shape(&c, "weight", weight, c.weight) ||
        !weft_take_convolution_options(&c, options) || !weft_check_transposed(&c, output_padding) ||
        !weft_check_convolution_bias(&c, bias, c.x[1])) {
        return NULL;
    }
    if (weft_convolves_complex(x)) {
        return weft_convolve_complex(&c, x, weight, bias, true, output_padding);
    }
    weft_call call = make_call(&c, &operation_transposed, x, weight, bias, c.x, spatial + 2);
    return weft_dispatch(&call);
}

/* 16-bit types are added in WEFT_F32, and rounded once. */
static bool expand_transposed(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *x = call->inputs[0], *weight = call->inputs[1], *bias = call->num_inputs > 2 ? call->inputs[2] : NULL;
    weft_dtype type = weft_layout_of(x)->dtype;
    weft_convolution options = options_of(call);
    weft_convolution_arguments c = { .function = call->function, .spatial = spatial_of(call) };
    int64_t sizes[3], ones[] = { 1, 1, 1, 1 };
    if (!weft_take_convolution_options(&c, &options)) {
        return false;
    }
    for (int d = 0; d < c.spatial + 2; d++) {
        c.x[d] = call->attributes.sizes[d];
        c.weight[d] = weft_layout_of(weight)->shape[d];
    }
    int num_sizes = sizes_of_input(&c, sizes);
    weft_call product = make_call(&c, &operation_backward_input, x, weight, NULL, sizes, num_sizes);
    if (bias == NULL) {
        outputs[0] = weft_dispatch_sum(&product);
        return outputs[0] != NULL;
    }
    product.attributes.type = weft_wide_type(type);
    ones[1] = c.x[1];
    weft_tensor *sum = weft_dispatch(&product), *row = weft_reshape(bias, c.spatial + 2, ones);
    sum = sum == NULL || row == NULL ? NULL : weft_add(sum, row);
    outputs[0] = sum == NULL || product.attributes.type == (int64_t)type ? sum : weft_to_type(sum, type);
    return outputs[0] != NULL;
}

static bool gradients_of_transposed(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = call->inputs[0], *weight = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, result_of(of, 0, g, weight))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weight_of(of, 1, x, g, weight))) &&
           (call->num_inputs < 3 || !weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, bias_of(call, g)));
}

/* ---- public -------------------------------------------------------------------------------------------- */

weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                         const weft_convolution *options)
{
    return forward("weft_conv2d", 2, x, weight, bias, options, false);
}

weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                         const weft_convolution *options)
{
    return forward("weft_conv1d", 1, x, weight, bias, options, false);
}

weft_tensor *weft_conv2d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[4],
                                        const weft_convolution *options)
{
    return backward_input("weft_conv2d_backward_input", 2, gradient, weight, shape, options, false);
}

weft_tensor *weft_conv2d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[4],
                                         const weft_convolution *options)
{
    return backward_weight("weft_conv2d_backward_weight", 2, gradient, x, shape, options, false);
}

weft_tensor *weft_conv1d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[3],
                                        const weft_convolution *options)
{
    return backward_input("weft_conv1d_backward_input", 1, gradient, weight, shape, options, false);
}

weft_tensor *weft_conv1d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[3],
                                         const weft_convolution *options)
{
    return backward_weight("weft_conv1d_backward_weight", 1, gradient, x, shape, options, false);
}

weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, const weft_convolution *options,
                                   const int64_t output_padding[2])
{
    return transposed("weft_conv_transpose2d", 2, x, weight, bias, options, output_padding);
}

weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, const weft_convolution *options,
                                   const int64_t output_padding[1])
{
    return transposed("weft_conv_transpose1d", 1, x, weight, bias, options, output_padding);
}

const weft_operation *const weft_convolution_operations[] = {
    &operation_forward,
    &operation_backward_input,
    &operation_backward_weight,
    &operation_transposed,
    NULL,
};
