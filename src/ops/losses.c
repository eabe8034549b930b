/* Losses. Cross-entropy has a kernel on whole rows, whose losses are then summed; with sharded classes it is computed from
 * statistics of each row: the largest logit, the sum of exponentials, the target's logit. */
#include "codelets/losses.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codelets/elementwise.h"
#include "ops/loss_calls.h"
#include "ops/reductions.h"
#include "ops/row_reduce.h"

/* ---- rules --------------------------------------------------------------------------------------------- */

/* Input 0, the targets, and the statistics in the order of losses.h. */
static void write_inputs(const weft_call_layouts *call, const char *first, const char *output, char *text,
                         size_t size)
{
    int64_t parts = call->attributes->numbers[WEFT_LOSS_PARTS];
    bool per_row = call->attributes->numbers[WEFT_LOSS_PER_ROW];
    snprintf(text, size, "%s,n*%s%s%s%s%s->%s", first, parts & WEFT_LOSS_HAS_STATISTICS ? ",n1,n1" : "",
             parts & WEFT_LOSS_HAS_MEAN ? ",n1" : "", parts & WEFT_LOSS_HAS_LOG_SUMS ? ",n" : "",
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
    write_inputs(call, has_statistics(call) ? "n1" : "n[c]", per_row ? "n,n" : ",n", text, size);
}

static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, has_statistics(call) ? "nc" : "n[c]", "nc", text, size);
}

static void write_parts_rule(const weft_call_layouts *call, char *text, size_t size)
{
    write_inputs(call, "nc", call->attributes->numbers[WEFT_LOSS_PER_ROW] ? "n,n,n1,n1" : ",n,n1,n1", text, size);
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
static bool cross_entropy_expands(const weft_call_layouts *call);
static bool expand_cross_entropy(const weft_call *call, weft_tensor *outputs[]);
static bool gradient_of_cross_entropy(const weft_gradient *of);
static bool gradients_of_cross_entropy_backward(const weft_gradient *of);
static bool gradient_of_nll(const weft_gradient *of);
static bool gradient_of_nll_backward(const weft_gradient *of);

#define BACKWARD_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))
#define BACKWARD_READS_ALL (BACKWARD_READS | WEFT_READS_INPUT(3))
#define BACKWARD_READS_PARTS (BACKWARD_READS_ALL | WEFT_READS_INPUT(4))

/* Outputs: the loss, or one for each row; the rows' log-sums. Where losses are summed, the body asks for those of rows in
 * double precision (cross_entropy_rows). */
#define CROSS_ENTROPY(name_, type_, ...)                                                                     \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .write_rule = write_forward_rule,                                                                    \
        .inputs = { { "logits", WEFT_TYPES_FLOAT, false },                                                   \
                    { "targets", WEFT_TYPES_INDEX, false },                                                  \
                    { "largest", WEFT_TYPES_ALL, false },                                                    \
                    { "sum", WEFT_TYPES_ALL, false },                                                        \
                    { "mean", WEFT_TYPES_ALL, false },                                                       \
                    { "count", WEFT_TYPES_ALL, false } },                                                    \
        .outputs = { { .type = type_ }, { .type = WEFT_TYPE_GIVEN } },                                       \
        .num_outputs = 2,                                                                                    \
        .kernel = WEFT_KERNEL_cross_entropy,                                                                 \
        __VA_ARGS__                                                                                          \
    };
CROSS_ENTROPY(cross_entropy, WEFT_TYPE_FIRST, .rule_like = "n[c],n*->,n",
              .gradient = WEFT_GRADIENT_BY(gradient_of_cross_entropy,
                                           WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_OUTPUT(1)),
              .expand = expand_cross_entropy, .expands = cross_entropy_expands)
CROSS_ENTROPY(cross_entropy_rows, WEFT_TYPE_GIVEN, .rule_like = "n[c],n*->n,n",
              .gradient = WEFT_GRADIENT_OF_WHOLE("cross_entropy"))

