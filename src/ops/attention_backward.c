/* Gradients of attention. */
#include <stdio.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/row_reduce.h"

typedef weft_attention_operands attention;

/* ---- rules --------------------------------------------------------------------------------------------- */

static void write_state_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[e],...[te]%s->...s[w]", weft_attention_write_mask(call, 0, mask));
}

static void write_backward_q_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[f],...s[e],...t[e],...t[f],...s[w]%s->...s[e]",
             weft_attention_write_mask(call, 1, mask));
}

static void write_backward_kv_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[f],...s[e],...t[e],...t[f],...s[w]%s->...t[x]",
             weft_attention_write_mask(call, 1, mask));
}

static void write_backward_all_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...[sf],...[se],...[te],...[tf],...[sw]%s->...[se],...[te],...[tf]",
             weft_attention_write_mask(call, 1, mask));
}

static bool lower_backward_step(const weft_lowering *lowering)
{
    return weft_attention_lower_step(lowering, 2);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static const weft_operation operation_state = {
    .name = "attention_state",
    .gradient = WEFT_GRADIENT_OF_WHOLE("attention"),
    .write_rule = write_state_rule,
    .rule_like = "...s[e],...[te]->...s[w]",
    .inputs = { WEFT_ATTENTION_FLOATING("q"), WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_MASK },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_attention_state,
};

static const weft_operation operation_statistics = {
    .name = "attention_statistics",
    .gradient = WEFT_GRADIENT_OF_WHOLE("attention"),
    .rules = { "A*[w],A[f],A[f]->A[x]" },
    .inputs = { WEFT_ATTENTION_WIDE("state"), WEFT_ATTENTION_ANY_FLOATING("gradient"),
                WEFT_ATTENTION_ANY_FLOATING("output") },
    .kernel = WEFT_KERNEL_attention_statistics,
};

#define BACKWARD(name_, rule, like, kernel_)                                                                 \
    static const weft_operation operation_##name_ = {                                                        \
        .name = "attention_" #name_,                                                                         \
        .gradient = WEFT_GRADIENT_OF_WHOLE("attention_backward"),                                            \
        .write_rule = rule,                                                                                  \
        .rule_like = like,                                                                                   \
        .inputs = { WEFT_ATTENTION_FLOATING("gradient"), WEFT_ATTENTION_FLOATING("q"),                       \
                    WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_FLOATING("v"),                              \
                    WEFT_ATTENTION_WIDE("statistics"), WEFT_ATTENTION_MASK },                                \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = kernel_,                                                                                   \
    };                                                                                                       \
    static const weft_operation operation_##name_##_step = {                                                 \
        .name = "attention_" #name_,                                                                         \
        .gradient = WEFT_GRADIENT_OF_WHOLE("attention_backward"),                                            \
        .choose = weft_attention_choose,                                                                     \
        .inputs = { WEFT_ATTENTION_WIDE("target"), WEFT_ATTENTION_ANY_FLOATING("gradient"),                  \
                    WEFT_ATTENTION_ANY_FLOATING("q"), WEFT_ATTENTION_ANY_FLOATING("k"),                      \
                    WEFT_ATTENTION_ANY_FLOATING("v"), WEFT_ATTENTION_WIDE("statistics"),                     \
                    WEFT_ATTENTION_MASK },                                                                   \
        .outputs[0].in_place = true,                                                                         \
        .kernel = kernel_,                                                                                   \
        .lower = lower_backward_step,                                                                        \
    };

BACKWARD(backward_q, write_backward_q_rule, "...s[f],...s[e],...t[e],...t[f],...s[w]->...s[e]",
         WEFT_KERNEL_attention_backward_q)
BACKWARD(backward_kv, write_backward_kv_rule, "...s[f],...s[e],...t[e],...t[f],...s[w]->...t[x]",
         WEFT_KERNEL_attention_backward_kv)

/* For ranks that have all rows and all keys of their batch. */
static const weft_operation operation_backward_all = {
    .name = "attention_backward_all",
    .gradient = WEFT_GRADIENT_OF_WHOLE("attention_backward"),
    .write_rule = write_backward_all_rule,
    .rule_like = "...[sf],...[se],...[te],...[tf],...[sw]->...[se],...[te],...[tf]",
    .inputs = { WEFT_ATTENTION_FLOATING("gradient"), WEFT_ATTENTION_FLOATING("q"), WEFT_ATTENTION_FLOATING("k"),
                WEFT_ATTENTION_FLOATING("v"), WEFT_ATTENTION_WIDE("statistics"), WEFT_ATTENTION_MASK },
    .outputs = { { .type = WEFT_TYPE_GIVEN }, { .type = WEFT_TYPE_GIVEN }, { .type = WEFT_TYPE_GIVEN } },
    .num_outputs = 3,
    .kernel = WEFT_KERNEL_attention_backward_all,
};

