/* Calls of losses of rows with a target: arguments, and the public functions. */
#include "ops/loss_calls.h"

#include "codelets/losses.h"
#include "ops/class_losses.h"
#include "ops/row_reduce.h"

/* ---- arguments ----------------------------------------------------------------------------------------- */

typedef struct loss {
    const char *function, *argument; /* argument: the name of `values` */
    const weft_operation *operation;
    weft_tensor *values, *targets, *gradient; /* gradient NULL: 1 */
    weft_tensor *log_sums;                    /* kept by the forward pass, or NULL */
    weft_tensor **kept;                       /* where the forward pass keeps them, or NULL */
    weft_loss_reduction reduction;
    bool backward, ignores;
    int64_t ignored;
    double sign, smoothing;
    weft_tensor *weight; /* of the classes, or NULL */
    bool general;        /* there may be weights, and probabilities as targets */
    bool forward;        /* cross-entropy, with log-sums as output 1 */
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

void weft_loss_add_part(weft_call *call, int64_t part, weft_tensor *tensor)
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

/* Classes are sharded, so that each statistic of a row is a message: kept for the gradient. */
static bool keeps_statistics(const loss *l)
{
    const weft_layout *layout = weft_layout_of(l->values);
    return l->operation == weft_loss_cross_entropy && weft_operation_in_use(l->operation) == l->operation && layout->ndim == 2 &&
           weft_is_cut(layout, 1 << 1) && layout->shape[1] > 0;
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
    weft_loss_add_part(&call, WEFT_LOSS_HAS_LOG_SUMS, l->log_sums);
    weft_loss_add_part(&call, WEFT_LOSS_HAS_GRADIENT, l->gradient);
    if (!l->forward) {
        return weft_dispatch(&call);
    }
    call.attributes.type = WEFT_F64;
    call.operation = keeps_statistics(l) ? weft_loss_cross_entropy_of_parts : call.operation;
    call.attributes.omitted = weft_call_num_outputs(&call) - (l->kept != NULL ? 2 : 1);
    weft_tensor *outputs[WEFT_MAX_OUTPUTS] = { NULL };
    bool done = weft_dispatch_all(&call, outputs);
    if (l->kept != NULL) {
        *l->kept = done ? outputs[1] : NULL;
    }
    return done ? outputs[0] : NULL;
}

/* ---- cross-entropy ------------------------------------------------------------------------------------- */

static loss cross_entropy(const char *function, weft_tensor *logits, weft_tensor *targets)
{
    return (loss){ .function = function,
                   .argument = "logits",
                   .operation = weft_loss_cross_entropy,
                   .values = logits,
                   .targets = targets,
                   .forward = true,
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

weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *targets, const weft_cross_entropy_options *options)
{
    static const char function[] = "weft_cross_entropy";
    if (weft_check_tensor(function, "logits", logits) == NULL || weft_check_tensor(function, "targets", targets) == NULL) {
        return NULL;
    }
    loss l = cross_entropy(function, logits, targets);
    const weft_layout *layout = weft_layout_of(targets);
    bool plain = options == NULL && !(weft_dtype_is_floating(layout->dtype) && layout->ndim == 2);
    return plain || set_options(&l, options) ? run(&l) : NULL;
}

static loss cross_entropy_backward(const char *function, weft_tensor *gradient, weft_tensor *logits,
                                   weft_tensor *targets)
{
    loss l = cross_entropy(function, logits, targets);
    l.operation = weft_loss_cross_entropy_backward;
    l.gradient = gradient;
    l.backward = true;
    l.forward = false;
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

/* Without options as weft_cross_entropy(). With a weight, or probabilities as targets, the logarithms of softmax are kept
 * instead. False with the error kept. */
static bool set_options_with_log_sums(loss *l, const weft_cross_entropy_options *options)
{
    if (options != NULL && !set_options(l, options)) {
        return false;
    }
    l->general = false;
    if (l->weight != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, l->function, "weight is not NULL: cross-entropy with weights keeps no log-sums");
        return false;
    }
    return true;
}

weft_tensor *weft_cross_entropy_with_log_sums(weft_tensor *logits, weft_tensor *targets,
                                              const weft_cross_entropy_options *options, weft_tensor **log_sums)
{
    loss l = cross_entropy("weft_cross_entropy_with_log_sums", logits, targets);
    l.kept = log_sums;
    if (log_sums != NULL) {
        *log_sums = NULL;
    }
    return set_options_with_log_sums(&l, options) ? run(&l) : NULL;
}

weft_tensor *weft_cross_entropy_backward_with_log_sums(weft_tensor *gradient, weft_tensor *logits, weft_tensor *targets,
                                                       weft_tensor *log_sums, const weft_cross_entropy_options *options)
{
    loss l = cross_entropy_backward("weft_cross_entropy_backward_with_log_sums", gradient, logits, targets);
    l.operation = weft_loss_cross_entropy_backward_with_log_sums;
    l.log_sums = log_sums;
    bool right = set_options_with_log_sums(&l, options) && weft_check_tensor(l.function, "logits", logits) != NULL &&
                 weft_check_tensor(l.function, "targets", targets) != NULL &&
                 weft_check_tensor(l.function, "log_sums", log_sums) != NULL;
    return right ? run(&l) : NULL;
}

/* ---- negative logarithms of probabilities -------------------------------------------------------------- */

weft_tensor *weft_nll(weft_tensor *log_probabilities, weft_tensor *targets, int64_t ignore_index,
                      weft_loss_reduction reduction)
{
    return run(&(loss){ .function = "weft_nll",
                        .argument = "log_probabilities",
                        .operation = weft_loss_nll,
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
                        .operation = weft_loss_nll_backward,
                        .values = log_probabilities,
                        .targets = targets,
                        .gradient = gradient,
                        .backward = true,
                        .reduction = reduction,
                        .ignores = true,
                        .ignored = ignore_index,
                        .sign = -1 });
}

