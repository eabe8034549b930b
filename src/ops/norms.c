/* Normalisation over the last dimensions, with kernels over whole vectors. If vectors are sharded, their statistics are
 * reduced first; no vector is gathered. */
#include "ops/norm_calls.h"

#include <stdio.h>

static void write_norm_rule(const weft_call_layouts *call, char *text, size_t size)
{
    weft_norm_letters l = weft_norm_write_letters(call, call->inputs[0]);
    char outputs[3 * WEFT_LETTERS_SIZE];
    bool centred = call->attributes->numbers[WEFT_NORM_CENTRED];
    snprintf(outputs, sizeof(outputs), "%s,%s%s%s", l.tensor, l.statistic, centred ? "," : "",
             centred ? l.statistic : "");
    weft_norm_write_inputs(call, &l, 1, outputs, text, size);
}

static bool has_parts_of_vectors(const weft_call_layouts *call);
static bool expand_forward(const weft_call *call, weft_tensor *outputs[]);

/* Inputs: a, and gain and bias where they are given. */
#define NORM_GRADIENT                                                                                        \
    {                                                                                                        \
        .function = weft_gradients_of_norm, .reads = { NORM_READS, NORM_READS, NORM_READS }                  \
    }
#define NORM_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_OUTPUT(1) | WEFT_READS_OUTPUT(2))
/* One number for each vector, which its parts on several ranks share: what the gradients need. */
#define STATISTIC                                                                                            \
    {                                                                                                        \
        .type = WEFT_TYPE_GIVEN, .repeats = true                                                             \
    }

/* Outputs: the result, 1 / sqrt(variance + epsilon), the mean. */
static const weft_operation operation_norm = {
    .name = "norm",
    .gradient = NORM_GRADIENT,
    .write_rule = write_norm_rule,
    .rule_like = "A*[b],[b]->A[b],A1,A1",
    .outputs = { { .type = WEFT_TYPE_FIRST }, STATISTIC, STATISTIC },
    .num_outputs = 3,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "bias", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "bias", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_norm,
    .expand = expand_forward,
    .expands = has_parts_of_vectors,
};

/* Only its input names are used: a bias without a gain. */
static const weft_operation operation_norm_bias = {
    .name = "norm",
    .gradient = NORM_GRADIENT,
    .write_rule = write_norm_rule,
    .rule_like = "A*[b],[b],[b]->A[b],A1,A1",
    .outputs = { { .type = WEFT_TYPE_FIRST }, STATISTIC, STATISTIC },
    .num_outputs = 3,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "bias", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_norm,
    .expand = expand_forward,
    .expands = has_parts_of_vectors,
};

static const weft_operation operation_rms_norm = {
    .name = "rms_norm",
    .gradient = NORM_GRADIENT,
    .write_rule = write_norm_rule,
    .rule_like = "A*[b],[b]->A[b],A1",
    .outputs = { { .type = WEFT_TYPE_FIRST }, STATISTIC },
    .num_outputs = 2,
    .inputs = { { "a", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_norm,
    .expand = expand_forward,
    .expands = has_parts_of_vectors,
};

static bool has_parts_of_vectors(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    return weft_is_cut(a, weft_norm_mask(a->ndim, call->attributes->numbers[WEFT_NORM_FIRST])) &&
           weft_norm_has_elements(a);
}

static bool expand_forward(const weft_call *call, weft_tensor *outputs[])
{
    weft_norm_call n = weft_norm_of(call, 1);
    if (!weft_norm_take_statistics(&n, weft_layout_of(n.a))) {
        return false;
    }
    int asked = weft_call_num_outputs(call) - (int)call->attributes.omitted;
    const weft_operation *operation = n.centred ? &operation_norm : &operation_rms_norm;
    weft_call parts = weft_norm_call_of(&n, operation, WEFT_F64, NULL, n.gain, n.bias);
    parts.attributes.omitted = weft_call_num_outputs(call) - 1;
    outputs[0] = weft_dispatch_itself(&parts);
    if (asked > 1) {
        outputs[1] = weft_rsqrt(weft_add_scalar(n.variance, n.epsilon));
    }
    if (asked > 2) {
        outputs[2] = n.mean;
    }
    return outputs[0] != NULL && (asked < 2 || outputs[1] != NULL);
}

/* The statistics as well, where `outputs` has room for them: as operation_norm's. */
static weft_tensor *forward(weft_norm_call n, int num_outputs, weft_tensor *outputs[])
{
    const weft_operation *operation = !n.centred                         ? &operation_rms_norm
                                      : n.gain == NULL && n.bias != NULL ? &operation_norm_bias
                                                                         : &operation_norm;
    if (!weft_norm_check(&n, false)) {
        return NULL;
    }
    weft_tensor *all[3] = { NULL, NULL, NULL };
    weft_call call = weft_norm_call_of(&n, operation, WEFT_F64, NULL, n.gain, n.bias);
    call.attributes.omitted = operation->num_outputs - num_outputs;
    bool done = weft_dispatch_all(&call, all);
    for (int i = 1; i < num_outputs && done; i++) {
        outputs[i] = all[i];
    }
    return done ? all[0] : NULL;
}

/* Where a statistic goes must be said. False with the error kept. */
static bool check_target(const char *function, const char *name, weft_tensor **target)
{
    if (target == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", name);
        return false;
    }
    *target = NULL;
    return true;
}

weft_tensor *weft_layer_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon)
{
    return forward((weft_norm_call){ .function = "weft_layer_norm",
                                     .centred = true,
                                     .a = a,
                                     .gain = gain,
                                     .bias = bias,
                                     .epsilon = epsilon },
                   1, NULL);
}

weft_tensor *weft_layer_norm_with_statistics(weft_tensor *a, weft_tensor *gain, weft_tensor *bias,
                                             double epsilon, weft_tensor **mean, weft_tensor **rstd)
{
    weft_norm_call n = { .function = "weft_layer_norm_with_statistics",
                         .centred = true,
                         .a = a,
                         .gain = gain,
                         .bias = bias,
                         .epsilon = epsilon };
    weft_tensor *outputs[3] = { NULL, NULL, NULL };
    if (!check_target(n.function, "mean", mean) || !check_target(n.function, "rstd", rstd)) {
        return NULL;
    }
    weft_tensor *result = forward(n, 3, outputs);
    *rstd = outputs[1];
    *mean = outputs[2];
    return result;
}

weft_tensor *weft_rms_norm(weft_tensor *a, weft_tensor *gain, double epsilon)
{
    return forward((weft_norm_call){ .function = "weft_rms_norm", .a = a, .gain = gain, .epsilon = epsilon },
                   1, NULL);
}

weft_tensor *weft_rms_norm_with_statistics(weft_tensor *a, weft_tensor *gain, double epsilon,
                                           weft_tensor **rstd)
{
    weft_norm_call n = {
        .function = "weft_rms_norm_with_statistics", .a = a, .gain = gain, .epsilon = epsilon
    };
    weft_tensor *outputs[2] = { NULL, NULL };
    if (!check_target(n.function, "rstd", rstd)) {
        return NULL;
    }
    weft_tensor *result = forward(n, 2, outputs);
    *rstd = outputs[1];
    return result;
}

const weft_operation *const weft_norm_operations[] = {
    &operation_norm,
    &operation_norm_bias,
    &operation_rms_norm,
    NULL,
};
