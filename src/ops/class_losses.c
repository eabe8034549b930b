/* Cross-entropy of classes with weights, and of probabilities as targets: from the logarithms of softmax. */
#include <stdio.h>

#include "ops/class_losses.h"

/* Numbers of a call. */
enum { LOSS_REDUCTION, LOSS_IGNORED, LOSS_PARTS, LOSS_NUMBERS };
/* After logits and targets, in this order. */
enum { HAS_GRADIENT = 1, HAS_WEIGHT = 2, SMOOTHS = 4 };

/* ---- what bodies share --------------------------------------------------------------------------------- */

static bool has(const weft_call *call, int64_t part)
{
    return call->attributes.numbers[LOSS_PARTS] & part;
}

static weft_loss_reduction reduction_of(const weft_call *call)
{
    return (weft_loss_reduction)call->attributes.numbers[LOSS_REDUCTION];
}

/* Targets are probabilities. */
static bool is_soft(const weft_call *call)
{
    return weft_dtype_is_floating(weft_layout_of(call->inputs[1])->dtype);
}

/* The type of the computation. */
static weft_dtype type_of(const weft_call *call)
{
    return weft_wide_type(weft_layout_of(call->inputs[0])->dtype);
}

static double num_rows(const weft_call *call)
{
    return (double)weft_layout_of(call->inputs[0])->shape[0];
}

/* The probability that smoothing gives to each class. */
static double smoothed(const weft_call *call)
{
    return call->scalars[0] / (double)weft_layout_of(call->inputs[0])->shape[1];
}

static weft_tensor *wide(const weft_call *call, int input)
{
    return weft_to_type(call->inputs[input], type_of(call));
}

/* The tensors that a body computes with, converted once to the type of the computation: gradients of several uses are added
 * up in that type. */
typedef struct class_loss {
    const weft_call *call;
    weft_tensor *logs; /* of the probabilities */
    weft_tensor *gradient, *weight; /* NULL: not given */
    /* For targets that are class numbers: whether a row's target is ignored, or no class (weft_nll() reports that); the weight
     * of its target, 0 for such rows. */
    weft_tensor *left_out, *row_weights;
} class_loss;

/* ---- numbers of classes -------------------------------------------------------------------------------- */

static void set_rows(class_loss *l)
{
    weft_tensor *targets = l->call->inputs[1];
    int64_t ignored = l->call->attributes.numbers[LOSS_IGNORED], count = weft_layout_of(l->call->inputs[0])->shape[1];
    weft_tensor *classes = weft_clamp(targets, 0, (double)count - 1);
    l->left_out = weft_ne(targets, classes);
    if (ignored >= 0 && ignored < count) {
        weft_tensor *is_ignored = weft_logical_not(weft_add_scalar(targets, -(double)ignored));
        l->left_out = weft_logical_or(l->left_out, is_ignored);
    }
    l->row_weights = weft_masked_fill(weft_index_select(l->weight, 0, classes), l->left_out, 0);
}

static weft_tensor *weighted_losses(const class_loss *l)
{
    double smoothing = l->call->scalars[0];
    weft_tensor *own =
        weft_nll(l->logs, l->call->inputs[1], l->call->attributes.numbers[LOSS_IGNORED], WEFT_LOSS_NONE);
    weft_tensor *losses = weft_mul(weft_scale(own, 1 - smoothing), l->row_weights);
    if (smoothing == 0) {
        return losses;
    }
    weft_tensor *all = weft_sum(weft_mul(l->logs, l->weight), 1, false);
    return weft_add_scaled(losses, weft_masked_fill(all, l->left_out, 0), -smoothed(l->call));
}

/* By the logarithms; `gradient`: a scalar or one for each row, or NULL for 1. */
static weft_tensor *weighted_backward(const class_loss *l, weft_tensor *gradient)
{
    double smoothing = l->call->scalars[0];
    weft_tensor *own = weft_scale(l->row_weights, 1 - smoothing);
    own = gradient == NULL ? own : weft_mul(own, gradient);
    weft_tensor *result = weft_nll_backward(own, l->logs, l->call->inputs[1],
                                            l->call->attributes.numbers[LOSS_IGNORED], WEFT_LOSS_NONE);
    if (smoothing == 0) {
        return result;
    }
    weft_tensor *rows = weft_to_type(weft_logical_not(l->left_out), type_of(l->call));
    rows = gradient == NULL ? rows : weft_masked_fill(weft_mul(rows, gradient), l->left_out, 0);
    return weft_addcmul(result, weft_unsqueeze(rows, 1), l->weight, -smoothed(l->call));
}

