/* Losses. Cross-entropy has a kernel on whole rows; with sharded classes it is computed from statistics of
 * each row: the largest logit, the sum of exponentials, the target's logit. */
#include "codelets/losses.h"

#include <stdio.h>
#include <string.h>

#include "codelets/elementwise.h"
#include "ops/class_losses.h"
#include "ops/row_reduce.h"

/* ---- rules --------------------------------------------------------------------------------------------- */

/* Input 0, the targets, and the statistics in the order of losses.h. */
static void write_inputs(const weft_call_layouts *call, const char *first, const char *output, char *text,
                         size_t size)
{
    int64_t parts = call->attributes->numbers[WEFT_LOSS_PARTS];
    bool per_row = call->attributes->numbers[WEFT_LOSS_PER_ROW];
    snprintf(text, size, "%s,n%s%s%s%s->%s", first, parts & WEFT_LOSS_HAS_STATISTICS ? ",n1,n1" : "",
             parts & WEFT_LOSS_HAS_MEAN ? ",n1" : "",
             !(parts & WEFT_LOSS_HAS_GRADIENT) ? ""
             : per_row                         ? ",n"
                                               : ",",
             parts & WEFT_LOSS_HAS_COUNT ? "," : "", output);
}

static bool has_statistics(const weft_call_layouts *call)
{
    return call->attributes->numbers[WEFT_LOSS_PARTS] & WEFT_LOSS_HAS_STATISTICS;
}

static void write_forward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    bool per_row = call->attributes->numbers[WEFT_LOSS_PER_ROW];
    write_inputs(call, has_statistics(call) ? "n1" : "n[c]", per_row ? "n" : "", text, size);
}

static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, has_statistics(call) ? "nc" : "n[c]", "nc", text, size);
}

static void write_pick_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, "nc", call->attributes->numbers[WEFT_LOSS_PER_ROW] ? "n" : "", text, size);
}

/* The same with rows of one element (statistics). */
static void write_pick_statistic_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, "nc", "n1", text, size);
}

static void write_pick_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, "nc", "nc", text, size);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static bool loss_expands(const weft_call_layouts *call);
static bool expand_loss(const weft_call *call, weft_tensor *outputs[]);
static bool gradient_of_cross_entropy(const weft_gradient *of);
static bool gradients_of_cross_entropy_backward(const weft_gradient *of);
static bool gradient_of_nll(const weft_gradient *of);
static bool gradient_of_nll_backward(const weft_gradient *of);

#define BACKWARD_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))

/* The statistics may have any type: arguments of the program are checked before. */
#define LOSS(name_, first, rule_, like, kernel_, type_, linear_, adds, ...)                                  \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = __VA_ARGS__,                                                                             \
        .write_rule = rule_,                                                                                 \
        .rule_like = like,                                                                                   \
        .outputs[0].linear = linear_,                                                                        \
        .inputs = { { #first, WEFT_TYPES_FLOAT, false },                                                     \
                    { "targets", WEFT_TYPES_INDEX, false },                                                  \
                    { "gradient", WEFT_TYPES_ALL, false },                                                   \
                    { "sum", WEFT_TYPES_ALL, false },                                                        \
                    { "mean", WEFT_TYPES_ALL, false },                                                       \
                    { "count", WEFT_TYPES_ALL, false } },                                                    \
        .outputs[0].type = type_,                                                                            \
        .kernel = kernel_,                                                                                   \
        .accumulates = adds,                                                                                 \
        .expand = expand_loss,                                                                               \
        .expands = loss_expands,                                                                             \
    };
#define NOT_LINEAR                                                                                           \
    {                                                                                                        \
        .kind = WEFT_NOT_LINEAR                                                                              \
    }
#define LINEAR                                                                                               \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS                                  \
    }

LOSS(cross_entropy, logits, write_forward_rule, "n[c],n->", WEFT_KERNEL_cross_entropy, WEFT_TYPE_GIVEN,
     NOT_LINEAR, true, WEFT_GRADIENT_BY(gradient_of_cross_entropy, WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1)))
LOSS(nll, log_probabilities, write_pick_rule, "nc,n->", WEFT_KERNEL_pick, WEFT_TYPE_GIVEN, LINEAR, true,
     WEFT_GRADIENT_BY(gradient_of_nll, WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1)))
LOSS(target_logits, logits, write_pick_statistic_rule, "nc,n->n1", WEFT_KERNEL_pick, WEFT_TYPE_GIVEN,
     NOT_LINEAR, false, WEFT_GRADIENT_OF_WHOLE("cross_entropy"))
