/* Losses of pairs of elements. An elementwise operation gives the loss of each element in the type of sums; weights are
 * multiplied, and the reduction follows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/row_reduce.h"

/* Numbers of a call. */
enum { LOSS_REDUCTION, LOSS_WEIGHT /* the number of this input, 0: none */, LOSS_NUMBERS };

/* The derivative of each element's loss by an input of the call. NULL: an error is kept. */
typedef weft_tensor *derivative_function(const weft_call *call, int input);

/* Types of 16 bits as WEFT_F32. */
static weft_tensor *wide(const weft_call *call, int input)
{
    weft_dtype type = weft_layout_of(call->inputs[input])->dtype;
    return weft_to_type(call->inputs[input], weft_wide_type(type));
}

/* ---- weights and reductions ---------------------------------------------------------------------------- */

static weft_tensor *loss_of_elements(const weft_call *call, const weft_operation *elements, int num_inputs)
{
    weft_call own = { .function = call->function, .operation = elements, .num_inputs = num_inputs };
    memcpy(own.inputs, call->inputs, (size_t)num_inputs * sizeof(own.inputs[0]));
    memcpy(own.scalars, call->scalars, sizeof(own.scalars));
    own.attributes.type = weft_wide_type(weft_layout_of(call->inputs[0])->dtype);
    return weft_dispatch(&own);
}

static bool expand_loss(const weft_call *call, const weft_operation *elements, int num_inputs, weft_tensor *outputs[])
{
    int64_t weight = call->attributes.numbers[LOSS_WEIGHT], reduction = call->attributes.numbers[LOSS_REDUCTION];
    weft_tensor *losses = loss_of_elements(call, elements, num_inputs);
    losses = losses == NULL || weight == 0 ? losses : weft_mul(losses, call->inputs[weight]);
    weft_tensor *result = losses == NULL                   ? NULL
                          : reduction == WEFT_LOSS_NONE    ? losses
                          : reduction == WEFT_LOSS_MEAN    ? weft_mean(losses, WEFT_ALL_DIMS, false)
                                                           : weft_sum(losses, WEFT_ALL_DIMS, false);
    outputs[0] = result == NULL ? NULL : weft_to_type(result, weft_layout_of(call->inputs[0])->dtype);
    return outputs[0] != NULL;
}

/* The call without its weight and its reduction. */
static weft_tensor *unweighted(const weft_call *call, int num_inputs)
{
    weft_call own = *call;
    own.num_inputs = num_inputs;
    own.attributes.numbers[LOSS_WEIGHT] = 0;
    own.attributes.numbers[LOSS_REDUCTION] = WEFT_LOSS_NONE;
    return weft_dispatch(&own);
}

/* The gradient of each element's loss, before its weight: a scalar where the loss is reduced. */
static weft_tensor *gradient_of_elements(const weft_gradient *of)
{
    const weft_layout *a = weft_layout_of(of->call->inputs[0]);
    bool averages = of->call->attributes.numbers[LOSS_REDUCTION] == WEFT_LOSS_MEAN;
    double count = weft_count_along(a, -1);
    weft_tensor *gradient = weft_to_type(weft_gradient_of_output(of, 0), weft_wide_type(a->dtype));
    return averages && count > 0 ? weft_scale(gradient, 1 / count) : gradient;
}

static bool give_loss(const weft_gradient *of, int num_inputs, derivative_function *derivative)
{
    const weft_call *call = of->call;
    int64_t weight = call->attributes.numbers[LOSS_WEIGHT];
    weft_tensor *gradient = gradient_of_elements(of);
    weft_tensor *weighted = weight == 0 ? gradient : weft_mul(gradient, call->inputs[weight]);
    bool done = weighted != NULL;
    for (int i = 0; i < num_inputs && done; i++) {
        done = !weft_gradient_wanted(of, i) || weft_give_gradient(of, i, weft_mul(weighted, derivative(call, i)));
    }
    return done && (weight == 0 || !weft_gradient_wanted(of, (int)weight) ||
                    weft_give_gradient(of, (int)weight, weft_mul(gradient, unweighted(call, num_inputs))));
}