/* ---- probabilities ------------------------------------------------------------------------------------- */

/* The factors of the logarithms. */
static weft_tensor *soft_factors(const class_loss *l)
{
    double smoothing = l->call->scalars[0];
    weft_tensor *targets = wide(l->call, 1);
    if (smoothing != 0) {
        targets = weft_add_scalar(weft_scale(targets, 1 - smoothing), smoothed(l->call));
    }
    return weft_neg(l->weight == NULL ? targets : weft_mul(targets, l->weight));
}

static weft_tensor *soft_losses(const class_loss *l)
{
    return weft_sum(weft_mul(l->logs, soft_factors(l)), 1, false);
}

static weft_tensor *soft_backward(const class_loss *l, weft_tensor *gradient)
{
    weft_tensor *factors = soft_factors(l);
    bool by_row = reduction_of(l->call) == WEFT_LOSS_NONE;
    return gradient == NULL ? factors : weft_mul(factors, by_row ? weft_unsqueeze(gradient, 1) : gradient);
}

/* ---- bodies -------------------------------------------------------------------------------------------- */

static class_loss begin(const weft_call *call)
{
    class_loss l = { .call = call, .logs = weft_log_softmax(wide(call, 0), 1) };
    int next = 2;
    if (has(call, HAS_GRADIENT)) {
        l.gradient = wide(call, next++);
    }
    if (has(call, HAS_WEIGHT)) {
        l.weight = wide(call, next);
    }
    if (!is_soft(call)) {
        set_rows(&l);
    }
    return l;
}

static bool give(const weft_call *call, weft_tensor *result, weft_tensor *outputs[])
{
    outputs[0] = weft_to_type(result, weft_layout_of(call->inputs[0])->dtype);
    return outputs[0] != NULL;
}

static bool expand_forward(const weft_call *call, weft_tensor *outputs[])
{
    const class_loss l = begin(call);
    bool soft = is_soft(call);
    weft_tensor *result = soft ? soft_losses(&l) : weighted_losses(&l);
    if (reduction_of(call) != WEFT_LOSS_NONE) {
        result = weft_sum(result, WEFT_ALL_DIMS, false);
    }
    if (reduction_of(call) == WEFT_LOSS_MEAN) {
        result = soft ? weft_scale(result, 1 / num_rows(call))
                      : weft_div(result, weft_sum(l.row_weights, WEFT_ALL_DIMS, false));
    }
    return give(call, result, outputs);
}

/* The gradient of each row's loss; NULL: 1. The factor of a mean over all rows is left out. */
static weft_tensor *gradient_of_rows(const class_loss *l)
{
    if (is_soft(l->call) || reduction_of(l->call) != WEFT_LOSS_MEAN) {
        return l->gradient;
    }
    weft_tensor *count = weft_sum(l->row_weights, WEFT_ALL_DIMS, false);
    return l->gradient == NULL ? weft_reciprocal(count) : weft_div(l->gradient, count);
}

static bool expand_backward(const weft_call *call, weft_tensor *outputs[])
{
    const class_loss l = begin(call);
    weft_tensor *gradient = gradient_of_rows(&l);
    weft_tensor *result = is_soft(call) ? soft_backward(&l, gradient) : weighted_backward(&l, gradient);
    if (is_soft(call) && reduction_of(call) == WEFT_LOSS_MEAN && num_rows(call) > 0) {
        result = weft_scale(result, 1 / num_rows(call));
    }
    return give(call, weft_log_softmax_backward(result, l.logs, 1), outputs);
}

/* ---- operations ---------------------------------------------------------------------------------------- */

static void write_rule(const weft_call_layouts *call, const char *output, char *text, size_t size)
{
    const int64_t *numbers = call->attributes->numbers;
    bool by_row = numbers[LOSS_REDUCTION] == WEFT_LOSS_NONE;
    snprintf(text, size, "nc,%s%s%s->%s", weft_dtype_is_floating(call->inputs[1]->dtype) ? "nc" : "n",
             !(numbers[LOSS_PARTS] & HAS_GRADIENT) ? "" : by_row ? ",n" : ",",
             numbers[LOSS_PARTS] & HAS_WEIGHT ? ",c" : "", output);
}

static void write_forward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_rule(call, "n", text, size);
}

static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_rule(call, "nc", text, size);
}

static bool gradients_of_forward(const weft_gradient *of);

#define FORWARD_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))
#define BACKWARD_READS (FORWARD_READS | WEFT_READS_INPUT(3))

