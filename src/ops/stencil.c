#include "ops/stencil.h"

#include "base/text.h"

static void write_rule(const weft_call_layouts *call, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    int next = 0, ndim = 0;
    for (int i = 0; i < call->num_inputs; i++) {
        weft_text_add(&text, i == 0 ? "" : ",");
        for (int d = 0; d < call->inputs[i]->ndim; d++) {
            bool same = call->attributes->numbers[next++] == WEFT_STENCIL_SAME;
            weft_text_add(&text, "%c%s", 'a' + d, same ? "" : "~");
        }
        ndim = call->inputs[i]->ndim > ndim ? call->inputs[i]->ndim : ndim;
    }
    weft_text_add(&text, "->");
    for (int d = 0; d < ndim; d++) {
        weft_text_add(&text, "%c", 'a' + d);
    }
}

static weft_window window(const weft_call_layouts *call, int input, int dim)
{
    for (int i = 0; i < input; i++) {
        dim += call->inputs[i]->ndim;
    }
    int64_t reach = call->attributes->numbers[dim];
    return (weft_window){ .times = 1,
                          .over = 1,
                          .before = (reach >> 31) - (1 << 30),
                          .after = (reach & ((1LL << 31) - 1)) - (1 << 30) };
}

const weft_operation weft_operation_stencil = {
    .name = "stencil",
    .write_rule = write_rule,
    .rule_like = "a~b~,ab,->ab",
    .window = window,
    .gradient = { .missing = "it is a part of a captured graph" },
    .inputs = { { "a", WEFT_TYPES_ANY, false },
                { "b", WEFT_TYPES_ANY, false },
                { "c", WEFT_TYPES_ANY, false },
                { "d", WEFT_TYPES_ANY, false },
                { "e", WEFT_TYPES_ANY, false },
                { "f", WEFT_TYPES_ANY, false },
                { "g", WEFT_TYPES_ANY, false } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_stencil,
};
