/* Pooling and its gradients. */
#include "codelets/pooling.h"

#include <stdio.h>

#include <weft/images.h>

#include "ops/ops.h"

enum { AXES = WEFT_POOLING_AXES };

/* ---- rules --------------------------------------------------------------------------------------------- */

static int dims_of(const weft_attributes *attributes)
{
    return (int)attributes->numbers[WEFT_POOLING_DIMS];
}

/* "Ay~z~" or "Ayz", with the letters of the pooled dimensions. */
static void write_operand(char text[16], int dims, bool windows)
{
    static const char letters[] = "xyz";
    char *at = text;
    *at++ = 'A';
    for (int d = AXES - dims; d < AXES; d++) {
        *at++ = letters[d];
        if (windows) {
            *at++ = '~';
        }
    }
    *at = '\0';
}

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char read[16], plain[16];
    write_operand(read, dims_of(call->attributes), true);
    write_operand(plain, dims_of(call->attributes), false);
    bool pair = call->operation->num_outputs > 1;
    snprintf(text, size, "%s%s%s->%s%s%s", read, call->num_inputs > 1 ? "," : "", call->num_inputs > 1 ? read : "", plain,
             pair ? "," : "", pair ? plain : "");
}

/* The indices are not read through windows. */
static void write_pick_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char read[16], plain[16];
    write_operand(read, dims_of(call->attributes), true);
    write_operand(plain, dims_of(call->attributes), false);
    snprintf(text, size, "%s,%s->%s", read, plain, plain);
}

/* `size` elements of the image become `count` windows. */
static weft_window window_of(const weft_attributes *attributes, int axis, int64_t size, int64_t count, bool backward)
{
    const int64_t *numbers = attributes->numbers;
    int64_t kernel = numbers[WEFT_POOLING_KERNEL + axis], padding = numbers[WEFT_POOLING_PADDING + axis];
    weft_window forward = { .times = numbers[WEFT_POOLING_STRIDE + axis], .over = 1, .before = padding };
    forward.after = numbers[WEFT_POOLING_DILATION + axis] * (kernel - 1) - padding;
    if (kernel == 0) { /* divisions rounded down and up */
        int64_t over = weft_max_i64(1, count);
        forward = (weft_window){ .times = size, .over = over, .before = over - 1, .after = size - 1 };
    }
    return backward ? (weft_window){ .times = forward.over,
                                     .over = forward.times,
                                     .before = forward.after,
                                     .after = forward.before }
                    : forward;
}

/* Of the image, for the elements of the result. */
static weft_window window_of_image(const weft_call_layouts *call, int input, int dim)
{
    const weft_layout *image = call->inputs[input];
    int from_end = image->ndim - dim, dims = dims_of(call->attributes);
    int64_t count = call->num_inputs > 1 ? call->inputs[1]->shape[dim] : call->attributes->sizes[dims - from_end];
    return window_of(call->attributes, AXES - from_end, image->shape[dim], count, false);
}

/* Of the result, for the elements of the image. */
static weft_window window_of_result(const weft_call_layouts *call, int input, int dim)
{
    const weft_layout *result = call->inputs[input];
    int from_end = result->ndim - dim, dims = dims_of(call->attributes);
    return window_of(call->attributes, AXES - from_end, call->attributes->sizes[dims - from_end], result->shape[dim], true);
}

static bool gradient_of_max_pool(const weft_gradient *of);
static bool gradient_of_max_pool_backward(const weft_gradient *of);
static bool gradient_of_max_pool_pick(const weft_gradient *of);
static bool gradient_of_avg_pool(const weft_gradient *of);
static bool gradient_of_avg_pool_backward(const weft_gradient *of);

#define LINEAR                                                                                               \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = 1u, .ops = WEFT_LINEAR_OPS                                       \
    }

static const weft_operation operation_max_pool = {
    .name = "max_pool",
    .gradient = WEFT_GRADIENT_BY(gradient_of_max_pool, WEFT_READS_OUTPUT(1)),
    .write_rule = write_rule,
    .rule_like = "Ay~z~->Ayz,Ayz",
    .window = window_of_image,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_max_pool,
};