/* Of two inputs and a weight, of three and a weight. */
#define READS_2 (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))
#define READS_3 (READS_2 | WEFT_READS_INPUT(3))

/* The loss of `count` inputs, whose elements are NAME_elements, and of a weight. Its arguments end with the rule of the
 * elements. */
#define LOSS(name_, count, derivative, first, second, third, ...)                                            \
    static const weft_operation operation_##name_##_elements = {                                             \
        .name = #name_ "_elements",                                                                          \
        .gradient = WEFT_GRADIENT_OF_WHOLE(#name_),                                                          \
        .inputs = { { first, WEFT_TYPES_FLOAT, true },                                                       \
                    { second, WEFT_TYPES_FLOAT, true },                                                      \
                    { third, WEFT_TYPES_FLOAT, false } },                                                    \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        __VA_ARGS__                                                                                          \
    };                                                                                                       \
    static bool gradients_of_##name_(const weft_gradient *of)                                                \
    {                                                                                                        \
        return give_loss(of, count, derivative);                                                             \
    }                                                                                                        \
    static bool expand_##name_(const weft_call *call, weft_tensor *outputs[])                                \
    {                                                                                                        \
        return expand_loss(call, &operation_##name_##_elements, count, outputs);                             \
    }                                                                                                        \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = gradients_of_##name_,                                                       \
                      .reads = { READS_##count, READS_##count, READS_##count, READS_##count } },             \
        .inputs = { { first, WEFT_TYPES_FLOAT, false },                                                      \
                    { second, WEFT_TYPES_FLOAT, false },                                                     \
                    { third, WEFT_TYPES_FLOAT, false },                                                      \
                    { "weight", WEFT_TYPES_FLOAT, false } },                                                 \
        .expand = expand_##name_,                                                                            \
    };

/* ---- checks -------------------------------------------------------------------------------------------- */

/* A call of the public functions; pos_weight and weight may be NULL. */
typedef struct element_loss {
    const char *function;
    const weft_operation *operation;
    const char *name; /* of a */
    weft_tensor *a, *b, *pos_weight, *weight;
    weft_loss_reduction reduction;
    double scalars[3];
} element_loss;

/* A weight of any floating type, that broadcasts to a's shape. False with the error kept. */
static bool check_weight(const element_loss *l, const char *name, weft_tensor *weight)
{
    if (weight == NULL) {
        return true;
    }
    if (weft_check_tensor(l->function, name, weight) == NULL) {
        return false;
    }
    const weft_layout *a = weft_layout_of(l->a), *own = weft_layout_of(weight);
    char texts[2][160];
    if (!weft_dtype_is_floating(own->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, l->function, "%s is %s, expected a floating type", name, weft_dtype_name(own->dtype));
        return false;
    }
    bool fits = own->ndim <= a->ndim;
    for (int d = 0; d < own->ndim && fits; d++) {
        fits = own->shape[d] == 1 || own->shape[d] == a->shape[a->ndim - own->ndim + d];
    }
    if (!fits) {
        weft_fail(WEFT_ERR_SHAPE, l->function, "%s, %s, does not broadcast to %s, %s", name,
                  weft_layout_format(own, texts[0], sizeof(texts[0])), l->name,
                  weft_layout_format(a, texts[1], sizeof(texts[1])));
    }
    return fits;
}

static weft_tensor *run(const element_loss *l)
{
    if (weft_check_tensor(l->function, l->name, l->a) == NULL || !weft_check_loss_reduction(l->function, l->reduction) ||
        !check_weight(l, "pos_weight", l->pos_weight) || !check_weight(l, "weight", l->weight)) {
        return NULL;
    }
    weft_call call = { .function = l->function, .operation = l->operation, .num_inputs = 2, .inputs = { l->a, l->b } };
    memcpy(call.scalars, l->scalars, sizeof(l->scalars));
    call.attributes.num_numbers = LOSS_NUMBERS;
    call.attributes.numbers[LOSS_REDUCTION] = l->reduction;
    if (l->pos_weight != NULL) {
        call.inputs[call.num_inputs++] = l->pos_weight;
    }
    if (l->weight != NULL) {
        call.attributes.numbers[LOSS_WEIGHT] = call.num_inputs;
        call.inputs[call.num_inputs++] = l->weight;
    }
    return weft_dispatch(&call);
}

/* ---- distances ----------------------------------------------------------------------------------------- */

/* scalars: below which distance the loss is a square, the factor of that, the slope from there. Antisymmetric in a
 * and b. */
static weft_tensor *derivative_of_huber(const weft_call *call, int input)
{
    double threshold = call->scalars[0];
    weft_tensor *difference = weft_sub(wide(call, input), wide(call, 1 - input));
    return threshold == 0 ? weft_scale(weft_sign(difference), call->scalars[2])
                          : weft_scale(weft_clamp(difference, -threshold, threshold), 2 * call->scalars[1]);
}

LOSS(huber, 2, derivative_of_huber, "a", "b", "weight", .rules = { "A,A->A" })

/* The numbers as above. */
static weft_tensor *distance(const char *function, weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction,
                             double threshold, double factor, double slope)
{
    return run(&(element_loss){ .function = function,
                                .operation = &operation_huber,
                                .name = "a",
                                .a = a,
                                .b = b,
                                .reduction = reduction,
                                .scalars = { threshold, factor, slope } });
}

weft_tensor *weft_huber(weft_tensor *a, weft_tensor *b, double delta, weft_loss_reduction reduction)
{
    static const char function[] = "weft_huber";
    if (!(delta > 0 && isfinite(delta))) {
        weft_fail(WEFT_ERR_INVALID, function, "delta is %g, expected a positive number", delta);
        return NULL;
    }
    return distance(function, a, b, reduction, delta, 0.5, delta);
}

weft_tensor *weft_smooth_l1(weft_tensor *a, weft_tensor *b, double beta, weft_loss_reduction reduction)
{
    static const char function[] = "weft_smooth_l1";
    if (!(beta >= 0 && isfinite(beta))) {
        weft_fail(WEFT_ERR_INVALID, function, "beta is %g, expected a number of at least 0", beta);
        return NULL;
    }
    return distance(function, a, b, reduction, beta, beta > 0 ? 0.5 / beta : 0, 1);
}

weft_tensor *weft_l1(weft_tensor *a, weft_tensor *b, weft_loss_reduction reduction)
{
    return distance("weft_l1", a, b, reduction, 0, 0, 1);
}

/* ---- probabilities ------------------------------------------------------------------------------------- */

static weft_tensor *one_minus(weft_tensor *a)
{
    return weft_add_scalar(weft_neg(a), 1);
}

/* (a - t) / (a (1 - a)), as PyTorch's bounded at the ends, by a number in single precision; log(1 - a) - log(a). */
static weft_tensor *derivative_of_binary(const weft_call *call, int input)
{
    weft_tensor *a = wide(call, 0), *targets = wide(call, 1);
    return input == 0 ? weft_div(weft_sub(a, targets), weft_clamp(weft_mul(a, one_minus(a)), 1e-12f, INFINITY))
                      : weft_sub(weft_log1p(weft_neg(a)), weft_log(a));
}

LOSS(binary_cross_entropy, 2, derivative_of_binary, "a", "targets", "weight", .rules = { "A,A->A" })

weft_tensor *weft_binary_cross_entropy(weft_tensor *a, weft_tensor *targets, weft_tensor *weight,
                                       weft_loss_reduction reduction)
{
    return run(&(element_loss){ .function = "weft_binary_cross_entropy",
                                .operation = &operation_binary_cross_entropy,
                                .name = "a",
                                .a = a,
                                .b = targets,
                                .weight = weight,
                                .reduction = reduction });
}

/* ---- logits -------------------------------------------------------------------------------------------- */

static weft_tensor *derivative_of_logit(const weft_call *call, int input)
{
    weft_tensor *logits = wide(call, 0);
    return input == 0 ? weft_sub(weft_sigmoid(logits), wide(call, 1)) : weft_neg(logits);
}

LOSS(logit_cross_entropy, 2, derivative_of_logit, "logits", "targets", "weight", .rules = { "A,A->A" })

/* The third one's sizes are 1 or those of the first. */
static void write_weighted_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char letters[WEFT_LETTERS_SIZE], weight[WEFT_LETTERS_SIZE];
    const weft_layout *own = call->inputs[2];
    int ndim = call->inputs[0]->ndim, d = 0;
    weft_write_letters(letters, ndim, 0, WEFT_LETTERS_ALL);
    for (; d < own->ndim; d++) {
        weight[d] = own->shape[d] == 1 ? '1' : (char)('a' + ndim - own->ndim + d);
    }
    weight[d] = '\0';
    snprintf(text, size, "%s,%s,%s->%s", letters, letters, weight, letters);
}