/* Linear in `gradient`, but that is small: reducing it is cheaper than a Partial result. */
LOSS(cross_entropy_backward, logits, write_backward_rule, "n[c],n->n[c]", WEFT_KERNEL_cross_entropy_backward,
     WEFT_TYPE_FIRST, NOT_LINEAR, false,
     { .function = gradients_of_cross_entropy_backward, .reads = { BACKWARD_READS, 0, BACKWARD_READS } })
LOSS(nll_backward, log_probabilities, write_pick_backward_rule, "nc,n->nc", WEFT_KERNEL_pick_backward,
     WEFT_TYPE_FIRST, NOT_LINEAR, false,
     { .function = gradient_of_nll_backward, .reads = { [2] = WEFT_READS_INPUT(1) } })

static const weft_operation operation_count_targets = {
    .name = "count_targets",
    .gradient = WEFT_GRADIENT_ZERO("a count"),
    .rules = { "n->" },
    .inputs = { { "targets", WEFT_TYPES_INDEX, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_count_targets,
    .accumulates = true,
};

/* ---- calls --------------------------------------------------------------------------------------------- */

typedef struct loss {
    const char *function, *argument; /* argument: the name of `values` */
    const weft_operation *operation;
    weft_tensor *values, *targets, *gradient; /* gradient NULL: 1 */
    weft_loss_reduction reduction;
    bool backward, ignores;
    int64_t ignored;
    double sign, smoothing;
    weft_tensor *weight; /* of the classes, or NULL */
    bool general;        /* targets may be probabilities */
} loss;

bool weft_check_loss_reduction(const char *function, weft_loss_reduction reduction)
{
    if ((unsigned)reduction <= WEFT_LOSS_NONE) {
        return true;
    }
    weft_fail(WEFT_ERR_INVALID, function,
              "reduction is %d, expected WEFT_LOSS_MEAN, WEFT_LOSS_SUM or WEFT_LOSS_NONE", (int)reduction);
    return false;
}

/* The gradient must have the type of its tensor. */
static bool check_gradient(const char *function, const char *argument, weft_tensor *gradient,
                           const weft_tensor *values)
{
    if (gradient == NULL) {
        return true;
    }
    if (weft_check_tensor(function, "gradient", gradient) == NULL) {
        return false;
    }
    weft_dtype type = weft_layout_of(values)->dtype;
    if (weft_dtype_is_floating(type) && weft_layout_of(gradient)->dtype != type) {
        weft_fail(WEFT_ERR_DTYPE, function, "gradient is %s, expected %s, the type of %s",
                  weft_dtype_name(weft_layout_of(gradient)->dtype), weft_dtype_name(type), argument);
        return false;
    }
    return true;
}

/* Rows without classes are refused. */
static bool check_classes(const loss *l)
{
    const weft_layout *layout = weft_layout_of(l->values);
    if (layout->ndim == 2 && layout->shape[0] > 0 && layout->shape[1] == 0) {
        weft_fail(WEFT_ERR_SHAPE, l->function, "%s has 0 classes for %lld rows", l->argument,
                  (long long)layout->shape[0]);
        return false;
    }
    return true;
}

/* False with the error kept. */
static bool check(const loss *l)
{
    if (weft_check_tensor(l->function, l->argument, l->values) == NULL || !check_classes(l) ||
        !weft_check_loss_reduction(l->function, l->reduction) ||
        !check_gradient(l->function, l->argument, l->gradient, l->values)) {
        return false;
    }
    if (!(l->smoothing >= 0 && l->smoothing <= 1)) {
        weft_fail(WEFT_ERR_INVALID, l->function, "label_smoothing is %g, expected 0 to 1", l->smoothing);
        return false;
    }
    return true;
}

static void add_part(weft_call *call, int64_t part, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
        call->attributes.numbers[WEFT_LOSS_PARTS] |= part;
    }
}

/* A call with input 0 and the targets. */
static weft_call begin_call(const loss *l, weft_tensor *first)
{
    const weft_layout *layout = weft_layout_of(l->values);
    bool per_row = l->reduction == WEFT_LOSS_NONE;
    weft_call call = {
        .function = l->function, .operation = l->operation, .num_inputs = 2, .inputs = { first, l->targets }
    };
    call.attributes.type = (int64_t)layout->dtype;
    call.attributes.num_numbers = WEFT_LOSS_NUMBERS;
    call.attributes.numbers[WEFT_LOSS_CLASSES] = layout->ndim == 2 ? layout->shape[1] : 0;
    call.attributes.numbers[WEFT_LOSS_IGNORES] = l->ignores;
    call.attributes.numbers[WEFT_LOSS_IGNORED] = l->ignored;
    call.attributes.numbers[WEFT_LOSS_PER_ROW] = per_row;
    call.attributes.numbers[WEFT_LOSS_COUNTS] = l->reduction == WEFT_LOSS_MEAN && l->ignores;
    bool by_rows = l->reduction == WEFT_LOSS_MEAN && !l->ignores && layout->ndim > 0;
    call.scalars[WEFT_LOSS_SCALE] = l->sign / (by_rows ? (double)layout->shape[0] : 1);
    call.scalars[WEFT_LOSS_SMOOTHING] = l->smoothing;
    return call;
}

/* ---- calls of parts ------------------------------------------------------------------------------------ */

static bool is_backward(const weft_operation *operation)
{
    return weft_operation_is(operation, &operation_cross_entropy_backward) ||
           weft_operation_is(operation, &operation_nll_backward);
}

/* Rows are sharded, and are not gathered. */
static bool needs_statistics(const weft_call_layouts *call)
{
    bool of_rows = weft_operation_is(call->operation, &operation_cross_entropy) ||
                   weft_operation_is(call->operation, &operation_cross_entropy_backward);
    const weft_layout *values = call->inputs[0];
    return of_rows && values->ndim == 2 && weft_is_cut(values, 1 << 1) && values->shape[1] > 0;
}

/* A mean over rows that must be counted, or a sum that is rounded. */
static bool loss_expands(const weft_call_layouts *call)
{
    const int64_t *numbers = call->attributes->numbers;
    bool rounded = !is_backward(call->operation) && !numbers[WEFT_LOSS_PER_ROW] && weft_sum_is_rounded(call);
    return numbers[WEFT_LOSS_COUNTS] || rounded || needs_statistics(call);
}

/* The call with other values, and no statistics yet. */
static weft_call begin_part(const weft_call *call, weft_tensor *first)
{
    weft_call part = *call;
    weft_dtype type = weft_layout_of(call->inputs[0])->dtype;
    part.num_inputs = 2;
    part.inputs[0] = first;
    part.attributes.type = call->attributes.numbers[WEFT_LOSS_PER_ROW] ? type : weft_wide_type(type);
    part.attributes.numbers[WEFT_LOSS_PARTS] = 0;
    part.attributes.numbers[WEFT_LOSS_COUNTS] = false;
    return part;
}

/* Number of rows in the mean, where it depends on the targets. */
static weft_tensor *count_targets(const weft_call *call)
{
    return weft_dispatch(&(weft_call){
        .function = call->function,
        .operation = &operation_count_targets,
        .num_inputs = 1,
        .inputs = { call->inputs[1] },
        .attributes = { .num_numbers = WEFT_LOSS_NUMBERS,
                        .numbers = { [WEFT_LOSS_IGNORES] = true,
                                     [WEFT_LOSS_IGNORED] = call->attributes.numbers[WEFT_LOSS_IGNORED] } } });
}

static weft_tensor *target_logits(const weft_call *call, weft_tensor *logits)
{
    weft_call part = begin_part(call, logits);
    part.operation = &operation_target_logits;
    part.attributes.type = (int64_t)weft_layout_of(logits)->dtype;
    part.scalars[WEFT_LOSS_SCALE] = 1;
    return weft_place_like(call->function, weft_dispatch_itself(&part), weft_layout_of(logits), 1 << 1);
}

/* Replaces the call by one over shards of rows: statistics first. False with the error kept. */
static bool add_statistics(const weft_call *call, weft_call *part)
{
    bool backward = is_backward(call->operation);
    weft_tensor *logits = weft_place_like(call->function, call->inputs[0], weft_layout_of(call->inputs[0]), 0);
    if (logits == NULL) {
        return false;
    }
    weft_row_statistics s = weft_softmax_statistics(call->function, logits, 1);
    part->inputs[0] = backward ? logits : target_logits(call, logits);
    if (s.sum == NULL || part->inputs[0] == NULL) {
        return false;
    }
    add_part(part, WEFT_LOSS_HAS_STATISTICS, s.largest);
    part->inputs[part->num_inputs++] = s.sum;
    if (backward || call->scalars[WEFT_LOSS_SMOOTHING] == 0) {
        return true;
    }
    weft_tensor *mean = weft_sum_statistic(call->function, WEFT_STATISTIC_SUM, logits, NULL, 1 << 1, 0);
    mean = weft_place_like(call->function, mean, weft_layout_of(logits), 1 << 1);
    add_part(part, WEFT_LOSS_HAS_MEAN, mean);
    return mean != NULL;
}

static bool expand_loss(const weft_call *call, weft_tensor *outputs[])
{
    bool counts = call->attributes.numbers[WEFT_LOSS_COUNTS];
    bool has_gradient = call->attributes.numbers[WEFT_LOSS_PARTS] & WEFT_LOSS_HAS_GRADIENT;
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    weft_tensor *count = counts ? count_targets(call) : NULL;
    weft_call part = begin_part(call, call->inputs[0]);
    if ((counts && count == NULL) || (needs_statistics(&layouts) && !add_statistics(call, &part))) {
        return false;
    }
    add_part(&part, WEFT_LOSS_HAS_GRADIENT, has_gradient ? call->inputs[2] : NULL);
    add_part(&part, WEFT_LOSS_HAS_COUNT, count);
    weft_tensor *result = weft_dispatch_itself(&part);
    outputs[0] = result == NULL ? NULL : weft_to_type(result, layouts.inputs[0]->dtype);
    return outputs[0] != NULL;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The call's gradient by its values, times a gradient of its output (NULL: 1). */
static weft_tensor *backward_call(const weft_call *of, const weft_operation *operation, weft_tensor *gradient)
{
    weft_call call = *of;
    call.operation = operation;
    call.num_inputs = 2;
    call.attributes.numbers[WEFT_LOSS_PARTS] = 0;
    add_part(&call, WEFT_LOSS_HAS_GRADIENT, gradient);
    return weft_dispatch(&call);
}

static bool gradient_of_cross_entropy(const weft_gradient *of)
{
    return weft_give_gradient(
        of, 0, backward_call(of->call, &operation_cross_entropy_backward, weft_gradient_of_output(of, 0)));
}

static bool gradient_of_nll(const weft_gradient *of)
{
    return weft_give_gradient(of, 0,
                              backward_call(of->call, &operation_nll_backward, weft_gradient_of_output(of, 0)));
}

/* g / count (softmax - target) for each row, of logits and g; h is the gradient of that. */
static bool gradients_of_cross_entropy_backward(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *logits = call->inputs[0];
    bool per_row = call->attributes.numbers[WEFT_LOSS_PER_ROW];
    if (call->num_inputs > 2 && weft_gradient_wanted(of, 2)) {
        weft_tensor *each = weft_mul(h, backward_call(call, &operation_cross_entropy_backward, NULL));
        if (each == NULL || !weft_give_gradient(of, 2, per_row ? weft_sum(each, -1, false) : each)) {
            return false;
        }
    }
    if (!weft_gradient_wanted(of, 0)) {
        return true;
    }
    /* The factor of each row's softmax gradient, from the loss of its target alone. */
    int last = weft_layout_of(logits)->ndim - 1;
    weft_tensor *at_target =
        backward_call(call, &operation_nll_backward, call->num_inputs > 2 ? call->inputs[2] : NULL);
    weft_tensor *scaled = at_target == NULL ? NULL : weft_mul(h, weft_sum(at_target, last, true));
    return weft_give_gradient(of, 0, weft_softmax_backward(scaled, weft_softmax(logits, last), last));
}

/* Linear in the gradient: the loss with the gradient in place of the values. */
static bool gradient_of_nll_backward(const weft_gradient *of)
{
    weft_call call = *of->call;
    call.operation = &operation_nll;
    call.num_inputs = 2;
    call.inputs[0] = weft_gradient_of_output(of, 0);
    call.attributes.numbers[WEFT_LOSS_PARTS] = 0;
    return of->call->num_inputs < 3 || !weft_gradient_wanted(of, 2) ||
           weft_give_gradient(of, 2, weft_dispatch(&call));
}

/* The kernels have neither weights nor probabilities. */
static bool is_general(const loss *l)
{
    return l->general &&
           (l->weight != NULL || weft_dtype_is_floating(weft_layout_of(l->targets)->dtype));
}

/* False with the error kept. */
static bool check_general_targets(const loss *l)
{
    const unsigned types = WEFT_TYPES_INDEX | WEFT_TYPES_FLOAT;
    return !l->general || (weft_check_tensor(l->function, "targets", l->targets) != NULL &&
                           weft_check_type(l->function, "targets", l->targets, types,
                                           "indices (i64 or i32), or probabilities of a floating type"));
}

static weft_tensor *run(const loss *l)
{
    if (!check(l) || !check_general_targets(l)) {
        return NULL;
    }
    if (is_general(l)) {
        return weft_general_cross_entropy(&(weft_class_loss){ .function = l->function,
                                                              .logits = l->values,
                                                              .targets = l->targets,
                                                              .gradient = l->gradient,
                                                              .weight = l->weight,
                                                              .reduction = l->reduction,
                                                              .backward = l->backward,
                                                              .ignored = l->ignored,
                                                              .smoothing = l->smoothing });
    }
    weft_call call = begin_call(l, l->values);
    add_part(&call, WEFT_LOSS_HAS_GRADIENT, l->gradient);
    return weft_dispatch(&call);
}

/* ---- cross-entropy ------------------------------------------------------------------------------------- */

static loss cross_entropy(const char *function, weft_tensor *logits, weft_tensor *targets)
{
    return (loss){ .function = function,
                   .argument = "logits",
                   .operation = &operation_cross_entropy,
                   .values = logits,
                   .targets = targets,
                   .sign = 1 };
}

/* False with the error kept. */
static bool set_options(loss *l, const weft_cross_entropy_options *given)
{
    weft_cross_entropy_options options = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    if (weft_require_init(l->function) != WEFT_OK ||
        (given != NULL && !WEFT_TAKE_OPTIONS(l->function, &options, given))) {
        return false;
    }
    l->reduction = options.reduction;
    l->ignores = true;
    l->ignored = options.ignore_index;
    l->smoothing = options.label_smoothing;
    l->weight = options.weight;
    l->general = true;
    return true;
}

weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets)
{
    loss l = cross_entropy("weft_cross_entropy", logits, targets);
    return run(&l);
}

weft_tensor *weft_cross_entropy_ex(weft_tensor *logits, weft_tensor *targets,
                                   const weft_cross_entropy_options *options)
{
    loss l = cross_entropy("weft_cross_entropy_ex", logits, targets);
    return set_options(&l, options) ? run(&l) : NULL;
}

static loss cross_entropy_backward(const char *function, weft_tensor *gradient, weft_tensor *logits,
                                   weft_tensor *targets)
{
    loss l = cross_entropy(function, logits, targets);
    l.operation = &operation_cross_entropy_backward;
    l.gradient = gradient;
    l.backward = true;
    return l;
}

weft_tensor *weft_cross_entropy_backward(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets)
{
    loss l = cross_entropy_backward("weft_cross_entropy_backward", gradient, logits, targets);
    return run(&l);
}

weft_tensor *weft_cross_entropy_ex_backward(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets,
                                            const weft_cross_entropy_options *options)
{
    loss l = cross_entropy_backward("weft_cross_entropy_ex_backward", gradient, logits, targets);
    return set_options(&l, options) ? run(&l) : NULL;
}

/* ---- negative logarithms of probabilities -------------------------------------------------------------- */

weft_tensor *weft_nll(weft_tensor *log_probabilities, weft_tensor *targets, int64_t ignore_index,
                      weft_loss_reduction reduction)
{
    return run(&(loss){ .function = "weft_nll",
                        .argument = "log_probabilities",
                        .operation = &operation_nll,
                        .values = log_probabilities,
                        .targets = targets,
                        .reduction = reduction,
                        .ignores = true,
                        .ignored = ignore_index,
                        .sign = -1 });
}

weft_tensor *weft_nll_backward(weft_tensor *gradient, weft_tensor *log_probabilities, weft_tensor *targets,
                               int64_t ignore_index, weft_loss_reduction reduction)
{
    return run(&(loss){ .function = "weft_nll_backward",
                        .argument = "log_probabilities",
                        .operation = &operation_nll_backward,
                        .values = log_probabilities,
                        .targets = targets,
                        .gradient = gradient,
                        .backward = true,
                        .reduction = reduction,
                        .ignores = true,
                        .ignored = ignore_index,
                        .sign = -1 });
}

const weft_operation *const weft_loss_operations[] = {
    &operation_cross_entropy,
    &operation_cross_entropy_backward,
    &operation_target_logits,
    &operation_nll,
    &operation_nll_backward,
    &operation_count_targets,
    NULL,
};