static const weft_operation operation_max_pool_backward = {
    .name = "max_pool_backward",
    .gradient = WEFT_GRADIENT_BY(gradient_of_max_pool_backward, WEFT_READS_INPUT(1)),
    .write_rule = write_rule,
    .rule_like = "Ay~z~,Ay~z~->Ayz",
    .window = window_of_result,
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, false }, { "indices", WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].linear = LINEAR,
    .kernel = WEFT_KERNEL_max_pool_backward,
};

/* The gradient's gradient. */
static const weft_operation operation_max_pool_pick = {
    .name = "max_pool_pick",
    .gradient = WEFT_GRADIENT_BY(gradient_of_max_pool_pick, WEFT_READS_INPUT(1)),
    .write_rule = write_pick_rule,
    .rule_like = "Ay~z~,Ayz->Ayz",
    .window = window_of_image,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "indices", WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].linear = LINEAR,
    .kernel = WEFT_KERNEL_max_pool_pick,
};

static const weft_operation operation_avg_pool = {
    .name = "avg_pool",
    .gradient = { .function = gradient_of_avg_pool },
    .write_rule = write_rule,
    .rule_like = "Ay~z~->Ayz",
    .window = window_of_image,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .outputs[0].linear = LINEAR,
    .kernel = WEFT_KERNEL_avg_pool,
};

static const weft_operation operation_avg_pool_backward = {
    .name = "avg_pool_backward",
    .gradient = { .function = gradient_of_avg_pool_backward },
    .write_rule = write_rule,
    .rule_like = "Ay~z~->Ayz",
    .window = window_of_result,
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, false } },
    .outputs[0].linear = LINEAR,
    .kernel = WEFT_KERNEL_avg_pool_backward,
};

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* A call with the numbers of another one. `like`: a tensor with the output's pooled dimensions; NULL: an input has them. */
static weft_tensor *call_like(const weft_call *of, const weft_operation *operation, weft_tensor *a, weft_tensor *indices,
                              weft_tensor *like)
{
    weft_call call = { .function = of->function,
                       .operation = operation,
                       .num_inputs = indices == NULL ? 1 : 2,
                       .inputs = { a, indices },
                       .attributes = of->attributes };
    int dims = dims_of(&of->attributes);
    call.attributes.omitted = 0;
    call.attributes.num_sizes = like == NULL ? 0 : dims;
    for (int d = 0; d < WEFT_MAX_SIZES; d++) {
        const weft_layout *layout = like == NULL ? NULL : weft_layout_of(like);
        call.attributes.sizes[d] = like == NULL || d >= dims ? 0 : layout->shape[layout->ndim - dims + d];
    }
    return weft_dispatch(&call);
}

static bool gradient_of_max_pool(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    return gradient == NULL ||
           weft_give_gradient(of, 0, call_like(of->call, &operation_max_pool_backward, gradient, of->outputs[1],
                                               of->call->inputs[0]));
}

static bool gradient_of_max_pool_backward(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, call_like(of->call, &operation_max_pool_pick, weft_gradient_of_output(of, 0),
                                               of->call->inputs[1], NULL));
}

static bool gradient_of_max_pool_pick(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, call_like(of->call, &operation_max_pool_backward, weft_gradient_of_output(of, 0),
                                               of->call->inputs[1], of->call->inputs[0]));
}

static bool gradient_of_avg_pool(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, call_like(of->call, &operation_avg_pool_backward, weft_gradient_of_output(of, 0), NULL,
                                               of->call->inputs[0]));
}

static bool gradient_of_avg_pool_backward(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, call_like(of->call, &operation_avg_pool, weft_gradient_of_output(of, 0), NULL,
                                               of->call->inputs[0]));
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* The pooled dimensions of a call. */
typedef struct pooling {
    const char *function;
    int dims, first; /* the first pooled dimension of a */
    const weft_layout *a;
    weft_attributes attributes;
} pooling;