/* With p the weight of 1 and t the target, 1 + (p - 1) t weighs the logarithm of the sigmoid. */
static weft_tensor *derivative_of_weighted_logit(const weft_call *call, int input)
{
    weft_tensor *logits = wide(call, 0), *targets = wide(call, 1), *p = wide(call, 2);
    weft_tensor *excess = weft_add_scalar(p, -1);
    if (input == 0) {
        weft_tensor *share = weft_add_scalar(weft_mul(excess, targets), 1);
        return weft_sub(weft_mul(share, weft_sigmoid(logits)), weft_mul(p, targets));
    }
    weft_tensor *loss = weft_softplus(weft_neg(logits), 1, 40);
    return input == 1 ? weft_sub(weft_mul(excess, loss), logits) : weft_mul(targets, loss);
}

LOSS(weighted_logit_cross_entropy, 3, derivative_of_weighted_logit, "logits", "targets", "pos_weight",
     .write_rule = write_weighted_rule, .rule_like = "ab,ab,b->ab")

weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *logits, weft_tensor *targets, weft_tensor *weight,
                                                   weft_tensor *pos_weight, weft_loss_reduction reduction)
{
    return run(&(element_loss){ .function = "weft_binary_cross_entropy_with_logits",
                                .operation = pos_weight == NULL ? &operation_logit_cross_entropy
                                                                : &operation_weighted_logit_cross_entropy,
                                .name = "logits",
                                .a = logits,
                                .b = targets,
                                .weight = weight,
                                .pos_weight = pos_weight,
                                .reduction = reduction });
}

