/* Normalisation of channels: over a batch, over groups of channels, over the elements of each sample. */
#include <math.h>

#include "ops/reductions.h"
#include "ops/row_reduce.h"

/* Numbers of a call. */
enum { NORM_PARTS, NORM_GROUPS, NORM_NUMBERS };
/* After a, in this order. */
enum { HAS_GAIN = 1, HAS_BIAS = 2, HAS_RUNNING = 4 };

/* A call of the public functions; vectors may be NULL. */
typedef struct channel_norm {
    const char *function;
    weft_tensor *a, *gain, *bias, *running_mean, *running_var;
    double epsilon;
} channel_norm;

/* ---- checks -------------------------------------------------------------------------------------------- */

/* NULL, or one number for each channel of a floating type. False with the error kept. */
static bool check_vector(const channel_norm *n, const char *name, weft_tensor *vector)
{
    if (vector == NULL) {
        return true;
    }
    if (weft_check_tensor(n->function, name, vector) == NULL) {
        return false;
    }
    const weft_layout *own = weft_layout_of(vector);
    int64_t channels = weft_layout_of(n->a)->shape[1];
    char text[160];
    if (!weft_dtype_is_floating(own->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, n->function, "%s is %s, expected a floating type", name, weft_dtype_name(own->dtype));
        return false;
    }
    if (own->ndim != 1 || own->shape[0] != channels) {
        weft_fail(WEFT_ERR_SHAPE, n->function, "%s is %s, expected one number for each of %lld channels", name,
                  weft_layout_format(own, text, sizeof(text)), (long long)channels);
        return false;
    }
    return weft_check_same_mesh(n->function, "a", weft_layout_of(n->a), name, own);
}

/* False with the error kept. */
static bool check(const channel_norm *n)
{
    if (weft_check_tensor(n->function, "a", n->a) == NULL) {
        return false;
    }
    const weft_layout *a = weft_layout_of(n->a);
    if (!weft_dtype_is_floating(a->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, n->function, "a is %s, expected a floating type", weft_dtype_name(a->dtype));
        return false;
    }
    if (a->ndim < 2) {
        weft_fail(WEFT_ERR_SHAPE, n->function, "a has %d dimensions, expected at least 2: samples and channels", a->ndim);
        return false;
    }
    if (!(n->epsilon >= 0)) {
        weft_fail(WEFT_ERR_INVALID, n->function, "epsilon is %g, expected at least 0", n->epsilon);
        return false;
    }
    return check_vector(n, "gain", n->gain) && check_vector(n, "bias", n->bias) &&
           check_vector(n, "running_mean", n->running_mean) && check_vector(n, "running_var", n->running_var);
}

/* Elements of each channel. */
static double count_of(const weft_layout *a)
{
    return weft_count_along(a, -1 & ~(int64_t)2);
}

static void add_part(weft_call *call, int64_t part, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
        call->attributes.numbers[NORM_PARTS] |= part;
    }
}

static weft_call begin_call(const channel_norm *n, const weft_operation *operation, int64_t groups)
{
    weft_call call = { .function = n->function, .operation = operation, .num_inputs = 1, .inputs = { n->a },
                       .scalars = { n->epsilon } };
    call.attributes.type = weft_wide_type(weft_layout_of(n->a)->dtype);
    call.attributes.num_numbers = NORM_NUMBERS;
    call.attributes.numbers[NORM_GROUPS] = groups;
    add_part(&call, HAS_GAIN, n->gain);
    add_part(&call, HAS_BIAS, n->bias);
    return call;
}

/* ---- bodies -------------------------------------------------------------------------------------------- */

static bool has(const weft_call *call, int64_t part)
{
    return call->attributes.numbers[NORM_PARTS] & part;
}

/* The type of the computation. */
static weft_tensor *wide(const weft_call *call, int input)
{
    return weft_to_type(call->inputs[input], (weft_dtype)call->attributes.type);
}

/* One number for each channel, in a shape that broadcasts to a's. */
static weft_tensor *along_channels(const weft_call *call, int input)
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int64_t shape[WEFT_MAX_DIMS] = { a->shape[1], 1, 1, 1, 1, 1, 1, 1 };
    return weft_reshape(wide(call, input), a->ndim - 1, shape);
}

/* Times the gain, plus the bias, in a's type. */
static bool give(const weft_call *call, weft_tensor *result, weft_tensor *outputs[])
{
    int next = 1;
    if (has(call, HAS_GAIN)) {
        result = weft_mul(result, along_channels(call, next++));
    }
    if (has(call, HAS_BIAS)) {
        result = weft_add(result, along_channels(call, next));
    }
    outputs[0] = weft_to_type(result, weft_layout_of(call->inputs[0])->dtype);
    return outputs[0] != NULL;
}