/* Sizes are limited so that products of two of them fit. */
static bool take_image(pooling *p, weft_tensor *a, int num_dims)
{
    if (weft_check_tensor(p->function, "a", a) == NULL) {
        return false;
    }
    if (num_dims < 1 || num_dims > AXES) {
        weft_fail(WEFT_ERR_INVALID, p->function, "num_dims is %d, expected 1 to %d", num_dims, AXES);
        return false;
    }
    p->a = weft_layout_of(a);
    p->dims = num_dims;
    p->first = p->a->ndim - num_dims;
    if (p->first < 1) {
        weft_fail(WEFT_ERR_SHAPE, p->function, "a has %d dimension%s, expected at least %d", p->a->ndim,
                  p->a->ndim == 1 ? "" : "s", num_dims + 1);
        return false;
    }
    for (int d = p->first; d < p->a->ndim; d++) {
        if (p->a->shape[d] < 1 || p->a->shape[d] > INT32_MAX) {
            weft_fail(WEFT_ERR_SHAPE, p->function, "a has size %lld in dimension %d, expected 1 to %d",
                      (long long)p->a->shape[d], d, INT32_MAX);
            return false;
        }
    }
    p->attributes = (weft_attributes){ .num_numbers = WEFT_POOLING_NUMBERS, .num_sizes = num_dims };
    p->attributes.numbers[WEFT_POOLING_DIMS] = num_dims;
    for (int axis = 0; axis < AXES; axis++) {
        p->attributes.numbers[WEFT_POOLING_KERNEL + axis] = 1;
        p->attributes.numbers[WEFT_POOLING_STRIDE + axis] = 1;
        p->attributes.numbers[WEFT_POOLING_DILATION + axis] = 1;
    }
    return true;
}

/* Keeps an option of pooled dimension d. */
static bool take_option(pooling *p, const char *name, int d, int number, int64_t value, int64_t least, int64_t most)
{
    p->attributes.numbers[number + AXES - p->dims + d] = value;
    if (value < least || value > most) {
        weft_fail(WEFT_ERR_INVALID, p->function, "%s is %lld in dimension %d of the image, expected %lld to %lld", name,
                  (long long)value, d, (long long)least, (long long)most);
        return false;
    }
    return true;
}

static bool take_size(pooling *p, int d, bool ceil_mode)
{
    const int64_t *numbers = p->attributes.numbers + AXES - p->dims + d;
    int64_t stride = numbers[WEFT_POOLING_STRIDE], padding = numbers[WEFT_POOLING_PADDING];
    int64_t reach = numbers[WEFT_POOLING_DILATION] * (numbers[WEFT_POOLING_KERNEL] - 1);
    int64_t size = p->a->shape[p->first + d], room = size + 2 * padding - reach - 1 + (ceil_mode ? stride - 1 : 0);
    if (room < 0) {
        weft_fail(WEFT_ERR_SHAPE, p->function, "a has size %lld in dimension %d, expected at least %lld for one window",
                  (long long)size, p->first + d, (long long)(size - room));
        return false;
    }
    int64_t last = room / stride;
    p->attributes.sizes[d] = ceil_mode && last * stride >= size + padding ? last : last + 1;
    return true;
}

/* `o`: gets the options. */
static bool take_options(pooling *p, const weft_pooling *options, weft_pooling *o)
{
    if (options == NULL) {
        weft_fail(WEFT_ERR_INVALID, p->function, "options is NULL");
        return false;
    }
    if (!WEFT_TAKE_OPTIONS(p->function, o, options)) {
        return false;
    }
    for (int d = 0; d < p->dims; d++) {
        int64_t kernel = o->kernel[d], stride = o->stride[d] == 0 ? kernel : o->stride[d];
        int64_t dilation = o->dilation[d] == 0 ? 1 : o->dilation[d];
        if (!take_option(p, "kernel", d, WEFT_POOLING_KERNEL, kernel, 1, INT32_MAX) ||
            !take_option(p, "stride", d, WEFT_POOLING_STRIDE, stride, 1, INT32_MAX) ||
            !take_option(p, "dilation", d, WEFT_POOLING_DILATION, dilation, 1, INT32_MAX) ||
            !take_option(p, "padding", d, WEFT_POOLING_PADDING, o->padding[d], 0,
                         weft_min_i64(INT32_MAX, (dilation * (kernel - 1) + 1) / 2)) ||
            !take_size(p, d, o->ceil_mode)) {
            return false;
        }
    }
    return true;
}

/* Options that the other kind of pooling has. */
static bool refuse(const pooling *p, const char *name, int64_t value, int64_t expected)
{
    if (value != expected) {
        weft_fail(WEFT_ERR_INVALID, p->function, "%s is %lld, which this function does not have: expected %lld", name,
                  (long long)value, (long long)expected);
    }
    return value == expected;
}