/* ---- calls --------------------------------------------------------------------------------------------- */

/* Whether a gradient or output has the result's shape and q's type. */
static bool check_like_result(const attention *a, const char *name, const weft_tensor *tensor)
{
    const weft_layout *layout = weft_layout_of(tensor), *q = weft_layout_of(a->q);
    if (layout->dtype != q->dtype) {
        weft_fail(WEFT_ERR_DTYPE, a->function, "%s is %s, expected %s, the type of q", name,
                  weft_dtype_name(layout->dtype), weft_dtype_name(q->dtype));
        return false;
    }
    if (layout->ndim != a->batch + 2 ||
        memcmp(layout->shape, a->shape, (size_t)layout->ndim * sizeof(a->shape[0])) != 0) {
        char text[160];
        weft_fail(WEFT_ERR_SHAPE, a->function,
                  "%s is %s, expected the shape of the result: %d dimensions, the last ones %lld and %lld",
                  name, weft_layout_format(layout, text, sizeof(text)), a->batch + 2,
                  (long long)a->shape[a->batch], (long long)a->shape[a->batch + 1]);
        return false;
    }
    return weft_check_same_mesh(a->function, "q", q, name, layout);
}

/* False with the error kept: log_sums has another type, shape or mesh. */
static bool check_log_sums(const attention *a)
{
    if (a->log_sums == NULL) {
        return true;
    }
    const weft_layout *layout = weft_layout_of(a->log_sums), *q = weft_layout_of(a->q);
    weft_dtype type = weft_wide_type(q->dtype);
    bool same = layout->ndim == a->batch + 1 &&
                memcmp(layout->shape, a->shape, (size_t)layout->ndim * sizeof(a->shape[0])) == 0;
    if (!same || layout->dtype != type) {
        char text[160];
        weft_fail(same ? WEFT_ERR_DTYPE : WEFT_ERR_SHAPE, a->function,
                  "log_sums is %s, expected %s, and the shape of the result without its last dimension",
                  weft_layout_format(layout, text, sizeof(text)), weft_dtype_name(type));
        return false;
    }
    return weft_check_same_mesh(a->function, "q", q, "log_sums", layout);
}

/* The softmax state of each row without values, placed as q and k; broadcast over missing batch
 * dimensions. */
static weft_tensor *plain_state(const attention *a)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_call call = weft_attention_call(a, &operation_state, 0);
    weft_attention_add_input(&call, a->q);
    weft_attention_add_input(&call, a->k);
    weft_attention_add_input(&call, a->mask);
    call.attributes.type = (int64_t)weft_wide_type(weft_layout_of(a->q)->dtype);
    call.attributes.num_sizes = 1;
    call.attributes.sizes[0] = WEFT_ATTENTION_STATE;
    weft_tensor *state = weft_dispatch(&call);
    memcpy(shape, a->shape, (size_t)(a->batch + 1) * sizeof(shape[0]));
    shape[a->batch + 1] = WEFT_ATTENTION_STATE;
    bool whole = state == NULL ||
                 (weft_layout_of(state)->ndim == a->batch + 2 &&
                  memcmp(weft_layout_of(state)->shape, shape, sizeof(shape[0]) * (size_t)a->batch) == 0);
    return whole ? state : weft_expand(state, a->batch + 2, shape);
}

static weft_tensor *statistics_of(const attention *a, weft_tensor *state)
{
    if (state == NULL) {
        return NULL;
    }
    return weft_dispatch(
        &(weft_call){ .function = a->function,
                      .operation = &operation_statistics,
                      .num_inputs = 3,
                      .inputs = { state, a->gradient, a->output },
                      .attributes = { .num_sizes = 1, .sizes = { WEFT_ATTENTION_STATISTICS } } });
}

static weft_call backward_call(const attention *a, const weft_operation *operation, weft_tensor *target,
                               weft_tensor *statistics, int64_t parts)
{
    weft_call call = weft_attention_call(a, operation, parts);
    weft_attention_add_input(&call, target);
    weft_attention_add_input(&call, a->gradient);
    weft_attention_add_input(&call, a->q);
    weft_attention_add_input(&call, a->k);
    weft_attention_add_input(&call, a->v);
    weft_attention_add_input(&call, statistics);
    weft_attention_add_input(&call, a->mask);
    call.attributes.type = target != NULL ? 0 : (int64_t)weft_wide_type(weft_layout_of(a->q)->dtype);
    return call;
}

