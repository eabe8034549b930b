/* Attention without a ring: a single call, with a rule. */
#include <stdio.h>
#include <string.h>

#include "ops/attention.h"

typedef weft_attention_operands attention;

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[e],...[te],...[t]f%s->...sf", weft_attention_write_mask(call, 0, mask));
}

static const weft_operation operation_attention = {
    .name = "attention",
    .gradient = WEFT_GRADIENT_MISSING("attention_backward_q, attention_backward_kv"),
    .write_rule = write_rule,
    .rule_like = "...s[e],...[te],...[t]f->...sf",
    .inputs = { WEFT_ATTENTION_FLOATING("q"), WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_FLOATING("v"),
                WEFT_ATTENTION_MASK },
    .kernel = WEFT_KERNEL_attention,
};

weft_call weft_attention_forward(const attention *a)
{
    weft_call call = weft_attention_call(a, &operation_attention, WEFT_ATTENTION_HAS_V);
    weft_tensor *const inputs[] = { a->q, a->k, a->v, a->mask };
    memcpy(call.inputs, inputs, sizeof(inputs));
    call.num_inputs = a->mask == NULL ? 3 : 4;
    return call;
}

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                            const weft_attention_options *options)
{
    attention a = { .function = "weft_attention", .q = q, .k = k, .v = v };
    if (!weft_attention_begin(&a, options)) {
        return NULL;
    }
    weft_call call = weft_attention_forward(&a);
    if (weft_layout_of(a.q)->mesh->num_ranks == 1) {
        return weft_dispatch(&call);
    }
    if (!weft_dispatch_accepts(&call)) {
        return NULL;
    }
    if (!weft_attention_find_ring(&a)) {
        return weft_dispatch(&call);
    }
    if (!weft_composite_open(a.function)) {
        return NULL;
    }
    return weft_leave_scope(weft_attention_in_ring(&a));
}

const weft_operation *const weft_attention_operations[] = { &operation_attention, NULL };