/* Of sharded classes: outputs 2 and 3 are the rows' statistics, [n, 1], which ranks have agreed on. The gradient by them needs no
 * message. */
static const weft_operation operation_cross_entropy_of_parts = {
    .name = "cross_entropy_of_parts",
    .gradient = WEFT_GRADIENT_BY(gradient_of_cross_entropy, WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_OUTPUT(2) |
                                                                WEFT_READS_OUTPUT(3)),
    .write_rule = write_parts_rule,
    .rule_like = "nc,n*->,n,n1,n1",
    .inputs = { { "logits", WEFT_TYPES_FLOAT, false }, { "targets", WEFT_TYPES_INDEX, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_GIVEN }, { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 4,
    .expand = expand_cross_entropy,
};

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

LOSS(nll, log_probabilities, write_pick_rule, "nc,n*->", WEFT_KERNEL_pick, WEFT_TYPE_GIVEN, LINEAR, true,
     WEFT_GRADIENT_BY(gradient_of_nll, WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1)))
LOSS(target_logits, logits, write_pick_statistic_rule, "nc,n*->n1", WEFT_KERNEL_pick, WEFT_TYPE_GIVEN,
     NOT_LINEAR, false, WEFT_GRADIENT_OF_WHOLE("cross_entropy"))
/* Linear in `gradient`, but that is small: reducing it is cheaper than a Partial result. */
LOSS(cross_entropy_backward, logits, write_backward_rule, "n[c],n*->n[c]", WEFT_KERNEL_cross_entropy_backward,
     WEFT_TYPE_FIRST, NOT_LINEAR, false,
     { .function = gradients_of_cross_entropy_backward, .reads = { BACKWARD_READS, 0, BACKWARD_READS } })
LOSS(nll_backward, log_probabilities, write_pick_backward_rule, "nc,n*->nc", WEFT_KERNEL_pick_backward,
     WEFT_TYPE_FIRST, NOT_LINEAR, false,
     { .function = gradient_of_nll_backward, .reads = { [2] = WEFT_READS_INPUT(1) } })

static const weft_operation operation_cross_entropy_backward_with_log_sums = {
    .name = "cross_entropy_backward_with_log_sums",
    .gradient = { .function = gradients_of_cross_entropy_backward,
                  .reads = { BACKWARD_READS_ALL, 0, BACKWARD_READS_ALL, BACKWARD_READS_ALL } },
    .write_rule = write_backward_rule,
    .rule_like = "n[c],n*,n->n[c]",
    .inputs = { { "logits", WEFT_TYPES_FLOAT, false },
                { "targets", WEFT_TYPES_INDEX, false },
                { "log_sums", 1u << WEFT_F64, false },
                { "gradient", WEFT_TYPES_ALL, false },
                { "count", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_FIRST,
    .kernel = WEFT_KERNEL_cross_entropy_backward,
    .expand = expand_loss,
    .expands = loss_expands,
};

/* By the statistics that cross_entropy_of_parts has kept. */
static const weft_operation operation_cross_entropy_of_parts_backward = {
    .name = "cross_entropy_of_parts_backward",
    .gradient = { .function = gradients_of_cross_entropy_backward,
                  .reads = { BACKWARD_READS_PARTS, 0, BACKWARD_READS_PARTS, BACKWARD_READS_PARTS, BACKWARD_READS_PARTS } },
    .write_rule = write_backward_rule,
    .rule_like = "nc,n*,n1,n1,->nc",
    .inputs = { { "logits", WEFT_TYPES_FLOAT, false },
                { "targets", WEFT_TYPES_INDEX, false },
                { "largest", WEFT_TYPES_FLOAT, false },
                { "sum", WEFT_TYPES_FLOAT, false },
                { "gradient", WEFT_TYPES_ALL, false },
                { "count", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_FIRST,
    .kernel = WEFT_KERNEL_cross_entropy_backward,
    .expand = expand_loss,
    .expands = loss_expands,
};

static const weft_operation operation_count_targets = {
    .name = "count_targets",
    .gradient = WEFT_GRADIENT_ZERO("a count"),
    .rules = { "n*->" },
    .inputs = { { "targets", WEFT_TYPES_INDEX, false } },
    .outputs[0].type = WEFT_TYPE_INDEX,
    .kernel = WEFT_KERNEL_count_targets,
    .accumulates = true,
};

/* Operations of calls of the program. */
const weft_operation *const weft_loss_cross_entropy = &operation_cross_entropy,
                     *const weft_loss_cross_entropy_of_parts = &operation_cross_entropy_of_parts,
                     *const weft_loss_cross_entropy_backward = &operation_cross_entropy_backward,
                     *const weft_loss_cross_entropy_backward_with_log_sums =
                         &operation_cross_entropy_backward_with_log_sums,
                     *const weft_loss_nll = &operation_nll, *const weft_loss_nll_backward = &operation_nll_backward;

/* ---- calls of parts ------------------------------------------------------------------------------------ */

static bool is_backward(const weft_operation *operation)
{
    return weft_operation_is(operation, &operation_cross_entropy_backward) ||
           weft_operation_is(operation, &operation_cross_entropy_backward_with_log_sums) ||
           weft_operation_is(operation, &operation_cross_entropy_of_parts_backward) ||
           weft_operation_is(operation, &operation_nll_backward);
}

static bool is_of_parts(const weft_call *call)
{
    return weft_operation_is(call->operation, &operation_cross_entropy_of_parts);
}

/* Rows are sharded, and are not gathered; or statistics are asked for. */
static bool needs_statistics(const weft_call_layouts *call)
{
    if (weft_operation_is(call->operation, &operation_cross_entropy_of_parts)) {
        return true;
    }
    bool of_rows = weft_operation_is(call->operation, &operation_cross_entropy) ||
                   weft_operation_is(call->operation, &operation_cross_entropy_backward) ||
                   weft_operation_is(call->operation, &operation_cross_entropy_backward_with_log_sums);
    const weft_layout *values = call->inputs[0];
    return of_rows && values->ndim == 2 && weft_is_cut(values, 1 << 1) && values->shape[1] > 0;
}

/* A sum, or a mean over rows that must be counted. */
static bool cross_entropy_expands(const weft_call_layouts *call)
{
    return !call->attributes->numbers[WEFT_LOSS_PER_ROW] || needs_statistics(call);
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
    part.attributes.omitted = 0;
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
    weft_loss_add_part(part, WEFT_LOSS_HAS_STATISTICS, s.largest);
    part->inputs[part->num_inputs++] = s.sum;
    if (backward || call->scalars[WEFT_LOSS_SMOOTHING] == 0) {
        return true;
    }
    weft_tensor *mean = weft_sum_statistic(call->function, WEFT_STATISTIC_SUM, logits, NULL, 1 << 1, 0);
    mean = weft_place_like(call->function, mean, weft_layout_of(logits), 1 << 1);
    weft_loss_add_part(part, WEFT_LOSS_HAS_MEAN, mean);
    return mean != NULL;
}

/* What a forward pass has kept of the rows: log-sums, statistics, or nothing. */
typedef struct kept_rows {
    weft_tensor *log_sums, *largest, *sum;
} kept_rows;

/* Optional inputs of a backward call of the program's; NULL: it has none. */
static kept_rows kept_of(const weft_call *call)
{
    int64_t parts = call->attributes.numbers[WEFT_LOSS_PARTS];
    kept_rows kept = { .log_sums = parts & WEFT_LOSS_HAS_LOG_SUMS ? call->inputs[2] : NULL };
    if (parts & WEFT_LOSS_HAS_STATISTICS) {
        kept.largest = call->inputs[2];
        kept.sum = call->inputs[3];
    }
    return kept;
}

static void add_kept(weft_call *call, const kept_rows *kept)
{
    if (kept->largest != NULL) {
        weft_loss_add_part(call, WEFT_LOSS_HAS_STATISTICS, kept->largest);
        call->inputs[call->num_inputs++] = kept->sum;
    }
    weft_loss_add_part(call, WEFT_LOSS_HAS_LOG_SUMS, kept->log_sums);
}

static int gradient_input(const weft_call *call)
{
    const kept_rows kept = kept_of(call);
    return kept.largest != NULL ? 4 : kept.log_sums != NULL ? 3 : 2;
}

static weft_tensor *gradient_of_loss(const weft_call *call)
{
    bool there = call->attributes.numbers[WEFT_LOSS_PARTS] & WEFT_LOSS_HAS_GRADIENT;
    return there ? call->inputs[gradient_input(call)] : NULL;
}

/* Begins a call with what the program's call lacks: statistics, and the number of rows in a mean. False with the error
 * kept. */
static bool complete(const weft_call *call, weft_call *part)
{
    bool counts = call->attributes.numbers[WEFT_LOSS_COUNTS];
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    weft_tensor *count = counts ? count_targets(call) : NULL;
    *part = begin_part(call, call->inputs[0]);
    bool by_statistics = needs_statistics(&layouts);
    if ((counts && count == NULL) || (by_statistics && !add_statistics(call, part))) {
        return false;
    }
    /* Statistics replace log-sums, which have lost digits of large logits; a part of a row cannot find these again. */
    if (by_statistics && is_backward(call->operation)) {
        part->operation = &operation_cross_entropy_backward;
    } else if (!by_statistics) {
        const kept_rows kept = kept_of(call);
        add_kept(part, &kept);
    }
    weft_loss_add_part(part, WEFT_LOSS_HAS_GRADIENT, gradient_of_loss(call));
    weft_loss_add_part(part, WEFT_LOSS_HAS_COUNT, count);
    return true;
}

static bool expand_loss(const weft_call *call, weft_tensor *outputs[])
{
    weft_call part;
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    if (!complete(call, &part)) {
        return false;
    }
    weft_tensor *result = weft_dispatch_itself(&part);
    outputs[0] = result == NULL ? NULL : weft_to_type(result, layouts.inputs[0]->dtype);
    return outputs[0] != NULL;
}

/* The sum of the rows' losses, times their scale, in the type of the logits. */
static weft_tensor *sum_of_rows(const weft_call *call, weft_tensor *losses)
{
    const weft_layout *logits = weft_layout_of(call->inputs[0]);
    /* The mean over no row that counts is NaN, also without rows. */
    bool averages_none = call->attributes.numbers[WEFT_LOSS_COUNTS] && logits->shape[0] == 0;
    double scale = call->scalars[WEFT_LOSS_SCALE];
    weft_tensor *sum = losses == NULL ? NULL
                                      : weft_reduce(&(weft_reduction){ .function = call->function,
                                                                       .operation = weft_reduction_sum,
                                                                       .a = losses,
                                                                       .mask = 1,
                                                                       .type = weft_wide_type(logits->dtype),
                                                                       .scale = averages_none ? INFINITY
                                                                                : scale == 1  ? 0
                                                                                              : scale });
    return sum == NULL ? NULL : weft_to_type(sum, logits->dtype);
}

static bool expand_cross_entropy(const weft_call *call, weft_tensor *outputs[])
{
    bool per_row = call->attributes.numbers[WEFT_LOSS_PER_ROW], of_parts = is_of_parts(call);
    weft_call part;
    if (!complete(call, &part)) {
        return false;
    }
    if (of_parts) {
        part.operation = &operation_cross_entropy;
        outputs[2] = part.inputs[2];
        outputs[3] = part.inputs[3];
    }
    if (!per_row) {
        part.operation = &operation_cross_entropy_rows;
        part.attributes.numbers[WEFT_LOSS_PER_ROW] = true;
        part.scalars[WEFT_LOSS_SCALE] = 1;
    }
    part.attributes.type = WEFT_F64;
    part.attributes.omitted = of_parts ? call->attributes.omitted > 2 : call->attributes.omitted;
    bool done = weft_dispatch_itself_all(&part, outputs);
    outputs[0] = !done || per_row ? outputs[0] : sum_of_rows(call, outputs[0]);
    return done && outputs[0] != NULL;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The call's gradient by its values, times a gradient of its output (NULL: 1). */
static weft_tensor *backward_call(const weft_call *of, const weft_operation *operation, kept_rows kept, weft_tensor *gradient)
{
    weft_call call = *of;
    call.operation = operation;
    call.num_inputs = 2;
    call.attributes.type = (int64_t)weft_layout_of(of->inputs[0])->dtype;
    call.attributes.omitted = 0;
    call.attributes.numbers[WEFT_LOSS_PARTS] = 0;
    add_kept(&call, &kept);
    weft_loss_add_part(&call, WEFT_LOSS_HAS_GRADIENT, gradient);
    return weft_dispatch(&call);
}

static weft_tensor *softmax_call(const weft_call *of, kept_rows kept, weft_tensor *gradient)
{
    return backward_call(of, kept.largest != NULL    ? &operation_cross_entropy_of_parts_backward
                             : kept.log_sums != NULL ? &operation_cross_entropy_backward_with_log_sums
                                                     : &operation_cross_entropy_backward,
                         kept, gradient);
}

/* Of the largest logit and the sum of e^(logit - largest); equal ones share the former. */
static weft_tensor *gradient_of_statistics(const weft_gradient *of)
{
    weft_tensor *logits = of->call->inputs[0], *largest = of->outputs[2], *sum = of->outputs[3];
    weft_tensor *of_largest = weft_gradient_of_output(of, 2), *of_sum = weft_gradient_of_output(of, 3), *all = NULL;
    if (of_sum != NULL) {
        weft_tensor *by_largest = weft_neg(weft_mul(of_sum, sum));
        all = weft_mul(weft_exp(weft_sub(logits, largest)), of_sum);
        of_largest = of_largest == NULL ? by_largest : weft_add(of_largest, by_largest);
    }
    weft_tensor *hits = weft_to_type(weft_eq(logits, largest), weft_layout_of(sum)->dtype);
    weft_tensor *shared = weft_mul(weft_div(hits, weft_sum(hits, 1, true)), of_largest);
    return all == NULL || shared == NULL ? shared : weft_add(all, shared);
}

/* That of a log-sum by the row's logits is their softmax. */
static bool gradient_of_cross_entropy(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0), *of_log_sums = weft_gradient_of_output(of, 1), *sum = NULL;
    weft_tensor *logits = of->call->inputs[0];
    bool of_parts = is_of_parts(of->call);
    if (gradient != NULL) {
        sum = softmax_call(of->call, of_parts ? (kept_rows){ NULL, of->outputs[2], of->outputs[3] } : (kept_rows){ of->outputs[1] },
                           gradient);
    }
    if (of_log_sums != NULL && (gradient == NULL || sum != NULL)) {
        weft_dtype type = weft_layout_of(logits)->dtype;
        weft_tensor *each = weft_unsqueeze(weft_to_type(of_log_sums, type), 1);
        weft_tensor *own = weft_mul(weft_softmax(logits, 1), each);
        sum = sum == NULL || own == NULL ? own : weft_add(sum, own);
    }
    if (of_parts && (weft_gradient_of_output(of, 2) != NULL || weft_gradient_of_output(of, 3) != NULL)) {
        weft_tensor *own = gradient_of_statistics(of);
        sum = sum == NULL || own == NULL ? own : weft_add(sum, own);
    }
    return sum != NULL && weft_give_gradient(of, 0, sum);
}

static bool gradient_of_nll(const weft_gradient *of)
{
    return weft_give_gradient(of, 0,
                              backward_call(of->call, &operation_nll_backward, (kept_rows){ NULL },
                                            weft_gradient_of_output(of, 0)));
}

/* Of the softmax e^(logit - largest) / sum times a factor for each row. */
static bool gradients_by_statistics(const weft_gradient *of, const kept_rows *kept, weft_tensor *scaled)
{
    weft_tensor *powers = weft_exp(weft_sub(of->call->inputs[0], kept->largest));
    weft_tensor *each = scaled == NULL ? NULL : weft_mul(scaled, weft_div(powers, kept->sum));
    weft_tensor *less = each == NULL ? NULL : weft_neg(weft_sum(each, 1, true));
    return less != NULL && (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, each)) &&
           (!weft_gradient_wanted(of, 2) || weft_give_gradient(of, 2, less)) &&
           (!weft_gradient_wanted(of, 3) || weft_give_gradient(of, 3, weft_div(less, kept->sum)));
}

/* g / count (softmax - target) for each row, of logits and g; h is the gradient of that. With log-sums, the softmax is e^(logit -
 * log-sum), a function of both. */
static bool gradients_of_cross_entropy_backward(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *h = weft_gradient_of_output(of, 0), *logits = call->inputs[0];
    weft_tensor *gradient = gradient_of_loss(call);
    bool per_row = call->attributes.numbers[WEFT_LOSS_PER_ROW];
    int place = gradient_input(call);
    if (gradient != NULL && weft_gradient_wanted(of, place)) {
        weft_tensor *each = weft_mul(h, softmax_call(call, kept_of(call), NULL));
        if (each == NULL || !weft_give_gradient(of, place, per_row ? weft_sum(each, -1, false) : each)) {
            return false;
        }
    }
    /* Sharded classes do not use them. */
    const kept_rows kept = kept_of(call);
    weft_tensor *log_sums = kept.log_sums;
    bool has_log_sums = log_sums != NULL, wants_log_sums = has_log_sums && weft_gradient_wanted(of, 2);
    bool uses_log_sums = has_log_sums && !weft_is_cut(weft_layout_of(logits), 1 << 1);
    if (wants_log_sums && !uses_log_sums && !weft_give_gradient(of, 2, weft_zeros_like(log_sums))) {
        return false;
    }
    bool wants_statistics = kept.largest != NULL && (weft_gradient_wanted(of, 2) || weft_gradient_wanted(of, 3));
    if (!weft_gradient_wanted(of, 0) && !(wants_log_sums && uses_log_sums) && !wants_statistics) {
        return true;
    }
    /* The factor of each row's softmax gradient, from the loss of its target alone. */
    int last = weft_layout_of(logits)->ndim - 1;
    weft_tensor *at_target = backward_call(call, &operation_nll_backward, (kept_rows){ NULL }, gradient);
    weft_tensor *scaled = at_target == NULL ? NULL : weft_mul(h, weft_sum(at_target, last, true));
    if (kept.largest != NULL) {
        return gradients_by_statistics(of, &kept, scaled);
    }
    weft_tensor *softmax = weft_softmax(logits, last);
    if (!uses_log_sums) {
        return weft_give_gradient(of, 0, weft_softmax_backward(scaled, softmax, last));
    }
    weft_tensor *each = weft_mul(scaled, softmax);
    return each != NULL && (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, each)) &&
           (!wants_log_sums || weft_give_gradient(of, 2, weft_neg(weft_sum(each, last, false))));
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

const weft_operation *const weft_loss_operations[] = {
    &operation_cross_entropy,
    &operation_cross_entropy_rows,
    &operation_cross_entropy_of_parts,
    &operation_cross_entropy_backward,
    &operation_cross_entropy_backward_with_log_sums,
    &operation_cross_entropy_of_parts_backward,
    &operation_target_logits,
    &operation_nll,
    &operation_nll_backward,
    &operation_count_targets,
    NULL,
};