/* With a target in a ring; else placed by the rule. `columns`: of the output if the rule does not
 * determine them; else -1. */
static weft_tensor *backward(const attention *a, const weft_operation *operation, weft_tensor *target,
                             weft_tensor *statistics, int64_t parts, int64_t columns, unsigned moving)
{
    weft_call call = backward_call(a, operation, target, statistics, parts);
    if (target != NULL) {
        return weft_attention_go_round(a, &call, moving);
    }
    if (columns >= 0) {
        call.attributes.num_sizes = 1;
        call.attributes.sizes[0] = columns;
    }
    return weft_dispatch(&call);
}

static weft_tensor *gradient_of_q(const attention *a, bool ring, weft_tensor *statistics)
{
    if (!ring) {
        return backward(a, &operation_backward_q, NULL, statistics, 0, -1, 0);
    }
    const weft_layout *q = weft_layout_of(a->q);
    weft_tensor *target =
        weft_attention_target(a, WEFT_ATTENTION_OF_ROWS, a->shape[a->batch], q->shape[q->ndim - 1]);
    return target == NULL
               ? NULL
               : backward(a, &operation_backward_q_step, target, statistics, 0, -1, 1u << 3 | 1u << 4);
}

/* Gradients of k and v side by side. */
static weft_tensor *gradients_of_kv(const attention *a, bool ring, weft_tensor *statistics, int64_t parts,
                                    int64_t columns)
{
    if (!ring) {
        return backward(a, &operation_backward_kv, NULL, statistics, parts, columns, 0);
    }
    const weft_layout *k = weft_layout_of(a->k);
    attention own = *a;
    weft_tensor *target = weft_attention_target(a, WEFT_ATTENTION_OF_KEYS, k->shape[k->ndim - 2], columns);
    if (target == NULL || !weft_attention_place(&own, &own.mask, WEFT_ATTENTION_OF_MASK_KEYS)) {
        return NULL;
    }
    return backward(&own, &operation_backward_kv_step, target, statistics, parts, -1,
                    1u << 1 | 1u << 2 | 1u << 5);
}

/* Columns [start, start + columns) of a gradient, in the shape and type of its tensor: summed over batch
 * dimensions that the tensor lacks. */
static weft_tensor *fit(const attention *a, weft_tensor *gradient, const weft_tensor *like, int64_t start,
                        int64_t columns)
{
    const weft_layout *layout = weft_layout_of(like);
    int last = gradient == NULL ? 0 : weft_layout_of(gradient)->ndim - 1;
    if (gradient != NULL && columns != weft_layout_of(gradient)->shape[last]) {
        gradient = weft_slice(gradient, last, start, start + columns, 1);
    }
    if (gradient != NULL && last == 2 && layout->ndim == 2 && weft_layout_of(gradient)->shape[0] == 1) {
        gradient = weft_squeeze_dims(a->function, gradient, 1);
    }
    bool same =
        gradient != NULL && weft_layout_of(gradient)->ndim == layout->ndim &&
        memcmp(weft_layout_of(gradient)->shape, layout->shape, (size_t)layout->ndim * sizeof(int64_t)) == 0;
    if (gradient != NULL && !same) {
        gradient = weft_sum_to(gradient, layout->ndim, layout->shape);
    }
    if (gradient != NULL && weft_layout_of(gradient)->has_partial &&
        weft_layout_of(gradient)->dtype != layout->dtype && weft_layout_of(gradient)->mesh == layout->mesh) {
        gradient = weft_place_like(a->function, gradient, layout, 0); /* sums are rounded once complete */
    }
    return gradient == NULL ? NULL : weft_to_type(gradient, layout->dtype);
}

/* Whether a tensor's rows (of its last dimension but one) are cut. */
static bool rows_are_cut(const weft_layout *layout)
{
    return layout->ndim < 2 || weft_is_cut(layout, (int64_t)1 << (layout->ndim - 2));
}

/* One operation for the three gradients saves products, but needs all rows and keys of a task's batch: several tasks only where the
 * first dimension is of the batch, which CPUs want, while a device is busy with one. */
static bool makes_all_at_once(const attention *a, const bool wanted[3])
{
    const weft_tensor *inputs[] = { a->gradient, a->q, a->k, a->v };
    bool whole = wanted[1] && wanted[2] && a->batch > 0 && (a->shape[0] > 1 || weft_runtime.devices.bytes > 0);
    for (int i = 0; i < 4; i++) {
        whole = whole && !rows_are_cut(weft_layout_of(inputs[i]));
    }
    return whole;
}

