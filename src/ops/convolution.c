/* Convolutions and their gradients. */
#include "codelets/convolution.h"

#include <stdio.h>

#include "ops/ops.h"

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
    WEFT_ROUNDED_SUM,
};

/* ---- checks -------------------------------------------------------------------------------------------- */

/* Arguments of one call: options with defaults, and all shapes, one of which is the output's. */
typedef struct convolution {
    const char *function;
    int spatial; /* number of spatial dimensions */
    weft_convolution options;
    int64_t x[4], weight[4], result[4];
} convolution;

static bool check_option(const convolution *c, const char *name, int d, int64_t *value, int64_t least)
{
    if (*value == 0 && least == 1) {
        *value = 1;
    }
    if (*value >= least && *value <= INT32_MAX) {
        return true;
    }
    weft_fail(WEFT_ERR_INVALID, c->function, "%s is %lld in spatial dimension %d, expected at least %lld",
              name, (long long)*value, d, (long long)least);
    return false;
}

static bool take_options(convolution *c, const weft_convolution *options)
{
    c->options = (weft_convolution){ .groups = 1 };
    if (options != NULL && !WEFT_TAKE_OPTIONS(c->function, &c->options, options)) {
        return false;
    }
    for (int d = 0; d < 2; d++) {
        if (d >= c->spatial) {
            c->options.stride[d] = c->options.dilation[d] = 1;
            c->options.padding[d] = 0;
        }
        if (!check_option(c, "stride", d, &c->options.stride[d], 1) ||
            !check_option(c, "padding", d, &c->options.padding[d], 0) ||
            !check_option(c, "dilation", d, &c->options.dilation[d], 1)) {
            return false;
        }
    }
    c->options.groups = c->options.groups == 0 ? 1 : c->options.groups;
    if (c->options.groups < 0) {
        weft_fail(WEFT_ERR_INVALID, c->function, "groups is %lld, expected at least 1",
                  (long long)c->options.groups);
        return false;
    }
    return true;
}

/* Takes the shape of a tensor of the call. */
static bool take_shape(const convolution *c, const char *name, weft_tensor *tensor, int64_t shape[])
{
    if (weft_check_tensor(c->function, name, tensor) == NULL) {
        return false;
    }
    if (weft_layout_of(tensor)->ndim != c->spatial + 2) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "%s has %d dimension%s, expected %d", name,
                  weft_layout_of(tensor)->ndim, weft_layout_of(tensor)->ndim == 1 ? "" : "s", c->spatial + 2);
        return false;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        shape[d] = weft_layout_of(tensor)->shape[d];
    }
    return true;
}

/* Takes a shape given by the caller. */
static bool take_given(const convolution *c, const int64_t given[], int64_t shape[])
{
    if (!weft_check_shape(c->function, c->spatial + 2, given)) {
        return false;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        shape[d] = given[d];
    }
    return true;
}

static bool check_groups(const convolution *c)
{
    int64_t groups = c->options.groups, features = c->weight[0], channels;
    if (!weft_mul_checked(c->weight[1], groups, &channels) || channels != c->x[1]) {
        weft_fail(
            WEFT_ERR_SHAPE, c->function,
            "weight has size %lld in dimension 1, expected the %lld channels of x divided by %lld groups",
            (long long)c->weight[1], (long long)c->x[1], (long long)groups);
        return false;
    }
    if (features % groups != 0) {
        weft_fail(WEFT_ERR_SHAPE, c->function,
                  "weight has size %lld in dimension 0, expected a multiple of %lld groups",
                  (long long)features, (long long)groups);
        return false;
    }
    return true;
}

/* Computes the result's shape from x, weight and options; or compares it. */
static bool check_result(convolution *c, bool known)
{
    const weft_convolution *o = &c->options;
    int64_t shape[4] = { c->x[0], c->weight[0] };
    if (!check_groups(c)) {
        return false;
    }
    for (int d = 0; d < c->spatial; d++) {
        int64_t taps = c->weight[2 + d], size = weft_min_i64(c->x[2 + d], INT64_MAX / 2);
        int64_t room = taps > INT32_MAX ? -1 : size + 2 * o->padding[d] - o->dilation[d] * (taps - 1) - 1;
        if (taps < 1 || room < 0) {
            weft_fail(WEFT_ERR_SHAPE, c->function,
                      "weight has size %lld in dimension %d, expected 1 to what x has with its padding, %lld",
                      (long long)taps, 2 + d, (long long)(size + 2 * o->padding[d]));
            return false;
        }
        shape[2 + d] = room / o->stride[d] + 1;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        if (known && c->result[d] != shape[d]) {
            weft_fail(WEFT_ERR_SHAPE, c->function, "gradient has size %lld in dimension %d, expected %lld",
                      (long long)c->result[d], d, (long long)shape[d]);
            return false;
        }
        c->result[d] = shape[d];
    }
    return true;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* `sizes`: of the output's dimensions that no input has, in the order of the rule. */
static weft_tensor *call_of(const convolution *c, const weft_operation *operation, weft_tensor *a,
                            weft_tensor *b, weft_tensor *bias, const int64_t sizes[], int num_sizes)
{
    const weft_convolution *o = &c->options;
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
        int own = c->spatial == 2 ? d : 1 - d;
        numbers[WEFT_CONVOLUTION_STRIDE + d] = o->stride[own];
        numbers[WEFT_CONVOLUTION_PADDING + d] = o->padding[own];
        numbers[WEFT_CONVOLUTION_DILATION + d] = o->dilation[own];
        numbers[WEFT_CONVOLUTION_TAPS + d] = own < c->spatial ? c->weight[2 + own] : 1;
    }
    numbers[WEFT_CONVOLUTION_GROUPS] = o->groups;
    return weft_dispatch_sum(&call);
}

