/* Calls of attention: options, shapes, inputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/attention.h"

typedef weft_attention_operands attention;

bool weft_attention_begin(attention *a, const weft_attention_options *options)
{
    weft_attention_options given = { .causal = false };
    if (options != NULL && !WEFT_TAKE_OPTIONS(a->function, &given, options)) {
        return false;
    }
    a->causal = given.causal;
    a->scale = given.scale;
    a->mask = given.mask;
    a->grouped = given.grouped_heads;
    a->dropout = given.dropout;
    if (!(a->dropout >= 0 && a->dropout <= 1)) {
        weft_fail(WEFT_ERR_INVALID, a->function, "dropout is %g, expected 0 to 1", a->dropout);
        return false;
    }
    const weft_tensor_impl *q = weft_check_tensor(a->function, "q", a->q);
    if (q == NULL) {
        return false;
    }
    if (a->scale == 0 && q->layout->ndim > 0) {
        a->scale = 1 / sqrt((double)q->layout->shape[q->layout->ndim - 1]);
    }
    return true;
}

attention weft_attention_operands_of(const weft_call *call)
{
    return (attention){ .function = call->function,
                        .q = call->inputs[0],
                        .k = call->inputs[1],
                        .v = call->inputs[2],
                        .mask = call->num_inputs > 3 ? call->inputs[3] : NULL,
                        .causal = call->attributes.numbers[WEFT_ATTENTION_CAUSAL] != 0,
                        .scale = call->scalars[0] };
}

weft_attention_layouts weft_attention_layouts_of(const attention *a)
{
    return (weft_attention_layouts){ weft_layout_of(a->q), weft_layout_of(a->k), weft_layout_of(a->v),
                                     a->mask == NULL ? NULL : weft_layout_of(a->mask) };
}

void weft_attention_find_shape(attention *a, const weft_attention_layouts *of)
{
    const weft_layout *const all[] = { of->q, of->k, of->v, of->mask };
    a->batch = 0;
    for (int i = 0; i < 4; i++) {
        int dims = all[i] == NULL ? 0 : all[i]->ndim - 2;
        a->batch = dims > a->batch ? dims : a->batch;
    }
    for (int d = 0; d < a->batch; d++) {
        a->shape[d] = 1;
        for (int i = 0; i < 4; i++) {
            int own = all[i] == NULL ? -1 : d - (a->batch - (all[i]->ndim - 2));
            if (own >= 0 && all[i]->shape[own] != 1) {
                a->shape[d] = all[i]->shape[own];
            }
        }
    }
    a->shape[a->batch] = of->q->shape[of->q->ndim - 2];
    a->shape[a->batch + 1] = of->v->shape[of->v->ndim - 1];
}

weft_call weft_attention_call(const attention *a, const weft_operation *operation, int64_t parts)
{
    parts |= a->mask != NULL ? WEFT_ATTENTION_HAS_MASK : 0;
    return (weft_call){
        .function = a->function,
        .operation = operation,
        .attributes = { .num_numbers = WEFT_ATTENTION_NUMBERS,
                        .numbers = { [WEFT_ATTENTION_CAUSAL] = a->causal, [WEFT_ATTENTION_PARTS] = parts } },
        .scalars = { a->scale },
    };
}

void weft_attention_add_input(weft_call *call, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
    }
}

static bool has_mask(const weft_call_layouts *call)
{
    return call->attributes->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_MASK;
}

const char *weft_attention_write_mask(const weft_call_layouts *call, int q, char text[16])
{
    const weft_layout *mask = call->inputs[call->num_inputs - 1], *const *sides = &call->inputs[q];
    char names[3] = "";
    int used = 0;
    if (!has_mask(call)) {
        return strcpy(text, "");
    }
    for (int d = mask->ndim < 2 ? 2 - mask->ndim : 0; d < 2; d++) {
        int64_t target = sides[d]->ndim < 2 ? 1 : sides[d]->shape[sides[d]->ndim - 2];
        names[used++] = mask->shape[mask->ndim - 2 + d] == 1 && target != 1 ? '1' : "st"[d];
    }
    snprintf(text, 16, ",%s%s", mask->ndim > 2 ? "..." : "", names);
    return text;
}