static bool all_at_once(const attention *a, weft_tensor *statistics, weft_tensor *results[3])
{
    const weft_tensor *like[] = { a->q, a->k, a->v };
    weft_tensor *made[3];
    weft_call call = backward_call(a, &operation_backward_all, NULL, statistics, 0);
    bool done = weft_dispatch_all(&call, made);
    for (int i = 0; i < 3 && done; i++) {
        const weft_layout *layout = weft_layout_of(like[i]);
        results[i] = fit(a, made[i], like[i], 0, layout->shape[layout->ndim - 1]);
        done = results[i] != NULL;
    }
    return done;
}

/* Gradients of q, k and v as wanted; in an open scope. False with the error kept. */
static bool compute_gradients(attention *a, const bool wanted[3], weft_tensor *results[3])
{
    const attention given = *a;
    const weft_layout *k = weft_layout_of(a->k), *v = weft_layout_of(a->v);
    int64_t e = k->shape[k->ndim - 1], f = v->shape[v->ndim - 1];
    int64_t columns[] = { e, wanted[1] ? e : 0, wanted[2] ? f : 0 };
    int64_t parts =
        (wanted[1] ? WEFT_ATTENTION_HAS_K_GRADIENT : 0) | (wanted[2] ? WEFT_ATTENTION_HAS_V_GRADIENT : 0);
    const weft_attention_layouts of = weft_attention_layouts_of(a);
    bool ring = weft_attention_find_ring(a, &of, true);
    if (ring && !weft_attention_place_all(a)) {
        return false;
    }
    weft_tensor *statistics = statistics_of(a, a->log_sums != NULL ? a->log_sums
                                               : ring              ? weft_attention_state(a, false)
                                                                   : plain_state(a));
    if (statistics == NULL || (ring && !weft_attention_place(a, &statistics, WEFT_ATTENTION_OF_ROWS))) {
        return false;
    }
    if (!ring && makes_all_at_once(a, wanted)) {
        return all_at_once(a, statistics, results);
    }
    results[0] = fit(a, gradient_of_q(a, ring, statistics), given.q, 0, e);
    if (results[0] == NULL || parts == 0) {
        return results[0] != NULL;
    }
    weft_tensor *both = gradients_of_kv(a, ring, statistics, parts, columns[1] + columns[2]);
    for (int i = 1; i < 3 && both != NULL; i++) {
        if (wanted[i]) {
            results[i] = fit(a, both, i == 1 ? given.k : given.v, i == 1 ? 0 : columns[1], columns[i]);
        }
    }
    return both != NULL && (!wanted[1] || results[1] != NULL) && (!wanted[2] || results[2] != NULL);
}

/* Accepts valid calls; the call itself expands into others. */
static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    bool has_log_sums = call->attributes->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_LOG_SUMS;
    snprintf(text, size, "...s[f],...s[e],...[te],...[tf],...s[f]%s%s->...s[e],...[te],...[tf]",
             has_log_sums ? ",...s" : "", weft_attention_write_mask(call, 1, mask));
}

/* numbers[WEFT_ATTENTION_PARTS]: which gradients are wanted beside that of q. */
static bool expand_backward(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *numbers = call->attributes.numbers;
    attention a = { .function = call->function,
                    .gradient = call->inputs[0],
                    .q = call->inputs[1],
                    .k = call->inputs[2],
                    .v = call->inputs[3],
                    .output = call->inputs[4],
                    .causal = numbers[WEFT_ATTENTION_CAUSAL] != 0,
                    .scale = call->scalars[0] };
    int used = 5;
    a.log_sums = numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_LOG_SUMS ? call->inputs[used++] : NULL;
    a.mask = numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_MASK ? call->inputs[used] : NULL;
    const weft_attention_layouts of = weft_attention_layouts_of(&a);
    weft_attention_find_shape(&a, &of);
    if (!check_like_result(&a, "gradient", a.gradient) || !check_like_result(&a, "output", a.output) ||
        !check_log_sums(&a)) {
        return false;
    }
    if (a.log_sums != NULL) {
        a.log_sums = weft_unsqueeze_dim(a.function, a.log_sums, a.batch + 1);
    }
    const bool wanted[3] = { true, (numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_K_GRADIENT) != 0,
                             (numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_V_GRADIENT) != 0 };
    bool made = numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_LOG_SUMS ? a.log_sums != NULL : true;
    return made && compute_gradients(&a, wanted, outputs);
}