static weft_tensor *normalized(weft_tensor *a, weft_tensor *mean, weft_tensor *variance, double epsilon)
{
    return weft_mul(weft_sub(a, mean), weft_rsqrt(weft_add_scalar(variance, epsilon)));
}

/* Writes all dimensions but that of the channels; returns how many. */
static int other_dims(int ndim, int dims[])
{
    int count = 0;
    for (int d = 0; d < ndim; d++) {
        if (d != 1) {
            dims[count++] = d;
        }
    }
    return count;
}

/* Outputs: the result, and each channel's mean and sample variance. */
static bool expand_of_batch(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    int dims[WEFT_MAX_DIMS], num_dims = other_dims(layout->ndim, dims), set = weft_set_of_dims(num_dims, dims);
    weft_tensor *a = wide(call, 0);
    weft_tensor *mean = weft_mean(a, set, true), *variance = weft_var(a, set, 0, true);
    double count = count_of(layout);
    outputs[1] = weft_reshape(mean, 1, &layout->shape[1]);
    outputs[2] = weft_reshape(weft_scale(variance, count > 1 ? count / (count - 1) : 1), 1, &layout->shape[1]);
    return outputs[1] != NULL && outputs[2] != NULL && give(call, normalized(a, mean, variance, call->scalars[0]), outputs);
}

/* With given statistics, the last two inputs. */
static bool expand_of_running(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *mean = along_channels(call, call->num_inputs - 2);
    weft_tensor *variance = along_channels(call, call->num_inputs - 1);
    return give(call, normalized(wide(call, 0), mean, variance, call->scalars[0]), outputs);
}

/* Groups as vectors of their own. */
static bool expand_of_groups(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *a = weft_layout_of(call->inputs[0]);
    int64_t groups = call->attributes.numbers[NORM_GROUPS], size = groups == 0 ? 0 : a->shape[1] / groups;
    for (int d = 2; d < a->ndim; d++) {
        size *= a->shape[d];
    }
    weft_tensor *vectors = weft_reshape(wide(call, 0), 3, (const int64_t[]){ a->shape[0], groups, size });
    weft_tensor *result = weft_layer_norm(vectors, NULL, NULL, call->scalars[0]);
    return give(call, weft_reshape(result, a->ndim, a->shape), outputs);
}

#define ALL_INPUTS                                                                                           \
    (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2) | WEFT_READS_INPUT(3) | WEFT_READS_INPUT(4))
#define OF_BODY                                                                                              \
    {                                                                                                        \
        .function = weft_gradient_of_body, .reads = { ALL_INPUTS, ALL_INPUTS, ALL_INPUTS, ALL_INPUTS, ALL_INPUTS } \
    }
#define INPUTS                                                                                               \
    {                                                                                                        \
        { "a", WEFT_TYPES_FLOAT, false }, { "gain", WEFT_TYPES_FLOAT, false }, { "bias", WEFT_TYPES_FLOAT, false }, \
            { "running_mean", WEFT_TYPES_FLOAT, false }, { "running_var", WEFT_TYPES_FLOAT, false }           \
    }

static const weft_operation operation_batch_norm = {
    .name = "batch_norm",
    .gradient = OF_BODY,
    .inputs = INPUTS,
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_GIVEN }, { .type = WEFT_TYPE_GIVEN } },
    .num_outputs = 3,
    .expand = expand_of_batch,
};

static const weft_operation operation_batch_norm_of_running = {
    .name = "batch_norm_of_running",
    .gradient = OF_BODY,
    .inputs = INPUTS,
    .expand = expand_of_running,
};

static const weft_operation operation_group_norm = {
    .name = "group_norm",
    .gradient = OF_BODY,
    .inputs = INPUTS,
    .expand = expand_of_groups,
};

/* Groups of one channel. An operation of its own, because weft_autocast_begin() converts inputs of group_norm alone, as
 * PyTorch does. */
static const weft_operation operation_instance_norm = {
    .name = "instance_norm",
    .gradient = OF_BODY,
    .inputs = INPUTS,
    .expand = expand_of_groups,
};

/* A running statistic moves towards a batch's: no step of a program's computation, never recorded. */
static const weft_operation operation_running_average = {
    .name = "running_average",
    .gradient = WEFT_GRADIENT_STEP,
    .rules = { "A,A->A" },
    .inputs = { { "running", WEFT_TYPES_FLOAT, false }, { "statistic", WEFT_TYPES_FLOAT, false } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_lerp,
};

/* ---- batches ------------------------------------------------------------------------------------------- */

static bool move_average(const char *function, weft_tensor *running, weft_tensor *statistic, double momentum)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_running_average,
                                       .num_inputs = 2,
                                       .inputs = { running, statistic },
                                       .scalars = { momentum } }) != NULL;
}

