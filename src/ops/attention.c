/* Attention. */
#include "codelets/attention.h"

#include <math.h>
#include <stdio.h>

#include "ops/ops.h"

enum { Q, K, V, MASK }; /* inputs */

/* The mask's last dimensions are s and t; those of size 1 are repeated, and so is what comes before. */
static void write_mask(const weft_layout *const inputs[], char *text, size_t size)
{
    const weft_layout *mask = inputs[MASK];
    const weft_layout *sides[] = { inputs[Q], inputs[K] };
    char names[3] = "";
    int own = mask->ndim < 2 ? mask->ndim : 2, used = 0;
    for (int d = 2 - own; d < 2; d++) {
        int64_t target = sides[d]->ndim < 2 ? 1 : sides[d]->shape[sides[d]->ndim - 2];
        names[used++] = mask->shape[mask->ndim - 2 + d] == 1 && target != 1 ? '1' : "st"[d];
    }
    snprintf(text, size, ",%s%s", mask->ndim > 2 ? "..." : "", names);
}

static void write_rule(const weft_call *call, const weft_layout *const inputs[], char *text, size_t size)
{
    char mask[16] = "";
    if (call->num_inputs > MASK) {
        write_mask(inputs, mask, sizeof(mask));
    }
    snprintf(text, size, "...s[e],...[te],...[t]f%s->...sf", mask);
}

static const weft_operation operation_attention = {
    .name = "attention",
    .write_rule = write_rule,
    .rule_like = "...s[e],...[te],...[t]f->...sf",
    .inputs = { { "q", WEFT_TYPES_FLOAT, true },
                { "k", WEFT_TYPES_FLOAT, true },
                { "v", WEFT_TYPES_FLOAT, true },
                { "mask", WEFT_TYPES_FLOAT | WEFT_TYPES_BOOL, false } },
    .kernel = weft_kernel_attention,
};

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                            const weft_attention_options *options)
{
    static const char function[] = "weft_attention";
    weft_attention_options given = options == NULL ? (weft_attention_options){ .causal = false } : *options;
    q = weft_check_tensor(function, "q", q);
    if (q == NULL) {
        return NULL;
    }
    double scale = given.scale;
    if (scale == 0 && q->layout->ndim > 0) {
        scale = 1 / sqrt((double)q->layout->shape[q->layout->ndim - 1]);
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_attention,
        .num_inputs = given.mask == NULL ? 3 : 4,
        .inputs = { q, k, v, given.mask },
        .attributes = { .num_numbers = 1, .numbers = { given.causal } },
        .scalars = { scale },
    });
}

const weft_operation *const weft_attention_operations[] = {
    &operation_attention,
    NULL,
};