static weft_tensor *forward(const char *function, int spatial, weft_tensor *x, weft_tensor *weight,
                            weft_tensor *bias, const weft_convolution *options)
{
    convolution c = { .function = function, .spatial = spatial };
    if (!take_shape(&c, "x", x, c.x) || !take_shape(&c, "weight", weight, c.weight) ||
        !take_options(&c, options) || !check_result(&c, false)) {
        return NULL;
    }
    return call_of(&c, &operation_forward, x, weight, bias, c.result + 2, spatial);
}

static weft_tensor *backward_input(const char *function, int spatial, weft_tensor *gradient,
                                   weft_tensor *weight, const int64_t shape[],
                                   const weft_convolution *options)
{
    convolution c = { .function = function, .spatial = spatial };
    if (!take_shape(&c, "gradient", gradient, c.result) || !take_shape(&c, "weight", weight, c.weight) ||
        !take_given(&c, shape, c.x) || !take_options(&c, options) || !check_result(&c, true)) {
        return NULL;
    }
    int64_t sizes[3] = { c.x[2], c.x[3] }; /* the rule names the gradient's windows first */
    sizes[spatial] = c.x[1];
    return call_of(&c, &operation_backward_input, gradient, weight, NULL, sizes,
                   spatial + (c.options.groups > 1));
}

static weft_tensor *backward_weight(const char *function, int spatial, weft_tensor *gradient, weft_tensor *x,
                                    const int64_t shape[], const weft_convolution *options)
{
    convolution c = { .function = function, .spatial = spatial };
    if (!take_shape(&c, "gradient", gradient, c.result) || !take_shape(&c, "x", x, c.x) ||
        !take_given(&c, shape, c.weight) || !take_options(&c, options) || !check_result(&c, true)) {
        return NULL;
    }
    int num_sizes = spatial + (c.options.groups > 1);
    return call_of(&c, &operation_backward_weight, gradient, x, NULL, c.weight + spatial + 2 - num_sizes,
                   num_sizes);
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

/* Each of x, weight and result from the two others: the function is linear in both of its inputs. */
static weft_tensor *result_of(const weft_call *call, weft_tensor *x, weft_tensor *weight)
{
    weft_convolution options = options_of(call);
    return forward(call->function, spatial_of(call), x, weight, NULL, &options);
}

static weft_tensor *x_of(const weft_call *call, weft_tensor *result, weft_tensor *weight, weft_tensor *like)
{
    weft_convolution options = options_of(call);
    return backward_input(call->function, spatial_of(call), result, weight, weft_layout_of(like)->shape, &options);
}

static weft_tensor *weight_of(const weft_call *call, weft_tensor *result, weft_tensor *x, weft_tensor *like)
{
    weft_convolution options = options_of(call);
    return backward_weight(call->function, spatial_of(call), result, x, weft_layout_of(like)->shape, &options);
}

static bool gradients_of_forward(const weft_gradient *of)
{
    static const int dims[] = { 0, 2, 3 };
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = call->inputs[0], *weight = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, x_of(call, g, weight, x))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weight_of(call, g, x, weight))) &&
           (call->num_inputs < 3 || !weft_gradient_wanted(of, 2) ||
            weft_give_gradient(of, 2, weft_sum_over(g, 1 + spatial_of(call), dims, false)));
}

static bool gradients_of_backward_input(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *result = call->inputs[0], *weight = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, result_of(call, h, weight))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, weight_of(call, result, h, weight)));
}

static bool gradients_of_backward_weight(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *result = call->inputs[0], *x = call->inputs[1];
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, result_of(call, x, h))) &&
           (!weft_gradient_wanted(of, 1) || weft_give_gradient(of, 1, x_of(call, result, h, x)));
}

/* ---- public -------------------------------------------------------------------------------------------- */

weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                         const weft_convolution *options)
{
    return forward("weft_conv2d", 2, x, weight, bias, options);
}

weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                         const weft_convolution *options)
{
    return forward("weft_conv1d", 1, x, weight, bias, options);
}

weft_tensor *weft_conv2d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[4],
                                        const weft_convolution *options)
{
    return backward_input("weft_conv2d_backward_input", 2, gradient, weight, shape, options);
}

weft_tensor *weft_conv2d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[4],
                                         const weft_convolution *options)
{
    return backward_weight("weft_conv2d_backward_weight", 2, gradient, x, shape, options);
}

weft_tensor *weft_conv1d_backward_input(weft_tensor *gradient, weft_tensor *weight, const int64_t shape[3],
                                        const weft_convolution *options)
{
    return backward_input("weft_conv1d_backward_input", 1, gradient, weight, shape, options);
}

weft_tensor *weft_conv1d_backward_weight(weft_tensor *gradient, weft_tensor *x, const int64_t shape[3],
                                         const weft_convolution *options)
{
    return backward_weight("weft_conv1d_backward_weight", 1, gradient, x, shape, options);
}

const weft_operation *const weft_convolution_operations[] = {
    &operation_forward,
    &operation_backward_input,
    &operation_backward_weight,
    NULL,
};