static bool take_averages(pooling *p, const weft_pooling *o)
{
    for (int axis = 0; axis < AXES; axis++) {
        if (!refuse(p, "dilation", p->attributes.numbers[WEFT_POOLING_DILATION + axis], 1)) {
            return false;
        }
    }
    if (o->divisor < 0 || o->divisor > INT32_MAX) {
        weft_fail(WEFT_ERR_INVALID, p->function, "divisor is %lld, expected 0 to %d", (long long)o->divisor, INT32_MAX);
        return false;
    }
    p->attributes.numbers[WEFT_POOLING_DIVISOR] = o->divisor == 0 && o->excludes_padding ? -1 : o->divisor;
    return true;
}

static bool take_sizes(pooling *p, const int64_t sizes[])
{
    if (sizes == NULL) {
        weft_fail(WEFT_ERR_INVALID, p->function, "sizes is NULL");
        return false;
    }
    for (int d = 0; d < p->dims; d++) {
        if (sizes[d] < -1 || sizes[d] > INT32_MAX) {
            weft_fail(WEFT_ERR_INVALID, p->function, "sizes[%d] is %lld, expected -1 to %d", d, (long long)sizes[d],
                      INT32_MAX);
            return false;
        }
        p->attributes.sizes[d] = sizes[d] < 0 ? p->a->shape[p->first + d] : sizes[d];
        p->attributes.numbers[WEFT_POOLING_KERNEL + AXES - p->dims + d] = 0;
    }
    return true;
}

static weft_call call_of(const pooling *p, const weft_operation *operation, weft_tensor *a)
{
    return (weft_call){
        .function = p->function, .operation = operation, .num_inputs = 1, .inputs = { a }, .attributes = p->attributes
    };
}

/* ---- public -------------------------------------------------------------------------------------------- */

static weft_tensor *max_pool(const pooling *p, weft_tensor *a, weft_tensor **indices)
{
    weft_call call = call_of(p, &operation_max_pool, a);
    return weft_dispatch_pair(&call, indices);
}

weft_tensor *weft_max_pool(weft_tensor *a, int num_dims, const weft_pooling *options, weft_tensor **indices)
{
    pooling p = { .function = "weft_max_pool" };
    weft_pooling o;
    if (indices != NULL) {
        *indices = NULL;
    }
    if (!take_image(&p, a, num_dims) || !take_options(&p, options, &o) ||
        !refuse(&p, "excludes_padding", o.excludes_padding, 0) || !refuse(&p, "divisor", o.divisor, 0)) {
        return NULL;
    }
    return max_pool(&p, a, indices);
}

weft_tensor *weft_adaptive_max_pool(weft_tensor *a, int num_dims, const int64_t sizes[], weft_tensor **indices)
{
    pooling p = { .function = "weft_adaptive_max_pool" };
    if (indices != NULL) {
        *indices = NULL;
    }
    return take_image(&p, a, num_dims) && take_sizes(&p, sizes) ? max_pool(&p, a, indices) : NULL;
}

weft_tensor *weft_avg_pool(weft_tensor *a, int num_dims, const weft_pooling *options)
{
    pooling p = { .function = "weft_avg_pool" };
    weft_pooling o;
    if (!take_image(&p, a, num_dims) || !take_options(&p, options, &o) || !take_averages(&p, &o)) {
        return NULL;
    }
    weft_call call = call_of(&p, &operation_avg_pool, a);
    return weft_dispatch(&call);
}

weft_tensor *weft_adaptive_avg_pool(weft_tensor *a, int num_dims, const int64_t sizes[])
{
    pooling p = { .function = "weft_adaptive_avg_pool" };
    if (!take_image(&p, a, num_dims) || !take_sizes(&p, sizes)) {
        return NULL;
    }
    weft_call call = call_of(&p, &operation_avg_pool, a);
    return weft_dispatch(&call);
}

const weft_operation *const weft_pooling_operations[] = {
    &operation_max_pool, &operation_max_pool_backward, &operation_max_pool_pick,
    &operation_avg_pool, &operation_avg_pool_backward, NULL,
};
