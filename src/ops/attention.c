/* Attention without a ring: a single call, with a rule. */
#include <stdio.h>
#include <string.h>

#include "ops/attention.h"

typedef weft_attention_operands attention;

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[e],...[te],...[t]f%s->...sf,...s", weft_attention_write_mask(call, 0, mask));
}

static bool goes_round(const weft_call_layouts *call)
{
    attention a = { .batch = 0 };
    const weft_attention_layouts of = { call->inputs[0], call->inputs[1], call->inputs[2],
                                        call->num_inputs > 3 ? call->inputs[3] : NULL };
    return weft_attention_find_ring(&a, &of, false);
}

static bool expand_attention(const weft_call *call, weft_tensor *outputs[])
{
    attention a = weft_attention_operands_of(call);
    weft_attention_layouts of = weft_attention_layouts_of(&a);
    return weft_attention_find_ring(&a, &of, false) &&
           weft_attention_in_ring(&a, 2 - (int)call->attributes.omitted, outputs);
}

/* Adds to a gradient; NULL: there is none yet. */
static weft_tensor *plus(weft_tensor *sum, weft_tensor *addend)
{
    return sum == NULL || addend == NULL ? addend : weft_add(sum, addend);
}

/* Adds the gradient of the log-sums to those of q and k: scale w k and scale w^T q with the weights w, which are a
 * result, and a gradient of values. */
static bool add_log_sums(const weft_gradient *of, const weft_attention_options *options, weft_tensor *results[])
{
    weft_tensor *const *in = of->call->inputs, *gradient = weft_gradient_of_output(of, 1), *of_values = NULL;
    weft_dtype type = weft_layout_of(in[0])->dtype;
    gradient = weft_scale(weft_unsqueeze_dim(of->call->function, gradient, weft_layout_of(gradient)->ndim),
                          options->scale);
    weft_tensor *keys = weft_attention(in[0], in[1], in[1], options), *rows = weft_mul(gradient, in[0]);
    if (keys == NULL || rows == NULL) {
        return false;
    }
    /* q may broadcast over the batch, as its gradient in results[0] does not any more. */
    const weft_layout *q = weft_layout_of(in[0]);
    results[0] = plus(results[0], weft_sum_to(weft_mul(gradient, keys), q->ndim, q->shape));
    rows = weft_to_type(weft_sum_to(rows, weft_layout_of(keys)->ndim, weft_layout_of(keys)->shape), type);
    bool done = weft_attention_backward(rows, in[0], in[1], in[1], keys, options, NULL, &of_values) != NULL;
    results[1] = done ? plus(results[1], of_values) : NULL;
    return results[0] != NULL && results[1] != NULL;
}

bool weft_attention_gradients(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *const *in = call->inputs, *gradient = weft_gradient_of_output(of, 0), *results[3] = { NULL };
    bool masked = call->num_inputs > 3;
    const weft_attention_options options = { .causal = call->attributes.numbers[WEFT_ATTENTION_CAUSAL] != 0,
                                             .scale = call->scalars[0],
                                             .mask = masked ? in[3] : NULL };
    if (gradient != NULL) {
        weft_tensor *output = of->outputs[0], *log_sums = of->outputs[1];
        results[0] = log_sums == NULL ? weft_attention_backward(gradient, in[0], in[1], in[2], output, &options,
                                                                &results[1], &results[2])
                                      : weft_attention_backward_with_log_sums(gradient, in[0], in[1], in[2], output,
                                                                              log_sums, &options, &results[1],
                                                                              &results[2]);
    }
    bool done = gradient == NULL || results[0] != NULL;
    done = done && (weft_gradient_of_output(of, 1) == NULL || add_log_sums(of, &options, results));
    for (int i = 0; i < 3 && done; i++) {
        done = results[i] == NULL || !weft_gradient_wanted(of, i) || weft_give_gradient(of, i, results[i]);
    }
    return done && (!masked || !weft_gradient_wanted(of, 3) || weft_attention_give_mask(of, &options));
}

#define READS_ALL                                                                                            \
    (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2) | WEFT_READS_INPUT(3) |                 \
     WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1))

/* The result, and the logarithm of the sum of e^score of each row, which its gradients need. Where columns of v are
 * sharded, all ranks along them have the same log-sums. */
static const weft_operation operation_attention = {
    .name = "attention",
    .gradient = { .function = weft_attention_gradients,
                  .reads = { READS_ALL, READS_ALL, READS_ALL, READS_ALL } },
    .write_rule = write_rule,
    .rule_like = "...s[e],...[te],...[t]f->...sf,...s",
    .inputs = { WEFT_ATTENTION_FLOATING("q"), WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_FLOATING("v"),
                WEFT_ATTENTION_MASK },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_GIVEN, .repeats = true } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_attention,
    .expand = expand_attention,
    .expands = goes_round,
};

weft_tensor *weft_attention_dispatch_as(const attention *a, const weft_operation *operation, weft_tensor **log_sums)
{
    weft_call call = weft_attention_call(a, operation, WEFT_ATTENTION_HAS_V);
    call.attributes.type = (int64_t)weft_wide_type(weft_layout_of(a->q)->dtype);
    weft_tensor *const inputs[] = { a->q, a->k, a->v, a->mask };
    memcpy(call.inputs, inputs, sizeof(inputs));
    call.num_inputs = a->mask == NULL ? 3 : 4;
    return weft_dispatch_pair(&call, log_sums);
}

weft_tensor *weft_attention_dispatch(const attention *a, weft_tensor **log_sums)
{
    return weft_attention_dispatch_as(a, &operation_attention, log_sums);
}

static weft_tensor *attend(attention *a, const weft_attention_options *options, weft_tensor **log_sums)
{
    if (log_sums != NULL) {
        *log_sums = NULL;
    }
    if (!weft_attention_begin(a, options)) {
        return NULL;
    }
    return weft_attention_has_options(a) ? weft_attention_with_options(a, log_sums)
                                         : weft_attention_dispatch(a, log_sums);
}

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                            const weft_attention_options *options)
{
    return attend(&(attention){ .function = "weft_attention", .q = q, .k = k, .v = v }, options, NULL);
}

weft_tensor *weft_attention_with_log_sums(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                          const weft_attention_options *options, weft_tensor **log_sums)
{
    return attend(&(attention){ .function = "weft_attention_with_log_sums", .q = q, .k = k, .v = v }, options,
                  log_sums);
}

const weft_operation *const weft_attention_operations[] = { &operation_attention, NULL };