/* False with the error kept: not both, or not changeable. */
static bool check_running(const channel_norm *n, bool training, double momentum)
{
    if ((n->running_mean == NULL) != (n->running_var == NULL) || (!training && n->running_mean == NULL)) {
        weft_fail(WEFT_ERR_INVALID, n->function, "%s is NULL",
                  n->running_mean == NULL ? "running_mean" : "running_var");
        return false;
    }
    if (!(momentum >= 0 && momentum <= 1)) {
        weft_fail(WEFT_ERR_INVALID, n->function, "momentum is %g, expected 0 to 1", momentum);
        return false;
    }
    if (!training || n->running_mean == NULL) {
        return true;
    }
    if (n->running_mean == n->running_var) {
        weft_fail(WEFT_ERR_INVALID, n->function, "running_mean and running_var are one tensor");
        return false;
    }
    if (n->running_mean == n->gain || n->running_mean == n->bias || n->running_var == n->gain || n->running_var == n->bias) {
        weft_fail(WEFT_ERR_INVALID, n->function, "running_mean or running_var is gain or bias too");
        return false;
    }
    if (weft_tensor_is_fake(n->running_mean) != weft_tensor_is_fake(n->running_var)) {
        weft_fail(WEFT_ERR_INVALID, n->function, "one of running_mean and running_var has data, and the other has none");
        return false;
    }
    if (weft_tensor_get(n->running_mean)->tape != NULL || weft_tensor_get(n->running_var)->tape != NULL) {
        weft_fail(WEFT_ERR_INVALID, n->function, "%s requires a gradient, but running statistics have none",
                  weft_tensor_get(n->running_mean)->tape != NULL ? "running_mean" : "running_var");
        return false;
    }
    if (weft_layout_of(n->running_mean)->has_partial || weft_layout_of(n->running_var)->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, n->function, "running_mean or running_var is Partial, and cannot be changed");
        return false;
    }
    return true;
}

weft_tensor *weft_batch_norm(weft_tensor *a, weft_tensor *running_mean, weft_tensor *running_var, weft_tensor *gain,
                             weft_tensor *bias, bool training, double momentum, double epsilon)
{
    const channel_norm n = { "weft_batch_norm", a, gain, bias, running_mean, running_var, epsilon };
    if (!check(&n) || !check_running(&n, training, momentum)) {
        return NULL;
    }
    if (!training) {
        weft_call call = begin_call(&n, &operation_batch_norm_of_running, 0);
        add_part(&call, HAS_RUNNING, running_mean);
        add_part(&call, HAS_RUNNING, running_var);
        return weft_dispatch(&call);
    }
    double count = count_of(weft_layout_of(a));
    if (count == 1) {
        weft_fail(WEFT_ERR_SHAPE, n.function, "a has one element in each channel, which has no variance");
        return NULL;
    }
    weft_tensor *outputs[3] = { NULL, NULL, NULL };
    weft_call call = begin_call(&n, &operation_batch_norm, 0);
    call.scalars[1] = momentum; /* compared between processes before anything is submitted */
    call.attributes.omitted = running_mean == NULL || count == 0 ? 2 : 0;
    bool done = weft_dispatch_all(&call, outputs);
    if (done && call.attributes.omitted == 0) {
        done = move_average(n.function, running_mean, outputs[1], momentum) &&
               move_average(n.function, running_var, outputs[2], momentum);
    }
    return done ? outputs[0] : NULL;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

weft_tensor *weft_group_norm(weft_tensor *a, int64_t groups, weft_tensor *gain, weft_tensor *bias, double epsilon)
{
    const channel_norm n = { .function = "weft_group_norm", .a = a, .gain = gain, .bias = bias, .epsilon = epsilon };
    if (!check(&n)) {
        return NULL;
    }
    int64_t channels = weft_layout_of(a)->shape[1];
    if (groups < 1 || channels % groups != 0) {
        weft_fail(WEFT_ERR_SHAPE, n.function, "groups is %lld, expected a divisor of %lld channels", (long long)groups,
                  (long long)channels);
        return NULL;
    }
    weft_call call = begin_call(&n, &operation_group_norm, groups);
    return weft_dispatch(&call);
}

weft_tensor *weft_instance_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon)
{
    const channel_norm n = { .function = "weft_instance_norm", .a = a, .gain = gain, .bias = bias, .epsilon = epsilon };
    if (!check(&n)) {
        return NULL;
    }
    weft_call call = begin_call(&n, &operation_instance_norm, weft_layout_of(a)->shape[1]);
    return weft_dispatch(&call);
}

const weft_operation *const weft_channel_norm_operations[] = {
    &operation_batch_norm,
    &operation_batch_norm_of_running,
    &operation_group_norm,
    &operation_instance_norm,
    &operation_running_average,
    NULL,
};