#define READS(n) (WEFT_READS_INPUT(n) - 1) /* the first n inputs */

/* Outputs: the gradients of q, k and v. Rows' log-sums, where they were kept, need not be computed again. */
#define ALL_GRADIENTS(suffix, log_sums_, num_, ...)                                                          \
    static const weft_operation operation_backward##suffix = {                                               \
        .name = "attention_backward" #suffix,                                                                \
        .write_rule = write_backward_rule,                                                                   \
        .rule_like = "...s[f],...s[e],...[te],...[tf],...s[f]" log_sums_ "->...s[e],...[te],...[tf]",        \
        .gradient = { .function = weft_gradients_of_attention_backward,                                      \
                      .reads = { READS(num_), READS(num_), READS(num_), READS(num_), READS(num_),            \
                                 READS(num_), READS(num_) } },                                               \
        .inputs = { WEFT_ATTENTION_FLOATING("gradient"), WEFT_ATTENTION_FLOATING("q"),                       \
                    WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_FLOATING("v"),                              \
                    WEFT_ATTENTION_FLOATING("output"), __VA_ARGS__ },                                        \
        .num_outputs = 3,                                                                                    \
        .expand = expand_backward,                                                                           \
    };
ALL_GRADIENTS(, "", 6, WEFT_ATTENTION_MASK)
ALL_GRADIENTS(_with_log_sums, ",...s", 7, WEFT_ATTENTION_WIDE("log_sums"), WEFT_ATTENTION_MASK)

static weft_tensor *all_gradients(attention *a, const weft_operation *operation,
                                  const weft_attention_options *options, weft_tensor **gradient_k,
                                  weft_tensor **gradient_v)
{
    bool has_log_sums = operation != &operation_backward;
    weft_tensor **targets[3] = { NULL, gradient_k, gradient_v }, *results[3] = { NULL, NULL, NULL };
    for (int i = 1; i < 3; i++) {
        if (targets[i] != NULL) {
            *targets[i] = NULL;
        }
    }
    if (!weft_attention_begin(a, options) || weft_attention_refuse_options(a)) {
        return NULL;
    }
    weft_call call = weft_attention_call(a, operation,
                                         (gradient_k != NULL ? WEFT_ATTENTION_HAS_K_GRADIENT : 0) |
                                             (gradient_v != NULL ? WEFT_ATTENTION_HAS_V_GRADIENT : 0) |
                                             (has_log_sums ? WEFT_ATTENTION_HAS_LOG_SUMS : 0));
    weft_tensor *const inputs[] = { a->gradient, a->q, a->k, a->v, a->output, a->log_sums };
    call.num_inputs = has_log_sums ? 6 : 5;
    memcpy(call.inputs, inputs, (size_t)call.num_inputs * sizeof(inputs[0]));
    weft_attention_add_input(&call, a->mask);
    bool done = weft_dispatch_all(&call, results);
    for (int i = 1; i < 3 && done; i++) {
        if (targets[i] != NULL) {
            *targets[i] = results[i];
        }
    }
    return done ? results[0] : NULL;
}

weft_tensor *weft_attention_backward(weft_tensor *gradient, weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                     weft_tensor *output, const weft_attention_options *options,
                                     weft_tensor **gradient_k, weft_tensor **gradient_v)
{
    attention a = {
        .function = "weft_attention_backward", .q = q, .k = k, .v = v, .gradient = gradient, .output = output
    };
    return all_gradients(&a, &operation_backward, options, gradient_k, gradient_v);
}

weft_tensor *weft_attention_backward_with_log_sums(weft_tensor *gradient, weft_tensor *q, weft_tensor *k,
                                                   weft_tensor *v, weft_tensor *output, weft_tensor *log_sums,
                                                   const weft_attention_options *options,
                                                   weft_tensor **gradient_k, weft_tensor **gradient_v)
{
    attention a = { .function = "weft_attention_backward_with_log_sums",
                    .q = q,
                    .k = k,
                    .v = v,
                    .gradient = gradient,
                    .output = output,
                    .log_sums = log_sums };
    return all_gradients(&a, &operation_backward_with_log_sums, options, gradient_k, gradient_v);
}

const weft_operation *const weft_attention_backward_operations[] = {
    &operation_state,
    &operation_statistics,
    &operation_backward_q,
    &operation_backward_q_step,
    &operation_backward_kv,
    &operation_backward_kv_step,
    &operation_backward_all,
    &operation_backward,
    &operation_backward_with_log_sums,
    NULL,
};