/* ---- distributions ------------------------------------------------------------------------------------- */

static weft_tensor *derivative_of_kl_div(const weft_call *call, int input)
{
    weft_tensor *target = wide(call, 1);
    return input == 0 ? weft_neg(target) : weft_add_scalar(weft_sub(weft_log(target), wide(call, 0)), 1);
}

static weft_tensor *derivative_of_kl_div_of_logs(const weft_call *call, int input)
{
    weft_tensor *target = wide(call, 1), *probability = weft_exp(target);
    return input == 0 ? weft_neg(probability)
                      : weft_mul(probability, weft_add_scalar(weft_sub(target, wide(call, 0)), 1));
}

LOSS(kl_div, 2, derivative_of_kl_div, "a", "target", "weight", .rules = { "A,A->A" })
LOSS(kl_div_of_logs, 2, derivative_of_kl_div_of_logs, "a", "target", "weight", .rules = { "A,A->A" })

weft_tensor *weft_kl_div(weft_tensor *a, weft_tensor *target, bool log_target, weft_loss_reduction reduction)
{
    return run(&(element_loss){ .function = "weft_kl_div",
                                .operation = log_target ? &operation_kl_div_of_logs : &operation_kl_div,
                                .name = "a",
                                .a = a,
                                .b = target,
                                .reduction = reduction });
}

#define OPERATIONS(name_) &operation_##name_, &operation_##name_##_elements

const weft_operation *const weft_element_loss_operations[] = {
    OPERATIONS(huber),
    OPERATIONS(binary_cross_entropy),
    OPERATIONS(logit_cross_entropy),
    OPERATIONS(weighted_logit_cross_entropy),
    OPERATIONS(kl_div),
    OPERATIONS(kl_div_of_logs),
    NULL,
};