static const weft_operation operation_general_cross_entropy = {
    .name = "general_cross_entropy",
    .gradient = { .function = gradients_of_forward, .reads = { FORWARD_READS, FORWARD_READS, FORWARD_READS } },
    .write_rule = write_forward_rule,
    .rule_like = "nc,n,c->n",
    .inputs = { { "logits", WEFT_TYPES_FLOAT, false },
                { "targets", WEFT_TYPES_FLOAT | WEFT_TYPES_INDEX, false },
                { "weight", WEFT_TYPES_FLOAT, false } },
    .expand = expand_forward,
};

static const weft_operation operation_general_cross_entropy_backward = {
    .name = "general_cross_entropy_backward",
    .gradient = { .function = weft_gradient_of_body,
                  .reads = { BACKWARD_READS, BACKWARD_READS, BACKWARD_READS, BACKWARD_READS } },
    .write_rule = write_backward_rule,
    .rule_like = "nc,n,,c->nc",
    .inputs = { { "logits", WEFT_TYPES_FLOAT, false },
                { "targets", WEFT_TYPES_FLOAT | WEFT_TYPES_INDEX, false },
                { "gradient", WEFT_TYPES_FLOAT, false },
                { "weight", WEFT_TYPES_FLOAT, false } },
    .expand = expand_backward,
};

/* By the logits alone as the public function; by the others as well through the body. */
static bool gradients_of_forward(const weft_gradient *of)
{
    bool others = false;
    for (int i = 1; i < of->call->num_inputs; i++) {
        others |= weft_gradient_wanted(of, i);
    }
    if (others) {
        return weft_gradient_of_body(of);
    }
    weft_call call = *of->call;
    call.operation = &operation_general_cross_entropy_backward;
    call.attributes.numbers[LOSS_PARTS] |= HAS_GRADIENT;
    call.inputs[3] = call.inputs[2];
    call.inputs[2] = weft_gradient_of_output(of, 0);
    call.num_inputs++;
    return weft_give_gradient(of, 0, weft_dispatch(&call));
}

/* ---- the call ------------------------------------------------------------------------------------------ */

/* [c], of a floating type. False with the error kept. */
static bool check_weight(const weft_class_loss *l)
{
    if (l->weight == NULL) {
        return true;
    }
    if (weft_check_tensor(l->function, "weight", l->weight) == NULL) {
        return false;
    }
    const weft_layout *weight = weft_layout_of(l->weight), *logits = weft_layout_of(l->logits);
    if (!weft_dtype_is_floating(weight->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, l->function, "weight is %s, expected a floating type", weft_dtype_name(weight->dtype));
        return false;
    }
    if (weight->ndim != 1 || (logits->ndim == 2 && weight->shape[0] != logits->shape[1])) {
        char text[160];
        weft_fail(WEFT_ERR_SHAPE, l->function, "weight is %s, expected one number for each class",
                  weft_layout_format(weight, text, sizeof(text)));
        return false;
    }
    return true;
}

static void add_part(weft_call *call, int64_t part, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
        call->attributes.numbers[LOSS_PARTS] |= part;
    }
}

weft_tensor *weft_general_cross_entropy(const weft_class_loss *l)
{
    bool soft = weft_dtype_is_floating(weft_layout_of(l->targets)->dtype);
    if (!check_weight(l)) {
        return NULL;
    }
    if (soft && l->ignored >= 0) {
        weft_fail(WEFT_ERR_INVALID, l->function, "ignore_index is %lld, expected a negative number: targets are probabilities",
                  (long long)l->ignored);
        return NULL;
    }
    weft_call call = { .function = l->function,
                       .operation = l->backward ? &operation_general_cross_entropy_backward
                                                : &operation_general_cross_entropy,
                       .num_inputs = 2,
                       .inputs = { l->logits, l->targets },
                       .scalars = { l->smoothing } };
    call.attributes.num_numbers = LOSS_NUMBERS;
    call.attributes.numbers[LOSS_REDUCTION] = l->reduction;
    call.attributes.numbers[LOSS_IGNORED] = l->ignored;
    call.attributes.numbers[LOSS_PARTS] = l->smoothing != 0 ? SMOOTHS : 0;
    add_part(&call, HAS_GRADIENT, l->gradient);
    add_part(&call, HAS_WEIGHT, l->weight);
    return weft_dispatch(&call);
}

const weft_operation *const weft_class_loss_operations[] = {
    &operation_general_cross_entropy,
    &operation_general_cross_entropy_backward,
    NULL,
};
